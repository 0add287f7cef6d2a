"""NumPy's functions that are compositions here and take what NumPy's take: np.concatenate([t, u]), np.flip(t, 0).

Their arrays may have other names (np.flip's `m`): the tables say how many come first.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from autotape.numpy_protocol import INSPECTS, ZERO, numpy_function, register_operator
from autotape.param import Param
from autotape.tensor import Tensor, asarray

from . import (
    arithmetic,
    choosing,
    counting,
    covariance,
    creation,
    determinants,
    diagonals,
    differences,
    eigenvalues,
    factorizations,
    histograms,
    joining,
    least_squares,
    linear,
    norms,
    padding,
    products,
    quantiles,
    shapes,
    solving,
    sorting,
    summaries,
)

OF_ONE: dict[Any, Any] = {
    np.array_split: joining.array_split,
    np.average: summaries.average,
    np.block: joining.block,
    np.column_stack: joining.column_stack,
    np.corrcoef: covariance.corrcoef,
    np.cov: covariance.cov,
    np.delete: choosing.delete,
    np.diag: diagonals.diag,
    np.diagflat: diagonals.diagflat,
    np.diagonal: diagonals.diagonal,
    np.diff: differences.diff,
    np.dsplit: joining.dsplit,
    np.dstack: joining.dstack,
    np.ediff1d: differences.ediff1d,
    np.expand_dims: shapes.expand_dims,
    np.fix: arithmetic.trunc,
    np.flip: joining.flip,
    np.fliplr: joining.fliplr,
    np.flipud: joining.flipud,
    np.full_like: creation.full_like,
    np.histogram_bin_edges: histograms.histogram_bin_edges,
    np.hsplit: joining.hsplit,
    np.hstack: joining.hstack,
    np.insert: choosing.insert,
    np.linalg.cholesky: factorizations.cholesky,
    np.linalg.cond: norms.cond,
    np.linalg.det: determinants.det,
    np.linalg.eig: eigenvalues.eig,
    np.linalg.eigh: eigenvalues.eigh,
    np.linalg.eigvals: eigenvalues.eigvals,
    np.linalg.eigvalsh: eigenvalues.eigvalsh,
    np.linalg.inv: solving.inv,
    np.linalg.matrix_norm: norms.matrix_norm,
    np.linalg.matrix_power: products.matrix_power,
    np.linalg.matrix_transpose: shapes.matrix_transpose,
    np.linalg.multi_dot: products.multi_dot,
    np.linalg.norm: norms.norm,
    np.linalg.pinv: least_squares.pinv,
    np.linalg.qr: factorizations.qr,
    np.linalg.slogdet: determinants.slogdet,
    np.linalg.svd: factorizations.svd,
    np.linalg.svdvals: factorizations.svdvals,
    np.linalg.tensorinv: solving.tensorinv,
    np.linalg.vector_norm: norms.vector_norm,
    np.matrix_transpose: shapes.matrix_transpose,
    np.median: quantiles.median,
    np.moveaxis: shapes.moveaxis,
    np.nanmax: summaries.nanmax,
    np.nanmedian: quantiles.nanmedian,
    np.nanmin: summaries.nanmin,
    np.pad: padding.pad,
    np.partition: sorting.partition,
    np.ptp: summaries.ptp,
    np.repeat: joining.repeat,
    np.roll: joining.roll,
    np.rot90: joining.rot90,
    np.sort: sorting.sort,
    np.split: joining.split,
    np.squeeze: shapes.squeeze,
    np.stack: joining.stack,
    np.swapaxes: shapes.swapaxes,
    np.tile: shapes.tile,
    np.trapezoid: differences.trapezoid,
    np.tril: diagonals.tril,
    np.trim_zeros: counting.trim_zeros,
    np.triu: diagonals.triu,
    np.unique: counting.unique,
    np.unique_all: counting.unique_all,
    np.unique_counts: counting.unique_counts,
    np.unique_inverse: counting.unique_inverse,
    np.unique_values: counting.unique_values,
    np.vsplit: joining.vsplit,
    np.vstack: joining.vstack,
}
OF_TWO: dict[Any, Any] = {
    np.append: joining.append,
    np.cross: products.cross,
    np.extract: choosing.extract,
    np.kron: products.kron,
    np.linalg.lstsq: least_squares.lstsq,
    np.linalg.matmul: linear.matmul,
    np.linalg.solve: solving.solve,
    np.linalg.tensordot: linear.tensordot,
    np.linalg.tensorsolve: solving.tensorsolve,
    np.linalg.vecdot: products.vecdot,
    np.nanpercentile: quantiles.nanpercentile,
    np.nanquantile: quantiles.nanquantile,
    np.outer: linear.outer,
    np.percentile: quantiles.percentile,
    np.quantile: quantiles.quantile,
    np.tensordot: linear.tensordot,
}
OF_ONE_ZERO: dict[Any, Any] = {
    np.argpartition: sorting.argpartition,
    np.argsort: sorting.argsort,
    np.count_nonzero: summaries.count_nonzero,
    np.linalg.matrix_rank: norms.matrix_rank,
    np.nanargmax: summaries.nanargmax,
    np.nanargmin: summaries.nanargmin,
}
OF_TWO_ZERO: dict[Any, Any] = {np.searchsorted: sorting.searchsorted}
CREATE: dict[Any, Any] = {np.empty_like: creation.zeros_like, np.ones_like: creation.ones_like, np.zeros_like: creation.zeros_like}
IN_C: dict[Any, Any] = {  # NumPy 2.0 doesn't tell their parameters, which are called as ours are
    np.bincount: counting.bincount,
    np.concatenate: joining.concatenate,
    np.dot: linear.dot,
    np.inner: linear.inner,
    np.select: choosing.select,
    np.vdot: products.vdot,
    np.vecdot: products.vecdot,
    **{getattr(np, f.__name__): f for f in (products.matvec, products.vecmat) if hasattr(np, f.__name__)},  # NumPy 2.2
}
OF_MANY: dict[Any, Any] = {
    np.atleast_1d: shapes.atleast_1d,
    np.atleast_2d: shapes.atleast_2d,
    np.atleast_3d: shapes.atleast_3d,
    np.broadcast_arrays: shapes.broadcast_arrays,
}


def of_tensors(f):
    """f of several arrays with a result for each, which are all Tensors though one of the arrays alone may be."""

    @functools.wraps(f)
    def adapted(*xs, **options):
        return f(*(x if isinstance(x, (Tensor, Param)) else asarray(x) for x in xs), **options)

    return adapted


for inputs, kind, compositions in ((1, "", OF_ONE), (2, "", OF_TWO), (1, ZERO, OF_ONE_ZERO), (2, ZERO, OF_TWO_ZERO), (1, INSPECTS, CREATE)):
    for function, composition in compositions.items():
        register_operator(function, composition, inputs, kind)
for function, composition in IN_C.items():
    numpy_function(function)(composition)
for function, composition in OF_MANY.items():
    numpy_function(function)(of_tensors(composition))
