"""Training loops as lazy iterators: one update an item.

    for loss in minimize(lambda x, y: ops.nll(model(x), y), data, Adam()): ...                  # the Params that it uses
    run = minimize(loss, data, Adam(), params=params); losses = list(run); params = run.params    # a tree of arrays
    for step in train(loss, data, Adam(), params=params, epochs=10, callbacks=[FailOnNaN(), Snapshots("run")]): ...

minimize gives losses, as Knet's does; train gives Steps, calls callbacks, and goes on from snapshots.
"""

from __future__ import annotations

import inspect
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from .. import random, tree
from ..explicit import Tape
from ..param import Param, is_variable
from ..tensor import Tensor, constant, describe
from ..transforms import value_and_grad
from .callbacks import Callback, Called
from .data import Data
from .optimisers import SGD, Adadelta, Adagrad, Adam, AdamW, Momentum, Nesterov, Optimiser, Rmsprop
from .snapshots import check_model, copied, named, read, restored, set_states, with_state
from .step import Step, rate

T = TypeVar("T")
L = TypeVar("L", bound="Loop")
State = dict[str, Any]


class Loop:
    """What minimize and train share: it makes one update at a time, and knows where it is.

    params: the tree as it is now, or the Params met so far.  number: updates made; epoch: from 1; batch: in this epoch, from
    1; latest: the last Step.  state: all that decides what comes next, for at.save; when it is set, the loop goes on from there.
    """

    def __init__(self, f: Callable[..., Any], data: Iterable[Any], opt: Any, params: Any, epochs: int | None, has_aux: bool) -> None:
        _check_arguments(f, data, opt)
        if epochs is not None and (not isinstance(epochs, int) or epochs < 0):
            raise ValueError(f"epochs is a whole number from 0 on, or None for no end, not {epochs!r}")
        self.f, self.data, self.opt, self.epochs, self.has_aux = f, data, Adam() if opt is None else opt, epochs, has_aux
        self.finds_params = params is None
        self.params: Any = [] if params is None else tree.map(_in_c_order, params)
        self._by_tape = self.finds_params or any(isinstance(x, Param) for x in tree.leaves(self.params))
        self._with_state = with_state(self.params)
        self._lr = getattr(self.opt, "lr", None)  # as the program gives it
        self.number = self.epoch = self.batch = 0
        self.latest: Step | None = None
        self.callbacks: list[Callback] = []
        self.is_whole = True  # False where an error came in the middle of an update
        self._batches: Iterator[Any] | None = None
        self._is_stopped = self._has_begun = self._has_ended = False
        self._busy = threading.Lock()
        self._before: State | None = None  # where it was before the update that is being made
        self._gradient = value_and_grad(f, has_aux=has_aux, sparse=True)

    def __len__(self) -> int:
        """The number of updates in all, with those made before a snapshot."""
        if self.epochs is None:
            raise TypeError("a training without an end has no length")
        return self.epochs * len(self.data)  # type: ignore[arg-type]

    def stop(self) -> None:
        """Make no update after the latest."""
        self._is_stopped = True

    def close(self) -> None:
        """End it where it is: callbacks end, Snapshots with a snapshot.  `with train(...) as run:` does so however the body is left."""
        self._close(None)

    def __enter__(self: L) -> L:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._close(error)

    def _close(self, error: BaseException | None) -> None:
        if self._has_begun and not self._has_ended:
            self._end(error)
        self._has_ended = True

    # -- one update
    def _advance(self) -> Step | None:
        """Make the next update; None after the last."""
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("this training is at a step already: neither another thread nor a callback can ask it for the next one")
        try:
            return None if self._has_ended else self._next()
        finally:
            self._busy.release()

    def _next(self) -> Step | None:
        try:
            self._settle()
            batch = self._next_batch()
            step = None if batch is None else self._update(batch)
        except BaseException as e:
            self._end(e)
            if isinstance(e, StopIteration):  # would end the loop without a word
                raise RuntimeError("StopIteration was raised by the function, the data or a callback") from e
            raise
        if step is None:
            self._end(None)
        return step

    def _settle(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            for c in self.callbacks:
                c.begin(self)
        elif self.latest is not None:
            for c in self.callbacks:
                c.settle(self)
        self._before = self._place()

    def _next_batch(self) -> Sequence[Any] | None:
        """The arguments of the next call of f; None after the last."""
        while not self._is_stopped:
            if self._batches is None:
                if self.epochs is not None and self.epoch >= self.epochs:
                    return None
                self.epoch, self.batch, self._batches = self.epoch + 1, 0, iter(self.data)
            for batch in self._batches:
                self.batch += 1
                return batch if isinstance(batch, (tuple, list)) else (batch,)
            if not self.batch:
                once = ": an iterator serves for one epoch, minibatch and lists for any number" if self.epoch > 1 else ""
                raise ValueError(f"the data gave no batch in epoch {self.epoch}{once}")
            self._batches = None
        return None

    def _update(self, batch: Sequence[Any]) -> Step:
        try:
            loss, aux, params, gradients = self._differentiated(batch)
        except TypeError:
            self._check_call(batch)
            raise
        step = Step(self, batch, loss, aux)
        for c in self.callbacks:
            c.before_update(step)
        step.inputs, step.lr = (), rate(self.opt)  # which a callback may have changed
        self.is_whole = False
        params = self.opt.step(params, gradients)
        if not self.finds_params:
            self.params = step.params = params
        self.number, self.latest, self._before = step.number, step, None
        self.is_whole = True
        self._tell([partial(c, step) for c in self.callbacks])
        return step

    def _differentiated(self, batch: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Loss, aux, parameters and gradients."""
        if self._by_tape:
            return self._differentiated_by_tape(batch)
        value, gradients = self._gradient(self.params, *batch)
        return *(value if self.has_aux else (value, None)), self.params, gradients

    def _differentiated_by_tape(self, batch: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """The same for Params, which f may use by themselves, given as an argument or not."""
        with Tape() as tape:
            given = [] if self.finds_params else [tree.map(lambda x: tape.watch(x) if is_variable(x, "train") else x, self.params)]
            value = self.f(*given, *batch)
        if self.has_aux and not (isinstance(value, tuple) and len(value) == 2):
            raise TypeError(f"with has_aux the function must return (loss, aux), not {describe(value)}")
        loss, aux = value if self.has_aux else (value, None)
        params = self._met(tape) if self.finds_params else self.params
        if not isinstance(loss, Tensor):
            raise TypeError(f"the function returned {describe(loss)}; a scalar computed from the Params is needed; with has_aux, and aux")
        leaves, build = tree.flatten(given[0] if given else params)
        found = iter(tape.gradient(loss, [x for x in leaves if isinstance(x, (Tensor, Param))], sparse=True))
        return loss, aux, params, build([next(found) if isinstance(x, (Tensor, Param)) else x for x in leaves])

    def _met(self, tape: Tape) -> list[Param]:
        """The Params on the tape."""
        known = set(map(id, self.params))
        if not tape.params:
            raise TypeError("the function used no at.Param: make some, or give params=, which it then takes as its first argument")
        self.params += [p for p in tape.params if id(p) not in known]
        return tape.params

    def _check_call(self, batch: Sequence[Any]) -> None:
        """Raise TypeError if f takes another number of arguments than a batch has."""
        first = [] if self.finds_params else ["params"]
        try:
            inspect.signature(self.f).bind(*first, *batch)
        except TypeError as e:
            given = ", ".join([*first, *map(describe, batch)])
            raise TypeError(f"the function is called with ({given}): {e}; minibatch(x, y, 32) gives batches of two arrays") from None
        except ValueError:  # it has no signature
            return

    def _end(self, error: BaseException | None) -> None:
        self._has_ended = True
        self._tell([partial(c.end, self, error) for c in self.callbacks])

    def _tell(self, calls: Sequence[Callable[[], Any]]) -> None:
        """Make all the calls in order, those behind one that raises too: what all callbacks have seen can be saved."""
        if calls:
            try:
                calls[0]()
            finally:
                self._tell(calls[1:])

    # -- where it is
    @property
    def state(self) -> State:
        if self.finds_params:
            raise TypeError(
                "the state of a training needs params=, which the function then takes as its first argument; for a function that uses its "
                "Params by itself, train(lambda params, *batch: f(*batch), data, opt, params=[w, b])"
            )
        if (optimiser := getattr(self.opt, "state", None)) is None:
            raise TypeError(f"{type(self.opt).__name__} has no `state`, so no training with it can be saved")
        callbacks = [[type(c).__name__, c.state] for c in self.callbacks if c.state is not None]
        place = self._place() if self._before is None else self._before
        params = {path: copied(leaf) for path, leaf in named(self.params).items()}
        return {"params": params, "optimiser": optimiser, "lr": self._lr, "callbacks": callbacks, **place}

    @state.setter
    def state(self, state: State) -> None:
        if self.finds_params:
            raise TypeError("a training goes on from a state only if its parameters are given as params=")
        if not isinstance(state, dict) or not {"params", "optimiser", "lr", "callbacks", *self._place()} <= state.keys():
            raise ValueError(f"this is no state of a training: {describe(state)}")
        check_model(self.params, self._with_state, state)  # all checks come before the first change
        self._check_optimiser(state["optimiser"])
        self._check_data(state)
        waiting = [c for c in self.callbacks if c.state is not None]
        for name, saved in state["callbacks"]:
            if (c := next((c for c in waiting if type(c).__name__ == name), None)) is not None:
                c.state = saved
                waiting.remove(c)
        self.opt.state = state["optimiser"]
        if self._lr != state["lr"]:  # the program's options hold; where lr is as it was, so does what became of it
            self.opt.lr = self._lr
        self._go_to(state)
        self.params = restored(self.params, state["params"])
        set_states(self._with_state, state["states"])
        random.current().state = state["random"]
        if self._is_stopped:
            warnings.warn(
                f"this training was stopped at step {self.number} and makes no more; "
                "to go on all the same set its state to {**autotape.train.snapshots.read(path), 'is_stopped': False}",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self._is_over():
            warnings.warn(
                f"this training has made all its {self.epochs} epochs by step {self.number} and makes no more; a larger epochs= goes on",
                RuntimeWarning,
                stacklevel=2,
            )

    def _is_over(self) -> bool:
        """Whether the place gone to is the end of the last epoch, or beyond it."""
        return self.epochs is not None and (self.epoch, self.batch) >= (self.epochs, _length(self.data) or math.inf)

    def _check_optimiser(self, state: Any) -> None:
        was, now = state.get("optimiser") if isinstance(state, dict) else None, type(self.opt).__name__
        if isinstance(self.opt, Optimiser) and was != now:
            raise ValueError(f"this is no state of {now}: the snapshot is of a training with {was}")

    def _place(self) -> State:
        return {
            "number": self.number,
            "epoch": self.epoch,
            "batch": self.batch,
            "is_stopped": self._is_stopped,
            "data": getattr(self._batches if hasattr(type(self._batches), "state") else self.data, "state", None),
            "length": _length(self.data),
            "random": random.current().state,
            "states": {path: x.state for path, x in self._with_state.items()},
        }

    def _check_data(self, place: State) -> None:
        """Raise ValueError for the place in another data set, as far as a Data or a length can tell."""
        was_data, is_data = place["data"] is not None, hasattr(self.data, "state")
        if was_data != is_data:
            there, here = "a Data" if was_data else "a list or the like", type(self.data).__name__
            raise ValueError(f"the snapshot is of a training on {there}, but this is one on a {here}")
        if isinstance(self.data, Data):
            self.data.check(place["data"])
        elif not is_data:
            before, now = place["length"], _length(self.data)
            if None not in (before, now) and before != now:
                raise ValueError(f"the snapshot is of a training on {before} batches, but this is one on {now}")
            if place["batch"] not in (0, now) and not hasattr(type(self.data), "__getitem__"):
                raise TypeError(
                    f"the snapshot is of batch {place['batch']} of an epoch: to go on there the data must be a minibatch, a list, or "
                    f"have a `state` that can be set, not {describe(self.data)}"
                )

    def _go_to(self, place: State) -> None:
        self.number, self.epoch, self.batch, self._is_stopped = (place[name] for name in ("number", "epoch", "batch", "is_stopped"))
        self._batches = self._before = self.latest = None
        if self._has_ended:  # it begins again
            self._has_begun = self._has_ended = False
            self.is_whole = True
        if place["data"] is not None:
            self.data.state = place["data"]  # type: ignore[attr-defined]
            if self.batch or (isinstance(self.data, Data) and place["data"]["epoch"]):
                rest = iter(self.data)
                self._batches = rest if self.batch else None  # an epoch that others had begun is left
        elif self.batch not in (0, place["length"]):  # within an epoch
            self._batches = islice(iter(self.data), self.batch, None)
        if self._is_over():
            self._batches = None


class Minimize(Loop, Iterator[float]):
    """What minimize gives: an iterator of losses."""

    def __next__(self) -> float:
        if (step := self._advance()) is None:
            raise StopIteration
        return step.loss


class Training(Loop, Iterator[Step]):
    """What train gives: an iterator of Steps."""

    def __next__(self) -> Step:
        if (step := self._advance()) is None:
            raise StopIteration
        return step


def minimize(f: Callable[..., Any], data: Iterable[Any], opt: Any = None, params: Any = None, epochs: int | None = 1) -> Minimize:
    """An iterator that makes one update for each batch of the data, and gives its loss, a float.

    f(*batch) gives a scalar loss, computed from Params; those that it uses are updated.  With params, a tree of arrays,
    Tensors or Params, f(params, *batch) does, and the iterator's `params` are the tree as it is now; arrays in the given
    one are left as they are.  A batch that is no tuple or list is one argument.  opt: an optimiser; None is Adam().
    epochs: how often the data are gone through; None for no end (see converge).  Nothing is computed before it is asked for.
    """
    return Minimize(f, data, opt, params, epochs, False)


def train(
    f: Callable[..., Any],
    data: Iterable[Any],
    opt: Any = None,
    params: Any = None,
    epochs: int | None = 1,
    callbacks: Iterable[Callback | Callable[[Step], Any]] = (),
    resume: str | os.PathLike[str] | None = None,
    has_aux: bool = False,
) -> Training:
    """An iterator that makes one update for each batch of the data, and gives its Step: number, epoch, batch, loss ...

    f, data, opt, params, epochs: as in minimize.  With has_aux f returns (loss, aux), and the Step has aux.  callbacks are
    called in their order (autotape.train.callbacks).  resume: a snapshot, or a folder with some, of which the newest, to go
    on from, bit for bit: what f, the data and the callbacks do must depend on nothing but what is saved there, and random
    numbers must be those of autotape.random.

    The optimiser's options and schedule are the program's; lr too, unless the program gives the lr that it gave before: then
    what became of it.  Raises ValueError for a snapshot of another model, optimiser or data set, FileNotFoundError where there is
    none; then nothing has changed.  `with train(...) as run:` ends the callbacks also where the loop over run is left early.
    """
    training = Training(f, data, opt, params, epochs, has_aux)
    training.callbacks = _as_callbacks(callbacks)
    if resume is not None:
        training.state = read(resume)
    return training


def converge(items: Iterable[T], alpha: float = 0.1) -> Iterator[T]:
    """The items, losses or Steps, until they stop falling: until the running mean of their progress is above 0.

    alpha: the weight of the newest in the running means, of the items x and of their progress p = x - mean(x).
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"converge: alpha is a number above 0 and at most 1, not {alpha!r}")
    mean: float | None = None
    progress = 0.0
    for item in items:
        x = float(item)  # type: ignore[arg-type]
        mean = x if mean is None else mean
        p = x - mean
        mean = alpha * x + (1 - alpha) * mean
        progress = alpha * p + (1 - alpha) * progress
        if not progress <= 0:  # or NaN
            return
        yield item


def _shorthand(optimiser: Callable[..., Any]) -> Callable[..., Minimize]:
    name: str = optimiser.__name__

    def run(f: Callable[..., Any], data: Iterable[Any], *, params: Any = None, epochs: int | None = 1, **options: Any) -> Minimize:
        return minimize(f, data, optimiser(**options), params, epochs)

    run.__name__ = run.__qualname__ = name.lower()
    run.__doc__ = f"minimize(f, data, {name}(**options), params, epochs)."
    return run


sgd, momentum, nesterov, adagrad, rmsprop, adadelta, adam, adamw = map(
    _shorthand, (SGD, Momentum, Nesterov, Adagrad, Rmsprop, Adadelta, Adam, AdamW)
)


def _check_arguments(f: Any, data: Any, opt: Any) -> None:
    how = "a training takes a function, data and an optimiser: train(f, minibatch(x, y, 32), Adam(), params=params)"
    if not callable(f):
        raise TypeError(f"{how}; the function is {describe(f)}")
    if isinstance(data, (Mapping, str)) or not (hasattr(data, "__iter__") or hasattr(data, "__getitem__")):
        raise TypeError(f"{how}; the data are {describe(data)}")
    if isinstance(opt, type) or not (opt is None or hasattr(opt, "step")):
        raise TypeError(f"{how}; the optimiser is {describe(opt)}")


def _as_callbacks(given: Any) -> list[Callback]:
    if not isinstance(given, Iterable):
        raise TypeError(f"callbacks is a list, callbacks=[FailOnNaN()], not {describe(given)}")
    return [c if isinstance(c, Callback) else Called(c) for c in given]


def _length(data: Any) -> int | None:
    return len(data) if hasattr(data, "__len__") else None


def _in_c_order(x: Any) -> Any:
    """As updates and files have it, so that a training that goes on from a file multiplies the same matrices."""
    if isinstance(x, Tensor):
        return constant(_in_c_order(x._array))
    return np.asarray(x, order="C") if isinstance(x, np.ndarray) else x
