"""Norms, and what singular values say of a matrix: norm vector_norm matrix_norm, cond matrix_rank.

All are compositions.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.linalg import LinAlgError

from .arithmetic import absolute, divide, multiply, where
from .creation import astype
from .determinants import slogdet
from .factorizations import svd, svdvals
from .indexing import getitem
from .logic import equal, greater, isinf, isnan, logical_and, logical_not, not_equal
from .matrices import check_matrices, check_square, machine_precision
from .reductions import any, count, max, min, root_sum_power, root_sum_square, sum
from .shapes import as_array, expand_dims, moveaxis, shape_of, under_name
from .solving import inv

# ---------------------------------------------------------------- norms


def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of x's vectors along `axis`, of its matrices on a pair of axes, or of x as a whole.  See numpy.linalg.norm.

    ord for vectors: None or 2 (Euclidean), 1, inf, -inf, 0, or any other number p for sum(abs(x) ** p) ** (1 / p).
    ord for matrices: None or "fro" (Frobenius), 1, -1, inf, -inf, and of their singular values 2 (the largest), -2 (the smallest)
    and "nuc" (the sum).  The derivative of a norm that is 0, and that of "nuc" in each singular value that is 0, is 0; equal largest
    or smallest values share it.
    """
    ndim, x = len(shape_of(x)), measurable(x)
    if ord is None and axis is None:
        return root_sum_square(x, None, keepdims)
    axes = normalize_axis_tuple(range(ndim) if axis is None else axis, ndim)
    if len(axes) == 1:
        return norm_of_vectors(x, ord, axes, keepdims)
    if len(axes) == 2:
        return norm_of_matrices(x, ord, axes, keepdims)
    raise ValueError(f"norm: ord={ord} is a norm of one or two axes of x {shape_of(x)}, not of axis={axis}")


def vector_norm(x, axis=None, keepdims=False, ord=2):
    """norm of the vectors that x's elements make over `axis`: None (all), an int or a tuple of ints."""
    ndim = len(shape_of(x))
    return norm_of_vectors(measurable(x), ord, normalize_axis_tuple(range(ndim) if axis is None else axis, ndim), keepdims)


def matrix_norm(x, keepdims=False, ord="fro"):
    """norm of the matrices on x's last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def measurable(x):
    """x in a dtype that has norms."""
    x = as_array(x)
    return astype(x, np.float64) if x.dtype.kind in "biu" else x


def norm_of_vectors(x, ord, axes, keepdims):
    if isinstance(ord, str):
        raise ValueError(f"norm: ord of vectors must be None or a number, not {ord!r}")
    if ord is None or ord == 2:
        return root_sum_square(x, axes, keepdims)
    if ord == 0:
        return sum(astype(not_equal(x, 0), np.finfo(x.dtype).dtype), axes, keepdims)  # complex numbers are counted by real ones
    if ord == 1:
        return sum(absolute(x), axes, keepdims)
    if math.isinf(ord):
        return extreme(ord, absolute(x), axes, keepdims)
    return root_sum_power(x, float(ord), axes, keepdims)


def norm_of_matrices(x, ord, axes, keepdims):
    if ord in (None, "fro", "f"):
        return root_sum_square(x, axes, keepdims)
    if ord in (2, -2, "nuc"):
        return norm_of_singular_values(x, ord, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"norm: ord of matrices must be None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}")
    sums = sum(absolute(x), axes[0] if abs(ord) == 1 else axes[1], True)
    return extreme(ord, sums, axes, keepdims)


def norm_of_singular_values(x, ord, axes, keepdims):
    s = under_name("norm", svdvals, moveaxis(x, axes, (-2, -1)))
    y = sum(s, -1) if ord == "nuc" else extreme(ord, s, (-1,), False)
    return expand_dims(y, axes) if keepdims else y


def extreme(ord, x, axes, keepdims):
    """The smallest element for a negative ord, else the largest, which of nothing is 0."""
    if ord < 0:
        return min(x, axes, keepdims)
    return (max if count(shape_of(x), axes) else sum)(x, axes, keepdims)


# ---------------------------------------------------------------- of singular values


def cond(x, p=None):
    """How much matrices x (..., m, n) can magnify relative errors: the largest singular value divided by the smallest.

    p=-2 gives the inverse of that; for "fro", "nuc", 1, -1, inf and -inf it is norm(x, p) * norm(inv(x), p) of square x.
    It is inf, and its derivative 0, where x is singular or holds an infinity.  Raises LinAlgError for empty matrices.
    """
    check_matrices("cond", x)
    if 0 in shape_of(x)[-2:]:
        raise LinAlgError(f"cond: x {shape_of(x)} must not be empty")
    endless = logical_and(any(isinf(x), (-2, -1)), logical_not(any(isnan(x), (-2, -1))))
    return where(endless, math.inf, cond_of_finite(where(expand_dims(endless, (-2, -1)), 0, x), p))


def cond_of_finite(x, p):
    """cond of matrices without infinities."""
    if p in (None, 2, -2):
        s = under_name("cond", svdvals, x)
        ends = (getitem(s, (..., 0)), getitem(s, (..., -1)))
        return finite_ratio(*(reversed(ends) if p == -2 else ends))
    check_square("cond", x)
    sign = slogdet(x).sign
    regular = not_equal(sign, 0)
    inverse = inv(where(expand_dims(regular, (-2, -1)), x, np.eye(shape_of(x)[-1], dtype=sign.dtype)))
    return where(regular, multiply(*(under_name("cond", norm, a, p, (-2, -1)) for a in (x, inverse))), math.inf)


def finite_ratio(a, b):
    """a / b, inf where b is 0."""
    zero = equal(b, 0)
    return where(zero, math.inf, divide(a, where(zero, 1, b)))


def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    """How many singular values of matrices A (..., m, n) are above tol; of a vector or number 1, or 0 if all are 0.

    tol and rtol, of which one may be given, are numbers or arrays of one for each matrix; rtol counts in largest singular
    values and is by default max(m, n) times the machine epsilon.  hermitian=True reads the lower triangle of symmetric A.
    The derivative is 0.  Raises ValueError if both are given.
    """
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: tol and rtol can't both be given")
    if len(shape_of(A)) < 2:
        return astype(any(not_equal(A, 0)), np.int64)
    check_square("matrix_rank", A) if hermitian else check_matrices("matrix_rank", A)
    s = svd(A, compute_uv=False, hermitian=True) if hermitian else svdvals(A)
    if tol is None:
        tol = multiply(extreme(2, s, (-1,), False), machine_precision(A) if rtol is None else rtol)
    return sum(astype(greater(s, expand_dims(tol, -1)), np.int64), -1)
