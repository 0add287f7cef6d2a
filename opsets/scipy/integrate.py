"""scipy.integrate's function of Tensors, as autotape.opsets.scipy.integrate: odeint, by the adjoint equation."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import integrate

from autotape import tree
from autotape.folding import custom_gradient
from autotape.tensor import Tensor, is_tracked
from autotape.transforms import stop_gradient, vjp
from autotape.vector import flatten

from ..array.shapes import as_array, atleast_1d, reshape

__all__ = ["odeint"]

OPTIONS = ("rtol", "atol", "h0", "hmax", "hmin", "ixpr", "mxstep", "mxhnil", "mxordn", "mxords", "printmessg")


def odeint(func, y0, t, args=(), tfirst=False, **options):
    """The states (times, n) at the times t (times,) of dy/dt = func(y, t, *args), from y0 (n,) at t[0].

    func gives an array, or a list of numbers; tfirst makes it func(t, y, *args).  Whatever is differentiated in it must come by args, a
    tuple of arrays or trees of them, else TypeError.  options are SciPy's rtol, atol, h0, hmax, hmin, ixpr, mxstep, mxhnil, mxordn,
    mxords and printmessg; others, which are about func's Jacobian or give more than the states, raise TypeError, and so do complex states.
    The derivatives in y0, t and args come from integrating the adjoint equation back in time, to within rtol and atol (Chen et al. 2018),
    from the states at t and at as many times between as it takes for states integrated back to stay the right ones.  Raises
    ArithmeticError if thousands are not enough, as for a very stiff func.
    """
    if unknown := [name for name in options if name not in OPTIONS]:
        raise TypeError(f"odeint takes SciPy's {', '.join(OPTIONS)} here, not {', '.join(unknown)}; scipy.integrate.odeint itself does")
    y0 = atleast_1d(as_array(y0))
    if y0.dtype.kind == "c":
        raise TypeError(f"odeint: y0 must be real, not {y0.dtype}: integrate np.concatenate([y.real, y.imag])")

    def rate(y, time, *args):
        dydt = func(time, y, *args) if tfirst else func(y, time, *args)
        return reshape(np.stack(dydt) if isinstance(dydt, (list, tuple)) else dydt, y.shape)

    options = {name: value for name, value in options.items() if value is not None}
    return trajectory(rate, y0, as_array(t), args, **options)


@custom_gradient
def trajectory(func, y0, t, args, **options):
    """odeint, whose rule runs it again: second derivatives go through what the rule computes."""
    y0_, t_, args_ = tree.map(value, (y0, t, args))
    return solution(func, y0_, t_, args_, options), (func, y0, t, args, options)


def solution(func, y0, t, args, options):
    """odeint of plain arguments."""
    return integrate.odeint(lambda y, time, *args: plain(func(y, time, *args)), y0, t, args, **options)


def plain(dydt):
    """What func gives for plain arguments."""
    if is_tracked(dydt):
        raise TypeError("odeint: func uses a Tensor or Param that is differentiated and is not among args")
    return value(dydt)


def value(x):
    return stop_gradient(x).numpy() if isinstance(x, Tensor) else x


@trajectory.backward
def _(dy, residuals):
    func, y0, t, args, options = residuals
    options = {name: value for name, value in options.items() if name != "h0"}  # which is about the first step from y0
    (n,), (parameters, whole) = y0.shape, flatten(args)

    def rates(state, time, parameters):
        """Of y, and against time of the cotangents of y, time and parameters."""
        dydt, pull = vjp(lambda y, time, p: func(y, time, *whole(p)), state[:n], time, parameters)
        return np.concatenate([dydt, *(np.reshape(g, (-1,)) for g in pull(-state[n : 2 * n]))])

    finest = {name: np.min(value) if name in ("rtol", "atol") else value for name, value in options.items()}  # they may be one a state
    stops, given = with_checkpoints(func, y0, t, args, options)
    y, dt, cotangents = odeint(func, y0, np.stack(stops), args, **options), [], np.zeros(n + 1 + parameters.size)
    for j in range(len(stops) - 1, 0, -1):
        if j in given:
            i = given[j]
            dt.append(np.sum(func(y[j], t[i], *args) * dy[i]))
            cotangents = cotangents + np.concatenate([dy[i], -dt[-1][None], np.zeros(parameters.size)])
        back = odeint(rates, np.concatenate([y[j], cotangents]), np.stack([stops[j], stops[j - 1]]), (parameters,), **finest)
        cotangents = back[1, n:]
    dt.append(cotangents[n])
    return None, cotangents[:n] + dy[0], np.stack(dt[::-1]), whole(cotangents[n + 1 :])


# ---------------------------------------------------------------- checkpoints

HALVINGS = 12  # at most so often is the time between two outputs halved
SLACK = 100  # how many tolerances a state integrated forth and back may be off


def with_checkpoints(func, y0, t, args, options):
    """The times t with those of the checkpoints between them, and which of t each place there has."""
    start, times, args = tree.map(value, (y0, t, args))
    stops, given = [t[0]], {0: 0}

    def solve(y, *times):
        return solution(func, y, np.array(times), args, options)

    def allowed(y):
        return SLACK * (options.get("atol", 1.5e-8) + options.get("rtol", 1.5e-8) * np.abs(y))

    for i in range(1, len(times)):
        stops += [*between(solve, allowed, start, times[i - 1], times[i]), t[i]]
        given[len(stops) - 1] = i
        start = solve(start, times[i - 1], times[i])[1]
    return stops, given


def between(solve, allowed, start, begin, end, halvings=0):
    """The times between these two from which the states, integrated back, come out as they went forth."""
    middle = (begin + end) / 2
    _, halfway, last = solve(start, begin, middle, end)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", integrate.ODEintWarning)
        back = solve(last, end, begin)[1]
    if np.all(np.abs(back - start) <= allowed(start)) or not np.all(np.isfinite(last)):  # where NaN is right, nothing is to be saved
        return []
    if halvings == HALVINGS:
        raise ArithmeticError(f"odeint: func is too stiff for a derivative: states integrated back from t={end} miss those they came from")
    first, second = (start, begin, middle), (halfway, middle, end)
    return [*between(solve, allowed, *first, halvings + 1), middle, *between(solve, allowed, *second, halvings + 1)]
