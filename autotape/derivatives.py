"""The whole of a derivative, or its product with a vector: jacobian, hessian, jvp, hvp.

All are made of vjp: a jvp is the pullback of the pullback, which is linear; a hvp the pullback of the gradient.  A
Jacobian is the pullback of every unit cotangent, all in one walk on batched arrays (batching.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from . import backend, tree
from .backends.kernels import Array
from .batching import Batched, NeedsValues, batched
from .level import Level
from .tape import Record
from .tensor import Tensor, backend_of, constant, describe, kind_of
from .transforms import OfArguments, grad, run_vjp, vjp
from .walk import walk_raw, walk_traced

_ROOM = 1 << 28  # bytes that one array of a batched walk may take


def jvp(f: Callable[..., Any], x: Any, v: Any) -> Any:
    """f(x), and its derivative at x along v: a tree like f(x).

    f takes one argument, x, an array or tree; v is a tree like it.  Several arguments: jvp(lambda t: f(*t), (a, b), (va, vb)).
    Costs about as much as a gradient and a half.  What is no float, in x or f(x), has the tangent 0.
    """
    _check_direction("jvp", x, v)
    y, pull = vjp(f, x)
    floats, build = _floats(y)
    if not floats:
        return y, build([])
    _, transpose = vjp(lambda us: pull(build(us))[0], [_zero(u) for u in floats])
    (dys,) = transpose(v)
    return y, build(dys)


def _check_direction(name: str, x: Any, v: Any) -> None:
    """Raise unless v is a tree like x, of the same shapes, and real where x is."""

    def check(x: Any, v: Any) -> None:
        if hasattr(x, "shape") and (shape := np.shape(v)) != x.shape:
            raise ValueError(f"{name}: v has shape {shape} where x has shape {x.shape}")
        if _kind(v) == "c" and _kind(x) != "c":
            raise TypeError(f"{name}: v is complex where x is real")

    try:
        tree.map(check, x, v)
    except ValueError as e:
        raise ValueError(str(e).replace("tree.map", f"{name}: v is no tree like x")) from e


def _kind(x: Any) -> str:
    """The kind of an array's or number's dtype, "f" for floats; "" for what is neither."""
    dtype = np.dtype(type(x)) if type(x) in (bool, int, float, complex) else getattr(x, "dtype", None)
    return kind_of(dtype) if isinstance(dtype, np.dtype) else ""


def _zero(x: Any) -> Any:
    """0 in x's shape and type."""
    if isinstance(x, Tensor):
        return constant(backend_of(x._array).zeros(x._shape, x.dtype))
    return type(x)(0) if isinstance(x, (int, float, complex, np.generic)) else backend_of(x).zeros(x.shape, x.dtype)


def _floats(y: Any) -> tuple[list[Any], tree.Build]:
    """The float leaves of a tree, and how to build one like it of others, in which numbers that are no floats are 0."""
    leaves, build = tree.flatten(y)
    at = [i for i, leaf in enumerate(leaves) if _kind(leaf) in ("f", "c")]

    def build_like(floats: Any) -> Any:
        given = dict(zip(at, floats, strict=True))
        return build([given[i] if i in given else _zero(leaf) if _kind(leaf) else leaf for i, leaf in enumerate(leaves)])

    return [leaves[i] for i in at], build_like


class jacobian(OfArguments):
    """jacobian(f)(*args): every derivative of every element of f(*args), in one batched walk back.

    For arrays y = f(x) it has the shape (*y.shape, *x.shape) and x's dtype.  For trees it is the tree of y of trees of x.
    Raises TypeError for a complex y, since only holomorphic functions have one: it is that of np.real(f(x)).
    argnums: an int, or a tuple of ints (then each leaf of y has a tuple).  Where an outer transform differentiates it too,
    it walks back once for each element of y.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        f, chosen = self._chosen(args, kwargs)
        level, y, pull, _ = run_vjp(f, chosen, False, self._name)
        with level:
            result = tree.map(lambda leaf: self._as_asked(pull.build(_of_leaf(level, leaf, self._name))), y)
        level.close()
        return result


def _of_leaf(level: Level, y: Any, name: str) -> list[Any]:
    """The derivatives of one array in each input; inputs that are not differentiated come back as they are."""
    if getattr(getattr(y, "dtype", None), "kind", "") == "c":
        raise TypeError(
            f"{name}: the function returned complex {describe(y)}; take the Jacobians of its np.real, which of a holomorphic function "
            "is all there is, and else of its np.imag, too"
        )
    shape = tuple(getattr(y, "shape", ()))
    n = math.prod(shape)
    out = list(level.inputs)
    with level.settings.restored():
        found = list(_rows(level, y, n)) if isinstance(y, Tensor) and y._id >= level.base and n else []
        for j, i in enumerate(level.slots):
            variable, k = level.variables[j], level.settings.kernels
            parts = [part[j] for part in found]
            whole = parts[0] if len(parts) == 1 else _joined(parts, k) if parts else k.zeros((n, *variable._shape), variable.dtype)
            whole = (whole.reshape if isinstance(whole, Tensor) else partial(k.reshape, whole))((*shape, *variable._shape))
            out[i] = level.hand_out(level.inputs[i], whole, variable.dtype)
    return out


def _rows(level: Level, y: Tensor, n: int) -> Iterable[list[Any]]:
    """The cotangents of all variables for the unit cotangents of y, some rows at a time: arrays (rows, *variable.shape), or Tensors."""
    ids = [v._id for v in level.variables]
    k: Any = level.settings.kernels
    record = level.record
    if level.is_tracked(None, y._id):
        for i in range(n):
            found = walk_traced(record, [(y._id, constant(k.reshape(_units(k, y, range(i, i + 1)), y._shape)))], level.base, ids)
            yield [np.expand_dims(_present(found[v._id], v, k), 0) for v in level.variables]
        return
    step = min(n, max(1, _ROOM // max(_largest(record, level.base, k), y.size * y.dtype.itemsize)))
    start, table = 0, batched(k)
    while start < n:
        rows = range(start, min(start + step, n))
        units = _units(k, y, rows)
        try:
            with backend.use_kernels(table):
                found, _ = walk_raw(record, [(y._id, Batched(units, table, len(rows)))], level.base, ids, keep=True)
            yield [k.copy(table.full_rows(_present(found[v._id], v, k), len(rows))) for v in level.variables]
            start = rows.stop
        except NeedsValues:
            for i in rows:
                found, _ = walk_raw(record, [(y._id, k.reshape(k.getitem(units, i - start), y._shape))], level.base, ids, keep=True)
                yield [k.reshape(k.copy(_present(found[v._id], v, k)), (1, *v._shape)) for v in level.variables]
            start, step = rows.stop, n


def _units(k: Any, y: Tensor, rows: range) -> Array:
    """The unit cotangents of y's elements `rows`: (len(rows), *y.shape)."""
    n, ones = len(rows), k.ones((len(rows),), y.dtype)
    return k.reshape(k.scatter_add(ones, (np.arange(n), np.arange(rows.start, rows.stop)), (n, y.size)), (n, *y._shape))


def _largest(record: Record, base: int, k: Any) -> int:
    """The bytes of the largest array that is saved from id `base` on: the cotangents of a row are about as large."""
    saved = (a for entry in record[base - record.base :] for a in entry if isinstance(a, k.array))
    return max((a.size * a.dtype.itemsize for a in saved), default=1)


def _present(g: Any, variable: Tensor, k: Any) -> Any:
    return k.zeros(variable._shape, variable.dtype) if g is None else g


def _joined(parts: list[Any], k: Any) -> Any:
    return np.concatenate(parts) if any(isinstance(p, Tensor) for p in parts) else k.concatenate(parts, 0)


class hessian(OfArguments):
    """hessian(f)(*args): the second derivatives of the scalar f(*args): the jacobian of its gradient.

    For an array x it has the shape (*x.shape, *x.shape); for trees it is a tree of trees.  Raises TypeError for complex x.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(_kind(x) == "c" for x in tree.leaves(self._chosen(args, kwargs)[1])):
            raise TypeError("hessian: of complex x there is no one array of second derivatives; hvp gives their product with a vector")
        gradient = grad(self.f, self.argnums)
        gradient._name = self._name
        return jacobian(gradient, self.argnums)(*args, **kwargs)


class hvp(OfArguments):
    """hvp(f)(x, v, *args): the Hessian of the scalar f(x, *args) in x times v, without the Hessian; x and v are trees alike.

    Costs three to four gradients.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__(f)

    def __call__(self, x: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        _check_direction(self._name, x, v)
        gradient = grad(self.f)
        gradient._name = self._name
        _, pull = vjp(lambda x: gradient(x, *args, **kwargs), x)
        return pull(v)[0]  # the Hessian is symmetric
