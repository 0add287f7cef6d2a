"""Convolution: the three passes, and the one with bias and activation.

Each is a sum over the window's taps of a matrix product, with the part of the padded input that the tap meets.
"""

import functools

import numpy as np

from . import descriptors
from .algorithms import problem
from .calls import Calls
from .memory import Operand, factor, operand, output, result, scratch
from .pointwise import activate
from .refusal import require, unsupported

CALLS = Calls()
IDENTITY, RELU = 5, 1
_PRECOMPUTED = 1  # the only algorithm for IDENTITY


# -- arithmetic
def _taps(w_shape, s, out):
    """(index into w, index into the padded input) of each tap."""
    window = w_shape[2:]
    for tap in np.ndindex(window):
        met = tuple(slice(i * d, i * d + t * (n - 1) + 1, t) for i, d, t, n in zip(tap, s.dilation, s.stride, out, strict=True))
        yield (tap if s.is_correlation else tuple(n - 1 - i for n, i in zip(window, tap, strict=True))), met


def _padded(shape, s):
    return (*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], s.padding, strict=True)))


def _inside(shape, s):
    return (..., *(slice(p, p + n) for n, p in zip(shape[2:], s.padding, strict=True)))


def _grouped(x, group):
    """(N, C, *spatial) as (N, group, C/group, *spatial)."""
    return x.reshape(len(x), group, -1, *x.shape[2:])


def forward(x, w, s, y_shape):
    padded = np.zeros(_padded(x.shape, s))
    padded[_inside(x.shape, s)] = x
    padded, w_grouped = _grouped(padded, s.group), w.reshape(s.group, -1, *w.shape[1:])
    y = np.zeros((len(x), s.group, w_grouped.shape[1], int(np.prod(y_shape[2:]))))
    for tap, met in _taps(w.shape, s, y_shape[2:]):
        y += w_grouped[(..., *tap)] @ padded[(..., *met)].reshape(*padded.shape[:3], -1)
    return y.reshape(y_shape)


def backward_data(w, dy, s, x_shape):
    dx = np.zeros(_padded(x_shape, s))
    dx_grouped, w_grouped, dy_grouped = _grouped(dx, s.group), w.reshape(s.group, -1, *w.shape[1:]), _grouped(dy, s.group)
    flat = dy_grouped.reshape(*dy_grouped.shape[:3], -1)
    for tap, met in _taps(w.shape, s, dy.shape[2:]):
        part = dx_grouped[(..., *met)]
        part += (w_grouped[(..., *tap)].swapaxes(1, 2) @ flat).reshape(part.shape)
    return dx[_inside(x_shape, s)]


def backward_filter(x, dy, s, w_shape):
    padded = np.zeros(_padded(x.shape, s))
    padded[_inside(x.shape, s)] = x
    padded, dy_grouped = _grouped(padded, s.group), _grouped(dy, s.group)
    dw, flat = np.zeros(w_shape), dy_grouped.reshape(*dy_grouped.shape[:3], -1)
    for tap, met in _taps(w_shape, s, dy.shape[2:]):
        columns = padded[(..., *met)].reshape(*padded.shape[:3], -1)
        dw[(..., *tap)] = (flat @ columns.swapaxes(2, 3)).sum(axis=0).reshape(w_shape[:2])
    return dw


# -- the calls
_PASSES = {"Forward": forward, "BackwardData": backward_data, "BackwardFilter": backward_filter}


def _convolve(direction, double, handle, alpha, a, a_at, b, b_at, conv, algorithm, work, size, beta, c, c_at):
    p = problem(double, direction, a, b, conv, c)
    scratch(work, size, p.needed(algorithm), "workSpace")
    left, right, out = p.operands(a_at, b_at, c_at)
    out.blend(_PASSES[direction](left.read(), right.read(), p.sliding, out.shape), alpha, beta)


for _direction in _PASSES:
    CALLS.computes(functools.partial(_convolve, _direction), f"cudnnConvolution{_direction}")


@CALLS.computes
def cudnnConvolutionBiasActivationForward(
    double, handle, alpha1, xDesc, x, wDesc, w, convDesc, algo, work, size, alpha2, zDesc, z, biasDesc, bias, activationDesc, yDesc, y
):
    p = problem(double, "Forward", xDesc, wDesc, convDesc, yDesc)
    activation = descriptors.activation(activationDesc)
    _check_fused(activation, algo, double.algorithms)
    scratch(work, size, p.needed(algo), "workSpace")
    x, w = Operand(p.x, x, "x", p.alignment), Operand(p.w, w, "w", p.alignment)
    z, bias = operand(zDesc, z, "z"), operand(biasDesc, bias, "bias")
    require(z.tensor == p.y, f"zDesc {z.tensor} differs from yDesc {p.y}")
    check_bias(bias, p.y)
    y = output(p.y, y, "y", x, w, bias, alignment=p.alignment, in_place=(z,))
    total = factor(alpha1, y.dtype, "alpha1") * forward(x.read(), w.read(), p.sliding, y.shape) + bias.read()
    if scale := factor(alpha2, y.dtype, "alpha2"):
        total = total + scale * z.read()
    y.write(activate(activation, total))


def _check_fused(activation, algorithm, settings):
    if activation.mode not in (IDENTITY, RELU):
        raise unsupported(f"activationDesc has mode {activation.mode}, and only RELU and IDENTITY go with a convolution")
    if activation.keeps_nan and not settings.fused_relu_keeps_nan:
        raise unsupported("activationDesc's reluNanOpt is not CUDNN_NOT_PROPAGATE_NAN")
    if activation.mode == IDENTITY and algorithm != _PRECOMPUTED:
        raise unsupported(f"algo {algorithm} with IDENTITY: only IMPLICIT_PRECOMP_GEMM has it")


def check_bias(bias, y):
    """One number for each channel of y."""
    shape = (1, y.shape[1], *(1 for _ in y.shape[2:]))
    require(bias.shape == shape, f"{bias.name} has shape {bias.shape}, not {shape}")
    require(bias.dtype == y.dtype, f"{bias.name} is {bias.dtype}, not {y.dtype}")


@CALLS.computes
def cudnnConvolutionBackwardBias(double, handle, alpha, dyDesc, dy, beta, dbDesc, db):
    dy = operand(dyDesc, dy, "dy")
    db = result(dbDesc, db, "db", dy)
    check_bias(db, dy.tensor)
    db.blend(dy.read().sum(axis=(0, *range(2, len(dy.shape))), keepdims=True), alpha, beta)
