"""Elements picked by conditions, by numbers or by places: compress extract select choose, insert delete.

All are compositions.  What picks (conditions, places) is plain data to them: it has no derivative, and may be a constant Tensor.
"""

from __future__ import annotations

from operator import index

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from autotape.param import Param, watch
from autotape.tensor import Tensor, asarray, refuse_tracked

from .arithmetic import where
from .creation import astype
from .indexing import getitem, take, take_along_axis
from .joining import concatenate, stack
from .logic import BOOL, not_equal
from .shapes import assigned, broadcast_to, dtype_of, expand_dims, moveaxis, ravel, reshape, shape_of


def known(value):
    """What picks, without Tensors."""
    return value.numpy() if isinstance(value, (Tensor, Param)) else value


def untracked(value, what: str):
    """What counts as plain data, without Tensors.  Raises TypeError for one that is being recorded."""
    if isinstance(value, (Tensor, Param)):
        refuse_tracked(watch(value) if isinstance(value, Param) else value, what)
    return known(value)


def beside(y, *xs):
    """y, as a Tensor if one of the xs is one, since results are Tensors then."""
    return asarray(y) if any(isinstance(x, (Tensor, Param)) for x in xs) and not isinstance(y, (Tensor, Param)) else y


def places(condition) -> np.ndarray:
    """Where a condition of booleans or numbers is true, in its elements in C order."""
    return np.flatnonzero(asarray(not_equal(condition, 0)).numpy())


# ---------------------------------------------------------------- by conditions


def compress(condition, x, axis=None):
    """x[i] along `axis` for each true condition[i]; None takes x.ravel().  Raises ValueError for a condition that isn't 1-d."""
    if len(shape_of(condition)) != 1:
        raise ValueError(f"compress: the condition must be 1-d, not {shape_of(condition)}")
    return take(beside(x, condition), places(condition), axis)


def extract(condition, x):
    """The elements of x.ravel() where condition.ravel() is true."""
    return take(beside(x, condition), places(condition))


def select(condlist, choicelist, default=0):
    """Elementwise the first of the choices whose condition is true, else `default`; all broadcast.

    Raises ValueError unless there are as many choices as conditions, TypeError for conditions that are no booleans.
    """
    if len(condlist) != len(choicelist) or len(condlist) == 0:
        raise ValueError(f"select: there are {len(condlist)} conditions and {len(choicelist)} choices, and must be as many, 1 or more")
    if wrong := [i for i, c in enumerate(condlist) if dtype_of(c) != BOOL]:
        raise TypeError(f"select: condition {wrong[0]} must be of booleans, not {dtype_of(condlist[wrong[0]])}")
    *choices, y = in_one_dtype([*choicelist, default])
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        y = where(condition, choice, y)
    return y


def choose(indices, choices, mode="raise"):
    """choices[indices[i]][i] for each i; the indices, integers, and the choices broadcast together.

    mode "wrap" counts indices round and "clip" stops at the first and last choice, where "raise" raises ValueError.
    Raises TypeError for indices that are no integers.
    """
    i, n = np.asarray(known(indices)), len(choices)
    if i.dtype.kind not in "biu":
        raise TypeError(f"choose: the indices must be integers, not {i.dtype}")
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"choose: mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
    if mode == "raise" and not ((i >= 0) & (i < n)).all():
        raise ValueError(f"choose: the indices must be at least 0 and less than {n}, the number of choices")
    i = i.astype(np.intp) % n if mode == "wrap" else i.clip(0, n - 1).astype(np.intp)
    shape = np.broadcast_shapes(i.shape, *map(shape_of, choices))
    every = beside(stack([broadcast_to(c, shape) for c in in_one_dtype(choices)]), indices)
    return getitem(take_along_axis(every, expand_dims(np.broadcast_to(i, shape), 0), 0), 0)


def in_one_dtype(xs):
    """The xs in the dtype of them all; Python numbers are weak, and too large ones are cut to its bits, as NumPy has it."""
    dtype = np.result_type(*(x if type(x) in (int, float, complex) else dtype_of(x) for x in xs))
    return [astype(x if hasattr(x, "dtype") else np.asarray(x), dtype) for x in xs]


# ---------------------------------------------------------------- by places


def insert(x, obj, values, axis=None):
    """x with values, in its dtype, before the places `obj` along `axis`: an int, a slice, or a sequence of ints or booleans.

    None inserts into x.ravel().  Raises IndexError for a place that isn't there, ValueError for values that don't broadcast.
    """
    x, axis = on_axis(beside(x, obj), axis)
    shape, obj = shape_of(x), known(obj)
    n = shape[axis]
    at = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj, None if np.size(obj) else np.intp)
    at = np.flatnonzero(at) if at.dtype == BOOL else at
    values, count = astype(values, dtype_of(x)), at.size
    if count == 1:  # any number of values at one place
        values = reshape(values, (*(1,) * (len(shape) - len(values.shape)), *values.shape))
        values = moveaxis(values, 0, axis) if at.ndim == 0 else values
        count = values.shape[axis]
    values = assigned("insert", values, (*shape[:axis], count, *shape[axis + 1 :]))
    return take(concatenate((x, values), axis), np.insert(np.arange(n), at, np.arange(n, n + count)), axis)


def delete(x, obj, axis=None):
    """x without what is at the places `obj` along `axis`: an int, a slice, or a sequence of ints or booleans.

    None deletes from x.ravel().  Raises IndexError for a place that isn't there.
    """
    x, axis = on_axis(beside(x, obj), axis)
    return take(x, np.delete(np.arange(shape_of(x)[axis]), known(obj)), axis)


def on_axis(x, axis):
    """x and the axis, counted from the front; for None, x.ravel() and its axis."""
    return (ravel(x), 0) if axis is None else (x, normalize_axis_index(index(axis), len(shape_of(x))))
