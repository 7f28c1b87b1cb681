"""What the nodes of a schema's IR have in common: bits of types, and references to other nodes.

Invariant: `child_ids` yields every node id that a node holds, and `renumber_node` changes the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = [
    "ALL_TYPES",
    "ARRAY",
    "OBJECT",
    "TYPES",
    "Node",
    "child_ids",
    "nodes_leading_to",
    "nodes_of_same_value",
    "reachable_nodes",
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


def reachable_nodes(nodes: Sequence[Mapping[str, Any] | bool], starts: Iterable[int]) -> set[int]:
    """Return the ids of the nodes that can be reached from `starts`, with these."""
    reached = set(starts)
    pending = list(reached)
    while pending:
        for child in child_ids(nodes[pending.pop()]):
            if child not in reached:
                reached.add(child)
                pending.append(child)
    return reached


def nodes_leading_to(
    nodes: Sequence[Mapping[str, Any] | bool], targets: Iterable[int], among: Iterable[int]
) -> set[int]:
    """Return the ids in `among` from which one of `targets` can be reached through nodes of `among`."""
    parents: dict[int, list[int]] = {}
    for node_id in among:
        for child in child_ids(nodes[node_id]):
            parents.setdefault(child, []).append(node_id)
    leading = set(targets).intersection(among)
    pending = list(leading)
    while pending:
        for parent in parents.get(pending.pop(), ()):
            if parent not in leading:
                leading.add(parent)
                pending.append(parent)
    return leading


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
