"""softmax and logsoftmax by cuDNN, over axes that lie side by side in memory: those are its channels.

A row that is -inf throughout gives NaN, as does one with NaN in it.  One with +inf may be NaN throughout where NumPy has zeros beside the
NaN, so the softmaxes of pedantic mode stay raw.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..pycuda_backend.array import DeviceArray
from ..pycuda_backend.planes import axes_of, planes
from . import binding, handle
from .descriptors import Descriptor, Unsupported, factor, fit, tensor


@functools.lru_cache(1024)
def _described(outer: int, middle: int, inner: int, dtype: np.dtype[Any]) -> Descriptor:
    return tensor((outer, middle, inner, 1), dtype)


def softmax(k: Any, x: DeviceArray, axis: Any) -> DeviceArray:
    return _mapped(k, x, axis, "softmax", binding.CUDNN_SOFTMAX_ACCURATE)


def logsoftmax(k: Any, x: DeviceArray, axis: Any) -> DeviceArray:
    return _mapped(k, x, axis, "logsoftmax", binding.CUDNN_SOFTMAX_LOG)


def _mapped(k: Any, x: DeviceArray, axis: Any, name: str, algorithm: int) -> DeviceArray:
    axes = axes_of(x, axis, name)
    fit(x.dtype, x.shape)
    if k.math_mode() == "pedantic":
        raise Unsupported("pedantic: rows with +inf")
    if x.address % 16:
        raise Unsupported("memory at no multiple of 16 bytes")
    p = planes(x, axes)
    y, lies = p.like(x.dtype), _described(p.outer, p.middle, p.inner, x.dtype)
    binding.cudnnSoftmaxForward(
        handle.ready(), algorithm, binding.CUDNN_SOFTMAX_MODE_CHANNEL,
        factor(1.0, x.dtype), lies, p.x.address, factor(0.0, x.dtype), lies, y.address,
    )  # fmt: skip
    k.say("cudnn")
    return y


KERNELS: dict[str, Callable[..., Any]] = {"softmax": softmax, "logsoftmax": logsoftmax}
