"""Structural tags as constraints: the format in which inference engines describe free text with structured parts.

Why: vLLM and SGLang pass tool calls and reasoning in this format, and users write it themselves.
What: the legacy form ``{"structures": [{"begin", "schema", "end"}], "triggers": [...]}`` and the newer one
``{"type": "structural_tag", "format": {...}}``, as XGrammar 0.2 documents its formats. `FORMATS` lists what is
supported.
Invariant: free text never contains what ends it: the end of its tag, or a trigger. Repeated free texts may contain an
end across their border. `excludes` of `any_text` concerns that text only, so an excluded text may overlap the end.
`at_least_one` means that the text starts with a tag, as in XGrammar. A special token of the vocabulary inside a text
stands for that token. A field of the wrong type raises an error with the path to it.
Cost: linear in the formats; triggers are compared with one another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.composition.composed import Fragment
from structgen.errors import ConstraintError, a_kind
from structgen.serving.limits import RequestLimits
from structgen.serving.structural_tags.fields import check_fields

from . import combined, leaves, triggers
from .reading import ReadFormat, Reading
from .token_formats import TOKEN_FORMATS

__all__ = ["read_structural_tag"]

FORMATS: Mapping[str, ReadFormat] = {
    "const_string": leaves.const_string,
    "json_schema": leaves.json_schema,
    "qwen_xml_parameter": leaves.qwen_xml_parameter,
    "regex": leaves.regex,
    "grammar": leaves.grammar,
    "token": leaves.token,
    "any_text": leaves.any_text,
    "sequence": combined.sequence,
    "or": combined.or_,
    "optional": combined.optional,
    "star": combined.star,
    "plus": combined.plus,
    "repeat": combined.repeat,
    "tag": combined.tag,
    "triggered_tags": triggers.triggered_tags,
    "dispatch": triggers.dispatch,
    "tags_with_separator": combined.tags_with_separator,
    **TOKEN_FORMATS,
}


def read_structural_tag(tag: Any, limits: RequestLimits, specials: Collection[str] = ()) -> Constraint:
    """Return the constraint of a structural tag in either form. Raise `ConstraintError` with the place in it."""
    reading = Reading(limits, specials, FORMATS)
    if not isinstance(tag, dict):
        raise ConstraintError(f"a structural tag is an object, not {a_kind(tag)}")
    if "structures" in tag:
        return triggers.legacy(reading, tag)
    if tag.get("type", "structural_tag") != "structural_tag" or "format" not in tag:
        raise ConstraintError(
            'a structural tag has "type": "structural_tag" and "format", or "structures" and "triggers"',
            where=f"keys {', '.join(map(repr, list(tag)[:8]))}",
        )
    check_fields(tag, {"type", "format"}, "structural_tag")
    made = reading.format(tag["format"], (), "format", 0)
    return made.whole() if isinstance(made, Fragment) else made
