"""NumPy's protocols: which of NumPy's functions reach the operators, and what the others, and their options, say.

Nothing of a Tensor ever turns silently into an array of objects or of numbers without derivative (rule 3 of the fine print).
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import autotape as at
from autotape.errors import TapeError
from autotape.opsets import array as ops
from autotape.testing import check_grads

close = np.testing.assert_allclose
X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]])
OTHER = np.array([1.0, -2.0, 0.5])
MASK = X > 0


def raises(call, *words, kind=TypeError):
    """call() raises, and says all these words."""
    with pytest.raises(kind) as caught:
        call()
    text = f"{caught.value} {caught.value.__cause__}"
    assert all(w in text for w in words), text


def tracked(check):
    """check(t) of a tracked (2, 3) Tensor, inside a loss whose gradient stays right."""

    def f(x):
        check(x)
        return (x * x).sum()

    close(at.grad(f)(X), 2 * X)


# ---------------------------------------------------------------- what works


SAME_AS_NUMPY = {
    "ufunc": lambda x: np.tanh(x),
    "two": lambda x: np.add(x, OTHER),
    "array first": lambda x: np.multiply(OTHER, x),
    "array operator": lambda x: OTHER * x + (OTHER - x) / 7,
    "number first": lambda x: 2 - x,
    "float64 first": lambda x: np.float64(2) * x,
    "matmul of arrays": lambda x: np.ones((4, 2)) @ x,
    "power": lambda x: np.power(x, 3),
    "reflected power": lambda x: 2.0**x,
    "comparison": lambda x: (x > OTHER) * x,
    "reduce": lambda x: np.add.reduce(x, axis=1),
    "reduce default axis": lambda x: np.add.reduce(x),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=(0, 1)),
    "accumulate": lambda x: np.add.accumulate(x, axis=1),
    "sum": lambda x: np.sum(x, axis=-1, keepdims=True),
    "sum with defaults": lambda x: np.sum(x, axis=0, dtype=None, out=None, initial=np._NoValue),
    "positional axis": lambda x: np.mean(x, 1),
    "var": lambda x: np.var(x, axis=0, ddof=1),
    "concatenate": lambda x: np.concatenate([x, X, x[:1]], axis=0),
    "concatenate tuple": lambda x: np.concatenate((x, x), -1),
    "stack": lambda x: np.stack([x, X], 1),
    "where": lambda x: np.where(MASK, x, 0.0),
    "clip": lambda x: np.clip(x, -1, 1),
    "clip by name": lambda x: np.clip(x, a_min=-1, a_max=None),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "transpose": lambda x: np.transpose(x),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "split": lambda x: np.split(x, 3, axis=1)[1],
    "einsum": lambda x: np.einsum("ij,j->i", x, OTHER),
    "dot": lambda x: np.dot(x, OTHER),
    "norm": lambda x: np.linalg.norm(x),
    "norm axis": lambda x: np.linalg.norm(x, axis=1),
    "take": lambda x: np.take(x, [2, 0], axis=1),
    "pad": lambda x: np.pad(x, 1),
    "broadcast": lambda x: np.broadcast_to(x, (2, 2, 3)),
    "zeros_like": lambda x: np.zeros_like(x) + x,
    "full_like": lambda x: np.full_like(x, x[0, 0]),
    "copy": lambda x: np.copy(x),
    "round": lambda x: np.round(x) + x,
    "methods": lambda x: x.reshape(-1, 2).T.sum(0).clip(-1, 3),
    "unpacking": lambda x: np.stack([row * i for i, row in enumerate(x)]),
    "index": lambda x: x[:, ::-1][..., None, [0, 1]],
    "mask": lambda x: x[MASK],
    "nonzero": lambda x: x[np.nonzero(x > 0)],
    "ix_": lambda x: x[np.ix_([0, 1], x[0] > 0)],
    "like": lambda x: x * np.arange(3, like=x),
    "array.clip": lambda x: OTHER.clip(x, 2.5),
}


@pytest.mark.parametrize("name", SAME_AS_NUMPY)
def test_numpys_functions_give_numpys_values_and_differentiate(name):
    f = SAME_AS_NUMPY[name]
    close(f(at.array(X)).numpy(), f(X))
    assert f(at.array(X)).dtype == f(X).dtype
    check_grads(lambda x: f(x * 1.1), (X,))


def test_shapes_and_kinds_can_be_asked():
    t = at.array(X)
    assert np.shape(t) == (2, 3) and np.ndim(t) == 2 and np.size(t) == 6 and np.size(t, 1) == 3 and len(t) == 2
    tracked(lambda t: np.shape(t) == (2, 3) and np.ndim(t) == 2)


def test_params_dispatch_like_tensors():
    p = at.Param(X)
    for y in (np.tanh(p), np.concatenate([p, p]), np.sum(p), np.add(OTHER, p), OTHER * p, np.add.reduce(p)):
        assert type(y) is at.Tensor
    close(at.grad(lambda p: np.sum(np.tanh(p)))(p), 1 - np.tanh(X) ** 2)


def test_a_subclass_of_ndarray_is_an_array():
    class Mine(np.ndarray):
        pass

    m = X.view(Mine)
    assert type(m * at.array(X)) is at.Tensor and type(at.grad(lambda x: (x * m).sum())(X)) is np.ndarray
    close(at.grad(lambda x: (x * m).sum())(X), X)


# ---------------------------------------------------------------- what NumPy can't dispatch


WAYS_OUT = {
    "np.array([t, t])": (lambda t: np.array([t, t]), "np.stack"),
    "np.array([t[0, 0], 1])": (lambda t: np.array([t[0, 0], 1.0]), "np.stack"),
    "np.array(t)": (lambda t: np.array(t), "at.stop_gradient"),
    "np.asarray(t, float32)": (lambda t: np.asarray(t, np.float32), "at.stop_gradient"),
    "np.full(n, t)": (lambda t: np.full(3, t[0, 0]), "np.broadcast_to(t, shape)"),
    "np.full((2, 3), t)": (lambda t: np.full((2, 3), t), "np.broadcast_to(t, shape)"),
    "np.full_like(a, t)": (lambda t: np.full_like(X, t[0, 0]), "full_like"),
    "a[0] = t": (lambda t: X.copy().__setitem__(0, t[0]), ".at[i].set"),
    "a[0, 0] = t": (lambda t: X.copy().__setitem__((0, 0), t[0, 0]), ".at[i].set"),
    "a[...] = t": (lambda t: X.copy().__setitem__(..., t), ".at[i].set"),
    "a[mask] = t": (lambda t: X.copy().__setitem__(MASK, t[0, 0]), ".at[i].set"),
    "float(t)": (lambda t: float(t[0, 0]), "at.stop_gradient"),
    "float(many)": (lambda t: float(t), "at.stop_gradient"),
    "int(t)": (lambda t: int(t[0, 0]), "at.stop_gradient"),
    "math.exp(t)": (lambda t: math.exp(t[0, 0]), "at.stop_gradient"),
    "math.sin(t)": (lambda t: math.sin(t[0, 0]), "for a function of math NumPy's"),
    "list as index": (lambda t: X[t[0, 0]], "at.stop_gradient"),
    "range": (lambda t: range(t[0, 0]), "at.stop_gradient"),
    "np.r_": (lambda t: np.r_[t[0], t[1]], "np.concatenate"),
    "np.c_": (lambda t: np.c_[t[0], t[1]], "np.concatenate"),
    "np.mgrid": (lambda t: np.mgrid[0 : t[0, 0]], "at.stop_gradient"),
    "np.copyto": (lambda t: np.copyto(X.copy(), t), "x.at[...].set(t)"),
    "np.asarray(like)": (lambda t: np.asarray([t, t], like=t), "np.stack"),
    "np.full(like)": (lambda t: np.full(3, t[0, 0], like=t), "np.broadcast_to(t, shape)"),
    "np.vectorize": (lambda t: np.vectorize(lambda v: v * 2)(t), "at.stop_gradient"),
    "np.float64(t)": (lambda t: np.float64(t[0, 0]), "at.stop_gradient"),
    "t.item()": (lambda t: t[0, 0].item(), "at.stop_gradient"),
    "t.tolist()": (lambda t: t.tolist(), "at.stop_gradient"),
}


@pytest.mark.parametrize("name", WAYS_OUT)
def test_03_what_would_lose_a_derivative_raises_and_names_the_way_out(name):
    call, way = WAYS_OUT[name]
    tracked(lambda t: raises(lambda: call(t), way, kind=(TypeError, ValueError)))


def test_03_no_way_leads_to_an_array_of_objects():
    t = at.array(X)
    for make in (lambda: np.array([t, t]), lambda: np.asarray([t[0], t[1]]), lambda: np.array(t), lambda: np.array([1.0, t[0, 0]])):
        assert make().dtype == np.float64
    assert np.array([t, t]).shape == (2, 2, 3)


def test_03_fractions_are_no_indices_and_counts():
    x, dtypes = np.arange(3.0), (np.float32, int, complex)
    for call in (lambda t: np.take(x, t), lambda t: np.repeat(x, t)):
        with pytest.raises(TypeError, match="Cannot cast"):
            call(at.array([0.9, 1.7, 2]))
        assert len(call(at.array([0, 1, 2]))) == 3
    assert [np.asarray(at.array([1.5, -2]), t).tolist() for t in dtypes] == [np.asarray([1.5, -2], t).tolist() for t in dtypes]


def test_03_truth():
    tracked(lambda t: raises(lambda: bool(t), "ambiguous", ".any()", ".all()", kind=ValueError))
    raises(lambda: not at.array(X), "ambiguous", kind=ValueError)
    raises(lambda: float(at.array(X)), kind=(TypeError, ValueError))
    raises(lambda: int(at.array(X)), kind=(TypeError, ValueError))
    raises(lambda: at.array(X).item(), kind=ValueError)
    raises(lambda: len(at.array(1.0)), "0-d")
    raises(lambda: list(at.array(1.0)), "0-d")
    raises(lambda: bool(at.array(np.ones(0))), "ambiguous", kind=ValueError)
    assert bool(at.array([[3.0]])) and not at.array(0.0)


@pytest.mark.parametrize(
    "write", [lambda t: t.__setitem__(0, 1.0), lambda t: t.__setitem__(slice(None), t), lambda t: t.__setitem__((0, 1), 2)]
)
def test_assignment_names_at(write):
    raises(lambda: write(at.array(X)), "x.at[i].set(v)", ".add")
    tracked(lambda t: raises(lambda: write(t), "x.at[i].set(v)"))


def test_augmented_assignment_makes_a_new_tensor():
    def f(x):
        y = x
        y += 1.0
        y *= 2
        y -= x
        y /= 2
        assert y is not x
        return (y * y).sum()

    check_grads(f, (X,))
    with pytest.raises(TypeError):
        at.Param(X)[0] = 1.0
    t = u = at.array(X)
    t += 1
    assert (u.numpy() == X).all() and (t.numpy() == X + 1).all()


def test_an_array_is_never_the_place_of_a_tensor():
    for write in (lambda a, t: a.__iadd__(t), lambda a, t: a.__imul__(t), lambda a, t: np.add(a, a, out=a) + np.add(a, t, out=a)):
        a = X.copy()
        raises(lambda write=write, a=a: write(a, at.array(X)), "out")


# ---------------------------------------------------------------- options by name


BUFFER = np.empty_like(X)
OPTIONS = {
    "tanh out": (lambda t: np.tanh(t, out=BUFFER), "np.tanh", "out"),
    "tanh out tuple": (lambda t: np.tanh(t, out=(BUFFER,)), "np.tanh", "out"),
    "tanh positional out": (lambda t: np.tanh(t, BUFFER), "tanh", ""),
    "add out": (lambda t: np.add(t, t, out=BUFFER), "np.add", "out"),
    "out of arrays": (lambda t: np.add(X, X, out=t), "np.add", "out"),
    "tanh where": (lambda t: np.tanh(t, where=MASK), "np.tanh", "where", "np.where(mask, t, other)"),
    "tanh dtype": (lambda t: np.tanh(t, dtype=np.float32), "np.tanh", "dtype", ".astype(dtype)"),
    "tanh casting": (lambda t: np.tanh(t, casting="unsafe"), "np.tanh", "casting"),
    "sum out": (lambda t: np.sum(t, out=BUFFER[0]), "np.sum", "out"),
    "cov dtype": (lambda t: np.cov(t, dtype=np.float32), "np.cov", "dtype"),
    "max out": (lambda t: np.max(t, out=BUFFER[0]), "np.max", "out"),
    "mean where": (lambda t: np.mean(t, where=MASK), "np.mean", "where"),
    "std where": (lambda t: np.std(t, where=MASK), "np.std", "where"),
    "reduce out": (lambda t: np.add.reduce(t, out=BUFFER[0]), "np.add.reduce", "out"),
    "extreme out": (lambda t: np.maximum.reduce(t, out=BUFFER[0]), "np.maximum.reduce", "out"),
    "concatenate dtype": (lambda t: np.concatenate([t, t], dtype=int), "float64", "int64", "casting"),
    "concatenate out": (lambda t: np.concatenate([t], out=BUFFER), "np.concatenate", "out"),
    "reshape order": (lambda t: np.reshape(t, (3, 2), order="A"), "np.reshape", "order"),
    "ravel order": (lambda t: np.ravel(t, "A"), "np.ravel", "order"),
    "take out": (lambda t: np.take(t, [1], out=np.empty(1)), "np.take", "out"),
    "matmul axes": (lambda t: np.matmul(t, t.T, axes=[(0, 1)] * 3), "np.matmul", "axes"),
    "clip out": (lambda t: np.clip(t, 0, 1, out=BUFFER), "clip", "out"),
    "gcd out": (lambda t: np.gcd(t.astype(int), 2, out=np.empty((2, 3), int)), "np.gcd", "out"),
    "gcd out of arrays": (lambda t: np.gcd(MASK, 2, out=t), "np.gcd", "out"),
    "zeros_like order": (lambda t: np.zeros_like(t, order="F"), "zeros_like", "order"),
    "unknown": (lambda t: np.sum(t, axes=1), "axes"),
    "positional out": (lambda t: np.sum(t, 0, None, BUFFER[0]), "np.sum", "out"),
    "pad reflect_type": (lambda t: np.pad(t, 1, mode="reflect", reflect_type="odd"), "pad", "reflect_type"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_are_not_taken_are_refused_by_name(name):
    call, *words = OPTIONS[name]
    raises(lambda: call(at.array(X)), *words, kind=(TypeError, ValueError))
    tracked(lambda t: raises(lambda: call(t), *words, kind=(TypeError, ValueError)))


def test_options_with_numpys_default_are_taken():
    t = at.array(X)
    close(np.tanh(t, out=None, where=True, dtype=None, casting="same_kind", order="K", subok=True).numpy(), np.tanh(X))
    close(np.add.reduce(t, axis=0, dtype=None, out=None, keepdims=False).numpy(), X.sum(0))
    close(np.concatenate([t], 0, out=None, dtype=None, casting="same_kind").numpy(), X)
    close(np.zeros_like(t, dtype=None, order="K", subok=True, shape=None).numpy(), 0 * X)
    close(np.copy(t, order="K", subok=False).numpy(), X)
    assert np.gcd(t.astype(int), 2, out=None, casting="same_kind").shape == (2, 3)
    assert np.can_cast(t, np.float32, casting="same_kind") and not np.can_cast(t, np.float32)


# ---------------------------------------------------------------- functions that are not there


def thrice(x):
    return 3 * x


UNSUPPORTED = {
    "np.hypot.reduce": np.hypot.reduce,
    "np.heaviside.accumulate": np.heaviside.accumulate,
    "np.add.reduceat": lambda t: np.add.reduceat(t, [0]),
    "thrice (vectorized)": np.frompyfunc(thrice, 1, 1),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_function_that_is_not_supported_says_so_by_its_name(name):
    for make in (at.array, at.Param):
        with pytest.raises(TypeError, match=rf"^{re.escape(name)} of a Tensor is not supported.*@numpy_function") as caught:
            UNSUPPORTED[name](make(X))
        assert "numpy." not in str(caught.value)
    UNSUPPORTED[name](at.array(X).numpy())


def test_functions_that_are_refused_say_why():
    for make in (at.array, at.Param):
        raises(lambda make=make: np.union1d(make(X), X), "np.union1d of a Tensor: ", "np.unique(np.concatenate([t, u]))")
        raises(lambda make=make: np.add.at(X.copy(), 0, make(X)), "np.add.at of a Tensor: ", "x.at[i].add(v)")
    tracked(lambda t: raises(lambda: np.union1d(t, X), "np.union1d of a Tensor: "))


def test_full_like_of_an_array_with_a_tensor_does_not_give_uninitialised_memory():
    raises(lambda: np.full_like(X, at.array(2.0)), "full_like")
    close(np.full_like(at.array(X), at.array(2.0)).numpy(), 2)
    close(at.grad(lambda s: np.full_like(at.array(X), s).sum())(2.0), 6)


def test_wrong_operands():
    t = at.array(X)
    for call in (
        lambda: t + "a",
        lambda: t * None,
        lambda: "a" - t,
        lambda: t @ 2.0,
        lambda: t ** "b",
        lambda: t > "c",
        lambda: np.add(t, "a"),
        lambda: np.tanh([t, "a"]),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    with pytest.raises((TypeError, ValueError, IndexError)):
        t["a"]
    with pytest.raises((TypeError, IndexError)):
        t[0.5]


def test_a_tensor_of_another_thread_raises_through_numpy_too():
    import concurrent.futures

    def f(x):
        with concurrent.futures.ThreadPoolExecutor(1) as pool, pytest.raises(TapeError):
            pool.submit(np.tanh, x).result()
        return x.sum()

    at.grad(f)(X)


def test_operators_are_numpys_names():
    assert ops.tanh(X).dtype == float and ops.sum is not sum


# ---------------------------------------------------------------- what NumPy does anyway, said in full

SAID_IN_FULL = {
    "median": lambda x: np.median(x, 0, None, False, True),
    "median overwriting": lambda x: np.median(x, overwrite_input=True),
    "quantile": lambda x: np.quantile(x, 0.5, 0, None, True, "hazen", True, weights=None),
    "percentile": lambda x: np.percentile(x, 50, None, None, False, "linear", False, weights=None),
    "nanquantile": lambda x: np.nanquantile(x, 0.5, overwrite_input=False, keepdims=np._NoValue, weights=None),
    "sort": lambda x: np.sort(x, 0, None, None),
    "sort order": lambda x: np.sort(x, order=None),
    "argsort": lambda x: x * np.argsort(x, -1, None, None),
    "partition": lambda x: np.partition(x, 1, -1, "introselect", None)[:, 1],
    "argpartition": lambda x: x[:, 0] * np.argpartition(x, 1, order=None)[:, 1],
    "std": lambda x: np.std(x, 0, None, None, 1),
    "std keepdims": lambda x: np.std(x, 0, None, None, 1, True, where=True, mean=np._NoValue, correction=np._NoValue),
    "var": lambda x: np.var(x, 0, None, None, 1, True),
    "nanstd": lambda x: np.nanstd(x, 0, None, None, 1, True),
    "sum": lambda x: np.sum(x, 0, None, None, True, np._NoValue, True),
    "reduce": lambda x: np.add.reduce(x, 0, None, None, True),
    "accumulate": lambda x: np.add.accumulate(x, 0, None, None),
    "nanmax": lambda x: np.nanmax(x, initial=np._NoValue, where=np._NoValue),
    "clip": lambda x: np.clip(x, 0, 1, None),
    "take": lambda x: np.take(x, [0], 0, None, "raise"),
    "compress": lambda x: np.compress([True, False], x, 0, None),
    "choose": lambda x: np.choose([[0, 1, 0]], [x, 2 * x], None, "raise"),
    "copy": lambda x: np.copy(x, "K", False),
    "trace": lambda x: np.trace(x, 0, 0, 1, None, None),
    "cov": lambda x: np.cov(x, dtype=None),
    "histogram": lambda x: np.histogram(x, 3, None, None, None)[1],
}


@pytest.mark.parametrize("name", SAID_IN_FULL)
def test_defaults_may_be_spelled_out(name):
    f = SAID_IN_FULL[name]
    close(f(at.array(X)).numpy(), f(X))
    assert f(at.array(X)).dtype == f(X).dtype
    tracked(lambda t: close(f(t).numpy(), f(X)))


def test_too_many_arguments_and_unknown_ones_are_refused_by_name():
    t = at.array(X)
    raises(lambda: np.std(t, 0, None, BUFFER[0]), "np.std", "not out=")
    raises(lambda: np.clip(t, 0, 1, BUFFER), "np.clip", "not out=")
    raises(lambda: np.median(t, overwrite=True), "overwrite")


@pytest.mark.parametrize("name, f", [
    ("diff", lambda x: np.diff(x, 1, -1, np._NoValue, np._NoValue)), ("round", lambda x: np.round(x, 1, None)),
    ("outer", lambda x: np.outer(x, x, None)), ("ptp", lambda x: np.ptp(x, 0, None)), ("stack", lambda x: np.stack((x, x), 0, None)),
    ("concatenate", lambda x: np.concatenate((x, x), 0, None)), ("max", lambda x: np.max(x, 0, None, False)),
    ("ones_like", lambda x: np.ones_like(x, None, "K", True, (2,))), ("full_like", lambda x: np.full_like(x, 1, None, "K", True, (2,))),
    ("linspace", lambda x: np.linspace(x, 9, 3, True, False, None, 0)), ("copy", lambda x: np.copy(x, "C")),
    ("nan_to_num", lambda x: np.nan_to_num(x, True, 0.0)), ("ravel", lambda x: np.ravel(x, "F")),
])  # fmt: skip
def test_positional_arguments_of_numpys(name, f):
    close(f(at.array(X)).numpy(), f(X))
