"""Convolution by im2col and matrix products; windows.py has the layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from ..kernels import Array, Geometry, Shape
from .elementwise import sigmoid
from .windows import blocked, blocked_shape, im2col, interior, is_batch_last, padded, padded_shape, parts, unblocked, windows

_SMALL = 1 << 17  # weights that may be transposed at no cost to speak of


# -- the three kernels, each the transpose of the others
def conv(w: Array, x: Array, geometry: Geometry, alpha: float) -> Array:
    g = geometry
    out, dtype = check(w.shape, x.shape, g), _dtype(w, x, alpha)
    x, last = _wide(x, dtype), is_batch_last(x, g)
    y = np.empty(blocked_shape((len(x), len(w), *out), last), x.dtype)
    if x.size == 0 or w.size == 0:
        y[...] = 0
    elif y.size:
        w = _scaled(_wide(w, dtype), g, alpha)
        for xb, yb in zip(windows(padded(x, g, last), g, out), y, strict=True):
            _block(w, xb, yb, g)
    return unblocked(y, last).astype(dtype, copy=False)


def conv_x(w: Array, dy: Array, x_shape: Shape, geometry: Geometry, alpha: float) -> Array:
    g = geometry
    out, dtype = check(w.shape, x_shape, g, dy.shape), _dtype(w, dy, alpha)
    if _is_better_turned(w.shape, x_shape, out, g):
        return conv(*_turned(w, dy, g), alpha)
    dy, last = _wide(dy, dtype), is_batch_last(dy, g)
    dx = np.zeros(blocked_shape(padded_shape(x_shape, g), last), dy.dtype)
    if dx.size and dy.size and w.size:
        w = _scaled(_wide(w, dtype), g, alpha)
        for dxb, dyb in zip(windows(dx, g, out), blocked(dy, last), strict=True):
            _block_x(w, dyb, dxb, g)
    return unblocked(dx[interior(x_shape, g)], last).astype(dtype, copy=False)


def conv_w(x: Array, dy: Array, w_shape: Shape, geometry: Geometry, alpha: float) -> Array:
    g = geometry
    out, dtype = check(w_shape, x.shape, g, dy.shape), _dtype(x, dy, alpha)
    if 0 in (x.size, dy.size, prod(w_shape)):
        return np.zeros(w_shape, dtype)
    x, dy, last = _wide(x, dtype), _wide(dy, dtype), is_batch_last(x, g)
    terms = (term for xb, dyb in zip(windows(padded(x, g, last), g, out), blocked(dy, last), strict=True) for term in _block_w(xb, dyb, g))
    dw = next(terms)
    for term in terms:
        dw += term
    return _scaled(dw.reshape(w_shape), g, alpha).astype(dtype, copy=False)


# -- conv_x at stride 1 is itself a convolution, of dy by the turned weights
def _is_better_turned(w: Shape, x: Shape, out: Shape, g: Geometry) -> bool:
    """Whether that has hardly more columns to copy than there would be to add up, which takes longer."""
    fits = all(max(p) <= (k - 1) * d for k, p, d in zip(g.window, g.padding, g.dilation, strict=True))
    return fits and max(g.stride) == 1 and (prod(g.window) == 1 or w[0] * prod(x[2:]) <= 1.2 * x[1] * prod(out))


def _turned(w: Array, dy: Array, g: Geometry) -> tuple[Array, Array, Geometry]:
    k, c = len(w) // g.group, w.shape[1]
    w = w.reshape(g.group, k, c, *g.window).swapaxes(1, 2).reshape(g.group * c, k, *g.window)
    reach = [(k - 1) * d for k, d in zip(g.window, g.dilation, strict=True)]
    padding = tuple((r - before, r - after) for r, (before, after) in zip(reach, g.padding, strict=True))
    return w, dy, g._replace(padding=padding, flip=not g.flip)


# -- one block of images
def _block(w: Array, x: Array, y: Array, g: Geometry) -> None:
    w = _matrices(w, g)
    y = y.reshape(*w.shape[:2], -1)
    for columns, part in im2col(x, g):
        np.matmul(w, columns, out=y[:, :, part])


def _block_x(w: Array, dy: Array, dx: Array, g: Geometry) -> None:
    """Each column is added to the places that im2col takes it from."""
    w, dy, everything = _matrices(w, g).transpose(0, 2, 1), _matrices(dy, g), slice(None)
    product = np.multiply if w.shape[2] == 1 else np.matmul  # BLAS is slow at outer products
    workspace = None
    for box, part in parts(dx, g):
        taken = dx[(everything,) * (1 + len(g.window)) + box]
        workspace = np.empty(taken.size, dy.dtype) if workspace is None else workspace  # the first part is the largest
        columns = workspace[: taken.size].reshape(taken.shape)
        product(w, dy[:, :, part], out=columns.reshape(*w.shape[:2], -1))
        for tap in np.ndindex(g.window):
            dx[(everything, *tap, *box)] += columns[(everything, *tap)]


def _block_w(x: Array, dy: Array, g: Geometry) -> Iterator[Array]:
    """The terms of dw, (group, K/group, C/group * window); a small one in the order of factors that suits BLAS better."""
    dy = _matrices(dy, g)
    for columns, part in im2col(x, g):
        if dy.shape[1] * columns.shape[1] < _SMALL:
            yield np.matmul(columns, dy[:, :, part].transpose(0, 2, 1)).transpose(0, 2, 1)
        else:
            yield np.matmul(dy[:, :, part], columns.transpose(0, 2, 1))


def _matrices(x: Array, g: Geometry) -> Array:
    """w or dy as one matrix a group: (group, K/group, the rest)."""
    return x.reshape(g.group, len(x) // g.group, -1)


# -- arguments
def check(w: Shape, x: Shape, g: Geometry, dy: Shape | None = None) -> Shape:
    """The spatial shape of y, once all shapes are known to fit."""
    if len(w) != len(x) or w[2:] != g.window or len(g.window) not in (1, 2, 3):
        raise ValueError(f"convolution: w {w} and x {x} must be (K, C/group, *window) and (N, C, *spatial) with the window {g.window}")
    if x[1] != w[1] * g.group or w[0] % g.group:
        raise ValueError(f"convolution: w {w} and group={g.group} need {w[1] * g.group} channels and a K that the group divides; x is {x}")
    out = g.output(x[2:])
    if min(out) < 0:
        raise ValueError(f"convolution: window {g.window} with dilation {g.dilation} doesn't fit x {x} with padding {g.padding}")
    if dy is not None and dy != (x[0], w[0], *out):
        raise ValueError(f"convolution: dy is {dy}; w {w} and x {x} give {(x[0], w[0], *out)}")
    return out


def _dtype(a: Array, b: Array, alpha: float) -> np.dtype:
    return np.result_type(a, b) if alpha == 1 else np.result_type(a, b, alpha)


def _wide(x: Array, dtype: np.dtype) -> Array:
    """x in the dtype to compute in: no BLAS takes float16."""
    return x.astype(np.float32 if dtype == np.float16 else dtype, copy=False)


def _scaled(w: Array, g: Geometry, alpha: float) -> Array:
    """w as the window meets x: reversed where the geometry says so, times alpha."""
    if g.flip:
        w = w[(slice(None), slice(None), *(slice(None, None, -1),) * len(g.window))]
    return np.ascontiguousarray(w if alpha == 1 else w * np.asarray(alpha, w.dtype))


# -- convolution, bias, residual and activation in one call
_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda y: y,
    "relu": lambda y: np.maximum(y, 0, out=_room(y)),  # keeps NaN, and so do the others
    "sigm": sigmoid,
    "tanh": lambda y: np.tanh(y, out=_room(y)),
    "elu": lambda y: np.maximum(y, 0) + np.expm1(np.minimum(y, 0)),
    "selu": lambda y: 1.0507009873554805 * np.maximum(y, 0) + 1.7580993408473773 * np.expm1(np.minimum(y, 0)),
}


def conv_bias_act(
    w: Array, x: Array, b: Array | None, z: Array | None, activation: str, geometry: Geometry, alpha: float, beta: float
) -> Array:
    if activation not in _ACTIVATIONS:
        raise ValueError(f"conv_bias_act: unknown activation {activation!r}; known are {', '.join(_ACTIVATIONS)}")
    return finished(conv(w, x, geometry, alpha), b, z, activation, beta)


def finished(y: Array, b: Array | None, z: Array | None, activation: str, beta: float) -> Array:
    """activation(y + beta * z + b), y being overwritten."""
    if z is not None:
        y = _plus(y, z if beta == 1 else z * beta)
    if b is not None:
        y = _plus(y, b)
    return _ACTIVATIONS[activation](y)


def _room(y: Array) -> Array | None:
    """y itself where its activation fits into it, which that of integers doesn't."""
    return y if y.dtype.kind in "fc" else None


def _plus(y: Array, v: Array) -> Array:
    """y + v, in place where that leaves the dtype as it is; v broadcasts to y."""
    is_as_wide = v.dtype == y.dtype or np.result_type(y, v) == y.dtype
    return np.add(y, v, out=y) if is_as_wide else y + v


KERNELS: dict[str, Callable[..., Any]] = {"conv": conv, "conv_x": conv_x, "conv_w": conv_w, "conv_bias_act": conv_bias_act}
