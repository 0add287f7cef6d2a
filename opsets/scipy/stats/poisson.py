"""The Poisson distribution of counts: logpmf pmf cdf sf logcdf logsf of (k, mu, loc=0), with derivatives in mu.

k and loc are constants.  Where mu is negative the result is NaN.  For infinite k or mu it is the limit, with the derivative 0.
"""

from __future__ import annotations

import math

import numpy as np

from ...array import isnan, logical_or, where
from ...array.choosing import untracked
from ..gammas import gammainc, gammaincc, gammaln, power_exp
from ..logarithms import xlogy
from .family import floats
from .tails import log_gammainc, log_gammaincc

__all__ = ["cdf", "logcdf", "logpmf", "logsf", "pmf", "sf"]


def logpmf(k, mu, loc=0):
    """log(pmf)."""
    return mass(k, mu, loc, lambda k, mu: xlogy(k, mu) - mu - gammaln(k + 1), -math.inf)


def pmf(k, mu, loc=0):
    """The probability of the count k - loc where mu are expected."""
    return mass(k, mu, loc, lambda k, mu: power_exp(k, mu, -mu - gammaln(k + 1)), 0)


def cdf(k, mu, loc=0):
    """The probability of k - loc or fewer."""
    return integral(k, mu, loc, gammaincc, 0, 1)


def sf(k, mu, loc=0):
    """The probability of more than k - loc."""
    return integral(k, mu, loc, gammainc, 1, 0)


def logcdf(k, mu, loc=0):
    """log(cdf), also where cdf underflows."""
    return integral(k, mu, loc, log_gammaincc, -math.inf, 0)


def logsf(k, mu, loc=0):
    """log(sf), also where sf underflows."""
    return integral(k, mu, loc, log_gammainc, 0, -math.inf)


def mass(k, mu, loc, f, none):
    """f(k - loc, mu) where that is a count, else `none`."""
    k, mu = count_and_mean(k, mu, loc)
    return among(k, mu, np.logical_or(k < 0, k != np.floor(k)), f, np.full_like(k, none))


def integral(k, mu, loc, f, before, after):
    """f(a, mu), a being the least whole number above k - loc; `before` the counts and for infinite mu, or `after` them."""
    k, mu = count_and_mean(k, mu, loc)
    return among(k, mu, k < 0, lambda k, mu: f(np.floor(k) + 1, mu), np.where(k == math.inf, after, before).astype(k.dtype))


def count_and_mean(k, mu, loc):
    """k - loc, a plain array in mu's dtype, and mu, NaN where it is negative."""
    (mu,) = floats(mu)
    k = np.subtract(untracked(k, "poisson's k"), untracked(loc, "poisson's loc"))
    return np.asarray(k, mu.dtype), where(mu >= 0, mu, math.nan)


def among(k, mu, outside, f, limit):
    """f(k, mu), but `limit` where k is `outside` or one of them is infinite; NaN where one is."""
    outside = np.logical_and(np.logical_or(outside, k == math.inf), ~np.isnan(k))
    beyond = logical_or(outside, mu == math.inf)
    y = f(np.where(outside, 0, k), where(beyond, 1, mu))
    return where(beyond, where(isnan(k + mu), math.nan, limit), y)
