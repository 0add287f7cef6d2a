"""Recurrent layers: all steps of one layer in one direction, and their gradients.

The input's product is one for all steps, and so are the products that give the weights' gradients.  A step has the recurrent
product, and elementwise arithmetic in place on blocks of (sequences, gates * hidden), which stay in the cache.  The logistic
function is (1 + tanh(x / 2)) / 2, where the half is taken of the weights, which is exact: one tanh serves all gates of a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Array, Shape, packed_steps, recurrent_parts
from .elementwise import masked


class Cell(NamedTuple):
    """One kind of step, on blocks of n sequences, and its way back."""

    factors: tuple[float, ...]  # of each gate: 1/2 where it is logistic, 1 where it is a tanh or as it comes
    forward: Callable[..., None]
    backward: Callable[..., Array | None]


def recurrence(
    x: Array, w: Array, state: Array, cell: str, sizes: Shape, reverse: bool, skip: bool, keep: bool
) -> tuple[Array, Array, Array, Array]:
    (x, w, state), dtype = _wide(x, w, state)
    state = np.array(state, order="C")
    hidden, (factors, forward, _) = state.shape[2], _CELLS[cell]
    keep = keep and len(factors) > 1  # y is enough for cells without gates
    scale = np.repeat(np.asarray(factors, x.dtype), hidden)
    w_x, w_h, b_x, b_h = _parts(w, factors, x.shape[1], hidden, skip)
    gates = np.tile(x, len(factors)) * scale if skip else np.matmul(x, np.multiply(w_x.T, scale, order="C"))
    w_h, b_x, b_h, shift = np.multiply(w_h.T, scale, order="C"), b_x * scale, b_h * scale, 1 - scale
    y, inner = np.empty((len(x), hidden), x.dtype), np.empty((len(x) if keep else state.shape[1], hidden), x.dtype)
    product = np.empty((state.shape[1], scale.size), x.dtype)
    for part, n in packed_steps(sizes, reverse):
        z, v, h = gates[part], np.matmul(state[0, :n], w_h, out=product[:n]), state[:, :n]
        z += b_x
        v += b_h
        forward(z, v, h, y[part], inner[part] if keep else inner[:n], scale, shift)
        h[0] = y[part]
    if not keep:
        gates, inner = gates[:0].copy(), inner[:0].copy()
    return y.astype(dtype, copy=False), state.astype(dtype, copy=False), gates, inner


def recurrence_grads(
    dy: Array, dfinal: Array, x: Array, w: Array, state: Array, y: Array, gates: Array, inner: Array,
    cell: str, sizes: Shape, reverse: bool, skip: bool, with_x: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    (x, w, state, y, dy, dfinal), dtype = _wide(x, w, state, y, dy, dfinal)
    hidden, (factors, _, backward) = state.shape[2], _CELLS[cell]
    w_x, w_h, _, _ = _parts(w, factors, x.shape[1], hidden, skip)
    d, dw, dz = np.array(dfinal, order="C"), np.empty(w.shape, x.dtype), np.empty((len(x), len(factors) * hidden), x.dtype)
    h = _before(y, state[0], sizes, reverse)
    saved = _SAVED[cell](h, y, gates, inner, lambda: _before(inner, state[1], sizes, reverse))
    work = np.empty((2, state.shape[1], dz.shape[1]), x.dtype)
    for part, n in reversed(packed_steps(sizes, reverse)):
        d[0, :n] += dy[part]
        more = backward(d[:, :n], dz[part], *(a[part] for a in saved), work[:, :n])
        np.matmul(dz[part], w_h, out=d[0, :n])
        if more is not None:
            d[0, :n] += more
    dw_x, dw_h, db_x, db_h = _parts(dw, factors, x.shape[1], hidden, skip)
    ones = np.ones(len(x), x.dtype)
    np.matmul(dz.T, h, out=dw_h)
    np.matmul(ones, dz, out=db_h)
    if cell == "gru":
        dz[:, -hidden:] = saved[-1]  # the new gate's input has a cotangent of its own
    np.matmul(ones, dz, out=db_x)
    if not skip:
        np.matmul(dz.T, x, out=dw_x)
    dx = np.empty((0, x.shape[1]), x.dtype) if not with_x else _sum_of_gates(dz, hidden) if skip else np.matmul(dz, w_x)
    return dx.astype(dtype, copy=False), dw.astype(dtype, copy=False), d.astype(dtype, copy=False)


def _wide(*arrays: Array) -> tuple[list[Array], Any]:
    """The arrays contiguous and in the dtype to compute in, and that of the results."""
    dtype = np.result_type(*arrays)
    if dtype.kind == "c":
        raise TypeError(f"recurrent layers are of real numbers, not {dtype}")
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    return [np.ascontiguousarray(a, np.float32 if dtype == np.float16 else dtype) for a in arrays], dtype


def _parts(w: Array, factors: tuple[float, ...], width: int, hidden: int, skip: bool) -> list[Array]:
    """Views of w: the matrices of the input (empty if it is not multiplied) and of the state, and their biases."""
    return [w[part].reshape(shape) for part, shape in recurrent_parts(len(factors), width, hidden, skip)]


def _before(packed: Array, start: Array, sizes: Shape, reverse: bool) -> Array:
    """The state before each step, packed, of `packed`, those after it, and the one that all started with."""
    before, held = np.empty_like(packed), np.array(start)
    for part, n in packed_steps(sizes, reverse):
        before[part] = held[:n]
        held[:n] = packed[part]
    return before


def _split(gates: Array, count: int) -> list[Array]:
    hidden = gates.shape[1] // count
    return [gates[:, i * hidden : (i + 1) * hidden] for i in range(count)]


def _sum_of_gates(dz: Array, hidden: int) -> Array:
    return np.add.reduce(dz.reshape(len(dz), -1, hidden), 1)


# -- forward: z is the input's part of the gates, v that of the state, with their biases, times their factors.  They become the
# gates themselves, in z, and the new state, in y; `inner` is what else the way back needs.


def _relu(z: Array, v: Array, state: Array, y: Array, inner: Array, scale: Array, shift: Array) -> None:
    z += v
    np.maximum(z, 0, out=y)


def _tanh(z: Array, v: Array, state: Array, y: Array, inner: Array, scale: Array, shift: Array) -> None:
    z += v
    np.tanh(z, out=y)


def _lstm(z: Array, v: Array, state: Array, y: Array, inner: Array, scale: Array, shift: Array) -> None:
    """Gates in, forget, new, out; inner is the cell's new state."""
    z += v
    np.tanh(z, out=z)
    z *= scale
    z += shift
    i, f, g, o = _split(z, 4)
    c = state[1]
    c *= f
    c += np.multiply(i, g, out=y)
    inner[...] = c
    np.tanh(c, out=y)
    y *= o


def _gru(z: Array, v: Array, state: Array, y: Array, inner: Array, scale: Array, shift: Array) -> None:
    """Gates reset, update, new; inner is the state's part of the new gate, before it is reset."""
    logistic = z[:, : 2 * y.shape[1]]
    logistic += v[:, : 2 * y.shape[1]]
    np.tanh(logistic, out=logistic)
    logistic *= 0.5
    logistic += 0.5
    r, u, n = _split(z, 3)
    inner[...] = v[:, 2 * y.shape[1] :]
    n += np.multiply(r, inner, out=y)
    np.tanh(n, out=n)
    np.subtract(state[0], n, out=y)
    y *= u
    y += n


# -- backward: d is the cotangent of the state after the step.  dz becomes that of the state's part of the gates, and d[1] that of
# the cell's state before it; what is returned goes to the state before it without the recurrent product.


def _relu_back(d: Array, dz: Array, y: Array, work: Array) -> None:
    masked(y > 0, d[0], out=dz)


def _tanh_back(d: Array, dz: Array, y: Array, work: Array) -> None:
    np.multiply(y, y, out=dz)
    np.subtract(1, dz, out=dz)
    dz *= d[0]


def _lstm_back(d: Array, dz: Array, gates: Array, c: Array, c_before: Array, work: Array) -> None:
    (i, f, g, o), (di, df, dg, do), (dh, dc) = _split(gates, 4), _split(dz, 4), d
    t = np.tanh(c, out=work[1, :, : c.shape[1]])
    np.multiply(dh, t, out=do)
    np.multiply(t, t, out=t)
    np.subtract(1, t, out=t)
    t *= o
    t *= dh
    dc += t
    np.multiply(dc, g, out=di)
    np.multiply(dc, c_before, out=df)
    np.multiply(dc, i, out=dg)
    dc *= f
    dz *= _slopes(gates, 4, 2, work[0])


def _gru_back(d: Array, dz: Array, gates: Array, q: Array, h: Array, dn_out: Array, work: Array) -> Array:
    """q is `inner`, and dn_out becomes the cotangent of the input's part of the new gate."""
    (r, u, n), (dr, du, dn), dh, (more, s) = _split(gates, 3), _split(dz, 3), d[0], work[:, :, : q.shape[1]]
    np.subtract(1, u, out=s)
    np.multiply(dh, s, out=dn)
    np.subtract(h, n, out=s)
    np.multiply(dh, s, out=du)
    np.multiply(dh, u, out=s)
    slopes = _slopes(gates, 3, 2, work[0])
    dn *= slopes[:, -q.shape[1] :]
    np.multiply(dn, q, out=dr)
    dz[:, : 2 * q.shape[1]] *= slopes[:, : 2 * q.shape[1]]
    dn_out[...] = dn
    dn *= r
    more[...] = s
    return more


def _slopes(gates: Array, count: int, new: int, out: Array) -> Array:
    """The derivatives of the gates, by the gates: y - y * y of a logistic function, 1 - y * y of the new gate's tanh."""
    np.multiply(gates, gates, out=out)
    g, s = _split(gates, count)[new], _split(out, count)[new]
    np.subtract(gates, out, out=out)
    np.multiply(g, g, out=s)
    np.subtract(1, s, out=s)
    return out


_CELLS = {
    "relu": Cell((1,), _relu, _relu_back),
    "tanh": Cell((1,), _tanh, _tanh_back),
    "lstm": Cell((0.5, 0.5, 1, 0.5), _lstm, _lstm_back),
    "gru": Cell((0.5, 0.5, 1), _gru, _gru_back),
}
_SAVED: dict[str, Callable[..., tuple[Array, ...]]] = {  # what each way back takes, packed
    "relu": lambda h, y, gates, inner, c: (y,),
    "tanh": lambda h, y, gates, inner, c: (y,),
    "lstm": lambda h, y, gates, inner, c: (gates, inner, c()),
    "gru": lambda h, y, gates, inner, c: (gates, inner, h, np.empty_like(h)),
}
KERNELS: dict[str, Callable[..., Any]] = {"recurrence": recurrence, "recurrence_grads": recurrence_grads}
