"""The onednn backend: NumPy's arrays, computed by oneDNN where it is faster, in channels_last order from operator to operator.

It extends the numpy backend.  What oneDNN does badly or not at all, other dtypes than float32 above all, is left to NumPy, and
`account` says so.  library.py finds libdnnl, binding.py calls it, primitives.py keeps what is ready to run; each file beside them holds
the kernels of one idea and lists them in its KERNELS.
"""

from __future__ import annotations

from .table import OneDNNKernels

__all__ = ["OneDNNKernels"]
