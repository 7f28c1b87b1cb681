"""Read specifications that are simple: cheap to build and to mask, so that no compile probe is needed.

Why: a probe protects a server from what strangers send, at the cost of a round trip to another process and of building
the constraint twice. The schemas of tools are rarely hostile, and most of them show by their form that they are not.
What: JSON Schemas (`simple_schemas`), and structural tags whose tags differ in their begins and hold texts, free text
and such schemas. `simple_constraint` checks the form, and returns the constraint or None.
Invariant: None means only that the specification must be probed. What is returned is the constraint that
`requests.constraint_of` returns. At each point of a text, it is clear in which element of a structural tag the text is:
else a sequence of n elements would have up to n open alternatives, and a mask for all of them.
Cost: that of reading, and about a tenth more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.json_schema.parsing import parse_schema

from .limits import RequestLimits
from .requests import Kind
from .simple_schemas import is_simple_schema
from .spec_readers import parse_json, schema_constraint
from .structural_tags import read_structural_tag

__all__ = ["simple_constraint"]

_MOST_TRIGGERS = 16
_LONGEST_TEXT = 256


def simple_constraint(
    kind: Kind, spec: Any, limits: RequestLimits, specials: Collection[str]
) -> Constraint | None:
    """Return the constraint of a simple specification; None if it is not simple, or if its kind always needs a probe.

    Args:
        kind: The kind of the specification.
        spec: What the request sends. Its size has been checked.
        limits: The limits, and the form of JSON.
        specials: The texts of the special tokens; see `constraint_of`.

    Raises:
        StructgenError: The specification has a fault. A probe reports it in the same words.
    """
    if kind == "json":
        parsed = parse_schema(bytes(spec) if isinstance(spec, bytearray) else spec)
        is_simple = is_simple_schema(parsed, ordered=limits.ordered)
        return schema_constraint(spec, limits, parsed=parsed) if is_simple else None
    if kind == "structural_tag":
        tag = parse_json(spec, "a structural tag") if isinstance(spec, (str, bytes, bytearray)) else spec
        return read_structural_tag(tag, limits, specials) if _is_simple_tag(tag, limits.ordered) else None
    return None


def _is_simple_tag(tag: Any, ordered: bool) -> bool:
    if not isinstance(tag, dict):
        return False
    if "format" in tag:
        return tag.keys() <= {"type", "format"} and _is_whole(tag["format"], ordered)
    structures = tag.get("structures")
    return (
        isinstance(structures, list)
        and _are_triggers(tag.get("triggers"))
        and all(isinstance(one, dict) and _has_clear_end(one.get("schema"), ordered) for one in structures)
        and _are_different([one.get("begin") for one in structures])
        and all(_is_text(one.get("end")) for one in structures)
    )


def _is_whole(form: Any, ordered: bool) -> bool:
    """Return whether this is simple up to the end of a text: only there may free text or a bare schema stand."""
    kind = form.get("type", "tag") if isinstance(form, dict) else None
    check = _LAST.get(kind) if isinstance(kind, str) else None
    return check is not None and check(form, ordered)


def _is_inner(form: Any, ordered: bool) -> bool:
    """Return whether this is simple, and its end is clear wherever it stands."""
    kind = form.get("type", "tag") if isinstance(form, dict) else None
    check = _INNER.get(kind) if isinstance(kind, str) else None
    return check is not None and check(form, ordered)


def _is_const(form: Any, ordered: bool) -> bool:
    return _is_text(form.get("value"))


def _is_json(form: Any, ordered: bool) -> bool:
    return form.keys() <= {"type", "json_schema", "style"} and (
        form.get("style", "json") == "json" and is_simple_schema(form.get("json_schema"), ordered=ordered)
    )


def _is_tag(form: Any, ordered: bool) -> bool:
    content, end = form.get("content"), form.get("end")
    if not (isinstance(content, dict) and _is_text(end) and _is_text(form.get("begin"))):
        return False
    if content.get("type") == "any_text":
        return content.keys() == {"type"} and bool(end)
    if content.get("type") == "json_schema":
        return _is_json(content, ordered) and _has_clear_end(content.get("json_schema"), ordered)
    return _is_inner(content, ordered)


def _has_clear_end(schema: Any, ordered: bool) -> bool:
    """Return whether a schema is simple and no text after a value could be a part of it, as digits of a number are."""
    return (
        isinstance(schema, dict)
        and schema.get("type") in ("object", "array", "string", "boolean", "null")
        and is_simple_schema(schema, ordered=ordered)
    )


def _is_inner_sequence(form: Any, ordered: bool) -> bool:
    elements = form.get("elements")
    return isinstance(elements, list) and all(_is_inner(element, ordered) for element in elements)


def _is_sequence(form: Any, ordered: bool) -> bool:
    elements = form.get("elements")
    return (
        isinstance(elements, list)
        and all(_is_inner(element, ordered) for element in elements[:-1])
        and all(_is_whole(element, ordered) for element in elements[-1:])
    )


def _are_tags(form: Any, ordered: bool) -> bool:
    tags = form.get("tags")
    return (
        not form.get("excludes")
        and isinstance(tags, list)
        and all(isinstance(tag, dict) and tag.get("type", "tag") == "tag" for tag in tags)
        and _are_different([tag.get("begin") for tag in tags])
        and all(_is_tag(tag, ordered) for tag in tags)
    )


def _are_triggered(form: Any, ordered: bool) -> bool:
    return _are_triggers(form.get("triggers")) and _are_tags(form, ordered)


def _are_triggers(given: Any) -> bool:
    return isinstance(given, list) and len(given) <= _MOST_TRIGGERS and all(map(_is_text, given))


def _is_text(given: Any) -> bool:
    return isinstance(given, str) and len(given) <= _LONGEST_TEXT


def _are_different(begins: list[Any]) -> bool:
    """Return whether all are texts and no text begins with another, so that one tag remains after its begin."""
    if not all(_is_text(begin) and begin for begin in begins):
        return False
    ordered = sorted(begins)
    return not any(after.startswith(begin) for begin, after in pairwise(ordered))


_INNER: dict[str, Callable[[Any, bool], bool]] = {
    "const_string": _is_const,
    "sequence": _is_inner_sequence,
    "tag": _is_tag,
}
_LAST: dict[str, Callable[[Any, bool], bool]] = {
    **_INNER,
    "json_schema": _is_json,
    "sequence": _is_sequence,
    "tags_with_separator": _are_tags,
    "triggered_tags": _are_triggered,
}
