"""Arrays of other libraries on the same device, in and out, without a copy.

DLPack (PyTorch, CuPy, JAX, NumPy), __cuda_array_interface__ (PyCUDA, CuPy, Numba, PyTorch), and PyCUDA's GPUArray.  Work of another library
on another stream is waited for by the stream that comes after it, not by the host.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p
from typing import Any

import numpy as np

from ..kernels import Shape
from . import dlpack
from .array import DeviceArray, is_dense, row_major, supported
from .driver import DeviceError, device

_LEGACY_STREAM = 1  # the driver's handle of the default stream
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_...
_EVENT_WITHOUT_TIME = 2  # CU_EVENT_DISABLE_TIMING


# -- in
def adopt(x: Any) -> DeviceArray | None:
    """An array of another library that lies on the device, sharing its memory; None if x is nothing of the kind.

    Raises DeviceError if it lies on another device, TypeError or ValueError if no kernel takes its elements as they lie.
    """
    if hasattr(x, "__dlpack_device__"):
        kind, ordinal = x.__dlpack_device__()
        if kind in (dlpack.CUDA, dlpack.MANAGED):
            return _by_dlpack(x, ordinal if kind == dlpack.CUDA else None)
    if (interface := getattr(x, "__cuda_array_interface__", None)) is not None:
        return _by_interface(x, interface)
    return None


def _by_dlpack(x: Any, ordinal: int | None) -> DeviceArray:
    if ordinal is not None:
        _same_device(x, ordinal)
    try:
        capsule = x.__dlpack__(stream=_stream(), max_version=dlpack.VERSION)
    except TypeError:  # a library from before versions
        capsule = x.__dlpack__(stream=_stream())
    borrowed = dlpack.Borrowed(capsule)
    return _array(x, borrowed, borrowed.address, borrowed.shape, borrowed.strides, borrowed.dtype)


def _by_interface(x: Any, interface: dict[str, Any]) -> DeviceArray:
    if interface.get("mask") is not None:
        raise ValueError(f"{type(x).__name__}: an array with a mask can't be taken")
    if address := interface["data"][0]:
        _same_device(x, _ordinal_of(x, address))
    if stream := interface.get("stream"):
        _let_wait(_stream(), stream)
    return _array(x, x, address, tuple(interface["shape"]), interface.get("strides"), np.dtype(interface["typestr"]))


def _array(x: Any, owner: Any, address: int, shape: Shape, strides: Shape | None, dtype: np.dtype[Any]) -> DeviceArray:
    """The owner's memory as an array."""
    size = supported(dtype).itemsize
    if not dtype.isnative:
        raise TypeError(f"{type(x).__name__}: elements of {dtype} are not in the byte order of the device")
    strides = row_major(shape, size) if strides is None else tuple(strides)
    if address % size or any(s % size for s in strides):
        raise ValueError(f"{type(x).__name__}: elements of {size} bytes at {address:#x} with strides {strides} are not aligned")
    return DeviceArray(owner, address, shape, strides, dtype, is_dense(shape, strides, size))


def _same_device(x: Any, ordinal: int) -> None:
    if ordinal != (ours := _ordinal()):
        raise DeviceError(f"{type(x).__name__} lies on CUDA device {ordinal}, but backend 'pycuda' works on {ours}: copy it there first")


@functools.cache
def _ordinal() -> int:
    """The number of our device."""
    d = device()
    return next(i for i in range(d.cuda.Device.count()) if d.cuda.Device(i) == d.device)


def _ordinal_of(x: Any, address: int) -> int:
    """The number of the device that memory belongs to."""
    ordinal = c_int()
    if _driver().cuPointerGetAttribute(byref(ordinal), _DEVICE_ORDINAL, c_uint64(address)):
        raise DeviceError(f"{type(x).__name__}: its address {address:#x} is not in memory of a CUDA device")
    return ordinal.value


# -- out
def to_dlpack(
    x: DeviceArray, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    """DLPack's capsule of x.  `stream` is a CUDA stream's handle, 1 or None for the default one, 2 for the thread's, -1 for no waiting.

    Who asks for version 1 is told that the memory must not be written to.  Raises BufferError for what isn't possible.
    """
    if dl_device is not None and tuple(dl_device) != dlpack_device(x):
        return _to_host_capsule(x, dl_device, max_version, copy)
    if stream == 0:
        raise ValueError("DLPack: stream 0 could be two different ones: use 1 for the default stream, 2 for that of the thread")
    if copy:
        from .transfer import copied

        x = copied(x)
    if stream != -1:
        _let_wait(stream or _LEGACY_STREAM, _stream())
    return dlpack.lend(x, _ordinal(), max_version, dlpack.COPIED if copy else dlpack.READ_ONLY)


def _to_host_capsule(x: DeviceArray, wanted: tuple[int, int], max_version: tuple[int, int] | None, copy: bool | None) -> Any:
    if wanted[0] != dlpack.CPU or copy is False:
        how = " without a copy" if copy is False else ""
        raise BufferError(f"DLPack: an array on device {dlpack_device(x)} can't be had on device {wanted}{how}")
    a = np.asarray(x)
    return a.__dlpack__() if max_version is None else a.__dlpack__(max_version=max_version)


def dlpack_device(x: DeviceArray) -> tuple[int, int]:
    return dlpack.CUDA, _ordinal()


def interface(x: DeviceArray) -> dict[str, Any]:
    """The CUDA array interface, version 3.  It has no name for bfloat16."""
    if x.dtype.kind == "V":
        raise AttributeError(f"__cuda_array_interface__ has no name for {x.dtype}: use DLPack")
    return {
        "shape": x.shape, "typestr": x.dtype.str, "data": (x.address if x.size else 0, False), "version": 3,
        "strides": None if x.dense else x.strides, "stream": _stream(),
    }  # fmt: skip


def to_gpuarray(k: Any, x: Any) -> Any:
    """x, an array or what lends one by DLPack as Tensors do, as a pycuda.gpuarray.GPUArray that shares its memory; PyCUDA works on the
    default stream."""
    from pycuda.gpuarray import GPUArray

    given, x = type(x).__name__, k.adopt(x)
    if x is None:
        raise TypeError(f"to_gpuarray takes an array on the device, not {given}")
    _let_wait(_LEGACY_STREAM, _stream())
    shared = {"base": x, "gpudata": x.address} if x.size else {}
    return GPUArray(x.shape, x.dtype, strides=x.strides, **shared)


# -- streams
def _stream() -> int:
    """The driver's handle of the stream that this thread works on."""
    stream = device().here.stream
    return _LEGACY_STREAM if stream is None else int(stream.handle)


def _let_wait(later: int, earlier: int) -> None:
    """Whatever comes to stream `later` waits for what is on `earlier`."""
    if later == earlier:
        return
    event, cuda = c_void_p(), _driver()
    steps: tuple[Callable[[], int], ...] = (
        lambda: cuda.cuEventCreate(byref(event), c_uint(_EVENT_WITHOUT_TIME)),
        lambda: cuda.cuEventRecord(event, c_void_p(earlier)),
        lambda: cuda.cuStreamWaitEvent(c_void_p(later), event, c_uint(0)),
        lambda: cuda.cuEventDestroy_v2(event),
    )
    for step in steps:
        if code := step():
            raise DeviceError(f"CUDA streams {later:#x} and {earlier:#x} can't be put in order: the driver's error {code}")


@functools.cache
def _library() -> Any:
    return ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")


def _driver() -> Any:
    """The driver, the context being current on this thread; PyCUDA knows streams of its own alone, and no attributes of addresses."""
    device().here.stream  # noqa: B018
    return _library()


# array.py knows of no other library: what these look for is given to it here
for _name, _value in {
    "__dlpack__": to_dlpack, "__dlpack_device__": dlpack_device, "__cuda_array_interface__": property(interface),
}.items():  # fmt: skip
    setattr(DeviceArray, _name, _value)

KERNELS: dict[str, Callable[..., Any]] = {"to_gpuarray": to_gpuarray}
