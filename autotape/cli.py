"""The command line: `autotape train lenet` trains a network, `autotape backends` lists the backends and compiles CUDA kernels,
`autotape numpy` lists NumPy's functions, `autotape opsets` those of the opsets.

What a user got wrong becomes one line on standard error and exit code 2, a warning one line; Ctrl-C gives 130, CUDA kernels that
can't be compiled give 1.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import autotape

from . import backend, blas, io, math_mode, numpy_accounts, opset_tables, random, tree
from .errors import BackendError
from .train import InputError, datasets, plot, texts
from .train.callbacks import needs
from .train.classify import OPTIMISERS, SCHEDULES, Classifier, Epoch
from .train.models import MODELS

SAMPLE = 300  # characters that charlm writes when it is trained


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


def architecture(text: str) -> str:
    """A type for argparse: sm_ and the two parts of a compute capability."""
    if not re.fullmatch(r"sm_\d{2,3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no architecture such as sm_90")
    return text


def trace_file(text: str) -> Path:
    """A type for argparse: the file of --profile, which would take a model behind it for one."""
    if text in MODELS:
        raise argparse.ArgumentTypeError(f"{text!r} is a model: it stands before --profile")
    return Path(text)


def parser() -> Parser:
    """What the command line takes."""
    top = Parser(prog="autotape", description="A tape-based autograd engine for NumPy code.", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"autotape {autotape.__version__}")
    commands = top.add_subparsers(metavar="command", required=True)
    _add_train(commands.add_parser("train", help="train a network and test it after each epoch", allow_abbrev=False))
    listing = commands.add_parser("backends", help="list the backends, and why those that can't be used here can't")
    listing.add_argument("--build", action="store_true", help="compile the pycuda backend's kernels ahead of their use")
    listing.add_argument(
        "--arch", type=architecture, action="append", metavar="sm_90", help="for this GPU, may be repeated (default: those of this machine)"
    )
    listing.set_defaults(run=list_backends)
    accounts = commands.add_parser("numpy", help="say of every NumPy function whether it differentiates, as docs/numpy.md does")
    accounts.set_defaults(run=lambda args: print(numpy_accounts.page(), end=""))
    tables = commands.add_parser("opsets", help="list every opset's functions, as docs/opsets.md does")
    tables.set_defaults(run=lambda args: print(opset_tables.page(), end=""))
    return top


def _add_train(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("model", choices=MODELS, help="lenet: LeNet-5; mlp: three dense layers; softmax: one; charlm: an LSTM that writes text")
    add("--data", choices=("digits", "mnist"), help="1,797 bundled images of 8x8, or MNIST (default: digits)")
    add("--data-dir", type=Path, metavar="FOLDER", help="where MNIST's four idx files lie, gzipped or not")
    add("--text", type=Path, metavar="FILE", help="what charlm learns to write, in UTF-8; its last tenth is to test on")
    add("--backend", default=backend.get(), metavar="NAME", help="see `autotape backends`; auto takes the fastest (default: %(default)s)")
    add("--math-mode", default=math_mode.get(), choices=math_mode.MODES, help="what may be traded for speed (default: %(default)s)")
    add("--epochs", type=whole(1), metavar="N", help="passes over the training set; this and the next depend on model and data")
    add("--batch-size", type=whole(1), metavar="N", help="images, or windows of 64 characters, per step")
    add("--optimizer", choices=OPTIMISERS, default="adam", metavar="NAME", help=f"{', '.join(OPTIMISERS)} (default: %(default)s)")
    add("--lr", type=positive, metavar="RATE", help="learning rate (default: the optimizer's own, for adam by model and data)")
    add(
        "--schedule", choices=SCHEDULES, default="linear", metavar="NAME",
        help=f"how the rate goes on: {', '.join(SCHEDULES)}; linear, cosine and warmup end at zero (default: %(default)s)",
    )  # fmt: skip
    add("--seed", type=whole(0), default=0, metavar="N", help="for the split, the parameters and the order (default: %(default)s)")
    add("--resume", type=Path, metavar="FOLDER", help="leave snapshots there, and go on from the newest if there is one")
    add("--log", type=Path, metavar="FILE.csv", help="write a row for each epoch")
    add("--save", type=Path, metavar="FILE", help="write the trained parameters, and charlm's alphabet, for at.load")
    add("--plot", type=Path, metavar="FILE.png", help="write a picture of loss and accuracy over the epochs")
    add(
        "--profile", type=trace_file, nargs="?", const=True, metavar="FILE.json",
        help="print at the end which kernels ran and how long they took, and write a Chrome trace if a file is named",
    )  # fmt: skip
    command.set_defaults(run=train)


def list_backends(args: argparse.Namespace) -> int:
    """Print each backend and, where it can't be used, why; or compile what `--build` asks for."""
    if args.build:
        return build_kernels(args.arch)
    if args.arch:
        raise InputError("--arch goes with --build")
    reasons = backend.available()
    width = max(map(len, reasons))
    for name, reason in reasons.items():
        print(f"{name:{width}}  {'available' if reason is None else f'not available: {reason}'}")
        if name == "pycuda" and reason is None:
            from .backends.pycuda_backend.compilation.compiler import compiler

            print(f"{'':{width}}  CUDA kernels are compiled by {compiler() or 'nothing here: `autotape backends --build` says why'}")
    return 0


def build_kernels(archs: list[str] | None) -> int:
    """Compile the pycuda backend's kernels into its cache on disk: a line a unit and a total.  1 if they can't be compiled."""
    from .backends.pycuda_backend.compilation import build, cache, compiler, discovery

    if not (archs := archs or build.architectures_here()):
        raise InputError("--build: there is no CUDA device here whose kernels these would be; name one by --arch sm_90")
    count = size = 0
    try:
        print(f"{discovery.find()} compiles for {', '.join(archs)}", flush=True)
        for unit in build.build(archs):
            print(f"{unit.name:16} {len(unit.binaries):4} binaries, {sum(map(len, unit.binaries)) / 1e3:8.1f} kB", flush=True)
            count, size = count + len(unit.binaries), size + sum(map(len, unit.binaries))
    except (compiler.NoCompiler, compiler.CompileError) as e:
        print(f"autotape: error: {e}", file=sys.stderr)
        return 1
    print(f"{count} binaries, {size / 1e6:.1f} MB, are in {cache.folder()}")
    return 0


def train(args: argparse.Namespace) -> None:
    """Train as the arguments say: a line an epoch, then the files asked for."""
    _check_options(args)
    model, data = MODELS[args.model], "text" if args.text else args.data or "digits"
    title = f"{args.model} on {args.text.name if args.text else data}"
    chosen = {field: value for field in ("epochs", "batch_size", "lr") if (value := getattr(args, field)) is not None}
    recipe = model.recipes[data]._replace(**chosen)
    if args.lr is None and args.optimizer not in ("adam", "adamw"):
        recipe = recipe._replace(lr=OPTIMISERS[args.optimizer]().lr)
    with backend.use(args.backend), math_mode.use(args.math_mode), random.use(args.seed), blas.held():
        alphabet, sets = texts.read(args.text) if args.text else ("", _load(args, model.side))
        parameters = model.init((len(alphabet),) if args.text else sets[0][0].shape[1:])
        run = _classifier(args, f"{title}, seed {args.seed}, batch size {recipe.batch_size}", model.apply, parameters, sets, recipe)
        kind = f"windows of {texts.WINDOW} characters" if args.text else "images"
        print(f"{title}: {len(sets[0].labels)} training and {len(sets[1].labels)} test {kind}")
        print(f"{sum(p.size for p in tree.leaves(parameters))} parameters, batch size {recipe.batch_size}, learning rate {run.opt.lr:g}")
        print(f"optimizer {args.optimizer}, schedule {args.schedule}, backend {backend.get()}, math mode {math_mode.get()}", flush=True)
        if run.training.number:
            print(f"going on after step {run.training.number}, batch {run.training.batch} of epoch {run.training.epoch}", flush=True)
        profile = autotape.profile()
        with profile if args.profile else nullcontext():
            for epoch in run:
                print(_line(epoch, recipe.epochs), flush=True)
        if args.text:
            print(texts.sample(model.apply, run.parameters, alphabet, SAMPLE))
    if args.save:
        io.save(args.save, run.parameters | ({"alphabet": alphabet} if args.text else {}))
        print(f"parameters saved in {args.save}")
    if args.plot:
        plot.curves(run.results.epochs, title, args.plot)
        print(f"curves drawn in {args.plot}")
    if args.profile:
        print(profile)
    if isinstance(args.profile, Path):
        profile.trace(args.profile)
        print(f"trace written to {args.profile}")


def _classifier(args: argparse.Namespace, *what: Any) -> Classifier:
    how = {"optimiser": args.optimizer, "schedule": args.schedule, "log": args.log, "folder": args.resume}
    try:
        return Classifier(*what, **how)
    except ValueError as e:  # a snapshot of something else, or a damaged one
        raise InputError(f"--resume {args.resume}: {e}") from e


def _check_options(args: argparse.Namespace) -> None:
    """Raise for a combination of options that can't work, before any work is done."""
    if args.model == "charlm" and (args.text is None or args.data):
        raise InputError("charlm learns from --text FILE" + ", not from images: leave out --data" * bool(args.data))
    if args.model != "charlm" and args.text:
        raise InputError(f"--text goes with charlm; {args.model} is for images")
    if args.data == "mnist" and args.data_dir is None:
        raise InputError("--data mnist needs --data-dir, the folder with its four idx files")
    if args.data != "mnist" and args.data_dir is not None:
        raise InputError("--data-dir goes with --data mnist; the digits are bundled")
    trace = args.profile if isinstance(args.profile, Path) else None
    files = {"--save": args.save, "--plot": args.plot, "--log": args.log, "--profile": trace}
    paths = {"--text": args.text, "--resume": args.resume} | files
    for (one, path), (other, same) in itertools.combinations(paths.items(), 2):
        if path and same and path.resolve() == same.resolve():
            raise InputError(f"{one} and {other} can't both be {path}")
    for option, path in files.items():
        if path:
            _check_destination(option, path)
    if args.plot:
        needs("--plot", "matplotlib", "train")
        if args.plot.suffix != ".png":
            raise InputError(f"--plot {args.plot}: the picture is a PNG, so its name must end in .png")
    if args.resume and not (args.resume if args.resume.exists() else args.resume.parent).is_dir():
        raise InputError(f"--resume {args.resume}: this is no folder, nor is there one to make it in")


def _check_destination(option: str, path: Path) -> None:
    """Raise before any work is done if a file can't be written there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{option} {path}: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise InputError(f"{option} {path}: this is a folder or a device; name a file")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{option} {path}: the folder {path.parent} can't be written to")


def _load(args: argparse.Namespace, side: int | None) -> tuple[datasets.Images, datasets.Images]:
    """The training and the test set, brought to the model's side."""
    sets = datasets.mnist(args.data_dir) if args.data == "mnist" else datasets.digits(args.seed)
    return sets if side is None else (datasets.resized(sets[0], side), datasets.resized(sets[1], side))


def _line(epoch: Epoch, epochs: int) -> str:
    return (
        f"epoch {epoch.number:{len(str(epochs))}}/{epochs}  "
        f"train (running): loss {epoch.train_loss:.4f} accuracy {100 * epoch.train_accuracy:6.2f} %  "
        f"test: loss {epoch.test_loss:.4f} accuracy {100 * epoch.test_accuracy:6.2f} %  {epoch.seconds:.1f} s"
    )


def _show_warning(message: Warning | str, *place: Any, **source: Any) -> None:
    print(f"autotape: warning: {message}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: this process's) and give its exit code."""
    args = parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code: int = args.run(args) or 0
            return code
    except KeyboardInterrupt:
        print("autotape: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # who read the output has gone, as in `autotape ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
        return 141
    except (InputError, OSError, ImportError, BackendError, FloatingPointError) as e:
        print(f"autotape: error: {e}", file=sys.stderr)
        return 2
