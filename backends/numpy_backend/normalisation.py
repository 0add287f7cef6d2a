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
    x = x if x.dtype.kind in "fc" else x.astype(np.float64)
    m = np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf)
    big = np.finfo(x.dtype).max
    m = np.minimum(np.maximum(m, -big), big)
    return x - m, m


def softmax(x: Array, axis: Any) -> Array:
    with np.errstate(all="ignore"):
        e = np.exp(_shifted(x, axis)[0])
        return np.asarray(e / np.add.reduce(e, axis, keepdims=True))


def logsoftmax(x: Array, axis: Any) -> Array:
    with np.errstate(all="ignore"):
        shifted = _shifted(x, axis)[0]
        return np.asarray(shifted - np.log(np.add.reduce(np.exp(shifted), axis, keepdims=True)))


def logsumexp(x: Array, axis: Any, keepdims: bool) -> Array:
    with np.errstate(all="ignore"):
        shifted, m = _shifted(x, axis)
        y = np.log(np.add.reduce(np.exp(shifted), axis, keepdims=True)) + m
    if keepdims:
        return np.asarray(y)
    return np.asarray(np.add.reduce(y, axis))  # the reduced axes have length 1


KERNELS: dict[str, Callable[..., Any]] = {"softmax": softmax, "logsoftmax": logsoftmax, "logsumexp": logsumexp}
