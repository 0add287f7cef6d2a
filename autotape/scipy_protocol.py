"""What becomes of SciPy's functions that meet a Tensor.

Its ufuncs are NumPy's, so they see Tensors, and the opset scipy is loaded when the first one comes (numpy_protocol.py).  Its other
functions ask for an ndarray.  Here is what the error says then: who called, by the frames of the stack, and which function to call instead.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from operator import attrgetter
from types import FrameType
from typing import Any

import numpy as np

from . import opsets

OTHERS = {  # under another name
    "integrate.solve_ivp": "autotape.opsets.scipy.integrate.odeint",
    "signal.fftconvolve": "autotape.opsets.scipy.signal.convolve",
    "signal.oaconvolve": "autotape.opsets.scipy.signal.convolve",
    "polynomial.polyfit": "np.polyfit, whose coefficients come the other way round",
    "polynomial.polyval": "np.polyval, whose coefficients come the other way round",
}
BLIND = ("scipy.", "numpy.polynomial.")  # to Tensors, but for ufuncs
AS_SCIPYS = {"linalg.cholesky": "(a, upper=True)", "linalg.qr": '(a, mode="complete")'}  # how NumPy's is called for the same result


def instead() -> str:
    """What to call instead of the function of SciPy that asks for an ndarray; "" where none does, or there is nothing."""
    for module, name in (called for frame in _frames() for called in _called(frame)):
        package, part = module.split(".")[:2]
        if name.startswith("__"):
            continue
        if call := OTHERS.get(f"{part}.{name}"):
            return f"; {package}.{part}.{name} sees no Tensor: call {call}"
        if package == "numpy":
            continue
        if _has(opsets.load("scipy"), f"{part}.{name}"):
            return f"; scipy.{part}.{name} sees no Tensor: call autotape.opsets.scipy.{part}.{name}"
        if _has(np, f"{part}.{name}"):
            return f"; scipy.{part}.{name} sees no Tensor: call np.{part}.{name}{AS_SCIPYS.get(f'{part}.{name}', '')}"
    return ""


def _frames() -> list[FrameType]:
    """The functions of SciPy or of numpy.polynomial, which are as blind, that are being called, outermost first, if one of them asks."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _module(frame).partition(".")[0] in ("autotape", "numpy") and not _module(frame).startswith(BLIND):
        frame = frame.f_back
    found: list[FrameType] = []
    while frame is not None and _module(frame).startswith(BLIND):
        found.insert(0, frame)
        frame = frame.f_back
    return found


def _module(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name


def _called(frame: FrameType) -> Iterator[tuple[str, str]]:
    """What a frame may be a call of: a module, and a function there, or a method of a distribution, or what a decorator has put around."""
    name, here = frame.f_code.co_name, frame.f_locals
    if "self" in here:
        yield _module(frame), f"{type(here['self']).__name__.removesuffix('_gen')}.{name}"
    yield _module(frame), name
    if name == "wrapper":
        yield from ((f.__module__, f.__name__) for f in here.values() if inspect.isfunction(f) and f.__module__.startswith("scipy."))


def _has(module: Any, name: str) -> bool:
    try:
        return callable(attrgetter(name)(module))
    except AttributeError:
        return False
