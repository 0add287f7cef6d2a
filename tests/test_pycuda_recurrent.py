"""The pycuda backend's recurrent layers against NumPy's kernels."""

import numpy as np
import pytest

from autotape.backends.kernels import recurrent_parts
from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
SIZES = [(3, 3, 2, 1), (5,), (2, 2, 2), (40, 1), (1, 1), (2, 0), ()]


def layer(cell, sizes, dtype=np.float64, width=3, hidden=4, skip=False, seed=0):
    """x, w, state of a layer whose weights are all different from zero."""
    rng = np.random.default_rng(seed)
    size = max(part.stop for part, _ in recurrent_parts(GATES[cell], width, hidden, skip))
    sequences = sizes[0] if sizes else 2
    shapes = (sum(sizes), width), (size,), (2 if cell == "lstm" else 1, sequences, hidden)
    return [rng.uniform(-0.9, 0.9, shape).astype(dtype) for shape in shapes]


def both_ways(table, x, w, state, cell, sizes, reverse, skip, with_x=True):
    """All that the two kernels of a table give, as NumPy arrays, for cotangents that differ everywhere."""
    x, w, state = map(table.adopt, (x, w, state))
    y, final, *saved = table.recurrence(x, w, state, cell, sizes, reverse, skip, True)
    dy, dfinal = (table.adopt(np.cos(np.arange(a.size).reshape(a.shape)).astype(a.dtype)) for a in map(table.to_numpy, (y, final)))
    grads = table.recurrence_grads(dy, dfinal, x, w, state, y, *saved, cell, sizes, reverse, skip, with_x)
    return dict(zip(("y", "final", "dx", "dw", "dstate"), map(table.to_numpy, (y, final, *grads)), strict=True))


def agree(found, expected, tolerance):
    for name, a in expected.items():
        b = found[name]
        assert (b.dtype, b.shape) == (a.dtype, a.shape), f"{name}: {b.dtype}{b.shape} instead of {a.dtype}{a.shape}"
        np.testing.assert_allclose(b.astype(float), a.astype(float), tolerance, tolerance, err_msg=name)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("cell", GATES)
def test_packed_sequences(k, cell, sizes, reverse):
    args = *layer(cell, sizes), cell, sizes, reverse, False
    agree(both_ways(k, *args), both_ways(N, *args), 1e-12)


@pytest.mark.parametrize("cell", GATES)
def test_without_the_inputs_product(k, cell):
    for reverse in (False, True):
        args = *layer(cell, (3, 2), width=4, skip=True), cell, (3, 2), reverse, True
        agree(both_ways(k, *args), both_ways(N, *args), 1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float16, 4e-3), ("bfloat16", 4e-2), (np.int32, 1e-12)], ids=str)
def test_dtypes(k, dtype, tolerance):
    """The halves to a few of their last places: inside they are float32."""
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    for cell in ("lstm", "gru"):
        args = *layer(cell, (3, 2), dtype), cell, (3, 2), False, False
        found = both_ways(k, *args)
        assert found["y"].dtype == (dtype if dtype != np.int32 else np.float64)
        wide = [a.astype(np.float64 if dtype in (np.float32, np.int32) else np.float32) for a in args[:3]]
        expected = {name: a.astype(found["y"].dtype) for name, a in both_ways(N, *wide, *args[3:]).items()}
        agree(found, expected, tolerance)


@pytest.mark.parametrize("cell", GATES)
def test_nothing_is_kept_unless_asked_for(k, cell):
    x, w, state = layer(cell, (3, 2))
    y, final, gates, inner = k.recurrence(*map(k.adopt, (x, w, state)), cell, (3, 2), False, False, False)
    expected = N.recurrence(x, w, state, cell, (3, 2), False, False, False)
    agree({"y": k.to_numpy(y), "final": k.to_numpy(final)}, {"y": expected[0], "final": expected[1]}, 1e-12)
    assert gates.size == inner.size == 0


@pytest.mark.parametrize("cell", GATES)
def test_cotangents_wider_than_the_way_forward(k, cell):
    x, w, state = layer(cell, (3, 2), np.float32)
    results = []
    for table in (k, N):
        arrays = [table.adopt(a) for a in (x, w, state)]
        y, final, *kept = table.recurrence(*arrays, cell, (3, 2), False, False, True)
        dy, dfinal = (table.adopt(np.ones(a.shape)) for a in (y, final))
        grads = table.recurrence_grads(dy, dfinal, *arrays, y, *kept, cell, (3, 2), False, False, True)
        results.append({str(i): table.to_numpy(g) for i, g in enumerate(grads)})
    agree(*results, 1e-5)


@pytest.mark.parametrize("wrong", ["x", "w", "state"])
def test_shapes_that_do_not_fit_are_named(k, wrong):
    x, w, state = layer("lstm", (3, 2))
    given = {"x": x[:-1], "w": w[:-1], "state": state[:1]}[wrong]
    with pytest.raises(ValueError, match=f"recurrence: {wrong} has shape"):
        k.recurrence(*(k.adopt(given if name == wrong else a) for name, a in (("x", x), ("w", w), ("state", state))), "lstm", (3, 2), False,
                     False, False)  # fmt: skip


def test_without_the_inputs_gradient(k):
    args = *layer("gru", (3, 2)), "gru", (3, 2), False, False
    found, whole = both_ways(k, *args, with_x=False), both_ways(k, *args)
    assert found.pop("dx").size == 0
    for name, a in found.items():
        np.testing.assert_array_equal(a, whole[name])


def test_arrays_of_any_strides_are_not_changed(k):
    x, w, state = layer("lstm", (3, 2))
    args = "lstm", (3, 2), False, False
    first, *others = (k.adopt(a) for a in (np.ascontiguousarray(x.T), w, state))
    y, final, *_ = k.recurrence(k.transpose(first, None), *others, *args, False)
    expected = N.recurrence(x, w, state, *args, False)
    agree({"y": k.to_numpy(y), "final": k.to_numpy(final)}, {"y": expected[0], "final": expected[1]}, 1e-12)
    for a, b in zip((x.T, w, state), (first, *others), strict=True):
        np.testing.assert_array_equal(k.to_numpy(b), a)


def test_relu_keeps_nan(k):
    x, w, state = layer("relu", (2,))
    x[0, 0] = np.nan
    y = k.to_numpy(k.recurrence(*map(k.adopt, (x, w, state)), "relu", (2,), False, False, False)[0])
    np.testing.assert_array_equal(np.isnan(y), np.isnan(N.recurrence(x, w, state, "relu", (2,), False, False, False)[0]))
    assert np.isnan(y).any()


def test_the_same_bits_each_time(k):
    args = *layer("lstm", (33, 20, 1), np.float32, 7, 10), "lstm", (33, 20, 1), False, False
    first, second = both_ways(k, *args), both_ways(k, *args)
    for name, a in first.items():
        np.testing.assert_array_equal(a, second[name], err_msg=name)
