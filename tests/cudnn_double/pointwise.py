"""Activations, and operations of two tensors of which one may be repeated along axes."""

import numpy as np

from . import descriptors
from .calls import Calls
from .memory import factor, operand, result
from .refusal import require, unsupported

CALLS = Calls()
SIGMOID, RELU, TANH, CLIPPED_RELU, ELU, IDENTITY, SWISH = range(7)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _relu(a, x):
    return np.maximum(x, 0) if a.keeps_nan else np.fmax(x, 0)


# the value, and the derivative by x and y
_ACTIVATIONS = {
    SIGMOID: (lambda a, x: _sigmoid(x), lambda a, x, y: y * (1 - y)),
    RELU: (_relu, lambda a, x, y: x > 0),
    TANH: (lambda a, x: np.tanh(x), lambda a, x, y: 1 - y * y),
    CLIPPED_RELU: (lambda a, x: np.minimum(_relu(a, x), a.coefficient), lambda a, x, y: (x > 0) & (x <= a.coefficient)),
    ELU: (lambda a, x: np.where(x < 0, a.coefficient * np.expm1(x), x), lambda a, x, y: np.where(x < 0, y + a.coefficient, 1)),
    IDENTITY: (lambda a, x: x, lambda a, x, y: np.ones_like(x)),
    SWISH: (lambda a, x: x * _sigmoid(x), lambda a, x, y: _sigmoid(x) + y * (1 - _sigmoid(x))),
}


def activate(activation, x):
    return _ACTIVATIONS[activation.mode][0](activation, x)


def _activation(descriptor):
    found = descriptors.activation(descriptor)
    if found.mode == IDENTITY:
        raise unsupported("activationDesc: IDENTITY goes only with a convolution")
    return found


def check_alike(first, *others):
    for other in others:
        require(first.shape == other.shape, f"{first.name} has shape {first.shape}, and {other.name} {other.shape}")
        require(first.dtype == other.dtype, f"{first.name} is {first.dtype}, and {other.name} {other.dtype}")


@CALLS.computes
def cudnnActivationForward(double, handle, activationDesc, alpha, xDesc, x, beta, yDesc, y):
    activation, x = _activation(activationDesc), operand(xDesc, x, "x")
    y = result(yDesc, y, "y", in_place=(x,))
    check_alike(x, y)
    y.blend(activate(activation, x.read()), alpha, beta)


@CALLS.computes
def cudnnActivationBackward(double, handle, activationDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx):
    activation, y = _activation(activationDesc), operand(yDesc, y, "y")
    dy, x = operand(dyDesc, dy, "dy"), operand(xDesc, x, "x")
    dx = result(dxDesc, dx, "dx", y, x, in_place=(dy,))
    check_alike(y, dy, x, dx)
    dx.blend(dy.read() * _ACTIVATIONS[activation.mode][1](activation, x.read(), y.read()), alpha, beta)


# -- two tensors
ADD, MUL, MIN, MAX, SQRT, NOT = range(6)


def check_repeated(b, c):
    """b has c's sides, or 1."""
    fits = len(b.shape) == len(c.shape) and all(n in (1, m) for n, m in zip(b.shape, c.shape, strict=True))
    require(fits, f"{b.name} of shape {b.shape} can't be repeated to {c.name}'s {c.shape}")
    if len(c.shape) not in (4, 5):
        raise unsupported(f"{c.name} has {len(c.shape)} axes, and 4 or 5 are supported")


@CALLS.computes
def cudnnAddTensor(double, handle, alpha, aDesc, A, beta, cDesc, C):
    a = operand(aDesc, A, "A")
    c = result(cDesc, C, "C", a)
    check_repeated(a, c)
    require(a.dtype == c.dtype, f"A is {a.dtype}, and C {c.dtype}")
    c.blend(np.broadcast_to(a.read(), c.shape), alpha, beta)


def _operation(op):
    least, most = (np.minimum, np.maximum) if op.keeps_nan else (np.fmin, np.fmax)
    return {ADD: np.add, MUL: np.multiply, MIN: least, MAX: most, SQRT: np.sqrt, NOT: lambda x: 1 - x}[op.operation]


@CALLS.computes
def cudnnOpTensor(double, handle, opTensorDesc, alpha1, aDesc, A, alpha2, bDesc, B, beta, cDesc, C):
    op, a = descriptors.operation(opTensorDesc), operand(aDesc, A, "A")
    operands = (a,) if op.operation in (SQRT, NOT) else (a, operand(bDesc, B, "B"))
    c = result(cDesc, C, "C", in_place=operands)
    check_alike(a, c)
    check_repeated(operands[-1], c)
    require(op.compute == (np.float64 if c.dtype == np.float64 else np.float32), f"opTensorDesc computes {c.dtype} in {op.compute}")
    given = zip(operands, (alpha1, alpha2), ("alpha1", "alpha2"), strict=False)
    c.add(_operation(op)(*(factor(at, op.compute, name) * x.read() for x, at, name in given)), beta)
