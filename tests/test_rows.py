"""Sparse gradients: of what was only looked up the indices and their rows, dense wherever something needs that."""

from __future__ import annotations

import numpy as np
import pytest

import autotape as at
import autotape.testing  # registers the strict backend
from autotape import backend
from autotape.rows import Rows
from autotape.testing import check_grads

close = np.testing.assert_allclose
W = np.random.default_rng(0).normal(size=(50, 3))
I = np.array([3, 7, 3, -1])  # noqa: E741
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
SINGLE = np.array([[1], [3]])


def loss(w):
    return np.sum(np.tanh(w[I]) ** 2)


USES = {
    "once": loss,
    "many of few rows": lambda w: np.sum(w[np.arange(40)] ** 2),
    "small integers": lambda w: np.sum(w[np.array([1, 2], np.uint8)] ** 2) + np.sum(w[np.array([-1], np.int8)] ** 3),
    "twice": lambda w: loss(w) + np.sum(w[SINGLE] ** 3),
    "take": lambda w: np.sum(np.take(w, I, axis=0) ** 2),
}
DENSE = {
    "beside a dense use": lambda w: loss(w) + np.sum(w * w),
    "through an operator": lambda w: loss(w * 2),
    "through a product": lambda w: loss(w @ np.ones((3, 3))),
    "by numbers": lambda w: np.sum(w[[1, 2]] ** 2),
    "of a matrix": lambda w: np.sum(w[SINGLE, SINGLE % 3] ** 2),
    "in a slice": lambda w: np.sum(w[:, 1] ** 2),
}


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("use", [*USES, *DENSE])
def test_the_gradient_is_the_same_dense_and_by_rows(use, name):
    f = (USES | DENSE)[use]
    with backend.use(name):
        whole, sparse = at.grad(f)(W), at.grad(f, sparse=True)(W)
        assert (type(sparse) is Rows) == (use in USES)
        found = backend.kernels().to_numpy(sparse.dense()) if use in USES else sparse
        close(found, whole, 1e-14)
    check_grads(f, (W,), modes=("reverse", "forward"))


def test_rows_add_up_and_merge():
    w, ones = map(backend.kernels().adopt, (W, np.ones((3, 1))))
    r = at.grad(USES["twice"], sparse=True)(W)
    assert len(r.indices) == 6 and r.shape == W.shape and r.dtype == W.dtype and r.ndim == 2 and r.size == W.size
    m = r.merged()
    assert m.indices.tolist() == [1, 3, 7, 49] and m.merged() is m
    close(m.dense(), r.dense())
    close((2 * r).dense(), 2 * r.dense())
    close((-r).dense(), -r.dense())
    for dense in (r + w, w + r, r - w, w - r, r * w, w / (r * r + 1)):
        assert type(dense) is backend.kernels().array
    for function in (abs, lambda r: +r, lambda r: 2 / (r + 1), lambda r: 2**r, lambda r: r % 2, lambda r: r // 2, lambda r: r @ ones):
        close(function(r), function(r.dense()))
    assert len(r) == 50 and type(np.asarray(r)) is np.ndarray


@pytest.mark.numpy_only("NumPy's functions and methods of raw arrays")
def test_rows_among_numpys_arrays():
    r = at.grad(USES["twice"], sparse=True)(W)
    close(np.add(r, W), r.dense() + W)
    close(r.sum(0), r.dense().sum(0))
    close(r[3], r.dense()[3])
    out = W.copy()
    out += r
    close(out, W + r.dense())


def test_tapes_params_and_trees_give_rows_where_asked():
    p = at.Param(W)
    for sparse in (False, True):
        with at.Tape() as tape:
            value = loss(p)
        g = tape.gradient(value, {"p": p}, sparse=sparse)["p"]
        assert type(g) is (Rows if sparse else backend.kernels().array)
    value, g = at.value_and_grad(lambda t: loss(t["w"]) * t["b"], sparse=True)({"w": W, "b": 2.0})
    assert type(g["w"]) is Rows and type(g["b"]) is float


def test_transforms_of_higher_order_and_folded_functions():
    close(at.jacobian(lambda w: np.tanh(w)[I])(W)[2, 1, 3, 1], 1 - np.tanh(W[3, 1]) ** 2)
    close(at.grad(lambda w: np.sum(at.grad(loss)(w) ** 2))(W), at.hvp(loss)(W, 2 * at.grad(loss)(W)), 1e-12)
    close(at.grad(at.checkpoint(loss))(W), at.grad(loss)(W))
    twice = at.custom_gradient(lambda w: (w * 2, None))
    twice.backward(lambda dy, _: 2 * dy)
    close(at.grad(lambda w: loss(twice(w)))(W), at.grad(lambda w: loss(w * 2))(W))
    with at.debug():
        close(at.grad(USES["twice"])(W), at.grad(USES["twice"], sparse=True)(W).dense())


def test_indices_that_wrap_in_their_dtype():
    w = np.ones((300, 2))
    for dtype in (np.uint8, np.int8, np.uint16):
        r = at.grad(lambda w, dtype=dtype: np.sum(w[np.array([1, 2], dtype)] ** 2), sparse=True)(w)
        assert r.indices.tolist() == [1, 2]


def test_what_fits_no_shape_is_not_merged():
    for indices, rows in (([3], (1, 2)), ([-1], (1, 2)), ([0, 1], (1, 2)), ([0.0], (1, 2)), ([0], (1, 3)), ([[0]], (1, 2))):
        with pytest.raises(ValueError, match=r"Rows\(.* of \(3, 2\), dtype=float64\) takes"):
            Rows(np.array(indices), np.ones(rows), (3, 2)).merged()
    assert len(Rows(np.array([], int), np.ones((0, 2)), (0, 2)).merged().indices) == 0


def test_gradients_share_no_rows():
    i = np.array([1, 2])
    a, b = at.grad(lambda p, q: np.sum(p[i] + q[i]), (0, 1), sparse=True)(W, W)
    rows = a.rows
    rows *= 0
    assert not np.asarray(a.rows).any() and np.asarray(b.rows).all()
