"""The tape: ids, life and death of what is recorded, memory, and the explicit way to record with Param and Tape.

A number in a test's name is the rule of the fine print that it holds the engine to: ids and owners of tapes (9), Param and
Tape (11), settings remembered (12), long tapes (31).
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import autotape as at
import autotape.testing  # registers the backend "strict"
from autotape import backend, kernels, math_mode, operator, tape
from autotape.errors import TapeError
from autotape.opsets import v20

close = np.testing.assert_allclose
X = np.array([0.5, -1.5, 2.0])


@pytest.fixture(autouse=True)
def no_test_spoils_the_next():
    v20.conv4.op.fusion.plans.clear()
    yield
    v20.conv4.op.fusion.plans.clear()
    tape._tape.set(None)
    tape._home.set(None)
    tape._live.clear()


def in_thread(f):
    """What f gives, or the exception it raises, in another thread."""
    found = []

    def run():
        try:
            found.append(f())
        except BaseException as e:
            found.append(e)

    t = threading.Thread(target=run)
    t.start()
    t.join()
    return found[0]


def clean():
    return tape.current() is None and tape.home() is None and not tape._live


# ---------------------------------------------------------------- ids


def test_09_an_id_names_its_tape_and_every_outermost_tape_has_its_own():
    seen = []

    def f(x):
        record = tape.current()
        y = x * x
        assert [t._id - record.base for t in (x, y)] == [0, 1] and record.base % 2**40 == 0
        assert record.holds(y._id) and not record.holds(record.base + 2**40) and not record.holds(-1)
        seen.append(record.base)
        return y.sum() + at.grad(lambda z: seen.append(tape.current().base) or (z * z).sum())(x).sum()

    at.grad(f)(X)
    at.grad(f)(X)
    assert seen[0] == seen[1] < seen[2] == seen[3]
    assert at.array(X)._id == -1 and (at.array(X) * 2)._id == -1


def test_09_a_tensor_that_outlives_its_tape_is_a_constant():
    kept = []
    at.grad(lambda x: kept.append(x * 2) or (kept[-1] * x).sum())(X)
    t = kept[0]
    assert float(t[0]) == 1.0 and "tracked" not in repr(t) and (t * t)._id == -1
    for _ in range(3):  # tapes of every length, whose positions include that of t
        close(at.grad(lambda x: (t * x * x).sum())(X), 4 * X * X)
        close(at.grad(lambda t: (t * t).sum())(t).numpy(), 4 * X)
    close(at.grad(lambda x: at.grad(lambda x: (t * x * x)[0])(x)[0])(X), [4 * X[0], 0, 0])


def test_09_a_tensor_of_a_finished_tape_holds_no_tape():
    kept, records = [], []

    def f(x):
        records.append(weakref.ref(tape.current()))
        kept.append(x * 2)
        return (kept[-1] * x).sum()

    at.grad(f)(X)
    gc.collect()
    assert records[0]() is None and kept[0].shape == (3,)


def test_09_two_live_tapes_of_one_thread_do_not_mix():
    def f(x):
        with at.no_grad():
            with at.Tape() as inner:
                w = inner.watch(np.ones(3))
                y = (w * x * x).sum()  # x is of the tape outside: a constant here
            g = inner.gradient(y, w)
        return (x * g * w).sum()  # w and g are of the tape inside: constants here

    close(at.grad(f)(X), X * X)


@pytest.mark.parametrize(
    "wrap", [lambda f: f(), lambda f: at.grad(lambda z: f() * z)(1.0), lambda f: in_tape(f)], ids=["plain", "grad", "Tape"]
)
def test_09_a_tensor_that_is_recorded_in_another_thread_raises(wrap):
    def f(x):
        uses = [
            lambda: (x * x).sum(),
            lambda: np.tanh(x)[0],
            lambda: np.concatenate([x, x])[0],
            lambda: (x * 2)[0],
            lambda: x[0],
            lambda: np.ones(3) @ x,
        ]
        for use in uses:
            e = in_thread(lambda use=use: wrap(use))
            assert isinstance(e, TapeError) and "another thread" in str(e) and "t.numpy()" in str(e)
        assert (in_thread(lambda: x.numpy() * 2) == 2 * X).all()
        return (x * x).sum()

    close(at.grad(f)(X), 2 * X)
    assert clean()


def in_tape(f):
    with at.Tape():
        return f()


# ---------------------------------------------------------------- memory


def observed():
    """An operator, and the list of how many of its results were alive each time its rule ran."""
    results, alive = [], []

    @operator
    def spy(x):
        y = kernels().tanh(x)
        results.append(weakref.ref(y))
        return y

    @spy.backward
    def _(dy, y):
        alive.append(sum(r() is not None for r in results))
        return dy * (1 - y * y)

    return spy, alive


def test_memory_is_freed_as_backward_proceeds():
    spy, alive = observed()

    def f(x):
        for _ in range(10):
            x = spy(x)
        return x.sum()

    at.grad(f)(X)
    assert alive == list(range(10, 0, -1))


def test_memory_is_freed_as_tape_gradient_proceeds():
    spy, alive = observed()
    p = at.Param(X)
    with at.Tape() as t:
        x = p
        for _ in range(10):
            x = spy(x)
        loss = x.sum()
        del x
    t.gradient(loss, p)
    assert alive == list(range(10, 0, -1))


def test_the_peak_of_a_gradient_is_the_saved_results_and_little_more():
    n, x = 20, np.linspace(-1, 1, 50_000)

    def f(x):
        for _ in range(n):
            x = np.tanh(x)
        return x.sum()

    at.grad(f)(x[:3])
    tracemalloc.start()
    try:
        at.grad(f)(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (n + 6) * x.nbytes  # keeping every cotangent as well would take 2 n


def test_an_addition_saves_nothing():
    def f(x):
        for _ in range(50):
            x = x + 1.0
        return x.sum()

    x = np.ones(50_000)
    at.grad(f)(x[:3])
    tracemalloc.start()
    try:
        at.grad(f)(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * x.nbytes


def test_nothing_is_left_after_a_transform():
    spy, _ = observed()
    held = []

    def f(x):
        y = spy(x * x)
        held.append(weakref.ref(y))
        return y.sum()

    at.value_and_grad(f)(X)
    with pytest.raises(ZeroDivisionError):
        at.grad(lambda x: f(x) / (1 // 0))(X)
    at.grad(lambda x: (at.grad(f)(x) ** 2).sum())(X)
    _, pull = at.vjp(f, X)
    del pull
    gc.collect()
    assert [r() for r in held] == [None] * 4 and clean()


@pytest.mark.parametrize("ending", ["returns", "raises", "dropped"])
@pytest.mark.parametrize("kind", ["grad", "nested", "vjp", "Tape"])
def test_what_was_recorded_goes_without_the_garbage_collector(kind, ending):
    refs = []

    def f(w):
        h = v20.conv4(w, X4) + B4
        y = v20.relu(h)
        refs.extend(map(weakref.ref, (tape.current(), h, y)))
        return y.sum() / (ending != "raises" or 1 // 0)

    def run():
        if kind == "Tape":
            with at.Tape() as t:
                w = t.watch(W4)
                y = f(w)
            return None if ending == "dropped" else t.gradient(y, w)
        if kind == "vjp":
            _, pull = at.vjp(f, W4)
            return None if ending == "dropped" else pull(1.0)
        return at.grad(f if kind == "grad" else lambda w: at.grad(f)(w).sum())(W4)

    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ZeroDivisionError):
            run()
        assert [r() for r in refs] == [None] * 3
    finally:
        gc.enable()


def test_values_under_no_grad_are_freed_at_once():
    refs = []

    def f(x):
        with at.no_grad():
            for _ in range(20):
                y = np.tanh(x)
                refs.append(weakref.ref(y._array))
        assert sum(r() is not None for r in refs) == 1
        return x.sum()

    at.grad(f)(X)


def test_31_long_tapes_need_no_recursion():
    def f(x, n=100_000):
        y = x
        for _ in range(n):
            y = y * 0.99999
        return y

    v, g = at.value_and_grad(f)(1.0)
    close((v, g), (0.99999**100_000,) * 2, rtol=1e-8)
    close(at.grad(at.grad(lambda x: f(x, 5_000) ** 2))(1.0), 2 * 0.99999**10_000)


# ---------------------------------------------------------------- Tape and Param


def test_11_the_documented_loop():
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), at.Param(np.zeros((3, 2)))
    before = np.mean(y**2)
    for _ in range(50):
        with at.Tape() as t:
            loss = ((x @ w - y) ** 2).mean()
        w -= 0.1 * t.gradient(loss, w)
    assert w.version == 50 and float(loss) < before
    close(w.numpy(), np.linalg.lstsq(x, y)[0], atol=0.2)


def test_11_gradient_takes_a_tree_of_sources_at_once():
    p, q, unused = at.Param(X), at.Param(2.0), at.Param(np.ones((2, 0), np.float32))
    with at.Tape() as t:
        x = t.watch(np.ones(3))
        y = p * q * x
        loss = (y * y).sum()
    g = t.gradient(loss, {"p": p, "rest": [q, (x, None)], "y": y, "again": p, "unused": unused})
    close(g["p"], 8 * X)
    close(g["again"], 8 * X)
    close(g["rest"][0], 4 * X @ X)
    close(g["rest"][1][0].numpy(), 8 * X * X)
    close(g["y"].numpy(), 4 * X)
    assert g["rest"][1][1] is None and g["unused"].shape == (2, 0) and g["unused"].dtype == np.float32
    assert type(g["p"]) is kernels().array and type(g["y"]) is at.Tensor
    g["p"] += 1
    assert (p.numpy() == X).all()
    close(g["again"], 8 * X)  # no memory is shared


def test_11_gradients_share_no_memory():
    p, q = at.Param(X), at.Param(X)
    with at.Tape() as t:
        loss = (p + q).sum()
    gp, gq = t.gradient(loss, [p, q])
    assert not np.shares_memory(gp, gq)
    gp += 1
    close(gq, 1)


def test_11_a_tape_is_walked_once_unless_persistent():
    p = at.Param(3.0)
    with at.Tape() as t:
        y = p * p
    assert t.gradient(y, p) == 6
    with pytest.raises(TapeError, match=r"used up.*persistent=True"):
        t.gradient(y, p)
    with at.Tape(persistent=True) as t:
        y, z = p * p, p * p * p
    assert [float(t.gradient(v, p)) for v in (y, z, y)] == [6, 27, 6]
    t.close()
    with pytest.raises(TapeError, match="used up"):
        t.gradient(y, p)


def test_11_a_persistent_tape_may_be_asked_inside_and_its_answer_differentiated():
    x = np.array(2.0)
    with at.Tape(persistent=True) as t:
        x = t.watch(x)
        y = x**4
        dy = t.gradient(y, x)
        ddy = t.gradient(dy, x)
    assert float(dy) == 32 and float(ddy) == 48 and float(t.gradient(ddy, x)) == 48 and float(t.gradient(y, x)) == 32


def test_11_wrong_use_of_a_tape():
    p, t = at.Param(X), at.Tape()
    with pytest.raises(TapeError, match="not entered"):
        t.gradient(p, p)
    with pytest.raises(TapeError, match="not entered"):
        t.watch(X)
    with t:
        y = p * p
        loss = y.sum()
        with pytest.raises(TapeError, match="after the `with` block"):
            t.gradient(loss, p)
    for bad, message in (
        (y, r"shape \(3,\); a scalar is needed"),
        (3.0, "not recorded"),
        (at.array(1.0), "not recorded"),
        (None, "not recorded"),
    ):
        with pytest.raises((TypeError, TapeError), match=message):
            t.gradient(bad, p)
    for source, kind in ((X, TypeError), (3.0, TypeError), ("p", TypeError), (at.array(X), TapeError)):
        with pytest.raises(kind, match=r"tape\.gradient: a source"):
            t.gradient(loss, [p, source])
    close(t.gradient(loss, p), 2 * X)  # none of these has used it up
    with pytest.raises(TapeError, match="entered already"), t:
        pass
    with pytest.raises(TapeError):
        t.watch(X)
    with pytest.raises((TapeError, TypeError)), at.Tape() as t:
        t.watch(np.arange(3))
    assert clean()


def test_11_an_untracked_loss_and_other_tapes():
    p = at.Param(X)
    with at.Tape() as t:
        other = (p * p).sum()
    with at.Tape() as u:
        with at.no_grad():
            hidden = (p * p).sum()
        loss = (p * 2).sum()
    for bad in (hidden, other):
        with pytest.raises(TapeError, match="not recorded on this tape"):
            u.gradient(bad, p)
    with pytest.raises(TapeError, match=r"source.*not recorded on this tape"):
        u.gradient(loss, other)
    close(u.gradient(loss, p), [2, 2, 2])
    close(t.gradient(other, p), 2 * X)


def test_11_watching_intermediates_and_tensors():
    with at.Tape() as t:
        x = t.watch(X)
        y = t.watch(x * x)
        assert t.watch(y) is y and t.watch(x) is x
        c = t.watch(at.array(X))
        loss = (y * y * c).sum()
    gx, gy, gc_ = t.gradient(loss, (x, y, c))
    close(gy.numpy(), 2 * X * X * X)
    close(gx.numpy(), 4 * X**4)
    close(gc_.numpy(), X**4)


def test_11_watched_arrays_are_not_written_to_and_gradients_are_tensors():
    x = X.copy()
    with at.Tape() as t:
        w = t.watch(x)
        loss = (w + w + w).sum()
    g = t.gradient(loss, w)
    assert type(g) is at.Tensor and not np.shares_memory(g.numpy(), x) and (x == X).all()


def test_11_one_param_on_two_tapes():
    p = at.Param(3.0)
    with at.Tape() as outer:
        with at.Tape() as inner:
            y = p * p * p
        dy = inner.gradient(y, p)
        z = dy * p  # 3 p^3
    assert float(dy) == 27 and float(y) == 27 and type(dy) is at.Tensor
    assert outer.gradient(z, p) == 81
    assert float(at.grad(lambda x: tape_gradient(lambda: x * p * p, p))(2.0)) == 6


def tape_gradient(f, p):
    with at.Tape() as t:
        y = f()
    return t.gradient(y, p)


def test_11_a_transform_inside_a_tape_and_the_other_way_round():
    p = at.Param(X)
    with at.Tape() as t:
        loss = at.grad(lambda q: (q**3).sum())(p).sum()
    close(t.gradient(loss, p), 6 * X)
    close(at.grad(lambda q: (q * p).sum())(p), X)  # with respect to the argument alone
    close(at.grad(lambda x: (tape_gradient(lambda: (p * x * x).sum(), p) * x).sum())(X), 3 * X * X)


def test_11_nested_tapes_see_only_their_own_part():
    p = at.Param(2.0)
    with at.Tape() as outer:
        a = p * p
        with at.Tape() as inner:
            b = a * p  # a was made outside: a constant to the tape inside
        g = inner.gradient(b, p)
        loss = g * b  # a * a * p = p^5
    assert float(g) == 4 and outer.gradient(loss, p) == 80


def test_11_one_param_in_two_threads():
    p, barrier = at.Param(X), threading.Barrier(2, timeout=20)

    def work(k):
        with at.Tape() as t:
            y = p * k
            barrier.wait()
            loss = (y * p).sum()
        barrier.wait()
        return t.gradient(loss, p)

    found = []
    other = threading.Thread(target=lambda: found.append(work(5.0)))
    other.start()
    close(work(2.0), 4 * X)
    other.join()
    close(found[0], 10 * X)
    p -= 1.0
    close(p.numpy(), X - 1)


def test_11_params_inside_grad_and_grad_of_params():
    p, q = at.Param(X), at.Param(2.0)
    g = at.grad(lambda ps: (ps["p"] * ps["p"] * q).sum())({"p": p})
    close(g["p"], 4 * X)
    close(at.grad(lambda x: (x * p).sum())(np.ones(3)), X)
    close(at.grad(lambda p: (at.grad(lambda p: (p**3).sum())(p) * X).sum())(p), 6 * X * X)
    p -= g["p"]
    assert p.version == 1 and type(at.value_and_grad(lambda p: (p * p).sum())(p)[0]) is np.float64


UPDATES = {
    "+=": lambda p: p.__iadd__(1.0),
    "-=": lambda p: p.__isub__(np.ones(3)),
    "*=": lambda p: p.__imul__(2.0),
    "/=": lambda p: p.__itruediv__(at.array(2.0)),
    "value": lambda p: setattr(p, "value", np.zeros(3)),
}


@pytest.mark.parametrize("update", UPDATES)
def test_11_a_watched_param_may_not_change_until_its_tape_is_walked(update):
    p, change = at.Param(X), UPDATES[update]

    def refused():
        with pytest.raises(TapeError, match="still to be walked"):
            change(p)
        assert p.version == 0 and (p.numpy() == X).all()

    with at.Tape() as t:
        loss = (p * p).sum()
        refused()
    refused()
    close(t.gradient(loss, p), 2 * X)
    with at.Tape(persistent=True) as t:
        loss = (p * p).sum()
    t.gradient(loss, p)
    refused()
    t.close()
    _, pull = at.vjp(lambda p: (p * p).sum(), p)
    refused()
    pull(1.0)
    refused()
    del pull
    with at.Tape() as t:
        loss = (p * p).sum()
    del t, loss  # dropped unwalked
    gc.collect()
    change(p)
    assert p.version == 1


def test_11_a_param_is_free_again_after_transforms_and_exceptions():
    p = at.Param(X)
    at.grad(lambda p: (p * p).sum())(p)
    at.grad(lambda x: (x * p).sum())(X)
    for f in (lambda p: (p * p).sum() / (1 // 0), lambda p: p * p):
        with pytest.raises((ZeroDivisionError, TypeError)):
            at.grad(f)(p)
    with pytest.raises(ZeroDivisionError), at.Tape():
        (p * p).sum() / (1 // 0)
    with at.no_grad():
        p * p
    p -= 1.0
    assert p.version == 1

    def f(x):
        y = (x * p).sum()
        with pytest.raises(TapeError):
            p.value = X
        return y

    close(at.grad(f)(X), X - 1)


def test_11_an_update_is_not_seen_by_values_made_before():
    p = at.Param(X)
    with at.Tape() as t:
        w = t.watch(p)
        views = [w, p.reshape(3, 1), p[1:], p.T, w + 0.0]
        loss = (p * p).sum()
    outside = [p.reshape(3, 1), p[::-1], at.stop_gradient(p), p.copy()]
    before = [v.numpy().copy() for v in (*views, *outside)]
    p -= t.gradient(loss, p)
    for v, b in zip((*views, *outside), before, strict=True):
        close(v.numpy(), b)


def test_a_param_holds_floats_of_one_shape_and_dtype():
    for bad in (np.arange(3), True, 3, "text", None, np.array([None])):
        with pytest.raises((TypeError, ValueError)):
            at.Param(bad)
    p = at.Param(X.astype(np.float32))
    p.value = [1, 2, 3]
    assert p.dtype == np.float32 and p.version == 1 and p.value.tolist() == [1, 2, 3] and p.size == 3 and p.ndim == 1 and len(p) == 3
    p -= np.float64(0.5)
    p *= 2
    p /= at.array([1.0, 2.0, 4.0])
    assert p.dtype == np.float32 and p.value.tolist() == [1, 1.5, 1.25] and p.version == 4
    for bad in (np.ones(4), 1.0, np.ones((1, 3))):
        with pytest.raises(ValueError, match=r"shape \(3,\) can't take a value of shape"):
            p.value = bad
    with pytest.raises(ValueError):
        p -= np.ones((2, 3))
    kind, message = (ValueError, "read-only") if kernels().array is np.ndarray else (TypeError, "item assignment")
    with pytest.raises(kind, match=message):
        p.value[0] = 1
    assert p.version == 4


def test_a_param_copies_what_it_is_given():
    x = X.copy()
    p = at.Param(x)
    q = at.Param(p.value)
    x[:] = 0
    p -= 1.0
    close(q.numpy(), X)
    close(p.numpy(), X - 1)
    p.value = x
    x += 5
    assert not p.numpy().any()


def test_a_param_is_not_changed_by_a_tracked_tensor():
    p = at.Param(X)

    def f(x):
        for change in (lambda: p.__isub__(x), lambda: setattr(p, "value", x), lambda: at.Param(x)):
            with pytest.raises(TypeError, match=r"at\.stop_gradient"):
                change()
        return x.sum()

    at.grad(f)(X)
    assert p.version == 0


def test_what_gives_a_param_as_it_is_gives_its_value():
    for f in (np.real, np.real_if_close, lambda p: np.diff(p, 0), np.atleast_1d, np.ravel, np.asarray):
        p = at.Param(np.ones(2))
        y = f(p)
        p -= 1.0
        np.testing.assert_array_equal(y, [1, 1])


def test_params_pickle_print_and_take_part_in_numpy():
    p = at.Param(X)
    again = pickle.loads(pickle.dumps(p))
    assert type(again) is at.Param and (again.numpy() == X).all() and repr(p) == "Param([ 0.5, -1.5,  2. ])"
    close(np.asarray(p), X)
    for t in (np.tanh(p), p + 1, 1 + p, p @ X, X @ p, p.sum(), p[0], -p, np.concatenate([p, p]), p.reshape(3, 1), p > 0):
        assert type(t) is at.Tensor and t._id == -1


# ---------------------------------------------------------------- order


def test_11_tapes_left_in_another_order_raise_and_leave_clean_state():
    a, b = at.Tape(), at.Tape()
    a.__enter__()
    b.__enter__()
    for t in (a, b):
        with pytest.raises(TapeError, match="last in, first out"):
            t.__exit__(None, None, None)
    assert clean()
    assert at.grad(lambda x: x * x)(3.0) == 6.0


def test_11_inner_tapes_left_in_another_order_raise():
    with at.Tape() as outer:
        p = at.Param(2.0)
        a, b = at.Tape(), at.Tape()
        a.__enter__()
        b.__enter__()
        for t in (a, b):
            with pytest.raises(TapeError, match="last in, first out"):
                t.__exit__(None, None, None)
        y = p * p
    assert outer.gradient(y, p) == 4 and clean()


def test_11_an_exception_closes_every_tape_on_its_way():
    p = at.Param(X)
    tapes = [at.Tape(), at.Tape(persistent=True)]
    with pytest.raises(ZeroDivisionError), tapes[0], tapes[1]:
        y = (p * p).sum()
        raise ZeroDivisionError
    for t in tapes:
        with pytest.raises(TapeError):
            t.gradient(y, p)
    p -= 1.0
    assert clean()


# ---------------------------------------------------------------- settings


def test_12_a_tape_remembers_its_backend_and_math_mode():
    seen, before = [], backend.get()

    @operator
    def noted(x):
        return kernels().copy(x)

    @noted.backward
    def _(dy):
        seen.append((backend.get(), math_mode.get()))
        return dy * 1

    with backend.use("strict"), math_mode.use("pedantic"):
        p = at.Param(X)
        with at.Tape(persistent=True) as t:
            loss = (noted(p) * p).sum()
        _, pull = at.vjp(lambda x: (noted(x) * x).sum(), p)
        strict = kernels()
    g = t.gradient(loss, p)
    (h,) = pull(1.0)
    assert type(g) is type(h) is strict.array
    close(strict.to_numpy(g), 2 * X)
    close(strict.to_numpy(h), 2 * X)
    with math_mode.use("fast"):
        t.gradient(loss, p)
    assert seen == [("strict", "pedantic")] * 3 and (backend.get(), math_mode.get()) == (before, "default")
    close(p.numpy(), X)
    t.close()
    del pull
    p -= g
    close(p.numpy(), -X)


def test_12_settings_are_restored_if_a_rule_raises():
    before = backend.get()

    @operator
    def broken(x):
        return kernels().copy(x)

    @broken.backward
    def _(dy):
        raise ZeroDivisionError

    with backend.use("strict"), math_mode.use("fast"):
        _, pull = at.vjp(lambda x: broken(x).sum(), kernels().adopt(X))
    with pytest.raises(ZeroDivisionError):
        pull(1.0)
    assert (backend.get(), math_mode.get()) == (before, "default") and clean()


# ---------------------------------------------------------------- fused chains


W4, X4, B4 = (np.random.default_rng(0).normal(size=s) for s in ((3, 2, 3, 3), (2, 2, 5, 5), (3, 1, 1)))


def test_27_watch_makes_a_pending_value_real_and_a_fused_away_source_raises():
    for watched in (True, False):
        with at.Tape(persistent=True) as t:
            w = t.watch(W4)
            h = v20.conv4(w, X4)
            z = h + B4
            if watched:
                h, z = t.watch(h), t.watch(z)
            loss = (v20.relu(z) ** 2).sum()
        if watched:
            gh, gz = t.gradient(loss, [h, z])
            close(gh.numpy(), gz.numpy())
            close(gz.numpy(), 2 * np.maximum(z.numpy(), 0))
        else:
            for source in (h, z):
                with pytest.raises(TapeError, match=r"fused away.*tape\.watch"):
                    t.gradient(loss, source)
            with math_mode.use("pedantic"), at.Tape() as u:
                w = u.watch(W4)
                z = v20.conv4(w, X4) + B4
                loss = (v20.relu(z) ** 2).sum()
            close(u.gradient(loss, z).numpy(), 2 * np.maximum(z.numpy(), 0))


def test_11_a_change_in_place_is_seen_by_nobody_who_took_the_value():
    def lower(array):
        k = backend.kernels()
        k.update_sgd(array, array, k.ones(array.shape, array.dtype), 1.0, 1.0, 0.0)

    for name in ("numpy", "strict") if backend.get() == "numpy" else (backend.get(),):
        with backend.use(name):
            p = at.Param(np.ones((2, 3)))
            taken = [p.T, p.reshape((3, 2)), p[0], at.stop_gradient(p), p.value]
            version = p.version
            p.change(lower)
            assert p.version == version + 1 and (p.numpy() == 0).all()
            for t in taken:
                values = backend.kernels().to_numpy(t._array if isinstance(t, at.Tensor) else t)
                assert (values == 1).all()
