"""Fusion: a chain of operators replaced by one, where the math mode allows it.

    fuse(conv4, add, {relu: "relu", ...}, into=conv_bias_act, is_bias=bias_per_channel)

conv4's result is *pending*: an instance of a subclass of Tensor whose array and id are unset, so whoever touches them
makes it real by running the plain operator.  Adding a bias (`is_bias` says which shapes are one) or a residual of the same
shape keeps it pending; an activation runs the fused operator instead of the chain.  Ordinary Tensors pay nothing.

Whether a value will go on as a chain, and whether an intermediate will be used again, can't be known beforehand.  So: fuse,
and learn.  A chain that had to be computed again is not fused any more for these shapes and options, and where values were
not fused time after time, few are deferred.

A pending value remembers its tape, backend and mode and is recorded there whenever it is made real.  When the outermost
transform ends, `settle` makes real what somebody still holds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from math import inf
from sys import getrefcount
from typing import Any

from .backend import kernels
from .backends.kernels import Array, Kernels, Shape
from .errors import TapeError
from .math_mode import get as math_mode
from .references import ALONE, LISTED
from .tape import Record, Settings, current, home, is_ours, no_grad, recording
from .tensor import Tensor, backend_of, constant, kind_of

Test = Callable[[Shape, Shape], bool]
Worth = Callable[[Shape, Shape], int]
FUSED_AWAY: Any = "fused away"  # what _pending holds once a value that a fused chain skipped was made real after all
BORROWED = -2  # the id of a constant over the caller's array
_LIMIT = 4096  # signatures remembered by a rule
_PATIENCE, _PAUSE = 8, 256  # after so many values that were not fused, one by one, defer but one of so many


class Pending(Tensor):
    """A deferred result.  It has Tensor's layout, so it is made real by filling its slots and changing its class."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:  # reached only when a slot is unset
        call = self._pending
        if isinstance(call, (Chain, Link)) and (record := _elsewhere(_chain(call))) is not None and name in ("_array", "_id"):
            return _value(call) if name == "_array" else record.base
        force(self)
        return getattr(self, name)

    @property
    def dtype(self) -> Any:
        call = self._pending
        return _chain(call).plan.dtype if isinstance(call, (Chain, Link)) else self._array.dtype


class Chain:
    """The deferred call that starts a chain, and what belongs to the whole of it."""

    __slots__ = ("args", "fused", "kernels", "mode", "options", "plan", "record")
    args: tuple[Tensor, Tensor]
    options: tuple[Any, ...]
    plan: Plan
    record: Record | None
    kernels: Kernels
    mode: str
    fused: bool  # whether a chain that starts here has run as one operator


class Link:
    """A deferred call further on: start + bias, or + residual."""

    __slots__ = ("args", "before", "bias", "chain", "fused", "residual", "start")
    args: tuple[Any, ...]
    before: Link | None
    chain: Chain
    start: Pending  # the chain's first value
    bias: Tensor | None
    residual: Tensor | None
    fused: bool


class Plan:
    """What a rule knows of one signature, that is of the inputs' shapes, dtype and options."""

    __slots__ = ("biases", "dtype", "into", "next", "options", "pays", "rule", "shape", "unused", "worth")

    def __init__(self, rule: Rule, shape: Shape, dtype: Any, options: tuple[Any, ...], worth: float) -> None:
        self.rule, self.shape, self.dtype, self.next, self.into = rule, shape, dtype, rule.next, rule.into
        self.biases: set[Shape] = set()
        self.options = options  # of the fused operator, behind the activation and the residual
        self.worth = worth  # as many elements may be copied for a chain
        self.pays = kind_of(dtype) == "f"  # integers have other activations.  False once a chain had to be computed again
        self.unused = 0  # values, one after the other, that were not fused; and calls that were not deferred since

    def is_bias(self, shape: Shape) -> bool:
        """Whether adding an operand of this shape adds a bias; `biases` remembers those that do."""
        if found := self.rule.is_bias(self.shape, shape):
            self.biases.add(shape)
        return found

    def is_unlikely(self) -> bool:
        """Whether values were not fused lately; it is False once in a while."""
        self.unused += 1
        if self.unused < _PAUSE:
            return True
        self.unused = _PATIENCE - 1
        return False


class Rule:
    """One declaration of `fuse`, and what it has learnt."""

    def __init__(self, start: Any, join: Any, ends: dict[Any, str], into: Any, is_bias: Test, worth: Worth | None) -> None:
        self.start, self.join, self.ends, self.into, self.is_bias, self.worth = start, join, ends, into, is_bias, worth
        self.next: dict[Any, Callable[..., Tensor | None]] = {join: _join, **dict.fromkeys(ends, _finish)}
        self.plans: dict[Any, Plan] = {}

    def plan(self, key: Any) -> Plan:
        """The plan of a signature that is met for the first time.  Raises what its shapes deserve."""
        first, second, dtype, options = key
        shape = self.start.shape_of(first, second, *options)
        given = dict(zip(self.start.options, options, strict=True))
        more = tuple(given.get(p.name, p.default) for p in self.into.parameters[5:])
        if len(self.plans) >= _LIMIT:
            self.plans.clear()
        plan = self.plans[key] = Plan(self, shape, dtype, more, self.worth(first, second) if self.worth else inf)
        return plan


def fuse(start: Any, join: Any, ends: dict[Any, str], *, into: Any, is_bias: Test, worth: Worth | None = None) -> None:
    """Declare that start -> join -> end becomes one call of `into`.

    start, join, into and the keys of ends are operators; start has a shape function and two inputs.  into takes start's
    inputs, a bias, the activation ends[end], a residual, and start's options among its own.  is_bias(shape of start's
    result, shape of the other operand) says whether join adds a bias.  worth(shapes of start's inputs) is for a start that
    takes little time: how many elements of the caller's arrays may be copied for the sake of a chain; below 0 nothing is deferred.
    """
    for op in (join.op, *(end.op for end in ends)):
        op.extend_chains()
    start.op.fusion = Rule(start.op, join.op, {end.op: name for end, name in ends.items()}, into.op, is_bias, worth)
    start.op.changed()


def defer(op: Any, args: tuple[Tensor, Tensor], options: tuple[Any, ...], mode: str) -> Pending | None:
    """Remember a call that starts a chain instead of making it.  None: make it now.  Raises what the call's shapes deserve."""
    rule: Rule = op.fusion
    first, second = args
    dtype = first._array.dtype
    if dtype is not second._array.dtype and dtype != second._array.dtype:
        return None  # let the kernel say what is wrong, here and now
    key = (first._shape, second._shape, dtype, options)
    try:
        plan = rule.plans.get(key)
    except TypeError:  # options that can't be hashed, such as lists
        return None
    if plan is None:
        plan = rule.plan(key)
    if not plan.pays or (plan.unused >= _PATIENCE and plan.is_unlikely()):
        return None
    record = home()
    if first._id == BORROWED or second._id == BORROWED or (record is not None and record.borrowed):
        theirs = [t for t in args if _is_borrowed(t, record)]
        if sum(t.size for t in theirs) > plan.worth:
            return None
        for t in theirs:
            _own(t, record)
    chain = Chain()
    chain.args, chain.options, chain.plan = args, options, plan
    chain.record, chain.kernels, chain.mode = current(), kernels(), mode
    chain.fused = False
    h = Pending()
    h._shape, h._pending = plan.shape, chain
    if record is not None:
        _register(h, record)
    return h


def extend(op: Any, args: tuple[Any, ...], h: Pending, own: Callable[[Any], Any]) -> Tensor | None:
    """The chain of pending h taken one operator further: a pending value, or the fused operator's result; None if it does not fit.

    own(x) makes an operand a Tensor whose memory nobody overwrites.
    """
    call = h._pending
    if type(call) is Link:
        chain, link = call.chain, call
    elif type(call) is Chain:
        chain, link = call, None
    else:
        return None
    step = chain.plan.next.get(op)
    if step is None or chain.record is not current() or chain.kernels is not kernels() or math_mode() == "pedantic":
        return None
    return step(op, args, h, chain, link, own)


def _join(op: Any, args: tuple[Any, ...], h: Pending, chain: Chain, link: Link | None, own: Callable[[Any], Any]) -> Pending | None:
    """h + bias or h + residual: pending still."""
    other = args[1] if args[0] is h else args[0]
    if type(other) is not Tensor:
        other = own(other)
        if type(other) is not Tensor:
            return None
        args = (h, other) if args[0] is h else (other, h)
    plan, shape = chain.plan, h._shape
    if other._array.dtype is not plan.dtype and other._array.dtype != plan.dtype:
        return None
    longer = Link()
    longer.before = link
    if link is None:
        longer.start, longer.bias, longer.residual = h, None, None
    else:
        longer.start, longer.bias, longer.residual = link.start, link.bias, link.residual
    if longer.bias is None and (other._shape in plan.biases or plan.is_bias(other._shape)):
        longer.bias = other
    elif longer.residual is None and other._shape == shape:
        longer.residual = other
    else:
        return None
    if (record := home()) is not None and record.borrowed and other._id in record.borrowed:
        _own(other, record)
    longer.args, longer.chain, longer.fused = args, chain, False
    z = Pending()
    z._shape, z._pending = shape, longer
    if record is not None:
        record.pending.append(z)
    return z


def _finish(op: Any, args: tuple[Any, ...], h: Pending, chain: Chain, link: Link | None, own: Callable[[Any], Any]) -> Tensor | None:
    """An activation of h: the fused operator."""
    if chain.fused:  # once: from now on its first value is needed by itself
        return None
    plan = chain.plan
    first, second = chain.args
    if link is None:
        y: Tensor = plan.into.eager(first, second, None, plan.rule.ends[op], None, *plan.options)
    elif type(link.start) is Pending:
        y = plan.into.eager(first, second, link.bias, plan.rule.ends[op], link.residual, *plan.options)
    else:  # made real meanwhile: its value is there already
        return None
    chain.fused, plan.unused = True, 0
    while link is not None:
        link.fused = True
        link = link.before
    return y


def _is_borrowed(t: Tensor, record: Record | None) -> bool:
    """Whether a Tensor is over the caller's array."""
    return t._id == BORROWED or (record is not None and t._id in record.borrowed)


def _own(t: Tensor, record: Record | None) -> None:
    """It gets a copy, so that overwriting the array changes nothing that is still to be computed."""
    t._array = backend_of(t._array).copy(t._array)
    if t._id == BORROWED:
        t._id = -1
    elif record is not None:
        record.borrowed.discard(t._id)


def _register(h: Pending, record: Record) -> None:
    """Remember the first value of a chain for `settle`, and forget what nobody holds: most chains are done with by the next one."""
    pending = record.pending
    while pending and getrefcount(pending[-1]) == LISTED:
        pending.pop()
    pending.append(h)
    if len(pending) > record.sweep_at:
        _sweep(record)


def force(h: Pending) -> None:
    """Compute a pending value by the plain operators, on the tape and the backend it was made under.

    The class changes last: another thread that meets it half-way computes it too, to the same end.
    """
    call = h._pending
    if call is None or call is FUSED_AWAY:  # another thread was faster
        return
    chain = _chain(call)
    if _elsewhere(chain) is not None:
        name = chain.plan.rule.start.name
        raise TapeError(f"{name}: its pending result is being recorded in another thread or task; pass its value (t.numpy())")
    if call is chain:
        if chain.fused:
            chain.plan.pays = False  # the chain's first operator runs a second time
        elif chain.plan.unused < _PATIENCE:
            chain.plan.unused += 1
    for x in call.args:
        if type(x) is Pending:
            force(x)
    record = chain.record if chain.record is not None and chain.record.is_live else None
    with ExitStack() as there:
        there.enter_context(Settings(chain.kernels, chain.mode).restored())
        if record is not current():
            there.enter_context(no_grad() if record is None else recording(record))
        y = _run(call, call.args)
    h._array, h._id = y._array, y._id
    h.__class__ = Tensor  # type: ignore[assignment]
    h._pending = FUSED_AWAY if call.fused else None


def _run(call: Chain | Link, args: Any) -> Tensor:
    """The plain operator of a deferred call on these inputs, now."""
    if isinstance(call, Link):
        y: Tensor = call.chain.plan.rule.join.eager(*args)
    else:
        start = call.plan.rule.start
        y = start.eager(*args, **dict(zip(start.options, call.options, strict=True)))
    return y


def _chain(call: Chain | Link) -> Chain:
    return call if isinstance(call, Chain) else call.chain


def _elsewhere(chain: Chain) -> Record | None:
    """The tape that a chain is to be recorded on, if another thread or task opened it."""
    record = chain.record
    return record if record is not None and record.is_live and not is_ours(record) else None


def _value(call: Chain | Link) -> Array:
    """The value alone, which may be looked at anywhere."""
    chain = _chain(call)
    with Settings(chain.kernels, chain.mode).restored(), no_grad():
        return _run(call, [constant(x._array) if isinstance(x, Tensor) else x for x in call.args])._array


def _sweep(record: Record) -> None:
    """Forget pending values that are real by now or that nobody else holds: a long loop under no_grad must not keep its inputs."""
    # The list holds each once more.  A chain's first half is held by its second: it goes next time.
    record.pending[:] = [h for h in record.pending if type(h) is Pending and getrefcount(h) > ALONE + 1]
    record.sweep_at = 2 * len(record.pending) + 64


def settle(record: Record) -> None:
    """Make real the pending values that somebody still holds, before control goes back to code that may overwrite arrays."""
    while record.pending:
        h = record.pending.pop()
        if type(h) is Pending and getrefcount(h) > ALONE:
            force(h)
