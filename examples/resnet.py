"""ResNet-18 (He et al. 2016), forward and backward on random images.

    python examples/resnet.py --batch 4 --side 224
"""

import argparse
import time

import numpy as np

import autotape as at
from autotape import random
from autotape.opsets import v20 as ops
from autotape.train import SGD, minimize, param, param0, xavier_normal


class Conv:
    """A convolution and its batchnorm."""

    def __init__(self, inputs, outputs, window, stride=1):
        self.w = param(outputs, inputs, window, window, init=xavier_normal)
        self.bn, self.moments = at.Param(ops.bnparams(outputs)), ops.bnmoments()
        self.stride, self.padding = stride, window // 2

    def __call__(self, x):
        x = ops.conv4(self.w, x, padding=self.padding, stride=self.stride, mode=1)
        return ops.batchnorm(x, self.moments, self.bn)


class Block:
    """Two convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        self.first, self.second = Conv(inputs, outputs, 3, stride), Conv(outputs, outputs, 3)
        self.shortcut = Conv(inputs, outputs, 1, stride) if stride > 1 else lambda x: x

    def __call__(self, x):
        return ops.relu(self.second(ops.relu(self.first(x))) + self.shortcut(x))


class ResNet18:
    def __init__(self, classes=1000):
        self.stem, self.w, self.b = Conv(3, 64, 7, 2), param(512, classes), param0(classes)
        sizes = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        self.blocks = [block for i, o, stride in sizes for block in (Block(i, o, stride), Block(o, o, 1))]

    def __call__(self, x):
        x = ops.pool(ops.relu(self.stem(x)), window=3, stride=2, padding=1)
        for block in self.blocks:
            x = block(x)
        return np.mean(x, axis=(2, 3)) @ self.w + self.b


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="images of 32x32")
    args = parser.parse_args()
    side = 32 if args.quick else args.side

    random.set(args.seed)
    model, images = ResNet18(), random.normal((args.batch, 3, side, side), dtype=np.float32)
    labels = random.current().integers(0, 1000, args.batch)
    training = minimize(lambda: ops.nll(model(images), labels), [()] * args.steps, SGD(lr=0.01))
    times = []
    for number in range(1, args.steps + 1):
        start = time.perf_counter()
        loss = next(training)
        middle = time.perf_counter()
        model(images)
        times.append((middle - start, time.perf_counter() - middle))
        print(f"step {number}: loss {loss:.3f}")
    step, forward = np.median(times, axis=0)
    count = sum(p.size for p in training.params)
    print(f"{count:,} parameters; {args.batch} images of {side}x{side}: a step of SGD {step:.2f} s, forward alone {forward:.2f} s")


if __name__ == "__main__":
    main()
