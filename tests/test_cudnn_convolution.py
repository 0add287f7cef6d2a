"""Convolution by cuDNN, told by the test double of it: results, what cuDNN is asked, how its algorithms are chosen, what is left."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from images import LAYOUTS, integers, on_device, same

from autotape import backend, math_mode
from autotape.backends.kernels import Geometry
from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("float16", "float32", "float64")] + [BFLOAT16]
ACTIVATIONS = ["identity", "relu", "sigm", "tanh", "elu", "selu"]
MODES = ["pedantic", "default", "fast"]
seeds = st.integers(0, 2**32 - 1)


def plain(*window, padding=0, stride=1, dilation=1, group=1, flip=False):
    """The same on all axes."""
    n = len(window)
    return Geometry(window, ((padding, padding),) * n, (stride,) * n, (dilation,) * n, group, flip)


@st.composite
def problems(draw):
    """A geometry whose padding may differ before and after, and the spatial shape of x."""
    axes = draw(st.integers(1, 3))

    def each(values):
        return tuple(draw(values) for _ in range(axes))

    sides = st.integers(0, 2)
    geometry = Geometry(
        window=each(st.integers(1, 3)),
        padding=each(st.sampled_from([(0, 0), (1, 1), (2, 2), (0, 1)])) if draw(st.booleans()) else ((draw(sides),) * 2,) * axes,
        stride=each(st.integers(1, 3)),
        dilation=each(st.sampled_from([1, 1, 2])),
        group=draw(st.integers(1, 3)),
        flip=draw(st.booleans()),
    )
    spatial = each(st.integers(0, 7))
    assume(min(geometry.output(spatial)) >= 0)
    return geometry, spatial


def problem(seed, geometry=None, spatial=(7, 6), n=2, c=3, o=4, dtype="float32"):
    g = geometry or plain(3, 3, padding=1)
    rng = np.random.default_rng(seed)
    w, x = integers(rng, (o * g.group, c, *g.window), dtype), integers(rng, (n, c * g.group, *spatial), dtype)
    return w, x, integers(rng, (n, o * g.group, *g.output(spatial)), dtype), g


@pytest.fixture
def k(cudnn, double):
    """The table, which has chosen no algorithm yet."""
    from autotape.backends.cudnn_backend import convolution

    convolution._plan.cache_clear()
    yield cudnn
    convolution._plan.cache_clear()


# -- results


@settings(max_examples=max(1, 2 * settings().max_examples))
@given(
    problems(),
    st.sampled_from([(n, c, o) for n in (1, 3) for c in (1, 2, 5) for o in (1, 4)] + [(0, 1, 1), (2, 0, 1), (2, 1, 0)]),
    st.sampled_from(["float32", "float32", "float64", "float16", "int32"]),
    st.sampled_from([1.0, -0.5]),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    st.sampled_from(MODES),
    seeds,
)
def test_convolution_and_its_transposes(cudnn, problem, sizes, dtype, alpha, x_layout, w_layout, mode, seed):
    (g, spatial), (n, c, o), k = problem, sizes, cudnn
    rng = np.random.default_rng(seed)
    w = integers(rng, (o * g.group, c, *g.window), dtype, w_layout)
    x = integers(rng, (n, c * g.group, *spatial), dtype, x_layout)
    y = N.conv(w, x, g, alpha)
    dy = integers(rng, y.shape, dtype, x_layout)
    w_, x_, dy_ = on_device(k, w, w_layout), on_device(k, x, x_layout), on_device(k, dy, x_layout)
    with math_mode.use(mode):
        same(k.conv(w_, x_, g, alpha), y)
        same(k.conv_x(w_, dy_, x.shape, g, alpha), N.conv_x(w, dy, x.shape, g, alpha))
        same(k.conv_w(x_, dy_, w.shape, g, alpha), N.conv_w(x, dy, w.shape, g, alpha))


def test_bfloat16(cudnn):
    w, x, dy, g = problem(0)
    w_, x_, dy_ = (cudnn.adopt(a.astype(BFLOAT16)) for a in (w, x, dy))
    same(cudnn.conv(w_, x_, g, 1.0), N.conv(w, x, g, 1.0).astype(BFLOAT16))
    same(cudnn.conv_x(w_, dy_, x.shape, g, 1.0), N.conv_x(w, dy, x.shape, g, 1.0).astype(BFLOAT16))
    same(cudnn.conv_w(x_, dy_, w.shape, g, 1.0), N.conv_w(x, dy, w.shape, g, 1.0).astype(BFLOAT16))


@pytest.mark.parametrize("layout", ["plain", "channels last"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("has_bias", "beta"), [(False, None), (True, None), (False, 1.0), (True, -0.5)])
@pytest.mark.parametrize("mode", MODES)
def test_bias_residual_and_activation(cudnn, layout, activation, has_bias, beta, mode):
    k, (w, x, dy, g) = cudnn, problem(1)
    b = np.arange(-1, 3, dtype="f4").reshape(1, 4, 1, 1) if has_bias else None
    z = None if beta is None else dy
    expected = N.conv_bias_act(w, x, b, z, activation, g, 0.25, beta or 1.0)
    arrays = [None if a is None else on_device(k, a, layout) for a in (x, z)]
    with math_mode.use(mode):
        y = k.conv_bias_act(k.adopt(w), arrays[0], None if b is None else k.adopt(b), arrays[1], activation, g, 0.25, beta or 1.0)
    np.testing.assert_allclose(np.asarray(y), expected, 1e-6, 1e-6)


def test_results_lie_as_images_do(cudnn):
    from autotape.backends.cudnn_backend.descriptors import is_last

    k, (w, x, dy, g) = cudnn, problem(2)
    w_ = k.adopt(w)
    for layout, expected in (("plain", False), ("channels last", True)):
        x_, dy_ = on_device(k, x, layout), on_device(k, dy, layout)
        made = [k.conv(w_, x_, g, 1.0), k.conv_x(w_, dy_, x.shape, g, 1.0), k.conv_bias_act(w_, x_, None, dy_, "relu", g, 1.0, 1.0)]
        assert [is_last(y) for y in made] == [expected] * 3


@pytest.mark.parametrize("activation", ["identity", "relu"])
@pytest.mark.parametrize("has_relu", [True, False])
def test_nan_is_kept(k, double, activation, has_relu):
    double.algorithms.fused_relu_keeps_nan = has_relu
    w, x, _, g = problem(3)
    x[0, 0, 2, 2] = np.nan
    y = np.asarray(k.conv_bias_act(k.adopt(w), k.adopt(x), None, None, activation, g, 1.0, 1.0))
    np.testing.assert_array_equal(np.isnan(y), np.isnan(N.conv_bias_act(w, x, None, None, activation, g, 1.0, 1.0)))


# -- what cuDNN is asked


RUNS = [f"cudnnConvolution{name}" for name in ("Forward", "BackwardData", "BackwardFilter", "BiasActivationForward")]
FMA, TENSOR_OP, DEFAULT = 3, 1, 0


def passes(k, seed=0, dtype="float32", **kind):
    """All three passes of a problem, computed."""
    w, x, dy, g = problem(seed, **kind)
    w_, x_, dy_ = (k.adopt(a.astype(dtype)) for a in (w, x, dy))
    return [k.conv(w_, x_, g, 1.0), k.conv_x(w_, dy_, x.shape, g, 1.0), k.conv_w(x_, dy_, w.shape, g, 1.0)]


@pytest.mark.parametrize(
    ("dtype", "maths"),
    [
        ("float32", {"pedantic": FMA, "default": FMA, "fast": DEFAULT}),
        ("float64", {"pedantic": FMA, "default": FMA, "fast": FMA}),
        ("float16", {"pedantic": FMA, "default": TENSOR_OP, "fast": TENSOR_OP}),
        (BFLOAT16, {"pedantic": FMA, "default": TENSOR_OP, "fast": TENSOR_OP}),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_the_mathematics_of_each_mode(k, double, dtype, maths, mode):
    double.algorithms.only = {1}
    with math_mode.use(mode):
        passes(k, dtype=dtype)
    sums = "float64" if dtype == "float64" else "float32"
    assert {(c["convDesc"].math, c["convDesc"].compute) for c in double.calls(*RUNS)} == {(maths[mode], np.dtype(sums))}


@pytest.mark.parametrize(("dtype", "mode", "words"), [
    ("float32", "default", ""), ("float32", "fast", ", TF32"), ("float16", "default", ", tensor cores"), ("float16", "pedantic", ""),
    ("float64", "fast", ""),
])  # fmt: skip
def test_profiles_are_told_the_mathematics(k, double, dtype, mode, words):
    double.algorithms.only = {1}
    with math_mode.use(mode):
        passes(k, dtype=dtype)
    assert k.account() == (f"cudnn, algorithm 1{words}", "")


@pytest.mark.parametrize("flip", [False, True])
def test_windows_and_groups_are_described(k, double, flip):
    passes(k, geometry=plain(3, 2, padding=1, stride=2, dilation=2, group=3, flip=flip), spatial=(9, 8))
    for call in double.calls(*RUNS):
        described = call["convDesc"]
        assert (described.padding, described.stride, described.dilation, described.group) == ((1, 1), (2, 2), (2, 2), 3)
        assert described.is_correlation is not flip


def test_one_axis_is_two_of_which_the_first_is_1(k, double):
    passes(k, geometry=plain(3, padding=1, stride=2), spatial=(9,))
    for call in double.calls(*RUNS):
        assert (call["convDesc"].padding, call["convDesc"].stride) == ((0, 1), (1, 2))
        assert call["wDesc" if "wDesc" in call else "dwDesc"].shape == (4, 3, 1, 3)


@pytest.mark.parametrize(("layout", "last"), [("plain", False), ("channels last", True)])
def test_layouts_are_described_not_copied(k, double, layout, last):
    w, x, _, g = problem(0)
    x_ = on_device(k, x, layout)
    k.conv(k.adopt(w), x_, g, 1.0)
    (call,) = double.calls("cudnnConvolutionForward")
    assert (call["wDesc"].last, call["x"], call["xDesc"].strides) == (last, x_.address, tuple(s // 4 for s in x_.strides))


RELU, IDENTITY = 1, 5


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("mode", ["default", "fast"])
@pytest.mark.parametrize("has_relu", [True, False])
def test_bias_residual_and_activation_are_one_call(k, double, activation, mode, has_relu):
    """cuDNN may lack a relu that keeps NaN; the one that does not is for fast mode only."""
    double.algorithms.fused_relu_keeps_nan = has_relu
    w, x, dy, g = problem(1)
    with math_mode.use(mode):
        for _ in range(2):
            k.conv_bias_act(*map(k.adopt, (w, x, np.ones((4, 1, 1), "f4"), dy)), activation, g, 1.0, 1.0)
    call = double.calls(*RUNS)[-1]
    native = RELU if activation == "relu" and (has_relu or mode == "fast") else IDENTITY
    assert (call["name"], call["activationDesc"].mode) == (RUNS[3], native)
    assert call["activationDesc"].keeps_nan is (native == RELU and has_relu)
    assert call["z"] != call["y"] and call["biasDesc"].shape == (1, 4, 1, 1)
    assert native == RELU or call["algo"] == 1  # no other one has identity


def test_without_bias_zeros_are_added_that_are_made_once(k, double):
    w, x, _, g = problem(1)
    for _ in range(2):
        k.conv_bias_act(k.adopt(w), k.adopt(x), None, None, "identity", g, 1.0, 1.0)
    first, second = double.calls(RUNS[3])
    assert first["bias"] == second["bias"] and first["z"] == first["y"]


def test_another_stream_waits_for_no_zeros_and_keeps_none(k, double):
    import pycuda.driver as cuda

    w, x, _, g = problem(1)
    k.conv_bias_act(k.adopt(w), k.adopt(x), None, None, "identity", g, 1.0, 1.0)
    kept = k.memory.statistics()["in_use"]
    for _ in range(3):
        with k.on_stream(cuda.Stream()):
            k.conv_bias_act(k.adopt(w), k.adopt(x), None, None, "identity", g, 1.0, 1.0)
    assert len({c["bias"] for c in double.calls(RUNS[3])}) > 1
    assert k.memory.statistics()["in_use"] == kept


def test_pedantic_mode_has_the_bits_of_the_operators(k, double):
    w, x, dy, g = (a.astype("f4") * np.float32(0.37) if isinstance(a, np.ndarray) else a for a in problem(1))
    b = np.float32(0.1) * np.arange(4, dtype="f4").reshape(4, 1, 1)
    w, x, dy, b = map(k.adopt, (w, x, dy, b))
    with math_mode.use("pedantic"):
        fused = k.conv_bias_act(w, x, b, dy, "sigm", g, 1.0, 1.0)
        apart = k.sigmoid(k.add(k.add(k.conv(w, x, g, 1.0), dy), b))
    np.testing.assert_array_equal(np.asarray(fused), np.asarray(apart))
    assert {c["name"] for c in double.calls(*RUNS)} == {"cudnnConvolutionForward"}


# -- algorithms


def test_the_heuristic_chooses_once_for_each_signature(k, double):
    for seed in (0, 1):
        passes(k, seed)
    names = [c["name"] for c in double.calls()]
    assert sum("Algorithm_v7" in n for n in names) == 3 and not any("Find" in n for n in names)
    assert k.account() == ("cudnn, winograd nonfused", "")


def test_the_fast_mode_times_them_once_and_leaves_the_operands_alone(k, double):
    w, x, _, g = problem(0)
    w_, x_ = k.adopt(w), k.adopt(x)
    with math_mode.use("fast"):
        for _ in range(2):
            same(k.conv(w_, x_, g, 1.0), N.conv(w, x, g, 1.0))
    searches = double.calls("cudnnFindConvolutionForwardAlgorithmEx")
    assert len(searches) == 1
    same(x_, x)


def test_pedantic_mode_takes_what_is_deterministic(k, double):
    double.algorithms.only = {0, 3}
    with math_mode.use("pedantic"):
        w, x, dy, g = problem(0)
        k.conv_w(k.adopt(x), k.adopt(dy), w.shape, g, 1.0)
        assert k.account()[1] == "no algorithm of cuDNN"
    assert double.calls("cudnnConvolutionBackwardFilter") == []
    k.conv_w(k.adopt(x), k.adopt(dy), w.shape, g, 1.0)
    assert [c["algo"] for c in double.calls("cudnnConvolutionBackwardFilter")] == [3]


def test_the_limit_of_workspace(k, double, monkeypatch):
    double.algorithms.only = {1, 2}
    w, x, _, g = problem(0, geometry=plain(5, 5, padding=2))
    k.conv(k.adopt(w), k.adopt(x), g, 1.0)
    monkeypatch.setattr(k, "workspace_limit", 0)
    k.conv(k.adopt(w), k.adopt(x), g, 1.0)
    assert [c["algo"] for c in double.calls(RUNS[0])] == [1]
    assert k.account()[1] == "no algorithm of cuDNN"


def test_short_of_memory_it_takes_an_algorithm_that_needs_less(k, double):
    w, x, _, g = problem(0, geometry=plain(5, 5, padding=2))
    w_, x_ = k.adopt(w), k.adopt(x)
    double.algorithms.only, double.algorithms.workspace = {0, 1}, 1e5
    k.memory.limit = 2**20
    try:
        same(k.conv(w_, x_, g, 1.0), N.conv(w, x, g, 1.0))
    finally:
        k.memory.limit = None
    assert [c["algo"] for c in double.calls(RUNS[0])] == [0]


def test_out_of_memory_is_said(k, double):
    from autotape.backends.pycuda_backend.driver import OutOfMemory

    w, x, _, g = problem(0, geometry=plain(5, 5, padding=2))
    w_, x_ = k.adopt(w), k.adopt(x)
    double.algorithms.only, double.algorithms.workspace = {1}, 1e5
    k.memory.limit = 2**20
    try:
        with pytest.raises(OutOfMemory, match="the limit of 1 MiB of device memory is reached"):
            k.conv(w_, x_, g, 1.0)
    finally:
        k.memory.limit = None
    same(k.conv(w_, x_, g, 1.0), N.conv(w, x, g, 1.0))  # with memory it works


@pytest.mark.parametrize("mode", MODES)
def test_what_cudnn_refuses_at_the_call_goes_to_the_next_algorithm(k, double, mode):
    double.fail("cudnnConvolutionForward", "NOT_SUPPORTED")
    w, x, _, g = problem(0)
    with math_mode.use(mode):
        same(k.conv(k.adopt(w), k.adopt(x), g, 1.0), N.conv(w, x, g, 1.0))
        assert k.account()[1] == ""
    assert len(double.calls(RUNS[0])) == 1  # the first is refused before it is noted


@pytest.mark.parametrize("failure", ["limit", "cuDNN's"])
def test_what_there_is_no_memory_for_now_is_taken_again_later(k, double, failure):
    w, x, _, g = problem(0, geometry=plain(5, 5, padding=2))
    w_, x_ = k.adopt(w), k.adopt(x)
    double.algorithms.only, double.algorithms.workspace = {0, 1}, 1e3
    seen = []
    for is_short in (False, True, False):
        if is_short and failure == "limit":
            k.memory.release()
            k.memory.limit = k.memory.statistics()["in_use"] + 2**14
        elif is_short:
            double.fail(RUNS[0], "INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED")
        try:
            same(k.conv(w_, x_, g, 1.0), N.conv(w, x, g, 1.0))
        finally:
            k.memory.limit = None
        seen.append(k.account()[0])
    assert seen == ["cudnn, implicit precomp gemm", "cudnn, implicit gemm, short of memory", "cudnn, implicit precomp gemm"]


def test_pedantic_mode_does_not_choose_by_what_is_free(k, double):
    w, x, _, g = problem(0)
    double.fail(RUNS[0], "INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED")
    with math_mode.use("pedantic"), pytest.raises(RuntimeError, match="cudnnAllocFailed"):
        k.conv(k.adopt(w), k.adopt(x), g, 1.0)


@pytest.mark.parametrize("status", ["INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "NOT_SUPPORTED", "INTERNAL_ERROR"])
def test_without_a_search_the_heuristic_chooses(k, double, status):
    double.fail("cudnnFindConvolutionForwardAlgorithmEx", status)
    w, x, _, g = problem(0)
    with math_mode.use("fast"):
        same(k.conv(k.adopt(w), k.adopt(x), g, 1.0), N.conv(w, x, g, 1.0))
    assert k.account()[0].startswith("cudnn, ")


def test_threads_that_are_refused_together_forget_one_algorithm(k):
    import threading
    from types import SimpleNamespace

    from autotape.backends.cudnn_backend import algorithms, binding

    found = [SimpleNamespace(algo=i, memory=0, mathType=0, status=0, determinism=1) for i in (6, 1)]
    both, barrier, chosen = algorithms.Algorithms(found, FMA, "default", 0), threading.Barrier(2), []

    def call(choice, work):
        if choice.algorithm == 6:
            barrier.wait()
            raise binding.cudnnNotSupported(3000, "no")

    threads = [threading.Thread(target=lambda: chosen.append(both.run(call)[0].algorithm)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert chosen == [1, 1] and [c.algorithm for c in both.choices] == [1]


def test_a_fused_call_that_is_not_supported_is_done_apart(k, double):
    double.fail(RUNS[3], "NOT_SUPPORTED", times=99)
    w, x, dy, g = problem(1)
    b = np.ones((4, 1, 1), "f4")
    for _ in range(2):
        y = k.conv_bias_act(*map(k.adopt, (w, x, b, dy)), "relu", g, 1.0, 1.0)
        same(y, N.conv_bias_act(w, x, b, dy, "relu", g, 1.0, 1.0))
        assert k.account() == ("cudnn, winograd, bias and activation apart", "no fused algorithm of cuDNN")


# -- what is left, and what fails


LEFT = {
    "padding that differs before and after, or is negative": dict(geometry=Geometry((3, 3), ((0, 1), (1, 1)), (1, 1), (1, 1))),
    "int32": dict(dtype="int32"),
    "empty": dict(n=0),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "alpha", "beta"), [("int32", 0.5, 1.0), ("float32", 1.0, 0.0), ("float32", 0.0, 1.0)])
def test_integers_and_factors_of_0_are_as_numpy_has_them(cudnn, dtype, alpha, beta, mode):
    k, (w, x, z, g) = cudnn, problem(2, dtype=dtype)
    b = np.arange(4, dtype=dtype).reshape(1, 4, 1, 1)
    if dtype == "float32":
        z[0], x[1, 0, 0] = np.inf, np.nan
    with np.errstate(all="ignore"), math_mode.use(mode):
        same(k.conv_bias_act(*map(k.adopt, (w, x, b, z)), "relu", g, alpha, beta), N.conv_bias_act(w, x, b, z, "relu", g, alpha, beta))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("why", LEFT)
def test_what_is_left_to_the_raw_kernels_and_why(k, double, why, mode):
    w, x, dy, g = problem(0, **LEFT[why])
    w_, x_, dy_ = map(k.adopt, (w, x, dy))
    with math_mode.use(mode):
        for run, expected in [
            (lambda: k.conv(w_, x_, g, 1.0), N.conv(w, x, g, 1.0)),
            (lambda: k.conv_x(w_, dy_, x.shape, g, 1.0), N.conv_x(w, dy, x.shape, g, 1.0)),
            (lambda: k.conv_w(x_, dy_, w.shape, g, 1.0), N.conv_w(x, dy, w.shape, g, 1.0)),
            (lambda: k.conv_bias_act(w_, x_, None, None, "identity", g, 1.0, 1.0), N.conv(w, x, g, 1.0)),
        ]:
            same(run(), expected)
            assert k.account()[1] == why
    assert double.calls(*RUNS) == []


def test_profiles_say_what_ran_and_what_was_left(k):
    import autotape as at
    from autotape.opsets import v20

    w, x, _, _ = problem(0)
    with at.profile() as p:
        v20.conv4(w, x, padding=1, mode=1)
        v20.conv4(w.astype("i4"), x.astype("i4"), padding=1, mode=1)
    assert "cudnn, winograd" in str(p) and "int32" in str(p)


def test_wrong_shapes_are_told_as_by_the_raw_kernels(k):
    raw, g = backend.load("pycuda"), plain(3, 3)
    for call in (
        lambda k: k.conv(k.adopt(np.ones((4, 3, 3, 3))), k.adopt(np.ones((2, 2, 7, 7))), g, 1.0),
        lambda k: k.conv_x(k.adopt(np.ones((4, 3, 3, 3))), k.adopt(np.ones((2, 4, 7, 7))), (2, 3, 7, 7), g, 1.0),
        lambda k: k.conv_w(k.adopt(np.ones((2, 3, 7, 7))), k.adopt(np.ones((2, 4, 7, 7))), (4, 3, 3, 3), g, 1.0),
        lambda k: k.conv_bias_act(*(k.adopt(np.ones(s)) for s in [(4, 3, 3, 3), (2, 3, 7, 7), (5, 1, 1)]), None, "relu", g, 1.0, 1.0),
        lambda k: k.conv_bias_act(*(k.adopt(np.ones(s)) for s in [(4, 3, 3, 3), (2, 3, 7, 7)]), None, None, "gelu", g, 1.0, 1.0),
    ):
        with pytest.raises(ValueError) as expected:
            call(raw)
        with pytest.raises(ValueError) as e:
            call(k)
        assert str(e.value) == str(expected.value)


def test_a_failed_call_says_what_cudnn_says_and_leaves_no_descriptor(k, double):
    from autotape.backends.cudnn_backend import convolution
    from autotape.backends.pycuda_backend.driver import DeviceError

    w, x, _, g = problem(0)
    before = double.living()
    double.fail("cudnnSetConvolutionGroupCount", "INTERNAL_ERROR")
    with pytest.raises(DeviceError, match=r"conv by cuDNN: cudnnInternalError: CUDNN_STATUS_INTERNAL_ERROR: .*told to fail"):
        k.conv(k.adopt(w), k.adopt(x), g._replace(dilation=(2, 2)), 1.0)
    convolution._plan.cache_clear()
    assert double.living() == before
    double.fail("cudnnConvolutionForward", "EXECUTION_FAILED")
    with pytest.raises(DeviceError, match=r"conv by cuDNN: cudnnExecutionFailed"):
        k.conv(k.adopt(w), k.adopt(x), g, 1.0)


def test_plans_are_forgotten_and_their_descriptors_with_them(k, double):
    from autotape.backends.cudnn_backend import convolution

    passes(k)
    before = double.living()
    convolution._plan.cache_clear()
    after = double.living()
    assert before["TensorDescriptor"] - after["TensorDescriptor"] == 6 and before["FilterDescriptor"] - after["FilterDescriptor"] == 3


# -- threads and streams


def test_it_works_on_the_thread_s_stream(k, double):
    import pycuda.driver as cuda

    w, x, dy, g = problem(1)
    stream = cuda.Stream()
    with k.on_stream(stream):
        w_, x_, z_ = map(k.adopt, (w, x, dy))
        y = k.conv_bias_act(w_, k.add(x_, x_), None, k.add(z_, z_), "relu", g, 1.0, 1.0)
        y = k.to_numpy(k.add(y, y))
    same(y, 4 * N.conv_bias_act(w, x, None, dy, "relu", g, 1.0, 1.0))
    assert {c["handle"] for c in double.calls(RUNS[3])} == {stream.handle}


def test_each_thread_has_a_handle_for_as_long_as_it_lives(k, double):
    import gc
    import threading

    passes(k)
    before = len(double.handles)
    results = []
    threads = [threading.Thread(target=lambda: results.append((passes(k), len(double.handles)))) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert [n for _, n in results] == [before + 1] * 2
    del threads, thread
    gc.collect()
    assert len(double.handles) == before


def test_odd_addresses_are_copied(k, double):
    from autotape.backends.pycuda_backend.array import view

    w, x, _, g = problem(0, dtype="float16")
    wide = k.adopt(np.concatenate([np.zeros(1, "f2"), x.ravel()]))
    shifted = view(wide, x.shape, tuple(2 * s // x.itemsize for s in x.strides), 2)
    same(k.conv(k.adopt(w), shifted, g, 1.0), N.conv(w, x, g, 1.0))
    assert all(c["x"] % 16 == 0 for c in double.calls(RUNS[0]))


def test_a_library_that_does_not_start_is_no_backend(k, double):
    from autotape.backends.cudnn_backend import CudnnKernels, handle

    before = handle._here.__dict__.pop("handle")
    double.fail("cudnnCreate", "NOT_INITIALIZED")
    try:
        assert "cuDNN does not start: CUDNN_STATUS_NOT_INITIALIZED" in CudnnKernels.unavailable()
    finally:
        handle._here.handle = before
