"""The distributions of numbers: norm t gamma chi2 beta uniform, each what scipy.stats calls so.

The integrals of t, gamma, chi2 and beta have no derivatives in the shapes here: asking for them raises.
"""

from __future__ import annotations

import math

from ...array import log, where, zeros_like
from ..error_functions import log_ndtr, ndtr
from ..gammas import (
    beta_density,
    betainc,
    betaincc,
    betaln,
    gamma_density,
    gammainc,
    gammaincc,
    gammaln,
    log_beta_density,
    log_gamma_density,
    log_t_density,
    psi,
    stdtr,
)
from .family import Family

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


class Norm(Family):
    """The normal distribution: norm.logpdf(x, loc=0, scale=1) ..."""

    def log_density(self, z):
        return -0.5 * z * z - LOG_ROOT_2PI

    def below(self, z):
        return ndtr(z)

    def above(self, z):
        return ndtr(-z)

    def logcdf(self, x, *args, **named):
        """log(cdf), far below the mean too, where cdf underflows."""
        return log_ndtr(self._standard(x, args, named)[0])

    def logsf(self, x, *args, **named):
        """log(sf), far above the mean too, where sf underflows."""
        return log_ndtr(-self._standard(x, args, named)[0])

    def spread(self):
        return LOG_ROOT_2PI + 0.5


class StudentsT(Family):
    """Student's t distribution: t.logpdf(x, df, loc=0, scale=1) ..."""

    shapes = "df"

    def log_density(self, z, df):
        return log_t_density(df, z)

    def below(self, z, df):
        return stdtr(df, z)

    def above(self, z, df):
        return stdtr(df, -z)

    def spread(self, df):
        is_normal = df == math.inf
        df = where(is_normal, 1, df)
        half = 0.5 * (df + 1)
        student = half * (psi(half) - psi(0.5 * df)) + 0.5 * log(df) + betaln(0.5 * df, 0.5)
        return where(is_normal, norm.spread(), student)


class Gamma(Family):
    """The gamma distribution: gamma.logpdf(x, a, loc=0, scale=1) ..."""

    shapes, low, inside = "a", 0, 1.0

    def log_density(self, z, a):
        return log_gamma_density(a, z)

    def density(self, z, a):
        return gamma_density(a, z)

    def below(self, z, a):
        return gammainc(a, z)

    def above(self, z, a):
        return gammaincc(a, z)

    def spread(self, a):
        return a + gammaln(a) + (1 - a) * psi(a)


class Chi2(Family):
    """The chi-squared distribution: chi2.logpdf(x, df, loc=0, scale=1) ..."""

    shapes, low, inside = "df", 0, 1.0

    def log_density(self, z, df):
        return log_gamma_density(0.5 * df, 0.5 * z) - math.log(2)

    def density(self, z, df):
        return 0.5 * gamma_density(0.5 * df, 0.5 * z)

    def below(self, z, df):
        return gammainc(0.5 * df, 0.5 * z)

    def above(self, z, df):
        return gammaincc(0.5 * df, 0.5 * z)

    def spread(self, df):
        a = 0.5 * df
        return a + gammaln(a) + (1 - a) * psi(a) + math.log(2)


class Beta(Family):
    """The beta distribution: beta.logpdf(x, a, b, loc=0, scale=1) ..."""

    shapes, low, high, inside = "a b", 0, 1, 0.5

    def log_density(self, z, a, b):
        return log_beta_density(a, b, z)

    def density(self, z, a, b):
        return beta_density(a, b, z)

    def below(self, z, a, b):
        return betainc(a, b, z)

    def above(self, z, a, b):
        return betaincc(a, b, z)

    def spread(self, a, b):
        return betaln(a, b) - (a - 1) * psi(a) - (b - 1) * psi(b) + (a + b - 2) * psi(a + b)


class Uniform(Family):
    """The uniform distribution from loc to loc + scale: uniform.logpdf(x, loc=0, scale=1) ..."""

    low, high, inside = 0, 1, 0.5

    def log_density(self, z):
        return zeros_like(z)

    def below(self, z):
        return z

    def above(self, z):
        return 1 - z

    def spread(self):
        return 0.0


norm, t, gamma, chi2, beta, uniform = Norm(), StudentsT(), Gamma(), Chi2(), Beta(), Uniform()
