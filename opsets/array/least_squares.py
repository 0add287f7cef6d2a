"""Least squares: pinv lstsq.

Singular values that are small beside the largest count as 0.  The derivative is that among matrices of as many others: for full
rank it is the derivative, and a matrix of lower rank has none beside it, for there the results jump.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from autotape import kernels, operator
from autotape.tensor import asarray
from autotape.transforms import stop_gradient

from .arithmetic import subtract, where
from .choosing import beside
from .complex_numbers import conj, squared
from .creation import astype
from .factorizations import svd, svdvals
from .indexing import getitem
from .linear import matmul
from .logic import isfinite, isnan
from .matrices import adjoint, check_dtype, check_matrices, check_square, machine_precision, mirrored
from .reductions import all, any, sum
from .shapes import dtype_of, expand_dims, matrix_transpose, reshape, shape_of, swapaxes, under_name

# ---------------------------------------------------------------- pseudo-inverse


def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    """The pseudo-inverses (..., n, m) of a (..., m, n); singular values up to rcond times the largest count as 0.

    rcond, by default 1e-15, is a number or an array of one for each matrix; rtol is the same, and None max(m, n) times the
    machine epsilon.  hermitian=True takes a for symmetric (complex: Hermitian) and reads its lower triangle, and gives NaN where
    that holds one.
    The derivative is that among matrices with as many singular values above rcond.  Raises ValueError if both are given.
    """
    (check_square if hermitian else check_matrices)("pinv", a)
    if rcond is not None and rtol is not np._NoValue:
        raise ValueError("pinv: rcond and rtol are the same, so one of them must be left out")
    if rtol is None:
        rcond = machine_precision(a)
    elif rtol is not np._NoValue:
        rcond = rtol
    if hermitian:
        a = mirrored(a)
        finite = all(isfinite(a), (-2, -1), True)
        return where(any(isnan(a), (-2, -1), True), np.nan, pinv(where(finite, a, 0), rcond))
    rcond = 1e-15 if rcond is None else rcond
    if np.size(rcond) and np.max(rcond) > 100 * machine_precision(a):
        a = a - cut_off(a, rcond)  # which the rule takes for 0
    m, n = shape_of(a)[-2:]
    y = under_name("pinv", pseudo_inverse, a if m >= n else matrix_transpose(a), rcond=rcond)
    return y if m >= n else matrix_transpose(y)


def cut_off(a, rcond):
    """The part of a that belongs to singular values up to rcond times the largest."""
    u, s, vh = svd(a, full_matrices=False)
    largest = getitem(s, (..., slice(1))) if shape_of(s)[-1] else s
    cut = s <= np.expand_dims(np.asarray(rcond), -1) * largest
    return (u * expand_dims(where(cut, s, 0), -2)) @ vh


@operator
def pseudo_inverse(a, rcond=1e-15):
    """pinv, for m >= n."""
    k = kernels()
    return k.pinv(a, k.adopt(np.asarray(rcond)))


@pseudo_inverse.backward
def _(dy, a, y):
    yt, yh, dyt = swapaxes(y, -1, -2), adjoint(y), swapaxes(dy, -1, -2)
    beside_columns, beside_rows = dyt @ (y @ yh), yh @ (y @ dyt)
    beside = beside_columns - a @ (y @ beside_columns) + beside_rows - beside_rows @ (y @ a)
    return conj(beside) - yt @ (dy @ yt)


# ---------------------------------------------------------------- lstsq


def lstsq(a, b, rcond=None):
    """(x, residuals, rank, s): the shortest x (n, k) for which the columns of a (m, n) @ x - b (m, k) are the shortest.  b may be (m,).

    residuals (k,) are the squared lengths of those columns if rank = n < m, else there are none, (0,).  rank counts the singular
    values s of a that are above rcond times the largest; rcond is by default max(m, n) times the machine epsilon, and -1 means that
    alone.  The derivative of x is that among matrices a of this rank; rank has none.
    Raises LinAlgError for stacks of matrices, for which there is pinv(a) @ b, and where m is not the same.
    """
    a, b = whole_system(beside(a, b), beside(b, a))
    m, n = a.shape
    if rcond is None:
        rcond = machine_precision(a)
    elif rcond < 0:
        rcond = float(np.finfo(a.dtype).eps)
    x, s = matmul(under_name("lstsq", pinv, a, rcond), b), svdvals(a)
    above = stop_gradient(s > getitem(s, slice(1)) * rcond)
    rank = astype(sum(above), np.int32)
    if asarray(rank).item() < n or m <= n:
        return x, getitem(s, slice(0)), rank, s
    left = subtract(b, matmul(a, x))
    return x, reshape(sum(squared(left), 0), (-1,)), rank, s


def whole_system(a, b):
    """a and b in the one dtype of the solution, once they are what lstsq takes."""
    sa, sb = shape_of(a), shape_of(b)
    if len(sa) != 2 or len(sb) not in (1, 2) or sa[0] != sb[0]:
        raise LinAlgError(f"lstsq: a {sa} must have the shape (m, n) and b {sb} (m,) or (m, k); for stacks there is pinv(a) @ b")
    for x in (a, b):
        check_dtype("lstsq", x)
    dtype = np.result_type(*(np.float64 if dtype_of(x).kind in "biu" else dtype_of(x) for x in (a, b)))
    return astype(a, dtype), astype(b, dtype)
