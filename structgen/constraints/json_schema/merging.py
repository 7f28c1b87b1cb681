"""Join two schema IRs under one new root.

Why: `&` and `|` of constraints must not concatenate the schemas' texts: each has its own draft, base URI and ``#``.

Invariant: the node ids of the second operand are shifted by the same amount everywhere; nothing else changes.

Cost: linear in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structgen.ir.schema import SchemaIR

__all__ = ["combine"]

_SINGLE = frozenset(
    [
        "additionalProperties",
        "items",
        "contains",
        "propertyNames",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
_LISTS = ("values", "prefixItems", "allOf", "not", "ref")
_GROUPS = ("anyOf", "oneOf")
_BY_NAME = ("properties", "patternProperties")

Shift = Callable[[Any], Any]


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


def _shifted(nodes: tuple[Any, ...], offset: int) -> list[Any]:
    shifts: dict[str, Shift] = {key: (lambda one: one + offset) for key in _SINGLE}
    shifts |= {key: (lambda ids: tuple([i + offset for i in ids])) for key in _LISTS}
    shifts |= {
        key: (lambda groups: tuple([tuple([i + offset for i in ids]) for ids in groups])) for key in _GROUPS
    }
    shifts |= {key: (lambda named: tuple([(name, i + offset) for name, i in named])) for key in _BY_NAME}

    def shift(node: Any) -> Any:
        if isinstance(node, bool):
            return node
        return {key: shifts[key](value) if key in shifts else value for key, value in node.items()}

    return [shift(node) for node in nodes]
