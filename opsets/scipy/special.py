"""scipy.special's functions of Tensors, as autotape.opsets.scipy.special; SciPy's own ufuncs reach those that are ufuncs there."""

from __future__ import annotations

from .bessel import i0, i0e, i1, i1e, iv, ive, j0, j1, jn, jv, y0, y1, yn, yv
from .error_functions import erf, erfc, erfcinv, erfcx, erfinv, log_ndtr, ndtr, ndtri
from .gammas import (
    beta,
    betainc,
    betaincc,
    betaln,
    digamma,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    multigammaln,
    polygamma,
    psi,
    rgamma,
)
from .logarithms import entr, expit, kl_div, log_expit, log_softmax, logit, logsumexp, rel_entr, softmax, xlog1py, xlogy
from .student import stdtr
from .zetas import zeta

__all__ = [
    "beta", "betainc", "betaincc", "betaln", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "expit", "gamma",
    "gammainc", "gammaincc", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "jn", "jv", "kl_div", "log_expit",
    "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "rel_entr", "rgamma", "softmax",
    "stdtr", "xlog1py", "xlogy", "y0", "y1", "yn", "yv", "zeta",
]  # fmt: skip
