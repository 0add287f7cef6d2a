"""The training loop and the files it leaves."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from autotape.train import progress
from autotape.train.data import digits, resized
from autotape.train.loop import Adam, evaluate, minibatches, train
from autotape.train.models import MODELS, Recipe
from autotape.train.save import atomically, save_parameters
from autotape.train.threads import one_blas_thread


def test_minibatches_hold_every_number_once_in_another_order_each_time():
    rng = np.random.default_rng(0)
    first, second = list(minibatches(10, 4, rng)), list(minibatches(10, 4, rng))
    assert [len(b) for b in first] == [4, 4, 2]
    np.testing.assert_array_equal(np.sort(np.concatenate(first)), np.arange(10))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


def test_adam_follows_its_paper():
    p, lr, b1, b2 = {"w": np.array([1.0, -2.0])}, 0.1, 0.9, 0.999
    optimiser, expected = Adam(p), p["w"].copy()
    m = v = 0.0
    for t, g in enumerate([np.array([0.5, -4.0]), np.array([-1.0, 2.0])], start=1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        expected -= lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + 1e-8)
        optimiser.step({"w": g}, lr)
    np.testing.assert_allclose(p["w"], expected, rtol=1e-6)  # eps enters a little differently


def test_progress_is_plain_lines_outside_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.bar(2, "epoch 1/1") as shown:
        for loss in ("loss 2.0", "loss 1.5"):
            shown.set_postfix_str(loss, refresh=False)
            shown.update()
    assert capsys.readouterr() == ("", "epoch 1/1: batch 1/2  loss 2.0\nepoch 1/1: batch 2/2  loss 1.5\n")


def test_progress_is_a_bar_in_a_terminal(capsys, monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.bar(2, "epoch 1/1") as shown:
        assert isinstance(shown, tqdm.tqdm)
        shown.set_postfix_str("loss 2.0", refresh=True)
        shown.update()
    assert "epoch 1/1:   0%" in (err := capsys.readouterr().err) and "loss 2.0" in err


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_in_float32_and_learns(name):
    model = MODELS[name]
    sets = digits(0)
    train_set, test_set = sets if model.side is None else (resized(s, model.side) for s in sets)
    train_set = train_set.take(np.arange(0, len(train_set.labels), 2))
    parameters = model.init(np.random.default_rng(0), train_set.pixels.shape[1:])
    shapes = {key: p.shape for key, p in parameters.items()}
    loss, _ = evaluate(model.apply, parameters, test_set)
    (epoch,) = train(model.apply, parameters, train_set, test_set, model.recipes["digits"]._replace(epochs=1), seed=0)
    assert epoch.test_loss < 0.8 * loss and epoch.test_accuracy > 0.3
    assert {key: p.shape for key, p in parameters.items()} == shapes and all(p.dtype == np.float32 for p in parameters.values())


def test_a_diverging_training_stops_and_says_what_to_do():
    model, (train_set, test_set) = MODELS["softmax"], digits(0)
    parameters = model.init(np.random.default_rng(0), train_set.pixels.shape[1:])
    with pytest.raises(FloatingPointError, match=r"epoch 1.*learning rate below 1e\+38"):
        list(train(model.apply, parameters, train_set, test_set, Recipe(2, 32, 1e38), seed=0))


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomically(path) as file:
        file.write(b"ne")
        raise RuntimeError
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
    with atomically(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


def test_parameters_in_any_order_of_memory_are_saved_right(tmp_path):
    load_file = pytest.importorskip("safetensors.numpy").load_file
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    save_parameters({"transposed": w.T, "fortran": np.asfortranarray(w), "strided": w[:, ::2]}, tmp_path / "p")
    loaded = load_file(tmp_path / "p")
    np.testing.assert_array_equal(loaded["transposed"], w.T)
    np.testing.assert_array_equal(loaded["fortran"], w)
    np.testing.assert_array_equal(loaded["strided"], w[:, ::2])


def test_one_blas_thread_is_for_the_block_alone():
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def counts():
        return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]

    before = counts()
    with one_blas_thread():
        assert counts() == [1] * len(before)
    assert counts() == before
