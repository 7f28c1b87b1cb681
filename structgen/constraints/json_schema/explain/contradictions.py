"""Find keywords of a sub-schema that contradict each other, as few as possible.

"No value can satisfy this part" leaves a person searching; "minLength and pattern contradict each other" does not.
The core reports which sub-schema is empty. This module leaves out its keywords one by one, and keeps those without
which the sub-schema would not be empty.

Invariant: the reported keywords contradict each other, and no proper subset of them does.

Cost: one emptiness query for each keyword and each member of `allOf`, at most `MAX_DEMANDS`; only after a schema
has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from structgen.constraints.base import Blame
from structgen.ir.schema import SchemaIR

from ..nodes import Node
from .endless_cycles import find_endless_cycle

__all__ = ["MAX_DEMANDS", "Demand", "demands", "explain_contradiction", "without"]

MAX_DEMANDS = 64
_NODE_LIMIT = 20_000

_LISTED_VALUES = "the listed values"
_NOTHING_ALLOWED = "the schema `false` allows no value"
_ENDLESS = "every value would have to contain another one, without end"
_HOW_TO_END = "End the recursion: remove a key from `required`, or allow another type such as null."
_CHANGE_ONE = "Change one of them, unless the vocabulary lacks characters that they require."
_CHANGE_IT = "Change it, unless the vocabulary lacks characters that it requires."
_NAMES = {
    "types": "type",
    "integer": "type",
    "digits": "type",
    **dict.fromkeys(("strings", "numbers", "literals", "values"), _LISTED_VALUES),
    "ref": "$ref",
}
_VALUES = ("strings", "numbers", "literals", "values")
_LISTS_OF_DEMANDS = ("allOf", "anyOf", "oneOf", "not", "ref")
"""Keys whose values are lists of demands, each of which can be left out."""
_JOINT_KEYS = (
    _VALUES,
    ("if", "then", "else"),
    ("types", "integer", "digits"),
    ("contains", "minContains", "maxContains"),
)
"""Keys that express one rule together."""


def explain_contradiction(ir: SchemaIR, pointer: str, is_empty: Callable[[SchemaIR], bool]) -> Blame | None:
    """Return a sentence about the keywords of the sub-schema at `pointer` that contradict each other.

    Args:
        ir: The whole schema.
        pointer: JSON pointer of an empty sub-schema.
        is_empty: Returns whether it is proven that no value satisfies a schema.

    Returns:
        The reason and a hint, or None if no keyword can be named.
    """
    nodes = ir["nodes"]
    if pointer in ("", "#") and nodes[ir["root"]] is False:
        return Blame(
            _NOTHING_ALLOWED, "Write a schema that allows some value; `true` or {} allows every value."
        )
    if len(nodes) > _NODE_LIMIT:
        return None
    candidates = [
        number for number, node in enumerate(nodes) if isinstance(node, dict) and node["pointer"] == pointer
    ]
    if not candidates:
        return None
    node_id = candidates[0]
    node = nodes[node_id]

    def still_empty(candidate: Node) -> bool:
        changed = (*nodes[:node_id], candidate, *nodes[node_id + 1 :])
        return is_empty(SchemaIR(nodes=changed, root=node_id, options=ir["options"]))

    if not still_empty(node):
        return None
    cycle = find_endless_cycle(nodes, node_id)
    if cycle:
        shown = cycle if len(cycle) <= 8 else [*cycle[:4], "…", *cycle[-3:]]
        return Blame(f"{_ENDLESS}: {' -> '.join(shown)}", _HOW_TO_END)
    parts = list(demands(node))
    if len(parts) > MAX_DEMANDS:
        return None
    for demand in parts:
        smaller = without(node, demand)
        if still_empty(smaller):
            node = smaller
    names = list(dict.fromkeys(_names(node, pointer, nodes)))
    if len(names) < 2:
        verb = "rule" if names == [_LISTED_VALUES] else "rules"
        return Blame(f"{names[0]} alone {verb} out every value", _CHANGE_IT) if names else None
    return Blame(f"{', '.join(names[:-1])} and {names[-1]} contradict each other", _CHANGE_ONE)


Demand = tuple[tuple[str, Any], ...]
"""Keys of a node, each with one of its values to leave out, or None for all of it."""


def demands(node: Node) -> Iterator[Demand]:
    """Yield what can be left out of a node, one demand at a time."""
    seen = {"pointer"}
    for key in node:
        if key in seen:
            continue
        if key in _LISTS_OF_DEMANDS:
            yield from (((key, member),) for member in dict.fromkeys(node[key]))
        elif key == "required":
            yield from (((key, name),) for name in node[key])
        else:
            group = next((keys for keys in _JOINT_KEYS if key in keys), (key,))
            seen.update(group)
            yield tuple((member_key, None) for member_key in group if member_key in node)


def without(node: Node, demand: Demand) -> Node:
    """Return the node without this demand."""
    smaller = dict(node)
    for key, member in demand:
        rest = None if member is None else tuple([other for other in smaller[key] if other != member])
        if rest:
            smaller[key] = rest
        else:
            smaller.pop(key, None)
    return smaller


def _names(node: Node, pointer: str, nodes: tuple[Any, ...]) -> Iterator[str]:
    """Yield the keywords of a node as the schema spells them."""
    for key, value in node.items():
        if key == "pointer":
            continue
        if key == "allOf":
            for member in value:
                other = nodes[member]
                where = other["pointer"] if isinstance(other, dict) else f"{pointer}/allOf"
                # A node that the front end generated for another keyword has that keyword's pointer, or the schema's.
                yield where.removeprefix(f"{pointer}/") if where != pointer else "allOf"
        elif key == "required":
            yield f"required ({', '.join(map(repr, value[:3]))}{', …' if len(value) > 3 else ''})"
        elif key == "anyOf":
            yield from (_name_of_group(group, pointer, nodes) for group in value)
        else:
            yield _NAMES.get(key, key)


def _name_of_group(group: tuple[int, ...], pointer: str, nodes: tuple[Any, ...]) -> str:
    """Return ``anyOf``, or the keyword for which the front end generated the alternatives."""
    for member in group:
        if isinstance(nodes[member], dict):
            keyword: str = nodes[member]["pointer"].removeprefix(f"{pointer}/").partition("/")[0]
            return keyword if not keyword.startswith("#") else "anyOf"
    return "anyOf"
