"""at.save and at.load: a tree of arrays and plain values as one safetensors file, and back.

Arrays are the file's tensors, under names made of their places in the tree.  The structure is JSON in its metadata: None, bool, str and
most numbers as themselves, all else as a list that begins with what it is: ["dict", [key, value], ...], ["array", name].
Nothing is imported, called or opened by a name found in a file, but for our own opsets: classes are looked up among those given
to `register`.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import inspect
import json
import math
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeVar

import numpy as np

from . import backend, tensor_file
from .backends.kernels import Shape
from .errors import BackendError, FileFormatError
from .opsets import OPSETS
from .opsets import load as load_opset
from .param import Param
from .tensor import Tensor, adopt, backend_of, constant, refuse_tracked
from .tensor_file import ML_DTYPES, TEXTS, Reader, Source, data_of, dtype_of, dtype_text, element, little, parsed
from .tree import _nodes

Where = tuple[Any, ...]  # the keys that lead to a place in a tree
C = TypeVar("C", bound=type)

KEY, VERSION = "autotape", 1  # the entry of the metadata, and the version of what stands in it
DEEPEST = 100  # levels of a tree
MOST_COLLISIONS = 10_000  # keys of a dict that share their hashes with others; many more make it take hours


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write a tree to one safetensors file, which takes an older one's place only when it is whole and on the disk.

    A tree is made of dicts, lists, tuples, registered classes (`at.io.register`), and leaves: NumPy arrays and scalars, Tensors,
    Params, arrays of a backend, None, bool, int, float, complex, str, bytes, dtypes.  An array, Tensor or Param that stands in
    several places is written once, and is one object again when loaded.  Raises TypeError for anything else, naming its place, and
    ValueError for a tree of more than 100 levels, one that holds itself, or an array of text that was never filled, and OSError for
    a file that can't be written.
    """
    path, writer = _path(path, "at.save"), _Writer()
    try:
        structure = json.dumps({"version": VERSION, "tree": writer.node(tree, ())}, separators=(",", ":"))
    except RecursionError as e:
        raise ValueError(f"at.save: the tree or one of its keys goes deeper than {DEEPEST} levels") from e
    with atomically(path) as file:
        tensor_file.write(file, writer.arrays, {KEY: structure})


def load(path: str | os.PathLike[str], only: Any = None) -> Any:
    """The tree that `save` wrote: NumPy arrays where those were, Tensors and Params on the current backend, all else as it was.

    only: a key, or a tuple of keys from the top of the tree down; what stands there is returned, and no other array is read.
    Arrays are C-contiguous.  Another program's safetensors file gives a dict of its arrays.  Raises FileFormatError for a file that
    is damaged or holds what it can't take, KeyError where `only` leads nowhere, ImportError where a dtype needs ml_dtypes, and
    OSError for a file that isn't there or can't be read.
    """
    with _opened(path, "at.load") as reader:
        builder, structure = _Builder(reader), _structure(reader)
        if only is not None:
            return _part(builder, structure, only if isinstance(only, tuple) else (only,), path)
        found = builder.value(structure, ())
        if unread := reader.entries.keys() - builder.made.keys():
            raise FileFormatError(f"its structure has no place for tensor {min(unread)[:80]!r}")
        return found


class Content(NamedTuple):
    """What stands for an array in the tree that `contents` gives.  kind: array, tensor, param, raw (a backend's) or bytes."""

    kind: str
    shape: Shape
    dtype: str


def contents(path: str | os.PathLike[str]) -> Any:
    """The tree in a file with a Content in place of each array, and what was packed in place of instances of classes; reads no array.

    Raises as `load` does.
    """
    with _opened(path, "at.io.contents") as reader:
        return _Lister(reader).value(_structure(reader), ())


def _path(path: str | os.PathLike[str], function: str) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise TypeError(f"{function}: the first argument is a file's path, text or a Path, not {_short(path)}") from None


@contextmanager
def _opened(path: str | os.PathLike[str], function: str) -> Iterator[Reader]:
    """The file, for as long as the block lasts; what is found wrong with it names it."""
    path = _path(path, function)
    try:
        if path.exists() and not path.is_file():
            raise FileFormatError("this is a folder or a device, not a file")
        with open(path, "rb") as file:
            yield Reader(file, os.fstat(file.fileno()).st_size)
    except FileFormatError as e:
        e.args = (f"{path}: {e}",)
        raise
    except RecursionError as e:
        raise FileFormatError(f"{path}: its structure goes too deep") from e


# ---------------------------------------------------------------- files that are whole or not there


@contextmanager
def atomically(path: Path) -> Iterator[BinaryIO]:
    """A new file beside `path` that takes its place when the block ends, and vanishes if the block raises."""
    path = path.resolve()  # through a link, not in its place
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "this is a folder or a device, not a file", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    temporary = path.with_name(f".{path.name[:40]}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            if path.exists():
                shutil.copymode(path, temporary)  # before there is anything to read
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as e:
        temporary.unlink(missing_ok=True)
        if isinstance(e, OSError) and e.filename in (None, str(temporary)):
            e.filename = str(path)  # a full disk says no name
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring a new name in the folder to the disk; systems that can't open folders do so by themselves."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---------------------------------------------------------------- classes


class _Class(NamedTuple):
    name: str
    cls: type
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


_classes: dict[type, _Class] = {}
_names: dict[str, _Class] = {}


def register(
    cls: C, name: str | None = None, pack: Callable[[Any], Any] | None = None, unpack: Callable[[Any], Any] | None = None
) -> C:
    """Let instances of cls be saved and loaded, under `name` (by default the class's); returns cls, so it may decorate a class.

    pack(instance) gives a tree, unpack(tree) an instance.  Named tuples and dataclasses need neither: they are saved by field, and
    dataclasses are made without a call of __init__.  Classes known to at.tree.register are saved as the list of their children and
    need unpack(list).  Raises TypeError where a function is missing, ValueError if the name is another class's.
    """
    if not isinstance(cls, type) or not isinstance(name, (str, type(None))):
        raise TypeError(f"at.io.register takes a class, and a text for its name, but got {_short(cls)} and {_short(name)}")
    by_default, name = _by_default(cls), name or cls.__name__
    pack, unpack = pack or by_default[0], unpack or by_default[1]
    if pack is None or unpack is None:
        missing = "unpack" if pack else "pack" if unpack else "pack and unpack"
        raise TypeError(f"at.io.register: {cls.__name__} is no named tuple or dataclass, so give {missing} too")
    if (other := _names.get(name)) is not None and _origin(other.cls) != _origin(cls):
        raise ValueError(f"at.io.register: {name!r} is the name of {'.'.join(_origin(other.cls))} already: give another name")
    _classes[cls] = _names[name] = _Class(name, cls, pack, unpack)
    return cls


def _origin(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__  # a notebook's cell that runs again makes its class anew


def _by_default(cls: type) -> tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None]:
    """The pack and unpack of a class for which none are given."""
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names, make = cls._fields, getattr(cls, "_make")  # noqa: B009  mypy knows no _make
        return lambda x: x._asdict(), lambda fields: make(_values(names, fields))
    if dataclasses.is_dataclass(cls):
        names = tuple(f.name for f in dataclasses.fields(cls))
        return lambda x: _fields(x, names), lambda fields: _dataclass(cls, names, _values(names, fields))
    return (lambda x: list(_nodes[cls][0](x))) if cls in _nodes else None, None


def _fields(x: Any, names: Sequence[str]) -> dict[str, Any]:
    if missing := [name for name in names if not hasattr(x, name)]:
        raise TypeError(f"the field {missing[0]!r} of this {type(x).__name__} has no value: set it before saving")
    return {name: getattr(x, name) for name in names}


def _values(names: Sequence[str], fields: Any) -> list[Any]:
    if not isinstance(fields, dict) or fields.keys() != set(names):
        found = _short(list(fields)) if isinstance(fields, dict) else type(fields).__name__
        raise ValueError(f"its fields are {list(names)}, but the file has {found}")
    return [fields[name] for name in names]


def _dataclass(cls: type, names: Sequence[str], values: Sequence[Any]) -> Any:
    x: Any = object.__new__(cls)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(x, name, value)  # also where the class is frozen
    return x


# ---------------------------------------------------------------- from trees to JSON


class _Writer:
    """Makes the JSON of a tree, and collects the arrays it speaks of by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, Source] = {}
        self.seen: dict[int, tuple[Any, list[Any]]] = {}  # the object too, so that its id stays its own

    def node(self, x: Any, where: Where, depth: int = 0) -> Any:
        cls = type(x)
        if x is None or cls is bool:
            return x
        if (plain := _PLAIN.get(cls)) is not None:
            return plain(x)
        if cls in (list, tuple, dict) or cls in _classes:
            return self.inner(x, where, depth + 1)
        try:
            return self.leaf(x, where)
        except TypeError as e:
            raise TypeError(f"at.save: {_place(where)}: {e}") from None

    def inner(self, x: Any, where: Where, depth: int) -> list[Any]:
        if depth > DEEPEST:
            raise ValueError(f"at.save: {_place(where[:3])}... goes deeper than {DEEPEST} levels, or holds itself")
        if (known := _classes.get(type(x))) is not None:
            return ["object", known.name, self.node(self.packed(known, x, where), where, depth)]
        if type(x) is dict:
            return ["dict", *([self.key(k, where), self.node(v, (*where, k), depth)] for k, v in x.items())]
        return [type(x).__name__, *(self.node(v, (*where, i), depth) for i, v in enumerate(x))]

    def packed(self, known: _Class, x: Any, where: Where) -> Any:
        try:
            return known.pack(x)
        except TypeError as e:
            raise TypeError(f"at.save: {_place(where)}: {e}") from e

    def key(self, k: Any, where: Where) -> Any:
        if not _is_key(k):
            may = "text, numbers of 64 bits, None, dtypes, or tuples of these"
            raise TypeError(f"at.save: {_place(where)} has the key {_short(k)}: keys are {may}")
        return self.node(k, where)

    def leaf(self, x: Any, where: Where) -> list[Any]:
        if isinstance(x, np.dtype):
            return ["dtype", dtype_text(x)]
        if isinstance(x, type) and issubclass(x, np.generic) and np.dtype(x).type is x:
            return ["type", dtype_text(np.dtype(x))]
        if isinstance(x, np.generic) and x.dtype.type is type(x):  # no subclass, which would not come back
            return ["scalar", dtype_text(x.dtype), bytes(data_of(np.asarray(x))).hex()]
        if (known := self.seen.get(id(x))) is not None:
            return known[1]
        kind, source = _source(x)
        text, name = dtype_text(source.dtype), self.name(where)
        node = [kind, name] if TEXTS[element(source.dtype)[0]] == text else [kind, name, text]
        self.arrays[name] = source
        self.seen[id(x)] = x, node
        return node

    def name(self, where: Where) -> str:
        """A name that says where the array stands, and is harmless even as a file's."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", ".".join(map(str, where)))[:200].lstrip(".") or "array"
        return name if name not in self.arrays and name != tensor_file.METADATA else f"{name}~{len(self.arrays)}"


def _float(x: float) -> Any:
    return x if math.isfinite(x) else ["float", struct.pack(">d", x).hex()]


def _text(x: str) -> Any:
    parts = _PAIR.split(x)
    return x if len(parts) == 1 else ["text", *parts]


_PAIR = re.compile(r"(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")  # JSON takes two surrogates in a row for one character
_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: _text,
    int: lambda x: x if x.bit_length() <= 64 else ["int", hex(x)],
    float: _float,
    complex: lambda x: ["complex", _float(x.real), _float(x.imag)],
    np.str_: lambda x: ["str_", _text(x[:])],  # str(x), and an array of it, would lose zeros at its end
    np.bytes_: lambda x: ["bytes_", x.hex()],
}


def _source(x: Any) -> tuple[str, Source]:
    """The kind of an array, and how to write it."""
    if isinstance(x, Tensor):
        refuse_tracked(x, "saving t")
        return "tensor", Source(np.dtype(x.dtype), x.shape, x.numpy)
    if type(x) is Param:
        return "param", Source(np.dtype(x.dtype), x.shape, x.numpy)
    if type(x) in (np.ndarray, np.memmap):
        return "array", Source(x.dtype, x.shape, lambda: np.asarray(x))
    if type(x) is bytes:
        return "bytes", Source(np.dtype(np.uint8), (len(x),), lambda: np.frombuffer(x, np.uint8))
    arrays: Any = tuple(k.array for k in backend.loaded())
    if isinstance(x, arrays) and not isinstance(x, np.ndarray):
        return "raw", Source(np.dtype(x.dtype), x.shape, lambda: np.asarray(backend_of(x).to_numpy(x)))
    raise TypeError(f"can't save {_short(x)}, a {type(x).__module__}.{type(x).__qualname__}: {_advice(x)}")


def _advice(x: Any) -> str:
    if isinstance(x, (type, np.ufunc, functools.partial)) or inspect.isroutine(x):
        return "leave it out, and put it back after loading"
    if hasattr(x, "__array__") or hasattr(x, "__dlpack__"):
        return "make it a NumPy array, or tell at.io.register how its class is saved"
    if dataclasses.is_dataclass(x) or hasattr(x, "_fields"):
        return f"at.io.register({type(x).__name__}) lets it be saved"
    if hasattr(type(x), "state"):
        return "save its state, and set that after loading"
    return "tell at.io.register how its class is saved and loaded"


def _is_key(k: Any) -> bool:
    if type(k) is tuple:
        return all(map(_is_key, k))
    return k.bit_length() <= 64 if type(k) is int else type(k) in _KEYS or isinstance(k, (np.generic, np.dtype))


_KEYS = (type(None), bool, float, complex, str)


def _place(where: Where) -> str:
    return "tree" + "".join(f"[{_short(k)}]" for k in where)


def _short(x: Any) -> str:
    try:
        text = " ".join(repr(x).split())
    except Exception:
        text = object.__repr__(x)  # somebody's own may raise, as a dataclass's does where a field has no value
    return text if len(text) <= 80 else text[:77] + "..."


# ---------------------------------------------------------------- from JSON to trees


def _structure(reader: Reader) -> Any:
    """The JSON of the tree in a file; of another program's file, of the dict of its arrays."""
    if (text := reader.metadata.get(KEY)) is None:
        return ["dict", *([name, ["array", name]] for name in reader.entries)]
    found = parsed(text, "structure")
    version = found.get("version") if isinstance(found, dict) else None
    if type(version) is not int or "tree" not in found:
        raise FileFormatError("its structure has no version and tree")
    if version != VERSION:
        raise FileFormatError(f"its structure is of version {version}; this autotape reads version {VERSION}")
    return found["tree"]


class _Builder:
    """Makes the tree that the JSON describes."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.made: dict[str, tuple[Any, Any]] = {}  # each array's kind and dtype, and what became of it

    def value(self, node: Any, where: Where, depth: int = 0) -> Any:
        if depth > DEEPEST:
            self.bad(where[:3], f"goes deeper than {DEEPEST} levels")
        match node:
            case None | bool() | int() | float() | str():
                return node
            case ["dict", *_]:
                return {k: self.value(v, (*where, k), depth + 1) for k, v in self.children(node, where).items()}
            case ["list" | "tuple" as kind, *nodes]:
                found = [self.value(n, (*where, i), depth + 1) for i, n in enumerate(nodes)]
                return found if kind == "list" else tuple(found)
            case ["object", str(name), packed]:
                return self.instance(name, self.value(packed, where, depth + 1), where)
            case [str(kind), str(name)] | [str(kind), str(name), str()] if kind in _MAKERS:
                return self.array(kind, name, *node[2:])
            case [str(kind), *texts] if kind in _READERS:
                return self.plain(kind, texts, where)
        return self.bad(where, f"is described by {_short(node)}")

    def children(self, node: Any, where: Where) -> dict[Any, Any]:
        """The children of an inner node, by key."""
        match node:
            case ["object", str(), packed]:
                return self.children(packed, where)
            case ["list" | "tuple", *nodes]:
                return dict(enumerate(nodes))
            case ["dict", *pairs] if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                keys = [self.key(k, where) for k, _ in pairs]
                if len(keys) - len({*map(hash, keys)}) > MOST_COLLISIONS:
                    self.bad(where, "has too many keys of the same hash")
                found = {k: child for k, (_, child) in zip(keys, pairs, strict=True)}
                return found if len(found) == len(pairs) else self.bad(where, "has a key twice")
            case ["dict", *_]:
                self.bad(where, "is no dict of keys and values")
        return {}

    def key(self, node: Any, where: Where) -> Any:
        k = self.value(node, where)
        return k if _is_key(k) else self.bad(where, f"has the key {_short(k)}")

    def plain(self, kind: str, texts: list[Any], where: Where) -> Any:
        try:
            return _READERS[kind](*texts)
        except (TypeError, ValueError) as e:
            return self.bad(where, f"is described by {_short([kind, *texts])}: {e}")

    def instance(self, name: str, packed: Any, where: Where) -> Any:
        if name not in _names and (opset := name.partition(".")[0]) in OPSETS:
            load_opset(opset)  # which registers its classes
        if (known := _names.get(name)) is None:
            self.bad(where, f"is a {name[:80]!r}: give the class of that name to at.io.register before loading")
        try:
            return known.unpack(packed)
        except Exception as e:
            raise FileFormatError(f"{_place(where)} can't be made a {name!r}: {type(e).__name__}: {e}") from e

    def array(self, kind: str, name: str, text: str | None = None) -> Any:
        if name not in self.made:
            self.made[name] = (kind, text), self.make(kind, name, text)
        said, made = self.made[name]
        if said != (kind, text):
            raise FileFormatError(f"tensor {name[:80]!r} is {said} in one place and {(kind, text)} in another")
        return made

    def make(self, kind: str, name: str, text: str | None) -> Any:
        x = self.reader.read(name, text)
        try:
            return _MAKERS[kind](x)
        except (TypeError, ValueError, BackendError) as e:
            raise FileFormatError(f"tensor {name[:80]!r} can't be loaded as {kind}: {e}") from e

    def bad(self, where: Where, what: str) -> NoReturn:
        raise FileFormatError(f"{_place(where)} {what}")


class _Lister(_Builder):
    """The same without reading arrays."""

    def instance(self, name: str, packed: Any, where: Where) -> Any:
        return packed

    def make(self, kind: str, name: str, text: str | None) -> Any:
        text, shape = self.reader.form(name, text)
        return Content(kind, shape, text if text in ML_DTYPES.values() else str(dtype_of(text)))


def _part(builder: _Builder, node: Any, only: Where, path: Any) -> Any:
    """The subtree to which the keys lead."""
    for i, key in enumerate(only):
        children = builder.children(node, only[:i])
        if not _has(children, key):
            there = f"has the keys {_short(list(children))}" if children else "has none"
            raise KeyError(f"{path} holds no {_place(only[: i + 1])}: {_place(only[:i])} {there}")
        node = children[key]
    return builder.value(node, only)


def _has(children: dict[Any, Any], key: Any) -> bool:
    try:
        return key in children
    except TypeError:  # a list, say
        raise TypeError(f"at.load: only is a key or a tuple of keys, and {_short(key)} is no key") from None


def _bytes_of(x: np.ndarray[Any, Any]) -> bytes:
    if x.dtype != np.uint8 or x.ndim != 1:
        raise TypeError(f"bytes are of uint8 and one axis, not {x.dtype} of shape {x.shape}")
    return x.tobytes()


_MAKERS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "array": lambda x: x,
    "tensor": lambda x: constant(adopt(x, backend.kernels())),
    "param": Param,
    "raw": lambda x: adopt(x, backend.kernels()),
    "bytes": _bytes_of,
}


def _int_of(text: str) -> int:
    if not re.fullmatch(r"-?0x[0-9a-f]+", text):
        raise ValueError("no hexadecimal number")
    return int(text, 16)


def _float_of(node: Any) -> float:
    match node:
        case float():
            return node
        case ["float", str(text)]:
            return float(struct.unpack(">d", _hex(text, 8))[0])
    raise ValueError("no float")


def _text_of(node: Any) -> str:
    match node:
        case str():
            return node
        case ["text", *parts]:
            return "".join(parts)
    raise TypeError("no text")


def _scalar_of(text: str, digits: str) -> Any:
    dtype = dtype_of(text)
    data = _hex(digits, dtype.itemsize)
    if (dtype.kind == "b" and data > b"\1") or dtype.kind in "US":
        raise ValueError("no scalar")
    return np.frombuffer(data, little(dtype))[0]


def _hex(digits: str, size: int | None = None) -> bytes:
    data = bytes.fromhex(digits)
    if size is not None and len(data) != size:
        raise ValueError(f"{len(data)} bytes, not {size}")
    return data


_READERS: dict[str, Callable[..., Any]] = {
    "int": _int_of,
    "float": lambda text: _float_of(["float", text]),
    "complex": lambda real, imag: complex(_float_of(real), _float_of(imag)),
    "text": lambda *parts: _text_of(["text", *parts]),
    "str_": lambda node: np.str_(_text_of(node)),
    "bytes_": lambda digits: np.bytes_(_hex(digits)),
    "dtype": dtype_of,
    "type": lambda text: dtype_of(text).type,
    "scalar": _scalar_of,
}
