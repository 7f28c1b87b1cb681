"""What the nodes of a schema's IR have in common: bits of types, and references to other nodes.

Invariant: `child_ids` yields every node id that a node holds, and `renumber_node` changes the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = [
    "ALL_TYPES",
    "ARRAY",
    "OBJECT",
    "TYPES",
    "Node",
    "child_ids",
    "nodes_of_same_value",
    "renumber_node",
]

Node = dict[str, Any]
"""A sub-schema; `structgen.ir.schema.SchemaNode` describes its keys."""

TYPES = {"null": 1, "boolean": 2, "object": 4, "array": 8, "number": 16, "string": 32}
"""The bits of ``types`` in a node."""
ALL_TYPES = sum(TYPES.values())
OBJECT, ARRAY = TYPES["object"], TYPES["array"]

_SINGLE = frozenset(("additionalProperties", "items", "contains", "propertyNames", "if", "then", "else"))
_LISTS = frozenset(("values", "prefixItems", "allOf", "not", "ref"))
_GROUPS = ("anyOf", "oneOf")
_BY_NAME = frozenset(("properties", "patternProperties"))


def child_ids(node: Mapping[str, Any] | bool) -> Iterator[int]:
    """Yield the ids of the nodes that a node refers to, in the order of its keys; an id may occur several times."""
    if isinstance(node, bool):
        return
    for key, value in node.items():
        if key in _SINGLE:
            yield value
        elif key in _LISTS:
            yield from value
        elif key in _GROUPS:
            for group in value:
                yield from group
        elif key in _BY_NAME:
            for _, child in value:
                yield child


def renumber_node(node: Mapping[str, Any] | bool, new_id: Callable[[int], int]) -> Node | bool:
    """Return a copy of a node in which each id of another node is replaced by its new one."""
    if isinstance(node, bool):
        return node
    copy: Node = {}
    for key, value in node.items():
        if key in _SINGLE:
            copy[key] = new_id(value)
        elif key in _LISTS:
            copy[key] = tuple([new_id(child) for child in value])
        elif key in _GROUPS:
            copy[key] = tuple([tuple([new_id(child) for child in group]) for group in value])
        elif key in _BY_NAME:
            copy[key] = tuple([(name, new_id(child)) for name, child in value])
        else:
            copy[key] = value
    return copy


def nodes_of_same_value(node: Mapping[str, Any]) -> list[int]:
    """Return the nodes that apply to the same value, except those of ``not`` and ``if``."""
    found = [node_id for key in ("ref", "allOf", "values") for node_id in node.get(key, ())]
    return found + [node_id for key in _GROUPS for group in node.get(key, ()) for node_id in group]
