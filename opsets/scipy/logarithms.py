"""Logarithms of probabilities, and what is made of them: expit logit log_expit, xlogy xlog1py, entr rel_entr kl_div, logsumexp softmax
log_softmax.

Terms a * log(b) are 0 where a is, whatever b is.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from autotape import kernels, operator
from autotape.transforms import stop_gradient

from ..array import absolute, astype, exp, isfinite, log, log1p, logical_and, logical_not, real, sign, sum, where
from ..array import logsumexp as log_of_sum
from ..array import max as largest
from ..array.reductions import count
from ..array.shapes import as_array, dtype_of, shape_of, under_name
from ..v20 import logsoftmax
from ..v20 import softmax as normalised

# ---------------------------------------------------------------- odds


@operator(elementwise=True, numpy=special.expit)
def expit(x):
    """1 / (1 + exp(-x)), of real x."""
    return kernels().sigmoid(x)


@expit.backward
def _(dy, x, y): return dy * y * expit(-x)  # 1 - y would lose its digits as y nears 1


@operator(elementwise=True, numpy=special.log_expit)
def log_expit(x):
    """log(expit(x)), far below 0 too, where expit underflows."""
    return kernels().special("log_expit", [x])


@log_expit.backward
def _(dy, x): return dy * expit(-x)


@operator(elementwise=True, numpy=special.logit)
def logit(x):
    """log(x / (1 - x)), of real x.  Its derivative is infinite at 0 and 1."""
    return kernels().special("logit", [x])


@logit.backward
def _(dy, x): return dy / x / (1 - x)


# ---------------------------------------------------------------- a * log(b)

APART = 80  # logarithms that have all digits in their difference; where they are closer, no quotient overflows


def ratio(a, b):
    """a / b, but 0 where both are 0."""
    return a / where(logical_and(a == 0, b == 0), 1, b)


def log_ratio(a, b):
    """log(a / b), but inf where both are 0, for a * log(a / b) jumps to inf there as a leaves 0."""
    both = logical_and(a == 0, b == 0)
    a, b = where(both, 1, a), where(both, 1, b)
    apart = log(a) - log(b)
    near = absolute(apart) < APART
    return where(both, math.inf, where(near, log(where(near, a, 1) / where(near, b, 1)), apart))


@operator(elementwise=True, numpy=special.xlogy)
def xlogy(a, b):
    """a * log(b), and 0 where a is 0.  Its derivative in b is 0 where both are 0."""
    return kernels().special("xlogy", [a, b])


@xlogy.backward("a")
def _(dy, b): return dy * log(b)
@xlogy.backward("b")
def _(dy, a, b): return dy * ratio(a, b)


@operator(elementwise=True, numpy=special.xlog1py)
def xlog1py(a, b):
    """a * log(1 + b), and 0 where a is 0.  Its derivative in b is 0 where a and 1 + b are 0."""
    return kernels().special("xlog1py", [a, b])


@xlog1py.backward("a")
def _(dy, b): return dy * log1p(b)
@xlog1py.backward("b")
def _(dy, a, b): return dy * ratio(a, 1 + b)


@operator(elementwise=True, numpy=special.entr)
def entr(x):
    """-x * log(x) of real x; 0 at 0, where its derivative is infinite, and -inf below."""
    return kernels().special("entr", [x])


@entr.backward
def _(dy, x): return -dy * (log(x) + 1)


@operator(elementwise=True, numpy=special.rel_entr)
def rel_entr(a, b):
    """a * log(a / b) of real a and b >= 0; 0 where a is 0, where its derivative in a is infinite.  Beyond that it is inf."""
    return kernels().special("rel_entr", [a, b])


@rel_entr.backward("a")
def _(dy, a, b): return dy * (log_ratio(a, b) + 1)
@rel_entr.backward("b")
def _(dy, a, b): return -dy * ratio(a, b)


@operator(elementwise=True, numpy=special.kl_div)
def kl_div(a, b):
    """rel_entr(a, b) - a + b, which is 0 where a and b are equal and positive elsewhere."""
    return kernels().special("kl_div", [a, b])


@kl_div.backward("a")
def _(dy, a, b): return dy * log_ratio(a, b)
@kl_div.backward("b")
def _(dy, a, b): return dy * (1 - ratio(a, b))


# ---------------------------------------------------------------- over axes


def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    """log(sum(b * exp(a))) over `axis` without overflow; b, which broadcasts to a, is by default 1.

    Where the sum is negative it is NaN, or with return_sign the logarithm of its magnitude, and its sign beside it.  Of complex
    numbers it is the principal logarithm, and the sign is the sum's phase.
    Where all terms are 0 it is -inf, and its derivatives in a are 0.
    """
    if b is None and not return_sign and dtype_of(a).kind != "c":
        return log_of_sum(a, axis, keepdims)
    total, scale = scaled_sum(as_array(a), axis, 1 if b is None else b if isinstance(b, (int, float, complex)) else as_array(b))
    if dtype_of(total).kind != "c" and not return_sign:
        total = where(total < 0, math.nan, total)
    none = total == 0
    size = where(none, 1, absolute(total) if return_sign else total)
    y, signs = where(none, -math.inf, scale + log(size)), sign(total)
    y, signs = (y, signs) if keepdims else (sum(y, axis), sum(signs, axis))  # over axes of length 1
    return (y, signs) if return_sign else y


def scaled_sum(a, axis, b):
    """sum(b * exp(a - scale)) with its axes kept, and the real constant scale, by which no term overflows; those where b is 0, which have
    a derivative in b, are kept from it."""
    counted = where(b == 0, -math.inf, real(a))
    scale = stop_gradient(largest(counted, axis, True)) if count(shape_of(counted), axis) else 0
    scale = where(isfinite(scale), scale, 0)
    apart = a - scale
    most = float(np.log(np.finfo(dtype_of(apart)).max)) - 1
    beyond = logical_and(b == 0, logical_not(real(apart) < most))
    return sum(b * exp(where(beyond, most, apart)), axis, True), scale


def softmax(x, axis=None):
    """exp(x) / sum(exp(x)) over `axis`, without overflow."""
    return under_name("softmax", normalised, in_floats(x), axis=axis)


def log_softmax(x, axis=None):
    """log(softmax(x, axis)), which does not underflow."""
    return under_name("log_softmax", logsoftmax, in_floats(x), axis=axis)


def in_floats(x):
    """x, integers as float64."""
    return astype(x, np.float64) if dtype_of(x).kind in "biu" else x
