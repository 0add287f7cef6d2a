"""What happens beside a training: logs to CSV and TensorBoard, a plot, an early stop, an end where the loss is no number.

    train(f, data, opt, callbacks=[FailOnNaN(), LogCSV("log.csv"), EarlyStop(patience=5)])

A callback is a function of the step, or a Callback.  Snapshots is one, too (snapshots.py).
"""

from __future__ import annotations

import csv
import importlib.util
import math
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from .. import tree
from ..io import atomically
from ..tensor import Tensor, asarray, describe
from .step import Run, Step

Metrics = Callable[[Step], Mapping[str, float]]


class Callback:
    """What a training calls; each method here does nothing.

    A subclass whose behaviour depends on the steps it has seen has a `state` of plain numbers and arrays, which snapshots
    save and resuming sets.  Those below forget it where another training begins with step 1.  Where one raises after a step,
    those behind it still get that step, and all get the end.
    """

    state: Any = None

    def begin(self, training: Run) -> None:
        """Before the first step, or the first after resuming."""

    def before_update(self, step: Step) -> None:
        """The loss is known, the parameters have not changed yet."""

    def __call__(self, step: Step) -> None:
        """After the update, before the loop's body gets the step.  step.stop() makes it the last one."""

    def settle(self, training: Run) -> None:
        """After the loop's body, when the next step is asked for: training.state is all that a new process needs then."""

    def end(self, training: Run, error: BaseException | None) -> None:
        """After the last step, at close(), or after the error that a step, a callback or the body of `with training:` raised."""


class Called(Callback):
    """A plain function of the step."""

    def __init__(self, function: Callable[[Step], Any]) -> None:
        if isinstance(function, type):
            raise TypeError(f"callbacks: {function.__name__} is a class; give one that is made, {function.__name__}(...)")
        if not callable(function):
            raise TypeError(f"callbacks: each is a Callback or a function of the step, not {describe(function)}")
        self.function = function

    def __call__(self, step: Step) -> None:
        self.function(step)


class Every(Callback):
    """A callback that acts every so many steps, or at the end of every epoch, on the mean loss since it did so last."""

    def __init__(self, every: int | str) -> None:
        if every != "epoch" and not (isinstance(every, int) and every >= 1):
            raise ValueError(f"{type(self).__name__}: every is 'epoch' or a number of steps from 1 on, not {every!r}")
        self.every = every
        self.restart()

    def restart(self) -> None:
        """Forget the steps seen."""
        self.total, self.count = 0.0, 0

    @property
    def state(self) -> Any:
        return {"total": self.total, "count": self.count}

    @state.setter
    def state(self, state: Any) -> None:
        self.total, self.count = state["total"], state["count"]

    def begin(self, training: Run) -> None:
        if self.every == "epoch" and not hasattr(training.data, "__len__"):
            raise TypeError(f"{type(self).__name__}: every='epoch' needs data with a length; give a number of steps")
        if training.number == 0:  # it may have served another one
            self.restart()

    def __call__(self, step: Step) -> None:
        self.total += step.loss
        self.count += 1
        if step.ends_epoch if self.every == "epoch" else step.number % int(self.every) == 0:
            mean = self.total / self.count
            self.total, self.count = 0.0, 0
            self.act(step, mean)

    def act(self, step: Step, loss: float) -> None:
        """loss: the mean since the last call."""
        raise NotImplementedError


class FailOnNaN(Callback):
    """Raise FloatingPointError before the update of a step whose loss is NaN or infinite.

    A snapshot left at that moment (Snapshots) holds the parameters, the batch and the random state that gave it.
    """

    def before_update(self, step: Step) -> None:
        if not math.isfinite(step.loss):
            where = f"the loss is {step.loss} at step {step.number}, batch {step.batch} of epoch {step.epoch}"
            inputs = list(step.inputs)
            if found := [path for path, x in zip(tree.paths(inputs), tree.leaves(inputs), strict=True) if not _is_finite(x)]:
                raise FloatingPointError(f"{where}: batch{found[0]} itself holds NaN or infinity, so look at the data first")
            raise FloatingPointError(
                f"{where}: try a smaller learning rate, or gclip; `with at.debug():` names the operator that made the first NaN"
            )


class EarlyStop(Every):
    """Stop when a number has not fallen for `patience` epochs (or times `every` steps): metric(step), or the mean loss."""

    def __init__(self, patience: int, metric: Callable[[Step], Any] | None = None, every: int | str = "epoch") -> None:
        super().__init__(every)
        if not isinstance(patience, int) or patience < 1:
            raise ValueError(f"EarlyStop: patience is a whole number from 1 on, not {patience!r}")
        self.patience, self.metric = patience, checked_function("EarlyStop: metric", metric)

    def restart(self) -> None:
        super().restart()
        self.best, self.waited = math.inf, 0

    @property
    def state(self) -> Any:
        return {**super().state, "best": self.best, "waited": self.waited}

    @state.setter
    def state(self, state: Any) -> None:
        self.total, self.count, self.best, self.waited = (state[name] for name in ("total", "count", "best", "waited"))

    def act(self, step: Step, loss: float) -> None:
        value = loss if self.metric is None else as_number("EarlyStop: metric(step)", self.metric(step))
        self.best, self.waited = (value, 0) if value < self.best else (self.best, self.waited + 1)
        if self.waited >= self.patience:
            step.stop()


class LogCSV(Every):
    """Rows of step, epoch, loss, learning rate and metrics(step), a dict of numbers whose names are always the same.

    A new training writes a new file.  One that was resumed goes on with the old one, less the rows beyond its snapshot.
    """

    def __init__(self, path: str | os.PathLike[str], metrics: Metrics | None = None, every: int | str = 1) -> None:
        super().__init__(every)
        self.path, self.metrics = Path(path), checked_function("LogCSV: metrics", metrics)
        self._names: list[str] | None = None
        self._waiting: list[Any] = []  # rows that are not in the file yet

    def begin(self, training: Run) -> None:
        super().begin(training)
        rows = self._rows_until(training.number)
        self._names, self._waiting = rows[0] if rows else None, []
        with atomically(self.path) as file:
            file.write(_lines(rows))

    def act(self, step: Step, loss: float) -> None:
        row = numbers(step, loss, self.metrics)
        self._waiting += [row.values()] if self._names else [row.keys(), row.values()]
        self._names = self._names or list(row)
        if list(row) != self._names:
            raise ValueError(f"LogCSV: {self.path} has the columns {', '.join(self._names)}, but this row {', '.join(row)}")
        self._write()

    def end(self, training: Run, error: BaseException | None) -> None:
        self._write()

    def _write(self) -> None:
        """Each time, so that nothing is lost and others can read; what there is no room for waits for the next time."""
        rows, self._waiting = self._waiting, []  # at once, so that an interrupt brings none twice
        try:
            if rows:
                _append(self.path, _lines(rows))
        except OSError as e:
            self._waiting = rows
            _warn(self.path, e)

    def _rows_until(self, number: int) -> list[list[str]]:
        if number == 0 or not self.path.exists():
            return []
        with open(self.path, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        if rows and rows[0][:1] != ["step"]:
            raise ValueError(f"LogCSV: {self.path} is no log of a training")
        return rows[:1] + [row for row in rows[1:] if len(row) == len(rows[0]) and int(row[0]) <= number]


class LogTensorBoard(Every):
    """Loss, learning rate and metrics(step) as curves for TensorBoard, in a folder.  Needs tensorboardX (extra `tensorboard`)."""

    def __init__(self, folder: str | os.PathLike[str], metrics: Metrics | None = None, every: int | str = 1) -> None:
        super().__init__(every)
        needs("LogTensorBoard", "tensorboardX", "tensorboard")
        self.folder, self.metrics = Path(folder), checked_function("LogTensorBoard: metrics", metrics)
        self._writer: Any = None

    def begin(self, training: Run) -> None:
        from tensorboardX import SummaryWriter

        super().begin(training)
        self._writer = SummaryWriter(str(self.folder), purge_step=training.number + 1 if training.number else None)

    def act(self, step: Step, loss: float) -> None:
        for name, value in numbers(step, loss, self.metrics).items():
            if name != "step":
                self._writer.add_scalar(name, value, step.number)

    def end(self, training: Run, error: BaseException | None) -> None:
        if self._writer is not None:
            self._writer.close()


class Plot(Every):
    """A picture (PNG) of the mean loss and of metrics(step) over the steps, drawn anew each time.  Needs matplotlib (extra `train`)."""

    def __init__(self, path: str | os.PathLike[str], metrics: Metrics | None = None, every: int | str = "epoch") -> None:
        super().__init__(every)
        needs("Plot", "matplotlib", "train")
        self.path, self.metrics = Path(path), checked_function("Plot: metrics", metrics)

    def restart(self) -> None:
        super().restart()
        self.rows: list[dict[str, float]] = []

    @property
    def state(self) -> Any:
        return {**super().state, "rows": list(self.rows)}

    @state.setter
    def state(self, state: Any) -> None:
        self.total, self.count, self.rows = state["total"], state["count"], list(state["rows"])

    def act(self, step: Step, loss: float) -> None:
        from matplotlib.figure import Figure  # a Figure of one's own draws with Agg and needs no display

        self.rows.append(numbers(step, loss, self.metrics))
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        for name in self.rows[0].keys() - {"step", "epoch", "lr"}:
            axes.plot([row["step"] for row in self.rows], [row[name] for row in self.rows], label=name)
        axes.set(xlabel="step", yscale="log" if all(row["loss"] > 0 for row in self.rows) else "linear")
        axes.grid(alpha=0.3)
        axes.legend()
        try:
            with atomically(self.path) as file:
                figure.savefig(file, format="png", dpi=150)
        except OSError as e:
            _warn(self.path, e)


def numbers(step: Step, loss: float, metrics: Metrics | None) -> dict[str, float]:
    """What is told of a step: its number, epoch, mean loss, learning rate, and the user's metrics."""
    own = {"step": step.number, "epoch": step.epoch, "loss": loss, "lr": step.lr}
    more = {} if metrics is None else metrics(step)
    if not isinstance(more, Mapping):
        raise TypeError(f"metrics(step) gives a dict of numbers, such as {{'test': 0.5}}, not {describe(more)}")
    if twice := own.keys() & more.keys():
        raise ValueError(f"metrics(step) gives {min(twice)!r}, but {', '.join(own)} are there already: give it another name")
    return {**own, **{name: as_number(f"metrics(step)[{name!r}]", value) for name, value in more.items()}}


def as_number(what: str, x: Any) -> float:
    """float(x).  Raises TypeError, with what it is, for what is no number."""
    try:
        return float(asarray(x).item() if hasattr(x, "dtype") else x)
    except (TypeError, ValueError) as e:
        raise TypeError(f"{what} is {describe(x)}, not a number") from e


def checked_function(what: str, f: Any) -> Any:
    """f, a function of the step or None.  Raises TypeError for anything else."""
    if f is not None and not callable(f):
        raise TypeError(f"{what} is a function of the step, not {describe(f)}")
    return f


def _warn(path: Path, e: OSError) -> None:
    """A file that can't be written (a full disk) is no end of the training."""
    warnings.warn(f"{path} could not be written ({e}); the training goes on", RuntimeWarning, stacklevel=2)


def _append(path: Path, text: bytes) -> None:
    """All of the text, or nothing."""
    size = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "ab") as file:
            file.write(text)
    except OSError:
        with suppress(OSError):
            os.truncate(path, size)
        raise


def _lines(rows: Any) -> bytes:
    text = StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _is_finite(x: Any) -> bool:
    x = x.numpy() if isinstance(x, Tensor) else x
    return not isinstance(x, (float, np.ndarray, np.generic)) or np.asarray(x).dtype.kind not in "fc" or bool(np.isfinite(x).all())


def needs(what: str, library: str, extra: str) -> None:
    """Raise ImportError, with the extra that brings it, where an optional library is missing."""
    if importlib.util.find_spec(library) is None:
        raise ImportError(f"{what} needs {library}, which the extra `{extra}` brings: pip install 'autotape[{extra}]'")
