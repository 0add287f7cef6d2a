"""The NumPy backend's kernels against loops and formulas written out, with every promise of the contract checked at each call.

Numbers are mostly small integers held in floats: sums come out exact, so values are compared for equality, and maxima have ties.
"""

from __future__ import annotations

import itertools
import math
import pickle
import threading
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotape.backends.kernels import Geometry, Kernels
from autotape.backends.numpy_backend import NumpyKernels, arrays, windows

pytestmark = pytest.mark.numpy_only("NumPy's kernels")

TABLE = NumpyKernels()
VIEWS = {"adopt", "to_numpy", "astype", "sum_to", "reshape", "transpose", "broadcast_to", "getitem", "real", "imag"}
FLOATS = [np.float16, np.float32, np.float64]
many, some = (settings(max_examples=n * settings().max_examples // 2) for n in (3, 1))
seeds = st.integers(0, 2**32 - 1)


class Checked:
    """The table of kernels; each call is checked for what the contract promises of all of them."""

    def __getattr__(self, name):
        kernel = getattr(TABLE, name)

        def call(*arguments):
            given = [a for a in flat(arguments) if isinstance(a, np.ndarray)]
            before = [a.tobytes() for a in given]
            y = kernel(*arguments)
            assert type(y) is np.ndarray, f"{name} returned {type(y)}"
            assert [a.tobytes() for a in given] == before, f"{name} changed an argument"
            assert name in VIEWS or not any(np.shares_memory(y, a) for a in given), f"{name} returned a view"
            return y

        return call


K = Checked()


def flat(values):
    return itertools.chain.from_iterable(flat(v) if isinstance(v, (tuple, list)) else (v,) for v in values)


def laid_out(x, layout):
    """x as it is, but with other strides."""
    if layout == "reversed" and x.ndim:
        x = x[(slice(None, None, -1),) * x.ndim].copy()[(slice(None, None, -1),) * x.ndim]
    elif layout == "fortran":
        x = np.asarray(x, order="F")
    elif layout == "batch last" and x.ndim:
        x = np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0)
    elif layout == "strided":
        x = np.repeat(x, 2, -1)[..., ::2] if x.ndim else x
    elif layout == "read-only":
        x = x.copy()
        x.setflags(write=False)
    return x


layouts = st.sampled_from(["plain", "reversed", "fortran", "batch last", "strided", "read-only"])
shapes = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3).map(tuple)


def integers(rng, shape, dtype=np.float64):
    return rng.integers(-3, 4, shape).astype(dtype)


def numbers(rng, shape, dtype):
    """Ordinary and special numbers of a dtype."""
    x = np.asarray(rng.standard_normal(shape) * 3)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
    if np.dtype(dtype).kind == "f":
        return np.where(rng.random(shape) < 0.3, rng.choice(special, shape), x).astype(dtype)
    return x.astype(dtype)


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- the table


def test_the_table_is_the_contract():
    contract = {name for name in (*vars(Kernels), *Kernels.__annotations__) if not name.startswith("_")}
    table = {name for name in dir(TABLE) if not name.startswith("_")}
    assert table == contract | {"unavailable"}
    assert NumpyKernels.unavailable() is None and TABLE.name == "numpy" and TABLE.array is np.ndarray


def test_an_extending_backend_overrides_a_kernel_as_a_method():
    class Mine(NumpyKernels):
        def tanh(self, x):
            return x

    assert Mine().tanh(3) == 3 and Mine().sin is TABLE.sin


# ---------------------------------------------------------------- elementwise

UNARY = [name for name, kind in Kernels.__annotations__.items() if kind == "Unary" and hasattr(np, name)]
BINARY = [name for name, kind in Kernels.__annotations__.items() if kind == "Binary"]


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=settings().max_examples // 7)
@given(shapes, layouts, st.sampled_from([*FLOATS, np.int64]), seeds)
def test_a_unary_kernel_is_numpys(name, shape, layout, dtype, seed):
    x = laid_out(numbers(np.random.default_rng(seed), shape, dtype), layout)
    with np.errstate(all="ignore"):
        same(getattr(K, name)(x), np.asarray(getattr(np, name)(x)))


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=settings().max_examples // 7)
@given(shapes, st.integers(0, 3), layouts, st.sampled_from([*FLOATS, np.int64]), st.sampled_from([*FLOATS, np.int64]), seeds)
def test_a_binary_kernel_is_numpys(name, shape, dropped, layout, a_dtype, b_dtype, seed):
    rng = np.random.default_rng(seed)
    a = laid_out(numbers(rng, shape, a_dtype), layout)
    b = numbers(rng, tuple(1 if i % 2 else n for i, n in enumerate(shape))[dropped:], b_dtype)
    b = np.abs(b) + 1 if name == "power" else b  # integers refuse negative powers
    with np.errstate(all="ignore"):
        same(getattr(K, name)(a, b), np.asarray(getattr(np, name)(a, b)))
        same(getattr(K, name)(a, TABLE.scalar(2, a.dtype)), np.asarray(getattr(np, name)(a, 2)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_sigmoid_is_exact_at_both_ends_and_never_warns(dtype):
    x = np.array([-np.inf, -1e4, -80, -15, -1, -0.0, 0.5, 15, 80, 1e4, np.inf, np.nan]).astype(dtype)
    with np.errstate(over="ignore"):
        expected = 1 / (1 + np.exp(-x.astype(np.longdouble)))
    y = K.sigmoid(x)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, expected.astype(dtype), rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
    assert K.sigmoid(np.asarray(0, dtype)).shape == ()
    np.testing.assert_allclose(K.sigmoid(np.array([0, 1], np.uint8)), [0.5, 1 / (1 + np.exp(-1.0))])


@some
@given(shapes, st.integers(-1, 2), st.sampled_from(FLOATS), seeds)
def test_round_is_numpys(shape, decimals, dtype, seed):
    x = numbers(np.random.default_rng(seed), shape, dtype)
    same(K.round(x, decimals), np.asarray(np.round(x, decimals)))


@many
@given(
    st.sampled_from([(), (0,), (5,), (3000,), (3, 1000)]), layouts, st.sampled_from([*FLOATS, np.int32, np.complex128]), seeds, st.data()
)
def test_where_takes_the_bits_of_one_or_the_other(shape, layout, dtype, seed, data):
    rng = np.random.default_rng(seed)

    def operand():
        kind = data.draw(st.sampled_from(["array", "row", "zero", "minus zero", "number"]))
        return {
            "array": lambda: laid_out(numbers(rng, shape, dtype), layout),
            "row": lambda: numbers(rng, shape[-1:], dtype),
            "zero": lambda: np.zeros((), dtype),
            "minus zero": lambda: np.asarray(-0.0).astype(dtype),
            "number": lambda: TABLE.scalar(data.draw(st.sampled_from([0, 0.0, -0.0, 2, 0.5])), np.dtype(dtype)),
        }[kind]()

    mask, a, b = laid_out(rng.random(shape) < 0.5, layout), operand(), operand()
    expected = np.where(mask, a, b)
    y = K.where(mask, a, b)
    same(y, expected)
    assert y.tobytes() == expected.tobytes()


def test_shapes_and_dtypes_that_do_not_fit_raise():
    with pytest.raises(ValueError):
        K.add(np.ones(2), np.ones(3))
    with pytest.raises(TypeError):
        K.subtract(np.ones(2, bool), np.ones(2, bool))
    with pytest.raises(ValueError):
        K.where(np.ones(3000, bool), np.ones(2999), np.zeros(()))
    with pytest.raises(TypeError, match="ndarrays, not ndarray and list"):
        K.where(np.ones(2, bool), np.ones(2), [1.0, 2.0])


def test_a_rule_is_its_own_compilation():
    assert TABLE.compile_elementwise(math.hypot, None) is math.hypot


# ---------------------------------------------------------------- in and out, made, reshaped


def test_adopt_takes_numbers_only():
    class Sub(np.ndarray): ...

    class Tracked:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("use stack")

    x = np.arange(3.0)
    assert TABLE.adopt(x) is x
    assert type(TABLE.adopt(x.view(Sub))) is np.ndarray and np.shares_memory(TABLE.adopt(x.view(Sub)), x)
    same(TABLE.adopt(np.float32(2)), np.asarray(2, np.float32))
    same(TABLE.adopt([[1, 2], (3.0, 4)]), np.array([[1.0, 2], [3, 4]]))
    same(TABLE.adopt([]), np.array([]))
    for foreign in ("abc", ["abc"], None, [None], 2.0, {1: 2}, np.array(["a"]), np.array([None]), np.array(["2020"], "M8[Y]")):
        assert TABLE.adopt(foreign) is None
    with pytest.raises(TypeError, match="use stack"):
        TABLE.adopt([1.0, Tracked()])


@some
@given(
    st.one_of(st.floats(width=16), st.integers(-100, 100), st.booleans(), st.complex_numbers(max_magnitude=10)),
    st.sampled_from([*FLOATS, np.int64, np.complex64]).map(np.dtype),
)
def test_scalar_is_numpys_weak_promotion(value, dtype):
    expected = np.asarray(value, np.result_type(dtype, value))
    for _ in range(2):
        x = TABLE.scalar(value, dtype)
        same(x, expected)
        assert x.tobytes() == expected.tobytes() and not x.flags.writeable


def test_scalar_keeps_apart_what_compares_equal():
    f4 = np.dtype(np.float32)
    assert [TABLE.scalar(v, np.dtype(int)).dtype.kind for v in (1, 1.0, True, 1, 1.0)] == ["i", "f", "i", "i", "f"]
    assert [np.signbit(TABLE.scalar(v, f4)) for v in (0.0, -0.0, 0, 0.0, -0.0)] == [False, True, False, False, True]
    assert TABLE.scalar(0.5, f4) is TABLE.scalar(0.5, f4) and TABLE.scalar(np.float64(0.5), f4).dtype == np.float64


def test_the_cache_of_scalars_is_bounded_and_safe_among_threads():
    def fill(first):
        for i in range(3000):
            value = first + i / 7
            if TABLE.scalar(value, np.dtype(np.float64)) != value:
                wrong.append(value)

    wrong = []
    threads = [threading.Thread(target=fill, args=(1000.0 * n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    TABLE.scalar(math.nan, np.dtype(np.float64))
    assert not wrong and len(arrays._scalars) <= arrays._SCALARS_KEPT + 4
    assert all(x == x for x in arrays._scalars.values())


@many
@given(shapes, layouts, seeds)
def test_making_copying_and_reshaping_are_numpys(shape, layout, seed):
    x = laid_out(numbers(np.random.default_rng(seed), shape, np.float32), layout)
    same(K.copy(x), x)
    assert K.copy(x).flags.owndata and K.copy(x).flags.writeable and K.copy(x).strides == x.copy("K").strides
    same(K.zeros(shape, np.float16), np.zeros(shape, np.float16))
    same(K.ones(shape, np.int32), np.ones(shape, np.int32))
    same(K.full(shape, 7, np.float32), np.full(shape, 7, np.float32))
    assert TABLE.to_numpy(x) is x and TABLE.astype(x, np.float32) is x
    same(K.astype(x, np.float64), x.astype(np.float64))
    same(K.astype(x.astype(np.complex128), np.float32), x)
    same(K.reshape(x, (1, -1) if x.size else (0, 2)), x.reshape((1, -1) if x.size else (0, 2)))
    same(K.transpose(x, None), x.T)
    axes = tuple(np.random.default_rng(seed).permutation(x.ndim).tolist())
    same(K.transpose(x, axes), x.transpose(axes))
    same(K.broadcast_to(x, (2, *shape)), np.broadcast_to(x, (2, *shape)))
    if x.ndim:
        widths = tuple((i, 2) for i in range(x.ndim))
        same(K.pad(x, widths, 1.5), np.pad(x, widths, constant_values=1.5))
        same(K.concatenate((x, x.astype(np.float64)), -1), np.concatenate((x, x.astype(np.float64)), -1))


def test_broadcast_to_and_pad_refuse_what_does_not_fit():
    for shape in [(3,), (2, 3), (), (-1, 2), (2, -1), (-2, 2)]:
        with pytest.raises(ValueError):
            K.broadcast_to(np.ones(2), shape)
    with pytest.raises(ValueError):
        K.pad(np.ones((2, 2)), ((1, 1),), 0.0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_depends_on_seed_shape_and_dtype_alone(dtype):
    x = K.uniform(5, (100, 40), dtype)
    same(x, K.uniform(5, (100, 40), dtype))
    assert x.dtype == dtype and x.min() >= 0 and x.max() < 1 and abs(x.astype(float).mean() - 0.5) < 0.02
    assert not np.array_equal(x, K.uniform(6, (100, 40), dtype))
    assert K.uniform(5, (), dtype).shape == () and K.uniform(5, (0, 3), dtype).size == 0
    if dtype is not np.float16:
        same(x, np.random.Generator(np.random.Philox(key=5)).random((100, 40), dtype))


# ---------------------------------------------------------------- reductions


@st.composite
def axes_of(draw, ndim):
    if ndim == 0 or draw(st.booleans()):
        return draw(st.sampled_from([None, ()]))
    axes = draw(st.lists(st.integers(0, ndim - 1), min_size=1, unique=True))
    return axes[0] - ndim if len(axes) == 1 else tuple(axes)


@many
@given(shapes, layouts, st.sampled_from([*FLOATS, np.int32, np.bool_]), st.booleans(), seeds, st.data())
def test_reductions_are_numpys(shape, layout, dtype, keepdims, seed, data):
    x = laid_out(numbers(np.random.default_rng(seed), shape, dtype), layout)
    axis = data.draw(axes_of(x.ndim))
    with np.errstate(all="ignore"):
        for name in ("sum", "prod", "any", "all", *(("max", "min") if x.size else ())):
            same(getattr(K, name)(x, axis, keepdims), np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims)))
        if x.size and not isinstance(axis, tuple):
            for name in ("argmax", "argmin"):
                same(getattr(K, name)(x, axis, keepdims), np.asarray(getattr(np, name)(x, axis, keepdims=keepdims)))
        if x.ndim:
            same(K.cumsum(x, -1), np.cumsum(x, -1))


def test_the_maximum_of_nothing_raises():
    with pytest.raises(ValueError):
        K.max(np.ones((0, 2)), 0, False)


@pytest.mark.parametrize("dtype", [">f4", ">i2", "<f2", "<i8"])
def test_sums_of_numbers_in_another_byte_order(dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    for y in (K.sum_to(x, (4,)), K.sum_to(x, (1, 4)), K.einsum("ij->j", [x])):
        np.testing.assert_array_equal(y.ravel(), [12, 15, 18, 21])
        assert y.dtype == x.dtype.newbyteorder("=")


@many
@given(shapes, st.integers(0, 3), st.sampled_from([*FLOATS, np.int8]), seeds, st.data())
def test_sum_to_is_the_transpose_of_broadcast_to(shape, dropped, dtype, seed, data):
    small = tuple(1 if data.draw(st.booleans()) else n for n in shape)[dropped:]
    rng = np.random.default_rng(seed)
    x, v = integers(rng, shape, dtype), integers(rng, small, dtype)
    y = K.sum_to(x, small)
    assert y.shape == small and y.dtype == dtype
    assert (y.astype(int) * v.astype(int)).sum() == (x.astype(int) * np.broadcast_to(v, shape).astype(int)).sum()
    with pytest.raises(ValueError):
        K.sum_to(x, (2, *shape))


# ---------------------------------------------------------------- indexing


@st.composite
def indices(draw, shape):
    """Anything NumPy takes: numbers, slices, new axes, ellipsis, integer arrays with repeats, masks."""
    if draw(st.booleans()) and shape:
        kind = draw(st.sampled_from(["mask", "integers", "list"]))
        if kind == "mask":
            return np.array(draw(st.lists(st.booleans(), min_size=math.prod(shape), max_size=math.prod(shape))), bool).reshape(shape)
        values = draw(st.lists(st.integers(-shape[0], shape[0] - 1), max_size=4)) if shape[0] else []
        return np.array(values, int) if kind == "integers" or not values else values
    index = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        part = draw(st.sampled_from(["slice", "number", "array", "slice"] if n else ["slice"]))
        step = draw(st.sampled_from([None, 1, -1, 2]))
        index.append(
            slice(draw(st.none() | st.integers(-3, 3)), draw(st.none() | st.integers(-3, 3)), step)
            if part == "slice"
            else draw(st.integers(-n, n - 1)) if part == "number" else np.array([[n - 1], [0], [n - 1]])
        )
    if draw(st.booleans()):
        index.insert(draw(st.integers(0, len(index))), None)
    if len(index) and draw(st.booleans()):
        index.append(...)
    return tuple(index)


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3).map(tuple), layouts, seeds, st.data())
def test_indexing_and_its_transposes(shape, layout, seed, data):
    rng = np.random.default_rng(seed)
    index = data.draw(indices(shape))
    x = laid_out(integers(rng, shape, np.float32), layout)
    y = K.getitem(x, index)
    same(y, np.asarray(x[index]))
    v = laid_out(integers(rng, y.shape, np.float32), layout)

    places = np.arange(x.size).reshape(shape)[index]
    expected = np.zeros(x.size, np.float32)
    for place, value in zip(np.ravel(places), v.ravel(), strict=True):
        expected[place] += value
    same(K.scatter_add(v, index, shape), expected.reshape(shape))

    changed = x.copy()
    changed[index] = v
    same(K.index_set(x, index, v), changed)


def test_scatter_add_of_long_rows_adds_repeats_up():
    rng = np.random.default_rng(0)
    index, v = rng.integers(-5, 5, (3, 4)), integers(rng, (3, 4, 2, 100), np.float32)
    expected = np.zeros((5, 2, 100), np.float32)
    np.add.at(expected, index, v)
    same(K.scatter_add(v, index, (5, 2, 100)), expected)
    with pytest.raises(IndexError):
        K.scatter_add(v, index + 5, (5, 2, 100))


@many
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple), st.integers(0, 4), seeds, st.data())
def test_along_an_axis(shape, length, seed, data):
    rng = np.random.default_rng(seed)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = integers(rng, shape, np.float32)
    taken_shape = list(shape)
    taken_shape[axis] = length
    index = rng.integers(-shape[axis], shape[axis], taken_shape)
    same(K.take_along_axis(x, index, axis), np.take_along_axis(x, index, axis))
    v = integers(rng, taken_shape, np.float32)
    expected = np.zeros(shape, np.float32)
    for at in np.ndindex(*taken_shape):
        to = list(at)
        to[axis] = index[at]
        expected[tuple(to)] += v[at]
    same(K.scatter_along_axis(v, index, axis, shape), expected)


def test_scatter_along_an_axis_where_indices_stretch_another():
    index, v = np.array([[1], [1], [-3]]), np.ones((3, 1), np.float32)
    same(K.scatter_along_axis(v, index, 1, (1, 4)), np.array([[0, 3, 0, 0]], np.float32))


# ---------------------------------------------------------------- products


def test_float16_goes_through_float32_whatever_its_dtype_object():
    x = pickle.loads(pickle.dumps(np.ones((2, 2), np.float16)))
    assert x.dtype is not np.dtype(np.float16)
    with mock.patch.object(np, "matmul", wraps=np.matmul) as spy:
        same(K.matmul(x, np.ones((2, 2), np.float16)), np.full((2, 2), 2, np.float16))
    assert [a.dtype for a in spy.call_args.args] == [np.float32] * 2


@many
@given(st.sampled_from(["2 2", "1 2", "2 1", "1 1", "3 2", "4 3", "3 3"]), layouts, st.sampled_from([*FLOATS, np.int64]), seeds, st.data())
def test_matmul_is_numpys(ndims, layout, dtype, seed, data):
    rng = np.random.default_rng(seed)
    i, k, j = (data.draw(st.integers(0, 3)) for _ in range(3))
    a_ndim, b_ndim = map(int, ndims.split())
    a = integers(rng, (2, 2, i, k)[4 - a_ndim :], dtype)
    b = integers(rng, (2, 2, k, j)[4 - b_ndim :] if b_ndim > 1 else (k,), dtype)
    same(K.matmul(laid_out(a, layout), laid_out(b, layout)), np.asarray(np.matmul(a, b)))
    with pytest.raises(ValueError):
        K.matmul(a, integers(rng, (k + 1, 2), dtype))


EINSUMS = [
    *("ij,jk->ik", "ij,jk->ki", "ij,ij->ij", "ij,ij->", "ij,ji->i", "i,j->ij", "ij,k->i", "aij,jk->ik", ",ij->ij", "ii,ij->j"),
    *("bij,bjk->bik", "bhqd,bhkd->bhqk", "ijk,kl->lij", "ij->ji", "ii->i", "ii->", "ij->", "ij->ij", "ijk->ki", "ij,jk,kl->il", "ij,j,i->"),
]


@pytest.mark.parametrize("subscripts", EINSUMS)
@settings(max_examples=settings().max_examples // 8)
@given(st.integers(0, 3), layouts, st.sampled_from([np.float32, np.int64]), seeds)
def test_einsum_is_numpys(subscripts, first, layout, dtype, seed):
    rng = np.random.default_rng(seed)
    size = {letter: (first + n) % 4 for n, letter in enumerate(sorted(set(subscripts) - set("->,")))}
    xs = [laid_out(integers(rng, tuple(size[c] for c in term), dtype), layout) for term in subscripts.split("->")[0].split(",")]
    same(K.einsum(subscripts, xs), np.asarray(np.einsum(subscripts, *xs)))


def test_einsum_broadcasts_and_refuses_as_numpy_does():
    same(K.einsum("ij,jk->ik", [np.ones((2, 1)), np.ones((3, 2))]), np.full((2, 2), 3.0))
    with pytest.raises(ValueError):
        K.einsum("ij,jk->ik", [np.ones((2, 2)), np.ones((3, 2))])


# ---------------------------------------------------------------- normalisation


@many
@given(shapes, layouts, st.sampled_from(FLOATS), st.sampled_from([1.0, 1000.0]), seeds, st.data())
def test_softmax_and_its_logarithms(shape, layout, dtype, scale, seed, data):
    x = laid_out((np.asarray(np.random.default_rng(seed).standard_normal(shape)) * scale).astype(dtype), layout)
    axis = data.draw(axes_of(x.ndim))
    wide = x.astype(np.longdouble)
    m = wide.max(axis, keepdims=True, initial=-1e30)
    with np.errstate(divide="ignore"):
        logsumexp = np.log(np.exp(wide - m).sum(axis, keepdims=True)) + m
    close = {"rtol": 8 * np.finfo(dtype).eps, "atol": 8 * scale * np.finfo(dtype).eps}
    for y, expected in [
        (K.logsumexp(x, axis, True), logsumexp),
        (K.logsumexp(x, axis, False), logsumexp.sum(axis)),
        (K.logsoftmax(x, axis), wide - logsumexp),
        (K.softmax(x, axis), np.exp(wide - logsumexp)),
    ]:
        assert y.dtype == dtype and y.shape == expected.shape
        np.testing.assert_allclose(y, expected.astype(dtype), **close)


def test_infinite_rows_never_warn():
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 1e30], [-inf, 2], [3e38, -3e38], [np.nan, 0]], np.float32)
    np.testing.assert_array_equal(K.logsumexp(x, 1, False), np.array([-inf, inf, 2, 3e38, np.nan], np.float32))
    np.testing.assert_array_equal(K.softmax(x, 1), [[np.nan] * 2, [np.nan, 0], [0, 1], [1, 0], [np.nan] * 2])
    np.testing.assert_array_equal(K.logsoftmax(x, 1)[[0, 1, 2, 4], 1], [np.nan, -inf, 0, np.nan])
    assert K.logsumexp(np.zeros((2, 0)), 1, False).tolist() == [-inf, -inf]
    assert K.softmax(np.array([1, 1]), 0).tolist() == [0.5, 0.5]


# ---------------------------------------------------------------- convolution


@st.composite
def geometries(draw, is_pool=False):
    """A geometry and the spatial shape of x; the window may be larger than x, and may lie in the padding."""
    d = draw(st.integers(1, 3))

    def each(values):
        return tuple(draw(values) for _ in range(d))

    sides = st.integers(0, 2)
    window = each(st.integers(1, 3))
    geometry = Geometry(
        window=window,
        padding=each(st.tuples(sides, sides)),
        stride=window if draw(st.booleans()) else each(st.integers(1, 3)),
        dilation=each(st.sampled_from([1, 1, 2])),
        group=1 if is_pool else draw(st.integers(1, 3)),
        flip=not is_pool and draw(st.booleans()),
    )
    spatial = each(st.sampled_from([0, 1, 2, 3, 4, 5, 6]))
    assume(min(geometry.output(spatial)) >= 0)
    return geometry, spatial


def met(g, spatial):
    """(output position, tap, input position) wherever a window's tap meets an element of x; taps in row-major order."""
    for at in np.ndindex(*g.output(spatial)):
        for tap in np.ndindex(*g.window):
            to = tuple(o * s + t * d - p[0] for o, s, t, d, p in zip(at, g.stride, tap, g.dilation, g.padding, strict=True))
            if all(0 <= i < n for i, n in zip(to, spatial, strict=True)):
                yield at, tap, to


def slow_conv(w, x, g):
    y = np.zeros((len(x), len(w), *g.output(x.shape[2:])), x.dtype)
    c, k = w.shape[1], len(w) // g.group
    for at, tap, to in met(g, x.shape[2:]):
        place = tuple(n - 1 - t for n, t in zip(g.window, tap, strict=True)) if g.flip else tap
        for i in range(g.group):
            y[(slice(None), slice(i * k, (i + 1) * k), *at)] += (
                x[(slice(None), slice(i * c, (i + 1) * c), *to)] @ w[(slice(i * k, (i + 1) * k), slice(None), *place)].T
            )
    return y


@settings(max_examples=5 * settings().max_examples)
@given(
    geometries(),
    st.sampled_from([0, 1, 2, 3, 17]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([1.0, -0.5]),
    layouts,
    layouts,
    st.integers(1, 40),
    seeds,
)
def test_convolution_and_its_transposes(problem, n, c, k, dtype, alpha, x_layout, y_layout, columns, seed):
    g, spatial = problem
    rng = np.random.default_rng(seed)
    w = laid_out(integers(rng, (k * g.group, c, *g.window), dtype), x_layout)
    x = laid_out(integers(rng, (n, c * g.group, *spatial), dtype), x_layout)
    expected = slow_conv(w, x, g) * dtype(alpha)
    dy = laid_out(integers(rng, expected.shape, dtype), y_layout)
    with mock.patch.multiple(windows, _CACHE=1, _COLUMNS=columns):  # a cache so small that the work falls into many parts
        same(K.conv(w, x, g, alpha), expected)
        dx, dw = K.conv_x(w, dy, x.shape, g, alpha), K.conv_w(x, dy, w.shape, g, alpha)
    assert (dx.shape, dx.dtype, dw.shape, dw.dtype) == (x.shape, dtype, w.shape, dtype)
    du, dv = integers(rng, x.shape, dtype), integers(rng, w.shape, dtype)
    assert (dx * du).sum() == alpha * (dy * slow_conv(w, du, g)).sum()
    assert (dw * dv).sum() == alpha * (dy * slow_conv(dv, x, g)).sum()


def test_dtypes_of_a_convolution():
    g = Geometry((2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1))
    rng = np.random.default_rng(0)
    for w_dtype, x_dtype in itertools.product([*FLOATS, np.int64], repeat=2):
        w, x = integers(rng, (3, 2, 2, 2), w_dtype), integers(rng, (2, 2, 4, 4), x_dtype)
        same(K.conv(w, x, g, 1.0), slow_conv(w.astype(float), x.astype(float), g).astype(np.result_type(w, x)))
        assert K.conv(w, x, g, 0.5).dtype == np.result_type(w, x, 0.5)
    big = K.conv(np.full((1, 600, 1, 1), 8, np.float16), np.ones((1, 600, 2, 2), np.float16), g._replace(window=(1, 1)), 1.0)
    assert big.dtype == np.float16 and (big == 4800).all()


def test_a_convolution_of_ordinary_size():
    rng = np.random.default_rng(0)
    g = Geometry((3, 3), ((1, 1), (1, 1)), (1, 1), (1, 1))
    w, x = integers(rng, (20, 40, 3, 3), np.float32), integers(rng, (18, 40, 14, 14), np.float32)
    y = K.conv(w, x, g, 1.0)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    same(y, np.einsum("kcij,nchwij->nkhw", w, seen))
    assert (K.conv_x(w, y, x.shape, g, 1.0) * x).sum(dtype=float) == (y * y).sum(dtype=float)
    assert (K.conv_w(x, y, w.shape, g, 1.0) * w).sum(dtype=float) == (y * y).sum(dtype=float)


def test_shapes_that_no_convolution_has_are_refused_by_name():
    g = Geometry((3, 3), ((0, 0), (0, 0)), (1, 1), (1, 1))
    w, x = np.ones((4, 2, 3, 3)), np.ones((1, 2, 5, 5))
    for bad_w, bad_x, bad_g, message in [
        (w, np.ones((1, 3, 5, 5)), g, "channels"),
        (w, np.ones((1, 6, 5, 5)), g._replace(group=3), "group"),
        (np.ones((4, 2, 3)), x, g, "window"),
        (np.ones((4, 2, 2, 2)), x, g, "window"),
        (w, np.ones((1, 2, 1, 5)), g, "fit"),
    ]:
        with pytest.raises(ValueError, match=message):
            K.conv(bad_w, bad_x, bad_g, 1.0)
    with pytest.raises(ValueError, match="dy"):
        K.conv_x(w, np.ones((1, 4, 2, 2)), x.shape, g, 1.0)
    with pytest.raises(ValueError, match="dy"):
        K.conv_w(x, np.ones((1, 4, 3, 4)), w.shape, g, 1.0)
    with pytest.raises(ValueError, match="known are identity, relu"):
        K.conv_bias_act(w, x, None, None, "softplus", g, 1.0, 1.0)


def unfused(activation, y):
    zero = np.zeros((), y.dtype)
    above, below = K.maximum(y, zero), K.expm1(K.minimum(y, zero))
    return {
        "identity": lambda: y,
        "relu": lambda: above,
        "sigm": lambda: K.sigmoid(y),
        "tanh": lambda: K.tanh(y),
        "elu": lambda: above + below,
        "selu": lambda: 1.0507009873554805 * above + 1.7580993408473773 * below,
    }[activation]()


@many
@given(
    st.sampled_from(["identity", "relu", "sigm", "tanh", "elu", "selu"]),
    st.sampled_from([1, 2, 17]),
    st.sampled_from(FLOATS),
    st.sampled_from([None, np.float32, np.float64]),
    st.sampled_from([None, np.float32]),
    st.sampled_from([1.0, 0.5]),
    seeds,
)
def test_the_fused_convolution_has_the_bits_of_the_unfused(activation, n, dtype, b_dtype, z_dtype, beta, seed):
    rng = np.random.default_rng(seed)
    g = Geometry((2, 2), ((1, 0), (0, 0)), (1, 1), (1, 1))
    w, x = rng.standard_normal((3, 2, 2, 2)).astype(dtype), rng.standard_normal((n, 2, 3, 3)).astype(dtype)
    x[0, 0, 0, 0] = np.nan
    y = K.conv(w, x, g, 0.75)
    b = None if b_dtype is None else rng.standard_normal((3, 1, 1)).astype(b_dtype)
    z = None if z_dtype is None else rng.standard_normal(y.shape).astype(z_dtype)
    fused = K.conv_bias_act(w, x, b, z, activation, g, 0.75, beta)
    y = y if z is None else y + z * beta
    y = y if b is None else y + b
    expected = unfused(activation, y)
    same(fused, expected)
    assert np.isnan(fused).any()


# ---------------------------------------------------------------- pooling


def slow_max_pool(x, g):
    """The maximum of each window, and where its first one stands (a flat place in x, or none)."""
    shape = (*x.shape[:2], *g.output(x.shape[2:]))
    y, first = np.full(shape, -np.inf, x.dtype), np.full(shape, -1)
    places = np.arange(x.size).reshape(x.shape)
    for at, _, to in met(g, x.shape[2:]):
        for nc in np.ndindex(*x.shape[:2]):
            value, best = x[nc + to], y[nc + at]
            if first[nc + at] < 0 or value > best or (np.isnan(value) and not np.isnan(best)):
                y[nc + at], first[nc + at] = value, places[nc + to]
    return y, first


@settings(max_examples=4 * settings().max_examples)
@given(geometries(is_pool=True), st.sampled_from([0, 1, 3]), st.sampled_from(FLOATS), layouts, layouts, st.booleans(), seeds)
def test_max_pooling_and_its_transposes(problem, n, dtype, x_layout, y_layout, is_special, seed):
    g, spatial = problem
    c = 2 if seed % 8 else 0
    rng = np.random.default_rng(seed)
    x = integers(rng, (n, c, *spatial), dtype)
    if is_special:
        x = np.where(rng.random(x.shape) < 0.5, rng.choice(np.array([-np.inf, np.inf, np.nan]), x.shape), x).astype(dtype)
    x = laid_out(x, x_layout)
    expected, first = slow_max_pool(x, g)
    y = K.max_pool(x, g)
    same(y, expected)
    dy, v = laid_out(integers(rng, y.shape, dtype), y_layout), laid_out(integers(rng, x.shape, dtype), y_layout)
    dx, chosen = np.zeros(x.size, dtype), np.zeros(y.shape, dtype)
    np.add.at(dx, first[first >= 0], dy[first >= 0])
    chosen[first >= 0] = v.ravel()[first[first >= 0]]
    same(K.max_pool_x(dy, x, y, g), dx.reshape(x.shape))
    same(K.max_pool_at(v, x, y, g), chosen)


def test_an_infinite_cotangent_goes_to_one_place_only():
    g = Geometry((2, 2), ((0, 0), (0, 0)), (2, 2), (1, 1))
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    dy = np.array([[[[np.inf, np.nan], [1.0, -np.inf]]]])
    dx = K.max_pool_x(dy, x, K.max_pool(x, g), g)
    np.testing.assert_array_equal(dx[0, 0, 1::2, 1::2], dy[0, 0])
    assert np.count_nonzero(dx) == 4


@many
@given(geometries(is_pool=True), st.sampled_from([0, 1, 3]), st.sampled_from(FLOATS), layouts, st.booleans(), seeds)
def test_mean_pooling_and_its_transpose(problem, n, dtype, layout, count_padding, seed):
    g, spatial = problem
    rng = np.random.default_rng(seed)
    x = laid_out(integers(rng, (n, 2, *spatial), dtype), layout)
    total, count = np.zeros((n, 2, *g.output(spatial))), np.zeros(g.output(spatial))
    for at, _, to in met(g, spatial):
        total[(..., *at)] += x[(..., *to)]
        count[at] += 1
    y = K.mean_pool(x, g, count_padding)
    assert y.dtype == dtype and y.shape == total.shape
    close = {"rtol": 4 * np.finfo(dtype).eps, "atol": 4 * np.finfo(dtype).eps}
    np.testing.assert_allclose(y, total / (math.prod(g.window) if count_padding else np.maximum(count, 1)), **close)
    dy = laid_out(integers(rng, y.shape, dtype), layout)
    dx = K.mean_pool_x(dy, x.shape, g, count_padding)
    assert dx.dtype == dtype and dx.shape == x.shape
    scale = 100 * np.finfo(dtype).eps * (1 + np.abs(dy).sum(dtype=float))
    assert abs((dx.astype(float) * x).sum() - (y.astype(float) * dy).sum()) <= scale * 3


def test_pools_of_other_dtypes():
    g = Geometry((2,), ((0, 0),), (2,), (1,))
    same(K.max_pool(np.array([[[1, 5, -7, -3]]]), g), np.array([[[5, -3]]]))
    same(K.mean_pool(np.array([[[1, 4, 2, 2]]]), g, True), np.array([[[2.5, 2.0]]]))
    wide = Geometry((4000,), ((0, 0),), (1,), (1,))
    assert K.mean_pool(np.full((1, 1, 4000), 100, np.float16), wide, True).item() == 100


def test_a_window_that_does_not_fit_is_refused():
    g = Geometry((5,), ((0, 0),), (1,), (1,))
    for call in (lambda: K.max_pool(np.ones((1, 1, 3)), g), lambda: K.mean_pool(np.ones((1, 1, 3)), g, True)):
        with pytest.raises(ValueError, match="fit"):
            call()
    x, y, short = np.ones((1, 1, 6)), np.ones((1, 1, 2)), np.ones((1, 1, 1))
    for call in (
        lambda: K.max_pool_x(y, x, short, g),
        lambda: K.max_pool_x(short, x, y, g),
        lambda: K.max_pool_at(short, x, y, g),
        lambda: K.max_pool_at(x, x, short, g),
        lambda: K.mean_pool_x(short, x.shape, g, True),
        lambda: K.max_pool(np.ones((1, 6)), g),
    ):
        with pytest.raises(ValueError, match=r"shape|spatial"):
            call()


def test_every_image_of_a_network_keeps_its_place_in_either_layout():
    """conv, pool and their transposes on 20 images are those on one image at a time, whose layout is the plain one."""
    rng = np.random.default_rng(0)
    conv, pool = Geometry((3, 3), ((1, 1), (1, 1)), (1, 1), (1, 1)), Geometry((2, 2), ((0, 0), (0, 0)), (2, 2), (1, 1))
    w, x = integers(rng, (4, 2, 3, 3), np.float32), integers(rng, (20, 2, 8, 8), np.float32)

    def run(x):
        y = K.conv(w, x, conv, 1.0)
        p = K.max_pool(y, pool)
        return K.conv_x(w, K.max_pool_x(p, y, p, pool), x.shape, conv, 1.0)

    whole = run(x)
    assert K.conv(w, x, conv, 1.0).strides[0] == 4  # batch last
    same(whole, np.concatenate([run(x[i : i + 1]) for i in range(20)]))
