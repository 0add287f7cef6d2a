"""The Poisson distribution of counts: logpmf pmf cdf sf logcdf logsf of (k, mu, loc=0), with derivatives in mu.

k and loc are constants.  Where mu is negative the result is NaN.
"""

from __future__ import annotations

import math

import numpy as np

from ...array import isnan, log, where
from ...array.choosing import untracked
from ..gammas import gammainc, gammaincc, gammaln, power_exp
from ..logarithms import xlogy
from .family import floats

__all__ = ["cdf", "logcdf", "logpmf", "logsf", "pmf", "sf"]


def logpmf(k, mu, loc=0):
    """log(pmf)."""
    k, mu = count_and_mean(k, mu, loc)
    is_count, at = counts(k)
    return known(k, mu, where(is_count, xlogy(at, mu) - mu - gammaln(at + 1), -math.inf))


def pmf(k, mu, loc=0):
    """The probability of the count k - loc where mu are expected."""
    k, mu = count_and_mean(k, mu, loc)
    is_count, at = counts(k)
    return known(k, mu, where(is_count, power_exp(at, mu, -mu - gammaln(at + 1)), 0))


def cdf(k, mu, loc=0):
    """The probability of k - loc or fewer."""
    k, mu = count_and_mean(k, mu, loc)
    return known(k, mu, where(k >= 0, gammaincc(above(k), mu), 0))


def sf(k, mu, loc=0):
    """The probability of more than k - loc."""
    k, mu = count_and_mean(k, mu, loc)
    return known(k, mu, where(k >= 0, gammainc(above(k), mu), 1))


def logcdf(k, mu, loc=0):
    """log(cdf)."""
    return log(cdf(k, mu, loc))


def logsf(k, mu, loc=0):
    """log(sf)."""
    return log(sf(k, mu, loc))


def count_and_mean(k, mu, loc):
    """k - loc, a plain array in mu's dtype, and mu, NaN where it is negative."""
    (mu,) = floats(mu)
    k = np.subtract(untracked(k, "poisson's k"), untracked(loc, "poisson's loc"))
    return np.asarray(k, mu.dtype), where(mu >= 0, mu, math.nan)


def counts(k):
    """Where k are counts, and k with 0 elsewhere."""
    is_count = np.logical_and(k >= 0, k == np.floor(k))
    return is_count, np.where(is_count, k, 0)


def above(k):
    return np.floor(np.where(k >= 0, k, 0)) + 1


def known(k, mu, y):
    """y, but NaN where k or mu is."""
    return where(isnan(k + mu), math.nan, y)
