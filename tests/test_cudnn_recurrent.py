"""Recurrent layers by cuDNN, told by the test double of it: results, what cuDNN is asked, what is left to the raw kernels, and why."""

import gc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotape import math_mode
from autotape.backends.kernels import recurrent_parts
from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
CELLS = ["tanh", "lstm", "gru"]
RESULTS = ("y", "final", "dx", "dw", "dstate")
FORWARD, DATA, WEIGHTS = "cudnnRNNForward", "cudnnRNNBackwardData_v8", "cudnnRNNBackwardWeights_v8"
CALLS = (FORWARD, DATA, WEIGHTS)
BY_CUDNN = ("cudnn, standard", "")
sequences = st.lists(st.integers(1, 6), min_size=1, max_size=5).map(lambda sizes: tuple(sorted(sizes, reverse=True)))


def layer(cell, sizes, dtype="f8", width=3, hidden=4, skip=False, seed=0):
    """x, w and state of a layer, and cotangents of y and of the last state."""
    rng = np.random.default_rng(seed)
    weights = recurrent_parts(GATES[cell], width, hidden, skip)[-1][0].stop
    state, rows = (2 if cell == "lstm" else 1, sizes[0] if sizes else 2, hidden), sum(sizes)
    return [rng.uniform(-0.9, 0.9, shape).astype(dtype) for shape in ((rows, width), weights, state, (rows, hidden), state)]


def there(k, arrays, *options, keep=True):
    return k.recurrence(*arrays[:3], *options, keep)


def back(k, arrays, y, kept, *options, with_x=True):
    x, w, state, dy, dfinal = arrays
    return k.recurrence_grads(dy, dfinal, x, w, state, y, *kept, *options, with_x)


def both_ways(k, arrays, *options, accounts=None):
    """The results of both kernels, as NumPy's arrays; what they ran on is added to accounts."""
    arrays, accounts = [k.adopt(a) for a in arrays], [] if accounts is None else accounts
    y, final, *kept = there(k, arrays, *options)
    accounts.append(k.account())
    grads = back(k, arrays, y, kept, *options)
    accounts.append(k.account())
    return [k.to_numpy(a) for a in (y, final, *grads)]


def near(found, expected, tolerance):
    for name, a, b in zip(RESULTS, found, expected, strict=False):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{name}: {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        np.testing.assert_allclose(a.astype(float), b.astype(float), tolerance, tolerance, err_msg=name)


def bits(arrays):
    return [np.asarray(a).tobytes() for a in arrays]


# -- results


@settings(max_examples=settings().max_examples // 2)
@given(st.sampled_from(CELLS), sequences, st.integers(1, 5), st.integers(1, 5), st.booleans(), st.booleans(), st.sampled_from(["f4", "f8"]))
def test_values_and_gradients_are_numpys(cudnn, cell, sizes, width, hidden, reverse, skip, dtype):
    arrays, options, accounts = layer(cell, sizes, dtype, hidden if skip else width, hidden, skip), (cell, sizes, reverse, skip), []
    found = both_ways(cudnn, arrays, *options, accounts=accounts)
    near(found, both_ways(N, arrays, *options), 1e-12 if dtype == "f8" else 1e-5)
    assert accounts == [BY_CUDNN] * 2


@pytest.mark.parametrize("mode", ["pedantic", "default", "fast"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("f2", 4e-3), (BFLOAT16, 4e-2)], ids=str)
@pytest.mark.parametrize("cell", CELLS)
def test_halves_are_as_near_as_they_can_be(cudnn, cell, dtype, tolerance, mode):
    options = cell, (3, 2, 2), True, False
    arrays = layer(cell, (3, 2, 2), dtype)
    with math_mode.use(mode):
        found = both_ways(cudnn, arrays, *options)
    near(found, [a.astype(dtype) for a in both_ways(N, [a.astype("f8") for a in arrays], *options)], tolerance)


@pytest.mark.parametrize(("x", "others"), [("i4", "i4"), ("i4", "f4"), ("f4", "f8"), ("f2", "f4")])
def test_integers_and_mixed_dtypes_are_as_numpys(cudnn, x, others):
    arrays = layer("gru", (3, 2), others)
    arrays[0] = (3 * arrays[0]).astype(x)
    options = "gru", (3, 2), False, False
    near(both_ways(cudnn, arrays, *options), both_ways(N, arrays, *options), 1e-5)


def test_cotangents_of_a_wider_dtype(cudnn):
    arrays, options = layer("lstm", (3, 2), "f4"), ("lstm", (3, 2), False, False)
    y, _, *kept = there(cudnn, [cudnn.adopt(a) for a in arrays], *options)
    arrays[3:] = (a.astype("f8") for a in arrays[3:])
    grads = back(cudnn, [cudnn.adopt(a) for a in arrays], y, kept, *options)
    expected = both_ways(N, [a.astype("f8") for a in arrays], *options)[2:]
    near([cudnn.to_numpy(a) for a in grads], expected, 1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_pullback_may_be_called_twice(cudnn, reverse):
    k, options = cudnn, ("lstm", (3, 3, 1), reverse, False)
    arrays = [k.adopt(a) for a in layer("lstm", (3, 3, 1))]
    y, _, *kept = there(k, arrays, *options)
    before = bits((*arrays, y, *kept))
    first, second = (bits(back(k, arrays, y, kept, *options)) for _ in range(2))
    assert first == second
    assert bits((*arrays, y, *kept)) == before, "an argument was changed"


@pytest.mark.parametrize("cell", CELLS)
def test_nothing_is_kept_unless_asked_for(cudnn, double, cell):
    k, arrays = cudnn, layer(cell, (3, 2))
    double.calls()
    y, final, *kept = there(k, [k.adopt(a) for a in arrays], cell, (3, 2), False, False, keep=False)
    near([k.to_numpy(y), k.to_numpy(final)], there(N, arrays, cell, (3, 2), False, False)[:2], 1e-12)
    assert [a.size for a in kept] == [0, 0]
    (call,) = double.calls(FORWARD)
    assert (call["fwdMode"], call["reserveSpaceSize"]) == (0, 0)


def test_without_the_inputs_gradient(cudnn):
    k, options = cudnn, ("gru", (3, 2), False, False)
    arrays = [k.adopt(a) for a in layer("gru", (3, 2))]
    y, _, *kept = there(k, arrays, *options)
    dx, *others = back(k, arrays, y, kept, *options, with_x=False)
    assert dx.size == 0
    assert bits(others) == bits(back(k, arrays, y, kept, *options)[1:])


def test_arrays_of_any_strides_and_parts_that_are_not_aligned(cudnn, double):
    """The weights of a network's later layers begin at any element, and so do the rows of the cell's state."""
    from autotape.backends.pycuda_backend.array import view

    k, arrays, options = cudnn, layer("lstm", (3, 2), "f4", hidden=5), ("lstm", (3, 2), True, False)
    x, w, state, dy, dfinal = arrays
    whole = k.adopt(np.concatenate([np.ones(1, "f4"), w]))
    on_device = [
        k.transpose(k.adopt(np.ascontiguousarray(x.T)), None), view(whole, w.shape, (4,), 4),
        k.getitem(k.adopt(np.repeat(state, 2, -1)), (..., slice(None, None, 2))),
        k.getitem(k.adopt(dy[::-1].copy()), slice(None, None, -1)), k.transpose(k.adopt(np.ascontiguousarray(dfinal.T)), None),
    ]  # fmt: skip
    y, final, *kept = there(k, on_device, *options)
    kept[0] = k.getitem(k.adopt(np.repeat(k.to_numpy(kept[0]), 2)), slice(None, None, 2))
    found = [k.to_numpy(a) for a in (y, final, *back(k, on_device, y, kept, *options))]
    near(found, both_ways(N, arrays, *options), 1e-5)
    again = there(k, [*on_device[:2], final], *options)[:2]
    near([k.to_numpy(a) for a in again], there(N, [x, w, k.to_numpy(final)], *options)[:2], 1e-5)
    addresses = ("x", "dx", "y", "dy", "hx", "hy", "dhx", "dhy", "cx", "cy", "dcx", "dcy", "weightSpace", "dweightSpace", "reserveSpace")
    assert {call[a] % 16 for call in double.calls(*CALLS) for a in addresses if a in call} == {0}


@pytest.mark.parametrize("cell", CELLS)
def test_nan_is_kept(cudnn, cell):
    x, w, state, *_ = layer(cell, (3, 2))
    x[0, 0] = np.nan
    y = cudnn.to_numpy(there(cudnn, [cudnn.adopt(a) for a in (x, w, state)], cell, (3, 2), False, False)[0])
    np.testing.assert_array_equal(np.isnan(y), np.isnan(there(N, [x, w, state], cell, (3, 2), False, False)[0]))
    assert np.isnan(y).any()


@given(sequences)
def test_rows_change_places_within_their_sequences_and_twice_is_back(cudnn, sizes):
    from autotape.backends.cudnn_backend.recurrent import _other_ends

    other = np.asarray(_other_ends(sizes))
    np.testing.assert_array_equal(other[other], np.arange(sum(sizes)))
    starts = np.cumsum([0, *sizes[:-1]])
    for b in range(sizes[0]):
        rows = [start + b for start, n in zip(starts, sizes, strict=True) if b < n]
        assert other[rows].tolist() == rows[::-1]


# -- what cuDNN is asked


def living(double):
    """The descriptors that are left when no plan is."""
    from autotape.backends.cudnn_backend import recurrent

    recurrent._plan.cache_clear()
    recurrent._layer.cache_clear()
    gc.collect()
    return double.living()


@pytest.mark.parametrize(("cell", "number"), [("tanh", 1), ("lstm", 2), ("gru", 3)])
@pytest.mark.parametrize("skip", [False, True])
def test_what_cudnn_is_told_of_a_layer(cudnn, double, cell, number, skip):
    width = 4 if skip else 3
    double.calls()
    both_ways(cudnn, layer(cell, (3, 2, 2), "f4", width, skip=skip), cell, (3, 2, 2), False, skip)
    calls = double.calls(*CALLS)
    assert [c["name"] for c in calls] == list(CALLS)
    for call in calls:
        rnn, x, y = call["rnnDesc"], call["xDesc"], call["yDesc"]
        assert (rnn.algorithm, rnn.cell, rnn.bias, rnn.direction, rnn.input, rnn.flags) == (0, number, 2, 0, int(skip), 0)
        assert (rnn.dtype, rnn.compute, rnn.math) == (np.float32, np.float32, 3)
        assert (rnn.input_size, rnn.hidden, rnn.projected, rnn.layers) == (width, 4, 4, 1)
        assert (x.layout, x.lengths, x.vector, y.layout, y.lengths, y.vector) == (1, (3, 3, 1), width, 1, (3, 3, 1), 4)
        assert call["hDesc"].shape == (1, 3, 4)
    assert (calls[0]["fwdMode"], calls[2]["addGrad"]) == (1, 0)
    assert [call["cDesc"] is not None for call in calls[:2]] == [cell == "lstm"] * 2


# cuDNN's numbers: FLOAT 0, DOUBLE 1, HALF 2; DEFAULT 0, TENSOR_OP 1, FMA 3
@pytest.mark.parametrize(("mode", "dtype", "told"), [
    ("pedantic", "f4", ("f4", "f4", 3)), ("default", "f4", ("f4", "f4", 3)), ("fast", "f4", ("f4", "f4", 0)),
    ("pedantic", "f8", ("f8", "f8", 3)), ("default", "f8", ("f8", "f8", 3)), ("fast", "f8", ("f8", "f8", 3)),
    ("pedantic", "f2", ("f4", "f4", 3)), ("default", "f2", ("f4", "f4", 3)), ("fast", "f2", ("f2", "f4", 1)),
    ("pedantic", BFLOAT16, ("f4", "f4", 3)), ("default", BFLOAT16, ("f4", "f4", 3)), ("fast", BFLOAT16, (BFLOAT16, "f4", 1)),
])  # fmt: skip
def test_dtypes_and_mathematics(cudnn, double, mode, dtype, told):
    double.calls()
    with math_mode.use(mode):
        both_ways(cudnn, layer("lstm", (2, 1), dtype), "lstm", (2, 1), False, False)
    for call in double.calls(*CALLS):
        rnn = call["rnnDesc"]
        assert (rnn.dtype, rnn.compute, rnn.math) == told


@pytest.mark.parametrize(("there_in", "back_in"), [("fast", "pedantic"), ("default", "fast")])
@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_the_way_back_is_the_one_that_went_forward(cudnn, double, there_in, back_in, dtype):
    arrays, options = [cudnn.adopt(a) for a in layer("gru", (3, 2), dtype)], ("gru", (3, 2), False, False)
    double.calls()
    with math_mode.use(there_in):
        y, _, *kept = there(cudnn, arrays, *options)
    with math_mode.use(back_in):
        back(cudnn, arrays, y, kept, *options)
    assert len({call["rnnDesc"] for call in double.calls(*CALLS)}) == 1


def test_it_works_on_the_thread_s_stream(cudnn, double):
    import pycuda.driver as cuda

    k, arrays, options, stream = cudnn, layer("lstm", (3, 2, 1)), ("lstm", (3, 2, 1), True, False), cuda.Stream()
    double.calls()
    with k.on_stream(stream):
        found = both_ways(k, arrays, *options)
    near(found, both_ways(N, arrays, *options), 1e-12)
    near(both_ways(k, arrays, *options), found, 0)
    assert [call["handle"] for call in double.calls(*CALLS)] == [stream.handle] * 3 + [0] * 3


def test_descriptors_go_with_the_plans(cudnn, double):
    before = living(double)
    for sizes in [(3, 2), (3, 3), (2, 0), ()]:
        for cell in GATES:
            both_ways(cudnn, layer(cell, sizes), cell, sizes, False, False)
    assert double.living() != before
    assert living(double) == before


# -- what is left to the raw kernels


def left(k, why, cell="lstm", sizes=(3, 2)):
    """Both kernels give the raw ones' results, and the first says why."""
    arrays, accounts = layer(cell, sizes), []
    near(both_ways(k, arrays, cell, sizes, False, False, accounts=accounts), both_ways(N, arrays, cell, sizes, False, False), 1e-12)
    assert not any(algorithm.startswith("cudnn") for algorithm, _ in accounts)
    assert why in accounts[0][1], accounts
    assert accounts[1][1] == "the raw kernel went forward"


def test_a_cell_whose_nan_is_not_promised(cudnn):
    left(cudnn, "relu, where cuDNN does not promise to keep NaN", "relu")


@pytest.mark.parametrize("cell", CELLS)
def test_nothing_to_compute(cudnn, cell):
    left(cudnn, "empty", cell, ())


def test_pedantic_mode_where_cudnn_may_give_other_bits(cudnn, monkeypatch):
    from autotape.backends.cudnn_backend import binding

    monkeypatch.setattr(binding, "cudnnGetVersion", lambda: 8907)
    with math_mode.use("pedantic"):
        left(cudnn, "cuDNN 8 does not promise the same bits each time")
    accounts = []
    both_ways(cudnn, layer("lstm", (3, 2)), "lstm", (3, 2), False, False, accounts=accounts)
    assert accounts == [BY_CUDNN] * 2


@pytest.mark.parametrize("change", ["size", "place", "shape"])
def test_weights_that_lie_elsewhere(cudnn, double, monkeypatch, change):
    from autotape.backends.cudnn_backend import binding

    size, places, shape = binding.cudnnGetRNNWeightSpaceSize, binding.cudnnGetRNNWeightParams, binding.cudnnGetTensorNdDescriptor
    changed = {
        "size": ("cudnnGetRNNWeightSpaceSize", lambda *args: size(*args) + 256),
        "place": ("cudnnGetRNNWeightParams", lambda *args: places(*args)[::-1]),
        "shape": ("cudnnGetTensorNdDescriptor", lambda *args: (0, 3, (1, *shape(*args)[2][2:0:-1]), ())),
    }[change]
    before = living(double)
    with monkeypatch.context() as patch:
        patch.setattr(binding, *changed)
        left(cudnn, "weights that lie elsewhere than ours")
    assert double.living() == before


@pytest.mark.parametrize(("name", "status"), [
    ("cudnnSetRNNDescriptor_v8", "BAD_PARAM"), ("cudnnSetRNNDescriptor_v8", "NOT_SUPPORTED"), ("cudnnSetRNNDataDescriptor", "BAD_PARAM"),
    ("cudnnSetDropoutDescriptor", "NOT_SUPPORTED"), ("cudnnGetRNNTempSpaceSizes", "NOT_SUPPORTED"), (FORWARD, "NOT_SUPPORTED"),
])  # fmt: skip
def test_what_cudnn_refuses(cudnn, double, name, status):
    before = living(double)
    double.fail(name, status)
    left(cudnn, f"{name}: told to fail")
    assert living(double) == before


@pytest.mark.parametrize("name", [DATA, WEIGHTS])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_way_back_that_cudnn_refuses(cudnn, double, name, reverse):
    """The raw kernel goes forward again, for what its way back needs."""
    arrays, accounts = layer("gru", (3, 2)), []
    double.fail(name, "NOT_SUPPORTED")
    found = both_ways(cudnn, arrays, "gru", (3, 2), reverse, False, accounts=accounts)
    near(found, both_ways(N, arrays, "gru", (3, 2), reverse, False), 1e-12)
    assert accounts[0] == BY_CUDNN
    assert not accounts[1][0].startswith("cudnn") and "told to fail" in accounts[1][1]


@pytest.mark.parametrize("name", CALLS)
def test_what_an_error_means(cudnn, double, name):
    from autotape.backends.pycuda_backend.driver import DeviceError

    kernel = "recurrence" if name == FORWARD else "recurrence_grads"
    double.fail(name, "EXECUTION_FAILED")
    with pytest.raises(DeviceError, match=f"{kernel} by cuDNN: cudnnExecutionFailed: .*told to fail"):
        both_ways(cudnn, layer("lstm", (3, 2)), "lstm", (3, 2), False, False)
