"""The two walks back over a tape.

`walk_raw` goes back on raw arrays and drops entries and cotangents as it uses them.  `walk_traced` goes back on
Tensors, leaves the tape alone and is itself recorded: it serves the derivatives of derivatives.  An entry's *step*, found
by its code, runs the operator's rules (step.py).  A step that records a stretch of its own goes on with `walk_on_raw` or
`walk_on_traced` (folding.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from . import backend
from .backends.kernels import Array
from .errors import annotated
from .tape import FORGOTTEN, FORGOTTEN_ENTRY, LEAF, RESULT, Record, Step, current, operator_of, unrecorded


class Steps(dict[int, Step]):
    """Code -> step, made when first walked."""

    def __init__(self, make: Callable[[Any], Step], leaf: Step, result: Step) -> None:
        super().__init__({LEAF: leaf, RESULT: result, FORGOTTEN: _forgotten})
        self._make = make

    def __missing__(self, code: int) -> Step:
        self[code] = step = self._make(operator_of(code))
        return step


around_steps: ContextVar[Callable[[Record, Steps], Any] | None] = ContextVar("around_steps", default=None)  # see debugging.py


def _steps(record: Record, table: Steps) -> Any:
    """The steps that a walk over a tape runs, by code."""
    around = around_steps.get()
    return table if around is None else around(record, table)


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
    steps = _steps(record, _raw_steps())
    pop_entry, pop_cotangent = entries.pop, G.pop
    entry: Any = ()
    try:
        with unrecorded():
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
    start, entry, steps = record.base, (), _steps(record, _traced)
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
    more = _Beyond(G, min(end, len(G)))
    fresh: set[int] = set()  # as `own`, in which the places beyond the end may still be those of entries before
    for i, g in seeds:
        more[i - base] = g if more[i - base] is None else more[i - base] + g
    steps = _steps(record, _raw_steps())
    for position in range(len(record) - 1, start - record.base - 1, -1):
        entry = record[position]
        if record.is_live:
            record[position] = FORGOTTEN_ENTRY
        else:
            record.pop()
        if (g := more.pop(position + record.base - base)) is not None:
            steps[entry[0]](g, entry, more, base, fresh)
    own.update(i for i in fresh if i < end)


def walk_on_traced(record: Record, start: int, seeds: Iterable[tuple[int, Any]], G: dict[int, Any], base: int) -> None:
    """The same for a walk on Tensors; the entries stay where the tape is the one that records."""
    for i, g in seeds:
        G[i] = G[i] + g if i in G else g
    steps = _steps(record, _traced)
    for k in range(record.end - 1, start - 1, -1):
        if (g := G.pop(k, None)) is not None:
            entry = record[k - record.base]
            steps[entry[0]](g, entry, G, base, k)
    if record is not current():
        del record[start - record.base :]


def _in_backward(e: Exception, entry: Any) -> Exception:
    """What a rule raised, with its operator's name; what a user's function raised (folding.py) as it is."""
    operator = operator_of(entry[0]) if entry else None
    return e if operator is None or operator.is_users else annotated(e, f"{operator.name}, backward")
