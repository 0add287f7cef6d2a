"""Tools to test operators, backends and anything that has gradients.

check_grads        gradients against central differences, to any order, and what else they promise
StrictArray        the array that is not NumPy's; importing this package registers its backend as "strict"
strategies         hypothesis strategies for shapes and arrays (needs hypothesis: import it by name)
specifications     for every operator of the opsets, inputs and options to test it with
"""

from __future__ import annotations

from .gradients import check_grads
from .strict import StrictArray, StrictKernels

__all__ = ["StrictArray", "StrictKernels", "check_grads"]
