"""The pycuda backend: hand-written CUDA kernels on one NVIDIA GPU, launched through PyCUDA.  Importing it imports no GPU library."""

from .table import PycudaKernels

__all__ = ["PycudaKernels"]
