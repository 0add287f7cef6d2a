"""NumPy's functions that are compositions here and take what NumPy's take: np.concatenate([t, u]), np.flip(t, 0).

Their arrays may have other names (np.flip's `m`): the tables say how many come first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotape.numpy_protocol import numpy_function, register_operator
from autotape.param import Param
from autotape.tensor import Tensor, asarray

from . import choosing, creation, cumulative, diagonals, differences, joining, linear, products, shapes, summaries

OF_ONE: dict[Any, Any] = {
    np.array_split: joining.array_split,
    np.average: summaries.average,
    np.block: joining.block,
    np.column_stack: joining.column_stack,
    np.count_nonzero: summaries.count_nonzero,
    np.cumprod: cumulative.cumprod,
    np.cumsum: cumulative.cumsum,
    np.delete: choosing.delete,
    np.diag: diagonals.diag,
    np.diagflat: diagonals.diagflat,
    np.diagonal: diagonals.diagonal,
    np.diff: differences.diff,
    np.dsplit: joining.dsplit,
    np.dstack: joining.dstack,
    np.ediff1d: differences.ediff1d,
    np.expand_dims: shapes.expand_dims,
    np.flip: joining.flip,
    np.fliplr: joining.fliplr,
    np.flipud: joining.flipud,
    np.full_like: creation.full_like,
    np.hsplit: joining.hsplit,
    np.hstack: joining.hstack,
    np.insert: choosing.insert,
    np.linalg.matrix_norm: linear.matrix_norm,
    np.linalg.matrix_power: products.matrix_power,
    np.linalg.matrix_transpose: shapes.matrix_transpose,
    np.linalg.multi_dot: products.multi_dot,
    np.linalg.norm: linear.norm,
    np.linalg.vector_norm: linear.vector_norm,
    np.matrix_transpose: shapes.matrix_transpose,
    np.moveaxis: shapes.moveaxis,
    np.nanmax: summaries.nanmax,
    np.nanmean: summaries.nanmean,
    np.nanmin: summaries.nanmin,
    np.nansum: summaries.nansum,
    np.pad: joining.pad,
    np.ptp: summaries.ptp,
    np.repeat: joining.repeat,
    np.roll: joining.roll,
    np.rot90: joining.rot90,
    np.split: joining.split,
    np.squeeze: shapes.squeeze,
    np.stack: joining.stack,
    np.swapaxes: shapes.swapaxes,
    np.tile: shapes.tile,
    np.trace: diagonals.trace,
    np.trapezoid: differences.trapezoid,
    np.tril: diagonals.tril,
    np.triu: diagonals.triu,
    np.vsplit: joining.vsplit,
    np.vstack: joining.vstack,
}
OF_TWO: dict[Any, Any] = {
    np.append: joining.append,
    np.cross: products.cross,
    np.extract: choosing.extract,
    np.kron: products.kron,
    np.linalg.matmul: linear.matmul,
    np.linalg.tensordot: linear.tensordot,
    np.linalg.vecdot: products.vecdot,
    np.outer: linear.outer,
    np.tensordot: linear.tensordot,
}
IN_C: dict[Any, Any] = {  # NumPy 2.0 doesn't tell their parameters, which are called as ours are
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

    def adapted(*xs, **options):
        return f(*(x if isinstance(x, (Tensor, Param)) else asarray(x) for x in xs), **options)

    return adapted


for inputs, compositions in ((1, OF_ONE), (2, OF_TWO)):
    for function, composition in compositions.items():
        register_operator(function, composition, inputs)
for function, composition in IN_C.items():
    numpy_function(function)(composition)
for function, composition in OF_MANY.items():
    numpy_function(function)(of_tensors(composition))
