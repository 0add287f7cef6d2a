"""Opset array: values are NumPy's through NumPy's own names, gradients hold to order 2 on the numpy and the strict backend,
conventions where no derivative exists, repeated indices, methods, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, opsets
from autotape.opsets import array as ops
from autotape.testing import check_grads
from autotape.testing.strategies import LAYOUTS, arrays, broadcastable, distinct, shapes

FEW = settings(derandomize=True, deadline=None, max_examples=12)
FLOATS = st.sampled_from([np.float32, np.float64])
BACKENDS = ["numpy", "strict"]


def agrees(f, *args):
    """f of Tensors is f of the arrays, with the same shape and dtype; so is f where the first argument alone is a Tensor."""
    expected = f(*args)
    for found in (f(*map(at.array, args)), f(at.array(args[0]), *args[1:])):
        for y, e in zip(listed(found), listed(expected), strict=True):
            assert isinstance(y, at.Tensor)
            assert (y.shape, y.dtype) == (np.shape(e), e.dtype)
            tolerance = 1e-5 if e.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(y.numpy(), e, rtol=tolerance, atol=tolerance / 10)


def listed(y):
    return y if isinstance(y, (list, tuple)) else [y]


# ---------------------------------------------------------------- elementwise, over shapes, dtypes and layouts

UNARY = {
    np.exp: (-2, 2), np.expm1: (-2, 2), np.log: (0.2, 3), np.log1p: (-0.8, 3), np.log2: (0.2, 3), np.log10: (0.2, 3),
    np.sqrt: (0.2, 3), np.square: (-2, 2), np.cbrt: [(-3, -0.2), (0.2, 3)], np.sin: (-4, 4), np.cos: (-4, 4), np.tan: (-1, 1),
    np.arcsin: (-0.9, 0.9), np.arccos: (-0.9, 0.9), np.arctan: (-3, 3), np.sinh: (-2, 2), np.cosh: (-2, 2), np.tanh: (-2, 2),
    np.absolute: [(-2, -0.1), (0.1, 2)], np.negative: (-2, 2), np.positive: (-2, 2), np.reciprocal: [(-2, -0.3), (0.3, 2)],
}  # fmt: skip
STEPS = [np.sign, np.floor, np.ceil, np.trunc, np.rint, np.round, np.isnan, np.isinf, np.isfinite, np.logical_not]
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.power, np.arctan2, np.remainder, np.maximum, np.minimum]
COMPARISONS = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
WITHOUT_RULE = [*COMPARISONS, np.logical_and, np.logical_or, np.logical_xor, np.floor_divide]
by_name = {"ids": lambda f: f.__name__}


@pytest.mark.parametrize("f", [*UNARY, *STEPS], **by_name)
@FEW
@given(data=st.data())
def test_unary_values(f, data):
    agrees(f, data.draw(arrays(shapes(), FLOATS, UNARY.get(f, (-2, 2)))))


@pytest.mark.parametrize("f", UNARY, **by_name)
@FEW
@given(data=st.data())
def test_unary_gradients(f, data):
    with backend.use(data.draw(st.sampled_from(BACKENDS))):
        check_grads(f, (data.draw(arrays(shapes(), elements=UNARY[f])),))


@pytest.mark.parametrize("f", [*BINARY, *WITHOUT_RULE], **by_name)
@FEW
@given(broadcastable(2), st.integers(0, 99), st.tuples(FLOATS, FLOATS))
def test_binary_values(f, both, seed, dtypes):
    agrees(f, *(x.astype(d) for x, d in zip(distinct(seed, both, [(0.3, 2)] * 2), dtypes, strict=True)))


@pytest.mark.parametrize("f", BINARY, **by_name)
@FEW
@given(broadcastable(2), st.integers(0, 99), st.sampled_from(BACKENDS))
def test_binary_gradients(f, both, seed, name):
    a, b = distinct(seed, both, [(0.3, 2)] * 2)
    with backend.use(name):
        check_grads(f, (4 * a if f is np.remainder else a, b), rtol=1e-4)


@FEW
@given(broadcastable(3), st.integers(0, 99))
def test_where(three, seed):
    mask, a, b = distinct(seed, three, [(-1, 1)] * 3)
    agrees(np.where, mask > 0, a, b)
    check_grads(lambda a, b: np.where(mask > 0, a, b), (a, b))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_, np.float32])
@pytest.mark.parametrize("f", [np.exp, np.sqrt, np.floor, np.sum, np.mean, np.prod, np.max, np.std, np.cumsum, np.any], **by_name)
def test_dtypes_of_results(f, dtype):
    agrees(f, np.array([[1, 0, 1], [1, 1, 1]]).astype(dtype))


@pytest.mark.parametrize("f", [np.add, np.multiply, np.divide, np.power, np.maximum], **by_name)
@pytest.mark.parametrize("dtypes", [(np.int64, np.int64), (np.int64, np.float32), (np.float32, np.int32), (np.float32, np.float64)])
def test_mixed_dtypes(f, dtypes):
    a, b = (np.array([1, 2, 3]).astype(d) for d in dtypes)
    agrees(f, a, b)
    if dtypes[0] == np.float32:
        assert at.grad(lambda a: np.sum(f(a, b)))(a).dtype == np.float32


def test_numbers_are_weak():
    x = np.ones((2, 3), np.float32)
    y, g = at.value_and_grad(lambda x: np.mean(2 * x**3 + 0.5 - x / 3 + 2**x + np.where(x > 0, x, 0) + np.clip(x, 0, 2.0)))(x)
    assert y.dtype == g.dtype == np.float32
    assert (at.array(np.arange(3)) ** 2).dtype == np.int64 and (at.array(np.arange(3)) ** 2.0).dtype == np.float64


@pytest.mark.parametrize("mask", [np.array([1, 0, 1]), np.array([np.nan, 0, -0.5]), np.array([1j, 0, 1]), [1, 0, 1]])
def test_masks_of_numbers_leave_the_dtype_alone(mask):
    x = np.arange(1, 4, dtype=np.float32)
    assert (y := np.where(mask, at.array(x), 0.0)).dtype == np.float32 and y.tolist() == [1, 0, 3]
    assert (y := np.where(mask, 0.0, at.array(x))).dtype == np.float32 and y.tolist() == [0, 2, 0]
    assert (g := at.grad(lambda x: np.sum(np.where(mask, x, 0.0)))(x)).dtype == np.float32 and g.tolist() == [1, 0, 1]


# ---------------------------------------------------------------- reductions


@st.composite
def reduction(draw):
    """A shape with no empty side, axes of it, and keepdims."""
    shape = draw(shapes(0, 3, (1, 2, 3)))
    axes = draw(st.lists(st.sampled_from(range(-len(shape), len(shape))), unique_by=lambda i: i % len(shape)) if shape else st.just([]))
    axis = draw(st.sampled_from([None, tuple(axes), *axes[:1]]))
    return shape, axis, draw(st.booleans())


REDUCTIONS = [np.sum, np.mean, np.prod, np.max, np.min, np.var, np.std]


@pytest.mark.parametrize("f", [*REDUCTIONS, np.any, np.all], **by_name)
@FEW
@given(reduction(), st.data())
def test_reduction_values(f, how, data):
    shape, axis, keepdims = how
    x = data.draw(arrays(shape, FLOATS))
    agrees(lambda x: f(x, axis=axis, keepdims=keepdims), x)
    if axis is None or isinstance(axis, int):
        agrees(lambda x: np.argmax(x, axis=axis, keepdims=keepdims) + np.argmin(x, axis=axis, keepdims=keepdims), x)


@pytest.mark.parametrize("f", REDUCTIONS, **by_name)
@FEW
@given(reduction(), st.integers(0, 99), st.sampled_from(BACKENDS))
def test_reduction_gradients(f, how, seed, name):
    shape, axis, keepdims = how
    if f is np.std and (axis == () or all(shape[i] == 1 for i in ((axis,) if isinstance(axis, int) else axis or range(len(shape))))):
        return  # of one element: not differentiable
    (x,) = distinct(seed, [shape], [(0.3, 2)])
    with backend.use(name):
        check_grads(lambda x: f(x, axis=axis, keepdims=keepdims) ** 2, (x,), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape, axis", [((0,), None), ((2, 0), 1), ((2, 0), 0), ((0, 3), 0)])
def test_reductions_of_nothing(shape, axis):
    x = np.zeros(shape)
    for f in (np.sum, np.prod, np.any, np.all, np.cumsum):
        agrees(lambda x, f=f: f(x, axis=axis), x)
    for f in (np.sum, np.prod, np.linalg.norm):
        assert at.grad(lambda x, f=f: np.sum(f(x, axis=axis)))(x).shape == shape
    if (x.size if axis is None else shape[axis]) == 0 and x.sum(axis).size:
        with pytest.raises(ValueError, match="max"):
            np.max(at.array(x), axis=axis)


# ---------------------------------------------------------------- one table: NumPy's value, and the gradient to order 2

X = distinct(1, [(3, 4, 2)], [(0.3, 2)])[0]
MASK, ROWS = X[:, :, 0] > 1, np.array([0, 0, 2])
CASES = {
    "number over x": (lambda x: 1 / x, (3,)),
    "x ** 3": (lambda x: x**3, (3,)),
    "x ** -2": (lambda x: x**-2, (3,)),
    "x ** 0.5": (lambda x: x**0.5, (3,)),
    "2.0 ** x": (lambda x: 2.0**x, (3,)),
    "clip": (lambda x: np.clip(x, 0.7, 1.5), (5,)),
    "clip, arrays": (lambda x, a, b: np.clip(x, a - 1, b + 1), (2, 3), (3,), (2, 1)),
    "clip from below": (lambda x: np.clip(x, 1.0, None) * np.clip(x, None, 1.5), (5,)),
    "astype": (lambda x: x.astype(np.float64), (3,)),
    "full_like": (lambda x: np.full_like(x, 3.0) + np.ones_like(x) * x + np.zeros_like(x) + np.empty_like(x) * 0, (3,)),
    "std, ddof": (lambda x: np.std(x, 0, ddof=1), (4, 2)),
    "var, ddof": (lambda x: np.var(x, 0, None, None, 1), (4, 2)),
    "cumsum": (lambda x: np.cumsum(x, -2), (2, 3, 2)),
    "cumsum of all": (lambda x: np.cumsum(x), (2, 3)),
    "prod of 7": (lambda x: np.prod(x), (7,)),
    "add.reduce": (lambda x: np.add.reduce(x) * np.maximum.reduce(x, axis=1, keepdims=True), (2, 2)),
    "multiply.reduce": (lambda x: np.multiply.reduce(x, axis=None) * np.minimum.reduce(x) * np.add.accumulate(x), (2, 2)),
    "reshape": (lambda x: np.reshape(x, (3, -1)), (2, 3)),
    "ravel": (lambda x: np.ravel(x), (2, 3)),
    "transpose": (lambda x: np.transpose(x, (2, 0, -2)), (2, 3, 4)),
    "T": (lambda x: x.T * np.matrix_transpose(x) * x.mT, (2, 3)),
    "swapaxes": (lambda x: np.swapaxes(x, 0, -1), (2, 3, 4)),
    "moveaxis": (lambda x: np.moveaxis(x, 0, -1) + np.moveaxis(x, (0, 2), (1, -1)).sum(), (2, 3, 4)),
    "squeeze": (lambda x: np.squeeze(x) * np.squeeze(x, (0, -1)) + np.squeeze(x, 0)[:, 0], (1, 3, 1)),
    "expand_dims": (lambda x: np.expand_dims(x, (0, -1)), (2, 3)),
    "broadcast_to": (lambda x: np.broadcast_to(x, (4, 2, 3)), (2, 1)),
    "concatenate": (lambda a, b: np.concatenate([a, b, a], axis=-1), (2, 1), (2, 2)),
    "concatenate flat": (lambda a, b: np.concatenate((a, b), axis=None), (2, 1), (2, 2)),
    "stack": (lambda a, b: np.stack([a, b], axis=-1), (2, 2), (2, 2)),
    "hstack": (lambda a, b: np.hstack([a, b]), (2,), (3,)),
    "hstack, 2-d": (lambda a, b: np.hstack([a, b]), (2, 1), (2, 3)),
    "vstack": (lambda a, b: np.vstack([a, b]), (2,), (3, 2)),
    "split": (lambda a: np.split(a, 3), (6, 2)),
    "split at": (lambda a: np.split(a, [2, 3], axis=1), (6, 5)),
    "array_split": (lambda a: np.array_split(a, 4), (6, 2)),
    "pad": (lambda a: np.pad(a, ((1, 0), (0, 2)), constant_values=2.0), (2, 3)),
    "pad, a value a side": (lambda a: np.pad(a, ((1, 1), (0, 2)), constant_values=(5, 6)), (2, 3)),
    "pad, a value a side and axis": (lambda a: np.pad(a, (1, 2), constant_values=((5, 6), (7, 8))), (2, 3)),
    "pad edge": (lambda a: np.pad(a, ((1, 0), (0, 2)), mode="edge"), (2, 3)),
    "pad reflect": (lambda a: np.pad(a, (3, 2), mode="reflect"), (2, 3)),
    "pad symmetric": (lambda a: np.pad(a, 4, mode="symmetric"), (2, 3)),
    "pad wrap": (lambda a: np.pad(a, 4, mode="wrap"), (2, 3)),
    "flip": (lambda a: np.flip(a, 0) * np.flip(a) * np.flip(a, (0, -1)), (2, 3)),
    "roll": (lambda a: np.roll(a, 2, 1) * np.roll(a, (1, -1), (0, 1)) * np.roll(a, -4), (2, 3)),
    "tile": (lambda a: np.tile(a, (2, 1, 2)), (2, 3)),
    "tile less": (lambda a: np.tile(a, 2), (2, 3)),
    "repeat": (lambda a: np.repeat(a, 2, 1), (2, 3)),
    "repeat each": (lambda a: np.repeat(a, [1, 3], 0), (2, 3)),
    "repeat flat": (lambda a: np.repeat(a, 2), (2, 3)),
    "take": (lambda x: np.take(x, [[0, 1], [1, 1]], axis=-1), (2, 3)),
    "take flat": (lambda x: np.take(x, [0, 1, 1, 5]), (2, 3)),
    "take one": (lambda x: np.take(x, 1, axis=0), (2, 3)),
    "take_along_axis": (lambda x: np.take_along_axis(x, np.array([[0, 0, 1], [2, 2, 2]]), 1), (2, 3)),
    "take_along_axis, stretched": (lambda x: np.take_along_axis(x, np.array([[1], [1], [0]]), 1), (1, 4)),
    "take_along_axis flat": (lambda x: np.take_along_axis(x, np.array([0, 0, 4]), None), (2, 3)),
    "take_along_axis, wide": (lambda x: np.take_along_axis(x, np.array([[0, 1, 0]]), 1), (2, 3)),
    "take_along_axis, long": (lambda x: np.take_along_axis(x, np.array([[0, 1, 0], [1, 1, 1]]), 1), (1, 3)),
    "dot with a number": (lambda a, b: np.dot(a, b), (), (3,)),
    "dot of vectors": (lambda a, b: np.dot(a, b), (3,), (3,)),
    "dot": (lambda a, b: np.dot(a, b), (2, 3), (3, 4)),
    "dot, 3-d": (lambda a, b: np.dot(a, b), (4, 2, 3), (5, 3, 2)),
    "inner": (lambda a, b: np.inner(a, b), (2, 3), (4, 3)),
    "outer": (lambda a, b: np.outer(a, b) * np.linalg.outer(np.ravel(a), b), (2, 2), (3,)),
    "tensordot": (lambda a, b: np.tensordot(a, b), (2, 3, 4), (3, 4, 5)),
    "tensordot over": (lambda a, b: np.tensordot(a, b, axes=((0, 2), (1, 0))), (2, 3, 4), (4, 2)),
    "tensordot, NumPy int": (lambda a, b: np.tensordot(a, b, axes=np.int64(1)), (2, 3), (3, 2)),
    "tensordot, 0": (lambda a, b: np.tensordot(a, b, axes=0), (2,), (3,)),
    "sums of a number": (lambda x: np.sum(x, axis=0) * np.prod(x, axis=-1) + np.max(x, axis=0) * np.min(x, axis=-1), ()),
    "a number along an axis": (lambda x: np.cumsum(x, 0) * np.repeat(x, 2, -1) * np.squeeze(x, 0) * np.take(x, [0, 0], 0), ()),
    "copy": (lambda x: np.copy(x) * x.copy() * +x, (3,)),
    "rows": (lambda x: sum(r * r for r in x), (3, 2)),
}
INDICES = {
    "int": 0, "negative": -1, "slice": slice(None, None, -2), "ints": (1, 2), "ellipsis": (..., 0), "newaxis": (None, 1, None),
    "nothing": (), "array": ROWS, "list": [0, 0, 1], "sequence": ((0, 0),), "range": range(2),
    "sequences": (0, range(2), [1, 1]), "pairs": (np.array([0, 0]), np.array([1, 1])), "mask": MASK, "full mask": X > 1,
    "mixed": (slice(None), np.array([1, 1]), 0), "2-d": (np.array([[0, 2], [0, 0]]), slice(1, 3)),
    "apart": (0, slice(None), np.array([1, 0, 1])),
    "mask of an axis": (np.array([True, False, True]), slice(None), 1), "array and newaxis": (ROWS, None, 1),
    "NumPy int": np.int64(1), "0-d": (np.array(1),), "empty": np.zeros(0, int), "no rows": slice(2, 2),
}  # fmt: skip
MATMUL = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)), ((3,), (2, 3, 4)), ((4, 2, 3), (3,)), ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((1, 1), (1, 1)),
    ((2, 0, 3), (3, 2)),
]  # fmt: skip
EINSUM = {
    "ij,jk->ik": [(2, 3), (3, 4)], "ij,jk": [(2, 3), (3, 4)], " i j , j k -> k i": [(2, 3), (3, 4)], "ii": [(3, 3)], "ii->i": [(3, 3)],
    "iij->j": [(3, 3, 2)], "iii->i": [(3, 3, 3)], "ij->": [(2, 3)], "ij->j": [(2, 3)], "...ij,...jk->...ik": [(5, 2, 3), (5, 3, 4)],
    "...ij,...jk": [(5, 1, 2, 3), (3, 3, 4)], "ij,k->k": [(2, 3), (4,)], "ij,ij,ij->": [(2, 3)] * 3,
    "bij,bjk,bk->bi": [(2, 3, 4), (2, 4, 5), (2, 5)],
    "ij,ij->ij": [(1, 3), (2, 3)], "iij,jk->k": [(2, 2, 3), (3, 2)], "...": [(2, 3)], "i...->...": [(2, 3)], ",": [(), ()], "ba": [(2, 3)],
    "ii,i->": [(3, 3), (3,)], "Ab,bA->b": [(2, 3), (3, 2)], "ij,j->i": [(0, 3), (3,)],
}  # fmt: skip
CASES |= {f"x[{k}]": (lambda x, i=i: x[i], X.shape) for k, i in INDICES.items()}
CASES |= {f"matmul {a} {b}": (lambda a, b: np.matmul(a, b), a, b) for a, b in MATMUL}
CASES |= {f"einsum {k}": (lambda *xs, k=k: np.einsum(k, *xs), *s) for k, s in EINSUM.items()}
CASES |= {f"norm {p}": (lambda x, p=p: np.linalg.norm(x, ord=p), (5,)) for p in (None, 0, 1, 2, 3, 0.5, -1, np.inf, -np.inf)}
CASES |= {f"norms {p}": (lambda x, p=p: np.linalg.norm(x, p, -1, True), (3, 2)) for p in (None, 1, 2, 2.5, np.inf)}
CASES |= {f"matrix norm {p}": (lambda x, p=p: np.linalg.norm(x, p, (2, 0)), (2, 3, 4)) for p in (None, "fro", 1, -1, np.inf, -np.inf)}
CASES["norm of all"] = (lambda x: np.linalg.norm(x), (2, 3, 2))


def arguments(shapes):
    return distinct(len(shapes), shapes, [(0.3, 2)] * len(shapes))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(case, layout):
    f, *shapes = CASES[case]
    agrees(f, *map(LAYOUTS[layout], arguments(shapes)))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", BACKENDS)
def test_gradients(case, name):
    f, *shapes = CASES[case]

    def squared(*xs):  # so that the second derivative is not 0
        y = f(*xs)
        return [p**2 for p in y] if isinstance(y, list) else y**2

    with backend.use(name):
        check_grads(squared, arguments(shapes), rtol=1e-4, atol=1e-5)


@FEW
@given(st.lists(st.integers(0, 2), min_size=2, max_size=2), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 99))
def test_matmul_with_empty_sides(batch, n, k, m, seed):
    a, b = distinct(seed, [(*batch, n, k), (k, m)], [(-1, 1)] * 2)
    agrees(np.matmul, a, b)
    check_grads(np.matmul, (a, b))


# ---------------------------------------------------------------- indices and updates


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("name", BACKENDS)
def test_updates(index, name):
    v = distinct(2, [X[index].shape], [(0.3, 2)])[0]
    expected_set, expected_sum = X.copy(), X.copy()
    expected_set[index] = v
    np.add.at(expected_sum, index, v)
    t = at.array(X)
    np.testing.assert_array_equal(t.at[index].set(v).numpy(), expected_set)
    np.testing.assert_allclose(t.at[index].add(v).numpy(), expected_sum)
    np.testing.assert_array_equal(t.numpy(), X)
    with backend.use(name):
        check_grads(lambda x, v: x.at[index].set(v * v) ** 2, (X, v))
        check_grads(lambda x, v: x.at[index].add(v * v) ** 2, (X, v))
        check_grads(lambda x, v: x.at[index].set(v) * x.at[index].add(v), (X, np.array(1.5)))  # v broadcasts


@FEW
@given(st.lists(st.integers(-4, 3), max_size=8), st.integers(0, 99))
def test_repeated_indices_accumulate(index, seed):
    (x,) = distinct(seed, [(4, 2)], [(-1, 1)])
    g = at.grad(lambda x: np.sum(x[np.array(index, int)]))(x)
    np.testing.assert_array_equal(g, np.bincount(np.array(index, int) % 4, minlength=4)[:, None] * np.ones((4, 2)))


def test_of_repeated_indices_set_keeps_the_last():
    g = at.grad(lambda v: np.sum(at.array(np.zeros(3)).at[[1, 1, 0]].set(v) * np.array([5.0, 7.0, 11.0])))(np.ones(3))
    np.testing.assert_array_equal(g, [0, 7, 5])


def test_of_a_repeated_sequence_set_keeps_the_last():
    g = at.grad(lambda v: at.array(np.zeros(3)).at[(0, 0),].set(v)[0])(np.ones(2))
    np.testing.assert_array_equal(g, [0, 1])


@pytest.mark.parametrize("shape", [(1, 4), (1, 1, 4), (1, 1, 1), (1,)])
@pytest.mark.parametrize("name", BACKENDS)
def test_updates_drop_leading_ones(shape, name):
    x, v = distinct(0, [(3, 4), shape], [(0.3, 2)] * 2)
    with backend.use(name):
        check_grads(lambda x, v: x.at[0].set(v) ** 2 + x.at[1].add(v * v), (x, v))
    with pytest.raises(ValueError, match=r"index_add.*\(2, 4\) has more axes"):
        at.array(x).at[0].add(np.ones((2, 4)))


def test_indices_may_be_tensors():
    i, mask = at.array([2, 0]), at.array(np.array([True, False, True]))
    x = np.arange(6.0).reshape(3, 2)
    for f in (lambda x: x[i], lambda x: x[i, 1], lambda x: x[mask], lambda x: x[x > 2.5], lambda x: x[mask, 1:], lambda x: x.take(i, 0)):
        check_grads(f, (x,))
    np.testing.assert_array_equal(at.array(x)[i, 1].numpy(), x[[2, 0], 1])
    assert at.array(np.arange(3.0)).at[i].add(1.0).tolist() == [1, 1, 3]


@pytest.mark.parametrize("make", [list, np.array, at.array])
def test_booleans_are_indices_to_take(make):
    x = np.array([[5.0, 6], [7, 8]])
    assert np.take(at.array(x[0]), make([True, False])).tolist() == [6, 5]
    np.testing.assert_array_equal(at.grad(lambda x: np.sum(np.take(x, make([True, True]), 1)))(x), [[0, 2], [0, 2]])


def test_dtype_of_updates_is_kept():
    x = at.array(np.zeros(3, np.float32))
    assert x.at[0].set(np.float64(1)).dtype == x.at[0].add(np.ones((), np.float64)).dtype == np.float32
    g = at.grad(lambda v: np.sum(x.at[1].set(v)))(np.array(2.0))
    assert g == 1 and g.dtype == np.float64


# ---------------------------------------------------------------- where no derivative exists


@pytest.mark.parametrize(
    "f, x, expected",
    [
        (np.abs, [0.0, -1, 2], [0, -1, 1]),
        (np.max, [1.0, 1, 0], [0.5, 0.5, 0]),
        (np.min, [1.0, 0, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3]),
        (np.max, [1.0, np.nan], [0.5, 0.5]),
        (lambda x: np.maximum(x, 1.0), [1.0, 2, 0], [0.5, 1, 0]),
        (lambda x: np.minimum(1.0, x), [1.0, 2, 0], [0.5, 0, 1]),
        (lambda x: np.maximum(x, x), [1.0], [1]),
        (lambda x: np.clip(x, 0, 1), [0.0, 1, 0.5, 2], [0.5, 0.5, 1, 0]),
        (np.linalg.norm, [0.0, 0], [0, 0]),
        (lambda x: np.linalg.norm(x, 3), [0.0, 0], [0, 0]),
        (lambda x: np.linalg.norm(x, 1.5), [0.0, 2], [0, 1]),
        (np.std, [2.0, 2, 2], [0, 0, 0]),
        (lambda x: x**0, [0.0, 3], [0, 0]),
        (lambda x: x**2, [0.0, 3], [0, 6]),
        (lambda x: x ** np.array([0.0, 1, 2]), [0.0, 0, 0], [0, 1, 0]),
        (lambda x: np.array([0.0, 2]) ** x, [2.0, 1], [0, 2 * np.log(2)]),
        (np.sign, [0.0, 2], [0, 0]),
        (lambda x: np.floor(x) + np.round(x) + np.trunc(x) + x // 1, [0.3], [0]),
        (lambda x: x.astype(int) * x, [2.5], [2]),
        (np.prod, [0.0, 3, 4], [12, 0, 0]),
        (np.prod, [0.0, 0, 4], [0, 0, 0]),
    ],
)
def test_conventions(f, x, expected):
    np.testing.assert_allclose(at.grad(lambda x: np.sum(f(x)))(np.array(x)), expected, rtol=1e-12)


@pytest.mark.parametrize("f", [lambda x: x**0, lambda x: x**1, lambda x: x ** np.array(1.0), lambda x: np.linalg.norm(x * np.ones(2))])
def test_conventions_of_second_derivatives(f):
    assert at.grad(at.grad(f))(0.0) == 0


def test_square_of_zero_has_second_derivative_2():
    assert at.grad(at.grad(lambda x: x ** np.array(2.0)))(0.0) == at.grad(at.grad(lambda x: x**2))(0.0) == 2


@pytest.mark.parametrize("zeros", [[0], [0, 3], [1, 2, 4]])
def test_prod_with_zeros_to_order_2(zeros):
    (x,) = distinct(0, [(2, 5)], [(0.3, 2)])
    x[0, zeros] = 0
    for axis in (None, 0, 1):
        check_grads(lambda x, axis=axis: np.prod(x, axis), (x,))


# ---------------------------------------------------------------- dtypes that overflow, options that are NumPy's scalars


def test_float16_means_do_not_overflow():
    x = np.full(70_000, 300, np.float16)
    for f, expected in ((np.mean, 300), (np.var, 0), (np.std, 0), (np.max, 300)):
        y, g = at.value_and_grad(f)(x)
        assert y == expected and y.dtype == g.dtype == np.float16
        np.testing.assert_allclose(g, 1 / 70_000 if f in (np.mean, np.max) else 0, rtol=0.01)
    x[::2] = 0
    assert np.std(at.array(x)).item() == 150 and np.linalg.norm(at.array(x[:40_000])).item() == np.float16(300 * 20_000**0.5)
    assert np.mean(at.array(np.full(4, 2**62))).item() == 2**62


@pytest.mark.parametrize("f", [np.var, np.std], **by_name)
def test_ddof_is_any_number_and_may_leave_nothing(f):
    x = np.array([1, 2, 4], np.float32)
    for ddof in (np.int64(1), np.float64(0.5), True):
        g = at.grad(lambda x, ddof=ddof: f(x, ddof=ddof))(x)
        assert g.dtype == np.float32
        np.testing.assert_allclose(g, at.grad(lambda x, ddof=ddof: f(x, ddof=float(ddof)))(x))
    with np.errstate(all="ignore"):
        assert [f(at.array(v), ddof=n).item() for v, n in ((x, 3), (x, 4))] == [np.inf, np.inf]
        assert np.isnan(f(at.array(np.ones(3)), ddof=3).item())


@pytest.mark.parametrize("f", [np.mean, np.var, np.std], **by_name)
@pytest.mark.parametrize("axis", [0, -1, (0,), np.int64(0), 1])
def test_a_number_has_no_axis_to_take_the_mean_over(f, axis):
    with pytest.raises(ValueError, match=r"axis -?\d is out of bounds"):
        f(at.array(1.0), axis=axis)
    assert f(at.array(1.0), axis=()).item() == (f is np.mean)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.bool_, np.float32, np.complex64])
def test_rint_has_numpys_dtypes(dtype):
    agrees(np.rint, np.ones(3, dtype))


@pytest.mark.parametrize("shape, ord", [((2, 0), 1), ((2, 0), np.inf), ((0, 2), 1), ((0,), np.inf), ((0, 2), -1), ((2, 0), -np.inf)])
def test_norms_of_nothing_are_0(shape, ord):
    assert np.linalg.norm(at.array(np.zeros(shape)), ord).item() == 0


def test_complex_norms():
    x = np.array([1j, 1, 0])
    for ord in (0, 1, np.inf, -np.inf):
        agrees(lambda x, ord=ord: np.linalg.norm(x, ord), x)
    for f in (np.var, np.std, np.linalg.norm, lambda x: np.linalg.norm(x, 3), lambda x: np.linalg.norm(x.reshape(1, 3), "fro")):
        with pytest.raises(TypeError, match=r"^(var|std|norm): x must be real, not complex128"):
            f(at.array(x))


@pytest.mark.parametrize("shapes", [((3, 4), (4, 2)), ((3, 4), (4,)), ((2, 3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2)), ((4,), (2, 4, 2))])
def test_float16_products_differentiate(shapes):
    xs = distinct(0, shapes, [(0.3, 2)] * 2)
    exact = at.grad(lambda xs: np.sum(xs[0] @ xs[1]))(xs)
    for g, e in zip(at.grad(lambda xs: np.sum(xs[0] @ xs[1]))([x.astype(np.float16) for x in xs]), exact, strict=True):
        assert g.dtype == np.float16
        np.testing.assert_allclose(g, e, rtol=0.01)


# ---------------------------------------------------------------- methods, Python's operators, Params

METHODS = {
    "sum": [(), (0,), (-1,)], "mean": [(), (0,)], "prod": [(1,)], "max": [(0,)], "min": [()], "var": [(0,)], "std": [(1,)], "any": [()],
    "all": [(0,)], "argmax": [(), (1,)], "argmin": [(0,)], "cumsum": [(), (1,)], "reshape": [(3, 2), ((3, 2),), (-1,), ([6, 1],)],
    "ravel": [()], "flatten": [()], "transpose": [(), (1, 0), ((1, 0),)], "swapaxes": [(0, 1)], "squeeze": [()],
    "astype": [(np.float32,), ("int64",)], "clip": [(0.5, 1.0)],
    "round": [(), (1,)], "take": [([0, 1], 1)], "repeat": [(2,), (2, 0)], "dot": [(np.ones((3, 2)),)], "copy": [()],
}  # fmt: skip


@pytest.mark.parametrize("make", [at.array, at.Param])
@pytest.mark.parametrize("method", METHODS)
def test_methods(method, make):
    x = distinct(0, [(2, 3)], [(0.3, 2)])[0]
    for args in METHODS[method]:
        expected = getattr(x, method)(*args)
        found = getattr(make(x), method)(*args)
        assert isinstance(found, at.Tensor) and (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found.numpy(), expected)


@pytest.mark.parametrize("make", [at.array, at.Param])
def test_python_operators(make):
    x, y = distinct(0, [(2, 2), (2, 2)], [(0.5, 2)] * 2)
    t, u = make(x), make(y)
    for found, expected in [
        (t + u, x + y), (1 + t, 1 + x), (t - u, x - y), (1 - t, 1 - x), (y - t, y - x), (t * u, x * y), (2 * t, 2 * x), (t / u, x / y),
        (1 / t, 1 / x), (t // u, x // y), (3 // t, 3 // x), (t % u, x % y), (3 % t, 3 % x), (t**u, x**y), (2**t, 2**x), (t**2, x**2),
        (t @ u, x @ y), (y @ t, y @ x), (-t, -x), (+t, +x), (abs(-t), x), (t == u, x == y), (t != u, x != y), (t < u, x < y),
        (t <= u, x <= y), (t > u, x > y), (t >= 1, x >= 1), (divmod(t, u)[0], x // y), (divmod(3, t)[1], 3 % x),
        ((t > 1) & (u > 1), (x > 1) & (y > 1)), ((t > 1) | (y > 1), (x > 1) | (y > 1)), ((y > 1) ^ (t > 1), (x > 1) ^ (y > 1)),
        (~(t > 1), ~(x > 1)), (round(t, 1), np.round(x, 1)), (t.T, x.T), (t.mT, x.T), (t[0], x[0]),
    ]:  # fmt: skip
        assert isinstance(found, at.Tensor) and found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected)
    assert len({t, u, t}) == 2  # hash by identity
    assert [r.tolist() for r in t] == x.tolist() and t[0, 1].item() == x[0, 1]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.array_split(ary=x, indices_or_sections=2, axis=1),
        lambda x: np.cumsum(x, 1, None, None),
        lambda x: np.expand_dims(a=x, axis=0),
        lambda x: np.flip(m=x, axis=1),
        lambda x: np.full_like(a=x, fill_value=[1.0, 2, 3]),
        lambda x: np.full_like(x, 2.0, None, "K", True, (2,)),
        lambda x: np.hstack(tup=[x, x]),
        lambda x: np.linalg.tensordot(x, x, axes=2),
        lambda x: np.moveaxis(a=x, source=0, destination=1),
        lambda x: np.outer(x, b=x),
        lambda x: np.pad(array=x, pad_width=1, constant_values=2),
        lambda x: np.repeat(a=x, repeats=2),
        lambda x: np.roll(a=x, shift=1, axis=0),
        lambda x: np.split(ary=x, indices_or_sections=2),
        lambda x: np.squeeze(a=x),
        lambda x: np.swapaxes(a=x, axis1=0, axis2=1),
        lambda x: np.tile(A=x, reps=2),
    ],
)
def test_arrays_have_numpys_names(f):
    agrees(f, distinct(0, [(2, 3)], [(0.3, 2)])[0])


def test_shape_of_a_tensor_to_numpy():
    t = at.array(np.ones((2, 3)))
    assert (np.shape(t), np.ndim(t), np.size(t), np.size(t, 1)) == ((2, 3), 2, 6, 3)


# ---------------------------------------------------------------- what is refused

T = at.array(np.arange(6.0).reshape(2, 3))
REFUSED = [
    (lambda: np.sum(T, dtype=np.float32), TypeError, "np.sum.*dtype=.*astype"),
    (lambda: np.sum(T, 0, np.float32), TypeError, "np.sum.*dtype="),
    (lambda: np.sum(T, where=T.numpy() > 1), TypeError, "np.sum.*where="),
    (lambda: np.max(T, initial=3), TypeError, "np.max.*initial="),
    (lambda: np.tanh(T, out=np.zeros((2, 3))), TypeError, "np.tanh.*out=.*written"),
    (lambda: np.tanh(T, where=T.numpy() > 1), TypeError, "np.tanh.*where="),
    (lambda: np.clip(T, 0, 1, out=np.zeros(3)), TypeError, "np.clip.*out="),
    (lambda: np.add.reduce(T, dtype=np.float32), TypeError, "np.add.reduce.*dtype="),
    (lambda: np.concatenate([T, T], dtype=np.float32), TypeError, "np.concatenate.*dtype="),
    (lambda: np.stack([T, T], out=np.zeros((2, 2, 3))), TypeError, "np.stack.*out="),
    (lambda: np.einsum("ij->i", T, dtype=np.float32), TypeError, "np.einsum.*dtype="),
    (lambda: np.reshape(T, (3, 2), order="F"), TypeError, "order='F'"),
    (lambda: np.ravel(T, order="A"), TypeError, "order='A'"),
    (lambda: np.ravel(T, "K"), TypeError, "order='K'"),
    (lambda: T.reshape(3, 2.0), TypeError, "reshape"),
    (lambda: np.reshape(T, 6.5), TypeError, "reshape.*integer"),
    (lambda: np.tile(T, 1.5), TypeError, "integer"),
    (lambda: np.ones_like(T, device="cpu"), TypeError, "device="),
    (lambda: np.take(T, [0], mode="clip"), TypeError, "mode='raise'"),
    (lambda: np.full_like(np.ones(3), T), TypeError, "np.broadcast_to"),
    (lambda: np.sinc(T), TypeError, "np.sinc"),
    (lambda: T.reshape(4, 2), ValueError, "reshape"),
    (lambda: T.reshape(4, -1), ValueError, r"reshape.*\(4, -1\)"),
    (lambda: T @ T, ValueError, "matmul"),
    (lambda: T + T[0, :2], ValueError, r"add.*\(2,\)"),
    (lambda: T[5], IndexError, "getitem.*index 5"),
    (lambda: T["a"], IndexError, "getitem"),
    (lambda: T.at[7].set(1.0), IndexError, "index_set"),
    (lambda: T.at[0].set(np.ones(7)), ValueError, "index_set"),
    (lambda: T.sum(5), ValueError, "sum.*axis 5"),
    (lambda: T.sum((0, 0)), ValueError, "sum.*axis"),
    (lambda: np.transpose(T, (0, 0)), ValueError, "transpose"),
    (lambda: np.squeeze(T, 0), ValueError, "squeeze: axis 0"),
    (lambda: np.split(T, 2, axis=1), ValueError, "split: axis 1.*array_split"),
    (lambda: np.stack([T, T[0]]), ValueError, "stack: .*one shape"),
    (lambda: np.pad(T, 1, mode="mean"), ValueError, "pad: mode"),
    (lambda: np.pad(T, -1), ValueError, "pad: pad_width"),
    (lambda: np.pad(T, 1.7), TypeError, "pad: pad_width must be whole numbers, got 1.7"),
    (lambda: at.grad(lambda v: np.pad(T, 1, constant_values=v).sum())(1.0), TypeError, "stop_gradient"),
    (lambda: np.cumsum(at.array(1.0), 1), ValueError, "axis 1"),
    (lambda: np.squeeze(at.array(1.0), 1), ValueError, "axis 1"),
    (lambda: np.swapaxes(T, 0, 2), ValueError, "axis2: axis 2 is out of bounds"),
    (lambda: np.concatenate([T, T.T]), ValueError, r"^concatenate\(.*\(3, 2\)"),
    (lambda: np.concatenate([T, "a"]), TypeError, r"^concatenate\(.*'a'"),
    (lambda: np.einsum("ij,jk->ik", T, T), ValueError, r"^einsum\(.*\(2, 3\)"),
    (lambda: np.moveaxis(T, (0, 1), 0), ValueError, "moveaxis"),
    (lambda: at.array(np.ones(3)).mT, ValueError, "matrix_transpose"),
    (lambda: np.tensordot(T, T.T), ValueError, "tensordot: the axes"),
    (lambda: np.linalg.norm(T, 2), ValueError, "norm: .*singular values"),
    (lambda: np.linalg.norm(T, "nuc"), ValueError, "norm: .*'nuc'"),
    (lambda: np.linalg.norm(T[0], "fro"), ValueError, "norm: .*'fro'"),
    (lambda: np.linalg.norm(T.reshape(1, 2, 3), 1), ValueError, "norm: ord=1"),
    (lambda: np.einsum(T, [0, 1]), TypeError, "einsum: subscripts must be text"),
    (lambda: np.einsum("ijk", T), ValueError, "einsum: 'ijk'"),
    (lambda: np.einsum("ij->kk", T), ValueError, "einsum: the output"),
    (lambda: np.einsum("...j->j", T), ValueError, "einsum: .*ellipsis"),
    (lambda: np.einsum("ij,jk", T), ValueError, "einsum: .*2 operands"),
    (lambda: np.broadcast_to(T, (3, -1, 3)), ValueError, "broadcast_to.*negative"),
    (lambda: np.tile(T, -1), ValueError, "negative"),
    (lambda: np.full_like(T[:, :1], [1.0, 2, 3]), ValueError, r"^full_like\(.*\(3,\)"),
    (lambda: np.concatenate([T, T], axis=()), TypeError, "concatenate.*tuple"),
    (lambda: np.stack([T, T], axis=()), TypeError, "concatenate.*tuple"),
    (lambda: np.cumsum(T, (0,)), TypeError, "tuple"),
    (lambda: np.take(T, [0], (0,)), TypeError, "tuple"),
    (lambda: np.repeat(T, 2, ()), TypeError, "tuple"),
    (lambda: np.swapaxes(T, (0,), 1), TypeError, "tuple"),
    (lambda: np.clip(T, a_min=None, a_max=1, min=0), (ValueError, TypeError), "min"),
    (lambda: np.clip(T, a_max=0.5), TypeError, "a_min"),
    (lambda: np.linalg.outer(T, T), ValueError, "np.linalg.outer takes 1-d"),
    (lambda: np.add.accumulate(at.array(1.0)), TypeError, "0-d"),
    (lambda: np.add.accumulate(T, axis=(0, 1)), ValueError, "one axis"),
    (lambda: np.add.accumulate(T, axis=None), ValueError, "one axis"),
    (lambda: np.array_split(T, 0), ValueError, "one section or more"),
    (lambda: np.array_split(at.array(1.0), [1]), IndexError, "out of range"),
    (lambda: np.linalg.norm(at.array(np.zeros(0)), -np.inf), ValueError, "min"),
    (lambda: iter(at.array(1.0)), TypeError, "0-d"),
    (lambda: T & T, TypeError, "booleans"),
    (lambda: pow(T, 2, 3), TypeError, "power"),
    (lambda: T + "a", TypeError, "add.*'a'"),
    (lambda: T + None, TypeError, "add"),
    (lambda: opsets.load("v19"), ValueError, "'v19' is unknown.*'array'.*'v20'"),
]


@pytest.mark.parametrize("call, kind, says", REFUSED, ids=[says for *_, says in REFUSED])
def test_refused(call, kind, says):
    with pytest.raises(kind, match=says):
        call()


def test_a_tracked_value_is_not_turned_into_a_number():
    for call in (lambda x: x.item(), lambda x: x.tolist(), lambda x: np.full(2, x)):
        with pytest.raises(TypeError, match=r"stop_gradient|broadcast_to"):
            at.grad(lambda x, call=call: call(x))(np.array(1.0))


def test_opsets_by_name():
    assert opsets.names() == ["array", "v20"] and opsets.load("array") is ops
    assert all(hasattr(ops, n) for n in ops.__all__)
