"""Faults that were found by trying to break the engine, each with the right value."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import copy
import dataclasses

import numpy as np
import pytest

import autotape as at
import autotape.testing  # registers the backend "strict"
from autotape import backend, math_mode, tape
from autotape.errors import BackendError, OperatorError, TapeError
from autotape.opsets import array as ops
from autotape.opsets import v20

close = np.testing.assert_allclose
X = np.array([0.5, -1.5, 2.0])


# ---------------------------------------------------------------- buffers


def test_26_a_variables_array_overwritten_after_deferral():
    w = np.ones((1, 1, 1))

    def f(x, buffer):
        h = v20.conv4(at.array(w), x)
        buffer[:] = 100
        return v20.relu(h).sum()

    for mode in ("default", "pedantic"):
        x = np.ones((1, 1, 4))
        with math_mode.use(mode):
            assert at.value_and_grad(f)(x, x)[0] == 4
        x = np.ones((1, 1, 4))
        with math_mode.use(mode), at.Tape() as t:
            y = f(t.watch(x), x)
        assert y.numpy() == 4


def test_26_a_bias_overwritten_after_deferral():
    def f(b, buffer):
        z = v20.conv4(at.array(np.ones((1, 1, 1))), at.array(np.ones((1, 1, 4)))) + b
        buffer[:] = 100
        return v20.relu(z).sum()

    b = np.ones((1, 1))
    assert at.value_and_grad(f)(b, b)[0] == 8


def test_no_object_array_passes_beside_a_tensor():
    t, objects = at.array([1.0, 2.0]), np.array([1, 2], object)
    binary = [lambda: t + objects, lambda: objects * t, lambda: t @ objects, lambda: np.maximum(t, objects)]
    for use in (*binary, lambda: np.where(t > 0, objects, t)):
        with pytest.raises(TypeError, match="object"):
            use()


@pytest.mark.parametrize("name", ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
def test_arrays_that_compute_by_rules_of_their_own_are_refused(name):
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    for x in (masked, np.ones((1, 2)).view(np.matrix)):
        with backend.use(name):
            one = at.array(np.ones((1, 1)))
            for use in (lambda x=x: at.grad(lambda t: t.sum())(x), lambda x=x: at.array(x), lambda x=x, one=one: one * x):
                with pytest.raises(TypeError, match=r"pass np\.asarray\(x\)"):
                    use()
    close(at.grad(lambda t: (t * t).sum())(np.asarray(masked)), [2, 4, 6])


# ---------------------------------------------------------------- levels, contexts, tapes


def test_a_context_copied_inside_a_tape_does_not_record_on_it_later():
    kept = {}

    def f(x):
        kept["context"] = contextvars.copy_context()
        kept["record"] = tape.current()
        return x.sum()

    at.grad(f)(X)
    g = kept["context"].run(lambda: at.grad(lambda x: (x * x).sum())(X))
    assert type(g) is np.ndarray and len(kept["record"]) == 0
    close(g, 2 * X)
    assert kept["context"].run(lambda: float(at.array(2.0))) == 2.0

    def train():
        p = at.Param(X)
        with at.Tape() as t:
            loss = (p * p).sum()
        return t.gradient(loss, p)

    close(kept["context"].run(train), 2 * X)


def test_a_task_started_inside_a_tape_goes_on_by_itself():
    async def child(after):
        await after.wait()
        return at.grad(lambda x: (x * x).sum())(X)

    async def main():
        after = asyncio.Event()
        with at.Tape() as t:
            x = t.watch(X)
            task = asyncio.create_task(child(after))
            loss = (x * x * x).sum()
        g = t.gradient(loss, x)
        after.set()
        return g, await task

    g, own = asyncio.run(main())
    close(g.numpy(), 3 * X**2)
    assert type(own) is np.ndarray
    close(own, 2 * X)


def test_01_an_inner_gradient_that_no_outer_level_tracks_is_plain():
    def f(t):
        inner = at.grad(lambda y: y * y)(3.0)
        assert type(inner) is float
        value, g = at.value_and_grad(lambda y: (y * y).sum())(X)
        assert isinstance(value, np.floating) and type(g) is np.ndarray
        return t * inner

    assert at.grad(f)(2.0) == 6.0


def test_01_an_inner_gradient_that_depends_on_a_param_or_a_pending_value_stays_a_tensor():
    p = at.Param(np.array(2.0))
    with at.Tape() as t:
        g = at.grad(lambda y: p * y * y)(3.0)  # 6 p
        loss = g * p
    assert type(g) is at.Tensor
    close(t.gradient(loss, p), 24.0)

    def f(w):
        h = v20.conv4(w, at.array(np.ones((1, 1, 3))))
        return at.grad(lambda y: (h * y * y).sum())(3.0)  # made real inside the inner level

    close(at.grad(f)(np.full((1, 1, 1), 2.0)), [[[18.0]]])


def test_10_entries_of_inner_levels_are_forgotten():
    big = np.ones(1000)

    def arrays():
        return sum(isinstance(v, np.ndarray) and v.size >= 1000 for entry in tape.current() for v in entry)

    def fails(y):
        np.sin(y * y)
        raise KeyError

    def f(x):
        before = arrays()
        at.grad(lambda y: (y * y).sum())(big)
        with pytest.raises(KeyError):
            at.grad(fails)(big)
        assert arrays() == before
        return (x * x).sum()

    close(at.grad(f)(big), 2 * big)


def test_10_a_pending_value_made_real_in_an_inner_level_that_fails_keeps_its_derivative():
    w = np.full((1, 1, 1), 2.0)

    def f(w):
        h = v20.conv4(w, at.array(np.ones((1, 1, 3))))

        def fails(y):
            (h * y).sum()
            raise KeyError

        with pytest.raises(KeyError):
            at.grad(fails)(3.0)
        return (h * h).sum()

    close(at.grad(f)(w), [[[12.0]]])


def test_a_rule_that_raises_leaves_nothing_behind():
    @at.operator
    def refuses(x):
        return x

    @refuses.backward
    def _(dy):
        raise ValueError("no derivative today")

    p = at.Param(X)
    with at.Tape() as t:
        loss = refuses(p * p).sum()
    with pytest.raises(ValueError, match="refuses, backward: no derivative today"):
        t.gradient(loss, p)
    with pytest.raises(TapeError, match="used up"):
        t.gradient(loss, p)
    p -= 1.0
    close(p.value, X - 1)


def test_no_grad_refuses_to_decorate_what_runs_on():
    def generator():
        yield 1

    async def coroutine():
        return 1

    for f in (generator, coroutine):
        with pytest.raises(TypeError, match="use `with` inside it"):
            at.no_grad()(f)


def test_09_a_thread_with_a_copied_context_may_not_record():
    def work(w):
        return w * 2.0

    async def main():
        with at.Tape() as t:
            w = t.watch(X)
            with pytest.raises(TapeError, match="another thread"):
                await asyncio.to_thread(work, w)
            value = await asyncio.to_thread(lambda: w.numpy() * 2)
            own = await asyncio.to_thread(lambda: at.grad(lambda x: (x * x).sum())(X))
            loss = (w * value).sum()
        return t.gradient(loss, w), own

    g, own = asyncio.run(main())
    close(g.numpy(), 2 * X)
    assert type(own) is np.ndarray
    close(own, 2 * X)


def test_a_pullback_or_tape_that_outlives_an_inner_transform_is_gone_or_right():
    kept = {}

    def outlives(z, dependent):
        def f(x):
            kept["pull"] = at.vjp(lambda u: u * u * z if dependent else u * u, np.array(3.0))[1]
            with at.Tape() as kept["tape"]:
                kept["variable"] = kept["tape"].watch(3.0)
                kept["loss"] = kept["variable"] * kept["variable"]
            return x * 2.0

        at.grad(f)(1.0)
        with pytest.raises(TapeError):
            kept["tape"].gradient(kept["loss"], kept["variable"])
        return z * kept["pull"](np.array(1.0))[0]

    for dependent in (False, True):
        with pytest.raises(TapeError, match="is gone"):
            at.grad(outlives)(1.0, dependent)


def test_a_nested_tape_after_its_outermost_was_walked():
    with at.Tape() as a:
        x = a.watch(2.0)
        y = x * x
        with at.Tape() as b:
            z = b.watch(3.0)
            loss = z * z
    a.gradient(y, x)
    with pytest.raises(TapeError, match="not recorded on this tape"):
        b.gradient(loss, z)


def test_used_up_nested_tapes_keep_nothing():
    def arrays():
        return sum(isinstance(v, np.ndarray) and v.size >= 1000 for entry in tape.current() for v in entry)

    with at.Tape() as outer:
        x = outer.watch(np.ones(1000))
        for _ in range(5):
            with at.Tape() as t:
                p = t.watch(np.ones(1000))
                loss = (p * p * p).sum()
            g = t.gradient(loss, p)
        assert arrays() == 0
        with at.Tape() as t:
            p = t.watch(np.ones(1000))
            loss = (p * p * x).sum()
        last = (g * t.gradient(loss, p) * x).sum()  # 3 * 2 x * x
    close(outer.gradient(last, x).numpy(), 12 * np.ones(1000))


def test_results_that_no_outer_level_tracks_are_constants():
    def f(z):
        v, g = at.value_and_grad(lambda x: (x * x).sum())(at.array(X))
        y, pull = at.vjp(lambda x: x * x, at.array(X))
        assert type(v) is at.Tensor and float(v) == X @ X and not float(y[0]) < 0
        close(pull(np.ones(3))[0].numpy(), 2 * X)
        w = at.Param(np.array(2.0))
        return z * float(at.grad(lambda x: x * x * w)(1.0)) * float(g[0])

    close(at.grad(f)(2.0), 4.0 * 2 * X[0])


def test_a_param_is_free_after_a_wrong_has_aux():
    w = at.Param(np.array(2.0))
    with pytest.raises(TypeError, match="must return"):
        at.grad(lambda x: x * w, has_aux=True)(1.0)
    w.value = 3.0


def test_the_cotangent_of_a_constant_result_is_checked_too():
    _, pull = at.vjp(lambda x: (x * 2.0, np.ones(2)), X)
    with pytest.raises(ValueError, match=r"a result of shape \(2,\) has shape \(3,\)"):
        pull((np.ones(3), np.ones(3)))
    close(pull((np.ones(3), np.ones(2)))[0], [2, 2, 2])


# ---------------------------------------------------------------- types


def test_04_a_rule_in_another_precision_gives_a_gradient_in_the_inputs():
    @at.operator
    def scaled(x):
        return x

    @scaled.backward
    def _(dy):
        return dy * np.sqrt(2)  # a strong float64

    x = X.astype(np.float32)
    assert at.grad(lambda x: scaled(x).sum())(x).dtype == np.float32
    assert at.grad(lambda x: scaled(x).sum())(at.array(x)).dtype == np.float32
    p = at.Param(x)
    with at.Tape() as t:
        loss = scaled(p).sum()
    assert t.gradient(loss, p).dtype == np.float32


def test_large_integers_beside_small_types_compare_and_divide_as_in_numpy():
    x = np.array([1, 2], np.int32)
    t = at.array(x)
    for f in (lambda x: x < 10**12, lambda x: x == 10**12, lambda x: x / 10**12, lambda x: x <= 10**12):
        assert np.array_equal(f(t).numpy(), f(x)) and f(t).dtype == f(x).dtype
    assert np.ravel(at.array(np.ones((2, 2))), "C").shape == (4,)
    with pytest.raises((TypeError, ValueError), match="order"):
        np.ravel(at.array(np.ones((2, 2))).T, order="K")


def test_params_are_numbers_where_they_hold_one():
    two = at.Param(np.array([2.0]))
    assert two and not at.Param(np.array([0.0])) and float(at.Param(np.array(2.0))) == two.item() == 2.0
    with pytest.raises(ValueError, match="ambiguous"):
        bool(at.Param(np.zeros(3)))
    p = at.Param(np.array([2.0, 3.0]))
    p **= 2
    p //= 2
    p %= 3
    assert type(p) is at.Param and p.value.tolist() == [2.0, 1.0] and p.version == 3
    p @= np.array([[1.0, 0.0], [0.0, 2.0]])
    assert p.value.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match=r"p\.value = p\.at\[i\]\.set"):
        p[0] = 1.0


def test_pytrees_of_unusual_classes():
    counter = collections.Counter(a=2.0, b=3.0)
    g = at.grad(lambda c: c["a"] * c["b"])(counter)
    assert type(g) is collections.Counter and dict(g) == {"a": 3.0, "b": 2.0}

    @dataclasses.dataclass
    class Lazy:
        w: float
        cache: float = dataclasses.field(init=False)

    assert at.grad(lambda m: m.w * m.w)(Lazy(3.0)).w == 6.0


# ---------------------------------------------------------------- declarations and backends


def test_wrong_forwards_and_rules_name_their_operator():
    @at.operator
    def gives_nothing(x):
        return None

    with pytest.raises(OperatorError, match=r"gives_nothing.*NoneType"):
        gives_nothing(at.array(X))

    @at.operator
    def joint(a, b):
        return a + b

    @joint.backward
    def _(dy):
        return (dy,)

    with pytest.raises(OperatorError, match=r"joint, backward: a joint rule returns a tuple of 2 cotangents, for the inputs a, b, not 1"):
        at.grad(lambda a: joint(a, a).sum())(X)

    @at.operator
    def forgetful(x):
        return x

    @forgetful.backward
    def _(dy):
        dy * 2.0

    for f in (lambda x: forgetful(x).sum(), lambda x: at.grad(lambda x: forgetful(x).sum())(x).sum()):
        with pytest.raises(OperatorError, match="forgetful, backward: the rule returned nothing"):
            at.grad(f)(X)

    for wrong in (3, len, copy):
        with pytest.raises(OperatorError, match="declared by a `def`"):
            at.operator(wrong)
    with pytest.raises(OperatorError, match="backward takes one of its inputs"):
        joint.backward("a", "b")
    with pytest.raises(OperatorError, match="backward takes one of its inputs"):
        joint.backward()


def test_a_missing_rule_raises_and_a_declared_zero_does_not():
    @at.operator
    def half_declared(a, b):
        return a * b

    half_declared.backward("a")(lambda dy, b: dy * b)

    @at.operator(nondifferentiable="x")
    def steps(x):
        return x

    close(at.grad(lambda x: half_declared(x, np.ones(3)).sum())(X), np.ones(3))
    with pytest.raises(OperatorError, match=r"half_declared: there is no rule for b: declare it with @half_declared\.backward\('b'\)"):
        at.grad(lambda x: half_declared(x, x).sum())(X)
    close(at.grad(lambda x: (steps(x) * x).sum())(X), X)
    close(half_declared(at.array(X), X).numpy(), X * X)

    def f(x):
        return x

    with pytest.raises(OperatorError, match=r"nondifferentiable \['k'\] are no inputs"):
        at.operator(nondifferentiable="k")(f)


def test_options_may_be_called_what_generated_code_uses():
    @at.operator
    def several(*xs, len=2.0, zip=1.0, enumerate=0.0):
        return xs[0] * len * zip + enumerate

    several.backward(lambda dy, xs_like, len: [dy * len, *(None for _ in xs_like[1:])])
    close(at.grad(lambda x: several(x, x, zip=1.0).sum())(X), [2, 2, 2])

    @at.operator
    def one(x, len=2.0):
        return x * len

    one.backward(lambda dy, len: dy * len)
    close(at.grad(lambda x: at.grad(lambda x: (one(x) * x).sum())(x).sum())(X), [4, 4, 4])


def test_declarations_that_would_go_wrong_silently_are_refused():
    def variadic(*xs):
        return xs[0]

    def optional(x, b=None):
        return x

    for f, more in ((variadic, {}), (optional, {"optional": ("b",)})):
        with pytest.raises(OperatorError, match="fixed number of inputs"):
            at.operator(elementwise=True, **more)(f)

    @at.operator(outputs="y z")
    def two(x):
        return x, x * 2

    two.backward(lambda dy: dy)
    with pytest.raises(OperatorError, match="no rule takes dz"):
        two(at.array(X))

    @at.operator
    def listed(x):
        return at.array(x)

    with pytest.raises(OperatorError, match="listed: the forward gave Tensor"):
        listed(at.array(X))
    exec_names = {"operator": at.operator}
    exec("@operator\ndef bare(x): return x", exec_names)
    close(exec_names["bare"](at.array(X)).numpy(), X)


def test_a_backend_that_fails_to_load_says_so_and_harms_no_other(monkeypatch):
    class Broken:
        @staticmethod
        def unavailable():
            raise RuntimeError("no driver")

    class Bare:
        @staticmethod
        def unavailable():
            return None

    monkeypatch.setitem(backend._sources, "broken", Broken)
    monkeypatch.setitem(backend._sources, "bare", Bare)
    assert backend.available()["broken"] == "RuntimeError: no driver" and backend.available()["numpy"] is None
    with pytest.raises(BackendError, match="'broken' can't be used here: RuntimeError: no driver"):
        backend.use("broken")
    with pytest.raises(BackendError, match="Bare is no complete backend: it lacks name, array"):
        backend.use("bare")


def test_24_dtypes_are_compared_by_value():
    import pickle

    w, x = (pickle.loads(pickle.dumps(a)) for a in (np.ones((1, 1, 2), np.float32), np.ones((1, 1, 4), np.float32)))
    h = v20.conv4(at.asarray(w), at.array(x))
    assert type(h).__name__ == "Pending"
    assert ops.add(at.asarray(w), np.float32(1)).dtype == np.float32
