"""Logarithms of incomplete integrals, with their digits in both tails: log_gammainc log_gammaincc log_betainc log_betaincc log_stdtr
log_part log_rest.

Near 1 they are log1p of what is missing, and where the integral underflows they are made of continued fractions, which converge at once
so far out.  They have derivatives in x alone, by the hazard: density over integral, which far out is such a fraction, too, and infinite
at the edge where the integral is 0.  Its own derivative is hazard * (that of the log-density -+ hazard).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from autotape import kernels, operator

from ...array import absolute, where
from ..expansions import LOG_ROOT_2PI, on_numpy, replaced

TINY = 1e-290
DEPTH = 60  # of the fractions
NORMAL = math.log(1e-4)  # up to this log(x * x / df) Hill's expansion is exact to rounding so far out


def logarithm(part, rest, far, *xs):
    """log(part) of arrays, rest being 1 - part, and far(*xs)[0] the logarithm where it underflows."""

    def in_tails(p, *xs):
        with np.errstate(divide="ignore"):
            y = np.asarray(np.log(p))
        y = replaced(y, p > 0.9, lambda *xs: np.log1p(-rest(*xs)), *xs)
        return replaced(y, p < TINY, lambda *xs: far(*xs)[0], *xs)

    return in_doubles(part, in_tails, xs)


def hazard(part, log_density, far, *xs):
    """exp(log_density) / part of arrays, and far(*xs)[1] where part underflows."""

    def in_tails(p, *xs):
        near = replaced(p, p >= TINY, lambda p, *xs: np.exp(log_density(*xs)) / p, p, *xs)
        return replaced(near, p < TINY, lambda *xs: far(*xs)[1], *xs)

    return in_doubles(part, in_tails, xs)


def in_doubles(part, f, xs):
    """f(p, *xs), p being SciPy's function of that name, computed in float64."""
    k = kernels()
    p = k.special(part, [k.astype(x, np.dtype(np.float64)) for x in xs])
    return k.astype(on_numpy(f, p, *xs), np.result_type(*(x.dtype for x in xs)))


# ---------------------------------------------------------------- the gamma distribution


@operator(elementwise=True)
def log_gammainc(a, x):
    """log(gammainc(a, x))."""
    return logarithm("gammainc", special.gammaincc, gamma_below, a, x)


@log_gammainc.backward("x")
def _(dy, a, x): return dy * hazard_below(a, x)


@operator(elementwise=True)
def hazard_below(a, x):
    """The density over gammainc(a, x)."""
    return hazard("gammainc", log_density_of_gamma, gamma_below, a, x)


@hazard_below.backward("x")
def _(dy, a, x, y): return dy * y * ((a - 1) / x - 1 - y)


@operator(elementwise=True)
def log_gammaincc(a, x):
    """log(gammaincc(a, x))."""
    return logarithm("gammaincc", special.gammainc, gamma_above, a, x)


@log_gammaincc.backward("x")
def _(dy, a, x): return -dy * hazard_above(a, x)


@operator(elementwise=True)
def hazard_above(a, x):
    """The density over gammaincc(a, x)."""
    return hazard("gammaincc", log_density_of_gamma, gamma_above, a, x)


@hazard_above.backward("x")
def _(dy, a, x, y): return dy * y * ((a - 1) / x - 1 + y)


def log_density_of_gamma(a, x):
    return special.xlogy(a - 1, x) - x - special.gammaln(a)


def gamma_below(a, x):
    """The logarithm and the hazard."""
    fraction = a + DEPTH
    for k in range(DEPTH, 0, -1):
        fraction = a + k - 1 + (-(a + (k - 1) // 2) if k % 2 else k // 2) * x / fraction
    return a * np.log(x) - x - special.gammaln(a) - np.log(fraction), fraction / x


def gamma_above(a, x):
    """The logarithm and the hazard."""
    x, endless = np.where(x == math.inf, 1, x), x == math.inf
    fraction = x - a + 2 * DEPTH + 1
    for k in range(DEPTH, 0, -1):
        fraction = x - a + 2 * k - 1 - k * (k - a) / fraction
    y = a * np.log(x) - x - special.gammaln(a) - np.log(fraction)
    return np.where(endless, -math.inf, y), np.where(endless, 1, fraction / x)


# ---------------------------------------------------------------- the beta distribution


@operator(elementwise=True)
def log_betainc(a, b, x):
    """log(betainc(a, b, x))."""
    return logarithm("betainc", rest_of_beta, beta_below, a, b, x)


@log_betainc.backward("x")
def _(dy, a, b, x): return dy * hazard_of_betainc(a, b, x)


@operator(elementwise=True)
def hazard_of_betainc(a, b, x):
    """The density over betainc(a, b, x)."""
    return hazard("betainc", log_density_of_beta, beta_below, a, b, x)


@hazard_of_betainc.backward("x")
def _(dy, a, b, x, y): return dy * y * ((a - 1) / x - (b - 1) / (1 - x) - y)


@operator(elementwise=True)
def log_betaincc(a, b, x):
    """log(betaincc(a, b, x))."""
    return logarithm("betaincc", special.betainc, beta_above, a, b, x)


@log_betaincc.backward("x")
def _(dy, a, b, x): return -dy * hazard_of_betaincc(a, b, x)


@operator(elementwise=True)
def hazard_of_betaincc(a, b, x):
    """The density over betaincc(a, b, x)."""
    return hazard("betaincc", log_density_of_beta, beta_above, a, b, x)


@hazard_of_betaincc.backward("x")
def _(dy, a, b, x, y): return dy * y * ((a - 1) / x - (b - 1) / (1 - x) + y)


def rest_of_beta(a, b, x):
    """betaincc(a, b, x), which SciPy takes ten times longer for."""
    return special.betainc(b, a, 1 - x)


def log_density_of_beta(a, b, x):
    return special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)


def beta_below(a, b, x):
    """The logarithm and the hazard."""
    y, fraction = of_beta(a, b, x, np.log(x), np.log1p(-x))
    return y, a * fraction / x / (1 - x)


def beta_above(a, b, x):
    """The logarithm and the hazard."""
    y, fraction = of_beta(b, a, 1 - x, np.log1p(-x), np.log(x))
    return y, b * fraction / x / (1 - x)


def of_beta(a, b, x, log_x, log_rest):
    """log(betainc(a, b, x)), x and 1 - x having these logarithms, and the fraction in it."""
    fraction = 1
    for k in range(DEPTH, 0, -1):
        m, n = k // 2, a + k
        fraction = 1 + (-(a + m) * (a + b + m) if k % 2 else m * (b - m)) * x / ((n - 1) * n) / fraction
    return a * log_x + b * log_rest - np.log(a) - special.betaln(a, b) - np.log(fraction), fraction


# ---------------------------------------------------------------- Student's distribution


@operator(elementwise=True)
def log_stdtr(df, x):
    """log(stdtr(df, x))."""
    return logarithm("stdtr", lambda df, x: special.stdtr(df, -x), student_below, df, x)


@log_stdtr.backward("x")
def _(dy, df, x): return dy * hazard_of_stdtr(df, x)


@operator(elementwise=True)
def hazard_of_stdtr(df, x):
    """The density over stdtr(df, x)."""
    return hazard("stdtr", log_density_of_student, student_below, df, x)


@hazard_of_stdtr.backward("x")
def _(dy, df, x, y):
    share, far = x / df, absolute(x) > df
    fall = where(far, 1 / (share + 1 / where(far, x, 1)), x / (1 + share * where(far, 1, x)))  # x / (1 + x * x / df)
    return dy * y * (-(1 + 1 / df) * fall - y)


def log_density_of_student(df, x):
    normal = -0.5 * x * x - LOG_ROOT_2PI
    return np.where(df == math.inf, normal, -0.5 * (df + 1) * np.log1p(x / df * x) - 0.5 * np.log(df) - special.betaln(0.5, 0.5 * df))


def student_below(df, x):
    """The logarithm and the hazard: of betainc(0.5 * df, 0.5, df / (df + x * x)) / 2, and near the normal distribution of that."""
    beyond = 2 * np.log(-x) - np.log(df)  # log(x * x / df)
    y, fraction = of_beta(0.5 * df, 0.5, special.expit(-beyond), -np.logaddexp(0, beyond), -np.logaddexp(0, -beyond))
    endless, normal = x == -math.inf, beyond < NORMAL
    y, slope = np.where(endless, -math.inf, y - math.log(2)), np.where(endless, 0, -df * fraction / x)
    return tuple(np.where(normal, near, far) for near, far in zip(nearly_normal(df, x), (y, slope), strict=True))


def nearly_normal(df, x):
    """The same by Hill's expansion (1970) of the number z below which the normal distribution has as much."""
    n = df - 0.5
    y = np.where(df == math.inf, -x, np.sqrt(n * np.log1p(x / df * x)))
    z = y + y * (y * y + 3) / (48 * n * n)
    slope = (1 + (y * y + 1) / (16 * n * n)) * np.where(df == math.inf, 1, n / (df + x * x) * -x / y)
    return special.log_ndtr(-z), math.sqrt(2 / math.pi) / special.erfcx(z * math.sqrt(0.5)) * slope


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
