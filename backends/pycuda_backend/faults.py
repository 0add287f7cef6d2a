"""Indices that a kernel finds out of range.

Nobody waits for a kernel that looks elements up, so it can't raise: it leaves a note in memory of the host that the device sees, and takes
element 0 instead.  The IndexError comes before a value can be seen: at the next copy to the host, or at the next kernel that looks up.
"""

from __future__ import annotations

import atexit
import functools
from typing import Any

import numpy as np

from .driver import device


class _Note:
    """Page-locked memory of the host: an index, and the length of its axis, which is 0 while all is well."""

    def __init__(self) -> None:
        cuda = device().cuda
        self.words: Any = cuda.pagelocked_zeros(2, np.int64, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
        self.address: int = self.words.base.get_device_pointer()
        atexit.register(self.words.base.free)  # while there is a context


_note = functools.cache(_Note)


def address() -> int:
    """Where kernels leave the note.  Raises what they have left there."""
    tell()
    return _note().address


def tell() -> None:
    """Raise IndexError if a kernel that is done found an index out of range."""
    if _note.cache_info().currsize and (words := _note().words)[1]:
        index, extent = map(int, words)
        words[:] = 0
        raise IndexError(
            f"index {index} is out of bounds for an axis of size {extent}: it is in an array on the device, "
            "where one of the kernels before this one found it; their results are of no use"
        )
