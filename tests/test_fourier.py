"""numpy.fft of Tensors: values, dtypes and errors are NumPy's, gradients hold to order 2 on the numpy and the strict backend."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend
from autotape.opsets import array as ops
from autotape.testing import check_grads, strategies

pytestmark = pytest.mark.numpy_only("complex numbers, and transforms")

FEW = settings(max_examples=settings().max_examples // 10)
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TWO = ["fft2", "ifft2", "rfft2", "irfft2"]
MANY = ["fftn", "ifftn", "rfftn", "irfftn"]
OF_REAL = {"rfft", "ihfft", "rfft2", "rfftn"}
TO_REAL = {"irfft", "hfft", "irfft2", "irfftn"}
NORMS = st.sampled_from([None, "backward", "ortho", "forward"])
FLOATS = [np.float64, np.float32, np.complex128, np.complex64]
BACKENDS = st.sampled_from(["numpy", "strict"])


def of(name):
    return getattr(np.fft, name)


def dtypes(name, *more):
    """What a transform takes, more real dtypes among them."""
    return st.sampled_from([d for d in (*FLOATS, *more) if name not in OF_REAL or np.dtype(d).kind != "c"])


@st.composite
def signals(draw, name, *more):
    """An array of one to three axes, all of them long enough for any transform."""
    shape = tuple(draw(st.lists(st.integers(2 if name in TO_REAL else 1, 5), min_size=2 if name in TWO else 1, max_size=3)))
    return draw(strategies.arrays(shape, dtypes(name, *more)))


@st.composite
def along_one(draw, name, *more):
    """A signal, and n, axis and norm."""
    x = draw(signals(name, *more))
    return x, draw(st.none() | st.integers(1, 7)), draw(st.integers(-x.ndim, x.ndim - 1)), draw(NORMS)


@st.composite
def along_many(draw, name):
    """A signal, and s, axes and norm; an axis may be there twice."""
    x = draw(signals(name))
    axes = draw(st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, max_size=3))
    s = draw(st.none() | st.lists(st.integers(1, 5) | st.just(-1), min_size=len(axes), max_size=len(axes)))
    return x, s, axes, draw(NORMS)


def agrees(f, x, *args):
    """f of a Tensor is f of an array; but NumPy rounds the factor of a norm to float16."""
    expected, found = f(x, *args), f(at.array(x), *args)
    assert isinstance(found, at.Tensor)
    rounding = 3e-3 if x.dtype == np.float16 else 1e-5 if expected.real.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(found.numpy(), expected, rounding, 10 * rounding, strict=True)


# ---------------------------------------------------------------- values and gradients


@pytest.mark.parametrize("name", ONE)
@given(data=st.data())
def test_values_along_one_axis(name, data):
    agrees(of(name), *data.draw(along_one(name, np.float16, np.int32, np.uint8, np.bool_)))


@pytest.mark.parametrize("name", ONE)
@FEW
@given(data=st.data(), which=BACKENDS)
def test_gradients_along_one_axis(name, data, which):
    x, *args = data.draw(along_one(name))
    with backend.use(which):
        check_grads(lambda x: of(name)(x, *args), (x,), modes=("reverse", "forward"))


@pytest.mark.parametrize("name", [*TWO, *MANY])
@given(data=st.data())
def test_values_along_several_axes(name, data):
    agrees(of(name), *data.draw(along_many(name)))


@pytest.mark.parametrize("name", [*TWO, *MANY])
@FEW
@given(data=st.data(), which=BACKENDS)
def test_gradients_along_several_axes(name, data, which):
    x, *args = data.draw(along_many(name))
    with backend.use(which):
        check_grads(lambda x: of(name)(x, *args), (x,))


@pytest.mark.parametrize("name", [*TWO, *MANY])
@FEW
@given(data=st.data())
def test_which_axes_are_taken_by_default(name, data):
    x = data.draw(signals(name))
    agrees(of(name), x)
    agrees(lambda x: of(name)(x, axes=range(-2, 0)), np.stack([x, x]))


@pytest.mark.filterwarnings("ignore:.axes. should not be .None.:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Passing an array containing .None.:DeprecationWarning")
@pytest.mark.parametrize("name", MANY)
def test_lengths_without_axes_are_those_of_the_last_axes(name):
    x = np.arange(1.0, 25).reshape(2, 3, 4)
    agrees(lambda x: of(name)(x, s=(2, 5)), x)
    agrees(lambda x: of(name)(x, s=(None, 5, None), axes=(0, 1, 2)), x)


def test_no_axes_leave_an_array_as_it_is():
    agrees(lambda x: np.fft.fftn(x, axes=()), np.arange(3.0))


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@FEW
@given(data=st.data(), which=BACKENDS)
def test_shifts(name, data, which):
    x = data.draw(strategies.arrays(strategies.shapes(1), st.sampled_from(FLOATS)))
    axis = st.integers(-x.ndim, x.ndim - 1)
    axes = data.draw(st.none() | axis | st.lists(axis, min_size=1, max_size=3))
    agrees(of(name), x, axes)
    with backend.use(which):
        check_grads(lambda x: of(name)(x, axes), (x,))


@pytest.mark.parametrize("name", [*ONE, *TWO, *MANY, "fftshift", "ifftshift"])
def test_operators_are_numpys_functions(name):
    x = np.arange(1.0, 13).reshape(3, 4)
    y = getattr(ops, name)(x)
    np.testing.assert_array_equal(y, of(name)(x), strict=True)
    np.testing.assert_array_equal(getattr(ops, name)(x.tolist()), y, strict=True)


# ---------------------------------------------------------------- what they are for


@pytest.mark.parametrize("forth, back", [("fft", "ifft"), ("ifft", "fft"), ("rfft", "irfft"), ("ihfft", "hfft")])
@given(data=st.data())
def test_an_inverse_undoes_its_transform(forth, back, data):
    x, norm = data.draw(signals(forth)), data.draw(NORMS)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    y = of(back)(of(forth)(at.array(x), axis=axis, norm=norm), x.shape[axis], axis, norm)
    np.testing.assert_allclose(y.numpy(), x, 1e-4, 1e-5)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_the_gradient_of_a_power_spectrum_is_a_multiple_of_the_signal(n):
    """By Parseval's theorem."""
    x = np.linspace(1, 2, n)
    g = at.grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2))(x)
    np.testing.assert_allclose(g, 2 * n * x)
    z = x * np.exp(1j * x)
    g = at.grad(lambda z: np.sum(np.abs(np.fft.fft(z, norm="ortho")) ** 2))(z)
    np.testing.assert_allclose(g, 2 * z.conj())


@pytest.mark.parametrize("n", [4, 5])
def test_the_jacobian_of_a_filter_is_circulant_and_found_in_one_walk(n, monkeypatch):
    h = np.linspace(1, 2, n)
    calls = []
    for name in ("rfft", "irfft"):
        kernel = getattr(backend.kernels(), name)
        monkeypatch.setattr(backend.kernels(), name, lambda *args, kernel=kernel: calls.append(args) or kernel(*args))
    j = at.jacobian(lambda x: np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(h), n))(np.ones(n))
    np.testing.assert_allclose(j, [[h[(i - k) % n] for k in range(n)] for i in range(n)])
    assert len(calls) == 4  # two forth and two back


def test_a_real_signal_has_a_real_gradient_in_its_own_dtype():
    for dtype, name in itertools.product([np.float16, np.float32, np.float64], [*ONE, *TWO, *MANY]):
        x = np.ones((3, 4), dtype)
        y, pull = at.vjp(of(name), x)
        (g,) = pull(np.ones_like(y))
        assert (g.dtype, g.shape, y.dtype) == (dtype, x.shape, of(name)(x).dtype)


def test_frequencies_go_with_tensors():
    x = np.array([1.0, 3, 2, 5])
    g = at.grad(lambda x: np.sum(np.fft.irfft(2j * np.pi * np.fft.rfftfreq(4) * np.fft.rfft(x)) ** 2))(x)
    d = np.fft.irfft(2j * np.pi * np.fft.rfftfreq(4)[:, None] * np.fft.rfft(np.eye(4), axis=0), axis=0)
    np.testing.assert_allclose(g, 2 * d.T @ d @ x)


# ---------------------------------------------------------------- what is refused

X = np.ones((2, 3))
REFUSED = {
    "a complex signal": (lambda t: np.fft.rfft(1j * t), TypeError, "rfft: a must be real, not complex128"),
    "a complex signal, ihfft": (lambda t: np.fft.ihfft(1j * t), TypeError, "ihfft: a must be real, not complex128"),
    "a complex signal, rfft2": (lambda t: np.fft.rfft2(1j * t), TypeError, "rfft2: a must be real, not complex128"),
    "a complex signal, rfftn": (lambda t: np.fft.rfftn(1j * t), TypeError, "rfftn: a must be real, not complex128"),
    "a norm, fft2": (lambda t: np.fft.fft2(t, norm="x"), ValueError, "fft2: norm must be 'backward', 'ortho' or 'forward', not 'x'"),
    "a norm that is no text": (lambda t: np.fft.fft(t, norm=[]), ValueError, r"fft: norm must be .*, not \[\]"),
    "a norm": (lambda t: np.fft.fft(t, norm="half"), ValueError, "fft: norm must be 'backward', 'ortho' or 'forward', not 'half'"),
    "a norm, hfft": (lambda t: np.fft.hfft(t, norm="half"), ValueError, "hfft: norm must be"),
    "no length": (lambda t: np.fft.fft(t, 0), ValueError, "fft: the axis must have one element or more, not 0"),
    "no length, irfft": (lambda t: np.fft.irfft(t[:, :1]), ValueError, "irfft: the axis must have one element or more, not 0"),
    "a length that is no number": (lambda t: np.fft.fft(t, 2.5), TypeError, "float"),
    "an axis": (lambda t: np.fft.fft(t, axis=2), IndexError, "axis 2 is out of bounds for array of dimension 2"),
    "an axis, fftn": (lambda t: np.fft.fftn(t, axes=(0, 2)), IndexError, "axis 2 is out of bounds for array of dimension 2"),
    "a number": (lambda t: np.fft.fft(t[0, 0]), IndexError, "axis -1 is out of bounds for array of dimension 0"),
    "too few lengths": (lambda t: np.fft.fftn(t, (2,), (0, 1)), ValueError, "fftn: s .* must be as long as axes, of which there are 2"),
    "no axes": (lambda t: np.fft.rfftn(t, axes=()), ValueError, "rfftn: there must be an axis or more"),
    "out=": (lambda t: np.fft.fft(t, out=np.empty((2, 3), complex)), TypeError, "np.fft.fft of a Tensor takes a, n, axis, norm, not out="),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    f, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        f(at.array(X))
