"""profile: what it counts is exact, what it times adds up, results are the same, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import re
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autotape as at
from autotape import backend, fusion, math_mode, operator, profile_book, profiling
from autotape.backends.numpy_backend import NumpyKernels
from autotape.cli import main
from autotape.operator import OPERATORS, _looks
from autotape.opsets import array, v20
from autotape.testing import StrictArray  # noqa: F401  registers backend "strict"

X = np.linspace(-1, 1, 100)
with backend.use("numpy"):
    T, SHORT = at.array(X), at.array(X[:3])


@pytest.fixture(autouse=True)
def on_numpy():
    """In all threads."""
    v20.conv4.op.fusion.plans.clear()  # what other tests taught it
    before = backend.get()
    backend.set("numpy")
    with math_mode.use("default"):
        yield
    backend.set(before)
    v20.conv4.op.fusion.plans.clear()


@pytest.fixture
def ticks(monkeypatch):
    """A clock that goes on by a millisecond whenever it is asked."""
    times = iter(range(0, 10**12, 10**6))
    monkeypatch.setattr(profiling, "clock", lambda: next(times))


def counted(p):
    """{(operator, direction, kernel): (calls, bytes)}"""
    found = {(r.operator, r.direction, r.kernel): (r.calls, r.nbytes) for r in p.rows}
    assert len(found) == len(p.rows), p.rows
    return found


def loss(x):
    return np.sum(np.tanh(x) * x)


def images(dtype=np.float32):
    rng = np.random.default_rng(0)
    return (at.array(rng.normal(size=s).astype(dtype)) for s in [(4, 3, 3, 3), (2, 3, 8, 8), (4, 1, 1)])


# ---------------------------------------------------------------- what is counted


def test_counts_and_bytes_of_a_gradient():
    with at.profile() as p:
        for _ in range(3):
            at.grad(loss)(X)
    assert counted(p) == {
        ("tanh", "forward", "tanh"): (3, 3 * 800),
        ("multiply", "forward", "multiply"): (3, 3 * 800),
        ("sum", "forward", "sum"): (3, 3 * 8),
        ("sum", "backward", "broadcast_to"): (3, 0),  # a view
        ("multiply", "backward", ""): (3, 3 * 1600),  # the cotangents of both
        ("tanh", "backward", ""): (3, 3 * 800),  # their sum
        ("", "", "ones"): (3, 3 * 8),
    }
    assert {r.backend for r in p.rows} == {"numpy"} and {r.algorithm for r in p.rows} == {"numpy", ""}


@given(
    st.lists(st.sampled_from(["tanh", "exp", "sin", "negative", "square"]), min_size=1, max_size=8),
    st.sampled_from([(), (3,), (2, 0), (4, 5)]),
    st.sampled_from([np.float32, np.float64]),
)
def test_every_operator_of_a_program_counts_and_nothing_changes(names, shape, dtype):
    x = np.full(shape, 0.5, dtype)

    def f(x):
        for name in names:
            x = getattr(np, name)(x)
        return np.sum(x)

    plain = at.value_and_grad(f)(x)
    with at.profile() as p:
        profiled = at.value_and_grad(f)(x)
    for a, b in zip(plain, profiled, strict=True):
        assert type(a) is type(b) and np.asarray(a).tobytes() == np.asarray(b).tobytes(), (names, shape)
    forward = {k: v for k, v in counted(p).items() if k[1] == "forward" and k[0] != "sum"}
    assert forward == {(n, "forward", n): (calls, calls * x.nbytes) for n, calls in Counter(names).items()}


def test_times_add_up():
    with at.profile() as p:
        at.grad(loss)(X)
        within = p.seconds
    assert 0 < within <= p.seconds
    seconds = [r.seconds for r in p.rows]
    assert min(seconds) >= 0 and seconds == sorted(seconds, reverse=True)
    assert p.outside == pytest.approx(1 - sum(seconds) / p.seconds, abs=1e-9) and 0 < p.outside < 1


def test_a_kernel_that_another_one_calls_is_a_part_of_it():
    class Nested(NumpyKernels):
        def conv(self, *args):
            at.kernels().matmul(np.ones((2, 2)), np.ones((2, 2)))
            return NumpyKernels().conv(*args)

    w, x, _ = images()
    with backend.use_kernels(Nested()), math_mode.use("pedantic"), at.profile() as p:
        v20.conv4(w, x)
    assert counted(p) == {("conv4", "forward", "conv"): (1, 2 * 4 * 6 * 6 * 4)}


def test_what_the_backend_says_of_a_kernel():
    class Told(NumpyKernels):
        name = "told"
        said = ("numpy", "")

        def conv(self, w, x, *rest):
            self.said = ("numpy", "float64") if x.dtype == np.float64 else ("brgconv", "")
            return NumpyKernels().conv(w, x, *rest)

        def account(self):
            said, self.said = self.said, ("numpy", "")
            return said

    with backend.use_kernels(Told()), math_mode.use("pedantic"):
        calls = [(*images(dtype),) for dtype in (np.float32, np.float64)]
        with at.profile() as p:
            for w, x, _ in calls:
                v20.conv4(w, x)
    assert {(r.backend, r.kernel, r.algorithm, r.fallback) for r in p.rows} == {
        ("told", "conv", "brgconv", ""),
        ("told", "conv", "numpy", "float64"),
    }
    assert "told: brgconv" in str(p) and "left to numpy: float64" in str(p)


def test_an_operators_own_arithmetic():
    @operator
    def twice(x):
        return x + x

    @twice.backward
    def _(dy):
        return array.multiply(dy, 2)

    with at.profile() as p:
        at.grad(lambda x: np.sum(twice(x)))(X)
    found = counted(p)
    assert found["twice", "forward", ""] == (1, 800)
    assert found["twice", "backward", "multiply"] == (1, 800)  # of the rule, whichever operator it is written with
    assert ("twice", "backward", "") not in found


def test_what_an_optimiser_runs_has_no_operator():
    w = np.ones(3)
    with at.profile() as p:
        at.kernels().update_sgd(w, w, np.ones(3), 0.1, 1.0, 0.0)
    assert counted(p) == {("", "", "update_sgd"): (1, 0)}


def test_what_is_brought_over():
    with backend.use("strict"), at.profile() as p:
        t = at.array(X)
        np.tanh(t) * X
        t.numpy()
    found = counted(p)
    assert found["", "", "adopt"] == (2, 1600) and found["", "", "to_numpy"] == (1, 800)
    assert "brought over" in str(p) and "brought to NumPy" in str(p)
    with at.profile() as p:  # NumPy's own are there already
        np.tanh(at.asarray(X)).numpy()
    assert counted(p) == {("tanh", "forward", "tanh"): (1, 800)}


# ---------------------------------------------------------------- fusion


def test_what_a_fused_operator_replaced():
    w, x, b = images()
    with at.profile() as p:
        v20.relu(v20.conv4(w, x) + b)
        array.tanh(v20.conv4(w, x))
        v20.conv_bias_act(w, x, b)
    assert {(r.operator, r.kernel, r.fused, r.calls) for r in p.rows} == {
        ("conv_bias_act", "conv_bias_act", "conv4 + add + relu", 1),
        ("conv_bias_act", "conv_bias_act", "conv4 + tanh", 1),
        ("conv_bias_act", "conv_bias_act", "", 1),
    }
    assert "was conv4 + add + relu" in str(p)


def test_chains_that_were_broken():
    w, x, b = images()
    with at.profile() as p:
        (v20.conv4(w, x) + b).numpy()
        h = v20.conv4(w, x)
        v20.relu(h)
        h.numpy()
    assert {(r.operator, r.fused, r.calls) for r in p.rows} == {
        ("conv4", "broken", 1),
        ("add", "broken", 1),
        ("conv_bias_act", "conv4 + relu", 1),
        ("conv4", "recomputed", 1),
    }
    assert "its chain was broken, so it ran again" in str(p)


# ---------------------------------------------------------------- where it is used


def test_transforms_and_tapes():
    def again(x):
        return np.sum(at.checkpoint(np.tanh)(x))

    @at.custom_gradient
    def own(x):
        return np.sum(np.exp(x)), x

    own.backward(lambda dy, x: dy * np.exp(x))
    small = X[:3]

    def tape():
        w = at.Param(small)
        with at.Tape() as tape:
            y = loss(w)
        return tape.gradient(y, w)

    runs = {"grad of checkpoint": lambda: at.grad(again)(small), "custom_gradient": lambda: at.grad(own)(small), "Tape": tape}
    runs |= {"jacobian": lambda: at.jacobian(np.tanh)(small), "hessian": lambda: at.hessian(loss)(small)}
    plain = {name: run() for name, run in runs.items()}
    with at.profile() as p:
        profiled = {name: run() for name, run in runs.items()}
    for name, y in plain.items():
        np.testing.assert_array_equal(y, profiled[name], strict=True, err_msg=name)
    with at.profile() as p:
        at.grad(again)(small)
    assert counted(p)["tanh", "forward", "tanh"] == (2, 48)  # it ran again
    assert ("tanh", "backward", "") in counted(p)
    with at.profile() as p:
        at.jacobian(np.tanh)(small)
    assert counted(p)["tanh", "backward", "multiply"] == (1, 72)  # three rows of cotangents
    with at.profile() as p:
        at.grad(lambda x: np.sum(at.grad(loss)(x)))(small)
    assert {r.direction for r in p.rows if r.operator == "tanh"} == {"forward", "backward"}


def test_a_tape_is_walked_on_the_backend_it_was_opened_on():
    with at.profile() as p:
        with backend.use("strict"):
            x = at.array(X)
            with at.Tape() as tape:
                x = tape.watch(x)
                y = np.sum(np.tanh(x))
        tape.gradient(y, x)
    assert {r.backend for r in p.rows} == {"strict"} and {r.direction for r in p.rows} == {"", "forward", "backward"}


def test_nested_profiles():
    with at.profile() as outer:
        at.grad(loss)(X)
        with at.profile() as inner:
            at.grad(loss)(X)
    assert {k: (2 * c, 2 * b) for k, (c, b) in counted(inner).items()} == counted(outer)
    assert inner.seconds < outer.seconds


def test_exceptions():
    p = at.profile()
    with pytest.raises(ValueError, match=r"^add"), p:
        np.tanh(T)
        T + SHORT
    assert counted(p) == {("tanh", "forward", "tanh"): (1, 800), ("add", "forward", "add"): (1, 0)}
    with p:  # it adds up
        np.tanh(T)
    assert counted(p)["tanh", "forward", "tanh"] == (2, 1600)


def test_entered_twice():
    with at.profile() as p, pytest.raises(RuntimeError, match="entered already"), p:
        pass
    with p:
        np.tanh(T)
    assert counted(p) == {("tanh", "forward", "tanh"): (1, 800)}


def test_as_a_decorator():
    p = at.profile()

    @p
    def descend(n):
        return descend(n - 1) if n else np.tanh(T)

    descend(3)
    descend(0)
    assert counted(p) == {("tanh", "forward", "tanh"): (2, 1600)}
    assert 0 < p.outside < 1 and p.outside == pytest.approx(1 - sum(r.seconds for r in p.rows) / p.seconds, abs=1e-9)


def test_a_generator_suspended_inside():
    def steps():
        with at.profile() as p:
            np.tanh(T)
            yield p
            np.tanh(T)

    with at.profile() as outer:
        run = steps()
        p = next(run)
        list(run)
    np.sin(T)
    assert counted(p) == counted(outer) == {("tanh", "forward", "tanh"): (2, 1600)}
    left = at.profile()
    with pytest.raises(RuntimeError, match="another order"), left:
        held = steps()
        p = next(held)
    held.close()
    np.tanh(T)
    assert counted(p) == {("tanh", "forward", "tanh"): (1, 800)}


def test_with_debug_around_and_inside():
    with at.debug(), at.profile() as p:
        at.grad(loss)(X)
    assert counted(p)["tanh", "backward", ""] == (1, 800)
    with at.profile() as inside, at.debug():
        at.grad(loss)(X)
    assert counted(inside) == counted(p)
    with at.profile() as p, at.debug(), pytest.raises(FloatingPointError, match="first infinity"), np.errstate(all="ignore"):
        at.grad(lambda x: np.sum(np.log(x)))(np.zeros(2))


@pytest.mark.parametrize("first, second", [(at.profile, at.debug), (at.debug, at.profile)])
def test_a_profile_and_a_debug_that_are_left_in_the_order_they_were_entered(first, second):
    forwards = [op.forward for op in OPERATORS.values()]
    here, there, a, b = contextvars.copy_context(), contextvars.copy_context(), first(), second()

    def log():
        with np.errstate(all="ignore"):
            return np.log(at.array(0.0))

    here.run(a.__enter__)
    there.run(b.__enter__)
    here.run(a.__exit__, None, None, None)
    if second is at.debug:
        with pytest.raises(FloatingPointError, match="first infinity"):
            there.run(log)
    else:
        there.run(log)
        assert counted(b)["log", "forward", "log"] == (1, 8)
    there.run(b.__exit__, None, None, None)
    assert [op.forward for op in OPERATORS.values()] == forwards


def test_operators_that_are_declared_inside():
    with at.profile() as p:

        @operator
        def inside(x):
            return at.kernels().tanh(x)

        inside(T)
        inside(T)
    assert counted(p) == {("inside", "forward", "tanh"): (2, 1600)}
    inside(T)
    assert not hasattr(inside.op.forward, "__wrapped__") and inside.op.namespace["_forward"] is inside.op.forward


def test_nothing_is_left_behind():
    def state():
        tables = {k.name: dict(vars(k)) for k in backend.loaded()}
        rule = v20.conv4.op.fusion
        return tables, [op.forward for op in OPERATORS.values()], list(_looks), fusion._run, dict(rule.next)

    array.tanh(T)
    before = state()
    with at.profile():
        at.grad(loss)(X)
        assert state() != before
    assert state() == before and array.tanh.op.namespace["_forward"] is array.tanh.op.forward


# ---------------------------------------------------------------- threads


def test_threads():
    def work():
        at.grad(loss)(X)

    def run(target):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()

    own = at.profile()
    with at.profile() as p:
        run(work)  # another thread is left alone
        assert p.rows == []
        run(own(work))
        assert p.rows == [] and own.rows
        context = contextvars.copy_context()
        run(lambda: context.run(work))
        copied = counted(p)
        work()
    assert copied == counted(own) and {k: (2 * c, 2 * b) for k, (c, b) in copied.items()} == counted(p)
    assert 0 < p.outside <= 1


def test_tasks():
    async def work():
        for _ in range(3):
            np.tanh(T)
            await asyncio.sleep(0)

    async def both():
        with at.profile() as p:
            await asyncio.gather(work(), work())
        await work()
        return p

    assert counted(asyncio.run(both())) == {("tanh", "forward", "tanh"): (6, 4800)}


def test_many_threads_at_once(tmp_path):
    p = at.profile()
    barrier = threading.Barrier(4)

    @p
    def work():
        barrier.wait()
        for _ in range(20):
            at.grad(loss)(X)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert counted(p)["tanh", "forward", "tanh"] == (80, 80 * 800)
    p.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert Counter(e["tid"] for e in events) == dict.fromkeys(range(4), len(events) // 4)
    assert_nested(events)


# ---------------------------------------------------------------- the trace


def assert_nested(events):
    """In each thread two events lie one in the other or apart, kernels inside operators."""
    by_thread = {}
    for e in events:
        by_thread.setdefault(e["tid"], []).append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), e))
    for spans in by_thread.values():
        open_ = []
        for start, end, e in spans:
            while open_ and open_[-1][1] <= start:
                open_.pop()
            assert not open_ or end <= open_[-1][1], f"{e} overlaps {open_[-1][2]}"
            assert len(open_) == (e["cat"] == "kernel" and "operator" in e["args"]), e
            open_.append((start, end, e))


def test_the_trace(tmp_path):
    path = tmp_path / "step.json"
    w, x, b = images()
    with at.profile() as p:
        at.grad(lambda b: np.sum(v20.relu(v20.conv4(w, x) + b)))(b)
        at.grad(loss)(X)
    p.trace(path)
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    assert trace["otherData"] == {"left_out": 0} and list(tmp_path.iterdir()) == [path]
    assert {e["ph"] for e in events} == {"X"} and {e["tid"] for e in events} == {0}
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in events) and [e["ts"] for e in events] == sorted(e["ts"] for e in events)
    assert_nested(events)
    kernels = Counter(e["name"] for e in events if e["cat"] == "kernel")
    of_rows = Counter()
    for r in p.rows:
        of_rows[r.kernel] += r.calls if r.kernel else 0
    assert kernels == +of_rows
    fused = next(e for e in events if e["name"] == "conv_bias_act forward")
    assert fused["args"] == {"operator": "conv_bias_act", "direction": "forward", "fused": "conv4 + add + relu"}


def test_a_trace_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(profile_book, "EVENTS", 10)
    with at.profile() as p:
        for _ in range(10):
            np.tanh(T)
    p.trace(str(tmp_path / "t.json"))
    trace = json.loads((tmp_path / "t.json").read_text())
    assert len(trace["traceEvents"]) == 10 and trace["otherData"] == {"left_out": 10}
    with pytest.raises(FileNotFoundError, match="no such folder"):
        p.trace(tmp_path / "nowhere" / "t.json")


# ---------------------------------------------------------------- the text


def test_the_table(ticks):
    w, x, b = images()
    with at.profile() as p:
        v20.relu(v20.conv4(w, x) + b)
        for _ in range(2):
            np.tanh(T)
    assert str(p) == inspect.cleandoc(
        """
        operator       pass     kernel         on     calls     ms      %   bytes
        tanh           forward  tanh           numpy      2  2.000   66.7  1.6 kB
        conv_bias_act  forward  conv_bias_act  numpy      1  1.000   33.3  1.2 kB  was conv4 + add + relu
        total                                             3  3.000  100.0  2.8 kB
        76.9 % of 13.000 ms was outside kernels: Python, the tape, your own code
        """
    )


def test_a_profile_of_nothing():
    p = at.profile()
    assert p.rows == [] and p.seconds == p.outside == 0
    assert str(p).splitlines()[1].split() == ["total", "0", "0.000", "0.0", "0", "B"]


@pytest.mark.parametrize("n, text", [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_345_678, "2.3 MB"), (12 * 10**9, "12.0 GB")])
def test_amounts(n, text):
    assert profile_book._amount(n) == text


# ---------------------------------------------------------------- the command line


def test_the_command_line(tmp_path, capsys):
    path = tmp_path / "trace.json"
    assert main(["train", "softmax", "--epochs", "1", "--profile"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"^matmul +forward +matmul +numpy +\d+", table, re.MULTILINE) and "was outside kernels" in table
    assert re.search(r"^- +- +update_adam ", table, re.MULTILINE)
    assert main(["train", "softmax", "--epochs", "1", "--profile", str(path)]) == 0
    assert capsys.readouterr().out.endswith(f"trace written to {path}\n") and json.loads(path.read_text())["traceEvents"]
    assert main(["train", "softmax", "--epochs", "1"]) == 0
    assert "outside kernels" not in capsys.readouterr().out
    assert main(["train", "softmax", "--profile", str(tmp_path / "no" / "t.json")]) == 2
    assert "--profile" in capsys.readouterr().err
