"""Student's t distribution: stdtr, and the logarithm of its density, which for infinite df is the normal one."""

from __future__ import annotations

import numpy as np
from scipy import special

from autotape import kernels, operator

from ..array import absolute, exp, sqrt, square, where
from .expansions import LOG_ROOT_2PI, half_step, on_numpy, replaced


@operator(elementwise=True, numpy=special.stdtr)
def stdtr(df, x):
    """The integral of the density of Student's t with df degrees of freedom up to x.  It has derivatives in x alone."""
    return kernels().special("stdtr", [df, x])


@stdtr.backward("x")
def _(dy, df, x): return dy * exp(log_t_density(df, x))


def log_t_density(df, x):
    """That of the normal distribution for infinite df."""
    return half_step(0.5 * df) - LOG_ROOT_2PI - 0.5 * (1 + 1 / df) * t_square(df, x)


@operator(elementwise=True)
def t_square(df, x):
    """df * log(1 + x * x / df), which is x * x for infinite df."""
    return on_numpy(student_square, df, x)


@t_square.backward("df")
def _(dy, df, x): return dy * log1p_rest(x / sqrt(df))
@t_square.backward("x")
def _(dy, df, x):
    far = absolute(x) > sqrt(df)
    n = folded(x / sqrt(df))
    return dy * where(far, where(far, df, 1) / where(far, x, 1), x) * (2 / (1 + n * n))


def student_square(df, x):
    with np.errstate(all="ignore"):
        w = np.square(x / np.sqrt(df))
        y = np.where(w > 1e20, df * (2 * np.log(np.abs(x)) - np.log(df)), df * np.log1p(w))
        return np.where(df == np.inf, np.square(x), y)


@operator(elementwise=True)
def log1p_rest(z):
    """log(1 + z * z) - z * z / (1 + z * z), for small z a series of positive terms."""
    return on_numpy(rest, z)


@log1p_rest.backward
def _(dy, z):
    n = folded(z)
    return dy * where(absolute(z) > 1, n, n * n * n) * (2 / square(1 + n * n))


def rest(z):
    with np.errstate(all="ignore"):
        w = np.square(z)
        plain = np.where(w > 1e20, 2 * np.log(np.abs(z)), np.log1p(w)) - 1 / (1 + 1 / w)
    return replaced(plain, w < 0.25, near_rest, z)


def near_rest(z):
    r, series = z * z / (2 + z * z), 0
    for k in range(17, 1, -2):
        series = r * r * series + 1 / k
    return 2 * r * r * (1 / (1 + r) + r * series)


def folded(z):
    """z or 1 / z, the smaller of them."""
    far = absolute(z) > 1
    return where(far, 1 / where(far, z, 1), z)
