"""The error functions, and the normal distribution in their place: erf erfc erfcx erfinv erfcinv, ndtr log_ndtr ndtri."""

from __future__ import annotations

import math

from scipy import special

from autotape import kernels, operator

from ..array import absolute, exp, logical_and, logical_not, real, square, where
from ..array.shapes import dtype_of

SLOPE = 2 / math.sqrt(math.pi)  # of erf at 0
HALF_ROOT = math.sqrt(0.5)
VANISHED = 40  # exp(-x * x) from here on
ENDLESS = 1e8  # where the next term of log_ndtr's series is below rounding
FAR = 8  # where the series of erfcx_slope is exact to rounding, and from where on a difference would lose digits
TERMS = 16

# ---------------------------------------------------------------- error functions


def bell(x):
    """exp(-x * x); where that of real x has vanished, so have all its derivatives."""
    return exp(-square(x if dtype_of(x).kind == "c" else where(absolute(x) > VANISHED, VANISHED, x)))


@operator(elementwise=True, numpy=special.erf)
def erf(x):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x."""
    return kernels().special("erf", [x])


@erf.backward
def _(dy, x): return dy * SLOPE * bell(x)


@operator(elementwise=True, numpy=special.erfc)
def erfc(x):
    """1 - erf(x), to all its digits."""
    return kernels().special("erfc", [x])


@erfc.backward
def _(dy, x): return -dy * SLOPE * bell(x)


@operator(elementwise=True, numpy=special.erfcx)
def erfcx(x):
    """exp(x * x) * erfc(x), which does not vanish for large x."""
    return kernels().special("erfcx", [x])


@erfcx.backward
def _(dy, x): return dy * erfcx_slope(x)


def erfcx_slope(x):
    """The derivative of erfcx: far to the right, where its two terms cancel, it is the asymptotic series."""
    far = logical_and(absolute(x) >= FAR, real(x) > 0)
    near = where(far, 0, x)
    return where(far, far_slope(where(far, x, FAR)), 2 * near * erfcx(near) - SLOPE)


def far_slope(x):
    """-SLOPE * h * (1 - 3 * h + 3 * 5 * h ** 2 - ...) with h = 1 / (2 * x ** 2), the derivative of the series of erfcx."""
    h, series = 0.5 * (1 / x) * (1 / x), 1
    for k in range(TERMS, 0, -1):
        series = 1 - (2 * k + 1) * h * series
    return -SLOPE * h * series


@operator(elementwise=True, numpy=special.erfinv)
def erfinv(x):
    """The number whose erf is x, of real x.  Its derivative is infinite at -1 and 1."""
    return kernels().special("erfinv", [x])


@erfinv.backward
def _(dy, y): return dy / SLOPE * exp(y * y)


@operator(elementwise=True, numpy=special.erfcinv)
def erfcinv(x):
    """The number whose erfc is x, of real x.  Its derivative is infinite at 0 and 2."""
    return kernels().special("erfcinv", [x])


@erfcinv.backward
def _(dy, y): return -dy / SLOPE * exp(y * y)


# ---------------------------------------------------------------- the normal distribution


@operator(elementwise=True, numpy=special.ndtr)
def ndtr(x):
    """How much of the normal distribution lies below x."""
    return kernels().special("ndtr", [x])


@ndtr.backward
def _(dy, x): return dy * (SLOPE * HALF_ROOT / 2) * bell(HALF_ROOT * x)


@operator(elementwise=True, numpy=special.log_ndtr)
def log_ndtr(x):
    """log(ndtr(x)), far below 0 too, where ndtr underflows."""
    return kernels().special("log_ndtr", [x])


@log_ndtr.backward
def _(dy, x): return dy * hazard(x)


def hazard(x):
    """density(x) / ndtr(x), far below 0 -x.  Below 0 both are scaled, so that neither underflows; above the scale would overflow."""
    below, endless = real(x) < 0, real(x) < -ENDLESS
    low, high = where(logical_and(below, logical_not(endless)), x, 0), where(below, 0, x)
    y = SLOPE * HALF_ROOT * where(below, 1 / erfcx(-HALF_ROOT * low), 0.5 * bell(HALF_ROOT * high) / ndtr(high))
    return where(endless, -x, y)


@operator(elementwise=True, numpy=special.ndtri)
def ndtri(p):
    """The number below which a part p of the normal distribution lies, of real p.  Its derivative is infinite at 0 and 1."""
    return kernels().special("ndtri", [p])


@ndtri.backward
def _(dy, y): return dy * (2 / (SLOPE * HALF_ROOT)) * exp(0.5 * y * y)
