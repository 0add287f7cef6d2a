"""Search for hyperparameters: golden sections in several dimensions, and hyperband."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import describe

GOLDEN = (1 + math.sqrt(5)) / 2


def goldensection(f: Callable[[Any], Any], n: int, dxmin: float = 0.1) -> tuple[float, Any]:
    """The least value found of f, and the vector of n float64 numbers where it was, by golden sections along each axis.

    The search begins at zeros with steps of 1.  A step that gains makes the next along its axis longer by the golden ratio,
    one that doesn't turns it and makes it as much shorter, and the axis that promises the greatest gain is tried next, until
    all steps are below dxmin.  For positive numbers such as learning rates let f scale: lr = 0.01 * exp(x).  f may give NaN
    where it has no value, but for the zeros at which it begins: then ValueError is raised, as where dxmin is not above 0.
    Raises TypeError where f gives no number.
    """
    if not dxmin > 0:
        raise ValueError(f"goldensection: dxmin must be above 0, got {dxmin}")
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise ValueError(f"goldensection: n, how many numbers f takes, is a whole number from 0 on, not {n!r}")
    x, steps, gains = np.zeros(n), np.ones(n), np.full(n, np.inf)
    known: dict[tuple[float, ...], float] = {}

    def value(at: Any) -> float:
        with np.errstate(over="ignore"):  # where f falls without end
            key = tuple(np.round(at / dxmin, 8))  # places met again by another way differ in their last bits
        if key not in known:
            known[key] = _number("goldensection: f", f(at.copy()))
        return known[key]

    least = value(x)
    if math.isnan(least):
        raise ValueError("goldensection: f is NaN at zeros, where the search begins")
    while n and np.abs(steps).max() > dxmin:
        i = int(np.argmax(gains))
        there = x.copy()
        there[i] += steps[i]
        found = value(there)
        gain = -gains[i] if math.isnan(found) else least - found
        if gain > 0:
            x, least = there, found
            steps[i] *= GOLDEN
            gains[i] = GOLDEN * gain
            small = np.abs(steps) < dxmin * GOLDEN  # what was given up may be worth a try from here
            steps[small] = np.copysign(dxmin * GOLDEN, steps[small])
            gains[small] = np.maximum(gains[small], 0)
        else:
            steps[i] /= -GOLDEN
            gains[i] = -1 if abs(steps[i]) < dxmin else -gain / GOLDEN
    return least, x


def hyperband(
    getconfig: Callable[[], Any], getloss: Callable[[Any, float], Any], maxresource: float = 27, reduction: float = 3
) -> tuple[float, float, Any]:
    """The least loss found, with the resource it took and the configuration that had it (Li et al. 2016, Hyperband).

    getconfig() draws a configuration; getloss(configuration, resource) is its loss after so much of a resource, such as
    epochs: at most maxresource, an int where it is whole.  Of those that run together only the best 1/reduction get
    reduction times as much.  A loss of NaN is the worst.  Raises ValueError unless maxresource is finite and 1 or more,
    and reduction above 1.
    """
    if maxresource == math.inf:
        raise ValueError("hyperband: maxresource must be finite")
    if not maxresource >= 1 or not reduction > 1:
        raise ValueError(f"hyperband: maxresource={maxresource} and reduction={reduction}, but they must be at least 1, and above 1")
    rounds = 0
    while reduction ** (rounds + 1) <= maxresource:
        rounds += 1
    best: tuple[float, float, Any] = (math.nan, 0, None)  # than which any loss is better
    for s in range(rounds, -1, -1):
        count = math.ceil((rounds + 1) * reduction**s / (s + 1))
        configs = [getconfig() for _ in range(count)]
        for i in range(s + 1):
            resource = _whole(maxresource * reduction ** (i - s))
            ranked = sorted(((_worst_if_nan(getloss(c, resource)), k) for k, c in enumerate(configs)))
            if configs and not ranked[0][0] >= best[0]:
                best = ranked[0][0], resource, configs[ranked[0][1]]
            configs = [configs[k] for _, k in ranked[: int(count / reduction ** (i + 1))]]
    return best


def _whole(x: float) -> float:
    return round(x) if abs(x - round(x)) < 1e-9 * x else x


def _worst_if_nan(loss: Any) -> float:
    return math.inf if math.isnan(loss := _number("hyperband: getloss", loss)) else loss


def _number(function: str, x: Any) -> float:
    try:
        return float(x)
    except (TypeError, ValueError):
        raise TypeError(f"{function} must give a number, not {describe(x)}") from None
