"""Every bench's smallest run works without the peers, prints its tables and writes its file.  Figures are not looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
    if bench in ("tape", "train_step", "recurrent", "memory", "transforms", "optimisers", "files", "ops20", "conv_bias_act"):
        assert run.stdout.startswith("missing: ")
        assert "not measured (target" in run.stdout or bench == "memory"


def test_the_page_of_benchmarks_is_made_of_the_results() -> None:
    files = sorted(map(str, (BENCH / "results").glob("*.json")))
    run = subprocess.run([sys.executable, str(BENCH / "report.py"), *files], capture_output=True, text=True, timeout=60)
    assert run.stdout == (BENCH.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8"), run.stderr
