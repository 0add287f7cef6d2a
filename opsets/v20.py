"""Opset v20: the operators of Knet's Ops20, forward and backward side by side.

Arrays are in C order where Knet's are in Fortran order, so the bytes are the same and the axes reversed: images are
(N, C, *spatial), scores (instances, classes), and Knet's `dims` is `axis` here.  Classes count from 0; a negative label
masks its instance.  A convolution and its two transposes are each other's derivatives, and so are the poolings and
theirs, so every operator differentiates to any order.  float32 stays float32.

The last section says which chain of operators conv_bias_act replaces.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autotape import kernels, operator, random
from autotape.fusion import fuse
from autotape.tape import is_recording, is_training
from autotape.transforms import stop_gradient

from .array import (
    add,
    argmax,
    astype,
    divide,
    exp,
    log,
    matmul,
    minimum,
    multiply,
    negative,
    reshape,
    sum,
    sum_to,
    swapaxes,
    take_along_axis,
    tanh,
    where,
)
from .array.reductions import HALF, kept
from .array.reductions import max as highest
from .array.shapes import shape_of
from .geometry import convolution, pooling, real_number, whole_number

__all__ = [
    "accuracy",
    "bce",
    "bmm",
    "conv4",
    "conv4_w",
    "conv4_x",
    "conv_bias_act",
    "dropout",
    "elu",
    "invx",
    "logistic",
    "logp",
    "logsoftmax",
    "logsumexp",
    "masked_dropout",
    "mat",
    "max_pool",
    "max_pool_at",
    "max_pool_x",
    "mean_pool",
    "mean_pool_x",
    "nll",
    "pool",
    "relu",
    "selu",
    "sigm",
    "softmax",
    "softplus",
    "zeroone",
]

# ---------------------------------------------------------------- activations: each rule needs the result alone

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
    return kernels().sigmoid(x)


@sigm.backward
def _(dy, y): return dy * y * (1 - y)


@operator(elementwise=True)
def softplus(x):
    """log(1 + exp(x)), elementwise, without overflow: what bce and logistic are made of."""
    k = kernels()
    return k.add(k.maximum(x, k.scalar(0, x.dtype)), k.log1p(k.exp(k.negative(k.absolute(x)))))


@softplus.backward
def _(dy, x): return dy * sigm(x)


def invx(x):
    """1 / x, elementwise.  Knet's invx."""
    return divide(1, x)


# ---------------------------------------------------------------- dropout


def dropout(x, p=0.5, *, seed=None, drop=None):
    """x with each element zeroed with probability p and the others divided by 1 - p.  Knet's dropout; Srivastava et al. 2014.

    `seed` is a whole number that fixes the choice, the same on every backend; None draws a fresh one.  `drop` False gives x
    itself; None drops in training (`autotape.training`), which is while a tape records unless it is said.  p = 0 gives x and
    p = 1 zeros.  Raises ValueError for p outside [0, 1].
    """
    p = real_number("dropout", "p", p)
    if not 0 <= p <= 1:  # NaN too
        raise ValueError(f"dropout: p must be a probability from 0 to 1, got {p!r}")
    if p == 0 or not (is_training() if drop is None else drop):
        return x if is_recording() else stop_gradient(x)  # x itself is no constant
    return masked_dropout(x, p, random.seed() if seed is None else whole_number("dropout", "seed", seed))


@operator(constants="mask")
def masked_dropout(x, p=0.5, seed=0):
    """dropout that always drops: x / (1 - p) where a uniform number drawn from `seed` is above p, else 0."""
    k = kernels()
    mask = k.greater(k.uniform(seed, x.shape, np.float32), k.scalar(float(p), np.float32))  # the same choice for every dtype of x
    return k.where(mask, k.multiply(x, k.scalar(kept_scale(p), x.dtype)), k.scalar(0, x.dtype)), mask


@masked_dropout.backward
def _(dy, mask, p): return where(mask, dy * kept_scale(p), 0)


def kept_scale(p: float) -> float:
    return 1 / (1 - float(p)) if p < 1 else 1.0  # for p = 1 nothing is kept


# ---------------------------------------------------------------- shapes and products


def mat(x, dims=None):
    """x as a matrix (instances, rest), for a dense layer: (N, C, H, W) becomes (N, C*H*W).  Knet's mat.

    `dims` is how many trailing axes become the second one; the default is all but the first.  Raises ValueError if x has fewer axes.
    """
    shape = shape_of(x)
    dims = max(len(shape) - 1, 0) if dims is None else whole_number("mat", "dims", dims)
    if not 0 <= dims <= len(shape):
        raise ValueError(f"mat: dims must be from 0 to the {len(shape)} axes of x {shape}, got {dims!r}")
    cut = len(shape) - dims
    return reshape(x, (math.prod(shape[:cut]), math.prod(shape[cut:])))


def bmm(a, b, transA=False, transB=False):
    """The matrix product of each pair in two batches: a (..., n, k) and b (..., k, m) give (..., n, m).  Knet's bmm.

    transA and transB transpose each matrix of a and b first.  Raises ValueError unless a and b have the same batch axes, one
    at least, and the same k.
    """
    sa, sb = shape_of(a), shape_of(b)
    fits = len(sa) == len(sb) >= 3 and sa[:-2] == sb[:-2]
    if not fits or sa[-2 if transA else -1] != sb[-1 if transB else -2]:
        expected = f"a {'(..., k, n)' if transA else '(..., n, k)'} and b {'(..., m, k)' if transB else '(..., k, m)'}"
        given = f"bmm: a {sa} and b {sb} don't fit with transA={transA} and transB={transB}"
        raise ValueError(f"{given}: they must be {expected} with the same batch axes")
    return matmul(swapaxes(a, -1, -2) if transA else a, swapaxes(b, -1, -2) if transB else b)


# ---------------------------------------------------------------- softmax and its logarithm


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


# ---------------------------------------------------------------- losses: labels are host data, checked with NumPy


def nll(scores, labels, axis=1, average=True):
    """The mean of -logsoftmax(scores, axis) at the labels: the cross entropy of unnormalised scores.  Knet's nll.

    scores has its classes along `axis`; labels are integers from 0 to classes - 1 with scores' shape less that axis.  Negative
    labels mask their instances, which count neither in the sum nor in the mean; if all are masked the loss is 0.  average=False
    gives the pair (sum, number of instances).  Raises ValueError for labels of another shape or beyond the classes, TypeError
    if they aren't integers.
    """
    indices, mask, count = checked_classes("nll", scores, labels, axis)
    losses = negative(take_along_axis(logsoftmax(scores, axis), indices, axis))
    return mean_or_sum(losses if mask is None else where(mask, losses, 0), count, average)


def accuracy(scores, labels, axis=1, average=True):
    """The share of instances whose highest score is that of their label, a float from 0 to 1.  Knet's accuracy.

    Arguments and errors are those of nll.  average=False gives the pair (number that are right, number of instances).
    Not differentiable.
    """
    indices, mask, count = checked_classes("accuracy", scores, labels, axis)
    right = to_host(argmax(scores, axis, True)) == indices
    correct = int(np.count_nonzero(right if mask is None else right & mask))
    return correct / max(count, 1) if average else (correct, count)


def zeroone(scores, labels, axis=1, average=True):
    """The share of instances whose highest score is not that of their label: 1 - accuracy.  Knet's zeroone.

    Arguments and errors are those of nll.  average=False gives the pair (number that are wrong, number of instances).
    Not differentiable.
    """
    correct, count = accuracy(scores, labels, axis, average=False)
    return (count - correct) / max(count, 1) if average else (count - correct, count)


def bce(scores, labels, average=True):
    """The mean of -log(sigm(scores)) where labels are 1 and of -log(1 - sigm(scores)) where they are 0.  Knet's bce.

    labels has scores' shape.  average=False gives the pair (sum, number of scores).  Raises ValueError for labels of another
    shape or other than 0 and 1.
    """
    return binary_loss("bce", scores, labels, (0, 1), average)


def logistic(scores, labels, average=True):
    """The mean of log(1 + exp(-labels * scores)), labels being -1 or 1.  Knet's logistic.

    labels has scores' shape.  average=False gives the pair (sum, number of scores).  Raises ValueError for labels of another
    shape or other than -1 and 1.
    """
    return binary_loss("logistic", scores, labels, (-1, 1), average)


def binary_loss(name: str, scores: Any, labels: Any, pair: tuple[int, int], average: bool) -> Any:
    low, high = pair
    labels, shape = to_host(labels), shape_of(scores)
    if labels.shape != shape:
        raise ValueError(f"{name}: labels {labels.shape} must have the shape of scores, {shape}")
    is_high = labels == high
    if not (known := is_high | (labels == low)).all():
        raise ValueError(f"{name}: labels must be {low} or {high}, got {labels[~known].flat[0]}")
    return mean_or_sum(softplus(where(is_high, negative(scores), scores)), labels.size, average)


def mean_or_sum(losses: Any, count: int, average: bool) -> Any:
    """The mean over the `count` losses that are not masked, or the pair (sum, count)."""
    if not average:
        return sum(losses), count
    if losses.dtype != HALF:
        return divide(sum(losses), max(count, 1))
    return astype(divide(sum(astype(losses, np.float32)), max(count, 1)), HALF)  # the sum may be more than float16 holds


def checked_classes(name: str, scores: Any, labels: Any, axis: int) -> tuple[np.ndarray, np.ndarray | None, int]:
    """labels as indices along `axis` of scores (0 where masked), which of them count (None: all), and how many."""
    shape, labels, axis = shape_of(scores), to_host(labels), whole_number(name, "axis", axis)
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"{name}: scores {shape} has no axis {axis}")
    before, classes, after = shape[: axis % len(shape)], shape[axis], shape[axis % len(shape) + 1 :]
    if labels.shape != before + after:
        raise ValueError(f"{name}: labels {labels.shape} must have the shape of scores {shape} less its axis {axis}, {before + after}")
    if labels.dtype.kind not in "iu" and labels.size:
        raise TypeError(f"{name}: labels must be integers from 0 to {classes - 1}, or negative for masked, got {labels.dtype}")
    if labels.size and (highest := labels.max()) >= classes:
        raise ValueError(f"{name}: label {highest} is outside the {classes} classes, 0 to {classes - 1}")
    labels = labels.astype(np.intp, copy=False).reshape(*before, 1, *after)
    mask = labels >= 0
    count = int(np.count_nonzero(mask))
    return (labels, None, count) if count == labels.size else (np.where(mask, labels, 0), mask, count)


def to_host(x: Any) -> np.ndarray:
    """Whatever holds labels as a NumPy array.  A tracked Tensor raises and says how to stop its gradient."""
    k = kernels()
    return k.to_numpy(x) if isinstance(x, k.array) else np.asarray(x)


# ---------------------------------------------------------------- convolution: three operators, each the others' derivative


@operator
def conv4(w, x, padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    """alpha * (x convolved with w), in one to three dimensions.  Knet's conv4.

    w (K, C/group, *window) and x (N, C, *spatial) give y (N, K, *output), where an axis of n with window k gives
    1 + floor((n + padding before and after - ((k - 1) * dilation + 1)) / stride).
    padding is a number, one for each spatial axis, or a (before, after) pair for each; stride and dilation are a number or one
    for each.  mode 0 is the true convolution, with the window reversed; mode 1 is cross-correlation.  group splits the channels
    of x and y into as many independent convolutions.  Raises ValueError for shapes and options that don't fit,
    TypeError for an alpha that is no number.
    """
    geometry, _ = convolution("conv4", w.shape, x.shape, padding, stride, dilation, mode, group)
    return kernels().conv(w, x, geometry, real_number("conv4", "alpha", alpha))


@conv4.shape
def _(w_shape, x_shape, padding, stride, dilation, mode, alpha, group):
    real_number("conv4", "alpha", alpha)
    return convolution("conv4", w_shape, x_shape, padding, stride, dilation, mode, group)[1]


@conv4.backward("w")
def _(dy, x, w_shape, padding, stride, dilation, mode, alpha, group):
    return conv4_w(x, dy, w_shape, padding, stride, dilation, mode, alpha, group)


@conv4.backward("x")
def _(dy, w, x_shape, padding, stride, dilation, mode, alpha, group):
    return conv4_x(w, dy, x_shape, padding, stride, dilation, mode, alpha, group)


@operator
def conv4_x(w, v, x_shape=(), padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    """The transpose of conv4 in x: the cotangent of x (x_shape) for a cotangent v of y.  Options are those of conv4."""
    geometry, y_shape = convolution("conv4_x", w.shape, x_shape, padding, stride, dilation, mode, group)
    expect("conv4_x", "v", v.shape, y_shape)
    return kernels().conv_x(w, v, x_shape, geometry, real_number("conv4_x", "alpha", alpha))


@conv4_x.backward("w")
def _(dy, v, w_shape, padding, stride, dilation, mode, alpha, group):
    return conv4_w(dy, v, w_shape, padding, stride, dilation, mode, alpha, group)


@conv4_x.backward("v")
def _(dy, w, padding, stride, dilation, mode, alpha, group): return conv4(w, dy, padding, stride, dilation, mode, alpha, group)


@operator
def conv4_w(x, v, w_shape=(), padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    """The transpose of conv4 in w: the cotangent of w (w_shape) for a cotangent v of y.  Options are those of conv4."""
    geometry, y_shape = convolution("conv4_w", w_shape, x.shape, padding, stride, dilation, mode, group)
    expect("conv4_w", "v", v.shape, y_shape)
    return kernels().conv_w(x, v, w_shape, geometry, real_number("conv4_w", "alpha", alpha))


@conv4_w.backward("x")
def _(dy, v, x_shape, padding, stride, dilation, mode, alpha, group):
    return conv4_x(dy, v, x_shape, padding, stride, dilation, mode, alpha, group)


@conv4_w.backward("v")
def _(dy, x, padding, stride, dilation, mode, alpha, group): return conv4(dy, x, padding, stride, dilation, mode, alpha, group)


def expect(name: str, argument: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise ValueError(f"{name}: {argument} {shape} must have the shape {expected}, as the other arguments give it")


# ---------------------------------------------------------------- pooling: the maximum and the mean, each with its transpose


def pool(x, window=2, padding=0, stride=None, mode=0, alpha=1):
    """alpha * (the maximum or the mean of each window of x (N, C, *spatial)), in one to three dimensions.  Knet's pool.

    mode 0 is the maximum, 1 the mean with padding counted as zeros, 2 the mean without padding, and 3 the deterministic maximum,
    here the same as 0: the gradient always goes to the first maximum of a window in row-major order.  NaN in a window gives NaN.
    window is a number or one for each spatial axis, and so is stride, which by default is the window; padding is as in conv4 and
    smaller than the window.  The result's shape is conv4's.  Raises ValueError for shapes and options that don't fit.
    """
    if mode not in (0, 1, 2, 3):
        raise ValueError(f"pool: mode must be 0 or 3 (maximum), 1 (mean counting padding) or 2 (mean without padding), got {mode!r}")
    y = max_pool(x, window, padding, stride) if mode in (0, 3) else mean_pool(x, window, padding, stride, mode == 1)
    return y if (alpha := real_number("pool", "alpha", alpha)) == 1 else multiply(y, alpha)


@operator
def max_pool(x, window=2, padding=0, stride=None):
    """The maximum of each window of x (N, C, *spatial), padding left out: pool with mode 0.  Options as there."""
    return kernels().max_pool(x, pooling("max_pool", x.shape, window, padding, stride)[0])


@max_pool.backward
def _(dy, x, y, window, padding, stride): return max_pool_x(dy, x, y, window, padding, stride)


@operator(nondifferentiable="x m")
def max_pool_x(v, x, m, window=2, padding=0, stride=None):
    """The transpose of max_pool at x: v, shaped like m = max_pool(x), goes to where each window of x has its first maximum."""
    geometry, y_shape = pooling("max_pool_x", x.shape, window, padding, stride)
    expect("max_pool_x", "v", v.shape, y_shape)
    expect("max_pool_x", "m", m.shape, y_shape)
    return kernels().max_pool_x(v, x, m, geometry)


@max_pool_x.backward("v")
def _(dy, x, m, window, padding, stride): return max_pool_at(dy, x, m, window, padding, stride)


@operator(nondifferentiable="x m")
def max_pool_at(v, x, m, window=2, padding=0, stride=None):
    """v, shaped like x, taken where each window of x has its first maximum; m is max_pool(x).  The transpose of max_pool_x in v."""
    geometry, y_shape = pooling("max_pool_at", x.shape, window, padding, stride)
    expect("max_pool_at", "v", v.shape, x.shape)
    expect("max_pool_at", "m", m.shape, y_shape)
    return kernels().max_pool_at(v, x, m, geometry)


@max_pool_at.backward("v")
def _(dy, x, m, window, padding, stride): return max_pool_x(dy, x, m, window, padding, stride)


@operator
def mean_pool(x, window=2, padding=0, stride=None, count_padding=True):
    """The mean of each window of x (N, C, *spatial), padding counted as zeros or left out: pool with mode 1 or 2.  Options as there."""
    return kernels().mean_pool(x, pooling("mean_pool", x.shape, window, padding, stride)[0], count_padding)


@mean_pool.backward
def _(dy, x_shape, window, padding, stride, count_padding): return mean_pool_x(dy, x_shape, window, padding, stride, count_padding)


@operator
def mean_pool_x(v, x_shape=(), window=2, padding=0, stride=None, count_padding=True):
    """The transpose of mean_pool: v, shaped like its result, is spread evenly over the windows of an x of shape x_shape."""
    geometry, y_shape = pooling("mean_pool_x", x_shape, window, padding, stride)
    expect("mean_pool_x", "v", v.shape, y_shape)
    return kernels().mean_pool_x(v, x_shape, geometry, count_padding)


@mean_pool_x.backward
def _(dy, window, padding, stride, count_padding): return mean_pool(dy, window, padding, stride, count_padding)


# ---------------------------------------------------------------- fusion: conv4, a bias a channel and an activation in one call

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
    if activation not in RULES:
        raise ValueError(f"conv_bias_act: activation {activation!r} is unknown: use one of {', '.join(map(repr, RULES))}")
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
