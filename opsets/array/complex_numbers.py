"""Complex numbers taken apart and put together: real, imag, complex_of, and the conjugates that rules are made of.

A rule gives the plain transpose of its function, without a conjugate: of a real loss L what comes to z = x + iy is dL/dx - i dL/dy.
So rules of functions that have a complex derivative are those of real ones (docs/complex.md).
"""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator
from autotape.numpy_protocol import numpy_function

from .creation import astype, zeros_like
from .shapes import as_array, dtype_of


@numpy_function(np.real)
def real(val):
    """The real part; real numbers as they are."""
    return real_part(val) if dtype_of(val).kind == "c" else as_array(val)


@operator(elementwise=True)
def real_part(x):
    """The real part of complex x."""
    return kernels().real(x)


@real_part.backward
def _(dy, x_like): return astype(dy, x_like.dtype)


@numpy_function(np.imag)
def imag(val):
    """The imaginary part; of real numbers zeros."""
    return imaginary_part(val) if dtype_of(val).kind == "c" else zeros_like(as_array(val))


@operator(elementwise=True)
def imaginary_part(x):
    """The imaginary part of complex x."""
    return kernels().imag(x)


@imaginary_part.backward
def _(dy): return complex_of(0, -dy)


@operator(elementwise=True)
def complex_of(a, b):
    """a + 1j * b of real a and b, but infinite parts and the signs of zeros stay what they are."""
    return kernels().complex_of(a, b)


@complex_of.backward("a")
def _(dy): return real(dy)
@complex_of.backward("b")
def _(dy): return -imag(dy)


def conj(x):
    """The conjugate; real numbers as they are, so that it costs them nothing in a rule."""
    return conjugate_of(x) if dtype_of(x).kind == "c" else as_array(x)


@operator(elementwise=True)
def conjugate_of(x):
    """The conjugate of complex x."""
    return kernels().conjugate(x)


@conjugate_of.backward
def _(dy): return conjugate_of(dy)


def squared(x):
    """abs(x) ** 2."""
    return real(x * conj(x))
