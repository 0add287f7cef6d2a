"""Files that are either whole or not there, and parameters saved as safetensors."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from . import InputError
from .models import Parameters


def check_destination(option: str, path: Path, library: str) -> None:
    """Raise before any work is done if `path` can't be written, or the library that writes it is missing."""
    if importlib.util.find_spec(library) is None:
        raise ImportError(f"{option} needs {library}, which the extra `train` brings: pip install 'autotape[train]'")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{option} {path}: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise InputError(f"{option} {path}: this is a folder or a device; name a file")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{option} {path}: the folder {path.parent} can't be written to")


@contextmanager
def atomically(path: Path) -> Iterator[BinaryIO]:
    """A new file beside `path` that takes its place when the block ends, and vanishes if the block raises."""
    path = path.resolve()  # through a link, not in its place
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def save_parameters(parameters: Parameters, path: Path) -> None:
    """Write the parameters as safetensors, in C order: the format's writer takes other orders for C order and scrambles them."""
    from safetensors.numpy import save

    with atomically(path) as file:
        file.write(save({name: np.ascontiguousarray(p) for name, p in parameters.items()}))
