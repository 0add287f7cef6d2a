"""What x[index] means: slices, integers and new axes make a view, and arrays of integers look elements up along axes of it.

Arithmetic on shapes alone, which gives NumPy's errors; arrays of indices are passed on as they are, and what a mask selects comes from
the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Shape
from .array import DeviceArray
from .layout import broadcast

_VALID = "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"


class Mask(NamedTuple):
    """An index of booleans: its shape, and where it is true, counted row by row."""

    shape: Shape
    positions: Any


class Lookup(NamedTuple):
    """An array of integers, here or on the device, that name elements of an axis of length `extent`, which lie `step` bytes apart."""

    array: Any
    extent: int
    step: int
    axis: int  # of x, for messages
    safe: bool  # whether all of them are known to be in range, and none negative


class Reading(NamedTuple):
    """An index that was understood: a view of x, and arrays that look up what it shows, each along an axis that is not part of the view.

    The axes of the looked up elements go before axis `at` of the view.  distinct: no element is named twice.
    """

    shape: Shape
    strides: Shape
    offset: int
    lookups: list[Lookup]
    at: int
    distinct: bool


def parts(index: Any, positions: Callable[[Any], Any]) -> list[Any]:
    """The parts of an index: None, Ellipsis, slices, int, arrays of integers, and Masks, of which `positions` finds the true elements."""
    return [_part(p, positions) for p in (index if isinstance(index, tuple) else (index,))]


def _part(p: Any, positions: Callable[[Any], Any]) -> Any:
    if p is None or p is Ellipsis or p.__class__ in (int, slice):
        return p
    a = p if isinstance(p, DeviceArray) and p.value is None else np.asarray(p)
    if not a.size and not hasattr(p, "dtype"):
        a = np.empty(a.shape, np.intp)  # a list of nothing has no dtype of its own
    if a.dtype.kind == "b":
        return Mask(a.shape, positions(a))
    if a.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type" if hasattr(p, "dtype") and a.ndim else _VALID)
    return int(a) if isinstance(a, np.ndarray) and not a.ndim else a


def read(index: list[Any], shape: Shape, strides: Shape) -> Reading:
    """What the parts of an index mean for an array of this shape.  Raises IndexError if they don't fit it."""
    used = sum(len(p.shape) if isinstance(p, Mask) else p is not None and p is not Ellipsis for p in index)
    ellipses = sum(p is Ellipsis for p in index)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed")
    reader = _Reader(shape, strides, len(shape) - used)
    for place, p in enumerate(index if ellipses else [*index, Ellipsis]):
        reader.take(place, p)
    return reader.reading()


class _Reader:
    """Goes through the parts of an index and the axes of x."""

    def __init__(self, shape: Shape, strides: Shape, rest: int) -> None:
        self.axes = list(zip(shape, strides, strict=True))
        self.rest, self.axis, self.offset = rest, 0, 0
        self.view: list[tuple[int, int]] = []  # its axes
        self.lookups: list[Lookup] = []
        self.places: list[tuple[int, int]] = []  # of what looks up, integers included: its number in the index, and the view's axes so far
        self.masks_alone = True

    def take(self, place: int, p: Any) -> None:
        """The next part of the index."""
        if p is None:
            self.view.append((1, 0))
        elif p is Ellipsis:
            self.view += self._next(self.rest)
        elif isinstance(p, slice):
            self._slice(p)
        else:
            self.places.append((place, len(self.view)))
            (self._integer if p.__class__ is int else self._mask if isinstance(p, Mask) else self._array)(p)

    def _next(self, count: int) -> list[tuple[int, int]]:
        """The next axes of x."""
        self.axis += count
        return self.axes[self.axis - count : self.axis]

    def _slice(self, p: slice) -> None:
        ((n, stride),) = self._next(1)
        start, stop, step = p.indices(n)
        count = len(range(start, stop, step))
        self.view.append((count, stride * step))
        self.offset += start * stride if count else 0

    def _integer(self, i: int) -> None:
        ((n, stride),) = self._next(1)
        if not -n <= i < n:
            raise out_of_bounds(i, self.axis - 1, n)
        self.offset += (i + n if i < 0 else i) * stride

    def _mask(self, p: Mask) -> None:
        first = self.axis
        axes = self._next(len(p.shape))
        for a, (m, (n, _)) in enumerate(zip(p.shape, axes, strict=True), first):
            if m != n:
                raise IndexError(
                    f"boolean index did not match indexed array along axis {a}; size of axis is {n} "
                    f"but size of corresponding boolean axis is {m}"
                )
        self.lookups.append(Lookup(p.positions, prod(p.shape), axes[-1][1] if axes else 0, first, True))

    def _array(self, a: Any) -> None:
        ((n, stride),) = self._next(1)
        self.masks_alone = False
        self.lookups.append(Lookup(a, n, stride, self.axis - 1, False))

    def reading(self) -> Reading:
        """NumPy puts what is looked up where the lookups stand, or first of all if something stands between them."""
        together = bool(self.places) and self.places[-1][0] - self.places[0][0] == len(self.places) - 1
        at = self.places[0][1] if together else 0
        shape, strides = tuple(n for n, _ in self.view), tuple(s for _, s in self.view)
        return Reading(shape, strides, self.offset, self.lookups, at, self.masks_alone)


def out_of_bounds(i: int, axis: int, n: int) -> IndexError:
    return IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")


def within(lookups: Sequence[Lookup]) -> list[Lookup]:
    """Lookups with arrays of the host checked, their indices from 0 on; the device checks its own.  Raises IndexError."""
    shapes = [i.array.shape for i in lookups]
    try:
        shape = broadcast(shapes)
    except ValueError:
        met = " ".join(map(str, shapes))
        raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together with shapes {met}") from None
    for i in lookups:
        if not i.extent and 0 not in shape:
            raise out_of_bounds(0, i.axis, 0)
    return [i if i.safe or isinstance(i.array, DeviceArray) else _checked(i) for i in lookups]


def _checked(i: Lookup) -> Lookup:
    a = i.array.astype(np.int64, copy=False)
    least, most = (int(a.min()), int(a.max())) if a.size else (0, -1)
    if least < -i.extent or most >= i.extent:
        raise out_of_bounds(least if least < -i.extent else most, i.axis, i.extent)
    return i._replace(array=a if least >= 0 else np.where(a < 0, a + i.extent, a), safe=True)
