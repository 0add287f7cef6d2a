"""einsum: operands are contracted two at a time, each pair by one batched matrix product or one elementwise product.

A letter that stands twice in an operand is a view of its diagonal; one that nothing else has is summed first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Shape
from .array import DeviceArray, common_dtype, view
from .transfer import copied


class Term(NamedTuple):
    """An operand and a letter for each of its axes, no two alike."""

    letters: str
    x: DeviceArray

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.letters, self.x.shape, strict=True))


def einsum(k: Any, subscripts: str, xs: Sequence[DeviceArray]) -> DeviceArray:
    names, out = _parsed(subscripts, xs)
    dtype = common_dtype("einsum", *xs)
    terms = [_diagonal(name, k.astype(x, dtype)) for name, x in zip(names, xs, strict=True)]
    sizes = _sizes(subscripts, terms)
    terms = [_stretched(k, t, sizes) for t in terms]
    for together in _path(subscripts, tuple(x.shape for x in xs)):
        taken = [terms.pop(i) for i in sorted(together, reverse=True)][::-1]
        terms.append(_contracted(k, taken, {*out, *"".join(t.letters for t in terms)}))
    y = _ordered(k, terms[0], out)
    return copied(y) if any(y.block is x.block for x in xs) else y  # not a view, whatever NumPy gives


def _parsed(subscripts: str, xs: Sequence[DeviceArray]) -> tuple[list[str], str]:
    inputs, out = subscripts.split("->")
    names = inputs.split(",")
    if len(names) != len(xs) or any(len(name) != x.ndim for name, x in zip(names, xs, strict=False)):
        shapes = " and ".join(str(x.shape) for x in xs)
        raise ValueError(f"einsum: {subscripts!r} must have a letter for each axis of each operand; their shapes are {shapes}")
    if len(set(out)) != len(out) or not set(out) <= set(inputs):
        raise ValueError(f"einsum: each letter behind '->' in {subscripts!r} must be there once, and before it")
    return names, out


def _diagonal(name: str, x: DeviceArray) -> Term:
    """x seen along its diagonal in letters that it has twice.  Raises ValueError if these axes differ in length."""
    strides, sizes = dict.fromkeys(name, 0), dict(zip(name, x.shape, strict=True))
    for letter, n, stride in zip(name, x.shape, x.strides, strict=True):
        if n != sizes[letter]:
            raise ValueError(f"einsum: axes {letter!r} of an operand {name!r} of shape {x.shape} must be of one length")
        strides[letter] += stride
    if len(strides) == len(name):
        return Term(name, x)
    return Term("".join(strides), view(x, tuple(sizes[c] for c in strides), tuple(strides.values())))


def _sizes(subscripts: str, terms: Sequence[Term]) -> dict[str, int]:
    """The length of each letter: that of all operands that have it, but for those where it is 1."""
    sizes: dict[str, int] = {}
    for t in terms:
        for letter, n in t.sizes.items():
            if n != 1 and sizes.get(letter, 1) not in (1, n):
                raise ValueError(f"einsum: axis {letter!r} of {subscripts!r} is {n} long in one operand and {sizes[letter]} in another")
            sizes[letter] = sizes.get(letter, 1) if n == 1 else n
    return sizes


def _stretched(k: Any, t: Term, sizes: dict[str, int]) -> Term:
    return Term(t.letters, k.broadcast_to(t.x, tuple(sizes[c] for c in t.letters)))


@lru_cache(1024)
def _path(subscripts: str, shapes: tuple[Shape, ...]) -> list[tuple[int, ...]]:
    """Which operands are contracted when, as NumPy orders them; each result goes to the end."""
    if len(shapes) < 3:
        return [tuple(range(len(shapes)))]
    nothing = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    return list(np.einsum_path(subscripts, *nothing, optimize="greedy")[0][1:])


def _contracted(k: Any, terms: Sequence[Term], kept: Collection[str]) -> Term:
    """The product of some operands, summed over the letters that are not kept."""
    first, *others = terms
    while others:
        needed = {*kept, *"".join(t.letters for t in others[1:])}
        first = _pair(k, first, others.pop(0), needed)
    return _summed(k, first, kept)


def _pair(k: Any, a: Term, b: Term, kept: Collection[str]) -> Term:
    """The product of two: letters of both that are kept are a stack, those that are not are inner, and others are of one side."""
    a, b = _summed(k, a, {*kept, *b.letters}), _summed(k, b, {*kept, *a.letters})
    both = [c for c in a.letters if c in b.letters]
    stack, inner = [c for c in both if c in kept], [c for c in both if c not in kept]
    left, right = [c for c in a.letters if c not in both], [c for c in b.letters if c not in both]
    if not inner:
        return _elementwise(k, a, b, stack + left + right)
    y = k.matmul(_grouped(k, a, stack, left, inner), _grouped(k, b, stack, inner, right))
    sizes = {**a.sizes, **b.sizes}
    letters = stack + left + right
    return Term("".join(letters), k.reshape(y, tuple(sizes[c] for c in letters)))


def _grouped(k: Any, t: Term, stack: Sequence[str], rows: Sequence[str], columns: Sequence[str]) -> DeviceArray:
    """The operand as a stack of matrices."""
    sizes = t.sizes
    shape = (*(sizes[c] for c in stack), prod(sizes[c] for c in rows), prod(sizes[c] for c in columns))
    return k.reshape(_ordered(k, t, [*stack, *rows, *columns]), shape)


def _elementwise(k: Any, a: Term, b: Term, letters: Sequence[str]) -> Term:
    return Term("".join(letters), k.multiply(_spread(k, a, letters), _spread(k, b, letters)))


def _spread(k: Any, t: Term, letters: Sequence[str]) -> DeviceArray:
    """The operand with its axes in the order of `letters`, and axes of length 1 for those that it lacks."""
    x = _ordered(k, t, [c for c in letters if c in t.letters])
    sizes, strides = t.sizes, dict(zip((c for c in letters if c in t.letters), x.strides, strict=True))
    return view(x, tuple(sizes.get(c, 1) for c in letters), tuple(strides.get(c, 0) for c in letters))


def _summed(k: Any, t: Term, kept: Collection[str]) -> Term:
    """Letters that nobody needs are summed away, in the operand's dtype."""
    axes = tuple(i for i, c in enumerate(t.letters) if c not in kept)
    if not axes:
        return t
    x = (k.any if t.x.dtype.kind == "b" else k.sum)(t.x, axes, False)
    return Term("".join(c for c in t.letters if c in kept), k.astype(x, t.x.dtype))


def _ordered(k: Any, t: Term, order: Iterable[str]) -> DeviceArray:
    return k.transpose(t.x, tuple(t.letters.index(c) for c in order))
