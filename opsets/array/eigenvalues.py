"""Eigenvalues and eigenvectors: eigh eigvalsh of symmetric (complex: Hermitian) matrices, eig eigvals of any square ones.

Conventions of the derivatives:

- An eigenvector is defined up to its sign, if it is complex up to its phase.  What is made of it must not depend on that:
  v * conj(v), v[0] / v[1], (v * f(w)) @ inv(v).  The phase is LAPACK's, and taken to turn as little as it can.
- Where two eigenvalues are exactly equal, their vectors are defined up to a rotation, and the part of the derivative that
  divides by the difference of the values is 0 instead.  First derivatives of what is made of the values alone are right, with
  equal values treated alike, and of v @ v.T; those of (v * f(w)) @ v.T, and second derivatives, lack that part.  Where values
  are nearly equal it is large, and as inexact as their difference.
- Matrices that have no n independent eigenvectors, [[0, 1], [0, 0]], have no derivative: near them it grows without bound, and
  at them it is as large as rounding lets it be, or raises LinAlgError.
- eigh reads one triangle of a, and no imaginary part on the diagonal.  The derivative is that of what it computes: in the elements
  that it reads, each of which stands for its mirror image too, and 0 in the others.  It is the symmetric derivative S folded
  over, tril(S) + tril(S.T, -1); for a symmetric a that is made of other things, x @ x.T, that makes no difference.
"""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator
from autotape.tensor import asarray

from .complex_numbers import conj, imag, real
from .diagonals import diagonal
from .logic import not_equal
from .matrices import check_square, differences, folded, reciprocal_or_0, row
from .reductions import any
from .shapes import dtype_of, expand_dims, swapaxes, under_name
from .solving import solve

EighResult = type(np.linalg.eigh(np.eye(1)))
EigResult = type(np.linalg.eig(np.eye(1)))
ALWAYS_COMPLEX = np.linalg.eigvals(np.eye(1)).dtype.kind == "c"  # as NumPy 2.5 has them

# ---------------------------------------------------------------- of symmetric matrices


def eigh(a, UPLO="L"):
    """EighResult(eigenvalues, eigenvectors) of symmetric a (..., n, n): w, ascending, and v for which (v * w) @ v.T = a.

    Of complex, Hermitian a w is real and (v * w) @ conj(v.T) = a.  Only the lower ("L") or upper ("U") triangle of a is read, and the
    real part of its diagonal; the derivative is 0 in the rest.
    What is made of v must not depend on the signs or phases of its columns, nor on their rotation where eigenvalues are equal.
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
    vc, vt = conj(v), swapaxes(v, -1, -2)
    turned = vc @ (reciprocal_or_0(differences(w)) * (vt @ dv))
    return folded((turned if dw is None else turned + vc * row(dw)) @ vt, uplo)


@operator
def eigenvalues(a, uplo="L"):
    """eigvalsh."""
    return kernels().eigvalsh(a, uplo)


@eigenvalues.backward
def _(dy, a, uplo): return along_eigenvectors(dy, eigenpairs(a, uplo=uplo)[1], uplo)


def along_eigenvectors(dw, v, uplo):
    return folded((conj(v) * row(dw)) @ swapaxes(v, -1, -2), uplo)


# ---------------------------------------------------------------- of any matrices


def eig(a):
    """EigResult(eigenvalues, eigenvectors) of square a (..., n, n): w, in no order, and v, its columns of length 1, with a @ v = v * w.

    Both are complex, but before NumPy 2.5 for real a whose eigenvalues are all real.
    What is made of v must not depend on the signs or phases of its columns.  The derivative leaves out, as 0, what would divide by
    the difference of equal eigenvalues; where there are no n independent eigenvectors there is none.
    Raises LinAlgError if a holds NaN or infinities.
    """
    check_square("eig", a)
    found = under_name("eig", general_eigenpairs, a)
    return EigResult(*(found if ALWAYS_COMPLEX else real_if_all_are(a, *found)))


def eigvals(a):
    """The eigenvalues of square a (..., n, n), in no order.  As eig, of which it is the first result."""
    check_square("eigvals", a)
    w = under_name("eigvals", general_eigenvalues, a)
    return w if ALWAYS_COMPLEX else real_if_all_are(a, w)[0]


def real_if_all_are(a, w, *vectors):
    """Eigenvalues and vectors, real where all eigenvalues of a real a are.  The values are looked at."""
    is_complex = dtype_of(a).kind == "c" or asarray(any(not_equal(imag(w), 0))).item()
    return (w, *vectors) if is_complex else (real(w), *map(real, vectors))


@operator(outputs="w v")
def general_eigenpairs(a):
    """eig, whose results are complex."""
    return kernels().eig(a)


@general_eigenpairs.backward
def _(dw, dv, a_like, w, v):
    vt = swapaxes(v, -1, -2)
    if dv is None:
        return along_independent_eigenvectors(dw, vt, a_like)
    wanted = vt @ dv
    kept_length = wanted - (vt @ conj(v)) * row(diagonal(wanted, 0, -2, -1))
    turned = (reciprocal_or_0(differences(w)) * kept_length) @ vt
    return real_like(a_like, solve(vt, turned if dw is None else turned + expand_dims(dw, -1) * vt))


@operator
def general_eigenvalues(a):
    """eigvals, whose results are complex."""
    return kernels().eigvals(a)


@general_eigenvalues.backward
def _(dy, a): return along_independent_eigenvectors(dy, swapaxes(general_eigenpairs(a)[1], -1, -2), a)


def along_independent_eigenvectors(dw, vt, a_like):
    return real_like(a_like, solve(vt, expand_dims(dw, -1) * vt))


def real_like(a_like, da):
    """The cotangent of a, real if a is."""
    return da if a_like.dtype.kind == "c" else real(da)
