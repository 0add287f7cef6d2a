"""The compilers of CUDA C++, and running them: nvcc as a process, NVRTC as a library in this one.

Either makes machine code for one architecture, a cubin; nvcc also makes fat binaries, which hold that of several.  Neither knows of units,
variants or caches: what goes in is one whole source, whose own headers lie in one folder.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import NamedTuple, Protocol

STANDARD = "-std=c++17"
TIMEOUT = 300  # seconds; a unit takes nvcc one or two
_LINES = 20  # of a compiler's message


class CompileError(Exception):
    """A kernel's source that its compiler refuses, or a compiler that fails."""

    def __init__(self, name: str, arch: str, output: str) -> None:
        super().__init__(f"kernel unit {name!r} for {arch} does not compile: {first_error(output)}")


class Source(NamedTuple):
    """What a compiler gets: `text`, CUDA C++ that calls itself NAME.cu by #line, with its headers in `folder`."""

    text: str
    name: str
    folder: Path
    fmad: bool  # whether a * b + c may become one instruction, which rounds once

    @property
    def flags(self) -> list[str]:
        """As both compilers take them."""
        return [STANDARD, f"-fmad={str(self.fmad).lower()}", f"-I{self.folder}"]


class Compiler(Protocol):
    """One compiler, as `nvcc 13.0.88 (/usr/local/cuda/bin/nvcc)`."""

    version: str
    identity: str  # what tells its results from those of other compilers

    def cubin(self, source: Source, arch: str) -> bytes:
        """The machine code for an architecture such as "sm_90".  Raises CompileError."""


def first_error(output: str) -> str:
    """The first error of what a compiler wrote, or all if nothing there looks like one, but at most twenty lines."""
    lines = output.strip().splitlines()
    errors = [i for i, line in enumerate(lines) if re.search(r"\b(error|fatal)\b", line)]
    if not errors:
        return "\n".join(lines[:_LINES])
    start, end = [*errors, len(lines)][:2]
    return "\n".join(lines[start : min(end, start + _LINES)]).split("\n\n")[0].rstrip()


class Nvcc:
    """The compiler of NVIDIA's toolkit, or one that takes its options.  Raises OSError if `path` is no such program."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.identity = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=TIMEOUT).stdout
        except subprocess.SubprocessError as e:
            raise OSError(f"{path} is no nvcc: {e}") from e
        found = re.search(r"\bV(\d[\d.]*)", self.identity)
        self.version = found[1] if found else "of unknown version"

    def __str__(self) -> str:
        return f"nvcc {self.version} ({self.path})"

    def cubin(self, source: Source, arch: str) -> bytes:
        """The machine code for an architecture such as "sm_90".  Raises CompileError."""
        return self._run(source, arch, ["-cubin", f"-arch={arch}"])

    def fatbin(self, source: Source, archs: Sequence[str]) -> bytes:
        """The machine code for each of `archs`, and PTX of the last of them for what is newer.  Raises CompileError."""
        codes = [(a.replace("sm", "compute"), a) for a in archs]
        codes.append((codes[-1][0], codes[-1][0]))
        return self._run(source, ", ".join(archs), ["-fatbin", *(f"-gencode=arch={ptx},code={code}" for ptx, code in codes)])

    def _run(self, source: Source, arch: str, what: list[str]) -> bytes:
        """Run it in a folder of its own, on a file whose name is not that of the #line: g++ would quote the wrong lines from that."""
        with tempfile.TemporaryDirectory(prefix="autotape-") as folder:
            Path(folder, "source.cu").write_text(source.text, encoding="utf-8")
            command = [self.path, *source.flags, *what, "-o", "binary", "source.cu"]
            output = self._output(command, folder, source.name, arch)
            binary = Path(folder, "binary")
            if not binary.exists() or not binary.stat().st_size:
                raise CompileError(source.name, arch, f"{self} made no binary and gave no error\n{output}")
            return binary.read_bytes()

    def _output(self, command: list[str], folder: str, name: str, arch: str) -> str:
        """What it writes, if it succeeds."""
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise CompileError(name, arch, f"{self} had no result after {TIMEOUT} s") from None
        except OSError as e:
            raise CompileError(name, arch, f"{self} can't be run: {e}") from e
        output = done.stderr + done.stdout
        if done.returncode:
            raise CompileError(name, arch, output if output.strip() else f"{self} ended with status {done.returncode} and no message")
        return output


class Nvrtc:
    """NVIDIA's compiler as a library; `headers` is the folder that has its cuda_fp16.h.

    Raises OSError if `library` is no libnvrtc that loads, or there are no headers.
    """

    def __init__(self, library: str, headers: Path | None) -> None:
        self.path, self.headers = library, headers
        for builtins in Path(library).parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))  # which it opens by name, and does not look for beside itself
        self._dll = ctypes.CDLL(library)
        if headers is None:
            raise OSError(f"{library} lacks cuda_fp16.h, which nvidia-cuda-runtime has")
        major, minor = c_int(), c_int()
        try:
            self._dll.nvrtcGetErrorString.restype = c_char_p
            self._call("Version", byref(major), byref(minor))
        except AttributeError:
            raise OSError(f"{library} is no libnvrtc") from None
        self.version = f"{major.value}.{minor.value}"
        self.identity = f"NVRTC {self.version}"

    def __str__(self) -> str:
        return f"NVRTC {self.version} ({self.path})"

    def cubin(self, source: Source, arch: str) -> bytes:
        """The machine code for an architecture such as "sm_90".  Raises CompileError."""
        program = c_void_p()
        self._call("CreateProgram", byref(program), source.text.encode(), f"{source.name}.cu".encode(), 0, None, None)
        try:
            flags = [flag.encode() for flag in (*source.flags, f"-I{self.headers}", f"--gpu-architecture={arch}")]
            status: int = self._dll.nvrtcCompileProgram(program, len(flags), (c_char_p * len(flags))(*flags))
            if status:
                log = self._result(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
                raise CompileError(source.name, arch, log if log.strip() else self._meaning(status))
            return self._result(program, "CUBIN")
        finally:
            self._dll.nvrtcDestroyProgram(byref(program))

    def _result(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        self._call(f"Get{what}Size", program, byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", program, buffer)
        return buffer.raw

    def _call(self, function: str, *arguments: object) -> None:
        status: int = getattr(self._dll, f"nvrtc{function}")(*arguments)
        if status:
            raise OSError(f"nvrtc{function}: {self._meaning(status)}")

    def _meaning(self, status: int) -> str:
        text: bytes = self._dll.nvrtcGetErrorString(status)
        return text.decode()
