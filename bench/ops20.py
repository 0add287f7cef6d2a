"""The operators of opset v20, each forward and forward with its gradient, on Knet's shapes for a batch of 32, against PyTorch.

Every backend that can be used here takes part, PyTorch runs eagerly.  Where inputs are images, oneDNN and PyTorch also get them with
their channels last in memory, as an operator before would give them; those two are compared with each other.  Results and gradients
are compared before anything is timed.  Both ways the results are made real inside the timing: a fused chain is computed, a gradient
is an array that shares memory with nothing; where PyTorch would hand out the cotangent's memory, its gradient is cloned.

    python bench/ops20.py conv4 lstm           # these rows alone
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
from harness import Report, Target

import autotape as at
from autotape import backend, math_mode
from autotape.opsets import array, v20

B = 32
MEAN, WORST = 0.65, 1.10  # of PyTorch eager: the geometric mean of all ratios, and each
CLOSE = 2e-5  # as far as results and gradients may differ, as parts of them
LONG = 0.1  # seconds of a call from which on few rounds are made


class Row(NamedTuple):
    """One operator: ours(*arrays, *constants) and theirs(torch, *arrays, *constants) do the same; gradients are those of the arrays.

    Images come first among the arrays, and weights after them.  Gradients may differ by `close`.
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    constants: tuple[np.ndarray, ...] = ()
    drops: bool = False  # at random, so that only what it leaves can be compared
    close: float = CLOSE


def rows(quick: bool) -> list[Row]:
    """The rows, on a tenth of the sizes if quick."""
    rng = np.random.default_rng(0)

    def some(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype("f4")

    b, k, c, side, t = (4, 10, 8, 6, 4) if quick else (B, 1000, 256, 14, 256)
    scores, image, w, width = some(b, k), some(b, c, side, side), some(c, c, 3, 3) / np.float32(3 * c**0.5), 2 * k if quick else 2048
    labels, signs, places = rng.integers(0, k, b), rng.choice([-1, 1], k).astype("f4"), rng.integers(0, 10 * k, (t, c))
    bn = np.concatenate([some(c) + 1, some(c)])
    with at.random.use(0):
        net, weights = v20.rnninit(c, c)
    return [
        Row("identity", lambda x: x, lambda t, x: x, (scores,)),
        Row("x[0]", lambda x: x[0], lambda t, x: x[0], (scores,)),
        Row("sum", array.sum, lambda t, x: x.sum(), (scores,)),
        Row("dropout", lambda x: v20.dropout(x, 0.5, drop=True), lambda t, x: t.dropout(x, 0.5, True), (scores,), drops=True),
        Row("logp", lambda x: v20.logp(x, axis=1), lambda t, x: t.log_softmax(x, 1), (scores,)),
        Row("softmax", lambda x: v20.softmax(x, axis=1), lambda t, x: t.softmax(x, 1), (scores,)),
        Row("logsumexp", lambda x: v20.logsumexp(x, axis=1), lambda t, x: t.logsumexp(x, 1), (scores,)),
        Row("nll", v20.nll, lambda t, x, labels: t.nn.functional.cross_entropy(x, labels), (scores,), (labels,)),
        Row("accuracy", v20.accuracy, lambda t, x, labels: (x.argmax(1) == labels).float().mean().item(), (), (scores, labels)),
        Row("bce", v20.bce, lambda t, x, ones: t.nn.functional.binary_cross_entropy_with_logits(x, ones), (scores[0],), (signs / 2 + 0.5,)),
        Row("logistic", v20.logistic, lambda t, x, signs: t.nn.functional.soft_margin_loss(x, signs), (scores[0],), (signs,)),
        Row("matmul", lambda x, w: x @ w, lambda t, x, w: x @ w, (some(b, width), some(width, k))),
        Row("bias", lambda x, b: x + b, lambda t, x, b: x + b, (scores, some(k))),
        Row("conv4", lambda x, w: v20.conv4(w, x, padding=1, mode=1), lambda t, x, w: t.conv2d(x, w, padding=1), (image, w)),
        Row("deconv4", lambda x, w: v20.deconv4(w, x, padding=1, mode=1), lambda t, x, w: t.conv_transpose2d(x, w, padding=1), (image, w)),
        Row("pool", v20.pool, lambda t, x: t.max_pool2d(x, 2), (image,)),
        Row("unpool", v20.unpool, lambda t, x: t.nn.functional.interpolate(x, scale_factor=2), (image[..., ::2, ::2].copy(),)),
        Row("mat", v20.mat, lambda t, x: x.flatten(1), (image,)),
        Row("elu", v20.elu, lambda t, x: t.nn.functional.elu(x), (image,)),
        Row("relu", v20.relu, lambda t, x: t.relu(x), (image,)),
        Row("selu", v20.selu, lambda t, x: t.selu(x), (image,)),
        Row("sigm", v20.sigm, lambda t, x: t.sigmoid(x), (image,)),
        Row("batchnorm", lambda x, p: v20.batchnorm(x, params=p, training=True), their_batchnorm, (image, bn)),
        Row("bmm", v20.bmm, lambda t, a, b: t.bmm(a, b), (some(b, c, c), some(b, c, c // 4))),
        Row("lstm", lambda x, w: v20.rnnforw(net, w, x)[0], their_lstm, (some(t, b, c), weights)),
        Row("embedding", lambda w, i: w[i], lambda t, w, i: t.nn.functional.embedding(i, w), (some(10 * k, c),), (places,)),
    ]


def their_batchnorm(torch: Any, x: Any, p: Any) -> Any:
    return torch.batch_norm(x, *p.split(x.shape[1]), None, None, True, 0.1, 1e-5, False)


def their_lstm(torch: Any, x: Any, w: Any) -> Any:
    layer = lstm_layer(torch, x.shape[2])
    sizes = [p.numel() for p in layer.parameters()]
    parts = {name: v.view(p.shape) for (name, p), v in zip(layer.named_parameters(), w.split(sizes), strict=True)}
    return torch.func.functional_call(layer, parts, (x,))[0]


@functools.cache
def lstm_layer(torch: Any, width: int) -> Any:
    return torch.nn.LSTM(width, width)


def last(x: np.ndarray) -> np.ndarray:
    """Images (N, C, H, W) with their channels last in memory; anything else as it is."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if x.ndim == 4 else x


class Autotape:
    """Autotape on one backend, in one math mode.  Weights are in C order, whatever the images are."""

    def __init__(self, name: str, row: Row, layout: Callable[[np.ndarray], np.ndarray], mode: str = "default"):
        self.backend, self.mode, self.layout = name, mode, layout
        self.f = lambda *arrays: row.ours(*arrays, *row.constants)
        with backend.use(name):
            self.arrays = [at.array(a if i else layout(a)) for i, a in enumerate(row.arrays)]

    def towards(self, v: np.ndarray) -> None:
        """v is the cotangent of the result."""
        with backend.use(self.backend):
            self.v = at.array(self.layout(v))

    def run(self, what: harness.Call, n: int = 1) -> Any:
        """What it gives; n > 1 does it as often, so that choosing a backend doesn't count."""
        with backend.use(self.backend), math_mode.use(self.mode):
            for _ in range(n - 1):
                what()
            return what()

    def forward(self) -> Any:
        y = self.f(*self.arrays)
        return y.numpy() if isinstance(y, at.Tensor) else y

    def gradients(self) -> list[np.ndarray]:
        _, pull = at.vjp(self.f, *self.arrays)
        return [g.numpy() for g in pull(self.v)]


class Torch:
    """PyTorch, eager.  Its weights lie like its images, as model.to(memory_format=...) would have it."""

    def __init__(self, torch: Any, row: Row, layout: Callable[[np.ndarray], np.ndarray]):
        self.torch, self.layout = torch, layout
        constants = [torch.from_numpy(a) for a in row.constants]
        self.f = lambda *arrays: row.theirs(torch, *arrays, *constants)
        self.arrays = [torch.from_numpy(layout(a.copy())).requires_grad_() for a in row.arrays]

    def towards(self, v: np.ndarray) -> None:
        self.v, self.aliases = self.torch.from_numpy(self.layout(v.copy())), [False] * len(self.arrays)
        if self.arrays:
            self.aliases = [g.ctypes.data == self.v.data_ptr() for g in self.gradients()]

    def run(self, what: harness.Call, n: int = 1) -> Any:
        with self.torch.inference_mode(what == self.forward):
            for _ in range(n - 1):
                what()
            return what()

    def forward(self) -> Any:
        y = self.f(*self.arrays)
        return y if isinstance(y, float) else y.detach().numpy()

    def gradients(self) -> list[np.ndarray]:
        found = self.torch.autograd.grad(self.f(*self.arrays), self.arrays, self.v)
        return [(g.clone() if aliases else g).numpy() for g, aliases in zip(found, self.aliases, strict=True)]


def contenders(row: Row, peers: dict[str, Any]) -> dict[str, Any]:
    """Those of a row by name: every backend that can be used here, and PyTorch."""
    usable = [name for name, why in backend.available().items() if why is None]
    images = any(a.ndim == 4 for a in row.arrays)
    found: dict[str, Any] = {name: Autotape(name, row, np.asarray) for name in usable}
    if images and "onednn" in usable:
        found["onednn, channels_last"] = Autotape("onednn", row, last)
    for name, peer in peers.items():
        found[name] = Torch(peer, row, np.asarray)
        if images:
            found[f"{name}, channels_last"] = Torch(peer, row, last)
    return found


def agree(row: Row, found: dict[str, Any]) -> None:
    """Raise if results or gradients differ by more than a small part of them, in the Euclidean norm."""
    first = next(iter(found.values()))
    y = first.run(first.forward)
    v = np.random.default_rng(1).uniform(0.5, 1, np.shape(y)).astype("f4")
    for c in found.values():
        c.towards(v)
    compare(f"result of {row.name}", {name: [c.run(c.forward)] for name, c in found.items()}, 2 * row.arrays[0] if row.drops else None)
    if row.arrays:
        compare(f"gradient of {row.name}", {name: c.run(c.gradients) for name, c in found.items()}, 2 * v if row.drops else None, row.close)


def compare(what: str, results: dict[str, list[Any]], kept: np.ndarray | None = None, close: float = CLOSE) -> None:
    """Every contender's arrays with the first one's, or, where elements were dropped, those left with what is kept of all."""
    wanted = next(iter(results.values())) if kept is None else [kept]
    for name, arrays in results.items():
        for a, want in zip(arrays, wanted, strict=True):
            a = a if kept is None else np.where(a == 0, want, a)
            error, size = np.linalg.norm(np.ravel(a - want)), np.linalg.norm(np.ravel(want))
            assert error <= close * size, f"{what}: {name} differs by {error:.2g}, where all of it comes to {size:.2g}"


def measure(report: Report, row: Row, found: dict[str, Any], rounds: int, targets: list[Target]) -> None:
    """A table for the result and one for result and gradients."""
    for kind in ("forward", "gradients") if row.arrays else ("forward",):
        calls = {name: (c, getattr(c, kind)) for name, c in found.items()}
        slowest = max(harness.seconds(lambda c=c, f=f: c.run(f)) for c, f in calls.values())
        n = 2 if rounds == 2 else max(1, int(4e-3 / slowest))
        runs = {name: functools.partial(c.run, f, n) for name, (c, f) in calls.items()}
        title = f"{row.name}, {'forward' if kind == 'forward' else 'forward and gradient'}"
        long, unit = slowest > LONG, "us" if n > 1 else "ms"
        report.time(title, runs, targets, rounds=min(rounds, 5) if long else rounds, unit=unit, count=n, settled=not long)


def ratio(table: dict[str, Any], name: str, peer: str) -> float:
    """A contender's time over a peer's: the median of the rounds."""
    return float(np.median(np.divide(table["values"][name], table["values"][peer])))


def summary(report: Report) -> None:
    """The geometric means of the ratios to PyTorch eager, of all tables and of those of images, and what is above its limit."""
    tables = report.tables[:]
    means(report, "all", tables, MEAN)
    if images := [t for t in tables if "torch, channels_last" in t["values"]]:
        means(report, "images", images)
    missed = {t["title"]: r for t in tables if "onednn" in t["values"] and (r := ratio(t, "onednn", "torch")) > WORST}
    print(f"\nonednn above {WORST:.2f} of torch: {len(missed)} of {len(tables)}")
    for title, r in sorted(missed.items(), key=lambda item: -item[1]):
        print(f"  {title:36s}{r:14.2f}")


def means(report: Report, what: str, tables: list[dict[str, Any]], limit: float | None = None) -> None:
    """Of the contenders that are in all of these tables: forward, with gradients, and both."""
    names = [name for name in tables[0]["values"] if all(name in t["values"] for t in tables)]
    pairs = [("numpy", "torch", None), ("onednn", "torch", limit), ("onednn, channels_last", "torch, channels_last", None)]
    for kind in ("forward", "forward and gradient", ""):
        chosen = [t for t in tables if t["title"].endswith(f", {kind}" if kind else "")]
        logs = {name: [math.log(ratio(t, name, "torch")) for t in chosen] for name in names if chosen}
        targets = [Target(name, peer, None if kind else most) for name, peer, most in pairs if {name, peer} <= {*names}]
        title = f"geometric mean of the ratios to torch: {what}, {kind or 'both'}"
        report.show(title, "ratio", {name: [math.exp(np.mean(values))] for name, values in logs.items()}, targets)


def plot(report: Report, file: Path) -> None:
    """Bars of the ratios to PyTorch eager, on a logarithmic axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.3 * len(report.tables) + 1), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(n for n in ("numpy", "onednn") if n in report.tables[0]["values"]):
        places = np.arange(len(report.tables)) + 0.4 * i
        axes.barh(places, [ratio(t, name, "torch") - 1 for t in report.tables], 0.4, left=1, label=name)
    axes.set_yticks(np.arange(len(report.tables)) + 0.2, [t["title"] for t in report.tables])
    axes.set(xscale="log", xlabel="time / PyTorch eager")
    axes.set_xticks([0.125, 0.25, 0.5, 1, 2, 4], ["1/8", "1/4", "1/2", "1", "2", "4"])
    axes.minorticks_off()
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.legend()
    figure.savefig(file)


def main() -> None:
    """Print two tables a row, and what they come to."""
    parser = harness.parser(__doc__)
    parser.add_argument("rows", nargs="*", help="only these")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the ratios (needs matplotlib)")
    args = parser.parse_args()
    peers = harness.peers("torch")
    report = Report(args.json, {"autotape": at, **peers})
    rounds = 2 if args.quick else args.rounds or 15
    targets = [Target("numpy", "torch"), Target("onednn", "torch", WORST), Target("onednn, channels_last", "torch, channels_last")]
    for row in rows(args.quick):
        if row.name in (args.rows or [row.name]):
            found = contenders(row, peers)
            agree(row, found)
            measure(report, row, found, rounds, [t for t in targets if t.limit or {t.name, t.peer} <= found.keys()])
    if args.plot and peers:
        plot(report, args.plot)
    if peers:
        summary(report)
    report.close()


if __name__ == "__main__":
    main()
