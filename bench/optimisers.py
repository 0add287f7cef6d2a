"""One update of 10 million float32 parameters in four arrays, by every optimiser, against PyTorch's (foreach).

Params are changed in place.  Before anything is timed each optimiser is compared with PyTorch's over ten updates, where PyTorch has the
same formula.
"""

from __future__ import annotations

from typing import Any

import harness
import numpy as np
from harness import Report, Target

import autotape as at
from autotape.train.optimisers import SGD, Adadelta, Adagrad, Adam, AdamW, Momentum, Nesterov, Optimiser, Rmsprop

SHAPES = ((2500, 1000),) * 4
OURS: dict[str, type[Optimiser]] = {
    "Adam": Adam, "AdamW": AdamW, "SGD": SGD, "Momentum": Momentum, "Nesterov": Nesterov, "Adagrad": Adagrad,
    "Rmsprop": Rmsprop, "Adadelta": Adadelta,
}  # fmt: skip


def theirs(torch: Any, params: Any) -> dict[str, Any]:
    """PyTorch's optimisers with our options, each made when called."""
    o = torch.optim
    return {
        "Adam": lambda: o.Adam(params, foreach=True),
        "AdamW": lambda: o.AdamW(params, foreach=True),
        "SGD": lambda: o.SGD(params, 0.1, foreach=True),
        "Momentum": lambda: o.SGD(params, 0.05, momentum=0.95, foreach=True),
        "Nesterov": lambda: o.SGD(params, 0.05, momentum=0.95, nesterov=True, foreach=True),
        "Adagrad": lambda: o.Adagrad(params, 0.05, eps=1e-6, foreach=True),
        "Rmsprop": lambda: o.RMSprop(params, 0.01, alpha=0.9, eps=1e-6, foreach=True),
        "Adadelta": lambda: o.Adadelta(params, 1.0, rho=0.9, eps=1e-6, foreach=True),
    }


def arrays(seed: int, shapes: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


def leaves(torch: Any, values: list[np.ndarray], gradients: list[np.ndarray]) -> list[Any]:
    """PyTorch's parameters, with gradients."""
    params = [torch.nn.Parameter(torch.tensor(w)) for w in values]
    for p, g in zip(params, gradients, strict=True):
        p.grad = torch.tensor(g)
    return params


def agree(torch: Any) -> None:
    """Raise if parameters differ after ten updates.  Left out are Adagrad and Rmsprop: PyTorch's have eps outside the root."""
    shapes = ((3, 4), (5,))
    for name in ("Adam", "AdamW", "SGD", "Momentum", "Nesterov", "Adadelta"):
        values = arrays(0, shapes)
        params = [at.Param(w) for w in values]
        peers = leaves(torch, values, values)
        ours, their = OURS[name](), theirs(torch, peers)[name]()
        for seed in range(1, 11):
            gradients = arrays(seed, shapes)
            ours.step(params, gradients)
            for p, g in zip(peers, gradients, strict=True):
                p.grad = torch.tensor(g)
            their.step()
        for p, peer in zip(params, peers, strict=True):
            np.testing.assert_allclose(p.numpy(), peer.detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


def contenders(name: str, torch: Any, shapes: Any) -> dict[str, harness.Call]:
    """Both libraries' step, with parameters of their own."""
    values, gradients = arrays(0, shapes), arrays(1, shapes)
    params, ours = [at.Param(w) for w in values], OURS[name]()
    calls: dict[str, harness.Call] = {"autotape": lambda: ours.step(params, gradients)}
    if torch is not None:
        peers = leaves(torch, values, gradients)
        calls["torch"] = theirs(torch, peers)[name]().step
    return calls


def main() -> None:
    """Print one table for each optimiser."""
    args = harness.options(__doc__)
    torch = harness.peers("torch").get("torch")
    report = Report(args.json, {"autotape": at} | ({"torch": torch} if torch else {}))
    if torch is not None:
        agree(torch)
    shapes = ((100, 100), (1000,)) if args.quick else SHAPES
    for name in OURS:
        limit, rounds = (0.60, 31) if name == "Adam" else (None, 11)
        targets = [Target("autotape", "torch", limit)]
        report.time(name, contenders(name, torch, shapes), targets, rounds=2 if args.quick else args.rounds or rounds)
    report.close()


if __name__ == "__main__":
    main()
