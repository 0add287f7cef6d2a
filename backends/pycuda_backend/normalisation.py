"""batchnorm and layernorm and their cotangents: sums over each channel or row, then all elements by what came of them.

Arrays are dense, batchnorm's in any order of memory whose channels lie together (channels first or last, without a copy); the arithmetic of
float16 and bfloat16 is float32's, and so are the sums of squares, which are taken about a mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Shape
from .array import DeviceArray, empty
from .driver import device
from .launch import blocks_for, c_type, threads_for
from .planes import Planes, blocks, planes, power_of_two
from .transfer import copied, dense, filled

_ROW_THREADS = 512  # of a block, at most
_HELD = 4  # packs of a row that a thread keeps in registers
_THREADS = 256  # of a block that shares a channel with others
_AT_ONCE = 8  # elements that a thread has at least, or it would be one too many
_BLOCKS = 8  # a processor, which keep it busy
Triple = tuple[DeviceArray, DeviceArray, DeviceArray]


# -- of each channel of x (N, C, *spatial)
def batchnorm(k: Any, x: DeviceArray, scale: DeviceArray | None, bias: DeviceArray | None, eps: float) -> Triple:
    channels = length(x, 1, "batchnorm", scale=scale, bias=bias)
    x, scale, bias = computed(k, x, scale, bias)
    p = planes(_aligned(x), (1,))
    y, wide = p.like(x.dtype), wide_type(x.dtype)
    mean, var, numbers = empty((channels,), wide), empty((channels,), wide), empty((3, channels), wide)
    if channels:
        kernel, n = _kernels(k, x), x.size // channels
        parts, grid, block, name = _shares(p, 3)
        kernel("batchnorm", f"moments_{name}", "PPqqq")(grid, block, parts, p.x, channels, p.inner, n)
        args = (numbers, mean, var, parts, scale, bias, len(parts), channels, n, eps)
        kernel("batchnorm", "forward", "PPPPPPiqqd")(*_columns(channels, len(parts)), *args)
        _all_elements(kernel, "forward", (y, p.x, numbers), p)
    return y, mean, var


def batchnorm_x(k: Any, dy: DeviceArray, x: DeviceArray, mean: DeviceArray, inv: DeviceArray, scale: DeviceArray | None) -> Triple:
    channels = length(x, 1, "batchnorm_x", mean=mean, inv=inv, scale=scale)
    fits("batchnorm_x", "dy", dy, x.shape)
    x, dy, scale = computed(k, x, dy, scale, kept=2)
    wide = wide_type(x.dtype)
    mean, inv = (dense(k.astype(v, wide)) for v in (mean, inv))
    p = planes(_aligned(x), (1,))
    dy = p.alike(_aligned(dy))
    dx, dscale, dbias, numbers = p.like(x.dtype), empty((channels,), x.dtype), empty((channels,), x.dtype), empty((4, channels), wide)
    if channels:
        kernel, n = _kernels(k, x), x.size // channels
        parts, grid, block, name = _shares(p, 2)
        kernel("batchnorm", f"products_{name}", "PPPPqqq")(grid, block, parts, dy, p.x, mean, channels, p.inner, n)
        args = (numbers, dscale, dbias, parts, mean, inv, scale, len(parts), channels, n)
        kernel("batchnorm", "backward", "PPPPPPPiqq")(*_columns(channels, len(parts)), *args)
        _all_elements(kernel, "backward", (dx, p.x, dy, numbers), p)
    return dx, dscale, dbias


def _shares(p: Planes, words: int) -> tuple[DeviceArray, Any, Any, str]:
    """How blocks share the channels: memory for what each finds out, `words` numbers a channel; the grid, the block, the kernel's name."""
    count, full = p.outer * p.inner, 16 // p.x.dtype.itemsize
    if p.inner == 1:
        across = min(32, power_of_two(p.middle))
        down = max(32 // across, min(power_of_two(blocks(count, _AT_ONCE)), _THREADS // across))
        name, block, grid, share = "channels", (across, down, 1), blocks(p.middle, across), down * _AT_ONCE
    else:
        pack = 1 if p.inner % full else full
        threads = max(32, min(power_of_two(blocks(count, _AT_ONCE)), _THREADS))
        name, block, grid, share = f"planes_{'full' if pack > 1 else 1}", (threads, 1, 1), p.middle, threads * max(_AT_ONCE, 2 * pack)
    parts = max(1, min(blocks(_BLOCKS * device().processors, grid), blocks(count, share)))
    return empty((parts, p.middle, words), wide_type(p.x.dtype)), (grid, parts, 1), block, name


def _all_elements(kernel: Any, direction: str, arrays: tuple[DeviceArray, ...], p: Planes) -> None:
    """Each element by the numbers of its channel."""
    size, full = p.x.size, 16 // p.x.dtype.itemsize
    if size:
        whose = "one" if p.inner % full == 0 else "each" if p.inner == 1 and p.middle % full == 0 else "any"
        packs = blocks(size, full)
        fn = kernel("channels", f"{direction}_{whose}", "P" * len(arrays) + "qqq")
        fn(blocks_for(packs), threads_for(packs), *arrays, size, p.middle, p.inner)


# -- of each row of x (..., C)
def layernorm(k: Any, x: DeviceArray, scale: DeviceArray | None, bias: DeviceArray | None, eps: float) -> Triple:
    width = length(x, -1, "layernorm", scale=scale, bias=bias)
    x, scale, bias = computed(k, x, scale, bias)
    x, lead, wide = dense(x), x.shape[:-1], wide_type(x.dtype)
    y, mean, var = empty(x.shape, x.dtype), empty(lead, wide), empty(lead, wide)
    if mean.size:
        name, grid, block, size = _teams(mean.size, width, [v for v in (x, scale, bias) if isinstance(v, DeviceArray)])
        fn = _kernels(k, x)("layernorm", f"forward_{name}", "PPPPPPqqid")
        fn(grid, block, y, mean, var, x, scale, bias, mean.size, width, size, eps)
    return y, mean, var


def layernorm_x(k: Any, dy: DeviceArray, x: DeviceArray, mean: DeviceArray, inv: DeviceArray, scale: DeviceArray | None) -> Triple:
    width = length(x, -1, "layernorm_x", scale=scale)
    for which, v, shape in (("dy", dy, x.shape), ("mean", mean, x.shape[:-1]), ("inv", inv, x.shape[:-1])):
        fits("layernorm_x", which, v, shape)
    x, dy, scale = computed(k, x, dy, scale, kept=2)
    x, dy, mean, inv = dense(x), dense(dy), *(dense(k.astype(v, wide_type(x.dtype))) for v in (mean, inv))
    if not x.size:
        return empty(x.shape, x.dtype), filled((width,), 0, x.dtype), filled((width,), 0, x.dtype)
    dx, dscale, dbias = empty(x.shape, x.dtype), empty((width,), x.dtype), empty((width,), x.dtype)
    kernel, rows = _kernels(k, x), mean.size
    name, grid, block, size = _teams(rows, width, [v for v in (x, dy, scale) if isinstance(v, DeviceArray)])
    kernel("layernorm", f"backward_{name}", "PPPPPPqqi")(grid, block, dx, dy, x, mean, inv, scale, rows, width, size)
    _of_parameters(kernel, (dscale, dbias), (dy, x, mean, inv), rows, width)
    return dx, dscale, dbias


def _teams(rows: int, width: int, arrays: list[DeviceArray]) -> tuple[str, int, int, int]:
    """How threads share the rows: the kernel's name, the grid, the block, and how many have a row together."""
    full = 16 // arrays[0].dtype.itemsize
    pack = 1 if width % full or any(x.address % 16 for x in arrays) else full
    size = power_of_two(blocks(blocks(width, pack), _HELD))
    name, size = f"{'long_' * (size > _ROW_THREADS)}{1 if pack == 1 else 'full'}", min(size, _ROW_THREADS)
    threads = size if size > 32 else max(32, min(256, size * power_of_two(rows)))
    return name, blocks(rows, threads // size), threads, size


def _of_parameters(kernel: Any, results: tuple[DeviceArray, ...], arrays: tuple[DeviceArray, ...], rows: int, width: int) -> None:
    """The cotangents of scale and bias."""
    across = min(32, power_of_two(width))
    down = max(32 // across, min(power_of_two(blocks(rows, _AT_ONCE)), _THREADS // across))
    grid = blocks(width, across)
    shared = max(1, min(blocks(_BLOCKS * device().processors, grid), blocks(rows, down * _AT_ONCE)))
    parts = empty((shared, width, 2), arrays[2].dtype)
    kernel("layernorm", "parameters", "PPPPPPPqq")((grid, shared, 1), (across, down, 1), *results, parts, *arrays, rows, width)
    if shared > 1:
        kernel("layernorm", "totals", "PPPiq")(*_columns(width, shared), *results, parts, shared, width)


# -- what both need
def _columns(width: int, count: int) -> tuple[int, tuple[int, int, int]]:
    """The grid and the block of a kernel in which columns of threads put `count` parts of each of `width` sums together."""
    return blocks(width, 32), (32, power_of_two(min(count, 16)), 1)


def _kernels(k: Any, x: DeviceArray) -> Callable[[str, str, str], Any]:
    return lambda unit, name, types: k.kernel(unit, name, types, TYPE=c_type(x.dtype))


def computed(k: Any, *arrays: DeviceArray | None, kept: int = 3) -> Any:
    """All of these in the dtype of the result, which the first `kept` of them decide, vectors without gaps; 0, no address, for None."""
    dtype = np.result_type(*(v.dtype for v in arrays[:kept] if v is not None))
    dtype = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    return tuple(0 if v is None else dense(k.astype(v, dtype)) if v.ndim == 1 else k.astype(v, dtype) for v in arrays)


def wide_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What sums are taken in."""
    return np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)


def _aligned(x: DeviceArray) -> DeviceArray:
    """x such that a kernel can load 16 bytes of it at once."""
    return copied(x) if x.address % 16 else x


def length(x: DeviceArray, axis: int, name: str, **vectors: DeviceArray | None) -> int:
    """The length of the axis that is normalised, which all of these vectors have.  Raises ValueError."""
    least = 2 if axis == 1 else 1
    if x.ndim < least:
        raise ValueError(f"{name}: x has shape {x.shape}, and {'(N, C, *spatial)' if least == 2 else '(..., C)'} is needed")
    n = x.shape[axis]
    for which, v in vectors.items():
        if v is not None:
            fits(name, which, v, (n,))
    return n


def fits(name: str, which: str, v: DeviceArray, shape: Shape) -> None:
    if v.shape != shape:
        raise ValueError(f"{name}: {which} has shape {v.shape} where {shape} is needed")


KERNELS: dict[str, Callable[..., Any]] = {
    "batchnorm": batchnorm,
    "batchnorm_x": batchnorm_x,
    "layernorm": layernorm,
    "layernorm_x": layernorm_x,
}
