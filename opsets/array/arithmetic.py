"""Elementwise arithmetic: + - * / // % **, hypot, logaddexp, where, maximum, minimum, clip, abs, sign, rounding.

Inputs broadcast; the engine sums each cotangent down to its input's shape and casts it to its input's dtype, so a rule
says the mathematics alone.  Where a derivative does not exist the convention stands in the operator's docstring.
"""

from __future__ import annotations

import math

import numpy as np

from autotape import kernels, operator
from autotape.numpy_protocol import numpy_function

from .complex_numbers import complex_of, conj, imag, real
from .creation import astype, full_like
from .functions import exp, exp2, log
from .logic import BOOL, isinf, isnan, logical_and, logical_not, not_equal
from .shapes import as_array, dtype_of, under_name

# ---------------------------------------------------------------- + - * /


@operator(elementwise=True, numpy=np.add)
def add(a, b):
    """a + b."""
    return kernels().add(a, b)


@add.backward("a")
def _(dy): return dy
@add.backward("b")
def _(dy): return dy


@operator(elementwise=True, numpy=np.subtract)
def subtract(a, b):
    """a - b."""
    return kernels().subtract(a, b)


@subtract.backward("a")
def _(dy): return dy
@subtract.backward("b")
def _(dy): return -dy


@operator(elementwise=True, numpy=np.multiply)
def multiply(a, b):
    """a * b."""
    return kernels().multiply(a, b)


@multiply.backward("a")
def _(dy, b): return dy * b
@multiply.backward("b")
def _(dy, a): return dy * a


@operator(elementwise=True, numpy=np.divide)
def divide(a, b):
    """a / b; integers give float64."""
    return kernels().divide(a, b)


@divide.backward("a")
def _(dy, b): return dy / b
@divide.backward("b")
def _(dy, b, y): return -dy * y / b


@operator(elementwise=True, numpy=np.negative)
def negative(x):
    """-x."""
    return kernels().negative(x)


@negative.backward
def _(dy): return -dy


@operator(elementwise=True)
def copied(x):
    """A copy of x."""
    return kernels().copy(x)


@copied.backward
def _(dy): return dy


@numpy_function(np.positive)
def positive(x):
    """+x: a copy of x, which must be numbers, not booleans."""
    if dtype_of(x) == BOOL:
        raise TypeError("positive: x must be numbers, not bool")
    return copied(x)


@operator(elementwise=True, numpy=np.reciprocal)
def reciprocal(x):
    """1 / x, in x's dtype."""
    return kernels().reciprocal(x)


@reciprocal.backward
def _(dy, y): return -dy * y * y


@operator(elementwise=True, nondifferentiable="a b", numpy=np.floor_divide)
def floor_divide(a, b):
    """floor(a / b).  Its derivative is 0."""
    return kernels().floor_divide(a, b)


@operator(elementwise=True, numpy=np.remainder)
def remainder(a, b):
    """a - b * floor(a / b), which has the sign of b."""
    return kernels().remainder(a, b)


@remainder.backward("a")
def _(dy): return dy
@remainder.backward("b")
def _(dy, a, b): return -dy * floor_divide(a, b)


@operator(elementwise=True, numpy=np.fmod)
def fmod(a, b):
    """a - b * trunc(a / b), which has the sign of a."""
    return kernels().fmod(a, b)


@fmod.backward("a")
def _(dy): return dy
@fmod.backward("b")
def _(dy, a, b, y): return -dy * round((a - y) / b)


@numpy_function(np.divmod)
def divmod(a, b):
    """The pair of floor_divide and remainder."""
    return floor_divide(a, b), remainder(a, b)


# ---------------------------------------------------------------- powers


@numpy_function(np.power)
def power(a, b):
    """a ** b.

    d/da is 0 where b = 0, and d/db is 0 where a = 0.  Otherwise they are what mathematics says: infinite at a = 0 for b < 1 in a,
    NaN at a < 0 in b.  A Python number b is weak and costs no logarithm.
    """
    if type(b) is int:
        return square(a) if b == 2 else power_of(a, b)
    return power_of(a, b) if type(b) is float else power_of_arrays(a, b)


@operator(elementwise=True)
def power_of(x, exponent=1):
    """x ** exponent, a Python number."""
    k = kernels()
    return k.power(x, k.scalar(exponent, x.dtype))


@power_of.backward
def _(dy, x, exponent): return dy * (exponent * x ** (exponent - 1 if exponent else 0))  # not 0 * 0 ** -1


@operator(elementwise=True)
def power_of_arrays(a, b):
    """a ** b, both arrays."""
    return kernels().power(a, b)


@power_of_arrays.backward("a")
def _(dy, a, b):
    a, b = astype(a, dy.dtype), astype(b, dy.dtype)  # b - 1 wraps in unsigned integers
    infinite = logical_not(absolute(a) >= float(np.finfo(dy.dtype).tiny))  # as 1 / a is then, or NaN
    return dy * b * where(logical_and(infinite, b == 0), 1, a) ** (b - 1)


@power_of_arrays.backward("b")
def _(dy, a, y): return dy * where(a == 0, 0, y) * log(where(a == 0, 1, astype(a, dy.dtype)))


@numpy_function(np.float_power)
def float_power(a, b):
    """a ** b in float64, or complex128; integers too may have negative powers.  Its derivatives are those of power."""
    return power(double(a), b if type(b) in (int, float) else double(b))


def double(x):
    """x in float64, or complex128: less a zero that is not weak, which leaves even -0.0 and infinities alone."""
    return under_name("float_power", subtract, x, np.float64(0))


@operator(elementwise=True, numpy=np.square)
def square(x):
    """x * x."""
    return kernels().square(x)


@square.backward
def _(dy, x): return dy * (2 * x)


@operator(elementwise=True, numpy=np.hypot)
def hypot(a, b):
    """sqrt(a * a + b * b) without overflow.  At the origin its derivatives are 0."""
    return kernels().hypot(a, b)


@hypot.backward("a")
def _(dy, a, y): return dy * (a / where(y == 0, math.inf, y))
@hypot.backward("b")
def _(dy, b, y): return dy * (b / where(y == 0, math.inf, y))


@operator(elementwise=True, numpy=np.arctan2)
def arctan2(a, b):
    """The angle from -pi to pi of the point that is b across and a up.  At the origin its derivatives are 0."""
    return kernels().arctan2(a, b)


@arctan2.backward("a")
def _(dy, a, b): return dy * per_square(b, hypot(a, b))
@arctan2.backward("b")
def _(dy, a, b): return -dy * per_square(a, hypot(a, b))


def per_square(x, r):
    """x / r ** 2 without overflow; 0 where r is."""
    r = where(r == 0, math.inf, r)
    return x / r / r


@operator(elementwise=True, numpy=np.logaddexp)
def logaddexp(a, b):
    """log(exp(a) + exp(b)) without overflow.  Where both are the same infinity each gets half of the derivative."""
    return kernels().logaddexp(a, b)


@logaddexp.backward("a")
def _(dy, a, b): return dy * exp(-logaddexp(0, difference(a, b)))
@logaddexp.backward("b")
def _(dy, a, b): return dy * exp(-logaddexp(0, difference(b, a)))


@operator(elementwise=True, numpy=np.logaddexp2)
def logaddexp2(a, b):
    """log2(2 ** a + 2 ** b) without overflow.  Where both are the same infinity each gets half of the derivative."""
    return kernels().logaddexp2(a, b)


@logaddexp2.backward("a")
def _(dy, a, b): return dy * exp2(-logaddexp2(0, difference(a, b)))
@logaddexp2.backward("b")
def _(dy, a, b): return dy * exp2(-logaddexp2(0, difference(b, a)))


def difference(a, b):
    """b - a; from an infinity to itself it is 0."""
    same = logical_and(a == b, isinf(a))
    return where(same, 0, b) - where(same, 0, a)


# ---------------------------------------------------------------- which of two


def where(mask, a, b):
    """a where mask is true, else b.  A mask of numbers is true where they are not 0, and has no part in the result's dtype."""
    return under_name("where", select, mask if getattr(mask, "dtype", None) == BOOL else not_equal(mask, 0), a, b)


@operator(elementwise=True, nondifferentiable="mask")
def select(mask, a, b):
    """where, for a mask of booleans."""
    return kernels().where(mask, a, b)


@select.backward("a")
def _(dy, mask): return select(mask, dy, 0)
@select.backward("b")
def _(dy, mask): return select(mask, 0, dy)


@operator(elementwise=True, numpy=np.maximum)
def maximum(a, b):
    """The larger of a and b; NaN if either is NaN.  Where they are equal each gets half of the derivative."""
    return kernels().maximum(a, b)


@maximum.backward("a")
def _(dy, a, b): return where(a == b, dy * 0.5, where(a > b, dy, 0))
@maximum.backward("b")
def _(dy, a, b): return where(a == b, dy * 0.5, where(b > a, dy, 0))


@operator(elementwise=True, numpy=np.minimum)
def minimum(a, b):
    """The smaller of a and b; NaN if either is NaN.  Where they are equal each gets half of the derivative."""
    return kernels().minimum(a, b)


@minimum.backward("a")
def _(dy, a, b): return where(a == b, dy * 0.5, where(a < b, dy, 0))
@minimum.backward("b")
def _(dy, a, b): return where(a == b, dy * 0.5, where(b < a, dy, 0))


@operator(elementwise=True, numpy=np.fmax)
def fmax(a, b):
    """The larger of a and b, or the one that is not NaN.  Where they are equal each gets half of the derivative."""
    return kernels().fmax(a, b)


@fmax.backward("a")
def _(dy, a, b, y): return where(a == b, dy * 0.5, where(a == y, dy, 0))
@fmax.backward("b")
def _(dy, a, b, y): return where(a == b, dy * 0.5, where(b == y, dy, 0))


@operator(elementwise=True, numpy=np.fmin)
def fmin(a, b):
    """The smaller of a and b, or the one that is not NaN.  Where they are equal each gets half of the derivative."""
    return kernels().fmin(a, b)


@fmin.backward("a")
def _(dy, a, b, y): return where(a == b, dy * 0.5, where(a == y, dy, 0))
@fmin.backward("b")
def _(dy, a, b, y): return where(a == b, dy * 0.5, where(b == y, dy, 0))


def clip(x, min=None, max=None):
    """x kept within min and max: minimum(maximum(x, min), max).  Either may be None, an array or a Tensor.

    The derivative in x is 1 inside, 0 outside, and 1/2 at the edge.  Python ints leave the dtype of integers x; beyond its range
    they are no limits, or raise OverflowError where nothing in it is within them.
    """
    low, high = edge(x, min, -1), edge(x, max, 1)
    y = x if low is None else maximum(x, low)
    y = y if high is None else minimum(y, high)
    return copied(x) if y is x and (low is not min or high is not max) else y


def edge(x, limit, side: int):
    """One of clip's limits, the lower one (side -1) or the upper; None if x's integers are all within a Python int."""
    if type(limit) is not int or dtype_of(x).kind not in "iu":
        return limit
    info = np.iinfo(dtype_of(x))
    within = limit <= info.min if side < 0 else limit >= info.max
    return None if within else np.asarray(limit, info.dtype)


@numpy_function(np.nan_to_num)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """x with numbers, or arrays that broadcast, for NaN and the infinities, which are by default the dtype's largest and smallest.

    The derivative is 1 where x is finite, else 0; so it is of each part of a complex number by itself.  A Tensor never changes, so
    `copy` makes no difference.
    """
    x = as_array(x)
    if x.dtype.kind == "c":
        return complex_of(*(nan_to_num(part, copy, nan, posinf, neginf) for part in (real(x), imag(x))))
    if x.dtype.kind in "biu":
        return copied(x)
    largest = np.finfo(x.dtype).max
    y = where(isnan(x), full_like(x, nan), x)
    y = where(x == math.inf, full_like(x, largest if posinf is None else posinf), y)
    return where(x == -math.inf, full_like(x, -largest if neginf is None else neginf), y)


# ---------------------------------------------------------------- sign and rounding: steps, whose derivative is 0


@operator(elementwise=True, numpy=np.absolute)
def absolute(x):
    """abs(x), real for complex x.  Its derivative at 0 is 0."""
    return kernels().absolute(x)


@absolute.backward
def _(dy, x): return dy * conj(sign(x))


@operator(elementwise=True, numpy=np.fabs)
def fabs(x):
    """abs(x) of real x, integers as floats.  Its derivative at 0 is 0."""
    return kernels().fabs(x)


@fabs.backward
def _(dy, x): return dy * sign(x)


@operator(elementwise=True, nondifferentiable="b", numpy=np.copysign)
def copysign(a, b):
    """abs(a) with the sign of b.  Its derivative in a is 0 where a is 0, and in b it is 0."""
    return kernels().copysign(a, b)


@copysign.backward("a")
def _(dy, a, b): return dy * sign(a) * copysign(1, b)


@operator(elementwise=True, nondifferentiable="a", numpy=np.heaviside)
def heaviside(a, b):
    """0 where a is below 0, 1 above, and b where it is 0.  Its derivative in a is 0."""
    return kernels().heaviside(a, b)


@heaviside.backward("b")
def _(dy, a): return where(a == 0, dy, 0)


@numpy_function(np.sign)
def sign(x):
    """-1, 0 or 1, as x is below, at or above 0, with the derivative 0; of complex x x / abs(x), with the derivative 0 where x is 0."""
    return direction(x) if dtype_of(x).kind == "c" else real_sign(x)


@operator(elementwise=True)
def direction(x):
    """The sign of complex x."""
    return kernels().sign(x)


@direction.backward
def _(dy, x, y): return (dy - real(dy * y) * conj(y)) / where(x == 0, math.inf, absolute(x))


@operator(elementwise=True, nondifferentiable="x")
def real_sign(x):
    """The sign of real x."""
    return kernels().sign(x)


@operator(elementwise=True, nondifferentiable="x", numpy=np.floor)
def floor(x):
    """The largest whole number that is not above x."""
    return kernels().floor(x)


@operator(elementwise=True, nondifferentiable="x", numpy=np.ceil)
def ceil(x):
    """The smallest whole number that is not below x."""
    return kernels().ceil(x)


@operator(elementwise=True, nondifferentiable="x", numpy=np.trunc)
def trunc(x):
    """x without its fraction."""
    return kernels().trunc(x)


@operator(elementwise=True, nondifferentiable="x", numpy=(np.round, np.around))
def round(x, decimals=0):
    """x rounded to `decimals` places, halves to the even neighbour."""
    return kernels().round(x, decimals)
