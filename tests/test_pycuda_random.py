"""The pycuda backend's random numbers are those of NumPy's Philox, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotape.backends.numpy_backend import NumpyKernels

N = NumpyKernels()
few = settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
DTYPES = ["float64", "float32", "float16"]


@few
@given(st.integers(0, 2**128 - 1) | st.sampled_from([0, 1, 2**64 - 1, 2**64, 2**128 - 1]),
       st.lists(st.integers(0, 9), max_size=3).map(tuple), st.sampled_from(DTYPES))  # fmt: skip
def test_any_seed_and_shape(k, seed, shape, dtype):
    np.testing.assert_array_equal(k.uniform(seed, shape, dtype), N.uniform(seed, shape, dtype), strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [255, 256, 257, 1024, 8191, 100_003])
def test_sizes(k, size, dtype):
    np.testing.assert_array_equal(k.uniform(7, (size,), dtype), N.uniform(7, (size,), dtype), strict=True)


def test_threads_go_on_to_further_numbers(k, monkeypatch):
    from autotape.backends.pycuda_backend import randomness

    monkeypatch.setattr(randomness, "blocks_for", lambda n: 2)
    np.testing.assert_array_equal(k.uniform(7, (9001,), np.float32), N.uniform(7, (9001,), np.float32))


def test_bfloat16_has_the_upper_bits_of_float32(k):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    found = np.asarray(k.uniform(3, (1001,), bfloat16))
    assert found.dtype == bfloat16
    np.testing.assert_array_equal(found.astype(np.float32), np.floor(N.uniform(3, (1001,), np.float32) * 256) / 256)


def test_numpys_integers_are_seeds_and_lengths(k):
    x = k.uniform(np.uint64(2**64 - 1), (np.int64(40), np.uint8(50)), np.float32)
    np.testing.assert_array_equal(x, N.uniform(2**64 - 1, (40, 50), np.float32), strict=True)
    assert {type(n) for n in (*x.shape, *x.strides, x.size)} == {int}


def test_what_is_refused(k):
    for seed in (-1, 2**128):
        with pytest.raises(ValueError, match=rf"uniform: the seed {seed} is not in \[0, 2\*\*128\)"):
            k.uniform(seed, (3,), np.float32)
    with pytest.raises(TypeError, match=r"uniform: numbers in \[0, 1\) are float16, bfloat16, float32 or float64, not int64"):
        k.uniform(0, (3,), np.int64)
