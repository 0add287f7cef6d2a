"""How a reduction goes over its array: which axes are one, who shares what, and in how many parts.

Pure arithmetic on shapes and strides; what came out of it is remembered.  kernels/reduce.cu says what the words mean.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf, prod
from typing import Any, NamedTuple

from numpy.lib.array_utils import normalize_axis_tuple

from ..kernels import Shape
from .layout import MAX_AXES, merged

INDEX_TYPES = {"i": "int", "q": "long long"}
_LARGEST_INT = 2**30  # of an offset; a loop's last step goes beyond what there is
_THREADS = 256  # of a block
_BLOCKS_A_PROCESSOR = 4  # which run at once and have enough loads under way
_SHARE = 8  # loads that are worth a thread, where elements are shared among more blocks than there are results
_CHAIN = 1024  # loads that one thread adds up at most: rounding errors grow with their number
_MOST_PARTS = 65535  # a limit of the grid's


class Plan(NamedTuple):
    """A launch of reduce.cu's `function`, its grid (blocks, parts) and block, and a result with its axes in memory in this order
    (None: row-major).  Several parts make as many partial results: along one more axis behind all results (rows) or in front of them.
    """

    function: str
    letter: str  # of the integers in kept and reduced, which are struct Axes of reduce.cu
    grid: tuple[int, int]
    block: tuple[int, int]
    shared: int  # how many values the block shares
    outs: int
    length: int
    kept: bytes
    reduced: bytes
    shape: Shape
    order: Shape | None


def axes_of(axis: Any, ndim: int) -> Shape:
    """The axes that an argument means.  Raises ValueError (AxisError) for one that there isn't, and for one given twice."""
    if axis is None:
        return tuple(range(ndim))
    if not ndim and axis in (0, -1):  # as NumPy has it
        return ()
    axes: Shape = normalize_axis_tuple(axis, ndim, "axis")
    return axes


@lru_cache(4096)
def plan(
    shape: Shape, strides: Shape, itemsize: int, axis: Any, keepdims: bool, packed: int, ordered: bool, processors: int
) -> Plan | None:  # fmt: skip
    """A reduction's plan; None if it has too many axes for one launch.

    packed: how many elements a load may bring; 1 where the address doesn't allow for more.
    ordered: whether elements count in row-major order, not in that of memory.
    """
    axes = axes_of(axis, len(shape))
    steps = element_steps(shape, strides, itemsize)
    kept = by_memory((a for a in range(len(shape)) if a not in axes), steps)
    reduced = sorted(axes) if ordered else by_memory(sorted(axes), steps)
    outer, inner = (_merged(part, shape, steps) for part in (kept, reduced))
    if max(len(outer[0]), len(inner[0])) > MAX_AXES:
        return None
    rows = _nearest(inner) <= _nearest(outer)
    width = packed if _fits(packed, *((inner, outer) if rows else (outer, inner))) else 1
    letter = index_letter([*outer[0], *inner[0]], [outer[1] + inner[1]])
    if width > 1:
        outer, inner = _in_packs(outer, width, not rows), _in_packs(inner, width, rows)
    outs, length = prod(outer[0]), prod(inner[0])
    blocks, block, parts = (_rows if rows else _columns)(outs, length, processors)
    return Plan(
        ("rows" if rows else "columns") + ("_packed" if width > 1 else ""),
        letter,
        (blocks, parts),
        block,
        0 if rows else block[1] // 2 * block[0] * width,
        outs,
        length,
        fields(letter, outer[0], [outer[1]]),
        fields(letter, inner[0], [inner[1]]),
        tuple(1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes),
        _result_order(kept, axes if keepdims else ()),
    )


# -- axes
_Axes = tuple[list[int], list[int]]  # extents and steps, slowest axis first


def element_steps(shape: Shape, strides: Shape, itemsize: int) -> list[int]:
    """Strides in elements, 0 along axes of length 1."""
    return [0 if n == 1 else s // itemsize for n, s in zip(shape, strides, strict=True)]


def by_memory(axes: Iterable[int], steps: Sequence[int]) -> list[int]:
    """Axes from the slowest in memory to the fastest; those along which nothing moves come first."""
    return sorted(axes, key=lambda a: -abs(steps[a]) if steps[a] else -inf)


def _merged(axes: Sequence[int], shape: Shape, steps: Sequence[int]) -> _Axes:
    extents, (merged_steps,) = merged([shape[a] for a in axes], [[steps[a] for a in axes]])
    return extents, merged_steps


def _nearest(axes: _Axes) -> float:
    """How far apart neighbours along the fastest axis are."""
    return abs(axes[1][-1]) or inf if axes[0] else inf


def _fits(width: int, along: _Axes, beside: _Axes) -> bool:
    """Whether both walks can go in packs of `width` neighbours, which lie along the first's last axis."""
    (*_, extent), (*slower, step) = along if along[0] else ([1], [0])
    return step == 1 and extent % width == 0 and all(s % width == 0 for s in (*slower, *beside[1]))


def _in_packs(axes: _Axes, width: int, along: bool) -> _Axes:
    """The walk with packs for elements; they lie along its last axis, or beside it."""
    extents, steps = axes[0], [s // width for s in axes[1]]
    return ([*extents[:-1], extents[-1] // width], [*steps[:-1], 1]) if along else (extents, steps)


def _result_order(kept: Sequence[int], more: Shape) -> Shape | None:
    """The axes of a result from slowest to fastest in memory; `more` are those of length 1 that it has, too."""
    everything = sorted((*kept, *more))
    return None if list(kept) == sorted(kept) else (*map(everything.index, more), *map(everything.index, kept))


def index_letter(extents: Sequence[int], steps: Sequence[Sequence[int]]) -> str:
    """The type of indices and offsets: "i", where 32 bits hold all of them, else "q"."""
    reach = [sum(abs(s) * (n - 1) for s, n in zip(walk, extents, strict=True)) for walk in steps]
    return "i" if max(prod(extents), *reach) < _LARGEST_INT else "q"


def fields(letter: str, extents: Sequence[int], steps: Sequence[Sequence[int]]) -> bytes:
    """struct Layout of elementwise.cuh: these extents, and steps for each array."""
    rest = [0] * (MAX_AXES - len(extents))
    numbers = [len(extents), *extents, *rest, *(s for walk in steps for s in (*walk, *rest))]
    return struct.pack(f"{len(numbers)}{letter}", *numbers)


# -- grids
def _rows(outs: int, length: int, processors: int) -> tuple[int, tuple[int, int], int]:
    """Blocks, their shape and the parts, for results whose elements are neighbours: a thread, some of a warp, or a block for each."""
    whole_block = length >= (_THREADS if outs < processors * _BLOCKS_A_PROCESSOR else 4 * _THREADS)
    threads = _THREADS if whole_block else min(32, power_of_two(-(-length // 4)))
    together = max(32 // threads, min(_THREADS // threads, power_of_two(outs)), 1)
    blocks = -(-outs // together)
    return blocks, (threads, together), _parts(blocks, length, threads, processors) if whole_block else 1


def _columns(outs: int, length: int, processors: int) -> tuple[int, tuple[int, int], int]:
    """The same for results that are neighbours: 32 of them side by side, and whatever threads are left go to the elements."""
    wanted = power_of_two(-(-length // 4))
    together = min(power_of_two(outs), _THREADS // min(wanted, 8))
    threads = min(wanted, _THREADS // together)
    blocks = -(-outs // together)
    return blocks, (together, threads), _parts(blocks, length, threads, processors)


def _parts(blocks: int, length: int, threads: int, processors: int) -> int:
    """Into how many parts elements are divided, so that the device is busy and no chain is long."""
    busy = min(-(-processors * _BLOCKS_A_PROCESSOR // max(blocks, 1)), length // (threads * _SHARE))
    return max(1, min(max(busy, length // (threads * _CHAIN)), _MOST_PARTS))


def power_of_two(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()
