"""cuDNN's functions, by their names in cudnn.h.

They are called as scikit-cuda's are: arguments that a call fills are left out and given back (several as a tuple), and a status other
than success raises the exception of errors.py.  Pointers are addresses, or None; arrays of integers are made by `ints`.  Which
arguments a call fills, and their types, is what stands here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_ulonglong, c_void_p
from typing import Any

from . import errors, library

dll = library.load()
dll.cudnnGetErrorString.argtypes, dll.cudnnGetErrorString.restype = [c_int], ctypes.c_char_p
dll.cudnnGetVersion.restype = dll.cudnnGetCudartVersion.restype = c_size_t


class Out:
    """An argument that the call fills; `count` of them side by side, given back as a tuple, or none: one, given back itself."""

    def __init__(self, type: Any, count: int | None = None) -> None:
        self.type = type if count is None else type * count
        self.count = count


class cudnnConvolutionAlgoPerf(ctypes.Structure):
    """How an algorithm does, or would do: cudnnConvolutionFwdAlgoPerf_t, and those of the backward passes, which are alike."""

    _fields_ = [
        ("algo", c_int), ("status", c_int), ("time", c_float), ("memory", c_size_t), ("determinism", c_int), ("mathType", c_int),
        ("reserved", c_int * 3),
    ]  # fmt: skip


def cudnnCheckStatus(status: int) -> None:
    """Raise the exception of a status that is not success."""
    if status:
        raise errors.exception(dll, status)


def ints(values: Sequence[int]) -> Any:
    """An array for those arguments that are one."""
    return (c_int * len(values))(*values)


def _bound(name: str, *parameters: Any) -> Callable[..., Any]:
    function = getattr(dll, name)
    function.argtypes = [c_void_p if isinstance(p, Out) else p for p in parameters]
    function.restype = cudnnCheckStatus
    outs = [p for p in parameters if isinstance(p, Out)]
    if not outs:
        return function

    def call(*args: Any) -> Any:
        made, given = [out.type() for out in outs], iter(args)
        filled = iter(made)
        function(*[byref(next(filled)) if isinstance(p, Out) else next(given) for p in parameters])
        values = tuple(x.value if out.count is None else tuple(x) for x, out in zip(made, outs, strict=True))
        return values[0] if len(values) == 1 else values

    call.__name__ = name
    return call


_handle = _descriptor = _address = c_void_p
_factor = c_void_p  # of a float, or of a double for tensors of doubles
_array = c_void_p  # of ints
_enum = c_int
_MOST = 8  # axes of a tensor

# -- the library and its handles
cudnnCreate = _bound("cudnnCreate", Out(_handle))
cudnnDestroy = _bound("cudnnDestroy", _handle)
cudnnSetStream = _bound("cudnnSetStream", _handle, _address)
cudnnGetStream = _bound("cudnnGetStream", _handle, Out(_address))
cudnnGetProperty = _bound("cudnnGetProperty", _enum, Out(c_int))


def cudnnGetVersion() -> int:
    """8907 is 8.9.7, and 91900 is 9.19.0."""
    return dll.cudnnGetVersion()


def cudnnGetCudartVersion() -> int:
    """Of the CUDA that the library was built with: 13000 is 13.0."""
    return dll.cudnnGetCudartVersion()


# -- tensors and filters
cudnnCreateTensorDescriptor = _bound("cudnnCreateTensorDescriptor", Out(_descriptor))
cudnnSetTensor4dDescriptor = _bound("cudnnSetTensor4dDescriptor", _descriptor, _enum, _enum, *[c_int] * 4)
cudnnSetTensor4dDescriptorEx = _bound("cudnnSetTensor4dDescriptorEx", _descriptor, _enum, *[c_int] * 8)
cudnnSetTensorNdDescriptor = _bound("cudnnSetTensorNdDescriptor", _descriptor, _enum, c_int, _array, _array)
cudnnGetTensorNdDescriptor = _bound(
    "cudnnGetTensorNdDescriptor", _descriptor, c_int, Out(_enum), Out(c_int), Out(c_int, _MOST), Out(c_int, _MOST)
)
cudnnGetTensorSizeInBytes = _bound("cudnnGetTensorSizeInBytes", _descriptor, Out(c_size_t))
cudnnDestroyTensorDescriptor = _bound("cudnnDestroyTensorDescriptor", _descriptor)
cudnnCreateFilterDescriptor = _bound("cudnnCreateFilterDescriptor", Out(_descriptor))
cudnnSetFilter4dDescriptor = _bound("cudnnSetFilter4dDescriptor", _descriptor, _enum, _enum, *[c_int] * 4)
cudnnSetFilterNdDescriptor = _bound("cudnnSetFilterNdDescriptor", _descriptor, _enum, _enum, c_int, _array)
cudnnGetFilterNdDescriptor = _bound("cudnnGetFilterNdDescriptor", _descriptor, c_int, Out(_enum), Out(_enum), Out(c_int), Out(c_int, _MOST))
cudnnGetFilterSizeInBytes = _bound("cudnnGetFilterSizeInBytes", _descriptor, Out(c_size_t))
cudnnDestroyFilterDescriptor = _bound("cudnnDestroyFilterDescriptor", _descriptor)

# -- elementwise, and sums
cudnnCreateOpTensorDescriptor = _bound("cudnnCreateOpTensorDescriptor", Out(_descriptor))
cudnnSetOpTensorDescriptor = _bound("cudnnSetOpTensorDescriptor", _descriptor, _enum, _enum, _enum)
cudnnDestroyOpTensorDescriptor = _bound("cudnnDestroyOpTensorDescriptor", _descriptor)
cudnnOpTensor = _bound("cudnnOpTensor", _handle, _descriptor, *[_factor, _descriptor, _address] * 3)
cudnnAddTensor = _bound("cudnnAddTensor", _handle, *[_factor, _descriptor, _address] * 2)
cudnnCreateActivationDescriptor = _bound("cudnnCreateActivationDescriptor", Out(_descriptor))
cudnnSetActivationDescriptor = _bound("cudnnSetActivationDescriptor", _descriptor, _enum, _enum, c_double)
cudnnGetActivationDescriptor = _bound("cudnnGetActivationDescriptor", _descriptor, Out(_enum), Out(_enum), Out(c_double))
cudnnDestroyActivationDescriptor = _bound("cudnnDestroyActivationDescriptor", _descriptor)
cudnnActivationForward = _bound("cudnnActivationForward", _handle, _descriptor, *[_factor, _descriptor, _address] * 2)
cudnnActivationBackward = _bound(
    "cudnnActivationBackward", _handle, _descriptor, _factor, *[_descriptor, _address] * 3, _factor, _descriptor, _address
)
cudnnCreateReduceTensorDescriptor = _bound("cudnnCreateReduceTensorDescriptor", Out(_descriptor))
cudnnSetReduceTensorDescriptor = _bound("cudnnSetReduceTensorDescriptor", _descriptor, *[_enum] * 5)
cudnnDestroyReduceTensorDescriptor = _bound("cudnnDestroyReduceTensorDescriptor", _descriptor)
cudnnGetReductionWorkspaceSize = _bound("cudnnGetReductionWorkspaceSize", _handle, *[_descriptor] * 3, Out(c_size_t))
cudnnGetReductionIndicesSize = _bound("cudnnGetReductionIndicesSize", _handle, *[_descriptor] * 3, Out(c_size_t))
cudnnReduceTensor = _bound("cudnnReduceTensor", _handle, _descriptor, *[_address, c_size_t] * 2, *[_factor, _descriptor, _address] * 2)

# -- softmax
cudnnSoftmaxForward = _bound("cudnnSoftmaxForward", _handle, _enum, _enum, *[_factor, _descriptor, _address] * 2)
cudnnSoftmaxBackward = _bound(
    "cudnnSoftmaxBackward", _handle, _enum, _enum, _factor, *[_descriptor, _address] * 2, _factor, _descriptor, _address
)

# -- pooling
cudnnCreatePoolingDescriptor = _bound("cudnnCreatePoolingDescriptor", Out(_descriptor))
cudnnSetPoolingNdDescriptor = _bound("cudnnSetPoolingNdDescriptor", _descriptor, _enum, _enum, c_int, *[_array] * 3)
cudnnGetPoolingNdDescriptor = _bound(
    "cudnnGetPoolingNdDescriptor", _descriptor, c_int, Out(_enum), Out(_enum), Out(c_int), *[Out(c_int, _MOST)] * 3
)
cudnnGetPoolingNdForwardOutputDim = _bound("cudnnGetPoolingNdForwardOutputDim", _descriptor, _descriptor, c_int, _array)
cudnnDestroyPoolingDescriptor = _bound("cudnnDestroyPoolingDescriptor", _descriptor)
cudnnPoolingForward = _bound("cudnnPoolingForward", _handle, _descriptor, *[_factor, _descriptor, _address] * 2)
cudnnPoolingBackward = _bound(
    "cudnnPoolingBackward", _handle, _descriptor, _factor, *[_descriptor, _address] * 3, _factor, _descriptor, _address
)

# -- batch normalisation
cudnnDeriveBNTensorDescriptor = _bound("cudnnDeriveBNTensorDescriptor", _descriptor, _descriptor, _enum)
cudnnBatchNormalizationForwardTraining = _bound(
    "cudnnBatchNormalizationForwardTraining", _handle, _enum, _factor, _factor, *[_descriptor, _address] * 2,
    _descriptor, _address, _address, c_double, _address, _address, c_double, _address, _address,
)  # fmt: skip
cudnnBatchNormalizationForwardInference = _bound(
    "cudnnBatchNormalizationForwardInference", _handle, _enum, _factor, _factor, *[_descriptor, _address] * 2,
    _descriptor, *[_address] * 4, c_double,
)  # fmt: skip
cudnnBatchNormalizationBackward = _bound(
    "cudnnBatchNormalizationBackward", _handle, _enum, *[_factor] * 4, *[_descriptor, _address] * 3,
    _descriptor, *[_address] * 3, c_double, _address, _address,
)  # fmt: skip

# -- dropout
cudnnCreateDropoutDescriptor = _bound("cudnnCreateDropoutDescriptor", Out(_descriptor))
cudnnSetDropoutDescriptor = _bound("cudnnSetDropoutDescriptor", _descriptor, _handle, c_float, _address, c_size_t, c_ulonglong)
cudnnDropoutGetStatesSize = _bound("cudnnDropoutGetStatesSize", _handle, Out(c_size_t))
cudnnDropoutGetReserveSpaceSize = _bound("cudnnDropoutGetReserveSpaceSize", _descriptor, Out(c_size_t))
cudnnDestroyDropoutDescriptor = _bound("cudnnDestroyDropoutDescriptor", _descriptor)
cudnnDropoutForward = _bound("cudnnDropoutForward", _handle, _descriptor, *[_descriptor, _address] * 2, _address, c_size_t)
cudnnDropoutBackward = _bound("cudnnDropoutBackward", _handle, _descriptor, *[_descriptor, _address] * 2, _address, c_size_t)

# -- convolution
cudnnCreateConvolutionDescriptor = _bound("cudnnCreateConvolutionDescriptor", Out(_descriptor))
cudnnSetConvolutionNdDescriptor = _bound("cudnnSetConvolutionNdDescriptor", _descriptor, c_int, *[_array] * 3, _enum, _enum)
cudnnGetConvolutionNdDescriptor = _bound(
    "cudnnGetConvolutionNdDescriptor", _descriptor, c_int, Out(c_int), *[Out(c_int, _MOST)] * 3, Out(_enum), Out(_enum)
)
cudnnSetConvolutionMathType = _bound("cudnnSetConvolutionMathType", _descriptor, _enum)
cudnnGetConvolutionMathType = _bound("cudnnGetConvolutionMathType", _descriptor, Out(_enum))
cudnnSetConvolutionGroupCount = _bound("cudnnSetConvolutionGroupCount", _descriptor, c_int)
cudnnGetConvolutionGroupCount = _bound("cudnnGetConvolutionGroupCount", _descriptor, Out(c_int))
cudnnGetConvolutionNdForwardOutputDim = _bound("cudnnGetConvolutionNdForwardOutputDim", *[_descriptor] * 3, c_int, _array)
cudnnDestroyConvolutionDescriptor = _bound("cudnnDestroyConvolutionDescriptor", _descriptor)

# a pass has operands a and b and result c: x, w, y forward; w, dy, dx for the data; x, dy, dw for the filter
_A_B_CONVOLUTION_C = [_descriptor] * 4
_DATA = [_descriptor, _address]


def _algorithms(direction: str) -> list[Callable[..., Any]]:
    """How many algorithms a pass has; what is expected of them, what trying them out gives, and the memory that one needs."""
    asked = [c_int, Out(c_int), _address]
    return [
        _bound(f"cudnnGetConvolution{direction}AlgorithmMaxCount", _handle, Out(c_int)),
        _bound(f"cudnnGetConvolution{direction}Algorithm_v7", _handle, *_A_B_CONVOLUTION_C, *asked),
        _bound(f"cudnnFindConvolution{direction}AlgorithmEx", _handle, *_DATA * 2, _descriptor, *_DATA, *asked, _address, c_size_t),
        _bound(f"cudnnGetConvolution{direction}WorkspaceSize", _handle, *_A_B_CONVOLUTION_C, _enum, Out(c_size_t)),
    ]


def _convolution(direction: str) -> Callable[..., Any]:
    work = [_descriptor, _enum, _address, c_size_t]
    return _bound(f"cudnnConvolution{direction}", _handle, _factor, *_DATA * 2, *work, _factor, *_DATA)


(
    cudnnGetConvolutionForwardAlgorithmMaxCount, cudnnGetConvolutionForwardAlgorithm_v7, cudnnFindConvolutionForwardAlgorithmEx,
    cudnnGetConvolutionForwardWorkspaceSize,
) = _algorithms("Forward")  # fmt: skip
(
    cudnnGetConvolutionBackwardDataAlgorithmMaxCount, cudnnGetConvolutionBackwardDataAlgorithm_v7,
    cudnnFindConvolutionBackwardDataAlgorithmEx, cudnnGetConvolutionBackwardDataWorkspaceSize,
) = _algorithms("BackwardData")  # fmt: skip
(
    cudnnGetConvolutionBackwardFilterAlgorithmMaxCount, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
    cudnnFindConvolutionBackwardFilterAlgorithmEx, cudnnGetConvolutionBackwardFilterWorkspaceSize,
) = _algorithms("BackwardFilter")  # fmt: skip
cudnnConvolutionForward = _convolution("Forward")
cudnnConvolutionBackwardData = _convolution("BackwardData")
cudnnConvolutionBackwardFilter = _convolution("BackwardFilter")
cudnnConvolutionBackwardBias = _bound("cudnnConvolutionBackwardBias", _handle, *[_factor, *_DATA] * 2)
cudnnConvolutionBiasActivationForward = _bound(
    "cudnnConvolutionBiasActivationForward", _handle, _factor, *_DATA * 2, _descriptor, _enum, _address, c_size_t,
    _factor, *_DATA * 2, _descriptor, *_DATA,
)  # fmt: skip

# -- recurrent layers
cudnnCreateRNNDescriptor = _bound("cudnnCreateRNNDescriptor", Out(_descriptor))
cudnnSetRNNDescriptor_v8 = _bound("cudnnSetRNNDescriptor_v8", _descriptor, *[_enum] * 8, *[c_int32] * 4, _descriptor, c_uint32)
cudnnGetRNNDescriptor_v8 = _bound(
    "cudnnGetRNNDescriptor_v8", _descriptor, *[Out(_enum)] * 8, *[Out(c_int32)] * 4, Out(_descriptor), Out(c_uint32)
)
cudnnDestroyRNNDescriptor = _bound("cudnnDestroyRNNDescriptor", _descriptor)
cudnnCreateRNNDataDescriptor = _bound("cudnnCreateRNNDataDescriptor", Out(_descriptor))
cudnnSetRNNDataDescriptor = _bound("cudnnSetRNNDataDescriptor", _descriptor, _enum, _enum, *[c_int] * 3, _array, _address)
cudnnGetRNNDataDescriptor = _bound(
    "cudnnGetRNNDataDescriptor", _descriptor, Out(_enum), Out(_enum), *[Out(c_int)] * 3, c_int, _array, _address
)
cudnnDestroyRNNDataDescriptor = _bound("cudnnDestroyRNNDataDescriptor", _descriptor)
cudnnGetRNNTempSpaceSizes = _bound("cudnnGetRNNTempSpaceSizes", _handle, _descriptor, _enum, _descriptor, Out(c_size_t), Out(c_size_t))
cudnnGetRNNWeightSpaceSize = _bound("cudnnGetRNNWeightSpaceSize", _handle, _descriptor, Out(c_size_t))
cudnnGetRNNWeightParams = _bound(
    "cudnnGetRNNWeightParams", _handle, _descriptor, c_int32, c_size_t, _address, c_int32,
    _descriptor, Out(_address), _descriptor, Out(_address),
)  # fmt: skip
_SPACES = [c_size_t, _address] * 3  # weights, workspace, reserve
cudnnRNNForward = _bound(
    "cudnnRNNForward", _handle, _descriptor, _enum, _array, *_DATA * 2, *[_descriptor, _address, _address] * 2, *_SPACES
)
cudnnRNNBackwardData_v8 = _bound(
    "cudnnRNNBackwardData_v8", _handle, _descriptor, _array, _descriptor, _address, _address, *_DATA,
    *[_descriptor, *[_address] * 3] * 2, *_SPACES,
)  # fmt: skip
cudnnRNNBackwardWeights_v8 = _bound("cudnnRNNBackwardWeights_v8", _handle, _descriptor, _enum, _array, *_DATA * 3, *_SPACES)
