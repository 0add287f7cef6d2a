"""The errors of the engine.  What a kernel raises (ValueError, TypeError, IndexError) keeps its type and gains the operator's name.

And its warnings, which speak of the line that called NumPy or autotape.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from numpy.exceptions import AxisError
from numpy.linalg import LinAlgError


class OperatorError(TypeError):
    """A wrong declaration of an operator, or an operator called with what it can't take."""


class BackendError(OperatorError):
    """An unknown or unavailable backend, or an array that belongs to another one."""


class FileFormatError(ValueError):
    """A file that at.load can't take: damaged, no safetensors file, of a later version, or with what this program doesn't know."""


class TapeError(RuntimeError):
    """A tape used up, left in the wrong order, or met from another thread or task."""


_KINDS = (
    OperatorError, LinAlgError, AxisError, ValueError, TypeError,
    IndexError, FloatingPointError, ZeroDivisionError, OverflowError, MemoryError,
)


def annotated(e: Exception, where: str) -> Exception:
    """An exception of the same kind that says where it came from.

    Python's other exceptions, such as AttributeError, become an OperatorError; those of other packages stay as they are.
    """
    if isinstance(e, (BackendError, TapeError)) or str(e).startswith(where.partition("(")[0]):
        return e
    kind = next((t for t in type(e).__mro__ if t in _KINDS), OperatorError)
    return e if type(e).__module__ != "builtins" and kind not in type(e).__mro__ else kind(f"{where}: {e}")


def warn(message: str, category: type[Warning]) -> None:
    """Warn of the user's line that led here, whatever of autotape and NumPy lies between."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("autotape", "numpy"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
