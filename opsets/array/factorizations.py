"""Factorizations: cholesky eigh eigvalsh svd svdvals qr, and det and pinv, which rest on them.

Matrices are on the last two axes, the others are a stack of them.  They are float32 or float64; integers count as float64.
What is no stack of matrices, and a matrix that has no such factors, raise numpy.linalg.LinAlgError, which is a ValueError.

Conventions of the derivatives:

- Eigenvectors and singular vectors are defined up to their sign, so what is made of them must not depend on it: v * v,
  v[0] / v[1], (v * f(w)) @ v.T.  The sign is LAPACK's, and taken to stay as it is.
- Where two eigenvalues or singular values are exactly equal, their vectors are defined up to a rotation, and the part of the
  derivative that divides by the difference of the values is 0 instead.  First derivatives of what is made of the values alone
  are right, with equal values treated alike, and of v @ v.T and u @ vh; those of (v * f(w)) @ v.T, and second derivatives, lack
  that part.  Where values are nearly equal it is large, and as inexact as their difference.
- cholesky and eigh read one triangle of a.  The derivative is that of what they compute: in the elements of the triangle that
  they read, each of which stands for its mirror image too, and 0 in the others.  It is the symmetric derivative S
  folded over, tril(S) + tril(S.T, -1); for a symmetric a that is made of other things, x @ x.T, that makes no difference.
"""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator

from .arithmetic import absolute, negative, sign, where
from .creation import ones_like, zeros_like
from .diagonals import diagonal, tril, triu
from .indexing import getitem, take_along_axis
from .joining import concatenate, flip
from .logic import isfinite, isnan
from .reductions import all, any, prod, sum
from .shapes import dtype_of, expand_dims, matrix_transpose, shape_of, swapaxes, under_name
from .solving import check_matrices, check_square, inv, solve
from .sorting import argsort, sort

EighResult = type(np.linalg.eigh(np.eye(1)))
SVDResult = type(np.linalg.svd(np.eye(1)))
QRResult = type(np.linalg.qr(np.eye(1)))

# ---------------------------------------------------------------- in rules


def columns(x, part):
    """Some of the columns of x's matrices."""
    return getitem(x, (..., part))


def row(v):
    """v (..., n) as a row, which multiplies the columns of a matrix."""
    return expand_dims(v, -2)


def differences(w):
    """w[j] - w[i] at [i, j]."""
    return expand_dims(w, -2) - expand_dims(w, -1)


def reciprocal_or_0(x):
    zero = x == 0
    return where(zero, 0, 1 / where(zero, 1, x))


def folded(x, uplo):
    """The cotangent of the triangle that is read, for that of the whole symmetric matrix; 0 in the other triangle."""
    xt = swapaxes(x, -1, -2)
    return tril(x) + tril(xt, -1) if uplo == "L" else triu(x) + triu(xt, 1)


def mirrored(a):
    """The symmetric matrices that have a's lower triangle."""
    return tril(a) + swapaxes(tril(a, -1), -1, -2)


# ---------------------------------------------------------------- cholesky


def cholesky(a, upper=False):
    """Lower triangular y for which y @ y.T = a, for symmetric positive definite a (..., n, n), whose upper triangle is not read.

    With upper=True upper triangular y for which y.T @ y = a, whose lower triangle is not read.  The derivative is 0 in the
    triangle that is not read, and counts both halves in the other: d cholesky(a)[1, 0] / d a[1, 0] is that of the symmetric change.
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
    lower = tril(swapaxes(y, -1, -2) @ dy)
    halved = where(np.eye(y.shape[-1], dtype=bool), lower * 0.5, lower)
    inverse = inv(y)
    return folded(swapaxes(inverse, -1, -2) @ halved @ inverse, "L")


# ---------------------------------------------------------------- eigenvalues


def eigh(a, UPLO="L"):
    """EighResult(eigenvalues, eigenvectors) of symmetric a (..., n, n): w, ascending, and v for which (v * w) @ v.T = a.

    Only the lower ("L") or upper ("U") triangle of a is read; the derivative is 0 in the other.
    What is made of v must not depend on the signs of its columns, nor on their rotation where eigenvalues are equal.
    The derivative leaves out, as 0, what would divide by the difference of equal eigenvalues.
    """
    check_square("eigh", a)
    return EighResult(*under_name("eigh", eigenpairs, a, uplo=triangle("eigh", UPLO)))


def eigvalsh(a, UPLO="L"):
    """The eigenvalues of symmetric a (..., n, n), ascending.  As eigh, of which it is the first result.

    Of equal eigenvalues each has a derivative of its own along one eigenvector; what treats them alike has the right one.
    """
    check_square("eigvalsh", a)
    return under_name("eigvalsh", eigenvalues, a, uplo=triangle("eigvalsh", UPLO))


def triangle(name: str, uplo: str) -> str:
    if uplo.upper() not in ("L", "U"):
        raise ValueError(f"{name}: UPLO must be 'L' or 'U', not {uplo!r}")
    return uplo.upper()


@operator(outputs="w v")
def eigenpairs(a, uplo="L"):
    """eigh."""
    return kernels().eigh(a, uplo)


@eigenpairs.backward
def _(dw, dv, w, v, uplo):
    if dv is None:
        return along_eigenvectors(dw, v, uplo)
    vt = swapaxes(v, -1, -2)
    turned = v @ (reciprocal_or_0(differences(w)) * (vt @ dv))
    return folded((turned if dw is None else turned + v * row(dw)) @ vt, uplo)


@operator
def eigenvalues(a, uplo="L"):
    """eigvalsh."""
    return kernels().eigvalsh(a, uplo)


@eigenvalues.backward
def _(dy, a, uplo): return along_eigenvectors(dy, eigenpairs(a, uplo=uplo)[1], uplo)


def along_eigenvectors(dw, v, uplo):
    return folded((v * row(dw)) @ swapaxes(v, -1, -2), uplo)


# ---------------------------------------------------------------- singular values


def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """SVDResult(U, S, Vh) of a (..., m, n): (u[..., :k] * s) @ vh[..., :k, :] = a for k = min(m, n), s descending and >= 0.

    u (..., m, k) has orthonormal columns and vh (..., k, n) orthonormal rows; with full_matrices both are completed to square
    matrices.  compute_uv=False gives s alone, as svdvals.  hermitian=True takes a for symmetric, reads its lower triangle, and goes
    by its eigenvalues and eigenvectors.
    What is made of u and vh must not depend on the sign of a column of u with its row of vh, nor on their rotation where
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
    return SVDResult(u, s, matrix_transpose(where(row(w) < 0, negative(u), u)))


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
    k, v = s.shape[-1], swapaxes(vh, -1, -2)
    u1, vh1 = columns(u, slice(k)), swapaxes(columns(v, slice(k)), -1, -2)
    if du is None and dvh is None:
        return (u1 * row(ds)) @ vh1
    of_u, beside_u = turn(u, du, k)
    of_v, beside_v = turn(v, dvh if dvh is None else swapaxes(dvh, -1, -2), k)
    sums = expand_dims(s, -2) + expand_dims(s, -1)
    inside = reciprocal_or_0(differences(s)) * (of_u + of_v) + reciprocal_or_0(sums) * (of_u - of_v)
    left, inverse = u1 @ (inside * 0.5), row(reciprocal_or_0(s))
    if ds is not None:
        left = left + u1 * row(ds)
    if beside_u is not None:
        left = left + beside_u * inverse
    da = left @ vh1
    return da if beside_v is None else da + u1 @ swapaxes(beside_v * inverse, -1, -2)


def turn(u, du, k):
    """What a cotangent wants of the first k orthonormal columns of u: to turn among themselves, antisymmetric (..., k, k), and to
    leave the space that they span, (..., m, k), None if that is all there is.
    """
    du = zeros_like(u) if du is None else du
    u1, du1 = columns(u, slice(k)), columns(du, slice(k))
    ut_du = swapaxes(u1, -1, -2) @ du1
    among = ut_du - swapaxes(ut_du, -1, -2)
    if u.shape[-2] == k:
        return among, None
    if u.shape[-1] == k:
        return among, du1 - u1 @ ut_du
    u2, du2 = columns(u, slice(k, None)), columns(du, slice(k, None))
    return among, u2 @ (swapaxes(u2, -1, -2) @ du1 - swapaxes(du2, -1, -2) @ u1)


@operator
def singular_values(a):
    """svdvals."""
    return kernels().svdvals(a)


@singular_values.backward
def _(dy, a, y):
    u, _, vh = singular_triplets(a)
    return (u * row(where(y == 0, 0, dy))) @ vh


# ---------------------------------------------------------------- qr


def qr(a, mode="reduced"):
    """QRResult(Q, R) of a (..., m, n): q with orthonormal columns and upper triangular r for which q @ r = a.

    mode "reduced": q (..., m, k) and r (..., k, n) for k = min(m, n); "complete": q (..., m, m) and r (..., m, n);
    "r": that r of "reduced" alone.  The signs of q's columns are LAPACK's, and taken to stay as they are.
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
        r = concatenate([r, swapaxes(q, -1, -2) @ columns(a, slice(m, None))], -1)
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
    lower = tril(r1 @ swapaxes(dr1, -1, -2) - swapaxes(dq1, -1, -2) @ q1)
    b = dq1 + q1 @ (lower + swapaxes(tril(lower, -1), -1, -2))
    if q.shape[-1] > n:
        q2, dq2 = columns(q, slice(n, None)), columns(dq, slice(n, None))
        b = b - q2 @ (swapaxes(dq2, -1, -2) @ q1)
    return swapaxes(solve(r1, swapaxes(b, -1, -2)), -1, -2)


# ---------------------------------------------------------------- determinant


def det(a):
    """The determinants of square matrices a (..., n, n).

    First and second derivatives hold for singular matrices, too; those beyond for singular ones whose singular values differ.
    """
    check_square("det", a)
    return under_name("det", determinant, a)


@operator
def determinant(a):
    """det."""
    return kernels().det(a)


@determinant.backward
def _(dy, a): return expand_dims(dy, (-2, -1)) * cofactors(a)


@operator
def cofactors(a):
    """The derivative of det(a) in each element: det(a) * inv(a).T, but right for singular a, too."""
    return kernels().cofactors(a)


@cofactors.backward
def _(dy, a):
    n = a.shape[-1]
    if n < 2:
        return zeros_like(dy)
    u, s, vh = singular_triplets(a)
    v = swapaxes(vh, -1, -2)
    largest, smallest = (expand_dims(columns(s, i), (-2, -1)) for i in (0, -1))
    regular = smallest > largest * float(np.finfo(a.dtype).eps) ** 0.25
    of_any = expand_dims(sign(det(u) * det(v)), (-2, -1)) * (u @ at_diagonal(swapaxes(u, -1, -2) @ dy @ v, s) @ vh)
    return where(regular, at_regular(dy, where(regular, a, np.eye(n, dtype=a.dtype))), of_any)


def at_regular(dy, a):
    """The cotangent of a for that of its cofactors, for regular a."""
    t, dyt = swapaxes(inv(a), -1, -2), swapaxes(dy, -1, -2)
    return expand_dims(det(a), (-2, -1)) * (sum(t * dy, (-2, -1), True) * t - t @ dyt @ t)


def at_diagonal(dy, s):
    """The same for the diagonal matrix of s, descending and >= 0."""
    eye = np.eye(s.shape[-1], dtype=bool)
    rest = all_but_two(s)
    on = sum(rest * row(diagonal(dy, 0, -2, -1)), -1)
    return where(eye, expand_dims(on, -1), -(rest * swapaxes(dy, -1, -2)))


def all_but_two(s):
    """The products of all of s (..., n), descending and >= 0, but s[i] and s[j] at [i, j], n > 1; 0 for i = j.

    Only the last two are left out by not multiplying: if another is 0, so are they.
    """
    n = s.shape[-1]
    first = columns(s, slice(n - 2))
    inverse = concatenate([reciprocal_or_0(first), ones_like(columns(s, slice(n - 2, None)))], -1)
    y = expand_dims(prod(first, -1), (-2, -1)) * row(inverse) * expand_dims(inverse, -1)
    for k in (n - 2, n - 1):
        out = np.arange(n) == k
        y = y * where(out | out[:, None], 1, expand_dims(columns(s, k), (-2, -1)))
    return where(np.eye(n, dtype=bool), 0, y)


# ---------------------------------------------------------------- pseudo-inverse


def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    """The pseudo-inverses (..., n, m) of a (..., m, n); singular values up to rcond times the largest count as 0.

    rcond, by default 1e-15, is a number or an array of one for each matrix; rtol is the same, and None max(m, n) times the
    machine epsilon.  hermitian=True takes a for symmetric and reads its lower triangle, and gives NaN where that holds one.
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


def machine_precision(a) -> float:
    """The share of the largest singular value of a that is lost in rounding: max(m, n) times the machine epsilon."""
    dtype = dtype_of(a)
    return max(shape_of(a)[-2:]) * float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


@operator
def pseudo_inverse(a, rcond=1e-15):
    """pinv, for m >= n."""
    k = kernels()
    return k.pinv(a, k.adopt(np.asarray(rcond)))


@pseudo_inverse.backward
def _(dy, a, y):
    yt, dyt = swapaxes(y, -1, -2), swapaxes(dy, -1, -2)
    beside_columns, beside_rows = dyt @ (y @ yt), yt @ (y @ dyt)
    return beside_columns - a @ (y @ beside_columns) + beside_rows - beside_rows @ (y @ a) - yt @ (dy @ yt)
