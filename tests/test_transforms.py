"""grad, value_and_grad, vjp, stop_gradient: what goes in and comes out, nesting, and what bad input says.

A number in a test's name is the rule of the fine print that it holds the engine to: what comes out (1-4, 7), weak numbers
(5), arrays not scalars (6), identity (8), clean state (10), vjp (13).
"""

from __future__ import annotations

import collections
import dataclasses
import doctest
import functools
import inspect
import operator
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, tape, transforms
from autotape.opsets import array as ops
from autotape.testing import check_grads

close = np.testing.assert_allclose
Point = collections.namedtuple("Point", "x y")
X, W = np.array([0.5, -1.5, 2.0, 0.25]), np.array([1.0, 0.75, -0.5, 2.0])
ARRAY = backend.kernels().array
WIDER = np.longdouble if ARRAY is np.ndarray else np.float64

# Functions of two vectors, chosen for the aliases that their rules make: a cotangent passed on, viewed, broadcast, used twice.
FUNCTIONS = {
    "sum": lambda x, w: (x + w).sum(),
    "difference": lambda x, w: (x - w).sum(),
    "twice": lambda x, w: (x + w + x + w).sum(),
    "itself": lambda x, w: (x + x).sum() + w.sum(),
    "views": lambda x, w: (x.reshape(2, 2) + w.reshape(2, 2).T).sum(),
    "parts": lambda x, w: x[:2].sum() + x[2:].sum() + w[::-1].sum(),
    "joined": lambda x, w: np.concatenate([x, w, x]).sum(),
    "stacked": lambda x, w: np.stack([x, w]).sum(),
    "wide": lambda x, w: (np.broadcast_to(x, (3, 4)) * w).sum(),
    "copies": lambda x, w: x.copy().sum() + (+w).sum(),
    "astype": lambda x, w: x.astype(WIDER).astype(float).sum() + w.sum(),
    "product": lambda x, w: (np.tanh(x * w) + x * x).sum(),
    "matmul": lambda x, w: (x @ w) * w.sum(),
    "one": lambda x, w: x.sum(),
    "element": lambda x, w: x[1] * 2 + w[0],
    "neither": lambda x, w: 3.0,
    "where": lambda x, w: np.where(x > w, x, w).sum(),
    "nested": lambda x, w: (at.grad(lambda y: (y * y * w).sum())(x) + w).sum(),
    "at": lambda x, w: x.at[1:3].set(w[:2]).sum(),
}
each_function = pytest.mark.parametrize("name", FUNCTIONS)


def cube(x):
    return (x * x * x).sum() if getattr(x, "shape", ()) else x * x * x


# ---------------------------------------------------------------- what comes out


@each_function
def test_gradients_are_right(name):
    if name == "neither":  # has no Tensor to check
        assert not any(g.any() for g in at.grad(FUNCTIONS[name], (0, 1))(X, W))
    else:
        check_grads(FUNCTIONS[name], (X, W))


@pytest.mark.parametrize(
    ("x", "gradient", "value"),
    [
        (3.0, float, float),
        (3, float, float),
        (np.float64(3), np.float64, np.float64),
        (np.float32(3), np.float32, np.float32),
        (np.array(3.0), np.ndarray, np.float64),
        (np.array([3.0]), np.ndarray, np.float64),
        (at.array(3.0), at.Tensor, at.Tensor),
        (at.array([3.0]), at.Tensor, at.Tensor),
        (at.Param(3.0), ARRAY, np.float64),
    ],
    ids=lambda x: type(x).__name__,
)
def test_01_you_get_back_what_you_passed(x, gradient, value):
    v, g = at.value_and_grad(cube)(x)
    assert type(v) is value and type(g) is gradient and type(at.grad(cube)(x)) is gradient
    assert float(v) == 27 and float(np.asarray(g).sum()) == 27
    assert getattr(g, "shape", ()) == getattr(x, "shape", ()) and getattr(g, "dtype", float) == getattr(x, "dtype", float)
    y, pull = at.vjp(cube, x)
    assert type(y) is value and type(pull(1.0)[0]) is gradient


def test_01_arrays_of_a_backend_come_back_as_such():
    with backend.use("strict") as k:
        x = k.adopt(X)
        v, g = at.value_and_grad(lambda x: (x * x).sum())(x)
        assert type(v) is type(g) is k.array
        close(k.to_numpy(g), 2 * X)
        g = at.grad(lambda x: (x * x).sum())(X)
        assert type(g) is np.ndarray
        assert type(at.grad(lambda x: x * x)(3.0)) is float


def test_01_what_an_outer_level_tracks_stays_a_tensor():
    seen = []

    def f(t):
        inner = at.value_and_grad(lambda y: t * y * y, has_aux=False)(3.0)
        seen.extend(inner)
        return t * inner[1]

    assert at.grad(f)(2.0) == 24.0
    assert [type(t) for t in seen] == [at.Tensor, at.Tensor]
    assert at.grad(lambda t: t * at.grad(lambda y: t * y * y)(3.0))(2.0) == 24.0


def test_01_under_no_grad_an_inner_transform_is_outermost():
    def f(t):
        with at.no_grad():
            v, g = at.value_and_grad(lambda y: t * y * y)(3.0)
            a = at.grad(lambda y: (y * t).sum())(X)
        assert type(v) is type(g) is float and type(a) is np.ndarray
        return t * g

    assert at.grad(f)(2.0) == 12.0  # g = 6 t is a constant


def test_01_tensors_in_closures_and_other_arguments_do_not_change_the_type():
    c = at.array(W)
    assert type(at.grad(lambda x: (x * c).sum())(X)) is np.ndarray
    v, g = at.value_and_grad(lambda x, c: (x * c).sum())(X, c)
    assert type(g) is np.ndarray and type(v) is np.float64


def test_01_aux_leaves_are_plain_too():
    def f(x):
        y = x * x
        return y.sum(), {"y": y, "mask": y > 1, "n": 3, "s": y.sum(), "none": None, "name": "aux"}

    g, aux = at.grad(f, has_aux=True)(X)
    assert [type(aux[k]) for k in aux] == [np.ndarray, np.ndarray, int, np.float64, type(None), str]
    close(aux["y"], X * X)
    (v, aux), g = at.value_and_grad(f, has_aux=True)(at.array(X))
    assert type(v) is type(aux["y"]) is type(g) is at.Tensor


# ---------------------------------------------------------------- zeros, numbers, leaves that are not differentiated


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: 3.0,
        lambda x: np.float32(3),
        lambda x: at.array(3.0),
        lambda x: np.ones(()),
        lambda x: (x > 0).sum() * 1.0,
        lambda x: at.stop_gradient(x).sum(),
        lambda x: np.floor(x).sum(),
    ],
)
@pytest.mark.parametrize("x", [X, X.astype(np.float32), np.ones((0, 3)), np.array(2.0)], ids=["float64", "float32", "empty", "0-d"])
def test_02_what_the_result_does_not_depend_on_gets_zeros(loss, x):
    g = at.grad(loss)(x)
    assert type(g) is np.ndarray and g.shape == x.shape and g.dtype == x.dtype and not g.any() and g.flags.writeable


def test_02_unused_leaves_and_numbers_get_zeros():
    g = at.grad(lambda p: p["a"] * 2)({"a": 1.0, "b": X, "c": (2, np.float32(1)), "t": at.array(W)})
    assert g["a"] == 2.0 and g["c"][0] == 0.0 and type(g["c"][0]) is float and type(g["c"][1]) is np.float32
    assert not g["b"].any() and type(g["t"]) is at.Tensor and not g["t"].numpy().any()


def test_02_a_python_int_counts_as_a_float():
    assert at.grad(lambda x: x * x)(5) == 10.0 and type(at.grad(lambda x: x * x)(5)) is float
    assert at.grad(lambda x: x / 2)(10**20) == 0.5


@pytest.mark.parametrize(
    "x", [np.arange(3), np.int64(3), np.array([True]), np.array([1, "a"], object), at.array([1, 2]), np.array(["a"]), [np.arange(3), X]]
)
@pytest.mark.parametrize("transform", [at.grad, at.value_and_grad, lambda f: lambda x: at.vjp(f, x)])
def test_02_integer_boolean_and_object_arrays_are_refused(transform, x):
    with pytest.raises(TypeError, match=r"(grad|vjp): can't differentiate with respect to .*(int64|bool|object|<U).*astype"):
        transform(lambda x: 1.0)(x)


@pytest.mark.parametrize("x", [None, "relu", True, object(), (), {"a": None, "b": "text"}])
def test_02_nothing_to_differentiate_is_an_error(x):
    with pytest.raises(TypeError, match="nothing to differentiate"):
        at.grad(lambda x: 1.0)(x)


def test_02_leaves_that_are_not_arrays_pass_through():
    def f(p):
        assert p["act"] == "tanh" and p["none"] is None and p["flag"] is True
        return getattr(np, p["act"])(p["w"]).sum()

    p = {"act": "tanh", "none": None, "flag": True, "w": X, "f": len}
    g = at.grad(f)(p)
    assert list(g) == list(p) and (g["act"], g["none"], g["flag"], g["f"]) == ("tanh", None, True, len)
    close(g["w"], 1 - np.tanh(X) ** 2)


# ---------------------------------------------------------------- what would drop a derivative


DROPPING = {
    "float": float,
    "int": int,
    "complex": complex,
    "index": operator.index,
    "range": range,
    "asarray": np.asarray,
    "array of two": lambda t: np.array([t, t]),
    "item": lambda t: t.item(),
    "math": lambda t: __import__("math").sin(t),
    "store": lambda t: np.zeros(2).__setitem__(0, t),
    "at.array": at.array,
    "at.asarray": at.asarray,
    "to": lambda t: t.to("numpy"),
    "at.Param": at.Param,
    "tolist": lambda t: t.tolist(),
}


@pytest.mark.parametrize("name", DROPPING)
def test_03_what_drops_the_derivative_of_a_tracked_tensor_raises_and_names_the_way_out(name):
    def f(x):
        with pytest.raises((TypeError, ValueError)) as caught:  # NumPy hides the TypeError of float() behind its own ValueError
            DROPPING[name](x)
        assert "at.stop_gradient" in f"{caught.value}{caught.value.__cause__}"
        DROPPING["asarray"](at.stop_gradient(x))
        return x * x

    assert at.grad(f)(2.0) == 4.0


def test_03_truth_and_comparisons_of_scalars_work():
    def f(x):
        assert x and x > 1 and x < 3 and x != 1 and not x < 0 and bool(x == 2.0)
        return x * x if x > 0 else -x

    assert at.grad(f)(2.0) == 4.0
    with pytest.raises(ValueError, match=r"ambiguous: use \.any\(\) or \.all\(\)"):
        at.grad(lambda x: x.sum() if x > 0 else x)(X)


def test_03_untracked_tensors_give_their_value():
    t = at.array(2.0)
    assert float(t) == 2.0 and int(t) == 2 and complex(t) == 2 and t.item() == 2.0 and operator.index(at.array(3)) == 3
    assert np.asarray(t).shape == () and np.array([t, t]).tolist() == [2.0, 2.0] and f"{t:.2f}" == "2.00"
    a = np.zeros(2)
    a[0] = t
    assert a.tolist() == [2, 0] and np.asarray(at.array(X), np.float32).dtype == np.float32


def test_03_under_no_grad_the_value_may_be_looked_at():
    def f(x):
        with at.no_grad():
            assert float(x) == 2.0
        return x * x

    assert at.grad(f)(2.0) == 4.0


# ---------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    "other",
    [2.0, 2, True, np.float64(2), np.float32(2), np.int64(2), np.arange(1, 5), W, at.array(W), W.astype(np.float16)],
    ids=lambda o: f"{type(o).__name__}-{getattr(o, 'dtype', '')}",
)
@pytest.mark.parametrize(
    "f",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        lambda a, b: b - a,
        lambda a, b: b / a,
        np.maximum,
        lambda a, b: np.where(a > 0, a, b),
        lambda a, b: a.at[1].set(np.sum(b)),
    ],
)
def test_04_a_cotangent_has_its_inputs_dtype(f, other):
    x = np.abs(X).astype(np.float32)
    g = at.grad(lambda x: f(x, other).sum())(x)
    assert g.dtype == np.float32 and g.shape == x.shape
    h = at.grad(lambda x: (at.grad(lambda x: f(x, other).sum())(x) * x).sum())(x)
    assert h.dtype == np.float32


def test_04_both_sides_get_their_own_dtype():
    g32, g64 = at.grad(lambda a, b: (a * b + a).sum(), (0, 1))(X.astype(np.float32), W)
    assert g32.dtype == np.float32 and g64.dtype == np.float64


@pytest.mark.numpy_only("complex numbers")
def test_04_a_real_inputs_gradient_is_real(recwarn):
    g = at.grad(lambda x: np.absolute(x * (1 + 0j)).sum())(X)
    assert g.dtype == np.float64 and not recwarn
    close(g, np.sign(X))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@each_function
def test_04_gradients_and_values_keep_the_precision(name, dtype):
    if name in ("astype", "neither"):
        return  # they change it on purpose
    v, gs = at.value_and_grad(FUNCTIONS[name], (0, 1))(X.astype(dtype), W.astype(dtype))
    assert v.dtype == dtype and [g.dtype for g in gs] == [dtype, dtype]


@pytest.mark.parametrize("number", [2, 2.0, True, 1 << 40])
def test_05_python_numbers_are_weak_beside_inexact_arrays(number):
    t = at.array(X.astype(np.float32))
    for y in (t * number, number + t, t - number, number / t, t**2, t > number, np.maximum(t, number), np.where(t > 0, t, number)):
        assert y.dtype == (bool if y.dtype == bool else np.float32)


@pytest.mark.numpy_only("complex numbers")
def test_04_complex_values_in_between():
    assert (at.array(X.astype(np.float32)) * 1j).dtype == np.complex64
    close(at.grad(lambda x: np.absolute(x * 1j).sum())(X), np.sign(X))

    def radius(x):
        return np.absolute(x[0] + x[1] * 1j)

    x = np.array([3.0, 4.0])
    close(at.grad(radius)(x), x / 5)
    for i in range(2):  # the Hessian of sqrt(a^2 + b^2)
        close(at.grad(lambda x, i=i: at.grad(radius)(x)[i])(x), (np.eye(2)[i] - x[i] * x / 25) / 5, atol=1e-12)


def test_05_numpy_scalars_and_arrays_promote_as_numpy_does():
    t, n = at.array(X.astype(np.float32)), at.array([1, 2])
    for strong in (np.float64(2), np.array(2.0), np.ones(1)):  # np.float64 is a subclass of float
        assert (t * strong).dtype == (strong * t).dtype == np.float64
    assert (t * np.float32(2)).dtype == (t * np.float16(2)).dtype == np.float32
    assert (n * 0.5).dtype == (n * 1.0).dtype == np.float64 and (n * 1).dtype == (n * True).dtype == np.int64
    assert (n * 0.5).numpy().tolist() == [0.5, 1.0] and (n / 2).dtype == np.float64


def test_05_equal_numbers_of_different_kinds_are_not_confused():
    n, t = at.array([3]), at.array([3.0])
    for _ in range(2):
        assert [(n * one).dtype for one in (1, 1.0, True)] == [np.int64, np.float64, np.int64]
        assert [bool(np.signbit((t * zero).numpy()[0])) for zero in (0.0, -0.0, 0)] == [False, True, False]
        assert np.isnan((t * float("nan")).numpy()).all()


def test_05_the_scalar_cache_is_bounded():
    t = at.array([1.0])
    tracemalloc.start()
    try:
        for i in range(30_000):
            t * (i + 0.5)
        assert tracemalloc.get_traced_memory()[0] < 3e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[1],
        lambda x: x.sum(),
        lambda x: x.mean(),
        lambda x: x.max(),
        lambda x: x @ x,
        lambda x: np.tanh(x[0]),
        lambda x: x[0] * x[1],
        lambda x: x[0] > 1,
        lambda x: -x[0],
        lambda x: x.argmax(),
        lambda x: np.linalg.norm(x),
        lambda x: x[0] + 1,
        lambda x: x.all(),
    ],
)
def test_06_zero_dimensional_results_stay_arrays(f):
    seen = []

    def loss(x):
        seen.append(f(x))
        return (seen[-1] * 1.0).sum() * x.sum()

    at.grad(loss)(X)
    at.grad(lambda x: at.grad(loss)(x).sum())(X)
    for t in (f(at.array(X)), *seen):
        assert type(t._array) is ARRAY and t._array.shape == t.shape == ()
    assert type(f(at.array(X)).numpy()) is np.ndarray


# ---------------------------------------------------------------- aliases


@each_function
def test_07_what_the_user_gets_is_writable_and_shares_memory_with_nothing(name):
    f, x, w = FUNCTIONS[name], X.copy(), W.copy()
    gx, gw = at.grad(f, (0, 1))(x, w)
    _, pull = at.vjp(f, x, w)
    arrays = [gx, gw, *pull(1.0), *pull(1.0)]
    for a in arrays:
        assert a.flags.writeable
        assert not np.shares_memory(a, x) and not np.shares_memory(a, w)
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in arrays[:i])
    before = [a.copy() for a in arrays[1:]]
    arrays[0][...] = 7
    assert all((a == b).all() for a, b in zip(arrays[1:], before, strict=True))
    assert (x == X).all() and (w == W).all()


@at.operator
def spread(x):
    return backend.kernels().sum(x, None, False)


@spread.backward
def _(dy, x):
    return ops.broadcast_to(dy, x.shape)  # all elements lie on one


@pytest.mark.parametrize("f", [spread, lambda x: np.concatenate([x.ravel(), np.ones(10_000)]).sum(), lambda x: np.pad(x, 100).sum()])
def test_07_a_gradient_has_memory_for_its_elements_and_no_more(f):
    g = at.grad(f)(X)
    g[0] = 7
    assert (g == [7, 1, 1, 1]).all()
    assert g.base is None or g.base.nbytes == g.nbytes


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x,
        lambda x: x.reshape(2, 2),
        lambda x: x[:2],
        lambda x: (x, x),
        lambda x: [x.T, W_TENSOR],
        lambda x: np.broadcast_to(x, (2, 4)),
        lambda x: x + 0,
        lambda x: W,
    ],
)
def test_07_values_of_vjp_and_aux_are_copies(f):
    x, w = X.copy(), W.copy()
    y, _ = at.vjp(f, x)
    _, aux = at.grad(lambda x: (x.sum(), f(x)), has_aux=True)(x)
    results = [a for a in at.tree.leaves((y, aux)) if a is not W]  # what never was a Tensor passes as it is
    for a in results:
        assert type(a) is np.ndarray and a.flags.writeable and not np.shares_memory(a, x) and not np.shares_memory(a, W_TENSOR._array)
    for i, a in enumerate(results):
        assert not any(np.shares_memory(a, b) for b in results[:i])
    assert (w == W).all()


W_TENSOR = at.array(W)


def test_07_a_users_cotangent_is_neither_kept_nor_written_to():
    for f in (lambda x: x, lambda x: x + x + x + x, lambda x: x.reshape(2, 2).reshape(4), lambda x: x * 1.0):
        ct = W.copy()
        _, pull = at.vjp(f, X)
        (g,) = pull(ct)
        assert not np.shares_memory(g, ct)
        g[...] = 9
        assert (ct == W).all()
    read_only = W.copy()
    read_only.flags.writeable = False
    close(at.vjp(lambda x: x + x + x, X)[1](read_only)[0], 3 * W)


@pytest.mark.numpy_only("memory of the host that is shared")
def test_07_array_copies_and_asarray_does_not():
    x = X.copy()
    assert not np.shares_memory(at.array(x).numpy(), x) and np.shares_memory(at.asarray(x).numpy(), x)
    assert np.shares_memory(at.asarray(at.asarray(x)).numpy(), x) and not np.shares_memory(at.array(at.asarray(x)).numpy(), x)


def test_07_what_array_gives():
    x = X.copy()
    assert at.array(x, np.float32).dtype == np.float32 and at.array([1, 2.5]).numpy().tolist() == [1, 2.5] and at.array(2).shape == ()
    with pytest.raises(ValueError, match="read-only"):
        at.array(x).numpy()[0] = 1
    x.flags.writeable = False
    assert at.asarray(x).numpy()[0] == X[0]


@pytest.mark.parametrize("x", ["text", None, object(), {"a": 1}, np.array(["a"]), np.array([None]), [[1], [1, 2]]])
def test_array_refuses_what_is_no_array(x):
    with pytest.raises((TypeError, ValueError)):
        at.array(x)


def test_07_accumulation_never_writes_into_an_alias():
    """Cotangents that are one array for two inputs, and then grow apart."""

    def f(x, w):
        u, v = x * 2, w * 3
        s = u + v  # both get the same array
        t = u.reshape(2, 2) + u.reshape(2, 2) + v.reshape(2, 2)  # views of one another
        return (s * s).sum() + (t * t).sum() + (u * v).sum() + u.sum() + v.sum()

    check_grads(f, (X, W), order=3)


STEPS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b * 0.5,
    "itself": lambda a, b: a + a,
    "view": lambda a, b: a.reshape(2, 2).T.reshape(4),
    "part": lambda a, b: np.concatenate([a[2:], b[:2]]),
    "backwards": lambda a, b: a[::-1],
    "spread": lambda a, b: np.broadcast_to(a, (3, 4)).sum(0) + b,
    "sum": lambda a, b: a.sum() * 0.3 + b,
    "tanh": lambda a, b: np.tanh(a),
    "repeat": lambda a, b: a[[0, 0, 1, 3]],
    "set": lambda a, b: a.at[1:3].set(b[1:3]),
    "stop": lambda a, b: at.stop_gradient(a) * 0 + b,
    "nested": lambda a, b: at.grad(lambda c: (np.tanh(c * a) * b).sum())(b) * 0.3,
    "vjp": lambda a, b: at.vjp(lambda c: c * a, b)[1](a + 1)[0] * 0.3,
    "no_grad": at.no_grad()(lambda a, b: a * 0 + 1.0),
}


@settings(max_examples=3 * settings().max_examples // 5)
@given(st.lists(st.tuples(st.sampled_from(list(STEPS)), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8))
def test_07_random_programs_accumulate_rightly(program):
    """Values used any number of times, as they are and as views of one another."""

    def f(x, w):
        values = [x, w]
        for name, i, j in program:
            values.append(STEPS[name](values[-1 - i % len(values)], values[j % len(values)]))
        return (values[-1] * values[-1]).sum() + values[-2].sum()

    before = X.copy(), W.copy()
    check_grads(f, (X, W), rtol=1e-5)
    assert (before[0] == X).all() and (before[1] == W).all()


def test_08_tensors_hash_by_identity_and_compare_elementwise():
    a, b = at.array(X), at.array(X)
    assert len({a, b, a}) == 2 and {a: 1}[a] == 1 and hash(a) != hash(b)
    assert (a == b).dtype == bool and (a == b).shape == (4,) and (a == b).all() and not (a != b).any()
    assert (a == X).all() and (a == X).all()
    p = at.Param(X)
    assert len({p, at.Param(X), p}) == 2 and (p == X).all()


# ---------------------------------------------------------------- nesting


def test_perturbation_confusion():
    assert at.grad(lambda x: x * at.grad(lambda y: x + y)(x))(5.0) == 1.0
    assert at.grad(lambda x: x * at.grad(lambda y: x + y)(2.0))(5) == 1.0
    assert at.grad(lambda x: at.grad(lambda y: x * y * y)(x) * x)(3.0) == 54.0
    assert at.grad(lambda x: at.grad(lambda y: x * x * y * y * y)(x))(2.0) == 96.0


def test_variables_as_results():
    assert at.grad(lambda x: x)(2.0) == 1.0 and at.value_and_grad(lambda p: p["a"])({"a": 2.0, "b": 1.0}) == (2.0, {"a": 1.0, "b": 0.0})
    assert at.grad(lambda x: at.grad(lambda y: x * 1.0)(x) + x)(2.0) == 1.0  # the inner one does not depend on y
    assert at.grad(lambda x: at.grad(lambda y: x)(x) * x)(2.0) == 0.0


def test_grad_of_grad():
    f = lambda x: x**4  # noqa: E731
    assert (
        at.grad(at.grad(f))(2.0) == 48.0
        and at.grad(at.grad(at.grad(f)))(2.0) == 48.0
        and at.grad(at.grad(at.grad(at.grad(f))))(2.0) == 24.0
    )
    hvp = at.grad(lambda x: (at.grad(cube)(x) * W).sum())
    close(hvp(X), 6 * X * W)
    v, g = at.value_and_grad(lambda x: at.value_and_grad(cube)(x)[0] * at.value_and_grad(cube)(x)[1].sum())(2.0)
    assert (v, g) == (8 * 12, 12 * 12 + 8 * 12)


@pytest.mark.parametrize("between", ["plain", "vjp", "tape", "value_and_grad"])
def test_every_transform_can_be_differentiated(between):
    def inner(x, w):
        f = lambda x: (np.sin(x) * w).sum()  # noqa: E731
        if between == "vjp":
            return at.vjp(f, x)[1](2.0)[0]
        if between == "value_and_grad":
            v, g = at.value_and_grad(f)(x)
            return v * g
        if between == "tape":
            with at.Tape() as t:
                x = t.watch(x)
                y = f(x)
            return t.gradient(y, x)
        return at.grad(f)(x)

    check_grads(lambda x, w: (inner(x, w) ** 2).sum(), (X, W))


def test_the_cotangent_of_a_vjp_can_be_differentiated():
    check_grads(lambda ct, x: (at.vjp(lambda x: x * x * x, x)[1](ct)[0] * x).sum(), (W, X))


def test_gradients_with_respect_to_a_closure_of_an_inner_function():
    def f(w):
        return (at.grad(lambda x: (np.tanh(x * w) * w).sum())(X) ** 2).sum()

    check_grads(f, (W,))


def test_10_transforms_nest_under_no_grad_and_beside_it():
    def f(x):
        with at.no_grad():
            c = at.grad(lambda y: (y * y * y).sum())(x)  # 3 x^2, a constant
            inner = at.grad(lambda y: (at.grad(lambda z: (z**3).sum())(y) * y).sum())(X)  # 9 x^2
        return (x * c).sum() + (x * inner).sum()

    close(at.grad(f)(X), 3 * X**2 + 9 * X**2)
    with at.no_grad():
        close(at.grad(cube)(X), 3 * X**2)
        assert at.grad(at.grad(lambda x: x**3))(2.0) == 12.0
    assert at.grad(at.no_grad()(cube))(2.0) == 0.0


# ---------------------------------------------------------------- exceptions


class Oops(Exception):
    pass


@at.operator
def breaks_in_backward(x):
    """x, whose rule raises."""
    return at.kernels().copy(x)


@breaks_in_backward.backward
def _(dy):
    raise Oops


def raises(x):
    y = x * x
    raise Oops(y)


BAD = {
    "the function": raises,
    "a rule": lambda x: breaks_in_backward(x * x).sum(),
    "an operator": lambda x: x @ np.ones((7, 7)) if x.shape else x + np.ones(3) @ np.ones(2),
    "no scalar": lambda x: np.stack([x, x]),
    "a nested function": lambda x: at.grad(raises)(x),
    "a nested rule": lambda x: at.grad(lambda y: breaks_in_backward(y * x).sum())(x),
    "under no_grad": at.no_grad()(raises),
    "a tape": lambda x: in_a_tape(x),
}


def in_a_tape(x):
    with at.Tape() as t:
        raises(t.watch(x))


@pytest.mark.parametrize("bad", BAD)
def test_10_an_exception_leaves_clean_state(bad):
    f = BAD[bad]
    for _ in range(2):
        with pytest.raises((Oops, ValueError, TypeError)):
            at.grad(f)(2.0)
        assert tape.current() is None and tape.home() is None and not tape._live
    assert at.grad(lambda x: x * x)(2.0) == 4.0

    def caught(x):
        y = x * x
        record = tape.current()
        with pytest.raises((Oops, ValueError, TypeError)):
            at.grad(f)(x)
        assert tape.current() is tape.home() is record
        return y * x

    assert at.grad(caught)(2.0) == 12.0 and at.grad(at.grad(caught))(2.0) == 12.0


def test_10_a_rule_that_raised_once_does_not_poison_a_pullback():
    _, pull = at.vjp(lambda x: breaks_in_backward(x).sum(), X)
    for _ in range(2):
        with pytest.raises(Oops):
            pull(1.0)
    assert tape.current() is None and not tape._live


def test_10_interrupted_by_keyboard():
    def f(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        at.grad(f)(2.0)
    assert tape.current() is None and not tape._live


# ---------------------------------------------------------------- argnums, keywords, aux


def three(a, b, c, *, k=1.0):
    return a * b * b * c * c * c * k


@pytest.mark.parametrize(
    ("argnums", "expected"),
    [
        (0, 72.0),
        (1, 96.0),
        (2, 216.0),
        (-1, 216.0),
        (-3, 72.0),
        ((0,), (72.0,)),
        ((2, 0), (216.0, 72.0)),
        ((-1, 1), (216.0, 96.0)),
        ((0, 1, 2), (72.0, 96.0, 216.0)),
    ],
)
def test_argnums(argnums, expected):
    assert at.grad(three, argnums)(2.0, 3.0, 2.0) == expected
    assert at.value_and_grad(three, argnums=argnums)(2.0, 3.0, 2.0) == (144.0, expected)


@pytest.mark.parametrize("argnums", [3, -4, (0, 3), (0, 0), (0, -3), ()])
def test_argnums_that_name_no_argument_or_one_twice_are_refused(argnums):
    with pytest.raises(TypeError, match="argnums"):
        at.grad(three, argnums)(2.0, 3.0, 2.0)


@pytest.mark.parametrize("argnums", [1.0, "a", True, None, [0], (0, True), (0.0,)])
def test_argnums_must_be_ints(argnums):
    with pytest.raises(TypeError, match="argnums must be an int or a tuple of ints"):
        at.grad(three, argnums)


def test_argnums_depends_on_the_call():
    g = at.grad(lambda *xs: sum(x * (i + 1) for i, x in enumerate(xs)), -1)
    assert g(1.0) == 1.0 and g(1.0, 1.0, 1.0) == 3.0
    with pytest.raises(TypeError, match="argnums=-1, but the function was called with 0 positional"):
        g()


def test_keyword_arguments_are_passed_on_and_not_differentiated():
    assert at.grad(three)(2.0, 3.0, 2.0, k=2.0) == 144.0
    assert at.grad(lambda x, labels=None: x * len(labels))(2.0, labels=["a", "b"]) == 2.0
    n = np.arange(3)
    assert at.grad(lambda x, *, i: x[i].sum())(np.ones(3), i=n).tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="wrong"):
        at.grad(three)(2.0, 3.0, 2.0, wrong=1)


def test_other_arguments_may_be_anything():
    assert at.grad(lambda x, n, s, f: x * len(n) * f(s))(2.0, np.arange(3), "ab", len) == 6.0


@pytest.mark.parametrize(
    "aux", [None, "text", 3, object(), {1, 2}, np.arange(3), {"k": [1, (2, None)]}, len, Point(1, 2), range(3)], ids=repr
)
def test_has_aux_takes_any_object(aux):
    g, found = at.grad(lambda x: (x * x, aux), has_aux=True)(3.0)
    assert g == 6.0 and type(found) is type(aux) and (found is aux or isinstance(aux, (np.ndarray, dict, tuple)))
    assert at.value_and_grad(lambda x: (x * x, aux), has_aux=True)(3.0)[0][0] == 9.0
    y, pull, found = at.vjp(lambda x: (x * x, aux), 3.0, has_aux=True)
    assert y == 9.0 and pull(1.0) == (6.0,) and type(found) is type(aux)


def test_aux_is_tracked_by_the_level_outside():
    def f(x):
        g, aux = at.grad(lambda y: (y * y * x, y * x), has_aux=True)(x)
        return g + aux  # 2 x^2 + x^2

    assert at.grad(f)(2.0) == 12.0


@pytest.mark.parametrize("result", [3.0, None, (1.0,), (1.0, 2.0, 3.0), [1.0, 2.0]])
def test_has_aux_wants_a_pair(result):
    with pytest.raises(TypeError, match=r"has_aux the function must return \(value, aux\), not"):
        at.grad(lambda x: result, has_aux=True)(3.0)


# ---------------------------------------------------------------- trees


@dataclasses.dataclass
class Net:
    w: object
    act: str = "tanh"
    b: object = None


@pytest.mark.parametrize(
    "make",
    [
        lambda x: {"w": x},
        lambda x: [x, None],
        lambda x: (x, "s"),
        lambda x: Point(x, None),
        lambda x: Net(x),
        lambda x: {"a": [Point((x, None), "s")], "b": Net({})},
        lambda x: collections.OrderedDict(z=x, a=1.0),
        lambda x: collections.defaultdict(list, a=x),
    ],
)
def test_gradients_have_the_tree_of_their_argument(make):
    def first(p):
        return next(x for x in at.tree.leaves(p) if isinstance(x, at.Tensor))

    p = make(X)
    g = at.grad(lambda p: cube(first(p)))(p)
    assert type(g) is type(p)
    leaves = at.tree.leaves(g)
    assert len(leaves) == len(at.tree.leaves(p)) and [type(x) for x in leaves] == [type(x) for x in at.tree.leaves(p)]
    close(next(x for x in leaves if isinstance(x, np.ndarray)), 3 * X**2)
    h = at.grad(lambda p: (first(at.grad(lambda p: cube(first(p)))(p)) * W).sum())(p)
    close(next(x for x in at.tree.leaves(h) if isinstance(x, np.ndarray)), 6 * X * W)


def test_a_tree_may_be_changed_by_the_function():
    def f(p):
        p["new"] = p.pop("w") * 2
        return p["new"].sum()

    p = {"w": X}
    close(at.grad(f)(p)["w"], np.full(4, 2.0))
    assert list(p) == ["w"]


def test_one_array_at_two_places_of_a_tree_has_two_gradients():
    x = X.copy()
    g = at.grad(lambda p: (p[0] * p[1]).sum() + p[0].sum())([x, x])
    close(g[0], X + 1)
    close(g[1], X)


# ---------------------------------------------------------------- losses


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda x: x, r"grad: <lambda> returned shape \(4,\); a scalar is needed"),
        (lambda x: None, "returned None|NoneType None"),
        (lambda x: "text", "str 'text'"),
        (lambda x: (x.sum(), 3), "tuple.*has_aux=True"),
        (lambda x: [x.sum()], "list"),
        (lambda x: {"loss": x.sum()}, "dict"),
        (lambda x: np.ones(3), r"shape \(3,\)"),
        (lambda x: x.sum() * 1j, "complex"),
        (lambda x: 1j, "complex"),
    ],
)
def test_a_loss_must_be_a_real_scalar(loss, message):
    with pytest.raises(TypeError, match=message):
        at.grad(loss)(X)
    assert tape.current() is None and not tape._live


@pytest.mark.parametrize("f", [None, 3, "tanh", X])
def test_what_is_transformed_must_be_a_function(f):
    with pytest.raises(TypeError, match="is not a function"):
        at.grad(f)


def test_wrong_calls():
    with pytest.raises(TypeError, match="argnums"):
        at.grad(lambda x: x)()
    with pytest.raises(TypeError):
        at.grad(lambda x, y: x)(1.0)


# ---------------------------------------------------------------- vjp


def test_13_vjp_gives_the_value_and_a_pullback_that_may_be_called_again():
    y, pull = at.vjp(lambda x, w: x * w, X, W)
    close(y, X * W)
    for ct in (np.ones(4), W, X):
        gx, gw = pull(ct)
        close(gx, ct * W)
        close(gw, ct * X)


def test_13_vjp_of_trees():
    def f(p, s):
        return {"a": p["x"] * s, "b": [p["x"].sum(), None, "text"], "c": p["n"]}

    y, pull = at.vjp(f, {"x": X, "n": 3.0}, 2.0)
    assert y["b"][1:] == [None, "text"] and y["c"] == 3.0
    gp, gs = pull({"a": W, "b": [np.float64(5), None, "ignored"], "c": 7.0})
    close(gp["x"], 2 * W + 5)
    assert gp["n"] == 7.0 and type(gs) is float
    close(gs, (X * W).sum())


def test_13_cotangents_are_cast_and_checked():
    _, pull = at.vjp(lambda x: x * 2, X.astype(np.float32))
    assert (
        pull(W)[0].dtype == np.float32 and pull(np.arange(4))[0].tolist() == [0, 2, 4, 6] and pull([1, 2, 3, 4])[0].tolist() == [2, 4, 6, 8]
    )
    for wrong in (1.0, np.ones(3), np.ones((4, 1)), np.ones((1, 4))):
        with pytest.raises(ValueError, match=r"cotangent of a result of shape \(4,\) has shape"):
            pull(wrong)
    with pytest.raises(ValueError, match="cotangent"):
        pull((W, W))
    for wrong in ([W], (W,), (W, W, W), {"a": W}, W):
        with pytest.raises(ValueError):
            at.vjp(lambda x: (x, x), X)[1](wrong)
    with pytest.raises(TypeError):
        pull("text")


def test_13_results_that_are_constants_or_returned_twice():
    y, pull = at.vjp(lambda x: (x, x, 3.0, at.array(W), x.sum()), X)
    close(pull((X, X, 1.0, W, 2.0))[0], 2 * X + 2)
    assert y[2] == 3.0 and type(y[3]) is np.ndarray
    y, pull = at.vjp(lambda x: W, X)
    assert pull(W)[0].tolist() == [0, 0, 0, 0]


def test_13_a_pullback_under_another_grad():
    _, pull = at.vjp(lambda x: x * x * x, X)
    close(at.grad(lambda ct: (pull(ct)[0] * W).sum())(np.ones(4)), 3 * X * X * W)
    close(at.grad(lambda c: (pull(np.ones(4))[0] * c).sum())(W), 3 * X * X)


def test_13_a_pullback_under_no_grad_keeps_the_tape_around_it():
    def f(x):
        y, pull = at.vjp(lambda y: y * y * x, x)
        with at.no_grad():
            g = pull(np.ones(4))[0]  # 2 x^2, a constant
        return (y * at.stop_gradient(g)).sum()

    close(at.grad(f)(X), 3 * X**2 * 2 * X**2)


def test_13_a_pullback_whose_tape_is_gone_says_so():
    kept = []
    at.grad(lambda x: kept.append(at.vjp(lambda y: y * x, x)[1]) or x.sum())(X)
    with pytest.raises(RuntimeError, match="gone"):
        kept[0](W)


def test_13_vjp_with_no_arguments():
    with pytest.raises(TypeError, match="nothing to differentiate"):
        at.vjp(lambda: 1.0)


# ---------------------------------------------------------------- grad(f) as an object


class Model:
    def __init__(self, k):
        self.k = k

    def loss(self, x):
        return self.k * x * x

    def __call__(self, x):
        return self.loss(x) * x


@pytest.mark.parametrize("f", [cube, Model(3.0).loss, Model(3.0), functools.partial(three, b=1.0, c=1.0), np.tanh, ops.tanh])
def test_grad_pickles(f):
    for transform in (at.grad(f), at.value_and_grad(f, argnums=-1), at.grad(at.grad(f))):
        again = pickle.loads(pickle.dumps(transform))
        assert again(0.5) == transform(0.5)
    assert pickle.loads(pickle.dumps(at.grad(three, (0, 2), has_aux=False)))(2.0, 3.0, 2.0) == (72.0, 216.0)


def test_grad_looks_like_the_function():
    assert at.grad(three).__name__ == "three" and at.grad(three).__wrapped__ is three
    assert list(inspect.signature(at.grad(three)).parameters) == ["a", "b", "c", "k"]
    assert at.grad(functools.partial(three, 1.0, 1.0))(2.0) == 12.0
    assert at.grad(Model(2.0).loss)(3.0) == 12.0


def test_grad_calls_do_not_disturb_one_another():
    g = at.grad(cube)
    assert [g(x) for x in (1.0, 2.0)] == [3.0, 12.0]
    assert at.grad(lambda x: g(x) * x)(2.0) == 36.0


# ---------------------------------------------------------------- stop_gradient


def test_stop_gradient_of_trees_and_other_things():
    tree = {"t": at.array(X), "p": at.Param(W), "n": 3, "s": "text", "a": X}
    stopped = at.stop_gradient(tree)
    assert type(stopped["t"]) is type(stopped["p"]) is at.Tensor and stopped["n"] == 3 and stopped["a"] is X

    def f(x, p):
        return (x * at.stop_gradient(x) + at.stop_gradient(p) * p).sum()

    gx, gp = at.grad(f, (0, 1))(X, at.Param(W))
    close(gx, X)
    close(gp, W)


def test_stop_gradient_at_every_level():
    f = lambda x: at.grad(lambda y: y * y * at.stop_gradient(x))(x)  # noqa: E731  2 x x', of which x' is stopped
    assert at.grad(f)(3.0) == 6.0


# ---------------------------------------------------------------- what the documentation says


def test_examples_in_the_docstrings():
    assert doctest.testmod(transforms, extraglobs={"grad": at.grad}).failed == 0


def test_the_example_of_the_package():
    g = at.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(3))
    close(g, 2 * np.tanh(1) * (1 - np.tanh(1) ** 2) * np.ones(3))


def test_a_training_step_reads_as_in_the_documentation():
    def loss(p, x, y):
        h = np.tanh(x @ p["w1"] + p["b1"])
        return np.mean((h @ p["w2"] - y) ** 2)

    rng = np.random.default_rng(0)
    params = {"w1": rng.normal(size=(3, 5)), "b1": np.zeros(5), "w2": rng.normal(size=(5, 1))}
    x = rng.normal(size=(20, 3))
    y = np.sin(x.sum(1, keepdims=True))
    losses = []
    for _ in range(50):
        v, g = at.value_and_grad(loss)(params, x, y)
        params = at.tree.map(lambda p, g: p - 0.1 * g, params, g)
        losses.append(v)
    assert losses[-1] < 0.2 * losses[0] and type(losses[0]) is np.float64


def test_an_object_that_hides_arrays_is_refused():
    class Layer:
        def __init__(self):
            self.w = np.ones(2)

    for transform in (at.grad, at.vjp, at.jacobian):
        with pytest.raises(TypeError, match=r"Layer .* holds arrays that would not be differentiated: make its class a dataclass"):
            f = lambda p: np.sum(p["l"].w * p["b"])  # noqa: E731
            transform(f)({"l": Layer(), "b": 2.0}) if transform is not at.vjp else at.vjp(f, {"l": Layer(), "b": 2.0})


def test_what_is_no_function_is_named():
    with pytest.raises(TypeError, match=r"grad: float64 2.0 is not a function; of f at x the gradient is grad\(f\)\(x\)"):
        at.grad(np.float64(2.0))
    with pytest.raises(TypeError, match=r"argnums must be an int .* arguments go to grad\(f\)\(x\)"):
        at.grad(np.sin, np.ones(2))


def test_a_result_of_one_element_is_a_scalar():
    x = np.array([[1.0], [2.0]])
    np.testing.assert_array_equal(at.grad(lambda x: x.T @ x)(x), 2 * x)
    value, _ = at.value_and_grad(lambda x: np.sum(x, keepdims=True))(x)
    assert value.shape == (1, 1)
    with at.Tape() as tape:
        p = tape.watch(x)
        loss = p.T @ p
    np.testing.assert_array_equal(tape.gradient(loss, p).numpy(), 2 * x)


def test_a_transform_in_a_class_is_a_method():
    class Spring:
        k = 3.0

        def energy(self, x):
            return self.k * x * x / 2

        force = at.grad(energy, 1)

    assert Spring().force(2.0) == 6.0 and Spring.force(Spring(), 2.0) == 6.0
