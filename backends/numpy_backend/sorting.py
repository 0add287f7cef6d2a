"""Order along an axis, and places in what is sorted.  NaN counts as larger than all else, as NumPy has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Array


def sort(x: Array, axis: int) -> Array:
    return np.sort(x, axis)


def argsort(x: Array, axis: int) -> Array:
    """NumPy's default sort is not stable but vectorised, so it goes first: where all elements differ there is only one order."""
    order = np.argsort(x, axis)
    y = np.take_along_axis(x, order, axis).swapaxes(axis, -1)
    return order if (y[..., :-1] < y[..., 1:]).all() else np.argsort(x, axis, kind="stable")


def searchsorted(a: Array, v: Array, side: Any) -> Array:
    return np.asarray(np.searchsorted(a, v, side))


KERNELS: dict[str, Callable[..., Any]] = {"sort": sort, "argsort": argsort, "searchsorted": searchsorted}
