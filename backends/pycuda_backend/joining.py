"""Arrays joined and padded: copies into the parts of a new array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..kernels import Array, Shape
from .array import DeviceArray, common_dtype, empty, number, view
from .transfer import copy_into


def concatenate(k: Any, xs: Sequence[Array], axis: int) -> DeviceArray:
    """One array after the other along an axis, in the dtype that NumPy promotes theirs to."""
    if not xs:
        raise ValueError("concatenate: need at least one array")
    shapes = [x.shape for x in xs]
    if not xs[0].ndim:
        raise ValueError("concatenate: zero-dimensional arrays have no axis along which they could be joined")
    axis = normalize_axis_index(axis, xs[0].ndim)
    if any(s[:axis] + s[axis + 1 :] != shapes[0][:axis] + shapes[0][axis + 1 :] or len(s) != len(shapes[0]) for s in shapes):
        raise ValueError(f"concatenate: shapes {', '.join(map(str, shapes))} differ in more than axis {axis}")
    shape = (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])
    y, begin = empty(shape, common_dtype("concatenate", *xs)), 0
    for x in xs:
        copy_into(_part(y, (0,) * axis + (begin,), x.shape), x)
        begin += x.shape[axis]
    return y


def pad(k: Any, x: DeviceArray, widths: tuple[tuple[int, int], ...], value: complex) -> DeviceArray:
    if len(widths) != x.ndim:
        raise ValueError(f"pad: {len(widths)} widths for an array of shape {x.shape}; one pair an axis is needed")
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError(f"pad: widths must not be negative, but they are {widths}")
    y = empty(tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True)), x.dtype)
    edge = number(np.full((), value, x.dtype).item(), x.dtype)
    begins = tuple(before for before, _ in widths)
    for a, (before, after) in enumerate(widths):
        # on axis a beside x; on the axes before only along x, on those behind all along: so every element is written once
        for begin, width in ((0, before), (before + x.shape[a], after)):
            copy_into(_part(y, (*begins[:a], begin), (*x.shape[:a], width, *y.shape[a + 1 :])), edge)
    copy_into(_part(y, begins, x.shape), x)
    return y


def _part(y: DeviceArray, begins: Sequence[int], shape: Shape) -> DeviceArray:
    """The part of y with this shape that begins there, on axes that are not named at 0."""
    return view(y, shape, y.strides, sum(b * s for b, s in zip(begins, y.strides, strict=False)))


KERNELS: dict[str, Callable[..., Any]] = {"concatenate": concatenate, "pad": pad}
