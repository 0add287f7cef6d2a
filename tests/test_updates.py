"""x.at[index]: set, add, multiply, divide, max and min against NumPy's own loops, with repeated indices, and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend
from autotape.opsets import array as ops
from autotape.testing import check_grads

FEW = settings(max_examples=settings().max_examples // 7)
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
AT = {"add": np.add, "multiply": np.multiply, "divide": np.divide, "max": np.maximum, "min": np.minimum}  # NumPy's ufunc.at
X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]])
INDICES = {
    "number": 1,
    "slice": (slice(None), slice(None, None, 2)),
    "new axis": (None, 0),
    "all": (),
    "mask": X > 0,
    "rows": np.array([1, 0, 1]),
    "one row thrice": [0, 0, 0],
    "pairs": (np.array([[0, 1], [0, 1]]), np.array([[2, -1], [2, 0]])),
    "slice and numbers": (slice(None), np.array([2, 2])),
    "none": np.zeros(0, int),
}


def expected(name, x, v, index):
    y = x.copy()
    AT[name].at(y, tuple(index) if isinstance(index, tuple) else index, np.broadcast_to(v, y[index].shape))
    return y


def update(name, x, v, index):
    return getattr(x.at[index], name)(v)


@pytest.mark.parametrize("name", AT)
@pytest.mark.parametrize("place", INDICES)
@FEW
@given(st.sampled_from([np.float32, np.float64]), st.integers(0, 99), st.booleans())
def test_values_and_gradients(name, place, dtype, seed, alike):
    index, random = INDICES[place], np.random.default_rng(seed)
    shape = X[index].shape
    v = (random.uniform(0.5, 1.5, shape[1:] if alike else shape) * random.choice([-1, 1])).astype(dtype)
    x = X.astype(dtype)
    y = update(name, at.array(x), v, index)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.numpy(), expected(name, x, v, index), rtol=1e-5 if dtype == np.float32 else 1e-12)
    with backend.use(BACKENDS[seed % len(BACKENDS)]):
        check_grads(lambda x, v: update(name, x, v, index), (x, v) if v.size else (x, at.array(v)))


def test_zeros_among_the_factors():
    index, v = [0, 0, 0, 1, 1], np.array([2.0, 0.0, 3.0, 0.0, 0.0])
    x = np.array([5.0, 7.0, 9.0])
    dx, dv = at.grad(lambda x, v: x.at[index].multiply(v).sum(), (0, 1))(x, v)
    np.testing.assert_array_equal(dx, [0, 0, 1])
    np.testing.assert_array_equal(dv, [0, 30, 0, 0, 0])
    check_grads(lambda x, v: x.at[index].multiply(v), (x, v))
    hessian = at.hessian(lambda v: at.array(x).at[index].multiply(v).sum())(v)
    assert hessian[0, 1] == 15 and hessian[3, 4] == 7 and hessian[0, 2] == 0


def test_ties_share_equally():
    x, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0, 2.0])
    for name, sign in (("max", 1), ("min", -1)):
        dx, dv = at.grad(lambda x, v, name=name: update(name, x, v, [0, 0, 0, 1]).sum(), (0, 1))(sign * x, sign * v)
        np.testing.assert_allclose(dx, [1 / 3, 1 / 2, 1])
        np.testing.assert_allclose(dv, [1 / 3, 1 / 3, 0, 1 / 2])
        dx = at.grad(lambda x, name=name, one=sign * 1.0: update(name, x, one, 0).sum())(sign * x)
        np.testing.assert_allclose(dx, [1 / 2, 1, 1])


def test_values_are_cast_to_the_dtype_of_x():
    x = np.array([1.0, 2.0], np.float32)
    for name in AT:
        y = update(name, at.array(x), np.float64(2), 0)
        assert y.dtype == np.float32
        dx, dv = at.grad(lambda x, v, name=name: update(name, x, v, [0, 0]).sum(), (0, 1))(x, np.array([2.0, 3.0]))
        assert dx.dtype == np.float32 and dv.dtype == np.float64
    assert at.array([3, 4]).at[[0, 0]].multiply(2).tolist() == [12, 4]
    assert at.array([3, 4]).at[[1]].max(5).tolist() == [3, 5]


def test_an_index_may_hold_a_tensor_and_x_a_param():
    p = at.Param(np.array([1.0, 2.0]))
    y = p.at[at.array([0, 0])].multiply(3.0)
    assert y.tolist() == [9, 2] and p.numpy().tolist() == [1, 2]


def test_what_does_not_fit():
    x = at.array(X)
    with pytest.raises(TypeError, match=r"divide: x must be of floats, not int64"):
        at.array([1, 2]).at[0].divide(2)
    for name in AT:
        with pytest.raises(ValueError, match="broadcast"):
            update(name, x, np.ones(4), 0)
        with pytest.raises(IndexError):
            update(name, x, 1.0, 5)


@pytest.mark.parametrize("name", ["set", *AT])
def test_what_is_no_number_is_refused(name):
    for v in (None, "1", [1, None], {}):
        with pytest.raises(TypeError, match=rf"x\.at\[i\]\.{name}: .* is no array of numbers"):
            update(name, at.array(X), v, 0)


@pytest.mark.numpy_only("complex numbers")
@pytest.mark.parametrize("name", ["set", *AT])
def test_imaginary_parts_are_refused(name):
    x = at.array(X)
    for v in (1j, np.array([1j, 0, 0]), at.array(1j), [1j, 0, 0]):
        with pytest.raises(TypeError, match=rf"x\.at\[i\]\.{name}: x holds float64 and would cut v's imaginary part off"):
            update(name, x, v, 0)
    if name in ("set", "add", "multiply"):
        y = update(name, x.astype(complex), 2j, (0, 0))
        assert y.numpy()[0, 0] == {"set": 2j, "add": 0.5 + 2j, "multiply": 1j}[name]


@pytest.mark.parametrize("name", ["set", *AT])
@pytest.mark.parametrize("dtype", [int, np.uint8, bool])
def test_what_integers_and_booleans_would_cut_off_is_refused(name, dtype):
    if name == "divide":
        return
    for v in (1.5, at.Param(1.5)):
        with pytest.raises(TypeError, match=rf"x\.at\[i\]\.{name}: x holds .* and would cut v off.*x\.astype\(float\) first"):
            at.grad(lambda v: (update(name, at.array(np.ones(3, dtype)), v, 0) * 1.0).sum())(v)
    if name != "add" or dtype is not bool:
        assert update(name, at.array(np.ones(3, dtype)), np.array(1.0), 0).dtype == dtype


def test_the_operators_behind_at_have_that_derivative_too():
    x = np.zeros(3, int)
    for f in (ops.index_set, ops.index_add):
        assert at.grad(lambda v, f=f: (f(x, v, 0) * 1.0).sum())(1.5) == 0
        assert at.grad(lambda v, f=f: f(x * 1.0, v, 0).sum())(1.5) == 1
