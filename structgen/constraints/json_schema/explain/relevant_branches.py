"""Reduce the long unions of a schema to the branches that lead to a position.

Why: finding the broken rule of a text compiles the schema many times. Of a union of hundreds of object types, only
the branches matter that the text has not ruled out.

Invariant: every node keeps its id. The language may change. So the caller checks that the text is still rejected,
and confirms its findings on the whole schema.

Cost: linear in the schema.
"""

from __future__ import annotations

from structgen.ir.schema import SchemaIR

from ..nodes import Node, nodes_leading_to, reachable_nodes

__all__ = ["LONG_UNION", "keep_relevant_branches"]

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
    wanted = set(pointers)
    targets = [
        node_id for node_id, node in enumerate(nodes) if isinstance(node, dict) and node["pointer"] in wanted
    ]
    leading = nodes_leading_to(nodes, targets, range(len(nodes)))
    changed = [_reduced(node, leading) for node in nodes]
    if all(node is original for node, original in zip(changed, nodes, strict=True)):
        return None
    kept = reachable_nodes(changed, [ir["root"]])
    reduced = tuple([node if node_id in kept else True for node_id, node in enumerate(changed)])
    return SchemaIR(nodes=reduced, root=ir["root"], options=ir["options"], spelled=ir.spelled)


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
    return tuple([branch for branch in group if branch in leading]) or group
