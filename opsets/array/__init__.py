"""Opset array: operators with NumPy's names and semantics, which NumPy's own functions and Tensor's methods reach.

    from autotape.opsets import array as ops
    ops.tanh(x), np.tanh(x), (x @ w).mean(axis=0), x[mask], x.at[i].set(v)

The rules of the room, for whoever adds to it:

- Names, arguments, values, dtypes and errors are NumPy's.  Python numbers are weak: float32 stays float32.
- A rule stands under its operator and is written with operators, so that it holds to any order and on every backend.  It
  uses neither kernels nor methods of arrays; on shapes, axes and other plain data it may use Python and NumPy freely.
- Where a derivative does not exist, the convention stands in the docstring: ties share equally, abs'(0) = 0, norm'(0) = 0.
- What smaller operators say as well is a composition, unless a rule of its own saves time or memory in common use.
- A NumPy function is registered beside its operator (`numpy=`), in numpy_tables.py, or in numpy_functions.py if it needs an adapter.

The files, each importing only from those above it:

    functions        exp log sqrt sin sinc tanh ...
    shapes           reshape transpose broadcast_to sum_to squeeze expand_dims atleast_1d swapaxes moveaxis meshgrid tile ...
    logic            comparisons, isclose allclose array_equal, and or xor not, isnan isinf isfinite signbit
    arithmetic       + - * / // % ** hypot logaddexp where maximum fmax clip abs copysign sign floor ceil trunc round ...
    creation         astype zeros_like ones_like full_like
    indexing         getitem scatter_add index_set index_add take take_along_axis, x.at
    joining          concatenate stack block append split pad repeat flip rot90 roll ...
    choosing         compress extract select choose insert delete
    reductions       sum mean var std prod max min any all argmax argmin
    cumulative       cumsum cumprod
    summaries        ptp average count_nonzero nansum nanmean nanmax nanmin
    diagonals        trace diagonal diag diagflat tril triu
    differences      diff ediff1d trapezoid
    linear           matmul dot inner outer tensordot norm vector_norm matrix_norm
    products         kron cross vdot vecdot matvec vecmat multi_dot matrix_power
    contraction      einsum
    methods, numpy_tables, numpy_functions    what attaches all this to Tensor, Param and NumPy
"""

from __future__ import annotations

from . import methods, numpy_functions, numpy_tables  # noqa: F401  (they attach)
from .arithmetic import (
    absolute,
    add,
    ceil,
    clip,
    copysign,
    divide,
    divmod,
    fabs,
    float_power,
    floor,
    floor_divide,
    fmax,
    fmin,
    fmod,
    heaviside,
    hypot,
    logaddexp,
    logaddexp2,
    maximum,
    minimum,
    multiply,
    nan_to_num,
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
from .choosing import choose, compress, delete, extract, insert, select
from .contraction import einsum
from .creation import astype, full_like, ones_like, zeros_like
from .cumulative import cumprod, cumsum
from .diagonals import diag, diagflat, diagonal, trace, tril, triu
from .differences import diff, ediff1d, trapezoid
from .functions import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cbrt,
    cos,
    cosh,
    deg2rad,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    log10,
    rad2deg,
    sin,
    sinc,
    sinh,
    sqrt,
    tan,
    tanh,
)
from .indexing import getitem, index_add, index_set, scatter_add, scatter_along_axis, take, take_along_axis
from .joining import (
    append,
    array_split,
    block,
    column_stack,
    concatenate,
    dsplit,
    dstack,
    flip,
    fliplr,
    flipud,
    hsplit,
    hstack,
    pad,
    repeat,
    roll,
    rot90,
    split,
    stack,
    vsplit,
    vstack,
)
from .linear import dot, inner, matmul, matrix_norm, norm, outer, tensordot, vector_norm
from .logic import (
    allclose,
    array_equal,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    invert,
    isclose,
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
    signbit,
)
from .products import cross, kron, matrix_power, matvec, multi_dot, vdot, vecdot, vecmat
from .reductions import all, any, argmax, argmin, max, mean, min, prod, std, sum, var
from .shapes import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    matrix_transpose,
    meshgrid,
    moveaxis,
    ravel,
    reshape,
    squeeze,
    sum_to,
    swapaxes,
    tile,
    transpose,
)
from .summaries import average, count_nonzero, nanmax, nanmean, nanmin, nansum, ptp

abs, degrees, radians = absolute, rad2deg, deg2rad

__all__ = [
    "abs", "absolute", "add", "all", "allclose", "any", "append", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "argmax", "argmin", "array_equal", "array_split", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bitwise_and",
    "bitwise_or", "bitwise_xor", "block", "broadcast_arrays", "broadcast_to", "cbrt", "ceil", "choose", "clip", "column_stack", "compress",
    "concatenate", "copysign", "cos", "cosh", "count_nonzero", "cross", "cumprod", "cumsum", "deg2rad", "degrees", "delete", "diag",
    "diagflat", "diagonal", "diff", "divide", "divmod", "dot", "dsplit", "dstack", "ediff1d", "einsum", "equal", "exp", "exp2",
    "expand_dims", "expm1", "extract", "fabs", "flip", "fliplr", "flipud", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod",
    "full_like", "getitem", "greater", "greater_equal", "heaviside", "hsplit", "hstack", "hypot", "index_add", "index_set", "inner",
    "insert", "invert", "isclose", "isfinite", "isinf", "isnan", "kron", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp",
    "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "matrix_norm", "matrix_power", "matrix_transpose",
    "matvec", "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis", "multi_dot", "multiply", "nan_to_num", "nanmax",
    "nanmean", "nanmin", "nansum", "negative", "norm", "not_equal", "ones_like", "outer", "pad", "positive", "power", "prod", "ptp",
    "rad2deg", "radians", "ravel", "reciprocal", "remainder", "repeat", "reshape", "roll", "rot90", "round", "scatter_add",
    "scatter_along_axis", "select", "sign", "signbit", "sin", "sinc", "sinh", "split", "sqrt", "square", "squeeze", "stack", "std",
    "subtract", "sum", "sum_to", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace", "transpose",
    "trapezoid", "tril", "triu", "trunc", "var", "vdot", "vecdot", "vecmat", "vector_norm", "vsplit", "vstack", "where", "zeros_like",
]  # fmt: skip
