"""cuDNN's functions, by their names in cudnn.h.

They are called as scikit-cuda's are: arguments that a call fills, those with a star in the prototypes below, are left out and given back
(several as a tuple), and a status other than success raises the exception of errors.py.  Arguments without a type are pointers: handles,
descriptors, and addresses of device memory as integers, or None; alpha and beta are addresses of numbers on the host, byref(c_float(1.0)),
of doubles for tensors of doubles.  What is written ints takes a list.
"""

from __future__ import annotations

import ctypes
import re
from array import array
from collections.abc import Callable
from ctypes import byref, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_ulonglong, c_void_p
from typing import Any, NamedTuple

from . import errors, library

PROTOTYPES = """
# the library and its handles
cudnnCreate(*handle)
cudnnDestroy(handle)
cudnnSetStream(handle, streamId)
cudnnGetStream(handle, *streamId)
cudnnGetProperty(type: enum, *value: int)

# tensors and filters
cudnnCreateTensorDescriptor(*tensorDesc)
cudnnSetTensor4dDescriptor(tensorDesc, format: enum, dataType: enum, n: int, c: int, h: int, w: int)
cudnnSetTensor4dDescriptorEx(tensorDesc, dataType: enum, n: int, c: int, h: int, w: int, nStride: int, cStride: int, hStride: int,
    wStride: int)
cudnnSetTensorNdDescriptor(tensorDesc, dataType: enum, nbDims: int, dimA: ints, strideA: ints)
cudnnGetTensorNdDescriptor(tensorDesc, nbDimsRequested: int, *dataType: enum, *nbDims: int, *dimA: int[nbDimsRequested],
    *strideA: int[nbDimsRequested])
cudnnGetTensorSizeInBytes(tensorDesc, *size: size)
cudnnDestroyTensorDescriptor(tensorDesc)
cudnnCreateFilterDescriptor(*filterDesc)
cudnnSetFilter4dDescriptor(filterDesc, dataType: enum, format: enum, k: int, c: int, h: int, w: int)
cudnnSetFilterNdDescriptor(filterDesc, dataType: enum, format: enum, nbDims: int, filterDimA: ints)
cudnnGetFilterNdDescriptor(filterDesc, nbDimsRequested: int, *dataType: enum, *format: enum, *nbDims: int,
    *filterDimA: int[nbDimsRequested])
cudnnGetFilterSizeInBytes(filterDesc, *size: size)
cudnnDestroyFilterDescriptor(filterDesc)

# elementwise, and sums
cudnnCreateOpTensorDescriptor(*opTensorDesc)
cudnnSetOpTensorDescriptor(opTensorDesc, opTensorOp: enum, opTensorCompType: enum, opTensorNanOpt: enum)
cudnnDestroyOpTensorDescriptor(opTensorDesc)
cudnnOpTensor(handle, opTensorDesc, alpha1, aDesc, A, alpha2, bDesc, B, beta, cDesc, C)
cudnnAddTensor(handle, alpha, aDesc, A, beta, cDesc, C)
cudnnCreateActivationDescriptor(*activationDesc)
cudnnSetActivationDescriptor(activationDesc, mode: enum, reluNanOpt: enum, coef: double)
cudnnGetActivationDescriptor(activationDesc, *mode: enum, *reluNanOpt: enum, *coef: double)
cudnnDestroyActivationDescriptor(activationDesc)
cudnnActivationForward(handle, activationDesc, alpha, xDesc, x, beta, yDesc, y)
cudnnActivationBackward(handle, activationDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx)
cudnnCreateReduceTensorDescriptor(*reduceTensorDesc)
cudnnSetReduceTensorDescriptor(reduceTensorDesc, reduceTensorOp: enum, reduceTensorCompType: enum, reduceTensorNanOpt: enum,
    reduceTensorIndices: enum, reduceTensorIndicesType: enum)
cudnnDestroyReduceTensorDescriptor(reduceTensorDesc)
cudnnGetReductionWorkspaceSize(handle, reduceTensorDesc, aDesc, cDesc, *sizeInBytes: size)
cudnnGetReductionIndicesSize(handle, reduceTensorDesc, aDesc, cDesc, *sizeInBytes: size)
cudnnReduceTensor(handle, reduceTensorDesc, indices, indicesSizeInBytes: size, workspace, workspaceSizeInBytes: size, alpha, aDesc, A,
    beta, cDesc, C)

# softmax
cudnnSoftmaxForward(handle, algo: enum, mode: enum, alpha, xDesc, x, beta, yDesc, y)
cudnnSoftmaxBackward(handle, algo: enum, mode: enum, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx)

# pooling
cudnnCreatePoolingDescriptor(*poolingDesc)
cudnnSetPoolingNdDescriptor(poolingDesc, mode: enum, maxpoolingNanOpt: enum, nbDims: int, windowDimA: ints, paddingA: ints,
    strideA: ints)
cudnnGetPoolingNdDescriptor(poolingDesc, nbDimsRequested: int, *mode: enum, *maxpoolingNanOpt: enum, *nbDims: int,
    *windowDimA: int[nbDimsRequested], *paddingA: int[nbDimsRequested], *strideA: int[nbDimsRequested])
cudnnGetPoolingNdForwardOutputDim(poolingDesc, inputTensorDesc, nbDims: int, *outputTensorDimA: int[nbDims])
cudnnDestroyPoolingDescriptor(poolingDesc)
cudnnPoolingForward(handle, poolingDesc, alpha, xDesc, x, beta, yDesc, y)
cudnnPoolingBackward(handle, poolingDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx)

# batch normalisation
cudnnDeriveBNTensorDescriptor(derivedBnDesc, xDesc, mode: enum)
cudnnBatchNormalizationForwardTraining(handle, mode: enum, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc, bnScale, bnBias,
    exponentialAverageFactor: double, resultRunningMean, resultRunningVariance, epsilon: double, resultSaveMean, resultSaveInvVariance)
cudnnBatchNormalizationForwardInference(handle, mode: enum, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc, bnScale, bnBias,
    estimatedMean, estimatedVariance, epsilon: double)
cudnnBatchNormalizationBackward(handle, mode: enum, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, xDesc, x, dyDesc, dy,
    dxDesc, dx, dBnScaleBiasDesc, bnScale, dBnScaleResult, dBnBiasResult, epsilon: double, savedMean, savedInvVariance)

# dropout
cudnnCreateDropoutDescriptor(*dropoutDesc)
cudnnSetDropoutDescriptor(dropoutDesc, handle, dropout: float, states, stateSizeInBytes: size, seed: uint64)
cudnnDropoutGetStatesSize(handle, *sizeInBytes: size)
cudnnDropoutGetReserveSpaceSize(xdesc, *sizeInBytes: size)
cudnnDestroyDropoutDescriptor(dropoutDesc)
cudnnDropoutForward(handle, dropoutDesc, xdesc, x, ydesc, y, reserveSpace, reserveSpaceSizeInBytes: size)
cudnnDropoutBackward(handle, dropoutDesc, dydesc, dy, dxdesc, dx, reserveSpace, reserveSpaceSizeInBytes: size)

# convolution
cudnnCreateConvolutionDescriptor(*convDesc)
cudnnSetConvolutionNdDescriptor(convDesc, arrayLength: int, padA: ints, filterStrideA: ints, dilationA: ints, mode: enum,
    computeType: enum)
cudnnGetConvolutionNdDescriptor(convDesc, arrayLengthRequested: int, *arrayLength: int, *padA: int[arrayLengthRequested],
    *strideA: int[arrayLengthRequested], *dilationA: int[arrayLengthRequested], *mode: enum, *computeType: enum)
cudnnSetConvolutionMathType(convDesc, mathType: enum)
cudnnGetConvolutionMathType(convDesc, *mathType: enum)
cudnnSetConvolutionGroupCount(convDesc, groupCount: int)
cudnnGetConvolutionGroupCount(convDesc, *groupCount: int)
cudnnGetConvolutionNdForwardOutputDim(convDesc, inputTensorDesc, filterDesc, nbDims: int, *tensorOuputDimA: int[nbDims])
cudnnDestroyConvolutionDescriptor(convDesc)
cudnnGetConvolutionForwardAlgorithmMaxCount(handle, *count: int)
cudnnFindConvolutionForwardAlgorithmEx(handle, xDesc, x, wDesc, w, convDesc, yDesc, y, requestedAlgoCount: int, *returnedAlgoCount: int,
    *perfResults: performance[requestedAlgoCount], workSpace, workSpaceSizeInBytes: size)
cudnnGetConvolutionForwardAlgorithm_v7(handle, srcDesc, filterDesc, convDesc, destDesc, requestedAlgoCount: int,
    *returnedAlgoCount: int, *perfResults: performance[requestedAlgoCount])
cudnnGetConvolutionForwardWorkspaceSize(handle, xDesc, wDesc, convDesc, yDesc, algo: enum, *sizeInBytes: size)
cudnnGetConvolutionBackwardDataAlgorithmMaxCount(handle, *count: int)
cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, filterDesc, diffDesc, convDesc, gradDesc, requestedAlgoCount: int,
    *returnedAlgoCount: int, *perfResults: performance[requestedAlgoCount])
cudnnFindConvolutionBackwardDataAlgorithmEx(handle, wDesc, w, dyDesc, dy, convDesc, dxDesc, dx, requestedAlgoCount: int,
    *returnedAlgoCount: int, *perfResults: performance[requestedAlgoCount], workSpace, workSpaceSizeInBytes: size)
cudnnGetConvolutionBackwardDataWorkspaceSize(handle, wDesc, dyDesc, convDesc, dxDesc, algo: enum, *sizeInBytes: size)
cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(handle, *count: int)
cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, srcDesc, diffDesc, convDesc, gradDesc, requestedAlgoCount: int,
    *returnedAlgoCount: int, *perfResults: performance[requestedAlgoCount])
cudnnFindConvolutionBackwardFilterAlgorithmEx(handle, xDesc, x, dyDesc, y, convDesc, dwDesc, dw, requestedAlgoCount: int,
    *returnedAlgoCount: int, *perfResults: performance[requestedAlgoCount], workSpace, workSpaceSizeInBytes: size)
cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, xDesc, dyDesc, convDesc, gradDesc, algo: enum, *sizeInBytes: size)
cudnnConvolutionForward(handle, alpha, xDesc, x, wDesc, w, convDesc, algo: enum, workSpace, workSpaceSizeInBytes: size, beta, yDesc, y)
cudnnConvolutionBackwardData(handle, alpha, wDesc, w, dyDesc, dy, convDesc, algo: enum, workSpace, workSpaceSizeInBytes: size, beta,
    dxDesc, dx)
cudnnConvolutionBackwardFilter(handle, alpha, xDesc, x, dyDesc, dy, convDesc, algo: enum, workSpace, workSpaceSizeInBytes: size, beta,
    dwDesc, dw)
cudnnConvolutionBackwardBias(handle, alpha, dyDesc, dy, beta, dbDesc, db)
cudnnConvolutionBiasActivationForward(handle, alpha1, xDesc, x, wDesc, w, convDesc, algo: enum, workSpace, workSpaceSizeInBytes: size,
    alpha2, zDesc, z, biasDesc, bias, activationDesc, yDesc, y)

# recurrent layers
cudnnCreateRNNDescriptor(*rnnDesc)
cudnnSetRNNDescriptor_v8(rnnDesc, algo: enum, cellMode: enum, biasMode: enum, dirMode: enum, inputMode: enum, dataType: enum,
    mathPrec: enum, mathType: enum, inputSize: int32, hiddenSize: int32, projSize: int32, numLayers: int32, dropoutDesc,
    auxFlags: uint32)
cudnnGetRNNDescriptor_v8(rnnDesc, *algo: enum, *cellMode: enum, *biasMode: enum, *dirMode: enum, *inputMode: enum, *dataType: enum,
    *mathPrec: enum, *mathType: enum, *inputSize: int32, *hiddenSize: int32, *projSize: int32, *numLayers: int32, *dropoutDesc,
    *auxFlags: uint32)
cudnnDestroyRNNDescriptor(rnnDesc)
cudnnCreateRNNDataDescriptor(*rnnDataDesc)
cudnnSetRNNDataDescriptor(rnnDataDesc, dataType: enum, layout: enum, maxSeqLength: int, batchSize: int, vectorSize: int,
    seqLengthArray: ints, paddingFill)
cudnnGetRNNDataDescriptor(rnnDataDesc, *dataType: enum, *layout: enum, *maxSeqLength: int, *batchSize: int, *vectorSize: int,
    arrayLengthRequested: int, *seqLengthArray: int[arrayLengthRequested], paddingFill)
cudnnDestroyRNNDataDescriptor(rnnDataDesc)
cudnnGetRNNTempSpaceSizes(handle, rnnDesc, fwdMode: enum, xDesc, *workSpaceSize: size, *reserveSpaceSize: size)
cudnnGetRNNWeightSpaceSize(handle, rnnDesc, *weightSpaceSize: size)
cudnnGetRNNWeightParams(handle, rnnDesc, pseudoLayer: int32, weightSpaceSize: size, weightSpace, linLayerID: int32, mDesc, *mAddr,
    bDesc, *bAddr)
cudnnRNNForward(handle, rnnDesc, fwdMode: enum, devSeqLengths: ints, xDesc, x, yDesc, y, hDesc, hx, hy, cDesc, cx, cy,
    weightSpaceSize: size, weightSpace, workSpaceSize: size, workSpace, reserveSpaceSize: size, reserveSpace)
cudnnRNNBackwardData_v8(handle, rnnDesc, devSeqLengths: ints, yDesc, y, dy, xDesc, dx, hDesc, hx, dhy, dhx, cDesc, cx, dcy, dcx,
    weightSpaceSize: size, weightSpace, workSpaceSize: size, workSpace, reserveSpaceSize: size, reserveSpace)
cudnnRNNBackwardWeights_v8(handle, rnnDesc, addGrad: enum, devSeqLengths: ints, xDesc, x, hDesc, hx, yDesc, y, weightSpaceSize: size,
    dweightSpace, workSpaceSize: size, workSpace, reserveSpaceSize: size, reserveSpace)
"""

dll = library.load()
dll.cudnnGetErrorString.argtypes, dll.cudnnGetErrorString.restype = [c_int], ctypes.c_char_p
dll.cudnnGetVersion.restype = dll.cudnnGetCudartVersion.restype = c_size_t


class cudnnConvolutionAlgoPerf(ctypes.Structure):
    """How an algorithm does, or would do: cudnnConvolutionFwdAlgoPerf_t, and those of the backward passes, which are alike."""

    _fields_ = [
        ("algo", c_int), ("status", c_int), ("time", c_float), ("memory", c_size_t), ("determinism", c_int), ("mathType", c_int),
        ("reserved", c_int * 3),
    ]  # fmt: skip


class Factor(c_void_p):
    """The address of a number on the host; a number itself would be taken for one."""

    @classmethod
    def from_param(cls, x: Any) -> Any:
        if isinstance(x, (int, float)):
            raise TypeError(f"alpha and beta are addresses, byref(c_float({x})), or byref(c_double({x})) for tensors of doubles")
        return c_void_p.from_param(x)


class Ints(c_void_p):
    """An array of integers, or a list; OverflowError if one has more than 32 bits."""

    @classmethod
    def from_param(cls, x: Any) -> Any:
        return (c_int * len(x)).from_buffer(array("i", x)) if isinstance(x, (list, tuple)) else c_void_p.from_param(x)


_TYPES = {
    "enum": c_int, "int": c_int, "int32": c_int32, "uint32": c_uint32, "uint64": c_ulonglong, "size": c_size_t, "float": c_float,
    "double": c_double, "ints": Ints, "performance": cudnnConvolutionAlgoPerf,
}  # fmt: skip
_PARAMETER = re.compile(r"(\*?)(\w+)(?:: (\w+)(?:\[(\w+)\])?)?")


def cudnnCheckStatus(status: int) -> None:
    """Raise the exception of a status that is not success."""
    if status:
        raise errors.exception(dll, status)


def cudnnGetVersion() -> int:
    """8907 is 8.9.7, and 91900 is 9.19.0."""
    return dll.cudnnGetVersion()


def cudnnGetCudartVersion() -> int:
    """Of the CUDA that the library was built with: 13000 is 13.0."""
    return dll.cudnnGetCudartVersion()


class Parameter(NamedTuple):
    """One of a prototype's; `length` is the parameter that says how many of it the call fills, if one does."""

    name: str
    type: Any
    is_filled: bool
    length: str

    @property
    def argtype(self) -> Any:
        return c_void_p if self.is_filled else self.type


def parameters_of(prototype: str) -> list[Parameter]:
    found = _PARAMETER.findall(prototype.partition("(")[2])
    return [Parameter(name, _type(name, type), bool(star), length) for star, name, type, length in found]


def _type(name: str, type: str) -> Any:
    return _TYPES[type] if type else Factor if name.startswith(("alpha", "beta")) else c_void_p


def bound(prototype: str) -> Callable[..., Any]:
    """A function of the library under a signature of its own; its text is generated, for what would do for all takes longer than a call."""
    name, parameters = prototype.split("(")[0], parameters_of(prototype)
    function = getattr(dll, name)
    function.argtypes, function.restype = [p.argtype for p in parameters], cudnnCheckStatus
    filled = [p for p in parameters if p.is_filled]
    lines = [f"{p.name} = ({p.name}_type{f' * {p.length}' if p.length else ''})()" for p in filled]
    lines.append(f"call({', '.join(f'byref({p.name})' if p.is_filled else p.name for p in parameters)})")
    if filled:
        lines.append(f"return {', '.join(f'tuple({p.name})' if p.length else f'{p.name}.value' for p in filled)}")
    source = f"def {name}({', '.join(p.name for p in parameters if not p.is_filled)}):\n    " + "\n    ".join(lines)
    space: dict[str, Any] = {"call": function, "byref": byref, **{f"{p.name}_type": p.type for p in filled}}
    exec(source, space)
    made: Callable[..., Any] = space[name]
    made.__doc__ = f"{prototype}.  " + (f"Gives {', '.join(p.name for p in filled)}." if filled else "Gives nothing.")
    return made


KNOWN = {p.split("(")[0]: " ".join(p.split()) for p in re.findall(r"^\w+\([^)]*\)", PROTOTYPES, re.MULTILINE)}
globals().update({name: bound(prototype) for name, prototype in KNOWN.items()})
__all__ = [*KNOWN, "cudnnCheckStatus", "cudnnConvolutionAlgoPerf", "cudnnGetCudartVersion", "cudnnGetVersion"]
