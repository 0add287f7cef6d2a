"""The math mode: how far a result may differ from the plain operators for the sake of speed.

    math_mode.set("fast")                   # the process-wide default
    with math_mode.use("pedantic"): ...     # this thread or task, for a while

"pedantic": no fusion, no reduced precision, deterministic algorithms: the bits of the unfused operators, run after run.
"default": fusion, and any algorithm that keeps the inputs' precision.
"fast": also reduced precision inside an operator and timed algorithm choice.
"""

from __future__ import annotations

from contextvars import ContextVar

from .context import using

MODES = ("pedantic", "default", "fast")

_override: ContextVar[str | None] = ContextVar("math_mode", default=None)
_default = "default"


def get() -> str:
    """The mode in force here."""
    return _override.get() or _default


def set(name: str) -> None:
    """Make `name` the process-wide default.  Raises ValueError for an unknown mode."""
    global _default
    _default = _check(name)


def use(name: str) -> using:
    """A context manager: `name` in this thread or task.  New threads see the default; asyncio tasks inherit."""
    return using((_override, _check(name)))


def _check(name: str) -> str:
    if name not in MODES:
        raise ValueError(f"math mode {name!r} is unknown: use one of {', '.join(map(repr, MODES))}")
    return name
