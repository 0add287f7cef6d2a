"""The registry of backends, arrays that belong elsewhere, and the kernel contract as the numpy backend keeps it.

A number in a test's name is the rule of the fine print that it holds the engine to: arrays not scalars (6), arrays of
another backend (17, 34), kernels as instance attributes (33).
"""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import autotape as at
from autotape import backend, kernels
from autotape.backends.kernels import Kernels
from autotape.backends.numpy_backend import NumpyKernels
from autotape.errors import BackendError, OperatorError
from autotape.opsets import array as ops
from autotape.opsets import v20
from autotape.testing import StrictArray, StrictKernels
from autotape.testing.backend_suite import kernel_calls
from autotape.testing.strict import CONTRACT

close = np.testing.assert_allclose
X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]])
K = backend.load("numpy")


class Mine(NumpyKernels):
    """A backend that extends the numpy one: its tanh counts its calls."""

    name = "mine"
    calls = 0

    def tanh(self, x):
        type(self).calls += 1
        return np.asarray(np.tanh(x))


class Broken(NumpyKernels):
    name = "broken"

    @staticmethod
    def unavailable():
        return "it needs a Connection Machine: pip install cm5"


class BrokenImport:
    def __init__(self):
        raise AssertionError("never made")

    @staticmethod
    def unavailable():
        raise OSError("libcm5.so: cannot open shared object file")


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """A registry of one's own, and the default as it was."""
    monkeypatch.setattr(backend, "_sources", dict(backend._sources))
    monkeypatch.setattr(backend, "_loaded", dict(backend._loaded))
    monkeypatch.setattr(backend, "_default", backend._default)
    monkeypatch.setattr(Mine, "calls", 0)


@pytest.fixture
def entry_points(monkeypatch):
    """Entry points of the group autotape.backends, as an installed package would declare them."""

    def declare(**values):
        points = [importlib.metadata.EntryPoint(name, value, "autotape.backends") for name, value in values.items()]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == "autotape.backends" else [])

    return declare


# ---------------------------------------------------------------- names


@pytest.mark.numpy_only("--backend sets another default")
def test_numpy_is_there_and_the_default():
    assert backend.get() == "numpy" and "numpy" in backend.names() and backend.available()["numpy"] is None
    assert at.kernels() is kernels() is K and type(K) is NumpyKernels


def test_a_class_is_registered_and_used():
    backend.register("mine", Mine)
    assert "mine" in backend.names() and backend.available()["mine"] is None
    with backend.use("mine") as k:
        assert type(k) is Mine and backend.get() == "mine"
        close(at.grad(lambda x: np.tanh(x).sum())(X), 1 - np.tanh(X) ** 2)
        assert Mine.calls == 1
    backend.set("mine")
    assert backend.get() == "mine" and backend.load("mine") is kernels() is k
    backend.set("numpy")
    assert backend.get() == "numpy"


def test_a_source_by_name_is_imported_at_first_use(tmp_path, monkeypatch):
    (tmp_path / "lazy_backend_of_a_test.py").write_text(
        "from autotape.backends.numpy_backend import NumpyKernels\nclass Lazy(NumpyKernels):\n    name = 'lazy'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    backend.register("lazy", "lazy_backend_of_a_test:Lazy")
    assert "lazy" in backend.names() and "lazy_backend_of_a_test" not in sys.modules
    with backend.use("lazy"):
        assert backend.get() == "lazy" and "lazy_backend_of_a_test" in sys.modules


def test_an_entry_point_is_found(entry_points):
    entry_points(theirs=f"{__name__}:Mine", other="no_such_module_of_a_test:Other")
    sys.modules.setdefault(__name__, sys.modules[Mine.__module__])
    assert {"theirs", "other"} <= set(backend.names())
    with backend.use("theirs") as k:
        assert type(k).__name__ == "Mine"
    reason = backend.available()["other"]
    assert "no_such_module_of_a_test" in reason and "installed" in reason
    with pytest.raises(BackendError, match=r"'other' can't be used here: .*no_such_module_of_a_test"):
        backend.use("other")


def test_a_registered_name_goes_before_an_entry_point(entry_points):
    entry_points(numpy="no_such_module_of_a_test:Other")
    assert backend.load("numpy") is K and backend.names().count("numpy") == 1


def test_auto_takes_the_first_that_works(monkeypatch):
    backend.register("broken", Broken)
    backend.register("mine", Mine)
    monkeypatch.setattr(backend, "FASTEST_FIRST", ("broken", "mine", "numpy"))
    with backend.use("auto"):
        assert backend.get() == "mine"
    backend.set("auto")
    assert backend.get() == "mine"
    assert "auto" not in backend.names()


@pytest.mark.parametrize("act", [backend.set, backend.use, backend.load])
def test_unknown_and_unavailable_backends_say_so(act):
    before = backend.get()
    backend.register("broken", Broken)
    with pytest.raises(BackendError, match=r"backend 'nunpy' is unknown: known are 'numpy'.*'broken'.*and 'auto'"):
        act("nunpy")
    for _ in range(2):
        with pytest.raises(BackendError, match=r"backend 'broken' can't be used here: it needs a Connection Machine: pip install cm5"):
            act("broken")
    assert backend.get() == before and issubclass(BackendError, OperatorError)


def test_available_lists_every_backend_with_its_reason():
    backend.register("broken", Broken)
    backend.register("mine", Mine)
    backend.register("gone", "no_such_module_of_a_test:Kernels")
    backend.register("empty", "autotape.errors:NoSuchClass")
    found = backend.available()
    assert found["numpy"] is None and found["mine"] is None and "Connection Machine" in found["broken"]
    assert "no_such_module_of_a_test" in found["gone"] and "NoSuchClass" in found["empty"]
    assert list(found) == backend.names()


def test_a_backend_whose_library_fails_to_load_is_unavailable_not_fatal():
    backend.register("crashes", BrokenImport)
    assert "libcm5.so" in backend.available()["crashes"]
    with pytest.raises(BackendError, match=r"'crashes' can't be used here: .*libcm5\.so"):
        backend.use("crashes")


@pytest.mark.parametrize(
    ("name", "source", "kind"),
    [
        ("", Mine, ValueError),
        ("auto", Mine, ValueError),
        ("numpy", Mine, ValueError),
        ("a", 3, TypeError),
        ("a", "module", TypeError),
        ("a", None, TypeError),
        ("a", Mine(), TypeError),
    ],
)
def test_register_refuses(name, source, kind):
    before = backend.names()
    with pytest.raises(kind, match="backend"):
        backend.register(name, source)
    assert backend.names() == before


def test_registering_the_same_again_is_fine():
    backend.register("mine", Mine)
    backend.register("mine", Mine)
    with pytest.raises(ValueError, match="'mine' is registered already"):
        backend.register("mine", Broken)


def test_one_table_a_backend_even_when_threads_load_it_at_once():
    made, barrier = [], threading.Barrier(8, timeout=30)

    class Slow(Mine):
        def __init__(self):
            made.append(self)
            super().__init__()

    backend.register("slow", Slow)
    found = []
    threads = [threading.Thread(target=lambda: (barrier.wait(), found.append(backend.load("slow")))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 1 and found == [made[0]] * 8


def test_importing_autotape_asks_for_no_entry_points_and_imports_no_other_backend():
    code = (
        "import sys, importlib.metadata as m; m.entry_points = lambda **k: 1 / 0;"
        "import autotape as at; at.backend.set('numpy');"
        "assert not [n for n in sys.modules if 'onednn' in n or 'cuda' in n or 'cudnn' in n or n == 'torch']"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(at.__file__).parents[1])


def test_an_installed_onednn_can_be_used():
    """Else the tests of that backend would all be skipped, and nobody would know."""
    try:
        importlib.metadata.version("onednn-cpu-iomp")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("onednn-cpu-iomp is not installed")
    if "AUTOTAPE_DNNL" in os.environ:
        pytest.skip("AUTOTAPE_DNNL names another library")
    assert backend.available()["onednn"] is None


# ---------------------------------------------------------------- arrays that belong elsewhere


class Foreign:
    """An array that no backend knows."""

    shape, dtype, ndim, size = (2, 3), np.dtype(float), 2, 6
    __array_ufunc__ = None


CALLS = {
    "unary": lambda a, b: ops.tanh(a),
    "binary": lambda a, b: ops.add(a, b),
    "operator": lambda a, b: b * a,
    "reflected": lambda a, b: a * b,
    "matmul": lambda a, b: ops.matmul(b, a),
    "reduction": lambda a, b: ops.sum(a, 0),
    "variadic": lambda a, b: ops.concatenate([b, a]),
    "softmax": lambda a, b: v20.softmax(a, 0),
    "where": lambda a, b: ops.where(b, a, 0.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_17_an_array_of_another_backend_raises_naming_both(name):
    with backend.use("strict"):
        strict = at.array(X)
        raw = strict._array
    call, here = CALLS[name], at.array(X)
    ours, kind = backend.get(), kernels().array.__name__
    for theirs in (strict, raw) if name not in ("operator", "reflected") else (strict,):
        with pytest.raises(
            BackendError, match=rf"'{ours}' works on {kind}, but met .*StrictArray\(2, 3\) float64.*\.to\('{ours}'\)"
        ):
            call(theirs, here)
    with (
        backend.use("strict"),
        pytest.raises(BackendError, match=rf"'strict' works on StrictArray, but met .*{kind}\(2, 3\) float64.*\.to\('strict'\)"),
    ):
        call(here, strict)
    if name not in ("operator", "reflected"):
        with pytest.raises(BackendError, match="Foreign"):
            call(Foreign(), here)


def test_34_a_device_arrays_own_operators_leave_tensors_to_the_tensor():
    with backend.use("strict") as k:
        raw, t = k.adopt(X), at.array(X)
        for y in (raw + t, t + raw, raw * t, raw - t, raw / t, raw @ ops.transpose(t), raw > t, raw == t):
            assert type(y) is at.Tensor and type(y._array) is StrictArray
        close((raw - t * 2).numpy(), -X)
        close(k.to_numpy(at.grad(lambda t: (raw * t).sum())(raw)), X)
    with pytest.raises(TypeError):
        raw + at.array(X)


def test_17_moving_between_backends():
    t = at.array(X)
    s = t.to("strict")
    assert type(s) is at.Tensor and type(s._array) is StrictArray and s._id == -1
    close(s.to("numpy").numpy(), X)
    close(s.numpy(), X)
    close(np.asarray(s), X)
    assert "Tensor(" in repr(s) and float(at.array(2.0).to("strict")) == 2.0
    with backend.use("strict"):
        close((s * 2).numpy(), 2 * X)
        assert type(ops.tanh(X)) is StrictArray  # NumPy's arrays are brought over
    with pytest.raises(BackendError, match="unknown"):
        t.to("nowhere")


def test_17_params_live_on_their_backend():
    with backend.use("strict"):
        p = at.Param(X)
        with at.Tape() as t:
            loss = (p * p).sum()
        g = t.gradient(loss, p)
        assert type(g) is type(p.value) is StrictArray
        p -= g
        p.value = X
    close(p.numpy(), X)
    p -= g
    close(p.numpy(), -X)
    with pytest.raises(BackendError, match="StrictArray"):
        p + 1
    p.value = at.array(X).to("numpy")  # NumPy's are brought over, others are not
    assert type(p.value) is StrictArray
    with pytest.raises(BackendError, match=rf"'{backend.get()}'.*StrictArray"):
        at.Param(X).value = at.array(X).to("strict")


# ---------------------------------------------------------------- the contract


def test_every_kernel_is_there_with_the_contracts_arguments():
    for name, parameters in CONTRACT.items():
        kernel = getattr(K, name)
        assert callable(kernel), name
        if isinstance(kernel, types.BuiltinFunctionType):  # NumPy's own, which has no signature before NumPy 2.3
            continue
        assert list(inspect.signature(kernel).parameters)[: len(parameters)] == list(parameters), name
    assert K.name == "numpy" and K.array is np.ndarray
    said = {"name", "array", "has_threads", "compiles", "math_mode"}
    named = {n for n in [*Kernels.__annotations__, *vars(Kernels)] if not n.startswith("_")} - said
    assert named == set(CONTRACT)


def test_33_kernels_are_instance_attributes():
    class Extended(NumpyKernels):
        def exp(self, x):
            return np.asarray(np.exp2(x))

    e = Extended()
    assert e.exp(np.ones(1))[0] == 2 and K.exp(np.zeros(1))[0] == 1
    assert e.tanh(np.zeros(1))[0] == 0 and not hasattr(NumpyKernels, "tanh")


MAKERS = {"scalar", "zeros", "ones", "full", "uniform"}
EXAMPLES = {name: list(call.args) for name, call in kernel_calls().items() if not call.written and name not in MAKERS}
EXAMPLES["recurrence_grads"][6:8] = K.recurrence(*EXAMPLES["recurrence"])[2:]
VIEWS = {"astype", "sum_to", "reshape", "transpose", "broadcast_to", "getitem", "real", "imag"}


def several(y):
    """What a kernel gave, as a list."""
    return list(y) if isinstance(y, tuple) else [y]


def arrays_of(args):
    return [a for x in args for a in (x if isinstance(x, list) else [x]) if isinstance(a, np.ndarray)]


def relaid(x, how):
    """The same arguments, their arrays in another memory layout."""
    if isinstance(x, list):
        return [relaid(a, how) for a in x]
    return how(x) if isinstance(x, np.ndarray) else x


def spread(a):
    wide = np.full([2 * n for n in a.shape], 3, a.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in a.shape)]
    view[...] = a
    return view


def frozen(a):
    a = a.copy(order="F")
    a.flags.writeable = False
    return a


@pytest.mark.parametrize("name", EXAMPLES)
def test_kernels_change_no_input_take_any_strides_and_return_arrays(name):
    kernel, args = getattr(K, name), EXAMPLES[name]
    before = [a.copy() for a in arrays_of(args)]
    ys = several(kernel(*args))
    assert all(type(y) is np.ndarray for y in ys)
    assert all((a == b).all() for a, b in zip(arrays_of(args), before, strict=True))
    if name not in VIEWS:
        assert not any(np.may_share_memory(y, a) for a in arrays_of(args) for y in ys)
    for how in (spread, frozen):
        for found, y in zip(several(kernel(*relaid(args, how))), ys, strict=True):
            close(found, y, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", [n for n in EXAMPLES if n != "sum_of_squares"])  # which is float64 always
def test_kernels_keep_float32(name):
    narrow = {"float64": np.dtype(np.float32), "complex128": np.dtype(np.complex64)}
    args = relaid(EXAMPLES[name], lambda a: a.astype(narrow.get(a.dtype.name, a.dtype)))
    for y, wide in zip(several(getattr(K, name)(*args)), several(getattr(K, name)(*EXAMPLES[name])), strict=True):
        assert y.dtype == narrow.get(wide.dtype.name, wide.dtype)
        if name != "spacing":  # which is another one there
            close(y, wide, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [n for n, kind in Kernels.__annotations__.items() if kind in ("Unary", "Binary")])
def test_06_elementwise_kernels_keep_0d_and_empty_arrays(name):
    n = len(EXAMPLES[name])
    for shape in ((), (0,), (2, 0, 3)):
        y = getattr(K, name)(*[np.full(shape, 1.5 if name == "arccosh" else 0.5)] * n)
        assert type(y) is np.ndarray and y.shape == shape


@pytest.mark.parametrize(
    "name", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "matmul", "einsum", "getitem", "logsumexp", "where", "sum_to"]
)
def test_06_reductions_give_0d_arrays(name):
    v = X[0]
    args = {
        "matmul": [v, v],
        "einsum": ["i,i->", [v, v]],
        "getitem": [v, 1],
        "where": [v[0] > np.zeros(()), np.ones(()), np.zeros(())],
        "sum_to": [v, ()],
    }.get(name, [v, None, False])
    args = args[:3]
    if name == "where":
        args[0] = np.asarray(args[0])
    y = getattr(K, name)(*args)
    assert type(y) is np.ndarray and y.shape == ()


@pytest.mark.parametrize(
    ("x", "adopted"),
    [
        (X, True),
        (np.float32(3), True),
        (np.int64(3), True),
        ([1, [2][0]], True),
        ([[1.5], [2]], True),
        ((1, 2), True),
        (np.ones(3).view(np.memmap), True),
        (3.0, False),
        ("text", False),
        (None, False),
        (object(), False),
        (np.array(["a"]), False),
        (np.array([None]), False),
        ([], True),
    ],
    ids=repr,
)
def test_adopt(x, adopted):
    y = K.adopt(x)
    assert (type(y) is np.ndarray and y.dtype.kind in "biufc") if adopted else y is None
    assert K.adopt(X) is X


def test_scalars_are_weak_and_keep_their_sign():
    for dtype in (np.float16, np.float32, np.float64):
        s = K.scalar(2, np.dtype(dtype))
        assert type(s) is np.ndarray and s.shape == () and s.dtype == dtype and K.scalar(0.1, np.dtype(dtype)).dtype == dtype
        assert not np.signbit(K.scalar(0.0, np.dtype(dtype))) and np.signbit(K.scalar(-0.0, np.dtype(dtype)))
    integer = np.dtype(np.int64)
    assert (
        K.scalar(1, integer).dtype == np.int64 and K.scalar(1.0, integer).dtype == np.float64 and K.scalar(True, integer).dtype == np.int64
    )
    assert K.scalar(1, np.dtype(bool)).dtype == np.int64 and K.scalar(2j, np.dtype(np.float32)).dtype == np.complex64
    assert K.scalar(300, np.dtype(np.int8)).dtype == np.int64 and K.scalar(10**30, integer) == 1e30


def test_nan_and_infinities_come_out_as_numpy_gives_them():
    x = np.array([np.nan, np.inf, -np.inf, 1.0])
    with np.errstate(all="ignore"):
        for name in ("exp", "tanh", "maximum", "minimum", "sqrt", "sign", "add", "floor"):
            args = [x] if name not in ("maximum", "minimum", "add") else [x, x[::-1]]
            np.testing.assert_array_equal(getattr(K, name)(*args), getattr(np, name)(*args))
        np.testing.assert_array_equal(K.where(x > 0, x, np.zeros(())), np.where(x > 0, x, 0))
        np.testing.assert_array_equal(
            K.where(np.tile(x, 1000) > 0, np.tile(x, 1000), np.zeros(())), np.where(np.tile(x, 1000) > 0, np.tile(x, 1000), 0)
        )
        assert np.isnan(K.max(x, None, False)) and np.isnan(K.softmax(x, 0)).all() and np.isnan(K.sum(x, None, False))


def test_made_arrays():
    for name, value in (("zeros", 0), ("ones", 1)):
        y = getattr(K, name)((2, 0, 3), np.float32)
        assert y.shape == (2, 0, 3) and y.dtype == np.float32 and (getattr(K, name)((), float) == value).all()
    assert K.full((2,), 7, np.float16).tolist() == [7, 7] and K.full((), 2.5, float).shape == ()
    u = K.uniform(3, (1000,), np.float32)
    assert (
        u.dtype == np.float32
        and u.min() >= 0
        and u.max() < 1
        and (u == K.uniform(3, (1000,), np.float32)).all()
        and (u != K.uniform(4, (1000,), np.float32)).any()
    )
    rule = lambda dy: dy  # noqa: E731
    assert K.compile_elementwise(rule, backend.use_kernels) is rule and not K.compiles


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("add", [X, np.ones(4)]),
        ("matmul", [X, X]),
        ("reshape", [X, (7,)]),
        ("concatenate", [[X, np.ones((2, 2, 2))], 0]),
        ("pad", [X, ((1, 1),), 0]),
        ("broadcast_to", [X, (3,)]),
        ("broadcast_to", [X, (4, 3)]),
        ("einsum", ["ij,jk->ik", [X, X]]),
        ("transpose", [X, (0, 0)]),
    ],
)
def test_shapes_that_do_not_fit_raise_value_errors(name, args):
    for table in (K, StrictKernels()):
        with pytest.raises(ValueError):
            getattr(table, name)(
                *[table.adopt(a) if isinstance(a, np.ndarray) else [table.adopt(b) for b in a] if isinstance(a, list) else a for a in args]
            )


@pytest.mark.numpy_only("a Param of another backend is made where NumPy's is")
def test_a_param_moves_and_stays_where_it_is():
    p = at.Param(np.arange(3.0))
    q = p.to("strict")
    assert type(q.value) is backend.load("strict").array and np.array_equal(q.numpy(), p.numpy())
    assert q.to("strict") is q and p.to("numpy") is p
