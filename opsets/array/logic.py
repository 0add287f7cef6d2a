"""Elementwise comparisons, logic and tests.  They give booleans and have no rule: their derivative is 0."""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator
from autotape.numpy_protocol import numpy_function

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

    return numpy_function(ufunc)(run)


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
