"""debug: where the first NaN or infinity came from, and which saved array was overwritten.

    with at.debug():
        at.grad(loss)(params)          # FloatingPointError: log(...): it made the first infinity, at model.py:12

Inside, every operator's result is looked at, forward and backward, and tapes note the line of each call and a checksum
of what it saved.  That is slow; outside it costs nothing, since operators and tapes are other ones then.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from . import tree
from .batching import Batched
from .context import using
from .errors import TapeError
from .folding import Call, Custom
from .operator import Operator, _first_call, look, look_away
from .rows import Rows
from .tape import Record, inputs_of, operator_of, record_kind
from .tensor import Tensor, backend_of, kind_of
from .walk import around_steps

_debugging: ContextVar[debug | None] = ContextVar("debugging", default=None)
_contexts = 0  # that are entered, in all threads
_lock = threading.RLock()


class debug(using):
    """`with debug():` what makes the first NaN or infinity raises FloatingPointError, which names the operator and your line.

    An operator *makes* one if its inputs have none: a mask of -inf is not a fault, -inf - -inf is.  In backward the line is
    that of the operator's call, and a saved array that was changed in place before backward needed it raises TapeError; both
    only of tapes that were opened inside.  Also a decorator.
    """

    __slots__ = ("_looks", "inside_rule")

    def __init__(self) -> None:
        super().__init__((_debugging, self), (record_kind, DebugRecord), (around_steps, CheckedSteps))
        self.inside_rule, self._looks = False, 0  # several threads may enter it

    def __enter__(self) -> Any:
        value = super().__enter__()
        _count(+1)
        self._looks += 1
        return value

    def _leave(self, before: list[Any]) -> None:
        super()._leave(before)
        self._let_go()

    def _let_go(self) -> None:
        if self._looks:
            self._looks -= 1
            _count(-1)

    def _another(self) -> debug:
        return debug()


def _count(change: int) -> None:
    """The first context to be entered puts a look at the result behind every operator; the last to be left takes it away."""
    global _contexts
    with _lock:
        before, _contexts = _contexts, _contexts + change
        if not before:
            look(_watched)
        elif not _contexts:
            look_away(_watched)


def _watched(op: Operator, forward: Any) -> Any:
    @functools.wraps(forward)
    def run(*args: Any, **options: Any) -> Any:
        y = forward(*args, **options)
        context = _debugging.get()
        if context is not None and not context.inside_rule and (fault := _made([*args, *options.values()], [y])):
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
    """The place in _FAULTS of the worst that an array, a number, or several in a tree, hold."""
    return max((2 if np.isnan(v).any() else int(np.isinf(v).any()) for v in _arrays(x) if kind_of(v.dtype) in "fc"), default=0)


def _checksum(x: Any) -> int:
    """Of an array, or of all in a tree or in a call's arguments and closure."""
    return zlib.crc32(b"".join(v.tobytes() for v in _arrays(x) if kind_of(v.dtype) in "biufc"))


def _arrays(x: Any) -> Iterator[Any]:
    """The arrays that something holds, as NumPy's."""
    if isinstance(x, Custom):
        yield from _arrays((x.call, x.residuals))
    elif isinstance(x, Call):
        closure = inspect.getclosurevars(x.f).nonlocals if inspect.isfunction(x.f) else {}
        yield from _arrays((x.args, x.kwargs, [c for c in closure.values() if isinstance(c, np.ndarray)]))
    elif isinstance(x, Tensor):
        yield from _arrays(x._array)
    elif isinstance(x, Rows):
        yield from _arrays(x.rows)
    elif isinstance(x, Batched):
        yield from _arrays(x.data)
    elif isinstance(x, float):
        yield np.asarray(x)
    elif hasattr(x, "dtype") and hasattr(x, "size"):  # which the shape and dtype that stand for an input have not
        yield np.asarray(backend_of(x).to_numpy(x))
    elif isinstance(x, (tuple, list, dict)):
        for leaf in tree.leaves(x):
            yield from _arrays(leaf)


def _users_line() -> str:
    """The innermost line that is neither ours nor NumPy's: "model.py:12"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    """Whether it runs our code, which for a front end lies in its author's module, or NumPy's."""
    generated = frame.f_code.co_filename.startswith("<generated") or frame.f_code is _first_call.__code__
    return generated or frame.f_globals.get("__name__", "").partition(".")[0] in ("autotape", "numpy")


# ---------------------------------------------------------------- the tape


class Note(NamedTuple):
    """What is remembered of an entry."""

    line: str
    checksums: list[int]  # of its fields


class DebugRecord(Record):
    """A tape that notes where each entry was made and what it saved."""

    __slots__ = ("notes",)

    def __init__(self) -> None:
        super().__init__()
        self.notes: dict[int, Note] = {}  # by id

    def append(self, entry: Any) -> None:
        self.notes[self.end] = Note(_users_line(), [_checksum(x) for x in entry])
        super().append(entry)


class CheckedSteps(dict[int, Any]):
    """Code -> step, with a look at what it needs before and at what it gives after."""

    def __init__(self, record: Record, table: Any) -> None:
        super().__init__()
        self.notes: dict[int, Note] = getattr(record, "notes", {})
        self.table = table

    def __missing__(self, code: int) -> Any:
        operator = operator_of(code)
        self[code] = self.table[code] if operator is None else functools.partial(self._run, operator, self.table[code])
        return self[code]

    def _run(self, operator: Any, step: Callable[..., None], g: Any, entry: Any, G: Any, base: int, last: Any) -> None:
        traced = isinstance(last, int)  # the entry's id, where a walk on raw arrays has the set of its own buffers
        k = last if traced else base + len(G)
        note = self.notes.get(k)
        if note is not None:
            self._compare(operator, note, entry)
        taken = {i if traced else i - base for i in inputs_of(entry, k) if i >= base}
        before = [G.get(i) if traced else G[i] for i in taken]
        context = _debugging.get()
        assert context is not None
        outer, context.inside_rule = context.inside_rule, not operator.is_users  # a rule may pass by infinities that it leaves out
        try:
            step(g, entry, G, base, last)
        finally:
            context.inside_rule = outer
        if not operator.is_users and (fault := _made([g, *entry, *before], [G.get(i) if traced else G[i] for i in taken])):
            where = f", of the call at {note.line}" if note is not None else ""
            raise FloatingPointError(f"{operator.name}, backward: it made the first {fault}{where}")

    def _compare(self, operator: Any, note: Note, entry: Any) -> None:
        for j, (x, before) in enumerate(zip(entry, note.checksums, strict=True)):
            if _checksum(x) != before:
                names = [] if operator.is_users else [need.name for need in operator.kept()]
                place = j - (len(entry) - len(names) - operator.has_fit) if names else -1
                what = f"its {names[place]}" if 0 <= place < len(names) else "an array that it needs"
                raise TapeError(
                    f"{operator.name}, backward: {what} was changed in place after the call at {note.line}: give it a copy, "
                    "or change the array after the gradient"
                )
