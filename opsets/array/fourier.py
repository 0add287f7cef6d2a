"""Discrete Fourier transforms: fft rfft hfft and their inverses, of one, two or more axes; shifts.

fft gives y[k], the sum of x[j] * exp(-2 pi i j k / n); ifft has the opposite sign and 1 / n.  Of real x, rfft gives the first
n // 2 + 1 elements alone, since the others are their conjugates in reverse order; irfft takes these, and hfft and ihfft are the same with
the roles of x and y exchanged.  What they share:

- `n`, or `s` for several axes, is the length to which an axis is cropped, or filled up with zeros, first; -1 in `s` leaves it.
- `norm`: "backward", which is None, divides inverses by n; "forward" the others; "ortho" divides both by sqrt(n).
- float32 gives complex64, float64 and integers complex128, and the other way round.

A bad `norm`, an axis of no elements, and an `s` that isn't as long as `axes` raise ValueError.

Three operators, each along one axis: `transform`, and for real x `half_transform` and `half_inverse`.  The others are compositions.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from autotape import kernels, operator
from autotape.numpy_protocol import numpy_function

from .arithmetic import multiply
from .complex_numbers import conj
from .creation import astype
from .indexing import getitem
from .joining import along, pad_with, roll
from .shapes import as_array, shape_of, under_name

OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}  # the norm by which the other direction has this factor

# ---------------------------------------------------------------- operators


@operator
def transform(x, axis=-1, n=1, inverse=False, norm="backward"):
    """fft or ifft of complex x."""
    return kernels().fft(x, axis, n, inverse, norm)


@transform.backward
def _(dy, x_shape, axis, n, inverse, norm):
    return fitted(transform(dy, axis, n, inverse, norm), axis, x_shape)  # its matrix is symmetric


@operator
def half_transform(x, axis=-1, n=1, norm="backward"):
    """rfft of real x."""
    return kernels().rfft(x, axis, n, norm)


@half_transform.backward
def _(dy, x_shape, axis, n, norm):
    return fitted(half_inverse(conj(weighted(dy, axis, n, 0.5)), axis, n, OPPOSITE[norm]), axis, x_shape)


@operator
def half_inverse(x, axis=-1, n=1, norm="backward"):
    """irfft of complex x."""
    return kernels().irfft(x, axis, n, norm)


@half_inverse.backward
def _(dy, x_shape, axis, n, norm):
    return fitted(weighted(conj(half_transform(dy, axis, n, OPPOSITE[norm])), axis, n, 2), axis, x_shape)


def weighted(y, axis: int, n: int, weight: float):
    """y, half of n elements, times a weight where it stands for two of them: not in the first, nor for even n in the last."""
    weights = np.full(n // 2 + 1, weight, np.finfo(y.dtype).dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return multiply(y, weights.reshape(-1, *(1,) * (-1 - axis)))


def fitted(dx, axis: int, shape):
    """dx, cropped or filled up with zeros along the axis to the length that it has in `shape`: the transpose of a transform's doing so."""
    n, m = dx.shape[axis], shape[axis]
    if n > m:
        return getitem(dx, along(axis, len(shape), slice(m)))
    return pad_with(dx, tuple((0, m - n) if i == axis % len(shape) else (0, 0) for i in range(len(shape)))) if n < m else dx


# ---------------------------------------------------------------- along one axis


@numpy_function(np.fft.fft)
def fft(a, n=None, axis=-1, norm=None):
    """The Fourier transform of a along an axis."""
    return of_complex("fft", a, n, axis, norm, inverse=False)


@numpy_function(np.fft.ifft)
def ifft(a, n=None, axis=-1, norm=None):
    """The inverse of fft."""
    return of_complex("ifft", a, n, axis, norm, inverse=True)


def of_complex(name: str, a, n, axis, norm, inverse: bool):
    a, axis = as_complex(a), from_end(a, axis)
    return transform(a, axis, length(name, a.shape[axis] if n is None else n), inverse, checked(name, norm))


@numpy_function(np.fft.rfft)
def rfft(a, n=None, axis=-1, norm=None):
    """The first n // 2 + 1 elements of the Fourier transform of real a along an axis.  Complex a raises TypeError."""
    a, axis = as_array(a), from_end(a, axis)
    if a.dtype.kind == "c":
        raise TypeError(f"rfft: a must be real, not {a.dtype}; fft takes complex numbers")
    a = astype(a, np.finfo(complex_dtype(a)).dtype)
    return half_transform(a, axis, length("rfft", a.shape[axis] if n is None else n), checked("rfft", norm))


@numpy_function(np.fft.irfft)
def irfft(a, n=None, axis=-1, norm=None):
    """The inverse of rfft: n real elements, by default 2 * (m - 1) for an axis of m.

    The imaginary part of the first element, and for even n of the last one, counts for nothing.
    """
    a, axis = as_array(a), from_end(a, axis)
    n = length("irfft", 2 * (a.shape[axis] - 1) if n is None else n)
    y = half_inverse(as_complex(a), axis, n, checked("irfft", norm))
    return astype(y, a.dtype) if a.dtype == np.float16 else y  # as NumPy has it, though its spectra are complex64


@numpy_function(np.fft.hfft)
def hfft(a, n=None, axis=-1, norm=None):
    """The Fourier transform, n real elements, of a whose other half is its conjugate in reverse order; n is by default that of irfft."""
    return under_name("hfft", irfft, conj(a), n, axis, OPPOSITE[checked("hfft", norm)])


@numpy_function(np.fft.ihfft)
def ihfft(a, n=None, axis=-1, norm=None):
    """The inverse of hfft: the first n // 2 + 1 elements.  Complex a raises TypeError."""
    return conj(under_name("ihfft", rfft, a, n, axis, OPPOSITE[checked("ihfft", norm)]))


def as_complex(a):
    a = as_array(a)
    return a if a.dtype.kind == "c" else astype(a, complex_dtype(a))


def complex_dtype(a) -> np.dtype:
    return np.result_type(a.dtype, 1j)


def from_end(a, axis: int) -> int:
    """The axis, counted from the end."""
    n = len(shape_of(a))
    return normalize_axis_index(axis, n) - n


def length(name: str, n) -> int:
    if index(n) < 1:
        raise ValueError(f"{name}: the axis must have one element or more, not {n}")
    return index(n)


def checked(name: str, norm) -> str:
    if norm is not None and norm not in tuple(OPPOSITE):
        raise ValueError(f"{name}: norm must be 'backward', 'ortho' or 'forward', not {norm!r}")
    return norm or "backward"


# ---------------------------------------------------------------- along several axes


@numpy_function(np.fft.fftn)
def fftn(a, s=None, axes=None, norm=None):
    """fft along the axes, from the last to the first; by default along all, or the last len(s)."""
    return in_turn("fftn", fft, a, reversed(lengths("fftn", a, s, axes)), norm)


@numpy_function(np.fft.ifftn)
def ifftn(a, s=None, axes=None, norm=None):
    """The inverse of fftn."""
    return in_turn("ifftn", ifft, a, reversed(lengths("ifftn", a, s, axes)), norm)


@numpy_function(np.fft.rfftn)
def rfftn(a, s=None, axes=None, norm=None):
    """rfft along the last of the axes, then fft along the others.  Complex a raises TypeError."""
    *others, last = some("rfftn", lengths("rfftn", a, s, axes))
    return in_turn("rfftn", fft, in_turn("rfftn", rfft, a, [last], norm), reversed(others), norm)


@numpy_function(np.fft.irfftn)
def irfftn(a, s=None, axes=None, norm=None):
    """The inverse of rfftn: ifft along all axes but the last, then irfft."""
    *others, (n, axis) = some("irfftn", lengths("irfftn", a, s, axes))
    return in_turn("irfftn", irfft, in_turn("irfftn", ifft, a, others, norm), [(None if s is None else n, axis)], norm)


@numpy_function(np.fft.fft2)
def fft2(a, s=None, axes=(-2, -1), norm=None):
    """fftn along two axes."""
    return under_name("fft2", fftn, a, s, axes, norm)


@numpy_function(np.fft.ifft2)
def ifft2(a, s=None, axes=(-2, -1), norm=None):
    """ifftn along two axes."""
    return under_name("ifft2", ifftn, a, s, axes, norm)


@numpy_function(np.fft.rfft2)
def rfft2(a, s=None, axes=(-2, -1), norm=None):
    """rfftn along two axes."""
    return under_name("rfft2", rfftn, a, s, axes, norm)


@numpy_function(np.fft.irfft2)
def irfft2(a, s=None, axes=(-2, -1), norm=None):
    """irfftn along two axes."""
    return under_name("irfft2", irfftn, a, s, axes, norm)


def lengths(name: str, a, s, axes) -> list[tuple[Any, int]]:
    """Each axis with the length that it is to have, by default its own; None is the default of the transform along it."""
    shape = shape_of(a)
    axes = [from_end(a, axis) for axis in (range(-len(shape if s is None else s), 0) if axes is None else axes)]
    s = [-1] * len(axes) if s is None else s
    if len(s) != len(axes):
        raise ValueError(f"{name}: s {s} must be as long as axes, of which there are {len(axes)}")
    return [(shape[axis] if n == -1 else n, axis) for n, axis in zip(s, axes, strict=True)]


def some(name: str, pairs):
    if not pairs:
        raise ValueError(f"{name}: there must be an axis or more")
    return pairs


def in_turn(name: str, f, a, pairs, norm):
    """f along one axis after another, for the public function of that name."""
    for n, axis in pairs:
        a = under_name(name, f, a, n, axis, norm)
    return a


# ---------------------------------------------------------------- shifts


@numpy_function(np.fft.fftshift)
def fftshift(x, axes=None):
    """x with its first element, of frequency 0, moved to the middle, n // 2, along `axes`: an int, a sequence, None for all."""
    return shifted(x, axes, 1)


@numpy_function(np.fft.ifftshift)
def ifftshift(x, axes=None):
    """The inverse of fftshift."""
    return shifted(x, axes, -1)


def shifted(x, axes, sign: int):
    shape = shape_of(x)
    axes = tuple(range(len(shape)) if axes is None else axes if np.iterable(axes) else (axes,))
    return roll(x, [sign * (shape[axis] // 2) for axis in axes], axes)
