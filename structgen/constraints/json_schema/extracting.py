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

from .nodes import child_ids, renumber_node

__all__ = ["extract_part"]


def extract_part(ir: SchemaIR, root: int, extra: Mapping[str, Any]) -> SchemaIR:
    """Return the schema whose root is this node; the id after the last one denotes the node `extra`."""
    nodes = ir["nodes"]

    def node(node_id: int) -> Mapping[str, Any] | bool:
        return extra if node_id == len(nodes) else nodes[node_id]

    numbers = {root: 0}
    order = [root]
    for node_id in order:
        for inner in child_ids(node(node_id)):
            if inner not in numbers:
                numbers[inner] = len(order)
                order.append(inner)
    spelled = {numbers[node_id]: names for node_id, names in ir.spelled.items() if node_id in numbers}
    content = tuple([renumber_node(node(node_id), numbers.__getitem__) for node_id in order])
    return SchemaIR(nodes=content, root=0, options=ir["options"], spelled=spelled)
