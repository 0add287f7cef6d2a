"""Pooling: the taps of the window, stacked, and their maximum or average.

Of equal maxima the deterministic mode takes the first, the other one the last: cuDNN does not say which.
"""

import ctypes

import numpy as np

from . import descriptors
from .calls import Calls
from .memory import operand, result
from .pointwise import check_alike
from .real import real
from .refusal import require

CALLS = Calls()
MAX, AVERAGE_WITH_PADDING, AVERAGE, MAX_DETERMINISTIC = range(4)
_MAXIMA = (MAX, MAX_DETERMINISTIC)


def _tap_slices(p, out):
    """Where in the padded input each tap meets it."""
    for tap in np.ndindex(p.window):
        yield (..., *(slice(i, i + s * (n - 1) + 1, s) for i, s, n in zip(tap, p.stride, out, strict=True)))


def _padded(x, p, fill):
    return np.pad(x, [(0, 0), (0, 0), *((n, n) for n in p.padding)], constant_values=fill)


def _taps(x, p, out, fill):
    """(taps, N, C, *out)."""
    padded = _padded(x, p, fill)
    return np.stack([padded[met] for met in _tap_slices(p, out)])


def _counts(x, p, out):
    """How many elements an average is over."""
    return np.prod(p.window) if p.mode == AVERAGE_WITH_PADDING else _taps(np.ones_like(x), p, out, 0).sum(axis=0)


def _forward(x, p, out):
    if p.mode in _MAXIMA:
        return (np.max if p.keeps_nan else np.fmax.reduce)(_taps(x, p, out, -np.inf), axis=0)
    return _taps(x, p, out, 0).sum(axis=0) / _counts(x, p, out)


def _chosen(x, y, p):
    """The tap that gave each maximum; -1 where none did."""
    out = y.shape[2:]
    hits = (_taps(x, p, out, -np.inf) == y) & (_taps(np.ones_like(x), p, out, 0) == 1)
    which = hits.argmax(axis=0) if p.mode == MAX_DETERMINISTIC else len(hits) - 1 - hits[::-1].argmax(axis=0)
    return np.where(hits.any(axis=0), which, -1)


def _backward(x, y, dy, p):
    dx = _padded(np.zeros_like(x), p, 0)
    is_max = p.mode in _MAXIMA
    chosen, share = _chosen(x, y, p) if is_max else None, dy if is_max else dy / _counts(x, p, y.shape[2:])
    for t, met in enumerate(_tap_slices(p, y.shape[2:])):
        dx[met] += np.where(chosen == t, dy, 0) if is_max else share
    return dx[(..., *(slice(n, n + m) for n, m in zip(p.padding, x.shape[2:], strict=True)))]


# -- the calls
def _read(poolingDesc, xDesc, y_shape):
    p, n = descriptors.pooling(poolingDesc), len(y_shape)
    require(n in (4, 5) and len(p.window) == n - 2, f"a window of {len(p.window)} axes can't slide over {n}: 4 or 5 are supported")
    within = all(a < b for a, b in zip(p.padding, p.window, strict=True))
    require(within, f"poolingDesc: padding {p.padding} is not smaller than the window {p.window}")
    (shape,) = real().ask("cudnnGetPoolingNdForwardOutputDim", poolingDesc.address, xDesc.address, n, ctypes.c_int * n)
    require(shape == y_shape, f"y has shape {y_shape}, and pooling gives {shape}")
    return p


@CALLS.computes
def cudnnPoolingForward(double, handle, poolingDesc, alpha, xDesc, x, beta, yDesc, y):
    x = operand(xDesc, x, "x")
    y = result(yDesc, y, "y", x)
    p = _read(poolingDesc, xDesc, y.shape)
    require(x.dtype == y.dtype, f"x is {x.dtype}, and y {y.dtype}")
    y.blend(_forward(x.read(), p, y.shape[2:]), alpha, beta)


@CALLS.computes
def cudnnPoolingBackward(double, handle, poolingDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx):
    y, dy = operand(yDesc, y, "y"), operand(dyDesc, dy, "dy")
    x = operand(xDesc, x, "x")
    dx = result(dxDesc, dx, "dx", y, dy, x)
    check_alike(y, dy)
    check_alike(x, dx)
    p = _read(poolingDesc, xDesc, y.shape)
    require(x.dtype == y.dtype, f"x is {x.dtype}, and y {y.dtype}")
    dx.blend(_backward(x.read(), y.read(), dy.read(), p), alpha, beta)
