"""A part of a schema as a schema of its own: the nodes that it needs, and no others.

Why: a value in the middle of a text is a constraint of its own, compiled and remembered as one. With all nodes of the
schema in each of them, a schema of many values would cost its square.
Invariant: the language is that of the node in the whole schema.
Cost: linear in the nodes that are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structgen.ir.schema import SchemaIR

__all__ = ["extracted", "nodes_beside"]

_ONE = ("additionalProperties", "items", "contains", "propertyNames", "if", "then", "else")
_MANY = ("values", "prefixItems", "allOf", "not", "ref")
_GROUPS = ("anyOf", "oneOf")
_NAMED = ("properties", "patternProperties")


def extracted(ir: SchemaIR, root: int, extra: Mapping[str, Any]) -> SchemaIR:
    """Return the schema whose root is this node; the number after the last one stands for the node `extra`."""
    nodes = ir["nodes"]

    def node(place: int) -> Any:
        return extra if place == len(nodes) else nodes[place]

    numbers = {root: 0}
    order = [root]
    for place in order:
        for inner in _inner(node(place)):
            if inner not in numbers:
                numbers[inner] = len(order)
                order.append(inner)
    spelled = {numbers[place]: names for place, names in ir.spelled.items() if place in numbers}
    content = tuple([_renumbered(node(place), numbers) for place in order])
    return SchemaIR(nodes=content, root=0, options=ir["options"], spelled=spelled)


def nodes_beside(node: Mapping[str, Any]) -> list[int]:
    """The nodes that look at the same value."""
    found = [place for key in ("ref", "allOf", "values") for place in node.get(key, ())]
    return found + [place for key in _GROUPS for group in node.get(key, ()) for place in group]


def _inner(node: Any) -> list[int]:
    """The nodes that a node refers to."""
    if isinstance(node, bool):
        return []
    found = [node[key] for key in _ONE if key in node]
    found += [place for key in _MANY for place in node.get(key, ())]
    found += [place for key in _GROUPS for group in node.get(key, ()) for place in group]
    return found + [place for key in _NAMED for _, place in node.get(key, ())]


def _renumbered(node: Any, numbers: Mapping[int, int]) -> Any:
    if isinstance(node, bool):
        return node
    changed = dict(node)
    for key in _ONE:
        if key in node:
            changed[key] = numbers[node[key]]
    for key in _MANY:
        if key in node:
            changed[key] = tuple([numbers[place] for place in node[key]])
    for key in _GROUPS:
        if key in node:
            changed[key] = tuple([tuple([numbers[place] for place in group]) for group in node[key]])
    for key in _NAMED:
        if key in node:
            changed[key] = tuple([(name, numbers[place]) for name, place in node[key]])
    return changed
