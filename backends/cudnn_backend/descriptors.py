"""What cuDNN is told of arrays and operations: descriptors, which are destroyed with their last reference, and factors.

Arrays lie in one of two ways, row-major or channels_last; `laid` brings others into one of them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from ctypes import byref, c_double, c_float
from math import prod
from typing import Any

import numpy as np

from ..kernels import Geometry, Shape
from ..pycuda_backend.array import DeviceArray, empty, empty_in_order, is_dense, row_major
from ..pycuda_backend.driver import device
from ..pycuda_backend.transfer import copy_into, filled
from . import binding

DATA = {
    "float32": binding.CUDNN_DATA_FLOAT,
    "float64": binding.CUDNN_DATA_DOUBLE,
    "float16": binding.CUDNN_DATA_HALF,
    "bfloat16": binding.CUDNN_DATA_BFLOAT16,
}
_MOST = 2**31  # elements


class Unsupported(Exception):
    """What cuDNN can't take, and why, in a few words."""


class Descriptor:
    """Something that cuDNN made.  Calls take it as it is."""

    __slots__ = ("_as_parameter_", "_destroy")

    def __init__(self, kind: str, set: Callable[..., Any], *args: Any) -> None:
        self._as_parameter_: int | None = None
        self._destroy = getattr(binding, f"cudnnDestroy{kind}Descriptor")
        self._as_parameter_ = getattr(binding, f"cudnnCreate{kind}Descriptor")()
        try:
            set(self, *args)
        except binding.cudnnBadParam as e:
            raise Unsupported(f"cuDNN can't describe it: {e}") from e

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._as_parameter_ is not None and not ending():
            self._destroy(self)


# -- arrays
def tensor(shape: Shape, dtype: np.dtype[Any], last: bool = False) -> Descriptor:
    """Of an array with four axes or more that lies row-major, or channels_last."""
    steps = [s // dtype.itemsize for s in _strides(shape, dtype, last)]
    return Descriptor("Tensor", binding.cudnnSetTensorNdDescriptor, DATA[dtype.name], len(shape), shape, steps)


def filters(shape: Shape, dtype: np.dtype[Any], last: bool = False) -> Descriptor:
    """Of a convolution's weights (K, C/group, *window)."""
    form = binding.CUDNN_TENSOR_NHWC if last else binding.CUDNN_TENSOR_NCHW
    return Descriptor("Filter", binding.cudnnSetFilterNdDescriptor, DATA[dtype.name], form, len(shape), shape)


def two_dimensional(shape: Shape) -> Shape:
    """(N, C, L) as (N, C, 1, L): cuDNN's windows have two axes at least."""
    return (*shape[:2], 1, *shape[2:]) if len(shape) == 3 else shape


def fit(dtype: np.dtype[Any], *shapes: Shape) -> None:
    """Raise Unsupported unless arrays of this dtype and these shapes can be described."""
    if dtype.name not in DATA:
        raise Unsupported(f"{dtype}")
    if any(0 in shape for shape in shapes):
        raise Unsupported("empty")
    if max(map(prod, shapes)) >= _MOST:
        raise Unsupported("2^31 elements or more")


# -- windows
def two_axes(g: Geometry) -> Geometry:
    """The geometry of arrays that `two_dimensional` has seen."""
    if len(g.window) > 1:
        return g
    return g._replace(window=(1, *g.window), padding=((0, 0), *g.padding), stride=(1, *g.stride), dilation=(1, *g.dilation))


def same_on_both_sides(g: Geometry) -> list[int]:
    """The padding of each axis.  Raises Unsupported."""
    if any(before != after or before < 0 for before, after in g.padding):
        raise Unsupported("padding that differs before and after, or is negative")
    return [before for before, _ in g.padding]


# -- layouts
def is_last(x: DeviceArray) -> bool:
    """Whether x (N, C, *spatial) lies channels_last, and not row-major as well."""
    axes = _axes(x.ndim, True)
    return not x.dense and is_dense(tuple(x.shape[a] for a in axes), tuple(x.strides[a] for a in axes), x.itemsize)


def laid(x: DeviceArray, last: bool) -> DeviceArray:
    """x itself if it lies so, where 16 bytes can be loaded at once, else a copy that does."""
    if (is_last(x) if last else x.dense) and x.address % 16 == 0:
        return x
    y = empty_laid(x.shape, x.dtype, last)
    copy_into(y, x)
    return y


def empty_laid(shape: Shape, dtype: np.dtype[Any], last: bool) -> DeviceArray:
    return empty_in_order(shape, dtype, _axes(len(shape), True)) if last else empty(shape, dtype)


def _axes(ndim: int, last: bool) -> tuple[int, ...]:
    """From the slowest to the fastest."""
    return (0, *range(2, ndim), 1) if last else tuple(range(ndim))


def _strides(shape: Shape, dtype: np.dtype[Any], last: bool) -> Shape:
    axes = _axes(len(shape), last)
    along = row_major(tuple(shape[a] for a in axes), dtype.itemsize)
    return tuple(stride for _, stride in sorted(zip(axes, along, strict=True)))


# -- numbers
def constant(number: int, n: int, dtype: np.dtype[Any]) -> DeviceArray:
    """(n,) of this number, never written to; kept for the default stream, which need not wait for another's."""
    return _constant(number, n, dtype) if device().stream is None else filled((n,), number, dtype)


@functools.lru_cache(256)
def _constant(number: int, n: int, dtype: np.dtype[Any]) -> DeviceArray:
    return filled((n,), number, dtype)


@functools.lru_cache(256)
def factor(value: float, dtype: np.dtype[Any]) -> Any:
    """A number where cuDNN reads alpha and beta for arrays of this dtype."""
    return byref((c_double if dtype.itemsize == 8 else c_float)(value))
