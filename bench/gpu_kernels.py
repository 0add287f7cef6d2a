"""Single operators and kernels on large arrays: Knet's table beside the peers, and memory-bound kernels beside a copy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from gpu_harness import RNG, Bench, Contender, Items, account, mean_ratio, ours, theirs

import autotape as at
from autotape import backend
from autotape.backends.kernels import Geometry, Shape
from autotape.opsets import array, v20

COPY, TORCH = 0.85, 1.0  # of a copy's bandwidth; of PyTorch's time


# -- Knet's table
class Row(NamedTuple):
    """An operator as autotape, PyTorch, CuPy and plain GPUArrays call it; None if they lack it."""

    name: str
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    cupy: Callable[..., Any] | None
    gpuarray: Callable[..., Any] | None
    arrays: tuple[np.ndarray, ...]


def table_rows(b: Bench) -> list[Row]:
    n = b.size // 4
    wide = _normal(n // 4096, 4096) if not b.quick else _normal(64, 64)
    images = _normal(n // (64 * 56 * 56), 64, 56, 56) if not b.quick else _normal(2, 4, 8, 8)
    square = _normal(4096, 4096) if not b.quick else _normal(64, 64)
    filters, bias = _normal(images.shape[1], images.shape[1], 3, 3), _normal(wide.shape[1])

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
        Row("matmul", lambda x, w: x @ w, lambda t, x, w: x @ w, lambda c, x, w: x @ w, None, (square, square)),
        Row("conv4", lambda x, w: v20.conv4(w, x, padding=1, mode=1), lambda t, x, w: t.conv2d(x, w, padding=1), None, None,
            (images, filters)),
    ]  # fmt: skip


def _normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("f4")


def _math() -> Any:
    from pycuda import cumath

    return cumath


def _cupy_softmax(c: Any, x: Any) -> Any:
    e = c.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def operators(b: Bench) -> Items:
    """Milliseconds forward, and forward with gradients, in float32 without TF32."""
    for row in table_rows(b):
        yield row.name, functools.partial(_operator, b, row)
    for kind in "", ", gradients":
        for name in b.tables:
            pairs = [(ms[name + kind], ms["torch" + kind]) for ms in b.found.values() if "torch" + kind in ms]
            if pairs:
                ratio = mean_ratio(pairs)
                print(f"  {name} / torch{kind}, geometric mean of {len(pairs)}: {ratio:.2f}{b.verdict(ratio <= TORCH, TORCH)}")


def _operator(b: Bench, row: Row) -> dict[str, float]:
    contenders: dict[str, Contender] = {}
    for name in b.tables:
        contenders |= _of_ours(row, name)
    if torch := b.peers.get("torch"):
        contenders |= _of_torch(b, torch, row)
    if (cupy := b.peers.get("cupy")) and row.cupy:
        contenders["cupy"] = Contender(functools.partial(row.cupy, cupy, *map(cupy.asarray, row.arrays)))
    if row.gpuarray:
        from pycuda import gpuarray

        contenders["GPUArray"] = Contender(functools.partial(row.gpuarray, gpuarray, *map(gpuarray.to_gpu, row.arrays)))
    ms = b.milliseconds(contenders)
    print(f"  {row.name:12s}" + "".join(f"  {name} {taken:.3f}" for name, taken in ms.items()))
    return ms


def _of_ours(row: Row, name: str) -> dict[str, Contender]:
    with backend.use(name):
        xs = [at.array(a) for a in row.arrays]
        v = at.array(np.ones(row.ours(*xs).shape, "f4"))
    return {
        name: ours(lambda: row.ours(*xs)._array, name),  # which makes a pending value real
        f"{name}, gradients": ours(lambda: at.vjp(row.ours, *xs)[1](v), name),
    }


def _of_torch(b: Bench, torch: Any, row: Row) -> dict[str, Contender]:
    xs = [b.tensor(a) for a in row.arrays]
    leaves = [x.clone().requires_grad_() for x in xs]
    v = torch.ones_like(row.torch(torch, *xs))
    return {
        "torch": theirs(torch, lambda: row.torch(torch, *xs)),
        "torch, gradients": theirs(torch, lambda: torch.autograd.grad(row.torch(torch, *leaves), leaves, v)),
    }


# -- bandwidth
class Moved(NamedTuple):
    """A kernel by its table, and how many times the size of its array it moves at least; and cuDNN's way to do it, if there is one."""

    name: str
    call: Callable[[Any], Any]
    times: float
    cudnn: Callable[[Any], Any] | None = None


def moved(b: Bench) -> Iterator[Moved]:
    k, rows = b.k, max(1, b.size // 4096)
    x, y = (k.uniform(seed, (rows, 1024), np.float32) for seed in (1, 2))
    half, index = k.astype(x, np.float16), k.adopt(RNG.permutation(rows))
    side = 8 if b.quick else 56
    images = k.uniform(3, (max(1, b.size // (256 * side * side)), 64, side, side), np.float32)
    scale, row = k.ones((64,), np.float32), k.ones((1024,), np.float32)
    window = Geometry((2, 2), ((0, 0),) * 2, (2, 2), (1, 1))
    yield Moved("add", lambda k: k.add(x, y), 3)
    yield Moved("tanh", lambda k: k.tanh(x), 2)
    yield Moved("tanh of float16", lambda k: k.tanh(half), 1)
    yield Moved("add a row", lambda k: k.add(x, row), 2)
    yield Moved("transposed copy", lambda k: k.concatenate([k.transpose(x, None)], 0), 2)
    yield Moved("cast to float16", lambda k: k.astype(x, np.float16), 1.5)
    yield Moved("sum of all", lambda k: k.sum(x, None, False), 1, functools.partial(_summed, x, (1, 1)))
    yield Moved("sum of rows", lambda k: k.sum(x, 1, False), 1, functools.partial(_summed, x, (rows, 1)))
    yield Moved("sum of columns", lambda k: k.sum(x, 0, False), 1, functools.partial(_summed, x, (1, 1024)))
    yield Moved("argmax of rows", lambda k: k.argmax(x, 1, False), 1)
    yield Moved("cumsum of rows", lambda k: k.cumsum(x, 1), 2)
    yield _also("softmax of rows", lambda k: k.softmax(x, 1), 2)
    yield _also("logsoftmax of rows", lambda k: k.logsoftmax(x, 1), 2)
    yield Moved("layernorm", lambda k: k.layernorm(x, row, row, 1e-5), 2)
    yield _also("batchnorm", lambda k: k.batchnorm(images, scale, scale, 1e-5), 3)
    yield _also("batchnorm's gradients", lambda k: k.batchnorm_x(images, images, scale, scale, scale), 5)
    yield _also("max_pool 2x2", lambda k: k.max_pool(images, window), 1.25)
    yield _also("mean_pool 2x2", lambda k: k.mean_pool(images, window, True), 1.25)
    yield Moved("gather rows", lambda k: k.getitem(x, (index,)), 2)
    yield Moved("concatenate", lambda k: k.concatenate([x, y], 0), 4)
    yield Moved("uniform", lambda k: k.uniform(1, (rows, 1024), np.float32), 1)


def _also(name: str, call: Callable[[Any], Any], times: float) -> Moved:
    """A kernel that the cudnn backend has, too."""
    return Moved(name, call, times, call)


def _summed(x: Any, shape: Shape, k: Any) -> Any:
    """x added up to this shape by cudnnReduceTensor, which no kernel of the backend uses."""
    from autotape.backends.cudnn_backend import binding, handle
    from autotape.backends.cudnn_backend.descriptors import factor
    from autotape.backends.pycuda_backend.array import empty
    from autotape.backends.pycuda_backend.memory import pool

    (add, a, c, size), at = _reduction(x.shape, shape, x.dtype), handle.ready()
    work, y, one, zero = pool().take(size or 1), empty(shape, x.dtype), factor(1.0, x.dtype), factor(0.0, x.dtype)
    binding.cudnnReduceTensor(at, add, None, 0, work.address, size, one, a, x.address, zero, c, y.address)
    return y


@functools.cache
def _reduction(given: Shape, wanted: Shape, dtype: np.dtype[Any]) -> tuple[Any, Any, Any, int]:
    """The descriptors of a sum and its two arrays, and the bytes that it works in."""
    from autotape.backends.cudnn_backend import binding, handle
    from autotape.backends.cudnn_backend.descriptors import Descriptor, tensor

    how = (binding.CUDNN_DATA_FLOAT, binding.CUDNN_PROPAGATE_NAN, binding.CUDNN_REDUCE_TENSOR_NO_INDICES, binding.CUDNN_32BIT_INDICES)
    add = Descriptor("ReduceTensor", binding.cudnnSetReduceTensorDescriptor, binding.CUDNN_REDUCE_TENSOR_ADD, *how)
    a, c = (tensor((*shape, 1, 1), dtype) for shape in (given, wanted))
    return add, a, c, binding.cudnnGetReductionWorkspaceSize(handle.ready(), add, a, c)


def bandwidth(b: Bench) -> Items:
    """Bytes a second of memory-bound kernels, each beside a copy, and what cuDNN does in its place."""
    for kernel in moved(b):
        yield kernel.name, functools.partial(_bandwidth, b, kernel)


def _bandwidth(b: Bench, kernel: Moved) -> dict[str, Any]:
    x = b.k.uniform(4, (b.size // 4,), np.float32)
    contenders = {"copy": Contender(lambda: b.k.copy(x)), "pycuda": ours(lambda: kernel.call(b.k), "pycuda")}
    if kernel.cudnn and not b.why_not:
        contenders["cudnn"] = ours(functools.partial(kernel.cudnn, b.tables["cudnn"]), "cudnn")
    ms = b.milliseconds(contenders, 7)
    rate, of_copy = kernel.times * b.size / ms["pycuda"] / 1e6, kernel.times / 2 * ms["copy"] / ms["pycuda"]
    line = f"  {kernel.name:24s}{rate:10.1f} GB/s{of_copy:8.2f} of a copy{b.verdict(of_copy >= COPY, COPY)}"
    found = {"ms": ms, "gb_s": rate, "of_copy": of_copy}
    if "cudnn" in ms:
        found["cudnn"] = account(b.tables["cudnn"], contenders["cudnn"].call) if kernel.cudnn is kernel.call else "cudnnReduceTensor"
        line += f"   {found['cudnn']}: {ms['cudnn'] / ms['pycuda']:.2f} of its time"
    print(line)
    return found
