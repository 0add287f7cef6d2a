"""Which algorithms a convolution has, in the double's imagination.

Times and sizes are invented.  What is deterministic, and which shapes, layouts and dtypes an algorithm takes, follows NVIDIA's tables,
roughly: callers should meet every kind of answer.
"""

import ctypes
import functools
from math import prod
from typing import NamedTuple

import numpy as np

from . import descriptors
from .calls import Calls
from .memory import Operand, output, scratch
from .real import real
from .refusal import require, unsupported

DEFAULT_MATH, ALLOW_CONVERSION = 0, 2
_TENSOR_OPS = (1, ALLOW_CONVERSION)
CALLS = Calls()


class Algorithm(NamedTuple):
    number: int
    time: float
    columns: float = 0.0  # of workspace: so many times the unfolded input
    is_deterministic: bool = True
    has_tensor_ops: bool = False
    takes_last: bool = False  # NHWC
    windows: tuple = ()  # of two axes and these sizes alone, without strides, dilation, gaps or doubles


_3, _3_5, _LARGE = ((3, 3),), ((3, 3), (5, 5)), ((5, 5), (7, 7))
_SUITES = {
    "Forward": [
        Algorithm(0, 4.0),
        Algorithm(1, 2.0, 0.125, has_tensor_ops=True, takes_last=True),
        Algorithm(2, 3.0, 1.0),
        Algorithm(4, 5.0, 4.0, windows=_LARGE),
        Algorithm(6, 1.0, windows=_3),
        Algorithm(7, 1.5, 2.0, has_tensor_ops=True, windows=_3_5),
    ],
    "BackwardData": [
        Algorithm(0, 3.0, is_deterministic=False),
        Algorithm(1, 2.0, 0.25, has_tensor_ops=True, takes_last=True),
        Algorithm(2, 5.0, 4.0, windows=_LARGE),
        Algorithm(4, 1.0, windows=_3),
        Algorithm(5, 1.5, 2.0, has_tensor_ops=True, windows=_3_5),
    ],
    "BackwardFilter": [
        Algorithm(0, 2.5, is_deterministic=False),
        Algorithm(1, 3.0, 0.25, has_tensor_ops=True, takes_last=True),
        Algorithm(2, 5.0, 4.0, windows=_LARGE),
        Algorithm(3, 2.0, 0.125, is_deterministic=False),
        Algorithm(5, 1.0, 2.0, has_tensor_ops=True, windows=_3_5),
    ],
}
_COUNTS = {"Forward": 8, "BackwardData": 6, "BackwardFilter": 7}
_STRUCTS = {"Forward": "Fwd", "BackwardData": "BwdData", "BackwardFilter": "BwdFilter"}


class Settings:
    """What tests change of it: double.algorithms.only = {1}, double.algorithms.workspace = 100."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.only = None  # the numbers of the algorithms there are, in every direction
        self.workspace = 1.0  # so many times the usual bytes
        self.fused_relu_keeps_nan = False  # whether there is one; NVIDIA's documentation has none


class Problem(NamedTuple):
    """A convolution as its descriptors have it, whichever of x, w and y is asked for."""

    direction: str
    x: descriptors.Tensor
    w: descriptors.Filter
    y: descriptors.Tensor
    sliding: descriptors.Convolution
    settings: Settings

    @property
    def has_tensor_ops(self):
        """Whether tensor cores may be used: for halves if allowed, for float32 if it may be converted."""
        return self.sliding.math in {2: _TENSOR_OPS, 4: (ALLOW_CONVERSION,), 8: ()}[self.x.dtype.itemsize]

    @property
    def alignment(self):
        return 16 if self.has_tensor_ops else 1

    def why_not(self, a):
        """Why an algorithm can't, or None."""
        if self.settings.only is not None and a.number not in self.settings.only:
            return "a test, which switched it off"
        if self.w.last and not a.takes_last:
            return "NHWC"
        plain = max(self.sliding.stride + self.sliding.dilation) == 1 and _has_no_gaps(self.x) and _has_no_gaps(self.y)
        if a.windows and not (self.w.shape[2:] in a.windows and plain and self.x.dtype != np.float64):
            return "such a window, strides, dilation, gaps or doubles"
        return None

    def math_types(self, a):
        """Those that an algorithm can be run with."""
        plain = DEFAULT_MATH  # also for a descriptor that asks for FMA
        return [self.sliding.math, plain] if a.has_tensor_ops and self.has_tensor_ops else [plain]

    def bytes(self, a, math):
        """Of workspace: more for tensor ops, which want operands in another order."""
        columns = prod(self.w.shape[1:]) * prod(self.y.shape[2:])
        moved = prod(self.x.shape) if math in _TENSOR_OPS else 0
        return int((a.columns * columns + moved) * self.x.dtype.itemsize * self.settings.workspace)

    def needed(self, number):
        """The workspace of an algorithm as convDesc is set now.  Raises Refused if there is none."""
        require(number in range(_COUNTS[self.direction]), f"algo: there is no algorithm {number}")
        algorithm = next((a for a in _SUITES[self.direction] if a.number == number), None)
        if algorithm is None or (why := self.why_not(algorithm)):
            raise unsupported(f"algo: algorithm {number} is not there" + (f" for {why}" if algorithm else ""))
        return self.bytes(algorithm, self.math_types(algorithm)[0])

    def operands(self, a, b, c):
        """x, w and y at the addresses of a call, whose last is the output."""
        tensors = self.in_order(self.x, self.w, self.y)
        names = self.in_order("x", "w", "y")
        left, right = (Operand(t, at, name, self.alignment) for t, at, name in zip(tensors[:2], (a, b), names[:2], strict=True))
        out = output(tensors[2], c, names[2], left, right, alignment=self.alignment)
        return left, right, out

    def in_order(self, x, w, y):
        """As the calls of this direction have them."""
        return {"Forward": (x, w, y), "BackwardData": (w, y, x), "BackwardFilter": (x, y, w)}[self.direction]


def _has_no_gaps(tensor):
    """Whether the pixels of a channel lie side by side, row-major."""
    spatial = list(zip(tensor.shape[2:], tensor.strides[2:], strict=True))
    return all(s == prod(n for n, _ in spatial[i + 1 :]) for i, (n, s) in enumerate(spatial) if n > 1)


def problem(double, direction, a, b, conv, c):
    """The descriptors of a call, checked against each other."""
    x, w, y = {"Forward": (a, b, c), "BackwardData": (c, a, b), "BackwardFilter": (a, c, b)}[direction]
    read = descriptors.tensor(x, "x's"), descriptors.filters(w, "w's"), descriptors.tensor(y, "y's"), descriptors.convolution(conv)
    found = Problem(direction, *read, double.algorithms)
    n = len(found.x.shape)
    require(n in (4, 5) and len(found.w.shape) == len(found.y.shape) == n, "x, w and y must have 4 axes each, or 5")
    (shape,) = real().ask("cudnnGetConvolutionNdForwardOutputDim", conv.address, x.address, w.address, n, ctypes.c_int * n)
    require(found.y.shape == shape, f"y has shape {found.y.shape}, and the convolution of x with w {shape}")
    _check_dtypes(found)
    _check_layout(found)
    return found


def _check_dtypes(p):
    require(p.x.dtype == p.w.dtype == p.y.dtype, f"x is {p.x.dtype}, w {p.w.dtype} and y {p.y.dtype}")
    sums = np.dtype(np.float64 if p.x.dtype == np.float64 else np.float32)
    if p.sliding.compute != sums:
        raise unsupported(f"convDesc adds up {p.x.dtype} in {p.sliding.compute}, not {sums}")
    require(p.w.shape[0] % p.sliding.group == 0, f"{p.w.shape[0]} filters can't be shared among {p.sliding.group} groups")


def _check_layout(p):
    for name, t in (("x", p.x), ("y", p.y)):
        if p.w.last and t.shape[1] > 1 and t.strides[1] != 1:
            raise unsupported(f"w is NHWC, and {name} with strides {t.strides} is not")
    if p.w.last and p.x.dtype == np.float64:
        raise unsupported("NHWC for doubles")


# -- the calls
def _most(direction, double, handle, place):
    ctypes.c_int.from_address(place).value = 2 * _COUNTS[direction]


def _expected(direction, double, handle, a, b, conv, c, wanted, count, place):
    _report(double, problem(double, direction, a, b, conv, c), wanted, count, place)


def _tried(direction, double, handle, a, a_at, b, b_at, conv, c, c_at, wanted, count, place, work, size):
    p = problem(double, direction, a, b, conv, c)
    *_, out = p.operands(a_at, b_at, c_at)
    scratch(work, size, size, "workSpace")
    _report(double, p, wanted, count, place, size)
    out.write(np.nan)  # every algorithm left its results there


def _size(direction, double, handle, a, b, conv, c, algorithm, place):
    ctypes.c_size_t.from_address(place).value = problem(double, direction, a, b, conv, c).needed(algorithm)


def _report(double, p, wanted, count, place, limit=None):
    """The algorithms in the order of their times, each with every math type; last those that can't, and why."""
    require(wanted > 0 and count and place, "there is no place for a result")
    struct = real().headers.struct(f"cudnnConvolution{_STRUCTS[p.direction]}AlgoPerf_t")
    found = sorted((_performance(double, p, a, math, limit) for a in _SUITES[p.direction] for math in p.math_types(a)), key=_rank)[:wanted]
    for i, values in enumerate(found):
        given = struct(*values)
        ctypes.memmove(place + i * ctypes.sizeof(struct), ctypes.addressof(given), ctypes.sizeof(struct))
    ctypes.c_int.from_address(count).value = len(found)


def _performance(double, p, a, math, limit):
    memory = p.bytes(a, math)
    why = "NOT_SUPPORTED" if p.why_not(a) else "ALLOC_FAILED" if limit is not None and memory > limit else "SUCCESS"
    time = a.time - 0.5 * (math in _TENSOR_OPS) if why == "SUCCESS" else -1.0
    return a.number, double.status(why), time, memory, a.is_deterministic, math


def _rank(performance):
    _, status, time, *_ = performance
    return status, time


for _direction in _SUITES:
    _name = f"cudnnGetConvolution{_direction}"
    CALLS.answers(functools.partial(_most, _direction), f"{_name}AlgorithmMaxCount")
    CALLS.answers(functools.partial(_expected, _direction), f"{_name}Algorithm_v7")
    CALLS.answers(functools.partial(_size, _direction), f"{_name}WorkspaceSize")
    CALLS.computes(functools.partial(_tried, _direction), f"cudnnFindConvolution{_direction}AlgorithmEx")
