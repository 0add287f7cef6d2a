"""Indexing and its transposes.

An index's slices and integers make a view; its arrays of integers and its masks are made one array of indices, which says how far from
the view's elements those lie that are meant.  Where an element is named twice, the last value written stays; sums are made by atomic
additions, or, in pedantic mode, in the order of the indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

import numpy as np

from ..kernels import Array, Shape
from . import indices, lookups
from .array import DeviceArray, empty, settled, view
from .indices import Lookup
from .launch import blocks_for, threads_for
from .lookups import INT64, Place
from .transfer import copy_into, dense, filled, from_host


# -- by index
def getitem(k: Any, x: DeviceArray, index: Any) -> DeviceArray:
    base, place, _ = _understood(k, x, index)
    return base if place is None else lookups.gather(k, place)


def scatter_add(k: Any, v: DeviceArray, index: Any, shape: Shape) -> DeviceArray:
    sums = filled(tuple(shape), 0, _summed_in(v.dtype))
    base, place, distinct = _understood(k, sums, index)
    if place is None:
        copy_into(base, _fitting(k, v, base.shape))
    else:
        lookups.add(k, _fitting(k, v, place.shape), place, distinct)
    return k.astype(sums, v.dtype)


def index_set(k: Any, x: DeviceArray, index: Any, v: DeviceArray) -> DeviceArray:
    if v.ndim == 0 and isinstance(index, DeviceArray) and index.dtype == bool and index.shape == x.shape[: index.ndim]:
        mask = k.reshape(index, index.shape + (1,) * (x.ndim - index.ndim))  # nobody has to count what is true
        return k.where(mask, k.astype(v, x.dtype), x)
    y = empty(x.shape, x.dtype)
    copy_into(y, x)
    index_write(k, y, index, v)
    return y


def index_write(k: Any, out: DeviceArray, index: Any, v: DeviceArray) -> None:
    if not settled(out).dense:
        copy_into(out, index_set(k, out, index, v))
        return
    base, place, distinct = _understood(k, out, index)
    if place is None:
        copy_into(base, _fitting(k, v, base.shape))
    else:
        lookups.write(k, _fitting(k, k.astype(v, out.dtype), place.shape), place, distinct)


# -- along an axis
def take_along_axis(k: Any, x: DeviceArray, indices: Array, axis: int) -> DeviceArray:
    return lookups.gather(k, _along(k, "take_along_axis", x, indices, axis))


def scatter_along_axis(k: Any, v: DeviceArray, indices: Array, axis: int, shape: Shape) -> DeviceArray:
    sums = filled(tuple(shape), 0, _summed_in(v.dtype))
    place = _along(k, "scatter_along_axis", sums, indices, axis)
    one_a_line = indices.shape[axis] == 1 and all(n <= m for n, m in zip(indices.shape, shape, strict=True))
    lookups.add(k, _fitting(k, v, place.shape), place, one_a_line)
    return k.astype(sums, v.dtype)


def _along(k: Any, name: str, x: DeviceArray, a: Array, axis: int) -> Place:
    """The elements of x that indices name along one axis."""
    if a.ndim != x.ndim:
        raise ValueError(f"{name}: indices of shape {a.shape} for an array of shape {x.shape}: they must have as many axes")
    if a.dtype.kind not in "iu":
        raise IndexError(f"{name}: indices must be integers, not {a.dtype}")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{name}: an array of shape {x.shape} has no axis {axis}")
    axis %= x.ndim
    base = view(x, (*x.shape[:axis], 1, *x.shape[axis + 1 :]), (*x.strides[:axis], 0, *x.strides[axis + 1 :]))
    lookup = _one(k, [Lookup(a, x.shape[axis], x.strides[axis], axis, False)])
    return Place(base, lookup.array, lookup.extent, lookup.step, 0, x.ndim)


def _summed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What sums of a dtype are made in: there are atomic additions of no type shorter than 4 bytes."""
    if dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.int32 if dtype.kind in "biu" else np.float32)


# -- what an index means
def _understood(k: Any, x: DeviceArray, index: Any) -> tuple[DeviceArray, Place | None, bool]:
    """The view of x that slices and integers leave, what arrays look up there, if any do, and whether no element is named twice."""
    parts = indices.parts(index, lambda mask: _true(k, mask))
    x = x if x.dense else _countable(x, parts)
    reading = indices.read(parts, x.shape, x.strides)
    base = view(x, reading.shape, reading.strides, reading.offset)
    if not reading.lookups:
        return base, None, True
    lookup, at = _one(k, reading.lookups), reading.at
    a, rest = lookup.array, base.ndim - at
    base = view(base, base.shape[:at] + (1,) * a.ndim + base.shape[at:], base.strides[:at] + (0,) * a.ndim + base.strides[at:])
    aligned = view(a, a.shape + (1,) * rest, a.strides + (0,) * rest)
    return base, Place(base, aligned, lookup.extent, lookup.step, at, a.ndim), reading.distinct


def _countable(x: DeviceArray, parts: Sequence[Any]) -> DeviceArray:
    """x, or a copy where one count could not tell how far elements are: a mask of several axes that don't follow each other, or several
    arrays, some of them backwards."""
    ranks = [len(p.shape) if isinstance(p, indices.Mask) else 1 for p in parts if hasattr(p, "shape")]
    return dense(x) if max(ranks, default=0) > 1 or (len(ranks) > 1 and min(x.strides) < 0) else x


def _true(k: Any, mask: Any) -> Any:
    """Where a mask is true, its elements counted row by row.  Waits for a mask on the device, since how many are true is a shape."""
    if isinstance(mask, np.ndarray):
        return np.flatnonzero(mask)
    if not mask.size:
        return np.empty(0, np.int64)
    mask = k.reshape(dense(mask), (mask.size,))
    counts = k.cumsum(mask, 0)
    found = empty((view(counts, (), (), (mask.size - 1) * counts.itemsize).item(),), INT64)
    if found.size:
        launch = k.kernel("lookup", "true_positions", "qPPP", INDEX="int")
        launch(blocks_for(mask.size), threads_for(mask.size), mask.size, found, mask, counts)
    return found


def _one(k: Any, several: Sequence[Lookup]) -> Lookup:
    """One lookup, by an array on the device, that does what these do together."""
    several = indices.within(several)
    if len(several) == 1:
        return several[0]._replace(array=_on_device(k, several[0].array))
    unit = gcd(*(i.step for i in several)) or 1  # what one step of the new indices is
    extent = 1 + sum((i.extent - 1) * (i.step // unit) for i in several)
    if all(isinstance(i.array, np.ndarray) for i in several):
        ways: Any = sum(i.array * (i.step // unit) for i in several)
    else:
        ways = lookups.offsets(k, *(_way(k, i, unit) for i in several))
    return Lookup(_on_device(k, ways), extent, unit, 0, True)


def _way(k: Any, i: Lookup, unit: int) -> Place:
    """A lookup from nowhere, in steps of `unit` bytes."""
    a = _on_device(k, i.array)
    return Place(view(a, (), ()), a, i.extent, i.step // unit * a.itemsize, 0, a.ndim)


def _on_device(k: Any, a: Any) -> DeviceArray:
    if isinstance(a, DeviceArray):
        return k.astype(a, INT64)
    return from_host(np.asarray(a).astype(np.int64, copy=False))


def _fitting(k: Any, v: DeviceArray, shape: Shape) -> DeviceArray:
    """v broadcast to what an index names, as it is when it is assigned to that."""
    surplus = max(v.ndim - len(shape), 0)
    if set(v.shape[:surplus]) <= {1}:
        try:
            return k.broadcast_to(k.reshape(v, v.shape[surplus:]) if surplus else v, shape)
        except ValueError:
            pass
    raise ValueError(f"shape mismatch: values of shape {v.shape} could not be broadcast to indexing result of shape {shape}")


KERNELS: dict[str, Callable[..., Any]] = {
    "getitem": getitem,
    "scatter_add": scatter_add,
    "index_set": index_set,
    "index_write": index_write,
    "take_along_axis": take_along_axis,
    "scatter_along_axis": scatter_along_axis,
}
