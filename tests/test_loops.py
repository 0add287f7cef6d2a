"""minimize, train and what goes with them: losses against loops written out, epochs, callbacks, searches."""

from __future__ import annotations

import contextlib
import csv
import functools
import itertools
import math
import operator
import sys
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import autotape as at
import autotape.testing  # registers the backend "strict"
from autotape import backend, random
from autotape.opsets import v20 as ops
from autotape.train.callbacks import Callback, EarlyStop, Every, FailOnNaN, LogCSV, LogTensorBoard, Plot
from autotape.train.data import minibatch
from autotape.train.loops import adadelta, adagrad, adam, adamw, converge, minimize, momentum, nesterov, rmsprop, sgd, train
from autotape.train.optimisers import SGD, Adadelta, Adagrad, Adam, AdamW, Group, Momentum, Nesterov, Rmsprop
from autotape.train.progress import in_notebook, progress
from autotape.train.search import goldensection, hyperband

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(40, 3)), np.array([1.0, -2.0, 0.5])
Y = X @ W


def data(**options):
    return minibatch(X, Y, 10, **options)


def error(w, x, y):
    return np.mean((x @ w - y) ** 2)


def plain_sgd(epochs=1, lr=0.1):
    """The losses and weights, written out."""
    w, losses = np.zeros(3), []
    for _ in range(epochs):
        for i in range(0, 40, 10):
            r = X[i : i + 10] @ w - Y[i : i + 10]
            losses.append(np.mean(r**2))
            w -= lr * 2 * X[i : i + 10].T @ r / 10
    return losses, w


# ---------------------------------------------------------------- minimize


def test_minimize_over_params_that_the_function_uses():
    w, unused = at.Param(np.zeros(3)), at.Param(np.ones(2))
    run = minimize(lambda x, y: error(w, x, y), data(), SGD(), epochs=2)
    losses = list(run)
    np.testing.assert_allclose(losses, plain_sgd(2)[0], rtol=1e-12)
    np.testing.assert_allclose(w.value, plain_sgd(2)[1], rtol=1e-12)
    assert all(type(x) is float for x in losses) and run.params == [w] and unused.version == 0 and w.version == 8


class Model(NamedTuple):
    w: object
    b: object
    name: str


@pytest.mark.parametrize("kind", [np.array, at.array, at.Param])
def test_minimize_over_a_tree(kind):
    model = Model(kind(np.zeros(3)), {"bias": kind(np.zeros(())), "none": None}, "linear")
    run = minimize(lambda m, x, y: error(m.w, x, y) + 0 * m.b["bias"], data(), SGD(), params=model, epochs=2)
    assert len(run) == 8
    np.testing.assert_allclose(list(run), plain_sgd(2)[0], rtol=1e-12)
    assert type(run.params) is Model and type(run.params.w) is type(model.w) and run.params.name == "linear"
    np.testing.assert_allclose(at.asarray(run.params.w.value if kind is at.Param else run.params.w).numpy(), plain_sgd(2)[1], rtol=1e-12)
    assert (run.params.w is model.w) == (kind is at.Param)
    if kind is not at.Param:
        assert not np.any(model.w)  # left as it was


def test_minimize_over_numbers_and_groups():
    run = minimize(lambda p, x: (p - x) ** 2, [3.0] * 50, SGD(), params=0.0)
    assert list(run)[-1] < 1e-6 and type(run.params) is float
    groups = [Group({"w": np.zeros(3)}, lr=0.0), {"b": np.ones(3)}]
    run = minimize(lambda p, x, y: error(p[0].params["w"] + p[1]["b"], x, y), data(), params=groups)
    list(run)
    assert not run.params[0].params["w"].any() and (run.params[1]["b"] != 1).all()


def test_minimize_is_lazy():
    calls = []
    w = at.Param(np.zeros(3))

    def f(x, y):
        calls.append(1)
        return error(w, x, y)

    run = minimize(f, data(), SGD())
    assert not calls and w.version == 0
    next(run)
    assert len(calls) == 1 and w.version == 1 and run.number == 1
    assert len(list(run)) == 3 and list(run) == []


def test_minimize_on_another_backend():
    with backend.use("strict"):
        w = at.Param(np.zeros(3))
        np.testing.assert_allclose(list(minimize(lambda x, y: error(w, x, y), data(), SGD())), plain_sgd()[0], rtol=1e-12)
        run = minimize(error, data(), SGD(), params=at.array(np.zeros(3)))
        np.testing.assert_allclose(list(run), plain_sgd()[0], rtol=1e-12)
        np.testing.assert_allclose(run.params.numpy(), plain_sgd()[1], rtol=1e-12)


def test_params_in_the_tree_are_trained_however_the_function_uses_them():
    for used in (lambda given, own: given, lambda given, own: own, lambda given, own: (given + own) / 2):
        w = at.Param(np.zeros(3))
        f = lambda p, x, y, used=used, w=w: error(used(p["w"], w), x, y)  # noqa: E731
        run = minimize(f, data(), SGD(), params={"w": w, "name": "linear", "b": np.ones(2), "c": 1.0}, epochs=2)
        np.testing.assert_allclose(list(run), plain_sgd(2)[0], rtol=1e-12)
        np.testing.assert_allclose(w.value, plain_sgd(2)[1], rtol=1e-12)
        assert (run.params["b"] == 1).all() and type(run.params["b"]) is np.ndarray and run.params["c"] == 1.0 and run.params["w"] is w


def test_only_params_of_the_step_are_updated():
    a, b = at.Param(np.ones(2)), at.Param(np.ones(2))
    opt = Momentum(lr=0.1)
    run = minimize(lambda which: np.sum((a if which == "a" else b) ** 2), ["a", "b", "a"], opt)
    next(run)
    a_after = a.numpy().copy()
    next(run)
    assert (a.numpy() == a_after).all() and run.params == [a, b]
    next(run)
    assert (a.version, b.version) == (2, 1)


def test_a_tape_knows_its_params():
    a, b = (at.Param(np.ones(2)) for _ in range(2))
    with at.Tape() as outer:
        y = np.sum(b * 2)
        with at.Tape() as inner:
            z = np.sum(a * b)
    for tape in (outer, inner):
        assert [id(p) for p in tape.params] == [id(b), id(a)]
    inner.gradient(z, a), outer.gradient(y, b)
    with pytest.raises(at.errors.TapeError, match="used up"):
        inner.params  # noqa: B018


def test_a_looked_up_table_gets_rows():
    table = at.Param(np.ones((100, 2)))
    given = []

    class Watching(SGD):
        def step(self, params, grads):
            given.append(type(at.tree.leaves(grads)[0]).__name__)
            return super().step(params, grads)

    batches = [np.array([1, 5, 1])]
    list(minimize(lambda i: np.sum(table[i] ** 2), batches, Watching()))
    list(minimize(lambda t, i: np.sum(t[i] ** 2), batches, Watching(), params=np.ones((100, 2))))
    assert given == ["Rows", "Rows"] and (table.numpy()[[1, 5]] != 1).all() and (table.numpy()[2] == 1).all()


SHORT = [(sgd, SGD), (momentum, Momentum), (nesterov, Nesterov), (adagrad, Adagrad), (rmsprop, Rmsprop), (adadelta, Adadelta),
         (adam, Adam), (adamw, AdamW)]  # fmt: skip


@pytest.mark.parametrize(("short", "optimiser"), SHORT, ids=lambda f: f.__name__)
def test_shorthands(short, optimiser):
    run = short(error, data(), lr=0.02, params=np.zeros(3), epochs=2)
    assert type(run.opt) is optimiser and run.opt.lr == 0.02 and short.__name__ == optimiser.__name__.lower()
    assert list(run) == list(minimize(error, data(), optimiser(lr=0.02), params=np.zeros(3), epochs=2))


def test_the_default_optimiser_is_adam():
    run = minimize(error, data(), params=np.zeros(3))
    assert repr(run.opt) == repr(Adam())


@pytest.mark.parametrize(
    ("f", "batches", "options", "kind", "message"),
    [
        (lambda x: np.sum(x), [X], {}, TypeError, "used no at.Param"),
        (lambda w, x: w * 1, [1.0], {"params": np.zeros(3)}, TypeError, "a scalar is needed"),
        (lambda w, x: w * 1, [1.0], {"params": at.Param(np.zeros(3))}, TypeError, "a scalar is needed"),
        (lambda w, x: (w @ w, 1), [1.0], {"params": at.Param(np.zeros(3))}, TypeError, r"returned tuple .* a scalar computed from"),
        (lambda w, x: np.sum(w), [], {"params": np.zeros(3)}, ValueError, "no batch in epoch 1$"),
        (lambda w, x: np.sum(w), iter([1.0]), {"params": np.zeros(3), "epochs": 2}, ValueError, "in epoch 2: an iterator serves"),
        (lambda w, x: next(iter([])), [1.0], {"params": np.zeros(3)}, RuntimeError, "StopIteration was raised"),
        (error, (X, Y), {"params": np.zeros(3)}, TypeError, r"with \(params, ndarray\(40, 3\) float64\): missing .* 'y'; minibatch"),
        (lambda x: x, [(X, Y)], {}, TypeError, r"is called with \(ndarray\(40, 3\) float64, ndarray\(40,\) float64\): too many"),
        (lambda w, x: None + w, [1.0], {"params": np.zeros(3)}, TypeError, "^add"),
    ],
)
def test_what_minimize_says(f, batches, options, kind, message):
    with pytest.raises(kind, match=message):
        list(minimize(f, batches, **options))


@pytest.mark.parametrize("kind", [np.array, at.Param])
def test_aux_that_is_not_there(kind):
    with pytest.raises(TypeError, match=r"with has_aux the function must return \(.*, aux\), not Tensor\(2,\)"):
        list(train(lambda w, x: w * x, [1.0], params=kind(np.ones(2)), has_aux=True))


def test_a_training_makes_one_step_at_a_time():
    run = train(error, data(), params=np.zeros(3), callbacks=[lambda step: next(run)])
    with pytest.raises(RuntimeError, match="this training is at a step already"):
        next(run)
    assert list(run) == []


def test_after_an_error_a_loop_is_over():
    run = minimize(lambda w, x: np.sum(w) / x, [1.0, None, 2.0], params=np.ones(2))
    next(run)
    with pytest.raises(TypeError):
        next(run)
    assert list(run) == []


# ---------------------------------------------------------------- converge


def written_out(losses, alpha=0.1):
    avgx, avgp, out = math.inf, 0.0, []
    for x in losses:
        avgx = x if avgx == math.inf else avgx
        p = x - avgx
        avgx = alpha * x + (1 - alpha) * avgx
        avgp = alpha * p + (1 - alpha) * avgp
        if avgp > 0:
            break
        out.append(x)
    return out


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_converge_stops_where_its_formula_says(alpha):
    losses = [*np.linspace(2, 1, 20), *np.linspace(1, 2, 50)]
    found = list(converge(losses, alpha))
    assert found == written_out(losses, alpha) and 20 < len(found) < 60
    assert list(converge([1.0])) == [1.0] and list(converge([1.0, 2.0])) == [1.0] and list(converge([])) == []


def test_converge_ends_a_training_without_end():
    noise = minibatch(X, Y + 0.1 * np.random.default_rng(1).normal(size=40), 10, shuffle=True, generator=0)
    run = minimize(error, noise, SGD(), params=np.zeros(3), epochs=None)
    losses = list(converge(run))
    assert run.epoch > 1 and losses[-1] < 0.1 and len(losses) == run.number - 1
    with pytest.raises(TypeError, match="no length"):
        len(run)
    steps = converge(train(error, noise, SGD(), params=np.zeros(3), epochs=None))
    assert next(steps).number == 1


# ---------------------------------------------------------------- train


def test_train_gives_steps():
    run = train(lambda w, x, y: (error(w, x, y), len(y)), data(), SGD(), params=np.zeros(3), epochs=2, has_aux=True)
    steps = list(run)
    assert [(s.number, s.epoch, s.batch) for s in steps] == [(k + 1, k // 4 + 1, k % 4 + 1) for k in range(8)]
    assert [s.ends_epoch for s in steps] == [False, False, False, True] * 2 and {s.aux for s in steps} == {10}
    np.testing.assert_allclose([s.loss for s in steps], plain_sgd(2)[0], rtol=1e-12)
    last = steps[-1]
    assert last.params is run.params and last.opt is run.opt and last.data is run.data and last.lr == 0.1
    assert repr(last).startswith("Step(8, epoch=2, batch=4, loss=0.")


def test_aux_over_params():
    w = at.Param(np.zeros(3))
    (step,) = train(lambda x, y: (error(w, x, y), x @ w), [(X, Y)], SGD(), has_aux=True)
    assert step.aux.shape == (40,)


def test_lr_follows_the_schedule():
    run = train(error, data(), SGD(lr=0.5, schedule=lambda t: 1 / (1 + t)), params=np.zeros(3))
    assert [s.lr for s in list(run)] == [0.5, 0.25, 0.5 / 3, 0.125]  # each its own


def test_lr_is_that_of_the_update():
    class Halving(Callback):
        def before_update(self, step):
            rates.append(step.lr)
            step.opt.lr /= 2

    rates, seen = [], []
    run = train(lambda w, x: np.sum(w) * x, [1.0, 1.0], SGD(lr=1.0), params=np.zeros(1), callbacks=[Halving(), lambda s: seen.append(s.lr)])
    steps = list(run)
    assert rates == [1.0, 0.5] and seen == [s.lr for s in steps] == [0.5, 0.25] and run.params == -0.75

    class Own:
        def step(self, params, grads):
            return params

    assert math.isnan(next(train(error, data(), Own(), params=np.zeros(3))).lr)


def test_a_step_can_stop_the_training():
    seen = []
    for step in train(error, data(), SGD(), params=np.zeros(3), callbacks=[lambda s: seen.append(s.number)]):
        if step.number == 2:
            step.stop()
    assert seen == [1, 2]


@pytest.mark.parametrize("error_in_body", [None, KeyError()])
def test_a_training_left_early_ends_its_callbacks(error_in_body):
    ends = []

    class Ending(Callback):
        def end(self, training, error):
            ends.append(error)

    def run():
        return train(error, data(), SGD(), params=np.zeros(3), callbacks=[Ending()])

    with contextlib.suppress(KeyError), run() as steps:
        for _ in steps:
            if error_in_body:
                raise error_in_body
            break
    assert ends == [error_in_body] and list(steps) == []
    with run():
        pass  # what has not begun does not end
    steps.close()
    list(steps := run())
    steps.close()
    assert ends == [error_in_body, None]
    with minimize(error, data(), SGD(), params=np.zeros(3)) as losses:
        next(losses)
    assert list(losses) == []


def test_callbacks_behind_one_that_fails_get_the_step_and_the_end():
    seen = []

    class Failing(Callback):
        def __call__(self, step):
            raise ValueError("first")

        def end(self, training, error):
            raise OSError("end")

    class Seeing(Callback):
        def __call__(self, step):
            seen.append(step.number)

        def end(self, training, error):
            seen.append(error)

    with pytest.raises(OSError, match="end") as e:
        list(train(error, data(), SGD(), params=np.zeros(3), callbacks=[Failing(), Seeing()]))
    assert seen == [1, e.value.__context__] and str(seen[1]) == "first"


def test_callbacks_are_called_in_their_order():
    calls = []

    class Telling(Callback):
        def begin(self, training):
            calls.append("begin")

        def before_update(self, step):
            calls.append(f"before {step.number}")

        def __call__(self, step):
            calls.append(f"after {step.number}")

        def settle(self, training):
            calls.append(f"settle {training.number}")

        def end(self, training, error):
            calls.append(f"end {error!r}")

    for step in train(error, [(X, Y), (X, Y)], SGD(), params=np.zeros(3), callbacks=[Telling(), Callback()]):
        calls.append(f"body {step.number}")
    assert calls == [
        "begin", "before 1", "after 1", "body 1", "settle 1", "before 2", "after 2", "body 2", "settle 2", "end None"
    ]  # fmt: skip
    calls.clear()
    with pytest.raises(TypeError):
        list(train(lambda w, x: None, [1], SGD(), params=np.zeros(3), callbacks=[Telling()]))
    assert calls[0] == "begin" and calls[1].startswith("end TypeError")


def test_fail_on_nan_names_the_step_and_spares_the_parameters():
    w = at.Param(np.ones(3))
    losses = itertools.chain([1.0, 1.0], [math.nan, math.inf])
    run = train(lambda x, y: np.sum(w) * next(losses), data(), SGD(), callbacks=[FailOnNaN()])
    with pytest.raises(FloatingPointError, match="loss is nan at step 3, batch 3 of epoch 1"):
        list(run)
    assert w.version == 2 and np.isfinite(w.numpy()).all()


def test_fail_on_nan_names_a_batch_that_holds_it():
    x = X.copy()
    x[25, 1] = np.nan
    with pytest.raises(FloatingPointError, match=r"loss is nan at step 3, batch 3 of epoch 1: batch\[0\] itself holds NaN or infinity"):
        list(train(error, minibatch(x, Y, 10), params=np.zeros(3), callbacks=[FailOnNaN()]))
    batches = [{"y": Y, "n": 3, "x": at.array(x)}]
    with pytest.raises(FloatingPointError, match=r"batch\[0\]\['x'\] itself holds"):
        list(train(lambda w, batch: error(w, batch["x"], batch["y"]), batches, params=np.zeros(3), callbacks=[FailOnNaN()]))


def test_a_step_that_is_kept_keeps_no_data():
    seen = []

    class Seeing(Callback):
        def before_update(self, step):
            seen.append(len(step.inputs))

    assert [s.inputs for s in train(error, data(), params=np.zeros(3), callbacks=[Seeing()])] == [()] * 4 and seen == [2] * 4


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        ([EarlyStop], r"EarlyStop is a class; give one that is made, EarlyStop\(\.\.\.\)"),
        ([None], "each is a Callback or a function of the step, not NoneType None"),
        (FailOnNaN(), r"callbacks is a list, callbacks=\[FailOnNaN\(\)\], not FailOnNaN"),
        (None, "callbacks is a list"),
    ],
)
def test_what_is_no_callback_is_named(callbacks, message):
    with pytest.raises(TypeError, match=message):
        train(error, data(), params=np.zeros(3), callbacks=callbacks)


def test_callbacks_serve_one_training_after_another():
    stop = EarlyStop(1, lambda step: step.epoch)

    def epochs():
        return list(train(error, data(), params=np.zeros(3), epochs=9, callbacks=[stop]))[-1].epoch

    assert [epochs(), epochs()] == [2, 2]


def test_early_stop():
    values = iter([5, 4, 4, 3, 3.5, 3, 9, 9])
    run = train(error, data(), SGD(), params=np.zeros(3), epochs=9, callbacks=[EarlyStop(3, lambda step: next(values))])
    assert list(run)[-1].epoch == 7
    rising = train(error, data(), SGD(lr=3.0), params=np.zeros(3), epochs=9, callbacks=[EarlyStop(2, every=1)])
    assert len(list(rising)) == 3


def test_every_needs_a_length_to_know_an_epoch():
    with pytest.raises(TypeError, match="EarlyStop: every='epoch' needs data with a length"):
        list(train(error, iter([(X, Y)]), params=np.zeros(3), callbacks=[EarlyStop(1)]))
    for wrong in (0, 1.5, "week"):
        with pytest.raises(ValueError, match="every is 'epoch' or a number of steps from 1 on"):
            Every(wrong)


def test_log_csv(tmp_path):
    path = tmp_path / "log.csv"
    every = LogCSV(path, lambda step: {"norm, squared": step.params @ step.params})
    run = train(error, data(), SGD(), params=np.zeros(3), callbacks=[every, LogCSV(tmp_path / "epochs.csv", every="epoch")])
    losses = [step.loss for step in run]
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "epoch", "loss", "lr", "norm, squared"]
    assert [float(r["loss"]) for r in rows] == losses and [r["step"] for r in rows] == ["1", "2", "3", "4"]
    assert float(rows[-1]["norm, squared"]) == run.params @ run.params
    total = functools.reduce(operator.add, losses)  # sum() rounds otherwise from Python 3.12 on
    assert (tmp_path / "epochs.csv").read_text() == f"step,epoch,loss,lr\n4,1,{total / 4},0.1\n"
    list(train(error, data(), params=np.zeros(3), callbacks=[LogCSV(path)]))
    assert path.read_text().startswith("step,epoch,loss,lr\n1,1,")  # a new training, a new file


def test_log_csv_refuses_other_columns(tmp_path):
    names = iter("ab")
    with pytest.raises(ValueError, match=r"log\.csv has the columns step, epoch, loss, lr, a, but this row step, epoch, loss, lr, b"):
        list(train(error, data(), params=np.zeros(3), callbacks=[LogCSV(tmp_path / "log.csv", lambda step: {next(names): 1})]))


@pytest.mark.parametrize(
    ("metrics", "kind", "message"),
    [
        (lambda step: 0.5, TypeError, r"metrics\(step\) gives a dict of numbers, such as .*, not float 0.5"),
        (lambda step: {"a": step.params}, TypeError, r"metrics\(step\)\['a'\] is ndarray\(3,\) float64, not a number"),
        (lambda step: {"loss": 1.0}, ValueError, r"metrics\(step\) gives 'loss', but step, epoch, loss, lr are there already"),
    ],
)
def test_metrics_are_numbers_with_names_of_their_own(tmp_path, metrics, kind, message):
    with pytest.raises(kind, match=message):
        list(train(error, data(), params=np.zeros(3), callbacks=[LogCSV(tmp_path / "log.csv", metrics)]))


def test_options_of_callbacks_that_mean_nothing():
    for wrong in (0, -1, 1.5, "3"):
        with pytest.raises(ValueError, match="EarlyStop: patience is a whole number from 1 on, not"):
            EarlyStop(wrong)
    for make in (lambda: EarlyStop(1, 5), lambda: LogCSV("log.csv", {"a": 1})):
        with pytest.raises(TypeError, match="is a function of the step, not"):
            make()
    with pytest.raises(TypeError, match=r"EarlyStop: metric\(step\) is NoneType None, not a number"):
        list(train(error, data(), params=np.zeros(3), callbacks=[EarlyStop(1, lambda step: None)]))


def test_a_log_on_a_full_disk_waits_and_the_training_goes_on(tmp_path):
    resource = pytest.importorskip("resource")
    path, whole = tmp_path / "log.csv", tmp_path / "whole.csv"
    list(train(error, data(), params=np.zeros(3), callbacks=[LogCSV(whole)]))
    run = train(error, data(), params=np.zeros(3), callbacks=[LogCSV(path)])
    next(run)
    before, (soft, hard) = path.read_text(), resource.getrlimit(resource.RLIMIT_FSIZE)
    for _ in range(2):
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 3, hard))  # room for a part of a row
        try:
            with pytest.warns(RuntimeWarning, match=r"log\.csv could not be written \(.*\); the training goes on"):
                next(run)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_text() == before
    list(run)
    assert path.read_text() == whole.read_text()


def test_a_plot_that_can_not_be_written_is_a_warning(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "folder").mkdir()
    with pytest.warns(RuntimeWarning, match="folder could not be written"):
        assert len(list(train(error, data(), params=np.zeros(3), callbacks=[Plot(tmp_path / "folder")]))) == 4


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "losses.png"
    list(train(error, data(), params=np.zeros(3), epochs=2, callbacks=[Plot(path, lambda step: {"more": 1.0})]))
    assert path.read_bytes().startswith(b"\x89PNG") and list(tmp_path.iterdir()) == [path]


def test_log_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    list(train(error, data(), params=np.zeros(3), callbacks=[LogTensorBoard(tmp_path, lambda step: {"more": 1.0})]))
    (events,) = tmp_path.iterdir()
    assert "tfevents" in events.name and all(name in events.read_bytes() for name in (b"loss", b"lr", b"epoch", b"more"))


@pytest.mark.parametrize(("made", "library", "extra"), [(Plot, "matplotlib", "train"), (LogTensorBoard, "tensorboardX", "tensorboard")])
def test_a_missing_extra_is_named(monkeypatch, made, library, extra):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"needs {library}, which the extra `{extra}` brings: pip install 'autotape\[{extra}\]'"):
        made("somewhere")


# ---------------------------------------------------------------- progress


def test_progress_is_plain_lines_outside_a_terminal(capsys):
    run = minimize(error, data(), SGD(), params=np.zeros(3))
    losses = list(progress(run, lambda loss: f"loss {loss:.2f}", seconds=0, title="fit"))
    assert capsys.readouterr() == ("", "".join(f"fit: step {k}/4  loss {loss:.2f}\n" for k, loss in enumerate(losses, 1)))
    assert list(progress(iter("ab"), seconds=0)) == ["a", "b"]
    assert capsys.readouterr().err == "step 1\nstep 2\n"


def test_a_message_is_asked_only_when_it_is_shown(capsys):
    assert list(progress("abc", lambda item: pytest.fail("asked"), seconds=1000)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("where", ["terminal", "notebook"])
def test_progress_is_a_bar_in_terminals_and_notebooks(capsys, monkeypatch, where):
    pytest.importorskip("tqdm.auto")
    if where == "terminal":
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    else:
        shell = SimpleNamespace(config={"IPKernelApp": {}})
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        assert in_notebook()
    list(progress(minimize(error, data(), SGD(), params=np.zeros(3)), lambda loss: f"loss {loss:.2f}", seconds=0))
    assert "4/4" in (err := capsys.readouterr().err) and "loss " in err


# ---------------------------------------------------------------- searches


def test_goldensection_finds_a_minimum():
    calls = []

    def f(x):
        calls.append(tuple(x))
        return (x[0] - 3) ** 2 + 4 * (x[1] + 1) ** 2 + 1

    least, x = goldensection(f, 2, dxmin=0.01)
    assert least == pytest.approx(1, abs=1e-3) and x == pytest.approx([3, -1], abs=0.03)
    assert calls[:2] == [(0, 0), (1, 0)] and len(set(calls)) == len(calls) < 100


def test_goldensection_walks_around_nan():
    least, x = goldensection(lambda x: math.nan if x[0] > 2 else (x[0] - 1.5) ** 2, 1)
    assert least < 0.05 and x[0] <= 2
    with pytest.raises(ValueError, match="NaN at zeros"):
        goldensection(lambda x: math.nan, 1)
    assert goldensection(lambda x: 7, 0)[0] == 7


@pytest.mark.parametrize("dxmin", [0.1, 1e-6, 1e-12])
def test_goldensection_comes_as_close_as_asked(dxmin):
    least, x = goldensection(lambda x: abs(x[0] - 1 / 3), 1, dxmin)
    assert least == abs(x[0] - 1 / 3) < dxmin


def test_goldensection_ends_where_f_falls_without_end():
    least, x = goldensection(lambda x: -x[0], 1)
    assert least == -x[0] < -1e200


def test_what_searches_can_t_use_is_named():
    for n in (-1, 1.5, None):
        with pytest.raises(ValueError, match="goldensection: n, how many numbers f takes, is a whole number from 0 on, not"):
            goldensection(lambda x: 0.0, n)
    for loss in (None, "low", 1j, np.ones(2)):
        with pytest.raises(TypeError, match="goldensection: f must give a number, not"):
            goldensection(lambda x: loss, 1)  # noqa: B023
        with pytest.raises(TypeError, match="hyperband: getloss must give a number, not"):
            hyperband(lambda: 0, lambda c, r: loss)  # noqa: B023
    assert goldensection(lambda x: at.array(3.0), 1)[0] == hyperband(lambda: 0, lambda c, r: at.array(3.0), 1)[0] == 3


def test_hyperband_gives_the_resource_to_the_best():
    given, numbers = [], itertools.count()

    def loss(config, resource):
        given.append((config, resource))
        return math.nan if config % 7 == 0 else abs(config - 10) + 1 / resource

    best, resource, config = hyperband(lambda: next(numbers), loss, 27, 3)
    counts = {r: sum(x == r for _, x in given) for r in (1, 3, 9, 27)}
    assert counts == {1: 27, 3: 9 + 12, 9: 3 + 4 + 6, 27: 1 + 1 + 2 + 4} and next(numbers) == 27 + 12 + 6 + 4
    assert config == 10 and resource == 27 and best == pytest.approx(1 / 27) and type(resource) is int


def test_hyperband_keeps_the_least_loss_also_of_a_configuration_that_is_none():
    losses = iter([5, 3, 9, 1, 2, 4])
    assert hyperband(lambda: None, lambda c, r: next(losses), 3) == (1, 3, None)
    assert hyperband(lambda: "c", lambda c, r: math.nan, 3) == (math.inf, 1, "c")


def test_hyperband_counts_its_rounds_exactly():
    given = []
    hyperband(lambda: 0, lambda c, r: given.append(r) or 0.0, 243, 3)  # log(243) / log(3) is below 5 in floats
    assert min(given) == 1
    given.clear()
    hyperband(lambda: 0, lambda c, r: given.append(r) or 0.0, 10, 3)
    assert min(given) == pytest.approx(10 / 9)
    for wrong in ((0.5, 3), (27, 1)):
        with pytest.raises(ValueError, match="at least 1, and above 1"):
            hyperband(lambda: 0, lambda c, r: 0.0, *wrong)


def test_dropout_in_a_training_comes_from_the_current_generator():
    def losses(seed):
        with random.use(seed):
            return list(minimize(lambda w, x, y: error(ops.dropout(w, 0.5), x, y), data(), SGD(), params=np.ones(3)))

    assert losses(1) == losses(1) != losses(2)


def test_converge_takes_a_weight():
    for alpha in (0, 1.5, math.nan):
        with pytest.raises(ValueError, match="converge: alpha is a number above 0 and at most 1"):
            next(converge([1.0], alpha))


def test_converge_stops_at_nan():
    for losses in ([3.0, 2.0, math.nan], [3.0, 2.0, -math.inf]):
        assert list(converge(itertools.chain(losses, itertools.repeat(losses[-1], 100)))) in (losses, losses[:2])
    assert list(converge(itertools.repeat(math.nan))) == []


def test_searches_that_would_never_end_are_refused():
    for dxmin in (0, -0.1, math.nan):
        with pytest.raises(ValueError, match="goldensection: dxmin must be above 0"):
            goldensection(lambda x: x[0] ** 2, 1, dxmin)
    with pytest.raises(ValueError, match="hyperband: maxresource must be finite"):
        hyperband(lambda: 0, lambda c, r: 0.0, math.inf)
    with pytest.raises(ValueError, match="at least 1, and above 1"):
        hyperband(lambda: 0, lambda c, r: 0.0, math.nan)


def test_what_is_no_function_no_optimiser_and_no_number_of_epochs_is_named():
    for f, opt in (("f", Adam()), (len, "adam"), (len, Adam), (len, (X, Y))):
        with pytest.raises(TypeError, match=r"a training takes a function, data and an optimiser: train\("):
            minimize(f, [], opt)
    for batches in ({"w": X}, None, 5, "data"):
        with pytest.raises(TypeError, match="the data are "):
            minimize(len, batches, Adam())
    for epochs in (-1, "3", 1.5):
        with pytest.raises(ValueError, match="epochs is a whole number from 0 on, or None"):
            minimize(len, [], Adam(), epochs=epochs)
