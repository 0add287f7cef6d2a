"""Convolution: channels_last from operator to operator, whatever layout comes in.

The layout that serves a case best depends on the machine's vectors.  Where oneDNN finds its own ("any") faster than channels_last in
spite of the reorders, the tables below say so; in the fast mode both are timed once for each signature.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..kernels import Array, Geometry, Shape
from ..numpy_backend import convolution as plain
from . import binding
from .arrays import MOST, aligned, described, empty_last, laid, unfit
from .binding import BIAS, DIFF_DST, DIFF_SRC, DIFF_WEIGHTS, DST, SRC, WEIGHTS, Handle
from .primitives import POST_OPS, Primitive, Unsupported, fixed_weights, or_unsupported


class Case:
    """What the primitives of one convolution have in common."""

    def __init__(self, w_shape: Shape, x_shape: Shape, g: Geometry) -> None:
        self.w_shape, self.x_shape, self.g = w_shape, x_shape, g
        self.y_shape = (x_shape[0], w_shape[0], *g.output(x_shape[2:]))
        self.grouped = w_shape if g.group == 1 else (g.group, w_shape[0] // g.group, *w_shape[1:])
        before, after = ([p[i] for p in g.padding] for i in (0, 1))
        self.sliding = tuple(map(binding.dims, (g.stride, [d - 1 for d in g.dilation], before, after)))

    def lies(self, shape: Shape, any_layout: bool) -> Handle:
        return binding.described(shape) if any_layout else described(shape, True)

    def forward(self, bias: bool, post_ops: Any, any_layout: bool, kind: int) -> Handle:
        b = described((self.w_shape[0],), False) if bias else None
        x, y = self.lies(self.x_shape, any_layout), self.lies(self.y_shape, any_layout)
        attributes = binding.attributes(post_ops)
        return binding.convolution_forward(kind, binding.CONVOLUTION, x, binding.described(self.grouped), b, y, *self.sliding, attributes)


@or_unsupported
def _forward(w: Shape, x: Shape, g: Geometry, last: bool, bias: bool, z: float | None, activation: str, any_layout: bool) -> Primitive:
    case = Case(w, x, g)
    post_ops = ([] if z is None else [("sum", z)]) + POST_OPS[activation]
    arguments = [(SRC, described(x, last)), (WEIGHTS, described(case.grouped, False)), (DST, described(case.y_shape, True))]
    if bias:
        arguments.append((BIAS, described(w[:1], False)))
    made = Primitive(case.forward(bias, post_ops, any_layout, binding.INFERENCE), arguments, fixed=fixed_weights(post_ops, len(x)))
    if activation == "sigm" and "gemm" in made.name:
        raise Unsupported("a sigmoid that makes a number of NaN")
    return made


@or_unsupported
def _backward_data(w: Shape, x: Shape, g: Geometry, last: bool, any_layout: bool) -> Primitive:
    case = Case(w, x, g)
    hint = case.forward(False, (), any_layout, binding.TRAINING)
    dx, dy = case.lies(x, any_layout), case.lies(case.y_shape, any_layout)
    description = binding.convolution_backward_data(
        binding.CONVOLUTION, dx, binding.described(case.grouped), dy, *case.sliding, hint, binding.attributes()
    )
    arguments = [(DIFF_DST, described(case.y_shape, last)), (WEIGHTS, described(case.grouped, False)), (DIFF_SRC, described(x, True))]
    return Primitive(description, arguments, (DIFF_SRC,), kept=[hint])


@or_unsupported
def _backward_weights(w: Shape, x: Shape, g: Geometry, x_last: bool, dy_last: bool, any_layout: bool) -> Primitive:
    case = Case(w, x, g)
    hint = case.forward(False, (), any_layout, binding.TRAINING)
    description = binding.convolution_backward_weights(
        binding.CONVOLUTION, case.lies(x, any_layout), binding.described(case.grouped), None, case.lies(case.y_shape, any_layout),
        *case.sliding, hint, binding.attributes(),
    )  # fmt: skip
    arguments = [(SRC, described(x, x_last)), (DIFF_DST, described(case.y_shape, dy_last)), (DIFF_WEIGHTS, described(case.grouped, False))]
    return Primitive(description, arguments, (DIFF_WEIGHTS,), kept=[hint])


# -- which layout is faster without the widest vectors: measured, see bench/conv_bias_act.py
def _own_layout_pays(w: Shape, group: int) -> bool:
    """Whether the weights' gradient is faster in oneDNN's own layout than in channels_last."""
    return not binding.HAS_AVX512 and group == 1 and prod(w[2:]) > 1 and min(w[:2]) >= 32


def conv(k: Any, w: Array, x: Array, geometry: Geometry, alpha: float) -> Array:
    spatial = plain.check(w.shape, x.shape, geometry)
    if why := _unfit(geometry, (len(x), len(w), *spatial), w, x):
        return k.leave("conv", why, w, x, geometry, alpha)
    try:
        return _convolved(k, w, x, None, None, "identity", geometry, alpha, 1.0)
    except Unsupported as e:
        return k.leave("conv", str(e), w, x, geometry, alpha)


def conv_bias_act(
    k: Any, w: Array, x: Array, b: Array | None, z: Array | None, activation: str, geometry: Geometry, alpha: float, beta: float
) -> Array:
    spatial = plain.check(w.shape, x.shape, geometry)
    y_shape = (len(x), len(w), *spatial)
    why = _unfit(geometry, y_shape, w, x, b, z) or _misfit(y_shape, b, z)
    if why or activation not in POST_OPS:
        return k.leave("conv_bias_act", why, w, x, b, z, activation, geometry, alpha, beta)
    if k.math_mode() != "pedantic":
        try:
            return _convolved(k, w, x, b, z, activation, geometry, alpha, beta)
        except Unsupported:
            pass
    return plain.finished(conv(k, w, x, geometry, alpha), b, z, activation, beta)  # in pedantic mode: the bits of the operators


def conv_x(k: Any, w: Array, dy: Array, x_shape: Shape, geometry: Geometry, alpha: float) -> Array:
    plain.check(w.shape, x_shape, geometry, dy.shape)
    if why := _unfit(geometry, x_shape, w, dy):
        return k.leave("conv_x", why, w, dy, x_shape, geometry, alpha)
    dx, (dense, last) = empty_last(x_shape), laid(dy)
    try:
        key = (w.shape, x_shape, geometry._replace(flip=False), last)
        k.run(_backward_data, key, (dense, _weights(w, geometry, alpha), dx), own_layout=False)
    except Unsupported as e:
        return k.leave("conv_x", str(e), w, dy, x_shape, geometry, alpha)
    return dx


def conv_w(k: Any, x: Array, dy: Array, w_shape: Shape, geometry: Geometry, alpha: float) -> Array:
    plain.check(w_shape, x.shape, geometry, dy.shape)
    if why := _unfit(geometry, w_shape, x, dy):
        return k.leave("conv_w", why, x, dy, w_shape, geometry, alpha)
    dw, (dense_x, x_last), (dense_dy, dy_last) = np.empty(w_shape, np.float32), laid(x), laid(dy)
    try:
        key = (w_shape, x.shape, geometry._replace(flip=False), x_last, dy_last)
        k.run(_backward_weights, key, (dense_x, dense_dy, dw), own_layout=_own_layout_pays(w_shape, geometry.group), sums=True)
    except Unsupported as e:
        return k.leave("conv_w", str(e), x, dy, w_shape, geometry, alpha)
    return _weights(dw, geometry, alpha)


def _convolved(
    k: Any, w: Array, x: Array, b: Array | None, z: Array | None, activation: str, g: Geometry, alpha: float, beta: float
) -> Array:
    x, last = laid(x)
    y = empty_last((len(x), len(w), *g.output(x.shape[2:])))
    arrays = [x, _weights(w, g, alpha), y]
    if b is not None:
        arrays.append(aligned(b))
    if z is not None:
        y[...] = z
    key = (w.shape, x.shape, g._replace(flip=False), last, b is not None, None if z is None else float(beta), activation)
    if z is None:
        k.run(_forward, key, tuple(arrays), own_layout=False)
    else:  # the sum is with y as it lies
        k.run(_forward, (*key, False), tuple(arrays))
    return y


def _unfit(g: Geometry, result: Shape, *arrays: Array | None) -> str:
    """Why oneDNN can't compute with these arrays, or ""."""
    if 0 in result:
        return "empty"
    if prod(result) >= MOST:
        return "2^31 elements or more"
    return unfit(*arrays) or ("negative padding" if any(min(p) < 0 for p in g.padding) else "")


def _misfit(y: Shape, b: Array | None, z: Array | None) -> str:
    """Why NumPy must add these, if only to raise an error, or "": b is to be one value a channel, z as y."""
    channels = (y[1], *(1,) * (len(y) - 2))
    fits = (b is None or b.shape in (channels, (1, *channels))) and (z is None or z.shape == y)
    return "" if fits else "shapes that don't fit"


def _weights(w: Array, g: Geometry, alpha: float) -> Array:
    """w in C order as the window meets x: reversed where the geometry says so, times alpha."""
    if g.flip:
        w = w[(..., *(slice(None, None, -1),) * len(g.window))]
    return np.ascontiguousarray(w if alpha == 1 else w * np.float32(alpha))


KERNELS: dict[str, Callable[..., Any]] = {"conv": conv, "conv_x": conv_x, "conv_w": conv_w, "conv_bias_act": conv_bias_act}
