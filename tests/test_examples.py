"""Every example's smallest run ends well and leaves no file behind, and its figure is one that only a program that learns prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import autotape as at
from autotape.opsets import v20 as ops

pytestmark = pytest.mark.numpy_only("scripts in processes of their own, which take NumPy")

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


def lines(example: str, *arguments: object) -> list[str]:
    """What `example --quick` prints."""
    finished = "ignore:this training has made all its"  # convnet, started again in the folder of a run that is done
    command = [sys.executable, "-W", "error", "-W", finished, str(EXAMPLES / f"{example}.py"), "--quick", *map(str, arguments)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        assert not os.listdir(folder)
    return run.stdout.splitlines()


def figures(line: str) -> list[float]:
    """The numbers in a line."""
    return [float(text.replace(",", "")) for text in NUMBER.findall(line)]


def test_every_script_is_tested_and_in_the_docs() -> None:
    tests, page = Path(__file__).read_text(encoding="utf-8"), (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    scripts = [path.stem for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")]
    assert len(scripts) > 10
    assert [s for s in scripts if f'"{s}"' not in tests or f"| `{s}.py" not in page] == []


# ---------------------------------------------------------------- classical networks


def test_housing() -> None:
    """On prices that are linear in the figures but for noise of variance 4."""
    *epochs, last = lines("housing")
    reached, least, test = figures(last)
    assert figures(epochs[0])[-1] > 100
    assert 3 < least <= reached < least + 0.5
    assert test < 7


def test_housing_of_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 13))
    table = np.column_stack([x, x @ rng.normal(size=13) + 20 + 2 * rng.normal(size=500)])
    (tmp_path / "tables").mkdir()
    header = ",".join(f'"{i}"' for i in range(14))
    np.savetxt(tmp_path / "tables" / "housing.csv", table, delimiter=",", header=header, comments="")
    *_, last = lines("housing", "--data", tmp_path)
    reached, least, _ = figures(last)
    assert 3 < least <= reached < least + 2


@pytest.mark.parametrize(("model", "floor"), [("softmax", 70), ("mlp", 85), ("lenet", 80)])
def test_mnist(model: str, floor: float) -> None:
    first, second, last = lines("mnist", model)
    assert figures(second)[1] < figures(first)[1]
    assert floor < figures(last)[-1] <= 100


def test_optimizers(tmp_path: Path) -> None:
    *table, last = lines("optimizers", "--plot", tmp_path / "losses.png")
    names = [line.split()[0] for line in table]
    assert names == ["SGD", "Momentum", "Nesterov", "Adagrad", "Rmsprop", "Adadelta", "Adam", "AdamW"]
    assert all(train < 2 and test < 2 and accuracy > 50 for _, train, test, accuracy in map(figures, table))
    assert figures(last)[0] > 90
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")


def test_convnet(tmp_path: Path) -> None:
    """Started again in the folder of a run that is done, it has only the figure left to print."""
    options = "--snapshots", tmp_path / "run", "--save", tmp_path / "net.safetensors"
    *epochs, last = lines("convnet", *options)
    assert figures(epochs[-1])[-1] < figures(epochs[0])[-1]
    assert figures(last)[0] > 90
    assert lines("convnet", *options) == [last]
    saved = at.load(tmp_path / "net.safetensors")
    assert saved["blocks"][1][0]["w"].shape == (32, 16, 3, 3)
    assert isinstance(saved["blocks"][0][0]["moments"], type(ops.bnmoments()))


def test_resnet() -> None:
    *steps, last = lines("resnet", "--batch", 2)
    assert figures(steps[-1])[-1] < figures(steps[0])[-1] < 12
    assert figures(last)[0] == 11_689_512


# ---------------------------------------------------------------- sequences, pictures, games


def test_charlm(tmp_path: Path) -> None:
    saved = tmp_path / "model.safetensors"
    first, *_, last = lines("charlm", "--save", saved)
    assert figures(last)[0] < figures(first)[0] - 0.5
    model = at.load(saved)
    assert model["embedding"].shape == (len(model["alphabet"]), 64)


def test_charlm_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the tape is wound, the tape is found\n" * 300, encoding="utf-8")
    first, *_, last = lines("charlm", "--text", tmp_path / "text.txt")
    assert figures(last)[0] < figures(first)[0] - 0.2


def test_tagging() -> None:
    first, *_, last = lines("tagging")
    assert figures(first)[0] < 70 and 95 < figures(last)[0] <= 100


def test_seq2seq() -> None:
    *_, last = lines("seq2seq")
    before, after = figures(last)[:2]
    assert before > 3 and after < 2


def test_vae(tmp_path: Path) -> None:
    first, *_, last = lines("vae", "--picture", tmp_path / "digits.png")
    assert figures(first)[0] > 40 and 20 < figures(last)[0] < 30
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


def test_dcgan(tmp_path: Path) -> None:
    """Untrained drawings are 6.6 from the nearest digit."""
    *_, last = lines("dcgan", "--picture", tmp_path / "digits.png")
    assert 2 < figures(last)[0] < 4.5
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("method", ["reinforce", "dqn", "actor_critic"])
def test_cartpole(method: str) -> None:
    first, *_, last = lines(method)
    assert figures(first)[0] < 60 and 100 < figures(last)[0] <= 500


# ---------------------------------------------------------------- complex numbers


def test_phase_retrieval() -> None:
    first, *_, last = lines("phase_retrieval")
    assert figures(first)[1] > 0.01
    found, starts, error = figures(last)
    assert 1 <= found <= starts == 8 and error < 1e-3


def test_quantum_state() -> None:
    first, *_, last = lines("quantum_state")
    assert figures(first)[1] > 0.1 and figures(first)[2] > 1
    assert 0 < figures(last)[1] < 0.001 and figures(last)[2] < 0.1
