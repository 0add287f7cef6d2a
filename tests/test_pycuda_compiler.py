"""CUDA sources become binaries: by which compiler, what is kept on disk and when it counts, what is said of those that fail.

Compilers are small shell scripts here, but for the last tests: every unit by the real nvcc, for six architectures, in the first of its
variants or, if AUTOTAPE_VARIANTS is "all", in each; and NVRTC.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import environment
import pytest

from autotape.backends.pycuda_backend.compilation import build, cache, compiler, discovery, toolchain
from autotape.backends.pycuda_backend.compilation.compiler import CompileError, NoCompiler, cubin

ROOT = Path(__file__).parent.parent
EACH_VARIANT = os.environ.get("AUTOTAPE_VARIANTS") == "all"  # a quarter of an hour on two cores
UNIT = '// variants: TYPE=float; TYPE=long long fmad=false\n#include "tiny.cuh"\nextern "C" __global__ void k(TYPE* x) { *x += *x; }\n'

# what it was called with, then its source, is its binary
COPY = 'for source; do :; done; while [ "$1" != -o ]; do call="$call $1"; shift; done; (echo $call; cat "$source") > "$2"'
SCRIPT = """#!/bin/sh
if [ "$1" = --version ]; then echo "nvcc: a script, release 1.2, V1.2.3{more}"; exit; fi
echo "$@" >> "$0.log"
{body}
"""


class FakeNvcc:
    """A shell script that takes nvcc's options, and counts."""

    def __init__(self, path, body=COPY, more=""):
        self.path, self.more = path, more
        self.does(body)

    def does(self, body):
        self.path.write_text(SCRIPT.format(body=body, more=self.more))
        self.path.chmod(0o755)

    @property
    def calls(self):
        log = Path(f"{self.path}.log")
        return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A folder of kernels with one unit and three headers, and an empty cache."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "tiny.cu").write_text(UNIT)
    (folder / "tiny.cuh").write_text('#pragma once\n #  include "deep.cuh"\n#include <cuda_fp16.h>\n')
    (folder / "deep.cuh").write_text('#pragma once\n#include "tiny.cuh"\n')
    (folder / "other.cuh").write_text("#pragma once\n")
    monkeypatch.setattr(compiler, "KERNELS", folder)
    monkeypatch.setenv("AUTOTAPE_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def nvcc(kernels, tmp_path, monkeypatch):
    """The compiler: a script."""
    script = FakeNvcc(tmp_path / "nvcc")
    monkeypatch.setenv(discovery.VARIABLE, str(script.path))
    return script


def tiny(text=UNIT, defines=None, arch="sm_90", fmad=True, name="tiny"):
    return cubin(text, {"TYPE": "float"} if defines is None else defines, arch, fmad, name)


def entries():
    return sorted(cache.folder().iterdir())


# -- what a compiler is given


def test_the_source_holds_the_macros_and_the_command_line_the_rest(nvcc, kernels):
    binary = cubin(compiler.unit_text("tiny"), {"TYPE": "long long", "LARGE": "1"}, "sm_120", False, "tiny").decode()
    call = f"-std=c++17 -fmad=false -I{kernels} -cubin -arch=sm_120"
    assert binary == f'{call}\n#define LARGE 1\n#define TYPE long long\n#line 1 "tiny.cu"\n{UNIT}'


def test_half_types_bring_the_macros_by_which_headers_include_them(nvcc):
    assert tiny(defines={"TYPE": "half"}) == tiny(defines={"TYPE": "half", "NEEDS_HALF": "1"}) and nvcc.calls == 1
    assert b"#define NEEDS_BFLOAT16 1\n#define TYPE bfloat16\n#line" in tiny(defines={"TYPE": "bfloat16"})


def test_any_name_will_do(nvcc):
    assert b'#line 1 "rule_a_b_lambda_.cu"' in tiny(name="rule a/b <lambda>")
    assert len(tiny(name="x" * 500)) > 0


def test_a_unit_that_is_none_is_named(kernels):
    with pytest.raises(FileNotFoundError, match=r"none\.cu"):
        compiler.unit_text("none")


# -- what is kept


CHANGES = {
    "text": lambda folder: tiny(UNIT + "\n"),
    "define": lambda folder: tiny(defines={"TYPE": "double"}),
    "another define": lambda folder: tiny(defines={"TYPE": "float", "LARGE": "1"}),
    "architecture": lambda folder: tiny(arch="sm_80"),
    "fmad": lambda folder: tiny(fmad=False),
    "header": lambda folder: (folder / "tiny.cuh").write_text('#include "deep.cuh"\n') and tiny(),
    "header of a header": lambda folder: (folder / "deep.cuh").write_text("\n") and tiny(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_compiled_and_its_reversal_is_not(change, nvcc, kernels):
    before, texts = tiny(), {path: path.read_text() for path in kernels.iterdir()}
    assert tiny() == before and nvcc.calls == 1
    change(kernels)
    assert nvcc.calls == 2
    for path, text in texts.items():
        path.write_text(text)
    assert tiny() == before and nvcc.calls == 2


def test_a_header_that_is_not_included_does_not_count(nvcc, kernels):
    tiny()
    (kernels / "other.cuh").write_text("#error\n")
    tiny()
    assert nvcc.calls == 1


def test_each_compiler_has_entries_of_its_own(nvcc, tmp_path, monkeypatch):
    first = tiny()
    other = FakeNvcc(tmp_path / "other", f"{COPY}; echo other >> $2", more=" emulated")
    monkeypatch.setenv(discovery.VARIABLE, str(other.path))
    assert tiny() == first + b"other\n" and (nvcc.calls, other.calls) == (1, 1)
    monkeypatch.setenv(discovery.VARIABLE, str(nvcc.path))
    assert tiny() == first and nvcc.calls == 1


def test_the_version_is_asked_for_once(kernels, tmp_path, monkeypatch):
    script = tmp_path / "nvcc"
    script.write_text(SCRIPT.format(body=COPY, more="").replace("then echo", 'then echo version >> "$0.log"; echo'))
    script.chmod(0o755)
    monkeypatch.setenv(discovery.VARIABLE, str(script))
    for arch in ("sm_75", "sm_80", "sm_86"):
        tiny(arch=arch)
    assert Path(f"{script}.log").read_text().count("version\n") == 1


DAMAGE = {
    "truncated": lambda path, whole: path.write_bytes(whole[:-1]),
    "cut short": lambda path, whole: path.write_bytes(whole[:7]),
    "empty": lambda path, whole: path.write_bytes(b""),
    "one bit": lambda path, whole: path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1])),
    "one bit of the checksum": lambda path, whole: path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:]),
    "longer": lambda path, whole: path.write_bytes(whole + b"\0"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_compiled_again(damage, nvcc):
    binary, (entry,) = tiny(), entries()
    whole = entry.read_bytes()
    damage(entry, whole)
    assert tiny() == binary and nvcc.calls == 2
    assert entries() == [entry] and entry.read_bytes() == whole


def test_a_folder_that_cannot_be_written_costs_only_time(nvcc, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOTAPE_CACHE", str(tmp_path / "file"))
    assert tiny() == tiny() and nvcc.calls == 2


def test_so_does_an_entry_that_cannot_be_put_in_its_place(nvcc):
    binary, (entry,) = tiny(), entries()
    entry.unlink()
    entry.mkdir()
    assert tiny() == binary and nvcc.calls == 2 and entries() == [entry]  # and no file beside it that nobody needs


def test_a_user_without_a_home_has_no_cache(nvcc, monkeypatch):
    def homeless(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("AUTOTAPE_CACHE")
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert tiny() == tiny() and nvcc.calls == 2


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"AUTOTAPE_CACHE": "/a", "XDG_CACHE_HOME": "/x"}, "/a/kernels"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/autotape/kernels"),
        ({"XDG_CACHE_HOME": ""}, "/home/me/.cache/autotape/kernels"),
        ({"AUTOTAPE_CACHE": "~/a"}, "/home/me/a/kernels"),
    ],
)
def test_where_the_cache_is(variables, folder, monkeypatch):
    for name in ("AUTOTAPE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    assert cache.folder() == Path(folder)


def test_threads_that_want_the_same_compile_it_once(nvcc):
    nvcc.does(f"sleep 0.2\n{COPY}")
    results, barrier = [], threading.Barrier(6)

    def work(arch):
        barrier.wait(30)
        results.append(tiny(arch=arch))

    threads = [threading.Thread(target=work, args=(arch,)) for arch in ("sm_80", "sm_80", "sm_80", "sm_80", "sm_90", "sm_90")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == 6 and len(set(results)) == 2 and nvcc.calls == 2


PROCESS = """
from autotape.backends.pycuda_backend.compilation.compiler import cubin
for i in range(20):
    assert cubin(f"// {i % 5}", {}, "sm_90", True, "many").decode().endswith(f"// {i % 5}")
"""


def test_processes_share_the_cache(nvcc):
    command = [sys.executable, "-c", PROCESS]
    processes = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in processes] == [("", 0)] * 3
    assert len(entries()) == 5 and 5 <= nvcc.calls <= 15


# -- what goes wrong


TWENTY = "".join(f"echo '  line {i}' >&2; " for i in range(30))
FAILURES = {
    "an error": ("echo 'tiny.cu(3): warning: odd' >&2; echo 'tiny.cu(3): error: no x' >&2; exit 1", "tiny.cu(3): error: no x"),
    "two errors": ("echo 'a: error: one'; echo '  here'; echo 'b: error: two'; exit 2", "a: error: one\n  here"),
    "a long error": (f"echo 'a: error: one' >&2; {TWENTY} exit 1", "a: error: one\n" + "\n".join(f"  line {i}" for i in range(19))),
    "no words": ("exit 3", "nvcc 1.2.3 ({nvcc}) ended with status 3 and no message"),
    "a crash": ("kill -SEGV $$", "nvcc 1.2.3 ({nvcc}) ended with status -11 and no message"),
    "no binary": ("exit 0", "nvcc 1.2.3 ({nvcc}) made no binary and gave no error"),
    "an empty binary": ("echo odd; : > binary", "nvcc 1.2.3 ({nvcc}) made no binary and gave no error\nodd"),
    "bytes": (r"printf '\377\376 error' >&2; exit 1", "\ufffd\ufffd error"),
}


@pytest.mark.parametrize(("body", "message"), FAILURES.values(), ids=FAILURES)
def test_a_compiler_that_fails(body, message, nvcc):
    nvcc.does(body)
    with pytest.raises(CompileError) as e:
        tiny()
    assert str(e.value) == "kernel unit 'tiny' for sm_90 does not compile: " + message.replace("{nvcc}", str(nvcc.path))
    nvcc.does(COPY)
    assert tiny()  # nothing was kept


def test_a_compiler_that_takes_forever(nvcc, monkeypatch):
    nvcc.does("exec sleep 60")
    discovery.find()
    monkeypatch.setattr(toolchain, "TIMEOUT", 0.3)
    with pytest.raises(CompileError, match=r"'tiny' for sm_90 does not compile: nvcc 1\.2\.3 \(.*\) had no result after 0\.3 s"):
        tiny()


def test_a_compiler_that_has_gone(nvcc):
    discovery.find()
    nvcc.path.unlink()
    with pytest.raises(CompileError, match=r"can't be run: .*No such file"):
        tiny()


MESSAGES = {
    "nvcc": (
        'k.cu(1): warning #177-D: variable "a" is unused\n\nk.cu(2): error: identifier "y" is undefined\n  y = 1;\n  ^\n\n'
        'k.cu(3): error: identifier "z" is undefined\n  z = 1;\n  ^\n\n2 errors detected in the compilation of "k.cu".\n',
        'k.cu(2): error: identifier "y" is undefined\n  y = 1;\n  ^',
    ),
    "nvcc's options": ("nvcc fatal   : Unsupported gpu architecture 'sm_10'\n", "nvcc fatal   : Unsupported gpu architecture 'sm_10'"),
    "ptxas": ("ptxas info: 0 bytes\nptxas error   : too much shared data\n", "ptxas error   : too much shared data"),
    "g++": (
        "In file included from k.cu:1:\na.cuh: In function 'void k()':\na.cuh:3:5: error: 'y' was not declared\n    3 | y\n      | ^\n",
        "a.cuh:3:5: error: 'y' was not declared\n    3 | y\n      | ^",
    ),
    "nothing like an error": ("one\ntwo\n", "one\ntwo"),
    "a name that is no error": ("terrors.cu: two\n", "terrors.cu: two"),
}


@pytest.mark.parametrize(("output", "message"), MESSAGES.values(), ids=MESSAGES)
def test_the_first_error_is_what_is_told(output, message):
    assert toolchain.first_error(output) == message


# -- which compiler there is


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without a compiler: PATH is an empty folder."""
    for name in (discovery.VARIABLE, "CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(discovery, "_TOOLKIT", str(tmp_path / "none"))
    monkeypatch.setattr(discovery, "_SONAMES", ("libnone.so.13",))
    monkeypatch.setattr(discovery, "_packages", list)
    return tmp_path


def script(path, more=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    return FakeNvcc(path, more=more).path


def test_none_is_told_with_the_way_out(bare, kernels):
    assert compiler.compiler() is None
    with pytest.raises(NoCompiler) as e:
        tiny()
    way_out = "install a toolkit (nvcc on PATH) or pip install nvidia-cuda-nvrtc nvidia-cuda-runtime"
    assert str(e.value).startswith(f"no CUDA compiler: {way_out} (looked for nvcc and libnvrtc ")
    assert f"PATH, in CUDA_HOME, CUDA_PATH, {bare}/none and PyPI's packages: libnone.so.13: cannot open shared object" in str(e.value)


def test_the_order_of_the_search(bare, monkeypatch):
    script(bare / "bin" / "gcc")
    monkeypatch.setattr(discovery, "_packages", lambda: [bare / "package"])
    monkeypatch.setattr(discovery, "_TOOLKIT", str(bare / "toolkit"))
    monkeypatch.setenv("CUDA_PATH", str(bare / "path"))
    monkeypatch.setenv("CUDA_HOME", str(bare / "home"))
    for place in ("package", "toolkit", "path", "home", ""):  # "" has the folder on PATH; each goes before those that are there already
        path = script(bare / place / "bin" / "nvcc")
        discovery._find.cache_clear()
        assert discovery.find().path == str(path)
    monkeypatch.setenv(discovery.VARIABLE, str(script(bare / "named" / "nvcc")))
    assert discovery.find().path == str(bare / "named" / "nvcc")


def test_the_folders_of_packages_are_found(tmp_path, monkeypatch):
    folders = [tmp_path / "nvidia" / name for name in ("cu13", "cuda_nvrtc")]
    for folder in folders:
        folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert [root for root in discovery._packages() if root in folders] == folders


def test_a_compiler_that_is_named_and_is_none(bare, monkeypatch):
    for named, message in [
        (bare / "missing", "No such file"),
        (bare / "bin", "Permission denied"),
        (script(bare / "false", more='"; exit 1; "'), "is no nvcc: .*exit status 1"),
    ]:
        monkeypatch.setenv(discovery.VARIABLE, str(named))
        with pytest.raises(NoCompiler, match=f"^no CUDA compiler: AUTOTAPE_NVCC names {named}: .*{message}"):
            discovery.find()


def test_a_compiler_that_is_named_by_its_name_alone(bare, monkeypatch):
    path = script(bare / "bin" / "nvcc-1")
    monkeypatch.setenv(discovery.VARIABLE, "nvcc-1")
    assert str(compiler.compiler()) == f"nvcc 1.2.3 ({path})"


def test_nvcc_without_a_host_compiler_is_passed_over(bare, monkeypatch):
    path = script(bare / "bin" / "nvcc")
    with pytest.raises(NoCompiler, match=f"{path} needs a host compiler, and there is no gcc"):
        discovery.find()
    script(bare / "bin" / "g++-12")
    monkeypatch.setenv("NVCC_CCBIN", "g++-12")
    assert discovery.find().path == str(path)


def test_a_libnvrtc_that_will_not_do_is_named(bare, monkeypatch):
    library = bare / "toolkit" / "lib64" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.write_text("no library")
    monkeypatch.setenv("CUDA_HOME", str(bare / "toolkit"))
    with pytest.raises(NoCompiler, match=f"{library}: .*(too short|invalid ELF)"):
        discovery.find()
    monkeypatch.setattr(toolchain.ctypes, "CDLL", lambda name: object())
    discovery._find.cache_clear()
    with pytest.raises(NoCompiler, match=f"{library} lacks cuda_fp16.h, which nvidia-cuda-runtime has"):
        discovery.find()
    (bare / "toolkit" / "include").mkdir()
    (bare / "toolkit" / "include" / "cuda_fp16.h").write_text("")
    with pytest.raises(NoCompiler, match=f"{library} is no libnvrtc"):
        discovery.find()


def test_what_libnvrtc_opens_by_name_is_loaded_before_it(tmp_path, monkeypatch):
    names = ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"]
    for name in names:
        (tmp_path / name).touch()
    loaded = []
    monkeypatch.setattr(toolchain.ctypes, "CDLL", lambda path: loaded.append(Path(path).name))
    with pytest.raises(OSError, match="no libnvrtc"):
        toolchain.Nvrtc(str(tmp_path / names[1]), tmp_path)
    assert loaded == names


# -- what is compiled ahead


@pytest.mark.parametrize(
    ("arch", "built", "runs"),
    [
        ("sm_90", "sm_75 sm_90", True),
        ("sm_89", "sm_80 sm_90", True),
        ("sm_80", "sm_86 sm_90", False),
        ("sm_90", "sm_80 sm_86", False),
        ("sm_120", "sm_90 compute_90", True),
        ("sm_80", "sm_90 compute_90", False),
        ("sm_103", "sm_100", True),
        ("sm_120", "sm_100", False),
        ("sm_120", "", False),
    ],
)
def test_what_code_runs_where(arch, built, runs):
    assert compiler.runs_on(arch, built.split()) is runs


def test_fat_binaries_of_the_package_need_no_compiler(nvcc, kernels, monkeypatch):
    built = build.build_fatbins(kernels / "binaries", ["sm_80", "sm_90"])
    assert [(b.name, len(b.binaries)) for b in built] == [("tiny", 2)] and nvcc.calls == 2
    monkeypatch.delenv(discovery.VARIABLE)
    monkeypatch.setattr(discovery, "find", lambda: pytest.fail("a compiler was looked for"))
    codes = "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90,code=compute_90"
    binary = f"-std=c++17 -fmad=true -I{kernels} -fatbin {codes}\n#define TYPE float\n"
    for arch in ("sm_80", "sm_86", "sm_90", "sm_120"):
        assert tiny(arch=arch).decode().startswith(binary)
    other = binary.replace("fmad=true", "fmad=false").replace("float", "long long")
    assert tiny(defines={"TYPE": "long long"}, fmad=False).decode().startswith(other)


@pytest.mark.parametrize(
    "other", [{"arch": "sm_75"}, {"text": UNIT + "\n"}, {"defines": {"TYPE": "int"}}, {"fmad": False}], ids=lambda other: next(iter(other))
)
def test_what_the_package_lacks_is_compiled(other, nvcc, kernels, monkeypatch):
    build.build_fatbins(kernels / "binaries", ["sm_80"])
    found = discovery.find()
    monkeypatch.delenv(discovery.VARIABLE)
    monkeypatch.setattr(discovery, "find", lambda *_: found)
    assert b"-cubin" in tiny(**other)


def test_a_compiler_that_is_named_compiles_all(nvcc, kernels):
    build.build_fatbins(kernels / "binaries", ["sm_90"])
    assert b"-cubin" in tiny() and nvcc.calls == 3


def test_fat_binaries_are_nvccs_alone(kernels, monkeypatch):
    monkeypatch.setattr(build, "find", lambda nvcc_first: "NVRTC 13.0")
    with pytest.raises(NoCompiler, match=r"fat binaries are made by nvcc alone, and what is here is NVRTC 13\.0"):
        build.build_fatbins(kernels / "binaries")


def test_what_is_built_is_found_later(nvcc):
    assert [(unit.name, len(unit.binaries)) for unit in build.build(["sm_80", "sm_90"])] == [("tiny", 4)]
    tiny(arch="sm_80"), tiny(), tiny(defines={"TYPE": "long long"}, fmad=False)
    assert nvcc.calls == 4


@pytest.mark.parametrize(
    ("comment", "sets"),
    [
        ("", [({}, True)]),
        ("// variants: T=a", [({"T": "a"}, True)]),
        ("// A unit.\n//variants:A=long long  B=1;A=x fmad=false\n// more", [({"A": "long long", "B": "1"}, True), ({"A": "x"}, False)]),
        ("// variants: A=1;\n// variants: A=2; A=3", [({"A": "1"}, True), ({"A": "2"}, True), ({"A": "3"}, True)]),
    ],
)
def test_the_variants_of_a_unit(comment, sets, kernels):
    (kernels / "tiny.cu").write_text(f"{comment}\nint x;\n")
    assert [(v.defines, v.fmad) for v in build.variants("tiny")] == sets


@pytest.mark.parametrize("words", ["float", "TYPE=", "=float", "a b=1"])
def test_a_variant_that_is_none(words, kernels):
    (kernels / "tiny.cu").write_text(f"// variants: A=1; {words}\n")
    with pytest.raises(ValueError, match=r"^kernel unit 'tiny': '.*' among its variants isn't NAME=VALUE$"):
        build.variants("tiny")


class FakeDriver:
    """libcuda with devices of these capabilities."""

    def __init__(self, capabilities, status=0):
        self.capabilities, self.status = capabilities, status

    def cuInit(self, flags):
        return self.status

    def cuDeviceGetCount(self, count):
        count._obj.value = len(self.capabilities)
        return 0

    def cuDeviceGet(self, device, ordinal):
        device._obj.value = ordinal
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):
        value._obj.value = self.capabilities[device.value][attribute - 75]
        return 0


@pytest.mark.parametrize(
    ("driver", "archs"),
    [
        (FakeDriver([(9, 0), (12, 0), (9, 0)]), ["sm_120", "sm_90"]),
        (FakeDriver([]), []),
        (FakeDriver([(9, 0)], status=100), []),
        (None, []),
    ],
)
def test_the_architectures_of_this_machine(driver, archs, monkeypatch):
    def load(name):
        if driver is None:
            raise OSError(f"{name}: cannot open shared object file")
        return driver

    monkeypatch.setattr(build.ctypes, "CDLL", load)
    assert build.architectures_here() == archs


def test_a_wheel_carries_all_that_units_are_made_of():
    import configparser
    import fnmatch

    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = config["options.package_data"]["autotape.backends.pycuda_backend"].split(", ")
    files = [f"kernels/{path.name}" for path in compiler.KERNELS.iterdir() if path.is_file()]
    assert [f for f in files if not any(fnmatch.fnmatch(f, p) for p in patterns)] == []
    assert any(fnmatch.fnmatch(f"kernels/{compiler.BINARIES}/{compiler.ARCHITECTURES}", p) for p in patterns)


# -- the real compilers


def installed(kind):
    """The first real compiler of this kind that works here, whatever AUTOTAPE_NVCC names and the emulator puts on PATH; or None."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join(folder for folder in folders if folder != str(environment.folder())))
        makers = [*discovery._nvccs(), *discovery._nvrtcs()]
    for make in makers:
        try:
            found = make()
        except OSError:
            continue
        if isinstance(found, kind):
            return found
    return None


NVCC, NVRTC = installed(toolchain.Nvcc), installed(toolchain.Nvrtc)
VARIANTS = [variant for unit in build.units() for variant in (build.variants(unit) if EACH_VARIANT else build.variants(unit)[:1])]
HALVES = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(half* x, __nv_bfloat16* y, float* z) { *z = __half2float(*x) * __bfloat162float(*y) + *z; }
"""


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc with a host compiler, so no unit is compiled for real GPUs")
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: " ".join([v.name, *v.defines.values(), "fmad" * v.fmad]))
def test_every_unit_compiles(variant):
    source = compiler.source(variant.text, variant.defines, variant.fmad, variant.name)
    assert NVCC.fatbin(source, build.WHEEL).startswith(b"\x50\xed\x55\xba")


@pytest.fixture(params=["nvcc", "NVRTC"])
def tool(request):
    """Either of the real compilers."""
    if (found := {"nvcc": NVCC, "NVRTC": NVRTC}[request.param]) is None:
        pytest.skip(f"there is no {request.param} that works here")
    return found


def test_a_real_compiler_makes_a_cubin(tool, kernels):
    once, twice = (tool.cubin(compiler.source(HALVES, {"N": "1"}, fmad, "halves"), "sm_90") for fmad in (True, False))
    assert once[:4] == twice[:4] == b"\x7fELF" and once != twice  # multiplied and added at once, or not


def test_a_real_compiler_names_the_line(tool, kernels):
    (kernels / "tiny.cuh").write_text("#pragma once\n")
    with pytest.raises(CompileError) as e:
        tool.cubin(compiler.source(UNIT.replace("*x += *x", "y = 1; z = 2"), {"TYPE": "float"}, True, "tiny"), "sm_90")
    assert str(e.value).startswith("kernel unit 'tiny' for sm_90 does not compile: tiny.cu(3): error: identifier \"y\" is undefined")
    assert '"z"' not in str(e.value).partition("\n")[0] and str(e.value).count("error:") == 1


def test_a_real_compiler_refuses_an_architecture(tool, kernels):
    with pytest.raises(CompileError, match=r"'halves' for sm_20 does not compile: nv(cc|rtc).*architecture"):
        tool.cubin(compiler.source(HALVES, {}, True, "halves"), "sm_20")


@pytest.mark.skipif(NVRTC is None, reason="there is no libnvrtc with its headers")
@pytest.mark.parametrize("variant", VARIANTS[:1], ids=lambda v: v.name)
def test_nvrtc_compiles_a_unit(variant):
    source = compiler.source(variant.text, variant.defines, variant.fmad, variant.name)
    assert NVRTC.cubin(source, "sm_90").startswith(b"\x7fELF")
