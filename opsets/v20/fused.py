"""conv_bias_act: a convolution, a bias a channel and an activation in one call, and which chains of operators it replaces."""

from __future__ import annotations

from autotape import kernels, operator
from autotape.fusion import fuse

from ..array import add, sum_to, tanh
from ..geometry import convolution, expect, real_number
from .activations import elu, refuse_complex, relu, selu, sigm
from .convolution import conv4, conv4_w, conv4_x

ACTIVATIONS = {relu: "relu", sigm: "sigm", tanh: "tanh", elu: "elu", selu: "selu"}
RULES = {"identity": lambda dy, y: dy} | {name: f.op.rules["x"] for f, name in ACTIVATIONS.items()}  # each needs the result y alone


def bias_per_channel(y_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> bool:
    """Is b, added to y (N, C, *spatial), one value a channel: of shape (1, C, 1, ...) or (C, 1, ...)?"""
    per_channel = (y_shape[1],) + (1,) * (len(y_shape) - 2)
    return b_shape == per_channel or b_shape == (1, *per_channel)


@operator(optional=("b", "z"))
def conv_bias_act(w, x, b=None, z=None, activation="identity", padding=0, stride=1, dilation=1, mode=0, alpha=1, beta=1, group=1):
    """activation(alpha * (x convolved with w) + beta * z + b) in one call, without its intermediates.

    w, x and the options are those of conv4.  b is one value a channel, (1, K, 1, 1) or (K, 1, 1) in two dimensions; z has the
    result's shape; either may be None.  activation is "identity", "relu", "sigm", "tanh", "elu" or "selu".  Raises ValueError for
    shapes and options that don't fit.  The gradient needs w, x and the result only.  cuDNN's ConvolutionBiasActivationForward.
    """
    geometry, y_shape = convolution("conv_bias_act", w.shape, x.shape, padding, stride, dilation, mode, group)
    if not isinstance(activation, str) or activation not in RULES:
        raise ValueError(f"conv_bias_act: activation {activation!r} is unknown: use one of {', '.join(map(repr, RULES))}")
    if activation == "sigm":
        refuse_complex("sigm", w, x, b, z)
    if b is not None and not bias_per_channel(y_shape, b.shape):
        channels = (y_shape[1],) + (1,) * (len(y_shape) - 2)
        raise ValueError(f"conv_bias_act: b {b.shape} must be one value a channel, {channels} or {(1, *channels)}")
    if z is not None:
        expect("conv_bias_act", "z", z.shape, y_shape)
    scales = (real_number("conv_bias_act", name, value) for name, value in (("alpha", alpha), ("beta", beta)))
    return kernels().conv_bias_act(w, x, b, z, activation, geometry, *scales)


@conv_bias_act.reference
def _(w, x, b=None, z=None, activation="identity", padding=0, stride=1, dilation=1, mode=0, alpha=1, beta=1, group=1):
    y = conv4(w, x, padding, stride, dilation, mode, alpha, group)
    y = y if z is None else y + beta * z
    y = y if b is None else y + b
    return next((f(y) for f, name in ACTIVATIONS.items() if name == activation), y)


@conv_bias_act.backward
def _(dy, y, w, x, b_shape, needs, activation, padding, stride, dilation, mode, alpha, beta, group):
    d, options = RULES[activation](dy, y), (padding, stride, dilation, mode, alpha, group)
    return (
        conv4_w(x, d, w.shape, *options) if needs[0] else None,
        conv4_x(w, d, x.shape, *options) if needs[1] else None,
        sum_to(d, b_shape) if needs[2] else None,
        d * float(beta) if needs[3] else None,
    )


fuse(conv4, add, ACTIVATIONS, into=conv_bias_act, when=bias_per_channel)
