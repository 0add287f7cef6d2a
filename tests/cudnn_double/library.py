"""The object that stands for libcudnn: real descriptors, and calls that compute done in Python.

Every function it gives is a C function with the types of cuDNN's header, so that a call goes through the C ABI as it would into the real
library.  Before a call is passed on, its descriptors and its handle are looked up among the living; whatever goes wrong in Python becomes a
status, and the reason the last error's text.
"""

import ctypes
import importlib
import itertools
import re
import threading
import traceback
from collections import Counter, deque
from dataclasses import dataclass, field

from . import descriptors
from .algorithms import Settings
from .real import real
from .refusal import Refused, require, unsupported

_FILES = (
    "handles", "convolution", "algorithms", "pointwise", "softmaxes", "reductions", "pooling", "normalisation", "dropout", "recurrent",
)  # fmt: skip
_QUARANTINE = 1000  # destroyed descriptors whose addresses are not given out again yet, so that a use of them is seen
_WITHOUT_STATUS = {"cudnnGetErrorString", "cudnnGetVersion", "cudnnGetCudartVersion"}


@dataclass(eq=False)
class Descriptor:
    """A living descriptor; `notes` are what calls with a handle have set in it, which the real library never sees."""

    kind: str
    address: int
    notes: dict = field(default_factory=dict)


@dataclass(eq=False)
class Handle:
    address: int
    stream: int = 0


class Double:
    """Takes the place of ctypes.CDLL.  Tests read `calls`, `living` and `handles`, and make calls `fail`."""

    def __init__(self):
        self._real = real()
        self.handles, self._descriptors = {}, {}
        self.algorithms = Settings()
        self._destroyed, self._noted, self._failures = deque(), deque(maxlen=1000), {}
        self._here, self._addresses = threading.local(), itertools.count(0xC0D1000, 0x100)
        self._python = {}
        for file in _FILES:
            self._python |= importlib.import_module(f".{file}", __package__).CALLS

    # -- for tests
    def calls(self, *names):
        """The calls with a handle since the last look, the last thousand, of these names if any are given: {"name": ..., "x": ..., ...}."""
        noted = [self._noted.popleft() for _ in range(len(self._noted))]
        return [call for call in noted if not names or call["name"] in names]

    def fail(self, name, status="EXECUTION_FAILED", times=1):
        """The next calls of this name give this status; times=0 takes that back."""
        self._failures[name] = [status, times]

    def reset(self):
        """Forget the calls, and what tests have set."""
        self._noted.clear()
        self._failures.clear()
        self.algorithms.reset()

    def living(self):
        """How many descriptors there are, by kind."""
        return Counter(d.kind for d in self._descriptors.values())

    # -- as a library
    def __getattr__(self, name):
        if not name.startswith("cudnn"):
            raise AttributeError(name)
        function = self._function(name)
        setattr(self, name, function)
        return function

    def _function(self, name):
        if name in _WITHOUT_STATUS:
            return getattr(self._real, name)
        if name not in self._real.headers.functions:
            raise AttributeError(f"cuDNN's headers have no {name}")
        body = self._last_words if name == "cudnnGetLastErrorString" else self._status_of(name, self._body(name))
        return self._real.headers.prototype(name)(body)

    def _body(self, name):
        """Python's own function, or the real one; descriptors come and go through the list of the living."""
        if found := re.fullmatch(r"cudnn(Create|Destroy)(\w+Descriptor)", name):
            return getattr(self, f"_{found[1].lower()}")(found[2])
        if (own := self._python.get(name)) is not None:
            return self._with_objects(name, own)
        return self._with_checked_descriptors(name, getattr(self._real, name))

    def _status_of(self, name, body):
        def call(*args):
            try:
                self._fail_if_told(name)
                return body(*args) or 0
            except Refused as e:
                return self._say(e.status, f"{name}: {e}")
            except Exception as e:
                return self._say("INTERNAL_ERROR", f"{name}: the double broke: {e!r}\n{traceback.format_exc()}")

        return call

    def _with_objects(self, name, own):
        """A function of Python's has descriptors and the handle as objects, None for null."""
        parameters = self._real.headers.functions[name].parameters

        def body(*args):
            found = {p.name: self._object(p, a) for p, a in zip(parameters, args, strict=True)}
            if isinstance(found.get("handle"), Handle):
                self._noted.append({"name": name, **{key: _read(value) for key, value in found.items()}})
            return own(self, *found.values())

        return body

    def _with_checked_descriptors(self, name, function):
        parameters = self._real.headers.functions[name].parameters
        needs_device = any(p.type == "cudnnHandle_t" for p in parameters)

        def body(*args):
            if needs_device:
                raise unsupported("the double doesn't have it")
            for parameter, value in zip(parameters, args, strict=True):
                self._object(parameter, value)
            self._here.words = None
            return function(*args)

        return body

    def _object(self, parameter, value):
        if parameter.type == "cudnnHandle_t":
            require(value in self.handles, f"{parameter.name} is no handle, or was destroyed")
            return self.handles[value]
        if value is None or (found := re.fullmatch(r"cudnn(\w+Descriptor)_t", parameter.type)) is None:
            return value
        descriptor = self._descriptors.get(value)
        require(descriptor and descriptor.kind == found[1], f"{parameter.name} is no {found[1]}, or was destroyed")
        return descriptor

    def _create(self, kind):
        def body(place):
            require(place, "there is no place for the descriptor")
            (address,) = self._real.ask(f"cudnnCreate{kind}", ctypes.c_void_p)
            self._descriptors[address] = Descriptor(kind, address)
            ctypes.c_void_p.from_address(place).value = address

        return body

    def _destroy(self, kind):
        def body(address):
            descriptor = self._descriptors.get(address)
            require(descriptor and descriptor.kind == kind, f"what is to be destroyed is no {kind}, or was destroyed before")
            self._destroyed.append(self._descriptors.pop(address))
            if len(self._destroyed) > _QUARANTINE:
                oldest = self._destroyed.popleft()
                getattr(self._real, f"cudnnDestroy{oldest.kind}")(oldest.address)

        return body

    def new_handle(self):
        handle = Handle(next(self._addresses))
        self.handles[handle.address] = handle
        return handle.address

    def _fail_if_told(self, name):
        failure = self._failures.get(name)
        if failure and failure[1]:
            failure[1] -= 1
            raise Refused(failure[0], "told to fail")

    def status(self, name):
        """Its number in this version of cuDNN."""
        return self._real.headers.enumerators[f"CUDNN_STATUS_{name}"]

    def _say(self, status, words):
        self._here.words = words
        return self.status(status)

    def _last_words(self, place, size):
        words = getattr(self._here, "words", None)
        text = (self._real.last_words() if words is None else words).encode()[: size - 1]
        ctypes.memmove(place, text + b"\0", len(text) + 1)


def _read(value):
    """What an argument is noted as: a descriptor by its contents, for it may be changed or gone when they are looked at."""
    if isinstance(value, Handle):
        return value.stream
    if not isinstance(value, Descriptor):
        return value
    reader = descriptors.READERS.get(value.kind)
    try:
        return reader(value, "") if reader else value.notes
    except Refused as e:
        return str(e)
