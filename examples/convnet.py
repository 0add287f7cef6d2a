"""A convolutional network as for CIFAR: blocks of two 3x3 convolutions with batchnorm, then a pooling.

    python examples/convnet.py --data FOLDER                       # MNIST's four files, in FOLDER/mnist
    python examples/convnet.py --data FOLDER --snapshots run       # interrupted and started again, it goes on
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

import autotape as at
from autotape import random
from autotape.opsets import v20 as ops
from autotape.train import AdamW, FailOnNaN, Snapshots, datasets, minibatch, newest, train, xavier_normal, xavier_uniform
from autotape.train.schedules import cosine, warmup


def conv_init(inputs, outputs):
    """A window, and batchnorm's scales, biases and running statistics; these are in the tree, so that snapshots hold them."""
    return {"w": xavier_normal(outputs, inputs, 3, 3, gain=2**0.5), "bn": ops.bnparams(outputs), "moments": ops.bnmoments()}


def conv(p, x):
    x = ops.conv4(p["w"], x, padding=1, mode=1)
    return ops.relu(ops.batchnorm(x, p["moments"], p["bn"]))


def init(side, channels=(16, 32)):
    """The parameters of a network for images (1, side, side)."""
    blocks = [[conv_init(before, after), conv_init(after, after)] for before, after in pairwise((1, *channels))]
    outputs = channels[-1] * (side // 2 ** len(channels)) ** 2
    return {"blocks": blocks, "w": xavier_uniform(outputs, 10), "b": np.zeros(10, np.float32)}


def network(p, x):
    for first, second in p["blocks"]:
        x = ops.pool(conv(second, conv(first, x)))
    return ops.dropout(ops.mat(x), 0.3) @ p["w"] + p["b"]


def loss(p, x, labels):
    return ops.nll(network(p, x), labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="whose folder mnist holds the files (default: bundled digits)")
    parser.add_argument("--snapshots", type=Path, metavar="FOLDER", help="leave them there, and go on from the newest")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the parameters and statistics, for at.load")
    parser.add_argument("--epochs", type=int, help="default: 2 of MNIST, 20 of the digits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="3 epochs")
    args = parser.parse_args()
    epochs = 3 if args.quick else args.epochs or (2 if args.data else 20)

    random.set(args.seed)
    images, test = datasets.mnist(args.data / "mnist") if args.data else datasets.digits(args.seed)
    data, test = minibatch(*images, 64, shuffle=True), minibatch(*test, 256, partial=True)
    steps = epochs * len(data)
    opt = AdamW(lr=0.003, schedule=warmup(steps // 20 + 1) * cosine(steps))
    snapshots = [Snapshots(args.snapshots, every=100)] if args.snapshots else []
    resume = newest(args.snapshots) if args.snapshots else None

    training = train(loss, data, opt, init(images.pixels.shape[-1]), epochs, [FailOnNaN(), *snapshots], resume)
    for step in training:
        if step.number % 100 == 0 or step.ends_epoch:
            print(f"epoch {step.epoch}, batch {step.batch} of {len(data)}: loss {step.loss:.4f}", flush=True)
    if args.save:
        at.save(args.save, training.params)
    print(f"test accuracy {100 * ops.accuracy(lambda x: network(training.params, x), test):.2f} %")


if __name__ == "__main__":
    main()
