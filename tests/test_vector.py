"""flatten, and DLPack both ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, tree
from autotape.testing import check_grads
from autotape.testing.strategies import arrays, shapes

close = np.testing.assert_array_equal
HOST = pytest.mark.numpy_only("NumPy takes host memory alone")
PARAMS = {"w": np.arange(6.0, dtype=np.float32).reshape(2, 3), "b": [np.zeros(2), 1.5], "n": 3, "mode": "same", "flag": True, "none": None}


@settings(max_examples=3 * settings().max_examples // 10)
@given(st.lists(arrays(shapes(0, 3), st.sampled_from([np.float32, np.float64])), max_size=4))
def test_there_and_back(leaves):
    v, unflatten = at.flatten(leaves)
    assert v.ndim == 1 and v.size == sum(x.size for x in leaves)
    for x, y in zip(leaves, unflatten(v), strict=True):
        np.testing.assert_array_equal(x, y, strict=True)
        assert y.flags.writeable and not np.may_share_memory(y, v)


def test_types_stay_and_what_is_no_float_passes_by():
    v, unflatten = at.flatten(PARAMS)
    assert type(v) is np.ndarray and v.dtype == np.float64 and v.tolist() == [0, 1, 2, 3, 4, 5, 0, 0, 1.5, 3]
    back = unflatten(2 * v)
    close(back["w"], 2 * PARAMS["w"], strict=True)
    assert back["b"][1] == 3.0 and type(back["b"][1]) is float
    assert back["n"] == 6.0 and back["mode"] == "same" and back["flag"] is True and back["none"] is None
    with pytest.raises(TypeError, match=r"flatten: can't differentiate with respect to ndarray\(3,\) int64"):
        at.flatten({"k": np.arange(3)})
    assert at.flatten({})[0].shape == (0,) and at.flatten({})[1](np.zeros(0)) == {}


def test_both_ways_are_differentiable():
    v, unflatten = at.flatten({"w": np.array([[1.0, 2.0]]), "b": 3.0})
    check_grads(lambda v: np.sum(unflatten(v)["w"] ** 3) * unflatten(v)["b"], (v,))
    check_grads(lambda p: at.flatten(p)[0] ** 2, ({"w": np.array([[1.0, 2.0]]), "b": [np.array(3.0)]},))


def test_it_serves_an_optimiser_of_vectors():
    def loss(p):
        return np.sum((p["w"] - 1) ** 2) + (p["b"] - 2) ** 2

    v, unflatten = at.flatten({"w": np.zeros(3), "b": 0.0})
    gradient = at.grad(lambda v: loss(unflatten(v)))
    for _ in range(100):
        v = v - 0.2 * gradient(v)
    np.testing.assert_allclose(unflatten(v)["w"], np.ones(3), 1e-12)
    assert abs(unflatten(v)["b"] - 2) < 1e-12


def test_tensors_params_and_other_backends():
    p = at.Param(np.ones(2))
    v, unflatten = at.flatten([p, at.array([3.0])])
    assert type(v) is at.Tensor and unflatten(v)[1].numpy().tolist() == [3.0]
    raw = backend.kernels().adopt(np.ones(2))
    assert type(at.flatten([raw, 3.0])[0]) is type(raw)
    with backend.use("strict"):
        v, unflatten = at.flatten([at.array([1.0, 2.0]), at.array(3.0)])
        assert tree.map(lambda t: t.numpy().tolist(), unflatten(v)) == [[1.0, 2.0], 3.0]


def test_a_vector_of_another_length_is_refused():
    _, unflatten = at.flatten(PARAMS)
    with pytest.raises(ValueError, match=r"unflatten: it takes a vector of 10 elements, not ndarray\(3,\) float64"):
        unflatten(np.zeros(3))


# ---------------------------------------------------------------- DLPack


@HOST
def test_dlpack_out_and_in():
    t = at.array(np.arange(3.0))
    close(np.from_dlpack(t), t.numpy())
    assert t.__dlpack_device__()[0] == 1
    x = np.arange(4.0)
    shared = at.from_dlpack(x)
    assert type(shared) is at.Tensor and np.may_share_memory(shared.numpy(), x)
    with backend.use("strict"):
        close(np.from_dlpack(at.array([1.0, 2.0])), [1, 2])


def test_dlpack_of_a_tracked_tensor_raises():
    with pytest.raises(TypeError, match=r"DLPack's export of t .*stop_gradient"):
        at.grad(lambda x: np.sum(np.from_dlpack(x)))(np.ones(2))


def test_a_tree_that_changes_later_changes_nothing():
    p = {"a": 1.0, "b": 2.0}
    v, unflatten = at.flatten(p)
    p["a"] = p.pop("a")
    p["c"] = 3.0
    assert unflatten(v) == {"a": 1.0, "b": 2.0}


@HOST
def test_dlpack_says_that_it_is_read_only_where_it_can():
    p = at.Param(np.arange(3.0))
    close(np.from_dlpack(p), [0, 1, 2])
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert not np.from_dlpack(at.array([1.0])).flags.writeable


def test_array_takes_what_has_a_numpy_array():
    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    assert at.array(Foreign()).numpy().tolist() == [0, 1, 2]
    assert at.array(at.Param(np.ones(2))).numpy().tolist() == [1, 1]
    with pytest.raises(TypeError, match="would drop its derivative"):
        at.grad(lambda p: np.sum(at.array(p)))(at.Param(np.ones(2)))
