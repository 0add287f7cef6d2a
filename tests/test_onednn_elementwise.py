"""Activations of the onednn backend: NumPy's results in any layout, NaN kept, and NumPy's bits in pedantic mode."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, math_mode
from autotape.opsets import v20

if why := backend.available()["onednn"]:
    pytest.skip(f"oneDNN can't be used here: {why}", allow_module_level=True)

from autotape.backends.onednn_backend import binding

pytestmark = pytest.mark.numpy_only("oneDNN's kernels")

NUMPY, K = backend.load("numpy"), backend.load("onednn")
ONE = ("relu", "elu", "selu", "sigmoid", "tanh")
TWO = ("relu_x", "elu_x", "sigmoid_x")
SHAPES = ((0,), (), (7,), (600,), (1 << 14,), (3, 5, 7, 200), (2, 1, 130, 131), (1 << 18,))


def channels_last(x):
    if x.ndim < 3:
        return x
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


LAYOUTS = {
    "C": lambda x: x,
    "last": channels_last,
    "F": lambda x: np.asarray(x, order="F"),
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2] if x.ndim else x,
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1] if x.ndim else x,
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape) if x.ndim else x,
}
layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=settings().max_examples // 2)


def drawn(shape, layout, seed, scale=3.0):
    """float32 numbers that lie in this layout."""
    return LAYOUTS[layout](np.asarray(np.random.default_rng(seed).normal(size=shape) * scale, np.float32))


def close(y, expected):
    assert y.dtype == expected.dtype and y.shape == expected.shape
    np.testing.assert_allclose(y, expected, 1e-6, 3e-7)


@pytest.mark.parametrize("name", ONE)
@few
@given(st.sampled_from(SHAPES), layouts, st.integers(0, 99))
def test_an_activation_is_numpys_in_any_layout(name, shape, layout, seed):
    x = drawn(shape, layout, seed)
    before = x.copy()
    y = getattr(K, name)(x)
    close(y, getattr(NUMPY, name)(before))
    assert not np.may_share_memory(x, y)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("name", TWO)
@few
@given(st.sampled_from(SHAPES), layouts, layouts, st.integers(0, 99))
def test_a_gradient_is_numpys_in_any_layouts(name, shape, dy_layout, y_layout, seed):
    dy, y = drawn(shape, dy_layout, seed), drawn(shape, y_layout, seed + 1, 0.5)
    before = dy.copy(), y.copy()
    dx = getattr(K, name)(dy, y)
    close(dx, getattr(NUMPY, name)(*before))
    assert not np.may_share_memory(dx, dy) and not np.may_share_memory(dx, y)
    np.testing.assert_array_equal(dy, before[0])
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize("name", [*ONE, *TWO])
@few
@given(st.sampled_from(SHAPES), layouts, st.integers(0, 99))
def test_pedantic_mode_has_numpys_bits(name, shape, layout, seed):
    xs = [drawn(shape, layout, seed + i) for i in range(1 + (name in TWO))]
    with math_mode.use("pedantic"):
        assert getattr(K, name)(*xs).tobytes() == getattr(NUMPY, name)(*xs).tobytes()


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("mode", math_mode.MODES)
def test_an_activation_keeps_nan_and_knows_the_ends(name, mode):
    x = np.tile(np.array([np.nan, np.inf, -np.inf, 0.0, 100.0, -100.0], np.float32), 1 << 12)
    with math_mode.use(mode):
        close(getattr(K, name)(x), getattr(NUMPY, name)(x))


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_gradient_takes_special_cotangents_as_numpy_does(name, special):
    dy, y = np.full(1 << 15, special, np.float32), np.tile(np.array([0.5, -0.5, 0.0, 1.0], np.float32), 1 << 13)
    with np.errstate(invalid="ignore"):
        close(getattr(K, name)(dy, y), getattr(NUMPY, name)(dy, y))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_gradient_of_relu_is_0_where_the_result_is_nan_of_either_sign(sign):
    y, dy = np.copysign(np.full(1 << 15, np.nan, np.float32), np.float32(sign)), np.ones(1 << 15, np.float32)
    close(K.relu_x(dy, y), NUMPY.relu_x(dy, y))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_other_dtypes_are_numpys(name, dtype):
    xs = [np.linspace(-3, 3, 1 << 15).astype(dtype)] * (1 + (name in TWO))
    assert getattr(K, name)(*xs).tobytes() == getattr(NUMPY, name)(*xs).tobytes()


def test_what_does_not_fit_raises_and_what_broadcasts_is_numpys():
    y = drawn((1 << 15,), "C", 0)
    with pytest.raises(ValueError):
        K.elu_x(y[1:], y)
    close(K.elu_x(y[:1], y), NUMPY.elu_x(y[:1], y))


def test_the_account_says_what_ran():
    x = drawn((1 << 15,), "C", 0)
    K.account()
    K.elu(x)
    ran, why = K.account()
    assert ran != "numpy" and not why
    with math_mode.use("pedantic"):
        K.elu(x)
    assert K.account() == ("numpy", "pedantic mode")


@pytest.mark.parametrize("layout", ["C", "last"])
@pytest.mark.parametrize("name", ["relu", "elu", "selu", "sigm"])
def test_the_gradient_of_an_operator_keeps_to_the_layout_and_to_numpys_numbers(name, layout):
    x, weights, f = drawn((4, 8, 40, 41), layout, 1), drawn((4, 8, 40, 41), layout, 2), getattr(v20, name)
    gradients = []
    for other in ("numpy", "onednn"):
        with backend.use(other):
            gradients.append(at.grad(lambda x: np.sum(f(x) * weights))(x))
    np.testing.assert_allclose(*gradients, 1e-5, 1e-6)
    assert K.elu_x(weights, x).strides == x.strides


def test_tanh_is_whichever_is_faster_for_the_threads(monkeypatch):
    x = drawn((1 << 15,), "C", 0)
    for threads, name in ((1, "numpy"), (2, "jit")):
        monkeypatch.setattr(binding, "max_threads", lambda threads=threads: threads)
        K.account()
        close(K.tanh(x), NUMPY.tanh(x))
        assert K.account()[0].startswith(name)
