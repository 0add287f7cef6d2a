"""oneDNN's C interface through ctypes: handles, memory descriptors, attributes, and the primitive descriptors of each operation.

Constants and calls are those of dnnl_types.h and dnnl.h, version 3, of the oneAPI specification.  Every call's status is checked.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from typing import Any

from ..kernels import Shape
from . import library

_MAX_DIMS = 12
_STATUS = {1: "out of memory", 2: "invalid arguments", 3: "unimplemented", 4: "no implementation left", 5: "runtime error"}

F32 = 3
# kinds of propagation
TRAINING, INFERENCE, BACKWARD, BACKWARD_DATA = 64, 96, 128, 160
# algorithms
CONVOLUTION = 3  # auto
MAX_POOL, MEAN_POOL_PADDED, MEAN_POOL = 0x1FF, 0x2FF, 0x3FF
RELU, TANH, ELU, LINEAR, LOGISTIC = 32, 33, 34, 38, 41
ELU_FROM_RESULT, LOGISTIC_FROM_RESULT = 0x102, 0x104  # whose gradients are taken from the result
SOFTMAX, LOGSOFTMAX = 0x30000, 0x30001
# arguments
SRC, DST, WEIGHTS, BIAS, MEAN, VARIANCE, SCALE, SHIFT, WORKSPACE, SCRATCHPAD = 1, 17, 33, 41, 49, 50, 51, 52, 64, 80
DIFF = 128  # added to an argument gives its cotangent, but for scale and shift
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS, DIFF_BIAS, DIFF_SCALE, DIFF_SHIFT = 129, 145, 161, 169, 255, 256
POST_OP = 32768  # times one more than the place of the post-op
# what can be asked of a primitive descriptor
_QUERY_WORKSPACE, _QUERY_SCRATCHPAD, _QUERY_ARGUMENT, _QUERY_IMPLEMENTATION = 135, 136, 255, 8
USE_SCALE, USE_SHIFT = 2, 4


class DnnlError(RuntimeError):
    """A call of oneDNN failed."""

    def __init__(self, call: str, status: int) -> None:
        self.status = status
        super().__init__(f"oneDNN: {call} failed with status {status} ({_STATUS.get(status, 'unknown')})")


class Argument(ctypes.Structure):
    """Which memory object is which argument of a primitive."""

    _fields_ = [("argument", c_int), ("memory", c_void_p)]


def _bound(dll: Any, name: str, *types: Any) -> Callable[..., None]:
    function = getattr(dll, f"dnnl_{name}")
    function.argtypes = types
    function.restype = c_int

    def call(*args: Any) -> None:
        if status := function(*args):
            raise DnnlError(name, status)

    return call


dll = library.load()
_quick = ctypes.PyDLL(dll._name)  # calls that take less time than letting other threads run would
_out, _handle, _dims = POINTER(c_void_p), c_void_p, POINTER(c_int64)

_engine_create = _bound(dll, "engine_create", _out, c_int, c_size_t)
_stream_create = _bound(dll, "stream_create", _out, _handle, c_int)
_md_strided = _bound(dll, "memory_desc_create_with_strides", _out, c_int, _dims, c_int, _dims)
_md_tagged = _bound(dll, "memory_desc_create_with_tag", _out, c_int, _dims, c_int, c_int)
_memory_create = _bound(dll, "memory_create", _out, _handle, _handle, _handle)
_attr_create = _bound(dll, "primitive_attr_create", _out)
_attr_scratchpad = _bound(dll, "primitive_attr_set_scratchpad_mode", _handle, c_int)
_attr_post_ops = _bound(dll, "primitive_attr_set_post_ops", _handle, _handle)
_post_ops_create = _bound(dll, "post_ops_create", _out)
_append_eltwise = _bound(dll, "post_ops_append_eltwise", _handle, c_int, c_float, c_float)
_append_prelu = _bound(dll, "post_ops_append_prelu", _handle, c_int)
_append_sum = _bound(dll, "post_ops_append_sum", _handle, c_float, ctypes.c_int32, c_int)
_primitive_create = _bound(dll, "primitive_create", _out, _handle)
_query = _bound(dll, "primitive_desc_query", _handle, c_int, c_int, c_void_p)
_reorder = _bound(dll, "reorder_primitive_desc_create", _out, _handle, _handle, _handle, _handle, _handle)

dll.dnnl_primitive_desc_query_md.argtypes, dll.dnnl_primitive_desc_query_md.restype = (_handle, c_int, c_int), c_void_p
dll.dnnl_memory_desc_get_size.argtypes, dll.dnnl_memory_desc_get_size.restype = (_handle,), c_size_t
dll.dnnl_memory_desc_equal.argtypes = (_handle, _handle)
dll.dnnl_get_effective_cpu_isa.restype = c_int

execute = dll.dnnl_primitive_execute  # hot: its status is looked at by primitives.py
execute.argtypes, execute.restype = (_handle, _handle, c_int, c_void_p), c_int
set_pointer = _quick.dnnl_memory_set_data_handle
set_pointer.argtypes, set_pointer.restype = (_handle, _handle), c_int


class Handle:
    """What oneDNN made, which is destroyed with its last reference."""

    __slots__ = ("_destroy", "value")

    def __init__(self, kind: str, create: Callable[..., None], *args: Any) -> None:
        made = c_void_p()
        self.value: int | None = None
        self._destroy = _DESTROY[kind]
        create(byref(made), *args)
        self.value = made.value

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.value is not None and not ending():  # at the process's end other threads may still be computing with it
            self._destroy(self.value)


def _destroyer(name: str) -> Any:
    function = getattr(dll, f"dnnl_{name}_destroy")
    function.argtypes = (_handle,)
    return function


_KINDS = ("engine", "stream", "memory_desc", "memory", "primitive_attr", "post_ops", "primitive_desc", "primitive")
_DESTROY = {kind: _destroyer(kind) for kind in _KINDS}
_CPU = 1
_IN_ORDER = 1
engine = Handle("engine", _engine_create, _CPU, 0)


def new_stream() -> Handle:
    return Handle("stream", _stream_create, engine.value, _IN_ORDER)


# Threads are OpenMP's, of whichever library libdnnl brought; other builds divide the work by rules of their own.
set_threads = getattr(_quick, "omp_set_num_threads", None)
max_threads: Callable[[], int] = getattr(_quick, "omp_get_max_threads", lambda: 0)


def settle_threads() -> None:
    """In a new thread: OpenMP's limits count now, for oneDNN waits for ever for threads that it was promised and is not given."""
    if set_threads is not None:
        _quick.omp_set_dynamic(0)
        set_threads(min(max_threads(), _quick.omp_get_thread_limit()))


FORKS = hasattr(_quick, "kmp_set_blocktime")  # LLVM's and Intel's OpenMP work in a forked child, GNU's doesn't

# The oldest ISA with 512-bit vectors in the numbering of dnnl_cpu_isa_t
HAS_AVX512 = dll.dnnl_get_effective_cpu_isa() & 0x27 == 0x27


def dims(sizes: Sequence[int]) -> Any:
    return (c_int64 * _MAX_DIMS)(*sizes)


def described(shape: Shape, strides: Shape | None = None) -> Handle:
    """The descriptor of a float32 array; strides in elements, None leaves the layout to oneDNN."""
    any_layout = 1
    if strides is None:
        return Handle("memory_desc", _md_tagged, len(shape), dims(shape), F32, any_layout)
    return Handle("memory_desc", _md_strided, len(shape), dims(shape), F32, dims(strides))


def memory(description: int | None) -> Handle:
    """A memory object without memory; set_pointer gives it some."""
    return Handle("memory", _memory_create, description, engine.value, None)


def attributes(post_ops: Sequence[tuple[Any, ...]] = ()) -> Handle:
    """Attributes with our own scratchpad and these post-ops: ("sum", factor), ("prelu",) or (an eltwise algorithm, alpha, beta)."""
    made = Handle("primitive_attr", _attr_create)
    _attr_scratchpad(made.value, 1)
    if post_ops:
        chain = Handle("post_ops", _post_ops_create)
        for kind, *numbers in post_ops:
            if kind == "sum":
                _append_sum(chain.value, *numbers, 0, 0)
            elif kind == "prelu":
                _append_prelu(chain.value, 0)  # one weight for all
            else:
                _append_eltwise(chain.value, kind, *numbers)
        _attr_post_ops(made.value, chain.value)
    return made


def _description_maker(name: str, types: str) -> Callable[..., Handle]:
    """A function that makes primitive descriptors: a letter for each argument, as in _LETTERS; handles may be None."""
    create = _bound(dll, f"{name}_primitive_desc_create", _out, _handle, *(_LETTERS[t] for t in types))

    def make(*args: Any) -> Handle:
        return Handle("primitive_desc", create, engine.value, *(a.value if isinstance(a, Handle) else a for a in args))

    return make


_LETTERS = {"h": _handle, "i": c_int, "u": ctypes.c_uint, "f": c_float, "d": _dims}
convolution_forward = _description_maker("convolution_forward", "iihhhhddddh")
convolution_backward_data = _description_maker("convolution_backward_data", "ihhhddddhh")
convolution_backward_weights = _description_maker("convolution_backward_weights", "ihhhhddddhh")
pooling_forward = _description_maker("pooling_forward", "iihhdddddh")
pooling_backward = _description_maker("pooling_backward", "ihhdddddhh")
batchnorm_forward = _description_maker("batch_normalization_forward", "ihhfuh")
batchnorm_backward = _description_maker("batch_normalization_backward", "ihhhfuhh")
layernorm_forward = _description_maker("layer_normalization_forward", "ihhhfuh")
layernorm_backward = _description_maker("layer_normalization_backward", "ihhhhfuhh")
softmax_forward = _description_maker("softmax_forward", "iihhih")
lstm_forward = _description_maker("lstm_forward", f"ii{11 * 'h'}uh")
lstm_backward = _description_maker("lstm_backward", f"ii{22 * 'h'}uhh")
gru_forward = _description_maker("lbr_gru_forward", f"ii{7 * 'h'}uh")
gru_backward = _description_maker("lbr_gru_backward", f"ii{14 * 'h'}uhh")
matmul = _description_maker("matmul", "hhhhh")
eltwise_forward = _description_maker("eltwise_forward", "iihhffh")
eltwise_backward = _description_maker("eltwise_backward", "ihhhffhh")


def reorder(source: int | None, target: int | None) -> Handle:
    return Handle("primitive_desc", _reorder, source, engine.value, target, engine.value, None)


def primitive(description: Handle) -> Handle:
    return Handle("primitive", _primitive_create, description.value)


def argument_description(description: Handle, argument: int) -> int | None:
    """How a primitive wants an argument; it belongs to the primitive's description.  It has no bytes if there is no such argument."""
    found: int | None = dll.dnnl_primitive_desc_query_md(description.value, _QUERY_ARGUMENT, argument)
    return found or None


def workspace_description(description: Handle) -> int | None:
    found: int | None = dll.dnnl_primitive_desc_query_md(description.value, _QUERY_WORKSPACE, 0)
    return found or None


def scratchpad_description(description: Handle) -> int | None:
    found: int | None = dll.dnnl_primitive_desc_query_md(description.value, _QUERY_SCRATCHPAD, 0)
    return found or None


def size(description: int | None) -> int:
    """Bytes."""
    return int(dll.dnnl_memory_desc_get_size(description))


def are_equal(a: int | None, b: int | None) -> bool:
    return bool(dll.dnnl_memory_desc_equal(a, b))


def implementation(description: Handle) -> str:
    """The name of what oneDNN chose, as "brgconv:avx2"."""
    text = c_char_p()
    _query(description.value, _QUERY_IMPLEMENTATION, 0, byref(text))
    return (text.value or b"?").decode()
