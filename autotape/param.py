"""Param, a mutable cell that every tape watches on sight, and what else may be a variable of a tape."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from . import backend
from .backends.kernels import Array, Shape
from .errors import TapeError
from .numpy_protocol import dispatch_function, dispatch_ufunc
from .tape import Record, active
from .tensor import Tensor, adopt, backend_of, constant, describe, kind_of, leaf, refuse_tracked

P = TypeVar("P", bound="Param")


class Param:
    """A value that changes: an array on a backend, and a version that counts its changes.

    It takes part in operators and NumPy's functions like a Tensor.  `p.value = new` and `p -= step` (+=, *=, /=) give it
    another value; arrays and Tensors taken from it before keep theirs.  Both raise TapeError while a tape that used it is
    still to be walked.
    """

    __slots__ = ("__weakref__", "_value", "_version", "_watchers")
    __hash__ = object.__hash__

    def __init__(self, value: Any) -> None:
        """A copy of value, on the current backend.  Raises TypeError unless it is an array (or number) of floats."""
        k = backend.kernels()
        self._value = k.copy(_raw(value, k))
        if kind_of(self.dtype) not in "fc":
            raise TypeError(f"a Param holds floats, not {describe(self._value)}")
        self._version = 0
        self._watchers: weakref.WeakValueDictionary[int, Record] = weakref.WeakValueDictionary()

    @property
    def value(self) -> Any:
        """The value, as its backend's array; read-only where that is NumPy's."""
        if not isinstance(self._value, np.ndarray):
            return self._value
        view = self._value.view()
        view.flags.writeable = False
        return view

    @value.setter
    def value(self, new: Any) -> None:
        k = backend_of(self._value)
        raw = _raw(new, k)
        if raw.shape != self.shape:
            raise ValueError(f"a Param of shape {self.shape} can't take a value of shape {raw.shape}")
        if raw.dtype.kind == "c" != self.dtype.kind:
            raise TypeError(f"a Param of {self.dtype} can't take a value of {raw.dtype}, whose imaginary part would be lost")
        self.check_free()
        self._value = k.copy(k.astype(raw, self.dtype))
        self._version += 1

    @property
    def version(self) -> int:
        """How often the value has changed."""
        return self._version

    @property
    def shape(self) -> Shape:
        shape: Shape = self._value.shape
        return shape

    @property
    def dtype(self) -> Any:
        return self._value.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size: int = self._value.size
        return size

    def to(self, name: str) -> Param:
        """A Param of this value on the backend of that name: this one if it is there."""
        k = backend.load(name)
        if isinstance(self._value, k.array):
            return self
        with backend.use_kernels(k):
            return Param(self.numpy())

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value as a read-only NumPy array."""
        return constant(self._value).numpy()

    def __repr__(self) -> str:
        return f"Param({repr(constant(self._value))[7:-1]})"

    def __len__(self) -> int:
        return len(watch(self))

    def __bool__(self) -> bool:
        return bool(watch(self))

    def __float__(self) -> float:
        return float(watch(self))

    def __int__(self) -> int:
        return int(watch(self))

    @property
    def itemsize(self) -> int:
        return watch(self).itemsize

    @property
    def nbytes(self) -> int:
        return watch(self).nbytes

    def item(self, *index: Any) -> Any:
        """The one element, or that at an index as ndarray.item takes it, as a Python number."""
        return watch(self).item(*index)

    def __reduce__(self) -> Any:
        return Param, (np.array(self.numpy()),)

    def __dlpack__(self, **options: Any) -> Any:
        return watch(self).__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return watch(self).__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return watch(self).__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return dispatch_ufunc(ufunc, method, args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        y = dispatch_function(function, args, kwargs)
        return watch(y) if isinstance(y, Param) else y  # what gives its argument as it is gives a value, not the variable

    # -- changes
    if TYPE_CHECKING:

        def __iadd__(self: P, step: Any) -> P: ...
        def __isub__(self: P, step: Any) -> P: ...
        def __imul__(self: P, step: Any) -> P: ...
        def __itruediv__(self: P, step: Any) -> P: ...

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError("a Param changes as a whole: p.value = p.at[i].set(v)")

    def change(self, update: Callable[[Array], None]) -> None:
        """Let update write a new value into the array; into a copy of it, if anybody else holds the array or a view of it.

        Another thread must not take the value meanwhile.  Raises TapeError while a tape that used the Param is still to be walked.
        """
        self.check_free()
        k = backend_of(self._value)
        if getrefcount(self._value) > _ALONE or not k.is_alone(self._value):
            self._value = k.copy(self._value)
        try:
            update(self._value)
        finally:
            self._version += 1

    def check_free(self) -> None:
        """Raises TapeError while a tape that used the Param is still to be walked."""
        if self._watchers:
            raise _watched()

    def _update(self: P, kernel: str, step: Any) -> P:
        k = backend_of(self._value)
        self.value = getattr(k, kernel)(self._value, _raw(step, k))
        return self

    def release(self, record: Record) -> None:
        """A tape that used it is done."""
        self._watchers.pop(record.serial, None)

    def _hold(self, record: Record) -> None:
        if record.serial not in self._watchers:
            self._watchers[record.serial] = record
            record.params.append(self)


def _watched() -> TapeError:
    return TapeError(
        "a Param can't change while a tape that used it is still to be walked: call tape.gradient first "
        "(or tape.close(), or drop the pullback of vjp)"
    )


class _Holder:
    __slots__ = ("value",)
    value: object


def _alone() -> int:
    """What getrefcount says of an attribute that nobody else holds; Pythons differ."""
    holder = _Holder()
    holder.value = object()
    return getrefcount(holder.value)


_ALONE = _alone()
_CHANGES = {
    "__iadd__": "add", "__isub__": "subtract", "__imul__": "multiply", "__itruediv__": "divide",
    "__ifloordiv__": "floor_divide", "__imod__": "remainder", "__ipow__": "power", "__imatmul__": "matmul",
}  # fmt: skip
for _method, _kernel in _CHANGES.items():
    setattr(Param, _method, lambda p, step, kernel=_kernel: p._update(kernel, step))


def _raw(value: Any, k: Any) -> Array:
    """A value as an array of backend k; a tracked Tensor is refused."""
    if isinstance(value, Tensor):
        refuse_tracked(value, "a Param's value")
        value = value._array
    elif isinstance(value, Param):
        value = value._value
    return adopt(value, k)


def watch(p: Param) -> Tensor:
    """The variable that a Param is on the current tape, the same one each time; a constant where nothing records."""
    record = active()
    if record is None:
        return constant(p._value)
    p._hold(record)
    return _leaf_of(p, record, len(record.watched) - 1)


def _leaf_of(p: Param, record: Record, depth: int) -> Tensor:
    hit: Tensor | None = record.watched[depth].get(id(p))
    if hit is None:
        outer = _leaf_of(p, record, depth - 1) if depth else p._value
        hit = record.watched[depth][id(p)] = leaf(record, outer)
    return hit


def is_variable(x: Any, name: str) -> bool:
    """Whether a leaf is differentiated; other things pass through.  Integer and boolean arrays are refused."""
    if isinstance(x, bool):
        return False
    if isinstance(x, (int, float, complex, Param)):
        return True
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        if not callable(x) and any(hasattr(v, "dtype") and hasattr(v, "shape") for v in getattr(x, "__dict__", {}).values()):
            raise TypeError(
                f"{name}: {describe(x)} holds arrays that would not be differentiated: make its class a dataclass, or tell "
                "at.tree.register how to take it apart; or pass it in another argument"
            )
        return False
    if getattr(x.dtype, "kind", "V") not in "fcV" or x.dtype == object:
        raise TypeError(
            f"{name}: can't differentiate with respect to {describe(x)}: use floats (x.astype(float)), or pass it in another argument"
        )
    return True


def as_variable(x: Any) -> Any:
    """An input as the array or Tensor behind its variable.  A Python int counts as a float."""
    if isinstance(x, Param):
        return watch(x)
    if isinstance(x, Tensor):
        return x
    k = backend.kernels()
    return adopt(float(x) if isinstance(x, int) else x, k)
