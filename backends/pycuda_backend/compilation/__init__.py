"""How CUDA C++ becomes machine code: what compiles here, the cache on disk, what a wheel carries.  No driver and no PyCUDA is needed."""
