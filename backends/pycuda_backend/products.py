"""Matrix products, alone and with bias, residual and activation in the same call; and convolutions of 1-d arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..kernels import Array
from . import cublas
from .array import DeviceArray, common_dtype, empty, view
from .einsum import einsum
from .elementwise import Rule
from .launch import blocks_for, c_type, kernel, threads_for
from .layout import MAX_AXES, broadcast
from .product import Product, describe, multiply
from .transfer import dense

# the activations of the contract, and the kernels that they are
_ACTIVATIONS = {"identity": "identity", "relu": "relu", "sigm": "sigmoid", "tanh": "tanh", "elu": "elu", "selu": "selu"}


def matmul(k: Any, a: DeviceArray, b: DeviceArray) -> DeviceArray:
    a, b = _alike(k, "matmul", a, b)
    p = _described("matmul", a, b)
    if len(p.stack) > MAX_AXES:
        return matmul(k, *(_gathered(k, x, p) for x in (a, b)))
    y = _by_cublas(k, p, a, b)
    if y is None:
        y = multiply(p, a, b)
    if a.ndim > 1 < b.ndim:
        return y
    kept = [n for n, x in zip(y.shape[-2:], (a, b), strict=True) if x.ndim > 1]
    return k.reshape(y, (*y.shape[:-2], *kept))


def _gathered(k: Any, x: DeviceArray, p: Product) -> DeviceArray:
    """The operand with its whole stack side by side, which is one axis then."""
    return dense(k.broadcast_to(x, (*p.shape[:-2], *x.shape[-2:]))) if x.ndim > 1 else x


def _alike(k: Any, name: str, a: DeviceArray, b: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
    """Both in the dtype that NumPy promotes them to."""
    if a.dtype == b.dtype:
        return a, b
    dtype = common_dtype(name, a, b)
    return k.astype(a, dtype), k.astype(b, dtype)


def _described(name: str, a: DeviceArray, b: DeviceArray) -> Product:
    """The product of a and b, a 1-d a being a row and a 1-d b a column.  Raises ValueError if their shapes don't fit."""
    row = ((1, *a.shape), (0, *a.strides)) if a.ndim == 1 else (a.shape, a.strides)
    column = ((*b.shape, 1), (*b.strides, 0)) if b.ndim == 1 else (b.shape, b.strides)
    try:
        return describe(*row, *column, a.dtype.itemsize)
    except ValueError:
        fits = "the last axis of a must be as long as the last but one of b, or its only one, and leading axes must broadcast"
        raise ValueError(f"{name}: a {a.shape} and b {b.shape} don't fit: {fits}") from None


def _by_cublas(k: Any, p: Product, a: DeviceArray, b: DeviceArray) -> DeviceArray | None:
    y = cublas.multiply(p, a, b, k.math_mode())
    if y is not None:
        k.say("cublas")
    return y


def matmul_bias_act(k: Any, a: DeviceArray, b: DeviceArray, bias: Array | None, z: Array | None, activation: str) -> DeviceArray:
    added = [x for x in (z, bias) if x is not None]
    y = None
    if k.math_mode() != "pedantic" and a.ndim >= 2 == b.ndim and _is_one_float(a, b, *added):
        p = _described("matmul_bias_act", a, b)
        if _fits(p, bias, z) and (y := _by_cublas(k, p, a, b)) is None:
            return multiply(p, a, b, bias, z, _ACTIVATIONS[activation])
    if y is None:
        y = matmul(k, a, b)
    if not added and activation == "identity":
        return y
    if broadcast([y.shape, *(x.shape for x in added)]) != y.shape:
        raise ValueError(f"matmul_bias_act: {' and '.join(str(x.shape) for x in added)} do not broadcast to the product's shape {y.shape}")
    return _finish(k)(_ACTIVATIONS[activation], y, *added)


def _is_one_float(*xs: DeviceArray) -> bool:
    """Whether all have one dtype, and it is one of floating point: an activation keeps it."""
    return xs[0].dtype.kind in "fV" and all(x.dtype == xs[0].dtype for x in xs)


def _fits(p: Product, bias: DeviceArray | None, z: DeviceArray | None) -> bool:
    """Whether z has the result's shape, and bias one value a column: if they broadcast in another way, elementwise kernels know how."""
    fits = (z is None or z.shape == p.shape) and (bias is None or bias.shape[-1:] == (p.columns,) == (bias.size,))
    return fits and len(p.stack) <= MAX_AXES


@functools.cache
def _finish(k: Any) -> Rule:
    return k.rule(_finished, "behind a matrix product")


def _finished(table: Any, activation: str, y: Any, *added: Any) -> Any:
    for x in added:
        y = table.add(y, x)
    return y if activation == "identity" else getattr(table, activation)(y)


def convolve(k: Any, a: DeviceArray, v: DeviceArray, full: bool) -> DeviceArray:
    if (a.ndim, v.ndim) != (1, 1) or not a.size or not v.size:
        raise ValueError(f"convolve: a {a.shape} and v {v.shape} must be 1-d and not empty")
    a, v = _alike(k, "convolve", a, v)
    if full:
        return _every_overlap(a, v)
    if a.size < v.size:
        a, v = v, a
    step = a.strides[0]  # each result is a window of a, times v turned around
    windows = view(a, (a.size - v.size + 1, v.size), (step, step))
    return matmul(k, windows, view(v, v.shape, (-v.strides[0],), (v.size - 1) * v.strides[0]))


def _every_overlap(a: DeviceArray, v: DeviceArray) -> DeviceArray:
    y = empty((a.size + v.size - 1,), a.dtype)
    function = kernel("convolve", "full", "PPPqqqq", TYPE=c_type(a.dtype))
    strides = [x.strides[0] // x.dtype.itemsize for x in (a, v)]
    function(blocks_for(y.size), threads_for(y.size), y, a, v, a.size, v.size, *strides)
    return y


KERNELS: dict[str, Callable[..., Any]] = {
    "matmul": matmul, "matmul_bias_act": matmul_bias_act, "einsum": einsum, "convolve": convolve
}  # fmt: skip
