"""The layout: one copy of each module, and a light import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.numpy_only("source files, whatever the backend")

ROOT = Path(__file__).parent.parent
FOLDERS = ("autotape", "backends", "opsets", "tests", "bench", "examples")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_mapped_folders_are_imported_as_parts_of_autotape(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module]
        assert not {m.split(".")[0] for m in modules} & {"backends", "opsets"}, f"line {node.lineno}: use autotape.{modules[0]}"


def test_import_brings_in_no_command_line_and_no_other_library():
    code = "import sys, numpy; before = set(sys.modules); import autotape; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    assert not {m for m in loaded if m.startswith(("autotape.train", "autotape.cli", "autotape.testing"))}
    others = {"tqdm", "matplotlib", "safetensors", "hypothesis", "pytest", "argparse", "torch", "scipy"}
    assert not {m.split(".")[0] for m in loaded} & others
