"""The cudnn backend: the pycuda backend's arrays and kernels, and over them cuDNN's.

What cuDNN does not take, or does not promise to do as the contract says, is left to the raw kernels, and `account` says so.  binding/
calls libcudnn, handle.py has a handle for each thread, descriptors.py what calls are told of arrays; each file beside them holds the
kernels of one idea and lists them in its KERNELS.  Importing it loads no GPU library.
"""

from __future__ import annotations

from .table import CudnnKernels

__all__ = ["CudnnKernels"]
