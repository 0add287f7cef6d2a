"""Optimisers against their formulas in float64, on every kind of leaf and both backends: state, groups, clipping, sparse gradients."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, io
from autotape.backends.numpy_backend import optimisers as numpy_kernels
from autotape.errors import BackendError, TapeError
from autotape.rows import Rows
from autotape.testing import StrictArray
from autotape.train import SGD, Adadelta, Adagrad, Adam, AdamW, Group, Momentum, Nesterov, Rmsprop, clip_norm, global_norm, schedules

close, same = np.testing.assert_allclose, np.testing.assert_array_equal
ALL = [SGD, Momentum, Nesterov, Adagrad, Rmsprop, Adadelta, Adam, AdamW]
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
FLOATS = [np.float16, np.float32, np.float64]
TOLERANCE = {np.float16: 4e-3, np.float32: 4e-6, np.float64: 1e-12}
WORKS_ON = f"'{backend.get()}' works on {backend.kernels().array.__name__}"
COMPLEX = pytest.mark.numpy_only("complex numbers")
seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3).map(tuple)
few = settings(max_examples=max(settings().max_examples // 5, 5))


# ---------------------------------------------------------------- the formulas: (w, g, state, step from 1) gives the new w


def sgd(w, g, s, t, lr=0.1):
    return w - lr * g


def momentum(w, g, s, t, lr=0.05, gamma=0.95):
    s["v"] = gamma * s.get("v", 0) - lr * g
    return w + s["v"]


def nesterov(w, g, s, t, lr=0.05, gamma=0.95):
    w = w - gamma * s.get("v", 0)
    s["v"] = gamma * s.get("v", 0) - lr * g
    return w + (1 + gamma) * s["v"]


def adagrad(w, g, s, t, lr=0.05, eps=1e-6):
    s["G"] = s.get("G", 0) + g**2
    return w - lr * g / np.sqrt(s["G"] + eps)


def rmsprop(w, g, s, t, lr=0.01, rho=0.9, eps=1e-6):
    s["G"] = rho * s.get("G", 0) + (1 - rho) * g**2
    return w - lr * g / np.sqrt(s["G"] + eps)


def adadelta(w, g, s, t, lr=1.0, rho=0.9, eps=1e-6):
    s["G"] = rho * s.get("G", 0) + (1 - rho) * g**2
    d = g * np.sqrt(s.get("D", 0) + eps) / np.sqrt(s["G"] + eps)
    s["D"] = rho * s.get("D", 0) + (1 - rho) * d**2
    return w - lr * d


def adam(w, g, s, t, lr=0.001, beta1=0.9, beta2=0.999, eps=1e-8):
    s["m"] = beta1 * s.get("m", 0) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0) + (1 - beta2) * g**2
    return w - lr * (s["m"] / (1 - beta1**t)) / (np.sqrt(s["v"] / (1 - beta2**t)) + eps)


def adamw(w, g, s, t, lr=0.001, weight_decay=0.01, **options):
    return adam(w * (1 - lr * weight_decay), g, s, t, lr, **options)


FORMULAS = {
    SGD: sgd, Momentum: momentum, Nesterov: nesterov, Adagrad: adagrad, Rmsprop: rmsprop, Adadelta: adadelta, Adam: adam, AdamW: adamw,
}  # fmt: skip
OPTIONS = {
    SGD: {}, Momentum: {"gamma": 0.5}, Nesterov: {"gamma": 0.5}, Adagrad: {"eps": 0.01}, Rmsprop: {"rho": 0.5, "eps": 0.1},
    Adadelta: {"rho": 0.5, "eps": 0.1}, Adam: {"beta1": 0.3, "beta2": 0.6, "eps": 0.1}, AdamW: {"beta1": 0.3, "weight_decay": 0.3},
}  # fmt: skip


def numbers(rng, shape, dtype=np.float64):
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def followed(formula, w, gradients, **options):
    w, state = w.astype(np.float64), {}
    for t, g in enumerate(gradients, start=1):
        w = formula(w, g.astype(np.float64), state, t, **options)
    return w


def plain(x):
    return x if isinstance(x, np.ndarray) else backend.load("strict").to_numpy(x) if isinstance(x, StrictArray) else np.asarray(x)


@pytest.mark.parametrize("kind", ["array", "param", "tensor"])
@pytest.mark.parametrize("cls", ALL)
@few
@given(shapes, st.sampled_from(FLOATS), st.booleans(), st.sampled_from(BACKENDS), seeds)
def test_an_update_is_its_formula(cls, kind, shape, dtype, defaults, name, seed):
    rng = np.random.default_rng(seed)
    start, gradients = numbers(rng, shape, dtype), [numbers(rng, shape, dtype) for _ in range(4)]
    options = {} if defaults else {"lr": 0.03} | OPTIONS[cls]
    with backend.use(name) as k:
        make = {"array": lambda a: k.adopt(a.copy()), "param": at.Param, "tensor": at.array}[kind]
        w, opt = {"w": make(start)}, cls(**options)
        for g in gradients:
            w = opt.step(w, {"w": k.adopt(g) if kind != "tensor" else at.array(g)})
        assert type(w["w"]) is {"array": k.array, "param": at.Param, "tensor": at.Tensor}[kind] and w["w"].dtype == dtype
        close(plain(w["w"]), followed(FORMULAS[cls], start, gradients, **options), *[TOLERANCE[dtype]] * 2)
    assert opt.steps == 4


@pytest.mark.parametrize("cls", ALL)
def test_defaults_are_knets(cls):
    opt, expected = cls(), dict(zip(FORMULAS[cls].__code__.co_varnames[4:], FORMULAS[cls].__defaults__, strict=False))
    expected |= {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8} if cls is AdamW else {}
    assert opt.options == {"gclip": 0, "weight_decay": 0} | expected and opt.clip_norm == 0 and opt.schedule(7) == 1
    assert repr(opt).startswith(f"{cls.__name__}(lr={opt.lr:g}")


@pytest.mark.parametrize("cls", [Rmsprop, Adadelta, Adam, AdamW])
def test_large_float32_gradients_do_not_stop_the_parameter(cls):
    large, w, v, opt, other = 6e18, np.zeros(3, np.float32), np.zeros(3), cls(), cls()  # up to 3.6e19, whose square is inf in float32
    g = np.array([1.0, -2.0, 0.5])
    for n in (1, 3, 2):
        w, v = opt.step(w, (n * large * g).astype(np.float32)), other.step(v, n * large * g)
        close(w, v, 1e-5)
    assert (w != 0).all()


@pytest.mark.parametrize("cls", [Adam, Rmsprop, Momentum])
def test_options_may_change_from_step_to_step(cls):
    rng, opt, w, expected, state = np.random.default_rng(0), cls(), np.ones(3), np.ones(3), {}
    changes = {Adam: ("beta1", "beta2"), Rmsprop: ("rho",), Momentum: ("gamma",)}[cls]
    for t, share in enumerate((0.9, 0.5, 0.99, 0.0), start=1):
        g, options = numbers(rng, 3), dict.fromkeys(changes, share)
        w = opt.step(Group(w, **options), Group(g)).params
        expected = FORMULAS[cls](expected, g, state, t, **options)
        close(w, expected, 1e-12)


@pytest.mark.parametrize("cls", [c for c in ALL if c is not AdamW])
def test_weight_decay_adds_to_the_gradient(cls):
    w = numbers(np.random.default_rng(0), (3, 2))
    g = [numbers(np.random.default_rng(n), (3, 2)) for n in (1, 2)]
    opt, other = cls(weight_decay=0.3), cls()
    found = expected = w
    for x in g:
        found, expected = opt.step(found, x), other.step(expected, x + 0.3 * expected)
    close(found, expected, 1e-13)


def test_adamw_decays_the_parameter():
    w, g = np.array([2.0, -1.0]), np.zeros(2)
    close(AdamW(lr=0.5, weight_decay=0.1).step(w, g), 0.95 * w)
    close(AdamW(lr=0.5).step(w, g), 0.995 * w)
    close(Adam(lr=0.5).step(w, g), w)


# ---------------------------------------------------------------- what a tree may hold


def test_a_tree_of_arrays_gives_a_new_one_and_the_old_stays():
    w, b = np.ones((2, 3), np.float32), np.ones(3)
    params = {"w": w, "more": [b, (2.0, 3, np.float32(4))], "name": "net", "flag": True, "f": len, "none": None}
    loss = lambda p: np.sum(p["w"] * p["more"][0]) + p["more"][1][0] ** 2 + p["more"][1][1] * p["more"][1][2]  # noqa: E731
    new = SGD(0.5).step(params, at.grad(loss)(params))
    assert (w == 1).all() and (b == 1).all() and new["name"] == "net" and new["flag"] is True and new["f"] is len and new["none"] is None
    same(new["w"], np.full((2, 3), 0.5, np.float32), strict=True)
    same(new["more"][0], np.zeros(3), strict=True)
    assert new["more"][1] == (0.0, 1.0, np.float32(2.5)) and [type(x) for x in new["more"][1]] == [float, float, np.float32]


def test_gradients_need_the_same_paths_alone():
    assert SGD(1.0).step({"a": 3.0, "b": [4.0]}, {"b": (1.0,), "a": 2.0}) == {"a": 1.0, "b": [3.0]}
    assert SGD(1.0).step({}, {}) == {} and SGD(1.0).step(3.0, 1.0) == 2.0


def test_params_change_in_place_and_arrays_taken_from_them_stay():
    p, q = at.Param(np.ones(3)), at.Param(np.ones(2))
    held = p.value
    new = SGD(0.5).step([p, q], [np.ones(3), np.ones(2)])
    assert new[0] is p and new[1] is q and p.version == q.version == 1
    same(held, np.ones(3))
    same(p.numpy(), np.full(3, 0.5))


def test_a_param_whose_array_nobody_holds_keeps_its_memory():
    p = at.Param(np.ones(2))
    SGD(0.5).step(p, np.ones(2))
    before = address_of(p._value)
    SGD(0.5).step(p, np.ones(2))
    assert address_of(p._value) == before
    view = p.T
    SGD(0.5).step(p, np.ones(2))
    assert address_of(p._value) != before and (view.numpy() == 0).all()


def address_of(array):
    return array.ctypes.data if isinstance(array, np.ndarray) else array.address


def test_a_param_that_a_tape_needs_raises_and_nothing_changes():
    p, q, opt = at.Param(np.ones(2)), at.Param(np.ones(2)), Adam()
    with at.Tape() as tape:
        loss = np.sum(q * q)
    with pytest.raises(TapeError, match="can't change while a tape"):
        opt.step([p, q], [np.ones(2), np.ones(2)])
    assert opt.steps == 0 and opt.state["slots"] == {} and (p.numpy() == 1).all()
    opt.step([p, q], [np.ones(2), tape.gradient(loss, q)])
    assert (p.numpy() < 1).all() and (q.numpy() < 1).all()


@COMPLEX
def test_a_real_param_takes_no_complex_value():
    p = at.Param(np.ones(2))
    with pytest.raises(TypeError, match="a Param of float64 can't take a value of complex128, whose imaginary part would be lost"):
        p.value = np.array([1j, 2])
    with pytest.raises(TypeError, match="imaginary part would be lost"):
        p *= 1j
    assert p.version == 0 and (p.numpy() == 1).all()
    q = at.Param(np.ones(2, complex))
    q *= 1j
    q.value = q * 2.0
    same(q.numpy(), [2j, 2j])


def test_tracked_tensors_are_refused():
    def through(x):
        return SGD().step({"x": x}, {"x": x})["x"].sum()

    with pytest.raises(TypeError, match="would drop its derivative"):
        at.grad(through)(np.ones(2))
    with at.Tape() as tape, pytest.raises(TypeError, match="would drop its derivative"):
        SGD().step([np.ones(2)], [tape.watch(np.ones(2))])


def test_state_of_half_precision_is_single():
    w, opt = np.full(3, 0.5, np.float16), Adam(lr=0.01)
    for _ in range(3):
        w = opt.step(w, np.full(3, 1e-4, np.float16))  # whose square is 0 in float16
    slot = opt.state["slots"][""]
    assert w.dtype == np.float16 and slot["m"].dtype == slot["v"].dtype == np.float32 and (np.asarray(slot["v"]) > 0).all()
    close(w, 0.47, 2e-3)


def test_gradients_of_another_real_dtype():
    same(SGD(0.5).step(np.ones(2, np.float32), np.ones(2)), np.full(2, 0.5, np.float32), strict=True)
    same(SGD(0.5).step(np.ones(2), np.ones(2, int)), np.full(2, 0.5), strict=True)


def test_params_of_another_backend_than_the_current():
    with backend.use("strict"):
        p = at.Param(np.ones((8, 2)))
        with at.Tape() as tape:
            loss = p[np.array([1, 1])].sum()
        g = tape.gradient(loss, p, sparse=True)
    assert type(g) is Rows
    Adam(0.5).step([p], [g])
    close(p.numpy(), np.where(np.arange(8)[:, None] == 1, 0.5, 1) * np.ones((8, 2)))
    with pytest.raises(BackendError, match=rf"{WORKS_ON}, but met StrictArray\(8, 2\)"):
        SGD().step([at.Param(np.ones(2))], [p.value])


# ---------------------------------------------------------------- what does not fit


WRONG = {
    "no gradient": ({"a": 1.0, "b": 2.0}, {"a": 1.0}, ValueError, r"SGD\.step: there is no gradient for params\['b'\]; .* are \['a'\]"),
    "no parameter": ([1.0], [1.0, 2.0], ValueError, r"SGD\.step: there is no parameter for grads\[1\]; those are \[0\]"),
    "none": ([1.0], [None], ValueError, r"no gradient for params\[0\]; the gradients are none"),
    "subtree": ({"a": 1.0}, {"a": [1.0]}, ValueError, r"no gradient for params\['a'\]; the gradients are \['a'\]\[0\]"),
    "shape": ({"a": [np.ones(2)]}, {"a": [np.ones(3)]}, ValueError, r"params\['a'\]\[0\]: .* has shape \(2,\), its gradient \(3,\)"),
    "would broadcast": (np.ones(2), 1.0, ValueError, r"SGD\.step: params: the parameter has shape \(2,\), its gradient \(\)"),
    "integers": ([np.ones(2, int)], [np.ones(2)], TypeError, r"SGD\.step: params\[0\]: .* int64: use floats"),
    "complex": ([np.ones(2)], [np.ones(2, complex)], TypeError, r"params\[0\]: optimisers take real numbers; .* float64, .* complex128"),
    "text": ([np.ones(2)], ["g"], TypeError, r"params\[0\]: str 'g' is no array of numbers"),
    "a Param": ([np.ones(2)], [at.Param(np.ones(2))], TypeError, r"SGD\.step: params\[0\]: a Param is no gradient; its value is p\.value"),
    "unknown object": ([np.ones(2)], [object()], TypeError, r"params\[0\]: object .* is no array of numbers"),
}


@pytest.mark.parametrize("case", [pytest.param(case, marks=COMPLEX) if case == "complex" else case for case in WRONG])
def test_what_does_not_fit_names_the_leaf(case):
    params, grads, kind, message = WRONG[case]
    opt = SGD()
    with pytest.raises(kind, match=message):
        opt.step(params, grads)
    assert opt.steps == 0


def test_one_param_can_not_stand_twice():
    p = at.Param(np.ones(2))
    with pytest.raises(ValueError, match=r"SGD\.step: params\[1\] is a Param that stands in the tree already"):
        SGD().step([p, p], [np.ones(2)] * 2)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "0.1", None, 1j, True])
def test_a_wrong_rate_raises(cls, value):
    with pytest.raises(ValueError, match=rf"{cls.__name__}: lr is a finite number from 0 on, not "):
        cls(lr=value)
    opt = cls()
    with pytest.raises(ValueError, match=r"lr is a finite number"):
        opt.lr = value
    assert opt.lr == cls().lr


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Adam(betas=(0.9, 0.99)), TypeError, r"Adam: the option 'betas' is unknown .*there are lr, beta1, beta2, eps, gclip, "),
        (lambda: SGD(gamma=0.9), TypeError, "SGD: the option 'gamma' is unknown"),
        (lambda: Adam(beta1=1), ValueError, "Adam: beta1 is a number from 0 on and below 1, not 1"),
        (lambda: Rmsprop(rho=-0.1), ValueError, "Rmsprop: rho is"),
        (lambda: Momentum(gamma=1.5), ValueError, "Momentum: gamma is"),
        (lambda: Adagrad(eps=math.nan), ValueError, "Adagrad: eps is a finite number from 0 on, not nan"),
        (lambda: SGD(gclip=-1), ValueError, "SGD: gclip is"),
        (lambda: SGD(clip_norm=math.inf), ValueError, "SGD: clip_norm is"),
        (lambda: AdamW(weight_decay=-1), ValueError, "AdamW: weight_decay is"),
        (lambda: SGD(schedule=0.5), TypeError, "a schedule is a function of the number of updates done, not 0.5"),
        (lambda: SGD(schedule=lambda t: -1).step(1.0, 1.0), ValueError, r"SGD: the schedule gave -1 for step 0"),
        (lambda: SGD(schedule=lambda t: math.nan).step(1.0, 1.0), ValueError, r"SGD: the schedule gave nan"),
        (lambda: SGD(schedule=lambda t: None).step(1.0, 1.0), ValueError, "SGD: the schedule gave None for step 0"),
        (lambda: SGD(schedule=lambda t: "0.1").step(1.0, 1.0), ValueError, "SGD: the schedule gave '0.1' for step 0"),
        (lambda: SGD().step(Group(1.0, momentum=0.9), Group(1.0)), TypeError, "SGD: the option 'momentum' is unknown"),
        (lambda: SGD().step(Group(1.0, lr=-1), Group(1.0)), ValueError, "SGD: lr is"),
        (lambda: SGD().step(Group(1.0, clip_norm=1), Group(1.0)), TypeError, r"'clip_norm' is unknown \(or not a Group's\)"),
        (lambda: clip_norm([1.0], 0), ValueError, "clip_norm: the limit is a finite number above 0, not 0"),
        (lambda: clip_norm([1.0], None), ValueError, "clip_norm: the limit is a finite number above 0, not None"),
        pytest.param(
            *(lambda: global_norm([np.ones(2, complex)]), TypeError, r"gradients is of real numbers, not of ndarray\(2,\) complex128"),
            marks=COMPLEX,
        ),
        (lambda: at.grad(lambda x: global_norm(x) * x.sum())(np.ones(2)), TypeError, "the norm of gradients would drop its derivative"),
    ],
)  # fmt: skip
def test_wrong_options_say_so(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda opt: setattr(opt, "clip_norm", -3), ValueError, "SGD: clip_norm is a finite number from 0 on, not -3"),
        (lambda opt: setattr(opt, "schedule", 0.5), TypeError, "a schedule is a function of the number of updates done, not 0.5"),
        (lambda opt: opt.options.update(gclip=math.nan), ValueError, "SGD: gclip is a finite number from 0 on, not nan"),
    ],
)
def test_wrong_options_set_later_stop_the_next_step(change, kind, message):
    opt, p = SGD(), at.Param(1.0)
    change(opt)
    with pytest.raises(kind, match=message):
        opt.step(p, 5.0)
    assert opt.steps == 0 and p.item() == 1


# ---------------------------------------------------------------- state


def trained(opt, params, steps, rng):
    for _ in range(steps):
        grads = at.tree.map(lambda p: numbers(rng, p.shape, p.dtype), params)
        params = opt.step(params, grads)
    return params


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("kind", [at.Param, np.array, at.array])
def test_a_restored_state_goes_on_with_the_same_bits(cls, kind):
    def start():
        return {"w": kind(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)), "b": [kind(np.ones(2)), kind(np.full((), 0.5))]}

    def values(tree):
        return at.tree.map(lambda p: np.array(p.numpy() if hasattr(p, "numpy") else p), tree)

    def make():
        return cls(schedule=schedules.cosine(9), clip_norm=2.0, weight_decay=0.1)

    opt, rng = make(), np.random.default_rng(0)
    opt.lr *= 2
    half = trained(opt, start(), 3, rng)
    saved, copies = opt.state, copy.deepcopy(opt.state)
    again, other = at.tree.map(lambda a: kind(a), values(half)), make()
    other.state = saved
    state = copy.deepcopy(rng.bit_generator.state)
    whole = values(trained(opt, half, 4, rng))
    rng.bit_generator.state = state
    for a, b in zip(at.tree.leaves(values(trained(other, again, 4, rng))), at.tree.leaves(whole), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    for a, b in zip(at.tree.leaves(saved), at.tree.leaves(copies), strict=True):  # neither of them wrote to it
        same(a, b)
    assert str(other.state) == str(opt.state) and other.lr == 2 * cls().lr and other.steps == 7


def test_state_is_arrays_numbers_and_text_by_path():
    opt = Adam()
    opt.step({"w": np.ones((2, 2), np.float32), "name": "x"}, {"w": np.ones((2, 2)), "name": "x"})
    state = opt.state
    assert {name: state[name] for name in ("optimiser", "lr", "steps")} == {"optimiser": "Adam", "lr": 0.001, "steps": 1}
    assert list(state["slots"]) == ["['w']"] and set(state["slots"]["['w']"]) == {"updates", "m", "v"}
    for name, share in (("m", 0.1), ("v", 0.001)):  # as in the formula, so that it stays one when betas change
        same(state["slots"]["['w']"][name], np.full((2, 2), share, np.float32), strict=True)
    assert SGD().state["slots"] == {}


@pytest.mark.parametrize("cls", ALL)
def test_a_state_comes_back_from_a_file(cls, tmp_path):
    opt, w = cls(), {"w": np.linspace(-1, 1, 3, dtype=np.float32), "b": [np.ones(())]}
    for _ in range(2):
        w = opt.step(w, w)
    io.save(tmp_path / "state", opt.state)
    other = cls()
    other.state = io.load(tmp_path / "state")
    for a, b in zip(at.tree.leaves(opt.step(w, w)), at.tree.leaves(other.step(w, w)), strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_state_moves_between_backends():
    opt = Momentum()
    w = opt.step([np.ones(3)], [np.arange(3.0)])
    saved, expected = opt.state, opt.step(w, [np.ones(3)])
    with backend.use("strict") as k:
        other = Momentum()
        other.state = saved
        p = at.Param(w[0])
        other.step([p], [k.adopt(np.ones(3))])
        same(p.numpy(), expected[0])
        back = other.state
    assert type(back["slots"]["[0]"]["v"]) is StrictArray


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: 3, "no state of Adam: 3"),
        (lambda s: s | {"optimiser": "AdamW"}, "no state of Adam"),
        (lambda s: {k: v for k, v in s.items() if k != "steps"}, "no state of Adam"),
        (lambda s: s | {"slots": {"[0]": {"m": np.ones(2)}}}, r"\[0\] has \['m'\], not \['m', 'updates', 'v'\]"),
        (lambda s: s | {"slots": {"[0]": None}}, r"\[0\] has NoneType None, not"),
        (lambda s: s | {"slots": [1]}, "no state of Adam"),
        (lambda s: s | {"lr": math.nan}, "lr is a finite number"),
        (lambda s: s | {"steps": -1}, "Adam.state: steps is a whole number from 0 on, not -1"),
        (lambda s: s | {"steps": 1.0}, "steps is a whole number from 0 on, not 1.0"),
        (lambda s: with_slot(s, updates=-1), r"Adam.state: \[0\]: updates is a whole number from 0 on, not -1"),
        (lambda s: with_slot(s, updates="1"), r"updates is a whole number from 0 on, not '1'"),
        (lambda s: with_slot(s, m=[1.0, 1.0]), r"Adam.state: \[0\]: m is an array of floats, not list \[1.0, 1.0\]"),
        (lambda s: with_slot(s, m=np.ones(2, complex)), r"m is an array of floats, not ndarray\(2,\) complex128"),
        (lambda s: with_slot(s, v=np.ones(2, int)), r"v is an array of floats, not ndarray\(2,\) int64"),
        (lambda s: with_slot(s, v=at.Param(np.ones(2))), r"v is an array of floats, not Param"),
        (lambda s: with_slot(s, v=np.ones(3)), r"\[0\] has arrays of different shapes: m \(2,\), v \(3,\)"),
    ],
)
def test_another_state_is_refused_whole(change, message):
    opt = Adam()
    opt.step([np.ones(2)], [np.ones(2)])
    before, wrong = opt.state, change(opt.state)
    with pytest.raises(ValueError, match=message):
        opt.state = {**wrong, "lr": wrong["lr"] * 2} if isinstance(wrong, dict) else wrong
    assert str(opt.state) == str(before)


def with_slot(state, **parts):
    return {**state, "slots": {**state["slots"], "[0]": {**state["slots"]["[0]"], **parts}}}


def test_a_state_of_another_shape_names_the_leaf():
    opt, other = Adam(), Adam()
    opt.step({"w": np.ones(2)}, {"w": np.ones(2)})
    other.state = opt.state
    with pytest.raises(ValueError, match=r"Adam\.step: params\['w'\]: the parameter has shape \(3,\), its state 'm' \(2,\)"):
        other.step({"w": np.ones(3)}, {"w": np.ones(3)})


def test_a_state_follows_the_parameters_to_another_precision():
    opt = Momentum()
    w = opt.step(np.ones(3, np.float32), np.ones(3, np.float32)).astype(np.float64)
    opt.step(w, np.ones(3))
    assert opt.state["slots"][""]["v"].dtype == np.float64


def test_a_state_set_is_for_params_that_come_after():
    p, q, opt = at.Param(np.zeros(1)), at.Param(np.zeros(1)), Momentum()
    opt.step([p], [np.ones(1)])
    opt.state = opt.state
    opt.step([q], [np.ones(1)])  # though p, which was there before, lives
    close(q.numpy(), -0.95 * 0.05 - 0.05)


def test_a_param_may_have_the_id_of_one_that_is_no_more():
    def ones(n, kind):
        return {f"w{i}": kind(np.ones(1)) for i in range(n)}

    opt, gone = Momentum(), ones(50, at.Param)
    opt.step(gone, ones(50, np.array))
    ids = {id(p) for p in gone.values()}
    del gone
    opt.step(ones(50, np.array), ones(50, np.array))
    new = [at.Param(np.ones(1)) for _ in range(200)]
    assert ids & {id(p) for p in new} or sys.implementation.name != "cpython"
    for p in opt.step(new, [np.ones(1)] * 200):
        close(p.numpy(), 0.95)


def test_a_param_alone_has_its_state_under_its_path():
    opt, p = Momentum(), at.Param(np.zeros(1))
    for _ in range(2):
        opt.step(p, np.ones(1))
    assert {path: slot["updates"] for path, slot in opt.state["slots"].items()} == {"": 2}


def test_a_param_keeps_its_state_wherever_it_stands():
    def run(orders):
        params = [at.Param(np.full(2, float(i))) for i in range(3)]
        opt = Momentum()
        for n, order in enumerate(orders):
            opt.step([params[i] for i in order], [np.full(2, i + n + 1.0) for i in order])
        return [p.numpy() for p in params]

    for a, b in zip(run([(0, 1, 2), (0, 1, 2), (0, 1, 2)]), run([(0, 1, 2), (2, 0, 1), (1, 2, 0)]), strict=True):
        same(a, b)
    left_out = run([(0, 1), (2, 1), (0, 1, 2)])
    for i, steps in enumerate([(0, 2), (0, 1, 2), (1, 2)]):
        w = followed(momentum, np.full(2, float(i)), [np.full(2, i + n + 1.0) for n in steps])
        close(left_out[i], w, 1e-12)


def test_each_parameter_counts_its_own_updates():
    p, q, opt = at.Param(np.zeros(1)), at.Param(np.zeros(1)), Adam(lr=0.5)
    for _ in range(5):
        opt.step([p], [np.ones(1)])
    opt.step([p, q], [np.ones(1)] * 2)
    close(q.numpy(), -0.5, 1e-6)  # the bias is corrected as at a first update


def test_a_new_param_in_the_place_of_one_that_is_gone_starts_anew():
    opt = Momentum()
    p = at.Param(np.zeros(1))
    opt.step([p], [np.ones(1)])
    del p
    gc.collect()
    q = at.Param(np.zeros(1))
    opt.step([q], [np.ones(1)])
    close(q.numpy(), -0.05)
    opt.step([at.Param(np.zeros(1))], [np.ones(1)])  # its place is taken by q, which lives
    opt.step([q], [np.ones(1)])
    close(q.numpy(), followed(momentum, np.zeros(1), [np.ones(1)] * 2))


def test_an_optimiser_can_be_copied():
    opt = Adam()
    w = opt.step([np.ones(2)], [np.ones(2)])
    other = copy.deepcopy(opt)
    same(opt.step(w, [np.ones(2)])[0], other.step(w, [np.ones(2)])[0])


# ---------------------------------------------------------------- groups, clipping, schedules


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("cls", ALL)
def test_an_optimiser_copied_with_its_params_goes_on_with_their_state(cls, copied):
    params, opt = [at.Param(np.ones(2)), at.Param(np.zeros(2))], cls()
    opt.step(params, [np.ones(2), np.full(2, 2.0)])
    others, other = copied((params, opt))
    for ps, o in ((params, opt), (others, other)):
        o.step(ps, [np.full(2, -1.0), np.full(2, 3.0)])
    for p, q in zip(params, others, strict=True):
        same(p.numpy(), q.numpy())
    assert str(opt.state) == str(other.state)


def test_a_shallow_copy_shares_no_state():
    opt, p = Adam(), at.Param(np.ones(2))
    opt.step(p, np.ones(2))
    before, other = str(opt.state), copy.copy(opt)
    other.lr = 5.0
    other.step(p, np.ones(2))
    assert str(opt.state) == before and other.steps == 2


def test_a_step_that_fails_binds_no_param_to_a_state():
    def start():
        return at.Param(np.ones(2)), at.Param(np.ones(3))

    a, b = start()
    opt, other = Momentum(), Momentum()
    opt.step([a, b], [np.ones(2), np.ones(3)])
    other.state = opt.state
    a, b = start()
    with pytest.raises(ValueError, match=r"its state 'v' \(2,\)"):
        other.step([b, a], [np.ones(3), np.ones(2)])  # the wrong order
    other.step([a, b], [np.ones(2), np.ones(3)])
    assert {path: slot["updates"] for path, slot in other.state["slots"].items()} == {"[0]": 2, "[1]": 2}


def test_groups_have_options_of_their_own():
    body, head = {"w": at.Param(np.ones(2))}, at.Param(np.ones(2))
    params = [Group(body, lr=0.5), Group(head, weight_decay=1.0)]
    opt = SGD(lr=0.1)
    new = opt.step(params, at.tree.map(lambda p: np.ones(2), params))
    close(body["w"].numpy(), 0.5)
    close(head.numpy(), 1 - 0.1 * 2)
    assert new[0].params["w"] is body["w"] and new[0].options == {"lr": 0.5} and repr(new[0]).endswith(", lr=0.5)")


def test_groups_nest_anywhere_and_the_innermost_counts():
    params = {"a": 1.0, "b": Group([1.0, Group(1.0, lr=0.3)], lr=0.2, weight_decay=1.0)}
    new = SGD(lr=0.1).step(params, at.grad(lambda p: p["a"] + p["b"].params[0] + p["b"].params[1].params)(params))
    close([new["a"], new["b"].params[0], new["b"].params[1].params], [0.9, 1 - 0.2 * 2, 1 - 0.3 * 2])


def test_the_schedule_multiplies_the_rate_of_every_group():
    opt = SGD(lr=0.5, schedule=lambda t: [1, 0.5, 0][t])
    w = [0.0, Group(0.0, lr=1.0)]
    seen = []
    for _ in range(3):
        w = opt.step(w, [1.0, Group(1.0)])
        seen.append((w[0], w[1].params))
    assert seen == [(-0.5, -1.0), (-0.75, -1.5), (-0.75, -1.5)] and opt.lr == 0.5
    opt.schedule, opt.lr = lambda t: 1, 1.0
    assert opt.step(w, [1.0, Group(1.0)])[0] == -1.75


@given(st.floats(0.01, 10), st.floats(0.01, 10), seeds, st.sampled_from(BACKENDS))
@few
def test_clipping_bounds_norms(gclip, limit, seed, name):
    rng = np.random.default_rng(seed)
    g = {"a": numbers(rng, (3, 2)), "b": numbers(rng, 4)}
    total = math.sqrt(sum((x**2).sum() for x in g.values()))
    by_all = {n: x * min(1, limit / total) for n, x in g.items()}
    each = {n: x * min(1, gclip / np.linalg.norm(x)) for n, x in g.items()}
    both = {n: x * min(1, gclip / np.linalg.norm(x)) for n, x in by_all.items()}
    with backend.use(name) as k:
        grads, zeros = {n: k.adopt(x) for n, x in g.items()}, {n: k.zeros(x.shape, x.dtype) for n, x in g.items()}
        close(global_norm(grads), total, 1e-12)
        for options, expected in [({"clip_norm": limit}, by_all), ({"gclip": gclip}, each), ({"clip_norm": limit, "gclip": gclip}, both)]:
            new = SGD(1.0, **options).step(zeros, grads)
            for n in g:
                close(plain(new[n]), -expected[n], 1e-12)
        for n, x in clip_norm(grads, limit).items():
            close(plain(x), by_all[n], 1e-12)
            same(plain(grads[n]), g[n])


def test_clip_norm_keeps_the_kind_of_each_leaf():
    rows = Rows(np.array([1, 1]), backend.kernels().adopt(np.ones((2, 2), np.float32)), (9, 2))
    grads = {"t": at.array([3.0, 4.0]), "f": 5.0, "rows": rows, "name": "x", "a": np.ones(2, np.float32)}
    norm = math.sqrt(25 + 25 + 8 + 2)
    close(global_norm(grads), norm)
    assert clip_norm(grads, 100) is grads
    new = clip_norm(grads, norm / 2)
    assert type(new["t"]) is at.Tensor and type(new["f"]) is float and type(new["rows"]) is Rows and new["name"] == "x"
    assert new["a"].dtype == np.float32 and new["f"] == 2.5
    close(new["rows"].dense(), rows.dense() / 2)


def test_a_large_float32_gradient_is_clipped_not_lost():
    new = SGD(1.0, gclip=1.0).step(np.zeros(2, np.float32), np.full(2, 1e30, np.float32))
    close(new, -math.sqrt(0.5), 1e-6)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("unit", [1e200, 1e-200, 1e306, 5e-324])
def test_norms_whose_squares_overflow_or_vanish(unit, name):
    with backend.use(name) as k:
        grads = [k.adopt(np.array([3.0, 0.0]) * unit), k.adopt(np.array([[4.0]]) * unit)]
        close(global_norm(grads), 5 * unit, 1e-14)
        close(global_norm(grads[0]), 3 * unit, 1e-14)
        zeros = [k.zeros(g.shape, g.dtype) for g in grads]
        if unit > 1:
            for found in (clip_norm(grads, 5.0), SGD(1.0, clip_norm=5.0).step(zeros, [-g for g in grads])):
                close(plain(found[0]), [3, 0], 1e-14)
                close(plain(found[1]), [[4]], 1e-14)
    assert global_norm([np.zeros(3), np.zeros((0, 2)), 0.0]) == 0
    assert global_norm([np.array([math.inf, 1.0])]) == math.inf and math.isnan(global_norm([np.array([math.nan, 1e200])]))


def test_half_precision_is_clipped_though_the_share_is_none_of_its_numbers():
    g = np.full(250_000, 6e4, np.float16)
    for new in (clip_norm(g, 0.5), clip_norm(at.array(g), 0.5).numpy(), -SGD(1.0, clip_norm=0.5).step(g * 0, g)):
        same(new, np.full(g.shape, 1e-3, np.float16), strict=True)
    rows = clip_norm(Rows(np.array([2, 0]), g[:6].reshape(2, 3) / 1000, (5, 3)), 1.0)
    assert type(rows) is Rows and rows.dtype == np.float16
    close(rows.rows, math.sqrt(1 / 6), 1e-3)


def test_gradients_that_are_not_finite_are_not_hidden():
    new = SGD(1.0, clip_norm=1.0).step([0.0, 0.0], [math.nan, 1.0])
    assert math.isnan(new[0]) and new[1] == -1.0


def test_schedules_are_what_they_say():
    def values(s, n):
        return [s(t) for t in range(n)]

    close(values(schedules.step(2, 0.5), 6), [1, 1, 0.5, 0.5, 0.25, 0.25])
    close(values(schedules.step(1), 3), [1, 0.1, 0.01])
    close(values(schedules.linear(4), 6), [1, 0.75, 0.5, 0.25, 0, 0])
    close(values(schedules.linear(2, end=0.5), 4), [1, 0.75, 0.5, 0.5])
    close(values(schedules.cosine(4), 6), [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0, 0], atol=1e-15)
    close(values(schedules.cosine(2, end=0.2), 4), [1, 0.6, 0.2, 0.2])
    close(values(schedules.warmup(4), 6), [0.25, 0.5, 0.75, 1, 1, 1])


def test_schedules_compose_with_one_another_and_with_functions():
    product = schedules.warmup(2) * schedules.linear(4)
    close([product(t) for t in range(4)], [0.5, 0.75, 0.5, 0.25])
    half = lambda t: 0.5  # noqa: E731
    assert [(schedules.linear(4) * half)(2), (half * schedules.linear(4))(2)] == [0.25, 0.25]
    after = schedules.warmup(2).then(2, schedules.step(1, 0.5)).then(4, half)
    close([after(t) for t in range(6)], [0.5, 1, 1, 0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    "make", [schedules.step, schedules.cosine, schedules.linear, schedules.warmup, lambda n: schedules.warmup(1).then(n, len)]
)
def test_a_schedule_takes_at_least_one_step(make):
    with pytest.raises(ValueError, match="is at least 1, not 0"):
        make(0)
    with pytest.raises(TypeError, match=r"(step|cosine|linear|warmup|then): (every|steps) is a whole number, not 1\.5"):
        make(1.5)


# ---------------------------------------------------------------- sparse gradients


@pytest.mark.parametrize("kind", ["array", "param", "tensor"])
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("name", BACKENDS)
def test_rows_update_only_their_rows(cls, kind, name):
    rng, table = np.random.default_rng(0), np.linspace(-1, 1, 60).reshape(20, 3)
    looked_up = [np.array([3, 7, 3]), np.array([7]), np.array([], int), np.array([19, 3])]
    cotangents = [numbers(rng, (len(i), 3)) for i in looked_up]
    options = {"weight_decay": 0.1}
    expected, states = table.copy(), {}
    for t, (i, dy) in enumerate(zip(looked_up, cotangents, strict=True), start=1):  # row by row, in numbers
        for row in set(i.tolist()):
            g, w = dy[i == row].sum(0), expected[row]
            if cls is AdamW:
                expected[row] = adamw(w, g, states.setdefault(row, {}), t, **options)
            else:
                expected[row] = FORMULAS[cls](w, g + 0.1 * w, states.setdefault(row, {}), t)
    with backend.use(name) as k:
        w = {"array": lambda a: k.adopt(a.copy()), "param": at.Param, "tensor": at.array}[kind](table)
        opt = cls(**options)
        for i, dy in zip(looked_up, cotangents, strict=True):
            before = w
            w = opt.step(w, Rows(i, k.adopt(dy), (20, 3)))
        close(plain(w), expected, 1e-12)
        assert (w is before) == (kind == "param")
        for slot in opt.state["slots"].values():
            for x in (x for x in slot.values() if not isinstance(x, int)):
                assert (plain(x)[[3, 7, 19]] != 0).all() and not np.delete(plain(x), [3, 7, 19], 0).any()


@pytest.mark.parametrize("cls", [SGD, Adagrad])
def test_a_sparse_gradient_is_a_dense_one_where_no_row_moves_by_itself(cls):
    table, index = np.linspace(-1, 1, 100).reshape(50, 2), np.array([4, 9, 4, 0])
    w, sparse, dense = at.Param(table), cls(clip_norm=0.5), cls(clip_norm=0.5)
    other = at.Param(table)
    for _ in range(3):
        for p, opt, is_sparse in ((w, sparse, True), (other, dense, False)):
            with at.Tape() as tape:
                loss = np.sum(p[index] ** 2)
            g = tape.gradient(loss, p, sparse=is_sparse)
            assert (type(g) is Rows) == is_sparse
            opt.step([p], [g])
    close(w.numpy(), other.numpy(), 1e-13)


def test_rows_of_another_shape_raise():
    with pytest.raises(ValueError, match=r"params: the parameter has shape \(8, 2\), its gradient \(9, 2\)"):
        SGD().step(np.ones((8, 2)), Rows(np.array([1]), np.ones((1, 2)), (9, 2)))


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        (Rows(np.array([8]), np.ones((1, 2)), (8, 2)), ValueError, r"params\[1\]: Rows\(1 of .* takes indices from 0 to 7, .* from 8 to 8"),
        (Rows(np.array([-1, 7]), np.ones((2, 2)), (8, 2)), ValueError, r"takes indices from 0 to 7, but they are from -1 to 7"),
        (Rows(np.array([1.0]), np.ones((1, 2)), (8, 2)), ValueError, r"takes n whole numbers .* not \(1,\) float64 and \(1, 2\)"),
        (Rows(np.array([1]), np.ones((2, 2)), (8, 2)), ValueError, r"rows \(n, \*shape\[1:\]\), not \(1,\) int64 and \(2, 2\)"),
        (Rows(np.array([1]), StrictArray(np.ones((1, 2))), (8, 2)), BackendError, rf"{WORKS_ON}, but met StrictArray\(1, 2\)"),
    ],
)
def test_rows_that_do_not_fit_change_nothing(rows, kind, message):
    p, q, opt = at.Param(np.ones(2)), at.Param(np.ones((8, 2))), Adam()
    with pytest.raises(kind, match=message):
        opt.step([p, q], [np.ones(2), rows])
    assert (p.numpy() == 1).all() and (q.numpy() == 1).all() and opt.state["slots"] == {}


# ---------------------------------------------------------------- the kernels


NUMBERS = {
    "sgd": (0.1,), "momentum": (0.1, 0.8), "nesterov": (0.1, 0.8), "adagrad": (0.1, 1e-3), "rmsprop": (0.1, 0.8, 1e-3),
    "adadelta": (0.1, 0.8, 1e-3), "adam": (0.1, 0.8, 0.9, 1e-3),
}  # fmt: skip
layouts = st.sampled_from(["plain", "fortran", "strided", "reversed"])
STATES = {"sgd": 0, "momentum": 1, "nesterov": 1, "adagrad": 1, "rmsprop": 1, "adadelta": 2, "adam": 2}


def laid_out(x, layout):
    if layout == "fortran":
        return np.asarray(x, order="F")
    if layout == "strided" and x.ndim:
        return np.repeat(x, 2, -1)[..., ::2]
    if layout == "reversed" and x.ndim:
        return x[::-1].copy()[::-1]
    return x


@pytest.mark.numpy_only("NumPy's kernels")
@pytest.mark.parametrize("which", NUMBERS)
@few
@given(st.one_of(shapes, st.just((5, 70))), st.sampled_from(FLOATS), st.lists(layouts, min_size=5, max_size=5), st.booleans(), seeds)
def test_a_kernel_takes_any_strides_and_writes_nothing_but_out_and_state(which, shape, dtype, how, in_pieces, seed):
    rng, wide = np.random.default_rng(seed), np.result_type(dtype, np.float32)
    w, g = numbers(rng, shape, dtype), numbers(rng, shape, dtype)
    state = [np.asarray(np.abs(numbers(rng, shape, wide))) for _ in range(STATES[which])]
    tail = (*NUMBERS[which], 0.5, 0.1, *((0.25,) if which == "adam" else ()))
    k, before = backend.kernels(), numpy_kernels._PIECE
    update = getattr(k, f"update_{which}")
    expected, new_state = np.empty(shape, dtype), [s.copy() for s in state]
    assert update(expected, w, g, *new_state, *tail) is None
    try:
        numpy_kernels._PIECE = 128 if in_pieces else before
        relaid = [laid_out(x.copy(), layout) for x, layout in zip((w, w, g, *state), how, strict=False)]
        kept = relaid[2].copy()
        relaid[2].flags.writeable = False
        update(*relaid, *tail)
        same(relaid[0], expected, strict=True)
        same(relaid[1], w)
        same(relaid[2], kept)
        update(relaid[1], relaid[1], relaid[2], *[s.copy() for s in state], *tail)
        same(relaid[1], expected, strict=True)
        for a, b in zip(relaid[3:], new_state, strict=True):
            same(a, b, strict=True)
    finally:
        numpy_kernels._PIECE = before


@pytest.mark.parametrize("which", NUMBERS)
def test_a_kernel_refuses_shapes_and_dtypes_that_do_not_fit(which):
    tail = (*NUMBERS[which], 1.0, 0.0, *((0.0,) if which == "adam" else ()))
    k = backend.kernels()
    update, state = getattr(k, f"update_{which}"), [k.zeros((2, 3), np.float64) for _ in range(STATES[which])]
    w, row = k.adopt(np.ones((2, 3))), k.adopt(np.ones(3))
    with pytest.raises(ValueError, match=r"arrays of one shape, not \(2, 3\), \(2, 3\), \(3,\)"):
        update(w, w, row, *state, *tail)
    with pytest.raises(TypeError):
        update(w, w, k.adopt(np.ones((2, 3), complex)), *state, *tail)


def test_kernels_work_in_threads_at_once():
    def run(n):
        w, g, m, v = (k.full((100_000,), x, np.float64) for x in (float(n), n + 1.0, 0.0, 0.0))
        for _ in range(20):
            k.update_adam(w, w, g, m, v, 0.1, 0.9, 0.9, 1e-8, 1.0, 0.1, 0.0)
        found[n] = w

    found, k = {}, backend.kernels()
    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n, w in list(found.items()):
        run(n)
        same(w, found[n])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["plain", "fortran", "strided", "reversed"])
def test_sum_of_squares_is_in_double_precision(dtype, layout):
    x = laid_out(numbers(np.random.default_rng(0), (70, 300), dtype), layout)
    k = backend.kernels()
    y = k.sum_of_squares(k.adopt(x))
    assert type(y) is k.array and y.shape == () and y.dtype == np.float64
    close(y, (x.astype(np.float64) ** 2).sum(), 1e-12)
    assert k.sum_of_squares(k.zeros((0, 2), dtype)) == 0
    with pytest.raises(TypeError):
        k.sum_of_squares(k.adopt(np.ones(2, complex)))


def test_index_write_writes_in_place():
    k = backend.kernels()
    x = k.zeros((3, 2), np.float64)
    assert k.index_write(x, np.array([2, 0]), k.adopt(np.array([[1.0, 2], [3, 4]]))) is None
    same(x, [[3, 4], [0, 0], [1, 2]])


def test_the_strict_array_lets_kernels_write_to_its_own_buffers_alone():
    with backend.use("strict") as k:
        own, other = k.copy(k.adopt(np.ones((2, 3)))), k.adopt(np.ones((2, 3)))
        view = k.transpose(k.transpose(own, None), None)
        k.update_sgd(own, own, other, 0.5, 1.0, 0.0)
        same(k.to_numpy(own), np.full((2, 3), 0.5))
        same(k.to_numpy(other), np.ones((2, 3)))
        assert not own._data.flags.writeable
        with pytest.raises(ValueError, match="update_sgd writes to a StrictArray that may share its buffer"):
            k.update_sgd(view, own, other, 0.5, 1.0, 0.0)
        with pytest.raises(ValueError, match="arrays of one shape"):
            k.update_sgd(own, own, k.zeros((2,), np.float64), 0.5, 1.0, 0.0)
        assert not own._data.flags.writeable
        with pytest.raises(TypeError, match="out is not a StrictArray but ndarray"):
            k.update_sgd(np.ones((2, 3)), own, other, 0.5, 1.0, 0.0)
