"""Reductions over any axes: sums, products, extrema and where they are.

Sums of narrow floats are made in float32, of integers in 64 bits.  The order in which elements are added depends on shapes and strides
alone, and is that of a tree with short chains, so errors grow as slowly as with NumPy's pairwise sums.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Shape
from .array import DeviceArray, empty, empty_in_order
from .driver import device
from .launch import c_type
from .reduction_plans import INDEX_TYPES, Plan, axes_of, plan
from .transfer import copy_into

_BOOL, _INT64, _UINT64, _FLOAT32, _FLOAT64 = map(np.dtype, ("bool", "int64", "uint64", "float32", "float64"))
_BEST = np.dtype("V16")  # struct Best of combine.cuh
_LARGEST_VALUES = 128  # bytes that the totals of one thread take at most
_ARGUMENTS = {"i": "PPii132s132s", "q": "PPqq264s264s"}


class Kind(NamedTuple):
    """A type as kernels name it, and as arrays have it."""

    c: str
    dtype: np.dtype[Any]


class Reduction(NamedTuple):
    """A struct of combine.cuh, what it computes in, and the struct that combines its partial results."""

    op: str
    inside: Callable[[np.dtype[Any]], Kind]
    then: str
    least: str = ""  # what an empty array hasn't got
    ordered: bool = False


@cache
def kind(dtype: np.dtype[Any]) -> Kind:
    return Kind(c_type(dtype), dtype)


def _wide(dtype: np.dtype[Any]) -> Kind:
    return kind(_FLOAT32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype)


def inside_sums(dtype: np.dtype[Any]) -> Kind:
    """What sums and products are computed in: integers modulo 2**64, so that they overflow as NumPy's do in every type."""
    return kind(_UINT64) if dtype.kind in "biu" else _wide(dtype)


def of_sums(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of NumPy's sums and products: integers become 64 bits wide."""
    return _INT64 if dtype.kind in "bi" else _UINT64 if dtype.kind == "u" else dtype


def _best(dtype: np.dtype[Any]) -> Kind:
    return Kind(f"Best<{_wide(dtype).c}>", _BEST)


SUM = Reduction("Sum", inside_sums, "Sum")
PRODUCT = Reduction("Product", inside_sums, "Product")
_SQUARES = Reduction("Squares", lambda _: kind(_FLOAT64), "Sum")
_MAX = Reduction("Max", _wide, "Max", "maximum")
_MIN = Reduction("Min", _wide, "Min", "minimum")
_ANY = Reduction("Any", lambda _: kind(_BOOL), "Any")
_ALL = Reduction("All", lambda _: kind(_BOOL), "All")
_ARGMAX = Reduction("ArgMax", _best, "ArgMax", "maximum", ordered=True)
_ARGMIN = Reduction("ArgMin", _best, "ArgMin", "minimum", ordered=True)


def reduced(k: Any, r: Reduction, x: DeviceArray, axis: Any, keepdims: bool, dtype: np.dtype[Any]) -> DeviceArray:
    """x reduced along axes, in the dtype asked for.  Raises ValueError for wrong axes, and for extrema of nothing."""
    inside = r.inside(x.dtype)
    p = _plan(r, x, axis, keepdims, inside)
    if p is None:
        x = _kept_first(x, axes_of(axis, x.ndim))
        p = _plan(r, x, axis, keepdims, inside)
        assert p is not None, "two axes are left of any number"
    if p.length == 0 and r.least:
        raise ValueError(f"an array of shape {x.shape} has no {r.least} along axis {axis}, where it is empty")
    y = empty(p.shape, dtype) if p.order is None else empty_in_order(p.shape, dtype, p.order)
    if y.size:
        _fill(k, r, y, x, p, kind(x.dtype), inside)
    return y


def _plan(r: Reduction, x: DeviceArray, axis: Any, keepdims: bool, inside: Kind) -> Plan | None:
    packed = min(16 // x.dtype.itemsize, _LARGEST_VALUES // inside.dtype.itemsize) if x.value is None and not x.address % 16 else 1
    return plan(x.shape, x.strides, x.dtype.itemsize, axis, keepdims, packed, r.ordered, device().processors)


def _kept_first(x: DeviceArray, axes: Shape) -> DeviceArray:
    """A copy whose axes lie so that all that are kept are one in memory, and so are the others."""
    y = empty_in_order(x.shape, x.dtype, [*(a for a in range(x.ndim) if a not in axes), *sorted(axes)])
    copy_into(y, x)
    return y


def _fill(k: Any, r: Reduction, y: DeviceArray, x: DeviceArray, p: Plan, of: Kind, inside: Kind) -> None:
    """Reduce x into the elements of y, by way of partial results where there are parts."""
    _, parts = p.grid
    if parts == 1:
        return _launch(k, r, y, x, p, of.c, inside, kind(y.dtype).c)
    behind = p.function.startswith("rows")
    partial = empty((y.size, parts) if behind else (parts, y.size), inside.dtype)
    _launch(k, r, partial, x, p, of.c, inside, inside.c)
    r = r._replace(op=r.then)
    again = _plan(r, partial, int(behind), False, inside)
    assert again is not None
    _fill(k, r, y, partial, again, inside, inside)


def _launch(k: Any, r: Reduction, y: DeviceArray, x: DeviceArray, p: Plan, of: str, inside: Kind, out: str) -> None:
    types = {"OP": r.op, "IN": of, "ACC": inside.c, "OUT": out, "INDEX": INDEX_TYPES[p.letter]}
    launch = k.kernel("reduce", p.function, _ARGUMENTS[p.letter], **types)
    launch((*p.grid, 1), (*p.block, 1), y, x, p.outs, p.length, p.kept, p.reduced, shared=p.shared * inside.dtype.itemsize)


def _reduction(r: Reduction, result: Callable[[np.dtype[Any]], np.dtype[Any]]) -> Callable[..., DeviceArray]:
    def kernel(k: Any, x: DeviceArray, axis: Any, keepdims: bool) -> DeviceArray:
        return reduced(k, r, x, axis, keepdims, result(x.dtype))

    return kernel


def sum_to(k: Any, x: DeviceArray, shape: Shape) -> DeviceArray:
    if x.shape == shape:
        return x
    lead = x.ndim - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, x.shape[lead:], strict=True)):
        raise ValueError(f"sum_to: shape {shape} doesn't broadcast to {x.shape}")
    if x.size == prod(shape):
        same: DeviceArray = k.reshape(x, shape)
        return same
    ones = (lead + a for a, n in enumerate(shape) if n == 1)
    y: DeviceArray = k.reshape(reduced(k, SUM, x, (*range(lead), *ones), True, x.dtype), shape)
    return y


KERNELS: dict[str, Callable[..., Any]] = {
    "sum": _reduction(SUM, of_sums),
    "prod": _reduction(PRODUCT, of_sums),
    "max": _reduction(_MAX, lambda dtype: dtype),
    "min": _reduction(_MIN, lambda dtype: dtype),
    "any": _reduction(_ANY, lambda _: _BOOL),
    "all": _reduction(_ALL, lambda _: _BOOL),
    "argmax": _reduction(_ARGMAX, lambda _: _INT64),
    "argmin": _reduction(_ARGMIN, lambda _: _INT64),
    "sum_to": sum_to,
    "sum_of_squares": lambda k, x: reduced(k, _SQUARES, x, None, False, _FLOAT64),
}
