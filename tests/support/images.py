"""Arrays on the device in every layout, whose sums are exact, for tests that compare kernels on images with NumPy's."""

import numpy as np

LAYOUTS = ["plain", "channels last", "reversed", "strided", "broadcast"]


def on_device(k, x, layout="plain"):
    """x on the device, with the strides of the layout; of "broadcast", all of its first axis is the first one."""
    from autotape.backends.pycuda_backend.array import view

    if layout == "channels last":
        return k.transpose(k.adopt(np.moveaxis(x, 1, -1).copy()), (0, x.ndim - 1, *range(1, x.ndim - 1)))
    if layout == "broadcast" and len(x):
        return k.broadcast_to(k.adopt(x[:1].copy()), x.shape)
    if layout == "strided":
        wide = k.adopt(np.repeat(x, 2, -1))
        return view(wide, x.shape, (*wide.strides[:-1], 2 * x.itemsize))
    if layout == "reversed":
        back = k.adopt(x[(slice(None, None, -1),) * x.ndim].copy())
        return view(back, x.shape, tuple(-s for s in back.strides), max(x.size - 1, 0) * x.itemsize)
    return k.adopt(x)


def integers(rng, shape, dtype, layout="plain"):
    """Small whole numbers, so that sums are exact and there are ties."""
    x = rng.integers(-3, 4, shape).astype(dtype)
    return np.broadcast_to(x[:1], shape).copy() if layout == "broadcast" and len(x) else x


def same(actual, expected):
    """The same shape, dtype and values."""
    actual = np.asarray(actual)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(actual.astype(float), expected.astype(float))
