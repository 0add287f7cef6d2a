"""Handwritten digits by a linear model, a multilayer perceptron or LeNet, each a function made of Params.

    python examples/mnist.py lenet --data FOLDER     # MNIST's four files, in FOLDER/mnist
    python examples/mnist.py mlp                     # the 1,797 digits that come with autotape
"""

import argparse
from pathlib import Path

import numpy as np

from autotape import random
from autotape.opsets import v20 as ops
from autotape.train import Adam, datasets, minibatch, minimize, param, param0, progress
from autotape.train.schedules import linear

SIDE = 28


class Dense:
    def __init__(self, inputs, outputs, activation=ops.relu):
        self.w, self.b, self.activation = param(inputs, outputs), param0(outputs), activation

    def __call__(self, x):
        return self.activation(ops.mat(x) @ self.w + self.b)


class Conv:
    def __init__(self, inputs, outputs, window):
        self.w, self.b = param(outputs, inputs, window, window), param0(outputs, 1, 1)

    def __call__(self, x):
        return ops.pool(ops.relu(ops.conv4(self.w, x, mode=1) + self.b))


class Chain:
    def __init__(self, *layers):
        self.layers = layers

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def identity(x):
    return x


MODELS = {
    "softmax": lambda: Dense(SIDE * SIDE, 10, identity),
    "mlp": lambda: Chain(Dense(SIDE * SIDE, 256), Dense(256, 10, identity)),
    "lenet": lambda: Chain(Conv(1, 20, 5), Conv(20, 50, 5), Dense(50 * 4 * 4, 500), Dense(500, 10, identity)),
}


def load(folder, seed):
    """The images to train on and those to test on."""
    return datasets.mnist(folder / "mnist") if folder else [datasets.resized(images, SIDE) for images in datasets.digits(seed)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="whose folder mnist holds the files (default: bundled digits)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="2 epochs")
    args = parser.parse_args()

    random.set(args.seed)
    (x, labels), test = load(args.data, args.seed)
    train, test = minibatch(x, labels, 64, shuffle=True), minibatch(*test, 256, partial=True)
    model, epochs = MODELS[args.model](), 2 if args.quick else args.epochs
    opt = Adam(lr=args.lr, schedule=linear(epochs * len(train)))

    for epoch in range(1, epochs + 1):
        steps = minimize(lambda x, labels: ops.nll(model(x), labels), train, opt)
        losses = list(progress(steps, lambda loss: f"loss {loss:.3f}", title=f"epoch {epoch}"))
        accuracy = ops.accuracy(model, test)
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}, test accuracy {100 * accuracy:.2f} %", flush=True)
    print(f"{args.model}: test accuracy {100 * accuracy:.2f} %")


if __name__ == "__main__":
    main()
