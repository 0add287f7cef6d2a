"""The distributions of numbers: norm t gamma chi2 beta uniform, each what scipy.stats calls so.

The integrals of t, gamma, chi2 and beta have no derivatives in the shapes here: asking for them raises.
"""

from __future__ import annotations

import math

from ...array import log, where
from ..error_functions import log_ndtr, ndtr
from ..expansions import LOG_ROOT_2PI, half_step, stirling
from ..gammas import beta_density, betainc, betaincc, gamma_density, gammainc, gammaincc, log_beta_density, log_gamma_density
from ..student import log_t_density, stdtr
from .dirichlet import rest_of_entropy, share_of_entropy
from .family import Family
from .tails import log_betainc, log_betaincc, log_gammainc, log_gammaincc, log_part, log_rest, log_stdtr


class Norm(Family):
    """The normal distribution: norm.logpdf(x, loc=0, scale=1) ..."""

    def log_density(self, z):
        return -0.5 * z * z - LOG_ROOT_2PI

    def below(self, z):
        return ndtr(z)

    def above(self, z):
        return ndtr(-z)

    def log_below(self, z):
        return log_ndtr(z)

    def log_above(self, z):
        return log_ndtr(-z)

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

    def log_below(self, z, df):
        return log_stdtr(df, z)

    def log_above(self, z, df):
        return log_stdtr(df, -z)

    def spread(self, df):
        is_normal = df == math.inf
        h = where(is_normal, 1, 0.5 * df)
        more = 0.25 / h + (h + 0.5) * half_step(h, n=1) - half_step(h)
        return norm.spread() + where(is_normal, 0, more)


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

    def log_below(self, z, a):
        return log_gammainc(a, z)

    def log_above(self, z, a):
        return log_gammaincc(a, z)

    def spread(self, a):
        """a + gammaln(a) + (1 - a) * psi(a) without what cancels in it for large a."""
        rest = stirling(a) + (1 - where(a == math.inf, 1, a)) * stirling(a, n=1)
        return norm.spread() + 0.5 * log(a) - 0.5 / a + rest


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

    def log_below(self, z, df):
        return log_gammainc(0.5 * df, 0.5 * z)

    def log_above(self, z, df):
        return log_gammaincc(0.5 * df, 0.5 * z)

    def spread(self, df):
        return gamma.spread(0.5 * df) + math.log(2)


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

    def log_below(self, z, a, b):
        return log_betainc(a, b, z)

    def log_above(self, z, a, b):
        return log_betaincc(a, b, z)

    def spread(self, a, b):
        return share_of_entropy(a, a + b) + share_of_entropy(b, a + b) + rest_of_entropy(a + b, 2)


class Uniform(Family):
    """The uniform distribution from loc to loc + scale: uniform.logpdf(x, loc=0, scale=1) ..."""

    low, high, inside = 0, 1, 0.5

    def log_density(self, z):
        return 0 * z

    def below(self, z):
        return z

    def above(self, z):
        return 1 - z

    def log_below(self, z):
        return log_part(z)

    def log_above(self, z):
        return log_rest(z)

    def spread(self):
        return 0.0


norm, t, gamma, chi2, beta, uniform = Norm(), StudentsT(), Gamma(), Chi2(), Beta(), Uniform()
