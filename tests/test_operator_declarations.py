"""Declaring operators: what is checked, what is generated, what is saved, and what an operator of one's own can do.

A number in a test's name is the rule of the fine print that it holds the engine to: rules name what they need (18),
reference compositions (19), elementwise operators (20), lazily generated front ends (21).
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import pickle
import subprocess
import sys
import traceback

import numpy as np
import pytest

import autotape as at
from autotape import kernels, operator, tape
from autotape.backends.numpy_backend import NumpyKernels
from autotape.errors import BackendError, OperatorError
from autotape.operator import OPERATORS
from autotape.opsets import array as ops
from autotape.opsets import v20
from autotape.testing import StrictArray, check_grads

close = np.testing.assert_allclose
rng = np.random.default_rng(0)
ARRAY, NAME = kernels().array, kernels().array.__name__
X, W = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))


def scaled():
    """A fresh operator of one input and one option, with a rule."""

    @operator
    def scaled(x, k=2.0):
        """k * x."""
        return kernels().multiply(x, kernels().scalar(k, x.dtype))

    @scaled.backward
    def _(dy, k):
        return dy * k

    return scaled


def named(f):
    """A lambda that may be declared: operators are known by their names."""
    f.__name__ = "f"
    return f


def entries(f, *tracked):
    """What f puts on a tape, its inputs being variables where they are Tensors: the entries, and f's result."""
    record = tape.Record()
    with tape.recording(record):
        variables = [at.tensor.leaf(record, kernels().adopt(x)) for x in tracked]
        y = f(*variables)
        for t in at.tree.leaves(y):
            t._id  # noqa: B018
        return [(tape._operators[e[0]].name if tape._operators[e[0]] else e[0], *e[1:]) for e in record[len(tracked) :]]


# ---------------------------------------------------------------- declarations that are refused


def test_18_a_misspelt_name_in_a_rule_fails_at_declaration_and_says_what_there_is():
    @operator(outputs="u v", residuals="r", constants="m")
    def f(x, w, *, pad=0):
        return x, w, x, x

    for rule in (
        lambda du, padd: 0,
        lambda dy: 0,
        lambda du, dm: 0,
        lambda du, pad_shape: 0,
        lambda du, u_like: 0,
        lambda du, Pad: 0,
        lambda needs_x: 0,
    ):
        there_are = r"inputs \['x', 'w'\], options \['pad'\], results \['u', 'v', 'r', 'm'\], cotangents \['du', 'dv', 'dr'\]"
        with pytest.raises(OperatorError, match=r"f: the rule's parameter '\w+' is none of: " + there_are):
            f.backward(rule)
    f.backward("x")(lambda du, dv, dr, x, w, pad, u, v, r, m, x_shape, w_like: None)


def test_18_a_rule_that_uses_a_residual_needs_its_cotangent():
    @operator(residuals="m")
    def f(x):
        return x * 2, x

    with pytest.raises(OperatorError, match="uses the residual m but not dm: its second derivative would be wrong"):
        f.backward(lambda dy, m: dy * m)
    f.backward(lambda dy, m, dm: dy * m)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: operator(outputs="x")(named(lambda x: x)), "name both"),
        (lambda: operator(outputs="a b", residuals="x")(named(lambda x: x)), "name both"),
        (lambda: operator(named(lambda x, dy=1: x)), "name both"),
        (lambda: operator(named(lambda x, needs=1: x)), "name both"),
        (lambda: operator(outputs="y", constants="axis")(named(lambda x, axis=0: x)), "name both"),
        (lambda: operator(named(lambda _x: _x)), "underscore"),
        (lambda: operator(named(lambda x, *xs: x)), "only input"),
        (lambda: operator(optional=("b",))(named(lambda x: x)), r"optional \['b'\] are no parameters"),
        (lambda: operator(outputs="y y")(named(lambda x: (x, x))), "y"),
        (lambda: operator(outputs="y", residuals="y")(named(lambda x: (x, x))), "y"),
        (lambda: operator(named(lambda x, **options: x)), "options"),
        (lambda: operator(named(lambda k=1: k)), "input"),
        (lambda: operator(lambda x: x), "lambda"),
    ],
)
def test_18_names_that_clash_are_refused(declare, message):
    with pytest.raises(OperatorError, match=message):
        declare()


def test_18_rules_for_nothing_and_rules_twice_are_refused():
    @operator
    def f(x, w, k=1):
        return x

    for name in ("k", "y", "z", "dy"):
        with pytest.raises(OperatorError, match=rf"backward takes one of its inputs \['x', 'w'\], .* not \('{name}',\)"):
            f.backward(name)
    f.backward("x")(lambda dy: dy)
    with pytest.raises(OperatorError, match="a rule for x beside"):
        f.backward("x")(lambda dy: dy)
    with pytest.raises(OperatorError, match="a rule for all inputs beside"):
        f.backward(lambda dy: (dy, dy))
    g = operator(named(lambda x, w: x))
    g.backward(lambda dy: (dy, dy))
    with pytest.raises(OperatorError, match="a rule for x beside"):
        g.backward("x")(lambda dy: dy)


def test_a_joint_rule_must_give_one_cotangent_an_input():
    f = operator(named(lambda x, w: kernels().add(x, w)))
    f.backward(lambda dy: (dy,))
    g = operator(named(lambda *xs: kernels().concatenate(xs, 0)))
    g.backward(lambda dy: [dy, dy, dy])
    for h in (f, g):
        with pytest.raises(OperatorError, match="a joint rule returns a tuple of 2 cotangents"):
            at.grad(lambda x, h=h: h(x, x).sum())(X)


# ---------------------------------------------------------------- signatures


def test_18_operators_have_typed_signatures_with_defaults():
    @operator(optional=("b",))
    def f(x, w, b=None, axis=-1, *, keep=False):
        """What f does."""
        return kernels().add(x, w) if b is None else kernels().add(kernels().add(x, w), b)

    f.backward("x")(lambda dy: dy)
    f.backward("w")(lambda dy: dy)
    f.backward("b")(lambda dy: dy)
    for _ in range(2):  # before and after the front end is generated
        assert str(inspect.signature(f)) == "(x, w, b=None, axis=-1, *, keep=False)"
        assert f.__name__ == "f" and f.__doc__ == "What f does." and f.__module__ == __name__ and callable(f.__wrapped__)
        assert repr(f.op) == "<operator test_operator_declarations.f(x, w, b, axis, keep)>"
        for t in (X, at.array(X)):
            for call in (
                lambda t: f(t, t, kep=1),
                lambda t: f(t),
                lambda t: f(),
                lambda t: f(t, t, None, -1, True),
                lambda t: f(t, t, x=t),
                lambda t: f(t, t, t, t, t, t),
            ):
                with pytest.raises(TypeError, match="f"):
                    call(t)
            close(np.asarray(f(t, w=W, axis=0, keep=True)), X + W)
            close(np.asarray(f(x=t, w=W, b=X)), 2 * X + W)


def test_18_unknown_options_of_the_opsets_raise():
    for call in (
        lambda t: ops.tanh(t, axis=1),
        lambda t: ops.matmul(t, t.T, foo=1),
        lambda t: v20.softmax(t, dims=1),
        lambda t: v20.conv4(t, t, pad=1),
    ):
        for t in (X, at.array(X)):
            with pytest.raises(TypeError, match="unexpected keyword argument"):
                call(t)


def test_21_front_functions_pickle_and_copy():
    for f in (ops.tanh, ops.matmul, v20.conv4, v20.relu, v20.conv_bias_act):
        for _ in range(2):
            assert pickle.loads(pickle.dumps(f)) is f and copy.deepcopy(f) is f
            if f is not v20.conv4 and f is not v20.conv_bias_act:
                f(np.ones((2, 2)), *([np.ones((2, 2))] if f is ops.matmul else []))


def test_21_importing_generates_no_front_end():
    code = (
        "import autotape as at; from autotape import tape; from autotape.opsets import v20;"
        "from autotape.operator import OPERATORS, _first_call;"
        "built = [o.name for o in OPERATORS.values() if o.front.__code__ is not _first_call.__code__];"
        "assert len(OPERATORS) > 80 and built == [] and len(tape._operators) == 5, built;"
        "import numpy as np; np.tanh(at.array(1.0));"
        "assert [o.name for o in OPERATORS.values() if o.front.__code__ is not _first_call.__code__] == ['tanh']"
    )
    where = str(__import__("pathlib").Path(at.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, cwd=where)


def test_21_the_generated_source_can_be_read():
    f = scaled()
    f(at.array(X))
    assert "def scaled(x, k=_default_k):" in inspect.getsource(f.op.eager)
    with pytest.raises(ValueError) as caught:
        ops.matmul(at.array(X), at.array(X))
    assert "_forward(_d_a, _d_b)" in "".join(traceback.format_exception(caught.value))


def test_21_rules_may_be_declared_after_a_call():
    @operator
    def f(x, w):
        return kernels().multiply(x, w)

    assert f(X, W).shape == (4, 3)
    f.backward("x")(lambda dy, w: dy * w)
    close(at.grad(lambda x: f(x, W).sum())(X), W)
    with pytest.raises(OperatorError, match="there is no rule for w"):
        at.grad(lambda w: f(X, w).sum())(W)
    f.backward("w")(lambda dy, x: dy * x)
    close(at.grad(lambda w: f(X, w).sum())(W), X)
    check_grads(f, (X, W))


def test_a_declaration_may_be_made_anew():
    assert scaled() is not scaled() and OPERATORS["test_operator_declarations.scaled"].name == "scaled"


# ---------------------------------------------------------------- what is saved


def test_18_a_rule_saves_what_it_names_and_nothing_more():
    @operator(constants="mask")
    def f(x, w, axis=0):
        return kernels().multiply(x, w), kernels().greater(x, w)

    f.backward("x")(lambda dy, w_shape, axis: dy)
    f.backward("w")(lambda dy, x_like, mask: dy)
    ((name, _, iw, w_shape, axis, x_like, mask, fit), *_) = entries(lambda x: f(x, np.float32(2), axis=1), X)
    assert name == "f" and iw == -1 and w_shape == () and axis == 1 and x_like == (X.shape, X.dtype) and mask.dtype == bool
    assert fit[1] == ((), np.float32)
    (entry,) = entries(lambda x: ops.add(x, 1.0), X)
    assert not any(isinstance(v, ARRAY) for v in entry)


def test_18_what_is_saved_depends_on_which_inputs_are_tracked():
    c = at.array(W)
    (both,) = entries(lambda a, b: ops.multiply(a, b), X, W)
    (first,) = entries(lambda a: ops.multiply(a, c), X)
    (second,) = entries(lambda b: ops.multiply(c, b), X)
    _, _, _, *saved = both
    assert sum(v is not None for v in saved[:2]) == 2
    assert [v is not None for v in first[3:5]].count(True) == [v is not None for v in second[3:5]].count(True) == 1
    assert any(v is c._array for v in first[3:5]) and any(v is c._array for v in second[3:5])
    (conv,) = entries(lambda w: v20.conv4(w, np.ones((1, 2, 4, 4))), np.ones((1, 2, 3, 3)))
    arrays = [v for v in conv if isinstance(v, ARRAY)]
    assert [a.shape for a in arrays] == [(1, 2, 4, 4)]  # x alone: w is wanted for x's cotangent only


def test_an_operator_without_rules_leaves_no_entry():
    assert entries(lambda x: (x > 0, np.floor(x), x.argmax(), x == x), X) == []
    close(at.grad(lambda x: (x * (x > 0) + np.floor(x)).sum())(X), X > 0)


def test_nothing_is_recorded_for_constants():
    assert entries(lambda x: at.array(W) * 2 + np.tanh(at.array(X)), X) == []


# ---------------------------------------------------------------- joint rules, optional and variadic inputs


def test_18_joint_rules_are_told_what_is_needed():
    asked = []

    @operator(optional=("b",))
    def affine(x, w, b=None, *, k=1.0):
        y = kernels().multiply(kernels().matmul(x, w), kernels().scalar(k, x.dtype))
        return y if b is None else kernels().add(y, b)

    @affine.backward
    def _(dy, x, w, b_shape, needs, k):
        asked.append(needs)
        dx = ops.matmul(dy, ops.swapaxes(w, -1, -2)) * k if needs[0] else None
        dw = ops.matmul(ops.swapaxes(x, -1, -2), dy) * k if needs[1] else None
        return dx, dw, ops.sum_to(dy, b_shape) if needs[2] else None

    w, b = rng.normal(size=(3, 2)), rng.normal(size=2)
    for argnums, needs in ((0, (True, False, False)), (1, (False, True, False)), (2, (False, False, True)), ((0, 2), (True, False, True))):
        at.grad(lambda x, w, b: affine(x, w, b, k=3.0).sum(), argnums)(X, w, b)
        assert asked[-1] == needs
    at.grad(lambda x, w: affine(x, w).sum(), (0, 1))(X, w)
    assert asked[-1] == (True, True, False)
    check_grads(lambda x, w, b: affine(x, w, b, k=3.0), (X, w, b))
    check_grads(lambda x, w: affine(x, w), (X, w))
    with pytest.raises(TypeError):
        affine(at.array(X), w, b, 3.0)  # k is keyword-only
    g32 = at.grad(lambda b: affine(X, w, b).sum())(b.astype(np.float32))
    assert g32.dtype == np.float32


def test_18_optional_inputs_are_inputs():
    @operator(optional=("z",))
    def f(a, z=None, k=2.0):
        y = kernels().multiply(a, kernels().scalar(k, a.dtype))
        return y if z is None else kernels().add(y, z)

    f.backward("a")(lambda dy, k: dy * k)
    f.backward("z")(lambda dy: dy)
    assert f.op.inputs == ["a", "z"] and f.op.options == ["k"]
    close(at.grad(lambda a: f(a, k=3.0).sum())(X), 3)
    close(at.grad(lambda z: f(X, z).sum())(W), 1)
    ga, gz = at.grad(lambda a, z: f(a, z=z).sum(), (0, 1))(X, W)
    close(ga, 2)
    close(gz, 1)
    assert f(X).shape == (4, 3) and type(f(X, W)) is ARRAY and type(f(X, at.array(W))) is at.Tensor
    check_grads(lambda a, z: f(a, z) ** 2, (X, W))


def test_18_variadic_inputs():
    @operator
    def joined(*xs, axis=0):
        return kernels().concatenate(xs, axis)

    @joined.backward
    def _(dy, xs, xs_shape, xs_like, needs, axis):
        asked.append((len(xs), [like.dtype for like in xs_like], needs))
        ends = np.cumsum([0, *(s[axis] for s in xs_shape)])
        return [ops.getitem(dy, (..., slice(i, j))) for i, j in itertools.pairwise(ends)]

    asked = []
    check_grads(lambda a, b: joined(a, b * b, a, axis=-1) ** 2, (X, W))
    a, b = at.grad(lambda a, b: joined(a, b, np.float64(1) * np.ones((4, 1)), axis=-1).sum(), (0, 1))(X.astype(np.float32), W)
    assert (a.dtype, b.dtype) == (np.float32, np.float64) and asked[-1][0] == 3
    assert joined(X, W).shape == (8, 3) and joined(X).shape == (4, 3)
    close(at.grad(lambda a: joined(a, X, a, W, axis=-1)[:, :3].sum())(X), 1)
    with pytest.raises(ValueError, match=r"joined\(xs\[0\]: .*\(4, 3\).*xs\[1\]: .*\(2, 2\)"):
        joined(at.array(X), np.ones((2, 2)))
    with pytest.raises((ValueError, TypeError)):
        joined()


def test_none_is_a_zero_cotangent():
    @operator
    def first(x, w):
        return kernels().copy(x)

    @first.backward
    def _(dy):
        return dy, None

    close(at.grad(lambda w: first(X, w).sum())(W), 0)
    check_grads(first, (X, W))

    @operator(nondifferentiable="x")
    def never(x):
        return kernels().copy(x)

    close(at.grad(lambda x: (never(x) * x).sum())(X), X)


# ---------------------------------------------------------------- several results, residuals, constants


def plus(a, b):
    return b if a is None else a if b is None else a + b


def batchnorm():
    """Batch normalisation over axis 0 of (N, C), its statistics being residuals."""

    @operator(residuals="mean ivar")
    def batchnorm(x, scale, bias, eps=1e-5):
        mean = ops.mean(x, 0)
        ivar = 1 / ops.sqrt(ops.var(x, 0) + eps)
        return (x - mean) * ivar * scale + bias, mean, ivar

    @batchnorm.backward
    def _(dy, dmean, divar, x, scale, mean, ivar):
        """Partial derivatives with mean and ivar held, and theirs beside them: those are wanted in a higher derivative only."""
        n, xc = x.shape[0], x - mean
        dx = dscale = dbias = None
        if dy is not None:
            dbias, dscale = ops.sum(dy, 0), ops.sum(dy * xc * ivar, 0)
            dx = dy * (scale * ivar)
            dmean = plus(dmean, -(scale * ivar) * dbias)
            divar = plus(divar, scale * ops.sum(dy * xc, 0))
        if divar is not None:
            dx = plus(dx, divar * (-ivar * ivar * ivar) * xc / n)
        if dmean is not None:
            dx = plus(dx, ops.broadcast_to(dmean / n, x.shape))
        return dx, dscale, dbias

    @batchnorm.reference
    def _(x, scale, bias, eps=1e-5):
        return (x - x.mean(0)) / ops.sqrt(x.var(0) + eps) * scale + bias

    return batchnorm


def test_residuals_are_differentiated_to_second_order_and_beyond():
    f = batchnorm()
    scale, bias = rng.normal(size=3), rng.normal(size=3)
    check_grads(lambda x, s, b: np.tanh(f(x, s, b)) * W, (X, scale, bias), order=2)
    check_grads(lambda x: (f(x, scale, bias) * W).sum(), (X,), order=3)
    assert f(X, scale, bias).shape == X.shape  # the residuals are not the user's
    assert type(f(at.array(X), scale, bias)) is at.Tensor


def test_19_a_reference_composition_says_the_same():
    f = batchnorm()
    args = (X, rng.normal(size=3), rng.normal(size=3))
    assert f.op.composition.__name__ == "_"
    close(f(*args), f.op.composition(*map(at.array, args)))
    for a, b in zip(*(at.grad(lambda *xs, g=g: (g(*xs) ** 2 * W).sum(), (0, 1, 2))(*args) for g in (f, f.op.composition)), strict=True):
        close(a, b, atol=1e-12)


def svd():
    @operator(outputs="u s vt")
    def svd(a):
        return kernels().svd(a, True)

    @svd.backward
    def _(du, ds, dvt, u, s, vt):
        """For square matrices with distinct singular values; a cotangent that nobody wants is None."""
        seen.append([d is not None for d in (du, ds, dvt)])
        n = s.shape[0]
        eye, s2 = kernels().adopt(np.eye(n)), s * s
        f = (1 - eye) / (ops.reshape(s2, (1, n)) - ops.reshape(s2, (n, 1)) + eye)
        t = ops.transpose
        inner = 0
        if ds is not None:
            inner = inner + eye * ds
        if du is not None:
            inner = inner + f * (t(u) @ du - t(t(u) @ du)) * s
        if dvt is not None:
            inner = inner + ops.reshape(s, (n, 1)) * (f * (vt @ t(dvt) - t(vt @ t(dvt))))
        return u @ inner @ vt

    seen = []
    return svd, seen


def test_several_outputs():
    f, seen = svd()
    a, c1, c2, c3 = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), np.arange(1.0, 4), rng.normal(size=(3, 3))

    def loss(a):
        u, s, vt = f(a)
        return (u * u * c1).sum() + (s * c2).sum() + (vt * vt * c3).sum()

    check_grads(loss, (a,), rtol=1e-5)
    seen.clear()
    for i, pick in enumerate([lambda u, s, vt: u * u * c1, lambda u, s, vt: s * c2, lambda u, s, vt: vt * vt * c3]):
        check_grads(lambda a, pick=pick: pick(*f(a)).sum(), (a,), order=1)
        assert seen[-1] == [j == i for j in range(3)]
        check_grads(lambda a, pick=pick: pick(*f(a)).sum(), (a,), rtol=1e-5)
    assert [type(r) for r in f(a)] == [ARRAY] * 3 and [type(r) for r in f(at.array(a))] == [at.Tensor] * 3
    close(at.grad(lambda a: (f(a)[0] * 0 + a).sum())(a), 1)


def test_several_outputs_used_several_times_and_not_at_all():
    @operator(outputs="s d")
    def sum_and_difference(a, b):
        return kernels().add(a, b), kernels().subtract(a, b)

    @sum_and_difference.backward("a")
    def _(ds, dd):
        return plus(ds, dd)

    @sum_and_difference.backward("b")
    def _(ds, dd):
        return plus(ds, None if dd is None else -dd)

    f = sum_and_difference
    check_grads(lambda a, b: (lambda s, d: s * s * d + d * 2 + s)(*f(a, b)), (X, W))
    check_grads(lambda a, b: f(a, b)[1] ** 3, (X, W))
    check_grads(lambda a: f(*f(a, a))[0] ** 2, (X,))
    close(at.grad(lambda a: f(a, W) and a.sum())(X), 1)
    with at.Tape() as t:
        a = t.watch(X)
        s, d = f(a, W)
        loss = (s * d).sum() + s.sum()
    gs, gd, ga = t.gradient(loss, (s, d, a))
    close(gs.numpy(), X - W + 1)
    close(gd.numpy(), X + W)
    close(ga.numpy(), 2 * X + 1)


def test_constants_are_saved_without_a_cotangent():
    @operator(constants="mask")
    def positive_part(x):
        mask = kernels().greater(x, kernels().scalar(0, x.dtype))
        return kernels().where(mask, x, kernels().scalar(0.0, x.dtype)), mask

    @positive_part.backward
    def _(dy, mask):
        return ops.where(mask, dy, 0)

    check_grads(lambda x: positive_part(x) ** 3, (X,))
    close(at.grad(lambda x: positive_part(x).sum())(X), X > 0)


# ---------------------------------------------------------------- elementwise operators


def test_20_the_engine_undoes_broadcasting_and_casts():
    @operator(elementwise=True)
    def fma(a, b, c):
        return kernels().add(kernels().multiply(a, b), c)

    fma.backward("a")(lambda dy, b: dy * b)
    fma.backward("b")(lambda dy, a: dy * a)
    fma.backward("c")(lambda dy: dy)
    for shapes in (((4, 3), (3,), ()), ((1, 3), (4, 1), (4, 3)), ((), (), (2, 1)), ((0, 3), (1, 3), (3,)), ((1, 1), (1,), ())):
        args = tuple(rng.normal(size=s) for s in shapes)
        check_grads(fma, args)
        gs = at.grad(lambda *xs: fma(*xs).sum(), (0, 1, 2))(args[0].astype(np.float16), args[1].astype(np.float32), args[2])
        assert [g.dtype for g in gs] == [np.float16, np.float32, np.float64] and [g.shape for g in gs] == list(shapes)
    p = at.Param(2.0)
    close(fma(at.array(X), 2, W).numpy(), 2 * X + W)
    close(fma(3.0, at.array(X), p).numpy(), 3 * X + 2)
    assert type(fma(X, 2.0, 1)) is ARRAY


def test_20_broadcasting_is_seen_where_a_result_has_the_very_shape_of_an_input(monkeypatch):
    """Not an equal tuple but the same one, as a backend may give it."""
    shapes = {}
    monkeypatch.setattr(StrictArray, "shape", property(lambda x: shapes.setdefault(x._data.shape, x._data.shape)))
    with at.backend.use("strict"):
        assert at.array(X)._array.shape is at.array(W)._array.shape
        for f in (lambda x, b: x * b, lambda x, b: b * x, lambda x, b: np.where(x > 0, x, b)):
            gx, gb = at.grad(lambda x, b, f=f: f(x, b).sum(), (0, 1))(X, W[0])
            assert gx.shape == (4, 3) and gb.shape == (3,)


def test_20_rules_are_compiled_by_the_backend(monkeypatch):
    compiled = []
    k = kernels()
    monkeypatch.setattr(k, "compile_elementwise", lambda rule, use: compiled.append(rule) or rule)

    @operator(elementwise=True)
    def twice(x):
        return k.add(x, x)

    rule = twice.backward(lambda dy: dy * 2)
    close(at.grad(lambda x: twice(twice(x)).sum())(X), 4)
    assert compiled == ([twice.__wrapped__] if k.compiles else []) + [rule]


def test_20_forwards_are_compiled_once_whoever_looks_at_them(monkeypatch):
    compiled, k = [], NumpyKernels()
    k.compile_elementwise = lambda rule, use: compiled.append(rule) or rule
    with monkeypatch.context() as patch, at.backend.use_kernels(k):
        patch.setattr(sys.modules["autotape.operator"], "_compiling", True)

        @operator(elementwise=True)
        def twice(x):
            return kernels().add(x, x)

        for look in (contextlib.nullcontext, at.debug, at.profile, contextlib.nullcontext):
            with look():
                close(np.asarray(twice(X)), 2 * X)
    with at.debug():  # which puts all forwards back
        pass
    assert compiled == [twice.__wrapped__]


# ---------------------------------------------------------------- errors from kernels

# what matmul says of two arrays (4, 3); a kernel that names itself and its arguments has said it all
NO_PRODUCT = (
    r"matmul\(a: ndarray\(4, 3\) float64, b: ndarray\(4, 3\) float64\): " if ARRAY is np.ndarray else r"matmul: a \(4, 3\) and b \(4, 3\) "
)


def test_18_errors_from_kernels_name_operator_arguments_shapes_and_dtypes():
    t = at.array(X)
    for call in (lambda: t @ t, lambda: ops.matmul(X, X), lambda: X @ t, lambda: t @ at.Param(X)):
        with pytest.raises(ValueError, match=NO_PRODUCT):
            call()
    with pytest.raises(ValueError, match=rf"add\(a: {NAME}\(4, 3\) float64, b: {NAME}\(2,\) float32\)"):
        t + np.ones(2, np.float32)
    with pytest.raises(IndexError, match=rf"getitem\(x: {NAME}\(4, 3\) float64\): .*index 7"):
        t[7]
    with pytest.raises(TypeError, match="add"):
        t + "text"
    with pytest.raises(TypeError):
        t + None
    with pytest.raises(TypeError, match="add"):
        t + np.array(["a"])


def test_errors_inside_a_rule_name_the_operator_too():
    @operator
    def f(x):
        return kernels().copy(x)

    f.backward(lambda dy, x: ops.matmul(dy, x))
    with pytest.raises(ValueError, match=NO_PRODUCT):
        at.grad(lambda x: f(x).sum())(X)


@pytest.mark.parametrize("kind", [ValueError, TypeError, IndexError, ZeroDivisionError, FloatingPointError, OverflowError, MemoryError])
def test_an_error_keeps_its_type(kind):
    @operator
    def fails(x):
        raise kind("because")

    for x in (X, at.array(X), 2.0):
        with pytest.raises(kind, match=r"fails\(x: .*\): because"):
            fails(x)


def test_other_errors_become_operator_errors_with_their_cause():
    @operator
    def fails(x):
        return x.no_such_attribute

    with pytest.raises(OperatorError, match=rf"fails\(x: {NAME}\(4, 3\) float64\): .*no_such_attribute") as caught:
        fails(at.array(X))
    assert isinstance(caught.value.__cause__, AttributeError)


def test_interrupts_pass():
    @operator
    def stops(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stops(at.array(X))


def test_a_rule_of_the_wrong_shape_is_found():
    @operator
    def f(x):
        return kernels().copy(x)

    f.backward(lambda dy: ops.sum(dy))
    for loss in (lambda x: f(x).sum(), lambda x: f(np.tanh(x)).sum(), lambda x: at.grad(lambda x: f(np.tanh(x)).sum())(x).sum()):
        with pytest.raises(OperatorError, match=r"f, backward: its rule gave a cotangent of shape \(\) for an input of shape \(4, 3\)"):
            at.grad(loss)(X)


def test_a_users_elementwise_rule_may_give_what_broadcasting_made():
    @operator(elementwise=True)
    def scaled_by(x, s):
        return kernels().multiply(x, s)

    scaled_by.backward("x")(lambda dy, s: dy * s)
    scaled_by.backward("s")(lambda dy, x: dy * x)
    check_grads(scaled_by, (X, X[0]))
    check_grads(scaled_by, (X[:, :1], X))

    @operator(elementwise=True)
    def flat(x):
        return kernels().copy(x)

    flat.backward(lambda dy: 1.0)
    with pytest.raises(OperatorError, match=r"flat, backward: its rule gave float 1\.0; a cotangent is an array"):
        at.grad(lambda x: flat(np.tanh(x)).sum())(X)


# ---------------------------------------------------------------- operators of the user's own


def test_the_example_of_the_documentation():
    @operator(elementwise=True)
    def softsign(x):
        """x / (1 + abs(x))."""
        k = kernels()
        return k.divide(x, k.add(k.scalar(1, x.dtype), k.absolute(x)))

    @softsign.backward
    def _(dy, x):
        return dy / (1 + ops.absolute(x)) ** 2

    check_grads(softsign, (X,), order=3)
    assert softsign(X.astype(np.float32)).dtype == np.float32 and type(softsign(at.Param(X))) is at.Tensor
    assert OPERATORS["test_operator_declarations.softsign"] is softsign.op


def test_an_operator_may_answer_for_a_numpy_function(monkeypatch):
    for table in ("FUNCTIONS", "_refused", "_kinds", "_inputs", "_registered"):
        monkeypatch.setattr(at.numpy_protocol, table, getattr(at.numpy_protocol, table).copy())

    @operator(elementwise=True, numpy=np.fft.fftshift)
    def fftshift(x):
        return kernels().copy(x)

    @fftshift.backward
    def _(dy):
        return dy

    check_grads(lambda x: np.fft.fftshift(x), (X,))


def test_operators_take_everything_that_numpy_takes():
    f = scaled()
    for x, kind in (
        (X, ARRAY),
        (at.array(X), at.Tensor),
        (at.Param(X), at.Tensor),
        (X.tolist(), ARRAY),
        (2.0, ARRAY),
        (np.float32(2), ARRAY),
        ([1, 2], ARRAY),
    ):
        y = f(x, k=2.0)
        assert type(y) is kind
        close(np.asarray(y), 2 * np.asarray(x))
    for x in ("text", None, object(), {}):
        with pytest.raises(TypeError, match=r"scaled|no array of numbers"):
            f(x)


def test_17_arrays_of_another_backend_are_told_apart():
    with at.backend.use("strict"):
        s = at.array(X)
        with pytest.raises(BackendError, match=rf"'strict' works on StrictArray.*{NAME}"):
            ops.tanh(OURS)
    ours = at.backend.get()
    with pytest.raises(
        BackendError, match=rf"tanh: backend '{ours}' works on {NAME}, but met x: StrictArray\(4, 3\) float64.*x\.to\('{ours}'\)"
    ):
        ops.tanh(s)


OURS = at.array(X)


def test_an_optional_input_may_stand_behind_an_option():
    @at.operator(optional=("b",))
    def scaled_sum(x, k=2.0, b=None):
        return x * k if b is None else x * k + b

    @scaled_sum.backward
    def _(dy, k, needs):
        return dy * k, dy if needs[1] else None

    x, b = np.arange(3.0), np.ones(3)
    for call in (lambda x, b: scaled_sum(x, 3.0, b), lambda x, b: scaled_sum(x, b=b, k=3.0)):
        for args in ((x, b), (at.array(x), b), (x, at.Param(b)), (at.array(x), at.array(b))):
            np.testing.assert_array_equal(np.asarray(call(*args)), 3 * x + 1)
        gx, gb = at.grad(lambda x, b, call=call: call(x, b).sum(), (0, 1))(x, b)
        assert gx.tolist() == [3, 3, 3] and gb.tolist() == [1, 1, 1]
        assert at.grad(lambda b, call=call: call(x, b).sum())(b).tolist() == [1, 1, 1]
    assert at.grad(lambda x: scaled_sum(x, 5.0).sum())(x).tolist() == [5, 5, 5] and scaled_sum(x).tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match="unexpected keyword"):
        scaled_sum(x, z=1)
