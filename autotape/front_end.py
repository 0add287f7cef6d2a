"""Front ends: the function that users call, generated from an operator's declaration.

For `multiply(a, b)` with a rule per input it reads:

    def multiply(a, b):
        if _type(a) is _Tensor: _d_a = a._array; _i_a = a._id; _s_a = a._shape         # 1 unwrap
        ...                                                                             #   a number or raw array beside a Tensor
        else: return _meet(_op, (a, b), {})                                             #   anything else: meeting.py
        ...
        try: y = _forward(_d_a, _d_b)                                                   # 2 compute
        except Exception as _e: raise _explain(_e, _op, (a, b)) from _e
        _r_y = _Tensor(); _r_y._array = y; _r_y._shape = ...                            # 3 wrap
        if (_t := _current()) is not None and (_i_a >= (_b := _t.base) or _i_b >= _b):  # 4 record
            _k = _b + _len(_t)
            _fit = ...
            _t.append((code, _i_a, _i_b, _d_a if _i_b >= _b else None, _d_b if _i_a >= _b else None, _fit))
            _r_y._id = _k
        else:
            _r_y._id = -1
        return _r_y

Engine names start with an underscore, the author's never do.  _d_, _i_ and _s_ are an input's array, id and shape.
`fit` is None, or the (shape, dtype) that each input's cotangent must be brought to; a user's operator always has it, since
a wrong shape would broadcast somewhere else.
`inspect.getsource(op.front)` shows what was generated.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import get_ident
from typing import Any, NamedTuple

from .backend import kernels
from .backends.kernels import Array, Shape
from .declaration import Declaration, Need, names_of
from .errors import OperatorError
from .fusion import Pending, defer, extend
from .math_mode import get as math_mode
from .meeting import explain, meet, own
from .source import compiled
from .tape import RESULT, current, elsewhere, stray
from .tensor import Tensor


class Like(NamedTuple):
    """What `<input>_like` gives to a rule."""

    shape: Shape
    dtype: Any


_SMALL = 1024  # elements
_NAMES = {
    f"_{name}": value
    for name, value in dict(
        # Python's own, since an option may be called max or type
        type=type, float=float, int=int, max=max, len=len, zip=zip, ident=get_ident,
        # the engine's
        Tensor=Tensor, Pending=Pending, Like=Like, kernels=kernels, mode=math_mode, current=current, stray=stray, elsewhere=elsewhere,
        meet=meet, own=own, explain=explain, defer=defer, extend=extend,
    ).items()
}  # fmt: skip


def front_end(op: Declaration, deferring: bool) -> Any:
    """The front end of an operator, compiled; `deferring` ones may give a pending value instead of running."""
    defaults = {f"_default_{p.name}": p.default for p in op.parameters if p.default is not p.empty}
    op.namespace.update(_NAMES, _forward=op.forward, _mixed=mixed, _each=each, _no_rule=no_rule, **defaults)
    if deferring:
        op.namespace["_worth"] = op.fusion.worth
    lines = [*unwrap(op), *(deferral(op) if deferring else ()), *compute(op), *wrap(op), *refuse(op), *(record(op) if op.rules else ())]
    lines.append(f"return {_tuple_or_one([f'_r_{r}' for r in op.outputs])}")
    return compiled(op.name, f"def {op.name}({signature(op)}):", lines, op.namespace, op.name)


def signature(op: Declaration) -> str:
    """The parameters as the author declared them."""
    parts: list[str] = []
    for p in op.parameters:
        if p.kind is p.KEYWORD_ONLY and "*" not in parts and not op.variadic:
            parts.append("*")
        parts.append(f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name if p.default is p.empty else f"{p.name}=_default_{p.name}")
    return ", ".join(parts)


def unwrap(op: Declaration) -> Iterable[str]:
    """_d_x, _i_x, _s_x of each input; what is no plain Tensor goes to the slow path."""
    slow = f"return _meet(_op, {_inputs(op)}, {{{', '.join(f'{o!r}: {o}' for o in op.options)}}})"
    if xs := op.variadic:
        yield f"for _x in {xs}:"
        yield f"    if _type(_x) is not _Tensor: {slow}"
        yield f"_d_{xs} = [_x._array for _x in {xs}]; _i_{xs} = [_x._id for _x in {xs}]; _s_{xs} = [_x._shape for _x in {xs}]"
        return
    for n in op.inputs:
        yield f"if _type({n}) is _Tensor: _d_{n} = {n}._array; _i_{n} = {n}._id; _s_{n} = {n}._shape"
        if op.elementwise and len(op.inputs) == 2:
            first, second = op.inputs
            yield from beside_a_tensor(n, second if n == first else first, first=n == first)
        if n in op.optional:
            yield f"elif {n} is None: _d_{n} = _s_{n} = None; _i_{n} = -1"
        if op.extends_chains:
            yield f"elif _type({n}) is _Pending and (_p := _extend(_op, {_inputs(op)}, {n}, _own)) is not None: return _p"
        yield f"else: {slow}"


def beside_a_tensor(n: str, other: str, first: bool) -> Iterable[str]:
    """A number or a raw array beside a Tensor stays on the fast path: 1 - t, t * raw."""
    array, tensor = (f"{other}._array", f"_type({other}) is _Tensor and ") if first else (f"_d_{other}", "")
    number = f"{tensor}((_c := _type({n})) is _float or _c is _int)"
    yield f"elif {number}: _d_{n} = _kernels().scalar({n}, {array}.dtype); _i_{n} = -1; _s_{n} = ()"
    yield f"elif {tensor}_c is _type({array}) and {n}.dtype.kind in 'fiubc': _d_{n} = {n}; _i_{n} = -1; _s_{n} = {n}.shape"


def deferral(op: Declaration) -> Iterable[str]:
    """A call that may start a chain of pending values (fusion.py)."""
    options = "".join(f"{o}, " for o in op.options)
    call = f"_defer(_op, {_inputs(op)}, ({options}), _m)"
    worth = ""
    if op.fusion.worth:  # to ask for so little would cost more than can be gained
        worth = f"_d_{op.inputs[0]}.size >= {_SMALL} and _worth({', '.join(f'_s_{n}' for n in op.inputs)}) >= 0 and "
    yield f"if {worth}(_m := _mode()) != 'pedantic' and (_p := {call}) is not None: return _p"


def compute(op: Declaration) -> Iterable[str]:
    """Run the forward; what it raises gains the operator's name and arguments."""
    shapes = "" if op.elementwise else "; " + "; ".join(f"_s_{r} = {r}.shape" for r in op.outputs)
    yield f"try: {', '.join(op.results)} = _forward({', '.join(_passed(op))}){shapes}"
    yield f"except Exception as _e: raise _explain(_e, _op, {_inputs(op)}) from _e"


def wrap(op: Declaration) -> Iterable[str]:
    """_r_y: a Tensor around each output."""
    if op.elementwise and (rest := op.inputs[1:]):
        first = op.inputs[0]
        same = " and ".join(f"(_s_{first} is _s_{n} or _s_{first} == _s_{n})" for n in rest)
        yield f"_s = _s_{first} if (_even := {same}) else {op.outputs[0]}.shape"
    for r in op.outputs:
        shape = f"_s_{r}" if not op.elementwise else "_s" if len(op.inputs) > 1 else f"_s_{op.inputs[0]}"
        constant = "" if op.rules and len(op.results) == 1 else f"; _r_{r}._id = -1"
        yield f"_r_{r} = _Tensor(); _r_{r}._array = {r}; _r_{r}._shape = {shape}{constant}"


def refuse(op: Declaration) -> Iterable[str]:
    """An input that is being recorded and has no rule raises: its cotangent would silently be zero."""
    for n in op.inputs_without_rule:
        on_tape = f"_max(_i_{n}, default=-1)" if op.variadic else f"_i_{n}"
        yield f"if (_t := _current()) is not None and {on_tape} >= _t.base: raise _no_rule(_op, {n!r})"


def no_rule(op: Declaration, name: str) -> OperatorError:
    """What is said of an input that is being recorded and has no rule."""
    if op.is_ours:
        return OperatorError(f"{op.name}: the derivative in {name} is not known: at.stop_gradient({name}) makes a constant of it")
    return OperatorError(
        f"{op.name}: there is no rule for {name}: declare it with @{op.name}.backward({name!r}), "
        f"or that it has no derivative with @operator(nondifferentiable={name!r})"
    )


def record(op: Declaration) -> Iterable[str]:
    """Append an entry if an input is on the current tape; ids of other tapes become -1, or an error (tape.stray)."""
    ids, xs = [f"_i_{n}" for n in op.differentiable_inputs], op.variadic
    first, *others = ids
    on_tape = " or ".join([f"{f'_max({first}, default=-1)' if xs else first} >= (_b := _t.base)", *(f"{i} >= _b" for i in others)])
    yield f"if (_t := _current()) is not None and ({on_tape}):"
    yield f"    if _t.thread != _ident(): raise _elsewhere({op.name!r})"  # a context that was copied into another thread
    yield "    _k = _b + _len(_t)"
    if xs:
        yield f"    {ids[0]} = [_i if _b <= _i < _k or _i < 0 else _stray({op.name!r}, _i) for _i in {ids[0]}]"
        yield f"    _fit = {'_mixed' if op.is_ours else '_each'}(_s_{xs}, _d_{xs})"
    else:
        for i in ids:
            yield f"    if not _b <= {i} < _k and {i} >= 0: {i} = _stray({op.name!r}, {i})"
        if op.has_fit:
            yield f"    _fit = {fit(op)}"
    fields = [str(op.code), *ids, *(saved(op, need) for need in op.kept()), *(["_fit"] if op.has_fit else [])]
    yield f"    _t.append(({', '.join(fields)},))"
    yield from hand_ids(op)
    yield "else:"
    if len(op.results) == 1:
        yield f"    _r_{op.outputs[0]}._id = -1"
    for i in ids:
        yield f"    for _i in {i}: _i < 0 or _stray({op.name!r}, _i)" if xs else f"    if {i} >= 0: _stray({op.name!r}, {i})"


def hand_ids(op: Declaration) -> Iterable[str]:
    """One result takes the entry's id; several get an entry each behind it, that hands their cotangent on."""
    if len(op.results) == 1:
        yield f"    _r_{op.outputs[0]}._id = _k"
        return
    results = op.differentiable_results
    for j, r in enumerate(results, 1):
        yield f"    _t.append(({RESULT}, {j}, {len(results)}))"
        if r in op.outputs:
            yield f"    _r_{r}._id = _k + {j}"


def saved(op: Declaration, need: Need) -> str:
    """The expression that an entry saves."""
    name, kind, of = need
    if kind == "shape":
        return f"_s_{of}"
    if kind == "like":
        return f"[_Like(_s, _d.dtype) for _s, _d in _zip(_s_{of}, _d_{of})]" if of == op.variadic else f"_Like(_s_{of}, _d_{of}.dtype)"
    if kind != "input":
        return name
    users = [key for key, rule in op.rules.items() if name in names_of(rule)]
    if None in op.rules or op.variadic or len(users) == len(op.differentiable_inputs):
        return f"_d_{name}"
    return f"_d_{name} if {' or '.join(f'_i_{key} >= _b' for key in users)} else None"  # only for cotangents that are wanted


def fit(op: Declaration) -> str:
    """None where every cotangent comes with its input's shape and dtype anyway."""
    ruled = op.differentiable_inputs
    if not op.is_ours:
        return f"_each(({', '.join(f'_s_{n}' for n in ruled)},), ({', '.join(f'_d_{n}' for n in ruled)},))"
    same = [f"{f'_d_{n} is None or ' if n in op.optional else ''}_d_{ruled[0]}.dtype is _d_{n}.dtype" for n in ruled[1:]]
    if op.optional:
        shapes, arrays = ", ".join(f"_s_{n}" for n in ruled), ", ".join(f"_d_{n}" for n in ruled)
        return f"None if {' and '.join(f'({s})' for s in same) or True} else _mixed(({shapes},), ({arrays},))"
    if op.elementwise:
        same.insert(0, "_even")  # not by identity of shapes: a backend may give a result the tuple of an input
    each = "".join(f"(_s_{n}, _d_{n}.dtype), " for n in ruled)
    return f"None if {' and '.join(same) or True} else ({each})"


def mixed(shapes: Iterable[Shape], arrays: Iterable[Array]) -> Any:
    """The (shape, dtype) of each input where dtypes differ; None where they don't."""
    arrays = list(arrays)
    return None if len({a.dtype for a in arrays if a is not None}) == 1 else each(shapes, arrays)


def each(shapes: Iterable[Shape], arrays: Iterable[Array]) -> Any:
    """The (shape, dtype) of each input."""
    return tuple((s, None if a is None else a.dtype) for s, a in zip(shapes, arrays, strict=True))


def _inputs(op: Declaration) -> str:
    return op.variadic or f"({''.join(f'{n}, ' for n in op.inputs)})"


def _passed(op: Declaration) -> list[str]:
    """Arrays and options as the forward takes them."""
    mark = {p.name: "*" if p.kind is p.VAR_POSITIONAL else f"{p.name}=" if p.kind is p.KEYWORD_ONLY else "" for p in op.parameters}
    return [mark[name] + (f"_d_{name}" if name in op.all_inputs else name) for name in mark]


def _tuple_or_one(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
