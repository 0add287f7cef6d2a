"""The contract between operators and backends: every kernel's name, arguments, shapes and errors.

A backend is one object that has all of these attributes for one array type.  An operator asks for the
current one with `autotape.kernels()` and calls its kernels on raw arrays; no kernel knows of tapes or Tensors.

What every kernel promises:
- inputs are never changed, but for those marked Out; any strides, 0-d and empty arrays are taken, and results may have any memory order;
- the result is an array (0-d stays 0-d, never a NumPy scalar) of the inputs' dtype, promoted as NumPy does;
  it may be a view of an input only where this file says "view";
- NaN and infinities come out as NumPy gives them;
- shapes that don't fit raise ValueError, wrong dtypes TypeError; the engine adds the operator and its arguments.

The array type itself has `shape`, `dtype`, `ndim`, `size`, the Python operators + - * / ** @ (unary -, comparisons,
`+=` in place) with Python numbers as weak operands, and sets `__array_ufunc__ = None` unless it is NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any, Literal, NamedTuple, Protocol

Array = Any
Out = Any  # an array that the kernel writes to: one that a kernel made, and of which there is no view
Shape = tuple[int, ...]
Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
Norm = Literal["backward", "ortho", "forward"]

SELU_SCALE = 1.0507009873554805
SELU_LIMIT = 1.7580993408473773  # scale * alpha: selu(-inf) is its negative


class Geometry(NamedTuple):
    """How a window slides over the spatial axes of x (N, C, *spatial).  One entry an axis; padding is (before, after)."""

    window: Shape
    padding: tuple[tuple[int, int], ...]
    stride: Shape
    dilation: Shape
    group: int = 1
    flip: bool = False  # True: the window is reversed (a true convolution); False: cross-correlation

    def output(self, spatial: Shape) -> Shape:
        """The spatial shape of the result: 1 + floor((n + padding - ((window - 1) * dilation + 1)) / stride)."""
        return tuple(
            1 + (n + sum(p) - ((k - 1) * d + 1)) // s
            for n, k, p, s, d in zip(spatial, self.window, self.padding, self.stride, self.dilation, strict=True)
        )


def packed_steps(sizes: Shape, reverse: bool) -> list[tuple[slice, int]]:
    """Each step's rows among those of packed sequences, and how many they are, in the order of time or against it."""
    steps = [(slice(end - n, end), n) for end, n in zip(accumulate(sizes), sizes, strict=True)]
    return steps[::-1] if reverse else steps


def recurrent_parts(gates: int, width: int, hidden: int, skip: bool) -> list[tuple[slice, Shape]]:
    """Where in the flat weights of a recurrent layer the input's matrices lie (there are none if `skip`), the state's matrices, the
    input's biases and the state's, and the shape of each with its gates side by side: (gates * hidden, width), ..., (gates * hidden,)."""
    rows = gates * hidden
    shapes: list[Shape] = [(rows, 0 if skip else width), (rows, hidden), (rows,), (rows,)]
    return [(slice(end - prod(s), end), s) for end, s in zip(accumulate(map(prod, shapes)), shapes, strict=True)]


class Kernels(Protocol):
    """One backend.  Elementwise kernels broadcast; the engine brings numbers to them as 0-d arrays made by `scalar`."""

    name: str  # as in backend.set(name)
    array: type  # the array type
    has_threads: bool  # whether its kernels bring threads of their own, beside which BLAS's would be in the way
    compiles: bool  # whether compile_elementwise makes one kernel of a rule; else it gives the rule itself
    math_mode: Callable[[], str]  # the mode in force where a kernel runs ("pedantic", "default" or "fast"): the engine sets it

    def account(self) -> tuple[str, str]:
        """Of the last kernel that this thread ran since it asked before: what it ran on, and why it was left to something slower, "" if
        it was not."""

    def synchronize(self) -> None:
        """Wait until all work that this backend's kernels have started is done; nothing where they return with their work done."""

    def is_alone(self, x: Array) -> bool:
        """Whether no array that does not hold x itself has a part in its memory; False where nobody knows."""

    # -- in and out
    def adopt(self, x: Any) -> Array | None:
        """A NumPy array, NumPy scalar, or (nested) list of numbers as an array of this backend; None if x is nothing of the kind."""

    def to_numpy(self, x: Array) -> Any:
        """x as a numpy.ndarray; may share memory with x."""

    def scalar(self, value: complex, dtype: Any) -> Array:
        """A Python number as the 0-d array that NumPy's weak promotion makes of it beside `dtype`, an integer too large for that as
        itself; may be cached, so never written to."""

    def copy(self, x: Array) -> Array:
        """A dense copy that shares memory with nothing, its axes in x's order of memory."""

    # -- what the engine itself computes
    def zeros(self, shape: Shape, dtype: Any) -> Array: ...
    def ones(self, shape: Shape, dtype: Any) -> Array: ...
    def full(self, shape: Shape, value: complex, dtype: Any) -> Array: ...
    def astype(self, x: Array, dtype: Any) -> Array:
        """x in another dtype, complex to real by the real part; x itself if it has that dtype (view)."""

    def sum_to(self, x: Array, shape: Shape) -> Array:
        """Undo broadcasting: x summed down to `shape`, which broadcasts to x's (view if nothing is summed)."""

    # -- elementwise, one array
    negative: Unary
    absolute: Unary
    fabs: Unary
    sign: Unary
    exp: Unary
    exp2: Unary
    expm1: Unary
    log: Unary
    log1p: Unary
    log2: Unary
    log10: Unary
    sqrt: Unary
    square: Unary
    cbrt: Unary
    reciprocal: Unary
    sin: Unary
    cos: Unary
    tan: Unary
    arcsin: Unary
    arccos: Unary
    arctan: Unary
    deg2rad: Unary
    rad2deg: Unary
    real: Unary
    """The real part (view)."""
    imag: Unary
    """The imaginary part (view); zeros of x that is not complex."""
    conjugate: Unary
    """x with the imaginary part negated; booleans give int8."""
    sinh: Unary
    cosh: Unary
    tanh: Unary
    arcsinh: Unary
    arccosh: Unary
    arctanh: Unary
    floor: Unary
    ceil: Unary
    trunc: Unary
    isnan: Unary
    isinf: Unary
    isfinite: Unary
    signbit: Unary
    logical_not: Unary
    sigmoid: Unary
    """1 / (1 + exp(-x)) without overflow."""
    relu: Unary
    """max(x, 0)."""
    elu: Unary
    """x where x > 0, else exp(x) - 1."""
    selu: Unary
    """SELU_SCALE * x where x > 0, else SELU_LIMIT * (exp(x) - 1)."""
    spacing: Unary

    def round(self, x: Array, decimals: int) -> Array: ...
    def exponent(self, x: Array) -> Array:
        """The whole number e, in int32, for which x = m * 2 ** e with 0.5 <= abs(m) < 1; 0 for 0."""

    def complex_of(self, a: Array, b: Array) -> Array:
        """Complex numbers of their real and imaginary parts, which broadcast, bit by bit."""

    def ldexp(self, x: Array, exponent: Array) -> Array:
        """x * 2 ** exponent for integers, without overflow on the way."""

    def bessel_i(self, x: Array, order: int) -> Array:
        """The modified Bessel function of the first kind of an order >= 0 to a few units in the last place; integers give float64."""

    def special(self, name: str, xs: Sequence[Array]) -> Array:
        """scipy.special's function of that name, elementwise; xs broadcast, and integers give floats.  Raises TypeError for complex xs of a
        function of real numbers, ImportError where there is no SciPy."""

    # -- elementwise, two arrays
    add: Binary
    subtract: Binary
    multiply: Binary
    divide: Binary
    floor_divide: Binary
    remainder: Binary
    fmod: Binary
    power: Binary
    maximum: Binary
    minimum: Binary
    fmax: Binary
    fmin: Binary
    arctan2: Binary
    hypot: Binary
    logaddexp: Binary
    logaddexp2: Binary
    copysign: Binary
    heaviside: Binary
    nextafter: Binary
    equal: Binary
    not_equal: Binary
    less: Binary
    less_equal: Binary
    greater: Binary
    greater_equal: Binary
    logical_and: Binary
    logical_or: Binary
    logical_xor: Binary

    # the cotangent of x for the cotangent dy of an activation's result y
    def relu_x(self, dy: Array, y: Array) -> Array:
        """dy where y > 0, else 0."""

    def elu_x(self, dy: Array, y: Array) -> Array:
        """dy where y > 0, else dy * (y + 1)."""

    def sigmoid_x(self, dy: Array, y: Array) -> Array:
        """dy * y * (1 - y)."""

    def where(self, mask: Array, a: Array, b: Array) -> Array: ...
    def compile_elementwise(self, rule: Callable[..., Any], use: Callable[[Any], Any]) -> Callable[..., Any]:
        """A forward or backward rule made of elementwise operators, as one callable on raw arrays.

        NumPy gives the rule itself; a GPU backend runs it once on symbols, `with use(table)` making their kernels the current ones,
        and compiles one kernel.
        """

    # -- reductions: axis is None (all), an int or a tuple of distinct ints; keepdims keeps reduced axes as 1
    def sum(self, x: Array, axis: Any, keepdims: bool) -> Array: ...
    def prod(self, x: Array, axis: Any, keepdims: bool) -> Array: ...
    def max(self, x: Array, axis: Any, keepdims: bool) -> Array: ...
    def min(self, x: Array, axis: Any, keepdims: bool) -> Array: ...
    def any(self, x: Array, axis: Any, keepdims: bool) -> Array: ...
    def all(self, x: Array, axis: Any, keepdims: bool) -> Array: ...
    def argmax(self, x: Array, axis: int | None, keepdims: bool) -> Array: ...
    def argmin(self, x: Array, axis: int | None, keepdims: bool) -> Array: ...
    def cumsum(self, x: Array, axis: int) -> Array: ...
    def cumprod(self, x: Array, axis: int) -> Array: ...

    # -- shapes (views where NumPy gives views)
    def reshape(self, x: Array, shape: Shape) -> Array: ...
    def transpose(self, x: Array, axes: Shape | None) -> Array: ...
    def broadcast_to(self, x: Array, shape: Shape) -> Array: ...
    def concatenate(self, xs: Sequence[Array], axis: int) -> Array: ...
    def pad(self, x: Array, widths: tuple[tuple[int, int], ...], value: complex) -> Array:
        """x with `value` around it: widths[i] = (before, after) on axis i."""

    # -- indexing: index is anything NumPy's x[index] takes, its arrays being of this backend or NumPy's
    def getitem(self, x: Array, index: Any) -> Array:
        """x[index] (view for slices, integers, newaxis and ellipsis)."""

    def scatter_add(self, v: Array, index: Any, shape: Shape) -> Array:
        """Zeros of `shape` with v added at [index]; repeated indices add up.  The transpose of getitem."""

    def index_set(self, x: Array, index: Any, v: Array) -> Array:
        """A copy of x in which [index] holds v."""

    def take_along_axis(self, x: Array, indices: Array, axis: int) -> Array: ...
    def scatter_along_axis(self, v: Array, indices: Array, axis: int, shape: Shape) -> Array:
        """Zeros of `shape` with v added along `axis` at `indices`.  The transpose of take_along_axis."""

    # -- order, NaN being larger than all else
    def sort(self, x: Array, axis: int) -> Array: ...
    def argsort(self, x: Array, axis: int) -> Array:
        """The indices that sort x along `axis`, those of equal elements in their order."""

    def searchsorted(self, a: Array, v: Array, side: str) -> Array:
        """Where each element of v belongs in the sorted 1-d a: before elements equal to it if side is "left", else ("right") behind."""

    # -- Fourier transforms along an axis, which is cropped or filled up with zeros to n elements, n > 0, first; norm is numpy.fft's
    def fft(self, x: Array, axis: int, n: int, inverse: bool, norm: Norm) -> Array:
        """Complex x to the sums of x[j] * exp(-2 pi i j k / n), or if inverse x[j] * exp(2 pi i j k / n), for k from 0 to n - 1."""

    def rfft(self, x: Array, axis: int, n: int, norm: Norm) -> Array:
        """Real x to the first n // 2 + 1 of fft's numbers."""

    def irfft(self, x: Array, axis: int, n: int, norm: Norm) -> Array:
        """The inverse of rfft, which takes n // 2 + 1 complex numbers to n real ones; of the first, and for even n of the last, the
        imaginary part counts for nothing."""

    # -- products
    def matmul(self, a: Array, b: Array) -> Array:
        """numpy.matmul: the last two axes multiply, leading ones broadcast, 1-d operands count as row or column."""

    def matmul_bias_act(self, a: Array, b: Array, bias: Array | None, z: Array | None, activation: str) -> Array:
        """activation((a @ b + z) + bias) in one call, for a (..., n, k) and b (k, m).

        z has the result's shape (..., n, m), bias is one value a column: (m,), or that with ones before it; activation is that of
        conv_bias_act.
        """

    def einsum(self, subscripts: str, xs: Sequence[Array]) -> Array:
        """numpy.einsum with explicit output subscripts ("ij,jk->ik"); letters only, no ellipsis."""

    def convolve(self, a: Array, v: Array, full: bool) -> Array:
        """The sums of a[i] * v[k - i] of 1-d arrays, neither of them empty, for every k; or, if not `full`, for those k
        where the shorter array lies wholly in the longer."""

    # -- linear systems and factorizations of the matrices on the last two axes of a (..., m, n), the other axes being a stack.
    # float32, float64, complex64 and complex128 stay; integers count as float64.  Where a transpose .T is spoken of, it is the conjugate
    # one of complex matrices but in cofactors.  A matrix that has no such result raises ValueError (LinAlgError).
    def inv(self, a: Array) -> Array:
        """The inverses of square matrices.  Raises ValueError if one is singular."""

    def solve(self, a: Array, b: Array) -> Array:
        """x (..., n, k) for which a (..., n, n) @ x = b (..., n, k); stacks broadcast.  Raises ValueError if an a is singular."""

    def det(self, a: Array) -> Array: ...
    def slogdet(self, a: Array) -> tuple[Array, Array]:
        """det(a) / abs(det(a)), 0 for a singular a, and log(abs(det(a))), then -inf."""

    def cofactors(self, a: Array, d: Array) -> Array:
        """The derivative of d, which is det(a), in each element of a: d * inv(a).T, but right for singular a, too."""

    def cholesky(self, a: Array) -> Array:
        """Lower triangular y (..., n, n) for which y @ y.T = a, whose upper triangle is not read; ValueError if there is none."""

    def eigh(self, a: Array, uplo: Literal["L", "U"]) -> tuple[Array, Array]:
        """Real eigenvalues w (..., n), ascending, and orthonormal eigenvectors, the columns of v (..., n, n), of symmetric a.
        Only its lower ("L") or upper ("U") triangle is read, and the real part of its diagonal."""

    def eigvalsh(self, a: Array, uplo: Literal["L", "U"]) -> Array:
        """eigh's w alone."""

    def eig(self, a: Array) -> tuple[Array, Array]:
        """Complex eigenvalues w (..., n), in no order, and eigenvectors of length 1, the columns of complex v (..., n, n), of square a."""

    def eigvals(self, a: Array) -> Array:
        """eig's w alone."""

    def svd(self, a: Array, full: bool) -> tuple[Array, Array, Array]:
        """u (..., m, k), s (..., k) >= 0, descending, and vh (..., k, n) for which (u * s) @ vh = a, k = min(m, n).
        u's columns and vh's rows are orthonormal; if `full` they are completed to square matrices."""

    def svdvals(self, a: Array) -> Array:
        """svd's s alone."""

    def qr(self, a: Array, complete: bool) -> tuple[Array, Array]:
        """q (..., m, k) with orthonormal columns and upper triangular r (..., k, n) for which q @ r = a; k = m if `complete`,
        else min(m, n)."""

    def pinv(self, a: Array, rcond: Array) -> Array:
        """The pseudo-inverse (..., n, m), for which singular values up to rcond (real, broadcasts to the stack) times the largest
        count as 0."""

    # -- more of these, for which NumPy's backend needs SciPy and raises ImportError without it
    def solve_triangular(self, a: Array, b: Array, lower: bool) -> Array:
        """x (..., n, k) for which t @ x = b (..., n, k), t being the lower or upper triangle of a (..., n, n); stacks broadcast.  Raises
        ValueError if an element of a diagonal is 0."""

    def solve_banded(self, ab: Array, b: Array, lower: int) -> Array:
        """x (n, k) for which a @ x = b (n, k); ab (rows, n) has at [upper + i - j, j] element [i, j] of a, which is 0 beyond `lower`
        diagonals below the main one and `upper`, the other rows - 1, above.  Raises ValueError if a is singular."""

    def solve_sylvester(self, a: Array, b: Array, q: Array) -> Array:
        """x (..., m, n) for which a @ x + x @ b = q, a being (..., m, m) and b (..., n, n); stacks broadcast."""

    def sqrtm(self, a: Array) -> Array:
        """y (..., n, n) for which y @ y = a and no eigenvalue has a real part below 0; complex where real a has no such real y."""

    # -- normalisation; axis as for reductions
    def softmax(self, x: Array, axis: Any) -> Array: ...
    def logsoftmax(self, x: Array, axis: Any) -> Array: ...
    def logsumexp(self, x: Array, axis: Any, keepdims: bool) -> Array:
        """log(sum(exp(x))); -inf, without a warning, where all elements are."""

    # of each channel of x (N, C, *spatial), its elements being those of all instances and positions; scale, bias, mean and inv are (C,).
    # What sums of float16 go into is float32: mean and var.
    def batchnorm(self, x: Array, scale: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
        """(x - mean) / sqrt(var + eps) * scale + bias, and the channels' mean and variance (biased: divided by the count)."""

    def batchnorm_x(self, dy: Array, x: Array, mean: Array, inv: Array, scale: Array | None) -> tuple[Array, Array, Array]:
        """The cotangents of x, scale and bias for the cotangent dy of batchnorm's first result; inv is 1 / sqrt(var + eps)."""

    # of each row of x (..., C), its elements along the last axis; scale and bias are (C,), mean, var and inv have x's shape without that
    # axis.  float16 as for batchnorm.
    def layernorm(self, x: Array, scale: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
        """(x - mean) / sqrt(var + eps) * scale + bias, and the rows' mean and variance (biased)."""

    def layernorm_x(self, dy: Array, x: Array, mean: Array, inv: Array, scale: Array | None) -> tuple[Array, Array, Array]:
        """The cotangents of x, scale and bias for the cotangent dy of layernorm's first result; inv is 1 / sqrt(var + eps)."""

    # -- convolution of x (N, C, *spatial) by w (K, C/group, *window), 1 to 3 spatial axes, y (N, K, *output)
    def conv(self, w: Array, x: Array, geometry: Geometry, alpha: float) -> Array:
        """alpha * (x convolved with w); empty where no window fits by one position, ValueError where the geometry gives less."""

    def conv_x(self, w: Array, dy: Array, x_shape: Shape, geometry: Geometry, alpha: float) -> Array:
        """The transpose of conv in x: the cotangent of x for the cotangent dy of y."""

    def conv_w(self, x: Array, dy: Array, w_shape: Shape, geometry: Geometry, alpha: float) -> Array:
        """The transpose of conv in w: the cotangent of w for the cotangent dy of y."""

    def conv_bias_act(
        self, w: Array, x: Array, b: Array | None, z: Array | None, activation: str, geometry: Geometry, alpha: float, beta: float
    ) -> Array:
        """activation((alpha * conv(w, x) + beta * z) + b) in one call.

        b broadcasts to y (one value a channel), z has y's shape; activation is "identity", "relu", "sigm", "tanh", "elu" or "selu".
        """

    # -- pooling of x (N, C, *spatial); group and flip of the geometry don't count.  A window that lies wholly in the padding
    # has maximum -inf, which passes no cotangent, and mean 0.
    def max_pool(self, x: Array, geometry: Geometry) -> Array:
        """The maximum of each window, padding left out; a window that holds NaN gives NaN."""

    def max_pool_x(self, dy: Array, x: Array, y: Array, geometry: Geometry) -> Array:
        """The cotangent of x: dy goes to the first maximum of its window in row-major order."""

    def max_pool_at(self, v: Array, x: Array, y: Array, geometry: Geometry) -> Array:
        """v (shaped like x) where each window of x has its first maximum.  The transpose of max_pool_x in dy."""

    def mean_pool(self, x: Array, geometry: Geometry, count_padding: bool) -> Array:
        """The mean of each window, padding counted as zeros or left out of sum and count.  float16 is summed in float32; integers give
        float64."""

    def mean_pool_x(self, dy: Array, x_shape: Shape, geometry: Geometry, count_padding: bool) -> Array:
        """The transpose of mean_pool."""

    # -- recurrent layers: one layer in one direction, over sequences that are packed: the rows of x (rows, width) are those of the
    # first step, then those of the second, ...; sizes says how many each step has, never more than the step before it; the first has
    # all.  cell: "relu" or "tanh" (one gate), "lstm" (in, forget, new, out) or "gru" (reset, update, new).  w is flat: a matrix
    # (hidden, width) for each gate, unless `skip`, which adds x itself to every gate; a matrix (hidden, hidden) for each; a bias for
    # each, added to the input's part; a bias for each, added to the state's part, before the reset of gru's new gate (recurrent_parts).
    # state (1, sequences, hidden), of lstm (2, ...): the output, and the cell's.  reverse goes from each sequence's end to its start.
    def recurrence(
        self, x: Array, w: Array, state: Array, cell: str, sizes: Shape, reverse: bool, skip: bool, keep: bool
    ) -> tuple[Array, Array, Array, Array]:
        """y (rows, hidden), the last state of each sequence, and two arrays that recurrence_grads needs, whose shapes, dtypes and
        contents are the backend's affair (it may use them as scratch): empty unless `keep`."""

    def recurrence_grads(
        self, dy: Array, dfinal: Array, x: Array, w: Array, state: Array, y: Array, gates: Array, inner: Array,
        cell: str, sizes: Shape, reverse: bool, skip: bool, with_x: bool,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """The cotangents of x (any empty array unless `with_x`), w and state for those of y and of the last state."""

    # -- randomness
    def uniform(self, seed: int, shape: Shape, dtype: Any) -> Array:
        """Uniform numbers in [0, 1): a function of seed, shape and dtype alone (Philox 4x64-10, NumPy's stream)."""

    # -- optimisers.  Each writes a parameter's new value into `out`, which may be w itself, and the new state into the arrays behind the
    # gradient g, and gives None.  All arrays have w's shape.  State has w's dtype, but float32 for narrower floats, and so has the
    # arithmetic.  Where a formula says g it means scale * g + decay * w.
    def update_sgd(self, out: Out, w: Array, g: Array, rate: float, scale: float, decay: float) -> None:
        """out = w - rate * g."""

    def update_momentum(self, out: Out, w: Array, g: Array, v: Out, rate: float, gamma: float, scale: float, decay: float) -> None:
        """v = gamma * v - rate * g; out = w + v."""

    def update_nesterov(self, out: Out, w: Array, g: Array, v: Out, rate: float, gamma: float, scale: float, decay: float) -> None:
        """w = w - gamma * v; v = gamma * v - rate * g; out = w + (1 + gamma) * v."""

    def update_adagrad(self, out: Out, w: Array, g: Array, squares: Out, rate: float, eps: float, scale: float, decay: float) -> None:
        """squares = squares + g * g; out = w - rate * g / sqrt(squares + eps)."""

    def update_rmsprop(
        self, out: Out, w: Array, g: Array, squares: Out, rate: float, rho: float, eps: float, scale: float, decay: float
    ) -> None:
        """squares = rho * squares + (1 - rho) * g * g; out = w - rate * g / sqrt(squares + eps)."""

    def update_adadelta(
        self, out: Out, w: Array, g: Array, squares: Out, deltas: Out, rate: float, rho: float, eps: float, scale: float, decay: float
    ) -> None:
        """squares as for rmsprop; d = g * sqrt(deltas + eps) / sqrt(squares + eps); out = w - rate * d; then deltas =
        rho * deltas + (1 - rho) * d * d."""

    def update_adam(
        self, out: Out, w: Array, g: Array, m: Out, v: Out,
        rate: float, beta1: float, beta2: float, eps: float, scale: float, decay: float, shrink: float,
    ) -> None:  # fmt: skip
        """m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g * g; out = (1 - shrink) * w - rate * m / (sqrt(v) + eps).
        What corrects their bias goes into rate and eps."""

    def index_write(self, out: Out, index: Any, v: Array) -> None:
        """Writes v to out[index], as index_set does to a copy."""

    def sum_of_squares(self, x: Array) -> Array:
        """The sum of x * x over all elements of a real x, in float64."""
