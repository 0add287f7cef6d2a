"""How convolution sees its arrays: blocks of images, every window as a view, positions in parts that fit the cache.

Here arrays are (blocks, channels, *spatial, batch).  A plain (N, C, *spatial) array is N blocks of batch 1, a view.
With enough images it is one block of batch N instead, "batch last": im2col then copies runs of N elements and more, and so do
pooling and whatever follows, for a result keeps that order of memory behind its (N, K, *spatial) shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..kernels import Array, Geometry, Shape

Box = tuple[slice, ...]

_RUN = 16  # images from which runs along the batch beat runs along a line of the picture
_CACHE = 1 << 20  # bytes of columns that stay in a level-2 cache
_WORKSPACE = 1 << 25  # bytes of columns at most, if one position of the window fits
_COLUMNS = 512  # a product of fewer spends its time on repacking the weights


def is_batch_last(x: Array, g: Geometry) -> bool:
    """Whether to work in that layout: x has it, or there are images enough to repay a transposed copy."""
    if len(x) < 2 or x.strides[0] == x.itemsize:
        return len(x) > 1
    return prod(g.window) > 1 and len(x) >= min(_RUN, x.shape[-1])


def blocked_shape(shape: Shape, last: bool) -> Shape:
    return (1, *shape[1:], shape[0]) if last else (*shape, 1)


def blocked(x: Array, last: bool) -> Array:
    return np.ascontiguousarray(_batch_to_end(x))[None] if last else x[..., None]


def unblocked(x: Array, last: bool) -> Array:
    return x[0].transpose(-1, *range(x.ndim - 2)) if last else x[..., 0]


def padded_shape(x_shape: Shape, g: Geometry) -> Shape:
    return (*x_shape[:2], *(n + before + after for n, (before, after) in zip(x_shape[2:], g.padding, strict=True)))


def interior(x_shape: Shape, g: Geometry) -> Box:
    """Where blocks of x lie in padded blocks."""
    everything = slice(None)
    return (everything, everything, *(slice(before, before + n) for n, (before, _) in zip(x_shape[2:], g.padding, strict=True)), everything)


def padded(x: Array, g: Geometry, last: bool) -> Array:
    """x as blocks with zeros around."""
    if not any(map(any, g.padding)):
        return blocked(x, last)
    y = np.zeros(blocked_shape(padded_shape(x.shape, g), last), x.dtype)
    y[interior(x.shape, g)] = _batch_to_end(x) if last else x[..., None]
    return y


def _batch_to_end(x: Array) -> Array:
    return x.transpose(*range(1, x.ndim), 0)


def windows(x: Array, g: Geometry, out: Shape) -> Array:
    """The view (blocks, C, *window, *out, batch) of padded blocks: every window's elements, none copied."""
    across = [s * d for s, d in zip(x.strides[2:-1], g.dilation, strict=True)]
    along = [s * d for s, d in zip(x.strides[2:-1], g.stride, strict=True)]
    return as_strided(x, (*x.shape[:2], *g.window, *out, x.shape[-1]), (*x.strides[:2], *across, *along, x.strides[-1]))


def parts(block: Array, g: Geometry) -> Iterator[tuple[Box, slice]]:
    """The positions of one block of windows in parts that keep their columns in cache: a box, and a slice of positions * batch."""
    d = len(g.window)
    out, batch = block.shape[1 + d : -1], block.shape[-1]
    column = block.itemsize * prod(block.shape[: 1 + d])
    columns = min(max(_CACHE // column, _COLUMNS), _WORKSPACE // column)
    for box, first, stop in boxes(out, columns // batch):
        yield box, slice(first * batch, stop * batch)


def boxes(out: Shape, size: int) -> Iterator[tuple[Box, int, int]]:
    """`out` in row-major runs of at most `size` positions (at least one), each a box: (its slices, first position, last + 1)."""
    row = prod(out[1:])
    if row > size and len(out) > 1:
        for i in range(out[0]):
            for box, first, stop in boxes(out[1:], size):
                yield (slice(i, i + 1), *box), i * row + first, i * row + stop
    else:
        step = max(1, size // row)
        for i in range(0, out[0], step):
            stop = min(i + step, out[0])
            yield (slice(i, stop), *(slice(None),) * (len(out) - 1)), i * row, stop * row


def im2col(block: Array, g: Geometry) -> Iterator[tuple[Array, slice]]:
    """The columns (group, C/group * window, positions * batch) of one block of windows, part by part, and what each part covers.

    All parts share one workspace: the next one overwrites it.
    """
    rows = prod(block.shape[: 1 + len(g.window)]) // g.group
    if prod(g.window) == 1:
        yield block.reshape(g.group, rows, -1), slice(None)
        return
    workspace = None
    for box, part in parts(block, g):
        taken = block[(slice(None),) * (1 + len(g.window)) + box]
        workspace = np.empty(taken.size, taken.dtype) if workspace is None else workspace  # the first part is the largest
        columns = workspace[: taken.size].reshape(taken.shape)
        np.copyto(columns, taken)
        yield columns.reshape(g.group, rows, -1), part
