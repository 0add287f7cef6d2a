"""check_grads: derivatives against differences, to any order, in reverse and forward mode, and the promises they keep.

The differences are taken in float64 whatever the arguments' dtype, along fixed random directions, so that a check
costs a few evaluations an argument and one of a wrong gradient's elements is as good as all of them.  Directions in complex
arguments and cotangents of complex results are complex.  A second derivative is the gradient of the first one's projection on a
fixed cotangent: differences are never nested.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autotape import random, tree, vjp

from .differences import Arrays, Curve, Kink, inner, plain
from .promises import Place, check_gradients, check_tangents

__all__ = ["RTOL", "NotDifferentiable", "check_grads"]

DTYPES = (np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128, np.clongdouble)
RTOL: dict[Any, float] = {np.dtype(t): max(1e-6, 4 * float(np.finfo(t).eps) ** 0.5) for t in DTYPES}
"""The relative tolerance of check_grads for each dtype: 4 sqrt(machine epsilon), and 1e-6 at least."""

EPS = 6e-6  # near the cube root of float64's epsilon, where rounding and curvature cost a central difference the same
SHARPER = 1e-3  # the complex step's tolerance, as a part of the central difference's
SHOWN = 1000  # elements a failure looks through for the worst one
KINKS = 8  # elements with kinks that are found one by one
NUMBERS = (float, complex)
Tolerances = float | Mapping[Any, float] | None


class NotDifferentiable(UserWarning):
    """check_grads met a kink or a jump: there is no derivative to compare with."""


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("reverse",),
    rtol: Tolerances = None,
    atol: Tolerances = None,
    eps: float = EPS,
) -> None:
    """Check f's derivatives at args, under the current backend.

    f takes arrays or pytrees and returns an array or pytree of floats or complex numbers.  Every such leaf of args (NumPy array,
    Tensor, float or complex) is differentiated, all other leaves are constants.  Seeds that f draws (dropout) are the same in
    all its runs.

    For each such leaf and each order up to `order`, <vjp(ct), v> must equal the central difference of <f, ct> along v with
    step eps, for random ct and v, within atol + rtol * sum |vjp(ct) v|.  <a, b> is the real part of the sum of a b, with no
    conjugate: so the gradient of a real f in z = x + iy is df/dx - i df/dy.  Where all is float64 and f runs on complex arrays
    it must equal the complex step, too, within a thousandth of that.  Mode "forward" checks <jvp(v), ct> in the same way,
    and from the second order on the jvp of gradients.

    Each gradient must have its argument's shape and dtype (as its rule gave it), be linear in the cotangent, the same when
    computed again (in pedantic math mode, if not in another), writable, and share memory with no argument, cotangent or other
    gradient; arguments and cotangents must be left as they were.  A jvp must have its result's shape and dtype and be linear
    and repeatable, too.

    rtol is a number, or a table {dtype: number} for some dtypes, the others being those of `RTOL`; the coarsest dtype among
    arguments and results counts (float64: 1e-6, float32: 1.4e-3).  atol is alike, and by default a tenth of rtol.

    Where f has a kink or a jump at args, the derivative must lie between the slopes of both sides, as that of a subgradient
    does; then check_grads warns of NotDifferentiable, which names the argument and the elements.  The other elements are
    compared as usual, but no higher orders.

    Raises AssertionError, which names the argument, the order, and the worst element with both its values; TypeError or
    ValueError where there is nothing to check.
    """
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"check_grads: args is a tuple of f's arguments, such as (x,), not {type(args).__name__}")
    if order < 1:
        raise ValueError(f"check_grads: order must be at least 1, not {order}")
    if not modes or not set(modes) <= {"reverse", "forward"}:
        raise ValueError(f"check_grads: modes are 'reverse' and 'forward', not {modes!r}")
    leaves, build = tree.flatten(tuple(args))
    free = [i for i, leaf in enumerate(leaves) if floating(leaf)]
    if not free:
        raise TypeError(f"check_grads: no floating array among the arguments {[type(x).__name__ for x in leaves]}")

    def results(*xs: Any) -> list[Any]:
        given = dict(zip(free, xs, strict=True))
        return tree.leaves(f(*build([given.get(i, leaf) for i, leaf in enumerate(leaves)])))

    xs = [plain(leaves[i]) for i in free]
    seeds: list[int] = []
    with random.noted(seeds):
        ys, _ = vjp(results, *xs)
    floats = [k for k, y in enumerate(ys) if type(y) not in NUMBERS and floating(y)]
    if not floats:
        raise TypeError("check_grads: f returned no array of floats")

    def flat(*xs: Any) -> list[Any]:
        with random.replayed(seeds):
            ys = results(*xs)
        return [ys[k] for k in floats]

    dtypes = {np.dtype(a.dtype) for a in (*xs, *(ys[k] for k in floats))}
    relative = coarsest(dtypes, rtol, RTOL)
    absolute = coarsest(dtypes, atol, dict.fromkeys(dtypes, relative / 10))
    names = [name for i, arg in enumerate(args) for name in leaf_names(arg, str(i))]
    for kink in check(Place(flat, xs, [names[i] for i in free], 1, relative, absolute), order, modes, eps):
        warnings.warn(f"check_grads: {kink}", NotDifferentiable, stacklevel=2)


def coarsest(dtypes: set[Any], tolerance: Tolerances, default: Mapping[Any, float]) -> float:
    """The largest tolerance of these dtypes."""
    if isinstance(tolerance, Mapping):
        given = {np.dtype(dtype): value for dtype, value in tolerance.items()}
        return max(given.get(dtype, default[dtype]) for dtype in dtypes)
    return max(default[dtype] for dtype in dtypes) if tolerance is None else tolerance


# ---------------------------------------------------------------- one order


def check(place: Place, last: int, modes: Sequence[str], eps: float) -> list[str]:
    """Check f's own derivatives, then those of its gradient function, up to order `last`.  Gives what is said of kinks."""
    rng = np.random.default_rng(place.order)
    ys, _ = vjp(place.f, *place.xs)
    cts, others = ([direction(rng, y) for y in ys] for _ in range(2))
    grads = check_gradients(place, cts, others) if "reverse" in modes else None
    kinks = []
    for i, x in enumerate(place.xs):
        w, curve = direction(rng, x), Curve(place.f, place.xs, cts, i, direction(rng, x), eps)

        def slopes(curve: Curve, i: int = i, w: np.ndarray = w) -> Iterator[Slope]:
            if grads is not None:
                yield of_gradient(grads[i], curve)
            if "forward" in modes:
                yield of_jvp(check_tangents(place, i, curve.v, w), curve)

        kinks += list(check_argument(slopes, curve, place, i))
    if kinks:
        return kinks  # there is no second derivative where there is no first
    if place.order == last:
        return []
    return check(place._replace(f=gradient_function(place.f, cts), order=place.order + 1), last, modes, eps)


def gradient_function(f: Callable[..., Any], cts: Arrays) -> Callable[..., Any]:
    """x -> the gradients of <f(x), cts>."""

    def gradient(*xs: Any) -> list[Any]:
        ys, pull = vjp(f, *xs)
        return list(pull([ct.astype(y.dtype) for ct, y in zip(cts, ys, strict=True)]))

    return gradient


@dataclasses.dataclass
class Slope:
    """A derivative along a curve, as the engine gives it."""

    value: float
    scale: float  # the sum of the magnitudes it is made of
    what: str
    worst: Callable[[], str]

    def allowed(self, place: Place) -> float:
        """How far it may be from a difference."""
        return place.atol + place.rtol * self.scale


def of_gradient(grad: np.ndarray, curve: Curve) -> Slope:
    """What a gradient says of the slope along a curve."""
    def worst() -> str:
        found: Iterator[Any] = itertools.islice(np.ndindex(grad.shape), SHOWN)
        return worst_of((index, grad[index].item(), along_element(curve, index)) for index in found)

    return Slope(inner(grad, curve.v), inner(abs(grad), abs(curve.v)), "gradient", worst)


def of_jvp(tangents: Arrays, curve: Curve) -> Slope:
    """What a jvp along a curve's direction says of it."""
    def worst() -> str:
        found = ((k, i, dy, s) for k, (dy, s) in enumerate(zip(tangents, curve.slopes(), strict=True)) for i in np.ndindex(dy.shape))
        return worst_of((f"{i} of result {k}", dy[i].item(), s[i].item()) for k, i, dy, s in found)

    value = sum(map(inner, curve.cts, tangents))
    return Slope(value, sum(inner(abs(ct), abs(dy)) for ct, dy in zip(curve.cts, tangents, strict=True)), "jvp", worst)


def check_argument(slopes: Callable[[Curve], Iterable[Slope]], curve: Curve, place: Place, i: int) -> Iterator[str]:
    """Compare along all elements, and again without one near which there is a kink.  Gives what is said of kinks."""
    kinks: list[Kink] = []
    elements: list[tuple[int, ...]] = []
    while len(elements) < KINKS and (kink := check_slopes(list(slopes(curve)), curve, place, i)):
        kinks.append(kink)
        elements.append(curve.kinked_element())
        curve = curve.along(np.where(unit(curve.v.shape, elements[-1]), 0, curve.v))
    if kinks:
        near = f"near element{'s' * (len(elements) > 1)} {', '.join(map(str, elements))}{' and more' * (len(elements) == KINKS)}"
        yield f"argument {place.names[i]}, order {place.order}: not differentiable here: {kinks[0]}, {near}"


def check_slopes(slopes: list[Slope], curve: Curve, place: Place, i: int) -> Kink | None:
    """Compare with differences, or if there is a kink with the slopes of both sides."""
    expected, exact = curve.slope(), None
    agreed = all(close(s.value, expected, s.allowed(place)) for s in slopes)
    kink = None if agreed and not curve.bends() else curve.kink()
    if not agreed and kink is None:
        expected = curve.limit()
    elif kink is None and all(a.dtype == np.float64 for a in (*place.xs, *curve.cts)):
        exact = curve.exact_slope()
    for s in slopes:
        where = f"{place.where(i)}: the {s.what} along a random direction is {s.value:.9g}"
        allowed = s.allowed(place)
        if kink is not None:
            if not kink.allows(s.value, allowed):
                raise AssertionError(f"{where}, but {kink}, and it should lie between; {s.worst()}")
        elif not close(s.value, expected, allowed):
            raise AssertionError(f"{where}, central differences give {expected:.9g} (allowed: {allowed:.2g} apart); {s.worst()}")
        elif exact is not None and alike(exact, expected) and not close(s.value, exact, SHARPER * allowed):
            raise AssertionError(f"{where}, the complex step gives {exact:.12g}; {s.worst()}")
    return kink


def close(a: float, b: float, allowed: float) -> bool:
    return bool(np.isfinite(a)) and abs(a - b) <= allowed  # NaN and infinities never are


def alike(exact: float, expected: float) -> bool:
    """Whether a complex step gives what differences give, to their digits: of a function that is not analytic it gives nonsense."""
    return abs(exact - expected) <= 1e-5 * max(abs(exact), abs(expected))


def worst_of(elements: Any) -> str:
    """The element whose two values are furthest apart, of (where, found, expected)."""

    def error(element: tuple[Any, complex, complex]) -> float:
        distance = abs(element[1] - element[2])
        return np.inf if np.isnan(distance) else distance

    return "worst element {}: {:.9g} against {:.9g}".format(*max(elements, key=error))


def unit(shape: tuple[int, ...], index: tuple[int, ...]) -> np.ndarray:
    """1 at index, else 0."""
    e = np.zeros(shape)
    e[index] = 1
    return e


def along_element(curve: Curve, index: tuple[int, ...]) -> complex:
    """What the gradient of one element should be: of a complex one the slope along 1 less i times that along i."""
    e = unit(curve.v.shape, index)
    slope = curve.along(e).slope()
    return slope - 1j * curve.along(1j * e).slope() if curve.v.dtype.kind == "c" else slope


def direction(rng: np.random.Generator, like: Any) -> np.ndarray:
    """Random numbers of magnitude 0.5 to 1.5 in the shape and dtype of `like`: no element goes unseen."""
    v = rng.choice((-1, 1), like.shape) * rng.uniform(0.5, 1.5, like.shape)
    return np.asarray(v * np.exp(1j * rng.uniform(0, np.pi, like.shape)) if like.dtype.kind == "c" else v).astype(like.dtype)


# ---------------------------------------------------------------- leaves and their names


def floating(leaf: Any) -> bool:
    """Whether a leaf is differentiated here: a float or complex number, or an array of them."""
    return type(leaf) in NUMBERS or (hasattr(leaf, "dtype") and np.dtype(leaf.dtype).kind in "fc")


def leaf_names(arg: Any, path: str) -> list[str]:
    """How a program would reach each leaf of a tree: "0['w']", "1.layers[2]"; "0 leaf 1" in classes of the user's own."""
    leaves = tree.leaves(arg)
    if len(leaves) == 1 and leaves[0] is arg:
        return [path]
    names = [name for child, step in children(arg) for name in leaf_names(child, path + step)]
    return names if len(names) == len(leaves) else [f"{path} leaf {j}" for j in range(len(leaves))]


def children(arg: Any) -> list[tuple[Any, str]]:
    """The subtrees of a node, each with the text that reaches it."""
    if isinstance(arg, dict):
        return [(child, f"[{key!r}]") for key, child in arg.items()]
    if isinstance(arg, (list, tuple)):
        fields = getattr(arg, "_fields", None)
        return [(child, f".{fields[i]}" if fields else f"[{i}]") for i, child in enumerate(arg)]
    if dataclasses.is_dataclass(arg):
        return [(getattr(arg, f.name), f".{f.name}") for f in dataclasses.fields(arg) if hasattr(arg, f.name)]
    return []
