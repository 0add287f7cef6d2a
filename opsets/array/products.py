"""More products of vectors and matrices: kron cross, vdot vecdot matvec vecmat, multi_dot matrix_power.

All are compositions.
"""

from __future__ import annotations

import functools
from operator import index

import numpy as np

from .arithmetic import add, multiply, subtract
from .complex_numbers import conj
from .creation import zeros_like
from .indexing import getitem
from .joining import stack
from .linear import dot, matmul
from .shapes import as_array, expand_dims, moveaxis, ravel, reshape, shape_of, under_name
from .solving import inv

# ---------------------------------------------------------------- of elements


def kron(a, b):
    """The Kronecker product: blocks of b, each multiplied by an element of a."""
    n = max(len(shape_of(a)), len(shape_of(b)))
    sa, sb = ((1,) * (n - len(s)) + s for s in (shape_of(a), shape_of(b)))
    apart_a, apart_b = (tuple(k for pair in zip(*pairs, strict=True) for k in pair) for pairs in ((sa, (1,) * n), ((1,) * n, sb)))
    return reshape(multiply(reshape(a, apart_a), reshape(b, apart_b)), tuple(i * j for i, j in zip(sa, sb, strict=True)))


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The cross product of vectors of 3 components along axisa of a and axisb of b, along axisc of the result; or all on `axis`.

    Vectors of 2 components, which NumPy takes up to 2.4, raise ValueError.
    """
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if not a.shape[-1] == b.shape[-1] == 3:
        raise ValueError(f"cross: the vectors must have 3 components, not {a.shape[-1]} and {b.shape[-1]}")
    (a0, a1, a2), (b0, b1, b2) = ([getitem(v, (..., i)) for i in range(3)] for v in (a, b))
    pairs = ((a1, b2, a2, b1), (a2, b0, a0, b2), (a0, b1, a1, b0))
    return stack([subtract(multiply(p, q), multiply(r, s)) for p, q, r, s in pairs], axisc)


# ---------------------------------------------------------------- of vectors and matrices, in stacks


def vdot(a, b):
    """The product of two arrays of as many elements as vectors, a conjugated."""
    return under_name("vdot", matmul, ravel(conj(a)), ravel(b))


def vecdot(a, b, axis=-1):
    """The products of vectors along `axis` of both, those of a conjugated; the other axes broadcast."""
    a, b = moveaxis(conj(a), axis, -1), moveaxis(b, axis, -1)
    return getitem(under_name("vecdot", matmul, expand_dims(a, -2), expand_dims(b, -1)), (..., 0, 0))


def matvec(a, b):
    """a @ b for the matrices on the last two axes of a and the vectors on b's last; the others broadcast."""
    needs_axes("matvec", a, b)
    return getitem(under_name("matvec", matmul, a, expand_dims(b, -1)), (..., 0))


def vecmat(a, b):
    """a @ b for the vectors on a's last axis, conjugated, and the matrices on the last two of b; the others broadcast."""
    needs_axes("vecmat", b, a)
    return getitem(under_name("vecmat", matmul, expand_dims(conj(a), -2), b), (..., 0, slice(None)))


def needs_axes(name: str, matrix, vector) -> None:
    if len(shape_of(matrix)) < 2 or len(shape_of(vector)) < 1:
        raise ValueError(f"{name}: the matrix {shape_of(matrix)} must have two axes or more and the vector {shape_of(vector)} one")


# ---------------------------------------------------------------- of many matrices


def multi_dot(arrays):
    """The product of two matrices or more in the order that takes the fewest multiplications; the first and last may be vectors.

    Of two arrays it is dot.  Raises LinAlgError, a ValueError, for arrays among more that are neither.
    """
    xs = list(arrays)
    shapes = [shape_of(x) for x in xs]
    if len(xs) < 2:
        raise ValueError(f"multi_dot: there must be two arrays or more, not {len(xs)}")
    if len(xs) == 2:
        return under_name("multi_dot", dot, *xs)
    if wrong := [s for i, s in enumerate(shapes) if len(s) != 2 and not (len(s) == 1 and i in (0, len(xs) - 1))]:
        raise np.linalg.LinAlgError(f"multi_dot: the arrays must be matrices, and the first and last may be vectors, not {wrong[0]}")
    sizes = [*(s[0] if len(s) == 2 or i else 1 for i, s in enumerate(shapes)), shapes[-1][1] if len(shapes[-1]) == 2 else 1]

    @functools.cache
    def plan(i, j):
        """How many multiplications arrays i to j take at least, and after which of them to part them."""
        ways = ((plan(i, k)[0] + plan(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))
        return min(ways, default=(0, i))

    def multiplied(i, j):
        if i == j:
            return xs[i]
        k = plan(i, j)[1]
        return under_name("multi_dot", matmul, multiplied(i, k), multiplied(k + 1, j))

    return multiplied(0, len(xs) - 1)


def matrix_power(a, n):
    """a @ a @ ... of n square matrices a, the last two axes; for negative n of -n inverses of a.

    Raises LinAlgError, a ValueError, for matrices that aren't square, or singular for n < 0, TypeError for n that is no whole number.
    """
    a, n = as_array(a), index(n)
    shape = a.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise np.linalg.LinAlgError(f"matrix_power: the last two axes of a {shape} must have one length")
    if n < 0:
        return matrix_power(under_name("matrix_power", inv, a), -n)
    if n == 0:
        return add(zeros_like(a), np.eye(shape[-1], dtype=a.dtype))
    half = matrix_power(a, n // 2) if n > 1 else a
    return a if n == 1 else matmul(matmul(half, half), a) if n % 2 else matmul(half, half)
