"""Elementwise functions of one array: exponentials, logarithms, roots, trigonometry, hyperbolic and Bessel functions.

Each rule stands under its function and uses the result y where that is cheaper than x.  At the edge of a domain the
derivatives are what mathematics says: sqrt'(0), cbrt'(0) and log'(0) are infinite.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from autotape import kernels, operator
from autotape.numpy_protocol import numpy_function

LOG2_E, LOG10_E, LOG_2 = 1 / math.log(2), 1 / math.log(10), math.log(2)
DEGREE = math.pi / 180

# ---------------------------------------------------------------- exponentials and logarithms


@operator(elementwise=True, numpy=np.exp)
def exp(x):
    """e ** x."""
    return kernels().exp(x)


@exp.backward
def _(dy, y): return dy * y


@operator(elementwise=True, numpy=np.exp2)
def exp2(x):
    """2 ** x."""
    return kernels().exp2(x)


@exp2.backward
def _(dy, y): return dy * LOG_2 * y


@operator(elementwise=True, numpy=np.expm1)
def expm1(x):
    """exp(x) - 1, exact near 0."""
    return kernels().expm1(x)


@expm1.backward
def _(dy, y): return dy * (y + 1)


@operator(elementwise=True, numpy=np.log)
def log(x):
    """The natural logarithm."""
    return kernels().log(x)


@log.backward
def _(dy, x): return dy / x


@operator(elementwise=True, numpy=np.log1p)
def log1p(x):
    """log(1 + x), exact near 0."""
    return kernels().log1p(x)


@log1p.backward
def _(dy, x): return dy / (x + 1)


@operator(elementwise=True, numpy=np.log2)
def log2(x):
    """The logarithm to base 2."""
    return kernels().log2(x)


@log2.backward
def _(dy, x): return dy * LOG2_E / x


@operator(elementwise=True, numpy=np.log10)
def log10(x):
    """The logarithm to base 10."""
    return kernels().log10(x)


@log10.backward
def _(dy, x): return dy * LOG10_E / x


# ---------------------------------------------------------------- roots


@operator(elementwise=True, numpy=np.sqrt)
def sqrt(x):
    """The square root.  Its derivative at 0 is infinite; the norm of a vector (linalg.norm) has 0 there."""
    return kernels().sqrt(x)


@sqrt.backward
def _(dy, y): return dy * 0.5 / y


@operator(elementwise=True, numpy=np.cbrt)
def cbrt(x):
    """The cube root, of negative numbers too.  Its derivative at 0 is infinite."""
    return kernels().cbrt(x)


@cbrt.backward
def _(dy, y): return dy / (3 * y * y)


# ---------------------------------------------------------------- trigonometry, in radians


@operator(elementwise=True, numpy=np.sin)
def sin(x):
    """The sine."""
    return kernels().sin(x)


@sin.backward
def _(dy, x): return dy * cos(x)


@operator(elementwise=True, numpy=np.cos)
def cos(x):
    """The cosine."""
    return kernels().cos(x)


@cos.backward
def _(dy, x): return -dy * sin(x)


@operator(elementwise=True, numpy=np.tan)
def tan(x):
    """The tangent."""
    return kernels().tan(x)


@tan.backward
def _(dy, y): return dy * (1 + y * y)


@operator(elementwise=True, numpy=np.arcsin)
def arcsin(x):
    """The angle from -pi/2 to pi/2 whose sine is x.  Its derivative is infinite at -1 and 1."""
    return kernels().arcsin(x)


@arcsin.backward
def _(dy, x): return dy / root_of_rest(x)


@operator(elementwise=True, numpy=np.arccos)
def arccos(x):
    """The angle from 0 to pi whose cosine is x.  Its derivative is infinite at -1 and 1."""
    return kernels().arccos(x)


@arccos.backward
def _(dy, x): return -dy / root_of_rest(x)


def root_of_rest(x):
    """sqrt(1 - x * x), whose factors keep digits near the edges, and those of complex x the sign of an imaginary part of 0."""
    return sqrt((1 - x) * (1 + x) if x.dtype.kind != "c" else -(x - 1) * (x - -1))


@operator(elementwise=True, numpy=np.arctan)
def arctan(x):
    """The angle from -pi/2 to pi/2 whose tangent is x."""
    return kernels().arctan(x)


@arctan.backward
def _(dy, x):
    r = hypotenuse(x)
    return dy / r / r


@operator(elementwise=True)
def hypotenuse(x):
    """sqrt(1 + x * x), the hypotenuse over the legs 1 and x; of real x without overflow."""
    k = kernels()
    return k.hypot(x, k.scalar(1, x.dtype)) if x.dtype.kind != "c" else k.sqrt(k.subtract(k.square(x), k.scalar(-1, x.dtype)))


@hypotenuse.backward
def _(dy, x, y): return dy * (x / y)


@operator(elementwise=True, numpy=(np.deg2rad, np.radians))
def deg2rad(x):
    """Degrees in radians: x * pi / 180."""
    return kernels().deg2rad(x)


@deg2rad.backward
def _(dy): return dy * DEGREE


@operator(elementwise=True, numpy=(np.rad2deg, np.degrees))
def rad2deg(x):
    """Radians in degrees: x * 180 / pi."""
    return kernels().rad2deg(x)


@rad2deg.backward
def _(dy): return dy / DEGREE


@numpy_function(np.sinc)
def sinc(x):
    """sin(pi x) / (pi x), and 1 at 0.  Its derivatives of every order hold at and near 0, too."""
    return derivative_of_sinc(x)


@operator(elementwise=True)
def derivative_of_sinc(x, order=0):
    """The derivative of sinc of an order, pi ** order times that of g(z) = sin(z) / z at z = pi x.

    The n-th derivatives obey z g_n + n g_(n-1) = sin_n(z), which keeps its digits for abs(z) > n.  Below that it is the power
    series of g, differentiated n times.
    """
    k = kernels()
    z = k.multiply(x, k.scalar(math.pi, x.dtype))
    near = k.less_equal(k.absolute(z), k.scalar(order, x.dtype))
    scale = k.scalar(math.pi**order, z.dtype)
    series = power_series(k.where(near, z, k.scalar(0, z.dtype)), order)
    z = k.where(near, k.scalar(1, z.dtype), z)
    return k.where(near, k.multiply(series, scale), k.multiply(recurrence(z, order), scale))


def power_series(z, order: int):
    """g_order(z) for abs(z) <= order: the sum over even m >= order of (-1) ** (m / 2) z ** (m - order) / ((m + 1) (m - order)!)."""
    k, first = kernels(), order % 2
    square, y = k.square(z), k.scalar(0, z.dtype)
    for power in range(first + 18 + 4 * order if order else 0, -1, -2):
        m = power + order
        y = k.add(k.multiply(y, square), k.scalar((-1) ** (m // 2) / ((m + 1) * math.factorial(power)), z.dtype))
    return k.multiply(y, z) if first else y


def recurrence(z, order: int):
    """g_order(z) for abs(z) > order, from g_0 upwards."""
    k = kernels()
    sin, cos = k.sin(z), k.cos(z)
    y = k.divide(sin, z)
    for n, sin_n in zip(range(1, order + 1), itertools.cycle((cos, k.negative(sin), k.negative(cos), sin)), strict=False):
        y = k.divide(k.subtract(sin_n, k.multiply(y, k.scalar(n, z.dtype))), z)
    return y


@derivative_of_sinc.backward
def _(dy, x, order): return dy * derivative_of_sinc(x, order + 1)


# ---------------------------------------------------------------- hyperbolic functions


@operator(elementwise=True, numpy=np.sinh)
def sinh(x):
    """The hyperbolic sine."""
    return kernels().sinh(x)


@sinh.backward
def _(dy, x): return dy * cosh(x)


@operator(elementwise=True, numpy=np.cosh)
def cosh(x):
    """The hyperbolic cosine."""
    return kernels().cosh(x)


@cosh.backward
def _(dy, x): return dy * sinh(x)


@operator(elementwise=True, numpy=np.tanh)
def tanh(x):
    """The hyperbolic tangent."""
    return kernels().tanh(x)


@tanh.backward
def _(dy, y): return dy * (1.0 - y * y)


@operator(elementwise=True, numpy=np.arcsinh)
def arcsinh(x):
    """The number whose hyperbolic sine is x."""
    return kernels().arcsinh(x)


@arcsinh.backward
def _(dy, x): return dy / hypotenuse(x)


@operator(elementwise=True, numpy=np.arccosh)
def arccosh(x):
    """The number from 0 whose hyperbolic cosine is x; NaN for x < 1.  Its derivative at 1 is infinite."""
    return kernels().arccosh(x)


@arccosh.backward
def _(dy, x): return dy / (sqrt(x - 1) * sqrt(x - -1))  # x + 1 would lose the sign of an imaginary part of 0


@operator(elementwise=True, numpy=np.arctanh)
def arctanh(x):
    """The number whose hyperbolic tangent is x; NaN outside -1 to 1.  Its derivative is infinite at -1 and 1."""
    return kernels().arctanh(x)


@arctanh.backward
def _(dy, x): return dy / (1 - x) / (1 + x)


# ---------------------------------------------------------------- Bessel functions


@numpy_function(np.i0)
def i0(x):
    """The modified Bessel function of the first kind of order 0, of real x."""
    return bessel_i(x, 0)


def i1(x):
    """The modified Bessel function of the first kind of order 1, of real x: the derivative of i0."""
    return bessel_i(x, 1)


@operator(elementwise=True)
def bessel_i(x, order=0):
    """The modified Bessel function of the first kind of a whole order >= 0, of real x.  Integers give float64."""
    return kernels().bessel_i(x, order)


@bessel_i.backward
def _(dy, x, order): return dy * ((bessel_i(x, order - 1) + bessel_i(x, order + 1)) * 0.5 if order else bessel_i(x, 1))
