"""The binding of cuDNN against the headers and the library that NVIDIA ships: types, enumerators, and all calls that need no device."""

import ctypes
import importlib.util
import inspect
import shutil
import subprocess
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def b():
    try:
        from autotape.backends.cudnn_backend import binding
    except OSError as e:
        pytest.skip(f"a test of the binding of cuDNN: {e}")
    return binding


@pytest.fixture(scope="module")
def headers(b):
    from cudnn_double.real import real

    try:
        return real().headers
    except OSError as e:
        pytest.skip(str(e))


@pytest.fixture
def made(b):
    """A function that makes a descriptor of a kind and, given more, sets it; they are destroyed after the test."""
    kinds = []

    def make(kind, setter=None, *args):
        descriptor = getattr(b, f"cudnnCreate{kind}Descriptor")()
        kinds.append((kind, descriptor))
        if setter is not None:
            setter(descriptor, *args)
        return descriptor

    yield make
    for kind, descriptor in kinds:
        getattr(b, f"cudnnDestroy{kind}Descriptor")(descriptor)


def tensor(b, made, shape, strides=None, data=0):
    strides = strides or [prod(shape[i + 1 :]) for i in range(len(shape))]
    return made("Tensor", b.cudnnSetTensorNdDescriptor, data, len(shape), shape, strides)


# -- types
def test_every_function_has_the_header_s_names_and_types(b, headers):
    calls = b.calls
    assert len(calls.KNOWN) > 90
    for name, prototype in calls.KNOWN.items():
        ours, theirs, function = calls.parameters_of(prototype), headers.functions[name].parameters, getattr(calls.dll, name)
        assert [p.name for p in ours] == [p.name for p in theirs], name
        for argtype, p in zip(function.argtypes, theirs, strict=True):
            assert issubclass(argtype, headers.c_type(p.type)), (name, p.name)
        for p, q in zip(ours, theirs, strict=True):
            if p.is_filled and p.type is not b.cudnnConvolutionAlgoPerf:
                assert q.type.endswith("*") and p.type == headers.c_type(q.type.removesuffix("*")), (name, p.name)
        assert headers.functions[name].result == "cudnnStatus_t" and function.restype is b.cudnnCheckStatus, name


def test_calls_have_signatures_and_count_their_arguments(b):
    assert list(inspect.signature(b.cudnnGetTensorNdDescriptor).parameters) == ["tensorDesc", "nbDimsRequested"]
    assert b.cudnnGetTensorNdDescriptor.__doc__.endswith("Gives dataType, nbDims, dimA, strideA.")
    for wrong in (lambda: b.cudnnGetTensorSizeInBytes(), lambda: b.cudnnGetTensorSizeInBytes(1, 2), lambda: b.cudnnCreate(1)):
        with pytest.raises(TypeError, match="positional argument"):
            wrong()


@pytest.mark.parametrize("number", [1, 0.5])
def test_a_number_is_no_address_of_one(b, number):
    with pytest.raises(ctypes.ArgumentError, match=rf"alpha and beta are addresses, byref\(c_float\({number}\)\)"):
        b.cudnnAddTensor(None, number, None, None, None, None, None)


def test_only_cudnn_s_names_are_exported(b):
    public = [name for name in vars(b) if not name.startswith(("_", "cudnn", "CUDNN_"))]
    assert set(public) <= {"Any", "TYPE_CHECKING", "calls", "enumerators", "errors", "library"}


def test_every_enumerator_is_the_header_s(b, headers):
    named = {name: value for name, value in vars(b.enumerators).items() if name.startswith("CUDNN_")}
    assert len(named) > 100
    assert named == {name: (headers.enumerators | headers.defines).get(name) for name in named}


def laid_out(struct):
    return ctypes.sizeof(struct), [(name, getattr(struct, name).offset, getattr(struct, name).size) for name, _ in struct._fields_]


@pytest.mark.parametrize("direction", ["Fwd", "BwdData", "BwdFilter"])
def test_the_performance_of_an_algorithm_is_laid_out_as_in_the_header(b, headers, direction):
    theirs = headers.struct(f"cudnnConvolution{direction}AlgoPerf_t")
    assert laid_out(b.cudnnConvolutionAlgoPerf) == laid_out(theirs)


# -- calls
def test_the_version(b, headers):
    from autotape.backends.cudnn_backend.binding import library

    numbers = [b.cudnnGetProperty(i) for i in range(3)]
    assert library.dotted(b.cudnnGetVersion()) == ".".join(map(str, numbers))
    assert numbers == [headers.defines[f"CUDNN_{name}"] for name in ("MAJOR", "MINOR", "PATCHLEVEL")]
    assert b.cudnnGetCudartVersion() >= 12000


@given(st.lists(st.integers(1, 5), min_size=3, max_size=8), st.sampled_from([0, 1, 2, 9]), st.integers(1, 3))
def test_tensors(b, shape, data, step):
    x, n = b.cudnnCreateTensorDescriptor(), len(shape)
    strides = [step * prod(shape[i + 1 :]) for i in range(n)]
    b.cudnnSetTensorNdDescriptor(x, data, n, shape, strides)
    found = b.cudnnGetTensorNdDescriptor(x, 8)
    assert (found[0], found[1], [*found[2][:n]], [*found[3][:n]]) == (data, n, shape, strides)
    assert b.cudnnGetTensorSizeInBytes(x) == ((prod(shape) - 1) * step + 1) * {0: 4, 1: 8, 2: 2, 9: 2}[data]
    b.cudnnDestroyTensorDescriptor(x)


def test_tensors_of_four_axes(b, made):
    x, y = made("Tensor", b.cudnnSetTensor4dDescriptor, b.CUDNN_TENSOR_NHWC, b.CUDNN_DATA_HALF, 2, 3, 4, 5), made("Tensor")
    b.cudnnSetTensor4dDescriptorEx(y, b.CUDNN_DATA_HALF, 2, 3, 4, 5, 60, 1, 15, 3)
    assert b.cudnnGetTensorNdDescriptor(x, 4) == b.cudnnGetTensorNdDescriptor(y, 4)


def test_filters(b, made):
    w = made("Filter", b.cudnnSetFilterNdDescriptor, b.CUDNN_DATA_DOUBLE, b.CUDNN_TENSOR_NHWC, 5, [6, 3, 2, 2, 2])
    v = made("Filter", b.cudnnSetFilter4dDescriptor, b.CUDNN_DATA_FLOAT, b.CUDNN_TENSOR_NCHW, 6, 3, 2, 2)
    assert b.cudnnGetFilterNdDescriptor(w, 5)[:3] == (1, 1, 5)
    assert b.cudnnGetFilterNdDescriptor(w, 5)[3][:5] == (6, 3, 2, 2, 2)
    assert (b.cudnnGetFilterSizeInBytes(w), b.cudnnGetFilterSizeInBytes(v)) == (6 * 3 * 8 * 8, 6 * 3 * 4 * 4)


@given(st.integers(0, 2), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.sampled_from([0, 1, 2, 3]))
def test_convolutions(b, padding, stride, dilation, group, math):
    c, x, w = b.cudnnCreateConvolutionDescriptor(), b.cudnnCreateTensorDescriptor(), b.cudnnCreateFilterDescriptor()
    sliding = [[padding, 1], [stride, 1], [dilation, 1]]
    b.cudnnSetConvolutionNdDescriptor(c, 2, *sliding, b.CUDNN_CROSS_CORRELATION, b.CUDNN_DATA_FLOAT)
    b.cudnnSetConvolutionGroupCount(c, group)
    b.cudnnSetConvolutionMathType(c, math)
    n, *found, mode, data = b.cudnnGetConvolutionNdDescriptor(c, 6)
    assert ([[*f[:n]] for f in found], mode, data) == (sliding, b.CUDNN_CROSS_CORRELATION, b.CUDNN_DATA_FLOAT)
    assert (b.cudnnGetConvolutionGroupCount(c), b.cudnnGetConvolutionMathType(c)) == (group, math)
    b.cudnnSetTensor4dDescriptor(x, 0, 0, 2, 4, 9, 8)
    b.cudnnSetFilter4dDescriptor(w, 0, 0, 6, 4 // group, 3, 3)
    assert [*b.cudnnGetConvolutionNdForwardOutputDim(c, x, w, 4)] == [2, 6, (9 + 2 * padding - 2 * dilation - 1) // stride + 1, 8]
    b.cudnnDestroyConvolutionDescriptor(c), b.cudnnDestroyTensorDescriptor(x), b.cudnnDestroyFilterDescriptor(w)


def test_pooling(b, made):
    sizes = [[3, 2], [1, 0], [2, 1]]
    p = made("Pooling", b.cudnnSetPoolingNdDescriptor, b.CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 1, 2, *map(list, sizes))
    mode, nan, n, *found = b.cudnnGetPoolingNdDescriptor(p, 6)
    assert (mode, nan, n, [[*f[:2]] for f in found]) == (2, 1, 2, sizes)
    assert b.cudnnGetPoolingNdForwardOutputDim(p, tensor(b, made, [2, 3, 7, 5]), 4) == (2, 3, 4, 4)


def test_activations(b, made):
    a = made("Activation", b.cudnnSetActivationDescriptor, b.CUDNN_ACTIVATION_ELU, b.CUDNN_PROPAGATE_NAN, 0.3)
    assert b.cudnnGetActivationDescriptor(a) == (b.CUDNN_ACTIVATION_ELU, b.CUDNN_PROPAGATE_NAN, 0.3)


def test_operations_and_reductions(b, made):
    made("OpTensor", b.cudnnSetOpTensorDescriptor, b.CUDNN_OP_TENSOR_MAX, b.CUDNN_DATA_FLOAT, 1)
    made("ReduceTensor", b.cudnnSetReduceTensorDescriptor, b.CUDNN_REDUCE_TENSOR_NORM2, b.CUDNN_DATA_FLOAT, 1, 0, 0)
    with pytest.raises(b.cudnnBadParam):
        made("OpTensor", b.cudnnSetOpTensorDescriptor, 99, b.CUDNN_DATA_FLOAT, 1)


def test_batch_normalisation_s_parameters(b, made):
    x, per = tensor(b, made, [2, 3, 4, 5], data=b.CUDNN_DATA_HALF), made("Tensor")
    b.cudnnDeriveBNTensorDescriptor(per, x, b.CUDNN_BATCHNORM_SPATIAL)
    data, n, shape, _ = b.cudnnGetTensorNdDescriptor(per, 4)
    assert (data, n, shape[:4]) == (b.CUDNN_DATA_FLOAT, 4, (1, 3, 1, 1))


def test_dropout_s_masks_are_bits(b, made):
    made("Dropout")
    assert b.cudnnDropoutGetReserveSpaceSize(tensor(b, made, [2, 3, 4, 5])) == 16


def test_recurrent_layers(b, made):
    dropout = made("Dropout")
    values = (b.CUDNN_RNN_ALGO_STANDARD, b.CUDNN_LSTM, b.CUDNN_RNN_DOUBLE_BIAS, b.CUDNN_UNIDIRECTIONAL, b.CUDNN_LINEAR_INPUT,
              b.CUDNN_DATA_FLOAT, b.CUDNN_DATA_FLOAT, b.CUDNN_FMA_MATH, 3, 4, 4, 1, dropout, b.CUDNN_RNN_PADDED_IO_ENABLED)  # fmt: skip
    assert b.cudnnGetRNNDescriptor_v8(made("RNN", b.cudnnSetRNNDescriptor_v8, *values)) == values


def test_sequences(b, made):
    lengths, padding = [5, 3, 1], ctypes.c_float()
    given = b.CUDNN_DATA_FLOAT, b.CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, 5, 3, 7
    x = made("RNNData", b.cudnnSetRNNDataDescriptor, *given, lengths, None)
    assert b.cudnnGetRNNDataDescriptor(x, 3, ctypes.addressof(padding)) == (*given, (5, 3, 1))


# -- errors
@pytest.mark.parametrize(("shape", "strides", "words"), [
    ([2, 0, 4, 5], [60, 20, 5, 1], "dimA"), ([2, 3, 4, 5], [0, 20, 5, 1], "strideA"),
])  # fmt: skip
def test_errors_have_the_library_s_words(b, made, shape, strides, words):
    with pytest.raises(b.cudnnBadParam, match=f"^CUDNN_STATUS_BAD_PARAM: .*{words}"):
        tensor(b, made, shape, strides)


def test_what_there_is_no_code_for(b, made):
    with pytest.raises(b.cudnnNotSupported):
        tensor(b, made, [70000, 70000, 1, 1])


KINDS = {
    "cudnnNotInitialized": [1, 10, 14, 1001, 1002], "cudnnAllocFailed": [2, 4003, 4004], "cudnnBadParam": [3, 5, 2000, 2003],
    "cudnnInternalError": [4, 7, 12, 4000, 99, 7777], "cudnnNotSupported": [6, 9, 11, 3000, 3007],
    "cudnnExecutionFailed": [8, 13, 5000, 5003],
}  # fmt: skip


@pytest.mark.parametrize(("name", "status"), [(name, status) for name, numbers in KINDS.items() for status in numbers])
def test_the_statuses_of_both_versions(b, name, status):
    error = b.errors.exception(b.calls.dll, status)
    assert type(error) is getattr(b, name)
    assert error.status == status


def test_failed_allocations_are_internal_errors_of_their_own_kind(b):
    assert issubclass(b.cudnnAllocFailed, b.cudnnInternalError)


# -- finding the library
@pytest.fixture
def find(monkeypatch):
    """library.load in a process with this AUTOTAPE_CUDNN and no other libcudnn than those that a test installs."""
    from cudnn_double.real import finder

    spec = importlib.util.spec_from_file_location("library", finder().__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SONAMES = ("libcudnn.so.9.none",)

    def load(name=None):
        monkeypatch.delenv(module.VARIABLE, raising=False)
        if name is not None:
            monkeypatch.setenv(module.VARIABLE, str(name))
        return module.load()

    return load


def compiled(path, version):
    if shutil.which("g++") is None:
        pytest.skip("a library to be found needs g++")
    path.parent.mkdir(parents=True, exist_ok=True)
    source = f"#include <stddef.h>\nsize_t cudnnGetVersion(void) {{ return {version}; }}"
    subprocess.run(["g++", "-xc", "-shared", "-fPIC", "-o", path, "-"], input=source, text=True, check=True)
    return path


@pytest.mark.parametrize(("name", "words"), [
    ("/nowhere/libcudnn.so.9", "no libcudnn that loads .*/nowhere/libcudnn.so.9: .*AUTOTAPE_CUDNN names it"),
    ("libm.so.6", "libm.so.6 is no cuDNN"),
])  # fmt: skip
def test_what_is_named_must_be_a_cudnn(find, name, words):
    with pytest.raises(OSError, match=words):
        find(name)


@pytest.mark.parametrize(("version", "dotted"), [(8800, "8.8.0"), (8900, "8.9.0"), (7605, "7.6.5")])
def test_an_old_version(find, tmp_path, version, dotted):
    with pytest.raises(OSError, match=rf"is cuDNN {dotted}; 8\.9\.1 or newer is needed"):
        find(compiled(tmp_path / "libcudnn.so.8", version))


@pytest.mark.parametrize("version", [8901, 8907, 90100, 91900])
def test_versions_that_do(find, tmp_path, version):
    assert find(compiled(tmp_path / "libcudnn.so.9", version)).cudnnGetVersion() == version


def test_the_installed_package_is_found(find, tmp_path, monkeypatch):
    path = compiled(tmp_path / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9.none", 91900)
    monkeypatch.syspath_prepend(tmp_path)
    assert find()._name == str(path)


def test_none_at_all(find, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OSError, match=r"no libcudnn that loads .*pip install nvidia-cudnn-cu13 .*AUTOTAPE_CUDNN"):
        find()
