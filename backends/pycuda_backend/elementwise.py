"""Elementwise rules, each one launch: the rule is run once on symbols, and what it wrote is compiled and launched on arrays.

Where all arrays have one shape and lie alike in memory, elements are taken in their order there, as many at a time as 16 bytes hold;
else each array goes along by strides of its own, 0 where it is broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .array import DeviceArray, empty, empty_in_order, view
from .launch import Kernel, blocks_for, from_source, threads_for
from .layout import MAX_AXES, Layout, walk, walk_into
from .source import kernel_text
from .symbols import SYMBOLS, NoArgument, NotElementwise, Symbol, Trace, cast

_LETTERS = {"f": "d", "V": "d", "i": "q", "u": "Q", "b": "q"}  # of a number's dtype kind among the arguments of a launch
_READY_KEPT = 1000  # launches of a rule, by how many elements they have
_WIDEST = {"d": np.dtype(np.float64), "q": np.dtype(np.int64), "Q": np.dtype(np.uint64)}


class Rule:
    """An elementwise function of arrays and numbers.

    run: called with a table and the arguments, runs the rule under that table.
    fmad: tells, when it is launched, whether a product and a sum may be rounded once.
    """

    def __init__(self, run: Callable[..., Any], fmad: Callable[[], bool], title: str) -> None:
        self.run, self.fmad, self.title = run, fmad, title
        self._compiled: dict[Any, Compiled] = {}
        self._by_value: set[Any] = set()  # keys for which the rule chooses by a number, so that it is part of the text

    def __call__(self, *args: Any) -> Any:
        """The rule's results, new arrays.  Raises NotElementwise; ValueError if the shapes do not fit."""
        key = (self.fmad(), *[a.code if a.__class__ is DeviceArray else kind(a) for a in args])
        found = self._compiled.get(key)
        if found is None:
            found = self._find(key, args, None)
        return found.fresh(args)

    def into(self, out: Sequence[DeviceArray], *args: Any) -> None:
        """Write the results to these arrays, in their dtypes; they may be among the arguments."""
        key = (self.fmad(), *[a.code if a.__class__ is DeviceArray else kind(a) for a in args], None, *[o.code for o in out])
        self._find(key, args, out).write(out, args)

    def _find(self, key: Any, args: Sequence[Any], out: Sequence[DeviceArray] | None) -> Compiled:
        if baked := key in self._by_value:
            key = (key, *[repr(a) for a in args if a.__class__ in (int, float)])  # 0.0 == -0.0, and they differ
        if (found := self._compiled.get(key)) is None:
            try:
                found = Compiled(self, args, out, baked)
            except NotElementwise:
                if baked or not any(a.__class__ in (int, float) for a in args):
                    raise
                self._by_value.add(key)
                return self._find(key, args, out)
            self._compiled[key] = found
        return found


def kind(a: Any) -> Any:
    """What an argument that is no array contributes to the key: numbers are arguments of the launch, all else is part of the text."""
    if a.__class__ in (int, float):
        return a.__class__
    try:
        hash(a)  # a tuple may hold what has no hash
        is_option = not hasattr(a, "shape") or isinstance(a, np.dtype)
    except TypeError:
        is_option = False
    if not is_option:
        raise NoArgument(f"{type(a).__name__} is neither an array of this backend nor an option")
    return a.__class__, a


class Compiled:
    """A rule for arguments of certain dtypes: a text, and the functions that are compiled from it when they are first needed."""

    def __init__(self, rule: Rule, args: Sequence[Any], out: Sequence[DeviceArray] | None, baked: bool) -> None:
        self.fmad, self.title, self.trace = rule.fmad(), rule.title, Trace()
        self.arrays: list[int] = []  # which arguments lie on the device
        self.numbers: list[int] = []  # which are arguments of the launch
        self.parameters: list[tuple[str, str]] = []  # their types there
        results = rule.run(SYMBOLS, *[self._symbol(i, a, baked) for i, a in enumerate(args)])
        self.many = isinstance(results, tuple)
        self.results = list(map(_result, results if self.many else (results,)))
        if out is not None:
            self.results = [cast(r, o.dtype) for r, o in zip(self.results, out, strict=True)]
        self.outs = [r.dtype for r in self.results]
        self.inputs = [args[i].dtype for i in self.arrays]
        self.width = 16 // max(d.itemsize for d in (*self.outs, *self.inputs))
        self.count = 1 + len(self.outs) + len(self.inputs)  # where a launch's numbers begin, behind the addresses
        self._functions: dict[Any, Any] = {}
        self._ready: dict[tuple[int, bool], tuple[Kernel, int, int]] = {}

    def _symbol(self, i: int, a: Any, baked: bool) -> Any:
        """An argument as the rule meets it."""
        if a.__class__ is DeviceArray:
            if a.value is None:
                self.arrays.append(i)
                return Symbol(self.trace, f"x{i}", a.dtype)
            return cast(self._number(i, _LETTERS[a.dtype.kind], None), a.dtype)
        if a.__class__ not in (int, float) or baked:
            return a
        return self._number(i, "d" if a.__class__ is float else "q", a.__class__)

    def _number(self, i: int, letter: str, weak: type | None) -> Symbol:
        self.numbers.append(i)
        self.parameters.append((letter, {"d": "double", "q": "long long", "Q": "unsigned long long"}[letter]))
        return Symbol(self.trace, f"x{i}", _WIDEST[letter], weak, i)

    def fresh(self, args: Sequence[Any]) -> Any:
        """The results as new arrays."""
        arrays = [args[i] for i in self.arrays]
        shape = arrays[0].shape if arrays else ()
        for x in arrays:
            if x.shape != shape or not x.dense:
                plan = walk(tuple([(x.shape, x.strides, x.dtype.itemsize) for x in arrays]), len(self.outs))
                shape = plan.shape
                outs = [empty(shape, d) if plan.order is None else empty_in_order(shape, d, plan.order) for d in self.outs]
                self._launch(outs[0].size, plan, outs, arrays, args)
                break
        else:
            outs = [empty(shape, d) for d in self.outs]
            self._launch(outs[0].size, None, outs, arrays, args)
        return tuple(outs) if self.many else outs[0]

    def write(self, outs: Sequence[DeviceArray], args: Sequence[Any]) -> None:
        """The results, written to these arrays."""
        arrays = [args[i] for i in self.arrays]
        plan = walk_into(tuple([(x.shape, x.strides, x.dtype.itemsize) for x in (*outs, *arrays)]), len(outs))
        self._launch(outs[0].size, plan, outs, arrays, args)

    def _launch(self, n: int, plan: Layout | None, outs: Sequence[DeviceArray], arrays: Sequence[DeviceArray], args: Sequence[Any]) -> None:
        if n == 0:
            return
        if plan is not None and plan.axes > MAX_AXES:
            self._in_slices(outs, arrays, args)
            return
        if self.trace.exponents:
            self._refuse_negative_exponents(args)
        numbers = [a.value if (a := args[i]).__class__ is DeviceArray else a for i in self.numbers]
        args = [n, *[x.address for x in (*outs, *arrays)], *numbers]
        if plan is not None and plan.fields is not None:
            args.append(plan.fields)
            self._function("strided", plan.letter, len(plan.fields)).start(blocks_for(n), threads_for(n), args)
        else:
            is_packed = n >= self.width and not any([address & 15 for address in args[1 : self.count]])
            if (ready := self._ready.get((n, is_packed))) is None:
                ready = self._make_ready(n, is_packed)
            function, blocks, threads = ready
            function.start(blocks, threads, args)

    def _make_ready(self, n: int, is_packed: bool) -> tuple[Kernel, int, int]:
        """How n elements that are counted through are launched."""
        if len(self._ready) > _READY_KEPT:
            self._ready.clear()
        count = n // self.width if is_packed else n
        function = self._function("packed" if is_packed else "single")
        ready = self._ready[n, is_packed] = function, blocks_for(count), threads_for(count)
        return ready

    def _refuse_negative_exponents(self, args: Sequence[Any]) -> None:
        for i in self.trace.exponents:
            if (args[i].value if args[i].__class__ is DeviceArray else args[i]) < 0:
                raise ValueError(f"{self.title}: integers to negative integer powers are not allowed; make one of them a float")

    def _in_slices(self, outs: Sequence[DeviceArray], arrays: Sequence[DeviceArray], args: Sequence[Any]) -> None:
        """There are more axes than a kernel takes: one launch for each index of the first."""
        ndim = outs[0].ndim
        for i in range(outs[0].shape[0]):
            parts = dict(zip(self.arrays, (_slice(x, ndim, i) for x in arrays), strict=True))
            self.write([_slice(x, ndim, i) for x in outs], [parts.get(j, a) for j, a in enumerate(args)])

    def _function(self, name: str, letter: str = "q", fields: int = 0) -> Any:
        if (found := self._functions.get((name, letter))) is None:
            types = ["q", *"P" * (len(self.outs) + len(self.inputs)), *(t for t, _ in self.parameters)]
            if fields:
                types.append(f"{fields}s")
            text = kernel_text(self, name, letter)
            found = self._functions[name, letter] = from_source(text, name, types, self.fmad, f"elementwise rule {self.title}")
        return found


def _result(r: Any) -> Symbol:
    if not isinstance(r, Symbol) or r.weak is not None:
        raise NotElementwise(f"the rule gives {type(r).__name__}")
    return r


def _slice(x: DeviceArray, ndim: int, i: int) -> DeviceArray:
    """The part of x at index i of the first axis of a result with `ndim` axes."""
    if x.ndim < ndim:
        return x
    return view(x, x.shape[1:], x.strides[1:], 0 if x.shape[0] == 1 else i * x.strides[0])
