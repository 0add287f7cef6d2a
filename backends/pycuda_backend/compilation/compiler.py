"""CUDA C++ in, machine code out: precompiled in the package, compiled before and kept on disk, or compiled now.

Sources are the units kernels/NAME.cu, each compiled once per set of macros, and texts that the backend writes; both may include the
headers kernels/*.cuh.  Nothing here needs a driver or PyCUDA.  If AUTOTAPE_NVCC names a compiler, all code is its own: what the package
carries is passed over.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock

from . import cache, discovery
from .discovery import NoCompiler, compiler
from .toolchain import STANDARD, CompileError, Source

__all__ = ["CompileError", "NoCompiler", "compiler", "cubin", "unit_text"]

KERNELS = Path(__file__).parents[1] / "kernels"
BINARIES, ARCHITECTURES = "binaries", "architectures"  # a folder in KERNELS, and the file there that names what they are for
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
NEEDS = {"half": "NEEDS_HALF", "bfloat16": "NEEDS_BFLOAT16"}  # common.cuh includes the header of a type, which takes time, only then
_locks: dict[str, Lock] = {}


def cubin(text: str, defines: Mapping[str, str], arch: str, fmad: bool, name: str) -> bytes:
    """What cuModuleLoadData takes, a cubin or fat binary, made of CUDA C++ `text` with `defines` as its macros for `arch` ("sm_90").

    `fmad` allows a * b + c to round once; `name` is for messages.  Raises CompileError if the text is wrong, NoCompiler if it has to
    be compiled and nothing here can.
    """
    whole = source(text, defines, fmad, name)
    digest = digest_of(whole)
    if (binary := _precompiled(f"{whole.name}-{digest}", arch)) is not None:
        return binary
    tool = discovery.find()
    key = f"{whole.name}-{_sha256(digest, arch, tool.identity)}"
    with _locks.setdefault(key, Lock()):  # who asks for the same finds it in the cache afterwards
        if (binary := cache.load(key)) is None:
            binary = tool.cubin(whole, arch)
            cache.store(key, binary)
        return binary


def unit_text(name: str) -> str:
    """The text of kernels/NAME.cu."""
    return (KERNELS / f"{name}.cu").read_text(encoding="utf-8")


def source(text: str, defines: Mapping[str, str], fmad: bool, name: str) -> Source:
    """The whole source.  Its macros stand in it: on the command line they would change CUDA's headers as well, which nvcc puts first."""
    file = re.sub(r"\W+", "_", name)[:80]
    needs = {macro: "1" for type_, macro in NEEDS.items() if type_ in defines.values()}
    macros = "".join(f"#define {macro} {value}\n" for macro, value in sorted({**defines, **needs}.items()))
    return Source(f'{macros}#line 1 "{file}.cu"\n{text}', file, KERNELS, fmad)


def digest_of(whole: Source) -> str:
    """What tells a source from all others: changed in a character, or in one of a header that it includes, it's another."""
    return _sha256(whole.text, whole.fmad, sorted(_headers(whole.text).items()), STANDARD)


def _headers(text: str) -> dict[str, str]:
    """Our headers that a text includes, and those that they include."""
    found: dict[str, str] = {}
    texts = [text]
    while texts:
        for name in _INCLUDE.findall(texts.pop()):
            if name not in found and (KERNELS / name).is_file():
                found[name] = (KERNELS / name).read_text(encoding="utf-8")
                texts.append(found[name])
    return found


def _sha256(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _precompiled(stem: str, arch: str) -> bytes | None:
    """The package's fat binary, if it has one with code for `arch`."""
    if os.environ.get(discovery.VARIABLE):
        return None
    try:
        built = (KERNELS / BINARIES / ARCHITECTURES).read_text(encoding="utf-8").split()
        return (KERNELS / BINARIES / f"{stem}.fatbin").read_bytes() if runs_on(arch, built) else None
    except FileNotFoundError:
        return None


def runs_on(arch: str, built: Iterable[str]) -> bool:
    """Whether `arch` runs one of `built`: machine code ("sm_80") of its generation or PTX ("compute_80"), made for nothing newer."""
    number = int(arch.removeprefix("sm_"))
    codes = ((kind, int(text)) for kind, _, text in (b.partition("_") for b in built))
    return any(code <= number and (kind == "compute" or code // 10 == number // 10) for kind, code in codes)
