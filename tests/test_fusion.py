"""Fusion is never visible but in speed and memory: what the default mode gives is what the pedantic mode gives.

A number in a test's name is the rule of the fine print that it holds the engine to: pending values (25-28).
"""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
import autotape.testing  # registers the backend "strict"
from autotape import backend, fusion, math_mode, tape
from autotape.fusion import Pending
from autotape.opsets import array as ops
from autotape.opsets import v20
from autotape.testing import check_grads

close = np.testing.assert_allclose
rng = np.random.default_rng(0)
W, X = rng.normal(size=(3, 2, 3, 3)), rng.normal(size=(2, 2, 5, 5))
B, Z = rng.normal(size=(3, 1, 1)), rng.normal(size=(2, 3, 5, 5))
Y = np.asarray(v20.conv4(W, X, padding=1))
ARRAY, NAME = backend.kernels().array, backend.kernels().array.__name__
ACTIVATIONS = {"relu": v20.relu, "sigm": v20.sigm, "tanh": ops.tanh, "elu": v20.elu, "selu": v20.selu}
RULE, PRODUCT_RULE = v20.conv4.op.fusion, ops.matmul.op.fusion


@pytest.fixture(autouse=True)
def nothing_learnt():
    RULE.plans.clear()
    PRODUCT_RULE.plans.clear()
    yield
    RULE.plans.clear()
    PRODUCT_RULE.plans.clear()


@pytest.fixture
def calls(monkeypatch):
    """The convolutions and matrix products that the backend was asked for."""
    made, k = [], backend.kernels()
    for name in ("conv", "conv_bias_act", "matmul", "matmul_bias_act"):
        kernel = getattr(k, name)
        monkeypatch.setattr(k, name, lambda *args, name=name, kernel=kernel: made.append(name) or kernel(*args))
    return made


def conv(w, x):
    return v20.conv4(w, x, padding=1)


def is_pending(t):
    return type(t) is Pending


def pair(f, *args, rtol=1e-9, atol=1e-9):
    """f(*args) in the default and in the pedantic mode, which must agree; the former."""
    RULE.plans.clear()
    found = f(*args)
    with math_mode.use("pedantic"):
        expected = f(*args)
    for a, b in zip(at.tree.leaves(found), at.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape
        close(a, b, rtol=rtol, atol=atol)
    return found


# ---------------------------------------------------------------- what is fused


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("bias", [(3, 1, 1), (1, 3, 1, 1), None])
@pytest.mark.parametrize("residual", [None, "after", "before", "left"])
def test_a_chain_becomes_one_call(act, bias, residual, calls):
    def f(w, x, b, z):
        y = conv(w, x)
        if residual == "before":
            y = y + z
        if residual == "left":
            y = z + y
        if bias is not None:
            y = y + b
        if residual == "after":
            y = y + z
        return (ACTIVATIONS[act](y) ** 2 * Z).sum()

    args = (W, X, rng.normal(size=bias or 1), Z)
    g = at.value_and_grad(f, (0, 1, 2, 3))
    g(*args)
    assert calls == ["conv_bias_act"]
    pair(g, *args)


def test_bias_first_and_other_dimensions(calls):
    for n in (1, 2, 3):
        w, x, b = rng.normal(size=(3, 2, *(2,) * n)), rng.normal(size=(2, 2, *(4,) * n)), rng.normal(size=(3, *(1,) * n))
        pair(at.grad(lambda w, x, b: (v20.relu(b + v20.conv4(w, x, stride=2)) ** 2).sum(), (0, 1, 2)), w, x, b)
        assert calls.pop(0) == "conv_bias_act"
        calls.clear()


@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1},
        {"stride": 2},
        {"dilation": 2},
        {"mode": 1},
        {"alpha": 0.5},
        {"group": 2},
        {"padding": ((0, 1), (1, 2)), "stride": (2, 1)},
        {"padding": [1, 0]},
    ],
)
def test_options_reach_the_fused_operator(options):
    w = W[:, : 2 // options.get("group", 1)]
    w = np.concatenate([w, w[:1]])
    b = rng.normal(size=(4, 1, 1))
    pair(at.value_and_grad(lambda w, x, b: (ops.tanh(v20.conv4(w, x, **options) + b) ** 2).sum(), (0, 1, 2)), w, X, b)


def test_float32_stays_float32_and_mixed_dtypes_are_not_fused(calls):
    f32 = [a.astype(np.float32) for a in (W, X, B)]
    v, g = at.value_and_grad(lambda w, x, b: v20.relu(conv(w, x) + b).sum(), (0, 1, 2))(*f32)
    assert calls == ["conv_bias_act"] and v.dtype == np.float32 and [a.dtype for a in g] == [np.float32] * 3
    rtol = 1e-9 if ARRAY is np.ndarray else 1e-5  # elsewhere the modes may round float32 differently
    for args in ((f32[0], X, B), (W, f32[1], B), (f32[0], f32[1], B)):
        pair(at.value_and_grad(lambda w, x, b: v20.relu(conv(w, x) + b).sum(), (0, 1, 2)), *args, rtol=rtol)


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("case", ["integers", "float16", "nan", "infinite", "no images", "one by one", "no channels out", "strided"])
def test_unusual_operands(act, case):
    w, x, b, z = W, X, B, Z
    if case == "integers":
        w, x, b, z = ((a * 2).astype(np.int64) for a in (W, X, B, Z))
    if case == "float16":
        w, x, b, z = (a.astype(np.float16) for a in (W * 0.1, X, B, Z))
    if case in ("nan", "infinite"):
        b = B.copy()
        b[1] = np.nan if case == "nan" else -np.inf
    if case == "no images":
        x, z = X[:0], Z[:0]
    if case == "one by one":
        w, x, b, z = W[:, :, 1:2, 1:2], X[:, :, :1, :1], B, Z[:, :, :3, :3]
    if case == "no channels out":
        w, b, z = W[:0], B[:0], Z[:, :0]
    if case == "strided":
        w, x, b, z = W[::-1, :, ::-1], X.transpose(0, 1, 3, 2), B[::-1], Z[..., ::-1]
    f = lambda w, x, b, z: ACTIVATIONS[act](conv(w, x) + b + z)  # noqa: E731
    with np.errstate(all="ignore"):
        loose = dict(rtol=1e-2, atol=2e-3) if case == "float16" else {}  # unfused, each sum is rounded to a half
        pair(lambda *a: f(*map(at.array, a)), w, x, b, z, **loose)
        if case not in ("integers", "float16"):
            pair(at.value_and_grad(lambda *a: f(*a).sum(), (0, 1, 2, 3)), w, x, b, z)


def test_gradients_of_fused_chains_to_second_order():
    w, x, b, z = W[:1, :1, :2, :2], X[:1, :1, :3, :3], B[:1], Z[:1, :1, :2, :2]
    for act in ACTIVATIONS.values():
        check_grads(lambda w, x, b, z, act=act: act(v20.conv4(w, x) + b + z), (w, x, b, z), rtol=1e-5)


def test_pedantic_fuses_nothing(calls):
    with math_mode.use("pedantic"):
        assert not is_pending(conv(at.array(W), X))
        at.grad(lambda w: v20.relu(conv(w, X) + B).sum())(W)
    assert calls == ["conv", "conv"]
    h = conv(at.array(W), X)
    with math_mode.use("pedantic"):
        y = v20.relu(h + B)  # started in the default mode, gone on with in this one
    assert calls == ["conv", "conv", "conv"] and not is_pending(y)
    h, used = conv(at.array(W), X), len(calls)
    with math_mode.use("pedantic"):
        z = h + B  # in the middle
    v20.relu(z)
    assert calls[used:] == ["conv"]


def test_the_conv_bias_act_operator_says_the_same():
    for act, f in [*ACTIVATIONS.items(), ("identity", lambda x: x)]:
        close(v20.conv_bias_act(W, X, B, act, Z, beta=0.5, padding=1), f(Y + B + 0.5 * Z))
        with math_mode.use("pedantic"):
            found = at.grad(lambda *a, f=f: (f(conv(a[0], a[1]) + a[2] + a[3]) ** 2).sum(), (0, 1, 2, 3))(W, X, B, Z)
        fused = at.grad(lambda w, x, b, z, act=act: (v20.conv_bias_act(w, x, b, act, z, padding=1) ** 2).sum(), (0, 1, 2, 3))(W, X, B, Z)
        for a, b in zip(found, fused, strict=True):
            close(a, b, atol=1e-12)
    with pytest.raises(ValueError, match="conv_bias_act: act 'relu6' is unknown"):
        v20.conv_bias_act(W, X, act="relu6")


def looked_at(h, b):
    """The chain goes on from a value whose start was made real meanwhile."""
    z = h + b
    repr(h)
    return v20.relu(z) + ops.tanh(z)


NOT_FUSED = {
    "another operator": lambda w, x, b, z: ops.exp(conv(w, x) + b),
    "multiplied": lambda w, x, b, z: v20.relu(conv(w, x) * b),
    "a scalar bias": lambda w, x, b, z: v20.relu(conv(w, x) + ops.sum(b)),
    "a number": lambda w, x, b, z: v20.relu(conv(w, x) + 1.0),
    "a bias along another axis": lambda w, x, b, z: v20.relu(conv(w, x) + z[0, 0, 0]),
    "a bias that widens": lambda w, x, b, z: v20.relu(conv(w, x[:1]) + z),
    "two biases": lambda w, x, b, z: v20.relu(conv(w, x) + b + b),
    "two residuals": lambda w, x, b, z: v20.relu(conv(w, x) + z + z + b),
    "added to itself": lambda w, x, b, z: (lambda h: v20.relu(h + h))(conv(w, x)),
    "two convolutions": lambda w, x, b, z: v20.relu(conv(w, x) + conv(w * 2, x)),
    "a chain of convolutions": lambda w, x, b, z: conv(w[:2], conv(w[:2], v20.relu(conv(w[:2], x)))),
    "subtracted": lambda w, x, b, z: v20.relu(b - conv(w, x)),
    "of itself": lambda w, x, b, z: (lambda h: v20.relu(h) + ops.tanh(h) + h)(conv(w, x) + b),
    "looked at": lambda w, x, b, z: looked_at(conv(w, x), b),
    "a view": lambda w, x, b, z: v20.relu((conv(w, x) + b)[:, ::2]),
    "a method": lambda w, x, b, z: (conv(w, x) + b).reshape(-1),
    "numpy": lambda w, x, b, z: np.maximum(np.add(conv(w, x), b), 0),
    "no shape": lambda w, x, b, z: conv(w, x) + b + z,
    "only the convolution": lambda w, x, b, z: conv(w, x),
    "at": lambda w, x, b, z: conv(w, x).at[0].set(z[0]),
    "matmul": lambda w, x, b, z: conv(w, x) @ z,
    "joined": lambda w, x, b, z: np.concatenate([conv(w, x), conv(w, x) + b, z]),
    "iterated": lambda w, x, b, z: sum(t for t in conv(w, x)),
    "an optional input": lambda w, x, b, z: v20.conv_bias_act(w, x, b, "relu", conv(w, x), padding=1),
}


@pytest.mark.parametrize("name", NOT_FUSED)
def test_everything_else_makes_a_pending_value_real(name):
    f = NOT_FUSED[name]
    pair(at.value_and_grad(lambda *a: (f(*a) ** 2).sum(), (0, 1, 2, 3)), W, X, B, Z)
    pair(at.grad(lambda *a: (at.grad(lambda *a: (f(*a) ** 2).sum())(*a) * W).sum(), (0, 1, 2, 3)), W, X, B, Z)
    pair(lambda *a: f(*map(at.array, a)), W, X, B, Z)


# ---------------------------------------------------------------- matrix products


def matrices(n=600, k=4, m=128, dtype=np.float64):
    return at.array(rng.normal(size=(n, k)).astype(dtype)), rng.normal(size=(k, m)).astype(dtype), rng.normal(size=m).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_chain_from_a_product_becomes_one_call(dtype, calls):
    a, b, bias = matrices(dtype=dtype)
    z = rng.normal(size=(600, 128)).astype(dtype)
    for f in (
        lambda b, bias, z: ops.tanh(a @ b + bias),
        lambda b, bias, z: v20.relu(bias + np.matmul(a, b)),
        lambda b, bias, z: np.tanh(a @ b + bias[None] + z),
        lambda b, bias, z: v20.sigm(z + ops.dot(a, b)),
        lambda b, bias, z: v20.elu(a @ b),
        lambda b, bias, z: v20.selu(a.reshape(3, 200, 4) @ b + bias),
    ):
        calls.clear()
        g = at.grad(lambda *args, f=f: (f(*args) ** 2).mean(), (0, 1, 2))
        found = g(b, bias, z)
        assert calls[0] == "matmul_bias_act"
        with math_mode.use("pedantic"):
            for x, y in zip(found, g(b, bias, z), strict=True):
                assert x.dtype == y.dtype
                close(x, y, rtol=1e-9 if dtype == np.float64 else 1e-2, atol=1e-9 if dtype == np.float64 else 1e-3)


def test_only_large_products_of_matrices_are_deferred():
    a, b, bias = matrices()
    assert is_pending(a @ b) and is_pending(a @ b + bias) and is_pending(a.reshape(2, 300, 4) @ b)
    for x, y in ((a[:500], b), (a, b[:, 0]), (b[:, 0], a.T), (a.reshape(2, 300, 4), np.stack([b, b])), (a.astype(int), b.astype(int))):
        assert not is_pending(x @ y)
    assert not is_pending(a.astype(np.float32) @ b)
    with pytest.raises(ValueError, match="matmul"):
        a @ b[:3]
    assert type(ops.matmul(a._array, b)) is ARRAY


def test_products_are_not_deferred_where_copying_the_callers_arrays_would_cost_more():
    a, b, _ = matrices(n=600, k=20)
    assert is_pending(a @ at.array(b)) and is_pending(a @ b)
    assert not is_pending(a._array @ at.array(b))  # 12,000 elements to copy, for 11,264
    kept = []

    def f(x):
        kept.append(is_pending(x @ at.array(b)))
        return x.sum()

    at.grad(f)(a._array)
    at.grad(f)(a)
    assert kept == [False, True]


@pytest.mark.parametrize("which", ["a", "b", "bias", "z"])
def test_26_overwriting_what_a_pending_product_was_made_of_changes_nothing(which):
    a, b, bias = matrices()
    given = {"a": a.numpy().copy(), "b": b.copy(), "bias": bias.copy(), "z": rng.normal(size=(600, 128))}
    expected = np.tanh(given["a"] @ b + bias + given["z"])
    h = (given["a"] if which == "a" else a) @ (at.array(b) if which == "a" else given["b"])
    assert is_pending(h)
    z = h + given["bias"] + given["z"]
    given[which][...] = 9
    close(ops.tanh(z).numpy(), expected)
    close(h.numpy(), a.numpy() @ b)


def test_values_that_are_never_fused_are_soon_deferred_no_more():
    a, b, _ = matrices()
    made = []
    for _ in range(1000):
        h = a @ b
        made.append(is_pending(h))
        h * 2
    assert made[:8] == [True] * 8 and sum(made) == 8 + 4
    v20.relu(conv(at.array(W), X))  # another rule
    h = next(h for h in (a @ b for _ in range(300)) if is_pending(h))
    v20.relu(h)
    assert is_pending(a @ b) and is_pending(a @ b)


# ---------------------------------------------------------------- pending values


def pending(w=W, x=X):
    h = conv(at.array(w), at.array(x))
    assert is_pending(h)
    return h


@pytest.mark.parametrize(
    "look",
    [
        lambda h: h.shape,
        lambda h: h.dtype,
        lambda h: h.ndim,
        lambda h: h.size,
        len,
        hash,
        lambda h: isinstance(h, at.Tensor),
        lambda h: h + at.array(B),
    ],
)
def test_25_looking_at_shape_and_dtype_does_not_make_it_real(look):
    h = pending()
    look(h)
    assert is_pending(h)
    z = h + at.array(B)
    assert z.shape == (2, 3, 5, 5) and z.dtype == np.float64 and z.ndim == 4 and z.size == 150
    assert is_pending(h) and is_pending(z)


TOUCH = {
    "repr": repr,
    "numpy": lambda h: h.numpy(),
    "asarray": np.asarray,
    "format": lambda h: f"{h}",
    "method": lambda h: h.sum(),
    "index": lambda h: h[0],
    "iterate": list,
    "compare": lambda h: h > 0,
    "equal": lambda h: h == h,
    "operator": lambda h: h * 2,
    "numpy function": lambda h: np.tanh(h * 1),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "truth": lambda h: h.any() and h.size > 1,
    "property": lambda h: h.T,
    "at": lambda h: h.at[0].set(0),
    "to": lambda h: h.to("strict"),
    "array": at.array,
    "stop": at.stop_gradient,
    "id": lambda h: h._id,
    "unknown attribute": lambda h: hasattr(h, "no_such"),
}


@pytest.mark.parametrize("touch", TOUCH)
@pytest.mark.parametrize("biased", [False, True])
def test_25_whoever_touches_it_makes_it_real(touch, biased):
    expected = Y + (B if biased else 0)
    h = pending()
    z = h + at.array(B) if biased else h
    TOUCH[touch](z)
    assert type(z) is at.Tensor
    close(z.numpy(), expected)


def test_25_raw_operands_run_at_once(calls):
    assert type(conv(W, X)) is ARRAY and calls == ["conv"]
    assert type(v20.relu(ops.add(conv(W, X), B))) is ARRAY and calls == ["conv"] * 2


@pytest.mark.parametrize("w, x", [(at.array(W), X), (W, at.array(X)), (at.Param(W), X)])
def test_25_errors_come_at_their_place(w, x):
    for call in (
        lambda: v20.conv4(w, x[:, :1]),
        lambda: v20.conv4(w, x, padding=-1),
        lambda: v20.conv4(w, x, mode=3),
        lambda: v20.conv4(w, x[0]),
        lambda: v20.conv4(w, x, dilation=9),
    ):
        with pytest.raises(ValueError, match=r"^conv4"):
            call()
    with pytest.raises(ValueError, match=rf"^add\(a: {NAME}\(2, 3, 5, 5\) float64, b: {NAME}\(7, 1, 1\) float64\)"):
        conv(w, x) + np.ones((7, 1, 1))
    with pytest.raises(TypeError, match="unexpected keyword"):
        v20.conv4(w, x, pad=1)


@pytest.mark.parametrize("option", ["stride", "padding", "dilation"])
def test_25_equal_options_mean_the_same_whatever_their_type(option):
    def f(w, x):
        given = [v20.relu(v20.conv4(w, x, **{option: one})) for one in (1, 1.0, True, np.int64(1))]
        return [*given, v20.conv4(w, x, **{option: 1.0})]

    for y in pair(f, W, X)[1:4]:
        close(y, f(W, X)[0])
    with pytest.raises(ValueError, match=rf"conv4: {option} must be a whole number"):
        v20.conv4(at.array(W), at.array(X), **{option: 1.5})


def test_25_a_pending_value_is_recorded_on_its_own_tape():
    def f(w, x, b):
        h = conv(w, x)
        with at.no_grad():
            c = v20.relu(h + b)  # made real outside no_grad's reach, used inside
            k = conv(w, x)  # made inside, used outside: a constant
        d = v20.relu(k + b)
        inner = at.grad(lambda b: (ops.tanh(h + b) * b).sum())(b)  # made in the outer level, forced in an inner one
        return (c * d).sum() + (h * h).sum() + (inner * b).sum()

    pair(at.value_and_grad(f, (0, 1, 2)), W, X, B)


def test_25_a_pending_value_keeps_its_backend_and_mode(calls):
    w, x = at.array(W), at.array(X)
    h = conv(w, x)
    with backend.use("strict"):
        assert h.shape == (2, 3, 5, 5)
        h._id  # noqa: B018
    assert calls == ["conv"] and type(h._array) is ARRAY
    with backend.use("strict"):
        s = conv(at.array(W), at.array(X))
    assert type(s.numpy()) is np.ndarray
    close(s.numpy(), h.numpy())

    def f(w, b):
        with backend.use("strict"):
            return v20.relu(conv(w, X) + b).sum()

    with pytest.raises(TypeError, match="'strict' works on StrictArray"):
        at.grad(f)(W, B)


def test_25_a_chain_that_changes_its_backend_is_not_fused(calls):
    class Other(type(backend.kernels())):
        """Takes the same arrays, so that nothing else would stop the chain."""

    h = conv(at.array(W), at.array(X))
    with backend.use_kernels(Other()):
        y = v20.relu(h)
    assert calls == ["conv"]
    close(y.numpy(), np.maximum(Y, 0))


def test_25_a_pending_value_that_outlives_its_tape_is_a_constant():
    kept = []

    def f(w, b):
        kept[:] = [conv(w, X), conv(w, X) + b]
        return v20.relu(kept[1]).sum()

    at.grad(f)(W, B)
    assert [type(t) for t in kept] == [at.Tensor] * 2
    close(at.grad(lambda x: (kept[0] * x).sum())(Z), kept[0].numpy())


# ---------------------------------------------------------------- buffers that are overwritten


@pytest.mark.parametrize("which", ["w", "x", "b", "z"])
def test_26_overwriting_a_users_array_afterwards_changes_nothing(which):
    def f(t):
        a = {"w": W.copy(), "x": X.copy(), "b": B.copy(), "z": Z.copy()}
        w, x = (at.array(a["w"]), a["x"]) if which != "w" else (a["w"], at.array(a["x"]))
        h = conv(w, x)
        y = h + a["b"]
        y = y + a["z"]
        a[which][...] = 7
        kept.append(h)
        return (v20.relu(y * 1.0 if which == "z" else y) * t).sum()

    kept = []
    pair(at.value_and_grad(f), Z)
    close(kept[0].numpy(), conv(W, X))
    view = X[:].copy()
    base = view[:, :, :, :]
    h = conv(at.array(W), base)
    view[...] = 0  # through another view of the same memory
    close(h.numpy(), conv(W, X))


def test_26_values_still_held_when_the_transform_returns_are_made_real_then():
    w, x, kept = W.copy(), X.copy(), []

    def f(b):
        kept.extend([conv(at.asarray(w), x), conv(at.asarray(w), at.asarray(x)) + b])
        with at.no_grad():
            kept.append(conv(at.asarray(w), x))
        return v20.relu(kept[0] + b).sum()

    at.grad(f)(B)
    assert [type(t) for t in kept] == [at.Tensor] * 3
    w[...] = x[...] = 0
    for t, extra in zip(kept, (0, B, 0), strict=True):
        close(t.numpy(), Y + extra)


def test_26_in_place_updates_of_params_come_after():
    def train(steps):
        p, q = at.Param(W), at.Param(B)
        kept = []
        for _ in range(steps):
            with at.Tape() as t:
                h = conv(p, X) + q
                loss = (v20.relu(h) ** 2).sum()
            gp, gq = t.gradient(loss, [p, q])
            kept += [h, conv(p, X), conv(p, X) + q]
            p -= 0.01 * gp
            q -= 0.01 * gq
            kept += [v20.relu(conv(p, X) + q)]
        return [p.numpy(), q.numpy(), [t.numpy() for t in kept]]

    pair(train, 3)


def test_26_params_outside_a_tape_are_copied_when_deferred():
    p = at.Param(W)
    h = conv(p, at.array(X))
    z = h + at.Param(B)
    p *= 0.0
    close(h.numpy(), conv(W, X))
    close(z.numpy(), Y + B)


def test_26_a_vjp_settles_too():
    w, kept = W.copy(), []
    y, pull = at.vjp(lambda b: (kept.append(conv(at.asarray(w), X)), v20.relu(kept[-1] + b))[1], B)
    w[...] = 0
    close(kept[0].numpy(), conv(W, X))
    close(y, np.maximum(Y + B, 0))
    close(pull(Z)[0], (Z * (Y + B > 0)).sum((0, 2, 3)).reshape(3, 1, 1))


# ---------------------------------------------------------------- who sees a value


def test_27_what_is_handed_to_the_user_is_real():
    y, _ = at.vjp(conv, W, X)
    assert type(y) is np.ndarray
    t, _ = at.vjp(conv, at.array(W), at.array(X))
    assert type(t) is at.Tensor
    _, aux = at.grad(lambda w: ((w * w).sum(), {"h": conv(w, X), "z": conv(w, X) + B}), has_aux=True)(at.array(W))
    assert type(aux["h"]) is type(aux["z"]) is at.Tensor
    with at.Tape() as tp:
        h = tp.watch(conv(tp.watch(W), X))
    assert type(h) is at.Tensor


def test_27_the_gradient_of_a_pending_source_is_right():
    with at.Tape() as t:
        w = t.watch(W)
        h = conv(w, X)
        z = h + B
        loss = (z * z).sum()
    gh, gz = t.gradient(loss, [h, z])
    close(gh.numpy(), 2 * z.numpy())
    close(gz.numpy(), 2 * z.numpy())


def test_27_the_gradient_of_what_was_fused_away_is_refused():
    with at.Tape(persistent=True) as t:
        h = conv(t.watch(W), X)
        z = h + B
        s = z + Z
        apart = h + Z
        loss = (v20.relu(s) ** 2).sum() + apart.sum()
    for source in (h, z, s):
        with pytest.raises(at.errors.TapeError, match="fused away"):
            t.gradient(loss, source)
    close(t.gradient(loss, apart).numpy(), np.ones_like(Z))


def test_27_the_gradient_of_a_start_that_was_watched_before_its_chain_ended(calls):
    with at.Tape() as t:
        h = conv(t.watch(W), X)
        z = h + B
        t.watch(h)
        loss = (v20.relu(z) ** 2).sum()
    assert calls == ["conv"]
    close(t.gradient(loss, h).numpy(), 2 * np.maximum(Y + B, 0))


def test_27_a_kept_intermediate_that_is_used_after_its_chain_was_fused():
    def f(w, x, b):
        h = conv(w, x)
        z = h + b
        y = v20.relu(z)
        return (y * y).sum() + (h * z).sum() + (z * y).sum()

    pair(at.value_and_grad(f, (0, 1, 2)), W, X, B)
    pair(at.grad(lambda *a: (at.grad(f)(*a) ** 2).sum(), (0, 1, 2)), W, X, B)


def test_a_chain_that_had_to_be_computed_again_is_not_fused_again(calls):
    def f(w, b):
        z = conv(w, X) + b
        return (v20.relu(z) * z).sum()  # as in a pre-activation ResNet

    g = at.grad(f)
    g(W, B)
    assert calls == ["conv_bias_act", "conv"]
    calls.clear()
    g(W, B)
    g(W, B)
    assert calls == ["conv", "conv"]
    calls.clear()
    at.grad(lambda w, b: v20.relu(v20.conv4(w, X) + b).sum())(W, B)  # other options: another signature
    assert calls == ["conv_bias_act"]


@pytest.mark.parametrize("residual", [False, True])
def test_a_chain_with_two_ends_is_fused_once(residual, calls):
    def f(w, b):
        h = conv(w, X)
        y = v20.relu(h + b)
        return (y * ops.tanh(h + y if residual else h + b)).sum()

    pair(at.grad(f, (0, 1)), W, B)
    assert calls == ["conv_bias_act", "conv", "conv"]  # the last is pedantic mode's
    calls.clear()
    at.grad(f, (0, 1))(W, B)
    assert calls == ["conv"]


def test_what_is_learnt_does_not_change_results():
    def f(w, b, use):
        z = conv(w, X) + b
        y = v20.relu(z)
        return (y * z).sum() if use else (y * y).sum()

    for use in (0, 1, 0, 1, 0):
        found = at.grad(f, (0, 1))(W, B, use)
        with math_mode.use("pedantic"):
            expected = at.grad(f, (0, 1))(W, B, use)
        for a, b in zip(found, expected, strict=True):
            close(a, b, atol=1e-12)


def test_what_is_learnt_is_bounded():
    for n in range(3, 40):
        conv(at.array(W), np.zeros((1, 2, n, 3)))
    assert len(RULE.plans) == 37
    some = next(iter(RULE.plans.values()))
    RULE.plans.update({n: some for n in range(fusion._LIMIT)})
    conv(at.array(W), np.zeros((1, 2, 50, 3)))
    assert len(RULE.plans) <= fusion._LIMIT


def test_a_loop_under_no_grad_keeps_nothing():
    refs, made = [], []

    def f(b):
        with at.no_grad():
            for i in range(300):
                x = at.array(X)
                refs.append(weakref.ref(x))
                h = conv(at.array(W), x)
                if i % 3 == 0:
                    v20.relu(h + b)
                elif i % 3 == 1:
                    h + b
            made.append(len(tape.home().pending))
        del x, h
        gc.collect()
        made.append(sum(r() is not None for r in refs))
        return b.sum()

    at.grad(f)(B)
    assert made[0] <= 200 and made[1] <= 200


def test_memory_of_a_fused_chain_is_its_result(calls):
    """Neither the convolution's result nor what goes into the activation is kept."""

    def saved():
        record = tape.Record()
        with tape.recording(record):
            w = at.tensor.leaf(record, at.kernels().adopt(W))
            y = v20.relu(conv(w, X) + B)
            y._id  # noqa: B018
            return [v for e in record for v in e if isinstance(v, ARRAY) and v.shape == y.shape]

    assert len(saved()) == 1


# ---------------------------------------------------------------- copies, threads, generators, closures


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda h: pickle.loads(pickle.dumps(h)), lambda h: copy.deepcopy([h])[0]])
def test_28_copies_and_pickles_are_real(how):
    c = how(pending())
    assert type(c) is at.Tensor and c._id == -1
    close(c.numpy(), conv(W, X))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda h: copy.deepcopy({"h": [h]})["h"][0]])
def test_03_copies_keep_the_derivative_and_pickles_refuse(how):
    close(at.grad(lambda w: (how(conv(w, X)) * Z).sum())(W), at.grad(lambda w: (conv(w, X) * Z).sum())(W))
    close(at.grad(lambda w: (how(w) * w).sum())(W), 2 * W)
    with pytest.raises(TypeError, match="a pickle of t would drop its derivative"):
        at.grad(lambda w: pickle.loads(pickle.dumps(conv(w, X))).sum())(W)


def test_28_several_threads_may_make_one_value_real():
    for _ in range(15):
        RULE.plans.clear()
        h = pending()
        z = h + at.array(B)
        barrier = threading.Barrier(6, timeout=30)

        def work(i, h=h, z=z, barrier=barrier):
            barrier.wait()
            return (
                (h.numpy(), z.numpy(), v20.relu(h + B).numpy(), v20.relu(z).numpy(), (z * 1).numpy(), repr(h))[i].copy()
                if i < 5
                else repr(h)
            )

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            found = list(pool.map(work, range(6)))
        y = Y + B
        for a, b in zip(found, (Y, y, np.maximum(y, 0), np.maximum(y, 0), y), strict=False):
            close(a, b)
        assert type(h) is type(z) is at.Tensor


@pytest.mark.parametrize("meanwhile", [lambda h, z: h.numpy(), lambda h, z: z.numpy(), lambda h, z: v20.relu(z), lambda h, z: h + 1])
def test_28_a_value_may_be_made_real_while_its_chain_is_being_fused(meanwhile, monkeypatch):
    """As another thread would, at the worst moment."""
    k = backend.kernels()
    kernel, todo = k.conv_bias_act, [1]
    monkeypatch.setattr(k, "conv_bias_act", lambda *args: (todo and todo.pop() and meanwhile(h, z), kernel(*args))[1])
    h = pending()
    z = h + at.array(B)
    close(v20.relu(z).numpy(), np.maximum(Y + B, 0))
    close(h.numpy(), conv(W, X))
    close(z.numpy(), Y + B)


def test_28_threads_each_fuse_their_own():
    def work(i):
        return at.grad(lambda w: (v20.relu(conv(w, X) + B * i) ** 2).sum())(W)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(8)))
    with math_mode.use("pedantic"):
        for i, g in enumerate(found):
            close(g, work(i), atol=1e-10)


def recorded(f):
    with at.Tape():
        return f()


def test_28_a_pending_value_that_is_recorded_in_another_thread_raises():
    def f(w):
        h = conv(w, X)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            for use in (lambda: v20.relu(h + B), lambda: h * 2, lambda: v20.relu(h)):
                with pytest.raises(RuntimeError, match="another thread"):
                    pool.submit(use).result()
            for look in (lambda: h.numpy().copy(), lambda: recorded(lambda: (repr(h), h.numpy().copy())[1])):
                close(pool.submit(look).result(), conv(W, X))  # the value alone may be seen anywhere
        return h.sum()

    g = at.grad(f)(W)
    close(g, at.grad(lambda w: conv(w, X).sum())(W))


def test_generators_and_closures():
    def layers(w, x, b):
        for _ in range(2):
            h = conv(w, x)
            yield None
            yield v20.relu(h + b)

    def f(w, x, b):
        total = 0
        for y in layers(w, x, b):
            if y is not None:
                total = total + (y * y).sum()
        h = conv(w, x)
        later = lambda: v20.relu(h + b).sum()  # noqa: E731
        return total + later() + at.grad(lambda b: later() * b.sum())(b).sum()

    pair(at.value_and_grad(f, (0, 1, 2)), W, X, B)


def test_an_error_in_between_leaves_the_chain_whole():
    def f(w, x, b):
        h = conv(w, x)
        with pytest.raises(ValueError, match="add"):
            h + np.ones((9, 9, 9, 9))
        with pytest.raises(TypeError):
            h + "text"
        with pytest.raises(ZeroDivisionError):
            at.grad(lambda b: (h + b).sum() / (1 // 0))(b)
        return v20.relu(h + b).sum()

    pair(at.value_and_grad(f, (0, 1, 2)), W, X, B)


def test_an_exception_leaves_kept_values_usable():
    kept = []

    def f(w):
        kept.extend([conv(w, X), conv(w, X) + B])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        at.grad(f)(W)
    close(kept[0].numpy(), conv(W, X))
    close(v20.relu(kept[1]).numpy(), np.maximum(Y + B, 0))


def test_persistent_and_nested_tapes():
    def f(w, b):
        with at.Tape(persistent=True) as t:
            w, b = t.watch(w), t.watch(b)
            h = conv(w, X)
            y = (v20.relu(h + b) ** 2).sum()
            gw, _ = t.gradient(y, [w, b])
            z = (gw * w).sum() + v20.relu(h + b).sum()
        return [g.numpy() for g in t.gradient(z, [w, b])] + [t.gradient(y, w).numpy()]

    pair(f, W, B)


# ---------------------------------------------------------------- random programs
#
# A program is a list of steps (kind, a, b); a and b pick operands from the values so far, whatever there are.  Every value is an
# image (1, 2, 3, 3), so that every step fits; some steps are made not to fit, and must fail in the same way at the same step.


IMAGE, WEIGHT = (1, 2, 3, 3), (2, 2, 3, 3)
BIASES = [(2, 1, 1), (1, 2, 1, 1), (1, 1, 1, 1), (), (3,), (1, 2, 3, 3)]
ACTS = list(ACTIVATIONS.values())
KINDS = (
    ["chain"] * 16 + ["conv"] * 5 + ["bias"] * 5 + ["act"] * 5 + ["residual"] * 3 + ["keep"] * 2
    + ["reflected", "number", "multiply", "sine", "view", "no_grad conv", "no_grad act", "stop", "closure", "call", "nested"]
    + ["numpy bias", "numpy image", "numpy add", "overwrite", "float32", "shape", "self", "peek", "wrong bias", "wrong image"]
)  # fmt: skip
programs = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=8)


class Failed(Exception):
    """A step that didn't fit, and how."""


def execute(program, weights, biases, images, kept):
    """Run a program; the loss is made of its last value and of what it kept first.  Gives the loss and the last value."""
    values, closures = list(images), []
    for n, (kind, a, b) in enumerate(program):
        x, y, w, c = (
            values[-1 if a % 3 else -1 - a // 3 % len(values)],
            values[b % len(values)],
            weights[b % len(weights)],
            biases[b % len(biases)],
        )
        try:
            made = chain(x, y, w, biases, a, b) if kind == "chain" else [step(kind, x, y, w, c, b, closures, kept)]
        except Exception as e:
            raise Failed(n, type(e).__name__, str(e)) from e
        values += made
    return (values[-1] * values[-1]).sum() + sum((k * k).sum() for k in kept[:2]) * 0.1, values[-1]


def chain(x, y, w, biases, a, b):
    """What is fused, and all that lies in between."""
    made = [v20.conv4(w, x, padding=1, alpha=0.3)]
    if a % 4:
        made.append(made[-1] + biases[b % 2])
    if b % 4 == 1:
        made.append(made[-1] + y)
    return [*made, ACTS[a % len(ACTS)](made[-1])]


def step(kind, x, y, w, c, b, closures, kept):
    act = ACTS[b % len(ACTS)]
    match kind:
        case "conv":
            return v20.conv4(w, x, padding=1, mode=b % 2, alpha=0.3)
        case "bias":
            return x + c
        case "reflected":
            return c + x
        case "act":
            return act(x)
        case "residual":
            return x + y
        case "number":
            return x + 0.5
        case "multiply":
            return x * y * 0.3
        case "sine":
            return ops.sin(x)
        case "view":
            return x[:, ::-1]
        case "keep":
            kept.append(x)
            return x
        case "no_grad conv":
            with at.no_grad():
                return v20.conv4(w, x, padding=1, alpha=0.3)
        case "no_grad act":
            with at.no_grad():
                return act(x) * 1.0
        case "stop":
            return at.stop_gradient(x)
        case "closure":
            closures.append(lambda: act(x))
            return y
        case "call":
            return closures[b % len(closures)]() if closures else x
        case "nested":
            return at.grad(lambda z: (act(v20.conv4(w, z, padding=1, alpha=0.3) + x) * z).sum())(y)
        case "numpy bias":
            return x + np.ones((2, 1, 1)) * b
        case "numpy image":
            return v20.conv4(w, np.full(IMAGE, 0.1 * b), padding=1) + x
        case "overwrite":
            image, bias = np.full(IMAGE, 0.1 * b), np.full((2, 1, 1), 0.5)
            h = v20.conv4(w, image, padding=1) + bias
            image[...] = bias[...] = 99
            return act(h)
        case "float32":
            return act(v20.conv4(w.astype(np.float32), x.astype(np.float32), padding=1, alpha=0.3) + np.float32(1)).astype(float)
        case "shape":
            return x * float(x.shape[1] + x.ndim + (x.dtype == np.float64))
        case "self":
            return x + x
        case "peek":
            return x if np.isfinite(at.stop_gradient(x).numpy()).all() else y
        case "numpy add":
            return np.add(x, c)
        case "wrong bias":
            return x + np.ones((5, 1, 1))
        case "wrong image":
            return v20.conv4(w, x[:, :1], padding=1) if b % 2 else v20.conv4(w, x, padding=1, mode=7)
    raise AssertionError(kind)


def observed(program, params, order):
    """All that can be seen of a program: the values, what was kept, the gradients; or at which step it failed and how."""
    kept = []

    def f(p):
        kept.clear()
        return execute(program, *p, kept)

    def second(p):
        g = at.grad(f, has_aux=True)(p)[0]
        return sum((x * x).sum() for x in at.tree.leaves(g))

    try:
        (loss, last), g = at.value_and_grad(f, has_aux=True)(params)
        constants = [k.numpy().copy() for k in kept]
        h = at.grad(second)(params) if order == 2 else None
    except Failed as e:
        return e.args
    return loss, last, constants, g, h


def some_params(seed):
    r = np.random.default_rng(seed)
    return (
        [r.normal(size=WEIGHT) * 0.4 for _ in range(2)],
        [r.normal(size=s) * 0.4 for s in BIASES],
        [r.normal(size=IMAGE) for _ in range(2)],
    )


def assert_same(found, expected):
    assert len(found) == len(expected) and (len(found) != 3 or found == expected)
    for a, b in zip(at.tree.leaves(found), at.tree.leaves(expected), strict=True):
        if isinstance(a, (str, int)):
            assert a == b
        else:
            assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
            scale = np.abs(b).max(initial=1e-6)
            tolerance = 1e-5 if np.isfinite(scale) else 0
            close(a, b, rtol=tolerance, atol=tolerance * min(scale, 1e12))


@settings(max_examples=3 * settings().max_examples // 2)
@given(programs, st.integers(0, 3))
def test_25_random_programs_give_what_pedantic_runs_give(program, seed):
    RULE.plans.clear()
    params = some_params(seed)
    with math_mode.use("pedantic"):
        expected = observed(program, params, 2)
    for _ in range(2):  # the second time with what was learnt
        assert_same(observed(program, params, 2), expected)
    assert tape.current() is None and not tape._live


@settings(max_examples=2 * settings().max_examples // 5)
@given(programs, st.integers(0, 3))
def test_26_random_programs_of_params_and_tapes_give_what_pedantic_runs_give(program, seed):
    """Two training steps with in-place updates, everything kept until the end."""

    def train():
        params = at.tree.map(at.Param, some_params(seed))
        seen, held = [], []
        try:
            for _ in range(2):
                kept = []
                with at.Tape() as t:
                    loss, last = execute(program, *params, kept)
                g = t.gradient(loss, params) if loss._id >= 0 else params
                t.close()
                held += [loss, last, *kept]
                for p, d in zip(at.tree.leaves(params), at.tree.leaves(g), strict=True):
                    p -= 0.01 * d
        except Failed as e:
            return e.args
        seen += [h.numpy() for h in held if isinstance(h, at.Tensor)] + [p.numpy() for p in at.tree.leaves(params)]
        return seen, "done"

    RULE.plans.clear()
    with math_mode.use("pedantic"):
        expected = train()
    found = train()
    if expected[-1] != "done":
        assert found == expected
    else:
        assert_same(found, expected)


@settings(max_examples=3 * settings().max_examples // 10)
@given(
    st.lists(
        st.tuples(st.sampled_from(["chain", "conv", "bias", "act", "residual", "keep", "view"]), st.integers(0, 30), st.integers(0, 30)),
        min_size=2,
        max_size=6,
    )
)
def test_24_random_programs_on_the_strict_array(program):
    RULE.plans.clear()
    params = some_params(0)
    expected = observed(program, params, 1)
    with backend.use("strict"):
        found = observed(program, params, 1)
    assert_same(found[:2] if len(found) == 3 else found, expected[:2] if len(expected) == 3 else expected)
