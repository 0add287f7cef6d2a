"""autotape.testing: the strict array lets nothing through, check_grads finds every kind of wrong rule, strategies keep their word."""

from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, kernels, math_mode, operator
from autotape.errors import OperatorError
from autotape.opsets import array as ops
from autotape.opsets import v20
from autotape.opsets.array import reductions as reductions_of
from autotape.testing import RTOL, NotDifferentiable, StrictArray, StrictKernels, check_grads, gradients, strict
from autotape.testing.operators import Case, check_operator
from autotape.testing.specifications import NONZERO, REAL, cases
from autotape.testing.strategies import (
    LAYOUTS,
    Pair,
    Record,
    arrays,
    axes,
    broadcast_views,
    broadcastable,
    distinct,
    groups,
    pytrees,
    reductions,
    shapes,
)

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


WITHOUT_ARRAYS = {"account", "synchronize", "is_alone", "adopt", "scalar", "zeros", "ones", "full", "uniform", "compile_elementwise"}


@pytest.mark.parametrize("name", sorted(strict.CONTRACT.keys() - WITHOUT_ARRAYS))
def test_strict_kernels_refuse_other_arrays(name):
    values = {"Sequence[Array]": [X], "Array": X, "Array | None": X, "Out": X}
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


COPIED = pytest.mark.numpy_only("a rule that changes its inputs changes copies of NumPy's arrays")
RIGHT = declared(lambda dy, x, y: dy * (1 - y * y))
x3 = np.array([0.3, -0.8, 1.1])


@pytest.fixture(params=["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
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
    with pytest.raises(AssertionError, match=r"argument 0\[1\], order 1: .*worst element \(2,\)"):
        check_grads(lambda p: p[0] + declared(lambda dy, x, y: ops.multiply(dy * (1 - y * y), scale))(p[1]), ([x3, x3],))


def test_second_derivative_alone_wrong_is_found(each_backend):
    wrong = declared(lambda dy, x, y: dy * (1 - at.stop_gradient(y * y)))
    check_grads(wrong, (x3,), order=1)
    with pytest.raises(AssertionError, match="argument 0, order 2"):
        check_grads(wrong, (x3,))


def test_third_derivative_alone_wrong_is_found():
    second = declared(lambda dy, x, y: dy * at.stop_gradient(-2 * ops.tanh(x) * y), lambda x: 1 - kernels().tanh(x) ** 2)
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


def test_sums_in_another_order_are_told_from_rules_that_are_not_deterministic():
    noise = itertools.count()
    check_grads(declared(lambda dy, x, y: dy * (1 - y * y) * (1 + 1e-15 * (math_mode.get() != "pedantic") * next(noise))), (x3,), order=1)


@COPIED
def test_mutation_is_found():
    def mutating(dy, x, y):
        x += 1e-9
        return dy * (1 - y * y)

    with pytest.raises(AssertionError, match="changed by the gradient"):
        check_grads(declared(mutating), (x3,), order=1)


def test_random_operators_draw_the_same_again(each_backend):
    check_grads(lambda x: v20.dropout(RIGHT(x), 0.5), (np.linspace(-1, 1, 20),), modes=("reverse", "forward"))
    with at.training(False):
        check_grads(lambda x: v20.dropout(x, 0.5) - x, (x3,))


def test_nan_is_found():
    with pytest.raises(AssertionError, match="nan"), np.errstate(invalid="ignore"):
        check_grads(ops.sqrt, (np.array([-1.0, 1.0]),), order=1)


def test_nothing_to_differentiate():
    with pytest.raises(TypeError, match="no floating array"):
        check_grads(RIGHT, (np.arange(3),))
    with pytest.raises(TypeError, match="no array of floats"):
        check_grads(np.argmax, (x3,))
    with pytest.raises(TypeError, match="args is a tuple"):
        check_grads(RIGHT, x3)
    with pytest.raises(ValueError, match="order must be"):
        check_grads(RIGHT, (x3,), order=0)
    for modes in ((), ("backward",), "reverse"):
        with pytest.raises(ValueError, match="modes are"):
            check_grads(RIGHT, (x3,), modes=modes)


# one line a wrong rule: what check_grads is for


@operator(outputs="y", residuals="t")
def with_residual(x):
    """tanh(x) ** 2, which keeps tanh(x)."""
    t = kernels().tanh(x)
    return kernels().square(t), t


@with_residual.backward
def _(dy, t, dt):
    return 0 * t if dy is None else 2 * dy * t * (1 - t * t)  # leaves dt out


@operator
def sharing(a, b):
    """a + b, whose gradients are one buffer that is used again."""
    return kernels().add(a, b)


BUFFER = np.zeros(3)


@sharing.backward("a")
def _(dy):
    BUFFER[...] = dy
    return BUFFER


@sharing.backward("b")
def _(dy):
    return dy


def changes_cotangent(dy, x, y):
    dy *= 2
    return dy * (1 - y * y) / 2


def changes_input(dy, x, y):
    x += 1e-9
    return dy * (1 - y * y)


ONE_WRONG = np.array([1, 1.001, 1])
COUNTER = itertools.count()
COMPLEX_STEP = pytest.mark.numpy_only("the complex step")
WRONG = {
    "twice": (declared(lambda dy, x, y: 2.001 * dy * (1 - y * y)), "the gradient along .* worst element"),
    "sign": (declared(lambda dy, x, y: -dy * (1 - y * y)), "the gradient along"),
    "one element": (declared(lambda dy, x, y: ops.multiply(dy * (1 - y * y), ONE_WRONG)), r"worst element \(1,\)"),
    "eighth digit": (declared(lambda dy, x, y: dy * (1 - y * y) * (1 + 2e-8)), "the complex step gives"),
    "dtype": (declared(lambda dy, x, y: ops.astype(dy * (1 - y * y), np.float32)), "the gradient along a random"),  # the engine casts
    "shape": (declared(lambda dy, x, y: ops.sum(dy * (1 - y * y), keepdims=True)), r"shape \(1,\) for an input of shape \(3,\)"),
    "cotangent changed": (declared(changes_cotangent), "changed by the gradient"),
    "input changed": (declared(changes_input), "changed by the gradient"),
    "random": (declared(lambda dy, x, y: dy * (1 - y * y) * (1 + 1e-9 * next(COUNTER))), "differs from run to run"),
    "not linear": (declared(lambda dy, x, y: abs(dy) * (1 - y * y)), "not linear in the cotangent"),
    "second order": (declared(lambda dy, x, y: dy * (1 - at.stop_gradient(y * y))), "order 2: the gradient along"),
    "residual": (lambda x: with_residual(x)[0], "order 2: the gradient along"),
}


MARKS = {"eighth digit": COMPLEX_STEP, "cotangent changed": COPIED, "input changed": COPIED}


@pytest.mark.parametrize(("wrong", "message"), [pytest.param(*WRONG[name], marks=MARKS.get(name, ()), id=name) for name in WRONG])
def test_every_kind_of_wrong_rule_is_found(wrong, message):
    with pytest.raises((AssertionError, OperatorError), match=message):
        check_grads(wrong, (x3,))


def test_shared_gradients_are_found(monkeypatch):
    def leaking(level, x, variable, g, exclusive):  # what the engine prevents: a gradient handed out as it came
        return g

    monkeypatch.setattr(at.level.Level, "_hand_out", leaking)
    with pytest.raises(AssertionError, match="shares memory"):
        check_grads(sharing, (x3, x3 + 1))


EIGHTH = pytest.param("eighth digit", marks=COMPLEX_STEP)


@pytest.mark.parametrize("name", ["twice", "sign", "one element", EIGHTH, "second order", "residual"])
def test_forward_mode_finds_wrong_rules_too(name):
    with pytest.raises(AssertionError, match=r"argument 0, order \d: the jvp along a random direction"):
        check_grads(WRONG[name][0], (x3,), modes=("forward",))


def test_forward_mode_passes(each_backend):
    def f(p, x):
        return {"a": RIGHT(p["w"] * x), "b": ops.sum(x, 0)}

    check_grads(f, ({"w": x3, "n": 2}, x3.astype(np.float32)), modes=("forward",))
    check_grads(f, ({"w": x3, "n": 2}, x3), order=3, modes=("reverse", "forward"))


def test_jvp_names_the_result_and_its_worst_element():
    with pytest.raises(AssertionError, match=r"worst element \(1,\) of result 1: "):
        check_grads(lambda x: (x, WRONG["one element"][0](x)), (x3,), modes=("forward",))


@dataclasses.dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray


class Node:
    def __init__(self, x):
        self.x = x


def test_leaves_are_named_as_a_program_reaches_them():
    at.tree.register(Node, lambda n: [n.x, 0.5], lambda n, xs: Node(xs[0]))
    tree = {"w": [x3, (x3, None, Pair(x3, 1))], 2: Layer(x3, x3), "n": Node(x3), "e": []}
    expected = "1['w'][0] 1['w'][1][0] 1['w'][1][2].first 1['w'][1][2].second 1[2].w 1[2].b 1['n']-leaf-0 1['n']-leaf-1"
    assert [name.replace(" ", "-") for name in gradients.leaf_names(tree, "1")] == expected.split()
    with pytest.raises(AssertionError, match=re.escape("argument 1['b'].w, order 1: ")):
        check_grads(lambda x, p: x + WRONG["twice"][0](p["b"].w), (x3, {"a": x3, "b": Layer(x3, x3)}))


def test_tolerances_by_dtype():
    slightly = declared(lambda dy, x, y: dy * (1 - y * y) * 1.005)
    narrow = x3.astype(np.float32)
    for rtol in (1e-2, {np.float32: 1e-2}, {"float32": 1e-2, np.float64: 1e-9}):
        check_grads(slightly, (narrow,), rtol=rtol)
    for rtol in (None, {np.float64: 1e-2}, 1e-3):
        with pytest.raises(AssertionError, match="the gradient along"):
            check_grads(slightly, (narrow,), rtol=rtol)
    check_grads(slightly, (x3,), atol={np.float64: 100})
    assert RTOL[np.dtype(np.float64)] == 1e-6 < RTOL[np.dtype(np.float32)] < 2e-3


# ---------------------------------------------------------------- kinks

AT_ZERO = np.array([0.3, 0.0, -0.7])
TIED = np.array([1.0, 0.5, 1.0])
KINKS = {
    "abs": (ops.absolute, AT_ZERO, r"its slope along a random direction is .* near element \(1,\)"),
    "relu": (v20.relu, AT_ZERO, r"near element \(1,\)"),
    "clip": (lambda x: ops.clip(x, 0, 1), AT_ZERO, r"near element \(1,\)"),
    "max": (ops.max, TIED, r"near elements \(0,\), \(2,\)"),
    "max later used": (lambda x: ops.max(x) * x, TIED, "slope"),
    "maximum": (lambda x: ops.maximum(x, TIED), TIED, "slope"),
    "norm": (ops.norm, np.zeros(3), r"near elements \(0,\), \(1,\), \(2,\)"),
    "many": (ops.absolute, np.zeros(20), "and more"),
    "floor": (ops.floor, AT_ZERO, r"f jumps by .* near element \(1,\)"),
    "close by": (ops.absolute, np.array([1.0, 2e-6]), r"near element \(1,\)"),
    "second derivative": (lambda x: v20.relu(x) ** 2, AT_ZERO, "slope"),
}


@pytest.mark.parametrize(("f", "x", "message"), KINKS.values(), ids=KINKS)
@pytest.mark.parametrize("modes", [("reverse",), ("forward",), ("reverse", "forward")], ids="+".join)
def test_kinks_are_said_not_failed(f, x, message, modes):
    with pytest.warns(NotDifferentiable, match=f"check_grads: argument 0, order [12]: .*{message}") as said:
        check_grads(f, (x,), order=3, modes=modes)
    assert len(said) == 1 and said[0].filename == __file__


def test_kinks_elsewhere_do_not_matter():
    check_grads(ops.absolute, (np.array([2e-5, 1.0]),))
    check_grads(v20.relu, (np.array([-2e-5, 1.0]),))


def test_wrong_rules_are_found_at_kinks():
    wrong = declared(lambda dy, x, y: 3 * dy * ops.sign(x), lambda x: kernels().absolute(x))
    with pytest.raises(AssertionError, match=r"argument 0, order 1: the gradient .* central differences give"):
        check_grads(wrong, (AT_ZERO,))
    wrong = declared(lambda dy, x, y: 2 * dy * (x >= 0), lambda x: kernels().absolute(x))
    with pytest.raises(AssertionError, match="it should lie between"):
        check_grads(wrong, (np.array(0.0),))


@COPIED
def test_mutation_is_found_at_kinks():
    with pytest.raises(AssertionError, match="changed by the gradient"):
        check_grads(lambda x: ops.absolute(WRONG["input changed"][0](x)), (AT_ZERO,))


@pytest.mark.parametrize(
    "f", [lambda x: ops.exp(300 * x), lambda x: x * ops.absolute(x), lambda x: v20.relu(x) ** 1.5, lambda x: ops.sin(3e3 * x)]
)
def test_strong_curvature_is_no_error(f):
    check_grads(f, (np.array([0.01, 0.0, 0.02]),), order=1)
    with pytest.raises(AssertionError, match="the gradient along"):
        check_grads(lambda x: f(WRONG["eighth digit"][0](WRONG["one element"][0](x))), (np.array([0.01, 0.02, 0.03]),), order=1)


@pytest.mark.parametrize("x", [np.array([0.0, 1.0]), np.array([-1.0, 1.0])])
def test_infinite_derivatives_fail(x):
    with pytest.raises(AssertionError, match=r"the gradient along a random direction is (inf|nan)"), np.errstate(all="ignore"):
        check_grads(ops.sqrt, (x,))


def test_complex_step_only_where_it_holds():
    check_grads(lambda x: ops.absolute(x) * x + x.astype(np.float64), (x3,))  # runs on complex arrays, yet is not analytic
    check_grads(lambda x: ops.maximum(x, 0.1) + ops.norm(x), (x3,))  # refuses them


# ---------------------------------------------------------------- check_operator


@operator(elementwise=True)
def softsign(x):
    """x / (1 + abs(x))."""
    k = kernels()
    return k.divide(x, k.add(k.scalar(1, x.dtype), k.absolute(x)))


@softsign.backward
def _(dy, x):
    return dy / (1 + ops.absolute(x)) ** 2


@operator
def spread(x, axis=None, keepdims=False):
    """The sum of squares."""
    k = kernels()
    return k.sum(k.square(x), axis, keepdims)


@spread.backward
def _(dy, x, axis, keepdims):
    return 2 * x * reductions_of.kept(dy, x.shape, axis, keepdims)


def test_operators_of_ones_own_are_checked(each_backend):
    check_operator(Case(softsign, (NONZERO,)))
    check_operator(Case(spread, (REAL,), keywords=reductions), examples=20)
    check_operator(Case(ops.absolute, (NONZERO,), kinks=(0,)))
    check_operator(Case(lambda x, w: ops.tanh(x @ w), (REAL, REAL), ((2, 3), (3, 0))))
    assert str(Case(softsign, (REAL,))) == "softsign-elementwise" and str(Case(spread, (REAL,), keywords=reductions)) == "spread-reductions"


LAYOUT = "the layout changed the result"
COPIED_DENSE = pytest.mark.numpy_only("copies of NumPy's arrays are dense")


def same_rule(forward):
    return declared(lambda dy, x, y: dy * (1 - y * y), forward)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case(WRONG["twice"][0], (REAL,)), "the gradient along"),
        (Case(same_rule(lambda x: kernels().astype(kernels().tanh(x), np.float64)), (REAL,), ((2,),)), "inputs of float32 gave float64"),
        pytest.param(Case(same_rule(lambda x: np.tanh(x) + (x.strides[0] < 0)), (REAL,), ((3,),)), LAYOUT, marks=COPIED_DENSE),
        pytest.param(Case(same_rule(lambda x: np.tanh(x) + 1e-3 * (0 in x.strides)), (REAL,), ((3,),)), LAYOUT, marks=COPIED_DENSE),
        pytest.param(
            *(Case(same_rule(lambda x: np.tanh(x, out=x) if x.flags.writeable else np.tanh(x)), (REAL,), ((3,),)), "an input was changed"),
            marks=COPIED,
        ),
        (Case(same_rule(lambda x: kernels().getitem(kernels().tanh(x), (..., slice(1))) + x), (REAL,)), "."),  # fails for 0-d arrays
        (Case(ops.cbrt, (NONZERO,), kinks=(0,)), "is (inf|-inf|nan)"),
    ],
    ids=["rule", "dtype", "negative strides", "zero strides", "mutation", "0-d", "kink"],
)
def test_wrong_operators_are_found(case, message):
    with pytest.raises((AssertionError, IndexError), match=message), np.errstate(all="ignore"):
        check_operator(case, examples=20)


# ---------------------------------------------------------------- strategies and specifications


@given(groups(3, st.sampled_from([np.float32, np.float64]), (1, 2)))
def test_groups_broadcast_and_are_distinct(group):
    np.broadcast_shapes(*(x.shape for x in group))
    values = np.concatenate([x.ravel() for x in group])
    assert np.unique(values).size == values.size and ((values > 1) & (values < 2)).all()


def test_groups_come_in_every_layout():
    kinds = [lambda x: x.ndim > 1 and x.strides[0] < 0, lambda x: not x.flags.writeable, lambda x: x.flags.fnc, lambda x: x.ndim == 0]
    for wanted in kinds:
        find(groups(2), lambda group, wanted=wanted: any(map(wanted, group)))


@given(broadcast_views(shapes(0, 3)), st.data())
def test_broadcast_views(x, data):
    assert not x.flags.writeable and type(x) is np.ndarray
    assert data.draw(broadcast_views((2, 3), np.float32)).dtype == np.float32


def test_broadcast_views_have_strides_of_0():
    find(broadcast_views((2, 3)), lambda y: y.strides[1] == 0 != y.strides[0])


@given(st.data())
def test_axes_and_reductions(data):
    shape = data.draw(shapes(0, 3))
    options = data.draw(reductions(shape))
    assert np.sum(np.zeros(shape), **options).ndim == (len(shape) if options["keepdims"] else np.sum(np.zeros(shape), options["axis"]).ndim)
    if shape:
        assert type(data.draw(axes(len(shape), none=False, several=False))) is int


@pytest.mark.parametrize("wanted", [None, -1, 0, (), (1, -2), (-2, -1)])
def test_axes_are_of_every_kind(wanted):
    assert find(axes(2), lambda axis: axis == wanted and type(axis) is type(wanted)) == wanted


@given(pytrees(arrays(shapes(0, 2))))
def test_pytrees_are_trees(tree):
    leaves, build = at.tree.flatten(tree)
    assert all(type(leaf) is np.ndarray for leaf in leaves)
    assert at.tree.leaves(build(leaves)) == leaves or leaves


@pytest.mark.parametrize("kind", [dict, list, tuple, Pair, Record, np.ndarray, type(None)])
def test_pytrees_are_of_every_kind(kind):
    find(pytrees(arrays((2,))), lambda tree: type(tree) is kind)


@given(pytrees(arrays(shapes(0, 2))))
def test_gradients_of_pytrees(tree):
    if not at.tree.leaves(tree):
        return
    g = at.grad(lambda t: sum((leaf * leaf).sum() for leaf in at.tree.leaves(t)))(tree)
    at.tree.map(lambda x, dx: np.testing.assert_array_equal(dx, 2 * x), tree, g)


@settings(max_examples=settings().max_examples // 2)
@given(arrays(shapes(0, 3), np.float32, ((-2, -0.1), (0.1, 2))))
def test_arrays_are_distinct_and_inside(x):
    assert x.dtype == np.float32 and np.unique(x).size == x.size
    assert ((abs(x) > 0.1) & (abs(x) < 2)).all()


@settings(max_examples=settings().max_examples // 2)
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


def test_a_complex_step_that_means_nothing_is_not_heeded():
    one = np.array([1.0])
    check_grads(lambda x: np.abs(x) * 1e-8, (one,))
    check_grads(lambda x: np.abs(x) * 1e-3, (one,), rtol=2e-2)
