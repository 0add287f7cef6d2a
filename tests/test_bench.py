"""Every bench's smallest run works without the peers, prints its tables and writes its file.  Figures are not looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.numpy_only("scripts in processes of their own, which take NumPy")

BENCH = Path(__file__).resolve().parent.parent / "bench"
PEERS = ("torch", "autograd", "mygrad", "safetensors")
TARGETS = {  # bench: its tables, and its targets that need no peer
    "tape": (6, 0),
    "train_step": (2, 0),
    "ops20": (51, 0),
    "conv_bias_act": (18, 8),
    "recurrent": (6, 0),
    "memory": (3, 2),
    "transforms": (5, 2),
    "numpy_functions": (29, 0),
    "fusion": (2, 2),
    "optimisers": (8, 0),
    "files": (3, 0),
    "import_time": (2, 2),
}


@pytest.fixture(scope="module")
def no_peers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the peers can't be imported, whether they are installed or not."""
    hidden = tmp_path_factory.mktemp("hidden")
    for peer in PEERS:
        (hidden / f"{peer}.py").write_text("raise ImportError\n")
    return os.environ | {"PYTHONPATH": str(hidden)}


@pytest.mark.parametrize("bench", TARGETS)
def test_quick_run(bench: str, no_peers: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [sys.executable, str(BENCH / f"{bench}.py"), "--quick", "--json", str(file)]
    run = subprocess.run(command, env=no_peers, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    tables, targets = TARGETS[bench]
    measured = [line for line in run.stdout.splitlines() if line.endswith((": reached", ": missed"))]
    assert len(measured) == (targets if sys.platform == "linux" or bench != "import_time" else 1)
    found = json.loads(file.read_text())
    assert len(found["tables"]) == tables
    for table in found["tables"]:
        assert table["title"] in run.stdout
        assert all(table["values"].values())
    if bench not in ("fusion", "import_time"):
        assert run.stdout.startswith("missing: ")
        assert "not measured (target" in run.stdout or bench == "memory"


def test_the_page_of_benchmarks_is_made_of_the_results() -> None:
    files = sorted(map(str, (BENCH / "results").glob("*.json")))
    run = subprocess.run([sys.executable, str(BENCH / "report.py"), *files], capture_output=True, text=True, timeout=60)
    assert run.stdout == (BENCH.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8"), run.stderr


# -- gpu.py, on doubles of a GPU
PARTS = ("environment", "kernels", "convolutions", "operators", "models", "tolerances", "bandwidth", "overhead", "memory")  # and "tests"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def imports(no_peers: dict[str, str]) -> dict[str, str]:
    """no_peers where programs import autotape and the files of bench."""
    return no_peers | {"PYTHONPATH": os.pathsep.join([no_peers["PYTHONPATH"], str(BENCH.parent), str(BENCH)])}


@pytest.fixture(scope="module")
def on_double(imports: dict[str, str]) -> Run:
    """Runs a program on the double in one of the folders tests/cuda_emulator and tests/cudnn_double."""

    def run(double: str, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        program, env = [sys.executable, str(BENCH.parent / "tests" / double / "run.py")], imports | more
        if (trial := subprocess.run([*program, "-m", "platform"], env=env, capture_output=True, text=True, timeout=60)).returncode:
            pytest.skip(trial.stderr.strip())
        return subprocess.run([*program, *command], env=env, capture_output=True, text=True, timeout=300)

    return run


def measured(on_double: Run, file: Path, double: str, *parts: str, **more: str) -> tuple[dict[str, Any], str]:
    """What gpu.py finds and prints."""
    run = on_double(double, str(BENCH / "gpu.py"), *parts, "--json", str(file), **more)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "no figure means anything" in run.stdout and "target" not in run.stdout and "no time left" not in run.stdout
    return json.loads(file.read_text()), run.stdout


def test_gpu_measures_both_backends_in_every_part(on_double: Run, tmp_path: Path) -> None:
    found, _ = measured(on_double, tmp_path / "gpu.json", "cudnn_double", *PARTS)
    assert tuple(found) == PARTS and all(found.values())
    assert found["environment"]["runs on"]["cudnn: conv"].startswith("cudnn, ")
    assert set(map(str, found["kernels"].values())) == {"{}"}, "kernels differ from NumPy's"
    assert found["convolutions"]["all, TF32"]["ms"].keys() == {f"{k}, {how}" for k in ("pycuda", "cudnn") for how in ("fused", "apart")}
    differences = [r["differs"] for part in ("convolutions", "models") for r in found[part].values() if "differs" in r]
    assert len(differences) > 10 and max(max(d.values()) for d in differences) < 1e-3
    for r in (line for lines in found["tolerances"].values() for table in lines.values() for line in table.values()):
        assert r["a"] <= (r["limit"] or 1e-2)
    assert {"cudnn", "cudnnReduceTensor"} == {r["cudnn"] for r in found["bandwidth"].values() if "cudnn" in r}


def test_gpu_goes_on_without_cudnn_and_says_why(on_double: Run, tmp_path: Path) -> None:
    parts = "environment", "convolutions", "tolerances", "bandwidth", "overhead"
    found, said = measured(on_double, tmp_path / "gpu.json", "cuda_emulator", *parts, AUTOTAPE_CUDNN="/nowhere/libcudnn.so.9")
    assert tuple(found) == parts and all(found.values())
    assert "not used: no libcudnn that loads (/nowhere/libcudnn.so.9" in said
    assert found["overhead"].keys() == {"pycuda"}


KEPT = """
import json, pathlib, sys
from gpu_harness import Bench

def part(bench):
    yield "first", lambda: 1
    yield "second", lambda: 1 / 0
    yield "third", lambda: {"ms": 3}
    bench.until = 0
    yield "fourth", lambda: 4

bench = Bench(True, pathlib.Path(sys.argv[1]), "there is none")
print(bench.run(part, 60), "and", bench.run(lambda bench: iter([("fifth", lambda: 5)]), 60))
"""


def test_gpu_keeps_what_it_found_before_and_after_what_fails_and_names_what_is_late(on_double: Run, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(KEPT)
    run = on_double("cuda_emulator", str(tmp_path / "program.py"), str(tmp_path / "gpu.json"))
    assert run.returncode == 0, run.stderr
    assert "  second: ZeroDivisionError: division by zero\n" in run.stdout
    assert "  no time left for fourth\n" in run.stdout
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["part"] | {"second": 0} == {"first": 1, "second": 0, "third": {"ms": 3}, "no time left for": ["fourth"]}
    assert "ZeroDivisionError" in found["part"]["second"]["failed"]
    assert run.stdout.endswith("False and True\n")


WALK = """
import math
from gpu_models import Layer, layers, resnet50

class Images:
    def __init__(self, channels, side):
        self.shape = channels, side
    def __add__(self, other):
        assert self.shape == other.shape
        return self
    def mean(self, axes):
        return self.shape

def conv(n, x, stride):
    k, c, window, _ = convolutions[n].w
    assert convolutions[n] == Layer((k, c, window, window), stride, x.shape[1]) and c == x.shape[0]
    used.append(n)
    return Images(k, x.shape[1] // stride)

convolutions, used = list(layers()), []
end = resnet50(conv, lambda x: x, lambda x: Images(x.shape[0], x.shape[1] // 2), Images(3, 224))
print(sorted(used) == list(range(53)), len(set(convolutions)), sum(math.prod(layer.w) for layer in convolutions), end)
"""


def test_resnet50_has_its_53_convolutions(imports: dict[str, str]) -> None:
    run = subprocess.run([sys.executable, "-c", WALK], env=imports, capture_output=True, text=True, timeout=60)
    assert run.stdout == "True 23 23454912 (2048, 7)\n", run.stderr  # so many of its 25.56 million parameters are in convolutions
