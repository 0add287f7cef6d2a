"""One recurrent layer in one direction as one operator, over all its steps; recurrent.py stacks them.

Its rule is an operator too, `recurrence_grads`: it goes back over the steps in one kernel, and has its own derivative from the
reference composition, which serves all higher orders.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from autotape import kernels, operator
from autotape.backends.kernels import packed_steps, recurrent_parts
from autotape.rows import dense
from autotape.tape import is_recording
from autotape.tensor import describe
from autotape.transforms import vjp

from ..array import concatenate, getitem, matmul, reshape, stack, tanh, transpose
from ..geometry import expect, whole_number
from .activations import relu, sigm

GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}


@operator(outputs="y final", constants="gates inner")
def recurrence(x, w, state, cell="lstm", sizes=(), reverse=False, skip=False):
    """One layer of a recurrent network in one direction: y (rows, H), its output at each step, and the final state, shaped like `state`.

    Sequences are packed: the rows of x (rows, X) are those of the first step, then those of the second, and so on; sizes says how
    many each step has, all of them at first and never more than the step before.  state (1, B, H) is where the B sequences start,
    of an lstm (2, B, H), the second being the cell's.  cell is "relu", "tanh", "lstm" (gates in, forget, new, out) or "gru" (reset,
    update, new); RNN has their formulas.  w is flat: for each gate a matrix (H, X) for x, for each one (H, H) for the state, for each
    a bias (H) of x's part, for each one of the state's.  `reverse` goes from each sequence's end to its start; `skip` adds x to every
    gate without a matrix.  Raises ValueError for shapes and options that don't fit.
    """
    check("recurrence", x.shape, w.shape, state.shape, cell, sizes, skip)
    return kernels().recurrence(x, w, state, cell, sizes, reverse, skip, is_recording())


@recurrence.reference
def composition(x, w, state, cell="lstm", sizes=(), reverse=False, skip=False):
    sequences, hidden = state.shape[1:]
    parts = recurrent_parts(GATES[cell], x.shape[1], hidden, skip)
    w_x, w_h, b_x, b_h = (reshape(getitem(w, part), shape) for part, shape in parts)
    from_x = (concatenate([x] * GATES[cell], 1) if skip else matmul(x, transpose(w_x))) + b_x
    states, ys = [getitem(state, i) for i in range(len(state))], []
    for part, n in packed_steps(sizes, reverse):
        held = [getitem(s, slice(0, n)) for s in states]
        new = CELLS[cell](getitem(from_x, part), matmul(held[0], transpose(w_h)) + b_h, *held)
        ys.append(new[0])
        states = new if n == sequences else [concatenate([s, getitem(old, slice(n, None))]) for s, old in zip(new, states, strict=True)]
    return concatenate(ys[::-1] if reverse else ys), stack(states)


@recurrence.backward
def _(dy, dfinal, x, w, state, y, gates, inner, needs, cell, sizes, reverse, skip):
    dy, dfinal = zeros_for(dy, y.shape, y.dtype), zeros_for(dfinal, state.shape, y.dtype)
    gx, gw, gstate = recurrence_grads(dy, dfinal, x, w, state, y, gates, inner, cell, sizes, reverse, skip, needs[0])
    return gx if needs[0] else None, gw, gstate


@operator(outputs="gx gw gstate", nondifferentiable="y gates inner")
def recurrence_grads(dy, dfinal, x, w, state, y, gates, inner, cell="lstm", sizes=(), reverse=False, skip=False, with_x=True):
    """The cotangents of recurrence's x (empty unless with_x), w and state for those of its two results; the other options are its own.

    y is its first result, gates and inner what its kernel kept.
    """
    check("recurrence_grads", x.shape, w.shape, state.shape, cell, sizes, skip)
    expect("recurrence_grads", "dy", dy.shape, (x.shape[0], state.shape[2]))
    expect("recurrence_grads", "dfinal", dfinal.shape, state.shape)
    expect("recurrence_grads", "y", y.shape, dy.shape)
    return kernels().recurrence_grads(dy, dfinal, x, w, state, y, gates, inner, cell, sizes, reverse, skip, with_x)


@recurrence_grads.backward
def _(dgx, dgw, dgstate, dy, dfinal, x, w, state, cell, sizes, reverse, skip, with_x):
    def gradients(dy, dfinal, x, w, state):
        _, pull = vjp(lambda x, w, state: composition(x, w, state, cell, sizes, reverse, skip), x, w, state)
        return pull((dy, dfinal))[0 if with_x else 1 :]

    given, inputs = (dgx, dgw, dgstate)[0 if with_x else 1 :], (x, w, state)[0 if with_x else 1 :]
    _, pull = vjp(gradients, dy, dfinal, x, w, state)
    pulled = pull(tuple(zeros_for(g, like.shape, like.dtype) for g, like in zip(given, inputs, strict=True)))
    return *pulled, None, None, None


def zeros_for(g, shape, dtype):
    """A cotangent, or zeros where nothing depends on its result."""
    return kernels().zeros(shape, dtype) if g is None else dense(g)


# ---------------------------------------------------------------- one step: from the parts of x and of the state, and the state


def lstm(from_x, from_h, h, c):
    i, f, g, o = gates_of(from_x + from_h, 4)
    c = sigm(f) * c + sigm(i) * tanh(g)
    return sigm(o) * tanh(c), c


def gru(from_x, from_h, h):
    (r, u, n), (r_h, u_h, n_h) = gates_of(from_x, 3), gates_of(from_h, 3)
    n, u = tanh(n + sigm(r + r_h) * n_h), sigm(u + u_h)
    return (n + u * (h - n),)


CELLS: dict[str, Callable[..., Any]] = {
    "relu": lambda from_x, from_h, h: (relu(from_x + from_h),),
    "tanh": lambda from_x, from_h, h: (tanh(from_x + from_h),),
    "lstm": lstm,
    "gru": gru,
}


def gates_of(x, count):
    n = x.shape[1] // count
    return [getitem(x, (slice(None), slice(i * n, (i + 1) * n))) for i in range(count)]


# ---------------------------------------------------------------- what fits


def check(name, x, w, state, cell, sizes, skip):
    """Raise ValueError unless shapes and options are as recurrence describes them."""
    if not isinstance(cell, str) or cell not in GATES:
        raise ValueError(f"{name}: cell {cell!r} is unknown: use one of {', '.join(map(repr, GATES))}")
    states = 2 if cell == "lstm" else 1
    if len(state) != 3 or state[0] != states or 0 in state:
        raise ValueError(f"{name}: state {state} must be ({states}, B, H) for B sequences and H hidden units, none of them 0")
    check_sizes(name, x, state[1], sizes)
    if skip and x[1] != state[2]:
        raise ValueError(f"{name}: skip adds x {x} to gates of {state[2]} hidden units, so it must have as many columns")
    if w != (expected := (recurrent_parts(GATES[cell], x[1], state[2], skip)[-1][0].stop,)):
        raise ValueError(f"{name}: w {w} must have the shape {expected} for x {x}, {state[2]} hidden units and cell {cell!r}")


def check_sizes(name, x, sequences, sizes):
    sizes = whole_numbers(name, "sizes", sizes)
    falls = all(a >= b for a, b in itertools.pairwise(sizes))
    if len(x) != 2 or not sizes or not falls or sizes[0] != sequences or sizes[-1] < 1 or sum(sizes) != x[0]:
        expected = f"one for each of the {sequences} sequences at first, then never more than before and at least 1"
        raise ValueError(f"{name}: sizes must say how many of the rows of x {x} each step has, {expected}, all in all; got {sizes}")


def whole_numbers(name, option, sizes):
    """How many rows each step has, as a tuple."""
    if not isinstance(sizes, Iterable):
        raise TypeError(f"{name}: {option} must be whole numbers, the rows of each step, got {describe(sizes)}")
    return tuple(whole_number(name, f"each of {option}", n) for n in sizes)
