"""Linear algebra of the opset array: values and result types are numpy.linalg's, gradients hold to order 2 on the numpy and the
strict backend and over stacks, conventions at singular matrices and equal eigenvalues, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import linalg

import autotape as at
from autotape import backend, kernels
from autotape.opsets import array as ops
from autotape.testing import check_grads, strict
from autotape.testing.backend_suite import COMPARED
from autotape.testing.strategies import LAYOUTS

FEW = settings(max_examples=settings().max_examples // 10)
NAMES = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
BACKENDS = st.sampled_from(NAMES)
STACKS = st.sampled_from([(), (2,), (0,), (2, 1)])
SEEDS = st.integers(0, 99)
DTYPES = st.sampled_from([np.float32, np.float64])
by_name = {"ids": lambda f: f if isinstance(f, str) else ""}


def T(x):
    return np.swapaxes(x, -1, -2)


def matrix(seed, *shape, dtype=np.float64):
    """Regular, with singular values, and those of its symmetric part, well apart: near a diagonal, whose sign may be negative."""
    rng = np.random.default_rng(seed)
    m, n = shape[-2:]
    diagonal = np.array([2, -4, 6, 8, -10])[: min(m, n)]
    x = rng.uniform(-0.5, 0.5, shape)
    x[..., np.arange(min(m, n)), np.arange(min(m, n))] += diagonal
    return x.astype(dtype)


def positive(a):
    return a @ T(a) + np.eye(a.shape[-1], dtype=a.dtype)


def parts(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def agrees(f, *args, factors=""):
    """f of Tensors is f of arrays: the same type of result, shapes, dtypes and values.

    `factors` ("eigh", "svd", "qr") says that f gives those of a factorization, whose signs only NumPy's backend has from LAPACK.
    """
    expected, found = f(*args), f(*map(at.array, args))
    assert not isinstance(expected, tuple) or type(found) is type(expected)
    for y, e in zip(parts(found), parts(expected), strict=True):
        assert isinstance(y, at.Tensor) and (y.shape, y.dtype) == (np.shape(e), np.asarray(e).dtype)
    unique = COMPARED[factors] if factors and backend.get() != "numpy" else lambda *ys: ys
    for y, e in zip(unique(*(y.numpy() for y in parts(found))), unique(*parts(expected)), strict=True):
        tolerance = 1e-4 if y.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(y, e, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------- values and gradients

SQUARE = {
    "inv": linalg.inv, "det": linalg.det, "slogdet": linalg.slogdet,
    "eigvalsh": linalg.eigvalsh, "eigvalsh U": lambda a: linalg.eigvalsh(a, "U"),
    "cholesky": lambda a: linalg.cholesky(positive(a)), "cholesky, upper": lambda a: linalg.cholesky(positive(a), upper=True),
    "matrix_power -1": lambda a: linalg.matrix_power(a, -1), "matrix_power -3": lambda a: linalg.matrix_power(a, -3),
    "cond 1": lambda a: linalg.cond(a, 1) if a.size else a, "cond nuc": lambda a: linalg.cond(a, p="nuc") if a.size else a,
    "pinv, hermitian": lambda a: linalg.pinv(a, hermitian=True),
    "svdvals, hermitian": lambda a: linalg.svd(a, compute_uv=False, hermitian=True),
}  # fmt: skip
ANY = {
    "svdvals": linalg.svdvals, "svd, no uv": lambda a: linalg.svd(a, compute_uv=False), "pinv": linalg.pinv,
    "pinv, rtol": lambda a: linalg.pinv(a, rtol=1e-3), "pinv, rtol None": lambda a: linalg.pinv(a, rtol=None),
    "qr, r": lambda a: linalg.qr(a, mode="r"),
    "cond": lambda a: linalg.cond(a) if a.size else a, "cond -2": lambda a: linalg.cond(a, -2) if a.size else a,
    "norm 2": lambda a: linalg.norm(a, 2, (-2, -1)) if a.size else a, "norm nuc": lambda a: linalg.norm(a, "nuc", (-2, -1)),
    "norm -2": lambda a: linalg.norm(a, -2, (-1, -2), keepdims=True) if a.size else a,
    "matrix_norm": lambda a: linalg.matrix_norm(a, ord=2, keepdims=True) if a.size else a,
}  # fmt: skip
WITH_VECTORS = {
    "eigh": (linalg.eigh, "square"), "eigh U": (lambda a: linalg.eigh(a, UPLO="u"), "square"),
    "svd": (lambda a: linalg.svd(a, full_matrices=False), "any"), "svd, full": (linalg.svd, "any"),
    "qr": (linalg.qr, "any"), "qr, complete": (lambda a: linalg.qr(a, "complete"), "any"),
}  # fmt: skip


def factors_of(name):
    return name.split(",")[0].split()[0] if name in WITH_VECTORS else ""


@pytest.mark.parametrize("name", [*SQUARE, *ANY, *WITH_VECTORS], **by_name)
@FEW
@given(lead=STACKS, m=st.integers(0, 4), n=st.integers(0, 4), seed=SEEDS, dtype=DTYPES, data=st.data())
def test_values(name, lead, m, n, seed, dtype, data):
    f, kind = WITH_VECTORS.get(name) or ((SQUARE[name], "square") if name in SQUARE else (ANY[name], "any"))
    a = matrix(seed, *lead, m, m if kind == "square" else n, dtype=dtype)
    agrees(f, LAYOUTS[data.draw(st.sampled_from(sorted(LAYOUTS)))](a), factors=factors_of(name))


@pytest.mark.parametrize("name", [*SQUARE, *ANY], **by_name)
@FEW
@given(lead=STACKS, m=st.integers(1, 4), n=st.integers(1, 4), seed=SEEDS, which=BACKENDS, dtype=DTYPES)
def test_gradients(name, lead, m, n, seed, which, dtype):
    f = (SQUARE | ANY)[name]
    m += name.startswith("cond") and m == 1  # of one number it is 1
    with backend.use(which):
        check_grads(f, (matrix(seed, *lead, m, m if name in SQUARE else n, dtype=dtype),))


def signless(factors):
    """The squares of what a factorization gives: the signs of its vectors make no difference."""
    return [y * y for y in factors]


@pytest.mark.parametrize("name", WITH_VECTORS, **by_name)
@FEW
@given(lead=STACKS, n=st.integers(1, 3), more=st.sampled_from([-1, 0, 1]), seed=SEEDS, which=BACKENDS, dtype=DTYPES)
def test_gradients_of_vectors(name, lead, n, more, seed, which, dtype):
    f, kind = WITH_VECTORS[name]
    more *= kind == "any"
    with backend.use(which):
        check_grads(lambda a: signless(f(a)), (matrix(seed, *lead, n + (more == 1), n + (more == -1), dtype=dtype),))


@FEW
@given(
    leads=st.sampled_from([((), ()), ((2,), (2,)), ((2, 1), (3,)), ((), (2,)), ((2,), ())]), n=st.integers(1, 3), k=st.integers(0, 2),
    seed=SEEDS, which=BACKENDS,
)  # fmt: skip
def test_solve(leads, n, k, seed, which):
    a, b = matrix(seed, *leads[0], n, n), np.random.default_rng(seed).normal(size=(*leads[1], n, k))
    agrees(linalg.solve, a, b)
    agrees(linalg.solve, a, b.astype(np.float32))
    with backend.use(which):
        check_grads(linalg.solve, (a, b))
        check_grads(linalg.solve, (a.astype(np.float32), b))
        check_grads(linalg.solve, (a, np.arange(1.0, n + 1)))
        check_grads(lambda b: linalg.solve(a, b), (b,))
        check_grads(lambda a: linalg.solve(a, b), (a,))


def test_b_is_a_column_only_if_it_is_1d():
    a = matrix(0, 3, 2, 2)
    agrees(linalg.solve, a, np.ones(2))
    agrees(linalg.solve, np.eye(2), np.ones((2, 2)))  # a matrix, not two columns
    assert linalg.solve(at.array(a), at.array(np.ones(2))).shape == (3, 2)
    assert linalg.solve(at.array(np.zeros((0, 0))), at.array(np.zeros((0, 3)))).shape == (0, 3)


def test_solve_takes_a_tensor_in_either_place():
    a, b = matrix(0, 2, 2), np.ones(2)
    for x in (linalg.solve(a, at.array(b)), linalg.solve(at.array(a), b), linalg.solve(a=a, b=at.array(b))):
        np.testing.assert_allclose(x.numpy(), linalg.solve(a, b))


@pytest.mark.parametrize("axes", [None, (0, 2)])
def test_tensorsolve_and_tensorinv(axes):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3))
    if axes:
        a, b = rng.normal(size=(2, 6, 3)), rng.normal(size=6)
    agrees(lambda a, b: linalg.tensorsolve(a, b, axes), a, b)
    check_grads(lambda a, b: linalg.tensorsolve(a, b, axes=axes), (a, b))
    agrees(lambda a: linalg.tensorinv(a), rng.normal(size=(2, 3, 3, 2)))
    check_grads(lambda a: linalg.tensorinv(a, ind=1), (rng.normal(size=(6, 3, 2)),))


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_, np.float32, np.float64])
@pytest.mark.parametrize("name", [*SQUARE, *ANY, *WITH_VECTORS, "matrix_rank"], **by_name)
def test_dtypes_of_results(name, dtype):
    if (dtype == np.bool_ and name.startswith("cholesky")) or (np.dtype(dtype).kind != "f" and name == "pinv, rtol None"):
        return  # which NumPy takes of floats alone
    f = linalg.matrix_rank if name == "matrix_rank" else WITH_VECTORS[name][0] if name in WITH_VECTORS else (SQUARE | ANY)[name]
    a = np.array([[3, 1], [1, 2]]).astype(dtype) if dtype != np.bool_ else np.array([[True, True], [True, False]])
    agrees(f, a, factors=factors_of(name))


@pytest.mark.parametrize("options", [{}, {"tol": 1.5}, {"rtol": 0.5}, {"tol": [0.5, 7]}, {"rtol": np.array([0.1, 0.9])}, {"hermitian": 1}])
def test_matrix_rank(options):
    a = np.stack([np.diag([3.0, 2, 0]), np.ones((3, 3))])
    agrees(lambda a: linalg.matrix_rank(a, **options), a)
    gradient = at.grad(lambda a: (linalg.matrix_rank(a, **options) * a[:, 0, 0]).sum())(a)
    np.testing.assert_array_equal(gradient.sum((1, 2)), linalg.matrix_rank(a, **options))
    for x in (np.zeros(3), np.arange(3.0), np.float64(2)):
        assert linalg.matrix_rank(at.array(x)).item() == linalg.matrix_rank(x)
    assert linalg.matrix_rank(at.array(np.zeros((2, 0)))).item() == 0


def test_results_are_numpys_named_tuples():
    t = at.array(positive(matrix(0, 3, 3)))
    assert linalg.eigh(t).eigenvalues.shape == (3,) and linalg.eigh(t).eigenvectors.shape == (3, 3)
    assert linalg.slogdet(t).logabsdet.shape == linalg.slogdet(t).sign.shape == ()
    assert linalg.svd(t[:2]).Vh.shape == (3, 3) and linalg.svd(t[:2], full_matrices=False).U.shape == (2, 2)
    assert linalg.qr(t[:, :1], mode="complete").Q.shape == (3, 3)
    raw = ops.svd(t.numpy())
    assert type(raw) is type(linalg.svd(t.numpy())) and type(raw.S) is kernels().array
    gradient = at.grad(lambda a: linalg.eigh(a).eigenvectors[0, 0] ** 2)(at.Param(t.numpy()).numpy())
    assert gradient.shape == (3, 3)


# ---------------------------------------------------------------- the mathematics


def test_the_factors_make_the_matrix():
    """Derivatives through all of the factors at once are those of the identity."""

    def by_svd(a, full):
        u, s, vh = linalg.svd(a, full)
        return (u[:, : s.size] * s) @ vh[: s.size]

    def by_qr(a, mode):
        q, r = linalg.qr(a, mode)
        return q @ r

    for m, n in ((3, 3), (4, 2), (2, 4)):
        a, c = matrix(0, m, n), matrix(1, m, n)
        for f, option in ((by_svd, False), (by_svd, True), (by_qr, "reduced"), (by_qr, "complete")):
            gradient = at.grad(lambda a, f=f, option=option, c=c: (f(a, option) * c).sum())(a)
            np.testing.assert_allclose(gradient, c, atol=1e-12)


def test_functions_of_a_symmetric_matrix():
    """log det by four ways has one gradient, the inverse."""
    k = positive(matrix(0, 4, 4))
    ways = {
        "slogdet": lambda k: linalg.slogdet(k).logabsdet,
        "det": lambda k: np.log(linalg.det(k)),
        "svdvals": lambda k: np.log(linalg.svdvals(k)).sum(),
        "cholesky": lambda k: 2 * np.log(np.diagonal(linalg.cholesky(k))).sum(),
        "eigvalsh": lambda k: np.log(linalg.eigvalsh(k)).sum(),
        "eigh": lambda k: np.log(linalg.eigh(k).eigenvalues).sum(),
        "qr": lambda k: np.log(abs(np.diagonal(linalg.qr(k).R))).sum(),
    }
    for name, f in ways.items():
        gradient = at.grad(lambda x, f=f: f((x + x.T) / 2))(k)
        np.testing.assert_allclose(gradient, linalg.inv(k), rtol=1e-10, atol=1e-12, err_msg=name)


def test_a_gaussian_process():
    x, y = np.linspace(0, 1, 6), np.sin(6 * np.linspace(0, 1, 6))

    def evidence(scale, noise):
        k = np.exp(-((x[:, None] - x) ** 2) / scale**2) + noise**2 * np.eye(6)
        factor = linalg.cholesky(k)
        z = linalg.solve(factor, y)
        return 0.5 * z @ z + np.log(np.diagonal(factor)).sum()

    check_grads(evidence, (0.4, 0.3))


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (linalg.inv, matrix(1, 3, 3)),
        (linalg.cholesky, positive(matrix(1, 3, 3))),
        (lambda a: linalg.slogdet(a).logabsdet, matrix(1, 3, 3)),
        (lambda a: signless(linalg.eigh(a)), matrix(1, 3, 3)),
        (lambda a: signless(linalg.svd(a)), matrix(1, 3, 2)),
        (lambda a: signless(linalg.qr(a)), matrix(1, 3, 2)),
        (linalg.pinv, matrix(1, 3, 2)),
        (linalg.det, np.eye(3)),
        (linalg.det, np.diag([1.0, 2, 0])),
    ],
)
def test_third_derivatives(f, x):
    check_grads(f, (x,), order=3)


# ---------------------------------------------------------------- the triangle that is not read


@pytest.mark.parametrize(
    ("f", "lower"),
    [
        (linalg.cholesky, True),
        (lambda a: linalg.cholesky(a, upper=True), False),
        (linalg.eigvalsh, True),
        (lambda a: linalg.eigvalsh(a, "U"), False),
        (lambda a: linalg.eigh(a).eigenvectors ** 2, True),
        (lambda a: linalg.eigh(a, "U").eigenvectors ** 2, False),
        (lambda a: linalg.svd(a, hermitian=True).S, True),
        (lambda a: linalg.pinv(a, hermitian=True), True),
    ],
)
def test_the_triangle_that_is_not_read_has_derivative_0(f, lower):
    a = positive(matrix(0, 3, 3))
    rubbish = np.where(np.tri(3, k=-1, dtype=bool) if not lower else ~np.tri(3, dtype=bool), 7.0, a)
    np.testing.assert_allclose(f(at.array(rubbish)).numpy(), f(at.array(a)).numpy(), atol=1e-12)
    gradient = at.grad(lambda a: (f(a) * np.arange(1.0, 4)).sum())(rubbish)
    assert not np.any(np.triu(gradient, 1) if lower else np.tril(gradient, -1))
    assert np.count_nonzero(gradient) == 6
    check_grads(f, (rubbish,))
    check_grads(lambda x: f((x + x.T) / 2), (a,))


# ---------------------------------------------------------------- singular matrices


SINGULAR = {
    "rank 2 of 3": np.arange(9.0).reshape(3, 3),
    "a diagonal of rank 2": np.diag([1.0, 0, 1]),
    "rank 1 of 3": np.ones((3, 3)),
    "rank 2 of 4": np.diag([1.0, 2, 0, 0]),
    "0 of 2": np.zeros((2, 2)),
    "0 of 3": np.zeros((3, 3)),
    "nearly singular": np.array([[1.0, 2], [2, 4 + 1e-9]]),
    "one of a stack": np.stack([np.eye(2), np.ones((2, 2)), -np.eye(2)]),
    "negative": np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]]),
}


@pytest.mark.parametrize("a", SINGULAR.values(), ids=list(SINGULAR))
@pytest.mark.parametrize("which", NAMES)
def test_det_of_a_singular_matrix(a, which):
    with backend.use(which):
        check_grads(lambda a: linalg.det(np.real(a)), (a,))  # without the complex step, which is inexact in singular vectors


def cofactors(a):
    k = kernels()
    a = k.adopt(a)
    with np.errstate(invalid="ignore"):  # NumPy's det warns of infinities
        return np.asarray(k.cofactors(a, k.det(a)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernel_of_cofactors(dtype):
    for n in (1, 2, 4):
        a = matrix(0, 3, n, n, dtype=dtype)
        expected = linalg.det(a)[:, None, None] * T(linalg.inv(a))
        found = cofactors(a)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype == np.float32 else 1e-12)
        a[1] = 0
        expected[1] = n == 1
        tolerance = 1e-3 if dtype == np.float32 else 1e-11
        found = cofactors(a)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    assert cofactors(np.zeros((2, 0, 0))).shape == (2, 0, 0)
    stack = np.array([[[np.nan, 1], [1, 1]], [[1, 2], [2, 4]], [[np.inf, 0], [0, 0]]])
    np.testing.assert_allclose(cofactors(stack)[1], [[4, -2], [-2, 1]])
    assert np.isnan(cofactors(stack)[::2]).all()


def test_slogdet_of_a_singular_matrix():
    sign, logabsdet = linalg.slogdet(at.array(np.zeros((2, 2))))
    assert (sign.item(), logabsdet.item()) == (0, -np.inf)
    np.testing.assert_array_equal(at.grad(lambda a: linalg.slogdet(a).sign * a[0, 0])(2 * np.eye(2)), [[1, 0], [0, 0]])
    with pytest.raises(ValueError, match="Singular matrix"):
        at.grad(lambda a: linalg.slogdet(a).logabsdet)(np.zeros((2, 2)))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
def test_pinv_among_matrices_of_one_rank(shape):
    u, v = matrix(0, shape[0], 2), matrix(1, 2, shape[1])
    check_grads(lambda u, v: linalg.pinv(u @ v, rcond=1e-6), (u, v))
    agrees(lambda a: linalg.pinv(a, rcond=1e-6), u @ v)
    agrees(lambda a: linalg.pinv(a, rcond=[1e-6, 0.9]), np.stack([u @ v] * 2))


# ---------------------------------------------------------------- equal values


def test_equal_eigenvalues():
    """The values' derivatives are right; what would divide by the difference is 0, not infinite or NaN."""
    for a in (np.eye(3), np.diag([2.0, 1, 2]), np.zeros((3, 3))):
        np.testing.assert_allclose(at.grad(lambda a: (linalg.eigvalsh(a) ** 3).sum())(a), 3 * a @ a, atol=1e-12)
        np.testing.assert_allclose(at.grad(lambda a: (linalg.eigh(a).eigenvalues ** 3).sum())(a), 3 * a @ a, atol=1e-12)
        np.testing.assert_allclose(at.grad(lambda a: (linalg.svdvals(a) ** 3).sum())(a), 3 * a @ a, atol=1e-12)
        for f in (linalg.eigh, linalg.svd, lambda a: linalg.svd(a[:, :2], full_matrices=False)):
            gradient = at.grad(lambda a, f=f: sum((y**2 * np.arange(y.shape[-1])).sum() for y in f(a)))(a)
            assert np.isfinite(gradient).all()
    hessian_of_trace = at.grad(lambda a: (at.grad(lambda a: linalg.eigvalsh(a).sum())(a) * np.arange(9.0).reshape(3, 3)).sum())(np.eye(3))
    np.testing.assert_array_equal(hessian_of_trace, 0)


def test_the_nearest_orthogonal_matrix_of_one_with_equal_singular_values():
    """u @ vh depends on sums of singular values alone."""
    q = linalg.qr(matrix(0, 3, 3)).Q
    c = np.random.default_rng(0).normal(size=(3, 3))
    check_grads(lambda a: (lambda r: r.U @ r.Vh * c)(linalg.svd(a)), (2 * q,), order=1)


def test_projectors_on_equal_eigenvalues():
    """v @ v.T over all vectors of equal values doesn't depend on which they are."""

    def projector(x):
        v = linalg.eigh((x + x.T) / 2).eigenvectors[:, :2]
        return v @ v.T

    check_grads(projector, (np.diag([1.0, 3, 1]),), order=1)


@pytest.mark.parametrize(("m", "n"), [(4, 2), (2, 4)])
def test_the_basis_that_completes_u_and_vh(m, n):
    """What is made of it by its projector has a derivative, whatever the basis."""

    def projectors(a):
        u, _, vh = linalg.svd(a)
        q = linalg.qr(a, "complete").Q
        return [u[:, 2:] @ u[:, 2:].T, vh[2:].T @ vh[2:], q[:, 2:] @ q[:, 2:].T]

    check_grads(projectors, (matrix(0, m, n),))


# ---------------------------------------------------------------- norms


def test_norms_of_singular_values_at_their_kinks():
    for ord in (2, -2, "nuc"):
        np.testing.assert_array_equal(at.grad(lambda x, ord=ord: linalg.norm(x, ord))(np.zeros((3, 2))), 0)
        assert linalg.norm(at.array(np.zeros((3, 2))), ord).item() == 0
    np.testing.assert_allclose(at.grad(lambda x: linalg.norm(x, "nuc"))(np.diag([3.0, 0])), np.diag([1.0, 0]), atol=1e-15)
    np.testing.assert_allclose(at.grad(lambda x: linalg.norm(x, 2))(np.eye(2)), np.eye(2) / 2, atol=1e-15)
    np.testing.assert_allclose(at.grad(lambda x: linalg.norm(x, -2))(np.diag([1.0, 1, 2])), np.diag([0.5, 0.5, 0]), atol=1e-15)


@pytest.mark.parametrize("ord", [2, -2, "nuc", "fro", "f", 1, -1, np.inf, -np.inf, None])
@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (-1, -2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norms_over_all_axes(ord, axis, keepdims):
    a = np.random.default_rng(0).normal(size=(2, 3, 4))
    agrees(lambda x: linalg.norm(x, ord, axis, keepdims), a)
    agrees(lambda x: linalg.norm(x, ord, axis, keepdims), a.astype(np.float32))
    check_grads(lambda x: linalg.norm(x, ord, axis, keepdims), (a,))


def test_cond_of_a_singular_matrix_is_infinite():
    a = np.stack([np.zeros((2, 2)), np.ones((2, 2)), np.diag([2.0, 1])])
    for p in (None, 1, "fro", -2):
        y = linalg.cond(at.array(a[::2]), p)
        assert np.isinf(y.numpy()[0]) and y.numpy()[1] == linalg.cond(a[2], p)
        gradient = at.grad(lambda a, p=p: linalg.cond(a, p)[1])(a[::2])
        assert np.isfinite(gradient).all() and not gradient[0].any()


# ---------------------------------------------------------------- what is refused

OBLONG, SINGULAR_2, VECTOR = at.array(np.arange(6.0).reshape(2, 3)), at.array(np.ones((2, 2))), at.array(np.ones(2))
EYE = at.array(np.eye(2))
HALF = at.array(np.eye(2, dtype=np.float16))
OF_SQUARE = ["inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "eig", "eigvals"]


@pytest.mark.parametrize("name", [*OF_SQUARE, "svd", "svdvals", "qr", "pinv", "cond"])
def test_shapes_and_dtypes_are_checked_under_the_functions_name(name):
    f = getattr(linalg, name)
    with pytest.raises(linalg.LinAlgError, match=rf"^{name}: a \(2,\) must have two axes"):
        f(VECTOR)
    with pytest.raises(TypeError, match=f"^{name}: matrices must be .*, not float16"):
        f(HALF)
    if name in OF_SQUARE:
        with pytest.raises(linalg.LinAlgError, match=rf"^{name}: the last two axes of a \(2, 3\) must have one length"):
            f(OBLONG)


REFUSALS = [
    (lambda: linalg.inv(SINGULAR_2 * 0), linalg.LinAlgError, r"^inv\(a: .*\(2, 2\) float64\): Singular matrix"),
    (lambda: linalg.solve(SINGULAR_2 * 0, VECTOR), linalg.LinAlgError, r"^solve\(a: .*Singular matrix"),
    (lambda: linalg.matrix_power(SINGULAR_2 * 0, -1), linalg.LinAlgError, r"^matrix_power\(a: .*Singular matrix"),
    (lambda: linalg.tensorinv(SINGULAR_2 * 0, 1), linalg.LinAlgError, r"^tensorinv\(a: .*Singular matrix"),
    (lambda: linalg.tensorsolve(SINGULAR_2 * 0, VECTOR), linalg.LinAlgError, r"^tensorsolve\(a: .*Singular matrix"),
    (lambda: linalg.cholesky(-EYE), linalg.LinAlgError, r"^cholesky\(a: .*not positive definite"),
    (lambda: linalg.svd(EYE * np.nan), linalg.LinAlgError, r"^svd\(a: .*not converge"),
    (lambda: linalg.solve(EYE, np.ones(3)), ValueError, r"^solve: b \(3,\) must have the shape \(2,\) or \(..., 2, k\) for a \(2, 2\)"),
    (lambda: linalg.solve(EYE, 1.0), ValueError, r"^solve: b \(\) must"),
    (lambda: linalg.solve(EYE, np.ones((3, 2))), ValueError, r"^solve: b \(3, 2\) must"),
    (lambda: linalg.solve(np.ones((2, 2, 2)) * EYE, np.ones((3, 2, 2))), ValueError, r"^solve: the leading axes of a \(2, 2, 2\)"),
    (lambda: linalg.solve(OBLONG, VECTOR), linalg.LinAlgError, "^solve: the last two axes of a"),
    (lambda: linalg.eigh(EYE, "X"), ValueError, "^eigh: UPLO must be 'L' or 'U', not 'X'"),
    (lambda: linalg.svd(OBLONG, hermitian=True), linalg.LinAlgError, "^svd: the last two axes"),
    (lambda: linalg.pinv(OBLONG, hermitian=True), linalg.LinAlgError, "^pinv: the last two axes"),
    (lambda: linalg.pinv(EYE, 1e-3, rtol=1e-3), ValueError, "^pinv: rcond and rtol"),
    (lambda: linalg.qr(EYE, "raw"), TypeError, "^qr: mode='raw'"),
    (lambda: linalg.qr(EYE, "full"), ValueError, "^qr: mode must be 'reduced', 'complete' or 'r', not 'full'"),
    (lambda: linalg.norm(OBLONG, 3), ValueError, "^norm: ord of matrices must be .*'nuc'.*, not 3"),
    (lambda: linalg.norm(HALF, 2), TypeError, "^norm: matrices must be .*float16"),
    (lambda: linalg.cond(OBLONG, 1), linalg.LinAlgError, "^cond: the last two axes"),
    (lambda: linalg.cond(EYE[:0]), linalg.LinAlgError, r"^cond: x \(0, 2\) must not be empty"),
    (lambda: linalg.matrix_rank(EYE, 1, rtol=1), ValueError, "^matrix_rank: tol and rtol"),
    (lambda: linalg.tensorsolve(OBLONG, VECTOR), linalg.LinAlgError, r"^tensorsolve: a \(2, 3\)"),
    (lambda: linalg.tensorinv(EYE, 0), ValueError, "^tensorinv: ind must be 1 or more, not 0"),
    (lambda: linalg.tensorinv(OBLONG, 1), linalg.LinAlgError, r"^tensorinv: the first 1 axes of a \(2, 3\)"),
    (lambda: at.grad(lambda a: linalg.qr(a).R.sum())(np.zeros((3, 2))), ValueError, "[Ss]ingular"),
]


@pytest.mark.parametrize(("call", "error", "match"), REFUSALS)
def test_refusals(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_the_strict_array_guards_kernels_of_several_results():
    with backend.use("strict"):
        k = kernels()
        w, v = k.eigh(k.adopt(np.eye(2)), "L")
        assert type(w) is type(v) is strict.StrictArray
    with pytest.raises(AssertionError, match="eigh gave results that share memory"):
        strict.checked_all("eigh", (x := np.zeros((2, 2)), x[0]), [])
    with pytest.raises(AssertionError, match="eigh gave float64, not an ndarray"):
        strict.checked_all("eigh", (np.zeros(2), np.float64(1)), [])


# ---------------------------------------------------------------- matrices that are not finite, and symmetric ones


ENDLESS = np.array([[np.inf, 1.0], [1, 2]])
HOLED = np.array([[np.nan, 1.0], [1, 2]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("p", [None, 2, -2, 1, "fro", "nuc", np.inf])
def test_cond_of_a_matrix_with_an_infinity_is_inf(p):
    assert linalg.cond(at.array(ENDLESS), p).item() == np.inf == linalg.cond(ENDLESS, p)
    stack = np.stack([np.diag([1.0, 2.0]), ENDLESS])
    agrees(lambda a: linalg.cond(a, p), stack)

    def regular(a):
        y = linalg.cond(a, p)
        return np.sum(np.where(np.isfinite(y), y, 0))

    g = at.grad(regular)(stack)
    assert np.isfinite(g).all() and np.array_equal(g[1], np.zeros((2, 2)))
    np.testing.assert_allclose(g[0], at.grad(lambda a: linalg.cond(a, p))(stack[0]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_cond_of_a_matrix_with_nan():
    assert np.isnan(linalg.cond(at.array(HOLED), 1).item())
    with pytest.raises(linalg.LinAlgError):
        linalg.cond(at.array(HOLED))


def test_symmetric_matrices_with_nan_give_nan():
    def vectors(a):
        u, _, vh = linalg.svd(a, hermitian=True)
        return (u, vh) if backend.get() == "numpy" else u @ vh  # other backends have signs of their own

    for f in (vectors, lambda a: linalg.pinv(a, hermitian=True)):
        agrees(f, HOLED)
        agrees(f, np.stack([HOLED, np.array([[2.0, 1], [1, 3]])]))
    assert linalg.matrix_rank(at.array(HOLED), hermitian=True).dtype == np.int64
    for f in (linalg.svdvals, linalg.pinv, linalg.matrix_rank):
        with pytest.raises(linalg.LinAlgError):
            f(at.array(HOLED))


def test_svd_of_symmetric_matrices_has_numpys_signs():
    for a in (np.diag([2.0, -3, 1]), matrix(0, 3, 3), np.stack([-np.eye(3), matrix(1, 3, 3)]), np.zeros((0, 2, 2))):
        agrees(lambda a: linalg.svd(a, hermitian=True), a + T(a), factors="svd")
        agrees(lambda a: linalg.svd(a, compute_uv=False, hermitian=True), a + T(a))


def test_svd_of_singular_symmetric_matrices_has_orthonormal_vectors():
    a = np.diag([2.0, 0, -1])
    u, s, vh = linalg.svd(at.array(a), hermitian=True)
    np.testing.assert_allclose((u * s @ vh).numpy(), a)
    np.testing.assert_allclose((vh @ vh.T).numpy(), np.eye(3))


def test_linear_algebra_takes_lists():
    a = [[2.0, 1], [1, 3]]
    of_norms = (ops.norm, ops.vector_norm, lambda a: ops.vector_norm(a, ord=0), lambda a: ops.norm(a, "nuc"))
    for f in (*of_norms, ops.cond, ops.matrix_rank, ops.det):
        np.testing.assert_allclose(f(a), f(np.array(a)))
    for n in (-1, 0, 1, 2):
        np.testing.assert_allclose(ops.matrix_power(a, n), linalg.matrix_power(a, n), atol=1e-12)
    np.testing.assert_allclose(ops.pinv(a, hermitian=True), linalg.pinv(a))


def test_pinv_differentiates_what_it_cuts_off():
    rng = np.random.default_rng(0)
    for a, rcond in ((rng.normal(size=(3, 4)), 0.5), (rng.normal(size=(4, 3)), 0.5), (rng.normal(size=(2, 4, 3)), np.array([0.5, 1e-15]))):
        np.testing.assert_allclose(np.linalg.pinv(at.array(a), rcond).numpy(), np.linalg.pinv(a, rcond), 1e-12, 1e-13)
        check_grads(lambda a, rcond=rcond: np.linalg.pinv(a, rcond), (a,))
    s = np.diag([3.0, 2.0, 0.1]) + 0.1
    check_grads(lambda a: np.linalg.pinv((a + a.T) / 2, 0.2, hermitian=True), (s,))
    check_grads(lambda a: np.linalg.pinv(a, 0.2), (np.eye(3),))
