"""The pycuda backend's softmaxes, batchnorm and layernorm against NumPy's kernels in float64, on arrays of every layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
few = settings(max_examples=settings().max_examples // 3, suppress_health_check=[HealthCheck.function_scoped_fixture])
# relative and absolute; halves: what rounding to them gives, float32: what some thousand sums in another order give
TOLERANCES = {"float64": 1e-12, "float32": 4e-6, "float16": 1.1e-3, "bfloat16": 8e-3}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCES)
SOFTMAXES = ("softmax", "logsoftmax", "logsumexp")


def typed(x, dtype):
    return x.astype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)


def numbers(shape, dtype="float64", seed=0, mean=0.0, scale=2.0):
    return typed(np.random.default_rng(seed).normal(mean, scale, shape), dtype)


def laid(k, x, layout):
    """x on the device: its elements in this order of memory."""
    from autotape.backends.pycuda_backend.array import view

    if layout == "row-major" or not x.ndim:
        return k.adopt(x)
    if layout == "reversed axes":
        return k.transpose(k.adopt(np.ascontiguousarray(x.T)), None)
    if layout == "first axis last":
        return k.transpose(k.adopt(np.ascontiguousarray(np.moveaxis(x, 0, -1))), (x.ndim - 1, *range(x.ndim - 1)))
    if layout == "channels last":
        return k.transpose(k.adopt(np.ascontiguousarray(np.moveaxis(x, 1, -1))), (0, x.ndim - 1, *range(1, x.ndim - 1)))
    if layout == "backwards":
        y = k.adopt(np.ascontiguousarray(x[::-1]))
        return view(y, x.shape, (-y.strides[0], *y.strides[1:]), y.strides[0] * max(len(x) - 1, 0))
    if layout == "gaps":
        y = k.adopt(np.repeat(x, 2, -1))
        return view(y, x.shape, (*y.strides[:-1], 2 * y.strides[-1]))
    assert layout == "unaligned"
    y = k.adopt(np.concatenate([np.zeros(1, x.dtype), x.ravel()]))
    return view(y, x.shape, x.strides, x.itemsize)


LAYOUTS = ["row-major", "reversed axes", "first axis last", "backwards", "gaps", "unaligned"]


def close(found, expected, dtype, what="", factor=1):
    """Whether an array of the device is the expected one rounded to dtype, within that dtype's tolerance."""
    found, tolerance = np.asarray(found), factor * TOLERANCES[dtype]
    assert found.dtype.name == dtype and found.shape == expected.shape, f"{what}: {found.dtype}{found.shape}, expected {expected.shape}"
    np.testing.assert_allclose(found.astype(float), expected, tolerance, tolerance, err_msg=what)


def wide(dtype):
    return "float64" if dtype == "float64" else "float32"


@pytest.fixture
def launched(monkeypatch):
    """The names of the kernels that were launched."""
    from autotape.backends.pycuda_backend.launch import Kernel

    names, start = [], Kernel.start
    monkeypatch.setattr(Kernel, "start", lambda self, *args: (names.append(self.name), start(self, *args)))
    return names


# ---------------------------------------------------------------- softmax, logsoftmax, logsumexp


def softmaxes(k, X, x, axis, what):
    """All three of X, whose elements are x's, against those in float64."""
    dtype, x = x.dtype.name, x.astype(float)
    for name in SOFTMAXES[:2]:
        close(getattr(k, name)(X, axis), getattr(N, name)(x, axis), dtype, f"{name} {what}")
    for keepdims in (False, True):
        close(k.logsumexp(X, axis, keepdims), N.logsumexp(x, axis, keepdims), dtype, f"logsumexp {what} {keepdims}")


@few
@given(st.data())
def test_softmaxes_over_any_axes_of_any_layout(k, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 5) | st.just(1), max_size=4)))
    axis = data.draw(st.none() | st.sets(st.integers(0, max(len(shape) - 1, 0)), max_size=len(shape)).map(tuple)) if shape else None
    layout, dtype = data.draw(st.sampled_from(LAYOUTS)), data.draw(st.sampled_from(["float32", "float64"]))
    x = numbers(shape, dtype)
    softmaxes(k, laid(k, x, layout), x, axis, f"{shape} {axis} {layout}")


@pytest.mark.parametrize("axis", [None, (), 0, -1])
def test_softmaxes_of_a_number(k, axis):
    x = np.array(2.5)
    softmaxes(k, k.adopt(x), x, axis, f"a number, axis {axis}")


@DTYPES
@pytest.mark.parametrize("shape", [(3, 1), (3, 31), (2, 32), (5, 33), (2, 127), (2, 129), (1, 1024), (2, 8192), (70, 3)])
def test_rows(k, shape, dtype):
    x = numbers(shape, dtype)
    softmaxes(k, k.adopt(x), x, -1, f"{shape}")
    softmaxes(k, laid(k, x, "unaligned"), x, -1, f"unaligned {shape}")


@DTYPES
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 127, 40), (3, 129, 2), (200, 3, 2)])
def test_columns(k, shape, dtype):
    x = numbers(shape, dtype)
    softmaxes(k, k.adopt(x), x, 1, f"{shape}")


@pytest.mark.parametrize(
    ("shape", "axis", "names"),
    [
        ((2, 4096), -1, ["rows_full"]),
        ((2, 2047), -1, ["rows_1"]),
        ((2, 40004), -1, ["states_rows_full", "finish_rows_full"]),
        ((3, 40001), -1, ["states_rows_1", "finish_rows_1"]),
        ((20001, 3), 0, ["states_columns", "finish_columns"]),
        ((300, 33, 5), None, ["states_rows_full", "finish_rows_full"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_rows(k, launched, shape, axis, names, dtype):
    """Those that one block can't hold, by several blocks where they are few; numbers grow, so that the largest is always the last one."""
    x = np.sort(numbers(shape, dtype), axis=axis).reshape(shape)
    X = k.adopt(x)
    launched.clear()
    k.softmax(X, axis)
    assert launched == names
    softmaxes(k, X, x, axis, f"{shape}")


def test_many_long_rows(k, launched):
    """Enough of them to fill the device: a block has the whole of one, or of 32 columns."""
    from autotape.backends.pycuda_backend.driver import device

    processors = device().processors
    for shape, axis, name in [((2 * processors, 4100), 1, "whole_rows_full"), ((129, 32 * 2 * processors), 0, "whole_columns")]:
        x = numbers(shape)
        X = k.adopt(x)
        launched.clear()
        close(k.softmax(X, axis), N.softmax(x, axis), "float64", name)
        assert launched == [name]


@pytest.mark.parametrize("width", [3, 8200])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmaxes_of_infinities_and_nan(k, axis, width):
    special = np.array([[np.inf, 0, 1], [-np.inf, 0, 1], [-np.inf, -np.inf, 2], [-np.inf] * 3, [np.inf] * 3, [np.inf, -np.inf, 0],
                        [np.nan, 0, 1], [np.nan, np.inf, -np.inf], [np.nan] * 3, [3e38, -3e38, 3e38]], np.float32)  # fmt: skip
    x = np.concatenate([np.repeat(special[:, 2:], width - 3, 1), special], 1)
    x = np.ascontiguousarray(x if axis else x.T)
    for name in SOFTMAXES:
        args = (axis, False) if name == "logsumexp" else (axis,)
        found, expected = np.asarray(getattr(k, name)(k.adopt(x), *args)), getattr(N, name)(x, *args)
        np.testing.assert_allclose(found, expected, 2e-6, err_msg=name)


def test_softmaxes_do_not_overflow(k):
    x = np.array([[1e4, 1e4 - 1], [-1e4, -1e4 - 1]])
    np.testing.assert_allclose(k.softmax(k.adopt(x), 1), np.exp([[0, -1]] * 2) / (1 + np.exp(-1)), 1e-12)
    halves = np.full((1, 65520), 1, np.float16)  # whose sum is more than float16 holds
    np.testing.assert_allclose(k.logsumexp(k.adopt(halves), None, False), 1 + np.log(65520), 1e-3)


def test_softmaxes_of_integers_are_those_of_float64(k):
    for x in (np.array([[1, 2, 5]]), np.array([True, False]), np.array(3, np.uint8)):
        for name in SOFTMAXES[:2]:
            close(getattr(k, name)(k.adopt(x), None), getattr(N, name)(x, None), "float64", name)


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, -2)], ids=str)
def test_softmaxes_refuse_an_axis(k, axis):
    x = k.adopt(np.ones((2, 3)))
    for name in SOFTMAXES:
        args = (axis, False) if name == "logsumexp" else (axis,)
        with pytest.raises(ValueError, match=rf"{name}: axis .* of an array of shape \(2, 3\): distinct axes from -2 to 1 are needed"):
            getattr(k, name)(x, *args)


# ---------------------------------------------------------------- batchnorm and layernorm

SIDES = {"batchnorm": 1, "layernorm": -1}


def parameters(x, axis, learnt):
    """scale and bias, or None."""
    n = x.shape[axis]
    return (numbers(n, x.dtype.name, 1), numbers(n, x.dtype.name, 2)) if learnt else (None, None)


def normalised(k, name, x, layout, learnt=True, eps=1e-3, factor=1):
    """The kernel and its transpose for x, against those in float64."""
    dtype, what = x.dtype.name, f"{name} {x.shape} {layout} {learnt}"
    vectors = parameters(x, SIDES[name], learnt)
    adopted = [None if v is None else k.adopt(v) for v in vectors]
    exact, *vectors = (None if v is None else v.astype(float) for v in (x, *vectors))
    X = laid(k, x, layout)
    y, mean, var = getattr(N, name)(exact, *vectors, eps)
    for v, e, t in zip(getattr(k, name)(X, *adopted, eps), (y, mean, var), (dtype, wide(dtype), wide(dtype)), strict=True):
        close(v, e, t, what, factor)
    mean, inv = mean.astype(wide(dtype)), ((var + eps) ** -0.5).astype(wide(dtype))
    for order in {layout, "row-major"}:
        dy = numbers(x.shape, dtype, 3)
        found = getattr(k, name + "_x")(laid(k, dy, order), X, k.adopt(mean), k.adopt(inv), adopted[0])
        expected = getattr(N, name + "_x")(dy.astype(float), exact, mean.astype(float), inv.astype(float), vectors[0])
        for which, v, e in zip(("dx", "dscale", "dbias"), found, expected, strict=True):
            close(v, e, dtype, f"{what} {which}", 4 * factor)  # sums of products of numbers up to about 10


@few
@given(st.data())
def test_batchnorm_of_any_layout(k, data):
    shape = (data.draw(st.integers(1, 5)), data.draw(st.integers(0, 9)), *data.draw(st.lists(st.integers(1, 5), max_size=3)))
    layout, dtype = data.draw(st.sampled_from([*LAYOUTS, "channels last"])), data.draw(st.sampled_from(["float32", "float64"]))
    normalised(k, "batchnorm", numbers(shape, dtype), layout, data.draw(st.booleans()))


@DTYPES
@pytest.mark.parametrize("layout", ["row-major", "channels last"])
@pytest.mark.parametrize("shape", [(2, 16, 4, 4), (3, 5, 7, 7), (2, 3, 33, 31), (300, 6), (40, 1, 40)], ids=str)
def test_batchnorm(k, shape, layout, dtype):
    normalised(k, "batchnorm", numbers(shape, dtype), layout)


@pytest.mark.parametrize("shape", [(40, 3, 7, 5), (40, 8, 6), (70, 8), (400, 3)], ids=str)
def test_threads_go_on_to_further_elements(k, monkeypatch, shape):
    """As they do in arrays of some million elements: here one block has them all."""
    from autotape.backends.pycuda_backend import normalisation

    monkeypatch.setattr(normalisation, "blocks_for", lambda n: 1)
    monkeypatch.setattr(normalisation, "threads_for", lambda n: 32)
    normalised(k, "batchnorm", numbers(shape), "row-major")


@few
@given(st.data())
def test_layernorm_of_any_layout(k, data):
    shape = (*data.draw(st.lists(st.integers(1, 4), max_size=3)), data.draw(st.integers(1, 40)))
    layout, dtype = data.draw(st.sampled_from(LAYOUTS)), data.draw(st.sampled_from(["float32", "float64"]))
    normalised(k, "layernorm", numbers(shape, dtype), layout, data.draw(st.booleans()))


@DTYPES
@pytest.mark.parametrize("shape", [(5,), (40, 1), (3, 32), (2, 3, 33), (2, 1024), (300, 40), (2, 2500), (1, 9001), (2, 8200)], ids=str)
def test_layernorm(k, shape, dtype):
    normalised(k, "layernorm", numbers(shape, dtype), "row-major", factor=2)


def test_many_blocks_share_a_channel_and_put_it_together(k, launched):
    """The mean is a thousand times the deviation: a sum of squares would have no digits left."""
    for shape, layout in [((2, 2, 120, 130), "row-major"), ((2, 3, 100, 60), "channels last")]:
        x = numbers(shape, "float32", mean=2000)
        X = laid(k, x, layout)
        _, mean, var = k.batchnorm(X, None, None, 1e-5)
        _, *expected = N.batchnorm(x.astype(float), None, None, 1e-5)
        np.testing.assert_allclose(mean, expected[0], 1e-6)
        np.testing.assert_allclose(var, expected[1], 1e-5)
    _, mean, var = k.layernorm(k.adopt(x.reshape(4, -1)), None, None, 1e-5)
    _, *expected = N.layernorm(x.reshape(4, -1).astype(float), None, None, 1e-5)
    np.testing.assert_allclose(var, expected[1], 1e-5)
    assert {"moments_planes_full", "moments_channels", "forward_long_full"} <= set(launched)


def test_a_constant_has_no_variance(k):
    x = k.adopt(np.full((30, 40, 5), 0.1))
    for name in SIDES:
        y, _, var = getattr(k, name)(x, None, None, 1e-3)
        assert np.abs(np.asarray(y)).max() < 1e-14 and np.asarray(var).max() < 1e-30, name


@pytest.mark.parametrize("name", SIDES)
def test_infinities_and_nan_stay_in_their_channel_or_row(k, name):
    x = numbers((5, 6, 7) if name == "batchnorm" else (30, 7))
    for i, value in ((1, np.nan), (2, np.inf), (3, -np.inf)):
        x[(0, i, 2) if name == "batchnorm" else (i, 2)] = value
    found, expected = getattr(k, name)(k.adopt(x), None, None, 1e-3), getattr(N, name)(x, None, None, 1e-3)
    dy = np.ones_like(x)
    inv = (expected[2] + 1e-3) ** -0.5
    found += getattr(k, name + "_x")(k.adopt(dy), k.adopt(x), k.adopt(expected[1]), k.adopt(inv), None)
    expected += getattr(N, name + "_x")(dy, x, expected[1], inv, None)
    for i, (v, e) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(v, e, 1e-11, 1e-11, err_msg=f"result {i}")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 3, 4), (2, 3, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", SIDES)
def test_of_nothing(k, name, shape):
    x = np.ones(shape)
    found, expected = getattr(k, name)(k.adopt(x), None, None, 1e-3), getattr(N, name)(x, None, None, 1e-3)
    found += getattr(k, name + "_x")(k.adopt(x), k.adopt(x), *map(k.adopt, expected[1:]), None)
    expected += getattr(N, name + "_x")(x, x, *expected[1:], None)
    for i, (v, e) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(v, e, f"result {i}", strict=True)


def test_dtypes_are_promoted_as_numpy_does(k):
    x, vector = np.ones((4, 3)), np.ones(3)
    for name in SIDES:
        for types in (("float16", "float32"), ("float32", "float64"), ("int64", "int64"), ("bool", "float32"), ("float16", "float16")):
            a, s, b = x.astype(types[0]), vector.astype(types[1]), vector.astype(types[0])
            expected = getattr(N, name)(a, s, b, 1e-3)
            found = getattr(k, name)(k.adopt(a), k.adopt(s), k.adopt(b), 1e-3)
            assert [v.dtype for v in found] == [v.dtype for v in expected], (name, types)
            g = x.astype(types[1])
            expected = getattr(N, name + "_x")(g, a, *expected[1:], None)
            found = getattr(k, name + "_x")(k.adopt(g), k.adopt(a), *found[1:], None)
            assert [v.dtype for v in found] == [v.dtype for v in expected], (name, types)


def test_the_same_bits_every_time(k):
    x = k.adopt(numbers((3, 5, 41, 40), "float32"))
    rows = k.reshape(x, (123, 200))

    def results():
        _, mean, var = k.batchnorm(x, None, None, 1e-3)
        yield from k.batchnorm_x(x, x, mean, var, None)
        yield from k.layernorm(rows, None, None, 1e-3)
        yield from k.layernorm_x(rows, rows, *k.layernorm(rows, None, None, 1e-3)[1:], None)
        yield k.logsumexp(x, None, False)
        yield k.softmax(x, None)

    once, again = ([np.asarray(v).tobytes() for v in results()] for _ in range(2))
    assert once == again


def test_batchnorm_and_layernorm_refuse_shapes(k):
    one = lambda *shape: k.adopt(np.ones(shape))  # noqa: E731
    refused = [
        ("batchnorm", (one(3), None, None, 1e-3), r"batchnorm: x has shape \(3,\), and \(N, C, \*spatial\) is needed"),
        ("layernorm", (one(), None, None, 1e-3), r"layernorm: x has shape \(\), and \(\.\.\., C\) is needed"),
        ("batchnorm", (one(2, 3), one(2), None, 1e-3), r"batchnorm: scale has shape \(2,\) where \(3,\) is needed"),
        ("layernorm", (one(2, 3), None, one(1, 3), 1e-3), r"layernorm: bias has shape \(1, 3\) where \(3,\) is needed"),
        ("batchnorm_x", (one(2, 3), one(2, 3), one(3), one(2), None), r"batchnorm_x: inv has shape \(2,\)"),
        ("batchnorm_x", (one(3), one(2, 3), one(3), one(3), None), r"batchnorm_x: dy has shape \(3,\) where \(2, 3\) is needed"),
        ("layernorm_x", (one(2, 3), one(2, 3), one(2), one(3), None), r"layernorm_x: inv has shape \(3,\) where \(2,\) is needed"),
    ]
    for name, args, message in refused:
        with pytest.raises(ValueError, match=message):
            getattr(k, name)(*args)
