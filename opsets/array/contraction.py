"""einsum: sums of products over named axes, and its rule, which is an einsum too.

NumPy's forms of subscripts (spaces, an ellipsis, no output) are first brought to one, all letters written out:
"ij,jk->ik".  The cotangent of an operand then sums the products of dy and the other operands over all letters that the
operand lacks.  An axis that only the operand itself has is repeated; a letter that stands twice in it ("ii") is a
diagonal, which a unit matrix puts in its place.
"""

from __future__ import annotations

import functools
import string
from operator import index

import numpy as np

from autotape import kernels, operator

from .shapes import broadcast_to, reshape, shape_of, sum_to, under_name


def einsum(subscripts, *operands):
    """Sums of products over named axes: einsum("ij,jk->ik", a, b) is a @ b, and so is einsum(a, [0, 1], b, [1, 2], [0, 2]).

    See numpy.einsum.  Raises ValueError for subscripts that don't fit.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = as_text(subscripts, *operands)
    return under_name("einsum", contraction, *operands, subscripts=explicit(subscripts, tuple(len(shape_of(x)) for x in operands)))


def as_text(*parts):
    """The form with lists of axes, (a, [0, 1], b, [1, 2], [0, 2]), as text and operands."""
    operands, lists = parts[: len(parts) // 2 * 2 : 2], [*parts[1::2], *(parts[-1:] if len(parts) % 2 else ())]
    try:
        terms = ["".join("..." if i is Ellipsis else string.ascii_letters[index(i)] for i in axes) for axes in lists]
    except (TypeError, IndexError) as e:
        raise TypeError(f"einsum: it takes text and arrays, or each array and then a list of its axes, numbered from 0 to 51: {e}") from e
    inputs, output = terms[: len(operands)], terms[len(operands) :]
    return ",".join(inputs) + "".join(f"->{term}" for term in output), operands


@operator
def contraction(*xs, subscripts=""):
    """einsum with all letters written out, "ij,jk->ik"."""
    return kernels().einsum(subscripts, xs)


@contraction.backward
def _(dy, xs, xs_shape, subscripts, needs):
    return [cotangent(i, dy, xs, xs_shape[i], subscripts) if wanted else None for i, wanted in enumerate(needs)]


def cotangent(i, dy, xs, shape, subscripts):
    """The cotangent of operand i, which has this shape."""
    inputs, _, output = subscripts.partition("->")
    terms = inputs.split(",")
    term, names, operands = terms[i], [output, *terms[:i], *terms[i + 1 :]], [dy, *xs[:i], *xs[i + 1 :]]
    target = ""
    for letter, n in zip(term, shape, strict=True):
        if letter in target:
            first, letter = letter, unused(subscripts + target)
            names.append(first + letter)
            operands.append(np.eye(n, dtype=dy.dtype))
        target += letter
    known = "".join(c for c in target if any(c in name for name in names))
    d = contraction(*operands, subscripts=f"{','.join(names)}->{known}")
    if known != target:
        lengths = iter(d.shape)
        d = reshape(d, tuple(next(lengths) if c in known else 1 for c in target))
    d = broadcast_to(d, np.broadcast_shapes(d.shape, shape))  # an axis that the others lack, or have with length 1
    return sum_to(d, shape)  # an axis of length 1 that a longer one of the same letter stretched


@functools.lru_cache(maxsize=1024)
def explicit(subscripts: str, ndims: tuple[int, ...]) -> str:
    """The subscripts with all letters written out, for operands of so many axes."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum: {subscripts!r} names {len(terms)} operands, but there are {len(ndims)}")
    hidden = [n - len(term) + 3 if "..." in term else 0 for term, n in zip(terms, ndims, strict=True)]
    dots = unused(subscripts, max(hidden))
    full = [term.replace("...", dots[len(dots) - k :] if k > 0 else "") for term, k in zip(terms, hidden, strict=True)]
    for term, written, n in zip(terms, full, ndims, strict=True):
        if len(written) != n or not all(c in string.ascii_letters for c in written):
            raise ValueError(f"einsum: {term!r} in {subscripts!r} doesn't name the axes of an operand that has {n}")
    letters = "".join(full)
    if not arrow:
        return f"{','.join(full)}->{dots}{''.join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))}"
    if dots and "..." not in output:
        raise ValueError(f"einsum: the output of {subscripts!r} must have an ellipsis, as its operands do")
    output = output.replace("...", dots)
    if len(set(output)) < len(output) or not set(output) <= set(letters):
        raise ValueError(f"einsum: the output of {subscripts!r} must name axes of its operands, each once")
    return f"{','.join(full)}->{output}"


def unused(text: str, n: int = 1) -> str:
    """n letters that are not in a text."""
    free = [c for c in string.ascii_letters if c not in text]
    return "".join(free[:n])
