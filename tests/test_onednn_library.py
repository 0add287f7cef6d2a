"""Which libdnnl the onednn backend loads, and what it says of one that won't do."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from autotape.backends.onednn_backend import OneDNNKernels, library

pytestmark = pytest.mark.numpy_only("oneDNN's kernels")


@pytest.mark.parametrize("kind", ["nothing", "text", "a folder", "another library"])
def test_what_is_no_library_is_named(kind, tmp_path, monkeypatch):
    path = tmp_path / "libdnnl.so.3"
    if kind == "text":
        path.write_text("no library\n")
    elif kind == "a folder":
        path.mkdir()
    elif kind == "another library":
        path = np._core._multiarray_umath.__file__
    monkeypatch.setenv(library.VARIABLE, str(path))
    with pytest.raises(OSError) as e:
        library.load()
    assert str(path) in str(e.value) and library.VARIABLE in str(e.value)


def test_another_major_version_is_refused():
    def dnnl_version():
        return ctypes.pointer(library._Version(2, 7, 0))

    dll = type("Library", (), {"dnnl_version": staticmethod(dnnl_version)})()
    with pytest.raises(OSError, match=r"old\.so is oneDNN 2\.7; 3\.x is needed"):
        library._checked(dll, "old.so")


LACKS = """
import ctypes
from autotape import backend
from autotape.backends.onednn_backend import library
library.load = lambda: ctypes.CDLL(None)
assert "dnnl_" in backend.available()["onednn"]
backend.set("auto")
assert backend.get() == "numpy"
try:
    backend.set("onednn")
except backend.BackendError as e:
    assert "dnnl_" in str(e)
"""


def test_a_library_that_lacks_a_function_is_unavailable():
    done = subprocess.run([sys.executable, "-c", LACKS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_it_needs_comes_from_beside_it_or_from_packages_never_from_the_working_directory(tmp_path, monkeypatch):
    loaded = []
    for name in library._NEEDED:
        (tmp_path / name).write_text("planted")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(library.ctypes, "CDLL", lambda path, *_: loaded.append(path))
    library._preload("")
    assert not [path for path in loaded if (tmp_path / path).parent == tmp_path]
    loaded.clear()
    library._preload(str(tmp_path))
    assert loaded == [str(tmp_path / name) for name in library._NEEDED]


@pytest.mark.skipif(bool(OneDNNKernels.unavailable()), reason="oneDNN can't be loaded")
def test_a_library_that_loads_by_itself_is_loaded_alone(monkeypatch):
    found = library.load()._name
    monkeypatch.setattr(library, "_preload", lambda folder: pytest.fail("something else was loaded before it"))
    assert library._opened(found)._name == found
