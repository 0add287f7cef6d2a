"""What the real library says of descriptors: their contents, by its own get functions."""

from ctypes import c_double, c_int, c_uint32, c_void_p
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .real import real
from .refusal import require, unsupported

DTYPES = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}
_MOST = 8  # axes of a tensor


class Tensor(NamedTuple):
    dtype: Any
    shape: tuple
    strides: tuple  # in elements


class Filter(NamedTuple):
    dtype: Any
    shape: tuple
    strides: tuple
    last: bool  # NHWC: channels vary fastest


class Convolution(NamedTuple):
    padding: tuple
    stride: tuple
    dilation: tuple
    is_correlation: bool
    compute: Any
    math: int
    group: int


class Pooling(NamedTuple):
    mode: int
    keeps_nan: bool
    window: tuple
    padding: tuple
    stride: tuple


class Activation(NamedTuple):
    mode: int
    keeps_nan: bool
    coefficient: float


class OpTensor(NamedTuple):
    operation: int
    compute: Any
    keeps_nan: bool


class ReduceTensor(NamedTuple):
    operation: int
    compute: Any
    keeps_nan: bool
    indices: int


class RNN(NamedTuple):
    algorithm: int
    cell: int
    bias: int
    direction: int
    input: int
    dtype: Any
    compute: Any
    math: int
    input_size: int
    hidden: int
    projected: int
    layers: int
    dropout: int
    flags: int


class RNNData(NamedTuple):
    dtype: Any
    layout: int
    lengths: tuple
    vector: int


def dtype(number, name):
    require(number in DTYPES, f"{name}: the double has no arrays of cudnnDataType_t {number}")
    return np.dtype(DTYPES[number])


def _contents(descriptor, name, *outs):
    require(descriptor, f"{name} is null")
    return real().ask(f"cudnnGet{descriptor.kind}", descriptor.address, *outs)


def tensor(descriptor, name):
    require(descriptor, f"{name} is null")
    kind, n, shape, strides = real().ask(
        "cudnnGetTensorNdDescriptor", descriptor.address, _MOST, c_int, c_int, c_int * _MOST, c_int * _MOST
    )
    require(n, f"{name} was never set")
    return Tensor(dtype(kind, name), shape[:n], strides[:n])


def filters(descriptor, name):
    require(descriptor, f"{name} is null")
    kind, form, n, shape = real().ask("cudnnGetFilterNdDescriptor", descriptor.address, _MOST, c_int, c_int, c_int, c_int * _MOST)
    require(n, f"{name} was never set")
    if form not in (0, 1):
        raise unsupported(f"{name} is NCHW_VECT_C")
    axes = (0, *range(2, n), 1) if form else tuple(range(n))  # from the slowest to the fastest
    steps = {a: int(np.prod([shape[b] for b in axes[i + 1 :]])) for i, a in enumerate(axes)}
    return Filter(dtype(kind, name), shape[:n], tuple(steps[a] for a in range(n)), form == 1)


def convolution(descriptor, name="convDesc"):
    require(descriptor, f"{name} is null")
    at = descriptor.address
    n, padding, stride, dilation, mode, compute = real().ask(
        "cudnnGetConvolutionNdDescriptor", at, _MOST - 2, c_int, *[c_int * _MOST] * 3, c_int, c_int
    )
    (math,), (group,) = real().ask("cudnnGetConvolutionMathType", at, c_int), real().ask("cudnnGetConvolutionGroupCount", at, c_int)
    return Convolution(padding[:n], stride[:n], dilation[:n], mode == 1, dtype(compute, name), math, group)


def pooling(descriptor, name="poolingDesc"):
    require(descriptor, f"{name} is null")
    mode, nan, n, *sizes = real().ask("cudnnGetPoolingNdDescriptor", descriptor.address, _MOST - 2, *[c_int] * 3, *[c_int * _MOST] * 3)
    return Pooling(mode, nan == 1, *(s[:n] for s in sizes))


def activation(descriptor, name="activationDesc"):
    mode, nan, coefficient = _contents(descriptor, name, c_int, c_int, c_double)
    return Activation(mode, nan == 1, coefficient)


def operation(descriptor, name="opTensorDesc"):
    kind, compute, nan = _contents(descriptor, name, *[c_int] * 3)
    return OpTensor(kind, dtype(compute, name), nan == 1)


def reduction(descriptor, name="reduceTensorDesc"):
    kind, compute, nan, indices, _ = _contents(descriptor, name, *[c_int] * 5)
    return ReduceTensor(kind, dtype(compute, name), nan == 1, indices)


def rnn(descriptor, name="rnnDesc"):
    require(descriptor, f"{name} is null")
    found = real().ask("cudnnGetRNNDescriptor_v8", descriptor.address, *[c_int] * 12, c_void_p, c_uint32)
    return RNN(*found[:5], *[dtype(d, name) for d in found[5:7]], *found[7:])


def rnn_data(descriptor, name):
    require(descriptor, f"{name} is null")
    at = descriptor.address
    batch = real().ask("cudnnGetRNNDataDescriptor", at, *[c_int] * 5, 0, None, c_double)[3]
    kind, layout, _, _, vector, lengths, _ = real().ask("cudnnGetRNNDataDescriptor", at, *[c_int] * 5, batch, c_int * batch, c_double)
    return RNNData(dtype(kind, name), layout, lengths, vector)


# for the list of calls
READERS = {
    "TensorDescriptor": tensor, "FilterDescriptor": filters, "ConvolutionDescriptor": convolution, "PoolingDescriptor": pooling,
    "ActivationDescriptor": activation, "OpTensorDescriptor": operation, "ReduceTensorDescriptor": reduction,
    "RNNDescriptor": rnn, "RNNDataDescriptor": rnn_data,
}  # fmt: skip
