"""Rows: a gradient of which only some rows are not 0, as an embedding table's.  It stays so until something needs it dense."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import backend
from .backends.kernels import Array, Shape
from .batching import Batched


class Rows:
    """Zeros of `shape`, to which rows[k] is added at [indices[k]]; an index may stand several times.

    indices: (n,) whole numbers from 0 on, a NumPy array.  rows: (n, *shape[1:]), an array of the current backend.  Sums of Rows and
    their products with numbers are Rows; whatever else meets one gets it dense.
    """

    __slots__ = ("indices", "rows", "shape")
    __hash__ = object.__hash__

    def __init__(self, indices: np.ndarray[Any, Any], rows: Array, shape: Shape) -> None:
        self.indices, self.rows, self.shape = indices, rows, shape

    def __repr__(self) -> str:
        return f"Rows({len(self.indices)} of {self.shape}, dtype={self.dtype})"

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def dense(self) -> Array:
        """The same as an array of the current backend."""
        array: Array = backend.kernels().scatter_add(self.rows, self.indices, self.shape)
        return array

    def merged(self) -> Rows:
        """The same with each index once, in their order.  Raises ValueError where indices and rows don't fit the shape."""
        indices, place = np.unique(self.indices, return_inverse=True)
        if indices.dtype.kind not in "iu" or self.rows.shape != (*np.shape(self.indices), *self.shape[1:]):
            met = f"{np.shape(self.indices)} {indices.dtype} and {self.rows.shape}"
            raise ValueError(f"{self!r} takes n whole numbers and rows (n, *shape[1:]), not {met}")
        if len(indices) and not (indices[0] >= 0 and indices[-1] < self.shape[0]):
            raise ValueError(f"{self!r} takes indices from 0 to {self.shape[0] - 1}, but they are from {indices[0]} to {indices[-1]}")
        if len(indices) == len(self.indices) and (indices == self.indices).all():
            return self
        rows = backend.kernels().scatter_add(self.rows, place.reshape(-1), (len(indices), *self.shape[1:]))
        return Rows(indices, rows, self.shape)

    def copy(self) -> Rows:
        """The same, sharing memory with nothing."""
        return Rows(self.indices.copy(), backend.kernels().copy(self.rows), self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __neg__(self) -> Rows:
        return Rows(self.indices, -self.rows, self.shape)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Rows) and other.shape == self.shape:
            rows = backend.kernels().concatenate([self.rows, other.rows], 0)
            return Rows(np.concatenate([self.indices, other.indices]), rows, self.shape)
        return self.dense() + dense(other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return Rows(self.indices, self.rows * other, self.shape) if type(other) in (int, float) else self.dense() * dense(other)

    __rmul__ = __mul__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dense(), name)

    def __getitem__(self, index: Any) -> Any:
        return self.dense()[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(backend.kernels().to_numpy(self.dense()), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """ndarray + rows, ndarray += rows."""
        return getattr(ufunc, method)(*map(dense, inputs), **options)


def dense(x: Any) -> Any:
    """x, dense if it is Rows."""
    return x.dense() if type(x) is Rows else x


def _of_dense(function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    def method(self: Rows, *others: Any) -> Any:
        operands = [self.dense(), *map(dense, others)]
        return function(*(reversed(operands) if swapped else operands))

    return method


for _name in ("sub", "truediv", "floordiv", "mod", "pow", "matmul", "lt", "le", "gt", "ge", "eq", "ne", "abs", "pos"):
    setattr(Rows, f"__{_name}__", _of_dense(getattr(operator, _name)))
for _name in ("sub", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(Rows, f"__r{_name}__", _of_dense(getattr(operator, _name), swapped=True))


def looked_up(dy: Array, index: Any, shape: Shape) -> Rows | None:
    """The gradient of x (shape)[index] for the cotangent dy, where index is an array of whole numbers; None for any other index."""
    if isinstance(index, tuple) and len(index) == 1:
        (index,) = index
    k = backend.kernels()
    if not isinstance(index, np.ndarray) or index.dtype.kind not in "iu" or index.ndim == 0 or len(shape) < 2 or type(dy) is not k.array:
        return None
    if k.array is Batched:
        return None
    return Rows(index.reshape(-1).astype(np.intp) % max(shape[0], 1), k.reshape(dy, (index.size, *shape[1:])), shape)
