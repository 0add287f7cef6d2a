"""Matrix products, alone and with bias, residual and activation in the same call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Array, Shape
from ..numpy_backend import products as plain
from ..numpy_backend.convolution import finished
from . import binding
from .arrays import MOST, c_strides
from .binding import BIAS, DST, SRC, WEIGHTS
from .primitives import POST_OPS, Primitive, Unsupported, fixed_weights, or_unsupported

_PAYS_FROM = 1 << 18  # multiplications; below, the calls that set a primitive up take longer than its work
_FLOAT = np.dtype(np.float32)


@or_unsupported
def _product(a: Shape, a_strides: Shape, b: Shape, b_strides: Shape, bias: bool, z: float | None, activation: str) -> Primitive:
    y, row = (*a[:-1], b[-1]), (*(1,) * (len(a) - 1), b[-1])
    left, right, result = binding.described(a, a_strides), binding.described(b, b_strides), binding.described(y, c_strides(y))
    added = binding.described(row, c_strides(row)) if bias else None
    post_ops = ([] if z is None else [("sum", z)]) + POST_OPS[activation]
    description = binding.matmul(left, right, added, result, binding.attributes(post_ops))
    arguments = [(SRC, left), (WEIGHTS, right), (DST, result)]
    if added is not None:
        arguments.append((BIAS, added))
    return Primitive(description, arguments, fixed=fixed_weights(post_ops, len(y)))


def matmul(k: Any, a: Array, b: Array) -> Array:
    if not _pays(a, b):
        if b.ndim == 2 < a.ndim and a.size and _pays(rows := a.reshape(-1, a.shape[-1]), b):
            return matmul(k, rows, b).reshape(*a.shape[:-1], b.shape[-1])
        return plain.matmul(a, b)
    try:
        return _multiplied(k, a, b, None, None, "identity")
    except Unsupported as e:
        return k.leave("matmul", str(e), a, b)


def matmul_bias_act(k: Any, a: Array, b: Array, bias: Array | None, z: Array | None, activation: str) -> Array:
    if k.math_mode() != "pedantic" and activation in POST_OPS and a.size and _fit(a, b, bias, z):
        rows = a if a.ndim == 2 else a.reshape(-1, a.shape[-1])
        if _pays(rows, b):
            try:
                y = _multiplied(k, rows, b, bias, None if z is None else z.reshape(len(rows), -1), activation)
                return y.reshape(*a.shape[:-1], b.shape[-1])
            except Unsupported:
                pass
    return finished(matmul(k, a, b), bias, z, activation, 1)


def _fit(a: Array, b: Array, bias: Array | None, z: Array | None) -> bool:
    """Whether bias is one float32 a column of a @ b, and z float32 of its shape: oneDNN reads as much, whatever there is."""
    fits = bias is None or (bias.dtype == _FLOAT and bias.shape[-1:] == b.shape[-1:] == (bias.size,))
    return fits and (z is None or (z.dtype == _FLOAT and z.shape == (*a.shape[:-1], b.shape[-1])))


def _pays(a: Array, b: Array) -> bool:
    """Whether oneDNN can multiply these, and is no slower than BLAS."""
    if a.dtype != _FLOAT or b.dtype != _FLOAT or a.ndim < 2 or a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2]:
        return False
    work = a.size * b.shape[-1]
    return work >= _PAYS_FROM and a.shape[-1] == b.shape[-2] and work // a.shape[-1] < MOST and max(a.size, b.size) < MOST


def _multiplied(k: Any, a: Array, b: Array, bias: Array | None, z: Array | None, activation: str) -> Array:
    (a, a_strides), (b, b_strides) = _laid(a), _laid(b)
    y = np.empty((*a.shape[:-1], b.shape[-1]), np.float32)
    arrays = [a, b, y]
    if bias is not None:
        arrays.append(np.ascontiguousarray(bias))
    if z is not None:
        y[...] = z
    key = (a.shape, a_strides, b.shape, b_strides, bias is not None, None if z is None else 1.0, activation)
    k.run(_product, key, tuple(arrays), sums=True)
    return y


def _laid(x: Array) -> tuple[Array, Shape]:
    """x and its strides in elements, where its rows or its columns are dense; else a copy in C order."""
    strides = tuple(s // 4 for s in x.strides)  # whole ones, if x is aligned: a field of records may be not
    down, right = strides[-2:]
    is_dense = (right == 1 and down >= x.shape[-1]) or (down == 1 and right >= x.shape[-2])
    if x.flags.aligned and min(strides) > 0 and is_dense:
        return x, strides
    x = np.ascontiguousarray(x)
    return x, c_strides(x.shape)


KERNELS: dict[str, Callable[..., Any]] = {"matmul": matmul, "matmul_bias_act": matmul_bias_act}
