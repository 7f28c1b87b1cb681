"""Formats of structural tags that are made of others: sequences, choices, repetitions, tags."""

from __future__ import annotations

from typing import Any

from structgen.constraints import expressions
from structgen.constraints.base import Constraint
from structgen.constraints.composition import optional as optional_of
from structgen.constraints.composition import repeat as repeat_of
from structgen.constraints.composition.composed import Fragment
from structgen.constraints.expressions import ANY, concat, intersect, literal
from structgen.constraints.grammar.bodies import choice_of
from structgen.constraints.occurrences import ends_first, without
from structgen.errors import ConstraintError
from structgen.serving.structural_tags.counted_text import counted_text
from structgen.serving.structural_tags.fields import at, check_fields, flag, items, whole
from structgen.serving.structural_tags.fields import text as text_of

from .leaves import any_text, text_options
from .reading import Reading, either, in_order

__all__ = ["optional", "or_", "plus", "repeat", "sequence", "star", "tag", "tag_parts", "tags_with_separator"]


def sequence(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `sequence`: its elements, one after the other."""
    check_fields(form, {"type", "elements"}, where)
    elements = items(form, "elements", where)
    # The end may come after an element if all that follow it may be empty.
    at_end = [all(map(_may_be_empty, elements[index + 1 :])) for index in range(len(elements))]
    parts = [
        reading.format(element, ends if is_at_end else (), f"{where}.elements[{index}]", depth)
        for index, (element, is_at_end) in enumerate(zip(elements, at_end, strict=True))
    ]
    return in_order(parts)


def _may_be_empty(form: Any) -> bool:
    """Return whether a format accepts the empty text. Formats without free text count as non-empty."""
    if not isinstance(form, dict):
        return False
    kind = form.get("type")
    if kind in ("any_text", "any_tokens", "optional", "star", "triggered_tags", "dispatch"):
        return not form.get("at_least_one")
    if kind == "repeat":
        return not form.get("min") or _may_be_empty(form.get("content"))
    if kind == "plus":
        return _may_be_empty(form.get("content"))
    if kind == "const_string":
        return form.get("value") == ""
    elements = form.get("elements")
    if not isinstance(elements, (list, tuple)):
        return False
    return (kind == "sequence" and all(map(_may_be_empty, elements))) or (
        kind == "or" and any(map(_may_be_empty, elements))
    )


def or_(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read an `or`: one of its elements."""
    check_fields(form, {"type", "elements"}, where)
    return either(
        [
            reading.format(element, ends, f"{where}.elements[{index}]", depth)
            for index, element in enumerate(items(form, "elements", where))
        ]
    )


def optional(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read an `optional`: its content, or nothing."""
    check_fields(form, {"type", "content"}, where)
    return optional_of(reading.format(form.get("content"), ends, f"{where}.content", depth))


def star(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `star`: its content any number of times."""
    check_fields(form, {"type", "content"}, where)
    return repeat_of(reading.format(form.get("content"), ends, f"{where}.content", depth))


def plus(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `plus`: its content at least once."""
    check_fields(form, {"type", "content"}, where)
    return repeat_of(reading.format(form.get("content"), ends, f"{where}.content", depth), 1)


def repeat(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `repeat`: its content from `min` to `max` times; a `max` of -1 means without a bound."""
    check_fields(form, {"type", "content", "min", "max"}, where)
    least = whole(form, "min", where, 0)
    most = None if form.get("max") == -1 else whole(form, "max", where)
    assert least is not None
    inner = reading.format(form.get("content"), ends, f"{where}.content", depth)
    with at(where):
        return repeat_of(inner, least, most)


def tag(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `tag`: a beginning, a content and an end."""
    begin, rest = tag_parts(reading, form, where, depth, ends)
    return in_order([reading.written(begin), rest])


def tag_parts(
    reading: Reading, form: Any, where: str, depth: int, around: tuple[str, ...] = ()
) -> tuple[str, Constraint]:
    """Return the begin of a tag and the constraint of the rest. `around` holds the ends of the enclosing tag."""
    reading.count_format(depth)
    if not isinstance(form, dict) or form.get("type", "tag") != "tag":
        raise ConstraintError('a tag is an object with "type": "tag"', where=where)
    check_fields(form, {"type", "begin", "content", "end"}, where)
    begin = reading.marker(form, "begin", where)
    ends = _ends(reading, form, where)
    content = form.get("content")
    if isinstance(content, dict) and content.get("type") == "any_text" and all(ends):
        return begin, _text_and_end(reading, content, ends, f"{where}.content", depth)
    own = tuple(filter(None, ends))
    inner = reading.format(content, own if all(ends) else (*own, *around), f"{where}.content", depth)
    return begin, in_order([inner, either([reading.written(end) for end in ends])])


def _ends(reading: Reading, form: Any, where: str) -> tuple[str, ...]:
    given = form.get("end")
    if not isinstance(given, (list, tuple)):
        return (reading.marker(form, "end", where),)
    if not given:
        raise ConstraintError("a tag needs an end", where=f"{where}.end")
    ends = [reading.marker({f"end[{index}]": end}, f"end[{index}]", where) for index, end in enumerate(given)]
    return tuple(dict.fromkeys(ends))


def _text_and_end(
    reading: Reading, form: dict[str, Any], ends: tuple[str, ...], where: str, depth: int
) -> Constraint:
    """Return free text up to its first end. The text before an end may look like the beginning of that end."""
    reading.count_format(depth)
    if any(reading.split(end) != [end] for end in ends):
        plain = any_text(reading, form, ends, where, depth)
        return in_order([plain, either([reading.written(end) for end in ends])])
    never, most, tokens = text_options(form, where)
    inside = without(never)
    if most is not None:
        inside = intersect([inside, expressions.repeat(ANY, 0, most)])
    if tokens is not None:
        return counted_text(inside, ends, tokens)
    # No other end may occur before this one in text and end together. Excluded texts concern the text alone.
    alternatives = [
        ("text", intersect([ends_first(end, ends), concat([inside, literal(end)])]))
        for end in ends
        if not any(other in end[:-1] for other in ends)
    ]
    return Fragment(choice_of(alternatives), "free text until " + " or ".join(map(repr, ends)))


def tags_with_separator(
    reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int
) -> Constraint:
    """Read `tags_with_separator`: any of its tags, repeatedly, with a text in between."""
    check_fields(form, {"type", "tags", "separator", "at_least_one", "stop_after_first"}, where)
    least = int(flag(form, "at_least_one", where))
    most = 1 if flag(form, "stop_after_first", where) else None
    separator = text_of(form, "separator", where, "")
    tags = [
        tag(reading, tag_form, ends, f"{where}.tags[{index}]", depth)
        for index, tag_form in enumerate(items(form, "tags", where))
    ]
    return repeat_of(either(tags), least, most, reading.written(separator) if separator else None)
