"""What has run up along an axis: cumsum cumprod, and cumulative_sum cumulative_prod, which may start before the first element."""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator

from .arithmetic import multiply
from .creation import astype
from .indexing import getitem
from .joining import along, flip, pad_with
from .shapes import along_axis, shape_of


def cumsum(x, axis=None):
    """The sums of x's first elements along `axis`; None takes x.ravel()."""
    x, axis = along_axis(x, axis)
    return running_sum(x, axis - len(shape_of(x)))


@operator
def running_sum(x, axis=-1):
    """The sums of x's first elements along one axis."""
    return kernels().cumsum(x, axis)


@running_sum.backward
def _(dy, axis): return flip(running_sum(flip(dy, axis), axis), axis)


def cumprod(x, axis=None):
    """The products of x's first elements along `axis`; None takes x.ravel().  Its derivatives hold where elements are 0, too.

    After k steps each element is the product of the 2 ** k that end there: log2(n) products of whole arrays, and no division.
    So elements in a row whose product overflows give inf or NaN, even where a small product before them would have kept it finite.
    """
    x, axis = along_axis(x, axis)
    y = astype(x, np.cumprod(np.zeros(0, x.dtype)).dtype)
    n, ndim, reach = x.shape[axis], len(x.shape), 1
    while reach < n:
        earlier = getitem(y, along(axis, ndim, slice(n - reach)))
        y = multiply(y, pad_with(earlier, tuple((reach, 0) if i == axis else (0, 0) for i in range(ndim)), 1))
        reach *= 2
    return y


def cumulative_sum(x, axis=None, include_initial=False):
    """cumsum along `axis`, which an x of several axes must have; include_initial=True puts the sum of nothing, 0, in front."""
    return from_start("cumulative_sum", cumsum, x, axis, 0 if include_initial else None)


def cumulative_prod(x, axis=None, include_initial=False):
    """cumprod along `axis`, which an x of several axes must have; include_initial=True puts the product of nothing, 1, in front."""
    return from_start("cumulative_prod", cumprod, x, axis, 1 if include_initial else None)


def from_start(name, f, x, axis, start):
    """What has run up along the axis, with `start` in front unless it is None."""
    n = len(shape_of(x))
    if axis is None and n > 1:
        raise ValueError(f"{name}: an x of several axes, as {shape_of(x)} has, needs an axis")
    x, axis = along_axis(x, axis)
    y = f(x, axis)
    return y if start is None else pad_with(y, tuple((int(i == axis), 0) for i in range(len(y.shape))), start)
