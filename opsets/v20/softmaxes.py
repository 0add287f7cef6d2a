"""softmax, its logarithm, and the logarithm of what it divides by."""

from __future__ import annotations

import math
from typing import Any

from autotape import kernels, operator

from ..array import exp, log, sum, where
from ..array.reductions import kept
from ..array.reductions import max as highest


@operator
def softmax(x, axis=None):
    """exp(x) / sum(exp(x)) over `axis`: an int, a tuple, or None for the whole array.  Knet's softmax."""
    return kernels().softmax(x, axis)


@softmax.reference
def _(x, axis=None):
    e = exp(x - highest(x, axis, True))
    return e / sum(e, axis, True)


@softmax.backward
def _(dy, y, axis): return y * (dy - sum(dy * y, from_the_end(axis, y.ndim), True))


@operator
def logsoftmax(x, axis=None):
    """log(softmax(x, axis)) without overflow.  Knet's logsoftmax, also called logp."""
    return kernels().logsoftmax(x, axis)


@logsoftmax.reference
def _(x, axis=None):
    return x - logsumexp(x, axis, True)


@logsoftmax.backward
def _(dy, y, axis): return dy - exp(y) * sum(dy, from_the_end(axis, y.ndim), True)


logp = logsoftmax


@operator
def logsumexp(x, axis=None, keepdims=False):
    """log(sum(exp(x))) over `axis` without overflow; axis as in softmax, keepdims as in NumPy.  Knet's logsumexp.

    Where all elements are -inf its derivatives are 0.
    """
    return kernels().logsumexp(x, axis, keepdims)


@logsumexp.reference
def _(x, axis=None, keepdims=False):
    top = highest(x, axis, True)
    y = top + log(sum(exp(x - top), axis, True))
    return y if keepdims else sum(y, axis)  # over axes of length 1


@logsumexp.backward
def _(dy, x, y, axis, keepdims):
    y = where(y == -math.inf, 0, y)  # exp(-inf) rather than exp(-inf + inf)
    return kept(dy, x.shape, axis, keepdims) * exp(x - kept(y, x.shape, axis, keepdims))


def from_the_end(axis: Any, ndim: int) -> tuple[int, ...]:
    """axis as negative numbers: right for a dy with leading batch axes too."""
    axes = range(ndim) if axis is None or ndim == 0 else axis if isinstance(axis, tuple) else (axis,)
    return tuple(i - ndim if i >= 0 else i for i in axes)
