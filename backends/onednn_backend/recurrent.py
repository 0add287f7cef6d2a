"""Recurrent layers of "lstm" and "gru" cells: all steps by one primitive, and all steps back by another.

What the first one notes for the second, oneDNN's workspace, travels in `gates`, and the last state in `inner`.  oneDNN's lstm is ours;
its gru has the same formula, but its gates are update, reset, new, and it takes the sum of both biases where no reset comes between.
The cells without gates are NumPy's: its loop is nearly as fast, keeps nothing, and its relu keeps NaN.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Array, Shape, recurrent_parts
from . import binding
from .arrays import MOST, described
from .binding import BIAS, DIFF, DST, SRC, WEIGHTS, WORKSPACE, Handle
from .primitives import Primitive, Unsupported, or_unsupported, ready

_BIASES = 4  # of either cell, each of `hidden` numbers
_LEFT_TO_RIGHT, _RIGHT_TO_LEFT = 1, 2
_OVERWRITE = 1  # the weights' gradients are not added to what lies there


class Cell(NamedTuple):
    """One kind of step, as oneDNN has it."""

    gates: list[int]  # which of our gates each of its is, and the other way round
    biases: list[int]  # which of its biases the state's bias of each of its gates goes to; the input's goes to that of the gate
    states: int
    unused: int  # matrices that oneDNN could multiply more: peepholes and a projection
    forward: Callable[..., Handle]
    backward: Callable[..., Handle]


_CELLS = {
    "lstm": Cell([0, 1, 2, 3], [0, 1, 2, 3], 2, 2, binding.lstm_forward, binding.lstm_backward),
    "gru": Cell([1, 0, 2], [0, 1, 3], 1, 0, binding.gru_forward, binding.gru_backward),
}


_NAME = "rnn"

# -- workspaces.  They are large, and memory fresh from the system costs a third of the time that the layer takes, so the last ones stay
_KEPT = 1 << 28  # bytes together
_free: deque[Array] = deque()


class _Lent:
    """Memory that can be used again when the last array in it is gone."""

    def __init__(self, memory: Array) -> None:
        self.memory, self.__array_interface__ = memory, memory.__array_interface__

    def __del__(self) -> None:
        if self.memory.size + sum(free.size for free in list(_free)) <= _KEPT:
            _free.append(self.memory)


def _workspace(key: tuple[Any, ...]) -> Array:
    """What the primitive of this key notes, whose size is the same for any number of threads.  Raises Unsupported."""
    count = binding.size(binding.workspace_description(ready(_forward, *key).description))
    for _ in range(len(_free)):
        try:
            memory = _free.popleft()
        except IndexError:  # another thread took it
            break
        if count <= memory.size < 2 * count:
            return np.asarray(_Lent(memory))[:count]
        _free.append(memory)
    return np.asarray(_Lent(np.empty(count, np.uint8)))


# -- primitives
class Case:
    """What the primitives of one layer have in common."""

    def __init__(self, kind: str, steps: int, sequences: int, width: int, hidden: int, reverse: bool) -> None:
        self.cell, self.direction = _CELLS[kind], _RIGHT_TO_LEFT if reverse else _LEFT_TO_RIGHT
        count, state = len(self.cell.gates), described((1, 1, sequences, hidden), False)
        self.states = [state] * self.cell.states
        self.x, self.y = (described((steps, sequences, n), False) for n in (width, hidden))
        self.bias = described((1, 1, _BIASES, hidden), False)
        shapes = [(1, 1, n, count, hidden) for n in (width, hidden)]
        self.own_weights = [binding.described(shape) for shape in shapes]
        self.weights = [binding.described(s, (count * hidden * s[2], count * hidden * s[2], 1, hidden * s[2], s[2])) for s in shapes]

    def tensors(self) -> list[Handle | None]:
        return [self.x, *self.states, *self.own_weights, *[None] * self.cell.unused, self.bias, self.y, *self.states]

    def forward(self) -> Handle:
        return self.cell.forward(binding.TRAINING, self.direction, *self.tensors(), 0, binding.attributes())

    def backward(self, hint: Handle) -> Handle:
        tensors = self.tensors() * 2  # and their cotangents
        return self.cell.backward(binding.BACKWARD, self.direction, *tensors, _OVERWRITE, hint, binding.attributes())

    def inputs(self) -> list[tuple[int, Handle | None]]:
        states = [(SRC + 1 + i, None) for i in range(self.cell.states)]
        return [(SRC, None), *states, *((WEIGHTS + i, w) for i, w in enumerate(self.weights)), (BIAS, None)]

    def results(self) -> list[tuple[int, Handle | None]]:
        return [(DST + i, None) for i in range(1 + self.cell.states)]


def _cotangents(arguments: list[tuple[int, Handle | None]]) -> list[tuple[int, Handle | None]]:
    return [(DIFF + argument, lies) for argument, lies in arguments]


@or_unsupported
def _forward(*key: Any) -> Primitive:
    case = Case(*key)
    arguments = [*case.inputs(), *case.results(), (WORKSPACE, None)]
    return Primitive(case.forward(), arguments, [a for a, _ in (*case.results(), (WORKSPACE, None))], name=_NAME)


@or_unsupported
def _backward(*key: Any) -> Primitive:
    case = Case(*key)
    hint, found = case.forward(), _cotangents(case.inputs())
    arguments = [*case.inputs(), *case.results(), (WORKSPACE, None), *_cotangents(case.results()), *found]
    return Primitive(case.backward(hint), arguments, [a for a, _ in found], kept=[hint], name=_NAME)


# -- kernels
def recurrence(
    k: Any, x: Array, w: Array, state: Array, cell: str, sizes: Shape, reverse: bool, skip: bool, keep: bool
) -> tuple[Array, Array, Array, Array]:
    args = (x, w, state, cell, sizes, reverse, skip)
    if why := _unfit(*args):
        return k.leave("recurrence", why, *args, keep)
    y, final, key = np.empty((len(x), state.shape[2]), np.float32), np.empty(state.shape, np.float32), _key(x, state, cell, sizes, reverse)
    try:
        workspace = _workspace(key)
        k.run(_forward, key, (*_inputs(x, w, state, cell), y, *final, workspace), sums=True)
    except Unsupported as e:
        return k.leave("recurrence", str(e), *args, keep)
    return (y, final, workspace, final.copy()) if keep else (y, final, np.empty(0, np.uint8), np.empty(0, np.float32))


def recurrence_grads(
    k: Any, dy: Array, dfinal: Array, x: Array, w: Array, state: Array, y: Array, gates: Array, inner: Array,
    cell: str, sizes: Shape, reverse: bool, skip: bool, with_x: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    args, why, ours = (x, w, state, cell, sizes, reverse, skip), "NumPy went forward", gates.dtype == np.uint8
    if ours and not (why := _unfit(*args, (dy, y), (dfinal,))):
        try:
            dx, *others = _back(k, dy, dfinal, x, w, state, y, gates, inner, cell, sizes, reverse)
            return dx if with_x else np.empty((0, x.shape[1]), np.float32), *others
        except Unsupported as e:
            why = str(e)
    if ours:  # NumPy needs what its own kernel keeps
        gates, inner = k.leave("recurrence", why, *args, True)[2:]
    return k.leave("recurrence_grads", why, dy, dfinal, x, w, state, y, gates, inner, *args[3:], with_x)


def _back(
    k: Any, dy: Array, dfinal: Array, x: Array, w: Array, state: Array, y: Array, workspace: Array, final: Array,
    cell: str, sizes: Shape, reverse: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    given, results, kind = _inputs(x, w, state, cell), map(np.ascontiguousarray, (y, *final, workspace, dy, *dfinal)), _CELLS[cell]
    dx, *dstate, dw_x, dw_h, db = found = [np.empty(a.shape, np.float32) for a in given]
    k.run(_backward, _key(x, state, cell, sizes, reverse), (*given, *results, *found), sums=True)
    dw = [part.take(kind.gates, 0).reshape(-1) for part in (dw_x, dw_h, db, db[kind.biases])]
    return dx, np.concatenate(dw), np.stack(dstate)


def _key(x: Array, state: Array, cell: str, sizes: Shape, reverse: bool) -> tuple[Any, ...]:
    return cell, len(sizes), sizes[0], x.shape[1], state.shape[2], reverse


def _inputs(x: Array, w: Array, state: Array, cell: str) -> list[Array]:
    """x, the states, the input's matrices, the state's and the biases as oneDNN takes them."""
    kind, hidden = _CELLS[cell], state.shape[2]
    parts = recurrent_parts(len(kind.gates), x.shape[1], hidden, False)
    w_x, w_h, b_x, b_h = (w[part].reshape(len(kind.gates), hidden, -1).take(kind.gates, 0) for part, _ in parts)
    bias = np.zeros((_BIASES, hidden, 1), np.float32)
    bias[: len(kind.gates)] += b_x
    bias[kind.biases] += b_h
    return [np.ascontiguousarray(x), *np.ascontiguousarray(state), w_x, w_h, bias]


def _unfit(
    x: Array, w: Array, state: Array, cell: str, sizes: Shape, reverse: bool, skip: bool,
    by_step: Sequence[Array] = (), by_sequence: Sequence[Array] = (),
) -> str:  # fmt: skip
    """Why oneDNN can't compute with these arrays, or ""; `by_step` must be shaped like y, and `by_sequence` like the state."""
    if cell not in _CELLS:
        return "a cell without gates, for which NumPy is nearly as fast"
    if skip or len(set(sizes)) != 1:
        return "x without matrices" if skip else "sequences of several lengths"
    if any(a.dtype != np.float32 for a in (x, w, state, *by_step, *by_sequence)):
        return "not float32"
    (rows, width), hidden, count = x.shape, state.shape[2], len(_CELLS[cell].gates)
    if 0 in (x.size, state.size):
        return "empty"
    if max(rows * _BIASES * hidden, x.size, w.size) >= MOST:
        return "2^31 elements or more"
    fits = rows == len(sizes) * sizes[0] and state.shape[:2] == (_CELLS[cell].states, sizes[0])
    fits &= w.shape == (count * hidden * (width + hidden + 2),) and all(a.shape == state.shape for a in by_sequence)
    return "" if fits and all(a.shape == (rows, hidden) for a in by_step) else "shapes that don't fit"


KERNELS: dict[str, Callable[..., Any]] = {"recurrence": recurrence, "recurrence_grads": recurrence_grads}
