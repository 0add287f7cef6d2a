"""Optimisers: new parameters from gradients.

    opt = Adam(lr=1e-3)
    params = opt.step(params, grads)        # a tree of arrays or Tensors gives a new tree; Params in it change in place and stay
    opt.lr /= 2
    saved = opt.state; opt.state = saved    # goes on with the same bits

Parts of a tree take options of their own as Groups, anywhere in it:

    params = [Group(body, lr=1e-4), Group(head, weight_decay=0.01)]

The first positional options are Knet's, with Knet's defaults; all optimisers take, by keyword,

    gclip         a gradient whose L2 norm is larger is scaled to this norm, each by itself; 0: none is
    clip_norm     if the L2 norm of all gradients together is larger, all are scaled so that it is this; 0: never
    weight_decay  times the parameter is added to its gradient, clipped before; AdamW takes it off the parameter instead
    schedule      a function of the number of steps done: what lr is multiplied by (autotape.train.schedules)

and step by step is what backends/kernels.py says of their kernels.  The gradient of a looked-up table, Rows, changes only the rows it
holds, and only those rows of the state: rows that are not looked up neither decay nor drift with a momentum.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import backend, tree
from ..backends.kernels import Array
from ..errors import annotated
from ..level import plain_like
from ..param import Param, is_variable
from ..rows import Rows
from ..tensor import Tensor, adopt, backend_of, constant, describe, kind_of, refuse_tracked
from .schedules import Schedule, Share

Options = dict[str, float]


class Group:
    """A tree of parameters, itself part of one, with options in place of the optimiser's: lr, weight_decay, gclip, beta1 ..."""

    def __init__(self, params: Any, **options: float) -> None:
        self.params, self.options = params, options

    def __repr__(self) -> str:
        return f"Group({self.params!r}{''.join(f', {name}={value!r}' for name, value in self.options.items())})"


tree.register(Group, lambda group: (group.params,), lambda group, children: Group(children[0], **group.options))


class Update(NamedTuple):
    """One parameter with its gradient, both checked."""

    key: str  # under which its state is kept
    leaf: Any
    options: Options
    k: Any  # the kernels of its backend; None for a leaf that has no gradient
    w: Any  # its array; a Param itself, whose array nobody else must hold while it changes in place
    g: Any  # an array, or Rows in which no index stands twice


class Optimiser:
    """What all optimisers are made of: a kernel, the arrays of state that it changes, the options it takes."""

    kernel: str
    arrays: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def __init__(self, lr: float, options: Options, common: dict[str, Any]) -> None:
        schedule = common.pop("schedule", None)
        self.schedule: Share = _always if schedule is None else Schedule(schedule)
        self.clip_norm = self._checked("clip_norm", common.pop("clip_norm", 0.0))
        self.options: Options = {"lr": lr, **options, "gclip": 0.0, "weight_decay": 0.0}
        self.options |= self._known({**self.options, **common})
        self.steps = 0
        self._slots: dict[str, dict[str, Any]] = {}  # each parameter's state, by its path
        self._keys: dict[int, str] = {}  # of Params, by their id
        self._owners: dict[str, weakref.ref[Param]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value:g}' for name, value in self.options.items())})"

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles take: Params are copied with them, and then known by their paths, as from a `state`."""
        return {**vars(self), "options": dict(self.options), "_slots": self.state["slots"], "_keys": {}, "_owners": {}}

    @property
    def lr(self) -> float:
        """The learning rate before the schedule."""
        return self.options["lr"]

    @lr.setter
    def lr(self, lr: float) -> None:
        self.options |= self._known({"lr": lr})

    @property
    def state(self) -> dict[str, Any]:
        """A copy of all that changes from step to step, lr included: a tree of arrays, numbers and text.

        Setting it makes this optimiser go on where that one stood.  Parameters are known by their paths in the tree, a Param by
        where it was first met.  Raises ValueError for what is no state of such an optimiser, and then changes nothing.
        """
        slots = {path: {name: _copied(x) for name, x in slot.items()} for path, slot in self._slots.items()}
        return {"optimiser": type(self).__name__, "lr": self.lr, "steps": self.steps, "slots": slots}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        name, wanted = type(self).__name__, {"optimiser", "lr", "steps", "slots"}
        if not isinstance(state, dict) or state.keys() != wanted or state["optimiser"] != name or not isinstance(state["slots"], dict):
            raise ValueError(f"{name}.state: this is no state of {name}: {str(state)[:80]}")
        slots = {path: self._checked_slot(f"{name}.state: {path}", slot) for path, slot in state["slots"].items()}
        steps = _count(f"{name}.state: steps", state["steps"])
        self.lr = state["lr"]
        self.steps, self._slots, self._keys, self._owners = steps, slots, {}, {}

    def step(self, params: Any, grads: Any) -> Any:
        """The parameters after one update: a tree like params, in which the same Params have new values.

        grads is a tree with the same paths, as grad and tape.gradient give it (sparse or not).  Leaves that grad passes through
        come back as they are, numbers as numbers.  Nothing is changed if anything does not fit: ValueError for paths and shapes,
        TypeError for what is no array of real numbers, TapeError for a Param that a tape still needs.
        """
        self._forget()
        share, updates = self._share(), list(self._updates(params, grads))
        new = [u.leaf if u.k is None else self._updated(u, share, scale) for u, scale in zip(updates, self._scales(updates), strict=True)]
        self.steps += 1
        return tree.flatten(params)[1](new)

    # -- what is updated with what
    def _updates(self, params: Any, grads: Any) -> Iterator[Update]:
        name, seen = type(self).__name__, set[int]()
        gradients = dict(zip(tree.paths(grads), tree.leaves(grads), strict=True))
        leaves = list(self._leaves(params, "", self._known(self.options)))
        if alone := [path for path, *_ in leaves if path not in gradients]:
            raise ValueError(f"{name}.step: there is no gradient for params{alone[0]}; the gradients are {_listed(gradients)}")
        if alone := sorted(gradients.keys() - {path for path, *_ in leaves}):
            raise ValueError(f"{name}.step: there is no parameter for grads{alone[0]}; those are {_listed(path for path, *_ in leaves)}")
        for path, leaf, options in leaves:
            if isinstance(leaf, Param) and id(leaf) in seen:
                raise ValueError(f"{name}.step: params{path} is a Param that stands in the tree already")
            seen.add(id(leaf))
            try:
                yield self._update(path, leaf, options, gradients[path])
            except (TypeError, ValueError) as e:
                raise annotated(e, f"{name}.step: params{path}") from e

    def _leaves(self, node: Any, path: str, options: Options) -> Iterator[tuple[str, Any, Options]]:
        if isinstance(node, Group):
            options = {**options, **self._known(node.options)}
        if (children := tree.children(node)) is None:
            yield path, node, options
        for step, child in children or ():
            yield from self._leaves(child, path + step, options)

    def _update(self, path: str, leaf: Any, options: Options, gradient: Any) -> Update:
        key = self._key(path, leaf)
        if not is_variable(leaf, "an optimiser's step"):
            return Update(key, leaf, options, None, None, None)
        k, w = _raw_parameter(leaf)
        g = _raw_gradient(gradient, k, "an optimiser's step")
        if "c" in (w.dtype.kind, g.dtype.kind):
            raise TypeError(f"optimisers take real numbers; the parameter is {w.dtype}, its gradient {g.dtype}")
        if g.shape != w.shape:
            raise ValueError(f"the parameter has shape {w.shape}, its gradient {g.shape}")
        for name, x in self._slots.get(key, {}).items():
            if name != "updates" and x.shape != w.shape:
                raise ValueError(f"the parameter has shape {w.shape}, its state {name!r} {x.shape}")
        return Update(key, leaf, options, k, w, g)

    # -- state
    def _checked_slot(self, where: str, slot: Any) -> dict[str, Any]:
        """A copy of what a state has of one parameter."""
        if not isinstance(slot, dict) or slot.keys() != {"updates", *self.arrays}:
            has = sorted(map(str, slot)) if isinstance(slot, dict) else describe(slot)
            raise ValueError(f"{where} has {has}, not {sorted(['updates', *self.arrays])}")
        arrays = {name: _float_array(f"{where}: {name}", slot[name]) for name in self.arrays}
        if len({x.shape for x in arrays.values()}) > 1:
            raise ValueError(f"{where} has arrays of different shapes: {', '.join(f'{n} {x.shape}' for n, x in arrays.items())}")
        return {"updates": _count(f"{where}: updates", slot["updates"]), **arrays}

    def _key(self, path: str, leaf: Any) -> str:
        """Under what a parameter's state is kept: its path; for a Param the path where it was first met, wherever it stands now."""
        if isinstance(leaf, Param) and (known := self._keys.get(id(leaf))) is not None:
            return known
        n, key = 0, path
        while key in self._owners:
            n, key = n + 1, f"{path}#{n + 1}"
        return key

    def _forget(self) -> None:
        """Drops the state of Params that are no more, whose ids may be others' by now."""
        for key in [key for key, owner in self._owners.items() if owner() is None]:
            del self._owners[key]
            self._slots.pop(key, None)
        self._keys = {owner: key for owner, key in self._keys.items() if key in self._owners}

    def _slot(self, u: Update) -> dict[str, Any]:
        """A parameter's state, with arrays of its backend in the dtype of the arithmetic."""
        if isinstance(u.leaf, Param):
            self._keys[id(u.leaf)], self._owners[u.key] = u.key, weakref.ref(u.leaf)
        slot = self._slots.setdefault(u.key, {"updates": 0})
        dtype = np.result_type(u.w.dtype, np.float32)
        for name in self.arrays:
            x = slot.get(name)
            if x is None:
                slot[name] = u.k.zeros(u.w.shape, dtype)
            elif not isinstance(x, u.k.array) or x.dtype != dtype:
                slot[name] = u.k.copy(u.k.astype(moved(x, u.k), dtype))
        return slot

    # -- numbers
    def _known(self, given: dict[str, Any]) -> Options:
        if unknown := sorted(given.keys() - self.options.keys()):
            known = [*self.options, "clip_norm", "schedule"]
            raise TypeError(f"{type(self).__name__}: the option {unknown[0]!r} is unknown (or not a Group's); there are {', '.join(known)}")
        return {name: self._checked(name, value) for name, value in given.items()}

    def _checked(self, name: str, value: Any) -> float:
        below = 1.0 if name in ("gamma", "rho", "beta1", "beta2") else math.inf
        if not _is_number(value) or not 0 <= value < below:
            what = "number from 0 on and below 1" if below == 1 else "finite number from 0 on"
            raise ValueError(f"{type(self).__name__}: {name} is a {what}, not {value!r}")
        return float(value)

    def _share(self) -> float:
        given = Schedule(self.schedule)(self.steps)
        share = float(given) if hasattr(given, "__float__") else math.nan
        if not 0 <= share < math.inf:
            raise ValueError(f"{type(self).__name__}: the schedule gave {given!r} for step {self.steps}; lr is multiplied by it")
        return share

    def _scales(self, updates: Sequence[Update]) -> list[float]:
        """What clipping multiplies each gradient by."""
        limit = self._checked("clip_norm", self.clip_norm)
        if not limit and not any(u.options["gclip"] for u in updates):
            return [1.0] * len(updates)
        norms = [0.0 if u.k is None else _norm(u.g, u.k) for u in updates]
        scale = _clipping(math.hypot(*norms), limit)
        return [scale * _clipping(scale * norm, u.options["gclip"]) for u, norm in zip(updates, norms, strict=True)]

    def _arguments(self, options: Options, rate: float, scale: float, updates: int) -> tuple[float, ...]:
        """What the kernel takes behind the arrays, for update number `updates` of a parameter."""
        return (rate, *(options[name] for name in self.numbers), scale, options["weight_decay"])

    # -- the update itself
    def _updated(self, u: Update, share: float, scale: float) -> Any:
        slot = self._slot(u)
        arrays = [slot[name] for name in self.arrays]
        numbers = self._arguments(u.options, u.options["lr"] * share, scale, slot["updates"] + 1)
        new = u.leaf
        if isinstance(u.leaf, Param):
            u.leaf.change(lambda array: self._write(u.k, array, array, u.g, arrays, numbers))
        else:
            out = u.k.copy(u.w) if type(u.g) is Rows else u.k.zeros(u.w.shape, u.w.dtype)
            self._write(u.k, out, u.w, u.g, arrays, numbers)
            new = constant(out) if isinstance(u.leaf, Tensor) else plain_like(out, u.leaf, u.k)
        slot["updates"] += 1
        return new

    def _write(self, k: Any, out: Array, w: Array, g: Any, arrays: Sequence[Array], numbers: Sequence[float]) -> None:
        """Runs the kernel; for Rows on copies of their rows, out being a copy of w already."""
        update = getattr(k, self.kernel)
        if type(g) is not Rows:
            update(out, w, g, *arrays, *numbers)
            return
        wholes = (out, *arrays)
        rows, *others = parts = [k.getitem(x, g.indices) for x in wholes]
        update(rows, rows, g.rows, *others, *numbers)
        for whole, part in zip(wholes, parts, strict=True):
            k.index_write(whole, g.indices, part)


class SGD(Optimiser):
    """Stochastic gradient descent: w -= lr * g."""

    kernel = "update_sgd"

    def __init__(self, lr: float = 0.1, **common: Any) -> None:
        super().__init__(lr, {}, common)


class Momentum(Optimiser):
    """v = gamma * v - lr * g; w += v."""

    kernel, arrays, numbers = "update_momentum", ("v",), ("gamma",)

    def __init__(self, lr: float = 0.05, gamma: float = 0.95, **common: Any) -> None:
        super().__init__(lr, {"gamma": gamma}, common)


class Nesterov(Optimiser):
    """w -= gamma * v; v = gamma * v - lr * g; w += (1 + gamma) * v."""

    kernel, arrays, numbers = "update_nesterov", ("v",), ("gamma",)

    def __init__(self, lr: float = 0.05, gamma: float = 0.95, **common: Any) -> None:
        super().__init__(lr, {"gamma": gamma}, common)


class Adagrad(Optimiser):
    """G += g * g; w -= lr * g / sqrt(G + eps) (Duchi et al. 2011)."""

    kernel, arrays, numbers = "update_adagrad", ("squares",), ("eps",)

    def __init__(self, lr: float = 0.05, eps: float = 1e-6, **common: Any) -> None:
        super().__init__(lr, {"eps": eps}, common)


class Rmsprop(Optimiser):
    """G = rho * G + (1 - rho) * g * g; w -= lr * g / sqrt(G + eps) (Tieleman and Hinton 2012)."""

    kernel, arrays, numbers = "update_rmsprop", ("squares",), ("rho", "eps")

    def __init__(self, lr: float = 0.01, rho: float = 0.9, eps: float = 1e-6, **common: Any) -> None:
        super().__init__(lr, {"rho": rho, "eps": eps}, common)


class Adadelta(Optimiser):
    """G as in Rmsprop; d = g * sqrt(D + eps) / sqrt(G + eps); w -= lr * d; D = rho * D + (1 - rho) * d * d (Zeiler 2012)."""

    kernel, arrays, numbers = "update_adadelta", ("squares", "deltas"), ("rho", "eps")

    def __init__(self, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, **common: Any) -> None:
        super().__init__(lr, {"rho": rho, "eps": eps}, common)


class Adam(Optimiser):
    """m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g * g; w -= lr * m' / (sqrt(v') + eps), where m' and v' are
    m / (1 - beta1 ** t) and v / (1 - beta2 ** t) at a parameter's update number t (Kingma and Ba 2015)."""

    kernel, arrays = "update_adam", ("m", "v")

    def __init__(self, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, **common: Any) -> None:
        super().__init__(lr, {"beta1": beta1, "beta2": beta2, "eps": eps}, common)

    def _arguments(self, options: Options, rate: float, scale: float, updates: int) -> tuple[float, ...]:
        beta1, beta2 = options["beta1"], options["beta2"]
        root = math.sqrt(1 - beta2**updates)  # sqrt(v) / root is sqrt(v')
        return (rate * root / (1 - beta1**updates), beta1, beta2, options["eps"] * root, scale, *self._decay(rate, options["weight_decay"]))

    def _decay(self, rate: float, decay: float) -> tuple[float, float]:
        """What is added to the gradient, and what is taken off the parameter, of the parameter."""
        return decay, 0.0


class AdamW(Adam):
    """Adam, whose weight decay is not part of the gradient: w is multiplied by 1 - lr * weight_decay (Loshchilov and Hutter 2019)."""

    def __init__(
        self, lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01, **common: Any
    ) -> None:
        super().__init__(lr, beta1, beta2, eps, weight_decay=weight_decay, **common)

    def _decay(self, rate: float, decay: float) -> tuple[float, float]:
        return 0.0, rate * decay


def global_norm(grads: Any) -> float:
    """The L2 norm of all gradients of a tree together; what grad passes through does not count."""
    return math.hypot(*(_norm(*_raw(g)) for g in tree.leaves(grads) if _is_gradient(g)))


def clip_norm(grads: Any, limit: float) -> Any:
    """The gradients, all multiplied by the same number if their global_norm is larger than limit, so that it is limit.

    Gives a tree like grads: arrays for arrays, Rows for Rows, Tensors for Tensors; grads itself if nothing is clipped.
    """
    if not _is_number(limit) or not 0 < limit < math.inf:
        raise ValueError(f"clip_norm: the limit is a finite number above 0, not {limit!r}")
    scale = _clipping(global_norm(grads), float(limit))
    return grads if scale == 1 else tree.map(lambda g: _scaled(g, scale) if _is_gradient(g) else g, grads)


def _is_gradient(g: Any) -> bool:
    return type(g) is Rows or is_variable(g, "clip_norm")


def _raw(g: Any) -> tuple[Any, Any]:
    """A gradient as an array or merged Rows, and the kernels of its backend."""
    raw = g.rows if type(g) is Rows else g._array if isinstance(g, Tensor) else None
    k = backend.kernels() if raw is None else backend_of(raw)
    raw = _raw_gradient(g, k, "the norm of gradients")
    if raw.dtype.kind == "c":
        raise TypeError(f"the norm of gradients is of real numbers, not of {describe(raw)}")
    return raw, k


def _scaled(g: Any, scale: float) -> Any:
    """g * scale; of float16 by way of float32, in which a small scale is not 0."""
    if type(g) is Rows:
        return Rows(g.indices, _scaled(g.rows, scale), g.shape)
    if getattr(g, "dtype", None) != np.float16:
        return g * scale
    raw, k = _raw(g)
    new = k.astype(k.astype(raw, np.float32) * scale, raw.dtype)
    return constant(new) if isinstance(g, Tensor) else plain_like(new, g, k)


def _norm(g: Any, k: Any) -> float:
    x = g.rows if type(g) is Rows else g
    total = _sum_of_squares(x, k)
    if not x.size or math.isnan(total) or _SMALLEST < total < math.inf:
        return math.sqrt(total)
    largest = float(k.to_numpy(k.max(k.absolute(x), None, False)))  # squares too large for float64, or too small, or 0
    return largest * math.sqrt(_sum_of_squares(x / largest, k)) if 0 < largest < math.inf else largest


_SMALLEST = 1e-280  # below it a sum of squares may have lost some that count


def _sum_of_squares(x: Any, k: Any) -> float:
    return float(k.to_numpy(k.sum_of_squares(x)))


def _clipping(norm: float, limit: float) -> float:
    """What a norm is multiplied by; 0 is no limit.  A norm of NaN stays."""
    return limit / norm if limit and norm > limit else 1.0


# ---------------------------------------------------------------- parameters and gradients as raw arrays


def moved(x: Any, k: Any) -> Array:
    """An array of whatever backend as one of backend k."""
    return adopt(x if isinstance(x, (np.ndarray, np.generic)) else backend_of(x).to_numpy(x), k)


def _raw_parameter(leaf: Any) -> tuple[Any, Any]:
    """The kernels of a parameter's backend, and its array or itself, a Param that may be changed."""
    if isinstance(leaf, Param):
        leaf.check_free()
        return backend_of(leaf.value), leaf
    if isinstance(leaf, Tensor):
        refuse_tracked(leaf, "an optimiser's step")
        return backend_of(leaf._array), leaf._array
    k = backend.kernels()
    return k, adopt(float(leaf) if isinstance(leaf, int) else leaf, k)


def _raw_gradient(g: Any, k: Any, name: str) -> Any:
    if isinstance(g, Param):
        raise TypeError("a Param is no gradient; its value is p.value")
    if isinstance(g, Tensor):
        refuse_tracked(g, name)
        g = g._array
    if type(g) is not Rows:
        return adopt(g, k)
    with backend.use_kernels(k):
        return Rows(g.indices, adopt(g.rows, k), g.shape).merged()


def _float_array(where: str, x: Any) -> Any:
    """A copy of an array of floats, of any loaded backend."""
    if not any(isinstance(x, b.array) for b in backend.loaded()) or kind_of(x.dtype) != "f":
        raise ValueError(f"{where} is an array of floats, not {describe(x)}")
    return backend_of(x).copy(x)


def _count(where: str, value: Any) -> int:
    if not _is_number(value) or isinstance(value, (float, np.floating)) or value < 0:
        raise ValueError(f"{where} is a whole number from 0 on, not {value!r}")
    return int(value)


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, np.integer, np.floating)) and not isinstance(x, bool)


def _copied(x: Any) -> Any:
    return backend_of(x).copy(x) if hasattr(x, "dtype") else x


def _always(t: int) -> float:
    return 1.0


def _listed(paths: Iterable[str]) -> str:
    found = [path or "one leaf" for path in paths]
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "") or "none"
