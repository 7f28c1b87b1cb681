"""Reduce the long unions of a schema to the branches that lead to a position.

Why: finding the broken rule of a text compiles the schema many times. Of a union of hundreds of object types, only
the branches matter that the text has not ruled out.

Invariant: every node keeps its id. The language may change. So the caller checks that the text is still rejected,
and confirms its findings on the whole schema.

Cost: linear in the schema.
"""

from __future__ import annotations

from typing import Any

from structgen.ir.schema import SchemaIR

from ..nodes import Node, child_ids

__all__ = ["LONG_UNION", "keep_relevant_branches", "reachable_nodes"]

LONG_UNION = 8
"""Number of branches from which a union is reduced."""
_UNIONS = ("anyOf", "oneOf")


def keep_relevant_branches(ir: SchemaIR, pointers: list[str]) -> SchemaIR | None:
    """Return the schema with reduced unions, or None if there is nothing to leave out.

    Args:
        ir: The schema.
        pointers: JSON pointers of the sub-schemas that apply at the position.
    """
    nodes = ir["nodes"]
    leading = _leading_to(nodes, set(pointers))
    changed = [_reduced(node, leading) for node in nodes]
    if all(one is other for one, other in zip(changed, nodes, strict=True)):
        return None
    kept = reachable_nodes(changed, ir["root"])
    left = tuple([node if node_id in kept else True for node_id, node in enumerate(changed)])
    return SchemaIR(nodes=left, root=ir["root"], options=ir["options"], spelled=ir.spelled)


def _reduced(node: Node | bool, leading: set[int]) -> Node | bool:
    if isinstance(node, bool):
        return node
    for key in _UNIONS:
        groups = [_relevant_part(group, leading) for group in node.get(key, ())]
        if groups != list(node.get(key, ())):
            node = {**node, key: tuple(groups)}
    return node


def _relevant_part(group: tuple[int, ...], leading: set[int]) -> tuple[int, ...]:
    if len(group) < LONG_UNION:
        return group
    return tuple([one for one in group if one in leading]) or group


def _leading_to(nodes: tuple[Any, ...], pointers: set[str]) -> set[int]:
    """Return the nodes at these pointers, and those from which one can be reached."""
    above: dict[int, list[int]] = {}
    pending = []
    for node_id, node in enumerate(nodes):
        if isinstance(node, bool):
            continue
        if node["pointer"] in pointers:
            pending.append(node_id)
        for child in child_ids(node):
            above.setdefault(child, []).append(node_id)
    found = set(pending)
    while pending:
        for node_id in above.get(pending.pop(), ()):
            if node_id not in found:
                found.add(node_id)
                pending.append(node_id)
    return found


def reachable_nodes(nodes: list[Node | bool], root: int) -> set[int]:
    """Return the nodes that can be reached from `root`, with `root`."""
    found, pending = {root}, [root]
    while pending:
        node = nodes[pending.pop()]
        for child in child_ids(node):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found
