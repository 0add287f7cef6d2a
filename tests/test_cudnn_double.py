"""The double of cuDNN (tests/cudnn_double): what it computes, by formulas written here, what it refuses, and what tests can ask of it."""

import os
import subprocess
import sys
from ctypes import byref, c_double, c_float, c_void_p
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

BF16 = np.dtype(ml_dtypes.bfloat16)
DATA = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}


class Setting:
    """cuDNN by its binding, with short names for what the tests say."""

    def __init__(self, table):
        from autotape.backends.cudnn_backend import binding, handle
        from autotape.backends.cudnn_backend.descriptors import Descriptor

        self.table, self.b, self.kept = table, binding, []
        self.Descriptor, self.handle = Descriptor, handle.ready()

    def made(self, kind, setter=None, *args):
        """A descriptor, for as long as the test runs."""
        set = getattr(self.b, f"cudnnSet{setter}") if setter else lambda made: None
        self.kept.append(self.Descriptor(kind, set, *args))
        return self.kept[-1]

    def tensor(self, shape, dtype="f4", strides=None):
        strides = strides or [prod(shape[i + 1 :]) for i in range(len(shape))]
        return self.made("Tensor", "TensorNdDescriptor", DATA[np.dtype(dtype).name], len(shape), shape, strides)

    def filters(self, shape, dtype="f4", last=0):
        return self.made("Filter", "FilterNdDescriptor", DATA[np.dtype(dtype).name], last, len(shape), shape)

    def convolution(self, padding=1, stride=1, dilation=1, mode=1, data=0, group=1, math=3, axes=2):
        sliding = ([v] * axes for v in (padding, stride, dilation))
        made = self.made("Convolution", "ConvolutionNdDescriptor", axes, *sliding, mode, data)
        self.b.cudnnSetConvolutionGroupCount(made, group)
        self.b.cudnnSetConvolutionMathType(made, math)
        return made

    def pooling(self, mode, window=2, padding=0, stride=2):
        sizes = ([v] * 2 for v in (window, padding, stride))
        return self.made("Pooling", "PoolingNdDescriptor", mode, 1, 2, *sizes)

    def activation(self, mode, coefficient=0.0, keeps_nan=1):
        return self.made("Activation", "ActivationDescriptor", mode, keeps_nan, coefficient)

    def put(self, x):
        """The address of a copy on the device."""
        self.kept.append(self.table.adopt(np.array(x)))
        return self.kept[-1].address

    def room(self, shape, dtype="f4"):
        return self.put(np.full(shape, np.nan, dtype))

    def at(self, address):
        """What is at an address that `put` or `room` gave."""
        return self.table.to_numpy(next(x for x in self.kept if getattr(x, "address", None) == address))


@pytest.fixture
def s(cudnn, double):
    return Setting(cudnn)


ONE, ZERO, HALF = byref(c_float(1)), byref(c_float(0)), byref(c_float(0.5))


def numbers(seed, shape, dtype="f4"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def near(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found, "f8"), expected, tolerance, tolerance)


# -- what it computes
def correlated(x, w, padding, stride, dilation):
    """One number after another."""
    x = np.pad(x.astype("f8"), [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2])
    span = [dilation * (n - 1) + 1 for n in w.shape[2:]]
    out = [(n - k) // stride + 1 for n, k in zip(x.shape[2:], span, strict=True)]
    y = np.empty((len(x), len(w), *out))
    for n, k, i, j in np.ndindex(*y.shape):
        part = x[n, :, i * stride : i * stride + span[0] : dilation, j * stride : j * stride + span[1] : dilation]
        y[n, k, i, j] = (part * w[k]).sum()
    return y


@pytest.mark.parametrize("dtype", ["f2", BF16, "f4"])
def test_convolution(s, dtype):
    x, w = numbers(0, (2, 3, 7, 6), dtype), numbers(1, (4, 3, 3, 2), dtype)
    expected = correlated(x, w, 1, 2, 2)
    y = s.room(expected.shape, dtype)
    s.b.cudnnConvolutionForward(
        s.handle, HALF, s.tensor(x.shape, dtype), s.put(x), s.filters(w.shape, dtype), s.put(w), s.convolution(1, 2, 2), 0, None, 0, ZERO,
        s.tensor(expected.shape, dtype), y,
    )  # fmt: skip
    near(s.at(y), expected / 2, 2 * float(ml_dtypes.finfo(dtype).eps))


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("group", [1, 2])
def test_convolution_s_passes_are_each_other_s_transposes(s, mode, group):
    """<dy, conv(w, x)> = <conv_x(w, dy), x> = <conv_w(x, dy), w>."""
    x, w, dy = numbers(0, (2, 4, 6, 5), "f8"), numbers(1, (6, 4 // group, 3, 3), "f8"), numbers(2, (2, 6, 3, 3), "f8")
    one, zero, c = byref(c_double(1)), byref(c_double(0)), s.convolution(1, 2, 1, mode, 1, group)
    xd, wd, yd = s.tensor(x.shape, "f8"), s.filters(w.shape, "f8"), s.tensor(dy.shape, "f8")
    y, dx, dw = s.room(dy.shape, "f8"), s.room(x.shape, "f8"), s.room(w.shape, "f8")
    x_at, w_at, dy_at = s.put(x), s.put(w), s.put(dy)
    s.b.cudnnConvolutionForward(s.handle, one, xd, x_at, wd, w_at, c, 0, None, 0, zero, yd, y)
    s.b.cudnnConvolutionBackwardData(s.handle, one, wd, w_at, yd, dy_at, c, 0, None, 0, zero, xd, dx)
    s.b.cudnnConvolutionBackwardFilter(s.handle, one, xd, x_at, yd, dy_at, c, 0, None, 0, zero, wd, dw)
    near([(s.at(dx) * x).sum(), (s.at(dw) * w).sum()], (s.at(y) * dy).sum(), 1e-12)


def test_channels_last(s):
    x, w = numbers(0, (2, 3, 5, 5)), numbers(1, (4, 3, 3, 3))
    xd, yd = s.tensor(x.shape, strides=[75, 1, 15, 3]), s.tensor((2, 4, 5, 5), strides=[100, 1, 20, 4])
    wd, c, y = s.filters(w.shape, last=1), s.convolution(), s.room((2, 5, 5, 4))
    size = s.b.cudnnGetConvolutionForwardWorkspaceSize(s.handle, xd, wd, c, yd, 1)
    last = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, w)]
    s.b.cudnnConvolutionForward(s.handle, ONE, xd, s.put(last[0]), wd, s.put(last[1]), c, 1, s.room(size), size, ZERO, yd, y)
    near(s.at(y).transpose(0, 3, 1, 2), correlated(x, w, 1, 1, 1))


def test_a_workspace_is_full_of_rubbish_afterwards(s):
    function, given = convolution(s)
    given["work"] = s.put(np.zeros(4000, "f4"))
    function(*given.values())
    assert np.isnan(s.at(given["work"])).all()


@pytest.mark.parametrize("mode", ["relu", "identity"])
def test_convolution_with_bias_residual_and_activation(s, mode):
    x, w, z, bias = numbers(0, (2, 3, 5, 5)), numbers(1, (4, 3, 3, 3)), numbers(2, (2, 4, 5, 5)), numbers(3, (1, 4, 1, 1))
    xd, yd, wd, c, y = s.tensor(x.shape), s.tensor(z.shape), s.filters(w.shape), s.convolution(), s.put(z)
    size = s.b.cudnnGetConvolutionForwardWorkspaceSize(s.handle, xd, wd, c, yd, 1)
    s.b.cudnnConvolutionBiasActivationForward(
        s.handle, ONE, xd, s.put(x), wd, s.put(w), c, 1, s.room(size), size, HALF, yd, y, s.tensor(bias.shape), s.put(bias),
        s.activation({"relu": 1, "identity": 5}[mode], keeps_nan=0), yd, y,
    )  # fmt: skip
    total = correlated(x, w, 1, 1, 1) + z / 2 + bias
    near(s.at(y), np.maximum(total, 0) if mode == "relu" else total)


def test_the_gradient_of_a_bias(s):
    dy, db = numbers(0, (2, 3, 4, 5)), s.room((1, 3, 1, 1))
    s.b.cudnnConvolutionBackwardBias(s.handle, ONE, s.tensor(dy.shape), s.put(dy), ZERO, s.tensor((1, 3, 1, 1)), db)
    near(s.at(db).ravel(), dy.sum((0, 2, 3)))


def test_beta_adds_to_what_is_there(s):
    x, y = numbers(0, (2, 3, 4, 5)), numbers(1, (2, 3, 4, 5))
    t, at = s.tensor(x.shape), s.put(y)
    s.b.cudnnActivationForward(s.handle, s.activation(2), HALF, t, s.put(x), HALF, t, at)
    near(s.at(at), np.tanh(x) / 2 + y / 2)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


ACTIVATIONS = {0: sigmoid, 1: relu, 2: np.tanh, 3: lambda x: np.clip(x, 0, 0.7), 4: lambda x: np.where(x < 0, 0.7 * np.expm1(x), x),
               6: lambda x: x * sigmoid(x)}  # fmt: skip


@pytest.mark.parametrize("mode", ACTIVATIONS)
def test_activations_and_their_slopes(s, mode):
    f, x, dy = ACTIVATIONS[mode], numbers(0, (2, 3, 4, 5), "f8"), numbers(1, (2, 3, 4, 5), "f8")
    one, zero, t, a = byref(c_double(1)), byref(c_double(0)), s.tensor(x.shape, "f8"), s.activation(mode, 0.7)
    x_at, y, dx = s.put(x), s.room(x.shape, "f8"), s.room(x.shape, "f8")
    s.b.cudnnActivationForward(s.handle, a, one, t, x_at, zero, t, y)
    s.b.cudnnActivationBackward(s.handle, a, one, t, y, t, s.put(dy), t, x_at, zero, t, dx)
    near(s.at(y), f(x), 1e-12)
    near(s.at(dx), dy * (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, 1e-6)


@pytest.mark.parametrize(("operation", "f"), [(0, np.add), (1, np.multiply), (2, np.minimum), (3, np.maximum), (4, lambda a, b: a**0.5)])
def test_operations_of_two_tensors(s, operation, f):
    a, b, c = np.abs(numbers(0, (2, 3, 4, 5))), numbers(1, (1, 3, 1, 1)), s.room((2, 3, 4, 5))
    op, t = s.made("OpTensor", "OpTensorDescriptor", operation, 0, 1), s.tensor(a.shape)
    s.b.cudnnOpTensor(s.handle, op, HALF, t, s.put(a), ONE, s.tensor(b.shape), s.put(b), ZERO, t, c)
    near(s.at(c), f(a / 2, b))


def test_a_bias_is_added_in_place(s):
    a, c = numbers(0, (1, 3, 1, 1)), numbers(1, (2, 3, 4, 5))
    at = s.put(c)
    s.b.cudnnAddTensor(s.handle, HALF, s.tensor(a.shape), s.put(a), ONE, s.tensor(c.shape), at)
    near(s.at(at), a / 2 + c)


REDUCTIONS = [np.sum, np.prod, np.min, np.max, lambda x, **o: np.abs(x).max(**o), np.mean, lambda x, **o: np.abs(x).sum(**o),
              lambda x, **o: np.sqrt((x * x).sum(**o)), np.prod]  # fmt: skip


@pytest.mark.parametrize("operation", range(9))
def test_reductions(s, operation):
    a, c = numbers(0, (2, 3, 4, 5)), s.room((1, 3, 1, 5))
    r, ad, cd = s.made("ReduceTensor", "ReduceTensorDescriptor", operation, 0, 1, 1, 0), s.tensor(a.shape), s.tensor((1, 3, 1, 5))
    work, indices = s.b.cudnnGetReductionWorkspaceSize(s.handle, r, ad, cd), s.b.cudnnGetReductionIndicesSize(s.handle, r, ad, cd)
    where = s.put(np.zeros(15, "u4"))
    s.b.cudnnReduceTensor(s.handle, r, where, indices, s.room(work), work, ONE, ad, s.put(a), ZERO, cd, c)
    near(s.at(c), REDUCTIONS[operation](a, axis=(0, 2), keepdims=True))
    assert indices == (60 if operation in (2, 3, 4) else 0)
    if operation == 3:
        assert [*s.at(where)] == [*a.transpose(1, 3, 0, 2).reshape(15, 8).argmax(1)]


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("algorithm", [0, 1, 2])
def test_softmax(s, algorithm, mode):
    x, dy, axes = numbers(0, (2, 3, 4, 5)), numbers(1, (2, 3, 4, 5)), (1,) if mode else (1, 2, 3)
    t, y, dx = s.tensor(x.shape), s.room(x.shape), s.room(x.shape)
    s.b.cudnnSoftmaxForward(s.handle, algorithm, mode, ONE, t, s.put(x), ZERO, t, y)
    s.b.cudnnSoftmaxBackward(s.handle, algorithm, mode, ONE, t, y, t, s.put(dy), ZERO, t, dx)
    p = np.exp(x) / np.exp(x).sum(axes, keepdims=True)
    near(s.at(y), np.log(p) if algorithm == 2 else p)
    near(s.at(dx), dy - p * dy.sum(axes, keepdims=True) if algorithm == 2 else p * (dy - (p * dy).sum(axes, keepdims=True)))


@pytest.mark.parametrize(("mode", "f"), [(0, np.max), (1, np.mean), (2, np.nanmean), (3, np.max)])
def test_pooling(s, mode, f):
    x = numbers(0, (1, 2, 5, 5))
    fill = {0: -np.inf, 1: 0, 2: np.nan, 3: -np.inf}[mode]
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=fill)
    expected = np.array([[f(padded[0, c, i : i + 3, j : j + 3]) for i in (0, 2, 4) for j in (0, 2, 4)] for c in range(2)])
    xd, yd, p = s.tensor(x.shape), s.tensor((1, 2, 3, 3)), s.pooling(mode, 3, 1, 2)
    x_at, y, dx, dy = s.put(x), s.room((1, 2, 3, 3)), s.room(x.shape), numbers(1, (1, 2, 3, 3))
    s.b.cudnnPoolingForward(s.handle, p, ONE, xd, x_at, ZERO, yd, y)
    s.b.cudnnPoolingBackward(s.handle, p, ONE, yd, y, yd, s.put(dy), xd, x_at, ZERO, xd, dx)
    near(s.at(y).reshape(2, 9), expected)
    near((s.at(dx) * x).sum(), (s.at(y) * dy).sum())  # y is homogeneous in x


@pytest.mark.parametrize(("mode", "chosen"), [(0, 3), (3, 0)])
def test_which_of_equal_maxima_gets_the_cotangent(s, mode, chosen):
    x, xd, yd, dx = s.put(np.ones((1, 1, 2, 2), "f4")), s.tensor((1, 1, 2, 2)), s.tensor((1, 1, 1, 1)), s.room((1, 1, 2, 2))
    y = s.put(np.ones((1, 1, 1, 1), "f4"))
    s.b.cudnnPoolingBackward(s.handle, s.pooling(mode), ONE, yd, y, yd, y, xd, x, ZERO, xd, dx)
    assert [*s.at(dx).ravel()] == [float(i == chosen) for i in range(4)]


@pytest.mark.parametrize(("mode", "axes"), [(0, (0,)), (1, (0, 2, 3))])
def test_batch_normalisation(s, mode, axes):
    x, dy = numbers(0, (4, 3, 2, 2), "f8"), numbers(1, (4, 3, 2, 2), "f8")
    shape, one, zero = tuple(1 if a in axes else n for a, n in enumerate(x.shape)), byref(c_double(1)), byref(c_double(0))
    scale, bias, running = numbers(2, shape, "f8"), numbers(3, shape, "f8"), numbers(4, shape, "f8")
    t, per, x_at, scale_at, bias_at = s.tensor(x.shape, "f8"), s.tensor(shape, "f8"), s.put(x), s.put(scale), s.put(bias)
    y, z, dx = (s.room(x.shape, "f8") for _ in range(3))
    mean, inverse, dscale, dbias = (s.room(shape, "f8") for _ in range(4))
    mean_to, variance_to = s.put(running), s.put(running)
    s.b.cudnnBatchNormalizationForwardTraining(
        s.handle, mode, one, zero, t, x_at, t, y, per, scale_at, bias_at, 0.25, mean_to, variance_to, 1e-3, mean, inverse
    )
    v, n = x.var(axes, keepdims=True), x.size // scale.size
    near(s.at(mean), x.mean(axes, keepdims=True), 1e-12)
    near(s.at(inverse), 1 / np.sqrt(v + 1e-3), 1e-12)
    near(s.at(y), (x - s.at(mean)) * s.at(inverse) * scale + bias, 1e-12)
    near(s.at(mean_to), 0.75 * running + 0.25 * s.at(mean), 1e-12)
    near(s.at(variance_to), 0.75 * running + 0.25 * v * n / (n - 1), 1e-12)
    v_at = s.put(v)
    s.b.cudnnBatchNormalizationForwardInference(s.handle, mode, one, zero, t, x_at, t, z, per, scale_at, bias_at, mean, v_at, 1e-3)
    near(s.at(z), s.at(y), 1e-12)
    s.b.cudnnBatchNormalizationBackward(
        s.handle, mode, one, zero, one, zero, t, x_at, t, s.put(dy), t, dx, per, scale_at, dscale, dbias, 1e-3, mean, inverse
    )

    def loss(x, scale, bias):
        return ((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3) * scale + bias).ravel() @ dy.ravel()

    for i, found in enumerate((dx, dscale, dbias)):
        near(s.at(found), slopes(loss, [x, scale, bias], i), 1e-6)


def slopes(f, arguments, i):
    """f's derivatives by one argument, by central differences."""
    found = np.empty(arguments[i].shape)
    for place in np.ndindex(found.shape):
        up, down = ([a.copy() for a in arguments] for _ in range(2))
        up[i][place] += 1e-6
        down[i][place] -= 1e-6
        found[place] = (f(*up) - f(*down)) / 2e-6
    return found


def test_dropout(s):
    x, size = np.ones((4, 3, 50, 50), "f4"), s.b.cudnnDropoutGetStatesSize(s.handle)
    states, t = s.room(size // 4), s.tensor(x.shape)
    d = s.made("Dropout", "DropoutDescriptor", s.handle, 0.25, states, size, 7)
    y, again, dx, reserve = s.room(x.shape), s.room(x.shape), s.room(x.shape), s.b.cudnnDropoutGetReserveSpaceSize(t)
    masks = [s.room(reserve) for _ in range(2)]
    for out, mask in zip((y, again), masks, strict=True):
        s.b.cudnnDropoutForward(s.handle, d, t, s.put(x), t, out, mask, reserve)
    s.b.cudnnDropoutBackward(s.handle, d, t, s.put(x), t, dx, masks[0], reserve)
    np.testing.assert_array_equal(np.unique(s.at(y)), np.float32([0, 4 / 3]))
    assert abs((s.at(y) == 0).mean() - 0.25) < 0.01
    np.testing.assert_array_equal(s.at(dx), s.at(y))
    assert (s.at(y) != s.at(again)).any()


# -- recurrent layers
def lstm(a, r, h, c):
    i, f, n, o = np.split(a + r, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(n)
    return sigmoid(o) * np.tanh(c), c


def gru(a, r, h, c):
    (ar, az, an), (rr, rz, rn) = np.split(a, 3), np.split(r, 3)
    z = sigmoid(az + rz)
    return (1 - z) * np.tanh(an + sigmoid(ar + rr) * rn) + z * h, c


CELLS = {0: (1, lambda a, r, h, c: (relu(a + r), c)), 1: (1, lambda a, r, h, c: (np.tanh(a + r), c)), 2: (4, lstm), 3: (3, gru)}
LENGTHS, WIDTH, HIDDEN = (3, 2, 2), 2, 2
ROWS = [(i, t) for t in range(max(LENGTHS)) for i, n in enumerate(LENGTHS) if n > t]


def one_sequence_after_another(cell, skip, x, w, h, c):
    """Packed results, and the last states, with weights in cuDNN's order."""
    gates, step = CELLS[cell]
    sides = np.split(w, np.cumsum([0 if skip else gates * HIDDEN * WIDTH, gates * HIDDEN * HIDDEN, gates * HIDDEN]))
    by_input, by_state = (m.reshape(gates * HIDDEN, -1) for m in sides[:2])
    y, h, c = np.empty((len(ROWS), HIDDEN)), h.copy(), c.copy()
    for i in range(len(LENGTHS)):
        for row in (n for n, (j, _) in enumerate(ROWS) if j == i):
            a = (np.tile(x[row], gates) if skip else by_input @ x[row]) + sides[2]
            y[row], c[i] = step(a, by_state @ h[i] + sides[3], h[i], c[i])
            h[i] = y[row]
    return y, h, c


class Layer:
    """A recurrent layer in float64, its arrays on the device, and its calls."""

    def __init__(self, s, cell, skip=0):
        b, n = s.b, len(LENGTHS)
        self.s, self.cell, self.skip = s, cell, skip
        self.rnn = s.made("RNN", "RNNDescriptor_v8", 0, cell, 2, 0, skip, 1, 1, 3, WIDTH, HIDDEN, HIDDEN, 1, s.made("Dropout"), 0)
        self.data = s.made("RNNData", "RNNDataDescriptor", 1, 1, max(LENGTHS), n, WIDTH, LENGTHS, None)
        self.state, self.weights = s.tensor((1, n, HIDDEN), "f8"), b.cudnnGetRNNWeightSpaceSize(s.handle, self.rnn)
        self.x, self.w = numbers(0, (len(ROWS), WIDTH), "f8"), numbers(1, (self.weights // 8,), "f8")
        self.h, self.c, self.dh, self.dc = (numbers(i, (n, HIDDEN), "f8") for i in range(2, 6))
        self.dy = numbers(6, (len(ROWS), HIDDEN), "f8")
        self.x_at, self.w_at, self.h_at, self.c_at, self.dh_at, self.dc_at, self.dy_at = map(
            s.put, (self.x, self.w, self.h, self.c, self.dh, self.dc, self.dy)
        )
        self.y, self.hy, self.cy = s.room(self.dy.shape, "f8"), s.room(self.h.shape, "f8"), s.room(self.h.shape, "f8")
        self.dx, self.dhx, self.dcx = s.room(self.x.shape, "f8"), s.room(self.h.shape, "f8"), s.room(self.h.shape, "f8")
        self.dw = s.put(np.zeros(self.w.shape))
        sizes = b.cudnnGetRNNTempSpaceSizes(s.handle, self.rnn, 1, self.data)
        self.spaces = [v for size in sizes for v in (size, s.room(size))]

    def forward(self):
        states = self.state, self.h_at, self.hy, self.state, self.c_at, self.cy
        self.s.b.cudnnRNNForward(
            self.s.handle, self.rnn, 1, None, self.data, self.x_at, self.data, self.y, *states, self.weights, self.w_at, *self.spaces
        )

    def by_data(self):
        states = self.state, self.h_at, self.dh_at, self.dhx, self.state, self.c_at, self.dc_at, self.dcx
        self.s.b.cudnnRNNBackwardData_v8(
            self.s.handle, self.rnn, None, self.data, self.y, self.dy_at, self.data, self.dx, *states, self.weights, self.w_at, *self.spaces
        )

    def by_weights(self, add=0):
        arrays = self.data, self.x_at, self.state, self.h_at, self.data, self.y
        self.s.b.cudnnRNNBackwardWeights_v8(self.s.handle, self.rnn, add, None, *arrays, self.weights, self.dw, *self.spaces)

    def loss(self, x, w, h, c):
        results = one_sequence_after_another(self.cell, self.skip, x, w, h, c)
        return sum((a * b).sum() for a, b in zip(results, (self.dy, self.dh, self.dc), strict=True))


@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_layers(s, cell, skip):
    layer = Layer(s, cell, skip)
    arguments = [layer.x, layer.w, layer.h, layer.c]
    layer.forward(), layer.by_data(), layer.by_weights()
    for found, expected in zip((layer.y, layer.hy, layer.cy), one_sequence_after_another(cell, skip, *arguments), strict=True):
        if cell == 2 or found != layer.cy:
            near(s.at(found), expected, 1e-12)
    for i, found in enumerate((layer.dx, layer.dw, layer.dhx, layer.dcx)):
        if cell == 2 or found != layer.dcx:
            near(s.at(found), slopes(layer.loss, arguments, i), 1e-6)


def test_where_the_weights_lie(s):
    layer, mine = Layer(s, 3), s.tensor((1, 1, 1))
    at = [s.b.cudnnGetRNNWeightParams(s.handle, layer.rnn, 0, layer.weights, layer.w_at, i, mine, s.made("Tensor")) for i in range(6)]
    assert [(m - layer.w_at) // 8 for m, _ in at] == [0, 4, 8, 12, 16, 20]
    assert [(bias - layer.w_at) // 8 for _, bias in at] == [24, 26, 28, 30, 32, 34]
    assert s.b.cudnnGetTensorNdDescriptor(mine, 3)[2][:3] == (1, HIDDEN, HIDDEN)


def test_the_passes_of_a_recurrent_layer_have_an_order(s):
    layer = Layer(s, 2)
    with pytest.raises(s.b.cudnnBadParam, match="reserveSpace is not as cudnnRNNForward for training left it"):
        layer.by_data()
    layer.forward()
    with pytest.raises(s.b.cudnnBadParam, match="reserveSpace is not as cudnnRNNBackwardData_v8 left it"):
        layer.by_weights()
    layer.by_data()
    with pytest.raises(s.b.cudnnBadParam, match="reserveSpace is not as cudnnRNNForward"):
        layer.by_data()
    with pytest.raises(s.b.cudnnNotSupported, match="addGrad"):
        layer.by_weights(add=1)


# -- what it refuses
def softmax(s):
    t, x, y = s.tensor((2, 3, 4, 5)), s.put(numbers(0, (2, 3, 4, 5))), s.room((2, 3, 4, 5))
    given = dict(handle=s.handle, algo=1, mode=1, alpha=ONE, xDesc=t, x=x, beta=ZERO, yDesc=t, y=y)
    return s.b.cudnnSoftmaxForward, given


def allocated(s, size):
    """The address of so many bytes of the driver's; the pool's stretches are larger than what was asked for."""
    import pycuda.driver as cuda

    s.kept.append(cuda.mem_alloc(size))
    return int(s.kept[-1])


def freed(s):
    address = allocated(s, 480)
    s.kept.pop().free()
    return address


def destroyed(s):
    x = s.b.cudnnCreateTensorDescriptor()
    s.b.cudnnDestroyTensorDescriptor(x)
    return x


ON_HOST = np.zeros(200, "f4")
OF_SOFTMAX = {
    "no handle": (lambda s, g: dict(handle=8), "handle is no handle"),
    "a null handle": (lambda s, g: dict(handle=None), "handle is no handle"),
    "a null pointer": (lambda s, g: dict(x=None), "x is null"),
    "a misaligned pointer": (lambda s, g: dict(x=g["x"] + 2), "x at .* is not at a multiple of 4 bytes"),
    "memory of the host": (lambda s, g: dict(x=ON_HOST.ctypes.data), "x at .* is no device memory"),
    "freed memory": (lambda s, g: dict(y=freed(s)), "y at .* is no device memory, or was freed"),
    "too little memory": (lambda s, g: dict(x=allocated(s, 476)), "x: 480 bytes at .* run 4 bytes past the end"),
    "a filter's descriptor": (lambda s, g: dict(xDesc=s.filters((2, 3, 4, 5))), "xDesc is no TensorDescriptor"),
    "a destroyed descriptor": (lambda s, g: dict(xDesc=destroyed(s)), "xDesc is no TensorDescriptor, or was destroyed"),
    "a null descriptor": (lambda s, g: dict(yDesc=None), "yDesc is null"),
    "a descriptor not set": (lambda s, g: dict(yDesc=s.made("Tensor")), "yDesc was never set"),
    "another shape": (lambda s, g: dict(yDesc=s.tensor((2, 3, 5, 4))), r"x has shape \(2, 3, 4, 5\), and y \(2, 3, 5, 4\)"),
    "another dtype": (lambda s, g: dict(yDesc=s.tensor((2, 3, 4, 5), "f2")), "x is float32, and y float16"),
    "in place": (lambda s, g: dict(y=g["x"]), "y and x share memory"),
    "overlapping": (lambda s, g: dict(x=(at := s.room(400)), y=at + 4), "y and x share memory"),
    "a result over itself": (lambda s, g: dict(yDesc=s.tensor((2, 3, 4, 5), strides=[60, 20, 4, 1])), "y has elements that share memory"),
    "a null factor": (lambda s, g: dict(alpha=None), "alpha is null"),
    "a factor on the device": (lambda s, g: dict(beta=c_void_p(g["y"])), "beta is in the device's memory"),
    "no such mode": (lambda s, g: dict(mode=7), "mode: there is no 7"),
    "no such algorithm": (lambda s, g: dict(algo=7), "algo: there is no 7"),
}  # fmt: skip


def of_convolution(s, fused=False):
    xd, wd, yd, bias = s.tensor((2, 4, 6, 6)), s.filters((4, 4, 3, 3)), s.tensor((2, 4, 6, 6)), s.tensor((1, 4, 1, 1))
    given = dict(handle=s.handle, alpha=ONE, xDesc=xd, x=s.room((2, 4, 6, 6)), wDesc=wd, w=s.room((4, 4, 3, 3)), convDesc=s.convolution(),
                 algo=1, work=s.room(4000), size=16000, beta=ZERO)  # fmt: skip
    last = dict(yDesc=yd, y=s.room((2, 4, 6, 6)))
    if not fused:
        return s.b.cudnnConvolutionForward, given | last
    more = dict(zDesc=yd, z=s.room((2, 4, 6, 6)), biasDesc=bias, bias=s.room(4), activationDesc=s.activation(1, keeps_nan=0))
    return s.b.cudnnConvolutionBiasActivationForward, given | more | last


def convolution(s):
    return of_convolution(s)


def fused(s):
    return of_convolution(s, True)


OF_CONVOLUTION = {
    "another dtype": (lambda s, g: dict(wDesc=s.filters((4, 4, 3, 3), "f2")), "x is float32, w float16 and y float32"),
    "another shape": (lambda s, g: dict(yDesc=s.tensor((2, 4, 5, 6))), r"y has shape .*, and the convolution of x with w \(2, 4, 6, 6\)"),
    "other channels": (lambda s, g: dict(wDesc=s.filters((4, 3, 3, 3))), "groupCount"),
    "three axes": (lambda s, g: dict(xDesc=s.tensor((2, 4, 6))), "4 axes each, or 5"),
    "too small a workspace": (lambda s, g: dict(size=8), "workSpace has 8 bytes, and .* are needed"),
    "a null workspace": (lambda s, g: dict(work=None), "workSpace is null"),
    "a misaligned workspace": (lambda s, g: dict(work=g["work"] + 4), "workSpace at .* is not at a multiple of 16"),
    "no such algorithm": (lambda s, g: dict(algo=8), "algo: there is no algorithm 8"),
    "tensor cores, misaligned": (
        lambda s, g: dict(convDesc=s.convolution(math=2), x=s.room(500) + 4), "x at .* is not at a multiple of 16 bytes"
    ),
}  # fmt: skip
OF_CONVOLUTION_NOT_SUPPORTED = {
    "direct": (lambda s, g: dict(algo=3), "algo: algorithm 3 is not there"),
    "sums in doubles": (lambda s, g: dict(convDesc=s.convolution(data=1)), "convDesc adds up float32 in float64"),
    "strides by winograd": (
        lambda s, g: dict(convDesc=s.convolution(1, 2), yDesc=s.tensor((2, 4, 3, 3)), algo=6), "algo: algorithm 6 is not there"
    ),
    "a filter in NHWC": (lambda s, g: dict(wDesc=s.filters((4, 4, 3, 3), last=1)), "w is NHWC, and x with strides .* is not"),
}  # fmt: skip
OF_FUSED = {
    "a bias of another shape": (lambda s, g: dict(biasDesc=s.tensor((1, 1, 1, 4))), r"bias has shape \(1, 1, 1, 4\), not \(1, 4, 1, 1\)"),
    "a residual that is repeated": (lambda s, g: dict(zDesc=s.tensor((2, 4, 1, 1))), "zDesc .* differs from yDesc"),
    "y over x": (lambda s, g: dict(y=g["x"]), "y and x share memory"),
}
OF_FUSED_NOT_SUPPORTED = {
    "tanh": (lambda s, g: dict(activationDesc=s.activation(2)), "activationDesc has mode 2"),
    "identity": (lambda s, g: dict(activationDesc=s.activation(5, keeps_nan=0), algo=0), "only IMPLICIT_PRECOMP_GEMM has it"),
    "a relu that keeps NaN": (lambda s, g: dict(activationDesc=s.activation(1)), "reluNanOpt is not CUDNN_NOT_PROPAGATE_NAN"),
}


def pooling(s):
    t, y = s.tensor((2, 3, 4, 4)), s.tensor((2, 3, 2, 2))
    given = dict(handle=s.handle, p=s.pooling(0), alpha=ONE, xDesc=t, x=s.room((2, 3, 4, 4)), beta=ZERO, yDesc=y, y=s.room((2, 3, 2, 2)))
    return s.b.cudnnPoolingForward, given


OF_POOLING = {
    "padding like the window": (
        lambda s, g: dict(p=s.pooling(0, 2, 2), yDesc=s.tensor((2, 3, 4, 4)), y=s.room((2, 3, 4, 4))), r"padding \(2, 2\) is not smaller"
    ),
    "another shape": (lambda s, g: dict(yDesc=s.tensor((2, 3, 1, 2))), r"y has shape .*, and pooling gives \(2, 3, 2, 2\)"),
    "another dtype": (lambda s, g: dict(yDesc=s.tensor((2, 3, 2, 2), "f2")), "x is float32, and y float16"),
}


def normalisation(s):
    t, per, (x, y) = s.tensor((2, 3, 4, 4), "f2"), s.tensor((1, 3, 1, 1)), (s.room((2, 3, 4, 4), "f2") for _ in range(2))
    data = dict(handle=s.handle, mode=1, alpha=ONE, beta=ZERO, xDesc=t, x=x, yDesc=t, y=y)
    parameters = dict(per=per, scale=s.room(3), bias=s.room(3), factor=1.0, running_mean=s.room(3), running_variance=s.room(3))
    return s.b.cudnnBatchNormalizationForwardTraining, data | parameters | dict(eps=1e-3, mean=s.room(3), inverse=s.room(3))


OF_NORMALISATION = {
    "parameters in halves": (lambda s, g: dict(per=s.tensor((1, 3, 1, 1), "f2")), "float16, and float16 goes with float32"),
    "parameters of another shape": (lambda s, g: dict(per=s.tensor((1, 3, 4, 4))), r"has shape \(1, 3, 4, 4\), not \(1, 3, 1, 1\)"),
    "one of two statistics": (lambda s, g: dict(mean=None), "resultSaveMean and resultSaveInvVariance must both be given, or neither"),
    "a negative epsilon": (lambda s, g: dict(eps=-1.0), "CUDNN_BN_MIN_EPSILON"),
}


def dropout(s):
    t, size = s.tensor((2, 3, 4, 5)), s.b.cudnnDropoutGetStatesSize(s.handle)
    d = s.made("Dropout", "DropoutDescriptor", s.handle, 0.5, s.room(size // 4), size, 7)
    given = dict(handle=s.handle, d=d, xdesc=t, x=s.room((2, 3, 4, 5)), ydesc=t, y=s.room((2, 3, 4, 5)), reserve=s.room(4), size=16)
    return s.b.cudnnDropoutForward, given


OF_DROPOUT = {
    "a descriptor not set": (lambda s, g: dict(d=s.made("Dropout")), "dropoutDesc was never set"),
    "no states": (lambda s, g: dict(d=s.made("Dropout", "DropoutDescriptor", s.handle, 0.5, None, 0, 7)), "was set without states"),
    "too small a mask": (lambda s, g: dict(size=15), "reserveSpace has 15 bytes, and 16 are needed"),
}
REFUSALS = [(softmax, "cudnnBadParam", OF_SOFTMAX), (convolution, "cudnnBadParam", OF_CONVOLUTION),
            (convolution, "cudnnNotSupported", OF_CONVOLUTION_NOT_SUPPORTED), (fused, "cudnnBadParam", OF_FUSED),
            (fused, "cudnnNotSupported", OF_FUSED_NOT_SUPPORTED), (pooling, "cudnnBadParam", OF_POOLING),
            (normalisation, "cudnnBadParam", OF_NORMALISATION), (dropout, "cudnnBadParam", OF_DROPOUT)]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "change", "words"),
    [pytest.param(call, error, *case, id=f"{call.__name__}: {name}") for call, error, cases in REFUSALS for name, case in cases.items()],
)
def test_it_refuses(s, call, error, change, words):
    function, given = call(s)
    with pytest.raises(getattr(s.b, error), match=words):
        function(*(given | change(s, given)).values())


@pytest.mark.parametrize("call", dict.fromkeys(call for call, *_ in REFUSALS))
def test_it_takes_what_is_right(s, call):
    function, given = call(s)
    function(*given.values())


# -- algorithms
DIRECTIONS = ("Forward", "BackwardData", "BackwardFilter")


def performances(s, direction, find=False, size=0, **how):
    """(algorithm, status, memory, determinism, math) of each, in the order they come in, and what can be asked of the same convolution."""
    xd, wd, yd, c = s.tensor((2, 4, 6, 6)), s.filters((4, 4, 3, 3)), s.tensor((2, 4, 6, 6)), s.convolution(**how)
    at = {id(d): s.room((2, 4, 6, 6)) for d in (xd, wd, yd)}
    a, b, out = {"Forward": (xd, wd, yd), "BackwardData": (wd, yd, xd), "BackwardFilter": (xd, yd, wd)}[direction]
    most = getattr(s.b, f"cudnnGetConvolution{direction}AlgorithmMaxCount")(s.handle)
    if find:
        arrays = a, at[id(a)], b, at[id(b)], c, out, at[id(out)]
        n, all = getattr(s.b, f"cudnnFindConvolution{direction}AlgorithmEx")(s.handle, *arrays, most, s.room(size), size)
    else:
        n, all = getattr(s.b, f"cudnnGetConvolution{direction}Algorithm_v7")(s.handle, a, b, c, out, most)

    def needed(algorithm, math):
        s.b.cudnnSetConvolutionMathType(c, math)
        return getattr(s.b, f"cudnnGetConvolution{direction}WorkspaceSize")(s.handle, a, b, c, out, algorithm)

    return [(p.algo, p.status, p.memory, p.determinism, p.mathType) for p in all[:n]], needed


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("math", [0, 1, 2, 3])
def test_what_is_said_of_algorithms_is_what_they_need(s, direction, math):
    found, needed = performances(s, direction, math=math)
    able = [p for p in found if p[1] == 0]
    assert found[: len(able)] == able
    assert [needed(p[0], p[4]) for p in able] == [p[2] for p in able]
    assert {p[4] for p in found} == {0: {0}, 1: {0}, 2: {0, 2}, 3: {0}}[math]  # float32 on tensor cores only if it may be converted
    assert {p[0] for p in able if not p[3]} == {"Forward": set(), "BackwardData": {0}, "BackwardFilter": {0, 3}}[direction]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_algorithms_are_tried_within_their_memory(s, direction):
    found, _ = performances(s, direction, find=True, size=1200)
    assert {status for _, status, *_ in found} == {0, s.b.calls.dll.status("NOT_SUPPORTED"), s.b.calls.dll.status("ALLOC_FAILED")}
    assert all(memory <= 1200 for _, status, memory, *_ in found if status == 0)


def test_trying_algorithms_leaves_rubbish_in_the_result(s):
    x, w, y = s.put(numbers(0, (2, 4, 6, 6))), s.put(numbers(1, (4, 4, 3, 3))), s.put(numbers(2, (2, 4, 6, 6)))
    s.b.cudnnFindConvolutionForwardAlgorithmEx(
        s.handle, s.tensor((2, 4, 6, 6)), x, s.filters((4, 4, 3, 3)), w, s.convolution(), s.tensor((2, 4, 6, 6)), y, 4, None, 0
    )
    assert np.isnan(s.at(y)).all()


def test_algorithms_can_be_switched_off_and_made_hungry(s, double):
    usual, _ = performances(s, "Forward")
    double.algorithms.only, double.algorithms.workspace = {1}, 10
    found, _ = performances(s, "Forward")
    memory = {p[0]: p[2] for p in usual}
    assert [(p[0], p[2]) for p in found if p[1] == 0] == [(1, 10 * memory[1])]


# -- what tests ask of it
def test_calls_are_noted_with_what_their_descriptors_said(s, double):
    function, given = softmax(s)
    double.calls()
    function(*given.values())
    (call,) = double.calls()
    assert (call["name"], call["algo"], call["x"]) == ("cudnnSoftmaxForward", 1, given["x"])
    assert call["xDesc"] == (np.dtype("f4"), (2, 3, 4, 5), (60, 20, 5, 1))
    assert double.calls() == []


def test_a_call_fails_when_it_is_told_to(s, double):
    function, given = softmax(s)
    double.fail("cudnnSoftmaxForward", "EXECUTION_FAILED", times=2)
    for _ in range(2):
        with pytest.raises(s.b.cudnnExecutionFailed, match="cudnnSoftmaxForward: told to fail"):
            function(*given.values())
    function(*given.values())


def test_living_descriptors_are_counted(s, double):
    before = double.living()["TensorDescriptor"]
    x = s.b.cudnnCreateTensorDescriptor()
    assert double.living()["TensorDescriptor"] == before + 1
    s.b.cudnnDestroyTensorDescriptor(x)
    assert double.living()["TensorDescriptor"] == before
    with pytest.raises(s.b.cudnnBadParam, match="destroyed before"):
        s.b.cudnnDestroyTensorDescriptor(x)


def test_handles_are_counted(s, double):
    before = len(double.handles)
    handle = s.b.cudnnCreate()
    s.b.cudnnSetStream(handle, 64)
    assert (len(double.handles), s.b.cudnnGetStream(handle)) == (before + 1, 64)
    s.b.cudnnDestroy(handle)
    assert len(double.handles) == before
    with pytest.raises(s.b.cudnnBadParam, match="handle is no handle, or was destroyed"):
        s.b.cudnnDestroy(handle)


def test_what_breaks_in_the_double_is_not_lost(s, monkeypatch):
    from cudnn_double import softmaxes

    monkeypatch.setattr(softmaxes, "_softmax", lambda *args: 1 // 0)
    function, given = softmax(s)
    with pytest.raises(s.b.cudnnInternalError, match=r"cudnnSoftmaxForward: the double broke: ZeroDivisionError.*Traceback"):
        function(*given.values())


def test_words_are_those_of_the_last_error(s):
    with pytest.raises(s.b.cudnnBadParam, match="x is null"):
        function, given = softmax(s)
        function(*(given | dict(x=None)).values())
    with pytest.raises(s.b.cudnnBadParam, match="n <= 0"):
        s.b.cudnnSetTensor4dDescriptor(s.made("Tensor"), 0, 0, 0, 1, 1, 1)


def test_a_call_waits_for_its_stream_and_is_not_counted(s):
    import environment

    function, given = softmax(s)
    before = environment.counts()
    function(*given.values())
    assert environment.counts() == before


OTHER_STREAM = """
import sys
sys.path.insert(0, {tests!r})
import cudnn_double
cudnn_double.enter(deferred=1)
import numpy as np, pycuda.driver as cuda
from autotape import backend
backend.set("cudnn")
k = backend.kernels()
from autotape.backends.cudnn_backend import binding as b, handle
from autotape.backends.cudnn_backend.descriptors import factor, tensor

x, y = k.adopt(np.ones((1, 1, 2, 2), "f4")), k.adopt(np.ones((1, 1, 2, 2), "f4"))
k.to_numpy(x), k.to_numpy(y)
streams, t = [cuda.Stream(flags=1) for _ in range(2)], tensor(x.shape, x.dtype)
cuda.memset_d32_async(x.address, 0x40000000, 4, streams[0])  # 2.0
for stream in reversed(streams):
    at = handle.ready()
    b.cudnnSetStream(at, stream.handle)
    b.cudnnAddTensor(at, factor(1.0, x.dtype), t, x.address, factor(0.0, x.dtype), t, y.address)
    print(*k.to_numpy(y).ravel())
"""


def test_other_streams_work_is_not_waited_for(double):
    script = OTHER_STREAM.format(tests=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert done.stdout.splitlines() == ["1.0 1.0 1.0 1.0", "2.0 2.0 2.0 2.0"], done.stderr


def program(*arguments, **environment):
    run = Path(__file__).parent / "cudnn_double" / "run.py"
    return subprocess.run([sys.executable, run, *arguments], capture_output=True, text=True, timeout=100, env=os.environ | environment)


def test_a_program_runs_on_it(double):
    assert any(line.split() == ["cudnn", "available"] for line in program("-m", "autotape", "backends").stdout.splitlines())


def test_a_program_is_told_in_one_line_why_it_can_not(double):
    (line,) = program("-m", "autotape", AUTOTAPE_CUDNN="/nowhere").stderr.splitlines()
    assert line.startswith("the double of cuDNN needs its descriptors: no libcudnn that loads (/nowhere: ")
