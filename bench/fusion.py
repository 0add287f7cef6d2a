"""What fusion's bookkeeping costs: a chain conv -> bias -> relu that is found and fused, against one direct call of conv_bias_act.

Convolutions and elementwise kernels give an array made beforehand, so only the engine's own time is left.  Both ways are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness
import numpy as np
from harness import Report, Target

import autotape as at
from autotape import backend, math_mode
from autotape.backends.numpy_backend import NumpyKernels
from autotape.opsets import v20 as ops

CHAINS = 1000
W, X, B = np.zeros((3, 2, 3, 3)), np.zeros((2, 2, 6, 6)), np.zeros((1, 3, 1, 1))
Y = np.zeros((2, 3, 4, 4))


class NullKernels(NumpyKernels):
    """The numpy backend, but what the chain calls does nothing."""

    name = "null"

    def __init__(self) -> None:
        super().__init__()
        self.conv = self.conv_bias_act = self.add = self.maximum = lambda *_: Y


def recorded(body: Callable[..., Any], mode: str, n: int) -> harness.Call:
    """n times the body on one tape."""

    def repeat(w: Any, x: Any, b: Any) -> Any:
        for _ in range(n):
            y = body(w, x, b)
        return y

    def call() -> Any:
        with backend.use("null"), math_mode.use(mode):
            return at.vjp(repeat, W, X, B)

    return call


def main() -> None:
    """Print one table."""
    args = harness.options(__doc__)
    backend.register("null", NullKernels)
    report = Report(args.json, {"autotape": at})
    n, rounds = (20, 2) if args.quick else (CHAINS, args.rounds or 41)
    calls = {
        "conv_bias_act": recorded(lambda w, x, b: ops.conv_bias_act(w, x, b, activation="relu", mode=1), "default", n),
        "relu(conv4 + b), fused": recorded(lambda w, x, b: ops.relu(ops.conv4(w, x, mode=1) + b), "default", n),
        "relu(conv4 + b), not fused": recorded(lambda w, x, b: ops.relu(ops.conv4(w, x, mode=1) + b), "pedantic", n),
    }
    targets = [Target("relu(conv4 + b), fused", "conv_bias_act", 2.5, by="-")]
    report.time("a chain, its kernels doing nothing", calls, targets, rounds=rounds, unit="us a chain", count=n)
    report.close()


if __name__ == "__main__":
    main()
