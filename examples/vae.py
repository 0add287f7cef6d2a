"""A convolutional variational autoencoder of handwritten digits, which then draws some of its own.

    python examples/vae.py --picture digits.png                   # the 1,797 digits that come with autotape
    python examples/vae.py --picture mnist.png --data FOLDER      # MNIST's four files, in FOLDER/mnist

An encoder gives the mean and variance of a few normal numbers for an image, a decoder the probability that each pixel is white for such
numbers (Kingma and Welling 2014).  Pixels are made black or white at random, by their grey, so that the loss is a bound on the
negative log likelihood of an image, in nats.
"""

import argparse
from pathlib import Path

import numpy as np
from pictures import save_picture

import autotape as at
from autotape import random
from autotape.opsets import v20 as ops
from autotape.train import Adam, datasets, minibatch, minimize, param, param0, progress

LATENT = 16


class Encoder:
    """Images (N, 1, side, side) to the mean and the logarithm of the variance (N, LATENT) of what they are drawn from."""

    def __init__(self, side):
        self.w1, self.b1 = param(16, 1, 4, 4), param0(16, 1, 1)
        self.w2, self.b2 = param(32, 16, 4, 4), param0(32, 1, 1)
        self.mean, self.logvar = param(32 * (side // 4) ** 2, LATENT), param(32 * (side // 4) ** 2, LATENT)

    def __call__(self, x):
        h = ops.relu(ops.conv4(self.w1, x, stride=2, padding=1, mode=1) + self.b1)
        h = ops.mat(ops.relu(ops.conv4(self.w2, h, stride=2, padding=1, mode=1) + self.b2))
        return h @ self.mean, h @ self.logvar


class Decoder:
    """Numbers (N, LATENT) to the scores (N, 1, side, side) of white pixels."""

    def __init__(self, side):
        self.side = side
        self.w, self.b = param(LATENT, 32 * (side // 4) ** 2), param0(32 * (side // 4) ** 2)
        self.w1, self.b1 = param(32, 16, 4, 4), param0(16, 1, 1)
        self.w2, self.b2 = param(16, 1, 4, 4), param0(1, 1, 1)

    def __call__(self, z):
        h = ops.relu(z @ self.w + self.b).reshape(-1, 32, self.side // 4, self.side // 4)
        h = ops.relu(ops.deconv4(self.w1, h, stride=2, padding=1, mode=1) + self.b1)
        return ops.deconv4(self.w2, h, stride=2, padding=1, mode=1) + self.b2


def bound(encoder, decoder, x):
    """An upper bound on -log p(x), in nats an image."""
    mean, logvar = encoder(x)
    z = mean + np.exp(logvar / 2) * random.normal(mean.shape, dtype=np.float32)
    missed, _ = ops.bce(decoder(z), x, average=False)
    divergence = 0.5 * np.sum(mean**2 + np.exp(logvar) - 1 - logvar)
    return (missed + divergence) / len(x)


def black_or_white(x):
    return (x > random.uniform(x.shape, dtype=np.float32)).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="whose folder mnist holds the files (default: bundled digits)")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw 64 digits that the decoder makes up")
    parser.add_argument("--epochs", type=int, help="default: 3 of MNIST, 60 of the digits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="4 epochs")
    args = parser.parse_args()
    epochs = 4 if args.quick else args.epochs or (3 if args.data else 60)

    random.set(args.seed)
    images, test = datasets.mnist(args.data / "mnist") if args.data else datasets.digits(args.seed)
    side = images.pixels.shape[-1]
    encoder, decoder, data = Encoder(side), Decoder(side), minibatch(images.pixels, 32, shuffle=True)
    opt, test = Adam(lr=0.002), black_or_white(test.pixels)

    def test_bound():
        with at.no_grad():
            return float(bound(encoder, decoder, test))

    print(f"untrained: at most {test_bound():.2f} nats per test image")
    for epoch in range(1, epochs + 1):
        steps = minimize(lambda x: bound(encoder, decoder, black_or_white(x)), data, opt)
        losses = list(progress(steps, lambda loss: f"loss {loss:.2f}", title=f"epoch {epoch}"))
        if epoch % -(-epochs // 10) == 0:
            print(f"epoch {epoch}: training {np.mean(losses):.2f}, test {test_bound():.2f}", flush=True)
    if args.picture:
        with at.no_grad():
            save_picture(args.picture, ops.sigm(decoder(random.normal((64, LATENT), dtype=np.float32))).numpy())
    print(f"at most {test_bound():.2f} nats per test image")


if __name__ == "__main__":
    main()
