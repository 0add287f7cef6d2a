"""scikit-cuda's `cublas` module on the libcublas that is here.

The module is of 2019.  It asks for pkg_resources, which setuptools no longer has; knows libcublas by its names up to CUDA 10; starts
programs to learn its version; and loads libcudart for two complex types.  All that is answered while it is imported, and taken back
behind it.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

VARIABLE = "AUTOTAPE_CUBLAS"
_SONAMES = ("libcublas.so.13", "libcublas.so.12")
_OLDEST = 12
_MAJOR, _MINOR = 0, 1  # libraryPropertyType


def load() -> Any:
    """skcuda.cublas.  Raises ImportError if there is no scikit-cuda, OSError, which says what was tried, if there is no libcublas."""
    if (module := sys.modules.get("skcuda.cublas")) is not None:
        return module
    path, version = _library()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _answered({"pkg_resources": _pkg_resources(), "skcuda.cuda": _cuda()}, path):
            utils = importlib.import_module("skcuda.utils")
            with _replaced(utils, find_lib_path=lambda name: path, get_soname=lambda path: f"libcublas.so.{version}"):
                return importlib.import_module("skcuda.cublas")


def _library() -> tuple[str, str]:
    """The path of a libcublas that loads, and its version: the one that AUTOTAPE_CUBLAS names, or that of NVIDIA's packages, of a toolkit,
    or the system's."""
    named, errors = os.environ.get(VARIABLE), []
    for path in [named] if named else [*map(str, _installed()), *_SONAMES]:
        try:
            return path, _version(ctypes.CDLL(path), path)
        except OSError as e:
            errors.append(str(e))
    raise OSError(f"no libcublas that loads ({'; '.join(errors)})")


def _installed() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    packages = [root for place in (spec.submodule_search_locations or [] if spec else []) for root in sorted(Path(place).glob("*"))]
    toolkits = [Path(root) for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda") if root]
    for root in (*packages, *toolkits):
        yield from (path for lib in ("lib64", "lib") for name in _SONAMES if (path := root / lib / name).exists())


def _version(dll: ctypes.CDLL, path: str) -> str:
    """As "13.1", asked without a handle, which would take device memory."""
    numbers = [ctypes.c_int(), ctypes.c_int()]
    try:
        for which, number in zip((_MAJOR, _MINOR), numbers, strict=True):
            dll.cublasGetProperty(which, ctypes.byref(number))
    except AttributeError:
        raise OSError(f"{path} is no libcublas") from None
    major, minor = (n.value for n in numbers)
    if major < _OLDEST:
        raise OSError(f"{path} is cuBLAS {major}.{minor}; {_OLDEST} or newer is needed")
    return f"{major}.{minor}"


# -- what is answered
def _pkg_resources() -> ModuleType:
    module: Any = ModuleType("pkg_resources")
    module.declare_namespace = lambda name: None
    module.require = lambda name: [SimpleNamespace(version=importlib.metadata.version(name))]
    return module


def _cuda() -> ModuleType:
    """skcuda.cuda, which is imported when something of it is asked for."""
    module: Any = ModuleType("skcuda.cuda")
    module.__getattr__ = lambda name: getattr(importlib.import_module("skcuda.cuda"), name)
    return module


@contextmanager
def _answered(modules: dict[str, ModuleType], path: str) -> Iterator[None]:
    """Modules that are not there, and `path` as the libcublas of any version."""
    modules = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(modules)
    load = ctypes.LibraryLoader.LoadLibrary
    try:
        with _replaced(ctypes.LibraryLoader, LoadLibrary=lambda self, name: load(self, path if name.startswith("libcublas.") else name)):
            yield
    finally:
        for name in modules:
            del sys.modules[name]


@contextmanager
def _replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in attributes}
    try:
        for name, value in attributes.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
