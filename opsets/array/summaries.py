"""Reductions made of others: ptp average count_nonzero, and those that leave NaN out: nansum nanmean nanmax nanmin.

`axis` and keepdims are those of the reductions.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from .arithmetic import divide, multiply, subtract, where
from .creation import astype, full_like, ones_like
from .logic import equal, isnan, logical_not, not_equal
from .reductions import all, any, max, mean, min, sum
from .shapes import dtype_of, reshape, shape_of, transpose

# ---------------------------------------------------------------- plain


def ptp(x, axis=None, keepdims=False):
    """max(x) - min(x) over `axis`."""
    return subtract(max(x, axis, keepdims), min(x, axis, keepdims))


def count_nonzero(x, axis=None, keepdims=False):
    """How many elements are not 0 over `axis`, an integer, so its derivative is 0."""
    return sum(not_equal(x, 0), axis, keepdims)


def average(x, axis=None, weights=None, returned=False, keepdims=False):
    """The mean of x over `axis`, each element counted by its weight; with returned=True a pair, the mean and the sum of weights.

    The weights have x's shape, or the lengths of the axes.  Raises TypeError or ValueError for others, and ZeroDivisionError
    where they sum to 0.
    """
    if weights is None:
        y = mean(x, axis, keepdims)
        return (y, full_like(y, math.prod(shape_of(x)) / math.prod(y.shape))) if returned else y
    w = fitted(weights, shape_of(x), axis)
    dtype = dtype_of(x)
    dtype = np.result_type(dtype, w.dtype, *([np.float64] if dtype.kind in "biu" else []))
    x, w = astype(x, dtype), astype(w, dtype)
    total = sum(w, axis, keepdims)
    if any(equal(total, 0)):
        raise ZeroDivisionError("average: the weights sum to 0")
    y = divide(sum(multiply(x, w), axis, keepdims), total)
    return (y, multiply(total, ones_like(y))) if returned else y


def fitted(weights, x_shape, axis):
    """average's weights in a shape that broadcasts to x's and has the axes in their order."""
    shape, axes = shape_of(weights), None if axis is None else normalize_axis_tuple(axis, len(x_shape))
    if shape == x_shape:
        return reshape(weights, shape)
    if axes is None:
        raise TypeError(f"average: weights {shape} need an axis, since x has another shape, {x_shape}")
    if shape != tuple(x_shape[i] for i in axes):
        raise ValueError(f"average: weights {shape} must have the lengths of the axes {axes} of x {x_shape}")
    return reshape(transpose(weights, tuple(np.argsort(axes).tolist())), tuple(n if i in axes else 1 for i, n in enumerate(x_shape)))


# ---------------------------------------------------------------- without NaN


def nansum(x, axis=None, keepdims=False):
    """The sum over `axis` of what is not NaN."""
    return sum(where(isnan(x), 0, x) if has_nan(x) else x, axis, keepdims)


def nanmean(x, axis=None, keepdims=False):
    """The mean over `axis` of what is not NaN; NaN where nothing is."""
    if not has_nan(x):
        return mean(x, axis, keepdims)
    total = nansum(x, axis, keepdims)
    return astype(divide(total, sum(logical_not(isnan(x)), axis, keepdims)), total.dtype)


def nanmax(x, axis=None, keepdims=False):
    """The largest element over `axis` that is not NaN; NaN where all are.  Equal largest elements share the derivative equally."""
    return extreme_but_nan(max, -math.inf, x, axis, keepdims)


def nanmin(x, axis=None, keepdims=False):
    """The smallest element over `axis` that is not NaN; NaN where all are.  Equal smallest elements share the derivative equally."""
    return extreme_but_nan(min, math.inf, x, axis, keepdims)


def extreme_but_nan(f, beaten, x, axis, keepdims):
    if not has_nan(x):
        return f(x, axis, keepdims)
    gone = isnan(x)
    return where(all(gone, axis, keepdims), math.nan, f(where(gone, beaten, x), axis, keepdims))


def has_nan(x) -> bool:
    """Whether x's dtype has NaN."""
    return x.dtype.kind in "fc"
