"""Random numbers: generators that can be seeded, split, saved and replayed, the same bits on every backend.

    random.set(0)                                 # the process-wide generator; without this it starts from the system
    with random.use(random.Generator(7)): ...     # this thread or task, for a while
    w = random.normal((3, 2)); a, b = random.Generator(0).split(2)

A generator is a key and a counter: draw number n of it is a function of both, so its state is two numbers.  Uniform
numbers are the backend's kernel (Philox 4x64-10); the others are NumPy's, of a seed drawn here, brought to the backend.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from . import backend
from .backends.kernels import Array, Shape
from .context import using
from .tensor import describe

_MASK, _STEP = (1 << 64) - 1, 0x9E3779B97F4A7C15


class Generator:
    """A source of random numbers.  seed: a whole number below 2**64, or None for one of the system's.

    Threads may share one; then their draws come in any order.  Results are arrays of the current backend.  Arguments that don't
    fit raise TypeError or ValueError, and nothing is drawn.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._key = _mixed(int.from_bytes(os.urandom(8), "little") if seed is None else _whole("a seed", seed))
        self._counter = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Generator(state={self.state})"

    @property
    def state(self) -> dict[str, int]:
        """Key and counter, plain numbers to save; setting it makes the generator go on from there."""
        return {"key": self._key, "counter": self._counter}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        if not isinstance(state, dict) or state.keys() != {"key", "counter"}:
            raise ValueError(f"a generator's state is {{'key': ..., 'counter': ...}}, not {state!r}")
        self._key, self._counter = (_whole(f"a generator's {name}", state[name]) for name in ("key", "counter"))

    def __reduce__(self) -> Any:
        return _restored, (self.state,)

    def split(self, n: int = 2) -> list[Generator]:
        """n generators whose draws have nothing to do with one another's or this one's."""
        return [Generator(self.seed()) for _ in range(_whole("split: n", n))]

    def seed(self) -> int:
        """A seed for one random operator or library: a whole number below 2**63."""
        draw = _draw.get()
        return self._next() if draw is None else draw(self._next)

    def _next(self) -> int:
        with self._lock:
            n, self._counter = self._counter, self._counter + 1
        return _mixed(self._key + n * _STEP) >> 1

    def uniform(self, shape: Any = (), low: float = 0.0, high: float = 1.0, dtype: Any = np.float64) -> Array:
        """Numbers from low up to, but for rounding, high: floats, which dtype must be able to hold."""
        k, lengths, dtype = backend.kernels(), _shape("uniform", shape), _floats("uniform", dtype)
        low, high = _number("uniform: low", low), _number("uniform: high", high)
        if not (low <= high and max(-low, high, high - low) <= float(np.finfo(dtype).max)):  # NaN too
            raise ValueError(f"uniform: low must not be above high, and {dtype} must hold both and their difference; got {low} and {high}")
        u = k.uniform(self.seed(), lengths, dtype)
        return u if (low, high) == (0, 1) else k.add(k.multiply(u, k.scalar(high - low, u.dtype)), k.scalar(low, u.dtype))

    def normal(self, shape: Any = (), mean: float = 0.0, std: float = 1.0, dtype: Any = np.float64) -> Array:
        """Normally distributed floats."""
        lengths, dtype = _shape("normal", shape), _floats("normal", dtype)
        mean, std = _number("normal: mean", mean), _number("normal: std", std)
        if not std >= 0:
            raise ValueError(f"normal: std must be at least 0, got {std}")
        return self._host(lambda rng: rng.normal(mean, std, lengths), dtype)

    def integers(self, low: int, high: int, shape: Any = (), dtype: Any = np.int64) -> Array:
        """Whole numbers from low to high - 1, which dtype must be able to hold."""
        low, high = (_whole(f"integers: {name}", n, -(1 << 63), 1 << 64) for name, n in (("low", low), ("high", high)))
        lengths, dtype = _shape("integers", shape), np.dtype(dtype)
        if low >= high:
            raise ValueError(f"integers: there is no whole number from {low} to {high - 1}; high must be above low")
        if dtype.kind not in "iu" or low < np.iinfo(dtype).min or high - 1 > np.iinfo(dtype).max:
            raise ValueError(f"integers: {dtype} can't hold whole numbers from {low} to {high - 1}")
        drawn = np.uint64 if high > 1 << 63 else np.int64
        return self._host(lambda rng: rng.integers(low, high, lengths, drawn), dtype)

    def permutation(self, n: int) -> np.ndarray[Any, Any]:
        """The numbers below n in a random order, as a NumPy array: it serves to index."""
        n = _whole("permutation: n", n)
        return np.random.Generator(np.random.Philox(self.seed())).permutation(n)

    def _host(self, draw: Callable[[np.random.Generator], Any], dtype: Any) -> Array:
        return backend.kernels().adopt(np.asarray(draw(np.random.Generator(np.random.Philox(self.seed())))).astype(dtype))


def _mixed(x: int) -> int:
    """A 64-bit number scattered over all 64-bit numbers, one to one (splitmix64, Steele et al. 2014)."""
    x = (x + _STEP) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _whole(what: str, x: Any, least: int = 0, most: int = _MASK) -> int:
    try:
        n = operator.index(x)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, got {describe(x)}") from None
    if not least <= n <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, got {n}")
    return n


def _number(what: str, x: Any) -> float:
    """A real number.  An array or a Tensor, whose derivative would be lost, is none."""
    if not isinstance(x, (int, float, np.integer, np.floating)):
        raise TypeError(f"{what} must be a real number, got {describe(x)}")
    return float(x)


def _floats(name: str, dtype: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(dtype)
    if found.kind != "f":
        raise TypeError(f"{name}: dtype must be of floats, not {found}")
    return found


def _shape(name: str, shape: Any) -> Shape:
    lengths = shape if isinstance(shape, Sequence) else (shape,)
    return tuple(_whole(f"{name}: shape, or each length in it,", n) for n in lengths)


def _restored(state: dict[str, int]) -> Generator:
    generator = Generator(0)
    generator.state = state
    return generator


# ---------------------------------------------------------------- the current one

_default = Generator()
_override: ContextVar[Generator | None] = ContextVar("generator", default=None)


def current() -> Generator:
    """The generator in force here."""
    return _override.get() or _default


def set(generator: int | Generator) -> None:
    """Make a generator, or a fresh one of this seed, the process-wide default."""
    global _default
    _default = generator if isinstance(generator, Generator) else Generator(generator)


def use(generator: int | Generator) -> using:
    """A context manager: a generator, or a fresh one of this seed, in this thread or task."""
    return using((_override, generator if isinstance(generator, Generator) else Generator(generator)))


def uniform(shape: Any = (), low: float = 0.0, high: float = 1.0, dtype: Any = np.float64) -> Array:
    """Generator.uniform of the current one."""
    return current().uniform(shape, low, high, dtype)


def normal(shape: Any = (), mean: float = 0.0, std: float = 1.0, dtype: Any = np.float64) -> Array:
    """Generator.normal of the current one."""
    return current().normal(shape, mean, std, dtype)


def integers(low: int, high: int, shape: Any = (), dtype: Any = np.int64) -> Array:
    """Generator.integers of the current one."""
    return current().integers(low, high, shape, dtype)


def permutation(n: int) -> np.ndarray[Any, Any]:
    """Generator.permutation of the current one."""
    return current().permutation(n)


def fresh_seed() -> int:
    """A seed for one random operator: Generator.seed of the current one."""
    return current().seed()


# ---------------------------------------------------------------- the replay of draws, when a function is run again

_draw: ContextVar[Callable[[Callable[[], int]], int] | None] = ContextVar("draw", default=None)  # gives a seed instead of a generator
_again: ContextVar[bool] = ContextVar("again", default=False)
is_replaying = _again.get  # whether a function is being run again, so that what it does once is done already


def noted(seeds: list[int]) -> using:
    """`with noted(seeds):` the seeds that generators give are also appended to the list."""
    outer = _draw.get()

    def note(fresh: Callable[[], int]) -> int:
        seeds.append(fresh() if outer is None else outer(fresh))
        return seeds[-1]

    return using((_draw, note))


def replayed(seeds: list[int]) -> using:
    """`with replayed(seeds):` generators give these seeds again; a function that wants more of them gets fresh ones."""
    again, outer = iter(seeds), _draw.get()

    def replay(fresh: Callable[[], int]) -> int:
        found = next(again, None)
        return (fresh() if outer is None else outer(fresh)) if found is None else found

    return using((_draw, replay), (_again, True))
