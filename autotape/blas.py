"""NumPy's BLAS, and SciPy's, held to one thread while somebody asks for that.

The order in which BLAS adds up depends on its threads, so the pedantic mode holds it, and its threads fight with those of a backend that
brings its own.  The number is the process's: what one thread holds, all have.  Without threadpoolctl BLAS is left alone.
"""

from __future__ import annotations

import functools
import sys
import threading
from contextvars import ContextVar
from typing import Any

from .context import using

_SCIPY = frozenset({"scipy.special", "scipy.linalg"})  # modules that bring a BLAS of their own
_lock = threading.Lock()
_held = 0
_limit: Any = None


def hold() -> None:
    """One more asks for it."""
    global _held, _limit
    with _lock:
        if not _held and (libraries := _libraries(not _SCIPY.isdisjoint(sys.modules))) is not None:
            _limit = libraries.limit(limits=1)
        _held += 1


def release() -> None:
    """One fewer; the last gives BLAS back the threads it had."""
    global _held, _limit
    with _lock:
        _held -= 1
        if not _held and _limit is not None:
            _limit.restore_original_limits()
            _limit = None


def change(before: bool, after: bool) -> None:
    """A setting that asks for it, or doesn't, takes another's place."""
    if after and not before:
        hold()
    if before and not after:
        release()


class held(using):
    """`using` that asks for it while its settings are in force; `with held():` without any."""

    __slots__ = ("_holds",)

    def __init__(self, *settings: tuple[ContextVar[Any], Any]) -> None:
        super().__init__(*settings)
        self._holds = 0  # several threads may enter it

    def __enter__(self) -> Any:
        value = super().__enter__()
        try:
            hold()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        self._holds += 1
        return value

    def _leave(self, before: list[Any]) -> None:
        super()._leave(before)
        self._let_go()

    def _let_go(self) -> None:
        if self._holds:
            self._holds -= 1
            release()

    def _another(self) -> using:
        return held(*self._settings)


@functools.cache
def _libraries(with_scipy: bool) -> Any:
    """Those of this process, NumPy's among them, or None; looking for them takes milliseconds, so it is done again for SciPy's alone."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
