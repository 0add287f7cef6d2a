"""Hurwitz's zeta function and its differences, of which the derivatives of gamma and beta functions are made: zeta, zeta_step."""

from __future__ import annotations

import math

import numpy as np

from autotape import kernels, operator

from .expansions import BERNOULLI, FAR, on_numpy, replaced


def zeta(x, q=1.0):
    """Hurwitz's zeta function: the sum of (k + q) ** -x over k >= 0, of real x > 1 and q; for q = 1 it is Riemann's."""
    return hurwitz_zeta(x, q)


@operator(elementwise=True)
def hurwitz_zeta(x, q):
    """zeta."""
    return kernels().special("zeta", [x, q])


@hurwitz_zeta.backward("q")
def _(dy, x, q): return -dy * x * hurwitz_zeta(x + 1, q)


@operator(elementwise=True)
def zeta_step(a, b, n=1):
    """zeta(n, a) - zeta(n, a + b) for whole n > 0, and psi(a + b) - psi(a), their limit, for n = 1.

    Of positive a and b to all its digits, also where these nearly cancel, as they do for a large beside b.
    """
    k = kernels()
    start, end = (k.special("psi", [x]) if n == 1 else k.special("zeta", [k.scalar(n, x.dtype), x]) for x in (a, k.add(a, b)))
    return on_numpy(lambda y, a, b: where_exact(y, a, b, n), k.subtract(end, start) if n == 1 else k.subtract(start, end), a, b)


@zeta_step.backward("a")
def _(dy, a, b, n): return -dy * n * zeta_step(a, b, n + 1)
@zeta_step.backward("b")
def _(dy, a, b, n): return dy * n * hurwitz_zeta(n + 1, a + b)


def where_exact(y, a, b, n):
    return replaced(y, (a > 0) & (b > 0) & ((b < a / 8) | (a > 1e3)), lambda a, b: exact_step(a, b, n), a, b)


def exact_step(a, b, n):
    """zeta_step of arrays: the first terms of the sum one by one, so that the others have an Euler-Maclaurin series."""

    def fall(p):
        """x ** -p - (x + b) ** -p."""
        return x**-p * -np.expm1(-p * np.log1p(b / x))

    x, total = a, 0
    while (low := x < FAR).any():
        total, x = total + low * (b / x / (x + b) if n == 1 else fall(n)), x + low
    total += np.log1p(b / x) if n == 1 else fall(n - 1) / (n - 1)
    u, v, series, step = x**-2, (x + b) ** -2, 0, 0  # the series at u, and its difference to that at v over u - v
    for j, c in reversed(list(enumerate(BERNOULLI))):
        factor = math.prod(range(n, n + 2 * j + 1)) / math.factorial(2 * j + 2)
        series, step = c * factor + u * series, series + v * step
    return total + fall(n) / 2 + fall(n + 1) * series + (x + b) ** -(n + 1) * fall(2) * step
