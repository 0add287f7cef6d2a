"""The safetensors format: the header's length in 8 bytes, the header (JSON: names, dtypes, shapes, offsets), the arrays' bytes.

Read and written here, not by the format's own library, because that reads through a memory map, where a file cut short meanwhile
ends the process, takes a name that stands twice for its last meaning, and needs to be installed; the core needs NumPy alone.
The tests hold both to the same files.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from io import BufferedReader
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .backends.kernels import Shape
from .errors import FileFormatError

LARGEST_HEADER = 100_000_000  # bytes; the format's own limit
MOST_AXES = 65  # NumPy's 64, and that of `element`
METADATA = "__metadata__"
NUMPY = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8",
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip
ML_DTYPES = {
    "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
TEXTS = NUMPY | ML_DTYPES  # of the format's dtypes, as dtype_text gives them
CODES = {text: code for code, text in TEXTS.items()}
ITEMSIZES = {code: int(text[2:]) for code, text in NUMPY.items()} | {code: 2 if code == "BF16" else 1 for code in ML_DTYPES}
_DTYPE = re.compile(r"\|[biu]1|[<>][iu][248]|[<>]f[248]|[<>]c(8|16)|[<>]U\d{1,8}|\|S\d{1,8}|[<>][mM]8(\[([1-9]\d{0,8})?[a-zA-Z]+\])?")


class Entry(NamedTuple):
    """One tensor of a file: the format's name of its dtype, its shape, and where in the data its bytes lie."""

    code: str
    shape: Shape
    start: int
    end: int


class Source(NamedTuple):
    """An array to be written, fetched from its device only then."""

    dtype: np.dtype[Any]
    shape: Shape
    fetch: Callable[[], np.ndarray[Any, Any]]


# ---------------------------------------------------------------- dtypes


def dtype_text(dtype: np.dtype[Any]) -> str:
    """The text that `dtype_of` reads; TypeError for a dtype that a file can't hold."""
    text = dtype.name if dtype.name in CODES else dtype.str
    if text not in CODES and not _DTYPE.fullmatch(text):
        raise TypeError(f"a safetensors file has no place for dtype {dtype}: take another dtype, or a list")
    return text


def dtype_of(text: str) -> np.dtype[Any]:
    """The dtype of a text; ImportError if it needs ml_dtypes."""
    if CODES.get(text) in ML_DTYPES:
        try:
            found: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), text))
            return found
        except (ImportError, AttributeError) as e:
            raise ImportError(f"arrays of {text} need ml_dtypes, which the extra `files` brings: pip install 'autotape[files]'") from e
    try:
        if _DTYPE.fullmatch(text):
            return np.dtype(text)
    except (TypeError, ValueError, OverflowError):
        pass
    raise FileFormatError(f"{text[:80]!r} is no dtype that a file holds")


def element(dtype: np.dtype[Any]) -> tuple[str, Shape]:
    """How the file sees one element: the format's dtype, and the shape it takes.  Complex numbers are two floats, for older readers."""
    if dtype.kind == "c":
        return f"F{dtype.itemsize * 4}", (2,)
    if dtype.kind in "US":
        return "U8", (dtype.itemsize,)
    return ("I64" if dtype.kind in "mM" else CODES.get(little(dtype).str) or CODES[dtype.name]), ()


def little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in the file's byte order; where that is the machine's it is the native dtype, as a memoryview wants it."""
    return np.dtype(dtype.newbyteorder("<").str) if dtype.isbuiltin != 2 else np.dtype(dtype.type)  # 2: of another package; native


# ---------------------------------------------------------------- writing


def write(file: BinaryIO, arrays: Mapping[str, Source], metadata: Mapping[str, str]) -> None:
    """One file of these arrays by name.  ValueError if the header grows beyond what the format allows."""
    names = sorted(arrays, key=lambda name: -ITEMSIZES[element(arrays[name].dtype)[0]])  # whoever maps the file finds them aligned
    header: dict[str, Any] = {METADATA: metadata}
    end = 0
    for name in names:
        code, inner = element(arrays[name].dtype)
        shape = (*arrays[name].shape, *inner)
        start, end = end, end + ITEMSIZES[code] * math.prod(shape)
        header[name] = {"dtype": code, "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_HEADER:
        raise ValueError(f"names and structure take {len(text):,} bytes; safetensors allows {LARGEST_HEADER:,}: put long lists into arrays")
    file.write(len(text).to_bytes(8, "little") + text)
    for name in names:
        file.write(data_of(arrays[name].fetch()))


def data_of(x: np.ndarray[Any, Any]) -> Any:
    """The bytes of an array as the format has them: C order, little-endian.  ValueError for text that was never filled."""
    x = np.asarray(x, little(x.dtype), order="C")
    if x.dtype.kind == "b":
        x = x.view(np.uint8) != 0  # NumPy takes any byte but 0 for True
    if not _has_characters(x):
        raise ValueError(f"at.save: an array {x.shape} of dtype {x.dtype} holds numbers that are no characters: fill it first")
    return x.reshape(-1).view(np.uint8).data if x.nbytes else b""


# ---------------------------------------------------------------- reading


class Reader:
    """A file whose header was read and checked.  Arrays are read when asked for; whatever is wrong is a FileFormatError."""

    def __init__(self, file: BufferedReader, size: int) -> None:
        """size: the whole file's, in bytes."""
        self._file = file
        length = int.from_bytes(self._exactly(8, "its first 8 bytes, which give the length of its header"), "little")
        said = f"its header would take {length:,} bytes"
        if length > LARGEST_HEADER:
            raise FileFormatError(f"this is no safetensors file: {said}, but the format allows {LARGEST_HEADER:,}")
        if length > size - 8:
            raise FileFormatError(f"it is cut short, or no safetensors file: {said}, but the file has {size:,}")
        header = parsed(self._exactly(length, "its header"), "header")
        self._data = 8 + length
        self.metadata, self.entries = _checked(header, size - self._data)

    def form(self, name: str, text: str | None = None) -> tuple[str, Shape]:
        """The text of the dtype and the shape of an array.  `text` is its dtype where the file has it in the guise of another."""
        if (entry := self.entries.get(name)) is None:
            raise FileFormatError(f"there is no tensor {name[:80]!r}")
        if text is None:
            return TEXTS[entry.code], entry.shape
        code, inner = element(dtype_of(text))
        shape = entry.shape[: len(entry.shape) - len(inner)]
        if (code, shape + inner) != (entry.code, entry.shape):
            raise FileFormatError(f"tensor {name[:80]!r}, {entry.code} of shape {_brief(entry.shape)}, holds no array of {text}")
        return text, shape

    def read(self, name: str, text: str | None = None) -> np.ndarray[Any, Any]:
        """The array; its dtype is given as in `form`."""
        (text, shape), entry = self.form(name, text), self.entries[name]
        dtype = dtype_of(text)
        try:
            x: np.ndarray[Any, Any] = np.ndarray(shape, little(dtype))  # np.empty has no text of length 0
        except ValueError as e:
            raise FileFormatError(f"tensor {name[:80]!r}: no array has the shape {_brief(shape)}") from e
        if x.nbytes:
            self._fill(x.reshape(-1).view(np.uint8), name, entry.start)
            _check_values(x, name)
        return x.astype(dtype, copy=False)

    def _fill(self, x: np.ndarray[Any, Any], name: str, start: int) -> None:
        self._file.seek(self._data + start)
        if (got := self._file.readinto(x.data)) != len(x):
            raise FileFormatError(f"tensor {name[:80]!r} ends after {got:,} of {len(x):,} bytes")

    def _exactly(self, n: int, what: str) -> bytes:
        found = self._file.read(n)
        if len(found) != n:
            raise FileFormatError(f"it ends within {what}")
        return found


def parsed(text: str | bytes, what: str) -> Any:
    """JSON, strictly: UTF-8, no name twice, no NaN, no endless number."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_short)
    except (ValueError, RecursionError) as e:
        raise FileFormatError(f"its {what} is not the JSON it should be: {e}") from e


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:80]!r} stands twice")
        found[name] = value
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _short(text: str) -> int:
    if len(text) > 21:  # 64 bits and a sign
        raise ValueError(f"{text[:21]}... is too long a number")
    return int(text)


def _checked(header: Any, size: int) -> tuple[dict[str, str], dict[str, Entry]]:
    """Metadata and entries of a header, if they are well formed and the entries cover the data, of `size` bytes, exactly once."""
    if not isinstance(header, dict):
        raise FileFormatError("its header is no JSON object")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FileFormatError("its metadata are not texts by name")
    entries = {name: _entry(name, found) for name, found in header.items()}
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
        if entry.start != end:
            raise FileFormatError(f"tensor {name[:80]!r} begins at byte {entry.start:,} of the data; the one before it ends at {end:,}")
        end = entry.end
    if end != size:
        raise FileFormatError(f"its tensors take {end:,} bytes, but the file has {size:,} for them")
    return metadata, entries


def _entry(name: str, found: Any) -> Entry:
    match found:
        case {"dtype": str(code), "shape": [*shape], "data_offsets": [start, end]} if all(map(_is_count, (*shape, start, end))):
            if len(shape) > MOST_AXES:
                raise FileFormatError(f"tensor {name[:80]!r}: no array has the shape {_brief(shape[:MOST_AXES])} of {len(shape):,} axes")
            if code not in ITEMSIZES:
                raise FileFormatError(f"tensor {name[:80]!r} is of dtype {code[:80]!r}, which NumPy has no arrays of")
            if ITEMSIZES[code] * math.prod(shape) != end - start:
                raise FileFormatError(f"tensor {name[:80]!r}, {code} of shape {_brief(shape)}, can't lie in bytes {start:,} to {end:,}")
            return Entry(code, tuple(shape), start, end)
    raise FileFormatError(f"tensor {name[:80]!r} is not described by dtype, shape and data_offsets")


def _is_count(n: Any) -> bool:
    return type(n) is int and n >= 0


def _brief(shape: Sequence[int]) -> str:
    text = str(list(shape))
    return text if len(text) <= 80 else text[:77] + "..."


def _check_values(x: np.ndarray[Any, Any], name: str) -> None:
    """Refuse bytes that NumPy would take for granted and stumble over later."""
    if x.dtype.kind == "b" and x.view(np.uint8).max() > 1:
        raise FileFormatError(f"tensor {name[:80]!r} of booleans has other bytes than 0 and 1")
    if not _has_characters(x):
        raise FileFormatError(f"tensor {name[:80]!r} of text has numbers that are no characters")


def _has_characters(x: np.ndarray[Any, Any]) -> bool:
    """Whether a C-contiguous array is of no text, or of text that Python can hold."""
    return x.dtype.kind != "U" or not x.nbytes or bool(x.reshape(-1).view("<u4").max() <= sys.maxunicode)
