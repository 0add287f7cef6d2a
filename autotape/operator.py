"""Operators: a declaration in, a generated front end out, and the registry that NumPy's functions, tests and docs read."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from . import backend
from .declaration import Declaration
from .errors import OperatorError
from .front_end import front_end
from .fusion import Pending
from .numpy_protocol import register_operator
from .step import step_function
from .tape import Step, new_code
from .tensor import Tensor, describe

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

OPERATORS: dict[str, Operator] = {}  # "array.tanh" -> what is known of it
_looks: list[Callable[[Operator, Any], Any]] = []  # what is put around every forward, the first innermost
_compiling = False  # whether a backend is loaded that compiles elementwise rules
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
    nondifferentiable: str = "",
    numpy: Any = (),
) -> Callable[[Callable[P, R]], Front[P, R]]: ...
def operator(forward: Any = None, /, **declaration: Any) -> Any:
    """Declare an operator, forward and backward.

        @operator(elementwise=True, numpy=np.tanh)
        def tanh(x):
            "tanh(x), elementwise."
            return kernels().tanh(x)

        @tanh.backward
        def _(dy, y): return dy * (1 - y * y)

    The forward works on raw arrays of the current backend.  Its parameters without a default are inputs, the others
    options; `optional=("b",)` makes b=None, wherever it stands, an input that may be left out, `*xs` any number of inputs.

    A rule gives the cotangent of an input (`@op.backward("x")`, or `@op.backward` for the only one), or a joint rule
    those of all of them (a tuple, None being zero).  Its parameters name what it needs, which is saved and nothing more:

        x                an input            dy            the cotangent of result y
        axis             an option           x_shape       an input's shape
        y                a result            x_like        an input's shape and dtype
                                             needs         which inputs want a cotangent (joint rules)

    Rules are written with operators, so they can be differentiated; they run on raw arrays when nobody outside records.
    `nondifferentiable="mask"` names inputs that have no derivative and so no rule; others without a rule raise.

    Results are named by `outputs` ("y"), `residuals` (results of the forward that depend smoothly on the inputs and so
    have a cotangent of their own, "mean" and "dmean") and `constants` (masks, indices).  With several results, the
    cotangent of one that nothing depends on is None.

    `elementwise=True` promises that forward and rules are elementwise: the engine then undoes broadcasting and casts each
    cotangent to its input's dtype, and a backend may compile the rule into one kernel.  `numpy` names the NumPy functions
    that reach the operator for Tensors; their arrays must come first, and its options have their names.
    """
    if forward is None:
        return lambda f: Operator(f, **declaration).front
    return Operator(forward, **declaration).front


class Operator(Declaration):
    """A declaration and the code generated from it, at the first call and when first walked."""

    def __init__(self, forward: Callable[..., Any], *, numpy: Any = (), **declaration: Any) -> None:
        super().__init__(forward, **declaration)
        self.namespace = {"_op": self, "__name__": forward.__module__}
        self.front = self._stub()
        self.changed()
        OPERATORS[f"{self.opset}.{self.name}"] = self
        register_operator(numpy, self.front, len(self.inputs))
        self._plain = self.forward
        self._put_looks()

    def _put_looks(self) -> None:
        forward = self._compiled if _compiling and self.elementwise else self._plain
        for around in _looks:
            forward = around(self, forward)
        self.forward = self.namespace["_forward"] = forward

    @functools.cached_property
    def _compiled(self) -> Any:
        """The forward as one launch, on backends that compile rules."""
        forward = self._plain
        made: dict[Any, Any] = {}

        def run(*args: Any, **options: Any) -> Any:
            k = backend.kernels()
            if (compiled := made.get(k)) is None:
                compiled = made[k] = k.compile_elementwise(forward, backend.use_kernels)
            return compiled(*args, **options)

        return functools.wraps(forward)(run)

    def _stub(self) -> Any:
        """The front end before its first call: a function whose code the first call replaces."""
        front: Any = FunctionType(_first_call.__code__, self.namespace, self.name)
        front.__doc__, front.__qualname__, front.__wrapped__ = self.forward.__doc__, self.forward.__qualname__, self.forward
        front.op, front.backward, front.shape, front.reference = self, self.backward, self.shape, self.reference
        return front

    def changed(self) -> None:
        self.front.__code__, self.eager = _first_call.__code__, self._build_and_run

    def build(self) -> None:
        """Generate the front end (0.3-0.9 ms), now that all rules are known."""
        with _building:
            self.check_rules()
            self.code = new_code(self)
            self.eager = front_end(self, deferring=False)
            code = front_end(self, deferring=True) if self.fusion else self.eager
            self.front.__defaults__, self.front.__kwdefaults__ = code.__defaults__, code.__kwdefaults__
            self.front.__code__ = code.__code__

    def _build_and_run(self, *args: Any, **options: Any) -> Any:
        self.build()
        return self.eager(*args, **options)

    def step(self, traced: bool) -> Step:
        """The function that runs the rules on an entry of a tape: on raw arrays of the current backend, or on Tensors."""
        rules = self.rules
        if self.elementwise and not traced:
            rules = {key: backend.kernels().compile_elementwise(rule, backend.use_kernels) for key, rule in rules.items()}
        return step_function(self, rules, traced)


    def checked(self, y: Any) -> Any:
        """What a call gave, if it is arrays: looked at once, since a forward that gives something else gives it always."""
        k = backend.kernels()
        for result in y if len(self.outputs) > 1 else (y,):
            raw = None if type(result) is Pending else result._array if isinstance(result, Tensor) else result
            if raw is not None and not isinstance(raw, (k.array, np.generic)):
                given = f"{describe(raw)} to backend {k.name!r}, whose arrays are of type {k.array.__name__}"
                raise OperatorError(f"{self.name}: the forward gave {given}")
        return y


def look(around: Callable[[Operator, Any], Any]) -> None:
    """Put around(operator, forward) in the place of every forward, also of operators yet to be declared, until `look_away(around)`."""
    _change_looks(_looks.append, around)


def look_away(around: Callable[[Operator, Any], Any]) -> None:
    """Take it off, whatever was put around it meanwhile."""
    _change_looks(_looks.remove, around)


def _change_looks(change: Callable[[Any], None], around: Any) -> None:
    with _building:
        change(around)
        for op in list(OPERATORS.values()):
            op._put_looks()


def _compile(compiling: bool) -> None:
    global _compiling
    _compiling = compiling


backend.when_compiling(lambda: _change_looks(_compile, True))


def _first_call(*args: Any, **options: Any) -> Any:
    _op.build()  # type: ignore[name-defined]  # noqa: F821
    return _op.checked(_op.front(*args, **options))  # type: ignore[name-defined]  # noqa: F821
