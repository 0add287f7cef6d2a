"""Builds the CUDA emulator, and PyCUDA for the Python that runs this, and installs PyCUDA and scikit-cuda:
python tests/cuda_emulator/setup.py

It needs Linux on x86-64, g++ with the Python headers, and pip's way to PyPI the first time.  CUDA's headers are those of a toolkit
(CUDA_HOME, CUDA_PATH, /usr/local/cuda), else PyPI's.  All is kept in ${XDG_CACHE_HOME:-~/.cache}/autotape/cuda-emulator.
"""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import environment  # noqa: E402
import stubs  # noqa: E402

PYCUDA, SCIKIT_CUDA = "2026.1", "0.5.3"
BUILD_TOOLS = ["setuptools", "wheel", "numpy", "pybind11"]  # for PyCUDA's build; the last can compile several files at a time
PARALLEL = "from pybind11.setup_helpers import ParallelCompile\nParallelCompile(default=0).install()\n"
HEADERS = [f"nvidia-cuda-{part}==13.0.*" for part in ("runtime", "crt", "cccl", "profiler-api")]

HEADER_FILES = ["cuda.h", "cudaProfiler.h", "cuda_fp16.h", "cuda_bf16.h", "nv/target"]

DRIVER_FLAGS = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"]
# Checks of alignment and of bounds are calls into the driver.  Beyond -O1: a * b + c in one operation, and addresses of shared memory
# found once.  Variables of templates stay each module's own (no-gnu-unique).  Not -mtls-dialect=gnu2: glibc before 2.40 loses vector
# registers at the first use of a thread-local variable.
KERNEL_FLAGS = [
    "-std=c++17", "-O1", "-fexpensive-optimizations", "-ftree-pre", "-fPIC", "-w", "-fmax-errors=20",
    "-fsanitize=alignment,bounds", "-fno-sanitize-recover=all", "-fno-strict-aliasing", "-fno-gnu-unique", "-fno-math-errno",
    "-fno-exceptions", "-fno-asynchronous-unwind-tables",
]  # fmt: skip
# as far as the compiler and the processor know them: variables that nobody set hold a pattern; fused operations
OPTIONAL_FLAGS = {"-ftrivial-auto-var-init=pattern": set(), "-march=x86-64-v3": {"avx2", "bmi2", "f16c", "fma"}}


def run(*command, **options):
    """Runs a command quietly; RuntimeError with its last line says that it failed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        telling = [line for line in lines if re.search(r"\berror\b", line, re.I)] or lines or ["no output"]
        raise RuntimeError(f"{' '.join(map(str, command[:4]))} ... failed: {telling[-1].strip()}")
    return done.stdout


def pip(*arguments, python=sys.executable):
    return run(python, "-m", "pip", "--disable-pip-version-check", "-q", *arguments)


# ---- CUDA's headers


def complete(include):
    return all((include / name).exists() for name in HEADER_FILES)


def toolkit_headers():
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return next(filter(complete, (pathlib.Path(root) / "include" for root in roots if root)), None)


def headers_of_pypi():
    target = environment.cache() / "headers-13.0"
    include = target / "nvidia" / "cu13" / "include"
    if not complete(include):
        pip("install", "--no-deps", "--upgrade", "--target", target, *HEADERS)
    return include


def cuda_version(include):
    """As in cuda.h: 13000 for 13.0."""
    return int(re.search(r"#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text())[1])


# ---- the driver and nvcc


def compiles(flag):
    return subprocess.run(["g++", flag, "-fsyntax-only", "-xc++", "/dev/null"], capture_output=True).returncode == 0


def kernel_flags():
    processor = set(re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[1].split())
    return KERNEL_FLAGS + [flag for flag, needed in OPTIONAL_FLAGS.items() if needed <= processor and compiles(flag)]


def build_driver(include, target, scratch):
    (scratch / "stubs.c").write_text(stubs.source(include))
    units = [*sorted((environment.HERE / "driver").glob("*.cpp")), scratch / "stubs.c"]
    objects = [scratch / f"{unit.stem}.o" for unit in units]

    def compile_(unit, to):
        language = DRIVER_FLAGS if unit.suffix == ".cpp" else ["-xc", "-fPIC"]
        run("g++", *language, f"-I{environment.HERE / 'include'}", f"-I{include}", "-c", unit, "-o", to)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_, units, objects))
    # kernels are linked against this alone and find the C library and its mathematics through it
    libraries = ["-Wl,--no-as-needed", "-lm", "-ldl", "-lpthread"]
    run("g++", "-shared", "-Wl,-soname,libcuda.so.1", "-o", target / "libcuda.so.1", *objects, *libraries)
    (target / "libcuda.so").symlink_to("libcuda.so.1")


def build_nvcc(include, target, configuration):
    source = (environment.HERE / "nvcc").read_text().partition("\n")[2]
    (target / "nvcc").write_text(f"#!{environment.interpreter()} -IS\n{source}")
    (target / "nvcc").chmod(0o755)
    shutil.copytree(environment.HERE / "include", target / "include")
    header = target / "include" / "cuda_emulator.h"
    run("g++", *configuration["flags"], f"-I{target / 'include'}", f"-I{include}", "-x", "c++-header", header, "-o", f"{header}.gch")


def build(include, configuration):
    """In its place at once, since a precompiled header remembers that; config.json, which says that all is there, comes last."""
    target = environment.folder()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=environment.cache()) as scratch:
        build_driver(include, target, pathlib.Path(scratch))
    build_nvcc(include, target, configuration)
    (target / "config.json").write_text(json.dumps(configuration))


@contextlib.contextmanager
def alone():
    """Two set-ups at a time would step on each other's files."""
    environment.cache().mkdir(parents=True, exist_ok=True)
    with open(environment.cache() / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def configured():
    file = environment.folder() / "config.json"
    return json.loads(file.read_text()) if file.exists() else None


# ---- PyCUDA


def wheel_folder(version):
    return environment.cache() / f"pycuda-{PYCUDA}-{sysconfig.get_config_var('SOABI')}-cuda{version}"


def build_pycuda(include, target):
    """A wheel from the source distribution, linked to our libcuda.so.1, whose name is all that stays of it."""
    with tempfile.TemporaryDirectory(dir=environment.cache()) as scratch:
        scratch = pathlib.Path(scratch)
        run(sys.executable, "-m", "venv", scratch / "venv")
        python = scratch / "venv" / "bin" / "python"
        pip("install", *BUILD_TOOLS, python=python)
        pip("download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", scratch, f"pycuda=={PYCUDA}", python=python)
        with tarfile.open(next(scratch.glob("pycuda-*.tar.gz"))) as archive:
            archive.extractall(scratch)
        source = scratch / f"pycuda-{PYCUDA}"
        options = [f"--cuda-inc-dir={include}", f"--cuda-root={include.parent}", "--no-cuda-enable-curand"]
        script = source / "setup.py"
        script.write_text(script.read_text().replace("def main():", f"{PARALLEL}\n\ndef main():"))
        run(python, "configure.py", *options, f"--cudadrv-lib-dir={environment.folder()}", cwd=source)
        pip("wheel", "--no-deps", "--no-build-isolation", "-w", target, source, python=python)


def installed(name, version):
    try:
        return importlib.metadata.version(name) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def install_pycuda(include, version):
    folder = wheel_folder(version)
    if not list(folder.glob("*.whl")):
        print("building PyCUDA, which takes a minute or two")
        build_pycuda(include, folder)
    pip("install", *folder.glob("*.whl"))


def set_up():
    include = toolkit_headers() or headers_of_pypi()
    version = cuda_version(include)
    configuration = {
        "key": environment.key(),
        "release": f"{version // 1000}.{version % 1000 // 10}",
        "cuda_include": str(include),
        "compiler": run("g++", "-dumpfullversion").strip(),
        "flags": kernel_flags(),
    }
    if configured() != configuration:
        print("building the CUDA emulator")
        build(include, configuration)
    if not installed("pycuda", PYCUDA):
        install_pycuda(include, version)
    if not installed("scikit-cuda", SCIKIT_CUDA):
        pip("install", "--no-deps", f"scikit-cuda=={SCIKIT_CUDA}")  # it needs nothing that PyCUDA hasn't brought


def main():
    if reason := environment.why_not_here():
        sys.exit(reason)
    if not shutil.which("g++"):
        sys.exit("the CUDA emulator can't be built: there is no g++")
    try:
        with alone():
            set_up()
    except (RuntimeError, OSError) as error:
        sys.exit(f"the CUDA emulator can't be built: {error}")
    print(f"the CUDA emulator is ready; it is in {environment.folder()}")


if __name__ == "__main__":
    main()
