"""Operators: a declaration in, a generated front end out, and the registry that NumPy's functions, tests and docs read.

    @operator(elementwise=True, numpy=np.tanh)
    def tanh(x):
        "tanh(x), elementwise."
        return kernels().tanh(x)

    @tanh.backward
    def _(dy, y): return dy * (1 - y * y)

The forward works on raw arrays of the current backend.  Its parameters without a default are inputs, the others
options; `optional=("b",)` makes b=None an input that may be left out, `*xs` any number of inputs.

A rule gives the cotangent of an input (`@op.backward("x")`; None is zero), or a joint rule those of all of them.  Its
parameters name what it needs, which is saved and nothing more:

    x                an input            dy            the cotangent of result y
    axis             an option           x_shape       an input's shape
    y                a result            x_like        an input's shape and dtype
                                         needs         which inputs want a cotangent (joint rules)

Rules are written with operators, so they can be differentiated; they run on raw arrays when nobody outside records.
The cotangent of a result that nothing depends on is None where an operator has several.

Results are named by `outputs` ("y"), `residuals` (results of the forward that depend smoothly on the inputs and so
have a cotangent of their own, "mean" and "dmean") and `constants` (masks, indices).

`elementwise=True` promises that forward and rules are elementwise: the engine then undoes broadcasting and casts each
cotangent to its input's dtype, and a backend may compile the rule into one kernel.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from . import backend
from .backends.kernels import Shape
from .errors import OperatorError
from .generate import front_end, names_of, step_function
from .numpy_protocol import register_operator
from .tape import Step, new_code

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

OPERATORS: dict[str, Operator] = {}  # "array.tanh" -> what is known of it
_building = threading.RLock()


class Front(Protocol[P, R_co]):
    """What `@operator` gives: the function users call, and the decorators that complete its declaration."""

    __name__: str
    op: Operator

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def backward(self, rule: F, /) -> F: ...
    @overload
    def backward(self, *inputs: str) -> Callable[[F], F]: ...
    def shape(self, f: F, /) -> F: ...
    def reference(self, f: F, /) -> F: ...


@overload
def operator(forward: Callable[P, R], /) -> Front[P, R]: ...
@overload
def operator(
    *,
    elementwise: bool = False,
    outputs: str = "y",
    residuals: str = "",
    constants: str = "",
    optional: tuple[str, ...] = (),
    numpy: Any = (),
) -> Callable[[Callable[P, R]], Front[P, R]]: ...
def operator(forward: Any = None, /, **declaration: Any) -> Any:
    """Declare an operator; see this module's text.  `numpy` names the NumPy functions that reach it for Tensors."""
    if forward is None:
        return lambda f: Operator(f, **declaration).front
    return Operator(forward, **declaration).front


class Needs(NamedTuple):
    """One thing a rule needs, by the name of its parameter."""

    name: str
    kind: str  # input, option, result, cotangent, shape, like or needs
    of: str  # the input, option or result it belongs to


class Operator:
    """What is known of one operator.  `front` is the function users call; its code is generated at its first call."""

    def __init__(
        self,
        forward: Callable[..., Any],
        *,
        elementwise: bool = False,
        outputs: str = "y",
        residuals: str = "",
        constants: str = "",
        optional: tuple[str, ...] = (),
        numpy: Any = (),
    ) -> None:
        if not isinstance(forward, FunctionType) or not forward.__name__.isidentifier() or forward.__name__.startswith("_"):
            raise OperatorError(f"an operator is declared by a `def` with a public name, not by {forward!r}")
        self.forward, self.name, self.elementwise = forward, forward.__name__, elementwise
        self.opset = _opset(forward.__module__)
        self.parameters = list(inspect.signature(forward).parameters.values())
        self.variadic = next((p.name for p in self.parameters if p.kind is p.VAR_POSITIONAL), None)
        self.optional = frozenset(optional)
        required = [p.name for p in self.parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        self.inputs = [p.name for p in self.parameters if p.name in required or p.name in optional]
        self.options = [p.name for p in self.parameters if p.name not in self.inputs and p.name != self.variadic]
        self.outputs, self.residuals, self.constants = outputs.split(), residuals.split(), constants.split()
        self.results = [*self.outputs, *self.residuals, *self.constants]
        self.rules: dict[str | None, Callable[..., Any]] = {}  # by input; None: the joint rule
        self.shape_of: Callable[..., Shape] | None = None  # set where the result may be pending
        self.composition: Callable[..., Any] | None = None  # the same in smaller operators
        self.fusion: Any = None  # the rule whose chains start here
        self.extends_chains = False  # whether a pending input may go on being pending
        self._check()
        self.front = self._stub()
        self._unbuild()
        OPERATORS[f"{self.opset}.{self.name}"] = self
        register_operator(numpy, self.front, len(self.inputs))

    def __repr__(self) -> str:
        return f"<operator {self.opset}.{self.name}({', '.join([*self.inputs, *self.options])})>"

    @property
    def all_inputs(self) -> list[str]:
        return [self.variadic] if self.variadic else self.inputs

    @property
    def differentiable_inputs(self) -> list[str]:
        """The inputs that have a rule."""
        return [n for n in self.all_inputs if n in self.rules or None in self.rules]

    @property
    def differentiable_results(self) -> list[str]:
        """The results whose cotangent some rule takes."""
        wanted = {need.of for need in self.needs() if need.kind == "cotangent"}
        return [r for r in [*self.outputs, *self.residuals] if r in wanted]

    def _check(self) -> None:
        if not self.inputs and not self.variadic:
            raise OperatorError(f"{self.name}: it has no input, a parameter without a default")
        if only := [p.name for p in self.parameters if p.kind is p.POSITIONAL_ONLY]:
            raise OperatorError(f"{self.name}: {only} can't be positional-only")
        if named := [p.name for p in self.parameters if p.kind is p.VAR_KEYWORD]:
            raise OperatorError(f"{self.name}: options must be named, not taken as **{named[0]}")
        if self.variadic and self.inputs:
            raise OperatorError(f"{self.name}: *{self.variadic} must be its only input, beside {self.inputs}")
        if unknown := self.optional - set(self.inputs):
            raise OperatorError(f"{self.name}: optional {sorted(unknown)} are no parameters")
        if private := [p.name for p in self.parameters if p.name.startswith("_")]:
            raise OperatorError(f"{self.name}: parameters must not start with an underscore, as {private} do")
        results = {*self.results, *("d" + r for r in self.results), "needs"}
        if len(set(self.results)) < len(self.results):
            raise OperatorError(f"{self.name}: a name stands twice among its results {self.results}")
        if clash := results & {p.name for p in self.parameters}:
            raise OperatorError(f"{self.name}: {sorted(clash)} name both a parameter and a result or its cotangent")

    # -- the declaration's second half
    def backward(self, *names: Any) -> Any:
        """@op.backward: the rule of the only input, or the joint rule.  @op.backward("w"): the rule of w."""
        if len(names) == 1 and callable(names[0]):
            return self._add_rule(self.inputs[0] if len(self.inputs) == 1 else None, names[0])
        if len(names) != 1 or names[0] not in self.inputs:
            raise OperatorError(f"{self.name}: backward takes one of its inputs {self.inputs}, or nothing but the rule; not {names}")
        return lambda rule: self._add_rule(names[0], rule)

    def _add_rule(self, key: str | None, rule: F) -> F:
        names = names_of(rule)
        for need in map(self.need, names):
            if need.kind == "result" and need.of in self.residuals and f"d{need.of}" not in names:
                raise OperatorError(
                    f"{self.name}: the rule uses the residual {need.of} but not d{need.of}: its second derivative would be wrong"
                )
        if self.rules and (key is None or None in self.rules or key in self.rules):
            declared = [k or "all inputs" for k in self.rules]
            raise OperatorError(f"{self.name}: a rule for {key or 'all inputs'} beside those declared for {declared}")
        self.rules[key] = rule
        self._unbuild()
        return rule

    def need(self, name: str) -> Needs:
        """What a rule's parameter means.  Raises OperatorError for a name that means nothing, so a slip is found at declaration."""
        if name in self.all_inputs:
            return Needs(name, "input", name)
        if name in self.options:
            return Needs(name, "option", name)
        if name in self.results:
            return Needs(name, "result", name)
        if name[:1] == "d" and name[1:] in [*self.outputs, *self.residuals]:
            return Needs(name, "cotangent", name[1:])
        for kind in ("shape", "like"):
            if name.removesuffix(f"_{kind}") in self.all_inputs:
                return Needs(name, kind, name.removesuffix(f"_{kind}"))
        if name == "needs":
            return Needs(name, "needs", "")
        raise OperatorError(
            f"{self.name}: the rule's parameter {name!r} is none of: inputs {self.all_inputs}, options {self.options}, "
            f"results {self.results}, cotangents {['d' + r for r in [*self.outputs, *self.residuals]]}, <input>_shape, <input>_like, needs"
        )

    def needs(self) -> list[Needs]:
        """All that the rules need, once each, in a fixed order."""
        names = dict.fromkeys(name for rule in self.rules.values() for name in names_of(rule))
        return [self.need(name) for name in names]

    def shape(self, f: F) -> F:
        """@op.shape: f(input shapes..., options...) gives the result's shape or raises; such an operator may be deferred."""
        self.shape_of = f
        self._unbuild()
        return f

    def reference(self, f: F) -> F:
        """@op.reference: the same as a composition of smaller operators, which tests hold the operator to."""
        self.composition = f
        return f

    # -- generated code
    def _stub(self) -> Any:
        """The front end before its first call: a function whose code the first call replaces."""
        self.namespace = {"_op": self, "__name__": self.forward.__module__}
        front: Any = FunctionType(_first_call.__code__, self.namespace, self.name)
        front.__doc__, front.__qualname__, front.__wrapped__ = self.forward.__doc__, self.forward.__qualname__, self.forward
        front.op, front.backward, front.shape, front.reference = self, self.backward, self.shape, self.reference
        return front

    def extend_chains(self) -> None:
        """A fusion rule has this operator further on in its chains."""
        self.extends_chains = not self.options
        self._unbuild()

    def _unbuild(self) -> None:
        self.front.__code__, self.eager = _first_call.__code__, self._build_and_run

    def build(self) -> None:
        """Generate the front end (0.3-0.9 ms), now that all rules are known."""
        with _building:
            self.code = new_code(self)
            self.eager = front_end(self, deferring=False)
            code = front_end(self, deferring=True) if self.shape_of else self.eager
            self.front.__defaults__, self.front.__kwdefaults__ = code.__defaults__, code.__kwdefaults__
            self.front.__code__ = code.__code__

    def _build_and_run(self, *args: Any, **options: Any) -> Any:
        self.build()
        return self.eager(*args, **options)

    def step(self, traced: bool) -> Step:
        """The function that runs the rules on an entry of a tape: on raw arrays of the current backend, or on Tensors."""
        rules = self.rules
        if self.elementwise and not traced:
            rules = {key: backend.kernels().compile_elementwise(rule) for key, rule in rules.items()}
        return step_function(self, rules, traced)

    def run_raw(self, args: Any, options: dict[str, Any]) -> Any:
        """The forward on raw arrays: a raw result, without residuals and constants."""
        out = self.forward(*args, **options)
        if len(self.results) == 1:
            return out
        return out[0] if len(self.outputs) == 1 else out[: len(self.outputs)]


def _opset(module: str) -> str:
    """The opset a module belongs to: autotape.opsets.array.reductions -> array; elsewhere the module's own name."""
    inside = module.partition("autotape.opsets.")[2]
    return inside.partition(".")[0] if inside else module.rpartition(".")[2]


def _first_call(*args: Any, **options: Any) -> Any:
    _op.build()  # type: ignore[name-defined]  # noqa: F821
    return _op.front(*args, **options)  # type: ignore[name-defined]  # noqa: F821
