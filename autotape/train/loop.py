"""The training loop: shuffled minibatches, Adam, and what each epoch came to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..opsets import v20 as ops
from ..tape import no_grad
from ..tensor import asarray
from ..transforms import value_and_grad
from .data import Images, shifted
from .models import Parameters, Recipe
from .progress import bar

TEST_BATCH = 256  # bounds the memory of a test, and changes nothing else
QUIET = np.errstate(over="ignore", invalid="ignore")  # a training that diverges ends with an error that says more


class Epoch(NamedTuple):
    """What one epoch came to.  Accuracies are shares of 1; losses are nats an image."""

    number: int  # from 1
    train_loss: float  # mean over the epoch's batches, measured as training went along
    train_accuracy: float
    test_loss: float  # on the whole test set, after the epoch
    test_accuracy: float
    seconds: float


class Adam:
    """Adam (Kingma and Ba 2015), in the form that corrects the bias in the rate.  Changes the parameters in place."""

    def __init__(self, parameters: Parameters, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> None:
        self.parameters, self.beta1, self.beta2, self.eps = parameters, beta1, beta2, eps
        self.means = {name: np.zeros_like(p) for name, p in parameters.items()}
        self.squares = {name: np.zeros_like(p) for name, p in parameters.items()}
        self.steps = 0

    def step(self, gradients: Parameters, lr: float) -> None:
        """One update."""
        self.steps += 1
        rate = lr * math.sqrt(1 - self.beta2**self.steps) / (1 - self.beta1**self.steps)
        for name, g in gradients.items():
            mean, square = self.means[name], self.squares[name]
            mean += (1 - self.beta1) * (g - mean)
            square += (1 - self.beta2) * (g * g - square)
            self.parameters[name] -= rate * mean / (np.sqrt(square) + self.eps)


def minibatches(count: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The numbers below `count` in a random order, `size` at a time; the last batch holds what is left."""
    order = rng.permutation(count)
    return (order[i : i + size] for i in range(0, count, size))


def train(
    apply: Callable[[Any, Any], Any], parameters: Parameters, train_set: Images, test_set: Images, recipe: Recipe, seed: int
) -> Iterator[Epoch]:
    """Fit the parameters in place, and yield each epoch as it ends.  The learning rate falls linearly to zero.

    Raises FloatingPointError when the loss is no longer finite.
    """

    def loss(p: Any, x: Any, labels: Any) -> Any:
        scores = apply(p, x)
        return ops.nll(scores, labels), ops.accuracy(scores, labels)

    gradient = value_and_grad(loss, has_aux=True)
    optimiser, rng = Adam(parameters), np.random.default_rng(seed)
    batches = math.ceil(len(train_set.labels) / recipe.batch_size)

    @QUIET
    def step(x: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        (value, accuracy), gradients = gradient(parameters, shifted(x, recipe.shift, rng), labels)
        optimiser.step(gradients, recipe.lr * (1 - optimiser.steps / (recipe.epochs * batches)))
        return float(value), float(accuracy)

    for number in range(1, recipe.epochs + 1):
        start, totals = time.perf_counter(), Totals()
        with bar(batches, f"epoch {number}/{recipe.epochs}") as progress:
            for indices in minibatches(len(train_set.labels), recipe.batch_size, rng):
                totals.add(*step(*train_set.take(indices)), len(indices))
                if not math.isfinite(totals.loss):
                    raise FloatingPointError(f"the loss became {totals.loss} in epoch {number}: try a learning rate below {recipe.lr:g}")
                progress.set_postfix_str(f"loss {totals.loss:.4f}", refresh=False)
                progress.update()
        yield Epoch(number, totals.loss, totals.accuracy, *evaluate(apply, parameters, test_set), time.perf_counter() - start)


@QUIET
def evaluate(apply: Callable[[Any, Any], Any], parameters: Parameters, images: Images) -> tuple[float, float]:
    """The mean loss and the accuracy on all of `images`."""
    totals = Totals()
    with no_grad():
        for i in range(0, len(images.labels), TEST_BATCH):
            labels = images.labels[i : i + TEST_BATCH]
            scores = apply(parameters, asarray(images.pixels[i : i + TEST_BATCH]))  # a Tensor, so that convolutions fuse
            totals.add(float(ops.nll(scores, labels)), float(ops.accuracy(scores, labels)), len(labels))
    return totals.loss, totals.accuracy


class Totals:
    """Running means of loss and accuracy over images."""

    def __init__(self) -> None:
        self.loss = self.accuracy = 0.0
        self.count = 0

    def add(self, loss: float, accuracy: float, count: int) -> None:
        """Take in a batch of `count` images with these means."""
        self.count += count
        self.loss += (loss - self.loss) * count / self.count
        self.accuracy += (accuracy - self.accuracy) * count / self.count
