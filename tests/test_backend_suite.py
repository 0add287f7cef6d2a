"""Every kernel of every backend that can be used here against the numpy backend's: the conformance suite, and that it finds faults."""

from __future__ import annotations

import numpy as np
import pytest

from autotape import backend
from autotape.backends.numpy_backend import NumpyKernels
from autotape.backends.pycuda_backend.absent import ABSENT
from autotape.testing.backend_suite import Call, check_kernel, kernel_calls
from autotape.testing.strict import CONTRACT

CALLS = kernel_calls()
SAYS_SOMETHING = {"account", "synchronize", "is_alone", "adopt", "to_numpy", "compile_elementwise", "compiles"}



def test_the_suite_leaves_no_kernel_out():
    assert set(CALLS) == set(CONTRACT) - SAYS_SOMETHING


@pytest.mark.parametrize("call", CALLS.values(), ids=str)
@pytest.mark.parametrize("name", ["numpy", "strict", "onednn", "pycuda"])
def test_a_kernel_gives_what_numpys_gives(name, call):
    if name == "pycuda" and backend.get() != "pycuda":
        pytest.skip("pytest --backend pycuda")
    if (why := backend.available()[name]) is not None:
        pytest.skip(why)
    if type(backend.load(name)) is NumpyKernels and name != "numpy":
        pytest.fail("no backend of its own")
    if name == "pycuda" and call.name in ABSENT:
        pytest.skip("it lacks that one")
    check_kernel(backend.load(name), call)


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_a_kernel_that_pycuda_lacks_says_where_to_compute(name):
    if backend.get() not in ("pycuda", "cudnn"):
        pytest.skip("pytest --backend pycuda")
    with pytest.raises(TypeError, match=rf"backend '{backend.get()}' has no kernel '{name}'.*numpy"):
        getattr(backend.kernels(), name)(*CALLS[name].args)


class Wrong(NumpyKernels):
    """A backend with one fault for each promise."""

    name = "wrong"

    def tanh(self, x):
        return np.asarray(np.tanh(x) + 1e-3)

    def exp(self, x):
        return np.exp(x).astype(np.float64)

    def negative(self, x):
        np.negative(x, out=x)
        return x.copy()

    def sqrt(self, x):
        return np.sqrt(x).ravel() if not x.flags.c_contiguous else np.sqrt(x)

    def cos(self, x):
        return np.cos(x).tolist()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("tanh", "result 0"), ("exp", "float32, row-major"), ("negative", "changed"), ("sqrt", "spread"), ("cos", "list")],
)
def test_the_suite_finds_a_fault(kernel, message):
    with pytest.raises(AssertionError, match=message):
        check_kernel(Wrong(), CALLS[kernel])


def test_the_suite_finds_a_writer_that_does_not_write():
    class Lazy(NumpyKernels):
        name = "lazy"

        def update_sgd(self, *args):
            return None

    call = CALLS["update_sgd"]
    assert isinstance(call, Call) and call.written == (0,)
    with pytest.raises(AssertionError, match="update_sgd of float64"):
        check_kernel(Lazy(), call)
