"""Compiles the test double of libcublas."""

import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def why_not():
    """Why there can be no double here, in one line; None if there can."""
    if shutil.which("g++") is None:
        return "the double of libcublas needs g++"
    try:
        importlib.metadata.version("scikit-cuda")
    except importlib.metadata.PackageNotFoundError:
        return "scikit-cuda isn't installed: pip install scikit-cuda"
    return None


def build(folder):
    """libcublas.so.13 in this folder."""
    source, library = folder / "names.cpp", folder / "libcublas.so.13"
    source.write_text("".join(f'extern "C" int {name}() {{ return 15; }}\n' for name in sorted(_asked_for() - _defined())))
    options = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcublas.so.13"]
    subprocess.run(["g++", *options, "-o", library, HERE / "cublas.cpp", source, "-ldl"], check=True)
    return library


def _asked_for():
    """The functions that skcuda.cublas looks up when it is imported."""
    module = next(f for f in importlib.metadata.files("scikit-cuda") if f.as_posix().endswith("skcuda/cublas.py"))
    return set(re.findall(r"_libcublas\.(cublas\w+)", Path(module.locate()).read_text()))


def _defined():
    return set(re.findall(r"^API int (\w+)\(", (HERE / "cublas.cpp").read_text(), re.MULTILINE))
