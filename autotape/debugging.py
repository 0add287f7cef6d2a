"""debug: where the first NaN or infinity came from, and which saved array was overwritten.

    with at.debug():
        at.grad(loss)(params)          # FloatingPointError: log made the first infinity at model.py:12 ...

Inside, every operator's result is looked at, forward and backward, and tapes note the line of each call and a checksum
of what it saved.  That is slow; outside it costs nothing, since operators and tapes are other ones then.
"""

from __future__ import annotations

import functools
import sys
import threading
import zlib
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from .batching import Batched
from .context import using
from .errors import TapeError
from .operator import OPERATORS
from .tape import Record, inputs_of, operator_of, record_kind
from .tensor import Tensor, backend_of

_debugging: ContextVar[debug | None] = ContextVar("debugging", default=None)
_contexts = 0  # that are entered, in all threads
_lock = threading.Lock()


class debug(using):
    """`with debug():` what makes the first NaN or infinity raises FloatingPointError, which names the operator and your line.

    An operator *makes* one if its inputs have none: a mask of -inf is not a fault, -inf - -inf is.  In backward the line is
    that of the operator's call.  A saved array that was changed in place before backward needed it raises TapeError, if the
    tape was opened inside.
    """

    __slots__ = ("inside_rule",)

    def __init__(self) -> None:
        super().__init__((_debugging, self), (record_kind, DebugRecord))
        self.inside_rule = False

    def __enter__(self) -> Any:
        _watch(+1)
        return super().__enter__()

    def _leave(self, before: list[Any]) -> None:
        super()._leave(before)
        _watch(-1)

    def __call__(self, f: Any) -> Any:
        """As a decorator."""

        @functools.wraps(f)
        def run(*args: Any, **kwargs: Any) -> Any:
            with debug():
                return f(*args, **kwargs)

        return run


def _watch(change: int) -> None:
    """The first context to be entered puts a look at the result behind every operator; the last to be left takes it away."""
    global _contexts
    with _lock:
        before, _contexts = _contexts, _contexts + change
        if bool(before) != bool(_contexts):
            op: Any
            for op in OPERATORS.values():
                op.forward = _looked_at(op.forward) if _contexts else op.forward.__wrapped__
                op.namespace["_forward"] = op.forward


def _looked_at(forward: Any) -> Any:
    @functools.wraps(forward)
    def run(*args: Any, **options: Any) -> Any:
        y = forward(*args, **options)
        context = _debugging.get()
        if context is not None and not context.inside_rule and (fault := _made(args, [y])):
            raise FloatingPointError(f"it made the first {fault}, at {_users_line()}")
        return y

    return run


# ---------------------------------------------------------------- what is wrong with an array

_FAULTS = ("", "infinity", "NaN")


def _made(inputs: Iterable[Any], results: Iterable[Any]) -> str:
    """What results have that is worse than what the inputs have: "NaN", "infinity", or ""."""
    worst = max(map(_fault, results), default=0)
    return _FAULTS[worst] if worst and worst > max(map(_fault, inputs), default=0) else ""


def _fault(x: Any) -> int:
    """The place in _FAULTS of what an array, a Tensor, or several in a list, hold."""
    if isinstance(x, (list, tuple)):
        return max(map(_fault, x), default=0)
    if not _is_array(x) or x.dtype.kind not in "fc":
        return 0
    v = _values(x)
    return 2 if np.isnan(v).any() else int(np.isinf(v).any())


def _values(x: Any) -> Any:
    raw = x._array if isinstance(x, Tensor) else x
    return raw.data if isinstance(raw, Batched) else np.asarray(backend_of(raw).to_numpy(raw))


def _checksum(x: Any) -> int:
    """Of an array, or several in a list; 0 of anything else."""
    if isinstance(x, list):
        return zlib.crc32(repr([_checksum(a) for a in x]).encode())
    return zlib.crc32(_values(x).tobytes()) if _is_array(x) and x.dtype.kind in "biufc" else 0


def _is_array(x: Any) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "size")  # which the shape and dtype that stand for an input have not


def _users_line() -> str:
    """The innermost line that is neither ours nor NumPy's: "model.py:12"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename.startswith("<generated") or frame.f_globals.get("__name__", "").partition(".")[0] in ("autotape", "numpy")
    ):
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


# ---------------------------------------------------------------- the tape


class Note(NamedTuple):
    """What is remembered of an entry."""

    line: str
    checksums: list[int]  # of its fields


class DebugRecord(Record):
    """A tape that notes where each entry was made and what it saved, and looks at each step back."""

    __slots__ = ("notes",)

    def __init__(self) -> None:
        super().__init__()
        self.notes: dict[int, Note] = {}  # by id

    def append(self, entry: Any) -> None:
        self.notes[self.end] = Note(_users_line(), [_checksum(x) for x in entry])
        super().append(entry)

    def steps(self, table: Any) -> Any:
        context = _debugging.get()
        return table if context is None else CheckedSteps(self, table, context)


class CheckedSteps(dict[int, Any]):
    """Code -> step, with a look at what it needs before and at what it gives after."""

    def __init__(self, record: DebugRecord, table: Any, context: debug) -> None:
        super().__init__()
        self.record, self.table, self.context = record, table, context

    def __missing__(self, code: int) -> Any:
        self[code] = functools.partial(self._run, self.table[code])
        return self[code]

    def _run(self, step: Callable[..., None], g: Any, entry: Any, G: Any, base: int, last: Any) -> None:
        traced = isinstance(last, int)  # the entry's id, where a walk on raw arrays has the set of its own buffers
        k, offset = (last, 0) if traced else (base + len(G), base)
        note, operator = self.record.notes[k], operator_of(entry[0])
        self._compare(note, entry, operator)
        context = self.context
        outer, context.inside_rule = context.inside_rule, True  # a rule may pass by infinities that it leaves out in the end
        try:
            step(g, entry, G, base, last)
        finally:
            context.inside_rule = outer
        taken = [i for i in inputs_of(entry, k) if i >= base]
        if operator is not None and (fault := _made([g, *entry], [G[i - offset] for i in taken if traced is False or i in G])):
            raise FloatingPointError(f"{operator.name}, backward: it made the first {fault}, of the call at {note.line}")

    def _compare(self, note: Note, entry: Any, operator: Any) -> None:
        for j, (x, before) in enumerate(zip(entry, note.checksums, strict=True)):
            if _checksum(x) != before:
                names = [need.name for need in operator.kept()] if operator is not None and hasattr(operator, "kept") else []
                place = j - (len(entry) - len(names) - operator.has_fit) if names else -1
                what = f"its {names[place]}" if 0 <= place < len(names) else "an array it saved"
                raise TapeError(
                    f"{operator.name}, backward: {what} was changed in place after the call at {note.line}: give the operator a copy, "
                    "or change the array after the gradient"
                )
