"""Polynomials by their coefficients: NumPy's polyval polyadd polysub polymul polydiv polyder polyint, polyval2d polygrid2d.

All are compositions.  The coefficients are 1-d, that of the highest power first, but for polyval2d and polygrid2d.
"""

from __future__ import annotations

from operator import index

import numpy as np

from autotape.numpy_protocol import numpy_function
from autotape.tensor import asarray

from .arithmetic import add, divide, multiply, reciprocal, subtract
from .choosing import beside
from .creation import astype, zeros_like
from .indexing import getitem, index_add
from .joining import concatenate, pad_with, stack
from .logic import equal, isclose
from .reductions import sum
from .shapes import atleast_1d, ravel, reshape, shape_of
from .signals import convolve

# ---------------------------------------------------------------- values


@numpy_function(np.polyval)
def polyval(p, x):
    """The value of polynomial p at x, by Horner's rule.  Raises TypeError if p is 0-d."""
    return horner(each(p), x) if count("polyval", p) else multiply(zeros_like(x), sum(p))


def count(name: str, p) -> int:
    """How many coefficients p has.  Raises TypeError if it is 0-d."""
    if shape_of(p) == ():
        raise TypeError(f"{name}: p must have an axis, that of the coefficients, but is 0-d")
    return shape_of(p)[0]


def each(p):
    """The coefficients, or rows of coefficients, one by one."""
    return [getitem(p, i) for i in range(shape_of(p)[0])]


def horner(coefficients, x):
    y = zeros_like(x)
    for c in coefficients:
        y = add(multiply(y, x), c)
    return y


@numpy_function(np.polynomial.polynomial.polyval2d)
def polyval2d(x, y, c):
    """The sum of c[i, j] * x ** i * y ** j.  Raises ValueError for a c that isn't 2-d."""
    if len(shape_of(c)) != 2:
        raise ValueError(f"polyval2d: c {shape_of(c)} must be 2-d")
    return horner([horner(each(row)[::-1], y) for row in each(c)[::-1]], x)


@numpy_function(np.polynomial.polynomial.polygrid2d)
def polygrid2d(x, y, c):
    """polyval2d at each pair of an element of x and one of y: the result has the axes of x and then those of y."""
    return polyval2d(reshape(x, shape_of(x) + (1,) * len(shape_of(y))), y, c)


# ---------------------------------------------------------------- arithmetic


@numpy_function(np.polyadd)
def polyadd(a1, a2):
    """The sum of two polynomials."""
    return add(*of_one_length(a1, a2))


@numpy_function(np.polysub)
def polysub(a1, a2):
    """The difference of two polynomials."""
    return subtract(*of_one_length(a1, a2))


def of_one_length(*ps):
    """Polynomials with zeros in front of the shorter ones."""
    ps = tuple(atleast_1d(p) for p in ps)
    lengths = [shape_of(p)[0] for p in ps]
    return [pad_with(p, ((max(lengths) - n, 0),)) if n < max(lengths) else p for p, n in zip(ps, lengths, strict=True)]


@numpy_function(np.polymul)
def polymul(a1, a2):
    """The product of two polynomials, whose leading zeros are left out, and have the derivative 0."""
    return convolve(*(without_leading(p, equal(p, 0)) for p in (atleast_1d(a1), atleast_1d(a2))))


def without_leading(p, nothing):
    """p from its first coefficient that isn't `nothing`, or else its last; 0 if it has none."""
    if shape_of(p) == (0,):
        return pad_with(p, ((1, 0),))
    left = np.flatnonzero(~asarray(nothing).numpy())
    return getitem(p, slice(left[0] if left.size else -1, None))


@numpy_function(np.polydiv)
def polydiv(u, v):
    """The pair of quotient and remainder of two polynomials; leading coefficients of the remainder that are almost 0 are left out."""
    u, v = (add(atleast_1d(beside(p, u, v)), 0.0) for p in (u, v))
    if not len(shape_of(u)) == len(shape_of(v)) == 1:
        raise ValueError(f"polydiv: u {shape_of(u)} and v {shape_of(v)} must be 1-d")
    r = astype(u, np.result_type(u.dtype, v.dtype))
    scale, quotient = reciprocal(getitem(v, 0)), []
    n = shape_of(v)[0]
    for k in range(shape_of(u)[0] - n + 1):
        quotient.append(multiply(getitem(r, k), scale))
        r = index_add(r, multiply(quotient[-1], -v), slice(k, k + n))
    q = stack(quotient) if quotient else zeros_like(r, shape=(1,))
    return q, without_leading(r, isclose(r, 0, 1e-14))


# ---------------------------------------------------------------- calculus


@numpy_function(np.polyder)
def polyder(p, m=1):
    """The m-th derivative of a polynomial.  Raises TypeError if it is 0-d."""
    n = count("polyder", p)
    for i in range(whole("polyder", m)):
        p = multiply(getitem(p, slice(None, -1)), np.arange(n - 1 - i, 0, -1))
    return p


@numpy_function(np.polyint)
def polyint(p, m=1, k=None):
    """The m-th integral of a polynomial; the constants k, by default 0, are one number or m of them, that of the first integral first."""
    m, n = whole("polyint", m), count("polyint", p)
    k = np.zeros(m) if k is None else ravel(k)
    given = shape_of(k)[0]
    if given != 1 and given < m:
        raise ValueError(f"polyint: the constants k {shape_of(k)} must be one number or {m} of them")
    for i in range(m):
        constant = getitem(k, slice(i, i + 1) if given > 1 else slice(1))
        p = concatenate((divide(p, np.arange(n + i, 0, -1)), constant))
    return p


def whole(name: str, m):
    if (m := index(m)) < 0:
        raise ValueError(f"{name}: m must not be negative, but is {m}")
    return m
