"""Whole trainings on the pycuda backend, a few steps each: their losses are those of the numpy backend."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest

from autotape import cli
from autotape.train import datasets, texts

LOSSES = re.compile(r"loss (\d+\.\d+)")


def losses(capsys, backend, *arguments):
    """The training and the test loss of each epoch."""
    assert cli.main(["train", *map(str, arguments), "--backend", backend]) == 0
    return [float(loss) for loss in LOSSES.findall(capsys.readouterr().out)]


def test_lenet(k, capsys, monkeypatch):
    few = [datasets.Images(*(part[:24] for part in images)) for images in datasets.digits(0)]
    monkeypatch.setattr(datasets, "digits", lambda seed: few)
    found, expected = (losses(capsys, name, "lenet", "--epochs", 3, "--batch-size", 8) for name in ("pycuda", "numpy"))
    assert len(found) == 6 and found[4] < found[0]
    np.testing.assert_allclose(found, expected, 1e-3)


def test_charlm(k, capsys, monkeypatch, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the tape is wound, the tape is found\n" * 4, encoding="utf-8")
    monkeypatch.setattr(texts, "WINDOW", 8)
    monkeypatch.setattr(cli, "SAMPLE", 3)
    found, expected = (losses(capsys, name, "charlm", "--text", text, "--epochs", 2, "--batch-size", 8) for name in ("pycuda", "numpy"))
    assert len(found) == 4 and found[2] < found[0]
    np.testing.assert_allclose(found, expected, 1e-3)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"])
def test_a_copied_array_is_another_one_that_kernels_can_write_to(k, shape, copied):
    x = k.adopt(np.ones(shape, np.float32))
    y = copied(x)
    assert type(y) is k.array and y.value is None
    k.update_sgd(y, y, x, 0.5, 1.0, 0.0)
    np.testing.assert_array_equal(y, np.full(shape, 0.5, np.float32), strict=True)
    np.testing.assert_array_equal(x, np.ones(shape, np.float32), strict=True)
