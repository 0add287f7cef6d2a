"""Opset scipy, stats and the gammas under them: digits for large parameters and far tails, derivatives at infinities and edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

import autotape as at
from autotape.opsets.scipy import special, stats
from autotape.opsets.scipy.expansions import half_step, stirling
from autotape.opsets.scipy.student import log1p_rest, t_square
from autotape.opsets.scipy.zetas import zeta_step
from autotape.testing import check_grads

pytestmark = pytest.mark.numpy_only("SciPy works on NumPy's arrays")

INF = np.inf
FAMILIES = {"norm": (), "t": (2.5,), "gamma": (1.7,), "chi2": (3.0,), "beta": (1.5, 2.5), "uniform": ()}
METHODS = "logpdf pdf cdf sf logcdf logsf"
MASSES = "logpmf pmf cdf sf logcdf logsf"


def close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(found), expected, tolerance)


def of(family, method, *shapes):
    return lambda x, loc=0, scale=1: getattr(getattr(stats, family), method)(x, *shapes, loc, scale)


# ---------------------------------------------------------------- infinities and edges


@pytest.mark.parametrize("x", [-INF, INF])
@pytest.mark.parametrize("method", METHODS.split())
@pytest.mark.parametrize("name", FAMILIES)
def test_at_infinity_derivatives_of_both_orders_are_0(name, method, x):
    f, args = of(name, method, *FAMILIES[name]), (x, 0.5, 2.0)
    assert [at.grad(f, i)(*args) for i in range(3)] == [0] * 3
    assert [at.grad(at.grad(f, i), j)(*args) for i in range(3) for j in range(3)] == [0] * 9


@pytest.mark.parametrize("method", METHODS.split())
@pytest.mark.parametrize("name", FAMILIES)
def test_at_infinity_values_are_scipys(name, method):
    with np.errstate(all="ignore"):
        expected = getattr(getattr(scipy.stats, name), method)([-INF, INF, np.nan], *FAMILIES[name])
    if name in ("gamma", "chi2") and "pdf" in method:
        expected[1] = -INF if method == "logpdf" else 0  # where SciPy says NaN
    close(of(name, method, *FAMILIES[name])(np.array([-INF, INF, np.nan])), expected)


def test_an_infinite_end_of_an_interval_has_no_part_in_the_gradient():
    close(at.grad(lambda s: np.log(stats.norm.cdf(INF, 0.0, s) - stats.norm.cdf(1.0, 0.0, s)))(2.0), 0.2852694425920162)


@pytest.mark.parametrize("method", MASSES.split())
def test_poisson_at_infinity(method):
    f, k, mu = getattr(stats.poisson, method), np.array([-INF, INF, 2.0]), np.array([2.0, 2.0, INF])
    left, right = {"logpmf": (-INF, -INF), "pmf": (0, 0), "cdf": (0, 1), "sf": (1, 0), "logcdf": (-INF, 0), "logsf": (0, -INF)}[method]
    close(f(k, mu), [left, right, left])
    close(at.elementwise_grad(lambda mu: f(k, mu))(mu), [0, 0, 0])
    assert np.isnan(f([np.nan, 1, -1, np.nan], [1.0, -1.0, np.nan, INF])).all()
    assert at.grad(lambda mu: f(-1, mu))(0.0) == 0


@pytest.mark.parametrize("f, slopes", [
    (stats.norm.logcdf, (0, 0, 0)),
    (lambda x, loc, scale: stats.gamma.logcdf(x, 2.0, loc, scale), (INF, -INF, 0)),
    (lambda x, loc, scale: stats.uniform.logcdf(x, loc, scale), (INF, -INF, 0)),
    (lambda x, loc, scale: stats.uniform.logsf(1 - x, loc, scale), (INF, INF, INF)),
    (lambda x, loc, scale: stats.beta.logcdf(x, 0.5, 0.5, loc, scale), (INF, -INF, 0)),
    (lambda x, loc, scale: stats.gamma.logsf(x, 2.0, loc, scale), (0, 0, 0)),
])  # fmt: skip
def test_slopes_at_an_edge_are_the_limits_from_inside(f, slopes):
    x = -INF if f == stats.norm.logcdf else 0.0
    assert tuple(at.grad(f, i)(x, 0.0, 1.0) for i in range(3)) == slopes


def test_the_second_derivative_of_betainc_at_the_edge():
    for b in (0.7, 1.0, 2.0):
        assert at.grad(at.grad(scipy.special.betainc, 2), 2)(0.5, b, 0.0) == -INF
    close(at.grad(at.grad(scipy.special.betainc, 2), 2)(2.0, 3.0, 0.0), 12)


# ---------------------------------------------------------------- logarithms of integrals


@pytest.mark.parametrize("f, x, value, slope", [  # of mpmath
    (lambda x: stats.chi2.logsf(x, 3.0), 2000.0, -996.4248404973332, -0.49975024962581),
    (lambda x: stats.gamma.logcdf(x, 3.0), 1e-200, -1383.342815265655, 3e200),
    (lambda x: stats.gamma.logcdf(x, 1.0), 50.0, -1.92874984796392e-22, 1.92874984796392e-22),
    (lambda x: stats.gamma.logcdf(x, 1e4), 4e3, -3167.920721232078, 1.500166601901692),
    (lambda x: stats.t.logsf(x, 5.0), 1e80, -918.7837809618048, -5e-80),
    (lambda x: stats.t.logcdf(x, 5.0), 1e3, -9.490065565989902e-15, 4.74501244723864e-17),
    (lambda x: stats.t.logsf(x, INF), 50.0, -1254.83136113942, -50.01998403190564),
    (lambda x: stats.beta.logcdf(x, 3.0, 2.0), 1e-150, -1034.776997486201, 3e150),
    (lambda x: stats.beta.logsf(x, 800.0, 500.0), 0.999, -2592.782669665457, -499201.8007435197),
    (lambda x: stats.uniform.logsf(x), 1e-30, -1e-30, -1),
    (lambda x: stats.t.logcdf(x, 1e20), -38.0, -726.5572160188201, 38.02627946657586),
    (lambda x: stats.t.logcdf(x, 2e7), -40.0, -804.5764037343558, 40.02176710334988),
    (lambda x: stats.t.logcdf(x, 1e7), -50.0, -1254.675012216748, 50.00748215737745),
    (lambda x: stats.t.logcdf(x, 1e9), -1e4, -47655099.98378626, 9090.909181818181),
    (lambda x: stats.gamma.logsf(x, 2.0), 1e5, -99988.48706453501, -0.99999000009999902),
    (lambda x: stats.gamma.logsf(x, 2.0), 1e17, -1e17, -1),
    (lambda mu: stats.poisson.logsf(100, mu), 1e-3, -1066.038769445632, 100999.0098040158),
    (lambda mu: stats.poisson.logcdf(2, mu), 2e3, -1985.490342261642, -0.9990004999997502),
    (lambda mu: stats.poisson.logcdf(30, mu), 1e-3, -1.214947491445002e-127, -3.766219525552732e-123),
])  # fmt: skip
def test_log_integrals_keep_their_digits_in_both_tails(f, x, value, slope):
    close(f(x), value)
    close(at.grad(f)(x), slope, 1e-9)


@pytest.mark.parametrize("method", ["logcdf", "logsf"])
@pytest.mark.parametrize("name", FAMILIES)
def test_log_integrals_have_derivatives(name, method):
    check_grads(of(name, method, *FAMILIES[name]), (np.array([0.3, 0.6, 1.3]), 0.1, 1.5))
    x = np.array([0.2, 0.7])
    close(at.jacobian(of(name, method, *FAMILIES[name]))(x), np.diag(at.elementwise_grad(of(name, method, *FAMILIES[name]))(x)))


@pytest.mark.parametrize("f, x, slope", [
    (lambda x: stats.gamma.logsf(x, np.float32(2)), 1e8, -1), (lambda x: stats.chi2.logsf(x, np.float32(3)), 1e8, -0.5),
    (lambda x: stats.gamma.logcdf(x, np.float32(1e6)), 1e5, 9), (lambda x: stats.t.logsf(x, np.float32(1e7)), 1e4, -909.0909),
    (lambda x: stats.beta.logcdf(x, np.float32(1e7), np.float32(1e3)), 0.01, 1e9), (lambda mu: stats.poisson.logcdf(2, mu), 1e7, -1),
])  # fmt: skip
def test_slopes_of_log_integrals_in_float32(f, x, slope):
    y = at.grad(f)(np.float32(x))
    assert y.dtype == np.float32
    close(y, slope, 1e-6)


def test_an_edge_that_a_mask_takes_away_leaves_the_derivative_in_scale():
    def f(scale):
        return stats.gamma.logcdf(np.array([0.0, 1]), 2.0, 0.0, scale)

    with np.errstate(all="ignore"):
        close(at.jacobian(f)(1.0), [0, -1.3922111911773334])
        close(at.hessian(lambda s: np.sum(f(s)))(1.0), 0.8461703815152573)
        close(at.grad(lambda s: np.sum(np.where([False, True], f(s), 0)))(1.0), -1.3922111911773334)


@pytest.mark.parametrize("which", ["numpy", "strict"])
def test_entropies_of_infinite_parameters_and_of_nan(which):
    with at.backend.use(which):
        found = [stats.gamma.entropy(INF), stats.chi2.entropy(INF), stats.t.entropy(INF), stats.norm.entropy(np.nan)]
        close([at.asarray(y).numpy() for y in found], [INF, INF, 0.5 + 0.5 * np.log(2 * np.pi), np.nan])
        close(at.grad(lambda s: stats.gamma.entropy(2.0, 0.0, s))(2.0), 0.5)


def test_log_integrals_that_underflow_have_second_derivatives():
    check_grads(lambda x: stats.gamma.logsf(x, 2.0), (900.0,))
    check_grads(lambda x: stats.beta.logcdf(x, 300.0, 400.0), (0.01,))
    close(at.grad(at.grad(lambda x: stats.t.logcdf(x, 1e3)))(-80.0), 0.09866961751073833, 1e-8)


def test_log_integrals_keep_float32():
    for name, shapes in FAMILIES.items():
        y = of(name, "logsf", *shapes)(np.float32([-1, 0.5, 5e3]))
        assert y.dtype == np.float32
        close(y, of(name, "logsf", *shapes)(np.array([-1, 0.5, 5e3])), 1e-6)


# ---------------------------------------------------------------- large parameters


@pytest.mark.parametrize("f, at_, value, slope", [  # of mpmath
    (stats.t.entropy, (25.0,), 1.459327578078393, -0.001630675132653757),
    (stats.t.entropy, (1e10,), 1.418938533304673, -1.00000000005e-20),
    (stats.t.entropy, (1e15,), 1.418938533204674, -1e-30),
    (stats.gamma.entropy, (30.0,), 3.108333119287788, 0.01704324962554162),
    (stats.gamma.entropy, (1e15,), 18.68832673066002, 5.000000000000003e-16),
    (stats.beta.entropy, (1e10, 1e12), -14.71408261406624, 4.851485148848103e-11),
    (stats.beta.entropy, (1e8, 1e8), -8.831122612111428, -2.4999999875e-9),
    (stats.beta.entropy, (2.0, 1e10), -21.44863526528892, 0.3550659330017736),
])  # fmt: skip
def test_entropies_of_large_parameters(f, at_, value, slope):
    close(f(*at_), value)
    close(at.grad(f)(*at_), slope)


def test_dirichlets_entropy_of_large_parameters():
    close(stats.dirichlet.entropy([1e10, 1e12]), stats.beta.entropy(1e10, 1e12))
    check_grads(stats.dirichlet.entropy, (np.array([0.5, 12.0, 40.0]),))


def test_entropies_have_the_shape_and_the_nan_of_loc():
    close(stats.norm.entropy([0, 1.0], 2.0), [2.112085713764618] * 2)
    close(stats.gamma.entropy(2.0, np.zeros(3)), scipy.stats.gamma.entropy(2.0, np.zeros(3)))
    close(stats.gamma.entropy(2.0, [0, np.nan]), scipy.stats.gamma.entropy(2.0, [0, np.nan]))
    assert np.isnan(stats.norm.entropy(np.nan, 2.0))
    assert at.grad(stats.norm.entropy)(1.0, 2.0) == 0


@pytest.mark.parametrize("df, slope", [
    (3.0, -0.01621603534794221), (30.0, -0.001519633953393612), (1e8, -1.749999866666673e-16), (1e15, -1.749999999999987e-30),
])  # fmt: skip
def test_the_slope_of_students_density_in_df(df, slope):
    close(at.grad(lambda df: stats.t.logpdf(2.0, df))(df), slope)


def test_students_density_does_not_overflow():
    close(stats.t.logpdf(np.float32(1e20), 3), -183.01047, 1e-6)
    close(at.grad(stats.t.logpdf)(1e200, 3.0), -4e-200)


def test_beta_keeps_its_digits_where_one_parameter_is_much_larger():
    close([at.grad(special.betaln)(1e8, 1.0), at.grad(special.betaln)(1e15, 1.0)], [-1e-8, -1e-15])
    close(at.grad(at.grad(special.betaln))(1e15, 1.0), 1e-30)
    close(at.grad(special.betaln, 1)(1e-3, 1e12), -1e-15, 1e-11)


@pytest.mark.parametrize("f, args", [
    (zeta_step, (np.array([0.2, 3.0, 40.0, 2e3]), np.array([0.01, 2.0, 3.0, 1e3]))),
    (stirling, (np.array([0.3, 4.0, 9.9, 11.0]),)),
    (half_step, (np.array([0.3, 4.0, 9.9, 11.0]),)),
    (log1p_rest, (np.array([-3.0, -0.3, 0.0, 0.49, 0.51, 2.0]),)),
    (t_square, (np.array([0.5, 2.0, 30.0]), np.array([-2.0, 0.0, 1.0]))),
    (special.beta, (np.array([2.0, -2.3]), np.array([0.1, 0.5]))),
    (special.rgamma, (np.array([-2.5, -1.0, 0.0, 0.3, 0.7, 4.0]),)),
    (stats.beta.entropy, (np.array([0.5, 12.0]), np.array([3.0, 40.0]))),
    (stats.t.entropy, (np.array([0.5, 3.0, 50.0]),)),
])  # fmt: skip
def test_gradients(f, args):
    check_grads(f, args)


# ---------------------------------------------------------------- the gamma function's kin


@pytest.mark.parametrize("x, slopes", [  # of mpmath
    (1e-310, (1, 1.154431329803066, -3.935268429121523)),
    (0.0, (1, 1.154431329803066, -3.935268429121523)),
    (-3.0, (-6, 15.07341202118161, 25.70784445823031)),
    (-3 + 1e-8, (-5.999999849265879, 15.07341227826004, 25.70784219600547)),
    (-10.3, (8859904.345929439, -12829063.60496616, -74955674.36902785)),
])  # fmt: skip
def test_rgamma_has_derivatives_at_the_poles_of_gamma(x, slopes):
    f = scipy.special.rgamma
    for slope in slopes:
        f = at.grad(f)
        close(f(x), slope)


@pytest.mark.parametrize("n", [np.int64(25), np.int32(22), 2.0, 171, [0, 1, 25]])
def test_polygamma_takes_the_numbers_that_scipy_takes(n):
    close(special.polygamma(n, 1.3), scipy.special.polygamma(n, 1.3))


@pytest.mark.parametrize("call, says", [
    (lambda: special.polygamma(2.5, 1.0), "n must be a whole number of 0 or more, not 2.5"),
    (lambda: special.polygamma(-1, 1.0), "not -1"),
    (lambda: special.multigammaln(3.0, 2.5), "d must be a whole number of 1 or more, not 2.5"),
    (lambda: at.grad(lambda a: special.multigammaln(a, 3))(0.5), r"above \(d - 1\) / 2, which is 1.0"),
    (lambda: special.multigammaln([3.0, 1.0], 3), "above"),
])  # fmt: skip
def test_parameters_that_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("method", METHODS.split())
@pytest.mark.parametrize("name", FAMILIES)
def test_distributions_lean_on_no_array_but_the_backends(name, method):
    f = of(name, method, *FAMILIES[name])
    with at.backend.use("strict"):
        found = [at.grad(f, i)(at.array([0.4, -INF])[0], 0.1, 2.0) for i in range(3)]
    close([np.asarray(d.numpy() if isinstance(d, at.Tensor) else d) for d in found], [at.grad(f, i)(0.4, 0.1, 2.0) for i in range(3)])
