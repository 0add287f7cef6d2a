"""The models and the training of the command line, and what it shows meanwhile."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from autotape import blas, random
from autotape.train.classify import OPTIMISERS, SCHEDULES, Classifier, Epoch, evaluate
from autotape.train.datasets import digits, resized
from autotape.train.models import MODELS, Recipe
from autotape.train.plot import curves
from autotape.train.progress import bar
from autotape.train.texts import WINDOW, read, sample


def test_progress_is_plain_lines_outside_a_terminal(capsys):
    with bar(2, "epoch 1/1", seconds=0) as shown:
        for loss in ("loss 2.0", "loss 1.5"):
            shown.set_postfix_str(loss, refresh=False)
            shown.update()
    assert capsys.readouterr() == ("", "epoch 1/1: batch 1/2  loss 2.0\nepoch 1/1: batch 2/2  loss 1.5\n")


def test_progress_is_a_bar_in_a_terminal(capsys, monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with bar(2, "epoch 1/1") as shown:
        assert isinstance(shown, tqdm.tqdm)
        shown.set_postfix_str("loss 2.0", refresh=True)
        shown.update()
    assert "epoch 1/1:   0%" in (err := capsys.readouterr().err) and "loss 2.0" in err


def classifier(name, recipe, every=1, **options):
    """A model in training on every so manyeth of the digits."""
    model, sets = MODELS[name], digits(0)
    train_set, test_set = sets if model.side is None else (resized(s, model.side) for s in sets)
    train_set = train_set.take(np.arange(0, len(train_set.labels), every))
    with random.use(0):
        return Classifier(name, model.apply, model.init(train_set.pixels.shape[1:]), (train_set, test_set), recipe, **options)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if "digits" in model.recipes])
def test_a_model_trains_in_float32_and_learns(name):
    run = classifier(name, MODELS[name].recipes["digits"]._replace(epochs=1), every=2)
    shapes = {key: p.shape for key, p in run.parameters.items()}
    loss, _ = evaluate(run.results.apply, run.parameters, run.results.test_set)
    (epoch,) = run
    assert epoch.test_loss < 0.8 * loss and epoch.test_accuracy > 0.3
    assert {key: p.shape for key, p in run.parameters.items()} == shapes and all(p.dtype == np.float32 for p in run.parameters.values())


def test_an_epoch_s_figures_are_those_of_its_images():
    run = classifier("softmax", Recipe(1, 1000, 0.0), every=2)  # batches of unequal size; at a rate of 0 nothing moves
    (epoch,) = run
    train_set = digits(0)[0]
    train_set = train_set.take(np.arange(0, len(train_set.labels), 2))
    assert (epoch.train_loss, epoch.train_accuracy) == pytest.approx(evaluate(run.results.apply, run.parameters, train_set), rel=1e-5)
    assert (epoch.test_loss, epoch.test_accuracy) == evaluate(run.results.apply, run.parameters, run.results.test_set)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_every_optimiser_learns(optimiser):
    run = classifier("softmax", Recipe(3, 32, OPTIMISERS[optimiser]().lr), optimiser=optimiser)
    first, _, last = run
    assert last.test_loss < first.test_loss < 2.4


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_learns(schedule):
    run = classifier("softmax", Recipe(2, 32, 0.01), schedule=schedule)
    assert list(run)[-1].test_accuracy > 0.8


def test_a_diverging_training_stops_and_says_what_to_do():
    with pytest.raises(FloatingPointError, match=r"at step \d+, batch \d+ of epoch 1: try a learning rate below 1e\+38"):
        list(classifier("softmax", Recipe(2, 32, 1e38)))


def test_a_picture_s_title_may_hold_dollars(tmp_path):
    pytest.importorskip("matplotlib")
    curves([Epoch(1, 0.5, 0.5, 0.4, 0.6, 1.0)], r"charlm on $\frac$.txt", tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["a\0b", "\U0010ffff\U0001f600e\u0301", "\ufeff\u2028\x85\x0c", "x"])
def test_a_text_s_windows_are_its_characters(tmp_path, text):
    text = text * 700
    (tmp_path / "text").write_bytes(text.encode())
    alphabet, sets = read(tmp_path / "text")
    assert alphabet == "".join(sorted(set(text)))
    for windows, rest in zip(sets, (text, text[round(0.9 * len(text)) :]), strict=True):
        for codes, start in ((windows.characters, 0), (windows.labels, 1)):
            assert codes.shape[1] == WINDOW and codes.dtype == np.int64
            assert "".join(alphabet[c] for c in codes.ravel()) == rest[start : start + codes.size]


def test_a_sample_has_no_character_that_the_model_excludes(monkeypatch):
    scores = np.array([-np.inf, 0.0, -np.inf, 0.0, -np.inf])
    for draw, character in ((0.0, "a"), (0.4999, "a"), (0.5, "c"), (1 - 2**-53, "c")):
        monkeypatch.setattr(random, "uniform", lambda: draw)  # noqa: B023
        assert sample(lambda p, x: np.tile(scores[None, :, None], (1, 1, x.shape[1])), None, "\nabcd", 2) == 2 * character


def test_one_blas_thread_is_for_the_block_alone():
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def counts():
        return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]

    before = counts()
    with blas.held():
        assert counts() == [1] * len(before)
    assert counts() == before
