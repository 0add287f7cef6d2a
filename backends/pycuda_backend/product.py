"""One product of stacks of matrices, y[s] = activation(a[s] @ b[s] + z[s] + bias), by the kernels of matmul.cu and matmul_tiles.cu.

`describe` says in numbers what is to be multiplied.  `_planned` says how: by a thread or a warp for each element or a block for each tile,
and in how many slices of the sum.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Shape
from .array import DeviceArray, empty
from .driver import device
from .launch import THREADS, Kernel, blocks_for, c_type, kernel, threads_for
from .layout import MAX_AXES, broadcast, merged
from .transfer import dense


class Product(NamedTuple):
    """Extents, and strides in elements: what a product of stacks of matrices is to every kernel and library."""

    shape: Shape  # of the result
    stack: Shape
    rows: int
    columns: int
    inner: int
    a_stack: Shape
    b_stack: Shape
    a_row: int
    a_inner: int
    b_inner: int
    b_column: int


@lru_cache(4096)
def describe(a: Shape, a_strides: Shape, b: Shape, b_strides: Shape, itemsize: int) -> Product:
    """a (..., n, k) @ b (..., k, m), their strides in bytes.  Axes of the stack are taken together where they can be, also with the rows
    of a where b stays the same.  Raises ValueError if the shapes don't fit."""
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise ValueError
    stack = broadcast([a[:-2], b[:-2]])
    *a_steps, a_row, a_inner = (s // itemsize for s in a_strides)
    *b_steps, b_inner, b_column = (s // itemsize for s in b_strides)
    steps = [[*_spread(a[:-2], a_steps, stack), a_row], [*_spread(b[:-2], b_steps, stack), 0]]
    extents, (a_steps, b_steps) = merged([*stack, a[-2]], steps)
    rows = 1
    if extents and b_steps[-1] == 0:
        rows, a_row, _ = extents.pop(), a_steps.pop(), b_steps.pop()
    shape = (*stack, a[-2], b[-1])
    return Product(shape, tuple(extents), rows, b[-1], a[-1], tuple(a_steps), tuple(b_steps), a_row, a_inner, b_inner, b_column)


def _spread(shape: Shape, steps: Sequence[int], stack: Shape) -> list[int]:
    """An operand's strides along the axes of the stack: 0 where it is broadcast."""
    return [0] * (len(stack) - len(shape)) + [0 if n == 1 else s for n, s in zip(shape, steps, strict=True)]


class Plan(NamedTuple):
    """How a product is made: the function, its launch, and struct Problem of matmul.cuh."""

    function: str
    blocks: int
    threads: int
    slices: int
    fields: bytes


_TILES = {"large": (128, 128, 256), "medium": (64, 64, 128), "small": (32, 32, 64)}  # rows, columns and threads, as in matmul_tiles.cu
_SMALL = 1 << 15  # multiplications in one matrix, for which no tile pays
_THIN = 4  # rows or columns that would leave most of a tile empty
_PACK = 4  # elements that tiles load at once
_SLICE = 256  # terms of a sum that are worth a slice
_WARP = 32


@lru_cache(4096)
def _planned(p: Product, a_aligned: bool, b_aligned: bool, processors: int) -> Plan:
    count = prod(p.stack) * p.rows * p.columns
    function = _function(p, processors)
    if function in _TILES:
        rows, columns, threads = _TILES[function]
        blocks = _blocks(p, rows, columns)
        slices, length = _sliced(p.inner, 2 * processors // blocks)
        blocks *= slices
    else:
        each = _WARP if function == "warps" else 1
        slices, length = _sliced(p.inner, processors * 1024 // (count * each))
        threads, blocks = threads_for(count * slices * each), blocks_for(count * slices * each)
    packed = (_packed(p.a_row, p.a_inner, p.a_stack, a_aligned), _packed(p.b_column, p.b_inner, p.b_stack, b_aligned))
    rest = (0,) * (MAX_AXES - len(p.stack))
    numbers = (prod(p.stack), p.rows, p.columns, p.inner, p.a_row, p.a_inner, p.b_inner, p.b_column, slices, length, *packed)
    layout = (len(p.stack), *p.stack, *rest, *p.a_stack, *rest, *p.b_stack, *rest)
    return Plan(function, min(blocks, 2**31 - 1), threads, slices, struct.pack(f"{len(numbers) + len(layout)}q", *numbers, *layout))


def _function(p: Product, processors: int) -> str:
    """What makes this product: the largest tiles that fill the device, if by slices; for what is small or thin, threads, or warps if
    the terms of the larger operand lie side by side."""
    if p.rows * p.columns * p.inner <= _SMALL or min(p.rows, p.columns) <= _THIN:
        step = p.a_inner if p.rows >= p.columns else p.b_inner
        return "warps" if step == 1 and p.inner >= 4 * _WARP else "threads"
    for name, (rows, columns, _) in _TILES.items():
        fits = p.rows > rows // 2 and p.columns > columns // 2
        if fits and _blocks(p, rows, columns) * max(1, p.inner // _SLICE) >= processors * 3 // 4:
            return name
    return "small"


def _blocks(p: Product, rows: int, columns: int) -> int:
    return prod(p.stack) * -(-p.rows // rows) * -(-p.columns // columns)


def _sliced(inner: int, most: int) -> tuple[int, int]:
    """Into how many slices a sum is cut, and their length."""
    length = -(-inner // max(1, min(most, inner // _SLICE)) // _WARP) * _WARP if inner else _WARP
    return max(1, -(-inner // length)), length


def _packed(line: int, inner: int, stack: Shape, aligned: bool) -> bool:
    """Whether a tile's loads may take several neighbours at once."""
    other = line if inner == 1 else inner
    return aligned and 1 in (line, inner) and not any(s % _PACK for s in (other, *stack))


def multiply(
    p: Product, a: DeviceArray, b: DeviceArray, bias: DeviceArray | None = None, z: DeviceArray | None = None, activation: str = "identity"
) -> DeviceArray:
    """The product that p describes, of arrays of one dtype; bias is one value a column, z has the result's shape."""
    y = empty(p.shape, a.dtype)
    if not y.size:
        return y
    plan = _planned(p, _aligned(a), _aligned(b), device().processors)
    parts = empty((plan.slices * y.size,), _sum_type(a.dtype)) if plan.slices > 1 else 0
    added = [0 if x is None else dense(x) for x in (z, bias)]
    function = _compiled(plan.function, ["P"] * 6 + [f"{len(plan.fields)}s"], a.dtype, activation)
    function(plan.blocks, plan.threads, y, parts, *added, a, b, plan.fields)
    if plan.slices > 1:
        finish = _compiled("finish", "PPPPqqq", a.dtype, activation)
        finish(blocks_for(y.size), THREADS, y, parts, *added, y.size, p.columns, plan.slices)
    return y


def _compiled(name: str, types: str | Sequence[str], dtype: np.dtype[Any], activation: str) -> Kernel:
    """It is the same in every mode, pedantic too: products have no other form whose bits they should have."""
    unit = "matmul_tiles" if name in _TILES else "matmul"
    return kernel(unit, name, types, TYPE=c_type(dtype), ACTIVATION=activation)


def _aligned(x: DeviceArray) -> bool:
    return x.address % (_PACK * x.dtype.itemsize) == 0


def _sum_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Sum of products.cuh."""
    if dtype.kind in "fV":
        return np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
    return np.dtype(np.uint64 if dtype.itemsize == 8 or dtype.kind == "b" else np.uint32)
