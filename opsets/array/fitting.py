"""Fitting polynomials: NumPy's polyfit."""

from __future__ import annotations

from operator import index

import numpy as np

from autotape.errors import warn
from autotape.numpy_protocol import numpy_function
from autotape.tensor import asarray

from .arithmetic import add, divide, multiply
from .choosing import beside
from .functions import sqrt
from .grids import vander
from .least_squares import lstsq
from .linear import matmul, outer
from .reductions import sum
from .shapes import expand_dims, shape_of, swapaxes, under_name
from .solving import inv


@numpy_function(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """The polynomial of degree `deg` that comes nearest to the points (x, y), by least squares; y (m, k) gives k, as columns.

    w are the points' weights.  full=True gives the coefficients with what lstsq gives beside them and rcond, by default m times the
    machine epsilon; cov=True the coefficients and their covariance (..., k), which for "unscaled" takes the weights for
    1 / standard deviation.  Raises TypeError for other shapes, ValueError for a negative degree or too few points for cov.
    """
    m, order = checked(x, y, w, index(deg) + 1)
    x, y = (add(beside(p, x, y, w), 0.0) for p in (x, y))
    rcond = m * float(np.finfo(x.dtype).eps) if rcond is None else rcond
    a, b = vander(x, order), y
    if w is not None:
        w = add(w, 0.0)
        a, b = multiply(a, expand_dims(w, 1)), multiply(b, w if len(y.shape) == 1 else expand_dims(w, 1))
    scale = sqrt(sum(multiply(a, a), 0))
    a = divide(a, scale)
    c, *of_fit = under_name("polyfit", lstsq, a, b, rcond)
    c = divide(c, scale if len(y.shape) == 1 else expand_dims(scale, 1))
    residuals, rank, _ = of_fit
    if full:
        return c, *of_fit, rcond
    if asarray(rank).item() != order:
        warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning)
    return (c, covariance(a, scale, residuals, m - order, y, cov)) if cov else c


def checked(x, y, w, order: int) -> tuple[int, int]:
    """How many points and coefficients there are, once they are what polyfit takes."""
    sx, sy, sw = shape_of(x), shape_of(y), None if w is None else shape_of(w)
    if order < 1:
        raise ValueError(f"polyfit: deg must not be negative, but is {order - 1}")
    if len(sx) != 1 or sx == (0,) or len(sy) not in (1, 2) or sy[0] != sx[0] or sw not in (None, sx):
        given = f"x {sx} must be (m,), m > 0, y {sy} (m,) or (m, k)"
        raise TypeError(f"polyfit: {given}" if w is None else f"polyfit: {given} and w {sw} (m,)")
    return sx[0], order


def covariance(a, scale, residuals, freedom: int, y, cov):
    """The covariance of the coefficients (order, order), or of each of several fits (order, order, k)."""
    v = divide(inv(matmul(swapaxes(a, -1, -2), a)), outer(scale, scale))
    v = v if len(y.shape) == 1 else expand_dims(v, -1)
    if isinstance(cov, str) and cov == "unscaled":
        return v
    if freedom <= 0:
        raise ValueError("polyfit: there must be more points than coefficients for a scaled covariance; cov='unscaled' takes any")
    return multiply(v, divide(residuals, freedom))
