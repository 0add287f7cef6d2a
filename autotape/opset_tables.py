"""The page that lists every opset, generated from what is declared: docs/opsets.md.

    python -m autotape opsets > docs/opsets.md
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from . import opsets
from .numpy_protocol import DIFFERENTIABLE, account
from .operator import OPERATORS

INTRODUCTION = """\
# The opsets

An opset is a versioned set of operators: a Python module, `from autotape.opsets import v20`, or by name
`autotape.opsets.load("v20")`. A released opset never changes: what it is asked, what it gives and what it refuses stay as they are,
and what is thought of later goes into a new one. `python -m autotape opsets` prints this page.

A function with outputs is one operator of the registry; the others are compositions of operators. Inputs have no default, or are
marked by `?` where they may be left out. The last column says how often a result may be differentiated in its inputs, and in which
of them where not in all. What is to know of a function, shapes, dtypes, errors, conventions at edges, says `help(v20.conv4)`.
"""
HEAD = "| function | inputs | options | outputs | what it is | derivatives |\n|---|---|---|---|---|---|"


def page() -> str:
    """The text of docs/opsets.md."""
    return "\n".join([INTRODUCTION, *(f"## {name}\n\n{says}.\n\n{table(name)}\n" for name, says in opsets.OPSETS.items())])


def table(opset: str) -> str:
    """A row for each public name of an opset."""
    module = opsets.load(opset)
    names: dict[Any, list[str]] = {}
    for name in sorted(module.__all__):
        names.setdefault(getattr(module, name), []).append(name)
    return "\n".join([HEAD, *(row(opset, f, called) for f, called in names.items())])


def row(opset: str, f: Callable[..., Any], names: list[str]) -> str:
    """The line of one function, under all its names."""
    op = OPERATORS.get(f"{opset}.{f.__name__}")
    op = op if op is not None and op.front is f else None
    parameters = list(inspect.signature(f).parameters.values()) if op is None else op.parameters
    optional = op.optional if op is not None else frozenset()
    inputs = [text(p, optional) for p in parameters if is_input(p, optional)]
    options = [text(p, optional) for p in parameters if not is_input(p, optional)]
    cells = [*map(quoted, (names, inputs, options, op.outputs if op is not None else ()))]
    return f"| {' | '.join([*cells, summary(f), derivatives(f, names[0], op)])} |"


def is_input(p: inspect.Parameter, optional: frozenset[str]) -> bool:
    return (p.default is p.empty and p.kind is not p.VAR_KEYWORD) or p.name in optional


def text(p: inspect.Parameter, optional: frozenset[str]) -> str:
    """A parameter as a signature shows it, but for `x?`."""
    if p.default is p.empty:
        return str(p.replace(annotation=p.empty))
    default = p.default.__name__ if callable(p.default) else repr(p.default)
    return f"{p.name}?" if p.name in optional else f"{p.name}={default}"


def quoted(words: Any) -> str:
    return ", ".join(f"`{word}`" for word in words)


def summary(f: Callable[..., Any]) -> str:
    """The first line of the docstring, and what it goes on with where it ends inside a sentence."""
    first, *more = (inspect.getdoc(f) or "").partition("\n\n")[0].split("\n")
    while more and not first.endswith((".", ":")):
        first = f"{first} {more.pop(0).strip()}"
    return first.replace("|", "\\|")


def derivatives(f: Callable[..., Any], name: str, op: Any) -> str:
    """Rules are made of operators, so they give derivatives of any order."""
    numpys: Any = next((g for place in (np, np.linalg, np.fft) if callable(g := getattr(place, name, None))), None)
    said = account(numpys) if numpys else None
    if (said is not None and said.kind != DIFFERENTIABLE) or (op is not None and not op.rules) or "ot differentiable." in (f.__doc__ or ""):
        return "none"
    if op is None or op.differentiable_inputs == op.all_inputs:
        return "any order"
    return f"any order in {quoted(op.differentiable_inputs)}"
