"""dropout: a random choice that is the same on every backend, and replayed where a function is run again."""

from __future__ import annotations

import numpy as np

from autotape import kernels, operator, random
from autotape.tape import is_recording, is_training
from autotape.transforms import stop_gradient

from ..array import where
from ..geometry import real_number, whole_number


def dropout(x, p=0.5, *, seed=None, drop=None):
    """x with each element zeroed with probability p and the others divided by 1 - p.  Knet's dropout; Srivastava et al. 2014.

    `seed` is a whole number below 2**128 that fixes the choice, the same on every backend; None draws a fresh one.  `drop` False
    gives x itself; None drops in training (`autotape.training`), which is while a tape records unless it is said.  p = 0 gives x
    and p = 1 zeros.  Raises ValueError for p outside [0, 1] and for a seed that is negative or too large.
    """
    check("dropout", p, 0 if seed is None else seed)
    if p == 0 or not (is_training() if drop is None else drop):
        return x if is_recording() else stop_gradient(x)  # x itself is no constant
    return masked_dropout(x, p, random.fresh_seed() if seed is None else seed)


@operator(constants="mask")
def masked_dropout(x, p=0.5, seed=0):
    """dropout that always drops: x / (1 - p) where a uniform number drawn from `seed` is above p, else 0."""
    check("masked_dropout", p, seed)
    k = kernels()
    mask = k.greater(k.uniform(seed, x.shape, np.float32), k.scalar(float(p), np.float32))  # the same choice for every dtype of x
    return k.where(mask, k.multiply(x, k.scalar(kept_scale(p), x.dtype)), k.scalar(0, x.dtype)), mask


@masked_dropout.backward
def _(dy, mask, p): return where(mask, dy * kept_scale(p), 0)


def kept_scale(p: float) -> float:
    return 1 / (1 - float(p)) if p < 1 else 1.0  # for p = 1 nothing is kept


def check(name, p, seed):
    """Raise unless p is a probability and seed one of Philox's keys."""
    if not 0 <= real_number(name, "p", p) <= 1:  # NaN too
        raise ValueError(f"{name}: p must be a probability from 0 to 1, got {float(p)}")
    if not 0 <= whole_number(name, "seed", seed) < 1 << 128:
        raise ValueError(f"{name}: seed must be a whole number from 0 to 2**128 - 1, got {seed}")
