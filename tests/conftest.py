"""Hypothesis profiles: "ci", the default, draws the same examples on every run; "nightly" draws ten times as many new ones.

HYPOTHESIS_PROFILE=nightly names the seed at the top; --hypothesis-seed=SEED beside it draws the same again.  Tests that ask
for a number of examples of their own do so as a part of the profile's: settings(max_examples=settings().max_examples // 2).

`--backend NAME` makes a backend the default of every test.  `--backend pycuda` takes the CUDA driver that is there, or else the emulated
one of tests/cuda_emulator, and `--backend cudnn` with it the double of cuDNN in tests/cudnn_double.  Tests whose subject is NumPy's arrays
or another backend have the mark numpy_only, with the reason.
"""

import ctypes
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from autotape import backend

sys.path += [str(Path(__file__).parent / folder) for folder in (".", "support", "cuda_emulator")]
import cudnn_double
import environment

EMULATED = {"pycuda": environment, "cudnn": cudnn_double}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("nightly", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(PROFILE)


def pytest_addoption(parser):
    parser.addoption("--backend", default="numpy", help="the default backend of every test")


def pytest_configure(config):
    config.addinivalue_line("markers", "numpy_only(reason): skipped where --backend names one whose arrays are not NumPy's")
    name = config.getoption("--backend")
    if name in EMULATED:
        emulate_unless_there_is_a_driver(name)
    if (why := backend.available().get(name)) is not None:
        raise pytest.UsageError(f"--backend {name}: {why}")
    backend.set(name)
    if PROFILE == "nightly" and config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = random.SystemRandom().getrandbits(32)


def pytest_collection_modifyitems(config, items):
    name = config.getoption("--backend")
    if backend.kernels().array is np.ndarray:
        return
    for item in items:
        if (mark := item.get_closest_marker("numpy_only")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"not on {name}: {mark.args[0]}"))


def pytest_report_header(config):
    if PROFILE == "nightly":
        seed = config.getoption("hypothesis_seed")
        return f"the same examples again: HYPOTHESIS_PROFILE=nightly python -m pytest --hypothesis-seed={seed}"


def emulate_unless_there_is_a_driver(name):
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        if why := EMULATED[name].why_not():
            raise pytest.UsageError(f"--backend {name}: there is no CUDA driver ({e}), and {why}") from None
        EMULATED[name].enter()


@pytest.fixture(scope="session")
def k():
    """The table of the pycuda backend, for its own tests."""
    if backend.get() != "pycuda":
        pytest.skip("a test of the pycuda backend's kernels: pytest --backend pycuda")
    return backend.kernels()


@pytest.fixture(scope="session")
def cudnn():
    """The table of the cudnn backend, for its own tests."""
    if backend.get() != "cudnn":
        pytest.skip("a test of the cudnn backend: pytest --backend cudnn")
    return backend.kernels()


@pytest.fixture
def double(cudnn):
    """The double of cuDNN, with no calls noted yet, for tests of what cuDNN is asked."""
    if not cudnn_double.is_entered():
        pytest.skip("a test of what the double of cuDNN is asked, and this is a real one")
    double = cudnn_double.double()
    double.reset()
    yield double
    double.reset()
