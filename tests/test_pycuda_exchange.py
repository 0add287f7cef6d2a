"""The pycuda backend's arrays and those of other libraries on the same device."""

import contextlib
import ctypes
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import autotape as at

X = np.arange(24.0).reshape(2, 3, 4)
DTYPES = [bool, np.int8, np.int64, np.uint16, np.uint64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


class Foreign:
    """An array of another library, by DLPack: as a new one, or as one from before versions and devices were asked for."""

    def __init__(self, x, old=False, device=None):
        self.x, self.old, self.device, self.asked = x, old, device, None

    def __dlpack__(self, **options):
        self.asked = options
        if self.old and "max_version" in options:
            raise TypeError("unexpected keyword 'max_version'")
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.x.__dlpack_device__()


class Interface:
    """An array of another library, by its CUDA array interface."""

    def __init__(self, x, **other):
        self.x = x
        self.__cuda_array_interface__ = {**x.__cuda_array_interface__, **other}


@pytest.fixture
def dlpack(k):
    from autotape.backends.pycuda_backend import dlpack

    return dlpack


@pytest.fixture
def stream(k):
    import pycuda.driver as cuda

    return cuda.Stream()


def holds(y, expected, x=None):
    """y has these values, and x's memory."""
    y_values = np.asarray(y)
    assert (y_values.shape, y_values.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(y_values, expected)
    assert x is None or y.address == x.address


# ---------------------------------------------------------------- DLPack


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_dlpack_out_and_in(k, dtype, old):
    x = X.astype(dtype)
    whole = k.adopt(x)
    for a, expected in [(whole, x), (k.transpose(whole, None), x.T), (k.getitem(whole, (1, slice(None, None, -1))), x[1, ::-1])]:
        assert a.__dlpack_device__() == (2, 0)
        holds(k.adopt(Foreign(a, old)), expected, a)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0, 2), (1, 1)])
def test_dlpack_of_empty_and_0d_arrays(k, shape):
    holds(k.adopt(Foreign(k.adopt(np.full(shape, 3.5)))), np.full(shape, 3.5))


def test_what_is_in_a_capsule(k, dlpack):
    a = k.getitem(k.adopt(X), (slice(None), slice(0, 2)))
    for versions, kind in [((1, 0), dlpack._Versioned), ((1, 9), dlpack._Versioned), (None, dlpack._Managed)]:
        if kind is dlpack._Versioned and not dlpack._knows_versions():
            continue
        capsule = a.__dlpack__(max_version=versions)
        managed = dlpack._contents(capsule)
        t = managed.tensor
        assert type(managed) is kind and (t.data, t.device_type, t.device_id, t.byte_offset) == (a.address, 2, 0, 0)
        assert (t.ndim, t.shape[:3], t.strides[:3], t.code, t.bits, t.lanes) == (3, [2, 2, 4], [12, 4, 1], 2, 64, 1)
        if versions:
            assert managed.major == 1 and managed.flags == dlpack.READ_ONLY
    assert dlpack._contents(k.adopt(np.zeros(2, bool)).__dlpack__()).tensor.code == 6
    assert dlpack._contents(k.adopt(np.zeros(2, ml_dtypes.bfloat16)).__dlpack__()).tensor.code == 4


def test_a_copy_is_one(k, dlpack):
    a = k.adopt(X)
    y = dlpack.Borrowed(a.__dlpack__(copy=True))
    assert y.address != a.address and y.shape == X.shape
    if dlpack._knows_versions():
        assert dlpack._contents(a.__dlpack__(copy=True, max_version=(1, 0))).flags == dlpack.COPIED


def test_memory_lives_as_long_as_somebody_has_it(k, dlpack):
    for old in (False, True):
        a = k.adopt(X)
        alive = weakref.ref(a)
        theirs = k.adopt(Foreign(a, old))
        del a
        gc.collect()
        assert alive() is not None
        holds(theirs, X)
        del theirs
        gc.collect()
        assert alive() is None


def test_a_capsule_that_nobody_takes_gives_memory_back(k):
    a = k.adopt(X)
    alive = weakref.ref(a)
    capsules = [a.__dlpack__(), a.__dlpack__(max_version=(1, 0))]
    del a
    assert alive() is not None
    del capsules
    assert alive() is None


def test_a_capsule_is_taken_once(k, dlpack):
    capsule = k.adopt(X).__dlpack__()
    dlpack.Borrowed(capsule)
    with pytest.raises(ValueError, match=r"DLPack: <capsule object \"used_dltensor\" .* holds no array, or another library took it"):
        dlpack.Borrowed(capsule)


def test_an_exception_on_its_way_is_not_lost_where_memory_is_given_back(k):
    a = k.adopt(X)
    with pytest.raises(ZeroDivisionError):
        print(k.adopt(Foreign(a)).shape, k.adopt(Foreign(a)), 1 / 0)
    for _ in range(3):
        with pytest.raises((RuntimeError, BufferError), match=r"(?i)unsupported device"):
            np.from_dlpack(a)  # NumPy asks for the capsule before it looks at the device
    alive = weakref.ref(a)
    del a
    gc.collect()
    assert alive() is None


def test_dlpack_to_the_host(k):
    a = k.adopt(X)
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        holds(np.from_dlpack(a, device="cpu"), X)
    with pytest.raises(BufferError, match=r"DLPack: an array on device \(2, 0\) can't be had on device \(1, 0\) without a copy"):
        a.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match=r"can't be had on device \(2, 1\)"):
        a.__dlpack__(dl_device=(2, 1))


def test_torch_reads_and_hands_out_what_dlpack_says(k, dlpack):
    """Without a device it can't take our arrays, but its capsules are those of every other library."""
    torch = pytest.importorskip("torch")
    t = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T
    for versions in ({}, {"max_version": (1, 0)}):
        b = dlpack.Borrowed(t.__dlpack__(**versions))
        assert (b.address, b.shape, b.strides, b.dtype) == (t.data_ptr(), (3, 2), (2, 6), ml_dtypes.bfloat16)
    assert k.adopt(t) is None


def test_what_dlpack_can_not_bring(k, dlpack):
    a = k.adopt(X)
    from autotape.backends.pycuda_backend.driver import DeviceError

    with pytest.raises(DeviceError, match="Foreign lies on CUDA device 3, but backend 'pycuda' works on 0: copy it there first"):
        k.adopt(Foreign(a, device=(2, 3)))
    capsule = a.__dlpack__()
    dlpack._contents(capsule).tensor.lanes = 4
    with pytest.raises(TypeError, match="DLPack: NumPy has no dtype for elements of code 2 with 64 bits in 4 lanes"):
        dlpack.Borrowed(capsule)
    dlpack._contents(capsule).tensor.lanes = 1
    dlpack.Borrowed(capsule)  # it was left to be taken
    capsule = a.__dlpack__(max_version=(1, 0))
    if dlpack._knows_versions():
        dlpack._contents(capsule).major = 2
        with pytest.raises(BufferError, match="DLPack: version 2 is too new, for 1 is the last that is known"):
            dlpack.Borrowed(capsule)
    with pytest.raises(ValueError, match="DLPack: stream 0"):
        a.__dlpack__(stream=0)
    with pytest.raises(TypeError, match="no kernels for complex64"):
        capsule = a.__dlpack__()
        dlpack._contents(capsule).tensor.code = 5
        k.adopt(Foreign(type("Complex", (), {"__dlpack__": lambda self, **options: capsule, "__dlpack_device__": lambda self: (2, 0)})()))


# ---------------------------------------------------------------- streams


def test_streams_are_asked_for_and_named(k, stream):
    f = Foreign(k.adopt(X))
    k.adopt(f)
    assert f.asked == {"stream": 1, "max_version": (1, 0)}
    with k.on_stream(stream):
        k.adopt(f)
        assert f.asked["stream"] == stream.handle == f.x.__cuda_array_interface__["stream"]
    assert f.x.__cuda_array_interface__["stream"] == 1


@pytest.mark.parametrize("to", ["default", "other", "per thread"])
def test_work_before_is_done_before_another_stream_reads(k, stream, to):
    """On an emulator that defers work, or a device, the other stream would read too early without the wait."""
    import pycuda.driver as cuda

    from autotape.backends.pycuda_backend import exchange

    other = cuda.Stream()
    handle = {"default": 1, "other": other.handle, "per thread": 2}[to]
    driver = exchange._driver()
    with k.on_stream(stream):
        a = k.multiply(k.adopt(np.ones(100_000)), k.adopt(np.full(100_000, 2.0)))
        capsule = a.__dlpack__(stream=handle)
        host = np.zeros(100_000)
        to, size = ctypes.c_void_p(host.ctypes.data), ctypes.c_size_t(host.nbytes)
        assert driver.cuMemcpyDtoHAsync_v2(to, ctypes.c_uint64(a.address), size, ctypes.c_void_p(handle)) == 0
        assert driver.cuStreamSynchronize(ctypes.c_void_p(handle)) == 0
        assert (host == 2).all()
        del capsule


def test_the_stream_of_an_interface_is_waited_for(k, stream):
    import pycuda.driver as cuda

    theirs = cuda.Stream()
    with k.on_stream(theirs):
        a = k.multiply(k.adopt(np.ones(1000)), k.adopt(np.full(1000, 2.0)))
        x = Interface(a)
    for context in (k.on_stream(stream), contextlib.nullcontext()):
        with context:
            holds(k.adopt(x), np.full(1000, 2.0), a)


def test_a_stream_that_there_is_not(k):
    from autotape.backends.pycuda_backend import exchange
    from autotape.backends.pycuda_backend.driver import DeviceError

    class Refusing:
        cuEventCreate = staticmethod(lambda *_: 0)
        cuEventRecord = staticmethod(lambda *_: 400)

    driver, exchange._driver = exchange._driver, lambda: Refusing
    try:
        with pytest.raises(DeviceError, match="CUDA streams 0x1 and 0x10 can't be put in order: the driver's error 400"):
            exchange._let_wait(1, 16)
    finally:
        exchange._driver = driver


# ---------------------------------------------------------------- __cuda_array_interface__, GPUArray


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_the_interface_out_and_in(k, dtype):
    x = X.astype(dtype)
    a = k.adopt(x)
    i = a.__cuda_array_interface__
    assert (i["shape"], i["typestr"], i["data"], i["strides"], i["version"]) == (x.shape, x.dtype.str, (a.address, False), None, 3)
    holds(k.adopt(Interface(a)), x, a)
    b = k.transpose(a, None)
    assert b.__cuda_array_interface__["strides"] == x.T.strides
    holds(k.adopt(Interface(b)), x.T, a)
    holds(k.adopt(Interface(k.adopt(x[:0]))), x[:0])


def test_bfloat16_has_no_name_there(k):
    assert not hasattr(k.adopt(np.zeros(2, ml_dtypes.bfloat16)), "__cuda_array_interface__")


def test_the_owner_lives_as_long_as_what_was_adopted(k):
    x = Interface(k.adopt(X))
    alive = weakref.ref(x)
    y = k.getitem(k.adopt(x), 1)
    del x
    gc.collect()
    assert alive() is not None
    holds(y, X[1])
    del y
    gc.collect()
    assert alive() is None


def test_what_an_interface_can_not_bring(k):
    from autotape.backends.pycuda_backend.driver import DeviceError

    a = k.adopt(X)
    with pytest.raises(TypeError, match="no kernels for complex128"):
        k.adopt(Interface(a, typestr="<c16"))
    with pytest.raises(TypeError, match=r"Interface: elements of >f8 are not in the byte order of the device"):
        k.adopt(Interface(a, typestr=">f8"))
    with pytest.raises(ValueError, match="Interface: an array with a mask can't be taken"):
        k.adopt(Interface(a, mask=a))
    with pytest.raises(ValueError, match=r"Interface: elements of 8 bytes at 0x.* with strides .* are not aligned"):
        k.adopt(Interface(a, strides=(96, 32, 9)))
    with pytest.raises(ValueError, match=r"Interface: elements of 8 bytes at .* are not aligned"):
        k.adopt(Interface(a, data=(a.address + 4, False), shape=(2,)))
    with pytest.raises(DeviceError, match="Interface: its address 0x10 is not in memory of a CUDA device"):
        k.adopt(Interface(a, data=(16, False)))


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.float32, np.float64])
def test_gpuarrays_come_in_and_go_out(k, dtype, stream):
    from pycuda import gpuarray

    from autotape.backends.pycuda_backend import exchange

    x = X.astype(dtype)
    theirs = gpuarray.to_gpu(x)
    ours = k.adopt(theirs)
    holds(ours, x)
    assert ours.address == int(theirs.gpudata)
    two = np.array(2, dtype)
    for a, expected in [(k.adopt(x), x), (k.getitem(k.adopt(x), 1), x[1]), (k.adopt(x[:0]), x[:0]), (k.adopt(two), two)]:
        out = exchange.to_gpuarray(k, a)
        assert type(out) is gpuarray.GPUArray and (out.shape, out.dtype, out.strides) == (expected.shape, expected.dtype, a.strides)
        np.testing.assert_array_equal(out.get(), expected)
    with k.on_stream(stream):
        a = k.multiply(k.adopt(x), k.adopt(x))
        out = exchange.to_gpuarray(k, a)
    alive = weakref.ref(a)
    del a
    np.testing.assert_array_equal(out.get(), x * x)
    assert alive() is not None
    del out
    gc.collect()
    assert alive() is None


# ---------------------------------------------------------------- what the engine makes of them


def test_tensors_by_dlpack(k):
    from pycuda import gpuarray

    t = at.array(X)
    assert t.__dlpack_device__() == (2, 0)
    shared = at.from_dlpack(Foreign(t._array))
    assert type(shared) is at.Tensor and shared._array.address == t._array.address
    np.testing.assert_array_equal((shared * 2).numpy(), 2 * X)
    holds(k.adopt(Foreign(t)), X, t._array)
    theirs = gpuarray.to_gpu(X)
    assert at.asarray(theirs)._array.address == int(theirs.gpudata)
    assert at.array(theirs)._array.address != int(theirs.gpudata)
    np.testing.assert_allclose(np.tanh(at.asarray(theirs)).numpy(), np.tanh(X), 1e-15)


def test_what_is_nothing_of_the_kind(k):
    for x in ("a", object(), {"a": 1}, None):
        assert k.adopt(x) is None
