"""The pycuda backend's products against NumPy's: every function that multiplies, layouts, dtypes, epilogues, einsum, convolve."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotape import math_mode
from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
FLOAT64 = np.dtype("f8")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("float16", "float32", "float64")] + [BFLOAT16]
WHOLE = [np.dtype(t) for t in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
PAIRS = [("rows", "rows"), ("columns", "columns"), ("strided", "backwards"), ("unaligned", "strided"), ("backwards", "unaligned")]
FUNCTIONS = ["threads", "warps", "small", "medium", "large"]
# that the units compile for a dtype is told by one function of each; those of matmul.cu have all dtypes
TAKEN = [("threads", t) for t in FLOATS + WHOLE] + [(f, t) for f in FUNCTIONS[1:] for t in [*FLOATS, np.dtype("bool"), np.dtype("int8")]]
ACTIVATIONS = ["identity", "relu", "sigm", "tanh", "elu", "selu"]


@pytest.fixture
def product(k):
    """The module that plans products, what it remembers forgotten before and after."""
    from autotape.backends.pycuda_backend import product

    product._planned.cache_clear()
    yield product
    product._planned.cache_clear()


@pytest.fixture(autouse=True)
def own(k, monkeypatch):
    """Products by the backend's own kernel, whatever libraries are here."""
    from autotape.backends.pycuda_backend import cublas

    monkeypatch.setattr(cublas, "library", lambda: None)


def numbers(seed, shape, dtype=FLOAT64):
    """Normal ones times 3, without their fractions in dtypes that have none."""
    x = np.asarray(np.random.default_rng(seed).normal(size=shape) * 3)
    return (x if dtype.kind in "bfV" else x.astype(np.int64)).astype(dtype)


def laid(k, x, how):
    """x on the device with its last two axes laid out in memory in one of these ways."""
    if how == "columns":
        return k.transpose(k.adopt(np.ascontiguousarray(x.swapaxes(-1, -2))), (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    if how == "strided":  # neither rows nor columns lie side by side
        wide = np.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), x.dtype)
        wide[..., ::2, ::3] = x
        return sliced(k.adopt(wide), x.shape, (2, 3))
    if how == "unaligned":
        wide = np.zeros((*x.shape[:-1], x.shape[-1] + 1), x.dtype)
        wide[..., 1:] = x
        return sliced(k.adopt(wide), x.shape, (1, 1), 1)
    if how == "backwards":
        y = k.adopt(np.ascontiguousarray(x[..., ::-1, ::-1]))
        return sliced(y, x.shape, (-1, -1), x.shape[-1] * x.shape[-2] - 1)
    return k.adopt(np.ascontiguousarray(x))


def sliced(x, shape, steps, offset=0):
    from autotape.backends.pycuda_backend.array import view

    strides = (*x.strides[:-2], *(s * step for s, step in zip(x.strides[-2:], steps, strict=True)))
    return view(x, shape, strides, offset * x.itemsize)


def exact(a, b):
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


def check(y, a, b, dtype, title=""):
    """y is a @ b but for roundings."""
    near(y, exact(a, b), exact(abs(a), abs(b)), a.shape[-1], dtype, title)


def near(y, want, reach, terms, dtype, title=""):
    """y is want but for the roundings of a sum of so many terms in some order, and one to its dtype; reach: the same without signs."""
    assert (y.dtype, y.shape) == (dtype, want.shape), title
    summed = (terms + 1) * (2.0**-53 if dtype.itemsize == 8 else 2.0**-24) * reach
    last = float(ml_dtypes.finfo(dtype).eps) / 2
    error, allowed = abs(y.astype(np.float64) - want), summed + 1.01 * last * (abs(want) + summed) + 1e-7 * (dtype == np.float16)
    assert (error <= allowed).all(), f"{title}: off by {error.max()} where {allowed[error > allowed].min()} is allowed"


# -- each function


@pytest.mark.parametrize("sliced_up", [False, True], ids=["whole", "sliced"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_takes_every_layout(k, product, monkeypatch, function, sliced_up):
    monkeypatch.setattr(product, "_function", lambda p, processors: function)
    monkeypatch.setattr(product, "_SLICE", 16 if sliced_up else 1 << 40)
    a, b = numbers(0, (37, 70), np.dtype("f4")), numbers(1, (70, 66), np.dtype("f4"))
    for left, right in PAIRS:
        y = k.to_numpy(k.matmul(laid(k, a, left), laid(k, b, right)))
        check(y, a, b, a.dtype, f"{left} @ {right}")


@pytest.mark.parametrize(("function", "dtype"), TAKEN, ids=str)
def test_every_function_takes_every_dtype(k, product, monkeypatch, function, dtype):
    monkeypatch.setattr(product, "_function", lambda p, processors: function)
    a, b = numbers(0, (2, 5, 36), dtype), numbers(1, (36, 9), dtype)
    y = k.to_numpy(k.matmul(k.adopt(a), laid(k, b, "columns")))
    if dtype.kind in "fV":
        check(y, a, b, dtype)
    else:
        np.testing.assert_array_equal(y, a @ b, strict=True)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_meets_the_edges_of_tiles(k, product, monkeypatch, function):
    monkeypatch.setattr(product, "_function", lambda p, processors: function)
    for n, m, inner in [(1, 1, 1), (31, 33, 15), (32, 32, 16), (65, 4, 17), (3, 129, 8), (127, 128, 7)]:
        a, b = numbers(n, (n, inner), np.dtype("f4")), numbers(m, (inner, m), np.dtype("f4"))
        check(k.to_numpy(k.matmul(k.adopt(a), k.adopt(b))), a, b, a.dtype, f"{n} x {inner} @ {inner} x {m}")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_lies_beyond_an_edge_makes_no_nan(k, product, monkeypatch, function):
    monkeypatch.setattr(product, "_function", lambda p, processors: function)
    a, b = np.full((33, 17), np.inf, np.float32), np.ones((17, 35), np.float32)
    np.testing.assert_array_equal(k.to_numpy(k.matmul(k.adopt(a), k.adopt(b))), np.full((33, 35), np.inf))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nan_and_infinities(k, product, monkeypatch, function):
    monkeypatch.setattr(product, "_function", lambda p, processors: function)
    a, b = numbers(0, (6, 40)), numbers(1, (40, 7))
    a[0, 3], a[1, 4], a[2, 5], b[5, 2], b[6, 3] = np.nan, np.inf, np.inf, 0, -np.inf
    with np.errstate(invalid="ignore"):
        want = a @ b
    np.testing.assert_allclose(k.to_numpy(k.matmul(k.adopt(a), k.adopt(b))), want, 1e-12)


CASES = {  # shape of a, of b, and the function
    "small": ((5, 6), (6, 7), "threads"),
    "column": ((300, 700), (700,), "warps"),
    "row": ((700,), (700, 300), "threads"),
    "dot": ((5000,), (5000,), "warps"),
    "square": ((40, 60), (60, 50), "small"),
    "long sums": ((40, 3000), (3000, 36), "small"),
    "a stack of many": ((66, 80, 64), (66, 64, 70), "medium"),
}


@pytest.mark.parametrize("name", CASES)
def test_which_function_and_its_result(k, product, name):
    a_shape, b_shape, function = CASES[name]
    a, b = numbers(0, a_shape, np.dtype("f4")), numbers(1, b_shape, np.dtype("f4"))
    x, w = k.adopt(a), k.adopt(b)
    row = ((1, *a.shape), (0, *x.strides)) if a.ndim == 1 else (x.shape, x.strides)
    column = ((*b.shape, 1), (*w.strides, 0)) if b.ndim == 1 else (w.shape, w.strides)
    assert product._planned(product.describe(*row, *column, 4), True, True, 132).function == function
    check(k.to_numpy(k.matmul(x, w)), a, b, a.dtype)


LARGE = [((4096, 4096, 4096), "large"), ((1024, 1024, 256), "medium"), ((256, 256, 65536), "large")]


@pytest.mark.parametrize(("sizes", "function"), LARGE)
def test_which_function_for_what_is_large(product, sizes, function):
    n, m, inner = sizes
    p = product.describe((n, inner), (4 * inner, 4), (inner, m), (4 * m, 4), 4)
    plan = product._planned(p, True, True, 132)
    assert plan.function == function
    assert plan.blocks >= 64


def test_the_same_bits_every_time(k, product):
    a, b = k.adopt(numbers(0, (33, 5000), np.dtype("f4"))), k.adopt(numbers(1, (5000, 34), np.dtype("f4")))
    first = k.to_numpy(k.matmul(a, b))
    for _ in range(3):
        np.testing.assert_array_equal(k.to_numpy(k.matmul(a, b)), first)


# -- shapes

VECTORS = [((4,), (4,)), ((4,), (4, 3)), ((2, 4), (4,)), ((4,), (5, 4, 3)), ((5, 2, 4), (4,)), ((0,), (0,)), ((0,), (0, 3))]
SIDES = st.integers(1, 5)


@st.composite
def operands(draw):
    """Shapes of a and b whose stacks broadcast, and ways to lay them."""
    n, inner, m = draw(SIDES), draw(st.integers(0, 40)), draw(SIDES)
    stack = draw(st.lists(st.integers(0, 3), max_size=3))
    shapes = []
    for last in ((n, inner), (inner, m)):
        own = stack[draw(st.integers(0, len(stack))) :]
        shapes.append((*(1 if draw(st.booleans()) else s for s in own), *last))
    ways = st.sampled_from(["rows", "columns", "strided", "backwards"])
    return *shapes, draw(ways), draw(ways)


@settings(max_examples=settings().max_examples // 2)
@given(operands())
def test_stacks_broadcast(k, case):
    a_shape, b_shape, left, right = case
    a, b = numbers(0, a_shape, np.dtype("i4")), numbers(1, b_shape, np.dtype("i4"))
    x = laid(k, a, left) if a.size else k.adopt(a)
    w = laid(k, b, right) if b.size else k.adopt(b)
    np.testing.assert_array_equal(k.to_numpy(k.matmul(x, w)), a @ b, strict=True)


@pytest.mark.parametrize("shapes", VECTORS)
def test_one_axis_is_a_row_or_a_column(k, shapes):
    a, b = (numbers(i, shape, np.dtype("i8")) for i, shape in enumerate(shapes))
    y = k.matmul(k.adopt(a), k.adopt(b))
    np.testing.assert_array_equal(k.to_numpy(y), np.asarray(a @ b), strict=True)


def test_broadcast_and_transposed_stacks(k):
    a, b = numbers(0, (3, 2, 4, 5), np.dtype("i4")), numbers(1, (5, 6), np.dtype("i4"))
    x, w = k.transpose(k.adopt(a), (1, 0, 2, 3)), k.broadcast_to(k.adopt(b), (2, 1, 5, 6))
    np.testing.assert_array_equal(k.to_numpy(k.matmul(x, w)), a.transpose(1, 0, 2, 3) @ b)


def test_many_axes(k):
    shape = (1, 2) * 9
    a, b = numbers(0, (*shape, 2, 3), np.dtype("i4")), numbers(1, (*shape[::-1], 3, 2), np.dtype("i4"))
    np.testing.assert_array_equal(k.to_numpy(k.matmul(k.adopt(a), k.adopt(b[..., :1]))), a @ b[..., :1])


@pytest.mark.parametrize(("a", "b"), [("i1", "u1"), ("i4", "f4"), ("f2", "f4"), ("i8", "u8"), ("?", "i2"), ("f4", BFLOAT16)])
def test_mixed_dtypes(k, a, b):
    a, b = numbers(0, (3, 4), np.dtype(a)), numbers(1, (4, 2), np.dtype(b))
    y = k.to_numpy(k.matmul(k.adopt(a), k.adopt(b)))
    np.testing.assert_allclose(y, np.matmul(a, b), 1e-5, 1e-5, strict=True)


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((3,), (4,)), ((2, 3, 4), (3, 4, 5)), ((), (3,)), ((3,), ())])
def test_shapes_that_do_not_fit(k, shapes):
    a, b = (k.adopt(np.ones(shape)) for shape in shapes)
    with pytest.raises(ValueError) as e:
        k.matmul(a, b)
    assert "matmul" in str(e.value)
    assert str(shapes[0]) in str(e.value)
    assert str(shapes[1]) in str(e.value)


CALLS = {
    "matmul": lambda k, a, b: k.matmul(a, b),
    "einsum": lambda k, a, b: k.einsum("i,i->i", [a, b]),
    "concatenate": lambda k, a, b: k.concatenate([a, b], 0),
    "searchsorted": lambda k, a, b: k.searchsorted(a, b, "left"),
}


@pytest.mark.parametrize("name", CALLS)
def test_dtypes_that_have_no_common_one(k, monkeypatch, name):
    def none(*dtypes):
        raise TypeError("could not be promoted")

    a, b = k.adopt(np.ones(2, np.float16)), k.adopt(np.ones(2, BFLOAT16))
    monkeypatch.setattr(np, "result_type", none)  # as it was of these two before ml_dtypes 0.7
    with pytest.raises(TypeError, match=f"^{name}: NumPy has no common dtype for bfloat16 and float16; cast one of them"):
        CALLS[name](k, a, b)


@pytest.mark.skipif(np.lib.NumpyVersion(ml_dtypes.__version__) < "0.7.0", reason="ml_dtypes has no such promotions before 0.7")
@pytest.mark.parametrize("dtype", [np.float16, np.int16, np.int32, np.int64])
def test_bfloat16_and_another_are_multiplied_in_what_numpy_promotes_them_to(k, product, dtype):
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    y = k.matmul(k.adopt(a.astype(BFLOAT16)), k.adopt(b.astype(dtype)))
    assert y.dtype == np.result_type(BFLOAT16, dtype)
    np.testing.assert_array_equal(k.to_numpy(y), a @ b)


# -- with bias, residual and activation


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("with_z", [False, True], ids=["", "z"])
@pytest.mark.parametrize("with_bias", [False, True], ids=["", "bias"])
def test_matmul_bias_act(k, product, with_bias, with_z, activation):
    for a_shape, b_shape in [((2, 3, 4), (4, 5)), ((40, 70), (70, 36)), ((3, 4000), (4000, 6))]:
        a, b = numbers(0, a_shape) / 30, numbers(1, b_shape) / 30
        bias = numbers(2, b_shape[1:]) if with_bias else None
        z = numbers(3, (*a_shape[:-1], b_shape[-1])) if with_z else None
        y = k.matmul_bias_act(*(None if x is None else k.adopt(x) for x in (a, b, bias, z)), activation)
        np.testing.assert_allclose(k.to_numpy(y), N.matmul_bias_act(a, b, bias, z, activation), 1e-10, 1e-12, err_msg=f"{a_shape}")


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype("i4")], ids=str)
def test_matmul_bias_act_dtypes(k, dtype):
    a, b, bias, z = (numbers(i, s, dtype) for i, s in enumerate([(3, 4), (4, 5), (1, 5), (3, 5)]))
    y = k.to_numpy(k.matmul_bias_act(*map(k.adopt, (a, b, bias, z)), "tanh"))
    wide = [x.astype(np.float64) for x in (a, b, bias, z)]
    assert y.dtype == (dtype if dtype.kind in "fV" else np.float64)
    np.testing.assert_allclose(y.astype(np.float64), N.matmul_bias_act(*wide, "tanh"), atol=4 * float(ml_dtypes.finfo(y.dtype).eps))


def test_matmul_bias_act_of_mixed_dtypes_and_odd_layouts(k):
    a, b, bias, z = numbers(0, (3, 4), np.dtype("f4")), numbers(1, (4, 5), np.dtype("f4")), numbers(2, (1, 5)), numbers(3, (5, 3))
    y = k.matmul_bias_act(k.adopt(a), k.adopt(b), k.adopt(bias), k.transpose(k.adopt(z), None), "relu")
    np.testing.assert_allclose(k.to_numpy(y), N.matmul_bias_act(a, b, bias, z.T, "relu"), 1e-5, 1e-5, strict=True)
    y = k.matmul_bias_act(k.adopt(a), k.adopt(b), None, k.transpose(k.adopt(z.astype("f4")), None), "relu")
    np.testing.assert_allclose(k.to_numpy(y), N.matmul_bias_act(a, b, None, z.astype("f4").T, "relu"), 1e-5, 1e-5, strict=True)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pedantic_mode_has_the_bits_of_the_plain_kernels(k, dtype, activation):
    a, b, bias, z = (k.adopt(numbers(i, s, dtype)) for i, s in enumerate([(9, 40), (40, 5), (5,), (9, 5)]))
    with math_mode.use("pedantic"):
        act = {"identity": lambda x: x, "sigm": k.sigmoid}.get(activation, getattr(k, activation, None))
        want = act(k.add(k.add(k.matmul(a, b), z), bias))
        y = k.matmul_bias_act(a, b, bias, z, activation)
    assert k.to_numpy(y).tobytes() == k.to_numpy(want).tobytes()


def test_a_sum_of_no_terms(k):
    a, b, bias = np.ones((2, 0), np.float32), np.ones((0, 3), np.float32), np.asarray([1, -2, 3], np.float32)
    np.testing.assert_array_equal(k.to_numpy(k.matmul_bias_act(k.adopt(a), k.adopt(b), k.adopt(bias), None, "relu")), [[1, 0, 3]] * 2)


def test_matmul_bias_act_of_odd_operands(k):
    a, b, bias = numbers(0, (4,)), numbers(1, (4, 5)), numbers(2, (5,))
    np.testing.assert_allclose(k.to_numpy(k.matmul_bias_act(*map(k.adopt, (a, b, bias)), None, "tanh")), np.tanh(a @ b + bias), 1e-12)
    a, b = numbers(0, (*(1, 2) * 8, 2, 2, 2, 3)).transpose(*range(0, 18, 2), *range(1, 18, 2), 18, 19), numbers(1, (3, 4))
    np.testing.assert_allclose(k.to_numpy(k.matmul_bias_act(k.adopt(a), k.adopt(b), None, None, "relu")), np.maximum(a @ b, 0), 1e-12)
    x = k.transpose(k.adopt(np.ones((2,) * 19)), (*range(16, -1, -1), 17, 18))  # rows that are one axis in no way
    np.testing.assert_array_equal(k.to_numpy(k.matmul_bias_act(x, k.adopt(np.ones((2, 2))), None, None, "relu")), np.full((2,) * 19, 2.0))


def test_residuals_that_do_not_fit(k):
    a, b, z = (k.adopt(np.ones(s)) for s in [(2, 3), (3, 4), (2, 5)])
    with pytest.raises(ValueError, match=r"\(2, 5\)"):
        k.matmul_bias_act(a, b, None, z, "relu")
    with pytest.raises(ValueError, match=r"\(2, 5\) do not broadcast to the product's shape \(2, 1\)"):
        k.matmul_bias_act(a, k.adopt(np.ones((3, 1))), None, z, "relu")
    with pytest.raises(ValueError, match=r"\(2, 3\) and b \(2, 5\)"):
        k.matmul_bias_act(a, z, None, None, "relu")


# -- einsum

LENGTHS = {"i": 3, "j": 4, "k": 5, "l": 2, "b": 2}
SUBSCRIPTS = [
    "ij,jk->ik", "ij->ji", "ii->i", "ii->", "ij->", "i,j->ij", "ij,ij->i", "ij,ij->", "bij,bjk->bik", "bij,bjk->ikb", "ij,jk,kl->il",
    "ij,ik,il->jkl", "iij,jk->ik", "ijk,jk->i", "i,i,i->", "i,i,i->i", "ij,kl->", "->", ",->", "i,->i", "bi,bj,bk->ijk", "ijj,jk->i",
    "ij,jk->", "ij,k->ijk", "iii->i", "ij,j,i->i", "ijk,ilk->jl",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("f8", "f4", "i1", "?")], ids=str)
@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_einsum(k, subscripts, dtype):
    xs = [numbers(i, [LENGTHS[c] for c in name], dtype) for i, name in enumerate(subscripts.split("->")[0].split(","))]
    y, want = k.to_numpy(k.einsum(subscripts, [k.adopt(x) for x in xs])), np.einsum(subscripts, *xs)
    np.testing.assert_allclose(y, want, *((2e-5, 1e-3) if dtype == np.float32 else (1e-12, 1e-12)), strict=True)


def test_einsum_of_bfloat16_and_mixed_dtypes(k):
    a, b = numbers(0, (3, 4), BFLOAT16), numbers(1, (4, 2), BFLOAT16)
    check(k.to_numpy(k.einsum("ij,jk->ik", [k.adopt(a), k.adopt(b)])), a, b, BFLOAT16)
    a, b = numbers(0, (3, 4), np.dtype("i2")), numbers(1, (4, 2), np.dtype("f4"))
    np.testing.assert_allclose(k.to_numpy(k.einsum("ij,jk->ik", [k.adopt(a), k.adopt(b)])), np.einsum("ij,jk->ik", a, b), 1e-5, strict=True)


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,jk->ijk", "ij,jk,ij->k"])
def test_einsum_stretches_axes_of_length_1(k, subscripts):
    a, b = numbers(0, (3, 1)), numbers(1, (4, 5))
    xs = [a, b, numbers(2, (1, 4))][: subscripts.count(",") + 1]
    np.testing.assert_allclose(k.to_numpy(k.einsum(subscripts, [k.adopt(x) for x in xs])), np.einsum(subscripts, *xs), 1e-12)


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,ij->ij", "ij,jk->j"])
def test_einsum_of_empty_arrays(k, subscripts):
    sizes = {"i": 3, "j": 0, "k": 2}
    xs = [np.ones([sizes[c] for c in name]) for name in subscripts.split("->")[0].split(",")]
    np.testing.assert_array_equal(k.to_numpy(k.einsum(subscripts, [k.adopt(x) for x in xs])), np.einsum(subscripts, *xs), strict=True)


@pytest.mark.parametrize("subscripts", ["ij->ij", "ij->ji", "ii->i"])
def test_einsum_gives_no_view(k, subscripts):
    x = k.adopt(numbers(0, (3, 3)))
    assert k.einsum(subscripts, [x]).block is not x.block


@pytest.mark.parametrize(
    ("subscripts", "shapes", "says"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], "'j'"),
        ("ij->ij", [(2, 3, 4)], r"\(2, 3, 4\)"),
        ("ij->ij", [(2, 3), (2, 3)], "each operand"),
        ("ii->i", [(1, 3)], r"\(1, 3\)"),
        ("ij->ik", [(2, 3)], "letter"),
        ("ij->ii", [(2, 3)], "letter"),
    ],
)
def test_einsum_refuses(k, subscripts, shapes, says):
    with pytest.raises(ValueError, match=f"einsum: .*{says}"):
        k.einsum(subscripts, [k.adopt(np.ones(s)) for s in shapes])


# -- convolve


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype("i1"), np.dtype("?")], ids=str)
@pytest.mark.parametrize("full", [True, False], ids=["full", "valid"])
def test_convolve(k, full, dtype):
    for n, m in [(1, 1), (5, 3), (3, 5), (300, 70), (7, 7), (1000, 1)]:
        a, v = numbers(0, n, dtype), numbers(1, m, dtype)
        y, mode = k.to_numpy(k.convolve(k.adopt(a), k.adopt(v), full)), "full" if full else "valid"
        if dtype.kind in "fV":
            wide = a.astype(np.float64), v.astype(np.float64)
            near(y, np.convolve(*wide, mode), np.convolve(*map(abs, wide), mode), min(n, m), dtype, f"{n} and {m}")
        else:
            np.testing.assert_array_equal(y, np.convolve(a, v, mode), strict=True)


@pytest.mark.parametrize("full", [True, False], ids=["full", "valid"])
def test_convolve_strides_and_infinities(k, full):
    a, v = numbers(0, (40, 2)), numbers(1, (9,))
    a[0, 0] = np.inf
    x, w = k.getitem(k.adopt(a), (slice(None), 0)), k.getitem(k.adopt(v), slice(None, None, -1))
    want = np.convolve(a[:, 0], v[::-1], "full" if full else "valid")
    np.testing.assert_allclose(k.to_numpy(k.convolve(x, w, full)), want, 1e-12)


@pytest.mark.parametrize("shapes", [((0,), (3,)), ((3,), (0,)), ((2, 2), (3,)), ((), (3,))])
def test_convolve_refuses(k, shapes):
    with pytest.raises(ValueError, match=r"convolve: .*1-d and not empty"):
        k.convolve(*(k.adopt(np.ones(s)) for s in shapes), True)
