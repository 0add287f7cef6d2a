"""The flat tape: what was computed, in order, and the two walks back over it.

A `Record` is a list of tuples, one an operator call:

    (code, input ids..., saved values..., fit)

`code` is the number of a *step*, the function that runs the operator's rules (see step.py).  An id says where a
value was recorded: serial << 40 | position, the serial being the tape's.  So "on this tape" is a comparison, ids of
other tapes are never mistaken, and -1 is a constant.  Entries hold numbers and arrays only, nothing that the garbage
collector would look through again and again; that keeps a tape of a million entries as cheap per entry as a short one.

`walk_raw` goes back on raw arrays and drops entries and cotangents as it uses them.  `walk_traced` goes back on
Tensors, leaves the tape alone and is itself recorded: it serves the derivatives of derivatives.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, NamedTuple

from . import backend, math_mode
from .backends.kernels import Array, Kernels
from .context import using
from .errors import TapeError, annotated

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
        return self.base <= id < self.end and self[id - self.base] is not _FORGOTTEN

    def steps(self, table: Steps) -> Steps:
        """The steps that a walk runs, of those in `table`: these."""
        return table

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

    def restored(self) -> ExitStack:
        """A context manager: these settings, where they are not in force anyway."""
        stack = ExitStack()
        if self.kernels is not backend.kernels():
            stack.enter_context(backend.use_kernels(self.kernels))
        if self.mode != math_mode.get():
            stack.enter_context(math_mode.use(self.mode))
        return stack


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
        if self._opens:
            _live.pop(self._record.serial, None)

    def _disorder(self) -> Exception:
        return TapeError(
            "tapes and contexts are left last in, first out, and one inside this is still entered (a generator suspended inside a `with`?)"
        )


def no_grad() -> using:
    """`with no_grad():` (or `@no_grad()`) operators are not recorded; what they give are constants."""
    return using((_tape, None))


def active() -> Record | None:
    """The tape that operators called here are recorded on.

    One that is over, or another thread's, does not count: a context that was copied inside it still names it.
    """
    record = current()
    return record if record is not None and record.is_live and record.thread == threading.get_ident() else None


def is_recording() -> bool:
    """Whether operators called here are recorded."""
    return active() is not None


def training(on: bool = True) -> using:
    """`with training():` operators that behave otherwise in training (dropout) do so; with False they don't.  Outside, when recording."""
    return using((_training, bool(on)))


def is_training() -> bool:
    """Whether `training` says so, or where nothing does, whether operators are recorded."""
    said = _training.get()
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
_FORGOTTEN = (FORGOTTEN,)  # the entry of what nobody walks again: a constant from now on
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
            record[k - record.base] = _FORGOTTEN


def operator_of(entry: Any) -> Any:
    """What the steps of an entry come from: an operator, or a kind of call (folding.py); None for the engine's own."""
    return _operators[entry[0]]


def inputs_of(entry: Any, k: int) -> Any:
    """The ids that the entry with id k refers to."""
    operator = _operators[entry[0]]
    if operator is not None:
        return entry[1] if operator.variadic else entry[1 : 1 + len(operator.differentiable_inputs)]
    if entry is _FORGOTTEN:
        return ()
    return (entry[1] if entry[0] == LEAF else k - entry[1],)


class Steps(dict[int, Step]):
    """Code -> step, made when first walked."""

    def __init__(self, make: Callable[[Any], Step], leaf: Step, result: Step) -> None:
        super().__init__({LEAF: leaf, RESULT: result, FORGOTTEN: _forgotten})
        self._make = make

    def __missing__(self, code: int) -> Step:
        self[code] = step = self._make(_operators[code])
        return step


def new_code(operator: Any) -> int:
    """A code for the entries of an operator."""
    with _codes:
        _operators.append(operator)
        return len(_operators) - 1


def _forgotten(*_: Any) -> None:
    """(FORGOTTEN,): a constant takes no cotangent further."""


def _leaf_raw(g: Array, entry: Any, G: list[Array], base: int, own: set[int]) -> None:
    """(LEAF, outer id): a variable of an inner level hands its cotangent to the value it stands for."""
    i = entry[1] - base
    if i >= 0:
        G[i] = g if G[i] is None else G[i] + g


def _result_raw(g: Array, entry: Any, G: list[Array], base: int, own: set[int]) -> None:
    """(RESULT, j, n): result j of n hands its cotangent to the entry of its operator, j places below."""
    _, j, n = entry
    i = len(G) - j
    if G[i] is None:
        G[i] = [None] * n
    G[i][j - 1] = g


def _leaf_traced(g: Any, entry: Any, G: dict[int, Any], base: int, k: int) -> None:
    if (i := entry[1]) >= base:
        G[i] = G[i] + g if i in G else g


def _result_traced(g: Any, entry: Any, G: dict[int, Any], base: int, k: int) -> None:
    _, j, n = entry
    G.setdefault(k - j, [None] * n)[j - 1] = g


_traced = Steps(lambda operator: operator.step(traced=True), _leaf_traced, _result_traced)
_raw: dict[Any, Steps] = {}  # by backend, since each may compile the rules of elementwise operators


def _raw_steps() -> Steps:
    kernels = backend.kernels()
    if (steps := _raw.get(kernels)) is None:
        steps = _raw[kernels] = Steps(lambda operator: operator.step(traced=False), _leaf_raw, _result_raw)
    return steps


def walk_raw(
    record: Record, seeds: Iterable[tuple[int, Array]], base: int, wanted: Iterable[int], keep: bool
) -> tuple[dict[int, Array], set[int]]:
    """First order: from the last seed back to the first wanted id, on raw arrays, recording off.

    seeds are (id, cotangent); ids below base are constants to this walk.  Gives {wanted id: cotangent or None} and the
    ids whose cotangent is a buffer of its own.  Unless kept, the tape is used up.
    """
    seeds, wanted = list(seeds), sorted(set(wanted), reverse=True)
    top = max(i for i, _ in seeds)
    G: list[Any] = [None] * (top - base + 1)
    for i, g in seeds:
        G[i - base] = g if G[i - base] is None else G[i - base] + g
    if keep:
        entries = record[base - record.base : top - record.base + 1]
    else:
        entries = record
        del entries[top - record.base + 1 :]  # later than any seed
    found: dict[int, Any] = dict.fromkeys(wanted)
    own: set[int] = set()
    steps = record.steps(_raw_steps())
    pop_entry, pop_cotangent = entries.pop, G.pop
    entry: Any = ()
    try:
        with no_grad():
            for target in wanted:
                for _ in range(base + len(G) - 1 - target):
                    entry = pop_entry()
                    g = pop_cotangent()
                    if g is not None:
                        steps[entry[0]](g, entry, G, base, own)
                if target - base < len(G):  # else it is later than every seed: nothing depends on it
                    found[target] = G[-1]
    except Exception as e:
        raise _in_backward(e, entry) from e
    finally:
        if not keep:
            record.clear()
    return found, own


def walk_traced(record: Record, seeds: Iterable[tuple[int, Any]], base: int, wanted: Iterable[int]) -> dict[int, Any]:
    """The same on Tensors: the rules are recorded where recording is on, and the tape stays."""
    G: dict[int, Any] = {}
    for i, g in seeds:
        G[i] = G[i] + g if i in G else g
    found: dict[int, Any] = dict.fromkeys(wanted)
    start, entry, steps = record.base, (), record.steps(_traced)
    try:
        for k in range(max(G), min(found) - 1, -1):
            g = G.pop(k, None)
            if k in found:
                found[k] = g
            if g is not None:
                entry = record[k - start]
                steps[entry[0]](g, entry, G, base, k)
    except Exception as e:
        raise _in_backward(e, entry) from e
    return found


class _Beyond:
    """The cotangents of a walk, and beyond its end those of entries that were recorded meanwhile."""

    def __init__(self, G: Any, end: int) -> None:
        self._G, self._end, self._more = G, end, dict[int, Any]()
        self.length = end

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Any:
        return self._G[i] if i < self._end else self._more.get(i)

    def __setitem__(self, i: int, g: Any) -> None:
        if i < self._end:
            self._G[i] = g
        else:
            self._more[i] = g

    def pop(self, i: int) -> Any:
        self.length = i
        return self._more.pop(i, None)


def walk_on_raw(record: Record, start: int, seeds: Iterable[tuple[int, Array]], G: Any, base: int, own: set[int]) -> None:
    """Go on with a raw walk through the entries from id `start` on, recorded while it stood still; they are used up."""
    end = start - base
    more = _Beyond(G, end if len(G) > end else len(G))
    own.difference_update([i for i in own if i >= len(more)])
    for i, g in seeds:
        more[i - base] = g if more[i - base] is None else more[i - base] + g
    steps = record.steps(_raw_steps())
    for position in range(len(record) - 1, start - record.base - 1, -1):
        entry = record[position]
        if record.is_live:
            record[position] = _FORGOTTEN
        else:
            record.pop()
        if (g := more.pop(position + record.base - base)) is not None:
            steps[entry[0]](g, entry, more, base, own)
    own.difference_update([i for i in own if i >= end])


def walk_on_traced(record: Record, start: int, seeds: Iterable[tuple[int, Any]], G: dict[int, Any], base: int) -> None:
    """The same for a walk on Tensors; the entries stay where the tape is the one that records."""
    for i, g in seeds:
        G[i] = G[i] + g if i in G else g
    steps = record.steps(_traced)
    for k in range(record.end - 1, start - 1, -1):
        if (g := G.pop(k, None)) is not None:
            entry = record[k - record.base]
            steps[entry[0]](g, entry, G, base, k)
    if record is not current():
        del record[start - record.base :]


def _in_backward(e: Exception, entry: Any) -> Exception:
    """What a rule raised, with its operator's name."""
    operator = _operators[entry[0]] if entry else None
    return e if operator is None else annotated(e, f"{operator.name}, backward")
