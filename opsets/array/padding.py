"""Padding: pad in NumPy's modes.  All are compositions of joining and taking, one axis after the other."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from .arithmetic import round
from .choosing import untracked
from .creation import astype
from .grids import linspace
from .indexing import getitem, take
from .joining import along, concatenate, flip, pad_with
from .quantiles import median
from .reductions import max, mean, min
from .shapes import broadcast_to, dtype_of, shape_of

TAKEN = ("edge", "reflect", "symmetric", "wrap")
STATISTICS: dict[str, Any] = {"maximum": max, "mean": mean, "median": median, "minimum": min}
OPTION = {"constant": "constant_values", "linear_ramp": "end_values", **dict.fromkeys(STATISTICS, "stat_length")}


def pad(x, pad_width, mode="constant", constant_values=None, end_values=None, stat_length=None):
    """x with more elements around it.

    pad_width is a whole number, (before, after), or such a pair for each axis, or a dict with one of these for some axes.  The new
    elements are in mode "constant" `constant_values`, numbers or pairs in the same way, by default 0, and 0 in mode "empty"; in
    "linear_ramp" they run from the edge to `end_values`; in "maximum", "mean", "median" and "minimum" they are those of the axis, or
    of its `stat_length` elements next to the edge; in "edge", "reflect", "symmetric" and "wrap" they are elements of x, as numpy.pad
    picks them.  Raises ValueError for a mode that is none of these and an option that it doesn't take.
    """
    shape = shape_of(x)
    widths = widths_of(pad_width, len(shape))
    if mode not in ("constant", "empty", "linear_ramp", *STATISTICS, *TAKEN):
        raise ValueError(f"pad: mode must be 'constant', 'empty', 'linear_ramp' or one of {[*STATISTICS, *TAKEN]}, got {mode!r}")
    given = {"constant_values": constant_values, "end_values": end_values, "stat_length": stat_length}
    if wrong := [name for name, value in given.items() if value is not None and name != OPTION.get(mode)]:
        raise ValueError(f"pad: mode {mode!r} doesn't take {wrong[0]}")
    value = untracked(given.get(OPTION.get(mode, "")), f"np.pad's {OPTION.get(mode)}")
    if mode in ("constant", "empty"):
        return pad_with_constants(x, widths, 0 if value is None else value)
    pairs = pair_per_axis(value, len(shape))
    for axis, (n, width) in enumerate(zip(shape, widths, strict=True)):
        if width == (0, 0):
            continue
        if n == 0:
            raise ValueError(f"pad: axis {axis} of x {shape} is empty: there is nothing to go by in mode {mode!r}")
        taken = mode in TAKEN
        x = take(x, np.pad(np.arange(n), width, mode=mode), axis) if taken else between(x, axis, width, pairs[axis], mode)
    return x


def widths_of(pad_width, n: int) -> list[tuple[int, int]]:
    """pad_width as n pairs."""
    if isinstance(pad_width, dict):
        given = {normalize_axis_index(index(axis), n): pair_per_axis(width, 1)[0] for axis, width in pad_width.items()}
        pad_width = [given.get(axis, (0, 0)) for axis in range(n)]
    if n and np.asarray(pad_width).dtype.kind not in "iu":
        raise TypeError(f"pad: pad_width must be whole numbers, got {pad_width!r}")
    widths = pair_per_axis(pad_width, n)
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError(f"pad: pad_width must not be negative, got {pad_width}")
    return widths


def pair_per_axis(value, n: int) -> list[tuple[Any, Any]]:
    """A number, a pair, or a pair an axis, as n pairs of Python numbers."""
    return [tuple(pair) for pair in np.broadcast_to(value, (n, 2)).tolist()]


def pad_with_constants(x, widths, values):
    """One value in one step; else one side of one axis after the other, so that in corners the last axis counts.

    Raises OverflowError or ValueError for values that x's dtype can't hold.
    """

    def held(value):
        return np.asarray(value, dtype_of(x)).item()

    if np.ndim(values) == 0:
        return pad_with(x, tuple(widths), held(np.asarray(values).item()))
    n = len(widths)
    for axis, pairs in enumerate(zip(widths, pair_per_axis(values, n), strict=True)):
        (before, after), (first, last) = pairs
        for width, value in (((before, 0), first), ((0, after), last)):
            x = pad_with(x, (*((0, 0),) * axis, width, *((0, 0),) * (n - 1 - axis)), held(value))
    return x


def between(x, axis: int, widths, values, mode: str):
    """x between what goes before and behind it along an axis."""
    make = ramp if mode == "linear_ramp" else statistic
    (before, after), (first, last) = widths, values
    left = [make(x, axis, before, first, mode)] if before else []
    right = [flip(make(flip(x, axis), axis, after, last, mode), axis)] if after else []
    return concatenate([*left, x, *right], axis)


def ramp(x, axis: int, width: int, end, mode: str):
    """What runs from `end`, by default 0, to the first element of the axis."""
    edge = getitem(x, along(axis, len(shape_of(x)), 0))
    return linspace(0 if end is None else end, edge, width, endpoint=False, dtype=dtype_of(x), axis=axis)


def statistic(x, axis: int, width: int, length: int | None, mode: str):
    """The maximum or the like of the first elements of the axis, as often as it takes."""
    shape = shape_of(x)
    y = STATISTICS[mode](getitem(x, along(axis, len(shape), slice(length))), axis, keepdims=True)
    y = astype(round(y) if dtype_of(x).kind in "iu" else y, dtype_of(x))
    return broadcast_to(y, (*shape[:axis], width, *shape[axis + 1 :]))
