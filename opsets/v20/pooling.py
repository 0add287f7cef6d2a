"""Pooling: the maximum and the mean of windows, each with its transpose; unpool is the mean's, scaled to undo it."""

from __future__ import annotations

import math

import numpy as np

from autotape import kernels, operator

from ..array import astype, isnan, multiply, where
from ..array.reductions import HALF
from ..array.shapes import dtype_of, shape_of
from ..geometry import expect, pooling, real_number, unpooling


def pool(x, window=2, padding=0, stride=None, mode=0, alpha=1, nan=True):
    """alpha * (the maximum or the mean of each window of x (N, C, *spatial)), in one to three dimensions.  Knet's pool.

    mode 0 is the maximum, 1 the mean with padding counted as zeros, 2 the mean without padding, and 3 the deterministic maximum,
    here the same as 0: the gradient always goes to the first maximum of a window in row-major order.  NaN in a window gives NaN;
    with nan=False maxima leave it out, and a window of nothing else has -inf.
    window is a number or one for each spatial axis, and so is stride, which by default is the window; padding is as in conv4 and
    smaller than the window.  The result's shape is conv4's.  Raises ValueError for shapes and options that don't fit.
    """
    if mode not in (0, 1, 2, 3):
        raise ValueError(f"pool: mode must be 0 or 3 (maximum), 1 (mean counting padding) or 2 (mean without padding), got {mode!r}")
    if not nan and mode in (0, 3):
        x = where(isnan(x), -math.inf, x)
    y = max_pool(x, window, padding, stride) if mode in (0, 3) else mean_pool(x, window, padding, stride, mode == 1)
    return y if (alpha := real_number("pool", "alpha", alpha)) == 1 else multiply(y, alpha)


def unpool(x, window=2, padding=0, stride=None, alpha=1):
    """The transpose of mean pooling, scaled so that pool undoes it: each value of x fills a window.  Knet's unpool.

    x (N, C, *spatial) gives (N, C, *output), where an axis of n gives (n - 1) * stride + window - padding before and after.  Where
    windows overlap their values add up; where they lie side by side and there is no padding, pool(unpool(x), mode=1) is x, the
    other options being the same; alpha, by which pool multiplies, divides here: it is finite and not 0.  Options and errors are those
    of pool.
    """
    if not 0 < abs(alpha := real_number("unpool", "alpha", alpha)) < math.inf:  # NaN too
        raise ValueError(f"unpool: alpha must not be 0, since it divides, and be finite; got {alpha!r}")
    geometry, shape = unpooling("unpool", shape_of(x), window, padding, stride)
    is_half = dtype_of(x) == HALF
    x = astype(x, np.float32) if is_half else x  # times the window it may be more than float16 holds
    y = mean_pool_x(multiply(x, math.prod(geometry.window) / alpha), shape, window, padding, stride)
    return astype(y, HALF) if is_half else y


@operator
def max_pool(x, window=2, padding=0, stride=None):
    """The maximum of each window of x (N, C, *spatial), padding left out: pool with mode 0.  Options as there."""
    return kernels().max_pool(x, pooling("max_pool", x.shape, window, padding, stride)[0])


@max_pool.backward
def _(dy, x, y, window, padding, stride): return max_pool_x(dy, x, y, window, padding, stride)


@operator(nondifferentiable="x m")
def max_pool_x(v, x, m, window=2, padding=0, stride=None):
    """The transpose of max_pool at x: v, shaped like m = max_pool(x), goes to where each window of x has its first maximum."""
    geometry, y_shape = pooling("max_pool_x", x.shape, window, padding, stride)
    expect("max_pool_x", "v", v.shape, y_shape)
    expect("max_pool_x", "m", m.shape, y_shape)
    return kernels().max_pool_x(v, x, m, geometry)


@max_pool_x.backward("v")
def _(dy, x, m, window, padding, stride): return max_pool_at(dy, x, m, window, padding, stride)


@operator(nondifferentiable="x m")
def max_pool_at(v, x, m, window=2, padding=0, stride=None):
    """v, shaped like x, taken where each window of x has its first maximum; m is max_pool(x).  The transpose of max_pool_x in v."""
    geometry, y_shape = pooling("max_pool_at", x.shape, window, padding, stride)
    expect("max_pool_at", "v", v.shape, x.shape)
    expect("max_pool_at", "m", m.shape, y_shape)
    return kernels().max_pool_at(v, x, m, geometry)


@max_pool_at.backward("v")
def _(dy, x, m, window, padding, stride): return max_pool_x(dy, x, m, window, padding, stride)


@operator
def mean_pool(x, window=2, padding=0, stride=None, count_padding=True):
    """The mean of each window of x (N, C, *spatial), padding counted as zeros or left out: pool with mode 1 or 2.  Options as there."""
    return kernels().mean_pool(x, pooling("mean_pool", x.shape, window, padding, stride)[0], count_padding)


@mean_pool.backward
def _(dy, x_shape, window, padding, stride, count_padding): return mean_pool_x(dy, x_shape, window, padding, stride, count_padding)


@operator
def mean_pool_x(v, x_shape=(), window=2, padding=0, stride=None, count_padding=True):
    """The transpose of mean_pool: v, shaped like its result, is spread evenly over the windows of an x of shape x_shape."""
    geometry, y_shape = pooling("mean_pool_x", x_shape, window, padding, stride)
    expect("mean_pool_x", "v", v.shape, y_shape)
    return kernels().mean_pool_x(v, tuple(x_shape), geometry, count_padding)


@mean_pool_x.backward
def _(dy, window, padding, stride, count_padding): return mean_pool(dy, window, padding, stride, count_padding)
