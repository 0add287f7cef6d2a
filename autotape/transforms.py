"""Transforms of functions: vjp, value_and_grad, grad, elementwise_grad, stop_gradient; see derivatives.py for the others.

You get back what you passed: arrays for arrays, a float for a float, Tensors for Tensors, a tree for a tree.  What a
level outside tracks stays a Tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from . import backend, tree
from .level import NUMBERS, Level
from .param import Param
from .tensor import Tensor, adopt, constant, describe


class Pullback:
    """What vjp gives beside the value: pull(cotangent) is the tuple of cotangents of the arguments.  It may be called again."""

    def __init__(self, level: Level, build: tree.Build, value: Any) -> None:
        self._level, self.build, self._value = level, build, value

    def __call__(self, cotangent: Any) -> Any:
        """cotangent: a tree like the value, of the same shapes.  Raises ValueError for another one."""
        return self.build(self._level.pull(self._seeds(cotangent), keep=True))

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
    if g.dtype.kind == "c" and y.dtype.kind != "c":
        raise TypeError(f"pullback: the cotangent of a real result ({y.dtype}) is {g.dtype}")
    return g.astype(y.dtype) if isinstance(g, Tensor) else k.astype(g, y.dtype)


def vjp(f: Callable[..., Any], *args: Any, has_aux: bool = False) -> Any:
    """The value of f(*args), and the pullback: cotangent of the value -> tuple of cotangents of args.

    With has_aux f returns (value, aux), and so vjp gives (value, pullback, aux).  args may be trees of float arrays.
    """
    level, y, pull, aux = run_vjp(f, args, has_aux, "vjp")
    y = tree.map(level.release, y)
    return (y, pull, tree.map(level.release, aux)) if has_aux else (y, pull)


def run_vjp(f: Callable[..., Any], args: tuple[Any, ...], has_aux: bool, name: str) -> tuple[Level, Any, Pullback, Any]:
    """f(*args) recorded, for the transform called `name`: the level, the value as f gave it, its pullback, and aux or None."""
    inputs, build = tree.flatten(args)
    level = Level(inputs, name)
    if not level.slots:
        given = ", ".join(describe(a) for a in args) or "no arguments"
        kinds = "pass float arrays or numbers, in dicts, lists, tuples or dataclasses"
        raise TypeError(f"{name}: there is nothing to differentiate in {given}; {kinds}")
    y = level.run(f, build)
    aux = None
    if has_aux:
        if not isinstance(y, tuple) or len(y) != 2:
            level.close()
            raise TypeError(f"{name}: with has_aux the function must return (value, aux), not {describe(y)}")
        y, aux = y
    return level, y, Pullback(level, build, y), aux


class OfArguments:
    """What transforms of f with respect to some of its arguments share: argnums is an int, or a tuple of ints."""

    def __init__(self, f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> None:
        self._name = type(self).__name__
        if not callable(f):
            raise TypeError(f"{self._name}: {describe(f)} is not a function; of f at x the gradient is {self._name}(f)(x)")
        numbers = argnums if isinstance(argnums, tuple) else (argnums,)
        if not numbers or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise TypeError(f"{self._name}: argnums must be an int or a tuple of ints, not {argnums!r}; arguments go to {self._name}(f)(x)")
        functools.update_wrapper(self, f, updated=())  # type: ignore[arg-type]  # each has a __call__
        self.f, self.argnums = f, argnums

    def __repr__(self) -> str:
        inner = self.f if isinstance(self.f, OfArguments) else getattr(self.f, "__name__", self.f)
        return f"{self._name}({inner}, argnums={self.argnums})"

    @property
    def _named(self) -> str:
        """Whose result an error is about."""
        return f"{self._name}: {getattr(self.f, '__name__', 'the function')}"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """In a class, a method: argument 0 is the instance."""
        return self if instance is None else MethodType(self, instance)  # type: ignore[arg-type]

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """f as a function of the arguments that argnums names, and these."""
        numbers = self._positions(len(args))

        def f(*chosen: Any) -> Any:
            full = list(args)
            for n, x in zip(numbers, chosen, strict=True):
                full[n] = x
            return self.f(*full, **kwargs)

        return f, tuple(args[n] for n in numbers)

    def _positions(self, n: int) -> list[int]:
        numbers = self.argnums if isinstance(self.argnums, tuple) else (self.argnums,)
        try:
            positions = [range(n)[i] for i in numbers]
        except IndexError:
            given = f"but the function was called with {n} positional arguments"
            raise TypeError(f"{self._name}: argnums={self.argnums}, {given}") from None
        if len(set(positions)) < len(positions):
            raise TypeError(f"{self._name}: argnums={self.argnums} names an argument twice")
        return positions

    def _as_asked(self, each: Any) -> Any:
        """One thing for each chosen argument: alone where argnums is an int."""
        return each if isinstance(self.argnums, tuple) else each[0]


_VALUES = (Tensor, *NUMBERS, np.ndarray, np.generic)  # what a function to differentiate may give


def _ones(y: Any) -> Any:
    """The cotangent 1 of a value; None of a constant."""
    return backend.kernels().ones(y.shape, y.dtype) if isinstance(y, Tensor) and y._id >= 0 else None


class value_and_grad(OfArguments):
    """value_and_grad(f)(*args): the scalar f(*args), and its gradient with respect to the arguments numbered by argnums.

    A scalar is a number or an array of one element, of any shape.

    argnums: an int (the gradient is a tree like that argument) or a tuple (a tuple of them); negative ones count from
    the end.  With has_aux f returns (value, aux), and the result is ((value, aux), gradient).  With sparse the gradient of
    what was only looked up (w[indices], an embedding) is a Rows: the indices and their rows.  Keyword arguments are
    passed on and not differentiated.  Integer arrays, and a value that is not a scalar, raise TypeError.
    """

    def __init__(self, f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, sparse: bool = False) -> None:
        super().__init__(f, argnums)
        self.has_aux, self.sparse = has_aux, sparse

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        level, y, aux, gradient = self._run(args, kwargs)
        value = level.release(y)
        return ((value, tree.map(level.release, aux)), gradient) if self.has_aux else (value, gradient)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Level, Any, Any, Any]:
        f, chosen = self._chosen(args, kwargs)
        level, y, pull, aux = run_vjp(f, chosen, self.has_aux, self._name)
        with level:
            seed = self._seed(y, level)
            gradients = pull.build(level.pull([(y._id, seed)] if seed is not None else [], keep=False, sparse=self.sparse))
        return level, y, aux, self._as_asked(gradients)

    def _seed(self, y: Any, level: Level) -> Any:
        """The cotangent 1 of a value of one element; None if it is a plain number, on which nothing depends."""
        if not isinstance(y, _VALUES):
            hint = "; with has_aux=True a function may return (value, aux)" if isinstance(y, tuple) else ""
            raise TypeError(f"{self._named} returned {describe(y)}; a scalar is needed{hint}")
        value = y if isinstance(y, Tensor) else np.asarray(y)
        if value.size != 1:
            raise TypeError(f"{self._named} returned shape {value.shape}; a scalar is needed, such as its sum (vjp takes any shape)")
        if value.dtype.kind == "c":
            raise TypeError(
                f"{self._named} returned a complex number; a real scalar is needed, such as its np.abs or np.real "
                "(elementwise_grad gives the derivative of a holomorphic function)"
            )
        return _ones(y)


class grad(value_and_grad):
    """grad(f)(*args): the gradient of the scalar f(*args); argnums as for value_and_grad.  With has_aux: (gradient, aux).

    >>> grad(lambda x: x**3)(2.0)
    12.0
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        level, _, aux, gradient = self._run(args, kwargs)
        return (gradient, tree.map(level.release, aux)) if self.has_aux else gradient


class elementwise_grad(value_and_grad):
    """elementwise_grad(f)(*args): the gradient of f(*args).sum(), for a function f whose elements depend on those at their own place.

    Where f is holomorphic, of complex arrays with a complex result, it is f's derivative.  Raises TypeError for a complex result of real
    arrays, whose gradients are real.

    >>> elementwise_grad(np.tanh)(np.zeros(3))
    array([1., 1., 1.])
    """

    def __init__(self, f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> None:
        super().__init__(f, argnums)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(args, kwargs)[-1]

    def _seed(self, y: Any, level: Level) -> Any:
        if not isinstance(y, _VALUES):
            raise TypeError(f"{self._named} returned {describe(y)}; an array is needed")
        if isinstance(y, Tensor) and y.dtype.kind == "c" and any(v.dtype.kind != "c" for v in level.variables):
            raise TypeError(
                f"{self._named} returned complex numbers of real arguments, whose gradients are real: pass x.astype(complex), "
                "or take its np.real or np.imag"
            )
        return _ones(y)


def stop_gradient(x: Any) -> Any:
    """x (an array, Tensor, Param or a tree of them) as constants: derivatives do not go through."""
    return tree.map(lambda t: constant(t._array) if isinstance(t, Tensor) else constant(t._value) if isinstance(t, Param) else t, x)
