"""The pycuda backend on the device that is here: is it right, and how fast.  At most five minutes, the parts in order of importance.

    environment   the device, its driver and memory, what compiles, which peers are here
    tests         pytest --backend pycuda, as much of it as its share of the time allows
    kernels       every kernel of the contract against NumPy's: the conformance suite
    bandwidth     memory-bound kernels at 64 MiB: bytes moved a second, as a fraction of a copy from device to device
    overhead      what an operator costs the host
    operators     Knet's operator table on large arrays: autotape, PyTorch, CuPy and plain GPUArrays
    steps         a training step of LeNet and of ResNet-18 against PyTorch
    memory        what the pool says of a training step

    python bench/gpu.py                      # all of it; name parts to run those alone
    python bench/gpu.py --json results.json  # rewritten after each part

Times are a clock's, of several calls and a wait for the device; contenders take turns.  On the emulated driver of tests/cuda_emulator
everything runs on small arrays, to show that it works: the table says so, and no figure of it means anything.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
from conv_bias_act import resnet18, weights

import autotape as at
from autotape import backend, math_mode
from autotape.opsets import array, v20
from autotape.testing.backend_suite import check_kernel, kernel_calls

Call = Callable[[], Any]
ROOT = Path(__file__).resolve().parent.parent
COPY, OVERHEAD, TORCH = 0.85, 12.0, 1.0  # of a copy's bandwidth; us an operator; of PyTorch's time on memory-bound rows
SECONDS = {"tests": 120, "operators": 60}  # at most, of a run of five minutes
MIB = 2**20
RNG = np.random.default_rng(0)


class Bench:
    """What all parts share: the backend, the peers, the sizes, and the results so far."""

    def __init__(self, quick: bool, file: Path | None) -> None:
        self.k: Any = backend.load("pycuda")
        self.quick, self.file = quick, file
        self.size = MIB // 64 if quick else 64 * MIB  # bytes of a large array
        self.peers = {name: peer for name, peer in harness.peers("torch", "cupy").items() if _has_device(name, peer)}
        self.results: dict[str, Any] = {}

    def verdict(self, reached: bool, limit: float) -> str:
        """For the end of a line; nothing is reached or missed on small arrays."""
        return "" if self.quick else f"   target {limit:g}: {'reached' if reached else 'missed'}"

    def write(self, part: str, result: Any) -> None:
        """A part is done; the file is whole at any time."""
        self.results[part] = result
        if self.file:
            self.file.with_suffix(".part").write_text(json.dumps(self.results, indent=1))
            self.file.with_suffix(".part").replace(self.file)

    def seconds(self, calls: Mapping[str, Call], rounds: int = 7) -> dict[str, float]:
        """What one call of each takes: the median of rounds in which they take turns, each run as often as makes a few milliseconds."""
        often, taken = {}, {name: list[float]() for name in calls}
        for name, call in calls.items():
            call()  # compiles, allocates
            often[name] = 1 if self.quick else max(1, min(100, int(3e-3 / self.timed(call, 1))))
        for r in range(2 if self.quick else rounds):
            for name in harness.order(list(calls), r):
                taken[name].append(self.timed(calls[name], often[name]))
        return {name: float(np.median(values)) for name, values in taken.items()}

    def timed(self, call: Call, n: int) -> float:
        """Seconds of one of n calls.  The device is waited for before and after, which all libraries share."""
        self.k.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            call()
        self.k.synchronize()
        return (time.perf_counter() - start) / n


def _has_device(name: str, peer: Any) -> bool:
    """Whether a peer sees the device; on the emulated driver none does."""
    try:
        return bool(peer.cuda.is_available() if name == "torch" else peer.cuda.runtime.getDeviceCount())
    except Exception:  # whatever a library built for another driver raises
        return False


def environment(b: Bench) -> Any:
    """The device and what is around it."""
    from autotape.backends.pycuda_backend.compilation.compiler import compiler
    from autotape.backends.pycuda_backend.driver import device

    d = device()
    free, total = d.cuda.mem_get_info()
    found = {
        "device": d.name,
        "is_emulated": "emulat" in d.name.lower(),
        "architecture": d.arch,
        "processors": d.processors,
        "memory_gib": round(total / 2**30, 1),
        "free_gib": round(free / 2**30, 1),
        "driver": d.cuda.get_driver_version(),
        "compiler": str(compiler()),
        "matrix_products": _account(b),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "autotape": at.__version__,
        "peers": {name: peer.__version__ for name, peer in b.peers.items()},
        "date": time.strftime("%Y-%m-%d"),
    }
    for name, value in found.items():
        print(f"  {name:18s}{value}")
    if found["is_emulated"]:
        print("  an EMULATED device: what follows shows that things work, and no figure means anything")
    return found


def _account(b: Bench) -> str:
    """What matrix products run on."""
    x = b.k.adopt(np.ones((64, 64), "f4"))
    b.k.account()
    b.k.matmul(x, x)
    return str(b.k.account()[0])


def tests(b: Bench) -> Any:
    """pytest in a process of its own; what the time does not allow is left out, and said."""
    files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"tests/test_pycuda_{'pooling' if b.quick else '*'}.py"))
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--backend", "pycuda", *files]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS["tests"])
        lines = [line for line in run.stdout.splitlines() if line.startswith("FAILED") or " passed" in line or " failed" in line]
    except subprocess.TimeoutExpired as e:
        lines = [f"stopped after {SECONDS['tests']} s", *(e.stdout or b"").decode().splitlines()[-3:]]
    print("\n".join(f"  {line}" for line in lines[-20:]))
    return lines


def kernels(b: Bench) -> Any:
    """The conformance suite."""
    wrong = {}
    calls = dict(list(kernel_calls().items())[:: 10 if b.quick else 1])
    for name, call in calls.items():
        try:
            check_kernel(b.k, call)
        except Exception as e:
            wrong[name] = f"{type(e).__name__}: {str(e).strip()[:300]}"
            print(f"  {name}: {wrong[name]}")
    print(f"  {len(calls) - len(wrong)} of {len(calls)} kernels agree with NumPy's")
    return {"checked": len(calls), "wrong": wrong}


class Moved(NamedTuple):
    """A kernel, and how many times the size of its array it moves at least."""

    name: str
    call: Call
    times: float


def bandwidth(b: Bench) -> Any:
    """Bytes a second of memory-bound kernels, each beside a copy."""
    k, n = b.k, b.size // 4
    rows = max(1, n // 1024)
    x, y = (k.adopt(RNG.normal(size=(rows, 1024)).astype("f4")) for _ in range(2))
    side = 56 if not b.quick else 8
    images = k.adopt(RNG.normal(size=(max(1, n // (64 * side * side)), 64, side, side)).astype("f4"))
    scale, row = k.ones((64,), np.float32), k.ones((1024,), np.float32)
    pool = v20.pool
    half, index = k.astype(x, np.float16), k.adopt(RNG.permutation(rows))
    moved = [
        Moved("add", lambda: k.add(x, y), 3),
        Moved("tanh", lambda: k.tanh(x), 2),
        Moved("tanh of float16", lambda: k.tanh(half), 1),
        Moved("add a row", lambda: k.add(x, row), 2),
        Moved("transposed copy", lambda: k.concatenate([k.transpose(x, None)], 0), 2),
        Moved("cast to float16", lambda: k.astype(x, np.float16), 1.5),
        Moved("sum of all", lambda: k.sum(x, None, False), 1),
        Moved("sum of rows", lambda: k.sum(x, 1, False), 1),
        Moved("sum of columns", lambda: k.sum(x, 0, False), 1),
        Moved("argmax of rows", lambda: k.argmax(x, 1, False), 1),
        Moved("cumsum of rows", lambda: k.cumsum(x, 1), 2),
        Moved("softmax of rows", lambda: k.softmax(x, 1), 2),
        Moved("layernorm", lambda: k.layernorm(x, row, row, 1e-5), 2),
        Moved("batchnorm", lambda: k.batchnorm(images, scale, scale, 1e-5), 3),
        Moved("max_pool 2x2", lambda: pool(images), 1.25),
        Moved("mean_pool 2x2", lambda: pool(images, mode=1), 1.25),
        Moved("gather rows", lambda: k.getitem(x, (index,)), 2),
        Moved("concatenate", lambda: k.concatenate([x, y], 0), 4),
        Moved("uniform", lambda: k.uniform(1, (rows, 1024), np.float32), 1),
    ]
    found = {}
    for name, call, times in moved:
        taken = b.seconds({"copy": lambda: k.copy(x), name: call})
        rate, copy = times * b.size / taken[name], 2 * b.size / taken["copy"]
        found[name] = {"gb_s": rate / 1e9, "of_copy": rate / copy}
        print(f"  {name:24s}{rate / 1e9:10.1f} GB/s{rate / copy:8.2f} of a copy{b.verdict(rate / copy >= COPY, COPY)}")
    return found


def overhead(b: Bench) -> Any:
    """Microseconds that an operator costs the host, on ten numbers: nobody waits for the device in between."""
    x, w = (at.asarray(b.k.adopt(RNG.normal(size=10).astype("f4"))) for _ in range(2))
    calls = {
        "kernel alone": lambda: b.k.add(x._array, w._array),
        "x + w": lambda: x + w,
        "np.tanh(x)": lambda: np.tanh(x),
        "sum": lambda: array.sum(x),
    }
    n, found = 20 if b.quick else 2000, {}
    chain = at.grad(lambda x: array.sum(_chain(x, w, 50)))
    calls["forward and backward, an operator"] = lambda: chain(x)
    for name, call in calls.items():
        call()
        b.k.synchronize()
        start = time.perf_counter()
        for _ in range(n if "backward" not in name else max(1, n // 100)):
            call()
        found[name] = (time.perf_counter() - start) / (n if "backward" not in name else max(1, n // 100) * 100) * 1e6
        b.k.synchronize()
        is_target = name in ("x + w", "np.tanh(x)", "sum")
        print(f"  {name:40s}{found[name]:10.1f} us{b.verdict(found[name] <= OVERHEAD, OVERHEAD) if is_target else ''}")
    return found


def _chain(x: Any, w: Any, n: int) -> Any:
    for _ in range(n):
        x = np.tanh(x * w)
    return x


class Row(NamedTuple):
    """An operator of Knet's table, as autotape, PyTorch, CuPy and plain GPUArrays call it; None if they lack it."""

    name: str
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    cupy: Callable[..., Any] | None
    gpuarray: Callable[..., Any] | None
    arrays: tuple[np.ndarray, ...]
    is_memory_bound: bool = True


def table_rows(b: Bench) -> list[Row]:
    n = max(64, b.size // 4 // 4096)
    wide = RNG.normal(size=(n, 4096 if not b.quick else 64)).astype("f4")
    images = RNG.normal(size=(max(1, b.size // 4 // (64 * 56 * 56)), 64, 56, 56) if not b.quick else (2, 4, 8, 8)).astype("f4")
    square = RNG.normal(size=(64, 64) if b.quick else (4096, 4096)).astype("f4")
    filters = RNG.normal(size=(images.shape[1], images.shape[1], 3, 3)).astype("f4")
    bias = RNG.normal(size=wide.shape[1]).astype("f4")

    def f(name: str) -> Any:
        return lambda t, *xs: getattr(t.nn.functional, name)(*xs)

    return [
        Row("relu", v20.relu, lambda t, x: t.relu(x), lambda c, x: c.maximum(x, 0), lambda g, x: g.maximum(x, 0), (wide,)),
        Row("sigm", v20.sigm, lambda t, x: t.sigmoid(x), lambda c, x: 1 / (1 + c.exp(-x)), lambda g, x: 1 / (1 + _math().exp(-x)), (wide,)),
        Row("tanh", lambda x: np.tanh(x), lambda t, x: t.tanh(x), lambda c, x: c.tanh(x), lambda g, x: _math().tanh(x), (wide,)),
        Row("elu", v20.elu, f("elu"), lambda c, x: c.where(x > 0, x, c.expm1(x)), None, (wide,)),
        Row("bias", lambda x, b: x + b, lambda t, x, b: x + b, lambda c, x, b: x + b, None, (wide, bias)),
        Row("sum", array.sum, lambda t, x: x.sum(), lambda c, x: x.sum(), lambda g, x: g.sum(x), (wide,)),
        Row("logp", lambda x: v20.logp(x, axis=1), lambda t, x: t.log_softmax(x, 1), None, None, (wide,)),
        Row("softmax", lambda x: v20.softmax(x, axis=1), lambda t, x: t.softmax(x, 1), _cupy_softmax, None, (wide,)),
        Row("logsumexp", lambda x: v20.logsumexp(x, axis=1), lambda t, x: t.logsumexp(x, 1), None, None, (wide,)),
        Row("dropout", lambda x: v20.dropout(x, 0.5, drop=True), lambda t, x: t.dropout(x, 0.5, True), None, None, (wide,)),
        Row("pool", v20.pool, lambda t, x: t.max_pool2d(x, 2), None, None, (images,)),
        Row("batchnorm", lambda x: v20.batchnorm(x, training=True),
            lambda t, x: t.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, True), None, None, (images,)),
        Row("matmul", lambda x, w: x @ w, lambda t, x, w: x @ w, lambda c, x, w: x @ w, None, (square, square), False),
        Row("conv4", lambda x, w: v20.conv4(w, x, padding=1, mode=1), lambda t, x, w: t.conv2d(x, w, padding=1), None, None,
            (images, filters), False),
    ]  # fmt: skip


def _math() -> Any:
    from pycuda import cumath

    return cumath


def _cupy_softmax(c: Any, x: Any) -> Any:
    e = c.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def operators(b: Bench) -> Any:
    """Milliseconds forward, by array type, and forward with gradients beside PyTorch."""
    from pycuda import gpuarray

    found: dict[str, Any] = {}
    until = time.perf_counter() + SECONDS["operators"]
    for row in table_rows(b):
        if time.perf_counter() > until:
            print(f"  {row.name}: no time left")
            continue
        calls = {"autotape": _ours(row)}
        if "torch" in b.peers:
            calls |= _theirs(b.peers["torch"], row)
            calls["autotape, gradients"] = _our_gradients(row)
        if "cupy" in b.peers and row.cupy:
            calls["cupy"] = functools.partial(row.cupy, b.peers["cupy"], *map(b.peers["cupy"].asarray, row.arrays))
        if row.gpuarray:
            calls["GPUArray"] = functools.partial(row.gpuarray, gpuarray, *map(gpuarray.to_gpu, row.arrays))
        if b.quick:
            calls["autotape, gradients"] = _our_gradients(row)
        found[row.name] = taken = {name: 1e3 * s for name, s in b.seconds(calls, 5).items()}
        line = "".join(f"  {name} {ms:.3f}" for name, ms in taken.items())
        ratio = taken["autotape"] / taken["torch"] if "torch" in taken else None
        if ratio:
            line += f"  /torch {ratio:.2f}" + b.verdict(ratio <= TORCH, TORCH) * row.is_memory_bound
        print(f"  {row.name:12s}{line}")
    return found


def _ours(row: Row) -> Call:
    xs = [at.array(a) for a in row.arrays]
    return lambda: row.ours(*xs)._array  # which makes a pending value real


def _our_gradients(row: Row) -> Call:
    xs = [at.array(a) for a in row.arrays]
    v = at.array(np.ones(row.ours(*xs).shape, "f4"))
    return lambda: at.vjp(row.ours, *xs)[1](v)


def _theirs(torch: Any, row: Row) -> dict[str, Call]:
    xs = [torch.from_numpy(a).cuda() for a in row.arrays]
    leaves = [x.clone().requires_grad_() for x in xs]
    v = torch.ones_like(row.torch(torch, *xs))
    return {
        "torch": lambda: row.torch(torch, *xs),
        "torch, gradients": lambda: torch.autograd.grad(row.torch(torch, *leaves), leaves, v),
    }


def steps(b: Bench) -> Any:
    """Milliseconds of a training step: forward, backward and SGD."""
    found = {}
    for name, make in {"LeNet, 64 images": lenet, "ResNet-18": resnet}.items():
        calls = make(b)
        found[name] = taken = {who: 1e3 * s for who, s in b.seconds(calls, 5).items()}
        print(f"  {name:20s}" + "".join(f"  {who} {ms:.2f} ms" for who, ms in taken.items()))
    return found


def lenet(b: Bench) -> dict[str, Call]:
    shapes = ((20, 1, 5, 5), (20, 1, 1), (50, 20, 5, 5), (50, 1, 1), (800, 500), (500,), (500, 10), (10,))
    p = [(RNG.normal(size=s) / np.sqrt(np.prod(s[1:]) if len(s) == 4 else s[0])).astype("f4") for s in shapes]
    n = 4 if b.quick else 64
    x, labels = RNG.normal(size=(n, 1, 28, 28)).astype("f4"), RNG.integers(0, 10, n)

    def scores(p: Any, x: Any, conv: Any, relu: Any, pool: Any, mat: Any) -> Any:
        h = pool(relu(conv(p[0], x) + p[1]))
        h = pool(relu(conv(p[2], h) + p[3]))
        return relu(mat(h) @ p[4] + p[5]) @ p[6] + p[7]

    def ours(p: Any, x: Any) -> Any:
        return scores(p, x, lambda w, x: v20.conv4(w, x, mode=1), v20.relu, v20.pool, v20.mat)

    def theirs(torch: Any, p: Any, x: Any) -> Any:
        return scores(p, x, lambda w, x: torch.conv2d(x, w), torch.relu, lambda x: torch.max_pool2d(x, 2), lambda h: h.flatten(1))

    return _step_calls(b, p, x, labels, ours, theirs)


def resnet(b: Bench) -> dict[str, Call]:
    p: list[Any] = []
    for w in weights():
        p += [(RNG.normal(size=w) * np.sqrt(2 / np.prod(w[1:]))).astype("f4"), np.repeat(np.float32([1, 0]), w[0])]
    p += [(RNG.normal(size=(512, 1000)) / 23).astype("f4"), np.zeros(1000, "f4")]
    n, side = (1, 32) if b.quick else (32, 224)
    x, labels = RNG.normal(size=(n, 3, side, side)).astype("f4"), RNG.integers(0, 1000, n)

    def ours(p: Any, x: Any) -> Any:
        def conv(i: int, x: Any, stride: int) -> Any:
            y = v20.conv4(p[2 * i], x, padding=p[2 * i].shape[2] // 2, stride=stride, mode=1)
            return v20.batchnorm(y, params=p[2 * i + 1], training=True)

        return resnet18(conv, v20.relu, lambda x: v20.pool(x, window=3, stride=2, padding=1), x) @ p[-2] + p[-1]

    def theirs(torch: Any, p: Any, x: Any) -> Any:
        def conv(i: int, x: Any, stride: int) -> Any:
            w = p[2 * i]
            y = torch.conv2d(x, w, None, stride, w.shape[2] // 2)
            return torch.batch_norm(y, *p[2 * i + 1].split(len(w)), None, None, True, 0.1, 1e-5, True)

        return resnet18(conv, torch.relu, lambda x: torch.max_pool2d(x, 3, 2, 1), x) @ p[-2] + p[-1]

    return _step_calls(b, p, x, labels, ours, theirs)


def _step_calls(b: Bench, p: list[np.ndarray], x: np.ndarray, labels: np.ndarray, ours: Any, theirs: Any) -> dict[str, Call]:
    """A step by autotape in two math modes, and by PyTorch; each has parameters of its own."""
    calls: dict[str, Call] = {}
    for mode in ("default", "pedantic"):
        params, images = [at.Param(a) for a in p], at.array(x)

        def step(params: Any = params, images: Any = images, mode: str = mode) -> None:
            with math_mode.use(mode):
                with at.Tape() as tape:
                    loss = v20.nll(ours(params, images), labels)
                for w, g in zip(params, tape.gradient(loss, params), strict=True):
                    w -= 1e-4 * g

        calls[f"autotape, {mode}"] = step
    if torch := b.peers.get("torch"):
        shaped = [a.reshape(-1, 1, 1) if a.ndim == 3 else a for a in p]
        leaves = [torch.from_numpy(a).cuda().requires_grad_() for a in shaped]
        images, targets, sgd = torch.from_numpy(x).cuda(), torch.from_numpy(labels).cuda(), torch.optim.SGD(leaves, lr=1e-4)

        def their_step() -> None:
            sgd.zero_grad()
            torch.nn.functional.cross_entropy(theirs(torch, leaves, images), targets).backward()
            sgd.step()

        calls["torch"] = their_step
    return calls


def memory(b: Bench) -> Any:
    """The pool after a step."""
    call = lenet(b)["autotape, default"]
    call()
    found = b.k.memory.statistics()
    print("  " + ", ".join(f"{name} {value / MIB:.1f} MiB" if value >= 4096 else f"{name} {value}" for name, value in found.items()))
    return found


PARTS = (environment, tests, kernels, bandwidth, overhead, operators, steps, memory)


def main() -> int:
    """Run the parts; one that fails says so and the others go on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0], allow_abbrev=False)
    parser.add_argument("parts", nargs="*", choices=[*(p.__name__ for p in PARTS), []], help="only these")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what is found here, after each part")
    parser.add_argument("--quick", action="store_true", help="small arrays, to see that it works; so it is on the emulated driver")
    args = parser.parse_args()
    if why := backend.available()["pycuda"]:
        print(f"gpu.py: {why}", file=sys.stderr)
        return 1
    backend.set("pycuda")
    is_emulated = "emulat" in str(backend.load("pycuda").device_name).lower()  # type: ignore[attr-defined]
    bench, failed = Bench(args.quick or is_emulated, args.json), False
    for part in PARTS:
        if args.parts and part.__name__ not in args.parts:
            continue
        start = time.perf_counter()
        print(f"{part.__name__}: {(part.__doc__ or '').splitlines()[0]}", flush=True)
        try:
            bench.write(part.__name__, part(bench))
        except Exception:
            failed = True
            traceback.print_exc()
            bench.write(part.__name__, {"failed": traceback.format_exc()})
        print(f"  ({time.perf_counter() - start:.1f} s)\n", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
