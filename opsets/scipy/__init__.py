"""Opset scipy: SciPy's functions of Tensors, with its names, arguments and values.  It needs SciPy, the extra autotape[scipy].

    scipy.special.gammaln(t)                             # SciPy's own ufuncs see Tensors, and bring this opset in
    from autotape.opsets.scipy import linalg, special, stats
    special.logsumexp(t, axis=0), linalg.expm(t), stats.norm.logpdf(t, loc, scale)

The other functions of SciPy ask for an ndarray, which a Tensor that is being recorded refuses with a TypeError that names the one here.
The rules of the room are those of the opset array.

The files, each importing only from those above it:

    error_functions  erf erfc erfcx erfinv erfcinv, ndtr log_ndtr ndtri
    logarithms       expit logit log_expit, xlogy xlog1py, entr rel_entr kl_div, logsumexp softmax log_softmax
    expansions       what large terms leave when they cancel: stirling half_step
    zetas            zeta, and its differences
    gammas           gamma gammaln psi polygamma beta betainc gammainc ...
    student          stdtr, and the density
    bessel           j0 j1 jv y0 y1 yv iv i0e i1e ive
    special          all these under one name
    linalg           expm sqrtm, solve_triangular cho_factor cho_solve solve_banded solve_sylvester, toeplitz block_diag
    signal           convolve
    integrate        odeint
    stats            norm t gamma chi2 beta uniform, poisson, dirichlet, multivariate_normal
"""

from __future__ import annotations

from . import stats  # noqa: F401  (its names stand under its distributions')
from .integrate import odeint
from .linalg import block_diag, cho_factor, cho_solve, expm, solve_banded, solve_sylvester, solve_triangular, sqrtm, toeplitz
from .signal import convolve
from .special import (
    beta,
    betainc,
    betaincc,
    betaln,
    digamma,
    entr,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    expit,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    i0,
    i0e,
    i1,
    i1e,
    iv,
    ive,
    j0,
    j1,
    jn,
    jv,
    kl_div,
    log_expit,
    log_ndtr,
    log_softmax,
    logit,
    logsumexp,
    multigammaln,
    ndtr,
    ndtri,
    polygamma,
    psi,
    rel_entr,
    rgamma,
    softmax,
    stdtr,
    xlog1py,
    xlogy,
    y0,
    y1,
    yn,
    yv,
    zeta,
)

__all__ = [
    "beta", "betainc", "betaincc", "betaln", "block_diag", "cho_factor", "cho_solve", "convolve", "digamma", "entr", "erf", "erfc",
    "erfcinv", "erfcx", "erfinv", "expit", "expm", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e",
    "iv", "ive", "j0", "j1", "jn", "jv", "kl_div", "log_expit", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr",
    "ndtri", "odeint", "polygamma", "psi", "rel_entr", "rgamma", "softmax", "solve_banded", "solve_sylvester", "solve_triangular",
    "sqrtm", "stdtr", "toeplitz", "xlog1py", "xlogy", "y0", "y1", "yn", "yv", "zeta",
]  # fmt: skip
