"""The slow path of every operator: some input is not a plain Tensor, or a kernel raised.

`meet` sorts out numbers, raw arrays, Params and pending values, then calls the operator again; on nothing but raw
values it runs the forward and gives a raw result, which is what rules do in a first-order walk.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from .backend import kernels
from .declaration import Declaration
from .errors import BackendError, OperatorError, TapeError, annotated
from .fusion import BORROWED, Pending, extend, force
from .param import Param, watch
from .tensor import Tensor, adopt, constant, describe

_NUMBERS = {bool, int, float, complex}


def meet(op: Declaration, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run an operator on whatever it was given."""
    for a in args:
        if type(a) is Pending:
            if not options and (y := extend(op, args, a, own)) is not None:
                return y
            force(a)
    k = kernels()
    array = k.array
    for a in args:
        if type(a) is not array:
            break
    else:
        return _run_raw(op, args, options)
    try:
        arrays = [_as_array(op, name, a, k) for name, a in zip(_names(op), args, strict=False)]
        arrays = _beside(arrays, k)
    except Exception as e:
        raise explain(e, op, args) from e
    for a in arrays:
        if isinstance(a, Tensor):
            break
    else:
        return _run_raw(op, arrays, options)
    tensors: Any = [_as_tensor(op, a, given, k) for a, given in zip(arrays, args, strict=True)]
    if op.late:
        tensors, options = op.call_of(tensors, options)
    return op.front(*tensors, **options)


def _run_raw(op: Declaration, args: Any, options: dict[str, Any]) -> Any:
    try:
        return op.run_raw(args, options)
    except Exception as e:
        raise explain(e, op, args) from e


def _as_array(op: Declaration, name: str, a: Any, k: Any) -> Any:
    """An input as a Tensor or raw array; numbers stay what they are, and None is an optional input left out."""
    if (cls := type(a)) in _NUMBERS or (cls is k.array and a.dtype.kind != "O") or isinstance(a, Tensor):
        return a
    if isinstance(a, Param):
        return watch(a)
    if a is None and name in op.optional:
        return None
    return adopt(a, k)


def _beside(arrays: list[Any], k: Any) -> list[Any]:
    """Numbers in the dtype that NumPy's weak promotion gives them beside the arrays."""
    dtypes = [a.dtype for a in arrays if type(a) not in _NUMBERS and a is not None]
    if len(dtypes) == len(arrays):
        return arrays
    if not dtypes:
        return [a if a is None else adopt(a, k) for a in arrays]
    dtype = dtypes[0] if len(dtypes) == 1 else _promoted(*dtypes)
    return [k.scalar(a, dtype) if type(a) in _NUMBERS else a for a in arrays]


_promoted = functools.lru_cache(256)(np.result_type)


def _as_tensor(op: Declaration, a: Any, given: Any, k: Any) -> Any:
    """Where the operator may be deferred the user's own array is copied, so that overwriting it later changes nothing;
    or marked, if copying it may be dearer than the operator."""
    if a is None or isinstance(a, Tensor):
        return a
    if a is not given or op.fusion is None:
        return constant(a)
    if op.fusion.worth is None:
        return constant(k.copy(a))
    t = constant(a)
    t._id = BORROWED
    return t


def own(a: Any) -> Any:
    """A Param or raw array beside a pending value, as a Tensor whose memory nobody overwrites meanwhile."""
    if isinstance(a, Param):
        return watch(a)
    k = kernels()
    if isinstance(a, np.ndarray) and k.array is not np.ndarray and (raw := k.adopt(a)) is not None:
        return constant(raw)  # brought over, and so a copy
    return constant(k.copy(a)) if type(a) is k.array else a


def _names(op: Declaration) -> Any:
    return op.inputs or (f"{op.variadic}[{i}]" for i in itertools.count())


def explain(e: Exception, op: Declaration, args: Any) -> Exception:
    """What an exception in a kernel means: the same type, with operator, arguments, shapes and dtypes.

    Reached only when one was raised, so looking for arrays of another backend costs ordinary calls nothing.
    """
    if isinstance(e, (OperatorError, TapeError)):
        return e
    k = kernels()
    met = ", ".join(f"{n}: {_describe(a)}" for n, a in zip(_names(op), args, strict=False))
    for name, a in zip(_names(op), args, strict=False):
        foreign = a._array if isinstance(a, Tensor) else a._value if isinstance(a, Param) else None if k.adopt(a) is not None else a
        if hasattr(foreign, "shape") and not isinstance(foreign, k.array):
            where = f"{name}.to({k.name!r})" if isinstance(a, (Tensor, Param)) else f"numpy.asarray({name})"
            return BackendError(
                f"{op.name}: backend {k.name!r} works on {k.array.__name__}, but met {met}. Use the backend that {name} belongs to, "
                f"or move it: {where}"
            )
    return annotated(e, f"{op.name}({met})")


def _describe(a: Any) -> str:
    return describe(a._array if isinstance(a, Tensor) else a._value if isinstance(a, Param) else a)
