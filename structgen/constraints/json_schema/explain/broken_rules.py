"""Find the keywords of a schema that a text breaks: those without which it could go on.

The automaton knows that a byte is not allowed, not which keyword forbids it. With `oneOf`, `not`, `contains` or
`unevaluatedProperties` no single state tells. So the search leaves out one rule at a time, compiles the schema
again, and checks whether the text is then accepted. If no single rule is to blame, it looks for a smallest set of
rules.

"Accepted" is defined by a list of checks, the strictest first: the whole text is valid; the number and what follows
it are; the next character is. The first check that a single rule can satisfy decides.

Faults that no schema would accept come first: text that is not JSON, and repeated keys. If tags show which branch
of a union the text belongs to, the rules of the other branches come last.

Invariant: each reported rule is broken. Without it (or without all of them) the text goes on, and with it it does
not.

Cost: one compilation and one run over the text for each candidate, at most `MAX_CANDIDATES` of them and about
`SECONDS` in all. Candidates near the position come first. Of long unions, only the branches that lead to the
position are compiled until a rule is found. The search runs only after a text has failed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from structgen.constraints.base import NO_SCHEMA, RuleViolation, Stop
from structgen.ir.schema import SchemaIR

from ..nodes import ALL_TYPES, TYPES, Node, reachable_nodes
from ..partial_json import parse_partial
from .contradictions import Demand, demands, without
from .relevant_branches import LONG_UNION, keep_relevant_branches
from .schema_values import SchemaValues, Tag

__all__ = ["MAX_CANDIDATES", "SECONDS", "find_broken_rules"]

MAX_CANDIDATES = 200
SECONDS = 0.5
"""Time limit in seconds. No single rule is tried after this, and no set of rules after twice this."""
_SHARE_OF_CHOSEN_BRANCHES = 0.8
"""Fraction of the time for the branches that the tags choose."""
_MAX_COMPILED_NODES = 400_000
"""Number of nodes that are compiled in all."""

Accepts = Callable[[SchemaIR], bool]
_PERMISSIVE_OPTIONS = {
    "whitespace": ("flexible", 10_000, 10_000),
    "ordered": False,
    "escapes": "all",
    "integers": "any",
}
"""Options under which the form of the JSON text excludes nothing."""
_CHILD = ("additionalProperties", "items", "propertyNames", "then", "else")
_MEMBERS = ("prefixItems", "allOf", "ref")
_NAMED = ("properties", "patternProperties")
_VALUES = ("strings", "numbers", "literals", "values")
_DEPENDENCY_POINTER = re.compile("(dependencies|dependentRequired|dependentSchemas)/[^/]*")
_GENERATED_POINTER = re.compile("(.*)/(const|enum|unevaluatedProperties|unevaluatedItems)")
"""Pointers of nodes that the front end generates for a keyword of the schema above."""
_DEPENDENCY_KEYWORDS = ("dependencies", "dependentRequired", "dependentSchemas")
_MAX_VALUES_SHOWN = 6
_MAX_TAGS_SHOWN = 12
_MAX_CHARACTERS_SHOWN = 80


@dataclass(frozen=True)
class _Candidate:
    """A demand of one node, with the pointer and keyword that the schema has for it."""

    node_id: int
    demand: Demand
    pointer: str
    keyword: str


@dataclass(frozen=True)
class _Focus:
    """The candidates to try: ordered by distance to these pointers, without those of branches that were not chosen."""

    near: list[str]
    values: SchemaValues
    excluded_nodes: frozenset[int] = frozenset()
    excluded_demands: frozenset[tuple[int, Demand]] = frozenset()

    def excludes(self, candidate: _Candidate) -> bool:
        return (
            candidate.node_id in self.excluded_nodes
            or (candidate.node_id, candidate.demand) in self.excluded_demands
        )


def find_broken_rules(ir: SchemaIR, stop: Stop, checks: list[Accepts]) -> list[RuleViolation]:
    """Return the rules that stop a text.

    Args:
        ir: The schema.
        stop: The text and the byte at which it was rejected.
        checks: Functions that return whether the text goes on under an IR, the strictest first.

    Returns:
        The broken rules, the most specific first. Empty if none was found in time.
    """
    parsed = parse_partial(stop.text)
    if parsed.fault is not None and parsed.fault.offset <= stop.offset:
        return [RuleViolation("", "JSON", "", parsed.fault.path, parsed.fault.message)]
    repeated = parsed.repeated_key(stop.path, stop.offset)
    if repeated is not None:
        return [RuleViolation("", "duplicate key", repeated, stop.path)]
    if not checks[-1](
        SchemaIR(nodes=({"pointer": "#"},), root=0, options={**ir["options"], **_PERMISSIVE_OPTIONS})
    ):
        return [NO_SCHEMA]
    values = SchemaValues(ir, parsed.root, stop)
    tags = list(values.tags())
    rules = _find_unknown_tag(ir, tags, stop.offset, checks[-1])
    if rules:
        return rules
    unchosen = _unchosen_branches(ir, tags, stop.near)
    anything = _Focus(stop.near, values)
    focuses = [_Focus(stop.near, values, *unchosen), anything] if unchosen else [anything]
    tried = [(focus, _ordered_candidates(ir, focus)) for focus in focuses]
    start_time = until = monotonic()
    shares = (_SHARE_OF_CHOSEN_BRANCHES, 1 - _SHARE_OF_CHOSEN_BRANCHES) if unchosen else (1,)
    for (focus, candidates), share in zip(tried, shares, strict=True):
        rules = _find_rules_broken_alone(ir, focus, candidates, checks, until, SECONDS * share)
        if rules:
            return rules
        until += SECONDS * share
    for focus, candidates in tried:
        rules = _find_rules_broken_together(ir, focus, candidates, checks, start_time + 2 * SECONDS)
        if rules:
            return rules
    return []


def _find_rules_broken_alone(
    ir: SchemaIR,
    focus: _Focus,
    candidates: list[_Candidate],
    checks: list[Accepts],
    start_time: float,
    seconds: float,
) -> list[RuleViolation]:
    """Return the rules each of which is to blame alone."""
    reduced = keep_relevant_branches(ir, focus.near)
    for number, accepts in enumerate(checks, start=1):
        until = start_time + seconds * number / len(checks)  # each check has its share
        if accepts(_with_options(reduced or ir, _PERMISSIVE_OPTIONS)):
            options = _find_broken_options(ir, accepts)
            if options:
                return options
        rules = _find_rules_in_branches(ir, reduced, focus, accepts, until)
        if rules:
            return rules
        blamed = _find_blamed(ir, candidates, accepts, until)
        if blamed:
            # A union may hide a broken rule of the chosen branch, and another one later.
            if all(map(_is_long, blamed)) and accepts is not checks[-1]:
                rules = _find_rules_in_branches(ir, reduced, focus, checks[-1], until + seconds / len(checks))
            return rules + _rules_of(ir, blamed, focus, accepts, until)
    return []


def _find_unknown_tag(ir: SchemaIR, tags: list[Tag], offset: int, accepts: Accepts) -> list[RuleViolation]:
    """Return the rule of a union none of whose branches has the tag in the text."""
    for tag in tags:
        union = _Candidate(tag.node_id, ((tag.key, tag.group),), ir["nodes"][tag.node_id]["pointer"], tag.key)
        if not tag.chosen and tag.start <= offset and accepts(_without(ir, [union])):
            shown = ", ".join(tag.possible[:_MAX_TAGS_SHOWN]) + (
                ", …" if len(tag.possible) > _MAX_TAGS_SHOWN else ""
            )
            message = f"must be one of the values that identify a branch ({shown})"
            return [RuleViolation(union.pointer, union.keyword, "", tag.path, message)]
    return []


def _unchosen_branches(
    ir: SchemaIR, tags: list[Tag], near: list[str]
) -> tuple[frozenset[int], frozenset[tuple[int, Demand]]] | None:
    """Return the nodes of branches that the tags exclude, and the unions decided by a tag; None if no tag decides."""
    nodes = ir["nodes"]
    chosen: dict[tuple[int, str, tuple[int, ...]], set[int]] = {}
    for tag in tags:
        chosen.setdefault((tag.node_id, tag.key, tag.group), set()).update(tag.chosen)
    if not any(chosen.values()):
        return None
    changed = list(nodes)
    for (node_id, key, group), branches in chosen.items():
        if branches:
            groups = [tuple(sorted(branches)) if other == group else other for other in changed[node_id][key]]
            changed[node_id] = {**changed[node_id], key: tuple(groups)}
    # An outer occurrence of a recursive union may have another branch chosen.
    undecided = {(tag.node_id, tag.key, tag.group) for tag in tags if len(tag.chosen) != 1}
    decided = frozenset((node_id, ((key, group),)) for node_id, key, group in chosen.keys() - undecided)
    kept = reachable_nodes(changed, [ir["root"]])
    excluded = {
        node_id
        for node_id, node in enumerate(nodes)
        # The tag itself may be the broken rule.
        if node_id not in kept
        and not (isinstance(node, dict) and node["pointer"] in near and any(key in node for key in _VALUES))
    }
    return frozenset(excluded), decided


def _find_rules_in_branches(
    ir: SchemaIR, reduced: SchemaIR | None, focus: _Focus, accepts: Accepts, until: float
) -> list[RuleViolation]:
    """Return the rules that the reduced schema finds and the whole schema confirms."""
    if reduced is None or accepts(reduced):
        return []
    blamed = _find_blamed(reduced, _ordered_candidates(reduced, focus), accepts, until)
    blamed = [candidate for candidate in blamed if accepts(_without(ir, [candidate]))]
    return _rules_of(reduced, blamed, focus, accepts, until)


def _find_blamed(
    ir: SchemaIR, candidates: list[_Candidate], accepts: Accepts, until: float
) -> list[_Candidate]:
    """Return each candidate without which alone the text goes on; a long union stands for its branches."""
    blamed: list[_Candidate] = []
    for candidate in candidates:
        if monotonic() >= until:
            break
        inside = any(
            _is_long(other) and candidate.pointer.startswith(f"{other.pointer}/") for other in blamed
        )
        if not inside and accepts(_without(ir, [candidate])):
            blamed.append(candidate)
    return blamed


def _is_long(candidate: _Candidate) -> bool:
    key, member = candidate.demand[0]
    return key in ("anyOf", "oneOf") and len(member) >= LONG_UNION


def _find_rules_broken_together(
    ir: SchemaIR, focus: _Focus, candidates: list[_Candidate], checks: list[Accepts], until: float
) -> list[RuleViolation]:
    """Return a smallest set of rules without which the text goes on."""
    smallest = _find_blamed_set(ir, focus, candidates, checks[-1], until)
    accepts = checks[-1]
    for stricter in checks[:-1]:
        # A stricter check covers more of the text, and perhaps faults that are unrelated to this one.
        smaller = _find_blamed_set(ir, focus, candidates, stricter, until)
        if smaller and smallest and len(smaller) <= len(smallest):
            smallest, accepts = smaller, stricter
            break
    return _rules_of(ir, smallest, focus, accepts, until)


def _find_blamed_set(
    ir: SchemaIR, focus: _Focus, candidates: list[_Candidate], accepts: Accepts, until: float
) -> list[_Candidate]:
    """Return candidates that are to blame together, each of them necessary; empty if the time runs out."""
    blamed = candidates
    if monotonic() >= until or not accepts(_without(ir, blamed)):
        return []
    near = set(focus.near)

    def order(candidate: _Candidate) -> tuple[bool, int]:
        return not _is_long(candidate), -_distance(candidate.pointer, near)

    # Rules near the position are the likelier cause, so the search drops them from the set last.
    for candidate in sorted(blamed, key=order):
        fewer = [other for other in blamed if other is not candidate]
        if monotonic() >= until:
            return []
        if accepts(_without(ir, fewer)):
            blamed = fewer
    return blamed


def _ordered_candidates(ir: SchemaIR, focus: _Focus) -> list[_Candidate]:
    """Return the candidates in the order in which to try them."""
    nodes = ir["nodes"]

    def order(candidate: _Candidate) -> tuple[bool, int]:
        distance = _distance(nodes[candidate.node_id]["pointer"], near)
        return not (_is_long(candidate) and distance < 2), distance

    near = set(focus.near)
    candidates = sorted(
        (candidate for candidate in _candidates(ir) if not focus.excludes(candidate)), key=order
    )
    return candidates[: max(8, min(MAX_CANDIDATES, _MAX_COMPILED_NODES // len(nodes)))]


def _rules_of(
    ir: SchemaIR, blamed: list[_Candidate], focus: _Focus, accepts: Accepts, until: float
) -> list[RuleViolation]:
    rules = dict.fromkeys(_rule(ir, candidate, focus, accepts, until) for candidate in blamed)
    bounds = {rule.pointer for rule in rules if rule.keyword in ("minContains", "maxContains")}
    containing = tuple(f"{rule.pointer}/contains" for rule in rules if rule.keyword == "contains")
    return [
        rule
        for rule in rules
        # `contains` covers the rules of an item that the text does not have; its bounds say more than it does.
        if not (rule.keyword == "contains" and rule.pointer in bounds)
        and not f"{rule.pointer}/".startswith(containing or ("\0",))
    ]


def _rule(
    ir: SchemaIR, candidate: _Candidate, focus: _Focus, accepts: Accepts, until: float
) -> RuleViolation:
    value = focus.values.value_of(candidate.node_id, candidate.keyword)
    detail = _describe(ir, candidate, accepts, until)
    node = ir["nodes"][candidate.node_id]
    if (
        candidate.keyword == "additionalProperties"
        and value is not None
        and not node.get("patternProperties")
    ):
        declared = {name for name, _ in node.get("properties", ())}
        undeclared = (str(child.path[-1]) for child in value.children if child.path[-1] not in declared)
        detail = next(undeclared, detail)
    return RuleViolation(candidate.pointer, candidate.keyword, detail, None if value is None else value.path)


def _distance(pointer: str, near: set[str]) -> int:
    """Return 0 for a sub-schema that applies at the position, 1 for one around it, and 2 otherwise."""
    if pointer in near:
        return 0
    return 1 if any(other.startswith(f"{pointer}/") for other in near) else 2


def _find_broken_options(ir: SchemaIR, accepts: Accepts) -> list[RuleViolation]:
    options = ir["options"]
    return [
        RuleViolation("", name, str(options[name]))
        for name, free in _PERMISSIVE_OPTIONS.items()
        if options[name] != free and accepts(_with_options(ir, {name: free}))
    ]


def _with_options(ir: SchemaIR, options: dict[str, Any]) -> SchemaIR:
    return SchemaIR(nodes=ir["nodes"], root=ir["root"], options={**ir["options"], **options})


def _without(ir: SchemaIR, left_out: list[_Candidate]) -> SchemaIR:
    nodes = list(ir["nodes"])
    for candidate in left_out:
        nodes[candidate.node_id] = without(nodes[candidate.node_id], candidate.demand)
    return SchemaIR(nodes=tuple(nodes), root=ir["root"], options=ir["options"])


# ------------------------------------------------------------------ candidates


def _candidates(ir: SchemaIR) -> Iterator[_Candidate]:
    nodes = ir["nodes"]
    generated = _generated_nodes(nodes)
    for node_id, node in enumerate(nodes):
        if isinstance(node, bool) or node_id in generated:
            continue
        for demand in _demands_to_try(node):
            named = _name_of(ir, node_id, demand)
            if named is not None:
                yield _Candidate(node_id, demand, *named)


def _demands_to_try(node: Node) -> Iterator[Demand]:
    for demand in demands(node):
        (key, _), *more = demand
        if key in _NAMED:
            yield from (((key, entry),) for entry in node[key])
        elif key == "prefixItems":
            yield from (((key, member),) for member in dict.fromkeys(node[key]))
        elif key == "if":
            yield from (((bound, None),) for bound, _ in more)
        else:
            yield demand
            if key == "contains":  # the bounds also on their own
                yield from (((bound, None),) for bound, _ in more)


def _generated_nodes(nodes: tuple[Any, ...]) -> set[int]:
    """Return the nodes that stand for a whole keyword, which is left out where it is used."""
    generated: set[int] = set()
    for node in nodes:
        if isinstance(node, bool):
            continue
        generated.update(_nodes_of_values(node.get("values", ()), nodes))
        for group in node.get("anyOf", ()):
            if _dependency_keyword(node, group, nodes):
                generated.update(group)
        for member in node.get("allOf", ()):
            if not isinstance(nodes[member], bool) and _generating_keyword(node, nodes[member]):
                generated.add(member)
    return generated


def _nodes_of_values(listed: tuple[int, ...], nodes: tuple[Any, ...]) -> Iterator[int]:
    """Yield the nodes of listed arrays and objects, and of their contents."""
    pending = list(listed)
    while pending:
        node_id = pending.pop()
        yield node_id
        node = nodes[node_id]
        if not isinstance(node, bool):
            pending += [*node.get("prefixItems", ()), *(child for _, child in node.get("properties", ()))]


def _generating_keyword(node: Node, member: Node) -> str | None:
    """Return the keyword of `node` for which the front end generated this member of its ``allOf``."""
    match = _GENERATED_POINTER.fullmatch(member["pointer"])
    return match[2] if match and match[1] == node["pointer"] else None


def _dependency_keyword(node: Node, group: tuple[int, ...], nodes: tuple[Any, ...]) -> str | None:
    """Return the keyword for which the front end generated these alternatives."""
    for member in group:
        if isinstance(nodes[member], dict):
            match = _DEPENDENCY_POINTER.fullmatch(
                nodes[member]["pointer"].removeprefix(f"{node['pointer']}/")
            )
            return match[1] if match else None
    return None


def _name_of(ir: SchemaIR, node_id: int, demand: Demand) -> tuple[str, str] | None:
    """Return the pointer and keyword of a demand; None if the rules inside it are more specific."""
    nodes = ir["nodes"]
    node: Node = nodes[node_id]
    key, member = demand[0]
    pointer: str = node["pointer"]
    if key in _CHILD and nodes[node[key]] is not False:
        return (pointer, key) if key == "propertyNames" else None
    if key in _NAMED and nodes[member[1]] is not False:
        return None
    if key in _MEMBERS and nodes[member] is not False:
        keyword = (
            None
            if key != "allOf"
            else _generating_keyword(node, nodes[member])
            if nodes[member] is not True
            else None
        )
        return (pointer, keyword) if keyword else None
    if key == "anyOf":
        return pointer, _dependency_keyword(node, member, nodes) or key
    if key in ("types", "integer", "digits"):
        return pointer, "type"
    if key in _VALUES:
        key = "enum"
    elif key == "ref":
        key = "$ref"
    return pointer, ir.spelled.get(node_id, {}).get(key, key)


# ------------------------------------------------------------------ descriptions


def _describe(ir: SchemaIR, candidate: _Candidate, accepts: Accepts, until: float) -> str:
    node: Node = ir["nodes"][candidate.node_id]
    key, member = candidate.demand[0]
    if key == "oneOf":
        return _describe_one_of(ir, candidate, accepts, until)
    if key in ("pattern", "format"):
        return ir.spelled.get(candidate.node_id, {}).get(f"text of {key}", "")
    if candidate.keyword in ("enum", "const"):
        return _list_values(node)
    if key in _NAMED:
        return str(member[0]) if key == "properties" else ""
    if key == "anyOf":
        return (
            _describe_dependency(ir["nodes"], node["pointer"], member)
            if candidate.keyword in _DEPENDENCY_KEYWORDS
            else ""
        )
    if candidate.keyword == "type":
        return _type_names(node)
    if key == "not":
        return _describe_negation(ir, member)
    if key == "required":
        return str(member)
    return str(node[key]) if isinstance(node[key], (int, str)) and key not in _CHILD else ""


def _type_names(node: Node) -> str:
    names = [name for name, bit in TYPES.items() if node.get("types", ALL_TYPES) & bit]
    return " or ".join("integer" if name == "number" and "integer" in node else name for name in names)


def _describe_negation(ir: SchemaIR, node_id: int) -> str:
    """Return what a value must not be, for ``not``; empty if there is no short phrase for it."""
    node = ir["nodes"][node_id]
    while isinstance(node, dict) and node.keys() == {"pointer", "ref"} and len(node["ref"]) == 1:
        node_id = node["ref"][0]
        node = ir["nodes"][node_id]
    if isinstance(node, bool):
        return ""
    keys = node.keys() - {"pointer"}
    if keys <= {"types", "integer", "digits"}:
        return f"be of type {_type_names(node)}"
    if keys <= set(_VALUES):
        listed = _list_values(node)
        several = sum(len(node[key]) for key in keys) > 1
        return f"be one of {listed}" if listed and several else f"be {listed}" if listed else ""
    if keys == {"required"}:
        names = list(map(repr, node["required"][:_MAX_VALUES_SHOWN]))
        return f"have the key {names[0]}" if len(names) == 1 else f"have all the keys {', '.join(names)}"
    text = ir.spelled.get(node_id, {}).get("text of pattern", "")
    return f"match the pattern {text}" if keys == {"pattern"} and text else ""


def _list_values(node: Node) -> str:
    """Return the values that a node lists, as JSON; empty if there are many, or if one is a container."""
    if "values" in node:
        return ""
    values = [json.dumps(text, ensure_ascii=False) for text in node.get("strings", ())]
    values += [*node.get("numbers", ()), *node.get("literals", ())]
    joined = ", ".join(values[:_MAX_VALUES_SHOWN])
    return joined if len(values) <= _MAX_VALUES_SHOWN and len(joined) <= _MAX_CHARACTERS_SHOWN else ""


def _describe_dependency(nodes: tuple[Any, ...], pointer: str, group: tuple[int, ...]) -> str:
    """Return which keys a key requires, or which key imposes more rules."""
    members: list[Node] = [nodes[member] for member in group if not isinstance(nodes[member], bool)]
    for member in members:
        required: tuple[str, ...] = member.get("required", ())
        if len(required) > 1:
            return f"must have {', '.join(map(repr, required[1:]))} beside {required[0]!r}"
    for member in members:
        step: str = member["pointer"].removeprefix(f"{pointer}/").partition("/")[2]
        if step and "/" not in step:
            key = step.replace("~1", "/").replace("~0", "~")
            return f"must be as one of its keys requires: {key!r}"
    return ""


def _describe_one_of(ir: SchemaIR, candidate: _Candidate, accepts: Accepts, until: float) -> str:
    """Return which branches of ``oneOf`` the text matches; empty if the time runs out."""
    pointer = ir["nodes"][candidate.node_id]["pointer"]
    branches: tuple[int, ...] = candidate.demand[0][1]
    without_union = _without(ir, [candidate])
    matching = []
    for index, branch in enumerate(branches):
        if monotonic() >= until:
            return ""
        node: Node = without_union["nodes"][candidate.node_id]
        node = {"pointer": pointer} if isinstance(node, bool) else node
        with_branch = {**node, "allOf": (*node.get("allOf", ()), branch)}
        nodes: list[Any] = list(without_union["nodes"])
        nodes[candidate.node_id] = with_branch
        if accepts(SchemaIR(nodes=tuple(nodes), root=ir["root"], options=ir["options"])):
            matching.append(f"{pointer}/oneOf/{index}")
    if not matching:
        return "it matches none of them"
    return f"it matches {', '.join(matching[:-1])} and {matching[-1]}" if len(matching) > 1 else ""
