"""Every operator of the opsets, as autotape.testing.specifications lists them: gradients to second order, layouts, dtypes.

Each test runs on NumPy's arrays and on the strict array, or on those of --backend.  An operator with a rule and no case fails.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

import numpy as np
import pytest
from hypothesis import settings
from lacking import unless_lacking

import autotape as at
from autotape import backend, math_mode, opsets, tree
from autotape.operator import OPERATORS
from autotape.testing.operators import check_operator
from autotape.testing.specifications import cases

BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
EXAMPLES = settings().max_examples // 100 if backend.get() == "pycuda" else None  # an emulated device takes its time


@pytest.fixture(params=BACKENDS, autouse=True, scope="module")
def each_backend(request):
    with backend.use(request.param):
        yield


@pytest.mark.parametrize("case", cases(), ids=str)
def test_operator(case):
    with unless_lacking():
        check_operator(case, EXAMPLES)


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
            for result, e in zip(tree.leaves(y), tree.leaves(expected), strict=True):
                np.testing.assert_allclose(result, e, 1e-12, 1e-12)
            for g, e in zip(pull(tree.map(np.cos, y)), pull_expected(tree.map(np.cos, y)), strict=True):
                np.testing.assert_allclose(g, e, 1e-10, 1e-10)
    assert seen == {"softmax", "logsoftmax", "logsumexp", "conv_bias_act", "matmul_bias_act", "normalise", "normalise_rows", "recurrence"}


def test_every_differentiable_operator_has_a_case():
    for module in pkgutil.iter_modules(opsets.__path__):
        importlib.import_module(f"autotape.opsets.{module.name}")
    ours = {name for name, op in OPERATORS.items() if op.rules and op.forward.__module__.startswith("autotape.opsets.")}
    assert len(ours) > 70
    assert ours - {case.name for case in cases()} == set()
