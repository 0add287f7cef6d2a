"""Attach the operators to Tensor and Param: Python's operators, ndarray's methods and properties, and x.at."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotape.param import Param
from autotape.tensor import Tensor

from . import (
    arithmetic,
    complex_numbers,
    creation,
    cumulative,
    diagonals,
    indexing,
    joining,
    linear,
    logic,
    parts,
    reductions,
    shapes,
    slices,
    sorting,
    updates,
)

# ---------------------------------------------------------------- what is not an operator as it stands


def reflected(f):
    """f with its arguments exchanged, for 2 - t."""
    return lambda b, a: f(a, b)


def unpacked(args):
    """The arguments of x.reshape(2, 3) and of x.reshape((2, 3)) alike."""
    return args[0] if len(args) == 1 else args


def reshape(x, *shape, order="C"):
    """x in another shape, x.reshape(2, 3) or x.reshape((2, 3)); one entry may be -1 for what is left."""
    return shapes.in_order("reshape", x, unpacked(shape), order)


def ravel(x, order="C"):
    """x in one axis."""
    return shapes.in_order("ravel", x, -1, order)


def transpose(x, *axes):
    """x with its axes permuted, x.transpose(1, 0) or x.transpose((1, 0)); x.transpose() reverses them."""
    return shapes.transpose(x, unpacked(axes) if axes else None)


def astype(x, dtype, order="K", casting="unsafe", subok=True, copy=True):
    """x in another dtype, if `casting` allows it, else TypeError; a Tensor never changes, so the others make no difference."""
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"astype: {x.dtype} can't become {np.dtype(dtype)} by casting={casting!r}")
    return creation.astype(x, dtype)


def copy(x, order="C"):
    """x; a Tensor never changes, so it needs no copy."""
    return arithmetic.copied(x)


def tolist(x):
    """The values of a constant as nested lists of Python numbers."""
    return np.asarray(x).tolist()


def nonzero(x):
    """The indices of the elements of x that are not 0: an array for each axis."""
    return np.nonzero(x)


# ---------------------------------------------------------------- what takes more of ndarray's arguments than its operator


def described(method, f):
    """The method, under the operator's name and docstring."""
    method.__name__, method.__doc__ = f.__name__, f.__doc__
    return method


def reducing(function, f):
    """sum, mean and prod: f, or NumPy's function where it is asked for more."""

    def method(x, axis=None, dtype=None, out=None, keepdims=False, **others):
        if dtype is None and out is None and not others:
            return f(x, axis, keepdims)
        return function(x, axis, dtype, out, keepdims, **others)

    return described(method, f)


def picking(function, f):
    """max, min, any, all, argmax and argmin, which keep x's dtype or have their own."""

    def method(x, axis=None, out=None, keepdims=False, **others):
        if out is None and not others:
            return f(x, axis, keepdims)
        return function(x, axis=axis, out=out, keepdims=keepdims, **others)

    return described(method, f)


def spreading(function, f):
    """var and std."""

    def method(x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, **others):
        if dtype is None and out is None and not others:
            return f(x, axis, ddof, keepdims)
        return function(x, axis, dtype, out, ddof, keepdims, **others)

    return described(method, f)


def running(function, f):
    """cumsum and cumprod."""

    def method(x, axis=None, dtype=None, out=None):
        return f(x, axis) if dtype is None and out is None else function(x, axis, dtype, out)

    return described(method, f)


def argpartition(x, kth, axis=-1, kind="introselect", order=None):
    """The indices that partition x along `axis`: here those that sort it.  None takes x.ravel()."""
    return sorting.argpartition(x, kth, axis, kind) if order is None else np.argpartition(x, kth, axis, kind, order)


def argsort(x, axis=-1, kind=None, order=None, *, stable=None):
    """The indices that sort x along `axis`; None takes x.ravel().  Every `kind` is stable: equal elements keep their order."""
    return sorting.argsort(x, axis, kind, stable) if order is None else np.argsort(x, axis, kind, order)


def choose(x, choices, out=None, mode="raise"):
    """choices[x[i]][i] for each i; x, integers, and the choices broadcast together."""
    return np.choose(x, choices, out, mode)


def clip(x, min=None, max=None, out=None, **others):
    """x kept within min and max, either of which may be None."""
    return np.clip(x, min, max, out, **others) if others or out is not None else arithmetic.clip(x, min, max)


def compress(x, condition, axis=None, out=None):
    """x[i] along `axis` for each true condition[i]; None takes x.ravel()."""
    return np.compress(condition, x, axis, out)


def dot(x, b, out=None):
    """The product of vectors or matrices; for more axes the sum over x's last and b's last but one; for numbers x * b."""
    return linear.dot(x, b) if out is None else np.dot(x, b, out=out)


def round(x, decimals=0, out=None):
    """x rounded to `decimals` places, halves to the even neighbour."""
    return arithmetic.round(x, decimals) if out is None else np.round(x, decimals, out)


def take(x, indices, axis=None, out=None, mode="raise"):
    """x's elements at `indices` along `axis`, which the axes of indices replace; None takes from x.ravel()."""
    return indexing.take(x, indices, axis) if out is None and mode == "raise" else np.take(x, indices, axis, out, mode)


def trace(x, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """The sum of the diagonal on two axes."""
    plain = dtype is None and out is None
    return diagonals.trace(x, offset, axis1, axis2) if plain else np.trace(x, offset, axis1, axis2, dtype, out)


def changing(name):
    """A method of ndarray that sorts in place, which no Tensor does."""

    def method(x, *args, **options):
        raise TypeError(f"t.{name}() would sort t in place, and a Tensor never changes: np.{name}(t) gives a new one")

    return method


# ---------------------------------------------------------------- the tables

BINARY: dict[str, Any] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "truediv": arithmetic.divide,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "divmod": arithmetic.divmod,
    "pow": arithmetic.power,
    "matmul": linear.matmul,
    "and": logic.bitwise_and,
    "or": logic.bitwise_or,
    "xor": logic.bitwise_xor,
}
OTHERS: dict[str, Any] = {
    "neg": arithmetic.negative,
    "pos": arithmetic.positive,
    "abs": arithmetic.absolute,
    "invert": logic.invert,
    "round": arithmetic.round,
    "eq": logic.same,
    "ne": logic.different,
    "lt": logic.less,
    "le": logic.less_equal,
    "gt": logic.greater,
    "ge": logic.greater_equal,
    "getitem": indexing.getitem,
    "iter": indexing.rows,
    "contains": logic.contains,
}
METHODS: dict[str, Any] = {
    "all": picking(np.all, reductions.all),
    "any": picking(np.any, reductions.any),
    "argmax": picking(np.argmax, reductions.argmax),
    "argmin": picking(np.argmin, reductions.argmin),
    "argpartition": argpartition,
    "argsort": argsort,
    "astype": astype,
    "choose": choose,
    "clip": clip,
    "compress": compress,
    "conj": parts.fresh_conj,
    "conjugate": parts.fresh_conj,
    "copy": copy,
    "cumprod": running(np.cumprod, cumulative.cumprod),
    "cumsum": running(np.cumsum, cumulative.cumsum),
    "diagonal": diagonals.diagonal,
    "dot": dot,
    "flatten": ravel,
    "max": picking(np.max, reductions.max),
    "mean": reducing(np.mean, reductions.mean),
    "min": picking(np.min, reductions.min),
    "nonzero": nonzero,
    "partition": changing("partition"),
    "prod": reducing(np.prod, reductions.prod),
    "ravel": ravel,
    "repeat": joining.repeat,
    "reshape": reshape,
    "round": round,
    "searchsorted": sorting.searchsorted,
    "sort": changing("sort"),
    "squeeze": shapes.squeeze,
    "std": spreading(np.std, reductions.std),
    "sum": reducing(np.sum, reductions.sum),
    "swapaxes": shapes.swapaxes,
    "take": take,
    "tolist": tolist,
    "trace": trace,
    "transpose": transpose,
    "var": spreading(np.var, reductions.var),
    "view": slices.view,
}
PROPERTIES: dict[str, Any] = {
    "T": shapes.transpose,
    "mT": shapes.matrix_transpose,
    "real": complex_numbers.real,
    "imag": complex_numbers.imag,
    "at": updates.At,
}

for cls in (Tensor, Param):
    for name, f in BINARY.items():
        setattr(cls, f"__{name}__", f)
        setattr(cls, f"__r{name}__", f if name in ("add", "mul") else reflected(f))
    for name, f in OTHERS.items():
        setattr(cls, f"__{name}__", f)
    for name, f in METHODS.items():
        setattr(cls, name, f)
    for name, f in PROPERTIES.items():
        setattr(cls, name, property(f))
