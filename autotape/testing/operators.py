"""check_operator: all that is asked of an operator, from one case of the specifications, under the current backend.

    check_operator(Case(softsign, (REAL,)))            # an operator of yours
    for case in cases("v20"): check_operator(case)     # those of an opset
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import kernels, tree

from .gradients import NotDifferentiable, check_grads
from .specifications import Case
from .strategies import LAYOUTS, broadcast_views, turned

__all__ = ["Case", "check_operator"]

Arrays = list[np.ndarray]
DTYPES = (np.float64, np.float32)
COMPLEX = {np.float64: np.complex128, np.float32: np.complex64}
MODES = (("reverse", "forward"), ("reverse",))
ROUNDING = {np.float64: 1e-12, np.float32: 1e-4}
EDGES = ((), (0, 2))  # shapes that an elementwise operator always meets


def check_operator(case: Case, examples: int | None = None) -> None:
    """Run every check on a case: as many draws as `examples`, by default a twentieth of what the hypothesis profile says.

    Each draw has shapes, options, dtype and layouts of its own; where the case says so and the backend has them, some inputs are
    complex.  On it the result must not depend on the layout, zero strides among them, and keep float32 and complex64, the inputs
    must be left as they were, and check_grads must pass to second order, in half of the draws in forward mode, too.  Elementwise
    functions meet 0-d and empty arrays for sure.  At the case's kinks, gradients must be finite.

    Raises AssertionError, or what the operator raised.
    """

    def check(data: Any) -> None:
        with warnings.catch_warnings():  # of a complex input that a real one's dtype cuts off
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            check_draw(case.drawn(data.draw), data.draw)

    check.__name__ = check.__qualname__ = re.sub(r"\W", "_", f"check_{case}")  # the seed of a fixed profile comes from the name
    few = settings(
        max_examples=examples or max(1, settings().max_examples // 20),
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a seed is nothing to shrink
        suppress_health_check=[HealthCheck.too_slow],
    )
    few(given(st.data())(check))()
    if case.shapes is None and case.keywords is None:
        for shape in EDGES:
            edge = replace(case, shapes=(shape,) * len(case.domains))
            check_values_and_gradients(edge, edge.draw(0))
    for kink in case.kinks:
        check_kink(case, kink)


def check_draw(case: Case, draw: Callable[[Any], Any]) -> None:
    """One draw; shapes and options are chosen already."""
    dtype = draw(st.sampled_from(DTYPES))
    kinds = st.sampled_from([COMPLEX[dtype], dtype] if case.complex and has_complex() else [dtype])
    dtypes = [draw(kinds) for _ in case.domains]
    layouts = st.sampled_from(sorted(LAYOUTS))
    drawn = case.draw(draw(st.integers(0, 2**32 - 1)))
    inputs = [LAYOUTS[draw(layouts)](turned(x, kind)) for x, kind in zip(drawn, dtypes, strict=True)]
    check_values_and_gradients(case, inputs, draw(st.sampled_from(MODES)))
    assert case.shapes is not None
    check_layouts(case, [draw(broadcast_views(*each)) for each in zip(case.shapes, dtypes, case.domains, strict=True)])


def has_complex() -> bool:
    """Whether the current backend has complex arrays."""
    try:
        kernels().zeros((), np.complex128)
    except TypeError:
        return False
    return True


def check_values_and_gradients(case: Case, inputs: Arrays, modes: tuple[str, ...] = ("reverse",)) -> None:
    if all(y.dtype.kind in "fc" for y in check_layouts(case, inputs)):
        check_grads(case.function(), inputs, modes=modes)


def check_layouts(case: Case, inputs: Arrays) -> Arrays:
    """The results, which must be those of C-contiguous copies; floats have the inputs' precision unless the option dtype says another."""
    before = [x.copy() for x in inputs]
    found, expected = results(case, inputs), results(case, [np.array(x, order="C") for x in inputs])
    for x, b in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(x, b, "an input was changed")
    dtype = inputs[0].real.dtype.type
    floats = {"f": dtype, "c": COMPLEX[dtype]}
    for y, e in zip(found, expected, strict=True):
        kept = np.dtype(case.options.get("dtype", floats[y.dtype.kind]) if y.dtype.kind in floats else e.dtype)
        if y.dtype != kept:
            raise AssertionError(f"{case}: inputs of {inputs[0].dtype} gave {y.dtype}, not {kept}")
        np.testing.assert_allclose(y, e, ROUNDING[dtype], ROUNDING[dtype], err_msg="the layout changed the result", strict=True)
    return found


def results(case: Case, inputs: Arrays) -> Arrays:
    """The results as NumPy arrays; asarray keeps the inputs' layout."""
    return [y.numpy() for y in tree.leaves(case.function()(*map(at.asarray, inputs)))]


def check_kink(case: Case, kink: float) -> None:
    """The gradient where an element of each input is at a kink: finite, and a subgradient."""
    inputs = case.draw(0)
    for x in inputs:
        x.flat[0] = kink
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotDifferentiable)
        check_grads(case.function(), inputs)
    ys, pull = at.vjp(case.function(), *inputs)
    for g in pull(tree.map(np.ones_like, ys)):
        if not np.isfinite(g).all():
            raise AssertionError(f"{case}: the gradient at {kink} is {g}")
