"""Every Python block of README.md and docs/ runs, in order, with one namespace a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autotape import backend, math_mode

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if BLOCK.search(path.read_text(encoding="utf-8"))]


MARKS = {
    "from-autograd.md": pytest.mark.numpy_only("NumPy's functions of raw arrays"),
    "complex.md": pytest.mark.numpy_only("complex numbers"),
    "scipy.md": pytest.mark.numpy_only("SciPy computes on NumPy's arrays"),
}


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=MARKS.get(path.name, ()), id=path.name) for path in FILES]
)
def test_blocks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names = path.read_text(encoding="utf-8"), {"__name__": path.stem}
    chosen = backend.get(), math_mode.get()
    try:
        for block in BLOCK.finditer(text):
            lines_before = text.count("\n", 0, block.start(1))
            exec(compile("\n" * lines_before + block[1], str(path), "exec", dont_inherit=True), names)
    finally:
        backend.set(chosen[0])
        math_mode.set(chosen[1])


def test_readme_has_blocks():
    assert ROOT / "README.md" in FILES
