"""The pycuda backend's pooling against NumPy's."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from images import LAYOUTS, integers, on_device, same

from autotape.backends.kernels import Geometry
from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
seeds = st.integers(0, 2**32 - 1)


def some(part):
    return settings(max_examples=max(1, settings().max_examples * part // 100))


@st.composite
def geometries(draw):
    """A geometry and the spatial shape of x; the window may be larger than x, and may lie in the padding."""
    axes = draw(st.integers(1, 3))

    def each(values):
        return tuple(draw(values) for _ in range(axes))

    sides, window = st.integers(0, 2), each(st.integers(1, 3))
    geometry = Geometry(
        window=window,
        padding=each(st.tuples(sides, sides)),
        stride=window if draw(st.booleans()) else each(st.integers(1, 3)),
        dilation=each(st.sampled_from([1, 1, 2])),
    )
    spatial = each(st.integers(0, 7))
    assume(min(geometry.output(spatial)) >= 0)
    return geometry, spatial


@some(60)
@given(geometries(), st.sampled_from([0, 1, 3]), st.sampled_from(FLOATS), st.sampled_from(LAYOUTS), st.booleans(), seeds)
def test_max_pooling_and_its_transposes(k, problem, n, dtype, layout, is_special, seed):
    g, spatial = problem
    rng = np.random.default_rng(seed)
    x = integers(rng, (n, 2 if seed % 8 else 0, *spatial), dtype, layout)
    if is_special:
        x = np.where(rng.random(x.shape) < 0.5, rng.choice(np.array([-np.inf, np.inf, np.nan]), x.shape), x).astype(dtype)
        layout = "plain" if layout == "broadcast" else layout
    wide = x.astype(np.float32 if x.itemsize == 2 else dtype)  # NumPy's kernels don't know bfloat16
    y = N.max_pool(wide, g)
    dy, v = integers(rng, y.shape, dtype, layout), integers(rng, x.shape, dtype, layout)
    x_, y_, dy_, v_ = (on_device(k, a.astype(dtype), layout) for a in (x, y, dy, v))
    same(k.max_pool(x_, g), y.astype(dtype))
    same(k.max_pool_x(dy_, x_, y_, g), N.max_pool_x(dy.astype(float), wide, y, g).astype(dtype))
    same(k.max_pool_at(v_, x_, y_, g), N.max_pool_at(v.astype(float), wide, y, g).astype(dtype))


@some(40)
@given(geometries(), st.sampled_from([0, 1, 3]), st.sampled_from(FLOATS), st.sampled_from(LAYOUTS), st.booleans(), seeds)
def test_mean_pooling_and_its_transpose(k, problem, n, dtype, layout, count_padding, seed):
    g, spatial = problem
    rng = np.random.default_rng(seed)
    x = integers(rng, (n, 2, *spatial), dtype, layout)
    y = N.mean_pool(x.astype(float), g, count_padding)
    dy = integers(rng, y.shape, dtype, layout)
    dx = N.mean_pool_x(dy.astype(float), x.shape, g, count_padding)
    for actual, expected in [
        (k.mean_pool(on_device(k, x, layout), g, count_padding), y),
        (k.mean_pool_x(on_device(k, dy, layout), x.shape, g, count_padding), dx),
    ]:
        assert (actual.shape, actual.dtype) == (expected.shape, dtype)
        # each term, of which there is at most one a tap, is at most 3 and rounded, and the sum once more
        np.testing.assert_allclose(np.asarray(actual, float), expected, rtol=0, atol=6 * math.prod(g.window) * ml_dtypes.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int32, np.uint64])
def test_integers(k, dtype):
    g = Geometry((2, 2), ((1, 0), (0, 1)), (2, 1), (1, 1))
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2 if dtype is bool else 100, (2, 3, 5, 5)).astype(dtype)
    y = N.max_pool(x, g)
    dy = rng.integers(-4, 5, y.shape).astype(np.float32)  # also a dtype of its own
    x_, y_ = on_device(k, x), on_device(k, y)
    same(k.max_pool(x_, g), y)
    same(k.max_pool_x(on_device(k, dy), x_, y_, g), N.max_pool_x(dy, x, y, g))
    same(k.mean_pool(x_, g, False), N.mean_pool(x, g, False))
    same(k.mean_pool_x(x_, (2, 3, 9, 5), g, True), N.mean_pool_x(x, (2, 3, 9, 5), g, True))


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, bool, np.float16])
def test_a_window_in_the_padding_has_the_least_maximum_and_the_mean_0(k, dtype):
    g = Geometry((1,), ((2, 0),), (1,), (1,))
    x = np.ones((1, 1, 1), dtype)
    for name, *options in [("max_pool",), ("mean_pool", True), ("mean_pool", False)]:
        same(getattr(k, name)(on_device(k, x), g, *options), getattr(N, name)(x, g, *options))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_mean_of_half_floats_adds_up_in_float32(k, dtype):
    g = Geometry((4000,), ((0, 0),), (1,), (1,))
    y = k.mean_pool(on_device(k, np.full((1, 1, 4000), 100, dtype)), g, True)
    assert y.item() == 100


def test_an_infinite_cotangent_goes_to_one_place_only(k):
    g = Geometry((2, 2), ((0, 0), (0, 0)), (2, 2), (1, 1))
    x = on_device(k, np.arange(16.0).reshape(1, 1, 4, 4))
    dy = np.array([[[[np.inf, np.nan], [1.0, -np.inf]]]])
    dx = np.asarray(k.max_pool_x(on_device(k, dy), x, k.max_pool(x, g), g))
    np.testing.assert_array_equal(dx[0, 0, 1::2, 1::2], dy[0, 0])
    assert np.count_nonzero(dx) == 4


@pytest.mark.parametrize("spatial, channels, n", [((31,), 3, 11), ((33, 32), 17, 2), ((9, 8, 7), 5, 4), ((112, 112), 8, 2)])
def test_ordinary_sizes(k, spatial, channels, n):
    rng = np.random.default_rng(0)
    axes = len(spatial)
    g = Geometry((3,) * axes, ((1, 1),) * axes, (2,) * axes, (1,) * axes)
    x = rng.standard_normal((n, channels, *spatial)).astype(np.float32)
    y = N.max_pool(x, g)
    dy = integers(rng, y.shape, np.float32)
    x_, y_, dy_ = on_device(k, x), on_device(k, y), on_device(k, dy)
    same(k.max_pool(x_, g), y)
    dx = k.max_pool_x(dy_, x_, y_, g)
    same(dx, N.max_pool_x(dy, x, y, g))
    assert np.asarray(dx).tobytes() == np.asarray(k.max_pool_x(dy_, x_, y_, g)).tobytes()
    for padding in (True, False):
        np.testing.assert_allclose(np.asarray(k.mean_pool(x_, g, padding)), N.mean_pool(x, g, padding), rtol=0, atol=1e-6)
        dx = np.asarray(k.mean_pool_x(dy_, x.shape, g, padding))
        np.testing.assert_allclose(dx, N.mean_pool_x(dy, x.shape, g, padding), rtol=0, atol=1e-5)


def test_divisions_by_multiplication_are_exact():
    """The quotient of pool.cu, for numbers around the divisor's multiples."""
    from autotape.backends.pycuda_backend.pooling import _divisor

    rng = np.random.default_rng(0)
    for by in [*range(1, 300), 65535, 65536, 65537, 2**30 - 1, 2**30, *rng.integers(300, 2**30, 200).tolist()]:
        _, magic, shift = _divisor(by)
        top = (2**31 - 1) // by
        for times, off in itertools.product([0, 1, top // 3, top - 1, top], [-1, 0, 1]):
            n = by * times + off
            if 0 <= n < 2**31:
                assert (((n * (magic % 2**32)) >> 32) + n) >> shift == n // by, (n, by)


def test_64_bit_indices(k, monkeypatch):
    """The kernels for arrays beyond 2**30 elements, on small ones."""
    from autotape.backends.pycuda_backend import pooling

    monkeypatch.setattr(pooling, "_reach", lambda x: 2**40)
    monkeypatch.setattr(pooling, "_fields", pooling._fields.__wrapped__)
    g = Geometry((2, 4), ((1, 1), (0, 1)), (1, 2), (1, 1))
    x = integers(np.random.default_rng(2), (2, 3, 6, 7), np.float32)
    y = N.max_pool(x, g)
    x_, y_ = on_device(k, x), on_device(k, y)
    same(k.max_pool(x_, g), y)
    same(k.max_pool_x(y_, x_, y_, g), N.max_pool_x(y, x, y, g))
    same(k.max_pool_at(x_, x_, y_, g), N.max_pool_at(x, x, y, g))
    same(k.mean_pool_x(y_, x.shape, g, True), N.mean_pool_x(y, x.shape, g, True))


def test_lengths_may_be_numpys_integers(k):
    g, dy = Geometry((2,), ((0, 0),), (2,), (1,)), np.ones((1, 1, 200))
    same(k.mean_pool_x(k.adopt(dy), tuple(np.array([1, 1, 400])), g, True), N.mean_pool_x(dy, (1, 1, 400), g, True))


def test_shapes_that_do_not_fit_are_refused(k):
    g = Geometry((5,), ((0, 0),), (1,), (1,))
    x, y, short, flat = (on_device(k, np.ones(shape)) for shape in [(1, 1, 6), (1, 1, 2), (1, 1, 1), (1, 6)])
    for call, message in [
        (lambda: k.max_pool(short, g), "window .* doesn't fit x"),
        (lambda: k.mean_pool(short, g, True), "window .* doesn't fit x"),
        (lambda: k.max_pool(flat, g), "x .* must be .* 1 spatial axes"),
        (lambda: k.max_pool_x(y, x, short, g), "y has shape"),
        (lambda: k.max_pool_x(short, x, y, g), "dy has shape"),
        (lambda: k.max_pool_at(short, x, y, g), "v has shape"),
        (lambda: k.max_pool_at(x, x, short, g), "y has shape"),
        (lambda: k.mean_pool_x(short, x.shape, g, True), "dy has shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
