"""Kernels of matrices that NumPy lacks, by scipy.linalg, which is imported when one is first asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Array


@functools.cache
def _linalg() -> Any:
    return importlib.import_module("scipy.linalg")


def _of_each(f: Callable[..., Any], *xs: Array) -> Array:
    """f of the matrices on the last two axes of xs, whose stacks broadcast; it gives what has the shape of the last one."""
    lead = np.broadcast_shapes(*(x.shape[:-2] for x in xs))
    shape = lead + xs[-1].shape[-2:]
    if 0 in shape:
        return np.zeros(shape, np.result_type(*xs))
    whole = [np.broadcast_to(x, lead + x.shape[-2:]) for x in xs]
    return np.reshape([f(*(x[i] for x in whole)) for i in np.ndindex(lead)], shape)


def solve_triangular(a: Array, b: Array, lower: bool) -> Array:
    return _of_each(functools.partial(_linalg().solve_triangular, lower=lower, check_finite=False), a, b)


def solve_banded(ab: Array, b: Array, lower: int) -> Array:
    if b.size == 0:
        return np.zeros(b.shape, np.result_type(ab, b))
    return np.asarray(_linalg().solve_banded((lower, ab.shape[0] - 1 - lower), ab, b, check_finite=False))


def solve_sylvester(a: Array, b: Array, q: Array) -> Array:
    return _of_each(_linalg().solve_sylvester, a, b, q)


def sqrtm(a: Array) -> Array:
    return _of_each(_linalg().sqrtm, a)


KERNELS: dict[str, Callable[..., Any]] = {
    kernel.__name__: kernel for kernel in (solve_triangular, solve_banded, solve_sylvester, sqrtm)
}
