"""Opset v20: values against loops written from the definitions, gradients to second order, float32, options, and what bad input says."""

from __future__ import annotations

import itertools
import math
import re
import threading

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, random
from autotape.opsets import v20 as ops
from autotape.opsets.v20.activations import SELU_LIMIT, SELU_SCALE
from autotape.opsets.v20.fused import bias_per_channel
from autotape.testing import check_grads as check_on_current_backend
from autotape.testing.strategies import arrays, distinct, shapes

few = settings(max_examples=settings().max_examples // 2)
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
EACH_BACKEND = pytest.mark.parametrize("name", BACKENDS)
SIDES = [(-2, -0.1), (0.1, 2)]  # both sides of a kink at 0
ACTIVATIONS = {
    "identity": lambda x: x,
    "relu": lambda x: np.where(x > 0, x, 0),
    "sigm": lambda x: np.exp(x) / (1 + np.exp(x)),
    "tanh": lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
}


def check_grads(f, args, **options):
    """check_grads on every backend."""
    for name in BACKENDS:
        with backend.use(name):
            check_on_current_backend(f, args, **options)


def close(found, expected, rtol=1e-10):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def dot(a, b):
    """The sum of the products of elements, on whatever backend they are."""
    return np.sum(np.asarray(a) * np.asarray(b))


# ---------------------------------------------------------------- activations


@few
@given(st.sampled_from(["relu", "sigm", "elu", "selu"]), arrays(shapes(), elements=SIDES))
def test_an_activation_is_its_formula_and_differentiates(name, x):
    f = getattr(ops, name)
    close(f(x), ACTIVATIONS[name](x))
    check_grads(f, (x,), order=3)


@few
@given(arrays(shapes(), elements=(-3, 3)))
def test_softplus_and_invx(x):
    close(ops.softplus(x), np.log(1 + np.exp(x)))
    check_grads(ops.softplus, (x,))
    close(ops.invx(x + 5), 1 / (x + 5))
    check_grads(ops.invx, (x + 5,))


@pytest.mark.parametrize("name", ["relu", "sigm", "elu", "selu", "softplus", "invx"])
def test_elementwise_operators_keep_float32_and_nan(name):
    x = np.array([1, np.nan, -2], np.float32)
    y = getattr(ops, name)(x)
    assert y.dtype == np.float32 and np.isnan(np.asarray(y)).tolist() == [False, True, False]
    assert at.grad(lambda x: getattr(ops, name)(x).sum())(x).dtype == np.float32


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("relu", 0, np.inf), ("sigm", 0, 1), ("elu", -1, np.inf), ("selu", -SELU_LIMIT, np.inf), ("softplus", 0, np.inf)],
)
def test_elementwise_operators_have_their_limits_without_overflow(name, low, high):
    x = np.array([-np.inf, -1e4, 1e4, np.inf])
    y, pull = at.vjp(getattr(ops, name), x)
    assert y[0] == y[1] == low and y[3] == high
    assert np.isfinite(pull(np.ones(4))[0][:3]).all()


@pytest.mark.parametrize(("name", "slope"), [("relu", 0), ("elu", 1), ("selu", SELU_SCALE), ("sigm", 0.25), ("softplus", 0.5)])
def test_slopes_at_zero(name, slope):
    assert at.grad(getattr(ops, name))(0.0) == slope


def test_second_slope_of_softplus_at_zero():
    assert at.grad(at.grad(ops.softplus))(0.0) == 0.25  # a maximum and an absolute value would give 0


# ---------------------------------------------------------------- dropout


@few
@given(arrays(shapes()), st.floats(0, 1), st.integers(0, 2**64))
def test_dropout_keeps_or_zeroes_and_differentiates(x, p, seed):
    y = ops.dropout(x, p, seed=seed, drop=True)
    assert y.shape == x.shape and y.dtype == x.dtype
    kept = x if p in (0, 1) else x / (1 - p)
    assert np.isclose(np.where(y == 0, 0, kept), y).all()
    check_grads(lambda x: ops.dropout(x * x, p, seed=seed), (x,))


def test_dropout_drops_a_share_p():
    y = np.asarray(ops.dropout(np.ones(100_000, np.float32), 0.3, seed=1, drop=True))
    assert y.dtype == np.float32 and abs(np.mean(y == 0) - 0.3) < 0.01 and abs(y.mean() - 1) < 0.01


def test_dropout_drops_by_default_only_while_recording():
    x = np.ones(1000)
    assert ops.dropout(x) is x
    assert at.grad(lambda x: ops.dropout(x).sum())(x).min() == 0
    assert at.grad(lambda x: ops.dropout(x, drop=False).sum())(x).min() == 1
    assert np.asarray(ops.dropout(x, drop=True)).min() == 0


def test_dropout_is_fixed_by_its_seed_on_every_backend():
    x = np.ones((30, 30))
    y = ops.dropout(x, seed=7, drop=True)
    with backend.use("strict"):
        assert np.array_equal(ops.dropout(at.array(x), seed=7, drop=True).numpy(), y)
    assert not np.array_equal(ops.dropout(x, seed=8, drop=True), y)
    assert not np.array_equal(ops.dropout(x, drop=True), ops.dropout(x, drop=True))


def test_fresh_seeds_differ_in_threads():
    found = []
    threads = [threading.Thread(target=lambda: found.extend(random.fresh_seed() for _ in range(500))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 2000


def test_dropout_with_p_0_and_1():
    x = np.array([1.0, np.inf, -3])
    assert ops.dropout(x, 0, drop=True) is x
    assert ops.dropout(x, 1, drop=True).tolist() == [0, 0, 0]
    assert at.grad(lambda x: ops.dropout(x, 1).sum())(x).tolist() == [0, 0, 0]
    assert at.grad(lambda x: ops.dropout(x, 0).sum())(x).tolist() == [1, 1, 1]


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_dropout_refuses_what_is_no_probability(p):
    with pytest.raises(ValueError, match=f"dropout: p must be a probability from 0 to 1, got {p}"):
        ops.dropout(np.ones(3), p)


# ---------------------------------------------------------------- mat and bmm


def test_mat():
    x = np.arange(24.0).reshape(2, 3, 2, 2)
    close(ops.mat(x), x.reshape(2, 12))
    for dims in range(5):
        close(ops.mat(x, dims), x.reshape(math.prod(x.shape[: 4 - dims]), -1))
    assert ops.mat(np.zeros((0, 3, 4))).shape == (0, 12)
    assert ops.mat(x[0, 0, 0]).shape == (2, 1) and ops.mat(np.float64(3)).shape == (1, 1)
    check_grads(ops.mat, (x,))


@few
@given(st.data(), st.booleans(), st.booleans(), shapes(1, 2, (0, 1, 2)), st.tuples(*[st.integers(0, 3)] * 3))
def test_bmm_multiplies_each_pair_of_matrices(data, trans_a, trans_b, batch, sizes):
    n, k, m = sizes
    a = data.draw(arrays((*batch, *((k, n) if trans_a else (n, k)))))
    b = data.draw(arrays((*batch, *((m, k) if trans_b else (k, m)))))
    expected = np.zeros((*batch, n, m))
    for i in np.ndindex(*batch):
        expected[i] = (a[i].T if trans_a else a[i]) @ (b[i].T if trans_b else b[i])
    close(ops.bmm(a, b, trans_a, trans_b), expected)
    check_grads(lambda a, b: ops.bmm(a, b, transA=trans_a, transB=trans_b), (a, b))


# ---------------------------------------------------------------- softmax


@st.composite
def array_and_axis(draw):
    x = draw(arrays(shapes(0, 3, (1, 2, 3)), elements=(-3, 3)))
    axes = st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none()
    several = st.permutations(range(x.ndim)).flatmap(lambda p: st.integers(1, x.ndim).map(lambda n: tuple(p[:n]))) if x.ndim else st.none()
    return x, draw(st.none() | axes | several)


@few
@given(array_and_axis(), st.booleans())
def test_the_softmax_family_is_its_formulas_and_differentiates(drawn, keepdims):
    x, axis = drawn
    total = np.sum(np.exp(x), axis=axis, keepdims=True)
    close(ops.softmax(x, axis), np.exp(x) / total)
    close(ops.logsoftmax(x, axis), x - np.log(total))
    close(ops.logsumexp(x, axis, keepdims), np.log(np.asarray(np.sum(np.exp(x), axis=axis, keepdims=keepdims))))
    for f in (ops.softmax, ops.logsoftmax):
        check_grads(lambda x, f=f: f(x, axis), (x,))
    check_grads(lambda x: ops.logsumexp(x, axis, keepdims), (x,))


def test_the_softmax_family_takes_large_numbers_and_keeps_float32():
    x = np.array([[1e4, -1e4, 0], [1e38, 1e38, -1e38]], np.float32)
    close(ops.softmax(x, 1), np.array([[1, 0, 0], [0.5, 0.5, 0]], np.float32))
    close(ops.logp(x[:1], 1), np.array([[0, -2e4, -1e4]], np.float32))
    close(ops.logsumexp(x[:1], 1), np.array([1e4], np.float32))
    for f in (ops.softmax, ops.logp, ops.logsumexp):
        assert at.grad(lambda x, f=f: f(x, 1).sum())(x).dtype == np.float32


def test_the_softmax_family_of_a_number_takes_its_axis():
    for axis in (0, -1, None):
        for f, slope in ((ops.softmax, 0), (ops.logsoftmax, 0), (ops.logsumexp, 1)):
            assert at.grad(lambda x, f=f, axis=axis: f(x, axis))(2.0) == slope


def test_float16_sums_do_not_overflow():
    x, n = np.full(70_000, 8, np.float16), 70_000
    np.testing.assert_allclose(ops.softmax(x), 1 / n, rtol=0.01)
    np.testing.assert_allclose([ops.logsumexp(x).item(), -np.asarray(ops.logsoftmax(x))[0]], [8 + math.log(n), math.log(n)], rtol=1e-3)
    for f in (lambda x: ops.bce(x, np.zeros(n)), lambda x: ops.nll(np.stack([x, 0 * x], 1), np.ones(n, int))):
        y, g = at.value_and_grad(f)(x)
        assert y == 8 and y.dtype == g.dtype == np.float16
        np.testing.assert_allclose(g, 1 / n, rtol=0.01)


# ---------------------------------------------------------------- losses


def number(loss):
    """What a loss gave, of whatever backend, as a Python number."""
    return at.asarray(loss).item()


def naive_nll(scores, labels, axis):
    """(sum, count, right): one instance after the other."""
    moved, total, count, right = np.moveaxis(scores, axis, -1), 0.0, 0, 0
    for i in np.ndindex(*labels.shape):
        if (label := labels[i]) >= 0:
            total -= math.log(math.exp(moved[i][label]) / sum(math.exp(s) for s in moved[i]))
            count += 1
            right += all(moved[i][label] >= s for s in moved[i])
    return total, count, right


@st.composite
def scores_and_labels(draw):
    scores = draw(arrays(shapes(1, 3, (1, 2, 4)), elements=(-3, 3)))
    axis = draw(st.integers(-scores.ndim, scores.ndim - 1))
    shape = np.delete(scores.shape, axis)
    labels = np.random.default_rng(draw(st.integers(0, 99))).integers(draw(st.sampled_from([0, -2])), scores.shape[axis], shape)
    return scores, labels.astype(draw(st.sampled_from([np.int8, np.int64]))), axis


@few
@given(scores_and_labels())
def test_nll_accuracy_and_zeroone_are_their_loops(drawn):
    scores, labels, axis = drawn
    total, count, right = naive_nll(scores, labels, axis)
    found, n = ops.nll(scores, labels, axis, average=False)
    assert n == count and np.isclose(found, total)
    assert np.isclose(ops.nll(scores, labels, axis), total / max(count, 1))
    assert ops.accuracy(scores, labels, axis, average=False) == (right, count)
    assert ops.accuracy(scores, labels, axis) == right / max(count, 1)
    assert ops.zeroone(scores, labels, axis, average=False) == (count - right, count)
    assert ops.zeroone(scores, labels, axis) == (count - right) / max(count, 1)
    check_grads(lambda s: ops.nll(s, labels, axis), (scores,))
    check_grads(lambda s: ops.nll(s, labels, axis, average=False)[0], (scores,))


@EACH_BACKEND
@pytest.mark.parametrize("wrap", [list, np.uint8, at.array])
def test_labels_come_as_lists_arrays_and_tensors(name, wrap):
    scores = distinct(0, [(3, 4)], [(-1, 1)])[0]
    with backend.use(name):
        labels = wrap([1, 0, 3])
        value, gradient = at.value_and_grad(ops.nll)(scores, labels)
        assert ops.accuracy(at.array(scores), labels) == naive_nll(scores, np.array([1, 0, 3]), 1)[2] / 3
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    expected[[0, 1, 2], [1, 0, 3]] -= 1
    close(gradient, expected / 3)
    assert np.isclose(value, naive_nll(scores, np.array([1, 0, 3]), 1)[0] / 3)


def test_nll_of_masked_labels_is_zero_and_so_is_its_gradient():
    value, gradient = at.value_and_grad(ops.nll)(np.ones((2, 3), np.float32), [-1, -1])
    assert value == 0 and gradient.dtype == np.float32 and not gradient.any()
    assert ops.nll(np.ones((0, 3)), []) == 0 and ops.accuracy(np.ones((0, 3)), []) == 0
    value, gradient = at.value_and_grad(ops.nll)(np.ones((3, 3)), [0, -1, 1])
    assert np.isclose(value, math.log(3)) and not gradient[1].any() and gradient[0].any()


def test_metrics_count_on_what_is_being_recorded():
    scores, labels = np.eye(3), [0, 1, 0]
    (_, right), _ = at.value_and_grad(lambda s: (ops.nll(s, labels), ops.accuracy(s, labels)), has_aux=True)(scores)
    assert right == 2 / 3


@few
@given(arrays(shapes(0, 2), elements=(-3, 3)), st.integers(0, 99))
def test_bce_and_logistic_are_their_formulas_and_differentiate(scores, seed):
    ones = np.random.default_rng(seed).integers(0, 2, scores.shape)
    p = 1 / (1 + np.exp(-scores))
    total = -np.sum(ones * np.log(p) + (1 - ones) * np.log(1 - p))
    for f, labels in ((ops.bce, ones), (ops.logistic, 2 * ones - 1)):
        found, count = f(scores, labels, average=False)
        assert np.isclose(found, total) and count == scores.size
        assert np.isclose(f(scores, labels.astype(np.float32)), total / max(count, 1))
        check_grads(lambda s, f=f, labels=labels: f(s, labels), (scores,))


def test_bce_and_logistic_are_stable_and_keep_float32():
    scores = np.array([1e4, -1e4, 20, 0], np.float32)
    for f, labels in ((ops.bce, [True, False, True, False]), (ops.logistic, [1, -1, 1, -1])):
        value, gradient = at.value_and_grad(lambda s, f=f, labels=labels: f(s, labels, average=False)[0])(scores)
        assert np.isclose(value, math.exp(-20) + math.log(2), rtol=1e-6) and gradient.dtype == np.float32
        assert np.allclose(gradient, [0, 0, -math.exp(-20), 0.5], rtol=1e-5, atol=0)
    assert at.grad(at.grad(lambda s: ops.bce(s, 1)))(0.0) == 0.25  # where untrained networks start


@EACH_BACKEND
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, bool])
def test_losses_of_integer_scores_do_not_wrap(name, dtype):
    scores = np.array([False, True] if dtype is bool else [np.iinfo(dtype).min, 5], dtype)
    floats, ones = scores.astype(float), [1, 0]
    with backend.use(name):
        close(ops.softplus(at.array(scores)).numpy(), np.logaddexp(0, floats))
        for f, labels in ((ops.bce, ones), (ops.logistic, [1, -1])):
            assert number(f(at.array(scores), labels)) == number(f(at.array(floats), labels))
            assert np.isclose(number(f(at.array(scores), labels)), np.logaddexp(0, floats * [-1, 1]).mean())


@EACH_BACKEND
def test_masked_labels_of_bce_and_logistic_count_for_nothing(name):
    scores = np.array([0.5, np.nan, -1, 2, np.inf], np.float32)
    with backend.use(name):
        for f, labels in ((ops.bce, [1, -1, 0, 0, -7]), (ops.logistic, [1, 0, -1, -1, 0])):
            total, count = f(scores, labels, average=False)
            expected = f(scores[[0, 2, 3]], np.array(labels)[[0, 2, 3]], average=False)[0]
            assert count == 3 and np.isclose(number(total), number(expected))
            assert np.isclose(number(f(scores, labels)), number(total) / 3)
            value, gradient = at.value_and_grad(lambda s, f=f, labels=labels: f(s, labels))(scores)
            assert np.isfinite(value) and gradient.dtype == np.float32 and gradient[[1, 4]].tolist() == [0, 0]
            second = at.hvp(lambda s, f=f, labels=labels: f(s, labels))(scores, np.ones_like(scores))
            assert np.isfinite(second).all() and second[[1, 4]].tolist() == [0, 0]
            assert number(f(scores[1:2], labels[1:2])) == 0


BATCHES = [(np.arange(6.0).reshape(2, 3), [2, 0]), (np.ones((1, 3)), [-1]), (np.zeros((3, 3)), [0, 1, 1])]


@EACH_BACKEND
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_losses_of_a_model_are_those_of_all_batches_together(name, dtype):
    scores, labels = np.concatenate([x for x, _ in BATCHES]).astype(dtype), np.concatenate([y for _, y in BATCHES])
    with backend.use(name):
        w = at.array(np.eye(3)[::-1] * 0.5, dtype)
        for f in (ops.nll, ops.accuracy, ops.zeroone):
            for model in (lambda x: at.array(x, dtype) @ w, lambda x: (at.array(x, dtype) @ w).numpy()):
                whole, count = f(model(scores), labels, average=False)
                total, n = f(model, BATCHES, average=False)
                assert n == count == 5 and np.isclose(number(total), number(whole), rtol=1e-6)
                assert np.isclose(number(f(model, iter(BATCHES))), number(whole) / 5, rtol=1e-6)
                assert np.isclose(number(f(lambda x: model(x).T, BATCHES, axis=0)), number(whole) / 5, rtol=1e-6)  # noqa: B023
        assert ops.nll(lambda x: x.astype(dtype), BATCHES).dtype == dtype
        assert ops.accuracy(lambda x: x.tolist(), BATCHES) == ops.accuracy(lambda x: x, BATCHES)
        gradient = at.grad(lambda w: ops.nll(lambda x: at.array(x, dtype) @ w, BATCHES))(w)
        close(gradient.numpy(), at.grad(lambda w: ops.nll(at.array(scores) @ w, labels))(w).numpy(), 1e-6)


def test_a_model_sees_each_batch_once_outside_training():
    seen = []

    def model(x):
        seen.append(len(x))
        return ops.dropout(x, 0.9)

    assert ops.accuracy(model, BATCHES) == 2 / 5 and seen == [2, 1, 3]
    mean = ops.nll(lambda x: np.full(x.shape, 0.0, np.float16), [(np.zeros((70000, 3)), np.zeros(70000, int))])
    np.testing.assert_array_max_ulp(np.float32(mean), np.float32(math.log(3)), 4)


@pytest.mark.parametrize("f", [ops.nll, ops.accuracy, ops.zeroone])
def test_data_without_batches_raise(f):
    with pytest.raises(ValueError, match=f"^{f.__name__}: the data hold no batch$"):
        f(lambda x: x, iter([]))
    with pytest.raises(TypeError, match=re.escape(f"{f.__name__}: the data of a model are batches (x, labels), not ndarray(2, 3) float64")):
        f(lambda x: x, [np.ones((2, 3))])
    with pytest.raises(ValueError, match=r"labels \(1,\) must have"):
        f(lambda x: x, [(np.ones((2, 3)), [0])])


# ---------------------------------------------------------------- convolution


def naive_conv(w, x, padding, stride, dilation, mode, group):
    window, axes = w.shape[2:], range(len(padding))
    if mode == 0:
        w = w[(..., *(slice(None, None, -1) for _ in axes))]
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    span = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *((n - e) // s + 1 for n, e, s in zip(x.shape[2:], span, stride, strict=True))), x.dtype)
    k, c = w.shape[0] // group, w.shape[1]
    for i, o, *at_ in np.ndindex(*y.shape):
        g = o // k
        for u in np.ndindex(*window):
            position = tuple(at_[a] * stride[a] + u[a] * dilation[a] for a in axes)
            for j in range(c):
                y[(i, o, *at_)] += w[(o, j, *u)] * x[(i, g * c + j, *position)]
    return y


def spelt(draw, values):
    """One entry an axis as a user may spell it: a tuple, a list, or a number where all are equal."""
    if len(set(values)) == 1 and draw(st.booleans()):
        return values[0]
    return values if draw(st.booleans()) else list(values)


@st.composite
def convolutions(draw):
    """w, x, options as a user spells them, and the same for the naive loops."""
    axes = draw(st.integers(1, 3))
    group, c, k, n = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(0, 2))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(axes))  # noqa: E731
    window, stride, dilation, before, after = each(1, 3), each(1, 2), each(1, 2), each(0, 1), each(0, 2)
    if draw(st.booleans()):
        after = before
    extra = each(0, 2)
    spatial = tuple(max((w - 1) * d + 1 + e - b - a, 1) for w, d, e, b, a in zip(window, dilation, extra, before, after, strict=True))
    padding = tuple(zip(before, after, strict=True))
    mode = draw(st.sampled_from([0, 1]))
    w, x = draw(arrays((k * group, c, *window))), draw(arrays((n, c * group, *spatial)))
    options = {
        "padding": spelt(draw, before) if before == after else padding,
        "stride": spelt(draw, stride),
        "dilation": spelt(draw, dilation),
        "mode": mode,
        "group": group,
    }
    return w, x, options, (padding, stride, dilation, mode, group)


@few
@given(convolutions(), st.sampled_from([1, -0.5]))
def test_conv4_is_its_loops_and_differentiates(drawn, alpha):
    w, x, options, plain = drawn
    y = ops.conv4(w, x, alpha=alpha, **options)
    close(y, alpha * naive_conv(w, x, *plain))
    check_grads(lambda w, x: ops.conv4(w, x, alpha=alpha, **options), (w, x))


@few
@given(convolutions(), st.integers(0, 99))
def test_the_transposes_of_conv4_are_transposes_and_differentiate(drawn, seed):
    w, x, options, _ = drawn
    y = ops.conv4(w, x, **options)
    v = np.random.default_rng(seed).standard_normal(y.shape)
    inner = dot(y, v)
    assert np.isclose(dot(x, ops.conv4_x(w, v, x.shape, **options)), inner)
    assert np.isclose(dot(w, ops.conv4_w(x, v, w.shape, **options)), inner)
    check_grads(lambda w, v: ops.conv4_x(w, v, x.shape, **options), (w, v))
    check_grads(lambda x, v: ops.conv4_w(x, v, w.shape, **options), (x, v))


def test_conv4_keeps_float32_and_differentiates_to_order_3():
    w, x = distinct(1, [(4, 1, 2, 2), (2, 2, 4, 3)], [(-1, 1)] * 2)
    y, pull = at.vjp(lambda w, x: ops.conv4(w, x, group=2, alpha=np.float64(0.5)), w.astype(np.float32), x.astype(np.float32))
    assert {a.dtype for a in (y, *pull(y))} == {np.dtype(np.float32)}
    check_grads(lambda w, x: ops.conv4(w, x, padding=1, stride=2, group=2) ** 2, (w, x), order=3)


def test_options_that_are_numpy_scalars_leave_float32_as_it_is():
    w, x = np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 4, 4), np.float32)
    two, half = np.float64(2), np.float64(0.5)
    for f in (
        lambda x: ops.conv_bias_act(w, x, z=x, alpha=two, beta=two),
        lambda x: ops.conv4(w, x, alpha=two),
        lambda x: ops.pool(x, alpha=two),
        lambda x: ops.dropout(x, half, seed=np.int64(0)),
        lambda x: ops.masked_dropout(x, half),
    ):
        y, pull = at.vjp(f, x)
        assert y.dtype == pull(y)[0].dtype == np.float32


@pytest.mark.parametrize("alpha", ["2", 2j, None, np.ones(1)])
def test_alpha_and_beta_are_numbers(alpha):
    says = f"must be a real number, got .*{type(alpha).__name__}"
    for call in (ops.conv4, lambda w, x, alpha: (at.grad(lambda w: (ops.conv4(w, x, alpha=alpha), w.sum())[1])(w)), ops.conv_bias_act):
        with pytest.raises(TypeError, match=f"^conv(4|_bias_act): alpha {says}"):
            call(W, X, alpha=alpha)
    with pytest.raises(TypeError, match=f"^conv_bias_act: beta {says}"):
        ops.conv_bias_act(W, X, beta=alpha)
    with pytest.raises(TypeError, match=f"^pool: alpha {says}"):
        ops.pool(X, alpha=alpha)
    with pytest.raises(TypeError, match=r"conv4: alpha must be a real number, got .*Tensor"):
        at.grad(lambda alpha: (ops.conv4(W, X, alpha=alpha), alpha)[1])(2.0)


def test_modes_differ_by_the_window_reversed():
    w, x = distinct(2, [(1, 1, 2, 3), (1, 1, 5, 5)], [(-1, 1)] * 2)
    close(ops.conv4(w, x), ops.conv4(np.ascontiguousarray(w[:, :, ::-1, ::-1]), x, mode=1))
    close(np.asarray(ops.conv4(w, x, mode=1))[0, 0, 1:2, 2], np.array([np.sum(w[0, 0] * x[0, 0, 1:3, 2:5])]))


W, X = np.ones((4, 2, 3, 3)), np.ones((2, 2, 5, 5))


@pytest.mark.parametrize(
    ("w", "x", "options", "message"),
    [
        (W, X[:, :, :, 0], {}, "conv4: w (4, 2, 3, 3) and x (2, 2, 5) must be (K, C/group, *window) and (N, C, *spatial)"),
        (W[0, 0], X[0, 0], {}, "conv4: w (3, 3) and x (5, 5) must be"),
        (W, X[:, :1], {}, "conv4: w (4, 2, 3, 3) takes 2 input channels, but x (2, 1, 5, 5) has 1; w must be (K, C/group, *window)"),
        (W, X, {"group": 2}, "takes 2 groups of 2 input channels, but x (2, 2, 5, 5) has 2"),
        (W, X, {"group": 3}, "conv4: group must be a whole number of at least 1 that divides K, which is 4 in w (4, 2, 3, 3), got 3"),
        (W, X, {"group": 0}, "that divides K, which is 4 in w (4, 2, 3, 3), got 0"),
        (W, X, {"mode": 2}, "conv4: mode must be 0 (convolution, the window reversed) or 1 (cross-correlation), got 2"),
        (W, X, {"dilation": 3}, "conv4: the window spans (7, 7), more than x's (5, 5) with padding ((0, 0), (0, 0))"),
        (W, X, {"stride": 0}, "conv4: stride must be a whole number of at least 1, or one for each of 2 spatial axes, got 0"),
        (W, X, {"stride": (1, 1, 1)}, "or one for each of 2 spatial axes, got (1, 1, 1)"),
        (W, X, {"dilation": 1.5}, "conv4: dilation must be a whole number of at least 1"),
        (W, X, {"padding": -1}, "at least 0, or one or a (before, after) pair for each of 2 spatial axes, got -1"),
        (W, X, {"padding": "same"}, "got 'same'"),
        (W, X, {"padding": ((1, 1, 1), 0)}, "got ((1, 1, 1), 0)"),
        (W[:, :, :0], X, {}, "conv4: w's window must be a whole number of at least 1"),
        (W, X, {"padding": {1: 2}}, "conv4: padding must be a whole number of at least 0, or one or a (before, after) pair"),
        (W, X, {"mode": [1, 1]}, "conv4: mode must be 0 (convolution, the window reversed) or 1 (cross-correlation), got (1, 1)"),
    ],
)
def test_what_does_not_fit_conv4(w, x, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ops.conv4(w, x, **options)
    with pytest.raises(ValueError, match=re.escape(message)):  # at the call, even where the result would be deferred
        at.grad(lambda w: (ops.conv4(w, x, **options), w.sum())[1])(w)


def test_the_transposes_refuse_what_does_not_fit():
    v = np.ones((2, 4, 2, 2))
    with pytest.raises(ValueError, match=re.escape("conv4_x: v (2, 4, 2, 2) must have the shape (2, 4, 3, 3)")):
        ops.conv4_x(W, v, X.shape)
    with pytest.raises(ValueError, match=re.escape("conv4_w: v (2, 4, 2, 2) must have the shape (2, 4, 3, 3)")):
        ops.conv4_w(X, v, W.shape)


def naive_deconv(w, x, padding, stride, dilation, mode, group):
    window, axes = w.shape[2:], range(len(padding))
    if mode == 0:
        w = w[(..., *(slice(None, None, -1) for _ in axes))]
    whole = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(x.shape[2:], window, stride, dilation, strict=True)]
    y = np.zeros((x.shape[0], w.shape[1] * group, *whole))
    k, c = w.shape[0] // group, w.shape[1]
    for i, o, *at_ in np.ndindex(*x.shape):
        for u in np.ndindex(*window):
            position = tuple(at_[a] * stride[a] + u[a] * dilation[a] for a in axes)
            for j in range(c):
                y[(i, o // k * c + j, *position)] += w[(o, j, *u)] * x[(i, o, *at_)]
    return y[(..., *(slice(p[0], max(n - p[1], 0)) for p, n in zip(padding, whole, strict=True)))]


@few
@given(convolutions(), st.sampled_from([1, -0.5]), st.integers(0, 99))
def test_deconv4_is_its_loops_and_differentiates(drawn, alpha, seed):
    w, image, options, plain = drawn
    x = np.random.default_rng(seed).standard_normal(ops.conv4(w, image, **options).shape)
    expected = naive_deconv(w, x, *plain)
    assume(0 not in expected.shape[2:])
    y = ops.deconv4(w, x, alpha=alpha, **options)
    close(y, alpha * expected)
    assert ops.conv4(w, y, **options).shape == x.shape
    check_grads(lambda w, x: ops.deconv4(w, x, alpha=alpha, **options), (w, x))


def test_deconv4_keeps_float32_and_differentiates_to_order_3():
    w, x = distinct(1, [(4, 1, 2, 2), (2, 4, 2, 3)], [(-1, 1)] * 2)
    y, pull = at.vjp(lambda w, x: ops.deconv4(w, x, group=2, stride=2, alpha=np.float64(0.5)), w.astype(np.float32), x.astype(np.float32))
    assert {a.dtype for a in (y, *pull(y))} == {np.dtype(np.float32)} and y.shape == (2, 2, 4, 6)
    check_grads(lambda w, x: ops.deconv4(w, x, padding=1, stride=2, group=2) ** 2, (w, x), order=3)


V = np.ones((2, 4, 3, 3))


@pytest.mark.parametrize(
    ("w", "x", "options", "error", "message"),
    [
        (W, V[0], {}, ValueError, "deconv4: w (4, 2, 3, 3) and x (4, 3, 3) must be (K, C/group, *window) and (N, K, *spatial)"),
        (W, V[..., :0], {}, ValueError, "with the same 1 to 3 spatial axes, none of x's empty"),
        (W, V[:, :3], {}, ValueError, "deconv4: w (4, 2, 3, 3) takes 4 input channels, but x (2, 3, 3, 3) has 3"),
        (W, V, {"group": 3}, ValueError, "deconv4: group must be a whole number of at least 1 that divides K, which is 4"),
        (W, V, {"padding": 3}, ValueError, "deconv4: of x's (3, 3) padding ((3, 3), (3, 3)) leaves (-1, -1), which is no shape"),
        (W, V, {"stride": 0}, ValueError, "deconv4: stride must be a whole number of at least 1"),
        (W, V, {"mode": 2}, ValueError, "deconv4: mode must be 0 (convolution, the window reversed) or 1 (cross-correlation), got 2"),
        (W, V, {"alpha": "a"}, TypeError, "deconv4: alpha must be a real number, got str 'a'"),
    ],
)
def test_what_does_not_fit_deconv4(w, x, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        ops.deconv4(w, x, **options)


def test_unhashable_options_are_answered_alike():
    close(ops.conv4(W, X, padding=[1, 0], stride=np.array([2, 1])), ops.conv4(W, X, padding=(1, 0), stride=(2, 1)))
    close(ops.conv4(W, X, padding=np.array(1), mode=np.array(1)), ops.conv4(W, X, padding=1, mode=1))
    v, shape = np.ones((2, 4, 3, 3)), [*W.shape]
    for spelt in (shape, np.array(shape)):
        close(ops.conv4_w(X, v, spelt), ops.conv4_w(X, v, W.shape))
    with pytest.raises(ValueError, match="stride must be a whole number"):
        ops.conv4(W, X, stride=1.5)


# ---------------------------------------------------------------- convolution, bias and activation in one


@few
@given(convolutions(), st.sampled_from([*ACTIVATIONS]), st.booleans(), st.booleans(), st.integers(0, 99))
def test_conv_bias_act_is_its_chain(drawn, activation, with_b, with_z, seed):
    w, x, options, plain = drawn
    y = naive_conv(w, x, *plain)
    rng = np.random.default_rng(seed)
    inputs = {"w": w, "x": x}
    expected = 0.5 * y
    if with_b:
        channels = (y.shape[1],) + (1,) * (y.ndim - 2)
        inputs["b"] = rng.standard_normal(rng.choice([(1, *channels), (1, *channels)]) if rng.random() < 0.5 else channels)
        expected = expected + inputs["b"]
    if with_z:
        inputs["z"] = rng.standard_normal(y.shape)
        expected = expected + 2 * inputs["z"]
    close(ops.conv_bias_act(**inputs, act=activation, alpha=0.5, beta=2, **options), ACTIVATIONS[activation](expected))
    if expected.size and abs(expected).min() > 1e-3:  # away from the kinks
        check_grads(lambda inputs: ops.conv_bias_act(**inputs, act=activation, alpha=0.5, beta=2, **options), (inputs,), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"act": "gelu"}, "act 'gelu' is unknown: use one of 'identity', 'relu', 'sigm', 'tanh', 'elu', 'selu'"),
        ({"b": np.ones(4)}, "b (4,) must be one value a channel, (4, 1, 1) or (1, 4, 1, 1)"),
        ({"b": np.ones((1, 1, 1, 1))}, "b (1, 1, 1, 1) must be one value a channel"),
        ({"z": np.ones((2, 4, 1, 1))}, "z (2, 4, 1, 1) must have the shape (2, 4, 3, 3)"),
        ({"group": 3}, "group must be a whole number"),
        ({"act": ["relu"]}, "act a list is unknown"),
    ],
)
def test_what_does_not_fit_conv_bias_act(options, message):
    with pytest.raises(ValueError, match=re.escape(f"conv_bias_act: {message}")):
        ops.conv_bias_act(W, X, **options)


@EACH_BACKEND
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_conv_bias_act_of_integers_is_its_chain(name, activation):
    w, x, b = (np.random.default_rng(i).integers(-2, 2, shape) for i, shape in enumerate([(2, 1, 2), (3, 1, 4), (2, 1)]))
    z = np.full((3, 2, 3), 3)
    with backend.use(name):
        y = np.asarray(ops.conv_bias_act(*map(at.array, (w, x, b)), activation, at.array(z), beta=0.5, mode=1).numpy())
        whole = ops.conv_bias_act(at.array(w), at.array(x), act=activation, mode=1).numpy()
    chain = naive_conv(w, x, ((0, 0),), (1,), (1,), 1, 1)
    np.testing.assert_allclose(y, ACTIVATIONS[activation](chain + b + 1.5), 1e-12)
    np.testing.assert_allclose(whole, ACTIVATIONS[activation](chain), 1e-12)


def test_bias_per_channel():
    assert bias_per_channel((2, 4, 3, 3), (4, 1, 1)) and bias_per_channel((2, 4, 3, 3), (1, 4, 1, 1))
    assert bias_per_channel((2, 4, 3), (4, 1)) and bias_per_channel((2, 4, 3, 3, 3), (1, 4, 1, 1, 1))
    for shape in [(), (4,), (1, 1, 1), (4, 1), (3, 1, 1), (2, 4, 1, 1), (4, 3, 1), (1, 1, 4, 1, 1), (2, 4, 3, 3)]:
        assert not bias_per_channel((2, 4, 3, 3), shape)


# ---------------------------------------------------------------- pooling


def naive_pool(x, window, padding, stride, mode):
    spatial = x.shape[2:]
    out = [(n + sum(p) - k) // s + 1 for n, p, k, s in zip(spatial, padding, window, stride, strict=True)]
    y = np.zeros((*x.shape[:2], *out))
    for i, c, *o in np.ndindex(*y.shape):
        corner = [a * s - p[0] for a, s, p in zip(o, stride, padding, strict=True)]
        ranges = [range(max(u, 0), min(u + k, n)) for u, k, n in zip(corner, window, spatial, strict=True)]
        values = [x[(i, c, *at_)] for at_ in itertools.product(*ranges)]
        y[(i, c, *o)] = max(values) if mode in (0, 3) else sum(values) / (math.prod(window) if mode == 1 else len(values))
    return y


@st.composite
def poolings(draw):
    axes = draw(st.integers(1, 3))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(axes))  # noqa: E731
    window = each(1, 3)
    stride = draw(st.none() | st.just(window)) or each(1, 3)
    before, after = (tuple(min(p, k - 1) for p, k in zip(each(0, 2), window, strict=True)) for _ in range(2))
    if draw(st.booleans()):
        after = before
    spatial = tuple(max(k + e - b - a, 1) for k, e, b, a in zip(window, each(0, 3), before, after, strict=True))
    x = draw(arrays((draw(st.integers(0, 2)), draw(st.integers(1, 2)), *spatial)))
    padding = tuple(zip(before, after, strict=True))
    options = {
        "window": spelt(draw, window),
        "padding": spelt(draw, before) if before == after else padding,
        "stride": None if stride == window else spelt(draw, stride),
    }
    return x, options, (window, padding, stride)


@few
@given(poolings(), st.sampled_from([0, 1, 2, 3]), st.sampled_from([1, 1.5]))
def test_pool_is_its_loops_and_differentiates(drawn, mode, alpha):
    x, options, plain = drawn
    close(ops.pool(x, mode=mode, alpha=alpha, **options), alpha * naive_pool(x, *plain, mode))
    check_grads(lambda x: ops.pool(x, mode=mode, alpha=alpha, **options) ** 2, (x,))


@few
@given(poolings(), st.integers(0, 99))
def test_the_transposes_of_pooling_are_transposes_and_differentiate(drawn, seed):
    x, options, _ = drawn
    m = ops.max_pool(x, **options)
    rng = np.random.default_rng(seed)
    v, u = rng.standard_normal(m.shape), rng.standard_normal(x.shape)
    close(ops.max_pool_at(x, x, m, **options), m)
    assert np.isclose(dot(ops.max_pool_x(v, x, m, **options), u), dot(ops.max_pool_at(u, x, m, **options), v))
    check_grads(lambda v: ops.max_pool_x(v, x, m, **options), (v,))
    check_grads(lambda u: ops.max_pool_at(u, x, m, **options), (u,))
    for counted in (True, False):
        spread = ops.mean_pool_x(v, x.shape, count_padding=counted, **options)
        assert np.isclose(dot(spread, u), dot(ops.mean_pool(u, count_padding=counted, **options), v))
        check_grads(lambda v, counted=counted: ops.mean_pool_x(v, x.shape, count_padding=counted, **options), (v,))


@EACH_BACKEND
def test_max_pool_gives_ties_to_the_first_and_keeps_nan_and_float32(name):
    x = np.ones((1, 1, 4, 4), np.float32)
    with backend.use(name):
        y, pull = at.vjp(ops.pool, x)
        (g,) = pull(np.full(y.shape, 2, np.float32))
    assert y.dtype == g.dtype == np.float32
    assert g[0, 0].tolist() == [[2, 0, 2, 0], [0, 0, 0, 0], [2, 0, 2, 0], [0, 0, 0, 0]]
    x[0, 0, 1, 1] = np.nan
    for mode in range(4):
        assert np.isnan(np.asarray(ops.pool(x, mode=mode))).tolist() == [[[[True, False], [False, False]]]]
    assert ops.pool(np.full((1, 1, 2), -np.inf), padding=1).tolist() == [[[-np.inf, -np.inf]]]


@EACH_BACKEND
def test_max_pool_may_leave_nan_out(name):
    x = np.arange(8.0).reshape(1, 1, 2, 4)
    x[0, 0, 1, 1] = x[0, 0, :, 2:] = np.nan
    with backend.use(name):
        for mode in (0, 3):
            y, pull = at.vjp(lambda x, mode=mode: ops.pool(x, mode=mode, nan=False), x)
            assert y.tolist() == [[[[4, -np.inf]]]]
            assert pull(np.ones_like(y))[0].tolist() == [[[[0, 0, 0, 0], [1, 0, 0, 0]]]]
        assert np.isnan(ops.pool(at.array(x), mode=1, nan=False).numpy()).all()


def naive_unpool(x, window, padding, stride):
    whole = [(n - 1) * s + k for n, k, s in zip(x.shape[2:], window, stride, strict=True)]
    y = np.zeros((*x.shape[:2], *whole))
    for i, c, *o in np.ndindex(*x.shape):
        for u in np.ndindex(*window):
            y[(i, c, *(a * s + b for a, s, b in zip(o, stride, u, strict=True)))] += x[(i, c, *o)]
    return y[(..., *(slice(p[0], max(n - p[1], 0)) for p, n in zip(padding, whole, strict=True)))]


@few
@given(poolings(), st.sampled_from([1, 1.5]))
def test_unpool_is_its_loops_and_undone_by_pool(drawn, alpha):
    x, options, (window, padding, stride) = drawn
    expected = naive_unpool(x, window, padding, stride)
    assume(0 not in expected.shape[2:])
    y = ops.unpool(x, alpha=alpha, **options)
    close(y, expected / alpha)
    check_grads(lambda x: ops.unpool(x, alpha=alpha, **options), (x,))
    if all(s >= k for s, k in zip(stride, window, strict=True)) and not np.any(padding):
        close(ops.pool(y, mode=1, alpha=alpha, **options), x)


@EACH_BACKEND
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, bool])
def test_means_of_integers_do_not_wrap(name, dtype):
    x = np.full((1, 2, 3, 3), True if dtype is bool else np.iinfo(dtype).max, dtype)
    with backend.use(name):
        y = ops.pool(at.array(x), 2, 1, mode=2).numpy()
    close(y, np.full((1, 2, 2, 2), float(x.flat[0])))


@EACH_BACKEND
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("mode", [1, 2])
def test_means_of_more_than_float16_counts(name, mode, padding):
    x = np.full((1, 1, 300, 300), 8, np.float16)
    with backend.use(name):
        y, pull = at.vjp(lambda x: ops.pool(x, 300, padding, mode=mode), at.array(x))
        (g,) = pull(at.array(np.full((1, 1, 1, 1), 1000, np.float16)))
    counted = 300**2 if padding == 0 or mode == 1 else 299**2
    assert y.dtype == g.dtype == np.float16 and np.isclose(y.numpy().item(), 8 * (300 - padding) ** 2 / counted, rtol=1e-3)
    np.testing.assert_allclose(g.numpy()[..., : 300 - padding, : 300 - padding], 1000 / counted, rtol=1e-2)


@EACH_BACKEND
def test_unpool_of_float16_holds_what_its_result_holds(name):
    x = np.full((1, 1, 1, 1), 1000, np.float16)
    with backend.use(name):
        y, pull = at.vjp(lambda x: ops.unpool(x, 10), at.array(x))  # 1000 * 100 is more than float16 holds
        (g,) = pull(at.array(np.ones((1, 1, 10, 10), np.float16)))
    assert y.dtype == g.dtype == np.float16 and (y.numpy() == 1000).all() and g.numpy() == 100


def test_the_second_derivative_of_max_pooling_is_that_of_max_pooling():
    x = distinct(3, [(1, 1, 4, 4)], [(-1, 1)])[0]
    twice = at.grad(lambda x: (at.grad(lambda x: (ops.pool(x) ** 3).sum())(x) ** 2).sum() / 2)(x)
    m = naive_pool(x, (2, 2), ((0, 0), (0, 0)), (2, 2), 0)
    first = np.isin(x, m)
    close(twice, np.where(first, 18 * x**3, 0))  # grad: 3 m^2; half its square: 9 m^4 / 2


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (X[0, 0], {}, "max_pool: x (5, 5) must be (N, C, *spatial) with 1 to 3 spatial axes, none of them empty"),
        (X[:, :, :0], {}, "max_pool: x (2, 2, 0, 5) must be"),
        (X, {"window": 6}, "max_pool: the window spans (6, 6), more than x's (5, 5)"),
        (X, {"window": 0}, "max_pool: window must be a whole number of at least 1"),
        (X, {"padding": 2}, "max_pool: padding ((2, 2), (2, 2)) must be smaller than the window (2, 2)"),
        (X, {"stride": -1, "mode": 1}, "mean_pool: stride must be a whole number of at least 1"),
        (X, {"mode": 4}, "pool: mode must be 0 or 3 (maximum), 1 (mean counting padding) or 2 (mean without padding), got 4"),
    ],
)
def test_what_does_not_fit_pool(x, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ops.pool(x, **options)


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (X[0, 0], {}, "unpool: x (5, 5) must be (N, C, *spatial) with 1 to 3 spatial axes, none of them empty"),
        (X, {"window": 0}, "unpool: window must be a whole number of at least 1"),
        (X, {"padding": 2}, "unpool: padding ((2, 2), (2, 2)) must be smaller than the window (2, 2)"),
        (X[..., :1, :1], {"padding": 1}, "unpool: of x's (1, 1) padding ((1, 1), (1, 1)) leaves (0, 0), which is no shape"),
        (X, {"alpha": 0}, "unpool: alpha must not be 0, since it divides"),
        (X, {"alpha": math.nan}, "unpool: alpha must not be 0, since it divides, and be finite; got nan"),
        (X, {"alpha": -math.inf}, "got -inf"),
    ],
)
def test_what_does_not_fit_unpool(x, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ops.unpool(x, **options)


def test_the_transposes_of_pooling_refuse_what_does_not_fit():
    v = np.ones((2, 2, 3, 3))
    for call in (lambda: ops.max_pool_x(v, X, v), lambda: ops.mean_pool_x(v, X.shape)):
        with pytest.raises(ValueError, match=re.escape("v (2, 2, 3, 3) must have the shape (2, 2, 2, 2)")):
            call()
    with pytest.raises(ValueError, match=re.escape("max_pool_at: v (2, 2, 3, 3) must have the shape (2, 2, 5, 5)")):
        ops.max_pool_at(v, X, v)


# ---------------------------------------------------------------- bad input elsewhere


SCORES, A = np.ones((2, 3)), np.ones((2, 3, 4))


def of_complex(*values):
    return pytest.param(*values, marks=pytest.mark.numpy_only("complex numbers"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.bmm(A[0], A[0].T), ValueError, "bmm: a (3, 4) and b (4, 3) don't fit with transA=False and transB=False"),
        (lambda: ops.bmm(A, A), ValueError, "they must be a (..., n, k) and b (..., k, m) with the same batch axes"),
        (lambda: ops.bmm(A, np.ones((3, 4, 3))), ValueError, "bmm: a (2, 3, 4) and b (3, 4, 3) don't fit"),
        (lambda: ops.bmm(A, A, True, True), ValueError, "they must be a (..., k, n) and b (..., m, k)"),
        (lambda: ops.mat(SCORES, 3), ValueError, "mat: dims must be from 0 to the 2 axes of x (2, 3), got 3"),
        (lambda: ops.nll(SCORES, [0, 3]), ValueError, "nll: label 3 is outside the 3 classes, 0 to 2"),
        (lambda: ops.nll(SCORES, [0]), ValueError, "nll: labels (1,) must have the shape of scores (2, 3) less its axis 1, (2,)"),
        (lambda: ops.nll(SCORES, [0.0, 1.0]), TypeError, "nll: labels must be integers from 0 to 2, or negative for masked, got float64"),
        (lambda: ops.nll(SCORES, [0, 1], axis="a"), TypeError, "nll: axis must be a whole number, got str 'a'"),
        (lambda: ops.accuracy(SCORES, [0, 1], axis=None), TypeError, "accuracy: axis must be a whole number, got NoneType"),
        (lambda: ops.mat(SCORES, "a"), TypeError, "mat: dims must be a whole number, got str 'a'"),
        (lambda: ops.dropout(SCORES, "a"), TypeError, "dropout: p must be a real number, got str 'a'"),
        (lambda: ops.dropout(SCORES, seed=1.5, drop=True), TypeError, "dropout: seed must be a whole number, got float 1.5"),
        (lambda: ops.nll(SCORES[0], 1), ValueError, "nll: scores (3,) has no axis 1"),
        (lambda: ops.accuracy(SCORES, [0, 7]), ValueError, "accuracy: label 7 is outside the 3 classes"),
        (lambda: ops.bce(np.ones(2), [0, 2]), ValueError, "bce: labels must be 0 or 1, or a negative number for masked, got 2"),
        (lambda: ops.logistic(np.ones(2), [2, 1]), ValueError, "logistic: labels must be -1 or 1, or 0 for masked, got 2"),
        (lambda: ops.logistic(np.ones(2), [1]), ValueError, "logistic: labels (1,) must have the shape of scores, (2,)"),
        (lambda: ops.bce(np.ones(1), ["a"]), TypeError, "bce: labels must be numbers, 0 or 1, or a negative number for masked, got <U1"),
        (lambda: ops.logistic(np.ones(2), [None, 1]), TypeError, "logistic: labels must be numbers, -1 or 1, or 0 for masked, got object"),
        (lambda: ops.nll(SCORES[:, :0], [-1, -1]), ValueError, "nll: scores (2, 0) have no classes along axis 1"),
        (lambda: ops.accuracy(SCORES[:, :0].T, [0, 0], 0), ValueError, "accuracy: scores (0, 2) have no classes along axis 0"),
        (lambda: ops.nll(lambda x: x, 3), TypeError, "nll: the data of a model must be an iterable of batches (x, labels), got int 3"),
        (lambda: ops.zeroone(lambda x: None, [(1, [0])]), ValueError, "zeroone: scores () has no axis 1"),
        of_complex(lambda: ops.sigm(1j), TypeError, "sigm: it takes real numbers, not complex128"),
        of_complex(lambda: ops.softplus(A + 1j), TypeError, "softplus: it takes real numbers, not complex128"),
        of_complex(lambda: ops.sigm(ops.conv4(A + 1j, A)), TypeError, "sigm: it takes real numbers, not complex128"),
        of_complex(lambda: ops.conv_bias_act(A, A, act="sigm", z=1j * np.ones((2, 2, 1))), TypeError, "sigm: it takes real numbers"),
        (lambda: at.grad(lambda t: ops.nll(np.ones((1, 3)), t))(np.ones(1)), TypeError, "stop_gradient"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


@EACH_BACKEND
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("bad", [math.nan, -math.inf, math.inf])
def test_what_nll_masks_may_be_anything(name, axis, bad):
    scores, labels = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32), np.array([0, -1, 2, -7, 1])
    spoilt, kept = np.where(labels[:, None] < 0, np.float32(bad), scores), labels >= 0
    with backend.use(name):
        for f in (lambda s: ops.nll(s, labels, axis), lambda s: ops.nll(s, labels, axis, average=False)[0]):
            (value, gradient), (expected, clean) = (at.value_and_grad(f)(at.array(s.T if axis == 0 else s)) for s in (spoilt, scores))
            found = gradient.numpy().T if axis == 0 else gradient.numpy()
            assert value.numpy() == expected.numpy() and gradient.dtype == np.float32
            assert not found[~kept].any() and np.array_equal(gradient.numpy(), clean.numpy())
            curved = at.grad(lambda s, f=f: np.sum(at.grad(f)(s) ** 2))(at.array(spoilt.T if axis == 0 else spoilt))
            assert np.isfinite(curved.numpy()).all()


@EACH_BACKEND
def test_sums_of_float16_losses_are_float32(name):
    n = 70_000
    with backend.use(name):
        for f, x, each in ((ops.nll, np.zeros((n, 3)), math.log(3)), (ops.bce, np.zeros(2 * n), math.log(2))):
            x, labels = at.array(x.astype(np.float16)), np.zeros(len(x), int)
            total, count = f(x, labels, average=False)
            assert total.dtype == np.float32 and count == len(x) and abs(float(total) / count - each) < 1e-3
            gradient = at.grad(lambda x, f=f, labels=labels: f(x, labels, average=False)[0])(x)
            assert f(x, labels).dtype == np.float16 == gradient.dtype
