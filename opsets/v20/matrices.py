"""What brings arrays to dense layers and multiplies them: mat and bmm."""

from __future__ import annotations

import math

from ..array import matmul, reshape, swapaxes
from ..array.shapes import shape_of
from ..geometry import whole_number


def mat(x, dims=None):
    """x as a matrix (instances, rest), for a dense layer: (N, C, H, W) becomes (N, C*H*W).  Knet's mat.

    `dims` is how many trailing axes become the second one; the default is all but the first.  Raises ValueError if x has fewer axes.
    """
    shape = shape_of(x)
    dims = max(len(shape) - 1, 0) if dims is None else whole_number("mat", "dims", dims)
    if not 0 <= dims <= len(shape):
        raise ValueError(f"mat: dims must be from 0 to the {len(shape)} axes of x {shape}, got {dims!r}")
    cut = len(shape) - dims
    return reshape(x, (math.prod(shape[:cut]), math.prod(shape[cut:])))


def bmm(a, b, transA=False, transB=False):
    """The matrix product of each pair in two batches: a (..., n, k) and b (..., k, m) give (..., n, m).  Knet's bmm.

    transA and transB transpose each matrix of a and b first.  Raises ValueError unless a and b have the same batch axes, one
    at least, and the same k.
    """
    sa, sb = shape_of(a), shape_of(b)
    fits = len(sa) == len(sb) >= 3 and sa[:-2] == sb[:-2]
    if not fits or sa[-2 if transA else -1] != sb[-1 if transB else -2]:
        expected = f"a {'(..., k, n)' if transA else '(..., n, k)'} and b {'(..., m, k)' if transB else '(..., k, m)'}"
        given = f"bmm: a {sa} and b {sb} don't fit with transA={transA} and transB={transB}"
        raise ValueError(f"{given}: they must be {expected} with the same batch axes")
    return matmul(swapaxes(a, -1, -2) if transA else a, swapaxes(b, -1, -2) if transB else b)
