"""Updates of parameters in place, each one launch: the formulas as rules that give the parameter's new value and the new state.

The arithmetic is that of the parameter's dtype, float32 for narrower ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .array import DeviceArray, settled
from .elementwise import Rule

Out = DeviceArray
Array = DeviceArray


def _launch(k: Any, name: str, out: Out, w: Array, g: Array, state: tuple[Out, ...], scale: float, decay: float, *numbers: float) -> None:
    """Run the formula called `name` on scale * g + decay * w, with these further numbers."""
    if any(a.shape != w.shape for a in (out, g, *state)):
        shapes = ", ".join(str(a.shape) for a in (out, w, g, *state))
        raise ValueError(f"{name}: an update takes arrays of one shape, not {shapes}")
    dtype = np.result_type(w.dtype, np.float32)
    rule = _rule(k, name, bool(decay))  # 0 * w would be NaN where w is infinite
    rule.into(tuple(map(settled, (out, *state))), dtype, w, g, *state, float(scale), float(decay), *map(float, numbers))


@functools.cache
def _rule(k: Any, name: str, decays: bool) -> Rule:
    formula, states = _FORMULAS[name]

    def rule(table: Any, dtype: Any, *args: Any) -> Any:
        w, g, *state = (table.astype(a, dtype) for a in args[: 2 + states])
        scale, decay, *numbers = args[2 + states :]
        g = scale * g + decay * w if decays else scale * g
        return formula(table.sqrt, w, g, *state, *numbers)

    return k.rule(rule, name)


# -- the formulas: the new w, and the new state
def _sgd(sqrt: Any, w: Any, g: Any, rate: Any) -> Any:
    return (w - rate * g,)


def _momentum(sqrt: Any, w: Any, g: Any, v: Any, rate: Any, gamma: Any) -> Any:
    v = gamma * v - rate * g
    return w + v, v


def _nesterov(sqrt: Any, w: Any, g: Any, v: Any, rate: Any, gamma: Any, ahead: Any) -> Any:
    w, v = w - gamma * v, gamma * v - rate * g
    return w + ahead * v, v


def _adagrad(sqrt: Any, w: Any, g: Any, squares: Any, rate: Any, eps: Any) -> Any:
    squares = squares + g * g
    return w - rate * (g / sqrt(squares + eps)), squares


def _rmsprop(sqrt: Any, w: Any, g: Any, squares: Any, rate: Any, eps: Any, rho: Any, new: Any) -> Any:
    squares = _average(squares, g, rho, new)
    return w - rate * (g / sqrt(squares + eps)), squares


def _adadelta(sqrt: Any, w: Any, g: Any, squares: Any, deltas: Any, rate: Any, eps: Any, rho: Any, new: Any) -> Any:
    squares = _average(squares, g, rho, new)
    d = g / sqrt(squares + eps) * sqrt(deltas + eps)
    return w - rate * d, squares, _average(deltas, d, rho, new)


def _adam(sqrt: Any, w: Any, g: Any, m: Any, v: Any, rate: Any, eps: Any, beta1: Any, new1: Any, beta2: Any, new2: Any, rest: Any) -> Any:
    m = beta1 * m + new1 * g
    v = _average(v, g, beta2, new2)
    return rest * w - rate * (m / (sqrt(v) + eps)), m, v


def _average(squares: Any, x: Any, keep: Any, new: Any) -> Any:
    return keep * squares + new * x * x  # x * x may overflow where this does not


_FORMULAS: dict[str, tuple[Callable[..., Any], int]] = {  # and how many arrays of state they have
    "update_sgd": (_sgd, 0),
    "update_momentum": (_momentum, 1),
    "update_nesterov": (_nesterov, 1),
    "update_adagrad": (_adagrad, 1),
    "update_rmsprop": (_rmsprop, 1),
    "update_adadelta": (_adadelta, 2),
    "update_adam": (_adam, 2),
}


# -- the kernels
def update_sgd(k: Any, out: Out, w: Array, g: Array, rate: float, scale: float, decay: float) -> None:
    _launch(k, "update_sgd", out, w, g, (), scale, decay, rate)


def update_momentum(k: Any, out: Out, w: Array, g: Array, v: Out, rate: float, gamma: float, scale: float, decay: float) -> None:
    _launch(k, "update_momentum", out, w, g, (v,), scale, decay, rate, gamma)


def update_nesterov(k: Any, out: Out, w: Array, g: Array, v: Out, rate: float, gamma: float, scale: float, decay: float) -> None:
    _launch(k, "update_nesterov", out, w, g, (v,), scale, decay, rate, gamma, 1 + gamma)


def update_adagrad(k: Any, out: Out, w: Array, g: Array, squares: Out, rate: float, eps: float, scale: float, decay: float) -> None:
    _launch(k, "update_adagrad", out, w, g, (squares,), scale, decay, rate, eps)


def update_rmsprop(
    k: Any, out: Out, w: Array, g: Array, squares: Out, rate: float, rho: float, eps: float, scale: float, decay: float
) -> None:
    _launch(k, "update_rmsprop", out, w, g, (squares,), scale, decay, rate, eps, rho, 1 - rho)


def update_adadelta(
    k: Any, out: Out, w: Array, g: Array, squares: Out, deltas: Out, rate: float, rho: float, eps: float, scale: float, decay: float
) -> None:
    _launch(k, "update_adadelta", out, w, g, (squares, deltas), scale, decay, rate, eps, rho, 1 - rho)


def update_adam(
    k: Any, out: Out, w: Array, g: Array, m: Out, v: Out,
    rate: float, beta1: float, beta2: float, eps: float, scale: float, decay: float, shrink: float,
) -> None:  # fmt: skip
    _launch(k, "update_adam", out, w, g, (m, v), scale, decay, rate, eps, beta1, 1 - beta1, beta2, 1 - beta2, 1 - shrink)


KERNELS: dict[str, Callable[..., Any]] = {
    "update_sgd": update_sgd,
    "update_momentum": update_momentum,
    "update_nesterov": update_nesterov,
    "update_adagrad": update_adagrad,
    "update_rmsprop": update_rmsprop,
    "update_adadelta": update_adadelta,
    "update_adam": update_adam,
}
