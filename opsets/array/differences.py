"""Differences of neighbours, and the integral that is made of them: diff ediff1d trapezoid.  All are compositions."""

from __future__ import annotations

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from .arithmetic import add, divide, multiply, subtract
from .creation import astype
from .indexing import getitem
from .joining import along, concatenate
from .logic import BOOL, not_equal
from .reductions import sum
from .shapes import broadcast_to, ravel, reshape, shape_of


def diff(x, n=1, axis=-1, prepend=None, append=None):
    """x[i + 1] - x[i] along `axis`, n times; of booleans, whether they differ.

    prepend and append are joined to x first: arrays, or a number, which fills length 1.  Raises ValueError for n < 0 and a 0-d x.
    """
    if n == 0:
        return x
    shape = shape_of(x)
    if n < 0 or shape == ():
        raise ValueError(f"diff: n={n} must not be negative, and x {shape} must have an axis")
    axis = normalize_axis_index(axis, len(shape))
    edge = (*shape[:axis], 1, *shape[axis + 1 :])
    before, after = ([broadcast_to(v, edge) if shape_of(v) == () else v] if v is not None else [] for v in (prepend, append))
    x = concatenate([*before, x, *after], axis) if before or after else x
    for _ in range(n):
        later, earlier = neighbours(x, axis)
        x = not_equal(later, earlier) if later.dtype == BOOL else subtract(later, earlier)
    return x


def neighbours(x, axis):
    """x without its first, and without its last, element along an axis."""
    n = len(shape_of(x))
    axis = normalize_axis_index(axis, n)
    return getitem(x, along(axis, n, slice(1, None))), getitem(x, along(axis, n, slice(None, -1)))


def ediff1d(x, to_end=None, to_begin=None):
    """The differences of x.ravel(), between the numbers to_begin and to_end, which take x's dtype.

    Raises TypeError for ends that lose their kind by that.
    """
    x = ravel(x)
    parts = [like("to_begin", to_begin, x), subtract(*neighbours(x, 0)), like("to_end", to_end, x)]
    return concatenate([part for part in parts if part is not None])


def like(name: str, end, x):
    """An end of ediff1d in x's dtype; None if there is none."""
    if end is None:
        return None
    end = ravel(end)
    if not np.can_cast(end.dtype, x.dtype, "same_kind"):
        raise TypeError(f"ediff1d: {name} of {end.dtype} doesn't fit x of {x.dtype}")
    return astype(end, x.dtype)


def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral of y along `axis` by the trapezoidal rule: at the points x, 1-d or of y's shape, or at a distance dx."""
    widths = dx
    if x is not None:
        widths = diff(x, axis=-1 if len(shape_of(x)) == 1 else axis)
        if len(shape_of(x)) == 1:
            ndim = len(shape_of(y))
            widths = reshape(widths, (-1, *(1,) * (ndim - 1 - normalize_axis_index(axis, ndim))))
    return sum(divide(multiply(widths, add(*neighbours(y, axis))), 2.0), axis)
