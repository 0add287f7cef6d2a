"""Comparisons, logic and tests, all but allclose and array_equal elementwise.

They give booleans and have no rule: their derivative is 0.
"""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator
from autotape.numpy_protocol import ZERO, numpy_function

from .creation import ones_like, zeros_like

BOOL = np.dtype(bool)

# ---------------------------------------------------------------- comparisons


@operator(elementwise=True, nondifferentiable="a b", numpy=np.equal)
def equal(a, b):
    """a == b."""
    return kernels().equal(a, b)


@operator(elementwise=True, nondifferentiable="a b", numpy=np.not_equal)
def not_equal(a, b):
    """a != b."""
    return kernels().not_equal(a, b)


NO_NUMBERS = (type(None), str, bytes)


def same(a, b):
    """a == b as Python's operator has it: what holds no numbers, None or text, is nowhere equal."""
    return zeros_like(a, BOOL) if isinstance(b, NO_NUMBERS) else equal(a, b)


def different(a, b):
    """a != b as Python's operator has it."""
    return ones_like(a, BOOL) if isinstance(b, NO_NUMBERS) else not_equal(a, b)


def contains(x, value):
    """Python's `value in x`: whether an element is equal to it."""
    return bool(same(x, value).numpy().any())


@operator(elementwise=True, nondifferentiable="a b", numpy=np.less)
def less(a, b):
    """a < b."""
    return kernels().less(a, b)


@operator(elementwise=True, nondifferentiable="a b", numpy=np.less_equal)
def less_equal(a, b):
    """a <= b."""
    return kernels().less_equal(a, b)


@operator(elementwise=True, nondifferentiable="a b", numpy=np.greater)
def greater(a, b):
    """a > b."""
    return kernels().greater(a, b)


@operator(elementwise=True, nondifferentiable="a b", numpy=np.greater_equal)
def greater_equal(a, b):
    """a >= b."""
    return kernels().greater_equal(a, b)


@operator(elementwise=True, nondifferentiable="a b", numpy=np.isclose)
def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """abs(a - b) <= atol + rtol * abs(b); infinities only to themselves, NaN to NaN if `equal_nan`."""
    k = kernels()
    finite = k.isfinite(b)
    numbers = k.where(finite, b, k.scalar(0, b.dtype))  # inf - inf would warn
    numbers = k.multiply(numbers, k.scalar(1.0, b.dtype))  # differences of integers would wrap
    size = k.absolute(numbers)
    tolerance = k.add(k.multiply(size, k.scalar(rtol, size.dtype)), k.scalar(atol, size.dtype))
    near = k.logical_and(k.less_equal(k.absolute(k.subtract(a, numbers)), tolerance), finite)
    near = k.logical_or(near, k.equal(a, b))
    return k.logical_or(near, both_nan(a, b)) if equal_nan else near


@operator(nondifferentiable="a b", numpy=np.allclose)
def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements are close, as isclose says: one boolean, of shape ()."""
    return kernels().all(isclose(a, b, rtol, atol, equal_nan), None, False)


@operator(nondifferentiable="a b", numpy=np.array_equal)
def array_equal(a, b, equal_nan=False):
    """Whether a and b have one shape and equal elements, NaN equal to NaN if `equal_nan`: one boolean, of shape ()."""
    k = kernels()
    if a.shape != b.shape:
        return k.zeros((), BOOL)
    same = k.equal(a, b)
    return k.all(k.logical_or(same, both_nan(a, b)) if equal_nan else same, None, False)


def both_nan(a, b):
    """Where a and b are NaN, as raw arrays."""
    k = kernels()
    return k.logical_and(k.isnan(a), k.isnan(b))


# ---------------------------------------------------------------- logic


@operator(elementwise=True, nondifferentiable="a b", numpy=np.logical_and)
def logical_and(a, b):
    """a and b, as truth values."""
    return kernels().logical_and(a, b)


@operator(elementwise=True, nondifferentiable="a b", numpy=np.logical_or)
def logical_or(a, b):
    """a or b, as truth values."""
    return kernels().logical_or(a, b)


@operator(elementwise=True, nondifferentiable="a b", numpy=np.logical_xor)
def logical_xor(a, b):
    """Either a or b, as truth values."""
    return kernels().logical_xor(a, b)


@operator(elementwise=True, nondifferentiable="x", numpy=np.logical_not)
def logical_not(x):
    """not x, as a truth value."""
    return kernels().logical_not(x)


def on_booleans(ufunc, logical):
    """&, |, ^ and ~, which in NumPy act on the bits of integers, for booleans alone."""

    def run(*args):
        if not all(isinstance(x, bool) or getattr(x, "dtype", None) == BOOL for x in args):
            raise TypeError(f"{ufunc.__name__} of a Tensor takes booleans, such as comparisons give")
        return logical(*args)

    run.__doc__ = f"{ufunc.__name__} of booleans: {logical.__name__}.  Others raise TypeError."
    return numpy_function(ufunc, kind=ZERO)(run)


bitwise_and = on_booleans(np.bitwise_and, logical_and)
bitwise_or = on_booleans(np.bitwise_or, logical_or)
bitwise_xor = on_booleans(np.bitwise_xor, logical_xor)
invert = on_booleans(np.invert, logical_not)


# ---------------------------------------------------------------- tests


@operator(elementwise=True, nondifferentiable="x", numpy=np.isnan)
def isnan(x):
    """Whether x is NaN."""
    return kernels().isnan(x)


@operator(elementwise=True, nondifferentiable="x", numpy=np.isinf)
def isinf(x):
    """Whether x is an infinity."""
    return kernels().isinf(x)


@operator(elementwise=True, nondifferentiable="x", numpy=np.isfinite)
def isfinite(x):
    """Whether x is neither NaN nor an infinity."""
    return kernels().isfinite(x)


@operator(elementwise=True, nondifferentiable="x", numpy=np.signbit)
def signbit(x):
    """Whether x is negative, -0.0 and NaN going by their sign."""
    return kernels().signbit(x)
