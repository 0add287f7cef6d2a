"""Products by cuBLAS: how scikit-cuda is imported, and what cuBLAS is asked, told by a test double of it (tests/cublas_double) on the
CUDA emulator."""

import ctypes
import gc
import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from autotape import math_mode

sys.path.insert(0, str(Path(__file__).parent / "cublas_double"))
import cublas_double

from autotape.backends.pycuda_backend import cublas, scikit_cuda
from autotape.backends.pycuda_backend.driver import DeviceError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def forget():
    """As in a process that has not asked for cuBLAS yet."""
    if cublas.library.cache_info().currsize and (found := cublas.library()) is not None:
        found.close()
    cublas.library.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "skcuda"]:
        del sys.modules[name]


@pytest.fixture
def named(monkeypatch):
    """A function that lets AUTOTAPE_CUBLAS name a library, as at the start of a process."""
    forget()
    yield lambda name: monkeypatch.setenv(scikit_cuda.VARIABLE, str(name))
    forget()


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The path of the double."""
    if reason := cublas_double.why_not():
        pytest.skip(reason)
    return cublas_double.build(tmp_path_factory.mktemp("cublas_double"))


class Double:
    """What tests see of the double: the calls since they last looked, each a dict of strings."""

    def __init__(self, path):
        self._dll = ctypes.CDLL(str(path))
        self._dll.cublas_double_calls.restype = ctypes.c_char_p
        self.handles, self.fail = self._dll.cublas_double_handles, self._dll.cublas_double_fail
        self.calls()

    def calls(self):
        lines = self._dll.cublas_double_calls().decode().splitlines()
        self._dll.cublas_double_forget()
        return [{"name": line.split()[0], **dict(word.split("=") for word in line.split()[1:])} for line in lines]


@pytest.fixture
def double(k, library, named):
    from autotape.backends.pycuda_backend.driver import device

    if "emula" not in device().name:
        pytest.skip("the double of libcublas needs the CUDA emulator, whose memory it can read")
    named(library)
    return Double(library)


def numbers(seed, shape, dtype="f4"):
    return (np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype)


def asked(call, *names):
    return [call[name] for name in names]


# -- the import


def test_the_import_leaves_nothing_behind(library, named):
    named(library)
    load, before = ctypes.LibraryLoader.LoadLibrary, set(sys.modules)
    module = scikit_cuda.load()
    assert ctypes.LibraryLoader.LoadLibrary is load
    assert not {"pkg_resources", "skcuda.cuda"} & (set(sys.modules) - before)
    assert module._cublas_version == 13010
    assert sys.modules["skcuda.utils"].get_soname.__module__ == "skcuda.utils"
    assert scikit_cuda.load() is module


@pytest.mark.parametrize("name", ["/nowhere/libcublas.so.13", "libm.so.6"])
def test_a_named_library_must_load(library, named, name):
    named(name)
    with pytest.raises(DeviceError, match=f"AUTOTAPE_CUBLAS names {name}: .*libcublas"):
        cublas.library()


def test_a_library_of_an_old_version(library, named, tmp_path):
    source, old = tmp_path / "old.c", tmp_path / "libcublas.so.11"
    source.write_text("int cublasGetProperty(int which, int* value) { *value = 11 - which; return 0; }")
    subprocess.run(["g++", "-xc", "-shared", "-fPIC", "-o", old, source], check=True)
    named(old)
    with pytest.raises(DeviceError, match=r"is cuBLAS 11\.10; 12 or newer is needed"):
        cublas.library()


def test_none_switches_it_off(named):
    named("none")
    assert cublas.library() is None


# -- what cuBLAS is asked


def transposed(k, x):
    return k.transpose(k.adopt(np.ascontiguousarray(x.swapaxes(-1, -2))), (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@pytest.mark.parametrize(
    ("left", "right", "ops", "leading"),
    [
        ("rows", "rows", "nn", ["5", "4"]),
        ("rows", "columns", "tn", ["4", "4"]),
        ("columns", "rows", "nt", ["5", "3"]),
        ("columns", "columns", "tt", ["4", "3"]),
    ],
)
def test_transposed_operands_are_read_where_they_lie(k, double, left, right, ops, leading):
    a, b = numbers(0, (3, 4)), numbers(1, (4, 5))
    x, w = (transposed(k, m) if how == "columns" else k.adopt(m) for m, how in ((a, left), (b, right)))
    np.testing.assert_allclose(k.to_numpy(k.matmul(x, w)), a @ b, 1e-5, 1e-5)
    (call,) = double.calls()
    assert asked(call, "name", "ops", "lda", "ldb", "m", "n", "k") == ["gemm", ops, *leading, "5", "3", "4"]


def test_parts_of_matrices(k, double):
    a, b = numbers(0, (6, 9)), numbers(1, (8, 7))
    x, w = k.getitem(k.adopt(a), (slice(1, 5), slice(2, 6))), k.getitem(k.adopt(b), (slice(0, 8, 2), slice(3, 6)))
    np.testing.assert_allclose(k.to_numpy(k.matmul(x, w)), a[1:5, 2:6] @ b[::2, 3:6], 1e-5, 1e-5)
    assert asked(double.calls()[0], "ops", "lda", "ldb") == ["nn", "14", "9"]


STACKS = {
    # shapes of a and b, and the calls: how many, and of how many matrices
    "stack by matrix": ((5, 3, 4), (4, 2), [1]),
    "stack by stack": ((5, 3, 4), (5, 4, 2), [5]),
    "matrix by stack": ((3, 4), (5, 4, 2), [5]),
    "two axes": ((2, 5, 3, 4), (2, 5, 4, 2), [10]),
    "crossed": ((2, 1, 3, 4), (5, 4, 2), [5, 5]),
    "broadcast in the middle": ((2, 5, 3, 4), (2, 1, 4, 2), [2]),
    "vectors": ((4,), (4,), [1]),
    "matrix by vector": ((3, 4), (4,), [1]),
    "vector by stack": ((4,), (5, 4, 2), [5]),
    "one row": ((1, 4), (4, 1), [1]),
}


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_stacks(k, double, name, dtype):
    a_shape, b_shape, counts = STACKS[name]
    a, b = numbers(0, a_shape, dtype), numbers(1, b_shape, dtype)
    np.testing.assert_allclose(k.to_numpy(k.matmul(k.adopt(a), k.adopt(b))), a @ b, 1e-5, 1e-5)
    calls = double.calls()
    assert [int(c["count"]) for c in calls] == counts
    assert {c["name"] for c in calls} == {"gemm" if max(counts) == 1 else "batched"}


def test_transposed_stacks(k, double):
    a, b = numbers(0, (5, 3, 4)), numbers(1, (4, 5, 2))
    y = k.matmul(k.adopt(a), k.transpose(k.adopt(b), (1, 0, 2)))
    np.testing.assert_allclose(k.to_numpy(y), a @ b.transpose(1, 0, 2), 1e-5, 1e-5)
    assert asked(double.calls()[0], "count", "lda") == ["5", "10"]


@pytest.mark.parametrize("mode", ["pedantic", "default", "fast"])
@pytest.mark.parametrize(("dtype", "data", "compute"), [
    ("f4", "0", {"pedantic": "69", "default": "68", "fast": "77"}), ("f8", "1", {"pedantic": "71", "default": "70", "fast": "70"}),
    ("f2", "2", {"pedantic": "69", "default": "68", "fast": "68"}), (BFLOAT16, "14", {"pedantic": "69", "default": "68", "fast": "68"}),
])  # fmt: skip
def test_dtypes_and_math_modes(k, double, mode, dtype, data, compute):
    a, b = numbers(0, (3, 4), dtype), numbers(1, (4, 5), dtype)
    with math_mode.use(mode):
        y = k.to_numpy(k.matmul(k.adopt(a), k.adopt(b)))
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype("f8"), a.astype("f8") @ b.astype("f8"), float(ml_dtypes.finfo(dtype).eps), 1e-5)
    math = {"pedantic": "2", "default": "16", "fast": "0"}[mode]
    assert asked(double.calls()[0], "type", "compute", "math") == [data, compute[mode], math]


def test_bias_residual_and_activation_follow_it(k, double):
    a, b, bias, z = numbers(0, (2, 3, 4)), numbers(1, (4, 5)), numbers(2, (5,)), numbers(3, (2, 3, 5))
    y = k.matmul_bias_act(*map(k.adopt, (a, b, bias, z)), "relu")
    np.testing.assert_allclose(k.to_numpy(y), np.maximum(a @ b + z + bias, 0), 1e-5, 1e-5)
    assert len(double.calls()) == 1


# -- what it is not asked


def neither_rows_nor_columns(k):
    return k.getitem(k.adopt(numbers(0, (6, 8))), (slice(None, None, 2), slice(None, None, 2))), k.adopt(numbers(1, (4, 2)))


def backwards(k):
    return k.getitem(k.adopt(numbers(0, (3, 4))), slice(None, None, -1)), k.adopt(numbers(1, (4, 2)))


def overlapping(k):
    x = k.adopt(numbers(0, (9,)))
    from autotape.backends.pycuda_backend.array import view

    return view(x, (6, 4), (4, 4)), k.adopt(numbers(1, (4, 2)))


OWN = {
    "neither rows nor columns": neither_rows_nor_columns,
    "backwards": backwards,
    "overlapping rows": overlapping,
    "integers": lambda k: [k.adopt(np.arange(6).reshape(s)) for s in [(2, 3), (3, 2)]],
    "no terms": lambda k: [k.adopt(np.ones(s)) for s in [(2, 0), (0, 3)]],
    "nothing": lambda k: [k.adopt(np.ones(s)) for s in [(0, 2), (2, 3)]],
    "many calls": lambda k: [k.adopt(numbers(0, s)) for s in [(20, 1, 2, 3), (5, 3, 2)]],
}


@pytest.mark.parametrize("name", OWN)
def test_what_the_own_kernel_multiplies(k, double, name):
    a, b = OWN[name](k)
    np.testing.assert_allclose(k.to_numpy(k.matmul(a, b)), k.to_numpy(a) @ k.to_numpy(b), 1e-5, 1e-5)
    assert double.calls() == []


def test_what_the_device_has_no_product_for(k, double):
    a, b = numbers(0, (3, 4)), numbers(1, (4, 5))
    double.fail(15)
    np.testing.assert_allclose(k.to_numpy(k.matmul(k.adopt(a), k.adopt(b))), a @ b, 1e-5, 1e-5)
    assert len(double.calls()) == 1


def test_what_an_error_means(k, double):
    double.fail(13)
    with pytest.raises(DeviceError, match=r"a matrix product by cuBLAS: cublasExecutionFailed: GPU program failed"):
        k.matmul(k.adopt(np.ones((2, 2))), k.adopt(np.ones((2, 2))))


def test_what_profiles_are_told(k, double):
    x = k.adopt(np.ones((2, 2)))
    k.matmul(x, x)
    assert k.account() == ("cublas", "")


# -- threads and streams


def test_each_thread_has_a_handle_for_as_long_as_it_lives(k, double):
    x = k.adopt(np.ones((2, 2)))
    k.matmul(x, x)
    before = double.handles()
    threads = [threading.Thread(target=lambda: (k.matmul(x, x), k.matmul(x, x))) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    calls = double.calls()
    assert [c["handle"] == calls[0]["handle"] for c in calls] == [True, False, False, False, False]
    del threads, thread
    gc.collect()
    assert double.handles() == before


def test_it_works_on_the_thread_s_stream(k, double):
    import pycuda.driver as cuda

    a, b = numbers(0, (30, 40)), numbers(1, (40, 50))
    x, w, stream = k.adopt(a), k.adopt(b), cuda.Stream()
    with k.on_stream(stream):
        y = k.to_numpy(k.add(k.matmul(k.add(x, x), w), k.matmul(x, w)))
    z = k.to_numpy(k.matmul(x, w))
    np.testing.assert_allclose(y, 3 * (a @ b), 1e-5, 1e-4)
    np.testing.assert_allclose(z, a @ b, 1e-5, 1e-4)
    streams = [c["stream"] for c in double.calls()]
    assert streams[0] == streams[1]
    assert int(streams[0], 16) == stream.handle
    assert streams[2] == "0"


def test_handles_are_gone_at_exit(k, double):
    x = k.adopt(np.ones((2, 2)))
    k.matmul(x, x)
    cublas.library().close()
    assert double.handles() == 0


# -- the double


def test_the_double_refuses_what_cublas_refuses(double):
    found = cublas.library()
    handle, (one, zero) = found.handle().value, cublas._ONE_AND_ZERO["f"]
    memory = np.zeros(64, np.float32)
    good = dict(handle=handle, ta=0, tb=0, m=2, n=3, k=4, one=one, a=memory.ctypes.data, at=0, lda=2, b=memory.ctypes.data, bt=0, ldb=4,
                zero=zero, c=memory.ctypes.data, ct=0, ldc=2, compute=68, algorithm=-1)  # fmt: skip
    wrong = [("handle", 8, 1), ("ta", 3, 7), ("m", -1, 7), ("lda", 1, 7), ("ldb", 3, 7), ("ldc", 1, 7), ("a", 0, 7), ("c", 2, 7)]
    wrong += [("one", None, 7), ("bt", 1, 15), ("compute", 70, 15)]
    assert found.gemm(*good.values()) == 0
    for name, value, status in wrong:
        assert found.gemm(*{**good, name: value}.values()) == status, name


def test_the_binding_has_as_many_arguments_as_cublas():
    assert (len(cublas._GEMM), len(cublas._BATCHED)) == (19, 23)
