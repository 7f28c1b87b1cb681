"""Decide whether the branches of a union exclude each other.

Why: such branches can be changed one by one, and ``anyOf`` over them means the same as ``oneOf``.

Invariant: errs on one side. Branches that it cannot distinguish count as possibly overlapping.

Cost: linear in the branches and in what they demand of the same value and of its tags.
"""

from __future__ import annotations

from .node_builder import NodeBuilder
from .nodes import ALL_TYPES, OBJECT, Node

__all__ = ["are_exclusive", "nodes_of_value"]


def are_exclusive(builder: NodeBuilder, group: tuple[int, ...]) -> bool:
    """Return whether types, or the value of one required key, distinguish all branches."""
    taken = 0
    tags: list[dict[str, frozenset[str]]] = []
    for node_id in group:
        types, tagged = _types_and_tags(builder, node_id)
        if types == OBJECT:
            tags.append(tagged)
        elif types & taken:
            return False
        else:
            taken |= types
    if tags and taken & OBJECT:
        return False
    names = set.intersection(*(set(values) for values in tags)) if tags else set()
    return len(tags) < 2 or any(
        len(frozenset().union(*(values[name] for values in tags)))
        == sum(len(values[name]) for values in tags)
        for name in names
    )


def nodes_of_value(builder: NodeBuilder, node_id: int) -> dict[int, Node]:
    """Return the node, and those that it applies to the same value in any case."""
    nodes = builder.nodes
    found: dict[int, Node] = {}
    pending = [node_id]
    while pending:
        child = pending.pop()
        node = nodes[child]
        if child not in found and isinstance(node, dict):
            found[child] = node
            pending += (*node.get("allOf", ()), *node.get("ref", ()))
    return found


def _types_and_tags(builder: NodeBuilder, node_id: int) -> tuple[int, dict[str, frozenset[str]]]:
    """Return the types that the node allows, and the values that it lists for required keys."""
    types = ALL_TYPES
    required: set[str] = set()
    listed: dict[str, frozenset[str]] = {}
    for node in nodes_of_value(builder, node_id).values():
        types &= node.get("types", ALL_TYPES)
        required.update(node.get("required", ()))
        for name, child in node.get("properties", ()):
            for inner in nodes_of_value(builder, child).values():
                texts = [(kind, text) for kind in ("strings", "literals") for text in inner.get(kind, ())]
                if texts and "numbers" not in inner and "values" not in inner:
                    listed[name] = frozenset([f"{kind}:{text}" for kind, text in texts])
    return types, {name: texts for name, texts in listed.items() if name in required}
