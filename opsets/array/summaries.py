"""Reductions made of others: ptp average count_nonzero, and those that leave NaN out: nansum nanmean nanvar nanmax nanargmax ...

`axis` and keepdims are those of the reductions.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from autotape.tensor import asarray

from .arithmetic import divide, multiply, subtract, where
from .complex_numbers import real, squared
from .creation import astype, full_like, ones_like
from .cumulative import cumprod, cumsum
from .functions import sqrt
from .logic import equal, greater, isnan, logical_not, not_equal
from .reductions import (
    HALF,
    all,
    any,
    argmax,
    argmin,
    max,
    mean,
    min,
    prod,
    root_sum_square,
    std,
    std_about,
    sum,
    var,
    var_about,
)
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
    w = fitted("average", weights, shape_of(x), axis)
    dtype = dtype_of(x)
    dtype = np.result_type(dtype, w.dtype, *([np.float64] if dtype.kind in "biu" else []))
    x, w = astype(x, dtype), astype(w, dtype)
    total = sum(w, axis, keepdims)
    if asarray(any(equal(total, 0))):
        raise ZeroDivisionError("average: the weights sum to 0")
    y = divide(sum(multiply(x, w), axis, keepdims), total)
    return (y, multiply(total, ones_like(y))) if returned else y


def fitted(name, weights, x_shape, axis):
    """The weights of an average or quantile in a shape that broadcasts to x's and has the axes in their order."""
    shape, axes = shape_of(weights), None if axis is None else normalize_axis_tuple(axis, len(x_shape))
    if shape == x_shape:
        return reshape(weights, shape)
    if axes is None:
        raise TypeError(f"{name}: weights {shape} need an axis, since x has another shape, {x_shape}")
    if shape != tuple(x_shape[i] for i in axes):
        raise ValueError(f"{name}: weights {shape} must have the lengths of the axes {axes} of x {x_shape}")
    return reshape(transpose(weights, tuple(np.argsort(axes).tolist())), tuple(n if i in axes else 1 for i, n in enumerate(x_shape)))


# ---------------------------------------------------------------- without NaN


def nansum(x, axis=None, keepdims=False):
    """The sum over `axis` of what is not NaN."""
    return sum(with_for_nan(x, 0), axis, keepdims)


def nanprod(x, axis=None, keepdims=False):
    """The product over `axis` of what is not NaN."""
    return prod(with_for_nan(x, 1), axis, keepdims)


def nancumsum(x, axis=None):
    """cumsum in which NaN counts as 0."""
    return cumsum(with_for_nan(x, 0), axis)


def nancumprod(x, axis=None):
    """cumprod in which NaN counts as 1."""
    return cumprod(with_for_nan(x, 1), axis)


def nanmean(x, axis=None, keepdims=False):
    """The mean over `axis` of what is not NaN; NaN where nothing is."""
    if not has_nan(x):
        return mean(x, axis, keepdims)
    total = nansum(x, axis, keepdims)
    return astype(divide(total, sum(logical_not(isnan(x)), axis, keepdims)), total.dtype)


def nanvar(x, axis=None, ddof=0, keepdims=False):
    """The variance over `axis` of what is not NaN; NaN where ddof leaves nothing to divide by."""
    return nanvar_about(x, nanmean(x, axis, True), axis, ddof, keepdims) if has_nan(x) else var(x, axis, ddof, keepdims)


def nanvar_about(x, mean, axis=None, ddof=0, keepdims=False):
    """nanvar, about a mean that is given with the axes kept and has a derivative of its own."""
    if not has_nan(x):
        return var_about(x, mean, axis, ddof, keepdims)
    away, divisor = spread(x, mean, axis, ddof, keepdims)
    return narrowed(divide(sum(squared(away), axis, keepdims), divisor), x)


def nanstd(x, axis=None, ddof=0, keepdims=False):
    """The standard deviation over `axis` of what is not NaN, sqrt(nanvar).  Where all that is left is equal its derivative is 0."""
    return nanstd_about(x, nanmean(x, axis, True), axis, ddof, keepdims) if has_nan(x) else std(x, axis, ddof, keepdims)


def nanstd_about(x, mean, axis=None, ddof=0, keepdims=False):
    """nanstd, about a mean that is given with the axes kept and has a derivative of its own."""
    if not has_nan(x):
        return std_about(x, mean, axis, ddof, keepdims)
    away, divisor = spread(x, mean, axis, ddof, keepdims)
    return narrowed(divide(root_sum_square(away, axis, keepdims), sqrt(divisor)), x)


def spread(x, mean, axis, ddof, keepdims):
    """The distances of x's elements from the mean, 0 for NaN, and by what the sum of their squares is to be divided."""
    x = astype(x, np.float32) if dtype_of(x) == HALF else x
    gone = isnan(x)
    away = where(gone, 0, subtract(x, mean))
    n = subtract(astype(sum(logical_not(gone), axis, keepdims), real(away).dtype), ddof)
    return away, where(greater(n, 0), n, math.nan)


def narrowed(y, x):
    """y in the precision of x."""
    return astype(y, HALF) if dtype_of(x) == HALF else y


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


def nanargmax(x, axis=None, keepdims=False):
    """The index of the first largest element along `axis` that is not NaN; None takes x.ravel().  Raises ValueError where all are NaN."""
    return argmax(but_nan("nanargmax", -math.inf, x, axis), axis, keepdims)


def nanargmin(x, axis=None, keepdims=False):
    """The index of the first smallest element along `axis` that is not NaN; None takes x.ravel().  Raises ValueError where all are NaN."""
    return argmin(but_nan("nanargmin", math.inf, x, axis), axis, keepdims)


def but_nan(name, beaten, x, axis):
    """x with the value that beats nothing for NaN.  Raises ValueError where all are NaN."""
    if has_nan(x) and asarray(any(all(isnan(x), axis))):
        raise ValueError(f"{name}: along axis {axis} of x {shape_of(x)} all elements of a slice are NaN")
    return with_for_nan(x, beaten)


def with_for_nan(x, value):
    """x with a value for NaN."""
    return where(isnan(x), value, x) if has_nan(x) else x


def has_nan(x) -> bool:
    """Whether x's dtype has NaN."""
    return dtype_of(x).kind in "fc"
