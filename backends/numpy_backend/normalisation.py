"""softmax and its logarithms, stable for any finite input.

A row that is -inf throughout has logsumexp -inf; its softmax and logsoftmax are NaN, as in SciPy.  Nothing here warns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Array


def _shifted(x: Array, axis: Any) -> tuple[Array, Array]:
    """x less its maximum m, and m; an infinite maximum is replaced by the largest number, for inf - inf would be NaN."""
    m = np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf)
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


KERNELS: dict[str, Callable[..., Any]] = {"softmax": softmax, "logsoftmax": logsoftmax, "logsumexp": logsumexp}
