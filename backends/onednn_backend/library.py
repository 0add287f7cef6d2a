"""Finding libdnnl and loading it with what it needs: the one that AUTOTAPE_DNNL names, that of an installed package, or the system's.

The packages of PyPI (extra `onednn`) put it into the environment's lib folder, beside Intel's runtime libraries, where no loader looks:
those are loaded first, in the order of their needs, where it does not load without.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

VARIABLE = "AUTOTAPE_DNNL"
_PACKAGES = ("onednn-cpu-iomp", "onednn-cpu-tbb", "onednn-cpu-gomp", "onednn", "onednn-devel")
_RUNTIMES = ("intel-cmplr-lib-rt", "intel-openmp", "tbb")
# each before what needs it
_NEEDED = ("libintlc.so.5", "libirc.so", "libimf.so", "libirng.so", "libsvml.so", "libiomp5.so", "libtbb.so.12")
_MAJOR = 3


def load() -> ctypes.CDLL:
    """libdnnl of major version 3.  Raises OSError, which says what was tried, if there is none that loads."""
    named = os.environ.get(VARIABLE)
    candidates = [named] if named else [*map(str, _packaged()), "libdnnl.so.3"]
    errors = []
    for candidate in candidates:
        try:
            return _checked(_opened(candidate), candidate)
        except OSError as e:
            errors.append(str(e))
    way_out = f"{VARIABLE} names it" if named else f"install autotape[onednn], or name one by {VARIABLE}"
    raise OSError(f"no libdnnl.so.3 that loads ({'; '.join(errors)}): {way_out}")


def _packaged() -> Iterator[Path]:
    """libdnnl.so.3 of each installed package that has one."""
    for package in _PACKAGES:
        yield from (path for path in _files(package) if path.name == "libdnnl.so.3")


def _files(package: str) -> list[Path]:
    try:
        return [Path(str(f.locate())).resolve() for f in metadata.files(package) or [] if ".so" in f.name]
    except metadata.PackageNotFoundError:
        return []


def _opened(candidate: str) -> ctypes.CDLL:
    """By itself, if that will do: the threads of a build with GNU's OpenMP must not become those of Intel's."""
    try:
        return ctypes.CDLL(candidate)
    except OSError:
        _preload(os.path.dirname(candidate))
        return ctypes.CDLL(candidate)


def _preload(folder: str) -> None:
    """Load what libdnnl needs from its folder, "" if it has none, or else from packages, with its symbols for all to see; whatever is
    missing, libdnnl's own error will name."""
    found = {path.name: path for package in _RUNTIMES for path in _files(package)}
    for name in _NEEDED:
        path = beside if folder and (beside := Path(folder, name)).exists() else found.get(name)
        if path is not None:
            try:
                ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
            except OSError:
                continue


class _Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]


def _checked(dll: ctypes.CDLL, name: str) -> ctypes.CDLL:
    """The library, if it is oneDNN of the major version whose calls the binding knows."""
    try:
        dll.dnnl_version.restype = ctypes.POINTER(_Version)
    except AttributeError:
        raise OSError(f"{name} is no oneDNN") from None
    version = dll.dnnl_version().contents
    if version.major != _MAJOR:
        raise OSError(f"{name} is oneDNN {version.major}.{version.minor}; {_MAJOR}.x is needed")
    return dll
