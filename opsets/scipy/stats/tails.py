"""Logarithms of incomplete integrals, with their digits in both tails: log_gammainc log_gammaincc log_betainc log_betaincc log_stdtr
log_part log_rest.

Near 1 they are log1p of what is missing.  Where the integral underflows they are the log-density less the logarithm of a continued
fraction, which converges at once so far out.  They have derivatives in x alone: the density over the integral, infinite at the edge where
that is 0.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from autotape import kernels, operator

from ...array import exp, where
from ..expansions import on_numpy, replaced
from ..gammas import beta_density, gamma_density
from ..student import log_t_density

TINY = 1e-290
DEPTH = 60  # of the fractions


def logarithm(part, rest, far, *xs):
    """log(part) of arrays, rest being 1 - part, and far(*xs) the logarithm where it underflows."""
    k = kernels()
    p = k.special(part, [k.astype(x, np.dtype(np.float64)) for x in xs])
    return k.astype(on_numpy(lambda p, *xs: in_tails(p, rest, far, xs), p, *xs), np.result_type(*(x.dtype for x in xs)))


def in_tails(p, rest, far, xs):
    with np.errstate(divide="ignore"):
        y = np.asarray(np.log(p))
    y = replaced(y, p > 0.9, lambda *xs: np.log1p(-rest(*xs)), *xs)
    return replaced(y, p < TINY, far, *xs)


def slope(density, y, inside, *xs):
    """The density of xs over exp(y), and infinite at the edge; `inside` is a place elsewhere."""
    edge = y == -math.inf
    *shapes, x = xs
    return where(edge, math.inf, density(*shapes, where(edge, inside, x), where(edge, 0, y)))


# ---------------------------------------------------------------- the gamma distribution


@operator(elementwise=True)
def log_gammainc(a, x):
    """log(gammainc(a, x))."""
    return logarithm("gammainc", special.gammaincc, far_below, a, x)


@log_gammainc.backward("x")
def _(dy, a, x, y): return dy * slope(gamma_density, y, 1, a, x)


@operator(elementwise=True)
def log_gammaincc(a, x):
    """log(gammaincc(a, x))."""
    return logarithm("gammaincc", special.gammainc, far_above, a, x)


@log_gammaincc.backward("x")
def _(dy, a, x, y): return -dy * slope(gamma_density, y, 1, a, x)


def far_below(a, x):
    fraction = a + DEPTH
    for k in range(DEPTH, 0, -1):
        fraction = a + k - 1 + (-(a + (k - 1) // 2) if k % 2 else k // 2) * x / fraction
    return a * np.log(x) - x - special.gammaln(a) - np.log(fraction)


def far_above(a, x):
    fraction = x - a + 2 * DEPTH + 1
    for k in range(DEPTH, 0, -1):
        fraction = x - a + 2 * k - 1 - k * (k - a) / fraction
    y = a * np.log(x) - x - special.gammaln(a) - np.log(fraction)
    return np.where(x == math.inf, -math.inf, y)


# ---------------------------------------------------------------- the beta distribution


@operator(elementwise=True)
def log_betainc(a, b, x):
    """log(betainc(a, b, x))."""
    return logarithm("betainc", rest_of_beta, lambda a, b, x: far_low(a, b, np.log(x), np.log1p(-x)), a, b, x)


@log_betainc.backward("x")
def _(dy, a, b, x, y): return dy * slope(beta_density, y, 0.5, a, b, x)


@operator(elementwise=True)
def log_betaincc(a, b, x):
    """log(betaincc(a, b, x))."""
    return logarithm("betaincc", special.betainc, lambda a, b, x: far_low(b, a, np.log1p(-x), np.log(x)), a, b, x)


@log_betaincc.backward("x")
def _(dy, a, b, x, y): return -dy * slope(beta_density, y, 0.5, a, b, x)


def rest_of_beta(a, b, x):
    """betaincc(a, b, x), which SciPy takes ten times longer for."""
    return special.betainc(b, a, 1 - x)


def far_low(a, b, log_x, log_rest):
    """log(betainc(a, b, x)) by the logarithms of x and 1 - x."""
    x, fraction = np.exp(log_x), 1
    for k in range(DEPTH, 0, -1):
        m, n = k // 2, a + k
        fraction = 1 + (-(a + m) * (a + b + m) if k % 2 else m * (b - m)) * x / ((n - 1) * n) / fraction
    return a * log_x + b * log_rest - np.log(a) - special.betaln(a, b) - np.log(fraction)


# ---------------------------------------------------------------- Student's distribution


@operator(elementwise=True)
def log_stdtr(df, x):
    """log(stdtr(df, x))."""
    return logarithm("stdtr", lambda df, x: special.stdtr(df, -x), far_left, df, x)


@log_stdtr.backward("x")
def _(dy, df, x, y): return dy * slope(lambda df, x, less: exp(log_t_density(df, x) - less), y, 0, df, x)


def far_left(df, x):
    beyond = 2 * np.log(np.abs(x)) - np.log(df)  # log(x * x / df)
    student = far_low(0.5 * df, 0.5, -np.logaddexp(0, beyond), -np.logaddexp(0, -beyond)) - math.log(2)
    return np.where(df == math.inf, special.log_ndtr(x), np.where(x == -math.inf, -math.inf, student))


# ---------------------------------------------------------------- the uniform distribution


@operator(elementwise=True)
def log_part(x):
    """log(x) of 0 <= x <= 1."""
    k = kernels()
    return k.special("xlogy", [k.scalar(1, x.dtype), x])


@log_part.backward
def _(dy, x): return dy * where(x == 0, math.inf, 1 / where(x == 0, 1, x))


@operator(elementwise=True)
def log_rest(x):
    """log(1 - x) of 0 <= x <= 1."""
    k = kernels()
    return k.special("xlog1py", [k.scalar(1, x.dtype), k.negative(x)])


@log_rest.backward
def _(dy, x): return -dy * where(x == 1, math.inf, 1 / (1 - where(x == 1, 0, x)))
