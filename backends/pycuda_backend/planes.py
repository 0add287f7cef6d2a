"""An array as three axes in the order of its memory: outer, middle, inner.

Whatever works along some of the axes of an array of any layout is written for that form alone: the middle are those axes, and where they
don't lie together in memory a copy is made in which they come last.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any, NamedTuple

from ..kernels import Shape
from .array import DeviceArray, empty_in_order, memory_order, view
from .transfer import copy_into


class Planes(NamedTuple):
    """An array whose memory runs through its axes in `order` without gaps: (outer, middle, inner)."""

    x: DeviceArray
    order: Sequence[int]
    outer: int
    middle: int
    inner: int

    def like(self, dtype: Any, reduced: Collection[int] = ()) -> DeviceArray:
        """A new array that lies in memory as x does, the `reduced` axes having length 1."""
        return empty_in_order(tuple(1 if a in reduced else n for a, n in enumerate(self.x.shape)), dtype, self.order)

    def alike(self, x: DeviceArray) -> DeviceArray:
        """x, of the same shape, as it is or copied such that it lies in memory as self.x does."""
        if _lies(x, self.order):
            return x
        y = self.like(x.dtype)
        copy_into(y, x)
        return y


def planes(x: DeviceArray, axes: Collection[int]) -> Planes:
    """x with `axes` in the middle."""
    last = [*(a for a in range(x.ndim) if a not in axes), *axes]
    if not x.size:
        return Planes(x, last, prod(n for a, n in enumerate(x.shape) if a not in axes), prod(x.shape[a] for a in axes), 1)
    order = memory_order(x)
    long = [a for a in order if x.shape[a] != 1]
    places = [i for i, a in enumerate(long) if a in axes]
    if not _lies(x, order) or (places and places[-1] - places[0] + 1 != len(places)):
        y = empty_in_order(x.shape, x.dtype, last)
        copy_into(y, x)
        return planes(y, axes)
    start, stop = (places[0], places[-1] + 1) if places else (0, 0)
    return Planes(x, order, *(prod(x.shape[a] for a in part) for part in (long[:start], long[start:stop], long[stop:])))


def _lies(x: DeviceArray, order: Sequence[int]) -> bool:
    """Whether x's memory runs through its axes in this order without gaps."""
    return view(x, tuple(x.shape[a] for a in order), tuple(x.strides[a] for a in order)).dense


def without(x: DeviceArray, axes: Collection[int]) -> DeviceArray:
    """A view of x without these axes, of length 1."""
    kept = [a for a in range(x.ndim) if a not in axes]
    return view(x, tuple(x.shape[a] for a in kept), tuple(x.strides[a] for a in kept))


def axes_of(x: DeviceArray, axis: Any, name: str) -> Shape:
    """axis (None, an int or a tuple of ints) as axes of x from 0 on.  Raises ValueError for one that x hasn't got, or has twice."""
    if axis is None or (not x.ndim and axis in (0, -1)):  # as NumPy has it
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(a + x.ndim if a < 0 else a for a in given)
    if len(set(axes)) < len(axes) or not all(0 <= a < x.ndim for a in axes):
        raise ValueError(f"{name}: axis {axis} of an array of shape {x.shape}: distinct axes from {-x.ndim} to {x.ndim - 1} are needed")
    return axes


def blocks(n: int, size: int) -> int:
    """How many blocks of this size cover n."""
    return -(-n // size)


def power_of_two(n: int) -> int:
    """The least that is no less than n."""
    return 1 << max(n - 1, 0).bit_length()
