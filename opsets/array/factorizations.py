"""Factorizations: cholesky svd svdvals qr.

Conventions of the derivatives:

- Singular vectors are defined up to their sign, if they are complex up to their phase.  What is made of them must not depend on
  that: u * conj(u), (u * f(s)) @ vh.  The phase is LAPACK's, and taken to turn as little as it can.
- Where two singular values are exactly equal, their vectors are defined up to a rotation, and the part of the derivative that
  divides by the difference of the values is 0 instead.  First derivatives of what is made of the values alone are right, with
  equal values treated alike, and of u @ vh; others, and second derivatives, lack that part.  Where values are nearly equal it is
  large, and as inexact as their difference.
- cholesky reads one triangle of a, as eigh does, and its derivative is 0 in the other (eigenvalues.py).
"""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator

from .arithmetic import absolute, negative, where
from .complex_numbers import conj
from .creation import zeros_like
from .eigenvalues import eigenpairs, eigenvalues
from .indexing import getitem, take_along_axis
from .joining import concatenate, flip
from .matrices import (
    adjoint,
    check_matrices,
    check_square,
    columns,
    differences,
    folded,
    half,
    machine_precision,
    mirrored,
    reciprocal_or_0,
    row,
)
from .shapes import expand_dims, matrix_transpose, shape_of, swapaxes, under_name
from .solving import inv, solve
from .sorting import argsort, sort

SVDResult = type(np.linalg.svd(np.eye(1)))
QRResult = type(np.linalg.qr(np.eye(1)))

# ---------------------------------------------------------------- cholesky


def cholesky(a, upper=False):
    """Lower triangular y for which y @ y.T = a, for symmetric positive definite a (..., n, n), whose upper triangle is not read.

    With upper=True upper triangular y for which y.T @ y = a, whose lower triangle is not read.  Of complex, Hermitian a it is
    y @ conj(y.T) = a, and only the real part of the diagonal is read.  The derivative is 0 in what is not read, and counts both
    halves in the other triangle: d cholesky(a)[1, 0] / d a[1, 0] is that of the symmetric change.
    Raises LinAlgError if a matrix is not positive definite.
    """
    check_square("cholesky", a)
    if upper:
        return matrix_transpose(cholesky(matrix_transpose(a)))
    return under_name("cholesky", cholesky_factor, a)


@operator
def cholesky_factor(a):
    """cholesky, of a's lower triangle."""
    return kernels().cholesky(a)


@cholesky_factor.backward
def _(dy, y):
    inverse = inv(y)
    return folded(swapaxes(inverse, -1, -2) @ half(swapaxes(y, -1, -2) @ dy) @ conj(inverse), "L")


# ---------------------------------------------------------------- singular values


def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """SVDResult(U, S, Vh) of a (..., m, n): (u[..., :k] * s) @ vh[..., :k, :] = a for k = min(m, n), s descending and >= 0.

    u (..., m, k) has orthonormal columns and vh (..., k, n) orthonormal rows; with full_matrices both are completed to square
    matrices.  compute_uv=False gives s alone, as svdvals.  hermitian=True takes a for symmetric (complex: Hermitian), reads its lower
    triangle, and goes by its eigenvalues and eigenvectors.
    What is made of u and vh must not depend on the sign or phase of a column of u with its row of vh, nor on their rotation where
    singular values are equal, nor on that of the columns and rows that complete them, which may be any basis.
    The derivative leaves out, as 0, what would divide by the difference of equal singular values, or by one that is 0.
    """
    if hermitian:
        return svd_of_symmetric(a) if compute_uv else svdvals_of_symmetric(a)
    check_matrices("svd", a)
    return SVDResult(*under_name("svd", singular_triplets, a, full=bool(full_matrices))) if compute_uv else svdvals(a)


def svd_of_symmetric(a):
    """svd by eigh: a negative eigenvalue gives its sign to the row of vh."""
    check_square("svd", a)
    w, v = under_name("svd", eigenpairs, a)
    s = absolute(w)
    order = flip(argsort(s), -1)
    s, w, u = take_along_axis(s, order, -1), take_along_axis(w, order, -1), take_along_axis(v, row(order), -1)
    return SVDResult(u, s, adjoint(where(row(w) < 0, negative(u), u)))


def svdvals_of_symmetric(a):
    """The singular values of symmetric a, descending, of which the lower triangle is read."""
    check_square("svd", a)
    return flip(sort(absolute(under_name("svd", eigenvalues, a))), -1)


def svdvals(a):
    """The singular values (..., min(m, n)) of a (..., m, n), descending.

    The derivative of one that is 0 is 0, as abs'(0) is; rounding may leave a tiny one instead, whose derivative has length 1.
    """
    check_matrices("svdvals", a)
    return under_name("svdvals", singular_values, a)


@operator(outputs="u s vh")
def singular_triplets(a, full=False):
    """svd."""
    return kernels().svd(a, full)


@singular_triplets.backward
def _(du, ds, dvh, u, s, vh):
    k, v = s.shape[-1], adjoint(vh)
    left, right = conj(columns(u, slice(k))), swapaxes(columns(v, slice(k)), -1, -2)
    if du is None and dvh is None:
        return (left * row(ds)) @ right
    of_u, beside_u = turn(u, du, k)
    of_v, beside_v = turn(v, dvh if dvh is None else adjoint(dvh), k)
    sums = expand_dims(s, -2) + expand_dims(s, -1)
    sums = where(sums > machine_precision(sums) * row(columns(s, slice(1))), sums, 0)  # singular values that are 0 but for rounding
    inside = reciprocal_or_0(differences(s)) * (of_u + of_v) + reciprocal_or_0(sums) * (of_u - of_v)
    da, inverse = left @ (inside * 0.5), row(reciprocal_or_0(s))
    if ds is not None:
        da = da + left * row(ds)
    if beside_u is not None:
        da = da + beside_u * inverse
    da = da @ right
    return da if beside_v is None else da + left @ adjoint(beside_v * inverse)


def turn(u, du, k):
    """What a cotangent wants of the first k orthonormal columns of u: to turn among themselves, antisymmetric (complex:
    anti-Hermitian) (..., k, k), and to leave the space that they span, (..., m, k), None if that is all there is.
    """
    du = zeros_like(u) if du is None else du
    u1, du1 = columns(u, slice(k)), columns(du, slice(k))
    ut_du = swapaxes(u1, -1, -2) @ du1
    among = ut_du - adjoint(ut_du)
    if u.shape[-2] == k:
        return among, None
    if u.shape[-1] == k:
        return among, du1 - conj(u1) @ ut_du
    u2, du2 = columns(u, slice(k, None)), columns(du, slice(k, None))
    return among, conj(u2) @ (swapaxes(u2, -1, -2) @ du1 - adjoint(swapaxes(u1, -1, -2) @ du2))


@operator
def singular_values(a):
    """svdvals."""
    return kernels().svdvals(a)


@singular_values.backward
def _(dy, a, y):
    u, _, vh = singular_triplets(a)
    return conj((u * row(where(y == 0, 0, dy))) @ vh)


# ---------------------------------------------------------------- qr


def qr(a, mode="reduced"):
    """QRResult(Q, R) of a (..., m, n): q with orthonormal columns and upper triangular r for which q @ r = a.

    mode "reduced": q (..., m, k) and r (..., k, n) for k = min(m, n); "complete": q (..., m, m) and r (..., m, n);
    "r": that r of "reduced" alone.  The diagonal of r is real.  Its signs are LAPACK's, and taken to stay as they are.
    The columns that complete q may be any basis, so what is made of them must not depend on their rotation.
    The derivative needs the first k columns of a to be independent, else it raises ValueError.
    Raises ValueError for another mode, TypeError for "raw", which gives no arrays with a derivative.
    """
    check_matrices("qr", a)
    if mode == "raw":
        raise TypeError("qr: mode='raw' gives LAPACK's reflections, which have no derivative here; take 'reduced', 'complete' or 'r'")
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete' or 'r', not {mode!r}")
    m, n = shape_of(a)[-2:]
    if m >= n:
        q, r = under_name("qr", orthogonal_triangular, a, complete=mode == "complete")
    else:
        q, r = under_name("qr", orthogonal_triangular, columns(a, slice(m)))
        r = concatenate([r, adjoint(q) @ columns(a, slice(m, None))], -1)
    return r if mode == "r" else QRResult(q, r)


@operator(outputs="q r")
def orthogonal_triangular(a, complete=False):
    """qr, for m >= n."""
    return kernels().qr(a, complete)


@orthogonal_triangular.backward
def _(dq, dr, q, r):
    n = r.shape[-1]
    dq, dr = zeros_like(q) if dq is None else dq, zeros_like(r) if dr is None else dr
    q1, r1, dq1 = columns(q, slice(n)), getitem(r, (..., slice(n), slice(None))), columns(dq, slice(n))
    dr1 = getitem(dr, (..., slice(n), slice(None)))
    b = dq1 + conj(q1 @ mirrored(r1 @ swapaxes(dr1, -1, -2) - swapaxes(dq1, -1, -2) @ q1))
    if q.shape[-1] > n:
        q2, dq2 = columns(q, slice(n, None)), columns(dq, slice(n, None))
        b = b - conj(q2 @ (swapaxes(dq2, -1, -2) @ q1))
    return swapaxes(solve(r1, swapaxes(b, -1, -2)), -1, -2)
