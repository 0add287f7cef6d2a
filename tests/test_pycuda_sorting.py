"""The pycuda backend's sorts and searches against NumPy's: any axis and type, ties, NaN, and rows that are merged from several runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ml_dtypes = pytest.importorskip("ml_dtypes")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TYPES = [np.dtype(t) for t in ("?", "i1", "u2", "i4", "u8", "i8", "f2", BFLOAT16, "f4", "f8")]
EXAMPLES = max(1, settings().max_examples // 4)  # each is several launches


def numbers(shape, dtype, seed=0):
    """Numbers with many ties, among them the largest and, of floats, infinities and NaN."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        edges = [np.iinfo(dtype).min, np.iinfo(dtype).max]
        return np.where(rng.random(shape) < 0.1, rng.choice(np.array(edges, dtype), shape), rng.integers(0, 20, shape).astype(dtype))
    a = rng.integers(-10, 10, shape).astype(np.float64) / 4
    for value in (np.nan, -np.nan, np.inf, -np.inf, -0.0):
        a[rng.random(shape) < 0.05] = value
    return a.astype(dtype)


def check(k, x, a, axis):
    """x sorted and its places against those of a, which is the same on the host."""
    key = a.astype(np.float64) if a.dtype == BFLOAT16 else a  # whose own order in NumPy is undefined where there is NaN
    order, case = np.argsort(key, axis, kind="stable"), f"{a.shape} {a.dtype} along {axis}"
    y, places = k.sort(x, axis), k.argsort(x, axis)
    assert y.dtype == a.dtype and places.dtype == np.int64, f"{case}: {y.dtype} and {places.dtype}"
    np.testing.assert_array_equal(np.asarray(places), order, case)
    np.testing.assert_array_equal(np.asarray(y).astype(key.dtype), np.sort(key, axis), case)
    np.testing.assert_array_equal(np.asarray(x).astype(key.dtype), key, f"{case}: the input changed")


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type(k, dtype):
    for shape in ((100,), (2_500,)):
        a = numbers(shape, dtype)
        check(k, k.adopt(a), a, 0)


@settings(max_examples=EXAMPLES)
@given(st.data(), st.lists(st.sampled_from((1, 2, 3, 5, 8, 17)), min_size=1, max_size=4))
def test_along_any_axis(k, data, shape):
    a = numbers(shape, np.dtype(np.float32), seed=len(shape))
    order = data.draw(st.permutations(range(len(shape))))
    check(k, k.transpose(k.adopt(a), tuple(order)), a.transpose(order), data.draw(st.integers(-a.ndim, a.ndim - 1)))


@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 33, 255, 257, 511, 513, 1_025, 2_047, 2_048, 2_049, 4_096, 4_097, 6_145, 10_000])
def test_lengths(k, n):
    a = numbers((2, n), np.dtype(np.float32), seed=n)
    check(k, k.adopt(a), a, 1)


def test_many_short_rows(k):
    a = numbers((700, 3), np.dtype(np.float32))
    check(k, k.adopt(a), a, 1)
    check(k, k.adopt(a), a, 0)


def test_what_is_sorted_already_or_all_the_same(k):
    up = np.arange(5_000, dtype=np.float32)
    for a in (up, up[::-1].copy(), np.zeros(5_000, np.float32), np.full(5_000, np.nan, np.float32)):
        check(k, k.adopt(a), a, 0)


def test_zeros_of_both_signs_are_ties(k):
    a = np.array([0.0, -0.0, 0.0, -0.0, -1], np.float32)
    assert np.asarray(k.argsort(k.adopt(a), 0)).tolist() == [4, 0, 1, 2, 3]
    assert np.signbit(np.asarray(k.sort(k.adopt(a), 0))).sum() == 3


def test_empty_rows_and_axes_that_there_are_not(k):
    for shape, axis in (((0,), 0), ((3, 0), 1), ((0, 3), 1), ((0, 3), 0)):
        a = np.ones(shape, np.float32)
        check(k, k.adopt(a), a, axis)
    for name in ("sort", "argsort"):
        for a, axis in ((np.ones((2, 3)), 2), (np.array(1.0), 0)):
            with pytest.raises(ValueError, match="axis"):
                getattr(k, name)(k.adopt(a), axis)


# -- searchsorted


@pytest.mark.parametrize("dtype", [t for t in TYPES if t != BFLOAT16], ids=str)
def test_searches_of_every_type(k, dtype):
    a, v = np.sort(numbers((300,), dtype)), numbers((5, 80), dtype, seed=1)
    for side in ("left", "right"):
        y = k.searchsorted(k.adopt(a), k.adopt(v), side)
        assert y.dtype == np.int64
        np.testing.assert_array_equal(np.asarray(y), np.searchsorted(a, v, side), side)


def test_searches_across_types_and_strides(k):
    a, v = np.array([1, 3, 5, 7], np.int32), np.array([[0.5, 3.0], [np.nan, 9]], np.float32)
    y = k.searchsorted(k.adopt(a), k.transpose(k.adopt(v), None), "right")
    np.testing.assert_array_equal(np.asarray(y), np.searchsorted(a, v.T, "right"))
    big = np.array([2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    np.testing.assert_array_equal(np.asarray(k.searchsorted(k.adopt(big), k.adopt(big[1:]), "left")), [1, 2])
    assert np.asarray(k.searchsorted(k.adopt(a), k.scalar(5, np.int32), "left")) == 2
    assert np.asarray(k.searchsorted(k.adopt(a[:0]), k.adopt(v), "left")).tolist() == [[0, 0], [0, 0]]
    assert k.searchsorted(k.adopt(a), k.adopt(v[:0]), "left").shape == (0, 2)


def test_searches_that_can_not_be(k):
    a = k.adopt(np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match=r"the sorted array has shape \(2, 2\); it must have one axis"):
        k.searchsorted(a, a, "left")
    with pytest.raises(ValueError, match="side must be 'left' or 'right', not 'middle'"):
        k.searchsorted(k.adopt(np.ones(2)), a, "middle")
