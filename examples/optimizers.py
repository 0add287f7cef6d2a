"""A multilayer perceptron trained by every optimiser at its default rate, from the same parameters.  Knet's optimizers notebook.

    python examples/optimizers.py --data FOLDER --plot optimizers.png     # MNIST's four files, in FOLDER/mnist
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from autotape import random
from autotape.opsets import v20 as ops
from autotape.train import SGD, Adadelta, Adagrad, Adam, AdamW, Momentum, Nesterov, Rmsprop, datasets, minibatch, train, xavier_uniform

OPTIMISERS = SGD, Momentum, Nesterov, Adagrad, Rmsprop, Adadelta, Adam, AdamW


def layer(inputs, outputs):
    return {"w": xavier_uniform(inputs, outputs), "b": np.zeros(outputs, np.float32)}


def network(params, x):
    first, second = params
    return ops.relu(ops.mat(x) @ first["w"] + first["b"]) @ second["w"] + second["b"]


def loss(params, x, labels):
    return ops.nll(network(params, x), labels)


def curves(opt, params, data, test, epochs):
    """The mean loss in each epoch and the loss on the test set after it; the test accuracy in the end."""
    rows, losses = [], []
    for step in train(loss, data, opt, params=params, epochs=epochs):
        losses.append(step.loss)
        if step.ends_epoch:
            rows.append((np.mean(losses), float(loss(step.params, *test))))
            losses.clear()
    return np.array(rows).T, ops.accuracy(network(step.params, test.pixels), test.labels)


def plot(found, path):
    figure = Figure(figsize=(10, 4), layout="constrained")
    for which, (axes, title) in enumerate(zip(figure.subplots(1, 2, sharey=True), ("train", "test"), strict=True)):
        for name, lines in found.items():
            axes.semilogy(range(1, lines.shape[1] + 1), lines[which], "o-", markersize=3, label=name)
        axes.set(title=title, xlabel="epoch", ylabel="loss")
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="whose folder mnist holds the files (default: bundled digits)")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the losses")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="3 epochs")
    args = parser.parse_args()

    random.set(args.seed)
    images, test = datasets.mnist(args.data / "mnist") if args.data else datasets.digits(args.seed)
    params = [layer(images.pixels[0].size, 64), layer(64, 10)]
    found, accuracies = {}, {}
    for optimiser in OPTIMISERS:
        opt, name = optimiser(), optimiser.__name__
        data = minibatch(*images, 64, shuffle=True, generator=args.seed)  # in the same order for each
        found[name], accuracies[name] = curves(opt, params, data, test, 3 if args.quick else args.epochs)
        train_loss, test_loss = found[name][:, -1]
        print(f"{name:9} lr {opt.lr:<5g} train {train_loss:.4f}  test {test_loss:.4f}  accuracy {100 * accuracies[name]:.2f} %", flush=True)
    if args.plot:
        plot(found, args.plot)
    best = max(accuracies, key=accuracies.get)
    print(f"best on the test set: {best}, {100 * accuracies[best]:.2f} %; the worst: {100 * min(accuracies.values()):.2f} %")


if __name__ == "__main__":
    main()
