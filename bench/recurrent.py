"""A recurrent layer 256 -> 256 over 256 steps of 32 sequences, x (256, 32, 256) in float32, against PyTorch: with gradients, and alone.

The gradients are those of sum(y * v) in x and in all weights.  Both have the same weights; what they give is compared before
anything is timed.
"""

from __future__ import annotations

from typing import Any

import harness
import numpy as np
from harness import Report, Target

import autotape as at
from autotape.opsets import v20 as ops

STEPS, SEQUENCES, WIDTH = 256, 32, 256
LIMITS = {"lstm": 1.5, "gru": None, "tanh": None}


class Autotape:
    """Autotape on its numpy backend."""

    def __init__(self, kind: str, x: np.ndarray, v: np.ndarray):
        with at.random.use(0):
            self.net, self.w = ops.rnninit(WIDTH, WIDTH, rnn_type=kind, binit=lambda *dims, dtype: at.random.uniform(dims, dtype=dtype))
        self.x, self.v, self.tensor = x, v, at.asarray(x)
        self.grad = at.value_and_grad(lambda x, w: np.sum(ops.rnnforw(self.net, w, x)[0] * v), argnums=(0, 1))

    def gradients(self) -> tuple[float, list[np.ndarray]]:
        loss, (dx, dw) = self.grad(self.x, self.w)
        return float(loss), [dx, dw]

    def infer(self) -> np.ndarray:
        return ops.rnnforw(self.net, self.w, self.tensor)[0].numpy()


class Torch:
    """PyTorch, eager, with autotape's weights."""

    def __init__(self, torch: Any, kind: str, peer: Autotape):
        self.torch = torch
        layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "tanh": torch.nn.RNN}[kind]
        self.net, self.v = layer(WIDTH, WIDTH), torch.from_numpy(peer.v)
        self.x = torch.from_numpy(peer.x.copy()).requires_grad_()
        parts, start = [], 0
        for p in self.net.parameters():  # matrices, then biases, each with its gates one below the other: autotape's order
            parts.append(torch.from_numpy(peer.w[start : start + p.numel()].reshape(tuple(p.shape)).copy()))
            start += p.numel()
        self.net.load_state_dict(dict(zip(self.net.state_dict(), parts, strict=True)))

    def gradients(self) -> tuple[float, list[np.ndarray]]:
        self.x.grad = None
        self.net.zero_grad()
        loss = (self.net(self.x)[0] * self.v).sum()
        loss.backward()
        return loss.item(), [self.x.grad.numpy(), np.concatenate([p.grad.numpy().reshape(-1) for p in self.net.parameters()])]

    def infer(self) -> Any:
        with self.torch.inference_mode():
            return self.net(self.x)[0].numpy()


def agree(nets: dict[str, Any]) -> None:
    """Raise if results or gradients differ by more than 1e-4 of the largest one."""
    y, (loss, gradients) = nets["autotape"].infer(), nets["autotape"].gradients()
    for name, net in nets.items():
        its_loss, its_gradients = net.gradients()
        np.testing.assert_allclose(net.infer(), y, atol=1e-4, rtol=0, err_msg=f"result of {name}")
        np.testing.assert_allclose(its_loss, loss, rtol=1e-4, atol=1e-3, err_msg=f"loss of {name}")
        for g, want in zip(its_gradients, gradients, strict=True):
            np.testing.assert_allclose(g, want, atol=1e-4 * np.abs(want).max(), rtol=0, err_msg=f"gradient of {name}")


def main() -> None:
    """Print two tables for each kind of cell."""
    args = harness.options(__doc__)
    peers = harness.peers("torch")
    report = Report(args.json, {"autotape": at, **peers})
    rng, shape = np.random.default_rng(0), (4 if args.quick else STEPS, SEQUENCES, WIDTH)
    x, v = (rng.uniform(-1, 1, shape).astype("f4") for _ in range(2))
    rounds = 2 if args.quick else args.rounds or 15
    for kind, limit in LIMITS.items():
        nets: dict[str, Any] = {"autotape": Autotape(kind, x, v)}
        nets |= {name: Torch(peer, kind, nets["autotape"]) for name, peer in peers.items()}
        agree(nets)
        calls, targets = {name: net.gradients for name, net in nets.items()}, [Target("autotape", "torch", limit)]
        report.time(f"{kind}, forward and backward", calls, targets, rounds=rounds, unit="ms")
        calls, targets = {name: net.infer for name, net in nets.items()}, [Target("autotape", "torch")]
        report.time(f"{kind}, forward alone", calls, targets, rounds=rounds, unit="ms")
    report.close()


if __name__ == "__main__":
    main()
