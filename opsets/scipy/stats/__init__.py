"""scipy.stats' distributions of Tensors, as autotape.opsets.scipy.stats: log-densities, densities, integrals, entropies.

    from autotape.opsets.scipy import stats
    stats.norm.logpdf(x, loc, scale), stats.t.cdf(x, df), stats.poisson.logpmf(k, mu)

They are compositions of operators, with derivatives in x and in the parameters, to any order.
"""

from __future__ import annotations

from . import dirichlet, multivariate_normal, poisson
from .continuous import beta, chi2, gamma, norm, t, uniform

__all__ = ["beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t", "uniform"]
