"""The onednn backend's recurrent layers: values and gradients against NumPy's, what is left to NumPy, bits, NaN, and who has the memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autotape as at
from autotape import backend, math_mode
from autotape.backends.kernels import packed_steps
from autotape.backends.onednn_backend import OneDNNKernels
from autotape.opsets import v20 as ops

if why := OneDNNKernels.unavailable():
    pytest.skip(f"oneDNN can't be loaded: {why}", allow_module_level=True)

from autotape.backends.onednn_backend import binding

pytestmark = pytest.mark.numpy_only("oneDNN's kernels")

K, NUMPY = backend.load("onednn"), backend.load("numpy")
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
BOTH = pytest.mark.parametrize("cell", ["lstm", "gru"])
SIZES = st.tuples(*(st.integers(1, most) for most in (6, 5, 20, 20)))


def layer(cell, steps=5, sequences=3, width=7, hidden=6, seed=0, dtype=np.float32):
    """x, w and state of a layer, and cotangents of y and of the last state."""
    rng = np.random.default_rng(seed)
    states, count = (2 if cell == "lstm" else 1, sequences, hidden), GATES[cell] * hidden * (width + hidden + 2)
    shapes = (steps * sequences, width), count, states, (steps * sequences, hidden), states
    arrays = [rng.uniform(-0.7, 0.7, shape).astype(dtype) for shape in shapes]
    arrays[1] /= dtype(hidden**0.5)  # larger ones would blow rounding up from step to step
    return arrays


def there_and_back(k, arrays, cell, sizes, reverse=False, skip=False, with_x=True):
    """The results of both kernels, and what the first one ran on."""
    x, w, state, dy, dfinal = arrays
    y, final, *kept = k.recurrence(x, w, state, cell, sizes, reverse, skip, True)
    account = k.account()
    return [y, final, *k.recurrence_grads(dy, dfinal, x, w, state, y, *kept, cell, sizes, reverse, skip, with_x)], account


def near(got, wanted):
    for name, a, b in zip(("y", "final", "dx", "dw", "dstate"), got, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, f"{name}: {a.dtype} {a.shape} where NumPy has {b.dtype} {b.shape}"
        worst, largest = np.abs(a - b).max(initial=0), np.abs(b).max(initial=0)
        assert worst <= 1e-5 * largest, f"{name} is off by {worst:.1e}, where the largest is {largest:.1e}"


def bits(results):
    return [a.tobytes() for a in results]


# ---------------------------------------------------------------- values and gradients


@given(st.sampled_from(["lstm", "gru"]), SIZES, st.booleans(), st.booleans())
def test_values_and_gradients_are_numpys(cell, size, reverse, with_x):
    arrays, sizes = layer(cell, *size), (size[1],) * size[0]
    before = bits(arrays)
    got, (algorithm, why) = there_and_back(K, arrays, cell, sizes, reverse, with_x=with_x)
    assert algorithm != "numpy" and not why
    near(got, there_and_back(NUMPY, arrays, cell, sizes, reverse, with_x=with_x)[0])
    assert bits(arrays) == before, "inputs were changed"


@BOTH
@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_wider_than_its_vectors(cell, reverse):
    arrays = layer(cell, 20, 33, 130, 70)
    near(there_and_back(K, arrays, cell, (33,) * 20, reverse)[0], there_and_back(NUMPY, arrays, cell, (33,) * 20, reverse)[0])


@BOTH
def test_arrays_of_any_strides(cell):
    plain = layer(cell)
    strided = [np.repeat(a, 2, axis=-1)[..., ::2] for a in plain]
    strided[0] = np.asfortranarray(plain[0])[::-1][::-1]
    assert bits(there_and_back(K, strided, cell, (3,) * 5)[0]) == bits(there_and_back(K, plain, cell, (3,) * 5)[0])


@BOTH
def test_what_is_recorded_has_the_bits_of_what_is_not(cell):
    x, w, state = layer(cell)[:3]
    y, final, *kept = K.recurrence(x, w, state, cell, (3,) * 5, False, False, False)
    assert [a.size for a in kept] == [0, 0]
    assert bits((y, final)) == bits(K.recurrence(x, w, state, cell, (3,) * 5, False, False, True)[:2])


@pytest.mark.parametrize("kind", ["relu", "tanh", "lstm", "gru"])
def test_a_network_of_two_directions_has_numpys_gradients(kind):
    rng = np.random.default_rng(1)
    with at.random.use(0):
        r, w = ops.rnninit(3, 4, rnn_type=kind, num_layers=2, bidirectional=True, dtype=np.float32)
    x, v = rng.normal(size=(6, 2, 3)).astype(np.float32), rng.normal(size=w.shape).astype(np.float32)

    def loss(w, x):
        y, h, _ = ops.rnnforw(r, w, x)
        return np.sum(y * y) + np.sum(h)

    found = {}
    for name in ("numpy", "onednn"):
        with backend.use(name):
            found[name] = [*at.grad(loss, argnums=(0, 1))(w, x), at.hvp(loss)(w, v, x)]
    for got, wanted in zip(found["onednn"], found["numpy"], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


# ---------------------------------------------------------------- what NumPy does


@pytest.mark.parametrize(
    ("cell", "sizes", "options", "reason"),
    [
        ("relu", (3,) * 5, {}, "without gates"),
        ("tanh", (3,) * 5, {}, "without gates"),
        ("lstm", (3, 3, 2, 1, 1), {}, "several lengths"),
        ("gru", (3,) * 5, {"dtype": np.float64}, "not float32"),
        ("lstm", (3,) * 5, {"dtype": np.float16}, "not float32"),
        ("gru", (0,) * 5, {"sequences": 0}, "empty"),
    ],
)  # fmt: skip
def test_what_is_left_to_numpy(cell, sizes, options, reason):
    arrays = layer(cell, **options)
    rows = packed_steps(sizes, False)[-1][0].stop
    arrays[0], arrays[3] = arrays[0][:rows], arrays[3][:rows]
    got, account = there_and_back(K, arrays, cell, sizes)
    assert account[0] == "numpy" and reason in account[1]
    assert bits(got) == bits(there_and_back(NUMPY, arrays, cell, sizes)[0])


def test_an_input_without_matrices_is_numpys():
    arrays = layer("gru", width=6)
    arrays[1] = arrays[1][: 3 * 6 * 8]
    got, account = there_and_back(K, arrays, "gru", (3,) * 5, skip=True)
    assert account == ("numpy", "x without matrices")
    assert bits(got) == bits(there_and_back(NUMPY, arrays, "gru", (3,) * 5, skip=True)[0])


@BOTH
def test_back_from_where_numpy_went(cell):
    x, w, state, dy, dfinal = layer(cell)
    y, _, *kept = NUMPY.recurrence(x, w, state, cell, (3,) * 5, False, False, True)
    args = dy, dfinal, x, w, state, y, *kept, cell, (3,) * 5, False, False, True
    assert bits(K.recurrence_grads(*args)) == bits(NUMPY.recurrence_grads(*args))
    assert K.account() == ("numpy", "NumPy went forward")


@BOTH
def test_cotangents_of_another_dtype(cell):
    arrays = layer(cell)
    arrays[3:] = (a.astype(np.float64) for a in arrays[3:])
    near(there_and_back(K, arrays, cell, (3,) * 5)[0], there_and_back(NUMPY, arrays, cell, (3,) * 5)[0])


# ---------------------------------------------------------------- bits


@BOTH
@pytest.mark.skipif(binding.set_threads is None, reason="this build of oneDNN has threads that can't be set")
def test_pedantic_bits_are_the_same_at_any_number_of_threads(cell):
    arrays, found, before = layer(cell, 16, 32, 96, 128), set(), binding.max_threads()
    with math_mode.use("pedantic"):
        for threads in (1, 2, 3, 1):
            binding.set_threads(threads)
            try:
                found.add(tuple(bits(there_and_back(K, arrays, cell, (32,) * 16)[0])))
            finally:
                binding.set_threads(before)
    assert len(found) == 1


@BOTH
@pytest.mark.skipif(binding.set_threads is None, reason="this build of oneDNN has threads that can't be set")
def test_the_way_back_may_have_another_number_of_threads(cell):
    (x, w, state, dy, dfinal), before = layer(cell, 16, 32, 96, 128), binding.max_threads()
    wanted = there_and_back(NUMPY, (x, w, state, dy, dfinal), cell, (32,) * 16)[0]
    for there, back in ((1, 2), (2, 1)):
        try:
            binding.set_threads(there)
            y, final, *kept = K.recurrence(x, w, state, cell, (32,) * 16, False, False, True)
            binding.set_threads(back)
            near([y, final, *K.recurrence_grads(dy, dfinal, x, w, state, y, *kept, cell, (32,) * 16, False, False, True)], wanted)
        finally:
            binding.set_threads(before)


@BOTH
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_in_any_bias_are_seen_where_numpy_has_them(cell, value):
    x, w, state = layer(cell, hidden=40)[:3]
    for place in range(2 * GATES[cell]):
        changed = w.copy()
        changed[w.size - (place + 1) * 40] = value
        y, wanted = (k.recurrence(x, changed, state, cell, (3,) * 5, False, False, True)[0] for k in (K, NUMPY))
        np.testing.assert_allclose(y, wanted, atol=1e-5, rtol=0, err_msg=f"bias {place} from the end")


# ---------------------------------------------------------------- memory


@BOTH
def test_a_workspace_is_used_again_only_when_nobody_has_it(cell):
    arrays = layer(cell, seed=1)
    wanted, (x, w, state, dy, dfinal) = there_and_back(K, arrays, cell, (3,) * 5)[0], arrays
    y, final, gates, inner = K.recurrence(x, w, state, cell, (3,) * 5, False, False, True)
    view, address = gates[1:], gates.ctypes.data
    others = [K.recurrence(*layer(cell, seed=s)[:3], cell, (3,) * 5, False, False, True)[2] for s in (2, 3, 4)]
    assert not any(np.shares_memory(a, b) for a, b in zip([gates, *others], [*others, gates], strict=True))
    got = [y, final, *K.recurrence_grads(dy, dfinal, x, w, state, y, gates, inner, cell, (3,) * 5, False, False, True)]
    assert bits(got) == bits(wanted)
    del gates
    assert K.recurrence(x, w, state, cell, (3,) * 5, False, False, True)[2].ctypes.data != address, "a view has it still"
    del view
    found = [K.recurrence(x, w, state, cell, (3,) * 5, False, False, True)[2] for _ in range(4)]
    assert address in [a.ctypes.data for a in found], "it was never used again"


@BOTH
def test_what_is_kept_may_be_copied(cell):
    x, w, state, dy, dfinal = arrays = layer(cell)
    y, final, gates, inner = K.recurrence(x, w, state, cell, (3,) * 5, False, False, True)
    moved = np.empty(gates.size + 4, np.uint8)[4:]
    moved[...] = gates
    got = [y, final, *K.recurrence_grads(dy, dfinal, x, w, state, y, moved, inner, cell, (3,) * 5, False, False, True)]
    assert bits(got) == bits(there_and_back(K, arrays, cell, (3,) * 5)[0])


@BOTH
def test_threads_that_run_at_once(cell):
    jobs = [layer(cell, 8, 4, 20, 24, seed) for seed in range(4)]
    wanted, found = [bits(there_and_back(K, job, cell, (4,) * 8)[0]) for job in jobs], {}

    def work(i):
        found[i] = [bits(there_and_back(K, jobs[i], cell, (4,) * 8)[0]) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(found[i] == [wanted[i]] * 20 for i in range(len(jobs)))
