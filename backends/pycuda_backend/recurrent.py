"""Recurrent layers: all steps of one layer in one direction, and their gradients.

The input's product is one for all steps, and so are those that give the weights' gradients.  A step is the recurrent product and one
launch of the cell, forward as back.  Halves are computed in float32, as NumPy's kernels do: rounding would add up from step to step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Array, Shape, packed_steps, recurrent_parts
from .array import DeviceArray, empty, row_major, view
from .elementwise import Rule
from .launch import blocks_for, c_type, threads_for
from .transfer import copy_into, dense

_GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
_FORWARD, _BACKWARD = "P" * 9 + "iiii", "P" * 14 + "iiii"  # the arguments of the unit's functions
_SUM = Rule(lambda table, a, b: table.add(a, b), lambda: True, "sum of cotangents")


def recurrence(
    k: Any, x: DeviceArray, w: DeviceArray, state: DeviceArray, cell: str, sizes: Shape, reverse: bool, skip: bool, keep: bool
) -> tuple[Array, Array, Array, Array]:
    check(x, w, state, cell, sizes, skip)
    (x, w, state), dtype = _computed_in(k, x, w, state)
    rows, hidden, count = len(x), state.shape[2], _GATES[cell]
    w_x, w_h, b_x, b_h = _parts(w, cell, x.shape[1], hidden, skip)
    kept = rows if keep and count > 1 else 0  # y is enough for cells without gates
    z = x if skip else dense(k.matmul(x, _transposed(w_x)))
    gates = z if kept and not skip else empty((kept, count * hidden), x.dtype)
    state, y, inner, by_state = _owned(state), empty((rows, hidden), x.dtype), empty((kept, hidden), x.dtype), _transposed(w_h)
    h, c = state.address, _row(state, 1) if cell == "lstm" else 0
    step = k.kernel("recurrent", f"{cell}_forward", _FORWARD, TYPE=c_type(x.dtype))
    for part, n in packed_steps(sizes, reverse):
        v = k.matmul(_rows(state, slice(n)), by_state)
        note = [_row(a, part.start) for a in (gates, inner)] if kept else [0, 0]
        _launch(
            step, n * hidden, _row(y, part.start), h, c, *note, _row(z, part.start), v, b_x, b_h,
            n, hidden, z.shape[1], 0 if skip else hidden,
        )  # fmt: skip
    return k.astype(y, dtype), k.astype(state, dtype), gates, inner


def recurrence_grads(
    k: Any, dy: DeviceArray, dfinal: DeviceArray, x: DeviceArray, w: DeviceArray, state: DeviceArray, y: DeviceArray,
    gates: DeviceArray, inner: DeviceArray, cell: str, sizes: Shape, reverse: bool, skip: bool, with_x: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    (x, w, state, y, dy, dfinal), dtype = _computed_in(k, x, w, state, y, dy, dfinal)
    hidden = state.shape[2]
    w_x, w_h, _, _ = _parts(w, cell, x.shape[1], hidden, skip)
    steps = packed_steps(sizes, reverse)
    kept = [dense(k.astype(a, y.dtype)) for a in (gates, inner)]
    d, dz, before, of_input = _back(k, dy, _owned(dfinal), w_h, state, (y, *kept), cell, steps)
    dw_h, db_h = k.matmul(_transposed(dz), before), k.sum(dz, 0, False)
    if of_input is not None:
        copy_into(view(dz, of_input.shape, dz.strides, 2 * hidden * dz.itemsize), of_input)
    dw_x = None if skip else k.matmul(_transposed(dz), x)
    dw = _flat(w, [dw_x, dw_h, k.sum(dz, 0, False), db_h], cell, x.shape[1], hidden, skip)
    if not with_x:
        dx = empty((0, x.shape[1]), x.dtype)
    else:
        dx = k.sum(k.reshape(dz, (len(x), _GATES[cell], hidden)), 1, False) if skip else k.matmul(dz, w_x)
    return k.astype(dx, dtype), k.astype(dw, dtype), k.astype(d, dtype)


def _back(
    k: Any, dy: DeviceArray, d: DeviceArray, w_h: DeviceArray, state: DeviceArray, saved: tuple[DeviceArray, ...], cell: str,
    steps: list[tuple[slice, int]],
) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray | None]:  # fmt: skip
    """From the last step to the first: the cotangents of the state at the start, in d, which is that of the last, and of the state's
    part of all gates; the states before the steps; and for gru, whose new gate's input has one of its own, that cotangent."""
    y, _, inner = saved
    hidden = y.shape[1]
    dz, before = empty((len(y), _GATES[cell] * hidden), y.dtype), empty(y.shape, y.dtype)
    of_input = empty(y.shape, y.dtype) if cell == "gru" else None
    dc, start_c = (_row(d, 1), _row(state, 1)) if cell == "lstm" else (0, 0)
    step = k.kernel("recurrent", f"{cell}_back", _BACKWARD, TYPE=c_type(y.dtype))
    product, arrived = d, 0  # of the recurrent product of the step behind: it is added by the launch that follows
    for (part, n), (earlier, running) in zip(steps[::-1], [*steps[-2::-1], (slice(0, 0), 0)], strict=False):
        _launch(
            step, max(n, arrived) * hidden, d, dc, *[_row(a, part.start) for a in (dz, of_input, before)], product,
            *[_row(a, part.start) for a in (dy, *saved)], _row(y, earlier.start), _row(inner, earlier.start), state, start_c,
            n, arrived, running, hidden,
        )  # fmt: skip
        product, arrived = k.matmul(_rows(dz, part), w_h), n
    if arrived:
        into = _rows(d, slice(arrived))
        _SUM.into((into,), into, product)
    return d, dz, before, of_input


def _launch(function: Any, count: int, *args: Any) -> None:
    if count:
        function(blocks_for(count), threads_for(count), *args)


# -- arrays and parts of them
def check(x: DeviceArray, w: DeviceArray, state: DeviceArray, cell: str, sizes: Shape, skip: bool) -> None:
    """Raise ValueError for shapes that don't fit: a kernel would read what is not theirs."""
    hidden, parts, sizes = state.shape[-1], 2 if cell == "lstm" else 1, tuple(map(int, sizes))
    length = recurrent_parts(_GATES[cell], x.shape[-1], hidden, skip)[-1][0].stop
    expected = {"w": (w, (length,)), "state": (state, (parts, sizes[0] if sizes else state.shape[1], hidden))}
    expected["x"] = x, (sum(sizes), hidden if skip else x.shape[-1])
    for name, (a, shape) in expected.items():
        if a.shape != shape:
            raise ValueError(f"recurrence: {name} has shape {a.shape}, and {shape} is needed for {cell} of {hidden} and steps of {sizes}")


def _computed_in(k: Any, *arrays: DeviceArray) -> tuple[list[DeviceArray], np.dtype[Any]]:
    """The arrays dense and in the dtype to compute in, and that of the results."""
    dtype = np.result_type(*[a.dtype for a in arrays])
    dtype = dtype if dtype.kind not in "biu" else np.dtype(np.float64)
    inside = dtype if dtype.itemsize > 2 else np.dtype(np.float32)
    return [dense(k.astype(a, inside)) for a in arrays], dtype


def _owned(x: DeviceArray) -> DeviceArray:
    """A dense copy, to be written to."""
    y = empty(x.shape, x.dtype)
    copy_into(y, x)
    return y


def _parts(w: DeviceArray, cell: str, width: int, hidden: int, skip: bool) -> list[DeviceArray]:
    """Views of w: the matrices of the input (empty if it is not multiplied) and of the state, and their biases."""
    parts = recurrent_parts(_GATES[cell], width, hidden, skip)
    return [view(w, shape, row_major(shape, w.itemsize), part.start * w.itemsize) for part, shape in parts]


def _flat(w: DeviceArray, values: list[DeviceArray | None], cell: str, width: int, hidden: int, skip: bool) -> DeviceArray:
    """An array like w made of its parts."""
    flat = empty(w.shape, w.dtype)
    for part, value in zip(_parts(flat, cell, width, hidden, skip), values, strict=True):
        if value is not None:
            copy_into(part, value)
    return flat


def _transposed(x: DeviceArray) -> DeviceArray:
    return view(x, x.shape[::-1], x.strides[::-1])


def _rows(x: DeviceArray, part: slice) -> DeviceArray:
    """Rows of a dense x, or of the first matrix of a stack."""
    first = part.start or 0
    return view(x, (part.stop - first, x.shape[-1]), x.strides[-2:], first * x.strides[-2])


def _row(x: DeviceArray | None, i: int) -> int:
    """The address of x[i], null if there is no x."""
    return 0 if x is None else x.address + i * x.strides[0]


KERNELS: dict[str, Callable[..., Any]] = {"recurrence": recurrence, "recurrence_grads": recurrence_grads}
