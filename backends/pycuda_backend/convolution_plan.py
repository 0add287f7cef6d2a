"""Which kernel runs a convolution, how the work is shared among blocks, and what they are told: arithmetic on shapes, remembered."""

from __future__ import annotations

import struct
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

from ..kernels import Geometry
from .driver import device
from .launch import blocks_for, threads_for
from .layout import Form

_SLICE, _TAPS = 8, 9  # terms of a tile's slice, taps of a direct block: DEPTH and TAPS in the sources
_FEWEST, _SMALL = 4, 1 << 16  # rows of a group, and products altogether, from which tiles are worth while
_SHORTEST, _LONGEST = 256, 1 << 15  # terms that one block adds up: fewer aren't worth a pass of their own, more would lose digits


class Sum(NamedTuple):
    """A pass: `source` is looked up at taps of `window` (shaped like w) and positions of `place` (shaped like x or y)."""

    geometry: Geometry
    source: Form
    window: Form
    place: Form
    over_positions: bool  # the result is `window`; else it's `place`
    transposed: bool  # `place` is x, `source` is y

    @property
    def result_size(self) -> int:
        return prod((self.window if self.over_positions else self.place)[0])

    @property
    def channels_and_rows(self) -> tuple[int, int]:
        """Of a group: the source's channels, and the other ones."""
        (k, c, *_), _, _ = self.window
        return (k // self.geometry.group, c) if self.transposed else (c, k // self.geometry.group)

    @property
    def taps_and_positions(self) -> tuple[int, int]:
        """How many there are, at most, for one row: of conv_x, for one remainder of dx's places by the stride."""
        g, (images, _, *places) = self.geometry, self.place[0]
        steps = g.stride if self.transposed else (1,) * len(places)
        gaps = [s // gcd(s, d) for s, d in zip(steps, g.dilation, strict=True)]
        taps = self.channels_and_rows[0] * prod(-(-n // gap) for n, gap in zip(g.window, gaps, strict=True))
        return taps, images * prod(-(-n // s) for n, s in zip(places, steps, strict=True))

    @property
    def phases(self) -> int:
        return prod(self.geometry.stride) if self.transposed else 1


class Shares(NamedTuple):
    """`splits` blocks have `chunk` terms of a sum each, and a group's rows and columns go into tiles."""

    splits: int = 1
    chunk: int = 0
    row_tiles: int = 0
    column_tiles: int = 0


class Plan(NamedTuple):
    """A launch: the unit and its macros, the grid, and struct Problem of conv.cuh."""

    unit: str
    defines: dict[str, str]
    blocks: int
    threads: int
    splits: int
    fields: bytes


@lru_cache(4096)
def plan(s: Sum) -> Plan:
    is_small = not s.over_positions and s.result_size * s.taps_and_positions[0] < _SMALL
    return _direct(s) if s.channels_and_rows[1] < _FEWEST or is_small else _tiled(s)


def _tiled(s: Sum) -> Plan:
    rows, (taps, positions) = s.channels_and_rows[1], s.taps_and_positions
    width, depth = (taps, positions) if s.over_positions else (positions, taps)
    tile = _tile(s, rows, width, depth)
    tiles = -(-rows // tile), -(-width // tile)
    blocks = prod(tiles) * s.phases * s.geometry.group
    return _plan("conv", s, Shares(*_shares(blocks, depth), *tiles), blocks, 256 if tile == 128 else 64, TILE=str(tile))


def _direct(s: Sum) -> Plan:
    """A thread for each element of y or dx; a block for up to nine elements of dw."""
    if not s.over_positions:
        return _plan("conv_direct", s, Shares(), blocks_for(s.result_size), threads_for(s.result_size))
    blocks = s.geometry.group * prod(s.channels_and_rows) * -(-prod(s.geometry.window) // _TAPS)
    shares = Shares(*_shares(blocks, s.taps_and_positions[1]))
    return _plan("conv_direct", s, shares, blocks, threads_for(shares.chunk))


def _plan(unit: str, s: Sum, shares: Shares, blocks: int, threads: int, **defines: str) -> Plan:
    letter = _letter(s)
    defines["INDEX"] = {"i": "int", "q": "long long"}[letter]
    return Plan(unit, defines, blocks * shares.splits, threads, shares.splits, _fields(s, shares, letter))


def _tile(s: Sum, rows: int, width: int, depth: int) -> int:
    """The largest tile that is filled by more than half and leaves no processor without one."""
    for tile in (128, 64):
        blocks = -(-rows // tile) * -(-width // tile) * s.phases * s.geometry.group * max(1, depth // _SHORTEST)
        if min(rows, width) > tile // 2 and blocks >= device().processors and (tile == 64 or s.source[2] < 8):
            return tile
    return 32


def _shares(blocks: int, depth: int) -> tuple[int, int]:
    """How many blocks share the terms of a sum, so that the device is busy, and how many terms each of them has: whole slices."""
    splits = max(1, -(-depth // _LONGEST), min(2 * device().processors // blocks, depth // _SHORTEST))
    chunk = -(-depth // (splits * _SLICE)) * _SLICE
    return -(-depth // chunk), chunk


def _letter(s: Sum) -> str:
    """Of the integers in struct Problem: "i" where 32 bits hold every offset, with room for what lies in the padding."""
    reach = max(sum(abs(t) * n for n, t in zip(x[0], x[1], strict=True)) // x[2] for x in (s.source, s.window, s.place))
    return "i" if max(reach, s.result_size) < 2**30 else "q"


def _fields(s: Sum, shares: Shares, letter: str) -> bytes:
    g, (channels, rows) = s.geometry, s.channels_and_rows
    before = [p[0] for p in g.padding]
    lines = zip(g.window, before, g.stride, g.dilation, s.source[0][2:], s.place[0][2:], strict=True)
    missing = 3 - len(g.window)
    numbers = [
        int(s.transposed), *(1, 0, 1, 1, 1, 1) * missing, *(n for line in lines for n in line),
        s.source[0][0], channels, rows, g.group,
        *_strides_of_images(s.source, channels, missing), *_strides_of_windows(s, missing), *_strides_of_images(s.place, rows, missing),
        s.result_size, *shares,
    ]  # fmt: skip
    return struct.pack(f"{len(numbers)}{letter}", *numbers)


def _strides_of_images(x: Form, channels: int, missing: int) -> list[int]:
    image, channel, *along = (n // x[2] for n in x[1])
    return [0, channels * channel, channel, image, *[0] * missing, *along]


def _strides_of_windows(s: Sum, missing: int) -> list[int]:
    """Of w; a reversed window starts at its end."""
    g, ((k, *_), strides, itemsize) = s.geometry, s.window
    row, outer, *along = (n // itemsize for n in strides)
    group, start = k // g.group * row, 0
    if g.flip:
        start = sum((n - 1) * t for n, t in zip(g.window, along, strict=True))
        along = [-t for t in along]
    return [start, group, *((outer, row) if s.transposed else (row, outer)), *[0] * missing, *along]
