"""Elements that an array of indices names: gathered, written, added to.

Every kernel goes over the elements of a result, or of a value that is scattered, beside the array that is looked up in and the indices,
each by strides of its own.  So one kernel serves whatever mixture of slices and index arrays, and lookups along an axis.
"""

from __future__ import annotations

import struct
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Shape
from . import faults
from .array import DeviceArray, empty, view
from .launch import blocks_for, c_type, threads_for
from .layout import MAX_AXES, Layout, broadcast, walk_into
from .transfer import dense, filled

INT64 = np.dtype(np.int64)
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4"}  # what elements move as
_INDEX = {"i": "int", "q": "long long"}


class Place(NamedTuple):
    """Where elements are: element i of a result belongs to that which lies indices[i] steps behind base[i].

    base and indices broadcast to the result's shape, whose axes first ... first + axes are those of the lookup; along all others, indices
    has length 1.
    """

    base: DeviceArray
    indices: DeviceArray  # int64
    extent: int  # what an index is less than; those below 0 count from there
    step: int  # bytes
    first: int
    axes: int

    @property
    def shape(self) -> Shape:
        return broadcast((self.base.shape, self.indices.shape))


def gather(k: Any, place: Place) -> DeviceArray:
    """The elements, as a new array."""
    y = empty(place.shape, place.base.dtype)
    words, at = _in_words(y, place)
    _each(k, "index", "gather", words, at, TYPE=_WORDS[words.itemsize])
    return y


def write(k: Any, v: DeviceArray, place: Place, distinct: bool) -> None:
    """Put v, of the place's shape and dtype, there.  Unless indices are distinct, the last of those that name an element wins."""
    winners: Any = 0
    if not distinct:
        place = place._replace(indices=dense(place.indices))
        winners = _winners(k, place)
    words, place = _in_words(v, place)
    _each(k, "index", "write", words, place, winners, TYPE=_WORDS[words.itemsize])


def _winners(k: Any, place: Place) -> DeviceArray:
    """For each index there may be the last lookup that has it, as its number in the indices, which are dense; -1 where there is none."""
    winners = filled((place.extent,), -1, INT64)
    _each(k, "lookup", "claim", place.indices, place._replace(base=view(winners, (), ())))
    return winners


def add(k: Any, v: DeviceArray, place: Place, distinct: bool) -> None:
    """Add v there; base has the dtype in which sums are made, and is 0 where indices are distinct."""
    if not v.size:
        return
    if distinct:
        write(k, k.astype(v, place.base.dtype), place, True)
    elif k.math_mode() == "pedantic" and place.base.dtype.kind == "f":
        _add_in_order(k, v, place)
    else:
        _each(k, "scatter", "add", v, place, TYPE=c_type(v.dtype), SUM=c_type(place.base.dtype))


def _add_in_order(k: Any, v: DeviceArray, place: Place) -> None:
    """Each element's sum is made by one thread in the order of the indices: they are sorted by the elements that they name."""
    lookup = range(place.first, place.first + place.axes)
    others = [a for a in range(v.ndim) if a not in lookup]
    base, indices = _ranked(place.base, v.ndim), _ranked(place.indices, v.ndim)
    keys = offsets(k, place._replace(base=_axes(base, lookup), indices=_axes(indices, lookup)))
    keys = k.reshape(keys, (keys.size,))
    order = k.argsort(keys, 0)
    rows = dense(k.transpose(v, (*lookup, *others)))
    width = rows.size // keys.size
    row = view(rows, (keys.size, *(v.shape[a] for a in others)), (0, *rows.strides[place.axes :]))
    behind = view(order, (keys.size, *(1 for _ in others)), (order.itemsize, *(0 for _ in others)))
    base = _axes(base, others)
    types = {"TYPE": c_type(v.dtype), "SUM": c_type(base.dtype)}
    _each(k, "scatter", "add_in_order", row, Place(base, behind, 0, 0, 0, 1), keys, keys.size, width, **types)


def offsets(k: Any, *places: Place) -> DeviceArray:
    """How far each lookup leads from the first element of the base, in elements; several places' ways are added up."""
    y = filled(broadcast([p.shape for p in places]), 0, INT64)
    for place in places:
        _each(k, "lookup", "add_offsets", y, place)
    return y


def _ranked(x: DeviceArray, ndim: int) -> DeviceArray:
    return view(x, (1,) * (ndim - x.ndim) + x.shape, (0,) * (ndim - x.ndim) + x.strides)


def _axes(x: DeviceArray, axes: Any) -> DeviceArray:
    return view(x, tuple(x.shape[a] for a in axes), tuple(x.strides[a] for a in axes))


def _in_words(a: DeviceArray, place: Place) -> tuple[DeviceArray, Place]:
    """An array and what it is copied from or to, as elements of up to 16 bytes, where rows of both can be taken as such."""
    b, i, size = place.base, place.indices, a.itemsize
    along_rows = a.ndim and b.ndim and a.shape[-1] == b.shape[-1] > 1 and a.strides[-1] == b.strides[-1] == size
    word = size
    if along_rows and (not i.ndim or i.shape[-1] == 1):
        word = gcd(16, a.shape[-1] * size, place.step, a.address, b.address, *a.strides[:-1], *b.strides[:-1])
    return _as_words(a, word), place._replace(base=_as_words(b, word))


def _as_words(x: DeviceArray, word: int) -> DeviceArray:
    if word <= x.itemsize:
        return x
    shape, strides = (*x.shape[:-1], x.shape[-1] * x.itemsize // word), (*x.strides[:-1], word)
    return DeviceArray(x.block, x.address, shape, strides, np.dtype(f"V{word}"), False)


def _each(k: Any, unit: str, name: str, whole: DeviceArray, place: Place, *more: Any, **types: str) -> None:
    """Launch a kernel that goes over the elements of `whole`, which has the place's shape, beside those of base and indices."""
    if not (n := whole.size):
        return
    arrays = (whole, place.base, place.indices)
    plan = walk_into(tuple([(x.shape, x.strides, x.itemsize) for x in arrays]), 1)
    fields, letters = _fields(plan, n), "".join("P" if isinstance(m, DeviceArray) else "q" for m in more)
    kernel = k.kernel(unit, name, f"qPPPqqP{letters}{len(fields)}s", INDEX=_INDEX[plan.letter], **types)
    step = place.step // place.base.itemsize
    kernel(blocks_for(n), threads_for(n), n, *arrays, place.extent, step, faults.address(), *more, fields)


def _fields(plan: Layout, n: int) -> bytes:
    """struct Layout of elementwise.cuh, also where elements could be counted through."""
    if plan.axes > MAX_AXES:
        raise ValueError(f"indexing: strides by which {plan.axes} axes can't be taken together are too many, for at most {MAX_AXES} are")
    if plan.fields is not None:
        return plan.fields
    rest = [0] * (MAX_AXES - 1)
    return struct.pack(f"{1 + 4 * MAX_AXES}{plan.letter}", 1, n, *rest, *[1, *rest] * 3)
