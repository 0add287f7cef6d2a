"""Recurrent layers by cuDNN: all steps of one layer in one direction by one call, and all steps back by two.

Its packed rows are ours, and its weights are where ours are, which it is asked once for each layer.  What it notes for the way back, its
reserve space, travels in `gates`; `inner` is empty, and its dtype and second axis say in which dtype and with which mathematics that was.
cuDNN has no layer that goes from the end to the start alone, so there rows change places within their sequences, before and behind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Array, Shape, recurrent_parts
from ..pycuda_backend.array import DeviceArray, empty, view
from ..pycuda_backend.recurrent import check
from ..pycuda_backend.transfer import copied, filled
from . import binding, handle
from .algorithms import math_type
from .descriptors import DATA, Descriptor, Unsupported, fit, laid, tensor

# each cell's name, and how many gates it has.  That relu keeps NaN is promised nowhere
_CELLS = {"tanh": (binding.CUDNN_RNN_TANH, 1), "lstm": (binding.CUDNN_LSTM, 4), "gru": (binding.CUDNN_GRU, 3)}
_REPRODUCIBLE = 90000  # the first version whose release notes except no recurrent layer from the same bits each time
_BYTES = np.dtype(np.uint8)
_ALIGNED = 16  # bytes that are loaded at once
_Place = tuple[int | None, Shape]  # a matrix or a bias: how many elements before it, and its shape


class Signature(NamedTuple):
    """All that a plan depends on; all but the last two, a layer."""

    cell: str
    width: int
    hidden: int
    skip: bool
    dtype: np.dtype[Any]
    math: int
    sizes: Shape
    sequences: int


class Layer:
    """The descriptor of a layer whose weights lie as ours do.  Raises Unsupported if there is none."""

    def __init__(self, cell: str, width: int, hidden: int, skip: bool, dtype: np.dtype[Any], math: int) -> None:
        mode, gates = _CELLS[cell]
        self.dropout = Descriptor("Dropout", binding.cudnnSetDropoutDescriptor, handle.ready(), 0.0, None, 0, 0)
        self.descriptor = Descriptor(
            "RNN", binding.cudnnSetRNNDescriptor_v8, binding.CUDNN_RNN_ALGO_STANDARD, mode, binding.CUDNN_RNN_DOUBLE_BIAS,
            binding.CUDNN_UNIDIRECTIONAL, binding.CUDNN_SKIP_INPUT if skip else binding.CUDNN_LINEAR_INPUT,
            DATA[dtype.name], DATA["float64" if dtype.itemsize == 8 else "float32"], math,
            width, hidden, hidden, 1, self.dropout, binding.CUDNN_RNN_PADDED_IO_DISABLED,
        )  # fmt: skip
        places = zip(_our_places(gates, width, hidden, skip), _its_places(self.descriptor, gates, dtype), strict=True)
        if any(ours != its for ours, its in places):
            raise Unsupported("weights that lie elsewhere than ours")


_layer = functools.lru_cache(256)(Layer)


def _our_places(gates: int, width: int, hidden: int, skip: bool) -> Iterator[_Place]:
    """The end of the weights; the matrix and the bias of each gate, those of the input and then those of the state."""
    parts, columns = recurrent_parts(gates, width, hidden, skip), (0 if skip else width, hidden, 1, 1)
    yield parts[-1][0].stop, ()
    for i in range(2 * gates):
        side, gate = divmod(i, gates)
        for kind in (side, 2 + side):
            n = columns[kind]
            yield (parts[kind][0].start + gate * hidden * n, (1, hidden, n)) if n else (None, ())


def _its_places(rnn: Descriptor, gates: int, dtype: np.dtype[Any]) -> Iterator[_Place]:
    """The same, as cuDNN has them."""
    at, described = handle.ready(), [tensor((1, 1, 1), dtype) for _ in range(2)]
    size = binding.cudnnGetRNNWeightSpaceSize(at, rnn)
    yield size // dtype.itemsize, ()
    weights = empty((size,), _BYTES)
    for i in range(2 * gates):
        found = binding.cudnnGetRNNWeightParams(at, rnn, 0, size, weights.address, i, *described)
        for address, descriptor in zip(found, described, strict=True):
            yield _place(address, descriptor, weights.address, dtype.itemsize)


def _place(address: int | None, descriptor: Descriptor, start: int, itemsize: int) -> _Place:
    if address is None:
        return None, ()
    _, axes, shape, _ = binding.cudnnGetTensorNdDescriptor(descriptor, 3)
    return (address - start) // itemsize, shape[:axes]


class Plan:
    """Sequences of these lengths through a layer, there and back."""

    def __init__(self, s: Signature) -> None:
        self.s, self.layer, lengths = s, _layer(*s[:-2]), _lengths(s.sizes, s.sequences)
        self.x, self.y = (Descriptor("RNNData", _set_packed, lengths, n, s.dtype) for n in (s.width, s.hidden))
        self.h = tensor((1, s.sequences, s.hidden), s.dtype)
        self.c = self.h if s.cell == "lstm" else None
        modes, rnn = (binding.CUDNN_FWD_MODE_INFERENCE, binding.CUDNN_FWD_MODE_TRAINING), self.layer.descriptor
        self.memory = {mode: binding.cudnnGetRNNTempSpaceSizes(handle.ready(), rnn, mode, self.x) for mode in modes}

    def forward(self, x: Array, w: Array, state: Array, keep: bool) -> tuple[Array, Array, Array]:
        """y, the last state, and what the way back needs."""
        mode = binding.CUDNN_FWD_MODE_TRAINING if keep else binding.CUDNN_FWD_MODE_INFERENCE
        work, reserve = (empty((size,), _BYTES) for size in self.memory[mode])
        y, final = empty((len(x), self.s.hidden), self.s.dtype), self._state()
        (h, c), (last_h, last_c) = map(_parts, (state, final))
        binding.cudnnRNNForward(
            handle.ready(), self.layer.descriptor, mode, None, self.x, x.address, self.y, y.address,
            self.h, h.address, last_h.address, self.c, c.address, last_c.address, *_space(w), *_space(work), *_space(reserve),
        )  # fmt: skip
        return y, final, reserve

    def back(self, dy: Array, dfinal: Array, x: Array, w: Array, state: Array, y: Array, gates: Array) -> tuple[Array, Array, Array]:
        """The cotangents of x, w and the state."""
        work, reserve = empty(self.memory[binding.CUDNN_FWD_MODE_TRAINING][:1], _BYTES), copied(gates)  # cuDNN writes there
        dx, dw, dstate = empty(x.shape, x.dtype), filled(w.shape, 0, w.dtype), self._state()
        (h, c), (dh, dc), (first_dh, first_dc) = map(_parts, (state, dfinal, dstate))
        binding.cudnnRNNBackwardData_v8(
            handle.ready(), self.layer.descriptor, None, self.y, y.address, dy.address, self.x, dx.address,
            self.h, h.address, dh.address, first_dh.address, self.c, c.address, dc.address, first_dc.address,
            *_space(w), *_space(work), *_space(reserve),
        )  # fmt: skip
        binding.cudnnRNNBackwardWeights_v8(
            handle.ready(), self.layer.descriptor, binding.CUDNN_WGRAD_MODE_ADD, None, self.x, x.address, self.h, h.address,
            self.y, y.address, *_space(dw), *_space(work), *_space(reserve),
        )  # fmt: skip
        return dx, dw, dstate

    def _state(self) -> DeviceArray:
        """Memory for the state, each of whose parts lies where cuDNN may load _ALIGNED bytes at once."""
        s, row = self.s, self.s.hidden * self.s.dtype.itemsize
        apart = -(-s.sequences * row // _ALIGNED) * _ALIGNED
        parts = 1 if self.c is None else 2
        whole = empty((parts, apart // s.dtype.itemsize), s.dtype)
        return view(whole, (parts, s.sequences, s.hidden), (apart, row, s.dtype.itemsize))


_plan = functools.lru_cache(1024)(Plan)


def _set_packed(made: Descriptor, lengths: list[int], width: int, dtype: np.dtype[Any]) -> None:
    layout = binding.CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED
    binding.cudnnSetRNNDataDescriptor(made, DATA[dtype.name], layout, max(lengths), len(lengths), width, lengths, None)


def _lengths(sizes: Shape, sequences: int) -> list[int]:
    """How many steps each sequence has."""
    lengths: list[int] = np.count_nonzero(np.asarray(sizes)[:, None] > np.arange(sequences), 0).tolist()
    return lengths


def _parts(state: DeviceArray) -> list[DeviceArray]:
    """h, and c or nothing, each where cuDNN can read it."""
    parts = [laid(view(state, state.shape[1:], state.strides[1:], i * state.strides[0]), False) for i in range(len(state))]
    return parts if len(parts) == 2 else [*parts, empty((0,), state.dtype)]


def _space(x: DeviceArray) -> tuple[int, int]:
    return x.nbytes, x.address


# -- against the order of time
def _turned(k: Any, reverse: bool, sizes: Shape, *packed: Array) -> list[Array]:
    """Rows of arrays, each where the one lies that is as far from the other end of its sequence; nothing moves unless `reverse`."""
    return [k.getitem(a, _other_ends(tuple(sizes))) for a in packed] if reverse else list(packed)


@functools.lru_cache(64)
def _other_ends(sizes: Shape) -> np.ndarray:
    """Which row comes to each."""
    counts = np.asarray(sizes)
    starts, step = np.cumsum(counts) - counts, np.repeat(np.arange(len(counts)), counts)
    sequence = np.arange(len(step)) - starts[step]
    last = np.bincount(sequence) - 1
    return starts[last[sequence] - step] + sequence


# -- the kernels
def recurrence(
    k: Any, x: Array, w: Array, state: Array, cell: str, sizes: Shape, reverse: bool, skip: bool, keep: bool
) -> tuple[Array, Array, Array, Array]:
    check(x, w, state, cell, sizes, skip)
    dtype, mode = _of_results(x, w, state), k.math_mode()
    inside = np.dtype(np.float32) if dtype.itemsize == 2 and mode != "fast" else dtype  # as the raw kernels do
    _check(k, x, w, state, cell, inside)
    math = math_type(inside, mode)
    plan = _plan(Signature(cell, x.shape[1], state.shape[2], skip, inside, math, tuple(sizes), state.shape[1]))
    x, w, state = (k.astype(a, inside) for a in (x, w, state))
    (x,) = _turned(k, reverse, sizes, x)
    y, final, reserve = plan.forward(laid(x, False), laid(w, False), state, keep)
    (y,) = _turned(k, reverse, sizes, y)
    k.say("cudnn, standard")
    return k.astype(y, dtype), k.astype(final, dtype), reserve, empty((0, math), inside)


def recurrence_grads(
    k: Any, dy: Array, dfinal: Array, x: Array, w: Array, state: Array, y: Array, gates: Array, inner: Array,
    cell: str, sizes: Shape, reverse: bool, skip: bool, with_x: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    args, why = (x, w, state, cell, sizes, reverse, skip), "the raw kernel went forward"
    if gates.dtype == _BYTES:
        try:
            dx, *others = _back(k, dy, dfinal, x, w, state, y, gates, inner, cell, sizes, reverse, skip)
            return dx if with_x else empty((0, x.shape[1]), dx.dtype), *others
        except (Unsupported, binding.cudnnNotSupported) as e:  # the raw kernel needs what its own forward keeps
            why = str(e)
            gates, inner = k.leave("recurrence", why, *args, True)[2:]
    return k.leave("recurrence_grads", why, dy, dfinal, x, w, state, y, gates, inner, *args[3:], with_x)


def _back(
    k: Any, dy: Array, dfinal: Array, x: Array, w: Array, state: Array, y: Array, gates: Array, inner: Array,
    cell: str, sizes: Shape, reverse: bool, skip: bool,
) -> list[Array]:  # fmt: skip
    """In the way that went forward, whatever the mode is now."""
    given = (x, y, dy, w, state, dfinal)
    plan = _plan(Signature(cell, x.shape[1], state.shape[2], skip, inner.dtype, inner.shape[1], tuple(sizes), state.shape[1]))
    x, y, dy, w, state, dfinal = (k.astype(a, inner.dtype) for a in given)
    x, y, dy = _turned(k, reverse, sizes, x, y, dy)
    x, y, dy, w = (laid(a, False) for a in (x, y, dy, w))
    dx, dw, dstate = plan.back(dy, dfinal, x, w, state, y, gates)
    (dx,) = _turned(k, reverse, sizes, dx)
    k.say("cudnn, standard")
    return [k.astype(a, _of_results(*given)) for a in (dx, dw, dstate)]


def _of_results(*arrays: Array) -> np.dtype[Any]:
    dtype = np.result_type(*[a.dtype for a in arrays])
    return dtype if dtype.kind not in "biu" else np.dtype(np.float64)


def _check(k: Any, x: Array, w: Array, state: Array, cell: str, dtype: np.dtype[Any]) -> None:
    """Raises Unsupported for what cuDNN can't take, or does not promise to do."""
    if cell not in _CELLS:
        raise Unsupported(f"{cell}, where cuDNN does not promise to keep NaN")
    if k.math_mode() == "pedantic" and binding.cudnnGetVersion() < _REPRODUCIBLE:
        raise Unsupported("cuDNN 8 does not promise the same bits each time")
    fit(dtype, x.shape, w.shape, state.shape, (len(x), _CELLS[cell][1], state.shape[2]))


KERNELS: dict[str, Callable[..., Any]] = {"recurrence": recurrence, "recurrence_grads": recurrence_grads}
