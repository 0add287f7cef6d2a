"""Every operator of the opsets, as autotape.testing.specifications lists them: gradients to second order, layouts, dtypes.

Each test runs on NumPy's arrays and on the strict array.  An operator with a rule and no case fails.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, math_mode, opsets, tree
from autotape.operator import OPERATORS
from autotape.testing import check_grads
from autotape.testing.specifications import Case, cases
from autotape.testing.strategies import LAYOUTS, broadcastable

sys.setrecursionlimit(10_000)  # Hypothesis nests a test's settings once a parameter, and there are a thousand of them
few = settings(max_examples=5, deadline=None, derandomize=True, database=None, phases=[Phase.generate])  # a seed is nothing to shrink
every_case = pytest.mark.parametrize("case", cases(), ids=str)
seeds = st.integers(0, 2**32 - 1)
layouts = st.sampled_from(sorted(LAYOUTS))
ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-4}


@pytest.fixture(params=["numpy", "strict"], autouse=True, scope="module")
def each_backend(request):
    with backend.use(request.param):
        yield


def drawn(data: st.DataObject, case: Case, dtype: type) -> list[np.ndarray]:
    """Inputs for a case, each in a layout of its own; for an elementwise one in any shapes that broadcast together."""
    shapes = data.draw(broadcastable(len(case.domains), 2)) if case.shapes is None else None
    return [LAYOUTS[data.draw(layouts)](x.astype(dtype)) for x in case.draw(data.draw(seeds), shapes)]


def run(case: Case, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results as NumPy arrays; asarray keeps the inputs' layout."""
    results = tree.leaves(case.function()(*map(at.asarray, inputs)))
    return [y.numpy() for y in results]


@every_case
@few
@given(data=st.data())
def test_gradients_to_second_order(case, data):
    if not all(y.dtype.kind == "f" for y in run(case, case.draw(0))):
        return
    check_grads(case.function(), drawn(data, case, data.draw(st.sampled_from([np.float64, np.float32]))))


@every_case
@few
@given(data=st.data())
def test_layout_changes_nothing_and_float32_stays(case, data):
    dtype = data.draw(st.sampled_from([np.float64, np.float32]))
    inputs = drawn(data, case, dtype)
    before = [x.copy() for x in inputs]
    found, expected = run(case, inputs), run(case, [np.array(x, order="C") for x in inputs])
    for x, b in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(x, b)
    for y, e in zip(found, expected, strict=True):
        assert y.dtype == (case.options.get("dtype", dtype) if y.dtype.kind == "f" else e.dtype)
        np.testing.assert_allclose(y, e, ROUNDING[np.dtype(dtype)], ROUNDING[np.dtype(dtype)], strict=True)


def test_19_an_operator_is_its_reference_composition():
    seen = set()
    for case in cases():
        f, op = case.function(), OPERATORS.get(case.name)
        if op is None or op.composition is None:
            continue
        seen.add(op.name)
        plain = op.composition if case.call is None else functools.partial(case.call, op.composition)
        for seed in range(3):
            inputs = case.draw(seed)
            with math_mode.use("pedantic"):
                y, pull = at.vjp(f, *inputs)
                expected, pull_expected = at.vjp(functools.partial(plain, **case.options), *inputs)
            np.testing.assert_allclose(y, expected, 1e-12, 1e-12)
            for g, e in zip(pull(np.cos(y)), pull_expected(np.cos(y)), strict=True):
                np.testing.assert_allclose(g, e, 1e-10, 1e-10)
    assert seen == {"softmax", "logsoftmax", "logsumexp", "conv_bias_act"}


def test_every_differentiable_operator_has_a_case():
    for module in pkgutil.iter_modules(opsets.__path__):
        importlib.import_module(f"autotape.opsets.{module.name}")
    ours = {name for name, op in OPERATORS.items() if op.rules and op.forward.__module__.startswith("autotape.opsets.")}
    assert len(ours) > 70
    assert ours - {case.name for case in cases()} == set()
