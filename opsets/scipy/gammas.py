"""The gamma function and its kin: gamma gammaln gammasgn rgamma psi=digamma polygamma multigammaln, beta betaln betainc betaincc,
gammainc gammaincc; and the densities they are integrals of.

The derivatives of betainc, betaincc, gammainc and gammaincc in their parameters are not known here: asking for them raises.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from autotape import kernels, operator
from autotape.tensor import asarray
from autotape.transforms import stop_gradient

from ..array import cos, log, logical_and, real, sum, where
from ..array.choosing import known, untracked
from ..array.shapes import dtype_of, expand_dims
from .logarithms import xlog1py, xlogy
from .zetas import hurwitz_zeta, zeta, zeta_step

# ---------------------------------------------------------------- gamma and its logarithm


@operator(elementwise=True, numpy=special.gamma)
def gamma(x):
    """The gamma function: (x - 1)! for whole x > 0."""
    return kernels().special("gamma", [x])


@gamma.backward
def _(dy, x, y): return dy * y * psi(x)


@operator(elementwise=True, numpy=special.gammaln)
def gammaln(x):
    """log(abs(gamma(x))), of real x."""
    return kernels().special("gammaln", [x])


@gammaln.backward
def _(dy, x): return dy * psi(x)


@operator(elementwise=True, nondifferentiable="x", numpy=special.gammasgn)
def gammasgn(x):
    """The sign of gamma(x), of real x."""
    return kernels().special("gammasgn", [x])


@operator(elementwise=True, numpy=special.rgamma)
def rgamma(x):
    """1 / gamma(x), which is 0 at the poles of gamma."""
    return kernels().special("rgamma", [x])


@rgamma.backward
def _(dy, x, y):
    """That of gamma(1 - x) * sin(pi * x) / pi on the left, where rgamma is so and psi(x) has poles."""
    left = real(x) < 0.5
    low, high = where(left, x, 0), where(left, 1 - x, x)
    return dy * (where(left, gamma(1 - low) * cos(math.pi * low), 0) - y * psi(high))


def multigammaln(a, d):
    """The logarithm of the d-dimensional gamma function, of a > (d - 1) / 2; d is a whole number > 0.

    Raises ValueError for others.
    """
    d = whole_number(d, "multigammaln's d", 1)
    if (asarray(stop_gradient(a)).numpy() <= 0.5 * (d - 1)).any():
        raise ValueError(f"multigammaln: a must be above (d - 1) / 2, which is {0.5 * (d - 1)}")
    halves = np.arange(d, dtype=np.result_type(dtype_of(a), np.float16)) / 2
    return sum(gammaln(expand_dims(a, -1) - halves), -1) + d * (d - 1) / 4 * math.log(math.pi)


# ---------------------------------------------------------------- derivatives of gammaln


@operator(elementwise=True, numpy=special.psi)
def psi(x):
    """The derivative of gammaln."""
    return kernels().special("psi", [x])


@psi.backward
def _(dy, x): return dy * hurwitz_zeta(2, x)


digamma = psi


def polygamma(n, x):
    """The n-th derivative of psi, of real x; n, whole numbers >= 0, is constant and broadcasts.  Raises ValueError for other n."""
    if not np.ndim(known(n)):
        n = whole_number(n, "polygamma's n", 0)
        return (2 * (n % 2) - 1) * float(special.gamma(n + 1.0)) * zeta(n + 1.0, x) if n else psi(x)
    n = np.asarray(untracked(n, "polygamma's n"), np.float64)
    return where(n == 0, psi(x), special.gamma(n + 1) * (2 * (n % 2) - 1) * zeta(n + 1, x))


def whole_number(n, what: str, least: int) -> int:
    """n as an int.  Raises ValueError if it is none, or below `least`."""
    n = untracked(n, what)
    if n != n // 1 or n < least:
        raise ValueError(f"{what} must be a whole number of {least} or more, not {n}")
    return int(n)


# ---------------------------------------------------------------- beta


@operator(elementwise=True, numpy=special.beta)
def beta(a, b):
    """gamma(a) * gamma(b) / gamma(a + b), of real a and b."""
    return kernels().special("beta", [a, b])


@beta.backward("a")
def _(dy, a, b, y): return -dy * y * zeta_step(a, b)
@beta.backward("b")
def _(dy, a, b, y): return -dy * y * zeta_step(b, a)


@operator(elementwise=True, numpy=special.betaln)
def betaln(a, b):
    """log(abs(beta(a, b)))."""
    return kernels().special("betaln", [a, b])


@betaln.backward("a")
def _(dy, a, b): return -dy * zeta_step(a, b)
@betaln.backward("b")
def _(dy, a, b): return -dy * zeta_step(b, a)


# ---------------------------------------------------------------- incomplete integrals, and their densities


@operator(elementwise=True)
def power_exp(a, x, c):
    """x ** a * exp(c) of x >= 0, whose factors alone might overflow.  Unlike those of exp(xlogy(a, x) + c), its derivatives hold at 0."""
    k = kernels()
    return k.exp(k.add(k.special("xlogy", [a, x]), c))


@power_exp.backward("a")
def _(dy, x, y): return dy * y * log(where(y == 0, 1, x))
@power_exp.backward("x")
def _(dy, a, x, c): return dy * a * power_exp(where(logical_and(a == 0, x == 0), 0, a - 1), x, c)
@power_exp.backward("c")
def _(dy, y): return dy * y


@operator(elementwise=True, numpy=special.betainc)
def betainc(a, b, x):
    """The integral of the beta distribution's density from 0 to x.  It has derivatives in x alone."""
    return kernels().special("betainc", [a, b, x])


@betainc.backward("x")
def _(dy, a, b, x): return dy * beta_density(a, b, x)


@operator(elementwise=True, numpy=special.betaincc)
def betaincc(a, b, x):
    """1 - betainc(a, b, x), to all its digits.  It has derivatives in x alone."""
    return kernels().special("betaincc", [a, b, x])


@betaincc.backward("x")
def _(dy, a, b, x): return -dy * beta_density(a, b, x)


def log_beta_density(a, b, x):
    return xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b)


def beta_density(a, b, x):
    """exp(log_beta_density), as a power of what lies between x and the nearer edge."""
    low = x < 0.5
    near, a, b = where(low, x, 1 - x), where(low, a, b), where(low, b, a)
    other = where(logical_and(a < 1, near == 0), 0, xlog1py(b - 1, -near))  # where the power is infinite, its slope alone counts
    return power_exp(a - 1, near, other - betaln(a, b))


@operator(elementwise=True, numpy=special.gammainc)
def gammainc(a, x):
    """The integral of the gamma distribution's density from 0 to x.  It has derivatives in x alone."""
    return kernels().special("gammainc", [a, x])


@gammainc.backward("x")
def _(dy, a, x): return dy * gamma_density(a, x)


@operator(elementwise=True, numpy=special.gammaincc)
def gammaincc(a, x):
    """1 - gammainc(a, x), to all its digits.  It has derivatives in x alone."""
    return kernels().special("gammaincc", [a, x])


@gammaincc.backward("x")
def _(dy, a, x): return -dy * gamma_density(a, x)


def log_gamma_density(a, x):
    return xlogy(a - 1, x) - x - gammaln(a)


def gamma_density(a, x):
    """exp(log_gamma_density)."""
    return power_exp(a - 1, x, -x - gammaln(a))
