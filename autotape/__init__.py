"""autotape: a tape-based reverse-mode autograd engine for plain NumPy code, with pluggable backends.

    import numpy as np, autotape as at

    at.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(3))

See README.md for a tour, docs/architecture.md for the map.
"""

import importlib as _importlib
import os as _os
import typing as _typing

if not _os.path.isdir(_os.path.join(__path__[0], "backends")):  # a checkout: backends/ and opsets/ lie beside this folder
    __path__.append(_os.path.dirname(__path__[0]))

from . import backend, errors, math_mode, tree
from .backend import kernels
from .debugging import debug
from .derivatives import hessian, hvp, jacobian, jvp
from .explicit import Tape
from .folding import checkpoint, custom_gradient
from .numpy_protocol import numpy_function
from .operator import operator
from .opsets import array as _array  # noqa: F401  attaches operators and methods to Tensor and Param
from .param import Param
from .tape import no_grad, training
from .tensor import Tensor, array, asarray, from_dlpack
from .transforms import elementwise_grad, grad, stop_gradient, value_and_grad, vjp
from .vector import flatten

if _typing.TYPE_CHECKING:
    from . import io as io
    from .io import load, save
    from .profiling import profile

_LATER = {"io": ".io", "load": ".io", "save": ".io", "profile": ".profiling"}


def __getattr__(name: str) -> _typing.Any:
    """What is imported when it is asked for: files and profiles, which with what they need would be a fifth of this import."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(_LATER[name], __name__)
    return module if name == "io" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__version__ = "0.1.0"
__all__ = [
    "Param",
    "Tape",
    "Tensor",
    "array",
    "asarray",
    "backend",
    "checkpoint",
    "custom_gradient",
    "debug",
    "elementwise_grad",
    "errors",
    "flatten",
    "from_dlpack",
    "grad",
    "hessian",
    "hvp",
    "io",
    "jacobian",
    "jvp",
    "kernels",
    "load",
    "math_mode",
    "no_grad",
    "numpy_function",
    "operator",
    "profile",
    "save",
    "stop_gradient",
    "training",
    "tree",
    "value_and_grad",
    "vjp",
]
