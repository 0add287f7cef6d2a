"""checkpoint and custom_gradient: the same derivatives to any order, of less memory or by a rule of one's own."""

from __future__ import annotations

import functools
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

import autotape as at
from autotape import backend, math_mode, random
from autotape.errors import OperatorError, TapeError
from autotape.opsets import v20
from autotape.testing import check_grads

close = np.testing.assert_allclose
RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(4, 4)), RNG.normal(size=(3, 4))


def same(f):
    return f


def of_arguments(w, x, wrap):
    layer = wrap(lambda w, x: np.tanh(x @ w) + w[0])
    return np.sum(layer(w, layer(w, x)) ** 2)


def closed_over(w, x, wrap):
    layer = wrap(lambda x: np.tanh(x @ w) + w[0])
    return np.sum(layer(layer(x)) ** 2)


def nested(w, x, wrap):
    inner = wrap(lambda x: np.tanh(x @ w))
    outer = wrap(lambda x: inner(inner(x)) * w[1])
    return np.sum(outer(outer(x)) ** 2)


def several_results(w, x, wrap):
    parts = wrap(lambda x: {"a": np.sin(x @ w), "b": (x * 2, 5, None), "x": x, "unused": np.exp(x)})
    y = parts(x)
    return np.sum(y["a"] * y["b"][0] * y["b"][1] + y["x"])


def gradient_inside(w, x, wrap):
    return np.sum(wrap(lambda x: at.grad(lambda x: np.sum(np.sin(x @ w) ** 2))(x))(x))


def fused(w, x, wrap):
    image, kernel = np.reshape(x, (1, 1, 3, 4)), np.reshape(w[:2, :2], (1, 1, 2, 2))
    h = v20.conv4(kernel, image)  # pending when the checkpoint begins
    return np.sum(wrap(lambda z: np.tanh(v20.conv4(kernel, z) + h[:, :, :1, :2] + w[0, 0]))(image[:, :, :2, :3])) + np.sum(h)


PROGRAMS = [of_arguments, closed_over, nested, several_results, gradient_inside, fused]


BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
DERIVATIVES = {
    "gradient": lambda f: at.grad(f, (0, 1))(W, X),
    "hessian": lambda f: at.hessian(f)(W, X),
    "jacobian of the gradient": lambda f: at.jacobian(at.grad(f, 1), 0)(W, X),
    "gradient of the gradient": lambda f: at.grad(lambda w, x: np.sum(at.grad(f, 1)(w, x) ** 2))(W, X),
    "hvp": lambda f: at.hvp(f)(W, W, X),
    "jvp": lambda f: at.jvp(lambda w: f(w, X), W, W)[1],
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", BACKENDS)
def test_14_every_derivative_through_a_checkpoint(program, name, derivative):
    with backend.use(name):
        found = DERIVATIVES[derivative](lambda w, x: program(w, x, at.checkpoint))
        expected = DERIVATIVES[derivative](lambda w, x: program(w, x, same))
    for a, b in zip(at.tree.leaves(found), at.tree.leaves(expected), strict=True):
        close(a, b, 1e-11, 1e-11)


def test_a_pullback_through_a_checkpoint_may_be_called_again():
    _, pull = at.vjp(lambda w: nested(w, X, at.checkpoint), W)
    first, second = pull(1.0)[0], pull(1.0)[0]
    np.testing.assert_array_equal(first, second)
    close(first, at.grad(lambda w: nested(w, X, same))(W), 1e-12)


def test_14_params_closed_over_in_every_kind_of_tape():
    p = at.Param(W)
    layer = at.checkpoint(lambda x: np.tanh(x @ p))
    expected = at.grad(lambda w: np.sum(np.tanh(np.tanh(X @ w) @ w)))(W)
    with at.Tape() as tape:
        loss = np.sum(layer(layer(X)))
    close(tape.gradient(loss, p), expected, 1e-12)
    with at.Tape(persistent=True) as tape:
        loss = np.sum(layer(layer(X)))
        with at.Tape() as inner:
            again = np.sum(layer(layer(X)))
        close(np.asarray(at.stop_gradient(inner.gradient(again, p))), expected, 1e-12)
    close(tape.gradient(loss, p), expected, 1e-12)
    close(tape.gradient(loss, p), expected, 1e-12)
    tape.close()
    p -= 0.1


def test_15_what_runs_again_is_what_ran():
    def dropped(x):
        return v20.dropout(np.tanh(x), 0.5) * v20.dropout(x, 0.3)

    x = RNG.normal(size=200)
    y, pull = at.vjp(at.checkpoint(dropped), x)
    np.testing.assert_array_equal(y == 0, pull(np.ones_like(y))[0] == 0)
    twice = at.checkpoint(lambda x: at.checkpoint(dropped)(x) + 1)
    y, pull = at.vjp(twice, x)
    np.testing.assert_array_equal(y == 1, pull(np.ones_like(y))[0] == 0)

    def tested(x):
        with at.training(False):
            return at.checkpoint(dropped)(x)

    np.testing.assert_array_equal(at.vjp(tested, x)[1](np.ones_like(x))[0] == 0, np.zeros(200, bool))


def test_15_a_checkpoint_keeps_its_math_mode_and_backend():
    seen = []

    @at.checkpoint
    def f(x):
        seen.append((math_mode.get(), backend.get()))
        return x * x

    def loss(x):
        with math_mode.use("fast"):
            return np.sum(f(x))

    at.grad(loss)(X)
    assert seen == [("fast", backend.get())] * 2


def test_seeds_replay():
    seeds = []
    with random.noted(seeds):
        drawn = [random.fresh_seed(), random.fresh_seed()]
    with random.replayed(seeds):
        assert [random.fresh_seed(), random.fresh_seed()] == drawn == seeds
        assert random.fresh_seed() not in seeds


def test_training_says_what_dropout_does():
    x = np.ones(1000)
    with at.training():
        assert (np.asarray(v20.dropout(x, 0.5)) == 0).any()
    assert not (np.asarray(v20.dropout(x, 0.5)) == 0).any()

    def f(x):
        with at.training(False):
            return np.sum(v20.dropout(x, 0.5))

    np.testing.assert_array_equal(at.grad(f)(x), x)


@pytest.mark.numpy_only("memory of the host, which tracemalloc watches")
def test_a_checkpointed_loop_keeps_little():
    def loop(x, wrap):
        piece = wrap(lambda x: [x := np.tanh(x * 1.1) for _ in range(20)][-1])
        for _ in range(20):
            x = piece(x)
        return np.sum(x)

    def peak(wrap):
        tracemalloc.start()
        at.grad(lambda x: loop(x, wrap))(np.ones(1000))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(at.checkpoint) < 0.25 * peak(same)


def test_outside_a_tape_a_checkpoint_is_its_function():
    assert type(at.checkpoint(np.tanh)(X)) is np.ndarray
    assert at.checkpoint(lambda x, k: x * k)(2.0, k=3) == 6


def test_a_function_that_records_otherwise_when_it_runs_again_is_an_error():
    runs = []

    @at.checkpoint
    def f(x):
        runs.append(1)
        return x * x if len(runs) == 1 else at.stop_gradient(x)

    with pytest.raises(TapeError, match="f: it did not do the same when it ran again"):
        at.grad(lambda x: np.sum(f(x)))(X)


def test_an_exception_in_a_checkpoint_leaves_the_tape_usable():
    @at.checkpoint
    def f(x):
        y = x * 2
        raise KeyError("mine")
        return y

    def loss(x):
        with pytest.raises(KeyError, match="mine"):
            f(x)
        return np.sum(x * x)

    close(at.grad(loss)(X), 2 * X)


def test_what_leaks_out_of_a_checkpoint_is_a_constant():
    leaked = []

    @at.checkpoint
    def f(x):
        leaked.append(x * 3)
        return x * 2

    def loss(x):
        y = f(x)
        return np.sum(y) + np.sum(leaked[0])

    close(at.grad(loss)(X), np.full(X.shape, 2.0))


# ---------------------------------------------------------------- custom_gradient


@at.custom_gradient
def clipped_exp(x):
    y = np.exp(x)
    return y, y


@clipped_exp.backward
def _(dy, y):
    return np.clip(dy * y, -1, 1)


@at.custom_gradient
def scaled_square(x, s):
    square = x * x
    return square * s, (x, s, square)


@scaled_square.backward
def _(dy, residuals):
    x, s, square = residuals
    return 2 * x * s * dy, np.sum(dy * square)


def test_13_the_rule_is_the_gradient():
    close(at.grad(lambda x: np.sum(clipped_exp(x)))(np.array([0.0, 1.0, -1.0])), [1, 1, np.exp(-1)])
    with backend.use("strict"):
        close(at.grad(lambda x: np.sum(clipped_exp(x)))(np.array([0.0, 1.0, -1.0])), [1, 1, np.exp(-1)])


def test_a_rule_is_differentiated_through_its_residuals():
    check_grads(scaled_square, (X, 1.3), order=3)
    close(at.jacobian(scaled_square)(X[0], 2.0), np.diag(4 * X[0]))
    found, expected = (at.hessian(lambda x, s, f=f: np.sum(np.sin(f(x, s))))(X[0], 1.3) for f in (scaled_square, lambda x, s: x * x * s))
    close(found, expected)
    close(at.jvp(lambda x: scaled_square(x, 2.0), X, X)[1], 4 * X * X)


def test_a_straight_through_estimator():
    @at.custom_gradient
    def rounded(x):
        return np.round(x), None

    @rounded.backward
    def _(dy, _):
        return dy

    close(at.grad(lambda x: np.sum(rounded(x) * x))(X), np.round(X) + X)


def test_a_gradient_reversal_and_trees():
    @at.custom_gradient
    def reverse(p):
        return p, ()

    @reverse.backward
    def _(dp, _):
        return at.tree.map(lambda g: -g, dp)

    def loss(p):
        q = reverse(p)
        return np.sum(q["w"] * X) + q["b"][0]

    g = at.grad(loss)({"w": X, "b": [2.0]})
    close(g["w"], -X)
    assert g["b"] == [-1.0]


def test_an_argument_may_want_none_and_others_are_constants():
    @at.custom_gradient
    def f(x, y, n, *, shift):
        return x * y * n + shift, y * n

    @f.backward
    def _(dy, yn):
        return dy * yn, None, None

    gx, gy = at.grad(lambda x, y: np.sum(f(x, y, 3, shift=1.0)), (0, 1))(X, 2 * X)
    close(gx, 6 * X)
    close(gy, 0 * X)
    assert type(f(X, X, 3, shift=1.0)) is np.ndarray


def test_params_are_arguments():
    p = at.Param(X)
    with at.Tape() as tape:
        loss = np.sum(clipped_exp(p))
    close(tape.gradient(loss, p), np.clip(np.exp(X), -1, 1))


def test_13_bad_custom_gradients_are_named():
    @at.custom_gradient
    def f(x):
        return x * W[0], None

    with pytest.raises(OperatorError, match=r"f: it has no rule yet.*@f.backward"):
        f(X)
    f.backward(lambda dy, _: np.ones(7))
    with pytest.raises(ValueError, match=r"\(7,\) for an argument of shape \(3, 4\)"):
        at.grad(lambda x: np.sum(f(x)))(X)
    f.backward(lambda dy, _: (dy, dy))
    with pytest.raises(OperatorError, match="one cotangent for each of the 1 arguments"):
        at.grad(lambda x: np.sum(f(x)))(X)

    @at.custom_gradient
    def alone(x):
        return x

    alone.backward(lambda dy, _: dy)
    with pytest.raises(OperatorError, match=r"alone: .*\(value, residuals\)"):
        at.grad(lambda x: np.sum(alone(x)))(X)

    def closes_over(w):
        g = at.custom_gradient(lambda x: (x @ w, None))
        g.backward(lambda dy, _: dy)
        return np.sum(g(X))

    with pytest.raises(TapeError, match="no argument: pass it as one"):
        at.grad(closes_over)(W)


def test_both_pickle_where_their_functions_do():
    for f in (clipped_exp, scaled_square):
        assert pickle.loads(pickle.dumps(f)) is f


# ---------------------------------------------------------------- what was found by breaking it


def custom(f, rule):
    c = at.custom_gradient(f)
    c.backward(rule)
    return c


def test_a_loops_variable_in_a_checkpoint_is_an_error_and_as_an_argument_is_right():
    ws = [1.0, 2.0, 3.0]

    def late(ws):
        x = X
        for w in ws:
            x = at.checkpoint(lambda x: np.tanh(x * w))(x)  # noqa: B023
        return np.sum(x)

    with pytest.raises(TapeError, match=r"<lambda>: it did not do the same when it ran again.*pass as arguments a loop"):
        at.grad(late)(ws)

    def passed(ws, wrap):
        x = X
        for w in ws:
            x = wrap(lambda x, w: np.tanh(x * w))(x, w)
        return np.sum(x)

    close(at.grad(lambda ws: passed(ws, at.checkpoint))(ws), at.grad(lambda ws: passed(ws, same))(ws), 1e-12)


def test_a_checkpoint_has_containers_of_its_own():
    def f(state):
        state["h"] = np.sin(state["h"] * X)
        state["seen"].append(state["h"])
        return state

    def loss(x, wrap):
        state = {"h": x, "seen": []}
        state = wrap(f)(wrap(f)(state))
        return np.sum(state["h"]) + np.sum(state["seen"][0])

    close(at.grad(lambda x: loss(x, at.checkpoint))(X), at.grad(lambda x: loss(x, same))(X), 1e-12)


@pytest.mark.parametrize(
    "program",
    [
        lambda w: at.grad(custom(lambda x: (x * 1, None), lambda dy, _: dy * w))(1.0),
        lambda w: at.grad(custom(lambda x: (x * 1, w), lambda dy, w: dy * w))(1.0),
        lambda w: custom(lambda x: (w, None), lambda dy, _: dy)(w * 2),
    ],
)
def test_13_what_a_custom_gradient_closes_over_is_never_lost(program):
    with pytest.raises(TapeError, match="uses a Tensor or Param that is differentiated and is no argument"):
        at.grad(program)(3.0)


def test_params_that_nobody_asks_for_are_constants_to_a_custom_gradient():
    p = at.Param(np.full(4, 2.0))
    c = custom(lambda x: (x * p, p * 1), lambda dy, scale: dy * scale)
    close(at.grad(lambda x: np.sum(c(x)) * np.sum(p))(X), np.full(X.shape, 16.0))
    with at.Tape() as tape, pytest.raises(TapeError, match="is no argument"):
        c(tape.watch(X))


def test_15_training_is_as_it_was_said():
    def f(x):
        with at.no_grad():
            m = v20.dropout(x * 1, 0.5)
        return m * x

    y, pull = at.vjp(at.checkpoint(f), X)
    close(y, X * X)
    close(pull(np.ones_like(X))[0], X)
    with at.training():
        y, pull = at.vjp(at.checkpoint(f), X)
        close(pull(np.ones_like(X))[0] * X, y)


def test_dropout_gives_constants_under_no_grad():
    def f(x):
        with at.no_grad():
            m = v20.dropout(x, 0.5)
        return np.sum(m * x)

    close(at.grad(f)(X), X)


def test_a_custom_rule_that_looks_at_values_goes_row_by_row():
    for rule in (
        lambda dy, _: dy * dy.numpy().sum(),
        lambda dy, _: np.asarray(dy) * float(np.sum(dy)),
        lambda dy, _: dy * 1 if np.linalg.norm(dy) > 0.5 else dy * 0,
    ):
        close(at.jacobian(custom(lambda x: (x * 1, None), rule))(X[0]), np.eye(4))


def test_results_that_hide_tensors_are_refused():
    class Box:
        def __init__(self, y):
            self.y = y

    for f in (at.checkpoint(lambda x: Box(np.sin(x))), custom(lambda x: (Box(np.sin(x)), None), lambda dy, _: dy)):
        with pytest.raises(TypeError, match=r"it returned Box .*at\.tree\.register"):
            at.grad(lambda x, f=f: np.sum(f(x).y))(X)


def test_a_number_is_a_result_of_a_custom_gradient():
    step = custom(lambda x: (1.0 if x > 0 else 0.0, None), lambda dy, _: dy)
    assert at.grad(lambda x: step(x) * x)(2.0) == 3.0


product = custom(lambda x, p: (x * p, (x, p)), lambda dy, r: (dy * r[1], dy * r[0]))


@pytest.mark.parametrize("f", [at.checkpoint(lambda x, p: x * p), product])
def test_a_dropped_pullback_frees_its_params_at_once(f):
    p = at.Param(np.ones(X.shape))
    gc.disable()
    try:
        _, pull = at.vjp(lambda x: f(x, p), X)
        del pull
        p -= 1
    finally:
        gc.enable()


def test_none_in_a_tree_and_a_tuple_of_one():
    scale = custom(lambda p: (p["w"] * p["b"], p["b"]), lambda dy, b: {"w": dy * b, "b": None})
    g = at.grad(lambda p: np.sum(scale(p)))({"w": X, "b": 2.0})
    close(g["w"], np.full(X.shape, 2.0))
    assert g["b"] == 0.0
    for rule in (lambda dy, _: (dy * 2,), lambda dy, _: ((dy * 2,),)):
        first = custom(lambda t: (t[0] * 2, None), rule)
        close(at.grad(lambda x, first=first: np.sum(first((x,))))(X), np.full(X.shape, 2.0))


def test_what_the_users_function_raises_keeps_its_type():
    runs = []

    def f(x):
        runs.append(1)
        if len(runs) > 1:
            raise KeyError("mine")
        return x * 1

    with pytest.raises(KeyError, match="mine"):
        at.grad(lambda x: np.sum(at.checkpoint(f)(x)))(X)
    with pytest.raises(StopAsyncIteration):
        at.grad(lambda x: np.sum(custom(lambda x: (x * 1, None), lambda dy, _: anext_of_nothing())(x)))(X)


def anext_of_nothing():
    raise StopAsyncIteration


def test_other_results_than_at_first_are_an_error():
    rng = np.random.default_rng(0)

    def redrawn(x):
        return np.sum(at.checkpoint(lambda x: x * rng.normal(size=x.shape))(x))

    def overwritten(x):
        a = np.ones(4)
        y = at.checkpoint(lambda x: x * a)(x)
        a[:] = 0
        return np.sum(y)

    for f in (redrawn, overwritten):
        with pytest.raises(TapeError, match="did not do the same when it ran again"):
            at.grad(f)(X)
    nan = at.checkpoint(lambda x: np.where(x > 0, np.nan, x))
    close(at.grad(lambda x: np.sum(nan(x)))(X), np.where(X > 0, 0.0, 1.0))


def test_other_residuals_than_at_first_are_an_error_in_higher_orders():
    rng = np.random.default_rng(0)

    def noisy(x):
        z = rng.normal(size=x.shape)
        return x * x * z, (x, z)

    rule = lambda dy, r: 2 * r[0] * r[1] * dy  # noqa: E731

    def loops_variable(x):
        for k in (2.0, 3.0):
            x = custom(lambda x: (x * x * k, (x, k)), rule)(x)  # noqa: B023
        return np.sum(x)

    def overwritten(x):
        a = np.full(4, 3.0)
        y = custom(lambda x: (x * x * a, (x, a.copy())), rule)(x)
        a[:] = 7
        return np.sum(y)

    for f in (lambda x: np.sum(custom(noisy, rule)(x)), loops_variable, overwritten):
        assert np.isfinite(at.jvp(f, X, X)[1])  # it ran once, and its rule has what it saw then
        for derivative in (at.hvp(f), lambda x, v, f=f: at.jvp(at.grad(f), x, v)):
            with pytest.raises(TapeError, match="it did not do the same when it ran again"):
                derivative(X, X)


def test_a_custom_gradient_replays_its_seeds_in_higher_orders():
    drawn = []

    def noisy(x):
        z = random.normal(x.shape)
        drawn.append(z)
        return x * x * z, (x, z, None, "text", [1, True])

    c = custom(noisy, lambda dy, r: 2 * r[0] * r[1] * dy)
    close(at.hvp(lambda x: np.sum(c(x)))(X, X), 2 * np.asarray(drawn[0]) * X)
    assert len(drawn) > 1


def test_running_statistics_are_updated_once_and_dropout_replayed_in_nested_checkpoints():
    r, moments = v20.RNN(4, 4, num_layers=2, dropout=0.3, dtype=np.float64), [v20.bnmoments(), v20.bnmoments()]

    def run(wrap, m):
        layer = wrap(lambda x: v20.dropout(v20.batchnorm(np.reshape(r(np.reshape(x, (2, 3, 4))), (6, 4)), m), 0.2))
        with random.use(1), at.Tape() as tape:
            loss = np.sum(wrap(lambda x: layer(layer(x)))(np.repeat(X, 2, 0)) ** 2)
        return loss, tape.gradient(loss, r.w)

    for found, expected in zip(run(at.checkpoint, moments[0]), run(same, moments[1]), strict=True):
        close(found, expected, 1e-11)
    close(moments[0].mean, moments[1].mean)
    close(moments[0].var, moments[1].var)


def test_an_exception_in_the_second_run_leaves_the_pullback_usable():
    for failing in (KeyError, KeyboardInterrupt):
        runs = []

        def f(x, failing=failing, runs=runs):
            runs.append(1)
            y = np.tanh(x)
            if len(runs) == 2:
                raise failing
            return y * y

        _, pull = at.vjp(lambda x, f=f: at.checkpoint(f)(x) + x * x, X)
        with pytest.raises(failing):
            pull(np.ones_like(X))
        assert not random.is_replaying()
        close(pull(np.ones_like(X))[0], 2 * np.tanh(X) / np.cosh(X) ** 2 + 2 * X)


def test_what_is_no_function_and_what_is_no_cotangent_is_named():
    with pytest.raises(TypeError, match=r"^checkpoint takes a function, not int 3"):
        at.checkpoint(3)
    with pytest.raises(TypeError, match=r"^custom_gradient takes a function, not NoneType None"):
        at.custom_gradient(None)
    partial = at.custom_gradient(functools.partial(lambda k, x: (k * x["a"] * x["b"], None), 2))
    with pytest.raises(OperatorError, match=r"^functools\.partial.* it has no rule yet"):
        partial({"a": X, "b": X})
    with pytest.raises(TypeError, match=r"^functools\.partial.*\.backward takes a function, not int 3"):
        partial.backward(3)
    for given, error, message in (
        ({"a": X}, ValueError, "the rule gave a cotangent that is no tree like its argument: dict with keys"),
        ({"a": X, "b": "text"}, TypeError, "the rule gave a cotangent that is no array: str 'text'"),
    ):
        partial.backward(lambda dy, _, given=given: given)
        with pytest.raises(error, match=f"^functools.*: {message}"):
            at.grad(lambda x: np.sum(partial(x)))({"a": X, "b": X})


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("later", [0, 1, 3])
def test_params_that_are_met_after_a_checkpoint(depth, later):
    p, others = at.Param(np.ones(3)), [at.Param(np.full(3, 2.0)) for _ in range(later)]

    def layers(x):
        for _ in range(depth):
            x = np.tanh(x * p)
        return x

    def gradients(layers):
        with at.Tape() as tape:
            y = layers(np.arange(3.0))
            for q in others:
                y = y * q
            loss = np.sum(y)
        return tape.gradient(loss, [p, *others])

    for found, expected in zip(gradients(at.checkpoint(layers)), gradients(layers), strict=True):
        close(found, expected)
