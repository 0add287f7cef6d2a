"""Operands: what a descriptor and an address say of device memory, checked, and read and written as NumPy arrays.

The emulated device's memory is the host's, so an address is all that NumPy needs.  Arithmetic is done in float64 and rounded at the end.
"""

import ctypes
import functools

import numpy as np

from . import descriptors
from .refusal import Refused, require, unsupported

_NOT_READY = 600  # CUDA_ERROR_NOT_READY


@functools.cache
def driver():
    """The CUDA driver of this process."""
    return ctypes.CDLL("libcuda.so.1")


def wait(stream):
    """Until the stream has done what it was given so far, without counting as one of the host's waits."""
    event, cu = ctypes.c_void_p(), driver()
    status = cu.cuEventCreate(ctypes.byref(event), 0) or cu.cuEventRecord(event, ctypes.c_void_p(stream))
    while not status and (status := cu.cuEventQuery(event)) == _NOT_READY:
        status = 0
    cu.cuEventDestroy_v2(event)
    if status:
        raise Refused("EXECUTION_FAILED", f"the driver's error {status} on the handle's stream {stream:#x}")


def allocation(address):
    """The (start, size) of the device's allocation around an address, or None."""
    start, size = ctypes.c_uint64(), ctypes.c_size_t()
    found = driver().cuMemGetAddressRange_v2(ctypes.byref(start), ctypes.byref(size), ctypes.c_uint64(address)) == 0
    return (start.value, size.value) if found else None


def check_range(address, size, name, alignment=1):
    """So many bytes from an address on are device memory."""
    require(address, f"{name} is null")
    require(address % alignment == 0, f"{name} at {address:#x} is not at a multiple of {alignment} bytes")
    found = allocation(address)
    require(found, f"{name} at {address:#x} is no device memory, or was freed")
    over = address + size - sum(found)
    require(over <= 0, f"{name}: {size} bytes at {address:#x} run {over} bytes past the end of their allocation")


def factor(address, dtype, name):
    """alpha or beta: a double for tensors of doubles, else a float, in the host's memory."""
    require(address, f"{name} is null")
    require(allocation(address) is None, f"{name} is in the device's memory, not the host's")
    return (ctypes.c_double if dtype == np.float64 else ctypes.c_float).from_address(address).value


class Operand:
    """A tensor in device memory: `at` an address, as its descriptor `tensor` says."""

    def __init__(self, tensor, at, name, alignment=1):
        self.tensor, self.name, self.at = tensor, name, at
        self.size = _extent(tensor, name)
        check_range(at, self.size, name, max(alignment, tensor.dtype.itemsize))
        flat = np.frombuffer((ctypes.c_char * self.size).from_address(at), tensor.dtype)
        self.view = np.lib.stride_tricks.as_strided(flat, tensor.shape, [s * tensor.dtype.itemsize for s in tensor.strides])

    @property
    def shape(self):
        return self.tensor.shape

    @property
    def dtype(self):
        return self.tensor.dtype

    def read(self):
        return self.view.astype(np.float64)

    def write(self, value):
        self.view[...] = value

    def blend(self, value, alpha, beta):
        """alpha * value + beta * what is there; the factors by their addresses."""
        self.add(factor(alpha, self.dtype, "alpha") * value, beta)

    def add(self, value, beta):
        """value + beta * what is there, which is not read where beta is 0."""
        b = factor(beta, self.dtype, "beta")
        self.write(value + b * self.read() if b else value)


def output(tensor, at, name, *inputs, alignment=1, in_place=()):
    """An operand to be written, apart from the inputs; those of in_place may be the very same tensor."""
    out = Operand(tensor, at, name, alignment)
    require(not _overlaps_itself(tensor), f"{name} has elements that share memory: shape {tensor.shape}, strides {tensor.strides}")
    for x in (*inputs, *in_place):
        same = x in in_place and x.at == at and x.tensor.strides == tensor.strides and x.dtype == tensor.dtype
        require(same or at + out.size <= x.at or x.at + x.size <= at, f"{name} and {x.name} share memory")
    return out


def operand(descriptor, at, name):
    """What a descriptor called xDesc and an address called x say."""
    return Operand(descriptors.tensor(descriptor, f"{name.lower()}Desc"), at, name)


def result(descriptor, at, name, *inputs, in_place=()):
    return output(descriptors.tensor(descriptor, f"{name.lower()}Desc"), at, name, *inputs, in_place=in_place)


def space(at, given, needed, name, alignment=16):
    """A reserve space: as many bytes as were asked for, at least."""
    require(given >= needed, f"{name} has {given} bytes, and {needed} are needed")
    if needed:
        check_range(at, given, name, alignment)


def scratch(at, given, needed, name):
    """A workspace, which holds rubbish from now on."""
    space(at, given, needed, name)
    if needed:
        ctypes.memset(at, 0xFF, given)


def _extent(tensor, name):
    if min(tensor.strides) < 0:
        raise unsupported(f"{name} has negative strides {tensor.strides}")
    return (1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))) * tensor.dtype.itemsize


def _overlaps_itself(tensor):
    span = 1
    for step, n in sorted((s, n) for n, s in zip(tensor.shape, tensor.strides, strict=True) if n > 1):
        if step < span:
            return True
        span = step * (n - 1) + span
    return False
