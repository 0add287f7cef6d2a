"""One differentiation: a stretch of the tape that starts with its variables.

Every transform stands on a `Level`.  Nested ones share the outermost's tape; the inner walk then runs on Tensors and is
recorded for the level outside.  You get back what you passed: arrays for arrays, a float for a float, Tensors for
Tensors, a tree for a tree.  What a level outside tracks stays a Tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from . import tree
from .backends.kernels import Array
from .errors import TapeError
from .fusion import settle
from .param import Param, as_variable, is_variable
from .references import ALONE, is_memory_alone
from .rows import Rows
from .tape import Settings, active, dependents, forget, new_record, recording
from .tensor import Tensor, adopt, cast, constant, describe, is_tracked, leaf
from .walk import walk_raw, walk_traced

NUMBERS = (int, float, complex)


class Level:
    """One differentiation of a function at some inputs (the leaves of its arguments)."""

    def __init__(self, inputs: list[Any], name: str) -> None:
        self.outer = active()
        self.record = new_record() if self.outer is None else self.outer
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
                for t in () if type(y) is Tensor else tree.leaves(y):
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

    def pull(self, seeds: list[tuple[int, Any]], keep: bool, sparse: bool = False) -> list[Any]:
        """The cotangents of the inputs for cotangents of results, (id, cotangent); non-variables come back as they are.

        With `sparse`, those that came by rows stay so.
        """
        ids = [v._id for v in self.variables]
        seeds = [(i, g) for i, g in seeds if i >= self.base]
        found: dict[int, Any] = {}
        own: set[int] = set()
        if seeds:
            if not all(map(self.record.holds, (*ids, *dict(seeds)))):
                raise TapeError(f"{self.name}: this pullback's tape is gone, since the transform around it has returned")
            with self.settings.restored():
                if active() is not None and any(self.is_tracked(g, i) for i, g in seeds):
                    traced = [(i, g if isinstance(g, Tensor) else constant(g)) for i, g in seeds]
                    found = walk_traced(self.record, traced, self.base, ids)
                else:
                    raw = [(i, g._array if isinstance(g, Tensor) else g) for i, g in seeds]
                    found, own = walk_raw(self.record, raw, self.base, ids, keep or self.outer is not None)
        if not keep:
            self.close()
        out = list(self.inputs)
        for i, v in zip(self.slots, self.variables, strict=True):
            g = found.pop(v._id, None)
            exclusive = v._id - self.base in own or (getrefcount(g) == ALONE and is_memory_alone(g, self.settings.kernels))
            out[i] = g.copy() if sparse and type(g) is Rows else self._hand_out(self.inputs[i], v, g, exclusive)
        return out

    def is_tracked(self, cotangent: Any, id: int) -> bool:
        """Whether what is computed from a cotangent and the result with this id is recorded by a level outside."""
        if active() is None:
            return False
        return self.outside is None or id in self.outside or (isinstance(cotangent, Tensor) and is_tracked(cotangent))

    def __enter__(self) -> Level:
        """`with level:` what goes wrong inside leaves nothing of this level behind."""
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.close()

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
        elif type(g) is Rows:
            g, exclusive = g.dense(), True
        if not hasattr(g, "shape"):
            raise TypeError(f"{self.name}: a rule gave {describe(g)} for a cotangent; it must be an array")
        if g.shape != variable._shape:
            raise ValueError(f"{self.name}: a rule gave a cotangent of shape {g.shape} for an input of shape {variable._shape}")
        if isinstance(g, Tensor):
            if isinstance(x, Tensor) or is_tracked(g):
                return cast(g, variable.dtype)
            g, exclusive = g._array, False
        if g.dtype != variable.dtype:
            g, exclusive = k.astype(adopt(g, k), variable.dtype), True
        if not exclusive or not isinstance(g, k.array):
            g = k.copy(adopt(g, k))
        return constant(g) if isinstance(x, Tensor) else plain_like(g, x, k)

    def hand_out(self, x: Any, g: Any, dtype: Any) -> Any:
        """What belongs to an input x, of any shape, in its type; a raw g is nobody else's."""
        if isinstance(g, Tensor) and is_tracked(g):
            return cast(g, dtype)
        k = self.settings.kernels
        raw = k.astype(k.copy(g._array) if isinstance(g, Tensor) else g, dtype)
        return constant(raw) if isinstance(x, Tensor) else plain_like(raw, x, k)

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
        return value.item() if all(type(x) in NUMBERS for x in given) else value[()]


def plain_like(g: Array, x: Any, k: Any) -> Any:
    """A raw array as the kind of thing x is."""
    if isinstance(x, (k.array, Param)) and not isinstance(x, np.generic):
        return g
    value = k.to_numpy(g)
    if type(x) in NUMBERS and value.shape == ():
        return value.item()
    if isinstance(x, np.generic) and value.shape == ():
        return value[()]
    return value if value.flags.writeable else value.copy()
