"""Two schema IRs joined under one new root.

Why: `&` and `|` of constraints must not splice the schemas' texts: each has its own draft, base and ``#``.
Invariant: node ids of the second operand are shifted by the same amount everywhere; nothing else changes.
Cost: linear in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structgen.ir.schema import SchemaIR

__all__ = ["combine"]

_ONE = frozenset(
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
_MANY = ("values", "prefixItems", "allOf", "not", "ref")
_GROUPS = ("anyOf", "oneOf")
_NAMED = ("properties", "patternProperties")

Shift = Callable[[Any], Any]


def combine(keyword: str, first: SchemaIR, second: SchemaIR) -> SchemaIR:
    """The IR whose root has both under ``allOf`` or ``anyOf``; the narrower spelling of integers holds."""
    start = 1 + len(first["nodes"])
    both = (1 + first["root"], start + second["root"])
    root = {"pointer": "#", keyword: both if keyword == "allOf" else (both,)}
    nodes = (root, *_shifted(first["nodes"], 1), *_shifted(second["nodes"], start))
    narrower = next((one for one in (first, second) if one["options"]["integers"] == "digits"), first)
    spelled = {
        place + by: names for one, by in ((first, 1), (second, start)) for place, names in one.spelled.items()
    }
    return SchemaIR(nodes=nodes, root=0, options=narrower["options"], spelled=spelled)


def _shifted(nodes: tuple[Any, ...], by: int) -> list[Any]:
    shifts: dict[str, Shift] = {key: (lambda one: one + by) for key in _ONE}
    shifts |= {key: (lambda many: tuple([i + by for i in many])) for key in _MANY}
    shifts |= {
        key: (lambda groups: tuple([tuple([i + by for i in many]) for many in groups])) for key in _GROUPS
    }
    shifts |= {key: (lambda named: tuple([(name, i + by) for name, i in named])) for key in _NAMED}

    def shift(node: Any) -> Any:
        if isinstance(node, bool):
            return node
        return {key: shifts[key](value) if key in shifts else value for key, value in node.items()}

    return [shift(node) for node in nodes]
