"""Recurrent layers: one layer in one direction, on packed sequences.

The weight space holds the input matrices of all gates, their recurrent matrices, and the biases in the same order.  A forward pass for
training leaves in the reserve space what each step computed; the backward pass by the data writes the gates' cotangents over it, as the
real one may, so it can run once for each forward pass, and the pass by the weights only after it.
"""

import ctypes
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import descriptors
from .calls import Calls
from .descriptors import Tensor
from .memory import Operand, check_range, output, scratch, space
from .real import real
from .refusal import bad, require, unsupported

CALLS = Calls()
_GATES = (1, 1, 4, 3)  # of relu, tanh, lstm, gru
RELU, TANH, LSTM, GRU = range(4)
_PACKED = 1
_TRAINING = 1
_BIASES = ((), ("input",), ("input", "recurrent"), ("recurrent",))  # of each bias mode
_AFTER_FORWARD, _AFTER_DATA = 0x0F0D0000, 0x0F0D0001  # what a reserve space begins with


# -- cells: a step from its input's and its state's products, (n, gates, hidden) each, and back
def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Cell(NamedTuple):
    forward: Any  # (a, r, h, c) -> (h, c, what to keep)
    backward: Any  # (kept, dh, dc) -> (da, dr, dh, dc)


def _plain(f, slope):
    def forward(a, r, h, c):
        y = f(a[:, 0] + r[:, 0])
        return y, c, [y]

    def backward(kept, dh, dc):
        dz = (dh * slope(kept[:, 0]))[:, None]
        return dz, dz, 0, dc

    return Cell(forward, backward)


def _lstm_forward(a, r, h, c):
    z = a + r
    i, f, n, o = _sigmoid(z[:, 0]), _sigmoid(z[:, 1]), np.tanh(z[:, 2]), _sigmoid(z[:, 3])
    new = f * c + i * n
    return o * np.tanh(new), new, [i, f, n, o, new, c]


def _lstm_backward(kept, dh, dc):
    i, f, n, o, new, c = np.moveaxis(kept[:, :6], 1, 0)
    t = np.tanh(new)
    dc = dc + dh * o * (1 - t * t)
    dz = np.stack([dc * n * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - n * n), dh * t * o * (1 - o)], axis=1)
    return dz, dz, 0, dc * f


def _gru_forward(a, r, h, c):
    reset, update = _sigmoid(a[:, 0] + r[:, 0]), _sigmoid(a[:, 1] + r[:, 1])
    new = np.tanh(a[:, 2] + reset * r[:, 2])
    return (1 - update) * new + update * h, c, [reset, update, new, r[:, 2], h]


def _gru_backward(kept, dh, dc):
    reset, update, new, r, h = np.moveaxis(kept[:, :5], 1, 0)
    dnew = dh * (1 - update) * (1 - new * new)
    dreset, dupdate = dnew * r * reset * (1 - reset), dh * (h - new) * update * (1 - update)
    return np.stack([dreset, dupdate, dnew], axis=1), np.stack([dreset, dupdate, dnew * reset], axis=1), dh * update, dc


_CELLS = {
    RELU: _plain(lambda z: np.maximum(z, 0), lambda y: y > 0),
    TANH: _plain(np.tanh, lambda y: 1 - y * y),
    LSTM: Cell(_lstm_forward, _lstm_backward),
    GRU: Cell(_gru_forward, _gru_backward),
}


# -- a layer as its descriptors say
class Layer(NamedTuple):
    rnn: descriptors.RNN

    @property
    def gates(self):
        return _GATES[self.rnn.cell]

    def parts(self):
        """{(which, gate, kind): (place, shape)}: places in elements from the weight space's start, and the place after the last."""
        found, at, hidden = {}, 0, self.rnn.hidden
        inputs = [] if self.rnn.input else [("input", self.rnn.input_size)]
        sides = [(which, (hidden, n), "matrix") for which, n in [*inputs, ("recurrent", hidden)]]
        sides += [(which, (hidden,), "bias") for which in _BIASES[self.rnn.bias]]
        for which, shape, kind in sides:
            for gate in range(self.gates):
                found[which, gate, kind] = at, shape
                at += prod(shape)
        return found, at

    def weight_bytes(self):
        return self.parts()[1] * self.rnn.dtype.itemsize

    def reserve_bytes(self, rows):
        return 16 + rows * 2 * self.gates * self.rnn.hidden * 8

    def work_bytes(self, rows):
        return 256 + rows * self.gates * self.rnn.hidden * self.rnn.dtype.itemsize

    def side(self, flat, which):
        """A side's matrix (gates * hidden, n), or None for the identity, and its bias (gates * hidden,)."""
        parts, _ = self.parts()
        taken = {
            kind: [flat[at : at + prod(shape)].reshape(shape) for (w, _, k), (at, shape) in parts.items() if (w, k) == (which, kind)]
            for kind in ("matrix", "bias")
        }
        bias = np.concatenate(taken["bias"]) if taken["bias"] else np.zeros(self.gates * self.rnn.hidden)
        return np.concatenate(taken["matrix"]) if taken["matrix"] else None, bias

    def by_gate(self, x):
        return x.reshape(len(x), self.gates, self.rnn.hidden)


def _layer(rnnDesc):
    rnn = descriptors.rnn(rnnDesc)
    if rnn.layers != 1 or rnn.direction or rnn.projected != rnn.hidden:
        raise unsupported("rnnDesc: the double has one layer in one direction, without projection")
    require(rnn.input == 0 or rnn.input_size == rnn.hidden, f"SKIP_INPUT: the input has {rnn.input_size} columns, the state {rnn.hidden}")
    return Layer(rnn)


def _steps(data):
    """(from, to) of the packed rows of each step."""
    ends = np.cumsum([sum(n > t for n in data.lengths) for t in range(max(data.lengths))])
    return [(int(end - sum(n > t for n in data.lengths)), int(end)) for t, end in enumerate(ends)]


def _data(layer, descriptor, name, columns):
    """A packed sequence's description."""
    found = descriptors.rnn_data(descriptor, name)
    if found.layout != _PACKED:
        raise unsupported(f"{name}: the double has packed sequences only")
    require(found.dtype == layer.rnn.dtype, f"{name} is {found.dtype}, and rnnDesc {layer.rnn.dtype}")
    require(found.vector == columns, f"{name} has vectors of {found.vector}, not {columns}")
    return found


def _rows(data):
    shape = (sum(data.lengths), data.vector)
    return Tensor(data.dtype, shape, (shape[1], 1))


def _state(layer, descriptor, name, batch):
    found, shape = descriptors.tensor(descriptor, name), (1, batch, layer.rnn.hidden)
    require(found.shape == shape, f"{name} has shape {found.shape}, not {shape}")
    require(found.strides == (shape[1] * shape[2], shape[2], 1), f"{name} has gaps: strides {found.strides}")
    require(found.dtype == layer.rnn.dtype, f"{name} is {found.dtype}, not {layer.rnn.dtype}")
    return found


def _check_lengths(lengths, data):
    if lengths is not None:
        check_range(lengths, 4 * len(data.lengths), "devSeqLengths", 4)


def _weights(layer, at, size, name="weightSpace"):
    need = layer.weight_bytes()
    require(size >= need, f"{name} has {size} bytes, and the weights {need}")
    n = need // layer.rnn.dtype.itemsize
    return Tensor(layer.rnn.dtype, (n,), (1,))


class States:
    """hx, cx and the like: of zeros where they are null, which LSTM alone has two of."""

    def __init__(self, layer, hDesc, cDesc, batch):
        self._layer, self._batch = layer, batch
        self._tensors = [_state(layer, hDesc, "hDesc", batch)]
        self._tensors += [_state(layer, cDesc, "cDesc", batch)] if layer.rnn.cell == LSTM else []

    def inputs(self, names, *at):
        """The operands of those that are given."""
        return [Operand(t, a, name) if a else None for t, a, name in zip(self._tensors, at, names, strict=False)]

    def values(self, operands):
        zeros = np.zeros((self._batch, self._layer.rnn.hidden))
        return [zeros.copy() if x is None else x.read()[0] for x in [*operands, None][:2]]

    def write(self, names, at, values, inputs):
        for t, a, name, value in zip(self._tensors, at, names, values, strict=False):
            if a:
                output(t, a, name, *(x for x in inputs if x is not None)).write(value[None])


# -- the reserve space
class Reserve(NamedTuple):
    mark: Any
    kept: Any  # (rows, 2 * gates, hidden)


def _reserve(layer, rows, at, size, expected=None):
    space(at, size, layer.reserve_bytes(rows), "reserveSpace")
    mark = np.frombuffer((ctypes.c_char * 16).from_address(at), np.int64)
    shape = rows, 2 * layer.gates, layer.rnn.hidden
    kept = np.frombuffer((ctypes.c_char * (8 * prod(shape))).from_address(at + 16), np.float64).reshape(shape)
    if expected is not None and mark[0] != expected:
        wanted = "cudnnRNNForward for training" if expected == _AFTER_FORWARD else "cudnnRNNBackwardData_v8"
        raise bad(f"reserveSpace is not as {wanted} left it")
    return Reserve(mark, kept)


# -- the calls
@CALLS.answers
def cudnnGetRNNWeightSpaceSize(double, handle, rnnDesc, place):
    ctypes.c_size_t.from_address(place).value = _layer(rnnDesc).weight_bytes()


@CALLS.answers
def cudnnGetRNNTempSpaceSizes(double, handle, rnnDesc, fwdMode, xDesc, work, reserve):
    layer = _layer(rnnDesc)
    rows = sum(_data(layer, xDesc, "xDesc", layer.rnn.input_size).lengths)
    ctypes.c_size_t.from_address(work).value = layer.work_bytes(rows)
    if reserve:
        ctypes.c_size_t.from_address(reserve).value = layer.reserve_bytes(rows) if fwdMode == _TRAINING else 0


@CALLS.answers
def cudnnGetRNNWeightParams(double, handle, rnnDesc, pseudoLayer, size, weights, linLayerID, mDesc, mAddr, bDesc, bAddr):
    layer = _layer(rnnDesc)
    require(pseudoLayer == 0, f"pseudoLayer {pseudoLayer} of 1")
    require(0 <= linLayerID < 2 * layer.gates, f"linLayerID {linLayerID} of {2 * layer.gates}")
    _weights(layer, weights, size)
    which, gate = ("input", "recurrent")[linLayerID // layer.gates], linLayerID % layer.gates
    for kind, descriptor, place in (("matrix", mDesc, mAddr), ("bias", bDesc, bAddr)):
        at, shape = layer.parts()[0].get((which, gate, kind), (None, None))
        ctypes.c_void_p.from_address(place).value = None if at is None else weights + at * layer.rnn.dtype.itemsize
        if at is not None:
            _describe(descriptor, layer.rnn.dtype, (1, *shape, 1)[:3])


def _describe(descriptor, dtype, shape):
    ints, number = ctypes.c_int * 3, next(n for n, d in descriptors.DTYPES.items() if d == dtype)
    strides = [prod(shape[i + 1 :]) for i in range(3)]
    real().ask("cudnnSetTensorNdDescriptor", descriptor.address, number, 3, ints(*shape), ints(*strides))


@CALLS.computes
def cudnnRNNForward(
    double, handle, rnnDesc, fwdMode, devSeqLengths, xDesc, x, yDesc, y, hDesc, hx, hy, cDesc, cx, cy, weightSize, weightSpace, workSize,
    workSpace, reserveSize, reserveSpace,
):  # fmt: skip
    layer = _layer(rnnDesc)
    data, given = _data(layer, xDesc, "xDesc", layer.rnn.input_size), _data(layer, yDesc, "yDesc", layer.rnn.hidden)
    require(data.lengths == given.lengths, f"xDesc has lengths {data.lengths}, and yDesc {given.lengths}")
    _check_lengths(devSeqLengths, data)
    x, w = Operand(_rows(data), x, "x"), Operand(_weights(layer, weightSpace, weightSize), weightSpace, "weightSpace")
    states = States(layer, hDesc, cDesc, len(data.lengths))
    initial = states.inputs(("hx", "cx"), hx, cx)
    y = output(_rows(given), y, "y", x, w, *(s for s in initial if s))
    scratch(workSpace, workSize, layer.work_bytes(len(x.view)), "workSpace")
    reserve = _reserve(layer, len(x.view), reserveSpace, reserveSize) if fwdMode == _TRAINING else None
    value, h, c, kept = _forward(layer, _steps(data), x.read(), w.read(), *states.values(initial))
    y.write(value)
    states.write(("hy", "cy"), (hy, cy), (h, c), [x, w, y, *initial])
    if reserve:
        reserve.mark[0] = _AFTER_FORWARD
        reserve.kept[:, : kept.shape[1]] = kept


def _forward(layer, steps, x, w, h, c):
    matrix, bias = layer.side(w, "input")
    a = layer.by_gate((np.tile(x, layer.gates) if matrix is None else x @ matrix.T) + bias)
    matrix, bias = layer.side(w, "recurrent")
    y, kept = np.empty((len(x), layer.rnn.hidden)), []
    for start, end in steps:
        n = end - start
        r = layer.by_gate(h[:n] @ matrix.T + bias)
        y[start:end], new, more = _CELLS[layer.rnn.cell].forward(a[start:end], r, h[:n], c[:n])
        kept.append(np.stack(more, axis=1))
        h[:n], c[:n] = y[start:end], new
    return y, h, c, np.concatenate(kept)


@CALLS.computes
def cudnnRNNBackwardData_v8(
    double, handle, rnnDesc, devSeqLengths, yDesc, y, dy, xDesc, dx, hDesc, hx, dhy, dhx, cDesc, cx, dcy, dcx, weightSize, weightSpace,
    workSize, workSpace, reserveSize, reserveSpace,
):  # fmt: skip
    layer = _layer(rnnDesc)
    data, given = _data(layer, xDesc, "xDesc", layer.rnn.input_size), _data(layer, yDesc, "yDesc", layer.rnn.hidden)
    require(data.lengths == given.lengths, f"xDesc has lengths {data.lengths}, and yDesc {given.lengths}")
    _check_lengths(devSeqLengths, data)
    y, dy = Operand(_rows(given), y, "y"), Operand(_rows(given), dy, "dy")
    w = Operand(_weights(layer, weightSpace, weightSize), weightSpace, "weightSpace")
    states = States(layer, hDesc, cDesc, len(data.lengths))
    initial, final = states.inputs(("hx", "cx"), hx, cx), states.inputs(("dhy", "dcy"), dhy, dcy)
    inputs = [y, dy, w, *(s for s in [*initial, *final] if s)]
    dx = output(_rows(data), dx, "dx", *inputs)
    scratch(workSpace, workSize, layer.work_bytes(len(y.view)), "workSpace")
    reserve = _reserve(layer, len(y.view), reserveSpace, reserveSize, _AFTER_FORWARD)
    value, dh, dc = _backward(layer, _steps(data), reserve.kept, dy.read(), w.read(), *states.values(final))
    dx.write(value)
    states.write(("dhx", "dcx"), (dhx, dcx), (dh, dc), [*inputs, dx])
    reserve.mark[0] = _AFTER_DATA


def _backward(layer, steps, kept, dy, w, dh, dc):
    """The cotangents of the products of input and state take the place of what was kept."""
    into, back = layer.side(w, "input")[0], layer.side(w, "recurrent")[0]
    dx = np.empty((len(dy), layer.rnn.input_size))
    for start, end in reversed(steps):
        n = end - start
        da, dr, direct, dc[:n] = _CELLS[layer.rnn.cell].backward(kept[start:end], dh[:n] + dy[start:end], dc[:n])
        dh[:n] = direct + dr.reshape(n, -1) @ back
        dx[start:end] = da.sum(axis=1) if into is None else da.reshape(n, -1) @ into
        kept[start:end] = np.concatenate([da, dr], axis=1)
    return dx, dh, dc


@CALLS.computes
def cudnnRNNBackwardWeights_v8(
    double, handle, rnnDesc, addGrad, devSeqLengths, xDesc, x, hDesc, hx, yDesc, y, weightSize, dweightSpace, workSize, workSpace,
    reserveSize, reserveSpace,
):  # fmt: skip
    if addGrad != 0:
        raise unsupported("addGrad: CUDNN_WGRAD_MODE_SET")
    layer = _layer(rnnDesc)
    data, given = _data(layer, xDesc, "xDesc", layer.rnn.input_size), _data(layer, yDesc, "yDesc", layer.rnn.hidden)
    _check_lengths(devSeqLengths, data)
    x, y = Operand(_rows(data), x, "x"), Operand(_rows(given), y, "y")
    h = Operand(_state(layer, hDesc, "hDesc", len(data.lengths)), hx, "hx") if hx else None
    dw = output(_weights(layer, dweightSpace, weightSize, "dweightSpace"), dweightSpace, "dweightSpace", x, y, *([h] if h else []))
    scratch(workSpace, workSize, layer.work_bytes(len(x.view)), "workSpace")
    reserve = _reserve(layer, len(x.view), reserveSpace, reserveSize, _AFTER_DATA)
    first = h.read()[0] if h else np.zeros((len(data.lengths), layer.rnn.hidden))
    before = _before(y.read(), first, _steps(data))
    dw.write(dw.read() + _by_weights(layer, reserve.kept, x.read(), before))


def _before(y, first, steps):
    """The state that each packed row began with."""
    previous = [first, *(y[start:end] for start, end in steps)]
    return np.concatenate([h[: end - start] for h, (start, end) in zip(previous, steps, strict=False)])


def _by_weights(layer, kept, x, before):
    dw, (parts, n) = {}, layer.parts()
    for which, inputs, gates in (("input", x, kept[:, : layer.gates]), ("recurrent", before, kept[:, layer.gates :])):
        for gate in range(layer.gates):
            dw[which, gate, "matrix"], dw[which, gate, "bias"] = gates[:, gate].T @ inputs, gates[:, gate].sum(axis=0)
    flat = np.zeros(n)
    for key, (at, shape) in parts.items():
        flat[at : at + prod(shape)] = dw[key].ravel()
    return flat
