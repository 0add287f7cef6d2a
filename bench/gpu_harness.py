"""What the parts of gpu.py share: the backends and peers that are here, the clock, the time that is left, and the results so far.

A part is a generator of items, of a name and a function that measures it, prints a line, and gives what is to be kept.  What is printed
at the end of a part, the generator prints after its last item.
"""

from __future__ import annotations

import functools
import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np

from autotape import backend, math_mode

Call = Callable[..., Any]
Items = Iterator[tuple[str, Call]]
Part = Callable[["Bench"], Items]
MIB = 2**20
RNG = np.random.default_rng(0)


class Contender(NamedTuple):
    """A call, and the context in which it is made: a backend and a math mode, or PyTorch's settings."""

    call: Call
    within: Callable[[], Any] = nullcontext


def ours(call: Call, name: str, mode: str = "default") -> Contender:
    """On a backend of autotape."""
    return Contender(call, functools.partial(running, name, mode))


@contextmanager
def running(name: str, mode: str = "default") -> Iterator[None]:
    with backend.use(name), math_mode.use(mode):
        yield


def theirs(torch: Any, call: Call, tf32: bool = False, benchmark: bool = False) -> Contender:
    """By PyTorch, which by its own default has TF32 in convolutions and no benchmark."""
    flags = {"enabled": True, "benchmark": benchmark, "deterministic": False, "allow_tf32": tf32}
    return Contender(call, functools.partial(torch.backends.cudnn.flags, **flags))


class Bench:
    """What is here, and what was found."""

    def __init__(self, quick: bool, file: Path | None, why_not: str | None) -> None:
        """why_not: the reason for which there is no backend "cudnn"."""
        self.until = time.perf_counter()
        self.quick, self.file, self.why_not = quick, file, why_not
        self.tables: dict[str, Any] = {name: backend.load(name) for name in ("pycuda", "cudnn")[: 1 if why_not else 2]}
        self.k, self.best = self.tables["pycuda"], list(self.tables)[-1]
        self.size = MIB // 64 if quick else 64 * MIB  # bytes of a large array
        self.peers = {name: peer for name, peer in harness.peers("torch", "cupy").items() if _has_device(name, peer)}
        self.results: dict[str, dict[str, Any]] = {}
        self.found: dict[str, Any] = {}  # of the part that runs

    # -- parts
    def run(self, part: Part, seconds: float) -> bool:
        """Measure its items, as many as the time of all parts so far allows.  Whether all went well."""
        self.until += seconds
        self.found = self.results[part.__name__] = {}
        left: list[str] = []
        _tried(lambda: self._measure(part(self), left), self.found, "failed")
        if left:
            print(f"  no time left for {'; '.join(left[:8])}{f' and {len(left) - 8} more' * (len(left) > 8)}")
            self.found["no time left for"] = left
        self._write()
        return not any(isinstance(r, dict) and "failed" in r for r in self.found.values())

    def _measure(self, items: Items, left: list[str]) -> None:
        for name, measure in items:
            if self.seconds_left() <= 0:
                left.append(name)
                continue
            _tried(measure, self.found, name)
            self._write()

    def seconds_left(self) -> float:
        """For the part that runs."""
        return self.until - time.perf_counter()

    def _write(self) -> None:
        """The file is whole at any time."""
        if self.file:
            self.file.with_suffix(".part").write_text(json.dumps(self.results, indent=1))
            self.file.with_suffix(".part").replace(self.file)

    def verdict(self, reached: bool, limit: float) -> str:
        """For the end of a line; nothing is reached or missed on small arrays."""
        return "" if self.quick else f"   target {limit:g}: {'reached' if reached else 'missed'}"

    # -- times
    def milliseconds(self, contenders: Mapping[str, Contender], rounds: int = 5) -> dict[str, float]:
        """What one call of each takes: the median of rounds in which they take turns, each run as often as makes a few milliseconds."""
        often = {name: self._often(contender) for name, contender in contenders.items()}
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        for r in range(2 if self.quick else rounds):
            for name in harness.order(list(contenders), r):
                taken[name].append(self._timed(contenders[name], often[name]))
        return {name: 1e3 * float(np.median(values)) for name, values in taken.items()}

    def _often(self, contender: Contender) -> int:
        self._timed(contender, 1)  # compiles, allocates, chooses an algorithm
        return 1 if self.quick else max(1, min(100, int(3e-3 / self._timed(contender, 1))))

    def _timed(self, contender: Contender, n: int) -> float:
        """Seconds of one of n calls.  The device is waited for before and after, which all libraries share."""
        with contender.within():
            self.k.synchronize()
            start = time.perf_counter()
            for _ in range(n):
                contender.call()
            self.k.synchronize()
            return (time.perf_counter() - start) / n

    # -- arrays
    def tensor(self, x: Any) -> Any:
        """An array of the host, or one of ours without a copy, for PyTorch."""
        return self.peers["torch"].as_tensor(x, device="cuda")


def host(x: Any) -> np.ndarray:
    """An array of ours, or of PyTorch."""
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x).astype(np.float64)


def off(x: Any, wanted: Any) -> float:
    """How far an array is from another, as a part of it."""
    x, wanted = host(x), host(wanted)
    return float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted))


def mean_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """The geometric mean of a / b."""
    return float(np.exp(np.mean([np.log(a / b) for a, b in pairs])))


def account(k: Any, call: Call) -> str:
    """What a kernel runs on, and why it was left to that."""
    k.account()
    call()
    algorithm, why = k.account()
    return f"{algorithm} ({why})" if why else algorithm


def _has_device(name: str, peer: Any) -> bool:
    """Whether a peer sees the device; on the emulated driver none does."""
    try:
        return bool(peer.cuda.is_available() if name == "torch" else peer.cuda.runtime.getDeviceCount())
    except Exception:  # whatever a library built for another driver raises
        return False


def _tried(call: Call, found: dict[str, Any], name: str) -> None:
    """Keep what a call gives; or how it failed, so that the others go on."""
    try:
        if (value := call()) is not None:
            found[name] = value
    except Exception as e:
        print(f"  {name}: {type(e).__name__}: {str(e).strip()[:300]}")
        found[name] = {"failed": traceback.format_exc()}
