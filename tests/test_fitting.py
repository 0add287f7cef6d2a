"""Least squares and what rests on it and on eigenvalues: lstsq, polyfit, roots, poly."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import linalg

import autotape as at
from autotape import backend
from autotape.opsets import array as ops
from autotape.testing import check_grads

FEW = settings(max_examples=settings().max_examples // 5)
COMPLEX = pytest.mark.numpy_only("complex numbers")
EIG = pytest.mark.numpy_only("eigenvalues of any matrices")
BACKENDS = st.sampled_from(["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
DTYPES = [np.float32, np.float64, *([np.complex128] if backend.get() == "numpy" else [])]


def drawn(seed, *shape, dtype=np.float64):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def apart(seed, m, n, dtype=np.float64):
    """A matrix of full rank."""
    return drawn(seed, m, n, dtype=dtype) + np.diag([3, -5, 7, 9, 11])[:m, :n].astype(dtype)


def agrees(f, *args, tolerance=1e-9):
    expected, found = f(*args), f(*map(at.array, args))
    several = isinstance(expected, tuple)
    assert several == isinstance(found, tuple)
    for y, e in zip(found if several else (found,), expected if several else (expected,), strict=True):
        if not isinstance(y, at.Tensor):
            assert y == e
            continue
        assert (y.shape, y.dtype) == (np.shape(e), np.asarray(e).dtype)
        narrow = 1e-4 if y.dtype in (np.float32, np.complex64) else tolerance
        np.testing.assert_allclose(y.numpy(), e, rtol=narrow, atol=narrow)


# ---------------------------------------------------------------- lstsq


@FEW
@given(
    m=st.integers(0, 5), n=st.integers(0, 5), right=st.sampled_from([(), (0,), (1,), (3,)]), seed=st.integers(0, 99),
    dtypes=st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES)),
)  # fmt: skip
def test_lstsq_is_numpys(m, n, right, seed, dtypes):
    agrees(linalg.lstsq, apart(seed, m, n, dtypes[0]), drawn(seed, m, *right, dtype=dtypes[1]))


@FEW
@given(
    m=st.integers(1, 4), n=st.integers(1, 4), right=st.sampled_from([(), (2,)]), seed=st.integers(0, 99), which=BACKENDS,
    dtypes=st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES)),
)  # fmt: skip
def test_gradients_of_lstsq(m, n, right, seed, which, dtypes):
    def differentiable(a, b):
        x, residuals, _, s = linalg.lstsq(a, b)
        return x, residuals, s

    with backend.use(which):
        check_grads(differentiable, (apart(seed, m, n, dtypes[0]), drawn(seed, m, *right, dtype=dtypes[1])))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.complex128, marks=COMPLEX)])
def test_lstsq_of_low_rank_is_the_shortest_and_differentiates_among_matrices_of_that_rank(shape, dtype):
    u, v, b = drawn(0, shape[0], 2, dtype=dtype), drawn(1, 2, shape[1], dtype=dtype), drawn(2, shape[0], dtype=dtype)
    agrees(lambda a: linalg.lstsq(a, b, 1e-10)[:3], u @ v)
    assert linalg.lstsq(at.array(u @ v), b)[2].item() == 2
    check_grads(lambda u, v, b: linalg.lstsq(u @ v, b)[0], (u, v, b))


def test_lstsq_cuts_off_small_singular_values():
    a, b = np.diag([3.0, 2, 0.1])[[0, 1, 2, 0]] + 0.05, drawn(0, 4)
    for rcond in (0.1, 1e-3, -1, None, np.float64(0.1)):
        agrees(lambda a, b, rcond=rcond: linalg.lstsq(a, b, rcond), a, b)
        check_grads(lambda a, b, rcond=rcond: linalg.lstsq(a, b, rcond)[:2], (a, b))


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_, np.float32])
def test_lstsq_of_integers_is_in_float64(dtype):
    a, b = np.array([[3, 1], [1, 0], [0, 1]]).astype(dtype), np.array([1, 0, 1])
    agrees(linalg.lstsq, a, b)
    agrees(linalg.lstsq, a, b.astype(np.int8))
    agrees(linalg.lstsq, a, b.astype(np.float32))


def test_lstsq_takes_a_tensor_in_either_place_and_lists():
    a, b = apart(0, 3, 2), drawn(0, 3)
    for x, *_ in (linalg.lstsq(a, at.array(b)), linalg.lstsq(at.array(a), b), linalg.lstsq(a=a, b=at.array(b), rcond=None)):
        np.testing.assert_allclose(x.numpy(), linalg.lstsq(a, b)[0])
    np.testing.assert_allclose(ops.lstsq(a.tolist(), b.tolist())[0], linalg.lstsq(a, b)[0])
    assert not at.grad(lambda a: linalg.lstsq(a, b)[2] * a[0, 0])(a)[1:].any()


@pytest.mark.parametrize(("a", "b"), [((2, 3, 2), (2, 3)), ((3,), (3,)), ((3, 2), (2,)), ((3, 2), ()), ((3, 2), (3, 1, 1))])
def test_lstsq_says_what_does_not_fit(a, b):
    with pytest.raises(linalg.LinAlgError, match=r"^lstsq: a \(.*\) must have the shape \(m, n\) and b"):
        linalg.lstsq(at.array(np.ones(a)), np.ones(b))
    with pytest.raises(TypeError, match=r"^lstsq: matrices must be .*float16"):
        linalg.lstsq(at.array(np.eye(2, dtype=np.float16)), np.ones(2))


# ---------------------------------------------------------------- polyfit

X = np.array([-1.0, -0.6, -0.1, 0.3, 0.7, 1.2])
WEIGHTS = np.array([1.0, 2, 0.5, 1, 3, 1])


@pytest.mark.parametrize("columns", [(), (3,)])
@pytest.mark.parametrize("options", [{}, {"w": WEIGHTS}, {"cov": True}, {"cov": "unscaled", "w": WEIGHTS}, {"full": True}, {"rcond": 0.3}])
@pytest.mark.filterwarnings("ignore:Polyfit may")
def test_polyfit(columns, options):
    y = drawn(0, 6, *columns)
    agrees(lambda x, y: np.polyfit(x, y, 2, **options), X, y)
    # where NumPy rounds weighted y to float32
    agrees(lambda x, y: np.polyfit(x, y, 0, **options), X.astype(np.float32), y.astype(np.float32), tolerance=1e-6)

    def differentiable(x, y, w):
        found = np.polyfit(x, y, 2, **options | ({"w": w} if "w" in options else {}))
        return found[:2] if isinstance(found, tuple) else found

    check_grads(differentiable, (X, y, WEIGHTS))


@COMPLEX
@pytest.mark.filterwarnings("ignore:Polyfit may")
def test_polyfit_of_complex_points():
    x, y = drawn(0, 6, dtype=complex), drawn(1, 6, dtype=complex)
    for a, b in ((x, y), (x.real.copy(), y)):
        agrees(lambda a, b: np.polyfit(a, b, 2, cov=True), a, b)
        check_grads(lambda a, b: np.polyfit(a, b, 2, cov=True), (a, b))


def test_polyfit_finds_the_polynomial_that_made_the_points():
    p = np.array([2.0, -1, 0.5])
    np.testing.assert_allclose(np.polyfit(X, np.polyval(at.array(p), X), 2).numpy(), p)
    np.testing.assert_allclose(at.jacobian(lambda p: np.polyfit(X, np.polyval(p, X), 2))(p), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.polyfit([0, 1, 2], at.array([1.0, 3, 5]), 1).numpy(), [2, 1], atol=1e-12)


def test_polyfit_warns_where_numpy_does():
    x = at.array(np.array([1.0, 1, 1, 2]))
    with pytest.warns(np.exceptions.RankWarning, match="poorly conditioned") as caught:
        np.polyfit(x, x, 3)
        np.polyfit(x, x, deg=3)
    assert {w.filename for w in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.polyfit(x, x, 3, full=True)


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        ((X, X, -1), ValueError, "deg must not be negative, but is -1"),
        ((X[None], X, 1), TypeError, r"x \(1, 6\) must be \(m,\)"),
        ((X[:0], X[:0], 1), TypeError, r"x \(0,\) must be \(m,\), m > 0"),
        ((X, X[:5], 1), TypeError, r"y \(5,\)"),
        ((X, X, 1, None, False, X[:5]), TypeError, r"w \(5,\)"),
        ((X[:2], X[:2], 1, None, False, None, True), ValueError, "more points than coefficients"),
    ],
)
def test_polyfit_says_what_does_not_fit(args, error, match):
    with pytest.raises(error, match=f"polyfit: .*{match}"):
        np.polyfit(at.array(args[0]), *args[1:])


@pytest.mark.parametrize("call", (
    lambda a, b: np.linalg.lstsq(a, b), lambda a, b: np.polyfit(a[:, 0], b, 1, full=True)[:-1], lambda a, b: np.polydiv(b[:1], a[0]),
    lambda a, b: np.polyfit(a[:, 0], b, 1, cov="unscaled"),
))  # fmt: skip
def test_all_results_are_tensors_where_one_argument_is(call):
    a, b = apart(0, 4, 2), drawn(1, 4)
    for args in ((at.array(a), b), (a, at.array(b))):
        assert {type(y) for y in call(*args)} == {at.Tensor}


# ---------------------------------------------------------------- roots and poly


@EIG
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.complex128])
@pytest.mark.parametrize("p", [[2, -3, -5, 1], [1, 0, 4, 3], [0, 0, 2, 1, -7, 0, 0], [3], [0, 3, 0, 0], [0, 0], [2, 6]])
def test_roots(p, dtype):
    agrees(np.roots, np.array(p, dtype))
    assert np.roots(at.array(np.zeros(0, dtype))).shape == (0,)


@EIG
@pytest.mark.parametrize("p", [[2.0, -3, -5, 1], [1.0, 0, 4, 3], [2.0, 6], [1 + 2j, 3, 1j, 2]])
@pytest.mark.parametrize("which", ["numpy", "strict"])
def test_gradients_of_roots(p, which):
    with backend.use(which):
        check_grads(np.roots, (np.array(p),))


@EIG
def test_coefficients_that_are_0_at_the_ends_are_constant():
    p = np.array([0, 0, 2.0, 1, -7, 0, 0])
    g = at.grad(lambda p: np.roots(p)[0])(p)
    assert g[2:5].all() and not g[:2].any() and not g[5:].any()


@EIG
@pytest.mark.parametrize("p", [[2.0, -3, -5, 1], [1.0, 0, 4, 3], [1 + 2j, 3, 1j, 2]])
def test_a_zero_moves_by_the_polynomial_over_its_slope(p):
    p = np.array(p)
    zeros, pull = at.vjp(np.roots, p)
    for i, z in enumerate(zeros):
        g = pull(np.eye(len(zeros))[i].astype(zeros.dtype))[0]
        expected = -np.vander([z], len(p))[0] / np.polyval(np.polyder(p), z)
        np.testing.assert_allclose(g, expected if np.iscomplexobj(p) else expected.real, atol=1e-10)


@EIG
def test_roots_of_a_matrix_are_refused():
    with pytest.raises(ValueError, match=r"^roots: p \(2, 2\) must be 1-d"):
        np.roots(at.array(np.eye(2)))
    with pytest.raises(linalg.LinAlgError, match=r"^roots\(a: .*infs or NaNs"):
        np.roots(at.array([1.0, np.nan, 2]))


@EIG
def test_poly_of_a_matrix_is_that_of_its_eigenvalues():
    for a in (apart(0, 3, 3), np.array([[0.0, 1], [-1, 0.5]]), apart(0, 2, 2, complex), np.array([[2, 1], [1, 3]])):
        agrees(np.poly, a)
        if a.dtype.kind in "fc":
            check_grads(np.poly, (a,))
    np.testing.assert_allclose(at.grad(lambda a: np.poly(a)[-1])(apart(0, 2, 2)), at.grad(linalg.det)(apart(0, 2, 2)))


@COMPLEX
def test_poly_of_complex_zeros():
    for zeros in (np.array([1 + 2j, 3, 1 - 2j]), np.array([1j, 2, -2j]), np.array([2 + 0j])):
        agrees(np.poly, zeros)
        check_grads(np.poly, (zeros,))


@EIG
def test_roots_and_poly_undo_each_other():
    p = np.array([1.0, -2, 3, 5])
    np.testing.assert_allclose(at.jacobian(lambda p: np.poly(np.roots(p)))(p)[1:, 1:], np.eye(3), atol=1e-10)
