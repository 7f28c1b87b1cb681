"""Which keywords of a sub-schema contradict each other: as few as possible.

Why: "no value can satisfy this part" leaves a person searching; "minLength and pattern contradict each other"
does not. The native engine says which sub-schema is empty; here its keywords are left out one by one, and
those without which it is not empty any more remain.
Invariant: the keywords named are contradictory together, and no one of them can be spared.
Cost: one question to the engine for each keyword and each member of `allOf`, at most `QUESTION_LIMIT`; only
where a schema has failed already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from structgen.constraints.base import Blame
from structgen.ir.schema import SchemaIR

from .endless_cycles import endless_cycle

__all__ = ["QUESTION_LIMIT", "Demand", "Node", "contradiction", "demands", "without"]

QUESTION_LIMIT = 64
_NODE_LIMIT = 20_000

Node = dict[str, Any]
_LISTED = "the listed values"
_FALSE = "the schema `false` allows nothing"
_ENDLESS = "every value would have to hold another one, without end"
_HOW_TO_END = "Let it end somewhere: leave a key out of `required`, or allow another type, as null."
_CHANGE_ONE = "Change one of them, unless the vocabulary lacks characters that they ask for."
_CHANGE_IT = "Change it, unless the vocabulary lacks characters that it asks for."
_NAMES = {
    "types": "type",
    "integer": "type",
    "digits": "type",
    **dict.fromkeys(("strings", "numbers", "literals", "values"), _LISTED),
    "ref": "$ref",
}
_VALUES = ("strings", "numbers", "literals", "values")
_SEVERAL = ("allOf", "anyOf", "oneOf", "not", "ref")
"""Keys whose values are lists of demands, each of which may be spared."""
_TOGETHER = (
    _VALUES,
    ("if", "then", "else"),
    ("types", "integer", "digits"),
    ("contains", "minContains", "maxContains"),
)
"""Keys that say one thing together."""


def contradiction(ir: SchemaIR, pointer: str, is_empty: Callable[[SchemaIR], bool]) -> Blame | None:
    """The contradictory keywords of the sub-schema at `pointer`, in words; None if they cannot be told."""
    nodes = ir["nodes"]
    if pointer in ("", "#") and nodes[ir["root"]] is False:
        return Blame(_FALSE, "Write a schema that allows some value; `true` or {} allows every one.")
    if len(nodes) > _NODE_LIMIT:
        return None
    found = [i for i, node in enumerate(nodes) if isinstance(node, dict) and node["pointer"] == pointer]
    if not found:
        return None
    place = found[0]
    node = nodes[place]

    def still_empty(candidate: Node) -> bool:
        changed = (*nodes[:place], candidate, *nodes[place + 1 :])
        return is_empty(SchemaIR(nodes=changed, root=place, options=ir["options"]))

    if not still_empty(node):
        return None
    cycle = endless_cycle(nodes, place)
    if cycle:
        shown = cycle if len(cycle) <= 8 else [*cycle[:4], "…", *cycle[-3:]]
        return Blame(f"{_ENDLESS}: {' -> '.join(shown)}", _HOW_TO_END)
    parts = list(demands(node))
    if len(parts) > QUESTION_LIMIT:
        return None
    for demand in parts:
        smaller = without(node, demand)
        if still_empty(smaller):
            node = smaller
    names = list(dict.fromkeys(_names(node, pointer, nodes)))
    if len(names) < 2:
        verb = "rule" if names == [_LISTED] else "rules"
        return Blame(f"{names[0]} alone {verb} out every value", _CHANGE_IT) if names else None
    return Blame(f"{', '.join(names[:-1])} and {names[-1]} contradict each other", _CHANGE_ONE)


Demand = tuple[tuple[str, Any], ...]
"""Keys of a node, each with the one of its values that may be spared, or None for all of it."""


def demands(node: Node) -> Iterator[Demand]:
    """What can be left out of a node, one after the other."""
    seen = {"pointer"}
    for key in node:
        if key in seen:
            continue
        if key in _SEVERAL:
            yield from (((key, member),) for member in dict.fromkeys(node[key]))
        elif key == "required":
            yield from (((key, name),) for name in node[key])
        else:
            group = next((keys for keys in _TOGETHER if key in keys), (key,))
            seen.update(group)
            yield tuple((one, None) for one in group if one in node)


def without(node: Node, demand: Demand) -> Node:
    """The node that does not make this demand."""
    smaller = dict(node)
    for key, member in demand:
        rest = None if member is None else tuple([one for one in smaller[key] if one != member])
        if rest:
            smaller[key] = rest
        else:
            smaller.pop(key, None)
    return smaller


def _names(node: Node, pointer: str, nodes: tuple[Any, ...]) -> Iterator[str]:
    """The keywords of a node as the schema spells them."""
    for key, value in node.items():
        if key == "pointer":
            continue
        if key == "allOf":
            for member in value:
                other = nodes[member]
                place = other["pointer"] if isinstance(other, dict) else f"{pointer}/allOf"
                # What the front end wrote for another keyword has that keyword's pointer, or the schema's own.
                yield place.removeprefix(f"{pointer}/") if place != pointer else "allOf"
        elif key == "required":
            yield f"required ({', '.join(map(repr, value[:3]))}{', …' if len(value) > 3 else ''})"
        elif key == "anyOf":
            yield from (_of_group(group, pointer, nodes) for group in value)
        else:
            yield _NAMES.get(key, key)


def _of_group(group: tuple[int, ...], pointer: str, nodes: tuple[Any, ...]) -> str:
    """``anyOf``, or the keyword that the front end wrote as alternatives."""
    for member in group:
        if isinstance(nodes[member], dict):
            keyword: str = nodes[member]["pointer"].removeprefix(f"{pointer}/").partition("/")[0]
            return keyword if not keyword.startswith("#") else "anyOf"
    return "anyOf"
