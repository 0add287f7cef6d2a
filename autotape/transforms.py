"""Transforms of functions: vjp, value_and_grad, grad, stop_gradient.

All stand on one `Level`: a stretch of the tape that starts with the variables of one differentiation.  Nested transforms
share the outermost one's tape; the inner walk then runs on Tensors and is recorded for the level outside.

You get back what you passed: arrays for arrays, a float for a float, Tensors for Tensors, a tree for a tree.  What a
level outside tracks stays a Tensor.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import backend, tree
from .backends.kernels import Array
from .errors import TapeError
from .fusion import settle
from .param import Param, as_variable, is_variable
from .tape import Record, Settings, active, dependents, forget, recording, walk_raw, walk_traced
from .tensor import Tensor, adopt, constant, describe, is_tracked, leaf

_NUMBERS = (int, float, complex)


class Level:
    """One differentiation of a function at some inputs (the leaves of its arguments)."""

    def __init__(self, inputs: list[Any], name: str) -> None:
        self.outer = active()
        self.record = Record() if self.outer is None else self.outer
        self.base = self.record.end
        self.settings = Settings.now()
        self.inputs, self.name = inputs, name
        self.slots = [i for i, x in enumerate(inputs) if is_variable(x, name)]
        self.plain = not any(isinstance(x, Tensor) for x in inputs)
        self.outside: set[int] | None = None  # which ids of this level the level outside tracks; None: any may be

    def run(self, f: Callable[..., Any], build: tree.Build) -> Any:
        """f of the variables, recorded; nothing of this level is left behind if it raises."""
        try:
            with recording(self.record):
                arguments = list(self.inputs)
                for i in self.slots:
                    arguments[i] = self._variable(self.inputs[i])
                self.variables: list[Tensor] = [arguments[i] for i in self.slots]
                y = f(*build(arguments))
                for t in tree.leaves(y):
                    if isinstance(t, Tensor):
                        t._id  # noqa: B018  makes a pending result real, on this tape
                if self.outer is None:
                    settle(self.record)
                elif not any(map(is_tracked, self.inputs)):
                    self.outside, self.end = dependents(self.record, self.base), self.record.end
            return y
        except BaseException:
            if self.outer is None:
                self.record.clear()
            else:
                forget(self.record, self.base, self.record.end, dependents(self.record, self.base))
            raise

    def _variable(self, x: Any) -> Tensor:
        t = leaf(self.record, as_variable(x))
        if not isinstance(x, (Tensor, Param)):
            self.record.borrowed.add(t._id)
        return t

    def pull(self, seeds: list[tuple[int, Any]], keep: bool) -> list[Any]:
        """The cotangents of the inputs for cotangents of results, (id, cotangent); non-variables come back as they are."""
        ids = [v._id for v in self.variables]
        seeds = [(i, g) for i, g in seeds if i >= self.base]
        found: dict[int, Any] = {}
        own: set[int] = set()
        if seeds:
            if not all(self.record.holds(i) for i in (*ids, *(i for i, _ in seeds))):
                raise TapeError(f"{self.name}: this pullback's tape is gone, since the transform around it has returned")
            with self.settings.restored():
                if any(self.is_tracked(g, i) for i, g in seeds):
                    traced = [(i, g if isinstance(g, Tensor) else constant(g)) for i, g in seeds]
                    found = walk_traced(self.record, traced, self.base, ids)
                else:
                    raw = [(i, g._array if isinstance(g, Tensor) else g) for i, g in seeds]
                    found, own = walk_raw(self.record, raw, self.base, ids, keep or self.outer is not None)
        if not keep:
            self.close()
        out = list(self.inputs)
        for i, v in zip(self.slots, self.variables, strict=True):
            out[i] = self._hand_out(self.inputs[i], v, found.get(v._id), v._id - self.base in own)
        return out

    def is_tracked(self, cotangent: Any, id: int) -> bool:
        """Whether what is computed from a cotangent and the result with this id is recorded by a level outside."""
        if active() is None:
            return False
        return self.outside is None or id in self.outside or (isinstance(cotangent, Tensor) and is_tracked(cotangent))

    def close(self) -> None:
        """Forget what nobody walks again."""
        if self.outer is None:
            self.record.clear()
        elif self.outside is not None and self.record.is_live:
            forget(self.record, self.base, self.end, self.outside)

    def _hand_out(self, x: Any, variable: Tensor, g: Any, exclusive: bool) -> Any:
        """A cotangent in the type of its input, sharing memory with nothing else."""
        k = self.settings.kernels
        if g is None:
            g, exclusive = k.zeros(variable._shape, variable.dtype), True
        if not hasattr(g, "shape"):
            raise TypeError(f"{self.name}: a rule gave {describe(g)} for a cotangent; it must be an array")
        if g.shape != variable._shape:
            raise ValueError(f"{self.name}: a rule gave a cotangent of shape {g.shape} for an input of shape {variable._shape}")
        if isinstance(g, Tensor):
            if isinstance(x, Tensor) or is_tracked(g):
                return g if g.dtype == variable.dtype else g.astype(variable.dtype)
            g, exclusive = g._array, False
        if g.dtype != variable.dtype:
            g, exclusive = k.astype(adopt(g, k), variable.dtype), True
        if not exclusive or not isinstance(g, k.array):
            g = k.copy(adopt(g, k))
        return constant(g) if isinstance(x, Tensor) else _plain(g, x, k)

    def release(self, y: Any) -> Any:
        """A result as the caller sees it: plain where the inputs were and no level outside tracks it."""
        if not isinstance(y, Tensor) or (is_tracked(y) and (y._id < self.base or self.is_tracked(None, y._id))):
            return y
        if not self.plain:
            return constant(y._array)
        k = self.settings.kernels
        raw, given = k.copy(y._array), [self.inputs[i] for i in self.slots]
        if any(isinstance(x, k.array) and not isinstance(x, np.ndarray) for x in given):
            return raw
        value = k.to_numpy(raw)
        if value.shape != ():
            return value
        return value.item() if all(type(x) in _NUMBERS for x in given) else value[()]


def _plain(g: Array, x: Any, k: Any) -> Any:
    """A raw array as the kind of thing x is."""
    if isinstance(x, (k.array, Param)) and not isinstance(x, np.generic):
        return g
    value = k.to_numpy(g)
    if type(x) in _NUMBERS:
        return value.item()
    if isinstance(x, np.generic):
        return value[()]
    return value if value.flags.writeable else value.copy()


class Pullback:
    """What vjp gives beside the value: pull(cotangent) is the tuple of cotangents of the arguments.  It may be called again."""

    def __init__(self, level: Level, build: tree.Build, value: Any) -> None:
        self._level, self._build, self._value = level, build, value

    def __call__(self, cotangent: Any) -> Any:
        """cotangent: a tree like the value, of the same shapes.  Raises ValueError for another one."""
        return self._build(self._level.pull(self._seeds(cotangent), keep=True))

    def _seeds(self, cotangent: Any) -> list[tuple[int, Any]]:
        k, seeds = self._level.settings.kernels, []

        def add(y: Any, g: Any) -> None:
            if hasattr(y, "shape") and hasattr(y, "dtype"):
                g = _cotangent(g, y, k)
            if isinstance(y, Tensor):
                seeds.append((y._id, g))

        tree.map(add, self._value, cotangent)
        return seeds


def _cotangent(g: Any, y: Any, k: Any) -> Any:
    """A cotangent as the array or Tensor of a result's shape and dtype."""
    g = g if isinstance(g, Tensor) else adopt(g, k)
    if g.shape != y.shape:
        raise ValueError(f"pullback: the cotangent of a result of shape {y.shape} has shape {g.shape}")
    if g.dtype == y.dtype:
        return g
    return g.astype(y.dtype) if isinstance(g, Tensor) else k.astype(g, y.dtype)


def vjp(f: Callable[..., Any], *args: Any, has_aux: bool = False) -> Any:
    """The value of f(*args), and the pullback: cotangent of the value -> tuple of cotangents of args.

    With has_aux f returns (value, aux), and so vjp gives (value, pullback, aux).  args may be trees of float arrays.
    """
    level, y, pull, aux = _vjp(f, args, has_aux, "vjp")
    y = tree.map(level.release, y)
    return (y, pull, tree.map(level.release, aux)) if has_aux else (y, pull)


def _vjp(f: Callable[..., Any], args: tuple[Any, ...], has_aux: bool, name: str) -> tuple[Level, Any, Pullback, Any]:
    inputs, build = tree.flatten(args)
    level = Level(inputs, name)
    if not level.slots:
        given = ", ".join(describe(a) for a in args) or "no arguments"
        raise TypeError(f"{name}: there is nothing to differentiate in {given}; pass float arrays or numbers")
    y = level.run(f, build)
    aux = None
    if has_aux:
        if not isinstance(y, tuple) or len(y) != 2:
            level.close()
            raise TypeError(f"{name}: with has_aux the function must return (value, aux), not {describe(y)}")
        y, aux = y
    return level, y, Pullback(level, build, y), aux


class value_and_grad:
    """value_and_grad(f)(*args): the scalar f(*args), and its gradient with respect to the arguments numbered by argnums.

    argnums: an int (the gradient is a tree like that argument) or a tuple (a tuple of them); negative ones count from
    the end.  With has_aux f returns (value, aux), and the result is ((value, aux), gradient).  Keyword arguments are
    passed on and not differentiated.  Integer arrays, and a value that is not a scalar, raise TypeError.
    """

    def __init__(self, f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> None:
        if not callable(f):
            raise TypeError(f"{type(self).__name__}: {describe(f)} is not a function")
        numbers = argnums if isinstance(argnums, tuple) else (argnums,)
        if not numbers or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise TypeError(f"{type(self).__name__}: argnums must be an int or a tuple of ints, not {argnums!r}")
        functools.update_wrapper(self, f, updated=())
        self.f, self.argnums, self.has_aux = f, argnums, has_aux

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        level, y, aux, gradient = self._run(args, kwargs)
        value = level.release(y)
        return ((value, tree.map(level.release, aux)), gradient) if self.has_aux else (value, gradient)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Level, Any, Any, Any]:
        name = type(self).__name__
        numbers = self._positions(len(args))

        def f(*chosen: Any) -> Any:
            full = list(args)
            for n, x in zip(numbers, chosen, strict=True):
                full[n] = x
            return self.f(*full, **kwargs)

        level, y, pull, aux = _vjp(f, tuple(args[n] for n in numbers), self.has_aux, name)
        try:
            seed = _scalar_seed(y, name, getattr(self.f, "__name__", "the function"))
            gradients = pull._build(level.pull([(y._id, seed)] if seed is not None else [], keep=False))
        except BaseException:
            level.close()
            raise
        return level, y, aux, gradients if isinstance(self.argnums, tuple) else gradients[0]

    def _positions(self, n: int) -> list[int]:
        numbers = self.argnums if isinstance(self.argnums, tuple) else (self.argnums,)
        if any(not -n <= i < n for i in numbers):
            raise TypeError(f"{type(self).__name__}: argnums={self.argnums}, but the function was called with {n} positional arguments")
        positions = [operator.index(i) % n for i in numbers]
        if len(set(positions)) < len(positions):
            raise TypeError(f"{type(self).__name__}: argnums={self.argnums} names an argument twice")
        return positions


class grad(value_and_grad):
    """grad(f)(*args): the gradient of the scalar f(*args); argnums as for value_and_grad.  With has_aux: (gradient, aux).

    >>> grad(lambda x: x**3)(2.0)
    12.0
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        level, _, aux, gradient = self._run(args, kwargs)
        return (gradient, tree.map(level.release, aux)) if self.has_aux else gradient


def _scalar_seed(y: Any, name: str, f: str) -> Any:
    """The cotangent 1 of a scalar value; None if the value is a plain number, on which nothing depends."""
    if not isinstance(y, (Tensor, *_NUMBERS, np.ndarray, np.generic)):
        hint = "; with has_aux=True a function may return (value, aux)" if isinstance(y, tuple) else ""
        raise TypeError(f"{name}: {f} returned {describe(y)}; a scalar is needed{hint}")
    value = y if isinstance(y, Tensor) else np.asarray(y)
    if value.shape != ():
        raise TypeError(f"{name}: {f} returned shape {value.shape}; a scalar is needed, such as its sum (vjp takes any shape)")
    if value.dtype.kind == "c":
        raise TypeError(f"{name}: {f} returned a complex number; a real scalar is needed")
    return backend.kernels().ones((), y.dtype) if isinstance(y, Tensor) and y._id >= 0 else None


def stop_gradient(x: Any) -> Any:
    """x (an array, Tensor, Param or a tree of them) as constants: derivatives do not go through."""
    return tree.map(lambda t: constant(t._array) if isinstance(t, Tensor) else constant(t._value) if isinstance(t, Param) else t, x)
