"""softmax, logsoftmax and logsumexp, over any axes: kernels/softmax.cu, and softmax_long.cu for what doesn't fit there.

The arithmetic of float16 and bfloat16 is float32's; integers count as float64.  A row that is -inf throughout has logsumexp -inf, and its
softmax and logsoftmax are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .array import DeviceArray, empty
from .driver import device
from .launch import c_type
from .planes import Planes, axes_of, blocks, planes, power_of_two, without

_SOFTMAX, _LOGSOFTMAX, _LOGSUMEXP = range(3)
_ROW_THREADS = _COLUMN_THREADS = 512  # of a block, at most
_HELD_IN_ROW, _HELD_IN_COLUMN = 4, 8  # what a thread keeps in registers: packs, elements


def softmax(k: Any, x: DeviceArray, axis: Any) -> DeviceArray:
    return _mapped(k, x, axis, _SOFTMAX, "softmax")


def logsoftmax(k: Any, x: DeviceArray, axis: Any) -> DeviceArray:
    return _mapped(k, x, axis, _LOGSOFTMAX, "logsoftmax")


def logsumexp(k: Any, x: DeviceArray, axis: Any, keepdims: bool) -> DeviceArray:
    axes = axes_of(x, axis, "logsumexp")
    p = planes(_floats(k, x), axes)
    y = p.like(p.x.dtype, axes)
    _run(k, y, p, _LOGSUMEXP)
    return y if keepdims else without(y, axes)


def _mapped(k: Any, x: DeviceArray, axis: Any, mode: int, name: str) -> DeviceArray:
    p = planes(_floats(k, x), axes_of(x, axis, name))
    y = p.like(p.x.dtype)
    _run(k, y, p, mode)
    return y


def _floats(k: Any, x: DeviceArray) -> Any:
    return k.astype(x, np.float64) if x.dtype.kind in "biu" else x


def _run(k: Any, y: DeviceArray, p: Planes, mode: int) -> None:
    """Launch what suits the form of p.x; y lies as it does."""
    if y.size:
        (_rows if p.inner == 1 else _columns)(k, y, p, mode)


def _rows(k: Any, y: DeviceArray, p: Planes, mode: int) -> None:
    full = 16 // p.x.dtype.itemsize
    pack = 1 if p.middle % full or p.x.address % 16 or y.address % 16 else full
    packs, kind = p.middle // pack, f"rows_{1 if pack == 1 else 'full'}"
    if (size := power_of_two(blocks(packs, _HELD_IN_ROW))) > _ROW_THREADS:
        _long(k, y, p, mode, kind, p.outer, p.outer, packs, (_ROW_THREADS, 1))
        return
    threads = size if size > 32 else max(32, min(256, size * power_of_two(p.outer)))
    fn = k.kernel("softmax", kind, "PPqiii", TYPE=c_type(p.x.dtype))
    fn(blocks(p.outer, threads // size), threads, y, p.x, p.outer, p.middle, size, mode)


def _columns(k: Any, y: DeviceArray, p: Planes, mode: int) -> None:
    columns = p.outer * p.inner
    across = min(32, power_of_two(columns))
    down = min(max(32 // across, power_of_two(blocks(p.middle, _HELD_IN_COLUMN))), _COLUMN_THREADS // across)
    grid = blocks(columns, across)
    if p.middle > down * _HELD_IN_COLUMN:
        _long(k, y, p, mode, "columns", columns, grid, p.middle, (across, down))
        return
    fn = k.kernel("softmax", "columns", "PPqiqi", TYPE=c_type(p.x.dtype))
    fn(grid, (across, down, 1), y, p.x, columns, p.middle, p.inner, mode)


def _long(k: Any, y: DeviceArray, p: Planes, mode: int, kind: str, rows: int, grid: int, packs: int, block: tuple[int, int]) -> None:
    """Rows of many packs: each is one block's of `grid`, or where these are too few to fill the device, several blocks'."""

    def launch(stage: str, types: str, parts: int, *arrays: DeviceArray, numbers: tuple[int, ...] = ()) -> None:
        fn = k.kernel("softmax_long", f"{stage}_{kind}", types, TYPE=c_type(p.x.dtype))
        fn((grid, parts, 1), (*block, 1), *arrays, rows, p.middle, p.inner, *numbers)

    team = block[1] if kind == "columns" else block[0]
    parts = min(max(1, 2 * device().processors // grid), blocks(packs, 4 * team))
    if parts == 1:
        launch("whole", "PPqqqi", 1, y, p.x, numbers=(mode,))
        return
    states = empty((parts, rows, 2), np.dtype(np.float64 if p.x.dtype.itemsize == 8 else np.float32))
    launch("states", "PPqqq", parts, states, p.x)
    launch("finish", "PPPqqqii", 1 if mode == _LOGSUMEXP else parts, y, p.x, states, numbers=(parts, mode))


KERNELS: dict[str, Callable[..., Any]] = {"softmax": softmax, "logsoftmax": logsoftmax, "logsumexp": logsumexp}
