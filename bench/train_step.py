"""One training step of LeNet: 64 float32 images of 1x28x28, forward, backward and SGD, against the peers; and inference alone.

conv 20 5x5, relu, pool 2, conv 50 5x5, relu, pool 2, 500, relu, 10, softmax cross-entropy.  Every contender has parameters of its own,
updates them in place, and returns its loss as a float, so that all of the step is done inside the timing.  Losses and gradients are
compared before anything is timed.
"""

from __future__ import annotations

import functools
from typing import Any

import harness
import numpy as np
from harness import Report, Target

import autotape as at
from autotape import backend, math_mode
from autotape.opsets import v20 as ops

BATCH, RATE = 64, 0.01
SHAPES = ((20, 1, 5, 5), (20, 1, 1), (50, 20, 5, 5), (50, 1, 1), (800, 500), (500,), (500, 10), (10,))
FAN_IN = (25, 25, 500, 500, 800, 800, 500, 500)
FORMATS = {"torch": "contiguous_format", "torch, channels_last": "channels_last"}


class Autotape:
    """Autotape on one backend, in one math mode."""

    def __init__(self, name: str, mode: str, parameters: list[np.ndarray], x: np.ndarray, labels: np.ndarray):
        self.backend, self.mode, self.parameters, self.x, self.labels = name, mode, parameters, x, labels
        self.tensors = [at.asarray(p) for p in parameters]  # the same memory: for inference, where only Tensors can fuse
        self.value_and_grad = at.value_and_grad(lambda p: ops.nll(self.scores(p), labels))

    def scores(self, p: Any) -> Any:
        h = ops.pool(ops.relu(ops.conv4(p[0], self.x, mode=1) + p[1]))
        h = ops.pool(ops.relu(ops.conv4(p[2], h, mode=1) + p[3]))
        return ops.relu(ops.mat(h) @ p[4] + p[5]) @ p[6] + p[7]

    def gradients(self) -> tuple[float, list[np.ndarray]]:
        with backend.use(self.backend), math_mode.use(self.mode):
            return self.value_and_grad(self.parameters)

    def step(self) -> float:
        loss, gradients = self.gradients()
        for p, g in zip(self.parameters, gradients, strict=True):
            p -= RATE * g
        return float(loss)

    def infer(self) -> np.ndarray:
        with backend.use(self.backend), math_mode.use(self.mode):
            return self.scores(self.tensors).numpy()


class Torch:
    """PyTorch, eager, in one memory format."""

    def __init__(self, torch: Any, memory_format: str, parameters: list[np.ndarray], x: np.ndarray, labels: np.ndarray):
        laid = functools.partial(torch.Tensor.to, memory_format=getattr(torch, memory_format))
        self.torch, self.x, self.labels = torch, laid(torch.from_numpy(x)), torch.from_numpy(labels)
        p = [torch.from_numpy(p.reshape(-1) if p.ndim == 3 else p.T.copy() if p.ndim == 2 else p) for p in parameters]  # its own layouts
        self.parameters = [(laid(t) if t.ndim == 4 else t).requires_grad_() for t in p]
        self.sgd = torch.optim.SGD(self.parameters, lr=RATE)

    def scores(self) -> Any:
        p, f = self.parameters, self.torch.nn.functional
        h = f.max_pool2d(f.relu(f.conv2d(self.x, p[0], p[1])), 2)
        h = f.max_pool2d(f.relu(f.conv2d(h, p[2], p[3])), 2)
        return f.linear(f.relu(f.linear(h.flatten(1), p[4], p[5])), p[6], p[7])

    def backward(self) -> Any:
        self.sgd.zero_grad()
        loss = self.torch.nn.functional.cross_entropy(self.scores(), self.labels)
        loss.backward()
        return loss

    def gradients(self) -> tuple[float, list[np.ndarray]]:
        loss = self.backward()
        return loss.item(), [p.grad.T.numpy() if p.ndim == 2 else p.grad.numpy() for p in self.parameters]

    def step(self) -> float:
        loss = self.backward()
        self.sgd.step()
        return loss.item()

    def infer(self) -> Any:
        with self.torch.inference_mode():
            return self.scores().numpy()


class MyGrad:
    """MyGrad."""

    def __init__(self, mygrad: Any, parameters: list[np.ndarray], x: np.ndarray, labels: np.ndarray):
        from mygrad import nnet

        self.mygrad, self.nnet, self.x, self.labels = mygrad, nnet, x, labels
        self.parameters = [mygrad.tensor(p, copy=False) for p in parameters]

    def scores(self) -> Any:
        p, relu, conv, pool = self.parameters, self.nnet.activations.relu, self.nnet.layers.conv_nd, self.nnet.layers.max_pool
        h = pool(relu(conv(self.x, p[0], stride=1) + p[1]), (2, 2), 2)
        h = pool(relu(conv(h, p[2], stride=1) + p[3]), (2, 2), 2)
        return relu(h.reshape(BATCH, -1) @ p[4] + p[5]) @ p[6] + p[7]

    def gradients(self) -> tuple[float, list[np.ndarray]]:
        loss = self.nnet.losses.softmax_crossentropy(self.scores(), self.labels)
        loss.backward()
        return loss.item(), [p.grad for p in self.parameters]

    def step(self) -> float:
        loss, gradients = self.gradients()
        for p, g in zip(self.parameters, gradients, strict=True):
            p.data -= RATE * g
        return loss

    def infer(self) -> np.ndarray:
        with self.mygrad.no_autodiff:
            return self.scores().data


def contenders(peers: dict[str, Any]) -> dict[str, Any]:
    """Each contender with its own copy of the same network and batch."""
    rng = np.random.default_rng(0)
    p = [rng.uniform(-1, 1, s).astype("f4") / np.float32(n**0.5) for s, n in zip(SHAPES, FAN_IN, strict=True)]
    x, labels = rng.uniform(0, 1, (BATCH, 1, 28, 28)).astype("f4"), rng.integers(0, 10, BATCH)

    def made(kind: Any, *first: Any) -> Any:
        return kind(*first, [a.copy() for a in p], x, labels)

    found = {}
    for name in ("numpy", "onednn"):
        if backend.available()[name] is None:
            found |= {name: made(Autotape, name, "default"), f"{name}, pedantic": made(Autotape, name, "pedantic")}
    for name, peer in peers.items():
        found |= {"mygrad": made(MyGrad, peer)} if name == "mygrad" else {n: made(Torch, peer, f) for n, f in FORMATS.items()}
    return found


def agree(nets: dict[str, Any]) -> None:
    """Raise if losses or gradients differ by more than 1e-4 of the largest gradient of that parameter."""
    loss, gradients = nets["numpy"].gradients()
    for name, net in nets.items():
        its_loss, its_gradients = net.gradients()
        np.testing.assert_allclose(its_loss, loss, rtol=1e-4, err_msg=f"loss of {name}")
        for g, want in zip(its_gradients, gradients, strict=True):
            np.testing.assert_allclose(g.reshape(want.shape), want, atol=1e-4 * np.abs(want).max(), rtol=0, err_msg=f"gradient of {name}")


def main() -> None:
    """Print one table for the step and one for inference."""
    args = harness.options(__doc__)
    peers = harness.peers("torch", "mygrad")
    report = Report(args.json, {"autotape": at, **peers})
    nets = contenders(peers)
    agree(nets)
    rounds = 2 if args.quick else args.rounds or 31
    also = [Target(name, f"{name}, pedantic") for name in nets if f"{name}, pedantic" in nets]
    also += [Target("onednn", peer) for peer in FORMATS if "onednn" in nets]
    targets = [Target("numpy", "torch", 1.50), Target("numpy", "mygrad", 0.45), *also]
    report.time("forward, backward and SGD", {name: net.step for name, net in nets.items()}, targets, rounds=rounds)
    targets = [Target("numpy", "torch"), Target("numpy", "mygrad"), *also]
    report.time("inference", {name: net.infer for name, net in nets.items()}, targets, rounds=rounds)
    report.close()


if __name__ == "__main__":
    main()
