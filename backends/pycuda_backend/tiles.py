"""Transposed copies: where two arrays run through memory along different axes, tiles of both go through shared memory, so that reading and
writing are of neighbours."""

from __future__ import annotations

import struct
from functools import lru_cache
from math import prod
from typing import NamedTuple

from .array import DeviceArray
from .driver import device
from .launch import kernel
from .layout import MAX_AXES, Form, merged

_LEAST = 32  # elements along both axes, below which a tile would be mostly empty
_BLOCK = (32, 8, 1)
_BLOCKS_A_PROCESSOR = 8
_TYPES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


class _Planes(NamedTuple):
    """A stack of planes: y's elements are neighbours along `rows`, x's along `columns`, with the other array's step there."""

    rows: int
    columns: int
    y_step: int  # along columns
    x_step: int  # along rows
    planes: int
    layout: bytes  # struct Layout<int64, 2> of transpose.cu: where in y and x each plane begins


def copy_transposed(y: DeviceArray, x: DeviceArray) -> bool:
    """Write x to y, if they are alike but for the order of axes in memory, and say whether that was done."""
    if (x.dense and y.dense) or x.value is not None or x.dtype != y.dtype or x.shape != y.shape or not x.size:
        return False
    if (p := _planes((y.shape, y.strides, y.itemsize), (x.shape, x.strides, x.itemsize))) is None:
        return False
    tile = 32 if x.itemsize == 8 else 64
    tiles = p.planes * -(-p.rows // tile) * -(-p.columns // tile)
    transpose = kernel("transpose", "transpose", f"qPPqqqq{len(p.layout)}s", TYPE=_TYPES[x.itemsize])
    blocks = min(tiles, device().processors * _BLOCKS_A_PROCESSOR)
    transpose(blocks, _BLOCK, tiles, y, x, p.rows, p.columns, p.y_step, p.x_step, p.layout)
    return True


@lru_cache(4096)
def _planes(y: Form, x: Form) -> _Planes | None:
    """How x is copied to y in planes; None where they run along the same axis, or planes would be narrow."""
    shape, y_strides, size = y
    order = sorted(range(len(shape)), key=lambda a: -abs(y_strides[a]))
    steps = [[s[a] // size for a in order] for s in (y_strides, x[1])]
    extents, (ys, xs) = merged([shape[a] for a in order], steps)
    if 1 not in ys or 1 not in xs or len(extents) > MAX_AXES:
        return None
    rows, columns = ys.index(1), xs.index(1)
    if rows == columns or min(extents[rows], extents[columns]) < _LEAST:
        return None
    others = [a for a in range(len(extents)) if a not in (rows, columns)]
    lists = [[s[a] for a in others] for s in (extents, ys, xs)]
    numbers = [len(others), *(n for s in lists for n in (*s, *[0] * (MAX_AXES - len(others))))]
    layout = struct.pack(f"{len(numbers)}q", *numbers)
    return _Planes(extents[rows], extents[columns], ys[columns], xs[rows], prod(lists[0]), layout)
