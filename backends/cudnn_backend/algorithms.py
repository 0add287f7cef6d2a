"""Which of its algorithms cuDNN uses for a convolution, and memory for it.

By default its heuristic orders them; in the fast mode they are timed once for each signature, on scratch results; in pedantic mode those
that may add up in another order each time are left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..pycuda_backend.array import DeviceArray, empty
from ..pycuda_backend.driver import OutOfMemory
from ..pycuda_backend.memory import Block, pool
from . import binding, handle
from .descriptors import Descriptor, Unsupported

_SAID = {(binding.CUDNN_TENSOR_OP_MATH, 2): ", tensor cores", (binding.CUDNN_DEFAULT_MATH, 4): ", TF32"}  # math type, itemsize


@dataclass(frozen=True, eq=False)
class Direction:
    """One of a convolution's three passes: which arrays it takes and gives, its calls, and its algorithms' names, by number."""

    operands: str
    count: Callable[..., int]
    expected: Callable[..., tuple[int, Any]]
    tried: Callable[..., tuple[int, Any]]
    run: Callable[..., None]
    names: tuple[str, ...]


FORWARD = Direction(
    "xwy", binding.cudnnGetConvolutionForwardAlgorithmMaxCount, binding.cudnnGetConvolutionForwardAlgorithm_v7,
    binding.cudnnFindConvolutionForwardAlgorithmEx, binding.cudnnConvolutionForward,
    ("implicit gemm", "implicit precomp gemm", "gemm", "direct", "fft", "fft tiling", "winograd", "winograd nonfused"),
)  # fmt: skip
BACKWARD_DATA = Direction(
    "wyx", binding.cudnnGetConvolutionBackwardDataAlgorithmMaxCount, binding.cudnnGetConvolutionBackwardDataAlgorithm_v7,
    binding.cudnnFindConvolutionBackwardDataAlgorithmEx, binding.cudnnConvolutionBackwardData,
    ("algorithm 0", "algorithm 1", "fft", "fft tiling", "winograd", "winograd nonfused"),
)  # fmt: skip
BACKWARD_FILTER = Direction(
    "xyw", binding.cudnnGetConvolutionBackwardFilterAlgorithmMaxCount, binding.cudnnGetConvolutionBackwardFilterAlgorithm_v7,
    binding.cudnnFindConvolutionBackwardFilterAlgorithmEx, binding.cudnnConvolutionBackwardFilter,
    ("algorithm 0", "algorithm 1", "fft", "algorithm 3", "winograd", "winograd nonfused", "fft tiling"),
)  # fmt: skip


class Choice(NamedTuple):
    """An algorithm, the bytes it works in, and the mathematics that go with it."""

    algorithm: int
    memory: int
    math: int


def math_type(dtype: np.dtype[Any], mode: str) -> int:
    """TF32, which cuDNN's default allows, in fast mode only; products of halves are exact in tensor cores, and their sums are float32.

    Conversion of float32 to halves is never allowed: what is large would overflow, and what is small vanish.
    """
    if mode == "pedantic" or dtype.itemsize == 8:
        return binding.CUDNN_FMA_MATH
    if dtype.itemsize == 2:
        return binding.CUDNN_TENSOR_OP_MATH
    return binding.CUDNN_DEFAULT_MATH if mode == "fast" else binding.CUDNN_FMA_MATH


def expected(direction: Direction, a: Descriptor, b: Descriptor, convolution: Descriptor, c: Descriptor) -> list[Any]:
    """All algorithms in the order that cuDNN expects, the fastest first."""
    at = handle.ready()
    n, found = direction.expected(at, a, b, convolution, c, direction.count(at))
    return list(found[:n])


def tried(
    direction: Direction, a: Descriptor, b: Descriptor, convolution: Descriptor, c: Descriptor, arrays: tuple[DeviceArray, ...], memory: int
) -> list[Any]:
    """All algorithms that work in so much memory, the fastest first: each was run."""
    x, w, y = arrays
    at, scratch = handle.ready(), empty(y.shape, y.dtype)
    work = pool().take(memory) if memory else None
    arrays_described = a, x.address, b, w.address, convolution, c, scratch.address
    n, found = direction.tried(at, *arrays_described, direction.count(at), address(work), memory)
    return list(found[:n])


def address(work: Block | None) -> int | None:
    return None if work is None else work.address


class Algorithms:
    """What there is to choose from for one signature, the best first: what cuDNN refuses is forgotten."""

    def __init__(self, found: list[Any], math: int, mode: str, limit: int) -> None:
        self._is_pedantic = mode == "pedantic"
        self.choices = [
            Choice(p.algo, p.memory, _kept(math, p.mathType))
            for p in found
            if p.status == 0 and p.memory <= limit and (mode != "pedantic" or p.determinism == binding.CUDNN_DETERMINISTIC)
        ]

    def run(self, call: Callable[[Choice, Block | None], None]) -> tuple[Choice, bool]:
        """Call with the first choice that cuDNN takes and, for now, has memory for; whether there was none for a better one.

        Raises Unsupported, and where memory is short OutOfMemory: in pedantic mode at once, since bits must not depend on what is free.
        """
        short: Exception | None = None
        for choice in self.choices:
            try:
                call(choice, pool().take(choice.memory) if choice.memory else None)
                return choice, short is not None
            except (OutOfMemory, binding.cudnnAllocFailed) as e:
                if self._is_pedantic:
                    raise
                short = e
            except binding.cudnnNotSupported:
                self.choices = [c for c in self.choices if c is not choice]  # another list: other threads may be going through this one
        raise short or Unsupported("no algorithm of cuDNN")


def _kept(asked: int, found: int) -> int:
    """What to run with: cuDNN calls plain mathematics its default, under which float32 may become TF32."""
    return asked if found == binding.CUDNN_DEFAULT_MATH and asked == binding.CUDNN_FMA_MATH else found


@functools.lru_cache(256)
def said(direction: Direction, choice: Choice, dtype: np.dtype[Any], is_short: bool) -> str:
    """A choice, for profiles."""
    math, memory = _SAID.get((choice.math, dtype.itemsize), ""), ", short of memory" if is_short else ""
    return f"cudnn, {direction.names[choice.algorithm]}{math}{memory}"
