"""Arrays put together, taken apart and moved: concatenate stack block split flip rot90 roll repeat.

Three operators, `join`, `pad_with` and `rolled`; all others are compositions of these and of indexing.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from operator import index

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from autotape import kernels, operator

from .creation import astype
from .indexing import getitem, take
from .shapes import along_axis, atleast_3d, broadcast_to, dtype_of, expand_dims, ravel, reshape, shape_of, swapaxes, under_name


def along(axis: int, n: int, part):
    """The index that takes `part` of axis `axis` of n, counted from the end, and all of the others."""
    return (..., part, *(slice(None),) * (n - 1 - axis % n))


# ---------------------------------------------------------------- together and apart


def concatenate(arrays, axis=0, dtype=None, casting="same_kind"):
    """The arrays one after another along `axis`; None joins them flattened.  Their other axes must agree.

    With a dtype they are cast to it first.  Raises TypeError where NumPy's rule of that name, `casting`, doesn't allow it.
    """
    arrays = arrays if axis is not None else map(ravel, arrays)
    arrays = arrays if dtype is None else [cast(x, np.dtype(dtype), casting) for x in arrays]
    return under_name("concatenate", join, *arrays, axis=0 if axis is None else axis)


def cast(x, dtype, casting):
    if not np.can_cast(dtype_of(x), dtype, casting):
        raise TypeError(f"arrays of {dtype_of(x)} don't become {dtype} by casting={casting!r}")
    return astype(x, dtype)


@operator
def join(*xs, axis=0):
    """The xs one after another along an axis that they all have."""
    return kernels().concatenate(xs, index(axis))


@join.backward
def _(dy, xs_shape, axis):
    ends = pairwise(accumulate((shape[axis] for shape in xs_shape), initial=0))
    return [getitem(dy, along(axis, len(shape), slice(i, j))) for shape, (i, j) in zip(xs_shape, ends, strict=True)]


def stack(arrays, axis=0, dtype=None, casting="same_kind"):
    """Arrays of one shape side by side along a new axis, the result's `axis`; in a dtype, see concatenate."""
    arrays = list(arrays)
    shapes = {shape_of(x) for x in arrays}
    if len(shapes) != 1:
        raise ValueError(f"stack: the arrays must have one shape, not {sorted(shapes) or 'none at all'}")
    return concatenate((expand_dims(x, axis) for x in arrays), axis, dtype, casting)


def vstack(arrays, dtype=None, casting="same_kind"):
    """The arrays one below another: 1-d ones are rows.  In a dtype, see concatenate."""
    return concatenate((x if len(shape_of(x)) > 1 else reshape(x, (1, -1)) for x in arrays), 0, dtype, casting)


def hstack(arrays, dtype=None, casting="same_kind"):
    """The arrays one beside another: along axis 1, or axis 0 if the first is 1-d.  In a dtype, see concatenate."""
    arrays = [x if len(shape_of(x)) > 0 else reshape(x, (1,)) for x in arrays]
    return concatenate(arrays, 0 if arrays and len(shape_of(arrays[0])) == 1 else 1, dtype, casting)


def dstack(arrays):
    """The arrays one behind another along axis 2, where 1-d ones have shape (1, n, 1) and matrices (m, n, 1)."""
    return concatenate([atleast_3d(x) for x in arrays], 2)


def column_stack(arrays):
    """The arrays one beside another along axis 1: 1-d ones are columns."""
    return concatenate([x if len(shape_of(x)) > 1 else reshape(x, (-1, 1)) for x in arrays], 1)


def append(x, values, axis=None):
    """x and then values along `axis`; None joins them flattened."""
    return concatenate((x, values), axis)


def block(arrays):
    """One array of nested lists of them: the innermost lists are joined along the last axis, those around along the one before.

    Raises ValueError for lists that are empty or not equally deep, TypeError for tuples.
    """
    depths, leaves = zip(*nested(arrays), strict=True)
    if len(set(depths)) > 1:
        raise ValueError(f"block: the lists must be equally deep, not {sorted(set(depths))}")
    ndim = max(depths[0], *(len(shape_of(x)) for x in leaves))

    def joined(part, axis):
        if isinstance(part, list):
            return concatenate([joined(p, axis + 1) for p in part], axis)
        return reshape(part, (1,) * (ndim - len(shape_of(part))) + shape_of(part))

    return joined(arrays, -depths[0])


def nested(part, depth=0):
    """The depth and the array of each leaf of block's nested lists."""
    if isinstance(part, tuple):
        raise TypeError("block: arrays must be nested in lists, not in tuples")
    if not isinstance(part, list):
        return [(depth, part)]
    if not part:
        raise ValueError("block: the lists must not be empty")
    return [leaf for p in part for leaf in nested(p, depth + 1)]


def split(x, indices_or_sections, axis=0):
    """A list of x's parts along `axis`: so many equal ones, or those between the given indices.

    Raises ValueError if the axis doesn't divide into equal parts.
    """
    n = shape_of(x)[axis]
    if np.ndim(indices_or_sections) == 0 and n % int(indices_or_sections):
        raise ValueError(f"split: axis {axis} of x {shape_of(x)} doesn't divide by {indices_or_sections}; array_split makes unequal parts")
    return array_split(x, indices_or_sections, axis)


def array_split(x, indices_or_sections, axis=0):
    """Like split, but where the axis doesn't divide into equal parts the first ones are longer by one."""
    shape = shape_of(x)
    n = shape[axis]
    if np.ndim(indices_or_sections) == 0:
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ValueError(f"array_split: there must be one section or more, not {sections}")
        each, longer = divmod(n, sections)
        cuts = [*accumulate([each + 1] * longer + [each] * (sections - longer), initial=0)]
    else:
        cuts = [0, *indices_or_sections, None]
    return [getitem(x, along(axis, len(shape), slice(i, j))) for i, j in pairwise(cuts)]


def hsplit(x, indices_or_sections):
    """split along axis 1; along axis 0 of a 1-d x."""
    return split(with_axes("hsplit", x, 1), indices_or_sections, 0 if len(shape_of(x)) == 1 else 1)


def vsplit(x, indices_or_sections):
    """split along axis 0 of an x of two axes or more."""
    return split(with_axes("vsplit", x, 2), indices_or_sections, 0)


def dsplit(x, indices_or_sections):
    """split along axis 2."""
    return split(with_axes("dsplit", x, 3), indices_or_sections, 2)


def with_axes(name: str, x, n: int):
    """x.  Raises ValueError if it has fewer than n axes."""
    if len(shape_of(x)) < n:
        raise ValueError(f"{name}: x {shape_of(x)} must have {n} axes or more")
    return x


# ---------------------------------------------------------------- more of them


@operator
def pad_with(x, widths=(), value=0):
    """x with the number `value` around it: widths[i] = (before, after) on axis i."""
    return kernels().pad(x, widths, value)


@pad_with.backward
def _(dy, x_shape, widths): return getitem(dy, (..., *(slice(before, before + n) for (before, _), n in zip(widths, x_shape, strict=True))))


def repeat(x, repeats, axis=None):
    """Each element of x repeated along `axis`: so many times, or repeats[i] times the i-th.  None repeats x.ravel()."""
    x, axis = along_axis(x, axis)
    shape = shape_of(x)
    if np.ndim(repeats) > 0:
        return take(x, np.repeat(np.arange(shape[axis]), repeats), axis)
    repeats = index(repeats)
    before, after = shape[: axis + 1], shape[axis + 1 :]
    filled = broadcast_to(expand_dims(x, axis + 1), (*before, repeats, *after))
    return reshape(filled, (*before[:-1], before[-1] * repeats, *after))


# ---------------------------------------------------------------- the same ones elsewhere


def flip(x, axis=None):
    """x backwards along `axis`, an int, a tuple, or None for all."""
    n = len(shape_of(x))
    axes = range(n) if axis is None else normalize_axis_tuple(axis, n)
    back, all = slice(None, None, -1), slice(None)
    return getitem(x, (..., *(back if i in axes else all for i in range(n))))


def fliplr(x):
    """x backwards along axis 1."""
    return flip(with_axes("fliplr", x, 2), 1)


def flipud(x):
    """x backwards along axis 0."""
    return flip(with_axes("flipud", x, 1), 0)


def rot90(x, k=1, axes=(0, 1)):
    """x turned by k right angles in the plane of two axes, from the first to the second."""
    if len(axes) != 2:
        raise ValueError(f"rot90: axes must be two, not {axes}")
    (first, second), k = normalize_axis_tuple(axes, len(shape_of(x)), "axes"), int(k)
    turned = swapaxes(x, first, second) if k % 2 else x
    return flip(turned, ((), (first,), (first, second), (second,))[k % 4])


def roll(x, shift, axis=None):
    """x moved by `shift` along `axis`, what falls off coming in at the other end; ints or tuples.  None rolls x.ravel()."""
    shape = shape_of(x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), shape)
    for by, i in np.broadcast(shift, axis):
        i = normalize_axis_index(i, len(shape)) - len(shape)
        if by := int(by) % max(shape[i], 1):
            x = rolled(x, by, i)
    return x


@operator
def rolled(x, by=1, axis=-1):
    """roll along one axis, by less than its length."""
    k, n = kernels(), len(x.shape)
    return k.concatenate([k.getitem(x, along(axis, n, part)) for part in (slice(-by, None), slice(-by))], axis)


@rolled.backward
def _(dy, by, axis): return rolled(dy, -by, axis)
