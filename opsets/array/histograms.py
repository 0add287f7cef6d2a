"""Histograms: how many elements lie in each bin, or the sums of their weights.

Counts have no derivative.  Sums of weights have, and so have the edges of bins that reach from the least element to the largest,
or over a range of Tensors, or that are given as Tensors, and with them the widths by which a density is divided.
"""

from __future__ import annotations

import math

import numpy as np

from autotape import kernels, operator
from autotape.param import Param
from autotape.tensor import Tensor

from .arithmetic import add, divide, multiply, subtract, where
from .choosing import beside, in_one_dtype, known
from .counting import fitted, real, values_of
from .creation import astype, ones_like
from .differences import diff
from .indexing import getitem, scatter_add
from .joining import pad_with, stack
from .logic import equal
from .reductions import max, min, sum
from .shapes import dtype_of, ravel, reshape, shape_of, under_name
from .sorting import searchsorted

# ---------------------------------------------------------------- edges


def histogram_bin_edges(x, bins=10, range=None, weights=None):
    """The edges of `bins` equal bins, or as many as a rule of NumPy's such as "auto" says, over `range` or all of x; or the edges given.

    `weights` make no difference, and raise TypeError beside a rule, which would have to heed them.
    """
    return edges_of("histogram_bin_edges", x, bins, range, weights)[1]


def edges_of(name: str, x, bins, range, weights=None):
    """The edges without and with derivatives; if there are none, one stands for them in the former, behind which is no bin."""
    if dtype_of(x).kind == "c":
        raise TypeError(f"{name}: x must be real, not {dtype_of(x)}")
    if weights is not None and isinstance(bins, str):
        raise TypeError(f"{name}: the rule bins={bins!r} doesn't heed weights: say how many bins there are to be")
    ends = None if range is None else tuple(range)
    edges = under_name(name, constant_edges, x, bins=known(bins), range=ends and tuple(map(known, ends)))
    n = shape_of(edges)[0]
    if len(shape_of(bins)) == 1:
        return edges if n else pad_with(edges, ((0, 1),)), bins if isinstance(bins, Tensor) else edges
    if ends is None and 0 not in shape_of(x) and dtype_of(x).kind == "f":
        ends = min(x), max(x)
    elif ends is None or not any(isinstance(end, (Tensor, Param)) for end in ends):
        return edges, edges
    low, high = ends
    return edges, spaced(low, high, n, dtype_of(edges))


@operator(nondifferentiable="x")
def constant_edges(x, bins=10, range=None):
    """histogram_bin_edges without derivatives."""
    k = kernels()
    return k.adopt(np.histogram_bin_edges(k.to_numpy(x), bins, range))


def spaced(low, high, n: int, dtype):
    """n equally spaced numbers from low to high, or if they are equal from 0.5 below to 0.5 above."""
    around = 0.5 if values_of(low) == values_of(high) else 0.0
    share = np.linspace(0, 1, n).astype(dtype)
    return add(multiply(subtract(low, around), 1 - share), multiply(add(high, around), share))


# ---------------------------------------------------------------- counts


def histogram(x, bins=10, range=None, density=None, weights=None):
    """How many elements of x are in each bin, or the sums of their weights; and the edges, as histogram_bin_edges gives them.

    A bin has its left edge, the last one its right edge, too.  density=True divides by the bin's width and by the total.
    Raises ValueError for weights of another shape than x's.
    """
    fixed, edges = edges_of("histogram", x, bins, range, weights)
    place = bins_of(ravel(x), fixed)
    counted = ones_like(place) if weights is None else fitted("histogram", weights, shape_of(x), x)
    counts = within([fixed], [place], counted)
    return divided(counts, [edges]) if density else counts, edges


def histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    """histogramdd of the points (x[i], y[i]), x along axis 0; with the edges of both.  Edges alone are those of both.

    Raises ValueError unless x and y have one length.
    """
    if shape_of(x) != shape_of(y):
        raise ValueError(f"histogram2d: x {shape_of(x)} and y {shape_of(y)} must have one length")
    if isinstance(bins, (int, np.integer)) or len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, edges = histogramdd([x, y], bins, range, density, weights)
    return counts, *edges


def histogramdd(sample, bins=10, range=None, density=None, weights=None):
    """How many points, rows of a sample (n, d) or a sequence of d 1-d columns, are in each bin of a grid; or the sums of their weights.

    `bins` is a number, or one or the edges for each axis, `range` None or a pair for each.  The result, in float64, has d axes;
    with it comes a list of the edges.  density=True divides by the bin's volume and by the total.  Raises ValueError unless
    there are as many of bins and of ranges as columns, and a weight for each point, TypeError for complex weights.
    """
    xs = columns(sample)
    bins = [bins] * len(xs) if isinstance(bins, (int, np.integer)) else list(bins)
    ranges = [None] * len(xs) if range is None else list(range)
    if not len(bins) == len(ranges) == len(xs):
        raise ValueError(f"histogramdd: {len(xs)} columns need as many bins and ranges, not {len(bins)} and {len(ranges)}")
    xs = [x if r is None else astype(x, np.float64) for x, r in zip(xs, ranges, strict=True)]  # a range is of float64
    fixed, edges = zip(*(edges_of("histogramdd", *axis) for axis in zip(xs, bins, ranges, strict=True)), strict=True)
    places = [bins_of(x, e) for x, e in zip(xs, fixed, strict=True)]
    counted = ones_like(places[0]) if weights is None else fitted("histogramdd", weights, shape_of(xs[0]))
    counts = within(fixed, places, real("histogramdd", beside(counted, *xs)))
    return divided(counts, edges) if density else counts, list(edges)


def columns(sample):
    """The columns of a sample, in one dtype: an array (n, d) or (n,), or a sequence of them.  Raises ValueError for other shapes."""
    if not hasattr(sample, "shape"):
        xs = in_one_dtype(sample)
        shape = shape_of(xs[0])
        if len(shape) > 1 or any(shape_of(x) != shape for x in xs):
            raise ValueError(f"histogramdd: the columns must be 1-d and of one length, not {[shape_of(x) for x in xs]}")
        return xs if shape else [stack(xs)]
    if len(shape_of(sample)) > 2:
        raise ValueError(f"histogramdd: a sample must have the shape (n, d) or (n,), not {shape_of(sample)}")
    sample = reshape(sample, (-1, 1)) if len(shape_of(sample)) < 2 else sample
    return [getitem(sample, (slice(None), i)) for i in range(shape_of(sample)[1])]


def bins_of(x, edges):
    """The number of the bin that has each element of x: of n bins, n for none of them."""
    n = shape_of(edges)[0] - 1
    place = subtract(searchsorted(edges, x, "right"), 1)
    place = where(equal(x, getitem(edges, n)), n - 1, place)
    return where(place < 0, n, place)


def within(edges, places, counted):
    """What is counted, summed in each bin of the grid; what is in none of them is left out."""
    shape, flat = tuple(shape_of(e)[0] for e in edges), 0
    for n, place in zip(shape, places, strict=True):
        flat = flat * n + place
    counts = reshape(scatter_add(counted, flat, (math.prod(shape),)), shape)
    return getitem(counts, tuple(slice(n - 1) for n in shape))


def divided(counts, edges):
    """Counts as a density: divided by the volumes of their bins and by their sum."""
    total = sum(counts)
    for axis, e in enumerate(edges):
        counts = divide(counts, reshape(diff(e), (-1,) + (1,) * (len(edges) - 1 - axis)))
    return divide(counts, total)
