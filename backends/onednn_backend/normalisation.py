"""softmax, the normalisation of channels in channels_last order, and that of rows.

oneDNN's softmax gives NaN only where NumPy's whole row is NaN, so an array that holds NaN is NumPy's.  logsoftmax is NumPy's altogether:
oneDNN's is off by 3e-6 whatever its size, half of the loss of an instance that has been learnt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import isnan, prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..kernels import Array, Shape
from . import binding
from .arrays import described, empty_last, laid, unfit
from .binding import DIFF_DST, DIFF_SCALE, DIFF_SHIFT, DIFF_SRC, DST, MEAN, SCALE, SHIFT, SRC, VARIANCE, Handle
from .primitives import Primitive, Unsupported, or_unsupported

_TINY = np.finfo(np.float32).tiny
_FLAGS = binding.USE_SCALE | binding.USE_SHIFT
_LEAST_ROWS = 16  # for which layer normalisation's backward pays


# -- softmax
@or_unsupported
def _softmax(rows: int, width: int) -> Primitive:
    lies = described((rows, width), False)
    description = binding.softmax_forward(binding.INFERENCE, binding.SOFTMAX, lies, lies, 1, binding.attributes())
    return Primitive(description, [(SRC, None), (DST, None)])


def softmax(k: Any, x: Array, axis: Any) -> Array:
    if why := unfit(x) or ("" if x.ndim else "one number"):  # which may be NumPy's scalar, no array at all
        return k.leave("softmax", why, x, axis)
    order, width = _axes(x.shape, axis)
    rows = x.transpose(order)
    if not rows.flags.c_contiguous:
        return k.leave("softmax", "rows whose elements don't lie side by side", x, axis)
    if isnan(np.maximum.reduce(rows, None)):
        return k.leave("softmax", "NaN, which oneDNN gives but to its own element", x, axis)
    y = np.empty_like(x)
    try:
        k.run(_softmax, (x.size // width, width), (x, y))
    except Unsupported as e:
        return k.leave("softmax", str(e), x, axis)
    return y


@functools.lru_cache(maxsize=1024)
def _axes(shape: Shape, axis: Any) -> tuple[Shape, int]:
    """The axes, those that are summed over being the last, and the number of elements of these."""
    summed = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
    return (*(i for i in range(len(shape)) if i not in summed), *summed), prod(shape[i] for i in summed)


# -- of each channel of x (N, C, *spatial)
def _description(x: Shape, eps: float) -> tuple[Handle, Handle]:
    """The forward primitive's, and that of x and of the result."""
    lies = described(x, True)
    return binding.batchnorm_forward(binding.TRAINING, lies, lies, eps, _FLAGS, binding.attributes()), lies


@or_unsupported
def _forward(x: Shape, eps: float, last: bool) -> Primitive:
    arguments = [(SRC, described(x, last)), *((a, None) for a in (SCALE, SHIFT, DST, MEAN, VARIANCE))]
    return Primitive(_description(x, eps)[0], arguments, (DST, MEAN, VARIANCE))


@or_unsupported
def _backward(x: Shape, dy_last: bool, x_last: bool) -> Primitive:
    hint, lies = _description(x, 0.0)
    description = binding.batchnorm_backward(binding.BACKWARD, lies, lies, lies, 0.0, _FLAGS, hint, binding.attributes())
    outer = [(DIFF_DST, described(x, dy_last)), (SRC, described(x, x_last))]
    inner = [(a, None) for a in (MEAN, VARIANCE, SCALE, DIFF_SRC, DIFF_SCALE, DIFF_SHIFT)]
    return Primitive(description, [*outer, *inner], (DIFF_SRC, DIFF_SCALE, DIFF_SHIFT), kept=[hint])


def batchnorm(k: Any, x: Array, scale: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    if why := unfit(x, scale, bias) or _misfit(x, scale, bias):
        return k.leave("batchnorm", why, x, scale, bias, eps)
    y, mean, var = empty_last(x.shape), _each(x), _each(x)
    dense, last = laid(x)
    arrays = dense, _or_full(scale, x.shape[1], 1), _or_full(bias, x.shape[1], 0), y, mean, var
    try:
        k.run(_forward, (x.shape, float(eps), last), arrays, sums=True)
    except Unsupported as e:
        return k.leave("batchnorm", str(e), x, scale, bias, eps)
    return y, mean, var


def batchnorm_x(k: Any, dy: Array, x: Array, mean: Array, inv: Array, scale: Array | None) -> tuple[Array, Array, Array]:
    """With eps = 0, for which var is 1 / inv ** 2."""
    if why := unfit(x, dy, mean, inv, scale) or _misfit(x, mean, inv, scale, like=dy):
        return k.leave("batchnorm_x", why, dy, x, mean, inv, scale)
    with np.errstate(all="ignore"):
        var = np.square(1 / inv)
    if not np.greater_equal(var, _TINY).all():
        return k.leave("batchnorm_x", "a variance too small for float32, or NaN", dy, x, mean, inv, scale)
    dx, dscale, dbias = empty_last(x.shape), _each(x), _each(x)
    (dense_dy, dy_last), (dense_x, x_last) = laid(dy), laid(x)
    arrays = dense_dy, dense_x, np.ascontiguousarray(mean), var, _or_full(scale, x.shape[1], 1), dx, dscale, dbias
    try:
        k.run(_backward, (x.shape, dy_last, x_last), arrays, sums=True)
    except Unsupported as e:
        return k.leave("batchnorm_x", str(e), dy, x, mean, inv, scale)
    return dx, dscale, dbias


# -- of each row of x (..., C)
def _layer_description(rows: int, width: int, eps: float) -> tuple[Handle, Handle, Handle]:
    """The forward primitive's, that of x and of the result, and that of a number a row."""
    lies, each = described((rows, width), False), described((rows,), False)
    return binding.layernorm_forward(binding.TRAINING, lies, lies, each, eps, _FLAGS, binding.attributes()), lies, each


@or_unsupported
def _layer_forward(rows: int, width: int, eps: float) -> Primitive:
    arguments = [(a, None) for a in (SRC, SCALE, SHIFT, DST, MEAN, VARIANCE)]
    return Primitive(_layer_description(rows, width, eps)[0], arguments, (DST, MEAN, VARIANCE))


@or_unsupported
def _layer_backward(rows: int, width: int) -> Primitive:
    hint, lies, each = _layer_description(rows, width, 0.0)
    description = binding.layernorm_backward(binding.BACKWARD, lies, lies, lies, each, 0.0, _FLAGS, hint, binding.attributes())
    arguments = [(a, None) for a in (DIFF_DST, SRC, MEAN, VARIANCE, SCALE, DIFF_SRC, DIFF_SCALE, DIFF_SHIFT)]
    takes_shift = binding.size(binding.argument_description(description, SHIFT))  # as early versions do, which don't read it
    fixed = [(SHIFT, described((width,), False), np.zeros(width, np.float32))] if takes_shift else []
    return Primitive(description, arguments, (DIFF_SRC, DIFF_SCALE, DIFF_SHIFT), fixed, kept=[hint])


def layernorm(k: Any, x: Array, scale: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    if why := unfit(x, scale, bias) or _rows_misfit(x, scale, bias):
        return k.leave("layernorm", why, x, scale, bias, eps)
    width = x.shape[-1]
    y, mean, var = (np.empty(shape, np.float32) for shape in (x.shape, x.shape[:-1], x.shape[:-1]))
    arrays = np.ascontiguousarray(x), _or_full(scale, width, 1), _or_full(bias, width, 0), y, mean, var
    try:
        k.run(_layer_forward, (x.size // width, width, float(eps)), arrays)
    except Unsupported as e:
        return k.leave("layernorm", str(e), x, scale, bias, eps)
    return y, mean, var


def layernorm_x(k: Any, dy: Array, x: Array, mean: Array, inv: Array, scale: Array | None) -> tuple[Array, Array, Array]:
    """With eps = 0, as batchnorm_x."""
    few = "few rows, which NumPy adds up as fast" if mean.size < _LEAST_ROWS else ""
    if why := unfit(x, dy, mean, inv, scale) or _rows_misfit(x, scale, like=dy, rows=(mean, inv)) or few:
        return k.leave("layernorm_x", why, dy, x, mean, inv, scale)
    with np.errstate(all="ignore"):
        var = np.square(1 / inv)
    if not np.greater_equal(var, _TINY).all():
        return k.leave("layernorm_x", "a variance too small for float32, or NaN", dy, x, mean, inv, scale)
    width = x.shape[-1]
    dx, dscale, dbias = (np.empty(shape, np.float32) for shape in (x.shape, width, width))
    arrays = *map(np.ascontiguousarray, (dy, x, mean, var)), _or_full(scale, width, 1), dx, dscale, dbias
    try:
        k.run(_layer_backward, (mean.size, width), arrays, sums=True)
    except Unsupported as e:
        return k.leave("layernorm_x", str(e), dy, x, mean, inv, scale)
    return dx, dscale, dbias


def _rows_misfit(x: Array, *columns: Array | None, like: Array | None = None, rows: Sequence[Array] = ()) -> str:
    """Why NumPy must take these, if only to raise an error, or "": `columns` are (C,), `like` is as x, `rows` as mean and var."""
    fits = all(v is None or v.shape == x.shape[-1:] for v in columns) and all(v.shape == x.shape[:-1] for v in rows)
    return "" if x.ndim and fits and (like is None or like.shape == x.shape) else "shapes that don't fit"


def _each(x: Array) -> Array:
    """Room for a number a channel."""
    return np.empty(x.shape[1], np.float32)


def _or_full(v: Array | None, n: int, number: float) -> Array:
    """v, or n times this number: a primitive without scale and bias is no faster."""
    return np.full(n, number, np.float32) if v is None else np.ascontiguousarray(v)


def _misfit(x: Array, *channels: Array | None, like: Array | None = None) -> str:
    """Why NumPy must take these, if only to raise an error, or "": `channels` are (C,), `like` is as x."""
    if x.ndim > 1 and x.shape[1] == 1:
        return "one channel, which leaves vectors empty"
    fits = 2 <= x.ndim <= 5 and all(v is None or v.shape == x.shape[1:2] for v in channels)
    return "" if fits and (like is None or like.shape == x.shape) else "shapes that don't fit"


KERNELS: dict[str, Callable[..., Any]] = {
    "softmax": softmax,
    "batchnorm": batchnorm,
    "batchnorm_x": batchnorm_x,
    "layernorm": layernorm,
    "layernorm_x": layernorm_x,
}
