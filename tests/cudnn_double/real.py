"""The real libcudnn, found as the binding finds it: it answers whatever needs no device."""

import ctypes
import functools
import importlib.util
import sys
from pathlib import Path

from autotape import backends

from .headers import Headers
from .refusal import bad

_FINDER = "autotape.backends.cudnn_backend.binding.library"


def finder():
    """The binding's library.py, without the binding, whose import loads the library that it finds."""
    if _FINDER not in sys.modules:
        path = Path(backends.__path__[0]) / "cudnn_backend" / "binding" / "library.py"
        spec = importlib.util.spec_from_file_location(_FINDER, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[_FINDER] = module
    return sys.modules[_FINDER]


class Real:
    """The library's functions with the types that its headers give them, each loaded when it is first asked for."""

    def __init__(self, dll):
        self.dll, self.headers = dll, _headers(dll)

    def __getattr__(self, name):
        function = self.headers.prototype(name)((name, self.dll))
        setattr(self, name, function)
        return function

    def ask(self, name, *args):
        """The values of those arguments that a call fills, for which their types are given."""
        made = [a() if isinstance(a, type) else a for a in args]
        outs = [m for m, a in zip(made, args, strict=True) if isinstance(a, type)]
        if getattr(self, name)(*[ctypes.byref(m) if isinstance(a, type) else m for m, a in zip(made, args, strict=True)]):
            raise bad(f"{name}: {self.last_words()}")
        return [tuple(out) if isinstance(out, ctypes.Array) else out.value for out in outs]

    def last_words(self):
        text = ctypes.create_string_buffer(2000)
        self.cudnnGetLastErrorString(text, len(text))
        return text.value.decode()


def _headers(dll):
    """Those beside the library, as the wheel has them, or the system's."""
    for folder in [Path(dll._name).parent.parent / "include", Path("/usr/include")]:
        if (folder / "cudnn.h").exists():
            return Headers(folder)
    raise OSError(f"there is no cudnn.h near {dll._name}")


@functools.cache
def real():
    """The library.  Raises OSError."""
    return Real(finder().load())
