"""One thread for NumPy's matrix products.

OpenBLAS shares each product among all cores and waits for the slowest.  On the small matrices of these models that gains
little on an idle machine, and beside other work it can take ten times as long.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold the BLAS of this process to one thread until the block ends; without threadpoolctl (extra `train`) leave it alone."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits
