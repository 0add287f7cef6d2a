"""Tests of what some backend has no kernels for, such as complex numbers: there they are skipped."""

from contextlib import contextmanager

import pytest


@contextmanager
def unless_lacking():
    """Skip if what is inside asks the backend for a kernel that it says it lacks."""
    try:
        yield
    except TypeError as e:
        if "has no kernel" not in str(e):
            raise
        pytest.skip(str(e))
