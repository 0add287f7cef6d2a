"""Opset array: operators with NumPy's names and semantics, which NumPy's own functions and Tensor's methods reach.

    from autotape.opsets import array as ops
    ops.tanh(x), np.tanh(x), (x @ w).mean(axis=0), x[mask], x.at[i].set(v)

The rules of the room, for whoever adds to it:

- Names, arguments, values, dtypes and errors are NumPy's.  Python numbers are weak: float32 stays float32.
- A rule stands under its operator and is written with operators, so that it holds to any order and on every backend.  It
  uses neither kernels nor methods of arrays; on shapes, axes and other plain data it may use Python and NumPy freely.
- Where a derivative does not exist, the convention stands in the docstring: ties share equally, abs'(0) = 0, norm'(0) = 0.
- What smaller operators say as well is a composition, unless a rule of its own saves time or memory in common use.
- A NumPy function is registered beside its operator (`numpy=`), in numpy_tables.py, or in numpy_functions.py if it needs an
  adapter; what has no derivative and no operator is in numpy_values.py, what is refused in numpy_refused.py.

The files, each importing only from those above it:

    functions        exp log sqrt sin sinc tanh i0 ...
    shapes           reshape transpose broadcast_to sum_to squeeze expand_dims atleast_1d swapaxes moveaxis meshgrid tile ...
    creation         astype zeros_like ones_like full_like
    logic            comparisons, isclose allclose array_equal, and or xor not, isnan isinf isfinite signbit
    complex_numbers  real imag complex_of, and the conjugates in rules
    arithmetic       + - * / // % ** hypot logaddexp where maximum fmax clip abs copysign sign floor ceil trunc round ...
    indexing         getitem scatter_add index_set index_add take take_along_axis
    parts            ldexp frexp modf nextafter spacing, conjugate angle real_if_close
    joining          concatenate stack block append split repeat flip rot90 roll ...
    choosing         compress extract select choose insert delete
    reductions       sum mean logsumexp var std prod max min any all argmax argmin
    cumulative       cumsum cumprod cumulative_sum cumulative_prod
    summaries        ptp average count_nonzero nansum nanmean nanvar nanmax nanargmax ...
    sorting          sort sort_complex argsort partition argpartition lexsort searchsorted digitize
    quantiles        median percentile quantile nanmedian nanpercentile nanquantile
    diagonals        trace diagonal diag diagflat tril triu
    differences      diff ediff1d gradient trapezoid
    counting         unique trim_zeros bincount
    histograms       histogram histogram2d histogramdd
    updates          x.at
    slices           unstack apply_along_axis sliding_window_view resize
    fourier          fft rfft hfft and their inverses, of one, two or more axes; fftshift ifftshift
    signals          convolve correlate interp unwrap
    grids            linspace logspace geomspace vander
    padding          pad
    polynomials      polyval polyadd polymul polydiv polyder polyint ...
    linear           matmul dot inner outer tensordot
    covariance       cov corrcoef
    matrices         what functions of matrices take, and what their rules are made of
    solving          inv solve tensorsolve tensorinv
    eigenvalues      eigh eigvalsh eig eigvals
    factorizations   cholesky svd svdvals qr
    determinants     det slogdet
    least_squares    pinv lstsq
    roots            roots poly
    fitting          polyfit
    norms            norm vector_norm matrix_norm cond matrix_rank
    products         kron cross vdot vecdot matvec vecmat multi_dot matrix_power
    contraction      einsum
    methods, numpy_tables, numpy_functions, numpy_values, scimath    what attaches all this to Tensor, Param and NumPy
    numpy_refused    what Tensors refuse of NumPy, and why
"""

from __future__ import annotations

from . import methods, numpy_functions, numpy_refused, numpy_tables, numpy_values, scimath  # noqa: F401  (they attach)
from .arithmetic import (
    absolute,
    add,
    arctan2,
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
from .complex_numbers import imag, real
from .contraction import einsum
from .counting import bincount, trim_zeros, unique, unique_all, unique_counts, unique_inverse, unique_values
from .covariance import corrcoef, cov
from .creation import astype, full_like, ones_like, zeros_like
from .cumulative import cumprod, cumsum, cumulative_prod, cumulative_sum
from .determinants import det, slogdet
from .diagonals import diag, diagflat, diagonal, trace, tril, triu
from .differences import diff, ediff1d, gradient, trapezoid
from .eigenvalues import eig, eigh, eigvals, eigvalsh
from .factorizations import cholesky, qr, svd, svdvals
from .fitting import polyfit
from .fourier import (
    fft,
    fft2,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from .functions import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctanh,
    cbrt,
    cos,
    cosh,
    deg2rad,
    exp,
    exp2,
    expm1,
    i0,
    i1,
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
from .grids import geomspace, linspace, logspace, vander
from .histograms import histogram, histogram2d, histogram_bin_edges, histogramdd
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
    repeat,
    roll,
    rot90,
    split,
    stack,
    vsplit,
    vstack,
)
from .least_squares import lstsq, pinv
from .linear import dot, inner, matmul, outer, tensordot
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
from .norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from .padding import pad
from .parts import angle, conjugate, frexp, ldexp, modf, nextafter, real_if_close, spacing
from .polynomials import polyadd, polyder, polydiv, polygrid2d, polyint, polymul, polysub, polyval, polyval2d
from .products import cross, kron, matrix_power, matvec, multi_dot, vdot, vecdot, vecmat
from .quantiles import median, nanmedian, nanpercentile, nanquantile, percentile, quantile
from .reductions import all, any, argmax, argmin, logsumexp, max, mean, min, prod, std, sum, var
from .roots import poly, roots
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
from .signals import convolve, correlate, interp, unwrap
from .slices import apply_along_axis, resize, rollaxis, sliding_window_view, unstack
from .solving import inv, solve, tensorinv, tensorsolve
from .sorting import argpartition, argsort, digitize, lexsort, partition, searchsorted, sort, sort_complex
from .summaries import (
    average,
    count_nonzero,
    nanargmax,
    nanargmin,
    nancumprod,
    nancumsum,
    nanmax,
    nanmean,
    nanmin,
    nanprod,
    nanstd,
    nansum,
    nanvar,
    ptp,
)

abs, degrees, radians = absolute, rad2deg, deg2rad

__all__ = [
    "abs", "absolute", "add", "all", "allclose", "angle", "any", "append", "apply_along_axis", "arccos", "arccosh", "arcsin", "arcsinh",
    "arctan", "arctan2", "arctanh", "argmax", "argmin", "argpartition", "argsort", "array_equal", "array_split", "astype", "atleast_1d",
    "atleast_2d", "atleast_3d", "average", "bincount", "bitwise_and", "bitwise_or", "bitwise_xor", "block", "broadcast_arrays",
    "broadcast_to", "cbrt", "ceil", "cholesky", "choose", "clip", "column_stack", "compress", "concatenate", "cond", "conjugate",
    "convolve", "copysign", "corrcoef", "correlate", "cos", "cosh", "count_nonzero", "cov", "cross", "cumprod", "cumsum", "cumulative_prod",
    "cumulative_sum", "deg2rad", "degrees", "delete", "det", "diag", "diagflat", "diagonal", "diff", "digitize", "divide", "divmod", "dot",
    "dsplit", "dstack", "ediff1d", "eig", "eigh", "eigvals", "eigvalsh", "einsum", "equal", "exp", "exp2", "expand_dims", "expm1",
    "extract", "fabs", "fft", "fft2", "fftn", "fftshift", "flip", "fliplr", "flipud", "float_power", "floor", "floor_divide", "fmax",
    "fmin", "fmod", "frexp", "full_like", "geomspace", "getitem", "gradient", "greater", "greater_equal", "heaviside", "hfft", "histogram",
    "histogram2d", "histogram_bin_edges", "histogramdd", "hsplit", "hstack", "hypot", "i0", "i1", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "imag", "index_add", "index_set", "inner", "insert", "interp", "inv", "invert", "irfft", "irfft2", "irfftn", "isclose",
    "isfinite", "isinf", "isnan", "kron", "ldexp", "less", "less_equal", "lexsort", "linspace", "log", "log1p", "log2", "log10",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "logspace", "logsumexp", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "matvec", "max", "maximum", "mean", "median", "meshgrid", "min",
    "minimum", "modf", "moveaxis", "multi_dot", "multiply", "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax",
    "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "negative", "nextafter",
    "norm", "not_equal", "ones_like", "outer", "pad", "partition", "percentile", "pinv", "poly", "polyadd", "polyder", "polydiv", "polyfit",
    "polygrid2d", "polyint", "polymul", "polysub", "polyval", "polyval2d", "positive", "power", "prod", "ptp", "qr", "quantile", "rad2deg",
    "radians", "ravel", "real", "real_if_close", "reciprocal", "remainder", "repeat", "reshape", "resize", "rfft", "rfft2", "rfftn", "roll",
    "rollaxis", "roots", "rot90", "round", "scatter_add", "scatter_along_axis", "searchsorted", "select", "sign", "signbit", "sin", "sinc",
    "sinh", "sliding_window_view", "slogdet", "solve", "sort", "sort_complex", "spacing", "split", "sqrt", "square", "squeeze", "stack",
    "std", "subtract", "sum", "sum_to", "svd", "svdvals", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tensorinv",
    "tensorsolve", "tile", "trace", "transpose", "trapezoid", "tril", "trim_zeros", "triu", "trunc", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unstack", "unwrap", "vander", "var", "vdot", "vecdot", "vecmat", "vector_norm",
    "vsplit", "vstack", "where", "zeros_like",
]  # fmt: skip
