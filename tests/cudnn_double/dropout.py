"""Dropout: which elements are kept is drawn from the states in device memory, which every forward pass moves on."""

import ctypes

import numpy as np

from . import descriptors
from .calls import Calls
from .memory import Operand, check_range, output, space
from .pointwise import check_alike
from .real import real
from .refusal import require

CALLS = Calls()
_STATES = 1 << 16  # bytes; how many it is depends on the device


@CALLS.answers
def cudnnDropoutGetStatesSize(double, handle, place):
    ctypes.c_size_t.from_address(place).value = _STATES


@CALLS.computes
def _set(double, handle, dropoutDesc, dropout, states, size, seed):
    require(0 <= dropout <= 1, f"dropout is {dropout}, no probability")
    if states:
        space(states, size, _STATES, "states")
        _generator(states)[:] = seed % 2**63, 0
    dropoutDesc.notes.update(rate=dropout, states=states)


@CALLS.answers
def cudnnSetDropoutDescriptor(double, dropoutDesc, handle, *args):
    require(dropoutDesc, "dropoutDesc is null")
    CALLS["_set"](double, handle, dropoutDesc, *args)


def _generator(states):
    """The seed, and how many masks it gave."""
    return np.frombuffer((ctypes.c_char * 16).from_address(states), np.int64)


def _mask(states, n):
    check_range(states, _STATES, "states of dropoutDesc")
    generator = _generator(states)
    generator[1] += 1
    return np.random.default_rng(generator.tolist()).random(n)


def _operands(xdesc, x, ydesc, y, names):
    x = Operand(descriptors.tensor(xdesc, f"{names[0]}desc"), x, names[0])
    y = output(descriptors.tensor(ydesc, f"{names[1]}desc"), y, names[1], in_place=(x,))
    check_alike(x, y)
    return x, y


def _rate(descriptor):
    require(descriptor and descriptor.notes, "dropoutDesc was never set")
    return descriptor.notes["rate"]


def _reserve(desc, at, size):
    """The mask, a bit for each element."""
    (need,) = real().ask("cudnnDropoutGetReserveSpaceSize", desc.address, ctypes.c_size_t)
    space(at, size, need, "reserveSpace", 1)
    return np.frombuffer((ctypes.c_char * need).from_address(at), np.uint8)


def _scaled(x, keeps, rate):
    return np.where(keeps, x / (1 - rate), 0) if rate < 1 else np.zeros_like(x)


@CALLS.computes
def cudnnDropoutForward(double, handle, dropoutDesc, xdesc, x, ydesc, y, reserveSpace, size):
    (x, y), rate = _operands(xdesc, x, ydesc, y, "xy"), _rate(dropoutDesc)
    bits = _reserve(xdesc, reserveSpace, size)
    require(dropoutDesc.notes["states"], "dropoutDesc was set without states")
    keeps = _mask(dropoutDesc.notes["states"], x.shape) >= rate
    packed = np.packbits(keeps)
    bits[: len(packed)] = packed
    y.write(_scaled(x.read(), keeps, rate))


@CALLS.computes
def cudnnDropoutBackward(double, handle, dropoutDesc, dydesc, dy, dxdesc, dx, reserveSpace, size):
    (dy, dx), rate = _operands(dydesc, dy, dxdesc, dx, ("dy", "dx")), _rate(dropoutDesc)
    keeps = np.unpackbits(_reserve(dydesc, reserveSpace, size), count=dy.view.size).reshape(dy.shape)
    dx.write(_scaled(dy.read(), keeps, rate))
