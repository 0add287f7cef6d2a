"""Compiling all units ahead of their use: into the cache on disk (`autotape backends --build`) or into a wheel.

A unit says in its first comments which sets of macros it is compiled with, in lines like `// variants: TYPE=float; TYPE=long long LARGE=1`;
without one there is a single variant, without macros.  `fmad=false` in a set is no macro but forbids fused multiply-add.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_int
from pathlib import Path
from typing import NamedTuple

from . import compiler
from .discovery import NoCompiler, find
from .toolchain import Nvcc

WHEEL = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")  # what a wheel's binaries are for
_VARIANTS = re.compile(r"^//[ \t]*variants:(.*)$", re.MULTILINE)
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...


class Variant(NamedTuple):
    """What cubin takes, but for the architecture."""

    text: str
    defines: dict[str, str]
    fmad: bool
    name: str


class Built(NamedTuple):
    """A unit whose variants are compiled, and their binaries."""

    name: str
    binaries: list[bytes]


def units() -> list[str]:
    """The names of the units."""
    return sorted(path.stem for path in compiler.KERNELS.glob("*.cu"))


def variants(unit: str) -> list[Variant]:
    """All that is made of a unit.  Raises ValueError for a set that isn't NAME=VALUE NAME=VALUE..."""
    text = compiler.unit_text(unit)
    sets = ";".join(_VARIANTS.findall(text)).split(";")
    return [_variant(text, words, unit) for words in filter(None, map(str.strip, sets))] or [_variant(text, "", unit)]


def _variant(text: str, words: str, unit: str) -> Variant:
    defines = {}
    for word in re.split(r"\s+(?=\w+=)", words) if words else []:  # a value may be of several words, as `long long`
        if not re.fullmatch(r"\w+=.+", word):
            raise ValueError(f"kernel unit {unit!r}: {word!r} among its variants isn't NAME=VALUE")
        name, value = word.split("=", 1)
        defines[name] = value
    fmad = defines.pop("fmad", "true") == "true"
    return Variant(text, defines, fmad, unit)


def build(archs: Sequence[str]) -> Iterator[Built]:
    """Compile every unit for these architectures, as `cubin` does, so that it finds them later.  Raises as it does."""
    return _build(lambda v, arch: compiler.cubin(v.text, v.defines, arch, v.fmad, v.name), archs)


def build_fatbins(folder: Path, archs: Sequence[str] = WHEEL) -> list[Built]:
    """Write a fat binary of every unit's every variant into `folder`, kernels/binaries of a package, and for which architectures they are:
    these, and what is newer than the last of them.  Raises CompileError, and NoCompiler where there is no nvcc."""
    nvcc = find(nvcc_first=True)
    if not isinstance(nvcc, Nvcc):
        raise NoCompiler(f"fat binaries are made by nvcc alone, and what is here is {nvcc}")
    folder.mkdir(parents=True, exist_ok=True)

    def write(v: Variant, _: str) -> bytes:
        source = compiler.source(v.text, v.defines, v.fmad, v.name)
        binary = nvcc.fatbin(source, archs)
        (folder / f"{source.name}-{compiler.digest_of(source)}.fatbin").write_bytes(binary)
        return binary

    built = list(_build(write, archs[:1]))
    codes = (*archs, archs[-1].replace("sm", "compute"))
    (folder / compiler.ARCHITECTURES).write_text(" ".join(codes), encoding="utf-8")
    return built


def _build(make: Callable[[Variant, str], bytes], archs: Sequence[str]) -> Iterator[Built]:
    """Each unit's variants at once, on all processors: the work is the compiler's, outside Python."""
    with ThreadPoolExecutor() as pool:
        for unit in units():
            jobs = list(itertools.product(variants(unit), archs))
            yield Built(unit, list(pool.map(lambda job: make(*job), jobs)))


def architectures_here() -> list[str]:
    """Those of this machine's devices, by the driver; none without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(byref(count)):
        return []
    return sorted({_architecture(driver, ordinal) for ordinal in range(count.value)})


def _architecture(driver: ctypes.CDLL, ordinal: int) -> str:
    device, major, minor = c_int(), c_int(), c_int()
    driver.cuDeviceGet(byref(device), ordinal)
    driver.cuDeviceGetAttribute(byref(major), _MAJOR, device)
    driver.cuDeviceGetAttribute(byref(minor), _MINOR, device)
    return f"sm_{major.value}{minor.value}"
