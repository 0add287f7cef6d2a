"""How NumPy's own functions reach the operators: np.tanh(t), np.add.reduce(t), np.concatenate([t, u]).

An operator registers for NumPy functions with `@operator(numpy=np.tanh)` if its inputs come first there too and its
options have NumPy's names.  Where a signature differs, an adapter with NumPy's signature does:

    @numpy_function(np.concatenate)
    def _(arrays, axis=0): return concatenate(*arrays, axis=axis)

Every function that NumPy dispatches is accounted for, as one kind: differentiable, of zero gradient, one that creates
or inspects, or refused with a reason (numpy_accounts.py lists them).  What is refused, what nobody knows, and a keyword
that an operator doesn't take raise a TypeError: nothing falls silently into object arrays.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from . import opsets, scipy_protocol
from .errors import OperatorError

umath: Any = importlib.import_module("numpy._core.umath")  # where NumPy keeps ufuncs that stand behind functions: np.clip's
F = TypeVar("F", bound=Callable[..., Any])

DIFFERENTIABLE, ZERO, INSPECTS, REFUSED = "differentiable", "zero gradient", "creates or inspects", "refused"


class Account(NamedTuple):
    """What becomes of a NumPy function that meets a Tensor."""

    kind: str  # DIFFERENTIABLE, ZERO, INSPECTS or REFUSED
    calls: str  # the operator or composition that it reaches, "array.tanh"; "" for an adapter and where it is refused
    reason: str  # why it is refused, and what to use


UFUNCS: dict[Any, Callable[..., Any]] = {}  # ufunc, or (ufunc, method) -> what to call
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
_kinds: dict[Any, str] = {}  # what was said; otherwise an operator's rules say it
_registered: set[str] = set()  # names
_refused: dict[str, str] = {}  # name -> reason
_inputs: dict[Any, int] = {}  # operators: how many inputs come first
_places: dict[Any, int] = {}  # adapters, once called: how many positional arguments they take in NumPy's order
ANY = "**"  # among a function's parameters: it takes whatever keywords NumPy's does
_DEFAULTS: dict[str, tuple[Any, ...]] = {  # beside np._NoValue, by which NumPy says that nothing is given
    "out": (None,),
    "where": (True,),
    "dtype": (None,),
    "casting": ("same_kind",),
    "order": ("K", None),
    "weights": (None,),
    "copy": (None,),
    "device": (None,),
    "subok": (True, False),  # about subclasses of ndarray, which Tensors are not
    "overwrite_input": (True, False),  # which no Tensor allows
}
_ADVICE = {
    "out": " (nothing is written into an array: use the returned value, and for a += t write a = a + t)",
    "dtype": " (use .astype(dtype) before or after)",
    "where": " (choose before or after: np.where(mask, t, other), t[mask])",
    "initial": " (combine the result with np.maximum, np.minimum, + or *)",
}


def numpy_function(*functions: Any, kind: str = "") -> Callable[[F], F]:
    """Declare an adapter for NumPy functions, ufuncs, or (ufunc, method) pairs; `kind` is ZERO or INSPECTS where it has no derivative."""

    def declare(adapter: F) -> F:
        for function in functions:
            _register(function, adapter, kind)
        return adapter

    return declare


def register_operator(functions: Any, front: Callable[..., Any], inputs: int, kind: str = "") -> None:
    """Let NumPy functions with `inputs` arrays in front call an operator or a composition, which without `kind` has a derivative.

    An operator without rules has none.
    """
    for function in functions if isinstance(functions, tuple) else (functions,):
        _register(function, front, kind)
        _inputs[function] = inputs


def _register(function: Any, f: Callable[..., Any], kind: str) -> None:
    """A later registration, such as a user's own, replaces an earlier one, and a refusal."""
    _table(function)[function] = f
    _inputs.pop(function, None)
    _places.pop(function, None)
    _kinds[function] = kind
    name = full_name(function)
    _registered.add(name)
    _refused.pop(name, None)


def refuse(reason: str, *names: str) -> None:
    """Declare that these NumPy functions ("numpy.linalg.eig") raise a TypeError for Tensors: why, and what to use instead.

    Raises OperatorError for one that is registered.
    """
    if both := _registered.intersection(names):
        raise OperatorError(f"refused, yet registered: {', '.join(sorted(both))}")
    _refused.update(dict.fromkeys(names, reason))


def account(function: Any) -> Account | None:
    """What becomes of a NumPy function or ufunc that meets a Tensor; None if nobody has said."""
    f = _table(function).get(function)
    if f is None:
        reason = _refused.get(full_name(function))
        return None if reason is None else Account(REFUSED, "", reason)
    kind = _kinds[function] or (ZERO if hasattr(f, "op") and not f.op.rules else DIFFERENTIABLE)
    opset = f.__module__.rpartition(".opsets.")[2].partition(".")[0]
    return Account(kind, f"{opset}.{f.__name__}" if f.__name__ == f.__qualname__ != "_" else "", "")


def full_name(function: Any) -> str:
    """Where a function, ufunc or (ufunc, method) of NumPy or SciPy is found: "numpy.linalg.norm", "numpy.tanh", "numpy.add.reduce"."""
    if isinstance(function, tuple):
        return f"{full_name(function[0])}.{function[1]}"
    name: str = function.__name__
    if not isinstance(function, np.ufunc):
        return f"{function.__module__.replace('._scimath_impl', '.scimath')}.{name}"  # as NumPy 2.0 has it
    if getattr(np, name, None) is function:
        return f"numpy.{name}"
    # Ufuncs don't say where they are.  NumPy's others are those of text and a few behind functions; the rest are other packages'.
    if getattr(sys.modules.get("scipy.special"), name, None) is function:
        return f"scipy.special.{name}"
    return next((f"{place.__name__}.{name}" for place in (np.strings, umath) if hasattr(place, name)), name)


def _table(function: Any) -> dict[Any, Callable[..., Any]]:
    return UFUNCS if isinstance(function, (np.ufunc, tuple)) else FUNCTIONS


def dispatch_ufunc(ufunc: Any, method: str, args: Any, kwargs: Any) -> Any:
    """Tensor.__array_ufunc__, when it is more than a plain call of a known ufunc."""
    if method == "__call__":
        return _call(full_name(ufunc), UFUNCS, ufunc, args, kwargs)
    return _call(f"{full_name(ufunc)}.{method}", UFUNCS, (ufunc, method), args, kwargs)


def dispatch_function(function: Any, args: Any, kwargs: Any) -> Any:
    """Tensor.__array_function__: a call by position, of no more arguments than are in NumPy's order anyway, is passed on as it is."""
    if not kwargs and 0 < len(args) <= (_inputs.get(function) or _places.get(function, 0)):
        return FUNCTIONS[function](*args)
    return _call(full_name(function), FUNCTIONS, function, args, kwargs)


def _call(full: str, table: dict[Any, Callable[..., Any]], key: Any, args: Any, kwargs: Any) -> Any:
    name = full.replace("numpy", "np", 1)
    if (f := table.get(key)) is None and full.startswith("scipy.special."):
        opsets.load("scipy")
        f = table.get(key)
    if f is None:
        if hint := scipy_protocol.instead():
            raise TypeError(f"{name} of a Tensor is not supported{hint}")
        if full in _refused:
            raise TypeError(f"{name} of a Tensor: {_refused[full]}")
        raise TypeError(
            f"{name} of a Tensor is not supported. Declare an operator for it with @operator(numpy={name}), or a composition of "
            f"operators with @numpy_function({name}); for the value without its derivative pass t.numpy()"
        )
    takes = _parameters(f)
    if key in _inputs or len(args) > _in_place(key, takes):
        args, kwargs = _by_name(key, args, kwargs)
    if ANY not in takes:
        kwargs = {k: v for k, v in kwargs.items() if not _is_default(k, v) or (k == "order" and k in takes)}
    for k, v in kwargs.items():
        if k not in takes and (ANY not in takes or (k == "out" and v is not None)):
            arguments = "NumPy's other arguments" if ANY in takes else ", ".join(takes)
            raise TypeError(f"{name} of a Tensor takes {arguments}, not {k}={_ADVICE.get(k, '')}")
    return f(*args, **kwargs)


def _is_default(name: str, value: Any) -> bool:
    """Whether a keyword says what NumPy does anyway."""
    if name not in _DEFAULTS or value is np._NoValue:
        return value is np._NoValue
    return any(value is default or (isinstance(value, str) and value == default) for default in _DEFAULTS[name])


def _by_name(key: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """NumPy's positional arguments put right: those in NumPy's order stay, the others come by their names, and inputs never do."""
    names, n, kwargs = _numpys(key), _inputs.get(key, 0), dict(kwargs)
    args = (*args, *(kwargs.pop(k) for k in names[len(args) : n] if k in kwargs))
    if len(args) > max(n, len(names)):
        raise TypeError(f"np.{key.__name__} takes at most {len(names)} arguments, not {len(args)}")
    n = n or _places[key]
    return args[:n], dict(zip(names[n:], args[n:], strict=False)) | kwargs


def _in_place(key: Any, takes: tuple[str, ...]) -> int:
    """How many positional arguments an adapter takes in NumPy's order: those before the first that it lacks."""
    if (n := _places.get(key)) is None:
        names = _numpys(key)
        alike = names[:1] == takes[:1] and not isinstance(key, tuple) and not any(name.startswith("*") for name in takes)
        n = next((i for i, name in enumerate(names) if name not in takes), sys.maxsize) if alike else sys.maxsize
        _places[key] = n
    return n


def _numpys(key: Any) -> tuple[str, ...]:
    """The names of a NumPy function's parameters, as of NumPy 2.1: before, reshape's shape was called newshape."""
    names = _parameters(key[0] if isinstance(key, tuple) else key)
    return names if key is not np.reshape else tuple("shape" if name == "newshape" else name for name in names)


_signatures: dict[Any, tuple[str, ...]] = {}


def _parameters(f: Any) -> tuple[str, ...]:
    """The names of a function's parameters, with stars where it takes any number; none where NumPy doesn't tell."""
    if (names := _signatures.get(f)) is None:
        try:
            parameters = inspect.signature(f).parameters.values()
            names = tuple(ANY if p.kind is p.VAR_KEYWORD else f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in parameters)
        except (TypeError, ValueError):
            names = ()
        _signatures[f] = names
    return names
