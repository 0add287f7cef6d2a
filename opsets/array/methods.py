"""Attach the operators to Tensor and Param: Python's operators, ndarray's methods and properties, and x.at."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotape.param import Param
from autotape.tensor import Tensor

from . import (
    arithmetic,
    choosing,
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


def astype(x, dtype, copy=True):
    """x in another dtype; a Tensor never changes, so `copy` makes no difference."""
    return creation.astype(x, dtype)


def compress(x, condition, axis=None):
    """x[i] along `axis` for each true condition[i]; None takes x.ravel()."""
    return choosing.compress(condition, x, axis)


def tolist(x):
    """The values of a constant as nested lists of Python numbers."""
    return np.asarray(x).tolist()


def nonzero(x):
    """The indices of the elements of x that are not 0: an array for each axis."""
    return np.nonzero(x)


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
    "eq": logic.equal,
    "ne": logic.not_equal,
    "lt": logic.less,
    "le": logic.less_equal,
    "gt": logic.greater,
    "ge": logic.greater_equal,
    "getitem": indexing.getitem,
    "iter": indexing.rows,
}
METHODS: dict[str, Any] = {
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "argpartition": sorting.argpartition,
    "argsort": sorting.argsort,
    "astype": astype,
    "choose": choosing.choose,
    "clip": arithmetic.clip,
    "compress": compress,
    "conj": parts.conjugate,
    "conjugate": parts.conjugate,
    "copy": arithmetic.positive,
    "cumprod": cumulative.cumprod,
    "cumsum": cumulative.cumsum,
    "diagonal": diagonals.diagonal,
    "dot": linear.dot,
    "flatten": ravel,
    "max": reductions.max,
    "mean": reductions.mean,
    "min": reductions.min,
    "nonzero": nonzero,
    "partition": changing("partition"),
    "prod": reductions.prod,
    "ravel": ravel,
    "repeat": joining.repeat,
    "reshape": reshape,
    "round": arithmetic.round,
    "searchsorted": sorting.searchsorted,
    "sort": changing("sort"),
    "squeeze": shapes.squeeze,
    "std": reductions.std,
    "sum": reductions.sum,
    "swapaxes": shapes.swapaxes,
    "take": indexing.take,
    "tolist": tolist,
    "trace": diagonals.trace,
    "transpose": transpose,
    "var": reductions.var,
}
PROPERTIES: dict[str, Any] = {
    "T": shapes.transpose,
    "mT": shapes.matrix_transpose,
    "real": parts.real,
    "imag": parts.imag,
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
