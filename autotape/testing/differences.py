"""A function on a line, by differences in float64: its slope, its slope to all digits, and whether it has one.

    curve = Curve(f, xs, cts, i, v, eps)      # t -> <f(x + t v), ct>, x being argument i

<a, b> is the real part of the sum of a b, whose factors may be complex.  The slope is a central difference.  Where f is real and
runs on complex arrays, Im <f(x + i h v), ct> / h with a tiny h is the same number without cancellation (the complex step of Squire
and Trapp 1998).  A kink or a jump shows in the second differences of nine points in a row: those of a smooth function are alike, and
there two or three neighbours are far above all others.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from autotape import vjp

__all__ = ["Curve", "Kink", "inner", "plain", "recorded", "wide"]

Arrays = list[np.ndarray]
Flat = Callable[..., list[Any]]  # arrays in, list of arrays out
REACH = 4  # a kink is looked for at -4 ... 4 half steps
STANDS_OUT = 100  # times the other second differences: at a kink of slopes s and t they are (t - s) / h f'' apart, h being eps / 2
BEND = 1e-3  # slopes of both sides that differ by less, relatively, are taken for a smooth function's
CONVERGES = 0.8  # the ratio of successive differences of slopes: 1/4 for a smooth function, 1/2 where its curvature jumps
TINY = 1e-20  # the complex step, whose square is nothing


class Kink(NamedTuple):
    """Slopes on both sides of a point at which a function is not smooth, and how far it jumps there (0: it has a kink)."""

    before: float
    after: float
    jump: float

    def allows(self, slope: float, tolerance: float) -> bool:
        """Whether a slope lies between those of the two sides, as that of a subgradient does."""
        return min(self.before, self.after) - tolerance <= slope <= max(self.before, self.after) + tolerance

    def __str__(self) -> str:
        slopes = f"its slope along a random direction is {self.before:.4g} on one side and {self.after:.4g} on the other"
        return f"f jumps by {self.jump:.4g}" if self.jump else slopes


class Curve:
    """t -> <f(x + t v), ct> near t = 0, where x is argument i of xs.  Its points lie half of eps apart and are computed once."""

    def __init__(self, f: Flat, xs: Arrays, cts: Arrays, i: int, v: np.ndarray, eps: float) -> None:
        self.f, self.cts, self.i, self.v, self.eps = f, cts, i, v, eps
        self.xs = [wide(x) for x in xs]
        self.point = functools.cache(self._point)

    def along(self, v: np.ndarray) -> Curve:
        """The same in another direction."""
        return Curve(self.f, self.xs, self.cts, self.i, v, self.eps)

    def _point(self, k: int) -> Arrays:
        moved = self.xs[self.i] + k * self.eps / 2 * self.v
        ys = recorded(self.f, [*self.xs[: self.i], moved, *self.xs[self.i + 1 :]])
        if [y.shape for y in ys] != [ct.shape for ct in self.cts]:
            raise ValueError(f"check_grads: the results' shapes vary near args: {[ct.shape for ct in self.cts]}, {[y.shape for y in ys]}")
        return ys

    def differences(self, weights: dict[int, float]) -> Arrays:
        """The weighted sum of points, result by result."""
        return [sum(w * y for w, y in zip(weights.values(), ys, strict=True)) for ys in zip(*map(self.point, weights), strict=True)]

    def difference(self, weights: dict[int, float]) -> float:
        return sum(map(inner, self.cts, self.differences(weights)))

    def slopes(self) -> Arrays:
        """The derivative of each result along v."""
        return [y / (2 * self.eps) for y in self.differences({2: 1, -2: -1})]

    def slope(self) -> float:
        return sum(map(inner, self.cts, self.slopes()))

    def limit(self) -> float:
        """Where the slopes of steps 2 eps, eps and eps / 2 lead if they converge (Aitken's extrapolation), else the last of them."""
        wide, middle, narrow = (self.difference({k: 1, -k: -1}) / (k * self.eps) for k in (4, 2, 1))
        first, second = middle - wide, narrow - middle
        return narrow - second**2 / (second - first) if 0 < second / (first or np.inf) < CONVERGES else narrow

    def exact_slope(self) -> float | None:
        """The slope by the complex step; None where f does not run on complex arrays.  Meaningless where f is not analytic."""
        xs: Arrays = [x.astype(np.complex128) for x in self.xs]
        xs[self.i] = xs[self.i] + 1j * TINY * self.v
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                ys = recorded(self.f, xs)
        except Exception:  # a function may refuse complex numbers in any way
            return None
        return sum(inner(ct, y.imag) for ct, y in zip(self.cts, ys, strict=True)) / TINY

    def bends(self) -> bool:
        """Whether both sides' slopes differ by more than a smooth function's do."""
        before, after = self.difference({0: 1, -2: -1}), self.difference({2: 1, 0: -1})
        return abs(after - before) > BEND * (abs(after) + abs(before)) + self.noise()

    def kink(self) -> Kink | None:
        """The one kink or jump within eps; None where there are none or many."""
        bend = {k: abs(self.difference({k - 1: 1, k: -2, k + 1: 1})) for k in range(1 - REACH, REACH)}
        if not np.isfinite(list(bend.values())).all():
            return None
        at = max(range(-2, 3), key=lambda k: bend[k - 1] + bend[k] + bend[k + 1])
        near = [bend.pop(k) for k in (at - 1, at, at + 1)]
        if max(near) <= STANDS_OUT * max(bend.values()) + self.noise():
            return None
        before, after = self.difference({at - 1: 1, at - 2: -1}), self.difference({at + 2: 1, at + 1: -1})
        gap = self.difference({at + 1: 1, at - 1: -1}) - before - after
        return Kink(before * 2 / self.eps, after * 2 / self.eps, gap if abs(gap) > 2 * abs(after - before) else 0.0)

    def noise(self) -> float:
        """What differences of a few points have of rounding errors."""
        return sum(64 * float(np.finfo(y.dtype).eps) * inner(abs(ct), abs(y)) for ct, y in zip(self.cts, self.point(0), strict=True))

    def kinked_element(self) -> tuple[int, ...]:
        """The index of an element of x along which alone there is a kink, by halving v."""
        flat, low, high = self.v.ravel(), 0, self.v.size
        while high - low > 1:
            middle = (low + high) // 2
            inside = (np.arange(flat.size) >= low) & (np.arange(flat.size) < middle)
            half = self.along(np.where(inside, flat, 0).reshape(self.v.shape))
            low, high = (low, middle) if half.kink() else (middle, high)
        return tuple(int(k) for k in np.unravel_index(low, self.v.shape))


def recorded(f: Flat, xs: Arrays) -> Arrays:
    """f's results while a tape records, as when a gradient is computed: what an operator does may depend on it."""
    ys, _ = vjp(f, *xs)
    return [plain(y) for y in ys]


def inner(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum(wide(a) * b).real)


def wide(x: np.ndarray) -> np.ndarray:
    """x in float64, or complex128."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def plain(leaf: Any) -> np.ndarray:
    """A leaf as a NumPy array of its own."""
    return np.array(leaf.numpy() if hasattr(leaf, "numpy") else leaf)
