"""Running sums and products along an axis.

A long line is scanned in parts at once: their totals, which are a reduction, are scanned first.  So the order in which elements are added
depends on shapes and strides alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..kernels import Shape
from .array import DeviceArray, empty_in_order, view
from .driver import device
from .layout import MAX_AXES, merged
from .reduction_plans import INDEX_TYPES, by_memory, element_steps, fields, index_letter, power_of_two
from .reductions import PRODUCT, SUM, Reduction, kind, of_sums, reduced
from .transfer import dense

_THREADS = 256  # of a block
_BLOCKS_A_PROCESSOR = 8  # which run at once
_TILES = 8  # that are worth a block, where a line is shared
_STEPS = 64  # that are worth a thread, where it has its part of a line alone
_SHORT = 32  # lines up to this length have a thread each, whatever their direction
_ARGUMENTS = {"i": "PPPiii12s260s", "q": "PPPqqq24s520s"}
_Strides = tuple[Shape, ...]  # in elements, of y, x and the totals before


class _Way(NamedTuple):
    """A launch of scan.cu's `function`, its blocks in one direction and a block, for parts of lines of `size` elements."""

    function: str
    blocks: int
    block: tuple[int, int]
    size: int


def scanned(k: Any, r: Reduction, x: DeviceArray, axis: int, dtype: np.dtype[Any]) -> DeviceArray:
    """The running totals of x along an axis, in the dtype asked for.  Raises ValueError (AxisError) where there is no such axis."""
    x = view(x, (1,), (x.dtype.itemsize,)) if not x.ndim else dense(x) if x.ndim > MAX_AXES else x
    axis = normalize_axis_index(axis, x.ndim)
    y = empty_in_order(x.shape, dtype, _walk(x.shape, x.strides, x.dtype.itemsize)[1])
    if y.size:
        _fill(k, r, y, x, axis)
    return y


@lru_cache(4096)
def _walk(shape: Shape, strides: Shape, itemsize: int) -> tuple[Shape, list[int]]:
    """Strides in elements, and the axes from the slowest in memory to the fastest."""
    steps = tuple(element_steps(shape, strides, itemsize))
    return steps, by_memory(range(len(shape)), steps)


def _steps(x: DeviceArray) -> Shape:
    return _walk(x.shape, x.strides, x.dtype.itemsize)[0]


def _fill(k: Any, r: Reduction, y: DeviceArray, x: DeviceArray, axis: int) -> None:
    inside, length, strides = r.inside(x.dtype), x.shape[axis], (_steps(y), _steps(x))
    aligned = x.value is None and (x.address | y.address) % 16 == 0
    packed = 16 // max(x.dtype.itemsize, y.dtype.itemsize) if aligned else 1
    way = _way(x.shape, axis, strides, packed, device().processors)
    parts = -(-length // way.size)
    before = _before(k, r, x, axis, way.size, parts - 1) if parts > 1 else None
    letter, lines = _lines(x.shape, axis, (*strides, _steps(before) if before is not None else (0,) * x.ndim))
    types = {"OP": r.op, "IN": kind(x.dtype).c, "ACC": inside.c, "OUT": kind(y.dtype).c, "INDEX": INDEX_TYPES[letter]}
    launch = k.kernel("scan", way.function, _ARGUMENTS[letter], **types)
    launch((way.blocks, parts, 1), (*way.block, 1), y, x, y if before is None else before, x.size // length, length, way.size, *lines)


def _before(k: Any, r: Reduction, x: DeviceArray, axis: int, size: int, count: int) -> DeviceArray:
    """The running totals of the first `count` parts of each line."""
    shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    strides = (*x.strides[:axis], size * x.strides[axis], *x.strides[axis:])
    dtype = r.inside(x.dtype).dtype
    return scanned(k, r, reduced(k, r, view(x, shape, strides), axis + 1, False, dtype), axis, dtype)


@lru_cache(4096)
def _way(shape: Shape, axis: int, strides: _Strides, packed: int, processors: int) -> _Way:
    length, busy = shape[axis], processors * _BLOCKS_A_PROCESSOR
    lines = prod(shape) // length
    if length <= _SHORT or by_memory(range(len(shape)), strides[1])[-1] != axis:
        threads = min(_THREADS, max(32, power_of_two(lines)))
        blocks = -(-lines // threads)
        return _Way("columns", blocks, (threads, 1), _size(length, min(busy // blocks, length // _STEPS), 1))
    width = packed if _fits(shape, axis, strides, packed) else 1
    threads = _THREADS if length >= 2 * _THREADS * width else 32
    together = min(_THREADS // threads, power_of_two(lines))
    blocks = -(-lines // together)
    size = _size(length, min(busy // blocks, length // (threads * width * _TILES)), width)
    return _Way("rows_packed" if width > 1 else "rows", blocks, (threads, together), size)


def _fits(shape: Shape, axis: int, strides: _Strides, width: int) -> bool:
    """Whether lines can be read and written in packs of `width` neighbours."""
    steps = [walk[axis] for walk in strides]
    return steps == [1, 1] and all(s % width == 0 for walk in strides for a, s in enumerate(walk) if a != axis) and shape[axis] % width == 0


def _size(length: int, parts: int, width: int) -> int:
    """The elements of a part, in whole packs."""
    return -(-length // (max(1, parts) * width)) * width


@lru_cache(4096)
def _lines(shape: Shape, axis: int, strides: _Strides) -> tuple[str, tuple[bytes, bytes]]:
    """The type of indices, and by it struct Along and struct Layout of scan.cu."""
    others = [a for a in by_memory(range(len(shape)), strides[0]) if a != axis]
    extents, steps = merged([shape[a] for a in others], [[walk[a] for a in others] for walk in strides])
    letter, along = index_letter(shape, strides), [walk[axis] for walk in strides]
    return letter, (struct.pack(f"3{letter}", *along), fields(letter, extents, steps))


def _scan(r: Reduction) -> Callable[..., DeviceArray]:
    return lambda k, x, axis: scanned(k, r, x, axis, of_sums(x.dtype))


KERNELS: dict[str, Callable[..., Any]] = {"cumsum": _scan(SUM), "cumprod": _scan(PRODUCT)}
