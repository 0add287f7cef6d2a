"""How NumPy's functions that are no operators reach this opset: np.concatenate([t, u]), np.clip(t, 0, 1), np.add.reduce(t).

Compositions that take what NumPy's function takes stand in a table; the others have an adapter with NumPy's parameters.
What a function here lacks (out=, where= ...) the engine refuses by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotape.numpy_protocol import numpy_function

from . import arithmetic, contraction, creation, indexing, joining, linear, reductions, shapes

COMPOSITIONS: dict[Any, Any] = {
    np.array_split: joining.array_split,
    np.concatenate: joining.concatenate,
    np.cumsum: reductions.cumsum,
    np.dot: linear.dot,
    np.expand_dims: shapes.expand_dims,
    np.flip: joining.flip,
    np.full_like: creation.full_like,
    np.hstack: joining.hstack,
    np.inner: linear.inner,
    np.linalg.matmul: linear.matmul,
    np.linalg.matrix_transpose: shapes.matrix_transpose,
    np.linalg.norm: linear.norm,
    np.linalg.outer: linear.outer,
    np.linalg.tensordot: linear.tensordot,
    np.matrix_transpose: shapes.matrix_transpose,
    np.moveaxis: shapes.moveaxis,
    np.outer: linear.outer,
    np.pad: joining.pad,
    np.repeat: joining.repeat,
    np.roll: joining.roll,
    np.split: joining.split,
    np.squeeze: shapes.squeeze,
    np.stack: joining.stack,
    np.swapaxes: shapes.swapaxes,
    np.tensordot: linear.tensordot,
    np.tile: shapes.tile,
    np.vstack: joining.vstack,
}
REDUCTIONS = {
    np.add: reductions.sum,
    np.logical_and: reductions.all,
    np.logical_or: reductions.any,
    np.maximum: reductions.max,
    np.minimum: reductions.min,
    np.multiply: reductions.prod,
}

for function, composition in COMPOSITIONS.items():
    numpy_function(function)(composition)


# ---------------------------------------------------------------- shapes and copies


@numpy_function(np.reshape)
def _(a, shape, order="C"):
    return shapes.reshape(in_c_order("np.reshape", a, order), shape)


@numpy_function(np.ravel)
def _(a, order="C"):
    return shapes.ravel(in_c_order("np.ravel", a, order))


def in_c_order(name, a, order):
    if order != "C":
        raise TypeError(f"{name} of a Tensor takes its elements in C order, not order={order!r}: transpose it first")
    return a


@numpy_function(np.copy)
def _(a):
    return arithmetic.positive(a)


@numpy_function(*([np.astype] if hasattr(np, "astype") else []))  # NumPy 2.1
def _(x, dtype, copy=True):
    return creation.astype(x, dtype)


@numpy_function(np.copyto)
def _(dst, src, casting="same_kind", where=True):
    raise TypeError("a Tensor can't be written into an array (np.full, np.full_like, np.copyto): np.broadcast_to(t, shape) repeats it")


@numpy_function(np.shape)
def _(a):
    return a.shape


@numpy_function(np.ndim)
def _(a):
    return a.ndim


@numpy_function(np.size)
def _(a, axis=None):
    return a.size if axis is None else a.shape[axis]


# ---------------------------------------------------------------- elements


@numpy_function(np.rint)
def _(x):
    return arithmetic.round(x if x.dtype.kind in "fc" else creation.astype(x, np.rint(np.zeros((), x.dtype)).dtype))


@numpy_function(np.clip)
def _(a, a_min=None, a_max=None, min=None, max=None):
    return arithmetic.clip(a, min if a_min is None else a_min, max if a_max is None else a_max)


@numpy_function(np.take)
def _(a, indices, axis=None, *, mode="raise"):
    if mode != "raise":
        raise TypeError(f"np.take of a Tensor takes mode='raise' alone, not {mode!r}: clip or wrap the indices first")
    return indexing.take(a, indices, axis)


@numpy_function(np.take_along_axis)
def _(arr, indices, axis=-1):
    return indexing.take_along_axis(shapes.ravel(arr), indices, 0) if axis is None else indexing.take_along_axis(arr, indices, axis)


# ---------------------------------------------------------------- reductions and products


@numpy_function(np.std)
def _(a, axis=None, *, ddof=0, keepdims=False):
    return reductions.std(a, axis, ddof, keepdims)


@numpy_function(np.einsum)
def _(subscripts, *operands, optimize=False):
    return contraction.einsum(subscripts, *operands)


def reduce_by(f):
    """A reduction as a ufunc's method reduce, whose axis is 0 unless it is said."""

    def reduce(array, axis=0, keepdims=False):
        return f(array, axis, keepdims)

    return reduce


for ufunc, reduction in REDUCTIONS.items():
    numpy_function((ufunc, "reduce"))(reduce_by(reduction))


@numpy_function((np.add, "accumulate"))
def _(array, axis=0):
    return reductions.cumsum(array, axis)
