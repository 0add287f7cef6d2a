"""Peak memory of a gradient: 40 steps of x = tanh(x*w + b) on arrays of 8 MB, in x, w and b; and 10,000 steps, checkpointed or not.

Each contender runs alone in a process of its own.  It is set beside the same chain computed forward only, with every intermediate kept
(x*w, x*w + b and the tanh of each step).  Two figures, both without the inputs: the peak of NumPy's buffers as tracemalloc counts them,
and how far the process grew at its largest (Linux only), which sees PyTorch's buffers too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc

import harness
import numpy as np
import tape
from harness import Report, Target

import autotape as at
from autotape.opsets import array as ops

STEPS, SIZE, QUICK_SIZE = 40, 1_000_000, 10_000
LONG, PIECE, LONG_SIZE, QUICK_LONG_SIZE = 10_000, 100, 1_000, 10  # steps, in one checkpoint, numbers
KEPT, LOOP, PIECES = "every intermediate kept", "10,000 steps", "10,000 steps, checkpointed"


def keep_everything(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """The chain, holding on to all that it computes."""
    kept = []
    for _ in range(STEPS):
        product = x * w
        total = product + b
        x = np.tanh(total)
        kept += [product, total, x]
    return kept


def pieces(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The chain's sum after 10,000 steps, 100 of them in a checkpoint."""

    @at.checkpoint
    def piece(x: np.ndarray) -> np.ndarray:
        for _ in range(PIECE):
            x = np.tanh(x * w + b)
        return x

    for _ in range(LONG // PIECE):
        x = piece(x)
    return np.sum(x)


def work(contender: str, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> harness.Call:
    """What the contender does, its library imported."""
    if contender == KEPT:
        return lambda: keep_everything(x, w, b)
    if contender == "numpy, by hand":
        return lambda: tape.by_hand(STEPS, x, w, b)
    if contender == "autotape":
        gradient = at.grad(tape.chain(STEPS, ops.tanh, ops.sum), argnums=(0, 1, 2))
        return lambda: gradient(x, w, b)
    if contender in (LOOP, PIECES):
        loop = at.grad(pieces if contender == PIECES else tape.chain(LONG, np.tanh, np.sum), argnums=(0, 1, 2))
        return lambda: loop(x, w, b)
    return tape.PEERS[contender](harness.peers(contender)[contender], STEPS, x, w, b)[1]


def measure(contender: str, size: int) -> dict[str, float | None]:
    """Peaks in MB and MiB, in this process."""
    call = work(contender, *tape.inputs(size))
    before = harness.resident("VmRSS")
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    del result
    after = harness.resident("VmHWM")
    return {"buffers": peak, "process": None if before is None or after is None else after - before}


def apart(contender: str, size: int) -> dict[str, float | None]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", contender, str(size)]
    found: dict[str, float | None] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def main() -> None:
    """Print one table for the buffers and one for the process."""
    args = harness.options(__doc__)
    peers = harness.peers("torch", "autograd", "mygrad")
    report = Report(args.json, {"autotape": at, **peers})
    size = QUICK_SIZE if args.quick else SIZE
    peaks = {name: apart(name, size) for name in (KEPT, "numpy, by hand", "autotape", *peers)}
    title = f"{STEPS} steps on arrays of {size * 8 / 1e6:g} MB: peak of "
    buffers = {name: [peak["buffers"]] for name, peak in peaks.items() if name != "torch"}
    unseen = {"torch": "its buffers are not NumPy's"} if "torch" in peers else {}
    report.show(title + "NumPy's buffers", "MB", buffers, [Target("autotape", KEPT, 0.45)], unseen)
    process = {name: [peak["process"]] for name, peak in peaks.items() if peak["process"] is not None}
    report.show(title + "the process", "MiB", process, [Target("autotape", peer) for peer in (KEPT, *peers)])
    size = QUICK_LONG_SIZE if args.quick else LONG_SIZE
    loops = {name: [apart(name, size)["buffers"]] for name in (LOOP, PIECES)}
    report.show(f"gradient of a loop on {size:,} numbers: peak of NumPy's buffers", "MB", loops, [Target(PIECES, LOOP, 0.05)])
    report.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
    else:
        main()
