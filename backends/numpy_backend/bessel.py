"""Modified Bessel functions of whole order: NumPy's i0, and those of higher order without tables.

Below a bound the power series serves, whose terms all have one sign, and above it the asymptotic expansion, whose terms
there sink below the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Array

_FAR = 20  # from here on, or from order ** 2, the expansion has all its digits


def bessel_i(x: Array, order: int) -> Array:
    if x.dtype.kind == "c":
        raise TypeError(f"bessel_i: x must be real, not {x.dtype}")
    z = np.absolute(x.astype(np.float64, copy=False))
    y = np.i0(z) if order == 0 else _of_higher_order(z, order)
    if order % 2:
        y = np.where(x < 0, -y, y)
    return np.asarray(y).astype(x.dtype if x.dtype.kind == "f" else np.float64, copy=False)


def _of_higher_order(z: Array, order: int) -> Array:
    """I(z) for z >= 0."""
    bound = max(_FAR, order**2)
    near = z <= bound
    return np.where(near, _series(np.where(near, z, 0), order, bound), _expansion(np.where(near, bound, z), order))


def _series(z: Array, order: int, bound: int) -> Array:
    """(z / 2) ** order times the sum over k of (z / 2) ** 2k / (k! (k + order)!), of as many terms as z <= bound needs."""
    square, total = np.square(z / 2), np.ones_like(z)
    for k in range(bound + 20, 0, -1):
        total = 1 + square * total / (k * (k + order))
    return total * (z / 2) ** order / math.factorial(order)


def _expansion(z: Array, order: int) -> Array:
    """exp(z) / sqrt(2 pi z) times the sum over k of the product of the first k ((2 j - 1) ** 2 - 4 order ** 2) / (8 j z)."""
    total = np.ones_like(z)
    for k in range(30, 0, -1):
        total = 1 + total * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * z)
    half = np.exp(z / 2)  # exp(z) overflows before I(z) does
    return half * total / np.sqrt(2 * math.pi * z) * half


KERNELS: dict[str, Callable[..., Any]] = {"bessel_i": bessel_i}
