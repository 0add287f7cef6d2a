"""How far operators are off: their results in each math mode against NumPy's of float64, in the measure of docs/math-modes.md.

That page allows a result |y - p| <= a * m * max(1, n / 16) of the backend's own pedantic result p; here p is NumPy's, so that the error of
pedantic mode is seen as well, and what is printed is the least a for which it holds.  tests/test_math_modes.py is the test of the page.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gpu_harness import RNG, Bench, Items, host

from autotape import backend, math_mode
from autotape.backends.kernels import Geometry, recurrent_parts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "math-modes.md"
MODES = ("pedantic", "default", "fast")
IN_TF32 = {"pycuda": ("matmul",), "cudnn": ("matmul", "conv4", "conv_bias_act", "lstm", "gru")}  # in fast mode, where there are libraries
TF32 = 2e-3  # what that may cost


class Case(NamedTuple):
    """An operator and its line of the page: f(table, *arrays) runs it, measure(NumPy's table, f, result, *arrays) is m * max(1, n / 16)."""

    name: str
    line: str
    f: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    measure: Callable[..., Any]


def summed(numpy: Any, f: Callable[..., Any], result: Any, *arrays: Any) -> Any:
    """The sum of the terms without their signs, and how many they are."""
    return f(numpy, *map(np.abs, arrays)) * np.maximum(1, f(numpy, *map(np.ones_like, arrays)) / 16)


def largest(numpy: Any, f: Callable[..., Any], result: Any, *arrays: Any) -> Any:
    return np.abs(result).max()


def normalised(numpy: Any, f: Callable[..., Any], result: Any, x: Any, *parameters: Any) -> Any:
    """The largest result, more where a large mean is taken off, and how many are added up."""
    axes = (0, 2, 3)
    more = 1 + (np.abs(x.mean(axes)) / np.sqrt(x.var(axes) + 1e-5)).max()
    return np.abs(result).max() * more * max(1, x.size / x.shape[1] / 16)


def cases(b: Bench) -> Iterator[Case]:
    n, c, side, steps, width = (2, 4, 6, 3, 8) if b.quick else (8, 64, 28, 16, 128)
    w, x, bias, z = _normal(c, c, 3, 3), _normal(n, c, side, side), _normal(c, 1, 1), _normal(n, c, side, side)
    g = Geometry((3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
    yield Case("conv4", "conv4, deconv4", lambda k, w, x: k.conv(w, x, g, 1.0), (w, x), summed)
    yield Case(
        "conv_bias_act", "conv4 + bias + residual + activation",
        lambda k, w, x, bias, z: k.conv_bias_act(w, x, bias, z, "relu", g, 1.0, 1.0), (w, x, bias, z), summed,
    )  # fmt: skip
    yield Case("matmul", "matmul, bmm", lambda k, p, q: k.matmul(p, q), (_normal(4 * c, 8 * c), _normal(8 * c, 4 * c)), summed)
    yield Case("softmax", "softmax", lambda k, x: k.softmax(x, 1), (_normal(c, 1000),), largest)
    parameters = _normal(c), _normal(c)
    yield Case("batchnorm", "batchnorm in training", lambda k, x, *p: k.batchnorm(x, *p, 1e-5)[0], (x + 1, *parameters), normalised)
    for cell, gates in {"lstm": 4, "gru": 3}.items():
        weights = 0.3 * _normal(recurrent_parts(gates, width, width, False)[-1][0].stop)
        arrays = _normal(steps * n, width), weights, _normal(1 + (cell == "lstm"), n, width)
        yield Case(cell, "lstm, gru", functools.partial(_recurrence, cell, (n,) * steps), arrays, largest)


def _normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def _recurrence(cell: str, sizes: tuple[int, ...], k: Any, x: Any, w: Any, state: Any) -> Any:
    return k.recurrence(x, w, state, cell, sizes, False, False, False)[0]


def tolerances(b: Bench) -> Items:
    """The least a for which |result - NumPy's in float64| <= a * m * max(1, n / 16), and what docs/math-modes.md says."""
    for dtype in _dtypes():
        for case in cases(b):
            yield f"{case.name}, {dtype.name}", functools.partial(_tolerance, b, case, dtype)


def _dtypes() -> list[np.dtype[Any]]:
    found = [np.dtype(name) for name in ("float32", "float64", "float16")]
    if importlib.util.find_spec("ml_dtypes"):
        from ml_dtypes import bfloat16

        found.append(np.dtype(bfloat16))
    return found


def _tolerance(b: Bench, case: Case, dtype: np.dtype[Any]) -> dict[str, dict[str, Any]]:
    numpy, found = backend.load("numpy"), {}
    rounded = [a.astype(dtype) for a in case.arrays]
    exact = [a.astype(np.float64) for a in rounded]
    result = case.f(numpy, *exact)
    m = case.measure(numpy, case.f, result, *exact)
    for name, k in b.tables.items():
        errors = {mode: float(np.max(np.abs(_in_mode(k, case, rounded, mode) - result) / m)) for mode in MODES}
        limits = {mode: _limit(name, case, mode, dtype) for mode in MODES}
        found[name] = {mode: {"a": errors[mode], "limit": limits[mode]} for mode in MODES}
        said = "".join(f"  {mode} {_said(b, errors[mode], limits[mode])}" for mode in MODES)
        print(f"  {case.name:14s}{dtype.name:10s}{name:8s}{said}")
    return found


def _in_mode(k: Any, case: Case, arrays: list[np.ndarray], mode: str) -> np.ndarray:
    with math_mode.use(mode):
        return host(case.f(k, *map(k.adopt, arrays)))


def _said(b: Bench, a: float, limit: float | None) -> str:
    if limit is None:
        return f"{a:.1e}"
    return f"{a:.1e} of {limit:.0e}{' MISSED' if a > limit and not b.quick else ''}"


def _limit(name: str, case: Case, mode: str, dtype: np.dtype[Any]) -> float | None:
    """What the page allows; it says nothing of pedantic mode, whose result it takes for exact, and of halves."""
    if mode == "pedantic" or dtype.name not in ("float32", "float64"):
        return None
    a = _page().get((name, case.line)) or _page()[name, "others"]
    return max(a[dtype.name], TF32 if mode == "fast" and dtype.name == "float32" and case.name in IN_TF32[name] else 0)


@functools.cache
def _page() -> dict[tuple[str, str], dict[str, float]]:
    """The lines of its table, by backend and operators."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {(row[0], row[1]): {"float32": float(row[2]), "float64": float(row[3])} for row in rows if row[0] in IN_TF32}
