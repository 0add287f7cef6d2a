"""What an author declares of an operator: its inputs, options and results, its rules, and what these need.

Wrong declarations raise OperatorError here, when they are made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from .backends.kernels import Shape
from .errors import OperatorError

F = TypeVar("F", bound=Callable[..., Any])


class Need(NamedTuple):
    """One thing a rule needs, by the name of its parameter."""

    name: str
    kind: str  # input, option, result, cotangent, shape, like or needs
    of: str  # the input, option or result it belongs to


class Declaration:
    """The forward, what its parameters mean, and the rules.  See operator.py for how it is written."""

    front: Callable[..., Any]  # the function users call
    eager: Callable[..., Any]  # the same, but never deferred
    code: int  # of its entries on a tape
    namespace: dict[str, Any]  # of its generated code
    is_users = False  # its steps run rules, not a user's function

    def __init__(
        self,
        forward: Callable[..., Any],
        *,
        elementwise: bool = False,
        outputs: str = "y",
        residuals: str = "",
        constants: str = "",
        optional: tuple[str, ...] = (),
        nondifferentiable: str = "",
    ) -> None:
        if not isinstance(forward, FunctionType) or not forward.__name__.isidentifier() or forward.__name__.startswith("_"):
            raise OperatorError(f"an operator is declared by a `def` with a public name, not by {forward!r}")
        self.forward, self.name, self.elementwise = forward, forward.__name__, elementwise
        self.opset = _opset(forward.__module__ or "?")
        self.is_ours = (forward.__module__ or "").startswith("autotape.")  # its rules are tested: cotangents have the right shapes
        self.parameters = list(inspect.signature(forward).parameters.values())
        self.variadic = next((p.name for p in self.parameters if p.kind is p.VAR_POSITIONAL), None)
        self.optional = frozenset(optional)
        required = [p.name for p in self.parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        self.inputs = [p.name for p in self.parameters if p.name in required or p.name in optional]
        leading = next((i for i, p in enumerate(self.parameters) if p.name not in self.inputs), len(self.inputs))
        self.late = [] if self.variadic else self.inputs[leading:]  # those behind an option, which a call names
        self.options = [p.name for p in self.parameters if p.name not in self.inputs and p.name != self.variadic]
        self.outputs, self.residuals, self.constants = outputs.split(), residuals.split(), constants.split()
        self.results = [*self.outputs, *self.residuals, *self.constants]
        self.nondifferentiable = nondifferentiable.split()
        self.rules: dict[str | None, Callable[..., Any]] = {}  # by input; None: the joint rule
        self.shape_of: Callable[..., Shape] | None = None  # of a result that may be pending
        self.composition: Callable[..., Any] | None = None  # the same in smaller operators
        self.fusion: Any = None  # the rule whose chains start here
        self.extends_chains = False  # whether a pending input may go on being pending
        self._check()

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
    def inputs_without_rule(self) -> list[str]:
        """The inputs that should have a rule and have none."""
        return [n for n in self.all_inputs if n not in self.differentiable_inputs and n not in self.nondifferentiable]

    @property
    def differentiable_results(self) -> list[str]:
        """The results whose cotangent some rule takes."""
        wanted = {need.of for need in self.needs() if need.kind == "cotangent"}
        return [r for r in [*self.outputs, *self.residuals] if r in wanted]

    def check_rules(self) -> None:
        """Raise if a rule takes the cotangent of some outputs and none takes another's: that one would silently be constant."""
        if self.rules and (lost := [r for r in self.outputs if r not in self.differentiable_results]):
            raise OperatorError(f"{self.name}: no rule takes d{lost[0]}; where {lost[0]} has no derivative, name it in `constants`")

    def _check(self) -> None:
        if not self.inputs and not self.variadic:
            raise OperatorError(f"{self.name}: it has no input, a parameter without a default")
        if only := [p.name for p in self.parameters if p.kind is p.POSITIONAL_ONLY]:
            raise OperatorError(f"{self.name}: {only} can't be positional-only")
        if named := [p.name for p in self.parameters if p.kind is p.VAR_KEYWORD]:
            raise OperatorError(f"{self.name}: options must be named, not taken as **{named[0]}")
        if self.elementwise and (self.variadic or self.optional):
            raise OperatorError(f"{self.name}: an elementwise operator has a fixed number of inputs, none of them optional")
        if self.variadic and self.inputs:
            raise OperatorError(f"{self.name}: *{self.variadic} must be its only input, beside {self.inputs}")
        if unknown := self.optional - set(self.inputs):
            raise OperatorError(f"{self.name}: optional {sorted(unknown)} are no parameters")
        if strange := [n for n in self.nondifferentiable if n not in self.all_inputs]:
            raise OperatorError(f"{self.name}: nondifferentiable {strange} are no inputs")
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
        self.changed()
        return rule

    def need(self, name: str) -> Need:
        """What a rule's parameter means.  Raises OperatorError for a name that means nothing, so a slip is found at declaration."""
        if name in self.all_inputs:
            return Need(name, "input", name)
        if name in self.options:
            return Need(name, "option", name)
        if name in self.results:
            return Need(name, "result", name)
        if name[:1] == "d" and name[1:] in [*self.outputs, *self.residuals]:
            return Need(name, "cotangent", name[1:])
        for kind in ("shape", "like"):
            if name.removesuffix(f"_{kind}") in self.all_inputs:
                return Need(name, kind, name.removesuffix(f"_{kind}"))
        if name == "needs":
            return Need(name, "needs", "")
        raise OperatorError(
            f"{self.name}: the rule's parameter {name!r} is none of: inputs {self.all_inputs}, options {self.options}, "
            f"results {self.results}, cotangents {['d' + r for r in [*self.outputs, *self.residuals]]}, <input>_shape, <input>_like, needs"
        )

    def needs(self) -> list[Need]:
        """All that the rules need, once each, in a fixed order."""
        names = dict.fromkeys(name for rule in self.rules.values() for name in names_of(rule))
        return [self.need(name) for name in names]

    def kept(self) -> list[Need]:
        """What an entry saves: all that rules need but the cotangents and `needs`."""
        return [need for need in self.needs() if need.kind not in ("cotangent", "needs")]

    @property
    def has_fit(self) -> bool:
        """Whether an entry says which shape and dtype each input's cotangent must be brought to, or checked for."""
        return len(self.inputs) > 1 or self.variadic is not None or not self.is_ours

    def shape(self, f: F) -> F:
        """@op.shape: f(input shapes..., options...) gives the result's shape or raises.  Fusion rules need it."""
        self.shape_of = f
        self.changed()
        return f

    def reference(self, f: F) -> F:
        """@op.reference: the same as a composition of smaller operators, which tests hold the operator to."""
        self.composition = f
        return f

    def extend_chains(self) -> None:
        """A fusion rule has this operator further on in its chains."""
        self.extends_chains = not self.options
        self.changed()

    def changed(self) -> None:
        """The declaration is not what it was when code was made of it."""

    def call_of(self, args: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """All inputs and options as a call takes them: by position, and by name."""
        leading = len(args) - len(self.late)
        return args[:leading], dict(zip(self.late, args[leading:], strict=True)) | options

    def run_raw(self, args: Any, options: dict[str, Any]) -> Any:
        """The forward on raw arrays: a raw result, without residuals and constants."""
        if self.late:
            args, options = self.call_of(args, options)
        out = self.forward(*args, **options)
        if len(self.results) == 1:
            return out
        return out[0] if len(self.outputs) == 1 else out[: len(self.outputs)]


def names_of(rule: Callable[..., Any]) -> list[str]:
    """A rule's parameters: what it needs."""
    return list(inspect.signature(rule).parameters)


def _opset(module: str) -> str:
    """The opset a module belongs to: autotape.opsets.array.reductions -> array; elsewhere the module's own name."""
    inside = module.partition("autotape.opsets.")[2]
    return inside.partition(".")[0] if inside else module.rpartition(".")[2]
