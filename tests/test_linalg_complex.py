"""Linear algebra of complex matrices: values are numpy.linalg's, gradients hold to order 2 over stacks and shapes, in what is read of
a Hermitian matrix alone, where values are equal and ranks are low; and eig, whose results are complex for real matrices, too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import linalg

import autotape as at
from autotape import backend
from autotape.testing import check_grads

pytestmark = pytest.mark.numpy_only("complex numbers")
FEW = settings(max_examples=settings().max_examples // 10)
BACKENDS = st.sampled_from(["numpy", "strict"])
STACKS = st.sampled_from([(), (2,), (0,), (2, 1)])
SEEDS = st.integers(0, 99)
DTYPES = st.sampled_from([np.complex64, np.complex128])
by_name = {"ids": lambda f: f if isinstance(f, str) else ""}


def H(x):
    return np.conj(np.swapaxes(x, -1, -2))


def drawn(seed, *shape, dtype=np.complex128):
    rng = np.random.default_rng(seed)
    return (rng.uniform(-0.5, 0.5, shape) + 1j * rng.uniform(-0.5, 0.5, shape)).astype(dtype)


def matrix(seed, *shape, dtype=np.complex128):
    """Near a diagonal, whose elements have sizes and real parts that are apart."""
    x = drawn(seed, *shape, dtype=dtype)
    k = min(shape[-2:])
    x[..., np.arange(k), np.arange(k)] += np.array([2, -4 + 1j, 6j + 1, 8, -10])[:k]
    return x


def positive(a):
    return a @ H(a) + np.eye(a.shape[-1], dtype=a.dtype)


def parts(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def phaseless(factors):
    """What doesn't depend on the phases of vectors: their squares in size."""
    return [y * np.conj(y) for y in parts(factors)]


def agrees(f, *args):
    """f of Tensors is f of arrays: the same type of result, shapes, dtypes and values."""
    expected, found = f(*args), f(*map(at.array, args))
    assert not isinstance(expected, tuple) or type(found) is type(expected)
    for y, e in zip(parts(found), parts(expected), strict=True):
        assert isinstance(y, at.Tensor) and (y.shape, y.dtype) == (np.shape(e), np.asarray(e).dtype)
        tolerance = 1e-4 if y.dtype in (np.float32, np.complex64) else 1e-10
        np.testing.assert_allclose(y.numpy(), e, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------- values and gradients

SQUARE = {
    "inv": linalg.inv, "det": linalg.det, "slogdet": linalg.slogdet, "solve": lambda a: linalg.solve(a, np.ones(a.shape[-1])),
    "eigvalsh": linalg.eigvalsh, "eigvalsh U": lambda a: linalg.eigvalsh(a, "U"), "eigvals": linalg.eigvals,
    "cholesky": lambda a: linalg.cholesky(positive(a)), "cholesky, upper": lambda a: linalg.cholesky(positive(a), upper=True),
    "matrix_power 3": lambda a: linalg.matrix_power(a, 3), "matrix_power -3": lambda a: linalg.matrix_power(a, -3),
    "cond 1": lambda a: linalg.cond(a, 1) if a.size else a.real, "cond nuc": lambda a: linalg.cond(a, "nuc") if a.size else a.real,
    "pinv, hermitian": lambda a: linalg.pinv(a, hermitian=True), "multi_dot": lambda a: linalg.multi_dot([a, a, a]) if a.ndim == 2 else a,
    "svdvals, hermitian": lambda a: linalg.svd(a, compute_uv=False, hermitian=True),
    "tensorinv": lambda a: linalg.tensorinv(a, 1) if a.ndim == 2 and a.size else a,
    "tensorsolve": lambda a: linalg.tensorsolve(a, np.ones(len(a))) if a.ndim == 2 else a,
}  # fmt: skip
ANY = {
    "svdvals": linalg.svdvals, "pinv": linalg.pinv, "pinv, rtol": lambda a: linalg.pinv(a, rtol=1e-3), "qr": linalg.qr,
    "qr, r": lambda a: linalg.qr(a, mode="r"), "cond": lambda a: linalg.cond(a) if a.size else a.real,
    **{f"norm {ord}": lambda a, ord=ord: linalg.norm(a, ord, (-2, -1)) if a.size else a.real
       for ord in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)},
    **{f"vector_norm {ord}": lambda a, ord=ord: linalg.vector_norm(a, ord=ord, axis=-1) if a.size else a.real
       for ord in (0, 1, 2, 3.5, np.inf, -np.inf)},
    "matrix_norm": lambda a: linalg.matrix_norm(a, keepdims=True) if a.size else a.real,
}  # fmt: skip
WITH_VECTORS = {
    "eigh": (linalg.eigh, "square"), "eigh U": (lambda a: linalg.eigh(a, UPLO="u"), "square"), "eig": (linalg.eig, "square"),
    "svd": (lambda a: linalg.svd(a, full_matrices=False), "any"), "svd, full": (linalg.svd, "any"),
    "svd, hermitian": (lambda a: linalg.svd(a, hermitian=True), "square"), "qr, complete": (lambda a: linalg.qr(a, "complete"), "any"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SQUARE, *ANY, *WITH_VECTORS], **by_name)
@FEW
@given(lead=STACKS, m=st.integers(0, 4), n=st.integers(0, 4), seed=SEEDS, dtype=DTYPES)
def test_values(name, lead, m, n, seed, dtype):
    f, kind = WITH_VECTORS.get(name) or ((SQUARE[name], "square") if name in SQUARE else (ANY[name], "any"))
    agrees(f, matrix(seed, *lead, m, m if kind == "square" else n, dtype=dtype))


@pytest.mark.parametrize("name", [*SQUARE, *ANY], **by_name)
@FEW
@given(lead=STACKS, m=st.integers(1, 4), n=st.integers(1, 4), seed=SEEDS, which=BACKENDS, dtype=DTYPES)
def test_gradients(name, lead, m, n, seed, which, dtype):
    f = (SQUARE | ANY)[name]
    m += name.startswith("cond") and m == 1  # of one number it is 1
    with backend.use(which):
        check_grads(f, (matrix(seed, *lead, m, m if name in SQUARE else n, dtype=dtype),))


@pytest.mark.parametrize("name", WITH_VECTORS, **by_name)
@FEW
@given(lead=STACKS, n=st.integers(1, 3), more=st.sampled_from([-1, 0, 1]), seed=SEEDS, which=BACKENDS, dtype=DTYPES)
def test_gradients_of_vectors(name, lead, n, more, seed, which, dtype):
    f, kind = WITH_VECTORS[name]
    more *= kind == "any"
    with backend.use(which):
        check_grads(lambda a: phaseless(f(a)), (matrix(seed, *lead, n + (more == 1), n + (more == -1), dtype=dtype),))


@pytest.mark.parametrize("dtypes", [(float, complex), (complex, float), (np.complex64, np.float64)])
def test_a_real_matrix_beside_a_complex_one_has_a_real_gradient(dtypes):
    a, b = matrix(0, 4, 3), drawn(1, 4, 2)
    a, b = ((x.real if np.dtype(t).kind == "f" else x).astype(t) for x, t in zip((a, b), dtypes, strict=True))
    check_grads(lambda a, b: linalg.solve(a[:3], b[:3]), (a, b))
    check_grads(lambda a, b: linalg.lstsq(a, b)[:2], (a, b))


def test_the_gradient_is_the_plain_transpose():
    """Of a real loss in a = x + iy it is dL/dx - i dL/dy, and that of a function with a complex derivative has no conjugate."""
    a = matrix(0, 3, 3)
    np.testing.assert_allclose(at.vjp(linalg.det, a)[1](np.ones((), complex))[0], linalg.det(a) * linalg.inv(a).T)
    np.testing.assert_allclose(at.grad(lambda a: linalg.norm(a))(a), a.conj() / linalg.norm(a))
    np.testing.assert_allclose(at.grad(lambda a: linalg.slogdet(a).logabsdet)(a), linalg.inv(a).T, atol=1e-12)


def test_third_derivatives():
    for f, n in ((linalg.inv, 3), (linalg.det, 3), (linalg.pinv, 2), (linalg.qr, 2)):
        check_grads(f, (matrix(1, 3, n),), order=3)
    for f in (linalg.eigh, linalg.eig, linalg.svd):
        check_grads(lambda a, f=f: phaseless(f(a)), (matrix(1, 3, 3),), order=3)


# ---------------------------------------------------------------- the mathematics


def test_the_factors_make_the_matrix():
    """Derivatives through all of the factors at once are those of the identity."""

    def by_svd(a, full):
        u, s, vh = linalg.svd(a, full)
        return (u[:, : s.size] * s) @ vh[: s.size]

    def by_qr(a, mode):
        q, r = linalg.qr(a, mode)
        return q @ r

    def by_eig(a, _):
        w, v = linalg.eig(a)
        return (v * w) @ linalg.inv(v)

    for m, n in ((3, 3), (4, 2), (2, 4)):
        a, c = matrix(0, m, n), drawn(1, m, n)
        ways = [(by_svd, False), (by_svd, True), (by_qr, "reduced"), (by_qr, "complete"), *([(by_eig, None)] if m == n else [])]
        for f, option in ways:
            _, pull = at.vjp(lambda a, f=f, option=option: f(a, option), a)
            np.testing.assert_allclose(pull(c)[0], c, atol=1e-12)


@pytest.mark.parametrize("n", (2, 3, 4))
def test_third_derivatives_of_det_at_singular_matrices(n):
    a, *directions = (drawn(seed, n, n) for seed in range(4))
    a = a @ np.diag([*range(1, n), 0]) @ drawn(5, n, n)
    f = lambda a: np.real(np.linalg.det(a))  # noqa: E731
    for v in directions:
        f = lambda x, f=f, v=v: at.jvp(f, x, v)[1]  # noqa: E731
    signs = np.array(np.meshgrid(*[(1, -1)] * 3)).reshape(3, -1).T
    polarised = sum(np.prod(s) * np.linalg.det(a + np.tensordot(s, directions, 1)) for s in signs) / 8  # det is a polynomial
    np.testing.assert_allclose(f(a), polarised.real, 1e-9, 1e-12)
    check_grads(lambda a: np.real(np.linalg.det(a)), (a,), order=3)


def test_functions_of_a_hermitian_matrix():
    """log det by five ways has one gradient, the inverse."""
    k = positive(matrix(0, 4, 4))
    ways = {
        "slogdet": lambda k: linalg.slogdet(k).logabsdet,
        "svdvals": lambda k: np.log(linalg.svdvals(k)).sum(),
        "cholesky": lambda k: 2 * np.log(np.real(np.diagonal(linalg.cholesky(k)))).sum(),
        "eigvalsh": lambda k: np.log(linalg.eigvalsh(k)).sum(),
        "eigvals": lambda k: np.log(np.real(linalg.eigvals(k))).sum(),
        "qr": lambda k: np.log(abs(np.diagonal(linalg.qr(k).R))).sum(),
    }
    for name, f in ways.items():
        gradient = at.grad(lambda x, f=f: f((x + H(x)) / 2))(k)
        np.testing.assert_allclose(gradient, linalg.inv(k).T, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("f", "lower"),
    [
        (linalg.cholesky, True),
        (lambda a: linalg.cholesky(a, upper=True), False),
        (linalg.eigvalsh, True),
        (lambda a: linalg.eigvalsh(a, "U"), False),
        (lambda a: abs(linalg.eigh(a).eigenvectors) ** 2, True),
        (lambda a: abs(linalg.eigh(a, "U").eigenvectors) ** 2, False),
        (lambda a: linalg.pinv(a, hermitian=True), True),
    ],
)
def test_the_triangle_and_the_imaginary_diagonal_that_are_not_read_have_derivative_0(f, lower):
    a = positive(matrix(0, 3, 3))
    unread = np.triu(np.ones((3, 3), bool), 1) if lower else np.tril(np.ones((3, 3), bool), -1)
    rubbish = np.where(unread, 7 - 5j, a) + 3j * np.eye(3)
    np.testing.assert_allclose(f(at.array(rubbish)).numpy(), f(at.array(a)).numpy(), atol=1e-12)
    gradient = at.grad(lambda a: np.real(f(a) * np.arange(1, 4) * (1 - 2j)).sum())(rubbish)
    assert not gradient[unread].any() and not gradient.diagonal().imag.any()
    assert np.count_nonzero(gradient) == 6
    check_grads(f, (rubbish,))
    check_grads(lambda x: f((x + H(x)) / 2), (a,))


# ---------------------------------------------------------------- equal values and low ranks


@pytest.mark.parametrize("a", [np.eye(3, dtype=complex), np.diag([2j, 1, 2j]), np.zeros((3, 3), complex)], ids=["eye", "two", "zero"])
def test_equal_eigenvalues_and_singular_values(a):
    """The values' derivatives are right; what would divide by the difference is 0, not infinite or NaN."""
    _, pull = at.vjp(lambda a: (linalg.eigvals(a) ** 3).sum(), a)
    np.testing.assert_allclose(pull(np.ones((), complex))[0], 3 * a @ a, atol=1e-12)
    np.testing.assert_allclose(at.grad(lambda a: (linalg.svdvals(a) ** 3).sum())(a), 3 * abs(a) * a.conj(), atol=1e-12)
    for f in (linalg.eig, linalg.eigh, linalg.svd, lambda a: linalg.svd(a[:, :2], full_matrices=False)):
        gradient = at.grad(lambda a, f=f: sum((abs(y) ** 2 * np.arange(y.shape[-1])).sum() for y in f(a)))(a)
        assert np.isfinite(gradient).all()


def test_projectors_on_equal_eigenvalues():
    def projector(x):
        v = linalg.eigh((x + H(x)) / 2).eigenvectors[:, :2]
        return v @ H(v)

    check_grads(projector, (np.diag([1.0 + 0j, 3, 1]),), order=1)


def test_the_nearest_unitary_matrix_of_one_with_equal_singular_values():
    """u @ vh depends on sums of singular values alone."""
    check_grads(lambda a: (lambda r: r.U @ r.Vh)(linalg.svd(a)), (np.diag([2, 2j, -2]),), order=1)


SINGULAR = {
    "rank 2 of 3": drawn(0, 3, 2) @ drawn(1, 2, 3),
    "rank 1 of 3": drawn(0, 3, 1) @ drawn(1, 1, 3),
    "0 of 2": np.zeros((2, 2), complex),
    "one of a stack": np.stack([np.eye(2) * 1j, np.ones((2, 2)), -np.eye(2)]),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_det_of_a_singular_matrix(name):
    check_grads(linalg.det, (SINGULAR[name],))
    assert at.grad(lambda a: abs(linalg.slogdet(a).sign * a[..., 0, 0]).sum())(2j * np.eye(2)).shape == (2, 2)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
def test_pinv_among_matrices_of_one_rank(shape):
    u, v = matrix(0, shape[0], 2), matrix(1, 2, shape[1])
    check_grads(lambda u, v: linalg.pinv(u @ v, rcond=1e-6), (u, v))
    check_grads(lambda a: linalg.pinv(a, 0.5), (matrix(2, *shape),))
    agrees(lambda a: linalg.pinv(a, rcond=1e-6), u @ v)


def test_matrix_rank():
    a = np.stack([np.diag([3.0, 2j, 0]), np.ones((3, 3))])
    agrees(linalg.matrix_rank, a)
    agrees(lambda a: linalg.matrix_rank(a, hermitian=True), a.real + 0j)


def test_norms_that_are_0():
    for ord in (None, "nuc", 2, -2, 1, np.inf):
        np.testing.assert_array_equal(at.grad(lambda x, ord=ord: linalg.norm(x, ord))(np.zeros((3, 2), complex)), 0)
    check_grads(linalg.norm, (np.array([0, 1 + 2j]),))


# ---------------------------------------------------------------- eig of real matrices

TURNING = np.array([[1.0, -2, 0.3], [2, 1, -0.2], [0.1, 0.2, 3]])  # two of its eigenvalues are complex
REALS = np.array([[1.0, 0.2, 0.3], [-0.1, 2, 0.4], [0.2, 0.5, 4]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_eig_of_real_matrices_has_numpys_dtypes(dtype):
    for a in (TURNING, REALS, np.stack([TURNING, REALS]), np.zeros((0, 0)), np.zeros((0, 2, 2))):
        agrees(linalg.eig, (a * 10).astype(dtype))
        agrees(linalg.eigvals, (a * 10).astype(dtype))


@pytest.mark.parametrize("which", ["numpy", "strict"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_eig_of_real_matrices_are_real(which, dtype):
    with backend.use(which):
        for a in (TURNING, REALS, np.stack([TURNING, REALS])):
            check_grads(linalg.eigvals, (a.astype(dtype),), modes=("reverse", "forward"))
            check_grads(lambda a: phaseless(linalg.eig(a)), (a.astype(dtype),), modes=("reverse", "forward"))


def test_eig_of_a_symmetric_matrix_is_eigh():
    a = REALS + REALS.T
    f = at.grad(lambda a: np.real(linalg.eigvals((a + a.T) / 2) ** 3).sum())
    np.testing.assert_allclose(f(a), 3 * a @ a)


def test_the_jacobian_of_eigenvalues_is_one_walk():
    jacobian = at.jacobian(lambda a: np.real(linalg.eigvals(a)))(TURNING)
    for i, g in enumerate(jacobian):
        np.testing.assert_allclose(g, at.grad(lambda a, i=i: np.real(linalg.eigvals(a))[i])(TURNING), atol=1e-12)


def test_a_matrix_without_independent_eigenvectors_has_no_derivative():
    """That of its eigenvalues is as large as rounding lets it be, where solve finds the vectors regular at all."""
    jordan = np.array([[0.0, 1], [0, 0]])
    try:
        gradient = at.grad(lambda a: np.real(linalg.eigvals(a)[0]))(jordan)
    except linalg.LinAlgError:
        return
    assert not np.isfinite(gradient).all() or abs(gradient).max() > 1e6


def test_eig_refuses_what_is_not_finite():
    for f in (linalg.eig, linalg.eigvals):
        with pytest.raises(linalg.LinAlgError, match=rf"^{f.__name__}\(a: .*infs or NaNs"):
            f(at.array(np.full((2, 2), np.nan)))
