"""conv_bias_act and matmul_bias_act: a product, a bias and an activation in one call, and which chains of operators they replace."""

from __future__ import annotations

from math import prod

from autotape import kernels, operator
from autotape.fusion import fuse

from ..array import add, matmul, sum_to, tanh
from ..array.linear import as_rows, product
from ..array.shapes import transpose
from ..geometry import convolution, expect, real_number
from .activations import elu, refuse_complex, relu, selu, sigm
from .convolution import conv4, conv4_w, conv4_x

ACTIVATIONS = {relu: "relu", sigm: "sigm", tanh: "tanh", elu: "elu", selu: "selu"}
RULES = {"identity": lambda dy, y: dy} | {name: f.op.rules["x"] for f, name in ACTIVATIONS.items()}  # each needs the result y alone


def known(operator_name: str, act, *arrays) -> str:
    """act, if it names an activation, and one of such arrays."""
    if not isinstance(act, str) or act not in RULES:
        given = repr(act) if isinstance(act, str) else f"a {type(act).__name__}"
        raise ValueError(f"{operator_name}: act {given} is unknown: use one of {', '.join(map(repr, RULES))}; a residual is z=")
    if act == "sigm":
        refuse_complex("sigm", *arrays)
    return act


def activated(y, act: str):
    """The activation of y by its own operator."""
    return next((f(y) for f, name in ACTIVATIONS.items() if name == act), y)


# ---------------------------------------------------------------- convolution


def bias_per_channel(y_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> bool:
    """Is b, added to y (N, C, *spatial), one value a channel: of shape (1, C, 1, ...) or (C, 1, ...)?"""
    per_channel = (y_shape[1],) + (1,) * (len(y_shape) - 2)
    return b_shape == per_channel or b_shape == (1, *per_channel)


@operator(optional=("b", "z"))
def conv_bias_act(w, x, b=None, act="relu", z=None, beta=1, padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    """act(alpha * (x convolved with w) + beta * z + b) in one call, without its intermediates.

    w, x and the options are those of conv4.  b is one value a channel, (1, K, 1, 1) or (K, 1, 1) in two dimensions; z has the
    result's shape; either may be None.  act is "identity", "relu", "sigm", "tanh", "elu" or "selu".  Raises ValueError for
    shapes and options that don't fit.  The gradient needs w, x and the result only.  cuDNN's ConvolutionBiasActivationForward.
    """
    geometry, y_shape = convolution("conv_bias_act", w.shape, x.shape, padding, stride, dilation, mode, group)
    if b is not None and not bias_per_channel(y_shape, b.shape):
        channels = (y_shape[1],) + (1,) * (len(y_shape) - 2)
        raise ValueError(f"conv_bias_act: b {b.shape} must be one value a channel, {channels} or {(1, *channels)}")
    if z is not None:
        expect("conv_bias_act", "z", z.shape, y_shape)
    scales = (real_number("conv_bias_act", name, value) for name, value in (("alpha", alpha), ("beta", beta)))
    return kernels().conv_bias_act(w, x, b, z, known("conv_bias_act", act, w, x, b, z), geometry, *scales)


@conv_bias_act.reference
def _(w, x, b=None, act="relu", z=None, beta=1, padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    y = conv4(w, x, padding, stride, dilation, mode, alpha, group)
    y = y if z is None else y + beta * z
    return activated(y if b is None else y + b, act)


@conv_bias_act.backward
def _(dy, y, w, x, b_shape, needs, act, beta, padding, stride, dilation, mode, alpha, group):
    d, options = RULES[act](dy, y), (padding, stride, dilation, mode, alpha, group)
    return (
        conv4_w(x, d, w.shape, *options) if needs[0] else None,
        conv4_x(w, d, x.shape, *options) if needs[1] else None,
        sum_to(d, b_shape) if needs[2] else None,
        d * float(beta) if needs[3] else None,
    )


fuse(conv4, add, ACTIVATIONS, into=conv_bias_act, is_bias=bias_per_channel)

# ---------------------------------------------------------------- matrix product

# Elements of a result, on which a fused chain saves what its bookkeeping takes: twice as many on the numpy backend, where fusion saves
# no more than memory, and an eighth on onednn.
BOOKKEEPING = 1 << 16


def bias_per_column(y_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> bool:
    """Is b, added to y (..., n, m), one value a column: of shape (m,), (1, m) and so on?"""
    return len(b_shape) <= len(y_shape) and b_shape[-1:] == y_shape[-1:] == (prod(b_shape),)


@operator(optional=("bias", "z"))
def matmul_bias_act(a, b, bias=None, act="relu", z=None):
    """act(a @ b + z + bias) in one call, without its intermediates.

    a is (..., n, k) and b (k, m); bias is one value a column, (m,) or that with ones before it; z has the result's shape
    (..., n, m); either may be None.  act is one of conv_bias_act's.  Raises ValueError for shapes and options that don't fit.
    The gradient needs a, b and the result only.
    """
    if len(a.shape) < 2 or len(b.shape) != 2 or a.shape[-1] != b.shape[0]:
        raise ValueError(f"matmul_bias_act: a {a.shape} and b {b.shape} must be (..., n, k) and (k, m)")
    y_shape = (*a.shape[:-1], b.shape[1])
    if bias is not None and not bias_per_column(y_shape, bias.shape):
        raise ValueError(f"matmul_bias_act: bias {bias.shape} must be one value a column, {y_shape[-1:]} or {(1, *y_shape[-1:])}")
    if z is not None:
        expect("matmul_bias_act", "z", z.shape, y_shape)
    return kernels().matmul_bias_act(a, b, bias, z, known("matmul_bias_act", act, a, b, bias, z))


@matmul_bias_act.reference
def _(a, b, bias=None, act="relu", z=None):
    y = a @ b
    y = y if z is None else y + z
    return activated(y if bias is None else y + bias, act)


@matmul_bias_act.backward
def _(dy, y, a, b, bias_shape, needs, act):
    d = RULES[act](dy, y)
    return (
        product(d, transpose(b)) if needs[0] else None,
        product(transpose(as_rows(a)), as_rows(d)) if needs[1] else None,
        sum_to(d, bias_shape) if needs[2] else None,
        d if needs[3] else None,
    )


def worth_of_product(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> int:
    """How many elements may be copied for the sake of a chain: a copy takes as long as a chain saves on as many of the result's."""
    if len(b_shape) != 2 or len(a_shape) < 2:
        return -1
    rows = a_shape[0] if len(a_shape) == 2 else prod(a_shape[:-1])
    return rows * b_shape[1] - BOOKKEEPING if a_shape[-1] == b_shape[0] else -1


fuse(matmul, add, ACTIVATIONS, into=matmul_bias_act, is_bias=bias_per_column, worth=worth_of_product)
