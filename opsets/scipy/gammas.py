"""The gamma function and its kin: gamma gammaln gammasgn rgamma psi=digamma zeta polygamma multigammaln, beta betaln betainc betaincc,
gammainc gammaincc, and Student's stdtr, which is a betainc; and the densities they are integrals of.

The derivatives of betainc, betaincc, gammainc, gammaincc and stdtr in their parameters, and of zeta in its exponent, are not known here:
asking for them raises.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from autotape import kernels, operator

from ..array import exp, log, log1p, logical_and, sum, where
from ..array.choosing import untracked
from ..array.shapes import dtype_of, expand_dims
from .logarithms import xlog1py, xlogy

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
    """1 / gamma(x), which is 0 at the poles of gamma; there its derivative is NaN."""
    return kernels().special("rgamma", [x])


@rgamma.backward
def _(dy, x, y): return -dy * y * psi(x)


def multigammaln(a, d):
    """The logarithm of the d-dimensional gamma function, of a > (d - 1) / 2; d is a whole number > 0."""
    d = int(untracked(d, "multigammaln's d"))
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
    """The n-th derivative of psi, of real x; n, whole numbers >= 0, is constant and broadcasts."""
    n = untracked(n, "polygamma's n")
    if np.ndim(n):
        n = np.asarray(n)
        return where(n == 0, psi(x), special.gamma(n + 1.0) * (1 - 2 * ((n + 1) % 2)) * zeta(n + 1.0, x))
    return (-1) ** (n + 1) * math.factorial(n) * zeta(n + 1, x) if n else psi(x)


def zeta(x, q=1.0):
    """Hurwitz's zeta function: the sum of (k + q) ** -x over k >= 0, of real x > 1 and q; for q = 1 it is Riemann's."""
    return hurwitz_zeta(x, q)


@operator(elementwise=True)
def hurwitz_zeta(x, q):
    """zeta."""
    return kernels().special("zeta", [x, q])


@hurwitz_zeta.backward("q")
def _(dy, x, q): return -dy * x * hurwitz_zeta(x + 1, q)


# ---------------------------------------------------------------- beta


@operator(elementwise=True, numpy=special.beta)
def beta(a, b):
    """gamma(a) * gamma(b) / gamma(a + b), of real a and b."""
    return kernels().special("beta", [a, b])


@beta.backward("a")
def _(dy, a, b, y): return dy * y * (psi(a) - psi(a + b))
@beta.backward("b")
def _(dy, a, b, y): return dy * y * (psi(b) - psi(a + b))


@operator(elementwise=True, numpy=special.betaln)
def betaln(a, b):
    """log(abs(beta(a, b)))."""
    return kernels().special("betaln", [a, b])


@betaln.backward("a")
def _(dy, a, b): return dy * (psi(a) - psi(a + b))
@betaln.backward("b")
def _(dy, a, b): return dy * (psi(b) - psi(a + b))


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
    return power_exp(a - 1, near, xlog1py(b - 1, -near) - betaln(a, b))


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


@operator(elementwise=True, numpy=special.stdtr)
def stdtr(df, x):
    """The integral of the density of Student's t with df degrees of freedom up to x.  It has derivatives in x alone."""
    return kernels().special("stdtr", [df, x])


@stdtr.backward("x")
def _(dy, df, x): return dy * exp(log_t_density(df, x))


def log_t_density(df, x):
    """That of the normal distribution for infinite df."""
    is_normal = df == math.inf
    df = where(is_normal, 1, df)
    student = -betaln(0.5, 0.5 * df) - 0.5 * log(df) - 0.5 * (df + 1) * log1p(x / df * x)
    return where(is_normal, -0.5 * x * x - 0.5 * math.log(2 * math.pi), student)
