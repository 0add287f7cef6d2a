"""The onednn backend beside the numpy backend: values in every layout, dtype and math mode, NaN, ties, threads and forks."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotape import backend, math_mode
from autotape.backends.kernels import Geometry
from autotape.backends.numpy_backend.convolution import finished

if why := backend.available()["onednn"]:
    pytest.skip(f"oneDNN can't be loaded: {why}", allow_module_level=True)

from autotape.backends.onednn_backend import binding, pooling, primitives

pytestmark = pytest.mark.numpy_only("oneDNN's kernels")

TABLE, N = backend.load("onednn"), backend.load("numpy")
MODES = ("pedantic", "default", "fast")
ACTIVATIONS = ("identity", "relu", "sigm", "tanh", "elu", "selu")

some, few = (settings(max_examples=settings().max_examples // n) for n in (2, 4))
seeds, modes = st.integers(0, 2**32 - 1), st.sampled_from(MODES)


class Checked:
    """The table of kernels; each call is checked for what the contract promises of all of them."""

    def __getattr__(self, name):
        kernel = getattr(TABLE, name)

        def call(*arguments):
            given = [a for a in arguments if isinstance(a, np.ndarray)]
            before = [a.tobytes() for a in given]
            result = kernel(*arguments)
            for y in result if isinstance(result, tuple) else (result,):
                assert type(y) is np.ndarray and y.flags.writeable, f"{name} returned {type(y)}"
                assert not any(np.shares_memory(y, a) for a in given), f"{name} returned a view"
            assert [a.tobytes() for a in given] == before, f"{name} changed an argument"
            return result

        return call


K = Checked()


def laid_out(x, layout):
    """x as it is, but with other strides."""
    if layout == "channels last":
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if x.ndim > 1 else x
    elif layout == "reversed":
        x = x[(slice(None, None, -1),) * x.ndim].copy()[(slice(None, None, -1),) * x.ndim]
    elif layout == "batch last":
        x = np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0)
    elif layout == "strided":
        x = np.repeat(x, 2, -1)[..., ::2]
    elif layout == "records":
        records = np.zeros(x.shape, [("odd", np.int8), ("x", x.dtype)])
        records["x"], x = x, records["x"]
    elif layout == "read-only":
        x = x.copy()
        x.setflags(write=False)
    return x


layouts = st.sampled_from(["plain", "channels last", "channels last", "reversed", "batch last", "strided", "records", "read-only"])


def normal(rng, shape, layout="plain"):
    return laid_out(rng.standard_normal(shape).astype(np.float32), layout)


def special(rng, shape, layout="plain", least=0.0):
    """Small whole numbers, so that there are ties and sums are exact, and now and then NaN, an infinity, or `least`."""
    x = rng.integers(-2, 3, shape).astype(np.float32)
    odd = rng.choice(rng.choice(np.float32([np.nan, np.inf, -np.inf, -0.0, least]), rng.integers(1, 5)), shape)
    return laid_out(np.where(rng.random(shape) < rng.choice([0, 0, 0.05, 0.5, 1]), odd, x), layout)


def wide(*arguments):
    """The same arguments with arrays of float64."""
    return [a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in arguments]


def close(actual, expected, rtol=1e-5):
    """Float32 that is within rtol of the largest element."""
    assert actual.dtype == np.float32 and actual.shape == expected.shape
    largest = np.abs(expected).max(initial=1, where=np.isfinite(expected))
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * largest)


def same(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


def in_a_process_of_its_own(script, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", script], env=environment, capture_output=True, text=True, timeout=60)


@st.composite
def geometries(draw, dilations=(1, 1, 2), widest=3):
    """A window's way, and a spatial shape into which it goes."""
    axes = draw(st.integers(1, 3))

    def per_axis(values):
        return tuple(draw(st.tuples(*[values] * axes)))

    g = Geometry(
        window=per_axis(st.integers(1, widest)),
        padding=per_axis(st.tuples(st.integers(0, 2), st.integers(0, 2))),
        stride=per_axis(st.integers(1, 3)),
        dilation=per_axis(st.sampled_from(dilations)),
    )
    spatial = per_axis(st.integers(1, 7))
    assume(min(g.output(spatial)) >= 1)
    return g, spatial


@st.composite
def convolutions(draw):
    """The shapes of w and x, and a geometry."""
    g, spatial = draw(geometries())
    group, wide_in, wide_out = draw(st.sampled_from([(1, 1, 1), (1, 3, 4), (1, 16, 8), (2, 2, 3), (8, 1, 1), (4, 1, 2), (1, 5, 1)]))
    w, x = (group * wide_out, wide_in, *g.window), (draw(st.integers(1, 3)), group * wide_in, *spatial)
    return w, x, g._replace(group=group, flip=draw(st.booleans()))


# ---------------------------------------------------------------- convolution


@pytest.mark.parametrize("mode", MODES)
@some
@given(convolutions(), layouts, layouts, st.sampled_from([1.0, 0.5, -2.0]), seeds)
def test_convolution_and_its_transposes_are_numpys(mode, case, layout, other, alpha, seed):
    (w_shape, x_shape, g), rng = case, np.random.default_rng(seed)
    w, x = normal(rng, w_shape, other), normal(rng, x_shape, layout)
    dy = normal(rng, (x_shape[0], w_shape[0], *g.output(x_shape[2:])), other)
    with math_mode.use(mode):
        close(K.conv(w, x, g, alpha), N.conv(*wide(w, x, g, alpha)))
        close(K.conv_x(w, dy, x_shape, g, alpha), N.conv_x(*wide(w, dy, x_shape, g, alpha)))
        close(K.conv_w(x, dy, w_shape, g, alpha), N.conv_w(*wide(x, dy, w_shape, g, alpha)))


@st.composite
def fused(draw):
    """The arguments of conv_bias_act."""
    (w_shape, x_shape, g), rng = draw(convolutions()), np.random.default_rng(draw(seeds))
    w, x = normal(rng, w_shape), normal(rng, x_shape, draw(layouts))
    y_shape = (x_shape[0], w_shape[0], *g.output(x_shape[2:]))
    b = normal(rng, (1, w_shape[0], *(1,) * len(g.window))[draw(st.integers(0, 1)) :]) if draw(st.booleans()) else None
    z = normal(rng, y_shape, draw(layouts)) if draw(st.booleans()) else None
    return w, x, b, z, draw(st.sampled_from(ACTIVATIONS)), g, draw(st.sampled_from([1.0, 0.5])), draw(st.sampled_from([1.0, -0.5]))


@pytest.mark.parametrize("mode", MODES)
@given(fused())
def test_convolution_with_bias_and_activation_is_numpys(mode, arguments):
    with math_mode.use(mode):
        close(K.conv_bias_act(*arguments), N.conv_bias_act(*wide(*arguments)))


@some
@given(fused())
def test_pedantic_fusion_has_the_bits_of_the_operators(arguments):
    w, x, b, z, activation, g, alpha, beta = arguments
    with math_mode.use("pedantic"):
        plain = finished(K.conv(w, x, g, alpha), b, z, activation, beta)
        assert K.conv_bias_act(*arguments).tobytes() == plain.tobytes()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_fused_activation_keeps_nan(activation, mode):
    w, x = np.ones((8, 8, 1, 1), np.float32), np.ones((1, 8, 2, 2), np.float32)
    x[0, 3, 0, 1] = np.nan
    with math_mode.use(mode):
        y = K.conv_bias_act(w, x, w[0, :, 0].reshape(8, 1, 1), None, activation, Geometry((1, 1), ((0, 0),) * 2, (1, 1), (1, 1)), 1.0, 1.0)
    assert np.isnan(y[:, :, 0, 1]).all() and np.isnan(y).sum() == 8


OLD = """
import numpy as np
from autotape import backend
from autotape.backends.kernels import Geometry
K, N, rng = backend.load("onednn"), backend.load("numpy"), np.random.default_rng(0)
for c, k, window in (16, 16, (7,)), (16, 16, (3, 3)), (8, 8, (1, 1)), (1, 16, (3, 3)):
    g, axes = Geometry(window, ((1, 1),) * len(window), (1,) * len(window), (1,) * len(window)), (1,) * len(window)
    w, x = (rng.standard_normal(s).astype(np.float32) for s in ((k, c, *window), (2, c, *(13,) * len(window))))
    x[0, 0] = np.nan
    z = np.ones_like(N.conv(w, x, g, 1.0))
    for at in range(4):  # where the bias begins
        b = np.arange(k + 4, dtype=np.float32)[at:][:k].reshape(k, *axes)
        for act in "identity", "relu", "sigm", "tanh", "elu", "selu":
            for residual in None, z:
                arguments = w, x, b, residual, act, g, 1.0, 1.0
                np.testing.assert_allclose(K.conv_bias_act(*arguments), N.conv_bias_act(*arguments), 1e-4, 1e-4)
"""


@pytest.mark.parametrize("instructions", ["SSE41", "AVX", "AVX2"])
def test_old_instructions_take_a_bias_anywhere_and_keep_nan(instructions):
    done = in_a_process_of_its_own(OLD, ONEDNN_MAX_CPU_ISA=instructions)
    assert done.returncode == 0, done.stderr or f"exit status {done.returncode}"


@pytest.mark.parametrize("mode", MODES)
def test_a_bias_or_residual_of_another_shape_is_added_as_numpy_adds_it(mode):
    rng, g = np.random.default_rng(0), Geometry((3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
    w, x, b, z = (normal(rng, s) for s in ((16, 16, 3, 3), (1, 16, 16, 16), (1, 1, 1), (16, 16)))
    a, v = normal(rng, (128, 128)), normal(rng, (128, 1))
    with math_mode.use(mode):
        for bias, residual in (b, None), (None, z), (z, None):
            close(K.conv_bias_act(w, x, bias, residual, "relu", g, 1.0, 1.0), N.conv_bias_act(w, x, bias, residual, "relu", g, 1.0, 1.0))
        for bias, residual in (b[0], None), (v, None), (None, v), (None, v.T):
            close(K.matmul_bias_act(a, a, bias, residual, "relu"), N.matmul_bias_act(a, a, bias, residual, "relu"))
        for wrong in (15, 1, 1), (17, 1, 1):
            with pytest.raises(ValueError, match="broadcast"):
                K.conv_bias_act(w, x, np.ones(wrong, np.float32), None, "relu", g, 1.0, 1.0)


# ---------------------------------------------------------------- products


@pytest.mark.parametrize("mode", MODES)
@few
@given(layouts, layouts, seeds)
def test_matmul_is_numpys_in_any_layout(mode, layout, other, seed):
    rng = np.random.default_rng(seed)
    a, b, stack = normal(rng, (64, 96), layout), normal(rng, (96, 64), other), normal(rng, (2, 64, 96), layout)
    with math_mode.use(mode):
        for left in (a, b.T, stack):
            close(K.matmul(left, b), N.matmul(*wide(left, b)))
            close(K.matmul_bias_act(left, b, b[0], None, "tanh"), N.matmul_bias_act(*wide(left, b, b[0]), None, "tanh"))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3, 0), (2, 0, 3), (0, 3, 0)])
def test_products_without_terms_or_rows_are_numpys(shape):
    a, b = np.ones(shape, np.float32), np.ones((shape[-1], 5), np.float32)
    same(K.matmul(a, b), np.matmul(a, b))
    same(K.matmul_bias_act(a, b, np.full(5, 2, np.float32), None, "relu"), np.matmul(a, b) + np.float32(2))


# ---------------------------------------------------------------- pooling


def pooled(g, x_shape):
    return (*x_shape[:2], *g.output(x_shape[2:]))


pools = st.tuples(geometries(widest=4), st.integers(1, 3), st.sampled_from([1, 2, 3, 8, 16, 20]))


@given(pools, layouts, layouts, modes, st.booleans(), seeds)
def test_max_pool_is_numpys_with_nan_and_the_first_of_equals(case, layout, other, mode, remembered, seed):
    ((g, spatial), n, c), rng = case, np.random.default_rng(seed)
    x, dy = special(rng, (n, c, *spatial), layout, np.finfo(np.float32).min), special(rng, pooled(g, (n, c, *spatial)), other)
    with math_mode.use(mode), np.errstate(invalid="ignore"):  # of inf - inf
        y = K.max_pool(x, g)
        same(y, N.max_pool(x, g))
        same(K.max_pool_x(dy, x, y if remembered else y.copy(), g), N.max_pool_x(dy, x, y, g))


def test_max_pool_x_uses_what_it_remembers_of_the_same_x_alone():
    g, x = Geometry((2, 2), ((0, 0),) * 2, (2, 2), (1, 1)), np.arange(8 * 4 * 4, dtype=np.float32).reshape(1, 8, 4, 4)
    y, other = K.max_pool(x, g), x.reshape(1, 8, 4, 2, 2)[..., ::-1].reshape(x.shape)  # of the same maxima
    same(K.max_pool_x(y, other, y, g), N.max_pool_x(y, other, y, g))


def test_what_max_pool_remembers_goes_with_its_result():
    g, x = Geometry((2,), ((0, 0),), (2,), (1,)), np.ones((1, 8, 4), np.float32)
    gc.collect()
    before = len(pooling._firsts.of)
    y = TABLE.max_pool(x, g)
    assert len(pooling._firsts.of) == before + 1
    thread = threading.Thread(target=lambda held: held.clear(), args=([y],))
    del y
    thread.start()
    thread.join()
    del thread
    gc.collect()
    assert len(pooling._firsts.of) == before


@pytest.mark.parametrize("count_padding", [False, True])
@given(pools, layouts, layouts, modes, st.booleans(), seeds)
def test_mean_pool_is_numpys(count_padding, case, layout, other, mode, odd, seed):
    ((g, spatial), n, c), rng = case, np.random.default_rng(seed)
    x, dy = ((special if odd else normal)(rng, s, at) for s, at in (((n, c, *spatial), layout), (pooled(g, (n, c, *spatial)), other)))
    with math_mode.use(mode), np.errstate(invalid="ignore"):
        close(K.mean_pool(x, g, count_padding), N.mean_pool(x, g, count_padding))
        close(K.mean_pool_x(dy, x.shape, g, count_padding), N.mean_pool_x(dy, x.shape, g, count_padding))


# ---------------------------------------------------------------- normalisation

channels = st.tuples(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from([1, 2, 3, 8, 16, 20]))


@pytest.mark.parametrize("mode", MODES)
@given(channels, layouts, layouts, st.booleans(), st.booleans(), st.sampled_from([1e-5, 0.1]), seeds)
def test_batchnorm_and_its_transpose_are_numpys(mode, sizes, layout, other, with_scale, with_bias, eps, seed):
    ((n, *spatial), c), rng = sizes, np.random.default_rng(seed)
    x, dy = normal(rng, (n, c, *spatial), layout) + np.float32(2), normal(rng, (n, c, *spatial), other)
    scale, bias = (normal(rng, 2 * c)[::2] if present else None for present in (with_scale, with_bias))
    with math_mode.use(mode):
        y, mean, var = K.batchnorm(x, scale, bias, eps)
        inv = 1 / np.sqrt(var + np.float32(eps))
        cotangents = K.batchnorm_x(dy, x, mean, inv, scale)
    for actual, expected in zip((y, mean, var), N.batchnorm(*wide(x, scale, bias, eps)), strict=True):
        close(actual, expected, 1e-4 / np.sqrt(eps / 1e-5))  # a channel of equal numbers is divided by sqrt(eps)
    for actual, expected in zip(cotangents, N.batchnorm_x(*wide(dy, x, mean, inv, scale)), strict=True):
        close(actual, expected, 1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("c", [3, 8, 20])
def test_batchnorm_of_nan_infinities_and_equal_numbers_is_numpys(c, mode):
    x = np.random.default_rng(0).standard_normal((4, c, 3, 3)).astype(np.float32)
    x[0, 0, 0, 0], x[1, 1, 1, 1], x[:, 2] = np.nan, np.inf, 5
    scale, bias = np.linspace(1, 2, c, dtype=np.float32), np.ones(c, np.float32)
    with math_mode.use(mode):
        for eps in (0.0, 1e-5):
            y, mean, var = K.batchnorm(x, scale, bias, eps)
            for actual, expected in zip((y, mean, var), N.batchnorm(x, scale, bias, eps), strict=True):
                close(actual[:], expected)
            with np.errstate(divide="ignore"):
                inv = 1 / np.sqrt(var + np.float32(eps))
            for actual, expected in zip(K.batchnorm_x(y, x, mean, inv, scale), N.batchnorm_x(y, x, mean, inv, scale), strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


rows = st.tuples(st.lists(st.integers(0, 5), max_size=3), st.integers(1, 40)).map(lambda drawn: (*drawn[0], drawn[1]))


@pytest.mark.parametrize("mode", MODES)
@given(rows, layouts, layouts, st.booleans(), st.booleans(), st.sampled_from([1e-5, 0.1]), seeds)
def test_layernorm_and_its_transpose_are_numpys(mode, shape, layout, other, with_scale, with_bias, eps, seed):
    rng = np.random.default_rng(seed)
    x, dy = normal(rng, shape, layout) + np.float32(2), normal(rng, shape, other)
    scale, bias = (normal(rng, 2 * shape[-1])[::2] if present else None for present in (with_scale, with_bias))
    with math_mode.use(mode):
        y, mean, var = K.layernorm(x, scale, bias, eps)
        inv = np.asarray(1 / np.sqrt(var + np.float32(eps)))
        cotangents = K.layernorm_x(dy, x, mean, inv, scale)
    for actual, expected in zip((y, mean, var), N.layernorm(*wide(x, scale, bias, eps)), strict=True):
        close(actual, expected, 1e-4 / np.sqrt(eps / 1e-5))
    for actual, expected in zip(cotangents, N.layernorm_x(*wide(dy, x, mean, inv, scale)), strict=True):
        close(actual, expected, 1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("c", [1, 3, 8, 37])
def test_layernorm_of_nan_infinities_and_equal_numbers_is_numpys(c, mode):
    x = np.random.default_rng(0).standard_normal((5, 4, c)).astype(np.float32)
    x[0, 0, 0], x[1, 1, -1], x[2, 2, 0], x[3, 3] = np.nan, np.inf, -np.inf, 5
    dy = x[::-1, ::-1].copy()
    scale, bias = np.linspace(1, 2, c, dtype=np.float32), np.ones(c, np.float32)
    with math_mode.use(mode), np.errstate(all="ignore"):
        for v, eps in [(x, 0.0), (x, 1e-5), (x[-1:].repeat(9, 0), 1e-5)]:
            y, mean, var = K.layernorm(v, scale, bias, eps)
            for actual, expected in zip((y, mean, var), N.layernorm(v, scale, bias, eps), strict=True):
                close(actual, expected)
            inv, dy = 1 / np.sqrt(var + np.float32(eps)), np.resize(dy, v.shape)
            for actual, expected in zip(K.layernorm_x(dy, v, mean, inv, scale), N.layernorm_x(dy, v, mean, inv, scale), strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@st.composite
def axes_of(draw, ndim):
    if draw(st.booleans()):
        return draw(st.sampled_from([None, -1, ndim - 1, 0]))
    return tuple(draw(st.lists(st.integers(0, ndim - 1), max_size=ndim, unique=True)))


@pytest.mark.parametrize("name", ["softmax", "logsoftmax"])
@given(st.data(), st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple), layouts, modes, st.booleans(), seeds)
def test_softmax_is_numpys(name, data, shape, layout, mode, odd, seed):
    x, axis = (special if odd else normal)(np.random.default_rng(seed), shape, layout), data.draw(axes_of(len(shape)))
    with math_mode.use(mode):
        close(getattr(K, name)(x, axis), getattr(N, name)(x, axis))


def test_softmax_takes_arrays_without_axes_and_refuses_axes_that_are_not_there():
    same(K.softmax(np.full((), 3, np.float32), None), np.ones((), np.float32))
    assert K.softmax(np.float32(3), None) == 1  # a scalar, which is no array
    with pytest.raises(ValueError, match="out of bounds"):
        K.softmax(np.ones((2, 2), np.float32), 2)


# ---------------------------------------------------------------- what runs where

SQUARE = Geometry((2, 2), ((0, 0),) * 2, (2, 2), (1, 1))


def arguments_of(rng, dtype=np.float32, n=4):
    """Of every kernel, arguments as a network has them."""

    def array(*shape):
        return np.asarray(rng.standard_normal(shape), dtype)

    x, w, y, c = array(n, 16, 8, 8), array(8, 16, 2, 2), array(n, 8, 4, 4), array(16)
    pool = N.max_pool(x, SQUARE)
    return {
        "conv": (w, x, SQUARE, 1.0),
        "conv_x": (w, y, x.shape, SQUARE, 1.0),
        "conv_w": (x, y, w.shape, SQUARE, 1.0),
        "conv_bias_act": (w, x, array(8, 1, 1), y, "relu", SQUARE, 1.0, 1.0),
        "max_pool": (x, SQUARE),
        "max_pool_x": (pool, x, pool, SQUARE),
        "mean_pool": (x, SQUARE, True),
        "mean_pool_x": (pool, x.shape, SQUARE, True),
        "batchnorm": (x, c, c, 1e-5),
        "batchnorm_x": (x, x, c, np.abs(c) + np.asarray(0.1, dtype), c),
        "layernorm": (x, c[:8], c[8:], 1e-5),
        "layernorm_x": (x, x, x[..., 0], np.abs(x[..., 1]) + np.asarray(0.1, dtype), c[:8]),
        "softmax": (x, -1),
    }


KERNELS = list(arguments_of(np.random.default_rng(0)))


def parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KERNELS)
def test_what_a_network_has_runs_on_onednn(name, mode):
    if mode == "pedantic" and binding.set_threads is None and name in ("conv_w", "batchnorm", "batchnorm_x", "layernorm_x"):
        pytest.skip("this build can't be held to one thread, so pedantic sums are NumPy's")
    with math_mode.use(mode):
        getattr(TABLE, name)(*arguments_of(np.random.default_rng(0))[name])
    ran, why = TABLE.account()
    assert ran != "numpy", f"{name} was left to NumPy: {why}"


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("name", KERNELS)
def test_other_dtypes_are_numpys(name, dtype):
    arguments = arguments_of(np.random.default_rng(0), dtype)[name]
    for actual, expected in zip(parts(getattr(K, name)(*arguments)), parts(getattr(N, name)(*arguments)), strict=True):
        same(actual, expected)
    getattr(TABLE, name)(*arguments)
    assert TABLE.account() == ("numpy", "not float32")


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", KERNELS)
def test_arrays_without_elements_are_numpys(name):
    arguments = arguments_of(np.random.default_rng(0), n=0)[name]
    for actual, expected in zip(parts(getattr(K, name)(*arguments)), parts(getattr(N, name)(*arguments)), strict=True):
        same(actual, expected)


def test_shapes_that_do_not_fit_raise_as_numpys_do():
    a = arguments_of(np.random.default_rng(0))
    w, x, y, pool = a["conv"][0], a["conv"][1], a["conv_x"][1], a["max_pool_x"][0]
    wrong = [
        ("conv", w, x[:, :3], SQUARE, 1.0),
        ("conv_x", w, y[..., :2], x.shape, SQUARE, 1.0),
        ("conv_w", x, y[:1], w.shape, SQUARE, 1.0),
        ("max_pool", x[0], SQUARE),
        ("max_pool_x", x, x, pool, SQUARE),
        ("max_pool_x", pool, x, pool[:1], SQUARE),
        ("mean_pool", x[..., :1, :1, None], SQUARE, True),
        ("mean_pool_x", x, x.shape, SQUARE, True),
        ("batchnorm", x, np.ones(3, np.float32), None, 1e-5),
        ("layernorm", x, np.ones(3, np.float32), None, 1e-5),
    ]
    for name, *arguments in wrong:
        with pytest.raises(ValueError) as ours, np.errstate(all="ignore"):
            getattr(K, name)(*arguments)
        with pytest.raises(ValueError) as numpys:
            getattr(N, name)(*arguments)
        assert str(ours.value) == str(numpys.value), name


# ---------------------------------------------------------------- threads, forks, memory


def bits(arguments, names=KERNELS):
    return {name: b"".join(y.tobytes() for y in parts(getattr(TABLE, name)(*arguments[name]))) for name in names}


def test_eight_threads_give_the_same_bits():
    cases = [arguments_of(np.random.default_rng(n), n=n) for n in (1, 2, 5)]
    seen, failed = [set() for _ in cases], []

    def work():
        try:
            for _ in range(8):
                for case, found in zip(cases, seen, strict=True):
                    found.add(tuple(bits(case).values()))
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and [len(found) for found in seen] == [1, 1, 1]


@pytest.mark.skipif(binding.set_threads is None, reason="this build's threads aren't OpenMP's")
def test_pedantic_bits_are_the_same_for_every_number_of_threads():
    rng, before, found = np.random.default_rng(0), binding.max_threads(), []
    arguments, g = arguments_of(rng, n=33), SQUARE._replace(window=(3, 3), stride=(1, 1))
    arguments["conv_w"] = normal(rng, (16, 8, 16, 16)), normal(rng, (16, 8, 14, 14)), (8, 8, 3, 3), g, 1.0  # where threads share a sum
    try:
        with math_mode.use("pedantic"):
            for threads in (1, 2, 3, 1):
                binding.set_threads(threads)
                found.append(bits(arguments))
                assert binding.max_threads() == threads
    finally:
        binding.set_threads(before)
    assert [name for name in KERNELS if len({f[name] for f in found}) > 1] == []


FORK = """
import multiprocessing, os, signal, sys
import numpy as np
from autotape import backend
from autotape.backends.kernels import Geometry
K, g = backend.load("onednn"), Geometry((3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
rng = np.random.default_rng(0)
w, x = (rng.standard_normal(s).astype(np.float32) for s in ((16, 16, 3, 3), (8, 16, 24, 24)))
def run(_=None):
    y = K.conv_bias_act(w, x, None, None, "relu", g, 1.0, 1.0)
    return K.max_pool_x(y, x, K.max_pool(x, g), g).tobytes()
expected = run()
signal.alarm(40)
if HOW == "fork":
    child = os.fork()
    if child == 0:
        os._exit(0 if run() == expected else 3)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with multiprocessing.get_context(HOW).Pool(2) as pool:
    results = pool.map(run, range(4))
sys.exit(0 if set(results) == {expected} else 3)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("how", ["fork", "multiprocessing"])
def test_a_forked_child_computes_after_its_parent_has(how):
    script = FORK.replace("HOW", repr("fork")) if how == "fork" else FORK.replace('HOW == "fork"', "False").replace("HOW", repr("fork"))
    done = in_a_process_of_its_own(script, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive")
    assert done.returncode == 0, done.stderr or f"exit status {done.returncode}"


MAKING = """
import os, sys, threading
from autotape import backend
backend.load("onednn")
from autotape.backends.onednn_backend import primitives
begun, finished = threading.Event(), []
def make():
    begun.set()
    threading.Event().wait(0.3)
    finished.append(True)
thread = threading.Thread(target=primitives.ready, args=(make,))
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    primitives.ready(str)
    os._exit(0 if finished else 3)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_waits_for_primitives_that_are_being_made():
    done = in_a_process_of_its_own(MAKING)
    assert done.returncode == 0, done.stderr or f"exit status {done.returncode}"


BUSY = """
import threading, time
import numpy as np
from autotape import backend
from autotape.backends.kernels import Geometry
K, g = backend.load("onednn"), Geometry((3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
w, x = (np.ones(s, np.float32) for s in ((16, 8, 3, 3), (8, 8, 48, 48)))
def run():
    y = K.conv(w, x, g, 1.0)
    return K.conv_w(x, y, w.shape, g, 1.0), K.batchnorm(y, None, None, 1e-5)
def run_on():
    while True:
        run()
"""


def test_a_process_ends_while_its_threads_compute():
    script = BUSY + "for _ in range(2):\n    threading.Thread(target=run_on, daemon=True).start()\ntime.sleep(0.2)\n"
    done = in_a_process_of_its_own(script, OMP_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr or f"exit status {done.returncode}"


@pytest.mark.parametrize("limit", [{"OMP_THREAD_LIMIT": "2"}, {"OMP_DYNAMIC": "true"}], ids=str)
def test_fewer_threads_than_were_asked_for_do(limit):
    script = BUSY + "run()\nthread = threading.Thread(target=run)\nthread.start()\nthread.join()\n"
    done = in_a_process_of_its_own(script, OMP_NUM_THREADS="4", **limit)
    assert done.returncode == 0, done.stderr or f"exit status {done.returncode}"


def test_the_cache_of_primitives_is_bounded_and_a_call_makes_anew_what_left_it():
    found = []

    def work():
        for n in [*range(1, primitives._KEPT + 50), 1, 2]:
            found.append(float(TABLE.softmax(np.ones((1, n), np.float32), 1)[0, 0]) * n)
        found.append(primitives._thread.ready.cache_info().currsize)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found.pop() == primitives._KEPT
    np.testing.assert_allclose(found, 1, rtol=1e-5)
