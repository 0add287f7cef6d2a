"""Pooling by cuDNN, through windows without dilation whose padding is the same on both sides and narrower than they are.

The gradient of maxima and its transpose stay the raw kernels': cuDNN doesn't say which of equal maxima gets the cotangent, and the
contract does.  Of a window of -inf alone cuDNN may give the least finite number, so pedantic mode's maxima stay raw as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..kernels import Array, Geometry, Shape
from ..pycuda_backend.array import DeviceArray
from ..pycuda_backend.pooling import expect, output_shape
from . import binding, handle
from .descriptors import (
    Descriptor,
    Unsupported,
    empty_laid,
    factor,
    fit,
    is_last,
    laid,
    same_on_both_sides,
    tensor,
    two_axes,
    two_dimensional,
)

_RESULTS, _PLACES = 2**23, 64  # where there are more of both, cuDNN 9 has been seen to be wrong (FluxML/NNlib.jl#508)


class Plan:
    """The descriptors of x, of y and of the window; how the arrays lie."""

    def __init__(self, x: Shape, y: Shape, g: Geometry, mode: int, dtype: np.dtype[Any], last: bool) -> None:
        self.last = last
        self.x, self.y = (tensor(two_dimensional(shape), dtype, last) for shape in (x, y))
        self.window = Descriptor("Pooling", _set, two_axes(g), mode)


_cached = functools.lru_cache(1024)(Plan)


def _plan(x: Shape, y: Shape, g: Geometry, mode: int, like: DeviceArray) -> Plan:
    """For arrays of the dtype and layout of `like`.  Raises Unsupported for what cuDNN can't pool."""
    fit(like.dtype, x, y)
    if max(g.dilation) > 1:
        raise Unsupported("dilation")
    if any(p >= n for p, n in zip(same_on_both_sides(g), g.window, strict=True)):
        raise Unsupported("padding as wide as the window")
    if prod(y) > _RESULTS and prod(g.window) > _PLACES:
        raise Unsupported("a large window with more than 2^23 results")
    return _cached(x, y, g, mode, like.dtype, is_last(like))


def _set(made: Descriptor, g: Geometry, mode: int) -> None:
    sliding = (g.window, same_on_both_sides(g), g.stride)
    binding.cudnnSetPoolingNdDescriptor(made, mode, binding.CUDNN_PROPAGATE_NAN, len(g.window), *sliding)


# -- the kernels
def max_pool(k: Any, x: Array, geometry: Geometry) -> Array:
    y = output_shape(x.shape, geometry)
    if k.math_mode() == "pedantic":
        raise Unsupported("pedantic: windows of -inf")
    return _forward(k, x, y, geometry, binding.CUDNN_POOLING_MAX_DETERMINISTIC)


def max_pool_x(k: Any, *args: Any) -> Array:
    raise Unsupported("which of equal maxima gets the cotangent")


def max_pool_at(k: Any, *args: Any) -> Array:
    raise Unsupported("which of equal maxima it is")


def mean_pool(k: Any, x: Array, geometry: Geometry, count_padding: bool) -> Array:
    return _forward(k, x, output_shape(x.shape, geometry), geometry, _mean(count_padding))


def mean_pool_x(k: Any, dy: Array, x_shape: Shape, geometry: Geometry, count_padding: bool) -> Array:
    """The call asks for x and y, too, which a mean's gradient does not depend on: dy and memory that is not set stand for them."""
    expect("dy", dy.shape, x_shape, geometry)
    p = _plan(x_shape, dy.shape, geometry, _mean(count_padding), dy)
    dy, dx, x = laid(dy, p.last), *(empty_laid(x_shape, dy.dtype, p.last) for _ in range(2))
    one, zero = factor(1.0, dy.dtype), factor(0.0, dy.dtype)
    binding.cudnnPoolingBackward(handle.ready(), p.window, one, p.y, dy.address, p.y, dy.address, p.x, x.address, zero, p.x, dx.address)
    k.say("cudnn")
    return dx


def _forward(k: Any, x: DeviceArray, y_shape: Shape, g: Geometry, mode: int) -> DeviceArray:
    p = _plan(x.shape, y_shape, g, mode, x)
    x, y = laid(x, p.last), empty_laid(y_shape, x.dtype, p.last)
    binding.cudnnPoolingForward(handle.ready(), p.window, factor(1.0, x.dtype), p.x, x.address, factor(0.0, x.dtype), p.y, y.address)
    k.say("cudnn")
    return y


def _mean(count_padding: bool) -> int:
    if count_padding:
        return binding.CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
    return binding.CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING


KERNELS: dict[str, Callable[..., Any]] = {
    "max_pool": max_pool,
    "max_pool_x": max_pool_x,
    "max_pool_at": max_pool_at,
    "mean_pool": mean_pool,
    "mean_pool_x": mean_pool_x,
}
