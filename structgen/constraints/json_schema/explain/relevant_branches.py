"""A schema whose long unions keep only the branches that lead to a place.

Why: to find out which rule a text breaks, a schema is compiled again and again; of a union of hundreds of kinds of
objects only those matter that the text has not ruled out already.
Invariant: every node keeps its id. The language may be another one: the caller asks whether the text is still
refused, and checks on the whole schema what it finds.
Cost: linear in the schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from structgen.ir.schema import SchemaIR

from .contradictions import Node

__all__ = ["LONG", "near_branches", "reached"]

LONG = 8
"""Branches of a union that is worth it."""
_UNIONS = ("anyOf", "oneOf")
_ONE = (
    *("items", "additionalProperties", "propertyNames", "contains", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_MANY = ("values", "prefixItems", "allOf", "not", "ref")
_NAMED = ("properties", "patternProperties")


def near_branches(ir: SchemaIR, near: list[str]) -> SchemaIR | None:
    """`near` are pointers of sub-schemas; None: there is nothing to leave out."""
    nodes = ir["nodes"]
    leading = _leading_to(nodes, set(near))
    changed = [_kept(node, leading) for node in nodes]
    if all(one is other for one, other in zip(changed, nodes, strict=True)):
        return None
    kept = reached(changed, ir["root"])
    left = tuple([node if place in kept else True for place, node in enumerate(changed)])
    return SchemaIR(nodes=left, root=ir["root"], options=ir["options"], spelled=ir.spelled)


def _kept(node: Node | bool, leading: set[int]) -> Node | bool:
    if isinstance(node, bool):
        return node
    for key in _UNIONS:
        groups = [_of_group(group, leading) for group in node.get(key, ())]
        if groups != list(node.get(key, ())):
            node = {**node, key: tuple(groups)}
    return node


def _of_group(group: tuple[int, ...], leading: set[int]) -> tuple[int, ...]:
    if len(group) < LONG:
        return group
    return tuple([one for one in group if one in leading]) or group


def _leading_to(nodes: tuple[Any, ...], near: set[str]) -> set[int]:
    """Nodes at these pointers and those that reach them."""
    above: dict[int, list[int]] = {}
    pending = []
    for place, node in enumerate(nodes):
        if isinstance(node, bool):
            continue
        if node["pointer"] in near:
            pending.append(place)
        for child in _children(node):
            above.setdefault(child, []).append(place)
    found = set(pending)
    while pending:
        for place in above.get(pending.pop(), ()):
            if place not in found:
                found.add(place)
                pending.append(place)
    return found


def reached(nodes: list[Node | bool], root: int) -> set[int]:
    """The nodes that `root` leads to."""
    found, pending = {root}, [root]
    while pending:
        node = nodes[pending.pop()]
        for child in () if isinstance(node, bool) else _children(node):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found


def _children(node: Node) -> Iterator[int]:
    for key in _ONE:
        if key in node:
            yield node[key]
    for key in _MANY:
        yield from node.get(key, ())
    for key in _UNIONS:
        for group in node.get(key, ()):
            yield from group
    for key in _NAMED:
        yield from (child for _, child in node.get(key, ()))
