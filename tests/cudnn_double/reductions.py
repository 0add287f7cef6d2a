"""Reductions of a tensor along the axes where the result has side 1."""

import ctypes
from math import prod

import numpy as np

from . import descriptors
from .calls import Calls
from .memory import Operand, output, scratch, space
from .pointwise import check_repeated
from .refusal import require

CALLS = Calls()
ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS = range(9)
_WITH_INDICES = (MIN, MAX, AMAX)


def _extreme(keeping, dropping, absolute=False):
    return lambda x, nan, **axes: (keeping if nan else dropping).reduce(np.abs(x) if absolute else x, **axes)


_REDUCE = {
    ADD: lambda x, nan, **axes: x.sum(**axes),
    MUL: lambda x, nan, **axes: x.prod(**axes),
    MIN: _extreme(np.minimum, np.fmin),
    MAX: _extreme(np.maximum, np.fmax),
    AMAX: _extreme(np.maximum, np.fmax, absolute=True),
    AVG: lambda x, nan, **axes: x.mean(**axes),
    NORM1: lambda x, nan, **axes: np.abs(x).sum(**axes),
    NORM2: lambda x, nan, **axes: np.sqrt((x * x).sum(**axes)),
    MUL_NO_ZEROS: lambda x, nan, **axes: np.where(x == 0, 1, x).prod(**axes),
}


def _bytes(reduction, a, c):
    """(workspace, indices)."""
    has_indices = reduction.indices and reduction.operation in _WITH_INDICES
    return (0 if a.shape == c.shape else 8 * prod(c.shape) + 256), (4 * prod(c.shape) if has_indices else 0)


def _read(reduceTensorDesc, aDesc, cDesc):
    return descriptors.reduction(reduceTensorDesc), descriptors.tensor(aDesc, "aDesc"), descriptors.tensor(cDesc, "cDesc")


@CALLS.answers
def cudnnGetReductionWorkspaceSize(double, handle, reduceTensorDesc, aDesc, cDesc, place):
    ctypes.c_size_t.from_address(place).value = _bytes(*_read(reduceTensorDesc, aDesc, cDesc))[0]


@CALLS.answers
def cudnnGetReductionIndicesSize(double, handle, reduceTensorDesc, aDesc, cDesc, place):
    ctypes.c_size_t.from_address(place).value = _bytes(*_read(reduceTensorDesc, aDesc, cDesc))[1]


@CALLS.computes
def cudnnReduceTensor(double, handle, reduceTensorDesc, indices, indicesSize, workspace, workspaceSize, alpha, aDesc, A, beta, cDesc, C):
    reduction, *tensors = _read(reduceTensorDesc, aDesc, cDesc)
    work, for_indices = _bytes(reduction, *tensors)
    a = Operand(tensors[0], A, "A")
    c = output(tensors[1], C, "C", a)
    check_repeated(c, a)
    require(a.dtype == c.dtype, f"A is {a.dtype}, and C {c.dtype}")
    scratch(workspace, workspaceSize, work, "workspace")
    space(indices, indicesSize, for_indices, "indices", 4)
    axes = tuple(i for i, n in enumerate(c.shape) if n == 1)
    value = _REDUCE[reduction.operation](a.read(), reduction.keeps_nan, axis=axes, keepdims=True)
    c.blend(value, alpha, beta)
    if for_indices:
        _write_indices(indices, reduction, a.read(), axes)


def _write_indices(at, reduction, a, axes):
    """Where in the reduced axes, flattened, the extreme stands."""
    kept = tuple(i for i in range(a.ndim) if i not in axes)
    rows = a.transpose(*kept, *axes).reshape(prod(a.shape[i] for i in kept), -1)
    found = rows.argmin(axis=1) if reduction.operation == MIN else (np.abs(rows) if reduction.operation == AMAX else rows).argmax(axis=1)
    np.frombuffer((ctypes.c_char * (4 * len(rows))).from_address(at), np.uint32)[:] = found
