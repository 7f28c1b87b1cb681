"""Join two schema IRs under one new root.

Why: `&` and `|` of constraints must not concatenate the schemas' texts: each has its own draft, base URI and ``#``.

Invariant: the node ids of the second operand are shifted by the same amount everywhere; nothing else changes.

Cost: linear in both.
"""

from __future__ import annotations

from typing import Any

from structgen.ir.schema import SchemaIR

from .nodes import Node, renumber_node

__all__ = ["combine"]


def combine(keyword: str, first: SchemaIR, second: SchemaIR) -> SchemaIR:
    """Return the IR whose root has both schemas under ``allOf`` or ``anyOf``.

    Of two options for the spelling of integers, the narrower one holds.
    """
    start = 1 + len(first["nodes"])
    both = (1 + first["root"], start + second["root"])
    root = {"pointer": "#", keyword: both if keyword == "allOf" else (both,)}
    nodes = (root, *_shifted(first["nodes"], 1), *_shifted(second["nodes"], start))
    narrower = next((one for one in (first, second) if one["options"]["integers"] == "digits"), first)
    spelled = {
        node_id + offset: names
        for one, offset in ((first, 1), (second, start))
        for node_id, names in one.spelled.items()
    }
    return SchemaIR(nodes=nodes, root=0, options=narrower["options"], spelled=spelled)


def _shifted(nodes: tuple[Any, ...], offset: int) -> list[Node | bool]:
    return [renumber_node(node, lambda node_id: node_id + offset) for node in nodes]
