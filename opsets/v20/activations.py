"""Activations, elementwise.  Each rule but softplus's needs the result alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotape import kernels, operator
from autotape.backends.kernels import SELU_LIMIT, SELU_SCALE

from ..array import divide, equal, less, where


@operator(elementwise=True)
def relu(x):
    """max(x, 0), elementwise; NaN stays NaN and relu'(0) = 0.  Knet's relu."""
    return kernels().relu(x)


@relu.backward
def _(dy, y): return relu_x(dy, y)


@operator(elementwise=True, outputs="dx", nondifferentiable="y")
def relu_x(dy, y):
    """The cotangent of relu's x for the cotangent dy of its result y."""
    return kernels().relu_x(dy, y)


@relu_x.backward("dy")
def _(ddx, y): return relu_x(ddx, y)


@operator(elementwise=True)
def elu(x):
    """x where x > 0, else exp(x) - 1.  Knet's elu; Clevert et al. 2016, with alpha = 1."""
    return kernels().elu(x)


@elu.backward
def _(dy, y): return elu_x(dy, y)


@operator(elementwise=True, outputs="dx")
def elu_x(dy, y):
    """The cotangent of elu's x for the cotangent dy of its result y: dy * (min(y, 0) + 1)."""
    return kernels().elu_x(dy, y)


@elu_x.backward("dy")
def _(ddx, y): return elu_x(ddx, y)


@elu_x.backward("y")
def _(ddx, dy, y): return where(less(y, 0), ddx * dy, where(equal(y, 0), ddx * dy * 0.5, 0))


@operator(elementwise=True)
def selu(x):
    """1.0507 x where x > 0, else 1.7581 (exp(x) - 1); selu'(0) = 1.0507.  Knet's selu; Klambauer et al. 2017."""
    return kernels().selu(x)


@selu.backward
def _(dy, y): return dy * where(y >= 0, SELU_SCALE, y + SELU_LIMIT)


@operator(elementwise=True)
def sigm(x):
    """1 / (1 + exp(-x)), elementwise, without overflow.  Knet's sigm."""
    refuse_complex("sigm", x)
    return kernels().sigmoid(x)


@sigm.backward
def _(dy, y): return sigm_x(dy, y)


@operator(elementwise=True, outputs="dx")
def sigm_x(dy, y):
    """The cotangent of sigm's x for the cotangent dy of its result y: dy * y * (1 - y)."""
    return kernels().sigmoid_x(dy, y)


@sigm_x.backward("dy")
def _(ddx, y): return sigm_x(ddx, y)


@sigm_x.backward("y")
def _(ddx, dy, y): return ddx * dy * (1 - 2 * y)


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
