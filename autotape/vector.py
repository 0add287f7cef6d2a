"""A tree as one vector, for optimisers that know only those (scipy.optimize, line searches, MCMC)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import backend, tree
from .level import plain_like
from .param import Param, as_variable, is_variable
from .tensor import Tensor, adopt, cast, constant, describe


def flatten(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The float leaves of a tree in one vector, and the function that makes such a tree of such a vector again.

        v, unflatten = at.flatten(params)
        result = scipy.optimize.minimize(at.value_and_grad(lambda v: loss(unflatten(v))), v, jac=True)
        params = unflatten(result.x)

    Both ways are differentiable.  The vector has the dtype to which the leaves promote, and is NumPy's where they are, or are
    numbers; back, each leaf has its own type again, a real one among complex ones by the real part.  What grad differentiates is in
    it, an int as a float too; other leaves come back as they are.  Raises ValueError for a vector of another length, TypeError for
    integer arrays, and for a complex vector where all leaves are real.
    """
    leaves, build = tree.flatten(tree.map(lambda leaf: leaf, x))  # containers of its own, whatever becomes of x's
    places = [i for i, leaf in enumerate(leaves) if is_variable(leaf, "flatten")]
    k = backend.kernels()
    parts = [_as_tensor(leaves[i], k) for i in places]
    likes = [(p.shape, p.dtype) for p in parts]
    real = all(dtype.kind != "c" for _, dtype in likes)
    size = sum(p.size for p in parts)

    def unflatten(v: Any) -> Any:
        if getattr(v, "shape", None) != (size,):
            raise ValueError(f"unflatten: it takes a vector of {size} elements, not {describe(v)}")
        k = backend.kernels()
        t, start, new = _as_tensor(v, k), 0, list(leaves)
        for i, (shape, dtype) in zip(places, likes, strict=True):
            if real and t.dtype.kind == "c":
                raise TypeError(f"unflatten: the vector is complex, but a leaf is {dtype}")
            stop = start + math.prod(shape)
            piece = cast(t[start:stop].reshape(shape), dtype)
            new[i], start = piece if isinstance(v, Tensor) else plain_like(k.copy(piece._array), leaves[i], k), stop
        return build(new)

    v: Any = np.concatenate([p.reshape(-1) for p in parts]) if parts else constant(k.zeros((0,), np.float64))
    if any(isinstance(leaf, (Tensor, Param)) for leaf in leaves):
        return v, unflatten
    like = next((leaf for leaf in leaves if isinstance(leaf, k.array)), None)
    return plain_like(k.copy(v._array), like, k), unflatten


def _as_tensor(x: Any, k: Any) -> Tensor:
    x = as_variable(x)
    return x if isinstance(x, Tensor) else constant(adopt(x, k))
