"""jacobian, hessian, jvp, hvp: exact, batched, of trees, of any order.

The batched walk of every operator is held to the pullback of one unit cotangent after another.
"""

from __future__ import annotations

import numpy as np
import pytest

import autotape as at
from autotape import backend, tree
from autotape.opsets import array as ops
from autotape.testing.specifications import cases

close = np.testing.assert_allclose


def rows_of(f, xs):
    """The Jacobians of every result of f in every input, one pullback a row."""
    ys, pull = at.vjp(lambda *xs: tree.leaves(f(*xs)), *xs)
    for j, y in enumerate(ys):
        each = []
        for i in np.ndindex(y.shape):
            cts = [np.zeros(z.shape, z.dtype) for z in ys]
            cts[j][i] = 1
            each.append(pull(cts))
        for n, x in enumerate(xs):
            yield j, n, np.reshape([row[n] for row in each], (*y.shape, *x.shape))


@pytest.mark.parametrize("name", ["numpy", "strict"])
@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_batched_walk_is_one_pullback_a_row(case, name):
    xs = case.draw(0)
    with backend.use(name):
        f = case.function()
        ys = tree.leaves(f(*map(at.array, xs)))
        if not all(y.dtype.kind == "f" for y in ys) or sum(y.size for y in ys) > 200:
            pytest.skip("a Jacobian of floats, and a small one")
        found = at.jacobian(lambda *xs: tree.leaves(f(*xs)), tuple(range(len(xs))))(*xs)
        for j, n, expected in rows_of(f, xs):
            close(np.asarray(found[j][n]), expected, 1e-12, 1e-12, strict=True)
