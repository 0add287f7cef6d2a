"""Arrays as oneDNN takes them: where they are in memory, which order their axes have there, and what it can't compute with."""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import c_void_p

import numpy as np

from ..kernels import Array, Shape
from . import binding
from .binding import Handle

MOST = 1 << 31  # elements
ALIGNMENT = 64  # bytes


def unfit(*arrays: Array | None) -> str:
    """Why oneDNN can't compute with these arrays, or ""."""
    given = [x for x in arrays if x is not None]
    if any(x.dtype != np.float32 for x in given):
        return "not float32"
    if any(x.size == 0 for x in given):
        return "empty"
    return "2^31 elements or more" if any(x.size >= MOST for x in given) else ""


# -- memory
def _slow_address(x: Array) -> int:
    return int(x.ctypes.data)


def _quick_address(x: Array) -> int:
    """The field behind PyObject's head: a fifth of the time of x.ctypes.data, of which a call has several."""
    return _pointer_at(id(x) + _HEAD).value or 0


_pointer_at, _HEAD = c_void_p.from_address, object.__basicsize__
_probe = np.empty(1)
address: Callable[[Array], int] = _quick_address if _quick_address(_probe) == _slow_address(_probe) else _slow_address


def room(count: int) -> Array:
    """So many bytes of new memory, aligned."""
    raw = np.empty(count + ALIGNMENT, np.uint8)
    start = -address(raw) % ALIGNMENT
    return raw[start : start + count]


def aligned(x: Array) -> Array:
    """x (float32) in C order, in memory that instructions older than AVX can add from."""
    x = np.ascontiguousarray(x)
    if address(x) % 16:
        copy = room(x.nbytes).view(np.float32).reshape(x.shape)
        copy[...] = x
        return copy
    return x


# -- order
def c_strides(shape: Shape) -> Shape:
    """In elements, of an array in C order."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def last_strides(shape: Shape) -> Shape:
    """In elements, of an array (N, C, *spatial) that lies as (N, *spatial, C): channels_last."""
    lies = c_strides((shape[0], *shape[2:], shape[1]))
    return (lies[0], lies[-1], *lies[1:-1])


def is_last(x: Array) -> bool:
    """Whether x (N, C, *spatial) lies in channels_last order; where both orders are the same, it does."""
    return bool(x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous)


def empty_last(shape: Shape) -> Array:
    """A new float32 array (N, C, *spatial) in channels_last order, aligned: normalisation takes twice the time where it is not."""
    flat = room(4 * math.prod(shape)).view(np.float32)
    return flat.reshape(shape[0], *shape[2:], shape[1]).transpose(0, len(shape) - 1, *range(1, len(shape) - 1))


def to_last(x: Array) -> Array:
    """x in channels_last order."""
    return np.ascontiguousarray(x.transpose(0, *range(2, x.ndim), 1)).transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


def laid(x: Array) -> tuple[Array, bool]:
    """x dense, and whether in channels_last order; a copy if it lies in neither that nor C order."""
    if is_last(x):
        return x, True
    return (x, False) if x.flags.c_contiguous else (to_last(x), True)


def described(shape: Shape, last: bool) -> Handle:
    return binding.described(shape, last_strides(shape) if last else c_strides(shape))
