"""Linear systems: inv solve slogdet, tensorsolve tensorinv.

Matrices are on the last two axes, the others are a stack of them.  They are float32 or float64; integers count as float64.
What is no stack of square matrices, and a matrix that is singular, raise numpy.linalg.LinAlgError, which is a ValueError.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.linalg import LinAlgError

from autotape import kernels, operator

from .creation import zeros_like
from .indexing import getitem
from .shapes import broadcast_to, dtype_of, expand_dims, moveaxis, ravel, reshape, shape_of, swapaxes, under_name

SlogdetResult = type(np.linalg.slogdet(np.eye(1)))

# ---------------------------------------------------------------- what functions of matrices take


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
    if dtype.kind not in "biu" and dtype not in (np.float32, np.float64):
        raise TypeError(f"{name}: matrices must be real numbers, float32, float64 or integers, not {dtype}")


# ---------------------------------------------------------------- inverse and solution


def inv(a):
    """The inverses of square matrices a (..., n, n).  Raises LinAlgError if one is singular."""
    check_square("inv", a)
    return under_name("inv", inverse_matrix, a)


@operator
def inverse_matrix(a):
    """inv."""
    return kernels().inv(a)


@inverse_matrix.backward
def _(dy, y):
    yt = swapaxes(y, -1, -2)
    return -(yt @ dy @ yt)


def solve(a, b):
    """x (..., n, k) for which a (..., n, n) @ x = b (..., n, k); stacks broadcast.  A 1-d b (n,) is a column and gives x (..., n).

    Raises LinAlgError if one of the matrices a is singular, ValueError if the shapes don't fit.
    """
    check_square("solve", a)
    check_dtype("solve", b)
    sa, sb = shape_of(a), shape_of(b)
    if len(sb) == 1 and sb[0] == sa[-1]:
        return getitem(solve(a, reshape(b, (-1, 1))), (..., 0))
    if len(sb) < 2 or sb[-2] != sa[-1]:
        fits = f"({sa[-1]},) or (..., {sa[-1]}, k)"
        raise ValueError(f"solve: b {sb} must have the shape {fits} for a {sa}")
    stack = common_stack("solve", sa, sb)
    return under_name("solve", solve_stack, *(x if s[:-2] == stack else broadcast_to(x, stack + s[-2:]) for x, s in ((a, sa), (b, sb))))


def common_stack(name: str, sa, sb):
    try:
        return np.broadcast_shapes(sa[:-2], sb[:-2])
    except ValueError as e:
        raise ValueError(f"{name}: the leading axes of a {sa} and b {sb} must broadcast") from e


@operator
def solve_stack(a, b):
    """solve, for stacks of one shape."""
    return kernels().solve(a, b)


@solve_stack.backward
def _(dy, a, y, needs):
    db = solve(swapaxes(a, -1, -2), dy)
    return -(db @ swapaxes(y, -1, -2)) if needs[0] else None, db


# ---------------------------------------------------------------- log of the determinant


def slogdet(a):
    """SlogdetResult(sign, logabsdet) of square matrices: the sign of det(a) and log(abs(det(a))), for singular a 0 and -inf.

    The derivative of sign is 0.  That of logabsdet is inv(a).T; where a is singular there is none, and asking for it raises
    ValueError.
    """
    check_square("slogdet", a)
    return SlogdetResult(*under_name("slogdet", sign_and_logdet, a))


@operator(outputs="sign logdet")
def sign_and_logdet(a):
    """slogdet."""
    return kernels().slogdet(a)


@sign_and_logdet.backward
def _(dsign, dlogdet, a):
    if dlogdet is None:
        return expand_dims(zeros_like(dsign), (-2, -1)) * zeros_like(a)
    return expand_dims(dlogdet, (-2, -1)) * swapaxes(inv(a), -1, -2)


# ---------------------------------------------------------------- tensors as matrices


def tensorsolve(a, b, axes=None):
    """x for which tensordot(a, x, x.ndim) = b; a's `axes`, a sequence, are moved to its end first.

    Raises LinAlgError unless a, as a matrix of b.size rows, is square and regular.
    """
    a = a if axes is None else moveaxis(a, axes, range(-len(axes), 0))
    sa, sb = shape_of(a), shape_of(b)
    shape = sa[len(sb) :]
    n = math.prod(shape)
    if math.prod(sa) != n * n or math.prod(sb) != n:
        raise LinAlgError(f"tensorsolve: a {sa} must have the shape of b {sb} and then axes of as many elements")
    return reshape(under_name("tensorsolve", solve, reshape(a, (n, n)), ravel(b)), shape)


def tensorinv(a, ind=2):
    """The inverse of tensordot(a, x, a.ndim - ind) in x: a (*rows, *columns) of `ind` axes of rows gives (*columns, *rows).

    Raises LinAlgError unless a, as a matrix, is square and regular, ValueError for ind < 1.
    """
    shape = shape_of(a)
    if ind < 1:
        raise ValueError(f"tensorinv: ind must be 1 or more, not {ind}")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise LinAlgError(f"tensorinv: the first {ind} axes of a {shape} must have as many elements as the others")
    return reshape(under_name("tensorinv", inv, reshape(a, (rows, columns))), shape[ind:] + shape[:ind])
