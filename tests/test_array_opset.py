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

FEW = settings(max_examples=settings().max_examples // 8)
FLOATS = st.sampled_from([np.float32, np.float64])
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
COMPLEX = pytest.mark.numpy_only("complex numbers")


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
    np.arcsinh: (-3, 3), np.arccosh: (1.2, 3), np.arctanh: (-0.9, 0.9), np.exp2: (-2, 2), np.deg2rad: (-200, 200), np.rad2deg: (-4, 4),
    np.radians: (-200, 200), np.degrees: (-4, 4), np.sinc: (-3, 3), np.nan_to_num: (-2, 2), np.fabs: [(-2, -0.1), (0.1, 2)],
    np.absolute: [(-2, -0.1), (0.1, 2)], np.negative: (-2, 2), np.positive: (-2, 2), np.reciprocal: [(-2, -0.3), (0.3, 2)],
}  # fmt: skip
STEPS = [np.sign, np.floor, np.ceil, np.trunc, np.rint, np.round, np.isnan, np.isinf, np.isfinite, np.signbit, np.logical_not]
BINARY = [
    np.add, np.subtract, np.multiply, np.divide, np.power, np.arctan2, np.remainder, np.fmod, np.maximum, np.minimum, np.fmax, np.fmin,
    np.hypot, np.logaddexp, np.logaddexp2, np.float_power, np.copysign, np.heaviside,
]  # fmt: skip
COMPARISONS = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
WITHOUT_RULE = [*COMPARISONS, np.logical_and, np.logical_or, np.logical_xor, np.floor_divide, np.isclose]
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
        check_grads(f, (4 * a if f in (np.remainder, np.fmod) else a, b), rtol=1e-4)


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


OF_MATRICES = {
    "trace": np.trace, "diagonal": np.diagonal, "diag": np.diag, "diagflat": np.diagflat, "tril": np.tril, "triu": np.triu,
    "cumprod": lambda x: np.cumprod(x, 0), "diff": np.diff, "diff, prepend": lambda x: np.diff(x, prepend=0), "trapezoid": np.trapezoid,
    "average": np.average, "average, weights": lambda x: np.average(x, 0, [1, 2]), "rot90": np.rot90,
    "count": lambda x: np.average(x, 0, returned=True), "count of weights": lambda x: np.average(x, 0, np.float32([1, 2]), True),
    "count_nonzero": lambda x: np.count_nonzero(x, 0), "nansum": np.nansum, "nanmean": np.nanmean, "nanmax": np.nanmax,
    "nanmin": lambda x: np.nanmin(x, 0), "kron": lambda x: np.kron(x, np.float32([2])), "kron with a number": lambda x: np.kron(x, 2),
    "append": lambda x: np.append(x, [1.0]), "insert": lambda x: np.insert(x, 1, 2.7, 0), "delete": lambda x: np.delete(x, 1),
    "block": lambda x: np.block([[x, x], [np.ones((1, 6), np.float32)]]), "multi_dot": lambda x: np.linalg.multi_dot([x, x.T]),
    "select": lambda x: np.select([x > 0], [x], 1.5), "choose": lambda x: np.choose([0, 1, 0], [x, 2.5]),
    "extract": lambda x: np.extract(x, x), "insert into a list": lambda x: np.insert([[1, 2, 3]], 0, x, 0),
    "list of weights": lambda x: np.average([[1, 2, 3]], 1, x[1]), "points of a list": lambda x: np.trapezoid([1, 2, 4], x=x[0]),
    "matrix_power": lambda x: [np.linalg.matrix_power(x[:, :2], n) for n in (0, 3)], "vdot": lambda x: np.vdot(x, x),
    "vector_norm": np.linalg.vector_norm, "matrix_norm": np.linalg.matrix_norm, "meshgrid": lambda x: np.meshgrid(x[0], x[1]),
    "vecdot": lambda x: np.vecdot(x, np.float32([1, 2, 3])), "compress": lambda x: np.compress([1, 0], x, 0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_, np.float32, np.float64])
@pytest.mark.parametrize("name", OF_MATRICES)
def test_dtypes_of_results_of_matrices(name, dtype):
    agrees(OF_MATRICES[name], np.array([[1, 0, 1], [1, 1, 1]]).astype(dtype))


def test_some_take_numbers_of_a_kind():
    x = np.array([[3, 0, 250], [1, 2, 4]], np.uint8)
    for f in (np.ptp, np.ediff1d, np.cumprod, lambda x: np.cross(x, x[::-1]), lambda x: np.ediff1d(x, x[0])):
        for dtype in (np.uint8, np.int64, np.float32):
            agrees(f, x.astype(dtype))


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


MASKS = [np.array([1, 0, 1]), np.array([np.nan, 0, -0.5]), pytest.param(np.array([1j, 0, 1]), marks=COMPLEX), [1, 0, 1]]


@pytest.mark.parametrize("mask", MASKS)
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
CONDITIONS = [np.array([True, False, True]), np.array([[True], [False]])]
CASES |= {
    "trace": (lambda x: np.trace(x, 1) + x.trace(-1) + np.trace(x, 9), (3, 4)),
    "trace, axes": (lambda x: np.trace(x, offset=1, axis1=-1, axis2=0) + np.linalg.trace(x).sum(), (3, 4, 3)),
    "diagonal": (lambda x: np.diagonal(x, -1) * np.diag(x, -1) * x.diagonal(-1), (4, 3)),
    "diagonal, axes": (lambda x: np.diagonal(x, 1, 2, 0), (3, 2, 4)),
    "diagonal outside": (lambda x: np.diagonal(x, 5), (2, 3)),
    "diagonals of a stack": (lambda x: np.linalg.diagonal(x, offset=-1), (2, 4, 3)),
    "diag": (lambda x: np.diag(x) + np.diag(x[:-1], -1) + np.diag(x[1:], 1), (3,)),
    "diag of nothing": (lambda x: np.diag(x, 2), (0,)),
    "diagflat": (lambda x: np.diagflat(x, -2) + np.diagflat(x, k=2), (2, 2)),
    "diagflat of a number": (lambda x: np.diagflat(x), ()),
    "tril": (lambda x: np.tril(x, 1) * np.tril(x, -1) + np.tril(x), (2, 3, 4)),
    "triu": (lambda x: np.triu(x, 1) + np.triu(x, -1) * np.triu(x), (2, 4, 3)),
    "triangles of a vector": (lambda x: np.tril(x) + np.triu(x, 1) * 2, (3,)),
    "kron": (lambda a, b: np.kron(a, b), (2, 3), (2, 2)),
    "kron, fewer axes": (lambda a, b: np.kron(a, b), (2,), (2, 1, 3)),
    "kron, more axes": (lambda a, b: np.kron(a, b), (2, 1, 2), (3, 2)),
    "kron with a number": (lambda a, b: np.kron(a, b) + np.kron(2, b), (), (2, 3)),
    "cross": (lambda a, b: np.cross(a, b) * np.linalg.cross(a, b), (2, 3), (3,)),
    "cross, axes": (lambda a, b: np.cross(a, b, 0, -1, 1), (3, 2, 4), (4, 3)),
    "cross, axis": (lambda a, b: np.cross(a, b, axis=0) * np.linalg.cross(a, b, axis=0), (3, 2), (3, 2)),
    "vdot": (lambda a, b: np.vdot(a, b), (2, 3), (3, 2)),
    "vdot of numbers": (lambda a, b: np.vdot(a, b), (), ()),
    "vecdot": (lambda a, b: np.vecdot(a, b) + np.linalg.vecdot(a, b), (2, 1, 3), (4, 3)),
    "vecdot, axis": (lambda a, b: np.vecdot(a, b, axis=0) * np.linalg.vecdot(a, b, axis=0), (3, 2), (3, 2)),
    "multi_dot": (lambda a, b, c: np.linalg.multi_dot([a, b, c]), (2, 5), (5, 3), (3, 4)),
    "multi_dot of vectors": (lambda a, b, c: np.linalg.multi_dot([a, b, b.T, b, c]), (4,), (4, 3), (3,)),
    "multi_dot of two": (lambda a, b: np.linalg.multi_dot((a, b)), (2, 3), (3,)),
    **{f"matrix_power {n}": (lambda x, n=n: np.linalg.matrix_power(x, n), (2, 3, 3)) for n in (0, 1, 2, 3, 6, 7)},
    "atleast": (lambda x: np.atleast_1d(x) + np.atleast_2d(x) + np.atleast_3d(x), ()),
    "atleast of several": (lambda a, b: [*np.atleast_1d(a, b), *np.atleast_2d(a, b), *np.atleast_3d(a, b)], (2,), (2, 3)),
    "atleast of enough": (lambda x: np.atleast_1d(x) * np.atleast_2d(x) * np.atleast_3d(x), (2, 3, 1, 2)),
    "dstack": (lambda a, b: np.dstack([a, b]), (2,), (1, 2)),
    "dstack, 3-d": (lambda a, b: np.dstack((a, b)), (2, 2), (2, 2, 3)),
    "column_stack": (lambda a, b: np.column_stack([a, b, a]), (2,), (2, 3)),
    "block": (lambda a, b: np.block([[a, b[:, :1]], [np.zeros((1, 2)), 3.0], [b]]), (2, 2), (2, 3)),
    "block of a row": (lambda a, b: np.block([a, b, 1.0]), (2,), (2,)),
    "block, 3-d": (lambda a, b: np.block([[[a]], [[b]]]) + np.block([b, b]).sum() + np.block(a).sum(), (2, 3), (4, 2, 3)),
    "append": (lambda a, b: np.append(a, b), (2, 2), (3,)),
    "append, axis": (lambda a, b: np.append(a, values=b, axis=-1), (2, 2), (2, 1)),
    "insert": (lambda x, v: np.insert(x, 1, v, axis=1), (2, 3), (2,)),
    "insert many at one place": (lambda x, v: np.insert(x, [1], v, axis=-1), (2, 3), (2, 2)),
    "insert many at -1": (lambda x, v: np.insert(x, -1, v), (2, 3), (4,)),
    "insert at several": (lambda x, v: np.insert(x, [3, 1, 1], v, 0), (3, 2), (2,)),
    "insert at a slice": (lambda x, v: np.insert(x, slice(0, 3, 2), v, axis=1), (2, 3), (2, 1)),
    "insert nowhere": (lambda x: np.insert(x, [], 2.0), (3,)),
    "insert a number": (lambda x: np.insert(x, 0, 2, axis=0) * np.insert(x, 2, 2, axis=0), (2, 3)),
    "delete": (lambda x: np.delete(x, 1, 0) * np.delete(x, [-1, -1], axis=0), (3, 2)),
    "delete a slice": (lambda x: np.delete(x, slice(None, None, 2), -1), (2, 5)),
    "delete booleans": (lambda x: np.delete(x, np.array([True, False, True]), 1), (2, 3)),
    "delete flat": (lambda x: np.delete(x, [0, 4]), (2, 3)),
    "diff": (lambda x: np.diff(x) * np.diff(x, n=1, axis=1), (2, 4)),
    "diff, n": (lambda x: np.diff(x, 2, 0), (4, 2)),
    "diff, 0": (lambda x: np.diff(x, 0) * 1, (3,)),
    "diff of too few": (lambda x: np.diff(x, 3), (2, 2)),
    "diff, more": (lambda x, a: np.diff(x, prepend=0, append=a), (2, 3), (2, 2)),
    "diff, more on axis 0": (lambda x, a: np.diff(x, axis=0, prepend=a), (2, 3), ()),
    "ediff1d": (lambda x: np.ediff1d(x), (2, 3)),
    "ediff1d with ends": (lambda x, a: np.ediff1d(x, to_end=a, to_begin=[1, 2]), (2, 3), (2, 1)),
    "ediff1d of nothing": (lambda x: np.ediff1d(x, to_end=1), (0,)),
    "trapezoid": (lambda y: np.trapezoid(y) * np.trapezoid(y, dx=0.5, axis=-1), (2, 3)),
    "trapezoid at points": (lambda y, x: np.trapezoid(y, x, axis=0), (3, 2), (3,)),
    "trapezoid at points of each": (lambda y, x: np.trapezoid(y, x, axis=1), (2, 3), (2, 3)),
    "rot90": (lambda x: [np.rot90(x), np.rot90(x, 2), np.rot90(x, -1), np.rot90(x, k=4)], (2, 3)),
    "rot90, axes": (lambda x: np.rot90(x, 1, (2, 0)) + np.rot90(x, 3, (0, -1)).sum(), (2, 3, 4)),
    "fliplr": (lambda x: np.fliplr(x) * np.flipud(x), (3, 2)),
    "meshgrid": (lambda a, b: np.meshgrid(a, b), (2,), (3,)),
    "meshgrid of three": (lambda a, b, c: np.meshgrid(a, b, c), (2,), (3,), ()),
    "meshgrid ij": (lambda a, b: np.meshgrid(a, b, indexing="ij"), (2,), (3,)),
    "meshgrid, sparse": (lambda a, b, c: np.meshgrid(a, b, c, sparse=True, copy=False), (2,), (3,), (4,)),
    "broadcast_arrays": (lambda a, b, c: np.broadcast_arrays(a, b, c), (2, 1), (3,), ()),
    "hsplit": (lambda x: [*np.hsplit(x, 2), *np.hsplit(x[0], [1])], (3, 4)),
    "vsplit": (lambda x: np.vsplit(x, [1]), (3, 2)),
    "dsplit": (lambda x: np.dsplit(x, 2), (1, 2, 4)),
    "compress": (lambda x: np.compress([True, False, True], x, axis=1) + x.compress([0, 1, 2], 1), (2, 3)),
    "compress flat": (lambda x: np.compress(np.array([0.0, 1, 0, 2]), x), (2, 3)),
    "extract": (lambda x: np.extract(MASK, x) * np.extract(x > 0, x).sum(), MASK.shape),
    "select": (lambda a, b: np.select(CONDITIONS, [a, b], 3), (3,), (2, 3)),
    "select, numbers": (lambda a: np.select([CONDITIONS[0], a > 1], [1, a]), (2, 3)),
    "choose": (lambda a, b: np.choose(np.array([[0, 1, 2], [2, 2, 1]]), [a, b, 3.0]), (3,), (2, 1)),
    "choose, modes": (lambda a: np.choose([3, -1, 1], a, mode="clip") * np.choose([3, -1, 1], a, mode="wrap"), (2, 3)),
    "cumprod": (lambda x: np.cumprod(x, 1) * x.cumprod(-1), (2, 5)),
    "cumprod flat": (lambda x: np.cumprod(x), (2, 3)),
    "cumprod, axis 0": (lambda x: np.cumprod(x, axis=0), (4, 1, 2)),
    "cumprod of nothing": (lambda x: np.cumprod(x, 1), (2, 0)),
    "average": (lambda x: np.average(x) + np.average(x, 0) + np.average(x, axis=1, keepdims=True), (2, 3)),
    "average by weights": (lambda x, w: np.average(x, weights=w) * np.average(x, 1, w, keepdims=True), (2, 3), (2, 3)),
    "average by weights of an axis": (lambda x, w: np.average(x, 1, w, True), (2, 3, 2), (3,)),
    "average by weights of axes": (lambda x, w: np.average(x, (2, 0), w), (2, 3, 4), (4, 2)),
    "average and count": (lambda x: np.average(x, axis=1, returned=True), (2, 3)),
    "ptp": (lambda x: np.ptp(x) * np.ptp(x, 0) + np.ptp(x, axis=1, keepdims=True), (2, 3)),
    "count_nonzero": (lambda x: np.count_nonzero(x, axis=0) * x + np.count_nonzero(x) + np.count_nonzero(x, 1, keepdims=True), (2, 3)),
    "nansum and kin": (lambda x: np.nansum(x, 0) * np.nanmean(x) + np.nanmax(x, axis=1, keepdims=True) * np.nanmin(x, 0), (2, 3)),
    "vector_norm": (lambda x: np.linalg.vector_norm(x) * np.linalg.vector_norm(x, axis=1, ord=3), (2, 3)),
    "vector_norm, axes": (lambda x: np.linalg.vector_norm(x, axis=(0, 2), keepdims=True, ord=1), (2, 3, 2)),
    "vector_norm, keepdims": (lambda x: np.linalg.vector_norm(x, keepdims=True, ord=np.inf), (2, 3)),
    "matrix_norm": (lambda x: np.linalg.matrix_norm(x, keepdims=True) * np.linalg.matrix_norm(x, ord=1, keepdims=True), (2, 3, 2)),
}
if hasattr(np, "matvec"):  # NumPy 2.2
    CASES["matvec"] = (lambda a, b: np.matvec(a, b), (2, 1, 3, 4), (5, 4))
    CASES["vecmat"] = (lambda a, b: np.vecmat(a, b), (5, 3), (2, 1, 3, 4))
CASES["norm of all"] = (lambda x: np.linalg.norm(x), (2, 3, 2))


def arguments(shapes):
    return distinct(len(shapes), shapes, [(0.3, 2)] * len(shapes))


old_forms = pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")


@old_forms
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
        return [p**2 for p in y] if isinstance(y, (list, tuple)) else y**2

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
        (np.fabs, [0.0, -1, 2], [0, -1, 1]),
        (lambda x: np.hypot(x, [0.0, 0, 4]), [0.0, -2, 3], [0, -1, 0.6]),
        (lambda x: np.fmax(x, [1.0, np.nan, 3, 3, np.nan]), [1.0, 2, 4, np.nan, np.nan], [0.5, 1, 1, 0, 0]),
        (lambda x: np.fmin([1.0, np.nan, 3, 3, np.nan], x), [1.0, 2, 4, np.nan, np.nan], [0.5, 1, 0, 0, 0]),
        (lambda x: np.fmax(x, x) + np.fmin(x, x), [1.0], [2]),
        (lambda x: np.logaddexp(x, [0.0, -np.inf, -np.inf]), [-np.inf, 0, -np.inf], [0, 1, 0.5]),
        (lambda x: np.logaddexp(x, [np.inf, np.inf, 0]), [np.inf, 0, np.inf], [0.5, 0, 1]),
        (lambda x: np.logaddexp2([0.0, -np.inf, -np.inf], x), [-np.inf, 0, -np.inf], [0, 1, 0.5]),
        (lambda x: np.logaddexp(x, 0) + np.logaddexp2(1000, x), [1000.0, -1000], [1.5, 0]),
        (lambda x: np.copysign(x, [1.0, -1, -0.0, -1]), [0.0, 2, 2, -2], [0, -1, -1, 1]),
        (lambda x: np.copysign(2, x), [0.0, -1], [0, 0]),
        (lambda x: np.heaviside(x, 0.5), [0.0, 1], [0, 0]),
        (lambda x: np.heaviside([0, 1, -1, np.nan], x), [3.0, 3, 3, 3], [1, 0, 0, 0]),
        (lambda x: np.fmod([7, -7, 7.5, 1], x), [2.0, 2, -2, np.inf], [-3, 3, 3, 0]),
        (lambda x: np.float_power(x, 0) + np.float_power(x, 2), [0.0, 3], [0, 6]),
        (lambda x: np.nan_to_num(x), [np.nan, np.inf, -np.inf, 2], [0, 0, 0, 1]),
        (lambda x: np.floor(x) + np.round(x) + np.trunc(x) + x // 1, [0.3], [0]),
        (lambda x: x.astype(int) * x, [2.5], [2]),
        (np.prod, [0.0, 3, 4], [12, 0, 0]),
        (np.cumprod, [2.0, 0, 3, 0, 5], [1, 8, 0, 0, 0]),
        (np.cumprod, [0.0, 3, 4], [16, 0, 0]),
        (lambda x: np.nansum(x) * np.nanmean(x), [np.nan, 1, 3], [0, 4, 4]),
        (np.nanmax, [np.nan, 2, 2, 1], [0, 0.5, 0.5, 0]),
        (np.nanmin, [np.nan, 2, 2, 1], [0, 0, 0, 1]),
        (np.ptp, [1.0, 1, 3], [-0.5, -0.5, 1]),
        (np.linalg.vector_norm, [0.0, 0], [0, 0]),
        (lambda x: np.count_nonzero(x) * x, [2.0, 0], [1, 1]),
        (lambda x: np.choose(x > 1, [x, 3 * x]), [1.0, 2], [1, 3]),
        (lambda x: np.compress(x > 1, x) + np.extract(x > 1, x), [1.0, 2], [0, 2]),
        (lambda x: np.linalg.matrix_power(x * np.ones((2, 2)), 0), [1.0, 2], [0, 0]),
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


@pytest.mark.parametrize("f", [lambda x: np.hypot(x, 0), lambda x: np.hypot(0.0, x)])
def test_second_derivative_of_hypot_at_the_origin(f):
    assert at.grad(at.grad(f))(0.0) == 0


@pytest.mark.parametrize("f, second", [(np.logaddexp, 1 / 4), (np.logaddexp2, np.log(2) / 4)])
def test_equal_arguments_of_logaddexp_have_second_derivatives(f, second):
    for g in (lambda x: f(x, 3.0), lambda x: f(3.0, x)):
        np.testing.assert_allclose(at.grad(at.grad(g))(3.0), second)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_of_sinc_near_zero(dtype):
    x = np.array([0, 1e-30, 1e-8, -1e-4, 1e-3, 0.01, -0.1, 1 / np.pi, 0.5, 2 / np.pi, 1, 1.3, 30], dtype)
    t, w = np.polynomial.legendre.leggauss(80)
    t, w = (t + 1) / 2 * np.pi, w / 2  # the n-th derivative is the mean of t ** n cos(t x + n pi / 2) over t from 0 to pi
    f = np.sinc
    for n in range(6):
        y = f(at.array(x)).numpy() if n == 0 else f(x)
        assert y.dtype == dtype
        exact = np.cos(np.multiply.outer(x.astype(np.float64), t) + n * np.pi / 2) @ (w * t**n)
        np.testing.assert_allclose(y, exact, rtol=0, atol=100 * np.finfo(dtype).eps * np.pi**n)
        np.testing.assert_allclose(y[1:7], exact[1:7], rtol=30 * np.finfo(dtype).eps, atol=1e-14 * np.pi**n)
        f = at.grad(lambda x, f=f: np.sum(f(x)))


def test_closeness():
    x = np.array([1, 1 + 1e-6, np.nan, np.inf, -np.inf, np.inf, 0, 3])
    y = np.array([1, 1, np.nan, np.inf, np.inf, 3, 1e-9, np.inf])
    for options in ({}, {"equal_nan": True}, {"rtol": 0, "atol": 1e-7}):
        agrees(lambda x, y, options=options: np.isclose(x, y, **options), x, y)
        agrees(lambda x, y, options=options: np.isclose(y, x, **options), x, y)
    agrees(np.isclose, np.array([200, 3], np.uint8), np.array([201, 3], np.uint8))
    agrees(np.isclose, np.array([True, False]), np.array([True, True]))
    for a, b in ((x, y), (x[:2], y[:2]), (x[:3], y[:3]), (x[:0], y[:0]), (x[:1], x[:2]), (x, x)):
        for f in (np.allclose, np.array_equal):
            for equal_nan in (False, True):
                found = f(at.array(a), b, equal_nan=equal_nan)
                assert (found.shape, found.dtype, bool(found)) == ((), bool, f(a, b, equal_nan=equal_nan))
    assert not at.grad(lambda x: np.sum(x * np.isclose(x, 2.0)) + np.allclose(x, x) * 0)(np.ones(2)).any()


def test_numbers_for_nan():
    x = np.array([np.nan, np.inf, -np.inf, 2])
    for dtype in (np.float16, np.float32, np.float64):
        agrees(np.nan_to_num, x.astype(dtype))
        agrees(lambda x: np.nan_to_num(x, True, 1.5, posinf=3, neginf=np.float64(-3)), x.astype(dtype))
    agrees(np.nan_to_num, np.arange(3))


@COMPLEX
def test_numbers_for_the_parts_of_complex_nan():
    x = np.array([1j, complex(np.nan, 2), complex(3, -np.inf)])
    agrees(np.nan_to_num, x)
    agrees(lambda x: np.nan_to_num(x, nan=4.0, neginf=-7.0), x.astype(np.complex64))
    g = at.grad(lambda x: np.sum(np.real(y := np.nan_to_num(x, neginf=0.0)) + 2 * np.imag(y)))(x)
    assert g.tolist() == [1 - 2j, -2j, 1]


@COMPLEX
def test_float_power_of_complex_numbers():
    agrees(lambda a: np.float_power(a, 0.5), np.array([1j, 2]))


def test_float_power_is_in_float64():
    for a, b in ((np.arange(1, 4), -2), (np.float32([1, -0.0]), 3), (np.float32([2, 3]), np.int8([-1, 2]))):
        agrees(lambda a, b=b: np.float_power(a, b), a)
    agrees(lambda x: np.float_power(2, x), np.arange(-2, 3))
    x = np.float32([1, 2, 3])
    assert (g := at.grad(lambda x: np.sum(np.float_power(x, 2)))(x)).dtype == np.float32 and g.tolist() == [2, 4, 6]


@pytest.mark.parametrize("zeros", [[], [0], [0, 3], [1, 2, 4]])
@pytest.mark.parametrize("name", BACKENDS)
def test_cumprod_with_zeros_to_order_2(zeros, name):
    (x,) = distinct(0, [(2, 5)], [(0.3, 2)])
    x[0, zeros] = 0
    agrees(lambda x: np.cumprod(x, -1), x)
    with backend.use(name):
        check_grads(lambda x: np.cumprod(x, -1), (x,), rtol=1e-4, atol=1e-5)
        check_grads(lambda x: np.cumprod(x, 0) ** 2, (x,), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("f", [np.nansum, np.nanmean, np.nanmax, np.nanmin], **by_name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of an axis with nothing but NaN
def test_nan_left_out(f, dtype):
    x = np.array([[1, np.nan, np.nan], [3, -2, np.nan], [-np.inf, 5, np.nan]], dtype)
    for axis in (None, 0, 1, (0, 1)):
        agrees(lambda x, axis=axis: f(x, axis=axis), x)
        agrees(lambda x, axis=axis: f(x[:2, :2], axis=axis, keepdims=True), x)
    g = at.grad(lambda x: np.nansum(f(x[:2], axis=0)))(x)
    assert g.dtype == dtype and (g[:, 2] == 0).all() and np.isfinite(g).all()


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


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.bool_, np.float32, pytest.param(np.complex64, marks=COMPLEX)])
def test_rint_has_numpys_dtypes(dtype):
    agrees(np.rint, np.ones(3, dtype))


@pytest.mark.parametrize("shape, ord", [((2, 0), 1), ((2, 0), np.inf), ((0, 2), 1), ((0,), np.inf), ((0, 2), -1), ((2, 0), -np.inf)])
def test_norms_of_nothing_are_0(shape, ord):
    assert np.linalg.norm(at.array(np.zeros(shape)), ord).item() == 0


@COMPLEX
def test_complex_norms():
    x = np.array([1j, 1, 0])
    for ord in (0, 1, 2, 3, None, np.inf, -np.inf):
        agrees(lambda x, ord=ord: np.linalg.norm(x, ord), x)
    for f in (np.var, np.std, lambda x: np.linalg.norm(x.reshape(1, 3), "fro")):
        agrees(f, x)


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
    "trace": [(), (1, 1, 0)], "diagonal": [(), (-1,), (0, 1, 0)], "cumprod": [(), (1,)], "compress": [([True, False],), ([0, 1, 1], 1)],
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
        lambda x: np.append(arr=x, values=[[1, 2, 3]], axis=0),
        lambda x: np.average(a=x, axis=0, weights=[1, 2], returned=True, keepdims=True),
        lambda x: np.block(arrays=[x, x]),
        lambda x: np.choose(a=[1, 0, 1], choices=x),
        lambda x: np.column_stack(tup=[x, x]),
        lambda x: np.compress(condition=[1, 0], a=x, axis=0),
        lambda x: np.cross(a=x, b=x[::-1], axisa=1, axisb=1, axisc=0),
        lambda x: np.cumprod(x, 1, None, None),
        lambda x: np.delete(arr=x, obj=1, axis=0),
        lambda x: np.diagonal(a=x, offset=1, axis1=0, axis2=1),
        lambda x: np.diag(v=x, k=1),
        lambda x: np.diff(a=x, n=1, axis=0, prepend=1, append=x),
        lambda x: np.dstack(tup=[x, x]),
        lambda x: np.ediff1d(ary=x, to_end=1.0, to_begin=2.0),
        lambda x: np.extract(condition=MASK[:2, 0], arr=x[:, 0]),
        lambda x: np.hsplit(ary=x, indices_or_sections=3),
        lambda x: np.insert(arr=x, obj=1, values=2, axis=0),
        lambda x: np.kron(a=x, b=x),
        lambda x: np.linalg.matrix_power(a=x[:, :2], n=2),
        lambda x: np.linalg.multi_dot(arrays=[x, x.T, x]),
        lambda x: np.nanmax(a=x, axis=0, keepdims=True),
        lambda x: np.ptp(a=x, axis=0, out=None, keepdims=True),
        lambda x: np.rot90(m=x, k=1, axes=(1, 0)),
        lambda x: np.select(condlist=[[True, False, True]], choicelist=[x], default=2),
        lambda x: np.trace(a=x, offset=1, axis1=1, axis2=0, dtype=None, out=None),
        lambda x: np.trapezoid(y=x, x=[1, 3, 4], axis=1),
        lambda x: np.tril(m=x, k=1),
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
    (lambda: np.cov(T, dtype=np.float32), TypeError, "np.cov.*dtype=.*astype"),
    (lambda: np.mean(T, where=T.numpy() > 1), TypeError, "np.mean.*where="),
    (lambda: np.max(T, where=T > 0), ValueError, "max: where=.*initial="),
    (lambda: np.tanh(T, out=np.zeros((2, 3))), TypeError, "np.tanh.*out=.*written"),
    (lambda: np.tanh(T, where=T.numpy() > 1), TypeError, "np.tanh.*where="),
    (lambda: np.clip(T, 0, 1, out=np.zeros(3)), TypeError, "np.clip.*out="),
    (lambda: np.maximum.reduce(T, dtype=np.float32), TypeError, "np.maximum.reduce.*dtype="),
    (lambda: np.concatenate([T, T], dtype=int), TypeError, "casting='same_kind'"),
    (lambda: np.stack([T, T], out=np.zeros((2, 2, 3))), TypeError, "np.stack.*out="),
    (lambda: np.einsum("ij->i", T, dtype=np.float32), TypeError, "np.einsum.*dtype="),
    (lambda: T.reshape(3, 2.0), TypeError, "reshape"),
    (lambda: np.reshape(T, 6.5), TypeError, "reshape.*integer"),
    (lambda: np.tile(T, 1.5), TypeError, "integer"),
    (lambda: np.ones_like(T, device="cpu"), TypeError, "device="),
    (lambda: np.take(T, [0], mode="up"), ValueError, "take: mode must be 'raise', 'wrap' or 'clip', not 'up'"),
    (lambda: np.full_like(np.ones(3), T), TypeError, "np.broadcast_to"),
    (lambda: np.float_power(T, "a"), TypeError, "float_power.*'a'"),
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
    (lambda: np.pad(T, 1, mode="meen"), ValueError, "pad: mode"),
    (lambda: np.pad(T, 1, mode="edge", constant_values=1), ValueError, "pad: mode 'edge' doesn't take constant_values"),
    (lambda: np.pad(T, 1, mode="reflect", reflect_type="odd"), TypeError, "np.pad.*reflect_type"),
    (lambda: np.pad(T, -1), ValueError, "pad: pad_width"),
    (lambda: np.pad(T, 1.7), TypeError, "pad: pad_width must be whole numbers, got 1.7"),
    (lambda: at.grad(lambda v: np.pad(T, 1, constant_values=v).sum())(1.0), TypeError, "np.pad's constant_values.*stop_gradient"),
    (lambda: np.cumsum(at.array(1.0), 1), ValueError, "axis 1"),
    (lambda: np.squeeze(at.array(1.0), 1), ValueError, "axis 1"),
    (lambda: np.swapaxes(T, 0, 2), ValueError, "axis2: axis 2 is out of bounds"),
    (lambda: np.concatenate([T, T.T]), ValueError, r"^concatenate\(.*\(3, 2\)"),
    (lambda: np.concatenate([T, "a"]), TypeError, r"^concatenate\(.*'a'"),
    (lambda: np.einsum("ij,jk->ik", T, T), ValueError, r"^einsum\(.*\(2, 3\)"),
    (lambda: np.moveaxis(T, (0, 1), 0), ValueError, "moveaxis"),
    (lambda: at.array(np.ones(3)).mT, ValueError, "matrix_transpose"),
    (lambda: np.tensordot(T, T.T), ValueError, "tensordot: the axes"),
    (lambda: np.linalg.norm(T[0], "fro"), ValueError, "norm: .*'fro'"),
    (lambda: np.linalg.norm(T.reshape(1, 2, 3), 1), ValueError, "norm: ord=1"),
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
    (lambda: np.trace(T[0]), ValueError, r"diagonal: x \(3,\) must have two axes"),
    (lambda: np.trace(T, out=np.zeros(2)), TypeError, "np.trace.*out="),
    (lambda: np.diagonal(T, 0, 1, -1), ValueError, "diagonal: axis1 and axis2.*differ"),
    (lambda: np.diagonal(T, 0, 0, 2), ValueError, "axis2: axis 2 is out of bounds"),
    (lambda: np.diag(at.array(1.0)), ValueError, r"diag: x \(\)"),
    (lambda: np.tril(at.array(1.0)), TypeError, "tril: x must have an axis"),
    (lambda: np.cross(T[:, :1], T), ValueError, "cross: .*not 1 and 3"),
    (lambda: np.cross(T, at.array(1.0)), ValueError, "axis"),
    (lambda: np.linalg.cross(T[:, :2], T), ValueError, "np.linalg.cross takes 3"),
    (lambda: np.vdot(T, T[0]), ValueError, "^vdot.*6.*3"),
    (lambda: np.vecdot(T, T[:, :1]), ValueError, "^vecdot"),
    (lambda: np.linalg.multi_dot([T]), ValueError, "multi_dot: .*two arrays or more"),
    (lambda: np.linalg.multi_dot([T, T[0], T]), np.linalg.LinAlgError, "multi_dot: "),
    (lambda: np.linalg.multi_dot([T, T, T]), ValueError, "^multi_dot"),
    (lambda: np.linalg.matrix_power(T, 2), np.linalg.LinAlgError, "matrix_power: "),
    (lambda: np.linalg.matrix_power(T[:, :2], 1.5), TypeError, "integer"),
    (lambda: np.linalg.matrix_norm(T[0]), ValueError, "axis -2"),
    (lambda: np.linalg.vector_norm(T, ord="fro"), ValueError, "'fro'"),
    (lambda: np.meshgrid(T[0], indexing="yx"), ValueError, "meshgrid: indexing .*'yx'"),
    (lambda: np.broadcast_arrays(T, T[:, :2]), ValueError, "broadcast"),
    (lambda: np.block([[T], T]), ValueError, r"block: .*\[1, 2\]"),
    (lambda: np.block([[T], []]), ValueError, "block: .*empty"),
    (lambda: np.block([(T, T)]), TypeError, "block: .*tuples|tuple"),
    (lambda: np.append(T, T[0], axis=0), ValueError, "concatenate"),
    (lambda: np.insert(T, 5, 1.0, axis=0), IndexError, "5"),
    (lambda: np.insert(T, 1, 1.0, axis=2), ValueError, "axis 2"),
    (lambda: np.insert(T, 1, np.ones(2), axis=0), ValueError, r"^insert\(x: .*\(1, 2\)"),
    (lambda: np.delete(T, 3, axis=1), IndexError, "3"),
    (lambda: np.delete(T, [True], axis=1), ValueError, "boolean"),
    (lambda: np.diff(T, -1), ValueError, "diff: n=-1"),
    (lambda: np.diff(at.array(1.0)), ValueError, r"diff: .*x \(\)"),
    (lambda: np.ediff1d(at.array([1, 2]), to_end=1.5), TypeError, "ediff1d: to_end of float64.*int64"),
    (lambda: np.rot90(T, axes=(0, 0)), ValueError, "axes"),
    (lambda: np.rot90(T, axes=(0, 2)), ValueError, "axis 2"),
    (lambda: np.rot90(T, axes=(0,)), ValueError, "rot90: axes must be two"),
    (lambda: np.fliplr(T[0]), ValueError, "fliplr: x"),
    (lambda: np.flipud(at.array(1.0)), ValueError, "flipud: x"),
    (lambda: np.hsplit(at.array(1.0), 1), ValueError, "hsplit: x"),
    (lambda: np.vsplit(T[0], 1), ValueError, "vsplit: x"),
    (lambda: np.dsplit(T, 1), ValueError, "dsplit: x"),
    (lambda: np.hsplit(T, 2), ValueError, "split: axis 1"),
    (lambda: np.compress(True, T), ValueError, "compress: the condition must be 1-d"),
    (lambda: np.compress([0, 0, 1], T, axis=0), IndexError, "2"),
    (lambda: np.extract([0, 0, 0, 0, 0, 0, 1], T), IndexError, "6"),
    (lambda: np.select([T > 1], []), ValueError, "select: .*1 conditions and 0 choices"),
    (lambda: np.select([T], [T]), TypeError, "select: condition 0 must be of booleans, not float64"),
    (lambda: np.choose([0, 2], T[:, :2]), ValueError, "choose: .*less than 2"),
    (lambda: np.choose(T, [T, T]), TypeError, "choose: .*integers, not float64"),
    (lambda: np.choose([0, 1], T[:, :2], mode="no"), ValueError, "choose: mode"),
    (lambda: np.cumprod(T, (0,)), TypeError, "tuple"),
    (lambda: np.cumprod(T, 2), ValueError, "axis 2"),
    (lambda: np.average(T, weights=[1, 2]), TypeError, "average: .*need an axis"),
    (lambda: np.average(T, 1, weights=[1, 2]), ValueError, "average: .*lengths of the axes"),
    (lambda: np.average(T, 0, weights=[1, -1]), ZeroDivisionError, "sum to 0"),
    (lambda: np.nanmax(T, where=T.numpy() > 1), TypeError, "np.nanmax.*where="),
    (lambda: np.nanmax(T[:0], axis=0), ValueError, "max"),
    (lambda: iter(at.array(1.0)), TypeError, "0-d"),
    (lambda: T & T, TypeError, "booleans"),
    (lambda: pow(T, 2, 3), TypeError, "power"),
    (lambda: T + "a", TypeError, "add.*'a'"),
    (lambda: T + None, TypeError, "add"),
    (lambda: opsets.load("v19"), ValueError, "'v19' is unknown.*'array'.*'v20'"),
]


@pytest.mark.parametrize("call, kind, says", REFUSED, ids=[getattr(case, "values", case)[-1] for case in REFUSED])
def test_refused(call, kind, says):
    with pytest.raises(kind, match=says):
        call()


def test_a_tracked_value_is_not_turned_into_a_number():
    for call in (lambda x: x.item(), lambda x: x.tolist(), lambda x: np.full(2, x)):
        with pytest.raises(TypeError, match=r"stop_gradient|broadcast_to"):
            at.grad(lambda x, call=call: call(x))(np.array(1.0))


def test_opsets_by_name():
    assert opsets.names() == ["array", "scipy", "v20"] and opsets.load("array") is ops
    assert all(hasattr(ops, n) for n in ops.__all__)


def test_insert_at_booleans_is_at_the_true_ones():
    x, v = np.arange(3.0), np.array([10.0, 20.0])
    np.testing.assert_array_equal(np.insert(at.array(x), np.array([True, False, True]), v).numpy(), [10, 0, 1, 20, 2])
    close = np.testing.assert_allclose
    close(at.grad(lambda v: np.sum(np.insert(at.array(x), np.array([True, False, True]), v) * np.arange(5.0)))(v), [0, 3])


def test_cross_takes_vectors_of_three():
    for a, b in (((2,), (3,)), ((3,), (2,)), ((4, 2), (4, 2)), ((3, 1), (3, 1))):
        with pytest.raises(ValueError, match="cross: the vectors must have 3 components"):
            np.cross(at.array(np.ones(a)), at.array(np.ones(b)))


# ---------------------------------------------------------------- arguments of NumPy's functions and of ndarray's methods

MANY = np.array([[3, 1, 2.0], [4, 5, 7]])
SOME = MANY > 2
METHOD_CALLS = {
    "sum": [(0, None), (0, None, None, True), (0, np.float32)],
    "prod": [(0, None), (0, None, None, True)],
    "mean": [(0, None), (0, np.float32, None, True)],
    "max": [(0, None), (0, None, True)],
    "min": [(0, None), (0, None, True)],
    "std": [(0, None, None, 1), (0, None, None, 1, True), (0, np.float32)],
    "var": [(0, None, None, 1), (0, None, None, 1, True)],
    "any": [(0, None)],
    "all": [(0, None)],
    "argmax": [(0, None)],
    "argmin": [(None, None)],
    "cumsum": [(0, None), (0, np.float32), (0, None, None)],
    "cumprod": [(0, None), (0, np.float32, None)],
    "clip": [(2, 3, None), (2,), (None, 3)],
    "round": [(0, None), (1,)],
    "take": [([0], 0, None, "raise"), ([0, -1],)],
    "repeat": [(2, 0)],
    "trace": [(0, 0, 1, None, None), (1, 1, 0, np.float32)],
    "diagonal": [(0, 1, 0)],
    "dot": [(MANY.T, None)],
    "argsort": [(-1, None), (0, None, None), (None, "stable")],
    "compress": [([True, False], 0, None)],
    "copy": [("C",)],
    "flatten": [("F",)],
    "astype": [(np.float32, "K", "unsafe", True, True)],
}
METHOD_KEYWORDS = {
    "sum": [{"axis": 0, "dtype": None, "out": None}, {"dtype": np.float32}, {"where": SOME}, {"initial": 2.0}, {"dtype": np.int32}],
    "prod": [{"where": SOME, "initial": 2.0}, {"axis": 1, "dtype": np.float32}],
    "mean": [{"axis": (0, 1), "keepdims": True, "out": None}, {"dtype": np.float32}],
    "max": [{"axis": 0, "out": None, "keepdims": True}],
    "std": [{"axis": 0, "ddof": 1, "keepdims": True}],
    "var": [{"dtype": np.float32}],
    "any": [{"axis": 1, "where": SOME}],
    "all": [{"axis": 1, "where": SOME}],
    "argmax": [{"axis": 0, "keepdims": True}],
    "clip": [{"min": 2}, {"max": 3, "out": None}],
    "argsort": [{"stable": True, "order": None}],
    "astype": [{"dtype": np.float32, "copy": False}],
}


@pytest.mark.parametrize("name", METHOD_CALLS)
def test_methods_take_what_ndarrays_take(name):
    for args in METHOD_CALLS[name]:
        agrees(lambda x, args=args: getattr(x, name)(*args), MANY)
    for options in METHOD_KEYWORDS.get(name, []):
        agrees(lambda x, options=options: getattr(x, name)(**options), MANY)


def test_other_methods_take_what_ndarrays_take():
    t, n = at.array(MANY), at.array(np.array([[0, 1, 1], [1, 0, 0]]))
    assert np.choose(n, [MANY, -MANY]).shape == (2, 3)
    assert n.choose([MANY, -MANY], None, "raise").numpy().tolist() == [[3, -1, -2], [-4, 5, 7]]
    assert t.argpartition(1, -1, "introselect", None).shape == (2, 3)
    assert at.Param(MANY).sum(0, None, None, True).shape == (1, 3)
    with pytest.raises(TypeError, match="float64 can't become float32 by casting='safe'"):
        t.astype(np.float32, casting="safe")


OTHERS = np.array([1.0, 2, 3])
BUFFER = np.zeros(3)
METHODS_REFUSED = {
    "sum": {"out": BUFFER}, "mean": {"where": SOME}, "max": {"out": BUFFER}, "std": {"where": SOME},
    "argmax": {"out": BUFFER}, "cumsum": {"out": BUFFER}, "clip": {"min": 0, "out": BUFFER}, "round": {"out": BUFFER},
    "take": {"indices": [0], "out": BUFFER}, "trace": {"out": BUFFER}, "dot": {"b": MANY.T, "out": BUFFER}, "argsort": {"order": "f"},
    "compress": {"condition": [1], "out": BUFFER}, "any": {"out": BUFFER},
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS_REFUSED)
def test_methods_refuse_by_name_what_they_can_not_do(name):
    with pytest.raises(TypeError, match=rf"np.{name} .*{[*METHODS_REFUSED[name]][-1]}="):
        getattr(at.array(MANY), name)(**METHODS_REFUSED[name])


SUMS = [np.sum, np.prod, np.mean, np.var, np.std, np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.trace]
SUMS += [np.cumsum, np.cumprod, np.nancumsum, np.nancumprod]


@pytest.mark.parametrize("f", SUMS, ids=lambda f: f.__name__)
def test_dtype_is_that_of_the_result(f):
    for dtype in (np.float32, np.float64):
        for x in (MANY, MANY.astype(np.float32), MANY.astype(int)):
            y, e = f(at.array(x), dtype=dtype), f(x, dtype=dtype)
            assert y.dtype == e.dtype == dtype
            np.testing.assert_allclose(y.numpy(), e, 1e-6)
    if "trace" not in f.__name__:
        agrees(lambda x: f(x, 0, np.float32), MANY)
    g = at.grad(lambda x: np.sum(f(x, dtype=np.float64)))(MANY.astype(np.float32))
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, at.grad(lambda x: np.sum(f(x)))(MANY), 1e-5, 1e-6)


@pytest.mark.parametrize("f", [np.var, np.std, np.nanvar, np.nanstd], ids=lambda f: f.__name__)
def test_correction_is_ddof(f):
    for options in ({"correction": 1}, {"axis": 0, "correction": 1, "keepdims": True}, {"correction": 0}):
        agrees(lambda x, options=options: f(x, **options), MANY)
    with pytest.raises(ValueError, match="ddof and correction"):
        f(at.array(MANY), ddof=1, correction=1)


@pytest.mark.parametrize("f", [np.sum, np.prod, np.nansum, np.nanprod], ids=lambda f: f.__name__)
def test_where_and_initial(f):
    for options in ({"where": SOME}, {"where": SOME[:1], "axis": 0}, {"initial": 2.0}, {"where": SOME, "initial": 3, "dtype": np.float32}):
        agrees(lambda x, options=options: f(x, **options), MANY)
    agrees(lambda x: f(x, where=SOME), MANY.astype(int))
    check_grads(lambda x: f(x, axis=1, where=SOME, initial=2.0), (MANY,))
    with pytest.raises(ValueError, match="2, 2, 3"):
        f(at.array(MANY), where=np.ones((2, 2, 3), bool))


@pytest.mark.parametrize("f", [np.max, np.min], ids=lambda f: f.__name__)
def test_extremes_with_where_and_initial(f):
    for options in ({"initial": 1.5}, {"where": SOME, "initial": -0.5}, {"where": SOME[:1], "initial": 9, "axis": 0, "keepdims": True}):
        for x in (MANY, MANY.astype(np.float32), MANY.astype(np.int8)):
            agrees(lambda x, options=options: f(x, **options), x)
    agrees(lambda x: f(x, axis=1, initial=2, where=np.zeros(3, bool)), MANY)
    agrees(lambda x: f(x, initial=True, where=SOME), MANY > 0)
    agrees(lambda x: f(x, axis=0, initial=2.0), MANY[:0])
    check_grads(lambda x, start: f(x, axis=1, where=SOME, initial=start), (MANY, 0.3))
    np.testing.assert_array_equal(at.grad(lambda start: np.sum(f(MANY * at.array(0.0), initial=start)))(0.0), 0.5)  # a tie


@pytest.mark.parametrize("f", [np.var, np.std, np.nanvar, np.nanstd], ids=lambda f: f.__name__)
def test_spread_about_a_mean_that_is_given(f):
    for options in ({"axis": 0}, {"axis": 1, "ddof": 1, "keepdims": True}, {"correction": 1}):
        mean = np.mean(MANY, options.get("axis"), keepdims=True)
        agrees(lambda x, m, options=options: f(x, mean=m, **options), MANY, mean)
        check_grads(lambda x, m, options=options: f(x, mean=m, **options), (MANY, mean + 0.1))
    close = np.testing.assert_allclose
    close(at.grad(lambda x: f(x, mean=np.mean(x, keepdims=True)))(MANY), at.grad(f)(MANY), 1e-12, 1e-14)


def test_ufuncs_reduce_takes_them_too():
    for f in (np.add, np.multiply):
        agrees(lambda x, f=f: f.reduce(x, 0, np.float32, None, True), MANY)
        agrees(lambda x, f=f: f.reduce(x, axis=None, where=SOME, initial=2.0), MANY)
    agrees(lambda x: np.maximum.reduce(x, where=SOME, initial=0.0), MANY)
    agrees(lambda x: np.logical_and.reduce(x, axis=1, where=SOME), MANY)


def test_what_a_tensor_picks_of_an_array_is_a_tensor():
    mask, place = at.array(np.array([True, False, True])), at.array(np.array([0, 1]))
    for y, expected in (
        (np.compress(mask, OTHERS), [1, 3]),
        (np.extract(mask, OTHERS), [1, 3]),
        (np.choose(place, [OTHERS[:2], OTHERS[1:]]), [1, 3]),
        (np.delete(OTHERS, place), [3]),
        (np.insert(OTHERS, place, 9.0), [9, 1, 9, 2, 3]),
    ):
        assert type(y) is at.Tensor and y.numpy().tolist() == expected


def test_functions_take_lists():
    x = MANY.tolist()
    for f in (ops.nan_to_num, ops.gradient, ops.unwrap, ops.real, ops.real_if_close, ops.imag, ops.conjugate):
        for found, expected in zip(listed(f(x)), listed(f(MANY)), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert all(type(y) is backend.kernels().array for y in listed(f(x)))


# ---------------------------------------------------------------- small dtypes, and whole numbers of NumPy's as parameters

U8, I8 = np.uint8, np.int8
TALL = np.arange(200.0).reshape(40, 5)


def test_powers_with_exponents_and_bases_of_small_dtypes():
    x = np.array([1.5, 2.0])
    close = np.testing.assert_allclose
    close(at.grad(lambda x: np.sum(x[:, None] ** np.arange(3, dtype=np.uint32)))(x), 1 + 2 * x)
    close(at.hessian(lambda x: np.sum(x ** np.array(2, U8)))(x), 2 * np.eye(2))
    close(at.hessian(lambda x: np.sum(x ** np.array(1, np.uint32)))(x), np.zeros((2, 2)))
    close(at.grad(lambda x: x ** I8(-128))(1.01), -128 * 1.01**-129)
    third = float(np.float16(0.3))
    close(at.grad(lambda x: x ** np.float16(0.3))(2.0), third * 2 ** (third - 1))
    close(at.hessian(lambda x: x ** np.float16(0.3))(2.0), third * (third - 1) * 2 ** (third - 2))
    p = np.array([0.5, 1.5])
    close(at.grad(lambda p: np.sum(np.array([2, 3], U8) ** p))(p), np.array([2.0, 3]) ** p * np.log([2.0, 3]))
    close(at.grad(lambda p: np.power(U8(2), p))(0.5), 2**0.5 * np.log(2))


def test_powers_of_0_have_no_nan():
    for x in (0.0, 1e-310, np.nan, np.inf):
        assert at.grad(lambda x: x ** np.array(0.0))(x) == at.grad(lambda x: x**0.0)(x) == 0
    with np.errstate(divide="ignore"):
        assert at.grad(lambda y: np.power(0.0, y))(-1.0) == 0
        assert at.grad(lambda x: x ** np.array(-1.0))(0.0) == -np.inf
    np.testing.assert_allclose(at.hessian(lambda z: z[0] ** z[1])(np.array([2.0, 0])), [[0, 0.5], [0.5, np.log(2) ** 2]])


@pytest.mark.parametrize("f, x, dx", [
    (np.arcsinh, np.float16(300), 1 / 300), (np.arcsinh, np.float16(65504), 1 / 65504), (np.arcsinh, np.float32(1e20), 1e-20),
    (np.arcsinh, 1e200, 1e-200), (np.arcsinh, 1.7e308, 1 / 1.7e308), (np.arcsinh, -np.inf, 0), (np.arctan, np.float16(300), 1.1e-5),
    (np.arctan, np.float32(1e15), 1e-30), (np.arctan, -1e150, 1e-300), (np.arctan, 1e200, 0), (np.arctan, np.inf, 0),
    (np.arccosh, 1e200, 1e-200), (np.arcsin, 1 - 2.0**-40, 1 / np.sqrt(2.0**-39 - 2.0**-80)),
    (np.arccos, 2.0**-40 - 1, -1 / np.sqrt(2.0**-39 - 2.0**-80)), (np.hypot, 1e200, 1.0), (np.hypot, np.float16(300), 1.0),
])  # fmt: skip
@pytest.mark.parametrize("name", BACKENDS)
def test_derivatives_far_out_do_not_overflow(f, x, dx, name):
    with backend.use(name), np.errstate(all="raise", under="ignore"):
        g = at.elementwise_grad(f if f is not np.hypot else lambda x: np.hypot(x, 1))(np.array([x]))
    np.testing.assert_allclose(g, [dx], rtol=8 * np.finfo(g.dtype).eps, atol=np.finfo(g.dtype).smallest_subnormal)


def test_arctanh_beyond_its_domain_does_not_overflow():
    with np.errstate(over="raise", invalid="ignore"):
        assert np.isfinite(at.elementwise_grad(np.arctanh)(np.array([300], np.float16)))


@pytest.mark.parametrize("f, g", [
    (lambda x: np.gradient(x, U8(200)), lambda x: np.gradient(x, 200)),
    (lambda x: np.gradient(x, I8(100), np.array(100, I8), edge_order=2), lambda x: np.gradient(x, 100, 100, edge_order=2)),
    (lambda x: np.roll(x, U8(1)), lambda x: np.roll(x, 1)),
    (lambda x: np.roll(x, I8(-128)), lambda x: np.roll(x, -128)),
    (lambda x: np.roll(x, (U8(1), U8(2)), (0, 1)), lambda x: np.roll(x, (1, 2), (0, 1))),
    (lambda x: np.roll(x, 1.7), lambda x: np.roll(x, 1)),
    (lambda x: np.diagonal(x, I8(-30)), lambda x: np.diagonal(x, -30)),
    (lambda x: np.trace(x, I8(-30)), lambda x: np.trace(x, -30)),
    (lambda x: np.diag(x[0], U8(255)), lambda x: np.diag(x[0], 255)),
    (lambda x: np.diagflat(x[0], I8(-128)), lambda x: np.diagflat(x[0], -128)),
    (lambda x: np.triu(x, U8(0)), np.triu),
    (lambda x: np.triu(x, I8(-128)), lambda x: np.triu(x, -128)),
    (lambda x: np.tril(x, I8(-128)), lambda x: np.tril(x, -128)),
    (lambda x: np.repeat(x, U8(200), 0), lambda x: np.repeat(x, 200, 0)),
    (lambda x: np.tile(x, (U8(20), U8(20))), lambda x: np.tile(x, (20, 20))),
    (lambda x: np.resize(x, (U8(20), U8(20))), lambda x: np.resize(x, (20, 20))),
    (lambda x: x.reshape((U8(1), -1)), lambda x: x.reshape(1, -1)),
    (lambda x: x.reshape(I8(20), I8(2), -1), lambda x: x.reshape(20, 2, -1)),
    (lambda x: np.broadcast_to(x, [U8(3), U8(40), U8(5)]), lambda x: np.broadcast_to(x, (3, 40, 5))),
    (lambda x: np.lib.stride_tricks.sliding_window_view(x, (U8(2), I8(2))), lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2))),
    (lambda x: np.tensordot(x, x.T, U8(1)), lambda x: np.tensordot(x, x.T, 1)),
    (lambda x: np.split(x, U8(4))[1], lambda x: np.split(x, 4)[1]),
    (lambda x: np.array_split(np.tile(x, (10, 1)), U8(3))[1], lambda x: np.array_split(np.tile(x, (10, 1)), 3)[1]),
    (lambda x: np.rot90(x, I8(-1)), lambda x: np.rot90(x, -1)),
    (lambda x: np.diff(x, U8(2)), lambda x: np.diff(x, 2)),
    (lambda x: np.rollaxis(x, 1, U8(0)), lambda x: np.rollaxis(x, 1, 0)),
    (lambda x: np.concatenate([x, x], U8(1)), lambda x: np.concatenate([x, x], 1)),
    (lambda x: np.stack([x, x], I8(-1)), lambda x: np.stack([x, x], -1)),
    (lambda x: np.vander(x[0], U8(3)), lambda x: np.vander(x[0], 3)),
    (lambda x: np.linspace(x, 9, U8(3)), lambda x: np.linspace(x, 9, 3)),
    (lambda x: np.geomspace(x + 1, 9, U8(3)), lambda x: np.geomspace(x + 1, 9, 3)),
    (lambda x: np.interp(x, [1, 2, 3], [1, 2, 3], period=I8(-128)), lambda x: np.interp(x, [1, 2, 3], [1, 2, 3], period=128)),
])  # fmt: skip
def test_whole_numbers_of_numpys_as_parameters(f, g):
    with np.errstate(over="raise"):
        for y, e in zip(listed(f(at.array(TALL))), listed(g(TALL)), strict=True):
            np.testing.assert_allclose(y.numpy(), e, 1e-12)
    with pytest.raises(ValueError, match="larger than x"):
        np.lib.stride_tricks.sliding_window_view(at.array(TALL[0]), (U8(9),))


# ---------------------------------------------------------------- what integers don't hold


def test_limits_of_clip_beyond_the_dtype():
    u = at.array(np.arange(5, dtype=U8))
    for y, e in ((np.clip(u, -1, 3), [0, 1, 2, 3, 3]), (u.clip(2, 300), [2, 2, 2, 3, 4]), (np.clip(u, -(2**70), 300), [0, 1, 2, 3, 4])):
        assert type(y) is at.Tensor and y.dtype == U8 and y.tolist() == e
    agrees(lambda x: np.clip(x, 1, 2.5), np.arange(5, dtype=U8))
    for limits in ((300, 400), (-5, -1)):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            np.clip(u, *limits)


def test_where_keeps_the_dtype_of_integers():
    x = np.arange(5, dtype=U8)
    for f in (lambda x: np.where(x > 2, x, 7), lambda x: np.where(x > 2, 255, x), lambda x: np.where(x > 2, x, 1.5)):
        agrees(f, x)
    for f in (lambda x: np.where(x > 2, x, -1), lambda x: np.where(x > 2, 300, x)):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            f(at.array(x))
    agrees(lambda x: np.select([x > 2], [x], -1), x)


@pytest.mark.parametrize("call, kind", [
    (lambda u: np.full_like(u, -1), OverflowError), (lambda u: np.insert(u, 0, 300), OverflowError),
    (lambda u: np.insert(u, 0, [-1]), OverflowError), (lambda u: np.insert(u, 0, np.nan), ValueError),
    (lambda u: np.full_like(u, np.nan), ValueError), (lambda u: np.pad(u, 1, constant_values=np.nan), ValueError),
    (lambda u: np.pad(u, 1, constant_values=(0, 300)), OverflowError), (lambda u: u.at[0].set(300), OverflowError),
    (lambda u: u.at[0].add(-1), OverflowError),
])  # fmt: skip
def test_numbers_must_fit_into_integers(call, kind):
    with pytest.raises(kind, match=r"out of bounds for uint8|NaN to integer"):
        call(at.array(np.arange(5, dtype=U8)))


def test_fractions_of_numbers_are_cut_for_integers():
    for f in (lambda x: np.full_like(x, 1.7), lambda x: np.insert(x, 0, 1.7), lambda x: np.pad(x, 1, constant_values=1.7)):
        agrees(f, np.arange(5, dtype=U8))
    agrees(lambda x: np.full_like(x, np.int64(300)), np.arange(5, dtype=U8))


def test_booleans_are_no_numbers():
    t = at.array(np.array([True, False]))
    for call in (lambda: +t, lambda: np.positive(t), lambda: np.gradient(t)):
        with pytest.raises(TypeError, match="numbers, not bool"):
            call()
    agrees(np.conjugate, np.array([True, False]))
    for y in (t.conj(), t.copy(), np.copy(t), np.nan_to_num(t)):
        assert y.dtype == bool and y.tolist() == [True, False]


# ---------------------------------------------------------------- more of NumPy's arguments


def test_numbers_for_nan_may_be_arrays():
    x = np.array([np.nan, np.inf, -np.inf, 2])
    agrees(lambda x: np.nan_to_num(x, nan=np.arange(4.0) + 7, posinf=[5.0], neginf=np.float32(3)), x)
    g = at.grad(lambda v: np.sum(np.nan_to_num(at.array(x), nan=v, posinf=0.0)))(np.ones(4))
    assert g.tolist() == [1, 0, 0, 0]
    with pytest.raises(ValueError, match=r"full_like.*\(3,\)"):
        np.nan_to_num(at.array(x), nan=np.ones(3))


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("name", BACKENDS)
def test_modes_of_take(mode, name):
    x = np.arange(300.0).reshape(2, 150)
    with backend.use(name):
        beyond = [[7, -9], np.array([100, 127], I8)] if mode != "raise" else []
        for indices in ([0, 1, -1], np.array([1, 0], U8), -1, [], [[True, False]], *beyond):
            for axis in (0, None) if np.max(indices, initial=0) < 9 else (1, None):
                agrees(lambda x, indices=indices, axis=axis: np.take(x, indices, axis, mode=mode), x)
        agrees(lambda x: x.take(np.array([140, -1]), 1, mode=mode), x)
        check_grads(lambda x: np.take(x, [1, -1, -1], 1, None, mode), (x[:, :4],))
    for empty in (np.take(at.array(x[:0]), [], 0, mode=mode), np.take(at.array(x[:0]), np.zeros(0, int), 0, mode=mode)):
        assert empty.shape == (0, 150)
    with pytest.raises(IndexError):
        np.take(at.array(x[:0]), [0], 0, mode=mode)


PADDED = [np.arange(6.0).reshape(2, 3) ** 1.5, np.array([1, 2, 4]), np.arange(-3, 3, dtype=I8), np.array([True, False, True])]
PADDED += [PADDED[0].astype(np.float32), np.array(3.0)]


@pytest.mark.parametrize("options", [
    *({"mode": m} for m in ("constant", "linear_ramp", "maximum", "mean", "median", "minimum", "edge", "reflect", "symmetric", "wrap")),
    *({"mode": m, "stat_length": n} for m in ("maximum", "mean", "median", "minimum") for n in (2, 9, (1, 2))),
    *({"mode": "linear_ramp", "end_values": v} for v in (3.7, (1, 2), ((1, 2),))),
], ids=str)  # fmt: skip
def test_modes_of_pad(options):
    for x in PADDED:
        for width in (0, 2, (1, 3)):
            agrees(lambda x, width=width: np.pad(x, width, **options), x)
    agrees(lambda x: np.pad(x, ((0, 1), (2, 0)), **options), PADDED[0])


def test_pad_says_what_it_does_not_take():
    t = at.array(PADDED[0])
    assert np.pad(t, 2, "empty").shape == (6, 7)
    np.testing.assert_array_equal(np.pad(t, {-1: (1, 0)}).numpy(), np.pad(PADDED[0], ((0, 0), (1, 0))))
    np.testing.assert_array_equal(np.pad(t, {0: 2, 1: 1}, "edge").numpy(), np.pad(PADDED[0], ((2, 2), (1, 1)), "edge"))
    for call, says in (
        (lambda: np.pad(t, 1, "mean", end_values=1), "'mean' doesn't take end_values"),
        (lambda: np.pad(t[:0], 1, "mean"), r"axis 0 of x \(0, 3\) is empty"),
        (lambda: np.pad(t, 1, "maximum", stat_length=0), "max"),
        (lambda: np.pad(t, {2: 1}), "axis 2"),
    ):
        with pytest.raises(ValueError, match=says):
            call()
    for option, mode in (("constant_values", "constant"), ("end_values", "linear_ramp")):
        with pytest.raises(TypeError, match=f"np.pad's {option} would drop its derivative"):
            at.grad(lambda v, option=option, mode=mode: np.pad(t, 1, mode, **{option: v}).sum())(1.0)
        agrees(lambda x, option=option, mode=mode: np.pad(x, 1, mode, **{option: 2.0}), PADDED[0])
        np.pad(t, 1, mode, **{option: at.array(2.0)})


def test_joining_into_a_dtype():
    x = PADDED[0]
    for f in (np.concatenate, np.stack, np.vstack, np.hstack):
        agrees(lambda x, f=f: f([x, x], dtype=np.float32), x)
        agrees(lambda x, f=f: f([x, x], dtype=int, casting="unsafe"), x)
        with pytest.raises(TypeError, match="float64 don't become float32 by casting='no'"):
            f([at.array(x), x], dtype=np.float32, casting="no")
    agrees(lambda x: np.concatenate([x, x], None, dtype="f4"), x)
    assert at.grad(lambda x: np.sum(np.stack([x, x], dtype=np.float32)))(x).tolist() == np.full((2, 3), 2.0).tolist()


def test_insert_and_full_like_drop_leading_ones():
    x = np.arange(5.0)
    agrees(lambda x: np.insert(x, 1, np.array([[7.0]])), x)
    agrees(lambda x: np.insert(x, [0, 1], [[7.0, 8.0]]), x)
    agrees(lambda x: np.insert(x, 1, [[[7.0]]], axis=1), x.reshape(1, 5))
    agrees(lambda x: np.full_like(x, [[7.0]]), x)
    with pytest.raises(ValueError, match=r"^insert.*\(2,\)"):
        np.insert(at.array(x), 1, np.ones((1, 2)))


# ---------------------------------------------------------------- Python's own


def test_in():
    t = at.array(np.ones((2, 2)))
    assert 1.0 in t and 2.0 not in t and [1.0, 1.0] in t and None not in t and "a" not in t
    assert 2.0 in at.array(2.0) and 2.0 in at.Param(np.array([1.0, 2.0]))
    assert at.grad(lambda x: x.sum() * (1.0 in x))(np.ones(2)).tolist() == [1, 1]


def test_what_holds_no_numbers_is_nowhere_equal():
    t = at.array(np.arange(3.0))
    for other in (None, "a", b"a"):
        for x in (t, at.Param(np.arange(3.0))):
            assert type(x == other) is at.Tensor and (x == other).tolist() == (other == x).tolist() == [False] * 3
            assert (x != other).tolist() == (other != x).tolist() == [True] * 3
    assert (at.array(2.0) == "a").shape == ()


def test_item_at_an_index_and_sizes_in_bytes():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for t in (at.array(x), at.Param(x)):
        assert (t.item(4), t.item(1, 0), t.item((1, 2)), t.nbytes, t.itemsize) == (4, 3, 5, 24, 4)
        with pytest.raises(IndexError):
            t.item(6)
        with pytest.raises(ValueError, match="size 1"):
            t.item()
    with pytest.raises(TypeError, match=r"t.item\(\) would drop"):
        at.grad(lambda x: x.item(0))(np.ones(3))
