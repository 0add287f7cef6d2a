"""Fourier transforms along one axis, by numpy.fft."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Array, Norm


def fft(x: Array, axis: int, n: int, inverse: bool, norm: Norm) -> Array:
    return (np.fft.ifft if inverse else np.fft.fft)(x, n, axis, norm)


def rfft(x: Array, axis: int, n: int, norm: Norm) -> Array:
    return np.fft.rfft(x, n, axis, norm)


def irfft(x: Array, axis: int, n: int, norm: Norm) -> Array:
    return np.fft.irfft(x, n, axis, norm)


KERNELS: dict[str, Callable[..., Any]] = {"fft": fft, "rfft": rfft, "irfft": irfft}
