"""Reductions by ufunc.reduce, which skips the layers of numpy.sum and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import asarray, ndarray

from ..kernels import Array, Shape


def _reduction(ufunc: np.ufunc) -> Callable[[Array, Any, bool], Array]:
    reduce: Callable[..., Any] = ufunc.reduce

    def kernel(x: Array, axis: Any, keepdims: bool) -> Array:
        y = reduce(x, axis, None, None, keepdims)
        return y if y.__class__ is ndarray else asarray(y)

    kernel.__name__ = kernel.__qualname__ = ufunc.__name__
    return kernel


def _position(method: Callable[..., Any]) -> Callable[[Array, int | None, bool], Array]:
    def kernel(x: Array, axis: int | None, keepdims: bool) -> Array:
        return asarray(method(x, axis, keepdims=keepdims))

    return kernel


def cumsum(x: Array, axis: int) -> Array:
    return np.cumsum(x, axis)


def cumprod(x: Array, axis: int) -> Array:
    return np.cumprod(x, axis)


def sum_to(x: Array, shape: Shape) -> Array:
    if x.shape == shape:
        return x
    lead, dtype = x.ndim - len(shape), x.dtype if x.dtype.isnative else x.dtype.newbyteorder("=")
    if lead > 0 and x.shape[lead:] == shape:
        return asarray(np.add.reduce(x, 0 if lead == 1 else tuple(range(lead)), dtype))
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, x.shape[lead:], strict=True)):
        raise ValueError(f"sum_to: shape {shape} doesn't broadcast to {x.shape}")
    ones = (lead + i for i, n in enumerate(shape) if n == 1)
    return asarray(np.add.reduce(x, (*range(lead), *ones), dtype)).reshape(shape)


KERNELS: dict[str, Callable[..., Any]] = {
    "sum": _reduction(np.add),
    "prod": _reduction(np.multiply),
    "max": _reduction(np.maximum),
    "min": _reduction(np.minimum),
    "any": _reduction(np.logical_or),
    "all": _reduction(np.logical_and),
    "argmax": _position(np.argmax),
    "argmin": _position(np.argmin),
    "cumsum": cumsum,
    "cumprod": cumprod,
    "sum_to": sum_to,
}
