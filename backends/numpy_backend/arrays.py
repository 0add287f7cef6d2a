"""Arrays in and out, made, copied and reshaped, and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign
from typing import Any

import numpy as np

from ..kernels import Array, Shape

_NUMBERS = "biufc"  # dtype kinds; strings, dates and objects are nothing an operator can take
_SCALARS_KEPT = 4096
_scalars: dict[tuple[Any, Any, Any], Array] = {}


# -- in and out
def adopt(x: Any) -> Array | None:
    if isinstance(x, np.ndarray):
        x = x if type(x) is np.ndarray else plain(x)
    elif isinstance(x, (np.generic, list, tuple)):
        x = np.asarray(x)
    else:
        return None
    return x if x.dtype.kind in _NUMBERS else None


def plain(x: np.ndarray) -> Array:
    """An ndarray of a subclass as what it is beneath, if it computes as that does: masks, units and np.matrix would be lost."""
    if type(x).__mul__ is not np.ndarray.__mul__ or type(x).__array_ufunc__ is not np.ndarray.__array_ufunc__:
        raise TypeError(f"{type(x).__name__} computes by rules of its own, which would be lost: pass np.asarray(x)")
    return x.view(np.ndarray)


def to_numpy(x: Array) -> Array:
    return x


def scalar(value: complex, dtype: Any) -> Array:
    """Cached and read-only, since making a 0-d array takes longer than using it."""
    # 0.0 == -0.0, and they must not share an entry
    key = (value, value.__class__, dtype) if value or value.__class__ is not float else (copysign(1.0, value), None, dtype)
    found = _scalars.get(key)
    return _new_scalar(value, dtype, key) if found is None else found


def _new_scalar(value: complex, dtype: Any, key: tuple[Any, Any, Any]) -> Array:
    try:
        x = np.asarray(value, np.result_type(dtype, value))
    except OverflowError:  # a large integer beside a small type: as itself, which compares and divides as NumPy does
        x = np.asarray(value if -(2**63) <= value.real < 2**64 else float(value.real))
    x.setflags(write=False)
    if value.__class__ in (int, float, bool) and value == value:  # NaN is never found again; complex zeros have four signs
        if len(_scalars) >= _SCALARS_KEPT:
            _scalars.clear()
        _scalars[key] = x
    return x


def copy(x: Array) -> Array:
    return x.copy("K")


# -- made
def full(shape: Shape, value: complex, dtype: Any) -> Array:
    return np.full(shape, value, dtype)


def astype(x: Array, dtype: Any) -> Array:
    if x.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
        x = x.real
    return x.astype(dtype, copy=False)


def uniform(seed: int, shape: Shape, dtype: Any) -> Array:
    """Generator(Philox(key=seed)).random: float64 from 53 bits of each 64-bit word, float32 from 24 of each half word.

    float16 keeps the upper 11 of float32's bits, for rounding could give 1.  seed is in [0, 2**128).
    """
    dtype = np.dtype(dtype)
    draw = np.random.Generator(np.random.Philox(key=seed)).random
    if dtype == np.float16:
        return np.asarray(np.floor(draw(shape, np.float32) * 2048) / 2048, dtype)
    return np.asarray(draw(shape, dtype))


# -- reshaped
def reshape(x: Array, shape: Shape) -> Array:
    return x.reshape(shape)


def transpose(x: Array, axes: Shape | None) -> Array:
    return x.transpose(axes)


def broadcast_to(x: Array, shape: Shape) -> Array:
    """What numpy.broadcast_to does, in a third of its time."""
    if x.shape == shape:
        return x
    if len(shape) < x.ndim:
        raise ValueError(f"broadcast_to: shape {x.shape} has more axes than {shape}")
    if min(shape) < 0:  # nditer would take -1 for any length
        raise ValueError(f"broadcast_to: {shape} has a negative length")
    return np.nditer((x,), ("multi_index", "refs_ok", "zerosize_ok"), [["readonly"]], itershape=shape, order="C").itviews[0]


def concatenate(xs: Sequence[Array], axis: int) -> Array:
    return np.concatenate(xs, axis)


def pad(x: Array, widths: tuple[tuple[int, int], ...], value: complex) -> Array:
    if len(widths) != x.ndim:
        raise ValueError(f"pad: {len(widths)} widths for an array of shape {x.shape}; one pair an axis is needed")
    y = np.full(tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True)), value, x.dtype)
    y[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))] = x
    return y


KERNELS: dict[str, Callable[..., Any]] = {
    "adopt": adopt,
    "to_numpy": to_numpy,
    "scalar": scalar,
    "copy": copy,
    "zeros": np.zeros,
    "ones": np.ones,
    "full": full,
    "astype": astype,
    "uniform": uniform,
    "reshape": reshape,
    "transpose": transpose,
    "broadcast_to": broadcast_to,
    "concatenate": concatenate,
    "pad": pad,
}
