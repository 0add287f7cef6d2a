"""Tools to test operators, backends and anything that has gradients.

check_grads        vjp and jvp against differences, to any order, and what else they promise (gradients, differences, promises)
NotDifferentiable  what check_grads warns of at a kink
StrictArray        the array that is not NumPy's; importing this package registers its backend as "strict"

These need hypothesis, so they are imported by name:

strategies         hypothesis strategies for shapes, arrays, layouts, axes, pytrees
specifications     for every operator of the opsets, inputs and options to test it with
operators          check_operator, which runs all checks on one such case, or on one of yours (docs/testing.md)
"""

from __future__ import annotations

from .gradients import RTOL, NotDifferentiable, check_grads
from .strict import StrictArray, StrictKernels

__all__ = ["RTOL", "NotDifferentiable", "StrictArray", "StrictKernels", "check_grads"]
