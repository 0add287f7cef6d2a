"""Parts of numbers: mantissa and exponent, fraction and whole, the next float; real part, imaginary part and angle.

What moves in steps, such as an exponent, has the derivative 0.
"""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator
from autotape.numpy_protocol import numpy_function
from autotape.tensor import asarray
from autotape.transforms import stop_gradient

from .arithmetic import arctan2, copied, copysign, fmod, negative, trunc, where
from .complex_numbers import conj, imag, real
from .creation import astype
from .logic import BOOL, isinf
from .shapes import as_array, dtype_of

# ---------------------------------------------------------------- floating point


@numpy_function(np.ldexp)
def ldexp(x, exponent):
    """x * 2 ** exponent for whole exponents, exact where the result has the digits.  Its derivative in the exponent is 0."""
    exponent = np.asarray(exponent) if type(exponent) is int else exponent
    return scaled(x, astype(exponent, np.int8) if dtype_of(exponent) == BOOL else exponent)


@operator(elementwise=True, nondifferentiable="exponent")
def scaled(x, exponent):
    """ldexp, of an array of exponents."""
    if exponent.dtype.kind not in "iu":
        raise TypeError(f"the exponents must be integers, not {exponent.dtype}")
    return kernels().ldexp(x, exponent)


@scaled.backward("x")
def _(dy, exponent): return scaled(dy, exponent)


@numpy_function(np.frexp)
def frexp(x):
    """The pair of mantissa, 0.5 <= abs(m) < 1, and exponent, for which x = m * 2 ** exponent; the exponent has the derivative 0."""
    exponent = exponent_of(x)
    return scaled(x, negative(exponent)), exponent


@operator(elementwise=True, nondifferentiable="x")
def exponent_of(x):
    """frexp's exponent."""
    return kernels().exponent(x)


@numpy_function(np.modf)
def modf(x):
    """The pair of fraction, whose derivative is 1, and whole part, whose derivative is 0; both have the sign of x."""
    x = astype(x, np.modf(np.zeros((), dtype_of(x)))[0].dtype)
    return fmod(where(isinf(x), copysign(0, x), x), 1), trunc(x)


@operator(elementwise=True, nondifferentiable="b", numpy=np.nextafter)
def nextafter(a, b):
    """The next float after a in the direction of b.  Its derivative is 1 in a and 0 in b."""
    return kernels().nextafter(a, b)


@nextafter.backward("a")
def _(dy): return dy


@operator(elementwise=True, nondifferentiable="x", numpy=np.spacing)
def spacing(x):
    """The distance from x to the next float, away from 0."""
    return kernels().spacing(x)


# ---------------------------------------------------------------- of complex numbers


@numpy_function(np.conjugate)
def conjugate(x):
    """The conjugate: of real numbers a copy, of booleans in int8."""
    x = fresh_conj(x)
    return astype(x, np.int8) if x.dtype == BOOL else x


def fresh_conj(x):
    """x.conj(): the conjugate, a copy of what is real, booleans too."""
    return conj(x) if dtype_of(x).kind == "c" else copied(x)


@numpy_function(np.angle)
def angle(z, deg=False):
    """The angle of z in the complex plane, from -pi to pi or in degrees.  Its derivative at 0 is 0, and that in real z is 0."""
    z = as_array(z)
    radians = arctan2(imag(z), real(z)) if z.dtype.kind == "c" else arctan2(0, stop_gradient(z))
    return radians * (180 / np.pi) if deg else radians


@numpy_function(np.real_if_close)
def real_if_close(a, tol=100):
    """The real part if all imaginary parts are below tol, or for tol > 1 below tol times the machine epsilon, else a as it is."""
    a = as_array(a)
    if a.dtype.kind != "c":
        return a
    tol = tol * np.finfo(a.dtype).eps if tol > 1 else tol
    return real(a) if (abs(asarray(stop_gradient(imag(a))).numpy()) < tol).all() else a
