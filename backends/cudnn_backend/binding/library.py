"""Finding libcudnn and loading it: the one that AUTOTAPE_CUDNN names, that of NVIDIA's packages on PyPI, or the system's."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "AUTOTAPE_CUDNN"
SONAMES = ("libcudnn.so.9", "libcudnn.so.8")
OLDEST = 8901  # 8.9.1: from there on recurrent calls need no lengths on the device


def load() -> ctypes.CDLL:
    """libcudnn 8.9 or 9.  Raises OSError, which says what was tried, if there is none that loads."""
    named, errors = os.environ.get(VARIABLE), []
    for path in [named] if named else [*map(str, _installed()), *SONAMES]:
        try:
            return _checked(ctypes.CDLL(path), path)
        except OSError as e:
            errors.append(str(e))
    way_out = f"{VARIABLE} names it" if named else f"pip install nvidia-cudnn-cu13 (or -cu12, as the driver is), or name one by {VARIABLE}"
    raise OSError(f"no libcudnn that loads ({'; '.join(errors)}): {way_out}")


def dotted(version: int) -> str:
    """What cudnnGetVersion says, as people write it: 8907 is 8.9.7, and 91900 is 9.19.0."""
    major = 10000 if version >= 90000 else 1000
    return f"{version // major}.{version % major // 100}.{version % 100}"


def _installed() -> Iterator[Path]:
    """Those of the packages nvidia-cudnn-cu12 and -cu13."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or [] if spec else []:
        yield from (path for name in SONAMES if (path := Path(place) / "cudnn" / "lib" / name).exists())


def _checked(dll: ctypes.CDLL, name: str) -> ctypes.CDLL:
    """The library, if it is cuDNN with the calls that the binding knows."""
    try:
        dll.cudnnGetVersion.restype = ctypes.c_size_t
    except AttributeError:
        raise OSError(f"{name} is no cuDNN") from None
    if (version := dll.cudnnGetVersion()) < OLDEST:
        raise OSError(f"{name} is cuDNN {dotted(version)}; {dotted(OLDEST)} or newer is needed")
    return dll
