"""Tensor: an array, its id on a tape, and its shape.

A Tensor is immutable in meaning: no operation changes one in place.  It takes part in NumPy's protocols, so NumPy's own
functions reach the operators.  The opset `array` attaches operators, methods and `x.at[i]` to it (see opsets/array/methods.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import backend, scipy_protocol
from .backends.kernels import Array, Shape
from .errors import BackendError
from .numpy_protocol import UFUNCS, dispatch_function, dispatch_ufunc
from .rows import dense
from .tape import LEAF, Record, active


class Tensor:
    """An array of the current backend that operators record.

    `shape`, `dtype`, `ndim`, `size` and the methods are those of numpy.ndarray.  A Tensor whose tape is being recorded is
    *tracked*: what would drop its derivative (float(), int(), np.asarray) raises TypeError and names the way out.
    """

    # Read by the generated front ends.  _id is -1 for a constant; _pending is set only while a value is deferred (fusion.py).
    __slots__ = ("__weakref__", "_array", "_id", "_pending", "_shape")
    _array: Array
    _id: int
    _shape: Shape
    _pending: Any

    __hash__ = object.__hash__

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self._array.dtype
        return dtype

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        return math.prod(self._shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value as a read-only NumPy array, without its derivative; shares memory with the Tensor where it can."""
        value: np.ndarray[Any, Any] = np.asarray(backend_of(self._array).to_numpy(self._array)).view()
        value.flags.writeable = False
        return value

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def item(self, *index: Any) -> Any:
        """The one element, or that at an index as ndarray.item takes it, as a Python number.

        Raises TypeError if the Tensor is tracked, ValueError if it has several elements and no index is given.
        """
        refuse_tracked(self, "t.item()")
        return self.numpy().item(*index)

    def to(self, name: str) -> Tensor:
        """The value on the backend called `name`, as a constant.  Raises TypeError if it is tracked."""
        refuse_tracked(self, "t.to()")
        return constant(adopt(self.numpy(), backend.load(name)))

    # -- what would drop the derivative
    def __float__(self) -> float:
        refuse_tracked(self, "float(t)", _NUMBER)
        return float(self.numpy())

    def __int__(self) -> int:
        refuse_tracked(self, "int(t)", _NUMBER)
        return int(self.numpy())

    def __complex__(self) -> complex:
        refuse_tracked(self, "complex(t)", _NUMBER)
        return complex(self.numpy())

    def __index__(self) -> int:
        refuse_tracked(self, "an index made of t", _INDEX)
        return self.numpy().__index__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if is_tracked(self):
            refuse_tracked(self, "NumPy making an ndarray of t", scipy_protocol.instead() or _ARRAY)
        kept = dtype is None or not np.can_cast(self.dtype, dtype, "same_kind")  # NumPy refuses it then, or casts it where asked to
        return np.array(self.numpy(), None if kept else dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        refuse_tracked(self, "DLPack's export of t")
        raw = _exported(self._array)
        if options.get("max_version") and isinstance(raw, np.ndarray):  # who asks so can be told that it is read-only
            raw = self.numpy()
        return raw.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return _exported(self._array).__dlpack_device__()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of a Tensor of shape {self._shape} is ambiguous: use .any() or .all()")
        return bool(self.numpy())

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-d Tensor")
        return self._shape[0]

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError("Tensors don't change in place: y = x.at[i].set(v) gives a new one (.add, .multiply, .divide, .max, .min too)")

    # -- text, copies
    def __repr__(self) -> str:
        text = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
        text += f", shape={self._shape}" if self.size == 0 and len(self._shape) > 1 else ""
        dtype = "" if self.dtype.kind in "b" or self.dtype in (np.float64, np.int64) else f", dtype={self.dtype}"
        return f"Tensor({text}{dtype}{', tracked' if is_tracked(self) else ''})"

    def __format__(self, spec: str) -> str:
        if spec and self.size != 1:
            raise TypeError(f"format {spec!r} is for one number, not for a Tensor of shape {self._shape}: use np.array2string")
        return format(self.numpy().item(), spec) if spec else repr(self)

    def __copy__(self) -> Tensor:
        self._id  # noqa: B018  makes a pending value real
        return self  # nothing changes a Tensor

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.__copy__()

    def __reduce__(self) -> Any:
        refuse_tracked(self, "a pickle of t")
        return _from_numpy, (np.array(self.numpy()),)

    # -- NumPy's protocols
    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__" and (f := UFUNCS.get(ufunc)) is not None:
            return f(*args)
        return dispatch_ufunc(ufunc, method, args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return dispatch_function(function, args, kwargs)

    if TYPE_CHECKING:  # attached by the opset `array`

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __getattr__(self, name: str) -> Any: ...


def constant(array: Array) -> Tensor:
    """A Tensor over a raw array, recorded nowhere."""
    t = Tensor()
    t._array, t._id, t._shape = array, -1, array.shape
    return t


def array(x: Any, dtype: Any = None) -> Tensor:
    """A constant Tensor on the current backend, with a copy of x: an array, a number, a nested list of numbers, or a Tensor.

    Raises TypeError for anything else, and for a tracked Tensor (use stop_gradient).
    """
    k = backend.kernels()
    return constant(k.copy(asarray(x, dtype)._array))


def asarray(x: Any, dtype: Any = None) -> Tensor:
    """Like `array`, but sharing memory with x where it can: an array overwritten later changes the Tensor and what is computed from it."""
    if isinstance(x, Tensor):
        refuse_tracked(x, "asarray(t)")
        x = x._array
    k = backend.kernels()
    if hasattr(x, "__array__") and not isinstance(x, (k.array, np.ndarray)) and not hasattr(x, "__cuda_array_interface__"):
        x = np.asarray(x)  # a Param, another library's array in main memory
    raw = adopt(x, k)
    return constant(raw if dtype is None else k.astype(raw, np.dtype(dtype)))


def from_dlpack(x: Any) -> Tensor:
    """A constant Tensor that shares memory with an array of another library (torch.Tensor ...), by DLPack: in main memory on the backends
    whose arrays are NumPy's, on the device on theirs."""
    k = backend.kernels()
    return constant(raw if (raw := k.adopt(x)) is not None else adopt(np.from_dlpack(x), k))


def _exported(raw: Array) -> Any:
    """What other libraries take by DLPack: the array itself, or NumPy's where it can't.  They must not write to it."""
    return raw if hasattr(raw, "__dlpack__") else backend_of(raw).to_numpy(raw)


def adopt(x: Any, k: Any) -> Array:
    """A foreign value as an array of backend k; TypeError if it is nothing of the kind, BackendError if it is another backend's array."""
    if isinstance(x, (bool, int, float, complex)):
        x = np.asarray(x)
    x = dense(x)
    if (raw := k.adopt(x)) is not None:
        return raw
    if hasattr(x, "shape") and not isinstance(x, np.ndarray):
        raise BackendError(
            f"backend {k.name!r} works on {k.array.__name__}, but met {describe(x)}: move it with x.to({k.name!r}), or use its own backend"
        )
    raise TypeError(f"{describe(x)} is no array of numbers")


def backend_of(raw: Array) -> Any:
    """The kernels that work on this array: the current ones, or else those of the loaded backend it belongs to."""
    k = backend.kernels()
    return k if isinstance(raw, (k.array, np.generic)) else next(b for b in backend.loaded() if isinstance(raw, b.array))


def kind_of(dtype: np.dtype[Any]) -> str:
    """A dtype's kind as NumPy has it; and "f" for bfloat16, of which NumPy knows nothing."""
    return "f" if dtype.kind == "V" and dtype.name == "bfloat16" else dtype.kind


def describe(x: Any) -> str:
    """A value in an error message: its type, and its shape and dtype where it has them."""
    if isinstance(x, type):
        return f"the class {x.__name__}"
    if isinstance(x, np.generic):
        return f"{type(x).__name__} {x}"
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return f"{type(x).__name__}{tuple(x.shape)} {x.dtype}" if x.shape else f"0-d {type(x).__name__} {x.dtype}"
    return f"{type(x).__name__} {x!r}"[:80]


def is_tracked(t: Any) -> bool:
    """Whether operators on t are being recorded here."""
    record = active()
    return record is not None and isinstance(t, Tensor) and record.holds(t._id)


def refuse_tracked(t: Tensor, what: str, instead: str = "") -> None:
    """What would drop a derivative without a word is an error."""
    if is_tracked(t):
        raise TypeError(
            f"{what} would drop its derivative, since t, of shape {t._shape}, is being recorded. "
            f"For the value alone at.stop_gradient(t) or t.numpy(){instead}"
        )


_NUMBER = (
    "; for a function of math NumPy's of that name; to put t into an array x.at[i].set(t), to fill one np.broadcast_to(t, shape), "
    "to make one np.stack([t, u])"
)
_INDEX = "; a whole number has no derivative: size, index and range come from a constant"
_ARRAY = (
    "; to make an array of several np.stack([t, u]) or np.concatenate; to put t into one x.at[i].set(t), "
    "to fill one np.broadcast_to(t, shape); for A.dot(t) A @ t; for np.array(t) t itself; a list of numbers is a tree, a vector an array"
)


def cast(t: Tensor, dtype: Any) -> Tensor:
    """A cotangent in the dtype of what it belongs to; of a complex one for a real array, the real part."""
    if t.dtype == dtype:
        return t
    part = t.real if t.dtype.kind == "c" and dtype.kind != "c" else t
    y: Tensor = part.astype(dtype)
    return y


def leaf(record: Record, x: Any) -> Tensor:
    """A fresh variable on a tape.  If x is a Tensor that the level outside tracks, its entry leads there."""
    t = constant(x._array if isinstance(x, Tensor) else x)
    t._id = record.end
    record.append((LEAF, x._id if isinstance(x, Tensor) and record.holds(x._id) else -1))
    return t


def _from_numpy(x: Any) -> Tensor:
    return constant(adopt(x, backend.kernels()))
