"""Signals, sampled at points: convolve correlate, interp, unwrap.

`convolution` is an operator; the others are compositions.
"""

from __future__ import annotations

import math

import numpy as np

from autotape import kernels, operator
from autotape.numpy_protocol import numpy_function
from autotape.transforms import stop_gradient

from .arithmetic import absolute, add, maximum, minimum, remainder, where
from .choosing import untracked
from .complex_numbers import conj
from .creation import astype
from .cumulative import cumsum
from .differences import diff
from .indexing import getitem
from .joining import concatenate, flip, pad_with
from .logic import logical_and, logical_or
from .shapes import atleast_1d, dtype_of, shape_of
from .sorting import argsort, searchsorted

# ---------------------------------------------------------------- convolution


@numpy_function(np.convolve)
def convolve(a, v, mode="full"):
    """The convolution of two 1-d arrays, of n and m elements: the sums of a[i] * v[k - i].

    mode "full" gives all n + m - 1 of them, "same" the max(n, m) in the middle, and "valid" the max(n, m) - min(n, m) + 1 where
    the shorter array lies wholly in the longer.  Raises ValueError for arrays that are empty or have more axes.
    """
    a, v = signals("convolve", mode, atleast_1d(a), atleast_1d(v))
    return of_mode(*((a, v) if a.shape >= v.shape else (v, a)), mode)


@numpy_function(np.correlate)
def correlate(a, v, mode="valid"):
    """The correlation of two 1-d arrays: the sums of a[i + k] * conj(v[i]).  The modes are those of convolve."""
    a, v = signals("correlate", mode, a, v)
    v = conj(v)
    return of_mode(a, flip(v), mode) if a.shape >= v.shape else flip(of_mode(v, flip(a), mode))


def signals(name: str, mode: str, *xs):
    """The arrays of convolve or correlate, checked."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode must be 'full', 'same' or 'valid', not {mode!r}")
    if any(len(shape_of(x)) != 1 or 0 in shape_of(x) for x in xs):
        raise ValueError(f"{name}: a {shape_of(xs[0])} and v {shape_of(xs[1])} must have one axis and an element or more")
    return [x if hasattr(x, "dtype") else np.asarray(x) for x in xs]


def of_mode(a, v, mode: str):
    """convolve, where a is no shorter than v."""
    if mode != "same":
        return convolution(a, v, mode == "full")
    start = (v.shape[0] - 1) // 2
    return getitem(convolution(a, v, True), slice(start, start + a.shape[0]))


@operator
def convolution(a, v, full=True):
    """convolve in mode "full", or in mode "valid" for an a that is no shorter than v."""
    return kernels().convolve(a, v, full)


@convolution.backward("a")
def _(dy, v, full): return convolution(dy, flip(v), not full)
@convolution.backward("v")
def _(dy, a, full): return convolution(dy, flip(a), False) if full else convolution(flip(a), dy, False)


# ---------------------------------------------------------------- interpolation


@numpy_function(np.interp)
def interp(x, xp, fp, left=None, right=None, period=None):
    """The value at x of the line through the points (xp, fp), 1-d with xp increasing, in float64, or complex128 for complex fp.

    Before the first point it is `left`, by default fp[0], and after the last one `right`, by default fp[-1].  With a `period` both
    are ignored, x and xp count round, and xp may be in any order.  The derivative in x is at a point that of the piece to its
    right, and at the last point that of the last piece.  Values of fp must be finite.
    """
    x, xp = in_float64(x), in_float64(xp)
    fp = astype(fp, np.result_type(dtype_of(fp), np.float64))
    if len(xp.shape) != 1 or xp.shape != fp.shape or xp.shape == (0,):
        raise ValueError(f"interp: xp {xp.shape} and fp {fp.shape} must be 1-d, of one length and not empty")
    if period is not None:
        x, xp, fp = over_a_period(x, xp, fp, period)
        left = right = None
    low, high = getitem(xp, 0), getitem(xp, -1)
    before, after = x < low, x > high
    start = maximum(searchsorted(xp, x, "right") - 1, 0)  # the point at x or the last before it
    x0 = getitem(xp, start)
    distance = where(logical_or(before, after), x0, x) - x0
    piece = minimum(start, searchsorted(xp, high) - 1)  # to the last one that has a length
    y = getitem(fp, start) + slope_of(xp, fp, maximum(piece, 0)) * distance
    y = where(before, getitem(fp, 0) if left is None else left, y)
    return where(after, getitem(fp, -1) if right is None else right, y)


def in_float64(x):
    if dtype_of(x).kind == "c":
        raise TypeError(f"interp: x and xp must be real, not {dtype_of(x)}")
    return astype(x, np.float64)


def slope_of(xp, fp, piece):
    """How steep the pieces are; those of no length count as having length 1."""
    end = minimum(piece + 1, xp.shape[0] - 1)
    length = getitem(xp, end) - getitem(xp, piece)
    return (getitem(fp, end) - getitem(fp, piece)) / where(length == 0, 1, length)


def over_a_period(x, xp, fp, period):
    """x and the points in one period, with a point more on either side."""
    if period == 0:
        raise ValueError("interp: the period must not be 0")
    period = abs(float(period) if isinstance(period, np.generic) else period)  # abs(np.int8(-128)) is -128
    x, xp = remainder(x, period), remainder(xp, period)
    order = argsort(xp)
    xp, fp = getitem(xp, order), getitem(fp, order)
    first, end = slice(1), slice(-1, None)
    xp = concatenate((getitem(xp, end) - period, xp, getitem(xp, first) + period))
    return x, xp, concatenate((getitem(fp, end), fp, getitem(fp, first)))


# ---------------------------------------------------------------- angles


@numpy_function(np.unwrap)
def unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    """p, with whole periods added so that neighbours along `axis` differ by no more than half of one.

    Differences below `discont`, where that is larger, stay.  What is added has the derivative 0, so a `period` that is being recorded
    raises TypeError.
    """
    period = untracked(period, "np.unwrap's period")
    step = stop_gradient(diff(p, axis=axis))
    dtype = np.result_type(step.dtype, period)
    half, odd = (period // 2, period % 2) if dtype.kind in "iu" else (period / 2, 0)
    short = remainder(step + half, period) - half
    if not odd:  # a step of half a period keeps its direction
        short = where(logical_and(short == -half, step > 0), half, short)
    change = where(absolute(step) < (period / 2 if discont is None else discont), 0, short - step)
    widths = tuple((min(n, 1), 0) if i == axis % len(shape_of(p)) else (0, 0) for i, n in enumerate(shape_of(p)))
    return astype(add(p, cumsum(pad_with(change, widths, -0.0), axis)), dtype)  # p[0] may be -0.0
