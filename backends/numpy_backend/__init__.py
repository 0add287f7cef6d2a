"""The NumPy backend: the reference that every other backend is compared with, and the default.

Each file beside this one holds the kernels of one idea and lists them in its KERNELS; here they become one table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import (
    arrays,
    bessel,
    convolution,
    elementwise,
    factorizations,
    fourier,
    indexing,
    normalisation,
    optimisers,
    pooling,
    products,
    recurrent,
    reductions,
    scipy_matrices,
    sorting,
    special,
)  # fmt: skip

_FILES = (
    arrays, elementwise, bessel, special, reductions, indexing, sorting, fourier, products, factorizations, scipy_matrices,
    normalisation, convolution, pooling, recurrent, optimisers,
)  # fmt: skip


class NumpyKernels:
    """The kernels of backends/kernels.py for numpy.ndarray.  A backend that extends this one overrides them as methods."""

    name = "numpy"
    array = np.ndarray
    has_threads = False
    compiles = False
    math_mode: Callable[[], str] = staticmethod(lambda: "default")

    def __init__(self) -> None:
        for file in _FILES:
            for name, kernel in file.KERNELS.items():
                if not hasattr(type(self), name):
                    setattr(self, name, kernel)  # on the instance: in the class, a plain function would become a method

    def account(self) -> tuple[str, str]:
        """NumPy is all there is."""
        return "numpy", ""

    def is_alone(self, x: np.ndarray) -> bool:
        """Views hold the array whose memory they see."""
        return x.base is None

    def synchronize(self) -> None:
        """A kernel that has returned is done."""

    @staticmethod
    def unavailable() -> str | None:
        """Why this backend can't be used: None, for NumPy is always there."""
        return None
