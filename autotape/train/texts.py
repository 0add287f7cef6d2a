"""A text as a data set of `autotape train charlm`: windows of characters, each with those that follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import random
from ..tape import no_grad
from .datasets import InputError

WINDOW = 64
TEST_SHARE = 0.1


class Windows(NamedTuple):
    """Parts of a text, as numbers of its characters."""

    characters: np.ndarray  # (N, WINDOW) int64
    labels: np.ndarray  # (N, WINDOW) int64, the character that follows each


def read(path: Path) -> tuple[str, tuple[Windows, Windows]]:
    """The characters of a UTF-8 file, sorted, and its windows as (train, test): the last tenth is to test on.

    Raises FileNotFoundError for a missing file, and InputError for one that is no text or too short for a window of each.
    """
    if not path.is_file():
        raise FileNotFoundError(f"--text {path}: there is no such file")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise InputError(f"--text {path}: this is no text in UTF-8 ({e.reason} at byte {e.start})") from e
    least = round((WINDOW + 2) / TEST_SHARE)
    if len(text) < least:
        raise InputError(f"--text {path}: holds {len(text)} characters; it takes {least} to train on some and test on a tenth")
    points = np.frombuffer(text.encode("utf-32-le"), "<u4")  # an array of text would lose the character of number 0
    alphabet, codes = np.unique(points, return_inverse=True)
    start = round(len(codes) * (1 - TEST_SHARE))
    return "".join(map(chr, alphabet)), (windows(codes[:start]), windows(codes[start:]))


def windows(codes: np.ndarray) -> Windows:
    """Side by side; what doesn't fill the last one is left out."""
    end = (len(codes) - 1) // WINDOW * WINDOW
    return Windows(codes[:end].reshape(-1, WINDOW), codes[1 : end + 1].reshape(-1, WINDOW))


def sample(apply: Callable[[Any, Any], Any], parameters: Any, alphabet: str, length: int, temperature: float = 0.7) -> str:
    """As many characters as the model writes after a line's end (or its first character), drawn from autotape.random."""
    codes = [max(alphabet.find("\n"), 0)]
    with no_grad():
        for _ in range(length):
            scores = apply(parameters, np.array([codes[-WINDOW:]]))
            sums = np.cumsum(np.exp((lasts := np.asarray(scores, np.float64)[0, :, -1] / temperature) - lasts.max()))
            codes.append(int(np.searchsorted(sums / sums[-1], float(random.uniform()), side="right")))  # below the last, which is 1
    return "".join(alphabet[c] for c in codes[1:])
