"""The pycuda backend's reductions and scans against NumPy's: every type, any axes and strides, and the ways that long ones are parted."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotape.backends.numpy_backend import NumpyKernels
from autotape.backends.pycuda_backend import reduction_plans
from autotape.backends.pycuda_backend.array import DeviceArray, view

ml_dtypes = pytest.importorskip("ml_dtypes")

N = NumpyKernels()
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
EPS = {np.dtype(t): float(ml_dtypes.finfo(t).eps) for t in (np.float16, BFLOAT16, np.float32, np.float64)}
REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
ALL = [np.dtype(t) for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", BFLOAT16, "f4", "f8")]
FEW = [np.dtype(t) for t in ("?", "i1", "f2", "f4")]
TYPES = {  # every unit that is compiled costs a second, so each type meets some of the kernels, and each kernel some of the types
    "sum": ALL, "prod": FEW, "max": ALL[::2], "min": ALL[1::2], "any": FEW[1:3], "all": FEW[2:],
    "argmin": ALL[::3], "argmax": [*FEW[1:], BFLOAT16],
}  # fmt: skip
LENGTHS = (1, 2, 3, 4, 7, 31, 32, 33, 127, 128, 255, 256, 257, 1023, 1024, 1028, 2049, 4096)
EXAMPLES = max(1, settings().max_examples // 4)  # each is several launches


def onto(k, a):
    """A NumPy array on the device, with the same strides."""
    root = a
    while root.base is not None:
        root = root.base
    flat = k.adopt(root.ravel("K"))
    offset = a.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return view(flat, a.shape, a.strides, offset) if a.size else k.adopt(a)


def numbers(shape, dtype, seed=0):
    """Small numbers with ties, so that sums and products stay within every type's range."""
    rng = np.random.default_rng(seed)
    if dtype.kind in "biu":
        return rng.integers(0 if dtype.kind != "i" else -3, 4, shape).astype(dtype)
    return rng.standard_normal(shape).round(1).astype(dtype)


def exact(name, a, *args):
    """NumPy's result, of floats computed in float64."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide = a.astype(np.float64) if a.dtype in EPS and name in ("sum", "prod", "cumsum", "cumprod") else a
        return getattr(N, name)(wide, *args), getattr(N, name)(a, *args).dtype


def check(k, name, a, *args, terms=None):
    """The kernel's result against NumPy's; sums of n terms may be wrong by a few roundings, but not by n of them."""
    y = getattr(k, name)(onto(k, a), *args)
    wanted, dtype = exact(name, a, *args)
    assert isinstance(y, DeviceArray) and y.dtype == dtype, f"{name}{args} of {a.dtype}: {y.dtype}, not {dtype}"
    assert y.shape == wanted.shape, f"{name}{args} of {a.shape}: {y.shape}, not {wanted.shape}"
    got, case = np.asarray(y), f"{name}{args} of {a.shape} {a.dtype} with strides {a.strides}"
    if a.dtype not in EPS or name in ("max", "min", "any", "all", "argmax", "argmin"):
        np.testing.assert_array_equal(got, wanted, case)
        return
    size = np.add.reduce(np.abs(a.astype(np.float64)), args[0]) if "sum" in name else np.abs(wanted)
    scale = np.max(size, initial=1, where=np.isfinite(size))
    eps = EPS[a.dtype] + 20 * EPS[np.dtype(np.float32)] if a.dtype.itemsize < 4 else (200 if "prod" in name else 20) * EPS[a.dtype]
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=eps, atol=eps * scale, err_msg=case)


# -- reductions


@pytest.mark.parametrize("name, dtype", [(n, t) for n, types in TYPES.items() for t in types], ids=str)
def test_every_type(k, name, dtype):
    a = numbers((4, 32), dtype)
    for axis in (None, 0, 1):
        check(k, name, a, axis, False)


@st.composite
def arrays(draw):
    """An array of any shape, its axes in any order, stepped through forwards, backwards, by twos, or not at all."""
    shape = draw(st.lists(st.sampled_from((1, 2, 3, 4, 5, 8)), min_size=1, max_size=4))
    steps = draw(st.lists(st.sampled_from((1, 1, 1, -1, 2, 0)), min_size=len(shape), max_size=len(shape)))
    order = draw(st.permutations(range(len(shape))))
    root = numbers([n * max(abs(s), 1) for n, s in zip(shape, steps, strict=True)], np.dtype(np.float32), seed=len(shape))
    a = root[tuple(slice(None, None, s or 1) for s in steps)]
    a = a[tuple(slice(0, 1) if s == 0 else slice(None) for s in steps)]
    return np.broadcast_to(a, shape).transpose(order)


@settings(max_examples=EXAMPLES)
@given(st.data(), arrays(), st.booleans())
def test_any_axes_and_strides(k, data, a, keepdims):
    axis = data.draw(st.one_of(st.none(), st.sets(st.integers(0, a.ndim - 1)).map(tuple)))
    for name in ("sum", "max"):
        check(k, name, a, axis, keepdims)
    for axis in (None, data.draw(st.integers(-a.ndim, a.ndim - 1))):
        check(k, "argmax", a, axis, keepdims)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_of_rows_and_columns(k, length):
    a = numbers((3, length), np.dtype(np.float32), seed=length)
    for name in ("sum", "max", "argmax"):
        check(k, name, a, 1, False)
        check(k, name, a, 0, False)
        check(k, name, a.T, 0, True)
        check(k, name, np.ascontiguousarray(a.T), 0, False)


PARTED = {
    "whole": ((70_000,), 0), "whole, packed": ((65_536,), 0), "rows": ((3, 70_001), 1), "columns": ((9_000, 5), 0),
    "packed columns": ((9_000, 8), 0), "middle": ((2, 5_000, 6), 1), "outer and inner": ((30, 2, 1_024), (0, 2)),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTED)
def test_long_reductions_are_made_in_parts(k, case):
    shape, axis = PARTED[case]
    a = numbers(shape, np.dtype(np.float32))
    plan = reduction_plans.plan(shape, a.strides, 4, axis, False, 4, False, 132)
    assert plan.grid[1] > 1, f"{case}: one part"
    for name in ("sum", "max", "any") if isinstance(axis, tuple) else ("sum", "max", "argmax"):
        check(k, name, a, axis, False)


def test_parts_of_narrow_types(k):
    for dtype in (np.dtype(np.float16), BFLOAT16, np.dtype(bool)):
        check(k, "sum", numbers((80_000,), dtype), None, False)
    check(k, "argmax", numbers((80_000,), np.dtype(np.float16)), None, False)


def test_sums_in_parts_are_accurate(k):
    a = np.full(200_000, 0.1, np.float32)
    for x, axis in ((a, 0), (a.reshape(-1, 8), 0), (a.reshape(2, -1), 1)):
        y, wanted = np.asarray(k.sum(k.adopt(x), axis, False)), x.astype(np.float64).sum(axis)
        np.testing.assert_allclose(y, wanted, rtol=4 * EPS[np.dtype(np.float32)], err_msg=str(x.shape))
    assert np.asarray(k.sum(k.adopt(np.ones(4097, np.float16)), 0, False)) == 4096  # float16 has no 4097, and sums to 2048 one by one


def test_the_same_bits_on_every_run(k):
    for shape, axis in (((70_000,), 0), ((9_000, 5), 0), ((40, 50, 60), (0, 2))):
        x = k.adopt(numbers(shape, np.dtype(np.float32)) / 3)
        first, again = (np.asarray(k.sum(x, axis, False)) for _ in range(2))
        np.testing.assert_array_equal(first, again, f"{shape} {axis}")


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), np.dtype(np.float32)], ids=str)
def test_nan_and_infinities(k, dtype):
    nan, inf = np.nan, np.inf
    rows = [[1, nan, 3, nan], [nan, nan, nan, nan], [-inf, -inf, -inf, -inf], [inf, -inf, 0, 1], [inf, 2, inf, -0.0], [0, -0.0, 0, 0]]
    a = np.array(rows, dtype)
    for name in (*REDUCTIONS, "argmax", "argmin"):
        check(k, name, a, 1, False)
        check(k, name, np.asfortranarray(a), 1, False)


@pytest.mark.parametrize("value, place", [(5, 69_000), (np.nan, 68_999)])
def test_the_first_of_extrema_counts_across_parts(k, value, place):
    a = np.zeros(70_000, np.float32)
    a[[place, 69_500, 69_999]] = value
    assert np.asarray(k.argmax(k.adopt(a), 0, False)) == place


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("i1", "u2", "i8")], ids=str)
def test_integers_overflow_as_numpys(k, dtype):
    most = np.iinfo(dtype).max
    a = np.array([[most, most, 2], [most, 1, 1]], dtype)
    check(k, "sum", a, 1, False)
    check(k, "sum_to", a, (1, 3))


def test_nothing_to_reduce(k):
    for shape, axis in (((0,), 0), ((3, 0), 1), ((0, 3), 0), ((0, 3), None), ((2, 0, 3), (0, 1))):
        for name in ("sum", "prod", "any", "all"):
            check(k, name, np.ones(shape, np.float32), axis, False)
        for name in ("max", "min"):
            with pytest.raises(ValueError, match=f"an array of shape .* has no {name}imum along axis"):
                getattr(k, name)(k.adopt(np.ones(shape, np.float32)), axis, False)
    for name in ("max", "min", "argmax", "argmin"):
        check(k, name, np.ones((0, 3), np.float32), 1, False)
        with pytest.raises(ValueError, match="where it is empty"):
            getattr(k, name)(k.adopt(np.ones((0, 3), np.float32)), 0, False)


def test_of_no_axes(k):
    for a in (np.array(3.5, np.float32), np.array(7, np.int8)):
        for name in (*REDUCTIONS, "argmax", "argmin"):
            for axis in (None, 0, -1):
                check(k, name, a, axis, True)
    for name in REDUCTIONS:
        check(k, name, np.float32([[1, 2], [0, 4]]), (), False)
    x = k.scalar(2.5, np.float32)
    assert np.asarray(k.sum(x, None, False)) == 2.5, "a number that is not in memory"


def test_more_axes_than_a_launch_takes(k):
    a = numbers((2,) * 18, np.dtype(np.float32))[(slice(None, None, -1), slice(None)) * 9]  # no two are one
    assert reduction_plans.plan(a.shape, a.strides, 4, (0,), False, 1, False, 132) is None
    check(k, "sum", a, 0, False)
    check(k, "argmax", a, 3, True)


@pytest.mark.parametrize("name", [*REDUCTIONS, "argmax", "argmin"])
def test_axes_that_there_are_not(k, name):
    x = k.adopt(np.ones((2, 3), np.float32))
    for axis in (2, -3, *([(0, 0)] if name in REDUCTIONS else [])):
        with pytest.raises(ValueError, match="axis"):
            getattr(k, name)(x, axis, False)


def test_sum_to(k):
    for dtype in (np.dtype(np.float32), np.dtype(np.int8), np.dtype(bool), np.dtype(np.float16)):
        a = numbers((2, 3, 4), dtype)
        for shape in ((3, 4), (4,), (), (1, 3, 1), (3, 1), (1, 1), (2, 1, 4), (1, 1, 1)):
            y, eps = k.sum_to(onto(k, a), shape), 2 * EPS.get(dtype, 0)
            wanted = N.sum_to(a.astype(np.float64) if eps else a, shape)
            assert y.shape == shape and y.dtype == dtype
            np.testing.assert_allclose(np.asarray(y).astype(wanted.dtype), wanted, rtol=eps, atol=10 * eps, err_msg=f"{shape} {dtype}")
    x = k.adopt(np.ones((1, 3), np.float32))
    assert k.sum_to(x, (1, 3)) is x and k.sum_to(x, (3,)).address == x.address
    check(k, "sum_to", np.ones((0, 3), np.int32), (3,))
    for shape in ((2, 3), (1, 4), (1, 1, 3)):
        with pytest.raises(ValueError, match=r"sum_to: shape .* doesn't broadcast to \(1, 3\)"):
            k.sum_to(x, shape)


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("f2", "f4", "f8", "i4")], ids=str)
def test_sum_of_squares_is_in_double_precision(k, dtype):
    a = numbers((70, 300), dtype)
    for x in (a, a.T, a[::-1, ::2]):
        y = k.sum_of_squares(onto(k, x))
        assert y.shape == () and y.dtype == np.float64
        np.testing.assert_allclose(float(y), (x.astype(np.float64) ** 2).sum(), rtol=1e-13)
    assert float(k.sum_of_squares(k.adopt(np.ones((0, 2), dtype)))) == 0


# -- scans


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", FEW, ids=str)
def test_scans_of_every_type(k, name, dtype):
    a = numbers((3, 40), dtype)
    for axis in (0, 1, -1):
        check(k, name, a, axis)


@settings(max_examples=EXAMPLES)
@given(st.data(), arrays())
def test_scans_along_any_axis(k, data, a):
    check(k, "cumsum", a, data.draw(st.integers(-a.ndim, a.ndim - 1)))


SCANNED = [((2, n), 1) for n in (33, 255, 256, 1024, 1025, 2047, 2048, 2052)] + [
    ((70_001,), 0), ((65_536,), 0), ((2, 40_000), 1), ((2_000, 3), 0), ((3, 700, 5), 1), ((300, 2), 0), ((2, 1), 0),
]  # fmt: skip


@pytest.mark.parametrize("shape, axis", SCANNED)
def test_long_scans(k, shape, axis):
    check(k, "cumsum", numbers(shape, np.dtype(np.float32)), axis)


def test_scans_of_long_lines_of_other_types_and_strides(k):
    a = numbers((2, 40_000), np.dtype(np.int8))
    check(k, "cumsum", a, 1)
    check(k, "cumsum", a[:, ::-1], 1)
    check(k, "cumsum", numbers((40_000,), np.dtype(np.float64)), 0)
    check(k, "cumprod", 1 + numbers((20_000,), np.dtype(np.float64)) / 1000, 0)


def test_scans_with_more_axes_than_a_launch_takes(k):
    check(k, "cumsum", numbers((2,) * 18, np.dtype(np.float32))[(slice(None, None, -1), slice(None)) * 9], 5)


def test_edges_of_scans(k):
    inf, nan = np.inf, np.nan
    for a in ([-0.0, -0.0, 1], [inf, 1, -inf, 2], [1, nan, 3], [0, inf, 2]):
        for name in ("cumsum", "cumprod"):
            a = np.array(a, np.float32)
            y, wanted = np.asarray(getattr(k, name)(k.adopt(a), 0)), exact(name, a, 0)[0]
            np.testing.assert_array_equal(y, wanted, f"{name} of {a}")
            assert (np.signbit(y) == np.signbit(wanted))[~np.isnan(wanted)].all(), f"{name} of {a}: {y}"
    check(k, "cumsum", np.array(3, np.int8), 0)
    for shape, axis in (((0,), 0), ((2, 0), 0), ((2, 0), 1)):
        check(k, "cumsum", np.ones(shape, np.float32), axis)
    for axis in (2, -3):
        with pytest.raises(ValueError, match="axis"):
            k.cumsum(k.adopt(np.ones((2, 3), np.float32)), axis)


def test_scans_give_the_same_bits_on_every_run(k):
    x = k.adopt(numbers((70_001,), np.dtype(np.float32)) / 3)
    first, again = (np.asarray(k.cumsum(x, 0)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_inputs_stay_as_they_are(k):
    a = numbers((40, 50), np.dtype(np.float32))
    x = k.adopt(a)
    for name in REDUCTIONS:
        getattr(k, name)(x, 0, False)
    k.cumsum(x, 1), k.sum_of_squares(x)
    np.testing.assert_array_equal(np.asarray(x), a)
