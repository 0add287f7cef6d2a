"""scipy.linalg's functions of Tensors, as autotape.opsets.scipy.linalg: expm sqrtm, solve_triangular cho_factor cho_solve solve_banded
solve_sylvester, toeplitz block_diag.

Matrices are on the last two axes, the others are a stack of them.  What NumPy has too (inv, solve, det, svd, qr ...) NumPy's own functions
do.  Derivatives are plain transposes, of complex matrices too.
"""

from __future__ import annotations

import math

import numpy as np

from autotape import kernels, operator
from autotape.tensor import asarray
from autotape.transforms import stop_gradient

from .. import array as ops
from ..array.choosing import untracked
from ..array.complex_numbers import conj
from ..array.joining import pad_with
from ..array.matrices import check_dtype, check_square
from ..array.shapes import dtype_of, reshape, shape_of, swapaxes, under_name

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "expm", "solve_banded", "solve_sylvester", "solve_triangular", "sqrtm", "toeplitz",
]  # fmt: skip

# ---------------------------------------------------------------- functions of a matrix

PADE = [math.factorial(26 - k) * math.factorial(13) / (math.factorial(26) * math.factorial(k) * math.factorial(13 - k)) for k in range(14)]
REACH = 4.74  # the 1-norm up to which this approximant has all the digits of float64, and its derivative too
REST = -53 - math.log2(math.factorial(13) ** 2 / (math.factorial(26) * math.factorial(27)))  # log2 of rounding over its error's factor


def expm(a):
    """The exponential of square matrices: the sum of their powers a ** k / k!.

    By scaling and squaring of a Pade approximant (Higham 2005, Al-Mohy and Higham 2010), through which its derivatives go.
    """
    check_square("expm", a)
    a = ops.astype(a, np.result_type(dtype_of(a), 0.0))
    n, halvings = a.shape[-1], halvings_of(a)
    a, one = a * (0.5**halvings).astype(a.dtype), np.eye(n, dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    c = PADE
    odd = a @ (a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * one)
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * one
    y = under_name("expm", ops.solve, even - odd, even + odd)
    for done in range(int(np.max(halvings, initial=0))):
        more = halvings > done  # matrices that are done must not overflow: the derivative's 0 would meet an infinity
        part = y if np.all(more) else ops.where(more, y, 0)
        y = part @ part if part is y else ops.where(more, part @ part, y)
    return y


def halvings_of(a):
    """How often each matrix is to be halved (..., 1, 1), by the norms of its powers: far less than by its own if it is not normal."""
    values = asarray(stop_gradient(a)).numpy()
    norms = norm_of(values)
    unit = values / np.where((norms > 0) & (norms < np.inf), norms, 1)
    with np.errstate(all="ignore"):
        growth = np.maximum(*(np.log2(norm_of(np.linalg.matrix_power(unit, p))) / p for p in (8, 10))) - math.log2(REACH)
        cancelled = (np.log2(norm_of(np.linalg.matrix_power(np.abs(unit), 27))) - REST) / 26
        needed = np.log2(norms) + np.maximum(growth, cancelled)
    return np.maximum(np.where(np.isfinite(needed), np.ceil(needed), 0), 0)


def norm_of(values):
    """The 1-norm of matrices, as (..., 1, 1)."""
    return np.max(np.sum(np.abs(values), -2, np.float64, keepdims=True), -1, initial=0, keepdims=True)


def sqrtm(a):
    """The principal square root of square matrices; complex where real a has no real one.

    Its derivative is that of solve_sylvester, and infinite where a is singular.
    """
    check_square("sqrtm", a)
    return under_name("sqrtm", square_root, a)


@operator
def square_root(a):
    """sqrtm."""
    return kernels().sqrtm(a)


@square_root.backward
def _(dy, y):
    yt = swapaxes(y, -1, -2)
    return solve_sylvester(yt, yt, dy)


# ---------------------------------------------------------------- triangular systems


def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False):
    """x for which a @ x = b, of whose matrices a (..., n, n) one triangle is read; b is (n,) or (..., n, k), and stacks broadcast.

    trans=1 or "T" solves a.T @ x = b, 2 or "C" with the conjugate too; unit_diagonal takes the diagonal for 1.  The derivative is 0
    in the other triangle.  Raises LinAlgError if an element of the diagonal is 0.
    """
    check_square("solve_triangular", a)
    check_dtype("solve_triangular", b)
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    sa, sb = shape_of(a), shape_of(b)
    if len(sb) == 1:
        return ops.getitem(solve_triangular(a, reshape(b, (-1, 1)), trans, lower, unit_diagonal), (..., 0))
    if sb[-2:-1] != sa[-1:]:
        raise ValueError(f"solve_triangular: b {sb} must have as many rows as a {sa}")
    if unit_diagonal:
        a = ops.where(np.eye(sa[-1], dtype=bool), 1, a)
    if trans not in (0, "N"):
        a, lower = swapaxes(a, -1, -2), not lower
        a = conj(a) if trans in (2, "C") else a
    stack = np.broadcast_shapes(sa[:-2], sb[:-2])
    a, b = (ops.broadcast_to(x, stack + s[-2:]) for x, s in ((a, sa), (b, sb)))
    return under_name("solve_triangular", triangular_solution, a, b, lower=bool(lower))


@operator
def triangular_solution(a, b, lower=False):
    """solve_triangular, for stacks of one shape."""
    return kernels().solve_triangular(a, b, lower)


@triangular_solution.backward
def _(dy, a, y, lower, needs):
    db = triangular_solution(swapaxes(a, -1, -2), dy, not lower)
    triangle = ops.tril if lower else ops.triu
    return triangle(-(db @ swapaxes(y, -1, -2))) if needs[0] else None, db


def cho_factor(a, lower=False):
    """(c, lower) for cho_solve: the Cholesky factor of symmetric positive definite a, of which one triangle is read.

    The other triangle of c is 0; in SciPy's it is anything.
    """
    return under_name("cho_factor", ops.cholesky, a, upper=not lower), lower


def cho_solve(c_and_lower, b):
    """x for which a @ x = b, by cho_factor(a)."""
    c, lower = c_and_lower
    if len(shape_of(b)) == 1:
        return ops.getitem(cho_solve(c_and_lower, reshape(b, (-1, 1))), (..., 0))
    x = solve_triangular(c, b, 0 if lower else 2, lower)
    return solve_triangular(c, x, 2 if lower else 0, lower)


# ---------------------------------------------------------------- other systems


def solve_banded(l_and_u, ab, b):
    """x for which a @ x = b (n,) or (n, k), where a has l diagonals below the main one and u above: ab[u + i - j, j] is a[i, j].

    Elements of ab outside a count for nothing.  Raises LinAlgError if a is singular.
    """
    lower, upper = (int(untracked(d, "solve_banded's l_and_u")) for d in l_and_u)
    for x in (ab, b):
        check_dtype("solve_banded", x)
    sab, sb = shape_of(ab), shape_of(b)
    if len(sab) != 2 or sab[0] != lower + upper + 1 or sb[:1] != sab[1:] or len(sb) > 2:
        rows = lower + upper + 1
        raise ValueError(f"solve_banded: for l_and_u {lower, upper} ab must be ({rows}, n) and b (n,) or (n, k), not {sab} and {sb}")
    x = under_name("solve_banded", banded_solution, ab, reshape(b, (sb[0], -1 if sb[0] else math.prod(sb[1:]))), lower=lower)
    return reshape(x, sb)


@operator
def banded_solution(ab, b, lower=0):
    """solve_banded, for b (n, k)."""
    return kernels().solve_banded(ab, b, lower)


@banded_solution.backward
def _(dy, ab, y, lower, needs):
    upper, n = ab.shape[0] - 1 - lower, ab.shape[1]
    rows = range(-upper, lower + 1)  # i - j of each row of ab
    transposed = ops.stack([shifted(ops.getitem(ab, upper + d), -d) for d in reversed(rows)])
    db = banded_solution(transposed, dy, upper)
    dab = ops.stack([ops.sum(shifted(db, d) * -y, 1) for d in rows]) if needs[0] and n else None
    return dab, db


def shifted(x, d: int):
    """x[j + d] at j along the first axis, 0 where there is none."""
    n = x.shape[0]
    widths = ((max(-d, 0), max(d, 0)), *((0, 0) for _ in x.shape[1:]))
    return ops.getitem(pad_with(x, widths), slice(max(d, 0), max(d, 0) + n))


def solve_sylvester(a, b, q):
    """x (..., m, n) for which a @ x + x @ b = q, a being (..., m, m) and b (..., n, n); stacks broadcast.

    There is one unless an eigenvalue of a is minus one of b.
    """
    check_square("solve_sylvester", a)
    check_square("solve_sylvester", b)
    check_dtype("solve_sylvester", q)
    shapes = [shape_of(x) for x in (a, b, q)]
    if shapes[2][-2:] != (shapes[0][-1], shapes[1][-1]):
        raise ValueError(f"solve_sylvester: q {shapes[2]} must be (..., m, n) for a {shapes[0]} and b {shapes[1]}")
    stack = np.broadcast_shapes(*(s[:-2] for s in shapes))
    whole = (ops.broadcast_to(x, stack + s[-2:]) for x, s in zip((a, b, q), shapes, strict=True))
    return under_name("solve_sylvester", sylvester_solution, *whole)


@operator
def sylvester_solution(a, b, q):
    """solve_sylvester, for stacks of one shape."""
    return kernels().solve_sylvester(a, b, q)


@sylvester_solution.backward
def _(dy, a, b, y):
    dq = sylvester_solution(swapaxes(a, -1, -2), swapaxes(b, -1, -2), dy)
    yt = swapaxes(y, -1, -2)
    return -(dq @ yt), -(yt @ dq), dq


# ---------------------------------------------------------------- matrices of a pattern


def toeplitz(c, r=None):
    """Matrices with the first column c (..., m) and the first row r (..., n), constant along diagonals; r[..., 0] counts for nothing.

    Without r it is the conjugate of c.
    """
    c = ops.atleast_1d(c)
    r = conj(c) if r is None else ops.atleast_1d(r)
    m, n = c.shape[-1], r.shape[-1]
    stack = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c, r = ops.broadcast_to(c, (*stack, m)), ops.broadcast_to(r, (*stack, n))
    along = ops.concatenate((c, ops.getitem(r, (..., slice(1, None)))), -1)
    distance = np.arange(m)[:, None] - np.arange(n)
    return ops.getitem(along, (..., np.where(distance >= 0, distance, m - 1 - distance)))


def block_diag(*arrays):
    """The matrices along the diagonal of one that is 0 elsewhere; vectors and numbers are rows.  Raises ValueError for stacks."""
    blocks = [ops.atleast_2d(x) for x in arrays]
    if wrong := [x.shape for x in blocks if len(x.shape) > 2]:
        raise ValueError(f"block_diag: the blocks must be matrices, not {wrong[0]}")
    columns, start, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(pad_with(x, ((0, 0), (start, columns - start - x.shape[1]))))
        start += x.shape[1]
    return ops.concatenate(rows, 0)
