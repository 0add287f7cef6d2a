"""What derivatives keep besides their values, at any order: shape, dtype, linearity, determinism, and nothing changed or shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import autotape as at
from autotape import kernels, math_mode, operator

from .differences import Arrays, Flat

__all__ = ["Place", "check_gradients", "check_tangents"]


class Place(NamedTuple):
    """What is checked: f at the arrays xs.  The names of xs and the order of the derivatives are for the messages."""

    f: Flat
    xs: Arrays
    names: list[str]
    order: int
    rtol: float
    atol: float

    def where(self, i: int) -> str:
        return f"check_grads: argument {self.names[i]}, order {self.order}"


def check_gradients(place: Place, cts: Arrays, others: Arrays) -> Arrays:
    """The gradients for the cotangents cts, once they have kept their promises; others are cotangents too."""
    f, xs, given = place.f, place.xs, [*place.xs, *cts, *others]
    before = [a.copy() for a in given]
    _, pull = at.vjp(f, *xs)
    grads, second, mixed = pull(cts), pull(others), pull(combined(cts, others))
    again = at.vjp(f, *xs)[1](cts)
    check_rules(place, cts)
    check_unchanged(place, given, before)
    for i, (x, g) in enumerate(zip(xs, grads, strict=True)):
        where = f"{place.where(i)}: the gradient"
        if type(g) is not np.ndarray or g.shape != x.shape or g.dtype != x.dtype:
            raise AssertionError(f"{where} is {described(g)}, the argument {described(x)}")
        if not g.flags.writeable or any(np.may_share_memory(g, a) for a in (*given, *grads[:i], *second)):
            raise AssertionError(f"{where} is read-only or shares memory with an argument, a cotangent or another gradient")
        check_repeatable(where, g, again[i], lambda: at.vjp(f, *xs)[1](cts), i)
        check_linear(place, where, "cotangent", g, second[i], mixed[i])
    return list(grads)


def check_tangents(place: Place, i: int, v: np.ndarray, w: np.ndarray) -> Arrays:
    """The derivatives of the results along v in argument i, once jvp has kept its promises; w is another direction."""
    def run(direction: np.ndarray) -> Any:
        return at.jvp(lambda xs: place.f(*xs), place.xs, tangents(place.xs, i, direction))

    given = [*place.xs, v, w]
    before = [a.copy() for a in given]
    (ys, first), *rest = map(run, (v, w, 2 * v - w, v))
    check_unchanged(place, given, before)
    (_, second), (_, mixed), (_, again) = rest
    for k, (y, dy) in enumerate(zip(ys, first, strict=True)):
        where = f"{place.where(i)}: the jvp of result {k}"
        if np.shape(dy) != np.shape(y) or dy.dtype != y.dtype:
            raise AssertionError(f"{where} is {described(dy)}, the result {described(y)}")
        check_repeatable(where, dy, again[k], lambda: run(v)[1], k)
        check_linear(place, where, "tangent", *(np.asarray(t[k]) for t in (first, second, mixed)))
    return [np.asarray(dy) for dy in first]


def tangents(xs: Arrays, i: int, v: np.ndarray) -> Arrays:
    """v for argument i, zeros for the others."""
    return [v if j == i else np.zeros_like(x) for j, x in enumerate(xs)]


def combined(a: Arrays, b: Arrays) -> Arrays:
    return [2 * x - y for x, y in zip(a, b, strict=True)]


def check_repeatable(where: str, g: Any, again: Any, run: Callable[[], Sequence[Any]], i: int) -> None:
    """g and again, both run()[i], have the same bits; where the math mode leaves the order of sums open, those of pedantic mode have."""
    if not np.array_equal(g, again, equal_nan=True):
        with math_mode.use("pedantic"):
            g, again = run()[i], run()[i]
        if not np.array_equal(g, again, equal_nan=True):
            raise AssertionError(f"{where} differs from run to run")


def check_linear(place: Place, where: str, of: str, g: np.ndarray, second: np.ndarray, mixed: np.ndarray) -> None:
    """g, second and mixed are for a, b and 2 a - b."""
    bound = place.atol + place.rtol * (2 * abs(g) + abs(second))
    if np.any(abs(2 * g - second - mixed) > bound):  # NaN is left to the comparison of values
        raise AssertionError(f"{where} is not linear in the {of}")


def check_unchanged(place: Place, given: Sequence[np.ndarray], before: Arrays) -> None:
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(given, before, strict=True)):
        raise AssertionError(f"check_grads: order {place.order}: an argument, cotangent or tangent was changed by the gradient")


# ---------------------------------------------------------------- the cotangents that rules give, before the engine casts them


@operator
def probe(x, log=()):  # type: ignore[no-untyped-def]
    """x, whose cotangents are looked at."""
    return kernels().reshape(x, x.shape)


@probe.backward
def _(dy, x_like, log):  # type: ignore[no-untyped-def]
    log.append(dy)
    return dy


def check_rules(place: Place, cts: Arrays) -> None:
    """Each cotangent of the arguments comes in their dtype."""
    logs: list[list[Any]] = [[] for _ in place.xs]
    _, pull = at.vjp(lambda *xs: place.f(*(probe(x, log) for x, log in zip(xs, logs, strict=True))), *place.xs)
    pull(cts)
    for i, (x, log) in enumerate(zip(place.xs, logs, strict=True)):
        if any(g.dtype != x.dtype for g in log):
            raise AssertionError(f"{place.where(i)}: a rule gave a cotangent of {log[-1].dtype} for an input of {x.dtype}")


def described(a: Any) -> str:
    return f"{type(a).__name__} {getattr(a, 'shape', '')} {getattr(a, 'dtype', '')}".rstrip()
