"""softmax and its logarithms, stable for any finite input; the normalisation of channels and of rows, and their transposes.

A row that is -inf throughout has logsumexp -inf; its softmax and logsoftmax are NaN, as in SciPy.  Nothing here warns.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..kernels import Array


def _shifted(x: Array, axis: Any) -> tuple[Array, Array]:
    """x less its maximum m, and m; an infinite maximum is replaced by the largest number, for inf - inf would be NaN."""
    m = np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf)
    if not np.isfinite(m).all():
        big = np.finfo(x.dtype).max
        m = np.minimum(np.maximum(m, -big), big)
    return x - m, m


def _wide(x: Array) -> tuple[Array, Any]:
    """x with digits to compute in, and the result's dtype: the sum of 65520 exponentials is more than float16 holds."""
    dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)
    return x.astype(np.float32 if dtype == np.float16 else dtype, copy=False), dtype


def softmax(x: Array, axis: Any) -> Array:
    x, dtype = _wide(x)
    with np.errstate(all="ignore"):
        e = np.exp(_shifted(x, axis)[0])
        return np.asarray(e / np.add.reduce(e, axis, keepdims=True)).astype(dtype, copy=False)


def logsoftmax(x: Array, axis: Any) -> Array:
    x, dtype = _wide(x)
    with np.errstate(all="ignore"):
        shifted = _shifted(x, axis)[0]
        return np.asarray(shifted - np.log(np.add.reduce(np.exp(shifted), axis, keepdims=True))).astype(dtype, copy=False)


def logsumexp(x: Array, axis: Any, keepdims: bool) -> Array:
    x, dtype = _wide(x)
    with np.errstate(all="ignore"):
        shifted, m = _shifted(x, axis)
        y = np.asarray(np.log(np.add.reduce(np.exp(shifted), axis, keepdims=True)) + m).astype(dtype, copy=False)
    return y if keepdims else np.asarray(np.add.reduce(y, axis))  # the reduced axes have length 1


# -- of each channel of x (N, C, *spatial)
def batchnorm(x: Array, scale: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    with np.errstate(all="ignore"):
        flat, dtype = _channels(x, *(v for v in (scale, bias) if v is not None))
        m = len(flat) * flat.shape[2]
        mean = np.add.reduce(flat, (0, 2)) / m
        y = flat - _each(mean)  # two passes: the mean of squares less the square of the mean would lose digits
        var = np.einsum("ncs,ncs->c", y, y) / m
        y *= _each(_times(1 / np.sqrt(var + eps), scale))
        if bias is not None:
            y += _each(bias)
        return y.reshape(x.shape).astype(dtype, copy=False), mean, var


def batchnorm_x(dy: Array, x: Array, mean: Array, inv: Array, scale: Array | None) -> tuple[Array, Array, Array]:
    with np.errstate(all="ignore"):
        (flat, dtype), (g, _) = _channels(x, dy), _channels(dy, x)
        m = len(g) * g.shape[2]
        dx = flat - _each(mean)
        dbias, dscale = np.add.reduce(g, (0, 2)), np.einsum("ncs,ncs->c", g, dx) * inv
        dx *= _each(-dscale * inv / m)
        dx += g
        dx -= _each(dbias / m)
        dx *= _each(_times(inv, scale))
        return dx.reshape(x.shape).astype(dtype, copy=False), dscale.astype(dtype, copy=False), dbias.astype(dtype, copy=False)


def _channels(x: Array, *others: Array) -> tuple[Array, Any]:
    """x as (N, C, positions) in the dtype to compute in, and the dtype of the result; a view, in x's own order, where it can be."""
    wide, dtype = _computed(x, *others)
    return wide.reshape(*x.shape[:2], prod(x.shape[2:])), dtype


# -- of each row of x (..., C)
def layernorm(x: Array, scale: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    with np.errstate(all="ignore"):
        rows, dtype = _rows(x, *(v for v in (scale, bias) if v is not None))
        mean = np.add.reduce(rows, 1) / x.shape[-1]
        y = rows - _each(mean)
        var = np.einsum("rc,rc->r", y, y) / x.shape[-1]
        y *= _each(1 / np.sqrt(var + eps))
        if scale is not None:
            y *= scale
        if bias is not None:
            y += bias
        return y.reshape(x.shape).astype(dtype, copy=False), mean.reshape(x.shape[:-1]), var.reshape(x.shape[:-1])


def layernorm_x(dy: Array, x: Array, mean: Array, inv: Array, scale: Array | None) -> tuple[Array, Array, Array]:
    with np.errstate(all="ignore"):
        (rows, dtype), (g, _) = _rows(x, dy), _rows(dy, x)
        dx = rows - _each(mean.ravel())
        dx *= _each(inv.ravel())
        dscale, dbias = np.einsum("rc,rc->c", g, dx), np.add.reduce(g, 0)
        g = _times(g, scale)
        dx *= _each(np.einsum("rc,rc->r", g, dx) / -x.shape[-1])
        dx += g
        dx -= _each(np.add.reduce(g, 1) / x.shape[-1])
        dx *= _each(inv.ravel())
        return dx.reshape(x.shape).astype(dtype, copy=False), dscale.astype(dtype, copy=False), dbias.astype(dtype, copy=False)


def _rows(x: Array, *others: Array) -> tuple[Array, Any]:
    """x as (rows, C) in the dtype to compute in, and the dtype of the result; a view where it can be."""
    wide, dtype = _computed(x, *others)
    return wide.reshape(prod(x.shape[:-1]), x.shape[-1]), dtype


def _computed(x: Array, *others: Array) -> tuple[Array, Any]:
    """x in the dtype to compute in, and the dtype of the result."""
    dtype = np.result_type(x, *others, 1.0)
    return x.astype(np.float32 if dtype == np.float16 else dtype, copy=False), dtype


def _each(v: Array) -> Array:
    return v[:, None]


def _times(v: Array, scale: Array | None) -> Array:
    return v if scale is None else v * scale


KERNELS: dict[str, Callable[..., Any]] = {
    "softmax": softmax,
    "logsoftmax": logsoftmax,
    "logsumexp": logsumexp,
    "batchnorm": batchnorm,
    "batchnorm_x": batchnorm_x,
    "layernorm": layernorm,
    "layernorm_x": layernorm_x,
}
