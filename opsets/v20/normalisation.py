"""batchnorm, what it keeps between calls, the running statistics (bnmoments), and what is learnt of it (bnparams); layernorm.

`normalise` is batchnorm's training form, `normalise_rows` is layernorm's; their means and variances have derivatives of their own.
Rules and compositions count axes from the end, as those of any operator.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autotape import io, kernels, operator, random
from autotape.tape import is_training
from autotape.tensor import Tensor, adopt, array, backend_of, describe

from ..array import add, astype, broadcast_to, getitem, multiply, reshape, square, subtract, sum, zeros_like
from ..array.reductions import HALF, refuse_complex
from ..array.shapes import dtype_of, shape_of
from ..geometry import expect, real_number, whole_number


class BNMoments:
    """The running statistics of one batchnorm layer: `mean` and `var`, arrays (C,), None before its first batch.

    It is an object that changes, no tree of arrays: transforms pass it through.  `state` is what a file (at.save) holds of it.
    """

    __slots__ = ("mean", "meaninit", "momentum", "var", "varinit")

    def __init__(self, momentum: float, mean: Any, var: Any, meaninit: Callable[..., Any], varinit: Callable[..., Any]) -> None:
        self.meaninit, self.varinit = meaninit, varinit
        self.state = {"momentum": momentum, "mean": mean, "var": var}

    def __repr__(self) -> str:
        return f"bnmoments(momentum={self.momentum}, mean={self.mean}, var={self.var})"

    def __reduce__(self) -> Any:
        arrays = (None if v is None else np.array(backend_of(v).to_numpy(v)) for v in (self.mean, self.var))
        return BNMoments, (self.momentum, *arrays, self.meaninit, self.varinit)

    @property
    def state(self) -> dict[str, Any]:
        """Momentum, mean and var, a number and two arrays (or None) to save; setting it makes the statistics go on from there."""
        return {"momentum": self.momentum, "mean": self.mean, "var": self.var}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict) or state.keys() != {"momentum", "mean", "var"}:
            raise ValueError(f"the state of moments is {{'momentum': ..., 'mean': ..., 'var': ...}}, not {state!r}")
        momentum = real_number("bnmoments", "momentum", state["momentum"])
        if not 0 <= momentum <= 1:
            raise ValueError(f"bnmoments: momentum must be from 0 to 1, got {momentum!r}")
        mean, var = (None if state[name] is None else statistic(name, state[name]) for name in ("mean", "var"))
        self.momentum, self.mean, self.var = momentum, mean, var

    def arrays(self, channels: int, dtype: Any) -> Any:
        """mean and var on the current backend; as they start, in this dtype, where there was no batch yet."""
        found, k = [], kernels()
        for name, init in (("mean", self.meaninit), ("var", self.varinit)):
            value = getattr(self, name)
            if value is None and not callable(init):
                raise TypeError(f"batchnorm: moments.{name} is None, so {name}init must be a function of its shape, got {describe(init)}")
            found.append(k.astype(adopt(init((channels,)), k), dtype) if value is None else adopt(value, k))
            expect("batchnorm", f"moments.{name}", found[-1].shape, (channels,))
        return found

    def follow(self, mean: Any, var: Any, count: int) -> None:
        """Take in a batch whose channels have `count` elements each."""
        news, k, m = (mean, var * (count / max(count - 1, 1))), kernels(), self.momentum
        olds = self.arrays(mean.shape[0], mean.dtype)
        self.mean, self.var = (k.astype(new * m + old * (1 - m), old.dtype) for new, old in zip(news, olds, strict=True))


def statistic(name: str, x: Any) -> Any:
    """An array of the current backend that can follow the batches: integers, which would never move, become float64."""
    try:
        x = array(x)._array
    except TypeError as e:
        raise TypeError(f"bnmoments: {name}: {e}") from None
    if x.dtype.kind == "c":
        raise TypeError(f"bnmoments: {name} must be real, not {x.dtype}")
    if len(x.shape) != 1:
        raise ValueError(f"bnmoments: {name} must be (C,), one number a channel, got {tuple(x.shape)}")
    return kernels().astype(x, np.dtype(float)) if x.dtype.kind in "biu" else x


io.register(BNMoments, "v20.bnmoments", lambda moments: moments.state, lambda state: bnmoments(**state))


def bnmoments(momentum=0.1, mean=None, var=None, meaninit=np.zeros, varinit=np.ones):
    """The running mean and variance of a batchnorm layer, which follow those of each batch in training.  Knet's bnmoments.

    A batch makes of each: momentum * its own + (1 - momentum) * the one before, its variance being the unbiased one, divided by the
    count less one; that of a single element is 0, as in Knet, and draws the running one towards 0.  mean and var, arrays (C,), are
    where they start; where they are None, meaninit((C,)) and varinit((C,)) say it at the first batch.  Raises ValueError for a
    momentum outside [0, 1] or another shape, TypeError for complex numbers; integers become float64.  Not differentiable.
    """
    return BNMoments(momentum, mean, var, meaninit, varinit)


def bnparams(channels, dtype=np.float32):
    """What batchnorm learns: one vector of `channels` scales, which are 1, and then as many biases, which are 0.  Knet's bnparams.

    An array of the current backend; `Param(bnparams(64))` is a parameter.  Not differentiable.
    """
    channels, dtype = whole_number("bnparams", "channels", channels), np.dtype(dtype)
    if channels < 0 or dtype.kind != "f":
        raise ValueError(f"bnparams: channels must be at least 0, and dtype one of floats; got {channels!r} and {dtype}")
    return kernels().adopt(np.repeat(np.array([1, 0], dtype), channels))


def batchnorm(x, moments=None, params=None, eps=1e-5, training=None):
    """Each channel of x (N, C) or (N, C, *spatial) brought to mean 0 and variance 1.  Knet's batchnorm; Ioffe and Szegedy 2015.

    In training the mean and the (biased) variance are those of the batch, over all instances and positions, and `moments`, made by
    bnmoments, follows them: once for each call, also where checkpoint runs it again.  Otherwise they are those of `moments`, which
    must then be given.  `training` None means `autotape.training`, which is while a tape records unless it is said.
    params, made by bnparams, is the vector of C scales and then C biases of the result; None leaves it as it is.  eps is added to
    the variance.  Raises ValueError for shapes that don't fit, for a batch without elements, and where moments are needed.
    """
    shape, eps = shape_of(x), least_0("batchnorm", eps)
    if not 2 <= len(shape) <= 5:
        raise ValueError(f"batchnorm: x {shape} must be (N, C) or (N, C, *spatial) with 1 to 3 spatial axes")
    if moments is not None and not isinstance(moments, BNMoments):
        raise TypeError(f"batchnorm: moments must be made by bnmoments, got {describe(moments)}")
    refuse_complex("batchnorm", x)
    scale, bias = (None, None) if params is None else halves("batchnorm", params, shape[1])
    if is_training() if training is None else training:
        return by_batch(x, moments, scale, bias, eps)
    if moments is None:
        raise ValueError("batchnorm: outside training it needs moments, the statistics that it found in training: see bnmoments")
    return by_moments(x, moments, scale, bias, eps)


def least_0(name: str, eps: Any) -> Any:
    """eps as a number that can be added to a variance."""
    eps = real_number(name, "eps", eps)
    if not eps >= 0:
        raise ValueError(f"{name}: eps must be at least 0, got {eps!r}")
    return eps


def halves(name: str, params: Any, channels: int) -> Any:
    """Scales and biases."""
    if shape_of(params) != (2 * channels,):
        expected = f"the shape {(2 * channels,)}: scales and then biases of the {channels} channels of x"
        raise ValueError(f"{name}: params {shape_of(params)} must have {expected}, as bnparams({channels}) makes them")
    return getitem(params, slice(channels)), getitem(params, slice(channels, None))


def by_batch(x: Any, moments: BNMoments | None, scale: Any, bias: Any, eps: float) -> Any:
    if not (n := count(shape_of(x))):
        raise ValueError(f"batchnorm: x {shape_of(x)} has no elements whose mean could be taken")
    y, mean, var = normalise(x, scale, bias, eps)
    if moments is not None and not random.is_replaying():
        mean, var = (v._array if isinstance(v, Tensor) else v for v in (mean, var))
        moments.follow(mean, var, n)
    return y


def by_moments(x: Any, moments: BNMoments, scale: Any, bias: Any, eps: float) -> Any:
    shape, dtype = shape_of(x), np.result_type(*(dtype_of(v) for v in (x, scale, bias) if v is not None), 1.0)
    wide = np.float32 if dtype == np.float16 else dtype
    mean, var = (astype(v, wide) for v in moments.arrays(shape[1], wide))
    inv = (var + eps) ** -0.5
    y = multiply(subtract(x, each(mean, shape)), each(inv if scale is None else multiply(inv, scale), shape))
    return astype(y if bias is None else add(y, each(bias, shape)), dtype)


@operator(outputs="y mean var", optional=("scale", "bias"))
def normalise(x, scale=None, bias=None, eps=1e-5):
    """batchnorm in training: y = (x - mean) / sqrt(var + eps) * scale + bias, and the mean and variance (C,) of x (N, C, *spatial).

    scale and bias are (C,) or None.  Where y is float16, mean and var are float32.
    """
    return kernels().batchnorm(x, scale, bias, eps)


@normalise.reference
def _(x, scale=None, bias=None, eps=1e-5):
    n, shape = count(x.shape), x.shape
    mean = over(x) / n
    centred = x - each(mean, shape)
    var = over(square(centred)) / n
    y = centred / each((var + eps) ** 0.5, shape)
    y = y if scale is None else y * each(scale, shape)
    return y if bias is None else y + each(bias, shape), mean, var


@normalise.backward
def _(dy, dmean, dvar, x, scale, mean, var, needs, eps):
    dx, dscale, dbias = (None,) * 3 if dy is None else normalise_x(dy, x, mean, (var + eps) ** -0.5, scale)
    dx = with_statistics(dx, dmean, dvar, x, mean, count(x.shape), each)
    return dx, dscale if needs[1] else None, dbias if needs[2] else None


def with_statistics(dx: Any, dmean: Any, dvar: Any, x: Any, mean: Any, n: int, each: Callable[..., Any]) -> Any:
    """dx, None being 0, and what x's mean and variance, of n elements each, give to x for their cotangents; each(v, shape) spreads them."""
    shares = [] if dx is None else [dx]
    if dmean is not None:
        shares.append(broadcast_to(each(dmean / n, x.shape), x.shape))
    if dvar is not None:
        shares.append((x - each(mean, x.shape)) * each(dvar * (2 / n), x.shape))
    return astype(functools.reduce(add, shares), x.dtype)


@operator(outputs="dx dscale dbias", optional=("scale",))
def normalise_x(v, x, mean, inv, scale=None):
    """The cotangents of x, scale and bias for a cotangent v of normalise's y, mean and inv = 1 / sqrt(var + eps) being those of x."""
    return kernels().batchnorm_x(v, x, mean, inv, scale)


@normalise_x.backward
def _(ddx, ddscale, ddbias, v, x, mean, inv, scale):
    n, shape = count(x.shape), x.shape
    ddx = zeros_like(v) if ddx is None else ddx
    ddscale, ddbias = (zeros_like(mean) if d is None else d for d in (ddscale, ddbias))
    h = (x - each(mean, shape)) * each(inv, shape)
    u = ddx * each(inv if scale is None else inv * scale, shape)
    vh, uh = over(v * h) / n, over(u * h) / n
    slope = over(ddx * (v - each(over(v) / n, shape) - h * each(vh, shape)))  # of <ddx, dx> in inv * scale
    dv = u + h * each(ddscale - uh, shape) + each(ddbias - over(u) / n, shape)
    dh = v * each(ddscale - uh, shape) - u * each(vh, shape)
    dinv = over(dh * (x - each(mean, shape))) + (slope if scale is None else slope * scale)
    return dv, dh * each(inv, shape), -inv * over(dh), dinv, None if scale is None else slope * inv


def count(shape: tuple[int, ...]) -> int:
    """How many elements of x go into the mean of a channel."""
    return shape[0] * math.prod(shape[2:])


def over(x: Any) -> Any:
    """The sum of each channel (C,), of float16 in float32."""
    return sum(summable(x), tuple(i - len(x.shape) for i in range(len(x.shape)) if i != 1))


def summable(x: Any) -> Any:
    """x in a dtype that holds its sums, and the count by which they are divided."""
    return astype(x, np.float32) if x.dtype == HALF else x


def each(v: Any, shape: tuple[int, ...]) -> Any:
    """v (C,) such that it broadcasts to x's shape."""
    return reshape(v, (shape[1], *(1,) * (len(shape) - 2)))


# ---------------------------------------------------------------- layernorm


def layernorm(x, params=None, eps=1e-5):
    """Each row of x (..., C), its elements along the last axis, brought to mean 0 and variance 1.  Ba, Kiros and Hinton 2016.

    Knet's Ops20 has no such operator.  The mean and the (biased) variance are those of the row, in training and outside it.  params,
    made by bnparams(C), is the vector of C scales and then C biases of the result; None leaves it as it is.  eps is added to the
    variance.  Sums of float16 are taken in float32.  Raises ValueError for shapes that don't fit, and for rows without elements.
    """
    shape, eps = shape_of(x), least_0("layernorm", eps)
    if not shape or not shape[-1]:
        raise ValueError(f"layernorm: x {shape} must be (..., C), C elements along its last axis, of which there must be at least 1")
    refuse_complex("layernorm", x)
    scale, bias = (None, None) if params is None else halves("layernorm", params, shape[-1])
    return normalise_rows(x, scale, bias, eps)[0]


@operator(outputs="y mean var", optional=("scale", "bias"))
def normalise_rows(x, scale=None, bias=None, eps=1e-5):
    """layernorm: y = (x - mean) / sqrt(var + eps) * scale + bias, and the mean and variance (...) of the rows of x (..., C).

    scale and bias are (C,) or None.  Where y is float16, mean and var are float32.
    """
    return kernels().layernorm(x, scale, bias, eps)


@normalise_rows.reference
def _(x, scale=None, bias=None, eps=1e-5):
    n, shape = x.shape[-1], x.shape
    mean = along(x) / n
    centred = x - column(mean, shape)
    var = along(square(centred)) / n
    y = centred / column((var + eps) ** 0.5, shape)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias, mean, var


@normalise_rows.backward
def _(dy, dmean, dvar, x, scale, mean, var, needs, eps):
    dx, dscale, dbias = (None,) * 3 if dy is None else normalise_rows_x(dy, x, mean, (var + eps) ** -0.5, scale)
    dx = with_statistics(dx, dmean, dvar, x, mean, x.shape[-1], column)
    return dx, dscale if needs[1] else None, dbias if needs[2] else None


@operator(outputs="dx dscale dbias", optional=("scale",))
def normalise_rows_x(v, x, mean, inv, scale=None):
    """The cotangents of x, scale and bias for a cotangent v of normalise_rows's y, mean and inv = 1 / sqrt(var + eps) being those of x."""
    return kernels().layernorm_x(v, x, mean, inv, scale)


@normalise_rows_x.backward
def _(ddx, ddscale, ddbias, v, x, mean, inv, scale):
    n, shape = x.shape[-1], x.shape
    ddx = zeros_like(v) if ddx is None else ddx
    centred, each_inv = x - column(mean, shape), column(inv, shape)
    h, u, g = centred * each_inv, ddx * each_inv, v if scale is None else v * scale
    gh, uh = (column(along(w * h) / n, shape) for w in (g, u))
    dg = u - column(along(u) / n, shape) - h * uh
    dv, dh = dg if scale is None else dg * scale, -(u * gh + g * uh)
    if ddscale is not None:
        dv, dh = dv + h * ddscale, dh + v * ddscale
    if ddbias is not None:
        dv = dv + ddbias
    dinv = along(ddx * (g - column(along(g) / n, shape) - h * gh)) + along(dh * centred)
    return dv, dh * each_inv, -inv * along(dh), dinv, None if scale is None else down(dg * v)


def along(x: Any) -> Any:
    """The sum of each row (...)."""
    return sum(summable(x), -1)


def down(x: Any) -> Any:
    """The sum of each column (C,)."""
    return sum(summable(x), tuple(range(-len(x.shape), -1)))


def column(v: Any, shape: tuple[int, ...]) -> Any:
    """v (...) such that it broadcasts to x's shape (..., C)."""
    return reshape(v, (*shape[:-1], 1))
