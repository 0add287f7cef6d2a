"""A user's function as one entry of the tape: checkpoint and custom_gradient.

The function runs recorded, which shows what it used; then its entries are forgotten and one takes their place:

    (code, ids of what was used, call)

followed by a RESULT entry for each result.  `call` knows how to go on backwards: a checkpoint runs the function again
and walks through what that records, a custom gradient calls its rule.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from threading import get_ident
from typing import Any, NamedTuple, TypeVar

import numpy as np

from . import backend, random, tree
from .context import using
from .errors import OperatorError, TapeError
from .fusion import settle
from .param import Param, watch
from .rows import dense
from .tape import (
    RESULT,
    Record,
    Settings,
    active,
    forget,
    home,
    inputs_of,
    new_code,
    recording,
    said_of_training,
    training,
)
from .tensor import Tensor, adopt, backend_of, cast, constant, describe
from .walk import walk_on_raw, walk_on_traced

F = TypeVar("F", bound=Callable[..., Any])


class Kind(NamedTuple):
    """What the tape knows of the entries of one kind, as it does of an operator."""

    name: str
    raw: Callable[..., None]
    traced: Callable[..., None]
    variadic: bool = True
    is_users: bool = True

    def step(self, traced: bool) -> Callable[..., None]:
        return self.traced if traced else self.raw


class Call:
    """One call of a function: its arguments, and what else its result hangs on, so that it can run again."""

    def __init__(self, f: Callable[..., Any], args: Any, kwargs: Any, record: Record) -> None:
        self.f, self._record = f, weakref.ref(record)  # which holds this entry: no cycle
        self.args, self.kwargs = _copied((args, kwargs))
        self.settings, self.training, self.seeds = Settings.now(), said_of_training(), list[int]()
        self.watched = list(record.watched)  # which variable each Param is
        self.results: list[Any] = []  # a checkpoint's, to compare with
        self.carried: dict[int, tuple[Any, dict[str, Any]]] = {}  # by its id what carries a state on, and the state at first

    def __repr__(self) -> str:
        return _name(self.f)

    @property
    def record(self) -> Record:
        record = self._record()
        assert record is not None  # it is being walked
        return record

    def run(self) -> tuple[Any, Any]:
        """For the first time: the result, and the states that it carried on."""
        with random.noted(self.seeds), using((_running, (*_running.get(), self))):
            return self._result(), self._states()

    def run_again(self) -> tuple[Any, Any]:
        """As it ran then, recorded at the end of its tape; the states are afterwards as they are now."""
        now = self._states()
        self.carry_on([state for _, state in self.carried.values()])
        try:
            with self.settings.restored(), self._pinned(), random.replayed(self.seeds), recording(self.record):
                return self._result(), self._states()
        finally:
            self.carry_on(now)

    def _states(self) -> list[dict[str, Any]]:
        return [dict(vars(holder)) for holder, _ in self.carried.values()]

    def carry_on(self, states: list[dict[str, Any]]) -> None:
        """Go on from these states."""
        for (holder, _), state in zip(self.carried.values(), states, strict=True):
            vars(holder).update(state)

    def _result(self) -> Any:
        args, kwargs = _copied((self.args, self.kwargs))
        y = self.f(*args, **kwargs)
        for leaf in tree.leaves(y):
            if isinstance(leaf, Tensor):
                leaf._id  # noqa: B018  makes a pending result real
        return y

    @contextmanager
    def _pinned(self) -> Iterator[None]:
        before, self.record.watched = self.record.watched, self.watched
        try:
            with training(self.training):
                yield
        finally:
            self.record.watched = before


_running: ContextVar[tuple[Call, ...]] = ContextVar("running", default=())  # the calls that run here for the first time


def carries(holder: Any) -> None:
    """To be called before something changes the attributes of `holder`, the state that its next call starts from.

    For a checkpoint around it they are arguments and results like others.
    """
    for call in _running.get():
        call.carried.setdefault(id(holder), (holder, dict(vars(holder))))


def _name(f: Any) -> str:
    return getattr(f, "__name__", repr(f))  # a functools.partial has none


def _expect_function(what: str, f: Any) -> None:
    if not callable(f):
        raise TypeError(f"{what} takes a function, not {describe(f)}")


def _copied(x: Any) -> Any:
    """A tree with containers of its own: a function that changes those it was given changes nothing here."""
    return tree.map(lambda leaf: leaf, x)


_PLAIN = (int, float, complex, str, bytes, slice, range, Enum, Param)


def _check_leaves(call: Call, y: Any) -> None:
    """Raise TypeError if a result holds an object that may hide a Tensor."""
    for leaf in tree.leaves(y):
        if not (hasattr(leaf, "dtype") or callable(leaf) or isinstance(leaf, _PLAIN)):
            raise TypeError(f"{call}: it returned {describe(leaf)}, in which a Tensor would be lost; at.tree.register makes it a tree")


def met(record: Record, start: int) -> set[int]:
    """The ids, from `start` on, of Params that were met there first."""
    return {leaf._id for level in record.watched for leaf in level.values() if leaf._id >= start}


def used(record: Record, start: int, results: Any, params: set[int]) -> list[int]:
    """The ids from before `start`, and of Params met since, that the Tensors among `results` come from."""
    reached = {t._id for t in results if isinstance(t, Tensor) and t._id >= record.base}
    for k in range(record.end - 1, start - 1, -1):
        if k in reached and k not in params:
            reached.update(i for i in inputs_of(record[k - record.base], k) if i >= record.base)
    return sorted(i for i in reached if i < start or i in params)


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
    What f closes over, Tensors and Params, is differentiated too; what leaves it otherwise than in its result is a constant
    outside.  Dropout and math mode are the same in both runs; other effects of f happen twice, and it gets copies of the
    containers among its arguments.  What it reads must be as it was when it runs again; a loop's variable that it closes over is
    not, nor are NumPy's random numbers, or arrays that are overwritten: pass them as arguments.  Other results than at first
    raise TapeError.
    """
    _expect_function("checkpoint", f)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        record = active()
        if record is None:
            return f(*args, **kwargs)
        settle(record)  # what is pending outside must not become real inside
        start, call = record.end, Call(f, args, kwargs, record)
        y, states = call.run()
        _check_leaves(call, y)
        leaves, build = tree.flatten((y, states))
        params = met(record, start)
        places = inner_results(leaves, start, params)
        results = [leaves[i] for i in places]
        call.results = [t._array for t in results]
        ids = used(record, start, results, params)
        if places:
            for i, t in zip(places, fold(record, start, _CHECKPOINT, ids, params, call, results), strict=True):
                leaves[i] = t
        else:
            forget(record, start, record.end, params)
        y, states = build(leaves)
        call.carry_on(states)
        return y

    return run  # type: ignore[return-value]


def inner_results(leaves: list[Any], start: int, params: set[int]) -> list[int]:
    """Which leaves of a result were recorded from `start` on."""
    return [i for i, t in enumerate(leaves) if isinstance(t, Tensor) and t._id >= start and t._id not in params]


def _again(entry: Any, gs: Any) -> tuple[Call, int, list[tuple[int, Any]]]:
    """Run a checkpoint again: its call, where its entries start, and the cotangents of its results there."""
    _, ids, call = entry
    record, start = call.record, call.record.end
    leaves = tree.leaves(call.run_again())
    results = [leaves[i] for i in inner_results(leaves, start, set())]
    if used(record, start, results, set()) != ids:  # ids of Params that were met later may stand for new entries by now
        raise _otherwise(call)
    _check_alike(call, results, call.results)
    return call, start, [(t._id, g) for t, g in zip(results, gs, strict=True) if g is not None]


def _check_alike(call: Call, again: Any, first: Any) -> None:
    """Raise TapeError unless two runs gave trees of the same numbers, but for what rounding in another order may do."""
    found, expected = _numbers(again), _numbers(first)
    if len(found) != len(expected) or not all(map(_alike, found, expected)):
        raise _otherwise(call)


def _otherwise(call: Call) -> TapeError:
    return TapeError(
        f"{call}: it did not do the same when it ran again for its derivatives. What it reads must be as it was: pass as arguments "
        "a loop's variable that it closes over, NumPy's random numbers, and arrays that are overwritten meanwhile (a copy of them)"
    )


_HOST = (bool, int, float, complex, np.ndarray, np.generic)


def _numbers(x: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays and numbers among the leaves of a tree, as NumPy's."""
    raw = [t._array if isinstance(t, Tensor) else t for t in tree.leaves(x)]
    arrays = tuple(k.array for k in backend.loaded())
    found = [np.asarray(backend_of(a).to_numpy(a) if isinstance(a, arrays) else a) for a in raw if isinstance(a, (*_HOST, *arrays))]
    return [a for a in found if a.dtype.kind in "biufc"]


def _alike(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    rtol = np.finfo(a.dtype).eps ** 0.5 if a.dtype.kind in "fc" else 0.0
    return a.shape == b.shape and bool(np.allclose(a, b, rtol, rtol * float(abs(b).max(initial=0.0, where=np.isfinite(b))), equal_nan=True))


def _checkpoint_raw(gs: Any, entry: Any, G: Any, base: int, own: set[int]) -> None:
    call, start, seeds = _again(entry, gs)
    walk_on_raw(call.record, start, seeds, G, base, own)


def _checkpoint_traced(gs: Any, entry: Any, G: Any, base: int, k: int) -> None:
    call, start, seeds = _again(entry, gs)
    walk_on_traced(call.record, start, seeds, G, base)


_CHECKPOINT = new_code(Kind("checkpoint", _checkpoint_raw, _checkpoint_traced))


# ---------------------------------------------------------------- custom gradients


class Custom(NamedTuple):
    """A call of a custom_gradient: what its rule needs."""

    call: Call
    rule: Callable[..., Any]
    residuals: Any
    build: tree.Build  # a tree like the value, of a cotangent for each leaf
    leaves: int  # how many it has
    places: list[int]  # which of them are results
    likes: list[tuple[Any, Any]]  # their shapes and dtypes


def custom_gradient(f: Callable[..., Any]) -> Any:
    """A function with a backward rule of your own.

        @custom_gradient
        def clipped_exp(x):
            y = np.exp(x)
            return y, y                                      # the value, and what the rule needs (the residuals)

        @clipped_exp.backward
        def _(dy, y): return np.clip(dy * y, -1, 1)          # dy is a tree like the value

    The rule gives the cotangent of the one argument, or a tuple of one for each; None is zero.  It gets Tensors, and is
    differentiated in its turn, through the residuals as f computes them, for derivatives of higher order: for those f runs
    again, as a checkpoint does, and other residuals than at first raise TapeError.  Keyword arguments are constants.  Inside f
    values may be looked at (x.numpy(), at.stop_gradient(x)), since the rule gives the derivative.  Raises TapeError if f, or
    the rule, uses something that is differentiated and is no argument.
    """
    _expect_function("custom_gradient", f)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if run.rule is None:  # type: ignore[attr-defined]
            raise OperatorError(f"{_name(f)}: it has no rule yet: declare one with @{_name(f)}.backward")
        record = active()
        if record is None:
            return _value(f, f(*args, **kwargs))[0]
        settle(record)
        args = tree.map(lambda a: watch(a) if isinstance(a, Param) else a, args)
        start, call = record.end, Call(f, args, kwargs, record)
        y, residuals = _value(f, call.run()[0])
        ids = [t._id if isinstance(t, Tensor) and record.holds(t._id) else -1 for t in tree.leaves(args)]
        _check_leaves(call, y)
        _refuse_others(call, record, start, ids, tree.leaves((y, residuals)), "it")
        params = met(record, start)
        if max(ids, default=-1) < 0:
            forget(record, start, record.end, params)
            return y
        leaves, build = tree.flatten(y)
        places = [i for i, t in enumerate(leaves) if isinstance(t, float) or getattr(getattr(t, "dtype", None), "kind", "") in ("f", "c")]
        results = [leaves[i] if isinstance(leaves[i], Tensor) else constant(adopt(leaves[i], backend.kernels())) for i in places]
        kept = tree.map(lambda t: constant(t._array) if isinstance(t, Tensor) else t, residuals)
        _, build_like = tree.flatten(tree.map(lambda _: 0, y))  # which does not hold y
        rule, likes = run.rule, [(t._shape, t.dtype) for t in results]  # type: ignore[attr-defined]
        custom = Custom(call, rule, kept, build_like, len(leaves), places, likes)
        for i, t in zip(places, fold(record, start, _CUSTOM, ids, params, custom, results), strict=True):
            leaves[i] = t
        return build(leaves)

    def backward(rule: Callable[..., Any]) -> Callable[..., Any]:
        _expect_function(f"{_name(f)}.backward", rule)
        run.rule = rule  # type: ignore[attr-defined]
        return rule

    run.rule, run.backward = None, backward  # type: ignore[attr-defined]
    return run


def _value(f: Callable[..., Any], pair: Any) -> Any:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise OperatorError(f"{_name(f)}: a custom_gradient returns (value, residuals), not {describe(pair)}")
    return pair


def _refuse_others(call: Call, record: Record, start: int, ids: list[int], results: Any, who: str) -> None:
    """Raise TapeError if `results` come from something that is differentiated and is no argument."""
    found = set(used(record, start, results, met(record, start))).difference(ids)
    if not (record.is_explicit or len(record.watched) > 1):
        found -= met(record, start)  # Params, for whose gradient nobody can ask
    if any(record.holds(i) for i in found):
        raise TapeError(f"{call}: {who} uses a Tensor or Param that is differentiated and is no argument: pass it as one")


def _go_on(custom: Custom, gs: Any, residuals: Any, ids: list[int], base: int) -> Iterator[tuple[int, Tensor]]:
    """The (id, cotangent) of each input that wants one, by the rule."""
    k, call = backend.kernels(), custom.call
    dy: list[Any] = [None] * custom.leaves
    for i, g, like in zip(custom.places, gs, custom.likes, strict=True):
        dy[i] = constant(k.zeros(*like)) if g is None else g
    given = _for_each_argument(call, custom.rule(custom.build(dy), residuals))
    each = [g for arg, given_one in zip(call.args, given, strict=True) for g in _leaves_like(call, arg, given_one)]
    for i, x, g in zip(ids, tree.leaves(call.args), each, strict=True):
        if i >= base and g is not None:
            yield i, _fitting(call, g, x, k)


def _for_each_argument(call: Call, given: Any) -> Any:
    """What a rule gave, as one cotangent for each argument: of the only one it may be given alone."""
    n = len(call.args)
    if n == 1:
        inside = isinstance(given, tuple) and len(given) == 1 and isinstance(given[0], tuple)
        given = (given,) if not isinstance(given, tuple) or (isinstance(call.args[0], tuple) and not inside) else given
    if not isinstance(given, (tuple, list)) or len(given) != n:
        raise OperatorError(f"{call}: the rule returns one cotangent for each of the {n} arguments, not {describe(given)}")
    return given


def _leaves_like(call: Call, arg: Any, g: Any) -> list[Any]:
    """The cotangent of each leaf of an argument; None where it is zero."""
    if g is None:
        return [None] * len(tree.leaves(arg))
    found: list[Any] = []
    try:
        tree.map(lambda x, c: found.append(c), arg, g)
    except ValueError as e:
        raise ValueError(str(e).replace("tree.map", f"{call}: the rule gave a cotangent that is no tree like its argument")) from e
    return found


def _fitting(call: Call, g: Any, x: Any, k: Any) -> Tensor:
    """A cotangent as a Tensor of its input's dtype; TypeError if it is no array, ValueError if it has another shape."""
    try:
        g = g if isinstance(g, Tensor) else constant(adopt(g, k))
    except TypeError as e:
        raise TypeError(f"{call}: the rule gave a cotangent that is no array: {e}") from e
    g._id  # noqa: B018  makes it real
    if g.shape != x.shape:
        raise ValueError(f"{call}: the rule gave a cotangent of shape {g.shape} for an argument of shape {x.shape}")
    fitted: Tensor = cast(g, x.dtype)
    return fitted


def _custom_raw(gs: Any, entry: Any, G: Any, base: int, own: set[int]) -> None:
    _, ids, custom = entry
    tensors = [None if g is None else constant(dense(g)) for g in gs]
    for i, g in _on_constants(custom, tensors, ids, base):
        G[i - base] = g._array if G[i - base] is None else G[i - base] + g._array
        own.discard(i - base)


def _on_constants(custom: Custom, gs: Any, ids: list[int], base: int) -> list[tuple[int, Tensor]]:
    """What the rule gives for constants.  What of it is recorded, comes from something else that a level outside differentiates."""
    record = home()
    if record is None or not record.is_live or record.thread != get_ident():
        return list(_go_on(custom, gs, custom.residuals, ids, base))
    start = record.end
    with recording(record):
        found = list(_go_on(custom, gs, custom.residuals, ids, base))
    try:
        _refuse_others(custom.call, record, start, [], [g for _, g in found], "its rule")
    finally:
        forget(record, start, record.end, met(record, start))
    return found


def _custom_traced(gs: Any, entry: Any, G: Any, base: int, k: int) -> None:
    _, ids, custom = entry
    residuals = custom.residuals
    if custom.call.record is active():  # on the same tape they are functions of the arguments; on another constants to it anyway
        residuals = _value(custom.call.f, custom.call.run_again()[0])[1]
        _check_alike(custom.call, residuals, custom.residuals)
    for i, g in _go_on(custom, gs, residuals, ids, base):
        G[i] = G[i] + g if i in G else g


_CUSTOM = new_code(Kind("custom_gradient", _custom_raw, _custom_traced))
