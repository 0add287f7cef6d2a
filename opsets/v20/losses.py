"""Losses and what is counted beside them.  Labels are host data, checked with NumPy."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from autotape import kernels
from autotape.tensor import describe

from ..array import argmax, astype, divide, negative, sum, take_along_axis, where
from ..array.reductions import HALF
from ..array.shapes import dtype_of, shape_of
from ..geometry import whole_number
from .activations import softplus
from .softmaxes import logsoftmax


def nll(scores, labels, axis=1, average=True):
    """The mean of -logsoftmax(scores, axis) at the labels: the cross entropy of unnormalised scores.  Knet's nll.

    scores has its classes along `axis`; labels are integers from 0 to classes - 1 with scores' shape less that axis.  Negative
    labels mask their instances, which count neither in the sum nor in the mean; if all are masked the loss is 0.  average=False
    gives the pair (sum, number of instances).  Raises ValueError for labels of another shape or beyond the classes, TypeError
    if they aren't integers.

    nll(model, data): the same of all batches (x, labels) of an iterable together, model(x) being the scores.  Raises ValueError if
    it has none.
    """
    if is_model(scores):
        return over_batches("nll", nll, scores, labels, axis, average)
    indices, mask, count = checked_classes("nll", scores, labels, axis)
    scores = scores if mask is None else where(mask, scores, 0)  # logsoftmax of -inf or NaN has NaN for derivative, also times 0
    losses = negative(take_along_axis(logsoftmax(scores, axis), indices, axis))
    return mean_or_sum(losses if mask is None else where(mask, losses, 0), count, average)


def accuracy(scores, labels, axis=1, average=True):
    """The share of instances whose highest score is that of their label, a float from 0 to 1.  Knet's accuracy.

    Arguments and errors are those of nll, accuracy(model, data) among them.  average=False gives the pair (number that are right,
    number of instances).  Not differentiable.
    """
    if is_model(scores):
        return over_batches("accuracy", accuracy, scores, labels, axis, average)
    correct, count = count_right("accuracy", scores, labels, axis)
    return correct / max(count, 1) if average else (correct, count)


def zeroone(scores, labels, axis=1, average=True):
    """The share of instances whose highest score is not that of their label: 1 - accuracy.  Knet's zeroone.

    Arguments and errors are those of nll, zeroone(model, data) among them.  average=False gives the pair (number that are wrong,
    number of instances).  Not differentiable.
    """
    if is_model(scores):
        return over_batches("zeroone", zeroone, scores, labels, axis, average)
    correct, count = count_right("zeroone", scores, labels, axis)
    return (count - correct) / max(count, 1) if average else (count - correct, count)


def bce(scores, labels, average=True):
    """The mean of -log(sigm(scores)) where labels are 1 and of -log(1 - sigm(scores)) where they are 0.  Knet's bce.

    labels has scores' shape; negative ones mask their scores, as in nll.  average=False gives the pair (sum, number of scores).
    Raises ValueError for labels of another shape or other than these, TypeError if they aren't numbers.
    """
    return binary_loss("bce", scores, labels, (0, 1), "a negative number", average)


def logistic(scores, labels, average=True):
    """The mean of log(1 + exp(-labels * scores)), labels being -1 or 1.  Knet's logistic.

    labels has scores' shape; 0 masks its score.  average=False gives the pair (sum, number of scores).  Raises ValueError for labels
    of another shape or other than these, TypeError if they aren't numbers.
    """
    return binary_loss("logistic", scores, labels, (-1, 1), "0", average)


def binary_loss(name: str, scores: Any, labels: Any, pair: tuple[int, int], mask: str, average: bool) -> Any:
    low, high = pair
    labels, shape = to_host(labels), shape_of(scores)
    if labels.shape != shape:
        raise ValueError(f"{name}: labels {labels.shape} must have the shape of scores, {shape}")
    if labels.dtype.kind not in "biuf":
        raise TypeError(f"{name}: labels must be numbers, {low} or {high}, or {mask} for masked, got {labels.dtype}")
    is_high, is_masked = labels == high, labels == 0 if low else labels < 0
    if not (known := is_high | is_masked | (labels == low)).all():
        raise ValueError(f"{name}: labels must be {low} or {high}, or {mask} for masked, got {labels[~known].flat[0]}")
    masked = int(np.count_nonzero(is_masked))
    scores = astype(scores, np.float64) if dtype_of(scores).kind in "biu" else scores  # the negative of an unsigned integer wraps
    signed = where(is_high, negative(scores), where(is_masked, -math.inf, scores) if masked else scores)
    return mean_or_sum(softplus(signed), labels.size - masked, average)  # softplus(-inf) is 0, and so is its derivative


def is_model(scores: Any) -> bool:
    """Whether a loss was given a function, whose scores it is to take, in place of scores."""
    return callable(scores) and not hasattr(scores, "shape")


def over_batches(name: str, loss: Callable[..., Any], model: Callable[[Any], Any], data: Iterable[Any], axis: int, average: bool) -> Any:
    """A loss over all batches together."""
    if not hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
        raise TypeError(f"{name}: the data of a model must be an iterable of batches (x, labels), got {describe(data)}")
    parts = []
    for batch in data:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise TypeError(f"{name}: the data of a model are batches (x, labels), not {describe(batch)}")
        scores = model(batch[0])
        scores = astype(scores, np.float32) if dtype_of(scores) == HALF else scores  # the sum may be more than float16 holds
        parts.append(loss(scores, batch[1], axis, average=False))
    if not parts:
        raise ValueError(f"{name}: the data hold no batch")
    total, count = (functools.reduce(operator.add, each) for each in zip(*parts, strict=True))
    return total / max(count, 1) if average else (total, count)


def mean_or_sum(losses: Any, count: int, average: bool) -> Any:
    """The mean over the `count` losses that are not masked, or the pair (sum, count); the sum of float16 is float32."""
    is_half = losses.dtype == HALF
    total = sum(astype(losses, np.float32) if is_half else losses)  # the sum may be more than float16 holds
    if not average:
        return total, count
    mean = divide(total, max(count, 1))
    return astype(mean, HALF) if is_half else mean


def count_right(name: str, scores: Any, labels: Any, axis: int) -> tuple[int, int]:
    """How many of the instances that count have their highest score at their label, and how many count."""
    indices, mask, count = checked_classes(name, scores, labels, axis)
    right = to_host(argmax(scores, axis, True)) == indices
    return int(np.count_nonzero(right if mask is None else right & mask)), count


def checked_classes(name: str, scores: Any, labels: Any, axis: int) -> tuple[np.ndarray, np.ndarray | None, int]:
    """labels as indices along `axis` of scores (0 where masked), which of them count (None: all), and how many."""
    shape, labels, axis = shape_of(scores), to_host(labels), whole_number(name, "axis", axis)
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"{name}: scores {shape} has no axis {axis}")
    before, classes, after = shape[: axis % len(shape)], shape[axis], shape[axis % len(shape) + 1 :]
    if labels.shape != before + after:
        raise ValueError(f"{name}: labels {labels.shape} must have the shape of scores {shape} less its axis {axis}, {before + after}")
    if not classes and labels.size:
        raise ValueError(f"{name}: scores {shape} have no classes along axis {axis}")
    if labels.dtype.kind not in "iu" and labels.size:
        raise TypeError(f"{name}: labels must be integers from 0 to {classes - 1}, or negative for masked, got {labels.dtype}")
    if labels.size and (highest := labels.max()) >= classes:
        raise ValueError(f"{name}: label {highest} is outside the {classes} classes, 0 to {classes - 1}")
    labels = labels.astype(np.intp, copy=False).reshape(*before, 1, *after)
    mask = labels >= 0
    count = int(np.count_nonzero(mask))
    return (labels, None, count) if count == labels.size else (np.where(mask, labels, 0), mask, count)


def to_host(x: Any) -> np.ndarray:
    """Whatever holds labels as a NumPy array.  A tracked Tensor raises and says how to stop its gradient."""
    k = kernels()
    return k.to_numpy(x) if isinstance(x, k.array) else np.asarray(x)
