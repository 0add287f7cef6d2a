"""Fusion: a chain of operators replaced by one, where the math mode allows it.

    fuse(conv4, add, {relu: "relu", ...}, into=conv_bias_act, when=bias_per_channel)

conv4's result is *pending*: an instance of a subclass of Tensor whose array and id are unset, so whoever touches them
makes it real by running the plain operator.  Adding a bias (`when` says which shapes are one) or a residual of the same
shape keeps it pending; an activation runs the fused operator instead of the chain.  Ordinary Tensors pay nothing.

Whether an intermediate will be used again can't be known when its chain is fused.  So: fuse, and learn.  A chain that
had to be computed again is not fused any more for these shapes and options.

A pending value remembers its tape, backend and mode and is recorded there whenever it is made real.  When the outermost
transform ends, `settle` makes real what somebody still holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import backend, math_mode
from .backends.kernels import Array, Shape
from .errors import TapeError
from .tape import Record, Settings, current, home, is_ours, no_grad, recording
from .tensor import Tensor, constant

FUSED_AWAY: Any = "fused away"  # what _pending holds once a value that a fused chain skipped was made real after all
_LIMIT = 4096  # signatures remembered by a rule


class Pending(Tensor):
    """A deferred result.  It has Tensor's layout, so it is made real by filling its slots and changing its class."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:  # reached only when a slot is unset
        if name == "_array" and _is_elsewhere(d := self._pending):
            return _value(d)
        force(self)
        return getattr(self, name)

    @property
    def dtype(self) -> Any:
        deferred = self._pending
        return deferred.dtype if type(deferred) is Deferred else self._array.dtype


class Deferred:
    """A call that was not made: the operator, its inputs and options, where it belongs, and what its chain has so far."""

    __slots__ = ("args", "bias", "dtype", "fused", "key", "op", "options", "record", "residual", "rule", "settings", "start")

    def __init__(self, rule: Rule, op: Any, args: tuple[Any, ...], options: tuple[Any, ...], dtype: Any) -> None:
        self.rule, self.op, self.args, self.options, self.dtype = rule, op, args, options, dtype
        self.record, self.settings = current(), Settings.now()
        self.start: Pending | None = None  # the chain's first value, where this is a later one
        self.bias: Tensor | None = None
        self.residual: Tensor | None = None
        self.key: Any = None  # by which the rule remembers the chain, where this is its first value
        self.fused = False  # whether the chain ran as one operator

    def run(self, args: Any) -> Tensor:
        """The plain operator on these inputs, now."""
        y: Tensor = self.op.eager(*args, **dict(zip(self.op.options, self.options, strict=True)))
        return y


class Rule:
    """One declaration of `fuse`, and what it has learnt."""

    def __init__(self, start: Any, join: Any, ends: dict[Any, str], into: Any, when: Callable[[Shape, Shape], bool]) -> None:
        self.start, self.join, self.into, self.when = start, join, into, when
        self.ends = ends
        self.shapes: dict[Any, Shape | None] = {}  # (input shapes, options) -> the result's shape; None: not worth fusing

    def remember(self, key: Any, shape: Shape | None) -> Shape | None:
        if len(self.shapes) >= _LIMIT:
            self.shapes.clear()
        self.shapes[key] = shape
        return shape

    def extend(self, op: Any, args: tuple[Any, ...], h: Pending) -> Tensor | None:
        """The chain of pending h taken one operator further, by another pending value or the fused result; None if it does not fit."""
        d = h._pending
        if op is not self.join:
            return self._finish(d, h, self.ends[op])
        other = args[1] if args[0] is h else args[0]
        if type(other) is not Tensor or other._array.dtype is not d.dtype:
            return None
        if d.bias is None and self.when(h._shape, other._shape):
            bias, residual = other, d.residual
        elif d.residual is None and other._shape == h._shape:
            bias, residual = d.bias, other
        else:
            return None
        longer = Deferred(self, op, args, (), d.dtype)
        longer.start, longer.bias, longer.residual = h if d.start is None else d.start, bias, residual
        return _pend(h._shape, longer)

    def _finish(self, d: Deferred, h: Pending, activation: str) -> Tensor | None:
        start = h if d.start is None else d.start
        if type(start) is not Pending:  # made real meanwhile: its value is there already
            return None
        first = start._pending
        w, x = first.args
        options = dict(zip(first.op.options, first.options, strict=True))
        y: Tensor = self.into.eager(w, x, d.bias, d.residual, activation=activation, **options)
        first.fused = d.fused = True
        return y


def fuse(start: Any, join: Any, ends: dict[Any, str], *, into: Any, when: Callable[[Shape, Shape], bool]) -> None:
    """Declare that start -> join -> end becomes one call of `into`.

    start, join, into and the keys of ends are operators; start has a shape function and two inputs.  into takes start's
    inputs and options, optional inputs bias and residual, and activation=ends[end].  when(shape of start's result, shape
    of the other operand) says whether join adds a bias.
    """
    start.op.fusion = Rule(start.op, join.op, {end.op: name for end, name in ends.items()}, into.op, when)


def defer(op: Any, args: tuple[Tensor, Tensor], options: tuple[Any, ...]) -> Pending | None:
    """Remember a call that starts a chain instead of making it.  None: make it now.  Raises what the call's shapes deserve."""
    rule, (a, b) = op.fusion, args
    if rule is None or a._array.dtype is not b._array.dtype or a._array.dtype.kind != "f":
        return None  # integers have other activations; what else is wrong the kernel says, here and now
    key = (a._shape, b._shape, options)
    try:
        shape = rule.shapes[key] if key in rule.shapes else rule.remember(key, op.shape_of(a._shape, b._shape, *options))
    except TypeError:  # options that can't be hashed, such as lists
        return None
    if shape is None:
        return None
    d = Deferred(rule, op, args, options, a._array.dtype)
    d.key = key
    return _pend(shape, d)


def _pend(shape: Shape, deferred: Deferred) -> Pending:
    h = Pending()
    h._shape, h._pending = shape, deferred
    if (record := home()) is not None:
        record.pending.append(h)
        if len(record.pending) > record.sweep_at:
            _sweep(record)
    return h


def continues(op: Any, h: Pending) -> bool:
    """Whether an operator may be the next one of h's chain, here and in this mode."""
    d = h._pending
    return (
        type(d) is Deferred
        and (op is d.rule.join or op in d.rule.ends)
        and d.record is current()
        and d.settings.kernels is backend.kernels()
        and math_mode.get() != "pedantic"
    )


def force(h: Pending) -> None:
    """Compute a pending value by the plain operators, on the tape and the backend it was made under.

    The class changes last: another thread that meets it half-way computes it too, to the same end.
    """
    d = h._pending
    if type(d) is not Deferred:
        return
    if _is_elsewhere(d):
        raise TapeError(f"{d.op.name}: its pending result is being recorded in another thread or task; pass its value (t.numpy())")
    record = d.record if d.record is not None and d.record.is_live else None
    if d.fused and d.key is not None:
        d.rule.remember(d.key, None)  # the convolution runs a second time: not worth fusing
    for x in d.args:
        if type(x) is Pending:
            force(x)
    with d.settings.restored() as there:
        if record is not current():
            there.enter_context(no_grad() if record is None else recording(record))
        y = d.run(d.args)
    h._array, h._id = y._array, y._id
    h.__class__ = Tensor  # type: ignore[assignment]
    h._pending = FUSED_AWAY if d.fused else None


def _is_elsewhere(d: Any) -> bool:
    """Whether a pending value is to be recorded on a tape that another thread or task opened."""
    return type(d) is Deferred and d.record is not None and d.record.is_live and not is_ours(d.record)


def _value(d: Deferred) -> Array:
    """The value alone, which may be looked at anywhere."""
    with d.settings.restored(), no_grad():
        return d.run([constant(x._array) if isinstance(x, Tensor) else x for x in d.args])._array


def _sweep(record: Record) -> None:
    """Forget pending values that are real by now or that nobody else holds: a long loop under no_grad must not keep its inputs."""
    # References: the list, the loop variable, getrefcount's argument.  A chain's first half is held by its second: next time.
    record.pending[:] = [h for h in record.pending if type(h) is Pending and sys.getrefcount(h) > 3]
    record.sweep_at = 2 * len(record.pending) + 64


def settle(record: Record) -> None:
    """Make real the pending values that somebody still holds, before control goes back to code that may overwrite arrays."""
    while record.pending:
        h = record.pending.pop()
        if type(h) is Pending and sys.getrefcount(h) > 2:
            force(h)
