"""Activations and their gradients, in one pass over memory where NumPy makes several.

oneDNN's relu makes 0 of NaN, its gradient NaN of an infinity times 0, and its tanh on one thread is slower than NumPy's: NumPy does
those.  oneDNN's elu is exp(x) - 1, off by as much as 1 is rounded by, which near 0 is more than NumPy's is.  Where a result is NaN, the
gradient of elu passes on the cotangent.  In pedantic mode the kernels are those of the numpy backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import SELU_LIMIT, SELU_SCALE, Array
from ..numpy_backend import elementwise as plain
from . import binding
from .arrays import described
from .binding import DIFF_DST, DIFF_SRC, DST, ELU, ELU_FROM_RESULT, LOGISTIC, LOGISTIC_FROM_RESULT, SRC, TANH
from .primitives import Primitive, Unsupported, or_unsupported

_FLOAT = np.dtype(np.float32)
_PAYS_FROM = 512  # elements; below, the calls that set a primitive up take longer than its work
_GRADIENT_PAYS_FROM = 1 << 14  # NumPy's few cheap passes stay in cache that long
_CLIP_PAYS_FROM = 1 << 11
_MOST = 1 << 31


@or_unsupported
def _forward(size: int, algorithm: int, alpha: float) -> Primitive:
    lies = described((size,), False)
    description = binding.eltwise_forward(binding.INFERENCE, algorithm, lies, lies, alpha, 0.0, binding.attributes())
    return Primitive(description, [(SRC, lies), (DST, lies)])


@or_unsupported
def _backward(size: int, algorithm: int, of_result: int, alpha: float) -> Primitive:
    lies, none = described((size,), False), binding.attributes()
    hint = binding.eltwise_forward(binding.TRAINING, algorithm, lies, lies, alpha, 0.0, none)
    description = binding.eltwise_backward(of_result, lies, lies, lies, alpha, 0.0, hint, none)
    return Primitive(description, [(DST, lies), (DIFF_DST, lies), (DIFF_SRC, lies)], (DIFF_SRC,), kept=[hint])


def _activation(name: str, algorithm: int, alpha: float = 0.0, scale: float = 1.0) -> Callable[[Any, Array], Array]:
    """The kernel that gives scale * algorithm(x)."""
    numpys, factor = plain.KERNELS[name], np.asarray(scale, _FLOAT)

    def kernel(k: Any, x: Array) -> Array:
        if x.size < _PAYS_FROM:
            result: Array = numpys(x)
            return result
        if why := _unfit(k, x):
            return k.leave(name, why, x)
        y = np.empty_like(x)
        try:
            k.run(_forward, (x.size, algorithm, alpha), (_as_in(x, y, y), y))
        except Unsupported as e:
            return k.leave(name, str(e), x)
        return y if scale == 1 else np.multiply(y, factor, out=y)

    return kernel


def _gradient(name: str, algorithm: int, of_result: int, alpha: float = 0.0) -> Callable[[Any, Array, Array], Array]:
    """The kernel that gives the cotangent of x for that of the result y = algorithm(x)."""
    numpys = plain.KERNELS[name]

    def kernel(k: Any, dy: Array, y: Array) -> Array:
        if y.size < _GRADIENT_PAYS_FROM:
            result: Array = numpys(dy, y)
            return result
        if why := _unfit(k, y, dy):
            return k.leave(name, why, dy, y)
        dx = np.empty_like(y)
        try:
            k.run(_backward, (y.size, algorithm, of_result, alpha), (_as_in(y, dx), _as_in(dy, dx, dx), dx))
        except Unsupported as e:
            return k.leave(name, str(e), dy, y)
        return dx

    return kernel


def _unfit(k: Any, *arrays: Array) -> str:
    """Why oneDNN can't compute with these arrays, or ""."""
    if any(x.dtype != _FLOAT for x in arrays):
        return "not float32"
    if any(x.shape != arrays[0].shape for x in arrays):
        return "broadcast"
    if arrays[0].size >= _MOST:
        return "2^31 elements or more"
    return "pedantic mode" if k.math_mode() == "pedantic" else ""


def _as_in(x: Array, dense: Array, copy: Array | None = None) -> Array:
    """x if it lies as `dense` does, else a copy that does, in memory that may be given."""
    if x.strides == dense.strides:
        return x
    copy = np.empty_like(dense) if copy is None else copy
    copy[...] = x
    return copy


# -- by NumPy, in fewer passes than its backend's
def relu(k: Any, x: Array) -> Array:
    """numpy.clip takes a third of numpy.maximum's time; it keeps NaN, and the sign of -0."""
    if x.size < _CLIP_PAYS_FROM or _unfit(k, x):
        return plain.relu(x)
    return x.clip(0, np.inf)


def relu_x(k: Any, dy: Array, y: Array) -> Array:
    """The bits of dy, as an integer, times 1 or 0."""
    if y.size < _CLIP_PAYS_FROM or _unfit(k, dy, y):
        return plain.relu_x(dy, y)
    bits = np.greater(y, 0).astype(np.int32)
    return np.multiply(bits, dy.view(np.int32), out=bits).view(_FLOAT)


def tanh(k: Any, x: Array) -> Array:
    return _tanh(k, x) if x.size >= _PAYS_FROM and binding.max_threads() > 1 else _plain_tanh(x)


_tanh, _plain_tanh = _activation("tanh", TANH), plain.KERNELS["tanh"]
KERNELS: dict[str, Callable[..., Any]] = {
    "relu": relu,
    "relu_x": relu_x,
    "elu": _activation("elu", ELU, 1.0),
    "elu_x": _gradient("elu_x", ELU, ELU_FROM_RESULT, 1.0),
    "selu": _activation("selu", ELU, SELU_LIMIT / SELU_SCALE, SELU_SCALE),
    "sigmoid": _activation("sigmoid", LOGISTIC),
    "sigmoid_x": _gradient("sigmoid_x", LOGISTIC, LOGISTIC_FROM_RESULT),
    "tanh": tanh,
}
