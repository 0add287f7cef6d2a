"""Products of vectors and matrices, and norms: matmul dot inner outer tensordot, norm vector_norm matrix_norm.

matmul is an operator; the others are compositions.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from autotape import kernels, operator

from .arithmetic import absolute, multiply
from .creation import astype
from .logic import not_equal
from .reductions import HALF, count, max, min, refuse_complex, root_sum_power, root_sum_square, sum
from .shapes import expand_dims, reshape, shape_of, sum_to, swapaxes, transpose

# ---------------------------------------------------------------- matmul


@operator(numpy=np.matmul)
def matmul(a, b):
    """a @ b: the last two axes multiply and the others broadcast.  A 1-d a is a row, a 1-d b a column, and the result lacks that axis."""
    return kernels().matmul(a, b)


@matmul.backward("a")
def _(dy, b, a_shape):
    if len(a_shape) == 2 == len(b.shape):
        return product(dy, transpose(b))
    column = b if len(b.shape) > 1 else expand_dims(b, -1)
    da = product(whole_product(dy, a_shape, b.shape), swapaxes(column, -1, -2))
    return sum_to(da, a_shape) if len(a_shape) > 1 else reshape(sum_to(da, (1, *a_shape)), a_shape)


@matmul.backward("b")
def _(dy, a, b_shape):
    if len(b_shape) == 2 <= len(a.shape):
        return product(transpose(as_rows(a)), as_rows(dy))
    row = a if len(a.shape) > 1 else expand_dims(a, -2)
    db = product(swapaxes(row, -1, -2), whole_product(dy, a.shape, b_shape))
    return sum_to(db, b_shape) if len(b_shape) > 1 else reshape(sum_to(db, (*b_shape, 1)), b_shape)


def product(a, b):
    """a @ b in a rule.  Raw NumPy arrays of float16 need the kernel, which is 40 times faster; for the others @ is quicker at hand."""
    return matmul(a, b) if a.dtype == HALF else a @ b


def whole_product(dy, a_shape, b_shape):
    """dy with the axes that the product of a 1-d a or b lacks."""
    if len(b_shape) == 1:
        dy = expand_dims(dy, -1)
    return expand_dims(dy, -2) if len(a_shape) == 1 else dy


def as_rows(x):
    """x (..., n) as one matrix."""
    return x if len(x.shape) == 2 else reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


# ---------------------------------------------------------------- its kin


def dot(a, b):
    """The product of vectors or matrices; for more axes the sum over a's last and b's last but one; for numbers a * b."""
    m, n = len(shape_of(a)), len(shape_of(b))
    if m == 0 or n == 0:
        return multiply(a, b)
    return matmul(a, b) if m == 1 or n <= 2 else tensordot(a, b, (-1, -2))


def inner(a, b):
    """The sum of products over the last axis of both; for numbers a * b."""
    return multiply(a, b) if shape_of(a) == () or shape_of(b) == () else tensordot(a, b, (-1, -1))


def outer(a, b):
    """a[i] * b[j] for all elements of a.ravel() and b.ravel()."""
    return multiply(reshape(a, (-1, 1)), reshape(b, (1, -1)))


def tensordot(a, b, axes=2):
    """The sum of products over axes[0] of a and axes[1] of b (ints or sequences), or over the last `axes` of a and the first of b.

    The result has a's other axes, then b's.  Raises ValueError if the lengths of the axes differ.
    """
    sa, sb = shape_of(a), shape_of(b)
    over_a, over_b = (range(len(sa) - axes, len(sa)), range(axes)) if isinstance(axes, (int, np.integer)) else axes
    over_a, over_b = normalize_axis_tuple(over_a, len(sa)), normalize_axis_tuple(over_b, len(sb))
    summed = tuple(sa[i] for i in over_a)
    if summed != tuple(sb[i] for i in over_b):
        raise ValueError(f"tensordot: the axes {over_a} of a {sa} and {over_b} of b {sb} must have the same lengths")
    free_a, free_b = (tuple(i for i in range(len(s)) if i not in over) for s, over in ((sa, over_a), (sb, over_b)))
    rows, columns = tuple(sa[i] for i in free_a), tuple(sb[i] for i in free_b)
    n = math.prod(summed)
    left = reshape(transpose(a, free_a + over_a), (math.prod(rows), n))
    right = reshape(transpose(b, over_b + free_b), (n, math.prod(columns)))
    return reshape(matmul(left, right), rows + columns)


# ---------------------------------------------------------------- norms


def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of x's vectors along `axis`, of its matrices on a pair of axes, or of x as a whole.  See numpy.linalg.norm.

    ord for vectors: None or 2 (Euclidean), 1, inf, -inf, 0, or any other number p for sum(abs(x) ** p) ** (1 / p).
    ord for matrices: None or "fro" (Frobenius), 1, -1, inf or -inf.  Those made of singular values raise ValueError.
    The derivative of a norm that is 0 is 0.  Raises TypeError for complex x unless ord is 0, 1, inf or -inf.
    """
    ndim, x = len(shape_of(x)), measurable(x, ord)
    if ord is None and axis is None:
        return root_sum_square(x, None, keepdims)
    axes = normalize_axis_tuple(range(ndim) if axis is None else axis, ndim)
    if len(axes) == 1:
        return norm_of_vectors(x, ord, axes, keepdims)
    if len(axes) == 2:
        return norm_of_matrices(x, ord, axes, keepdims)
    raise ValueError(f"norm: ord={ord} is a norm of one or two axes of x {shape_of(x)}, not of axis={axis}")


def vector_norm(x, axis=None, keepdims=False, ord=2):
    """norm of the vectors that x's elements make over `axis`: None (all), an int or a tuple of ints."""
    ndim = len(shape_of(x))
    return norm_of_vectors(measurable(x, ord), ord, normalize_axis_tuple(range(ndim) if axis is None else axis, ndim), keepdims)


def matrix_norm(x, keepdims=False, ord="fro"):
    """norm of the matrices on x's last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def measurable(x, ord):
    """x in a dtype that has norms."""
    if getattr(x, "dtype", np.dtype(float)).kind in "biu":
        x = astype(x, np.float64)
    if ord not in (0, 1, math.inf, -math.inf):
        refuse_complex("norm", x)
    return x


def norm_of_vectors(x, ord, axes, keepdims):
    if isinstance(ord, str):
        raise ValueError(f"norm: ord of vectors must be None or a number, not {ord!r}")
    if ord is None or ord == 2:
        return root_sum_square(x, axes, keepdims)
    if ord == 0:
        return sum(astype(not_equal(x, 0), np.finfo(x.dtype).dtype), axes, keepdims)  # complex numbers are counted by real ones
    if ord == 1:
        return sum(absolute(x), axes, keepdims)
    if math.isinf(ord):
        return extreme(ord, absolute(x), axes, keepdims)
    return root_sum_power(x, float(ord), axes, keepdims)


def norm_of_matrices(x, ord, axes, keepdims):
    if ord is None or ord == "fro":
        return root_sum_square(x, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"norm: ord of matrices must be None, 'fro', 1, -1, inf or -inf; ord={ord!r} would take their singular values")
    sums = sum(absolute(x), axes[0] if abs(ord) == 1 else axes[1], True)
    return extreme(ord, sums, axes, keepdims)


def extreme(ord, x, axes, keepdims):
    """The smallest element for a negative ord, else the largest, which of nothing is 0."""
    if ord < 0:
        return min(x, axes, keepdims)
    return (max if count(shape_of(x), axes) else sum)(x, axes, keepdims)
