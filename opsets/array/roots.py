"""Polynomials and their zeros: NumPy's roots poly.

The coefficients are 1-d, that of the highest power first.
"""

from __future__ import annotations

import numpy as np

from autotape.numpy_protocol import numpy_function
from autotape.tensor import asarray
from autotape.transforms import stop_gradient

from .arithmetic import divide, multiply, negative, subtract
from .complex_numbers import real
from .creation import astype, zeros_like
from .eigenvalues import eigvals, real_if_all_are
from .indexing import getitem
from .joining import concatenate, pad_with
from .logic import not_equal
from .matrices import row
from .polynomials import each
from .reductions import HALF
from .shapes import atleast_1d, dtype_of, shape_of, under_name


@numpy_function(np.roots)
def roots(p):
    """The zeros of a polynomial, in no order, as the eigenvalues of its companion matrix; real ones if all are.

    Where zeros are equal they have no derivative.  p's last coefficients that are 0, which is looked at, give zeros that are
    0 and constant.  Raises ValueError for a p that isn't 1-d.
    """
    p = atleast_1d(p)
    if len(p.shape) != 1:
        raise ValueError(f"roots: p {p.shape} must be 1-d")
    p = astype(p, np.float64) if p.dtype.kind in "biu" else p
    there = np.flatnonzero(asarray(not_equal(p, 0)).numpy())
    if not there.size:
        return zeros_like(p, np.float64, (0,))
    first, last = there[0], there[-1]
    at_zero = p.shape[0] - 1 - last
    if first == last:
        return zeros_like(p, np.float64, (at_zero,))
    a = companion(getitem(p, slice(first, last + 1)))
    (found,) = real_if_all_are(a, under_name("roots", eigvals, a))
    return concatenate((found, zeros_like(found, shape=(at_zero,)))) if at_zero else found


def companion(p):
    """The matrix whose eigenvalues are the zeros of p, which has ones below its diagonal."""
    top = row(negative(divide(getitem(p, slice(1, None)), getitem(p, 0))))
    n = top.shape[-1]
    return concatenate((top, np.eye(n - 1, n, dtype=top.dtype)))


@numpy_function(np.poly)
def poly(seq_of_zeros):
    """The polynomial with these zeros, 1-d, that begins with 1; of a square matrix that of its eigenvalues.

    Complex zeros that come in pairs of conjugates, which is looked at, give real coefficients.  Raises ValueError for other shapes.
    """
    zeros = atleast_1d(seq_of_zeros)
    shape = shape_of(zeros)
    if len(shape) == 2 and 0 < shape[0] == shape[1]:
        zeros = under_name("poly", eigvals, zeros)
    elif len(shape) != 1:
        raise ValueError(f"poly: the zeros {shape} must be 1-d, or a square matrix's")
    if shape == (0,):
        return 1.0
    zeros = astype(zeros, np.float64) if dtype_of(zeros).kind in "biu" or dtype_of(zeros) == HALF else zeros  # as NumPy has it
    p = np.ones(1, zeros.dtype)
    for zero in each(zeros):
        p = subtract(pad_with(p, ((0, 1),)), multiply(zero, pad_with(p, ((1, 0),))))
    return real(p) if in_pairs(asarray(stop_gradient(zeros)).numpy()) else p


def in_pairs(zeros: np.ndarray) -> bool:
    """Whether complex zeros are each other's conjugates."""
    return zeros.dtype.kind == "c" and np.array_equal(np.sort(zeros), np.sort(zeros.conj()))
