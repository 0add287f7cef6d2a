"""Where random seeds come from: the system, or a list that replays them, so that a function run again is the function that ran."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar

import numpy as np

from .context import using


@functools.lru_cache(1)
def _system() -> np.random.Generator:
    """A generator started from the system's entropy.  Its methods hold a lock, so threads may share it."""
    return np.random.default_rng()


def _fresh() -> int:
    return int(_system().integers(2**63))


_draw: ContextVar[Callable[[], int]] = ContextVar("draw", default=_fresh)


def seed() -> int:
    """A seed for one random operator: a whole number below 2**63."""
    return _draw.get()()


def noted(seeds: list[int]) -> using:
    """`with noted(seeds):` the seeds drawn are also appended to the list."""
    draw = _draw.get()

    def note() -> int:
        seeds.append(draw())
        return seeds[-1]

    return using((_draw, note))


def replayed(seeds: list[int]) -> using:
    """`with replayed(seeds):` the same seeds are drawn again; a function that wants more of them gets fresh ones."""
    again, more = iter(seeds), _draw.get()

    def draw() -> int:
        found = next(again, None)
        return more() if found is None else found

    return using((_draw, draw))
