"""Snapshots of a training, and going on from one bit for bit.

    train(f, data, opt, params=params, epochs=20, callbacks=[Snapshots("run")], resume=newest("run"))

A snapshot is a file of at.save with all that decides what comes next: the parameters, the optimiser's state, the place in
the data and its order, the random generator, and the callbacks' states.  It is whole or not there, and a run that was
killed at any moment goes on from the last one with the losses that it would have had.
"""

from __future__ import annotations

import contextlib
import math
import os
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import io, tree
from ..param import Param, is_variable
from ..tensor import Tensor, backend_of, constant
from .callbacks import Every, as_number, checked_function
from .interruption import Lock, Signals
from .optimisers import moved
from .step import Run, Step

PREFIX, SUFFIX, BEST = "step-", ".safetensors", "best.safetensors"
KIND = "autotape training 1"  # what and which version is in the file


class Snapshots(Every):
    """Write snapshots into a folder: every so many steps or at the end of every epoch, and of the last step.

    keep: of the regular ones the last so many stay.  best: a function of the step that gives a number, less being better; the
    snapshot at which it was least is best.safetensors besides.  Ctrl-C and SIGTERM wait for the end of the step and of the
    loop's body, leave a snapshot, and then end the program as they do without it; a second one does so at once.  A loop that is left
    by break or an error in its body can't know it: `with train(...) as run:`, or run.close(), leaves a snapshot then, and frees
    the signals, as does the end of the last reference to the training.  After an error in a step the snapshot is of the moment
    before that step; after one in a callback it is of the moment after it, as the callbacks behind still get the step.

    Where one can't be written (a full disk) a RuntimeWarning says so, the older ones stay and the training goes on.  Raises
    FileExistsError if the folder holds snapshots of steps that the training has still to do, BlockingIOError where another training
    writes into it, and TypeError for a training whose Params are not given by params=, since a new process could not know them
    before its first step.
    """

    def __init__(
        self, folder: str | os.PathLike[str], every: int | str = "epoch", keep: int = 3, best: Callable[[Step], Any] | None = None
    ) -> None:
        super().__init__(every)
        if not isinstance(keep, int) or keep < 1:
            raise ValueError(f"Snapshots: keep is a whole number from 1 on, not {keep!r}")
        self.folder, self.keep, self.best = Path(folder), keep, checked_function("Snapshots: best", best)
        self._written: int | None = None
        self._signals, self._lock = Signals(), Lock(self.folder)

    def restart(self) -> None:
        super().restart()
        self.least = math.inf
        self._is_due, self._better = False, math.inf

    @property
    def state(self) -> Any:
        return {**super().state, "least": self.least}

    @state.setter
    def state(self, state: Any) -> None:
        self.total, self.count, self.least = state["total"], state["count"], state["least"]

    def begin(self, training: Run) -> None:
        super().begin(training)
        training.state  # noqa: B018  raises where it can't be had
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(f"Snapshots: the folder {self.folder} can't be written into")
        _let_go(self._signals, self._lock)  # of a training before
        self._signals, self._lock = Signals(), Lock(self.folder)
        weakref.finalize(training, _let_go, self._signals, self._lock).atexit = False
        self._lock.take()
        if later := [path.name for n, path in snapshots(self.folder) if n > training.number]:
            raise FileExistsError(
                f"{self.folder} holds {later[-1]}, and this training is at step {training.number}: go on from it with "
                f"resume={os.fspath(self.folder)!r}, or name another folder"
            )
        for stale in self.folder.glob(f".*{SUFFIX}.*.tmp"):  # of a process that was killed as it wrote
            stale.unlink(missing_ok=True)
        self._written = training.number
        self._signals.catch()

    def act(self, step: Step, loss: float) -> None:
        self._is_due = True
        self._better = math.inf if self.best is None else as_number("Snapshots: best(step)", self.best(step))

    def settle(self, training: Run) -> None:
        if self._is_due or self._signals.received:
            self.write(training)
        self._signals.deliver()

    def end(self, training: Run, error: BaseException | None) -> None:
        try:
            if training.is_whole:
                self.write(training)
        finally:
            self._lock.release()
            self._signals.release()
            self._signals.deliver()

    def write(self, training: Run) -> None:
        """A snapshot of this moment, unless there is one; those beyond the last `keep` go."""
        value, self._is_due, self._better = self._better, False, math.inf
        if training.number == self._written or training.latest is None or not math.isfinite(training.latest.loss):
            return
        path, before = self.folder / f"{PREFIX}{training.number:09}{SUFFIX}", self.least
        try:
            if value < self.least:
                self.least = value
                io.save(self.folder / BEST, {"kind": KIND, **training.state})
                before = value
            io.save(path, {"kind": KIND, **training.state})
        except OSError as e:
            self.least = before
            warnings.warn(f"the snapshot {path} could not be written ({e}); the older ones stay", RuntimeWarning, stacklevel=2)
            return
        self._written = training.number
        for _, old in snapshots(self.folder)[: -self.keep]:
            old.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a snapshot holds, or the newest one of a folder.  Raises FileNotFoundError if there is none, ValueError for another file."""
    found = newest(path) if os.path.isdir(path) else Path(path)
    if found is None:
        raise FileNotFoundError(f"there is no snapshot in {os.fspath(path)}: they are called {PREFIX}...{SUFFIX}")
    if not found.exists():
        raise FileNotFoundError(f"there is no snapshot {found}, nor a folder; newest(folder) is None where there is none yet")
    state = io.load(found)
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise ValueError(f"{found} is no snapshot of a training")
    return state


def newest(folder: str | os.PathLike[str] | None) -> Path | None:
    """The snapshot of the latest step in a folder; None if there is none, or no folder."""
    found = [] if folder is None else snapshots(Path(folder))
    return found[-1][1] if found else None


def snapshots(folder: Path) -> list[tuple[int, Path]]:
    """The regular snapshots in a folder with their steps, in order."""
    names = folder.glob(f"{PREFIX}*{SUFFIX}")
    return sorted((int(number), path) for path in names if (number := path.name[len(PREFIX) : -len(SUFFIX)]).isdecimal())


def load_params(path: str | os.PathLike[str], params: Any) -> Any:
    """The parameters in a snapshot, or the newest one of a folder, as a tree like params.

    Params and objects with a state of their own (bnmoments, RNN) in it are changed and stay.  Raises ValueError if they are another
    model's; it says which names, shapes and dtypes differ.  TypeError for an object that holds arrays and is no tree.
    """
    state, objects = read(path), with_state(params)
    check_model(params, objects, state)
    set_states(objects, state["states"])
    return restored(params, state["params"])


def named(params: Any) -> dict[str, Any]:
    """The arrays and numbers of a tree by how a program reaches them."""
    return {path: leaf for path, leaf in zip(tree.paths(params), tree.leaves(params), strict=True) if _is_saved(leaf)}


def copied(leaf: Any) -> Any:
    """One of these arrays or numbers, that no update changes."""
    if isinstance(leaf, Param):
        return Param(leaf.numpy())
    return leaf if isinstance(leaf, (int, float, complex, Tensor, np.generic)) else backend_of(leaf).copy(leaf)


def check_model(params: Any, objects: dict[str, Any], state: dict[str, Any]) -> None:
    """Raise ValueError if a state is another model's than params, in which these objects have a state of their own."""
    here, saved = ({path or "params": x for path, x in found.items()} for found in (named(params), state["params"]))
    differences = [f"{name} is {_outline(x)} here and not there" for name, x in here.items() if name not in saved]
    differences += [f"{name} is {_outline(x)} there and not here" for name, x in saved.items() if name not in here]
    differences += [
        f"{name} is {_outline(x)} here and {_outline(saved[name])} there"
        for name, x in here.items()
        if name in saved and _outline(x) != _outline(saved[name])
    ]
    if differences:
        more = f"; and {len(differences) - 10} more" if len(differences) > 10 else ""
        raise ValueError(f"the snapshot is of another model: {'; '.join(differences[:10])}{more}")
    if alone := sorted(objects.keys() ^ state["states"].keys()):
        where = "here and not there" if alone[0] in objects else "there and not here"
        raise ValueError(f"the snapshot is of another model: {alone[0]} has a state {where}")


def restored(params: Any, saved: dict[str, Any]) -> Any:
    """A tree like params with the values in `saved`; its Params are changed and stay."""
    leaves, build = tree.flatten(params)
    return build([_like(x, saved[path]) if _is_saved(x) else x for path, x in zip(tree.paths(params), leaves, strict=True)])


def with_state(params: Any, path: str = "") -> dict[str, Any]:
    """The objects of a tree, or that are nodes of it, that have a `state` of their own beside arrays and Params."""
    children = dict(tree.children(params) or ())
    found = {path: params} if hasattr(type(params), "state") and ".state" not in children else {}  # not a field that is called so
    for step, child in children.items():
        found |= with_state(child, path + step)
    return found


def set_states(objects: dict[str, Any], states: dict[str, Any]) -> None:
    """Let each go on from its state."""
    for path, x in objects.items():
        x.state = states[path]


def _like(x: Any, value: Any) -> Any:
    """A saved value, which may come from another backend, as the kind of thing x is."""
    if isinstance(x, (int, float, complex)) and not isinstance(x, np.generic):
        return value
    raw = value._value if isinstance(value, Param) else value._array if isinstance(value, Tensor) else value
    if isinstance(x, np.generic):
        return np.asarray(constant(raw).numpy())[()]
    k = backend_of(x._value if isinstance(x, Param) else x._array if isinstance(x, Tensor) else x)
    new = moved(raw, k)
    if isinstance(x, Param):
        x.change(lambda array: k.index_write(array, (), new))
        return x
    return constant(k.copy(new)) if isinstance(x, Tensor) else k.copy(new)


def _is_saved(leaf: Any) -> bool:
    return (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) or is_variable(leaf, "a snapshot")


def _outline(x: Any) -> str:
    return f"{x.dtype}{tuple(x.shape)}" if hasattr(x, "dtype") else "a number"


def _let_go(signals: Signals, lock: Lock) -> None:
    lock.release()
    with contextlib.suppress(ValueError):  # in another thread signals can't be set; then the handlers only hand on
        signals.release()
