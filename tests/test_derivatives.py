"""jacobian, hessian, jvp, hvp: exact, batched, of trees, of any order.

The batched walk of every operator is held to the pullback of one unit cotangent after another.
"""

from __future__ import annotations

import numpy as np
import pytest
from lacking import unless_lacking

import autotape as at
from autotape import backend, operator, tree
from autotape.opsets import array as ops
from autotape.testing.specifications import cases

close = np.testing.assert_allclose
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]


def rows_of(f, xs):
    """The Jacobians of every result of f in every input, one pullback a row."""
    ys, pull = at.vjp(lambda *xs: tree.leaves(f(*xs)), *xs)
    for j, y in enumerate(ys):
        each = []
        for i in np.ndindex(y.shape):
            cts = [np.zeros(z.shape, z.dtype) for z in ys]
            cts[j][i] = 1
            each.append(pull(cts))
        for n, x in enumerate(xs):
            yield j, n, np.reshape([row[n] for row in each], (*y.shape, *x.shape))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_batched_walk_is_one_pullback_a_row(case, name):
    xs, function = case.draw(0), case.function()

    def f(*xs):  # of complex results the real part, since there is no Jacobian of others
        return tree.map(lambda y: np.real(y) if y.dtype.kind == "c" else y, function(*xs))

    with backend.use(name), unless_lacking():
        ys = tree.leaves(f(*map(at.array, xs)))
        floats = [j for j, y in enumerate(ys) if y.dtype.kind == "f"]
        found = at.jacobian(lambda *xs: tree.leaves(f(*xs)), tuple(range(len(xs))))(*xs)
        for j in set(range(len(ys))) - set(floats):
            assert not any(np.asarray(d).any() for d in found[j])
        for i, n, expected in rows_of(lambda *xs: [tree.leaves(f(*xs))[j] for j in floats], xs) if floats else ():
            close(np.asarray(found[floats[i]][n]), expected, 1e-12, 1e-12, strict=True)


# ---------------------------------------------------------------- by hand


A = np.random.default_rng(0).normal(size=(5, 4))
X = np.array([0.3, -0.7, 1.1, 0.4])
V = np.array([1.0, -2.0, 0.5, 0.25])


def tilted(x):
    return np.tanh(A @ x) * np.sum(x * x)


def differences(f, x, eps=1e-6):
    """The Jacobian of f of a vector by central differences."""
    steps = eps * np.eye(x.size)
    return np.stack([(f(x + e) - f(x - e)) / (2 * eps) for e in steps], -1)


def cubed(x):
    return np.sum(x**3) + np.prod(x)


def test_jacobian_of_a_linear_map_is_its_matrix():
    np.testing.assert_array_equal(at.jacobian(lambda x: A @ x)(X), A)


def test_jacobian_hessian_and_the_third_derivative():
    close(at.jacobian(tilted)(X), differences(tilted, X), 1e-7, 1e-8)
    close(at.hessian(cubed)(X), differences(at.grad(cubed), X), 1e-7, 1e-8)
    close(at.jacobian(at.hessian(cubed))(X), differences(at.hessian(cubed), X), 1e-6, 1e-7)


def test_a_jacobian_is_differentiated_too():
    def f(x):
        return np.sum(at.jacobian(tilted)(x) ** 2)

    close(at.grad(f)(X), differences(lambda x: f(x)[None], X)[0], 1e-6, 1e-7)


def test_jvp_and_hvp_are_products_with_jacobian_and_hessian():
    y, dy = at.jvp(tilted, X, V)
    close(y, tilted(at.array(X)), 1e-15)
    close(dy, at.jacobian(tilted)(X) @ V, 1e-13)
    close(at.hvp(cubed)(X, V), at.hessian(cubed)(X) @ V, 1e-13)
    close(at.grad(lambda x: np.sum(at.jvp(tilted, x, V)[1]))(X), np.einsum("ijk,j->k", at.jacobian(at.jacobian(tilted))(X), V), 1e-12)


@pytest.mark.parametrize("call", (lambda f: at.hessian(f)(X), lambda f: at.hvp(f)(X, V)), ids=("hessian", "hvp"))
def test_what_a_gradient_within_refuses_is_said_of_what_was_called(call, request):
    with pytest.raises(TypeError, match=rf"^{request.node.callspec.id}: tilted returned shape"):
        call(tilted)


def test_13_the_tree_of_outputs_of_trees_of_inputs():
    def f(p, s):
        return {"a": p["w"] * s, "b": [np.sum(p["w"] ** 2), 3]}

    p = {"w": np.array([1.0, 2.0]), "n": None}
    j = at.jacobian(f)(p, 3.0)
    close(j["a"]["w"], 3 * np.eye(2))
    close(j["b"][0]["w"], [2, 4])
    assert j["b"][1]["w"].tolist() == [0, 0] and j["a"]["n"] is None
    both = at.jacobian(f, argnums=(1, 0))(p, 3.0)
    close(both["a"][0], [1, 2])
    close(both["a"][1]["w"], 3 * np.eye(2))
    h = at.hessian(lambda p: p["x"] * p["y"] ** 2)({"x": 2.0, "y": 3.0})
    assert h == {"x": {"x": 0.0, "y": 6.0}, "y": {"x": 6.0, "y": 4.0}}


def test_you_get_back_what_you_passed():
    j = at.jacobian(lambda x: x * x)
    assert type(j(3.0)) is float and j(3.0) == 6
    assert type(j(np.float32(3))) is np.float32
    assert type(j(np.ones(2))) is np.ndarray and j(np.ones(2)).flags.writeable
    assert j(np.ones(2, np.float32)).dtype == np.float32
    assert type(j(at.array([1.0, 2.0]))) is at.Tensor
    assert type(j(at.Param(np.ones(2)))) is at.kernels().array
    y, dy = at.jvp(lambda x: (x * x, 7), 3.0, 2.0)
    assert (y, dy) == ((9.0, 7), (12.0, 7)) or (y, dy) == ((9.0, 7), (12.0, 0))
    assert type(at.hvp(lambda x: x**3)(2.0, 1.0)) is float
    with backend.use("strict"):
        assert type(j(at.array([1.0, 2.0])).numpy()) is np.ndarray


@pytest.mark.parametrize("shape", [(1,), (3,)])
def test_07_a_constant_jacobian_inside_another_derivative_is_the_callers(shape):
    c, found = np.ones(shape), []

    @at.operator
    def linear(x, c):
        return ops.reshape(ops.sum(x * c), 1)

    @linear.backward("x")
    def _(dy, c): return c

    def f(w):
        for g in (lambda x: linear(x, c), lambda x: x.sum(keepdims=True)):
            found.append(at.jacobian(lambda x, g=g: g(x) + w.sum())(np.ones(shape)))
        return w.sum()

    at.grad(f)(np.ones(2))
    for j in found:
        assert type(j) is np.ndarray and j.flags.writeable and not np.shares_memory(j, c)
        j[0, 0] = 7
        assert (j[0, 1:] == 1).all()


def test_empty_and_constant_results():
    assert at.jacobian(lambda x: x[:0])(X).shape == (0, 4)
    assert at.jacobian(lambda x: x * 2)(np.ones((0, 3))).shape == (0, 3, 0, 3)
    np.testing.assert_array_equal(at.jacobian(lambda x: np.ones(2))(X), np.zeros((2, 4)))
    np.testing.assert_array_equal(at.jacobian(np.floor)(X), np.zeros((4, 4)))


def test_rows_come_in_parts_where_memory_asks_for_it(monkeypatch):
    whole = at.jacobian(tilted)(X)
    monkeypatch.setattr(at.derivatives, "_ROOM", 100)
    np.testing.assert_array_equal(at.jacobian(tilted)(X), whole)


def test_elementwise_grad():
    close(at.elementwise_grad(np.tanh)(X), 1 - np.tanh(X) ** 2, 1e-15)
    close(at.elementwise_grad(at.elementwise_grad(np.sin))(X), -np.sin(X), 1e-15)
    close(at.elementwise_grad(lambda x, y: x * y, 1)(X, V), X)
    assert at.elementwise_grad(lambda x: x * x)(3.0) == 6.0


def test_bad_input_is_named():
    with pytest.raises(TypeError, match=r"jacobian: .*int"):
        at.jacobian(lambda x: x)(np.arange(3))
    with pytest.raises(TypeError, match="hessian: argnums"):
        at.hessian(lambda x: x, argnums=1.5)
    with pytest.raises(TypeError, match=r"hessian: .*shape \(4,\); a scalar"):
        at.hessian(lambda x: x * x)(X)
    with pytest.raises(ValueError, match="jvp: v"):
        at.jvp(tilted, X, np.ones(3))
    with pytest.raises(ValueError, match="hvp: v"):
        at.hvp(cubed)(X, np.ones(3))
    with pytest.raises(TypeError, match=r"elementwise_grad: .*list"):
        at.elementwise_grad(lambda x: [x])(X)


@pytest.mark.numpy_only("a rule that leans on NumPy")
def test_rules_that_lean_on_numpy_go_row_by_row():
    @operator
    def doubled(x):
        return 2 * x

    @doubled.backward
    def _(dy):
        return 2 * np.where(dy > 0, dy, dy) + np.sum(dy) * 0 + np.sin(dy) * 0

    close(at.jacobian(doubled)(X), 2 * np.eye(4))


def test_a_boolean_index_is_an_axis_of_its_own():
    for index in ((0, None, True), (True,), (True, 0), (slice(None), 1, False), (Ellipsis, True, 0)):
        x = np.arange(4.0).reshape(2, 2)
        ((_, _, expected),) = rows_of(lambda x, index=index: x[index], [x])
        close(at.jacobian(lambda x, index=index: x[index])(x), expected)


def test_tangents_of_what_is_no_float_are_0():
    assert at.jvp(lambda x: (x, 7), 1.0, 1.0) == ((1.0, 7), (1.0, 0))
    y, dy = at.jvp(np.argmax, X, V)
    assert (y, dy) == (2, 0)
    y, dy = at.jvp(lambda x: {"mask": x > 0, "name": "n"}, X, V)
    assert not dy["mask"].any() and dy["name"] == "n"
    with np.errstate(all="raise"):
        assert at.jvp(lambda x: x + np.inf, 1.0, 1.0) == (np.inf, 1.0)


complex_too = pytest.mark.numpy_only("complex numbers")


@pytest.mark.parametrize(
    ("f", "message"),
    [
        pytest.param(lambda: at.jacobian(lambda x: x * 1j)(X), "jacobian: .*complex", marks=complex_too),
        pytest.param(
            lambda: at.elementwise_grad(lambda x: x * (1 + 2j))(X), "elementwise_grad: .* returned complex numbers", marks=complex_too
        ),
        (lambda: at.jvp(np.sin, X, 1j * X), "jvp: v is complex where x is real"),
        pytest.param(
            lambda: at.vjp(np.sin, X)[1](1j * X), "pullback: the cotangent of a real result .* is complex128", marks=complex_too
        ),
        pytest.param(lambda: at.flatten([X])[1](1j * X), "unflatten: the vector is complex, but a leaf is float64", marks=complex_too),
    ],
)
def test_complex_parts_are_not_dropped(f, message):
    with pytest.raises(TypeError, match=message):
        f()
