"""Pytrees: what is a node, what is a leaf, and that a tree of other leaves is the same tree."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotape as at
from autotape import tree

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    w: object
    b: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object
    twice: object = dataclasses.field(init=False, default=0)


class Ring:
    """A class that trees know nothing of until it is registered."""

    def __init__(self, *parts: object) -> None:
        self.parts = parts


class Settings(dict):
    note = "kept"


KINDS = {
    "dict": {"b": 1, "a": 2},
    "ordered": collections.OrderedDict(b=1, a=2),
    "default": collections.defaultdict(list, b=1, a=2),
    "list": [1, 2],
    "tuple": (1, 2),
    "named": Point(1, 2),
    "dataclass": Layer(1, 2),
    "frozen": Frozen(1),
    "nested": {"p": Point([1, None], (2, {"q": 3})), "none": None, "empty": ([], (), {})},
}


@pytest.mark.parametrize("kind", KINDS)
def test_flatten_and_build_give_the_same_tree(kind):
    t = KINDS[kind]
    leaves, build = tree.flatten(t)
    again = build(leaves)
    assert type(again) is type(t) and again == t
    assert tree.leaves(build([x * 10 for x in leaves])) == [x * 10 for x in leaves]
    assert tree.leaves(t) == leaves


def test_leaves_come_in_order_and_none_has_none():
    assert tree.leaves({"b": [1, (2, None)], "a": Point(3, 4)}) == [1, 2, 3, 4]
    assert tree.leaves(None) == [] and tree.flatten(None)[1]([]) is None
    assert tree.leaves(5) == [5] and tree.leaves("text") == ["text"]


@pytest.mark.parametrize("leaf", ["text", b"bytes", {1, 2}, range(3), np.ones(2), 1.5, object(), Layer, Point, len])
def test_everything_else_is_a_leaf(leaf):
    leaves, build = tree.flatten([leaf])
    assert len(leaves) == 1 and leaves[0] is leaf and build(leaves)[0] is leaf


def test_subclasses_keep_their_class_and_what_they_carry():
    d = collections.defaultdict(list, a=1)
    assert tree.map(float, d).default_factory is list
    s = Settings(a=1)
    s.note = "mine"
    assert type(tree.map(float, s)) is Settings and tree.map(float, s).note == "mine"
    assert d == {"a": 1} and s == {"a": 1}


def test_a_tree_is_never_changed_by_building_another():
    t = {"a": [1, 2], "l": Layer(3)}
    _, build = tree.flatten(t)
    build([4, 5, 6])["a"].append(7)
    assert t == {"a": [1, 2], "l": Layer(3)}


def test_map_goes_over_several_trees():
    params, grads = {"w": 1, "b": (2, None)}, {"b": (20, None), "w": 10}
    assert tree.map(lambda p, g: p + g, params, grads) == {"w": 11, "b": (22, None)}
    assert list(tree.map(lambda p, g: p + g, params, grads)) == ["w", "b"]
    assert tree.map(lambda x: -x, Frozen(3)).w == -3


@pytest.mark.parametrize("other", [{"a": 1}, {"a": 1, "c": 2}, [1, 2], 3, None, {"a": 1, "b": [2]}, {"a": 1, "b": 2, "c": 3}])
def test_map_refuses_trees_of_another_structure(other):
    with pytest.raises(ValueError, match=r"tree\.map: .* where the first tree has"):
        tree.map(lambda a, b: None, {"a": 1, "b": (2,)}, other)


@pytest.mark.parametrize("other", [(1, 2, 3), [1, 2], Point(1, 2)])
def test_map_tells_tuples_from_lists_and_lengths(other):
    with pytest.raises(ValueError, match=r"tree\.map"):
        tree.map(lambda a, b: None, (1, 2), other)


def test_registered_classes_are_nodes_everywhere():
    tree.register(Ring, lambda r: r.parts, lambda r, parts: Ring(*parts))
    r = Ring(np.ones(2), "name", 3.0)
    assert [type(x) for x in tree.leaves(r)] == [np.ndarray, str, float]
    g = at.grad(lambda r: (r.parts[0] * r.parts[2]).sum())(r)
    assert type(g) is Ring and g.parts[1] == "name" and g.parts[2] == 2.0
    np.testing.assert_array_equal(g.parts[0], [3.0, 3.0])


def trees(leaves):
    branch = st.sampled_from(
        [
            list,
            tuple,
            lambda xs: Point(*(xs * 2)[:2]) if xs else None,
            lambda xs: {str(i): x for i, x in enumerate(xs)},
            lambda xs: Layer(xs),
        ]
    )
    return st.recursive(
        leaves | st.none(), lambda inner: st.builds(lambda make, xs: make(xs), branch, st.lists(inner, max_size=3)), max_leaves=12
    )


@settings(max_examples=3 * settings().max_examples // 5)
@given(trees(st.integers()))
def test_any_tree_survives(t):
    leaves, build = tree.flatten(t)
    assert build(leaves) == t
    doubled = tree.map(lambda x: 2 * x, t)
    assert tree.leaves(doubled) == [2 * x for x in leaves]
    assert tree.map(lambda a, b: a - b, doubled, t) == t


def test_paths_are_what_a_program_writes():
    nested = {"w": 1, 3: [Point(x=1, y=(2, None)), Layer(w=4)], "s": Settings(a=5)}
    assert tree.paths(nested) == ["['w']", "[3][0].x", "[3][0].y[0]", "[3][1].w", "['s']['a']"]
    assert tree.paths(7) == [""] and tree.paths(None) == [] and tree.children(7) is None
    assert tree.children(Layer(w=4)) == [(".w", 4), (".b", None)]


def test_paths_of_registered_classes_are_their_attributes_or_places():
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

    class Tied(Pair): ...

    tree.register(Pair, lambda p: (p.first, p.second), lambda p, children: Pair(*children))
    tree.register(Tied, lambda p: (p.first, p.second), lambda p, children: Tied(*children))
    shared = [1.5]
    assert tree.paths(Pair([1], [2.5])) == [".first[0]", ".second[0]"]
    assert tree.paths({"t": Tied(shared, shared)}) == ["['t'] part 0[0]", "['t'] part 1[0]"]
