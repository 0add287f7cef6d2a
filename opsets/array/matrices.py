"""What functions of matrices share: what they take, and the adjoints, triangles and columns in their rules.

Matrices are on the last two axes, the others are a stack of them.  They are float32, float64, complex64 or complex128; integers
count as float64.  What is no stack of matrices raises numpy.linalg.LinAlgError, which is a ValueError.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from .arithmetic import where
from .complex_numbers import conj
from .diagonals import tril, triu
from .indexing import getitem
from .shapes import dtype_of, expand_dims, shape_of, swapaxes

DTYPES = (np.float32, np.float64, np.complex64, np.complex128)

# ---------------------------------------------------------------- what is taken


def check_matrices(name: str, a) -> None:
    """Raise LinAlgError if a has fewer than two axes, TypeError if there is no linear algebra for its dtype."""
    if len(shape_of(a)) < 2:
        raise LinAlgError(f"{name}: a {shape_of(a)} must have two axes or more")
    check_dtype(name, a)


def check_square(name: str, a) -> None:
    """Raise as check_matrices, and LinAlgError for matrices that aren't square."""
    check_matrices(name, a)
    if shape_of(a)[-1] != shape_of(a)[-2]:
        raise LinAlgError(f"{name}: the last two axes of a {shape_of(a)} must have one length")


def check_dtype(name: str, a) -> None:
    dtype = dtype_of(a)
    if dtype.kind not in "biu" and dtype not in DTYPES:
        raise TypeError(f"{name}: matrices must be {', '.join(t.__name__ for t in DTYPES)} or integers, not {dtype}")


def machine_precision(a) -> float:
    """The share of the largest singular value of a that is lost in rounding: max(m, n) times the machine epsilon."""
    dtype = dtype_of(a)
    return max(shape_of(a)[-2:]) * float(np.finfo(dtype if dtype.kind in "fc" else np.float64).eps)


# ---------------------------------------------------------------- in rules


def adjoint(x):
    """The conjugate transposes of x's matrices."""
    return conj(swapaxes(x, -1, -2))


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


def half(x, uplo="L"):
    """One triangle of x with half of the diagonal; both of them make x."""
    x = tril(x) if uplo == "L" else triu(x)
    return where(np.eye(x.shape[-1], dtype=bool), x * 0.5, x)


def folded(x, uplo):
    """The cotangent of the triangle that is read, for that of the whole Hermitian matrix; 0 in the other triangle."""
    return half(x + adjoint(x), uplo)


def mirrored(a):
    """The Hermitian matrices that have a's lower triangle."""
    lower = half(a)
    return lower + adjoint(lower)
