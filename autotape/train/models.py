"""The models of `autotape train`: softmax regression, a multilayer perceptron and LeNet-5.

A model is two functions: init(rng, shape) gives the parameters, a dict of float32 arrays, for images of `shape`
(1, height, width); apply(parameters, x) gives the scores (N, 10) of images x (N, 1, height, width).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..opsets import v20 as ops
from .data import CLASSES

Parameters = dict[str, np.ndarray]
Shape = tuple[int, ...]


class Recipe(NamedTuple):
    """How a model is trained unless the command line says otherwise."""

    epochs: int
    batch_size: int
    lr: float
    shift: int = 0  # training images are moved by at most so many pixels


class Model(NamedTuple):
    """A model, the side its images are brought to (None: as they come), and a recipe for each data set."""

    init: Callable[[np.random.Generator, Shape], Parameters]
    apply: Callable[[Any, Any], Any]
    side: int | None
    recipes: dict[str, Recipe]


def xavier(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """float32 weights, uniform within sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010).

    The shape is (inputs, outputs), or (outputs, inputs, *window) for a convolution.
    """
    window = math.prod(shape[2:])
    limit = math.sqrt(6 / ((shape[0] + shape[1]) * window))
    return rng.uniform(-limit, limit, shape).astype(np.float32)


def layer(rng: np.random.Generator, name: str, inputs: int, outputs: int) -> Parameters:
    """The parameters of a dense layer."""
    return {f"{name}.weight": xavier(rng, inputs, outputs), f"{name}.bias": np.zeros(outputs, np.float32)}


def convolution(rng: np.random.Generator, name: str, inputs: int, outputs: int, window: int) -> Parameters:
    """The parameters of a convolution; the bias has the shape that lets conv, bias and relu fuse."""
    return {
        f"{name}.weight": xavier(rng, outputs, inputs, window, window),
        f"{name}.bias": np.zeros((1, outputs, 1, 1), np.float32),
    }


def dense(p: Any, name: str, x: Any) -> Any:
    """x @ weight + bias."""
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def conv_relu_pool(p: Any, name: str, x: Any) -> Any:
    """Convolution (cross-correlation), bias, relu, and the maximum of each 2x2 window."""
    return ops.pool(ops.relu(ops.conv4(p[f"{name}.weight"], x, mode=1) + p[f"{name}.bias"]))


def softmax_init(rng: np.random.Generator, shape: Shape) -> Parameters:
    """One dense layer."""
    return layer(rng, "dense", math.prod(shape), CLASSES)


def softmax_apply(p: Any, x: Any) -> Any:
    """Scores that are linear in the pixels."""
    return dense(p, "dense", ops.mat(x))


def mlp_init(rng: np.random.Generator, shape: Shape) -> Parameters:
    """Dense layers of 128, 64 and 10."""
    return layer(rng, "dense1", math.prod(shape), 128) | layer(rng, "dense2", 128, 64) | layer(rng, "dense3", 64, CLASSES)


def mlp_apply(p: Any, x: Any) -> Any:
    """Three dense layers with relu between them."""
    h = ops.relu(dense(p, "dense1", ops.mat(x)))
    return dense(p, "dense3", ops.relu(dense(p, "dense2", h)))


def lenet_init(rng: np.random.Generator, shape: Shape) -> Parameters:
    """The layers of LeNet-5 (LeCun et al. 1998) for images of 32x32."""
    return (
        convolution(rng, "conv1", 1, 6, 5)  # 32 -> 28, pooled to 14
        | convolution(rng, "conv2", 6, 16, 5)  # 14 -> 10, pooled to 5
        | layer(rng, "dense1", 16 * 5 * 5, 120)
        | layer(rng, "dense2", 120, 84)
        | layer(rng, "dense3", 84, CLASSES)
    )


def lenet_apply(p: Any, x: Any) -> Any:
    """LeNet-5 with relu and maximum pooling in place of tanh and averages."""
    h = conv_relu_pool(p, "conv2", conv_relu_pool(p, "conv1", x))
    h = ops.relu(dense(p, "dense1", ops.mat(h)))
    return dense(p, "dense3", ops.relu(dense(p, "dense2", h)))


MODELS = {
    "lenet": Model(lenet_init, lenet_apply, 32, {"digits": Recipe(20, 32, 0.003, shift=3), "mnist": Recipe(2, 32, 0.002)}),
    "mlp": Model(mlp_init, mlp_apply, None, {"digits": Recipe(40, 32, 0.003), "mnist": Recipe(5, 64, 0.002)}),
    "softmax": Model(softmax_init, softmax_apply, None, {"digits": Recipe(40, 32, 0.01), "mnist": Recipe(5, 64, 0.003)}),
}
