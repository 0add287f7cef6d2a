"""hypothesis strategies for shapes and arrays: sides of 0 and 1, 0-d, every memory layout, values apart from one another.

    @given(arrays(shapes(0, 3), elements=(-2, 2)))
    def test_tanh(x): check_grads(ops.tanh, (x,))

Values are drawn as a whole from one seed: a numerical operator is searched by shape, layout and dtype, and an array of
distinct values well inside its domain is worth more than hypothesis's favourite zeros and ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["LAYOUTS", "arrays", "broadcastable", "distinct", "shapes"]

Shape = tuple[int, ...]
Interval = tuple[float, float]


def _every(step: int, ndim: int) -> tuple[Any, ...]:
    return (..., *(slice(None, None, step) for _ in range(ndim)))  # the ellipsis keeps a 0-d array an array


def _strided(x: np.ndarray) -> np.ndarray:
    wide = np.full([2 * n for n in x.shape], 7, x.dtype)  # the gaps hold what must not be read
    view: np.ndarray = wide[_every(2, x.ndim)]
    view[...] = x
    return view


def _reversed(x: np.ndarray) -> np.ndarray:
    back = _every(-1, x.ndim)
    y: np.ndarray = x[back].copy()[back]
    return y


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda x: x.copy(order="C"),
    "F": lambda x: x.copy(order="F"),
    "strided": _strided,
    "reversed": _reversed,
    "read-only": _read_only,
}
"""name -> function that gives an equal array in that memory layout, sharing no memory with its argument."""


def shapes(min_dims: int = 0, max_dims: int = 3, sizes: Sequence[int] = (0, 1, 2, 3)) -> st.SearchStrategy[Shape]:
    """Tuples of min_dims to max_dims sides, each one of `sizes`."""
    return st.lists(st.sampled_from(sizes), min_size=min_dims, max_size=max_dims).map(tuple)


def broadcastable(n: int, max_dims: int = 3, sizes: Sequence[int] = (0, 1, 2, 3)) -> st.SearchStrategy[tuple[Shape, ...]]:
    """Tuples of n shapes that broadcast together: sides of 1 and missing leading axes wherever they may be."""

    def part_of(whole: Shape) -> st.SearchStrategy[Shape]:
        kept = st.tuples(*(st.booleans() for _ in whole))
        dims = st.integers(0, len(whole))
        return st.tuples(kept, dims).map(lambda d: tuple(s if k else 1 for s, k in zip(whole, d[0], strict=True))[d[1] :])

    return shapes(0, max_dims, sizes).flatmap(lambda whole: st.tuples(*(part_of(whole) for _ in range(n))))


def arrays(
    shape: Shape | st.SearchStrategy[Shape],
    dtype: Any = np.float64,
    elements: Interval | Sequence[Interval] = (-2.0, 2.0),
    layouts: Sequence[str] = tuple(LAYOUTS),
) -> st.SearchStrategy[np.ndarray]:
    """NumPy arrays of one shape (or strategy of shapes) and one dtype (or strategy of dtypes) in any of `layouts`.

    Their values are distinct and lie inside `elements`: (low, high), or several such intervals.
    """

    @st.composite
    def draw_array(draw: st.DrawFn) -> np.ndarray:
        drawn = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
        kind = draw(dtype) if isinstance(dtype, st.SearchStrategy) else dtype
        layout = LAYOUTS[draw(st.sampled_from(layouts))]
        (x,) = distinct(draw(st.integers(0, 2**32 - 1)), [drawn], [elements])
        return layout(x.astype(kind))

    return draw_array()


def distinct(seed: int, shapes: Sequence[Shape], elements: Sequence[Interval | Sequence[Interval]]) -> list[np.ndarray]:
    """float64 arrays of these shapes, with values inside `elements`, one entry an array: an interval or several.

    All N values differ, those of two arrays over the same intervals as well: by at least L / 2N, L being the length of
    the intervals, and by L / 4N from their outer ends.  So they keep away from the ties of max, and from kinks and poles
    at which an interval ends.
    """
    rng = np.random.default_rng(seed)
    sizes = [int(np.prod(s)) for s in shapes]
    n = sum(sizes)
    unit = (rng.permutation(n) + rng.uniform(0.25, 0.75, n)) / max(n, 1)
    parts = np.split(unit, np.cumsum(sizes)[:-1])
    return [_spread(u, e).reshape(s) for u, e, s in zip(parts, elements, shapes, strict=True)]


def _spread(unit: np.ndarray, elements: Any) -> np.ndarray:
    """Numbers of [0, 1) laid end to end over one or several intervals."""
    intervals = np.atleast_2d(np.asarray(elements, np.float64))
    ends = np.cumsum(intervals[:, 1] - intervals[:, 0])
    at = unit * ends[-1]
    i = np.searchsorted(ends, at, side="right").clip(0, len(ends) - 1)
    spread: np.ndarray = intervals[i, 1] - (ends[i] - at)
    return spread
