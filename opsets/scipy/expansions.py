"""What large terms leave when they cancel, by series in 1 / x where x is large: stirling half_step.

Their derivatives are functions of the same kind, so they hold to any order.  All compute on NumPy's arrays, as SciPy does.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from autotape import kernels, operator

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
BERNOULLI = 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330  # of 2, 4, 6 ...
FAR = 10  # from where on series in 1 / x with these hold to rounding


def on_numpy(f, *xs):
    """f of the xs as NumPy's arrays, which gives such an array."""
    k = kernels()
    return k.adopt(f(*map(k.to_numpy, xs)))


def replaced(y, where, f, *xs):
    """The array y, but f(*xs) in float64 at the elements `where`."""
    if not where.any():
        return y
    y = np.array(y)
    with np.errstate(all="ignore"):
        y[where] = f(*(np.broadcast_to(x, y.shape)[where].astype(np.float64) for x in xs))
    return y


@operator(elementwise=True)
def stirling(x, n=0):
    """The n-th derivative of gammaln(x) - ((x - 0.5) * log(x) - x + LOG_ROOT_2PI), which vanishes for large x > 0."""
    return remainder(x, n, [1] * len(BERNOULLI), near_stirling)


@stirling.backward
def _(dy, x, n): return dy * stirling(x, n + 1)


def near_stirling(x, n):
    if n == 0:
        return special.gammaln(x) - ((x - 0.5) * np.log(x) - x + LOG_ROOT_2PI)
    if n == 1:
        return special.psi(x) - np.log(x) + 0.5 / x
    return (-1) ** n * math.factorial(n - 1) * (special.zeta(n, x) - x ** (1.0 - n) / (n - 1) - 0.5 * x**-n)


@operator(elementwise=True)
def half_step(x, n=0):
    """The n-th derivative of gammaln(x + 0.5) - gammaln(x) - 0.5 * log(x), which vanishes for large x > 0."""
    return remainder(x, n, [2.0 ** (-1 - 2 * j) - 2 for j in range(len(BERNOULLI))], near_half_step)


@half_step.backward
def _(dy, x, n): return dy * half_step(x, n + 1)


def near_half_step(x, n):
    if n == 0:
        return 0.5 * math.log(math.pi) - special.betaln(x, 0.5) - 0.5 * np.log(x)
    if n == 1:
        return special.psi(x + 0.5) - special.psi(x) - 0.5 / x
    return (-1) ** (n - 1) * math.factorial(n - 1) * (special.zeta(n, x) - special.zeta(n, x + 0.5) - 0.5 * x**-n)


def remainder(x, n, factors, near):
    """The n-th derivative of a series in 1 / x: Stirling's, each term with its factor.  Below FAR it is near(x, n)."""

    def series(x):
        powers = range(1, 2 * len(BERNOULLI), 2)
        slopes = [(-1) ** n * math.prod(range(p, p + n)) / (p * (p + 1)) for p in powers]
        return sum(s * c * f * x ** -(p + n) for s, c, f, p in zip(slopes, BERNOULLI, factors, powers, strict=True))

    def chosen(y, x):
        return replaced(replaced(y, x >= FAR, series, x), x < FAR, lambda x: near(x, n), x)

    return on_numpy(chosen, kernels().special("gammaln", [x]), x)
