"""Linear systems: inv solve, tensorsolve tensorinv.

A matrix that is singular raises numpy.linalg.LinAlgError, which is a ValueError.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.linalg import LinAlgError

from autotape import kernels, operator

from .indexing import getitem
from .matrices import check_dtype, check_square
from .shapes import broadcast_to, moveaxis, ravel, reshape, shape_of, swapaxes, under_name

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
