"""Indexing: x[index] in all of NumPy's forms, its transpose, and the updates index_set and index_add behind x.at[index].

An index is a tuple or one of: int, slice, None, Ellipsis, or an array, list or constant Tensor of integers or booleans.
Where an index names an element several times, cotangents and index_add accumulate there, and index_set keeps the last value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotape import kernels, operator
from autotape.rows import looked_up
from autotape.tensor import Tensor

from .arithmetic import maximum, minimum, remainder, where
from .creation import astype, zeros_like
from .logic import BOOL
from .shapes import along_axis, dtype_of, fitting, reshape, shape_of, sum_to, under_name

# ---------------------------------------------------------------- x[index] and its transpose


@operator
def getitem(x, index=()):
    """x[index].  Raises IndexError for an index that doesn't fit."""
    return kernels().getitem(x, plain(index))


@getitem.backward
def _(dy, x_shape, index):
    rows = looked_up(dy, index, x_shape)
    return scatter_add(dy, index, x_shape) if rows is None else rows


@operator
def scatter_add(v, index=(), shape=()):
    """Zeros of `shape` to which v is added at [index]: the transpose of getitem."""
    return kernels().scatter_add(v, plain(index), shape)


@scatter_add.backward
def _(dy, index): return getitem(dy, index)


def plain(index):
    """The index with the arrays of its Tensors."""
    if isinstance(index, tuple):
        return tuple(i._array if isinstance(i, Tensor) else i for i in index)
    return index._array if isinstance(index, Tensor) else index


def rows(x):
    """iter(x): x[0], x[1], ... along the first axis.  Raises TypeError if x is 0-d."""
    return (getitem(x, i) for i in range(len(x)))


# ---------------------------------------------------------------- updates


def index_set(x, v, index=()):
    """x, with v (which broadcasts) in its dtype at [index]."""
    return under_name("index_set", with_at, x, held(x, v), index=index)


def index_add(x, v, index=()):
    """x, to which v (which broadcasts) is added in x's dtype at [index]."""
    return under_name("index_add", plus_at, x, held(x, v), index=index)


def held(x, v):
    """v as an x of integers or booleans holds it: a step, whose derivative is 0.  Python numbers must fit, as in astype."""
    dtype = dtype_of(x)
    return astype(v, dtype) if dtype.kind in "biu" else v


@operator
def with_at(x, v, index=()):
    """index_set, of a v that fits."""
    k = kernels()
    return k.index_set(x, plain(index), k.astype(v, x.dtype))


@with_at.backward("x")
def _(dy, index): return with_at(dy, 0, index)


@with_at.backward("v")
def _(dy, v_shape, index):
    taken = getitem(dy, index)
    taken = where(stays(dy, taken, index), taken, 0) if may_repeat(index) else taken
    return reshape(sum_to(taken, fitting(v_shape, taken.shape)), v_shape)


def may_repeat(index) -> bool:
    """Whether an index may name an element twice: it holds integers in an array or a sequence."""
    arrays = [i if hasattr(i, "dtype") else np.asarray(i) for i in as_tuple(index)]
    return any(i.ndim > 0 and i.dtype.kind != "b" for i in arrays)


def stays(x, taken, index):
    """Where x.at[index].set keeps the value it is given: not where a later one for the same element replaces it."""
    order = reshape(np.arange(taken.size), taken.shape)
    return getitem(with_at(zeros_like(x, np.intp), order, index), index) == order


def as_tuple(index) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


@operator
def plus_at(x, v, index=()):
    """index_add, of a v that fits."""
    k, index = kernels(), plain(index)
    shape = k.getitem(x, index).shape
    spread = k.broadcast_to(k.reshape(k.astype(v, x.dtype), fitting(v.shape, shape)), shape)
    return k.add(x, k.scatter_add(spread, index, x.shape))


@plus_at.backward("x")
def _(dy): return dy
@plus_at.backward("v")
def _(dy, v_shape, index):
    taken = getitem(dy, index)
    return reshape(sum_to(taken, fitting(v_shape, taken.shape)), v_shape)


# ---------------------------------------------------------------- along an axis


def take(x, indices, axis=None, mode="raise"):
    """x's elements at `indices` along `axis`, which the axes of indices replace; None takes from x.ravel().

    Mode "wrap" counts indices round and "clip" stops at the first and last element, where "raise" raises IndexError.
    Booleans are the indices 0 and 1, unlike in x[mask].
    """
    x, axis = along_axis(x, axis)
    return getitem(x, (slice(None),) * axis + (within(counted(indices), shape_of(x)[axis], mode),))


def within(indices, n: int, mode: str):
    """The indices, brought to 0 ... n - 1 in take's modes "wrap" and "clip"."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"take: mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
    if mode == "raise" or n == 0:
        return indices
    return remainder(indices, n) if mode == "wrap" else minimum(maximum(indices, 0), n - 1)


def counted(indices):
    """Indices in which booleans count as 0 and 1."""
    indices = indices if hasattr(indices, "dtype") else np.asarray(indices, None if np.size(indices) else np.intp)
    return astype(indices, np.intp) if indices.dtype == BOOL else indices


@operator(nondifferentiable="indices")
def take_along_axis(x, indices, axis=-1):
    """y[i, j, k] = x[i, indices[i, j, k], k] for axis 1: one index for each element of the result.  See numpy.take_along_axis."""
    return kernels().take_along_axis(x, indices, axis)


@take_along_axis.backward("x")
def _(dy, indices, x_shape, axis): return scatter_along_axis(dy, indices, axis, x_shape)


@operator(nondifferentiable="indices")
def scatter_along_axis(v, indices, axis=-1, shape=()):
    """Zeros of `shape` to which v is added along `axis` at `indices`: the transpose of take_along_axis."""
    return kernels().scatter_along_axis(v, indices, axis, shape)


@scatter_along_axis.backward("v")
def _(dy, indices, axis): return take_along_axis(dy, indices, axis)
