"""Where the emulator that setup.py built lies, and how a process gets onto it."""

import ctypes
import functools
import hashlib
import importlib.util
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SWITCHES = {"ORDER", "SEED", "DEFERRED", "POISON", "THREADS", "MEMORY", "DEVICES", "DRIVER_VERSION", "CAPABILITY"}
_driver = None


def cache():
    """The folder that holds all that setup.py makes."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "autotape" / "cuda-emulator"


def sources():
    folders = [HERE / "driver", HERE / "include"]
    return sorted([HERE / "nvcc", HERE / "setup.py", HERE / "stubs.py", *(p for f in folders for p in f.rglob("*") if p.is_file())])


@functools.cache
def interpreter():
    """The Python that environments and other names of it are links to."""
    return os.path.realpath(sys.executable)


def key():
    """A hash of the sources and the Python: another version of them is another build, which all environments of that Python share."""
    digest = hashlib.sha256(f"{interpreter()} {sys.version}".encode())
    for path in sources():
        digest.update(f"{path.relative_to(HERE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def folder():
    """The folder of this build: libcuda.so.1, nvcc, and nvcc's headers."""
    return cache() / key()


def why_not_here():
    """Why no process of this machine can run on the emulator, in one line; None if it could."""
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        return None
    return "the CUDA emulator runs on x86-64 Linux only"


def lacking():
    """What programs lack that would be started on the emulator, in one line; None if nothing."""
    if reason := why_not_here():
        return reason
    if not (folder() / "config.json").exists():
        return f"the CUDA emulator isn't built: {sys.executable} {HERE / 'setup.py'} does"
    if importlib.util.find_spec("pycuda") is None:
        return f"PyCUDA isn't installed: {sys.executable} {HERE / 'setup.py'} builds and installs it"
    return None


def why_not():
    """Why this process can't run on the emulator, in one line; None if it can."""
    if _driver is None and "pycuda._driver" in sys.modules:
        return "PyCUDA was imported before the emulator was entered, with another driver"
    return lacking()


def enter(**switches):
    """Puts this process, and those it starts by run.py, on the emulator; before pycuda is imported.

    Switches are those of the README, in small letters: enter(order="rev", deferred=1).  RuntimeError says why it can't be,
    TypeError names a switch that there isn't.
    """
    global _driver
    if unknown := {name for name in switches if name.upper() not in SWITCHES}:
        raise TypeError(f"no switch of the CUDA emulator: {', '.join(sorted(unknown))}; there are {', '.join(sorted(SWITCHES)).lower()}")
    if reason := why_not():
        raise RuntimeError(reason)
    if _driver is not None and switches:
        raise RuntimeError("this process is on the CUDA emulator already, and its switches are read once")
    os.environ.update({f"CUDA_EMULATOR_{name.upper()}": str(int(v) if isinstance(v, bool) else v) for name, v in switches.items()})
    kernels = folder() / "kernels"
    kernels.mkdir(exist_ok=True)
    nvcc = str(folder() / "nvcc")
    os.environ.update(AUTOTAPE_NVCC=nvcc, AUTOTAPE_CACHE=str(kernels), PYCUDA_CACHE_DIR=str(kernels))
    os.environ.setdefault("AUTOTAPE_CUBLAS", "none")  # a real one can't work here; a double may be named
    os.environ["PATH"] = f"{folder()}{os.pathsep}{os.environ.get('PATH', '')}"  # where PyCUDA's own compiler looks for nvcc
    # loaded first, and for all: whoever needs a libcuda.so.1 afterwards is given this one
    _driver = ctypes.CDLL(str(folder() / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
    _driver.cuda_emulator_counts.restype = ctypes.c_char_p


def counts():
    """What the driver did so far: {"launches": 3, "wait_stream": 1, ...}; those named wait_ made the host wait."""
    return {name: int(value) for name, value in (pair.split("=") for pair in _driver.cuda_emulator_counts().decode().split())}


def fault(name, nth=1, times=1):
    """Lets the nth allocation ("out_of_memory"), launch ("illegal_address") or module load ("invalid_image") from now fail.

    Those after it fail too, `times` in all (0 takes the fault back): PyCUDA's mem_alloc tries twice.
    """
    if not _driver.cuda_emulator_fault(name.encode(), ctypes.c_long(nth), ctypes.c_long(times)):
        raise ValueError(f"no fault {name!r} of the CUDA emulator; there are out_of_memory, illegal_address and invalid_image")


def recover():
    """Makes the context usable again after an error that sticks, which no real driver does."""
    _driver.cuda_emulator_recover()
