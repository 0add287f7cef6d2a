"""What to test every operator with: inputs inside its domain, away from kinks and poles, and options that matter.

    for case in cases("v20"):
        x, *rest = case.draw(seed=0)
        check_grads(case.function(), (x, *rest))

A case names a function "opset.name" and is called as function(*inputs, **options) or as its `call` says.  The tables below
are data: an opset is imported when one of its cases is first run.  A new operator gets its lines here; one of yours, which is
in no opset, makes a Case of the function itself.  What is run on a case is in operators.py (check_operator).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autotape.backend import kernels
from autotape.operator import OPERATORS
from autotape.tensor import Tensor

from .strategies import Interval, Shape, axes, broadcastable, distinct, reductions

__all__ = ["Case", "cases"]

Domain = Interval | tuple[Interval, ...]

REAL: Domain = (-2.0, 2.0)
POSITIVE: Domain = (0.2, 3.0)
NONZERO: Domain = ((-2.0, -0.2), (0.2, 2.0))
UNIT: Domain = (-0.9, 0.9)
UNROUNDED: Domain = ((-1.9, -1.6), (-1.4, -1.1), (-0.9, -0.6), (0.1, 0.4), (0.6, 0.9), (1.1, 1.4))  # neither integers nor halves


@dataclass(frozen=True)
class Case:
    """One way to call one function.

    name: "opset.function", or the function itself.  domains: for each floating input, the interval or intervals its values lie in.
    shapes: one an input, or None where the function takes any shapes that broadcast together, as elementwise ones do.
    options: keyword arguments.  call: call(function, *inputs, **options) where function(*inputs, **options) won't do.
    keywords: keywords(*shapes) is a hypothesis strategy of more options, such as strategies.reductions.
    sizes: the sides of drawn shapes.  kinks: numbers at which an input has no derivative, yet gets a finite one by convention.
    complex: whether each input may be complex too; then its values are those of its domain, turned about 0 (strategies.turned).
    """

    name: str | Callable[..., Any]
    domains: tuple[Domain, ...]
    shapes: tuple[Shape, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    keywords: Callable[..., Any] | None = None
    sizes: tuple[int, ...] = (0, 1, 2, 3)
    kinks: tuple[float, ...] = ()
    complex: bool = False

    def __str__(self) -> str:
        name = self.name if isinstance(self.name, str) else self.name.__name__
        shapes = "elementwise" if self.shapes is None else "x".join(map(str, self.shapes)).replace(" ", "")
        options = ",".join(f"{k}={brief(v)}" for k, v in self.options.items())
        drawn = self.keywords.__name__ if self.keywords else ""
        return "-".join(filter(None, (name, drawn or shapes, options.replace(" ", ""))))

    def drawn(self, draw: Callable[[Any], Any]) -> Case:
        """The case with shapes and options chosen where it leaves them open; draw(strategy) gives a value, as hypothesis's data.draw."""
        shapes = draw(broadcastable(len(self.domains), 3 if self.keywords else 2, self.sizes)) if self.shapes is None else self.shapes
        options = draw(self.keywords(*shapes)) if self.keywords else {}
        return replace(self, shapes=shapes, options=self.options | options, keywords=None)

    def function(self) -> Callable[..., Any]:
        """The case as a function of its floating inputs alone."""
        function = lookup(self.name) if isinstance(self.name, str) else self.name
        return functools.partial(function if self.call is None else functools.partial(self.call, function), **self.options)

    def draw(self, seed: int, shapes: Sequence[Shape] | None = None) -> list[np.ndarray]:
        """float64 inputs, their values all different, of these shapes, the case's own, or (2, 3)."""
        return distinct(seed, shapes or self.shapes or [(2, 3)] * len(self.domains), self.domains)


def brief(value: Any) -> str:
    """An option in a case's name: arrays by their dtype and shape."""
    if isinstance(value, tuple):
        return f"({','.join(map(brief, value))})"
    if isinstance(value, slice):
        return ":".join("" if i is None else str(i) for i in (value.start, value.stop, value.step))
    return f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else str(value)


def lookup(name: str) -> Callable[..., Any]:
    """The function called "opset.function", whose opset is imported: an operator, or a composition of operators."""
    opset, _, function = name.partition(".")
    module = importlib.import_module(f"autotape.opsets.{opset}")
    found: Callable[..., Any] = OPERATORS[name].front if name in OPERATORS else getattr(module, function)
    return found


def cases(opset: str | None = None) -> list[Case]:
    """Every case, or those of one opset."""
    return [c for c in CASES if opset in (None, str(c.name).partition(".")[0])]


def elementwise(opset: str, names: str, *domains: Domain, kinks: tuple[float, ...] = ()) -> list[Case]:
    return [Case(f"{opset}.{name}", domains, kinks=kinks) for name in names.split()]


def reducing(opset: str, names: str, domain: Domain = NONZERO, sizes: tuple[int, ...] = (1, 2, 3), **options: Any) -> list[Case]:
    """Reductions, whose axis and keepdims are drawn."""
    return [Case(f"{opset}.{name}", (domain,), None, options, None, reductions, sizes) for name in names.split()]


def along_one(shape: Shape) -> Any:
    """The keyword of what works along one axis, or on x.ravel()."""
    return axes(len(shape), several=False).map(lambda axis: {"axis": axis})


def case(name: str, *shapes: Shape, domain: Domain = REAL, call: Callable[..., Any] | None = None, **options: Any) -> Case:
    """A case whose inputs all have one domain."""
    return Case(name, (domain,) * len(shapes), shapes, options, call)


def without_bias(op: Callable[..., Any], w: Any, x: Any, z: Any, **options: Any) -> Any:
    return op(w, x, z=z, **options)


def with_residual(op: Callable[..., Any], w: Any, x: Any, b: Any, z: Any, **options: Any) -> Any:
    return op(w, x, b, z=z, **options)


def with_params(op: Callable[..., Any], x: Any, params: Any, **options: Any) -> Any:
    """batchnorm with running statistics that have seen no batch."""
    return op(x, lookup("v20.bnmoments")(), params, **options)


def with_max_pool(op: Callable[..., Any], v: Any, x: Any, **options: Any) -> Any:
    """A transpose of max_pool, with the maxima of x that it needs."""
    return op(v, x, lookup("v20.max_pool")(x, **options), **options)


def results_joined(op: Callable[..., Any], *xs: Any, **options: Any) -> Any:
    """All results of an operator as one vector."""
    return lookup("array.concatenate")([y.reshape(-1) for y in op(*xs, **options)])


def with_kept(
    op: Callable[..., Any], dy: Any, dfinal: Any, x: Any, w: Any, state: Any,
    cell: str, sizes: Shape, reverse: bool = False, skip: bool = False, with_x: bool = True,
) -> Any:  # fmt: skip
    """The gradients of a recurrent layer, with what its forward keeps for them."""
    k = kernels()
    raw = [v._array if isinstance(v, Tensor) else k.adopt(v) for v in (x, w, state)]
    y, _, gates, inner = k.recurrence(raw[0], raw[1], raw[2], cell, sizes, reverse, skip, True)
    return results_joined(op, dy, dfinal, x, w, state, y, gates, inner, cell, sizes, reverse, skip, with_x)


def on_list(op: Callable[..., Any], *xs: Any, **options: Any) -> Any:
    return op(list(xs), **options)


def subscripts_first(op: Callable[..., Any], *xs: Any, subscripts: str) -> Any:
    return op(subscripts, *xs)


def with_zero(op: Callable[..., Any], x: Any, **options: Any) -> Any:
    return op(x * ZERO_FIRST, **options)


def imaginary(op: Callable[..., Any], x: Any, **options: Any) -> Any:
    """Of complex numbers alone, for real x, too."""
    return op(x * 1j, **options)


# ---------------------------------------------------------------- opset array

MASK = np.array([[True, False, True], [False, False, True]])
ZERO_FIRST = np.array([[0, 1, 1], [1, 1, 1]], np.float32)
ROWS = np.array([1, 0, 1])  # one of them twice
COLUMNS = np.array([[2, 0], [0, 0]])
REDUCTIONS: tuple[tuple[Shape, Any, bool], ...] = (  # shape, axis, keepdims
    ((2, 3), None, False),
    ((2, 3), None, True),
    ((2, 3), 0, False),
    ((2, 3, 2), (0, -1), True),
    ((2, 1, 2), (1, 2), False),
    ((), None, False),
    ((1, 3), 0, False),
    ((0, 3), 1, False),
)
BROADCASTS: tuple[tuple[Shape, Shape], ...] = (((3, 1), (2, 3, 2)), ((), (0, 2)), ((2,), (2,)))
INDICES: tuple[tuple[Shape, Any], ...] = (
    ((3,), 1),
    ((2, 3), (slice(None), -1)),
    ((2, 3), (slice(None, None, -1), None, slice(0, 3, 2))),
    ((2, 3), (..., slice(1, None))),
    ((2, 3), slice(5, None)),
    ((2, 3), ROWS),
    ((2, 3), (ROWS, ROWS)),
    ((2, 2, 3), (ROWS, slice(1), COLUMNS[:, :1])),
    ((2, 3), MASK),
    ((2, 3), [0, 0]),
    ((), ...),
    ((0, 2), slice(None)),
)

ELEMENTWISE = [
    *elementwise("array", "negative positive copied exp exp2 expm1 square sin cos sinh cosh tanh arctan arcsinh hypotenuse", REAL),
    *elementwise("array", "log log2 log10 sqrt", POSITIVE),
    *elementwise("array", "log1p", (-0.8, 2.0)),
    *elementwise("array", "tan", (-1.2, 1.2)),
    *elementwise("array", "arcsin arccos arctanh", UNIT),
    *elementwise("array", "arccosh", (1.2, 3.0)),
    *elementwise("array", "deg2rad rad2deg sinc nan_to_num", REAL),
    *elementwise("array", "reciprocal cbrt", NONZERO),
    *elementwise("array", "absolute fabs sign", NONZERO, kinks=(0,)),
    *elementwise("array", "floor ceil trunc", UNROUNDED, kinks=(0, 1)),
    *elementwise("array", "round", UNROUNDED, kinks=(0.5,)),
    *elementwise("array", "isnan isinf isfinite signbit logical_not", REAL),
    *elementwise("array", "add subtract multiply maximum minimum fmax fmin logaddexp logaddexp2", REAL, REAL),
    *elementwise("array", "equal not_equal less less_equal greater greater_equal isclose", REAL, REAL),
    *elementwise("array", "logical_and logical_or logical_xor", REAL, REAL),
    *elementwise("array", "divide", REAL, NONZERO),
    *elementwise("array", "arctan2 hypot copysign heaviside", NONZERO, NONZERO),
    *elementwise("array", "floor_divide remainder fmod", ((-2.4, -2.2), (2.2, 2.4)), (0.9, 1.05)),
    *elementwise("array", "power", POSITIVE, REAL),
    *elementwise("array", "power_of_arrays", POSITIVE, REAL),
    Case("array.float_power", (POSITIVE, REAL), call=lambda op, a, b: lookup("array.astype")(op(a, b), a.dtype)),
    *(Case("array.derivative_of_sinc", (REAL,), None, {"order": n}) for n in (0, 1, 2, 5)),
    *elementwise("array", "i0 i1 real imag real_if_close conjugate", REAL),
    *elementwise("array", "angle", NONZERO),
    *(Case(f"array.{name}", (NONZERO,), call=imaginary) for name in ("real_part", "imaginary_part", "conjugate_of", "direction")),
    *elementwise("array", "complex_of", REAL, REAL),
    *(Case("array.bessel_i", (REAL,), None, {"order": n}) for n in (0, 1, 3)),
    *elementwise("array", "modf spacing", UNROUNDED),
    Case("array.frexp", (((-1.9, -1.1), (0.6, 0.9)),), call=lambda op, x: op(x)[0]),
    *(case(f"array.{name}", (2, 3), call=lambda op, x: op(x, COLUMNS[:, :1])) for name in ("ldexp", "scaled")),
    Case("array.nextafter", (NONZERO, (3.0, 4.0))),
    case("array.heaviside", (2, 3), call=lambda op, b: op(ZERO_FIRST, b)),
    *(Case("array.power_of", (POSITIVE,), None, {"exponent": e}) for e in (3, -2, 0.5, 1, 0)),
    *(Case("array.power", (NONZERO,), None, {"b": b}) for b in (2, 3, -1.0)),
    Case("array.where", (REAL, REAL), ((2, 3), (3,)), call=lambda op, a, b: op(MASK, a, b)),
    Case("array.select", (REAL, REAL), ((3,), (2, 3)), call=lambda op, a, b: op(MASK, a, b)),
    Case("array.where", (NONZERO,), call=lambda op, x: op(x > 0, x, -2)),
    Case("array.clip", (UNROUNDED,), None, {"min": -1, "max": 1}, kinks=(-1, 1)),
    Case("array.clip", (UNROUNDED,), None, {"max": 0.5}),
    Case("array.clip", (REAL, REAL, REAL), None),
    Case("array.round", (UNROUNDED,), None, {"decimals": 1}),
    case("array.astype", (2, 3), dtype=np.dtype(np.float64)),
    case("array.astype", (2, 3), dtype=np.dtype(np.int64), domain=UNROUNDED),
    case("array.to_floats", (2, 0), dtype=np.dtype(np.float64)),
]

REDUCING = [
    *reducing("array", "mean prod max min var std any all root_sum_square root_sum_power ptp logsumexp nanmean nanmax nanmin"),
    *reducing("array", "sum nansum count_nonzero", sizes=(0, 1, 2, 3)),
    *(Case(f"array.{name}", (NONZERO,), keywords=along_one) for name in ("cumsum", "cumprod")),
    *(Case(f"array.{name}", (NONZERO,), keywords=along_one, sizes=(1, 2, 3)) for name in ("argmax", "argmin")),
    *(
        case(f"array.{name}", shape, axis=axis, keepdims=keepdims, domain=NONZERO)
        for name in ("sum", "mean", "prod", "max", "min", "var", "std", "any", "all")
        for shape, axis, keepdims in REDUCTIONS
    ),
    *(
        case(f"array.{name}", shape, axis=axis, keepdims=keepdims, domain=NONZERO)
        for name in ("root_sum_square", "root_sum_power")
        for shape, axis, keepdims in REDUCTIONS
    ),
    case("array.root_sum_square", (2, 3), axis=1, divisor=2.5, domain=NONZERO),
    *(case(f"array.{name}", (), axis=-1, domain=NONZERO) for name in ("sum", "prod", "max", "min", "cumsum")),
    *(case(f"array.{name}", (2, 3)) for name in ("argmax", "argmin")),
    *(case(f"array.{name}", (2, 3), axis=axis, keepdims=axis == 0) for name in ("argmax", "argmin") for axis in (0, -1)),
    *(case(f"array.{name}", (2, 0), axis=1) for name in ("sum", "prod")),
    *(case(f"array.{name}", (4, 2), axis=0, ddof=1) for name in ("var", "std")),
    *(case("array.prod", (2, 3), axis=axis, call=with_zero) for axis in (None, 1)),
    *(case("array.cumsum", (2, 3), axis=axis) for axis in (None, 0, -1)),
    case("array.running_sum", (0, 2), axis=-2),
    *(replace(case("array.norm", (2, 3), domain=NONZERO, ord=ord), complex=True) for ord in (None, "fro", 1, -1, np.inf, -np.inf)),
    *(replace(case("array.norm", (2, 3), domain=NONZERO, ord=ord, axis=1), complex=True) for ord in (None, 1, 2, 3, 0, np.inf, -np.inf)),
    case("array.norm", (2, 3, 2), axis=(0, 2), keepdims=True),
    replace(case("array.vector_norm", (2, 3, 2), axis=(0, 2), domain=NONZERO), complex=True),
    case("array.matrix_norm", (2, 3, 2), domain=NONZERO),
    *(case("array.cumprod", (2, 5), axis=axis) for axis in (None, 0, -1)),
    *(case("array.cumprod", (2, 3), axis=axis, call=with_zero) for axis in (0, 1)),
    case("array.running_product", (0, 2), axis=-2),
    Case("array.product_or_0", (REAL, REAL), kinks=(0,)),
    *(case(f"array.{name}", (2, 3), axis=axis) for name in ("ptp", "nansum", "nanmean", "nanmax", "nanmin") for axis in (None, 1)),
    case("array.count_nonzero", (2, 3), axis=0),
    Case("array.average", (REAL, POSITIVE), ((2, 3, 2), (2, 3)), {"axis": (2, 1)}, lambda op, x, w, axis: op(x, axis, w)),
    case("array.diff", (2, 4), n=2),
    case("array.diff", (2, 4), (2, 1), call=lambda op, x, a: op(x, prepend=a, append=a)),
    case("array.ediff1d", (2, 3), (2,), call=lambda op, x, a: op(x, a, 1)),
    case("array.trapezoid", (2, 3), axis=0),
    case("array.trapezoid", (2, 3), (3,)),
]

SORTING = [
    *(case(f"array.{name}", (2, 3), axis=axis) for name in ("sort", "argsort") for axis in (None, 0, -1)),
    *(case("array.sort_along", shape, axis=-2) for shape in ((3, 2), (0, 2))),
    case("array.partition", (2, 4), kth=2),
    case("array.sort_complex", (2, 4), call=imaginary),
    case("array.searchsorted", (3,), (2, 2)),
    case("array.lexsort", (3,), (3,), call=on_list),
    *(case("array.median", shape, axis=axis, keepdims=keepdims) for shape, axis, keepdims in REDUCTIONS),
    *(case(f"array.{name}", (2, 4), axis=axis) for name in ("nanmedian", "nanprod", "nanvar", "nanstd") for axis in (None, 1)),
    *(case("array.quantile", (2, 4), q=0.3, axis=1, method=method) for method in ("linear", "hazen", "lower", "midpoint")),
    *(Case(f"array.{name}", (REAL, (0.1, 0.9)), ((2, 4), (3,)), {"axis": 1}) for name in ("quantile", "nanquantile")),
    Case("array.mixture", (REAL, REAL, ((0.1, 0.4), (0.6, 0.9)))),
    *(case(f"array.{name}", (2, 3), q=40) for name in ("percentile", "nanpercentile")),
    *(case(f"array.{name}", (2, 3), axis=1) for name in ("nancumsum", "nancumprod", "nanargmax", "nanargmin")),
    *(case(f"array.{name}", (2, 3), axis=1, include_initial=True) for name in ("cumulative_sum", "cumulative_prod")),
    case("array.unique", (2, 3)),
    case("array.unique", (3, 2), axis=0, return_inverse=True),
    case("array.trim_zeros", (2, 3), call=with_zero, trim="f"),
    case("array.bincount", (3,), call=lambda op, w: lookup("array.astype")(op(ROWS, w), w.dtype)),
    case("array.histogram_bin_edges", (5,), bins=3),
    case("array.histogram", (6,), call=lambda op, w: op(np.arange(6), 4, weights=w)[0]),
    case("array.histogram", (7,), call=lambda op, x: lookup("array.astype")(op(x, 3, density=True)[0], x.dtype)),
    case("array.cov", (3, 4), (4,), call=lambda op, x, y: lookup("array.astype")(op(x, y), x.dtype)),
    case("array.corrcoef", (3, 4), call=lambda op, x: lookup("array.astype")(op(x + np.eye(3, 4, dtype=np.float32)), x.dtype)),
    Case("array.cov", (REAL, POSITIVE), ((3, 5), (5,)), {}, lambda op, x, w: lookup("array.astype")(op(x, aweights=w), x.dtype)),
]

SHAPING = [
    case("array.reshape", (2, 3), shape=(3, -1)),
    case("array.reshape", (), shape=(1, 1)),
    case("array.reshape", (0, 3), shape=(3, 0, 2)),
    case("array.ravel", (2, 3)),
    case("array.transpose", (2, 3, 1)),
    case("array.transpose", (2, 3, 1), axes=(1, -1, 0)),
    case("array.transpose", ()),
    case("array.swapaxes", (2, 3, 1), axis1=0, axis2=-1),
    case("array.matrix_transpose", (2, 3, 1)),
    case("array.moveaxis", (2, 3, 1), source=(0, 1), destination=(-1, 0)),
    case("array.squeeze", (1, 3, 1)),
    case("array.squeeze", (1, 3, 1), axis=-1),
    case("array.expand_dims", (3,), axis=(0, -1)),
    *(case("array.broadcast_to", small, shape=large) for small, large in BROADCASTS),
    *(case("array.sum_to", large, shape=small) for small, large in BROADCASTS),
    case("array.tile", (2, 1), reps=(2, 1, 3)),
    case("array.tile", (2,), reps=0),
    case("array.concatenate", (2, 3), (0, 3), (1, 3), call=on_list),
    case("array.concatenate", (2, 3), (1,), call=on_list, axis=None),
    case("array.join", (2, 3), (2, 1), axis=-1),
    case("array.stack", (2, 3), (2, 3), call=on_list, axis=-1),
    case("array.vstack", (3,), (2, 3), call=on_list),
    case("array.hstack", (2, 3), (2, 1), call=on_list),
    case("array.split", (4, 3), indices_or_sections=2),
    case("array.split", (2, 3), indices_or_sections=(1,), axis=1),
    case("array.array_split", (5,), indices_or_sections=3),
    *(case("array.pad", (3, 4), pad_width=((1, 2), (0, 1)), mode=mode) for mode in ("constant", "edge", "reflect", "symmetric", "wrap")),
    *(case("array.pad", (3, 4), pad_width=((1, 2), (0, 1)), mode=mode) for mode in ("linear_ramp", "maximum", "mean", "median", "minimum")),
    case("array.pad", (2,), pad_width=1, constant_values=0.5),
    case("array.pad", (2, 3), pad_width=1, constant_values=((1, 2), (3, 4))),
    case("array.pad_with", (0, 2), widths=((1, 1), (0, 2)), value=2),
    *(case("array.repeat", (2, 3), repeats=repeats, axis=axis) for repeats, axis in ((2, None), (3, 0), (np.array([0, 1, 2]), 1))),
    *(case("array.flip", (2, 3), axis=axis) for axis in (None, 0, (0, -1))),
    case("array.diagonal", (2, 4, 3), offset=1, axis1=-1, axis2=0),
    *(case(f"array.{name}", (3, 4), k=k) for name in ("diag", "diagflat", "tril", "triu") for k in (0, 1, -2)),
    case("array.trace", (3, 4), offset=-1),
    case("array.dstack", (2,), (2, 2), call=lambda op, a, b: op([lookup("array.tile")(a, (2, 1)), b])),
    case("array.column_stack", (2,), (2, 3), call=on_list),
    case("array.block", (2, 2), (2, 1), (1, 3), call=lambda op, a, b, c: op([[a, b], [c]])),
    case("array.append", (2, 3), (2, 1), axis=1),
    case("array.rot90", (2, 3, 1), k=3, axes=(2, 0)),
    *(case(f"array.{name}", (2, 3)) for name in ("fliplr", "flipud", "atleast_1d", "atleast_2d", "atleast_3d")),
    *(case("array.meshgrid", (2,), (3,), sparse=sparse) for sparse in (False, True)),
    case("array.broadcast_arrays", (2, 1), (3,)),
    *(case(f"array.{name}", (2, 2, 2), indices_or_sections=2) for name in ("hsplit", "vsplit", "dsplit")),
    *(case("array.roll", (2, 3), shift=shift, axis=axis) for shift, axis in ((4, None), (1, 0), ((1, -2), (0, 1)))),
    *(case("array.rolled", (2, 3), by=by, axis=axis) for by, axis in ((1, -1), (-2, -1), (1, -2))),
]

INDEXING = [
    *(case("array.getitem", shape, index=index) for shape, index in INDICES),
    *(case("array.scatter_add", np.empty(shape)[index].shape, index=index, shape=shape) for shape, index in INDICES),
    *(case("array.index_set", shape, np.empty(shape)[index].shape, index=index) for shape, index in INDICES),
    *(case("array.index_add", shape, np.empty(shape)[index].shape, index=index) for shape, index in INDICES),
    *(case(f"array.{name}", (2, 3), (3, 1), index=ROWS) for name in ("index_set", "index_add", "with_at", "plus_at")),
    *(case(f"array.{name}", (2, 3), (1, 1, 3), index=1) for name in ("index_set", "index_add")),  # a leading axis too many
    *(case("array.take", (2, 3), indices=indices, axis=axis) for indices, axis in ((COLUMNS, None), (1, 0), (COLUMNS, -1))),
    case("array.take_along_axis", (2, 3), indices=COLUMNS, axis=1),
    case("array.take_along_axis", (1, 3), indices=COLUMNS[:, 1:], axis=1),
    case("array.take_along_axis", (3,), indices=ROWS),
    case("array.scatter_along_axis", (2, 2), indices=COLUMNS, axis=-1, shape=(2, 3)),
    case("array.compress", (2, 3), call=lambda op, x: op([False, True, True], x, 1)),
    case("array.extract", (2, 3), call=lambda op, x: op(MASK, x)),
    case("array.choose", (3,), (2, 3), call=lambda op, a, b: op(COLUMNS[:, :1] // 2, [a, b])),
    case("array.insert", (2, 3), (2, 2), call=lambda op, x, v: op(x, [2, 0], v, 1)),
    case("array.delete", (2, 3), obj=ROWS, axis=-1),
]

MATRICES: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 1, 3), (3, 2)),
    ((2, 3), (2, 3, 2)),
    ((2, 1, 2, 3), (3, 3, 2)),
    ((3,), (2, 3, 1)),
    ((2, 3, 1), (1,)),
    ((2, 0), (0, 3)),
    ((0, 2, 3), (3, 2)),
)
SUBSCRIPTS: tuple[tuple[str, tuple[Shape, ...]], ...] = (
    ("ij,jk->ik", ((2, 3), (3, 2))),
    ("ij,kj", ((0, 2), (3, 2))),
    ("ij,ij->j", ((2, 3), (1, 3))),
    ("i,j,k", ((2,), (1,), (3,))),
    (",i->i", ((), (2,))),
    ("...i,i->...", ((2, 1, 3), (3,))),
    ("ij->", ((2, 3),)),
    ("ij->ji", ((2, 3),)),
    ("ii", ((3, 3),)),
    ("ii->i", ((3, 3),)),
    ("iij,j->i", ((2, 2, 3), (3,))),
)

PRODUCTS = [
    *(case("array.matmul", a, b) for a, b in MATRICES),
    *(case("array.dot", a, b) for a, b in (((), (2, 3)), ((3,), (3,)), ((2, 3), (3, 2)), ((2, 3), (2, 3, 2)))),
    *(case("array.inner", a, b) for a, b in (((), (2,)), ((3,), (3,)), ((2, 3), (4, 3)))),
    case("array.outer", (2,), (3, 1)),
    case("array.tensordot", (2, 3, 2), (3, 2, 4)),
    case("array.tensordot", (2, 3), (2,), axes=0),
    case("array.tensordot", (2, 3, 2), (3, 4), axes=((1,), (0,))),
    case("array.tensordot", (2, 3, 2), (2, 3), axes=((2, 1), (0, 1))),
    case("array.kron", (2, 1, 2), (3, 2)),
    case("array.cross", (2, 3), (3,)),
    case("array.cross", (3, 2), (4, 1, 3), axisa=0, axisc=0),
    case("array.vdot", (2, 3), (3, 2)),
    case("array.vecdot", (3, 1, 2), (3, 4, 1), axis=0),
    case("array.matvec", (2, 2, 3), (3,)),
    case("array.vecmat", (2, 3), (3, 4)),
    case("array.multi_dot", (2, 4), (4, 1), (1, 3), call=on_list),
    *(case("array.matrix_power", (2, 2, 2), n=n) for n in (1, 2, 5)),
    *(case("array.einsum", *shapes, call=subscripts_first, subscripts=subscripts) for subscripts, shapes in SUBSCRIPTS),
    case("array.contraction", (2, 3), (3, 2), subscripts="ab,bc->ca"),
]

def in_dtype_of_first(op: Callable[..., Any], x: Any, *rest: Any, **options: Any) -> Any:
    """op(x, *rest), which is of float64, in x's dtype."""
    return lookup("array.astype")(op(x, *rest, **options), x.dtype)


def interpolated(op: Callable[..., Any], x: Any, f: Any, **options: Any) -> Any:
    """interp with points in order, which depend on their values f."""
    return in_dtype_of_first(op, x, ramp(f) - 1.5, f, **options)


def with_distances(op: Callable[..., Any], f: Any, x: Any, h: Any, **options: Any) -> Any:
    """gradient with one distance along the first axis and coordinates along the second."""
    return op(f, 1.5 + h / 4, ramp(x), **options)


def ramp(x: Any) -> Any:
    """x, 1-d and within -2 and 2, made to increase."""
    return np.arange(x.shape[0]) + x / 5


def of_real_part(op: Callable[..., Any], x: Any, **options: Any) -> Any:
    return op(lookup("array.real")(x), **options)


def transforms(names: str, *shapes: Shape, **options: Any) -> list[Case]:
    """numpy.fft's, of real arrays and of complex ones."""
    return [replace(case(f"array.{name}", shape, **options), complex=True) for name in names.split() for shape in shapes]


TRANSFORMS = [
    *(case for n in (None, 2, 5) for case in transforms("fft ifft irfft hfft", (2, 3), (4,), n=n)),
    *(case for n in (None, 2, 5) for case in transforms("rfft ihfft", (2, 3), (4,), n=n, call=of_real_part)),
    *transforms("fft ifft irfft hfft", (3, 2), axis=0, norm="ortho"),
    *transforms("rfft ihfft", (3, 2), axis=0, norm="forward", call=of_real_part),
    *transforms("fft2 ifft2 irfft2 fftn ifftn irfftn fftshift ifftshift", (2, 3, 2)),
    *transforms("rfft2 rfftn", (2, 3, 2), call=of_real_part),
    *transforms("fftn ifftn irfftn", (3, 2), s=(-1, 3, 2), axes=(0, 1, 0), norm="forward"),
    *transforms("rfftn", (3, 2), s=(-1, 3, 2), axes=(0, 1, 0), norm="ortho", call=of_real_part),
    *(case for n in (3, 4) for case in transforms("transform half_inverse", (2, 3), n=n, call=imaginary)),
    *transforms("transform half_inverse", (3, 2), axis=-2, n=3, norm="ortho", call=imaginary),
    *(case for n in (2, 3) for case in transforms("half_transform", (2, 3), n=n, norm="forward", call=of_real_part)),
]

BEYOND: tuple[dict[str, Any], ...] = ({}, {"left": 0.5, "right": -1}, {"period": 3.3})

SAMPLING = [
    *(
        case("array.convolve", *shapes, mode=mode)
        for shapes in (((5,), (2,)), ((2,), (4,)), ((3,), (3,)))
        for mode in ("full", "same", "valid")
    ),
    *(case("array.correlate", *shapes, mode=mode) for shapes in (((4,), (3,)), ((2,), (5,))) for mode in ("full", "same", "valid")),
    *(case("array.convolution", (4,), (2,), full=full) for full in (True, False)),
    *(case("array.interp", (2, 5), (4,), call=interpolated, **options) for options in BEYOND),
    case("array.unwrap", (3, 4), axis=0, period=1.3, discont=0.8),
    *(case("array.gradient", (4, 3), edge_order=edge_order, axis=axis) for edge_order, axis in ((1, None), (2, 0), (1, (1, 0)))),
    *(case("array.gradient", (3, 4), (4,), (), call=with_distances, edge_order=edge_order) for edge_order in (1, 2)),
    *(case("array.vander", (3,), call=in_dtype_of_first, N=N, increasing=N == 2) for N in (None, 5, 2)),
    *(case("array.linspace", (3, 1), (2,), domain=POSITIVE, num=4, axis=axis) for axis in (0, -1)),
    *(case("array.geomspace", (3, 1), (2,), domain=POSITIVE, num=4, axis=axis, dtype=np.float64) for axis in (0, -1)),
    case("array.linspace", (), (2,), num=3, endpoint=False, retstep=True),
    case("array.linspace", (2,), (), num=1),
    case("array.geomspace", (2,), (2,), domain=(-2.0, -0.5), num=3, endpoint=False, dtype=np.float64),
    case("array.logspace", (2,), (), num=3),
    case("array.logspace", (2,), (2, 1), (2,), domain=POSITIVE, call=lambda op, a, b, base: op(a, b, 3, base=base, axis=1)),
    case("array.polyval", (4,), (2, 3)),
    case("array.polyval2d", (3, 1), (2,), (2, 3)),
    case("array.polygrid2d", (3,), (2,), (2, 3)),
    *(case(f"array.{name}", (2,), (4,)) for name in ("polyadd", "polysub", "polymul")),
    case("array.polydiv", (5,), (3,), domain=NONZERO, call=lambda op, u, v: (op(u, v)[0], op(u, v)[1][-2:])),  # without rounding before it
    case("array.polydiv", (1,), (3,), domain=NONZERO),
    *(case(f"array.{name}", (4,), m=m, call=in_dtype_of_first) for name in ("polyder", "polyint") for m in (0, 2)),
    case("array.poly", (3,)),
    case("array.unstack", (2, 3), axis=1),
    case("array.apply_along_axis", (2, 3, 2), call=lambda op, x: op(lambda v: lookup("array.outer")(v, v[1:]), 1, x)),
    *(
        case("array.sliding_window_view", (4, 3), window_shape=window, axis=axis)
        for window, axis in (((2, 3), None), (2, -1), ((2, 2), (0, 0)))
    ),
    *(case("array.resize", (2, 3), new_shape=shape) for shape in ((3, 5), 4, (0, 2))),
    case("array.rollaxis", (2, 3, 1), axis=2, start=1),
]

DIAGONAL = np.diag(np.array([2, 4, 6, 8], np.float32))
SMALL: Domain = (-0.5, 0.5)


def near_diagonal(op: Callable[..., Any], x: Any, *xs: Any, **options: Any) -> Any:
    """Of a regular matrix with eigenvalues and singular values apart."""
    m, n = x.shape[-2:]
    return op(x + DIAGONAL[:m, :n], *xs, **options)


def of_its_determinant(op: Callable[..., Any], x: Any) -> Any:
    return near_diagonal(lambda a: op(a, lookup("array.det")(a)), x)


def signless(op: Callable[..., Any], x: Any, **options: Any) -> list[Any]:
    """What a factorization gives, squared in size: the signs and phases of its vectors may be others for other dtypes."""
    y = near_diagonal(op, x, **options)
    return [factor * lookup("array.conjugate")(factor) for factor in (y if isinstance(y, tuple) else (y,))]


def solution(op: Callable[..., Any], a: Any, b: Any) -> tuple[Any, ...]:
    """What lstsq gives but the rank, which is none of the inputs' kind."""
    x, residuals, _, s = near_diagonal(op, a, b)
    return x, residuals, s


def fitted(op: Callable[..., Any], x: Any, y: Any, **options: Any) -> list[Any]:
    """Coefficients in the dtype of the points, which are apart in x: in NumPy float32 gives float64."""
    found = op(np.array([-4, -2, 0, 2, 4, 6], np.float32) + x * 0.25, y, 2, **options)
    return [lookup("array.astype")(c, y.dtype) for c in (found if isinstance(found, tuple) else (found,))]


def on_matrix(name: str, *shapes: Shape, call: Callable[..., Any] = near_diagonal, **options: Any) -> Case:
    return replace(case(f"array.{name}", *shapes, domain=SMALL, call=call, **options), complex=True)


SQUARE: Shape = (2, 3, 3)
FACTORS = [
    *(on_matrix(name, SQUARE) for name in ("inv", "inverse_matrix", "slogdet", "sign_and_logdet", "det", "determinant")),
    on_matrix("cofactors", SQUARE, call=of_its_determinant),
    *(on_matrix(name, (0, 0)) for name in ("inv", "slogdet", "det", "cholesky", "eigvalsh")),
    *(on_matrix("solve", a, b) for a, b in ((SQUARE, (2, 3, 2)), ((3, 3), (3,)), (SQUARE, (3, 1)), ((3, 3), (2, 3, 1)), (SQUARE, (3,)))),
    on_matrix("solve_stack", (3, 3), (3, 0)),
    *(on_matrix("cholesky", SQUARE, upper=upper) for upper in (False, True)),
    on_matrix("cholesky_factor", SQUARE),
    *(on_matrix(name, SQUARE, call=signless, UPLO=triangle) for name in ("eigh", "eigvalsh") for triangle in "LU"),
    *(on_matrix(name, SQUARE, call=signless) for name in ("eigenpairs", "eigenvalues")),
    *(on_matrix(name, shape, call=signless) for name in ("eig", "eigvals") for shape in (SQUARE, (0, 0))),
    *(on_matrix(name, SQUARE, call=signless) for name in ("general_eigenpairs", "general_eigenvalues")),
    *(on_matrix(name, shape, call=signless) for name in ("singular_triplets", "singular_values") for shape in (SQUARE, (4, 3), (2, 3))),
    *(on_matrix("svd", shape, call=signless, full_matrices=full) for shape in (SQUARE, (3, 2), (3, 4)) for full in (False, True)),
    on_matrix("svd", (3, 3), call=signless, hermitian=True),
    on_matrix("svdvals", (3, 0)),
    *(on_matrix("qr", shape, call=signless, mode=mode) for shape in (SQUARE, (3, 2), (3, 4)) for mode in ("reduced", "complete", "r")),
    on_matrix("orthogonal_triangular", (4, 3), call=signless, complete=True),
    *(on_matrix("pinv", shape) for shape in (SQUARE, (4, 2), (2, 3))),
    on_matrix("pinv", (3, 3), hermitian=True),
    on_matrix("pseudo_inverse", (3, 2)),
    *(on_matrix("lstsq", *shapes, call=solution) for shapes in (((4, 3), (4,)), ((3, 3), (3, 2)), ((2, 4), (2, 1)), ((4, 2), (4, 0)))),
    case("array.roots", (4,), domain=SMALL, call=lambda op, x: op(np.array([9, 0, -6, 1], np.float32) + x)),
    *(case("array.polyfit", (6,), shape, call=fitted, cov=cov) for shape in ((6,), (6, 2)) for cov in (False, True)),
    *(on_matrix("norm", (2, 3), ord=ord) for ord in (2, -2, "nuc")),
    *(on_matrix("cond", (3, 3), p=p) for p in (None, -2, 1, "fro")),
    on_matrix("matrix_rank", (2, 3, 2)),
    on_matrix("matrix_power", SQUARE, n=-3),
    case("array.tensorsolve", (2, 2, 4), (2, 2), call=lambda op, a, b: op(a + DIAGONAL.reshape(2, 2, 4), b)),
    case("array.tensorinv", (4, 2, 2), call=lambda op, a: op(a + DIAGONAL.reshape(4, 2, 2), 1)),
]

# ---------------------------------------------------------------- opset v20

LABELS = np.array([2, 0, -1])  # the last is masked
SIGM: dict[str, Any] = {"act": "sigm", "padding": ((1, 0),), "stride": 2, "beta": 0.5}
UNEVEN: dict[str, Any] = {"padding": ((1, 0), (0, 2)), "stride": (1, 2), "dilation": (2, 1), "group": 2}
OVERLAPPING: dict[str, Any] = {"window": (3, 2), "padding": ((1, 0), (0, 1)), "stride": (1, 2)}
POOLS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": 1, "padding": 1, "stride": 1},
    {"mode": 2, "window": (3, 2), "padding": 1},
    {"mode": 3, "alpha": 0.5},
)
RECURRENT: tuple[tuple[int, Shape, dict[str, Any]], ...] = (  # how many weights, the state, options
    (48, (2, 2, 2), {"cell": "lstm", "sizes": (2, 2, 1)}),
    (36, (1, 3, 2), {"cell": "gru", "sizes": (3, 1), "reverse": True}),
    (12, (1, 2, 2), {"cell": "tanh", "sizes": (2,)}),
    (8, (1, 1, 2), {"cell": "relu", "sizes": (1, 1), "skip": True}),
)
GRU_STEPS: dict[str, Any] = {"cell": "gru", "sizes": (1, 1), "skip": True, "with_x": False}

V20 = [
    *elementwise("v20", "relu elu selu", NONZERO, kinks=(0,)),
    *elementwise("v20", "relu_x elu_x", REAL, NONZERO, kinks=(0,)),
    *elementwise("v20", "sigm softplus", REAL),
    *elementwise("v20", "sigm_x", REAL, REAL),
    *elementwise("v20", "invx", NONZERO),
    case("v20.dropout", (3, 4), p=0.3, seed=5, drop=True),
    case("v20.dropout", (3, 4), p=0.3, drop=False),
    case("v20.masked_dropout", (3, 4), p=0.3, seed=5),
    case("v20.masked_dropout", (2, 0), p=1),
    case("v20.mat", (2, 3, 1, 2)),
    case("v20.mat", (2, 3, 1, 2), dims=2),
    case("v20.bmm", (2, 3, 1), (2, 1, 4)),
    case("v20.bmm", (2, 3, 2), (2, 1, 3), transA=True, transB=True),
    case("v20.bmm", (2, 0, 3), (2, 3, 2)),
    *(
        case(f"v20.{name}", shape, axis=axis)
        for name in ("softmax", "logsoftmax", "logsumexp")
        for shape, axis in (((2, 3), None), ((2, 3), 1), ((2, 3, 2), (0, -1)), ((), None), ((0, 3), 1), ((1, 3), 0))
    ),
    case("v20.logsumexp", (2, 3), axis=-1, keepdims=True),
    case("v20.nll", (3, 4), labels=LABELS),
    case("v20.nll", (4, 3), labels=LABELS, axis=0, call=lambda op, x, **options: op(x, average=False, **options)[0]),
    case("v20.bce", (4,), labels=np.array([0, 1, 1, 0])),
    case("v20.logistic", (2, 2), labels=np.array([[-1, 1], [1, 1]])),
    case("v20.conv4", (2, 2, 2), (2, 2, 4)),
    case("v20.conv4", (2, 1, 2, 3), (2, 1, 4, 5)),
    case("v20.conv4", (2, 2, 2, 2), (1, 2, 4, 3), mode=1, padding=1, stride=2, alpha=0.5),
    case("v20.conv4", (4, 1, 2, 2), (2, 2, 5, 4), **UNEVEN),
    case("v20.conv4", (1, 2, 1, 2, 2), (1, 2, 2, 3, 3), padding=(0, 1, 0)),
    case("v20.conv4", (2, 1, 2, 2), (0, 1, 3, 3)),
    case("v20.conv4_x", (2, 2, 2), (2, 2, 3), x_shape=(2, 2, 4)),
    case("v20.conv4_x", (4, 1, 2, 2), (2, 4, 4, 3), x_shape=(2, 2, 5, 4), **UNEVEN),
    case("v20.conv4_w", (2, 2, 4), (2, 2, 3), w_shape=(2, 2, 2)),
    case("v20.conv4_w", (2, 2, 5, 4), (2, 4, 4, 3), w_shape=(4, 1, 2, 2), mode=1, **UNEVEN),
    case("v20.deconv4", (2, 3, 2), (2, 2, 3)),
    case("v20.deconv4", (2, 1, 2, 3), (1, 2, 2, 3), mode=1, padding=1, stride=2, alpha=0.5),
    case("v20.deconv4", (4, 1, 2, 2), (2, 4, 4, 3), **UNEVEN),
    case("v20.deconv4", (2, 1, 1, 2, 2), (1, 2, 2, 2, 1), padding=(0, 1, 0)),
    *(
        case("v20.conv_bias_act", (2, 1, 2, 2), (2, 1, 3, 3), (2, 1, 1), act=act)
        for act in ("identity", "relu", "sigm", "tanh", "elu", "selu")
    ),
    case("v20.conv_bias_act", (2, 1, 2, 2), (2, 1, 3, 3), act="tanh"),
    case("v20.conv_bias_act", (2, 2, 2), (1, 2, 3), (1, 2, 1), (1, 2, 2), call=with_residual, **SIGM),
    case("v20.conv_bias_act", (2, 2, 2), (1, 2, 3), (1, 2, 2), call=without_bias, act="tanh", mode=1, alpha=2),
    *(
        case("v20.matmul_bias_act", (2, 3), (3, 2), (2,), act=act)
        for act in ("identity", "relu", "sigm", "tanh", "elu", "selu")
    ),
    case("v20.matmul_bias_act", (2, 3), (3, 2), act="tanh"),
    case("v20.matmul_bias_act", (2, 3), (3, 2), (1, 2), (2, 2), call=with_residual, act="sigm"),
    case("v20.matmul_bias_act", (2, 1, 3), (3, 2), (2, 1, 2), call=without_bias, act="tanh"),
    case("v20.matmul_bias_act", (2, 0), (0, 2), (2,), act="tanh"),
    *(
        case("v20.pool", shape, **options)
        for shape in ((2, 2, 4, 5), (0, 2, 4, 5))
        for options in POOLS
    ),
    case("v20.pool", (2, 2, 4, 5), nan=False),
    case("v20.unpool", (2, 1, 3), window=3, padding=1, stride=2),
    case("v20.unpool", (1, 2, 2, 3), alpha=0.5),
    case("v20.unpool", (1, 1, 2, 1, 2), window=(1, 2, 3)),
    case("v20.max_pool", (2, 1, 5)),
    case("v20.max_pool", (1, 2, 4, 5), **OVERLAPPING),
    case("v20.max_pool", (1, 1, 2, 3, 4), window=(2, 2, 3), stride=1),
    case("v20.max_pool_x", (1, 2, 2, 2), (1, 2, 4, 5), call=with_max_pool),
    case("v20.max_pool_x", (1, 2, 3, 3), (1, 2, 4, 5), call=with_max_pool, **OVERLAPPING),
    case("v20.max_pool_at", (1, 2, 4, 5), (1, 2, 4, 5), call=with_max_pool, **OVERLAPPING),
    case("v20.mean_pool", (2, 1, 5), window=3, padding=1, count_padding=False),
    case("v20.mean_pool", (1, 1, 2, 3, 4), window=(2, 2, 3), stride=1),
    case("v20.mean_pool_x", (2, 1, 2), x_shape=(2, 1, 5), window=3, padding=1, count_padding=False),
    case("v20.mean_pool_x", (1, 2, 2, 2), x_shape=(1, 2, 4, 5)),
    *(
        case("v20.recurrence", (sum(options["sizes"]), 2), (n,), state, call=results_joined, **options)
        for n, state, options in RECURRENT
    ),
    case("v20.recurrence_grads", (3, 1), (2, 2, 1), (3, 1), (16,), (2, 2, 1), call=with_kept, cell="lstm", sizes=(2, 1)),
    case("v20.recurrence_grads", (2, 1), (1, 1, 1), (2, 1), (9,), (1, 1, 1), call=with_kept, **GRU_STEPS),
    *(case("v20.batchnorm", shape, training=True) for shape in ((4, 2), (3, 2, 4), (2, 2, 3, 2), (2, 1, 2, 1, 2))),
    *(case("v20.batchnorm", shape, (4,), call=with_params, training=True) for shape in ((4, 2), (2, 2, 2, 3))),
    *(case("v20.batchnorm", shape, (4,), call=with_params, training=False) for shape in ((4, 2), (0, 2, 2, 3))),
    case("v20.normalise", (3, 2, 2)),
    case("v20.normalise", (3, 2, 2), (2,), eps=0.1),
    case("v20.normalise", (2, 2, 2, 2), (2,), (2,)),
    case("v20.normalise_x", (3, 2, 2), (3, 2, 2), (2,), (2,)),
    case("v20.normalise_x", (3, 2), (3, 2), (2,), (2,), (2,)),
    case("v20.layernorm", (4,)),
    *(case("v20.layernorm", shape, (6,), eps=0.1) for shape in ((3,), (2, 3), (2, 1, 2, 3), (2, 0, 3))),
    case("v20.normalise_rows", (2, 2, 3)),
    case("v20.normalise_rows", (2, 3), (3,), eps=0.1),
    case("v20.normalise_rows", (2, 2, 3), (3,), (3,)),
    case("v20.normalise_rows_x", (2, 2, 3), (2, 2, 3), (2, 2), (2, 2)),
    case("v20.normalise_rows_x", (2, 3), (2, 3), (2,), (2,), (3,)),
]

# ---------------------------------------------------------------- opset scipy


def with_parameters(name: str, *parameters: float, domain: Domain = POSITIVE) -> Case:
    """A function of parameters, in which it has no derivative, and x."""
    return Case(f"scipy.{name}", (domain,), None, {"parameters": parameters}, last_of)


def last_of(op: Callable[..., Any], x: Any, parameters: tuple[float, ...]) -> Any:
    return op(*parameters, x)


def banded(op: Callable[..., Any], ab: Any, *xs: Any, **options: Any) -> Any:
    """Of a matrix with a large diagonal, the second row of ab."""
    return op(ab + np.array([[0], [4], [0], [0]], np.float32), *xs, **options)


SCIPY = [
    *elementwise("scipy", "expit log_expit erf erfc ndtr log_ndtr", REAL),
    *elementwise("scipy", "erfcx", (-1.0, 2.0)),
    *elementwise("scipy", "erfinv", UNIT),
    *elementwise("scipy", "erfcinv", (0.1, 1.9)),
    *elementwise("scipy", "logit ndtri", (0.1, 0.9)),
    *elementwise("scipy", "gamma gammaln gammasgn rgamma psi entr j0 j1 i0 i1 i0e i1e", POSITIVE),
    *elementwise("scipy", "y0 y1", (0.5, 4.0)),
    *elementwise("scipy", "xlogy xlog1py rel_entr kl_div beta betaln", POSITIVE, POSITIVE),
    *(with_parameters(name, 2.5) for name in ("jv", "yv", "iv", "ive", "gammainc", "gammaincc", "stdtr", "zeta", "hurwitz_zeta")),
    *(with_parameters(name, 1.5, 2.5, domain=(0.1, 0.9)) for name in ("betainc", "betaincc")),
    *(with_parameters("polygamma", n) for n in (0, 1, 3)),
    *(
        with_parameters(name, 2.5)
        for name in ("log_gammainc", "log_gammaincc", "hazard_below", "hazard_above", "log_stdtr", "hazard_of_stdtr")
    ),
    *(
        with_parameters(name, 1.5, 2.5, domain=(0.1, 0.9))
        for name in ("log_betainc", "log_betaincc", "hazard_of_betainc", "hazard_of_betaincc")
    ),
    *elementwise("scipy", "log_part log_rest", (0.1, 0.9)),
    *elementwise("scipy", "stirling half_step log1p_rest", POSITIVE),
    *elementwise("scipy", "zeta_step t_square", POSITIVE, POSITIVE),
    *elementwise("scipy", "standardised", REAL, REAL, POSITIVE),
    *elementwise("scipy", "power_exp", POSITIVE, POSITIVE, REAL),
    case("scipy.multigammaln", (2, 3), domain=(1.2, 4.0), d=2),
    *(
        case(f"scipy.{name}", (2, 3), axis=axis)
        for name in ("logsumexp", "softmax", "log_softmax")
        for axis in (None, 1, (0, -1))
    ),
    Case("scipy.logsumexp", (REAL, POSITIVE), ((2, 3), (3,)), {"keepdims": True}, lambda op, a, b, keepdims: op(a, 0, b, keepdims)),
    *(case("scipy.expm", shape) for shape in (SQUARE, (1, 1), (0, 0))),
    *(case(f"scipy.{name}", SQUARE, domain=SMALL, call=near_diagonal) for name in ("sqrtm", "square_root")),
    *(
        case("scipy.solve_triangular", SQUARE, b, domain=SMALL, call=near_diagonal, trans=trans, lower=lower)
        for b, trans, lower in (((3, 2), 0, True), ((3,), 1, True), ((2, 3, 1), 2, False))
    ),
    case("scipy.solve_triangular", (3, 3), (3, 2), unit_diagonal=True),
    case("scipy.triangular_solution", (3, 3), (3, 0), domain=SMALL, call=near_diagonal),
    *(
        case("scipy.cho_solve", (3, 3), (3, 2), domain=SMALL, lower=lower,
             call=lambda op, a, b, lower: near_diagonal(lambda a: op(lookup("scipy.cho_factor")(a, lower), b), a))
        for lower in (False, True)
    ),
    *(
        case("scipy.solve_banded", (4, 5), b, domain=SMALL, call=lambda op, ab, b: banded(lambda ab: op((2, 1), ab, b), ab))
        for b in ((5,), (5, 2))
    ),
    case("scipy.banded_solution", (4, 3), (3, 2), domain=SMALL, call=banded, lower=2),
    case("scipy.solve_sylvester", (3, 3), (2, 2), (2, 3, 2), domain=SMALL, call=near_diagonal),
    case("scipy.sylvester_solution", (2, 2), (1, 1), (2, 1), domain=SMALL, call=near_diagonal),
    case("scipy.toeplitz", (3,)),
    case("scipy.toeplitz", (2, 3), (4,)),
    case("scipy.block_diag", (2, 3), (1,), ()),
    *(case("scipy.convolve", (4, 3), (2, 2), mode=mode) for mode in ("full", "same", "valid")),
    case("scipy.convolve", (2, 3), (4, 3, 5), mode="valid", axes=((1,), (2,)), dot_axes=((), ())),
]  # fmt: skip

# ---------------------------------------------------------------- all of them

ON_COMPLEX = """
    negative positive copied exp exp2 expm1 square sin cos sinh cosh tanh arctan arcsinh hypotenuse log log2 log10 sqrt log1p tan arcsin
    arccos arctanh arccosh sinc derivative_of_sinc reciprocal nan_to_num add subtract multiply divide power power_of power_of_arrays
    float_power maximum minimum fmax fmin absolute sign real imag conjugate angle real_if_close where select clip astype to_floats
    sum mean prod max min var std root_sum_square root_sum_power ptp average logsumexp cumsum cumprod running_sum running_product
    product_or_0 cumulative_sum cumulative_prod nansum nanprod nanmean nanvar nanstd nanmax nanmin nancumsum nancumprod median nanmedian
    mixture diff trapezoid gradient sort sort_complex sort_along partition cov corrcoef reshape ravel transpose swapaxes
    matrix_transpose moveaxis squeeze expand_dims broadcast_to sum_to tile concatenate join stack vstack hstack dstack column_stack block
    append split array_split hsplit vsplit dsplit pad_with repeat flip fliplr flipud rot90 roll diagonal diag diagflat tril triu trace
    atleast_1d atleast_2d atleast_3d meshgrid broadcast_arrays getitem scatter_add index_set index_add with_at plus_at take
    take_along_axis scatter_along_axis compress extract choose insert delete matmul dot inner outer tensordot kron cross vdot vecdot
    matvec vecmat multi_dot einsum contraction convolve correlate convolution vander polyval polyval2d polygrid2d polyadd polysub polymul
    polydiv polyder polyint poly linspace logspace pad unstack apply_along_axis sliding_window_view resize rollaxis
"""  # functions of opset array, all of whose cases run on complex inputs as well


def on_complex(case: Case) -> Case:
    opset, _, name = str(case.name).partition(".")
    return replace(case, complex=True) if opset == "array" and name in ON_COMPLEX.split() else case


ALL = [*ELEMENTWISE, *REDUCING, *SORTING, *SHAPING, *INDEXING, *PRODUCTS, *FACTORS, *TRANSFORMS, *SAMPLING, *V20, *SCIPY]
CASES: list[Case] = list(map(on_complex, ALL))
