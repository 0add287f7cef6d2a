"""What padding, stride, dilation, mode, group and window mean: the options of convolution and pooling, checked and made into a Geometry.

A number counts for every spatial axis, a tuple gives one entry an axis; an entry of `padding` may be a (before, after) pair.
Each function also gives the shape of the result and raises ValueError for whatever doesn't fit, `name` being the operator that asks.
Answers are cached, so an operator asks at every call, forward and backward.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from autotape.backends.kernels import Geometry, Shape
from autotape.tensor import describe

REAL = (int, float, np.integer, np.floating)
F = TypeVar("F", bound=Callable[..., tuple[Geometry, Shape]])


def cached(f: F) -> F:
    """An lru_cache that also takes lists, which are made into tuples and not cached."""
    ask = functools.lru_cache(maxsize=1024)(f)  # 1, 1.0 and True are one number here

    @functools.wraps(f)
    def call(*args: Any) -> tuple[Geometry, Shape]:
        try:
            return ask(*args)
        except TypeError:  # unhashable
            return f(*map(frozen, args))

    return call  # type: ignore[return-value]


def frozen(value: Any) -> Any:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value


@cached
def convolution(
    name: str, w: Shape, x: Shape, padding: Any, stride: Any, dilation: Any, mode: int, group: int
) -> tuple[Geometry, Shape]:
    """The geometry and the result's shape (N, K, *output) for shapes w (K, C/group, *window) and x (N, C, *spatial)."""
    axes = len(x) - 2
    if axes not in (1, 2, 3) or len(w) != len(x):
        raise ValueError(f"{name}: w {w} and x {x} must be (K, C/group, *window) and (N, C, *spatial), with the same 1 to 3 spatial axes")
    geometry = sliding(name, w, padding, stride, dilation, mode, group)
    if w[1] * group != x[1]:
        takes = f"{w[1]} input channels" if group == 1 else f"{group} groups of {w[1]} input channels"
        raise ValueError(f"{name}: w {w} takes {takes}, but x {x} has {x[1]}; w must be (K, C/group, *window)")
    return geometry, (x[0], w[0], *fitted(name, geometry, x[2:]))


@cached
def deconvolution(
    name: str, w: Shape, x: Shape, padding: Any, stride: Any, dilation: Any, mode: int, group: int
) -> tuple[Geometry, Shape]:
    """The geometry and the result's shape (N, C, *output) of the transpose, for w (K, C/group, *window) and x (N, K, *spatial)."""
    axes = len(x) - 2
    if axes not in (1, 2, 3) or len(w) != len(x) or 0 in x[2:]:
        takes = "with the same 1 to 3 spatial axes, none of x's empty"
        raise ValueError(f"{name}: w {w} and x {x} must be (K, C/group, *window) and (N, K, *spatial), {takes}")
    if w[0] != x[1]:
        raise ValueError(f"{name}: w {w} takes {w[0]} input channels, but x {x} has {x[1]}; w must be (K, C/group, *window)")
    geometry = sliding(name, w, padding, stride, dilation, mode, group)
    return geometry, (x[0], w[1] * geometry.group, *widened(name, geometry, x[2:]))


@cached
def unpooling(name: str, x: Shape, window: Any, padding: Any, stride: Any) -> tuple[Geometry, Shape]:
    """The geometry and the result's shape (N, C, *output), of which pooling makes x's (N, C, *spatial); stride None is the window."""
    if len(x) not in (3, 4, 5) or 0 in x[2:]:
        raise ValueError(f"{name}: x {x} must be (N, C, *spatial) with 1 to 3 spatial axes, none of them empty")
    geometry = windowed(name, len(x) - 2, window, padding, stride)
    return geometry, (*x[:2], *widened(name, geometry, x[2:]))


@cached
def pooling(name: str, x: Shape, window: Any, padding: Any, stride: Any) -> tuple[Geometry, Shape]:
    """The geometry and the result's shape (N, C, *output) for x's shape (N, C, *spatial); stride None is the window."""
    axes = len(x) - 2
    if axes not in (1, 2, 3) or 0 in x[2:]:
        raise ValueError(f"{name}: x {x} must be (N, C, *spatial) with 1 to 3 spatial axes, none of them empty")
    geometry = windowed(name, axes, window, padding, stride)
    return geometry, (*x[:2], *fitted(name, geometry, x[2:]))


def sliding(name: str, w: Shape, padding: Any, stride: Any, dilation: Any, mode: int, group: int) -> Geometry:
    """The geometry of convolution by w (K, C/group, *window)."""
    axes = len(w) - 2
    if mode not in (0, 1):
        raise ValueError(f"{name}: mode must be 0 (convolution, the window reversed) or 1 (cross-correlation), got {mode!r}")
    if not whole(group, 1) or w[0] % group:
        raise ValueError(f"{name}: group must be a whole number of at least 1 that divides K, which is {w[0]} in w {w}, got {group!r}")
    return Geometry(
        window=per_axis(name, "w's window", w[2:], axes),
        padding=pairs(name, padding, axes),
        stride=per_axis(name, "stride", stride, axes),
        dilation=per_axis(name, "dilation", dilation, axes),
        group=int(group),
        flip=mode == 0,
    )


def windowed(name: str, axes: int, window: Any, padding: Any, stride: Any) -> Geometry:
    """The geometry of pooling."""
    window = per_axis(name, "window", window, axes)
    padding = pairs(name, padding, axes)
    if any(max(p) >= k for p, k in zip(padding, window, strict=True)):  # else a window may hold nothing but padding
        raise ValueError(f"{name}: padding {padding} must be smaller than the window {window}")
    stride = window if stride is None else per_axis(name, "stride", stride, axes)
    return Geometry(window, padding, stride, dilation=(1,) * axes)


def widened(name: str, geometry: Geometry, spatial: Shape) -> Shape:
    """The smallest spatial shape that the geometry makes `spatial` of, if it has any elements."""
    sides = zip(spatial, geometry.window, geometry.padding, geometry.stride, geometry.dilation, strict=True)
    output = tuple((n - 1) * s + (k - 1) * d + 1 - sum(p) for n, k, p, s, d in sides)
    if min(output) < 1:
        raise ValueError(f"{name}: of x's {spatial} padding {geometry.padding} leaves {output}, which is no shape")
    return output


def fitted(name: str, geometry: Geometry, spatial: Shape) -> Shape:
    """The spatial shape of the result, if the window fits."""
    output = geometry.output(spatial)
    if min(output) < 1:
        span = tuple((k - 1) * d + 1 for k, d in zip(geometry.window, geometry.dilation, strict=True))
        raise ValueError(f"{name}: the window spans {span}, more than x's {spatial} with padding {geometry.padding}")
    return output


def expect(name: str, argument: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise ValueError(f"{name}: {argument} {shape} must have the shape {expected}, as the other arguments give it")


def per_axis(name: str, option: str, value: Any, axes: int) -> Shape:
    sizes = value if isinstance(value, tuple) else (value,) * axes
    if len(sizes) != axes or not all(whole(s, 1) for s in sizes):
        raise ValueError(f"{name}: {option} must be a whole number of at least 1, or one for each of {axes} spatial axes, got {value!r}")
    return tuple(map(int, sizes))


def pairs(name: str, padding: Any, axes: int) -> tuple[tuple[int, int], ...]:
    sides = [p if isinstance(p, tuple) else (p, p) for p in (padding if isinstance(padding, tuple) else (padding,) * axes)]
    if len(sides) != axes or not all(len(s) == 2 and whole(s[0], 0) and whole(s[1], 0) for s in sides):
        allowed = f"a whole number of at least 0, or one or a (before, after) pair for each of {axes} spatial axes"
        raise ValueError(f"{name}: padding must be {allowed}, got {padding!r}")
    return tuple((int(before), int(after)) for before, after in sides)


def real_number(name: str, option: str, value: Any) -> float:
    """An option as a Python number, which leaves float32 as it is.  An array or a Tensor, whose derivative would be lost, is none."""
    if not isinstance(value, REAL):
        raise TypeError(f"{name}: {option} must be a real number, got {describe(value)}")
    return float(value)


def whole_number(name: str, option: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {option} must be a whole number, got {describe(value)}") from None


def whole(value: Any, least: int) -> bool:
    return isinstance(value, REAL) and float(value).is_integer() and int(value) >= least
