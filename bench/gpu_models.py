"""Convolutions and the networks made of them, beside PyTorch: ResNet-50 and ResNet-18 (He et al. 2016), and LeNet."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from conv_bias_act import resnet18, weights
from gpu_harness import RNG, Bench, Call, Contender, Items, account, mean_ratio, off, ours, running, theirs

import autotape as at
from autotape.backends.kernels import Geometry
from autotape.opsets import v20

GAIN, FORWARD = 1.3, 0.9  # times as fast as apart; of PyTorch's time
BATCH, RATE = 32, 1e-4
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # of ResNet-50: width, blocks, and the first one's stride


class Layer(NamedTuple):
    """A convolution: the shape of its weights, its stride, and the side of its images."""

    w: tuple[int, int, int, int]
    stride: int
    side: int

    def __str__(self) -> str:
        k, c, window, _ = self.w
        return f"{window}x{window}/{self.stride} {c} -> {k} at {self.side}x{self.side}"


# -- ResNet-50
def layers() -> Iterator[Layer]:
    """Its convolutions, block by block: a block's shortcut comes last, where it has one."""
    yield Layer((64, 3, 7, 7), 2, 224)
    channels, side = 64, 56
    for width, blocks, first in STAGES:
        for stride in (first, *[1] * (blocks - 1)):
            yield Layer((width, channels, 1, 1), 1, side)
            yield Layer((width, width, 3, 3), stride, side)
            yield Layer((4 * width, width, 1, 1), 1, side // stride)
            if channels != 4 * width:
                yield Layer((4 * width, channels, 1, 1), stride, side)
            channels, side = 4 * width, side // stride


def resnet50(conv: Callable[..., Any], relu: Callable[[Any], Any], pool: Callable[[Any], Any], x: Any) -> Any:
    """All but its last layer, as conv_bias_act.resnet18 is."""
    x, n = pool(relu(conv(0, x, 2))), 1
    for _, blocks, first in STAGES:
        for i in range(blocks):
            stride = 1 if i else first
            y = conv(n + 2, relu(conv(n + 1, relu(conv(n, x, 1)), stride)), 1)
            x = relu(y + (x if i else conv(n + 3, x, stride)))
            n += 3 + (i == 0)
    return x.mean((2, 3))


# -- convolutions
class Setting(NamedTuple):
    """What arrays are, and what may be done with them."""

    name: str
    dtype: str
    mode: str = "default"
    tf32: bool = False
    last: bool = False


SETTINGS = (
    Setting("float32", "f4"),
    Setting("TF32", "f4", "fast", tf32=True),
    Setting("float16, channels_last", "f2", last=True),
    Setting("float16", "f2"),
)


def convolutions(b: Bench) -> Items:
    """Milliseconds of relu(conv + bias) for 32 images: in one call, apart (convolution, sum, relu), and by PyTorch."""
    for layer, times in list(Counter(layers()).items())[:: 8 if b.quick else 1]:
        for s in SETTINGS:
            yield f"{layer} {s.name}", functools.partial(_convolution, b, layer, times, s)
    for s in SETTINGS:
        _sum_up(b, s)


def _convolution(b: Bench, layer: Layer, times: int, s: Setting) -> dict[str, Any]:
    w, side = (narrow(layer.w, 8), min(layer.side, 8)) if b.quick else (layer.w, layer.side)
    arrays = _drawn(b.k, w, s), _drawn(b.k, (2 if b.quick else BATCH, w[1], side, side), s), b.k.uniform(3, (w[0], 1, 1), np.dtype(s.dtype))
    g = Geometry(w[2:], ((w[2] // 2,) * 2,) * 2, (layer.stride,) * 2, (1, 1))
    contenders: dict[str, Contender] = {}
    for name, k in b.tables.items():
        contenders[f"{name}, fused"] = ours(functools.partial(_fused, k, *arrays, g), name, s.mode)
        contenders[f"{name}, apart"] = ours(functools.partial(_apart, k, *arrays, g), name, s.mode)
    if torch := b.peers.get("torch"):
        call = functools.partial(_their_convolution, torch, *map(b.tensor, arrays), layer.stride)
        contenders["torch"] = theirs(torch, call, s.tf32)
        contenders["torch, benchmark"] = theirs(torch, call, s.tf32, benchmark=True)
    ms = b.milliseconds(contenders)
    differs = _differences(contenders)
    best = contenders[f"{b.best}, fused"]
    with best.within():
        runs_on = account(b.tables[b.best], best.call)
    print(f"  {layer}, {times} of them, {s.name}:" + "".join(f"  {name} {taken:.3f}" for name, taken in ms.items()))
    print(f"      {runs_on}; results differ by {max(differs.values()):.1g}")
    return {"setting": s.name, "times": times, "ms": ms, "runs on": runs_on, "differs": differs}


def _drawn(k: Any, shape: tuple[int, ...], s: Setting) -> Any:
    """Numbers between -0.5 and 0.5."""
    n, c, *spatial = shape
    x = k.uniform(1, (n, *spatial, c) if s.last else shape, np.dtype(s.dtype)) - 0.5
    return k.transpose(x, (0, 3, 1, 2)) if s.last else x


def _fused(k: Any, w: Any, x: Any, bias: Any, g: Geometry) -> Any:
    return k.conv_bias_act(w, x, bias, None, "relu", g, 1.0, 1.0)


def _apart(k: Any, w: Any, x: Any, bias: Any, g: Geometry) -> Any:
    return k.relu(k.add(k.conv(w, x, g, 1.0), bias))


def _their_convolution(torch: Any, w: Any, x: Any, bias: Any, stride: int) -> Any:
    return torch.relu(torch.conv2d(x, w, bias.flatten(), stride, w.shape[2] // 2))


def _differences(contenders: dict[str, Contender]) -> dict[str, float]:
    """How far their first images' results are from the first one's, the raw kernels'."""
    results = {}
    for name, contender in contenders.items():
        with contender.within():
            results[name] = contender.call()[:1]
    first, *others = results.items()
    return {name: off(y, first[1]) for name, y in others}


def _sum_up(b: Bench, s: Setting) -> None:
    rows = [r for r in b.found.values() if r.get("setting") == s.name]
    if not rows:
        return
    gain = mean_ratio([(r["ms"][f"{b.best}, apart"], r["ms"][f"{b.best}, fused"]) for r in rows])
    verdict = b.verdict(gain >= GAIN, GAIN)
    print(f"  {s.name}: {b.best}, fused, is {gain:.2f} times as fast as apart, geometric mean of {len(rows)}{verdict}")
    all_of_them = {name: sum(r["ms"][name] * r["times"] for r in rows) for name in rows[0]["ms"]}
    print("      each as often as it occurs:" + "".join(f"  {name} {ms:.2f} ms" for name, ms in all_of_them.items()))
    b.found[f"all, {s.name}"] = {"gain": gain, "ms": all_of_them}


# -- networks
class Operators(NamedTuple):
    """What networks are made of: conv(x, w, b or None, stride, padding), batchnorm(x, p), relu(x), pool(x, window, stride, padding),
    flat(x)."""

    conv: Callable[..., Any]
    batchnorm: Callable[..., Any]
    relu: Callable[[Any], Any]
    pool: Callable[..., Any]
    flat: Callable[[Any], Any]


def _conv(x: Any, w: Any, b: Any, stride: int, padding: int) -> Any:
    y = v20.conv4(w, x, padding=padding, stride=stride, mode=1)
    return y if b is None else y + b


AUTOTAPE = Operators(
    _conv,
    lambda x, p: v20.batchnorm(x, params=p, training=True),
    v20.relu,
    lambda x, window, stride, padding: v20.pool(x, window=window, stride=stride, padding=padding),
    v20.mat,
)


def pytorch(torch: Any) -> Operators:
    return Operators(
        lambda x, w, b, stride, padding: torch.conv2d(x, w, b, stride, padding),
        lambda x, p: torch.batch_norm(x, *p.chunk(2), None, None, True, 0.1, 1e-5, True),
        torch.relu,
        lambda x, window, stride, padding: torch.max_pool2d(x, window, stride, padding),
        lambda x: x.flatten(1),
    )


class Network(NamedTuple):
    """scores(operators, parameters, images), and what it is given."""

    scores: Callable[[Operators, Any, Any], Any]
    parameters: list[np.ndarray]
    images: np.ndarray
    labels: np.ndarray


def lenet(b: Bench) -> Network:
    shapes = ((20, 1, 5, 5), (20, 1, 1), (50, 20, 5, 5), (50, 1, 1), (800, 500), (500,), (500, 10), (10,))
    p = [(RNG.normal(size=s) / np.sqrt(np.prod(s[1:]) if len(s) == 4 else s[0])).astype("f4") for s in shapes]
    n = 1 if b.quick else 64

    def scores(o: Operators, p: Any, x: Any) -> Any:
        h = o.pool(o.relu(o.conv(x, p[0], p[1], 1, 0)), 2, 2, 0)
        h = o.pool(o.relu(o.conv(h, p[2], p[3], 1, 0)), 2, 2, 0)
        return o.relu(o.flat(h) @ p[4] + p[5]) @ p[6] + p[7]

    return Network(scores, p, RNG.normal(size=(n, 1, 28, 28)).astype("f4"), RNG.integers(0, 10, n))


def resnet(walk: Callable[..., Any], shapes: list[tuple[int, ...]], is_folded: bool, b: Bench) -> Network:
    """walk: all but the last layer.  is_folded: batchnorms are part of the weights and biases."""
    shapes = [narrow(w, 16) for w in shapes] if b.quick else shapes
    p: list[np.ndarray] = []
    for w in shapes:
        around = np.zeros((w[0], 1, 1), "f4") if is_folded else np.repeat(np.float32([1, 0]), w[0])
        p += [(RNG.normal(size=w) * np.sqrt(2 / np.prod(w[1:]))).astype("f4"), around]
    width = shapes[-1][0]
    p += [(RNG.normal(size=(width, 1000)) / np.sqrt(width)).astype("f4"), np.zeros(1000, "f4")]

    def scores(o: Operators, p: Any, x: Any) -> Any:
        def conv(n: int, x: Any, stride: int) -> Any:
            w, around = p[2 * n], p[2 * n + 1]
            y = o.conv(x, w, around if is_folded else None, stride, w.shape[2] // 2)
            return y if is_folded else o.batchnorm(y, around)

        return walk(conv, o.relu, lambda x: o.pool(x, 3, 2, 1), x) @ p[-2] + p[-1]

    n, side = (2, 32) if b.quick else (BATCH, 224)
    return Network(scores, p, RNG.normal(size=(n, 3, side, side)).astype("f4"), RNG.integers(0, 1000, n))


def narrow(w: tuple[int, ...], by: int) -> tuple[int, ...]:
    """The shape of weights with a part of the channels."""
    return (w[0] // by, w[1] // by or w[1], *w[2:])


def models(b: Bench) -> Items:
    """Milliseconds for 32 images of 224x224 forward, batchnorm folded, and of a step: forward, backward and SGD; LeNet's is for 64."""
    nets = {"ResNet-50": (resnet50, [layer.w for layer in layers()]), "ResNet-18": (resnet18, weights())}
    for kind, measure in {"forward": forward, "step": step}.items():
        for name, net in nets.items():
            make = functools.partial(resnet, *net, kind == "forward", b)
            yield f"{name} {kind}", functools.partial(_model, b, f"{name} {kind}", make, measure)
    yield "LeNet step", functools.partial(_model, b, "LeNet step", functools.partial(lenet, b), step)


def _model(b: Bench, title: str, make: Callable[[], Network], measure: Call) -> dict[str, Any]:
    contenders = measure(b, make())
    found: dict[str, Any] = {"ms": (ms := b.milliseconds(contenders))}
    print(f"  {title:20s}" + "".join(f"  {name} {taken:.2f} ms" for name, taken in ms.items()))
    if measure is forward:
        found["differs"] = _differences(contenders)
        print(f"      scores differ by {max(found['differs'].values()):.1g}")
    for name, peer in ((b.best, "torch"), (f"{b.best}, fast", "torch, TF32")):
        if peer in ms:
            ratio = ms[name] / ms[peer]
            print(f"      {name} / {peer}: {ratio:.2f}{b.verdict(ratio <= FORWARD, FORWARD) if measure is forward else ''}")
    return found


def forward(b: Bench, net: Network) -> dict[str, Contender]:
    return _contenders(b, net, at.array, _scores, _their_forward)


def step(b: Bench, net: Network) -> dict[str, Contender]:
    return _contenders(b, net, at.Param, _step, _their_step)


def lenet_step(b: Bench) -> Contender:
    return step(b, lenet(b))[b.best]


def _contenders(b: Bench, net: Network, made: Call, ours_does: Call, theirs_does: Call) -> dict[str, Contender]:
    """Autotape on its backends, the best one in fast mode as well, and PyTorch without TF32 and with it: each has parameters of its own."""
    contenders: dict[str, Contender] = {}
    for title, name, mode in [*((name, name, "default") for name in b.tables), (f"{b.best}, fast", b.best, "fast")]:
        with running(name, mode):
            p, x = [made(a) for a in net.parameters], at.array(net.images)
        contenders[title] = ours(functools.partial(ours_does, net, p, x), name, mode)
    if torch := b.peers.get("torch"):
        for title, tf32 in {"torch": False, "torch, TF32": True}.items():
            p = [b.tensor(a.reshape(-1) if a.ndim == 3 else a) for a in net.parameters]
            contenders[title] = theirs(torch, theirs_does(torch, net, p, b.tensor(net.images), b.tensor(net.labels)), tf32)
    return contenders


def _scores(net: Network, p: Any, x: Any) -> Any:
    return net.scores(AUTOTAPE, p, x)._array  # which makes a pending value real


def _step(net: Network, p: Any, x: Any) -> None:
    with at.Tape() as tape:
        loss = v20.nll(net.scores(AUTOTAPE, p, x), net.labels)
    for w, g in zip(p, tape.gradient(loss, p), strict=True):
        w -= RATE * g


def _their_forward(torch: Any, net: Network, p: Any, x: Any, labels: Any) -> Call:
    operators = pytorch(torch)

    def call() -> Any:
        with torch.inference_mode():
            return net.scores(operators, p, x)

    return call


def _their_step(torch: Any, net: Network, p: Any, x: Any, labels: Any) -> Call:
    operators, sgd = pytorch(torch), torch.optim.SGD([w.requires_grad_() for w in p], lr=RATE)

    def call() -> None:
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(net.scores(operators, p, x), labels).backward()
        sgd.step()

    return call
