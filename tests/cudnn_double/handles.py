"""Handles, and the streams they work on."""

from ctypes import c_void_p

from .calls import Calls
from .refusal import require

CALLS = Calls()


@CALLS.answers
def cudnnCreate(double, place):
    require(place, "handle is null")
    c_void_p.from_address(place).value = double.new_handle()


@CALLS.answers
def cudnnDestroy(double, handle):
    del double.handles[handle.address]


@CALLS.answers
def cudnnSetStream(double, handle, stream):
    handle.stream = stream or 0


@CALLS.answers
def cudnnGetStream(double, handle, place):
    require(place, "streamId is null")
    c_void_p.from_address(place).value = handle.stream
