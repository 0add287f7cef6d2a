"""Updates of parameters in place, a piece at a time, so that a piece of every array stays in cache through all of the arithmetic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy import add, asarray, divide, multiply, sqrt, square, subtract

from ..kernels import Array

_PIECE = 1 << 17  # bytes of each array
_FLAGS: Any = ["external_loop", "buffered", "zerosize_ok"]
_OUT: Any = ["writeonly"]
_IN: Any = ["readonly"]
_STATE: Any = ["readwrite"]
_scratch = threading.local()


def _pieces(scale: float, decay: float, out: Array, w: Array, g: Array, *state: Array) -> Iterator[tuple[Array, ...]]:
    """1-d pieces of out, w, scale * g + decay * w, the state, and two arrays of scratch, in the dtype of the arithmetic.

    Of these, the first of the scratch may hold the gradient.
    """
    arrays = [out, w, g, *state]
    if any(a.shape != w.shape for a in arrays):
        raise ValueError(f"an update takes arrays of one shape, not {', '.join(str(a.shape) for a in arrays)}")
    dtype = np.result_type(w.dtype, np.float32)
    size = _PIECE // dtype.itemsize
    scratch, flags = _two(dtype, size), [_OUT, _IN, _IN, *[_STATE] * len(state)]
    with np.nditer(arrays, _FLAGS, flags, [dtype] * len(arrays), "K", "same_kind", buffersize=size) as pieces:
        for out, w, g, *others in pieces:
            s, t = (a[: len(w)] for a in scratch)
            if scale != 1:
                g = multiply(g, scale, s)
            if decay:
                g = add(g, multiply(w, decay, t), s)
            yield (out, w, g, *others, s, t)


def _two(dtype: np.dtype[Any], size: int) -> tuple[Array, Array]:
    """This thread's scratch of a dtype."""
    kept: dict[Any, tuple[Array, Array]] = _scratch.__dict__
    if dtype not in kept:
        kept[dtype] = np.empty(size, dtype), np.empty(size, dtype)
    return kept[dtype]


def _numbers(w: Array, *numbers: float) -> list[Array]:
    """Numbers in the dtype of the arithmetic, as arrays: ufuncs are called with them in half the time."""
    dtype = np.result_type(w.dtype, np.float32)
    return [asarray(x, dtype) for x in numbers]


def update_sgd(out: Array, w: Array, g: Array, rate: float, scale: float, decay: float) -> None:
    pieces, (step,) = _pieces(scale, decay, out, w, g), _numbers(w, rate)
    for out, w, g, _, t in pieces:
        subtract(w, multiply(g, step, t), out)


def update_momentum(out: Array, w: Array, g: Array, v: Array, rate: float, gamma: float, scale: float, decay: float) -> None:
    pieces, (step, keep) = _pieces(scale, decay, out, w, g, v), _numbers(w, rate, gamma)
    for out, w, g, v, _, t in pieces:
        subtract(multiply(v, keep, v), multiply(g, step, t), v)
        add(w, v, out)


def update_nesterov(out: Array, w: Array, g: Array, v: Array, rate: float, gamma: float, scale: float, decay: float) -> None:
    pieces, (step, keep, ahead) = _pieces(scale, decay, out, w, g, v), _numbers(w, rate, gamma, 1 + gamma)
    for out, w, g, v, _, t in pieces:
        subtract(w, multiply(v, keep, v), out)
        subtract(v, multiply(g, step, t), v)
        add(out, multiply(v, ahead, t), out)


def update_adagrad(out: Array, w: Array, g: Array, squares: Array, rate: float, eps: float, scale: float, decay: float) -> None:
    pieces, (step, tiny) = _pieces(scale, decay, out, w, g, squares), _numbers(w, rate, eps)
    for out, w, g, squares, _, t in pieces:
        add(squares, square(g, t), squares)
        divide(g, sqrt(add(squares, tiny, t), t), t)
        subtract(w, multiply(t, step, t), out)


def update_rmsprop(out: Array, w: Array, g: Array, squares: Array, rate: float, rho: float, eps: float, scale: float, decay: float) -> None:
    pieces, (step, keep, new, tiny) = _pieces(scale, decay, out, w, g, squares), _numbers(w, rate, rho, 1 - rho, eps)
    for out, w, g, squares, _, t in pieces:
        _average(squares, keep, g, new, t)
        divide(g, sqrt(add(squares, tiny, t), t), t)
        subtract(w, multiply(t, step, t), out)


def update_adadelta(
    out: Array, w: Array, g: Array, squares: Array, deltas: Array, rate: float, rho: float, eps: float, scale: float, decay: float
) -> None:
    pieces, (step, keep, new, tiny) = _pieces(scale, decay, out, w, g, squares, deltas), _numbers(w, rate, rho, 1 - rho, eps)
    for out, w, g, squares, deltas, s, t in pieces:
        _average(squares, keep, g, new, t)
        divide(g, sqrt(add(squares, tiny, t), t), t)
        multiply(t, sqrt(add(deltas, tiny, s), s), t)
        _average(deltas, keep, t, new, s)
        subtract(w, multiply(t, step, t), out)


def _average(squares: Array, keep: Array, x: Array, new: Array, t: Array) -> None:
    """squares = keep * squares + new * x * x."""
    add(multiply(squares, keep, squares), multiply(multiply(x, new, t), x, t), squares)  # x * x may overflow where that does not


def update_adam(
    out: Array, w: Array, g: Array, m: Array, v: Array,
    rate: float, beta1: float, beta2: float, eps: float, scale: float, decay: float, shrink: float,
) -> None:  # fmt: skip
    pieces, (step, keep1, new1) = _pieces(scale, decay, out, w, g, m, v), _numbers(w, rate, beta1, 1 - beta1)
    keep2, new2, tiny, rest = _numbers(w, beta2, 1 - beta2, eps, 1 - shrink)
    for out, w, g, m, v, s, t in pieces:
        add(multiply(m, keep1, m), multiply(g, new1, t), m)
        _average(v, keep2, g, new2, t)
        divide(m, add(sqrt(v, t), tiny, t), t)
        multiply(t, step, t)
        subtract(multiply(w, rest, s) if shrink else w, t, out)


def index_write(out: Array, index: Any, v: Array) -> None:
    out[index] = v


def sum_of_squares(x: Array) -> Array:
    total, flags = 0.0, np.errstate(over="ignore")  # what overflows is inf, which tells it
    with flags, np.nditer(x, _FLAGS, [_IN], [np.float64], "K", "same_kind", buffersize=_PIECE // 8) as pieces:
        for piece in pieces:
            total += float(np.dot(piece, piece))
    return asarray(total)


KERNELS: dict[str, Callable[..., Any]] = {
    "update_sgd": update_sgd,
    "update_momentum": update_momentum,
    "update_nesterov": update_nesterov,
    "update_adagrad": update_adagrad,
    "update_rmsprop": update_rmsprop,
    "update_adadelta": update_adadelta,
    "update_adam": update_adam,
    "index_write": index_write,
    "sum_of_squares": sum_of_squares,
}
