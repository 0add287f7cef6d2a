"""autotape.random: seeds, states, splits, and the same bits on every backend."""

from __future__ import annotations

import pickle
import re
import threading

import numpy as np
import pytest

import autotape as at
from autotape import backend, random
from autotape.opsets import v20 as ops
from autotape.testing import StrictArray  # noqa: F401  registers backend "strict"

same = np.testing.assert_array_equal


def test_a_seed_fixes_every_draw():
    for draw in (
        lambda g: g.uniform((2, 3)), lambda g: g.uniform(4, -1, 2, np.float32), lambda g: g.normal((3,), 1, 2),
        lambda g: g.integers(3, 9, (5,)), lambda g: g.permutation(7), lambda g: g.seed(), lambda g: g.split(3)[2].uniform(()),
    ):  # fmt: skip
        a, b, c = (draw(random.Generator(seed)) for seed in (0, 0, 1))
        same(a, b)
        assert not np.array_equal(a, c)


def test_the_same_bits_on_every_backend():
    for draw in (lambda g: g.uniform((5,), 1, 3), lambda g: g.normal((5,)), lambda g: g.integers(0, 100, (5,))):
        found = []
        for name in (backend.get(), "strict"):
            with backend.use(name):
                found.append(backend.kernels().to_numpy(draw(random.Generator(3))))
        same(*found)


def test_shapes_dtypes_and_ranges():
    g = random.Generator(0)
    assert g.uniform().shape == () and g.uniform(3).shape == (3,) and g.normal((0, 2)).shape == (0, 2)
    assert g.uniform(2, dtype=np.float32).dtype == np.float32 and g.normal(2, dtype="float32").dtype == np.float32
    u, n, i = map(np.asarray, (g.uniform(10_000, -2, 1), g.normal(10_000, 3, 2), g.integers(-1, 2, 10_000)))
    assert u.min() >= -2 and u.max() < 1 and abs(u.mean() + 0.5) < 0.05
    assert abs(n.mean() - 3) < 0.1 and abs(n.std() - 2) < 0.1
    assert set(i.tolist()) == {-1, 0, 1} and sorted(g.permutation(9).tolist()) == list(range(9))


def test_a_state_goes_on_from_where_it_was():
    g = random.Generator(5)
    g.uniform(3)
    state = g.state
    expected = g.normal(4)
    again = random.Generator()
    again.state = state
    same(again.normal(4), expected)
    copy = pickle.loads(pickle.dumps(random.Generator(5)))
    assert copy.state == random.Generator(5).state and str(state["key"]) in repr(again)
    with pytest.raises(ValueError, match="a generator's state is"):
        g.state = {"key": 3}


def test_split_generators_have_nothing_to_do_with_one_another():
    g = random.Generator(0)
    family = [g, *g.split(3), *random.Generator(0).split(2)[0].split(2)]
    draws = np.array([child.uniform(1000) for child in family])
    assert np.abs(np.corrcoef(draws) - np.eye(len(family))).max() < 0.15


def test_the_current_one():
    random.set(7)
    first = random.uniform(3)
    random.set(random.Generator(7))
    same(random.uniform(3), first)
    with random.use(9) as inside:
        assert random.current() is inside
        same(random.normal(2), random.Generator(9).normal(2))
        same(random.integers(0, 9, 4), (lambda g: (g.seed(), g.integers(0, 9, 4))[1])(random.Generator(9)))
    found = []
    with random.use(9):
        thread = threading.Thread(target=lambda: found.append(random.current()))
        thread.start()
        thread.join()
    assert found[0] is not inside


def test_threads_may_share_a_generator():
    g, seeds = random.Generator(0), []
    threads = [threading.Thread(target=lambda: seeds.extend(g.seed() for _ in range(500))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(seeds)) == 2000 and g.state["counter"] == 2000


def test_draws_are_replayed_in_a_checkpoint():
    generator = random.Generator(3)

    @at.checkpoint
    def noisy(x):
        return x * random.uniform(x.shape) + generator.normal(x.shape)

    _, pull = at.vjp(noisy, np.zeros(5))
    x = pull(np.ones(5))[0]
    assert len(set(x.tolist())) == 5 and generator.state["counter"] == 1


def test_what_a_dtype_can_not_hold_is_refused():
    with pytest.raises(ValueError, match=r"int32 can't hold whole numbers from 0 to 1099511627775"):
        random.Generator(1).integers(0, 2**40, 3, np.int32)
    with pytest.raises(TypeError, match="normal: dtype must be of floats, not int64"):
        random.Generator(1).normal(3, dtype=int)


# ---------------------------------------------------------------- the bits

M64 = (1 << 64) - 1


def philox(c, k):
    """Philox 4x64-10 of a counter and a key, from its definition (Salmon et al. 2011)."""
    for _ in range(10):
        p, q = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = (q >> 64) ^ c[1] ^ k[0], q & M64, (p >> 64) ^ c[3] ^ k[1], p & M64
        k = (k[0] + 0x9E3779B97F4A7C15) & M64, (k[1] + 0xBB67AE8584CAA73B) & M64
    return c


PI = 0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89, 0x452821E638D01377, 0xBE5466CF34E90C6C


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # Random123's known answers
        ((0,) * 4, (0,) * 2, (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)),
        ((M64,) * 4, (M64,) * 2, (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0)),
        (PI[:4], PI[4:], (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6)),
    ],
)
def test_philox_as_written_here_gives_the_known_answers(counter, key, words):
    assert philox(counter, key) == words


@pytest.mark.parametrize("name", ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()])
@pytest.mark.parametrize("seed", [0, 7, (1 << 63) - 1, (1 << 128) - 1])
def test_uniform_numbers_are_philox_words(seed, name):
    words = [w for n in range(1, 5) for w in philox((n, 0, 0, 0), (seed & M64, seed >> 64))]
    halves = [half for w in words for half in (w & 0xFFFFFFFF, w >> 32)]
    with backend.use(name):
        k = backend.kernels()
        for n in (1, 3, 16):
            same(k.to_numpy(k.uniform(seed, (n,), np.dtype("f8"))), [(w >> 11) / 2**53 for w in words[:n]])
            same(k.to_numpy(k.uniform(seed, (2, n), np.dtype("f4"))).ravel(), [(w >> 8) / 2**24 for w in halves[: 2 * n]])


def test_dropouts_choice_is_that_of_the_float32_numbers_whatever_the_shape_and_dtype():
    kept = np.asarray(backend.kernels().uniform(5, (600,), np.dtype("f4"))) > np.float32(0.3)
    for shape in ((600,), (20, 30), (2, 3, 100)):
        for dtype in ("f2", "f4", "f8"):
            x = np.full(shape, 2, dtype, order="F")
            y, pull = at.vjp(lambda x: ops.dropout(x, 0.3, seed=5), x)
            np.testing.assert_allclose(y.ravel(), kept * (2 / 0.7), 1e-3 if dtype == "f2" else 1e-6)
            same(pull(np.ones(shape, dtype))[0] * 2, y)  # its gradient has the same mask


def test_dropout_keeps_the_mean():
    x = np.ones(10_000, np.float32)
    means = np.array([np.asarray(ops.dropout(x, 0.4, seed=seed, drop=True)).mean() for seed in range(100)])
    z = (means - 1) * np.sqrt(10_000 * 0.6 / 0.4)  # standard normal
    assert abs(z.mean()) < 0.4 and 0.75 < z.std() < 1.25


# ---------------------------------------------------------------- what does not fit


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda g: random.Generator(-1), ValueError, "a seed must be a whole number from 0 to 18446744073709551615, got -1"),
        (lambda g: random.Generator(2**64 + 1), ValueError, "a seed must be a whole number from 0 to 18446744073709551615, got 1844"),
        (lambda g: random.use(1.5), TypeError, "a seed must be a whole number, got float 1.5"),
        (lambda g: random.set("a"), TypeError, "a seed must be a whole number, got str 'a'"),
        (lambda g: setattr(g, "state", {"key": 0, "counter": -1}), ValueError, "a generator's counter must be a whole number from 0"),
        (lambda g: g.split(-1), ValueError, "split: n must be a whole number from 0 to 18446744073709551615, got -1"),
        (lambda g: g.permutation(-1), ValueError, "permutation: n must be a whole number from 0 to 18446744073709551615, got -1"),
        (lambda g: g.permutation([3, 4]), TypeError, "permutation: n must be a whole number, got list [3, 4]"),
        (lambda g: g.uniform((2, -1)), ValueError, "uniform: shape, or each length in it, must be a whole number from 0 to"),
        (lambda g: g.normal(np.array([2, 3])), TypeError, "normal: shape, or each length in it, must be a whole number, got ndarray(2,)"),
        (lambda g: g.uniform(3, dtype=int), TypeError, "uniform: dtype must be of floats, not int64"),
        (lambda g: g.uniform(3, 2, 1), ValueError, "uniform: low must not be above high, and float64 must hold both and their difference"),
        (lambda g: g.uniform(3, -1e5, 1e5, np.float16), ValueError, "float16 must hold both and their difference; got -100000.0 and"),
        (lambda g: g.uniform(3, high=np.nan), ValueError, "uniform: low must not be above high"),
        (lambda g: g.uniform(3, np.zeros(3)), TypeError, "uniform: low must be a real number, got ndarray(3,) float64"),
        (lambda g: g.normal(3, std=-1), ValueError, "normal: std must be at least 0, got -1.0"),
        (lambda g: g.normal(3, at.Param(1.0)), TypeError, "normal: mean must be a real number, got "),
        (lambda g: g.integers(0.5, 3), TypeError, "integers: low must be a whole number, got float 0.5"),
        (lambda g: g.integers(5, 5), ValueError, "integers: there is no whole number from 5 to 4; high must be above low"),
    ],
)
def test_arguments_that_do_not_fit_are_named_and_nothing_is_drawn(draw, error, message):
    g = random.Generator(0)
    with pytest.raises(error, match=f"^.*{re.escape(message)}"):
        draw(g)
    assert g.state == random.Generator(0).state


def test_integers_fill_their_dtype():
    g = random.Generator(2)
    for dtype in (np.uint8, np.int64, np.uint64):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        found = np.asarray(g.integers(low, high + 1, 1000, dtype))
        assert found.dtype == dtype and int(found.max()) - int(found.min()) > 0.97 * (high - low)
