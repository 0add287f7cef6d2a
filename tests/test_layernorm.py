"""layernorm: its formula, derivatives to third order, shapes, dtypes, strides, what isn't finite, and its errors."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend
from autotape.opsets import v20 as ops
from autotape.testing import check_grads
from autotape.testing.strategies import arrays

few = settings(max_examples=settings().max_examples // 2)
BACKENDS = pytest.mark.parametrize("name", ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
rows = st.tuples(st.lists(st.integers(0, 4), max_size=3), st.integers(1, 5)).map(lambda drawn: (*drawn[0], drawn[1]))
RNG = np.random.default_rng(0)
X, PARAMS = RNG.normal(1, 2, (4, 2, 3)), RNG.normal(0, 1, 6)
TARGET = RNG.normal(size=X.shape)


def formula(x, params=None, eps=1e-5):
    """layernorm in NumPy's functions, which differentiate, in float64."""
    x = x.astype(float)
    c = x.shape[-1]
    centred = x - np.mean(x, -1, keepdims=True)
    y = centred / np.sqrt(np.mean(centred**2, -1, keepdims=True) + eps)
    return y if params is None else y * params[:c] + params[c:]


def gradients(dy, x, params, eps=1e-5):
    """Those of x and params for the cotangent dy, as written in the literature."""
    c, inv = x.shape[-1], 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    h, g = (x - x.mean(-1, keepdims=True)) * inv, dy * params[:c]
    dx = inv * (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True))
    return dx, np.concatenate([(dy * h).reshape(-1, c).sum(0), dy.reshape(-1, c).sum(0)])


def close(found, expected, rtol=1e-10):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol, rtol)


@few
@given(arrays(rows), st.sampled_from([1e-5, 0.1]), st.booleans())
def test_it_is_its_formula(x, eps, learnt):
    params = np.linspace(0.5, 2, 2 * x.shape[-1]) if learnt else None
    close(ops.layernorm(x, params, eps), formula(x, params, eps))


@few
@given(rows, st.sampled_from([1e-5, 0.1]), st.integers(0, 2**32 - 1))
def test_its_gradients_are_their_formulas(shape, eps, seed):
    rng = np.random.default_rng(seed)
    x, dy, params = rng.normal(size=shape), rng.normal(size=shape), rng.normal(size=2 * shape[-1])
    _, pull = at.vjp(lambda x, p: ops.layernorm(x, p, eps), x, params)
    for found, expected in zip(pull(dy), gradients(dy, x, params, eps), strict=True):
        close(found, expected, 1e-9)
    close(at.vjp(lambda x: ops.layernorm(x, None, eps), x)[1](dy)[0], gradients(dy, x, np.ones(2 * shape[-1]), eps)[0], 1e-9)


def test_second_derivatives_are_those_of_the_formula():
    def curvature(f):
        return at.grad(lambda x, p: np.sum(at.grad(lambda x: np.sum((f(x, p) - TARGET) ** 3))(x) ** 2), (0, 1))(X, PARAMS)

    for found, expected in zip(curvature(ops.layernorm), curvature(formula), strict=True):
        np.testing.assert_allclose(found, expected, 1e-7, 1e-9 * abs(expected).max())


@BACKENDS
def test_its_derivatives_to_third_order(name):
    x, params = RNG.normal(size=(2, 2, 3)), RNG.normal(size=6)
    with backend.use(name):
        check_grads(ops.layernorm, (x, params), order=3, modes=("reverse", "forward"))
        check_grads(lambda x: ops.layernorm(x, None, 0.1), (x,), order=3)
        check_grads(lambda x: ops.normalise_rows(x)[1] * ops.normalise_rows(x)[2], (x,), order=2)


def test_jacobian_and_hessian():
    x = RNG.normal(size=(2, 3))

    def f(x):
        return ops.layernorm(x, PARAMS)

    J, H = at.jacobian(f)(x), at.hessian(lambda x: np.sum(f(x) ** 3))(x)
    for i in np.ndindex(2, 3):
        close(J[i], at.grad(lambda x, i=i: f(x)[i])(x))
        close(H[i], at.grad(lambda x, i=i: at.grad(lambda x: np.sum(f(x) ** 3))(x)[i])(x), 1e-8)


def test_it_is_the_same_in_training_and_outside_it_and_on_a_tape():
    p = at.Param(ops.bnparams(3, float))
    with at.training(False):
        close(ops.layernorm(X, p).numpy(), formula(X))
    with at.Tape() as t:
        loss = np.sum((ops.layernorm(X, p) - TARGET) ** 2)
    (g,) = t.gradient(loss, [p])
    close(np.asarray(g), gradients(2 * (formula(X) - TARGET), X, np.repeat([1.0, 0], 3))[1])


@BACKENDS
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtypes_are_kept(name, dtype):
    x, params, dy = (v.astype(dtype) for v in (X, PARAMS, TARGET))
    with backend.use(name):
        y, pull = at.vjp(ops.layernorm, x, params)
        found = pull(dy)
        hv = at.hvp(lambda x: np.sum(ops.layernorm(x, params) ** 2))(x, dy)
    assert y.dtype == hv.dtype == dtype and [g.dtype for g in found] == [dtype] * 2
    for a, b in zip((y, *found), (formula(x, params), *gradients(dy.astype(float), x.astype(float), params)), strict=True):
        close(a.astype(float), b, 1e-5 if dtype == np.float32 else 2e-2)


def test_other_dtypes_and_lists():
    g, p = at.grad(lambda x, p: np.sum(ops.layernorm(x, p) ** 2), (0, 1))(X.astype(np.float32), PARAMS)
    assert g.dtype == np.float32 and p.dtype == np.float64
    assert ops.layernorm(np.array([[1, 2, 4]])).dtype == np.float64
    close(ops.layernorm(np.array([[1, 2, 4]])), formula(np.array([[1, 2, 4]])))
    close(ops.layernorm(X.tolist(), PARAMS.tolist()), formula(X, PARAMS))


def test_digits_survive_large_numbers():
    x = (1e4 + RNG.normal(size=(5, 200))).astype(np.float32)
    close(np.asarray(ops.layernorm(x), float), formula(x), 2e-3)
    x = np.full((1, 4), 65504, np.float16)  # whose sum is more than float16 holds
    assert not np.asarray(ops.layernorm(x)).any()
    x = RNG.normal(size=(1, 70_000)).astype(np.float16)  # as is their number
    close(np.asarray(ops.layernorm(x), float), formula(x), 2e-3)
    v = RNG.normal(1, 1, x.shape).astype(np.float16)
    hvp = at.hvp(lambda x: np.sum(ops.layernorm(x).astype(float) ** 3) / 100)
    np.testing.assert_allclose(hvp(x, v).astype(float), hvp(x.astype(float), v.astype(float)), 0.02, 0.02)


@pytest.mark.parametrize("shape", [(1,), (3,), (0, 3), (2, 0, 3), (2, 1), (1, 1, 3)])
def test_shapes_with_sides_of_0_and_1(shape):
    x, params = RNG.normal(size=shape), RNG.normal(size=2 * shape[-1])
    y, pull = at.vjp(ops.layernorm, x, params)
    close(y, formula(x, params))
    for found, expected in zip(pull(np.cos(y)), gradients(np.cos(y), x, params), strict=True):
        close(found, expected)
    assert [v.shape for v in ops.normalise_rows(x)] == [shape, shape[:-1], shape[:-1]]


def test_any_strides_will_do():
    expected = [formula(X, PARAMS), *gradients(TARGET, X, PARAMS)]
    wide = np.repeat(X, 2, -1)
    for x in (np.asfortranarray(X), wide[..., ::2], X[::-1, ::-1].copy()[::-1, ::-1], np.moveaxis(np.moveaxis(X, -1, 0).copy(), 0, -1)):
        y, pull = at.vjp(ops.layernorm, x, np.repeat(PARAMS, 2)[::2])
        for found, e in zip((y, *pull(np.asfortranarray(TARGET))), expected, strict=True):
            close(found, e)
    x = X.copy()
    x.setflags(write=False)
    assert not np.shares_memory(ops.layernorm(x), x)


def test_a_row_that_is_not_finite_is_nan_and_spoils_no_other():
    x = np.array([[1.0, 2, 4]] * 4)
    x[0, 1], x[1, 1], x[2, 1] = np.nan, np.inf, -np.inf
    y, pull = at.vjp(ops.layernorm, x, PARAMS)
    dx, _ = pull(np.ones_like(x))
    assert np.isnan(y[:3]).all() and np.isnan(dx[:3]).all()
    close(y[3], formula(x[3], PARAMS))
    assert np.isfinite(dx[3]).all()


def test_equal_numbers_give_the_bias():
    y, pull = at.vjp(ops.layernorm, np.ones((2, 3)), PARAMS)
    close(y, np.stack([PARAMS[3:]] * 2))
    assert all(np.isfinite(g).all() for g in pull(y))


def test_kernels_of_every_backend_agree():
    x, dy, scale, bias = (RNG.normal(size=s).astype(np.float32) for s in ((6, 7, 33), (6, 7, 33), 33, 33))
    for name, why in backend.available().items():
        if why is None:
            with backend.use(name):
                y, pull = at.vjp(ops.layernorm, at.array(x), at.array(np.concatenate([scale, bias])))
                found = [v.numpy() for v in (y, *pull(at.array(dy)))]
            params = np.concatenate([scale, bias]).astype(float)
            for a, b in zip(found, (formula(x, params), *gradients(dy.astype(float), x.astype(float), params)), strict=True):
                np.testing.assert_allclose(a, b, 1e-4, 1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.layernorm(1.0), ValueError, "layernorm: x () must be (..., C)"),
        (lambda: ops.layernorm(X[..., :0]), ValueError, "layernorm: x (4, 2, 0) must be (..., C), C elements along its last axis"),
        (lambda: ops.layernorm(X, PARAMS[:3]), ValueError, "layernorm: params (3,) must have the shape (6,): scales and then"),
        (lambda: ops.layernorm(X, X), ValueError, "layernorm: params (4, 2, 3) must have the shape (6,)"),
        (lambda: ops.layernorm(X, eps=-1), ValueError, "layernorm: eps must be at least 0, got -1.0"),
        (lambda: ops.layernorm(X, eps="a"), TypeError, "layernorm: eps must be a real number, got str 'a'"),
        (lambda: ops.layernorm(X + 1j), TypeError, "layernorm: x must be real, not complex128"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
