"""Convolution: the three passes as one sum of products (kernels/conv.cuh says which), by tiles or, for few channels, directly.

Reversed windows, sliced channels and broadcast cotangents are strides; only what has gaps along its lines is copied first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Array, Geometry, Shape
from ..numpy_backend.convolution import check
from .array import DeviceArray, empty
from .convolution_plan import Sum, plan
from .launch import blocks_for, c_type, threads_for
from .layout import Form, broadcast
from .symbols import beside
from .transfer import dense

ACTIVATIONS = {"identity": "", "relu": "relu", "sigm": "sigmoid", "tanh": "tanh", "elu": "elu", "selu": "selu"}  # and their kernels
_NUMBERS = {activation: i for i, activation in enumerate(ACTIVATIONS)}  # as in conv.cuh
_FINISH = "PPddi"
_SAID = {"conv": "cuda, implicit gemm", "conv_direct": "cuda, direct convolution"}


class Finish(NamedTuple):
    """What becomes of a sum in the kernel that makes it: activation((alpha * sum + beta * z) + bias)."""

    alpha: float = 1.0
    bias: DeviceArray | None = None  # (K,), dense
    z: DeviceArray | None = None  # of the result's shape, dense
    beta: float = 1.0
    activation: str = "identity"

    @property
    def arguments(self) -> tuple[Any, ...]:
        return _or_null(self.bias), _or_null(self.z), self.alpha, self.beta, _NUMBERS[self.activation]


def _or_null(x: DeviceArray | None) -> DeviceArray | int:
    return 0 if x is None else x


# -- the kernels
def conv(k: Any, w: Array, x: Array, geometry: Geometry, alpha: float) -> Array:
    return _conv(k, w, x, geometry, Finish(alpha))


def conv_x(k: Any, w: Array, dy: Array, x_shape: Shape, geometry: Geometry, alpha: float) -> Array:
    check(w.shape, x_shape, geometry, dy.shape)
    w, dy = promoted(k, w, dy, alpha)
    dx, dy = empty(x_shape, w.dtype), _with_lines(dy)
    return _run(k, Sum(geometry, _form(dy), _form(w), _form(dx), False, True), dx, dy, w, Finish(alpha))


def conv_w(k: Any, x: Array, dy: Array, w_shape: Shape, geometry: Geometry, alpha: float) -> Array:
    check(w_shape, x.shape, geometry, dy.shape)
    x, dy = promoted(k, x, dy, alpha)
    dw, x, dy = empty(w_shape, x.dtype), _with_lines(x), _with_lines(dy)
    return _run(k, Sum(geometry, _form(x), _form(dw), _form(dy), True, False), dw, x, dy, Finish(alpha))


def conv_bias_act(
    k: Any, w: Array, x: Array, b: Array | None, z: Array | None, activation: str, geometry: Geometry, alpha: float, beta: float
) -> Array:
    if activation not in ACTIVATIONS:
        raise ValueError(f"conv_bias_act: unknown activation {activation!r}; known are {', '.join(ACTIVATIONS)}")
    shape, dtype = (len(x), len(w), *check(w.shape, x.shape, geometry)), dtype_of(w, x, alpha)
    bias = None if b is None else per_channel(k, b, shape)
    has_fitting_bias = b is None or (bias is not None and b.dtype == dtype)
    if dtype.kind in "fV" and has_fitting_bias and (z is None or (z.dtype == dtype and z.shape == shape)):
        return _conv(k, w, x, geometry, Finish(alpha, bias, None if z is None else dense(z), beta, activation))
    added = [a.shape for a in (b, z) if a is not None]
    if broadcast([shape, *added]) != shape:
        raise ValueError(f"conv_bias_act: {' and '.join(map(str, added))} do not broadcast to the result's shape {shape}")
    return finisher(k)(conv(k, w, x, geometry, alpha), z, b, activation, None if beta == 1 else float(beta))


def _conv(k: Any, w: Array, x: Array, g: Geometry, finish: Finish) -> Array:
    out = check(w.shape, x.shape, g)
    w, x = promoted(k, w, x, finish.alpha)
    y, x = empty((len(x), len(w), *out), w.dtype), _with_lines(x)
    return _run(k, Sum(g, _form(x), _form(w), _form(y), False, False), y, x, w, finish)


# -- arguments
def dtype_of(a: Array, b: Array, alpha: float) -> np.dtype[Any]:
    dtype = a.dtype if a.dtype == b.dtype else np.result_type(a.dtype, b.dtype)
    return dtype if alpha == 1 else beside(dtype, alpha)


def promoted(k: Any, a: Array, b: Array, alpha: float) -> tuple[DeviceArray, DeviceArray]:
    dtype = dtype_of(a, b, alpha)
    return k.astype(a, dtype), k.astype(b, dtype)


def _form(x: DeviceArray) -> Form:
    return x.shape, x.strides, x.itemsize


def _with_lines(x: DeviceArray) -> DeviceArray:
    """x, if neighbours on its last axis are neighbours in memory or the same, so that a warp reads few stretches; else a copy."""
    return x if x.strides[-1] in (0, x.itemsize) else dense(x)


def per_channel(k: Any, b: DeviceArray, shape: Shape) -> DeviceArray | None:
    """b as (K,), if that is all it is."""
    own = (1,) * (len(shape) - b.ndim) + b.shape
    if len(own) > len(shape) or any(n != 1 for a, n in enumerate(own) if a != 1):
        return None
    return dense(k.broadcast_to(k.reshape(b, own[1:2]), shape[1:2]))


@functools.cache
def finisher(k: Any) -> Any:
    """activation((y + beta * z) + b) in one launch, for what the convolution's own kernel doesn't take."""

    def finished(table: Any, y: Any, z: Any, b: Any, activation: str, beta: float | None) -> Any:
        if z is not None:
            y = y + (z if beta is None else z * beta)
        if b is not None:
            y = y + b
        return getattr(table, ACTIVATIONS[activation] or "copy")(y)

    return k.rule(finished, "bias, residual and activation")


# -- launches
def _run(k: Any, s: Sum, result: DeviceArray, source: DeviceArray, factor: DeviceArray, finish: Finish) -> DeviceArray:
    """The result, filled.  Where blocks share sums, their parts lie side by side first, and a second launch adds them up."""
    if result.size == 0:
        return result
    if source.size == 0 or factor.size == 0:
        return _finish(k, result, None, 0, finish)
    p = plan(s)
    k.say(_SAID[p.unit])
    partial = empty((p.splits, result.size), _wide(result.dtype)) if p.splits > 1 else None
    name, types = "over_positions" if s.over_positions else "over_taps", f"PPPP{len(p.fields)}s{_FINISH}"
    function = k.kernel(p.unit, name, types, TYPE=c_type(result.dtype), **p.defines)
    function(p.blocks, p.threads, result, source, factor, _or_null(partial), p.fields, *finish.arguments)
    return result if partial is None else _finish(k, result, partial, p.splits, finish)


def _finish(k: Any, result: DeviceArray, partial: DeviceArray | None, splits: int, finish: Finish) -> DeviceArray:
    """The sums of `splits` parts each, finished."""
    n, inner, channels = result.size, prod(result.shape[2:]), result.shape[1]
    function = k.kernel("conv_direct", "finish", f"PPqqqq{_FINISH}", TYPE=c_type(result.dtype), INDEX="int")
    function(blocks_for(n), threads_for(n), result, _or_null(partial), n, splits, inner, channels, *finish.arguments)
    return result


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize == 2 else dtype


KERNELS: dict[str, Callable[..., Any]] = {"conv": conv, "conv_x": conv_x, "conv_w": conv_w, "conv_bias_act": conv_bias_act}
