"""batchnorm: its formulas, derivatives to third order, and running statistics that follow each run of a function once (SEMANTICS 15)."""

from __future__ import annotations

import copy
import pickle
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
EACH_BACKEND = pytest.mark.parametrize("name", ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
images = st.tuples(st.integers(1, 4), st.integers(0, 3)).flatmap(
    lambda head: st.lists(st.integers(1, 4), max_size=3).map(lambda spatial: (*head, *spatial))
)
RNG = np.random.default_rng(0)
X, PARAMS = RNG.normal(1, 2, (4, 3, 2, 3)), RNG.normal(0, 1, 6)
TARGET = RNG.normal(size=X.shape)


def over(x):
    return (0, *range(2, x.ndim))


def each(v, x):
    return np.asarray(v).reshape(-1, *(1,) * (x.ndim - 2))


def formula(x, params=None, eps=1e-5, mean=None, var=None):
    """batchnorm in float64, by the statistics of the batch or those given."""
    x, c = x.astype(float), x.shape[1]
    mean, var = (x.mean(over(x)), x.var(over(x))) if mean is None else (mean, var)
    params = np.repeat([1.0, 0.0], c) if params is None else params
    return (x - each(mean, x)) / np.sqrt(each(var, x) + eps) * each(params[:c], x) + each(params[c:], x)


def close(found, expected, rtol=1e-10):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol, rtol)


# ---------------------------------------------------------------- values and derivatives


@few
@given(arrays(images), st.sampled_from([1e-5, 0.1]), st.booleans())
def test_it_is_its_formula(x, eps, learnt):
    params = np.linspace(0.5, 2, 2 * x.shape[1]) if learnt else None
    close(ops.batchnorm(x, None, params, eps, training=True), formula(x, params, eps))
    moments = ops.bnmoments(mean=np.arange(x.shape[1]), var=1 + np.arange(x.shape[1]))
    close(ops.batchnorm(x, moments, params, eps, training=False), formula(x, params, eps, moments.mean, moments.var))


@EACH_BACKEND
def test_its_derivatives_to_third_order(name):
    x, params = RNG.normal(size=(3, 2, 2)), RNG.normal(size=4)
    with backend.use(name):
        check_grads(lambda x, p: ops.batchnorm(x, None, p, training=True), (x, params), order=3, modes=("reverse", "forward"))
        check_grads(lambda x: ops.batchnorm(x, None, None, 0.1, training=True), (x,), order=3)
        check_grads(lambda x, p: ops.batchnorm(x, ops.bnmoments(), p, training=False), (x, params), order=3)


def test_the_gradient_is_that_of_the_formula():
    def loss(x, p):  # the same, of NumPy's functions
        centred = x - np.mean(x, (0, 2, 3), keepdims=True)
        y = centred / np.sqrt(np.mean(centred**2, (0, 2, 3), keepdims=True) + 1e-5) * p[:3].reshape(3, 1, 1) + p[3:].reshape(3, 1, 1)
        return np.sum((y - TARGET) ** 3)

    found = at.grad(lambda x, p: np.sum((ops.batchnorm(x, None, p) - TARGET) ** 3), (0, 1))(X, PARAMS)
    for f, e in zip(found, at.grad(loss, (0, 1))(X, PARAMS), strict=True):
        close(f, e, 1e-9)
    close(at.grad(lambda x: np.sum(ops.batchnorm(x) * TARGET))(X).sum((0, 2, 3)), np.zeros(3))  # a shift of x changes nothing


def test_jacobian_and_hessian():
    x = RNG.normal(size=(3, 2))

    def f(x):
        return ops.batchnorm(x, None, PARAMS[:4])

    J, H = at.jacobian(f)(x), at.hessian(lambda x: np.sum(f(x) ** 3))(x)
    for i in np.ndindex(3, 2):
        close(J[i], at.grad(lambda x, i=i: f(x)[i])(x))
        close(H[i], at.grad(lambda x, i=i: at.grad(lambda x: np.sum(f(x) ** 3))(x)[i])(x), 1e-8)


@EACH_BACKEND
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtypes_are_kept(name, dtype):
    x, params, moments = X.astype(dtype), PARAMS.astype(dtype), ops.bnmoments()
    with backend.use(name):
        for training in (True, False):

            def f(x, p, training=training):
                return ops.batchnorm(x, moments, p, training=training)

            y, pull = at.vjp(f, x, params)
            assert y.dtype == dtype and [g.dtype for g in pull(TARGET.astype(dtype))] == [dtype] * 2
            hv = at.hvp(lambda x: np.sum(f(x, params) ** 2))(x, TARGET.astype(dtype))
            assert hv.dtype == dtype
        assert moments.mean.dtype == np.float32
    close(np.asarray(ops.batchnorm(x, None, params, training=True), float), formula(x, params), 1e-5 if dtype == np.float32 else 1e-2)


def test_lists_are_arrays():
    for training in (True, False):
        y = ops.batchnorm(X.tolist(), ops.bnmoments(), PARAMS.tolist(), training=training)
        close(y, ops.batchnorm(X, ops.bnmoments(), PARAMS, training=training))


def test_float32_beside_float64():
    g, p = at.grad(lambda x, p: ops.batchnorm(x, None, p).sum(), (0, 1))(X.astype(np.float32), PARAMS)
    assert g.dtype == np.float32 and p.dtype == np.float64
    moments = ops.bnmoments(mean=np.zeros(3), var=np.ones(3))
    assert ops.batchnorm(X.astype(np.float32), moments, training=False).dtype == np.float32 and moments.mean.dtype == np.float64


def test_digits_survive_a_large_mean():
    x = (1e4 + RNG.normal(size=(64, 2, 5, 5))).astype(np.float32)
    close(np.asarray(ops.batchnorm(x, training=True), float), formula(x), 2e-3)
    x = np.full((4, 1), 65504, np.float16)  # whose sum is more than float16 holds
    assert not np.asarray(ops.batchnorm(x, training=True)).any()


@EACH_BACKEND
def test_more_elements_than_float16_holds(name):
    n = 70_000
    x, v = RNG.normal(size=(n, 1)).astype(np.float16), RNG.normal(1, 1, size=(n, 1)).astype(np.float16)

    def f(x):
        return np.sum(ops.batchnorm(x, training=True).astype(np.float32) ** 3) / 100

    expected = [at.grad(f)(x.astype(float)), at.hvp(f)(x.astype(float), v.astype(float))]
    with backend.use(name), at.training():
        found = [at.grad(f)(at.array(x)), at.hvp(f)(at.array(x), at.array(v))]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == np.float16
        np.testing.assert_allclose(a.numpy().astype(float), b, 0.01, 0.01)


def test_a_constant_channel_gives_its_bias():
    y, pull = at.vjp(lambda x, p: ops.batchnorm(x, None, p, training=True), np.ones((1, 3)), PARAMS)
    close(y, PARAMS[None, 3:])
    assert all(np.isfinite(g).all() for g in pull(y))


# ---------------------------------------------------------------- running statistics


@EACH_BACKEND
def test_moments_follow_the_batches(name):
    moments, mean, var = ops.bnmoments(momentum=0.3), np.zeros(3), np.ones(3)
    with backend.use(name):
        for batch in RNG.normal(2, 3, (4, 5, 3, 2, 2)):
            ops.batchnorm(at.array(batch), moments, training=True)
            mean, var = 0.7 * mean + 0.3 * batch.mean((0, 2, 3)), 0.7 * var + 0.3 * batch.var((0, 2, 3), ddof=1)
        k = at.kernels()
        assert isinstance(moments.mean, k.array) and moments.mean.dtype == np.float64
        close(k.to_numpy(moments.mean), mean)
        close(k.to_numpy(moments.var), var)
        y = ops.batchnorm(at.array(X), moments, at.array(PARAMS))
        close(y.numpy(), formula(X, PARAMS, 1e-5, mean, var))
        close(k.to_numpy(moments.mean), mean)  # left alone


def test_training_is_said_by_whom_dropout_hears():
    moments = ops.bnmoments()
    ops.batchnorm(X, moments)
    assert moments.mean is None and repr(moments) == "bnmoments(momentum=0.1, mean=None, var=None)"
    with at.training():
        ops.batchnorm(X, moments)
    first = moments.mean
    close(first, 0.1 * X.mean((0, 2, 3)))
    with at.training(False):
        close(at.value_and_grad(lambda x: ops.batchnorm(x, moments).sum())(X)[0], formula(X, None, 1e-5, first, moments.var).sum())
    at.grad(lambda x: ops.batchnorm(x, moments, training=False).sum())(X)
    assert moments.mean is first
    at.grad(lambda x: ops.batchnorm(x, moments).sum())(X)
    close(moments.mean, 0.19 * X.mean((0, 2, 3)))


def runs():
    """Ways to run f, a function of x with one batchnorm in it, once."""

    def scalar(f):
        return lambda x: np.sum(f(x) ** 2)

    def checkpointed(f):
        return at.checkpoint(lambda x: np.tanh(f(x)))

    def by_rule(f):
        g = at.custom_gradient(lambda x: (f(x), x))
        g.backward(lambda dy, x: dy * np.cos(x))
        return g

    return {
        "plain": lambda f: f(X),
        "grad": lambda f: at.grad(scalar(f))(X),
        "vjp, pulled twice": lambda f: [pull(TARGET) for pull in [at.vjp(f, X)[1]] * 2],
        "jvp": lambda f: at.jvp(f, X, TARGET),
        "hvp": lambda f: at.hvp(scalar(f))(X, TARGET),
        "grad of grad": lambda f: at.grad(lambda x: np.sum(at.grad(scalar(f))(x) ** 2))(X),
        "jacobian": lambda f: at.jacobian(lambda x: f(x).sum((1, 2, 3)))(X),
        "checkpoint": lambda f: at.grad(scalar(checkpointed(f)))(X),
        "checkpoint in checkpoint": lambda f: at.grad(scalar(checkpointed(checkpointed(f))))(X),
        "checkpoint, grad of grad": lambda f: at.grad(lambda x: np.sum(at.grad(scalar(checkpointed(f)))(x) ** 2))(X),
        "checkpoint, jvp": lambda f: at.jvp(checkpointed(f), X, TARGET),
        "custom gradient, grad of grad": lambda f: at.grad(lambda x: np.sum(at.grad(scalar(by_rule(f)))(x) ** 2))(X),
        "tape": tape,
        "check_grads": lambda f: check_grads(scalar(f), (X,), modes=("reverse", "forward")),
    }


def tape(f):
    w = at.Param(X)
    with at.Tape(persistent=True) as t:
        loss = np.sum(at.checkpoint(f)(w))
    t.gradient(loss, [w])
    t.gradient(loss, [w])


@pytest.mark.parametrize("how", runs())
def test_15_running_statistics_follow_a_run_once(how):
    moments = ops.bnmoments()
    with at.training():
        runs()[how](lambda x: ops.batchnorm(x, moments, PARAMS))
    close(moments.mean, 0.1 * X.mean((0, 2, 3)))
    close(moments.var, 0.9 + 0.1 * X.var((0, 2, 3), ddof=1))


def test_a_checkpointed_layer_gives_the_same_gradient():
    def f(x):
        return np.tanh(ops.batchnorm(x, ops.bnmoments(), PARAMS))

    for differentiated in (at.grad, lambda f: at.grad(lambda x: np.sum(at.grad(f)(x) ** 2))):
        close(differentiated(lambda x: np.sum(at.checkpoint(f)(x) ** 3))(X), differentiated(lambda x: np.sum(f(x) ** 3))(X))


def test_moments_start_as_they_are_told_and_are_copies():
    mean = np.ones(3)
    moments = ops.bnmoments(0.5, mean, meaninit=None, varinit=lambda shape: np.full(shape, 4.0))
    mean[:] = 7
    before = moments.mean
    close(ops.batchnorm(X, moments, training=False), formula(X, None, 1e-5, np.ones(3), np.full(3, 4.0)))
    assert moments.var is None
    ops.batchnorm(X, moments, training=True)
    close(moments.mean, 0.5 + 0.5 * X.mean((0, 2, 3)))
    close(moments.var, 2 + 0.5 * X.var((0, 2, 3), ddof=1))
    close(before, np.ones(3))  # who holds the old array keeps it


def test_a_batch_of_one_element_has_variance_0():
    one = ops.bnmoments(mean=np.zeros(2))  # the unbiased variance would be 0 / 0; Knet's, which is biased, is 0 too
    for x in (np.full((1, 2), 5.0), np.full((1, 2, 1, 1), 5.0)):
        y, pull = at.vjp(lambda x: ops.batchnorm(x, one, None, training=True), x)
        assert not y.any() and not pull(np.ones_like(x))[0].any()
    close(one.mean, np.full(2, 0.95))
    close(one.var, np.full(2, 0.81))


def test_the_state_goes_through_files_copies_and_backends(tmp_path):
    moments = ops.bnmoments(0.2)
    assert ops.bnmoments().state == {"momentum": 0.1, "mean": None, "var": None}
    ops.batchnorm(X, moments, training=True)
    fresh = ops.bnmoments()
    fresh.state = moments.state
    for again in (fresh, copy.deepcopy(moments), pickle.loads(pickle.dumps(moments)), pickle.loads(pickle.dumps(ops.bnmoments(0.2)))):
        if again.mean is None:
            ops.batchnorm(X, again, training=True)
        assert again.momentum == 0.2
        np.testing.assert_array_equal(again.mean, moments.mean)
        np.testing.assert_array_equal(again.var, moments.var)
    mean, var = np.array(moments.mean), np.array(moments.var)
    at.save(tmp_path / "moments.safetensors", {"layer": moments, "fresh": ops.bnmoments(0.3)})
    with backend.use("strict"):  # a file written by another backend
        loaded = at.load(tmp_path / "moments.safetensors")
        assert loaded["fresh"].state == {"momentum": 0.3, "mean": None, "var": None}
        close(ops.batchnorm(at.array(X), loaded["layer"]).numpy(), formula(X, None, 1e-5, mean, var))


@pytest.mark.numpy_only("the strict backend takes NumPy's arrays alone")
def test_a_state_goes_to_the_backend_of_what_it_meets():
    moments = ops.bnmoments(0.2)
    ops.batchnorm(X, moments, training=True)
    fresh = ops.bnmoments()
    fresh.state = moments.state
    with backend.use("strict"):
        y = ops.batchnorm(at.array(X), moments)
        ops.batchnorm(at.array(X), fresh, training=True)
    close(y.numpy(), formula(X, None, 1e-5, moments.mean, moments.var))
    assert type(fresh.mean).__name__ == "StrictArray" and isinstance(pickle.loads(pickle.dumps(fresh)).mean, np.ndarray)
    with pytest.raises(at.errors.BackendError, match="met StrictArray"):
        ops.batchnorm(X, fresh)


def test_transforms_pass_moments_through():
    model = {"params": PARAMS, "moments": ops.bnmoments()}
    gradient = at.grad(lambda m: np.sum(ops.batchnorm(X, m["moments"], m["params"]) ** 2))(model)
    assert gradient["moments"] is model["moments"] and gradient["params"].shape == (6,)
    close(model["moments"].mean, 0.1 * X.mean((0, 2, 3)))


@EACH_BACKEND
def test_bnparams_are_ones_and_zeros(name):
    with backend.use(name):
        for params, dtype in ((ops.bnparams(2), np.float32), (ops.bnparams(2, float), np.float64)):
            assert at.Param(params).numpy().tolist() == [1, 1, 0, 0] and params.dtype == dtype
    p = at.Param(ops.bnparams(3, float))
    with at.Tape() as t:
        loss = np.sum((ops.batchnorm(X, ops.bnmoments(), p) - TARGET) ** 2)
    (g,) = t.gradient(loss, [p])
    close(np.asarray(g), -2 * np.concatenate([((TARGET - formula(X)) * formula(X)).sum((0, 2, 3)), (TARGET - formula(X)).sum((0, 2, 3))]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.batchnorm(X), ValueError, "batchnorm: outside training it needs moments"),
        (lambda: ops.batchnorm(X[0, 0, 0]), ValueError, "batchnorm: x (3,) must be (N, C) or (N, C, *spatial) with 1 to 3 spatial axes"),
        (lambda: ops.batchnorm(X[:0], training=True), ValueError, "batchnorm: x (0, 3, 2, 3) has no elements whose mean could be taken"),
        (lambda: ops.batchnorm(X, PARAMS), TypeError, "batchnorm: moments must be made by bnmoments, got ndarray(6,) float64"),
        (lambda: ops.batchnorm(X, None, PARAMS[:3], training=True), ValueError, "batchnorm: params (3,) must have the shape (6,): scales "),
        (lambda: ops.batchnorm(X, None, X[0], training=True), ValueError, "then biases of the 3 channels of x, as bnparams(3) makes them"),
        (lambda: ops.batchnorm(X, ops.bnmoments(varinit=1)), TypeError, "moments.var is None, so varinit must be a function of its shape"),
        (lambda: ops.batchnorm(X, eps=-1), ValueError, "batchnorm: eps must be at least 0, got -1.0"),
        (lambda: ops.batchnorm(X, eps="a"), TypeError, "batchnorm: eps must be a real number, got str 'a'"),
        (lambda: ops.batchnorm(X + 1j, training=True), TypeError, "batchnorm: x must be real, not complex128"),
        (lambda: ops.batchnorm(X, ops.bnmoments(mean=np.ones(2))), ValueError, "batchnorm: moments.mean (2,) must have the shape (3,)"),
        (lambda: ops.bnmoments(2), ValueError, "bnmoments: momentum must be from 0 to 1, got 2.0"),
        (lambda: ops.bnmoments("a"), TypeError, "bnmoments: momentum must be a real number, got str 'a'"),
        (lambda: ops.bnmoments(mean="a"), TypeError, "bnmoments: mean: str 'a' is no array of numbers"),
        (lambda: setattr(ops.bnmoments(), "state", {"mean": 1}), ValueError, "the state of moments is {'momentum': ..., "),
        (lambda: ops.bnparams(1.5), TypeError, "bnparams: channels must be a whole number, got float 1.5"),
        (lambda: ops.bnparams(-1), ValueError, "bnparams: channels must be at least 0, and dtype one of floats; got -1 and float32"),
        (lambda: ops.bnparams(2, int), ValueError, "got 2 and int64"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


@EACH_BACKEND
@pytest.mark.parametrize("dtype", [int, np.uint8, bool])
def test_moments_of_integers_follow_as_floats_do(name, dtype):
    zeros, ones = np.zeros(3), np.ones(3)
    with backend.use(name):
        found, expected = ops.bnmoments(mean=zeros.astype(dtype), var=ones.astype(dtype).tolist()), ops.bnmoments(mean=zeros, var=ones)
        for moments in (found, expected):
            ops.batchnorm(at.array(X), moments, training=True)
        for a, b in ((found.mean, expected.mean), (found.var, expected.var)):
            assert a.dtype == np.float64 and np.array_equal(at.array(a).numpy(), at.array(b).numpy())


@pytest.mark.parametrize(
    ("mean", "error", "message"),
    [
        (np.ones((3, 1)), ValueError, "bnmoments: mean must be (C,), one number a channel, got (3, 1)"),
        (1.0, ValueError, "bnmoments: mean must be (C,), one number a channel, got ()"),
        pytest.param(
            *(np.ones(3) + 1j, TypeError, "bnmoments: mean must be real, not complex128"), marks=pytest.mark.numpy_only("complex numbers")
        ),
    ],
)
def test_a_state_that_cannot_be_is_refused_and_leaves_the_moments_as_they_were(mean, error, message):
    moments = ops.bnmoments(0.2, np.ones(3), np.ones(3, np.float32))
    assert moments.var.dtype == np.float32
    for state in ({"mean": mean, "var": np.zeros(3)}, {"mean": np.zeros(3), "var": mean}):
        with pytest.raises(error, match=re.escape(message if state["mean"] is mean else message.replace("mean", "var"))):
            moments.state = {"momentum": 0.5, **state}
    assert moments.momentum == 0.2 and np.asarray(moments.mean).all() and np.asarray(moments.var).all()
