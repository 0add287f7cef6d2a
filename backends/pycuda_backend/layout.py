"""How several arrays are walked together: broadcasting, the order of memory, and axes that can be taken as one.

Pure arithmetic on shapes and strides; what came out of it is remembered.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..kernels import Shape

MAX_AXES = 16  # as in elementwise.cuh
Form = tuple[Shape, Shape, int]  # an array's shape, strides and itemsize in bytes


class Layout(NamedTuple):
    """A walk over arrays: the shape they broadcast to, and the order of its axes in a new result's memory (None: row-major).

    `fields` is struct Layout of elementwise.cuh; None if all arrays lie alike without gaps, so that elements can be counted through.
    """

    shape: Shape
    order: Shape | None
    fields: bytes | None
    letter: str  # of the integers in it: "i" where 32 bits hold every offset, else "q"
    axes: int


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that all of these broadcast to.  Raises ValueError."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for a, n in enumerate(shape, ndim - len(shape)):
            if result[a] == 1:
                result[a] = n
            elif n not in (1, result[a]):
                raise ValueError(f"shapes {' and '.join(map(str, shapes))} do not broadcast together")
    return tuple(result)


@lru_cache(4096)
def walk(forms: tuple[Form, ...], results: int) -> Layout:
    """A walk over `results` new arrays and the given ones."""
    shape = broadcast([form[0] for form in forms])
    strides = [_spread(form, shape) for form in forms]
    order = _order(shape, forms, strides)
    fresh, step = [0] * len(shape), 1
    for a in reversed(order):
        fresh[a] = step
        step *= shape[a]
    return _layout(shape, order, [fresh] * results + strides, results)


@lru_cache(4096)
def walk_into(forms: tuple[Form, ...], results: int) -> Layout:
    """A walk over given arrays, of which the first `results` are written to: all others broadcast to their shape.  Raises ValueError."""
    shape = forms[0][0]
    if any(form[0] != shape for form in forms[:results]) or broadcast([form[0] for form in forms]) != shape:
        raise ValueError(f"shapes {' and '.join(str(form[0]) for form in forms[results:])} do not fit into {shape}")
    strides = [_spread(form, shape) for form in forms]
    return _layout(shape, _order(shape, forms, strides), strides, results)


def _spread(form: Form, shape: Shape) -> list[int]:
    """An array's strides, in elements, along the axes of the shape it is broadcast to."""
    own, strides, itemsize = form
    lead = len(shape) - len(own)
    return [0] * lead + [0 if n == 1 else s // itemsize for n, s in zip(own, strides, strict=True)]


def _order(shape: Shape, forms: Sequence[Form], strides: Sequence[list[int]]) -> tuple[int, ...]:
    """The axes from slowest to fastest: those of the first array that has the whole shape."""
    whole = next((s for form, s in zip(forms, strides, strict=True) if form[0] == shape), None)
    if whole is None:
        return tuple(range(len(shape)))
    step = [abs(s) if n != 1 else 0 for n, s in zip(shape, whole, strict=True)]
    if all(s for s, n in zip(step, shape, strict=True) if n != 1):
        return tuple(sorted(range(len(shape)), key=lambda a: -step[a] if shape[a] != 1 else float("-inf")))
    return tuple(range(len(shape)))


def _layout(shape: Shape, order: tuple[int, ...], strides: Sequence[Sequence[int]], results: int) -> Layout:
    extents, steps = merged([shape[a] for a in order], [[s[a] for a in order] for s in strides])
    natural = tuple(a for a in order if shape[a] != 1) == tuple(a for a in range(len(shape)) if shape[a] != 1)
    letter = _letter(extents, steps)
    gapless = len(extents) <= 1 and all(s == [1] for s in steps if extents)
    return Layout(shape, None if natural else order, None if gapless else _packed(extents, steps, letter), letter, len(extents))


def merged(extents: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Axes of length 1 left out, and neighbours taken as one where every array can be stepped through both by one stride."""
    out: list[int] = []
    kept: list[list[int]] = [[] for _ in steps]
    for a, n in enumerate(extents):
        if n == 1:
            continue
        if out and all(k[-1] == n * s[a] for k, s in zip(kept, steps, strict=True)):
            out[-1] *= n
            for k, s in zip(kept, steps, strict=True):
                k[-1] = s[a]
        else:
            out.append(n)
            for k, s in zip(kept, steps, strict=True):
                k.append(s[a])
    return out, kept


def _letter(extents: Sequence[int], steps: Sequence[Sequence[int]]) -> str:
    reach = max((sum(abs(t) * (n - 1) for t, n in zip(s, extents, strict=True)) for s in steps), default=0)
    size = 1
    for n in extents:
        size *= n
    return "i" if max(reach, size) < 2**31 else "q"


def _packed(extents: Sequence[int], steps: Sequence[Sequence[int]], letter: str) -> bytes:
    """struct Layout; nothing where there are too many axes for it."""
    if len(extents) > MAX_AXES:
        return b""
    rest = [0] * (MAX_AXES - len(extents))
    numbers = [len(extents), *extents, *rest, *(t for s in steps for t in (*s, *rest))]
    return struct.pack(f"{len(numbers)}{letter}", *numbers)
