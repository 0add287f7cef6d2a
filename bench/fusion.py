"""What fusion's bookkeeping costs: a chain product -> bias -> relu that is found and fused, against one direct call of the fused operator.

Products and elementwise kernels give an array made beforehand, so only the engine's own time is left.  Both ways are recorded.
"""

from __future__ import annotations

import functools
import operator
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
ROWS, MATRIX, BIAS = np.zeros((2048, 16)), np.zeros((16, 128)), np.zeros(128)
PRODUCT = np.zeros((2, 128))  # not of the product's shape, for the sake of the addition that is not fused


class NullKernels(NumpyKernels):
    """The numpy backend, but what the chain calls does nothing."""

    name = "null"

    def __init__(self) -> None:
        super().__init__()
        self.conv = self.conv_bias_act = lambda *_: Y
        self.matmul = self.matmul_bias_act = lambda *_: PRODUCT
        self.add, self.relu = lambda a, _: a, lambda x: x


def recorded(body: Callable[..., Any], mode: str, n: int, *inputs: np.ndarray) -> harness.Call:
    """n times the body on one tape."""

    def repeat(w: Any, x: Any, b: Any) -> Any:
        for _ in range(n):
            y = body(w, x, b)
        return y

    def call() -> Any:
        with backend.use("null"), math_mode.use(mode):
            return at.vjp(repeat, *inputs)

    return call


def chain_of(product: Callable[..., Any]) -> Callable[..., Any]:
    """product -> bias -> relu."""
    return lambda a, b, bias: ops.relu(product(a, b) + bias)


def main() -> None:
    """Print one table."""
    args = harness.options(__doc__)
    backend.register("null", NullKernels)
    report = Report(args.json, {"autotape": at})
    n, rounds = (20, 2) if args.quick else (CHAINS, args.rounds or 41)
    conv4, conv_bias_act = (functools.partial(op, mode=1) for op in (ops.conv4, ops.conv_bias_act))
    for chain, product, fused, direct, inputs in (
        ("relu(conv4 + b)", conv4, "conv_bias_act", conv_bias_act, (W, X, B)),
        ("relu(a @ b + bias)", operator.matmul, "matmul_bias_act", ops.matmul_bias_act, (ROWS, MATRIX, BIAS)),
    ):
        calls = {
            fused: recorded(direct, "default", n, *inputs),
            f"{chain}, fused": recorded(chain_of(product), "default", n, *inputs),
            f"{chain}, not fused": recorded(chain_of(product), "pedantic", n, *inputs),
        }
        targets = [Target(f"{chain}, fused", fused, 2.5, by="-")]
        report.time(f"{chain}, its kernels doing nothing", calls, targets, rounds=rounds, unit="us a chain", count=n)
    report.close()


if __name__ == "__main__":
    main()
