"""The training behind `autotape train`: a classifier of images or characters, and what each epoch came to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..opsets import v20 as ops
from ..tape import no_grad
from ..tensor import asarray
from . import schedules
from .callbacks import Callback, FailOnNaN, LogCSV
from .data import minibatch
from .datasets import Images, shifted
from .loops import train
from .models import Parameters, Recipe
from .optimisers import SGD, Adadelta, Adagrad, Adam, AdamW, Momentum, Nesterov, Rmsprop
from .progress import bar
from .snapshots import Snapshots, newest
from .step import Run, Step
from .texts import Windows

TEST_BATCH = 256  # bounds the memory of a test, and changes nothing else
SNAPSHOT_EVERY = 200  # steps

Sets = tuple[Images, Images] | tuple[Windows, Windows]  # to train and to test on

OPTIMISERS: dict[str, Callable[..., Any]] = {
    optimiser.__name__.lower(): optimiser for optimiser in (Adadelta, Adagrad, Adam, AdamW, Momentum, Nesterov, Rmsprop, SGD)
}
SCHEDULES: dict[str, Callable[[int], Any]] = {  # of the number of steps in all
    "constant": lambda steps: None,
    "cosine": schedules.cosine,
    "linear": schedules.linear,
    "step": lambda steps: schedules.step(math.ceil(steps / 3)),
    "warmup": lambda steps: schedules.warmup(math.ceil(steps / 20)) * schedules.cosine(steps),
}


class Epoch(NamedTuple):
    """What one epoch came to.  Accuracies are shares of 1; losses are nats an image, or a character."""

    number: int  # from 1
    train_loss: float  # mean over the epoch's batches, measured as training went along
    train_accuracy: float
    test_loss: float  # on the whole test set, after the epoch
    test_accuracy: float
    seconds: float


class Classifier:
    """A network in training: iterating over it trains, and gives each Epoch as it ends.

    optimiser, schedule: names among OPTIMISERS and SCHEDULES.  log: a CSV file with a row an epoch.  folder: of snapshots, of
    which the newest is gone on from.  Raises FloatingPointError where the loss is no longer finite, ValueError if the
    folder's snapshots are of another training.
    """

    def __init__(
        self,
        title: str,
        apply: Callable[[Any, Any], Any],
        parameters: Parameters,
        sets: Sets,
        recipe: Recipe,
        optimiser: str = "adam",
        schedule: str = "linear",
        log: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        def loss(p: Any, x: Any, labels: Any) -> Any:
            scores = apply(p, shifted(x, recipe.shift))
            return ops.nll(scores, labels), ops.accuracy(scores, labels, average=False)

        training_set, test_set = sets
        self.recipe = recipe
        self.data = minibatch(*training_set, recipe.batch_size, shuffle=True, partial=True)
        self.opt = OPTIMISERS[optimiser](lr=recipe.lr, schedule=SCHEDULES[schedule](recipe.epochs * len(self.data)))
        self.results = Results(title, apply, test_set)
        callbacks: list[Callback] = [FailOnNaN(), self.results]
        if log is not None:
            callbacks.append(LogCSV(log, self.results.figures, every="epoch"))
        if folder is not None:
            callbacks.append(Snapshots(folder, every=SNAPSHOT_EVERY))
        self.training = train(
            loss, self.data, self.opt, parameters, recipe.epochs, callbacks, resume=newest(folder) if folder else None, has_aux=True
        )

    @property
    def parameters(self) -> Parameters:
        """As they are now."""
        parameters: Parameters = self.training.params
        return parameters

    def __iter__(self) -> Iterator[Epoch]:
        for number in range(len(self.results.epochs) + 1, self.recipe.epochs + 1):
            done = self.training.batch % len(self.data)
            with bar(len(self.data), f"epoch {number}/{self.recipe.epochs}", done=done) as shown:
                while (step := self._step()) is not None and not step.ends_epoch:
                    shown.set_postfix_str(f"loss {self.results.loss:.4f}", refresh=False)
                    shown.update()
            yield self.results.epochs[-1]
        self._step()  # there is none, but a last snapshot

    def _step(self) -> Step | None:
        with np.errstate(over="ignore", invalid="ignore"):  # a training that diverges ends with an error that says more
            try:
                return next(self.training, None)
            except FloatingPointError as e:
                raise FloatingPointError(f"{e.args[0].partition(':')[0]}: try a learning rate below {self.opt.lr:g}") from e


class Results(Callback):
    """Running means over an epoch, and the test after it.  title: what is trained how; a snapshot of another one is refused."""

    def __init__(self, title: str, apply: Callable[[Any, Any], Any], test_set: Images | Windows) -> None:
        self.title, self.apply, self.test_set = title, apply, test_set
        self.epochs: list[Epoch] = []
        self._restart()

    def _restart(self) -> None:
        self.loss, self.correct, self.count = 0.0, 0, 0
        self.start = time.perf_counter()

    @property
    def state(self) -> Any:
        running = {"loss": self.loss, "correct": self.correct, "count": self.count}
        return {"title": self.title, "epochs": [list(e) for e in self.epochs], **running}

    @state.setter
    def state(self, state: Any) -> None:
        if state["title"] != self.title:
            raise ValueError(f"the snapshot is of {state['title']}, but this is {self.title}")
        self.epochs = [Epoch(*e) for e in state["epochs"]]
        self.loss, self.correct, self.count = state["loss"], state["correct"], state["count"]

    def begin(self, training: Run) -> None:
        self.start = time.perf_counter()

    def __call__(self, step: Step) -> None:
        correct, count = step.aux
        self.correct += correct
        self.count += count
        self.loss += (step.loss - self.loss) * count / self.count
        if step.ends_epoch:
            tested = evaluate(self.apply, step.params, self.test_set)
            self.epochs.append(Epoch(step.epoch, self.loss, self.correct / self.count, *tested, time.perf_counter() - self.start))
            self._restart()

    def figures(self, step: Step) -> dict[str, float]:
        """For a log, at the end of an epoch."""
        last = self.epochs[-1]
        return {"train_accuracy": last.train_accuracy, "test_loss": last.test_loss, "test_accuracy": last.test_accuracy}


def evaluate(apply: Callable[[Any, Any], Any], parameters: Parameters, test_set: Images | Windows) -> tuple[float, float]:
    """The mean loss and the accuracy on all of a set."""
    total, correct = 0.0, 0
    with no_grad():
        for x, labels in minibatch(*test_set, TEST_BATCH, partial=True):
            scores = apply(parameters, asarray(x))  # a Tensor, so that convolutions fuse
            total += float(ops.nll(scores, labels)) * len(labels)
            correct += ops.accuracy(scores, labels, average=False)[0]
    return total / len(test_set.labels), correct / test_set.labels.size
