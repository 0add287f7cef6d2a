"""Symbols: a rule run once on them becomes the text of one kernel.

`Symbols` is a table of the elementwise kernels for one more array type, `Symbol`, which stands for one element: each kernel writes a
statement and gives the symbol of its result.  So a rule needs no second form: `dy * (1 - y * y)` reaches it through the same operators as
everywhere else.  Types are those of NumPy's own loops.  What is no elementwise rule raises NotElementwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels import Kernels
from .absent import ABSENT
from .array import DeviceArray, supported
from .launch import c_type

_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)
_BOOL = np.dtype(bool)


class NotElementwise(TypeError):
    """The rule does something else than elementwise kernels, or chooses by a value."""


class NoArgument(NotElementwise):
    """A rule was called with something that is neither an array of this backend nor an option, which says nothing of the rule."""


class Trace:
    """The statements that a rule has written so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.exponents: set[int] = set()  # the numbers of a launch that must not be negative
        self._names: dict[tuple[str, Any], Symbol] = {}

    def statement(self, text: str, dtype: np.dtype[Any]) -> Symbol:
        """A symbol for the value of an expression; the same expression is the same symbol."""
        if (found := self._names.get((text, dtype))) is None:
            found = self._names[text, dtype] = Symbol(self, f"t{len(self._names)}", dtype)
            self.lines.append(f"const {c_type(dtype)} {found.text} = {text};")
        return found


class Symbol:
    """One element of an array within a rule: its name in the text, and its dtype.

    `weak` is the type of a Python number, for an option; `argument` which argument it is of the launch, for a number.
    """

    __slots__ = ("argument", "dtype", "text", "trace", "weak")
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(
        self, trace: Trace | None, text: str, dtype: np.dtype[Any], weak: type | None = None, argument: int | None = None
    ) -> None:
        self.trace, self.text, self.dtype, self.weak, self.argument = trace, text, dtype, weak, argument

    def __bool__(self) -> bool:
        raise NotElementwise("the rule branches on a value: choose with where(mask, a, b)")

    def __getattr__(self, name: str) -> Any:
        raise NotElementwise(f"the rule asks for {name!r} of an array's element")

    def __neg__(self) -> Symbol:
        return SYMBOLS.negative(self)


class Symbols:
    """The elementwise kernels of the contract for symbols."""

    name = "symbols"
    array = Symbol
    has_threads = False

    def __init__(self) -> None:
        kinds = Kernels.__annotations__.items()
        for name in (*(name for name, kind in kinds if kind in ("Unary", "Binary")), *_OWN_TYPES):
            if name not in vars(Symbols) and name not in ABSENT:
                setattr(self, name, _by_ufunc(name))

    def __getattr__(self, name: str) -> Any:
        raise NotElementwise(f"{name} is no elementwise kernel")

    def adopt(self, x: Any) -> Symbol | None:
        """Only symbols: an array would have to be an argument of the kernel."""
        return x if isinstance(x, Symbol) else None

    def scalar(self, value: Any, dtype: Any) -> Symbol:
        """A number of the rule's text, or an option that is an argument of the launch, in the dtype that NumPy gives it beside `dtype`."""
        if isinstance(value, Symbol):
            return value if value.weak is None else cast(value, beside(dtype, value.weak(0)))
        try:
            return _number(value, supported(np.asarray(value, beside(dtype, value)).dtype))
        except OverflowError:
            raise NotElementwise(f"{value} is out of range for {dtype}") from None

    def astype(self, x: Symbol, dtype: Any) -> Symbol:
        return cast(x, supported(dtype))

    def copy(self, x: Symbol) -> Symbol:
        return x

    def real(self, x: Symbol) -> Symbol:
        return x

    def imag(self, x: Symbol) -> Symbol:
        return _trace(x).statement(literal(0, x.dtype), x.dtype)

    def conjugate(self, x: Symbol) -> Symbol:
        """Of booleans in int8, as NumPy has it."""
        return x if x.dtype.kind != "b" else cast(x, np.dtype(np.int8))

    def where(self, mask: Symbol, a: Symbol, b: Symbol) -> Symbol:
        a, b = _strong((a, b))
        dtype = np.result_type(a.dtype, b.dtype)
        return _trace(mask, a, b).statement(f"{cast(mask, _BOOL).text} ? {cast(a, dtype).text} : {cast(b, dtype).text}", dtype)

    def round(self, x: Symbol, decimals: int) -> Symbol:
        if x.dtype.kind == "b":
            if decimals:
                raise TypeError("round: NumPy rounds bool to no decimals but 0")
            return cast(x, np.dtype(np.float16))
        if not decimals:
            return x if x.dtype.kind in "iu" else _call("rint", (x,), (x.dtype,), x.dtype)
        factor = self.scalar(10.0 ** abs(decimals), x.dtype)
        if x.dtype.kind in "iu":
            return x if decimals > 0 else cast(self.multiply(self.round(self.divide(x, factor), 0), factor), x.dtype)
        there, back = (self.multiply, self.divide) if decimals > 0 else (self.divide, self.multiply)
        return back(self.round(there(x, factor), 0), factor)

    def power(self, a: Symbol, b: Symbol) -> Symbol:
        """NumPy refuses integers to negative integer powers; here a launch does, of a number."""
        y = _power(a, b)
        if y.dtype.kind in "iu" and b.argument is not None and y.trace is not None:
            y.trace.exponents.add(b.argument)
        return y

    def exponent(self, x: Symbol) -> Symbol:
        return _call("exponent", (x,), (np.frexp.resolve_dtypes((x.dtype, None, None))[0],), np.dtype(np.int32))

    def ldexp(self, x: Symbol, exponent: Symbol) -> Symbol:
        dtype = np.ldexp.resolve_dtypes((x.dtype, exponent.dtype, None))[0]
        return _call("ldexp", (x, exponent), (dtype, _INT64), dtype)

    def bessel_i(self, x: Symbol, order: int) -> Symbol:
        dtype = _floating(x.dtype)
        return _call("bessel_i", (x, self.scalar(order, _INT64)), (dtype, _INT64), dtype)

    def compile_elementwise(self, rule: Callable[..., Any], use: Any) -> Callable[..., Any]:
        return rule


def _number(value: Any, dtype: np.dtype[Any], weak: type | None = None) -> Symbol:
    """A number in a rule: it belongs to no trace until it meets a symbol of one."""
    return Symbol(None, literal(value, dtype), dtype, weak)


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """A Python number as an exact constant of CUDA C++."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        value, suffix = int(value), "ULL" if dtype.kind == "u" else "LL"
        text = f"{value}{suffix}" if value > -(2**63) else f"(-{2**63 - 1}LL - 1)"
    elif math.isfinite(value):
        text = float(value).hex()
    else:
        text = f"{'not_a_number' if math.isnan(value) else '-infinity' if value < 0 else 'infinity'}<double>()"
    return f"cast<{c_type(dtype)}>({text})"


def cast(x: Symbol, dtype: np.dtype[Any]) -> Symbol:
    """x in another dtype."""
    if x.dtype == dtype and not x.weak:
        return x
    text = f"cast<{c_type(dtype)}>({x.text})" if dtype.kind != "b" else f"({c_type(_wide(x.dtype))})({x.text}) != 0"
    return Symbol(x.trace, f"({text})", dtype, argument=x.argument)


def beside(dtype: Any, value: Any) -> np.dtype[Any]:
    """The dtype of a Python number beside arrays of a dtype.  NumPy, which knows nothing of bfloat16, would widen that."""
    dtype = np.dtype(dtype)
    return dtype if dtype.name == "bfloat16" and isinstance(value, (int, float)) else np.result_type(dtype, value)


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.itemsize != 2 or dtype.kind in "iu" else np.dtype(np.float32)


def _trace(*xs: Any) -> Trace:
    for x in xs:
        if not isinstance(x, Symbol):
            raise NotElementwise(f"the rule brings {type(x).__name__} to an elementwise kernel")
    traces = [x.trace for x in xs if x.trace is not None]
    if not traces:
        raise NotElementwise("the rule computes with numbers alone")
    return traces[0]


def _call(name: str, xs: Sequence[Symbol], types: Sequence[np.dtype[Any]], result: np.dtype[Any]) -> Symbol:
    """A statement that calls the function of mathematics.cuh."""
    trace = _trace(*xs)
    args = ", ".join(cast(x, t).text for x, t in zip(xs, types, strict=True))
    return trace.statement(f"at::{name}({args})", result)


def _floating(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What a function of real numbers gives."""
    return dtype if dtype.kind not in "iub" else _FLOAT64


def _with_zero(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    return np.result_type(*dtypes, 0)


# the dtypes of kernels that are no ufunc of that name
_OWN_TYPES: dict[str, Callable[..., np.dtype[Any]]] = {
    "sigmoid": _floating,
    "relu": _with_zero,
    "elu": lambda x: np.expm1.resolve_dtypes((_with_zero(x), None))[1],
    "selu": _floating,
    "relu_x": lambda dy, y: _with_zero(dy),
    "elu_x": lambda dy, y: np.result_type(dy, _with_zero(y)),
    "sigmoid_x": lambda dy, y: np.result_type(dy, _with_zero(y)),
}


def _loop(name: str, dtypes: tuple[np.dtype[Any], ...]) -> tuple[tuple[np.dtype[Any], ...], np.dtype[Any]]:
    """The dtypes that a kernel computes in, and that of its result, for those of its arguments."""
    if (own := _OWN_TYPES.get(name)) is not None:
        result = own(*dtypes)
        return ((result, dtypes[1]) if name == "relu_x" else (result,) * len(dtypes)), result
    try:
        *types, result = getattr(np, name).resolve_dtypes((*dtypes, None))
    except TypeError:
        raise TypeError(f"{name}: NumPy has no {name} of {' and '.join(map(str, dtypes))}") from None
    if result.kind == "O" or result.itemsize > 8:
        raise TypeError(f"{name}: no kernel takes {' and '.join(map(str, dtypes))}")
    return tuple(types), result


_loops: dict[Any, Any] = {}


def _by_ufunc(name: str) -> Callable[..., Symbol]:
    def kernel(*xs: Symbol) -> Symbol:
        _trace(*xs)
        xs = _strong(xs)
        dtypes = tuple(x.dtype for x in xs)
        if (found := _loops.get((name, dtypes))) is None:
            found = _loops[name, dtypes] = _loop(name, dtypes)
        y = _call(name, xs, *found)
        return y if xs[0].weak is None else Symbol(y.trace, y.text, y.dtype, type(np.zeros((), y.dtype).item()))

    kernel.__name__ = name
    return kernel


def _strong(xs: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """Options in the dtype that NumPy gives them beside the arrays; where there are none, they stay Python's numbers."""
    dtypes = [x.dtype for x in xs if x.weak is None]
    if not dtypes or len(dtypes) == len(xs):
        return xs
    dtype = np.result_type(*dtypes)
    return tuple(SYMBOLS.scalar(x, dtype) for x in xs)


_power = _by_ufunc("power")
SYMBOLS: Any = Symbols()

_ARITHMETIC = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power",
}  # fmt: skip
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def operators(cls: type, kernel: Callable[[str], Callable[..., Any]], operand: Callable[[Any, Any], Any]) -> None:
    """Give an array type Python's operators: kernel(name) is what runs, operand(self, other) the other side as an array, or None."""

    def method(name: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
        def operator(self: Any, other: Any) -> Any:
            if other.__class__ is not cls and (other := operand(self, other)) is None:
                return NotImplemented
            return kernel(name)(other, self) if reflected else kernel(name)(self, other)

        return operator

    for name, called in _ARITHMETIC.items():
        setattr(cls, f"__{name}__", method(called))
        setattr(cls, f"__r{name}__", method(called, reflected=True))
    for name, called in _COMPARISONS.items():
        setattr(cls, f"__{name}__", method(called))


def _operand(self: Symbol, other: Any) -> Any:
    if isinstance(other, Symbol):
        return other
    if isinstance(other, np.generic):
        return _number(other.item(), supported(other.dtype))
    if isinstance(other, DeviceArray):
        if other.value is None:
            raise NotElementwise("an array that is no argument of the rule")
        return _number(other.value, other.dtype)
    if type(other) not in (bool, int, float):
        return None
    return SYMBOLS.scalar(other, self.dtype) if self.weak is None else _number(other, np.dtype(type(other)), type(other))


operators(Symbol, lambda name: getattr(SYMBOLS, name), _operand)
