"""profile: which kernels the operators ran, on what, how often, for how long, and what they made.

    with at.profile() as p:
        at.grad(loss)(params)
    print(p)                        # a line a row, the slowest first; p.rows are the same as data
    p.trace("step.json")            # for https://ui.perfetto.dev or chrome://tracing

Inside, every kernel is timed, and an operator's forward and its steps back say for whom a kernel runs.  Outside it costs
nothing, since kernels, forwards and steps are other ones then.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from . import backend, fusion, walk
from .backend import kernels
from .backends.kernels import Kernels
from .batching import BatchedKernels
from .context import using
from .operator import OPERATORS, Operator, look, look_away
from .profile_book import Book, Row, table
from .rows import Rows
from .tape import Record, inputs_of, operator_of


class profile(using):
    """`with profile() as p:` what operators run in this thread or task is counted and timed; print(p) shows it.

    It may be entered again, and adds up; as a decorator every call adds to it.  Profiles nest: the outer one sees
    what the inner one does.  Where kernels only start their work, as on a GPU, each is waited for, so that its time is its own.
    """

    __slots__ = ("_book", "_since")

    def __init__(self) -> None:
        super().__init__()
        self._book = Book()
        self._since: tuple[int, int] | None = None  # the clock, and the time in kernels, when it was entered

    def __enter__(self) -> profile:
        if self._since is not None:
            raise RuntimeError("this profile is entered already; make a new one for each thread or task")
        books = _books.get()
        self._settings = ((_books, books if self._book in books else (*books, self._book)),)
        super().__enter__()
        _count(+1)
        self._since = clock(), _here.in_kernels
        self._book.enter(self._since[0])
        return self

    def _leave(self, before: list[Any]) -> None:
        super()._leave(before)
        if self._since is not None and self._book not in before[0]:
            start, in_kernels = self._since
            self._book.take(clock() - start, _here.in_kernels - in_kernels)
        self._let_go()

    def _let_go(self) -> None:
        if self._since is not None:
            self._since = None
            self._book.leave()
            _count(-1)

    def _another(self) -> profile:
        other = profile()
        other._book = self._book
        return other

    @property
    def rows(self) -> list[Row]:
        """What ran, the slowest first."""
        return self._book.rows()

    @property
    def seconds(self) -> float:
        """How long it was entered."""
        return self._elapsed()[0] / 1e9

    @property
    def outside(self) -> float:
        """The share of that time, from 0 to 1, in which its thread ran none of the rows: Python, the tape, your own code."""
        elapsed, inside = self._elapsed()
        return max(0.0, 1 - inside / elapsed) if elapsed else 0.0

    def _elapsed(self) -> tuple[int, int]:
        elapsed, inside = self._book.elapsed, self._book.inside
        if self._since is not None:
            elapsed, inside = elapsed + clock() - self._since[0], inside + _here.in_kernels - self._since[1]
        return elapsed, inside

    def __str__(self) -> str:
        share = f"{100 * self.outside:.1f} % of {1e3 * self.seconds:.3f} ms"
        return f"{table(self.rows)}\n{share} was outside kernels: Python, the tape, your own code"

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write a Chrome trace: an event for each operator run and, inside it, for each of its kernels.

        The file is whole or not there.  Of more than 524,288 events the first are kept, and `left_out` counts the others.
        """
        import json

        from .io import atomically

        text = json.dumps({"traceEvents": self._book.trace(), "displayTimeUnit": "ms", "otherData": {"left_out": self._book.left_out}})
        with atomically(Path(path)) as file:
            file.write(text.encode())


_books: ContextVar[tuple[Book, ...]] = ContextVar("books", default=())  # of the profiles that are entered here


class _Here(threading.local):
    """What runs in this thread."""

    run: Run | None = None
    fused = ""  # what fusion.py is about to run an operator for
    is_in_kernel = False
    in_kernels = 0  # nanoseconds, of all that was noted


_here = _Here()


class Run:
    """An operator's forward, or its step back, while it runs: kernels inside are its own, and so are those of operators inside."""

    __slots__ = ("direction", "fused", "in_kernels", "operator", "outside", "results", "start")

    def __init__(self, operator: str, direction: str) -> None:
        self.operator, self.direction, self.fused = operator, direction, _here.fused
        self.results: list[Any] = []  # of its kernels
        self.in_kernels = self.outside = 0

    def __enter__(self) -> Run:
        _here.run = self
        self.start = clock()
        return self

    def __exit__(self, *_: Any) -> None:
        kernels().synchronize()
        ns = clock() - self.start
        _here.run = None
        self.outside = ns - self.in_kernels
        for book in _books.get():
            book.draw((self.operator, self.direction, self.fused, "", "", "", ""), self.start, ns, 0)

    def note_arithmetic(self, nbytes: int) -> None:
        """What it did outside kernels counts."""
        _here.in_kernels += self.outside
        for book in _books.get():
            book.add((self.operator, self.direction, self.fused, kernels().name, "", "", ""), self.outside, nbytes)


# ---------------------------------------------------------------- what is another one inside

_contexts = 0  # that are entered, in all threads
_swapped: list[tuple[dict[Any, Any], Any, Any]] = []  # where, under which name, and what was there
_tables: set[Kernels] = set()  # whose kernels are timed
_lock = threading.RLock()
_ABSENT: Any = object()


def _count(change: int) -> None:
    """The first context to be entered swaps forwards and kernels; the last to be left puts all back."""
    global _contexts
    with _lock:
        before, _contexts = _contexts, _contexts + change
        if change > 0:
            for table in backend.loaded():
                _watch_table(table)
        if not before:
            look(_timed_forward)
            _watch_fusion()
            _swap(vars(walk), "_steps", functools.partial(_steps_of, walk._steps), walk._steps)
        elif not _contexts:
            look_away(_timed_forward)
            _tables.clear()
            while _swapped:
                names, name, was = _swapped.pop()
                if was is _ABSENT:
                    names.pop(name, None)
                else:
                    names[name] = was


def _swap(names: dict[Any, Any], name: Any, new: Any, was: Any) -> None:
    _swapped.append((names, name, was))
    names[name] = new


def _timed_forward(op: Operator, forward: Any) -> Any:
    @functools.wraps(forward)
    def run(*args: Any, **options: Any) -> Any:
        if not _books.get() or _here.run is not None or _here.is_in_kernel:
            return forward(*args, **options)
        _watch_table(kernels())
        with Run(op.name, "forward") as this:
            y = forward(*args, **options)
        if not this.results:
            this.note_arithmetic(_bytes(y, args))
        return y

    return run


# Kernels, but for those that only say something
_KERNELS = [n for n, kind in Kernels.__annotations__.items() if kind in ("Unary", "Binary")]
_UNTIMED = ("account", "synchronize", "is_alone", "scalar", "compile_elementwise")
_KERNELS += [n for n in vars(Kernels) if not n.startswith("_") and n not in _UNTIMED]
_MOVES = ("adopt", "to_numpy")  # which have nothing to do where the backend's arrays are NumPy's
_VIEWS = ("reshape", "transpose", "broadcast_to")


def _watch_table(table: Any) -> None:
    """A backend that is new here; batched kernels (batching.py) are its own, on longer arrays."""
    if table in _tables or isinstance(table, BatchedKernels):
        return
    with _lock:
        if _contexts and table not in _tables:
            _tables.add(table)
            for name in _KERNELS:
                _swap(vars(table), name, _timed(table, name, getattr(table, name)), vars(table).get(name, _ABSENT))


def _timed(table: Any, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(kernel)
    def run(*args: Any, **named: Any) -> Any:
        if not _books.get() or _here.is_in_kernel:  # a kernel that another one calls is a part of it
            return kernel(*args, **named)
        table.account()  # what is left of an earlier one
        _here.is_in_kernel, y, start = True, None, clock()
        try:
            y = kernel(*args, **named)
            table.synchronize()
        finally:
            ns = clock() - start
            _here.is_in_kernel = False
            _ran(table, name, start, ns, y, (*args, *named.values()) if named else args)
        return y

    return run


def _ran(table: Any, name: str, start: int, ns: int, y: Any, args: tuple[Any, ...]) -> None:
    """A kernel has run."""
    nbytes = 0 if name in _VIEWS and not isinstance(y, np.ndarray) else _bytes(y, args)
    if name in _MOVES and not nbytes:
        return
    operator = direction = fused = ""
    if (run := _here.run) is not None:
        operator, direction, fused = run.operator, run.direction, run.fused
        run.in_kernels += ns
        run.results.append(y)
    _here.in_kernels += ns
    what = operator, direction, fused, table.name, name, *table.account()
    for book in _books.get():
        book.add(what, ns, nbytes)
        book.draw(what, start, ns, nbytes)


def _bytes(y: Any, args: Iterable[Any]) -> int:
    """The bytes of results that share no memory with an argument, as far as can be seen."""
    if isinstance(y, (tuple, list)):
        return sum(_bytes(each, args) for each in y)
    if not hasattr(y, "dtype") or any(_shares(y, a) for a in args):
        return 0
    nbytes: int = y.size * y.dtype.itemsize
    return nbytes


def _shares(y: Any, a: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return any(_shares(y, each) for each in a)
    return y is a or (isinstance(y, np.ndarray) and isinstance(a, np.ndarray) and np.may_share_memory(y, a))


# ---------------------------------------------------------------- the walks back


def _steps_of(steps: Callable[[Record, Any], Any], record: Record, table: Any) -> Any:
    """The steps of a walk, timed around whatever else looks at them (debugging.py)."""
    found = steps(record, table)
    return TimedSteps(found) if _books.get() else found


class TimedSteps(dict[int, Any]):
    """Code -> step, timed where it runs rules; where it runs a user's function, its operators count for themselves."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table = table

    def __missing__(self, code: int) -> Any:
        operator, step = operator_of(code), self.table[code]
        self[code] = step if operator is None or operator.is_users else functools.partial(_step, operator.name, step)
        return self[code]


def _step(operator: str, step: Callable[..., None], g: Any, entry: Any, G: Any, base: int, last: Any) -> None:
    if _here.run is not None:
        return step(g, entry, G, base, last)
    if isinstance(last, int):  # a walk on Tensors, whose arithmetic is operators
        with Run(operator, "backward"):
            return step(g, entry, G, base, last)
    places = {i - base for i in inputs_of(entry, -1) if i >= base}
    before = {i: G[i] for i in places}
    with Run(operator, "backward") as run:
        step(g, entry, G, base, last)
    _note_rule(run, g, [(before[i], G[i]) for i in places])
    return None


def _note_rule(run: Run, g: Any, cotangents: list[tuple[Any, Any]]) -> None:
    """The arithmetic of a rule, if it had any: cotangents were added up, or are no kernel's result, nor the cotangent that came."""
    if isinstance(kernels(), BatchedKernels):  # whose arithmetic is kernels
        return
    given = [*run.results, g]
    made = [_array(new) for before, new in cotangents if new is not before and not _is_one_of(_array(new), given)]
    if made or any(before is not None for before, _ in cotangents):
        run.note_arithmetic(_bytes(made, given))


def _array(x: Any) -> Any:
    return x.rows if isinstance(x, Rows) else x


def _is_one_of(x: Any, results: Any) -> bool:
    return any(_is_one_of(x, r) if isinstance(r, (tuple, list)) else x is _array(r) for r in results)


# ---------------------------------------------------------------- fusion


def _watch_fusion() -> None:
    """What fusion.py runs says why."""
    for op in OPERATORS.values():
        if (rule := op.fusion) is not None:
            for end in rule.ends:
                _swap(rule.next, end, functools.partial(_finish, rule.next[end]), rule.next[end])
    _swap(vars(fusion), "_run", functools.partial(_by_itself, fusion._run), fusion._run)


@contextmanager
def _fused(text: str) -> Iterator[None]:
    before, _here.fused = _here.fused, text
    try:
        yield
    finally:
        _here.fused = before


def _finish(finish: Callable[..., Any], op: Any, args: Any, h: Any, chain: Any, link: Any, own: Any) -> Any:
    """A chain that became one operator."""
    rule = chain.plan.rule
    joined = 0 if link is None else sum(operand is not None for operand in (link.bias, link.residual))
    with _fused(" + ".join((rule.start.name, *[rule.join.name] * joined, op.name))):
        return finish(op, args, h, chain, link, own)


def _by_itself(run: Callable[..., Any], call: Any, args: Any) -> Any:
    """An operator of a chain that somebody looked into: for the first time, or though the chain has run as one operator."""
    with _fused("recomputed" if call.fused else "broken"):
        return run(call, args)
