"""A test double of cuDNN: README.md."""

import functools
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "cuda_emulator"))
import environment


@functools.cache
def double():
    """The double of this process.  Raises OSError without a libcudnn."""
    from .library import Double

    return Double()


def why_not():
    """Why this process can't have the double, in one line; None if it can."""
    if reason := environment.why_not():
        return reason
    if any(name.endswith("cudnn_backend.binding.calls") for name in sys.modules):
        return None if is_entered() else "the binding of cuDNN was imported before the double was entered, with another libcudnn"
    try:
        double()
    except OSError as e:
        return f"the double of cuDNN needs its descriptors: {e}"
    return None


def enter(**switches):
    """Puts this process on the CUDA emulator, with these switches of it, and on the double, before the cudnn backend is imported."""
    from .real import finder

    if reason := why_not():
        raise RuntimeError(reason)
    environment.enter(**switches)
    finder().load = double


def is_entered():
    """Whether the binding has, or will have, the double and no real cuDNN."""
    from .real import finder

    return finder().load is double
