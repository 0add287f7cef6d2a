"""Order and statistics of order: sorts, places, quantiles, unique elements, counts, NaN left out, covariances.

Values, dtypes and shapes are NumPy's, through NumPy's own names; equal elements keep their order, and so do their cotangents.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend
from autotape.opsets import array as ops
from autotape.opsets.array import quantiles
from autotape.testing import check_grads
from autotape.testing.strategies import arrays, shapes

FEW = settings(max_examples=settings().max_examples // 4)
FLOATS = st.sampled_from([np.float32, np.float64])
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
COMPLEX = pytest.mark.numpy_only("complex numbers")
K = backend.load("numpy")
by_name = {"ids": lambda f: f.__name__}
NAN = np.nan
close = np.testing.assert_allclose
ROUNDING = {np.dtype(np.float16): 1e-3, np.dtype(np.float32): 1e-5}
TIED = np.array([[2, 1, 2, 1], [0, 0, 0, 3]])
HOLES = np.array([[1.5, NAN, -2, 0.5], [NAN, NAN, 3, NAN], [0.25, 4, -1, 2]])


def same(y, e, tolerance=1e-12):
    """y, of Tensors, is what NumPy gave: pairs and tuples, too."""
    if isinstance(e, tuple):
        assert type(y).__name__ == type(e).__name__ and len(y) == len(e)
        assert getattr(y, "_fields", ()) == getattr(e, "_fields", ())
        for each, expected in zip(y, e, strict=True):
            same(each, expected, tolerance)
        return
    assert isinstance(y, at.Tensor)
    assert (y.shape, y.dtype) == (np.shape(e), e.dtype)
    np.testing.assert_allclose(y.numpy(), e, tolerance, tolerance / 10)


def agrees(f, *args):
    """f of Tensors is f of the arrays, on every backend; where those of no elements or no numbers warn, these don't."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = f(*args)
    for name in BACKENDS:
        with backend.use(name):
            same(f(*map(at.array, args)), expected, max(ROUNDING.get(np.asarray(x).dtype, 1e-12) for x in args))


@st.composite
def on_an_axis(draw, min_dims=1, sizes=(0, 1, 2, 3, 5), dtype=FLOATS, elements=(-2.0, 2.0)):
    """An array and one of its axes, or None."""
    x = draw(arrays(shapes(min_dims, 3, sizes), dtype, elements))
    return x, draw(st.none() | st.integers(-x.ndim, x.ndim - 1)) if x.ndim else None


@st.composite
def reduction(draw, sizes=(1, 2, 3, 5)):
    """An array, what to reduce of it, and whether those axes are kept."""
    x, axis = draw(on_an_axis(0, sizes))
    axes = draw(st.sets(st.integers(0, x.ndim - 1), min_size=1).map(tuple)) if x.ndim else None
    return x, draw(st.sampled_from([axis, axes])), draw(st.booleans())


# ---------------------------------------------------------------- kernels


@FEW
@given(on_an_axis(), st.booleans(), st.integers(0, 99))
def test_kernels_sort_with_nan_at_the_end_and_in_the_order_of_equal_elements(how, tied, seed):
    x, axis = how
    axis = -1 if axis is None else axis
    x = np.round(x) if tied else x.copy()
    x[np.random.default_rng(seed).random(x.shape) < 0.3] = NAN
    before = x.tobytes()
    np.testing.assert_array_equal(K.sort(x, axis), np.sort(x, axis), strict=True)
    np.testing.assert_array_equal(K.argsort(x, axis), np.argsort(x, axis, kind="stable"), strict=True)
    assert x.tobytes() == before and not np.shares_memory(K.sort(x, axis), x)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.complex128])
def test_kernels_sort_numbers_of_every_kind(dtype):
    x = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 50, (3, 60)).astype(dtype)
    np.testing.assert_array_equal(K.sort(x, 1), np.sort(x, 1), strict=True)
    np.testing.assert_array_equal(K.argsort(x, 1), np.argsort(x, 1, kind="stable"), strict=True)


@pytest.mark.parametrize("side", ["left", "right"])
def test_kernel_searchsorted(side):
    a = np.array([-1.0, 0, 0, 2, NAN])
    for v in (np.array(0.0), np.array([[0, 2.5], [NAN, -7]]), np.zeros((0, 2)), np.array([1, 2])):
        found = K.searchsorted(a, v, side)
        np.testing.assert_array_equal(found, np.searchsorted(a, v, side), strict=True)
        assert type(found) is np.ndarray


# ---------------------------------------------------------------- sorting


@pytest.mark.parametrize("f", [np.sort, np.argsort], **by_name)
@FEW
@given(on_an_axis())
def test_sorts(f, how):
    x, axis = how
    agrees(lambda x: f(x, axis, kind="stable"), x)


@FEW
@given(on_an_axis(), st.sampled_from(BACKENDS))
def test_gradients_of_sort(how, name):
    x, axis = how
    with backend.use(name):
        check_grads(lambda x: np.sort(x, axis), (x,))


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.uint8, np.float16])
def test_dtypes_of_sorts(dtype):
    for f in (np.sort, lambda x: np.argsort(x, stable=True), lambda x: np.partition(x, (0, -1), axis=None)[[0, -1]]):
        agrees(f, TIED.astype(dtype))


def test_a_number_sorts_as_in_numpy():
    agrees(np.argsort, np.float64(3))
    agrees(lambda x: np.sort(x, None), np.float64(3))
    with pytest.raises(np.exceptions.AxisError):
        np.sort(at.array(3.0))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("f", [np.sort, lambda x: np.partition(x, 1)])
def test_equal_elements_keep_their_own_cotangents(f, name):
    weights = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    with backend.use(name):
        g = at.grad(lambda x: np.sum(f(x) * weights))(TIED.astype(float))
    np.testing.assert_array_equal(g, [[3, 1, 4, 2], [5, 6, 7, 8]])


def test_sort_puts_nan_last_and_its_cotangent_returns():
    x = np.array([NAN, 2, -np.inf, NAN, 1])
    g = at.grad(lambda x: (np.sort(x)[1:3] * np.array([1.0, 2])).sum())(x)
    np.testing.assert_array_equal(np.sort(at.array(x)).numpy(), [-np.inf, 1, 2, NAN, NAN])
    np.testing.assert_array_equal(g, [0, 2, 0, 0, 1])


@FEW
@given(on_an_axis(1, (1, 2, 3, 5)), st.data())
def test_partition_puts_each_kth_in_its_place(how, data):
    x, axis = how
    n = x.size if axis is None else x.shape[axis]
    kth = data.draw(st.integers(-n, n - 1) | st.lists(st.integers(-n, n - 1), min_size=1, max_size=3))
    for name in BACKENDS:
        with backend.use(name):
            y, i = np.partition(at.array(x), kth, axis).numpy(), np.argpartition(at.array(x), kth, axis=axis).numpy()
    whole, axis = (x.ravel(), 0) if axis is None else (x, axis)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, np.take_along_axis(whole, i, axis))
    np.testing.assert_array_equal(np.take(y, kth, axis), np.take(np.sort(whole, axis), kth, axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lexsort(axis):
    keys = np.random.default_rng(1).integers(0, 3, (3, 4, 6)).astype(float)
    agrees(lambda a, b, c: np.lexsort((a, b, c), axis), *keys)
    agrees(lambda k: np.lexsort(k, axis=axis), keys)
    same(np.lexsort((keys[0], at.array(keys[1]))), np.lexsort((keys[0], keys[1])))


# ---------------------------------------------------------------- places


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    a, v = np.array([0.5, 1, 1, 3]), np.array([[1, 0.2], [7, 2]])
    agrees(lambda a, v: np.searchsorted(a, v, side), a, v)
    agrees(lambda a, v: np.searchsorted(a, v, side, sorter=np.array([3, 0, 2, 1])), a[[1, 3, 2, 0]], v)
    same(np.searchsorted(at.array(a), 1, side=side), np.searchsorted(a, 1, side=side))
    same(np.searchsorted(np.array([1, 2]), at.array([1.5]), side), np.array([1]))
    same(at.array(a).searchsorted(v, side), a.searchsorted(v, side))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[0.0, 1, 2.5, 4], [4, 2.5, 1, 0.0], [1.0, 1, 1], [2.0], []])
def test_digitize(bins, right):
    x = np.array([[0.2, 1, 2.5], [-3, 9, 4]])
    agrees(lambda x, bins: np.digitize(x, bins, right), x, np.array(bins))
    np.testing.assert_array_equal(at.grad(lambda x: (x * np.digitize(x, np.array(bins), right)).sum())(x), np.digitize(x, bins, right))


# ---------------------------------------------------------------- quantiles

QUANTILES = [np.quantile, np.nanquantile]
SHARES = [0.0, 0.3, 1.0, 0.5, np.float32(0.75), np.array([0.25]), np.array([0, 0.5, 1]), np.float32([0.125, 0.875])]
PERCENTILES = [np.percentile, np.nanpercentile]
METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear",
    "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
]  # fmt: skip


@pytest.mark.parametrize("f", [np.median, np.nanmedian], **by_name)
@FEW
@given(how=reduction())
def test_medians(f, how):
    x, axis, keepdims = how
    agrees(lambda x: f(x, axis, keepdims=keepdims), x)


@pytest.mark.parametrize("f", [*QUANTILES, *PERCENTILES], **by_name)
@FEW
@given(how=reduction(), q=st.sampled_from(SHARES))
def test_quantiles(f, how, q):
    x, axis, keepdims = how
    agrees(lambda x: f(x, 100 * q if f in PERCENTILES else q, axis, keepdims=keepdims), x)


@pytest.mark.parametrize("f", QUANTILES, **by_name)
@pytest.mark.parametrize("method", METHODS)
@FEW
@given(x=arrays((3, 7), FLOATS), q=st.sampled_from([0.31, 0.0, 1.0, [0.07, 0.5, 0.99]]))
def test_methods_of_quantiles(f, method, x, q):
    agrees(lambda x: f(x, q, 1, method=method), x)
    agrees(lambda x: f(x, q, 1, method=method), np.round(10 * x).astype(int))


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_where_the_share_meets_an_element(method):
    x = np.array([3.0, 1, 4, 1.5, 9, 2.5, 6, 5])
    for n in (4, 5, 8):
        agrees(lambda x: np.quantile(x, np.arange(9) / 8, method=method), x[:n])
        agrees(lambda x: np.quantile(x, np.arange(5) / 4, method=method), x[:n])


@pytest.mark.parametrize("f", [lambda x: np.median(x, 1), lambda x: np.quantile(x, [0.2, 0.9], 1), lambda x: np.percentile(x, 30, (0, 1))])
def test_one_nan_makes_nan(f):
    agrees(f, HOLES)
    agrees(f, HOLES.astype(np.float32))


@pytest.mark.parametrize("axis", [None, 0, 1, (1, 0)])
def test_nan_left_out_of_quantiles(axis):
    for x in (HOLES, HOLES.astype(np.float32)):
        agrees(lambda x: np.nanmedian(x, axis, keepdims=True), x)
        agrees(lambda x: np.nanquantile(x, 0.3, axis), x)
        agrees(lambda x: np.nanpercentile(x, [30.0, 60.0], axis, keepdims=True), x)
    rows = HOLES[[0, 2]]
    v = np.nan_to_num(rows) + 0.1 * np.arange(8).reshape(2, 4)
    check_grads(lambda v: np.nanmedian(np.where(np.isnan(rows), NAN, v), axis), (v,))
    check_grads(lambda v: np.nanquantile(np.where(np.isnan(rows), NAN, v), 0.3, axis), (v,))


def test_quantiles_of_nothing():
    none = np.zeros((2, 0))
    for f in (np.median, np.nanmedian):
        agrees(lambda x, f=f: f(x, 1), none)
        agrees(lambda x, f=f: f(x, 0), none)
        agrees(lambda x, f=f: f(x, 1), none.astype(np.float32))
    agrees(lambda x: np.nanquantile(x, 0.5, 1), none)
    with pytest.raises(IndexError, match=r"quantile: x \(2, 0\) has no elements over axis 1"):
        np.quantile(at.array(none), 0.5, 1)


def test_dtypes_of_medians_and_quantiles():
    for dtype in (np.int32, np.uint8, np.float16, np.float32):
        x = np.array([[3, 1, 4], [1, 5, 9]], dtype)
        agrees(np.median, x)
        agrees(lambda x: np.quantile(x, 0.25, 1), x)
        agrees(lambda x: np.quantile(x, [0.25, 0.5], 1), x)
    agrees(np.median, np.array([True, False, True]))


@pytest.mark.parametrize("name", BACKENDS)
def test_equal_elements_of_a_median_are_told_apart_by_their_order(name):
    with backend.use(name):
        np.testing.assert_array_equal(at.grad(np.median)(np.array([1.0, 1, 1])), [0, 1, 0])
        np.testing.assert_array_equal(at.grad(np.median)(np.array([5.0, 2, 2, 2])), [0, 0, 0.5, 0.5])
        np.testing.assert_array_equal(at.grad(lambda x: np.quantile(x, 0.25))(np.array([2.0, 2, 2])), [0.5, 0.5, 0])


@pytest.mark.parametrize("method", ["linear", "hazen"])
def test_quantiles_have_a_derivative_in_the_share(method):
    x = np.array([[3.0, 1, 4], [1.5, 9, 2.5]])
    for f in QUANTILES:
        check_grads(lambda x, q, f=f: f(x, q, 1, method=method), (x, np.array([0.3, 0.6])))
    assert at.grad(lambda q: np.quantile(np.array([1.0, 3, 9]), q))(0.5) == 12  # to the right
    assert at.grad(lambda q: np.quantile(np.array([1.0, 3, 9]), q, method="lower"))(0.4) == 0


# ---------------------------------------------------------------- unique elements and counts


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.bool_])
def test_unique(axis, dtype):
    x = np.array([[2, 1, 1, 0], [2, 0, 0, 0], [2, 1, 1, 0]], dtype)
    agrees(lambda x: np.unique(x, axis=axis), x)
    agrees(lambda x: np.unique(x, True, True, True, axis), x)
    agrees(lambda x: np.unique(x, return_counts=True, axis=axis), x)


@pytest.mark.parametrize("f", [np.unique_all, np.unique_counts, np.unique_inverse, lambda x: np.sort(np.unique_values(x))])
def test_unique_of_the_array_api(f):
    agrees(f, TIED)
    agrees(f, np.array([1.0, NAN, 1, NAN]))


def test_unique_of_nan_and_of_nothing():
    for x in (np.array([NAN, 2, NAN]), np.zeros(0), np.zeros((0, 2), np.float32)):
        agrees(np.unique, x)
        agrees(lambda x: np.unique(x, return_index=True, equal_nan=False), x)


def test_the_first_of_equal_elements_has_the_derivative_of_unique():
    g = at.grad(lambda x: np.sum(np.unique(x) * np.array([1.0, 10, 100, 1000])))(TIED.astype(float))
    np.testing.assert_array_equal(g, [[100, 10, 0, 0], [1, 0, 0, 1000]])


@pytest.mark.parametrize("trim", ["fb", "f", "b", "BF"])
def test_trim_zeros(trim):
    for x in (np.array([0, 0, 1.5, 0, 2, 0]), np.zeros(3), np.zeros(0), np.array([1.0])):
        agrees(lambda x: np.trim_zeros(x, trim), x)
    matrix = at.array(np.pad(np.array([[1.0, 0], [0, 2]]), ((1, 2), (0, 3))))
    same(ops.trim_zeros(matrix), np.array([[1.0, 0], [0, 2]]))
    same(ops.trim_zeros(matrix, "f", 0), matrix.numpy()[1:])


def test_bincount():
    x, w = np.array([3, 1, 1, 7, 0]), np.array([0.5, 1, 2, -1, 4])
    for dtype in (np.int64, np.uint8, np.int16):
        agrees(np.bincount, x.astype(dtype))
    agrees(lambda x: np.bincount(x, minlength=11), x)
    agrees(np.bincount, np.array([True, False]))
    agrees(np.bincount, np.zeros(0, int))
    agrees(np.bincount, x, w)
    agrees(np.bincount, x, w.astype(np.float32))
    same(np.bincount(x, weights=at.array(w)), np.bincount(x, w))
    check_grads(lambda w: np.bincount(x, w, 9), (w,))


BINS = [4, 1, "auto", [0.0, 1, 2, 3.5], [-5.0, 5]]


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("options", [{}, {"range": (0, 3)}, {"density": True}], ids=str)
def test_histogram(bins, dtype, options):
    x = np.array([[0.1, 1, 2.5, 3.5], [2, 2, -1, 1.5]]).astype(dtype)
    agrees(lambda x: np.histogram(x, bins, **options), x)
    agrees(lambda x: np.histogram_bin_edges(x, bins, options.get("range")), x)


@pytest.mark.parametrize("bins", [4, [0.0, 1, 2, 3.5]], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_weighted_histogram(bins, dtype):
    x, w = np.array([0.1, 1, 2.5, 3.5, 2, 2, -1, 1.5]), np.arange(8).astype(dtype)
    agrees(lambda x, w: np.histogram(x, bins, weights=w), x, w)
    same(np.histogram(x, bins, weights=at.array(w)), np.histogram(x, bins, weights=w))


def test_histograms_at_the_edges():
    x = np.array([0.0, 1, 1, 2, 3, NAN, np.inf])
    agrees(lambda x: np.histogram(x, [0.0, 1, 2]), x)
    agrees(lambda x: np.histogram(x, 3, (0, 3)), x)
    agrees(np.histogram, np.full(3, 2.5))
    agrees(np.histogram, np.zeros(0))
    with pytest.raises(ValueError, match="range"):
        np.histogram(at.array(x))


POINTS = np.array([[0.5, 1], [2, 3], [0.7, 2.5], [2, -1], [1.9, 0.2]])
GRIDS = {
    "number": 3, "numbers": [2, 4], "edges": [np.array([0.0, 1, 2]), np.array([-1.0, 0.5, 2, 3])], "both": [2, [0.0, 1, 2, 3]],
}  # fmt: skip


@pytest.mark.parametrize("bins", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("options", [{}, {"density": True}, {"range": [(0, 2), (0, 3)]}], ids=str)
def test_histograms_of_points(bins, options):
    w = np.array([1.0, -0.5, 2, 1, 0.25])
    for points in (POINTS, POINTS.astype(np.float32), np.round(POINTS).astype(int)):
        agrees(lambda x, y: np.histogram2d(x, y, bins, **options), *points.T)
        agrees(lambda x: flat(np.histogramdd(x, bins, **options)), points)
    agrees(lambda x, w: np.histogram2d(x, POINTS[:, 1], bins, weights=w, **options), POINTS[:, 0], w)
    same(np.histogram2d(*POINTS.T, bins, weights=at.array(w)), np.histogram2d(*POINTS.T, bins, weights=w))


def flat(counts_and_edges):
    counts, edges = counts_and_edges
    assert type(edges) is list
    return counts, *edges


def test_histograms_of_columns():
    three = np.column_stack((POINTS, POINTS[:, 0] + 1))
    agrees(lambda x: flat(np.histogramdd(x, 2)), three)
    agrees(lambda *xs: flat(np.histogramdd(xs, (2, 3, 1))), *three.T)
    agrees(lambda x: flat(np.histogramdd(x, 2)), POINTS[:, 0])
    agrees(lambda x, y: np.histogram2d(x, y, [0.0, 1, 2, 3]), *POINTS.T)
    for name in BACKENDS:
        with backend.use(name):
            check_grads(lambda x: np.histogramdd(x, 2, density=True)[0], (POINTS + 0.13 * np.arange(5)[:, None],))
            check_grads(lambda w: np.histogram2d(*POINTS.T, 3, weights=w)[0], (np.arange(5.0),))


@pytest.mark.parametrize("name", BACKENDS)
def test_gradients_of_histograms(name):
    x, w = np.array([0.3, 2.2, 1.1, 3.4, 0.7, 2.5]), np.array([1.0, 2, 3, -1, 0.5, 2])
    with backend.use(name):
        check_grads(lambda w: np.histogram(x, 3, weights=w)[0], (w,))
        check_grads(lambda x: np.histogram(x, 3, density=True)[0], (x,))
        check_grads(lambda x: np.histogram_bin_edges(x, 3), (x,))
        check_grads(lambda w, e: np.histogram(x, e, weights=w, density=True)[0], (w, np.array([0.0, 1.5, 3, 4])))
        np.testing.assert_array_equal(at.grad(lambda x: (x[0] * np.histogram(x, 3)[0]).sum())(x), [6, 0, 0, 0, 0, 0])


# ---------------------------------------------------------------- NaN left out, sums that run up


REDUCE = {
    "nanvar": np.nanvar, "nanstd": np.nanstd, "nanprod": np.nanprod, "ddof": lambda x, axis, **k: np.nanvar(x, axis, ddof=1, **k),
    "std, ddof": lambda x, axis, **k: np.nanstd(x, axis, ddof=1, **k),
}  # fmt: skip


@pytest.mark.parametrize("f", REDUCE.values(), ids=REDUCE)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_reductions_but_nan(f, axis):
    for x in (HOLES, HOLES.astype(np.float32), TIED):
        agrees(lambda x: f(x, axis), x)
        agrees(lambda x: f(x, axis, keepdims=True), x)
    for name in BACKENDS:
        with backend.use(name):
            check_grads(lambda x: f(np.block([[x + HOLES, x], [x, x + HOLES]]), axis), (np.nan_to_num(HOLES, nan=0.1),))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("f", [np.nancumsum, np.nancumprod], **by_name)
def test_running_sums_but_nan(f, axis):
    agrees(lambda x: f(x, axis), HOLES)
    agrees(lambda x: f(x, axis), TIED)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("f", [np.nanargmax, np.nanargmin], **by_name)
def test_places_of_extremes_but_nan(f, axis):
    for x in (HOLES[:, [0, 2, 3]][[0, 2]], HOLES[:, 1:] if axis is None else HOLES[::2], TIED):
        agrees(lambda x: f(x, axis), x)
        agrees(lambda x: f(x, axis=axis, keepdims=True), x)
    with pytest.raises(ValueError, match="all elements of a slice are NaN"):
        f(at.array([[NAN, NAN], [1, 2]]), 1)


def test_std_of_equal_elements_has_derivative_0():
    np.testing.assert_array_equal(at.grad(np.nanstd)(np.array([2.0, NAN, 2])), [0, 0, 0])


@pytest.mark.skipif(not hasattr(np, "cumulative_sum"), reason="NumPy 2.1 has it first")
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_cumulative(name, initial):
    f = getattr(np, name)
    agrees(lambda x: f(x, include_initial=initial), np.array([1.5, -2, 3]))
    agrees(lambda x: f(x, axis=-2, include_initial=initial), np.arange(6.0).reshape(2, 3) + 1)
    agrees(lambda x: f(x, include_initial=initial), np.zeros(0, np.float32))
    agrees(lambda x: f(x, axis=0, include_initial=initial), TIED)
    with pytest.raises(ValueError, match="needs an axis"):
        f(at.array(TIED))


# ---------------------------------------------------------------- covariances

OBSERVED = np.array([[1.0, 2, 4, -1], [0.5, 0, 3, 2], [2, 2.5, -1, 0]])
COV = {
    "plain": {}, "columns": {"rowvar": False}, "bias": {"bias": True}, "ddof": {"ddof": 2}, "fweights": {"fweights": [1, 2, 0, 3]},
    "aweights": {"aweights": [0.5, 1, 2, 1]}, "both": {"fweights": [1, 2, 0, 3], "aweights": [0.5, 1, 2, 1]},
    "weights, no ddof": {"aweights": [0.5, 1, 2, 1], "ddof": 0},
}  # fmt: skip


@pytest.mark.parametrize("options", COV.values(), ids=COV)
@pytest.mark.parametrize("name", BACKENDS)
def test_cov(options, name):
    x = OBSERVED.T if "rowvar" in options else OBSERVED
    with backend.use(name):
        for m in (x, x.astype(np.float32), np.round(x).astype(int), OBSERVED[0]):
            agrees(lambda m: np.cov(m, **options), m)
        agrees(lambda m, y: np.cov(m, y, **options), x, x[:, :2] if "rowvar" in options else OBSERVED[0])
        check_grads(lambda m: np.cov(m, **options), (x,))


@pytest.mark.parametrize("name", BACKENDS)
def test_corrcoef(name):
    agrees(np.corrcoef, OBSERVED)
    agrees(lambda x: np.corrcoef(x, rowvar=False), OBSERVED.T)
    agrees(np.corrcoef, OBSERVED[0], OBSERVED[1])
    agrees(np.corrcoef, OBSERVED[0])
    with backend.use(name):
        check_grads(lambda x: np.corrcoef(x)[0, 1:], (OBSERVED,))
        check_grads(lambda x, w: np.cov(x, aweights=w), (OBSERVED, np.array([0.5, 1, 2, 1])))


def test_cov_of_nothing():
    agrees(np.cov, np.zeros((0, 3)))


# ---------------------------------------------------------------- methods and refusals


def test_methods():
    x = np.array([3.0, 0, 2])
    for t in (at.array(x), at.Param(x)):
        for y, e in ((t.argsort(), x.argsort()), (t.argsort(kind="stable"), x.argsort()), (t.argpartition(1)[1], x.argpartition(1)[1])):
            same(y, e)
        same(t.nonzero(), x.nonzero())
    with pytest.raises(TypeError, match=r"t.sort\(\) would sort t in place, and a Tensor never changes: np.sort\(t\) gives a new one"):
        at.array(x).sort()
    with pytest.raises(TypeError, match=r"np.partition\(t\)"):
        at.array(x).partition(1)


WEIGHTS = np.array([[0.5, 2, 0, 1], [1, 1, 3, 0.25], [2, 0.1, 1, 1]])


@pytest.mark.parametrize("f, whole", [(np.quantile, 1), (np.percentile, 100), (np.nanquantile, 1), (np.nanpercentile, 100)])
@FEW
@given(data=st.data())
def test_weighed_quantiles_are_numpys(f, whole, data):
    x = HOLES if data.draw(st.booleans()) else np.random.default_rng(0).permutation(12).reshape(3, 4) + 0.5
    axis = data.draw(st.sampled_from([None, 0, 1, -1, (0, 1)]))
    of_an_axis = [WEIGHTS[1]] if axis == 1 and "nan" not in f.__name__ else []  # for NaN NumPy takes whole weights alone, by a fault
    weights = data.draw(st.sampled_from([WEIGHTS, WEIGHTS.astype(np.float32), *of_an_axis]))
    q = data.draw(st.sampled_from([0.3 * whole, np.array([0, 0.25, 1]) * whole, np.float32([[0.5], [0.9]]).ravel() * whole]))
    options = {"axis": axis, "weights": weights, "keepdims": data.draw(st.booleans()), "method": "inverted_cdf"}
    agrees(lambda x: f(x, q, **options), x)


def test_weighed_quantiles_are_elements_and_have_their_derivative():
    x = np.random.default_rng(0).permutation(12).reshape(3, 4) + 0.5
    check_grads(lambda x: np.quantile(x, [0.2, 0.7], axis=1, weights=WEIGHTS, method="inverted_cdf"), (x,))
    g = at.grad(lambda w: np.sum(np.quantile(x, 0.4, axis=1, weights=w, method="inverted_cdf")))(WEIGHTS)
    assert not g.any()


T = at.array(np.arange(6.0).reshape(2, 3))
REFUSED = {
    "axis": (lambda: np.sort(T, 2), ValueError, "axis 2"),
    "kind": (lambda: np.sort(T, kind="bogo"), ValueError, "bogo"),
    "order": (lambda: np.sort(T, order="x"), TypeError, "order"),
    "kth": (lambda: np.partition(T, 3), ValueError, "partition: kth 3 is out of bounds, for axis -1 of x (2, 3) has 3 elements"),
    "kth 1.5": (lambda: np.argpartition(T, 1.5), TypeError, "float"),
    "introselect": (lambda: np.partition(T, 0, kind="other"), ValueError, "introselect"),
    "no keys": (lambda: ops.lexsort(()), TypeError, "a key or more"),
    "keys": (lambda: np.lexsort((T, T[0])), ValueError, "one shape"),
    "2-d": (lambda: np.searchsorted(T, 1.0), ValueError, "must be 1-d, not (2, 3)"),
    "side": (lambda: np.searchsorted(T[0], 1.0, side="middle"), ValueError, "middle"),
    "bins": (lambda: np.digitize(T, np.array([1, 3, 2])), ValueError, "rise or fall"),
    "2-d bins": (lambda: np.digitize(T, np.ones((2, 2))), ValueError, "1-d"),
    "q": (lambda: np.quantile(T, 1.5), ValueError, "quantile: q must be from 0 to 1"),
    "q in percent": (lambda: np.percentile(T, [50, 101]), ValueError, "percentile: q must be from 0 to 100"),
    "q of NaN": (lambda: np.quantile(T, NAN), ValueError, "q must be"),
    "method": (lambda: np.quantile(T, 0.5, method="best"), ValueError, "midpoint"),
    "weights without their method": (lambda: np.quantile(T, 0.5, weights=T), ValueError, "inverted_cdf"),
    "weights below 0": (lambda: np.quantile(T, 0.5, weights=-abs(T), method="inverted_cdf"), ValueError, "from 0 on"),
    "weights of another shape": (lambda: np.percentile(T, 5, weights=[1, 2], method="inverted_cdf"), TypeError, "need an axis"),
    "complex quantiles": pytest.param(lambda: np.quantile(at.array([1j]), 0.5), TypeError, "real", marks=COMPLEX),
    "trim": (lambda: np.trim_zeros(T[0], "x"), ValueError, "trim"),
    "bincount of floats": (lambda: np.bincount(T[0]), TypeError, "whole numbers, not float64"),
    "bincount of -1": (lambda: np.bincount(at.array([0, -1])), ValueError, "-1"),
    "bincount in 2-d": (lambda: np.bincount(at.array([[1]])), ValueError, "(1, 1)"),
    "weights of bincount": (lambda: np.bincount(at.array([1, 2]), T[0]), ValueError, "(3,)"),
    "weights of a histogram": (lambda: np.histogram(T, 3, weights=T[0]), ValueError, "x's shape (2, 3)"),
    "weights and a rule": (lambda: np.histogram(T, "auto", weights=T), TypeError, "auto"),
    "weights and a rule of edges": (lambda: np.histogram_bin_edges(T, "fd", weights=T), TypeError, "fd"),
    "bins of a grid": (lambda: np.histogramdd(T.T, [2, 2, 2]), ValueError, "2 columns need as many bins"),
    "weights of points": (lambda: np.histogram2d(T[0], T[1], weights=T), ValueError, "x's shape (3,)"),
    "3-d cov": (lambda: np.cov(T[None]), ValueError, "(1, 2, 3)"),
    "weights of cov": (lambda: np.cov(T, aweights=[1, 2]), RuntimeError, "aweights must have shape (3,)"),
    "negative weights": (lambda: np.cov(T, aweights=[1, -2, 1]), ValueError, "negative"),
    "fractional fweights": (lambda: np.cov(T, fweights=[1, 0.5, 1]), TypeError, "whole numbers"),
    "fractional ddof": (lambda: np.cov(T, ddof=0.5), ValueError, "ddof"),
}


@pytest.mark.parametrize("call, kind, says", REFUSED.values(), ids=REFUSED)
def test_refused(call, kind, says):
    with pytest.raises(kind) as caught:
        call()
    assert says in str(caught.value)


# ---------------------------------------------------------------- beside infinities and NaN

INF = np.inf
with np.errstate(all="ignore"):
    NAN_THERE = bool(np.isnan(np.quantile([1, 2, INF], 1)))
METHODS_OF_QUANTILES = [*quantiles.MEANS, *quantiles.CONTINUOUS, *quantiles.STEPS]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.skipif(NAN_THERE, reason="this NumPy gives NaN there, as later ones do not")
@pytest.mark.parametrize("method", METHODS_OF_QUANTILES)
@pytest.mark.parametrize("x", [[1, 2, INF], [1, INF, INF], [-INF, 2, 3], [-INF, -INF, INF, INF], [4, -INF, 1, 9, INF]], ids=str)
def test_quantiles_beside_infinities_are_numpys(x, method):
    x = np.array(x)
    for q in (0.0, 1.0, 0.25, 0.75, 0.5, 0.9, [0.1, 0.6, 1.0], 0, 1, [0, 1]):
        for f in (np.quantile, np.nanquantile):
            same(f(at.array(x), q, method=method), np.asarray(f(x, q, method=method)))
        percents = np.multiply(q, 100.0)
        same(np.percentile(at.array(x), percents, method=method), np.asarray(np.percentile(x, percents, method=method)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_quantiles_beside_infinities_in_numbers():
    def quantile(x, *args, **options):
        return np.quantile(at.array(x), *args, **options).numpy().tolist()

    assert quantile([1, 2, INF], 1) == INF and quantile([1, 2, INF], [0, 1]) == [1, INF] and quantile([1, INF, INF], 0) == 1
    assert quantile([-INF, 2, 3], 0.25) == -INF
    assert np.isnan(quantile([1, 2, INF], 0.75)) and np.isnan(quantile([1, 2, INF], 0.5, method="midpoint"))


def test_quantiles_for_whole_q_keep_the_dtype():
    x = np.array([3, 1, 2])
    for q in (0, 1, [0, 1], np.int64(1), True, np.array([[1, 0]])):
        for f in (np.quantile, np.nanquantile):
            for dtype in (np.int64, np.float32):
                y = f(at.array(x.astype(dtype)), q)
                assert y.dtype == dtype and y.shape == np.shape(q)
                close(y.numpy(), np.where(q, 3, 1))
    assert np.quantile(at.array(x), 1.0).dtype == np.percentile(at.array(x), 100).dtype == np.float64
    close(at.grad(lambda x: np.quantile(x, [0, 1]) @ np.array([2.0, 5.0]))(np.array([3.0, 1, 2])), [5, 2, 0])


def test_the_median_of_the_largest_numbers_is_finite():
    assert np.nanmedian(at.array([1.7e308, NAN])).item() == 1.7e308 == np.median(at.array([1.7e308])).item()


@pytest.mark.parametrize("f", [np.quantile, np.nanquantile], ids=str)
@pytest.mark.parametrize("wrong", [[NAN, NAN, NAN], [1, INF, INF], [-INF, -INF, 1]], ids=str)
def test_a_result_that_is_left_out_leaves_the_derivative_in_q_finite(f, wrong):
    x = np.stack([np.array([1.0, 2.0, 4.0]), np.array(wrong)])

    def loss(q, x):
        y = f(x, q, axis=1)
        return np.sum(np.where(np.isfinite(y), y, 0))

    with np.errstate(invalid="ignore"):
        dq, dx = at.grad(loss, 0)(np.array(0.6), at.array(x)), at.grad(loss, 1)(0.6, x)
    close(dq, 4)
    close(dx[0], [0, 0.8, 0.2])
    assert np.isfinite(dx).all()


def test_the_derivatives_of_quantiles_hold_on_both_sides_of_the_middle():
    x = np.array([[2.0, 0.5], [-1, 3], [0.75, 1]])
    for q in (0.1, 0.3, 0.45, 0.7, 0.95):
        check_grads(lambda x, q: np.quantile(x, q, axis=0), (x, np.array([q])))


# ---------------------------------------------------------------- histograms and places


def test_histograms_over_a_range_of_tensors():
    x = np.array([1.0, 2.0, 4.0, 5.5])
    edges = np.linspace(1, 5.5, 4)
    for f in (
        lambda t: np.histogram(t, 3, range=(np.min(t), np.max(t)))[1],
        lambda t: np.histogram_bin_edges(t, 3, range=(np.min(t), np.max(t))),
        lambda t: np.histogram_bin_edges(t, 3, range=np.stack([t[0], t[3]])),
        lambda t: np.histogram2d(t, t, 3, range=[(np.min(t), np.max(t)), [0, 1]])[1],
        lambda t: np.histogramdd([t], 3, range=[(np.min(t), 5.5 + 0 * t[0])])[1][0],
    ):
        close(f(at.array(x)).numpy(), edges)
        y, pull = at.vjp(f, x)
        close(y, edges)
        assert np.ravel(pull(np.ones(4)))[0] == 2
    close(at.grad(lambda t: np.histogram(t, 3, range=(np.min(t), np.max(t)), density=True)[0][0])(x), [2 / 27, 0, 0, -2 / 27])
    assert np.histogram(at.array(x), 3, range=(at.array(0.0), at.Param(np.array(9.0))))[0].numpy().tolist() == [2, 2, 0]


def test_columns_of_a_sample_have_one_length_and_one_dtype():
    x, y = np.array([1.0, 2, 4], np.float32), np.array([3.0, 5, 1])
    for wrong in (x[:1], x[:2]):
        with pytest.raises(ValueError, match=r"histogram2d: x \(3,\) and y"):
            np.histogram2d(at.array(y), wrong)
        with pytest.raises(ValueError, match="one length"):
            np.histogramdd([at.array(y), wrong])
    with pytest.raises(ValueError, match=r"\(n, d\)"):
        np.histogramdd(at.array(np.ones((2, 2, 2))))
    for found, expected in zip(np.histogram2d(at.array(x), y, 2), np.histogram2d(x, y, 2), strict=True):
        same(found, expected)
    for dtype in (np.int32, np.float32):
        edges = np.histogramdd([at.array(x.astype(dtype)), x.astype(dtype)], 2)[1]
        assert edges[0].dtype == np.histogramdd([x.astype(dtype), x.astype(dtype)], 2)[1][0].dtype


def test_raw_weights_beside_a_tensor_give_tensors():
    t, w = at.array([1, 2, 2]), np.array([0.5, 1.0, 2.0])
    results = [np.bincount(t, w), np.histogram(t, 2, weights=w)[0], ops.histogram(t, 2, weights=w)[0]]
    results += [np.histogram2d(t, t, 2, weights=w)[0], ops.histogramdd([w, t * 1.0], 2, weights=w)[0], ops.histogramdd([w, t * 1.0], 2)[0]]
    assert all(type(y) is at.Tensor for y in results)
    close(results[0].numpy(), [0, 0.5, 3])
    assert type(ops.bincount(t.numpy(), w)) is backend.kernels().array


@COMPLEX
def test_complex_weights_are_refused_where_numpy_refuses_them():
    t, w = at.array([1, 2]), np.array([1j, 2])
    for call in (lambda: np.bincount(t, w), lambda: np.histogram2d(t, t, 2, weights=w), lambda: np.histogramdd([t, t], 2, weights=w)):
        with pytest.raises(TypeError, match="weights must be real, not complex128"):
            call()
    close(np.histogram(t, 2, weights=w)[0].numpy(), [1j, 2])


def test_digitize_takes_bins_of_nan_as_numpy_does():
    x = np.array([1.0, 5.0, NAN, -1.0])
    for bins in ([1, 2, NAN], [NAN, 2, 1], [NAN, NAN], [1, 1, 3], [3, 3, 1], [2, 2], []):
        same(np.digitize(at.array(x), bins), np.digitize(x, bins))
    for bins in ([NAN, 1, 2], [1, 2, NAN, 0, -1, 3, 2], [1, 3, 2]):
        with pytest.raises(ValueError, match="rise or fall"):
            np.digitize(at.array(x), bins)


@pytest.mark.numpy_only("the steps of NumPy's search, in bins that no order holds for")
@pytest.mark.parametrize("bins", [[1, NAN, NAN], [1, NAN, 0]])
def test_digitize_searches_bins_out_of_order_as_numpy_does(bins):
    x = np.array([1.0, 5.0, NAN, -1.0])
    same(np.digitize(at.array(x), bins), np.digitize(x, bins))


def test_empty_and_0d_inputs_are_numpys():
    for shape, kth, axis in (((0,), 0, -1), ((3, 0), 1, -1), ((0, 3), 7, 0), ((3, 0), [5, -9], 1)):
        same(np.partition(at.array(np.zeros(shape)), kth, axis), np.partition(np.zeros(shape), kth, axis))
        same(np.argpartition(at.array(np.zeros(shape)), kth, axis), np.argpartition(np.zeros(shape), kth, axis))
    same(np.lexsort(at.array([3, 1, 2])), np.asarray(np.lexsort(np.array([3, 1, 2]))))
    with pytest.raises(TypeError, match="a key or more"):
        np.lexsort(at.array(3))
    for options in ({}, {"weights": np.ones(3)}, {"density": True}):
        for bins in ([], [1.0]):
            same(np.histogram(at.array(np.ones(3)), bins, **options), np.histogram(np.ones(3), bins, **options))
    same(np.bincount(at.array(np.array([1, 3, 1], np.uint64))), np.array([0, 2, 0, 1]))
    same(np.quantile(at.array(np.ones(3)), []), np.zeros(0))


# ---------------------------------------------------------------- running products


def test_cumprod_is_numpys_beyond_overflow():
    for x in (np.arange(300.0), np.array([1e-200, 1e-200, 1e200, 1e200]), np.array([INF, 0, 1]), np.array([NAN, 0, 1])):
        with np.errstate(all="ignore"):
            same(np.cumprod(at.array(x)), np.cumprod(x))
            same(np.nancumprod(at.array(x)), np.nancumprod(x))
            same(np.multiply.accumulate(at.array(x)), np.multiply.accumulate(x))
    for dtype in (np.bool_, np.int32, np.float16, np.float32):
        same(np.cumprod(at.array(np.ones((2, 3), dtype)), 0), np.cumprod(np.ones((2, 3), dtype), 0))


@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("x", [[1, 0, 3, 0, 5], [0, 0, 0], [5], [1, 2, 0, 4, 0.5, -1, 3], [[1, 0, 2], [3, 4, 0]]], ids=str)
def test_the_derivatives_of_cumprod_hold_at_zeros(x, backend_name):
    x = np.array(x, float)
    with backend.use(backend_name):
        check_grads(lambda x: np.cumprod(x, -1), (x,))
    n = x.shape[-1]
    rows = [[sum(np.prod(np.delete(row[: j + 1], i)) for j in range(i, n)) for i in range(n)] for row in x.reshape(-1, n)]
    close(at.grad(lambda x: np.sum(np.cumprod(x, -1)))(x), np.reshape(rows, x.shape))


def test_the_derivatives_of_products_are_finite_beside_overflow():
    with np.errstate(over="ignore"):
        g = at.grad(lambda x: np.sum(np.cumprod(x)[:3]))(np.full(300, 100.0))
        close(g, [10101, 10100, 10000] + [0] * 297)
        for f in (np.prod, lambda x: np.cumprod(x)[-1]):
            close(at.grad(f)(np.array([0, 1e200, 1e200, 1e200])), [INF, 0, 0, 0])
            close(at.grad(f)(np.arange(300.0)), np.where(np.arange(300) == 0, INF, 0))


# ---------------------------------------------------------------- lists


@pytest.mark.parametrize("name", [name for name in ops.__all__ if name.startswith("nan") and "tile" not in name and name != "nan_to_num"])
def test_lists_are_taken(name):
    x = [[1.0, NAN, 3.0], [4.0, 2.0, NAN]]
    for axis in (None, 0):
        close(getattr(ops, name)(x, axis), getattr(np, name)(x, axis))
    close(getattr(ops, name)([3, 1, 2]), getattr(np, name)([3, 1, 2]))
