"""NumPy's functions that look at values alone: np.nonzero(t), np.shares_memory(t, u), np.array_repr(t), np.zeros(3, like=t).

They run as NumPy's own, on the values of their Tensors; arrays come back as constant Tensors on the current backend.
What is wanted inside a step of training is an operator instead, which stays on its backend.
"""

from __future__ import annotations

import numpy as np

from autotape.numpy_protocol import INSPECTS, ZERO, numpy_function
from autotape.param import Param
from autotape.tensor import Tensor, asarray

from . import arithmetic

OF_VALUES = {  # functions of NumPy's namespace; some are newer or older than the NumPy at hand
    ZERO: """
        argwhere array_equiv bitwise_count diag_indices_from flatnonzero gcd in1d iscomplex isin isneginf isposinf isreal ix_ lcm
        left_shift nonzero packbits ravel_multi_index right_shift tril_indices_from triu_indices_from unpackbits unravel_index
    """,
    INSPECTS: """
        array2string array_repr array_str can_cast common_type einsum_path iscomplexobj isrealobj may_share_memory min_scalar_type
        result_type shares_memory
    """,
}
LIKE = """
    arange array asanyarray asarray ascontiguousarray asfortranarray empty eye frombuffer fromfile fromfunction fromiter fromstring
    full genfromtxt identity loadtxt ones require tri zeros
"""


def of_values(function):
    """A NumPy function on the values of its Tensors."""

    def on_values(*args, **options):
        return tensors(function(*values(args), **values(options)))

    return on_values


def values(x):
    """x with NumPy's arrays in place of its Tensors and Params."""
    if isinstance(x, (Tensor, Param)):
        return x.numpy()
    if type(x) in (tuple, list):
        return type(x)(map(values, x))
    return {k: values(v) for k, v in x.items()} if type(x) is dict else x


def tensors(y):
    """y with constant Tensors in place of its arrays."""
    if isinstance(y, tuple):
        return tuple(map(tensors, y))
    return asarray(y) if isinstance(y, (np.ndarray, np.generic)) else y


def creator(function):
    """A NumPy function that makes an array, for its `like=t`: the array becomes a Tensor, on t's side.

    A Tensor that is recorded raises TypeError there, since NumPy would take its value alone.
    """

    def create(*args, **options):
        return asarray(function(*args, **options))

    return create


@numpy_function(np.where)
def where(condition, *choices):
    """np.where(condition, a, b), and np.where(condition), which is np.nonzero."""
    if len(choices) == 1:
        raise ValueError("np.where takes both a and b, or neither")
    if not choices:
        return np.nonzero(condition)
    a, b = choices
    return arithmetic.where(condition, weak(a, b), weak(b, a))


def weak(a, b):
    """A Python int beside integers, which np.where takes in their dtype.  Raises OverflowError if it doesn't fit, as NumPy 2.5 does."""
    if type(a) is not int or not hasattr(b, "dtype") or b.dtype.kind not in "iu":
        return a
    return np.asarray(a, b.dtype)


for kind, names in OF_VALUES.items():
    for function in (getattr(np, name) for name in names.split() if hasattr(np, name)):
        numpy_function(function, kind=kind)(of_values(function))
for function in (getattr(np, name) for name in LIKE.split()):
    numpy_function(function, kind=INSPECTS)(creator(function))
