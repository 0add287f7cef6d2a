"""Pooling, one spatial axis after the other: a window of h x w takes h + w steps, each of them long strided slices.

The last axis goes first, so that the first maximum of a row, and then the first row, is the first maximum in row-major order.
Slices keep the memory layout that they find, so a network's layout (see windows.py) passes through.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..kernels import Array, Geometry, Shape
from .elementwise import masked

Tap = tuple[tuple[Any, ...], tuple[Any, ...]]


class _Line:
    """A window's way along one axis: what it meets of an input of length n."""

    def __init__(self, x_shape: Shape, g: Geometry, i: int) -> None:
        self.axis, self.n, self.out = i + 2, x_shape[i + 2], g.output(x_shape[2:])[i]
        self.window, self.before, self.stride, self.dilation = g.window[i], g.padding[i][0], g.stride[i], g.dilation[i]
        if self.out < 0:
            raise ValueError(f"pooling: window {g.window} with dilation {g.dilation} and padding {g.padding} doesn't fit x {x_shape}")

    @property
    def taps(self) -> list[Tap]:
        """For each place in the window: the outputs that have an input there, and those inputs."""
        return [tap for k in range(self.window) if (tap := self._tap(k * self.dilation - self.before))]

    def _tap(self, offset: int) -> Tap | None:
        s = self.stride
        low, high = max(0, -(offset // s)), min(self.out, (self.n - 1 - offset) // s + 1)
        first, last = offset + low * s, offset + (high - 1) * s
        return (self._at(slice(low, high)), self._at(slice(first, last + 1, s))) if low < high else None

    def _at(self, part: slice) -> tuple[Any, ...]:
        return (slice(None),) * self.axis + (part,)

    @property
    def is_covered(self) -> bool:
        """Whether every window lies inside, padding apart."""
        return self.before <= 0 and (self.out - 1) * self.stride + (self.window - 1) * self.dilation - self.before < self.n

    @property
    def is_disjoint(self) -> bool:
        return self.stride > (self.window - 1) * self.dilation

    @property
    def is_tiled(self) -> bool:
        """Whether each input lies in just one window."""
        return self.is_disjoint and self.before == 0 and self.stride == self.window and self.n == self.out * self.stride

    def shape(self, shape: Shape) -> Shape:
        return (*shape[: self.axis], self.out, *shape[self.axis + 1 :])


def _lines(x_shape: Shape, g: Geometry) -> list[_Line]:
    if len(x_shape) != 2 + len(g.window):
        raise ValueError(f"pooling: x {x_shape} must be (N, C, *spatial) with {len(g.window)} spatial axes, as the window {g.window} has")
    return [_Line(x_shape, g, i) for i in reversed(range(len(g.window)))]


def _expect(argument: str, shape: Shape, x_shape: Shape, g: Geometry) -> None:
    expected = (*x_shape[:2], *g.output(x_shape[2:]))
    if shape != expected:
        raise ValueError(f"pooling: {argument} has shape {shape}; x {x_shape} gives {expected} for {g}")


def _fold(ufunc: np.ufunc, x: Array, line: _Line, empty: Any) -> Array:
    """ufunc over each window of one axis; `empty` is the value of a window that meets no input."""
    taps = [(ys, x[xs]) for ys, xs in line.taps]
    if not line.is_covered or len(taps) < 2:
        y = np.full_like(x, empty, shape=line.shape(x.shape))
        for ys, part in taps:
            ufunc(y[ys], part, out=y[ys])
        return y
    y = ufunc(taps[0][1], taps[1][1])
    for _, part in taps[2:]:
        ufunc(y, part, out=y)
    return y


def _spread(dy: Array, line: _Line, x_shape: Shape) -> Array:
    """The transpose of _fold(np.add)."""
    dx = (np.empty_like if line.is_tiled else np.zeros_like)(dy, shape=x_shape)
    for ys, xs in line.taps:
        if line.is_disjoint:
            dx[xs] = dy[ys]
        else:
            dx[xs] += dy[ys]
    return dx


# -- maximum
def _least(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind in "fc" else np.iinfo(dtype).min if dtype.kind in "iu" else False


def max_pool(x: Array, geometry: Geometry) -> Array:
    """A window that lies in the padding altogether gives -inf (the least integer, False)."""
    return _stages(x, _lines(x.shape, geometry))[-1]


def max_pool_x(dy: Array, x: Array, y: Array, geometry: Geometry) -> Array:
    steps, nan = _steps(x, y, geometry), _has_nan(y)
    _expect("dy", dy.shape, x.shape, geometry)
    for line, before, after in reversed(steps):
        dy = _to_first(dy, before, after, line, nan)
    return dy


def max_pool_at(v: Array, x: Array, y: Array, geometry: Geometry) -> Array:
    if v.shape != x.shape:
        raise ValueError(f"pooling: v has shape {v.shape} and x {x.shape}; they must be the same")
    steps, nan = _steps(x, y, geometry), _has_nan(y)
    for line, before, after in steps:
        v = _from_first(v, before, after, line, nan)
    return v


def _stages(x: Array, lines: list[_Line]) -> list[Array]:
    """x, x pooled along the first of these lines, along the first two, and so on."""
    stages = [x]
    for line in lines:
        stages.append(_fold(np.maximum, stages[-1], line, _least(x.dtype)))
    return stages


def _steps(x: Array, y: Array, g: Geometry) -> list[tuple[_Line, Array, Array]]:
    """Each line with what max_pool has before and after it; after the last one that is y."""
    lines = _lines(x.shape, g)
    _expect("y", y.shape, x.shape, g)
    stages = [*_stages(x, lines[:-1]), y]
    return list(zip(lines, stages[:-1], stages[1:], strict=True))


def _has_nan(y: Array) -> bool:
    return y.dtype.kind == "f" and y.size > 0 and bool(np.isnan(np.maximum.reduce(y, None)))


def _hits(x: Array, y: Array, nan: bool) -> Array:
    return (x == y) | ((x != x) & (y != y)) if nan else x == y


def _to_first(dy: Array, x: Array, y: Array, line: _Line, nan: bool) -> Array:
    """What each window of one axis still holds goes to the first tap that equals its maximum."""
    if line.is_disjoint and line.is_covered and line.taps:
        return _to_first_apart(dy, x, y, line, nan)
    dx = np.zeros_like(x, dtype=dy.dtype)
    left = np.empty_like(y, dtype=dy.dtype)
    left[...] = dy
    for ys, xs in line.taps:
        hit, rest = _hits(x[xs], y[ys], nan), left[ys]
        dx[xs] += masked(hit, rest)
        masked(~hit, rest, out=rest)
    return dx


def _to_first_apart(left: Array, x: Array, y: Array, line: _Line, nan: bool) -> Array:
    """_to_first for windows that share nothing and lie inside: assignments do, and the last tap takes what is left."""
    dx = (np.empty_like if line.is_tiled else np.zeros_like)(x, dtype=left.dtype)
    *taps, (_, last) = line.taps
    for _, xs in taps:
        hit = _hits(x[xs], y, nan)
        masked(hit, left, out=dx[xs])
        left = masked(~hit, left)
    dx[last] = left
    return dx


def _from_first(v: Array, x: Array, y: Array, line: _Line, nan: bool) -> Array:
    """The transpose of _to_first: the value at the first tap that equals the maximum."""
    out = np.zeros_like(y, dtype=v.dtype)
    free = np.ones_like(y, dtype=bool)
    for ys, xs in line.taps:
        hit = _hits(x[xs], y[ys], nan) & free[ys]
        out[ys] += masked(hit, v[xs])
        free[ys] &= ~hit
    return out


# -- mean
def mean_pool(x: Array, geometry: Geometry, count_padding: bool) -> Array:
    """A window that lies in the padding altogether gives 0."""
    total, dtype = _wide(x)
    for line in _lines(x.shape, geometry):
        total = _fold(np.add, total, line, 0)
    return _per_count(total, x.shape, geometry, count_padding).astype(dtype, copy=False)


def mean_pool_x(dy: Array, x_shape: Shape, geometry: Geometry, count_padding: bool) -> Array:
    lines, shapes = _lines(x_shape, geometry), [x_shape]
    _expect("dy", dy.shape, x_shape, geometry)
    for line in lines[:-1]:
        shapes.append(line.shape(shapes[-1]))
    dy, dtype = _wide(dy)
    dx = _per_count(dy, x_shape, geometry, count_padding)
    for line, shape in zip(reversed(lines), reversed(shapes), strict=True):
        dx = _spread(dx, line, shape)
    return dx.astype(dtype, copy=False)


def _wide(x: Array) -> tuple[Array, np.dtype]:
    """x in a dtype that holds sums and counts, which float16 and integers soon don't, and the result's dtype."""
    dtype = np.result_type(x, 1.0)
    return x.astype(np.float32 if dtype == np.float16 else dtype, copy=False), dtype


def _per_count(total: Array, x_shape: Shape, g: Geometry, count_padding: bool) -> Array:
    """total / (the number of elements of its window)."""
    if count_padding or all(line.is_covered for line in _lines(x_shape, g)):
        return total / prod(g.window)
    count: Any = 1
    for line in _lines(x_shape, g):
        along = np.zeros(line.out, total.dtype)
        for ys, _ in line.taps:
            along[ys[-1]] += 1
        count = count * along.reshape(-1, *(1,) * (len(x_shape) - 1 - line.axis))
    return total / np.maximum(count, 1)


KERNELS: dict[str, Callable[..., Any]] = {
    "max_pool": max_pool,
    "max_pool_x": max_pool_x,
    "max_pool_at": max_pool_at,
    "mean_pool": mean_pool,
    "mean_pool_x": mean_pool_x,
}
