"""Arrays in and out, made, copied and reshaped."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, prod
from typing import Any

import numpy as np

from ..kernels import Array, Shape
from ..numpy_backend.arrays import plain
from . import exchange
from .array import DeviceArray, number, row_major, supported, view
from .elementwise import Rule
from .symbols import beside
from .transfer import copied, dense, filled, from_host, to_host

_SCALARS_KEPT = 4096
_scalars: dict[Any, DeviceArray] = {}


# -- in and out
def adopt(k: Any, x: Any) -> Array | None:
    """An array of the host is copied to the device; one of another library that lies there is seen as it is."""
    if isinstance(x, DeviceArray):
        return x
    if isinstance(x, (np.ndarray, np.generic, list, tuple)):
        a = plain(x) if isinstance(x, np.ndarray) else np.asarray(x)
        return from_host(a) if a.dtype.kind in "biufc" or a.dtype.name == "bfloat16" else None
    return exchange.adopt(x)


def scalar(k: Any, value: complex, dtype: Any) -> Array:
    """Cached: it stays on the host until a kernel wants it in memory."""
    key = (value, value.__class__, dtype) if value or value.__class__ is not float else (copysign(1.0, value), None, dtype)
    if (found := _scalars.get(key)) is None:
        found = _new_scalar(value, dtype)
        if value == value:  # NaN is never found again
            if len(_scalars) >= _SCALARS_KEPT:
                _scalars.clear()
            _scalars[key] = found
    return found


def _new_scalar(value: complex, dtype: Any) -> DeviceArray:
    try:
        x = np.asarray(value, beside(dtype, value))
    except OverflowError:  # a large integer beside a small type: as itself
        x = np.asarray(value if -(2**63) <= value.real < 2**64 else float(value.real))
    return number(x.item() if x.dtype.kind != "V" else float(x), supported(x.dtype))


# -- made
def full(k: Any, shape: Shape, value: complex, dtype: Any) -> DeviceArray:
    """An array in memory, so that it may be written to."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"{shape} has a negative length")
    return filled(shape, value, supported(dtype))


def astype(k: Any, x: DeviceArray, dtype: Any) -> DeviceArray:
    """x in another dtype; a number of the host stays there."""
    dtype = supported(dtype)
    if x.dtype == dtype:
        return x
    if x.value is not None:
        return number(np.asarray(x.value, x.dtype).astype(dtype).item(), dtype)
    y: DeviceArray = _CAST(x, dtype)
    return y


_CAST = Rule(lambda table, x, dtype: table.astype(x, dtype), lambda: True, "cast")


# -- reshaped
def reshape(k: Any, x: DeviceArray, shape: Shape) -> DeviceArray:
    """A view where NumPy gives one, else a copy."""
    if prod(shape) != x.size or any(n < 0 for n in shape):
        raise ValueError(f"reshape: an array of shape {x.shape} has no shape {shape}")
    if x.dense:
        return view(x, shape, row_major(shape, x.dtype.itemsize))
    if (strides := _strides_of(x, shape)) is not None:
        return view(x, shape, strides)
    y = dense(x)
    return view(y, shape, row_major(shape, x.dtype.itemsize))


def _strides_of(x: DeviceArray, shape: Shape) -> Shape | None:
    """The strides by which x's memory shows another shape, as NumPy finds them; None if there are none."""
    try:
        ghost = np.lib.stride_tricks.as_strided(np.empty(0, np.uint8), x.shape, x.strides)
        ghost = ghost.view()
        ghost.shape = shape
    except AttributeError:
        return None
    return ghost.strides


def transpose(k: Any, x: DeviceArray, axes: Shape | None) -> DeviceArray:
    axes = tuple(range(x.ndim))[::-1] if axes is None else tuple(a + x.ndim if a < 0 else a for a in axes)
    if sorted(axes) != list(range(x.ndim)):
        raise ValueError(f"transpose: {axes} are not the axes of an array of shape {x.shape}")
    return view(x, tuple(x.shape[a] for a in axes), tuple(x.strides[a] for a in axes))


def broadcast_to(k: Any, x: DeviceArray, shape: Shape) -> DeviceArray:
    """A view whose strides are 0 along the new lengths."""
    if x.shape == shape:
        return x
    lead = len(shape) - x.ndim
    if lead < 0:
        raise ValueError(f"broadcast_to: shape {x.shape} has more axes than {shape}")
    if any(m < 0 for m in shape):
        raise ValueError(f"broadcast_to: {shape} has a negative length")
    if any(n not in (1, m) for n, m in zip(x.shape, shape[lead:], strict=True)):
        raise ValueError(f"an array of shape {x.shape} does not broadcast to {shape}")
    strides = (*(0,) * lead, *(0 if n == 1 != m else s for n, m, s in zip(x.shape, shape[lead:], x.strides, strict=True)))
    return view(x, shape, strides)


KERNELS: dict[str, Callable[..., Any]] = {
    "adopt": adopt,
    "to_numpy": lambda k, x: to_host(x),
    "scalar": scalar,
    "copy": lambda k, x: copied(x),
    "zeros": lambda k, shape, dtype: full(k, shape, 0, dtype),
    "ones": lambda k, shape, dtype: full(k, shape, 1, dtype),
    "full": full,
    "astype": astype,
    "reshape": reshape,
    "transpose": transpose,
    "broadcast_to": broadcast_to,
}
