"""Rewrite ``unevaluatedProperties`` and ``unevaluatedItems`` in terms of the other keywords.

Why: which properties are evaluated depends on which branches of ``anyOf``, ``oneOf`` and ``if`` are valid. All
other parts of the core are simpler because they never see these keywords. So a node that has one is rewritten. Let
U be what is evaluated in any case, and C1..Cn the branches that evaluate more if they are valid. For each subset T
of the branches the value must satisfy

    one of the branches outside T   or   "everything except U and what T evaluates satisfies the keyword's schema"

The subset of the branches that are valid gives the meaning, and all larger subsets demand less. If properties are
named, not matched by patterns, many branches need fewer demands. For each set of names that the same branches
evaluate:

    one of those branches   or   "these names satisfy the keyword's schema"

and the same for all names that no branch has, with the branches that evaluate everything.

If all of C1..Cn are branches of one ``oneOf``, or of an ``anyOf`` whose branches exclude each other, exactly one of
its branches is valid, and that branch alone determines what is evaluated:

    for one of the branches: it is valid, and everything except U and what it evaluates satisfies the keyword's schema

Invariant: exact. A node evaluates what the specification collects as annotations: its own, those of ``allOf`` and
``$ref`` without condition, and none of ``not``.

Cost: each node that applies to the value is visited once, and none below a node that evaluates everything. There
are two to the number of conditional branches demands, with at most `BRANCH_LIMIT` branches; for named properties
the number is linear. The branches of one choice are each visited once more, and written out up to `_CHOICE_LIMIT`
entries.

Source: JSON Schema 2020-12 core, sections 11.2 and 11.3; in 2019-09 ``contains`` evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from structgen.errors import LimitExceeded, UnsupportedKeyword

from .exclusive import are_exclusive
from .node_builder import NodeBuilder
from .nodes import Node

__all__ = [
    "BRANCH_LIMIT",
    "Edge",
    "Evaluated",
    "ObjectKeys",
    "apply_unevaluated",
    "edges_of",
    "rewrite_unevaluated",
]

BRANCH_LIMIT = 8
_FEW_BRANCHES = 4
"""Up to this number of branches, subsets of branches make fewer nodes than sets of names."""
_COPY_LIMIT = 1_000_000
_CHOICE_LIMIT = 20_000
"""Limit on the nodes visited and entries written for the branches of one choice; beyond it, demands are by name."""


@dataclass
class Evaluated:
    """What a node evaluates of an object or of an array."""

    everything: bool = False
    names: dict[str, None] = field(default_factory=dict)
    patterns: dict[Any, None] = field(default_factory=dict)
    prefix: int = 0
    contains: dict[int, None] = field(default_factory=dict)

    def add(self, other: Evaluated) -> None:
        """Add what `other` evaluates to this."""
        self.everything |= other.everything
        self.names |= other.names
        self.patterns |= other.patterns
        self.prefix = max(self.prefix, other.prefix)
        self.contains |= other.contains

    def adds_to(self, other: Evaluated) -> bool:
        """Return whether this evaluates something that `other` does not."""
        return not other.everything and (
            self.everything
            or not self.names.keys() <= other.names.keys()
            or not self.patterns.keys() <= other.patterns.keys()
            or self.prefix > other.prefix
            or not self.contains.keys() <= other.contains.keys()
        )


_Branch = tuple[int, Evaluated]
"""A node, and what is evaluated if it is valid."""


@dataclass
class _Found:
    """What a node evaluates in any case, and what more if a branch is valid.

    If all `branches` come from one group, of which exactly one is valid, `choice` has the same for each branch of
    the group, including what the node evaluates in any case. Otherwise it is None.
    """

    always: Evaluated
    branches: list[_Branch] = field(default_factory=list)
    group: tuple[int, ...] = ()
    visited: int = 0
    choice: list[tuple[int, _Found]] | None = None


def rewrite_unevaluated(builder: NodeBuilder) -> None:
    """Rewrite the recorded nodes; call this after all nodes have been read."""
    pending: list[tuple[Node, str, _Found]] = []
    for node_id in builder.notes.unevaluated:
        node = builder.nodes[node_id]
        assert isinstance(node, dict)
        for keyword, of_object in (("unevaluatedProperties", True), ("unevaluatedItems", False)):
            if keyword in node:
                counting = ObjectKeys() if of_object else _ArrayItems()
                pending.append((node, keyword, _analyse(builder, node_id, counting)))
    # subtle: rewrite only after the analysis, since the keywords themselves evaluate everything for outer nodes.
    for node, keyword, found in pending:
        _rewrite(builder, node, keyword, node.pop(keyword), found)


def apply_unevaluated(
    builder: NodeBuilder, node_id: int, keyword: str, schema: int, counting: Counting
) -> bool:
    """Rewrite a node as if it had this keyword with `schema`; return whether that changes anything."""
    node = builder.nodes[node_id]
    assert isinstance(node, dict)
    before = dict(node)
    _rewrite(builder, node, keyword, schema, _analyse(builder, node_id, counting))
    return node != before


def _rewrite(builder: NodeBuilder, node: Node, keyword: str, schema: int, found: _Found) -> None:
    always, branches = found.always, found.branches
    if always.everything:
        return
    pointer = f"{node['pointer']}/{keyword}"
    if found.choice is not None:
        _rewrite_choice(builder, node, keyword, schema, found.choice)
        return
    has_patterns = bool(always.patterns) or any(more.patterns for _, more in branches)
    if len(branches) > _FEW_BRANCHES and keyword == "unevaluatedProperties" and not has_patterns:
        _rewrite_by_names(builder, node, schema, always, branches)
        return
    if len(branches) > BRANCH_LIMIT:
        raise UnsupportedKeyword(
            f"{keyword} with {len(branches)} branches that may evaluate something; the limit is {BRANCH_LIMIT}",
            pointer=pointer,
            keyword=keyword,
            hint="Declare the properties of all branches in `properties` of the same schema, with the schema true.",
        )
    _check_size(len(branches), always, [more for _, more in branches], pointer)
    for chosen in product((False, True), repeat=len(branches)):
        evaluated = Evaluated()
        evaluated.add(always)
        for taken, (_, more) in zip(chosen, branches, strict=True):
            if taken:
                evaluated.add(more)
        others = [branch for taken, (branch, _) in zip(chosen, branches, strict=True) if not taken]
        if evaluated.everything or _is_implied(node, others):
            continue
        rest = builder.add_node(
            _rest(builder, pointer, schema, evaluated, keyword == "unevaluatedProperties")
        )
        _demand_one_of(node, others, rest)


def _rewrite_choice(
    builder: NodeBuilder, node: Node, keyword: str, schema: int, choice: list[tuple[int, _Found]]
) -> None:
    branches = []
    for branch, found in choice:
        demanding: Node = {"pointer": node["pointer"], "allOf": (branch,)}
        _rewrite(builder, demanding, keyword, schema, found)
        is_same = demanding["allOf"] == (branch,) and "anyOf" not in demanding
        branches.append(branch if is_same else builder.add_node(demanding))
    node["anyOf"] = (*node.get("anyOf", ()), tuple(branches))


def _rewrite_by_names(
    builder: NodeBuilder, node: Node, schema: int, always: Evaluated, branches: list[_Branch]
) -> None:
    pointer = f"{node['pointer']}/unevaluatedProperties"
    by_name: dict[str, list[int]] = {}
    for branch, more in branches:
        for name in more.names:
            by_name.setdefault(name, []).append(branch)
    evaluating_all = [branch for branch, more in branches if more.everything]
    names_of: dict[tuple[int, ...], list[str]] = {}
    for name, some in by_name.items():
        if name not in always.names:
            names_of.setdefault((*some, *evaluating_all), []).append(name)
    for evaluating, names in names_of.items():
        if not _is_implied(node, evaluating):
            own = {"pointer": pointer, "properties": tuple([(name, schema) for name in names])}
            _demand_one_of(node, list(dict.fromkeys(evaluating)), builder.add_node(own))
    named = Evaluated(names=always.names | dict.fromkeys(by_name))
    if not _is_implied(node, evaluating_all):
        _demand_one_of(node, evaluating_all, builder.add_node(_rest(builder, pointer, schema, named, True)))


def _demand_one_of(node: Node, branches: list[int], rest: int) -> None:
    if branches:
        node["anyOf"] = (*node.get("anyOf", ()), (*branches, rest))
    else:
        node["allOf"] = (*node.get("allOf", ()), rest)


def _is_implied(node: Node, branches: Collection[int]) -> bool:
    """Return whether the node already requires one of these branches, or of some of them."""
    some = set(branches)
    return any(some.issuperset(group) for group in (*node.get("anyOf", ()), *node.get("oneOf", ())))


def _check_size(branches: int, always: Evaluated, more: list[Evaluated], pointer: str) -> None:
    entries = sum(len(part.names) + len(part.patterns) + part.prefix for part in (always, *more))
    copied = entries << branches
    if copied > _COPY_LIMIT:
        raise LimitExceeded(
            f"what is evaluated here takes {copied:,} entries to write out, more than {_COPY_LIMIT:,}",
            limit="evaluated_entries",
            where=pointer,
            hint="Declare the properties of all branches in `properties` of the same schema, with the schema true.",
        )


def _rest(builder: NodeBuilder, pointer: str, schema: int, evaluated: Evaluated, of_object: bool) -> Node:
    """Return the node "what is not evaluated satisfies `schema`"."""
    node: Node = {"pointer": pointer}
    free = builder.true_node()
    if of_object:
        node["properties"] = tuple([(name, free) for name in evaluated.names])
        node["patternProperties"] = tuple([(pattern, free) for pattern in evaluated.patterns])
        node["additionalProperties"] = schema
        return node
    node["prefixItems"] = (free,) * evaluated.prefix
    if evaluated.contains:
        schema = builder.add_node({"pointer": pointer, "anyOf": ((schema, *evaluated.contains),)})
    node["items"] = schema
    return node


@dataclass
class Edge:
    """A node that applies to the same value as another, and the node that must be valid for it to count."""

    child: int
    tested: int | None = None
    negated: bool = False


class Counting:
    """What a node evaluates by itself, and which nodes apply to the same value."""

    def own(self, builder: NodeBuilder, node_id: int, *, itself: bool) -> Evaluated:
        """Return what the node's own keywords evaluate; `itself` says that it is the node with the keyword."""
        raise NotImplementedError

    def edges(self, builder: NodeBuilder, node_id: int) -> Iterator[Edge]:
        """Yield the nodes that apply to the same value."""
        return edges_of(builder, node_id)


class ObjectKeys(Counting):
    """Counts the properties of objects."""

    def own(self, builder: NodeBuilder, node_id: int, *, itself: bool) -> Evaluated:
        """Return the names, patterns and other keys that the node's own keywords evaluate."""
        node = builder.nodes[node_id]
        keys: Node = node if isinstance(node, dict) else {}
        everything = "additionalProperties" in keys or node_id in builder.notes.all_properties
        everything |= "unevaluatedProperties" in keys and not itself
        # A forbidden property cannot be evaluated.
        names = [name for name, child in keys.get("properties", ()) if builder.nodes[child] is not False]
        patterns = [pattern for pattern, _ in keys.get("patternProperties", ())]
        return Evaluated(everything, dict.fromkeys(names), dict.fromkeys(patterns))


class _ArrayItems(Counting):
    """Counts the items of arrays."""

    def own(self, builder: NodeBuilder, node_id: int, *, itself: bool) -> Evaluated:
        node = builder.nodes[node_id]
        notes = builder.notes
        keys: Node = node if isinstance(node, dict) else {}
        everything = "items" in keys or node_id in notes.all_items
        everything |= "unevaluatedItems" in keys and not itself
        contains = [notes.contains[node_id]] if node_id in notes.contains else []
        return Evaluated(
            everything, prefix=len(keys.get("prefixItems", ())), contains=dict.fromkeys(contains)
        )


def _analyse(builder: NodeBuilder, start: int, counting: Counting) -> _Found:
    """Return what the node evaluates, with the branches of its choice if it has one."""
    found = _collect_evaluated(builder, start, counting)
    _add_choice(builder, counting, found, [_CHOICE_LIMIT])
    return found


def _add_choice(builder: NodeBuilder, counting: Counting, found: _Found, room: list[int]) -> None:
    """Add the branches of the choice that all conditional branches come from, as far as `room` allows."""
    if len(found.branches) < 2 or not found.group:
        return
    choice = []
    for branch in found.group:
        if isinstance(builder.nodes[branch], bool):
            inner = _Found(Evaluated())
        else:
            inner = _collect_evaluated(builder, branch, counting, itself=False)
        inner.always.add(found.always)
        inner.branches = [
            (condition_id, more) for condition_id, more in inner.branches if more.adds_to(inner.always)
        ]
        always = inner.always
        room[0] -= inner.visited + len(always.names) + len(always.patterns) + always.prefix
        if room[0] < 0:
            return
        _add_choice(builder, counting, inner, room)
        choice.append((branch, inner))
    found.choice = choice


def _choice_of(builder: NodeBuilder, reached: list[int], edges: list[Edge]) -> tuple[int, ...]:
    """Return the group, exactly one of whose branches is valid, that has all these edges, if there is one."""
    if any(edge.tested != edge.child or edge.negated for edge in edges):
        return ()
    children = {edge.child for edge in edges}
    for node_id in reached:
        node = builder.nodes[node_id]
        if not isinstance(node, dict):
            continue
        for keyword in ("oneOf", "anyOf"):
            for group in node.get(keyword, ()):
                if children.issubset(group) and (keyword == "oneOf" or are_exclusive(builder, group)):
                    return tuple(group)
    return ()


def _collect_evaluated(
    builder: NodeBuilder, start: int, counting: Counting, *, itself: bool = True
) -> _Found:
    """Return what the node evaluates in any case, and what more if another node is valid.

    Each node that applies to the value is visited once, however many references lead to it. It counts if one of the
    nodes that apply it counts and the branch is valid. `itself` says that the node has the keyword in question.
    """
    edges: dict[int, list[Edge]] = {}
    own: dict[int, Evaluated] = {}
    order = _post_order(builder, start, counting, edges, own, itself=itself)
    reached = {start: None}
    always = Evaluated()
    for node_id in reversed(order):
        if node_id in reached:
            always.add(own[node_id])
            reached |= dict.fromkeys(edge.child for edge in edges[node_id] if edge.tested is None)
    if always.everything:
        return _Found(always, visited=len(order))
    adding: set[int] = set()
    for node_id in order:
        if own[node_id].adds_to(always) or any(edge.child in adding for edge in edges[node_id]):
            adding.add(node_id)
    entry_edges = [
        edge
        for node_id in reached
        for edge in edges[node_id]
        if edge.child in adding and edge.child not in reached
    ]
    node = builder.nodes[start]
    assert isinstance(node, dict)
    valid = _Validity(builder, node["pointer"], reached.keys())
    by_condition: dict[int, Evaluated] = {}
    for node_id in reversed(order):
        if node_id not in adding or not valid.is_known(node_id):
            continue
        condition_id = valid.of(node_id)
        if condition_id is not None:
            by_condition.setdefault(condition_id, Evaluated()).add(own[node_id])
        for edge in edges[node_id]:
            if edge.child in adding and edge.child not in reached:
                valid.note(condition_id, edge)
    branches = [(condition_id, more) for condition_id, more in by_condition.items() if more.adds_to(always)]
    return _Found(always, branches, _choice_of(builder, list(reached), entry_edges), len(order))


class _Validity:
    """For each node, another one that is valid exactly if the node counts; generated if the schema has none."""

    def __init__(self, builder: NodeBuilder, pointer: str, reached: Collection[int]) -> None:
        self._builder = builder
        self._pointer = pointer
        self._reached = reached
        self._conditions: dict[int, dict[int, None]] = {}
        self._refuted: dict[int, int] = {}

    def is_known(self, node_id: int) -> bool:
        """Return False if only nodes that evaluate everything apply it."""
        return node_id in self._reached or node_id in self._conditions

    def of(self, node_id: int) -> int | None:
        """Return the condition, or None if the node counts in any case; all that apply it must have been noted."""
        if node_id in self._reached:
            return None
        conditions = tuple(self._conditions[node_id])
        return conditions[0] if len(conditions) == 1 else self._generated("anyOf", (conditions,))

    def note(self, condition_id: int | None, edge: Edge) -> None:
        """Record an edge of a node that counts if `condition_id` is valid."""
        tested = edge.tested
        if tested is not None and edge.negated:
            if tested not in self._refuted:
                self._refuted[tested] = self._generated("not", (tested,))
            tested = self._refuted[tested]
        if condition_id is None or condition_id == tested:
            condition = tested
        elif tested is None:
            condition = condition_id
        else:
            condition = self._generated("allOf", (condition_id, tested))
        assert condition is not None
        self._conditions.setdefault(edge.child, {})[condition] = None

    def _generated(self, keyword: str, parts: tuple[object, ...]) -> int:
        return self._builder.add_node({"pointer": self._pointer, keyword: parts})


def _post_order(
    builder: NodeBuilder,
    start: int,
    counting: Counting,
    edges: dict[int, list[Edge]],
    own: dict[int, Evaluated],
    *,
    itself: bool,
) -> list[int]:
    """Return the nodes that apply to the value of `start`, each after those that it applies.

    A node below one that evaluates everything adds nothing, and is left out.
    """
    order: list[int] = []
    own[start] = counting.own(builder, start, itself=itself)
    edges[start] = [] if own[start].everything else list(counting.edges(builder, start))
    path = [(start, iter(edges[start]))]
    while path:
        node_id, rest = path[-1]
        edge = next(rest, None)
        if edge is None:
            path.pop()
            order.append(node_id)
            if (
                edges[node_id]
                and not own[node_id].everything
                and _evaluates_in_all_cases(builder, node_id, own)
            ):
                own[node_id].everything = True
                edges[node_id] = []
        elif edge.child not in own:
            child = edge.child
            own[child] = counting.own(builder, child, itself=False)
            edges[child] = [] if own[child].everything else list(counting.edges(builder, child))
            path.append((child, iter(edges[child])))
    return order


def _evaluates_in_all_cases(builder: NodeBuilder, node_id: int, own: dict[int, Evaluated]) -> bool:
    """Return whether everything is evaluated whichever branches of the node are valid."""
    node = builder.nodes[node_id]
    if not isinstance(node, dict):
        return False
    everything = [child for child in (*node.get("allOf", ()), *node.get("ref", ())) if own[child].everything]
    groups = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    if "then" in node and "else" in node:
        groups.append((node["then"], node["else"]))
    # subtle: a branch that is never valid does not count; the others decide.
    return bool(everything) or any(
        all(own[child].everything or builder.nodes[child] is False for child in group) for group in groups
    )


def edges_of(builder: NodeBuilder, node_id: int) -> Iterator[Edge]:
    """Yield the nodes that apply to the same value, each with the node that must be valid for it to count."""
    node = builder.nodes[node_id]
    # A node without demands has become `true`, but may have a lone `if`.
    keys: Node = node if isinstance(node, dict) else {}
    for child in (*keys.get("allOf", ()), *keys.get("ref", ())):
        yield Edge(child)
    for group in (*keys.get("anyOf", ()), *keys.get("oneOf", ())):
        for child in group:
            yield Edge(child, child)
    tested = keys.get("if", builder.notes.lone_ifs.get(node_id))
    if tested is None:
        return
    yield Edge(tested, tested)
    if "then" in keys:
        yield Edge(keys["then"], tested)
    if "else" in keys:
        yield Edge(keys["else"], tested, negated=True)
