"""Bessel functions: j0 j1 jv=jn, y0 y1 yv=yn of the first and second kind, i0 i1 iv modified, i0e i1e ive scaled by exp(-abs(x)).

The derivatives in the order v are not known here: asking for them raises.
"""

from __future__ import annotations

import math

from scipy import special

from autotape import kernels, operator

from ..array import absolute, maximum, sign, sqrt, where

FAR = 64  # where the series of far_slope is exact to rounding, if it is above 2 * v ** 2, too
TERMS = 12

# ---------------------------------------------------------------- the first kind


@operator(elementwise=True, numpy=special.j0)
def j0(x):
    """The Bessel function of the first kind of order 0, of real x."""
    return kernels().special("j0", [x])


@j0.backward
def _(dy, x): return -dy * j1(x)


@operator(elementwise=True, numpy=special.j1)
def j1(x):
    """The Bessel function of the first kind of order 1, of real x."""
    return kernels().special("j1", [x])


@j1.backward
def _(dy, x): return dy * 0.5 * (j0(x) - jv(2, x))


@operator(elementwise=True, numpy=special.jv)
def jv(v, x):
    """The Bessel function of the first kind of real order v.  It has derivatives in x alone."""
    return kernels().special("jv", [v, x])


@jv.backward("x")
def _(dy, v, x): return dy * 0.5 * (jv(v - 1, x) - jv(v + 1, x))


jn = jv

# ---------------------------------------------------------------- the second kind


@operator(elementwise=True, numpy=special.y0)
def y0(x):
    """The Bessel function of the second kind of order 0, of real x > 0."""
    return kernels().special("y0", [x])


@y0.backward
def _(dy, x): return -dy * y1(x)


@operator(elementwise=True, numpy=special.y1)
def y1(x):
    """The Bessel function of the second kind of order 1, of real x > 0."""
    return kernels().special("y1", [x])


@y1.backward
def _(dy, x): return dy * 0.5 * (y0(x) - yv(2, x))


@operator(elementwise=True, numpy=(special.yv, special.yn))
def yv(v, x):
    """The Bessel function of the second kind of real order v.  It has derivatives in x alone."""
    return kernels().special("yv", [v, x])


@yv.backward("x")
def _(dy, v, x): return dy * 0.5 * (yv(v - 1, x) - yv(v + 1, x))


yn = yv

# ---------------------------------------------------------------- modified


@operator(elementwise=True, numpy=special.i0)
def i0(x):
    """The modified Bessel function of the first kind of order 0, of real x."""
    return kernels().special("i0", [x])


@i0.backward
def _(dy, x): return dy * i1(x)


@operator(elementwise=True, numpy=special.i1)
def i1(x):
    """The modified Bessel function of the first kind of order 1, of real x."""
    return kernels().special("i1", [x])


@i1.backward
def _(dy, x): return dy * 0.5 * (i0(x) + iv(2, x))


@operator(elementwise=True, numpy=special.iv)
def iv(v, x):
    """The modified Bessel function of the first kind of real order v.  It has derivatives in x alone."""
    return kernels().special("iv", [v, x])


@iv.backward("x")
def _(dy, v, x): return dy * 0.5 * (iv(v - 1, x) + iv(v + 1, x))


@operator(elementwise=True, numpy=special.i0e)
def i0e(x):
    """i0(x) * exp(-abs(x)), of real x.  Its derivative at 0 is 0."""
    return kernels().special("i0e", [x])


@i0e.backward
def _(dy, x): return dy * sign(x) * falling(0, absolute(x), lambda x: i1e(x) - i0e(x))


@operator(elementwise=True, numpy=special.i1e)
def i1e(x):
    """i1(x) * exp(-abs(x)), of real x."""
    return kernels().special("i1e", [x])


@i1e.backward
def _(dy, x): return dy * falling(1, absolute(x), lambda x: 0.5 * (i0e(x) + ive(2, x)) - i1e(x))


@operator(elementwise=True, numpy=special.ive)
def ive(v, x):
    """iv(v, x) * exp(-abs(x)), of real x.  It has derivatives in x alone."""
    if x.dtype.kind == "c":
        raise TypeError(f"ive is of real x, not {x.dtype}: of complex numbers it is not holomorphic")
    return kernels().special("ive", [v, x])


@ive.backward("x")
def _(dy, v, x): return dy * falling(v, x, lambda x: 0.5 * (ive(v - 1, x) + ive(v + 1, x)) - sign(x) * ive(v, x))


def falling(v, x, difference):
    """The derivative of ive(v, x): far to the right, where the terms of the difference cancel, it is that of the asymptotic series."""
    far = x >= maximum(FAR, 2 * v * v)
    return where(far, far_slope(v, where(far, x, FAR)), difference(where(far, 1, x)))


def far_slope(v, x):
    """The derivative of (2 pi x) ** -0.5 * (1 - (4 v ** 2 - 1) / (8 x) + (4 v ** 2 - 1) (4 v ** 2 - 9) / (2! (8 x) ** 2) - ...)."""
    h, series = 0.125 / x, TERMS + 0.5
    for k in range(TERMS, 0, -1):
        series = (k - 0.5) + ((2 * k - 1) ** 2 - 4 * v * v) / k * h * series
    return -series / x / sqrt(2 * math.pi * x)
