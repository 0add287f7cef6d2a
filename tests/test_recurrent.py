"""Recurrent networks: values against loops over single sequences and against PyTorch, gradients, state, dropout, weights, and bad input."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import re

import numpy as np
import pytest

import autotape as at
from autotape import backend, random
from autotape.opsets import v20 as ops
from autotape.testing import check_grads
from autotape.train import init

KINDS = ["relu", "tanh", "lstm", "gru"]
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
EACH_BACKEND = pytest.mark.parametrize("name", ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
rng = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def seeded():
    global rng
    rng = np.random.default_rng(4)
    with random.use(4):
        yield


def logistic(x):
    return 1 / (1 + np.exp(-x))


def network(kind, inputs=3, hidden=2, **options):
    """A network and weights none of which is zero."""
    r, w = ops.rnninit(inputs, hidden, rnn_type=kind, dtype=np.float64, **options)
    return r, rng.uniform(-0.9, 0.9, np.shape(w))


def step(r, w, layer, x, h, c):
    """One step of one sequence, by the formulas in RNN's docstring."""
    n = GATES[r.rnn_type]
    matrices = [ops.rnnparam(r, layer, i, 1, w) for i in range(1, 2 * n + 1)]
    biases = [ops.rnnparam(r, layer, i, 2, w) for i in range(1, 2 * n + 1)]
    from_x = [(x if m is None else m @ x) + b for m, b in zip(matrices[:n], biases[:n], strict=True)]
    from_h = [m @ h + b for m, b in zip(matrices[n:], biases[n:], strict=True)]
    if r.rnn_type == "gru":
        reset, update = (logistic(from_x[i] + from_h[i]) for i in (0, 1))
        new = np.tanh(from_x[2] + reset * from_h[2])
        return (1 - update) * new + update * h, c
    sums = [a + b for a, b in zip(from_x, from_h, strict=True)]
    if r.rnn_type == "lstm":
        c = logistic(sums[1]) * c + logistic(sums[0]) * np.tanh(sums[2])
        return logistic(sums[3]) * np.tanh(c), c
    return (np.tanh(sums[0]) if r.rnn_type == "tanh" else np.maximum(sums[0], 0)), c


def one_sequence(r, w, xs, h, c):
    """(y, h, c) of a single sequence: a list of vectors, and the state of each layer."""
    h, c, directions = list(h), list(c), 2 if r.bidirectional else 1
    for layer in range(r.num_layers):
        outputs = []
        for direction in range(directions):
            k, ys = layer * directions + direction, []
            for x in xs[::-1] if direction else xs:
                h[k], c[k] = step(r, w, k + 1, x, h[k], c[k])
                ys.append(h[k])
            outputs.append(ys[::-1] if direction else ys)
        xs = [np.concatenate(parts) for parts in zip(*outputs, strict=True)]
    return xs, h, c


def by_sequence(r, w, x, sizes, h, c):
    """rnnforw on a packed batch, sequence by sequence, with NumPy."""
    starts = np.cumsum([0, *sizes[:-1]])
    width = r.hidden_size * (2 if r.bidirectional else 1)
    y, h, c = np.empty((len(x), width)), h.copy(), c.copy()
    for b in range(sizes[0]):
        rows = [start + b for start, n in zip(starts, sizes, strict=True) if b < n]
        with backend.use("numpy"):
            ys, h[:, b], c[:, b] = one_sequence(r, w, list(x[rows]), h[:, b], c[:, b])
        y[rows] = ys
    return y, h, c


def states(r, sequences):
    return [rng.uniform(-1, 1, (r.layers, sequences, r.hidden_size)) for _ in range(2)]


def only_lstm(r, c):
    return c if r.rnn_type == "lstm" else None


SHAPES = [  # layers, bidirectional, skip_input, the rows of each step
    (1, False, False, (3, 3, 3, 3)),
    (1, True, False, (3, 2, 2, 1)),
    (2, False, True, (2, 2, 1)),
    (3, True, False, (2, 2)),
    (2, True, True, (3, 1, 1)),
    (1, False, False, (1,)),
    (2, True, False, (1, 1, 1)),
    (1, True, True, (4,)),
]


# ---------------------------------------------------------------- values


@EACH_BACKEND
@pytest.mark.parametrize(("layers", "both", "skip", "sizes"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_batch_is_its_sequences_one_by_one(kind, layers, both, skip, sizes, name):
    r, w = network(kind, 2 if skip else 3, num_layers=layers, bidirectional=both, skip_input=skip)
    x, (h, c) = rng.normal(size=(sum(sizes), r.input_size)), states(r, sizes[0])
    expected = by_sequence(r, w, x, sizes, h, c)
    for dtype, rtol in ((np.float64, 1e-12), (np.float32, 1e-5)):
        with backend.use(name):
            given = [at.array(a.astype(dtype)) for a in (w, x, h, c)]
            found = ops.rnnforw(r, *given[:3], only_lstm(r, given[3]), batch_sizes=sizes)
        for f, e in zip(found, expected, strict=True):
            if f is not None:
                assert f.dtype == dtype
                np.testing.assert_allclose(f.numpy(), e, rtol, rtol, strict=False)
        assert (found[2] is None) == (kind != "lstm")


@pytest.mark.parametrize("kind", KINDS)
def test_x_of_three_axes_is_a_packed_batch_of_equal_steps(kind):
    r, w = network(kind, bidirectional=True)
    x, (h, c) = rng.normal(size=(4, 3, 3)), states(r, 3)
    y, *final = ops.rnnforw(r, w, x, h, only_lstm(r, c))
    packed, *packed_final = ops.rnnforw(r, w, x.reshape(12, 3), h, only_lstm(r, c), batch_sizes=[3] * 4)
    assert y.shape == (4, 3, 4) and np.array_equal(np.asarray(y).reshape(12, 4), packed)
    assert all(np.array_equal(a, b) for a, b in zip(final, packed_final, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_x_of_two_axes_is_one_step_and_of_one_axis_one_sequence(kind):
    r, w = network(kind)
    x = rng.normal(size=(1, 3, 3))
    y = np.asarray(ops.rnnforw(r, w, x)[0])
    assert np.array_equal(ops.rnnforw(r, w, x[0])[0], y[0])
    alone, h, _ = ops.rnnforw(r, w, x[0, 0])
    np.testing.assert_allclose(alone, y[0, 0], 1e-14)
    assert alone.shape == (2,) and h.shape == (1, 1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_layout_of_inputs_changes_nothing(kind):
    r, w = network(kind)
    x = rng.normal(size=(4, 3, 3))
    y = ops.rnnforw(r, w, x)[0]
    for same in (np.asfortranarray(x), np.repeat(x, 2, 2)[..., ::2], x[::-1].copy()[::-1]):
        np.testing.assert_allclose(ops.rnnforw(r, np.repeat(w, 2)[::2], same)[0], y, 1e-14)


def test_float16_is_computed_in_float32_and_integers_count_as_floats():
    r, w = network("gru")
    x = rng.integers(-2, 2, (4, 3, 3))
    y = ops.rnnforw(r, w, x.astype(float))[0]
    half = ops.rnnforw(r, w.astype(np.float16), x.astype(np.float16))[0]
    assert half.dtype == np.float16 and np.allclose(half, y, atol=2e-3)
    assert np.array_equal(ops.rnnforw(r, w, x)[0], y)
    assert ops.rnnforw(r, w, x.astype(np.float32))[0].dtype == np.float64


@pytest.mark.numpy_only("complex numbers")
def test_complex_numbers_are_refused():
    r, w = network("gru")
    with pytest.raises(TypeError, match="recurrent layers are of real numbers, not complex128"):
        ops.rnnforw(r, w, np.ones((4, 3, 3), complex))


def test_saturated_gates_are_exact_and_nothing_overflows():
    x = np.array([[-1e30], [1e30], [math.inf]], np.float32)
    for kind in ("lstm", "gru", "tanh"):
        r = ops.RNN(1, 1, rnn_type=kind, winit=lambda *dims, dtype: np.ones(dims, dtype))
        with np.errstate(all="raise"):
            assert np.isfinite(r(x).numpy()).all()


@pytest.mark.parametrize(("layers", "both", "sizes"), [(1, False, None), (2, True, None), (2, True, (3, 3, 2, 1)), (3, False, (3, 1))])
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_pytorchs(kind, layers, both, sizes):
    torch = pytest.importorskip("torch")
    r, w = network(kind, 3, 4, num_layers=layers, bidirectional=both)
    x = rng.normal(size=(5, 2, 3) if sizes is None else (sum(sizes), 3))
    kinds = {"relu": torch.nn.RNN, "tanh": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
    more = {"nonlinearity": kind} if kind in ("relu", "tanh") else {}
    peer = kinds[kind](3, 4, layers, bidirectional=both, dtype=torch.float64, **more)
    n, parts = GATES[kind], iter(ops.rnnparams(r, w))
    for part, k, which in itertools.product(("weight", "bias"), range(r.layers), ("ih", "hh")):
        suffix = f"l{k // 2}{'_reverse' * (k % 2)}" if both else f"l{k}"
        values = np.concatenate([next(parts) for _ in range(n)])
        getattr(peer, f"{part}_{which}_{suffix}").data[...] = torch.from_numpy(values)
    y, pull = at.vjp(lambda w, x: ops.rnnforw(r, w, x, batch_sizes=sizes)[0], w, x)
    tx = torch.from_numpy(x).requires_grad_()
    given = tx if sizes is None else torch.nn.utils.rnn.PackedSequence(tx, torch.tensor(sizes))
    ty = peer(given)[0]
    ty = ty if sizes is None else ty.data
    np.testing.assert_allclose(y, ty.detach().numpy(), 1e-10, 1e-12)
    v = rng.normal(size=y.shape)
    dw, dx = pull(v)
    (ty * torch.from_numpy(v)).sum().backward()
    np.testing.assert_allclose(dx, tx.grad.numpy(), 1e-9, 1e-12)
    expected = [g.grad.numpy().ravel() for part in ("weight", "bias") for name, g in peer.named_parameters() if name.startswith(part)]
    np.testing.assert_allclose(dw, np.concatenate(expected), 1e-9, 1e-12)


# ---------------------------------------------------------------- gradients


@EACH_BACKEND
@pytest.mark.parametrize(("layers", "both", "skip", "sizes"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_x_w_and_state_to_second_order(kind, layers, both, skip, sizes, name):
    r, w = network(kind, 2 if skip else 3, num_layers=layers, bidirectional=both, skip_input=skip)
    x, (h, c) = rng.normal(size=(sum(sizes), r.input_size)), states(r, sizes[0])
    inputs = (w, x, h, c) if kind == "lstm" else (w, x, h)
    with backend.use(name):
        for dtype in (np.float64, np.float32):
            check_grads(lambda *given: ops.rnnforw(r, *given, batch_sizes=sizes), [a.astype(dtype) for a in inputs])


@pytest.mark.parametrize("kind", KINDS)
def test_third_order_and_forward_mode(kind):
    r, w = network(kind, 1, 1)
    check_grads(lambda w, x: ops.rnnforw(r, w, x)[0], (w, rng.normal(size=(2, 1, 1))), order=3)
    check_grads(lambda w, x: ops.rnnforw(r, w, x), (w, rng.normal(size=(3, 2, 1))), modes=("reverse", "forward"))


def test_a_jacobian_and_a_hessian_product():
    r, w = network("lstm")
    x = rng.normal(size=(2, 2, 3))
    f = lambda w: ops.rnnforw(r, w, x)[0]  # noqa: E731
    rows = [at.grad(lambda w, i=i: f(w).reshape(-1)[i])(w) for i in range(8)]
    np.testing.assert_allclose(at.jacobian(f)(w).reshape(8, -1), rows, 1e-12)
    v = rng.normal(size=w.shape)
    _, expected = at.jvp(at.grad(lambda w: np.sum(f(w) ** 2)), w, v)
    np.testing.assert_allclose(at.hvp(lambda w: np.sum(f(w) ** 2))(w, v), expected, 1e-9)


def test_only_what_is_wanted_is_differentiated():
    r, w = network("lstm")
    x, (h, c) = rng.normal(size=(3, 2, 3)), states(r, 2)
    inputs, f = (w, x, h, c), lambda *given: np.sum(ops.rnnforw(r, *given)[0] ** 2)
    expected = at.grad(f, argnums=(0, 1, 2, 3))(*inputs)
    for chosen in itertools.chain.from_iterable(itertools.combinations(range(4), n) for n in (1, 2, 3)):
        for g, i in zip(at.grad(f, argnums=chosen)(*inputs), chosen, strict=True):
            np.testing.assert_allclose(g, expected[i], 1e-13)


def test_a_result_that_nothing_depends_on_has_no_cotangent():
    r, w = network("lstm")
    x = rng.normal(size=(3, 2, 3))
    check_grads(lambda w: ops.rnnforw(r, w, x)[2], (w,))  # only the cell's last state
    check_grads(lambda w: ops.rnnforw(r, w, x)[1] * 2, (w,))
    check_grads(lambda w: at.grad(lambda x: np.sum(ops.rnnforw(r, w, x)[0]))(x), (w,))


def test_embeddings_in_front_and_rows_taken_behind():
    r, w = network("gru", 3, 2)
    table, words, last = rng.normal(size=(50, 3)), np.array([[1, 7], [4, 1], [9, 3]]), np.array([4, 2])

    def f(table, w):
        y = ops.rnnforw(r, w, table[words].reshape(6, 3), batch_sizes=(2, 2, 2))[0]
        return np.sum(y[last] ** 2)

    dense, sparse = at.grad(f, argnums=(0, 1))(table, w), at.grad(f, argnums=(0, 1), sparse=True)(table, w)
    np.testing.assert_allclose(sparse[0].dense(), dense[0], 1e-13)
    check_grads(f, (table, w), order=1)


def test_nothing_is_kept_unless_it_is_recorded():
    k, x = backend.kernels(), rng.normal(size=(6, 3))
    inputs = (*map(k.adopt, (x, rng.normal(size=56), np.zeros((2, 2, 2)))), "lstm", (2, 2, 2), False, False)
    assert [a.size for a in k.recurrence(*inputs, False)[2:]] == [0, 0]
    assert any(a.size for a in k.recurrence(*inputs, True)[2:])


# ---------------------------------------------------------------- the state


def test_a_state_that_is_none_is_zero_and_discarded():
    r, x = ops.RNN(3, 2), np.ones((4, 2, 3), np.float32)
    y = r(x)
    assert r.h is None and r.c is None
    zeros = np.zeros((1, 2, 2), np.float32)
    assert np.array_equal(ops.rnnforw(r, r.w, x, zeros, zeros)[0].numpy(), y.numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_0_is_carried_on(kind):
    lstm = kind == "lstm"
    r = ops.RNN(3, 2, rnn_type=kind, num_layers=2, h=0, c=0 if lstm else None)
    x = rng.normal(size=(6, 2, 3)).astype(np.float32)
    whole, h, c = ops.rnnforw(r, r.w, x)
    parts = [r(x[:1]), r(x[1:4]), r(x[4:])]
    np.testing.assert_allclose(np.concatenate(parts).numpy(), whole.numpy(), 1e-6)
    np.testing.assert_allclose(r.h.numpy(), h.numpy(), 1e-6)
    assert r.c is None if not lstm else np.allclose(r.c.numpy(), c.numpy())
    r.h = 0
    if lstm:
        r.c = 0
    assert np.array_equal(r(x).numpy(), whole.numpy())


def test_a_given_state_is_where_it_starts_and_each_is_carried_by_itself():
    h, c = (rng.normal(size=(1, 2, 2)).astype(np.float32) for _ in range(2))
    r, x = ops.RNN(3, 2, h=h), rng.normal(size=(4, 2, 3)).astype(np.float32)
    y, last, _ = ops.rnnforw(r, r.w, x, h)
    assert np.array_equal(r(x).numpy(), y.numpy()) and np.array_equal(r.h.numpy(), last.numpy()) and r.c is None
    r.h, r.c = None, c
    y, _, last = ops.rnnforw(r, r.w, x, None, c)
    assert np.array_equal(r(x).numpy(), y.numpy()) and np.array_equal(r.c.numpy(), last.numpy()) and r.h is None


def test_a_carried_state_is_differentiated_within_a_tape_and_a_constant_to_the_next():
    r = ops.RNN(3, 2, h=0, c=0, dtype=np.float64)
    x = rng.normal(size=(6, 2, 3))
    with at.Tape() as tape:
        loss = sum(np.sum(r(part) ** 2) for part in (x[:2], x[2:]))
    (gradient,) = tape.gradient(loss, [r.w])
    expected = at.grad(lambda w: np.sum(ops.rnnforw(r, w, x)[0] ** 2))(np.array(r.w.value))
    np.testing.assert_allclose(gradient, expected, 1e-12)
    h, c = r.h.numpy().copy(), r.c.numpy().copy()
    with at.Tape() as tape:
        loss = np.sum(r(x) ** 2)
    (gradient,) = tape.gradient(loss, [r.w])
    expected = at.grad(lambda w: np.sum(ops.rnnforw(r, w, x, h, c)[0] ** 2))(np.array(r.w.value))
    np.testing.assert_allclose(gradient, expected, 1e-12)
    r.w -= 0.1 * gradient


def test_an_initial_state_may_be_learnt():
    h, r = at.Param(rng.normal(size=(1, 2, 2))), ops.RNN(3, 2, rnn_type="gru", dtype=np.float64)
    with at.Tape() as tape:
        r.h = h
        loss = np.sum(r(np.ones((3, 2, 3))) ** 2)
    (gradient,) = tape.gradient(loss, [h])
    assert gradient.shape == h.shape and np.abs(np.asarray(gradient)).min() > 0 and r.h is not h


def by_pieces(r, x, wrap):
    piece = wrap(r)
    return sum(np.sum(piece(part) ** 2) for part in np.split(x, 3))


def state_set_inside(r, x, wrap):
    def start(x):
        r.h = r.c = 0
        return r(x[:1]), r(x[1:])

    return sum(np.sum(y**2) for y in (*wrap(start)(x), r(x)))


def nested_and_shared(r, x, wrap):
    twin = at.tree.map(lambda w: w, r)  # whose state is r's
    inner = wrap(r)
    outer = wrap(lambda x: inner(x[:1]) * twin(x[1:2]) + inner(x[2:]))
    return np.sum(outer(x[:3]) ** 2) + np.sum(r(x[:2])) + np.sum(outer(x[3:]) ** 3)


def state_alone(r, x, wrap):
    wrap(lambda x: (r(x), None)[1])(x)
    return np.sum(r(x) ** 2)


@pytest.mark.parametrize("program", [by_pieces, state_set_inside, nested_and_shared, state_alone], ids=lambda f: f.__name__)
@pytest.mark.parametrize("derivative", [at.grad, lambda f: lambda w: at.hvp(f)(w, w)], ids=["gradient", "hvp"])
def test_a_checkpoint_carries_a_state_once_and_differentiates_it(program, derivative):
    r, x = ops.RNN(3, 2, num_layers=2, dropout=0.3, dtype=np.float64), rng.normal(size=(6, 2, 3))

    def run(wrap):
        r.h, r.c = 0, 0
        with random.use(1):
            found = derivative(lambda w: program(at.tree.map(lambda _: w, r), x, wrap))(np.array(r.w.value))
        return found, r.h.numpy(), r.c.numpy()

    for found, expected in zip(run(at.checkpoint), run(lambda f: f), strict=True):
        np.testing.assert_allclose(found, expected, 1e-9, 1e-12)


def test_a_pullback_through_a_checkpoint_leaves_the_state_as_it_is():
    r, x = ops.RNN(3, 2, h=0, c=0, dtype=np.float64), rng.normal(size=(4, 2, 3))
    _, pull = at.vjp(lambda w: at.checkpoint(at.tree.map(lambda _: w, r))(x), np.array(r.w.value))
    r.h = r.c = 0
    r(x[:1])
    h = r.h
    v = np.ones((4, 2, 2))
    np.testing.assert_array_equal(pull(v)[0], pull(v)[0])
    assert r.h is h


# ---------------------------------------------------------------- dropout between layers


def test_dropout_is_between_layers_in_training_alone():
    x = rng.normal(size=(3, 4, 3)).astype(np.float32)
    one, two = (ops.RNN(3, 8, num_layers=n, dropout=0.5) for n in (1, 2))
    with at.training(True):
        assert np.array_equal(one(x).numpy(), one(x).numpy())
        assert not np.array_equal(two(x).numpy(), two(x).numpy())
        with random.use(3):
            y = two(x).numpy()
        with random.use(3):
            assert np.array_equal(two(x).numpy(), y)
    without = ops.rnnforw(ops.rnninit(3, 8, num_layers=2)[0], two.w, x)[0].numpy()
    assert np.array_equal(two(x).numpy(), without)
    with at.training(True):
        two.dropout = 0
        assert np.array_equal(two(x).numpy(), without)


def test_dropout_is_replayed_by_checkpoint():
    r, w = network("tanh", num_layers=3, dropout=0.4)
    x = rng.normal(size=(3, 2, 3))
    f = lambda w: np.sum(ops.rnnforw(r, w, x)[0] ** 2)  # noqa: E731
    with random.use(1):
        expected = at.grad(f)(w)
    with random.use(1):
        np.testing.assert_allclose(at.grad(at.checkpoint(f))(w), expected, 1e-13)
    check_grads(f, (w,))


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize(("layers", "both", "skip"), [(1, False, False), (2, True, False), (2, True, True), (3, False, True)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_are_all_matrices_then_all_biases_layer_by_layer(kind, layers, both, skip):
    r, w = network(kind, 4, 4, num_layers=layers, bidirectional=both, skip_input=skip)
    parts = ops.rnnparams(r, w)
    assert np.array_equal(np.concatenate([np.ravel(np.asarray(p)) for p in parts if p is not None]), w)
    n, directions = GATES[kind], 2 if both else 1
    assert len(parts) == 2 * r.layers * 2 * n and r.layers == layers * directions
    assert sum(p is None for p in parts) == (n * directions if skip else 0)
    assert [p.ndim for p in parts if p is not None][-r.layers * 2 * n :] == [1] * r.layers * 2 * n
    for layer, id in itertools.product(range(1, r.layers + 1), range(1, 2 * n + 1)):
        matrix = ops.rnnparam(r, layer, id, 1, w)
        columns = 4 * directions if layer > directions and id <= n else 4
        assert matrix is None if skip and layer <= directions and id <= n else matrix.shape == (4, columns)


@pytest.mark.numpy_only("views of NumPy's arrays")
def test_a_part_of_an_array_of_weights_is_a_view():
    r, w = network("lstm")
    ops.rnnparam(r, 1, 2, 2, w)[...] = 7
    assert (w == 7).sum() == 2


def test_a_part_of_a_param_is_a_tensor():
    net = ops.RNN(3, 2, dtype=np.float64)
    with at.Tape() as tape:
        loss = np.sum(ops.rnnparam(net, 1, 8, 1) ** 2)
    (gradient,) = tape.gradient(loss, [net.w])
    assert np.count_nonzero(gradient) == 4 and np.array_equal(ops.rnnparam(net, 1, 8, 1, gradient), 2 * ops.rnnparam(net, 1, 8, 1).numpy())


@EACH_BACKEND
def test_first_values(name):
    with backend.use(name), random.use(0):
        r = ops.RNN(30, 50, bidirectional=True)
        numbers = [p.numpy() for p in ops.rnnparams(r)]
    matrices, biases = numbers[:16], numbers[16:]
    for m in matrices:
        limit = math.sqrt(6 / sum(m.shape))
        assert m.dtype == np.float32 and 0.9 * limit < np.abs(m).max() <= limit and abs(m.mean()) < 0.1 * limit
    assert [b.max() for b in biases] == [b.min() for b in biases] == [0, 1, 0, 0, 0, 0, 0, 0] * 2
    with random.use(0):
        assert np.array_equal(ops.RNN(30, 50, bidirectional=True).w.numpy(), r.w.numpy())


def test_first_values_of_ones_own():
    ones, twos = (lambda *dims, dtype, value=value: np.full(dims, value, dtype) for value in (1, 2))
    r = ops.RNN(2, 3, winit=init.xavier_normal, binit=ones, finit=twos, dtype=np.float64)
    assert r.w.dtype == np.float64 and [p.numpy()[0] for p in ops.rnnparams(r)[8:]] == [1, 2, 1, 1, 1, 1, 1, 1]
    assert ops.RNN(2, 3, winit=lambda *dims, dtype: rng.normal(size=dims)).w.dtype == np.float32  # RNN's, whatever an init gives
    gru = ops.RNN(2, 3, rnn_type="gru", binit=ones)
    assert {p.numpy()[0] for p in ops.rnnparams(gru)[6:]} == {1}


def test_a_network_is_a_tree_whose_leaf_is_w_and_whose_state_is_one():
    r, x = ops.RNN(3, 2, h=0, c=0), np.ones((4, 2, 3), np.float32)
    assert at.tree.leaves({"net": r})[0] is r.w and at.tree.paths(r) == [".w"]
    value, gradient = at.value_and_grad(lambda r: np.sum(r(x) ** 2))(r)
    assert type(gradient) is ops.RNN and gradient.w.shape == r.w.shape and r.h.shape == (1, 2, 2)
    moved = at.tree.map(lambda w, g: w.value - 0.01 * g, r, gradient)
    r.h = r.c = 0
    assert np.sum(np.asarray(moved(x)) ** 2) < value and r.h.shape == (1, 2, 2)


def test_networks_are_copied_pickled_and_saved_whole(tmp_path):
    r, x = ops.RNN(3, 3, rnn_type="gru", num_layers=2, bidirectional=True, skip_input=True, h=0), np.ones((4, 2, 3), np.float32)
    r(x)
    at.save(tmp_path / "net.safetensors", {"net": r})
    others = copy.deepcopy(r), pickle.loads(pickle.dumps(r)), at.load(tmp_path / "net.safetensors")["net"]
    y = r(x).numpy()
    for other in others:
        assert repr(other) == repr(r) and other.w is not r.w and other.h is not r.h
        assert np.array_equal(other(x).numpy(), y)


def test_repr_says_what_is_not_usual():
    assert repr(ops.RNN(3, 2)) == "RNN(input_size=3, hidden_size=2, rnn_type='lstm')"
    full = "RNN(input_size=3, hidden_size=3, rnn_type='gru', num_layers=2, bidirectional=True, dropout=0.5, skip_input=True)"
    assert repr(ops.RNN(3, 3, rnn_type="gru", num_layers=2, bidirectional=True, dropout=0.5, skip_input=True)) == full


# ---------------------------------------------------------------- what does not fit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(rnn_type="LSTM"), "RNN: rnn_type 'LSTM' is unknown: use one of 'relu', 'tanh', 'lstm', 'gru'"),
        (dict(num_layers=0), "RNN: num_layers must be a whole number of at least 1, got 0"),
        (dict(num_layers=True), "RNN: num_layers must be a whole number of at least 1, got True"),
        (dict(rnn_type=["gru"]), "RNN: rnn_type ['gru'] is unknown: use one of 'relu', 'tanh', 'lstm', 'gru'"),
        (dict(dropout=1.5), "RNN: dropout must be a probability from 0 to 1, got 1.5"),
        (dict(dropout=math.nan), "RNN: dropout must be a probability from 0 to 1, got nan"),
        (dict(skip_input=True), "RNN: with skip_input, input_size must be hidden_size; they are 3 and 2"),
        (dict(rnn_type="gru", c=0), "RNN: c is an lstm's cell state; rnn_type 'gru' has none"),
        (dict(h=np.ones((2, 4, 2))), "RNN: h (2, 4, 2) must be (layers, B, hidden_size), (1, B, 2); None or 0 starts at zero"),
        (dict(h=np.ones(2)), "RNN: h (2,) must be (layers, B, hidden_size), (1, B, 2); None or 0 starts at zero"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ops.RNN(3, 2, **options)


def test_options_of_wrong_types():
    with pytest.raises(TypeError, match="num_layers"):
        ops.RNN(3, 2, num_layers=1.5)
    with pytest.raises(TypeError, match="numLayers"):
        ops.RNN(3, 2, numLayers=2)
    with pytest.raises(ValueError, match="RNN: hidden_size must be a whole number of at least 1, got 0"):
        ops.RNN(3, 0)
    with pytest.raises(ValueError, match="RNN: input_size must be a whole number of at least 1, got True"):
        ops.RNN(True, 2)
    with pytest.raises(TypeError, match=r"RNN: h must be None, 0 or an array \(layers, B, hidden_size\), .* got bool False"):
        ops.RNN(3, 2, h=False)
    with pytest.raises(TypeError, match="RNN: dtype must be of floats, not int64"):
        ops.RNN(3, 2, dtype=int)


@pytest.mark.parametrize(
    ("name", "init", "message"),
    [
        ("winit", lambda *dims, dtype: np.ones(dims[::-1], dtype), "array of real numbers of shape (2, 3), not ndarray(3, 2) float32"),
        ("winit", lambda *dims, dtype: 0.5, "array of real numbers of shape (2, 3), not float 0.5"),
        ("binit", lambda *dims, dtype: np.ones(dims, complex), "array of real numbers of shape (2,), not ndarray(2,) complex128"),
        ("finit", lambda *dims, dtype: None, "array of real numbers of shape (2,), not NoneType None"),
        ("winit", 0, "function, called as winit(*dims, dtype=dtype), got int 0"),
    ],
)
def test_first_values_that_do_not_fit(name, init, message):
    with pytest.raises((TypeError, ValueError), match=rf"^RNN: {name} must .*{re.escape(message)}$"):
        ops.RNN(3, 2, **{name: init})


@pytest.mark.parametrize("shape", [(4, 2, 5), (0, 2, 3), (4, 0, 3), (4, 2, 2, 3), (), (3, 0), (0,)])
def test_an_x_that_does_not_fit(shape):
    message = f"rnnforw: x {shape} must be (T, B, X), (B, X) or (X,), where X is 3 and no axis is empty"
    with pytest.raises(ValueError, match=re.escape(message)):
        ops.RNN(3, 2)(np.ones(shape, np.float32))


@pytest.mark.parametrize("sizes", [(), (1, 2), (3, 0), (2, 2), (4, -1)])
def test_batch_sizes_that_do_not_fit(sizes):
    rule = "batch_sizes must be the number of rows of each step, at least 1 and never growing, together the 3 rows of x (3, 3)"
    message = f"{rule}; got {sizes}"
    with pytest.raises(ValueError, match=re.escape(message)):
        ops.RNN(3, 2)(np.ones((3, 3), np.float32), batch_sizes=sizes)


def test_batch_sizes_go_with_an_x_of_two_axes():
    with pytest.raises(ValueError, match=re.escape("x (2, 2, 3) must be (rows, X), beside batch_sizes, where X is 3")):
        ops.RNN(3, 2)(np.ones((2, 2, 3)), batch_sizes=(2, 2))
    with pytest.raises(TypeError, match=r"rnnforw: each of batch_sizes must be a whole number, got float 2\.0"):
        ops.RNN(3, 2)(np.ones((4, 3)), batch_sizes=(2.0, 2.0))
    with pytest.raises(TypeError, match="rnnforw: batch_sizes must be whole numbers, the rows of each step, got int 4"):
        ops.RNN(3, 2)(np.ones((4, 3)), batch_sizes=4)


def test_a_state_that_does_not_fit():
    r = ops.RNN(3, 2, h=0, c=0)
    r(np.ones((4, 2, 3), np.float32))
    message = "rnnforw: h (1, 2, 2) must be (layers, B, hidden_size), (1, 5, 2); None or 0 starts at zero"
    with pytest.raises(ValueError, match=re.escape(message)):
        r(np.ones((4, 5, 3), np.float32))
    r.h = "zero"
    with pytest.raises(TypeError, match=re.escape("rnnforw: h must be None, 0 or an array (layers, B, hidden_size), (1, 2, 2), got ")):
        r(np.ones((4, 2, 3), np.float32))
    with pytest.raises(ValueError, match="rnnforw: c is an lstm's cell state; rnn_type 'tanh' has none"):
        ops.rnnforw(*ops.rnninit(3, 2, rnn_type="tanh"), np.ones((4, 2, 3)), None, 0)
    for state in ({}, None, {"h": 0, "c": 0, "d": 0}):
        with pytest.raises(ValueError, match=re.escape("a network's state is {'h': ..., 'c': ...}, not ")):
            r.state = state


def test_weights_that_do_not_fit():
    r, w = ops.rnninit(3, 2, rnn_type="tanh")
    with pytest.raises(ValueError, match=re.escape("rnnforw: w (13,) must have the shape (14,) for RNN(input_size=3")):
        ops.rnnforw(r, np.asarray(w)[1:], np.ones(3))
    with pytest.raises(ValueError, match=r"rnnforw: w is None; pass r\.w, or the weights that rnninit gave beside RNN"):
        r(np.ones(3))
    with pytest.raises(TypeError, match=rf"rnnforw: r must be an RNN, got {type(w).__name__}\(14,\) float32"):
        ops.rnnforw(w, r, np.ones(3))
    for numbers, message in (((2, 1, 1), "layer must be from 1 to 1"), ((1, 3, 1), "id must be from 1 to 2"), ((1, 1, 0), "param must be")):
        with pytest.raises(ValueError, match=f"rnnparam: {message}"):
            ops.rnnparam(r, *numbers, w)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(cell="rnn"), "cell 'rnn' is unknown"),
        (dict(cell=["tanh"]), "cell ['tanh'] is unknown"),
        (dict(state=np.ones((2, 2, 2))), "state (2, 2, 2) must be (1, B, H) for B sequences and H hidden units, none of them 0"),
        (dict(state=np.ones((1, 0, 2))), "state (1, 0, 2) must be (1, B, H)"),
        (dict(sizes=(2, 3)), "sizes must say how many of the rows of x (4, 3) each step has, one for each of the 2 sequences at first"),
        (dict(sizes=()), "sizes must say how many of the rows of x (4, 3) each step has"),
        (dict(x=np.ones((2, 2, 3))), "sizes must say how many of the rows of x (2, 2, 3) each step has"),
        (dict(skip=True), "skip adds x (4, 3) to gates of 2 hidden units, so it must have as many columns"),
        (dict(w=np.ones(3)), "w (3,) must have the shape (14,) for x (4, 3), 2 hidden units and cell 'tanh'"),
    ],
)
def test_a_recurrence_that_does_not_fit(change, message):
    given = dict(x=np.ones((4, 3)), w=np.ones(14), state=np.ones((1, 2, 2)), cell="tanh", sizes=(2, 2)) | change
    with pytest.raises(ValueError, match=re.escape(message)):
        ops.recurrence(given.pop("x"), given.pop("w"), given.pop("state"), **given)


@pytest.mark.parametrize(("sizes", "message"), [(4, "sizes must be whole numbers, .* got int 4"), ((2.0, 2), "each of sizes must be a")])
def test_a_recurrence_whose_sizes_are_no_whole_numbers(sizes, message):
    with pytest.raises(TypeError, match=f"^recurrence: {message}"):
        ops.recurrence(np.ones((4, 3)), np.ones(14), np.ones((1, 2, 2)), "tanh", sizes)
    same = [ops.recurrence(np.ones((4, 3)), np.ones(14), np.ones((1, 2, 2)), "tanh", s)[0] for s in ((2, 2), [2, 2], np.array([2, 2]))]
    assert np.array_equal(same[0], same[1]) and np.array_equal(same[0], same[2])
