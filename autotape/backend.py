"""The registry of backends, and which one is current.

    backend.set("numpy")                    # the process-wide default; "auto" takes the fastest of ours that works
    with backend.use("numpy"): ...          # this thread or task, for a while
    backend.register("mine", "my_package.my_module:MyKernels")

A backend is a class whose instances are tables of the kernels in `autotape.backends.kernels`.  It is named by a class
or by "module:class" and imported at first use, so importing autotape imports no GPU library.  Its static method
`unavailable()` says in one line why it can't be used here, or gives None.  Entry points of the group
"autotape.backends" are asked for names that are not registered.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from . import blas, math_mode
from .backends.kernels import Kernels
from .context import using
from .errors import BackendError

_sources: dict[str, Any] = {
    "numpy": "autotape.backends.numpy_backend:NumpyKernels",
    "onednn": "autotape.backends.onednn_backend:OneDNNKernels",
    "pycuda": "autotape.backends.pycuda_backend:PycudaKernels",
    "cudnn": "autotape.backends.cudnn_backend:CudnnKernels",
}
_loaded: dict[str, Kernels] = {}
_listeners: list[Callable[[], None]] = []
_lock = threading.RLock()
_override: ContextVar[Kernels | None] = ContextVar("backend", default=None)
FASTEST_FIRST = ("onednn", "numpy")  # what "auto" tries, in this order


def kernels() -> Kernels:
    """The kernels of the current backend."""
    return _override.get() or _default


def get() -> str:
    """The name of the current backend."""
    name: str = kernels().name
    return name


def set(name: str) -> None:
    """Make `name` the process-wide default.  Raises BackendError if it is unknown or can't be used."""
    global _default
    table = load(name)
    with _lock:
        blas.change(_default.has_threads, table.has_threads)
        _default = table


def use(name: str) -> using:
    """A context manager: `name` in this thread or task.  New threads see the default; asyncio tasks inherit."""
    return use_kernels(load(name))


def use_kernels(table: Kernels) -> using:
    """`use` by the table of kernels itself."""
    return (blas.held if table.has_threads else using)((_override, table))


def names() -> list[str]:
    """Every known backend, usable or not."""
    return [*_sources, *(e.name for e in _entry_points() if e.name not in _sources)]


def available() -> dict[str, str | None]:
    """Each known backend with the reason why it can't be used here, or None."""
    return {name: _why_not(name) for name in names()}


def register(name: str, source: type | str) -> None:
    """Add a backend: a class, or "module:class" to be imported at first use.  A name can be registered once more with the same source."""
    if not isinstance(name, str) or not name or name == "auto":
        raise ValueError(f"a backend can't be called {name!r}")
    if not isinstance(source, type) and (not isinstance(source, str) or ":" not in source):
        raise TypeError(f'backend {name!r}: register a class or "module:class", not {source!r}')
    with _lock:
        if _sources.get(name, source) != source:
            raise ValueError(f"backend {name!r} is registered already, as {_sources[name]!r}")
        _sources[name] = source


def load(name: str) -> Kernels:
    """The one table of kernels of the backend called `name` ("auto": the fastest that works)."""
    if name == "auto":
        name = next(n for n in FASTEST_FIRST if _why_not(n) is None)
    if (table := _loaded.get(name)) is not None:
        return table
    with _lock:
        if name not in _loaded:
            if (why := _why_not(name)) is not None:
                raise BackendError(f"backend {name!r} can't be used here: {why}")
            table = _class(name)()
            table.math_mode = math_mode.get
            _loaded[name] = _complete(table)
            if table.compiles:
                _announce()
        return _loaded[name]


def loaded() -> list[Kernels]:
    """The tables of the backends that were used so far."""
    return list(_loaded.values())


def when_compiling(call: Callable[[], None]) -> None:
    """Call this once, when the first backend is loaded that compiles elementwise rules."""
    _listeners.append(call)


def _announce() -> None:
    while _listeners:
        _listeners.pop()()


def _why_not(name: str) -> str | None:
    if name in _loaded:
        return None
    try:
        reason: str | None = _class(name).unavailable()
    except BackendError:
        raise
    except ImportError as e:
        return f"{e} (is the package that provides it installed?)"
    except Exception as e:  # whatever a library does when it is loaded: other backends are not to suffer
        return f"{type(e).__name__}: {e}"
    return reason


def _complete(table: Kernels) -> Kernels:
    """The table, if it has all that the contract names."""
    names = [*Kernels.__annotations__, *(n for n in vars(Kernels) if not n.startswith("_"))]
    if missing := [n for n in names if not hasattr(table, n)]:
        raise BackendError(f"{type(table).__name__} is no complete backend: it lacks {', '.join(missing)} (see autotape.backends.kernels)")
    return table


def _class(name: str) -> Any:
    source = _sources.get(name)
    if source is None:
        source = next((e.value for e in _entry_points() if e.name == name), None)
    if source is None:
        raise BackendError(f"backend {name!r} is unknown: known are {', '.join(map(repr, names()))} and 'auto'")
    if isinstance(source, type):
        return source
    module, _, attribute = source.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _entry_points() -> Any:
    from importlib.metadata import entry_points  # 50 ms: only when a name is not ours

    return entry_points(group="autotape.backends")


_default: Kernels = load("numpy")
