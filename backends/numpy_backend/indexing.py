"""Indexing and its transposes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import le
from types import EllipsisType
from typing import Any

import numpy as np
from numpy import asarray, ndarray

from ..kernels import Array, Shape

_LONG_ROW = 128  # elements from which adding row by row beats numpy.add.at, whose time goes into each element


def getitem(x: Array, index: Any) -> Array:
    y = x[index]
    return y if y.__class__ is ndarray else asarray(y)


def scatter_add(v: Array, index: Any, shape: Shape) -> Array:
    out = np.zeros(shape, v.dtype)
    if _is_distinct(index):
        out[index] = v
    elif _is_integer_array(index) and prod(shape[1:]) >= _LONG_ROW and v.shape == index.shape + shape[1:]:
        for i, row in zip(index.ravel().tolist(), v.reshape(-1, *shape[1:]), strict=True):
            out[i] += row
    else:
        np.add.at(out, index, v)
    return out


def _is_distinct(index: Any) -> bool:
    """Whether no element can be met twice: slices, integers, new axes and masks, but no array of integers."""
    parts = index if isinstance(index, tuple) else (index,)
    basic = (int, np.integer, slice, EllipsisType, type(None), np.bool)
    return all(isinstance(p, basic) or (isinstance(p, ndarray) and p.dtype == bool) for p in parts)


def _is_integer_array(index: Any) -> bool:
    return isinstance(index, ndarray) and index.dtype.kind in "iu"


def index_set(x: Array, index: Any, v: Array) -> Array:
    y = x.copy()
    y[index] = v
    return y


def take_along_axis(x: Array, indices: Array, axis: int) -> Array:
    return np.take_along_axis(x, indices, axis)


def scatter_along_axis(v: Array, indices: Array, axis: int, shape: Shape) -> Array:
    out = np.zeros(shape, v.dtype)
    grid = list(np.ogrid[tuple(slice(n) for n in shape)])
    grid[axis] = indices
    if indices.shape[axis] == 1 and all(map(le, indices.shape, shape)):  # one element a line, so none is met twice
        out[tuple(grid)] = v
    else:
        np.add.at(out, tuple(grid), v)
    return out


KERNELS: dict[str, Callable[..., Any]] = {
    "getitem": getitem,
    "scatter_add": scatter_add,
    "index_set": index_set,
    "take_along_axis": take_along_axis,
    "scatter_along_axis": scatter_along_axis,
}
