"""numpy.lib.scimath: roots, logarithms and inverse functions that turn complex where real numbers have no real result.

Values decide, of what is being recorded too: where one number is out of the domain, all results are complex.
"""

from __future__ import annotations

import numpy as np

from autotape.numpy_protocol import numpy_function

from .arithmetic import absolute, divide, power
from .counting import values_of
from .creation import astype
from .functions import arccos, arcsin, arctanh, log, log2, log10, sqrt
from .logic import greater, less
from .reductions import any
from .shapes import as_array


def negative_ones(x):
    return less(x, 0)


def beyond_one(x):
    return greater(absolute(x), 1)


def widened(x, outside):
    """x, or x as complex numbers if any of them is out of the domain."""
    x = as_array(x)
    if x.dtype.kind == "c" or not values_of(any(outside(x))):
        return x
    return astype(x, np.complex64 if x.dtype.char in "fbhBH" else np.complex128)


def on_complex(f, outside):
    """f, of complex numbers if any is out of its domain."""
    return lambda x: f(widened(x, outside))


OF_ONE = {
    "sqrt": (sqrt, negative_ones), "log": (log, negative_ones), "log2": (log2, negative_ones), "log10": (log10, negative_ones),
    "arccos": (arccos, beyond_one), "arcsin": (arcsin, beyond_one), "arctanh": (arctanh, beyond_one),
}  # fmt: skip
for name, (f, outside) in OF_ONE.items():
    numpy_function(getattr(np.lib.scimath, name))(on_complex(f, outside))


@numpy_function(np.lib.scimath.logn)
def _(n, x):
    return divide(log(widened(x, negative_ones)), log(widened(n, negative_ones)))


@numpy_function(np.lib.scimath.power)
def _(x, p):
    p = as_array(p)  # in NumPy, too, a Python number has the dtype of an array of it
    falls = p.dtype.kind in "iu" and values_of(any(less(p, 0)))
    return power(widened(x, negative_ones), astype(p, np.float64) if falls else p)
