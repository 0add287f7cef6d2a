"""The Dirichlet distribution of shares: logpdf and pdf of (x, alpha), and entropy of alpha.

x (n, ...) holds n shares along its first axis, or n - 1 of them, the last being what is left of 1; alpha is (n,).  That shares are not
negative and sum to 1 is taken for granted: the derivative is that of each by itself.
"""

from __future__ import annotations

from autotape.transforms import stop_gradient

from ...array import concatenate, isfinite, log, mean, prod, reshape, sum, where
from ..expansions import LOG_ROOT_2PI, stirling
from ..gammas import gammaln, power_exp, psi
from ..logarithms import xlogy
from .family import allowed, floats

__all__ = ["entropy", "logpdf", "pdf"]


def logpdf(x, alpha):
    """The logarithm of the density: (...)."""
    x, powers, scale = standard(x, alpha)
    return sum(xlogy(powers, x), 0) + scale


def pdf(x, alpha):
    """The density: a product of powers, each of about the same size so that none overflows, with derivatives at a share of 0."""
    x, powers, scale = standard(x, alpha)
    logs = stop_gradient(xlogy(powers, x))
    logs = where(isfinite(logs), logs, 0)
    return prod(power_exp(powers, x, mean(logs, 0) - logs + scale / x.shape[0]), 0)


def entropy(alpha):
    """Minus the mean of logpdf."""
    (alpha,) = floats(allowed(alpha))
    total = sum(alpha)
    return sum(share_of_entropy(alpha, total)) + rest_of_entropy(total, alpha.shape[0])


def share_of_entropy(alpha, total):
    """What each alpha adds to the entropy; by Stirling's formula, in which no large terms cancel."""
    slopes = stirling(total, n=1) - stirling(alpha, n=1)
    return 0.5 - 0.5 * log(alpha) + stirling(alpha) + alpha * slopes + psi(alpha) - psi(total)


def rest_of_entropy(total, n):
    return 0.5 * log(total) - stirling(total) - 0.5 + (n - 1) * LOG_ROOT_2PI


def standard(x, alpha):
    """All n shares, their powers in the density, of as many axes, and the logarithm of the number before them."""
    x, alpha = floats(x, allowed(alpha))
    (n,) = alpha.shape
    if x.shape[:1] == (n - 1,):
        x = concatenate((x, 1 - sum(x, 0, True)), 0)
    if x.shape[:1] != (n,):
        raise ValueError(f"dirichlet: x {x.shape} must have {n} shares along its first axis, or {n - 1}, for alpha {alpha.shape}")
    return x, reshape(alpha - 1, (n, *(1 for _ in x.shape[1:]))), -log_beta(alpha)


def log_beta(alpha):
    return sum(gammaln(alpha)) - gammaln(sum(alpha))
