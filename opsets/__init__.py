"""Opsets: versioned sets of operators.  `from autotape.opsets import v20`, or by name: `opsets.load("v20")`."""

from __future__ import annotations

import importlib
from types import ModuleType

OPSETS = {
    "array": "NumPy's names and semantics; NumPy's own functions reach it",
    "scipy": "SciPy's names and semantics; its ufuncs reach it, for the others it stands in",
    "v20": "Knet's Ops20: convolution, pooling, normalisation, activations, losses, recurrent networks",
}


def names() -> list[str]:
    """The opsets there are."""
    return list(OPSETS)


def load(name: str) -> ModuleType:
    """An opset's module, imported at its first use.  Raises ValueError for an unknown name."""
    if name not in OPSETS:
        raise ValueError(f"opset {name!r} is unknown: known are {', '.join(map(repr, OPSETS))}")
    return importlib.import_module(f"{__name__}.{name}")
