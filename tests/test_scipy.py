"""Opset scipy: values and edges are SciPy's, derivatives hold to second order, and SciPy's own functions lead here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape.errors import OperatorError
from autotape.opsets.scipy import integrate, linalg, signal, special, stats
from autotape.testing import check_grads
from autotape.testing.strategies import arrays, broadcastable, distinct

pytestmark = pytest.mark.numpy_only("SciPy works on NumPy's arrays")

ROOT = Path(__file__).parent.parent
FEW = settings(max_examples=max(1, settings().max_examples // 10))
SEEDS = st.integers(0, 2**32 - 1)
EDGES = np.array([-np.inf, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, 30, np.inf, np.nan])
ONE = """
    expit logit log_expit erf erfc erfcx erfinv erfcinv ndtr ndtri log_ndtr entr gamma gammaln gammasgn rgamma psi
    j0 j1 y0 y1 i0 i1 i0e i1e
"""
TWO = "xlogy xlog1py rel_entr kl_div beta betaln jv yv iv ive gammainc gammaincc stdtr"
FAMILIES = {"norm": (), "t": (2.5,), "gamma": (1.7,), "chi2": (3.0,), "beta": (1.5, 2.5), "uniform": ()}
METHODS = "logpdf pdf cdf sf logcdf logsf"
MASSES = "logpmf pmf cdf sf logcdf logsf"


def close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(found), expected, tolerance, tolerance)


def matrices(seed, *shapes):
    """Random matrices, the square ones of them well-conditioned."""
    rng = np.random.default_rng(seed)
    xs = [rng.normal(size=shape) / 3 for shape in shapes]
    return [x + 2 * np.eye(x.shape[-1]) if len(x.shape) > 1 and x.shape[-1] == x.shape[-2] else x for x in xs]


# ---------------------------------------------------------------- ufuncs


@pytest.mark.parametrize("name", ONE.split())
def test_a_ufunc_of_one_array_gives_scipys_numbers(name):
    ufunc = getattr(scipy.special, name)
    for x in (EDGES, np.linspace(-4, 4, 41), EDGES.astype(np.float32), np.arange(3)):
        y = ufunc(at.array(x))
        np.testing.assert_allclose(y.numpy(), ufunc(x), 2e-6 if x.dtype == np.float32 else 1e-13, 1e-300, strict=True)


@pytest.mark.parametrize("name", TWO.split())
def test_a_ufunc_of_two_arrays_gives_scipys_numbers(name):
    ufunc = getattr(scipy.special, name)
    for a, b in ((EDGES[:, None], EDGES), (2.5, np.linspace(0, 4, 9)), (np.float32([1, 2]), np.float32([0.5, 2]))):
        np.testing.assert_allclose(ufunc(a, at.array(b)).numpy(), ufunc(a, b), strict=True)


@pytest.mark.parametrize("name", ["erf", "erfc", "gamma", "psi", "ndtr", "rgamma"])
def test_holomorphic_functions_take_complex_numbers(name):
    z, ufunc = np.array([0.5 + 0.3j, 1.5 - 0.2j]), getattr(scipy.special, name)
    close(ufunc(at.array(z)).numpy(), ufunc(z))
    if name != "psi":  # whose derivative is zeta, of real numbers alone
        check_grads(ufunc, (z,), order=1 if "gamma" in name else 2)


@pytest.mark.parametrize("name", ["jv", "yv", "iv"])
def test_bessel_functions_take_complex_numbers_beside_a_real_order(name):
    z, ufunc = np.array([0.5 + 0.3j, 1.5 - 0.2j]), getattr(scipy.special, name)
    close(ufunc(1.5, at.array(z)).numpy(), ufunc(1.5, z))
    check_grads(lambda z: ufunc(1.5, z), (z,))
    with pytest.raises(TypeError, match=f"{name} is of real numbers here"):
        ufunc(1.5j, at.array(z))


@pytest.mark.parametrize("name", ["gammaln", "expit", "erfinv", "i0e"])
def test_functions_of_real_numbers_refuse_complex_ones(name):
    with pytest.raises(TypeError, match=rf"{name}.*complex128"):
        getattr(scipy.special, name)(at.array(np.array([1j])))


@pytest.mark.parametrize("name", ["betainc", "betaincc"])
@FEW
@given(shapes=broadcastable(3), seed=SEEDS)
def test_incomplete_betas(name, shapes, seed):
    ufunc, (a, b, x) = getattr(scipy.special, name), distinct(seed, shapes, [(0.5, 3), (0.5, 3), (0.1, 0.9)])
    close(ufunc(at.array(a), b, x).numpy(), ufunc(a, b, x))
    check_grads(lambda x: ufunc(a, b, x), (x,))


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln"])
@FEW
@given(shapes=broadcastable(2), seed=SEEDS, dtype=st.sampled_from([np.float64, np.float32]))
def test_gradients_of_two_arrays_that_broadcast(name, shapes, seed, dtype):
    a, b = (x.astype(dtype) for x in distinct(seed, shapes, [(0.2, 3)] * 2))
    check_grads(getattr(scipy.special, name), (a, b))


@pytest.mark.parametrize("name", ["jv", "jn", "yv", "yn", "iv", "ive", "gammainc", "gammaincc", "stdtr"])
@FEW
@given(x=arrays((2, 3), elements=(0.3, 4)), order=st.integers(0, 3))
def test_gradients_in_x_alone(name, x, order):
    order = order + 1.0 if name[0] in "gs" else order
    check_grads(lambda x: getattr(scipy.special, name)(order, x), (x,), modes=("reverse", "forward"))


@pytest.mark.parametrize("call", [
    lambda a: scipy.special.gammainc(a, 1.0), lambda a: scipy.special.jv(a, 1.0), lambda a: scipy.special.betainc(a, 1.0, 0.5),
    lambda a: special.zeta(a + 2, 1.0), lambda a: scipy.special.stdtr(a, 1.0), lambda a: stats.gamma.cdf(1.0, a),
])  # fmt: skip
def test_a_derivative_that_is_not_known_raises(call):
    with pytest.raises(OperatorError, match=r"the derivative in \w+ is not known: at.stop_gradient\(\w+\)"):
        at.grad(call)(1.5)
    assert np.isfinite(at.grad(lambda a: a * call(at.stop_gradient(a)))(1.5))


def test_derivatives_do_not_underflow_in_the_tails():
    x = np.array([-1e150, -1e4, -40.0, 40.0])
    close(at.elementwise_grad(scipy.special.log_ndtr)(x), [1e150, 1e4, 40.02496887, 0], 1e-8)
    close(at.elementwise_grad(stats.norm.logsf)(-x), [-1e150, -1e4, -40.02496887, 0], 1e-8)
    close(at.elementwise_grad(scipy.special.log_expit)(np.array([-1e4, 800.0])), [1, 0])


def test_terms_with_the_factor_0_have_derivatives():
    assert at.grad(scipy.special.xlogy, 1)(0.0, 0.0) == 0
    assert at.grad(at.grad(scipy.special.xlogy, 1))(0.0, 2.0) == 0.5  # of a gamma density with a = 1 in x and a
    close(at.grad(lambda x: np.sum(stats.gamma.logpdf(x, 1.0)))(np.array([0.0, 1.0])), [-1, -1])


def test_jacobians_are_walked_once():
    x = np.array([0.5, 1.5])
    close(at.jacobian(scipy.special.gammaln)(x), np.diag(scipy.special.psi(x)))
    (a,) = matrices(0, (3, 3))
    jacobian = at.jacobian(linalg.sqrtm)(a)
    (y,) = (scipy.linalg.sqrtm(a),)
    close(np.einsum("ijkl,jm->imkl", jacobian, y) + np.einsum("ij,jmkl->imkl", y, jacobian), np.eye(9).reshape(3, 3, 3, 3), 1e-10)


# ---------------------------------------------------------------- the way here


def in_a_new_process(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_scipy_is_imported_by_nobody_before_a_function_of_it_meets_a_tensor():
    code = "import sys, autotape as at, numpy as np; at.grad(lambda x: np.sum(np.exp(x)))(np.ones(2)); print('scipy' in sys.modules)"
    assert in_a_new_process(code) == "False\n"


def test_a_ufunc_brings_the_opset_in():
    code = "import autotape as at, scipy.special; print(at.grad(scipy.special.gammaln)(2.0), at.grad(scipy.special.jn, 1)(0, 1.0))"
    gamma, bessel = in_a_new_process(code).split()
    close([float(gamma), float(bessel)], [scipy.special.psi(2), -scipy.special.j1(1)])


def test_a_ufunc_that_is_not_here_says_how_to_declare_it():
    with pytest.raises(TypeError, match=r"scipy.special.airy of a Tensor is not supported.*@operator\(numpy=scipy.special.airy\)"):
        scipy.special.airy(at.array(1.0))


UNSEEN = {
    "special.logsumexp": lambda t: scipy.special.logsumexp(t),
    "special.softmax": lambda t: scipy.special.softmax(t, axis=0),
    "special.log_softmax": lambda t: scipy.special.log_softmax(t),
    "special.polygamma": lambda t: scipy.special.polygamma(1, t),
    "special.multigammaln": lambda t: scipy.special.multigammaln(t, 2),
    "linalg.expm": lambda t: scipy.linalg.expm(t),
    "linalg.sqrtm": lambda t: scipy.linalg.sqrtm(t),
    "linalg.solve_triangular": lambda t: scipy.linalg.solve_triangular(np.eye(2), t),
    "linalg.cho_solve": lambda t: scipy.linalg.cho_solve((np.eye(2), True), t),
    "linalg.toeplitz": lambda t: scipy.linalg.toeplitz(t[0]),
    "linalg.solve_sylvester": lambda t: scipy.linalg.solve_sylvester(t, t, t),
    "signal.convolve": lambda t: scipy.signal.convolve(t, t),
    "stats.norm.logpdf": lambda t: scipy.stats.norm.logpdf(0.0, t),
    "stats.t.sf": lambda t: scipy.stats.t.sf(t, 2),
    "stats.poisson.logpmf": lambda t: scipy.stats.poisson.logpmf(1, t),
    "stats.dirichlet.logpdf": lambda t: scipy.stats.dirichlet.logpdf([0.5, 0.5], t[0]),
    "stats.multivariate_normal.logpdf": lambda t: scipy.stats.multivariate_normal.logpdf(np.zeros(2), None, t),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_a_function_of_scipy_that_sees_no_tensor_names_the_one_that_does(name):
    with pytest.raises(TypeError, match=rf"scipy.{name} sees no Tensor: call autotape.opsets.scipy.{name}$"):
        at.grad(lambda t: np.sum(UNSEEN[name](t)))(np.eye(2) + 0.5)


def test_what_numpy_has_too_is_numpys():
    with pytest.raises(TypeError, match=r"call np\.linalg\.inv$"):
        at.grad(lambda t: scipy.linalg.inv(t).sum())(np.eye(2))


def test_scipy_is_not_blamed_for_what_a_function_it_calls_does():
    with pytest.raises(TypeError, match=r"np\.stack"):
        at.grad(lambda t: scipy.integrate.quad(lambda x: np.asarray(t)[0], 0, 1)[0])(np.ones(1))


def test_on_a_constant_scipys_functions_work():
    close(scipy.special.logsumexp(at.array([0.0, 0.0])), np.log(2))


# ---------------------------------------------------------------- over axes


@FEW
@given(x=arrays((2, 3)), seed=SEEDS, axis=st.sampled_from([None, 0, -1, (0, 1)]), keepdims=st.booleans())
def test_logsumexp_with_factors(x, seed, axis, keepdims):
    (b,) = distinct(seed, [(3,)], [((-2, -0.3), (0.3, 2))])
    found, expected = (f(x, axis, b, keepdims, True) for f in (special.logsumexp, scipy.special.logsumexp))
    for y, e in zip(found, expected, strict=True):
        close(y, e)
    close(special.logsumexp(x, axis, b * b, keepdims), scipy.special.logsumexp(x, axis, b * b, keepdims))
    check_grads(lambda x, b: special.logsumexp(x, axis, b * b, keepdims), (x, b))


@pytest.mark.parametrize(
    "a, b", [([1, 2], [0, 1]), ([np.inf, 2], [0, 1]), ([1, 2], [-1, 0.1]), ([-np.inf, -np.inf], [1, 1]), ([np.nan, 1], [1, 1])]
)
def test_logsumexp_at_edges(a, b):
    a, b = np.array(a, float), np.array(b, float)
    np.testing.assert_allclose(special.logsumexp(a, b=b), scipy.special.logsumexp(a, b=b))
    np.testing.assert_allclose(special.logsumexp(a), scipy.special.logsumexp(a))


def test_softmax_of_integers_is_scipys():
    x = np.array([[1, 2], [3, 5]])
    close(special.softmax(x, 1), scipy.special.softmax(x, 1))
    close(special.log_softmax(x), scipy.special.log_softmax(x))


@FEW
@given(x=arrays((3,), elements=(0.3, 4)), n=st.one_of(st.integers(0, 4), st.just([0, 1, 3])))
def test_polygamma(x, n):
    close(special.polygamma(n, x), scipy.special.polygamma(n, x))
    check_grads(lambda x: special.polygamma(n, x), (x,))


# ---------------------------------------------------------------- linear algebra


@FEW
@given(seed=SEEDS, n=st.integers(0, 4), lead=st.sampled_from([(), (2,)]), scale=st.sampled_from([0.01, 1.0, 8.0]), imaginary=st.booleans())
def test_expm(seed, n, lead, scale, imaginary):
    a = np.random.default_rng(seed).normal(size=(*lead, n, n)) * scale * (1j if imaginary else 1)
    expected = scipy.linalg.expm(a) if n else a
    np.testing.assert_allclose(linalg.expm(a), expected, 1e-9, 1e-11 * np.max(np.abs(expected), initial=1))
    if scale == 1 and n and not imaginary:
        check_grads(linalg.expm, (a,))


def test_the_derivative_of_expm_is_frechets():
    a, e = np.random.default_rng(0).normal(size=(2, 4, 4))
    close(at.jvp(linalg.expm, a, e)[1], scipy.linalg.expm_frechet(a, e, compute_expm=False), 1e-11)


@FEW
@given(seed=SEEDS, n=st.integers(1, 4), lead=st.sampled_from([(), (2,)]))
def test_sqrtm(seed, n, lead):
    (a,) = matrices(seed, (*lead, n, n))
    y = linalg.sqrtm(a)
    close(y @ y, a, 1e-10)
    check_grads(lambda a: np.real(linalg.sqrtm(a)), (a,))


@FEW
@given(seed=SEEDS, n=st.integers(1, 3), trans=st.sampled_from([0, 1, 2]))
def test_complex_matrices(seed, n, trans):
    a, b, q = (x + 1j * y for x, y in zip(matrices(seed, (n, n), (2, 2), (n, 2)), matrices(seed + 1, (n, n), (2, 2), (n, 2)), strict=True))
    check_grads(linalg.expm, (a,))
    check_grads(linalg.sqrtm, (a,))
    check_grads(linalg.solve_sylvester, (a, b, q))
    check_grads(lambda a, q: linalg.solve_triangular(a, q, trans), (a, q))
    check_grads(lambda a, q: linalg.cho_solve(linalg.cho_factor(a @ np.conj(a.T)), q), (a, q))
    check_grads(lambda q: (linalg.toeplitz(q[:, 0]), linalg.block_diag(q, 1.0)), (q,))


def test_sqrtm_without_a_real_root_is_complex():
    y = linalg.sqrtm(np.array([[-1.0, 0], [0, 4]]))
    close(y, [[1j, 0], [0, 2]])
    assert at.grad(lambda a: np.sum(np.imag(linalg.sqrtm(a))))(np.diag([-1.0, 4.0])).dtype == np.float64


@FEW
@given(
    seed=SEEDS, n=st.integers(1, 4), k=st.integers(0, 2), lead=st.sampled_from([((), ()), ((2,), ()), ((), (2,)), ((2, 1), (3,))]),
    trans=st.sampled_from([0, 1, 2, "T"]), lower=st.booleans(), unit=st.booleans(),
)  # fmt: skip
def test_solve_triangular(seed, n, k, lead, trans, lower, unit):
    a, b = matrices(seed, (*lead[0], n, n), (*lead[1], n + 1, k))
    b = b[..., 1:, :]
    x = linalg.solve_triangular(a, b, trans, lower, unit)
    t = np.tril(a) if lower else np.triu(a)
    t = np.where(np.eye(n, dtype=bool), 1, t) if unit else t
    close((np.swapaxes(t, -1, -2) if trans else t) @ x, np.broadcast_to(b, x.shape), 1e-9)
    check_grads(lambda a, b: linalg.solve_triangular(a, b, trans, lower, unit), (a, b))


def test_the_triangle_that_is_not_read_has_no_derivative():
    (a,) = matrices(0, (3, 3))
    da = at.grad(lambda a: np.sum(linalg.solve_triangular(a, np.ones(3), lower=True)))(a)
    assert np.all((da != 0) == np.tri(3, dtype=bool))


@FEW
@given(seed=SEEDS, n=st.integers(1, 4), lower=st.booleans())
def test_cho_solve(seed, n, lower):
    a, b = matrices(seed, (n, n), (n + 1, 2))
    a, b = a @ a.T, b[1:]
    close(linalg.cho_solve(linalg.cho_factor(a, lower), b), np.linalg.solve(a, b), 1e-9)
    check_grads(lambda a, b: linalg.cho_solve(linalg.cho_factor(a, lower), b), (a, b))


@FEW
@given(seed=SEEDS, n=st.integers(1, 5), lower=st.integers(0, 2), upper=st.integers(0, 2), vector=st.booleans())
def test_solve_banded(seed, n, lower, upper, vector):
    lower, upper = min(lower, n - 1), min(upper, n - 1)
    rng = np.random.default_rng(seed)
    ab, b = rng.normal(size=(lower + upper + 1, n)), rng.normal(size=(n,) if vector else (n, 2))
    ab[upper] += 5
    close(linalg.solve_banded((lower, upper), ab, b), scipy.linalg.solve_banded((lower, upper), ab, b), 1e-10)
    check_grads(lambda ab, b: linalg.solve_banded((lower, upper), ab, b), (ab, b))


@FEW
@given(seed=SEEDS, m=st.integers(1, 3), n=st.integers(1, 3), lead=st.sampled_from([((), ()), ((2,), ()), ((), (2,))]))
def test_solve_sylvester(seed, m, n, lead):
    a, b = matrices(seed, (*lead[0], m, m), (*lead[1], n, n))
    q = np.random.default_rng(seed).normal(size=(m, n))
    x = linalg.solve_sylvester(a, b, q)
    close(a @ x + x @ b, np.broadcast_to(q, x.shape), 1e-9)
    check_grads(linalg.solve_sylvester, (a, b, q))


@FEW
@given(c=arrays((3,)), r=arrays((4,)))
def test_toeplitz_and_block_diag(c, r):
    close(linalg.toeplitz(c, r), scipy.linalg.toeplitz(c, r))
    close(linalg.toeplitz(c + 1j), scipy.linalg.toeplitz(c + 1j))
    close(linalg.block_diag(c, 2.0, np.outer(c, r)), scipy.linalg.block_diag(c, 2.0, np.outer(c, r)))
    check_grads(lambda c, r: (linalg.toeplitz(c, r), linalg.toeplitz(c), linalg.block_diag(c, r[:, None])), (c, r))


# ---------------------------------------------------------------- signals and equations


@FEW
@given(data=st.data(), ndim=st.integers(1, 3), mode=st.sampled_from(["full", "same", "valid"]), seed=SEEDS)
def test_convolve(data, ndim, mode, seed):
    larger = data.draw(st.lists(st.integers(2, 4), min_size=ndim, max_size=ndim))
    smaller = [data.draw(st.integers(1, n)) for n in larger]
    a, b = distinct(seed, [tuple(larger), tuple(smaller)], [(-2, 2)] * 2)
    for x, y in ((a, b), (b, a)):
        close(signal.convolve(x, y, mode), scipy.signal.convolve(x, y, mode), 1e-11)
        check_grads(lambda x, y: signal.convolve(x, y, mode), (x, y))


def test_convolve_along_some_axes():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 7, 2)), rng.normal(size=(2, 4, 5))
    y = signal.convolve(a, b, axes=((1,), (1,)), dot_axes=((2,), (0,)))
    expected = [[sum(np.convolve(a[i, :, c], b[c, :, j]) for c in range(2)) for j in range(5)] for i in range(3)]
    close(y, expected)


def pendulum(state, time, length, params):
    return np.stack([state[1] * length, -params["g"] * np.sin(state[0]) * (1 + 0.1 * time)])


def test_odeint():
    y0, t, g = np.array([0.5, 0.1]), np.array([0.0, 0.3, 1.0]), np.array(2.0)
    close(integrate.odeint(pendulum, y0, t, (1.2, {"g": g})), scipy.integrate.odeint(pendulum, y0, t, (1.2, {"g": g})))

    def states(y0, t, length, g):
        return integrate.odeint(pendulum, y0, t, (length, {"g": g}), rtol=1e-11, atol=1e-11)

    check_grads(states, (y0, t, np.array(1.2), g), order=1)
    check_grads(lambda y0: states(y0, t[::2], 1.2, g), (y0,), rtol=1e-5)


# ---------------------------------------------------------------- distributions


@pytest.mark.parametrize("method", METHODS.split())
@pytest.mark.parametrize("name", FAMILIES)
def test_a_distribution_is_scipys(name, method):
    ours, scipys = (getattr(getattr(module, name), method) for module in (stats, scipy.stats))
    shapes = FAMILIES[name]
    z = np.array([0.2, 0.5, 0.7])
    for args in (shapes, (*shapes, 0.1, 2.0), (*shapes, np.array([[0.1], [-0.2]]), 2.0)):
        close(ours(z, *args), scipys(z, *args), 1e-11)
        if not name == method == "uniform":
            check_grads(lambda z, loc, scale: ours(z, *shapes, loc, scale), (z, 0.1, np.array([[2.0], [1.5]])))
    if "log" not in method:
        edges = EDGES[~np.isinf(EDGES)] if method == "pdf" else EDGES  # SciPy's densities of gamma and chi2 are NaN at infinity
        bad = [-1.0 for _ in shapes]
        for args in (shapes, (*shapes, 0, -1.0), (*bad, 0, 1.0 if bad else 0.0)):
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(ours(edges, *args), scipys(edges, *args), 1e-12)


@pytest.mark.parametrize("name", [name for name, shapes in FAMILIES.items() if shapes])
def test_densities_have_derivatives_in_the_shapes(name):
    for method in ("logpdf", "pdf"):
        check_grads(lambda *shapes: getattr(getattr(stats, name), method)(np.array([0.2, 0.6]), *shapes), FAMILIES[name])  # noqa: B023


@pytest.mark.parametrize("name", FAMILIES)
def test_entropy(name):
    close(getattr(stats, name).entropy(*FAMILIES[name], scale=2.0), getattr(scipy.stats, name).entropy(*FAMILIES[name], scale=2.0), 1e-11)
    check_grads(lambda *args: getattr(stats, name).entropy(*args[:-1], 0, args[-1]), (*FAMILIES[name], 2.0))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_log_density_at_edges(name):
    with np.errstate(all="ignore"):
        expected = getattr(scipy.stats, name).logpdf(EDGES, *FAMILIES[name])
        if name in ("gamma", "chi2"):
            expected[np.isposinf(EDGES)] = -np.inf  # where SciPy says NaN
        np.testing.assert_allclose(getattr(stats, name).logpdf(EDGES, *FAMILIES[name]), expected, 1e-12)


def test_beyond_the_support_the_gradient_is_0():
    for family, shapes in ((stats.gamma, (2.0,)), (stats.beta, (2.0, 3.0)), (stats.uniform, ())):
        assert at.grad(lambda x: family.logpdf(x, *shapes))(-1.0) == 0  # noqa: B023
        assert at.grad(lambda x: family.cdf(x, *shapes))(-1.0) == 0  # noqa: B023


def test_python_numbers_leave_float32():
    x = np.ones(2, np.float32)
    assert {stats.norm.logpdf(x, 0.5, 2).dtype, stats.t.cdf(x, 2).dtype, stats.poisson.logpmf(1, x).dtype} == {np.dtype(np.float32)}
    assert stats.multivariate_normal.logpdf(x, None, 2.0).dtype == np.float32


def test_parameters_go_by_name_and_unknown_ones_are_refused():
    close(stats.gamma.logpdf(1.0, a=2.0, scale=3.0), scipy.stats.gamma.logpdf(1.0, a=2.0, scale=3.0))
    with pytest.raises(TypeError, match="df"):
        stats.t.logpdf(1.0)
    with pytest.raises(TypeError, match="shape"):
        stats.norm.logpdf(1.0, shape=2)


@pytest.mark.parametrize("method", MASSES.split())
def test_poisson(method):
    ours, scipys = (getattr(module.poisson, method) for module in (stats, scipy.stats))
    k = np.array([0, 1, 2.5, -1, 4, np.nan])
    with np.errstate(all="ignore"):
        for args in ((1.5, 1), (0.0,), (-1.0,), (np.nan,)):
            np.testing.assert_allclose(ours(k, *args), scipys(k, *args), 1e-12)
    check_grads(lambda mu: ours(np.arange(4), mu), (np.array([[1.5], [0.7]]),))
    with pytest.raises(TypeError, match="poisson's k"):
        at.grad(ours)(1.0, 2.0)


@FEW
@given(seed=SEEDS, n=st.integers(2, 4), more=st.sampled_from([(), (3,)]))
def test_dirichlet(seed, n, more):
    alpha, x = distinct(seed, [(n,), (n, *more)], [(0.3, 3), (0.1, 1)])
    x = x / x.sum(0)
    for method in ("logpdf", "pdf"):
        close(getattr(stats.dirichlet, method)(x, alpha), getattr(scipy.stats.dirichlet, method)(x, alpha), 1e-10)
    close(stats.dirichlet.logpdf(x[:-1], alpha), stats.dirichlet.logpdf(x, alpha), 1e-10)
    close(stats.dirichlet.entropy(alpha), scipy.stats.dirichlet.entropy(alpha), 1e-10)
    check_grads(stats.dirichlet.logpdf, (x, alpha))
    check_grads(stats.dirichlet.entropy, (alpha,))


@FEW
@given(seed=SEEDS, d=st.integers(1, 3), more=st.sampled_from([(), (2,), (2, 3)]))
def test_multivariate_normal(seed, d, more):
    (cov,), rng = matrices(seed, (d, d)), np.random.default_rng(seed)
    x, mean, cov = rng.normal(size=(*more, d)), rng.normal(size=d), cov @ cov.T
    for method in ("logpdf", "pdf"):
        ours, scipys = (getattr(module.multivariate_normal, method) for module in (stats, scipy.stats))
        close(np.ravel(ours(x, mean, cov)), np.ravel(scipys(x, mean, cov)), 1e-10)
        check_grads(ours, (x, mean, cov))
    close(stats.multivariate_normal.entropy(mean, cov), scipy.stats.multivariate_normal.entropy(mean, cov), 1e-10)
    dcov = at.grad(lambda cov: np.sum(stats.multivariate_normal.logpdf(x, mean, cov)))(cov)
    close(dcov, dcov.T)


@pytest.mark.parametrize(
    "args", [(np.ones(3), np.zeros(3), np.array([1.0, 2, 3])), (np.ones(3), np.zeros(3), 2.0), (np.ones(3),), (1.3, 0.5, 2.0)]
)
def test_simple_covariances(args):
    close(stats.multivariate_normal.logpdf(*args), scipy.stats.multivariate_normal.logpdf(*args))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("call, kind, says", [
    (lambda: linalg.expm(np.ones((2, 3))), ValueError, "expm: the last two axes"),
    (lambda: linalg.solve_triangular(np.eye(2), np.ones(3)), ValueError, "as many rows"),
    (lambda: linalg.solve_triangular(np.zeros((2, 2)), np.ones(2)), ValueError, "solve_triangular.*singular"),
    (lambda: linalg.solve_triangular(np.eye(2), np.ones(2), trans=3), ValueError, "trans must be"),
    (lambda: linalg.solve_banded((1, 1), np.ones((2, 3)), np.ones(3)), ValueError, r"ab must be \(3, n\)"),
    (lambda: linalg.solve_sylvester(np.eye(2), np.eye(3), np.ones((3, 2))), ValueError, r"q \(3, 2\) must be"),
    (lambda: linalg.block_diag(np.ones((1, 1, 1))), ValueError, "must be matrices"),
    (lambda: signal.convolve(np.ones(3), np.ones((2, 2))), ValueError, "must fit"),
    (lambda: signal.convolve(np.ones((3, 1)), np.ones((2, 2)), "valid"), ValueError, "lie wholly in the other"),
    (lambda: signal.convolve(np.ones(3), np.ones(2), "half"), ValueError, "mode must be"),
    (lambda: stats.dirichlet.logpdf(np.ones(5), np.ones(3)), ValueError, "3 shares"),
    (lambda: stats.multivariate_normal.logpdf(np.ones(3), np.ones(2)), ValueError, "last axis"),
    (lambda: stats.multivariate_normal.logpdf(np.ones(2), None, -np.eye(2)), ValueError, "cholesky"),
])  # fmt: skip
def test_errors(call, kind, says):
    with pytest.raises(kind, match=says):
        call()


def test_odeint_takes_lists_and_the_time_first():
    def pendulum(t, y, length):
        return [y[1], -np.sin(y[0]) / length]

    def f(length):
        return integrate.odeint(pendulum, [0.5, 0], [0, 1, 2], (length,), tfirst=True, rtol=1e-11, atol=1e-11)

    close(f(1.2), scipy.integrate.odeint(pendulum, [0.5, 0], [0, 1, 2], (1.2,), tfirst=True), 1e-6)
    check_grads(f, (1.2,), order=1)


def test_odeint_loses_no_parameter_of_a_closure():
    def f(v):
        return np.sum(integrate.odeint(lambda y, t: -v * y, v * np.ones(2), np.linspace(0, 1, 4)))

    for transform in (lambda: at.grad(f)(1.0), lambda: at.jvp(f, 1.0, 1.0)):
        with pytest.raises(TypeError, match="odeint: func uses a Tensor or Param that is differentiated and is not among args"):
            transform()


def test_what_scipy_s_classes_say_of_a_tensor_names_no_method_of_theirs():
    def f(y0):
        return scipy.integrate.solve_ivp(lambda t, y: -y, (0, 1), y0).y.sum()

    with pytest.raises(TypeError) as e:
        at.grad(f)(np.ones(2))
    assert "__init__" not in str(e.value)


def test_parameters_may_be_lists():
    close(stats.dirichlet.logpdf([0.2, 0.8], [1.0, 2.0]), scipy.stats.dirichlet.logpdf([0.2, 0.8], [1.0, 2.0]))


# ---------------------------------------------------------------- densities at the edges of their support


@pytest.mark.parametrize("density, x, slope", [
    (lambda x: stats.gamma.pdf(x, 2.0), 0.0, 1),
    (lambda x: stats.gamma.pdf(x, 1.0, scale=2.0), 0.0, -0.25),
    (lambda x: stats.gamma.pdf(x, 3.0), 0.0, 0),
    (lambda x: stats.gamma.pdf(x, 1.5), 0.0, np.inf),
    (lambda x: stats.chi2.pdf(x, 4.0), 0.0, 0.25),
    (lambda x: stats.beta.pdf(x, 2, 2), 0.0, 6),
    (lambda x: stats.beta.pdf(x, 2, 2), 1.0, -6),
    (lambda x: stats.beta.pdf(x, 1, 3), 0.0, -6),
    (lambda x: stats.beta.pdf(x, 3, 1), 1.0, 6),
    (lambda m: stats.poisson.pmf(0, m), 0.0, -1),
    (lambda m: stats.poisson.pmf(1, m), 0.0, 1),
    (lambda m: stats.poisson.pmf(2, m), 0.0, 0),
    (stats.norm.pdf, np.inf, 0),
    (stats.norm.pdf, -np.inf, 0),
    (lambda x: stats.t.pdf(x, 2.0), np.inf, 0),
    (lambda x: stats.t.pdf(x, 2.0), -np.inf, 0),
])  # fmt: skip
def test_the_slope_of_a_density_at_an_edge(density, x, slope):
    close(at.grad(density)(x), slope)


@pytest.mark.parametrize("f, x, second", [
    (lambda x: scipy.special.gammainc(2.0, x), 0.0, 1),
    (lambda x: scipy.special.gammaincc(2.0, x), 0.0, -1),
    (lambda x: scipy.special.betainc(2.0, 2.0, x), 0.0, 6),
    (lambda x: scipy.special.betaincc(2.0, 2.0, x), 1.0, 6),
    (lambda x: stats.gamma.pdf(x, 3.0), 0.0, 1),
    (lambda m: stats.poisson.pmf(2, m), 0.0, 1),
])  # fmt: skip
def test_the_second_derivative_at_an_edge(f, x, second):
    close(at.grad(at.grad(f))(x), second)


def test_the_gradient_of_dirichlets_density_at_a_share_of_0():
    x, alpha = np.array([0.0, 0.4, 0.6]), np.array([2.0, 3.0, 1.0])
    close(at.grad(lambda x: stats.dirichlet.pdf(x, alpha))(x), [60 * 0.4**2, 0, 0])
    close(at.hessian(lambda x: stats.dirichlet.pdf(x, alpha))(x), [[0, 120 * 0.4, 0], [120 * 0.4, 0, 0], [0, 0, 0]])
    close(at.grad(lambda alpha: stats.dirichlet.pdf(x, alpha))(alpha), [0, 0, 0])
    close(at.grad(lambda x: stats.dirichlet.pdf(x, alpha))(np.array([0.0, 0.0, 1.0])), [0, 0, 0])


def test_dirichlets_density_of_large_parameters_neither_overflows_nor_is_lost():
    x, alpha = np.array([0.99, 0.01]), np.array([3000.0, 30.0])
    close(stats.dirichlet.pdf(x, alpha), scipy.stats.dirichlet.pdf(x, alpha), 1e-10)
    check_grads(stats.dirichlet.pdf, (np.array([[0.2, 0.7], [0.5, 0.1], [0.3, 0.2]]), np.array([2.5, 0.7, 1.5])))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_density_at_infinity_is_0(name):
    density, shapes = getattr(stats, name).pdf, FAMILIES[name]
    x = np.array([-np.inf, np.inf])
    close(density(x, *shapes), [0, 0])
    close(at.grad(lambda x: np.sum(density(x, *shapes)))(x), [0, 0])
    assert np.isnan(density(x, *shapes, 0, -1.0)).all()


def test_student_s_distribution_of_infinitely_many_degrees_of_freedom_is_the_normal_one():
    df, x = np.array([3.0, np.inf]), 0.5
    for method in ("logpdf", "pdf", "cdf", "sf"):
        close(getattr(stats.t, method)(x, df), getattr(scipy.stats.t, method)(x, df))
        f = getattr(stats.t, method)
        close(at.grad(lambda x: f(x, np.inf))(x), at.grad(getattr(stats.norm, method))(x))  # noqa: B023
    close(stats.t.entropy(np.inf), scipy.stats.norm.entropy())
    assert at.grad(lambda df: np.sum(stats.t.logpdf(x, df)))(df)[1] == 0


# ---------------------------------------------------------------- tails, signs and phases


@pytest.mark.parametrize("x", [-900.0, 0.0, 900.0])
def test_the_sign_of_a_sum_does_not_underflow(x):
    assert [float(y) for y in special.logsumexp(np.array([x, x - 200]), return_sign=True)] == [x, 1]


def test_the_sign_of_no_terms_is_0():
    assert [float(y) for y in special.logsumexp(np.full(2, -np.inf), return_sign=True)] == [-np.inf, 0]
    assert [float(y) for y in special.logsumexp(np.zeros(0), return_sign=True)] == [-np.inf, 0]


@pytest.mark.parametrize("b", [None, [1.0, -2.0], [1 + 1j, -2]])
@FEW
@given(re=arrays((2, 2), elements=(-3, 3)), im=arrays((2, 2), elements=(-30, 30)), shift=st.sampled_from([-900, 0, 900]))
def test_logsumexp_of_complex_numbers_is_the_principal_one(b, re, im, shift):
    a = re + shift + 1j * im
    close(np.exp(1j * np.imag(special.logsumexp(a, 1, b))), np.exp(1j * scipy.special.logsumexp(a, 1, b).imag), 1e-8)
    assert np.all(np.abs(np.imag(special.logsumexp(a, 1, b))) <= np.pi)
    for found, expected in zip(special.logsumexp(a, 1, b, False, True), scipy.special.logsumexp(a, 1, b, False, True), strict=True):
        np.testing.assert_allclose(np.asarray(found), expected, 1e-8, 1e-8)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("b", [None, [1.0, -2.0], [1 + 1j, -2]])
def test_logsumexp_of_complex_numbers_has_derivatives(b):
    a = np.array([1 + 30j, 2 - 25j])
    check_grads(lambda a: special.logsumexp(a, b=b), (a,))
    check_grads(lambda a: special.logsumexp(a, b=b, return_sign=True), (a,))
    close(at.elementwise_grad(lambda a: special.logsumexp(a, return_sign=True)[0])(np.array([-900 + 1j])), [1])


def nth(f, n):
    return f if n == 0 else at.grad(nth(f, n - 1))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_derivatives_of_erfcx_keep_their_digits(n):
    x = np.array([0.5, 7.99, 8, 30, 1e3, 1e7, 1e50])
    expected = (-1) ** n * scipy.special.factorial(n) / np.sqrt(np.pi) * scipy.special.hyperu((n + 1) / 2, 0.5, x * x)
    np.testing.assert_allclose([nth(scipy.special.erfcx, n)(x) for x in x], expected, 1e-9)


def test_derivatives_of_erfcx_of_complex_numbers():
    check_grads(scipy.special.erfcx, (np.array([0.5 + 0.3j, 9 + 1j, 0.1 + 8.5j, -1 + 1j]),))
    assert at.grad(scipy.special.erfcx)(np.inf) == 0


def test_the_second_derivative_of_log_ndtr_holds_in_both_tails():
    x = np.array([-1e8, -1e4, -40, 0, 10, 38, 50])
    density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    found = [nth(scipy.special.log_ndtr, 2)(x) for x in x]
    expected = [-1, -0.99999999, -0.99937733, -2 / np.pi, *(-x * density)[4:]]
    np.testing.assert_allclose(found, expected, 1e-8, 1e-320)
    check_grads(scipy.special.log_ndtr, (np.array([-12.0, -1.0, 0.5, 3.0]),))


@pytest.mark.parametrize("f", [scipy.special.rel_entr, scipy.special.kl_div])
def test_relative_entropies_leave_0_and_0_for_infinity(f):
    assert f(1e-300, 0.0) == np.inf
    with np.errstate(divide="ignore"):
        assert at.grad(f)(0.0, 0.0) == at.grad(f)(1.0, 0.0) == np.inf
        assert at.grad(f)(0.0, 1.0) == -np.inf
    assert at.grad(f, 1)(0.0, 0.0) == (f is scipy.special.kl_div)


@pytest.mark.parametrize("call", [lambda t: scipy.special.zeta(2.0, t), lambda t: scipy.special.zeta(t)])
def test_scipys_zeta_names_the_one_that_sees_tensors(call):
    with pytest.raises(TypeError, match=r"call autotape\.opsets\.scipy\.special\.zeta"):
        call(at.array([2.5]))
    assert special.zeta(2.0) == pytest.approx(np.pi**2 / 6, rel=1e-15)


@pytest.mark.parametrize("call, says", (
    (lambda t: scipy.integrate.solve_ivp(lambda time, y: y * t[0], (0, 1), t), r"call autotape\.opsets\.scipy\.integrate\.odeint"),
    (lambda t: scipy.signal.fftconvolve(t, t), r"scipy\.signal\.fftconvolve .*call autotape\.opsets\.scipy\.signal\.convolve"),
    (lambda t: np.polynomial.polynomial.polyval(0.5, t), r"call np\.polyval, whose coefficients come the other way round"),
    (lambda t: np.polynomial.Polynomial(t), r"np\.stack"),
    (lambda t: stats.norm(t, 1), r"norm: distributions are not frozen here: .* norm\.logpdf\(x, \.\.\.\)"),
    (lambda t: stats.multivariate_normal.logpdf(np.ones((5, 3)) * t[0]), r"last axis of x \(5, 3\) must have the length 1"),
    (lambda t: stats.multivariate_normal.logpdf(np.ones(3), t[0], np.eye(3)), r"mean \(\) and cov \(3, 3\)"),
    (lambda t: integrate.odeint(lambda y, time: -y, t, [0.0, 1], full_output=True), "odeint takes SciPy's rtol, .* not full_output; scipy"),
    (lambda t: integrate.odeint(lambda y, time: -y, t * 1j, [0.0, 1]), "odeint: y0 must be real, not complex128: integrate"),
))  # fmt: skip
def test_what_does_not_go_says_what_does(call, says):
    with pytest.raises((TypeError, ValueError), match=says):
        at.grad(lambda t: np.sum(call(t)))(np.array([0.3, 0.7]))


# ---------------------------------------------------------------- derivatives far out


def orders(f, x, n=2):
    """f's first n derivatives at x."""
    found = []
    for _ in range(n):
        f = at.grad(f)
        found.append(f(x))
    return found


@pytest.mark.parametrize("f, x, expected", (
    (special.i0e, 1e4, (-1.9947862106984e-7, 2.99225413175358e-11)),
    (special.i0e, 1e12, (-1.9947114020079e-19, 2.9920671030126e-31)),
    (special.i0e, -1e8, (1.99471140948733e-13, 2.9920671217112e-21)),
    (special.i1e, 1e10, (-1.9947114017828e-16, 2.99206710245e-26)),
    (special.i1e, np.inf, (0, 0)),
    (lambda x: special.ive(2.5, x), 1e4, (-1.992916460952e-7,)),
    (special.expit, 40.0, (4.248354255291589e-18, -4.248354255291589e-18)),
    (special.log_expit, -50.3, (1, -1.4288530305087674e-22)),
    (special.erf, np.inf, (0, 0)), (special.erfc, -1e200, (0, 0)), (special.ndtr, -np.inf, (0, 0)),
    (special.log_ndtr, -1e300, (1e300, -1)), (special.log_ndtr, np.inf, (0, 0)), (special.log_ndtr, -np.inf, (np.inf, -1)),
    (lambda x: special.log_ndtr(np.float32(1) * x), np.float32(-1e20), (1e20, -1)),
    (lambda a: special.rel_entr(a, 1e-200), 1e200, (922.0340371976183, 1e-200)),
    (lambda a: special.kl_div(a, 1e200), 1e-200, (-921.0340371976183, 1e200)),
))  # fmt: skip
def test_derivatives_keep_their_digits_far_out(f, x, expected):
    np.testing.assert_allclose(orders(f, x, len(expected)), expected, 1e-6 if isinstance(x, np.float32) else 1e-10)


@pytest.mark.parametrize("x", (63.9, 64.1, 70.0))
def test_scaled_bessel_functions_are_smooth_where_the_series_begins(x):
    for f in (special.i0e, special.i1e, lambda x: special.ive(3, x), lambda x: special.ive(0.5, x)):
        near = x + 3 * np.cos(np.pi * (np.arange(24) + 0.5) / 24)
        fit = np.polynomial.Chebyshev.fit(near, np.array([f(t) for t in near]), 20)
        np.testing.assert_allclose(orders(f, x), [fit.deriv()(x), fit.deriv(2)(x)], 1e-8)


def test_logsumexp_has_a_derivative_in_a_weight_that_is_0():
    a, b = np.array([1.0, 2, 3]), np.array([1, 0, 0.5])
    close(at.grad(lambda b: special.logsumexp(a, b=b))(b), np.exp(a - scipy.special.logsumexp(a, b=b)))
    check_grads(lambda a, b: special.logsumexp(a, b=b), (a, b))
    close(at.grad(lambda b: special.logsumexp([-800.0, 0], b=b))(np.array([0.0, 1])), [0, 1])
    assert special.logsumexp(np.ones(2, np.float32), b=2.0).dtype == np.float32
    for large in (900.0, np.inf, np.nan):  # which counts for nothing, and what it would add overflows
        y, da = at.value_and_grad(lambda a: special.logsumexp(a, b=[0, 0, 1.0]))(np.array([large, 800, 1]))
        assert y == 1 and (da == [0, 0, 1]).all()


# ---------------------------------------------------------------- odeint, expm and cho_solve where it is hard


@pytest.mark.parametrize("func, options", (
    (lambda y, t, k: -k * y[0], {}), (lambda y, t, k: -k * y, {"h0": 0.01}), (lambda y, t, k: -k * y, {"atol": [1e-8]}),
))  # fmt: skip
def test_odeints_func_and_options_are_those_of_the_way_forth(func, options):
    close(at.grad(lambda k: np.sum(integrate.odeint(func, [1.0], [0, 1.0], (k,), **options)[-1]))(0.7), -np.exp(-0.7), 1e-6)


def test_odeints_tolerances_may_be_one_a_state():
    times, tolerances = np.array([0.0, 0.4, 1]), {"rtol": np.full(2, 1e-10), "atol": [1e-12, 1e-10], "hmax": None}

    def f(y0, rates):
        return integrate.odeint(lambda y, time, rates: -rates * y, y0, times, (rates,), **tolerances)

    y0, rates = np.array([1.0, -2]), np.array([0.5, 3])
    close(f(y0, rates), y0 * np.exp(-rates * times[:, None]), 1e-8)
    falls = np.exp(-rates * times[:, None])
    dy0, drates = at.grad(lambda *args: np.sum(f(*args)), (0, 1))(y0, rates)
    close(dy0, np.sum(falls, 0), 1e-8)
    close(drates, -np.sum(times[:, None] * y0 * falls, 0), 1e-8)


def van_der_pol(y, t, mu):
    return [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]]


@pytest.mark.parametrize("order, end", ((1, 10.0), (2, 3.0)))
def test_odeint_differentiates_what_forgets_its_past(order, end):
    def f(mu, odeint=integrate.odeint, tolerance=1e-9):
        return odeint(van_der_pol, [2.0, 0.0], [0, end], (mu,), rtol=tolerance, atol=tolerance, mxstep=10000)[-1, 0]

    h, derivative = 1e-3, at.grad(f) if order == 1 else at.grad(at.grad(f))
    below, middle, above = (f(mu, scipy.integrate.odeint, 1e-12) for mu in (5 - h, 5.0, 5 + h))
    close(derivative(5.0), (above - below) / (2 * h) if order == 1 else (above - 2 * middle + below) / h**2, 1e-3)


def test_odeint_differentiates_what_is_stiff():
    def f(k, y0, end):
        return integrate.odeint(lambda y, t, k: -k * (y - np.cos(t)), y0, np.stack([0.0, end]), (k,))[-1, 0]

    k, end = 1000.0, 1.0  # by then y is (k * k * cos(t) + k * sin(t)) / (k * k + 1)
    c, s, d = np.cos(end), np.sin(end), k * k + 1
    dk, dy0, dend = at.grad(f, (0, 1, 2))(k, np.array([2.0]), end)
    close(dk, (2 * k * c + s) / d - 2 * k * (k * k * c + k * s) / d**2, 1e-8)
    close(dy0, 0, 1e-8)
    close(dend, (-k * k * s + k * c) / d, 1e-3)


def test_odeint_says_what_is_too_stiff_for_a_derivative():
    def f(k):
        return np.sum(integrate.odeint(lambda y, t, k: -k * (y - np.cos(t)), [2.0], [0.0, 1], (k,)))

    with pytest.raises(ArithmeticError, match="odeint: func is too stiff for a derivative"):
        at.grad(f)(1e8)
    assert np.isnan(at.grad(f)(np.nan))


def test_expm_of_a_stack_is_that_of_each_matrix():
    a = np.stack([np.array([[0.0, 1], [-1, 0]]), np.diag([600.0, 0]), np.zeros((2, 2)), np.full((2, 2), 3.0)])
    alone = np.stack([linalg.expm(x) for x in a])
    np.testing.assert_array_equal(linalg.expm(a), alone)
    weights = np.arange(1.0, 5).reshape(2, 2)
    each = [at.grad(lambda x: np.sum(weights * linalg.expm(x)))(x) for x in a]
    np.testing.assert_allclose(at.grad(lambda x: np.sum(weights * linalg.expm(x)))(a), each, 1e-13)


def test_a_matrix_of_a_stack_keeps_its_derivative_beside_one_that_overflows():
    a = np.stack([0.5 * np.eye(2), np.full((2, 2), 800.0)])
    with np.errstate(all="ignore"):
        close(at.grad(lambda a: np.trace(linalg.expm(a)[0]))(a)[0], np.exp(0.5) * np.eye(2))


@pytest.mark.parametrize("large", (1e3, 1e14, 1e300))
def test_expm_keeps_its_digits_far_from_normal(large):
    a = np.array([[0.3, large], [0, -0.7]])
    expected = [[np.exp(0.3), (np.exp(0.3) - np.exp(-0.7)) * large], [0, np.exp(-0.7)]]
    np.testing.assert_allclose(linalg.expm(a), expected, 1e-13)


@given(SEEDS, st.integers(2, 5), st.integers(0, 12))
@FEW
def test_expm_and_its_derivative_keep_their_digits_under_a_change_of_units(seed, n, decades):
    a, e = np.random.default_rng(seed).normal(size=(2, n, n))
    a = np.triu(a)
    units = 2.0 ** (np.linspace(1, 0, n) * decades * 3)
    units = units[:, None] / units
    y, dy = at.jvp(linalg.expm, a * units, e * units)
    close(y / units, scipy.linalg.expm(a), 1e-10)
    close(dy / units, scipy.linalg.expm_frechet(a, e, compute_expm=False), 1e-10)


def test_expm_of_a_matrix_whose_powers_cancel():
    """Its 6th power is 0, but not that of its absolute values: by the norms of its powers alone 5e-7 would be lost."""
    rng = np.random.default_rng(0)
    q, a = np.linalg.qr(rng.normal(size=(6, 6)))[0], 100 * np.triu(rng.normal(size=(6, 6)), 1)
    expected = q @ scipy.linalg.expm(a) @ q.T
    np.testing.assert_allclose(linalg.expm(q @ a @ q.T), expected, 0, 1e-8 * np.max(np.abs(expected)))


@pytest.mark.parametrize("lower", (True, False))
def test_cho_solve_of_a_stack_and_a_vector(lower):
    (a,) = matrices(5, (3, 2, 2))
    a, b = a @ np.swapaxes(a, -1, -2), np.array([1.0, -2])
    y = linalg.cho_solve(linalg.cho_factor(a, lower), b)
    np.testing.assert_allclose(y, np.stack([np.linalg.solve(x, b) for x in a]), 1e-12, strict=True)
    check_grads(lambda b: linalg.cho_solve(linalg.cho_factor(a, lower), b), (b,))


@pytest.mark.parametrize("name, says", (("cholesky", "(a, upper=True)"), ("qr", '(a, mode="complete")')))
def test_the_hint_gives_numpys_function_the_result_of_scipys(name, says):
    with pytest.raises(TypeError) as e:
        at.grad(lambda t: np.sum(getattr(scipy.linalg, name)(t)[0]))(np.eye(2))
    assert str(e.value).endswith(f"call np.linalg.{name}{says}")
