"""The elementwise kernels of the contract, each a rule of one statement; and rules of operators, compiled into one launch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..kernels import Array, Kernels
from .absent import ABSENT
from .array import DeviceArray
from .elementwise import Rule
from .symbols import NoArgument, NotElementwise


def rules(k: Any) -> dict[str, Rule]:
    """The kernels whose arguments are all arrays: each is a rule of one statement."""
    names = [name for name, kind in Kernels.__annotations__.items() if kind in ("Unary", "Binary") and name not in ABSENT]
    names += ["relu_x", "elu_x", "sigmoid_x", "where", "ldexp", "exponent"]
    return {name: k.rule(functools.partial(_call, name), name) for name in names}


def _call(name: str, table: Any, *args: Any) -> Any:
    return getattr(table, name)(*args)


def _with_option(name: str) -> Callable[..., Array]:
    """A kernel of an array and a number that is part of its text."""
    rules: dict[Any, Rule] = {}

    def kernel(k: Any, x: DeviceArray, option: int) -> Array:
        if (rule := rules.get((k, option))) is None:
            rule = rules[k, option] = k.rule(lambda table, x: getattr(table, name)(x, option), name)
        return rule(x)

    kernel.__name__ = name
    return kernel


def compile_elementwise(k: Any, rule: Callable[..., Any], use: Callable[[Any], Any]) -> Callable[..., Any]:
    """The rule as one launch; as it stands, kernel by kernel, where it is not elementwise after all."""

    def run(table: Any, *args: Any) -> Any:
        with use(table):
            return rule(*args)

    compiled = k.rule(run, getattr(rule, "__qualname__", "of an operator"))
    is_elementwise = True

    def call(*args: Any, **options: Any) -> Any:
        nonlocal is_elementwise
        if options:
            args = inspect.signature(rule).bind(*args, **options).args
        if is_elementwise and any(a.__class__ is DeviceArray for a in args):
            try:
                return compiled(*args)
            except NoArgument:
                pass
            except NotElementwise:
                is_elementwise = False
        return rule(*args)

    return call


KERNELS: dict[str, Callable[..., Any]] = {
    "round": _with_option("round"),
    "bessel_i": _with_option("bessel_i"),
    "compile_elementwise": compile_elementwise,
}
