"""The command line: what it prints and writes, and one line for each thing a user may get wrong."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import autotape
from autotape import backend, cli, math_mode
from autotape.backends.pycuda_backend.compilation import build, compiler
from autotape.cli import main
from autotape.opsets import v20 as ops
from autotape.train import datasets, models, texts

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
    assert "batch size 7, learning rate 0.02\noptimizer adam, schedule linear, backend numpy, math mode pedantic\nepoch 1/1" in out
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
    pixels, labels = datasets.digits(0)[1]
    accuracy = ops.accuracy(models.MODELS["softmax"].apply(autotape.load(saved), pixels), labels)
    assert f"{100 * accuracy:.2f}" == LINE.fullmatch(out.splitlines()[-3])[2]


def test_optimizer_schedule_and_log(run, tmp_path):
    log = tmp_path / "log.csv"
    out = run("train", "softmax", "--epochs", 2, "--optimizer", "momentum", "--schedule", "cosine", "--log", log)[1]
    assert "learning rate 0.05\noptimizer momentum, schedule cosine, " in out
    with open(log, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "epoch", "loss", "lr", "train_accuracy", "test_loss", "test_accuracy"]
    assert [r["step"] for r in rows] == ["45", "90"] and float(rows[1]["lr"]) < 1e-3
    assert [f"{100 * float(r['test_accuracy']):.2f}" for r in rows] == [LINE.fullmatch(line)[2] for line in out.splitlines()[3:]]


@pytest.mark.numpy_only("a process of its own, which takes NumPy")
def test_an_interrupted_training_goes_on_bit_for_bit(run, tmp_path):
    def figures(text):
        return [re.sub(r"  \d+\.\d s", "", line) for line in text.splitlines() if line.startswith("epoch")]

    arguments = ["train", "mlp", "--epochs", "6", "--seed", "3", "--log", "log.csv", "--save", "p", "--resume", "snapshots"]
    for place in ("whole", "parts"):
        (tmp_path / place).mkdir()
    command, environment = [sys.executable, "-m", "autotape", *arguments], {**os.environ, "PYTHONPATH": str(ROOT)}
    whole = subprocess.run(command, cwd=tmp_path / "whole", env=environment, capture_output=True, text=True, timeout=120)
    assert whole.returncode == 0 and len(figures(whole.stdout)) == 6
    restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path / "parts", env=environment, preexec_fn=restore, **pipes) as process:
        begun = ""
        while "epoch 2/6" not in begun:
            assert process.poll() is None
            begun += process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()  # communicate would pass over what readline has read ahead
    assert process.returncode == 130 and err.endswith("\nautotape: interrupted\n") and err.count("\n") == 2
    rest = subprocess.run(command, cwd=tmp_path / "parts", env=environment, capture_output=True, text=True, timeout=120)
    assert re.search(r"^going on after step \d+, batch \d+ of epoch \d$", rest.stdout, re.MULTILINE)
    assert figures(begun + out) + figures(rest.stdout) == figures(whole.stdout)
    for file in ("log.csv", "p"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_another_training_does_not_go_on(run, tmp_path):
    folder = tmp_path / "snapshots"
    assert run("train", "softmax", "--epochs", 1, "--resume", folder)[0] == 0
    for options, message in [
        (["mlp"], "the snapshot is of another model: ['dense1.weight'] is float32(64, 128) here and not there"),
        (["softmax", "--optimizer", "sgd"], "this is no state of SGD"),
        (["softmax", "--seed", "1"], "is of softmax on digits, seed 0, batch size 32, but this is softmax on digits, seed 1, batch"),
        (["softmax", "--batch-size", "8"], "in shuffled batches of 32, but this one is of 1438 instances in shuffled batches of 8"),
    ]:
        code, out, err = run("train", *options, "--resume", folder)
        assert (code, out) == (2, "") and err.startswith(f"autotape: error: --resume {folder}: ") and message in err
        assert err.count("\n") == 1
    code, out, _ = run("train", "softmax", "--epochs", 2, "--resume", folder)
    assert code == 0 and "going on after step 45, batch 45 of epoch 1\nepoch 2/2" in out


@pytest.mark.numpy_only("minutes on an emulated driver; test_pycuda_training.py has a shorter one")
def test_charlm_learns_and_writes(run, tmp_path):
    text, saved = tmp_path / "text.txt", tmp_path / "p"
    text.write_text("the tape is wound, the tape is found\n" * 60, encoding="utf-8")
    code, out, err = run("train", "charlm", "--text", text, "--epochs", 12, "--batch-size", 8, "--lr", 0.01, "--save", saved)
    lines = [LINE.fullmatch(line) for line in out.splitlines() if line.startswith("epoch")]
    assert code == 0 and err == "" and len(lines) == 12 and 90 < float(lines[-1][2]) <= 100
    assert out.startswith("charlm on text.txt: 31 training and 3 test windows of 64 characters\n") and "the tape is wound" in out
    parameters = autotape.load(saved)
    assert sorted(parameters) == ["alphabet", "dense.bias", "dense.weight", "embedding", "lstm"]
    assert parameters["embedding"].shape == (16, 64) and parameters["lstm"].options["hidden_size"] == 256
    assert "the tape is wound" in texts.sample(models.MODELS["charlm"].apply, parameters, parameters["alphabet"], 300)


def test_charlm_goes_on(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "SAMPLE", 3)
    monkeypatch.setattr(texts, "WINDOW", 8)
    text, options = tmp_path / "text.txt", ("--epochs", 2, "--schedule", "constant", "--batch-size", 8)
    text.write_text("the tape is wound, the tape is found\n" * 4, encoding="utf-8")
    whole = run("train", "charlm", "--text", text, *options)[1]
    run("train", "charlm", "--text", text, *options, "--epochs", 1, "--resume", tmp_path / "run")
    rest = run("train", "charlm", "--text", text, *options, "--resume", tmp_path / "run")[1]
    assert "going on after step 2, batch 2 of epoch 1\nepoch 2/2" in rest
    assert rest.partition("epoch 2/2")[2].partition("%  ")[0] == whole.partition("epoch 2/2")[2].partition("%  ")[0]


def test_backends_are_listed_with_reasons(run, monkeypatch):
    monkeypatch.setattr(backend, "available", lambda: {"numpy": None, "elsewhere": "no such library"})
    assert run("backends") == (0, "numpy      available\nelsewhere  not available: no such library\n", "")


NVCC = """#!/bin/sh
[ "$1" = --version ] && echo "a script, V1.2" && exit
while [ "$1" != -o ]; do shift; done
cp "$3" "$2"
"""


@pytest.fixture
def nvcc(tmp_path, monkeypatch):
    """A script that takes nvcc's place, and an empty cache for what it compiles."""
    (tmp_path / "nvcc").write_text(NVCC)
    (tmp_path / "nvcc").chmod(0o755)
    monkeypatch.setenv("AUTOTAPE_NVCC", str(tmp_path / "nvcc"))
    monkeypatch.setenv("AUTOTAPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "nvcc"


def test_the_compiler_of_cuda_kernels_is_listed(run, nvcc, monkeypatch):
    monkeypatch.setattr(backend, "available", lambda: {"pycuda": None})
    assert run("backends")[:2] == (0, f"pycuda  available\n        CUDA kernels are compiled by nvcc 1.2 ({nvcc})\n")
    monkeypatch.setenv("AUTOTAPE_NVCC", f"{nvcc}.none")
    assert run("backends")[1].endswith("\n        CUDA kernels are compiled by nothing here: `autotape backends --build` says why\n")


def test_cuda_kernels_are_compiled_ahead(run, nvcc, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "units", lambda: ["one", "two"])
    monkeypatch.setattr(compiler, "unit_text", lambda unit: f"// variants: TYPE=float; TYPE=double\n// {unit} {'x' * 940}\n")
    code, out, err = run("backends", "--build", "--arch", "sm_80", "--arch", "sm_120")
    assert (code, err) == (0, "") and len(list((tmp_path / "cache" / "kernels").iterdir())) == 8
    assert out.splitlines() == [
        f"nvcc 1.2 ({nvcc}) compiles for sm_80, sm_120",
        "one                 4 binaries,      4.1 kB",
        "two                 4 binaries,      4.1 kB",
        f"8 binaries, 0.0 MB, are in {tmp_path / 'cache' / 'kernels'}",
    ]
    monkeypatch.setattr(build, "architectures_here", lambda: ["sm_75"])
    assert run("backends", "--build")[1].startswith(f"nvcc 1.2 ({nvcc}) compiles for sm_75\n")


def test_cuda_kernels_that_cannot_be_compiled(run, nvcc, monkeypatch):
    monkeypatch.setattr(build, "units", lambda: ["one"])
    monkeypatch.setattr(compiler, "unit_text", lambda unit: "")
    nvcc.write_text(NVCC.replace("cp", "echo 'one.cu(1): error: no' >&2; exit 1"))
    code, _, err = run("backends", "--build", "--arch", "sm_90")
    assert (code, err) == (1, "autotape: error: kernel unit 'one' for sm_90 does not compile: one.cu(1): error: no\n")
    monkeypatch.setenv("AUTOTAPE_NVCC", f"{nvcc}.none")
    code, out, err = run("backends", "--build", "--arch", "sm_90")
    assert (code, out) == (1, "") and err.startswith(f"autotape: error: no CUDA compiler: AUTOTAPE_NVCC names {nvcc}.none: ")


def test_cuda_kernels_for_no_device(run, monkeypatch):
    monkeypatch.setattr(build, "architectures_here", list)
    code, out, err = run("backends", "--build")
    assert (code, out) == (2, "") and "there is no CUDA device here whose kernels these would be; name one by --arch sm_90" in err


def test_a_warning_is_one_line(run, monkeypatch):
    def available():
        warnings.warn("mind the tape", stacklevel=2)
        return {"numpy": None}

    monkeypatch.setattr(backend, "available", available)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("backends") == (0, "numpy  available\n", "autotape: warning: mind the tape\n")


def test_version(run):
    assert run("--version") == (0, f"autotape {autotape.__version__}\n", "")


WRONG = {
    "no command": ([], "command"),
    "unknown command": (["fly"], "fly"),
    "no architecture": (["backends", "--build", "--arch", "90"], "--arch: '90' is no architecture such as sm_90"),
    "an architecture for a list": (["backends", "--arch", "sm_90"], "--arch goes with --build"),
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
    "one file for both": (["train", "mlp", "--save", "{tmp}/p.png", "--plot", "{tmp}/p.png"], "can't both be {tmp}/p.png"),
    "unknown optimizer": (["train", "mlp", "--optimizer", "adagard"], "adagrad"),
    "unknown schedule": (["train", "mlp", "--schedule", "steps"], "warmup"),
    "log into nowhere": (["train", "mlp", "--log", "{tmp}/none/log.csv"], "--log {tmp}/none/log.csv: there is no folder"),
    "one file for log and save": (["train", "mlp", "--save", "{tmp}/p", "--log", "{tmp}/p"], "--save and --log can't both be {tmp}/p"),
    "one file by two names": (["train", "mlp", "--save", "{tmp}/p", "--log", "{tmp}/none/../p"], "--save and --log can't both be {tmp}/p"),
    "save over the text": (["train", "charlm", "--text", "{tmp}/p", "--save", "{tmp}/p"], "--text and --save can't both be {tmp}/p"),
    "save over the snapshots": (["train", "mlp", "--resume", "{tmp}/p", "--save", "{tmp}/p"], "--resume and --save can't both be {tmp}/p"),
    "resume in nowhere": (["train", "mlp", "--resume", "{tmp}/none/run"], "--resume {tmp}/none/run: this is no folder, nor is there one"),
    "charlm without a text": (["train", "charlm"], "charlm learns from --text FILE"),
    "charlm of images": (["train", "charlm", "--text", "README.md", "--data", "digits"], "leave out --data"),
    "a text for images": (["train", "mlp", "--text", "README.md"], "--text goes with charlm; mlp is for images"),
    "no such text": (["train", "charlm", "--text", "{tmp}/none"], "--text {tmp}/none: there is no such file"),
    "a model for a trace": (["train", "--profile", "mlp"], "--profile: 'mlp' is a model: it stands before --profile"),
    "a diverging rate": (["train", "softmax", "--lr", "1e38"], "try a learning rate below 1e+38"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line(run, tmp_path, arguments, message):
    code, out, err = run(*(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert code == 2 and err.startswith("autotape: error: ") and err.count("\n") == 1
    assert message.replace("{tmp}", str(tmp_path)) in err
    assert "epoch" not in out and not list(tmp_path.iterdir())  # found before any training, and nothing left behind


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff" * 1000, "this is no text in UTF-8 (invalid start byte at byte 0)"), (b"short", "holds 5 characters; it takes 660")],
)
def test_a_text_that_is_none(run, tmp_path, content, message):
    (tmp_path / "text").write_bytes(content)
    code, out, err = run("train", "charlm", "--text", tmp_path / "text")
    assert (code, out) == (2, "") and f"--text {tmp_path / 'text'}: {message}" in err


def test_a_missing_extra_is_named_before_training(run, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, out, err = run("train", "mlp", "--plot", tmp_path / "file.png")
    assert code == 2 and out == "" and "--plot needs matplotlib" in err and "autotape[train]" in err


@pytest.mark.numpy_only("a process of its own, which takes NumPy")
def test_interruption_gives_130_without_a_traceback():
    command = [sys.executable, "-m", "autotape", "train", "softmax", "--epochs", "100000"]
    restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731  a test run in the background ignores it, and children inherit that
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=restore) as process:
        while not process.stdout.readline().startswith("epoch"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err == "autotape: interrupted\n"


@pytest.mark.numpy_only("a process of its own, which takes NumPy")
def test_a_reader_that_leaves_ends_it_quietly():
    command = f"{sys.executable} -m autotape train softmax --epochs 100 | head -n 1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("\n") == 1 and done.stderr == ""
