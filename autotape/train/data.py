"""Minibatches: a data set in parts of one size, in another order at every epoch, and able to go on where it was."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from .. import backend, random
from ..errors import annotated
from ..tensor import Tensor, asarray, describe

State = dict[str, Any]
Kind = tuple[int, int, bool, bool]  # instances, batchsize, whether it shuffles, and whether the last batch may be smaller


class Data:
    """Batches of an array, or tuples of batches of several arrays of one length; each iteration over it is an epoch.

        data = minibatch(x, y, 32, shuffle=True)
        for inputs, labels in data: ...

    arrays: (N, ...) each; N along the first axis.  batchsize: also as the last positional argument.  shuffle: each epoch in
    another order, drawn from generator: a Generator, a seed, or None for one split off the current generator.  partial: the
    last batch may be smaller; else what does not fill one is left out (of a shuffled set, others each epoch).  dtype: of
    the arrays of floats; or a sequence with one for each array, where None keeps an array's own.

    A batch of floats is an ndarray on the numpy backend, read-only where it is a part of the array itself, and elsewhere a
    Tensor of the backend in force when it is drawn; batches of other arrays (labels, indices) stay ndarrays, those of
    Tensors Tensors.  Raises ValueError for arrays of several lengths, and for fewer instances than one batch takes; TypeError for
    an option that is unknown.
    """

    def __init__(
        self,
        *arrays: Any,
        batchsize: int | None = None,
        shuffle: bool = False,
        partial: bool = False,
        dtype: Any = None,
        generator: random.Generator | int | None = None,
        **unknown: NoReturn,
    ) -> None:
        for name in unknown:
            raise TypeError(f"minibatch: the option {name!r} is unknown; there are batchsize, shuffle, partial, dtype and generator")
        if batchsize is None and arrays and np.ndim(arrays[-1]) == 0:
            *arrays, batchsize = arrays  # type: ignore[assignment]
        self.batchsize = _batchsize(batchsize)
        self.arrays = tuple(map(_array, arrays))
        self.instances = _common_length(self.arrays)
        if self.instances < (1 if partial else self.batchsize):
            instead = "" if partial else "; a smaller batchsize or partial=True would do"
            raise ValueError(f"minibatch: {self.instances} instances don't fill one batch of {self.batchsize}{instead}")
        self.partial = bool(partial)
        self.dtypes = _dtypes(dtype, self.arrays)
        self.generator = _generator(generator) if shuffle else None
        self._epochs = 0
        self._latest: Epoch | None = None
        self._goes_on: Epoch | None = None

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return -(-self.instances // self.batchsize) if self.partial else self.instances // self.batchsize

    def __iter__(self) -> Epoch:
        """A new epoch; or the rest of the one that was going on in the state just set."""
        if self._goes_on is None:
            self._epochs += 1
            self._latest = Epoch(self, self._epochs, 0, None if self.generator is None else self.generator.seed())
        else:
            self._latest, self._goes_on = self._goes_on, None
        return self._latest

    def __repr__(self) -> str:
        return f"Data({_outline(*self._kind[:3])})"

    @property
    def _kind(self) -> Kind:
        return self.instances, self.batchsize, self.generator is not None, self.partial

    @property
    def state(self) -> State:
        """Where the epoch begun last is, as plain numbers to save; when it is set, the next iteration goes on from there.

        That is the rest of its epoch: of one that has given its last batch, none, and the iteration after it is a new one.
        """
        return Epoch(self, 0, 0, None).state if self._latest is None else self._latest.state

    @state.setter
    def state(self, state: State) -> None:
        self.check(state)
        if self.generator is not None:
            self.generator.state = state["generator"]
        self._epochs = state["epoch"]
        self._latest = None
        self._goes_on = Epoch(self, state["epoch"], state["position"], state["seed"]) if state["epoch"] else None

    def check(self, state: State) -> None:
        """Raise ValueError unless the state is one of such a data set."""
        kind = _kind_of(state)
        if kind[:3] != self._kind[:3]:
            raise ValueError(f"the state of a data set of {_outline(*kind[:3])}, but this one is of {_outline(*self._kind[:3])}")
        if kind != self._kind:
            raise ValueError(f"the state of a data set with partial={kind[3]}, but this one has partial={self.partial}")


minibatch = Data


class Epoch(Iterator[Any]):
    """One iteration over a Data.  number: from 1; position: how many batches it has given."""

    def __init__(self, data: Data, number: int, position: int, seed: int | None) -> None:
        self.data, self.number, self.position, self.seed = data, number, position, seed
        self._order = None if seed is None else random.Generator(seed).permutation(data.instances)

    def __next__(self) -> Any:
        start = self.position * self.data.batchsize
        if self.position >= len(self.data):
            raise StopIteration
        self.position += 1
        index = slice(start, min(start + self.data.batchsize, self.data.instances))
        parts = [_part(x, index) if self._order is None else x[self._order[index]] for x in self.data.arrays]
        batches = tuple(_batch(part, dtype) for part, dtype in zip(parts, self.data.dtypes, strict=True))
        return batches if len(batches) > 1 else batches[0]

    @property
    def state(self) -> State:
        """What Data.state is set to for the rest of this epoch, and those after it."""
        data, generator = self.data, self.data.generator
        kind = {"instances": data.instances, "batchsize": data.batchsize, "partial": data.partial}
        drawn = None if generator is None else generator.state
        return {"epoch": self.number, "position": self.position, "seed": self.seed, "generator": drawn, **kind}


def _part(x: Any, index: slice) -> Any:
    """A view that can't be written to: a change would be one of the data set."""
    part = x[index]
    if isinstance(part, np.ndarray):
        part.flags.writeable = False
    return part


def _batch(x: Any, dtype: Any) -> Any:
    """A part of an array as the user gets it."""
    if isinstance(x, Tensor):
        return x if dtype is None or x.dtype == dtype else x.astype(dtype)
    x = x if dtype is None else x.astype(dtype, copy=False)
    return asarray(x) if x.dtype.kind in "fc" and backend.kernels().array is not np.ndarray else x


def _array(x: Any) -> Any:
    """What a user gave, as an array or a Tensor that can be indexed."""
    if isinstance(x, Tensor):
        return x
    try:
        return asarray(x) if isinstance(x, backend.kernels().array) and not isinstance(x, np.ndarray) else np.asarray(x)
    except ValueError as e:  # lists of several lengths
        raise annotated(e, "minibatch, which takes several arrays as minibatch(x, y, 32)") from e


def _batchsize(given: Any) -> int:
    try:
        size = 0 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        size = 0
    if size < 1:
        raise ValueError(f"minibatch: the batchsize is a whole number from 1 on, not {given!r:.80}: minibatch(x, y, 32)")
    return size


def _common_length(arrays: Sequence[Any]) -> int:
    if not arrays or any(x.ndim == 0 for x in arrays):
        raise ValueError("minibatch: it takes one or more arrays with an axis of instances, then the batchsize: minibatch(x, y, 32)")
    lengths = [len(x) for x in arrays]
    if len(set(lengths)) > 1:
        raise ValueError(f"minibatch: the arrays hold {', '.join(map(str, lengths))} instances; they must hold as many each")
    return lengths[0]


def _dtypes(dtype: Any, arrays: Sequence[Any]) -> list[Any]:
    """For each array the dtype to convert to, or None."""
    if not isinstance(dtype, (tuple, list)):
        return [None if dtype is None or x.dtype.kind not in "fc" else np.dtype(dtype) for x in arrays]
    if len(dtype) != len(arrays):
        raise ValueError(f"minibatch: {len(dtype)} dtypes for {len(arrays)} arrays")
    return [None if d is None else np.dtype(d) for d in dtype]


def _generator(given: random.Generator | int | None) -> random.Generator:
    if isinstance(given, random.Generator):
        return given
    try:
        return random.current().split(1)[0] if given is None else random.Generator(given)
    except TypeError:
        raise TypeError(f"minibatch: generator is an autotape.random.Generator, a seed or None, not {describe(given)}") from None


def _outline(instances: int, batchsize: int, shuffled: bool) -> str:
    return f"{instances} instances in {'shuffled ' * shuffled}batches of {batchsize}"


def _kind_of(state: Any) -> Kind:
    """Of the Data that a state was taken from."""
    if not isinstance(state, dict) or state.keys() != {"epoch", "position", "seed", "generator", "instances", "batchsize", "partial"}:
        raise ValueError(f"this is no state of a Data: {state!r:.80}")
    return state["instances"], state["batchsize"], state["generator"] is not None, state["partial"]
