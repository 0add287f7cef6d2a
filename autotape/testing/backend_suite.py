"""The conformance suite: every kernel of the contract on one backend, against the numpy backend's.

    for kernel in kernel_calls(): check_kernel(backend.load("mine"), kernel)

`kernel_calls` has a call of each kernel.  `check_kernel` runs it in several dtypes and memory layouts: results must be NumPy's, in
dtype, shape and value, and no input may change.  What is not unique (eigenvectors' signs ...) is compared by what it stands for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..backend import load
from ..backends.kernels import Geometry, Kernels
from .strict import CONTRACT

__all__ = ["Call", "check_kernel", "compare", "kernel_calls"]

X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]])
IMAGES = np.linspace(-1, 1, 2 * 3 * 4 * 4).reshape(2, 3, 4, 4)
FILTERS = np.linspace(1, -1, 5 * 3 * 2 * 2).reshape(5, 3, 2, 2)
SPD = X @ X.T + np.eye(2)
G = Geometry((2, 2), ((0, 0), (1, 0)), (1, 1), (1, 1))
DTYPES = (np.float64, np.float32, np.float16)
ROUNDING = {"float64": 1e-12, "float32": 2e-5, "float16": 1e-2, "complex128": 1e-12, "complex64": 2e-5}  # relative, also to the largest
WIDE_ONLY = {
    "inv", "solve", "det", "slogdet", "cofactors", "cholesky", "eigh", "eigvalsh", "svd", "svdvals", "qr", "pinv", "spacing",
    "eig", "eigvals", "solve_triangular", "solve_banded", "solve_sylvester", "sqrtm",
}  # fmt: skip
HALF_SHARES_NOTHING = {"exponent", "nextafter", "recurrence", "recurrence_grads"}


class Call(NamedTuple):
    """A kernel and the arguments of a call, their arrays NumPy's in float64 or complex128.  Those at the positions `written` are
    written to."""

    name: str
    args: tuple[Any, ...]
    written: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name


def kernel_calls() -> dict[str, Call]:
    """A call of every kernel of the contract that computes something, by name."""
    numpy: Any = load("numpy")
    calls = {name: Call(name, args) for name, args in _calls(numpy).items()}
    for name, args in _updates().items():
        outs = [i for i, annotation in enumerate(CONTRACT[name].values()) if annotation == "Out"]
        calls[name] = Call(name, args, tuple(outs))
    return calls


def _calls(numpy: Any) -> dict[str, tuple[Any, ...]]:
    out, pooled = numpy.conv(FILTERS, IMAGES, G, 1.0), numpy.max_pool(IMAGES, G)
    weights, state = np.linspace(-1, 1, 3 * 2 * (3 + 2 + 2)), np.array([[[0.5, -0.5], [1, 2]]])
    y, final, *_ = numpy.recurrence(X, weights, state, "gru", (2,), False, False, True)
    positive, columns = np.abs(X) / 4 + 0.1, np.array([[0], [2]])
    return {
        **{name: (positive,) for name, kind in Kernels.__annotations__.items() if kind == "Unary"},
        **{name: (np.abs(X), X * X + 1) for name, kind in Kernels.__annotations__.items() if kind == "Binary"},
        "arccosh": (positive + 1,), "bessel_i": (X, 1), "exponent": (X,), "ldexp": (X, np.array([2, 0, -1])), "round": (X, 1),
        "complex_of": (X, X[1]),
        **{name: (X, np.cos(X)) for name in ("relu_x", "elu_x", "sigmoid_x")}, "where": (X > 0, X, -X),
        "copy": (X,), "astype": (X, np.float32), "sum_to": (X, (3,)), "zeros": ((2, 3), np.float32), "ones": ((), np.float64),
        "full": ((2,), 7, np.float16), "scalar": (2.5, np.float32), "uniform": (3, (50,), np.float32),
        "sum": (X, 0, False), "prod": (X, (0, 1), True), "max": (X, None, False), "min": (X, -1, True), "sum_of_squares": (X,),
        "any": (X > 9, 0, False), "all": (X > 0, None, False), "argmax": (X, 1, True), "argmin": (X, None, False),
        "cumsum": (X, 1), "cumprod": (X, 1),
        "reshape": (X, (3, 2)), "transpose": (X, (1, 0)), "broadcast_to": (X, (2, 2, 3)), "concatenate": ([X, X], -1),
        "pad": (X, ((1, 0), (0, 2)), 7), "getitem": (X, (0, slice(None, None, -1))), "scatter_add": (X, ([0, 0],), (4, 3)),
        "index_set": (X, 1, X[0]), "take_along_axis": (X, columns, 1), "scatter_along_axis": (X[:, :1], columns, 1, (2, 3)),
        "sort": (X, -1), "argsort": (X, 0), "searchsorted": (np.sort(X[0]), X, "left"),
        "matmul": (X, X.T), "matmul_bias_act": (X, X.T, np.ones(2), X @ X.T, "sigm"), "einsum": ("ij,kj->ik", [X, X]),
        "convolve": (X[0], X[1, :2], True),
        "fft": (X + 1j * X[::-1], 0, 3, True, "ortho"), "rfft": (X, -1, 4, "backward"),
        "irfft": (X[:, :2] + 1j * X[:, 1:], 1, 5, "forward"),
        **{name: (SPD,) for name in ("inv", "det", "slogdet", "cholesky", "svdvals")}, "solve": (SPD, X),
        "cofactors": (np.stack([SPD, SPD]), np.linalg.det(np.stack([SPD, SPD]))),
        "solve_triangular": (SPD, X, True), "solve_banded": (np.stack([X[0], X[0] + 9, X[1]]), X.T, 1),
        "solve_sylvester": (SPD, SPD, X @ X.T), "sqrtm": (SPD,), "special": ("gammainc", [positive, positive]),
        **{name: (X[:, :2],) for name in ("eig", "eigvals")},
        "eigh": (SPD, "L"), "eigvalsh": (SPD, "U"), "svd": (X, True), "qr": (X, False), "pinv": (np.stack([X, X]), np.array([1e-15, 0.5])),
        "softmax": (X, 1), "logsoftmax": (X, None), "logsumexp": (X, 0, True),
        "batchnorm": (IMAGES, np.ones(3), np.arange(3.0), 1e-5),
        "batchnorm_x": (IMAGES[::-1].copy(), IMAGES, IMAGES.mean((0, 2, 3)), 1 / IMAGES.std((0, 2, 3)), np.arange(1.0, 4.0)),
        "layernorm": (IMAGES, np.ones(4), np.arange(4.0), 1e-5),
        "layernorm_x": (IMAGES[::-1].copy(), IMAGES, IMAGES.mean(-1), 1 / IMAGES.std(-1), np.arange(1.0, 5.0)),
        "conv": (FILTERS, IMAGES, G, 1.0), "conv_x": (FILTERS, out, IMAGES.shape, G, 2.0), "conv_w": (IMAGES, out, FILTERS.shape, G, 1.0),
        "conv_bias_act": (FILTERS, IMAGES, np.ones((5, 1, 1)), out * 2, "tanh", G, 1.0, 0.5),
        "max_pool": (IMAGES, G), "max_pool_x": (pooled, IMAGES, pooled, G), "max_pool_at": (IMAGES, IMAGES, pooled, G),
        "mean_pool": (IMAGES, G, True), "mean_pool_x": (pooled, IMAGES.shape, G, False),
        "recurrence": (X, weights, state, "gru", (2,), False, False, True),
        "recurrence_grads": (y, final, X, weights, state, y, "gates", "inner", "gru", (2,), False, False, True),
    }  # fmt: skip


def _updates() -> dict[str, tuple[Any, ...]]:
    """The kernels that write: arrays of their own in every place that is an Out."""
    new, w, g, v, squares = np.zeros((2, 3)), X, np.cos(X), np.sin(X), X * X
    return {
        "update_sgd": (new, w, g, 0.1, 0.5, 0.01),
        "update_momentum": (new, w, g, v, 0.1, 0.9, 0.5, 0.01),
        "update_nesterov": (new, w, g, v, 0.1, 0.9, 0.5, 0.01),
        "update_adagrad": (new, w, g, squares, 0.1, 1e-6, 0.5, 0.01),
        "update_rmsprop": (new, w, g, squares, 0.1, 0.9, 1e-6, 0.5, 0.01),
        "update_adadelta": (new, w, g, squares, squares + 1, 1.0, 0.9, 1e-6, 0.5, 0.01),
        "update_adam": (new, w, g, v, squares, 0.1, 0.9, 0.999, 1e-8, 0.5, 0.01, 0.001),
        "index_write": (X, (1, slice(0, 2)), np.array([7.0, 8.0])),
    }


def check_kernel(table: Any, call: Call) -> None:
    """The kernel on arrays of each dtype and layout.  Raises AssertionError that names the kernel and the case."""
    for dtype in DTYPES:
        if dtype is np.float16 and call.name in WIDE_ONLY | HALF_SHARES_NOTHING:
            continue
        args = tuple(_mapped(a, functools.partial(_in_dtype, dtype)) for a in call.args)
        for layout, lay in LAYOUTS.items():
            compare(table, Call(call.name, args, call.written), lay, f"{table.name}: {call.name} of {np.dtype(dtype)}, {layout}")


def _in_dtype(dtype: Any, x: np.ndarray) -> np.ndarray:
    return x.astype({"float64": dtype, "complex128": np.result_type(dtype, np.complex64)}.get(x.dtype.name, x.dtype))


def compare(table: Any, call: Call, lay: Callable[[Any, np.ndarray], Any], where: str) -> None:
    """One call on arrays that `lay(table, array)` brings to the backend, against the numpy backend's result."""
    numpy: Any = load("numpy")
    found = _run(table, call, lay, where)
    expected = _run(numpy, call, lambda _, a: a.copy(), where)
    dtype = next((a.dtype.name for arg in call.args for a in _arrays(arg, np.ndarray) if a.dtype.kind in "fc"), "float64")
    for i, (y, e) in enumerate(zip(found, expected, strict=True)):
        tolerance = max(ROUNDING[dtype], ROUNDING.get(e.dtype.name, 0))
        size = float(np.max(np.abs(e[np.isfinite(e)]), initial=0)) if e.dtype.kind in "fc" else 0.0
        np.testing.assert_allclose(y, e, tolerance, tolerance * size, err_msg=f"{where}: result {i}", strict=True)


def _run(table: Any, call: Call, lay: Callable[[Any, np.ndarray], Any], where: str) -> list[np.ndarray]:
    """What the call gives, in the form that is compared, once it has changed no argument."""
    args = list(call.args)
    if call.name == "recurrence_grads":
        args[6:8] = _kept(table, args)
    for i, a in enumerate(args):
        args[i] = table.copy(table.adopt(a)) if i in call.written else _mapped(a, lambda x: lay(table, x.copy()))
    free = (6, 7) if call.name == "recurrence_grads" else call.written  # what a backend kept for itself may be scratch
    given = [x for i, a in enumerate(args) if i not in free for x in _arrays(a, table.array)]
    before = [table.to_numpy(x).copy() for x in given]
    results = getattr(table, call.name)(*args)
    for x, b in zip(given, before, strict=True):
        np.testing.assert_array_equal(table.to_numpy(x), b, f"{where}: an argument was changed")
    if call.written:
        assert results is None, f"{where}: it gives {type(results).__name__}"
        results = tuple(args[i] for i in call.written)
    results = results if isinstance(results, tuple) else (results,)
    for y in results:
        assert type(y) is table.array, f"{where}: it gave {type(y).__name__}, not {table.array.__name__}"
    form: Callable[..., list[np.ndarray]] = COMPARED.get(call.name, _as_they_are)
    return form(*(table.to_numpy(y) for y in results))


def _as_they_are(*ys: np.ndarray) -> list[np.ndarray]:
    return list(ys)


def _kept(table: Any, args: list[Any]) -> Any:
    """What the backend's own forward keeps for recurrence_grads."""
    x, w, state = (table.adopt(args[i]) for i in (2, 3, 4))
    return tuple(table.to_numpy(kept) for kept in table.recurrence(x, w, state, *args[8:12], True)[2:])


def _mapped(a: Any, f: Callable[[np.ndarray], Any]) -> Any:
    """An argument with f done to its arrays."""
    if isinstance(a, list) and all(isinstance(x, np.ndarray) for x in a):
        return [f(x) for x in a]
    return f(a) if isinstance(a, np.ndarray) else a


def _arrays(a: Any, kind: type) -> Iterator[Any]:
    yield from (x for x in (a if isinstance(a, list) else [a]) if isinstance(x, kind))


def spread(table: Any, a: np.ndarray) -> Any:
    """Every second element along each axis of a larger array."""
    wide = np.full([2 * n for n in a.shape], 3, a.dtype)
    wide[tuple(slice(None, None, 2) for _ in a.shape)] = a
    return table.getitem(table.adopt(wide), tuple(slice(None, None, 2) for _ in a.shape))


def transposed(table: Any, a: np.ndarray) -> Any:
    """Its first axis is the fastest in memory."""
    return table.transpose(table.adopt(np.ascontiguousarray(a.T)), None)


def backward(table: Any, a: np.ndarray) -> Any:
    """With negative strides."""
    turned = tuple(slice(None, None, -1) for _ in a.shape)
    return table.getitem(table.adopt(np.ascontiguousarray(a[turned])), turned)


LAYOUTS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "row-major": lambda table, a: table.adopt(a),
    "spread": spread,
    "transposed": transposed,
    "backward": backward,
}
# results of which several are right, as what all of these have in common
COMPARED: dict[str, Callable[..., list[np.ndarray]]] = {
    "eigh": lambda w, v: [w, (v * w[..., None, :]) @ np.swapaxes(v, -1, -2)],
    "eig": lambda w, v: [w[w.imag.argsort()], (v * w) @ np.linalg.inv(v), abs(v).max(0)],
    "eigvals": lambda w: [w[w.imag.argsort()]],
    "svd": lambda u, s, vh: [
        s,
        (u[..., : s.shape[-1]] * s[..., None, :]) @ vh[..., : s.shape[-1], :],
        u @ np.swapaxes(u, -1, -2),
        vh @ np.swapaxes(vh, -1, -2),
    ],
    "qr": lambda q, r: [q @ r, np.abs(r)],
    "recurrence": lambda y, final, *kept: [y, final],
}
