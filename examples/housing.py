"""Linear regression: the prices of houses from 13 figures about their district.  Knet's first tutorial.

    python examples/housing.py --data FOLDER         # which holds tables/housing.csv
    python examples/housing.py                       # made-up prices
"""

import argparse
from pathlib import Path

import numpy as np

from autotape import random
from autotape.train import minibatch, param, param0, sgd


def load(folder):
    """13 figures and a price in each row."""
    return np.loadtxt(folder / "tables" / "housing.csv", delimiter=",", skiprows=1, dtype=np.float32)


def made_up(districts=506):
    """The same of prices that are linear in the figures but for noise of variance 4."""
    x, w = random.normal((districts, 13), dtype=np.float32), random.normal((13, 1), dtype=np.float32)
    return np.hstack([x, 20 + x @ w + random.normal((districts, 1), std=2.0, dtype=np.float32)])


def split(table):
    """(x, y) to train on and (x, y) to test on; x (N, 13) in units of each figure's deviation, y (N, 1) in thousands of dollars."""
    table = table[random.permutation(len(table))]
    x, y, n = table[:, :-1], table[:, -1:], len(table) * 4 // 5
    x = (x - x[:n].mean(0)) / x[:n].std(0)
    return (x[:n], y[:n]), (x[n:], y[n:])


def exact(x, y):
    """The least mean squared error that a linear function of x has."""
    x1 = np.hstack([x, np.ones_like(y)])
    return np.mean((x1 @ np.linalg.lstsq(x1, y)[0] - y) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="which holds tables/housing.csv (default: made-up prices)")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="20 epochs")
    args = parser.parse_args()
    epochs = 20 if args.quick else args.epochs

    random.set(args.seed)
    train, test = split(load(args.data) if args.data else made_up())
    w, b = param(train[0].shape[1], 1), param0(1)

    def loss(x, y):
        return np.mean((x @ w + b - y) ** 2)

    data = minibatch(*train, 16, shuffle=True)
    for epoch in range(1, epochs + 1):
        losses = list(sgd(loss, data, lr=0.1 / (10 + epoch)))
        if epoch % -(-epochs // 10) == 0:
            print(f"epoch {epoch}: mean squared error {np.mean(losses):.2f}")
    print(f"train {loss(*train).item():.2f} (the least possible: {exact(*train):.2f}), test {loss(*test).item():.2f}")


if __name__ == "__main__":
    main()
