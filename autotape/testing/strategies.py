"""hypothesis strategies for what array functions take: shapes, arrays, groups that broadcast, layouts, axes, pytrees.

    @given(arrays(shapes(0, 3), elements=(-2, 2)))
    def test_tanh(x): check_grads(ops.tanh, (x,))

    @given(st.data())
    def test_sum(data):
        x = data.draw(arrays(shapes(1, 3)))
        check_grads(functools.partial(ops.sum, **data.draw(reductions(x.shape))), (x,))

Values are drawn as a whole from one seed: a numerical operator is searched by shape, layout and dtype, and an array of
distinct values well inside its domain is worth more than hypothesis's favourite zeros and ties.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

__all__ = [
    "LAYOUTS",
    "Pair",
    "Record",
    "arrays",
    "axes",
    "broadcast_views",
    "broadcastable",
    "distinct",
    "groups",
    "pytrees",
    "reductions",
    "shapes",
    "turned",
]

Shape = tuple[int, ...]
Interval = tuple[float, float]
TURN = 1.2  # less than a right angle


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

    Their values are distinct and lie inside `elements`: (low, high), or several such intervals.  Complex ones are such values
    `turned`.
    """

    @st.composite
    def draw_array(draw: st.DrawFn) -> np.ndarray:
        drawn = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
        kind = draw(dtype) if isinstance(dtype, st.SearchStrategy) else dtype
        layout = LAYOUTS[draw(st.sampled_from(layouts))]
        (x,) = distinct(draw(st.integers(0, 2**32 - 1)), [drawn], [elements])
        return layout(turned(x, kind))

    return draw_array()


def groups(
    n: int,
    dtype: Any = np.float64,
    elements: Interval | Sequence[Interval] = (-2.0, 2.0),
    layouts: Sequence[str] = tuple(LAYOUTS),
    max_dims: int = 3,
) -> st.SearchStrategy[tuple[np.ndarray, ...]]:
    """Tuples of n arrays that broadcast together, each in a layout of its own; no two elements of a group are equal."""

    @st.composite
    def draw_group(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
        kind = draw(dtype) if isinstance(dtype, st.SearchStrategy) else dtype
        xs = distinct(draw(st.integers(0, 2**32 - 1)), draw(broadcastable(n, max_dims)), [elements] * n)
        return tuple(LAYOUTS[draw(st.sampled_from(layouts))](turned(x, kind)) for x in xs)

    return draw_group()


def broadcast_views(
    shape: Shape | st.SearchStrategy[Shape], dtype: Any = np.float64, elements: Interval | Sequence[Interval] = (-2.0, 2.0)
) -> st.SearchStrategy[np.ndarray]:
    """Read-only arrays in which one element stands for all along some axes, whose stride is 0, as np.broadcast_to gives them.

    So elements are equal there: max and sort have ties.
    """

    @st.composite
    def draw_view(draw: st.DrawFn) -> np.ndarray:
        whole = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
        small = tuple(1 if draw(st.booleans()) else n for n in whole)
        return np.broadcast_to(draw(arrays(small, dtype, elements)), whole)

    return draw_view()


# ---------------------------------------------------------------- options drawn for a shape


def axes(ndim: int, none: bool = True, several: bool = True) -> st.SearchStrategy[Any]:
    """What `axis` may be for an array of ndim axes: an int of either sign, None if `none`, a tuple of distinct axes if `several`."""
    one = [st.integers(-ndim, ndim - 1)] if ndim else []
    many = st.lists(st.integers(-ndim, ndim - 1), unique_by=lambda i: i % ndim, max_size=ndim).map(tuple) if ndim else st.just(())
    return st.one_of(*([st.none()] if none else []), *one, *([many] if several else []))


def reductions(shape: Shape) -> st.SearchStrategy[dict[str, Any]]:
    """The keywords {"axis": ..., "keepdims": ...} of a reduction of an array of this shape."""
    return st.fixed_dictionaries({"axis": axes(len(shape)), "keepdims": st.booleans()})


# ---------------------------------------------------------------- pytrees


class Pair(NamedTuple):
    """A named tuple among the pytrees that are drawn."""

    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    """A dataclass among the pytrees that are drawn."""

    left: Any
    right: Any


def pytrees(leaves: st.SearchStrategy[Any], max_leaves: int = 6) -> st.SearchStrategy[Any]:
    """Nested dicts, lists, tuples, named tuples (`Pair`), dataclasses (`Record`) and None with such leaves, or a leaf by itself."""

    def node(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        few = st.lists(children, max_size=3)
        return st.one_of(
            few,
            few.map(tuple),
            st.dictionaries(st.sampled_from(["w", "b", "scale"]), children, max_size=3),
            st.builds(Pair, children, children),
            st.builds(Record, children, children),
        )

    return st.recursive(st.one_of(leaves, st.none()), node, max_leaves=max_leaves)


# ---------------------------------------------------------------- values


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


def turned(x: np.ndarray, dtype: Any) -> np.ndarray:
    """x in a dtype; in a complex one turned about 0, each element by an angle of its own below TURN.

    Magnitudes stay as they are, and so does the half plane: what keeps away from 0 and from a cut along the negative axis still does.
    """
    if np.dtype(dtype).kind != "c":
        return x.astype(dtype)
    angles = np.random.default_rng(zlib.crc32(x.tobytes())).uniform(-TURN, TURN, x.shape)  # others for each array
    return np.asarray(x * np.exp(1j * angles)).astype(dtype)


def _spread(unit: np.ndarray, elements: Any) -> np.ndarray:
    """Numbers of [0, 1) laid end to end over one or several intervals."""
    intervals = np.atleast_2d(np.asarray(elements, np.float64))
    ends = np.cumsum(intervals[:, 1] - intervals[:, 0])
    at = unit * ends[-1]
    i = np.searchsorted(ends, at, side="right").clip(0, len(ends) - 1)
    spread: np.ndarray = intervals[i, 1] - (ends[i] - at)
    return spread
