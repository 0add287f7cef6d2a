"""ms of gradients through numpy.fft and numpy.linalg, beside HIPS autograd's.

A call records a function of one array, or of a matrix and a right side, and walks back from a fixed cotangent: value and gradient, and
nothing else.  fft: 64 signals of 1,024, an image of 256 x 256, and signals filled up to twice their length.  linalg: a matrix of
150 x 150, and 200 matrices of 6 x 6.  autograd has no gradient of qr and lstsq.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import harness
import numpy as np
from harness import Call, Report, Target

import autotape as at

TARGETS = [Target("autotape", "autograd", 1.0)]


class Case(NamedTuple):
    """A function f(numpy, *args), numpy being the contender's, and its arguments."""

    name: str
    f: Callable[..., Any]
    args: tuple[np.ndarray, ...]


def transforms(batch: int, n: int, side: int) -> list[Case]:
    """Of real and complex signals (batch, n), and images (side, side)."""
    rng = np.random.default_rng(0)
    x, image = rng.normal(size=(batch, n)), rng.normal(size=(side, side))
    z, spectrum = x + 1j * rng.normal(size=x.shape), np.fft.rfft(x)
    return [
        Case("fft of complex signals", lambda m, x: m.fft.fft(x), (z,)),
        Case("fft of real signals", lambda m, x: m.fft.fft(x), (x,)),
        Case("ifft", lambda m, x: m.fft.ifft(x), (z,)),
        Case("fft, filled up with zeros", lambda m, x: m.fft.fft(x, 2 * n), (z,)),
        Case("rfft", lambda m, x: m.fft.rfft(x), (x,)),
        Case("irfft", lambda m, x: m.fft.irfft(x), (spectrum,)),
        Case("fft2", lambda m, x: m.fft.fft2(x), (image + 0j,)),
        Case("rfft2", lambda m, x: m.fft.rfft2(x), (image,)),
        Case("irfft2", lambda m, x: m.fft.irfft2(x), (np.fft.rfft2(image),)),
        Case("fftshift of fft2", lambda m, x: m.fft.fftshift(m.fft.fft2(x)), (image + 0j,)),
        Case("abs(fft) ** 2", lambda m, x: m.abs(m.fft.fft(x)) ** 2, (x,)),
    ]


def matrices(*shape: int) -> list[Case]:
    """Of symmetric positive matrices whose eigenvalues are apart."""
    rng = np.random.default_rng(0)
    n = shape[-1]
    noise = rng.normal(size=shape) / n
    a, b = noise + noise.swapaxes(-1, -2) + np.diag(np.arange(2.0, n + 2)), rng.normal(size=shape)
    return [
        Case("inv", lambda m, a: m.linalg.inv(a), (a,)),
        Case("solve", lambda m, a, b: m.linalg.solve(a, b), (a, b)),
        Case("det", lambda m, a: m.linalg.det(a / (n + 1)), (a,)),
        Case("slogdet", lambda m, a: m.linalg.slogdet(a)[1], (a,)),
        Case("cholesky", lambda m, a: m.linalg.cholesky(a), (a,)),
        Case("eigh", lambda m, a: m.linalg.eigh(a)[1], (a,)),
        Case("svd", lambda m, a: m.linalg.svd(a, full_matrices=False)[1], (a,)),
        Case("pinv", lambda m, a: m.linalg.pinv(a), (a,)),
        Case("norm", lambda m, a: m.linalg.norm(a), (a,)),
    ]


def contenders(case: Case, peers: dict[str, Any]) -> dict[str, Call]:
    """Value and gradient by each."""
    numbers = tuple(range(len(case.args)))
    ct = np.ones_like(case.f(np, *case.args))

    def autotape() -> Any:
        return at.vjp(lambda *args: case.f(np, *args), *case.args)[1](ct)

    if not (autograd := peers.get("autograd")):
        return {"autotape": autotape}
    numpy = importlib.import_module("autograd.numpy")
    vjp = autograd.make_vjp(lambda *args: case.f(numpy, *args), numbers)
    return {"autotape": autotape, "autograd": lambda: vjp(*case.args)[0](ct)}


def main() -> None:
    """Print a table a function."""
    args = harness.options(__doc__)
    peers = harness.peers("autograd")
    report = Report(args.json, {"autotape": at, **peers})
    rounds = 2 if args.quick else args.rounds or 41
    sizes = ((2, 8, 4), (5, 5), (2, 3, 3)) if args.quick else ((64, 1024, 256), (150, 150), (200, 6, 6))
    signals, *stacks = sizes
    cases = [(case, case.args[0].shape) for case in transforms(*signals)]
    cases += [(case, shape) for shape in stacks for case in matrices(*shape)]
    for case, shape in cases:
        title = f"{case.name}, {' x '.join(map(str, shape))}"
        report.time(title, contenders(case, peers), TARGETS, rounds=rounds)
    report.close()


if __name__ == "__main__":
    main()
