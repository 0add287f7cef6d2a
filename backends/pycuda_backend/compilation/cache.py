"""Binaries on disk, by key, in ${AUTOTAPE_CACHE:-${XDG_CACHE_HOME:-~/.cache}/autotape}/kernels, a folder that may be deleted at any time.

An entry is the SHA-256 of a binary and the binary.  It appears whole or not at all, whoever else writes it; one that is damaged counts as
missing, and so does a folder that can't be read or written, which costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

_CHECK = hashlib.sha256().digest_size
_UNUSABLE = (OSError, RuntimeError)  # RuntimeError: nobody's home


def folder() -> Path:
    """Where the entries are.  Raises RuntimeError for a user without a home."""
    own, all_caches = os.environ.get("AUTOTAPE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own or Path(all_caches or "~/.cache", "autotape")).expanduser() / "kernels"


def load(key: str) -> bytes | None:
    """The binary that was stored by this key, if it is there and whole."""
    try:
        entry = (folder() / key).read_bytes()
    except _UNUSABLE:
        return None
    check, binary = entry[:_CHECK], entry[_CHECK:]
    return binary if hashlib.sha256(binary).digest() == check else None


def store(key: str, binary: bytes) -> None:
    """Keep a binary by this key, where that is possible."""
    with suppress(*_UNUSABLE):
        folder().mkdir(parents=True, exist_ok=True)
        descriptor, path = tempfile.mkstemp(dir=folder(), prefix=".new-")
        try:
            with open(descriptor, "wb") as file:
                file.write(hashlib.sha256(binary).digest() + binary)
            os.replace(path, folder() / key)
        except BaseException:
            os.unlink(path)
            raise
