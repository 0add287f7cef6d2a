"""The pycuda backend's elementwise kernels: their values, dtypes, layouts and errors against NumPy's.

Compiling is what costs time, so one rule computes a kernel for all dtypes at once, on every pair of their edge values.
"""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotape.backends.kernels import Kernels
from autotape.backends.numpy_backend import NumpyKernels
from autotape.backends.pycuda_backend import layout
from autotape.backends.pycuda_backend.symbols import SYMBOLS, NotElementwise, Symbol, Trace

ml_dtypes = pytest.importorskip("ml_dtypes")

N = NumpyKernels()
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
FLOATS = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
TYPES = [np.dtype(bool), *INTEGERS, *FLOATS]
COUNTS = {"Unary": 1, "Binary": 2}
KERNELS = {name: COUNTS[kind] for name, kind in Kernels.__annotations__.items() if kind in COUNTS} | {
    "relu_x": 2, "elu_x": 2, "sigmoid_x": 2, "ldexp": 2, "exponent": 1,
}  # fmt: skip

RTOL = {np.dtype(np.float16): 1e-3, BFLOAT16: 8e-3, np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-13}
MAX = {np.dtype(np.float16): 6e4, BFLOAT16: 3e38, np.dtype(np.float32): 3e38, np.dtype(np.float64): 1e308}
CANCELS = ("logaddexp", "logaddexp2")  # to within rounding of their arguments
EITHER_ZERO = ("maximum", "minimum", "fmax", "fmin", "relu", "elu", "selu", "relu_x", "elu_x", "sign")  # NumPy's own loops differ in them


def edges(dtype):
    """24 numbers of a dtype where its functions change their ways."""
    if dtype.kind == "b":
        values = [False, True]
    elif dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        values = [0, 1, 2, 3, 5, 7, 10, 100, most, most - 1, most // 2, *((-1, -2, -3, -7, -10, -100, least, least + 1) if least else ())]
    else:
        tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
        values = [0.0, 1, 0.5, 1.5, 2.5, 3, 0.1, 0.9, 7.25, 30, tiny, MAX[dtype], np.inf]
        values = [*values, *(-v for v in values[:10]), np.nan]
    return np.array(list(itertools.islice(itertools.cycle(values), 24)), np.float64 if dtype == BFLOAT16 else dtype).astype(dtype)


def pairs(a, b):
    """Every element of a beside every element of b."""
    return np.repeat(a, b.size), np.tile(b, a.size)


def by_numpy(name, *args):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(N, name)(*args)


def agree(name, y, expected, args=()):
    """NumPy's dtype and shape, and its values to rounding, zeros with their signs."""
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape), f"{name}: {y.dtype}{y.shape} instead of {expected.dtype}{expected.shape}"
    if y.dtype not in RTOL:
        wrong = y != expected
    else:
        a, b, info = y.astype(float), expected.astype(float), ml_dtypes.finfo(y.dtype)
        atol = 4 * float(info.eps if name in CANCELS else info.smallest_subnormal)
        with np.errstate(all="ignore"):
            wrong = ~np.isclose(a, b, RTOL[y.dtype], atol, equal_nan=True)
        if name not in EITHER_ZERO:
            wrong |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    if wrong.any():
        i = np.argwhere(wrong)[0]
        at = ", ".join(f"{x.dtype} {x[tuple(i)] if x.ndim else x}" for x in args)
        raise AssertionError(f"{name}({at}) is {y[tuple(i)]} instead of {expected[tuple(i)]}, one of {wrong.sum()} differences")


def defined(name, args):
    """Leaves out what C leaves open: NumPy gives whatever the compiler made of it."""
    if args[0].dtype.kind in "biu" and name == "reciprocal":
        args = [np.where(args[0] == 0, np.ones_like(args[0]), args[0])]
    if args[0].dtype.kind in "iu" and name == "power":
        args = [args[0], np.where(args[1] < 0, np.ones_like(args[1]), args[1])]
    if name == "sigmoid_x":  # of float16 outside of sigmoid's values NumPy overflows on the way
        wide = args[1].astype(float)
        args = [args[0], np.where(np.isnan(wide) | (abs(wide - 0.5) <= 0.5), args[1], np.ones_like(args[1]))]
    return args


def all_types(name):
    """The arguments of a kernel for every dtype that NumPy's takes, and its results."""
    for dtype in TYPES:
        x = edges(dtype)
        exponents = np.array([0, 1, -1, 3, -3, 12, -12, 2**30, -(2**30)], np.int32)
        args = [x] if KERNELS[name] == 1 else list(pairs(x, exponents if name == "ldexp" else x))
        args = defined(name, args)
        try:
            expected = by_numpy(name, *args)
        except TypeError:
            continue
        if name == "selu":  # beside Python numbers NumPy widens bfloat16, and takes expm1 of small integers in float16
            expected = expected.astype(dtype) if dtype == BFLOAT16 else by_numpy(name, x.astype(expected.dtype))
        yield args, expected


@pytest.mark.parametrize("name", KERNELS)
def test_values(k, name):
    cases = list(all_types(name))
    count = KERNELS[name]
    rule = k.rule(lambda table, *xs: tuple(getattr(table, name)(*xs[i : i + count]) for i in range(0, len(xs), count)), name)
    for y, (args, expected) in zip(rule(*[k.adopt(x) for case in cases for x in case[0]]), cases, strict=True):
        agree(name, k.to_numpy(y), expected, args)


# -- dtypes


@pytest.mark.parametrize("name", KERNELS)
def test_dtypes(name):
    """Of every combination that NumPy takes, and TypeError for the others; nothing is compiled for that."""
    for dtypes in itertools.product(TYPES, repeat=KERNELS[name]):
        try:
            expected = by_numpy(name, *[np.ones(1, d) for d in dtypes]).dtype
        except TypeError:
            expected = TypeError
        try:
            trace = Trace()
            found = getattr(SYMBOLS, name)(*[Symbol(trace, f"x{i}", d) for i, d in enumerate(dtypes)]).dtype
        except TypeError:
            found = TypeError
        if BFLOAT16 not in dtypes or name not in ("selu", "relu_x", "elu_x", "sigmoid_x"):
            assert found == expected, f"{name} of {dtypes} gives {found} instead of {expected}"


def test_mixed_dtypes(k):
    """Arithmetic and comparison convert their arguments as NumPy does."""
    x = {d: np.array([0, 1, 3, 100], d) for d in TYPES}
    arrays = [k.adopt(x[d]) for d in TYPES]
    both = list(itertools.product(range(len(TYPES)), repeat=2))
    for name in ("add", "less"):
        rule = k.rule(lambda table, *xs, name=name: tuple(getattr(table, name)(xs[i], xs[j]) for i, j in both), name)
        for (i, j), y in zip(both, rule(*arrays), strict=True):
            args = x[TYPES[i]], x[TYPES[j]]
            agree(name, k.to_numpy(y), by_numpy(name, *args), args)


def test_comparing_int64_with_uint64_is_exact(k):
    a, b = np.array([-1, 2**62, 2**63 - 1]), np.array([2**64 - 1, 2**62 + 1, 2**63 - 1], np.uint64)
    for name in ("less", "equal", "greater_equal"):
        rule = k.rule(lambda table, a, b, name=name: (getattr(table, name)(a, b), getattr(table, name)(b, a)), name)
        for y, args in zip(rule(k.adopt(a), k.adopt(b)), ((a, b), (b, a)), strict=True):
            agree(name, k.to_numpy(y), by_numpy(name, *args), args)


def test_casts(k):
    """Between all pairs of dtypes, of values that both have; anything but 0 is True, NaN too."""
    values = {d: np.array([0, 1, 1, 0] if d.kind == "b" else [0, 1, 100, 7], d) for d in TYPES}
    both = list(itertools.product(TYPES, repeat=2))
    cast = k.rule(lambda table, *xs: tuple(table.astype(xs[TYPES.index(a)], b) for a, b in both), "casts")
    for (a, b), y in zip(both, cast(*[k.adopt(values[d]) for d in TYPES]), strict=True):
        agree("astype", k.to_numpy(y), values[a].astype(b), (values[a],))
    agree("astype", k.to_numpy(k.astype(k.adopt(np.array([np.nan, 0, -0.0, 0.25])), bool)), np.array([True, False, False, True]))
    numbers = np.array([2049 * 2.0**-11 + 2**-40, 1 + 2**-11 + 2**-30])  # that would be rounded twice by way of float32
    agree("astype", k.to_numpy(k.astype(k.adopt(numbers), np.float16)), numbers.astype(np.float16))


# -- kernels with options, and where


@pytest.mark.parametrize("decimals", [0, 2, -1])
def test_round(k, decimals):
    xs = [np.array([0.5, 1.5, -2.5, 0.125, 17.345, -0.0, np.inf, np.nan], d) for d in (np.float16, np.float32, np.float64)]
    xs += [np.array([15, 25, 126, 4, 0, 1, 2, 3], d) for d in (np.int32, np.uint8)]
    rule = k.rule(lambda table, *ys: tuple(table.round(y, decimals) for y in ys), "round")
    for x, y in zip(xs, rule(*map(k.adopt, xs)), strict=True):
        agree("round", k.to_numpy(y), by_numpy("round", x, decimals), (x,))


def test_round_of_bool(k):
    x = np.array([True, False])
    agree("round", k.to_numpy(k.round(k.adopt(x), 0)), by_numpy("round", x, 0))
    with pytest.raises(TypeError, match="round"):
        k.round(k.adopt(x), 1)


@pytest.mark.parametrize("order", [0, 1, 2, 7])
def test_bessel_i(k, order):
    xs = [np.array([0, 1e-3, -0.5, 1, 5, -19, 21, 60, 90, np.inf, np.nan], d) for d in (np.float32, np.float64)] + [np.arange(-3, 8)]
    rule = k.rule(lambda table, *ys: tuple(table.bessel_i(y, order) for y in ys), "bessel_i")
    for x, y in zip(xs, rule(*map(k.adopt, xs)), strict=True):
        agree("bessel_i", k.to_numpy(y), by_numpy("bessel_i", x, order), (x,))
    by_option = k.rule(lambda table, x, order: table.bessel_i(x, order), "bessel_i")
    agree("bessel_i", k.to_numpy(by_option(k.adopt(xs[1]), order)), by_numpy("bessel_i", xs[1], order), (xs[1],))


def test_where(k):
    masks = [np.array([[True], [False]]), np.array([[0.0], [np.nan]]), np.array([[2], [0]])]
    a, b = np.array([1.5, np.nan, -0.0], np.float32), np.array([7, 8, 9], np.int16)
    rule = k.rule(lambda table, a, b, *ms: tuple(table.where(m, a, b) for m in ms), "where")
    for mask, y in zip(masks, rule(k.adopt(a), k.adopt(b), *map(k.adopt, masks)), strict=True):
        agree("where", k.to_numpy(y), by_numpy("where", mask, a, b))


def test_infinite_and_undefined_cotangents(k):
    """Where an activation is flat its cotangent is 0, whatever comes in."""
    dy, y = np.array([np.inf, np.nan, 2, 3], np.float32), np.array([0, -1, np.nan, 1], np.float32)
    agree("relu_x", k.to_numpy(k.relu_x(k.adopt(dy), k.adopt(y))), np.array([0, 0, 0, 3], np.float32))


# -- layouts


def on_device(k, x):
    """x, a view of a NumPy array of its own, as the same view of an array on the device."""
    from autotape.backends.pycuda_backend.array import view

    base = x
    while base.base is not None:
        base = base.base
    return view(k.adopt(base), x.shape, x.strides, x.ctypes.data - base.ctypes.data)


@st.composite
def views(draw, shape, dtype=np.float32, whole=False):
    """An array of `shape`, or one that broadcasts to it: transposed, reversed, with gaps, with strides of 0."""
    axes = range(len(shape)) if whole else range(draw(st.integers(0, len(shape))), len(shape))
    shape = tuple(shape[a] if whole or draw(st.booleans()) else 1 for a in axes)
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1, -2])) for _ in shape]
    lengths = [shape[a] * abs(steps[a]) for a in order]
    base = np.arange(1, 1 + int(np.prod(lengths)), dtype=dtype).reshape(lengths)
    x = base.transpose(np.argsort(order)) if shape else base
    return x[(..., *(slice(None, None, s) for s in steps))]


@st.composite
def operands(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    return draw(views(shape)), draw(views(shape, np.float64)), draw(views(shape, whole=True))


@given(operands())
def test_layouts(k, drawn):
    """Whatever the strides and however the shapes broadcast."""
    a, b, _ = drawn
    agree("subtract", k.to_numpy(k.subtract(on_device(k, a), on_device(k, b))), np.asarray(a - b), ())


@given(operands())
def test_writing_into_layouts(k, drawn):
    a, b, out = drawn
    out = out[...]
    y = on_device(k, out)
    k.rule(lambda table, a, b: table.subtract(a, b), "subtract").into((y,), on_device(k, a), on_device(k, b))
    agree("subtract into", k.to_numpy(y), np.broadcast_to(a - b, out.shape).astype(np.float32))


def test_results_lie_as_the_first_whole_argument(k):
    """As NumPy's do, so that what follows can be counted through."""
    x = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
    y = k.add(on_device(k, x), k.adopt(np.ones((1, 3))))
    assert y.strides == (x + 1).strides


def test_sizes(k):
    """Around those of warps, blocks and packs, with memory that packs can't be loaded from, and more than one grid covers."""
    for n in (0, 1, 3, 4, 31, 32, 33, 255, 257, 1023, 1025, 50_001):
        x = np.arange(n + 1, dtype=np.float32)
        agree("add", k.to_numpy(k.add(k.adopt(x), k.adopt(x))), x + x)
        tail = on_device(k, x[1:])
        agree("add", k.to_numpy(k.add(tail, tail)), x[1:] + x[1:])


def test_more_axes_than_a_kernel_takes(k):
    x = np.arange(2**17, dtype=np.float32).reshape((2,) * 17)
    a, b = x.transpose(), x[:, :1]
    agree("subtract", k.to_numpy(k.subtract(on_device(k, a), on_device(k, b))), a - b)


def test_64_bit_indices(k, monkeypatch):
    """The kernel that counts in 64 bits, on arrays that have no need of it."""
    monkeypatch.setattr(layout, "_letter", lambda extents, steps: "q")
    layout.walk.cache_clear()
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    agree("subtract", k.to_numpy(k.subtract(on_device(k, x.T), on_device(k, x[0][:, None]))), x.T - x[0][:, None])
    layout.walk.cache_clear()


GIB = 2**30


@pytest.mark.parametrize(
    ("forms", "letter"),
    [
        ([((2**15, 2**15), (4, 4 * 2**15), 4)] * 2, "i"),
        ([((2**16, 2**15), (4, 4 * 2**16), 4), ((2**15,), (4,), 4)], "q"),
        ([((3, 5), (GIB, 1), 1), ((5,), (1,), 1)], "q"),  # 15 elements, the last further than 32 bits reach
        ([((2, 5), (-2 * GIB, 1), 1), ((5,), (1,), 1)], "q"),
        ([((2, 5), (-GIB, 1), 1), ((5,), (1,), 1)], "i"),
    ],
)
def test_when_indices_need_64_bits(forms, letter):
    assert layout.walk(tuple(forms), 1).letter == letter


def test_neighbouring_axes_are_taken_as_one():
    assert layout.merged([2, 1, 3, 4], [[12, 9, 4, 1], [12, 7, 4, 1]]) == ([24], [[1], [1]])
    assert layout.merged([2, 3, 4], [[12, 4, 1], [0, 4, 1]]) == ([2, 12], [[12, 1], [0, 1]])
    assert layout.walk((((4, 6), (24, 4), 4), ((4, 6), (24, 4), 4)), 1).fields is None


# -- Python's operators


def test_numbers_are_weak(k):
    def all_operators(x):
        return x + 2, 1.5 * x, 7 - x, x / 2, x**2, x // 2, 5 % x, x < 2, x != 1, -x

    xs = [np.array([1, 2, 3], d) for d in (np.int8, np.uint8, np.int64, np.float16, np.float32)]
    rule = k.rule(lambda table, *xs: tuple(y for x in xs for y in all_operators(x)), "operators")
    for y, (i, expected) in zip(rule(*map(k.adopt, xs)), [(i, y) for x in xs for i, y in enumerate(all_operators(x))], strict=True):
        agree(f"operator {i}", k.to_numpy(y), expected)
    for i, (y, expected) in enumerate(zip(all_operators(k.adopt(xs[0])), all_operators(xs[0]), strict=True)):
        agree(f"operator {i}", k.to_numpy(y), expected, xs[:1])


def test_bfloat16_stays_beside_numbers(k):
    x = k.adopt(np.array([1, 2], BFLOAT16))
    assert k.rule(lambda table, x: x * 0.5 + 1, "half")(x).dtype == BFLOAT16


def test_numbers_too_large_for_the_dtype(k):
    x = np.array([1, 200], np.uint8)
    agree("x < 300", k.to_numpy(k.adopt(x) < 300), x < 300)
    agree("x > -1", k.to_numpy(k.adopt(x) > -1), x > -1)


def test_numbers_beside_a_dtype_that_is_a_class(k):
    x = np.array([1, 2], np.float32)
    rule = k.rule(lambda table, x: x + table.scalar(0.1, np.float64), "add")
    agree("x + float64", k.to_numpy(rule(k.adopt(x))), x + np.float64(0.1))
    assert k.scalar(0.1, np.float32).dtype == np.float32


def test_numpy_numbers_are_not_weak(k):
    x = np.array([1, 2], np.float32)
    agree("x + float64", k.to_numpy(k.adopt(x) + np.float64(0.1)), x + np.float64(0.1))


def test_a_new_number_needs_no_new_kernel(k, monkeypatch):
    from autotape.backends.pycuda_backend import elementwise

    x = k.adopt(np.array([1, 2], np.float32))
    x * 3
    monkeypatch.setattr(elementwise, "from_source", None)
    agree("x * 4", k.to_numpy(x * 4), np.array([4, 8], np.float32))


def test_in_place(k):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = before = k.adopt(x)
    for title, f in {"+=": lambda a, b: a.__iadd__(b), "-=": lambda a, b: a.__isub__(b), "*=": lambda a, b: a.__imul__(b)}.items():
        y, x = f(y, k.adopt(np.ones(3))), f(x, np.ones(3))
        y, x = f(y, 2), f(x, 2)
        agree(title, k.to_numpy(y), x)
    y /= 4
    y **= 2
    agree("**=", k.to_numpy(y), (x / 4) ** 2)
    assert y is before
    with pytest.raises(ValueError, match=r"shapes .* do not fit into \(2, 3\)"):
        y += k.adopt(np.ones((2, 2, 3), np.float32))


def test_the_spacing_of_zeros(k):
    for dtype in FLOATS:
        x = np.array([0.0, -0.0], dtype)
        np.testing.assert_array_equal(k.to_numpy(k.spacing(k.adopt(x))), N.spacing(x), f"spacing of {dtype}")


OVERLAPS = {
    "a shift": (slice(1, None), slice(None, -1)),
    "backwards": (slice(None), slice(None, None, -1)),
    "a row": (slice(None), slice(0, 1)),
}


@pytest.mark.parametrize(("to", "of"), OVERLAPS.values(), ids=OVERLAPS)
def test_in_place_with_a_view_of_the_same_memory(k, to, of):
    x = np.arange(2000, dtype=np.float32).reshape(40, 50)
    y = k.adopt(x)
    part = k.getitem(y, to)
    part += k.getitem(y, of)
    x[to] += x[of].copy()
    agree("+=", k.to_numpy(y), x)


def test_in_place_on_what_others_have(k):
    three = k.scalar(3.0, np.dtype(np.float32))
    x = three
    x += 1
    seen = k.reshape(three, (1,))
    seen *= 2
    agree("a number", k.to_numpy(x), np.array(4, np.float32))
    agree("a view of a number", k.to_numpy(seen), np.array([6], np.float32))
    agree("the number itself", k.to_numpy(k.broadcast_to(k.scalar(3.0, np.dtype(np.float32)), (2,))), np.array([3, 3], np.float32))
    with pytest.raises(ValueError, match=r"add in place: an array that was broadcast to \(2, 3\) has several elements in one place"):
        k.broadcast_to(k.adopt(np.ones(3)), (2, 3)).__iadd__(1)
    agree("nothing", k.to_numpy(k.adopt(np.ones((3, 0))).__iadd__(1)), np.ones((3, 0)))


@pytest.mark.parametrize(("dtype", "other"), [(bool, np.int64), (np.uint8, np.int64), (np.int32, np.float32)])
def test_in_place_results_that_the_array_can_not_hold(k, dtype, other):
    with pytest.raises(TypeError, match=f"add in place: what is .* can't be kept in an array of {np.dtype(dtype)}"):
        k.adopt(np.ones(2, dtype)).__iadd__(k.adopt(np.ones(2, other)))


def test_shapes_and_numbers_that_there_are_none_of(k):
    with pytest.raises(ValueError, match=r"an array of shape \(6,\) has no shape \(-2, -3\)"):
        k.reshape(k.adopt(np.ones(6)), (-2, -3))
    with pytest.raises(ValueError, match=r"\(-1, -2\) has a negative length"):
        k.zeros((-1, -2), np.float32)
    with pytest.raises(OverflowError, match="300"):
        k.full((2,), 300, np.uint8)


def test_negative_powers_of_integers(k):
    x = k.adopt(np.array([1, -1, 2]))
    with pytest.raises(ValueError, match="negative integer powers"):
        x ** -1
    with pytest.raises(ValueError, match="negative integer powers"):
        k.power(x, k.adopt(np.array(-2)))
    agree("x ** [-1 -3 -2]", k.to_numpy(k.power(x, k.adopt(np.array([-1, -3, -2])))), np.array([1, -1, 0]))  # the device can't raise


def test_errors(k):
    x = k.adopt(np.ones(3))
    with pytest.raises(ValueError, match=r"shapes \(3,\) and \(4,\) do not broadcast"):
        k.add(x, k.adopt(np.ones(4)))
    with pytest.raises(TypeError, match="subtract of bool and bool"):
        k.subtract(k.adopt(np.array([True])), k.adopt(np.array([False])))
    with pytest.raises(TypeError, match="ndarray is neither an array of this backend"):
        k.add(x, np.ones(3))
    with pytest.raises(TypeError, match="complex128"):
        k.adopt(np.ones(3, complex))


# -- rules


def compiled(k, rule):
    from autotape import backend

    return k.compile_elementwise(rule, backend.use_kernels)


def counted(monkeypatch):
    """The titles of the kernels that are asked for from now on."""
    from autotape.backends.pycuda_backend import elementwise

    titles, real = [], elementwise.from_source
    monkeypatch.setattr(elementwise, "from_source", lambda *args: titles.append(args[-1]) or real(*args))
    return titles


def test_a_rule_is_one_launch_and_options_are_its_arguments(k, monkeypatch):
    titles = counted(monkeypatch)

    def swish_and_slope(x, beta):
        from autotape import kernels

        y = kernels().sigmoid(x * beta)
        return x * y, y + beta * x * y * (1 - y)

    rule, x = compiled(k, swish_and_slope), np.linspace(-2, 2, 7)
    for beta in (1.0, 0.5):
        y, slope = rule(k.adopt(x), beta)
        s = 1 / (1 + np.exp(-beta * x))
        np.testing.assert_allclose(k.to_numpy(y), x * s, 1e-13)
        np.testing.assert_allclose(k.to_numpy(slope), s + beta * x * s * (1 - s), 1e-13)
    assert len(titles) == 1 and "swish_and_slope" in titles[0]
    np.testing.assert_allclose(k.to_numpy(rule(k.adopt(x), beta=0.5)[0]), x * s, 1e-13)


def test_an_option_that_a_rule_chooses_by_is_part_of_its_text(k, monkeypatch):
    titles = counted(monkeypatch)
    rule, x = compiled(k, lambda x, n: x * x if n > 1 else -x), np.array([1.0, 2])
    for n in (1, 2, 2, 1):
        agree(f"n = {n}", k.to_numpy(rule(k.adopt(x), n)), x * x if n > 1 else -x)
    assert len(titles) == 2


def test_what_is_not_elementwise_runs_as_it_stands(k):
    rule, x = compiled(k, lambda x: x * x.shape[0]), np.array([1.0, 2])
    agree("an option without a hash", k.to_numpy(compiled(k, lambda x, o: x + o[0][0])(k.adopt(x), ([1], 2))), x + 1)
    agree("by shape", k.to_numpy(rule(k.adopt(x))), x * 2)
    rule = compiled(k, lambda x: x if x.item() > 0 else -x)
    agree("by value", k.to_numpy(rule(k.adopt(np.array([-3.0])))), np.array([3.0]))
    with pytest.raises(NotElementwise, match="branches"):
        k.rule(lambda table, x: x if x else -x, "branching")(k.adopt(x))


def test_halves_are_rounded_at_every_step(k):
    x = np.linspace(0.1, 3, 50).astype(np.float16)
    agree("rounded", k.to_numpy(k.rule(lambda table, x: x * x - x * x * x, "cubic")(k.adopt(x))), x * x - x * x * x)


def test_pedantic_mode_rounds_every_product(k):
    from autotape import math_mode

    a, b, c = (np.linspace(x, x + 1, 64, dtype=np.float32) for x in (1.1, 2.3, -3.7))
    rule = k.rule(lambda table, a, b, c: a * b + c, "product and sum")
    with math_mode.use("pedantic"):
        np.testing.assert_array_equal(k.to_numpy(rule(*map(k.adopt, (a, b, c)))), a * b + c)
    np.testing.assert_allclose(k.to_numpy(rule(*map(k.adopt, (a, b, c)))), a * b + c, 1e-6, 1e-6)
