"""The strict array: a backend that stands in for every array type that is not NumPy's.

`StrictArray` has what the kernel contract promises of an array and nothing else, so an operator or rule that
leans on NumPy fails on it at once.  `StrictKernels` is the numpy backend behind that wall: each kernel of the
contract unwraps its arrays, refuses anything else, runs NumPy's kernel, checks what came back and wraps it.
Importing autotape.testing registers it as backend "strict".
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from autotape import backend
from autotape.backends.kernels import Kernels
from autotape.backends.numpy_backend import NumpyKernels

__all__ = ["StrictArray", "StrictKernels"]

NUMPY: Any = NumpyKernels()
WEAK = (bool, int, float, complex)  # by exact type: numpy.float64 is a float, yet not weak
VIEWS = {"astype", "sum_to", "reshape", "transpose", "broadcast_to", "getitem", "real", "imag"}  # may share memory with their input
SHARED = {"scalar"}  # results that may be cached


class StrictArray:
    """A NumPy array that shows `shape`, `dtype`, `ndim`, `size` and Python's operators, and hides everything else.

    The operators take StrictArrays and Python numbers; for anything else they return NotImplemented.  In-place
    operators and kernels write only to a buffer that a kernel made and nobody else views; any other raises ValueError.
    """

    __slots__ = ("_data", "_own")
    __array_ufunc__ = None

    def __init__(self, data: np.ndarray, own: bool = False) -> None:
        data.flags.writeable = False  # a kernel that writes to its input fails
        self._data, self._own = data, own

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._data.dtype

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    def __neg__(self) -> Any:
        return STRICT.negative(self)

    def __bool__(self) -> bool:
        raise TypeError("a StrictArray has no truth value: choose with where(mask, a, b)")

    def __repr__(self) -> str:
        return f"StrictArray({np.array2string(self._data, threshold=20, separator=', ')}, dtype={self.dtype})"

    __hash__ = object.__hash__


class StrictKernels:
    """The whole contract of `autotape.backends.kernels` for StrictArray, by way of the numpy backend."""

    name = "strict"
    array = StrictArray
    has_threads = False
    compiles = False
    math_mode: Callable[[], str] = staticmethod(lambda: "default")

    def __init__(self) -> None:
        for name, parameters in CONTRACT.items():
            if not hasattr(self, name):
                setattr(self, name, guarded(name, parameters))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is no kernel of the contract in backends/kernels.py")

    @staticmethod
    def unavailable() -> None:
        """It can always be used."""

    def account(self) -> tuple[str, str]:
        account: tuple[str, str] = NUMPY.account()
        return account

    def synchronize(self) -> None:
        NUMPY.synchronize()

    def is_alone(self, x: StrictArray) -> bool:
        return False  # arrays may be views of one buffer, and do not know it

    def adopt(self, x: Any) -> StrictArray | None:
        if type(x) is StrictArray:
            return x
        adopted = NUMPY.adopt(x)
        return None if adopted is None else StrictArray(np.array(adopted, order="K"), own=True)

    def to_numpy(self, x: StrictArray) -> np.ndarray:
        return unwrap(x, "to_numpy", "x").copy(order="K")  # as from a device's memory: nothing is shared

    def compile_elementwise(self, rule: Callable[..., Any], use: Callable[[Any], Any]) -> Callable[..., Any]:
        return rule


def contract() -> dict[str, dict[str, str]]:
    """The contract as {kernel: {parameter: annotation}}."""
    one, two = {"x": "Array"}, {"a": "Array", "b": "Array"}
    tables = {name: one if kind == "Unary" else two for name, kind in Kernels.__annotations__.items() if kind in ("Unary", "Binary")}
    for name, kernel in vars(Kernels).items():
        if inspect.isfunction(kernel) and not name.startswith("_"):
            tables[name] = {p.name: p.annotation for p in inspect.signature(kernel).parameters.values() if p.name != "self"}
    return tables


def unwrap(x: Any, kernel: str, parameter: str) -> np.ndarray:
    """The array behind a StrictArray.  Raises TypeError for anything else."""
    if type(x) is not StrictArray:
        raise TypeError(f"{kernel}: {parameter} is not a StrictArray but {type(x).__name__}")
    return x._data


def unwrap_index(index: Any) -> Any:
    """An index whose arrays may be strict ones or NumPy's."""
    if isinstance(index, tuple):
        return tuple(map(unwrap_index, index))
    return index._data if type(index) is StrictArray else index


def argument(value: Any, annotation: str, kernel: str, parameter: str) -> Any:
    """One argument of a kernel, as the numpy backend's kernel takes it."""
    if parameter == "index":
        return unwrap_index(value)
    if annotation == "Sequence[Array]":
        return [unwrap(x, kernel, f"{parameter}[{i}]") for i, x in enumerate(value)]
    if annotation in ("Array", "Out") or (annotation == "Array | None" and value is not None):
        return unwrap(value, kernel, parameter)
    if isinstance(value, (StrictArray, np.ndarray)):
        raise TypeError(f"{kernel}: {parameter} takes no array but met {type(value).__name__}")
    return value


def guarded(name: str, parameters: dict[str, str]) -> Callable[..., Any]:
    """The strict form of one kernel of the numpy backend."""
    kernel = getattr(NUMPY, name)
    names = list(parameters)
    written = [n for n in names if parameters[n] == "Out"]

    def run(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) + len(kwargs) != len(names) or given.keys() != parameters.keys():
            raise TypeError(f"{name} takes ({', '.join(names)}) but met {len(args)} arguments and {sorted(kwargs)}")
        plain = [argument(given[n], parameters[n], name, n) for n in names]
        if written:
            with writable(name, [given[n] for n in written]):
                return kernel(*plain)
        result = kernel(*plain)
        return checked_all(name, result, plain) if isinstance(result, tuple) else checked(name, result, plain)

    run.__name__ = name
    return run


@contextmanager
def writable(name: str, arrays: Sequence[StrictArray]) -> Iterator[None]:
    """A stretch in which these arrays may be written to."""
    if not all(x._own for x in arrays):
        raise ValueError(f"{name} writes to a StrictArray that may share its buffer")
    for x in arrays:
        x._data.flags.writeable = True
    try:
        yield
    finally:
        for x in arrays:
            x._data.flags.writeable = False


def checked_all(name: str, results: tuple[Any, ...], inputs: list[Any]) -> tuple[StrictArray, ...]:
    """The results of a kernel that gives several, none of which shares memory with another."""
    wrapped = tuple(checked(name, result, inputs) for result in results)
    if any(np.may_share_memory(a, b) for a, b in itertools.combinations(results, 2)):
        raise AssertionError(f"the numpy kernel {name} gave results that share memory")
    return wrapped


def checked(name: str, result: Any, inputs: list[Any]) -> StrictArray:
    """A kernel's result, wrapped, once it is what the contract promises."""
    if type(result) is not np.ndarray:
        raise AssertionError(f"the numpy kernel {name} gave {type(result).__name__}, not an ndarray")
    arrays = [a for x in inputs for a in (x if isinstance(x, list) else [x]) if isinstance(a, np.ndarray)]
    shared = any(np.may_share_memory(result, a) for a in arrays)
    if shared and name not in VIEWS:
        raise AssertionError(f"the numpy kernel {name} gave a view of its input")
    return StrictArray(result.view() if shared or name in SHARED else result, own=not shared and name not in SHARED)


def operand(x: Any, dtype: np.dtype[Any]) -> StrictArray | None:
    """The other side of an operator: a StrictArray, a weak Python number beside `dtype`, or None for what is unknown."""
    return x if type(x) is StrictArray else STRICT.scalar(x, dtype) if type(x) in WEAK else None


def binary(kernel: str, reflected: bool = False) -> Callable[[StrictArray, Any], Any]:
    def method(self: StrictArray, other: Any) -> Any:
        if (o := operand(other, self.dtype)) is None:
            return NotImplemented
        return getattr(STRICT, kernel)(o, self) if reflected else getattr(STRICT, kernel)(self, o)

    return method


def in_place(ufunc: np.ufunc) -> Callable[[StrictArray, Any], Any]:
    def method(self: StrictArray, other: Any) -> Any:
        if (o := operand(other, self.dtype)) is None:
            return NotImplemented
        with writable(f"{ufunc.__name__} in place", [self]):
            ufunc(self._data, o._data, out=self._data, casting="same_kind")
        return self

    return method


ARITHMETIC = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul",
}  # fmt: skip
COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}

for _name, _kernel in ARITHMETIC.items():
    setattr(StrictArray, f"__{_name}__", binary(_kernel))
    setattr(StrictArray, f"__r{_name}__", binary(_kernel, reflected=True))
for _name in ("add", "sub", "mul", "truediv"):
    setattr(StrictArray, f"__i{_name}__", in_place(getattr(np, ARITHMETIC[_name])))
for _name, _kernel in COMPARISONS.items():
    setattr(StrictArray, f"__{_name}__", binary(_kernel))

CONTRACT = contract()
STRICT = StrictKernels()
backend.register("strict", StrictKernels)
