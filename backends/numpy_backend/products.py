"""Matrix products and einsum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy import asarray, ndarray

from ..kernels import Array
from .convolution import finished

_HALF = np.dtype(np.float16)


def matmul(a: Array, b: Array) -> Array:
    if a.dtype == _HALF == b.dtype:  # no BLAS takes it; through float32 it is 50 times faster and rounds once
        return asarray(np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(_HALF))
    try:
        y = np.matmul(a, b)
    except ValueError as e:
        fits = f"the last axis of a {a.shape} must be as long as the last but one of b {b.shape}"
        raise ValueError(f"{fits}, and leading axes must broadcast") from e
    return y if y.__class__ is ndarray else asarray(y)


def matmul_bias_act(a: Array, b: Array, bias: Array | None, z: Array | None, activation: str) -> Array:
    return finished(matmul(a, b), bias, z, activation, 1)


def einsum(subscripts: str, xs: Sequence[Array]) -> Array:
    """Two operands that share a summed letter go through matmul; the rest is numpy.einsum's."""
    terms, out = subscripts.split("->")
    names = terms.split(",")
    if len(xs) == 2 and _is_product(names, out, xs):
        return _product(names[0], xs[0], names[1], xs[1], out)
    y = asarray(np.einsum(subscripts, *xs, optimize=len(xs) > 2))
    return y.copy() if any(np.may_share_memory(y, x) for x in xs) else y  # "ij->ji" and "ii->i" come as views


def convolve(a: Array, v: Array, full: bool) -> Array:
    return asarray(np.convolve(a, v, "full" if full else "valid"))


def _is_product(names: list[str], out: str, xs: Sequence[Array]) -> bool:
    """Whether a letter is summed between the two, no letter stands twice in one of them, and the shapes fit."""
    size: dict[str, int] = {}
    for name, x in zip(names, xs, strict=True):
        if len(set(name)) != len(name) or len(name) != x.ndim:
            return False
        if any(size.setdefault(letter, n) != n for letter, n in zip(name, x.shape, strict=True)):
            return False
    is_summed = bool(set(names[0]) & set(names[1]) - set(out))
    return is_summed and len(set(out)) == len(out) and set(out) <= set(size)


def _product(a_name: str, a: Array, b_name: str, b: Array, out: str) -> Array:
    """einsum as one batched matrix product: a letter is of the batch (in both and out), inner (in both, summed) or of one side."""
    a_name, a = _sum_out(a_name, a, b_name + out)
    b_name, b = _sum_out(b_name, b, a_name + out)
    size = dict(zip(a_name + b_name, a.shape + b.shape, strict=True))
    batch, inner = [c for c in a_name if c in b_name and c in out], [c for c in a_name if c in b_name and c not in out]
    left, right = [c for c in a_name if c not in b_name], [c for c in b_name if c not in a_name]

    def operand(name: str, x: Array, rows: list[str], columns: list[str]) -> Array:
        shape = [size[c] for c in batch] + [prod(size[c] for c in group) for group in (rows, columns)]
        return _ordered(name, x, batch + rows + columns).reshape(shape)

    y = matmul(operand(a_name, a, left, inner), operand(b_name, b, inner, right))
    y_name = "".join(batch + left + right)
    return _ordered(y_name, y.reshape([size[c] for c in y_name]), out)


def _sum_out(name: str, x: Array, kept: str) -> tuple[str, Array]:
    axes = tuple(i for i, c in enumerate(name) if c not in kept)
    return ("".join(c for c in name if c in kept), asarray(np.add.reduce(x, axes, x.dtype.newbyteorder("=")))) if axes else (name, x)


def _ordered(name: str, x: Array, order: Iterable[str]) -> Array:
    return x.transpose([name.index(c) for c in order])


KERNELS: dict[str, Callable[..., Any]] = {
    "matmul": matmul, "matmul_bias_act": matmul_bias_act, "einsum": einsum, "convolve": convolve
}  # fmt: skip
