"""Every function that NumPy dispatches, and the page that says what becomes of each: docs/numpy.md.

    python -m autotape numpy > docs/numpy.md
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .numpy_protocol import DIFFERENTIABLE, INSPECTS, REFUSED, ZERO, Account, account, full_name

SUBMODULES = "char fft lib.recfunctions lib.scimath lib.stride_tricks linalg ma polynomial random rec strings"
INTRODUCTION = """\
# NumPy's functions

What becomes of every function that NumPy dispatches when it meets a Tensor. `python -m autotape numpy` prints this page for
the NumPy at hand; the one here is for NumPy {version}. A function that isn't on it never sees a Tensor: it works by those that
are, or asks for an ndarray, which a Tensor that is being recorded refuses with a TypeError that names the way out.

Keywords are NumPy's. `out=`, `where=`, `dtype=` and `order=` raise a TypeError where a function can't take them. Of the ufuncs'
methods those are there that have another name, `np.add.reduce` for `np.sum`; instead of `np.add.at` write `x.at[i].add(v)`.
"""


def functions() -> dict[str, Any]:
    """All functions and ufuncs that NumPy dispatches, by their full names."""
    from numpy.testing import overrides  # takes long to import

    for name in SUBMODULES.split():
        importlib.import_module(f"numpy.{name}")
    found: set[Any] = {*overrides.get_overridable_numpy_ufuncs(), *overrides.get_overridable_numpy_array_functions()}
    # np.eye has a helper of the same name, for `like=`, which no Tensor meets
    found = {getattr(np, f.__name__, f) if getattr(f, "__module__", None) == "numpy" else f for f in found}
    return {full_name(f): f for f in sorted(found, key=full_name)}


def page() -> str:
    """The text of docs/numpy.md for the NumPy at hand.  Raises LookupError for functions that nobody accounts for."""
    accounts = {name: account(f) for name, f in functions().items()}
    if unknown := [name for name, found in accounts.items() if found is None]:
        raise LookupError(f"no account of {', '.join(unknown)}")
    parts = [INTRODUCTION.format(version=version())]
    for kind, (says, rows) in SECTIONS.items():
        of_kind = {name: a for name, a in accounts.items() if a is not None and a.kind == kind and "._" not in name}
        parts.append(f"## {kind.capitalize()}\n\n{says}\n\n{rows(of_kind)}\n")
    return "\n".join(parts)


def version() -> str:
    """NumPy's version without its last part, which changes no names: "2.4"."""
    return ".".join(np.__version__.split(".")[:2])


def table(accounts: dict[str, Account]) -> str:
    """A row a function: its names, and what it runs."""
    rows = [f"| {called(name)} | {f'`{a.calls}`' if a.calls else 'an adapter'} |" for name, a in accounts.items()]
    return "\n".join(["| function | runs |", "|---|---|", *rows])


def names(accounts: dict[str, Account]) -> str:
    """One paragraph."""
    return ", ".join(map(called, accounts))


def by_reason(accounts: dict[str, Account]) -> str:
    """A paragraph a reason, behind the functions that it holds for."""
    reasons = dict.fromkeys(a.reason for a in accounts.values())
    return "\n\n".join(f"{names({n: a for n, a in accounts.items() if a.reason == reason})}:\n{reason}." for reason in reasons)


def called(name: str) -> str:
    """`np.absolute` and its other names in NumPy's own namespace, `np.abs`."""
    names = [short := name.removeprefix("numpy.")]
    if (function := getattr(np, short, None)) is not None:
        names += [n for n, other in vars(np).items() if other is function and n != short]
    return ", ".join(f"`np.{n}`" for n in names)


SECTIONS = {
    DIFFERENTIABLE: (
        "To any order. The second column is the operator, or the composition of operators, that is run: of the opset of that name,\n"
        "or an adapter, where NumPy's arguments stand in other places.",
        table,
    ),
    ZERO: ("The derivative is zero wherever there is one, so the result is a constant.", names),
    INSPECTS: ("These create an array, or look at shapes, dtypes, memory or text. Those of `like=t` give a Tensor.", names),
    REFUSED: (
        "These raise a TypeError, which says why and what to use. An operator or composition of yours may take the place:\n"
        "`@operator(numpy=np.x)`, `@numpy_function(np.x)`.",
        by_reason,
    ),
}
