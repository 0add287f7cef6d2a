"""The errors of the engine.  What a kernel raises (ValueError, TypeError, IndexError) keeps its type and gains the operator's name."""

from __future__ import annotations


class OperatorError(TypeError):
    """A wrong declaration of an operator, or an operator called with what it can't take."""


class BackendError(OperatorError):
    """An unknown or unavailable backend, or an array that belongs to another one."""


class TapeError(RuntimeError):
    """A tape used up, left in the wrong order, or met from another thread or task."""
