"""Pooling in channels_last order.

oneDNN's maximum passes over NaN, and starts from the least finite number where NumPy starts from -inf: an array in which either could
be seen is NumPy's.  Looking for them takes a sixth of the time of a maximum and its gradient, and is done in every mode.  While it
takes the maximum oneDNN notes which element was the first one; that note is kept for the gradient as long as the result lives.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from math import isnan, prod
from typing import Any

import numpy as np

from ..kernels import Array, Geometry, Shape
from . import binding
from .arrays import MOST, described, empty_last, laid
from .binding import DIFF_DST, DIFF_SRC, DST, MAX_POOL, SRC, WORKSPACE, Handle
from .primitives import Primitive, Unsupported, or_unsupported

_PLACES = 255  # of a window that oneDNN tells apart by a byte; with more of them NumPy, one axis after the other, is faster
_FLOAT = np.dtype(np.float32)
_LEAST = -np.finfo(np.float32).max


def _sliding(g: Geometry) -> list[Any]:
    before, after = ([p[i] for p in g.padding] for i in (0, 1))
    return [binding.dims(sizes) for sizes in (g.stride, g.window, [d - 1 for d in g.dilation], before, after)]


def _description(x: Shape, y: Shape, g: Geometry, algorithm: int) -> Handle:
    kind = binding.TRAINING if algorithm == MAX_POOL else binding.INFERENCE
    return binding.pooling_forward(kind, algorithm, described(x, True), described(y, True), *_sliding(g), binding.attributes())


@or_unsupported
def _forward(x: Shape, y: Shape, g: Geometry, algorithm: int, last: bool) -> Primitive:
    description = _description(x, y, g, algorithm)
    arguments = [(SRC, described(x, last)), (DST, None)]
    if algorithm == MAX_POOL:
        if binding.size(binding.workspace_description(description)) != prod(y):
            raise Unsupported("the first maximum takes more than a byte")
        arguments.append((WORKSPACE, None))
    return Primitive(description, arguments, (DST, WORKSPACE))


@or_unsupported
def _backward(x: Shape, y: Shape, g: Geometry, algorithm: int, last: bool) -> Primitive:
    hint, lie = _description(x, y, g, algorithm), (described(x, True), described(y, True))
    description = binding.pooling_backward(algorithm, *lie, *_sliding(g), hint, binding.attributes())
    arguments = [(DIFF_DST, described(y, last)), (DIFF_SRC, None)]
    if algorithm == MAX_POOL:
        arguments.append((WORKSPACE, None))
    return Primitive(description, arguments, (DIFF_SRC,), kept=[hint])


# -- maximum
class _Firsts(threading.local):
    """Where each window of x has its first maximum, by the id of y = max_pool(x), of which this thread made those that live."""

    def __init__(self) -> None:
        self.of: dict[int, tuple[Any, Any, Geometry, Array]] = {}

    def keep(self, x: Array, y: Array, g: Geometry, firsts: Array) -> None:
        of, key = self.of, id(y)  # y may die in another thread
        of[key] = weakref.ref(x), weakref.ref(y, lambda _: of.pop(key, None)), g, firsts

    def kept(self, x: Array, y: Array, g: Geometry) -> Array | None:
        found = self.of.get(id(y))
        return found[-1] if found and found[0]() is x and found[2] == g else None


_firsts = _Firsts()


def max_pool(k: Any, x: Array, geometry: Geometry) -> Array:
    if why := _unfit(x.shape, geometry, True, (x,)):
        return k.leave("max_pool", why, x, geometry)
    try:
        y, firsts = _pooled(k, x, geometry)
    except Unsupported as e:
        return k.leave("max_pool", str(e), x, geometry)
    _firsts.keep(x, y, geometry, firsts)
    return y


def max_pool_x(k: Any, dy: Array, x: Array, y: Array, geometry: Geometry) -> Array:
    if why := _unfit(x.shape, geometry, True, (x,), (dy, y)):
        return k.leave("max_pool_x", why, dy, x, y, geometry)
    try:
        firsts = _firsts.kept(x, y, geometry)
        return _spread(k, dy, x.shape, geometry, MAX_POOL, _pooled(k, x, geometry)[1] if firsts is None else firsts)
    except Unsupported as e:
        return k.leave("max_pool_x", str(e), dy, x, y, geometry)


def _pooled(k: Any, x: Array, g: Geometry) -> tuple[Array, Array]:
    """The maxima, and for each a byte that says where the first one was.  Raises Unsupported where NumPy's maxima are others."""
    dense, last = laid(x)
    if isnan(np.maximum.reduce(dense, None)):
        raise Unsupported("NaN, over which oneDNN's maximum passes")
    shape = _result(x.shape, g, True)[0]
    y, firsts = empty_last(shape), np.empty(prod(shape), np.uint8)
    k.run(_forward, (x.shape, shape, g, MAX_POOL, last), (dense, y, firsts))
    if np.minimum.reduce(y, None) <= _LEAST:
        raise Unsupported("a window of -inf, for which oneDNN gives the least finite number")
    return y, firsts


# -- mean
def mean_pool(k: Any, x: Array, geometry: Geometry, count_padding: bool) -> Array:
    if why := _unfit(x.shape, geometry, False, (x,)):
        return k.leave("mean_pool", why, x, geometry, count_padding)
    shape, (dense, last) = _result(x.shape, geometry, False)[0], laid(x)
    y = empty_last(shape)
    try:
        k.run(_forward, (x.shape, shape, geometry, _mean(count_padding), last), (dense, y))
    except Unsupported as e:
        return k.leave("mean_pool", str(e), x, geometry, count_padding)
    return y


def mean_pool_x(k: Any, dy: Array, x_shape: Shape, geometry: Geometry, count_padding: bool) -> Array:
    if why := _unfit(x_shape, geometry, False, (), (dy,)):
        return k.leave("mean_pool_x", why, dy, x_shape, geometry, count_padding)
    try:
        return _spread(k, dy, x_shape, geometry, _mean(count_padding))
    except Unsupported as e:
        return k.leave("mean_pool_x", str(e), dy, x_shape, geometry, count_padding)


def _mean(count_padding: bool) -> int:
    return binding.MEAN_POOL_PADDED if count_padding else binding.MEAN_POOL


# -- both
def _spread(k: Any, dy: Array, x_shape: Shape, g: Geometry, algorithm: int, *firsts: Array) -> Array:
    """The cotangent of x."""
    dx, (dense, last) = empty_last(x_shape), laid(dy)
    k.run(_backward, (x_shape, dy.shape, g, algorithm, last), (dense, dx, *firsts), sums=True)  # where windows overlap
    return dx


@functools.lru_cache(maxsize=1024)
def _result(x: Shape, g: Geometry, maximum: bool) -> tuple[Shape, str]:
    """The shape of y, and why oneDNN can't pool x, or is slower, or ""."""
    if len(x) != 2 + len(g.window):
        return (), "shapes that don't fit"
    y = (*x[:2], *g.output(x[2:]))
    if min(*x, *y) < 1:
        return y, "empty"
    if prod(x) >= MOST or prod(y) >= MOST:
        return y, "2^31 elements or more"
    if not all(0 <= min(p) <= max(p) < n for p, n in zip(g.padding, g.window, strict=True)):
        return y, "padding that is negative, or as wide as the window"
    if x[1] == 1:
        return y, "one channel, which leaves vectors empty"
    return y, "a window of more places than a byte tells apart" if maximum and prod(g.window) > _PLACES else ""


def _unfit(x: Shape, g: Geometry, maximum: bool, inputs: Sequence[Array], results: Sequence[Array] = ()) -> str:
    """Why NumPy has to pool these arrays, if only to raise an error, or ""; `results` must be shaped like y."""
    y, why = _result(x, g, maximum)
    if any(v.dtype != _FLOAT for v in inputs) or any(v.dtype != _FLOAT for v in results):
        return "not float32"
    return why or ("shapes that don't fit" if any(v.shape != y for v in results) else "")


KERNELS: dict[str, Callable[..., Any]] = {
    "max_pool": max_pool, "max_pool_x": max_pool_x, "mean_pool": mean_pool, "mean_pool_x": mean_pool_x
}  # fmt: skip
