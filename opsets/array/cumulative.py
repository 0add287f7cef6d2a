"""What has run up along an axis: cumsum cumprod, and cumulative_sum cumulative_prod, which may start before the first element."""

from __future__ import annotations

from autotape import kernels, operator

from .indexing import getitem
from .joining import along, flip, pad_with
from .reductions import product_or_0
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
    """The products of x's first elements along `axis`; None takes x.ravel().  Its derivatives hold where elements are 0, too."""
    x, axis = along_axis(x, axis)
    return running_product(x, axis - len(shape_of(x)))


@operator
def running_product(x, axis=-1):
    """The products of x's first elements along one axis."""
    return kernels().cumprod(x, axis)


@running_product.backward
def _(dy, x, y, axis):
    """The product before x[i] times dy[i] + dy[i + 1] x[i + 1] + dy[i + 2] x[i + 1] x[i + 2] + ..., without a division.

    After k steps `total` has the first 2 ** k terms of that sum, and `factor` is the product of as many elements behind x[i].
    """
    total, factor, reach = dy, shifted(x, -1, axis, 1), 1
    while reach < x.shape[axis]:
        total = total + product_or_0(factor, shifted(total, -reach, axis, 0))
        factor = product_or_0(factor, shifted(factor, -reach, axis, 1))
        reach *= 2
    return product_or_0(shifted(y, 1, axis, 1), total)


def shifted(x, by: int, axis: int, value):
    """x[i - by] at [i] along an axis counted from the end, and the value where there is none."""
    n, ndim = x.shape[axis], len(x.shape)
    left = getitem(x, along(axis, ndim, slice(min(-by, n), None) if by < 0 else slice(max(n - by, 0))))
    return pad_with(left, tuple((max(by, 0), max(-by, 0)) if i == axis % ndim else (0, 0) for i in range(ndim)), value)


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
