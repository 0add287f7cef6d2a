"""debug: the operator and the user's line of the first NaN or infinity, and of a saved array that was overwritten."""

from __future__ import annotations

import inspect
import threading

import numpy as np
import pytest

import autotape as at
from autotape import backend, operator
from autotape.errors import TapeError
from autotape.operator import OPERATORS
from autotape.opsets import array as ops
from autotape.testing import StrictArray  # noqa: F401  registers backend "strict"

pytestmark = pytest.mark.filterwarnings("ignore:.*(encountered|divide by zero).*:RuntimeWarning")
X = np.array([1.0, 0.0, 2.0])
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]


def here() -> str:
    """This file and the line of the caller."""
    frame = inspect.currentframe().f_back
    return f"{__file__}:{frame.f_lineno}"


@pytest.mark.parametrize("name", BACKENDS)
def test_the_first_infinity_forward(name):
    line = ""

    def loss(x):
        nonlocal line
        y = x * 1
        z, line = np.log(y), here()
        return np.sum(z * z)

    with backend.use(name), at.debug(), pytest.raises(FloatingPointError, match=r"^log\(.*it made the first infinity") as caught:
        at.grad(loss)(X)
    assert line in str(caught.value)


def test_bfloat16_is_looked_at_too():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    if at.kernels().array is np.ndarray:
        pytest.skip("NumPy's arrays have no bfloat16")
    with at.debug(), pytest.raises(FloatingPointError, match=r"^log\(.*it made the first infinity"):
        np.log(at.array(X.astype(bfloat16)))


@pytest.mark.parametrize("transform", ["grad", "hessian", "jacobian", "checkpoint", "Tape"])
def test_the_first_infinity_backward(transform):
    line = ""

    def f(x):
        nonlocal line
        y, line = np.sqrt(x), here()
        return np.sum(y)

    def run():
        if transform == "checkpoint":
            return at.grad(at.checkpoint(f))(X)
        if transform == "Tape":
            p = at.Param(X)
            with at.Tape() as tape:
                loss = f(p)
            return tape.gradient(loss, p)
        return getattr(at, transform)(f)(X)

    with at.debug(), pytest.raises(FloatingPointError, match=r"sqrt, backward: it made the first (NaN|infinity)") as caught:
        run()
    assert line in str(caught.value)


def test_a_nan_of_infinities_is_made_and_a_given_one_is_not():
    with at.debug():
        close = np.testing.assert_array_equal
        close(at.grad(lambda x: np.sum(np.where(x > 0, x, -np.inf)[:1]))(X), [1, 0, 0])
        close(at.grad(lambda x: np.sum(np.nan_to_num(x * np.array([np.nan, 1, 1]))))(X), [np.nan, 1, 1])
        with pytest.raises(FloatingPointError, match=r"subtract\(.*made the first NaN"):
            at.grad(lambda x: np.sum(x * np.inf - np.inf))(np.ones(2))


def test_what_a_rule_leaves_out_in_the_end_is_no_fault():
    @operator
    def careful(x):
        return at.kernels().absolute(x)

    @careful.backward
    def _(dy, x):
        return ops.where(x == 0, 0, dy * x / ops.absolute(x))

    with at.debug():
        np.testing.assert_array_equal(at.grad(lambda x: np.linalg.norm(x))(np.zeros(2)), [0, 0])
        np.testing.assert_array_equal(at.grad(lambda x: np.sum(careful(x)))(X), [1, 0, 1])


def test_an_overwritten_array_is_named():
    line, a = "", at.kernels().ones((3,), np.dtype(float))

    def loss(x):
        nonlocal line, a
        y, line = x * a, here()
        a += 1
        return np.sum(np.sin(y))

    with at.debug(), pytest.raises(TapeError, match="multiply, backward: its b was changed in place") as caught:
        at.grad(loss)(X)
    assert line in str(caught.value)
    at.grad(loss)(X)  # outside, nobody looks


def test_an_overwritten_array_of_several_inputs():
    a = at.kernels().ones((2, 2), np.dtype(float))

    def loss(x):
        nonlocal a
        y = np.einsum("i,ij->j", x, a)
        a += 4
        return np.sum(y)

    with at.debug(), pytest.raises(TapeError, match="backward: its xs was changed in place"):
        at.grad(loss)(np.ones(2))


def test_it_says_nothing_of_what_is_right_and_is_gone_afterwards():
    def loss(x):
        return np.sum(np.tanh(x) ** 2)

    before = {name: op.forward for name, op in OPERATORS.items()}
    with at.debug():
        with at.debug():
            assert OPERATORS["array.tanh"].forward is not before["array.tanh"]
        inside = at.grad(loss)(X), at.hessian(loss)(X)
    assert all(OPERATORS[name].forward is f for name, f in before.items())
    np.testing.assert_array_equal(inside[0], at.grad(loss)(X))
    np.testing.assert_array_equal(inside[1], at.hessian(loss)(X))


def test_as_a_decorator_and_after_an_exception():
    before = OPERATORS["array.log"].forward

    @at.debug()
    def run():
        return at.grad(lambda x: np.sum(np.log(x)))(X)

    for _ in range(2):
        with pytest.raises(FloatingPointError):
            run()
    assert OPERATORS["array.log"].forward is before


def test_another_thread_is_left_alone():
    found = []
    with at.debug():
        thread = threading.Thread(target=lambda: found.append(at.grad(lambda x: np.sum(np.sqrt(x)))(X)))
        with np.errstate(all="ignore"):
            thread.start()
            thread.join()
    assert np.isinf(found[0][1])


def test_operators_that_are_declared_inside():
    with at.debug():

        @operator
        def made_inside(x):
            return at.kernels().log(x)

        @made_inside.backward
        def _(dy, x):
            return dy / x

        for _ in range(2):  # the first call builds its front end
            with pytest.raises(FloatingPointError, match=r"made_inside.*made the first infinity") as caught:
                line = at.grad(lambda x: (np.sum(made_inside(x)), here())[0]) and here()
                at.grad(lambda x: np.sum(made_inside(x)))(X)
            assert __file__ in str(caught.value) and line
    assert made_inside.op.forward.__name__ == "made_inside" and not hasattr(made_inside.op.forward, "__wrapped__")


def test_right_programs_of_other_kinds():
    def leaked(x):
        kept = []
        at.grad(lambda z: (kept.append(z * z), z * z)[1])(2.0)
        return np.sum(x * kept[0])

    with at.debug():
        np.testing.assert_array_equal(at.grad(leaked)(X), [4, 4, 4])
        close = np.testing.assert_allclose
        close(at.grad(lambda x: np.sum(np.sin(x)) + np.nansum(x * np.array([np.nan, 1, 1])))(X)[1:], np.cos(X[1:]) + 1)
        assert np.pad(at.array(X), 1, constant_values=-np.inf).numpy()[0] == -np.inf
        close(at.grad(lambda x: np.sum(x.astype(np.float32)))(X), np.ones(3))
        with backend.use("strict"):
            close(np.asarray(at.jacobian(np.tanh)(X)), np.diag(1 - np.tanh(X) ** 2))


@pytest.mark.parametrize("kind", ["argument", "closure", "residual", "indices", "tuple of indices"])
def test_overwritten_arrays_of_every_kind(kind):
    def loss(x):
        a, i = np.ones(3), np.array([0, 1])
        if kind == "argument":
            y = at.checkpoint(lambda x, a: x * a)(x, a)
        elif kind == "closure":
            y = at.checkpoint(lambda x: x * a)(x)
        elif kind == "residual":
            f = at.custom_gradient(lambda x: (x * a, a))
            f.backward(lambda dy, a: dy * a)
            y = f(x)
        else:
            y = np.take(x, i) if kind == "indices" else x[None, i]
        a[:], i[:] = 2, 2
        return np.sum(y)

    with at.debug(), pytest.raises(TapeError, match="changed in place after the call at"):
        at.grad(loss)(X)


def test_a_generator_is_refused():
    def rows():
        yield 1

    with pytest.raises(TypeError, match="rows runs on after its call has returned"):
        at.debug()(rows)
