"""Convolution by cuDNN: three passes that differ in what is given and what is asked for, and the one with bias and activation.

All arrays of a call lie alike, channels_last if the images that come in do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Array, Geometry, Shape
from ..numpy_backend.convolution import check
from ..pycuda_backend.array import DeviceArray
from ..pycuda_backend.convolution import ACTIVATIONS, dtype_of, finisher, per_channel, promoted
from ..pycuda_backend.driver import OutOfMemory
from ..pycuda_backend.memory import Block
from . import binding, handle
from .algorithms import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Algorithms, Choice, Direction, address, expected, math_type, said, tried
from .descriptors import (
    Descriptor,
    Unsupported,
    constant,
    empty_laid,
    factor,
    filters,
    fit,
    is_last,
    laid,
    same_on_both_sides,
    tensor,
    two_axes,
    two_dimensional,
)

# activations within the call: the mode, and whether NaN stays NaN
_NATIVE = {
    "identity": (binding.CUDNN_ACTIVATION_IDENTITY, binding.CUDNN_NOT_PROPAGATE_NAN),  # which has nothing to lose
    "relu": (binding.CUDNN_ACTIVATION_RELU, binding.CUDNN_PROPAGATE_NAN),
    "relu, NaN lost": (binding.CUDNN_ACTIVATION_RELU, binding.CUDNN_NOT_PROPAGATE_NAN),
}
Arrays = tuple[DeviceArray, DeviceArray, DeviceArray]  # two operands and the result
_FOR_IDENTITY = binding.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM  # the only one that has it


class Fused(NamedTuple):
    """What the one call adds: native(... + beta * z + bias)."""

    bias: DeviceArray | None
    z: DeviceArray | None
    beta: float
    native: str


class Signature(NamedTuple):
    """All that a plan depends on.  native: the activation within the call, or None."""

    direction: Direction
    w: Shape
    x: Shape
    geometry: Geometry
    dtype: np.dtype[Any]
    last: bool
    mode: str
    limit: int
    native: str | None = None


class Plan:
    """The descriptors of a signature, and its algorithms, which are chosen at the first run.  Raises Unsupported, ValueError."""

    def __init__(self, s: Signature) -> None:
        self.s, g = s, s.geometry
        self.y_shape = (s.x[0], s.w[0], *check(s.w, s.x, g))
        fit(s.dtype, s.w, s.x, self.y_shape)
        same_on_both_sides(g)
        shapes = {"w": s.w, "x": s.x, "y": self.y_shape}
        made = {name: (filters if name == "w" else tensor)(two_dimensional(n), s.dtype, s.last) for name, n in shapes.items()}
        self.a, self.b, self.c = (made[name] for name in s.direction.operands)
        self.bias = tensor((1, s.w[0], *(1,) * max(2, len(g.window))), s.dtype) if s.native else None
        self.activation = _activation(s.native) if s.native else None
        self._algorithms: Algorithms | None = None

    def run(self, arrays: Arrays, alpha: float, fused: Fused | None = None) -> tuple[Choice, bool]:
        """Compute the last of the arrays from the others: by which algorithm, and whether for lack of memory."""
        if self._algorithms is None:
            self._algorithms = self._found(arrays)
        times = factor(alpha, self.s.dtype)
        call = functools.partial(self._fused, fused) if fused else self._plain
        return self._algorithms.run(functools.partial(call, arrays, times))

    def _plain(self, arrays: Arrays, alpha: Any, choice: Choice, work: Block | None) -> None:
        a, b, c = arrays
        self.s.direction.run(
            handle.ready(), alpha, self.a, a.address, self.b, b.address, self._convolution(choice.math),
            choice.algorithm, address(work), choice.memory, factor(0.0, self.s.dtype), self.c, c.address,
        )  # fmt: skip

    def _fused(self, fused: Fused, arrays: Arrays, alpha: Any, choice: Choice, work: Block | None) -> None:
        (x, w, y), (bias, z, beta, _) = arrays, fused
        bias = constant(0, len(w), self.s.dtype) if bias is None else bias
        z, beta = (y, 0.0) if z is None else (z, beta)
        binding.cudnnConvolutionBiasActivationForward(
            handle.ready(), alpha, self.a, x.address, self.b, w.address, self._convolution(choice.math),
            choice.algorithm, address(work), choice.memory, factor(beta, self.s.dtype), self.c, z.address,
            self.bias, bias.address, self.activation, self.c, y.address,
        )  # fmt: skip

    def _found(self, arrays: Arrays) -> Algorithms:
        s, math = self.s, math_type(self.s.dtype, self.s.mode)
        described = (s.direction, self.a, self.b, self._convolution(math), self.c)
        found = Algorithms(expected(*described), math, s.mode, s.limit)
        if s.mode == "fast" and found.choices:
            with suppress(OutOfMemory, binding.cudnnAllocFailed, binding.cudnnNotSupported, binding.cudnnInternalError):
                found = Algorithms(tried(*described, arrays, max(c.memory for c in found.choices)), math, s.mode, s.limit)
        if s.native == "identity":
            found.choices = [c for c in found.choices if c.algorithm == _FOR_IDENTITY]
        return found

    def _convolution(self, math: int) -> Descriptor:
        return _convolution(self.s.geometry, self.s.dtype, math)


_plan = functools.lru_cache(1024)(Plan)


@functools.lru_cache(1024)
def _convolution(g: Geometry, dtype: np.dtype[Any], math: int) -> Descriptor:
    data = binding.CUDNN_DATA_DOUBLE if dtype.itemsize == 8 else binding.CUDNN_DATA_FLOAT  # of the sums
    return Descriptor("Convolution", _set_convolution, two_axes(g), data, math)


def _set_convolution(made: Descriptor, g: Geometry, data: int, math: int) -> None:
    mode = binding.CUDNN_CONVOLUTION if g.flip else binding.CUDNN_CROSS_CORRELATION
    binding.cudnnSetConvolutionNdDescriptor(made, len(g.window), same_on_both_sides(g), g.stride, g.dilation, mode, data)
    binding.cudnnSetConvolutionGroupCount(made, g.group)
    binding.cudnnSetConvolutionMathType(made, math)


@functools.lru_cache(16)
def _activation(name: str) -> Descriptor:
    return Descriptor("Activation", binding.cudnnSetActivationDescriptor, *_NATIVE[name], 0.0)


# -- the kernels
def conv(k: Any, w: Array, x: Array, geometry: Geometry, alpha: float) -> Array:
    return _forward(k, w, x, geometry, alpha)


def conv_x(k: Any, w: Array, dy: Array, x_shape: Shape, geometry: Geometry, alpha: float) -> Array:
    w, dy = promoted(k, w, dy, alpha)
    last = is_last(dy)
    plan = _plan(Signature(BACKWARD_DATA, w.shape, x_shape, geometry, w.dtype, last, k.math_mode(), k.workspace_limit))
    _expect(dy, plan)
    return _run(k, plan, (laid(w, last), laid(dy, last), empty_laid(x_shape, w.dtype, last)), alpha)


def conv_w(k: Any, x: Array, dy: Array, w_shape: Shape, geometry: Geometry, alpha: float) -> Array:
    x, dy = promoted(k, x, dy, alpha)
    last = is_last(x)
    plan = _plan(Signature(BACKWARD_FILTER, w_shape, x.shape, geometry, x.dtype, last, k.math_mode(), k.workspace_limit))
    _expect(dy, plan)
    return _run(k, plan, (laid(x, last), laid(dy, last), empty_laid(w_shape, x.dtype, last)), alpha)


def conv_bias_act(
    k: Any, w: Array, x: Array, b: Array | None, z: Array | None, activation: str, geometry: Geometry, alpha: float, beta: float
) -> Array:
    """In one call, or with a launch of the activation behind it.  Pedantic mode has the bits of the operators."""
    shape = (len(x), len(w), *check(w.shape, x.shape, geometry))
    bias = None if b is None else per_channel(k, b, shape)
    dtypes = {dtype_of(w, x, alpha), *(a.dtype for a in (b, z) if a is not None)}
    if activation not in ACTIVATIONS or (bias is None) != (b is None) or (z is not None and z.shape != shape) or len(dtypes) > 1:
        raise Unsupported("bias, residual or dtypes that cuDNN does not add")
    if z is not None and not beta:
        raise Unsupported("a residual times 0")  # which is NaN where it is not finite, and cuDNN would not look
    if k.math_mode() == "pedantic":
        return finisher(k)(_forward(k, w, x, geometry, alpha), z, b, activation, None if beta == 1 else float(beta))
    for native in _ways(activation, k.math_mode()):
        with suppress(Unsupported):
            y = _forward(k, w, x, geometry, alpha, Fused(bias, z, beta, native))
            if not native.startswith(activation):
                finisher(k).into((y,), y, None, None, activation, None)
            return y
    y = _forward(k, w, x, geometry, alpha)
    k.say(f"{k.account()[0]}, bias and activation apart", "no fused algorithm of cuDNN")
    return finisher(k)(y, z, b, activation, None if beta == 1 else float(beta))


def _ways(activation: str, mode: str) -> tuple[str, ...]:
    """What can be within the call, the best first.  Versions of cuDNN refuse a relu that keeps NaN: only fast mode takes the other."""
    if activation != "relu":
        return ("identity",)
    return ("relu", "relu, NaN lost", "identity") if mode == "fast" else ("relu", "identity")


def _forward(k: Any, w: Array, x: Array, g: Geometry, alpha: float, fused: Fused | None = None) -> DeviceArray:
    w, x = promoted(k, w, x, alpha)
    last, native = is_last(x), fused and fused.native
    plan = _plan(Signature(FORWARD, w.shape, x.shape, g, w.dtype, last, k.math_mode(), k.workspace_limit, native))
    if fused and fused.z is not None:
        fused = fused._replace(z=laid(fused.z, last))
    return _run(k, plan, (laid(x, last), laid(w, last), empty_laid(plan.y_shape, w.dtype, last)), alpha, fused)


def _run(k: Any, plan: Plan, arrays: Arrays, alpha: float, fused: Fused | None = None) -> DeviceArray:
    if not alpha:
        raise Unsupported("a product with 0")  # likewise
    choice, is_short = plan.run(arrays, float(alpha), fused)
    k.say(said(plan.s.direction, choice, plan.s.dtype, is_short))
    return arrays[2]


def _expect(dy: DeviceArray, plan: Plan) -> None:
    if dy.shape != plan.y_shape:
        check(plan.s.w, plan.s.x, plan.s.geometry, dy.shape)


KERNELS: dict[str, Callable[..., Any]] = {"conv": conv, "conv_x": conv_x, "conv_w": conv_w, "conv_bias_act": conv_bias_act}
