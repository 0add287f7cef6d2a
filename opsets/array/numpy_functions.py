"""Adapters for NumPy's functions whose parameters are not those of an operator or composition: np.clip(t, 0, 1), np.add.reduce(t).

The others are registered beside their operator, or in numpy_tables.py.
What a function here lacks (out=, where= ...) the engine refuses by name.
"""

from __future__ import annotations

import functools
import inspect
import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from autotape.numpy_protocol import INSPECTS, UFUNCS, ZERO, account, numpy_function, register_operator, umath

from . import (
    arithmetic,
    choosing,
    contraction,
    creation,
    cumulative,
    diagonals,
    histograms,
    indexing,
    joining,
    linear,
    products,
    reductions,
    shapes,
    summaries,
)
from .numpy_tables import of_tensors

# ---------------------------------------------------------------- shapes and copies


@numpy_function(np.reshape)
def _(a, shape, order="C"):
    return shapes.in_order("np.reshape", a, shape, order)


@numpy_function(np.ravel)
def _(a, order="C"):
    return shapes.in_order("np.ravel", a, -1, order)


@numpy_function(np.copy)
def _(a, order="K"):  # a Tensor may lie in memory in any way
    return arithmetic.copied(a)


@numpy_function(*([np.astype] if hasattr(np, "astype") else []))  # NumPy 2.1
def _(x, dtype, copy=True):
    return creation.astype(x, dtype)


@numpy_function(np.shape, kind=INSPECTS)
def _(a):
    return a.shape


@numpy_function(np.ndim, kind=INSPECTS)
def _(a):
    return a.ndim


@numpy_function(np.size, kind=INSPECTS)
def _(a, axis=None):
    return a.size if axis is None else a.shape[axis]


@numpy_function(np.meshgrid)
def _(*xi, copy=True, sparse=False, indexing="xy"):
    return of_tensors(shapes.meshgrid)(*xi, sparse=sparse, indexing=indexing)


# ---------------------------------------------------------------- elements


@numpy_function(np.rint, kind=ZERO)
def _(x):
    return arithmetic.round(x if x.dtype.kind in "fc" else creation.astype(x, np.rint(np.zeros((), x.dtype)).dtype))


@numpy_function(umath.clip)  # which array.clip(t, u) calls
def _(a, min, max):
    return arithmetic.clip(a, min, max)


numpy_function(umath._ones_like, kind=INSPECTS)(creation.ones_like)


@numpy_function(np.clip)
def _(a, a_min=np._NoValue, a_max=np._NoValue, *, min=None, max=None):
    given = sum(edge is not np._NoValue for edge in (a_min, a_max))
    if given == 1:
        raise TypeError("np.clip takes both a_min and a_max, one of which may be None")
    if given and not (min is None is max):
        raise ValueError("np.clip takes a_min and a_max or min and max, not both")
    return arithmetic.clip(a, a_min, a_max) if given else arithmetic.clip(a, min, max)


@numpy_function(np.take)
def _(a, indices, axis=None, *, mode="raise"):
    return indexing.take(a, indices, axis, mode)


@numpy_function(np.compress)
def _(condition, a, axis=None):
    return choosing.compress(condition, a, axis)


@numpy_function(np.choose)
def _(a, choices, *, mode="raise"):
    return choosing.choose(a, choices, mode)


@numpy_function(np.histogram)
def _(a, bins=10, range=None, density=None, weights=None):
    return of_tensors(histograms.histogram)(a, bins=bins, range=range, density=density, weights=weights)


@numpy_function(np.histogram2d)
def _(x, y, bins=10, range=None, density=None, weights=None):
    return of_tensors(histograms.histogram2d)(x, y, bins=bins, range=range, density=density, weights=weights)


@numpy_function(np.histogramdd)
def _(sample, bins=10, range=None, density=None, weights=None):
    return of_tensors(lambda *xs: histograms.histogramdd(xs, bins, range, density, weights))(*histograms.columns(sample))


@numpy_function(np.take_along_axis)
def _(arr, indices, axis=-1):
    return indexing.take_along_axis(shapes.ravel(arr), indices, 0) if axis is None else indexing.take_along_axis(arr, indices, axis)


# ---------------------------------------------------------------- reductions with NumPy's other keywords


def taking(f, adapted, *keywords):
    """adapted, which calls f, under f's name, with f's parameters and more of NumPy's keywords."""
    functools.update_wrapper(adapted, f)
    more = (inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in keywords)
    adapted.__signature__ = inspect.Signature([*inspect.signature(f).parameters.values(), *more])
    return adapted


def summing(f, nothing=None, join=None):
    """A sum or the like with dtype=, to which x is cast first.

    With `nothing`, which stands for what is left out, it takes where=, and with a `join` initial=.
    """

    def adapted(x, *args, dtype=None, where=True, initial=None, **options):
        if dtype is None and where is True and initial is None:
            return f(x, *args, **options)
        x = x if dtype is None else creation.astype(x, dtype)
        y = f(x if where is True else but_where(where, x, nothing), *args, **options)
        y = y if initial is None else join(y, initial)
        return y if dtype is None else creation.astype(y, dtype)

    return taking(f, adapted, "dtype", *(["where"] if nothing is not None else []), *(["initial"] if join else []))


def but_where(mask, x, nothing):
    """x where the mask, which broadcasts to it, is true."""
    return arithmetic.where(shapes.broadcast_to(mask, shapes.shape_of(x)), x, nothing)


def judging(f, nothing):
    """any or all with where=."""

    def adapted(x, *args, where=True, **options):
        return f(x if where is True else but_where(where, x, nothing), *args, **options)

    return taking(f, adapted, "where")


def extreme(f, join, lowest):
    """max or min with initial=, another element, and where=, without which the others are `lowest`, beaten by all."""

    def adapted(x, axis=None, keepdims=False, where=True, initial=None):
        if initial is None:
            if where is not True:
                raise ValueError(f"{f.__name__}: where= may leave nothing to choose from, so it needs initial=")
            return f(x, axis, keepdims)
        initial = creation.astype(initial, x.dtype)
        x = x if where is True else but_where(where, x, lowest(x.dtype))
        some = reductions.count(x.shape, axis) if x.shape else 1
        return join(f(x, axis, keepdims) if some else creation.full_like(reductions.sum(x, axis, keepdims), initial), initial)

    return taking(f, adapted, "where", "initial")


def limit(sign: int):
    """The number of a dtype that all others are above, or with -1 below."""
    def of(dtype):
        if dtype.kind in "fc":
            return -sign * math.inf
        return (sign < 0) if dtype.kind == "b" else getattr(np.iinfo(dtype), "min" if sign > 0 else "max")

    return of


def spreading(f, about):
    """A variance or the like with correction=, another name of ddof=, and mean=, which `about` takes."""

    def adapted(x, *args, correction=None, ddof=0, mean=None, **options):
        if correction is not None and ddof != 0:
            raise ValueError(f"{f.__name__}: ddof and correction are the same, so one of them must be left out")
        ddof = ddof if correction is None else correction
        return f(x, *args, ddof=ddof, **options) if mean is None else about(x, mean, *args, ddof=ddof, **options)

    return taking(f, adapted, "correction", "mean")


SUMS = {
    np.cumprod: cumulative.cumprod,
    np.cumsum: cumulative.cumsum,
    np.mean: reductions.mean,
    np.nancumprod: summaries.nancumprod,
    np.nancumsum: summaries.nancumsum,
    np.nanmean: summaries.nanmean,
    np.nanstd: spreading(summaries.nanstd, summaries.nanstd_about),
    np.nanvar: spreading(summaries.nanvar, summaries.nanvar_about),
    np.std: spreading(reductions.std, reductions.std_about),
    np.trace: diagonals.trace,
    np.var: spreading(reductions.var, reductions.var_about),
    **{getattr(np, f.__name__): f for f in (cumulative.cumulative_sum, cumulative.cumulative_prod) if hasattr(np, f.__name__)},  # NumPy 2.1
}
WHERE = {
    np.all: judging(reductions.all, True),
    np.any: judging(reductions.any, False),
    np.max: extreme(reductions.max, arithmetic.maximum, limit(1)),
    np.min: extreme(reductions.min, arithmetic.minimum, limit(-1)),
    np.nanprod: summing(summaries.nanprod, 1, arithmetic.multiply),
    np.nansum: summing(summaries.nansum, 0, arithmetic.add),
    np.prod: summing(reductions.prod, 1, arithmetic.multiply),
    np.sum: summing(reductions.sum, 0, arithmetic.add),
}
REDUCTIONS = {
    np.add: WHERE[np.sum],
    np.logical_and: WHERE[np.all],
    np.logical_or: WHERE[np.any],
    np.logaddexp: reductions.logsumexp,
    np.maximum: WHERE[np.max],
    np.minimum: WHERE[np.min],
    np.multiply: WHERE[np.prod],
}
for function, f in {**{function: summing(f) for function, f in SUMS.items()}, **WHERE}.items():
    register_operator(function, f, 1)


def reduce_by(f):
    """A reduction as a ufunc's method reduce, whose axis is 0 unless it is said."""

    def reduce(array, axis=0, **options):
        return f(array, axis, **options)

    return taking(f, reduce)


for ufunc, reduction in REDUCTIONS.items():
    numpy_function((ufunc, "reduce"))(reduce_by(reduction))


# ---------------------------------------------------------------- products, and along axes


@numpy_function(np.linalg.outer)
def _(x1, x2):
    if not len(shapes.shape_of(x1)) == len(shapes.shape_of(x2)) == 1:
        raise ValueError(f"np.linalg.outer takes 1-d arrays, not {shapes.shape_of(x1)} and {shapes.shape_of(x2)}; np.outer takes any")
    return linear.outer(x1, x2)


@numpy_function(np.linalg.cross)
def _(x1, x2, *, axis=-1):
    if {shapes.shape_of(x1)[axis], shapes.shape_of(x2)[axis]} != {3}:
        raise ValueError(f"np.linalg.cross takes 3 components, not {shapes.shape_of(x1)} and {shapes.shape_of(x2)} along axis {axis}")
    return products.cross(x1, x2, axis=axis)


@numpy_function(np.linalg.diagonal)
def _(x, *, offset=0):
    return diagonals.diagonal(x, offset, -2, -1)


@numpy_function(np.linalg.trace)
def _(x, *, offset=0):
    return diagonals.trace(x, offset, -2, -1)


@numpy_function(np.einsum)
def _(subscripts, *operands, optimize=False):
    return contraction.einsum(subscripts, *operands)


@numpy_function(np.apply_over_axes)
def _(func, a, axes):
    for axis in np.atleast_1d(axes):
        y = func(a, axis := normalize_axis_index(axis, a.ndim))
        a = shapes.expand_dims(y, axis) if y.ndim < a.ndim else y
    return a


def accumulate_along(ufunc, f):
    """A running sum, product or extreme as a ufunc's method accumulate, whose axis is 0 unless it is said."""

    def accumulate(array, axis=0):
        if array.shape == ():
            raise TypeError(f"np.{ufunc.__name__}.accumulate: a 0-d Tensor has no axis to run along")
        axes = normalize_axis_tuple(range(array.ndim) if axis is None else axis, array.ndim)
        if len(axes) != 1:
            raise ValueError(f"np.{ufunc.__name__}.accumulate takes one axis of {array.shape}, not axis={axis}")
        return f(array, axes[0])

    return accumulate


def extreme_so_far(f):
    """The largest or smallest of x's first elements, where f is maximum or minimum.

    f joins stretches of 1, 2, 4 ... elements, so equal extremes share the derivative, but not equally.
    """

    def run(x, axis):
        reach = 1
        while reach < x.shape[axis]:
            first, later, earlier = (
                indexing.getitem(x, joining.along(axis, x.ndim, part)) for part in (slice(reach), slice(reach, None), slice(-reach))
            )
            x, reach = joining.concatenate((first, f(earlier, later)), axis), 2 * reach
        return x

    return run


RUNNING = {
    np.add: cumulative.cumsum,
    np.maximum: extreme_so_far(arithmetic.maximum),
    np.minimum: extreme_so_far(arithmetic.minimum),
    np.multiply: cumulative.cumprod,
}
for ufunc, running in RUNNING.items():
    numpy_function((ufunc, "accumulate"))(accumulate_along(ufunc, running))


def outer_of(f):
    """An elementwise function of two arrays as a ufunc's method outer: of each element of A with each one of B."""

    def outer(A, B):
        return f(shapes.reshape(A, shapes.shape_of(A) + (1,) * len(shapes.shape_of(B))), B)

    return outer


for ufunc, f in [*UFUNCS.items()]:
    if isinstance(ufunc, np.ufunc) and ufunc.nin == 2 and ufunc.signature is None and (found := account(ufunc)):
        numpy_function((ufunc, "outer"), kind=found.kind)(outer_of(f))
