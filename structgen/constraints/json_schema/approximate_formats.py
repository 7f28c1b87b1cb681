"""Texts that an approximate format leaves in doubt, where the format is denied.

Why: the language of such a format is narrower than the format, so what is outside it need not be invalid: its
complement, under ``not``, ``if`` or the other branches of ``oneOf``, is wider than the truth.
What: a text is *settled* if it is in the language, or certainly not of the format (`Format.settled`). Beside each
sub-schema that is denied somewhere stands its *shadow*, which asks of every text that the sub-schema may look at,
whatever its keywords make of it, that it is settled for the formats there.
Invariant: sound, as settled texts are judged as the specification does; a schema without approximate formats under a
denial keeps its nodes. Values with other texts are lost, even where the format is of no account.
Cost: linear in what is denied, where the schema has approximate formats; else nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["settle_doubts"]

_Node = dict[str, Any]
_DENYING = frozenset(["not", "oneOf", "if", "maxContains"])


def settle_doubts(nodes: list[Any], settled: Mapping[int, Any]) -> None:
    """Puts shadows into `nodes`, where there are denials; `settled` has a language by the id of each node with such a
    format. Node ids stay; new nodes come last."""
    if not settled:
        return
    denying = [node for node in nodes if isinstance(node, dict) and not _DENYING.isdisjoint(node)]
    below = _reached(nodes, [one for node in denying for one in _denials(node)])
    if below.isdisjoint(settled):
        return
    looking = _leading_to(nodes, below, settled)
    shadows = _Shadows(nodes, settled, looking)
    added = {}
    for place, node in enumerate(nodes[:]):
        if isinstance(node, dict):
            found = [shadows.of(one) for one in dict.fromkeys(_denied(node)) if one in looking]
            if "maxContains" in node and node.get("contains") in looking:
                found.append(shadows.of_items(node, node["contains"]))
            if found:
                added[place] = found
    shadows.make()
    for place, ids in added.items():
        nodes[place]["allOf"] = (*nodes[place].get("allOf", ()), *ids)


class _Shadows:
    def __init__(self, nodes: list[Any], settled: Mapping[int, Any], looking: set[int]) -> None:
        self._nodes = nodes
        self._settled = settled
        self._looking = looking
        self._known: dict[int, int] = {}
        self._pending: list[int] = []

    def of(self, place: int) -> int:
        """The id of the shadow of one of those that lead to a format."""
        if place not in self._known:
            self._known[place] = len(self._nodes)
            self._nodes.append({})
            self._pending.append(place)
        return self._known[place]

    def of_items(self, node: _Node, place: int) -> int:
        """The id of a node that asks the shadow of every item."""
        self._nodes.append({"pointer": node["pointer"], "items": self.of(place)})
        return len(self._nodes) - 1

    def make(self) -> None:
        """Writes all that were asked for, and those that they need."""
        while self._pending:
            place = self._pending.pop()
            self._nodes[self._known[place]].update(self._shadow(place))

    def _shadow(self, place: int) -> _Node:
        node = self._nodes[place]
        shadow: _Node = {"pointer": node["pointer"]}
        if place in self._settled:
            shadow["format"] = self._settled[place]
        self._of_members(node, shadow)
        beside = [self.of(one) for one in dict.fromkeys(_beside(node)) if one in self._looking]
        if node.get("contains") in self._looking:
            beside.append(self.of_items(node, node["contains"]))
        if beside:
            shadow["allOf"] = tuple(beside)
        return shadow

    def _of_members(self, node: _Node, shadow: _Node) -> None:
        for keyword in ("properties", "patternProperties"):
            rest = node.get("additionalProperties") in self._looking
            pairs = [
                (name, self.of(one) if one in self._looking else self._anything())
                for name, one in node.get(keyword, ())
                if rest or one in self._looking
            ]
            if pairs:
                shadow[keyword] = tuple(pairs)
        if any(one in self._looking for one in node.get("prefixItems", ())) or (
            "prefixItems" in node and node.get("items") in self._looking
        ):
            shadow["prefixItems"] = tuple(
                [self.of(one) if one in self._looking else self._anything() for one in node["prefixItems"]]
            )
        for keyword in ("additionalProperties", "propertyNames", "items"):
            if node.get(keyword) in self._looking:
                shadow[keyword] = self.of(node[keyword])

    def _anything(self) -> int:
        if -1 not in self._known:
            self._known[-1] = len(self._nodes)
            self._nodes.append(True)
        return self._known[-1]


def _denied(node: _Node) -> Iterator[int]:
    """The sub-schemas of the same value on whose refusal something may depend."""
    yield from node.get("not", ())
    for branches in node.get("oneOf", ()):
        if len(branches) > 1:
            yield from branches
    if "if" in node:
        yield node["if"]


def _denials(node: _Node) -> Iterator[int]:
    """Those, and the sub-schema of which only so many items may be."""
    yield from _denied(node)
    if "maxContains" in node and "contains" in node:
        yield node["contains"]


def _beside(node: _Node) -> Iterator[int]:
    """The sub-schemas of the same value."""
    for keyword in ("allOf", "not", "ref"):
        yield from node.get(keyword, ())
    for keyword in ("anyOf", "oneOf"):
        for branches in node.get(keyword, ()):
            yield from branches
    for keyword in ("if", "then", "else"):
        if keyword in node:
            yield node[keyword]


def _below(node: _Node) -> Iterator[int]:
    """Those of its members and items."""
    for keyword in ("properties", "patternProperties"):
        for _, one in node.get(keyword, ()):
            yield one
    yield from node.get("prefixItems", ())
    for keyword in ("additionalProperties", "propertyNames", "items", "contains"):
        if keyword in node:
            yield node[keyword]


def _reached(nodes: list[Any], places: list[int]) -> set[int]:
    """The ids of these nodes, and of all that they apply to the same value or to its members."""
    found = set(places)
    pending = list(found)
    while pending:
        node = nodes[pending.pop()]
        if isinstance(node, dict):
            for one in (*_beside(node), *_below(node)):
                if one not in found:
                    found.add(one)
                    pending.append(one)
    return found


def _leading_to(nodes: list[Any], among: set[int], settled: Mapping[int, Any]) -> set[int]:
    """The ids among these from which one of `settled` can be reached."""
    from_: dict[int, list[int]] = {}
    for place in among:
        node = nodes[place]
        if isinstance(node, dict):
            for one in (*_beside(node), *_below(node)):
                from_.setdefault(one, []).append(place)
    found = among.intersection(settled)
    pending = list(found)
    while pending:
        for place in from_.get(pending.pop(), ()):
            if place not in found:
                found.add(place)
                pending.append(place)
    return found
