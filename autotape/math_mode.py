"""The math mode: how far a result may differ from the plain operators for the sake of speed.

    math_mode.set("fast")                   # the process-wide default
    with math_mode.use("pedantic"): ...     # this thread or task, for a while

"pedantic": no fusion, deterministic algorithms: the bits of the unfused operators, run after run.
"default": fusion, and any algorithm that keeps the inputs' precision.
"fast": also layouts chosen by a stopwatch.

The environment variable AUTOTAPE_MATH_MODE gives the default with which a process starts.  docs/math-modes.md says how far results may
differ.  In pedantic mode BLAS is held to one thread, on which its sums depend (needs threadpoolctl).
"""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar

from . import blas
from .context import using

MODES = ("pedantic", "default", "fast")

VARIABLE = "AUTOTAPE_MATH_MODE"

_override: ContextVar[str | None] = ContextVar("math_mode", default=None)
_default = "default"
_lock = threading.Lock()


def get() -> str:
    """The mode in force here."""
    return _override.get() or _default


def set(name: str) -> None:
    """Make `name` the process-wide default.  Raises ValueError for an unknown mode."""
    global _default
    _check(name)
    with _lock:
        blas.change(_default == "pedantic", name == "pedantic")
        _default = name


def use(name: str) -> using:
    """A context manager: `name` in this thread or task.  New threads see the default; asyncio tasks inherit."""
    return (blas.held if _check(name) == "pedantic" else using)((_override, name))


def _check(name: str) -> str:
    if name not in MODES:
        raise ValueError(f"math mode {name!r} is unknown: use one of {', '.join(map(repr, MODES))}")
    return name


if VARIABLE in os.environ:
    try:
        set(os.environ[VARIABLE])
    except ValueError as e:
        raise ValueError(f"{VARIABLE}: {e}") from None
