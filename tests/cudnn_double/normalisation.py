"""Batch normalisation."""

from math import prod

import numpy as np

from . import descriptors
from .calls import Calls
from .memory import Operand, operand, output, result
from .pointwise import check_alike
from .refusal import require

CALLS = Calls()
PER_ACTIVATION, SPATIAL, SPATIAL_PERSISTENT = range(3)


def _axes(mode, x):
    """Those that the statistics are over."""
    require(mode in (PER_ACTIVATION, SPATIAL, SPATIAL_PERSISTENT), f"mode: there is no {mode}")
    require(len(x.shape) in (4, 5), f"x has {len(x.shape)} axes, not 4 or 5")
    return (0,) if mode == PER_ACTIVATION else (0, *range(2, len(x.shape)))


def _parameters(descriptor, name, x, axes):
    """The tensor of scale, bias and statistics: one number for those of x that are normalised together."""
    found, shape = descriptors.tensor(descriptor, name), tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    dtype = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    require(found.shape == shape, f"{name} has shape {found.shape}, not {shape}")
    require(found.dtype == dtype, f"{name} is {found.dtype}, and {x.dtype} goes with {dtype}")
    return found


def _pair(per, at, names, *inputs, of=output):
    """Two statistics, of which both or neither are given."""
    require((at[0] is None) == (at[1] is None), f"{' and '.join(names)} must both be given, or neither")
    return [of(per, a, name, *inputs) for a, name in zip(at, names, strict=True) if a]


def _check_epsilon(epsilon):
    require(epsilon >= 0, f"epsilon {epsilon} is less than CUDNN_BN_MIN_EPSILON")


@CALLS.computes
def cudnnBatchNormalizationForwardTraining(
    double, handle, mode, alpha, beta, xDesc, x, yDesc, y, bnDesc, bnScale, bnBias, factor, runningMean, runningVariance, epsilon, saveMean,
    saveInvVariance,
):  # fmt: skip
    x = operand(xDesc, x, "x")
    axes = _axes(mode, x)
    per = _parameters(bnDesc, "bnScaleBiasMeanVarDesc", x, axes)
    scale, bias = Operand(per, bnScale, "bnScale"), Operand(per, bnBias, "bnBias")
    y = result(yDesc, y, "y", x, scale, bias)
    check_alike(x, y)
    _check_epsilon(epsilon)
    running = _pair(per, (runningMean, runningVariance), ("resultRunningMean", "resultRunningVariance"), x, scale, bias, y)
    saved = _pair(per, (saveMean, saveInvVariance), ("resultSaveMean", "resultSaveInvVariance"), x, scale, bias, y)
    value, n = x.read(), np.float64(prod(x.shape[a] for a in axes))
    mean, variance = value.mean(axis=axes, keepdims=True), value.var(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + epsilon)
    for to, new in zip(running, (mean, variance * n / (n - 1)), strict=False):
        to.write(to.read() * (1 - factor) + new * factor)
    for to, new in zip(saved, (mean, inverse), strict=False):
        to.write(new)
    y.blend((value - mean) * inverse * scale.read() + bias.read(), alpha, beta)


@CALLS.computes
def cudnnBatchNormalizationForwardInference(
    double, handle, mode, alpha, beta, xDesc, x, yDesc, y, bnDesc, bnScale, bnBias, estimatedMean, estimatedVariance, epsilon
):
    x = operand(xDesc, x, "x")
    per = _parameters(bnDesc, "bnScaleBiasMeanVarDesc", x, _axes(mode, x))
    scale, bias = Operand(per, bnScale, "bnScale"), Operand(per, bnBias, "bnBias")
    mean, variance = Operand(per, estimatedMean, "estimatedMean"), Operand(per, estimatedVariance, "estimatedVariance")
    y = result(yDesc, y, "y", x, scale, bias, mean, variance)
    check_alike(x, y)
    _check_epsilon(epsilon)
    y.blend((x.read() - mean.read()) / np.sqrt(variance.read() + epsilon) * scale.read() + bias.read(), alpha, beta)


@CALLS.computes
def cudnnBatchNormalizationBackward(
    double, handle, mode, alphaData, betaData, alphaParam, betaParam, xDesc, x, dyDesc, dy, dxDesc, dx, bnDesc, bnScale, dBnScale, dBnBias,
    epsilon, savedMean, savedInvVariance,
):  # fmt: skip
    x, dy = operand(xDesc, x, "x"), operand(dyDesc, dy, "dy")
    axes = _axes(mode, x)
    per = _parameters(bnDesc, "dBnScaleBiasDesc", x, axes)
    scale = Operand(per, bnScale, "bnScale")
    dx = result(dxDesc, dx, "dx", x, dy, scale)
    dscale, dbias = (output(per, at, name, x, dy, scale, dx) for at, name in ((dBnScale, "dBnScaleResult"), (dBnBias, "dBnBiasResult")))
    check_alike(x, dy, dx)
    _check_epsilon(epsilon)
    mean, inverse = _statistics(x, per, axes, epsilon, savedMean, savedInvVariance)
    normal, cotangent = (x.read() - mean) * inverse, dy.read()
    by_bias, by_scale = cotangent.sum(axis=axes, keepdims=True), (cotangent * normal).sum(axis=axes, keepdims=True)
    n = prod(x.shape[a] for a in axes)
    dx.blend(scale.read() * inverse * (cotangent - (by_bias + normal * by_scale) / n), alphaData, betaData)
    dscale.blend(by_scale, alphaParam, betaParam)
    dbias.blend(by_bias, alphaParam, betaParam)


def _statistics(x, per, axes, epsilon, savedMean, savedInvVariance):
    """Mean and 1 / sqrt(variance + epsilon): the saved ones, or computed again."""
    if saved := _pair(per, (savedMean, savedInvVariance), ("savedMean", "savedInvVariance"), of=Operand):
        return [s.read() for s in saved]
    value = x.read()
    return value.mean(axis=axes, keepdims=True), 1 / np.sqrt(value.var(axis=axes, keepdims=True) + epsilon)
