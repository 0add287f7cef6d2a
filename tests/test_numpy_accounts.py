"""Every function that NumPy dispatches has a class, and does what its class says.

EXAMPLES holds a call of each that isn't refused: a function without one fails, so nothing is called differentiable untried.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from lacking import unless_lacking

import autotape as at
from autotape import backend, numpy_accounts, numpy_protocol, tree
from autotape.cli import main
from autotape.errors import OperatorError
from autotape.numpy_protocol import DIFFERENTIABLE, REFUSED, account
from autotape.opsets.array.numpy_refused import REFUSED as REASONS
from autotape.tensor import is_tracked
from autotape.testing import check_grads

PAGE = Path(__file__).parent.parent / "docs" / "numpy.md"
FUNCTIONS = numpy_accounts.functions()
ACCOUNTS = {name: account(f) for name, f in FUNCTIONS.items()}
ON_PAGE = f"is for NumPy {numpy_accounts.version()}." in PAGE.read_text(encoding="utf-8")

# What the examples' parameters stand for.  All values differ, lie in (0.2, 0.9), and are no halves.
INPUTS = {
    "x": np.array([[0.21, 0.83, 0.35], [0.62, 0.44, 0.77]]),
    "y": np.array([[0.71, 0.26, 0.58], [0.39, 0.88, 0.66]]),
    "v": np.array([0.32, 0.81, 0.55]),
    "w": np.array([0.45, 0.24, 0.73]),
    "s": np.array([[0.85, 0.22, 0.31], [0.27, 0.72, 0.41], [0.36, 0.25, 0.64]]),
}
MASK = np.array([[True, False, True], [False, False, True]])
WHOLE = np.array([[5, 2, 9], [4, 7, 6]])
ORDER = np.array([[2, 0, 1], [1, 2, 0]])


def whole(x):
    """The integers of WHOLE in the type of x."""
    return (WHOLE + 0 * x).astype(int)


def definite(s):
    return s @ s.T + np.eye(3)


# ---------------------------------------------------------------- an example of every function

ALIKE = {
    lambda f, x: f(x): """
        absolute all amax amin any arccos arcsin arcsinh arctan arctanh argmax argmin argsort argwhere around array2string array_repr
        array_str atleast_1d atleast_2d atleast_3d average cbrt ceil common_type conjugate copy corrcoef cos cosh count_nonzero cov cumprod
        cumsum deg2rad degrees diag diagflat diagonal diff ediff1d exp exp2 expm1 fabs fix flatnonzero flip fliplr flipud floor frexp
        gradient histogram histogram_bin_edges i0 iscomplex iscomplexobj isfinite isinf isnan isneginf isposinf isreal isrealobj log
        log10 log1p log2 logical_not matrix_transpose max mean median min min_scalar_type modf nan_to_num nanargmax nanargmin nancumprod
        nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar ndim negative nonzero ones_like positive prod ptp rad2deg
        radians ravel real real_if_close reciprocal result_type rint rot90 round shape signbit sin sinc sinh size sort spacing sqrt
        square squeeze std sum tan tanh trace transpose trapezoid tril triu trunc unique unique_all unique_counts
        unique_inverse unique_values unstack unwrap var zeros_like _core.umath._ones_like
        linalg.cond linalg.diagonal linalg.matrix_norm linalg.matrix_rank linalg.matrix_transpose linalg.norm linalg.pinv linalg.svdvals
        linalg.trace linalg.vector_norm
        fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft fft.irfft fft.irfft2
        fft.irfftn fft.rfft fft.rfft2 fft.rfftn
    """,
    lambda f, x, y: f(x, y): """
        add allclose append arctan2 array_equal array_equiv copysign divide divmod equal float_power floor_divide fmax fmin fmod greater
        greater_equal hypot inner isclose isin kron less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum
        may_share_memory minimum multiply nextafter not_equal outer power remainder shares_memory subtract vdot vecdot linalg.vecdot
    """,
    lambda f, v: f(v): "poly polyder polyint roots vander",
    lambda f, v, w: f(v, w): "convolve correlate cross dot histogram2d polyadd polymul polysub polyval linalg.cross linalg.outer",
    lambda f, s: f(s): "linalg.det linalg.inv linalg.slogdet linalg.qr linalg.svd",
}

EXAMPLES = {
    **{name: call for call, names in ALIKE.items() for name in names.split()},
    # elementwise
    "_core.umath.clip": lambda f, x, y: f(x, y, 0.85),
    "angle": lambda f, x: f(x - 0.5j),
    "arccosh": lambda f, x: f(1 + x),
    "astype": lambda f, x: f(2 * x, np.float64),
    "bitwise_and": lambda f, x: f(x > 0.4, MASK),
    "bitwise_count": lambda f, x: f(whole(x)),
    "bitwise_or": lambda f, x: f(x > 0.4, MASK),
    "bitwise_xor": lambda f, x: f(x > 0.4, MASK),
    "clip": lambda f, x: f(x, 0.3, 0.8),
    "gcd": lambda f, x: f(whole(x), 6),
    "imag": lambda f, x: f(x * 1j),
    "heaviside": lambda f, x: f(np.zeros(3), x),
    "interp": lambda f, x, w: f(x, [0.1, 0.4, 1.0], w),
    "invert": lambda f, x: f(x > 0.4),
    "lcm": lambda f, x: f(whole(x), 6),
    "ldexp": lambda f, x: f(x, WHOLE),
    "left_shift": lambda f, x: f(whole(x), 2),
    "right_shift": lambda f, x: f(whole(x), 1),
    "select": lambda f, x, y: f([MASK, x > 0.5], [x, y * y], 0.0),
    "sign": lambda f, x: f(x + 1j),
    "where": lambda f, x, y: f(MASK, x, y),
    **{f"lib.scimath.{name}": lambda f, x: f(x - 0.5) for name in ("log", "log10", "log2", "sqrt")},
    **{f"lib.scimath.{name}": lambda f, x: f(2 * x) for name in ("arccos", "arcsin", "arctanh")},
    "lib.scimath.logn": lambda f, x, y: f(x, y - 0.5),
    "lib.scimath.power": lambda f, x, y: f(x - 0.5, y),
    # shapes
    "apply_along_axis": lambda f, x: f(lambda v: v * v.sum(), 1, x),
    "apply_over_axes": lambda f, x: f(np.sum, x, (0, 1)),
    "array_split": lambda f, x: f(x, 2, axis=1),
    "block": lambda f, x, y: f([[x, y], [y, x]]),
    "broadcast_arrays": lambda f, x, v: f(x, v),
    "broadcast_to": lambda f, x: f(x, (2, 2, 3)),
    "column_stack": lambda f, v, w: f([v, w]),
    "concatenate": lambda f, x, y: f([x, y]),
    "diag_indices_from": lambda f, s: f(s),
    "dsplit": lambda f, x: f(x[None], 3),
    "dstack": lambda f, x, y: f([x, y]),
    "expand_dims": lambda f, x: f(x, 1),
    "hsplit": lambda f, x: f(x, 3),
    "hstack": lambda f, x, y: f([x, y]),
    "lib.stride_tricks.sliding_window_view": lambda f, x: f(x, 2, axis=1),
    "meshgrid": lambda f, v, w: f(v, w),
    "moveaxis": lambda f, x: f(x, 0, 1),
    "pad": lambda f, x: f(x, 1),
    "repeat": lambda f, x: f(x, 2),
    "reshape": lambda f, x: f(x, (3, 2)),
    "resize": lambda f, x: f(x, (3, 4)),
    "roll": lambda f, x: f(x, 1),
    "rollaxis": lambda f, x: f(x, 1),
    "split": lambda f, x: f(x, 3, axis=1),
    "stack": lambda f, x, y: f([x, y]),
    "swapaxes": lambda f, x: f(x, 0, 1),
    "tile": lambda f, x: f(x, 2),
    "tril_indices_from": lambda f, x: f(x),
    "triu_indices_from": lambda f, x: f(x),
    "vsplit": lambda f, x: f(x, 2),
    "vstack": lambda f, x, v: f([x, v]),
    # choosing, sorting, counting
    "argpartition": lambda f, x: f(x, 1),
    "bincount": lambda f, v: f([1, 0, 1], v),
    "choose": lambda f, x, y: f(MASK.astype(int), [x, y]),
    "compress": lambda f, x: f([True, False, True], x, axis=1),
    "delete": lambda f, x: f(x, 1, axis=1),
    "digitize": lambda f, x: f(x, [0.3, 0.6]),
    "extract": lambda f, x: f(MASK, x),
    "histogramdd": lambda f, x: f(x.T, 2),
    "in1d": lambda f, x, y: f(x, y),
    "insert": lambda f, x: f(x, 1, 2 * x[:, 0], axis=1),
    "ix_": lambda f, x: f(x[0] > 0.3, x[:, 1] > 0),
    "lexsort": lambda f, x, y: f((x, y)),  # of a list NumPy makes an ndarray
    "nanpercentile": lambda f, x: f(x, 37.0),
    "nanquantile": lambda f, x: f(x, 0.37),
    "partition": lambda f, x: f(x, 1),
    "percentile": lambda f, x: f(x, 37.0),
    "quantile": lambda f, x: f(x, 0.37),
    "ravel_multi_index": lambda f, x: f(tuple(whole(x)), (10, 10)),
    "sort_complex": lambda f, x: f(x * (1 + 1j)),
    "searchsorted": lambda f, x: f([0.3, 0.6], x),
    "take": lambda f, x: f(x, [1, 4, 1]),
    "take_along_axis": lambda f, x: f(x, ORDER, 1),
    "trim_zeros": lambda f, v: f(np.concatenate([[0.0], v, [0.0, 0.0]])),
    "unravel_index": lambda f, x: f(whole(x), (4, 5)),
    # sums and products
    "cumulative_prod": lambda f, x: f(x, axis=1, include_initial=True),
    "cumulative_sum": lambda f, x: f(x, axis=0, include_initial=True),
    "einsum": lambda f, x, y: f("ij,kj->ik", x, y),
    "einsum_path": lambda f, x, y: f("ij,kj->ik", x, y),
    "matmul": lambda f, x, v: f(x, v),
    "matvec": lambda f, x, v: f(x, v),
    "polydiv": lambda f, v, w: f(v, w[:2]),
    "polyfit": lambda f, v, w: f(v, w, 1),
    "polynomial.polynomial.polygrid2d": lambda f, v, w, s: f(v, w, s),
    "polynomial.polynomial.polyval2d": lambda f, v, w, s: f(v, w, s),
    "tensordot": lambda f, x, y: f(x, y, axes=([1], [1])),
    "vecmat": lambda f, v, s: f(v, s),
    # linalg
    "linalg.cholesky": lambda f, s: f(definite(s)),
    "linalg.eig": lambda f, s: f(definite(s)),
    "linalg.eigh": lambda f, s: f(definite(s)),
    "linalg.eigvals": lambda f, s: f(definite(s)),
    "linalg.eigvalsh": lambda f, s: f(definite(s)),
    "linalg.lstsq": lambda f, s, v: f(s[:, :2], v),
    "linalg.matmul": lambda f, x, s: f(x, s),
    "linalg.matrix_power": lambda f, s: f(s, 3),
    "linalg.multi_dot": lambda f, x, s, v: f([x, s, v]),
    "linalg.solve": lambda f, s, v: f(s, v),
    "linalg.tensordot": lambda f, x, y: f(x, y, axes=([1], [1])),
    "linalg.tensorinv": lambda f, s: f(s, ind=1),
    "linalg.tensorsolve": lambda f, s, v: f(s, v),
    # what makes arrays
    "arange": lambda f, x: f(3.0, like=x),
    "array": lambda f, x: f([[1, 2], [3, 4]], like=x),
    "asanyarray": lambda f, x: f([1.0, 2.0], like=x),
    "asarray": lambda f, x: f([1.0, 2.0], np.float32, like=x),
    "ascontiguousarray": lambda f, x: f([1.0, 2.0], like=x),
    "asfortranarray": lambda f, x: f([1.0, 2.0], like=x),
    "empty": lambda f, x: f((0, 3), like=x),
    "empty_like": lambda f, x: 0 * f(x),
    "eye": lambda f, x: f(3, k=1, like=x),
    "frombuffer": lambda f, x: f(np.arange(3.0).tobytes(), like=x),
    "fromfile": lambda f, x: f("three.bin", like=x),
    "fromfunction": lambda f, x: f(lambda i, j: 2 * i + j, (2, 3), like=x),
    "fromiter": lambda f, x: f(range(3), float, like=x),
    "fromstring": lambda f, x: f("1 2", sep=" ", like=x),
    "full": lambda f, x: f((2, 2), 3.0, like=x),
    "full_like": lambda f, x: f(x, x[1, 1]),
    "genfromtxt": lambda f, x: f(["1 2", "3 4"], like=x),
    "geomspace": lambda f, v, w: f(v, w, 4),
    "identity": lambda f, x: f(3, like=x),
    "linspace": lambda f, v, w: f(v, w, 4),
    "loadtxt": lambda f, x: f(["1 2", "3 4"], like=x),
    "logspace": lambda f, v, w: f(v, w, 4),
    "ones": lambda f, x: f((2, 2), like=x),
    "require": lambda f, x: f([1.0, 2.0], like=x),
    "tri": lambda f, x: f(2, 3, like=x),
    "zeros": lambda f, x: f((2, 2), np.float32, like=x),
    # questions
    "can_cast": lambda f, x: f(x, np.float32, casting="same_kind"),
    "packbits": lambda f, x: f(x > 0.4, axis=1),
    "unpackbits": lambda f, x: f(whole(x).astype(np.uint8), axis=1),
}


# ---------------------------------------------------------------- every function has a class and keeps to it


def test_every_function_has_a_class():
    assert not (open_ := [name for name, found in ACCOUNTS.items() if found is None]), f"nobody accounts for {', '.join(open_)}"


def plain(y):
    """A result with NumPy's arrays in place of its Tensors."""
    if isinstance(y, (tuple, list)):
        return [plain(part) for part in y]
    return y.numpy() if isinstance(y, at.Tensor) else y


SIGNS_ARE_FREE = {"numpy.linalg.eigh", "numpy.linalg.svd"}  # those of the vectors; LAPACK, which is NumPy's, chooses some


def signless(*results):
    return [[np.abs(part) for part in y] for y in results]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name, found in ACCOUNTS.items() if found is not None and found.kind != REFUSED])
def test_example(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.arange(3.0).tofile("three.bin")
    example = EXAMPLES.get(name.removeprefix("numpy."))
    assert example is not None, f"{name} needs an example of how it is called"
    with unless_lacking():
        check_example(name, example)


def check_example(name, example):
    inputs = [INPUTS[letter] for letter in list(inspect.signature(example).parameters)[1:]]

    def call(*xs):
        return example(FUNCTIONS[name], *xs)

    def loss(xs):
        y = call(*xs)
        found, expected = plain(y), plain(call(*inputs))
        compare(*(signless(found, expected) if name in SIGNS_ARE_FREE and backend.get() != "numpy" else (found, expected)))
        if ACCOUNTS[name].kind != DIFFERENTIABLE:
            assert not any(map(is_tracked, tree.leaves(y))), f"{name} is recorded"
        return sum(np.sum(x * x) for x in xs)

    for x, gradient in zip(inputs, at.grad(loss)(inputs), strict=True):
        compare(gradient, 2 * x)
    if ACCOUNTS[name].kind == DIFFERENTIABLE:
        check_grads(call, inputs, order=1)
        y, pull = at.vjp(lambda *xs: [t for t in tree.leaves(call(*xs)) if is_tracked(t)], *inputs)
        assert any(np.any(dx) for dx in pull([1.0 + np.arange(t.size).reshape(t.shape) for t in y])), f"{name}: all gradients are zero"


def compare(found, expected):
    """Equal, but for rounding in floats."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            compare(*pair)
    elif np.asarray(expected).dtype.kind in "fc":
        assert np.shape(found) == np.shape(expected) and np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
    else:
        np.testing.assert_array_equal(found, expected, strict=hasattr(found, "dtype"))


@pytest.mark.parametrize("name", [name for name, found in ACCOUNTS.items() if found is not None and found.kind == REFUSED])
def test_what_is_refused_says_why(name):
    f, reason = FUNCTIONS[name], ACCOUNTS[name].reason
    assert reason and not reason.endswith(".")

    def loss(x):
        said = [message(lambda n=n: f(*[x] * n)) for n in range(1, 7)]  # one of these counts of arguments is right
        assert any(f"{name.replace('numpy', 'np', 1)} of a Tensor: {reason}" in text for text in said), said
        return np.sum(x * x)

    np.testing.assert_array_equal(at.grad(loss)(INPUTS["x"]), 2 * INPUTS["x"])


def message(call):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    return str(caught.value)


# ---------------------------------------------------------------- the registry and the page

ELSEWHERE = {"in1d", "_core.umath.imag", "_core.umath.real", "polynomial.polynomial.polyvalnd"}  # in older or newer versions of NumPy


def test_a_function_has_one_class():
    with pytest.raises(OperatorError, match=r"refused, yet registered: numpy\.tanh"):
        numpy_protocol.refuse("no", "numpy.piecewise", "numpy.tanh")
    refused = [f"numpy.{name}" for names in REASONS.values() for name in names.split()]
    assert len(set(refused)) == len(refused)
    assert not [name for name in refused if name in FUNCTIONS and ACCOUNTS[name].kind != REFUSED]


def test_a_function_that_is_refused_can_be_declared(monkeypatch):
    for table in ("FUNCTIONS", "_kinds", "_registered", "_refused"):
        monkeypatch.setattr(numpy_protocol, table, getattr(numpy_protocol, table).copy())

    @at.numpy_function(np.poly)
    def _(seq_of_zeros):
        return np.stack([1 + 0 * seq_of_zeros[0], -seq_of_zeros[0] - seq_of_zeros[1], seq_of_zeros[0] * seq_of_zeros[1]])

    assert account(np.poly) == (DIFFERENTIABLE, "", "")
    check_grads(np.poly, (np.array([2.0, 3.0]),))


@pytest.mark.skipif(not ON_PAGE, reason="docs/numpy.md is for another NumPy")
def test_nothing_here_or_on_the_page_is_out_of_date(capsys):
    assert main(["numpy"]) == 0
    assert PAGE.read_text(encoding="utf-8") == capsys.readouterr().out, "python -m autotape numpy > docs/numpy.md"
    known = {name.removeprefix("numpy.") for name in FUNCTIONS}
    refused = {name for names in REASONS.values() for name in names.split()}
    assert not {name for name in {*EXAMPLES, *refused} - known if not name.endswith(".at")} - ELSEWHERE
