"""The command line: what it prints and writes, and one line for each thing a user may get wrong."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import autotape
from autotape import backend, math_mode
from autotape.cli import main

ROOT = Path(__file__).parent.parent
LINE = re.compile(
    r"epoch +(\d+)/\d+  train \(running\): loss \d+\.\d{4} accuracy +\d+\.\d\d %  test: loss \d+\.\d{4} accuracy +(\d+\.\d\d) %  \d+\.\d s"
)


@pytest.fixture
def run(capsys):
    """run(*arguments) -> (exit code, standard output, standard error)."""

    def run(*arguments):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as e:  # argparse's own way out
            code = e.code
        return code, *capsys.readouterr()

    return run


def test_training_prints_a_line_an_epoch_and_learns(run):
    code, out, err = run("train", "softmax", "--epochs", 3)
    lines = [LINE.fullmatch(line) for line in out.splitlines() if line.startswith("epoch")]
    assert code == 0 and err == "" and all(lines) and [m[1] for m in lines] == ["1", "2", "3"]
    assert 80 < float(lines[-1][2]) <= 100
    assert out.startswith("softmax on digits: 1438 training and 359 test images\n")


def test_the_seed_decides_everything(run):
    def result(seed):
        return re.sub(r"  \d+\.\d s", "", run("train", "mlp", "--epochs", 1, "--seed", seed)[1])

    assert result(5) == result(5) != result(6)


def test_options_reach_the_training(run):
    settings = backend.get(), math_mode.get()
    out = run("train", "softmax", "--epochs", 1, "--batch-size", 7, "--lr", 0.02, "--backend", "numpy", "--math-mode", "pedantic")[1]
    assert "batch size 7, learning rate 0.02\nbackend numpy, math mode pedantic\n" in out and "epoch 1/1" in out
    assert (backend.get(), math_mode.get()) == settings


def test_parameters_and_curves_are_written(run, tmp_path):
    load_file = pytest.importorskip("safetensors.numpy").load_file
    pytest.importorskip("matplotlib")
    saved, picture = tmp_path / "p.safetensors", tmp_path / "curves.png"
    code, out, _ = run("train", "softmax", "--epochs", 2, "--save", saved, "--plot", picture)
    assert code == 0 and f"saved in {saved}" in out and sorted(tmp_path.iterdir()) == [picture, saved]
    assert {name: (p.shape, p.dtype) for name, p in load_file(saved).items()} == {
        "dense.weight": ((64, 10), np.float32),
        "dense.bias": ((10,), np.float32),
    }
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_backends_are_listed_with_reasons(run, monkeypatch):
    monkeypatch.setattr(backend, "available", lambda: {"numpy": None, "elsewhere": "no such library"})
    assert run("backends") == (0, "numpy      available\nelsewhere  not available: no such library\n", "")


def test_version(run):
    assert run("--version") == (0, f"autotape {autotape.__version__}\n", "")


WRONG = {
    "no command": ([], "command"),
    "unknown command": (["fly"], "fly"),
    "no model": (["train"], "model"),
    "unknown model": (["train", "resnet"], "lenet"),
    "unknown data": (["train", "mlp", "--data", "cifar"], "digits"),
    "unknown option": (["train", "mlp", "--speed", "9"], "--speed"),
    "shortened option": (["train", "mlp", "--epoch", "1"], "--epoch"),
    "unknown backend": (["train", "mlp", "--backend", "abacus"], "backend 'abacus' is unknown: known are 'numpy'"),
    "unknown math mode": (["train", "mlp", "--math-mode", "sloppy"], "pedantic"),
    "no epoch": (["train", "mlp", "--epochs", "0"], "--epochs: '0' isn't a whole number from 1 on"),
    "half an epoch": (["train", "mlp", "--epochs", "1.5"], "--epochs: '1.5' isn't a whole number from 1 on"),
    "no batch": (["train", "mlp", "--batch-size", "0"], "--batch-size: '0' isn't a whole number from 1 on"),
    "nan rate": (["train", "mlp", "--lr", "nan"], "--lr: 'nan' isn't a finite number above zero"),
    "infinite rate": (["train", "mlp", "--lr", "inf"], "--lr: 'inf' isn't"),
    "zero rate": (["train", "mlp", "--lr", "0"], "--lr: '0' isn't"),
    "rate in words": (["train", "mlp", "--lr", "low"], "--lr: 'low' isn't"),
    "negative seed": (["train", "mlp", "--seed=-1"], "--seed: '-1' isn't a whole number from 0 on"),
    "mnist from nowhere": (["train", "mlp", "--data", "mnist"], "--data mnist needs --data-dir"),
    "a folder for digits": (["train", "mlp", "--data-dir", "."], "--data-dir goes with --data mnist"),
    "no such data folder": (["train", "mlp", "--data", "mnist", "--data-dir", "{tmp}/none"], "there is no folder {tmp}/none"),
    "no data in the folder": (["train", "mlp", "--data", "mnist", "--data-dir", "{tmp}"], "neither train-images-idx3-ubyte nor"),
    "save into nowhere": (["train", "mlp", "--save", "{tmp}/none/p"], "--save {tmp}/none/p: there is no folder {tmp}/none"),
    "save over a folder": (["train", "mlp", "--save", "{tmp}"], "--save {tmp}: this is a folder"),
    "plot into nowhere": (["train", "mlp", "--plot", "{tmp}/none/p.png"], "--plot {tmp}/none/p.png: there is no folder"),
    "plot as something else": (["train", "mlp", "--plot", "{tmp}/p.jpg"], "must end in .png"),
    "one file for both": (["train", "mlp", "--save", "{tmp}/p.png", "--plot", "{tmp}/p.png"], "can't both write {tmp}/p.png"),
    "a diverging rate": (["train", "softmax", "--lr", "1e38"], "try a learning rate below 1e+38"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line(run, tmp_path, arguments, message):
    code, out, err = run(*(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert code == 2 and err.startswith("autotape: error: ") and err.count("\n") == 1
    assert message.replace("{tmp}", str(tmp_path)) in err
    assert "epoch" not in out and not list(tmp_path.iterdir())  # found before any training, and nothing left behind


@pytest.mark.parametrize(("option", "library"), [("--save", "safetensors"), ("--plot", "matplotlib")])
def test_a_missing_extra_is_named_before_training(run, tmp_path, monkeypatch, option, library):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, out, err = run("train", "mlp", option, tmp_path / "file.png")
    assert code == 2 and out == "" and f"{option} needs {library}" in err and "autotape[train]" in err


def test_interruption_gives_130_without_a_traceback():
    command = [sys.executable, "-m", "autotape", "train", "softmax", "--epochs", "100000"]
    restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731  a test run in the background ignores it, and children inherit that
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=restore) as process:
        while not process.stdout.readline().startswith("epoch"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err == "autotape: interrupted\n"


def test_a_reader_that_leaves_ends_it_quietly():
    command = f"{sys.executable} -m autotape train softmax --epochs 100 | head -n 1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("\n") == 1 and done.stderr == ""
