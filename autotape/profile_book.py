"""What a profile remembers, and how it is shown: as rows, as a table of text, and as a Chrome trace (profiling.py fills it)."""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple

EVENTS = 1 << 19  # that a profile keeps for its trace: viewers don't take many more


class Row(NamedTuple):
    """What ran, how often, for how many seconds, and the bytes of the results it made (a view is none)."""

    operator: str  # "" where the engine or an optimiser asked for the kernel
    direction: str  # "forward", "backward", or "" as well
    fused: str  # "conv4 + add + relu": what a fused operator replaced; "broken" or "recomputed": an operator of a chain by itself
    backend: str
    kernel: str  # "" for the arithmetic of arrays (dy * y) in a rule, or in a forward that calls no kernel
    algorithm: str  # what the backend ran it on; "" for such arithmetic
    fallback: str  # why the backend left it to something slower
    calls: int
    seconds: float
    nbytes: int


What = tuple[str, str, str, str, str, str, str]  # the fields of a row that say what ran


class Book:
    """What profiles that belong together have seen."""

    def __init__(self) -> None:
        self._sums: dict[What, list[int]] = {}  # calls, nanoseconds, bytes
        self._events: list[tuple[What, int, int, int, int]] = []  # what, start, nanoseconds, bytes, thread
        self._lock = threading.Lock()
        self._start = 0
        self._entered = 0  # by how many profiles
        self.elapsed = self.inside = self.left_out = 0

    def enter(self, now: int) -> None:
        with self._lock:
            self._start = self._start or now
            self._entered += 1

    def leave(self) -> None:
        with self._lock:
            self._entered -= 1

    def take(self, elapsed: int, inside: int) -> None:
        """Nanoseconds that a profile was entered, and how many of them kernels took."""
        with self._lock:
            self.elapsed, self.inside = self.elapsed + elapsed, self.inside + inside

    def add(self, what: What, ns: int, nbytes: int) -> None:
        """To the rows."""
        with self._lock:
            if self._entered:  # a context that was copied inside names it still
                sums = self._sums.get(what) or self._sums.setdefault(what, [0, 0, 0])
                sums[0] += 1
                sums[1] += ns
                sums[2] += nbytes

    def draw(self, what: What, start: int, ns: int, nbytes: int) -> None:
        """To the trace."""
        with self._lock:
            if self._entered and len(self._events) < EVENTS:
                self._events.append((what, start, ns, nbytes, threading.get_ident()))
            else:
                self.left_out += self._entered > 0

    def rows(self) -> list[Row]:
        with self._lock:
            ordered = sorted(self._sums.items(), key=lambda item: (-item[1][1], item[0]))
            return [Row(*what, calls, ns / 1e9, nbytes) for what, (calls, ns, nbytes) in ordered]

    def trace(self) -> list[dict[str, Any]]:
        with self._lock:
            events = sorted(self._events, key=lambda event: (event[1], -event[2]))
        threads = {thread: i for i, thread in enumerate(dict.fromkeys(event[-1] for event in events))}  # viewers take small numbers
        return [
            {**_event(what, nbytes), "ts": (start - self._start) / 1e3, "dur": ns / 1e3, "pid": os.getpid(), "tid": threads[thread]}
            for what, start, ns, nbytes, thread in events
        ]


def _event(what: What, nbytes: int) -> dict[str, Any]:
    """What a trace says of a kernel, or of an operator around its kernels."""
    fields = dict(zip(Row._fields, what, strict=False))
    name, kind = (fields["kernel"], "kernel") if fields["kernel"] else (f"{fields['operator']} {fields['direction']}", "operator")
    return {"name": name, "cat": kind, "ph": "X", "args": {name: value for name, value in (*fields.items(), ("nbytes", nbytes)) if value}}


# ---------------------------------------------------------------- the text

HEAD = ("operator", "pass", "kernel", "on", "calls", "ms", "%", "bytes", "")
_LEFT = (0, 1, 2, 3, 8)  # columns
_FUSED = {"broken": "its chain was broken", "recomputed": "its chain was broken, so it ran again"}
_MOVED = {"adopt": "brought over", "to_numpy": "brought to NumPy"}


def table(rows: list[Row]) -> str:
    """A line a row, and one of totals."""
    total = sum(row.seconds for row in rows)
    sums = _figures(sum(r.calls for r in rows), total, total, sum(r.nbytes for r in rows))
    return _aligned([HEAD, *(_line(row, total) for row in rows), ("total", "", "", "", *sums, "")])


def _line(row: Row, total: float) -> tuple[str, ...]:
    on = row.backend if row.algorithm in ("", row.backend) else f"{row.backend}: {row.algorithm}"
    fused = row.fused and _FUSED.get(row.fused, f"was {row.fused}")
    notes = (_MOVED.get(row.kernel, ""), fused, row.fallback and f"left to {row.algorithm}: {row.fallback}")
    figures = _figures(row.calls, row.seconds, total, row.nbytes)
    return row.operator or "-", row.direction or "-", row.kernel or "(arithmetic)", on, *figures, "; ".join(filter(None, notes))


def _figures(calls: int, seconds: float, total: float, nbytes: int) -> tuple[str, str, str, str]:
    return str(calls), f"{1e3 * seconds:.3f}", f"{100 * seconds / total if total else 0:.1f}", _amount(nbytes)


def _amount(nbytes: int) -> str:
    """2,345,678 as "2.3 MB"."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"


def _aligned(lines: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ("  ".join(f"{cell:{'<' if i in _LEFT else '>'}{widths[i]}}" for i, cell in enumerate(line)) for line in lines)
    return "\n".join(row.rstrip() for row in rows)
