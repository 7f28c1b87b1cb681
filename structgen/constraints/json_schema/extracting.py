"""Extract a part of a schema as a schema of its own, with only the nodes that it needs.

Why: a value in the middle of a text is a constraint of its own, compiled and cached as one. If each of them had all
nodes of the schema, the cost would be quadratic in the number of values.

Invariant: the language is that of the node in the whole schema.

Cost: linear in the nodes that are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structgen.ir.schema import SchemaIR

__all__ = ["extract_part", "nodes_of_same_value"]

_SINGLE = ("additionalProperties", "items", "contains", "propertyNames", "if", "then", "else")
_LISTS = ("values", "prefixItems", "allOf", "not", "ref")
_GROUPS = ("anyOf", "oneOf")
_BY_NAME = ("properties", "patternProperties")


def extract_part(ir: SchemaIR, root: int, extra: Mapping[str, Any]) -> SchemaIR:
    """Return the schema whose root is this node; the id after the last one denotes the node `extra`."""
    nodes = ir["nodes"]

    def node(node_id: int) -> Any:
        return extra if node_id == len(nodes) else nodes[node_id]

    numbers = {root: 0}
    order = [root]
    for node_id in order:
        for inner in _children(node(node_id)):
            if inner not in numbers:
                numbers[inner] = len(order)
                order.append(inner)
    spelled = {numbers[node_id]: names for node_id, names in ir.spelled.items() if node_id in numbers}
    content = tuple([_renumbered(node(node_id), numbers) for node_id in order])
    return SchemaIR(nodes=content, root=0, options=ir["options"], spelled=spelled)


def nodes_of_same_value(node: Mapping[str, Any]) -> list[int]:
    """Return the nodes that apply to the same value."""
    found = [node_id for key in ("ref", "allOf", "values") for node_id in node.get(key, ())]
    return found + [node_id for key in _GROUPS for group in node.get(key, ()) for node_id in group]


def _children(node: Any) -> list[int]:
    """Return the nodes that a node refers to."""
    if isinstance(node, bool):
        return []
    found = [node[key] for key in _SINGLE if key in node]
    found += [node_id for key in _LISTS for node_id in node.get(key, ())]
    found += [node_id for key in _GROUPS for group in node.get(key, ()) for node_id in group]
    return found + [node_id for key in _BY_NAME for _, node_id in node.get(key, ())]


def _renumbered(node: Any, numbers: Mapping[int, int]) -> Any:
    if isinstance(node, bool):
        return node
    changed = dict(node)
    for key in _SINGLE:
        if key in node:
            changed[key] = numbers[node[key]]
    for key in _LISTS:
        if key in node:
            changed[key] = tuple([numbers[node_id] for node_id in node[key]])
    for key in _GROUPS:
        if key in node:
            changed[key] = tuple([tuple([numbers[node_id] for node_id in group]) for group in node[key]])
    for key in _BY_NAME:
        if key in node:
            changed[key] = tuple([(name, numbers[node_id]) for name, node_id in node[key]])
    return changed
