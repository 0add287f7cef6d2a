"""Random programs compute the same with fusion and without.

A program is a list of steps (kind, a, b) on two kinds of values, images and matrices; a and b choose operands among all values so far,
so intermediates are used again, kept, looked at, overwritten and differentiated as chance has it.  It runs in the default and in the
pedantic mode: as a gradient, as the gradient of a gradient, as training steps that update Params in place, and in several threads.
"""

from __future__ import annotations

import concurrent.futures

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
import autotape.testing  # registers the backend "strict"
from autotape import backend, math_mode, tape, train
from autotape.opsets import array as ops
from autotape.opsets import v20
from autotape.opsets.v20 import fused

RULES = [v20.conv4.op.fusion, ops.matmul.op.fusion]
IMAGE, MATRIX = (2, 4, 4, 4), (32, 32)  # matrices large enough for the engine to ask whether a chain pays
SMOOTH = [ops.tanh, v20.sigm, v20.elu]
ALL = [*SMOOTH, v20.relu, v20.selu]
TOLERANCE = {"numpy": 1e-8, "onednn": 2e-3, "pycuda": 1e-8, "cudnn": 1e-8}
BACKENDS = ["numpy", "onednn"] if backend.get() == "numpy" else [backend.get()]
TABLES = ["numpy", "strict", "onednn"] if backend.get() == "numpy" else [backend.get()]
OPTIMISERS = [lambda: train.SGD(0.01), lambda: train.Momentum(0.01, 0.9), lambda: train.Adam(0.01, eps=0.1)]


@pytest.fixture(autouse=True, scope="module")
def small_products_are_worth_a_chain():
    before, fused.BOOKKEEPING = fused.BOOKKEEPING, -(1 << 20)
    yield
    fused.BOOKKEEPING = before
    nothing_learnt()


@pytest.fixture(params=BACKENDS, scope="module")
def name(request):
    if why := backend.available()[request.param]:
        pytest.skip(why)
    with backend.use(request.param):
        yield request.param


def nothing_learnt():
    for rule in RULES:
        rule.plans.clear()


class Failed(Exception):
    """A step that raised, and what."""


class Machine:
    """The values of a running program, and its steps."""

    def __init__(self, params, data, activations):
        self.w, self.c, self.m, self.d = (params[k] for k in "wcmd")
        self.values = [list(data["images"]), list(data["matrices"])]
        self.activations = activations
        self.latest = 0  # which of the two lists grew last
        self.kept = []

    def run(self, program):
        for n, (kind, a, b) in enumerate(program):
            try:
                made = getattr(self, kind)(a, b)
            except (ValueError, TypeError) as e:
                raise Failed(n, type(e).__name__, str(e)) from e
            for value in made if isinstance(made, list) else [made]:
                self.latest = int(len(value.shape) == 2)
                self.values[self.latest].append(value)
        total = sum((values[-1] * values[-1]).mean() for values in self.values)
        return total + 0.1 * sum((k * k).mean() for k in self.kept[:2])

    # -- operands
    def pick(self, a):
        """Mostly the latest value, whichever it is."""
        values = self.values[self.latest if a % 4 else a // 4 % 2]
        return values[-1 if a % 3 else -1 - a // 3 % len(values)]

    def like(self, x, b):
        values = self.values[len(x.shape) == 2]
        return values[b % len(values)]

    def bias_of(self, x, b):
        return (self.d if len(x.shape) == 2 else self.c)[b % 2]

    def act(self, a, b):
        return self.activations[b % len(self.activations)](self.pick(a))

    # -- what is fused
    def conv(self, a, b):
        return v20.conv4(self.w[b % 2], self.values[0][-1 - a % len(self.values[0])], padding=1, mode=b % 2, alpha=0.5)

    def product(self, a, b):
        return self.values[1][-1 - a % len(self.values[1])] @ self.m[b % 2]

    def bias(self, a, b):
        x = self.pick(a)
        return self.bias_of(x, b) + x if b % 3 == 0 else x + self.bias_of(x, b)

    def residual(self, a, b):
        x = self.pick(a)
        return self.like(x, b) + x if b % 3 == 0 else x + self.like(x, b)

    def chain(self, a, b):
        """All in a row, with the additions in both orders; the values in between can be used again."""
        made = [self.product(a // 2, b) if a % 2 else self.conv(a // 2, b)]
        bias, residual = self.bias_of(made[0], a), self.like(made[0], a // 3)
        for other in [[], [bias], [residual], [bias, residual], [residual, bias]][b % 5]:
            made.append(made[-1] + other)
        return [*made, self.activations[a % len(self.activations)](made[-1])]

    # -- what comes in between
    def other(self, a, b):
        x, y, c = self.pick(a), self.like(self.pick(a), b), self.bias_of(self.pick(a), b)
        return [lambda: ops.sin(x), lambda: x[::-1], lambda: x * y * 0.3, lambda: x + 0.5, lambda: x - c][b % 5]()

    def keep(self, a, b):
        self.kept.append(self.pick(a))
        return self.kept[-1]

    def look(self, a, b):
        x = self.pick(a)
        str(x) if b % 2 else at.stop_gradient(x).numpy()
        return x

    def unrecorded(self, a, b):
        with at.no_grad():
            z = self.pick(a) + self.bias_of(self.pick(a), b)
            return [self.activations[b % len(self.activations)](z), z]

    def overwritten(self, a, b):
        """NumPy's arrays of the program, which it overwrites before the chain ends."""
        if a % 2:
            raw, bias = np.full(IMAGE, 0.1 * b, self.w[0].dtype), np.full((4, 1, 1), 0.5, self.w[0].dtype)
            h = v20.conv4(self.w[b % 2], raw, padding=1)
        else:
            raw, bias = np.full(MATRIX, 0.01 * b, self.m[0].dtype), np.full(32, 0.5, self.m[0].dtype)
            h = raw @ at.stop_gradient(at.asarray(self.m[b % 2].numpy()))
        raw[...] = 99
        z = h + bias
        bias[...] = 99
        return [h, self.activations[b % len(self.activations)](z)]

    def raising(self, a, b):
        """An error in the middle of a chain, and going on."""
        h = self.product(a, b) if a % 2 else self.conv(a, b)
        z = h + self.bias_of(h, b)
        with pytest.raises(ValueError, match="add"):
            z + np.ones((7, 7, 7), z.dtype)
        with pytest.raises(ZeroDivisionError):
            at.grad(lambda t: (ops.tanh(z + t) * (1 // 0)).sum())(self.like(z, b))
        return [h, z, self.activations[b % len(self.activations)](z)]

    def failing(self, a, b):
        """An error that ends the program."""
        x = self.pick(a)
        return x + np.ones((5, 5), x.dtype) if b % 3 == 0 else x

    def nested(self, a, b):
        x, act = self.pick(a), self.activations[b % len(self.activations)]
        product = (lambda t: t @ self.m[b % 2]) if len(x.shape) == 2 else (lambda t: v20.conv4(self.w[b % 2], t, padding=1, alpha=0.5))
        return at.grad(lambda t: (act(product(t) + self.bias_of(x, b)) * t).sum())(x)

    def checkpointed(self, a, b):
        return at.checkpoint(lambda x: self.activations[b % len(self.activations)](x @ self.m[0] + self.d[b % 2]))(self.values[1][-1])


KINDS = (
    ["chain"] * 8 + ["conv"] * 3 + ["product"] * 3 + ["bias"] * 5 + ["residual"] * 3 + ["act"] * 5 + ["other"] * 2 + ["keep"] * 2
    + ["look", "unrecorded", "overwritten", "raising", "failing", "nested", "checkpointed"]
)  # fmt: skip
programs = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=8)


def drawn(seed, dtype):
    """Parameters, and the images and matrices that a program starts with."""
    r = np.random.default_rng(seed)
    params = {
        "w": [r.normal(size=(4, 4, 3, 3)) * 0.3 for _ in range(2)],
        "c": [r.normal(size=s) * 0.3 for s in ((4, 1, 1), (1, 4, 1, 1))],
        "m": [r.normal(size=(32, 32)) * 0.2 for _ in range(2)],
        "d": [r.normal(size=s) * 0.3 for s in ((32,), (1, 32))],
    }
    data = {"images": [r.normal(size=IMAGE) for _ in range(2)], "matrices": [r.normal(size=MATRIX) for _ in range(2)]}
    return at.tree.map(lambda x: x.astype(dtype), (params, data))


def loss(program, activations, params, data):
    machine = Machine(params, data, activations)
    return machine.run(program), [machine.values[0][-1], machine.values[1][-1], *machine.kept]


def gradient(program, activations, seed, dtype):
    """The loss, what can be seen of the values, and the gradient in parameters and data, or how the program fails."""
    try:
        (value, seen), g = at.value_and_grad(lambda p, x: loss(program, activations, p, x), (0, 1), has_aux=True)(*drawn(seed, dtype))
    except Failed as e:
        return e.args
    return value, [np.array(s) for s in seen], g


def twice(program, activations, seed, dtype):
    """The gradient of the gradient's square."""

    def square(p, x):
        g, _ = at.grad(lambda p: loss(program, activations, p, x), has_aux=True)(p)
        return sum((t * t).mean() for t in at.tree.leaves(g))

    try:
        return at.value_and_grad(square, (0, 1))(*drawn(seed, dtype))
    except Failed as e:
        return e.args


def training(program, activations, seed, dtype):
    """Three steps with Params that an optimiser changes in place, everything kept until the end."""
    params, data = drawn(seed, dtype)
    params, held = at.tree.map(at.Param, params), []
    optimiser = OPTIMISERS[seed % len(OPTIMISERS)]()
    try:
        for _ in range(3):
            with at.Tape() as t:
                at.tree.map(t.watch, params)
                value, seen = loss(program, activations, params, at.tree.map(at.asarray, data))
            held += [value, *seen]
            if value._id >= 0:
                optimiser.step(params, t.gradient(value, params))
            t.close()
    except Failed as e:
        return e.args
    return [h.numpy() for h in held], at.tree.map(lambda p: p.numpy(), params)


def in_threads(program, activations, seed, dtype):
    """Each thread runs the program on numbers of its own."""
    k, mode = backend.get(), math_mode.get()

    def run(i):
        with backend.use(k), math_mode.use(mode):  # new threads see the default
            return gradient(program, activations, seed + i, dtype)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return list(pool.map(run, range(3)))


def distance(found, expected):
    """Of two results the largest difference, as a share of the expected array's norm."""
    a, b = at.tree.leaves(found), at.tree.leaves(expected)
    assert len(a) == len(b)
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        if isinstance(y, (str, int)):
            assert x == y
            continue
        assert x.dtype == y.dtype and x.shape == y.shape
        worst = max(worst, float(np.linalg.norm(np.ravel(x - y)) / max(np.linalg.norm(np.ravel(y)), 1e-3)))
    return worst


RUNS = {"gradient": gradient, "twice": twice, "training": training, "in threads": in_threads}


@pytest.mark.parametrize("run", RUNS)
@settings(max_examples=3 * settings().max_examples // 2)
@given(program=programs, seed=st.integers(0, 5))
def test_25_programs_are_the_same_with_and_without_fusion(run, name, program, seed):
    """All activations, in float64.  On onednn smooth ones, in float32: at a kink the rounding of a sum decides about a whole gradient."""
    activations, dtype = (SMOOTH, np.float32) if name == "onednn" else (ALL, np.float64)
    nothing_learnt()
    with math_mode.use("pedantic"):
        expected = RUNS[run](program, activations, seed, dtype)
    for _ in range(2):  # the second time with what was learnt
        assert distance(RUNS[run](program, activations, seed, dtype), expected) < TOLERANCE[name]
    assert tape.current() is None and not tape._live


@settings(max_examples=3 * settings().max_examples // 2)
@given(program=programs, seed=st.integers(0, 5))
def test_25_values_of_programs_with_kinks_are_the_same(name, program, seed):
    nothing_learnt()
    with math_mode.use("pedantic"):
        expected = gradient(program, ALL, seed, np.float32)[:2]
    assert distance(gradient(program, ALL, seed, np.float32)[:2], expected) < TOLERANCE["onednn"]


ADDED = {"nothing": "", "bias": "b", "residual": "z", "bias, residual": "bz", "residual, bias": "zb"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("kind", ["conv", "product", "stack of products"])
@pytest.mark.parametrize("table", TABLES)
def test_each_chain_on_each_backend(table, kind, added, dtype):
    if why := backend.available()[table]:
        pytest.skip(why)
    for act in ALL:
        check_chain(table, kind, added, dtype, act)


def check_chain(table, kind, added, dtype, act):
    """The value and the gradients of a chain, its operands in either order, and where it gives NaN."""
    r = np.random.default_rng(1)
    shapes = {
        "conv": [(4, 3, 3, 3), (2, 3, 6, 6), (4, 1, 1), (2, 4, 6, 6)],
        "product": [(40, 64), (64, 32), (32,), (40, 32)],
        "stack of products": [(2, 20, 64), (64, 32), (1, 32), (2, 20, 32)],
    }
    a, b, bias, z = (r.normal(size=s).astype(dtype) * 0.3 for s in shapes[kind])

    def f(a, b, bias, z, left=False):
        y = v20.conv4(a, b, padding=1) if kind == "conv" else a @ b
        for which in ADDED[added]:
            other = {"b": bias, "z": z}[which]
            y = other + y if left else y + other
        return act(y)

    with math_mode.use("pedantic"):
        y, pull = at.vjp(f, a, b, bias, z)
        expected = y, pull(y)
    with backend.use(table):
        nothing_learnt()
        for left in (False, True):
            y, pull = at.vjp(lambda *args, left=left: f(*args, left), a, b, bias, z)
            assert distance((y, pull(y)), expected) < (1e-5 if dtype == np.float32 else 1e-12)
        worth = [plan.unused for rule in RULES for plan in rule.plans.values()]
        assert worth == [0]  # it was fused both times
        with np.errstate(invalid="ignore"):
            y, _ = at.vjp(f, a, b, bias, np.where(np.arange(z.size).reshape(z.shape) % 7, z, np.nan).astype(dtype))
        assert np.isnan(y).sum() == (-(-z.size // 7) if "z" in ADDED[added] else 0)


def test_a_chain_broken_by_a_kept_variable(name):
    (params, data), dtype = drawn(0, np.float32), np.float32
    assert data["matrices"][0].dtype == dtype

    def f(p, x):
        total = 0
        for product, bias in ((v20.conv4(p["w"][0], x["images"][0], padding=1), p["c"][0]), (x["matrices"][0] @ p["m"][0], p["d"][0])):
            z = product + bias
            y = ops.tanh(z)
            total = total + (y * z * product).mean()  # every one of them
        return total

    with math_mode.use("pedantic"):
        expected = at.value_and_grad(f, (0, 1))(params, data)
    nothing_learnt()
    for _ in range(3):
        assert distance(at.value_and_grad(f, (0, 1))(params, data), expected) < 1e-5
    assert [plan.pays for rule in RULES for plan in rule.plans.values()] == [False, False]


def test_programs_are_fused(monkeypatch):
    """Else the rest would prove nothing."""
    seen, k = [], backend.kernels()
    for called in ("conv_bias_act", "matmul_bias_act"):
        kernel = getattr(k, called)
        monkeypatch.setattr(k, called, lambda *args, called=called, kernel=kernel: seen.append(called) or kernel(*args))
    nothing_learnt()
    gradient([("chain", 0, 3), ("chain", 1, 4), ("product", 0, 0), ("bias", 1, 1), ("act", 1, 0)], SMOOTH, 0, np.float64)
    assert seen == ["conv_bias_act", "matmul_bias_act", "matmul_bias_act"]
