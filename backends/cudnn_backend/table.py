"""The table of kernels: those of the pycuda backend, and over them cuDNN's.

A kernel of this backend takes the table first.  One that raises Unsupported, or meets cuDNN's "not supported", is left to the raw kernel.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ..pycuda_backend import PycudaKernels
from ..pycuda_backend.driver import DeviceError, device

# files with kernels of their own in KERNELS
_FILES = ("convolution", "pooling", "softmaxes", "normalisation", "recurrent")


class CudnnKernels(PycudaKernels):
    """The raw kernels, and cuDNN's.  `workspace_limit` is how many bytes a convolution's algorithm may ask for."""

    name = "cudnn"
    workspace_limit = 2**30

    def __init__(self) -> None:
        super().__init__()
        from . import binding, descriptors

        self._left = (descriptors.Unsupported, binding.cudnnNotSupported)
        self._broken, self._wrong = (binding.cudnnExecutionFailed, binding.cudnnInternalError), binding.cudnnError
        self._raw = dict(vars(self))
        for file in _FILES:
            for name, kernel in importlib.import_module(f".{file}", __package__).KERNELS.items():
                setattr(self, name, functools.partial(self._run, name, kernel))

    @staticmethod
    def unavailable() -> str | None:
        """Why this backend can't be used here, or None."""
        if (why := PycudaKernels.unavailable()) is not None:
            return why
        try:
            from . import handle  # which loads the library, and asks it for what is called
        except OSError as e:
            return str(e)
        except AttributeError as e:
            return f"libcudnn lacks what is called: {e}"
        return handle.unavailable()

    def _run(self, name: str, kernel: Callable[..., Any], *args: Any) -> Any:
        try:
            return kernel(self, *args)
        except self._left as e:
            return self.leave(name, str(e), *args)
        except self._broken as e:
            raise device().explain(RuntimeError(f"{type(e).__name__}: {e}"), f"{name} by cuDNN") from e
        except self._wrong as e:
            raise DeviceError(f"{name} by cuDNN: {type(e).__name__}: {e}") from e

    def leave(self, name: str, why: str, *args: Any) -> Any:
        """The raw kernel does it, for this reason."""
        self.account()
        result = self._raw[name](*args)
        self.say(self.account()[0], why)
        return result
