"""Medians and quantiles, compositions of sort and interpolation: median percentile quantile, and those that leave NaN out.

`axis` and keepdims are those of the reductions.  Derivatives go to the elements that a result is or lies between; of equal ones to
those that stand there when the order of equal ones is kept.  Where a result is between elements that are not finite, its derivative
in q is 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from autotape import kernels, operator
from autotape.tensor import asarray

from .arithmetic import ceil, divide, floor, floor_divide, maximum, minimum, round, subtract, where
from .creation import astype
from .cumulative import cumsum
from .indexing import getitem, take_along_axis
from .joining import concatenate, pad_with
from .logic import isfinite, isnan, logical_and, logical_not
from .reductions import all, mean, sum
from .shapes import broadcast_to, dtype_of, expand_dims, moveaxis, reshape, shape_of, transpose
from .sorting import argsort, sort
from .summaries import fitted, has_nan

TINY = float(np.finfo(np.float64).tiny)

# ---------------------------------------------------------------- medians


def median(x, axis=None, keepdims=False):
    """The middle element over `axis`, or the mean of the two in the middle; NaN if one is NaN or there is none."""
    y = sort(or_nan(rows(x, axis)))
    n = shape_of(y)[-1]
    middle = mean(getitem(y, (..., slice((n - 1) // 2, n // 2 + 1))), -1)
    return in_place_of(nan_if(getitem(y, (..., -1)), middle), x, axis, keepdims)


def nanmedian(x, axis=None, keepdims=False):
    """The median over `axis` of what is not NaN; NaN where nothing is."""
    y = sort(or_nan(rows(x, axis)))
    n = numbers_in(y)
    places = where(n > 0, concatenate((maximum(floor_divide(n - 1, 2), 0), floor_divide(n, 2)), -1), 0)
    both, odd = take_along_axis(y, places, -1), n % 2 == 1
    middle = where(odd, getitem(both, (..., slice(1))), mean(where(odd, 0, both), -1, True))  # a sum of one twice might overflow
    return in_place_of(getitem(middle, (..., 0)), x, axis, keepdims)


# ---------------------------------------------------------------- quantiles


def quantile(x, q, axis=None, method="linear", keepdims=False, weights=None):
    """What the share q, from 0 to 1, of x's elements over `axis` is not larger than: at place q * (n - 1) of the sorted elements.

    Between places it is interpolated: linearly, or by another of numpy.quantile's methods.  q may have any shape, whose axes come
    first in the result.  NaN if one element is NaN.  q has a derivative, too, where the method is continuous: that to the right.
    A Python number q is weak, and integers q, for which there is nothing to interpolate linearly, leave x's dtype.
    `weights`, of x's shape or with the lengths of the axes, say how much each element counts, for the method "inverted_cdf" alone; they
    have the derivative 0.  Raises TypeError unless x is real, ValueError for other q, methods and weights, IndexError for no elements.
    """
    return ordered("quantile", x, q, 1, axis, method, keepdims, weights)


def percentile(x, q, axis=None, method="linear", keepdims=False, weights=None):
    """The quantile for q in percent, from 0 to 100."""
    return ordered("percentile", x, q, 100, axis, method, keepdims, weights)


def nanquantile(x, q, axis=None, method="linear", keepdims=False, weights=None):
    """The quantile over `axis` of what is not NaN; NaN where nothing is."""
    return ordered("nanquantile", x, q, 1, axis, method, keepdims, weights, without_nan=True)


def nanpercentile(x, q, axis=None, method="linear", keepdims=False, weights=None):
    """The quantile over `axis` of what is not NaN, for q in percent, from 0 to 100; NaN where nothing is."""
    return ordered("nanpercentile", x, q, 100, axis, method, keepdims, weights, without_nan=True)


def ordered(name, x, q, whole, axis, method, keepdims, weights, without_nan=False):
    """The quantiles for the shares q / whole."""
    if dtype_of(x).kind == "c":
        raise TypeError(f"{name}: x must be of real numbers, not {dtype_of(x)}")
    y = rows(x, axis)
    if shape_of(y)[-1] == 0 and not without_nan:
        raise IndexError(f"{name}: x {shape_of(x)} has no elements over axis {axis}")
    if weights is None or shape_of(y)[-1] == 0:
        y = sort(or_nan(y))
        n = astype(numbers_in(y), float_of(q)) if without_nan else shape_of(y)[-1]  # places are found in q's dtype, as NumPy has it
        method = "lower" if method == "linear" and whole == 1 and dtype_of(q).kind in "biu" else method
        found = between(y, n, shares(name, q, whole), method, common_dtype(x, q))
    else:
        w = broadcast_to(fitted(name, weights, shape_of(x), axis), shape_of(x))
        y, found = weighed(name, y, shares(name, q, whole), method, rows(w, axis))
    if has_nan(y):
        decides = getitem(y, (..., slice(1) if without_nan else slice(-1, None)))  # NaN is sorted last
        found = where(isnan(decides), math.nan, found)
    return in_place_of(reshape(moveaxis(found, -1, 0), shape_of(q) + shape_of(y)[:-1]), x, axis, keepdims)


def weighed(name, y, q, method, weights):
    """Rows y sorted, and of each the first element up to which the share q of all weights has come; NaN has none."""
    if method != "inverted_cdf":
        raise ValueError(f"{name}: weights go with the method 'inverted_cdf' alone, not with {method!r}")
    order = argsort(y)
    y, w = take_along_axis(y, order, -1), astype(take_along_axis(weights, order, -1), np.float64)
    total = sum(w, -1, True)
    if not asarray(all(logical_and(w >= 0, logical_and(total > 0, isfinite(total))))):
        raise ValueError(f"{name}: the weights must be finite numbers from 0 on, and not all 0")
    run = cumsum(where(isnan(y), 0, w), -1)
    share = astype(divide(run, maximum(getitem(run, (..., slice(-1, None))), TINY)), float_of(q))
    before = expand_dims(where(run == 0, -1, share), -2) < expand_dims(q, -1)  # what weighs nothing is before all else
    return y, at(y, minimum(sum(before, -1), shape_of(y)[-1] - 1))


def shares(name, q, whole):
    """q / whole in one axis.  Raises ValueError for q that are not from 0 to whole."""
    q = astype(reshape(q, (-1,)), float_of(q))
    if not asarray(all(logical_and(q >= 0, q <= whole))):
        raise ValueError(f"{name}: q must be from 0 to {whole}")
    return divide(q, whole) if whole > 1 else q


def common_dtype(x, q):
    """The dtype of what is interpolated: a Python number q is weak."""
    return dtype_of(x) if type(q) in (int, float) and dtype_of(x).kind == "f" else np.result_type(dtype_of(x), float_of(q))


def float_of(q):
    """q's dtype if it is one of floats, else float64."""
    return dtype_of(q) if dtype_of(q).kind == "f" else np.dtype(np.float64)


# ---------------------------------------------------------------- methods

# Place q * n + a + q * (1 - a - b) - 1 of n sorted elements, counted from 0, for (a, b).  Hyndman and Fan, "Sample quantiles in
# statistical packages", The American Statistician 50 (1996)
CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
MEANS = {  # the place, and from how far it is past an element the share of the next one
    "linear": (lambda n, q: q * (n - 1), lambda past: past),
    "averaged_inverted_cdf": (lambda n, q: q * n - 1, lambda past: where(past == 0, 0.5, 1)),
    "midpoint": (lambda n, q: (floor(q * (n - 1)) + ceil(q * (n - 1))) * 0.5, lambda past: where(past == 0, 0, 0.5)),
}
STEPS = {
    "inverted_cdf": lambda n, q: ceil(q * n) - 1,
    "closest_observation": lambda n, q: round(q * n) - 1,
    "lower": lambda n, q: floor(q * (n - 1)),
    "higher": lambda n, q: ceil(q * (n - 1)),
    "nearest": lambda n, q: round(q * (n - 1)),
}


def between(y, n, q, method, dtype):
    """The quantiles (..., m) for the shares q (m,) of rows y, sorted, of which the first n elements count."""
    if method in STEPS:
        return at(y, clipped(STEPS[method](n, q), n))
    if method in CONTINUOUS:
        a, b = CONTINUOUS[method]
        place, share = q * n + (a + q * (1 - a - b)) - 1, MEANS["linear"][1]
    elif method in MEANS:
        place, share = MEANS[method][0](n, q), MEANS[method][1]
    else:
        raise ValueError(f"quantile: method must be one of {', '.join([*MEANS, *CONTINUOUS, *STEPS])}, not {method!r}")
    first = floor(place)
    low, high = (astype(at(y, clipped(p, n)), dtype) for p in (first, first + 1))
    return mixture(low, high, astype(share(place - first), dtype))


@operator(elementwise=True)
def mixture(a, b, share):
    """a + (b - a) * share, or from the middle on b - (b - a) * (1 - share), as NumPy has it, which tells beside infinities.

    Where b - a is not finite, the derivative in the share is 0.
    """
    k = kernels()
    gap = k.subtract(b, a)
    rest = k.subtract(k.scalar(1, share.dtype), share)
    late = k.greater_equal(share, k.scalar(0.5, share.dtype))
    return k.where(late, k.subtract(b, k.multiply(gap, rest)), k.add(a, k.multiply(gap, share)))


@mixture.backward("a")
def _(dy, share): return dy * (1 - share)
@mixture.backward("b")
def _(dy, share): return dy * share
@mixture.backward("share")
def _(dy, a, b):
    gap = subtract(b, a)
    return dy * where(isfinite(gap), gap, 0)


def clipped(place, n):
    """A place as an index of one of the first n elements."""
    return astype(maximum(minimum(place, n - 1), 0), np.intp)


def at(y, places):
    """Each row's elements at the places."""
    return take_along_axis(y, reshape(places, (1,) * (len(shape_of(y)) - len(shape_of(places))) + shape_of(places)), -1)


# ---------------------------------------------------------------- rows


def rows(x, axis):
    """x with the axes to reduce as one, the last."""
    shape = shape_of(x)
    gone = tuple(range(len(shape))) if axis is None else normalize_axis_tuple(axis, len(shape))
    left = tuple(i for i in range(len(shape)) if i not in gone)
    return reshape(transpose(x, left + gone), (*(shape[i] for i in left), math.prod(shape[i] for i in gone)))


def in_place_of(y, x, axis, keepdims):
    """y, whose last axes are those of x that are not reduced, with the reduced ones back as 1 if they are kept."""
    if not keepdims:
        return y
    shape = shape_of(x)
    gone = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
    lead = len(shape_of(y)) - (len(shape) - len(gone))
    return reshape(y, shape_of(y)[:lead] + tuple(1 if i in gone else n for i, n in enumerate(shape)))


def or_nan(y):
    """Rows y, or if they have no elements rows of one NaN."""
    if shape_of(y)[-1]:
        return y
    return pad_with(astype(y, float_of(y)), (*((0, 0),) * (len(shape_of(y)) - 1), (0, 1)), math.nan)


def nan_if(last, y):
    """y, but NaN where the last one of the sorted elements is NaN."""
    return where(isnan(last), math.nan, y) if has_nan(last) else y


def numbers_in(y):
    """How many elements of each row are not NaN."""
    return sum(logical_not(isnan(y)), -1, True)
