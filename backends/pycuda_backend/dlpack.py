"""DLPack: capsules that hand memory from one library to another, with what gives it back.

A capsule is called "dltensor" or "dltensor_versioned", and "used_..." once somebody took what it holds: then it is for that one to call
the deleter.  https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..kernels import Shape

CPU, CUDA, MANAGED = 1, 2, 13  # types of devices
READ_ONLY, COPIED = 1, 2  # flags
VERSION = (1, 0)
_BFLOAT = 4
_NAMES = {0: "int", 1: "uint", 2: "float", 5: "complex"}  # of dtypes, by their code


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
    name = b"dltensor"


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip
    name = b"dltensor_versioned"


def _python(name: str, result: Any) -> Any:
    """One of Python's own functions on a capsule and a name."""
    return ctypes.PYFUNCTYPE(result, ctypes.py_object, ctypes.c_char_p)((name, ctypes.pythonapi))


_is_valid = _python("PyCapsule_IsValid", ctypes.c_int)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int)


def lend(x: Any, device: int, max_version: tuple[int, int] | None, flags: int) -> Any:
    """A capsule with x's memory, which lives until it is given back.

    It is NumPy's, of an array that pretends to lie there: its deleter is machine code, which may be called at any time, also while an
    exception is on its way, when a function of Python could not run.
    """
    ghost = np.asarray(_Pretending(x))
    capsule = ghost.__dlpack__() if max_version is None or not _knows_versions() else ghost.__dlpack__(max_version=max_version)
    managed = _contents(capsule)
    managed.tensor.device_type, managed.tensor.device_id = CUDA, device
    if x.dtype.kind == "V":
        managed.tensor.code = _BFLOAT
    if isinstance(managed, _Versioned):
        managed.flags = flags
    return capsule


class _Pretending:
    """x's memory as that of an array of NumPy's, which nobody looks into."""

    def __init__(self, x: Any) -> None:
        self.x = x
        typestr = x.dtype.str if x.dtype.kind != "V" else "<u2"
        self.__array_interface__ = {"version": 3, "shape": x.shape, "strides": x.strides, "typestr": typestr, "data": (x.address, False)}


def _knows_versions() -> bool:
    return np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def _contents(capsule: Any) -> Any:
    """The structure in a capsule that nobody took."""
    for kind in (_Versioned, _Managed):
        if _is_valid(capsule, kind.name):
            return kind.from_address(_pointer(capsule, kind.name))
    raise ValueError(f"DLPack: {capsule!r} holds no array, or another library took it")


class Borrowed:
    """What a capsule of another library held, until this is dropped: `address`, `shape`, `strides` in bytes or None, `dtype`."""

    def __init__(self, capsule: Any) -> None:
        managed = _contents(capsule)
        if isinstance(managed, _Versioned) and managed.major > VERSION[0]:
            raise BufferError(f"DLPack: version {managed.major} is too new, for {VERSION[0]} is the last that is known")
        t: _Tensor = managed.tensor
        self.dtype = _dtype(t)
        self.address: int = (t.data or 0) + t.byte_offset
        self.shape: Shape = tuple(t.shape[: t.ndim])
        self.strides = tuple(s * self.dtype.itemsize for s in t.strides[: t.ndim]) if t.strides else None
        _rename(capsule, _USED[managed.name])
        self._managed = managed

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)  # there is none if nothing was taken
        if managed is not None and managed.deleter:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))


_USED = {kind.name: b"used_" + kind.name for kind in (_Managed, _Versioned)}  # a capsule does not copy its name


def _dtype(t: _Tensor) -> np.dtype[Any]:
    """The dtype of a tensor's elements.  Raises TypeError if NumPy has none."""
    if t.code == _BFLOAT and t.bits == 16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    try:
        return np.dtype("bool" if t.code == 6 else f"{_NAMES[t.code]}{t.bits}" if t.lanes == 1 else "")
    except (KeyError, TypeError):
        raise TypeError(f"DLPack: NumPy has no dtype for elements of code {t.code} with {t.bits} bits in {t.lanes} lanes") from None
