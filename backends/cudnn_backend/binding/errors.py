"""cuDNN's statuses as exceptions, with the library's own words.

Versions 8 and 9 number them differently: 9 by kind, in thousands.
"""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = [
    "cudnnAllocFailed",
    "cudnnBadParam",
    "cudnnError",
    "cudnnExecutionFailed",
    "cudnnInternalError",
    "cudnnNotInitialized",
    "cudnnNotSupported",
]


class cudnnError(RuntimeError):
    """A call of cuDNN failed."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class cudnnNotInitialized(cudnnError):
    """cuDNN could not be set up, or a handle is none of its."""


class cudnnBadParam(cudnnError):
    """An argument is wrong."""


class cudnnNotSupported(cudnnError):
    """There is no code for these arguments."""


class cudnnInternalError(cudnnError):
    """Something failed within cuDNN."""


class cudnnAllocFailed(cudnnInternalError):
    """There was no memory for what cuDNN allocates itself."""


class cudnnExecutionFailed(cudnnError):
    """A kernel failed."""


_KINDS = {1: cudnnNotInitialized, 2: cudnnBadParam, 3: cudnnNotSupported, 4: cudnnInternalError, 5: cudnnExecutionFailed}  # of version 9
_ALLOC_FAILED = (2, 4003, 4004)
# of version 8: INVALID_VALUE is a parameter's, ARCH_MISMATCH, and RUNTIME_PREREQUISITE_MISSING are what is not supported
_OLD = {
    1: cudnnNotInitialized, 2: cudnnAllocFailed, 3: cudnnBadParam, 4: cudnnInternalError, 5: cudnnBadParam, 6: cudnnNotSupported,
    7: cudnnInternalError, 8: cudnnExecutionFailed, 9: cudnnNotSupported, 10: cudnnNotInitialized, 11: cudnnNotSupported,
    12: cudnnInternalError, 13: cudnnExecutionFailed, 14: cudnnNotInitialized,
}  # fmt: skip


def exception(dll: Any, status: int) -> cudnnError:
    """What a status other than 0 means."""
    name = dll.cudnnGetErrorString(status).decode()
    said = _last_words(dll)
    return kind(status)(status, f"{name}: {said}" if said else name)


def kind(status: int) -> type[cudnnError]:
    """The class of a status."""
    if status in _ALLOC_FAILED:
        return cudnnAllocFailed
    return _OLD.get(status, cudnnInternalError) if status < 1000 else _KINDS.get(status // 1000, cudnnInternalError)


def _last_words(dll: Any) -> str:
    """The text that version 9 keeps of the last error, in one line; "" in version 8."""
    try:
        function = dll.cudnnGetLastErrorString
    except AttributeError:
        return ""
    function.argtypes, function.restype = [ctypes.c_char_p, ctypes.c_size_t], None
    text = ctypes.create_string_buffer(512)
    function(text, len(text))
    return " ".join(text.value.decode(errors="replace").split())
