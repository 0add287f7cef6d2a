"""One thread for NumPy's matrix products.

OpenBLAS shares each product among all cores and waits for the slowest.  On the small matrices of these models that gains
little on an idle machine, and beside other work it can take ten times as long.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = [f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold OpenBLAS to one thread, in the whole process, until the block ends.  Does nothing for other libraries and off Linux."""
    controls = [found for path in _openblas_files() if (found := _controls(path)) is not None]
    before = [get() for get, _ in controls]
    try:
        for _, put in controls:
            put(1)
        yield
    finally:
        for (_, put), count in zip(controls, before, strict=True):
            put(count)


def _openblas_files() -> set[str]:
    """The OpenBLAS libraries this process has loaded: NumPy's own, or the system's."""
    maps = Path("/proc/self/maps")
    columns = [line.split(maxsplit=5) for line in maps.read_text().splitlines()] if maps.exists() else []
    return {c[5] for c in columns if len(c) == 6 and "openblas" in Path(c[5]).name}


def _controls(path: str) -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """The two functions of a library that get and set its number of threads; None if it has neither."""
    library = ctypes.CDLL(path)
    for name in NAMES:
        if hasattr(library, name.format("set")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None
