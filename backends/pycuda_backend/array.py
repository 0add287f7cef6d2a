"""DeviceArray: a stretch of device memory seen as an array.

It knows where its elements are and nothing of kernels; transfer.py gives it the ways to the host, table.py Python's operators.  A number
that the engine brings beside arrays is a DeviceArray of shape () that keeps its `value` on the host: elementwise kernels take that as an
argument of the launch, and memory for it is only made where another kernel asks for its address.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from .driver import device
from .memory import Block, pool

Shape = tuple[int, ...]
KINDS = "biuf"  # of dtypes that kernels take; and bfloat16


class DeviceArray:
    """An array in the memory of the CUDA device: `shape`, `strides` in bytes, `dtype`, and the block that its elements lie in.

    Views share a block.  `dense` says that elements lie in row-major order without gaps.  numpy.asarray(x) copies it to the host.
    """

    __slots__ = ("__weakref__", "_address", "block", "code", "dense", "dtype", "ndim", "shape", "size", "strides", "value")
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, block: Any, address: int, shape: Shape, strides: Shape, dtype: np.dtype[Any], dense: bool) -> None:
        self.block, self._address, self.shape, self.strides, self.dtype, self.dense = block, address, shape, strides, dtype, dense
        self.ndim, self.size = len(shape), prod(shape)
        if self.size.__class__ is not int:  # a length is one of NumPy's integers, which know less
            self.shape, self.strides, self.size = tuple(map(int, shape)), tuple(map(int, strides)), int(self.size)
        self.code: int = dtype.num  # of its dtype; negative if `value` holds it
        self.value: Any = None

    @property
    def address(self) -> int:
        """Of the first element, on the device."""
        return self._address if self.value is None else _place(self)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray({np.array2string(np.asarray(self), threshold=20, separator=', ')}, dtype={self.dtype})"

    def __getattr__(self, name: str) -> Any:
        hint = "; at.asarray(x) makes a Tensor, which has it, and numpy.asarray(x) a copy on the host" if hasattr(np.ndarray, name) else ""
        raise AttributeError(f"'DeviceArray' object has no attribute {name!r}{hint}")

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def item(self) -> Any:
        """The only element, as a Python number."""
        return np.asarray(self).item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return np.asarray(self).tolist()


def empty(shape: Shape, dtype: np.dtype[Any]) -> DeviceArray:
    """A dense array whose elements are not set."""
    size = int(prod(shape)) * dtype.itemsize
    block = pool().take(size) if size else None
    return DeviceArray(block, block.address if block else 0, shape, row_major(shape, dtype.itemsize), dtype, True)


def empty_in_order(shape: Shape, dtype: np.dtype[Any], axes: Sequence[int]) -> DeviceArray:
    """The same, with memory that runs through the axes in this order, the last one fastest."""
    x = empty(tuple(shape[a] for a in axes), dtype)
    strides = [0] * len(shape)
    for a, stride in zip(axes, x.strides, strict=True):
        strides[a] = stride
    return view(x, shape, tuple(strides))


def number(value: Any, dtype: np.dtype[Any]) -> DeviceArray:
    """A number as a 0-d array; value is a Python number that the dtype holds."""
    x = DeviceArray(None, 0, (), (), dtype, True)
    x.value, x.code = value, ~dtype.num
    return x


def settled(x: DeviceArray) -> DeviceArray:
    """x itself, to be written to: if it was a number, it is an array in memory from now on."""
    if x.value is not None:
        _place(x)
        x.block, x.value, x.code = x.block[0], None, x.dtype.num
    return x


def view(x: DeviceArray, shape: Shape, strides: Shape, offset: int = 0) -> DeviceArray:
    """Other elements of x's block: `offset` and `strides` are in bytes."""
    if x.value is not None:  # numbers are cached, and a view may be written to
        x = settled(number(x.value, x.dtype))
    return DeviceArray(x.block, x.address + offset, shape, strides, x.dtype, is_dense(shape, strides, x.dtype.itemsize))


def row_major(shape: Shape, itemsize: int) -> Shape:
    """The strides of a dense array."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def is_held_once(x: DeviceArray) -> bool:
    """Whether x's block is of our pool, and no other array has it."""
    return type(x.block) is Block and getrefcount(x.block) == _HELD_ONCE


def is_dense(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether elements lie in row-major order without gaps; the strides of axes of length 1 don't matter."""
    step = itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return 0 in shape
        step *= n
    return True


def memory_order(x: DeviceArray) -> list[int]:
    """x's axes from the slowest to the fastest in memory."""
    return sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]) if x.shape[a] != 1 else -x.nbytes)


def supported(dtype: Any) -> np.dtype[Any]:
    """dtype as NumPy's, in this machine's byte order.  Raises TypeError if no kernel takes it."""
    dtype = np.dtype(dtype)
    if (dtype.kind in KINDS and dtype.itemsize <= 8) or dtype.name == "bfloat16":
        return dtype if dtype.isnative else dtype.newbyteorder("=")
    raise TypeError(
        f"backends 'pycuda' and 'cudnn' have no kernels for {dtype}: they take bool, integers, float16, bfloat16, float32 and float64"
        + ("; use backend 'numpy' for complex numbers" if dtype.kind == "c" else "")
    )


def common_dtype(name: str, *xs: DeviceArray) -> np.dtype[Any]:
    """What NumPy promotes the dtypes of a kernel's operands to.  Raises TypeError if that is none, as of float16 beside an old bfloat16."""
    try:
        return np.result_type(*[x.dtype for x in xs])
    except TypeError:
        dtypes = " and ".join(sorted({str(x.dtype) for x in xs}))
        raise TypeError(f"{name}: NumPy has no common dtype for {dtypes}; cast one of them") from None


def _place(x: DeviceArray) -> int:
    """Put a number into memory, where it has none yet: by a fill, for which nobody waits.  A thread on another stream makes its own."""
    d = device()
    if x.block is None or x.block[0].stretch.stream is not d.here.stream:
        block = pool().take(x.dtype.itemsize)
        bits = np.asarray(x.value, x.dtype).tobytes()
        width = min(len(bits), 4)
        fill = getattr(d.cuda, f"memset_d{8 * width}_async")
        for i in range(0, len(bits), width):
            fill(block.address + i, int.from_bytes(bits[i : i + width], "little"), 1, d.here.stream)
        x._address, x.block = block.address, (block, x.block)  # another library may still use the address before
    return x._address


_example = DeviceArray(object(), 0, (), (), np.dtype(bool), True)
_HELD_ONCE = getrefcount(_example.block)  # what Python says of a block that one array has; Pythons differ
