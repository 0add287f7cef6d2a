"""Convolution: three operators, each the others' derivative, and deconv4, one of them with its shape worked out."""

from __future__ import annotations

from autotape import kernels, operator

from ..array.shapes import shape_of
from ..geometry import convolution, deconvolution, expect, real_number


@operator
def conv4(w, x, padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    """alpha * (x convolved with w), in one to three dimensions.  Knet's conv4.

    w (K, C/group, *window) and x (N, C, *spatial) give y (N, K, *output), where an axis of n with window k gives
    1 + floor((n + padding before and after - ((k - 1) * dilation + 1)) / stride).
    padding is a number, one for each spatial axis, or a (before, after) pair for each; stride and dilation are a number or one
    for each.  mode 0 is the true convolution, with the window reversed; mode 1 is cross-correlation.  group splits the channels
    of x and y into as many independent convolutions.  Raises ValueError for shapes and options that don't fit,
    TypeError for an alpha that is no number.
    """
    geometry, _ = convolution("conv4", w.shape, x.shape, padding, stride, dilation, mode, group)
    return kernels().conv(w, x, geometry, real_number("conv4", "alpha", alpha))


@conv4.shape
def _(w_shape, x_shape, padding, stride, dilation, mode, alpha, group):
    real_number("conv4", "alpha", alpha)
    return convolution("conv4", w_shape, x_shape, padding, stride, dilation, mode, group)[1]


@conv4.backward("w")
def _(dy, x, w_shape, padding, stride, dilation, mode, alpha, group):
    return conv4_w(x, dy, w_shape, padding, stride, dilation, mode, alpha, group)


@conv4.backward("x")
def _(dy, w, x_shape, padding, stride, dilation, mode, alpha, group):
    return conv4_x(w, dy, x_shape, padding, stride, dilation, mode, alpha, group)


@operator
def conv4_x(w, v, x_shape=(), padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    """The transpose of conv4 in x: the cotangent of x (x_shape) for a cotangent v of y.  Options are those of conv4."""
    geometry, y_shape = convolution("conv4_x", w.shape, x_shape, padding, stride, dilation, mode, group)
    expect("conv4_x", "v", v.shape, y_shape)
    return kernels().conv_x(w, v, tuple(x_shape), geometry, real_number("conv4_x", "alpha", alpha))


@conv4_x.backward("w")
def _(dy, v, w_shape, padding, stride, dilation, mode, alpha, group):
    return conv4_w(dy, v, w_shape, padding, stride, dilation, mode, alpha, group)


@conv4_x.backward("v")
def _(dy, w, padding, stride, dilation, mode, alpha, group): return conv4(w, dy, padding, stride, dilation, mode, alpha, group)


@operator
def conv4_w(x, v, w_shape=(), padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    """The transpose of conv4 in w: the cotangent of w (w_shape) for a cotangent v of y.  Options are those of conv4."""
    geometry, y_shape = convolution("conv4_w", w_shape, x.shape, padding, stride, dilation, mode, group)
    expect("conv4_w", "v", v.shape, y_shape)
    return kernels().conv_w(x, v, tuple(w_shape), geometry, real_number("conv4_w", "alpha", alpha))


@conv4_w.backward("x")
def _(dy, v, x_shape, padding, stride, dilation, mode, alpha, group):
    return conv4_x(dy, v, x_shape, padding, stride, dilation, mode, alpha, group)


@conv4_w.backward("v")
def _(dy, x, padding, stride, dilation, mode, alpha, group): return conv4(dy, x, padding, stride, dilation, mode, alpha, group)


def deconv4(w, x, padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1):
    """The transpose of conv4: alpha * (each value of x spread over a window by w), in one to three dimensions.  Knet's deconv4.

    w (K, C/group, *window) and x (N, K, *spatial) give y (N, C, *output), where an axis of n with window k gives
    (n - 1) * stride + (k - 1) * dilation + 1 - padding before and after: the shape of an image from which conv4 with these options
    and this w makes the shape of x.  The options are those of conv4.  Raises ValueError for shapes and options that don't fit,
    TypeError for an alpha that is no number.
    """
    alpha = real_number("deconv4", "alpha", alpha)
    _, shape = deconvolution("deconv4", shape_of(w), shape_of(x), padding, stride, dilation, mode, group)
    return conv4_x(w, x, shape, padding, stride, dilation, mode, alpha, group)
