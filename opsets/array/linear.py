"""Products of vectors and matrices: matmul dot inner outer tensordot.

matmul is an operator; the others are compositions.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from autotape import kernels, operator

from .arithmetic import multiply
from .reductions import HALF
from .shapes import expand_dims, reshape, shape_of, sum_to, swapaxes, transpose

LARGE = 1 << 13  # elements

# ---------------------------------------------------------------- matmul


@operator(numpy=np.matmul)
def matmul(a, b):
    """a @ b: the last two axes multiply and the others broadcast.  A 1-d a is a row, a 1-d b a column, and the result lacks that axis."""
    return kernels().matmul(a, b)


@matmul.shape
def _(a_shape, b_shape): return *a_shape[:-1], b_shape[1]  # of matrices b, whose products alone are deferred (v20/fused.py)


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
    """a @ b in a rule.  Raw float16 needs the kernel, which is 40 times faster, and large arrays the backend's; for the others @ is
    quicker at hand."""
    return matmul(a, b) if a.size > LARGE or a.dtype == HALF else a @ b


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
    if isinstance(axes, (int, np.integer)):
        axes = range(len(sa) - int(axes), len(sa)), range(int(axes))
    over_a, over_b = axes
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
