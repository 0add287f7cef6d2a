"""Param, a mutable cell that tapes watch on sight, and Tape, the explicit way to record.

    w = Param(np.zeros((3, 2)))
    with Tape() as tape:
        loss = ((x @ w - y) ** 2).mean()
    w -= 0.1 * tape.gradient(loss, w)
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from . import backend, tree
from .backends.kernels import Array, Shape
from .errors import TapeError
from .fusion import FUSED_AWAY, settle
from .numpy_protocol import dispatch_function, dispatch_ufunc
from .tape import Record, Settings, active, current, recording, walk_raw, walk_traced
from .tensor import Tensor, adopt, backend_of, constant, describe, is_tracked, leaf, refuse_tracked

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
        if self.dtype.kind not in "fc":
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
        if self._watchers:
            raise TapeError(
                "a Param can't change while a tape that used it is still to be walked: call tape.gradient first "
                "(or tape.close(), or drop the pullback of vjp)"
            )
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

    def item(self) -> Any:
        """The value of a one-element Param as a Python number."""
        return watch(self).item()

    def __reduce__(self) -> Any:
        return Param, (np.array(self.numpy()),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return watch(self).__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return dispatch_ufunc(ufunc, method, args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return dispatch_function(function, args, kwargs)

    # -- changes
    if TYPE_CHECKING:

        def __iadd__(self: P, step: Any) -> P: ...
        def __isub__(self: P, step: Any) -> P: ...
        def __imul__(self: P, step: Any) -> P: ...
        def __itruediv__(self: P, step: Any) -> P: ...

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError("a Param changes as a whole: p.value = p.at[i].set(v)")

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
        return False
    if getattr(x.dtype, "kind", "V") not in "fcV" or x.dtype == object:
        raise TypeError(
            f"{name}: can't differentiate with respect to {describe(x)}: use floats (x.astype(float)), or leave it out of argnums"
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


class Tape:
    """`with Tape() as tape:` records what is computed from Params, and from arrays given to tape.watch.

    tape.gradient walks back once and closes the tape; persistent=True keeps it until tape.close().  Tapes nest, last in,
    first out; a gradient taken inside another tape or grad can be differentiated there.
    """

    def __init__(self, persistent: bool = False) -> None:
        self.persistent = persistent
        self._record: Record | None = None
        self._open = False

    def __enter__(self) -> Tape:
        if self._record is not None:
            raise TapeError("this tape was entered already: make a new one for each `with`")
        self._outer = active()
        self._record = Record() if self._outer is None else self._outer
        self._recording = recording(self._record)
        self._recording.__enter__()
        if self._outer is not None:
            self._record.watched.append({})
        self._watched, self._settings = self._record.watched[-1], Settings.now()
        self._start = self._record.end
        self._open = True
        return self

    def __exit__(self, kind: Any, *exc: Any) -> None:
        record, self._open = self._record, False
        assert record is not None
        if self._outer is not None:
            record.watched = [level for level in record.watched if level is not self._watched]
        try:
            if kind is None and self._outer is None:
                settle(record)
        finally:
            self._recording.__exit__(kind, *exc)
            if kind is not None:
                self.close()

    def watch(self, x: Any) -> Tensor:
        """x as a variable of this tape; a Tensor that is recorded here is made real, so that its gradient can be asked for."""
        record = self._still_there()
        if not self._open:
            raise TapeError("tape.watch: the tape is not recording any more")
        if isinstance(x, Param):
            return watch(x)
        if isinstance(x, Tensor) and self._start <= x._id < record.end:
            return x
        if not is_variable(x, "tape.watch"):
            raise TypeError(f"tape.watch takes an array or number, not {describe(x)}")
        t = leaf(record, as_variable(x))
        if not isinstance(x, Tensor):
            record.borrowed.add(t._id)
        self._watched[-t._id] = t  # by a key that is no Param's: a variable of this tape
        return t

    def gradient(self, loss: Any, sources: Any) -> Any:
        """The gradients of a scalar loss in sources: a Param, a Tensor recorded here, or a tree of them.

        Gives a tree like sources: for a Param an array, for a Tensor a Tensor, zeros where the loss does not depend on
        it.  Closes the tape unless it is persistent.  Raises TapeError if loss was not recorded here or the tape is used up.
        """
        record = self._still_there()
        if self._open and not self.persistent:
            raise TapeError("tape.gradient: ask after the `with` block, or make the tape persistent")
        if not isinstance(loss, Tensor) or not self._start <= loss._id < record.end:
            raise TapeError(f"tape.gradient: the loss ({describe(loss)}) was not recorded on this tape")
        if loss._shape != ():
            raise TypeError(f"tape.gradient: the loss has shape {loss._shape}; a scalar is needed, such as loss.sum()")
        leaves, build = tree.flatten(sources)
        ids = [self._id_of(x, record) for x in leaves]
        try:
            found = self._walk(record, loss, [i for i in ids if i is not None])
            return build([self._hand_out(x, None if i is None else found[i]) for x, i in zip(leaves, ids, strict=True)])
        finally:
            if not self.persistent:
                self.close()

    def close(self) -> None:
        """Forget what was recorded, so that Params may change."""
        if self._record is not None and self._outer is None:
            self._record.clear()
        self._start = -1

    def _still_there(self) -> Record:
        if self._record is None:
            raise TapeError("the tape was not entered: use `with Tape() as tape:`")
        if self._start < 0:
            raise TapeError("the tape is used up: tape.gradient walks it once (Tape(persistent=True) keeps it)")
        return self._record

    def _id_of(self, x: Any, record: Record) -> int | None:
        if isinstance(x, Param):
            hit = self._watched.get(id(x))
            return None if hit is None else hit._id
        if not isinstance(x, Tensor):
            raise TypeError(f"tape.gradient: a source is {describe(x)}; it must be a Param or a Tensor that tape.watch gave")
        if not self._start <= x._id < record.end:
            raise TapeError(f"tape.gradient: a source ({describe(x)}) was not recorded on this tape; tape.watch(x) makes it a variable")
        if getattr(x, "_pending", None) is FUSED_AWAY:
            raise TapeError(
                f"tape.gradient: a source ({describe(x)}) was fused away, so the loss does not go through it: "
                'call tape.watch(x) before it is used, or compute under math_mode.use("pedantic")'
            )
        return x._id

    def _walk(self, record: Record, loss: Tensor, wanted: list[int]) -> dict[int, Any]:
        if not wanted:
            return {}
        with self._settings.restored():
            one = self._settings.kernels.ones((), loss.dtype)
            if current() is not None:
                return walk_traced(record, [(loss._id, constant(one))], self._start, wanted)
            return walk_raw(record, [(loss._id, one)], self._start, wanted, keep=self.persistent or self._outer is not None)[0]

    def _hand_out(self, x: Any, g: Any) -> Any:
        k = backend_of(x._value if isinstance(x, Param) else x._array)
        if g is None:
            g = k.zeros(x.shape, x.dtype)
        if not isinstance(g, Tensor):
            g = constant(k.copy(k.astype(g, x.dtype)))
        if isinstance(x, Param) and not is_tracked(g):
            return k.copy(g._array)
        return g
