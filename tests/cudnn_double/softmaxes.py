"""Softmax and its logarithm, over the channels or all of an instance."""

import numpy as np

from .calls import Calls
from .memory import operand, result
from .pointwise import check_alike
from .refusal import require

CALLS = Calls()
FAST, ACCURATE, LOG = range(3)


def _axes(mode, x):
    require(mode in (0, 1), f"mode: there is no {mode}")
    require(len(x.shape) in (4, 5), f"{x.name} has {len(x.shape)} axes, not 4 or 5")
    return (1,) if mode == 1 else tuple(range(1, len(x.shape)))


def _softmax(algorithm, x, axes):
    if algorithm == FAST:
        return np.exp(x) / np.exp(x).sum(axis=axes, keepdims=True)
    shifted = x - x.max(axis=axes, keepdims=True)
    total = np.exp(shifted).sum(axis=axes, keepdims=True)
    return shifted - np.log(total) if algorithm == LOG else np.exp(shifted) / total


@CALLS.computes
def cudnnSoftmaxForward(double, handle, algo, mode, alpha, xDesc, x, beta, yDesc, y):
    require(algo in (FAST, ACCURATE, LOG), f"algo: there is no {algo}")
    x = operand(xDesc, x, "x")
    y = result(yDesc, y, "y", x)
    check_alike(x, y)
    y.blend(_softmax(algo, x.read(), _axes(mode, x)), alpha, beta)


@CALLS.computes
def cudnnSoftmaxBackward(double, handle, algo, mode, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx):
    require(algo in (FAST, ACCURATE, LOG), f"algo: there is no {algo}")
    y, dy = operand(yDesc, y, "y"), operand(dyDesc, dy, "dy")
    dx = result(dxDesc, dx, "dx", y, dy)
    check_alike(y, dy, dx)
    value, cotangent, axes = y.read(), dy.read(), _axes(mode, y)
    if algo == LOG:
        dx.blend(cotangent - np.exp(value) * cotangent.sum(axis=axes, keepdims=True), alpha, beta)
    else:
        dx.blend(value * (cotangent - (value * cotangent).sum(axis=axes, keepdims=True)), alpha, beta)
