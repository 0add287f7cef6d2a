"""The device: PyCUDA, imported when it is first needed, the context that other libraries share, the stream, and what its errors mean."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

OLDEST_DRIVER = 12000  # CUDA 12.0
OLDEST_CAPABILITY = (7, 5)  # the oldest that today's compilers make code for

# words of the driver's errors after which every call of this process fails, too
_STICKY = ("illegal address", "illegal memory", "misaligned", "launch failed", "launch failure", "illegal instruction", "assert", "ecc")


class DeviceError(RuntimeError):
    """The device, its driver or its context can't do what was asked."""


class OutOfMemory(DeviceError, MemoryError):
    """The device has no such amount of memory left, also after what the pool held was freed."""


def unavailable() -> str | None:
    """Why no device can be used here, or None."""
    try:
        import pycuda.driver as cuda
    except ImportError as e:
        if "libcuda" in str(e):
            return f"there is no CUDA driver: {e} (it comes with NVIDIA's driver for the graphics card)"
        return f"PyCUDA is missing: {e} (pip install pycuda, or autotape's extra 'pycuda')"
    try:
        cuda.init()
        if not cuda.Device.count():
            return "the CUDA driver finds no device"
        version, device = cuda.get_driver_version(), cuda.Device(_wanted())
    except cuda.Error as e:
        return f"the CUDA driver finds no device it can use: {e}"
    if version < OLDEST_DRIVER:
        return f"the CUDA driver is too old: it is of CUDA {_dotted(version)}, and {_dotted(OLDEST_DRIVER)} or newer is needed"
    if (capability := device.compute_capability()) < OLDEST_CAPABILITY:
        least = ".".join(map(str, OLDEST_CAPABILITY))
        return f"{device.name()} has compute capability {'.'.join(map(str, capability))}, and {least} or newer is needed"
    return None


def _wanted() -> int:
    """The ordinal of the device: CUDA_DEVICE, as for all users of PyCUDA, or the first of those that CUDA_VISIBLE_DEVICES shows."""
    import os

    return int(os.environ.get("CUDA_DEVICE", "0"))


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


class Device:
    """The one device of this process, its primary context (that of torch and cupy, too) and what this thread works on."""

    def __init__(self) -> None:
        import pycuda.autoprimaryctx  # the context, on this thread; it ends at exit, after what is registered below
        import pycuda.driver as cuda

        self.cuda = cuda
        self.context = pycuda.autoprimaryctx.context
        self.device = pycuda.autoprimaryctx.device
        self.name: str = self.device.name()
        self.arch = "sm_{}{}".format(*self.device.compute_capability())
        self.processors: int = self.device.multiprocessor_count
        self.lost = ""
        self.here = _Here(self.context, threading.get_ident())

    @property
    def stream(self) -> Any:
        """The stream of this thread's work: None is the one that all libraries share by default."""
        return self.here.stream

    def explain(self, e: Exception, doing: str) -> Exception:
        """What an exception of the driver means."""
        if self.lost:
            return DeviceError(f"{doing}: {self.lost}")
        if any(word in str(e).lower() for word in _STICKY):
            self.lost = f"the CUDA context is lost after an error ({e}); this process can't use the device again, so start a new one"
            return DeviceError(f"{doing}: {self.lost}")
        return DeviceError(f"{doing}: {e}")

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""
        try:
            self.cuda.Context.synchronize()
        except self.cuda.Error as e:
            raise self.explain(e, "synchronize") from e


class _Here(threading.local):
    """What belongs to one thread.  Its first look at it makes the context current there, until the thread ends."""

    def __init__(self, context: Any, made_in: int) -> None:
        self.stream: Any = None
        if threading.get_ident() != made_in:
            self._current = _Current(context)


class _Current:
    """The context on a thread's stack.  PyCUDA aborts the process if a thread ends with one there."""

    def __init__(self, context: Any) -> None:
        context.push()
        self._pop = context.pop

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # threads that are still there then have no context left
            self._pop()


class on_stream:
    """A context in which this thread's work goes to a pycuda.driver.Stream: after the work before it, and before the work behind."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> Any:
        here = device().here
        self._before = here.stream
        wait(self.stream, self._before)
        here.stream = self.stream
        return self.stream

    def __exit__(self, *_: Any) -> None:
        here = device().here
        here.stream = self._before
        wait(self._before, self.stream)


def wait(later: Any, earlier: Any) -> None:
    """Whatever comes to stream `later` waits for what is on `earlier`."""
    cuda = device().cuda
    event = cuda.Event(cuda.event_flags.DISABLE_TIMING).record(earlier)
    if later is None:
        event.synchronize()  # PyCUDA has no stream object for the default stream, on which an event could be waited for
    else:
        later.wait_for_event(event)


@functools.cache
def device() -> Device:
    """The device, made at its first use."""
    return Device()
