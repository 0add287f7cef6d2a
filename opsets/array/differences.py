"""Differences of neighbours, and what is made of them: diff ediff1d, gradient, trapezoid.  All are compositions."""

from __future__ import annotations

from operator import index

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from autotape.numpy_protocol import numpy_function

from .arithmetic import add, divide, multiply, subtract
from .creation import astype
from .indexing import getitem
from .joining import along, concatenate
from .logic import BOOL, not_equal
from .reductions import sum
from .shapes import as_array, broadcast_to, dtype_of, ravel, reshape, shape_of


def diff(x, n=1, axis=-1, prepend=None, append=None):
    """x[i + 1] - x[i] along `axis`, n times; of booleans, whether they differ.

    prepend and append are joined to x first: arrays, or a number, which fills length 1.  Raises ValueError for n < 0 and a 0-d x.
    """
    if (n := index(n)) == 0:
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


@numpy_function(np.gradient)
def gradient(f, *varargs, axis=None, edge_order=1):
    """The derivative of the samples f along `axis` (None: along each; a tuple for several): central differences, one-sided ones at
    the edges, exact for polynomials of degree `edge_order` (1 or 2) there.

    varargs are the distances of the samples: none for 1, a number for all axes, or for each axis a number or the 1-d coordinates.
    Gives an array for one axis, else a tuple.  Raises ValueError where an axis has fewer than edge_order + 1 samples, TypeError for
    booleans f.
    """
    f = as_array(f)
    shape, dtype = f.shape, f.dtype
    axes = tuple(range(len(shape))) if axis is None else normalize_axis_tuple(axis, len(shape))
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, not {edge_order}")
    if short := [i for i in axes if shape[i] <= edge_order]:
        raise ValueError(f"gradient: axis {short[0]} of f {shape} must have {edge_order + 1} samples or more for edge_order={edge_order}")
    if dtype == BOOL:
        raise TypeError("gradient: f must be numbers, not bool")
    f = astype(f, np.float64) if dtype.kind in "iu" else f
    ys = tuple(slope(f, h, i, edge_order) for i, h in zip(axes, distances(varargs, shape, axes), strict=True))
    return ys[0] if len(ys) == 1 else ys


def distances(given, shape, axes):
    """Of each axis the one distance of its samples, or all of them in a shape that broadcasts to f's."""
    if not given or (len(given) == 1 and shape_of(given[0]) == ()):
        given = (given or (1.0,)) * len(axes)
    if len(given) != len(axes):
        raise TypeError(f"gradient: there are {len(given)} distances for {len(axes)} axes: give none, one number, or one for each axis")
    return [distance(h, shape, i) for i, h in zip(axes, given, strict=True)]


def distance(h, shape, axis: int):
    if shape_of(h) == () and type(h) in (int, float):
        return h
    h = astype(h, np.float64) if dtype_of(h).kind in "biu" else h  # differences and sums of integers may wrap
    if shape_of(h) == ():
        return reshape(h, ())
    if shape_of(h) != (shape[axis],):
        raise ValueError(f"gradient: the coordinates {shape_of(h)} along axis {axis} must be 1-d and as many as the samples {shape} there")
    return reshape(diff(h), (-1, *(1,) * (len(shape) - 1 - axis)))


def slope(f, h, axis: int, edge_order: int):
    """gradient along one axis.  With distances p and q the central difference is exact for parabolas, as those of edge_order 2 are."""
    ndim, even = len(f.shape), shape_of(h) == ()

    def part(x, i, j=None):
        return getitem(x, along(axis, ndim, slice(i, j)))

    def step(i, j=None):
        return h if even else getitem(h, (slice(i, j), ...))

    if even:
        middle = (part(f, 2) - part(f, None, -2)) / (2 * h)
    else:
        middle = weighted(part(f, None, -2), part(f, 1, -1), part(f, 2), *central(step(None, -1), step(1)))
    if edge_order == 1:
        first = (part(f, 1, 2) - part(f, None, 1)) / step(None, 1)
        last = (part(f, -1) - part(f, -2, -1)) / step(-1)
    else:
        first = weighted(part(f, None, 1), part(f, 1, 2), part(f, 2, 3), *onesided(step(None, 1), step(1, 2)))
        a, b, c = onesided(step(-1), step(-2, -1))
        last = weighted(part(f, -3, -2), part(f, -2, -1), part(f, -1), -c, -b, -a)
    return astype(concatenate((first, middle, last), axis), f.dtype)


def weighted(f0, f1, f2, a, b, c):
    return a * f0 + b * f1 + c * f2


def central(p, q):
    """The weights of the derivative at the second of three samples, p behind the first and q before the third."""
    return -q / (p * (p + q)), (q - p) / (p * q), p / (q * (p + q))


def onesided(p, q):
    """The weights of the derivative at the first of three samples, p before the second, which is q before the third."""
    return -(2 * p + q) / (p * (p + q)), (p + q) / (p * q), -p / (q * (p + q))
