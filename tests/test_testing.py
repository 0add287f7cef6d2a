"""autotape.testing: the strict array lets nothing through, check_grads finds every kind of wrong rule, strategies keep their word."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import autotape as at
from autotape import backend, kernels, operator
from autotape.opsets import array as ops
from autotape.testing import StrictArray, StrictKernels, check_grads, strict
from autotape.testing.specifications import cases
from autotape.testing.strategies import LAYOUTS, arrays, broadcastable, distinct, shapes

K = StrictKernels()
X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]])


def same(x: StrictArray, expected: object) -> None:
    np.testing.assert_array_equal(K.to_numpy(x), expected, strict=isinstance(expected, np.ndarray))


# ---------------------------------------------------------------- the strict array (SEMANTICS 24)


def test_strict_array_is_not_numpys():
    x = K.adopt(X)
    assert not isinstance(x, np.ndarray) and StrictArray.__array_ufunc__ is None
    protocols = "__array__ __array_function__ __array_interface__ __len__ __iter__ __getitem__ __float__ __index__"
    assert [name for name in [*protocols.split(), "reshape", "sum", "T", "copy"] if hasattr(x, name)] == []
    assert (x.shape, x.dtype, x.ndim, x.size) == ((2, 3), np.float64, 2, 6)
    for use in (np.tanh, np.sum, bool, float, len, iter):
        with pytest.raises(TypeError):
            use(x)


def test_strict_operators_refuse_other_arrays():
    x = K.adopt(X)
    for other in (X, np.float64(2), np.float32(2), [1.0]):
        for f in (lambda a, b: a + b, lambda a, b: b * a, lambda a, b: a < b, lambda a, b: a @ b):
            with pytest.raises(TypeError):
                f(x, other)
    assert x.__add__(at.array(X)) is NotImplemented


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_strict_operators_are_numpys(symbol, dtype):
    a, b = np.array([[3], [5]], dtype), np.array([2, 4, 5], dtype)
    names = {"a": K.adopt(a), "b": K.adopt(b)}
    for text in (f"a {symbol} b", f"a {symbol} 2", f"2 {symbol} a", f"a {symbol} 2.5"):
        same(eval(text, names), eval(text, {"a": a, "b": b}))
    zero_d = eval(f"x {symbol} x", {"x": K.adopt(dtype(3))})
    assert type(zero_d) is StrictArray and zero_d.shape == ()


def test_strict_matmul_and_negative():
    same(K.adopt(X) @ K.adopt(X.T), X @ X.T)
    same(-K.adopt(X), -X)


def test_strict_in_place_only_on_own_buffers():
    x = K.adopt(X)
    y = x + 1
    alias = y
    y += x
    y *= 2.0
    assert alias is y
    same(y, (X + 1 + X) * 2)
    for shared in (K.reshape(y, (6,)), K.transpose(y, None), K.scalar(1.0, np.float64), K.getitem(y, slice(1))):
        with pytest.raises(ValueError, match="share its buffer"):
            shared += 1
    with pytest.raises(TypeError):
        y += X
    K.to_numpy(x)[0] = 1  # a copy
    same(x, X)


def test_strict_adopts_copies_of_what_numpy_adopts():
    x = X.copy()
    a = K.adopt(x)
    x[:] = 0
    same(a, X)
    same(K.adopt([1, 2]), np.array([1, 2]))
    same(K.adopt(np.float32(3)), np.array(3, np.float32))
    assert K.adopt("text") is None and K.adopt(object()) is None and K.adopt(a) is a


def test_strict_kernels_are_the_contract():
    assert "strict" in backend.names() and backend.available()["strict"] is None
    for name in strict.CONTRACT:
        assert callable(getattr(K, name)), name
    with pytest.raises(AttributeError, match="no kernel of the contract"):
        _ = K.fabricated


WITHOUT_ARRAYS = {"adopt", "scalar", "zeros", "ones", "full", "uniform", "compile_elementwise"}


@pytest.mark.parametrize("name", sorted(strict.CONTRACT.keys() - WITHOUT_ARRAYS))
def test_strict_kernels_refuse_other_arrays(name):
    values = {"Sequence[Array]": [X], "Array": X, "Array | None": X}
    with pytest.raises(TypeError, match=f"^{name}: .* is not a StrictArray but ndarray"):
        getattr(K, name)(*(values.get(annotation) for annotation in strict.CONTRACT[name].values()))


def test_strict_kernels_refuse_arrays_as_options_and_wrong_calls():
    with pytest.raises(TypeError, match="reshape: shape takes no array"):
        K.reshape(K.adopt(X), np.array([6]))
    for args in ((), (K.adopt(X),), (K.adopt(X), (6,), 1)):
        with pytest.raises(TypeError, match="reshape takes"):
            K.reshape(*args)


def test_strict_indices_may_be_either():
    for i in (np.array([1, 0, 1]), K.adopt(np.array([1, 0, 1]))):
        same(K.getitem(K.adopt(X), (slice(None), i)), X[:, [1, 0, 1]])
        same(K.scatter_add(K.adopt(np.ones(3)), i, (3,)), np.array([1.0, 2.0, 0.0]))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x: np.float64(1), "float64, not an ndarray"),
        (lambda x: x, "a view of its input"),
        (lambda x: np.tanh(x, out=x), "read-only"),
    ],
)
def test_strict_kernels_hold_numpys_to_the_contract(kernel, message, monkeypatch):
    monkeypatch.setattr(strict.NUMPY, "tanh", kernel, raising=False)
    with pytest.raises((AssertionError, ValueError), match=message):
        StrictKernels().tanh(K.adopt(X))


# ---------------------------------------------------------------- check_grads


def declared(rule, forward=lambda x: kernels().tanh(x)):
    """An operator with this rule in x, dy and y."""

    @operator
    def tested(x):
        return forward(x)

    @tested.backward
    def _(dy, x, y):
        return rule(dy, x, y)

    return tested


RIGHT = declared(lambda dy, x, y: dy * (1 - y * y))
x3 = np.array([0.3, -0.8, 1.1])


@pytest.fixture(params=["numpy", "strict"])
def each_backend(request):
    with backend.use(request.param):
        yield request.param


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_right_rules_pass(each_backend, dtype):
    x, w = x3.astype(dtype), np.array([[1.0], [0.5]], dtype)
    check_grads(RIGHT, (x,), order=3)
    check_grads(lambda x, w: RIGHT(x * w) * x, (x, w))


def test_pytrees_floats_and_constants(each_backend):
    def f(p, k, x):
        return {"a": RIGHT(p["w"] * x) * k, "b": [p["b"] * x, None, 3], "n": p["n"]}

    check_grads(f, ({"w": x3, "b": 0.5, "n": np.arange(3)}, 2, x3))


@pytest.mark.parametrize("factor", [2.001, 1.0001, -1, 0])
def test_wrong_factor_is_found(each_backend, factor):
    wrong = declared(lambda dy, x, y: dy * (1 - y * y) * factor)
    with pytest.raises(AssertionError, match=r"argument 1, order 1: .* central differences give .* worst element \(\d,\)"):
        check_grads(lambda a, x: a * wrong(x), (x3, x3), order=1)


def test_wrong_factor_is_found_in_float32(each_backend):
    with pytest.raises(AssertionError, match="order 1"):
        check_grads(declared(lambda dy, x, y: dy * (1 - y * y) * 1.01), (x3.astype(np.float32),))


def test_worst_element_is_named():
    scale = np.array([1.0, 1.0, 1.5])
    with pytest.raises(AssertionError, match=r"argument 0, leaf 1, order 1: .*worst element \(2,\)"):
        check_grads(lambda p: p[0] + declared(lambda dy, x, y: dy * (1 - y * y) * scale)(p[1]), ([x3, x3],))


def test_second_derivative_alone_wrong_is_found(each_backend):
    wrong = declared(lambda dy, x, y: dy * (1 - at.stop_gradient(y * y)))
    check_grads(wrong, (x3,), order=1)
    with pytest.raises(AssertionError, match="argument 0, order 2"):
        check_grads(wrong, (x3,))


def test_third_derivative_alone_wrong_is_found():
    second = declared(lambda dy, x, y: dy * at.stop_gradient(-2 * ops.tanh(x) * y), lambda x: 1 - np.tanh(x) ** 2)
    wrong = declared(lambda dy, x, y: dy * second(x))
    check_grads(wrong, (x3,), order=2)
    with pytest.raises(AssertionError, match="argument 0, order 3"):
        check_grads(wrong, (x3,), order=3)


def test_not_linear_in_the_cotangent_is_found():
    with pytest.raises(AssertionError, match="not linear in the cotangent"):
        check_grads(declared(lambda dy, x, y: dy * dy * (1 - y * y)), (x3,), order=1)


def test_not_deterministic_is_found():
    noise = itertools.count()
    with pytest.raises(AssertionError, match="differs from run to run"):
        check_grads(declared(lambda dy, x, y: dy * (1 - y * y) * (1 + 1e-9 * next(noise))), (x3,), order=1)


def test_mutation_is_found():
    def mutating(dy, x, y):
        x += 1e-9
        return dy * (1 - y * y)

    with pytest.raises(AssertionError, match="changed by the gradient"):
        check_grads(declared(mutating), (x3,), order=1)


def test_nan_is_found():
    with pytest.raises(AssertionError, match="nan"), np.errstate(invalid="ignore"):
        check_grads(ops.sqrt, (np.array([-1.0, 1.0]),), order=1)


def test_nothing_to_differentiate():
    with pytest.raises(TypeError, match="no floating array"):
        check_grads(RIGHT, (np.arange(3),))


# ---------------------------------------------------------------- strategies and specifications


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(arrays(shapes(0, 3), np.float32, ((-2, -0.1), (0.1, 2))))
def test_arrays_are_distinct_and_inside(x):
    assert x.dtype == np.float32 and np.unique(x).size == x.size
    assert ((abs(x) > 0.1) & (abs(x) < 2)).all()


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(broadcastable(3))
def test_broadcastable_shapes_broadcast(group):
    np.broadcast_shapes(*group)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3), (1,), ()])
def test_layouts_keep_values(layout, shape):
    (x,) = distinct(0, [shape], [(0, 1)])
    y = LAYOUTS[layout](x)
    assert type(y) is np.ndarray and not np.may_share_memory(x, y)
    np.testing.assert_array_equal(x, y, strict=True)
    if shape == (2, 3, 4):
        assert {"C": y.flags.c_contiguous, "F": y.flags.f_contiguous, "strided": y.strides == (768, 128, 16)}.get(layout, True)
        assert (y.strides[0] < 0) == (layout == "reversed") and y.flags.writeable == (layout != "read-only")


def test_cases_have_their_own_names():
    names = [str(c) for c in cases()]
    assert sorted(set(names)) == sorted(names)
