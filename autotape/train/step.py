"""What a training gives for each update, and what callbacks see of it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..tensor import asarray
from .optimisers import Optimiser


class Run(Protocol):
    """What Steps and callbacks may ask of the training that they belong to; loops.Loop is it."""

    data: Any
    opt: Any
    params: Any  # the tree as it is now, or the Params met so far
    number: int  # updates made
    epoch: int  # from 1
    batch: int  # in this epoch, from 1
    latest: Step | None
    is_whole: bool  # False where an error came in the middle of an update

    @property
    def state(self) -> dict[str, Any]:
        """All that decides what comes next."""

    def stop(self) -> None:
        """Make no update after the latest."""


class Step:
    """One update.  number, epoch, batch: from 1; loss; aux: what f gave beside it; lr: the learning rate of this update; params:
    after it; opt, data: the training's; inputs: the batch, () once the update is made, so that a step that is kept keeps no data.
    """

    def __init__(self, training: Run, inputs: Sequence[Any], loss: Any, aux: Any) -> None:
        self.number, self.epoch, self.batch = training.number + 1, training.epoch, training.batch
        self.params, self.opt, self.aux = training.params, training.opt, aux
        self.data, self.inputs, self.lr = training.data, inputs, rate(training.opt)
        self._loss = loss
        self._training = weakref.ref(training)  # one that nobody iterates over ends, whoever keeps a step

    def __repr__(self) -> str:
        return f"Step({self.number}, epoch={self.epoch}, batch={self.batch}, loss={self.loss:g})"

    def __float__(self) -> float:
        return self.loss

    @property
    def loss(self) -> float:
        """The loss as a float; asking for it waits for a device."""
        if type(self._loss) is not float:
            self._loss = float(self._loss if isinstance(self._loss, (int, np.generic)) else asarray(self._loss).item())
        return self._loss

    @property
    def ends_epoch(self) -> bool:
        """Whether this was the last batch of its epoch; False where the data have no length."""
        return hasattr(self.data, "__len__") and self.batch == len(self.data)

    def stop(self) -> None:
        """Make this update the last."""
        if (training := self._training()) is not None:
            training.stop()


def rate(opt: Any) -> float:
    """The learning rate of an optimiser's next update; NaN for one that has none."""
    if isinstance(opt, Optimiser):
        return opt.lr * opt._share()
    return getattr(opt, "lr", math.nan)
