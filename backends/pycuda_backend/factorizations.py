"""Linear systems and factorizations of stacks of matrices, one thread block a matrix: made for many of them rather than for large ones.

LU with partial pivoting, Cholesky and Householder's QR; eigenvalues and singular values by Jacobi's rotations.  Whether a matrix is
singular only its factors tell, so what raises for one waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.linalg import LinAlgError

from ..kernels import Array, Shape
from .array import DeviceArray, empty, view
from .launch import c_type
from .layout import broadcast
from .transfer import copy_into, filled

Triangle = Literal["L", "U"]
_FLAG = np.dtype(np.int32)


# -- by LU
def inv(k: Any, a: DeviceArray) -> Array:
    a = _square(k, "inv", a)
    x = empty(a.shape, a.dtype)
    _run(k, "lu", "one", "Pi", x, x, a.shape[-1])
    return _solved(k, a, x)


def solve(k: Any, a: DeviceArray, b: DeviceArray) -> Array:
    _check_square(a)
    _check(b)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"solve: b {b.shape} must have as many rows (its last axis but one) as a {a.shape} has")
    dtype, lead = np.result_type(_dtype("solve", a), _dtype("solve", b)), broadcast([a.shape[:-2], b.shape[:-2]])
    return _solved(k, *[_copies(k.astype(x, dtype), lead) for x in (a, b)])


def _solved(k: Any, a: DeviceArray, x: DeviceArray) -> DeviceArray:
    """x, which becomes a's solution for it.  Raises LinAlgError if an a is singular."""
    n, columns = x.shape[-2:]
    *_, swapped, singular = _lu(k, a)
    _raise_if(singular, "Singular matrix")
    _run(k, "lu", "solve", "PPPii", x, x, a, swapped, n, columns)
    return x


def _lu(k: Any, a: DeviceArray) -> tuple[DeviceArray, ...]:
    """Signs and logarithms of the determinants, the swaps of rows, and the flag of a singular matrix; a becomes its factors."""
    lead, n = a.shape[:-2], a.shape[-1]
    sign, logdet, swapped, singular = empty(lead, a.dtype), empty(lead, a.dtype), empty((*lead, n), _FLAG), _flag()
    _run(k, "lu", "factor", "PPPPPi", a, a, swapped, sign, logdet, singular, n)
    return sign, logdet, swapped, singular


def slogdet(k: Any, a: DeviceArray) -> tuple[Array, Array]:
    sign, logdet, *_ = _lu(k, _square(k, "slogdet", a))
    return sign, logdet


def det(k: Any, a: DeviceArray) -> Array:
    sign, logdet, *_ = _lu(k, _square(k, "det", a))
    return k.multiply(sign, k.exp(logdet))


# -- by columns
def cholesky(k: Any, a: DeviceArray) -> Array:
    a, failed = _square(k, "cholesky", a), _flag()
    _run(k, "cholesky", "cholesky", "PPi", a, a, failed, a.shape[-1])
    _raise_if(failed, "Matrix is not positive definite")
    return a


def qr(k: Any, a: DeviceArray, complete: bool) -> tuple[Array, Array]:
    return _qr(k, _own(k, "qr", a), complete, positive=False)


def _qr(k: Any, a: DeviceArray, complete: bool, positive: bool) -> tuple[DeviceArray, DeviceArray]:
    """q and r of a, which is used up; r's diagonal is not negative if `positive`."""
    (*lead, m, n), count = a.shape, min(a.shape[-2:])
    width = m if complete else count
    q, r, tau = (empty((*lead, *shape), a.dtype) for shape in ((m, width), (width, n), (count,)))
    _run(k, "qr", "qr", "PPPPiiii", a, a, q, r, tau, m, n, width, int(positive))
    return q, r


# -- by rotations
def eigh(k: Any, a: DeviceArray, uplo: Triangle) -> tuple[Array, Array]:
    a = _square(k, "eigh", a)
    lead, n = a.shape[:-2], a.shape[-1]
    w, v, g, turns = (empty((*lead, *shape), a.dtype) for shape in ((n,), (n, n), (n, n), (n + 1, 2)))
    _run(k, "jacobi", "eigh", "PPPPPii", a, a, g, turns, w, v, n, int(uplo == "U"))
    return w, v


def eigvalsh(k: Any, a: DeviceArray, uplo: Triangle) -> Array:
    return eigh(k, a, uplo)[0]


def svd(k: Any, a: DeviceArray, full: bool) -> tuple[Array, Array, Array]:
    """Of a matrix that is wider than high the transposed one's.  Rotations give one side; the other is q of that side times the values,
    which completes it to a basis where values are 0, too."""
    near, s, far = _rotated(k, "svd", a)
    far, _ = _qr(k, far, full, positive=True)
    return (_transposed(near), s, _transposed(far)) if _is_wide(a) else (far, s, near)


def svdvals(k: Any, a: DeviceArray) -> Array:
    return _rotated(k, "svdvals", a)[1]


def _rotated(k: Any, name: str, a: DeviceArray) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
    """The singular values s (..., n) of a, n being its shorter side; as rows (..., n, n) the singular vectors of that side, and as columns
    (..., m, n) those of the longer times their values.  Raises LinAlgError for NaN."""
    _check(a)
    b = _own(k, name, a if _is_wide(a) else _transposed(a))
    (*lead, n, m), failed = b.shape, _flag()
    s, near, far, g, norms = (empty((*lead, *shape), b.dtype) for shape in ((n,), (n, n), (m, n), (n, n), (n,)))
    _run(k, "jacobi", "svd", "PPPPPPPii", b, b, g, norms, s, near, far, failed, n, m)
    _raise_if(failed, "SVD did not converge")
    return near, s, far


def pinv(k: Any, a: DeviceArray, rcond: Array) -> Array:
    u, s, vh = svd(k, a, False)
    if not s.size:
        return k.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), s.dtype)
    limit = k.multiply(rcond, k.max(s, -1, False))
    counts = k.greater(s, k.reshape(limit, (*limit.shape, 1)))
    inverse = k.where(counts, k.reciprocal(s), k.scalar(0.0, s.dtype))
    return k.matmul(_transposed(vh), k.multiply(k.reshape(inverse, (*s.shape, 1)), _transposed(u)))


def cofactors(k: Any, a: DeviceArray, d: DeviceArray) -> Array:
    """a = u s vh has the cofactors det(u) det(vh) u c vh, c being the products of all singular values but one; NaN where a isn't finite.

    So d is of no use, not even for the sign: it may be 0.
    """
    a = _square(k, "cofactors", a)
    n = a.shape[-1]
    if not a.size:
        return a
    finite = k.all(k.isfinite(a), (-2, -1), True)
    nothing, undefined = k.scalar(0.0, a.dtype), k.scalar(float("nan"), a.dtype)
    u, s, vh = svd(k, k.where(finite, a, nothing), False)
    others = k.where(k.adopt(np.eye(n, dtype=bool)), k.scalar(1.0, a.dtype), k.reshape(s, (*s.shape[:-1], 1, n)))
    c = k.multiply(k.prod(others, -1, False), k.reshape(k.multiply(det(k, u), det(k, vh)), (*s.shape[:-1], 1)))
    return k.where(finite, k.matmul(k.multiply(u, k.reshape(c, (*s.shape[:-1], 1, n))), vh), undefined)


# -- matrices, and launches for all of a stack
def _dtype(name: str, a: DeviceArray) -> np.dtype[Any]:
    """That of a's factors.  Raises TypeError."""
    if a.dtype.itemsize == 2 and a.dtype.kind not in "iu":
        raise TypeError(f"{name}: no factorization takes {a.dtype}; cast to float32")
    return a.dtype if a.dtype.kind == "f" else np.dtype(np.float64)


def _check(a: DeviceArray) -> None:
    """Raises what NumPy does."""
    if a.ndim < 2:
        raise LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")


def _check_square(a: DeviceArray) -> None:
    _check(a)
    if a.shape[-1] != a.shape[-2]:
        raise LinAlgError(f"Last 2 dimensions of the array must be square, and its shape is {a.shape}")


def _is_wide(a: DeviceArray) -> bool:
    return a.shape[-1] > a.shape[-2]


def _own(k: Any, name: str, a: DeviceArray) -> DeviceArray:
    """A dense copy of the matrices, to be used up."""
    _check(a)
    return _copies(k.astype(a, _dtype(name, a)), a.shape[:-2])


def _square(k: Any, name: str, a: DeviceArray) -> DeviceArray:
    """The same of square matrices."""
    _check_square(a)
    return _own(k, name, a)


def _copies(a: DeviceArray, lead: Shape) -> DeviceArray:
    """A dense stack of these lengths with a's matrices in it."""
    y = empty((*lead, *a.shape[-2:]), a.dtype)
    copy_into(y, a)
    return y


def _transposed(a: DeviceArray) -> DeviceArray:
    return view(a, (*a.shape[:-2], *a.shape[:-3:-1]), (*a.strides[:-2], *a.strides[:-3:-1]))


def _flag() -> DeviceArray:
    """For a kernel to set."""
    return filled((1,), 0, _FLAG)


def _raise_if(flag: DeviceArray, message: str) -> None:
    if np.asarray(flag)[0]:
        raise LinAlgError(message)


def _run(k: Any, unit: str, function: str, types: str, a: DeviceArray, *args: Any) -> None:
    """Launch a unit's function with a block for each matrix of the stack a."""
    if count := prod(a.shape[:-2]):
        k.say("cuda, one block a matrix")
        k.kernel(unit, function, types, TYPE=c_type(a.dtype))(count, _threads(prod(a.shape[-2:])), *args)


def _threads(size: int) -> int:
    """Of a block for a matrix with so many elements: a thread has four of them, but there are at most 16 warps."""
    return 32 * max(1, min(16, size // 128))


_ALL = (inv, solve, det, slogdet, cofactors, cholesky, eigh, eigvalsh, svd, svdvals, qr, pinv)
KERNELS: dict[str, Callable[..., Any]] = {kernel.__name__: kernel for kernel in _ALL}
