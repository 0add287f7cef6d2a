"""Tensors as text, pickles and copies: dtypes, 0-d, empty, large, tracked and pending ones."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import autotape as at
import autotape.testing  # registers the strict backend
from autotape import backend
from autotape.opsets import v20

COMPLEX = pytest.mark.numpy_only("complex numbers")
PRINTED = {
    "0-d": (3.5, "Tensor(3.5)"),
    "float64": ([1.0, 2.5], "Tensor([1. , 2.5])"),
    "float32": (np.float32([1, 2]), "Tensor([1., 2.], dtype=float32)"),
    "0-d float32": (np.float32(1.5), "Tensor(1.5, dtype=float32)"),
    "float16": (np.float16([0.1]), "Tensor([0.1], dtype=float16)"),
    "int": (7, "Tensor(7)"),
    "int32": (np.int32([1, 2]), "Tensor([1, 2], dtype=int32)"),
    "bool": ([True, False], "Tensor([ True, False])"),
    "complex": pytest.param(1 + 2j, "Tensor(1.+2.j, dtype=complex128)", marks=COMPLEX),
    "NaN": ([np.nan, -np.inf, -0.0], "Tensor([ nan, -inf,  -0.])"),
    "matrix": (np.eye(2), "Tensor([[1., 0.],\n        [0., 1.]])"),
}


@pytest.fixture(params=["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
def each_backend(request):
    with backend.use(request.param):
        yield


@pytest.mark.parametrize(("x", "text"), PRINTED.values(), ids=PRINTED)
def test_text(each_backend, x, text):
    assert repr(at.array(x)) == str(at.array(x)) == f"{at.array(x)}" == text


def test_large_tensors_are_summarised():
    text = repr(at.array(np.arange(2000.0)))
    assert text.startswith("Tensor([0.000e+00, 1.000e+00,") and "..., " in text and len(text) < 200
    with np.printoptions(precision=2):
        assert repr(at.array([1.23456])) == "Tensor([1.23])"


def test_tracked_and_pending_tensors_print():
    texts = []

    def f(x):
        texts.extend([repr(x), f"{x.sum():.2f}", repr(v20.conv4(x, np.ones((1, 1, 1))))])
        return x.sum()

    at.grad(f)(np.ones((1, 1, 1), np.float32))
    assert texts == ["Tensor([[[1.]]], dtype=float32, tracked)", "1.00", "Tensor([[[1.]]], tracked)"]


def test_formats_of_one_element():
    assert f"{at.array(2.5):.3f} {at.array([7]):>3} {at.array(np.float32(0.1)):e}" == "2.500   7 1.000000e-01"


ARRAYS = [
    np.float32(2), np.zeros((0, 3)), np.arange(6).reshape(2, 3).T, np.array([True]), np.ones((2, 3), "f")[:, ::-1],
    pytest.param(np.array([1j]), marks=COMPLEX),
]  # fmt: skip


@pytest.mark.parametrize("x", ARRAYS, ids=lambda x: f"{x.dtype}{x.shape}")
def test_constants_pickle_and_copy(each_backend, x):
    t = at.array(x)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(t, protocol))
        np.testing.assert_array_equal(again.numpy(), x if isinstance(x, np.ndarray) else np.array(x), strict=True)
    assert copy.copy(t) is t and copy.deepcopy([t])[0] is t  # nothing changes a Tensor


def test_pickles_cross_backends():
    with backend.use("strict"):
        text = pickle.dumps(at.array([1.0, 2.0]))
    t = pickle.loads(text)
    assert isinstance(t._array, backend.kernels().array) and t.numpy().tolist() == [1.0, 2.0]


def test_tracked_tensors_do_not_pickle():
    def f(x):
        for dump in (pickle.dumps, lambda t: pickle.dumps({"t": t * 2})):
            with pytest.raises(TypeError, match=r"a pickle of t would drop its derivative.*stop_gradient"):
                dump(x)
        assert pickle.loads(pickle.dumps(at.stop_gradient(x))).item() == 2.0
        assert copy.deepcopy(x) is x
        return x

    assert at.grad(f)(2.0) == 1.0


def test_an_empty_tensor_tells_its_shape():
    assert repr(at.array(np.zeros((0, 3)))) == "Tensor([], shape=(0, 3))"
    assert repr(at.array(np.zeros(0))) == "Tensor([])"


def test_a_format_is_for_one_number():
    assert f"{at.array(1.25):.1f}" == "1.2" and f"{at.array([1.25]):.1f}" == "1.2"
    with pytest.raises(TypeError, match=r"'\.2f' is for one number, not for a Tensor of shape \(2,\)"):
        f"{at.array([1.0, 2.0]):.2f}"


def test_transforms_tell_their_function():
    def energy(x):
        return x

    assert repr(at.grad(energy)) == "grad(energy, argnums=0)"
    assert repr(at.hessian(at.grad(energy), (0, 1))) == "hessian(grad(energy, argnums=0), argnums=(0, 1))"
