"""Lists the packages: the folders backends/ and opsets/ install as autotape.backends and autotape.opsets.  setup.cfg has the rest.

AUTOTAPE_BUILD_KERNELS=1 pip wheel . puts CUDA kernels into the wheel that are compiled already; it needs nvcc and takes minutes.
"""

import importlib
import os
import sys
import types
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

MAPPED = ["backends", "backends.*", "opsets", "opsets.*"]
CUDA = Path("backends", "pycuda_backend")


class BuildWithKernels(build_py):
    """build_py, and the CUDA kernels if they are asked for."""

    def run(self):
        super().run()
        if os.environ.get("AUTOTAPE_BUILD_KERNELS") == "1" and not self.editable_mode:
            self.announce("compiling CUDA kernels", level=3)
            cuda_build().build_fatbins(Path(self.build_lib, "autotape", CUDA, "kernels", "binaries"))


def cuda_build():
    """autotape.backends.pycuda_backend.compilation.build by itself: where a wheel is built there may be no NumPy, which autotape needs."""
    package = sys.modules["pycuda_backend"] = types.ModuleType("pycuda_backend")
    package.__path__ = [str(Path(__file__).parent / CUDA)]
    return importlib.import_module("pycuda_backend.compilation.build")


setup(
    packages=find_packages(include=["autotape", "autotape.*"]) + [f"autotape.{name}" for name in find_packages(include=MAPPED)],
    cmdclass={"build_py": BuildWithKernels},
)
