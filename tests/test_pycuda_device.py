"""The pycuda backend's device: what is said where it can't be used, memory, streams, lost contexts, launches; and nobody waits.

Faults are the emulator's.  What needs a driver of another kind runs in a process of its own.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import environment
import numpy as np
import pytest

import autotape as at
from autotape import backend, math_mode
from autotape.errors import BackendError
from autotape.opsets import array as ops
from autotape.opsets import v20

ROOT = Path(__file__).parent.parent
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
close = np.testing.assert_allclose


@pytest.fixture(autouse=True)
def only_there(k):
    """Every test here is pycuda's."""


@pytest.fixture
def emulated():
    if environment._driver is None:
        pytest.skip("its faults are the emulator's")
    yield
    environment.fault("out_of_memory", 0)
    environment.recover()


def run(code, **switches):
    """Python code in a process of its own on an emulator with these switches; its output, or the last line of its error."""
    if environment._driver is None:
        pytest.skip("its switches are the emulator's")
    program = f"import environment; environment.enter(**{switches!r})\n{code}"
    folders = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "cuda_emulator")])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folders})
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def printed(program):
    """What a program prints, without the emulator."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env).stdout.strip()


SET = "from autotape import backend; backend.set('pycuda')"


# ---------------------------------------------------------------- where it can't be used


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"devices": 0}, "no CUDA-capable device|finds no device"),
        ({"driver_version": 11040}, "the CUDA driver is too old: it is of CUDA 11.4, and 12.0 or newer is needed"),
        ({"capability": 3.5}, "has compute capability 3.5, and 7.5 or newer is needed"),
    ],
    ids=str,
)
def test_a_device_that_will_not_do(switches, message):
    line = run(SET, **switches)
    assert line.startswith("autotape.errors.BackendError: backend 'pycuda' can't be used here: ")
    assert any(part in line for part in message.split("|")), line


def test_no_driver():
    program = "from autotape import backend; print(backend.available()['pycuda'])"
    line = printed(program)
    assert line == "None" or line.startswith("there is no CUDA driver: ")  # None where this machine has one
    assert line == "None" or "libcuda.so.1" in line


def test_no_pycuda():
    program = "import sys; sys.modules['pycuda'] = None\nfrom autotape import backend; print(backend.available()['pycuda'])"
    line = printed(program)
    assert line.startswith("PyCUDA is missing: ") and "pip install pycuda" in line


def test_importing_the_backend_imports_no_gpu_library():
    program = "import sys, autotape.backends.pycuda_backend; print([m for m in sys.modules if m.startswith(('pycuda.', 'skcuda'))])"
    assert printed(program) == "[]"


def test_a_process_ends_well_with_arrays_streams_and_threads_alive():
    code = """
import threading, numpy as np, autotape as at
from autotape import backend
backend.set("pycuda")
import pycuda.driver as cuda
kept = [at.array(np.ones((4, 4))) for _ in range(3)]
thread = threading.Thread(target=lambda: kept.append(kept[0] * 2)); thread.start(); thread.join()
with backend.kernels().on_stream(cuda.Stream()) as stream:
    kept.append(kept[0] + 1)
kept.append(kept); kept.append(stream)
print(float((kept[3] + kept[4]).sum()))
"""
    assert run(code) == "64.0"


# ---------------------------------------------------------------- what it refuses


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_are_refused_with_the_way_out(dtype):
    with pytest.raises(TypeError, match=f"have no kernels for {np.dtype(dtype)}.*use backend 'numpy' for complex numbers"):
        at.array(np.ones(3, dtype))
    with pytest.raises(TypeError, match="complex"):
        at.array(X) * 1j


def test_arrays_of_another_backend_are_refused():
    here = at.array(X)
    with backend.use("numpy"):
        there = at.array(X)
        with pytest.raises(BackendError, match=r"'numpy' works on ndarray, but met .*DeviceArray\(3, 4\) float32.*b\.to\('numpy'\)"):
            there + here
    with pytest.raises(BackendError, match=r"backend 'pycuda' works on DeviceArray, but met .*ndarray\(3, 4\) float32.*b\.to\('pycuda'\)"):
        here + there
    close((here + there.to("pycuda")).numpy(), 2 * X)


def test_shapes_that_do_not_fit(k):
    with pytest.raises(ValueError, match=r"add.*\(3, 4\).*\(3,\)"):
        at.array(X) + at.array(X[:, 0])


def test_a_kernel_that_does_not_compile_shows_the_compilers_message():
    from autotape.backends.pycuda_backend.compilation.compiler import CompileError
    from autotape.backends.pycuda_backend.launch import from_source

    with pytest.raises(CompileError, match=r"^kernel unit 'mine' for sm_90 does not compile: (.|\n)*error.*nothing_here") as e:
        from_source('extern "C" __global__ void f(int* x) { *x = nothing_here; }', "f", "P", True, "mine")
    assert len(str(e.value).splitlines()) <= 21


# ---------------------------------------------------------------- memory


def test_memory_is_used_again(k):
    x = k.adopt(X)
    before = k.memory.statistics()
    for _ in range(5):
        k.add(x, x)
    after = k.memory.statistics()
    assert after["taken"] == before["taken"] + 5 and after["allocated"] <= before["allocated"] + 1
    assert after["in_use"] == before["in_use"] and after["peak"] >= after["in_use"]


def test_views_keep_their_memory(k):
    view = k.transpose(k.add(k.adopt(X), k.adopt(X)), None)
    others = [k.full((3, 4), 7, np.float32) for _ in range(10)]
    close(np.asarray(view), 2 * X.T)
    assert len(others) == 10


def test_a_limit_is_kept_and_what_is_held_goes_first(k):
    gc.collect()
    k.memory.release()
    in_use = k.memory.statistics()["in_use"]
    k.memory.limit = in_use + 4 * 2**20
    try:
        half = k.zeros((2**19,), np.float32)  # 2 MiB
        del half
        assert k.memory.statistics()["held"] >= 2**21
        large = k.zeros((3 * 2**18,), np.float32)  # 3 MiB: fits only once those 2 are given back
        with pytest.raises(MemoryError, match=r"the limit of .* of device memory is reached: 2 MiB were asked for.*at\.checkpoint"):
            k.zeros((2**19,), np.float32)
        close(np.asarray(k.sum(large, None, False)), 0)
    finally:
        k.memory.limit = None


def test_the_device_is_out_of_memory(k, emulated):
    x = at.array(X)
    k.memory.release()
    environment.fault("out_of_memory", 1, 2)  # PyCUDA asks twice
    close((x * 3).numpy(), 3 * X)  # what was held went back, and the second try found memory
    k.memory.release()
    environment.fault("out_of_memory", 1, 10)
    with pytest.raises(MemoryError, match=r"multiply.*out of memory.*were asked for, autotape's arrays have .* free"):
        x * 3
    environment.fault("out_of_memory", 0)
    close((x * 3).numpy(), 3 * X)


# ---------------------------------------------------------------- a lost context


def test_a_lost_context_is_said_and_stays_lost():
    code = """
import numpy as np, autotape as at
from autotape import backend
backend.set("pycuda")
x = at.array(np.ones(4)); (x + x).numpy()
environment.fault("illegal_address")
for i in range(2):
    try:
        (x * x).numpy()
    except RuntimeError as e:
        print(type(e).__name__, str(e).count("the CUDA context is lost"), str(e).count("start a new one"))
"""
    assert run(code) == "DeviceError 1 1\nDeviceError 1 1"


# ---------------------------------------------------------------- streams and threads


def test_work_on_a_stream_is_ordered_with_what_comes_before_and_behind(k):
    import pycuda.driver as cuda

    x = k.adopt(np.arange(1000.0))
    for _ in range(3):
        y = k.add(x, x)
        with k.on_stream(cuda.Stream()):
            z = k.multiply(y, y)
            del y
            w = k.full((1000,), -1.0, np.float64)
        close(np.asarray(k.add(z, w)), 4 * np.arange(1000.0) ** 2 - 1)


def test_gradients_on_a_stream(k):
    import pycuda.driver as cuda

    with k.on_stream(cuda.Stream()):
        close(at.grad(lambda x: np.sum(np.tanh(x) ** 2))(X), 2 * np.tanh(X) * (1 - np.tanh(X) ** 2), rtol=1e-5)


def test_a_cached_number_is_in_memory_for_the_stream_that_reads_it():
    program = """
import threading
import numpy as np
import pycuda.driver as cuda
from autotape import backend

k = backend.load("pycuda")
zeros, streams, both = k.zeros((3,), np.float32), (cuda.Stream(), cuda.Stream()), threading.Barrier(2)
k.synchronize()

def threes():
    return k.broadcast_to(k.scalar(3.0, np.dtype(np.float32)), (3,))

def first():
    with k.on_stream(streams[0]):
        both.wait()
        x = threes()
        both.wait()
        both.wait()

thread = threading.Thread(target=first)
thread.start()
with k.on_stream(streams[1]):
    both.wait()
    both.wait()
    print(k.to_numpy(zeros + threes()))
    both.wait()
thread.join()
"""
    assert run(program, deferred=True) == "[3. 3. 3.]"


def test_threads_share_the_device(k):
    found = [None] * 8

    def work(i):
        for _ in range(5):
            found[i] = at.grad(lambda x: np.sum(np.sin(x) * i))(X)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, g in enumerate(found):
        close(g, np.cos(X) * i, rtol=1e-5)


# ---------------------------------------------------------------- launches, and waiting


def counted(call):
    """What the driver did in a call that was made before."""
    call()
    gc.collect()
    before = environment.counts()
    kept = call()
    after = environment.counts()
    del kept
    return {name: after[name] - before[name] for name in after}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("tanh forward", lambda x, y: np.tanh(x)),
        ("softplus forward", lambda x, y: v20.softplus(x)),
        ("x + y", lambda x, y: x + y),
        ("2 * x", lambda x, y: 2 * x),
        ("broadcast", lambda x, y: x * y[0]),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_an_elementwise_operator_is_one_launch(k, emulated, name, call):
    x, y = at.array(X), at.array(X)
    counts = counted(lambda: call(x, y))
    assert counts["launches"] == 1 and not any(n for what, n in counts.items() if what.startswith("wait")), counts


@pytest.mark.parametrize("f", [np.tanh, v20.elu, v20.sigm, np.sinc, v20.softplus], ids=lambda f: f.__name__)
def test_an_elementwise_rule_is_one_launch(k, emulated, f):
    x = at.array(X)
    _, pull = at.vjp(f, x)
    v = at.array(X)
    launches = counted(lambda: pull(v))["launches"]
    assert launches <= 2  # the rule, and the copy that the user gets


def test_forward_and_backward_wait_for_nothing(k, emulated):
    rng = np.random.default_rng(0)
    p = [at.array(rng.normal(size=s).astype("f4")) for s in ((4, 1, 3, 3), (4, 1, 1), (4 * 9, 5), (5,))]
    x, labels = at.array(rng.normal(size=(2, 1, 8, 8)).astype("f4")), rng.integers(0, 5, 2)

    def loss(p):
        h = v20.pool(v20.relu(v20.conv4(p[0], x, mode=1) + p[1]))
        return v20.nll(v20.mat(h) @ p[2] + p[3], labels)

    for mode in ("default", "pedantic"):
        with math_mode.use(mode):
            counts = counted(lambda: at.grad(loss)(p))
            assert not {n: c for n, c in counts.items() if n.startswith("wait") and c and n != "wait_copy_to_device"}, counts


def test_a_profile_waits_and_says_what_ran(k):
    x = at.array(X)
    with at.profile() as p:
        ops.sum(x * x)
    rows = {row.kernel: row for row in p.rows}
    assert rows["sum"].backend == "pycuda"


# ---------------------------------------------------------------- 16-bit floats


def sixteen():
    return [np.dtype(np.float16), np.dtype(pytest.importorskip("ml_dtypes").bfloat16)]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: np.sum(np.tanh(x) * 2) + np.sum(w * 0.5),
        lambda x, w: np.sum(v20.relu(x @ w + w[0]) ** 2),
        lambda x, w: np.mean(v20.logsoftmax(x @ w, axis=1)),
    ],
    ids=["tanh", "relu(x @ w + b)", "logsoftmax"],
)
def test_gradients_of_16_bit_floats(k, f):
    x, w = np.linspace(-1, 1, 12).reshape(3, 4), np.linspace(1, -2, 20).reshape(4, 5)
    exact = at.grad(f, (0, 1))(x, w)
    for dtype in sixteen():
        rounding = 2.0 ** -(8 if dtype.name == "bfloat16" else 11)
        for found, g in zip(at.grad(f, (0, 1))(x.astype(dtype), w.astype(dtype)), exact, strict=True):
            assert found.dtype == dtype and found.shape == g.shape
            assert np.abs(found.astype(float) - g).max() <= 16 * rounding * np.abs(g).max(), dtype


def test_params_of_16_bit_floats_are_trained(k):
    from autotape.train import SGD, Adam

    for dtype in sixteen():
        for opt in (SGD(lr=0.25), Adam(lr=0.25)):
            p = at.Param(np.ones(4).astype(dtype))
            with at.Tape() as tape:
                loss = np.sum(p * p)
            opt.step(p, tape.gradient(loss, p))
            assert p.dtype == dtype and (np.asarray(p.value).astype(float) < 1).all()


# ---------------------------------------------------------------- rules


def test_a_foreign_array_stops_no_rule_from_being_compiled(k, emulated):
    from autotape.testing import StrictArray

    t = at.array(X)
    with backend.use("strict"):
        s = at.array(X)
    assert type(s._array) is StrictArray
    with pytest.raises(BackendError, match="StrictArray"):
        np.hypot(t, s)
    assert counted(lambda: np.hypot(t, t))["launches"] == 1
    with at.profile() as p:
        np.sinc(t)
    assert not any(row.kernel in ("where", "multiply") for row in p.rows)


def test_a_limit_that_is_none(k):
    for limit in ("8GB", -1, 1.5, True):
        with pytest.raises(ValueError, match=f"is a number of bytes or None, not {limit!r}"):
            k.memory.limit = limit
    assert k.memory.limit is None


def test_raw_arrays_beside_numpys(k):
    x = k.adopt(X)
    products = [(x + X, 2 * X), (X * x, X * X), (X / x, X / X), (x @ X.T, X @ X.T), (X.T @ x, X.T @ X)]
    for y, expected in (*products, (x[1], X[1]), (x[:, ::-2], X[:, ::-2])):
        assert type(y) is k.array
        close(np.asarray(y), expected, rtol=1e-5)


def test_gpuarrays_are_made_of_arrays_tensors_and_params(k):
    from pycuda.gpuarray import GPUArray

    for x in (k.adopt(X), at.array(X), at.Param(X)):
        y = k.to_gpuarray(x)
        assert type(y) is GPUArray and y.dtype == np.float32
        close(y.get(), X)
    with pytest.raises(TypeError, match="to_gpuarray takes an array on the device, not str"):
        k.to_gpuarray("x")


def test_a_new_thread_may_begin_with_a_stream_of_its_own(k):
    found = []

    def run():
        with k.on_stream(k.new_stream()):
            found.append(k.to_numpy(k.add(k.adopt(X), k.adopt(X))))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    close(found[0], 2 * X)
