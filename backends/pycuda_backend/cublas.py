"""Matrix products by cuBLAS.  scikit-cuda has its handles and streams; what it lacks, products of any dtype and of stacks, is bound here.

cuBLAS takes matrices by columns.  A dense y is its own transpose there, so what is asked for is y.T = b.T @ a.T.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
import weakref
from itertools import product as indices
from math import prod
from typing import Any, NamedTuple

from . import scikit_cuda
from .array import DeviceArray, empty
from .driver import DeviceError, device
from .product import Product

# cudaDataType and cublasComputeType_t in each mode: that of TF32 for float32 in fast mode, else what keeps the inputs' precision
_DATA = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_IN_FLOAT = {"pedantic": 69, "default": 68, "fast": 68}
_COMPUTE = {
    "float32": {**_IN_FLOAT, "fast": 77},
    "float64": {"pedantic": 71, "default": 70, "fast": 70},
    "float16": _IN_FLOAT,
    "bfloat16": _IN_FLOAT,
}
# cublasMath_t
_MATH = {"pedantic": 2, "default": 16, "fast": 0}  # default: partial sums of halves are never rounded to halves
_DEFAULT_ALGORITHM = -1
_MOST = 2**31 - 1
_MOST_CALLS = 16  # for one product of a stack that is not one stride apart

# where cuBLAS reads its factors
_ONE_AND_ZERO = {letter: (ctypes.pointer(t(1)), ctypes.pointer(t(0))) for letter, t in (("d", ctypes.c_double), ("f", ctypes.c_float))}

_int, _long, _pointer = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_SHAPE = [_pointer, _int, _int, _int, _int, _int, _pointer]  # handle, transposes, extents, alpha
_GEMM = [*_SHAPE, _pointer, _int, _int, _pointer, _int, _int, _pointer, _pointer, _int, _int, _int, _int]
_BATCHED = [
    *_SHAPE, _pointer, _int, _int, _long, _pointer, _int, _int, _long, _pointer, _pointer, _int, _int, _long, _int, _int, _int
]  # fmt: skip


class Library:
    """A libcublas: scikit-cuda's module and the calls that it lacks."""

    def __init__(self, module: Any) -> None:
        self.module, dll = module, module._libcublas
        self.gemm, self.batched, self.set_math = dll.cublasGemmEx, dll.cublasGemmStridedBatchedEx, dll.cublasSetMathMode
        self.gemm.argtypes, self.batched.argtypes, self.set_math.argtypes = _GEMM, _BATCHED, [_pointer, _int]
        self.unsupported = (module.cublasNotSupported, module.cublasArchMismatch)
        self._here = threading.local()
        self._handles: weakref.WeakSet[Handle] = weakref.WeakSet()
        atexit.register(self.close)

    def handle(self) -> Handle:
        """This thread's, on its stream."""
        if (handle := self._here.__dict__.get("handle")) is None:
            handle = self._here.handle = Handle(self)
            self._handles.add(handle)
        return handle

    def close(self) -> None:
        """Before the context ends."""
        for handle in list(self._handles):
            handle.close()


class Handle:
    """cuBLAS's state for one thread, with the stream and the math mode that it was last given."""

    def __init__(self, library: Library) -> None:
        self._library, self._stream, self._math = library, 0, -1
        self.value: int | None = library.module.cublasCreate()

    def ready(self, stream: int, math: int) -> int | None:
        if stream != self._stream:
            self._library.module.cublasSetStream(self.value, stream)
            self._stream = stream
        if math != self._math:
            self._library.module.cublasCheckStatus(self._library.set_math(self.value, math))
            self._math = math
        return self.value

    def close(self) -> None:
        value, self.value = self.value, None
        if value is not None:
            self._library.module.cublasDestroy(value)

    def __del__(self) -> None:
        self.close()


@functools.cache
def library() -> Library | None:
    """cuBLAS, if it is here; AUTOTAPE_CUBLAS is "none" or names it.  Raises DeviceError if that one can't be loaded."""
    named = os.environ.get(scikit_cuda.VARIABLE)
    if named == "none":
        return None
    try:
        return Library(scikit_cuda.load())
    except (OSError, ImportError) as e:
        if named:
            raise DeviceError(f"{scikit_cuda.VARIABLE} names {named}: {e}") from e
        return None


class Call(NamedTuple):
    """A product as cuBLAS is asked for it: b comes first."""

    extents: tuple[int, int, int]
    b: tuple[int, int]  # whether it is transposed for cuBLAS, and the stride of its columns there
    a: tuple[int, int]
    matrices: int  # one stride apart
    strides: tuple[int, ...]  # of b, a and y
    offsets: list[tuple[int, int, int]]  # of each call, in elements


@functools.lru_cache(4096)
def _call(p: Product) -> Call | None:
    """None for what cuBLAS has no call for."""
    b, a = _laid(p.columns, p.inner, p.b_column, p.b_inner), _laid(p.rows, p.inner, p.a_row, p.a_inner)
    *outer, count = p.stack or (1,)
    strides = (*p.b_stack[-1:], *p.a_stack[-1:], p.rows * p.columns) if p.stack else (0, 0, 0)
    if a is None or b is None or not p.inner or prod(outer) > _MOST_CALLS or min(strides) < 0:
        return None
    if max(p.rows, p.columns, p.inner, count, a[1], b[1]) > _MOST:
        return None
    offsets = []
    for i, index in enumerate(indices(*map(range, outer))):
        at_b, at_a = (sum(j * s for j, s in zip(index, stack, strict=False)) for stack in (p.b_stack, p.a_stack))
        offsets.append((at_b, at_a, i * count * p.rows * p.columns))
    return Call((p.columns, p.rows, p.inner), (int(not b[0]), b[1]), (int(a[0]), a[1]), count, strides, offsets)


def _laid(lines: int, terms: int, line: int, term: int) -> tuple[bool, int] | None:
    """Whether lines lie side by side, else their terms do, and the stride of the others; None if neither."""
    if (line == 1 or lines == 1) and (term >= lines or terms == 1):
        return True, max(lines, term if terms > 1 else 1)
    if (term == 1 or terms == 1) and (line >= terms or lines == 1):
        return False, max(terms, line if lines > 1 else 1)
    return None


def multiply(p: Product, a: DeviceArray, b: DeviceArray, mode: str) -> DeviceArray | None:
    """The product that p describes; None if there is no cuBLAS, or it can't take these."""
    if (found := library()) is None or a.dtype.name not in _DATA or not prod(p.shape) or (call := _call(p)) is None:
        return None
    y = empty(p.shape, a.dtype)
    try:
        _run(found, call, y, a, b, mode)
    except found.unsupported:
        return None
    except found.module.cublasError as e:
        raise device().explain(RuntimeError(f"{type(e).__name__}: {(type(e).__doc__ or '').strip()}"), "a matrix product by cuBLAS") from e
    return y


def _run(found: Library, call: Call, y: DeviceArray, a: DeviceArray, b: DeviceArray, mode: str) -> None:
    stream = device().stream
    handle = found.handle().ready(0 if stream is None else stream.handle, _MATH[mode])
    one, zero = _ONE_AND_ZERO["d" if y.itemsize == 8 else "f"]
    head, tail = (handle, call.b[0], call.a[0], *call.extents, one), (_COMPUTE[y.dtype.name][mode], _DEFAULT_ALGORITHM)
    data, width = _DATA[y.dtype.name], call.extents[0]
    for offsets in call.offsets:
        at_b, at_a, at_y = (x.address + i * x.itemsize for x, i in zip((b, a, y), offsets, strict=True))
        of_b, of_a, of_y = (at_b, data, call.b[1]), (at_a, data, call.a[1]), (at_y, data, width)
        if call.matrices == 1:
            status = found.gemm(*head, *of_b, *of_a, zero, *of_y, *tail)
        else:
            b_step, a_step, y_step = call.strides
            status = found.batched(*head, *of_b, b_step, *of_a, a_step, zero, *of_y, y_step, call.matrices, *tail)
        found.module.cublasCheckStatus(status)
