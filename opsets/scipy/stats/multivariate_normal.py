"""The normal distribution of vectors: logpdf and pdf of (x, mean=None, cov=1), and entropy of (mean=None, cov=1).

x (..., d), or of d = 1 a number or (n,); mean (d,), by default 0; and cov, symmetric and positive definite: (d, d), its diagonal (d,), or
one number for all of that.
The derivative in cov is symmetric.  Raises LinAlgError for a cov that is not positive definite.
"""

from __future__ import annotations

import math

import numpy as np

from ...array import cholesky, diag, diagonal, exp, log, multiply, reshape, square, sum, transpose
from ..linalg import solve_triangular
from .family import floats

__all__ = ["entropy", "logpdf", "pdf"]


def logpdf(x, mean=None, cov=1):
    """The logarithm of the density: (...)."""
    x, mean, factor = standard(x, mean, cov)
    d = factor.shape[0]
    if x.shape[-1:] != (d,):
        x = reshape(x, (*x.shape, 1)) if d == 1 and len(x.shape) < 2 else x
    if x.shape[-1:] != (d,):
        raise ValueError(f"multivariate_normal: the last axis of x {x.shape} must have the length {d} of mean and cov")
    apart = reshape(x - mean, (-1, d))
    z = solve_triangular(factor, transpose(apart), lower=True)
    return reshape(-0.5 * sum(square(z), 0), x.shape[:-1]) - half_logdet(factor) - 0.5 * d * math.log(2 * math.pi)


def pdf(x, mean=None, cov=1):
    """The density."""
    return exp(logpdf(x, mean, cov))


def entropy(mean=None, cov=1):
    """Minus the mean of logpdf."""
    *_, factor = standard(0, mean, cov)
    return half_logdet(factor) + 0.5 * factor.shape[0] * (1 + math.log(2 * math.pi))


def standard(x, mean, cov):
    """x, mean and the Cholesky factor of cov as a matrix, in one dtype."""
    is_centred = mean is None
    x, mean, cov = floats(x, 0 if is_centred else mean, cov)
    d = max(mean.size, 1 if not cov.shape else cov.shape[0])
    cov = 0.5 * (cov + transpose(cov)) if len(cov.shape) == 2 else diag(multiply(cov, np.ones(d, cov.dtype)))
    if cov.shape != (d, d) or mean.shape not in ((d,), *([()] if is_centred or d == 1 else [])):
        raise ValueError(f"multivariate_normal: mean {mean.shape} and cov {cov.shape} must be (d,) and (d, d)")
    return x, mean, cholesky(cov)


def half_logdet(factor):
    return sum(log(diagonal(factor)))
