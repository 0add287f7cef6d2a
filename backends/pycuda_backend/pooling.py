"""Pooling over windows (kernels/pool.cu): x is read by its strides, every result is one launch."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

from ..kernels import Array, Geometry, Shape
from .array import DeviceArray, empty
from .launch import blocks_for, c_type, threads_for
from .layout import Form
from .symbols import beside
from .transfer import dense


# -- maximum
def max_pool(k: Any, x: Array, geometry: Geometry) -> Array:
    """A window that lies in the padding altogether gives -inf (the least integer, False)."""
    y = empty(output_shape(x.shape, geometry), x.dtype)
    _run(k, "max_pool", y, [], x, [], x.shape, geometry)
    return y


def max_pool_x(k: Any, dy: Array, x: Array, y: Array, geometry: Geometry) -> Array:
    expect("y", y.shape, x.shape, geometry)
    expect("dy", dy.shape, x.shape, geometry)
    dx = empty(x.shape, dy.dtype)
    _run(k, "max_pool_x", dx, [dense(dy)], x, [_like(k, y, x)], x.shape, geometry)
    return dx


def max_pool_at(k: Any, v: Array, x: Array, y: Array, geometry: Geometry) -> Array:
    if v.shape != x.shape:
        raise ValueError(f"pooling: v has shape {v.shape} and x {x.shape}; they must be the same")
    expect("y", y.shape, x.shape, geometry)
    out = empty(y.shape, v.dtype)
    _run(k, "max_pool_at", out, [dense(v)], x, [_like(k, y, x)], x.shape, geometry)
    return out


def _like(k: Any, y: DeviceArray, x: DeviceArray) -> DeviceArray:
    y = k.astype(y, x.dtype)
    return dense(y)


# -- mean
def mean_pool(k: Any, x: Array, geometry: Geometry, count_padding: bool) -> Array:
    """A window that lies in the padding altogether gives 0."""
    x = k.astype(x, beside(x.dtype, 1.0))
    y = empty(output_shape(x.shape, geometry), x.dtype)
    _run(k, "mean_pool", y, [], x, [], x.shape, geometry, _whole(geometry, count_padding))
    return y


def mean_pool_x(k: Any, dy: Array, x_shape: Shape, geometry: Geometry, count_padding: bool) -> Array:
    expect("dy", dy.shape, x_shape, geometry)
    dy = dense(k.astype(dy, beside(dy.dtype, 1.0)))
    dx = empty(x_shape, dy.dtype)
    _run(k, "mean_pool_x", dx, [dy], None, [], dx.shape, geometry, _whole(geometry, count_padding))
    return dx


def _whole(g: Geometry, count_padding: bool) -> int:
    return prod(g.window) if count_padding else 0


# -- shapes
def output_shape(x: Shape, g: Geometry) -> Shape:
    """The shape of y.  Raises ValueError."""
    if len(x) != 2 + len(g.window):
        raise ValueError(f"pooling: x {x} must be (N, C, *spatial) with {len(g.window)} spatial axes, as the window {g.window} has")
    out = g.output(x[2:])
    if min(out) < 0:
        raise ValueError(f"pooling: window {g.window} with dilation {g.dilation} and padding {g.padding} doesn't fit x {x}")
    return (*x[:2], *out)


def expect(argument: str, shape: Shape, x: Shape, g: Geometry) -> None:
    if shape != (expected := output_shape(x, g)):
        raise ValueError(f"pooling: {argument} has shape {shape}; x {x} gives {expected} for {g}")


# -- launches
def _run(
    k: Any, name: str, result: DeviceArray, moved: list[DeviceArray], x: DeviceArray | None, y: list[DeviceArray],
    x_shape: Shape, g: Geometry, *whole: int,
) -> None:  # fmt: skip
    """Fill `result`, which has the shape of x or of y, from what is moved, x and y."""
    n = result.size
    if n == 0:
        return
    form = (x_shape, (0,) * len(x_shape), 1) if x is None else (x_shape, x.strides, x.itemsize)
    index, fields = _fields(result.shape, form, g)
    arrays = [result, *moved, *([] if x is None else [x]), *y]
    types = "P" * len(arrays) + f"{len(fields)}s" + "i" * len(whole)
    function = k.kernel("pool", name, types, TYPE=c_type((result if x is None else x).dtype), OTHER=c_type(result.dtype), INDEX=index)
    function(blocks_for(n), threads_for(n), *arrays, fields, *whole)


@lru_cache(4096)
def _fields(result: Shape, x: Form, g: Geometry) -> tuple[str, bytes]:
    """The type that holds every offset, and struct Pool of pool.cu of such integers."""
    shape, strides, itemsize = x
    out, before, missing = g.output(shape[2:]), [p[0] for p in g.padding], (1,) * (3 - len(g.window))
    lines = zip(g.window, before, g.stride, g.dilation, shape[2:], out, strict=True)
    image, channel, *along = (t // itemsize for t in strides)
    numbers = [
        *(1, 0, 1, 1, 1, 1) * len(missing), *(n for line in lines for n in line),
        image, channel, *(0 for _ in missing), *along, prod(result),
        *(n for by in (shape[1], *missing, *result[2:], *missing, *g.stride) for n in _divisor(by)),
    ]  # fmt: skip
    is_large = max(prod(result), prod(shape), _reach(x)) >= 2**30
    return ("long long" if is_large else "int"), struct.pack(f"{len(numbers)}{'q' if is_large else 'i'}", *numbers)


def _reach(x: Form) -> int:
    return sum(abs(t) * n for n, t in zip(x[0], x[1], strict=True)) // x[2]


def _divisor(by: int) -> tuple[int, int, int]:
    """struct Divisor of pool.cu: right for all numbers below 2**31."""
    shift = (by - 1).bit_length()
    magic = (2**shift - by << 32) // by + 1
    return by, magic - 2**32 if magic >= 2**31 else magic, shift


KERNELS: dict[str, Callable[..., Any]] = {
    "max_pool": max_pool,
    "max_pool_x": max_pool_x,
    "max_pool_at": max_pool_at,
    "mean_pool": mean_pool,
    "mean_pool_x": mean_pool_x,
}
