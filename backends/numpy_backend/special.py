"""Special functions: SciPy's, which is imported when one is first asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels import Array


@functools.cache
def _of_scipy(name: str) -> Any:
    return getattr(importlib.import_module("scipy.special"), name)


def special(name: str, xs: Sequence[Array]) -> Array:
    function, dtype = _of_scipy(name), np.result_type(*xs)
    xs = _beside_complex(name, function, xs) if dtype.kind == "c" else xs
    return np.asarray(function(*xs), dtype if dtype.kind == "f" else None)


def _beside_complex(name: str, function: Any, xs: Sequence[Array]) -> Sequence[Array]:
    """xs as the function takes them where one of them is complex: an order of Bessel functions must be real then, as a number there is."""
    loop = next((loop for loop in getattr(function, "types", ()) if "D" in loop), "d" * len(xs))
    for kind, x in zip(loop, xs, strict=False):
        if kind == "d" and x.dtype.kind == "c" and (len(set(loop)) == 1 or np.any(x.imag)):
            raise TypeError(f"{name} is of real numbers here, not {x.dtype}")
    return [x.real if kind == "d" else x for kind, x in zip(loop, xs, strict=False)]


KERNELS: dict[str, Callable[..., Any]] = {"special": special}
