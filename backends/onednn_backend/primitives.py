"""Primitives ready to run: made once in each thread for each signature, with the reorders that they need, and called on arrays.

A primitive that two threads share gives wrong results without a word, so nothing here is shared: each thread has its own bounded cache,
its own stream, and one workspace for scratchpads and reordered copies.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from ctypes import addressof
from typing import Any

import numpy as np

from ..kernels import Array
from . import binding
from .arrays import ALIGNMENT, address, room
from .binding import DST, SRC, Argument, DnnlError, Handle, execute, set_pointer

_KEPT = 1024  # primitives a thread keeps
_WORKSPACE_KEPT = 1 << 28  # bytes that a thread keeps; a call that needs more has them for its own time


class Unsupported(Exception):
    """A case for which oneDNN has nothing but its reference code, slower than NumPy, or another result: the message says which."""


_making = threading.RLock()


def _made(make: Callable[..., Any], threads: int, *key: Any) -> Any:
    """make(*key), not while the process forks: the child would wait for ever for the locks that oneDNN holds meanwhile."""
    with _making:
        return make(*key)


class _Thread(threading.local):
    """What one thread has."""

    def __init__(self) -> None:
        binding.settle_threads()
        self.stream = binding.new_stream()
        self.ready = functools.lru_cache(maxsize=_KEPT)(_made)
        self.choices: dict[Any, bool] = {}
        self.workspace = np.empty(0, np.uint8)

    def work(self, count: int) -> Array:
        """Workspace of at least so many bytes, aligned."""
        if count <= len(self.workspace):
            return self.workspace
        work = room(count)
        if count <= _WORKSPACE_KEPT:
            self.workspace = work
        return work


_thread = _Thread()


def _forget() -> None:
    """In a forked child: primitives hold what belonged to the parent's threads."""
    global _thread
    _making.release()
    _thread = _Thread()
    if binding.set_threads is not None and not binding.FORKS:  # GNU's OpenMP would wait for ever for the parent's threads
        binding.set_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_forget)


def ready(make: Callable[..., Primitive], *key: Any) -> Primitive:
    """The primitive that make(*key) gives, made at most once in this thread for this number of threads.  Raises Unsupported."""
    made = _thread.ready(make, binding.max_threads(), *key)
    if made.__class__ is Unsupported:  # remembered as well: an exception would be raised anew after asking oneDNN anew
        raise made
    return made


def or_unsupported(make: Callable[..., Primitive]) -> Callable[..., Any]:
    """make, which gives the exception Unsupported where it raised it, or where oneDNN has no implementation."""

    @functools.wraps(make)
    def attempt(*key: Any) -> Any:
        try:
            return make(*key)
        except Unsupported as e:
            return e.with_traceback(None)
        except DnnlError as e:
            return Unsupported(str(e))

    return attempt


class Primitive:
    """A primitive, with reorders where the caller's layout is not its own.

    `arguments` says for each array of a call which argument it is and how the caller's array lies, None meaning as the primitive
    wants it; results are those of DST and above in `results`.  `fixed` are arrays that never change, as {argument: array}.
    `name` is for what oneDNN calls its reference code though it is made of fast products.
    """

    __slots__ = ("_base", "_bytes", "_inner", "_kept", "_memories", "_steps", "description", "name")

    def __init__(
        self,
        description: Handle,
        arguments: Sequence[tuple[int, Handle | None]],
        results: Sequence[int] = (DST,),
        fixed: Sequence[tuple[int, Handle, Array]] = (),
        kept: Sequence[Any] = (),
        name: str | None = None,
    ) -> None:
        self.name = name or binding.implementation(description)
        if self.name.startswith("ref"):
            raise Unsupported(f"oneDNN has but its reference code for this ({self.name})")
        self.description, self._base, self._bytes = description, 0, 0
        self._kept: list[Any] = [description, *kept, *fixed]
        self._inner: list[tuple[int, int]] = []  # memory objects in the workspace, and where
        self._memories: list[int] = []
        before, after, bound = [], [], []
        for argument, given in arguments:
            wanted = binding.argument_description(description, argument)
            outer = self._memory(wanted if given is None else given.value)
            self._memories.append(outer)
            if given is None or binding.are_equal(given.value, wanted):
                bound.append((argument, outer))
                continue
            inner = self._in_workspace(wanted)
            bound.append((argument, inner))
            if argument in results:
                after.append(self._reorder(wanted, inner, given.value, outer))
            else:
                before.append(self._reorder(given.value, outer, wanted, inner))
        for argument, description_of, array in fixed:
            memory = self._memory(description_of.value)
            set_pointer(memory, address(array))
            bound.append((argument, memory))
        if scratchpad := binding.scratchpad_description(description):
            bound.append((binding.SCRATCHPAD, self._in_workspace(scratchpad)))
        self._steps = [*before, self._step(binding.primitive(description), bound), *after]
        if before or after:
            self.name += f" and {len(before) + len(after)} reorders"

    def _memory(self, description: int | None) -> int:
        made = binding.memory(description)
        self._kept.append(made)
        assert made.value is not None
        return made.value

    def _in_workspace(self, description: int | None) -> int:
        memory = self._memory(description)
        self._inner.append((memory, self._bytes))
        self._bytes += -(-binding.size(description) // ALIGNMENT) * ALIGNMENT
        return memory

    def _reorder(self, source: int | None, from_memory: int, target: int | None, to_memory: int) -> tuple[int, int, int]:
        description = binding.reorder(source, target)
        self._kept.append(description)
        return self._step(binding.primitive(description), [(SRC, from_memory), (DST, to_memory)])

    def _step(self, primitive: Handle, bound: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
        arguments = (Argument * len(bound))(*(Argument(*pair) for pair in bound))
        self._kept += [primitive, arguments]
        assert primitive.value is not None
        return primitive.value, len(bound), addressof(arguments)

    def __call__(self, *arrays: Array) -> None:
        """Run on arrays that lie as `arguments` said; the results are written to."""
        for memory, x in zip(self._memories, arrays, strict=True):
            set_pointer(memory, address(x))
        if self._bytes:
            work = _thread.work(self._bytes)  # held until the end of the call
            base = address(work)
            if base != self._base:
                self._base = 0  # should an interrupt come in between
                for memory, offset in self._inner:
                    set_pointer(memory, base + offset)
                self._base = base
        stream = _thread.stream.value
        for primitive, count, arguments in self._steps:
            if status := execute(primitive, stream, count, arguments):
                raise DnnlError(f"running {self.name}", status)


# -- what can follow a product or a convolution in the same call.  relu is a PReLU of slope 0: oneDNN's own relu makes 0 of NaN.
POST_OPS: dict[str, list[tuple[Any, ...]]] = {
    "identity": [],
    "relu": [("prelu",)],
    "sigm": [(binding.LOGISTIC, 0.0, 0.0)],
    "tanh": [(binding.TANH, 0.0, 0.0)],
    "elu": [(binding.ELU, 1.0, 0.0)],
    "selu": [(binding.ELU, 1.6732632423543772, 0.0), (binding.LINEAR, 1.0507009873554805, 0.0)],
}
_ZERO = np.zeros(1, np.float32)


def fixed_weights(post_ops: Sequence[tuple[Any, ...]], ndim: int) -> list[tuple[int, Handle, Array]]:
    """The slope of each PReLU among post-ops of a result with so many axes."""
    one = (1,) * ndim
    return [
        (binding.POST_OP * (i + 1) | binding.WEIGHTS, binding.described(one, one), _ZERO)
        for i, (kind, *_) in enumerate(post_ops)
        if kind == "prelu"
    ]


# -- threads and layouts
class one_thread:
    """`with one_thread():` this thread's primitives use no other.  Raises Unsupported for a build whose threads aren't OpenMP's."""

    def __enter__(self) -> None:
        self.before = binding.max_threads()
        if binding.set_threads is None:
            raise Unsupported("this build of oneDNN can't be held to one thread")
        binding.set_threads(1)

    def __exit__(self, *_: Any) -> None:
        assert binding.set_threads is not None
        binding.set_threads(self.before)


def faster(make: Callable[..., Primitive], key: tuple[Any, ...], arrays: Sequence[Array]) -> bool:
    """Whether make's primitive is faster in oneDNN's own layout (True, at the end of the key) than in channels_last, measured once."""
    choice = (make, binding.max_threads(), *key)
    found = _thread.choices.get(choice)
    if found is None:
        if len(_thread.choices) >= _KEPT:
            _thread.choices.clear()
        found = _thread.choices[choice] = _seconds(make, (*key, True), arrays) < _seconds(make, (*key, False), arrays)
    return found


def _seconds(make: Callable[..., Primitive], key: tuple[Any, ...], arrays: Sequence[Array]) -> float:
    """The shortest of three runs, into results of their own; infinite where there is no such primitive."""
    try:
        primitive = ready(make, *key)
    except Unsupported:
        return math.inf
    arrays, times = [np.array(x) for x in arrays], []  # in their own order
    for _ in range(3):
        start = time.perf_counter()
        primitive(*arrays)
        times.append(time.perf_counter() - start)
    return min(times)
