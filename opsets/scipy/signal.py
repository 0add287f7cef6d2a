"""scipy.signal's functions of Tensors, as autotape.opsets.scipy.signal: convolve."""

from __future__ import annotations

import math

from numpy.lib.array_utils import normalize_axis_tuple

from ..array import reshape, swapaxes, transpose
from ..array.shapes import shape_of
from ..v20 import conv4

__all__ = ["convolve"]


def convolve(in1, in2, mode="full", *, axes=None, dot_axes=((), ())):
    """The sums of in1[i] * in2[k - i] over i, along all axes, one to three of them.

    mode: "full" for every k at which the arrays meet, "valid" for those at which one lies wholly in the other, "same" for as many in
    the middle as in1 has.  axes=(of in1, of in2) names the axes along which this is done, and dot_axes those that are multiplied and
    summed; the others stay: the result has those of in1, those of in2, and then the convolved ones.  Raises ValueError for shapes that
    don't fit.
    """
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"convolve: mode must be 'full', 'same' or 'valid', not {mode!r}")
    shapes = [shape_of(x) for x in (in1, in2)]
    axes = [tuple(range(len(s))) for s in shapes] if axes is None else axes
    (x, kept1), (w, kept2) = (as_images(*each) for each in zip((in1, in2), shapes, axes, dot_axes, strict=True))
    sizes, windows = x.shape[2:], w.shape[2:]
    if x.shape[1] != w.shape[1] or len(sizes) != len(windows) or not 1 <= len(sizes) <= 3 or 0 in (*sizes, *windows):
        raise ValueError(f"convolve: axes {axes} and dot_axes {dot_axes} of in1 {shapes[0]} and in2 {shapes[1]} must fit, and not be empty")
    if mode == "valid" and any(k > n for n, k in zip(sizes, windows, strict=True)):
        if any(n > k for n, k in zip(sizes, windows, strict=True)):
            raise ValueError(f"convolve: in mode 'valid' one of {sizes} and {windows} must lie wholly in the other")
        y = swapaxes(conv4(x, w), 0, 1)
    else:
        y = conv4(w, x, padding=tuple(padding(k, mode) for k in windows))
    return reshape(y, (*kept1, *kept2, *y.shape[2:]))


def as_images(x, shape, axes, dot_axes):
    """x as (the axes that stay, those that are summed, *those that are convolved), and the lengths of those that stay."""
    axes, dot_axes = normalize_axis_tuple(axes, len(shape)), normalize_axis_tuple(dot_axes, len(shape))
    stay = tuple(i for i in range(len(shape)) if i not in (*axes, *dot_axes))
    kept, summed = ([shape[i] for i in some] for some in (stay, dot_axes))
    images = (math.prod(kept), math.prod(summed), *(shape[i] for i in axes))
    return reshape(transpose(x, (*stay, *dot_axes, *axes)), images), kept


def padding(window: int, mode: str) -> tuple[int, int]:
    after = {"full": window - 1, "same": (window - 1) // 2, "valid": 0}[mode]
    return (window - 1 - after if mode == "same" else after), after
