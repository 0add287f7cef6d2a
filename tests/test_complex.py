"""Complex numbers: NumPy's values, the vjp as a plain transpose, branches and conventions, and what is refused.

That every operator's gradients hold on complex inputs is in test_operators.py; here are values, what transforms make of complex
numbers, and that check_grads sees a wrong conjugate.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, kernels, operator
from autotape.opsets import array as ops
from autotape.testing import check_grads
from autotape.testing.strategies import TURN, arrays, axes, groups, shapes, turned

pytestmark = pytest.mark.numpy_only("complex numbers")
FEW = settings(max_examples=settings().max_examples // 8)
DTYPES = st.sampled_from([np.complex64, np.complex128])
AWAY = ((-2.0, -0.3), (0.3, 2.0))  # from 0
BOTH = ("reverse", "forward")
by_name = {"ids": lambda f: f.__name__}
Z = np.array([[1 + 2j, -0.5j, 0.3], [-1.1 + 0.2j, 0.7 - 0.9j, 2j]])
V = np.array([[0.4 - 1j, 1j, -2], [1 - 0.3j, 0.5, 0.8 + 0.6j]])
X = np.array([0.4, -0.7, 1.3])


@pytest.fixture(params=["numpy", "strict"], autouse=True)
def each_backend(request):
    with backend.use(request.param):
        yield


def agrees(f, *args):
    """f of Tensors is f of the arrays, in shape, dtype and value."""
    expected, found = f(*args), f(*map(at.array, args))
    for y, e in zip(listed(found), listed(expected), strict=True):
        assert isinstance(y, at.Tensor)
        assert (y.shape, y.dtype) == (np.shape(e), e.dtype)
        tolerance = 1e-5 if e.dtype in (np.float32, np.complex64) else 1e-12
        np.testing.assert_allclose(y.numpy(), e, tolerance, tolerance)


def listed(y):
    return y if isinstance(y, (list, tuple)) else [y]


# ---------------------------------------------------------------- values

UNARY = [
    np.negative, np.positive, np.conjugate, np.real, np.imag, np.angle, np.absolute, np.sign, np.exp, np.exp2, np.expm1, np.log, np.log1p,
    np.log2, np.log10, np.sqrt, np.square, np.reciprocal, np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh,
    np.tanh, np.arcsinh, np.arccosh, np.arctanh, np.sinc, np.nan_to_num, np.round, np.rint, np.real_if_close, np.iscomplex, np.isreal,
    np.isfinite, np.sort_complex, lambda z: z.real, lambda z: z.imag, lambda z: z.conj(), lambda z: z.T, abs,
]  # fmt: skip
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.power, np.float_power, np.maximum, np.minimum, np.fmax, np.fmin, np.less]
REDUCING = [
    np.sum, np.mean, np.prod, np.max, np.min, np.var, np.std, np.nansum, np.nanmean, np.nanprod, np.nanvar, np.nanstd, np.nanmax, np.argmax,
    np.any, np.count_nonzero, np.median, np.ptp,
]  # fmt: skip


@pytest.mark.parametrize("f", UNARY, **by_name)
@FEW
@given(data=st.data())
def test_functions_of_one_array_are_numpys(f, data):
    agrees(f, data.draw(arrays(shapes(1, 3), DTYPES, AWAY)))


@pytest.mark.parametrize("f", BINARY, **by_name)
@FEW
@given(data=st.data())
def test_functions_of_two_arrays_are_numpys(f, data):
    a, b = data.draw(groups(2, DTYPES, AWAY))
    for args in ((a, b), (a, b.real.copy()), (abs(a), b)):
        agrees(f, *args)


@pytest.mark.parametrize("f", REDUCING, **by_name)
@FEW
@given(data=st.data())
def test_reductions_are_numpys(f, data):
    z = data.draw(arrays(shapes(1, 3, (1, 2, 3)), DTYPES, AWAY))
    axis = data.draw(axes(z.ndim, several=f not in (np.argmax,)))
    agrees(lambda z: f(z, axis=axis), z)


@pytest.mark.parametrize("f", [np.vdot, np.vecdot, np.inner, np.outer, np.linalg.vecdot, lambda a, b: np.tensordot(a, b, 2)], **by_name)
def test_products_conjugate_where_numpy_does(f):
    for args in ((Z, V), (Z.real.copy(), V), (Z, V.real.copy())):
        agrees(f, *args)
        check_grads(f, args, modes=BOTH)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_correlations_conjugate_the_second_array(mode):
    for a, v in ((Z.ravel(), V[0]), (V[0, :2], Z.ravel()), (X, V[0]), (Z[0], X)):
        agrees(lambda a, v: np.correlate(a, v, mode), a, v)
        agrees(lambda a, v: np.convolve(a, v, mode), a, v)
        check_grads(lambda a, v: np.correlate(a, v, mode), (a, v))


def test_covariances_conjugate_the_second_factor():
    for f in (np.cov, np.corrcoef, lambda z: np.cov(z, aweights=[1, 2, 0.5]), lambda z: np.cov(z[0], z[1].real)):
        agrees(f, Z)
        check_grads(f, (Z,))


def test_interpolation_between_complex_values():
    for options in ({}, {"left": 1j}, {"period": 2.5}):
        f = functools.partial(lambda x, y, **options: np.interp(x, [0.0, 1.0, 2.0], y, **options), **options)
        agrees(f, np.array([-0.4, 0.3, 1.6]), Z[0])
        check_grads(f, (np.array([0.3, 1.6]), Z[0]))


@pytest.mark.parametrize("f", [np.linspace, np.logspace, np.geomspace], **by_name)
def test_grids_between_complex_ends(f):
    for options in ({}, {"endpoint": False, "axis": -1}):
        grid = functools.partial(f, num=4, **options)
        for args in ((Z[1], V[1]), (Z[1], abs(V[1])), (Z[1].astype(np.complex64), V[1].astype(np.complex64))):
            agrees(grid, *args)
        check_grads(grid, (Z[1], V[1]))


def test_vectors_and_matrices_multiply_with_conjugated_vectors():
    if not hasattr(np, "vecmat"):
        pytest.skip("NumPy 2.2 brings it")
    agrees(np.vecmat, Z, V.T.copy())
    agrees(np.matvec, Z, V[0])


# ---------------------------------------------------------------- branches

CUTS = {
    np.sqrt: -2.0, np.log: -2.0, np.log2: -0.3, np.log10: -0.3, np.log1p: -1.7, np.arcsin: 1.4, np.arccos: -1.4, np.arctanh: 1.4,
    np.arccosh: -0.5, np.arctan: 1.4j, np.arcsinh: -1.4j,
}  # fmt: skip


@pytest.mark.parametrize("f", CUTS, **by_name)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("end", [1, -1])
def test_derivatives_on_a_cut_are_those_of_the_side_that_values_are_on(f, sign, end):
    on = CUTS[f] if end > 0 or f in (np.sqrt, np.log, np.log2, np.log10, np.log1p, np.arccosh) else -CUTS[f]
    on = complex(np.real(on), np.copysign(0.0, sign)) if np.imag(on) == 0 else complex(np.copysign(0.0, sign), np.imag(on))
    off = on + (1e-9j if np.imag(on) == 0 else 1e-9) * sign
    np.testing.assert_allclose(f(at.array(on)).numpy(), f(off), 1e-6)
    np.testing.assert_allclose(at.elementwise_grad(f)(np.array(on)), at.elementwise_grad(f)(np.array(off)), 1e-6)


@pytest.mark.parametrize("f", [np.absolute, np.angle, np.sign], **by_name)
def test_derivatives_at_0_are_0(f):
    y, pull = at.vjp(f, np.zeros(2, complex))
    assert pull(np.ones(2, y.dtype))[0].tolist() == [0, 0]


def test_equal_elements_share_by_numpys_order():
    z = np.array([1 + 1j, 1 + 2j, 1 + 2j, 0.5 + 9j])
    assert np.max(at.array(z)).item() == 1 + 2j
    assert at.elementwise_grad(np.max)(z).tolist() == [0, 0.5, 0.5, 0]


# ---------------------------------------------------------------- the convention


def test_the_gradient_of_a_real_loss_is_dx_less_i_dy():
    g = at.grad(lambda z: np.sum(np.real(z) ** 3 * np.imag(z)))(Z)
    np.testing.assert_allclose(g, 3 * Z.real**2 * Z.imag - 1j * Z.real**3)
    np.testing.assert_allclose(at.grad(lambda z: np.sum(np.abs(z) ** 2))(Z), 2 * Z.conj())
    assert at.grad(lambda z: abs(z) ** 2)(3 + 4j) == 6 - 8j


@pytest.mark.parametrize("f", [np.multiply, np.divide, np.subtract, np.power, lambda x, z: np.exp(x * z)], **by_name)
def test_04_the_gradient_of_what_is_real_is_real(f):
    x = np.float32([0.5, 1.5, 2.5])
    for loss in (lambda x, z: np.sum(np.abs(f(x, z))), lambda x, z: np.sum(np.imag(f(x, z)))):
        dx, dz = at.grad(loss, (0, 1))(x, Z)
        assert (dx.dtype, dz.dtype) == (np.float32, np.complex128)
    check_grads(f, (x.astype(float), Z), modes=BOTH)


def test_a_step_along_the_conjugate_goes_downhill():
    def loss(z):
        return np.sum(np.abs(z**2 - V) ** 2)

    g = at.grad(loss)(Z)
    assert loss(Z - 1e-3 * np.conj(g)) < loss(Z) < loss(Z + 1e-3 * np.conj(g))


def test_07_parts_are_views_that_nobody_else_sees():
    z = Z.copy()
    _, pull = at.vjp(lambda z: (np.real(z), np.imag(z), np.real(z)), z)
    g, again = (pull((np.ones_like(z.real),) * 3)[0] for _ in range(2))
    assert g.flags.writeable and not np.may_share_memory(g, again)
    np.testing.assert_array_equal(g, np.full_like(Z, 2 - 1j))
    y = at.vjp(np.imag, z)[0]
    y[:] = 0
    np.testing.assert_array_equal(z, Z)


def test_precision_is_kept():
    z = Z.astype(np.complex64)
    for f in (np.abs, np.angle, np.real, np.std, np.conj, np.sign, lambda z: z / 2 + 1j, lambda z: 2.5 * np.exp(1j * z)):
        y, pull = at.vjp(f, z)
        assert np.dtype(y.dtype).itemsize == (8 if np.iscomplexobj(y) else 4)
        assert pull(np.ones(np.shape(y), y.dtype))[0].dtype == np.complex64


# ---------------------------------------------------------------- transforms


def test_derivatives_of_holomorphic_functions():
    np.testing.assert_allclose(at.elementwise_grad(np.sin)(Z), np.cos(Z))
    np.testing.assert_allclose(at.elementwise_grad(at.elementwise_grad(np.sin))(Z), -np.sin(Z))
    assert at.elementwise_grad(lambda z: z**3)(1 + 2j) == 3 * (1 + 2j) ** 2
    np.testing.assert_allclose(at.grad(lambda z: np.real(np.prod(z)))(Z), np.prod(Z) / Z)


def test_jacobians_of_the_parts():
    M = Z.T @ V
    np.testing.assert_allclose(at.jacobian(lambda z: np.real(M @ z))(V[0]), M)
    np.testing.assert_allclose(at.jacobian(lambda z: np.imag(M @ z))(V[0]), -1j * M)
    J = at.jacobian(lambda x: np.imag(M @ x))(X)
    assert J.dtype == np.float64
    np.testing.assert_allclose(J, M.imag)
    np.testing.assert_allclose(at.jacobian(lambda z: np.abs(z))(V[0]), np.diag(V[0].conj() / np.abs(V[0])))


def test_jvp_vjp_and_hvp_agree_with_differences():
    def f(z):
        return np.conj(z) * z**2 + np.abs(z)

    _, dy = at.jvp(f, Z, V)
    np.testing.assert_allclose(dy, (f(Z + 1e-6 * V) - f(Z - 1e-6 * V)) / 2e-6, 1e-7)
    ct = np.exp(1j * Z)
    (g,) = at.vjp(f, Z)[1](ct)
    np.testing.assert_allclose(np.sum(g * V).real, np.sum(ct * dy).real)

    gradient = at.grad(lambda z: np.sum(np.abs(f(z)) ** 2))
    found = at.hvp(lambda z: np.sum(np.abs(f(z)) ** 2))(Z, V)
    np.testing.assert_allclose(found, (gradient(Z + 1e-6 * V) - gradient(Z - 1e-6 * V)) / 2e-6, 1e-6)


def test_flatten_puts_real_and_complex_leaves_in_one_vector():
    p = {"a": Z, "b": 1.5, "c": np.float32([2, 3])}
    v, unflatten = at.flatten(p)
    assert v.dtype == np.complex128
    back = unflatten(v)
    assert back["b"] == 1.5 and type(back["b"]) is float and back["c"].dtype == np.float32
    np.testing.assert_array_equal(back["a"], Z)
    g = at.grad(lambda v: np.sum(np.abs(unflatten(v)["a"]) ** 2) + unflatten(v)["b"] ** 2)(v)
    np.testing.assert_allclose(g, [*2 * Z.conj().ravel(), 3, 0, 0])


def test_tapes_params_and_checkpoints():
    w = at.Param(Z)
    with at.Tape() as tape:
        loss = np.sum(np.abs(at.checkpoint(lambda z: z**2)(w)))
    np.testing.assert_allclose(np.asarray(at.asarray(tape.gradient(loss, w))), at.grad(lambda z: np.sum(np.abs(z**2)))(Z))
    with at.Tape() as tape:
        loss = np.sum(w * V)
    with pytest.raises(TypeError, match=r"tape.gradient: the loss is complex.*np\.abs"):
        tape.gradient(loss, w)


REFUSED = {
    "a complex loss": (lambda: at.grad(np.sum)(Z), r"grad: sum returned a complex number; a real scalar.*np\.real.*elementwise_grad"),
    "a complex result of real x": (lambda: at.elementwise_grad(lambda x: np.exp(1j * x))(X), r"real arguments.*astype\(complex\)"),
    "a complex Jacobian": (lambda: at.jacobian(np.sin)(Z), r"jacobian: .*complex.*np\.real.*np\.imag"),
    "a complex Hessian": (lambda: at.hessian(lambda z: np.sum(np.abs(z)))(Z), "hessian: of complex x.*hvp"),
    "a complex direction": (lambda: at.jvp(np.sin, X, V[0]), "jvp: v is complex where x is real"),
    "a complex cotangent": (lambda: at.vjp(np.abs, Z)[1](Z), "cotangent of a real result"),
    "floor": (lambda: np.floor(at.array(Z)), "floor.*complex128"),
    "arctan2": (lambda: np.arctan2(at.array(Z), 1.0), "arctan2.*complex128"),
    "logaddexp": (lambda: np.logaddexp(at.array(Z), 1.0), "logaddexp.*complex128"),
    "quantile": (lambda: np.quantile(at.array(Z), 0.5), "quantile.*real.*complex128"),
    "histogram": (lambda: np.histogram(at.array(Z)), "histogram.*real.*complex128"),
    "unwrap": (lambda: np.unwrap(at.array(Z)), "complex128"),
    "interp": (lambda: np.interp(at.array(Z), X, X), "interp: x and xp must be real, not complex128"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(TypeError, match=words):
        call()


# ---------------------------------------------------------------- what turns complex, or real


SCIMATH = {"sqrt": 1, "log": 1, "log2": 1, "log10": 1, "arccos": 2, "arcsin": 2, "arctanh": 2}  # by what inputs leave the domain


@pytest.mark.parametrize("name", SCIMATH)
def test_scimath_is_complex_where_values_ask_for_it(name):
    f = getattr(np.lib.scimath, name)
    for x in (X * SCIMATH[name], abs(X) / 2, Z, np.float32([0.5, -1.5]), np.array([-2, 3]), np.int8([-2, 3]), np.array(-1.5)):
        with np.errstate(invalid="ignore"):
            agrees(f, x)
    for x in (X * SCIMATH[name], abs(X) / 2):
        check_grads(f, (x,), modes=BOTH)
    assert np.asarray(at.grad(lambda x: np.sum(np.abs(f(x))))(X)).dtype == np.float64


def test_scimath_of_two():
    for n, x in ((np.array([2.0, 3, 10]), X), (-abs(X) - 1.5, abs(X))):
        agrees(np.lib.scimath.logn, n, x)
        check_grads(np.lib.scimath.logn, (n, x))
    for x, p in ((X, np.array([0.5, -1.5, 2])), (np.array([2, 4]), np.array([-2, 1])), (abs(X), X)):
        agrees(np.lib.scimath.power, x, p)
    check_grads(np.lib.scimath.power, (X, np.array([0.5, -1.5, 2])))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.int32, np.float16, np.float32, np.float64, np.complex64])
def test_sort_complex_has_numpys_dtypes(dtype):
    agrees(np.sort_complex, np.array([[3, 1, 2], [0, 5, 4]]).astype(dtype))


def test_real_if_close_looks_at_values():
    for z, tol in ((Z.real + 1e-15j, 100), (Z.real + 1e-15j, 1), (Z.real + 1e-3j, 1e-2), (Z.real + 1e-3j, 100), (Z, 100)):
        agrees(lambda z, tol=tol: np.real_if_close(z, tol), z)
    check_grads(lambda z: np.real_if_close(z, 0.1), (Z.real + 1e-4j,))


# ---------------------------------------------------------------- check_grads and what is drawn


def declared(rule):
    """abs(x) ** 2 with a rule in x and dy."""

    @operator(elementwise=True)
    def tested(x):
        k = kernels()
        return k.real(k.multiply(x, k.conjugate(x)))

    @tested.backward
    def _(dy, x):
        return rule(dy, x)

    return tested


def test_check_grads_finds_a_missing_conjugate():
    check_grads(declared(lambda dy, x: 2 * dy * ops.conjugate(x)), (Z,), order=3, modes=BOTH)
    with pytest.raises(AssertionError, match=r"order 1: the gradient .*worst element .*j against .*j"):
        check_grads(declared(lambda dy, x: 2 * dy * x), (Z,))
    with pytest.raises(AssertionError, match="the jvp"):
        check_grads(declared(lambda dy, x: 2 * dy * x), (Z,), modes=("forward",))


def test_check_grads_finds_a_gradient_that_lost_its_imaginary_part():
    with pytest.raises(AssertionError, match=r"worst element .*\+0j against"):
        check_grads(declared(lambda dy, x: 2 * dy * ops.real(x)), (Z,))


def test_check_grads_takes_trees_with_complex_numbers_and_complex_results():
    check_grads(lambda p, x: {"y": p["z"] * x, "n": np.sum(p["w"] * p["z"])}, ({"z": 1 + 2j, "w": Z}, 0.5), modes=BOTH)


@FEW
@given(arrays(shapes(0, 3), np.complex128, AWAY))
def test_turned_numbers_keep_their_magnitude_and_half_plane(z):
    assert ((abs(z) > 0.3 - 1e-9) & (abs(z) < 2 + 1e-9) & (abs(z.imag) <= abs(z.real) * np.tan(TURN))).all()
    x = np.float32([1, -2])
    assert turned(x, np.float32).tolist() == [1, -2] and turned(x, np.complex64).dtype == np.complex64


# ---------------------------------------------------------------- other backends


def test_onednn_leaves_complex_arrays_to_numpy():
    if (why := backend.available()["onednn"]) is not None:
        pytest.skip(why)
    z = turned(np.random.default_rng(0).uniform(0.5, 2, (64, 64)), np.complex64)
    results = []
    for name in ("numpy", "onednn"):
        with backend.use(name):
            results.append(at.value_and_grad(lambda z: np.sum(np.abs(np.tanh(z @ z / 64) * np.exp(-z) + np.conj(z))))(z))
    np.testing.assert_allclose(results[1][0], results[0][0], 1e-5)
    np.testing.assert_allclose(results[1][1], results[0][1], 1e-4)


def test_abs_at_0_has_no_derivative_of_any_order():
    z, v = np.array([0j, 3 + 4j]), np.array([1 + 1j, 0])
    np.testing.assert_array_equal(at.hvp(lambda z: np.sum(np.abs(z)))(z, v), 0)
    np.testing.assert_allclose(at.grad(lambda z: np.sum(np.abs(z)))(z), [0, 0.6 - 0.8j])


# ---------------------------------------------------------------- complex numbers and real ones


@pytest.mark.parametrize("x, p", (([200], 2), (np.array([200], np.uint8), 2), (np.array([-2], np.float32), 0.5), (np.array([-2j], "F"), 2)))
def test_powers_of_emath_take_a_number_for_an_array(x, p):
    agrees(lambda x: np.emath.power(x, p), np.array(x))


def test_abs_of_what_is_tiny_has_the_derivative_of_length_1():
    for z in (np.array([1e-34 + 1e-34j], "F"), np.array([3e-200 - 4e-200j]), np.array([1e-310 + 0j])):
        g = at.grad(lambda z: 65536 * np.sum(np.abs(z)))(z)
        np.testing.assert_allclose(g, 65536 * np.conj(np.sign(z)), 1e-6)


def test_nan_to_num_keeps_infinite_parts_and_signs_of_zeros():
    def f(z):
        return np.nan_to_num(z, posinf=np.inf)

    z = np.array([complex(0, np.inf), complex(np.nan, -0.0), complex(-1, -0.0)])
    agrees(f, z)
    agrees(lambda z: np.angle(f(z)), z)
    np.testing.assert_array_equal(at.elementwise_grad(lambda z: np.sqrt(f(z)))(z[2:]), [0.5j])


def test_imag_has_an_infinite_derivative_in_the_imaginary_part_alone():
    with np.errstate(divide="ignore"):
        g = at.grad(lambda z: np.sqrt(np.imag(z)))(1 + 0j)
    assert g.real == 0 and g.imag == -np.inf


@given(seed=st.integers(0, 99), shape=shapes(1, 3))
@FEW
def test_view_sees_real_and_imaginary_parts_in_turn(seed, shape):
    r = np.random.default_rng(seed).normal(size=(*shape, 4))
    z = r.view(complex)
    agrees(lambda z: z.view(float), z)
    agrees(lambda r: r.view(complex), r)
    agrees(lambda z: z.view(np.float32), z.astype(np.complex64))
    check_grads(lambda z: np.sin(z.view(float)) * np.arange(4), (z,))
    check_grads(lambda r: np.sin(r.view(complex)), (r,))


@pytest.mark.parametrize("x, dtype, error, says", (
    (Z, np.float32, TypeError, "complex128 is seen as its real or complex counterpart, not as float32"),
    (X.astype(np.float16), np.complex64, TypeError, "not as complex64"),
    (X, complex, ValueError, r"x \(3,\) as complex128 needs a last axis of even length"),
    (Z[0, 0], float, ValueError, r"x \(\) as float64 needs a last axis"),
))  # fmt: skip
def test_views_that_are_none(x, dtype, error, says):
    with pytest.raises(error, match=says):
        at.array(x).view(dtype)


@pytest.mark.parametrize("f", (
    lambda z: z.astype(float), lambda z: np.sum(z, dtype=float), lambda z: np.concatenate([z], dtype=float, casting="unsafe"),
    lambda z: np.insert(np.zeros(2), 0, z[0, 0]),
))  # fmt: skip
def test_numpys_warning_where_an_imaginary_part_is_lost(f):
    with pytest.warns(np.exceptions.ComplexWarning, match="loses its imaginary part") as caught:
        g = at.grad(lambda z: np.sum(f(z)))(Z)
    assert not g.imag.any()
    assert caught[0].filename == __file__
