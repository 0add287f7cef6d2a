"""Batched arrays: a backend over a backend, whose arrays carry a hidden leading axis.

A backward rule that runs on a batched cotangent gives the cotangents of all rows of a Jacobian at once and knows
nothing of it: `dy.shape` hides the axis, and the kernels below put it where the plain kernel wants it.  A kernel that
has no such form here runs row by row.  Only kernels of the contract are used, so this holds on every backend.

Arrays without the axis are *plain*: the same for every row.  A rule that looks at values, or leans on NumPy, can't run so:
then `NeedsValues` is raised, and whoever walks goes row by row.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from .backends.kernels import Array, Geometry, Kernels, Shape


class NeedsValues(AttributeError):
    """Something asked for the values of a batched array, of which there are as many as rows."""


class Batched:
    """An array of `rows` arrays, or (rows is None) one that counts for every row."""

    __slots__ = ("data", "kernels", "rows", "shape")
    __hash__ = object.__hash__

    def __init__(self, data: Array, kernels: BatchedKernels, rows: int | None) -> None:
        self.data, self.kernels, self.rows = data, kernels, rows
        self.shape: Shape = tuple(data.shape[rows is not None :])

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __neg__(self) -> Any:
        return self.kernels.negative(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """ndarray * batched, which NumPy brings here."""
        kernel = getattr(self.kernels, ufunc.__name__, None)
        if kernel is None or method != "__call__" or options:
            raise NeedsValues(ufunc.__name__)
        return kernel(*inputs)

    def __getattr__(self, name: str) -> Any:
        raise NeedsValues(name)

    def _needs_values(self, *_: Any, **__: Any) -> Any:
        raise NeedsValues("the values of a batched array")

    __array__ = __array_function__ = __getitem__ = __bool__ = __float__ = __int__ = __len__ = __iter__ = _needs_values


def _python_operator(kernel: str, swapped: bool) -> Callable[[Batched, Any], Any]:
    def method(a: Batched, b: Any) -> Any:
        k = a.kernels
        if type(b) in (bool, int, float, complex):
            b = k.scalar(b, a.dtype)
        elif (b := k.adopt(b)) is None:
            return NotImplemented
        return getattr(k, kernel)(b, a) if swapped else getattr(k, kernel)(a, b)

    return method


_ARITHMETIC = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder"}
_ARITHMETIC |= {"pow": "power", "matmul": "matmul"}
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
for _method, _kernel in _ARITHMETIC.items():
    setattr(Batched, f"__{_method}__", _python_operator(_kernel, swapped=False))
    setattr(Batched, f"__r{_method}__", _python_operator(_kernel, swapped=True))
for _method, _kernel in _COMPARISONS.items():
    setattr(Batched, f"__{_method}__", _python_operator(_kernel, swapped=False))


@functools.lru_cache(16)
def batched(base: Any) -> Any:
    """The one table of batched kernels over a backend's."""
    return BatchedKernels(base)


class BatchedKernels:
    """The kernels of the contract on Batched arrays, and on the base backend's own, which are plain."""

    array = Batched
    negative: Callable[[Any], Batched]  # these, as most others, are set from the contract
    reshape: Callable[[Any, Shape], Batched]

    def __init__(self, base: Kernels) -> None:
        self.base, self.name = base, f"batched {base.name}"
        self.has_threads, self.compiles, self.math_mode = base.has_threads, False, base.math_mode
        self.account, self.synchronize = base.account, base.synchronize
        for name in (*Kernels.__annotations__, *(n for n in vars(Kernels) if not n.startswith("_"))):
            if not hasattr(self, name):
                setattr(self, name, functools.partial(self._run, name, BATCHED.get(name)))

    def is_alone(self, x: Any) -> bool:
        return False

    def _run(self, name: str, form: Callable[..., Array | None] | None, *args: Any, **named: Any) -> Any:
        """A kernel: plain where no argument is batched, else its batched form, else row by row."""
        kernel = getattr(self.base, name)
        if named:
            args = inspect.signature(getattr(Kernels, name)).bind(self, *args, **named).args[1:]
        rows = next((r for a in args if (r := _rows(a)) is not None), None)
        if rows is None:
            return self._wrap(kernel(*map(self._plain, args)), None)
        data = form(self, rows, *args) if form else None
        return self._wrap(self._row_by_row(kernel, args, rows) if data is None else data, rows)

    def _wrap(self, data: Any, rows: int | None) -> Any:
        return tuple(Batched(d, self, rows) for d in data) if isinstance(data, tuple) else Batched(data, self, rows)

    def _plain(self, a: Any) -> Any:
        """An argument as the base backend's kernel takes it, none of it being batched."""
        if isinstance(a, Batched):
            return a.data
        return type(a)(map(self._plain, a)) if type(a) in (tuple, list) else a

    def _row_by_row(self, kernel: Callable[..., Any], args: Any, rows: int) -> Any:
        results = [kernel(*(self._row(a, i) for a in args)) for i in range(rows)]
        if isinstance(results[0], tuple):
            return tuple(self._stack(each) for each in zip(*results, strict=True))
        return self._stack(results)

    def _row(self, a: Any, i: int) -> Any:
        if isinstance(a, Batched):
            return a.data if a.rows is None else self.base.getitem(a.data, i)
        return type(a)(self._row(x, i) for x in a) if type(a) in (tuple, list) else a

    def _stack(self, results: Sequence[Array]) -> Array:
        return self.base.concatenate([self.base.reshape(r, (1, *r.shape)) for r in results], 0)

    # -- what is the same for all rows
    def adopt(self, x: Any) -> Batched | None:
        if isinstance(x, Batched):
            return x
        raw = self.base.adopt(x)
        return None if raw is None else Batched(raw, self, None)

    def to_numpy(self, x: Any) -> Any:
        if _rows(x) is not None:
            raise NeedsValues("the values of a batched array")
        return self.base.to_numpy(self._plain(x))

    def scalar(self, value: complex, dtype: Any) -> Batched:
        return Batched(self.base.scalar(value, dtype), self, None)

    def zeros(self, shape: Shape, dtype: Any) -> Batched:
        return Batched(self.base.zeros(shape, dtype), self, None)

    def ones(self, shape: Shape, dtype: Any) -> Batched:
        return Batched(self.base.ones(shape, dtype), self, None)

    def full(self, shape: Shape, value: complex, dtype: Any) -> Batched:
        return Batched(self.base.full(shape, value, dtype), self, None)

    def uniform(self, seed: int, shape: Shape, dtype: Any) -> Batched:
        return Batched(self.base.uniform(seed, shape, dtype), self, None)

    def compile_elementwise(self, rule: Callable[..., Any], use: Callable[[Any], Any]) -> Callable[..., Any]:
        return rule

    # -- bringing arguments to one form
    def wide(self, x: Any, ndim: int) -> Array:
        """x's data such that `ndim` axes of each row stand behind the batch axis; a plain x needs no more to broadcast."""
        if not isinstance(x, Batched):
            return x
        if x.rows is None or x.ndim == ndim:
            return x.data
        return self.base.reshape(x.data, (x.rows, *(1,) * (ndim - x.ndim), *x.shape))

    def full_rows(self, x: Any, rows: int) -> Array:
        """x's data with the batch axis, whether x is batched or plain."""
        if isinstance(x, Batched) and x.rows is not None:
            return x.data
        data = self._plain(x)
        return self.base.broadcast_to(data, (rows, *data.shape))


def _rows(a: Any) -> int | None:
    """How many rows an argument has; None if it is plain."""
    if isinstance(a, Batched):
        return a.rows
    return next((r for x in a if (r := _rows(x)) is not None), None) if type(a) in (tuple, list) else None


# -- the batched forms: form(kernels, rows, *arguments) gives the data with the batch axis in front, or None for "row by row"

BATCHED: dict[str, Callable[..., Array | None]] = {}


def form(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the batched form of these kernels."""

    def declare(f: Callable[..., Any]) -> Callable[..., Any]:
        BATCHED.update(dict.fromkeys(names, f))
        return f

    return declare


def _elementwise(name: str) -> Callable[..., Array]:
    def run(k: BatchedKernels, rows: int, *xs: Any) -> Array:
        ndim = max(len(x.shape) for x in xs)
        return getattr(k.base, name)(*(k.wide(x, ndim) for x in xs))

    return run


_elementwise_kernels = [name for name, kind in Kernels.__annotations__.items() if kind in ("Unary", "Binary")]
for _name in (*_elementwise_kernels, "where", "ldexp", "complex_of", "relu_x", "elu_x", "sigmoid_x"):
    BATCHED[_name] = _elementwise(_name)


def _of_each_row(name: str) -> Callable[..., Any]:
    return lambda k, rows, x, *options: getattr(k.base, name)(x.data, *options)


for _name in ("astype", "round", "copy", "exponent", "bessel_i"):
    BATCHED[_name] = _of_each_row(_name)


@form("special")
def _(k: BatchedKernels, rows: int, name: str, xs: Sequence[Any]) -> Array:
    ndim = max(len(x.shape) for x in xs)
    return k.base.special(name, [k.wide(x, ndim) for x in xs])


def _over_axes(name: str) -> Callable[..., Array | None]:
    def run(k: BatchedKernels, rows: int, x: Batched, axis: Any, *keepdims: bool) -> Array | None:
        axes = range(x.ndim) if axis is None else () if x.ndim == 0 else normalize_axis_tuple(axis, x.ndim)
        return getattr(k.base, name)(x.data, tuple(i + 1 for i in axes), *keepdims)

    return run


for _name in ("sum", "prod", "max", "min", "any", "all", "softmax", "logsoftmax", "logsumexp"):
    BATCHED[_name] = _over_axes(_name)


def _along_axis(name: str) -> Callable[..., Array]:
    return lambda k, rows, x, axis, *options: getattr(k.base, name)(x.data, axis % x.ndim + 1, *options)


for _name in ("cumsum", "cumprod", "sort", "argsort", "fft", "rfft", "irfft"):
    BATCHED[_name] = _along_axis(_name)




@form("sum_to")
def _(k: BatchedKernels, rows: int, x: Batched, shape: Shape) -> Array:
    return k.base.reshape(k.base.sum_to(x.data, (rows, *(1,) * (x.ndim - len(shape)), *shape)), (rows, *shape))


@form("reshape")
def _(k: BatchedKernels, rows: int, x: Batched, shape: Shape) -> Array:
    return k.base.reshape(x.data, (rows, *shape))


@form("transpose")
def _(k: BatchedKernels, rows: int, x: Batched, axes: Shape | None) -> Array:
    order = reversed(range(x.ndim)) if axes is None else (i % x.ndim for i in axes)
    return k.base.transpose(x.data, (0, *(i + 1 for i in order)))


@form("broadcast_to")
def _(k: BatchedKernels, rows: int, x: Batched, shape: Shape) -> Array:
    return k.base.broadcast_to(k.wide(x, len(shape)), (rows, *shape))


@form("concatenate")
def _(k: BatchedKernels, rows: int, xs: Sequence[Any], axis: int) -> Array:
    return k.base.concatenate([k.full_rows(x, rows) for x in xs], axis % len(xs[0].shape) + 1)


@form("pad")
def _(k: BatchedKernels, rows: int, x: Batched, widths: Any, value: complex) -> Array:
    return k.base.pad(x.data, ((0, 0), *widths), value)


# -- indexing.  Where an index's arrays are apart, their axis comes first in the result, before the batch axis: row by row then.


@form("getitem")
def _(k: BatchedKernels, rows: int, x: Batched, index: Any) -> Array | None:
    return None if _is_apart(index) else k.base.getitem(x.data, _behind(k, index))


@form("scatter_add")
def _(k: BatchedKernels, rows: int, v: Batched, index: Any, shape: Shape) -> Array | None:
    return None if _is_apart(index) else k.base.scatter_add(v.data, _behind(k, index), (rows, *shape))


def _behind(k: BatchedKernels, index: Any) -> tuple[Any, ...]:
    return (slice(None), *(k._plain(i) for i in _parts(index)))


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_apart(index: Any) -> bool:
    """Whether arrays of an index, among which its numbers count then, have a slice, None or an ellipsis between them; or one is batched."""
    advanced = [not (i is None or i is Ellipsis or isinstance(i, slice)) for i in _parts(index)]
    if any(isinstance(i, (bool, np.bool_)) for i in _parts(index)):
        return True  # an axis of its own
    if not any(a and not isinstance(i, (int, np.integer)) for a, i in zip(advanced, _parts(index), strict=True)):
        return False
    first, last = advanced.index(True), len(advanced) - advanced[::-1].index(True)
    return not all(advanced[first:last]) or _rows(index) is not None


@form("take_along_axis")
def _(k: BatchedKernels, rows: int, x: Any, indices: Any, axis: int) -> Array:
    return k.base.take_along_axis(k.full_rows(x, rows), k.full_rows(indices, rows), axis % len(x.shape) + 1)


@form("scatter_along_axis")
def _(k: BatchedKernels, rows: int, v: Any, indices: Any, axis: int, shape: Shape) -> Array:
    return k.base.scatter_along_axis(k.full_rows(v, rows), k.full_rows(indices, rows), axis % len(shape) + 1, (rows, *shape))


# -- products


@form("matmul")
def _(k: BatchedKernels, rows: int, a: Any, b: Any) -> Array:
    """One product of two matrices where one factor is a plain matrix: its rows are then those of all the batch."""
    row, column = len(a.shape) == 1, len(b.shape) == 1
    a = k.reshape(a, (1, *a.shape)) if row else a
    b = k.reshape(b, (*b.shape, 1)) if column else b
    y = _matrix_product(k, a, b, rows)
    shape = y.shape[: len(y.shape) - 2] + y.shape[-2:][row : 2 - column]
    return k.base.reshape(y, shape) if row or column else y


def _matrix_product(k: BatchedKernels, a: Any, b: Any, rows: int) -> Array:
    base = k.base
    if _rows(b) is None and len(b.shape) == 2:
        y = base.matmul(base.reshape(a.data, (math.prod(a.data.shape[:-1]), a.shape[-1])), k._plain(b))
        return base.reshape(y, (*a.data.shape[:-1], b.shape[-1]))
    if _rows(a) is None and len(a.shape) == 2:
        turned = _swapped(base, b.data)  # (rows, ..., p, n) @ a' (n, m)
        y = base.matmul(base.reshape(turned, (math.prod(turned.shape[:-1]), turned.shape[-1])), _swapped(base, k._plain(a)))
        return _swapped(base, base.reshape(y, (*turned.shape[:-1], a.shape[-2])))
    ndim = max(len(a.shape), len(b.shape))
    return base.matmul(k.wide(a, ndim), k.wide(b, ndim))


def _swapped(base: Kernels, x: Array) -> Array:
    n = len(x.shape)
    return base.transpose(x, (*range(n - 2), n - 1, n - 2))


@form("einsum")
def _(k: BatchedKernels, rows: int, subscripts: str, xs: Sequence[Any]) -> Array:
    terms, _, out = subscripts.partition("->")
    letter = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in subscripts)
    parts = [letter + t if _rows(x) is not None else t for t, x in zip(terms.split(","), xs, strict=True)]
    return k.base.einsum(f"{','.join(parts)}->{letter}{out}", [k._plain(x) for x in xs])


# -- matrices: the rows are one more axis of the stack

for _name in ("inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "qr", "sqrtm"):
    BATCHED[_name] = _of_each_row(_name)


def _solving(name: str) -> Callable[..., Array]:
    """The right sides of one plain matrix stand side by side: it is factorized once."""

    def run(k: BatchedKernels, rows: int, a: Any, b: Any, *options: Any) -> Array:
        solve = getattr(k.base, name)
        if _rows(a) is not None or len(a.shape) != 2 or len(b.shape) != 2:
            ndim = max(len(a.shape), len(b.shape))
            return solve(k.wide(a, ndim), k.wide(b, ndim), *options)
        n, columns = b.shape
        aside = k.base.reshape(k.base.transpose(b.data, (1, 0, 2)), (n, rows * columns))
        x = k.base.reshape(solve(k._plain(a), aside, *options), (n, rows, columns))
        return k.base.transpose(x, (1, 0, 2))

    return run


for _name in ("solve", "solve_triangular"):
    BATCHED[_name] = _solving(_name)


@form("cofactors")
def _(k: BatchedKernels, rows: int, a: Any, d: Any) -> Array:
    ndim = max(len(a.shape), len(d.shape) + 2)
    return k.base.cofactors(k.wide(a, ndim), k.wide(d, ndim - 2))


@form("solve_sylvester")
def _(k: BatchedKernels, rows: int, *xs: Any) -> Array:
    ndim = max(len(x.shape) for x in xs)
    return k.base.solve_sylvester(*(k.wide(x, ndim) for x in xs))


# -- convolution and pooling: the rows join the images


def _joined(base: Kernels, x: Batched) -> Array:
    """(rows, N, ...) as (rows * N, ...)."""
    rows, n, *rest = x.data.shape
    return base.reshape(x.data, (rows * n, *rest))


def _parted(base: Kernels, y: Array, rows: int) -> Array:
    return base.reshape(y, (rows, y.shape[0] // rows, *y.shape[1:]))


@form("conv")
def _(k: BatchedKernels, rows: int, w: Any, x: Any, geometry: Geometry, alpha: float) -> Array | None:
    if _rows(w) is not None:
        return None
    return _parted(k.base, k.base.conv(k._plain(w), _joined(k.base, x), geometry, alpha), rows)


@form("conv_x")
def _(k: BatchedKernels, rows: int, w: Any, dy: Any, x_shape: Shape, geometry: Geometry, alpha: float) -> Array | None:
    if _rows(w) is not None:
        return None
    dx = k.base.conv_x(k._plain(w), _joined(k.base, dy), (rows * x_shape[0], *x_shape[1:]), geometry, alpha)
    return _parted(k.base, dx, rows)


@form("mean_pool")
def _(k: BatchedKernels, rows: int, x: Batched, geometry: Geometry, count_padding: bool) -> Array:
    return _parted(k.base, k.base.mean_pool(_joined(k.base, x), geometry, count_padding), rows)


@form("mean_pool_x")
def _(k: BatchedKernels, rows: int, dy: Batched, x_shape: Shape, geometry: Geometry, count_padding: bool) -> Array:
    return _parted(k.base, k.base.mean_pool_x(_joined(k.base, dy), (rows * x_shape[0], *x_shape[1:]), geometry, count_padding), rows)
