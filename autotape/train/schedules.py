"""Schedules: what an optimiser's rate is multiplied by, update by update.

    opt = Adam(lr=1e-3, schedule=warmup(100) * cosine(5000))
    opt = SGD(lr=0.1, schedule=step(30 * len(data)))
    opt = SGD(lr=0.1, schedule=lambda t: 1 / (1 + t / 1000))
    s = warmup(100).then(100, cosine(900, end=0.1))

A schedule is a callable: schedule(t) gives the share of lr for an update that follows t others, 1 being all of it.
Those made here can be multiplied with one another and with any such callable, and follow one another.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

Share = Callable[[int], float]


class Schedule:
    """A schedule of a function of the number of updates done."""

    def __init__(self, share: Share) -> None:
        if not callable(share):
            raise TypeError(f"a schedule is a function of the number of updates done, not {share!r}")
        self._share = share

    def __call__(self, t: int) -> float:
        return self._share(t)

    def __mul__(self, other: Share) -> Schedule:
        """The product at each update."""
        share, times = self._share, Schedule(other)._share
        return Schedule(lambda t: share(t) * times(t))

    __rmul__ = __mul__

    def then(self, steps: int, other: Share) -> Schedule:
        """This one for `steps` updates, then the other, which counts from 0."""
        n, first, second = _count("then", "steps", steps), self._share, Schedule(other)._share
        return Schedule(lambda t: first(t) if t < n else second(t - n))


def step(every: int, factor: float = 0.1) -> Schedule:
    """Times `factor` after each `every` updates; with every=1 the rate falls exponentially."""
    n = _count("step", "every", every)
    return Schedule(lambda t: factor ** (t // n))


def cosine(steps: int, end: float = 0.0) -> Schedule:
    """From 1 along half a cosine to `end` after `steps` updates, where it stays."""
    n = _count("cosine", "steps", steps)
    return Schedule(lambda t: end + (1 - end) * (1 + math.cos(math.pi * min(t, n) / n)) / 2)


def linear(steps: int, end: float = 0.0) -> Schedule:
    """From 1 in a straight line to `end` after `steps` updates, where it stays."""
    n = _count("linear", "steps", steps)
    return Schedule(lambda t: 1 + (end - 1) * min(t, n) / n)


def warmup(steps: int) -> Schedule:
    """1/steps, 2/steps ... and 1 from update number `steps` on: no update is wasted on a rate of 0."""
    n = _count("warmup", "steps", steps)
    return Schedule(lambda t: min(1.0, (t + 1) / n))


def _count(schedule: str, name: str, value: int) -> int:
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{schedule}: {name} is a whole number, not {value!r}") from None
    if n < 1:
        raise ValueError(f"{schedule}: {name} is at least 1, not {n}")
    return n
