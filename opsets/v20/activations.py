"""Activations, elementwise.  Each rule but softplus's needs the result alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotape import kernels, operator

from ..array import divide, minimum, where

SELU_SCALE = 1.0507009873554805
SELU_LIMIT = 1.7580993408473773  # scale * alpha: selu(-inf) is its negative


@operator(elementwise=True)
def relu(x):
    """max(x, 0), elementwise; NaN stays NaN and relu'(0) = 0.  Knet's relu."""
    k = kernels()
    return k.maximum(x, k.scalar(0, x.dtype))


@relu.backward
def _(dy, y): return where(y > 0, dy, 0)


@operator(elementwise=True)
def elu(x):
    """x where x > 0, else exp(x) - 1.  Knet's elu; Clevert et al. 2016, with alpha = 1."""
    k = kernels()
    zero = k.scalar(0, x.dtype)
    return k.add(k.maximum(x, zero), k.expm1(k.minimum(x, zero)))


@elu.backward
def _(dy, y): return dy * (minimum(y, 0) + 1)


@operator(elementwise=True)
def selu(x):
    """1.0507 x where x > 0, else 1.7581 (exp(x) - 1); selu'(0) = 1.0507.  Knet's selu; Klambauer et al. 2017."""
    k = kernels()
    zero, scale, limit = k.scalar(0, x.dtype), k.scalar(SELU_SCALE, x.dtype), k.scalar(SELU_LIMIT, x.dtype)
    return k.add(k.multiply(scale, k.maximum(x, zero)), k.multiply(limit, k.expm1(k.minimum(x, zero))))


@selu.backward
def _(dy, y): return dy * where(y >= 0, SELU_SCALE, y + SELU_LIMIT)


@operator(elementwise=True)
def sigm(x):
    """1 / (1 + exp(-x)), elementwise, without overflow.  Knet's sigm."""
    refuse_complex("sigm", x)
    return kernels().sigmoid(x)


@sigm.backward
def _(dy, y): return dy * y * (1 - y)


@operator(elementwise=True)
def softplus(x):
    """log(1 + exp(x)), elementwise, without overflow: what bce and logistic are made of."""
    refuse_complex("softplus", x)
    k = kernels()
    x = k.astype(x, np.float64) if x.dtype.kind in "biu" else x  # the negative of an unsigned integer wraps
    return k.add(k.maximum(x, k.scalar(0, x.dtype)), k.log1p(k.exp(k.negative(k.absolute(x)))))


@softplus.backward
def _(dy, x): return dy * sigm(x)


def invx(x):
    """1 / x, elementwise.  Knet's invx."""
    return divide(1, x)


def refuse_complex(name: str, *xs: Any) -> None:
    """The formulas that can't overflow take absolute values, and are wrong for complex numbers."""
    for x in xs:
        if x is not None and x.dtype.kind == "c":
            raise TypeError(f"{name}: it takes real numbers, not {x.dtype}")
