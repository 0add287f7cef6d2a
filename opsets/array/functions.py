"""Elementwise functions of one array (and arctan2): exponentials, logarithms, roots, trigonometry.

Each rule stands under its function and uses the result y where that is cheaper than x.  At the edge of a domain the
derivatives are what mathematics says: sqrt'(0), cbrt'(0) and log'(0) are infinite.
"""

from __future__ import annotations

import math

import numpy as np

from autotape import kernels, operator

LOG2_E, LOG10_E = 1 / math.log(2), 1 / math.log(10)

# ---------------------------------------------------------------- exponentials and logarithms


@operator(elementwise=True, numpy=np.exp)
def exp(x):
    """e ** x."""
    return kernels().exp(x)


@exp.backward
def _(dy, y): return dy * y


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
def _(dy, x): return dy / sqrt(1 - x * x)


@operator(elementwise=True, numpy=np.arccos)
def arccos(x):
    """The angle from 0 to pi whose cosine is x.  Its derivative is infinite at -1 and 1."""
    return kernels().arccos(x)


@arccos.backward
def _(dy, x): return -dy / sqrt(1 - x * x)


@operator(elementwise=True, numpy=np.arctan)
def arctan(x):
    """The angle from -pi/2 to pi/2 whose tangent is x."""
    return kernels().arctan(x)


@arctan.backward
def _(dy, x): return dy / (1 + x * x)


@operator(elementwise=True, numpy=np.arctan2)
def arctan2(a, b):
    """The angle from -pi to pi of the point that is b across and a up.  Not differentiable at the origin: NaN."""
    return kernels().arctan2(a, b)


@arctan2.backward("a")
def _(dy, a, b): return dy * b / (a * a + b * b)
@arctan2.backward("b")
def _(dy, a, b): return -dy * a / (a * a + b * b)


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
