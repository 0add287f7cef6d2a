"""Times contenders side by side: what every bench here is made of.

A round calls each contender once, so that whatever else the machine does meets them all alike; the order rotates from round to round,
and its direction changes after each turn.  A contender's figure is the median of its rounds; a ratio is the median of the ratios within
a round.  Import this before NumPy: it holds the maths libraries to one thread, or to what `--threads` says.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

_early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # the libraries ask for their threads when they are imported
_early.add_argument("--threads", type=int, default=1, help="threads of every contender; with more than one a clock times them")
THREADS: int = _early.parse_known_args()[0].threads
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(THREADS)))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout is measured without being installed

import numpy as np  # noqa: E402 - after the threads are set

Call = Callable[[], Any]
now = time.process_time if THREADS == 1 else time.perf_counter
SPINNING = 0.25  # seconds for which the threads of a call that has ended may go on taking time, waiting for the next one


class Target(NamedTuple):
    """`name` against `peer`: their ratio (or difference, in the table's unit) and the most it may be; None shows it only."""

    name: str
    peer: str
    limit: float | None = None
    by: str = "/"


def options(doc: str | None) -> argparse.Namespace:
    """The command line of a bench that has no options of its own."""
    return parser(doc).parse_args()


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options that all benches share."""
    shared = argparse.ArgumentParser(description=(doc or "").split("\n")[0], parents=[_early], allow_abbrev=False)
    shared.add_argument("--json", type=Path, metavar="FILE", help="also write every round's figures here")
    shared.add_argument("--rounds", type=int, help="rounds of the short cases; longer ones take fewer")
    shared.add_argument("--quick", action="store_true", help="the smallest run, to see that it works; its figures mean nothing")
    return shared


def peers(*names: str) -> dict[str, Any]:
    """Those of the named libraries that can be imported, each held to the number of threads."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            continue
    if "torch" in found:
        found["torch"].set_num_threads(THREADS)
    if "mygrad" in found:
        found["mygrad"].turn_memory_guarding_off()  # its own advice where speed counts
    if missing := [name for name in names if name not in found]:
        print(f"missing: {', '.join(missing)} (pip install 'autotape[bench]')")
    return found


def interleave(
    calls: Mapping[str, Call], rounds: int, limit: float = 20.0, settled: bool = False
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of every call by name, round by round; and why those left out were.

    On one thread they are of processor time: on a quiet machine that is what a clock shows; on a busy one it leaves out what others
    take.  More threads are timed by the clock, each call after the threads of the one before have come to rest.
    Calls that don't count come first: one, and another if it is short.  A contender that runs out of stack or memory there, or takes
    longer than `limit` seconds, is left out.
    What a call returns is dropped inside the timing: taking a graph apart is part of its price.
    settled: before each call that counts comes one that doesn't.  Where much memory is used, who comes first after another contender
    otherwise pays, by up to its own time, for the small pages which that one has left and which the system joins to large ones.
    """
    left_out = {name: why for name, call in calls.items() if (why := _trouble(call, limit))}
    names = [name for name in calls if name not in left_out]
    taken: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.freeze()  # or one contender's collections would walk through the libraries of the others
    for r in range(rounds):
        for name in order(names, r):
            gc.collect()  # nobody pays for another's garbage
            if settled:
                calls[name]()
            if THREADS > 1:
                time.sleep(SPINNING)
            taken[name].append(seconds(calls[name]))
    gc.unfreeze()
    return taken, left_out


def seconds(call: Call) -> float:
    """What one call takes."""
    start = now()
    call()
    return now() - start


def _trouble(call: Call, limit: float) -> str:
    try:
        if (taken := seconds(call)) > limit:
            return f"takes {taken:.0f} s"
        if taken < 1:
            call()
    except (RecursionError, MemoryError) as e:
        return f"{type(e).__name__}: {e}"
    return ""


def order(names: Sequence[str], r: int) -> Sequence[str]:
    """Who comes after whom in round r."""
    turn, first = divmod(r, max(len(names), 1))
    names = [*names[first:], *names[:first]]
    return names[::-1] if turn % 2 else names


class Report:
    """What one bench finds: printed table by table, and written as JSON at the end if a file is named."""

    def __init__(self, file: Path | None, libraries: Mapping[str, Any]):
        self.file = file
        self.tables: list[dict[str, Any]] = []
        self.about: dict[str, Any] = {
            "machine": f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores",
            "versions": {"python": platform.python_version(), "numpy": np.__version__}
            | {name: _version(library) for name, library in libraries.items()},
            "date": time.strftime("%Y-%m-%d"),
            "threads": THREADS,
            "clock": now.__name__,
            "gc": f"{'on' if gc.isenabled() else 'off'} {gc.get_threshold()}, collected before each call",
        }
        versions = ", ".join(f"{name} {version}" for name, version in self.about["versions"].items())
        print(f"{self.about['machine']}; {versions}; {THREADS} thread{'s' * (THREADS > 1)}; gc {self.about['gc']}")

    def time(
        self, title: str, calls: Mapping[str, Call], targets: Sequence[Target] = (), *, rounds: int, unit: str = "ms", count: float = 1,
        settled: bool = False,
    ) -> None:  # fmt: skip
        """Time the calls and show them in `unit` ("us ...", "ms ...") for each of the `count` things that a call does."""
        taken, left_out = interleave(calls, rounds, settled=settled)
        scale = {"us": 1e6, "ms": 1e3}[unit.split()[0]] / count
        self.show(title, unit, {name: [float(f"{s * scale:.5g}") for s in values] for name, values in taken.items()}, targets, left_out)

    def show(
        self,
        title: str,
        unit: str,
        values: Mapping[str, Sequence[float]],
        targets: Sequence[Target] = (),
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """One table: each contender's median and quartiles, who is left out and why, then each target's."""
        rounds = max(map(len, values.values()), default=0)
        print(f"\n{title}\n  {'':36s}{unit:>14s}{f'     quartiles of {rounds} rounds' if rounds > 1 else ''}")
        for name, v in values.items():
            low, middle, high = quartiles(v)
            print(f"  {name:36s}{middle:14.2f}{f'     {low:.2f} .. {high:.2f}' if rounds > 1 else ''}")
        for name, why in left_out.items():
            print(f"  {name:36s}{'left out':>14s}     {why}")
        results = [_measure(target, values) for target in targets]
        for result in results:
            print(f"  {_sentence(result)}")
        self.tables.append({"title": title, "unit": unit, "values": values, "left out": dict(left_out), "targets": results})

    def close(self) -> None:
        """Write the JSON file, a line a table."""
        if self.file:
            tables = ",\n".join(map(json.dumps, self.tables))
            self.file.write_text(f'{json.dumps(self.about)[:-1]}, "tables": [\n{tables}\n]}}\n')


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The 25th, 50th and 75th percentile."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(low), float(middle), float(high)


def _measure(target: Target, values: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    found: dict[str, Any] = target._asdict()
    if target.name in values and target.peer in values:
        pairs = zip(values[target.name], values[target.peer], strict=True)
        low, middle, high = quartiles([a / b if target.by == "/" else a - b for a, b in pairs])
        found |= {"median": middle, "quartiles": [low, high]}
        if target.limit is not None:
            found["reached"] = middle <= target.limit
    return found


def _sentence(found: dict[str, Any]) -> str:
    text = f"{found['name']} {found['by']} {found['peer']}: "
    if "median" not in found:
        return text + "not measured" + (f" (target {found['limit']:.2f})" if found["limit"] is not None else "")
    low, high = found["quartiles"]
    text += f"{found['median']:.2f}" + (f" ({low:.2f} .. {high:.2f})" if low < high else "")
    return text + (f"  target {found['limit']:.2f}: {'reached' if found['reached'] else 'missed'}" if "reached" in found else "")


def resident(field: str, status: str | None = None) -> float | None:
    """A process's memory in MiB, now ("VmRSS") or at its largest ("VmHWM"); None where the system is not Linux.

    `status` is the text of its /proc/<pid>/status, if it is not this process.
    """
    if status is None:
        status = Path("/proc/self/status").read_text() if sys.platform == "linux" else ""
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(field)), None)


def _processor() -> str:
    """The processor's name and widest vectors, from Linux where it is, since platform.processor() is empty there."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown processor"
    names = (line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name"))
    vectors = next((f" ({name})" for name in ("avx512f", "avx2") if f" {name} " in text), "")
    return next(names, "unknown processor") + vectors


def _version(library: Any) -> str:
    try:
        return str(getattr(library, "__version__", None) or metadata.version(library.__name__))
    except metadata.PackageNotFoundError:
        return "not installed"
