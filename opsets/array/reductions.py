"""Reductions over an axis, several, or all: sum mean logsumexp var std prod max min any all argmax argmin.

`axis` is None (all), an int or a tuple of ints; keepdims keeps the reduced axes as 1.  A rule works on cotangents and
results that have those axes back, which broadcast to x.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from autotape import kernels, operator
from autotape.transforms import stop_gradient

from .arithmetic import absolute, divide, sign, subtract, where
from .complex_numbers import conj, squared
from .creation import astype, ones_like
from .functions import exp, log
from .indexing import getitem
from .joining import flip, pad_with
from .logic import isfinite
from .shapes import broadcast_to, expand_dims, inverse, reshape, shape_of, transpose

# ---------------------------------------------------------------- axes


def kept(v, x_shape, axis, keepdims):
    """v, which a reduction gave, with the reduced axes back as 1; as it is where it broadcasts anyway."""
    if keepdims or axis is None:
        return v
    gone = reduced(axis, len(x_shape))
    return reshape(v, tuple(1 if i in gone else n for i, n in enumerate(x_shape)))


def reduced(axis, ndim: int) -> tuple[int, ...]:
    """The reduced axes, counted from the front.  A 0-d x has none, though NumPy's sum, prod, max and min take its axis 0."""
    return tuple(range(ndim)) if axis is None or ndim == 0 else tuple(i % ndim for i in (axis if isinstance(axis, tuple) else (axis,)))


def count(x_shape, axis) -> int:
    """How many elements of x go into each of the result's.  Raises AxisError for an axis of a 0-d x, as NumPy's mean does."""
    if x_shape == () and axis is not None:
        normalize_axis_tuple(axis, 0)
    return math.prod(x_shape[i] for i in reduced(axis, len(x_shape)))


# ---------------------------------------------------------------- dtypes

HALF = np.dtype(np.float16)


def wide(x):
    """x for a forward that sums and divides: float16 as float32 and integers as float64, which hold their sums."""
    if x.dtype == HALF:
        return kernels().astype(x, np.float32)
    return kernels().astype(x, np.float64) if x.dtype.kind in "biu" else x


def narrow(y, dtype):
    """What a forward made of `wide` x, in float16 if that was x's dtype."""
    return kernels().astype(y, dtype) if dtype == HALF else y


def squares(x):
    """abs(x) ** 2 in a forward."""
    k = kernels()
    return k.square(x) if x.dtype.kind != "c" else k.add(k.square(k.real(x)), k.square(k.imag(x)))


def refuse_complex(name: str, x) -> None:
    if getattr(x, "dtype", HALF).kind == "c":
        raise TypeError(f"{name}: x must be real, not {x.dtype}: of complex numbers the squares are meant to be abs(x) ** 2")


# ---------------------------------------------------------------- sum and mean


@operator
def sum(x, axis=None, keepdims=False):
    """The sum of x over `axis`."""
    return kernels().sum(x, axis, keepdims)


@sum.backward
def _(dy, x_shape, axis, keepdims): return broadcast_to(kept(dy, x_shape, axis, keepdims), x_shape)


@operator
def mean(x, axis=None, keepdims=False):
    """The mean of x over `axis`; integers give float64."""
    k, n = kernels(), count(x.shape, axis)
    total = k.sum(wide(x), axis, keepdims)
    return narrow(k.divide(total, k.scalar(n, total.dtype)), x.dtype)


@mean.backward
def _(dy, x_shape, axis, keepdims):
    share = 1 / (count(x_shape, axis) or 1)  # float16 has it where it has no number as large as the count
    return broadcast_to(kept(dy, x_shape, axis, keepdims) * share, x_shape)


def logsumexp(x, axis=None, keepdims=False):
    """log(sum(exp(x))) over `axis` without overflow: np.logaddexp.reduce.  Where all elements are -inf its derivatives are 0."""
    if not count(shape_of(x), axis):
        return sum(x, axis, keepdims) - math.inf
    top = stop_gradient(max(x, axis, True))
    top = where(isfinite(top), top, 0)
    total = sum(exp(subtract(x, top)), axis, True)
    y = where(total == 0, -math.inf, top + log(where(total == 0, 1, total)))
    return y if keepdims else sum(y, axis)  # over axes of length 1


# ---------------------------------------------------------------- spread


@operator
def var(x, axis=None, ddof=0, keepdims=False):
    """The variance: abs(x - mean) ** 2, summed over `axis` and divided by count - ddof; real of complex x."""
    k, n, dtype = kernels(), count(x.shape, axis), x.dtype
    x = wide(x)
    total = k.sum(x, axis, True)
    mean = k.divide(total, k.scalar(n, total.dtype))
    total = k.sum(squares(k.subtract(x, mean)), axis, keepdims)
    return narrow(k.divide(total, k.scalar(freedom(n, ddof), total.dtype)), dtype)


@var.backward
def _(dy, x, axis, ddof, keepdims):
    n = freedom(count(x.shape, axis), ddof)
    return kept(dy, x.shape, axis, keepdims) * (2 / n if n else math.inf) * conj(x - mean(x, axis, True))


def freedom(n: int, ddof) -> float:
    """The variance's divisor for n elements; 0 if nothing is left of it."""
    return float(n - ddof) if n > ddof else 0.0


def var_about(x, mean, axis=None, ddof=0, keepdims=False):
    """var, about a mean that is given with the axes kept and has a derivative of its own."""
    return divide(sum(squared(subtract(x, mean)), axis, keepdims), freedom(count(shape_of(x), axis), ddof))


def std(x, axis=None, ddof=0, keepdims=False):
    """The standard deviation, sqrt(var).  Where all elements are equal its derivative is 0."""
    return std_about(x, mean(x, axis, True), axis, ddof, keepdims)


def std_about(x, mean, axis=None, ddof=0, keepdims=False):
    """std, about a mean that is given with the axes kept and has a derivative of its own."""
    return root_sum_square(subtract(x, mean), axis, keepdims, freedom(count(shape_of(x), axis), ddof))


@operator
def root_sum_square(x, axis=None, keepdims=False, divisor=1.0):
    """sqrt of the sum of abs(x) ** 2 over `axis` divided by a number: the Euclidean norm for 1.  Where it is 0 its derivative is 0."""
    k = kernels()
    total = k.sum(squares(wide(x)), axis, keepdims)
    return narrow(k.sqrt(total if divisor == 1 else k.divide(total, k.scalar(divisor, total.dtype))), x.dtype)


@root_sum_square.backward
def _(dy, x, y, axis, keepdims, divisor):
    share = 1 / divisor if divisor else math.inf
    return conj(x) * kept(dy * share / where(y == 0, math.inf, y), x.shape, axis, keepdims)


@operator
def root_sum_power(x, p=3.0, axis=None, keepdims=False):
    """The p-norm over `axis`, sum(abs(x) ** p) ** (1 / p).  Where it is 0, and in the elements of x that are 0, its derivative is 0."""
    k, dtype = kernels(), x.dtype
    size = k.absolute(wide(x))
    total = k.sum(k.power(size, k.scalar(p, size.dtype)), axis, keepdims)
    return narrow(k.power(total, k.scalar(1 / p, total.dtype)), dtype)


@root_sum_power.backward
def _(dy, x, y, p, axis, keepdims):
    dy = where(y == 0, 0, dy)  # of negative p the norm is 0 where any element is
    dy, y = kept(dy, x.shape, axis, keepdims), kept(where(y == 0, 1, y), x.shape, axis, keepdims)
    return dy * conj(sign(x)) * (where(x == 0, 1, absolute(x)) / y) ** (p - 1)


# ---------------------------------------------------------------- product


@operator
def prod(x, axis=None, keepdims=False):
    """The product of x over `axis`.  Its derivatives hold where elements are 0, too, even beside others whose product overflows."""
    return kernels().prod(x, axis, keepdims)


@prod.backward
def _(dy, x, axis, keepdims):
    gone = reduced(axis, len(x.shape))
    order = (*(i for i in range(len(x.shape)) if i not in gone), *gone)
    moved = transpose(x, order)
    rows = reshape(moved, (*moved.shape[: len(order) - len(gone)], math.prod(x.shape[i] for i in gone)))
    return kept(dy, x.shape, axis, keepdims) * transpose(reshape(others(rows), moved.shape), inverse(order))


def others(x):
    """At each place of x (..., n) the product of the n - 1 other elements of its row, by a tree of products of pairs."""
    *lead, n = x.shape
    if n < 2:
        return ones_like(x)
    even = pad_with(x, (*((0, 0) for _ in lead), (0, 1)), 1) if n % 2 else x
    pairs = reshape(even, (*lead, (n + 1) // 2, 2))
    swapped = flip(pairs, -1)
    rest = expand_dims(others(product_or_0(getitem(pairs, (..., 0)), getitem(pairs, (..., 1)))), -1)
    return getitem(reshape(product_or_0(rest, swapped), even.shape), (..., slice(n)))


@operator(elementwise=True)
def product_or_0(a, b):
    """a * b, but 0 where either is 0, whatever the other is: a product of many that has overflowed, say."""
    k = kernels()
    zero = k.scalar(0, np.result_type(a.dtype, b.dtype))
    nothing = k.logical_or(k.equal(a, zero), k.equal(b, zero))
    return k.multiply(k.where(nothing, zero, a), k.where(nothing, zero, b))


@product_or_0.backward("a")
def _(dy, b): return product_or_0(dy, b)
@product_or_0.backward("b")
def _(dy, a): return product_or_0(dy, a)


# ---------------------------------------------------------------- extremes


@operator(numpy=(np.max, np.amax))
def max(x, axis=None, keepdims=False):
    """The largest element over `axis`; NaN if one is NaN.  Equal largest elements share the derivative equally."""
    return kernels().max(x, axis, keepdims)


@max.backward
def _(dy, x, y, axis, keepdims): return shared(dy, x < kept(y, x.shape, axis, keepdims), axis, keepdims)


@operator(numpy=(np.min, np.amin))
def min(x, axis=None, keepdims=False):
    """The smallest element over `axis`; NaN if one is NaN.  Equal smallest elements share the derivative equally."""
    return kernels().min(x, axis, keepdims)


@min.backward
def _(dy, x, y, axis, keepdims): return shared(dy, x > kept(y, x.shape, axis, keepdims), axis, keepdims)


def shared(dy, beaten, axis, keepdims):
    """dy in equal parts for the elements that are not beaten; if the result is NaN, none is."""
    dy = kept(dy, beaten.shape, axis, keepdims)
    share = dy / sum(where(beaten, 0, ones_like(dy, np.float32 if dy.dtype == HALF else None)), axis, True)
    return where(beaten, 0, share if share.dtype == dy.dtype else astype(share, dy.dtype))


@operator(nondifferentiable="x", numpy=np.argmax)
def argmax(x, axis=None, keepdims=False):
    """The index of the first largest element along `axis`, or in x.ravel() for None."""
    return kernels().argmax(x, axis, keepdims)


@operator(nondifferentiable="x", numpy=np.argmin)
def argmin(x, axis=None, keepdims=False):
    """The index of the first smallest element along `axis`, or in x.ravel() for None."""
    return kernels().argmin(x, axis, keepdims)


@operator(nondifferentiable="x")
def any(x, axis=None, keepdims=False):
    """Whether any element is true over `axis`."""
    return kernels().any(x, axis, keepdims)


@operator(nondifferentiable="x")
def all(x, axis=None, keepdims=False):
    """Whether all elements are true over `axis`."""
    return kernels().all(x, axis, keepdims)
