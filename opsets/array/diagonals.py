"""Diagonals of matrices and what lies on either side of them: trace diagonal diag diagflat tril triu.

All are compositions.  A diagonal is a slice of the flat matrix, so neither it nor its cotangent needs an index for each element.
"""

from __future__ import annotations

import math
from operator import index

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from .arithmetic import where
from .indexing import getitem, scatter_add
from .reductions import sum
from .shapes import moveaxis, ravel, reshape, shape_of


def steps(rows: int, columns: int, k: int) -> slice:
    """Diagonal k of a matrix in its elements in C order: above the main diagonal for k > 0, below for k < 0."""
    n = min(rows + min(k, 0), columns - max(k, 0))
    start = k if k >= 0 else -k * columns
    return slice(start, start + (n - 1) * (columns + 1) + 1, columns + 1) if n > 0 else slice(0)


# ---------------------------------------------------------------- diagonals


def diagonal(x, offset=0, axis1=0, axis2=1):
    """The elements [i, i + offset] of the matrices on two axes of x, along a new last axis.

    Raises ValueError if x has fewer than two axes or the two are one.
    """
    shape = shape_of(x)
    if len(shape) < 2:
        raise ValueError(f"diagonal: x {shape} must have two axes or more")
    axis1, axis2 = normalize_axis_index(axis1, len(shape), "axis1"), normalize_axis_index(axis2, len(shape), "axis2")
    if axis1 == axis2:
        raise ValueError(f"diagonal: axis1 and axis2 of x {shape} must differ, but both are {axis1}")
    *lead, rows, columns = shape_of(x := moveaxis(x, (axis1, axis2), (-2, -1)))
    return getitem(reshape(x, (*lead, rows * columns)), (..., steps(rows, columns, index(offset))))


def trace(x, offset=0, axis1=0, axis2=1):
    """The sum over diagonal(x, offset, axis1, axis2)."""
    return sum(diagonal(x, offset, axis1, axis2), -1)


def diag(x, k=0):
    """Diagonal k of a matrix x; of a 1-d x the matrix that has it there, else 0.  Raises ValueError for other x."""
    shape = shape_of(x)
    if len(shape) not in (1, 2):
        raise ValueError(f"diag: x {shape} must have one axis or two")
    return diagflat(x, k) if len(shape) == 1 else diagonal(x, k)


def diagflat(x, k=0):
    """The square matrix that has x.ravel() on diagonal k, else 0."""
    k = index(k)
    n = math.prod(shape_of(x)) + abs(k)
    return reshape(scatter_add(ravel(x), steps(n, n, k), (n * n,)), (n, n))


# ---------------------------------------------------------------- triangles


def tril(x, k=0):
    """x, with 0 above diagonal k of its matrices, the last two axes.  A 1-d x is each row of one."""
    return where(lower("tril", x, k), x, False)


def triu(x, k=0):
    """x, with 0 below diagonal k of its matrices, the last two axes.  A 1-d x is each row of one."""
    return where(lower("triu", x, k, 1), False, x)


def lower(name: str, x, k, less=0):
    """Which elements of x's matrices are on diagonal k - less or below."""
    shape = shape_of(x)
    if shape == ():
        raise TypeError(f"{name}: x must have an axis or more")
    k = k if isinstance(k, float) else index(k)  # which in NumPy may have a fraction here
    return np.tri(shape[-2:][0], shape[-1], k - less, dtype=bool)
