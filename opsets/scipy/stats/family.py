"""A family of distributions on the line with location and scale, from its standard form.

A subclass says what its shape parameters are called, where its support is, and what density, integrals and entropy are there for z
inside it; for x, (x - loc) / scale is z.  Parameters are what they are in scipy.stats, by position or name, and broadcast.
Where one is not allowed the result is NaN.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from autotape import kernels, operator
from autotape.tensor import asarray

from ...array import astype, exp, full_like, isfinite, isinf, isnan, log, logical_and, logical_not, logical_or, where
from ...array.shapes import as_array, dtype_of


class Family:
    """logpdf pdf cdf sf logcdf logsf of (x, *shapes, loc=0, scale=1), and entropy of (*shapes, loc=0, scale=1)."""

    shapes = ""  # the names of the parameters before loc and scale, all of them > 0
    low, high = -math.inf, math.inf  # the support
    inside = 0.0  # a point of it

    # -- in the standard form, for the subclass to say
    log_density: Any
    below: Any  # how much of the distribution lies below z
    above: Any
    log_below: Any
    log_above: Any
    spread: Any  # the entropy

    def __init__(self) -> None:
        positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, positional) for name in self.shapes.split()]
        numbers = [inspect.Parameter(name, positional, default=default) for name, default in (("loc", 0), ("scale", 1))]
        self._signature = inspect.Signature([*parameters, *numbers])

    def __call__(self, *args, **named):
        name = type(self).__name__.lower()
        raise TypeError(f"{name}: distributions are not frozen here: pass its parameters after x, as in {name}.logpdf(x, ...)")

    def logpdf(self, x, *args, **named):
        """The logarithm of the density; -inf outside the support."""
        z, scale, shapes = self._standard(x, args, named)
        return self._within(z, shapes, lambda z: self.log_density(z, *shapes) - log(scale), -math.inf, -math.inf)

    def pdf(self, x, *args, **named):
        """The density."""
        z, scale, shapes = self._standard(x, args, named)
        return self._within(z, shapes, lambda z: self.density(z, *shapes) / scale, 0, 0)

    def density(self, z, *shapes):
        """exp(log_density); for the subclass to say better where a power of 0 is in it."""
        return exp(self.log_density(z, *shapes))

    def cdf(self, x, *args, **named):
        """How much of the distribution lies below x."""
        z, _, shapes = self._standard(x, args, named)
        return self._within(z, shapes, lambda z: self.below(z, *shapes), 0, 1)

    def sf(self, x, *args, **named):
        """How much of the distribution lies above x."""
        z, _, shapes = self._standard(x, args, named)
        return self._within(z, shapes, lambda z: self.above(z, *shapes), 1, 0)

    def logcdf(self, x, *args, **named):
        """log(cdf), also where cdf underflows."""
        z, _, shapes = self._standard(x, args, named)
        return self._within(z, shapes, lambda z: self.log_below(z, *shapes), -math.inf, 0)

    def logsf(self, x, *args, **named):
        """log(sf), also where sf underflows."""
        z, _, shapes = self._standard(x, args, named)
        return self._within(z, shapes, lambda z: self.log_above(z, *shapes), 0, -math.inf)

    def entropy(self, *args, **named):
        """Minus the mean of logpdf; loc has no part in it but its shape, and its NaN."""
        *shapes, loc, scale = self._parameters(args, named)
        loc, scale, *shapes = floats(loc, allowed(scale), *map(allowed, shapes))
        return self.spread(*shapes) + log(scale) + where(isnan(loc), loc, 0)

    def _parameters(self, args, named):
        bound = self._signature.bind(*args, **named)
        bound.apply_defaults()
        return bound.args

    def _standard(self, x, args, named):
        """z, scale and the shapes, NaN where they are not allowed."""
        *shapes, loc, scale = self._parameters(args, named)
        x, loc, scale, *shapes = floats(x, loc, allowed(scale), *map(allowed, shapes))
        return standardised(x, loc, scale), scale, shapes

    def _within(self, z, shapes, f, before, after):
        """f(z) inside the support, else `before` or `after` it, where infinities are too; NaN where z or a shape is."""
        outside = self._outside(z)
        if not asarray(outside).numpy().any():
            return f(z)
        y = f(where(outside, self.inside, z))
        limit = before if before == after else where(z < self.inside, full_like(z, before), after)
        for shape in shapes:
            limit = where(isnan(shape), full_like(shape, math.nan), limit)
        return where(outside, limit, y)

    def _outside(self, z):
        if self.low == -math.inf:
            return isinf(z)
        return logical_or(z < self.low, z == math.inf if self.high == math.inf else z > self.high)


@operator(elementwise=True)
def standardised(x, loc, scale):
    """(x - loc) / scale.  In scale its derivative is 0 where it is infinite, and where it is 0, by infinite cotangents too."""
    k = kernels()
    return k.divide(k.subtract(x, loc), scale)


@standardised.backward("x")
def _(dy, scale): return dy / scale
@standardised.backward("loc")
def _(dy, scale): return -dy / scale
@standardised.backward("scale")
def _(dy, scale, y):
    at_edge = logical_and(y == 0, logical_not(isfinite(dy)))
    return -where(at_edge, 0, dy) * where(isinf(y), 0, y) / scale


def allowed(parameter):
    """A parameter, NaN where it is not above 0."""
    if type(parameter) in (int, float):
        return parameter if parameter > 0 else math.nan
    parameter = as_array(parameter)
    return where(parameter > 0, parameter, math.nan)


def floats(*xs):
    """The xs in one dtype, that of floats; Python numbers take that of the others."""
    dtype = np.result_type(*(dtype_of(x) for x in xs if type(x) not in (bool, int, float)), 0.0)
    return [astype(x, dtype) for x in xs]
