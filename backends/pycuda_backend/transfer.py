"""Memory filled: from the host and to it, from another array, with a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import Shape
from . import faults
from .array import DeviceArray, empty, empty_in_order, memory_order, number, supported
from .driver import device
from .elementwise import Rule
from .tiles import copy_transposed

_COPY = Rule(lambda table, x: x, lambda: True, "copy")


def from_host(a: np.ndarray) -> DeviceArray:
    """A NumPy array on the device; a 0-d one stays a number.  Raises TypeError for dtypes that no kernel takes."""
    dtype = supported(a.dtype)
    if a.ndim == 0 and dtype.kind != "V":
        return number(a.item(), dtype)
    x = empty(a.shape, dtype)
    if a.size:
        d = device()
        try:  # from pageable memory: it is read before the call returns, which waits for nothing
            d.cuda.memcpy_htod_async(x.address, np.ascontiguousarray(a, dtype), d.here.stream)
        except d.cuda.Error as e:
            raise d.explain(e, "copying to the device") from e
    return x


def as_numpy(x: DeviceArray, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """What numpy.asarray(x) gives."""
    if copy is False:
        raise ValueError("an array on the device can't be seen from the host without a copy")
    return to_host(x) if dtype is None else to_host(x).astype(dtype, copy=False)


def by_way_of_the_host(x: DeviceArray) -> Any:
    """How x is copied and pickled."""
    return restored, (to_host(x),)


def restored(a: np.ndarray) -> DeviceArray:
    """An array that was copied or pickled; in memory even if it is 0-d, since kernels may write to it."""
    x = from_host(a)
    return copied(x) if x.value is not None else x


def to_host(x: DeviceArray) -> np.ndarray:
    """A NumPy array with x's elements, once the device has computed them."""
    if x.value is not None:
        return np.asarray(x.value, x.dtype)
    x = dense(x)
    a = np.empty(x.shape, x.dtype)
    if x.size:
        d = device()
        try:
            if (stream := d.here.stream) is None:
                d.cuda.memcpy_dtoh(a, x.address)
            else:
                d.cuda.memcpy_dtoh_async(a, x.address, stream)
                stream.synchronize()
        except d.cuda.Error as e:
            raise d.explain(e, "copying to the host") from e
        faults.tell()
    return a


def dense(x: DeviceArray) -> DeviceArray:
    """x itself if its elements lie in row-major order without gaps, else a copy of which that is true."""
    if x.dense:
        return x
    y = empty(x.shape, x.dtype)
    copy_into(y, x)
    return y


def copied(x: DeviceArray) -> DeviceArray:
    """A copy without gaps, its axes in x's order of memory."""
    y = empty(x.shape, x.dtype) if x.dense else empty_in_order(x.shape, x.dtype, memory_order(x))
    copy_into(y, x)
    return y


def copy_into(y: DeviceArray, x: DeviceArray) -> None:
    """Write x, which broadcasts to y's shape, to y, in y's dtype."""
    if not copy_transposed(y, x):
        _COPY.into((y,), x)


def filled(shape: Shape, value: Any, dtype: np.dtype[Any]) -> DeviceArray:
    """An array of this number."""
    y = empty(shape, dtype)
    _COPY.into((y,), number(np.full((), value, dtype).item(), dtype))
    return y


for _name, _method in {"__array__": as_numpy, "__reduce__": by_way_of_the_host}.items():
    setattr(DeviceArray, _name, _method)
