"""A DCGAN of handwritten digits: a network that draws, and one that tells drawings from digits, each learning from the other.

    python examples/dcgan.py --picture digits.png

Both are convolutional with batchnorm (Radford et al. 2016), and sized for the 8x8 digits that come with autotape.  One tape records
both losses, so that each network is run once on the drawings.
"""

import argparse
from pathlib import Path

import numpy as np
from pictures import save_picture

import autotape as at
from autotape import random
from autotape.opsets import v20 as ops
from autotape.train import Adam, datasets, gaussian, minibatch, param

LATENT, BATCH = 32, 64


def weight(*dims):
    return param(*dims, init=gaussian, std=0.1)


class BatchNorm:
    def __init__(self, channels):
        self.params, self.moments = at.Param(ops.bnparams(channels)), ops.bnmoments()

    def __call__(self, x):
        return ops.batchnorm(x, self.moments, self.params)


class Generator:
    """Normal numbers (N, LATENT) to drawings (N, 1, 8, 8) with values from -1 to 1."""

    def __init__(self):
        self.w1, self.w2, self.w3 = weight(LATENT, 64 * 2 * 2), weight(64, 32, 4, 4), weight(32, 1, 4, 4)
        self.bn1, self.bn2 = BatchNorm(64), BatchNorm(32)
        self.params = [self.w1, self.w2, self.w3, self.bn1.params, self.bn2.params]

    def __call__(self, z):
        h = ops.relu(self.bn1((z @ self.w1).reshape(-1, 64, 2, 2)))
        h = ops.relu(self.bn2(ops.deconv4(self.w2, h, stride=2, padding=1)))
        return np.tanh(ops.deconv4(self.w3, h, stride=2, padding=1))

    def draw(self, n):
        return self(random.normal((n, LATENT), dtype=np.float32))


class Discriminator:
    """Images (N, 1, 8, 8) to scores (N, 1), which are high for real ones."""

    def __init__(self):
        self.w1, self.w2, self.w3 = weight(32, 1, 4, 4), weight(64, 32, 4, 4), weight(64 * 2 * 2, 1)
        self.bn2 = BatchNorm(64)
        self.params = [self.w1, self.w2, self.w3, self.bn2.params]

    def __call__(self, x):
        h = leaky_relu(ops.conv4(self.w1, x, stride=2, padding=1))
        h = leaky_relu(self.bn2(ops.conv4(self.w2, h, stride=2, padding=1)))
        return ops.mat(ops.dropout(h, 0.3)) @ self.w3


def leaky_relu(x):
    return np.maximum(x, 0.2 * x)


def nearest(x, digits, labels):
    """The mean distance of images from the nearest digit, and how many are nearest to a 0, a 1 ..., of 100."""
    distances = np.sqrt(((x[:, None] - digits) ** 2).sum((2, 3, 4)))
    return distances.min(1).mean(), 100 * np.bincount(labels[distances.argmin(1)], minlength=10) / len(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw 64 digits that the generator makes up")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="8 epochs")
    args = parser.parse_args()
    epochs = 8 if args.quick else args.epochs

    random.set(args.seed)
    (digits, labels), (others, _) = ((2 * pixels - 1, labels) for pixels, labels in datasets.digits(args.seed))
    data = minibatch(digits, BATCH, shuffle=True)
    generator, discriminator = Generator(), Discriminator()
    g_opt, d_opt = Adam(lr=0.001, beta1=0.5), Adam(lr=0.0005, beta1=0.5)
    real, drawn = np.ones((BATCH, 1)), np.zeros((BATCH, 1))

    for epoch in range(1, epochs + 1):
        losses = []
        for x in data:
            with at.Tape(persistent=True) as tape:
                scores = discriminator(generator.draw(BATCH))
                d_loss = ops.bce(discriminator(x), real) + ops.bce(scores, drawn)
                g_loss = ops.bce(scores, real)
            g_grads, d_grads = tape.gradient(g_loss, generator.params), tape.gradient(d_loss, discriminator.params)
            tape.close()  # so that the parameters may change
            g_opt.step(generator.params, g_grads)
            d_opt.step(discriminator.params, d_grads)
            losses.append((float(d_loss), float(g_loss)))
        if epoch % -(-epochs // 10) == 0:
            print("epoch {}: discriminator's loss {:.3f}, generator's {:.3f}".format(epoch, *np.mean(losses, axis=0)), flush=True)

    with at.no_grad():
        if args.picture:
            save_picture(args.picture, (generator.draw(64).numpy() + 1) / 2)
        distance, shares = nearest(generator.draw(256).numpy(), digits, labels)
    print(f"a digit's distance from the nearest other one: {nearest(others, digits, labels)[0]:.3f}")
    print("of 100 drawings are like 0 to 9:", *np.round(shares).astype(int))
    print(f"a drawing's distance from the nearest digit: {distance:.3f}")


if __name__ == "__main__":
    main()
