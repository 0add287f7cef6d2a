"""at.save and at.load of 500 MB of float32 arrays, beside safetensors' own save_file and load_file.

Processor time without fsync, which save_file leaves out.  What fsync adds is the disk's; the last table shows it, by the clock.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import harness
import numpy as np
from harness import Call, Report, Target

import autotape as at

PARTS, PART, QUICK_PART = 20, (2500, 2500), (25, 25)  # arrays of 25 MB
OURS, PEER, TO_DISK = "autotape", "safetensors", "autotape, fsync too"


def arrays(shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """What is saved."""
    rng = np.random.default_rng(0)
    return {f"layer{i}.weight": rng.random(shape, dtype=np.float32) for i in range(PARTS)}


def saves(tree: dict[str, np.ndarray], folder: Path, peers: Mapping[str, Any]) -> dict[str, Call]:
    """Saving by each contender, over its file of the round before."""

    def ours() -> None:
        with mock.patch.object(os, "fsync"):
            at.save(folder / OURS, tree)

    calls: dict[str, Call] = {OURS: ours}
    if peers:
        save_file = importlib.import_module("safetensors.numpy").save_file
        calls[PEER] = lambda: save_file(tree, folder / PEER)
    return calls


def loads(folder: Path, peers: Mapping[str, Any]) -> dict[str, Call]:
    """Loading by each contender, of its own file."""
    calls: dict[str, Call] = {OURS: lambda: at.load(folder / OURS)}
    if peers:
        load_file = importlib.import_module("safetensors.numpy").load_file
        calls[PEER] = lambda: load_file(folder / PEER)
    return calls


def by_the_clock(calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of every call by name, round by round, waiting for the disk included."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for r in range(rounds):
        for name in harness.order(list(calls), r):
            start = time.perf_counter()
            calls[name]()
            found[name].append(1e3 * (time.perf_counter() - start))
    return found


def main() -> None:
    """Print the tables."""
    args = harness.options(__doc__)
    peers = harness.peers(PEER)
    report = Report(args.json, {OURS: at, **peers})
    rounds = 2 if args.quick else args.rounds or 11
    tree = arrays(QUICK_PART if args.quick else PART)
    size = f"{sum(x.nbytes for x in tree.values()) / 1e6:g} MB"
    with tempfile.TemporaryDirectory() as name:
        folder, target = Path(name), [Target(OURS, PEER, 1.2)]
        report.time(f"save of {size}", saves(tree, folder, peers), target, rounds=rounds)
        report.time(f"load of {size}", loads(folder, peers), target, rounds=rounds)
        calls = {OURS: saves(tree, folder, {})[OURS], TO_DISK: lambda: at.save(folder / OURS, tree)}
        report.show(f"save of {size}, by the clock", "ms", by_the_clock(calls, min(rounds, 3)), [Target(TO_DISK, OURS)])
    report.close()


if __name__ == "__main__":
    main()
