"""Training: data, optimisers, loops, and what goes with them.  `import autotape` doesn't import it; docs/training.md is the tour.

data          minibatch, Data: parts of a data set, in another order at every epoch
init          param, param0, xavier_uniform, xavier_normal, gaussian, bilinear: initial values
optimisers    SGD, Momentum, Nesterov, Adagrad, Rmsprop, Adadelta, Adam, AdamW, Group, clip_norm, global_norm
schedules     what a rate is multiplied by, step by step (a module: schedules.cosine ...)
loops         minimize, train, converge, and sgd(f, data) ... adam(f, data)
step          Step: what train gives, and callbacks get
progress      progress: a bar, or lines
callbacks     Callback, EarlyStop, FailOnNaN, LogCSV, LogTensorBoard, Plot
snapshots     Snapshots, newest, load_params
search        goldensection, hyperband
datasets      digits, mnist; models, texts, classify, plot and threads are the command line's
"""

from . import schedules
from .callbacks import Callback, EarlyStop, FailOnNaN, LogCSV, LogTensorBoard, Plot
from .data import Data, minibatch
from .datasets import InputError
from .init import bilinear, gaussian, param, param0, xavier_normal, xavier_uniform
from .loops import adadelta, adagrad, adam, adamw, converge, minimize, momentum, nesterov, rmsprop, sgd, train
from .optimisers import SGD, Adadelta, Adagrad, Adam, AdamW, Group, Momentum, Nesterov, Rmsprop, clip_norm, global_norm
from .progress import progress
from .search import goldensection, hyperband
from .snapshots import Snapshots, load_params, newest

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Callback", "Data", "EarlyStop", "FailOnNaN", "Group", "InputError", "LogCSV",
    "LogTensorBoard", "Momentum", "Nesterov", "Plot", "Rmsprop", "Snapshots", "adadelta", "adagrad", "adam", "adamw", "bilinear",
    "clip_norm", "converge", "gaussian", "global_norm", "goldensection", "hyperband", "load_params", "minibatch", "minimize", "momentum",
    "nesterov", "newest", "param", "param0", "progress", "rmsprop", "schedules", "sgd", "train", "xavier_normal", "xavier_uniform",
]  # fmt: skip
