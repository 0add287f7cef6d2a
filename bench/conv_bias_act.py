"""Convolution + bias + relu in one call against the same unfused and against PyTorch, alone and in residual networks.

"fused" is the default math mode, "unfused" the pedantic one, both on the fastest backend that can be used here.  Autotape's images have
their channels last in memory, as every operator of oneDNN leaves them, unless a line says otherwise; PyTorch runs eagerly with either
layout.  Everything is compared before it is timed.  Parts, of which some can be named:

    cases       relu(conv(x, w) + b) forward, and forward and backward
    blocks      a basic block of ResNet-18 and a bottleneck of ResNet-50, with batchnorm, forward and backward
    inference   ResNet-18 forward, its batchnorms folded into weights and biases
    training    a step of SGD of ResNet-18, with batchnorm
    memory      the peak of ten convolutions in a row, forward and backward, each contender in a process of its own
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import harness
import numpy as np
from harness import Report, Target
from ops20 import Autotape, Row, Torch, agree, compare, last

import autotape as at
from autotape import backend, math_mode
from autotape.opsets import v20

GAIN, BLOCK, FORWARD, RESNET_GAIN, STEP, PEAK = 1.04, 0.70, 0.70, 1.05, 0.75, 0.60
AT_KINKS = 3e-3  # gradients' tolerance: a number that rounding takes across relu's kink changes some of them by all they are
RATE, LAYERS, KEPT = 1e-4, 10, "every intermediate kept"
RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """A convolution, and the most its fused forward may take of PyTorch's."""

    name: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    limit: float | None = None
    padding: int = 0
    stride: int = 1
    group: int = 1


CASES = [
    Case("3x3, 64 -> 64, 56x56", (16, 64, 56, 56), (64, 64, 3, 3), 0.92, padding=1),
    Case("LeNet's first", (64, 1, 28, 28), (20, 1, 5, 5), 0.80),
    Case("LeNet's second", (64, 20, 12, 12), (50, 20, 5, 5), 0.65),
    Case("7x7 by 2, 3 -> 64, 224x224", (4, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2),
    Case("1x1, 256 -> 64, 28x28", (16, 256, 28, 28), (64, 256, 1, 1), 0.40),
    Case("3x3 depthwise, 64, 56x56", (16, 64, 56, 56), (64, 1, 3, 3), padding=1, group=64),
]


def some(*shape: int) -> np.ndarray:
    """Weights that keep the variance of what they meet, or images."""
    fan_in = np.prod(shape[1:]) if len(shape) == 4 else 1
    return RNG.normal(size=shape).astype("f4") * np.float32((2 / fan_in) ** 0.5)


def small(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1, shape[1], 14, 14)


def row_of(case: Case, quick: bool) -> Row:
    """The case for contenders."""
    _, x, w, _, padding, stride, group = case

    def ours(x: Any, w: Any, b: Any) -> Any:
        return v20.relu(v20.conv4(w, x, padding=padding, stride=stride, group=group, mode=1) + b)

    def theirs(torch: Any, x: Any, w: Any, b: Any) -> Any:
        return torch.relu(torch.conv2d(x, w, b.flatten(), stride, padding, 1, group))

    images = RNG.normal(size=small(x) if quick else x).astype("f4")
    return Row(case.name, ours, theirs, (images, some(*w), some(1, w[0], 1, 1)), close=AT_KINKS)


def block_of(name: str, channels: int, *weights: tuple[int, ...], quick: bool) -> Row:
    """Convolutions with batchnorm, relu between them, around a shortcut; the images are 56x56."""

    def ours(x: Any, *p: Any) -> Any:
        y = x
        for w, bn in zip(p[::2], p[1::2], strict=True):
            y = y if y is x else v20.relu(y)
            y = v20.batchnorm(v20.conv4(w, y, padding=w.shape[2] // 2, mode=1), params=bn, training=True)
        return v20.relu(y + x)

    def theirs(torch: Any, x: Any, *p: Any) -> Any:
        y = x
        for w, bn in zip(p[::2], p[1::2], strict=True):
            y = y if y is x else torch.relu(y)
            y = torch.conv2d(y, w, None, 1, w.shape[2] // 2)
            y = torch.batch_norm(y, *bn.split(len(w)), None, None, True, 0.1, 1e-5, False)
        return torch.relu(y + x)

    p = [a for w in weights for a in (some(*w), np.repeat(np.float32([1, 0]), w[0]))]
    images = RNG.normal(size=(1, channels, 8, 8) if quick else (16, channels, 56, 56)).astype("f4")
    return Row(name, ours, theirs, (images, *p), close=AT_KINKS)


def contenders(row: Row, peers: dict[str, Any]) -> dict[str, Any]:
    """Those of a case or a block by name."""
    name = backend.get()
    found: dict[str, Any] = {"fused": Autotape(name, row, last), "unfused": Autotape(name, row, last, "pedantic")}
    found["fused, channels first"] = Autotape(name, row, np.asarray)
    for peer, torch in peers.items():
        found |= {peer: Torch(torch, row, np.asarray), f"{peer}, channels_last": Torch(torch, row, last)}
    return found


def measure(report: Report, row: Row, peers: dict[str, Any], rounds: int, forward: list[Target], both: list[Target]) -> None:
    """Its tables: forward, unless it has no targets, and forward and backward."""
    found = contenders(row, peers)
    agree(row, found)
    if forward:
        calls = {name: functools.partial(c.run, c.forward) for name, c in found.items()}
        report.time(f"{row.name}: forward", calls, forward, rounds=rounds, settled=True)
    calls = {name: functools.partial(c.run, c.gradients) for name, c in found.items()}
    report.time(f"{row.name}: forward and backward", calls, both, rounds=rounds, settled=True)


def cases(report: Report, peers: dict[str, Any], rounds: int, quick: bool) -> None:
    """Two tables for each."""
    for case in CASES:
        forward = [Target("fused", "torch", case.limit), Target("fused", "torch, channels_last", 1.0), Target("fused", "unfused", 1 / GAIN)]
        both = [target._replace(limit=None) for target in forward]
        measure(report, row_of(case, quick), peers, rounds, forward, both)


def blocks(report: Report, peers: dict[str, Any], rounds: int, quick: bool) -> None:
    """One table for each."""
    basic = block_of("basic block, 64 channels", 64, (64, 64, 3, 3), (64, 64, 3, 3), quick=quick)
    bottleneck = block_of("bottleneck, 256 channels", 256, (64, 256, 1, 1), (64, 64, 3, 3), (256, 64, 1, 1), quick=quick)
    more = [Target("fused", "torch, channels_last"), Target("fused", "unfused")]
    measure(report, basic, peers, min(rounds, 9), [], [Target("fused", "torch", BLOCK), *more])
    measure(report, bottleneck, peers, min(rounds, 9), [], [Target("fused", "torch"), *more])


# -- ResNet-18 (He et al. 2016)

STAGES = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]


def weights() -> list[tuple[int, ...]]:
    """The shapes of its convolutions' weights, block by block."""
    found = [(64, 3, 7, 7)]
    for i, o, stride in STAGES:
        found += [(o, i, 3, 3), (o, o, 3, 3)] + [(o, i, 1, 1)] * (stride > 1)
    return found


def resnet18(conv: Callable[..., Any], relu: Callable[[Any], Any], pool: Callable[[Any], Any], x: Any) -> Any:
    """All but its last layer; conv(n, x, stride) is convolution n and what follows it, its batchnorm or its bias."""
    x, n = pool(relu(conv(0, x, 2))), 1
    for _, _, stride in STAGES:
        y = conv(n + 1, relu(conv(n, x, stride)), 1)
        x = relu(y + (conv(n + 2, x, stride) if stride > 1 else x))
        n += 2 + (stride > 1)
    return x.mean((2, 3))


class Ours:
    """ResNet-18 in autotape, in one math mode."""

    def __init__(self, mode: str, parameters: list[np.ndarray], x: np.ndarray, labels: np.ndarray, folded: bool):
        self.mode, self.parameters, self.x, self.folded = mode, [p.copy() for p in parameters], at.array(x), folded
        self.moments = [v20.bnmoments() for _ in weights()]
        self.tensors = [at.array(p) for p in parameters]
        self.value_and_grad = at.value_and_grad(lambda p: v20.nll(self.scores(p), labels))

    def scores(self, p: Any) -> Any:
        def conv(n: int, x: Any, stride: int) -> Any:
            w, b = p[2 * n], p[2 * n + 1]
            y = v20.conv4(w, x, padding=w.shape[2] // 2, stride=stride, mode=1)
            return y + b if self.folded else v20.batchnorm(y, self.moments[n], b, training=True)

        return resnet18(conv, v20.relu, lambda x: v20.pool(x, window=3, stride=2, padding=1), self.x) @ p[-2] + p[-1]

    def forward(self) -> np.ndarray:
        with math_mode.use(self.mode):
            return self.scores(self.tensors).numpy()

    def step(self) -> float:
        with math_mode.use(self.mode):
            loss, gradients = self.value_and_grad(self.parameters)
        for p, g in zip(self.parameters, gradients, strict=True):
            p -= RATE * g
        return float(loss)


class Theirs:
    """ResNet-18 in PyTorch, in one memory format."""

    def __init__(self, torch: Any, layout: str, parameters: list[np.ndarray], x: np.ndarray, labels: np.ndarray, folded: bool):
        def laid(a: np.ndarray) -> Any:
            t = torch.tensor(a)
            return t.to(memory_format=getattr(torch, layout)) if a.ndim == 4 and a.shape[2] > 1 else t

        self.torch, self.folded, self.x, self.labels = torch, folded, laid(x), torch.from_numpy(labels)
        self.parameters = [laid(p.reshape(-1) if p.shape[2:] == (1, 1) and p.shape[0] == 1 else p).requires_grad_() for p in parameters]
        self.moments = [(torch.zeros(w[0]), torch.ones(w[0])) for w in weights()]
        self.sgd = torch.optim.SGD(self.parameters, lr=RATE)

    def scores(self) -> Any:
        torch, p = self.torch, self.parameters

        def conv(n: int, x: Any, stride: int) -> Any:
            w, b = p[2 * n], p[2 * n + 1]
            y = torch.conv2d(x, w, b if self.folded else None, stride, w.shape[2] // 2)
            return y if self.folded else torch.batch_norm(y, *b.split(len(w)), *self.moments[n], True, 0.1, 1e-5, False)

        return resnet18(conv, torch.relu, lambda x: torch.max_pool2d(x, 3, 2, 1), self.x) @ p[-2] + p[-1]

    def forward(self) -> Any:
        with self.torch.inference_mode():
            return self.scores().numpy()

    def step(self) -> float:
        self.sgd.zero_grad()
        loss = self.torch.nn.functional.cross_entropy(self.scores(), self.labels)
        loss.backward()
        self.sgd.step()
        return loss.item()


def nets(peers: dict[str, Any], batch: int, side: int, folded: bool) -> dict[str, Any]:
    """Every contender with the same network and images."""
    p = [a for w in weights() for a in (some(*w), some(1, w[0], 1, 1) * 0.1 if folded else np.repeat(np.float32([1, 0]), w[0]))]
    p += [some(512, 1000) * np.float32(512**-0.5), np.zeros(1000, "f4")]
    about = p, RNG.normal(size=(batch, 3, side, side)).astype("f4"), RNG.integers(0, 1000, batch), folded
    found: dict[str, Any] = {"fused": Ours("default", *about), "unfused": Ours("pedantic", *about)}
    for name, torch in peers.items():
        found |= {name: Theirs(torch, "contiguous_format", *about), f"{name}, channels_last": Theirs(torch, "channels_last", *about)}
    return found


def inference(report: Report, peers: dict[str, Any], rounds: int, quick: bool) -> None:
    """One table."""
    targets = [Target("fused", "torch", FORWARD), Target("fused", "unfused", 1 / RESNET_GAIN), Target("fused", "torch, channels_last")]
    resnet(report, "forward", "forward, batchnorm folded", peers, rounds, targets, quick)


def training(report: Report, peers: dict[str, Any], rounds: int, quick: bool) -> None:
    """One table."""
    targets = [Target("fused", "torch", STEP), Target("fused", "unfused"), Target("fused", "torch, channels_last")]
    resnet(report, "step", "forward, backward and SGD", peers, rounds, targets, quick)


def resnet(report: Report, kind: str, what: str, peers: dict[str, Any], rounds: int, targets: list[Target], quick: bool) -> None:
    """The table of all nets' `kind`; what they give, scores or a loss, is compared first."""
    batch, side = (2, 32) if quick else (8, 224)
    calls = {name: getattr(net, kind) for name, net in nets(peers, batch, side, folded=kind == "forward").items()}
    compare(f"ResNet-18's {kind}", {name: [np.asarray(call())] for name, call in calls.items()})
    report.time(f"ResNet-18, {batch} images of {side}x{side}: {what}", calls, targets, rounds=min(rounds, 5), settled=True)


# -- memory


def ten_layers(contender: str, side: int) -> harness.Call:
    """Forward and backward by this contender; or forward alone, keeping all that is computed."""
    x, w, b = last(RNG.normal(size=(16, 64, side, side)).astype("f4")), some(64, 64, 3, 3), some(64)

    def loss(w: Any, b: Any, kept: list[Any] | None = None) -> Any:
        h = at.asarray(x)
        for _ in range(LAYERS):
            y = v20.conv4(w, h, padding=1, mode=1)
            z = y + b[:, None, None]
            h = v20.relu(z)
            if kept is not None:
                kept += [y.numpy(), z.numpy(), h.numpy()]
            del y, z
        return np.sum(h)

    def theirs() -> Any:
        torch = harness.peers("torch")["torch"]
        leaves, h = [torch.from_numpy(a).requires_grad_() for a in (w, b)], torch.from_numpy(x)
        for _ in range(LAYERS):
            h = torch.relu(torch.conv2d(h, *leaves, padding=1))
        return torch.autograd.grad(h.sum(), leaves)

    def ours() -> Any:
        with math_mode.use("default" if contender == "fused" else "pedantic"):
            return loss(w, b, []) if contender == KEPT else at.grad(loss, argnums=(0, 1))(w, b)

    return theirs if contender == "torch" else ours


def peak(contender: str, side: int) -> dict[str, float | None]:
    """MB of NumPy's buffers and MiB of the process, without the inputs, in this process."""
    call = ten_layers(contender, side)
    if contender == "torch":
        harness.peers("torch")
    before = harness.resident("VmRSS")
    tracemalloc.start()
    call()
    after = harness.resident("VmHWM")
    return {"buffers": tracemalloc.get_traced_memory()[1] / 1e6, "process": None if before is None or after is None else after - before}


def memory(report: Report, peers: dict[str, Any], rounds: int, quick: bool) -> None:
    """One table for the buffers and one for the process, of one run."""
    side, peaks = 8 if quick else 56, {}
    for name in ("fused", "unfused", KEPT, *peers):
        command = [sys.executable, __file__, "--one", name, str(side)]
        peaks[name] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    title = f"{LAYERS} layers, forward and backward: peak of "
    buffers = {name: [found["buffers"]] for name, found in peaks.items() if name != "torch"}
    report.show(title + "NumPy's buffers", "MB", buffers, [Target("fused", "unfused", PEAK), Target("fused", KEPT)])
    process = {name: [found["process"]] for name, found in peaks.items() if found["process"] is not None}
    report.show(title + "the process", "MiB", process, [Target("fused", peer) for peer in ("unfused", KEPT, *peers)])


def main() -> None:
    """Print the tables of the parts."""
    parser = harness.parser(__doc__)
    parser.add_argument("parts", nargs="*", help="only these")
    args = parser.parse_args()
    peers = harness.peers("torch")
    backend.set("auto")
    report = Report(args.json, {"autotape": at, **peers})
    print(f"backend: {backend.get()}")
    for part in (cases, blocks, inference, training, memory):
        if not args.parts or part.__name__ in args.parts:
            part(report, peers, 2 if args.quick else args.rounds or 15, args.quick)
    report.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        backend.set("auto")
        print(json.dumps(peak(sys.argv[2], int(sys.argv[3]))))
    else:
        main()
