"""Which compiler of CUDA C++ there is here: NVRTC, which takes a seventh of nvcc's time for a small kernel, or else nvcc.

AUTOTAPE_NVCC names an nvcc, and nothing else is looked for then.
NVRTC: of a toolkit in CUDA_HOME, CUDA_PATH or /usr/local/cuda, of PyPI's nvidia-cuda-nvrtc, which torch's wheels bring too, or the one that
the system's loader knows.  It lacks cuda_fp16.h and cuda_bf16.h, which toolkits and PyPI's nvidia-cuda-runtime have.
nvcc: on PATH, of a toolkit, or of PyPI's nvidia-cuda-nvcc.  It can't work without a host compiler, and is passed over where there is none.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from .toolchain import Compiler, Nvcc, Nvrtc

VARIABLE = "AUTOTAPE_NVCC"
_TOOLKIT = "/usr/local/cuda"
_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12")


class NoCompiler(Exception):
    """There is no compiler of CUDA C++ here."""


def compiler() -> Compiler | None:
    """What compiles here, looked for once; None if nothing does."""
    try:
        return find()
    except NoCompiler:
        return None


def find(nvcc_first: bool = False) -> Compiler:
    """What compiles here, looked for once.  Raises NoCompiler."""
    return _find(nvcc_first, *(os.environ.get(name) for name in (VARIABLE, "PATH", "CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN")))


@functools.cache
def _find(nvcc_first: bool, named: str | None, *_: str | None) -> Compiler:
    """`find` in an environment that has these."""
    if named:
        return _named(named)
    refused = []
    for make in (*_nvccs(), *_nvrtcs()) if nvcc_first else (*_nvrtcs(), *_nvccs()):
        try:
            return make()
        except OSError as e:
            refused.append(str(e))
    raise NoCompiler(
        "no CUDA compiler: install a toolkit (nvcc on PATH) or pip install nvidia-cuda-nvrtc nvidia-cuda-runtime (looked for nvcc and "
        f"libnvrtc on PATH, in CUDA_HOME, CUDA_PATH, {_TOOLKIT} and PyPI's packages: {'; '.join(refused)})"
    )


def _nvccs() -> Iterator[Callable[[], Compiler]]:
    """What makes a Compiler of each file that may be an nvcc."""
    for nvcc in filter(None, (shutil.which("nvcc"), *(shutil.which("nvcc", path=root / "bin") for root in (*_toolkits(), *_packages())))):
        yield functools.partial(_hosted, nvcc)


def _nvrtcs() -> Iterator[Callable[[], Compiler]]:
    """What makes a Compiler of each library that may be NVRTC."""
    roots = [*_toolkits(), *_packages()]
    libraries = [str(path) for root in roots for lib in ("lib64", "lib") for path in sorted(root.glob(f"{lib}/libnvrtc.so.*"))]
    for library in (*libraries, *_SONAMES):
        yield functools.partial(Nvrtc, library, _headers(library, roots))


def _named(nvcc: str) -> Nvcc:
    try:
        return Nvcc(shutil.which(nvcc) or nvcc)
    except OSError as e:
        raise NoCompiler(f"no CUDA compiler: {VARIABLE} names {nvcc}: {e}") from e


def _hosted(nvcc: str) -> Nvcc:
    """An nvcc that has its host compiler."""
    host = os.environ.get("NVCC_CCBIN", "gcc")
    if shutil.which(host) is None:
        raise OSError(f"{nvcc} needs a host compiler, and there is no {host}")
    return Nvcc(nvcc)


def _toolkits() -> list[Path]:
    return [Path(root) for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _TOOLKIT) if root]


def _packages() -> list[Path]:
    """The folders of NVIDIA's packages of PyPI: nvidia/cu13 is that of several, older ones have one each."""
    spec = importlib.util.find_spec("nvidia")
    return [root for place in (spec.submodule_search_locations or [] if spec else []) for root in sorted(Path(place).glob("*/"))]


def _headers(library: str, roots: list[Path]) -> Path | None:
    """The folder of cuda_fp16.h: best that of the same toolkit."""
    folders = [root / "include" for root in (Path(library).parent.parent, *roots)]
    return next((folder for folder in folders if (folder / "cuda_fp16.h").exists()), None)
