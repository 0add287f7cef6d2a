"""Device memory: one pool, whose stretches are used again in the order of the stream.

A stretch that was given back may be handed out while the device still works with it: what comes next on the same stream waits for that
work anyway.  So nothing here waits for the device, but for freeing what is held.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import threading
from typing import Any

from .driver import Device, OutOfMemory, device, wait

_LEAST = 512  # bytes
# every array gets memory of its own, of just its size, so that tools which watch memory see each step over an array's end
EXACT = os.environ.get("AUTOTAPE_CUDA_POOL") == "none"


class Stretch:
    """Memory that the driver gave, until it goes back there; it belongs to a stream."""

    __slots__ = ("address", "raw", "size", "stream")

    def __init__(self, raw: Any, size: int, stream: Any) -> None:
        self.raw, self.size, self.stream, self.address = raw, size, stream, int(raw)


class Block:
    """Who has a stretch: arrays and their views share one; when the last is dropped the pool has the stretch back."""

    __slots__ = ("_pool", "address", "stretch")

    def __init__(self, pool: Pool, stretch: Stretch) -> None:
        self._pool, self.stretch, self.address = pool, stretch, stretch.address

    def __del__(self) -> None:
        self._pool.give_back(self.stretch)


class Pool:
    """All memory of the device that autotape has."""

    def __init__(self, device: Device) -> None:
        self._device, self._here = device, device.here
        self._free: dict[tuple[Any, int], list[Stretch]] = {}  # by stream and size
        self._all: dict[int, Stretch] = {}  # by address
        self._lock = threading.RLock()  # giving back may happen inside taking, when garbage is collected there
        self._is_closed = False
        self._limit: int | None = None
        self._reserved = self._in_use = self._peak = self._taken = self._allocated = 0

    @property
    def limit(self) -> int | None:
        """Bytes that autotape may have, those in use and those held; None for all there are."""
        return self._limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        if limit is not None and (type(limit) is not int or limit < 0):
            raise ValueError(f"the limit of device memory is a number of bytes or None, not {limit!r}")
        self._limit = limit

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes.  Raises OutOfMemory."""
        stream = self._here.stream
        size = _LEAST if size <= _LEAST and not EXACT else rounded(size)
        with self._lock:
            self._taken += 1
            free = self._free.get((stream, size))
            stretch = free.pop() if free else self._allocate(size, stream)
            self._in_use += size
            if self._in_use > self._peak:
                self._peak = self._in_use
        return Block(self, stretch)

    def give_back(self, stretch: Stretch) -> None:
        """A dropped block's stretch waits for the next of its size."""
        if self._is_closed:
            return
        if stretch.stream is not (here := self._here.stream):
            wait(stretch.stream, here)  # it was last used on another stream than its own: what comes on its own waits for that
        with self._lock:
            self._in_use -= stretch.size
            if EXACT:
                self._return([stretch])
            elif (free := self._free.get((stretch.stream, stretch.size))) is not None:
                free.append(stretch)
            else:
                self._free[stretch.stream, stretch.size] = [stretch]

    def release(self) -> None:
        """Free all that is held and not in use.  Waits for the device."""
        with self._lock:
            free, self._free = self._free, {}
            self._return([stretch for stretches in free.values() for stretch in stretches])

    def close(self) -> None:
        """At exit, before the context ends: everything is freed, also that of arrays that are still alive."""
        with self._lock:
            self._is_closed, self._free = True, {}
            self._return(list(self._all.values()))

    def statistics(self) -> dict[str, int]:
        """Bytes in use, held for reuse, and at most in use so far; how many blocks were taken, and how many of them the driver gave."""
        return {
            "in_use": self._in_use,
            "held": self._reserved - self._in_use,
            "peak": self._peak,
            "taken": self._taken,
            "allocated": self._allocated,
        }

    def _return(self, stretches: list[Stretch]) -> None:
        for stretch in stretches:
            self._reserved -= stretch.size
            del self._all[stretch.address]
            stretch.raw.free()

    def _allocate(self, size: int, stream: Any) -> Stretch:
        """Memory from the driver; if it has none, what is held goes back to it first."""
        for again in (False, True):
            if self._limit is None or self._reserved + size <= self._limit:
                try:
                    stretch = Stretch(self._device.cuda.mem_alloc(size), size, stream)
                except self._device.cuda.MemoryError:
                    pass
                except self._device.cuda.Error as e:
                    raise self._device.explain(e, f"allocating {_readable(size)}") from e
                else:
                    self._allocated += 1
                    self._reserved += size
                    self._all[stretch.address] = stretch
                    return stretch
            if not again:
                gc.collect()  # arrays that only a cycle keeps alive
                self.release()
        raise self._exhausted(size)

    def _exhausted(self, size: int) -> OutOfMemory:
        free, total = self._device.cuda.mem_get_info()
        why = "the device is out of memory" if self._limit is None else f"the limit of {_readable(self._limit)} of device memory is reached"
        return OutOfMemory(
            f"{why}: {_readable(size)} were asked for, autotape's arrays have {_readable(self._in_use)}, and {_readable(free)} of "
            f"{_readable(total)} are free on the device; use smaller batches or at.checkpoint, or drop arrays"
        )


@functools.cache
def pool() -> Pool:
    """The one pool, made at its first use."""
    found = Pool(device())
    atexit.register(found.close)  # which runs before what PyCUDA registered: the context is still there
    return found


def rounded(size: int) -> int:
    """Sizes that differ by less than an eighth share stretches."""
    if EXACT:
        return max(size, 1)
    step = 1 << ((size - 1).bit_length() - 4)
    return -(-size // step) * step


def _readable(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"
