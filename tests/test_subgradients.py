"""docs/subgradients.md: each line of its tables is a test, at first order exact and at second order finite."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import autotape as at
import autotape.testing  # registers the strict backend
from autotape import backend
from autotape.opsets import v20

PAGE = (Path(__file__).parent.parent / "docs" / "subgradients.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| (.*)\|$", PAGE, re.MULTILINE)
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
NAMES = {"np": np, "v20": v20}
every_row = pytest.mark.parametrize(("function", "point", "derivative", "remark"), ROWS, ids=[f"{f} at {x}" for f, x, *_ in ROWS])


@pytest.fixture(params=BACKENDS)
def each_backend(request):
    with backend.use(request.param):
        yield


def arrays(text: str, dtype: type = np.float64) -> dict[str, np.ndarray]:
    return {name: np.array(value, dtype) for name, value in eval(f"dict({text})", NAMES).items()}


def gradients(function: str, point: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The derivatives of the sum of a function's elements, by the names of its variables."""
    ys, pull = at.vjp(lambda p: eval(function, NAMES | p), point)
    return pull(np.ones_like(ys))[0]


@every_row
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_line(each_backend, function, point, derivative, remark, dtype):
    expected = arrays(derivative, dtype)
    with warnings.catch_warnings():
        if "inf" in derivative:
            warnings.filterwarnings("ignore", "divide by zero", RuntimeWarning)
        found = gradients(function, arrays(point, dtype))
    for name, g in found.items():
        np.testing.assert_array_equal(g, expected[name], strict=True)


@every_row
def test_second_derivatives_are_finite(function, point, derivative, remark):
    if "inf" in derivative or "second derivative is infinite" in remark:
        return
    ys, pull = at.vjp(lambda p: gradients(function, p), arrays(point))
    for g in pull(at.tree.map(np.ones_like, ys))[0].values():
        assert np.isfinite(g).all(), g


def test_every_row_is_read():
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(lines) == len(ROWS) > 60
