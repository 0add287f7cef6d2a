"""The pycuda and cudnn backends on the device that is here: are they right, and how fast.  At most five minutes.

The parts come in order of importance; each has a share of the time, and says what that did not allow.

    environment    the device, its driver and memory, what compiles, libcudnn, which peers are here
    tests          pytest --backend pycuda and --backend cudnn: the conformance suite and each one's own tests, then all others
    kernels        every kernel of the contract against NumPy's: the conformance suite
    convolutions   ResNet-50's, with bias and relu: in one call, one after another, by raw kernels and by PyTorch
    operators      Knet's operator table on large arrays: autotape, PyTorch, CuPy and plain GPUArrays
    models         ResNet-50 and ResNet-18, forward and a training step, and LeNet's step against PyTorch
    tolerances     how far operators are off in each math mode, beside what docs/math-modes.md allows
    bandwidth      memory-bound kernels at 64 MiB: bytes moved a second, as a fraction of a copy from device to device, and cuDNN's
    overhead       what an operator costs the host
    memory         what the pool says of a training step

    python bench/gpu.py                      # all of it; parts that are named share the time of all
    python bench/gpu.py --json results.json  # rewritten after each figure

Where there is no libcudnn everything runs on pycuda alone.  Times are a clock's, of several calls and a wait for the device; contenders
take turns.  On the emulated driver of tests/cuda_emulator, and with tests/cudnn_double, everything runs on small arrays, to show that it
works: the table says so, and no figure of it means anything.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from gpu_harness import MIB, RNG, Bench, Call, Items, Part, account, running
from gpu_kernels import bandwidth, operators
from gpu_models import convolutions, lenet_step, models
from gpu_tolerances import tolerances

import autotape as at
from autotape import backend
from autotape.backends.kernels import Geometry
from autotape.backends.pycuda_backend.absent import ABSENT
from autotape.opsets import array
from autotape.testing.backend_suite import check_kernel, kernel_calls

ROOT = Path(__file__).resolve().parent.parent
OVERHEAD, TARGETED = 12.0, ("x + w", "np.tanh(x)", "sum")  # us an operator, and which
ALLOWED = 285  # seconds for all parts
GRACE = 10  # seconds in which pytest says what it found


# -- what is here
def environment(b: Bench) -> Items:
    """The device and what is around it."""
    yield "device", functools.partial(_device, b)
    yield "libcudnn", functools.partial(_libcudnn, b)
    yield "runs on", functools.partial(_runs_on, b)
    if b.quick:
        print("  small arrays: what follows shows that things work, and no figure means anything")


def _device(b: Bench) -> Any:
    from autotape.backends.pycuda_backend.compilation.compiler import compiler
    from autotape.backends.pycuda_backend.driver import device

    d = device()
    free, total = d.cuda.mem_get_info()
    return _shown(
        device=d.name,
        architecture=d.arch,
        processors=d.processors,
        memory_gib=round(total / 2**30, 1),
        free_gib=round(free / 2**30, 1),
        driver=d.cuda.get_driver_version(),
        compiler=str(compiler()),
        python=platform.python_version(),
        numpy=np.__version__,
        autotape=at.__version__,
        **{name: peer.__version__ for name, peer in b.peers.items()},
        date=time.strftime("%Y-%m-%d"),
    )


def _libcudnn(b: Bench) -> Any:
    """Ours, and all that this process has loaded: PyTorch may have brought one of its own."""
    if b.why_not:
        return _shown(cudnn=f"not used: {b.why_not}")
    from autotape.backends.cudnn_backend import binding
    from autotape.backends.cudnn_backend.binding import library

    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libcudnn.so" in line}
    return _shown(
        cudnn=library.dotted(binding.cudnnGetVersion()),
        cudnn_for_cuda=binding.cudnnGetCudartVersion(),
        cudnn_path=getattr(binding.calls.dll, "_name", "a double"),
        all_libcudnn=", ".join(sorted(loaded)),
    )


def _runs_on(b: Bench) -> Any:
    """What computes matrix products and convolutions."""
    found, geometry = {}, Geometry((3, 3), ((1, 1),) * 2, (1, 1), (1, 1))
    square, images, filters = (b.k.ones(shape, np.float32) for shape in [(64, 64), (4, 16, 16, 16), (16, 16, 3, 3)])
    for name, k in b.tables.items():
        found[f"{name}: matmul"] = account(k, functools.partial(k.matmul, square, square))
        found[f"{name}: conv"] = account(k, functools.partial(k.conv, filters, images, geometry, 1.0))
        fused = functools.partial(k.conv_bias_act, filters, images, None, None, "relu", geometry, 1.0, 1.0)
        found[f"{name}: conv_bias_act"] = account(k, fused)
    return _shown(**found)


def _shown(**found: Any) -> dict[str, Any]:
    for name, value in found.items():
        print(f"  {name:24s}{value}")
    return found


# -- is it right
def tests(b: Bench) -> Items:
    """pytest in a process of its own, with workers where pytest-xdist is here: each run in half of the time that is left."""
    every = sorted(ROOT.glob("tests/test_*.py"), key=lambda path: ("compiler" in path.name, path))  # which takes a minute
    first = {name: [path for path in every if path.name.startswith((f"test_{name}_", "test_backend_suite"))] for name in b.tables}
    for name, files in first.items():
        yield f"{name}, its own", functools.partial(_pytest, b, name, _smallest(files) if b.quick else files)
    for name, files in first.items() if not b.quick else ():
        yield f"{name}, the others", functools.partial(_pytest, b, name, [path for path in every if path not in files])


def _smallest(files: list[Path]) -> list[Path]:
    return sorted(files, key=lambda path: path.stat().st_size)[:1]


def _pytest(b: Bench, name: str, files: list[Path]) -> dict[str, Any]:
    """What it says of these files on one backend."""
    options = ["--tb=short", "--continue-on-collection-errors", "--backend", name, *_workers(b)]
    command = [sys.executable, "-m", "pytest", *options, *map(str, files)]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, more = run.communicate(timeout=b.seconds_left() / 2)[0], []
    except subprocess.TimeoutExpired:
        output, more = _interrupted(run), ["interrupted: its time was over"]
    said = [line.strip("= ") for line in output.splitlines() if re.match(r"FAILED|ERROR|collected|\d+ workers|=.* in [\d.]+s", line)]
    lines = (said or output.splitlines()[-1:]) + more
    print("\n".join(f"  {name}: {line}" for line in lines[-20:]))
    return {"said": lines, "failures": output.partition(" FAILURES ")[2][:MIB] if said else output}


def _interrupted(run: subprocess.Popen[str]) -> str:
    """What it has found until now."""
    run.send_signal(signal.SIGINT)
    try:
        return run.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired:
        run.kill()
        return run.communicate()[0]


def _workers(b: Bench) -> list[str]:
    workers = min(8, (os.cpu_count() or 1) // 2)
    return ["-n", str(workers)] if workers > 1 and not b.quick and importlib.util.find_spec("xdist") else []


def kernels(b: Bench) -> Items:
    """The conformance suite: every kernel of the contract against NumPy's."""
    calls = {name: call for name, call in kernel_calls().items() if name not in ABSENT}
    for name, call in list(calls.items())[:: 10 if b.quick else 1]:
        yield name, functools.partial(_wrong, b, call)
    for table in b.tables:
        agree = [table not in wrong for wrong in b.found.values()]
        print(f"  {table}: {sum(agree)} of {len(agree)} kernels agree with NumPy's")


def _wrong(b: Bench, call: Any) -> dict[str, str]:
    """The backends on which a kernel differs, and in what."""
    wrong = {}
    for name, k in b.tables.items():
        try:
            check_kernel(k, call)
        except Exception as e:
            wrong[name] = f"{type(e).__name__}: {str(e).strip()[:300]}"
            print(f"  {name}: {call}: {wrong[name]}")
    return wrong


# -- what it costs
def overhead(b: Bench) -> Items:
    """Microseconds that an operator costs the host, on ten numbers: nobody waits for the device in between."""
    for name in b.tables:
        yield name, functools.partial(_overhead, b, name)


def _overhead(b: Bench, name: str) -> dict[str, float]:
    with running(name):
        found = {what: _host_time(b, call, n) for what, (call, n) in _small_calls(b.tables[name]).items()}
    for what, us in found.items():
        print(f"  {name}: {what:36s}{us:10.1f} us{b.verdict(us <= OVERHEAD, OVERHEAD) if what in TARGETED else ''}")
    return found


def _small_calls(k: Any) -> dict[str, tuple[Call, int]]:
    """And how many operators each runs."""
    x, w = (at.asarray(k.adopt(RNG.normal(size=10).astype("f4"))) for _ in range(2))
    chain = at.grad(lambda x: array.sum(_chain(x, w, 50)))
    return {
        "kernel alone": (lambda: k.add(x._array, w._array), 1),
        "x + w": (lambda: x + w, 1),
        "np.tanh(x)": (lambda: np.tanh(x), 1),
        "sum": (lambda: array.sum(x), 1),
        "forward and backward, an operator": (lambda: chain(x), 100),
    }


def _chain(x: Any, w: Any, n: int) -> Any:
    for _ in range(n):
        x = np.tanh(x * w)
    return x


def _host_time(b: Bench, call: Call, operators: int) -> float:
    """Microseconds an operator."""
    n = (20 if b.quick else 2000) // operators + 1
    call()
    b.k.synchronize()
    start = time.perf_counter()
    for _ in range(n):
        call()
    taken = time.perf_counter() - start
    b.k.synchronize()
    return 1e6 * taken / n / operators


def memory(b: Bench) -> Items:
    """The pool after a training step of LeNet."""
    yield b.best, functools.partial(_memory, b)


def _memory(b: Bench) -> dict[str, int]:
    step = lenet_step(b)
    with step.within():
        step.call()
    found: dict[str, int] = b.k.memory.statistics()
    print("  " + ", ".join(f"{name} {value / MIB:.1f} MiB" if value >= 4096 else f"{name} {value}" for name, value in found.items()))
    return found


# each part's share of the time
PARTS = {
    environment: 15, tests: 100, kernels: 25, convolutions: 45, operators: 25, models: 35,
    tolerances: 15, bandwidth: 15, overhead: 5, memory: 5,
}  # fmt: skip


def main() -> int:
    """Run the parts; what fails says so and the others go on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0], allow_abbrev=False)
    parser.add_argument("parts", nargs="*", choices=[*(p.__name__ for p in PARTS), []], help="only these")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what is found here, after each figure")
    parser.add_argument("--quick", action="store_true", help="small arrays, to see that it works; so it is on the emulated driver")
    args = parser.parse_args()
    if why := backend.available()["pycuda"]:
        print(f"gpu.py: {why}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background, and pytest there, would ignore it
    is_emulated = "emulat" in backend.load("pycuda").device_name.lower()  # type: ignore[attr-defined]
    bench = Bench(args.quick or is_emulated, args.json, _why_no_cudnn())
    chosen = {part: share for part, share in PARTS.items() if part.__name__ in (args.parts or part.__name__)}
    went_well = [_run(bench, part, ALLOWED * share / sum(chosen.values())) for part, share in chosen.items()]
    return int(not all(went_well))


def _why_no_cudnn() -> str | None:
    """A libcudnn that loads is not enough: it must find the device."""
    if why := backend.available()["cudnn"]:
        return why
    from autotape.backends.cudnn_backend import binding, handle

    try:
        handle.ready()
    except binding.cudnnError as e:
        return f"{type(e).__name__}: {e}"
    return None


def _run(b: Bench, part: Part, seconds: float) -> bool:
    start = time.perf_counter()
    print(f"{part.__name__}: {(part.__doc__ or '').splitlines()[0]}", flush=True)
    went_well = b.run(part, seconds)
    print(f"  ({time.perf_counter() - start:.1f} s)\n", flush=True)
    return went_well


if __name__ == "__main__":
    sys.exit(main())
