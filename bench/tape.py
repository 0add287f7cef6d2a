"""The tape's speed: a long chain of small steps x = tanh(x*w + b) on arrays of shape (10,), against the peers.

Arithmetic on ten numbers costs next to nothing, so what is left is the price of recording an operator and of walking back over it.
All derivatives are compared before they are timed.  w is near 1 and b near 0, so that no derivative of a chain of 100,000 steps fades
into denormal numbers, whose slow arithmetic would measure the processor.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
from harness import Report, Target

import autotape as at
from autotape.opsets import array as ops


def chain(n: int, tanh: Callable[[Any], Any], total: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function that every contender differentiates; only tanh and sum have different names."""

    def f(x: Any, w: Any, b: Any) -> Any:
        for _ in range(n):
            x = tanh(x * w + b)
        return total(x)

    return f


def inputs(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, w and b, each of that many float64 numbers."""
    rng = np.random.default_rng(0)
    return rng.normal(size=size), 1 + rng.uniform(-1e-3, 1e-3, size), rng.uniform(-1e-5, 1e-5, size)


def by_hand(n: int, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """The gradient in x, w and b as one would write it in plain NumPy."""
    xs = [x]
    for _ in range(n):
        xs.append(np.tanh(xs[-1] * w + b))
    y = xs.pop()
    dx, dw, db = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    while xs:
        d = dx * (1 - y * y)
        y = xs.pop()
        dw += d * y
        db += d
        dx = d * w
    return dx, dw, db


def cases(n: int, peers: dict[str, Any]) -> tuple[dict[str, harness.Call], dict[str, harness.Call], dict[str, harness.Call]]:
    """Contenders by name: recording forward, forward and backward, and the gradient of the gradient."""
    x, w, b = inputs(10)
    f, f_numpy = chain(n, ops.tanh, ops.sum), chain(n, np.tanh, np.sum)
    gradient, gradient_numpy = at.grad(f, argnums=(0, 1, 2)), at.grad(f_numpy, argnums=(0, 1, 2))
    second = at.grad(lambda w: ops.sum(at.grad(f, argnums=1)(x, w, b)))
    forward = {"numpy, not recorded": lambda: f_numpy(x, w, b), "autotape": lambda: at.vjp(f, x, w, b)}
    backward = {"numpy, by hand": lambda: by_hand(n, x, w, b), "autotape": lambda: gradient(x, w, b)}
    backward["autotape, through np.tanh"] = lambda: gradient_numpy(x, w, b)
    twice = {"autotape": lambda: second(w)}
    for name, peer in peers.items():
        for contenders, call in zip((forward, backward, twice), PEERS[name](peer, n, x, w, b), strict=False):
            contenders[name] = call
    return forward, backward, twice


def torch_cases(torch: Any, n: int, *arrays: np.ndarray) -> tuple[harness.Call, ...]:
    """PyTorch, eager."""
    f = chain(n, torch.tanh, torch.sum)

    def leaves() -> list[Any]:
        return [torch.tensor(a, requires_grad=True) for a in arrays]

    def backward() -> Any:
        v = leaves()
        return torch.autograd.grad(f(*v), v)

    def twice() -> Any:
        v = leaves()
        (dw,) = torch.autograd.grad(f(*v), v[1], create_graph=True)
        return torch.autograd.grad(dw.sum(), v[1])[0]

    return lambda: f(*leaves()), backward, twice


def autograd_cases(autograd: Any, n: int, *arrays: np.ndarray) -> tuple[harness.Call, ...]:
    """HIPS autograd."""
    numpy = importlib.import_module("autograd.numpy")
    f = chain(n, numpy.tanh, numpy.sum)
    all_three = autograd.grad(f, argnum=(0, 1, 2))
    return lambda: autograd.make_vjp(lambda v: f(*v))(arrays), lambda: all_three(*arrays)


def mygrad_cases(mygrad: Any, n: int, *arrays: np.ndarray) -> tuple[harness.Call, ...]:
    """MyGrad."""
    f = chain(n, mygrad.tanh, mygrad.sum)

    def backward() -> Any:
        v = [mygrad.tensor(a) for a in arrays]
        f(*v).backward()
        return [t.grad for t in v]

    return lambda: f(*map(mygrad.tensor, arrays)), backward


PEERS = {"torch": torch_cases, "autograd": autograd_cases, "mygrad": mygrad_cases}


def agree(contenders: dict[str, harness.Call]) -> None:
    """Raise if the contenders' derivatives differ."""
    want = np.asarray(contenders["autotape"]())
    for name, call in contenders.items():
        np.testing.assert_allclose(np.asarray([np.asarray(g) for g in call()]), want, rtol=1e-8, err_msg=name)


def main() -> None:
    """Print three tables for each length of chain."""
    args = harness.options(__doc__)
    peers = harness.peers("torch", "autograd", "mygrad")
    report = Report(args.json, {"autotape": at, **peers})
    for contenders in cases(20, peers)[1:]:
        agree(contenders)
    for n, rounds in ((20, 3), (40, 2)) if args.quick else ((1_000, args.rounds or 41), (100_000, 3)):
        forward, backward, twice = cases(n, peers)
        at_most = [Target("autotape", "torch", 0.40), Target("autotape", "autograd", 0.15), Target("autotape", "mygrad")]
        at_most += [Target("autotape", "numpy, by hand"), Target("autotape, through np.tanh", "torch")]
        step = {"unit": "us a step", "count": n, "rounds": rounds}
        report.time(f"forward, recording: {n:,} steps", forward, [Target("autotape", p) for p in ("numpy, not recorded", "torch")], **step)
        report.time(f"forward and backward: {n:,} steps", backward, at_most, **step)
        report.time(f"gradient of the gradient: {n:,} steps", twice, [Target("autotape", "torch", 0.50)], **step)
    report.close()


if __name__ == "__main__":
    main()
