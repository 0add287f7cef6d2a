"""What cuDNN's own headers say: functions with the types of their arguments, enumerators, and structs.

They are plain C, so this reads them without a compiler: comments and directives away, and what remains are typedefs and prototypes.
"""

import ctypes
import re
from typing import NamedTuple

_C_TYPES = {
    "int": ctypes.c_int, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "unsigned": ctypes.c_uint, "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t, "float": ctypes.c_float, "double": ctypes.c_double, "unsigned long long": ctypes.c_ulonglong,
    "cudaStream_t": ctypes.c_void_p, "libraryPropertyType": ctypes.c_int, "void": None, "const char*": ctypes.c_char_p,
}  # fmt: skip


class Parameter(NamedTuple):
    type: str  # as it is written, without const; an array is a pointer, int*
    name: str


class Function(NamedTuple):
    result: str
    parameters: list


class Headers:
    def __init__(self, folder):
        text = "\n".join(path.read_text() for path in sorted(folder.glob("cudnn*.h")))
        self.defines = _defines(text)
        text = _plain(text)
        self.enumerators, self._enums = _enumerators(text)
        self._opaque = set(re.findall(r"typedef (?:struct \w+|void) ?\* ?(\w+) ?;", text))
        self._structs = dict(reversed(m) for m in re.findall(r"typedef struct \w* ?\{([^{}]*)\} ?(\w+) ?;", text))
        self.functions = {name: _function(result, arguments) for result, name, arguments in _prototypes(text)}

    def c_type(self, name):
        """The type of ctypes that passes this one; pointers of all kinds are void*."""
        if name in self._enums:
            return ctypes.c_int
        is_pointer = name in self._opaque or (name.endswith("*") and name not in _C_TYPES)
        return ctypes.c_void_p if is_pointer else _C_TYPES[name]

    def prototype(self, name):
        """The function's type, for a pointer to it or a callback."""
        function = self.functions[name]
        return ctypes.CFUNCTYPE(self.c_type(function.result), *[self.c_type(p.type) for p in function.parameters])

    def struct(self, name):
        """A struct of ctypes with the fields of the header's."""
        fields = [re.fullmatch(r"(.+?) (\w+)(?:\[(\d+)\])?", f.strip()) for f in self._structs[name].split(";") if f.strip()]
        typed = [(f[2], self.c_type(f[1]) if f[3] is None else self.c_type(f[1]) * int(f[3])) for f in fields]
        return type(name, (ctypes.Structure,), {"_fields_": typed})


def _plain(text):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", " ", text, flags=re.MULTILINE)
    return " ".join(re.sub(r"\bCUDNN(?:WINAPI|_DEPRECATED\w*)\b", " ", text).split())


def _defines(text):
    """Macros that are numbers; those that stand for several words or other macros are nobody's enumerators."""
    found = re.findall(r"^#define (CUDNN_\w+) +(\(?[\d. <U]+\)?|\d[\w.-]*)\s*(?:/\*.*)?$", text, re.MULTILINE)
    return {name: _number(value, {}) for name, value in found}


def _enumerators(text):
    values, names = {}, set()
    for body, name in re.findall(r"typedef enum ?\w* ?\{([^}]*)\} ?(\w+) ?;", text):
        names.add(name)
        last = -1
        for item in filter(None, map(str.strip, body.split(","))):
            key, _, value = map(str.strip, item.partition("="))
            values[key] = last = _number(value, values) if value else last + 1
    return values, names


def _number(text, known):
    """The value of a constant expression: a number, a shift, another enumerator."""
    text = re.sub(r"(?<=\d)U\b", "", text)
    return eval(text, {"__builtins__": {}}, known)


def _prototypes(text):
    return re.findall(r"(cudnnStatus_t|size_t|void|const char ?\*) (cudnn\w+)\(([^()]*)\) ?;", text)


def _function(result, arguments):
    given = [a for a in arguments.split(",") if a.strip() not in ("", "void")]
    return Function(result.replace(" *", "*"), [_parameter(a) for a in given])


def _parameter(text):
    """`const cudnnTensorDescriptor_t xDesc`, `const int dimA[]`, `void **mAddr`."""
    kind, stars, name, array = re.fullmatch(r"\s*(?:const )?(?:struct )?(.+?) ?(\**) ?(\w+) ?(\[\d*\])?\s*", text).groups()
    return Parameter(kind + stars + ("*" if array else ""), name)
