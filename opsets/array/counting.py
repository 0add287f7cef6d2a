"""Which elements there are, and how many: unique, trim_zeros, bincount.

The length of such a result depends on values, so these are looked at on the host.  Places and counts have no derivative; the values
picked and the weights summed have.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from autotape import kernels, operator
from autotape.param import Param
from autotape.tensor import Tensor, asarray

from .choosing import beside
from .creation import astype, ones_like
from .indexing import getitem, scatter_add, take
from .shapes import dtype_of, ravel, shape_of


def values_of(x) -> np.ndarray:
    """The values of x, without derivatives."""
    return (x if isinstance(x, (Tensor, Param)) else asarray(x)).numpy()


# ---------------------------------------------------------------- unique elements


@operator(outputs="first inverse counts", nondifferentiable="x")
def unique_places(x, axis=None, equal_nan=True):
    """Where each different element of x, or slice along `axis`, first is; which of them each one is; and how many there are of each."""
    k = kernels()
    _, *places = np.unique(k.to_numpy(x), True, True, True, axis, equal_nan=equal_nan)
    return tuple(k.adopt(p) for p in places)


def unique(x, return_index=False, return_inverse=False, return_counts=False, axis=None, equal_nan=True, sorted=True):
    """The different elements of x, or slices along `axis`, in ascending order.  The derivative goes to the first of equal ones.

    With them come, if asked for, the indices of the first ones, which of them each element is, and how many there are of each.
    They are sorted in any case, so `sorted` makes no difference.
    """
    first, inverse, counts = unique_places(x, axis=axis, equal_nan=equal_nan)
    values = take(x, first, axis)
    asked = [y for y, wanted in ((first, return_index), (inverse, return_inverse), (counts, return_counts)) if wanted]
    return (values, *asked) if asked else values


class UniqueAllResult(NamedTuple):
    """What unique_all gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What unique_counts gives."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What unique_inverse gives."""

    values: Any
    inverse_indices: Any


def unique_all(x):
    """unique(x) with all that may be asked for.  No NaN equals another."""
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


def unique_counts(x):
    """unique(x) and how many there are of each.  No NaN equals another."""
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x):
    """unique(x) and which of them each element is.  No NaN equals another."""
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


def unique_values(x):
    """unique(x), where no NaN equals another."""
    return unique(x, equal_nan=False)


def trim_zeros(filt, trim="fb", axis=None):
    """filt without the zeros at the front ("f") and back ("b") of all its axes, or of those that `axis` names.

    Raises ValueError for a `trim` of other letters.
    """
    ndim = len(shape_of(filt))
    if trim.lower() not in ("fb", "bf", "f", "b"):
        raise ValueError(f"trim_zeros: trim must be 'fb', 'f' or 'b', not {trim!r}")
    axes = range(ndim) if axis is None else normalize_axis_tuple(axis, ndim)
    spans = [kept(np.flatnonzero(line), trim.lower()) for line in occupied(values_of(filt))]
    return getitem(filt, tuple(span if i in axes else slice(None) for i, span in enumerate(spans)))


def occupied(x):
    """For each axis, where along it some element of x is not 0."""
    x = x != 0
    return (x.any(tuple(j for j in range(x.ndim) if j != i)) for i in range(x.ndim))


def kept(places, trim: str) -> slice:
    """What trim_zeros keeps of an axis that has something at `places`."""
    if places.size == 0:
        return slice(0)
    return slice(int(places[0]) if "f" in trim else None, int(places[-1]) + 1 if "b" in trim else None)


# ---------------------------------------------------------------- counts


def bincount(x, weights=None, minlength=0):
    """How often each of 0, 1, 2 ... is in x, 1-d and of whole numbers >= 0; with weights their sums instead, in float64.

    The result goes to the largest number in x, and has `minlength` elements or more.  Raises TypeError for other dtypes of x and
    for complex weights, ValueError for other shapes and values.
    """
    shape = shape_of(x)
    if len(shape) != 1 or minlength < 0:
        raise ValueError(f"bincount: x must be 1-d, not {shape}, and minlength must not be negative, got {minlength}")
    if dtype_of(x).kind not in "biu":
        raise TypeError(f"bincount: x must be whole numbers, not {dtype_of(x)}")
    x = astype(x, np.intp)
    low, high = ends(values_of(x))
    if low < 0:
        raise ValueError(f"bincount: x must not be negative, as {low} is")
    counted = ones_like(x) if weights is None else real("bincount", fitted("bincount", weights, shape, x))
    return scatter_add(counted, x, (high + 1 if high + 1 > minlength else minlength,))


def ends(x) -> tuple[int, int]:
    """The least and the largest of whole numbers; 0 and -1 if there are none."""
    return (int(x.min()), int(x.max())) if x.size else (0, -1)


def fitted(name: str, weights, shape, *xs):
    """weights in one axis, as `beside` gives them.  Raises ValueError unless they have this shape."""
    if shape_of(weights) != shape:
        raise ValueError(f"{name}: weights {shape_of(weights)} must have x's shape {shape}")
    return ravel(beside(weights, *xs))


def real(name: str, weights):
    """weights in float64.  Raises TypeError for complex ones."""
    if dtype_of(weights).kind == "c":
        raise TypeError(f"{name}: weights must be real, not {dtype_of(weights)}")
    return astype(weights, np.float64)
