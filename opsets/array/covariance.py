"""Covariances and correlations of variables, of which each is a row of observations: cov corrcoef."""

from __future__ import annotations

import numpy as np

from autotape.tensor import asarray

from .arithmetic import clip, divide, floor, maximum, multiply, subtract
from .complex_numbers import complex_of, conj, imag, real
from .creation import astype
from .diagonals import diagonal
from .functions import sqrt
from .joining import concatenate
from .linear import matmul
from .logic import less, not_equal
from .reductions import any, sum
from .shapes import atleast_2d, dtype_of, matrix_transpose, reshape, shape_of, squeeze
from .summaries import average


def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None):
    """The covariance matrix of the rows of m, and of y below them, in float64 or complex128; of one row, its variance.
    Columns with rowvar=False.

    Sums of products, whose second factors are conjugated, are divided by the number of observations less `ddof`, by default 1, or 0
    if `bias` is true.  fweights, whole numbers, say how often each observation counts, and aweights how much.  Raises TypeError for
    other fweights, ValueError for m or y of more than two axes and for negative weights, RuntimeError for weights of another shape.
    """
    x = variables(m, y, rowvar)
    rows, n = shape_of(x)
    if rows == 0:
        return reshape(x, (0, 0))
    w = observation_weights(n, fweights=fweights, aweights=aweights)
    away = subtract(x, average(x, 1, w, keepdims=True))
    products = matmul(away, matrix_transpose(conj(away if w is None else multiply(away, w))))
    return squeeze(divide(products, freedom(n, w, aweights, int(not bias) if ddof is None else ddof)))


def variables(m, y, rowvar):
    """The variables of m and y as rows, in float64 or complex128."""
    given = [a for a in (m, y) if a is not None]
    if wrong := [shape_of(a) for a in given if len(shape_of(a)) > 2]:
        raise ValueError(f"cov: m and y must have one axis or two, not {wrong[0]}")
    rows = [matrix_transpose(a) if len(shape_of(a)) == 2 and not rowvar else atleast_2d(a) for a in given]
    return astype(rows[0] if y is None else concatenate(rows), np.result_type(*map(dtype_of, given), np.float64))


def observation_weights(n: int, **weights):
    """The product of the weights of the n observations that are given, in float64; None if none are."""
    product = None
    for name, w in weights.items():
        if w is not None:
            check_weights(name, w, n)
            product = astype(w, np.float64) if product is None else multiply(product, w)
    return product


def check_weights(name: str, w, n: int) -> None:
    if shape_of(w) != (n,):
        raise RuntimeError(f"cov: {name} must have shape {(n,)}, a weight for each observation, not {shape_of(w)}")
    if asarray(any(less(w, 0))):
        raise ValueError(f"cov: {name} must not be negative")
    if name == "fweights" and asarray(any(not_equal(w, floor(w)))):
        raise TypeError("cov: fweights must be whole numbers")


def freedom(n, w, aweights, ddof):
    """What the sums of products are divided by: 0 if it would be negative."""
    if ddof != int(ddof):
        raise ValueError(f"cov: ddof must be a whole number, not {ddof}")
    if w is None:
        return max(float(n - ddof), 0.0)
    total = sum(w)
    return maximum(subtract(total, multiply(ddof, 1.0 if aweights is None else divide(sum(multiply(w, aweights)), total))), 0)


def corrcoef(x, y=None, rowvar=True):
    """The correlation matrix of the rows of x, and of y below them: their covariances divided by their standard deviations.

    It is in float64, or complex128.  Columns with rowvar=False.  NaN for a row whose elements are all equal; of one row, 1.
    """
    c = cov(x, y, rowvar)
    if shape_of(c) == ():
        return divide(c, c)
    deviation = sqrt(real(diagonal(c)))
    r = divide(divide(c, reshape(deviation, (-1, 1))), deviation)
    return clip(r, -1, 1) if r.dtype.kind != "c" else complex_of(clip(real(r), -1, 1), clip(imag(r), -1, 1))
