"""Order: sort partition argsort argpartition lexsort, and places in what is sorted: searchsorted digitize.

NaN counts as larger than all else, as NumPy has it.  Every sort is stable here: equal elements keep their order.  So each of
them, wherever it goes, takes the derivative of its own place along; where elements are equal there is no other derivative.
Indices have none.
"""

from __future__ import annotations

import math
from operator import index

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from autotape import kernels, operator
from autotape.numpy_protocol import ZERO, numpy_function

from .creation import astype, zeros_like
from .indexing import getitem, scatter_along_axis, take_along_axis
from .shapes import along_axis, ravel, shape_of

# ---------------------------------------------------------------- sorting


def sort(x, axis=-1, kind=None, stable=None):
    """x in ascending order along `axis`; None sorts x.ravel().  Every `kind` is stable: equal elements keep their order."""
    judge(kind, stable)
    n = len(shape_of(x))
    return sort_along(ravel(x)) if axis is None else sort_along(x, normalize_axis_index(axis, n) - n)


@operator
def sort_along(x, axis=-1):
    """x in ascending order along one axis."""
    return kernels().sort(x, axis)


@sort_along.backward
def _(dy, x, axis): return scatter_along_axis(dy, argsort_along(x, axis), axis, x.shape)


@numpy_function(np.sort_complex)
def sort_complex(a):
    """a, sorted along its last axis, as complex numbers."""
    y = sort(a)
    return y if y.dtype.kind == "c" else astype(y, {"b": "F", "h": "F", "B": "F", "H": "F", "g": "G"}.get(y.dtype.char, "D"))


def argsort(x, axis=-1, kind=None, stable=None):
    """The indices that sort x along `axis`; None takes x.ravel().  Every `kind` is stable: equal elements keep their order."""
    judge(kind, stable)
    x, axis = along_axis(x, axis)
    return argsort_along(x, axis - len(shape_of(x)))


@operator(nondifferentiable="x")
def argsort_along(x, axis=-1):
    """The indices that sort x along one axis, those of equal elements in their order."""
    return kernels().argsort(x, axis)


def judge(kind, stable) -> None:
    """Raise what NumPy does for a `kind` and `stable` that it doesn't know."""
    if kind is not None or stable is not None:
        np.sort(np.zeros(0), kind=kind, stable=stable)


def partition(x, kth, axis=-1, kind="introselect"):
    """x along `axis` with the kth element, or each of several, where sort has it, none larger before and none smaller behind.

    NumPy leaves the order of the others open; here they are sorted.  None takes x.ravel().
    """
    check_kth("partition", x, kth, axis, kind)
    return sort(x, axis)


def argpartition(x, kth, axis=-1, kind="introselect"):
    """The indices that partition x along `axis`: here those that sort it.  None takes x.ravel()."""
    check_kth("argpartition", x, kth, axis, kind)
    return argsort(x, axis)


def check_kth(name: str, x, kth, axis, kind) -> None:
    """Raise ValueError for a kth that x's axis doesn't have, TypeError for one that is no integer; an empty x takes any."""
    shape = shape_of(x)
    n = math.prod(shape) if axis is None or shape == () else shape[normalize_axis_index(axis, len(shape))]
    if kind != "introselect":
        raise ValueError(f"{name}: kind must be 'introselect', not {kind!r}")
    if (wrong := [k for k in map(index, np.ravel(kth)) if not -n <= k < n]) and 0 not in shape:
        raise ValueError(f"{name}: kth {wrong[0]} is out of bounds, for axis {axis} of x {shape} has {n} elements")


@numpy_function(np.lexsort, kind=ZERO)
def lexsort(keys, axis=-1):
    """The indices that sort by several keys of one shape, the last key first and the others in turn where those are equal.

    The keys are a sequence, or the rows of an array; of numbers there is one place alone, 0.  Raises TypeError if there is none,
    ValueError if their shapes differ.
    """
    if hasattr(keys, "shape"):
        keys = [getitem(keys, i) for i in range(shape_of(keys)[0])] if shape_of(keys) else []
    if not keys:
        raise TypeError("lexsort: there must be a key or more")
    if len({shape_of(key) for key in keys}) > 1:
        raise ValueError(f"lexsort: the keys must have one shape, not {[shape_of(key) for key in keys]}")
    if shape_of(keys[0]) == ():
        return zeros_like(keys[0], np.intp)
    order = argsort(keys[0], axis)
    for key in keys[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis), axis)
    return order


# ---------------------------------------------------------------- places


def searchsorted(a, v, side="left", sorter=None):
    """Where each element of v belongs in the sorted 1-d a: before elements that equal it, or with side="right" behind them.

    `sorter`, the indices that sort a, lets a be in any order.  Raises ValueError for an a that isn't 1-d and for other sides.
    """
    return places_in(a if sorter is None else getitem(a, sorter), v, side)


@operator(nondifferentiable="a v")
def places_in(a, v, side="left"):
    """Where each element of v belongs in the sorted 1-d a."""
    if len(a.shape) != 1:
        raise ValueError(f"a must be 1-d, not {a.shape}")
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', not {side!r}")
    return kernels().searchsorted(a, v, side)


@operator(nondifferentiable="x bins", numpy=np.digitize)
def digitize(x, bins, right=False):
    """The number i of the bin that holds each element of x: bins[i - 1] <= x < bins[i], or with right=True < x <=.

    Falling bins have bins[i - 1] > x >= bins[i], or >= x >.  Raises ValueError for bins that aren't 1-d or rise and fall.
    """
    k, side = kernels(), "left" if right else "right"
    if x.dtype.kind == "c":
        raise TypeError("x must be real")
    if rises(k.to_numpy(bins)):
        return k.searchsorted(bins, x, side)
    return k.subtract(k.scalar(bins.shape[0], np.intp), k.searchsorted(k.getitem(bins, slice(None, None, -1)), x, side))


def rises(bins: np.ndarray) -> bool:
    """Whether bins never fall; False if they never rise.  Behind NaN, and before, they do neither, as NumPy has it."""
    if bins.ndim != 1:
        raise ValueError(f"bins must be 1-d, not {bins.shape}")
    steps = np.flatnonzero(bins[1:] != bins[:-1])
    rising = steps.size == 0 or bool(bins[steps[0]] < bins[steps[0] + 1])
    if (bins[:-1] > bins[1:] if rising else bins[:-1] < bins[1:]).any():
        raise ValueError("bins must rise or fall all along")
    return rising
