"""Formats of structural tags in which a trigger inside free text starts another format: triggered tags, dispatch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from structgen.constraints.base import Constraint, Operand, as_constraint
from structgen.constraints.composition import Special, Tokens
from structgen.constraints.composition.trigger_dispatch import dispatch_of
from structgen.errors import ConstraintError, a_kind
from structgen.serving.spec_readers import schema_constraint
from structgen.serving.structural_tags.fields import at, check_fields, flag, items, texts

from .combined import tag_parts
from .marks import TokenMark, text_ends, token_begin
from .reading import Reading, either, in_order

__all__ = ["dispatch", "legacy", "triggered_tags"]


def legacy(reading: Reading, tag: dict[str, Any]) -> Constraint:
    """Read the older form of a structural tag, with `structures` instead of `format`."""
    check_fields(tag, {"type", "structures", "triggers"}, "structural_tag")
    tags = []
    for index, structure in enumerate(items(tag, "structures", "structural_tag")):
        where = f"structural_tag.structures[{index}]"
        if not isinstance(structure, dict):
            raise ConstraintError(f"a structure is an object, not {a_kind(structure)}", where=where)
        check_fields(structure, {"begin", "schema", "end"}, where)
        reading.count_format(1)
        begin, end = reading.marker(structure, "begin", where), reading.marker(structure, "end", where)
        with at(f"{where}.schema"):
            content = schema_constraint(structure.get("schema", True), reading.limits)
        tags.append((begin, in_order([content, reading.written(end)]), where))
    return _triggered(reading, tag, tags, (), "structural_tag", False, False)


def triggered_tags(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read `triggered_tags`: free text in which each trigger starts one of the tags."""
    check_fields(form, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"}, where)
    at_once, once = flag(form, "at_least_one", where), flag(form, "stop_after_first", where)
    tags = []
    for index, tag_form in enumerate(items(form, "tags", where)):
        path = f"{where}.tags[{index}]"
        tags.append((*tag_parts(reading, tag_form, path, depth, ends), path))
    return _triggered(reading, form, tags, ends, where, at_once, once)


def _triggered(
    reading: Reading,
    form: Mapping[str, Any],
    tags: Sequence[tuple[str, Constraint, str]],
    ends: tuple[str, ...],
    where: str,
    at_once: bool,
    once: bool,
) -> Constraint:
    """Return free text with `tags`, each given as its begin, its rest and its path."""
    triggers = texts(form, "triggers", where)
    if not triggers:
        raise ConstraintError("triggered_tags need a trigger", where=f"{where}.triggers")
    after: dict[str, list[Constraint]] = {trigger: [] for trigger in triggers}
    for begin, rest, path in tags:
        if isinstance(begin, TokenMark) and isinstance(begin.constraint(reading.specials), Tokens):
            raise token_begin(path)
        fitting = [trigger for trigger in triggers if begin.startswith(trigger)]
        if len(fitting) != 1:
            raise ConstraintError(
                f"the tag that begins with {begin!r:.60} has {len(fitting)} triggers",
                where=path,
                hint="Exactly one trigger is the beginning of a tag's begin.",
            )
        tail = begin[len(fitting[0]) :]
        after[fitting[0]].append(in_order([reading.written(tail), rest]) if tail else rest)
    for index, (trigger, rests) in enumerate(after.items()):
        if not rests:
            raise ConstraintError(
                f"no tag begins with the trigger {trigger!r:.60}", where=f"{where}.triggers[{index}]"
            )
    calls = [(trigger, either(rests)) for trigger, rests in after.items()]
    return _dispatched(reading, calls, form, ends, where, at_once, once)


def dispatch(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `dispatch`: free text in which each trigger is followed by a format of its own."""
    check_fields(form, {"type", "rules", "loop", "excludes"}, where)
    once = not flag(form, "loop", where, True)
    calls = []
    for index, rule in enumerate(items(form, "rules", where)):
        path = f"{where}.rules[{index}]"
        if not isinstance(rule, (list, tuple)) or len(rule) != 2 or not isinstance(rule[0], str):
            raise ConstraintError("a rule is a text and a format", where=path)
        calls.append((rule[0], reading.format(rule[1], (), f"{path}[1]", depth)))
    return _dispatched(reading, calls, form, ends, where, False, once)


def _dispatched(
    reading: Reading,
    calls: Iterable[tuple[str, Constraint]],
    form: Mapping[str, Any],
    ends: tuple[str, ...],
    where: str,
    at_once: bool,
    once: bool,
) -> Constraint:
    """Return free text with `calls`. The first call comes at once if `at_once`, and is the only one if `once`."""
    merged: dict[str | Special, list[Constraint]] = {}
    for trigger, rest in calls:
        pieces = reading.split(trigger)
        if len(pieces) == 1 and isinstance(pieces[0], str):
            merged.setdefault(trigger, []).append(rest)
        elif isinstance(pieces[0], Special):
            key = next((known for known in merged if known == pieces[0]), pieces[0])
            merged.setdefault(key, []).append(in_order([*map(as_constraint, pieces[1:]), rest]))
        else:
            raise ConstraintError(
                f"the trigger {trigger!r:.60} holds a special token after a text",
                where=where,
                hint="A trigger is a text, or begins with a special token.",
            )
    forbidden = tuple(dict.fromkeys((*texts(form, "excludes", where), *text_ends(ends))))
    triggers: dict[str | Special, Operand] = {trigger: either(rests) for trigger, rests in merged.items()}
    with at(where):
        return dispatch_of(triggers, at_once=at_once, forbidden=forbidden, stop_after_first=once)
