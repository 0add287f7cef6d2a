"""Functional updates: x.at[index].set(v), .add .multiply .divide .max .min give a new Tensor and leave x as it is.

An index is what x[index] takes.  Where it names an element several times, `set` keeps the last value and the others take
all of them into account.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autotape.errors import annotated
from autotape.param import Param
from autotape.tensor import Tensor, asarray, is_tracked

from . import reductions
from .arithmetic import divide, maximum, minimum, multiply
from .creation import astype
from .indexing import getitem, index_add, index_set, may_repeat
from .joining import concatenate
from .shapes import assigned, expand_dims, ravel, reshape


class At:
    """x.at: `x.at[index]` is a place in x, waiting for what to write there."""

    __slots__ = ("_x",)

    def __init__(self, x) -> None:
        self._x = x

    def __getitem__(self, index) -> Update:
        return Update(self._x, index)


class Update:
    """x.at[index].  v broadcasts and is cast to x's dtype."""

    __slots__ = ("_index", "_x")

    def __init__(self, x, index) -> None:
        self._x, self._index = x, index

    def set(self, v):
        """x with v at [index].  Of several values for one element the last stays."""
        refuse_to_cut("set", self._x, v)
        return index_set(self._x, v, self._index)

    def add(self, v):
        """x with v added at [index].  Several values for one element add up."""
        refuse_to_cut("add", self._x, v)
        return index_add(self._x, v, self._index)

    def multiply(self, v):
        """x multiplied by v at [index].  Several values for one element all multiply it."""
        refuse_to_cut("multiply", self._x, v)
        return updated(self._x, v, self._index, multiply, lambda old, new: multiply(old, reductions.prod(new, -1)))

    def divide(self, v):
        """x divided by v at [index].  Several values for one element all divide it.  Raises TypeError for an x of integers."""
        if self._x.dtype.kind not in "fc":
            raise TypeError(f"x.at[i].divide: x must be of floats, not {self._x.dtype}")
        refuse_to_cut("divide", self._x, v)
        return updated(self._x, v, self._index, divide, lambda old, new: divide(old, reductions.prod(new, -1)))

    def max(self, v):
        """x with the larger of x and v at [index].  Equal largest values share the derivative equally."""
        refuse_to_cut("max", self._x, v)
        return updated(self._x, v, self._index, maximum, lambda old, new: reductions.max(together(old, new), -1))

    def min(self, v):
        """x with the smaller of x and v at [index].  Equal smallest values share the derivative equally."""
        refuse_to_cut("min", self._x, v)
        return updated(self._x, v, self._index, minimum, lambda old, new: reductions.min(together(old, new), -1))


def refuse_to_cut(name: str, x, v) -> None:
    """Raise TypeError for what is no number, and for what x's dtype would cut off v: imaginary parts, and fractions that are being
    recorded, which would lose their derivative."""
    try:
        new = v if isinstance(v, (Tensor, Param)) else asarray(v)
    except (TypeError, ValueError) as e:
        raise annotated(e, f"x.at[i].{name}") from e
    if new.dtype.kind == "c" != x.dtype.kind:
        raise TypeError(f"x.at[i].{name}: x holds {x.dtype} and would cut v's imaginary part off: x.astype(complex) first")
    if x.dtype.kind in "biu" and (isinstance(v, Param) or is_tracked(v)) and v.dtype.kind == "f":
        raise TypeError(f"x.at[i].{name}: x holds {x.dtype} and would cut v off, which would drop its derivative: x.astype(float) first")


def updated(x, v, index, one, several):
    """x with one(x[index], v) at [index]; where an element may be named repeatedly, several(its value, all its new ones)."""
    taken = getitem(x, index)
    v = assigned("x.at", astype(v, x.dtype), taken.shape)
    if not may_repeat(index):
        return index_set(x, one(taken, v), index)
    y, v = ravel(x), ravel(v)
    for named, values in groups(x.shape, index):
        y = index_set(y, several(getitem(y, named), getitem(v, values)), named)
    return reshape(y, x.shape)


def groups(shape, index) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of n elements that an index names equally often a mask over x.ravel(), and the places (n, times) of their values in v.ravel()."""
    size = math.prod(shape)
    named = asarray(getitem(np.arange(size).reshape(shape), index)).numpy().ravel()
    order = np.argsort(named, kind="stable")
    starts = np.searchsorted(named, np.arange(size), sorter=order)
    times = np.bincount(named, minlength=size)
    for n in np.unique(times[times > 0]):
        mask = times == n
        yield mask, order[starts[mask][:, None] + np.arange(n)]


def together(old, new):
    """Values (n,) and (n, times) in one array."""
    return concatenate((expand_dims(old, -1), new), -1)
