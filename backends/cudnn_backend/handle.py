"""cuDNN's state: a handle for each thread, on that thread's stream."""

from __future__ import annotations

import atexit
import functools
import threading
import weakref

from ..pycuda_backend.driver import device
from . import binding
from .binding import library

_here = threading.local()
_handles: weakref.WeakSet[Handle] = weakref.WeakSet()


class Handle:
    """One thread's, with the stream that it was last given."""

    def __init__(self) -> None:
        self.value: int | None = None
        self._stream = 0
        self.value = binding.cudnnCreate()

    def on(self, stream: int) -> int | None:
        if stream != self._stream:
            binding.cudnnSetStream(self.value, stream)
            self._stream = stream
        return self.value

    def close(self) -> None:
        value, self.value = self.value, None
        if value is not None:
            binding.cudnnDestroy(value)

    def __del__(self) -> None:
        self.close()


def ready() -> int | None:
    """This thread's handle, on its stream."""
    stream = device().stream
    if (handle := _here.__dict__.get("handle")) is None:
        handle = _here.handle = Handle()
        _handles.add(handle)
        _close_at_exit()
    return handle.on(0 if stream is None else stream.handle)


def unavailable() -> str | None:
    """Why the libcudnn that was loaded can't be used with this driver, or None.  Only a handle tells; it is this thread's from now on."""
    import pycuda.driver as cuda

    built, driver = binding.cudnnGetCudartVersion(), cuda.get_driver_version()
    if built // 1000 > driver // 1000:
        return (
            f"libcudnn {library.dotted(binding.cudnnGetVersion())} is built for CUDA {built // 1000}, and the driver is of CUDA "
            f"{driver // 1000}: pip install nvidia-cudnn-cu{driver // 1000}, or a newer driver"
        )
    try:
        ready()
    except binding.cudnnError as e:
        return f"cuDNN does not start: {e}"
    return None


@functools.cache
def _close_at_exit() -> None:
    """Registered behind the context, and so run before that ends."""
    atexit.register(_close)


def _close() -> None:
    for handle in list(_handles):
        handle.close()
