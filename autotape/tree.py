"""Pytrees: nested dicts, lists, tuples, named tuples and dataclasses (and registered classes) of leaves.  None is an empty tree.

    leaves, build = tree.flatten({"w": w, "b": (b, None)})      # build(leaves) makes the same tree of other leaves
    tree.map(lambda p, g: p - 0.1 * g, params, grads)
    tree.register(MyNet, lambda net: (net.w, net.b), lambda net, children: MyNet(*children))
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

Build = Callable[[Sequence[Any]], Any]
Children = Callable[[Any], Sequence[Any]]
Rebuild = Callable[[Any, Sequence[Any]], Any]

_nodes: dict[type, tuple[Children, Rebuild]] = {}


def register(cls: type, children: Children, rebuild: Rebuild) -> None:
    """Make instances of cls inner nodes: children(node) gives its subtrees, rebuild(node, subtrees) one like it with others."""
    _nodes[cls] = (children, rebuild)
    _kind.cache_clear()


def flatten(tree: Any) -> tuple[list[Any], Build]:
    """The leaves of a tree in order, and the function that builds the same tree of as many other leaves."""
    if (node := _node(tree)) is None:
        return [tree], lambda leaves: leaves[0]
    children, rebuild = node
    subtrees = list(children(tree))
    if all(_node(child) is None for child in subtrees):
        return subtrees, lambda leaves: rebuild(tree, leaves)
    parts = [flatten(child) for child in subtrees]
    sizes = [len(leaves) for leaves, _ in parts]

    def build(leaves: Sequence[Any]) -> Any:
        built, start = [], 0
        for (_, build_child), n in zip(parts, sizes, strict=True):
            built.append(build_child(leaves[start : start + n]))
            start += n
        return rebuild(tree, built)

    return [leaf for leaves, _ in parts for leaf in leaves], build


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, in order."""
    return flatten(tree)[0]


def paths(tree: Any) -> list[str]:
    """How a program reaches each leaf, in order: "['w']", "[1].scale"; "" if the tree is a leaf."""
    if (parts := children(tree)) is None:
        return [""]
    return [step + path for step, child in parts for path in paths(child)]


def children(tree: Any) -> list[tuple[str, Any]] | None:
    """The subtrees of a node with the step that leads to each, "['w']", "[1]" or ".scale"; None for a leaf."""
    if (node := _node(tree)) is None:
        return None
    subtrees = node[0](tree)
    return list(zip(_steps(tree, subtrees), subtrees, strict=True))


def _steps(tree: Any, subtrees: Sequence[Any]) -> list[str]:
    if isinstance(tree, dict):
        steps = [f"[{key!r}]" for key in tree]
    elif isinstance(tree, (list, tuple)):
        steps = [f".{name}" for name in getattr(tree, "_fields", ())] or [f"[{i}]" for i in range(len(tree))]
    elif dataclasses.is_dataclass(tree):
        steps = [f".{name}" for name in _fields(tree)]
    else:
        names = {id(value): f".{name}" for name, value in getattr(tree, "__dict__", {}).items()}
        steps = [names.get(id(child), "") for child in subtrees]
    return steps if len({*steps} - {""}) == len(subtrees) else [f" part {i}" for i in range(len(subtrees))]


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """f over corresponding leaves of trees of the same structure; the first gives the structure of the result."""
    if (node := _node(tree)) is None:
        return f(tree, *rest)
    children, rebuild = node
    columns = [children(tree), *(_children_like(tree, other) for other in rest)]
    return rebuild(tree, [map(f, *row) for row in zip(*columns, strict=True)])


def _children_like(tree: Any, other: Any) -> Sequence[Any]:
    """The children of `other` in the order of those of `tree`; a ValueError if they don't correspond."""
    node = _node(tree)
    assert node is not None
    if _node(other) == node:
        if not isinstance(tree, dict):
            if len(children := node[0](other)) == len(node[0](tree)):
                return children
        elif tree.keys() == other.keys():
            return [other[key] for key in tree]
    raise ValueError(f"tree.map: {_outline(other)} where the first tree has {_outline(tree)}")


def _outline(tree: Any) -> str:
    if (node := _node(tree)) is None:
        return f"a leaf of type {type(tree).__name__}"
    return f"{type(tree).__name__} with {f'keys {list(tree)}' if isinstance(tree, dict) else f'{len(node[0](tree))} children'}"


def _node(tree: Any) -> tuple[Children, Rebuild] | None:
    """How to take `tree` apart and put one like it together; None for a leaf."""
    cls: Any = type(tree)
    return _kind(cls)


@lru_cache(1024)
def _kind(cls: type) -> tuple[Children, Rebuild] | None:
    """The same for the instances of a class."""
    if (node := _nodes.get(cls)) is not None:
        return node
    if issubclass(cls, tuple):
        return _nodes[_Named if hasattr(cls, "_fields") else tuple]
    for base in (dict, list):
        if issubclass(cls, base):
            return _nodes[base]
    return _nodes[_Dataclass] if dataclasses.is_dataclass(cls) else None


class _Named: ...


class _Dataclass: ...


def _fields(x: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(x) if hasattr(x, f.name)]


def _like_dict(tree: dict[Any, Any], values: Sequence[Any]) -> dict[Any, Any]:
    new = copy.copy(tree)  # keeps the class and what a subclass carries, such as a default factory
    for key, value in zip(tree, values, strict=True):
        new[key] = value  # a Counter's update would add
    return new


def _like_list(tree: list[Any], items: Sequence[Any]) -> list[Any]:
    if type(tree) is list:
        return list(items)
    new = copy.copy(tree)
    new[:] = items
    return new


def _like_dataclass(tree: Any, values: Sequence[Any]) -> Any:
    new = copy.copy(tree)  # without __init__, whose arguments need not be the fields
    for name, value in zip(_fields(tree), values, strict=True):
        object.__setattr__(new, name, value)  # also where the class is frozen
    return new


register(type(None), lambda none: (), lambda none, children: None)
register(dict, lambda d: list(d.values()), _like_dict)
register(list, lambda xs: xs, _like_list)
register(tuple, lambda xs: xs, lambda t, xs: type(t)(xs))
register(_Named, lambda t: t, lambda t, xs: type(t)(*xs))
register(_Dataclass, lambda x: [getattr(x, name) for name in _fields(x)], _like_dataclass)
