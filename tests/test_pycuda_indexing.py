"""The pycuda backend's indexing, joining and transposed copies against NumPy's."""

import os
import sys
from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import math_mode
from autotape.backends.numpy_backend import NumpyKernels
from autotape.rows import looked_up

N = NumpyKernels()
BFLOAT16 = ml_dtypes.bfloat16
DTYPES = [bool, np.int8, np.uint16, np.int32, np.int64, np.uint64, np.float16, BFLOAT16, np.float32, np.float64]
X = np.arange(120.0).reshape(4, 5, 6)
ROWS, J = np.array([0, 1, -1, 1, 2]), np.array([[0], [3]])
MASK = np.arange(20).reshape(4, 5) % 3 == 1
ALL = slice(None)
INDICES = [
    (), None, ..., 0, -1, np.int8(3), ALL, slice(1, 3), slice(9, 2), (ALL, -2), (slice(None, None, -2), ..., None, 1),
    (np.array(2), slice(1, None, 3)),
    ROWS, [], [1, 0, 1], [[0, 1], [2, 3]], J, (ROWS, ROWS), (J, ROWS[:2]), (ROWS, ROWS, ROWS), (ALL, ROWS, ALL), (ALL, ROWS, ROWS),
    (..., ROWS), (ALL, J, 0), (0, ALL, ROWS), (ALL, 0, ROWS),
    (ROWS, None, 0), (ROWS, ALL, ROWS), (ROWS, slice(4, 1, -1), J), (ALL, ROWS, ..., ROWS), (slice(1, 4), ROWS, slice(None, None, 2)),
    (ROWS.astype(np.int8), 1),
    True, False, np.array(True), (ROWS, True), (ALL, False), MASK, (MASK, 0), (MASK, ROWS[:1]), (ALL, MASK[0]), (MASK[:, 0], slice(1, 3)),
    (MASK[:, 0], [3]), (J, MASK[0], ALL), X > 50, np.zeros((4, 5), bool), np.zeros((0, 2), int),
]  # fmt: skip
LAYOUTS = ["dense", "reversed", "transposed", "strided"]


def some(part):
    return settings(max_examples=max(1, settings().max_examples * part // 100))


def laid(k, x, layout):
    """x on the device, with memory of this kind."""
    if layout == "transposed":
        return k.transpose(k.adopt(np.array(x.T, order="C")), None)
    if layout == "reversed":
        return k.getitem(k.adopt(np.ascontiguousarray(x[::-1])), slice(None, None, -1))
    if layout == "strided":
        return k.getitem(k.adopt(np.repeat(x, 2, -1)), (..., slice(None, None, 2)))
    return k.adopt(x)


def there(k, index):
    """The index with its arrays on the device."""
    if isinstance(index, tuple):
        return tuple(there(k, i) for i in index)
    return k.adopt(index) if isinstance(index, np.ndarray) else index


def same(y, expected):
    """Each bit alike, and shape and dtype as well."""
    y, expected = np.asarray(y), np.asarray(expected)
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(y, expected)


def values(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)  # sums of which are exact in any order


def everything_agrees(k, x, index, layout="dense", where="host"):
    """getitem, scatter_add, index_set and index_write, for an index that x takes."""
    a, i = laid(k, x, layout), index if where == "host" else there(k, index)
    same(k.getitem(a, i), N.getitem(x, index))
    v = values(N.getitem(x, index).shape, dtype=x.dtype)
    same(k.scatter_add(k.adopt(v), i, x.shape), N.scatter_add(v, index, x.shape))
    same(k.index_set(a, i, k.adopt(v)), N.index_set(x, index, v))
    same(a, x)
    out = k.copy(a)
    assert k.index_write(out, i, k.adopt(v)) is None
    same(out, N.index_set(x, index, v))


def test_a_number_that_was_adopted_is_written_to(k):
    out = k.adopt(np.array(1.5))
    k.index_write(out, (), k.adopt(np.array(2.5)))
    same(out, np.array(2.5))


# ---------------------------------------------------------------- what an index means


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("index", INDICES, ids=lambda i: repr(i).replace("\n", "")[:60])
def test_an_index(k, index, where):
    layouts = LAYOUTS if where == "host" else ["dense", "transposed"]
    for layout in layouts:
        everything_agrees(k, X, index, layout, where)


@st.composite
def indices(draw, shape):
    """An index of arrays that broadcast together, masks, slices, integers and new axes."""
    parts, places = [], draw(st.integers(1, 3))
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["slice", "integer", "array", "array", "mask"]))
        if kind == "slice":
            parts.append(draw(st.slices(n)))
        elif kind == "integer":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "array":
            size = draw(st.sampled_from([(places,), (1,), (2, 1), (2, places)]))
            parts.append(np.array(draw(st.lists(st.integers(-n, n - 1), min_size=prod(size), max_size=prod(size)))).reshape(size))
        else:
            parts.append(np.arange(n) == draw(st.integers(0, n - 1)))
        if draw(st.integers(0, 4)) == 0:
            parts.append(None)
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), ...)
    return tuple(parts)


@given(data=st.data(), layout=st.sampled_from(LAYOUTS), where=st.sampled_from(["host", "device"]))
@some(40)
def test_any_index(k, data, layout, where):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    index = data.draw(indices(shape))
    x = np.arange(float(prod(shape))).reshape(shape)
    try:
        N.getitem(x, index)
    except IndexError as e:
        with pytest.raises(IndexError) as met:
            k.getitem(laid(k, x, layout), index)
        assert str(met.value).split(" with shapes")[0] == str(e).split(" with shapes")[0]
    else:
        everything_agrees(k, x, index, layout, where)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_dtypes(k, dtype):
    x = values((7, 4), 1, dtype)
    for index in (ROWS, (ALL, np.array([3, 0, 3]))):
        everything_agrees(k, x, index)
    rows = values((40, 4), 2, dtype)
    many = np.arange(40) % 7
    same(k.scatter_add(k.adopt(rows), many, (7, 4)), N.scatter_add(rows, many, (7, 4)))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 8, 16, 24])
def test_rows_of_any_width_and_beginning(k, width, dtype):
    """They go as words of up to 16 bytes, where these fit."""
    x = values((9, width + 3), width, dtype)
    for begin in (0, 1, 2, 3):
        part, index = (slice(None), slice(begin, begin + width)), np.array([8, 0, 3, 3])
        a = k.getitem(k.adopt(x), part)
        same(k.getitem(a, index), x[part][index])
        v = values((4, width), 3, dtype)
        same(k.index_set(k.adopt(x), (index, part[1]), k.adopt(v)), N.index_set(x, (index, part[1]), v))


def test_empty_and_0d(k):
    none = np.zeros(0, int)
    for x, index in [(np.zeros((0, 3)), none), (np.zeros((3, 0)), ROWS % 3), (np.array(3.0), ()), (np.zeros((2, 0, 3)), (ALL, none))]:
        everything_agrees(k, x, index)
        everything_agrees(k, x, index, where="device")
    everything_agrees(k, np.array(3.0), None)
    everything_agrees(k, np.array(3.0), True)
    everything_agrees(k, np.array(3.0), np.array(False))


def test_a_broadcast_array(k):
    x = np.broadcast_to(np.arange(4.0)[:, None, None], (4, 5, 6))
    a = k.broadcast_to(k.adopt(np.arange(4.0).reshape(4, 1, 1)), x.shape)
    for index in (ROWS, (ROWS, ROWS), (ALL, ROWS, ROWS), MASK, (J, ALL, 0)):
        same(k.getitem(a, index), x[index])
        same(k.index_set(a, index, k.adopt(np.array(7.0))), N.index_set(x, index, 7.0))


@pytest.mark.parametrize("n", [31, 32, 33, 255, 256, 257, 1025, 70_000])
def test_sizes(k, n):
    rng = np.random.default_rng(n)
    x, index = rng.random(n), rng.integers(-n, n, n + 1)
    same(k.getitem(k.adopt(x), k.adopt(index)), x[index])
    mask = x > 0.5
    same(k.getitem(k.adopt(x), k.adopt(mask)), x[mask])


def test_more_axes_than_a_kernel_has_by_themselves(k):
    x = np.arange(2.0**17).reshape((2,) * 17)
    same(k.getitem(k.adopt(x), (ALL, [1, 0, 1], ..., 1)), x[:, [1, 0, 1], ..., 1])
    with pytest.raises(ValueError, match=r"indexing: strides by which 1\d axes can't be taken together are too many, for at most 16 are"):
        k.getitem(k.transpose(k.adopt(np.zeros((2,) * 18)), None), [1, 0, 1])


# ---------------------------------------------------------------- where an element is named twice


@pytest.mark.parametrize("where", ["host", "device"])
def test_the_last_value_stays(k, where):
    rng = np.random.default_rng(0)
    x, v = rng.random((5, 3)), rng.random((2000, 3))
    index = rng.integers(-5, 5, 2000)
    i = index if where == "host" else k.adopt(index)
    last = x.copy()
    for at_, row in zip(index, v, strict=True):
        last[at_] = row
    same(k.index_set(k.adopt(x), i, k.adopt(v)), last)
    two = (rng.integers(0, 5, (20, 30)), rng.integers(0, 3, 30))
    grid = v[:20, :1] + v[:30, 0]
    same(k.index_set(k.adopt(x), two if where == "host" else there(k, two), k.adopt(grid)), N.index_set(x, two, grid))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index, shape", [(0, (6, 5)), (1, (4, 6, 5)), (2, (6, 6))], ids=["rows", "behind an axis", "two arrays"])
def test_in_pedantic_mode_sums_have_the_bits_of_a_loop(k, index, shape, dtype):
    rng = np.random.default_rng(1)
    index = [(rng.integers(-6, 6, 500),), (ALL, rng.integers(0, 6, (25, 20))), (rng.integers(0, 6, 500), rng.integers(0, 6, 500))][index]
    v = rng.standard_normal(np.zeros(shape)[index].shape).astype(dtype)
    expected = np.zeros(shape, dtype)
    np.add.at(expected, index, v)
    with math_mode.use("pedantic"):
        for i in (index, there(k, index)):
            same(k.scatter_add(k.adopt(v), i, shape), expected)
    np.testing.assert_allclose(np.asarray(k.scatter_add(k.adopt(v), index, shape)), expected, 1e-4 if dtype == np.float32 else 1e-12, 1e-5)


@pytest.mark.parametrize("mode", ["default", "pedantic"])
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_halves_are_summed_in_float32(k, dtype, mode):
    """In float16 2048 + 1 is 2048, in bfloat16 256 + 1 is 256."""
    v = np.ones((4000, 2), dtype)
    with math_mode.use(mode):
        same(k.scatter_add(k.adopt(v), np.zeros(4000, int), (3, 2)), np.array([[4000] * 2, [0] * 2, [0] * 2], np.float32).astype(dtype))


def test_integers_wrap_and_booleans_stay(k):
    v = np.full(300, 100, np.int8)
    same(k.scatter_add(k.adopt(v), np.zeros(300, int), (2,)), N.scatter_add(v, np.zeros(300, int), (2,)))
    same(k.scatter_add(k.adopt(np.ones(256, bool)), np.zeros(256, int), (2,)), np.array([True, False]))


# ---------------------------------------------------------------- values that broadcast, and are of another dtype


def test_values_broadcast(k):
    several = [(ROWS, ()), (ROWS, (6,)), (ROWS, (5, 1, 1)), (ROWS, (1, 1, 5, 5, 6)), (0, (1, 6)), (MASK, (1,)), ((ALL, ROWS), (4, 1, 6))]
    for index, shape in [*several, (slice(1, 3), (1, 1, 5, 6))]:
        v = values(shape, 5)
        same(k.index_set(k.adopt(X), index, k.adopt(v)), N.index_set(X, index, v))
        same(k.index_set(k.adopt(X), there(k, index), k.adopt(v)), N.index_set(X, index, v))
    same(k.index_set(k.adopt(X), ROWS, k.scalar(2, X.dtype)), N.index_set(X, ROWS, 2.0))
    same(k.index_set(k.adopt(X.astype(np.int32)), ROWS, k.adopt(np.array(2.75))), N.index_set(X.astype(np.int32), ROWS, 2.75))


def test_a_number_under_a_mask_waits_for_nothing(k):
    for mask in (MASK[:, 0], MASK, X > 7):
        same(k.index_set(k.adopt(X), k.adopt(mask), k.scalar(0, X.dtype)), N.index_set(X, mask, 0.0))
    x, mask, zero = k.adopt(X), k.adopt(MASK), k.scalar(0, X.dtype)
    waits(lambda: k.index_set(x, mask, zero), False)


def test_nobody_waits_for_indices_on_the_device(k):
    x, i, v, line, mask = map(k.adopt, (X, ROWS, X[ROWS], np.zeros((4, 5, 1), int), MASK))
    calls = [
        lambda: k.getitem(x, (i, ALL, i)), lambda: k.scatter_add(v, i, X.shape), lambda: k.index_set(x, i, v),
        lambda: k.take_along_axis(x, line, 2), lambda: k.scatter_along_axis(line, line, 2, X.shape),
    ]  # fmt: skip
    for call in calls:
        waits(call, False)
    waits(lambda: k.getitem(x, mask), True)


def waits(call, expected):
    """Whether the call makes the host wait, where that is counted: on the emulator, with a pool, for freeing memory waits."""
    if (environment := sys.modules.get("environment")) is None or os.environ.get("AUTOTAPE_CUDA_POOL") == "none":
        pytest.skip("nobody counts how often the host waits")
    call()
    before = environment.counts()
    call()
    after = environment.counts()
    met = {name: n - before[name] for name, n in after.items() if name.startswith("wait_") and n != before[name]}
    assert bool(met) == expected, met


# ---------------------------------------------------------------- along an axis

ALONG = [
    ((4, 5, 6), (4, 3, 6), 1), ((4, 5), (4, 5), -1), ((4, 5), (9, 5), 0), ((7,), (40,), 0), ((4, 5, 6), (4, 1, 6), 1), ((4, 5), (1, 2), 1),
    ((1, 5), (3, 2), 1), ((4, 0), (4, 0), 1), ((3, 1), (3, 1), 1),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["default", "pedantic"])
@pytest.mark.parametrize("shape, size, axis", ALONG)
def test_along_an_axis(k, shape, size, axis, mode):
    rng = np.random.default_rng(0)
    x = rng.random(shape)
    index = rng.integers(-shape[axis], max(shape[axis], 1), size)
    expected = N.take_along_axis(x, index, axis)
    v = rng.standard_normal(expected.shape)
    with math_mode.use(mode):
        for layout in LAYOUTS:
            for i in (index, laid(k, index, layout)):
                same(k.take_along_axis(laid(k, x, layout), i, axis), expected)
            y = k.scatter_along_axis(laid(k, v, layout), laid(k, index, layout), axis, shape)
            agree = same if mode == "pedantic" else np.testing.assert_allclose
            agree(np.asarray(y), N.scatter_along_axis(v, index, axis % len(shape), shape))


# ---------------------------------------------------------------- errors

WRONG = [
    (5, "index 5 is out of bounds for axis 0 with size 4"), ((0, -6), "index -6 is out of bounds for axis 1 with size 5"),
    ([1, 4], "index 4 is out of bounds for axis 0 with size 4"), ((ALL, [-7]), "index -7 is out of bounds for axis 1 with size 5"),
    ((ROWS, [5]), "index 5 is out of bounds for axis 1 with size 5"),
    ((0, 0, 0, 0), "too many indices for array: array is 3-dimensional, but 4 were indexed"),
    ((..., ...), "an index can only have a single ellipsis"), (1.5, "only integers, slices"),
    ([1.5], "only integers, slices|arrays used as indices"),
    (np.array([1.5]), "arrays used as indices must be of integer"), ("a", "only integers, slices"),
    (np.ones(3, bool), "boolean index did not match indexed array along axis 0; size of axis is 4 but size of corresponding"),
    (([0, 1], [0, 1, 2]), r"shape mismatch: indexing arrays could not be broadcast together with shapes \(2,\) \(3,\)"),
]  # fmt: skip


@pytest.mark.parametrize("index, message", WRONG, ids=lambda i: repr(i)[:40])
def test_an_index_that_does_not_fit(k, index, message):
    with pytest.raises(IndexError, match=message):
        X[index]
    for call in (lambda: k.getitem(k.adopt(X), index), lambda: k.index_set(k.adopt(X), index, k.adopt(np.array(0.0)))):
        with pytest.raises(IndexError, match=message):
            call()
    with pytest.raises(IndexError, match=message):
        k.scatter_add(k.adopt(np.ones(1)), index, X.shape)


@pytest.mark.parametrize("bad", [4, -5, 2**40])
def test_an_index_on_the_device_that_is_out_of_range_is_told_before_a_value_is_seen(k, bad):
    i, x = k.adopt(np.array([0, bad, 1])), k.adopt(X)
    message = rf"index {bad} is out of bounds for an axis of size 4: it is in an array on the device"
    lookups = [
        lambda: k.getitem(x, i), lambda: k.scatter_add(k.adopt(X[:3]), i, X.shape), lambda: k.index_set(x, i, k.adopt(X[:3])),
        lambda: k.take_along_axis(k.adopt(X[:, 0, 0]), i, 0), lambda: k.getitem(x, (i, k.adopt(np.array([1, 2, 3])))),
    ]  # fmt: skip
    for lookup in lookups:
        with pytest.raises(IndexError, match=message):
            np.asarray(lookup())
        same(k.copy(x), X)  # it is told once
    with math_mode.use("pedantic"), pytest.raises(IndexError, match=message):
        np.asarray(k.scatter_add(k.adopt(X[:3]), i, X.shape))


def test_the_next_lookup_tells_it_as_well(k):
    import pycuda.driver as cuda

    k.getitem(k.adopt(X), k.adopt(np.array([77])))
    cuda.Context.synchronize()
    with pytest.raises(IndexError, match="index 77 is out of bounds"):
        k.getitem(k.adopt(X), ROWS)
    same(k.getitem(k.adopt(X), ROWS), X[ROWS])


def test_waiting_for_the_device_tells_it(k):
    k.getitem(k.adopt(X), k.adopt(np.array([78])))
    with pytest.raises(IndexError, match="index 78 is out of bounds"):
        k.synchronize()
    k.synchronize()


def test_there_is_nothing_to_look_up_on_an_axis_of_length_0(k):
    for i in ([0], k.adopt(np.array([0]))):
        with pytest.raises(IndexError, match="index 0 is out of bounds for axis 0 with size 0"):
            k.getitem(k.adopt(np.zeros((0, 3))), i)


def test_values_that_do_not_fit(k):
    for index in (ROWS, slice(0, 2), MASK):
        with pytest.raises(ValueError, match=r"shape mismatch: values of shape \(3, 3, 6\) could not be broadcast to indexing result of"):
            k.index_set(k.adopt(X), index, k.adopt(np.ones((3, 3, 6))))
    with pytest.raises(ValueError, match=r"take_along_axis: indices of shape \(2, 2\) for an array of shape \(4, 5, 6\)"):
        k.take_along_axis(k.adopt(X), k.adopt(np.zeros((2, 2), int)), 0)
    with pytest.raises(IndexError, match="scatter_along_axis: indices must be integers, not float64"):
        k.scatter_along_axis(k.adopt(X), k.adopt(X), 0, X.shape)
    with pytest.raises(ValueError, match=r"take_along_axis: an array of shape \(4, 5, 6\) has no axis 3"):
        k.take_along_axis(k.adopt(X), k.adopt(np.zeros((2, 2, 2), int)), 3)


# ---------------------------------------------------------------- sparse gradients of embeddings


def test_the_gradient_of_an_embedding_stays_sparse(k):
    table, words, dy = values((7, 4), 1), np.array([[1, 3], [3, -7]]), values((2, 2, 4), 2)
    expected = N.scatter_add(dy, words, (7, 4))
    g = looked_up(k.adopt(dy), words, (7, 4))
    once = (g + g).merged()
    assert type(once.rows) is k.array and once.indices.tolist() == [0, 1, 3]
    same(g.dense(), expected)
    same((once * 2.0).dense(), 4 * expected)
    same(at.grad(lambda p: np.sum(p[words] * dy))(at.array(table)).numpy(), expected)
    out, part = k.copy(k.adopt(table)), k.getitem(k.adopt(table), once.indices)
    k.index_write(out, once.indices, part + once.rows)  # as optimisers do
    same(out, table + 2 * expected)


# ---------------------------------------------------------------- joined, padded


@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4), axis=st.integers(-3, 2), layout=st.sampled_from(LAYOUTS),
    dtypes=st.lists(st.sampled_from([bool, np.int8, np.float16, np.float32, np.float64, np.int64]), min_size=4, max_size=4),
)  # fmt: skip
@some(30)
def test_concatenate(k, sizes, axis, layout, dtypes):
    xs = []
    for n, dtype in zip(sizes, dtypes, strict=False):
        shape = [2, 3, 2]
        shape[axis] = n
        xs.append(values(shape, n, dtype))
    same(k.concatenate([laid(k, x, layout) for x in xs], axis), np.concatenate(xs, axis))


def test_concatenate_halves(k):
    xs = [values((2, 3), 0, BFLOAT16), values((2, 2), 1, BFLOAT16)]
    same(k.concatenate([k.adopt(x) for x in xs], 1), np.concatenate(xs, 1))


def test_what_can_not_be_joined(k):
    x = k.adopt(X)
    with pytest.raises(ValueError, match=r"concatenate: shapes \(4, 5, 6\), \(5, 6\) differ in more than axis 0"):
        k.concatenate([x, k.getitem(x, 0)], 0)
    with pytest.raises(ValueError, match=r"concatenate: shapes \(4, 5, 6\), \(4, 1, 6\) differ in more than axis 0"):
        k.concatenate([x, k.getitem(x, (ALL, slice(0, 1)))], 0)
    with pytest.raises(ValueError, match="axis 3 is out of bounds"):
        k.concatenate([x, x], 3)
    with pytest.raises(ValueError, match="need at least one"):
        k.concatenate([], 0)
    with pytest.raises(ValueError, match="zero-dimensional"):
        k.concatenate([k.adopt(np.array(1.0))], 0)


@given(
    shape=st.lists(st.integers(0, 4), max_size=3).map(tuple), data=st.data(), layout=st.sampled_from(["dense", "transposed"]),
    value=st.sampled_from([0, -1.5, np.inf]), dtype=st.sampled_from([np.float16, np.float32, np.float64]),
)  # fmt: skip
@some(30)
def test_pad(k, shape, data, layout, value, dtype):
    widths = tuple(data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in shape)
    x = values(shape, 4, dtype)
    same(k.pad(laid(k, x, layout), widths, value), N.pad(x, widths, value))


def test_pad_other_dtypes_and_what_it_refuses(k):
    for dtype in (bool, np.int8, np.uint64, BFLOAT16):
        x = values((2, 3), 0, dtype)
        same(k.pad(k.adopt(x), ((1, 0), (0, 2)), 1), N.pad(x, ((1, 0), (0, 2)), 1))
    with pytest.raises(ValueError, match=r"pad: 1 widths for an array of shape \(4, 5, 6\); one pair an axis is needed"):
        k.pad(k.adopt(X), ((1, 1),), 0)
    with pytest.raises(ValueError, match="pad: widths must not be negative"):
        k.pad(k.adopt(X), ((1, -1), (0, 0), (0, 0)), 0)


# ---------------------------------------------------------------- transposed copies


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "shape, axes",
    [((70, 33), (1, 0)), ((2, 64, 65), (0, 2, 1)), ((40, 3, 35), (2, 1, 0)), ((3, 130, 2, 32), (3, 0, 2, 1)), ((5, 40, 31), (2, 0, 1))],
)
def test_transposed_copies(k, shape, axes, dtype):
    x = values(shape, 6, dtype)
    a = k.transpose(k.adopt(x), axes)
    same(k.reshape(a, (x.size,)), x.transpose(axes).reshape(-1))
    same(k.concatenate([a, a], 1), np.concatenate([x.transpose(axes)] * 2, 1))


def test_transposed_copies_of_parts(k):
    x = values((3, 80, 90), 7, np.float32)
    back = slice(None, None, -1)
    for part in [(ALL, slice(3, 77), slice(5, 71)), (back, ALL, slice(0, 64)), (1, slice(None, None, 2)), (ALL, back)]:
        a, expected = k.getitem(k.adopt(x), part), x[part]
        same(k.transpose(a, None), expected.T)
        out = k.zeros(expected.T.shape, np.float32)
        k.index_write(out, ..., k.transpose(a, None))
        same(out, expected.T)


def test_a_tile_is_used_where_it_pays(k):
    from autotape.backends.pycuda_backend.tiles import _planes

    size = 4
    assert _planes(((64, 64), (256, 4), size), ((64, 64), (4, 256), size)).rows == 64
    assert _planes(((64, 16), (64, 4), size), ((64, 16), (4, 256), size)) is None
    assert _planes(((64, 64), (256, 4), size), ((64, 64), (512, 4), size)) is None
    assert _planes(((64, 64), (256, 4), size), ((64, 64), (8, 512), size)) is None
