"""The flat tape: what was computed, in order, and who records on it (walk.py goes back over it).

A `Record` is a list of tuples, one an operator call:

    (code, input ids..., saved values..., fit)

`code` is the number of a *step*, the function that runs the operator's rules (see step.py).  An id says where a
value was recorded: serial << 40 | position, the serial being the tape's.  So "on this tape" is a comparison, ids of
other tapes are never mistaken, and -1 is a constant.  Entries hold numbers and arrays only, nothing that the garbage
collector would look through again and again; that keeps a tape of a million entries as cheap per entry as a short one.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple

from . import backend, math_mode
from .backends.kernels import Kernels
from .context import using
from .errors import TapeError

Step = Callable[..., None]

_serials = itertools.count(1)
_NOWHERE = 1 << 100  # above every id
_live: dict[int, Record] = {}  # serial -> the tape that is being recorded
_tape: ContextVar[Record | None] = ContextVar("tape", default=None)  # what operators record on; None under no_grad
_home: ContextVar[Record | None] = ContextVar("home", default=None)  # the same, not hidden by no_grad
_training: ContextVar[bool | None] = ContextVar("training", default=None)
current, home = _tape.get, _home.get


class Record(list):  # type: ignore[type-arg]
    """The flat tape, and what belongs to it: the tape around it, pending values, watched Params."""

    __slots__ = ("__weakref__", "base", "borrowed", "is_explicit", "outer", "params", "pending", "serial", "sweep_at", "thread", "watched")

    def __init__(self) -> None:
        self.serial = next(_serials)
        self.base = self.serial << 40
        self.thread = threading.get_ident()
        self.outer = home()
        self.is_explicit = False  # opened by a Tape, which may be asked for the gradient of any Param
        self.borrowed: set[int] = set()  # variables whose array is the caller's
        self.pending: list[Any] = []  # deferred values made since it was opened
        self.sweep_at = 64  # look through them at this length
        self.watched: list[dict[int, Any]] = [{}]  # of each nested Tape: id(Param) -> its leaf
        self.params: list[Any] = []  # the Params that may not change until this is walked

    @property
    def end(self) -> int:
        """The id that the next entry takes."""
        return self.base + len(self)

    @property
    def is_live(self) -> bool:
        return self.serial in _live

    def holds(self, id: int) -> bool:
        """Whether a value with this id was recorded here, and its entry is still there."""
        return self.base <= id < self.end and self[id - self.base] is not FORGOTTEN_ENTRY

    def clear(self) -> None:
        """Forget everything: the walk is over.  From now on no id is on this tape, for a context that was copied while it recorded too."""
        super().clear()
        self.base = _NOWHERE
        self.pending.clear()
        for param in self.params:
            param.release(self)
        self.params.clear()


class Settings(NamedTuple):
    """Backend and math mode, so that what was recorded under them is walked, or made real, under them."""

    kernels: Kernels
    mode: str

    @classmethod
    def now(cls) -> Settings:
        return cls(backend.kernels(), math_mode.get())

    def restored(self) -> AbstractContextManager[Any]:
        """A context manager: these settings, where they are not in force anyway."""
        if self.kernels is backend.kernels() and self.mode == math_mode.get():
            return _IN_FORCE
        stack = ExitStack()
        if self.kernels is not backend.kernels():
            stack.enter_context(backend.use_kernels(self.kernels))
        if self.mode != math_mode.get():
            stack.enter_context(math_mode.use(self.mode))
        return stack


_IN_FORCE = nullcontext()
record_kind: ContextVar[type[Record]] = ContextVar("record_kind", default=Record)


def new_record() -> Record:
    """A tape for an outermost transform: a plain one, or what the context asks for (debugging.py)."""
    return record_kind.get()()


class recording(using):
    """`with recording(record):` operators record there.  The first to enter also makes the tape live; the last to leave ends that."""

    __slots__ = ("_opens", "_record")

    def __init__(self, record: Record) -> None:
        super().__init__((_tape, record), (_home, record))
        self._record, self._opens = record, not record.is_live

    def __enter__(self) -> Any:
        if self._opens:
            _live[self._record.serial] = self._record
        return super().__enter__()

    def _leave(self, before: list[Any]) -> None:
        super()._leave(before)
        self._let_go()

    def _let_go(self) -> None:
        if self._opens:
            _live.pop(self._record.serial, None)

    def _disorder(self) -> Exception:
        return TapeError(
            "tapes and contexts are left last in, first out, and one inside this is still entered (a generator suspended inside a `with`?)"
        )


def no_grad() -> using:
    """`with no_grad():` (or `@no_grad()`) operators are not recorded; what they give are constants."""
    return using((_tape, None))


class unrecorded:
    """no_grad in a tenth of its time, for a stretch that nothing suspends or leaves out of turn."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _tape.set(None)

    def __exit__(self, *_: Any) -> None:
        _tape.reset(self._token)


def active() -> Record | None:
    """The tape that operators called here are recorded on.

    One that is over, or another thread's, does not count: a context that was copied inside it still names it.
    """
    record = current()
    return record if record is not None and record.is_live and record.thread == threading.get_ident() else None


def is_recording() -> bool:
    """Whether operators called here are recorded."""
    return active() is not None


def training(on: bool | None = True) -> using:
    """`with training():` operators that behave otherwise in training (dropout) do so; with False they don't.

    Where nobody says, and inside `training(None)`, they do while they are recorded.
    """
    return using((_training, on))


said_of_training = _training.get


def is_training() -> bool:
    """Whether `training` says so, or where nobody does, whether operators are recorded."""
    said = said_of_training()
    return is_recording() if said is None else said


def is_ours(record: Record) -> bool:
    """Whether a live tape was opened by this thread or task."""
    if record.thread != threading.get_ident():
        return False
    mine = home()
    while mine is not None and mine is not record:
        mine = mine.outer
    return mine is not None


def stray(operator: str, id: int) -> int:
    """The id of an input that is not on the current tape: -1, a constant.

    Raises TapeError if it is being recorded by another thread or task, where its gradient would silently vanish.
    """
    record = _live.get(id >> 40)
    if record is not None and not is_ours(record):
        raise elsewhere(operator)
    return -1


def elsewhere(operator: str) -> TapeError:
    """What is said of an input that is being recorded in another thread or task."""
    return TapeError(
        f"{operator}: an input is being recorded in another thread or task, and a tape belongs to the one that opened it. "
        "Differentiate inside the thread, or pass values (t.numpy())"
    )


# -- the steps, by code.  A front end gets its code when it is generated; the first are the engine's own.
LEAF, RESULT, FORGOTTEN = 0, 1, 2
_operators: list[Any] = [None, None, None]
FORGOTTEN_ENTRY = (FORGOTTEN,)  # the entry of what nobody walks again: a constant from now on
_codes = threading.Lock()


def dependents(record: Record, start: int) -> set[int]:
    """The ids from `start` on whose values depend on a variable before it, or on one of the tape's own (Params, tape.watch)."""
    levels = record.watched if record.is_explicit else record.watched[1:]
    found = {leaf._id for level in levels for leaf in level.values() if leaf._id >= start}
    for k, entry in enumerate(record[start - record.base :], start):
        if any(record.base <= i < start or i in found for i in inputs_of(entry, k)):
            found.add(k)
    return found


def forget(record: Record, start: int, end: int, keep: set[int]) -> None:
    """Drop the entries with ids from start to end, but for those in `keep`.

    Their ids stay taken, so a Tensor that got away is never mistaken for a later one: it is a constant.
    """
    for k in range(start, end):
        if k not in keep:
            record[k - record.base] = FORGOTTEN_ENTRY


def operator_of(code: int) -> Any:
    """What the steps of a code come from: an operator, or a kind of call (folding.py); None for the engine's own."""
    return _operators[code]


def inputs_of(entry: Any, k: int) -> Any:
    """The ids that the entry with id k refers to."""
    operator = _operators[entry[0]]
    if operator is not None:
        return entry[1] if operator.variadic else entry[1 : 1 + len(operator.differentiable_inputs)]
    if entry is FORGOTTEN_ENTRY:
        return ()
    return (entry[1] if entry[0] == LEAF else k - entry[1],)


def new_code(operator: Any) -> int:
    """A code for the entries of an operator."""
    with _codes:
        _operators.append(operator)
        return len(_operators) - 1
