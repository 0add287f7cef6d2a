"""The pycuda backend's updates against NumPy's: any layout, state in float32 beside the halves, one launch each."""

from __future__ import annotations

import numpy as np
import pytest

from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
UPDATES = {  # how many arrays of state, and the numbers between these and scale
    "update_sgd": (0, (0.1,)),
    "update_momentum": (1, (0.1, 0.9)),
    "update_nesterov": (1, (0.1, 0.9)),
    "update_adagrad": (1, (0.1, 1e-6)),
    "update_rmsprop": (1, (0.1, 0.9, 1e-6)),
    "update_adadelta": (2, (0.1, 0.9, 1e-6)),
    "update_adam": (2, (0.1, 0.9, 0.999, 1e-8)),
}
TOLERANCES = {"float64": 1e-14, "float32": 2e-6, "float16": 1e-3}
EACH = pytest.mark.parametrize("name", UPDATES)


def arrays(name, shape, dtype):
    """w, g and the state, which is positive."""
    rng, state = np.random.default_rng(0), np.result_type(dtype, np.float32)
    return [rng.normal(size=shape).astype(dtype) for _ in "wg"], [rng.uniform(0.1, 1, shape).astype(state) for _ in range(UPDATES[name][0])]


def numbers(name, scale=1.0, decay=0.0, shrink=0.0):
    return (*UPDATES[name][1], scale, decay, *((shrink,) if name == "update_adam" else ()))


SHARES = [(1.0, 0.0, 0.0), (0.5, 0.01, 0.1)]  # scale, decay and shrink
CASES = [  # formulas know nothing of dtypes, nor of shapes: not all times all
    *((name, "float32", (5, 7), options) for name in UPDATES for options in SHARES),
    *((name, dtype, (5, 7), SHARES[1]) for name in ("update_momentum", "update_adam") for dtype in ("float64", "float16")),
    *(("update_adam", "float32", shape, SHARES[1]) for shape in ((), (1,), (1030,), (0, 3))),
]


@pytest.mark.parametrize(("name", "dtype", "shape", "options"), CASES, ids=str)
def test_values(k, name, dtype, shape, options):
    """For halves, to the one rounding of w."""
    (w, g), state = arrays(name, shape, dtype)
    out, *device = (k.copy(k.adopt(x)) for x in (w, *state))
    getattr(k, name)(out, out, k.adopt(g), *device, *numbers(name, *options))
    expected = w.copy()
    getattr(N, name)(expected, w, g, *state, *numbers(name, *options))
    for found, e in zip((out, *device), (expected, *state), strict=True):
        found, tolerance = np.asarray(found), TOLERANCES[e.dtype.name]
        assert found.dtype == e.dtype and found.shape == e.shape
        np.testing.assert_allclose(found.astype(float), e.astype(float), tolerance, tolerance)


@pytest.mark.parametrize("name", ["update_momentum", "update_adam"])
def test_layouts_and_a_result_of_its_own(k, name):
    (w, g), state = arrays(name, (6, 4), np.float64)
    W, G = k.transpose(k.adopt(np.ascontiguousarray(w.T)), None), k.broadcast_to(k.adopt(g[:1]), (6, 4))
    out, *device = k.zeros((6, 4), np.float64), *(k.copy(k.adopt(s)) for s in state)
    getattr(k, name)(out, W, G, *device, *numbers(name))
    expected = np.empty_like(w)
    getattr(N, name)(expected, w, np.broadcast_to(g[:1], (6, 4)), *state, *numbers(name))
    np.testing.assert_allclose(out, expected, 1e-14, 1e-14)
    np.testing.assert_array_equal(W, w)


@EACH
def test_numbers_that_were_adopted_are_written_to(k, name):
    (w, g), state = arrays(name, (), np.float32)
    out, *device = (k.adopt(x) for x in (w, *state))
    getattr(k, name)(out, out, k.adopt(g), *device, *numbers(name))
    getattr(N, name)(w, w, g, *state, *numbers(name))
    for found, expected in zip((out, *device), (w, *state), strict=True):
        np.testing.assert_allclose(found, expected, 2e-6)


@EACH
def test_without_decay_infinite_parameters_stay(k, name):
    (w, g), state = arrays(name, (7,), np.float32)
    w[0] = np.inf
    out, *device = (k.copy(k.adopt(x)) for x in (w, *state))
    getattr(k, name)(out, out, k.adopt(g), *device, *numbers(name, shrink=0.1))
    assert np.asarray(out)[0] == np.inf and all(np.isfinite(np.asarray(s)).all() for s in device)


@EACH
def test_each_is_one_launch_whatever_the_numbers(k, name, monkeypatch):
    """A schedule changes them at every step: the second one finds its kernel compiled."""
    from autotape.backends.pycuda_backend.compilation import compiler
    from autotape.backends.pycuda_backend.launch import Kernel

    launched, start = [], Kernel.start
    monkeypatch.setattr(Kernel, "start", lambda self, *args: (launched.append(self.name), start(self, *args)))
    (w, g), state = arrays(name, (7,), np.float32)
    out, g, *state = [k.copy(k.adopt(x)) for x in (w, g, *state)]
    getattr(k, name)(out, out, g, *state, *numbers(name))
    launched.clear()
    monkeypatch.setattr(compiler, "cubin", None)  # calling it would fail
    for rate in (0, 0.3):
        getattr(k, name)(out, out, g, *state, rate, *numbers(name, 0.25)[1:])
    assert len(launched) == 2


@EACH
def test_shapes_that_differ_are_refused(k, name):
    (w, g), state = arrays(name, (5,), np.float32)
    out, *state = (k.copy(k.adopt(x)) for x in (w, *state))
    with pytest.raises(ValueError, match=rf"{name}: an update takes arrays of one shape, not \(5,\), \(5,\), \(1,\)"):
        getattr(k, name)(out, out, k.adopt(g[:1]), *state, *numbers(name))
    np.testing.assert_array_equal(out, w)
