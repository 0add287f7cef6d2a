"""batchnorm and its cotangents by cuDNN; channels lie first or last.

The contract's variance is divided by the count n, and cuDNN's, which goes into a running one by a factor, by n - 1: with the factor
(n - 1) / n, and 0 to start from, it is the contract's.  Fast mode lets cuDNN sum up by scaled integers, which may overflow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Shape
from ..pycuda_backend.array import DeviceArray, empty
from ..pycuda_backend.normalisation import Triple, computed, fits, length, wide_type
from ..pycuda_backend.transfer import dense, filled
from . import binding, handle
from .descriptors import Descriptor, Unsupported, constant, empty_laid, factor, fit, is_last, laid, tensor, two_dimensional

_ANY_EPSILON = 1e-5  # cuDNN checks it, and reads it only where it is given no 1 / sqrt(var + eps)


class Plan:
    """The descriptors of x, whose form all images have, and of numbers a channel; how images lie; what numbers are in."""

    def __init__(self, shape: Shape, dtype: np.dtype[Any], last: bool, mode: int) -> None:
        self.mode, self.last, self.wide = mode, last, wide_type(dtype)
        self.x = tensor(two_dimensional(shape) if len(shape) > 2 else (*shape, 1, 1), dtype, last)
        self.channels = Descriptor("Tensor", binding.cudnnDeriveBNTensorDescriptor, self.x, mode)


_cached = functools.lru_cache(1024)(Plan)


def _plan(k: Any, x: DeviceArray) -> Plan:
    """Raises Unsupported for what cuDNN can't normalise."""
    fit(x.dtype, x.shape)
    if x.ndim > 5:
        raise Unsupported("more than three spatial axes")
    if x.size == x.shape[1]:
        raise Unsupported("one element a channel")
    is_fast = k.math_mode() == "fast"
    mode = binding.CUDNN_BATCHNORM_SPATIAL_PERSISTENT if is_fast else binding.CUDNN_BATCHNORM_SPATIAL
    return _cached(x.shape, x.dtype, is_last(x), mode)


def batchnorm(k: Any, x: DeviceArray, scale: DeviceArray | None, bias: DeviceArray | None, eps: float) -> Triple:
    channels = length(x, 1, "batchnorm", scale=scale, bias=bias)
    if not eps >= 0:
        raise Unsupported("an epsilon below 0")
    x, scale, bias = computed(k, x, scale, bias)
    p = _plan(k, x)
    n = x.size // channels
    x, y = laid(x, p.last), empty_laid(x.shape, x.dtype, p.last)
    scale, bias = _or_all(k, scale, 1, channels, p), _or_all(k, bias, 0, channels, p)
    mean, inv, running_mean = (empty((channels,), p.wide) for _ in range(3))
    var = filled((channels,), 0, p.wide)
    binding.cudnnBatchNormalizationForwardTraining(
        handle.ready(), p.mode, factor(1.0, x.dtype), factor(0.0, x.dtype), p.x, x.address, p.x, y.address,
        p.channels, scale.address, bias.address, (n - 1) / n, running_mean.address, var.address, eps, mean.address, inv.address,
    )  # fmt: skip
    _say(k, p)
    return y, mean, var


def batchnorm_x(k: Any, dy: DeviceArray, x: DeviceArray, mean: DeviceArray, inv: DeviceArray, scale: DeviceArray | None) -> Triple:
    channels = length(x, 1, "batchnorm_x", mean=mean, inv=inv, scale=scale)
    fits("batchnorm_x", "dy", dy, x.shape)
    x, dy, scale = computed(k, x, dy, scale, kept=2)
    p, dtype = _plan(k, x), x.dtype
    x, dy, dx = laid(x, p.last), laid(dy, p.last), empty_laid(x.shape, dtype, p.last)
    scale = _or_all(k, scale, 1, channels, p)
    mean, inv = (dense(k.astype(v, p.wide)) for v in (mean, inv))
    dscale, dbias = (empty((channels,), p.wide) for _ in range(2))
    binding.cudnnBatchNormalizationBackward(
        handle.ready(), p.mode, *[factor(1.0, dtype), factor(0.0, dtype)] * 2, p.x, x.address, p.x, dy.address, p.x, dx.address,
        p.channels, scale.address, dscale.address, dbias.address, _ANY_EPSILON, mean.address, inv.address,
    )  # fmt: skip
    _say(k, p)
    return dx, k.astype(dscale, dtype), k.astype(dbias, dtype)


def _or_all(k: Any, v: DeviceArray | int, number: int, channels: int, p: Plan) -> DeviceArray:
    """v as cuDNN takes it, or this number for all channels where v is 0, no array."""
    return constant(number, channels, p.wide) if isinstance(v, int) else k.astype(v, p.wide)


def _say(k: Any, p: Plan) -> None:
    k.say("cudnn, persistent" if p.mode == binding.CUDNN_BATCHNORM_SPATIAL_PERSISTENT else "cudnn")


KERNELS: dict[str, Callable[..., Any]] = {"batchnorm": batchnorm, "batchnorm_x": batchnorm_x}
