"""Kernels of the contract that this backend lacks: each raises a TypeError that says where to compute instead.

None of them is elementwise to it: a rule that holds one runs kernel by kernel, up to that one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

ABSENT: frozenset[str] = frozenset({
    "complex_of", "fft", "rfft", "irfft", "eig", "eigvals", "special", "solve_triangular", "solve_banded", "solve_sylvester", "sqrtm",
})  # fmt: skip


def refuse(name: str, k: Any, *_: Any) -> NoReturn:
    raise TypeError(
        f"backend {k.name!r} has no kernel {name!r}: compute this with backend.use('numpy'), "
        f"where a Tensor goes by t.to('numpy'), and comes back by t.to({k.name!r})"
    )


KERNELS: dict[str, Callable[..., NoReturn]] = {name: functools.partial(refuse, name) for name in ABSENT}
