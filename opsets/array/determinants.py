"""Determinants: det slogdet."""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator

from .arithmetic import where
from .complex_numbers import conj, imag
from .creation import ones_like, zeros_like
from .diagonals import diagonal
from .factorizations import singular_triplets
from .joining import concatenate
from .matrices import adjoint, check_square, columns, reciprocal_or_0, row
from .reductions import prod, sum
from .shapes import expand_dims, swapaxes, under_name
from .solving import inv

SlogdetResult = type(np.linalg.slogdet(np.eye(1)))

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
def _(dy, a, y): return expand_dims(dy, (-2, -1)) * cofactors(a, y)


@operator(nondifferentiable="d")
def cofactors(a, d):
    """The derivative of det(a) in each element: d * inv(a).T, but right for singular a, too; d is det(a), and not another variable."""
    return kernels().cofactors(a, d)


@cofactors.backward("a")
def _(dy, a, d):
    n = a.shape[-1]
    if n < 2:
        return zeros_like(dy)
    u, s, vh = singular_triplets(a)
    largest, smallest = (expand_dims(columns(s, i), (-2, -1)) for i in (0, -1))
    regular = smallest > largest * float(np.finfo(a.dtype).eps) ** 0.25
    if a.dtype.kind == "c":  # one that is 0 turns complex as a changes, for no phase of u and vh keeps it real
        s = diagonal(adjoint(u) @ a @ adjoint(vh), 0, -2, -1)
    of_any = expand_dims(det(u) * det(vh), (-2, -1)) * (conj(u) @ at_diagonal(adjoint(u) @ dy @ adjoint(vh), s) @ conj(vh))
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


# ---------------------------------------------------------------- its logarithm


def slogdet(a):
    """SlogdetResult(sign, logabsdet) of square matrices: det(a) / abs(det(a)) and log(abs(det(a))), for singular a 0 and -inf.

    The derivative of a real sign is 0.  That of logabsdet is inv(a).T; where a is singular there is none, and asking for it
    raises ValueError.
    """
    check_square("slogdet", a)
    return SlogdetResult(*under_name("slogdet", sign_and_logdet, a))


@operator(outputs="sign logdet")
def sign_and_logdet(a):
    """slogdet."""
    return kernels().slogdet(a)


@sign_and_logdet.backward
def _(dsign, dlogdet, a, sign):
    """dlogdet is the real part of the trace of inv(a) @ da, and dsign = 1j * sign times its imaginary part."""
    if dsign is not None and a.dtype.kind == "c":
        turned = 1j * imag(dsign * sign)
        dlogdet = turned if dlogdet is None else dlogdet + turned
    if dlogdet is None:
        return zeros_like(a)
    return expand_dims(dlogdet, (-2, -1)) * swapaxes(inv(a), -1, -2)
