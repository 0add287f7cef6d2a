"""check_grads: reverse-mode gradients against central differences, to any order, and the promises every gradient keeps.

The differences are taken in float64 whatever the arguments' dtype, along fixed random directions, so that a check
costs two evaluations an argument and one of a wrong gradient's elements is as good as all of them.  A second
derivative is the gradient of the first one's projection on a fixed cotangent: differences are never nested.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from autotape import tree
from autotape.transforms import vjp

__all__ = ["check_grads"]

Arrays = list[np.ndarray]
Flat = Callable[..., list[Any]]  # arrays in, list of arrays out
SHOWN = 1000  # elements a failure looks through for the worst one


class Tolerance(NamedTuple):
    rtol: float
    atol: float
    eps: float


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    rtol: float | None = None,
    atol: float | None = None,
    eps: float | None = None,
) -> None:
    """Check f's gradients at args, under the current backend.

    f takes arrays or pytrees and returns an array or pytree of floats; it must be smooth around args.  Every floating
    leaf of args (NumPy array, Tensor or float) is differentiated, all other leaves are constants.  For each, and for each
    order up to `order`, <vjp(ct), v> must equal the central difference of <f, ct> along v, for random ct and v, within
    atol + rtol * sum |vjp(ct) v|.  Each gradient must have its argument's shape and dtype, be linear in the cotangent,
    the same when computed again, writable, and share memory with no argument, cotangent or other gradient; arguments and
    cotangents must be left as they were.

    rtol is by default 4 sqrt(machine epsilon) of the coarsest dtype among arguments and results and at least 1e-6
    (float32: 1.4e-3), atol a tenth of rtol, and the step eps 6e-6.

    Raises AssertionError, which names the argument, the order, and the worst element with both its values; TypeError or
    ValueError where there is nothing to check.
    """
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"check_grads: args is a tuple of f's arguments, such as (x,), not {type(args).__name__}")
    if order < 1:
        raise ValueError(f"check_grads: order must be at least 1, not {order}")
    leaves, build = tree.flatten(tuple(args))
    free = [i for i, leaf in enumerate(leaves) if floating(leaf)]
    if not free:
        raise TypeError(f"check_grads: no floating array among the arguments {[type(x).__name__ for x in leaves]}")

    def flat(*xs: Any) -> list[Any]:
        given = dict(zip(free, xs, strict=True))
        y = f(*build([given.get(i, leaf) for i, leaf in enumerate(leaves)]))
        return [leaf for leaf in tree.leaves(y) if type(leaf) is not float and floating(leaf)]

    xs = [plain(leaves[i]) for i in free]
    ys, _ = vjp(flat, *xs)
    if not ys:
        raise TypeError("check_grads: f returned no array of floats")
    if rtol is None:
        rtol = max(1e-6, *(4 * float(np.finfo(a.dtype).eps) ** 0.5 for a in (*xs, *ys)))
    tolerance = Tolerance(rtol, rtol / 10 if atol is None else atol, 6e-6 if eps is None else eps)
    names = leaf_names(args)
    check(flat, xs, [names[i] for i in free], 1, order, tolerance)


def check(f: Flat, xs: Arrays, names: list[str], order: int, last: int, tolerance: Tolerance) -> None:
    """Check f's own gradients, then those of its gradient function, up to order `last`."""
    rng = np.random.default_rng(order)
    ys, _ = vjp(f, *xs)
    cts = [direction(rng, y) for y in ys]
    grads = check_promises(f, xs, cts, [direction(rng, y) for y in ys], names, order, tolerance)
    for i, name in enumerate(names):
        check_direction(f, xs, cts, i, grads[i], direction(rng, xs[i]), f"argument {name}, order {order}", tolerance)

    def gradient(*xs: Any) -> list[Any]:
        ys, pull = vjp(f, *xs)
        return list(pull([ct.astype(y.dtype) for ct, y in zip(cts, ys, strict=True)]))

    if order < last:
        check(gradient, xs, names, order + 1, last, tolerance)


def check_direction(f: Flat, xs: Arrays, cts: Arrays, i: int, grad: np.ndarray, v: np.ndarray, where: str, tolerance: Tolerance) -> None:
    """The gradient of <f, cts> in argument i along v against the central difference."""
    found, expected = inner(grad, v), difference(f, xs, cts, i, v, tolerance.eps)
    allowed = tolerance.atol + tolerance.rtol * inner(abs(grad), abs(v))
    if not abs(found - expected) <= allowed:  # also where either is NaN
        raise AssertionError(
            f"check_grads: {where}: the gradient along a random direction is {found:.9g}, central differences give {expected:.9g} "
            f"(allowed: {allowed:.2g} apart); {worst(f, xs, cts, i, grad, tolerance.eps)}"
        )


def worst(f: Flat, xs: Arrays, cts: Arrays, i: int, grad: np.ndarray, eps: float) -> str:
    """The element of the gradient that is furthest from its central difference."""
    errors = {}
    for index in itertools.islice(np.ndindex(grad.shape), SHOWN):
        unit = np.zeros(grad.shape)
        unit[index] = 1
        expected = difference(f, xs, cts, i, unit, eps)
        error = abs(float(grad[index]) - expected)
        errors[index] = (np.inf if np.isnan(error) else error, float(grad[index]), expected)
    index = max(errors, key=lambda k: errors[k][0])
    return "worst element {}: {:.9g} against {:.9g}".format(index, *errors[index][1:])


def check_promises(f: Flat, xs: Arrays, cts: Arrays, others: Arrays, names: list[str], order: int, tolerance: Tolerance) -> Arrays:
    """What every gradient keeps besides its value; gives the gradients for the cotangents cts."""
    before = [a.copy() for a in (*xs, *cts, *others)]
    _, pull = vjp(f, *xs)
    grads, second, mixed = pull(cts), pull(others), pull([2 * c - o for c, o in zip(cts, others, strict=True)])
    again = vjp(f, *xs)[1](cts)
    if not all(map(same, (*xs, *cts, *others), before)):
        raise AssertionError(f"check_grads: order {order}: an argument or cotangent was changed by the gradient")
    for i, (name, x, g) in enumerate(zip(names, xs, grads, strict=True)):
        where = f"check_grads: argument {name}, order {order}: the gradient"
        if type(g) is not np.ndarray or g.shape != x.shape or g.dtype != x.dtype:
            raise AssertionError(f"{where} is {described(g)}, the argument {described(x)}")
        if not g.flags.writeable or any(np.may_share_memory(g, a) for a in (*xs, *cts, *others, *grads[:i], *second)):
            raise AssertionError(f"{where} is read-only or shares memory with an argument, a cotangent or another gradient")
        if not same(g, again[i]):
            raise AssertionError(f"{where} differs from run to run")
        bound = tolerance.atol + tolerance.rtol * (2 * abs(g) + abs(second[i]))
        if np.any(abs(2 * g - second[i] - mixed[i]) > bound):  # NaN is left to the comparison of values
            raise AssertionError(f"{where} is not linear in the cotangent")
    return list(grads)


def difference(f: Flat, xs: Arrays, cts: Arrays, i: int, v: np.ndarray, eps: float) -> float:
    """(<f(x + eps v), ct> - <f(x - eps v), ct>) / 2 eps in float64, x being argument i."""
    wide = [x.astype(np.float64) for x in xs]

    def at(step: float) -> list[Any]:
        # Recording, as the gradient's own evaluation is: what an operator does may depend on it.
        ys, _ = vjp(f, *wide[:i], wide[i] + step * v, *wide[i + 1 :])
        return list(ys)

    return sum(inner(ct, plain(up) - plain(down)) for ct, up, down in zip(cts, at(eps), at(-eps), strict=True)) / (2 * eps)


def inner(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum(a.astype(np.float64) * b))


def direction(rng: np.random.Generator, like: Any) -> np.ndarray:
    """Random numbers of magnitude 0.5 to 1.5 in the shape and dtype of `like`: no element goes unseen."""
    return np.asarray(rng.choice((-1, 1), like.shape) * rng.uniform(0.5, 1.5, like.shape)).astype(like.dtype)


def floating(leaf: Any) -> bool:
    return type(leaf) is float or (hasattr(leaf, "dtype") and np.dtype(leaf.dtype).kind == "f")


def plain(leaf: Any) -> np.ndarray:
    """A leaf as a NumPy array of its own."""
    return np.array(leaf.numpy() if hasattr(leaf, "numpy") else leaf)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=True)


def described(a: Any) -> str:
    return f"{type(a).__name__} {getattr(a, 'shape', '')} {getattr(a, 'dtype', '')}".rstrip()


def leaf_names(args: Sequence[Any]) -> list[str]:
    """"1" for an argument that is a leaf, "1, leaf 0", "1, leaf 1" ... for those that are trees."""
    names = []
    for i, arg in enumerate(args):
        leaves, _ = tree.flatten(arg)
        names += [str(i)] if len(leaves) == 1 and leaves[0] is arg else [f"{i}, leaf {j}" for j in range(len(leaves))]
    return names
