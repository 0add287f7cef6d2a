"""Minibatches: every instance once an epoch, an order that the seed decides, and states that go on exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autotape as at
import autotape.testing  # registers the backend "strict"
from autotape import backend, random
from autotape.train.data import Data, minibatch

X, Y = np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10)


def order(batches):
    return [int(i) for _, labels in batches for i in labels]


@pytest.mark.parametrize(("partial", "sizes"), [(False, [4, 4]), (True, [4, 4, 2])])
def test_an_epoch_has_the_batches_that_its_length_says(partial, sizes):
    data = minibatch(X, Y, 4, partial=partial)
    batches = list(data)
    assert len(data) == len(sizes) and [len(labels) for _, labels in batches] == sizes
    assert order(batches) == list(range(sum(sizes)))
    for inputs, labels in batches:
        np.testing.assert_array_equal(inputs, X[labels])


def test_one_array_gives_batches_and_several_give_tuples():
    assert [b.tolist() for b in minibatch(Y, 5)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert [len(b) for b in Data(X, Y, Y, batchsize=5)] == [3, 3]
    assert [b.shape for b in minibatch([[1.0, 2.0]] * 4, batchsize=4)] == [(4, 2)]


def test_each_epoch_of_a_shuffled_set_holds_everything_in_another_order():
    data = minibatch(X, Y, 4, shuffle=True, partial=True, generator=3)
    first, second = order(data), order(data)
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    again = minibatch(X, Y, 4, shuffle=True, partial=True, generator=random.Generator(3))
    assert [order(again), order(again)] == [first, second]


def test_the_current_generator_decides_where_none_is_given():
    def orders(seed):
        with random.use(seed):
            return order(minibatch(X, Y, 5, shuffle=True))

    assert orders(1) == orders(1) != orders(2)


def test_dtypes():
    inputs, labels = next(iter(minibatch(X, Y, 5, dtype=np.float64)))
    assert (inputs.dtype, labels.dtype) == (np.float64, Y.dtype)
    pixels, labels = next(iter(minibatch(X.astype(np.uint8), Y, 5, dtype=(np.float32, None), shuffle=True)))
    assert (pixels.dtype, labels.dtype) == (np.float32, Y.dtype)


@pytest.mark.numpy_only("memory shared with NumPy's arrays")
def test_a_part_of_the_data_set_is_read_only():
    inputs, _ = next(iter(minibatch(X, Y, 5)))
    assert np.shares_memory(inputs, X) and not inputs.flags.writeable and X.flags.writeable
    assert next(iter(minibatch(X, Y, 5, shuffle=True)))[0].flags.writeable


def test_floats_go_to_the_current_backend_and_labels_stay():
    data = minibatch(X, Y, 5, shuffle=True, generator=0)
    expected = next(iter(minibatch(X, Y, 5, shuffle=True, generator=0)))
    with backend.use("strict"):
        inputs, labels = next(iter(data))
        assert isinstance(inputs, at.Tensor) and isinstance(inputs._array, backend.kernels().array) and type(labels) is np.ndarray
        on_device = next(iter(minibatch(at.array(X), Y, 5, shuffle=True, generator=0, dtype=np.float64)))[0]
        assert isinstance(on_device, at.Tensor) and on_device.dtype == np.float64
        for found in (inputs, on_device):
            np.testing.assert_array_equal(found.numpy(), expected[0])
        np.testing.assert_array_equal(labels, expected[1])


@given(st.integers(0, 3), st.integers(0, 4), st.booleans(), st.booleans())
def test_a_state_goes_on_exactly(epochs, position, shuffle, partial):
    def new():
        return minibatch(X, Y, 3, shuffle=shuffle, partial=np.bool_(partial), generator=5)

    data = new()
    for _ in range(epochs):
        order(data)
    epoch = iter(data)
    for _ in range(min(position, len(data))):
        next(epoch)
    state = json.loads(json.dumps(data.state))  # plain numbers
    rest = [order(epoch), order(data), order(data)]
    other = new()
    other.state = state
    assert [order(other), order(other), order(other)] == rest


def test_a_state_before_the_first_epoch():
    data, other = minibatch(X, Y, 3, shuffle=True, generator=5), minibatch(X, Y, 3, shuffle=True, generator=6)
    other.state = data.state
    assert order(other) == order(data)


def test_an_epoch_inside_another_leaves_it_alone():
    data = minibatch(X, Y, 2, shuffle=True, generator=5)
    outer = iter(data)
    first = order([next(outer)])
    state = outer.state
    order(data)
    rest = order(outer)
    assert sorted(first + rest) == list(range(10))
    data.state = state
    assert order(data) == rest


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, Y, 11), {}, r"10 instances don't fill one batch of 11; a smaller batchsize or partial=True"),
        ((X[:0], 4), {"partial": True}, "0 instances don't fill"),
        ((X, Y[:9], 4), {}, "the arrays hold 10, 9 instances"),
        ((X, Y, 0), {}, "from 1 on, not 0"),
        ((X, Y), {}, "from 1 on, not None"),
        ((X, Y), {"batchsize": 2.5}, r"from 1 on, not 2\.5"),
        ((X, Y), {"batchsize": True}, "from 1 on, not True"),
        ((X, Y, 2.5), {}, r"from 1 on, not 2\.5"),
        ((X, Y, "5"), {}, "from 1 on, not '5'"),
        ((iter(Y),), {}, "from 1 on, not <"),
        ((iter(Y), 4), {}, "an axis of instances"),
        ((X, Y, 4), {"batchsize": 2}, "an axis of instances"),
        (((X, Y), 4), {}, r"minibatch, which takes several arrays as minibatch\(x, y, 32\): setting an array element"),
        ((4,), {}, "one or more arrays"),
        ((np.float32(1), 4), {}, "an axis of instances"),
        ((X, Y, 4), {"dtype": (np.float32,)}, "1 dtypes for 2 arrays"),
    ],
)
def test_what_is_no_data_set_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        minibatch(*arguments, **options)


def test_a_state_of_something_else_is_refused():
    data = minibatch(X, Y, 4, shuffle=True)
    with pytest.raises(ValueError, match="of 8 instances in batches of 2, but this one is of 10 instances in shuffled batches of 4"):
        data.state = minibatch(X[:8], 2).state
    incomplete = {name: value for name, value in data.state.items() if name != "seed"}
    for state in ({"epoch": 1}, incomplete, None):
        with pytest.raises(ValueError, match="no state of a Data"):
            data.state = state


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 4}, "minibatch: the option 'batch_size' is unknown; there are batchsize, shuffle,"),
        ({"batchsize": 4, "shuffel": True}, "minibatch: the option 'shuffel' is unknown"),
        ({"batchsize": 4, "shuffle": True, "generator": np.random.default_rng(0)}, "minibatch: generator is an autotape.random.Generator"),
        ({"batchsize": 4, "shuffle": True, "generator": 2.5}, r"a seed or None, not float 2\.5"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(TypeError, match=message):
        minibatch(X, Y, **options)


def test_a_size_may_be_any_whole_number():
    for size in (5, np.int64(5), np.uint8(5), np.array(5)):
        assert minibatch(X, Y, size).batchsize == minibatch(X, Y, batchsize=size).batchsize == 5


def test_the_state_of_an_epoch_at_its_end_goes_on_with_the_next():
    data, other = minibatch(Y, 5, shuffle=True, generator=1), minibatch(Y, 5, shuffle=True, generator=2)
    list(data)
    other.state = data.state
    assert [len(list(other)) for _ in "abc"] == [0, 2, 2]


def test_tracked_tensors_are_parts_that_differentiate():
    for shuffle in (False, True):
        gradient = at.grad(lambda x: sum(np.sum(part * part) for part in minibatch(x, 2, shuffle=shuffle)))  # noqa: B023
        np.testing.assert_array_equal(gradient(np.arange(4.0)), [0, 2, 4, 6])


def test_what_it_says_of_itself():
    assert repr(minibatch(X, Y, 4, shuffle=True)) == "Data(10 instances in shuffled batches of 4)"
