"""The same elements in another shape: reshape, transpose, broadcast_to, and what is made of them.

reshape, transpose, broadcast_to and its transpose sum_to are operators; all others are compositions.  Rules count axes
from the end, so that leading axes of a cotangent pass through.
"""

from __future__ import annotations

import math
from operator import index

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from autotape import kernels, operator

# ---------------------------------------------------------------- operators


@operator
def reshape(x, shape=(-1,)):
    """x's elements, in C order, in another shape: an int or a tuple, of which one entry may be -1 for what is left."""
    return kernels().reshape(x, whole_shape(shape, x))


@reshape.backward
def _(dy, x_shape): return reshape(dy, x_shape)


@operator(numpy=np.transpose)
def transpose(x, axes=None):
    """x with its axes permuted: axis i of the result is axis axes[i] of x.  None reverses them."""
    return kernels().transpose(x, axes if axes is None else normalize_axis_tuple(axes, len(x.shape)))


@transpose.backward
def _(dy, axes): return transpose(dy, axes if axes is None else inverse(axes))


@operator(numpy=np.broadcast_to)
def broadcast_to(x, shape=()):
    """x repeated along new leading axes and along axes of length 1, to fill `shape`."""
    return kernels().broadcast_to(x, as_shape(shape))


@broadcast_to.backward
def _(dy, x_shape): return sum_to(dy, x_shape)


@operator
def sum_to(x, shape=()):
    """The transpose of broadcast_to: x summed down to `shape`, which broadcasts to x's."""
    return kernels().sum_to(x, shape)


@sum_to.backward
def _(dy, x_shape): return broadcast_to(dy, x_shape)


# ---------------------------------------------------------------- arithmetic on shapes and axes


def shape_of(x) -> tuple[int, ...]:
    """The shape of a Tensor, array, number or nested list."""
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def dtype_of(x) -> np.dtype:
    """The dtype of a Tensor or array, or that which NumPy gives a number or nested list."""
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def as_array(x):
    """x, or a number or nested list as an array."""
    return x if hasattr(x, "dtype") else kernels().adopt(np.asarray(x))


def as_shape(shape) -> tuple[int, ...]:
    """A shape as NumPy takes it, an int or a sequence, as a tuple.  Raises TypeError for what is no whole number."""
    return tuple(map(index, shape if isinstance(shape, (tuple, list)) else (shape,) if isinstance(shape, int) else np.ravel(shape)))


def whole_shape(shape, x) -> tuple[int, ...]:
    """The shape in which -1 stands for what is left of x's elements."""
    whole = as_shape(shape)
    if -1 not in whole:
        return whole
    known = -math.prod(whole)
    if whole.count(-1) > 1 or known <= 0 or x.size % known:
        raise ValueError(f"an array of shape {x.shape} can't take the shape {whole}")
    return tuple(x.size // known if n == -1 else n for n in whole)


def along_axis(x, axis):
    """x and the one axis, counted from the front; for None, and for a 0-d x, all of x in one axis, as NumPy has it."""
    if axis is None or shape_of(x) == ():
        x, axis = ravel(x), 0 if axis is None else axis
    return x, normalize_axis_index(axis, len(shape_of(x)))


def under_name(name: str, f, *xs, **options):
    """f(*xs, **options) for a public function that makes its inputs ready for operator f: errors speak of that function."""
    try:
        return f(*xs, **options)
    except (ValueError, TypeError, IndexError) as e:
        raise type(e)(str(e).replace(f.__name__, name, 1)) from e


def fitting(v_shape, shape):
    """v_shape without the leading ones by which it is longer than `shape`: NumPy's assignments drop them."""
    extra = max(len(v_shape) - len(shape), 0)
    return v_shape[extra:] if set(v_shape[:extra]) <= {1} else v_shape


def inverse(axes) -> tuple[int, ...]:
    """The permutation that undoes one, counted from the end."""
    n = len(axes)
    order = normalize_axis_tuple(axes, n)
    return tuple(order.index(i) - n for i in range(n))


# ---------------------------------------------------------------- compositions


def in_order(name: str, x, shape, order):
    """reshape, for the public function of that name, of x's elements in C order, or with the first axis fastest for "F"."""
    if order == "C":
        return reshape(x, shape)
    if order == "F":
        return transpose(reshape(transpose(x), whole_shape(shape, x)[::-1]))
    raise TypeError(f"{name} of a Tensor: order must be 'C' or 'F', not {order!r}, since it may lie in memory in any way")


def ravel(x):
    """x in one axis, in C order."""
    return reshape(x, (-1,))


def swapaxes(x, axis1, axis2):
    """x with two axes exchanged."""
    n = len(shape_of(x))
    i, j = normalize_axis_index(axis1, n, "axis1"), normalize_axis_index(axis2, n, "axis2")
    axes = list(range(-n, 0))
    axes[i], axes[j] = axes[j], axes[i]
    return transpose(x, tuple(axes))


def matrix_transpose(x):
    """x with its last two axes exchanged.  Raises ValueError if it has fewer."""
    if len(shape_of(x)) < 2:
        raise ValueError(f"matrix_transpose: x {shape_of(x)} must have two axes or more")
    return swapaxes(x, -1, -2)


def moveaxis(x, source, destination):
    """x with the axes `source` (an int or a sequence) at the places `destination`, the others in their order."""
    n = len(shape_of(x))
    source, destination = normalize_axis_tuple(source, n, "source"), normalize_axis_tuple(destination, n, "destination")
    if len(source) != len(destination):
        raise ValueError(f"moveaxis: source {source} and destination {destination} must have as many axes")
    axes = [i for i in range(n) if i not in source]
    for to, axis in sorted(zip(destination, source, strict=True)):
        axes.insert(to, axis)
    return transpose(x, tuple(i - n for i in axes))


def squeeze(x, axis=None):
    """x without its axes of length 1, or without those of them that `axis` names.  Raises ValueError if one is longer."""
    shape = shape_of(x)
    if axis is None or (shape == () and axis in (0, -1)):  # which NumPy takes of a 0-d x
        gone = tuple(i for i, n in enumerate(shape) if n == 1)
    else:
        gone = normalize_axis_tuple(axis, len(shape))
    if longer := [i for i in gone if shape[i] != 1]:
        raise ValueError(f"squeeze: axis {longer[0]} of x {shape} must have length 1")
    return reshape(x, tuple(n for i, n in enumerate(shape) if i not in gone))


def expand_dims(x, axis):
    """x with new axes of length 1 at the places `axis` (an int or a tuple) of the result."""
    shape = shape_of(x)
    new = axis if isinstance(axis, (tuple, list)) else (axis,)
    n = len(shape) + len(new)
    new, old = normalize_axis_tuple(new, n), iter(shape)
    return reshape(x, tuple(1 if i in new else next(old) for i in range(n)))


def atleast_1d(*xs):
    """x with an axis or more: a 0-d x has shape (1,).  Of several xs a tuple."""
    return widened(xs, lambda shape: shape or (1,))


def atleast_2d(*xs):
    """x with two axes or more: a 1-d x is a row.  Of several xs a tuple."""
    return widened(xs, lambda shape: (1,) * (2 - len(shape)) + shape)


def atleast_3d(*xs):
    """x with three axes or more: a 1-d x has shape (1, n, 1), a matrix (m, n, 1).  Of several xs a tuple."""
    return widened(xs, lambda shape: ((1,) * (2 - len(shape)) + shape + (1,)) if len(shape) < 3 else shape)


def widened(xs, whole):
    """Each x in the shape that `whole` makes of its own; alone if there is one."""
    ys = tuple(reshape(x, whole(shape_of(x))) for x in xs)
    return ys[0] if len(ys) == 1 else ys


def assigned(name: str, v, shape):
    """v, broadcast to a shape as NumPy's assignments do, which drop leading ones, for the public function of that name."""
    return under_name(name, broadcast_to, reshape(v, fitting(shape_of(v), shape)), shape=shape)


def broadcast_arrays(*xs):
    """A tuple of the xs, each repeated to the shape to which they broadcast together."""
    shape = np.broadcast_shapes(*map(shape_of, xs))
    return tuple(broadcast_to(x, shape) for x in xs)


def meshgrid(*xs, sparse=False, indexing="xy"):
    """A tuple of coordinates on the grid of the 1-d xs: x i varies along axis i, but in "xy" the first two axes are exchanged.

    sparse=True leaves the other axes at length 1.  Raises ValueError for an `indexing` that isn't "xy" or "ij".
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', not {indexing!r}")
    axes = list(range(len(xs)))
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    grid = tuple(reshape(x, tuple(-1 if i == axis else 1 for i in range(len(xs)))) for x, axis in zip(xs, axes, strict=True))
    return grid if sparse else broadcast_arrays(*grid)


def tile(x, reps):
    """x repeated as a block, reps[i] times along axis i; the shorter of shape and reps is filled up with leading ones."""
    shape, reps = shape_of(x), as_shape(reps)
    n = max(len(shape), len(reps))
    shape, reps = (1,) * (n - len(shape)) + shape, (1,) * (n - len(reps)) + reps
    apart = reshape(x, tuple(m for size in shape for m in (1, size)))
    filled = broadcast_to(apart, tuple(m for pair in zip(reps, shape, strict=True) for m in pair))
    return reshape(filled, tuple(r * size for r, size in zip(reps, shape, strict=True)))
