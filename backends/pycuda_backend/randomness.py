"""Random numbers: NumPy's stream, so that a seed gives the same ones on every backend."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from ..kernels import Shape
from .array import DeviceArray, empty
from .launch import blocks_for, c_type, threads_for

_WORD = 2**64


def uniform(k: Any, seed: int, shape: Shape, dtype: Any) -> DeviceArray:
    """Generator(Philox(key=seed)).random: float64 from 53 bits of each word of 64, float32 from 24 of each half word.

    float16 and bfloat16 keep the upper 11 and 8 of float32's bits.  Raises ValueError for a seed outside [0, 2**128), TypeError for a
    dtype that is no float.
    """
    dtype = np.dtype(dtype)
    if dtype.name not in ("float16", "bfloat16", "float32", "float64"):
        raise TypeError(f"uniform: numbers in [0, 1) are float16, bfloat16, float32 or float64, not {dtype}")
    seed = index(seed)
    if not 0 <= seed < _WORD**2:
        raise ValueError(f"uniform: the seed {seed} is not in [0, 2**128)")
    y = empty((shape,) if isinstance(shape, int) else tuple(shape), dtype)
    if y.size:
        threads = -(-y.size // (4 if dtype.itemsize == 8 else 8))  # each makes numbers of four words
        fn = k.kernel("random", "uniform", "PqQQ", TYPE=c_type(dtype))
        fn(blocks_for(threads), threads_for(threads), y, y.size, seed % _WORD, seed // _WORD)
    return y


KERNELS: dict[str, Callable[..., Any]] = {"uniform": uniform}
