"""Settings and tapes in threads, tasks, generators and decorators: what is whose, and that every context is left as it was found.

A number in a test's name is the rule of the fine print that it holds the engine to: clean state (10), state (16).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import gc
import threading

import numpy as np
import pytest

import autotape as at
import autotape.testing  # registers the backend "strict"
from autotape import backend, blas, debugging, math_mode, profiling, tape
from autotape.errors import TapeError

close = np.testing.assert_allclose
X = np.array([0.5, -1.5, 2.0])
DEFAULT = backend.get()
CONTEXTS = {
    "no_grad": (at.no_grad, tape.current),
    "backend": (lambda: backend.use("strict"), backend.get),
    "math_mode": (lambda: math_mode.use("fast"), math_mode.get),
}
each_context = pytest.mark.parametrize("name", CONTEXTS)


@pytest.fixture(autouse=True)
def no_test_spoils_the_next():
    yield
    for var in (tape._tape, tape._home, backend._override, math_mode._override):
        var.set(None)
    tape._live.clear()
    backend.set(DEFAULT)
    math_mode.set("default")


def state():
    return tape.current(), tape.home(), backend.get(), math_mode.get(), len(tape._live)


CLEAN = (None, None, DEFAULT, "default", 0)


def in_thread(f):
    """What f gives, or the exception it raises, in another thread."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(f)
        return future.exception() or future.result()


# ---------------------------------------------------------------- what a setting is


def test_16_set_changes_the_default_and_use_overrides_it():
    math_mode.set("fast")
    backend.set("strict")
    assert (backend.get(), math_mode.get()) == ("strict", "fast")
    with backend.use("numpy"), math_mode.use("pedantic"):
        assert (backend.get(), math_mode.get()) == ("numpy", "pedantic")
        math_mode.set("default")  # the default, not the override
        backend.set(DEFAULT)
        assert (backend.get(), math_mode.get()) == ("numpy", "pedantic")
    assert state() == CLEAN


def test_16_overrides_nest_and_give_what_they_set():
    with backend.use("strict") as k:
        assert k is at.kernels() and k.name == "strict"
        with backend.use("numpy"):
            assert backend.get() == "numpy"
        assert backend.get() == "strict"
        with pytest.raises(ZeroDivisionError), backend.use("numpy"):
            raise ZeroDivisionError
        assert backend.get() == "strict"
    assert state() == CLEAN


def test_unknown_modes_are_refused():
    for act in (math_mode.set, math_mode.use):
        with pytest.raises(ValueError, match=r"'quick' is unknown: use one of 'pedantic', 'default', 'fast'"):
            act("quick")
    assert math_mode.get() == "default"


# ---------------------------------------------------------------- threads


def test_16_a_new_thread_sees_the_defaults():
    def f(x):
        with backend.use("strict"), math_mode.use("fast"):
            assert in_thread(state)[:4] == (None, None, DEFAULT, "default")
        return x * x

    at.grad(f)(2.0)
    with at.no_grad():
        assert in_thread(lambda: at.grad(lambda x: x * x)(3.0)) == 6.0
    math_mode.set("pedantic")
    assert in_thread(math_mode.get) == "pedantic"


def test_16_threads_with_different_backends_tapes_and_no_grad_at_once():
    n, rounds = 6, 20
    barrier, p = threading.Barrier(n, timeout=30), at.Param(X)

    def work(i):
        mode, name = ("pedantic", "default", "fast")[i % 3], (DEFAULT, "strict")[i % 2]
        found = []
        barrier.wait()
        for k in range(rounds):
            with backend.use(name), math_mode.use(mode):
                c = float(i + k)
                found.append(at.grad(lambda x, c=c: (np.tanh(x) * c).sum())(X))
                with at.no_grad():
                    assert (at.array(X) * 2)._id == -1 and tape.current() is None
                    found.append(at.grad(lambda x, c=c: (x * x * c).sum())(X))
                with at.Tape() as t:
                    w = t.watch(X)
                    loss = (w * c).sum()
                    if name == DEFAULT:
                        loss = loss + (p * c).sum()
                found.append(t.gradient(loss, w).numpy())
                found.append(at.grad(lambda x: at.grad(lambda y: y**4)(x))(c))
                assert (backend.get(), math_mode.get()) == (name, mode)
        assert state()[:4] == CLEAN[:4]
        return found

    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        results = list(pool.map(work, range(n)))
    for i, found in enumerate(results):
        for k in range(rounds):
            c = float(i + k)
            for a, b in zip(found[4 * k : 4 * k + 4], (c * (1 - np.tanh(X) ** 2), 2 * c * X, np.full(3, c), 12 * c * c), strict=True):
                close(a, b)
    assert state() == CLEAN


def test_16_an_operator_may_be_called_first_by_many_threads_at_once():
    for _ in range(10):

        @at.operator
        def fresh(x, k=2.0):
            return at.kernels().multiply(x, at.kernels().scalar(k, x.dtype))

        @fresh.backward
        def _(dy, k):
            return dy * k

        barrier = threading.Barrier(8, timeout=30)

        def work(k, fresh=fresh, barrier=barrier):
            barrier.wait()
            return at.grad(lambda x: fresh(x, k=k))(1.0), at.grad(lambda x: fresh(x))(1.0)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [(float(k), 2.0) for k in range(8)]


def test_16_constants_travel_between_threads():
    t = at.array(X)
    close(in_thread(lambda: at.grad(lambda x: (x * t).sum())(X)), X)
    kept = []
    at.grad(lambda x: kept.append(x * 2) or x.sum())(X)
    close(in_thread(lambda: (kept[0] * 1.0).numpy()), 2 * X)
    pull = in_thread(lambda: at.vjp(lambda x: x * x, X)[1])
    close(pull(X)[0], 2 * X * X)


def test_09_a_tensor_recorded_in_another_thread_raises():
    def f(x):
        for use in (lambda: x * 2, lambda: at.grad(lambda y: (x * y).sum())(X), lambda: at.vjp(lambda y: x @ y, X)):
            e = in_thread(use)
            assert isinstance(e, TapeError) and "another thread or task" in str(e)
        e = in_thread(lambda: at.no_grad()(lambda: x * 2)())
        assert isinstance(e, TapeError)
        return x.sum()

    close(at.grad(f)(X), 1)
    assert state() == CLEAN


# ---------------------------------------------------------------- tasks


def test_16_tasks_have_their_own_tapes_and_overrides():
    async def one(n):
        name, mode = (DEFAULT, "strict")[n % 2], ("pedantic", "fast")[n % 2]
        with backend.use(name), math_mode.use(mode):
            await asyncio.sleep(0)
            with at.Tape() as t:
                x = t.watch(X)
                await asyncio.sleep(0)
                y = x * float(n)
                await asyncio.sleep(0)
                loss = (y * x).sum()
            await asyncio.sleep(0)
            assert (backend.get(), math_mode.get()) == (name, mode)
            return t.gradient(loss, x).numpy(), at.grad(lambda x: (x * float(n)).sum())(X)

    async def main():
        return await asyncio.gather(*(one(n) for n in range(8)))

    for n, (a, b) in enumerate(asyncio.run(main())):
        close(a, 2 * n * X)
        close(b, n)
    assert state() == CLEAN


def test_16_tasks_inherit_their_parents_override():
    async def child():
        inherited = math_mode.get()
        with math_mode.use("fast"):
            await asyncio.sleep(0)
        return inherited

    async def main():
        with math_mode.use("pedantic"):
            tasks = [asyncio.create_task(child()) for _ in range(3)]
            found = await asyncio.gather(*tasks)
            assert math_mode.get() == "pedantic"
            return found

    assert asyncio.run(main()) == ["pedantic"] * 3


def test_09_a_tensor_recorded_in_another_task_raises():
    async def main():
        box = asyncio.get_running_loop().create_future()

        async def owner():
            with at.Tape() as t:
                x = t.watch(X)
                box.set_result(x)
                await asyncio.sleep(0.01)
                loss = (x * x).sum()
            return t.gradient(loss, x).numpy()

        async def other():
            x = await box
            with pytest.raises(TapeError, match="another thread or task"):
                x * 2
            return at.grad(lambda y: (y * y).sum())(X)

        return await asyncio.gather(owner(), other())

    for g in asyncio.run(main()):
        close(g, 2 * X)


# ---------------------------------------------------------------- decorators and reuse


@each_context
def test_as_decorators(name):
    make, look = CONTEXTS[name]

    @make()
    def f(n):
        """Doc."""
        inside.append(look())
        return f(n - 1) if n else 1

    inside = []
    before = look()
    assert f(2) == 1 and f(1) == 1 and f.__name__ == "f" and f.__doc__ == "Doc."
    with make():
        assert inside == [look()] * 5
    assert look() == before
    f_raises = make()(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            f_raises()
    assert state() == CLEAN


def test_no_grad_as_a_decorator_hides_from_the_tape():
    @at.no_grad()
    def frozen(x):
        assert not tape.is_recording()
        return x * 3

    close(at.grad(lambda x: (frozen(x) * x).sum())(X), 3 * X)
    assert at.grad(lambda x: frozen(x) * x)(2.0) == 6.0


def test_a_decorated_function_runs_in_many_threads_at_once():
    @backend.use("strict")
    def f():
        barrier.wait()
        return backend.get()

    barrier = threading.Barrier(4, timeout=30)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert [r.result() for r in [pool.submit(f) for _ in range(4)]] == ["strict"] * 4


@each_context
def test_a_context_object_may_be_used_again_but_not_inside_itself(name):
    make, _ = CONTEXTS[name]
    context = make()
    for _ in range(2):
        with context, pytest.raises(RuntimeError, match="entered already"):
            context.__enter__()
        assert state() == CLEAN


# ---------------------------------------------------------------- generators and order


@each_context
def test_10_contexts_left_in_another_order_raise(name):
    make, _ = CONTEXTS[name]
    other = {"no_grad": make, "backend": lambda: backend.use("numpy"), "math_mode": lambda: math_mode.use("pedantic")}[name]

    def f(x):
        before = state()
        a, b = make(), other()
        a.__enter__()
        b.__enter__()
        errors = []
        for context in (a, b):
            try:
                context.__exit__(None, None, None)
            except RuntimeError as e:
                errors.append(str(e))
        assert errors and "another order" in errors[0]
        assert state() == before
        return x * x

    assert at.grad(f)(3.0) == 6.0
    f(1.0)
    assert state() == CLEAN


def suspended(x):
    with at.no_grad():
        yield x * 2


def test_10_a_generator_suspended_inside_no_grad_raises():
    kept = []

    def f(x):
        kept.append(suspended(x))
        next(kept[-1])  # from here on nothing would be recorded
        return (x * x).sum()

    with pytest.raises(TapeError, match="generator suspended"):
        at.grad(f)(X)
    del kept[:]  # closes the generator, which leaves its no_grad now
    assert state() == CLEAN
    close(at.grad(lambda x: (x * x).sum())(X), 2 * X)
    assert type(at.grad(lambda x: x * x)(2.0)) is float


def test_10_a_generator_suspended_inside_no_grad_in_a_nested_level_or_a_tape_raises():
    kept = []

    def inner(x):
        kept.append(suspended(x))
        next(kept[-1])
        return (x * x).sum()

    def in_tape():
        with at.Tape() as t:
            inner(t.watch(X))

    for run in (lambda: at.grad(lambda x: at.grad(inner)(x).sum())(X), in_tape):
        with pytest.raises(TapeError, match="generator suspended"):
            run()
        kept.clear()
        assert state() == CLEAN


@pytest.mark.parametrize("make", [lambda: math_mode.use("pedantic"), at.profile, at.debug, at.Tape])
@pytest.mark.parametrize("end", ["close", "go on", "drop", "in a thread"])
def test_a_generator_entered_in_a_context_that_is_gone_gives_back_what_is_the_processs(make, end):
    def suspended():
        with make():
            yield

    held = suspended()
    contextvars.copy_context().run(next, held)
    assert blas._held + profiling._contexts + debugging._contexts + len(tape._live) == 1
    if end == "close":
        held.close()
    elif end == "go on":
        with pytest.raises((RuntimeError, TapeError), match=r"another order|last in, first out"):
            next(held)
    elif end == "in a thread":
        in_thread(held.close)
    del held
    gc.collect()
    assert (blas._held, profiling._contexts, debugging._contexts, len(tape._live)) == (0, 0, 0, 0)


def test_10_a_generator_that_finishes_inside_its_caller_is_fine():
    def numbers(x):
        with at.no_grad():
            c = x * 2
        for k in range(3):
            yield c * float(k)

    close(at.grad(lambda x: sum((x * c).sum() for c in numbers(x)))(X), 6 * X)
    close(at.grad(lambda x: sum((x * c).sum() for c in list(suspended(x))))(X), 2 * X)


def test_10_a_generator_suspended_inside_a_tape_leaves_clean_state():
    def generate(x):
        with at.Tape() as t:
            w = t.watch(x)
            yield (w * w).sum()

    def f(x):
        it = generate(x)
        kept.append(it)
        return next(it) * 2

    kept = []
    with contextlib.suppress(RuntimeError):
        at.grad(f)(X)
    it = generate(X)
    next(it)
    it.close()
    kept.clear()
    assert tape.current() is None and tape.home() is None


def test_a_copied_context_keeps_what_it_saw():
    with math_mode.use("fast"):
        ctx = contextvars.copy_context()
    assert ctx.run(math_mode.get) == "fast" and math_mode.get() == "default"
