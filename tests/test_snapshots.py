"""Snapshots: a training that was killed, told to end, or failed goes on with the losses it would have had, bit for bit."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import autotape as at
import autotape.testing  # registers the backend "strict"
from autotape import backend, io, random, tensor_file
from autotape.opsets import v20 as ops
from autotape.train.callbacks import EarlyStop, FailOnNaN, LogCSV
from autotape.train.data import minibatch
from autotape.train.interruption import Signals
from autotape.train.loops import minimize, train
from autotape.train.optimisers import SGD, Adam, Momentum
from autotape.train.snapshots import Snapshots, load_params, newest, read

ROOT = Path(__file__).parent.parent
BACKENDS = ["numpy", "strict" if backend.get() == "numpy" else backend.get()]
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 4)), RNG.normal(size=30)


def loss(p, x, y):
    return np.mean((ops.dropout(np.tanh(x @ p["w"]), 0.2) @ p["v"] - y) ** 2)


def params(kind=lambda x: x, hidden=5):
    rng = np.random.default_rng(1)
    return {"w": kind(rng.normal(size=(hidden, 4)).T), "v": kind(rng.normal(size=hidden))}  # w in Fortran's order


def training(*callbacks, kind=lambda x: x, batches=None, opt=None, epochs=3, **options):
    """A training that depends on all that snapshots save; under `random.use(0)` it is always the same."""
    batches = minibatch(X, Y, 7, shuffle=True, partial=True) if batches is None else batches
    return train(loss, batches, opt or Adam(lr=0.01), params=params(kind), epochs=epochs, callbacks=callbacks, **options)


@pytest.fixture(autouse=True)
def seeded():
    with random.use(0):
        yield


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def name(number):
    return f"step-{number:09}.safetensors"


# ---------------------------------------------------------------- what is written, and when


def test_the_last_ones_stay_and_the_best_besides(tmp_path):
    values = {5: 3.0, 10: 1.0, 15: 2.0}
    for _ in training(Snapshots(tmp_path, keep=2, best=lambda step: values[step.number])):
        pass
    assert files(tmp_path) == ["best.safetensors", name(10), name(15)] and newest(tmp_path).name == name(15)
    assert [io.load(tmp_path / f, only="number") for f in files(tmp_path)] == [10, 10, 15]


def test_every_so_many_steps_and_the_last(tmp_path):
    seen = []
    for step in training(Snapshots(tmp_path, every=4, keep=99)):
        seen.append((step.number, files(tmp_path)))
    assert seen[3] == (4, []) and seen[4] == (5, [name(4)])  # when the loop's body is done with step 4
    assert files(tmp_path) == [name(n) for n in (4, 8, 12, 15)]


def test_a_finished_training_has_nothing_to_go_on_with_but_more_epochs_do(tmp_path):
    list(training(Snapshots(tmp_path)))
    for epochs in (3, 2, 0):
        with pytest.warns(RuntimeWarning, match=f"has made all its {epochs} epochs by step 15 and makes no more; a larger epochs="):
            assert list(training(Snapshots(tmp_path), resume=tmp_path, epochs=epochs)) == []
    list(training(Snapshots(tmp_path / "mid", every=8), epochs=2))
    with pytest.warns(RuntimeWarning, match="has made all its 1 epochs by step 8"):  # of epoch 2
        assert list(training(resume=tmp_path / "mid" / name(8), epochs=1)) == []
    assert [s.number for s in training(Snapshots(tmp_path), resume=tmp_path, epochs=4)] == [16, 17, 18, 19, 20]


def test_none_is_newest_where_there_is_none(tmp_path):
    assert newest(tmp_path) is None and newest(tmp_path / "nowhere") is None
    (tmp_path / "step-x.safetensors").touch()
    with pytest.raises(FileNotFoundError, match="there is no snapshot in"):
        training(resume=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no snapshot .*nowhere, nor a folder; newest"):
        training(resume=tmp_path / "nowhere")


def test_files_of_a_killed_writer_go(tmp_path):
    stale = tmp_path / f".{name(5)}.0a1b2c3d.tmp"
    stale.touch()
    next(training(Snapshots(tmp_path)))
    assert files(tmp_path) == []


# ---------------------------------------------------------------- going on


@pytest.mark.parametrize("kind", [lambda x: x, at.array, at.Param], ids=["arrays", "Tensors", "Params"])
@pytest.mark.parametrize("stop_at", [1, 3, 5, 7, 14])
def test_the_rest_has_the_same_bits(tmp_path, kind, stop_at):
    def run(seed, folder, **options):
        with random.use(seed):
            log, stop = LogCSV(folder / "log.csv"), EarlyStop(99, every=2)
            it = training(log, stop, Snapshots(tmp_path / "snapshots", every=1), kind=kind, **options)
            for step in it:
                random.normal(3)  # the loop's own draws, and its own way through the data
                if step.ends_epoch:
                    list(step.data)
                yield step.loss, stop.waited, stop.best
            yield [at.asarray(x if kind is not at.Param else x.value).numpy().tobytes() for x in it.params.values()]

    (tmp_path / "whole").mkdir()
    whole = list(run(0, tmp_path / "whole"))
    for path in (tmp_path / "snapshots").iterdir():
        path.unlink()
    first = run(0, tmp_path)
    begun = [next(first) for _ in range(stop_at + 1)][:stop_at]
    del first
    (tmp_path / "snapshots" / "best.safetensors").touch()  # never taken for the newest
    rest = list(run(99, tmp_path, resume=tmp_path / "snapshots"))
    assert begun + rest == whole
    assert (tmp_path / "log.csv").read_text() == (tmp_path / "whole" / "log.csv").read_text()


@pytest.mark.parametrize("kind", [at.array, at.Param], ids=["Tensors", "Params"])
def test_going_on_on_another_backend(tmp_path, kind):
    def losses(**options):
        random.current().state = random.Generator(0).state
        return [s.loss for s in training(Snapshots(tmp_path), kind=kind, **options)]

    with backend.use("strict"):
        first = losses(epochs=1)
        rest = losses(resume=tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    np.testing.assert_allclose(first + rest, losses(), rtol=1e-12)


@pytest.mark.parametrize("kind", [np.array, at.array, at.Param], ids=["arrays", "Tensors", "Params"])
@pytest.mark.parametrize("there", BACKENDS)
@pytest.mark.parametrize("here", BACKENDS)
@pytest.mark.parametrize("leaves", BACKENDS)
def test_a_state_goes_on_whatever_backend_it_comes_from(tmp_path, kind, there, here, leaves):
    whole = [s.loss for s in training(kind=kind)]
    random.current().state = random.Generator(0).state
    with backend.use(there):
        first = training(kind=kind)
        begun = [next(first).loss for _ in range(6)]
        state = first.state
        at.save(tmp_path / "state", state)
    for saved in (state, at.load(tmp_path / "state")):
        with backend.use(leaves):
            again = training(kind=kind)
        with backend.use(here):
            again.state = saved
            values = at.tree.leaves(again.params)
            assert all(type(x) is type(y) for x, y in zip(values, at.tree.leaves(params(kind)), strict=True))
            if kind is np.array or here == leaves:
                np.testing.assert_allclose(begun + [s.loss for s in again], whole, rtol=1e-12)


@pytest.mark.parametrize("kind", [np.array, at.Param], ids=["arrays", "Params"])
def test_a_state_stays_as_it_was(kind):
    run = training(kind=kind)
    next(run)
    state = run.state
    before = {path: np.array(x) for path, x in state["params"].items()}
    for w in run.params.values():
        w *= 2
    list(run)
    for path, x in state["params"].items():
        np.testing.assert_array_equal(x, before[path])


def test_a_state_that_is_refused_changes_nothing():
    run = training()
    next(run)
    for options in ({"opt": SGD()}, {"batches": minibatch(X, Y, 3)}, {"batches": [(X, Y)]}, {"kind": lambda x: at.Param(x[:2])}):
        other = training(**{"kind": at.Param, **options})
        before = str(other.state)
        with pytest.raises(ValueError):
            other.state = run.state
        assert str(other.state) == before


def test_a_training_that_was_stopped_says_so(tmp_path):
    list(training(Snapshots(tmp_path), lambda step: step.stop() if step.number == 3 else None))
    with pytest.warns(RuntimeWarning, match="was stopped at step 3 and makes no more"):
        assert list(training(resume=tmp_path)) == []
    run = training()
    run.state = {**read(tmp_path), "is_stopped": False}
    assert next(run).number == 4


def test_a_training_that_has_ended_goes_on_from_a_state_too(tmp_path):
    ends, run = [], training(Snapshots(tmp_path), lambda step: ends.append(step.number))
    begun = [next(run).loss for _ in range(7)]
    state, rest = run.state, [s.loss for s in run]
    for path in tmp_path.iterdir():
        path.unlink()
    run.state = state
    assert [s.loss for s in run] == rest and len(begun + rest) == 15 and ends == [*range(1, 16), *range(8, 16)]
    assert newest(tmp_path).name == name(15)


def test_options_are_the_programs_and_lr_unless_it_is_as_before(tmp_path):
    opt = Adam(lr=0.8, beta1=0.5)
    for _ in training(Snapshots(tmp_path), opt=opt, epochs=1):
        opt.lr /= 2
    for lr, gone_on_with in ((0.8, 0.8 / 2**5), (0.3, 0.3)):
        run = training(opt=Adam(lr=lr, beta1=0.9, schedule=lambda t: 0.5), resume=tmp_path)
        assert run.opt.options["beta1"] == 0.9 and next(run).lr == gone_on_with / 2


def test_what_is_no_state_is_named():
    for wrong in ({}, None, {**training().state, "random": None}.items(), {k: v for k, v in training().state.items() if k != "random"}):
        with pytest.raises(ValueError, match="this is no state of a training"):
            training().state = wrong

    class Own:
        def step(self, params, grads):
            return params

    with pytest.raises(TypeError, match="Own has no `state`, so no training with it can be saved"):
        training(opt=Own()).state  # noqa: B018


def test_a_state_from_before_the_first_step_begins_with_a_whole_epoch():
    for begun_by_others in (0, 2):
        batches = minibatch(X, Y, 7, shuffle=True, partial=True)
        if begun_by_others:
            it = iter(batches)
            next(it), next(it)
        run = training(batches=batches, epochs=2)
        again, state = training(epochs=2), run.state
        whole = [s.loss for s in run]
        again.state = state
        assert [s.loss for s in again] == whole and len(whole) == 10


class Named(NamedTuple):
    w: object
    state: object


@pytest.mark.parametrize("cls", [Named, make_dataclass("Data", ["w", ("state", object, None)])])
def test_a_field_may_be_called_state(cls):
    def run():
        return train(lambda p, x: np.sum((p.w + p.state - x) ** 2), [1.0, 2.0, 3.0], SGD(), params=cls(np.ones(2), np.zeros(2)))

    whole, first = [s.loss for s in run()], run()
    begun, rest = [next(first).loss], run()
    rest.state = first.state
    assert begun + [s.loss for s in rest] == whole


def test_a_log_of_something_else_is_left_alone(tmp_path):
    list(training(Snapshots(tmp_path), epochs=1))
    log = tmp_path / "log.csv"
    log.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"log\.csv is no log of a training"):
        next(training(LogCSV(log), resume=tmp_path))
    assert log.read_text() == "a,b\n1,2\n"


def test_what_has_a_state_of_its_own_goes_on_from_it(tmp_path):
    def run(folder, **options):
        random.current().state = random.Generator(3).state
        rng = np.random.default_rng(3)
        model = {"in": rng.normal(size=(4, 6)), "bn": ops.bnmoments(), "rnn": ops.RNN(6, 5, h=0, c=0), "v": rng.normal(size=5)}

        def f(m, x, y):
            h = ops.batchnorm(x @ m["in"], m["bn"])
            if m["bn"].mean is not None and fails[0] == run.calls:
                raise ValueError  # after the statistics have taken in its batch
            run.calls += 1
            return np.mean((m["rnn"](h.reshape(5, 6, 6))[-1] @ m["v"]) ** 2) + 0 * np.mean(y)

        run.calls = 0
        return train(f, minibatch(X, Y, 30), Adam(lr=0.01), params=model, epochs=8, callbacks=[Snapshots(folder)], **options)

    fails = [None]
    whole = run(tmp_path / "whole")
    losses, final = [s.loss for s in whole], whole.params
    fails[0] = 5
    begun = until(ValueError, run(tmp_path / "parts"))
    fails[0] = None
    rest = run(tmp_path / "parts", resume=tmp_path / "parts")
    assert begun + [s.loss for s in rest] == losses and len(begun) == 5
    for name in ("mean", "var"):
        np.testing.assert_array_equal(getattr(rest.params["bn"], name), getattr(final["bn"], name))
    np.testing.assert_array_equal(rest.params["rnn"].h.numpy(), final["rnn"].h.numpy())
    other = ops.bnmoments()
    load_params(tmp_path / "whole", {**final, "bn": other})
    np.testing.assert_array_equal(other.mean, final["bn"].mean)
    with pytest.raises(ValueError, match=r"another model: \['bn'\] has a state there and not here"):
        load_params(tmp_path / "whole", {name: x for name, x in final.items() if name != "bn"})


def test_lists_go_on_too_and_iterators_do_not(tmp_path):
    batches = [(X[:15], Y[:15]), (X[15:], Y[15:]), (X, Y)]
    whole = [s.loss for s in training(batches=batches)]
    random.current().state = random.Generator(0).state
    it = training(Snapshots(tmp_path, every=1), batches=batches)
    begun = [next(it).loss for _ in range(6)][:5]
    del it
    assert begun + [s.loss for s in training(batches=batches, resume=tmp_path)] == whole
    with pytest.raises(TypeError, match="is of batch 2 of an epoch: to go on there the data must be a minibatch, a list, or have"):
        training(batches=iter(batches), resume=tmp_path)


class Own:
    """Data as a user may write them, in another order in each epoch."""

    def __len__(self):
        return 3

    def __iter__(self):
        for i in random.permutation(3):
            yield X[i * 10 : i * 10 + 10], Y[i * 10 : i * 10 + 10]


class WithState(Own):
    def __init__(self):
        self.state = 0

    def __iter__(self):
        while self.state < 3:
            i = self.state
            self.state += 1
            yield X[i * 10 : i * 10 + 10], Y[i * 10 : i * 10 + 10]
        self.state = 0


@pytest.mark.parametrize(("kind", "number"), [(Own, 3), (Own, 6), *((WithState, n) for n in range(1, 9))])
def test_data_of_ones_own_go_on(tmp_path, kind, number):
    whole = [s.loss for s in training(batches=kind())]
    random.current().state = random.Generator(0).state
    with training(Snapshots(tmp_path), batches=kind()) as run:
        begun = [next(run).loss for _ in range(number)]
    with random.use(5):
        assert begun + [s.loss for s in training(batches=kind(), resume=tmp_path)] == whole


def test_data_of_ones_own_without_a_state_go_on_at_the_end_of_an_epoch_only(tmp_path):
    with training(Snapshots(tmp_path), batches=Own()) as run:
        next(run)
    with pytest.raises(TypeError, match=r"is of batch 1 of an epoch: .* a minibatch, a list, or have a `state` that can be set, not Own"):
        training(batches=Own(), resume=tmp_path)


def test_a_state_serves_without_files():
    whole = [s.loss for s in training()]
    random.current().state = random.Generator(0).state
    first = training()
    begun = [next(first).loss for _ in range(7)]
    state = first.state
    again = minimize(loss, minibatch(X, Y, 7, shuffle=True, partial=True), Adam(lr=0.01), params=params(), epochs=3)
    again.state = state
    assert begun + list(again) == whole


def test_params_that_only_the_function_knows_can_not_go_on(tmp_path):
    w = at.Param(np.ones(4))
    run = train(lambda x, y: np.mean((x @ w - y) ** 2), [(X, Y)], callbacks=[Snapshots(tmp_path)])
    with pytest.raises(TypeError, match=r"needs params=.* train\(lambda params, \*batch: f\(\*batch\), data, opt, params=\[w, b\]\)"):
        next(run)
    with pytest.raises(TypeError, match="only if its parameters are given"):
        run.state = {}


def test_a_folder_with_later_snapshots_is_refused(tmp_path):
    list(training(Snapshots(tmp_path, keep=9)))
    with pytest.raises(FileExistsError, match=rf"holds {name(15)}, and this training is at step 0: go on from it with resume="):
        next(training(Snapshots(tmp_path)))
    with pytest.raises(FileExistsError, match="this training is at step 5"):
        next(training(Snapshots(tmp_path), resume=tmp_path / name(5)))
    assert files(tmp_path) == [name(5), name(10), name(15)]


def test_params_that_the_function_uses_by_itself_go_on_when_they_are_given(tmp_path):
    def run(w, *callbacks, **options):
        return train(lambda params, x, y: np.mean((x @ w - y) ** 2), [(X, Y)], Adam(), [w], 6, callbacks, **options)

    whole = [s.loss for s in run(at.Param(np.ones(4)))]
    with run(at.Param(np.ones(4)), Snapshots(tmp_path)) as first:
        begun = [next(first).loss for _ in range(4)]
    assert begun + [s.loss for s in run(at.Param(np.zeros(4)), resume=tmp_path)] == whole and whole[-1] < whole[0]


def test_one_training_at_a_time_writes_into_a_folder(tmp_path):
    pytest.importorskip("fcntl")
    first, other = training(Snapshots(tmp_path)), training(Snapshots(tmp_path))
    next(first)
    with pytest.raises(BlockingIOError, match="another training writes its snapshots into"):
        next(other)
    first.close()
    assert next(training(Snapshots(tmp_path), resume=tmp_path)).number == 2
    started = start(tmp_path / "process", 1000)
    assert started.stdout.readline()
    with pytest.raises(BlockingIOError):
        next(training(Snapshots(tmp_path / "process")))
    started.kill()
    started.communicate()
    next(training(Snapshots(tmp_path / "process")))


def test_a_folder_that_can_not_be_written_into_is_named_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == tmp_path and mode == os.W_OK))
    run = training(Snapshots(tmp_path))
    with pytest.raises(PermissionError, match="can't be written into"):
        next(run)
    assert run.number == 0


# ---------------------------------------------------------------- snapshots of something else


@dataclass
class Model:
    w: object
    scale: object
    activation: object = np.tanh


def saved(folder, p):
    list(train(lambda p, x: np.sum(at.tree.leaves(p)[0]) * 0.0, [1], SGD(), params=p, callbacks=[Snapshots(folder)]))
    return folder


def test_another_model_is_named_by_names_and_shapes(tmp_path):
    folder = saved(tmp_path, {"w": np.zeros((2, 3)), "b": np.zeros(3, np.float32), "old": np.zeros(1), "n": 1.0})
    with pytest.raises(ValueError) as e:
        training(resume=folder)
    assert str(e.value) == (
        "the snapshot is of another model: ['v'] is float64(5,) here and not there; ['b'] is float32(3,) there and not here; "
        "['old'] is float64(1,) there and not here; ['n'] is a number there and not here; "
        "['w'] is float64(4, 5) here and float64(2, 3) there"
    )
    with pytest.raises(ValueError, match=r"of another model: params is float64\(2,\) here and float64\(3,\) there"):
        load_params(saved(tmp_path / "alone", np.zeros(3)), np.zeros(2))
    many = saved(tmp_path / "many", [np.zeros(1)] * 30)
    with pytest.raises(ValueError, match=r"; and 22 more$"):
        training(resume=many)


def test_a_model_with_functions_in_it_and_no_registration(tmp_path):
    model = Model(np.arange(3.0), 2.0)
    folder = saved(tmp_path, model)
    found = load_params(folder, Model(np.zeros(3), 0.0))
    assert type(found) is Model and found.activation is np.tanh and found.scale == 2.0 and (found.w == model.w).all()
    held = Model(at.Param(np.zeros(3)), 0.0)
    assert load_params(folder / name(1), held).w is held.w and (held.w.numpy() == model.w).all()
    assert isinstance(load_params(folder, Model(at.array(np.zeros(3)), 0.0)).w, at.Tensor)


def test_an_object_that_holds_arrays_and_is_no_tree_is_named(tmp_path):
    class Holder:
        def __init__(self):
            self.w = np.zeros(3)

    folder = saved(tmp_path, np.zeros(3))
    for run in (lambda: load_params(folder, {"m": Holder()}), lambda: train(loss, [1], params=Holder(), resume=folder)):
        with pytest.raises(TypeError, match=r"a snapshot: Holder .* holds arrays .* tell at\.tree\.register"):
            run()


def test_another_optimiser_or_data_set_is_refused(tmp_path):
    list(training(Snapshots(tmp_path)))
    with pytest.raises(ValueError, match="no state of Momentum: the snapshot is of a training with Adam"):
        training(opt=Momentum(), resume=tmp_path)
    with pytest.raises(ValueError, match="of 30 instances in shuffled batches of 7, but this one is of 30 instances in batches of 10"):
        training(batches=minibatch(X, Y, 10), resume=tmp_path)
    with pytest.raises(ValueError, match="with partial=True, but this one has partial=False"):
        training(batches=minibatch(X, Y, 7, shuffle=True), resume=tmp_path)
    with pytest.raises(ValueError, match="is of a training on a Data, but this is one on a list"):
        training(batches=[(X, Y)] * 5, resume=tmp_path)
    list(training(Snapshots(tmp_path / "list"), batches=[(X, Y)] * 5))
    with pytest.raises(ValueError, match="is of a training on a list or the like, but this is one on a Data"):
        training(resume=tmp_path / "list")
    with pytest.raises(ValueError, match="is of a training on 5 batches, but this is one on 2"):
        training(batches=[(X, Y)] * 2, resume=tmp_path / "list")


def test_files_that_are_no_snapshots(tmp_path):
    at.save(tmp_path / "params", params())
    with pytest.raises(ValueError, match="params is no snapshot of a training"):
        read(tmp_path / "params")
    list(training(Snapshots(tmp_path)))
    whole = newest(tmp_path).read_bytes()
    newest(tmp_path).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=name(15)):
        training(resume=tmp_path)


@pytest.mark.parametrize("options", [{"keep": 0}, {"keep": 1.5}, {"every": 0}])
def test_options_that_mean_nothing(options):
    with pytest.raises(ValueError, match="from 1 on, not"):
        Snapshots("folder", **options)


# ---------------------------------------------------------------- errors


def failing(at_call, error):
    calls = iter(range(1, 100))

    def f(p, x, y):
        value = loss(p, x, y)
        if next(calls) == at_call:
            raise error
        return value

    return f


@pytest.mark.parametrize("kind", [lambda x: x, at.Param], ids=["arrays", "Params"])
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), MemoryError()], ids=lambda e: type(e).__name__)
def test_an_error_leaves_the_moment_before_its_step(tmp_path, kind, error):
    whole = [s.loss for s in training(kind=kind)]
    random.current().state = random.Generator(0).state
    run = training(Snapshots(tmp_path), kind=kind)
    run.f = failing(8, error)
    run._gradient = at.value_and_grad(run.f)
    begun = until(type(error), run)
    assert newest(tmp_path).name == name(7)
    with random.use(5):
        assert begun + [s.loss for s in training(kind=kind, resume=tmp_path)] == whole


def test_an_error_in_a_callback_leaves_the_moment_after_its_step(tmp_path):
    def log():
        return LogCSV(tmp_path / "log.csv")

    def failing_once(step):
        if step.number == 4 and not failed:
            failed.append(True)
            raise OSError

    failed, stops = [True], EarlyStop(9, every=1)
    whole = [s.loss for s in training(failing_once, log(), Snapshots(tmp_path / "whole"), stops)]
    text, end = (tmp_path / "log.csv").read_text(), stops.state
    random.current().state = random.Generator(0).state
    failed.clear()
    until(OSError, training(failing_once, log(), Snapshots(tmp_path / "run"), EarlyStop(9, every=1)))
    assert newest(tmp_path / "run").name == name(4)
    stops = EarlyStop(9, every=1)
    rest = [s.loss for s in training(failing_once, log(), Snapshots(tmp_path / "run"), stops, resume=tmp_path / "run")]
    assert rest == whole[4:] and (tmp_path / "log.csv").read_text() == text and stops.state == end


def until(error, run):
    """The losses before it."""
    losses = []
    with pytest.raises(error):
        for step in run:
            losses.append(step.loss)
    return losses


def test_an_update_that_was_cut_short_is_not_saved(tmp_path):
    class Torn(SGD):
        def step(self, params, grads):
            raise MemoryError

    with pytest.raises(MemoryError):
        list(training(Snapshots(tmp_path), opt=Torn()))
    assert files(tmp_path) == []


def test_nan_leaves_the_step_that_makes_it(tmp_path):
    def f(p, x, y):
        value = loss(p, x, y)
        with np.errstate(invalid="ignore"):
            return np.sqrt(value - 100) if x[0, 0] == X[17, 0] else value  # in one batch of an epoch

    def run(**options):
        return train(f, minibatch(X, Y, 1, shuffle=True), SGD(), params=params(), callbacks=[FailOnNaN(), Snapshots(tmp_path)], **options)

    with pytest.raises(FloatingPointError, match="loss is nan at step") as e:
        list(run())
    number = int(str(e.value).split(" at step ")[1].split(",")[0])
    assert newest(tmp_path).name == name(number - 1)
    with pytest.raises(FloatingPointError, match=f"loss is nan at step {number},"):
        next(run(resume=tmp_path))
    with at.debug(), pytest.raises(FloatingPointError, match=r"^sqrt\("):
        next(run(resume=tmp_path))


def test_a_loss_of_nan_is_never_saved(tmp_path):
    list(train(lambda p, x: np.sum(p) * np.nan, [1, 2], SGD(), params=np.ones(2), callbacks=[Snapshots(tmp_path, every=1)]))
    assert files(tmp_path) == []


def test_a_full_disk_leaves_the_old_ones(tmp_path, monkeypatch):
    def full(file, *rest):
        file.write(b"some")
        raise OSError(errno.ENOSPC, "No space left on device")

    snapshots = Snapshots(tmp_path, every=1, keep=2, best=lambda step: -step.number)
    run = training(snapshots)
    for _ in range(4):
        next(run)
    before = {f: (tmp_path / f).read_bytes() for f in files(tmp_path)}
    assert sorted(before) == ["best.safetensors", name(2), name(3)] and snapshots.least == -3
    with monkeypatch.context() as m:
        m.setattr(tensor_file, "write", full)
        with pytest.warns(RuntimeWarning, match=rf"{name(4)} could not be written \(.*No space left on device.*; the older ones stay"):
            next(run)
    assert {f: (tmp_path / f).read_bytes() for f in files(tmp_path)} == before and snapshots.least == -3
    next(run)
    assert files(tmp_path) == ["best.safetensors", name(3), name(5)] and snapshots.least == -5


# ---------------------------------------------------------------- signals


def handlers():
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


@pytest.fixture
def usual_signals():
    before = [signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, signal.SIG_DFL)]
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
@pytest.mark.parametrize("where", ["step", "body"])
def test_a_signal_waits_for_the_step_and_the_body(tmp_path, capsys, usual_signals, number, error, where):
    usual, seen = handlers(), []
    raise_it = lambda step: step.number == 4 and os.kill(os.getpid(), number)  # noqa: E731
    with pytest.raises(error) as e:
        for step in training(Snapshots(tmp_path), *[raise_it] * (where == "step")):
            if where == "body":
                raise_it(step)
            seen.append(step.number)
    assert seen == [1, 2, 3, 4] and files(tmp_path) == [name(4)] and handlers() == usual
    assert error is KeyboardInterrupt or e.value.code == 128 + signal.SIGTERM
    assert capsys.readouterr().err == f"{number.name}: an end after this step, with a snapshot; a second one ends at once\n"


def test_a_second_signal_ends_at_once(tmp_path, usual_signals):
    with pytest.raises(KeyboardInterrupt):
        for _ in training(Snapshots(tmp_path)):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("went on")


def test_the_handlers_are_put_back(tmp_path, usual_signals):
    usual = handlers()
    list(training(Snapshots(tmp_path / "1")))
    assert handlers() == usual
    for step in training(Snapshots(tmp_path / "2")):
        assert step.number == 1 and handlers() != usual
        break
    assert handlers() == usual
    with pytest.raises(TypeError):
        list(train(lambda p, x: None, [1], params=np.ones(2), callbacks=[Snapshots(tmp_path / "3")]))
    assert handlers() == usual


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_loop_that_was_left_holds_no_signals(tmp_path, usual_signals, number):
    usual = handlers()
    with contextlib.suppress(ValueError), training(Snapshots(tmp_path / "1")) as run:
        for step in run:
            if step.number == 3:
                raise ValueError
    assert handlers() == usual and files(tmp_path / "1") == [name(3)]
    with pytest.raises((KeyboardInterrupt, SystemExit)), training(Snapshots(tmp_path / "2")) as run:
        for _ in run:
            os.kill(os.getpid(), number)
            break
    assert handlers() == usual and files(tmp_path / "2") == [name(1)]


def test_signals_are_free_when_a_training_is_gone_whoever_keeps_its_callbacks(tmp_path, usual_signals):
    usual, snapshots = handlers(), Snapshots(tmp_path)
    first = training(snapshots)
    next(first)
    second = training(snapshots)
    next(second)
    del first
    assert handlers() != usual
    del second
    assert handlers() == usual


def test_handlers_are_put_back_in_any_order(tmp_path, usual_signals):
    usual = handlers()
    first, second = training(Snapshots(tmp_path / "1")), training(Snapshots(tmp_path / "2"))
    next(first), next(second)
    held = handlers()
    del first  # its handlers are under those of the second
    assert handlers() == held != usual
    del second
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_training_that_was_left_or_waits_does_not_hold_back_what_ends_another(tmp_path, usual_signals, number, error):
    usual, seen = handlers(), []
    kept = training(Snapshots(tmp_path / "kept"))
    next(kept)
    with pytest.raises(error):
        for outer in training(Snapshots(tmp_path / "outer")):
            for inner in training(Snapshots(tmp_path / "inner")):
                seen.append((outer.number, inner.number))
                if inner.number == 2:
                    os.kill(os.getpid(), number)
    assert seen == [(1, 1), (1, 2)] and files(tmp_path / "inner") == [name(2)]
    kept.close()
    assert handlers() == usual


def test_a_handler_of_the_program_gets_the_signal(tmp_path, usual_signals):
    got = []
    signal.signal(signal.SIGINT, lambda number, frame: got.append((number, frame is not None)))
    for step in training(Snapshots(tmp_path, keep=9)):
        if step.number == 2:
            os.kill(os.getpid(), signal.SIGINT)
            assert got == []
    assert got == [(signal.SIGINT, True)] and step.number == 15 and name(2) in files(tmp_path)


def test_signals_that_are_ignored_stay_ignored(tmp_path, usual_signals):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run = training(Snapshots(tmp_path))
    next(run)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL


def test_a_handler_without_its_training_does_the_usual(usual_signals):
    signals = Signals()
    signals.catch()
    del signals
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        signal.pthread_sigmask(signal.SIG_BLOCK, [])


def forked(f):
    """How a forked process ended that ran f: os.wait's status."""
    if (child := os.fork()) == 0:
        try:
            f()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_holds_no_signals_and_frees_no_folder(tmp_path, usual_signals):
    pytest.importorskip("fcntl")
    run = training(Snapshots(tmp_path))
    next(run)
    assert os.WTERMSIG(forked(lambda: os.kill(os.getpid(), signal.SIGTERM))) == signal.SIGTERM
    assert forked(run.close) == 0
    with pytest.raises(BlockingIOError):
        next(training(Snapshots(tmp_path), resume=newest(tmp_path)))


def test_a_training_in_another_thread_leaves_signals_alone(tmp_path, usual_signals):
    usual, found = handlers(), []

    def work():
        with random.use(0):
            found.extend(handlers() for _ in training(Snapshots(tmp_path)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert set(found) == {usual} and len(found) == 15 and newest(tmp_path).name == name(15)


# ---------------------------------------------------------------- processes that are killed

SCRIPT = """
import sys
import numpy as np
import autotape as at
from autotape import random
from autotape.opsets import v20 as ops
from autotape.train.callbacks import FailOnNaN, LogCSV
from autotape.train.data import minibatch
from autotape.train.datasets import digits
from autotape.train.init import param, param0
from autotape.train.loops import train
from autotape.train.optimisers import Adam
from autotape.train.schedules import cosine
from autotape.train.snapshots import Snapshots, newest
from autotape import blas

folder, every = sys.argv[1], int(sys.argv[2])
random.set(7)
images, _ = digits(0)
data = minibatch(images.pixels, images.labels, 64, shuffle=True, partial=True)
params = {"w1": param(64, 32), "b1": param0(32), "w2": param(32, 10), "b2": param0(10)}

def loss(p, x, labels):
    h = ops.dropout(ops.relu(ops.mat(x) @ p["w1"] + p["b1"]), 0.3)
    return ops.nll(h @ p["w2"] + p["b2"], labels)

callbacks = [FailOnNaN(), LogCSV(folder + ".csv"), Snapshots(folder, every=every)]
with blas.held():
    for step in train(loss, data, Adam(lr=0.01, schedule=cosine(92)), params=params, epochs=4, callbacks=callbacks, resume=newest(folder)):
        print(step.number, step.loss.hex(), flush=True)
print("params", *(hash(p.numpy().tobytes()) for p in params.values()))
"""


def start(folder, every):
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731  a test run in the background ignores it, and children inherit that
    command = [sys.executable, "-c", SCRIPT, str(folder), str(every)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=environment, preexec_fn=restore, **pipes)


def finish(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.splitlines()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    lines = finish(start(folder, 1000))
    assert len(lines) == 93 and lines[-1].startswith("params")
    return lines, folder.with_suffix(".csv").read_text()


def interrupted(folder, every, number, after):
    """Start it, send a signal once step number `after` is through; its lines, standard error and exit code."""
    with start(folder, every) as process:
        lines = []
        while not lines or int(lines[-1].split()[0]) < after:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            lines.append(line.rstrip())
        process.send_signal(number)
        out, err = process.stdout.read(), process.stderr.read()  # communicate would pass over what readline has read ahead
        process.wait(timeout=120)
    return [line for line in (*lines, *out.splitlines()) if line.count(" ") == 1], err, process.returncode


@pytest.mark.numpy_only("a process of its own, which takes NumPy")
def test_a_process_killed_in_mid_epoch_goes_on_bit_for_bit(tmp_path, uninterrupted):
    folder, (whole, log) = tmp_path / "run", uninterrupted
    for after in (12, 13, 41, 77):  # epochs are of 23 batches
        lines, _, code = interrupted(folder, 5, signal.SIGKILL, after)
        first = int(lines[0].split()[0])
        assert code == -signal.SIGKILL and first <= after + 1 and first % 5 == 1
        assert all(line == whole[int(line.split()[0]) - 1] for line in lines[:-1])  # the last may be cut
    rest = finish(start(folder, 5))
    assert rest == whole[-len(rest) :] and len(rest) < 40
    assert folder.with_suffix(".csv").read_text() == log


@pytest.mark.numpy_only("a process of its own, which takes NumPy")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_process_told_to_end_leaves_a_snapshot_of_its_last_step(tmp_path, uninterrupted, number):
    folder, (whole, log) = tmp_path / "run", uninterrupted
    lines, err, code = interrupted(folder, 1000, number, 30)
    assert code == {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGINT: -signal.SIGINT}[number]
    assert err.startswith(f"{number.name}: an end after this step") and ("Traceback" in err) == (number == signal.SIGINT)
    assert files(folder) == [name(len(lines))] and len(lines) < 92
    assert lines + finish(start(folder, 1000)) == whole
    assert folder.with_suffix(".csv").read_text() == log


def test_infinity_is_kept(tmp_path):
    list(training(EarlyStop(3, lambda step: math.inf), Snapshots(tmp_path)))
    assert read(tmp_path)["callbacks"][0] == ["EarlyStop", {"total": 0.0, "count": 0, "best": math.inf, "waited": 3}]
