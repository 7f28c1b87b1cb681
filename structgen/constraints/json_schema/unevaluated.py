"""``unevaluatedProperties`` and ``unevaluatedItems``, written with the other keywords.

Why: what counts as evaluated depends on which branches of ``anyOf``, ``oneOf`` and ``if`` are valid, and every
other part of the engine is simpler for not knowing about it. So a node that has such a keyword is rewritten. Let
U be what is evaluated in any case and C1..Cn the branches that evaluate more when they are valid. For each subset
T of the branches the value must satisfy

    one of the branches outside T   or   "all but U and what T evaluates satisfies the keyword's schema"

The subset of the branches that are valid gives the meaning, and all larger subsets demand less. Where properties are
named, not matched by patterns, many branches take fewer demands: for each set of names that the same branches evaluate,

    one of those branches   or   "these names satisfy the keyword's schema"

and the same for all names that no branch has, with the branches that evaluate everything.
Invariant: exact. What a node evaluates is what the specification collects as annotations: of itself, of
``allOf`` and ``$ref`` without condition, nothing of ``not``.
Cost: two to the number of conditional branches, at most `BRANCH_LIMIT` of them; for named properties linear.
Source: JSON Schema 2020-12 core, sections 11.2 and 11.3; in 2019-09 ``contains`` evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from structgen.errors import LimitExceeded, UnsupportedKeyword

if TYPE_CHECKING:
    from .reader import Node, Reader

__all__ = ["BRANCH_LIMIT", "Notes", "rewrite_unevaluated"]

BRANCH_LIMIT = 8
_FEW_BRANCHES = 4
"""Up to so many, subsets of branches make fewer nodes than sets of names."""
_VISIT_LIMIT = 10_000
_COPY_LIMIT = 1_000_000

Condition = frozenset[int]
"""Nodes that are all valid."""


@dataclass
class Notes:
    """What the reader saw that the IR does not show, by node id."""

    places: list[int] = field(default_factory=list)
    """Nodes with one of the two keywords."""
    all_items: set[int] = field(default_factory=set)
    """``items`` or another keyword with the schema true: evaluates all, demands nothing."""
    all_properties: set[int] = field(default_factory=set)
    contains: dict[int, int] = field(default_factory=dict)
    """Sub-schema of ``contains``, where it evaluates what it matches."""
    lone_ifs: dict[int, int] = field(default_factory=dict)
    """``if`` without ``then`` and ``else``."""


@dataclass
class _Evaluated:
    """What a node evaluates of an object or of an array."""

    everything: bool = False
    names: dict[str, None] = field(default_factory=dict)
    patterns: dict[Any, None] = field(default_factory=dict)
    prefix: int = 0
    contains: dict[int, None] = field(default_factory=dict)

    def add(self, other: _Evaluated) -> None:
        self.everything |= other.everything
        self.names |= other.names
        self.patterns |= other.patterns
        self.prefix = max(self.prefix, other.prefix)
        self.contains |= other.contains

    def adds_to(self, other: _Evaluated) -> bool:
        return not other.everything and (
            self.everything
            or not self.names.keys() <= other.names.keys()
            or not self.patterns.keys() <= other.patterns.keys()
            or self.prefix > other.prefix
            or not self.contains.keys() <= other.contains.keys()
        )


def rewrite_unevaluated(reader: Reader) -> None:
    """Rewrites the nodes in ``reader.notes.places``; to be called when all nodes are there."""
    pending = []
    for place in reader.notes.places:
        node = reader.nodes[place]
        assert isinstance(node, dict)
        for keyword, of_object in (("unevaluatedProperties", True), ("unevaluatedItems", False)):
            if keyword in node:
                found = _collect(reader, place, of_object)
                pending.append((node, keyword, found))
    # subtle: only now, for the keywords evaluate everything for a node further out.
    for node, keyword, found in pending:
        _rewrite(reader, node, keyword, node.pop(keyword), found)


def _rewrite(
    reader: Reader, node: Node, keyword: str, schema: int, found: dict[Condition, _Evaluated]
) -> None:
    always = found.pop(frozenset(), _Evaluated())
    branches = [(condition, more) for condition, more in found.items() if more.adds_to(always)]
    pointer = f"{node['pointer']}/{keyword}"
    has_patterns = bool(always.patterns) or any(more.patterns for _, more in branches)
    if len(branches) > _FEW_BRANCHES and keyword == "unevaluatedProperties" and not has_patterns:
        _rewrite_by_names(reader, node, schema, always, branches)
        return
    if len(branches) > BRANCH_LIMIT:
        raise UnsupportedKeyword(
            f"{keyword} beside {len(branches)} branches that may evaluate something; {BRANCH_LIMIT} can be read",
            pointer=pointer,
            keyword=keyword,
            hint="Name the properties of all branches in `properties` beside it, with the schema true.",
        )
    _check_size(len(branches), always, [more for _, more in branches], pointer)
    valid = [_all_valid(reader, pointer, condition) for condition, _ in branches]
    for chosen in product((False, True), repeat=len(branches)):
        evaluated = _Evaluated()
        evaluated.add(always)
        for taken, (_, more) in zip(chosen, branches, strict=True):
            if taken:
                evaluated.add(more)
        if evaluated.everything:
            continue
        rest = reader.generated(_rest(reader, pointer, schema, evaluated, keyword == "unevaluatedProperties"))
        others = [branch for taken, branch in zip(chosen, valid, strict=True) if not taken]
        if others:
            node["anyOf"] = (*node.get("anyOf", ()), (*others, rest))
        else:
            node["allOf"] = (*node.get("allOf", ()), rest)


def _rewrite_by_names(
    reader: Reader, node: Node, schema: int, always: _Evaluated, branches: list[tuple[Condition, _Evaluated]]
) -> None:
    if always.everything:
        return
    pointer = f"{node['pointer']}/unevaluatedProperties"
    valid = [_all_valid(reader, pointer, condition) for condition, _ in branches]
    by_name: dict[str, list[int]] = {}
    for branch, (_, more) in zip(valid, branches, strict=True):
        for name in more.names:
            by_name.setdefault(name, []).append(branch)
    whole = [branch for branch, (_, more) in zip(valid, branches, strict=True) if more.everything]
    names_of: dict[tuple[int, ...], list[str]] = {}
    for name, some in by_name.items():
        if name not in always.names:
            names_of.setdefault((*some, *whole), []).append(name)
    for evaluating, names in names_of.items():
        own = reader.generated({"pointer": pointer, "properties": tuple([(name, schema) for name in names])})
        node["anyOf"] = (*node.get("anyOf", ()), (*dict.fromkeys(evaluating), own))
    named = _Evaluated(names=always.names | dict.fromkeys(by_name))
    rest = reader.generated(_rest(reader, pointer, schema, named, True))
    if whole:
        node["anyOf"] = (*node.get("anyOf", ()), (*whole, rest))
    else:
        node["allOf"] = (*node.get("allOf", ()), rest)


def _check_size(branches: int, always: _Evaluated, more: list[_Evaluated], pointer: str) -> None:
    copied = sum(len(one.names) + len(one.patterns) + one.prefix for one in (always, *more)) << branches
    if copied > _COPY_LIMIT:
        raise LimitExceeded(
            f"what is evaluated here takes {copied:,} entries to write out, more than {_COPY_LIMIT:,}",
            limit="evaluated_entries",
            where=pointer,
            hint="Name the properties of all branches in `properties` beside it, with the schema true.",
        )


def _all_valid(reader: Reader, pointer: str, condition: Condition) -> int:
    if len(condition) == 1:
        return next(iter(condition))
    return reader.generated({"pointer": pointer, "allOf": tuple(sorted(condition))})


def _rest(reader: Reader, pointer: str, schema: int, evaluated: _Evaluated, of_object: bool) -> Node:
    """The node "what is not evaluated satisfies `schema`"."""
    node: Node = {"pointer": pointer}
    free = reader.true()
    if of_object:
        node["properties"] = tuple([(name, free) for name in evaluated.names])
        node["patternProperties"] = tuple([(pattern, free) for pattern in evaluated.patterns])
        node["additionalProperties"] = schema
        return node
    node["prefixItems"] = (free,) * evaluated.prefix
    if evaluated.contains:
        schema = reader.generated({"pointer": pointer, "anyOf": ((schema, *evaluated.contains),)})
    node["items"] = schema
    return node


def _collect(reader: Reader, start: int, of_object: bool) -> dict[Condition, _Evaluated]:
    """What the node evaluates, by the condition under which it does."""
    found: dict[Condition, _Evaluated] = {}
    pending: list[tuple[int, Condition]] = [(start, frozenset())]
    visits = 0
    while pending:
        place, condition = pending.pop()
        visits += 1
        node = reader.nodes[place]
        if visits > _VISIT_LIMIT or len(found) > _VISIT_LIMIT:
            raise UnsupportedKeyword(
                "an unevaluated keyword beside too many branches",
                pointer=node["pointer"] if isinstance(node, dict) else "#",
                keyword="unevaluatedProperties" if of_object else "unevaluatedItems",
            )
        own = _own(reader, place, of_object, itself=place == start)
        found.setdefault(condition, _Evaluated()).add(own)
        # A node that demands nothing is `true` by now, but may have a lone `if`.
        pending.extend(_branches(reader, place, node if isinstance(node, dict) else {}, condition))
    return found


def _own(reader: Reader, place: int, of_object: bool, *, itself: bool) -> _Evaluated:
    """What a node's own keywords evaluate."""
    node = reader.nodes[place]
    notes = reader.notes
    keys: Node = node if isinstance(node, dict) else {}
    if of_object:
        everything = "additionalProperties" in keys or place in notes.all_properties
        everything |= "unevaluatedProperties" in keys and not itself
        # A property that must not be there is none to be evaluated.
        names = [name for name, child in keys.get("properties", ()) if reader.nodes[child] is not False]
        patterns = [pattern for pattern, _ in keys.get("patternProperties", ())]
        return _Evaluated(everything, dict.fromkeys(names), dict.fromkeys(patterns))
    everything = "items" in keys or place in notes.all_items
    everything |= "unevaluatedItems" in keys and not itself
    contains = [notes.contains[place]] if place in notes.contains else []
    return _Evaluated(everything, prefix=len(keys.get("prefixItems", ())), contains=dict.fromkeys(contains))


def _branches(
    reader: Reader, place: int, node: Node, condition: Condition
) -> Iterator[tuple[int, Condition]]:
    """The nodes that look at the same value, each with the condition under which it counts."""
    for child in (*node.get("allOf", ()), *node.get("ref", ())):
        yield child, condition
    for group in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        for child in group:
            yield child, condition | {child}
    tested = node.get("if", reader.notes.lone_ifs.get(place))
    if tested is None:
        return
    yield tested, condition | {tested}
    if "then" in node:
        yield node["then"], condition | {tested}
    if "else" in node:
        refuted = reader.generated({"pointer": node["pointer"], "not": (tested,)})
        yield node["else"], condition | {refuted}
