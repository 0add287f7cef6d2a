"""An array in slices: unstack, apply_along_axis, sliding_window_view; and resize, rollaxis, view.  All are compositions."""

from __future__ import annotations

import math
from operator import index

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from autotape.numpy_protocol import numpy_function

from .complex_numbers import complex_of, imag, real
from .creation import zeros_like
from .indexing import getitem, take
from .joining import along, stack
from .shapes import as_array, as_shape, broadcast_to, dtype_of, moveaxis, ravel, reshape, shape_of


def unstack(x, *, axis=0):
    """A tuple of x's slices along `axis`, without that axis.  Raises ValueError if x is 0-d."""
    shape = shape_of(x)
    if shape == ():
        raise ValueError("unstack: x must have an axis or more")
    return tuple(getitem(x, along(axis, len(shape), i)) for i in range(shape[normalize_axis_index(axis, len(shape))]))


if hasattr(np, "unstack"):  # NumPy 2.1
    numpy_function(np.unstack)(unstack)


@numpy_function(np.apply_along_axis)
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """func1d(slice, *args, **kwargs) for every 1-d slice of arr along `axis`, which the axes of what it gives replace."""
    shape = shape_of(arr)
    axis = normalize_axis_index(axis, len(shape))
    slices, lead = moveaxis(arr, axis, -1), (*shape[:axis], *shape[axis + 1 :])
    if 0 in lead:
        raise ValueError(f"apply_along_axis: arr {shape} has no slices along axis {axis}")
    ys = stack([func1d(getitem(slices, i), *args, **kwargs) for i in np.ndindex(lead)])
    new, n = shape_of(ys)[1:], len(lead)
    return moveaxis(reshape(ys, (*lead, *new)), range(n, n + len(new)), range(axis, axis + len(new)))


@numpy_function(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x, window_shape, axis=None):
    """Windows of x at every place along the axes `axis` (None: along all); the axes of the window come last.

    An axis may be named several times.  Raises ValueError for a window that is larger than x or has another number of axes.
    """
    shape, window = shape_of(x), as_shape(window_shape)
    axes = tuple(range(len(shape))) if axis is None else normalize_axis_tuple(axis, len(shape), allow_duplicate=True)
    if len(window) != len(axes) or min(window, default=0) < 0:
        raise ValueError(f"sliding_window_view: the window {window} must have a length, 0 or more, for each of the axes {axes}")
    for i, n in zip(axes, window, strict=True):
        places = shape_of(x)[i] - n + 1
        if places < 1:
            raise ValueError(f"sliding_window_view: the window {window} is larger than x {shape}")
        x = moveaxis(take(x, np.arange(places)[:, None] + np.arange(n), i), i + 1, -1)
    return x


def view(x, dtype):
    """Complex x (..., n) as real numbers (..., 2 n), each real part before its imaginary part, or the other way round.

    That is what ndarray.view does between such dtypes.  Raises TypeError for another dtype, ValueError for a length that doesn't fit.
    """
    dtype, given, shape = np.dtype(dtype), dtype_of(x), shape_of(x)
    if dtype == given:
        return as_array(x)
    small, large = sorted((given, dtype), key=lambda d: d.itemsize)
    if (small.kind, large.kind) != ("f", "c") or 2 * small.itemsize != large.itemsize:
        raise TypeError(f"view: {given} is seen as its real or complex counterpart, not as {dtype}; astype({dtype.name!r}) converts")
    if not shape or (dtype.kind == "c" and shape[-1] % 2):
        raise ValueError(f"view: x {shape} as {dtype} needs a last axis" + (" of even length" if shape else ""))
    if dtype.kind == "c":
        return complex_of(getitem(x, (..., slice(0, None, 2))), getitem(x, (..., slice(1, None, 2))))
    return reshape(stack((real(x), imag(x)), -1), (*shape[:-1], 2 * shape[-1]))


@numpy_function(np.resize)
def resize(a, new_shape):
    """The elements of a, in C order and again from the first as often as it takes, in another shape; zeros if there are none."""
    new_shape, flat = as_shape(new_shape), ravel(a)
    n, size = shape_of(flat)[0], math.prod(new_shape)
    if min(new_shape, default=0) < 0:
        raise ValueError(f"resize: the shape {new_shape} must not be negative")
    if 0 in (n, size):
        return zeros_like(flat, shape=new_shape)
    times = -(-size // n)
    return reshape(getitem(reshape(broadcast_to(flat, (times, n)), (-1,)), slice(size)), new_shape)


@numpy_function(np.rollaxis)
def rollaxis(a, axis, start=0):
    """a with `axis` before the place where `start` was; np.moveaxis is easier to follow."""
    n = len(shape_of(a))
    axis, start = normalize_axis_index(axis, n), index(start)
    start += n if start < 0 else 0
    if not 0 <= start <= n:
        raise np.exceptions.AxisError(f"rollaxis: start must be from {-n} to {n}, for an array of {n} axes")
    return moveaxis(a, axis, start - 1 if axis < start else start)
