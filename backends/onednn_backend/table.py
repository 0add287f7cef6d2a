"""The table of kernels: those of the numpy backend, and over them oneDNN's."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ..kernels import Array
from ..numpy_backend import NumpyKernels

# files with kernels of their own in KERNELS
_FILES = ("elementwise", "convolution", "pooling", "normalisation", "products", "reductions", "recurrent")


class OneDNNKernels(NumpyKernels):
    """NumPy's kernels, and oneDNN's for arrays of float32.  A kernel of this backend takes the table first."""

    name = "onednn"
    has_threads = True

    def __init__(self) -> None:
        super().__init__()
        from . import primitives  # which loads the library

        self._primitives = primitives
        self._plain = dict(vars(self))
        self._said = threading.local()
        for file in _FILES:
            for name, kernel in importlib.import_module(f".{file}", __package__).KERNELS.items():
                setattr(self, name, functools.partial(kernel, self))

    @staticmethod
    def unavailable() -> str | None:
        """Why this backend can't be used here, or None."""
        try:
            importlib.import_module(".primitives", __package__)  # which loads the library, and asks it for what is called
        except (OSError, AttributeError, RuntimeError) as e:
            return str(e)
        return None

    def account(self) -> tuple[str, str]:
        """What the last kernel since this was asked before ran on, in this thread, and why it was left to NumPy ("" if it was not)."""
        account: tuple[str, str] = self._said.__dict__.pop("account", ("numpy", ""))
        return account

    def say(self, algorithm: str, why: str = "") -> None:
        """For `account`."""
        self._said.account = (algorithm, why)

    def leave(self, name: str, why: str, *args: Any) -> Any:
        """NumPy's kernel does it, for this reason."""
        result = self._plain[name](*args)
        self.say("numpy", why)
        return result

    def run(
        self, make: Callable[..., Any], key: tuple[Any, ...], arrays: tuple[Array, ...], own_layout: bool | None = None, sums: bool = False
    ) -> None:
        """Run the primitive make(*key) on these arrays, the results among them.  Raises Unsupported where oneDNN has no fast code.

        own_layout: whether oneDNN's own layout beats channels_last here, which the fast mode finds out itself; it ends the key.
        None where there is no such choice.  sums: the order of the sum depends on the number of threads, which is one in pedantic mode.
        """
        mode, p = self.math_mode(), self._primitives
        with p.one_thread() if sums and mode == "pedantic" else nullcontext():
            if own_layout is not None:
                key = (*key, p.faster(make, key, arrays) if mode == "fast" else own_layout)
            primitive = p.ready(make, *key)
            primitive(*arrays)
        self.say(primitive.name)
