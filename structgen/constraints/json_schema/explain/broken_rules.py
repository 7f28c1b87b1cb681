"""Which rules of a schema a text breaks: those without which it could go on.

Why: the automaton knows that a byte cannot stand, not which keyword is to blame; with `oneOf`, `not`, `contains`
or `unevaluatedProperties` no look at one place tells. So each rule is left out in turn, and asked is whether the
text can then be read further. Where no single rule is to blame, as few as possible together are.
What "go on" means is a list of questions, the strictest first: is the whole text valid, is the number and what
follows it, is the next character. The first question that a single rule answers decides.
What is no JSON, or has a key twice, breaks no rule of the schema: that is told first. Where tags tell which branch of
a union is meant, the rules of the other branches come last.
Invariant: each rule named is broken: without it (or them) the text goes on, with it not.
Cost: one compilation and one reading of the text for each rule, at most `TRIAL_LIMIT` and for about `SECONDS`,
those that apply near the place first; of long unions only the branches that lead there are compiled, until a rule
is found. Only where a text has failed already.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from structgen.constraints.base import NO_SCHEMA, Broken, Stop
from structgen.ir.schema import SchemaIR

from ..partial_json import read_text
from .contradictions import Demand, Node, demands, without
from .relevant_branches import LONG, near_branches, reached
from .schema_values import Placing, Tag

__all__ = ["SECONDS", "TRIAL_LIMIT", "broken_rules"]

TRIAL_LIMIT = 200
SECONDS = 0.5
"""No trial of a single rule begins later than this; none of several rules together later than twice this."""
_MEANT = 0.8
"""The share of this time for the branches that are meant."""
_NODE_TRIALS = 400_000
"""Nodes that are compiled in all."""

GoesOn = Callable[[SchemaIR], bool]
_FREE = {"whitespace": ("flexible", 10_000, 10_000), "ordered": False, "escapes": "all", "integers": "any"}
_CHILD = ("additionalProperties", "items", "propertyNames", "then", "else")
_MEMBERS = ("prefixItems", "allOf", "ref")
_NAMED = ("properties", "patternProperties")
_VALUES = ("strings", "numbers", "literals", "values")
_DEPENDENCY = re.compile("(dependencies|dependentRequired|dependentSchemas)/[^/]*")
_WRITTEN = re.compile("(.*)/(const|enum|unevaluatedProperties|unevaluatedItems)")
"""Pointers of nodes that the front end writes for a keyword of the schema above."""
_DEPENDENT = ("dependencies", "dependentRequired", "dependentSchemas")
_LISTED = 6
_TAGS = 12
_LISTED_CHARACTERS = 80
_TYPES = ("null", "boolean", "object", "array", "number", "string")


@dataclass(frozen=True)
class _Candidate:
    """A demand of one node, and what the schema calls it."""

    place: int
    demand: Demand
    pointer: str
    keyword: str


@dataclass(frozen=True)
class _Focus:
    """What is tried: near these pointers, and not what belongs to branches that are not meant."""

    near: list[str]
    placing: Placing
    places: frozenset[int] = frozenset()
    demands: frozenset[tuple[int, Demand]] = frozenset()

    def leaves_out(self, one: _Candidate) -> bool:
        return one.place in self.places or (one.place, one.demand) in self.demands


def broken_rules(ir: SchemaIR, stop: Stop, questions: list[GoesOn]) -> list[Broken]:
    """The rules to blame for what stops the text."""
    reading = read_text(stop.text)
    if reading.fault is not None and reading.fault.offset <= stop.offset:
        return [Broken("", "JSON", "", reading.fault.path, reading.fault.message)]
    repeated = reading.repeated_key(stop.path, stop.offset)
    if repeated is not None:
        return [Broken("", "duplicate key", repeated, stop.path)]
    if not questions[-1](SchemaIR(nodes=({"pointer": "#"},), root=0, options={**ir["options"], **_FREE})):
        return [NO_SCHEMA]
    placing = Placing(ir, reading.root, stop)
    tags = list(placing.tags())
    told = _unknown_tag(ir, tags, stop.offset, questions[-1])
    if told:
        return told
    meant = _meant(ir, tags, stop.near)
    anything = _Focus(stop.near, placing)
    focuses = [_Focus(stop.near, placing, *meant), anything] if meant else [anything]
    tried = [(focus, _nearest(ir, focus)) for focus in focuses]
    began = until = monotonic()
    for (focus, candidates), share in zip(tried, (_MEANT, 1 - _MEANT) if meant else (1,), strict=True):
        told = _broken_alone(ir, focus, candidates, questions, until, SECONDS * share)
        if told:
            return told
        until += SECONDS * share
    for focus, candidates in tried:
        told = _broken_together(ir, focus, candidates, questions, began + 2 * SECONDS)
        if told:
            return told
    return []


def _broken_alone(
    ir: SchemaIR,
    focus: _Focus,
    candidates: list[_Candidate],
    questions: list[GoesOn],
    began: float,
    seconds: float,
) -> list[Broken]:
    """The rules each of which is to blame alone."""
    fewer = near_branches(ir, focus.near)
    for number, goes_on in enumerate(questions, start=1):
        until = began + seconds * number / len(questions)  # each question has its share
        if goes_on(_under(fewer or ir, _FREE)):
            options = _broken_options(ir, goes_on)
            if options:
                return options
        told = _told_nearby(ir, fewer, focus, goes_on, until)
        if told:
            return told
        blamed = _blamed(ir, candidates, goes_on, until)
        if blamed:
            # A union may hide that a rule of the branch that was meant is broken, and another one later.
            if all(map(_is_long, blamed)) and goes_on is not questions[-1]:
                told = _told_nearby(ir, fewer, focus, questions[-1], until + seconds / len(questions))
            return told + _told(ir, blamed, focus, goes_on, until)
    return []


def _unknown_tag(ir: SchemaIR, tags: list[Tag], offset: int, goes_on: GoesOn) -> list[Broken]:
    """A union none of whose branches has the tag that the text has."""
    for tag in tags:
        one = _Candidate(tag.place, ((tag.key, tag.group),), ir["nodes"][tag.place]["pointer"], tag.key)
        if not tag.chosen and tag.start <= offset and goes_on(_changed(ir, [one])):
            shown = ", ".join(tag.possible[:_TAGS]) + (", …" if len(tag.possible) > _TAGS else "")
            message = f"must be one of the values that tell the branches apart ({shown})"
            return [Broken(one.pointer, one.keyword, "", tag.path, message)]
    return []


def _meant(
    ir: SchemaIR, tags: list[Tag], near: list[str]
) -> tuple[frozenset[int], frozenset[tuple[int, Demand]]] | None:
    """The nodes of branches that are not meant, and the unions of which one branch is; None: tags do not tell."""
    nodes = ir["nodes"]
    chosen: dict[tuple[int, str, tuple[int, ...]], set[int]] = {}
    for tag in tags:
        chosen.setdefault((tag.place, tag.key, tag.group), set()).update(tag.chosen)
    if not any(chosen.values()):
        return None
    changed = list(nodes)
    for (place, key, group), branches in chosen.items():
        if branches:
            groups = [tuple(sorted(branches)) if one == group else one for one in changed[place][key]]
            changed[place] = {**changed[place], key: tuple(groups)}
    # A union that holds itself may have another branch chosen further out.
    vague = {(tag.place, tag.key, tag.group) for tag in tags if len(tag.chosen) != 1}
    alone = frozenset((place, ((key, group),)) for place, key, group in chosen.keys() - vague)
    kept = reached(changed, ir["root"])
    skipped = {
        place
        for place, node in enumerate(nodes)
        # The tag itself may be what is wrong.
        if place not in kept
        and not (isinstance(node, dict) and node["pointer"] in near and any(key in node for key in _VALUES))
    }
    return frozenset(skipped), alone


def _told_nearby(
    ir: SchemaIR, fewer: SchemaIR | None, focus: _Focus, goes_on: GoesOn, until: float
) -> list[Broken]:
    """What the branches that lead to the place tell and the whole schema confirms."""
    if fewer is None or goes_on(fewer):
        return []
    blamed = _blamed(fewer, _nearest(fewer, focus), goes_on, until)
    blamed = [one for one in blamed if goes_on(_changed(ir, [one]))]
    return _told(fewer, blamed, focus, goes_on, until)


def _blamed(ir: SchemaIR, candidates: list[_Candidate], goes_on: GoesOn, until: float) -> list[_Candidate]:
    """Each rule without which alone the text goes on; of a long union, it rather than those of its many branches."""
    blamed: list[_Candidate] = []
    for one in candidates:
        if monotonic() >= until:
            break
        inside = any(_is_long(other) and one.pointer.startswith(f"{other.pointer}/") for other in blamed)
        if not inside and goes_on(_changed(ir, [one])):
            blamed.append(one)
    return blamed


def _is_long(one: _Candidate) -> bool:
    key, member = one.demand[0]
    return key in ("anyOf", "oneOf") and len(member) >= LONG


def _broken_together(
    ir: SchemaIR, focus: _Focus, candidates: list[_Candidate], questions: list[GoesOn], until: float
) -> list[Broken]:
    """As few rules as possible without all of which the text goes on."""
    least = _together(ir, focus, candidates, questions[-1], until)
    goes_on = questions[-1]
    for stricter in questions[:-1]:
        # A stricter question sees more of the text, and maybe faults that have nothing to do with this one.
        found = _together(ir, focus, candidates, stricter, until)
        if found and least and len(found) <= len(least):
            least, goes_on = found, stricter
            break
    return _told(ir, least, focus, goes_on, until)


def _together(
    ir: SchemaIR, focus: _Focus, candidates: list[_Candidate], goes_on: GoesOn, until: float
) -> list[_Candidate]:
    blamed = candidates
    if monotonic() >= until or not goes_on(_changed(ir, blamed)):
        return []
    # What is near is to blame sooner than what is not, so it is spared last.
    for one in sorted(blamed, key=lambda one: (not _is_long(one), -_distance(one.pointer, set(focus.near)))):
        fewer = [other for other in blamed if other is not one]
        if monotonic() >= until:
            return []
        if goes_on(_changed(ir, fewer)):
            blamed = fewer
    return blamed


def _nearest(ir: SchemaIR, focus: _Focus) -> list[_Candidate]:
    """What is tried, in this order."""
    nodes = ir["nodes"]

    def order(one: _Candidate) -> tuple[bool, int]:
        distance = _distance(nodes[one.place]["pointer"], places)
        return not (_is_long(one) and distance < 2), distance

    places = set(focus.near)
    candidates = sorted((one for one in _candidates(ir) if not focus.leaves_out(one)), key=order)
    return candidates[: max(8, min(TRIAL_LIMIT, _NODE_TRIALS // len(nodes)))]


def _told(
    ir: SchemaIR, blamed: list[_Candidate], focus: _Focus, goes_on: GoesOn, until: float
) -> list[Broken]:
    found = dict.fromkeys(_rule(ir, one, focus, goes_on, until) for one in blamed)
    bounds = {rule.pointer for rule in found if rule.keyword in ("minContains", "maxContains")}
    containing = tuple(f"{rule.pointer}/contains" for rule in found if rule.keyword == "contains")
    return [
        rule
        for rule in found
        # What is asked of an item that nobody wrote is said by `contains`; its bounds say more than it does.
        if not (rule.keyword == "contains" and rule.pointer in bounds)
        and not f"{rule.pointer}/".startswith(containing or ("\0",))
    ]


def _rule(ir: SchemaIR, one: _Candidate, focus: _Focus, goes_on: GoesOn, until: float) -> Broken:
    value = focus.placing.value_of(one.place, one.keyword)
    detail = _detail(ir, one, goes_on, until)
    node = ir["nodes"][one.place]
    if one.keyword == "additionalProperties" and value is not None and not node.get("patternProperties"):
        declared = {name for name, _ in node.get("properties", ())}
        others = (str(child.path[-1]) for child in value.children if child.path[-1] not in declared)
        detail = next(others, detail)
    return Broken(one.pointer, one.keyword, detail, None if value is None else value.path)


def _distance(pointer: str, near: set[str]) -> int:
    """Sub-schemas that apply there come first, then those around them."""
    if pointer in near:
        return 0
    return 1 if any(place.startswith(f"{pointer}/") for place in near) else 2


def _broken_options(ir: SchemaIR, goes_on: GoesOn) -> list[Broken]:
    options = ir["options"]
    return [
        Broken("", name, str(options[name]))
        for name, free in _FREE.items()
        if options[name] != free and goes_on(_under(ir, {name: free}))
    ]


def _under(ir: SchemaIR, options: dict[str, Any]) -> SchemaIR:
    return SchemaIR(nodes=ir["nodes"], root=ir["root"], options={**ir["options"], **options})


def _changed(ir: SchemaIR, left_out: list[_Candidate]) -> SchemaIR:
    nodes = list(ir["nodes"])
    for one in left_out:
        nodes[one.place] = without(nodes[one.place], one.demand)
    return SchemaIR(nodes=tuple(nodes), root=ir["root"], options=ir["options"])


# ------------------------------------------------------------------ what can be left out


def _candidates(ir: SchemaIR) -> Iterator[_Candidate]:
    nodes = ir["nodes"]
    written = _written(nodes)
    for place, node in enumerate(nodes):
        if isinstance(node, bool) or place in written:
            continue
        for demand in _rules(node):
            named = _name(ir, place, demand)
            if named is not None:
                yield _Candidate(place, demand, *named)


def _rules(node: Node) -> Iterator[Demand]:
    for demand in demands(node):
        (key, _), *more = demand
        if key in _NAMED:
            yield from (((key, entry),) for entry in node[key])
        elif key == "prefixItems":
            yield from (((key, member),) for member in dict.fromkeys(node[key]))
        elif key == "if":
            yield from (((one, None),) for one, _ in more)
        else:
            yield demand
            if key == "contains":  # the bounds also on their own
                yield from (((one, None),) for one, _ in more)


def _written(nodes: tuple[Any, ...]) -> set[int]:
    """Nodes that stand for a keyword as a whole: it is left out where it is used."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, bool):
            continue
        found.update(_inside(node.get("values", ()), nodes))
        for group in node.get("anyOf", ()):
            if _dependency(node, group, nodes):
                found.update(group)
        for member in node.get("allOf", ()):
            if not isinstance(nodes[member], bool) and _own_keyword(node, nodes[member]):
                found.add(member)
    return found


def _inside(listed: tuple[int, ...], nodes: tuple[Any, ...]) -> Iterator[int]:
    """The nodes of listed arrays and objects, and of what they hold."""
    pending = list(listed)
    while pending:
        place = pending.pop()
        yield place
        node = nodes[place]
        if not isinstance(node, bool):
            pending += [*node.get("prefixItems", ()), *(child for _, child in node.get("properties", ()))]


def _own_keyword(node: Node, member: Node) -> str | None:
    """The keyword of `node` that the front end wrote as this member of its ``allOf``."""
    match = _WRITTEN.fullmatch(member["pointer"])
    return match[2] if match and match[1] == node["pointer"] else None


def _dependency(node: Node, group: tuple[int, ...], nodes: tuple[Any, ...]) -> str | None:
    """The keyword that the front end wrote as these alternatives."""
    for member in group:
        if isinstance(nodes[member], dict):
            match = _DEPENDENCY.fullmatch(nodes[member]["pointer"].removeprefix(f"{node['pointer']}/"))
            return match[1] if match else None
    return None


def _name(ir: SchemaIR, place: int, demand: Demand) -> tuple[str, str] | None:
    """Pointer and keyword of a demand; None where the rules inside it say more than it does."""
    nodes = ir["nodes"]
    node: Node = nodes[place]
    key, member = demand[0]
    pointer: str = node["pointer"]
    if key in _CHILD and nodes[node[key]] is not False:
        return (pointer, key) if key == "propertyNames" else None
    if key in _NAMED and nodes[member[1]] is not False:
        return None
    if key in _MEMBERS and nodes[member] is not False:
        own = (
            None
            if key != "allOf"
            else _own_keyword(node, nodes[member])
            if nodes[member] is not True
            else None
        )
        return (pointer, own) if own else None
    if key == "anyOf":
        return pointer, _dependency(node, member, nodes) or key
    if key in ("types", "integer", "digits"):
        return pointer, "type"
    if key in _VALUES:
        key = "enum"
    elif key == "ref":
        key = "$ref"
    return pointer, ir.spelled.get(place, {}).get(key, key)


# ------------------------------------------------------------------ what they say


def _detail(ir: SchemaIR, one: _Candidate, goes_on: GoesOn, until: float) -> str:
    node: Node = ir["nodes"][one.place]
    key, member = one.demand[0]
    if key == "oneOf":
        return _branches(ir, one, goes_on, until)
    if key in ("pattern", "format"):
        return ir.spelled.get(one.place, {}).get(f"text of {key}", "")
    if one.keyword in ("enum", "const"):
        return _listed(node)
    if key in _NAMED:
        return str(member[0]) if key == "properties" else ""
    if key == "anyOf":
        return _asked_for(ir["nodes"], node["pointer"], member) if one.keyword in _DEPENDENT else ""
    if one.keyword == "type":
        return _type_names(node)
    if key == "not":
        return _refused(ir, member)
    if key == "required":
        return str(member)
    return str(node[key]) if isinstance(node[key], (int, str)) and key not in _CHILD else ""


def _type_names(node: Node) -> str:
    names = [name for bit, name in enumerate(_TYPES) if node.get("types", 63) >> bit & 1]
    return " or ".join("integer" if name == "number" and "integer" in node else name for name in names)


def _refused(ir: SchemaIR, place: int) -> str:
    """What a value must not be that must not match this sub-schema; empty where that is no short phrase."""
    node = ir["nodes"][place]
    while isinstance(node, dict) and node.keys() == {"pointer", "ref"} and len(node["ref"]) == 1:
        place = node["ref"][0]
        node = ir["nodes"][place]
    if isinstance(node, bool):
        return ""
    keys = node.keys() - {"pointer"}
    if keys <= {"types", "integer", "digits"}:
        return f"be of type {_type_names(node)}"
    if keys <= set(_VALUES):
        listed = _listed(node)
        several = sum(len(node[key]) for key in keys) > 1
        return f"be one of {listed}" if listed and several else f"be {listed}" if listed else ""
    if keys == {"required"}:
        names = list(map(repr, node["required"][:_LISTED]))
        return f"have the key {names[0]}" if len(names) == 1 else f"have all the keys {', '.join(names)}"
    text = ir.spelled.get(place, {}).get("text of pattern", "")
    return f"match the pattern {text}" if keys == {"pattern"} and text else ""


def _listed(node: Node) -> str:
    """Values that a node lists, as JSON; empty where they are many or are not plain."""
    if "values" in node:
        return ""
    values = [json.dumps(text, ensure_ascii=False) for text in node.get("strings", ())]
    values += [*node.get("numbers", ()), *node.get("literals", ())]
    joined = ", ".join(values[:_LISTED])
    return joined if len(values) <= _LISTED and len(joined) <= _LISTED_CHARACTERS else ""


def _asked_for(nodes: tuple[Any, ...], pointer: str, group: tuple[int, ...]) -> str:
    """Which keys a key asks for, or which key asks for more."""
    members: list[Node] = [nodes[member] for member in group if not isinstance(nodes[member], bool)]
    for member in members:
        required: tuple[str, ...] = member.get("required", ())
        if len(required) > 1:
            return f"must have {', '.join(map(repr, required[1:]))} beside {required[0]!r}"
    for member in members:
        step: str = member["pointer"].removeprefix(f"{pointer}/").partition("/")[2]
        if step and "/" not in step:
            return f"must be as one of its keys requires: {step.replace('~1', '/').replace('~0', '~')!r}"
    return ""


def _branches(ir: SchemaIR, one: _Candidate, goes_on: GoesOn, until: float) -> str:
    """Which branches of ``oneOf`` the text matches; empty where the time does not suffice to tell."""
    pointer = ir["nodes"][one.place]["pointer"]
    branches: tuple[int, ...] = one.demand[0][1]
    alone = _changed(ir, [one])
    matching = []
    for index, branch in enumerate(branches):
        if monotonic() >= until:
            return ""
        node: Node = alone["nodes"][one.place]
        node = {"pointer": pointer} if isinstance(node, bool) else node
        with_branch = {**node, "allOf": (*node.get("allOf", ()), branch)}
        others: list[Any] = list(alone["nodes"])
        others[one.place] = with_branch
        if goes_on(SchemaIR(nodes=tuple(others), root=ir["root"], options=ir["options"])):
            matching.append(f"{pointer}/oneOf/{index}")
    if not matching:
        return "it matches none of them"
    return f"it matches {', '.join(matching[:-1])} and {matching[-1]}" if len(matching) > 1 else ""
