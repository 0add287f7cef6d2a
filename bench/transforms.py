"""What transforms cost beside a gradient or a peer: jacobian, hvp, jvp, checkpoint, and NumPy's functions beside the operators.

jacobian: of a 500 x 500 linear map, and of tanh of it.  hvp and jvp: of a multilayer perceptron of three layers.  checkpoint: the
gradient of 1,000 steps x = tanh(x*w + b) on 1,000 numbers, in pieces of 32.  np.tanh(t): a call on a Tensor of ten numbers.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from typing import Any

import harness
import numpy as np
from harness import Call, Report, Target

import autotape as at
from autotape.opsets import array as ops

CALLS = 1_000  # of np.tanh in a timed call


def linear_maps(n: int) -> dict[str, tuple[Any, np.ndarray]]:
    """Functions by name, of a module that has tanh and an array; and where to take their Jacobians."""
    rng = np.random.default_rng(0)
    a, x = rng.normal(size=(n, n)) / n**0.5, rng.normal(size=n)
    return {"A @ x": (lambda m, x: m.dot(a, x), x), "tanh(A @ x)": (lambda m, x: m.tanh(m.dot(a, x)), x)}


def jacobians(f: Any, x: np.ndarray, peers: dict[str, Any]) -> dict[str, Call]:
    """jacobian of f at x by each contender."""
    calls: dict[str, Call] = {"autotape": lambda: at.jacobian(lambda x: f(np, x))(x)}
    if autograd := peers.get("autograd"):
        numpy = importlib.import_module("autograd.numpy")
        calls["autograd"] = lambda: autograd.jacobian(lambda x: f(numpy, x))(x)
    return calls


def perceptron(sizes: Sequence[int], batch: int) -> tuple[Any, Any, Any]:
    """The loss of a perceptron with tanh, its parameters, and a direction."""
    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(m, n)) / m**0.5, np.zeros(n)) for m, n in itertools.pairwise(sizes)]
    x, y = rng.normal(size=(batch, sizes[0])), rng.normal(size=(batch, sizes[-1]))

    def loss(params: Any) -> Any:
        h = x
        for w, b in params[:-1]:
            h = np.tanh(h @ w + b)
        w, b = params[-1]
        return np.mean((h @ w + b - y) ** 2)

    return loss, params, [(rng.normal(size=w.shape), rng.normal(size=b.shape)) for w, b in params]


def products(sizes: Sequence[int], batch: int) -> dict[str, Call]:
    """gradient, hvp and jvp of a perceptron."""
    loss, params, v = perceptron(sizes, batch)
    gradient, product = at.grad(loss), at.hvp(loss)
    return {"gradient": lambda: gradient(params), "hvp": lambda: product(params, v), "jvp": lambda: at.jvp(loss, params, v)}


def checkpointed(steps: int, piece: int, size: int) -> dict[str, Call]:
    """The gradient of a loop, kept and in checkpointed pieces."""
    rng = np.random.default_rng(0)
    x, w, b = rng.normal(size=(3, size))

    def loop(n: int, x: Any, w: Any, b: Any) -> Any:
        for _ in range(n):
            x = np.tanh(x * w + b)
        return x

    def in_pieces(x: Any, w: Any, b: Any) -> Any:
        for start in range(0, steps, piece):
            x = at.checkpoint(loop)(min(piece, steps - start), x, w, b)
        return np.sum(x)

    kept, pieces = at.grad(lambda x, w, b: np.sum(loop(steps, x, w, b)), (0, 1, 2)), at.grad(in_pieces, (0, 1, 2))
    return {"kept": lambda: kept(x, w, b), "checkpoint": lambda: pieces(x, w, b)}


def tanhs(n: int) -> dict[str, Call]:
    """n calls of the operator, and of NumPy's function, on a Tensor."""
    t = at.array(np.linspace(-1, 1, 10))

    def call(f: Any) -> Call:
        def run() -> None:
            for _ in range(n):
                f(t)

        return run

    return {"ops.tanh(t)": call(ops.tanh), "np.tanh(t)": call(np.tanh)}


def main() -> None:
    """Print the tables."""
    args = harness.options(__doc__)
    peers = harness.peers("autograd")
    report = Report(args.json, {"autotape": at, **peers})
    rounds = 2 if args.quick else args.rounds or 21
    n = 20 if args.quick else 500
    for name, (f, x) in linear_maps(n).items():
        report.time(f"jacobian of {name}, {n} x {n}", jacobians(f, x, peers), [Target("autotape", "autograd", 0.40)], rounds=rounds)
    sizes, batch = ((4, 3, 3, 2), 5) if args.quick else ((784, 256, 128, 10), 128)
    title = f"perceptron {' -> '.join(map(str, sizes))}, {batch} instances"
    report.time(title, products(sizes, batch), [Target("hvp", "gradient", 4.0), Target("jvp", "gradient")], rounds=rounds)
    steps = 50 if args.quick else 1_000
    report.time(f"{steps:,} steps on 1,000 numbers", checkpointed(steps, 32, 1_000), [Target("checkpoint", "kept")], rounds=rounds)
    calls = 10 if args.quick else CALLS
    overhead = [Target("np.tanh(t)", "ops.tanh(t)", 0.6, "-")]
    report.time("a call on a Tensor of ten numbers", tanhs(calls), overhead, rounds=rounds, unit="us", count=calls)
    report.close()


if __name__ == "__main__":
    main()
