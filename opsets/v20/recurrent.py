"""Recurrent networks: RNN, layers of recurrence in one or both directions, and its weights by name."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from autotape import Param, io, kernels, random, tree
from autotape.folding import carries
from autotape.tensor import adopt, describe

from ..array import concatenate, getitem, reshape
from ..array.shapes import dtype_of, shape_of
from ..geometry import REAL, real_number, whole_number
from .dropouts import dropout
from .recurrence import GATES, recurrence, whole_numbers


class RNN:
    """A recurrent network: r(x) gives the output of its last layer at each step.  Knet's RNN, with cuDNN's weights and formulas.

        r = RNN(256, 128)                      # an lstm
        y = r(x)                               # x (T, B, 256): T steps of B sequences; y (T, B, 128)

    x may also be (B, X), one step, or (X,), one step of one sequence; y has as many axes.  The last axis of y is hidden_size long,
    twice that where the network is bidirectional (forward, then backward).

    Sequences of different lengths are packed: r(x, batch_sizes=(3, 3, 1)) takes x (7, X), the rows of the first step, then those of the
    second, and so on.  The longest sequence comes first, so batch_sizes never grow.  y is packed likewise.

    The state: `h`, and of an lstm `c`, is None (start at zero and discard the final state), 0 (start at zero and carry on: it becomes
    the final state, from which the next call starts), or an array (layers, B, hidden_size) to start from, carried on too; it may be set
    at any time.  A carried state is part of the graph of a tape that is still open, and a constant to later ones.  A network taken
    apart and rebuilt as a tree shares its state with the original.  Through checkpoint it is carried once, and differentiated.

    rnn_type: x is the input or the output of the layer below, W and R matrices, a and b biases, * is elementwise,

        "relu", "tanh"   h' = f(W x + a + R h + b)
        "lstm"           i, f, o = sigm(W x + a + R h + b); n = tanh(W x + a + R h + b); c' = f * c + i * n; h' = o * tanh(c')
        "gru"            r, u = sigm(W x + a + R h + b); n = tanh(W x + a + r * (R h + b)); h' = (1 - u) * n + u * h

    num_layers: each takes the output of the one below.  dropout: the share of each layer's output that the next one does not get
    in training.  skip_input: the first layer adds x, then hidden_size wide, to each gate without a matrix.

    The weights, `w`, are one flat Param; rnnparam gives the matrices and biases in it.  winit and binit give their first values, as
    init(*dims, dtype=dtype): Xavier's uniform ones and zeros by default; finit those of an lstm's forget gates (the input's bias), ones.
    An RNN is a tree whose leaf is w.  Raises ValueError for options that don't fit, and when called for shapes that don't.
    """

    def __init__(
        self, input_size, hidden_size, *, h=None, c=None, rnn_type="lstm", num_layers=1, bidirectional=False, dropout=0, skip_input=False,
        winit=None, binit=None, finit=None, dtype=np.float32,
    ):  # fmt: skip
        self.configure(input_size, hidden_size, rnn_type, num_layers, bidirectional, dropout, skip_input)
        self._state = SimpleNamespace(h=h, c=c)
        check_states("RNN", self, h, c)
        self.w: Any = Param(first_weights(self, {"winit": winit, "binit": binit, "finit": finit}, np.dtype(dtype)))

    def configure(self, input_size, hidden_size, rnn_type, num_layers, bidirectional, dropout, skip_input):
        if not isinstance(rnn_type, str) or rnn_type not in GATES:
            raise ValueError(f"RNN: rnn_type {rnn_type!r} is unknown: use one of {', '.join(map(repr, GATES))}")
        self.input_size, self.hidden_size = positive("input_size", input_size), positive("hidden_size", hidden_size)
        self.rnn_type, self.num_layers = rnn_type, positive("num_layers", num_layers)
        self.bidirectional, self.dropout, self.skip_input = bool(bidirectional), real_number("RNN", "dropout", dropout), bool(skip_input)
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"RNN: dropout must be a probability from 0 to 1, got {dropout!r}")
        if skip_input and input_size != hidden_size:
            raise ValueError(f"RNN: with skip_input, input_size must be hidden_size; they are {input_size} and {hidden_size}")

    def __call__(self, x, *, batch_sizes=None):
        carries(self._state)
        y, h, c = rnnforw(self, self.w, x, self.h, self.c, batch_sizes=batch_sizes)
        if self.h is not None:
            self.h = h
        if self.c is not None:
            self.c = c
        return y

    @property
    def h(self):
        """The output's state (layers, B, hidden_size), 0 or None."""
        return self._state.h

    @h.setter
    def h(self, h):
        self._state.h = h

    @property
    def c(self):
        """An lstm's cell state (layers, B, hidden_size), 0 or None."""
        return self._state.c

    @c.setter
    def c(self, c):
        self._state.c = c

    @property
    def state(self):
        """h and c, to save; setting it makes the network go on from there."""
        return {"h": self.h, "c": self.c}

    @state.setter
    def state(self, state):
        if not isinstance(state, dict) or state.keys() != {"h", "c"}:
            raise ValueError(f"a network's state is {{'h': ..., 'c': ...}}, not {state!r}")
        self.h, self.c = state["h"], state["c"]

    @property
    def layers(self):
        """How many layers there are, one that goes both ways counting as two: forward, then backward."""
        return self.num_layers * (2 if self.bidirectional else 1)

    @property
    def options(self):
        """What shapes it, by RNN's names."""
        names = ("input_size", "hidden_size", "rnn_type", "num_layers", "bidirectional", "dropout", "skip_input")
        return {name: getattr(self, name) for name in names}

    def __repr__(self):
        more = {name: value for name, value in self.options.items() if value != DEFAULTS.get(name)}
        return f"RNN({', '.join(f'{name}={value!r}' for name, value in more.items())})"


DEFAULTS = {"num_layers": 1, "bidirectional": False, "dropout": 0, "skip_input": False}


def with_weights(r, children):
    new = copy.copy(r)  # whose state is r's own
    new.w = children[0]
    return new


def to_save(r):
    return {"options": r.options, "w": r.w, "h": r.h, "c": r.c}


def saved(parts):
    r = object.__new__(RNN)  # without drawing weights
    r.configure(**parts["options"])
    r.w, r._state = parts["w"], SimpleNamespace(h=parts["h"], c=parts["c"])
    return r


tree.register(RNN, lambda r: (r.w,), with_weights)
io.register(RNN, "v20.RNN", to_save, saved)


def rnninit(input_size, hidden_size, **options):
    """A network without weights, and its weights, an array: (r, w) for rnnforw(r, w, x).  Arguments are RNN's.  Knet's rnninit."""
    r = RNN(input_size, hidden_size, **options)
    w, r.w = r.w.value, None
    return r, kernels().copy(w)


def rnnforw(r, w, x, h=None, c=None, *, batch_sizes=None):
    """(y, h, c): the output of network r with weights w, and its final state.  Knet's rnnforw.

    x, batch_sizes and y are RNN's.  h and c (layers, B, hidden_size) are the state to start from, zeros where they are None or 0; the
    final c is None unless r is an lstm.  r itself has no part in it but for its options.  Raises ValueError for shapes that don't fit.
    """
    check_weights("rnnforw", r, w)
    rows, sizes, shape = packed(r, x, batch_sizes)
    states, finals = first_states(r, h, c, sizes[0], dtype_of(w)), []
    for layer in range(r.num_layers):
        rows, ys = dropout(rows, r.dropout) if layer else rows, []
        for k in layer_numbers(r, layer):
            backward = r.bidirectional and k % 2 == 1
            y, final = recurrence(rows, layer_weights(r, w, k), states[k], r.rnn_type, sizes, backward, skips(r, k))
            ys.append(y)
            finals.append(final)
        rows = joined(ys, 1)
    h, c = (joined([getitem(f, slice(i, i + 1)) for f in finals], 0) if i < n_states(r) else None for i in (0, 1))
    return reshape(rows, (*shape[:-1], shape_of(rows)[1])), h, c


def joined(xs, axis):
    return concatenate(xs, axis) if len(xs) > 1 else xs[0]


def layer_numbers(r, layer):
    return (2 * layer, 2 * layer + 1) if r.bidirectional else (layer,)


def n_states(r):
    return 2 if r.rnn_type == "lstm" else 1


# ---------------------------------------------------------------- what goes in


def packed(r, x, batch_sizes):
    """x as the rows of a packed batch, the number of rows of each step, and the shape of x."""
    shape = shape_of(x)
    wanted = (2,) if batch_sizes is not None else (1, 2, 3)
    if len(shape) not in wanted or shape[-1] != r.input_size or 0 in shape:
        forms = "(rows, X), beside batch_sizes" if batch_sizes is not None else "(T, B, X), (B, X) or (X,)"
        raise ValueError(f"rnnforw: x {shape} must be {forms}, where X is {r.input_size} and no axis is empty")
    if batch_sizes is not None:
        return x, ragged(shape, batch_sizes), shape
    steps, sequences = (1, 1, *shape[:-1])[-2:]
    return (x if len(shape) == 2 else reshape(x, (steps * sequences, shape[-1]))), (sequences,) * steps, shape


def ragged(shape, batch_sizes):
    sizes = whole_numbers("rnnforw", "batch_sizes", batch_sizes)
    if not sizes or sizes[-1] < 1 or sorted(sizes, reverse=True) != list(sizes) or sum(sizes) != shape[0]:
        raise ValueError(
            f"rnnforw: batch_sizes must be the number of rows of each step, at least 1 and never growing, together the {shape[0]} rows of "
            f"x {shape}; got {sizes}, together {sum(sizes)}"
        )
    return sizes


def first_states(r, h, c, sequences, dtype):
    """The state that each layer starts from, as recurrence takes it."""
    check_states("rnnforw", r, h, c, sequences)
    empty = kernels().zeros((1, sequences, r.hidden_size), dtype)
    given = [None if is_zero(s) else s for s in (h, c)[: n_states(r)]]
    return [joined([empty if s is None else getitem(s, slice(k, k + 1)) for s in given], 0) for k in range(r.layers)]


def check_states(name, r, h, c, sequences=None):
    """Raise ValueError unless h and c are None, 0, or arrays that fit; sequences None stands for any number of them."""
    if c is not None and r.rnn_type != "lstm":
        raise ValueError(f"{name}: c is an lstm's cell state; rnn_type {r.rnn_type!r} has none")
    for state_name, state in (("h", h), ("c", c)):
        if is_zero(state):
            continue
        shape = getattr(state, "shape", None)
        expected = f"(layers, B, hidden_size), ({r.layers}, {'B' if sequences is None else sequences}, {r.hidden_size})"
        if shape is None:
            raise TypeError(f"{name}: {state_name} must be None, 0 or an array {expected}, got {describe(state)}")
        if tuple(shape) != (r.layers, (*shape, 0, 0)[1] if sequences is None else sequences, r.hidden_size):
            raise ValueError(f"{name}: {state_name} {tuple(shape)} must be {expected}; None or 0 starts at zero")


def is_zero(state):
    return state is None or (isinstance(state, REAL) and not isinstance(state, bool) and state == 0)


# ---------------------------------------------------------------- the weights: the matrices of all layers, then all biases


def rnnparam(r, layer, id, param, w=None):
    """One matrix or bias of a network's weights.  Knet's rnnparam; numbers start at 1.

    layer: from 1 to num_layers; where the network is bidirectional to twice that, 1 being forward, 2 backward, and so on.  id: the
    gate, first the input's, then those of the state: for "relu" and "tanh" 1 and 2; for "lstm" 1 to 4 in, forget, new, out, and 5 to 8;
    for "gru" 1 to 3 reset, update, new, and 4 to 6.  param: 1 is the matrix (hidden_size, inputs), 2 the bias (hidden_size,).

    w: weights other than r.w, such as its gradient.  The result is of NumPy's arrays a view; of a matrix that skip_input leaves out None.
    """
    w = r.w if w is None else w
    check_weights("rnnparam", r, w)
    part, shape = place(r, layer, id, param)
    return reshape(getitem(w, part), shape) if 0 not in shape else None


def rnnparams(r, w=None):
    """All that rnnparam gives: the matrices, layer by layer, then the biases.  Knet's rnnparams."""
    return [rnnparam(r, layer, id, param, w) for layer, id, param in all_numbers(r)]


def all_numbers(r):
    """(layer, id, param) of every matrix and bias, in the order in which they lie in the weights."""
    ids = range(1, 2 * GATES[r.rnn_type] + 1)
    return [(layer, id, param) for param in (1, 2) for layer in range(1, r.layers + 1) for id in ids]


def place(r, layer, id, param):
    """Where a matrix or bias lies in the weights, and its shape; (hidden_size, 0) if skip_input leaves it out."""
    gates, n = GATES[r.rnn_type], r.hidden_size
    for name, value, most in (("layer", layer, r.layers), ("id", id, 2 * gates), ("param", param, 2)):
        if not 1 <= whole_number("rnnparam", name, value) <= most:
            raise ValueError(f"rnnparam: {name} must be from 1 to {most} for {r}, got {value}")
    matrices, biases = layer_parts(r, layer - 1)
    if param == 2:
        return slice(biases.start + (id - 1) * n, biases.start + id * n), (n,)
    columns = width(r, layer - 1) if id <= gates else n
    start = matrices.start + (id - 1) * n * columns if id <= gates else matrices.stop - (2 * gates - id + 1) * n * n
    return slice(start, start + n * columns), (n, columns)


def skips(r, k):
    """Whether layer k (from 0) has no matrices for its input."""
    return r.skip_input and k in layer_numbers(r, 0)


def width(r, k):
    """How many columns the matrices for the input of layer k have."""
    first = k in layer_numbers(r, 0)
    return 0 if skips(r, k) else r.input_size if first else r.hidden_size * (2 if r.bidirectional else 1)


def layer_parts(r, k):
    """Where the matrices and the biases of layer k lie in the weights."""
    rows = GATES[r.rnn_type] * r.hidden_size
    ends = [sum(rows * (width(r, j) + r.hidden_size) for j in range(i)) for i in (k, k + 1, r.layers)]
    start = ends[-1] + 2 * rows * k
    return slice(ends[0], ends[1]), slice(start, start + 2 * rows)


def layer_weights(r, w, k):
    """The weights of layer k as recurrence takes them; a single layer's are all."""
    return w if r.layers == 1 else concatenate([getitem(w, part) for part in layer_parts(r, k)])


def check_weights(name, r, w):
    if not isinstance(r, RNN):
        raise TypeError(f"{name}: r must be an RNN, got {describe(r)}")
    if w is None:
        raise ValueError(f"{name}: w is None; pass r.w, or the weights that rnninit gave beside {r}")
    size = layer_parts(r, r.layers - 1)[1].stop
    if (shape := shape_of(w)) != (size,):
        raise ValueError(f"{name}: w {shape} must have the shape {(size,)} for {r}")


def first_weights(r, inits, dtype):
    if dtype.kind != "f":
        raise TypeError(f"RNN: dtype must be of floats, not {dtype}")
    parts = []
    for layer, id, param in all_numbers(r):
        _, shape = place(r, layer, id, param)
        name = "winit" if param == 1 else "finit" if r.rnn_type == "lstm" and id == 2 else "binit"
        init = USUAL[name] if inits[name] is None else inits[name]
        parts.append(first_values(name, init, shape, dtype) if 0 not in shape else np.empty(0, dtype))
    return np.concatenate(parts)


def first_values(name, init, shape, dtype):
    """One matrix or bias, flat."""
    if not callable(init):
        raise TypeError(f"RNN: {name} must be a function, called as {name}(*dims, dtype=dtype), got {describe(init)}")
    k, value = kernels(), init(*shape, dtype=dtype)
    if shape_of(value) != shape or dtype_of(value).kind not in "biuf":
        raise ValueError(f"RNN: {name} must give an array of real numbers of shape {shape}, not {describe(value)}")
    return k.to_numpy(adopt(value, k)).reshape(-1).astype(dtype)


def xavier_uniform(*dims, dtype):
    limit = math.sqrt(6 / sum(dims))
    return random.uniform(dims, -limit, limit, dtype)


def zeros(*dims, dtype):
    return kernels().zeros(dims, dtype)


def ones(*dims, dtype):
    return kernels().ones(dims, dtype)


USUAL: dict[str, Callable[..., Any]] = {"winit": xavier_uniform, "binit": zeros, "finit": ones}


def positive(name, value):
    if isinstance(value, bool) or (n := whole_number("RNN", name, value)) < 1:
        raise ValueError(f"RNN: {name} must be a whole number of at least 1, got {value!r}")
    return n
