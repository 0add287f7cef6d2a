"""The pycuda backend's convolution against NumPy's: every kernel and tile, layouts, dtypes, sums shared by blocks, epilogues."""

from contextlib import contextmanager, nullcontext
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from images import LAYOUTS, integers, on_device, same

from autotape import math_mode
from autotape.backends.kernels import Geometry
from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("float16", "float32", "float64")] + [BFLOAT16]
ACTIVATIONS = ["identity", "relu", "sigm", "tanh", "elu", "selu"]
# which kernel, and tile, does the work; "shared": blocks have a few terms of each sum
KERNELS = ["as it comes", "direct", "shared direct", "32", "64", "128", "shared 32"]
seeds = st.integers(0, 2**32 - 1)


@contextmanager
def by(kernel):
    """A context in which that kernel does the work, however small it is."""
    from autotape.backends.pycuda_backend import convolution_plan as planning

    changed = {"_SHORTEST": 8} if "shared" in kernel else {}
    if "direct" in kernel:
        changed["_FEWEST"] = 10**9
    elif kernel != "as it comes":
        changed |= {"_FEWEST": 0, "_SMALL": 0, "_tile": lambda *_: int(kernel.split()[-1])}
    planning.plan.cache_clear()
    with mock.patch.multiple(planning, **changed) if changed else nullcontext():
        yield
    planning.plan.cache_clear()


def wide(x):
    """NumPy's kernels don't know bfloat16, of which all that is here fits into float64."""
    return x.astype(float)


@st.composite
def problems(draw):
    """A geometry, its groups, and the spatial shape of x; the window may be larger than x, and may lie in the padding."""
    axes = draw(st.integers(1, 3))

    def each(values):
        return tuple(draw(values) for _ in range(axes))

    sides, window = st.integers(0, 2), each(st.integers(1, 3))
    geometry = Geometry(
        window=window,
        padding=each(st.tuples(sides, sides)),
        stride=window if draw(st.booleans()) else each(st.integers(1, 3)),
        dilation=each(st.sampled_from([1, 1, 2])),
        group=draw(st.integers(1, 3)),
        flip=draw(st.booleans()),
    )
    spatial = each(st.integers(0, 7))
    assume(min(geometry.output(spatial)) >= 0)
    return geometry, spatial


@settings(max_examples=max(1, 2 * settings().max_examples))
@given(
    problems(),
    st.sampled_from([(n, c, o) for n in (1, 3) for c in (1, 2, 5) for o in (1, 4, 7)] + [(0, 1, 1), (2, 0, 1), (2, 1, 0)]),
    st.sampled_from([*[(kernel, "float32") for kernel in KERNELS], ("direct", "float64"), ("32", "float64"), ("32", "float16")]),
    st.sampled_from([1.0, -0.5]),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    seeds,
)
def test_convolution_and_its_transposes(k, problem, sizes, kernel_and_dtype, alpha, x_layout, w_layout, seed):
    (g, spatial), (n, c, o), (kernel, dtype) = problem, sizes, kernel_and_dtype
    rng = np.random.default_rng(seed)
    w = integers(rng, (o * g.group, c, *g.window), dtype, w_layout)
    x = integers(rng, (n, c * g.group, *spatial), dtype, x_layout)
    y = N.conv(w, x, g, alpha)
    dy = integers(rng, y.shape, dtype, x_layout)
    w_, x_, dy_ = on_device(k, w, w_layout), on_device(k, x, x_layout), on_device(k, dy, x_layout)
    with by(kernel):
        same(k.conv(w_, x_, g, alpha), y)
        same(k.conv_x(w_, dy_, x.shape, g, alpha), N.conv_x(w, dy, x.shape, g, alpha))
        same(k.conv_w(x_, dy_, w.shape, g, alpha), N.conv_w(x, dy, w.shape, g, alpha))


ORDINARY = [
    # N, C, K, spatial, window, padding, stride, dilation, group
    (3, 3, 70, (30, 31), (3, 3), 1, 2, 1, 1),
    (2, 40, 70, (14, 13), (3, 3), 1, 1, 1, 1),
    (2, 36, 72, (9, 9), (5, 5), 2, 1, 1, 1),
    (4, 130, 20, (8, 8), (1, 1), 0, 1, 1, 1),
    (2, 34, 34, (11, 11), (1, 1), 0, 2, 1, 1),
    (3, 24, 48, (12, 12), (3, 3), 2, 1, 2, 4),
    (2, 40, 40, (17, 16), (3, 3), 1, 1, 1, 40),
    (2, 20, 40, (16, 17), (5, 3), 1, 2, 1, 20),
    (2, 9, 36, (120,), (7,), 3, 3, 1, 1),
    (2, 5, 33, (7, 8, 9), (3, 3, 3), 1, 2, 1, 1),
    (2, 3, 40, (32, 32), (16, 16), 0, 16, 1, 1),
]


@pytest.mark.parametrize("n, c, o, spatial, window, padding, stride, dilation, group", ORDINARY)
def test_ordinary_sizes(k, n, c, o, spatial, window, padding, stride, dilation, group):
    rng = np.random.default_rng(0)
    axes = len(spatial)
    g = Geometry(window, ((padding, padding),) * axes, (stride,) * axes, (dilation,) * axes, group)
    w, x = rng.standard_normal((o, c // group, *window)), rng.standard_normal((n, c, *spatial))
    dy = rng.standard_normal(N.conv(w, x, g, 1.0).shape)
    w_, x_, dy_ = (on_device(k, a.astype(np.float32)) for a in (w, x, dy))
    for name, mine, arguments in [
        ("conv", lambda: k.conv(w_, x_, g, 1.0), lambda w, x, dy: (w, x, g, 1.0)),
        ("conv_x", lambda: k.conv_x(w_, dy_, x.shape, g, 1.0), lambda w, x, dy: (w, dy, x.shape, g, 1.0)),
        ("conv_w", lambda: k.conv_w(x_, dy_, w.shape, g, 1.0), lambda w, x, dy: (x, dy, w.shape, g, 1.0)),
    ]:
        expected, size = (getattr(N, name)(*arguments(*a)) for a in ((w, x, dy), map(abs, (w, x, dy))))
        y = np.asarray(mine())
        assert y.dtype == np.float32
        # inputs are rounded once, and what is added up in order has errors of the order of the root of its length
        worst = np.max(np.abs(y - expected) / np.maximum(size, 1e-30))  # of no terms there is no error
        assert worst < 2e-6, f"{name} is off by up to {worst} of the terms' sum"
        assert y.tobytes() == np.asarray(mine()).tobytes(), f"{name} differs from run to run"


@pytest.mark.parametrize("kernel", ["direct", "32", "64"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_half_and_double(k, dtype, kernel):
    g = Geometry((3, 2), ((1, 0), (1, 1)), (1, 2), (1, 1))
    rng = np.random.default_rng(3)
    w, x = integers(rng, (5, 3, 3, 2), dtype), integers(rng, (2, 3, 6, 7), dtype)
    y = N.conv(wide(w), wide(x), g, 1.0)
    dy = integers(rng, y.shape, dtype)
    w_, x_, dy_ = (on_device(k, a) for a in (w, x, dy))
    with by(kernel):
        same(k.conv(w_, x_, g, 1.0), y.astype(dtype))
        same(k.conv_x(w_, dy_, x.shape, g, 1.0), N.conv_x(wide(w), wide(dy), x.shape, g, 1.0).astype(dtype))
        same(k.conv_w(x_, dy_, w.shape, g, 1.0), N.conv_w(wide(x), wide(dy), w.shape, g, 1.0).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=str)
@pytest.mark.parametrize("kernel", ["direct", "32"])
def test_half_floats_add_up_in_float32(k, dtype, kernel):
    g = Geometry((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))
    w, x = on_device(k, np.full((1, 600, 1, 1), 8, dtype)), on_device(k, np.ones((1, 600, 2, 2), dtype))
    with by(kernel):
        same(k.conv(w, x, g, 1.0), np.full((1, 1, 2, 2), 4800, dtype))
        same(k.conv(w, x, g, 0.5), np.full((1, 1, 2, 2), 2400, dtype))


@pytest.mark.parametrize("kernel", ["direct", "32"])
@pytest.mark.parametrize("w_dtype, x_dtype", [
    ("int64", "int64"), ("int8", "int8"), ("uint8", "int16"), ("bool", "bool"),
    ("bool", "float32"), ("float16", "float32"), ("int64", "float32"), ("float32", "float64"),
])  # fmt: skip
def test_other_dtypes(k, w_dtype, x_dtype, kernel):
    g = Geometry((2, 2), ((0, 1), (0, 0)), (1, 2), (1, 1))
    rng = np.random.default_rng(0)
    w, x = rng.integers(0, 9, (3, 2, 2, 2)).astype(w_dtype), rng.integers(0, 9, (2, 2, 4, 4)).astype(x_dtype)
    with by(kernel):
        for alpha in (1.0, 0.5):
            y = N.conv(w, x, g, alpha)
            w_, x_, y_ = (on_device(k, a) for a in (w, x, y))
            same(k.conv(w_, x_, g, alpha), y)
            same(k.conv_x(w_, y_, x.shape, g, alpha), N.conv_x(w, y, x.shape, g, alpha))
            same(k.conv_w(x_, y_, w.shape, g, alpha), N.conv_w(x, y, w.shape, g, alpha))


def one_by_one(k, w, x, b, z, activation, g, alpha, beta):
    """conv_bias_act by the kernels that it stands for."""
    y = k.conv(w, x, g, alpha)
    if z is not None:
        y = y + (z if beta == 1 else z * beta)
    if b is not None:
        y = y + b
    kernel = {"identity": "copy", "sigm": "sigmoid"}.get(activation, activation)
    return getattr(k, kernel)(y)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kernel", ["direct", "32", "shared 32", "64"])
@pytest.mark.parametrize("b_shape, has_z, beta", [((6, 1, 1), True, 0.5), ((1, 6, 1, 1), False, 1.0), (None, True, 1.0), ((), True, 2.0)])
def test_the_fused_convolution_has_the_bits_of_the_unfused(k, activation, kernel, b_shape, has_z, beta):
    rng = np.random.default_rng(4)
    g = Geometry((2, 2), ((1, 0), (0, 0)), (1, 1), (1, 1), 2)
    w, x = rng.standard_normal((6, 5, 2, 2), np.float32), rng.standard_normal((2, 10, 4, 3), np.float32)
    x[0, 0, 0, 0] = np.nan
    b = None if b_shape is None else np.asarray(rng.standard_normal(b_shape), np.float32)
    z = rng.standard_normal((2, 6, 4, 2), np.float32) if has_z else None
    arrays = [a if a is None else on_device(k, a) for a in (w, x, b, z)]
    with math_mode.use("pedantic"), by(kernel):
        fused, expected = (run(*arrays, activation, g, 0.75, beta) for run in (k.conv_bias_act, lambda *a: one_by_one(k, *a)))
    same(fused, np.asarray(expected))
    assert np.isnan(np.asarray(fused)).any()
    np.testing.assert_allclose(np.asarray(fused), N.conv_bias_act(w, x, b, z, activation, g, 0.75, beta), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype, b_dtype, z_dtype", [
    ("float16", "float16", "float16"), ("float16", "float32", None), ("float32", None, "float64"),
    ("float32", "float16", "float16"), ("int64", "int64", "float32"),
])  # fmt: skip
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_dtypes_of_the_fused_convolution(k, dtype, b_dtype, z_dtype, activation):
    rng = np.random.default_rng(5)
    g = Geometry((2,), ((1, 0),), (1,), (1,))
    w, x = integers(rng, (3, 2, 2), dtype), integers(rng, (2, 2, 4), dtype)
    b, z = (None if t is None else integers(rng, s, t) for t, s in ((b_dtype, (3, 1)), (z_dtype, (2, 3, 4))))
    arrays = [a if a is None else on_device(k, a, "reversed") for a in (w, x, b, z)]
    for beta in (1.0, 0.5):
        y = k.conv_bias_act(*arrays, activation, g, 1.0, beta)
        expected = N.conv_bias_act(w, x, b, z, activation, g, 1.0, beta)
        assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(np.asarray(y), expected, rtol=2 * np.finfo("float16" if dtype == "float16" else "float32").eps)


def test_a_bias_that_is_more_than_one_value_a_channel(k):
    rng = np.random.default_rng(6)
    g = Geometry((2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1))
    w, x = integers(rng, (3, 2, 2, 2), np.float32), integers(rng, (2, 2, 4, 4), np.float32)
    for shape in [(3,), (2, 1, 1, 1), (2, 3, 3, 3)]:  # of the last axis, of images, of all
        b = integers(rng, shape, np.float32)
        arrays = [on_device(k, a) for a in (w, x, b)]
        same(k.conv_bias_act(*arrays, None, "relu", g, 1.0, 1.0), N.conv_bias_act(w, x, b, None, "relu", g, 1.0, 1.0))


def test_empty_sums_are_finished_as_well(k):
    g = Geometry((2,), ((0, 0),), (1,), (1,))
    w, x, b = np.ones((3, 0, 2), np.float32), np.ones((2, 0, 4), np.float32), np.float32([[1], [-2], [3]])
    z = np.ones((2, 3, 3), np.float32)
    arrays = [on_device(k, a) for a in (w, x, b, z)]
    same(k.conv_bias_act(*arrays, "relu", g, 1.0, 0.5), N.conv_bias_act(w, x, b, z, "relu", g, 1.0, 0.5))


@pytest.mark.parametrize("kernel", ["direct", "32"])
def test_nan_and_infinities_stay_where_windows_meet_them(k, kernel):
    g = Geometry((3, 3), ((0, 0), (0, 0)), (1, 1), (1, 1))
    x = np.zeros((1, 2, 6, 6), np.float32)
    x[0, 0, 1, 1], x[0, 1, 4, 4] = np.nan, np.inf
    w = np.ones((4, 2, 3, 3), np.float32)
    with by(kernel):
        same(k.conv(on_device(k, w), on_device(k, x), g, 1.0), N.conv(w, x, g, 1.0))


@pytest.mark.parametrize("kernel", ["direct", "32"])
def test_64_bit_indices(k, monkeypatch, kernel):
    """The kernels for arrays beyond 2**30 elements, on small ones."""
    from autotape.backends.pycuda_backend import convolution_plan as planning

    monkeypatch.setattr(planning, "_letter", lambda s: "q")
    rng = np.random.default_rng(7)
    g = Geometry((3, 2), ((1, 1), (0, 1)), (2, 1), (1, 2), 2)
    w, x = integers(rng, (6, 2, 3, 2), np.float32), integers(rng, (3, 4, 7, 6), np.float32)
    y = N.conv(w, x, g, 1.0)
    w_, x_, y_ = (on_device(k, a) for a in (w, x, y))
    with by(kernel):
        same(k.conv(w_, x_, g, 1.0), y)
        same(k.conv_x(w_, y_, x.shape, g, 1.0), N.conv_x(w, y, x.shape, g, 1.0))
        same(k.conv_w(x_, y_, w.shape, g, 1.0), N.conv_w(x, y, w.shape, g, 1.0))


def test_which_arrays_need_64_bit_indices(k):
    from autotape.backends.pycuda_backend.convolution_plan import Sum, _letter

    g = Geometry((1,), ((0, 0),), (1,), (1,))
    for step, letter in [(32, "i"), (2**30, "i"), (2**32, "q")]:  # bytes from image to image
        x, w, y = ((2, 1, 8), (step, 32, 4), 4), ((1, 1, 1), (4, 4, 4), 4), ((2, 1, 8), (32, 32, 4), 4)
        assert _letter(Sum(g, x, w, y, False, False)) == letter, step


def test_shares_of_a_sum_cover_it(k):
    from autotape.backends.pycuda_backend.convolution_plan import _shares

    for blocks in (1, 3, 100, 10_000):
        for depth in (1, 7, 8, 9, 255, 256, 2047, 100_001, 10**7):
            splits, chunk = _shares(blocks, depth)
            assert (splits - 1) * chunk < depth <= splits * chunk and chunk % 8 == 0, (blocks, depth)


def test_what_ran_is_told(k):
    g = Geometry((1,), ((0, 0),), (1,), (1,))
    for kernel, told in [("32", "cuda, implicit gemm"), ("direct", "cuda, direct convolution")]:
        with by(kernel):
            k.conv(on_device(k, np.ones((4, 2, 1))), on_device(k, np.ones((1, 2, 3))), g, 1.0)
        assert k.account() == (told, "")


def test_shapes_that_no_convolution_has_are_refused_by_name(k):
    g = Geometry((3, 3), ((0, 0), (0, 0)), (1, 1), (1, 1))
    w, x, b = (on_device(k, np.ones(shape)) for shape in [(4, 2, 3, 3), (1, 2, 5, 5), (5, 1, 1)])
    ones = lambda *shape: on_device(k, np.ones(shape))  # noqa: E731
    for call, message in [
        (lambda: k.conv(w, ones(1, 3, 5, 5), g, 1.0), "channels"),
        (lambda: k.conv(w, ones(1, 6, 5, 5), g._replace(group=3), 1.0), "group"),
        (lambda: k.conv(ones(4, 2, 3), x, g, 1.0), "window"),
        (lambda: k.conv(ones(4, 2, 2, 2), x, g, 1.0), "window"),
        (lambda: k.conv(w, ones(1, 2, 1, 5), g, 1.0), "fit"),
        (lambda: k.conv_x(w, ones(1, 4, 2, 2), x.shape, g, 1.0), "dy"),
        (lambda: k.conv_w(x, ones(1, 4, 3, 4), w.shape, g, 1.0), "dy"),
        (lambda: k.conv_bias_act(w, x, None, None, "softplus", g, 1.0, 1.0), "known are identity, relu"),
        (lambda: k.conv_bias_act(w, x, b, None, "relu", g, 1.0, 1.0), "broadcast"),
        (lambda: k.conv_bias_act(w, x, None, ones(1, 4, 3, 2), "relu", g, 1.0, 1.0), "broadcast"),
        (lambda: k.conv_bias_act(w, x, None, ones(3, 4, 3, 3), "relu", g, 1.0, 1.0), "broadcast"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
