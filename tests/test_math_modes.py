"""What docs/math-modes.md says: each line of its table is a test here, and so is what else it promises."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, blas, math_mode
from autotape.opsets import array as ops
from autotape.opsets import v20

ROOT = Path(__file__).parent.parent
UNAVAILABLE = backend.available()
ACTIVATIONS = {"relu": v20.relu, "sigm": v20.sigm, "tanh": ops.tanh, "elu": v20.elu, "selu": v20.selu}
KINKED = ("relu", "selu")
STEEPEST = 1.7580993408473773  # the slope of selu at -0: so much of an error goes through an activation


class Line(NamedTuple):
    """One row of the table."""

    backend: str
    operators: str
    float32: float
    float64: float
    m: str
    nonfinite: str


def table() -> list[Line]:
    """The lines of the backends that this run looks at."""
    names = "numpy|onednn" if backend.get() == "numpy" else backend.get()
    lines = (ROOT / "docs" / "math-modes.md").read_text().splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if re.match(rf"\| ({names}) \|", line)]
    return [Line(name, operators, float(a32), float(a64), m, nonfinite) for name, operators, a32, a64, m, nonfinite in cells]


class Program(NamedTuple):
    """Operators of the table at work: f takes arrays of the drawn shapes, and gives one; `linear` is f without its activation.

    activation: its name.  varied: the axes over which the first array is normalised.
    """

    shapes: Callable[[Any], list[tuple[int, ...]]]
    f: Callable[..., Any]
    linear: Callable[..., Any] | None = None
    activation: str = ""
    varied: tuple[int, ...] = ()


# -- programs
def images(draw: Any) -> list[tuple[int, ...]]:
    n, c, k, side = draw(st.integers(1, 3)), draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(3, 9))
    if draw(st.booleans()):  # the weights' gradient adds up many
        n, c, k, side = 8, 1 + c % 4, 1 + k % 4, 48
    return [(k, c, 3, 3), (n, c, side, side), (k, 1, 1), (n, k, side, side)]


def matrices(draw: Any) -> list[tuple[int, ...]]:
    n, k, m = draw(st.integers(300, 340)), draw(st.integers(16, 40)), draw(st.integers(300, 340))  # large enough to be deferred
    return [(n, k), (k, m), (m,), (n, m)]


def batch(draw: Any) -> list[tuple[int, ...]]:
    return [(draw(st.sampled_from([1, 4, 60])), draw(st.integers(2, 20)), draw(st.integers(4, 9)), draw(st.integers(4, 20)))]


def layers(gates: int) -> Callable[[Any], list[tuple[int, ...]]]:
    def shapes(draw: Any) -> list[tuple[int, ...]]:
        steps, sequences, width, hidden = (draw(st.integers(1, n)) for n in (5, 4, 20, 20))
        return [(steps, sequences, width), (gates * hidden * (width + hidden + 2),), (1 + (gates == 4), sequences, hidden)]

    return shapes


def recurrence(cell: str) -> Callable[..., Any]:
    def f(x: Any, w: Any, state: Any) -> Any:
        steps, sequences, width = x.shape
        return v20.recurrence(x.reshape(steps * sequences, width), 0.3 * w, state, cell=cell, sizes=(sequences,) * steps)[0]

    return f


def conv(w: Any, x: Any) -> Any:
    return v20.conv4(w, x, padding=1, mode=1)


def conv_bias(w: Any, x: Any, b: Any, z: Any) -> Any:
    return conv(w, x) + b + z


def matmul_bias(a: Any, b: Any, c: Any, z: Any) -> Any:
    return a @ b + c + z


def after(f: Callable[..., Any], g: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: f(g(*args))


OTHERS = {
    "elementwise": Program(lambda draw: [(draw(st.integers(1, 400)), 300)], lambda x: ops.exp(x) * ops.sqrt(abs(x)) + v20.relu(x)),
    "reductions": Program(batch, lambda x: ops.sum(x, 1) * ops.max(x, 1) + ops.mean(x)),
}
PROGRAMS = {
    "conv4 + bias + residual + activation": [Program(images, after(f, conv_bias), conv_bias, name) for name, f in ACTIVATIONS.items()],
    "matmul + bias + residual + activation": [
        Program(matrices, after(f, matmul_bias), matmul_bias, name) for name, f in ACTIVATIONS.items()
    ],
    "conv4, deconv4": [
        Program(lambda draw: images(draw)[:2], conv),
        Program(lambda draw: [(s := images(draw))[0], s[3]], lambda w, x: v20.deconv4(w, x, padding=1)),
    ],
    "matmul, bmm": [
        Program(lambda draw: matrices(draw)[:2], lambda a, b: a @ b),
        Program(lambda draw: [(3, *s) for s in matrices(draw)[:2]], lambda a, b: v20.bmm(a, b)),
    ],
    "max_pool": [Program(batch, lambda x: v20.pool(x, window=3, stride=2, padding=1))],
    "mean_pool": [Program(batch, lambda x, mode=mode: v20.pool(x, padding=1, mode=mode)) for mode in (1, 2)],
    "batchnorm in training": [
        Program(lambda draw: [(s := batch(draw)[0]), (2 * s[1],)], lambda x, p: v20.batchnorm(x, None, p, training=True), varied=(0, 2, 3))
    ],
    "layernorm": [Program(lambda draw: [(draw(st.integers(1, 400)), c := draw(st.integers(1, 90))), (2 * c,)], v20.layernorm, varied=(1,))],
    "softmax": [Program(lambda draw: [(draw(st.integers(1, 60)), 40)], lambda x: v20.softmax(x, 1))],
    "elu, selu, sigm, tanh": [
        Program(lambda draw: [(draw(st.integers(1, 400)), 300)], f, np.positive, name) for name, f in ACTIVATIONS.items() if name != "relu"
    ],
    "logsoftmax": [Program(lambda draw: [(draw(st.integers(1, 60)), 40)], lambda x: v20.logsoftmax(x, 1))],
    "lstm, gru": [Program(layers(4), recurrence("lstm")), Program(layers(3), recurrence("gru"))],
    "a bias's gradient": [Program(lambda draw: [(draw(st.sampled_from([170, 400, 20_000])), 50), (50,)], lambda x, b: x + b)],
}


def programs(line: Line) -> list[Program]:
    """Those of a line; on every backend what no line of it names."""
    if line.operators != "others":
        return PROGRAMS[line.operators]
    named = {other.operators for other in table() if other.backend == line.backend}
    return [*OTHERS.values(), *(p for name, found in PROGRAMS.items() if name not in named for p in found)]


# -- values and gradients in a mode
def run(line: Line, mode: str, f: Callable[..., Any], args: list[Any], cotangent: Callable[[Any], Any]) -> list[Any]:
    with backend.use(line.backend), math_mode.use(mode), np.errstate(all="ignore"):
        y, pull = at.vjp(f, *args)
        return [y, *pull(cotangent(y))]


def alternating(y: Any) -> Any:
    return np.resize(np.array([1, -0.7, 1.9, 0.3], y.dtype), y.shape)


def magnitudes(line: Line, program: Program, args: list[Any], pedantic: list[Any]) -> list[Any]:
    """m for each result."""
    if line.m != "sum":
        return [np.max(abs(p), initial=0) if line.m == "largest" else 1 for p in pedantic]
    f, slope = (program.linear, STEEPEST) if program.linear else (program.f, 1)
    y, *gradients = run(line, "pedantic", f, [abs(x) for x in args], lambda y: slope * abs(alternating(y)))
    return [STEEPEST * y + 1, *(g * y.max() for g in gradients)] if program.linear else [y, *gradients]


def growth(line: Line, program: Program, args: list[Any]) -> list[Any]:
    """By what a is multiplied for each result: the number of terms, and what a mean that is taken off costs."""
    if program.varied:
        x = args[0].astype(float)
        off = 1 + (abs(x.mean(program.varied)) / np.sqrt(x.var(program.varied) + 1e-5)).max()
        n = math.prod(x.shape[i] for i in program.varied)
        return [max(1, n / 16, x.size / n / 16) * off] * 3
    if line.m != "sum":
        return [1] * (1 + len(args))
    ones = [np.ones_like(x) for x in args]
    return [np.maximum(1, n / 16) for n in run(line, "pedantic", program.linear or program.f, ones, np.ones_like)]


def drawn(data: Any, program: Program, dtype: Any) -> list[Any]:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    mean = data.draw(st.sampled_from([0, 30, 1000])) if program.varied else 0
    first, *others = program.shapes(data.draw)
    return [(rng.normal(size=first) + mean).astype(dtype), *(rng.normal(size=shape).astype(dtype) for shape in others)]


def skip_without(name: str) -> None:
    if UNAVAILABLE[name] is not None:
        pytest.skip(f"backend {name!r} can't be used here: {UNAVAILABLE[name]}")


LINES = pytest.mark.parametrize(
    "line, program",
    [pytest.param(line, p, id=f"{line.backend}: {line.operators}, {i}") for line in table() for i, p in enumerate(programs(line), 1)],
)


@LINES
@pytest.mark.parametrize("mode", ["default", "fast"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=3)
@given(data=st.data())
def test_results_differ_by_no_more_than_the_table_says(line: Line, program: Program, mode: str, dtype: str, data: Any) -> None:
    skip_without(line.backend)
    args = drawn(data, program, dtype)
    pedantic, found = (run(line, m, program.f, args, alternating) for m in ("pedantic", mode))
    a, several = getattr(line, dtype), zip(magnitudes(line, program, args, pedantic), growth(line, program, args), strict=True)
    allowed = [a * m * more for m, more in several]
    if program.activation in KINKED and (abs(run(line, "pedantic", program.linear, args, alternating)[0]) <= allowed[0]).any():
        del found[1:], pedantic[1:], allowed[1:]  # a slope may be that of the other side
    for i, (y, p, most) in enumerate(zip(found, pedantic, allowed, strict=True)):
        assert y.dtype == p.dtype and y.shape == p.shape
        excess = abs(y - p) - most
        assert not excess.size or excess.max() <= 0, f"result {i} of {[x.shape for x in args]} differs by {abs(y - p).max()}"


@LINES
@pytest.mark.parametrize("mode", ["default", "fast"])
@settings(max_examples=3)
@given(data=st.data())
def test_nan_and_infinities_are_as_the_table_says(line: Line, program: Program, mode: str, data: Any) -> None:
    skip_without(line.backend)
    args, value = drawn(data, program, "float32"), data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    dy = alternating(run(line, "pedantic", program.f, args, alternating)[0])
    x = data.draw(st.sampled_from([*args, dy])).reshape(-1)
    x[data.draw(st.integers(0, x.size - 1))] = value
    both = [run(line, m, program.f, args, lambda y: dy) for m in ("pedantic", mode)]
    for i, (pedantic, found) in enumerate(zip(*both, strict=True)):
        lost, made = np.isnan(pedantic) & ~np.isnan(found), np.isnan(found) & ~np.isnan(pedantic)
        if "-inf before relu gives NaN" in line.nonfinite and not i:
            made &= pedantic != 0
        if "slope 1 at NaN" in line.nonfinite and program.activation == "elu" and i:
            lost &= np.isnan(dy).any()
        if "relu of NaN may be 0" in line.nonfinite and mode == "fast" and program.activation == "relu":
            lost[...] = False
        if "a row with +inf may be NaN" in line.nonfinite and value == np.inf:
            made[...] = False
        if "the least finite number" in line.nonfinite:
            found = np.where(found == np.finfo(found.dtype).min, -np.inf, found)
        assert not lost.any(), f"NaN was lost in result {i} of {[x.shape for x in args]}"
        assert not made.any(), f"NaN was made in result {i} of {[x.shape for x in args]}"
        either = np.isnan(found) | np.isnan(pedantic)
        assert (either | (np.isinf(found) == np.isinf(pedantic))).all(), f"infinities differ in result {i} of {[x.shape for x in args]}"


# -- pedantic: the same bits
@LINES
@settings(max_examples=2)
@given(data=st.data())
def test_pedantic_gives_the_same_bits_at_any_number_of_threads(line: Line, program: Program, data: Any) -> None:
    skip_without(line.backend)
    threadpoolctl = pytest.importorskip("threadpoolctl")
    args, seen = drawn(data, program, "float32"), []
    for threads in (1, 2, 2):
        with threadpoolctl.threadpool_limits(threads):
            seen.append(b"".join(y.tobytes() for y in run(line, "pedantic", program.f, args, alternating)))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("act", ["identity", *ACTIVATIONS])
@pytest.mark.parametrize("name", ["numpy", "onednn"] if backend.get() == "numpy" else [backend.get()])
def test_pedantic_fused_operators_give_the_bits_of_their_chain(name: str, act: str) -> None:
    skip_without(name)
    rng = np.random.default_rng(0)
    f = ACTIVATIONS.get(act, lambda y: y)
    with backend.use(name), math_mode.use("pedantic"):
        w, x, b, z = (at.array(rng.normal(size=s).astype("f4")) for s in [(8, 6, 3, 3), (4, 6, 9, 9), (8, 1, 1), (4, 8, 9, 9)])
        np.testing.assert_array_equal(v20.conv_bias_act(w, x, b, act, z, padding=1, mode=1), f((conv(w, x) + z) + b))
        m, n, c = x.reshape(54, 36), z.reshape(36, 72), np.repeat(b.reshape(-1), 9)
        np.testing.assert_array_equal(v20.matmul_bias_act(m, n, c, act), f(m @ n + c))


def test_a_blas_that_comes_later_is_held_as_well() -> None:
    pytest.importorskip("threadpoolctl"), pytest.importorskip("scipy")
    code = (
        "import threadpoolctl, numpy as np\nfrom autotape import math_mode\nwith math_mode.use('pedantic'): pass\nimport scipy.linalg\n"
        "with math_mode.use('pedantic'): print({i['num_threads'] for i in threadpoolctl.threadpool_info() if i['user_api'] == 'blas'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "{1}", done.stderr


def test_blas_is_held_to_one_thread_in_pedantic_mode_and_by_onednn() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def counts() -> list[int]:
        return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]

    before = counts()
    with math_mode.use("pedantic"):
        assert set(counts()) <= {1}
        with math_mode.use("default"), math_mode.use("pedantic"):
            assert set(counts()) <= {1}
        assert set(counts()) <= {1}
    assert counts() == before
    math_mode.set("pedantic")
    assert set(counts()) <= {1}
    math_mode.set("default")
    assert counts() == before
    if UNAVAILABLE["onednn"] is None:
        with backend.use("onednn"):
            assert set(counts()) <= {1}
        assert counts() == before


def test_blas_that_cannot_be_held_leaves_all_as_it_was(monkeypatch: Any) -> None:
    def broken(with_scipy: bool) -> Any:
        raise OSError("no such library")

    monkeypatch.setattr(blas, "_libraries", broken)
    for act in (math_mode.set, lambda mode: math_mode.use(mode).__enter__()):
        with pytest.raises(OSError, match="no such library"):
            act("pedantic")
        assert (math_mode.get(), blas._held) == ("default", 0)
    monkeypatch.setattr(blas, "_libraries", lambda with_scipy: None)  # no threadpoolctl
    with math_mode.use("pedantic"), math_mode.use("pedantic"):
        assert blas._held == 2
    assert blas._held == 0


def test_one_context_entered_by_several_threads_holds_blas_until_the_last_leaves() -> None:
    mode, first, second = math_mode.use("pedantic"), threading.Event(), threading.Event()

    def enter() -> None:
        with mode:
            first.set()
            second.wait(30)

    thread = threading.Thread(target=enter)
    with mode:
        thread.start()
        first.wait(30)
    assert blas._held == 1
    second.set()
    thread.join()
    assert blas._held == 0


# -- where the mode comes from
@pytest.mark.parametrize("value", ["pedantic", "fast", "quick"])
def test_the_environment_gives_the_first_mode(value: str) -> None:
    code = "from autotape import math_mode; print(math_mode.get())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "AUTOTAPE_MATH_MODE": value})
    if value == "quick":
        assert "AUTOTAPE_MATH_MODE: math mode 'quick' is unknown" in done.stderr and done.returncode
    else:
        assert done.stdout.strip() == value
