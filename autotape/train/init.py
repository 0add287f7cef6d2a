"""Initial values of parameters, drawn from autotape.random.

    w, b = param(784, 10), param0(10)
    w = param(16, 1, 5, 5, init=xavier_normal, gain=2**0.5, dtype=np.float64)
    table = param(10000, 64, init=gaussian, std=0.3)    # an embedding: its rows don't shrink with their number, as xavier's would

Shapes are those of this library's layers: (inputs, outputs) for matrices, (K, C, *window) for convolutions from C to K channels.
A dense unit has as many inputs as the matrix has rows; a unit of a convolution sees C * prod(window) numbers and is seen by
K * prod(window): these are fan in and fan out.  A vector counts as one unit, (n, 1).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backend, random
from ..backends.kernels import Array
from ..param import Param
from ..tensor import describe

Init = Callable[..., Array]


def fans(dims: tuple[int, ...]) -> tuple[int, int]:
    """Fan in and fan out of a parameter of this shape."""
    if len(dims) < 3:
        return (*dims, 1, 1)[0], (*dims, 1, 1)[1]
    return math.prod(dims[1:]), dims[0] * math.prod(dims[2:])


def xavier_uniform(*dims: int, gain: float = 1.0, dtype: Any = np.float32) -> Array:
    """Uniform between -s and s, s = gain * sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010)."""
    _check("xavier_uniform", dims)
    s = gain * math.sqrt(6 / max(sum(fans(dims)), 1))
    return random.uniform(dims, -s, s, dtype)


def xavier_normal(*dims: int, gain: float = 1.0, dtype: Any = np.float32) -> Array:
    """Normal with mean 0 and standard deviation gain * sqrt(2 / (fan in + fan out))."""
    _check("xavier_normal", dims)
    return random.normal(dims, 0.0, gain * math.sqrt(2 / max(sum(fans(dims)), 1)), dtype)


def gaussian(*dims: int, mean: float = 0.0, std: float = 0.01, dtype: Any = np.float32) -> Array:
    """Normal with this mean and standard deviation."""
    _check("gaussian", dims)
    return random.normal(dims, mean, std, dtype)


def bilinear(*dims: int, dtype: Any = np.float32) -> Array:
    """Windows (K, K, *window) with which deconv4 enlarges each channel by linear interpolation.

    For a factor f: window 2 * f - f % 2, stride f, padding ceil((f - 1) / 2).  Raises ValueError if the channels differ,
    TypeError for a dtype that is no float.
    """
    _check("bilinear", dims)
    if np.dtype(dtype).kind not in "fc":
        raise TypeError(f"bilinear: dtype must be of floats, not {np.dtype(dtype)}")
    if len(dims) < 3 or dims[0] != dims[1]:
        raise ValueError(f"bilinear: the shape is (K, K, *window), not {dims}")
    w = np.zeros(dims, dtype)
    hats = np.ix_(*map(_hat, dims[2:]))
    w[range(dims[0]), range(dims[0])] = math.prod(hats[1:], start=hats[0])
    return backend.kernels().adopt(w)


def _hat(n: int) -> np.ndarray[Any, Any]:
    """n samples of a triangle that is 1 at their centre."""
    hat: np.ndarray[Any, Any] = 1 - np.abs(np.arange(n) - (n - 1) / 2) / ((n + 1) // 2)
    return hat


def param(*dims: int, init: Init = xavier_uniform, dtype: Any = np.float32, **options: Any) -> Param:
    """A Param of this shape, init(*dims, dtype=dtype, **options); for one of an array there is at.Param(x)."""
    _check("param", dims)
    return Param(init(*dims, dtype=dtype, **options))


def param0(*dims: int, dtype: Any = np.float32) -> Param:
    """A Param of zeros."""
    _check("param0", dims)
    return Param(backend.kernels().zeros(dims, np.dtype(dtype)))


def _check(name: str, dims: tuple[Any, ...]) -> None:
    """Raise TypeError or ValueError unless dims are lengths of axes."""
    for n in dims:
        if not hasattr(n, "__index__") or np.ndim(n):
            raise TypeError(f"{name}: the length of each axis is an argument of its own, a whole number, not {describe(n)}")
        if operator.index(n) < 0:
            raise ValueError(f"{name}: the length of an axis is not negative, but of {dims} one is")
