"""at.save and at.load: what goes in comes out to the last bit, files are whole or not there, and bad ones are refused in words."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import json
import os
import re
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import backend, io, tensor_file
from autotape.errors import FileFormatError
from autotape.testing.strategies import LAYOUTS, shapes

ROOT = Path(__file__).parent.parent
OTHER = "strict" if backend.get() == "numpy" else backend.get()
COMPLEX = "c" if backend.get() == "numpy" else ""  # of what goes to a backend
DTYPES = [
    *("|b1", "|i1", "|u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">u8", "<u8"),
    *("<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", "<c16", ">c16"),
    *("<U3", ">U3", "|S4", "<M8[ns]", ">M8[D]", "<m8[25s]"),
]  # fmt: skip


def register(cls: Any, **functions: Any) -> Any:
    """Under names that no other test file has."""
    return io.register(cls, f"test.{cls.__name__}", **functions)


@register
class Point(NamedTuple):
    x: Any
    y: Any


@register
@dataclasses.dataclass
class Layer:
    w: Any
    activation: Any = "relu"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    w: Any
    count: int = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        raise AssertionError("called while loading")


io.register(Frozen, name="a frozen one")


class Net:
    def __init__(self, w, b):
        self.w, self.b = w, b


at.tree.register(Net, lambda net: (net.w, net.b), lambda net, children: Net(*children))
register(Net, unpack=lambda children: Net(*children))
register(collections.OrderedDict, pack=lambda d: list(d.items()), unpack=collections.OrderedDict)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


def same(a: Any, b: Any) -> bool:
    """Whether two trees are equal in types, dtypes, shapes, bits and order of keys."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and (a[:] == b[:] if isinstance(a, (str, bytes)) else a.tobytes() == b.tobytes())
    if isinstance(a, (at.Tensor, at.Param)):
        return same(np.array(a.numpy()), np.array(b.numpy()))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return same(vars(a), vars(b)) if isinstance(a, Net) else bool(a == b)


def again(tree: Any, path: Path) -> Any:
    at.save(path, tree)
    return at.load(path)


# ---------------------------------------------------------------- strategies


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Arrays of any dtype that can be saved and any bits, in any memory layout."""
    dtype, shape = np.dtype(draw(st.sampled_from(DTYPES))), draw(shapes(0, 3))
    size = int(np.prod(shape))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype.kind == "b":
        x = rng.integers(0, 2, size).astype(dtype)
    elif dtype.kind == "U":
        x = np.array(["".join(map(chr, row)) for row in rng.integers(0, 0xD800, (size, 3))], dtype)
    else:
        x = np.frombuffer(rng.bytes(size * dtype.itemsize), dtype)
    return LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](x.reshape(shape))


def floats() -> st.SearchStrategy[float]:
    """Any bits, the payloads of NaN among them."""
    return st.floats() | st.binary(min_size=8, max_size=8).map(lambda b: struct.unpack("d", b)[0])


def scalars() -> st.SearchStrategy[Any]:
    kinds = [np.bool_, np.int8, np.uint64, np.float16, np.float32, np.float64, np.complex64, np.complex128]
    return st.one_of(
        st.sampled_from(kinds).flatmap(lambda kind: st.sampled_from([kind(0), kind(1), np.array(7).astype(kind)[()]])),
        floats().map(np.float64),
        st.sampled_from([np.str_("é\0"), np.str_(""), np.bytes_(b"\0a\0"), np.datetime64("2024-02-29", "D"), np.timedelta64("NaT", "s")]),
    )


WORTH_TRYING = ["..", "/etc/passwd", "__metadata__", "a.b", "~1", "", "\ud83d\ude00"]


def plain() -> st.SearchStrategy[Any]:
    """What may also be a dict's key."""
    text = st.text(st.characters(exclude_categories=())) | st.sampled_from(WORTH_TRYING)
    whole = st.integers(-(2**64) + 1, 2**64 - 1)
    return st.none() | st.booleans() | whole | floats() | st.complex_numbers() | text | scalars()


def leaves() -> st.SearchStrategy[Any]:
    dtypes = st.sampled_from(DTYPES).map(np.dtype)
    return st.one_of(
        plain(),
        arrays(),
        arrays().filter(lambda x: x.dtype.kind in "biuf" + COMPLEX).map(at.array),
        arrays().filter(lambda x: x.dtype.kind in "f" + COMPLEX).map(at.Param),
        st.binary(),
        st.integers().map(lambda n: n << 70),
        dtypes,
        dtypes.map(lambda dtype: dtype.type),
    )


def trees() -> st.SearchStrategy[Any]:
    keys = st.recursive(plain(), lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=3)

    def node(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        few = st.lists(children, max_size=3)
        return st.one_of(
            few,
            few.map(tuple),
            st.dictionaries(keys, children, max_size=3),
            st.builds(Point, children, children),
            st.builds(Layer, children, children),
            st.builds(Net, children, children),
        )

    return st.recursive(leaves(), node, max_leaves=8)


# ---------------------------------------------------------------- there and back


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees())
def test_a_tree_comes_back_as_it_was(path, tree):
    loaded = again(tree, path)
    assert same(tree, loaded)
    first = path.read_bytes()
    at.save(path, loaded)
    assert path.read_bytes() == first


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays())
def test_an_array_comes_back_with_all_its_bits(path, x):
    y = again(x, path)
    assert same(x, y) and y.flags.c_contiguous and y.flags.writeable


@pytest.mark.parametrize("text", ["\ud83d\ude00", "\ude00\ud83d", "a\ud83d\ude00\ud83d\ude00b", "\ud83d", "\U0001f600"], ids=ascii)
def test_surrogates_stay_apart(path, text):
    tree = {text: [text, np.str_(text)], "\U0001f600": None}
    assert same(again(tree, path), tree)


def test_any_byte_but_0_is_a_true_boolean(path):
    x = np.frombuffer(b"\0\1\2\xff", bool).reshape(2, 2).T
    assert same(again([x, x[1:, 1:]], path), [np.array([[False, True], [True, True]]), np.array([[True]])])


def test_text_that_was_never_filled_is_refused(path):
    at.save(path, "old")
    with pytest.raises(ValueError, match=r"at.save: an array \(2, 1\) of dtype <U1 holds numbers that are no characters"):
        at.save(path, [np.ones(2), np.frombuffer(b"a\0\0\0\xff\xff\xff\xff", "<U1").reshape(2, 1)])
    assert at.load(path) == "old" and list(path.parent.iterdir()) == [path]


def test_bfloat16_and_its_like(path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
    tree = [np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name)).T for name in names]
    tree += [ml_dtypes.bfloat16(1.5), np.dtype(ml_dtypes.bfloat16), ml_dtypes.bfloat16]
    assert same(tree, again(tree, path))
    assert io.contents(path)[0] == ("array", (3, 2), "bfloat16")
    swapped = tree[0].astype(tree[0].dtype.newbyteorder("S"))
    assert same(again(swapped, path), tree[0])


def test_without_ml_dtypes_the_extra_is_named(path, monkeypatch):
    write(path, {"a": ("BF16", [2], 0, 4), "b": ("F32", [1], 4, 8)}, bytes(8))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match=r"bfloat16 need ml_dtypes.*autotape\[files\]"):
        at.load(path)
    assert io.contents(path)["a"] == ("array", (2,), "bfloat16")
    assert same(at.load(path, only="b"), np.zeros(1, np.float32))


def test_other_types_come_to_plain_arrays(path, tmp_path):
    mapped = np.memmap(tmp_path / "mapped", np.float32, "w+", shape=(3,))
    assert type(again(mapped, path)) is np.ndarray
    assert same(again(np.broadcast_to(np.float32(2), (2, 3)), path), np.full((2, 3), 2, np.float32))
    assert same(again(np.longlong(5), path), np.int64(5)) or np.dtype(np.longlong) != np.int64


def test_what_is_shared_stays_shared(path):
    w, x, t = at.Param(np.ones(2)), np.zeros(3), at.array([1.0])
    loaded = again({"encoder": w, "decoder": [w, x], "x": x, "view": x[:2], "t": (t, t)}, path)
    assert loaded["encoder"] is loaded["decoder"][0] and loaded["x"] is loaded["decoder"][1] and loaded["t"][0] is loaded["t"][1]
    assert not np.shares_memory(loaded["view"], loaded["x"])
    with open(path, "rb") as file:
        assert len(tensor_file.Reader(file, path.stat().st_size).entries) == 4


def test_params_can_be_trained_on(path):
    w = again(at.Param(np.ones(2)), path)
    with at.Tape() as tape:
        loss = np.sum(w * w)
    w -= 0.25 * tape.gradient(loss, w)
    assert w.numpy().tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("here", "there"), list(itertools.product(["numpy", OTHER], repeat=2)))
def test_a_file_of_one_backend_loads_on_another(path, here, there):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with backend.use(here):
        at.save(path, {"host": x, "tensor": at.array(x.T), "param": at.Param(x), "raw": at.kernels().adopt(x[:, ::2])})
    with backend.use(there):
        loaded, k = at.load(path), at.kernels()
        assert same(loaded["host"], x)
        raw = loaded["raw"] if here == "numpy" else k.to_numpy(loaded["raw"])  # NumPy's own stay NumPy's
        assert isinstance((loaded["tensor"] * 1)._array, k.array) and isinstance(loaded["param"]._value, k.array)
        np.testing.assert_array_equal(loaded["tensor"].numpy(), x.T)
        np.testing.assert_array_equal(loaded["param"].numpy(), x)
        np.testing.assert_array_equal(raw, x[:, ::2])


def test_a_generator_goes_on(path):
    generator = at.random.Generator(3)
    generator.uniform(5)
    restored = at.random.Generator()
    restored.state = again(generator.state, path)
    np.testing.assert_array_equal(generator.uniform(5), restored.uniform(5))


# ---------------------------------------------------------------- classes


def test_classes_are_saved_by_their_registered_names(path):
    frozen = object.__new__(Frozen)
    object.__setattr__(frozen, "w", np.ones(2))
    object.__setattr__(frozen, "count", 3)
    tree = [Point(1, None), Layer(np.zeros(2)), frozen, Net(1.0, [2]), collections.OrderedDict(b=1, a=2)]
    assert same(tree, again(tree, path))
    assert io.contents(path) == [{"x": 1, "y": None}, {"w": ("array", (2,), "float64"), "activation": "relu"},
                                 {"w": ("array", (2,), "float64"), "count": 3}, [1.0, [2]], [("b", 1), ("a", 2)]]  # fmt: skip
    assert at.load(path, only=(0, "x")) == 1 and at.load(path, only=(3, 1, 0)) == 2


def test_a_class_must_be_made_known_to_save_and_to_load(path, monkeypatch):
    @dataclasses.dataclass
    class Unknown:
        a: int = 1

    with pytest.raises(TypeError, match=r"tree\['m'\]: can't save .*Unknown\(a=1\).*: at.io.register\(Unknown\) lets it be"):
        at.save(path, {"m": Unknown()})
    assert register(Unknown) is Unknown
    at.save(path, {"m": Unknown()})
    monkeypatch.delitem(io._names, "test.Unknown")
    with pytest.raises(FileFormatError, match=rf"{path}: tree\['m'\] is a 'test.Unknown': give the class of that name to at.io.register"):
        at.load(path)
    assert at.load(path, only=("m", "a")) == 1

    @dataclasses.dataclass
    class Other:
        b: int = 1

    io.register(Other, "test.Unknown")
    with pytest.raises(FileFormatError, match=r"tree\['m'\] can't be made a 'test.Unknown': .*fields are \['b'\], but .* has \['a'\]"):
        at.load(path)


def test_registering_what_cannot_be_is_refused():
    with pytest.raises(TypeError, match="set is no named tuple or dataclass, so give pack and unpack too"):
        io.register(set)
    with pytest.raises(TypeError, match="give unpack too"):
        io.register(set, pack=sorted)
    with pytest.raises(ValueError, match=r"'test.Point' is the name of .*test_io.Point already: give another name"):
        io.register(set, "test.Point", sorted, set)
    for args in (("Net 1",), (Point(1, 2),), (Point, 5), (Net, len, Net)):
        with pytest.raises(TypeError, match=r"at.io.register takes a class, and a text for its name, but got"):
            io.register(*args)
    register(type("Point", (), {"__module__": Point.__module__}), pack=vars, unpack=dict)  # as a notebook's cell that runs again does
    register(Point)


# ---------------------------------------------------------------- what can't be saved

loop: list[Any] = []
loop.append(loop)
unset: Any = object.__new__(Frozen)


@dataclasses.dataclass
class Unset:
    a: int = dataclasses.field(init=False)


class Block:
    def __call__(self, x):
        return x


UNSAVABLE = {
    "set": ({"a": [{1}]}, TypeError, r"tree\['a'\]\[0\]: can't save \{1\}, a builtins.set: tell at.io.register"),
    "function": ([len], TypeError, r"tree\[0\]: can't save .*len.*leave it out"),
    "class": ([int], TypeError, "leave it out"),
    "class of arrays": ([np.ndarray], TypeError, "leave it out"),
    "partial": (functools.partial(np.sum, axis=0), TypeError, "leave it out"),
    "ufunc": (np.add, TypeError, "leave it out"),
    "object that can be called": ({"net": Block()}, TypeError, r"tree\['net'\]: can't save .*Block: tell at.io.register how"),
    "generator": (at.random.Generator(0), TypeError, "can't save Generator.*: save its state, and set that after loading"),
    "field without a value": ([unset], TypeError, r"at.save: tree\[0\]: the field 'w' of this Frozen has no value"),
    "object that can't be shown": (Unset(), TypeError, r"can't save <.*Unset object .*: at.io.register\(Unset\) lets it be saved"),
    "object": ((object(),), TypeError, "tell at.io.register"),
    "object array": (np.array([None]), TypeError, "tree: a safetensors file has no place for dtype object"),
    "structured array": (np.zeros(2, "i4,f4"), TypeError, "no place for dtype"),
    "long double": ({"x": np.zeros(2, np.clongdouble)}, TypeError, r"tree\['x'\]: a safetensors file has no place for dtype complex256"),
    "masked array": (np.ma.zeros(2), TypeError, "make it a NumPy array"),
    "subclass of dict": (collections.defaultdict(list), TypeError, "tell at.io.register"),
    "subclass of float": (type("Metres", (float,), {})(1), TypeError, "Metres"),
    "subclass of float64": (type("Metres", (np.float64,), {})(1), TypeError, r"can't save .*1.0.*, a .*Metres"),
    "subclass of str_": ({type("Name", (np.str_,), {})("a"): 1}, TypeError, r"can't save .*'a'.*, a .*Name"),
    "bytes as key": ({b"k": 1}, TypeError, r"tree has the key b'k': keys are text, numbers"),
    "param as key": ({at.Param(1.0): 1}, TypeError, "tree has the key Param"),
    "itself": (loop, ValueError, r"tree\[0\]\[0\]\[0\]\.\.\. goes deeper than 100 levels, or holds itself"),
    "deep key": ({functools.reduce(lambda k, _: (k,), range(2000), 1): 1}, ValueError, "one of its keys goes deeper than 100 levels"),
}


@pytest.mark.parametrize(("tree", "kind", "message"), UNSAVABLE.values(), ids=UNSAVABLE)
def test_what_cannot_be_saved_is_named(path, tree, kind, message):
    if "complex256" in message and np.dtype(np.clongdouble).itemsize == 16:
        pytest.skip("long double is double here")
    with pytest.raises(kind, match=message):
        at.save(path, tree)
    assert not list(path.parent.iterdir())


def test_a_tracked_tensor_is_refused(path):
    def f(x):
        at.save(path, {"x": x})
        return x

    with pytest.raises(TypeError, match=r"at.save: tree\['x'\]: saving t would drop its derivative"):
        at.grad(f)(1.0)


def test_a_structure_beyond_the_format_is_refused(path, monkeypatch):
    monkeypatch.setattr(tensor_file, "LARGEST_HEADER", 1000)
    with pytest.raises(ValueError, match=r"structure take 1,9\d\d bytes; safetensors allows 1,000: put long lists into arrays"):
        at.save(path, "a" * 1900)
    assert not path.exists()


# ---------------------------------------------------------------- whole or not there


def test_the_disk_has_the_file_before_its_name_and_then_the_name(path, monkeypatch):
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    at.save(path, [1])
    assert calls == ["file", "replace", "folder"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file_and_nothing_else(path, error):
    path.write_bytes(b"old")
    with pytest.raises(error), io.atomically(path) as file:
        file.write(b"ne")
        raise error
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]


def test_an_array_that_fails_to_come_leaves_the_old_file(path, monkeypatch):
    at.save(path, "old")
    monkeypatch.setattr(at.Tensor, "numpy", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        at.save(path, [np.ones(10_000), at.array([1.0])])
    assert at.load(path) == "old" and list(path.parent.iterdir()) == [path]


FULL = """
import resource, signal, sys
import numpy as np, autotape as at
at.save(sys.argv[1], {"old": np.ones(3)})
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))  # what is written beyond fails as on a full disk
try:
    at.save(sys.argv[1], {"new": np.zeros(1_000_000)})
except OSError as e:
    print(e)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no resource limits")
def test_a_full_disk_leaves_the_old_file(path):
    run = subprocess.run([sys.executable, "-c", FULL, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "File too large" in run.stdout and str(path) in run.stdout, run.stderr
    assert at.load(path)["old"].tolist() == [1, 1, 1] and list(path.parent.iterdir()) == [path]


def test_a_file_keeps_its_mode_and_its_links(path, tmp_path):
    path.touch()
    path.chmod(0o640)
    (link := tmp_path / "link").symlink_to(path)
    at.save(link, [1])
    assert link.is_symlink() and at.load(path) == [1] and stat.S_IMODE(path.stat().st_mode) == 0o640
    at.save(str(tmp_path / "new"), None)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~umask()


def test_a_secret_file_is_secret_while_it_is_written(path):
    path.touch(0o600)
    with io.atomically(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


def umask() -> int:
    os.umask(old := os.umask(0))
    return old


def test_a_destination_that_is_no_file_is_refused(path, tmp_path):
    with pytest.raises(FileExistsError, match="a folder or a device"):
        at.save(tmp_path, 1)
    with pytest.raises(FileNotFoundError, match=r"no such folder.*none"):
        at.save(tmp_path / "none" / "x", 1)
    os.mkfifo(path)
    with pytest.raises(FileExistsError):
        at.save(path, 1)
    with pytest.raises(FileFormatError, match="this is a folder or a device"):
        at.load(path)
    with pytest.raises(FileNotFoundError):
        at.load(tmp_path / "none")


@pytest.mark.parametrize("path", [None, 3, b"file", {"w": 1.0}])
def test_a_path_that_is_none_is_refused(path):
    for name, call in (("at.save", functools.partial(at.save, tree=1)), ("at.load", at.load), ("at.io.contents", io.contents)):
        with pytest.raises(TypeError, match=rf"{name}: the first argument is a file's path, text or a Path, not {re.escape(repr(path))}"):
            call(path)


# ---------------------------------------------------------------- parts


def test_only_what_is_asked_for_is_read(path, monkeypatch):
    tree = {"model": {"w": np.ones((3, 2)), "b": at.Param(np.zeros(2))}, "m": [np.ones(3), Layer(np.full(2, 5.0))], "epoch": 3, (1, "k"): 4}
    at.save(path, tree)
    read: list[str] = []
    fill = tensor_file.Reader._fill
    monkeypatch.setattr(tensor_file.Reader, "_fill", lambda self, x, name, start: (read.append(name), fill(self, x, name, start)))
    assert io.contents(path) == {
        "model": {"w": ("array", (3, 2), "float64"), "b": ("param", (2,), "float64")},
        "m": [("array", (3,), "float64"), {"w": ("array", (2,), "float64"), "activation": "relu"}],
        "epoch": 3,
        (1, "k"): 4,
    }
    assert at.load(path, only="epoch") == 3 and at.load(path, only=((1, "k"),)) == 4 and not read
    assert same(at.load(path, only=("model", "b")), tree["model"]["b"]) and read == ["model.b"]
    assert same(at.load(path, only="model"), tree["model"]) and read == ["model.b", "model.w", "model.b"]
    assert same(at.load(path, only=("m", 1)), tree["m"][1]) and same(at.load(path, only=("m", 1, "w")), tree["m"][1].w)
    assert same(at.load(path, only=()), tree)


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("bias", r"holds no tree\['bias'\]: tree has the keys \['w', 'l'\]"),
        (("l", 2), r"holds no tree\['l'\]\[2\]: tree\['l'\] has the keys \[0, 1\]"),
        (("l", 0, "x"), r"holds no tree\['l'\]\[0\]\['x'\]: tree\['l'\]\[0\] has none"),
    ],
)
def test_a_part_that_is_not_there_is_named(path, only, message):
    at.save(path, {"w": np.ones(2), "l": [1, 2]})
    with pytest.raises(KeyError, match=message):
        at.load(path, only=only)


@pytest.mark.parametrize("only", [["l"], ("l", [0]), ("l", (0, [])), {}], ids=repr)
def test_a_part_named_by_no_key_is_refused(path, only):
    at.save(path, {"l": [1, 2]})
    with pytest.raises(TypeError, match=r"at.load: only is a key or a tuple of keys, and .* is no key"):
        at.load(path, only=only)


# ---------------------------------------------------------------- files of other programs, and theirs of ours


def test_other_programs_read_our_files(path):
    library = pytest.importorskip("safetensors.numpy")
    x = np.arange(6.0).reshape(2, 3)
    tree = {"layer": {"w": x.T, "b": at.Param(x[0])}, "f": np.asfortranarray(x), "big": x.astype(">f4"), "c": x + 2j, "s": x[:, ::2]}
    tree |= {"odd /../name": np.ones(0), "": np.bool_(True), "__metadata__": np.array([True]), "n": {(1, 2): np.uint8([7])}}
    at.save(path, tree | {"0-d": np.array(3)})
    found = library.load_file(path)
    assert set(found) == {"layer.w", "layer.b", "f", "big", "c", "s", "0-d", "odd__.._name", "__metadata__~7", "n._1__2_"}
    for name, expected in {"layer.w": x.T, "layer.b": x[0], "f": x, "big": x, "s": x[:, ::2], "0-d": 3, "n._1__2_": [7]}.items():
        np.testing.assert_array_equal(found[name], expected)
    np.testing.assert_array_equal(found["c"][..., 1], 2)


def test_names_are_harmless(path):
    keys = ["../../etc/passwd", "/abs", "..", ".", "", "C:\\x", "a\nb", "\0", "é" * 300, "__metadata__", "con", "a", ("a",)]
    at.save(path, {k: np.array([i]) for i, k in enumerate(keys)})
    assert [x[0] for x in at.load(path).values()] == list(range(len(keys)))
    with open(path, "rb") as file:
        names = list(tensor_file.Reader(file, path.stat().st_size).entries)
    assert len(names) == len(keys) and all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.~-]{0,210}", name) for name in names)


def test_we_read_files_of_other_programs(path):
    library = pytest.importorskip("safetensors.numpy")
    kinds = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "complex64"]
    tree = {f"layer/{kind}": np.arange(6).reshape(2, 3).astype(kind) for kind in kinds} | {"empty": np.zeros((0, 3)), "0-d": np.array(2.0)}
    library.save_file(tree, path, metadata={"format": "np"})
    loaded = at.load(path)
    assert loaded.keys() == tree.keys() and all(same(loaded[name], x) for name, x in tree.items())
    assert same(at.load(path, only="0-d"), tree["0-d"]) and io.contents(path)["empty"] == ("array", (0, 3), "float64")


# ---------------------------------------------------------------- bad files


def write(path: Path, entries: dict[str, Any], data: bytes = b"", structure: Any = None, header: bytes | None = None) -> None:
    """A file by hand: {name: (dtype, shape, start, end)}, and the text of the structure or what it is the JSON of."""
    if header is None:
        made = {name: {"dtype": e[0], "shape": e[1], "data_offsets": [*e[2:]]} if type(e) is tuple else e for name, e in entries.items()}
        if structure is not None:
            made["__metadata__"] = {"autotape": structure if isinstance(structure, str) else json.dumps(structure)}
        header = json.dumps(made).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def tree(node: Any) -> dict[str, Any]:
    return {"version": 1, "tree": node}


def nested(*head: str) -> Any:
    return functools.reduce(lambda node, _: [*head, node], range(120), None)


F4 = ("F32", [1], 0, 4)
BAD_BYTES = {
    "empty": (b"", "ends within its first 8 bytes, which give the length of its header"),
    "no header": (bytes(7), "ends within its first 8 bytes"),
    "header of nothing": (bytes(8), "header is not the JSON"),
    "a pickle": (b"\x80\x04\x95\x20" + bytes(20), "this is no safetensors file: its header would take 546,636,928 bytes"),
    "a text": (b"epoch,loss\n1,2.5\n", "this is no safetensors file"),
    "a huge header": (b"\xff" * 8 + b"{}", "its header would take 18,446,744,073,709,551,615 bytes, but the format allows 100,000,000"),
    "a header beyond the end": ((9).to_bytes(8, "little") + b"{}", "cut short, .*: its header would take 9 bytes, but the file has 10"),
    "another encoding": ((4).to_bytes(8, "little") + "{}".encode("utf-16-le"), "not the JSON"),
    "broken text": ((4).to_bytes(8, "little") + b'{"\xff"', "not the JSON"),
}  # fmt: skip
BAD_HEADERS = {
    "a list": (b"[]", "its header is no JSON object"),
    "no JSON": (b"{'a': 1}", "its header is not the JSON it should be"),
    "deep": (b'{"a":' * 100_000, "its header is not the JSON it should be"),
    "deep lists": (b"[" * 100_000, "its header is not the JSON it should be"),
    "a name twice": (
        b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"I32","shape":[0],"data_offsets":[0,0]}}',
        "its header is not the JSON it should be: 'a' stands twice",
    ),
    "NaN": (b'{"a":NaN}', "NaN is no number"),
    "an endless number": (b'{"a":{"dtype":"F32","shape":[' + b"9" * 100_000 + b"]}}", "too long a number"),
}  # fmt: skip
BAD_ENTRIES = {
    "no entry": ({"a": 3}, b"", "tensor 'a' is not described by dtype, shape and data_offsets"),
    "no shape": ({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4), "is not described"),
    "negative shape": ({"a": ("F32", [-1], 0, 4)}, bytes(4), "is not described"),
    "negative offset": ({"a": ("F32", [1], -4, 0)}, bytes(4), "is not described"),
    "three offsets": ({"a": ("F32", [1], 0, 4, 8)}, bytes(4), "is not described"),
    "half a side": ({"a": ("F32", [1.0], 0, 4)}, bytes(4), "is not described"),
    "a side of True": ({"a": ("F32", [True], 0, 4)}, bytes(4), "is not described"),
    "backwards": ({"a": ("F32", [1], 4, 0)}, bytes(4), r"tensor 'a', F32 of shape \[1\], can't lie in bytes 4 to 0"),
    "too few bytes": ({"a": ("F32", [2], 0, 4)}, bytes(4), "can't lie in"),
    "a gigantic shape": ({"a": ("F32", [2**63, 2**63], 0, 4)}, bytes(4), "can't lie in"),
    "a shape that wraps around": ({"a": ("F32", [2**62, 4], 0, 0)}, b"", "can't lie in"),
    "an empty gigantic shape": ({"a": ("F32", [0, 2**62], 0, 0)}, b"", "no array has the shape"),
    "many axes": ({"a": ("F32", [1] * 100, 0, 4)}, bytes(4), "no array has the shape"),
    "beyond the file": ({"a": ("F32", [2], 0, 8)}, bytes(4), "its tensors take 8 bytes, but the file has 4 for them"),
    "more than said": ({"a": F4}, bytes(5), "its tensors take 4 bytes, but the file has 5 for them"),
    "overlap": ({"a": F4, "b": ("F32", [1], 2, 6)}, bytes(6), "tensor 'b' begins at byte 2 of the data; the one before it ends at 4"),
    "the same bytes": ({"a": F4, "b": F4}, bytes(4), "begins at byte 0 of the data; the one before it ends at 4"),
    "a gap": ({"a": F4, "b": ("F32", [1], 8, 12)}, bytes(12), "tensor 'b' begins at byte 8 of the data; the one before it ends at 4"),
    "an unknown dtype": ({"a": ("F128", [1], 0, 16)}, bytes(16), "is of dtype 'F128', which NumPy has no arrays of"),
    "half a byte": ({"a": ("F4", [2], 0, 1)}, bytes(1), "is of dtype 'F4'"),
    "no booleans": ({"a": ("BOOL", [2], 0, 2)}, b"\1\2", "other bytes than 0 and 1"),
    "metadata that are none": ({"__metadata__": {"a": 1}}, b"", "its metadata are not texts by name"),
}
BAD_TREES = {
    "no structure": ("", "its structure is not the JSON it should be"),
    "a list": ([], "its structure has no version and tree"),
    "no tree": ({"version": 1}, "no version and tree"),
    "no version": ({"tree": 1}, "no version and tree"),
    "version True": ({"version": True, "tree": 1}, "no version and tree"),
    "a later version": ({"version": 2, "tree": 1}, "its structure is of version 2; this autotape reads version 1"),
    "a key of JSON twice": ('{"version": 1, "version": 1, "tree": 1}', "'version' stands twice"),
    "deep lists": ('{"version": 1, "tree": ' + "[" * 100_000, "its structure is not the JSON it should be"),
    "deep": (tree(nested("list")), "goes deeper than 100 levels"),
    "deep objects": (tree(nested("object", "test.Net")), "goes deeper than 100 levels"),
    "an unknown node": (tree(["eval", "1"]), r"tree is described by \['eval', '1'\]"),
    "an object of JSON": (tree({"a": 1}), "tree is described by"),
    "an empty node": (tree(["list", []]), r"tree\[0\] is described by \[\]"),
    "no such tensor": (tree(["array", "b"]), "there is no tensor 'b'"),
    "a path": (tree(["list", ["array", "/etc/passwd"]]), "there is no tensor '/etc/passwd'"),
    "no name": (tree(["array", 1]), "is described by"),
    "an array not in the tree": (tree(["list"]), "its structure has no place for tensor 'a'"),
    "one tensor as two things": (
        tree(["list", ["array", "a"], ["param", "a"]]),
        "tensor 'a' is .*array.* in one place and .*param.* in another",
    ),
    "another dtype": (tree(["array", "a", "<c16"]), r"tensor 'a', F32 of shape \[1\], holds no array of <c16"),
    "text": (tree(["array", "a", "<U1"]), "holds no array of <U1"),
    "an object's dtype": (tree(["array", "a", "|O"]), r"'\|O' is no dtype that a file holds"),
    "a structured dtype": (tree(["array", "a", "i4,f4"]), "is no dtype that a file holds"),
    "a date of no length": (tree(["dtype", "<M8[0s]"]), "is no dtype that a file holds"),  # conversion to it ends the process
    "a gigantic dtype": (tree(["dtype", "<U999999999"]), "is no dtype that a file holds"),
    "a wrong date": (tree(["dtype", "<M8[cows]"]), "is no dtype that a file holds"),
    "bytes of floats": (tree(["bytes", "a"]), "tensor 'a' can't be loaded as bytes: bytes are of uint8 and one axis, not float32"),
    "a class by its path": (tree(["object", "os.system", "ls"]), "tree is a 'os.system': give the class of that name"),
    "fields that are none": (
        tree(["object", "test.Layer", 3]),
        r"tree can't be made a 'test.Layer': ValueError: its fields are \['w', 'activation'\], but the file has int",
    ),
    "other fields": (
        tree(["object", "test.Point", ["dict", ["x", 1], ["z", 2]]]),
        r"its fields are \['x', 'y'\], but the file has \['x', 'z'\]",
    ),
    "too many children": (tree(["object", "test.Net", ["list", 1, 2, 3]]), "tree can't be made a 'test.Net': TypeError: .*arguments"),
    "a dict of no pairs": (tree(["dict", ["x"]]), "is no dict of keys and values"),
    "a key twice": (tree(["dict", ["x", 1], ["x", 2]]), "tree has a key twice"),
    "equal keys": (tree(["dict", [1, 1], [True, 2]]), "tree has a key twice"),
    "a list as key": (tree(["dict", [["list"], 1]]), r"tree has the key \[\]"),
    "an array as key": (tree(["dict", [["array", "a"], 1]]), "tree has the key array"),
    "a tensor as key": (tree(["dict", [["tensor", "a"], 1]]), "tree has the key Tensor"),
    "no number": (tree(["int", "12"]), "no hexadecimal number"),
    "no digits": (tree(["int", 12]), "is described by"),
    "half a float": (tree(["float", "00"]), "1 bytes, not 8"),
    "no float": (tree(["float", "zz"]), "is described by"),
    "a complex of texts": (tree(["complex", "1", "2"]), "no float"),
    "too many parts": (tree(["complex", 1.0, 2.0, 3.0]), "is described by"),
    "a scalar too short": (tree(["scalar", "<f8", "00"]), "1 bytes, not 8"),
    "a scalar boolean of 2": (tree(["scalar", "|b1", "02"]), "no scalar"),
    "a scalar object": (tree(["scalar", "|O", "00" * 8]), "is no dtype that a file holds"),
    "a scalar of no text": (tree(["scalar", ["<f8"], 5]), "is described by"),
    "a text of a list": (tree(["str_", ["a"]]), "no text"),
    "a text of numbers": (tree(["text", 1, 2]), "is described by"),
    "many fields": (tree(["object", "test.Layer", ["dict", *([str(i), 1] for i in range(1000))]]), r"but the file has .{77}\.\.\.$"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), BAD_BYTES.values(), ids=BAD_BYTES)
def test_bytes_that_are_no_file_are_refused(path, data, message):
    path.write_bytes(data)
    refused(path, message)


@pytest.mark.parametrize(("header", "message"), BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_a_bad_header_is_refused(path, header, message):
    write(path, {}, header=header)
    refused(path, message)


@pytest.mark.parametrize(("entries", "data", "message"), BAD_ENTRIES.values(), ids=BAD_ENTRIES)
def test_a_bad_entry_is_refused(path, entries, data, message):
    write(path, entries, data)
    refused(path, message)


@pytest.mark.parametrize(("structure", "message"), BAD_TREES.values(), ids=BAD_TREES)
def test_a_bad_structure_is_refused(path, structure, message):
    write(path, {"a": F4}, bytes(4), structure)
    refused(path, message)


def refused(path: Path, message: str) -> None:
    with pytest.raises(FileFormatError, match=f"(?s)^{re.escape(str(path))}: .*{message}"):
        at.load(path)


def test_keys_made_to_collide_are_refused_at_once(path):
    keys = [complex(-sys.hash_info.imag * i, i) for i in range(1, 12_001)]  # a dict of 100,000 of them takes minutes
    assert len({*map(hash, keys)}) == 1
    write(path, {}, structure=tree(["dict", *([["complex", k.real, k.imag], 1] for k in keys)]))
    refused(path, "tree has too many keys of the same hash")
    wide = {2.0**i: i for i in range(-1074, 1024)}
    assert len({*map(hash, wide)}) == 61 and same(again(wide, path), wide)


def test_text_beyond_unicode_is_refused(path):
    write(path, {"a": ("U8", [1, 4], 0, 4)}, b"\xff" * 4, tree(["array", "a", "<U1"]))
    refused(path, "numbers that are no characters")


def test_a_file_cut_short_while_it_is_read_is_refused(path, monkeypatch):
    at.save(path, np.ones(100_000))
    form = tensor_file.Reader.form
    monkeypatch.setattr(tensor_file.Reader, "form", lambda self, *args: (os.truncate(path, 400_000), form(self, *args))[1])
    refused(path, r"tensor 'array' ends after 3\d\d,\d\d\d of 800,000 bytes")


# ---------------------------------------------------------------- valid files, damaged

SAMPLE = {
    "model": {"w": at.Param(np.arange(6.0).reshape(2, 3)), "t": at.array([1, 2]), "layers": [Layer(np.ones(2)), Net(None, True)]},
    "arrays": [np.array(["ab", "c"]), np.arange(3) + 1j, np.array([True, False]), np.zeros((0, 2)), np.array("2024", "M8[D]")],
    ("key", 1): (1, 2**80, -0.5, float("nan"), 1 + 2j, "text", b"bytes", np.float32(1), np.str_("s"), np.bytes_(b"b")),
    -1.5: [np.dtype("f4"), np.int8, np.ones(2, ">f4")],
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "file"
    at.save(path, SAMPLE)
    return path.read_bytes()


def tolerates(path: Path) -> None:
    """What load and contents make of a file is a tree that can be saved, or a FileFormatError that names the file."""
    for read, look in ((at.load, lambda tree: again(tree, path.with_name("again"))), (io.contents, repr)):
        try:
            found = read(path)
        except FileFormatError as e:
            assert str(e).startswith(f"{path}: ")
        else:
            look(found)


def test_a_file_cut_anywhere_is_refused(path, sample):
    for n in range(0, len(sample), 7):
        path.write_bytes(sample[:n])
        refused(path, "")
    path.write_bytes(sample + b"\0")
    refused(path, "its tensors take")


TOKENS = [b"[", b"]", b'"', b"{", b",", b"-", b"9" * 30, b'\\"', b"\\", b"1e999", b"null"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_never_do_worse_than_be_refused(path, sample, data):
    changed = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        start, n = data.draw(st.integers(0, len(changed))), data.draw(st.integers(0, 12))
        changed[start : start + n] = data.draw(st.binary(max_size=12) | st.sampled_from(TOKENS))
    path.write_bytes(bytes(changed))
    tolerates(path)


WORDS = [
    *("dict", "list", "tuple", "object", "array", "tensor", "param", "raw", "bytes", "scalar", "dtype", "type", "int", "float", "complex"),
    *("str_", "bytes_", "<f4", "|b1", "<U2", "model.w", "arrays.0", "test.Layer", "test.Net", "0x1", "F32", "BOOL"),
]  # fmt: skip
junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=3),
        st.sampled_from(WORDS),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


def places(x: Any) -> list[tuple[Any, Any]]:
    """Every container in some JSON with every key of it."""
    keys = range(len(x)) if isinstance(x, list) else list(x) if isinstance(x, dict) else ()
    return [(x, k) for k in keys] + [p for k in keys for p in places(x[k])]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_structures_never_do_worse_than_be_refused(path, sample, data):
    length = int.from_bytes(sample[:8], "little")
    header = json.loads(sample[8 : 8 + length])
    structure = json.loads(header["__metadata__"].pop("autotape"))
    for _ in range(data.draw(st.integers(1, 3))):
        found = places(data.draw(st.sampled_from([structure, structure, header])))
        where, key = data.draw(st.sampled_from(found))
        other, its = data.draw(st.sampled_from(found))
        change = data.draw(st.sampled_from(["junk", "swap", "copy", "remove"]))
        if change == "remove":
            del where[key]
            break  # the places found may be gone
        new = data.draw(junk) if change == "junk" else json.loads(json.dumps(other[its]))
        if change == "swap":
            other[its] = where[key]
        where[key] = new
    if isinstance(header.get("__metadata__"), dict):
        header["__metadata__"]["autotape"] = json.dumps(structure)
    write(path, {}, sample[8 + length :], header=json.dumps(header).encode())
    tolerates(path)


def test_classes_of_an_opset_are_known_to_a_new_process(tmp_path):
    from autotape.opsets import v20

    moments = v20.bnmoments()
    moments.state = {"momentum": 0.1, "mean": np.ones(2), "var": np.ones(2)}
    at.save(tmp_path / "file", {"bn": moments})
    code = f"import autotape as at; print(at.load({str(tmp_path / 'file')!r})['bn'].state['mean'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.strip() == "[1. 1.]", run.stderr


@pytest.mark.parametrize("read", [at.load, io.contents])
def test_endless_shapes_are_refused_at_once_and_in_short(path, read):
    for shape, message in (
        ([2**63] * 300_000, r"tensor 'a': no array has the shape \[92.*\.\.\. of 300,000 axes"),
        ([2**63] * 60, r"F32 of shape \[92.*\.\.\., can't lie in bytes 0 to 0"),
    ):
        write(path, {"a": ("F32", shape, 0, 0)})
        with pytest.raises(FileFormatError, match=message) as caught:
            read(path)
        assert len(str(caught.value)) < len(str(path)) + 200


@pytest.mark.parametrize("dtype", ["f4", "c8", "U2", ">f4"])
def test_arrays_of_as_many_axes_as_numpy_has_come_back(path, dtype):
    at.save(path, np.zeros((1,) * 64, dtype))
    assert at.load(path).shape == (1,) * 64 == io.contents(path).shape


def test_what_is_loaded_is_of_native_dtype(path):
    dtypes = ("b1", "i1", "i8", "f2", "f4", "c8", "c16", "U3", "M8[ns]")
    at.save(path, {"arrays": [np.ones(2, np.dtype(d).newbyteorder("<")) for d in dtypes], "p": at.Param(np.ones(2)), "x": np.float32(1)})
    found = at.load(path)
    for x, d in zip(found["arrays"], dtypes, strict=True):
        assert x.dtype == np.dtype(d) and (x.dtype.byteorder in "=|" or sys.byteorder == "big")
    assert memoryview(found["arrays"][4]).tolist() == [1, 1] and memoryview(found["p"].numpy()).tolist() == [1, 1]
