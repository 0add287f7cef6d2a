"""Settings that hold for a while: one context manager over ContextVars."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_entered: ContextVar[tuple[tuple[using, list[Any]], ...]] = ContextVar("entered", default=())  # with what was in force before each


class using:
    """`with using((var, value), ...):` sets ContextVars and sets them back; also a decorator.

    Contexts must be left in the reverse of the order they were entered in.  A generator suspended inside a `with` can
    break that, since its setting leaks into whoever runs it.  Leaving an outer context then restores what was in force
    before it and raises RuntimeError; leaving one that was so passed over changes nothing.
    """

    __slots__ = ("_settings",)

    def __init__(self, *settings: tuple[ContextVar[Any], Any]) -> None:
        self._settings = settings

    def __enter__(self) -> Any:
        stack = _entered.get()
        for context, _ in stack:
            if context is self:
                raise RuntimeError("this context is entered already; make a new one for each `with`")
        before = []
        for var, value in self._settings:
            before.append(var.get())
            var.set(value)
        _entered.set((*stack, (self, before)))
        return self._settings[0][1] if self._settings else None

    def __exit__(self, kind: Any, *_: Any) -> None:
        stack = _entered.get()
        if stack and stack[-1][0] is self:
            self._leave(stack[-1][1])
            _entered.set(stack[:-1])
            return
        position = next((i for i in reversed(range(len(stack))) if stack[i][0] is self), len(stack))
        for context, before in reversed(stack[position:]):
            context._leave(before)
        _entered.set(stack[:position])
        if position == len(stack):
            self._let_go()
        if kind is None:
            raise self._disorder()

    def _leave(self, before: list[Any]) -> None:
        for (var, _), value in zip(self._settings, before, strict=True):
            var.set(value)

    def _let_go(self) -> None:
        """Give back what is the process's, if `_leave` has not: this was entered in a context that is gone, as a generator's may be."""

    def _disorder(self) -> Exception:
        return RuntimeError("contexts were left in another order than entered (a generator suspended inside a `with`?)")

    def _another(self) -> using:
        """One like this, to enter."""
        return using(*self._settings)

    def __call__(self, f: F) -> F:
        """As a decorator: every call of f runs under the settings.  Raises TypeError for a generator or async function."""
        if inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f):
            raise TypeError(f"{f.__name__} runs on after its call has returned: use `with` inside it instead of the decorator")

        @functools.wraps(f)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._another():
                return f(*args, **kwargs)

        return run  # type: ignore[return-value]
