"""autotape.random: seeds, states, splits, and the same bits on every backend."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import autotape as at
from autotape import backend, random
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
        for name in ("numpy", "strict"):
            with backend.use(name):
                found.append(backend.kernels().to_numpy(draw(random.Generator(3))))
        same(*found)


def test_shapes_dtypes_and_ranges():
    g = random.Generator(0)
    assert g.uniform().shape == () and g.uniform(3).shape == (3,) and g.normal((0, 2)).shape == (0, 2)
    assert g.uniform(2, dtype=np.float32).dtype == np.float32 and g.normal(2, dtype="float32").dtype == np.float32
    u, n, i = g.uniform(10_000, -2, 1), g.normal(10_000, 3, 2), g.integers(-1, 2, 10_000)
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
    with pytest.raises(ValueError, match="not negative"):
        random.Generator(-1)
    with pytest.raises(TypeError):
        random.Generator(1.5)


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
