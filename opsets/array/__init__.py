"""Opset array: operators with NumPy's names and semantics, which NumPy's own functions and Tensor's methods reach.

    from autotape.opsets import array as ops
    ops.tanh(x), np.tanh(x), (x @ w).mean(axis=0), x[mask], x.at[i].set(v)

The rules of the room, for whoever adds to it:

- Names, arguments, values, dtypes and errors are NumPy's.  Python numbers are weak: float32 stays float32.
- A rule stands under its operator and is written with operators, so that it holds to any order and on every backend.  It
  uses neither kernels nor methods of arrays; on shapes, axes and other plain data it may use Python and NumPy freely.
- Where a derivative does not exist, the convention stands in the docstring: ties share equally, abs'(0) = 0, norm'(0) = 0.
- What smaller operators say as well is a composition, unless a rule of its own saves time or memory in common use.
- A NumPy function is registered beside its operator (`numpy=`), or in numpy_functions.py if it needs an adapter.

The files, each importing only from those above it:

    functions        exp log sqrt sin tanh ...
    shapes           reshape transpose broadcast_to sum_to squeeze expand_dims swapaxes moveaxis tile
    logic            comparisons, and or xor not, isnan isinf isfinite
    arithmetic       + - * / // % ** where maximum minimum clip abs sign floor ceil trunc round
    creation         astype zeros_like ones_like full_like
    indexing         getitem scatter_add index_set index_add take take_along_axis, x.at
    joining          concatenate stack split pad repeat flip roll
    reductions       sum mean var std prod max min any all argmax argmin cumsum
    linear           matmul dot inner outer tensordot norm
    contraction      einsum
    methods, numpy_functions    what attaches all this to Tensor, Param and NumPy
"""

from __future__ import annotations

from . import methods, numpy_functions  # noqa: F401  (they attach)
from .arithmetic import (
    absolute,
    add,
    ceil,
    clip,
    divide,
    divmod,
    floor,
    floor_divide,
    maximum,
    minimum,
    multiply,
    negative,
    positive,
    power,
    reciprocal,
    remainder,
    round,
    sign,
    square,
    subtract,
    trunc,
    where,
)
from .contraction import einsum
from .creation import astype, full_like, ones_like, zeros_like
from .functions import arccos, arcsin, arctan, arctan2, cbrt, cos, cosh, exp, expm1, log, log1p, log2, log10, sin, sinh, sqrt, tan, tanh
from .indexing import getitem, index_add, index_set, scatter_add, scatter_along_axis, take, take_along_axis
from .joining import array_split, concatenate, flip, hstack, pad, repeat, roll, split, stack, vstack
from .linear import dot, inner, matmul, norm, outer, tensordot
from .logic import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    invert,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from .reductions import all, any, argmax, argmin, cumsum, max, mean, min, prod, std, sum, var
from .shapes import broadcast_to, expand_dims, matrix_transpose, moveaxis, ravel, reshape, squeeze, sum_to, swapaxes, tile, transpose

abs = absolute

__all__ = [
    "abs", "absolute", "add", "all", "any", "arccos", "arcsin", "arctan", "arctan2", "argmax", "argmin", "array_split", "astype",
    "bitwise_and", "bitwise_or", "bitwise_xor", "broadcast_to", "cbrt", "ceil", "clip", "concatenate", "cos", "cosh", "cumsum",
    "divide", "divmod", "dot", "einsum", "equal", "exp", "expand_dims", "expm1", "flip", "floor", "floor_divide", "full_like",
    "getitem", "greater", "greater_equal", "hstack", "index_add", "index_set", "inner", "invert", "isfinite", "isinf", "isnan", "less",
    "less_equal", "log", "log1p", "log2", "log10", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul",
    "matrix_transpose", "max", "maximum", "mean", "min", "minimum", "moveaxis", "multiply", "negative", "norm", "not_equal",
    "ones_like", "outer", "pad", "positive", "power", "prod", "ravel", "reciprocal", "remainder", "repeat", "reshape", "roll", "round",
    "scatter_add", "scatter_along_axis", "sign", "sin", "sinh", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum",
    "sum_to", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "transpose", "trunc", "var", "vstack", "where",
    "zeros_like",
]  # fmt: skip
