"""Pooling, softmax and batch normalisation by cuDNN against NumPy's kernels: results, what cuDNN is asked, and what is left."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from images import integers, on_device, same

from autotape import math_mode
from autotape.backends.kernels import Geometry
from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("float16", "float32", "float64")] + [BFLOAT16]
LAYOUTS = ["plain", "channels last", "reversed", "strided"]
MODES = ["pedantic", "default", "fast"]
# relative and absolute, of numbers around 1: halves by rounding to them, float32 by some hundred sums
TOLERANCES = {"float64": 1e-12, "float32": 4e-6, "float16": 1.1e-3, "bfloat16": 8e-3}
BY_CUDNN, LEFT = ("cudnn", ""), "cuda"
each_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=str)
each_mode = pytest.mark.parametrize("mode", MODES)
seeds = st.integers(0, 2**32 - 1)


def numbers(shape, dtype="float32", seed=0, mean=0.0):
    return np.random.default_rng(seed).normal(mean, 2.0, shape).astype(dtype)


def close(found, expected, dtype, what="", size=1):
    """The expected numbers, as float64 has them, rounded to dtype; where they cancel, `size` is that of what does."""
    found, tolerance = np.asarray(found), TOLERANCES[np.dtype(dtype).name]
    assert (found.shape, found.dtype) == (expected.shape, dtype), what
    np.testing.assert_allclose(found.astype(float), expected, tolerance, tolerance * size, err_msg=what)


def wide(dtype):
    return np.dtype("float64" if dtype == np.float64 else "float32")


def run(k, call, *args):
    """What the call gives, and what it ran on."""
    k.account()
    return call(*args), k.account()


# ---------------------------------------------------------------- pooling


def window(*sizes, padding=0, stride=1, dilation=1):
    """The same on all axes."""
    n = len(sizes)
    return Geometry(sizes, ((padding, padding),) * n, (stride,) * n, (dilation,) * n)


@st.composite
def problems(draw):
    """A geometry, mostly one that cuDNN takes, and the spatial shape of x."""
    axes = draw(st.integers(1, 3))

    def each(values):
        return tuple(draw(values) for _ in range(axes))

    sizes = each(st.integers(1, 3))
    padding = tuple((n, n) for n in (draw(st.integers(0, size - 1)) for size in sizes))
    if not draw(st.integers(0, 4)):
        padding = each(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    geometry = Geometry(sizes, padding, each(st.integers(1, 3)), each(st.sampled_from([1] * 9 + [2])))
    spatial = each(st.integers(0, 7))
    assume(min(geometry.output(spatial)) >= 0)
    return geometry, spatial


@given(problems(), st.integers(0, 3), st.integers(0, 5), st.sampled_from(FLOATS), st.sampled_from(LAYOUTS), st.sampled_from(MODES), seeds)
def test_pooling_and_the_gradients_of_means(cudnn, problem, n, c, dtype, layout, mode, seed):
    (g, spatial), k, rng = problem, cudnn, np.random.default_rng(seed)
    x = integers(rng, (n, c, *spatial), dtype)
    y = N.max_pool(x.astype("f8"), g)
    dy = integers(rng, y.shape, dtype)
    x_, dy_ = on_device(k, x, layout), on_device(k, dy, layout)
    with math_mode.use(mode):
        same(k.max_pool(x_, g), y.astype(dtype))
        for padded in (True, False):
            close(k.mean_pool(x_, g, padded), N.mean_pool(x.astype("f8"), g, padded), dtype)
            dx = k.mean_pool_x(dy_, x.shape, g, padded)
            assert (dx.shape, dx.dtype) == (x.shape, dtype)
            expected = N.mean_pool_x(dy.astype("f8"), x.shape, g, padded)
            np.testing.assert_allclose(np.asarray(dx, float), expected, 0, 6 * math.prod(g.window) * ml_dtypes.finfo(dtype).eps)


def test_gradients_of_maxima_go_to_the_first_of_equals(cudnn):
    k, g = cudnn, window(2, 2)
    x = np.zeros((1, 1, 3, 3), "f4")
    y = k.max_pool(k.adopt(x), g)
    dy = np.arange(1, 5, dtype="f4").reshape(1, 1, 2, 2)
    same(k.max_pool_x(k.adopt(dy), k.adopt(x), y, g), N.max_pool_x(dy, x, np.asarray(y), g))
    same(k.max_pool_at(k.adopt(x + np.arange(9, dtype="f4").reshape(3, 3)), k.adopt(x), y, g), dy - 1 + dy // 3)


@each_mode
@each_dtype
def test_pooling_keeps_nan(cudnn, dtype, mode):
    k, g, x = cudnn, window(2, 2), np.arange(9.0).reshape(1, 1, 3, 3).astype(dtype)
    x[0, 0, 1, 2] = np.nan
    with math_mode.use(mode):
        for y in (k.max_pool(k.adopt(x), g), k.mean_pool(k.adopt(x), g, True)):
            np.testing.assert_array_equal(np.isnan(np.asarray(y, float))[0, 0], [[False, True]] * 2)
        dx = k.mean_pool_x(k.adopt(x), (1, 1, 4, 4), g, True)
    np.testing.assert_array_equal(np.argwhere(np.isnan(np.asarray(dx, float)[0, 0])), [[1, 2], [1, 3], [2, 2], [2, 3]])


def test_a_window_of_minus_infinity(cudnn):
    """Where cuDNN's maximum may be the least number, pedantic mode has the contract's."""
    k, g, x = cudnn, window(2), np.full((1, 1, 2), -np.inf, "f4")
    assert k.max_pool(k.adopt(x), g).item() <= np.finfo("f4").min
    with math_mode.use("pedantic"):
        y, account = run(k, k.max_pool, k.adopt(x), g)
    assert y.item() == -np.inf and account == (LEFT, "pedantic: windows of -inf")


@each_dtype
def test_means_of_half_floats_add_up_in_float32(cudnn, dtype):
    assert cudnn.mean_pool(cudnn.adopt(np.full((1, 1, 4000), 100, dtype)), window(4000), True).item() == 100


@pytest.mark.parametrize(
    ("shape", "dtype", "geometry", "why"),
    [
        ((1, 2, 5, 5), "f4", window(2, 2, dilation=2), "dilation"),
        ((1, 2, 5, 5), "f4", window(2, 2, padding=2), "padding as wide as the window"),
        ((1, 2, 5), "f4", Geometry((2,), ((0, 1),), (1,), (1,)), "padding that differs before and after, or is negative"),
        ((0, 2, 5), "f4", window(2), "empty"),
        ((1, 2, 1), "f4", window(2), "empty"),
        ((1, 2, 5), "i4", window(2), "int32"),
        ((1, 2, 5), "?", window(2), "bool"),
    ],
    ids=str,
)
def test_what_pooling_leaves(cudnn, double, shape, dtype, geometry, why):
    k, x = cudnn, integers(np.random.default_rng(0), shape, dtype)
    dy = integers(np.random.default_rng(1), N.max_pool(x, geometry).shape, dtype)
    cases = [("max_pool", (x, geometry)), ("mean_pool", (x, geometry, True)), ("mean_pool_x", (dy, shape, geometry, False))]
    for name, (a, *options) in cases:
        y, account = run(k, getattr(k, name), k.adopt(a), *options)
        same(y, getattr(N, name)(a, *options))
        assert account == (LEFT, why)
    assert double.calls() == []


def test_large_windows_with_many_results_are_left(cudnn, monkeypatch):
    from autotape.backends.cudnn_backend import pooling

    monkeypatch.setattr(pooling, "_RESULTS", 3)
    monkeypatch.setattr(pooling, "_PLACES", 2)
    x = cudnn.adopt(np.ones((1, 1, 6), "f4"))
    for size, account in ((3, (LEFT, "a large window with more than 2^23 results")), (4, BY_CUDNN), (2, BY_CUDNN)):
        assert run(cudnn, cudnn.mean_pool, x, window(size), True)[1] == account


@pytest.mark.parametrize("spatial", [(7,), (6, 7), (5, 6, 7)])
@pytest.mark.parametrize("layout", ["plain", "channels last"])
def test_what_cudnn_is_asked_to_pool(cudnn, double, spatial, layout):
    from autotape.backends.cudnn_backend.descriptors import is_last

    k, g = cudnn, window(*(3,) * len(spatial), padding=1, stride=2)
    x = on_device(k, numbers((2, 5, *spatial)), layout)
    y = k.max_pool(x, g)
    means = [k.mean_pool(x, g, padded) for padded in (False, True)]
    dx = k.mean_pool_x(means[0], x.shape, g, True)
    assert k.account() == BY_CUDNN
    calls = double.calls()
    assert [c["name"] for c in calls] == ["cudnnPoolingForward"] * 3 + ["cudnnPoolingBackward"]
    assert [c["poolingDesc"].mode for c in calls] == [3, 2, 1, 1]
    lead = (1,) * (2 - len(spatial))
    for c in calls:
        assert c["poolingDesc"][1:] == (True, lead + g.window, (0,) * len(lead) + (1,) * len(spatial), lead + g.stride)
        assert c["xDesc"].shape == (2, 5, *lead, *spatial)
        assert (c["xDesc"].strides[1] == 1) == (layout == "channels last")
    assert {is_last(a) for a in (y, *means, dx)} == {layout == "channels last"}


def test_a_window_that_cannot_be_described_is_left_and_leaks_nothing(cudnn, double):
    x = cudnn.adopt(numbers((1, 2, 9, 11)))
    before = double.living()
    double.fail("cudnnSetPoolingNdDescriptor", "BAD_PARAM")
    cudnn.mean_pool(x, window(2, 3), True)
    assert "cuDNN can't describe it" in cudnn.account()[1]
    assert double.living() == before
    cudnn.mean_pool(x, window(2, 3), True)
    assert cudnn.account() == BY_CUDNN


def test_shapes_that_pooling_refuses(cudnn):
    k, g = cudnn, window(5)
    x, y, short, flat = (k.adopt(np.ones(shape)) for shape in [(1, 1, 6), (1, 1, 2), (1, 1, 1), (1, 6)])
    for call, message in [
        (lambda: k.max_pool(short, g), "window .* doesn't fit x"),
        (lambda: k.mean_pool(short, g, True), "window .* doesn't fit x"),
        (lambda: k.max_pool(flat, g), "x .* must be .* 1 spatial axes"),
        (lambda: k.max_pool_x(y, x, short, g), "y has shape"),
        (lambda: k.mean_pool_x(short, x.shape, g, True), "dy has shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


# ---------------------------------------------------------------- softmax


@given(st.data())
def test_softmaxes_over_any_axes_of_any_layout(cudnn, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 5) | st.just(1), max_size=4)))
    axis = data.draw(st.none() | st.sets(st.integers(0, max(len(shape) - 1, 0)), max_size=len(shape)).map(tuple)) if shape else None
    layout = data.draw(st.sampled_from(LAYOUTS if len(shape) > 1 else ["plain"]))
    dtype, mode = data.draw(st.sampled_from(FLOATS)), data.draw(st.sampled_from(MODES))
    x = numbers(shape, dtype)
    with math_mode.use(mode):
        for name in ("softmax", "logsoftmax"):
            close(getattr(cudnn, name)(on_device(cudnn, x, layout), axis), getattr(N, name)(x.astype(float), axis), dtype, name)


SPECIAL = np.array([[-np.inf, 0, 1], [-np.inf, -np.inf, 2], [-np.inf] * 3, [np.nan, 0, 1], [np.nan] * 3, [3e38, -3e38, 3e38]], "f4")


@each_mode
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["softmax", "logsoftmax"])
def test_softmaxes_of_minus_infinity_and_nan(cudnn, name, axis, mode):
    x = np.ascontiguousarray(SPECIAL if axis else SPECIAL.T)
    with math_mode.use(mode):
        np.testing.assert_allclose(getattr(cudnn, name)(cudnn.adopt(x), axis), getattr(N, name)(x, axis), 2e-6)


def test_pedantic_softmaxes_of_infinity_are_numpys(cudnn):
    x = np.array([[np.inf, 0, 1]], "f4")
    with math_mode.use("pedantic"):
        y, account = run(cudnn, cudnn.softmax, cudnn.adopt(x), 1)
    np.testing.assert_array_equal(y, [[np.nan, 0, 0]])
    assert account == (LEFT, "pedantic: rows with +inf")


def test_softmaxes_do_not_overflow(cudnn):
    x = np.array([[1e4, 1e4 - 1], [-1e4, -1e4 - 1]])
    np.testing.assert_allclose(cudnn.softmax(cudnn.adopt(x), 1), np.exp([[0, -1]] * 2) / (1 + np.exp(-1)), 1e-12)


@pytest.mark.parametrize(
    ("axis", "layout", "planes"),
    [(1, "plain", (2, 3, 20, 1)), (-1, "plain", (24, 5, 1, 1)), ((2, 3), "plain", (6, 20, 1, 1)), (None, "plain", (1, 120, 1, 1)),
     (1, "channels last", (40, 3, 1, 1)), ((2, 3), "channels last", (2, 20, 3, 1)), ((0, 3), "plain", (12, 10, 1, 1))],
)  # fmt: skip
@pytest.mark.parametrize("name, algorithm", [("softmax", 1), ("logsoftmax", 2)])
def test_what_cudnn_is_asked_of_softmaxes(cudnn, double, name, algorithm, axis, layout, planes):
    x = on_device(cudnn, numbers((2, 3, 4, 5)), layout)
    getattr(cudnn, name)(x, axis)
    (call,) = double.calls()
    assert (call["name"], call["algo"], call["mode"]) == ("cudnnSoftmaxForward", algorithm, 1)
    assert call["xDesc"] == call["yDesc"] == (np.float32, planes, tuple(math.prod(planes[i + 1 :]) for i in range(4)))
    assert cudnn.account() == BY_CUDNN


def test_what_softmaxes_leave(cudnn, double):
    from autotape.backends.pycuda_backend.array import view

    k = cudnn
    apart = k.adopt(numbers((7,)))
    cases = [(k.adopt(np.arange(3)), "int64"), (k.adopt(np.zeros((0, 2))), "empty"), (k.adopt(np.array([True])), "bool")]
    cases.append((view(apart, (6,), apart.strides, 4), "memory at no multiple of 16 bytes"))
    for name in ("softmax", "logsoftmax"):
        for x, why in cases:
            y, account = run(k, getattr(k, name), x, -1)
            np.testing.assert_allclose(y, getattr(N, name)(np.asarray(x), -1), 1e-5)
            assert account == (LEFT, why)
    assert run(k, k.logsumexp, apart, None, False)[1] == (LEFT, "")
    assert double.calls() == []


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, -2)], ids=str)
@pytest.mark.parametrize("name", ["softmax", "logsoftmax"])
def test_softmaxes_refuse_an_axis(cudnn, name, axis):
    with pytest.raises(ValueError, match=rf"{name}: axis .* of an array of shape \(2, 3\): distinct axes from -2 to 1 are needed"):
        getattr(cudnn, name)(cudnn.adopt(np.ones((2, 3))), axis)


# ---------------------------------------------------------------- batchnorm


def normalised(k, x, layout="plain", learnt=True, eps=1e-3):
    """batchnorm and its cotangents of x, against those in float64; gives what both ran on."""
    dtype, sums, n = x.dtype, wide(x.dtype), x.shape[1]
    vectors = (numbers(n, dtype, 1), numbers(n, dtype, 2)) if learnt else (None, None)
    scale, bias = (None if v is None else k.adopt(v) for v in vectors)
    exact, *vectors = (None if v is None else v.astype(float) for v in (x, *vectors))
    x_, dy = on_device(k, x, layout), numbers(x.shape, dtype, 3)
    y, mean, var = N.batchnorm(exact, *vectors, eps)
    found, forward = run(k, k.batchnorm, x_, scale, bias, eps)
    for which, v, e, t in zip(("y", "mean", "var"), found, (y, mean, var), (dtype, sums, sums), strict=True):
        close(v, e, t, which)
    mean, inv = mean.astype(sums), ((var + eps) ** -0.5).astype(sums)
    found, backward = run(k, k.batchnorm_x, on_device(k, dy, layout), x_, k.adopt(mean), k.adopt(inv), scale)
    expected = N.batchnorm_x(dy.astype(float), exact, mean.astype(float), inv.astype(float), vectors[0])
    for which, v, e in zip(("dx", "dscale", "dbias"), found, expected, strict=True):
        close(v, e, dtype, which, max(1, np.abs(e).max(initial=0)))
    return forward, backward


@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=5).map(tuple),
    st.sampled_from(LAYOUTS),
    st.sampled_from(FLOATS),
    st.booleans(),
    st.sampled_from(MODES),
)
def test_batchnorm_of_any_layout(cudnn, shape, layout, dtype, learnt, mode):
    with math_mode.use(mode):
        accounts = normalised(cudnn, numbers(shape, dtype), layout, learnt)
    one = math.prod(shape) == shape[1]
    by_cudnn = ("cudnn, persistent" if mode == "fast" else "cudnn", "")
    assert accounts == ((LEFT, "one element a channel") if one else by_cudnn,) * 2


@each_mode
@each_dtype
@pytest.mark.parametrize("shape", [(40, 3), (4, 20, 33), (2, 3, 33, 31), (3, 8, 5, 6, 7)], ids=str)
@pytest.mark.parametrize("layout", ["plain", "channels last"])
def test_batchnorm(cudnn, shape, layout, dtype, mode):
    with math_mode.use(mode):
        normalised(cudnn, numbers(shape, dtype), layout)


def test_a_mean_far_from_zero_takes_no_digits_of_the_variance(cudnn):
    x = numbers((4, 2, 50, 60), mean=2000)
    _, mean, var = cudnn.batchnorm(cudnn.adopt(x), None, None, 1e-5)
    _, *expected = N.batchnorm(x.astype(float), None, None, 1e-5)
    np.testing.assert_allclose(mean, expected[0], 1e-6)
    np.testing.assert_allclose(var, expected[1], 1e-5)


def test_a_constant_has_no_variance(cudnn):
    y, _, var = cudnn.batchnorm(cudnn.adopt(np.full((30, 4, 5), 0.1)), None, None, 1e-3)
    assert np.abs(np.asarray(y)).max() < 1e-14 and np.asarray(var).max() < 1e-30


def test_epsilon_may_be_zero(cudnn):
    assert normalised(cudnn, numbers((8, 3, 5)), eps=0.0) == (BY_CUDNN, BY_CUDNN)


def test_infinities_and_nan_stay_in_their_channel(cudnn):
    x = numbers((5, 4, 7))
    x[0, :3, 2] = np.nan, np.inf, -np.inf
    found, expected = cudnn.batchnorm(cudnn.adopt(x), None, None, 1e-3), N.batchnorm(x, None, None, 1e-3)
    found += cudnn.batchnorm_x(cudnn.adopt(np.ones_like(x)), cudnn.adopt(x), *found[1:], None)
    expected += N.batchnorm_x(np.ones_like(x), x, *expected[1:], None)
    for i in (0, 3):
        np.testing.assert_allclose(found[i], expected[i], 1e-5, 1e-5, err_msg=f"result {i}")
    assert np.isfinite(np.asarray(found[1])[3]) and not np.isfinite(np.asarray(found[1])[:3]).any()


def test_dtypes_are_promoted_as_numpy_does(cudnn):
    k, x, vector = cudnn, np.arange(12.0).reshape(4, 3), np.ones(3)
    for types in (("float16", "float32"), ("float32", "float64"), ("int64", "int64"), ("bool", "float32"), ("float16", "float16")):
        a, s, b = x.astype(types[0]), vector.astype(types[1]), vector.astype(types[0])
        expected = N.batchnorm(a, s, b, 1e-3)
        found = k.batchnorm(k.adopt(a), k.adopt(s), k.adopt(b), 1e-3)
        assert [v.dtype for v in found] == [v.dtype for v in expected], types
        g = x.astype(types[1])
        expected = N.batchnorm_x(g, a, *expected[1:], None)
        found = k.batchnorm_x(k.adopt(g), k.adopt(a), *found[1:], None)
        assert [v.dtype for v in found] == [v.dtype for v in expected], types
        assert k.account() == BY_CUDNN


@pytest.mark.parametrize(
    ("shape", "eps", "why"),
    [
        ((0, 3), 1.0, "empty"),
        ((2, 0, 3), 1.0, "empty"),
        ((1, 3), 1.0, "one element a channel"),
        ((1, 3, 1, 1), 1.0, "one element a channel"),
        ((2, 2, 1, 2, 1, 2), 1.0, "more than three spatial axes"),
        ((4, 3), -1e-9, "an epsilon below 0"),
    ],
    ids=str,
)
def test_what_batchnorm_leaves(cudnn, double, shape, eps, why):
    k, x = cudnn, numbers(shape, "float64")
    found, account = run(k, k.batchnorm, k.adopt(x), None, None, eps)
    expected, accounts = N.batchnorm(x, None, None, eps), {account}
    if eps > 0:
        cotangents, account = run(k, k.batchnorm_x, k.adopt(x), k.adopt(x), *found[1:], None)
        found, expected = found + cotangents, expected + N.batchnorm_x(x, x, *expected[1:], None)
    assert accounts | {account} == {(LEFT, why)}
    for v, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(v, e, 1e-12, 1e-12)
    assert double.calls() == []


@pytest.mark.parametrize(("mode", "number"), [("pedantic", 1), ("default", 1), ("fast", 2)])
@pytest.mark.parametrize("layout", ["plain", "channels last"])
def test_what_cudnn_is_asked_to_normalise(cudnn, double, layout, mode, number):
    k, x = cudnn, on_device(cudnn, numbers((2, 3, 5), "float16"), layout)
    with math_mode.use(mode):
        _, mean, var = k.batchnorm(x, None, None, 0.25)
        k.batchnorm_x(x, x, mean, var, None)
    forward, backward = double.calls()
    assert [c["name"] for c in (forward, backward)] == ["cudnnBatchNormalizationForwardTraining", "cudnnBatchNormalizationBackward"]
    assert (forward["exponentialAverageFactor"], forward["epsilon"]) == (0.9, 0.25)
    strides = (15, 1, 15, 3) if layout == "channels last" else (15, 5, 5, 1)
    for c in (forward, backward):
        assert c["mode"] == number and c["xDesc"] == (np.float16, (2, 3, 1, 5), strides)
    for c, name in ((forward, "bnScaleBiasMeanVarDesc"), (backward, "dBnScaleBiasDesc")):
        assert c[name][:2] == (np.float32, (1, 3, 1, 1))


def test_shapes_that_batchnorm_refuses(cudnn):
    one = lambda *shape: cudnn.adopt(np.ones(shape))  # noqa: E731
    wrong = [
        ("batchnorm", (one(3), None, None, 1e-3), r"batchnorm: x has shape \(3,\), and \(N, C, \*spatial\) is needed"),
        ("batchnorm", (one(2, 3), one(2), None, 1e-3), r"batchnorm: scale has shape \(2,\) where \(3,\) is needed"),
        ("batchnorm", (one(2, 3), None, one(1, 3), 1e-3), r"batchnorm: bias has shape \(1, 3\) where \(3,\) is needed"),
        ("batchnorm_x", (one(2, 3), one(2, 3), one(3), one(2), None), r"batchnorm_x: inv has shape \(2,\)"),
        ("batchnorm_x", (one(3), one(2, 3), one(3), one(3), None), r"batchnorm_x: dy has shape \(3,\) where \(2, 3\) is needed"),
    ]
    for name, args, message in wrong:
        with pytest.raises(ValueError, match=message):
            getattr(cudnn, name)(*args)


# ---------------------------------------------------------------- all of them


# a kernel for each of cuDNN's calls
CALLS = {
    "cudnnPoolingForward": lambda k, x, v: k.max_pool(x, window(2, 2)),
    "cudnnPoolingBackward": lambda k, x, v: k.mean_pool_x(x, (2, 3, 5, 5), window(2, 2), True),
    "cudnnSoftmaxForward": lambda k, x, v: k.softmax(x, 1),
    "cudnnBatchNormalizationForwardTraining": lambda k, x, v: k.batchnorm(x, None, v, 1e-3),
    "cudnnBatchNormalizationBackward": lambda k, x, v: k.batchnorm_x(x, x, v, v, None),
}
each_call = pytest.mark.parametrize("name", CALLS)


def results(k, name):
    """Of the kernel that makes this call, on the host."""
    found = CALLS[name](k, k.adopt(numbers((2, 3, 4, 4))), k.adopt(np.ones(3, "f4")))
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]


@each_call
def test_what_cudnn_refuses_is_left_and_leaks_nothing(cudnn, double, name):
    expected, before = results(cudnn, name), double.living()
    double.fail(name, "NOT_SUPPORTED")
    found, (algorithm, why) = run(cudnn, results, cudnn, name)
    assert algorithm == LEFT and "told to fail" in why and double.living() == before
    for v, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(v, e, 1e-5, 1e-5)


@each_call
def test_failures_of_cudnn_are_told(cudnn, double, name):
    from autotape.backends.pycuda_backend.driver import DeviceError

    double.fail(name)
    with pytest.raises(DeviceError, match=r"by cuDNN: cudnnExecutionFailed: .*told to fail"):
        results(cudnn, name)
    assert run(cudnn, results, cudnn, name)[1] == BY_CUDNN


@each_call
def test_signatures_are_described_once(cudnn, double, name):
    results(cudnn, name)
    before = double.living()
    results(cudnn, name)
    assert double.living() == before


@each_call
def test_work_goes_to_the_stream_of_the_thread(cudnn, double, name):
    import pycuda.driver as cuda

    expected = results(cudnn, name)
    with cudnn.on_stream(cuda.Stream()) as stream:
        found = results(cudnn, name)
    assert [call["handle"] for call in double.calls(name)] == [0, stream.handle]
    for v, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(v, e)


@each_mode
@each_call
def test_the_same_bits_every_time(cudnn, name, mode):
    with math_mode.use(mode):
        for v, again in zip(results(cudnn, name), results(cudnn, name), strict=True):
            assert v.tobytes() == again.tobytes()
