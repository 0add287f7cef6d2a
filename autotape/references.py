"""Who else holds a value: what sys.getrefcount says of one that nobody does, which differs between Pythons."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np


def _unheld() -> tuple[int, int]:
    values = [object(), object()]
    value = values.pop()
    return getrefcount(value), getrefcount(values[-1])


ALONE, LISTED = _unheld()  # of a value that a variable holds, and of one in a list, asked as above


def is_memory_alone(x: Any, k: Any) -> bool:
    """Whether x, which nobody but the caller's variables holds, is an array that may be written to, over memory that no other shares.

    Of NumPy's memory it has all: a part would keep the whole.  k has the kernels of x's backend.
    """
    if type(x) is not np.ndarray:
        return type(x) is k.array and k.is_alone(x)
    owner = x.base
    if owner is not None:
        is_whole = type(owner) is np.ndarray and owner.base is None and owner.nbytes == x.nbytes  # or elements lie on each other
        return is_whole and getrefcount(owner) == ALONE + 1 and x.flags.writeable  # x holds it, too
    return x.flags.writeable
