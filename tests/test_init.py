"""Initial values: their distributions, their shapes, and that autotape.random alone decides them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import autotape as at
from autotape import backend, random
from autotape.opsets import v20
from autotape.testing import StrictArray
from autotape.train import bilinear, gaussian, init, param, param0, xavier_normal, xavier_uniform

close, same = np.testing.assert_allclose, np.testing.assert_array_equal
BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]
FANS = {
    (300, 200): (300, 200),  # inputs, outputs
    (32, 16, 5, 3): (16 * 15, 32 * 15),  # K, C, window
    (40, 50, 7): (350, 280),
    (8, 4, 3, 3, 3): (108, 216),
    (5000,): (5000, 1),
}


@pytest.mark.parametrize("dims", FANS)
def test_xavier_by_fans(dims):
    assert init.fans(dims) == FANS[dims]
    with random.use(0):
        u, n = xavier_uniform(*dims, gain=2.0), xavier_normal(*dims, gain=2.0, dtype=np.float64)
    s = 2 * math.sqrt(6 / sum(FANS[dims]))
    assert u.shape == n.shape == dims and u.dtype == np.float32 and n.dtype == np.float64
    u, n = np.asarray(u), np.asarray(n)
    assert u.min() >= -s * (1 + 1e-6) and u.max() <= s * (1 + 1e-6)
    spread = 6 * math.sqrt(1 / u.size)  # six standard errors
    close([u.std() * math.sqrt(3) / s, n.std() * math.sqrt(3) / s], 1, rtol=spread)
    close([u.mean() / s, n.mean() / s], 0, atol=spread)


def test_small_shapes():
    assert (init.fans(()), init.fans((0, 3)), init.fans((0, 2, 3))) == ((1, 1), (0, 3), (6, 0))
    assert xavier_uniform().shape == () and xavier_normal(0, 3).shape == (0, 3) and xavier_uniform(0).shape == (0,)


def test_gaussian():
    with random.use(1):
        w = np.asarray(gaussian(100, 100)), np.asarray(gaussian(100, 100, mean=3.0, std=2.0, dtype=np.float64))
    close([w[0].std(), w[1].std(), w[1].mean()], [0.01, 2, 3], rtol=0.05)
    assert [x.dtype for x in w] == [np.float32, np.float64]


@pytest.mark.parametrize("make", [xavier_uniform, xavier_normal, gaussian, param])
@pytest.mark.parametrize("name", BACKENDS)
def test_the_generator_decides_on_every_backend(make, name):
    def numbers(x):
        return np.array(x.numpy() if isinstance(x, at.Param) else x)

    with random.use(7):
        expected = numbers(make(3, 2))
        other = numbers(make(3, 2))
    with backend.use(name) as k, random.use(7):
        x = make(3, 2)
        x = x.value if isinstance(x, at.Param) else x
        assert type(x) is k.array
        same(k.to_numpy(x), expected)
    assert not np.array_equal(expected, other)


def test_params():
    w, b = param(3, 4), param0(4)
    assert type(w) is type(b) is at.Param and w.shape == (3, 4) and w.dtype == b.dtype == np.float32
    same(b.numpy(), np.zeros(4))
    assert w.numpy().std() > 0.1
    same(param(2, 3, init=lambda *dims, dtype: np.full(dims, 5, dtype), dtype=np.float64).numpy(), np.full((2, 3), 5.0), strict=True)
    assert param0(dtype=np.float64).shape == () and param0(2, dtype=np.float64).dtype == np.float64
    with backend.use("strict"):
        assert type(param0(2).value) is StrictArray


def test_param_hands_options_to_its_init():
    with random.use(2):
        w, v = param(300, 200, init=gaussian, mean=3.0, std=2.0, dtype=np.float64), param(300, 200, gain=5.0)
    close([w.numpy().mean(), w.numpy().std()], [3, 2], rtol=0.02)
    close(np.abs(v.numpy()).max(), 5 * math.sqrt(6 / 500), rtol=1e-3)
    with pytest.raises(TypeError, match=r"xavier_uniform\(\) got an unexpected keyword argument 'std'"):
        param(3, 4, std=2.0)


@pytest.mark.parametrize("make", [xavier_uniform, xavier_normal, gaussian, bilinear, param, param0])
def test_dims_are_lengths_of_axes(make):
    for n in [(3, 4), 2.5, "a", None, np.ones(3)]:
        with pytest.raises(TypeError, match=f"{make.__name__}: the length of each axis is an argument of its own, a whole number, not "):
            make(n)
    with pytest.raises(ValueError, match=rf"{make.__name__}: the length of an axis is not negative, but of \(3, 3, -1\) one is"):
        make(3, 3, -1)
    assert make(np.int64(3), 3, 2).shape == (3, 3, 2)


def test_bilinear_windows():
    close(bilinear(1, 1, 4), [[[0.25, 0.75, 0.75, 0.25]]])
    close(bilinear(1, 1, 3), [[[0.5, 1, 0.5]]])
    close(bilinear(1, 1, 5), [[[1 / 3, 2 / 3, 1, 2 / 3, 1 / 3]]], rtol=1e-6)
    close(bilinear(1, 1, 1), [[[1]]])
    w = np.asarray(bilinear(3, 3, 4, 2, dtype=np.float64))
    close(w[1, 1], np.outer([0.25, 0.75, 0.75, 0.25], [0.5, 0.5]))
    assert w.dtype == np.float64 and not w[~np.eye(3, dtype=bool)].any()
    for dims in [(3, 2, 4, 4), (3, 3), ()]:
        with pytest.raises(ValueError, match=r"bilinear: the shape is \(K, K, \*window\), not \("):
            bilinear(*dims)
    with pytest.raises(TypeError, match="bilinear: dtype must be of floats, not int64"):
        bilinear(1, 1, 4, dtype=np.int64)


@pytest.mark.parametrize("factor", [2, 3])
def test_deconv4_enlarges_by_linear_interpolation(factor):
    ramp = np.broadcast_to(np.arange(6.0), (1, 2, 6, 6))
    y = v20.deconv4(bilinear(2, 2, *[2 * factor - factor % 2] * 2, dtype=np.float64), ramp, stride=factor, padding=factor // 2)
    assert y.shape == (1, 2, 6 * factor, 6 * factor)
    inner = np.asarray(y)[0, 1, factor:-factor, factor:-factor]  # the borders see zeros
    close(np.diff(inner, axis=1), 1 / factor, rtol=1e-9)
    close(np.diff(inner, axis=0), 0, atol=1e-12)
