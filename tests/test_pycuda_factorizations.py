"""The pycuda backend's linear systems and factorizations: NumPy's values, and what factors must be where signs and bases are free."""

import numpy as np
import pytest

from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
EPS = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}
SQUARE = [(1, 1), (2, 2), (5, 5), (3, 4, 4), (33, 33), (0, 0), (2, 0, 0), (0, 3, 3)]
SHAPES = [(1, 1), (4, 4), (5, 3), (3, 5), (2, 3, 7, 2), (40, 35), (34, 41), (0, 3), (3, 0), (0, 3, 2)]
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


def matrix(shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def symmetric(shape, dtype=np.float64):
    a = matrix(shape, dtype)
    return a + a.swapaxes(-1, -2)


def positive(shape, dtype=np.float64):
    a = matrix(shape, dtype)
    return a @ a.swapaxes(-1, -2) + 2 * np.eye(shape[-1], dtype=dtype)


def on_device(k, name, *args):
    """A kernel's result, or results, for NumPy arrays and options, as NumPy arrays."""
    y = getattr(k, name)(*[k.adopt(a) if isinstance(a, np.ndarray) else a for a in args])
    return tuple(map(k.to_numpy, y)) if isinstance(y, tuple) else k.to_numpy(y)


def near(y, expected, tolerance=None, title=""):
    expected = np.asarray(expected)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape), f"{title}{y.dtype}{y.shape} instead of {expected.dtype}{expected.shape}"
    scale = max(1.0, float(np.max(np.abs(expected), initial=0, where=np.isfinite(expected))))
    np.testing.assert_allclose(y, expected, 0, (tolerance or EPS[y.dtype]) * scale, err_msg=title)


def orthonormal(columns):
    n = columns.shape[-1]
    one = np.broadcast_to(np.eye(n, dtype=columns.dtype), (*columns.shape[:-2], n, n))
    near(columns.swapaxes(-1, -2) @ columns, one, title="orthonormal ")


@DTYPES
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_by_lu(k, shape, dtype):
    """inv and solve of well-conditioned matrices, det and slogdet."""
    a, b = positive(shape, dtype), matrix((*shape[:-1], 3), dtype, 1)
    near(on_device(k, "inv", a), N.inv(a))
    near(on_device(k, "solve", a, b), N.solve(a, b))
    a = matrix(shape, dtype)
    near(on_device(k, "det", a), N.det(a))
    for y, expected in zip(on_device(k, "slogdet", a), N.slogdet(a), strict=True):
        near(y, expected)


def test_solve_broadcasts(k):
    a, b = positive((2, 1, 4, 4)), matrix((3, 4, 2))
    near(on_device(k, "solve", a, b), N.solve(a, b))
    a, b = a.astype(np.float32), np.arange(8).reshape(4, 2)  # promoted to float64, as NumPy promotes them
    near(on_device(k, "solve", a, b), N.solve(a, b))


def test_pivots(k):
    """Zeros on the diagonal, and rows whose sizes differ by powers of ten."""
    for a in (np.array([[0.0, 2, 1], [1, 0, 0], [3, 1, 0]]), np.array([[1e-20, 1.0], [1, 1]]), np.eye(40)[::-1].copy()):
        near(on_device(k, "inv", a), N.inv(a))
        near(on_device(k, "det", a), N.det(a))


SINGULAR = np.array([[[2.0, 1], [1, 3]], [[1, 2], [2, 4]]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_singular_matrices(k):
    for call in (lambda: on_device(k, "inv", SINGULAR), lambda: on_device(k, "solve", SINGULAR, np.ones((2, 1)))):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            call()
    near(on_device(k, "det", SINGULAR), N.det(SINGULAR))
    for y, expected in zip(on_device(k, "slogdet", SINGULAR), N.slogdet(SINGULAR), strict=True):
        near(y, expected)
    holed = np.array([[np.nan, 1], [0, 2]])
    assert np.isnan(on_device(k, "inv", holed)).any() and np.isnan(on_device(k, "det", holed))


def test_cofactors(k):
    rank_one, endless = np.outer([1.0, 2, 3], [1, -1, 2]), np.array([[[np.inf, 1], [1, 1]], np.eye(2)])
    for a in (matrix((4, 4)), SINGULAR, np.zeros((1, 1)), np.zeros((2, 2)), rank_one, np.diag([1.0, 2, 0]), endless):
        with np.errstate(all="ignore"):
            d = N.det(a)
            near(on_device(k, "cofactors", a, d), N.cofactors(a, d))


@DTYPES
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_cholesky(k, shape, dtype):
    a = positive(shape, dtype)
    near(on_device(k, "cholesky", a + np.triu(np.ones_like(a), 1)), N.cholesky(a))


def test_cholesky_of_what_has_none(k):
    for a in (-np.eye(2), np.stack([np.eye(2), np.zeros((2, 2))])):
        with pytest.raises(np.linalg.LinAlgError, match="Matrix is not positive definite"):
            on_device(k, "cholesky", a)
    assert np.isnan(on_device(k, "cholesky", np.full((2, 2), np.nan))[1, 1])


@DTYPES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr(k, shape, dtype):
    """With LAPACK's signs."""
    a = matrix(shape, dtype)
    for complete in (False, True):
        q, r = on_device(k, "qr", a, complete)
        expected = N.qr(a, complete)
        near(r, expected[1])
        assert q.shape == expected[0].shape
        orthonormal(q)
        near(q @ r, a, title="q @ r ")
        assert np.array_equal(r, np.triu(r))


def test_qr_of_zeros_and_huge_numbers(k):
    for a in (np.zeros((3, 2)), np.array([[1.0, 2], [0, 0], [0, 0]]), matrix((4, 3)) * 1e200, matrix((4, 3)) * 1e-200):
        q, r = on_device(k, "qr", a, False)
        orthonormal(q)
        near(q @ r / abs(a).max(initial=1e-300), a / abs(a).max(initial=1e-300), title="q @ r ")


@DTYPES
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_eigh(k, shape, dtype):
    a = symmetric(shape, dtype)
    w, v = on_device(k, "eigh", a, "L")
    near(w, N.eigvalsh(a, "L"), title="eigenvalues ")
    orthonormal(v)
    near((v * w[..., None, :]) @ v.swapaxes(-1, -2), a, title="v w v.T ")
    near(on_device(k, "eigvalsh", a, "U"), w)


def test_eigh_reads_one_triangle(k):
    a = symmetric((4, 4))
    for uplo, other in (("L", np.triu), ("U", np.tril)):
        holed = np.where(other(np.ones((4, 4)), 1 if uplo == "L" else -1) > 0, np.nan, a)
        near(on_device(k, "eigvalsh", holed, uplo), N.eigvalsh(a, uplo))


def test_eigenvalues_that_are_equal_huge_or_zero(k):
    q, _ = np.linalg.qr(matrix((6, 6)))
    for values in ([1, 1, 1, 1, 1, 1], [0, 0, 0, 2, 2, -2], [1e-9, 1, 1e3, 1e6, -1e6, 0], [0] * 6):
        for scale in (1.0, 1e150, 1e-150):
            a = (q * np.array(values)) @ q.T * scale
            a = (a + a.T) / 2
            w, v = on_device(k, "eigh", a, "L")
            near(w / scale, np.sort(values).astype(float))
            orthonormal(v)
    w, v = on_device(k, "eigh", np.diag([3.0, 1e-30, -2]), "L")
    np.testing.assert_array_equal(w, [-2, 1e-30, 3])


def test_eigh_of_what_is_not_finite(k):
    a = np.stack([np.full((2, 2), np.nan), np.eye(2) * 2])
    w, v = on_device(k, "eigh", a, "L")
    assert np.isnan(w[0]).all() and np.isnan(v[0]).all()
    near(w[1], np.array([2.0, 2.0]))


@DTYPES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_svd(k, shape, dtype):
    a = matrix(shape, dtype)
    for full in (False, True):
        u, s, vh = on_device(k, "svd", a, full)
        expected = N.svd(a, full)
        assert (u.shape, vh.shape) == (expected[0].shape, expected[2].shape)
        near(s, expected[1], title="singular values ")
        orthonormal(u)
        orthonormal(vh.swapaxes(-1, -2))
        count = s.shape[-1]
        near((u[..., :count] * s[..., None, :]) @ vh[..., :count, :], a, title="u s vh ")
    near(on_device(k, "svdvals", a), s)


def test_svd_of_matrices_without_full_rank(k):
    """Zero singular values have orthonormal vectors, too."""
    for a in (np.zeros((3, 3)), np.ones((4, 3)), np.outer([1.0, 2, 3], [1, 0, -1, 2]), np.diag([2.0, 0, -1]), np.diag([1e-200, 1, 1e-8])):
        u, s, vh = on_device(k, "svd", a, True)
        near(s, N.svdvals(a))
        orthonormal(u)
        orthonormal(vh.T)
        near((u[:, : s.size] * s) @ vh[: s.size], a)


def test_svd_of_what_is_not_finite(k):
    with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
        on_device(k, "svd", np.array([[np.nan, 1], [1, 2]]), False)
    assert np.isnan(on_device(k, "svdvals", np.array([[np.inf, 1], [1, 2]]))).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pinv(k, shape):
    a, rcond = matrix(shape), np.array(1e-15)
    near(on_device(k, "pinv", a, rcond), N.pinv(a, rcond), 1e-12)


def test_pinv_cuts_off(k):
    a = np.stack([np.diag([4.0, 2, 1e-3]), np.ones((3, 3))])
    for rcond in (np.array(1e-2), np.array([1e-2, 0.5])):
        near(on_device(k, "pinv", a, rcond), N.pinv(a, rcond))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "cofactors", "cholesky", "svdvals"])
def test_dtypes_shapes_and_strides(k, name):
    a = positive((2, 3, 3))
    integers = np.array([[4, 1], [1, 3]], np.int32)
    for x, y in ((a, k.adopt(a)), (a.transpose(0, 2, 1), k.transpose(k.adopt(a), (0, 2, 1))), (integers, k.adopt(integers))):
        d = [N.det(x)] if name == "cofactors" else []
        with np.errstate(all="ignore"):
            found, expected = getattr(k, name)(y, *map(k.adopt, d)), getattr(N, name)(x, *d)
        for b, e in zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]:
            near(k.to_numpy(b), e)
    with pytest.raises(np.linalg.LinAlgError, match="1-dimensional array given"):
        on_device(k, name, np.ones(3), *d)
    with pytest.raises(TypeError, match=f"{name}: no factorization takes float16"):
        on_device(k, name, np.eye(2, dtype=np.float16), *d)
    if name != "svdvals":
        with pytest.raises(np.linalg.LinAlgError, match="must be square"):
            on_device(k, name, np.ones((2, 3)), *d)


def test_systems_that_do_not_fit(k):
    with pytest.raises(ValueError, match=r"solve: b \(3, 1\) must have as many rows"):
        on_device(k, "solve", np.eye(2), np.ones((3, 1)))
    with pytest.raises(ValueError, match="do not broadcast"):
        on_device(k, "solve", np.ones((2, 3, 3)), np.ones((4, 3, 1)))


def test_arguments_are_not_changed_and_bits_repeat(k):
    a = positive((5, 5))
    x = k.adopt(a)
    for name, options in (("inv", ()), ("cholesky", ()), ("qr", (False,)), ("eigh", ("L",)), ("svd", (True,)), ("slogdet", ())):
        first, second = (getattr(k, name)(x, *options) for _ in range(2))
        for y, z in zip(first, second, strict=True) if isinstance(first, tuple) else [(first, second)]:
            np.testing.assert_array_equal(k.to_numpy(y), k.to_numpy(z), err_msg=name)
    np.testing.assert_array_equal(k.to_numpy(x), a)


@DTYPES
def test_accuracy_is_a_small_multiple_of_lapacks(k, dtype):
    a, one = matrix((48, 48), dtype), np.eye(48)
    s = a + a.T
    for name, x, made in (
        ("eigh", (s, "L"), lambda w, v: (v * w) @ v.T - s),
        ("eigh", (s, "L"), lambda w, v: v.T @ v - one),
        ("svd", (a, False), lambda u, s, vh: (u * s) @ vh - a),
        ("svd", (a, False), lambda u, s, vh: vh @ vh.T - one),
        ("qr", (a, False), lambda q, r: q @ r - a),
        ("qr", (a, False), lambda q, r: q.T @ q - one),
    ):
        error, lapacks = (np.linalg.norm(made(*factors)) for factors in (on_device(k, name, *x), getattr(N, name)(*x)))
        assert error < 12 * lapacks, f"{name}: {error}, and LAPACK's {lapacks}"
