"""Linear systems and factorizations of matrices, by LAPACK through numpy.linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy import asarray, linalg

from ..kernels import Array

Triangle = Literal["L", "U"]


def inv(a: Array) -> Array:
    return linalg.inv(a)


def solve(a: Array, b: Array) -> Array:
    return linalg.solve(a, b)


def det(a: Array) -> Array:
    return asarray(linalg.det(a))


def slogdet(a: Array) -> tuple[Array, Array]:
    sign, logdet = linalg.slogdet(a)
    return asarray(sign), asarray(logdet)


def cofactors(a: Array, d: Array) -> Array:
    """By the inverse where all matrices are well away from singular ones, else by singular values, in some ten times the time."""
    try:
        inverse = linalg.inv(a)
    except linalg.LinAlgError:
        return _cofactors_of_any(a)
    condition = _square_sum(a) * _square_sum(inverse)  # its square, of which that of an overflow or NaN is not small either
    if not (condition <= np.finfo(inverse.dtype).eps ** -0.5).all():
        return _cofactors_of_any(a)
    y: Array = d[..., None, None] * inverse.swapaxes(-1, -2)
    return y


def _square_sum(a: Array) -> Array:
    """The squares of the Frobenius norms."""
    y: Array = np.einsum("...ij,...ij->...", a, a.conj()).real
    return y


def _cofactors_of_any(a: Array) -> Array:
    """a = u s vh has the cofactors det(u) det(vh) conj(u) c conj(vh), c being the products of all singular values but one."""
    finite = np.isfinite(a).all((-2, -1), keepdims=True)  # svd raises for others
    u, s, vh = linalg.svd(np.where(finite, a, a.dtype.type(0)))
    others = np.multiply.reduce(np.where(np.eye(s.shape[-1], dtype=bool), s.dtype.type(1), s[..., None, :]), -1)
    sign = asarray(linalg.det(u) * linalg.det(vh))
    return np.where(finite, (u.conj() * (sign[..., None] * others)[..., None, :]) @ vh.conj(), s.dtype.type(np.nan))


def cholesky(a: Array) -> Array:
    return linalg.cholesky(a)


def eigh(a: Array, uplo: Triangle) -> tuple[Array, Array]:
    w, v = linalg.eigh(a, uplo)
    return w, v


def eigvalsh(a: Array, uplo: Triangle) -> Array:
    return linalg.eigvalsh(a, uplo)


def eig(a: Array) -> tuple[Array, Array]:
    w, v = linalg.eig(a)
    return _complex(w), _complex(v)


def eigvals(a: Array) -> Array:
    return _complex(linalg.eigvals(a))


def _complex(x: Array) -> Array:
    """NumPy gives real numbers where all eigenvalues are real."""
    return x.astype(np.result_type(x, np.complex64), copy=False)


def svd(a: Array, full: bool) -> tuple[Array, Array, Array]:
    u, s, vh = linalg.svd(a, full)
    return u, s, vh


def svdvals(a: Array) -> Array:
    return linalg.svd(a, compute_uv=False)


def qr(a: Array, complete: bool) -> tuple[Array, Array]:
    q, r = linalg.qr(a, "complete" if complete else "reduced")
    return q, r


def pinv(a: Array, rcond: Array) -> Array:
    return linalg.pinv(a, rcond)


_ALL = (inv, solve, det, slogdet, cofactors, cholesky, eigh, eigvalsh, eig, eigvals, svd, svdvals, qr, pinv)
KERNELS: dict[str, Callable[..., Any]] = {kernel.__name__: kernel for kernel in _ALL}
