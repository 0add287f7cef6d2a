"""Arrays in the image of another: in another dtype, or of its shape and filled with a number."""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator
from autotape.errors import warn
from autotape.param import Param
from autotape.tensor import Tensor, asarray

from .shapes import as_shape, assigned, dtype_of, shape_of


def astype(x, dtype):
    """x in another dtype; x itself if it has that dtype.  The derivative of a conversion to integers or booleans is 0.

    Python numbers must fit: 300 and -1 as uint8 raise OverflowError, NaN as an integer ValueError.  Complex numbers that become real
    ones lose their imaginary parts, and NumPy's warning says so.
    """
    dtype = np.dtype(dtype)
    x = x if hasattr(x, "dtype") else np.asarray(x, dtype)
    if x.dtype.kind == "c" and dtype.kind not in "bc":
        message = f"astype: complex x as {dtype} loses its imaginary part; x.real says that it is meant"
        warn(message, np.exceptions.ComplexWarning)
    return to_integers(x, dtype) if dtype.kind in "biu" else to_floats(x, dtype)


@operator
def to_floats(x, dtype=np.float64):
    """x in a dtype that has fractions."""
    return kernels().astype(x, dtype)


@to_floats.backward
def _(dy, x_like): return to_floats(dy, x_like.dtype)


@operator(nondifferentiable="x")
def to_integers(x, dtype=np.int64):
    """x in a dtype that has none: a step function, so it has no rule."""
    return kernels().astype(x, dtype)


@operator(nondifferentiable="x")
def zeros_like(x, dtype=None, shape=None):
    """Zeros of x's shape and dtype, or of those given."""
    return kernels().zeros(x.shape if shape is None else as_shape(shape), x.dtype if dtype is None else np.dtype(dtype))


@operator(nondifferentiable="x")
def ones_like(x, dtype=None, shape=None):
    """Ones of x's shape and dtype, or of those given."""
    return kernels().ones(x.shape if shape is None else as_shape(shape), x.dtype if dtype is None else np.dtype(dtype))


def full_like(x, fill_value, dtype=None, shape=None):
    """fill_value, a number or what broadcasts to it, in x's shape and dtype, or in those given.  Python numbers must fit, as in astype."""
    shape = shape_of(x) if shape is None else as_shape(shape)
    y = assigned("full_like", astype(fill_value, dtype_of(x) if dtype is None else dtype), shape)
    return asarray(y) if isinstance(x, (Tensor, Param)) and not isinstance(y, Tensor) else y
