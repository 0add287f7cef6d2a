"""The models of `autotape train`: softmax regression, a multilayer perceptron and LeNet-5 for images, an LSTM for text.

A model is two functions: init(shape) gives the parameters, a dict of float32 arrays drawn from autotape.random, for images of
`shape` (1, height, width); apply(parameters, x) gives the scores (N, 10) of images x (N, 1, height, width).  For text, shape is
(characters,), x (N, T) holds numbers of characters, and the scores (N, characters, T) are of the character after each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import backend
from ..opsets import array
from ..opsets import v20 as ops
from .datasets import CLASSES
from .init import gaussian, xavier_uniform

Parameters = dict[str, Any]
Shape = tuple[int, ...]


class Recipe(NamedTuple):
    """How a model is trained unless the command line says otherwise."""

    epochs: int
    batch_size: int
    lr: float
    shift: int = 0  # training images are moved by at most so many pixels


class Model(NamedTuple):
    """A model, the side its images are brought to (None: as they come), and a recipe for each data set."""

    init: Callable[[Shape], Parameters]
    apply: Callable[[Any, Any], Any]
    side: int | None
    recipes: dict[str, Recipe]


def zeros(*shape: int) -> Any:
    """float32 zeros."""
    return backend.kernels().zeros(shape, np.dtype(np.float32))


def layer(name: str, inputs: int, outputs: int) -> Parameters:
    """The parameters of a dense layer."""
    return {f"{name}.weight": xavier_uniform(inputs, outputs), f"{name}.bias": zeros(outputs)}


def convolution(name: str, inputs: int, outputs: int, window: int) -> Parameters:
    """The parameters of a convolution; the bias has the shape that lets conv, bias and relu fuse."""
    return {
        f"{name}.weight": xavier_uniform(outputs, inputs, window, window),
        f"{name}.bias": zeros(1, outputs, 1, 1),
    }


def dense(p: Any, name: str, x: Any) -> Any:
    """x @ weight + bias."""
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def conv_relu_pool(p: Any, name: str, x: Any) -> Any:
    """Convolution (cross-correlation), bias, relu, and the maximum of each 2x2 window."""
    return ops.pool(ops.relu(ops.conv4(p[f"{name}.weight"], x, mode=1) + p[f"{name}.bias"]))


def softmax_init(shape: Shape) -> Parameters:
    """One dense layer."""
    return layer("dense", math.prod(shape), CLASSES)


def softmax_apply(p: Any, x: Any) -> Any:
    """Scores that are linear in the pixels."""
    return dense(p, "dense", ops.mat(x))


def mlp_init(shape: Shape) -> Parameters:
    """Dense layers of 128, 64 and 10."""
    return layer("dense1", math.prod(shape), 128) | layer("dense2", 128, 64) | layer("dense3", 64, CLASSES)


def mlp_apply(p: Any, x: Any) -> Any:
    """Three dense layers with relu between them."""
    h = ops.relu(dense(p, "dense1", ops.mat(x)))
    return dense(p, "dense3", ops.relu(dense(p, "dense2", h)))


def lenet_init(shape: Shape) -> Parameters:
    """The layers of LeNet-5 (LeCun et al. 1998) for images of 32x32."""
    return (
        convolution("conv1", 1, 6, 5)  # 32 -> 28, pooled to 14
        | convolution("conv2", 6, 16, 5)  # 14 -> 10, pooled to 5
        | layer("dense1", 16 * 5 * 5, 120)
        | layer("dense2", 120, 84)
        | layer("dense3", 84, CLASSES)
    )


def lenet_apply(p: Any, x: Any) -> Any:
    """LeNet-5 with relu and maximum pooling in place of tanh and averages."""
    h = conv_relu_pool(p, "conv2", conv_relu_pool(p, "conv1", x))
    h = ops.relu(dense(p, "dense1", ops.mat(h)))
    return dense(p, "dense3", ops.relu(dense(p, "dense2", h)))


def charlm_init(shape: Shape) -> Parameters:
    """An LSTM of 256 for a text of so many different characters."""
    (characters,) = shape
    return {"embedding": gaussian(characters, 64, std=0.3), "lstm": ops.RNN(64, 256)} | layer("dense", 256, characters)


def charlm_apply(p: Any, x: Any) -> Any:
    """Scores of the characters after each of x, by those of its window up to there."""
    h = ops.dropout(p["lstm"](array.getitem(p["embedding"], x.T)), 0.3)
    return array.transpose(dense(p, "dense", h), (1, 2, 0))


MODELS = {
    "lenet": Model(lenet_init, lenet_apply, 32, {"digits": Recipe(40, 32, 0.003, shift=3), "mnist": Recipe(2, 32, 0.002)}),
    "mlp": Model(mlp_init, mlp_apply, None, {"digits": Recipe(40, 32, 0.003), "mnist": Recipe(5, 64, 0.002)}),
    "softmax": Model(softmax_init, softmax_apply, None, {"digits": Recipe(40, 32, 0.01), "mnist": Recipe(5, 64, 0.003)}),
    "charlm": Model(charlm_init, charlm_apply, None, {"text": Recipe(20, 32, 0.004)}),
}
