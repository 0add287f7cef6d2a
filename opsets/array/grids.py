"""Numbers in regular steps, between ends that may be Tensors: linspace logspace geomspace, and vander.  All are compositions."""

from __future__ import annotations

import math
from operator import index

import numpy as np

from autotape.numpy_protocol import numpy_function
from autotape.tensor import asarray

from .arithmetic import add, divide, floor, multiply, power, sign, subtract, where
from .creation import astype
from .functions import log10
from .logic import equal
from .shapes import dtype_of, expand_dims, moveaxis, reshape, shape_of


@numpy_function(np.linspace)
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    """num numbers in equal steps from start to stop, along `axis` of the result; without `endpoint` the next would be stop.

    start and stop broadcast.  With retstep=True a pair, the numbers and the step, which is NaN where there is none.
    """
    num = index(num)
    if num < 0:
        raise ValueError(f"linspace: num must not be negative, but is {num}")
    start, stop = in_one_float_dtype(start, stop)
    gaps, delta = num - 1 if endpoint else num, subtract(stop, start)
    step = divide(delta, gaps) if gaps > 0 else math.nan
    y = add(multiply(count(num, delta, delta.dtype), step if gaps > 0 else delta), start)
    if endpoint and num > 1:
        y = where(count(num, delta) == num - 1, stop, y)
    y = as_asked(y, dtype, axis)
    return (y, step) if retstep else y


@numpy_function(np.logspace)
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """base ** linspace(start, stop, num, endpoint); the base may be an array that broadcasts to start and stop."""
    if shape_of(base) != ():
        ndim = len(np.broadcast_shapes(*map(shape_of, (start, stop, base))))
        start, stop, base = (reshape(x, (1,) * (ndim - len(shape_of(x))) + shape_of(x)) for x in (start, stop, base))
        base = expand_dims(base, axis)
    return as_asked(power(base, linspace(start, stop, num, endpoint, axis=axis)), dtype)


@numpy_function(np.geomspace)
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """num numbers from start to stop, each the one before times a factor: of one sign, or on a spiral around 0.  See linspace.

    Raises ValueError if one of the ends is 0.  float32 gives float64, as in NumPy.
    """
    num = index(num)
    if any(asarray(equal(end, 0)).numpy().any() for end in (start, stop)):
        raise ValueError("geomspace: the ends must not be 0")
    start, stop, _ = in_one_float_dtype(start, stop, np.zeros(()))
    side = sign(start)
    first, last = divide(start, side), divide(stop, side)
    y = power(10.0, linspace(log10(first), log10(last), num, endpoint))
    place = count(num, subtract(start, stop))
    y = where(place == 0, first, y)
    y = where(place == num - 1, last, y) if endpoint and num > 1 else y
    return as_asked(multiply(y, side), dtype, axis)


def in_one_float_dtype(*ends):
    """The ends of a grid in the dtype of them all; Python numbers are weak, and integers become floats."""
    dtype = np.result_type(*(x if type(x) in (int, float, complex) else dtype_of(x) for x in ends), 1.0)
    return [astype(x, dtype) for x in ends]


def count(num: int, like, dtype=np.intp) -> np.ndarray:
    """0, 1, ... num - 1 along a new first axis of an array."""
    return np.arange(num, dtype=dtype).reshape(-1, *(1,) * len(like.shape))


def as_asked(y, dtype, axis=0):
    """A grid with its first axis at `axis`, in a dtype; rounded down if that has no fractions."""
    y = moveaxis(y, 0, axis) if axis else y
    if dtype is None:
        return y
    return astype(floor(y) if np.dtype(dtype).kind in "iu" else y, dtype)


@numpy_function(np.vander)
def vander(x, N=None, increasing=False):
    """The matrix of the powers of 1-d x, one row an element: from N - 1 (by default len(x) - 1) down to 0, or upwards.

    Raises ValueError for an x that isn't 1-d, and a negative N.  float32 gives float64, as in NumPy.
    """
    if len(shape_of(x)) != 1:
        raise ValueError(f"vander: x {shape_of(x)} must be 1-d")
    if (n := shape_of(x)[0] if N is None else index(N)) < 0:
        raise ValueError(f"vander: N must not be negative, but is {n}")
    dtype = np.promote_types(dtype_of(x), int)
    exponents = np.arange(n).astype(dtype)
    return power(expand_dims(astype(x, dtype), -1), exponents if increasing else exponents[::-1])
