"""The picture of a training: loss and accuracy over the epochs.  matplotlib is imported only here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..io import atomically
from .classify import Epoch


def curves(epochs: Sequence[Epoch], title: str, path: Path) -> None:
    """Write a PNG with the train and test curves.  Raises OSError where the file can't be written."""
    from matplotlib.figure import Figure  # a Figure of one's own draws with Agg and needs no display

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    figure.suptitle(title, parse_math=False)  # a file's name may hold dollars
    left, right = figure.subplots(1, 2)
    numbers = [e.number for e in epochs]
    left.plot(numbers, [e.train_loss for e in epochs], "o-", markersize=3, label="train (running)")
    left.plot(numbers, [e.test_loss for e in epochs], "o-", markersize=3, label="test")
    left.set(xlabel="epoch", ylabel="loss (nats)", yscale="log")
    right.plot(numbers, [100 * e.train_accuracy for e in epochs], "o-", markersize=3, label="train (running)")
    right.plot(numbers, [100 * e.test_accuracy for e in epochs], "o-", markersize=3, label="test")
    right.set(xlabel="epoch", ylabel="accuracy (%)")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
        axes.xaxis.get_major_locator().set_params(integer=True)
    with atomically(path) as file:
        figure.savefig(file, format="png", dpi=150)
