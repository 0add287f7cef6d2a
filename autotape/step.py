"""Steps: what runs an operator's rules on an entry of a tape, generated from its declaration.

A step takes the entry apart, runs the rules of the inputs that want a cotangent, and adds what they give to the
cotangents G.  For `multiply(a, b)` in a first-order walk it reads:

    def step(_g, _e, _G, _base, _own):
        _, _i_a, _i_b, a, b, _fit = _e
        dy = _g
        if _i_a >= _base:
            if (_v := _rule_a(dy, b)) is None: raise _NOTHING
            if _fit is not None: _v = _fit_to(_v, _fit[0])
            _i = _i_a - _base; _o = _G[_i]
            ...

A traced step first makes the saved arrays the Tensors they were.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from .backend import kernels
from .backends.kernels import Array, Shape
from .declaration import Declaration
from .errors import OperatorError
from .rows import dense
from .source import compiled, indented
from .tape import Step
from .tensor import Tensor, cast, constant, describe


def step_function(op: Declaration, rules: dict[str | None, Callable[..., Any]], traced: bool) -> Step:
    """The step of an operator's entries: the rules on raw arrays, or (traced) on Tensors."""
    fit = fit_traced if traced else fit_raw
    names: dict[str, Any] = dict(_Tensor=Tensor, _fit_to=fit if op.is_ours else checked(fit, op.elementwise), _zip=zip, _retraced=retraced)
    names |= dict(_len=len, _enumerate=enumerate, _one_each=one_each, _inputs=op.all_inputs, _NOTHING=NOTHING)
    names |= {f"_rule_{key}": rule for key, rule in rules.items()}
    lines = [*unpack(op), *(retrace(op) if traced else ()), *run_rules(op, add_traced if traced else add_raw)]
    head = f"def step(_g, _e, _G, _base, {'_k' if traced else '_own'}):"
    step: Step = compiled("step", head, lines, names, f"{op.name}, backward{' recorded' if traced else ''}")
    return step


def unpack(op: Declaration) -> Iterable[str]:
    """The entry's fields and the cotangents, by the names that rules know them by."""
    fields = ["_", *(f"_i_{n}" for n in op.differentiable_inputs), *(need.name for need in op.kept()), *(["_fit"] if op.has_fit else [])]
    yield f"{', '.join(fields)}, = _e"
    yield f"{', '.join('d' + r for r in op.differentiable_results)}, = _g" if len(op.results) > 1 else f"d{op.outputs[0]} = _g"
    if any(need.kind == "needs" for need in op.needs()):
        each = ", ".join(f"_i_{n} >= _base" for n in op.differentiable_inputs)
        yield f"needs = [_i >= _base for _i in _i_{op.variadic}]" if op.variadic else f"needs = ({each},)"


def retrace(op: Declaration) -> Iterable[str]:
    """Saved arrays become the Tensors they were, with their ids."""
    results = op.differentiable_results
    for name, kind, _ in op.kept():
        if kind == "input" and name == op.variadic:
            yield f"{name} = [_retraced(_x, _i) for _x, _i in _zip({name}, _i_{name})]"
        elif kind in ("input", "result"):
            if kind == "input":
                id = f"_i_{name}" if name in op.differentiable_inputs else "-1"
            else:
                id = "_k" if len(op.results) == 1 else f"_k + {results.index(name) + 1}" if name in results else "-1"
            yield f"if {name} is not None: _w = _Tensor(); _w._array = {name}; _w._id = {id}; _w._shape = {name}.shape; {name} = _w"


def run_rules(op: Declaration, add: Callable[[str], Iterable[str]]) -> Iterable[str]:
    """Call the rules of the inputs that want a cotangent and add what they give."""
    ruled, xs = op.differentiable_inputs, op.variadic
    if None in op.rules:
        count = f"_len(_i_{xs})" if xs else len(ruled)
        yield f"_vs = _one_each(_rule_None({', '.join(_arguments(op.rules[None]))}), {count}, _inputs)"
        if xs:
            yield f"for _j, (_id, _v) in _enumerate(_zip(_i_{xs}, _vs)):"
            yield "    if _id >= _base and _v is not None:"
            yield from indented(indented(["if _fit is not None: _v = _fit_to(_v, _fit[_j])", *add("_id")]))
            return
        yield f"{', '.join('_v_' + n for n in ruled)}, = _vs"
    for j, n in enumerate(ruled):
        if None in op.rules:
            yield f"if _i_{n} >= _base and (_v := _v_{n}) is not None:"
        else:
            yield f"if _i_{n} >= _base:"
            yield f"    if (_v := _rule_{n}({', '.join(_arguments(op.rules[n]))})) is None: raise _NOTHING"
        if op.has_fit:
            yield f"    if _fit is not None: _v = _fit_to(_v, _fit[{j}])"
        yield from indented(add(f"_i_{n}"))


NOTHING = OperatorError("the rule returned nothing: does it lack a `return`?")


def one_each(cotangents: Any, count: int, inputs: list[str]) -> Any:
    """What a joint rule gave, if it is one cotangent (or None) for each input."""
    if not isinstance(cotangents, (tuple, list)) or len(cotangents) != count:
        given = f"{len(cotangents)} of them" if isinstance(cotangents, (tuple, list)) else type(cotangents).__name__
        raise OperatorError(
            f"a joint rule returns a tuple of {count} cotangents, for the inputs {', '.join(inputs)}, not {given} "
            "(parameters with a default are options, not inputs)"
        )
    return cotangents


def add_raw(id: str) -> Iterable[str]:
    """Into a list; in place once the buffer is the walk's own (the first may be an alias).  `_G[_i] =` rebinds NumPy scalars."""
    yield f"_i = {id} - _base; _o = _G[_i]"
    yield "if _o is None: _G[_i] = _v"
    yield "elif _i in _own: _o += _v; _G[_i] = _o"
    yield "else: _G[_i] = _o + _v; _own.add(_i)"


def add_traced(id: str) -> Iterable[str]:
    yield f"_o = _G.get({id})"
    yield f"_G[{id}] = _v if _o is None else _o + _v"


def retraced(array: Array, id: int) -> Tensor:
    """A saved array as the Tensor it was."""
    t = constant(array)
    t._id = id
    return t


def fit_raw(v: Array, target: tuple[Shape, Any]) -> Array:
    """A cotangent brought to its input's shape and dtype."""
    shape, dtype = target
    if v.shape != shape:
        v = kernels().sum_to(dense(v), shape)
    return v if v.dtype == dtype else kernels().astype(dense(v), dtype)


def fit_traced(v: Any, target: tuple[Shape, Any]) -> Any:
    """The same, recorded."""
    shape, dtype = target
    if v.shape != shape:
        lead = len(v._shape) - len(shape)
        axes = (*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and v._shape[i + lead] != 1))
        v = v.sum(axes, keepdims=True).reshape(shape)
    return cast(v, dtype)


def checked(fit: Callable[..., Any], elementwise: bool) -> Callable[..., Any]:
    """fit, for rules that nobody tested: a cotangent of another shape raises, but for what an elementwise operator broadcast."""

    def check_and_fit(v: Any, target: tuple[Shape, Any]) -> Any:
        shape, given = target[0], getattr(v, "shape", None)
        if given is None:
            raise OperatorError(f"its rule gave {describe(v)}; a cotangent is an array")
        if given != shape and not (elementwise and broadcasts(shape, given)):
            raise OperatorError(f"its rule gave a cotangent of shape {given} for an input of shape {shape}")
        return fit(v, target)

    return check_and_fit


def broadcasts(shape: Shape, whole: Shape) -> bool:
    """Whether an array of this shape broadcasts to the whole one."""
    return len(shape) <= len(whole) and all(n in (1, m) for n, m in zip(shape[::-1], whole[::-1], strict=False))


def _arguments(rule: Callable[..., Any]) -> list[str]:
    return [f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in inspect.signature(rule).parameters.values()]
