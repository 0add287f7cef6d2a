"""Order along an axis, and places in what is sorted.

A merge sort: short runs by a network in shared memory, then merges until there is one run for each row.  It is stable, and compares
elements of all types as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from .array import DeviceArray, common_dtype, empty, supported, view
from .launch import blocks_for, threads_for
from .reduction_plans import power_of_two
from .reductions import kind
from .transfer import dense

_INT64 = np.dtype(np.int64)
_TILE = 2048  # as in sort.cu: what a block sorts, or merges
_SLOTS = 512  # of a block that sorts several short rows
_THREADS = 256  # of a block


def sort(k: Any, x: DeviceArray, axis: int) -> DeviceArray:
    axis = normalize_axis_index(axis, x.ndim)
    x = dense(_moved(x, axis, -1))
    for width in _widths(x.shape[-1]):
        y = empty(x.shape, x.dtype)
        _launch(k, "sort", x, width, y, 0, x, 0)
        x = y
    return _moved(x, -1, axis)


def argsort(k: Any, x: DeviceArray, axis: int) -> DeviceArray:
    axis = normalize_axis_index(axis, x.ndim)
    x = dense(_moved(x, axis, -1))
    keys: Any = x
    places: Any = 0
    widths = _widths(x.shape[-1])
    for width in widths:
        y, to = empty(x.shape, x.dtype) if width != widths[-1] else 0, empty(x.shape, _INT64)
        _launch(k, "argsort", x, width, y, to, keys, places)
        keys, places = y, to
    return _moved(places, -1, axis)


def _widths(n: int) -> list[int]:
    """How long the runs are that a launch finds in rows of n elements: single elements, tiles, then twice as long each time."""
    return [1, *(_TILE << i for i in range((-(-n // _TILE) - 1).bit_length()))]


def _launch(k: Any, name: str, x: DeviceArray, width: int, *arrays: Any) -> None:
    """Make longer runs of those of `width` elements in rows like x's; arrays are those of sort.cu."""
    if not x.size:
        return
    n, c = x.shape[-1], kind(x.dtype).c
    rows, tiles = x.size // n, -(-n // _TILE)
    if width > 1:
        merge = k.kernel("sort", f"{name}_merge", "PPPPqqq", TYPE=c)
        merge(rows * tiles, _THREADS, *arrays, n, width, tiles)
    else:
        width = min(power_of_two(n), _TILE)
        runs = rows * -(-n // width)
        slots = max(width, min(_SLOTS, width * power_of_two(runs)))
        sort = k.kernel("sort", f"{name}_tiles", "PPPqqii", TYPE=c)
        sort(-(-runs * width // slots), threads_for(slots // 2), *arrays[:3], rows, n, width, slots)


def searchsorted(k: Any, a: DeviceArray, v: DeviceArray, side: str) -> DeviceArray:
    if a.ndim != 1:
        raise ValueError(f"searchsorted: the sorted array has shape {a.shape}; it must have one axis")
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', not {side!r}")
    dtype = supported(common_dtype("searchsorted", a, v))
    a, v = dense(k.astype(a, dtype)), dense(k.astype(v, dtype))
    y = empty(v.shape, _INT64)
    if v.size:
        find = k.kernel("sort", "searchsorted", "PPPqqi", TYPE=kind(dtype).c)
        find(blocks_for(v.size), threads_for(v.size), y, a, v, a.size, v.size, side == "right")
    return y


def _moved(x: DeviceArray, axis: int, to: int) -> DeviceArray:
    """x with an axis in another place."""
    if axis % x.ndim == to % x.ndim:
        return x
    axes = list(range(x.ndim))
    axes.insert(to % x.ndim, axes.pop(axis))
    return view(x, tuple(x.shape[a] for a in axes), tuple(x.strides[a] for a in axes))


KERNELS: dict[str, Callable[..., Any]] = {"sort": sort, "argsort": argsort, "searchsorted": searchsorted}
