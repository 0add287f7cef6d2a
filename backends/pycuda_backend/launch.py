"""Launches: the functions of compiled units, and calls of them.

    reduce = kernel("reduce", "rows", "PPqq", TYPE="float")      # compiled or found once, kept
    reduce(blocks, 256, y, x, rows, width)                    # arrays stand for their addresses

The letters are those of the struct module: P an address, q and i integers, d and f floats.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .array import DeviceArray
from .compilation import compiler
from .driver import device

C_NAMES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    "float16": "half", "bfloat16": "bfloat16", "float32": "float", "float64": "double",
}  # fmt: skip
THREADS = 256  # of a block, where a kernel has no reason for another number
_BLOCKS_A_PROCESSOR = 16  # beyond which a kernel's threads go on to further elements themselves
_LARGEST_GRID = 2**31 - 1

_modules: dict[Any, Any] = {}
_kernels: dict[Any, Kernel] = {}
_lock = threading.RLock()


class Kernel:
    """A function on the device: call it with the grid, the block, and the arguments."""

    __slots__ = ("_call", "_device", "name")

    def __init__(self, module: Any, name: str, types: str | Sequence[str]) -> None:
        function = module.get_function(name)
        function.prepare(types)
        self._call, self._device, self.name = function.prepared_async_call, device(), name

    def __call__(self, grid: int | tuple[int, ...], threads: int | tuple[int, ...], *args: Any, shared: int = 0) -> None:
        """Launch it; a grid or block given as one number is one-dimensional, `shared` is dynamic shared memory in bytes."""
        self.start(grid, threads, [a.address if a.__class__ is DeviceArray else a for a in args], shared)

    def start(self, grid: int | tuple[int, ...], threads: int | tuple[int, ...], args: Sequence[Any], shared: int = 0) -> None:
        """The same, with addresses for arrays."""
        if grid.__class__ is int:
            grid = (grid, 1, 1)
        if threads.__class__ is int:
            threads = (threads, 1, 1)
        try:
            self._call(grid, threads, self._device.here.stream, *args, shared_size=shared)
        except self._device.cuda.Error as e:
            raise self._device.explain(e, f"kernel {self.name}") from e


def kernel(unit: str, name: str, types: str | Sequence[str], *, fmad: bool = True, **defines: str) -> Kernel:
    """The function `name` of kernels/UNIT.cu, compiled with these macros.  fmad: whether a product and a sum may be rounded once."""
    key = (unit, name, fmad, *defines.items())
    found = _kernels.get(key)
    return found if found is not None else _load(key, unit, None, name, types, fmad, defines)


def from_source(text: str, name: str, types: str | Sequence[str], fmad: bool, title: str) -> Kernel:
    """The function `name` of a generated source; `title` is what messages call it."""
    return _load((text, name, fmad), title, text, name, types, fmad, {})


def _load(key: Any, unit: str, text: str | None, name: str, types: str | Sequence[str], fmad: bool, defines: Mapping[str, str]) -> Kernel:
    with _lock:
        module_key = (text or unit, fmad, *defines.items())
        if (module := _modules.get(module_key)) is None:
            d = device()
            image = compiler.cubin(compiler.unit_text(unit) if text is None else text, defines, d.arch, fmad, unit)
            d.stream  # noqa: B018  # the context is current on this thread from now on
            try:
                module = _modules[module_key] = d.cuda.module_from_buffer(image)
            except d.cuda.Error as e:
                raise d.explain(e, f"loading kernel unit {unit!r}") from e
        found = _kernels[key] = Kernel(module, name, types)
        return found


@functools.cache
def c_type(dtype: np.dtype[Any]) -> str:
    """A dtype's name in CUDA C++."""
    return C_NAMES[dtype.name]


def blocks_for(count: int, threads: int = THREADS) -> int:
    """How many blocks of a loop that strides by the grid cover `count` elements: enough to keep the device busy, and no more."""
    return max(1, min(-(-count // threads), device().processors * _BLOCKS_A_PROCESSOR))


def threads_for(count: int) -> int:
    """The size of a block that has `count` things to do: a whole number of warps."""
    return min(THREADS, max(32, -(-count // 32) * 32))
