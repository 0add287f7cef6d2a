"""The command line: `autotape train lenet` trains a network, `autotape backends` lists the backends, `autotape numpy` NumPy's functions.

What a user got wrong becomes one line on standard error and exit code 2; Ctrl-C gives 130.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

import autotape

from . import backend, math_mode, numpy_accounts
from .errors import BackendError
from .train import InputError, data, loop, plot, save
from .train.models import MODELS
from .train.threads import one_blas_thread


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"autotape: error: {message}\n")


def whole(low: int) -> Callable[[str], int]:
    """A type for argparse: a whole number from `low` on."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"{text!r} isn't a whole number from {low} on")
        return value

    return number


def positive(text: str) -> float:
    """A type for argparse: a finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a finite number above zero")
    return value


def parser() -> Parser:
    """What the command line takes."""
    top = Parser(prog="autotape", description="A tape-based autograd engine for NumPy code.", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"autotape {autotape.__version__}")
    commands = top.add_subparsers(metavar="command", required=True)
    _add_train(commands.add_parser("train", help="train a network and test it after each epoch", allow_abbrev=False))
    listing = commands.add_parser("backends", help="list the backends, and why those that can't be used here can't")
    listing.set_defaults(run=list_backends)
    accounts = commands.add_parser("numpy", help="say of every NumPy function whether it differentiates, as docs/numpy.md does")
    accounts.set_defaults(run=lambda args: print(numpy_accounts.page(), end=""))
    return top


def _add_train(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("model", choices=MODELS, help="lenet: LeNet-5; mlp: three dense layers; softmax: one")
    add("--data", choices=("digits", "mnist"), default="digits", help="1,797 bundled images of 8x8, or MNIST (default: %(default)s)")
    add("--data-dir", type=Path, metavar="FOLDER", help="where MNIST's four idx files lie, gzipped or not")
    add("--backend", default=backend.get(), metavar="NAME", help="see `autotape backends`; auto takes the fastest (default: %(default)s)")
    add("--math-mode", default=math_mode.get(), choices=math_mode.MODES, help="what may be traded for speed (default: %(default)s)")
    add("--epochs", type=whole(1), metavar="N", help="passes over the training set; this and the next two depend on model and data")
    add("--batch-size", type=whole(1), metavar="N", help="images per step")
    add("--lr", type=positive, metavar="RATE", help="learning rate of the first step; it falls linearly to zero")
    add("--seed", type=whole(0), default=0, metavar="N", help="for the split, the parameters and the order (default: %(default)s)")
    add("--save", type=Path, metavar="FILE", help="write the trained parameters, as safetensors")
    add("--plot", type=Path, metavar="FILE.png", help="write a picture of loss and accuracy over the epochs")
    command.set_defaults(run=train)


def list_backends(args: argparse.Namespace) -> None:
    """Print each backend and, where it can't be used, why."""
    reasons = backend.available()
    width = max(map(len, reasons))
    for name, reason in reasons.items():
        print(f"{name:{width}}  {'available' if reason is None else f'not available: {reason}'}")


def train(args: argparse.Namespace) -> None:
    """Train as the arguments say: a line an epoch, then the files asked for."""
    _check_options(args)
    model, title = MODELS[args.model], f"{args.model} on {args.data}"
    chosen = {field: value for field in ("epochs", "batch_size", "lr") if (value := getattr(args, field)) is not None}
    recipe = model.recipes[args.data]._replace(**chosen)
    with backend.use(args.backend), math_mode.use(args.math_mode), one_blas_thread():
        train_set, test_set = _load(args, model.side)
        parameters = model.init(np.random.default_rng(args.seed), train_set.pixels.shape[1:])
        print(f"{title}: {len(train_set.labels)} training and {len(test_set.labels)} test images")
        print(f"{sum(p.size for p in parameters.values())} parameters, batch size {recipe.batch_size}, learning rate {recipe.lr:g}")
        print(f"backend {backend.get()}, math mode {math_mode.get()}", flush=True)
        epochs = []
        for epoch in loop.train(model.apply, parameters, train_set, test_set, recipe, args.seed):
            print(_line(epoch, recipe.epochs), flush=True)
            epochs.append(epoch)
    if args.save:
        save.save_parameters(parameters, args.save)
        print(f"parameters saved in {args.save}")
    if args.plot:
        plot.curves(epochs, title, args.plot)
        print(f"curves drawn in {args.plot}")


def _check_options(args: argparse.Namespace) -> None:
    """Raise for a combination of options that can't work, before any work is done."""
    if args.data == "mnist" and args.data_dir is None:
        raise InputError("--data mnist needs --data-dir, the folder with its four idx files")
    if args.data == "digits" and args.data_dir is not None:
        raise InputError("--data-dir goes with --data mnist; the digits are bundled")
    if args.save and args.save == args.plot:
        raise InputError(f"--save and --plot can't both write {args.save}")
    if args.save:
        save.check_destination("--save", args.save, "safetensors")
    if args.plot:
        save.check_destination("--plot", args.plot, "matplotlib")
        if args.plot.suffix != ".png":
            raise InputError(f"--plot {args.plot}: the picture is a PNG, so its name must end in .png")


def _load(args: argparse.Namespace, side: int | None) -> list[data.Images]:
    """The training and the test set, brought to the model's side."""
    sets = data.digits(args.seed) if args.data == "digits" else data.mnist(args.data_dir)
    return [images if side is None else data.resized(images, side) for images in sets]


def _line(epoch: loop.Epoch, epochs: int) -> str:
    return (
        f"epoch {epoch.number:{len(str(epochs))}}/{epochs}  "
        f"train (running): loss {epoch.train_loss:.4f} accuracy {100 * epoch.train_accuracy:6.2f} %  "
        f"test: loss {epoch.test_loss:.4f} accuracy {100 * epoch.test_accuracy:6.2f} %  {epoch.seconds:.1f} s"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: this process's) and give its exit code."""
    args = parser().parse_args(argv)
    try:
        args.run(args)
    except KeyboardInterrupt:
        print("autotape: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # who read the output has gone, as in `autotape ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
        return 141
    except (InputError, OSError, ImportError, BackendError, FloatingPointError) as e:
        print(f"autotape: error: {e}", file=sys.stderr)
        return 2
    return 0
