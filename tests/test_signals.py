"""Signals, grids, polynomials, slices, parts of numbers and Bessel functions: NumPy's values through NumPy's own names, derivatives,
conventions at knots and edges, and what does not fit."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, kernels
from autotape.numpy_protocol import DIFFERENTIABLE, UFUNCS, ZERO, account
from autotape.opsets import array as ops
from autotape.testing import check_grads
from autotape.testing.strategies import arrays, distinct, shapes

FEW = settings(max_examples=settings().max_examples // 7)
FLOATS = st.sampled_from([np.float32, np.float64])
BACKENDS = st.sampled_from(["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
MODES = st.sampled_from(["full", "same", "valid"])
seeds = st.integers(0, 999)
windows = np.lib.stride_tricks.sliding_window_view
close = np.testing.assert_allclose


def agrees(f, *args, rtol=None):
    """f of Tensors is f of the arrays, with the same shapes and dtypes."""
    expected, found = f(*args), f(*(at.array(x) if isinstance(x, np.ndarray) else x for x in args))
    assert isinstance(found, tuple) == isinstance(expected, tuple)
    for y, e in zip(listed(found), listed(expected), strict=True):
        assert isinstance(y, at.Tensor) and (y.shape, y.dtype) == (np.shape(e), np.asarray(e).dtype)
        tolerance = rtol or (2e-5 if np.asarray(e).dtype == np.float32 else 1e-11)
        close(y.numpy(), e, tolerance, tolerance)


def listed(y):
    return y if isinstance(y, (list, tuple)) else [y]


def drawn(seed, *shapes, dtype=np.float64, within=(-2, 2)):
    return [x.astype(dtype) for x in distinct(seed, shapes, [within] * len(shapes))]


# ---------------------------------------------------------------- Bessel functions


@FEW
@given(st.data())
def test_i0_values(data):
    agrees(np.i0, data.draw(arrays(shapes(), FLOATS, (-90, 80))), rtol=1e-6)
    agrees(np.i0, np.arange(-3, 4))


def bessel(order: int, x: float) -> Fraction:
    """The power series in fractions, of as many terms as a float can tell."""
    half, term, total = Fraction(x) / 2, Fraction(1), Fraction(0)
    for k in range(1, order + 1):
        term *= half / k
    for k in itertools.count(1):
        total += term
        term *= half * half / (k * (k + order))
        if term * 10**20 < total:
            return total


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_bessel_functions_have_their_digits(order):
    for x in (1e-3, 0.7, 5.0, 16.3, 19.9, 20.1, 24.9, 25.1, 33.0, 80.0):
        y, turned = (float(np.asarray(kernels().bessel_i(kernels().adopt(np.array(z)), order))) for z in (x, -x))
        assert abs(y / float(bessel(order, x)) - 1) < 2e-15
        assert turned == (-1) ** order * y


def test_derivatives_of_i0():
    f, derivatives = lambda x: np.i0(x), []
    for _ in range(5):
        f = at.grad(f)
        derivatives.append(f(0.0))
    close(derivatives, [0, 1 / 2, 0, 3 / 8, 0], atol=1e-15)
    assert at.grad(np.i0)(3.0) == ops.i1(np.array(3.0)) and ops.i1(np.float32([1])).dtype == np.float32
    assert 1e307 < ops.i1(np.array(713.0)) < math.inf  # exp(713) is infinite
    check_grads(np.i0, (np.array([-30.0, -2.0, 0.0, 0.3, 25.0]) / 10,))


@pytest.mark.numpy_only("complex numbers")
def test_i0_of_a_complex_number_is_refused():
    with pytest.raises(TypeError, match="real"):
        np.i0(at.array([1j]))


# ---------------------------------------------------------------- convolution


@FEW
@given(st.integers(1, 6), st.integers(1, 6), MODES, seeds, FLOATS)
def test_convolve_and_correlate(n, m, mode, seed, dtype):
    a, v = drawn(seed, (n,), (m,), dtype=dtype)
    for f in (np.convolve, np.correlate):
        agrees(lambda a, v, f=f: f(a, v, mode), a, v)
        agrees(lambda a, v, f=f: f(a, v, mode=mode), a, v.astype(np.float64))
    agrees(np.convolve, np.arange(n), np.arange(m))


@FEW
@given(st.integers(1, 5), st.integers(1, 5), MODES, seeds, BACKENDS)
def test_gradients_of_convolve_and_correlate(n, m, mode, seed, name):
    with backend.use(name):
        for f in (np.convolve, np.correlate):
            check_grads(lambda a, v, f=f: f(a, v, mode) ** 2, drawn(seed, (n,), (m,)))


def test_convolve_takes_numbers_and_lists_and_says_what_does_not_fit():
    t = at.array([1.0, 2.0])
    assert np.convolve(t, 3.0).tolist() == [3, 6] and np.convolve([1, 1], t).tolist() == [1, 3, 2]
    assert np.convolve(at.array(2.0), t).tolist() == [2, 4]
    for call in (lambda: np.convolve(t, np.ones((2, 2))), lambda: np.convolve(t, []), lambda: np.correlate(t, 2.0)):
        with pytest.raises(ValueError, match="must have one axis and an element or more"):
            call()
    with pytest.raises(ValueError, match="'full', 'same' or 'valid'"):
        np.convolve(t, t, "half")
    check_grads(lambda a: at.jacobian(lambda a: np.convolve(a, a[:2]))(a), (np.array([1.0, -2.0, 0.5]),))


# ---------------------------------------------------------------- interp


POINTS, VALUES = np.array([-1.0, 0.0, 0.5, 2.0]), np.array([1.0, 3.0, -1.0, 0.5])
AROUND = np.array([-math.inf, -3.0, -1.0, -0.5, 0.0, 0.2, 0.5, 1.9, 2.0, 2.5, math.inf])


@FEW
@given(shapes(), st.integers(1, 6), seeds, FLOATS, st.sampled_from([{}, {"left": 2.0}, {"left": -1, "right": 5.0}, {"period": 1.7}]))
def test_interp(shape, n, seed, dtype, options):
    x, xp, fp = drawn(seed, shape, (n,), (n,), dtype=dtype)
    agrees(lambda x, xp, fp: np.interp(x, xp, fp, **options), x, xp if "period" in options else np.sort(xp), fp)


@FEW
@given(st.integers(1, 5), seeds, BACKENDS, st.sampled_from([{}, {"left": 2.0}, {"right": -1}, {"period": 1.7}]))
def test_gradients_of_interp(n, seed, name, options):
    x, fp = drawn(seed, (2, 4), (n,))
    xp = np.arange(n) * 0.71 - 1.3
    with backend.use(name):
        check_grads(lambda x, xp, fp: np.interp(x, xp, fp, **options), (x, xp, fp))


def test_interp_at_points_and_edges():
    agrees(np.interp, AROUND, POINTS, VALUES)
    agrees(np.interp, np.append(AROUND, math.nan), POINTS, VALUES)
    agrees(lambda x: np.interp(x, POINTS, VALUES), np.array(0.3))
    agrees(np.interp, np.array([0, 1, 2, 3]), np.array([1, 1, 2, 2]), np.array([1, 2, 3, 4]))  # steps
    agrees(np.interp, np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0]), np.array([3.0, 4.0]))
    slopes = at.elementwise_grad(lambda x: np.interp(x, POINTS, VALUES))(AROUND)
    np.testing.assert_array_equal(slopes, [0, 0, 2, 2, -8, -8, 1, 1, 1, 0, 0])
    x = at.array([0.25, 7.0])
    assert at.grad(lambda right: np.interp(x, POINTS, VALUES, right=right).sum())(1.5) == 1
    np.testing.assert_array_equal(at.grad(lambda fp: np.interp(x, POINTS, fp).sum())(VALUES), [0, 0.5, 0.5, 1])


def test_interp_says_what_does_not_fit():
    x = at.array([0.5])
    for xp, fp in (([1, 2], [1, 2, 3]), ([], []), ([[1, 2]], [[1, 2]])):
        with pytest.raises(ValueError, match="1-d, of one length and not empty"):
            np.interp(x, xp, fp)
    with pytest.raises(ValueError, match="period must not be 0"):
        np.interp(x, POINTS, VALUES, period=0)
    with pytest.raises(TypeError, match="x and xp must be real"):
        np.interp(x, POINTS * 1j, VALUES)


# ---------------------------------------------------------------- unwrap and gradient


SHAPES = [((5,), -1), ((4, 3), 0), ((2, 1, 4), 2), ((0,), 0), ((1, 3), 0)]


@FEW
@given(st.sampled_from(SHAPES), seeds, FLOATS, st.sampled_from([{}, {"period": 3.0}]))
def test_unwrap(shape_and_axis, seed, dtype, options):
    shape, axis = shape_and_axis
    (p,) = drawn(seed, shape, dtype=dtype, within=(-20, 20))
    agrees(lambda p: np.unwrap(p, axis=axis, **options), p)
    agrees(lambda p: np.unwrap(p, 5.5, axis, **options), p)
    if p.size and dtype == np.float64:
        check_grads(lambda p: np.unwrap(p, axis=axis, **options) ** 2, (p,))


def test_unwrap_keeps_the_direction_of_half_a_period():
    for p, options in (([0, math.pi, 0, -math.pi], {}), ([0, 2, 4, 2, 0], {"period": 4}), ([0, 3, 1, 6, 2, 2], {"period": 5})):
        agrees(lambda p, options=options: np.unwrap(p, **options), np.array(p))
    close(at.grad(lambda p: np.unwrap(p)[-1])(np.array([0.0, 5.0, 11.0])), [0, 0, 1])


SPACINGS = [(), (0.5,), (2, np.array([0.0, 1.0, 1.5, 4.0])), (np.array([0, 1, 3]), np.array([0.0, 1.0, 2.0, 3.0]))]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("spacing", SPACINGS, ids=len)
def test_gradient(spacing, edge_order, dtype):
    f = np.array([[1, 5, -2, 4], [0, 3, 3, 2], [7, -1, 6, 1]]).astype(dtype)
    agrees(lambda f: np.gradient(f, *spacing, edge_order=edge_order), f)
    if len(spacing) < 2:
        for axis in (0, -1, (1,), (1, 0), ()):
            agrees(lambda f, axis=axis: np.gradient(f, *spacing, axis=axis, edge_order=edge_order), f)


@FEW
@given(seeds, st.sampled_from([1, 2]), BACKENDS)
def test_gradients_of_gradient(seed, edge_order, name):
    f, x = drawn(seed, (3, 4), (4,))
    with backend.use(name):
        check_grads(lambda f, x, h: np.gradient(f, h, x, edge_order=edge_order), (f, np.arange(4) + x / 5, np.array(0.7)))
        check_grads(lambda f, h: np.gradient(f, h, axis=1, edge_order=edge_order), (f, 0.3))


def test_gradient_says_what_does_not_fit():
    t = at.array(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"axis 0 of f \(2, 3\) must have 3 samples or more"):
        np.gradient(t, edge_order=2)
    with pytest.raises(ValueError, match=r"coordinates \(2,\) along axis 1"):
        np.gradient(t, 1.0, np.ones(2))
    with pytest.raises(TypeError, match="3 distances for 2 axes"):
        np.gradient(t, 1, 1, 1)
    with pytest.raises(ValueError, match="edge_order must be 1 or 2"):
        np.gradient(t, edge_order=3)


# ---------------------------------------------------------------- grids


ENDS = [(np.array(0.0), np.array(2.0)), (np.array([1.0, 2.0]), 5), (-1, np.array([[1.0], [3.0]])), (np.array([1, 2]), np.array([[4], [3]]))]


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("num", [0, 1, 2, 7])
@pytest.mark.parametrize("endpoint", [True, False])
def test_grids(ends, num, endpoint):
    for dtype in (np.float64, np.float32):
        a, b = (x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in ends)
        agrees(lambda a, b: np.linspace(a, b, num, endpoint), a, b)
        agrees(lambda a, b: np.logspace(a, b, num, endpoint), a, b)
        agrees(lambda a, b: np.logspace(a, b, num, endpoint, base=2), a, b)
        if np.all(np.multiply(a, b) > 0):
            agrees(lambda a, b: np.geomspace(a, b, num, endpoint), a, b)
            agrees(lambda a, b: np.geomspace(-a, -b, num, endpoint), a, b)
        agrees(lambda a, b: np.linspace(a, b, num, endpoint, axis=-1, dtype=int), a, b)
        if num > endpoint:
            agrees(lambda a, b: np.linspace(a, b, num, endpoint, retstep=True), a, b)


def test_grids_end_where_they_should():
    a, b = at.array(0.1), at.array(0.7)
    for f in (np.linspace, np.geomspace):
        y = f(a, b, 11)
        assert y[0] == a and y[-1] == b
        close(at.grad(lambda a, b, f=f: f(a, b, 11)[-1], (0, 1))(0.1, 0.7), [0, 1])
    assert np.linspace(at.array(0), 10, 11).tolist() == list(range(11))
    _, step = np.linspace(a, b, 1, retstep=True)
    assert math.isnan(step)
    agrees(lambda base: np.logspace(0, 2, 3, base=base), np.array([2.0, 3.0]))
    agrees(lambda base: np.logspace([1, 2], 2, 3, base=base, axis=-1), np.array([[2.0], [3.0]]))


def test_gradients_of_grids():
    a, b = np.array([0.5, 1.5]), np.array([[2.0], [3.0]])
    for f, num in itertools.product((np.linspace, np.geomspace, np.logspace), (1, 2, 4)):
        check_grads(lambda a, b, f=f, num=num: f(a, b, num), (a, b))
        check_grads(lambda a, b, f=f, num=num: f(a, b, num, endpoint=False), (a, b))


def test_grids_say_what_does_not_fit():
    t = at.array(1.0)
    with pytest.raises(ValueError, match="num must not be negative"):
        np.linspace(t, 2, -1)
    with pytest.raises(ValueError, match="must not be 0"):
        np.geomspace(t, 0.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_vander(dtype):
    for n, N, increasing in itertools.product((0, 1, 3), (None, 0, 1, 4), (False, True)):
        agrees(lambda x, N=N, increasing=increasing: np.vander(x, N, increasing), np.arange(n).astype(dtype))
    with pytest.raises(ValueError, match="1-d"):
        np.vander(at.array(np.ones((2, 2))))
    check_grads(lambda x: np.vander(x, 4), (np.array([0.0, -1.5, 2.0]),), order=3)


# ---------------------------------------------------------------- polynomials


P, Q = np.array([2.0, -1.0, 0.5, 3.0, 1.5]), np.array([4.0, 1.0, -2.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_polynomials(dtype):
    p, q = P.astype(dtype), Q.astype(dtype)
    for f in (np.polyadd, np.polysub, np.polymul, np.polydiv):
        for u, v in itertools.permutations((p, q, q[:1]), 2):
            agrees(f, u, v)
        agrees(f, np.array(3).astype(dtype), q)
    agrees(np.polymul, np.array([0, 0, 1]).astype(dtype), np.array([0, 0]).astype(dtype))
    for m in range(4):
        agrees(lambda p, m=m: np.polyder(p, m), p)
        agrees(lambda p, m=m: np.polyint(p, m), p)
    agrees(lambda p: np.polyint(p, 2, k=[3, 2.5]), p)
    agrees(lambda p: np.polyint(p, 2, 7), p)
    agrees(lambda p: np.polydiv(np.polymul(p, q), q), p, rtol=1e-5)
    for x in (np.array(2), np.ones((2, 3), np.float32), np.array([0.5, -1])):
        agrees(np.polyval, p, x)
    agrees(np.poly, q)
    assert np.poly(at.array(np.zeros(0))) == 1.0


def test_polynomials_in_two_variables():
    c, x, y = drawn(0, (2, 3), (4,), (4,))
    poly = np.polynomial.polynomial  # whose functions reach Tensors in newer NumPys alone
    close(ops.polyval2d(at.array(x), y, c).numpy(), poly.polyval2d(x, y, c))
    close(ops.polygrid2d(x, at.array(y[:2]), c).numpy(), poly.polygrid2d(x, y[:2], c))
    close(ops.polygrid2d(0.5, y, at.array(c)).numpy(), poly.polygrid2d(0.5, y, c))
    check_grads(ops.polyval2d, (x, y, c))
    with pytest.raises(ValueError, match="2-d"):
        ops.polyval2d(at.array(x), y, x)


def test_gradients_of_polynomials():
    check_grads(np.polyval, (P, np.array([0.5, -1.0])))
    check_grads(np.polydiv, (P, Q))
    check_grads(lambda p: np.polyint(np.polyder(p, 2), 2), (P,))
    check_grads(np.poly, (Q,))
    close(at.grad(lambda p: np.polyval(np.polyder(p), 2.0))(np.array([1.0, 1.0, 1.0])), [4, 1, 0])


def test_polynomials_say_what_does_not_fit():
    t = at.array(P)
    for f in (np.polyder, np.polyint):
        with pytest.raises(ValueError, match="m must not be negative"):
            f(t, -1)
    with pytest.raises(ValueError, match=r"k .* must be one number or 3 of them"):
        np.polyint(t, 3, [1, 2])
    with pytest.raises(ValueError, match="1-d"):
        np.poly(at.array(np.ones((2, 3))))


# ---------------------------------------------------------------- slices


@FEW
@given(seeds, FLOATS)
def test_slices(seed, dtype):
    (x,) = drawn(seed, (3, 4, 2), dtype=dtype)
    for axis in (0, 1, -1):
        agrees(lambda x, axis=axis: np.apply_along_axis(np.sum, axis, x), x)
        agrees(lambda x, axis=axis: np.apply_along_axis(np.outer, axis, x, np.float32([1, 2])), x)
        agrees(lambda x, axis=axis: np.apply_along_axis(lambda v, by: v[1:] * by, axis, x, by=2), x)
        for start in (0, 2, 3, -1):
            agrees(lambda x, axis=axis, start=start: np.rollaxis(x, axis, start), x)
    for shape in ((5, 7), 3, (2, 0), (), (24,)):
        agrees(lambda x, shape=shape: np.resize(x, shape), x)
    for shape, axis in (((2, 3, 1), None), (2, 1), ((3, 2), (0, -1)), ((2, 2), (1, 1)), ((0,), 0), ((), ())):
        agrees(lambda x, shape=shape, axis=axis: windows(x, shape, axis), x)
    agrees(lambda x: np.resize(x, (2, 2)), x[:0])
    if hasattr(np, "unstack"):
        agrees(lambda x: np.unstack(x, axis=-2), x)


def test_gradients_of_slices():
    (x,) = drawn(0, (3, 4))
    check_grads(lambda x: np.apply_along_axis(lambda v: np.sum(v) * v, 0, x), (x,))
    check_grads(lambda x: windows(x, (2, 2)) ** 2, (x,))
    check_grads(lambda x: np.resize(x, (5, 5)) ** 2, (x,))


def test_slices_say_what_does_not_fit():
    t = at.array(np.ones((2, 3)))
    for shape, axis in ((3, None), ((-1, 1), None), ((2, 2), (0,))):
        with pytest.raises(ValueError, match="0 or more, for each of the axes"):
            windows(t, shape, axis)
    with pytest.raises(ValueError, match="larger than x"):
        windows(t, 4, 1)
    with pytest.raises(ValueError, match="not be negative"):
        np.resize(t, (-1, 2))
    with pytest.raises(ValueError, match="no slices"):
        np.apply_along_axis(np.sum, 0, at.array(np.ones((2, 0))))
    with pytest.raises(np.exceptions.AxisError):
        np.rollaxis(t, 0, 4)
    with pytest.raises(ValueError, match="must have an axis"):
        ops.unstack(at.array(1.0))


# ---------------------------------------------------------------- parts of numbers


FLOATING = np.array([0.0, -0.0, 1.0, -2.5, 3.75, 1e-310, -1e300, 0.5, math.inf, -math.inf])


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
def test_parts_of_numbers():
    exact = {"rtol": 1e-15}
    for f in (np.frexp, np.modf, np.real, np.imag, np.conj, np.angle, np.real_if_close, np.fix, lambda x: np.angle(x, deg=True)):
        agrees(f, FLOATING, **exact)
        agrees(f, np.float32([1.5, -3.25]), **exact)
        agrees(f, np.array([-2, 0, 3]), **exact)
    agrees(np.spacing, FLOATING[:-2], **exact)
    agrees(np.ldexp, np.array([1.5, 1e-300, -math.inf]), np.array([3, 1030, -2]), **exact)
    agrees(lambda x: np.ldexp(x, -3), np.float32([1.5, 7]), **exact)
    agrees(lambda e: np.ldexp(1.5, e), np.array([3, -1]), **exact)
    agrees(np.nextafter, np.array([1.0, 1.0, 0.0]), np.array([2.0, 0.0, 1.0]), rtol=1e-17)
    assert math.copysign(1, np.modf(at.array(-3.0))[0].item()) == -1


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
def test_gradients_of_parts():
    x = np.array([0.7, -2.5, 9.1])
    close(at.elementwise_grad(lambda x: np.frexp(x)[0])(x), [1, 1 / 4, 1 / 16])
    close(at.elementwise_grad(lambda x: np.frexp(x)[1] * x)(x), [0, 2, 4])
    close(at.elementwise_grad(lambda x: np.modf(x)[0] + 5 * np.modf(x)[1])(np.append(x, 2.0)), 1)
    close(at.grad(lambda x: np.ldexp(x, [1, 2, 3]).sum())(x), [2, 4, 8])
    for f, slope in ((np.real, 1), (np.conj, 1), (np.imag, 0), (np.angle, 0), (np.fix, 0), (np.spacing, 0)):
        close(at.grad(lambda x, f=f, s=slope: (f(x) + 0 * x).sum())(x), slope)
    close(at.grad(lambda a, b: np.nextafter(a, b).sum(), (0, 1))(x, x + 1), [[1] * 3, [0] * 3])
    close(at.grad(lambda x: (np.angle(x) * x).sum())(np.array([0.0, -1.0])), [0, math.pi])


def test_parts_say_what_does_not_fit():
    with pytest.raises(TypeError, match="integers, not float64"):
        np.ldexp(at.array(1.0), at.array(2.0))


# ---------------------------------------------------------------- methods of ufuncs


def test_outer_of_every_ufunc_of_two():
    a, b = np.array([[0.5, 2.0]]), np.array([1.5, -0.7, 3.0])
    ufuncs = [key[0] for key in UFUNCS if type(key) is tuple and key[1] == "outer"]
    assert {np.add, np.multiply, np.maximum, np.arctan2, np.equal, np.power} <= set(ufuncs)
    assert not {np.matmul, np.tanh} & set(ufuncs)
    for ufunc in set(ufuncs) - {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.ldexp, np.power, np.float_power}:
        agrees(ufunc.outer, a, b)
    agrees(np.multiply.outer, np.float32([1, 2]), np.arange(3))
    agrees(lambda b: np.power.outer(2.0, b), b)
    agrees(lambda a: np.subtract.outer(a, [1, 2]), a)
    check_grads(np.subtract.outer, (a, b))
    check_grads(np.multiply.outer, (a, b))
    assert account((np.less, "outer")).kind == ZERO and account((np.add, "outer")).kind == DIFFERENTIABLE


def test_accumulate():
    (x,) = drawn(0, (7, 2))
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum):
        check_grads(ufunc.accumulate, (x,))
        for axis in (0, 1, -1):
            agrees(lambda x, ufunc=ufunc, axis=axis: ufunc.accumulate(x, axis), x)
        with pytest.raises(TypeError, match="0-d"):
            ufunc.accumulate(at.array(1.0))
        with pytest.raises(ValueError, match="one axis"):
            ufunc.accumulate(at.array(x), axis=None)
    ties = at.jacobian(np.maximum.accumulate)(np.array([2.0, 2.0, 1.0, 2.0]))
    close(ties.sum(1), 1)


def test_logaddexp_reduce_is_a_stable_logsumexp():
    x = np.array([[1000.0, 1001.0, -np.inf], [-np.inf, -np.inf, -np.inf]])
    for axis in (0, 1, -1):
        np.testing.assert_allclose(np.logaddexp.reduce(at.array(x), axis=axis).numpy(), np.logaddexp.reduce(x, axis=axis))
    np.testing.assert_array_equal(at.grad(lambda x: np.sum(np.logaddexp.reduce(x, axis=1)[:1]))(x)[1], [0, 0, 0])
    assert np.logaddexp.reduce(at.array(np.zeros((0, 2)))).numpy().tolist() == [-np.inf, -np.inf]


def test_einsum_by_lists_of_axes():
    x, m = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for args in ((x, [0, 1], m, [1, 2], [0, 2]), (x, [0, 1], m, [1, 2]), (x, [..., 5], m, [5, 51], [51, ...]), (x, [0, 0 + 1], [1])):
        np.testing.assert_allclose(np.einsum(at.array(args[0]), *args[1:]).numpy(), np.einsum(*args))
        check_grads(lambda x, args=args: np.einsum(x, *args[1:]), (x,))
    for args in ((x, [0, 60]), (x, "ij", m), (x, [0.5, 1])):
        with pytest.raises(TypeError, match="einsum: it takes text and arrays, or each array"):
            np.einsum(at.array(args[0]), *args[1:])


def test_elements_in_fortran_order():
    x = np.arange(12.0).reshape(3, 4)
    t = at.array(x)
    for found, expected in (
        (t.reshape(2, -1, order="F"), x.reshape(2, -1, order="F")), (np.reshape(t, 12, order="F"), np.reshape(x, 12, order="F")),
        (t.ravel("F"), x.ravel("F")), (np.ravel(t, order="F"), x.ravel("F")), (t.flatten("F"), x.flatten("F")),
    ):  # fmt: skip
        np.testing.assert_array_equal(found.numpy(), expected)
    with pytest.raises(TypeError, match=r"np.ravel of a Tensor: order must be 'C' or 'F', not 'K'"):
        np.ravel(t, order="K")


# ---------------------------------------------------------------- dtypes, signs of zeros, and what is empty


def test_grids_and_polynomials_of_small_floats():
    for dtype in (np.float16, np.float32):
        x = np.array([1, 2, 3], dtype)
        agrees(lambda x: np.geomspace(1, x, 3), x)
        agrees(lambda x: np.geomspace(x, x + 4, 3), x)
        agrees(lambda x: np.poly(x / 8), x)
    assert at.grad(lambda x: np.geomspace(x, 9, 3).sum())(np.float32(1)).dtype == np.float32


@pytest.mark.parametrize("period", [4, 5, np.int64(4), 4.0, np.int8(4)])
def test_unwrap_of_integers(period):
    for dtype in (np.int64, np.int32, np.int8):
        agrees(lambda x: np.unwrap(x, period=period), (np.arange(6) * 3).astype(dtype))


def test_a_period_of_unwrap_has_no_derivative():
    x = at.array(np.arange(5.0) * 3)
    close(np.unwrap(x, period=at.array(4.0)).numpy(), np.unwrap(x.numpy(), period=4.0))
    with pytest.raises(TypeError, match=r"np\.unwrap's period would drop its derivative"):
        at.grad(lambda p: np.unwrap(x, period=p).sum())(4.0)


def test_signs_of_zeros():
    def signs(y):
        return [np.signbit(part).tolist() for part in listed(y)]

    zeros = np.array([-0.0, 0.0, -0.0, 0.0])
    for f, x in ((np.maximum.accumulate, zeros), (np.minimum.accumulate, zeros[1:]), (np.modf, np.array([-np.inf, np.inf, -0.0, -2.0]))):
        assert signs([y.numpy() for y in listed(f(at.array(x)))]) == signs(f(x))
    assert np.signbit(np.unwrap(at.array(zeros)).numpy()).tolist() == [True, False, False, False]


def test_polynomials_that_are_empty_or_have_more_axes():
    none, rows = np.zeros(0), np.ones((2, 3))
    for f in (np.polymul, np.polyadd, np.polysub):
        agrees(lambda p, f=f: f(p, [1.0, 2.0]), none)
        agrees(lambda p, f=f: f([1.0, 2.0], p), none)
    for f in (np.polyadd, np.polysub):
        agrees(lambda p, f=f: f(p, p), rows)
        agrees(lambda p, f=f: f(p, p[:, 0]), rows[:, :2])
    for f in (np.polyder, np.polyint):
        agrees(f, none)
    for f in (lambda p: np.polyval(p, 2.0), np.polyder, np.polyint):
        with pytest.raises(TypeError, match="must have an axis"):
            f(at.array(3.0))
    with pytest.raises(ValueError, match="vander: N must not be negative"):
        np.vander(at.array(np.ones(3)), -1)


def test_ldexp_of_boolean_exponents():
    x = np.arange(3.0)
    agrees(lambda x: np.ldexp(x, True), x)
    agrees(np.ldexp, x, x > 1)
    agrees(lambda m: np.ldexp(2.0, m), x > 1)


def test_polynomials_of_odd_shapes():
    assert at.vjp(lambda p: np.polyval(p[:0], np.ones(2)), np.ones(3))[0].tolist() == [0, 0]
    assert type(np.polyval(at.array(np.ones(0)), 2.0)) is at.Tensor
    with pytest.raises(ValueError, match=r"polydiv: u \(2, 2\) and v \(2,\) must be 1-d"):
        np.polydiv(at.array(np.ones((2, 2))), np.ones(2))
