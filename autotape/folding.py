"""A user's function as one entry of the tape: checkpoint and custom_gradient.

The function runs recorded, which shows what it used; then its entries are forgotten and one takes their place:

    (code, ids of what was used, call)

followed by a RESULT entry for each result.  `call` knows how to go on backwards: a checkpoint runs the function again
and walks through what that records, a custom gradient calls its rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from . import backend, random, tree
from .errors import OperatorError, TapeError
from .fusion import settle
from .param import Param, watch
from .tape import (
    RESULT,
    Record,
    Settings,
    active,
    forget,
    inputs_of,
    is_training,
    new_code,
    recording,
    training,
)
from .tensor import Tensor, adopt, constant, describe
from .walk import walk_on_raw, walk_on_traced

F = TypeVar("F", bound=Callable[..., Any])


class Kind(NamedTuple):
    """What the tape knows of the entries of one kind, as it does of an operator."""

    name: str
    raw: Callable[..., None]
    traced: Callable[..., None]
    variadic: bool = True

    def step(self, traced: bool) -> Callable[..., None]:
        return self.traced if traced else self.raw


class Call:
    """One call of a function: its arguments, and what else its result hangs on, so that it can run again."""

    def __init__(self, f: Callable[..., Any], args: Any, kwargs: Any, record: Record) -> None:
        self.f, self.args, self.kwargs, self.record = f, args, kwargs, record
        self.settings, self.training, self.seeds = Settings.now(), is_training(), list[int]()
        self.watched = list(record.watched)  # which variable each Param is

    def run(self) -> Any:
        """For the first time."""
        with random.noted(self.seeds):
            return real(self.f(*self.args, **self.kwargs))

    def run_again(self) -> Any:
        """As it ran then, recorded at the end of its tape."""
        with self.settings.restored(), self._pinned(), random.replayed(self.seeds), recording(self.record):
            return real(self.f(*self.args, **self.kwargs))

    @contextmanager
    def _pinned(self) -> Iterator[None]:
        before, self.record.watched = self.record.watched, self.watched
        try:
            with training(self.training):
                yield
        finally:
            self.record.watched = before


def real(y: Any) -> Any:
    """A tree of results, none of them pending."""
    for t in tree.leaves(y):
        if isinstance(t, Tensor):
            t._id  # noqa: B018
    return y


def used(record: Record, start: int) -> tuple[list[int], set[int]]:
    """The ids before `start` that entries from there on refer to, and the variables among these entries that are Params."""
    params = {leaf._id for level in record.watched for leaf in level.values() if leaf._id >= start}
    ids = {i for k, entry in enumerate(record[start - record.base :], start) for i in inputs_of(entry, k) if record.base <= i < start}
    return sorted(ids | params), params


def fold(record: Record, start: int, code: int, ids: list[int], keep: set[int], call: Any, results: list[Tensor]) -> list[Tensor]:
    """Put one entry in the place of those from `start` on; gives the results as its results."""
    forget(record, start, record.end, keep)
    record.append((code, ids, call))
    folded = []
    for j, t in enumerate(results, 1):
        y = constant(t._array)
        y._id = record.end
        record.append((RESULT, j, len(results)))
        folded.append(y)
    return folded


# ---------------------------------------------------------------- checkpoint


def checkpoint(f: F) -> F:
    """f, whose intermediate values are not kept: backward runs it again.

        @checkpoint
        def layer(w, x): return np.tanh(x @ w)

    Of a loop of n steps, in sqrt(n) checkpointed pieces of sqrt(n) steps each, about 2 sqrt(n) states are kept instead of n.
    What f closes over, Tensors and Params, is differentiated too.  Dropout and math mode are the same in both runs; other
    effects of f happen twice.
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        record = active()
        if record is None:
            return f(*args, **kwargs)
        settle(record)  # what is pending outside must not become real inside
        start, call = record.end, Call(f, args, kwargs, record)
        y = call.run()
        ids, params = used(record, start)
        leaves, build = tree.flatten(y)
        places = inner_results(leaves, start, params)
        if not places:
            forget(record, start, record.end, params)
            return y
        for i, t in zip(places, fold(record, start, _CHECKPOINT, ids, params, call, [leaves[i] for i in places]), strict=True):
            leaves[i] = t
        return build(leaves)

    return run  # type: ignore[return-value]


def inner_results(leaves: list[Any], start: int, params: set[int]) -> list[int]:
    """Which leaves of a result were recorded from `start` on."""
    return [i for i, t in enumerate(leaves) if isinstance(t, Tensor) and t._id >= start and t._id not in params]


def _again(call: Call, gs: Any) -> tuple[int, list[tuple[int, Any]]]:
    """Run a checkpoint again: where its entries start, and the cotangents of its results there."""
    start = call.record.end
    leaves = tree.leaves(call.run_again())
    places = inner_results(leaves, start, set())
    if len(places) != len(gs):
        raise TapeError(f"the function recorded {len(places)} results when it ran again, not {len(gs)}: it must do the same each time")
    return start, [(leaves[i]._id, g) for i, g in zip(places, gs, strict=True) if g is not None]


def _checkpoint_raw(gs: Any, entry: Any, G: Any, base: int, own: set[int]) -> None:
    start, seeds = _again(call := entry[2], gs)
    walk_on_raw(call.record, start, seeds, G, base, own)


def _checkpoint_traced(gs: Any, entry: Any, G: Any, base: int, k: int) -> None:
    start, seeds = _again(call := entry[2], gs)
    walk_on_traced(call.record, start, seeds, G, base)


_CHECKPOINT = new_code(Kind("checkpoint", _checkpoint_raw, _checkpoint_traced))


# ---------------------------------------------------------------- custom gradients


class Custom(NamedTuple):
    """A call of a custom_gradient: what its rule needs."""

    call: Call
    rule: Callable[..., Any]
    residuals: Any
    build: tree.Build  # the tree of results of their cotangents
    shapes: list[tuple[Any, Any]]  # shape and dtype of each result


def custom_gradient(f: Callable[..., Any]) -> Any:
    """A function with a backward rule of your own.

        @custom_gradient
        def clipped_exp(x):
            y = np.exp(x)
            return y, y                                      # the value, and what the rule needs (the residuals)

        @clipped_exp.backward
        def _(dy, y): return np.clip(dy * y, -1, 1)          # dy is a tree like the value

    The rule gives the cotangent of the one argument, or a tuple of one for each; None is zero.  It gets Tensors, and is
    differentiated in its turn, through the residuals as f computes them, for derivatives of higher order.  Keyword arguments
    are constants.  Raises TapeError if f closes over something that is differentiated: pass it as an argument.
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if run.rule is None:  # type: ignore[attr-defined]
            raise OperatorError(f"{f.__name__}: it has no rule yet: declare one with @{f.__name__}.backward")
        record = active()
        if record is None:
            return _value(f, f(*args, **kwargs))[0]
        settle(record)
        args = tree.map(lambda a: watch(a) if isinstance(a, Param) else a, args)
        start, call = record.end, Call(f, args, kwargs, record)
        y, residuals = _value(f, call.run())
        ids = [t._id if isinstance(t, Tensor) and record.holds(t._id) else -1 for t in tree.leaves(args)]
        found, params = used(record, start)
        if params or not set(ids).issuperset(found):
            raise TapeError(f"{f.__name__}: it uses a Tensor or Param that is differentiated and is no argument: pass it as one")
        if max(ids, default=-1) < 0:
            return y
        leaves, build = tree.flatten(y)
        places = [i for i, t in enumerate(leaves) if getattr(getattr(t, "dtype", None), "kind", "") in ("f", "c")]
        results = [leaves[i] if isinstance(leaves[i], Tensor) else constant(adopt(leaves[i], backend.kernels())) for i in places]

        def cotangents(gs: Any) -> Any:
            given = dict(zip(places, gs, strict=True))
            return build([given.get(i) for i in range(len(leaves))])

        kept = tree.map(lambda t: constant(t._array) if isinstance(t, Tensor) else t, residuals)
        custom = Custom(call, run.rule, kept, cotangents, [(t._shape, t.dtype) for t in results])  # type: ignore[attr-defined]
        for i, t in zip(places, fold(record, start, _CUSTOM, ids, set(), custom, results), strict=True):
            leaves[i] = t
        return build(leaves)

    def backward(rule: Callable[..., Any]) -> Callable[..., Any]:
        run.rule = rule  # type: ignore[attr-defined]
        return rule

    run.rule, run.backward = None, backward  # type: ignore[attr-defined]
    return run


def _value(f: Callable[..., Any], pair: Any) -> Any:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise OperatorError(f"{f.__name__}: a custom_gradient returns (value, residuals), not {describe(pair)}")
    return pair


def _go_on(custom: Custom, gs: Any, residuals: Any, ids: list[int], base: int) -> Iterator[tuple[int, Tensor]]:
    """The (id, cotangent) of each input that wants one, by the rule."""
    k, args = backend.kernels(), custom.call.args
    filled = [constant(k.zeros(*like)) if g is None else g for g, like in zip(gs, custom.shapes, strict=True)]
    given = custom.rule(custom.build(filled), residuals)
    if len(args) == 1 and (not isinstance(given, tuple) or (isinstance(args[0], tuple) and len(given) != 1)):
        given = (given,)
    if not isinstance(given, (tuple, list)) or len(given) != len(args):
        raise OperatorError(f"the rule returns one cotangent for each of the {len(args)} arguments, not {describe(given)}")
    each = [g for arg, given_one in zip(args, given, strict=True) for g in _leaves_like(arg, given_one)]
    for i, x, g in zip(ids, tree.leaves(args), each, strict=True):
        if i >= base and g is not None:
            yield i, _fitting(g, x, k)


def _leaves_like(arg: Any, g: Any) -> list[Any]:
    """The leaves of an argument's cotangent; None for each if it is None."""
    return [None] * len(tree.leaves(arg)) if g is None else tree.leaves(tree.map(lambda x, c: c, arg, g))


def _fitting(g: Any, x: Any, k: Any) -> Tensor:
    """A cotangent as a Tensor of its input's dtype; ValueError if it has another shape."""
    g = g if isinstance(g, Tensor) else constant(adopt(g, k))
    if g.shape != x.shape:
        raise ValueError(f"the rule gave a cotangent of shape {g.shape} for an argument of shape {x.shape}")
    fitted: Tensor = g if g.dtype == x.dtype else g.astype(x.dtype)
    return fitted


def _custom_raw(gs: Any, entry: Any, G: Any, base: int, own: set[int]) -> None:
    _, ids, custom = entry
    tensors = [None if g is None else constant(g) for g in gs]
    for i, g in _go_on(custom, tensors, custom.residuals, ids, base):
        G[i - base] = g._array if G[i - base] is None else G[i - base] + g._array
        own.discard(i - base)


def _custom_traced(gs: Any, entry: Any, G: Any, base: int, k: int) -> None:
    _, ids, custom = entry
    # Recorded on the same tape, residuals are functions of the arguments; on another they are constants to it anyway.
    residuals = _value(custom.call.f, custom.call.run_again())[1] if custom.call.record is active() else custom.residuals
    for i, g in _go_on(custom, gs, residuals, ids, base):
        G[i] = G[i] + g if i in G else g


_CUSTOM = new_code(Kind("custom_gradient", _custom_raw, _custom_traced))
