"""The table of kernels for DeviceArray.

Each file in _FILES holds the kernels of one idea, as functions that take the table first, and lists them in its KERNELS.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import driver, faults, pointwise
from .array import DeviceArray, is_held_once, number, supported
from .elementwise import Rule
from .launch import Kernel, kernel
from .memory import Pool, pool
from .symbols import operators
from .transfer import copied

_FILES = (
    "arrays", "pointwise", "reductions", "scans", "sorting", "indexing", "joining", "products", "factorizations",
    "softmaxes", "normalisation", "convolution", "pooling", "recurrent", "randomness", "optimisers", "exchange", "absent",
)  # fmt: skip


class PycudaKernels:
    """The kernels of backends/kernels.py on the device."""

    name = "pycuda"
    array = DeviceArray
    has_threads = False
    compiles = True
    negative: Callable[..., Any]  # these, as most kernels, are set from the files
    absolute: Callable[..., Any]
    astype: Callable[..., Any]
    copy: Callable[..., Any]
    matmul: Callable[..., Any]
    getitem: Callable[..., Any]
    scalar: Callable[..., DeviceArray]
    adopt: Callable[..., DeviceArray | None]
    math_mode: Callable[[], str] = staticmethod(lambda: "default")

    def __init__(self) -> None:
        driver.device()
        self._said = threading.local()
        for name, rule in pointwise.rules(self).items():
            setattr(self, name, rule)
        for file in _FILES:
            for name, function in importlib.import_module(f".{file}", __package__).KERNELS.items():
                setattr(self, name, functools.partial(function, self))
        self._give_operators()

    def _give_operators(self) -> None:
        """Python's operators of a DeviceArray are this table's kernels."""
        operators(DeviceArray, self.__getattribute__, functools.partial(_operand, self))
        more: dict[str, Callable[..., Any]] = {
            "neg": lambda x: self.negative(x),
            "pos": lambda x: self.copy(x),
            "abs": lambda x: self.absolute(x),
            "matmul": lambda a, b: NotImplemented if (b := self._array(b)) is None else self.matmul(a, b),
            "rmatmul": lambda b, a: NotImplemented if (a := self._array(a)) is None else self.matmul(a, b),
            "getitem": lambda x, index: self.getitem(x, index),
        }
        for name, operator in more.items():
            setattr(DeviceArray, f"__{name}__", operator)
        for name, called in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power"}.items():
            setattr(DeviceArray, f"__i{name}__", self._in_place(called))

    def _array(self, x: Any) -> DeviceArray | None:
        return self.adopt(x) if isinstance(x, (DeviceArray, np.ndarray)) else None

    def _in_place(self, name: str) -> Callable[[DeviceArray, Any], Any]:
        def run(table: Any, a: Any, b: Any) -> Any:
            y = getattr(table, name)(a, b)
            if not np.can_cast(y.dtype, a.dtype, "same_kind"):
                raise TypeError(f"{name} in place: what is {y.dtype} can't be kept in an array of {a.dtype}")
            return y

        rule = self.rule(run, f"{name} in place")

        def operator(x: DeviceArray, other: Any) -> Any:
            if not isinstance(other, DeviceArray) and (other := _operand(self, x, other)) is None:
                return NotImplemented
            if x.value is not None:  # numbers are cached: the name gets another one
                return self.astype(rule(x, other), x.dtype)
            if x.size and any(n > 1 and not stride for n, stride in zip(x.shape, x.strides, strict=True)):
                raise ValueError(f"{name} in place: an array that was broadcast to {x.shape} has several elements in one place")
            rule.into((x,), x, copied(other) if _may_overlap(x, other) else other)
            return x

        return operator

    @staticmethod
    def unavailable() -> str | None:
        """Why this backend can't be used here, or None."""
        return driver.unavailable()

    @property
    def device_name(self) -> str:
        """What the driver calls the device."""
        return driver.device().name

    @property
    def memory(self) -> Pool:
        """The pool of device memory: `limit`, `statistics()`, `release()`."""
        return pool()

    @staticmethod
    def new_stream() -> Any:
        """A pycuda.driver.Stream, also in a thread that has done nothing with the device yet."""
        d = driver.device()
        d.stream  # noqa: B018  # the context is current on this thread from now on
        return d.cuda.Stream()

    @staticmethod
    def on_stream(stream: Any) -> Any:
        """A context in which this thread's kernels go to a pycuda.driver.Stream."""
        return driver.on_stream(stream)

    def synchronize(self) -> None:
        """Wait for the device.  Raises what kernels found meanwhile (faults.py)."""
        driver.device().synchronize()
        faults.tell()

    def is_alone(self, x: DeviceArray) -> bool:
        """Views share a block; what holds another library's memory is no block of ours."""
        return is_held_once(x)

    def account(self) -> tuple[str, str]:
        """What the last kernel since this was asked before ran on, in this thread, and why it was left to something slower."""
        account: tuple[str, str] = self._said.__dict__.pop("account", ("cuda", ""))
        return account

    def say(self, algorithm: str, why: str = "") -> None:
        """For `account`."""
        self._said.account = (algorithm, why)

    def fmad(self) -> bool:
        """Whether kernels may round a product and a sum once: not in pedantic mode."""
        return self.math_mode() != "pedantic"

    def kernel(self, unit: str, name: str, types: str, **defines: str) -> Kernel:
        """The function `name` of kernels/UNIT.cu for the mode in force."""
        return kernel(unit, name, types, fmad=self.fmad(), **defines)

    def rule(self, run: Callable[..., Any], title: str) -> Rule:
        """An elementwise function of one launch, written in kernels: run(table, *arguments)."""
        return Rule(run, self.fmad, title)


def _may_overlap(x: DeviceArray, y: DeviceArray) -> bool:
    """Whether writing to x, element by element, may change what is still to be read of y."""
    return x.block is y.block and (x.address, x.shape, x.strides) != (y.address, y.shape, y.strides)


def _operand(k: PycudaKernels, x: DeviceArray, other: Any) -> DeviceArray | None:
    """The other side of an operator: a Python number beside x, a NumPy number or array, which is brought over, or None for all else."""
    if type(other) in (bool, int, float, complex):
        return k.scalar(other, x.dtype)
    if isinstance(other, np.ndarray):
        return k.adopt(other)
    return number(other.item(), supported(other.dtype)) if isinstance(other, np.generic) else None
