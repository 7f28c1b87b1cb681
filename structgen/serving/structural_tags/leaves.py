"""Formats of structural tags that hold no other formats: texts, schemas, patterns, grammars, tokens, free text."""

from __future__ import annotations

from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.composition import Composition, text
from structgen.constraints.composition.composed import Fragment
from structgen.constraints.json_schema.excluding import excluding
from structgen.constraints.json_schema.parsing import parse_schema
from structgen.constraints.json_schema.whitespace import Whitespace
from structgen.constraints.regex import regex as regex_of
from structgen.constraints.token_limits import check_token_limit, limit_tokens
from structgen.errors import ConstraintError
from structgen.serving.spec_readers import grammar_constraint, schema_constraint
from structgen.serving.structural_tags.fields import at, check_fields, flag, texts, whole
from structgen.serving.structural_tags.fields import text as text_of

from .marks import read_mark, text_ends
from .reading import Reading

__all__ = [
    "any_text",
    "const_string",
    "grammar",
    "json_schema",
    "qwen_xml_parameter",
    "regex",
    "text_options",
    "token",
]


def const_string(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `const_string`: one fixed text."""
    check_fields(form, {"type", "value"}, where)
    return reading.written(text_of(form, "value", where))


def json_schema(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `json_schema`: a JSON text, or another notation of arguments that its `style` names."""
    check_fields(form, {"type", "json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"}, where)
    if "json_schema" not in form:
        raise ConstraintError('"json_schema" is missing', where=where)
    style = text_of(form, "style", where, "json")
    blanks = whole(form, "max_whitespace_cnt", where)
    loose = flag(form, "any_order", where)
    excluded = texts(form, "excludes", where)
    schema = form["json_schema"]
    with at(f"{where}.max_whitespace_cnt"):
        white = None if blanks is None else Whitespace.flexible(blanks, blanks)
    if style == "json":
        with at(f"{where}.json_schema"):
            made = schema_constraint(schema, reading.limits, ordered=not loose, whitespace=white)
        with at(f"{where}.excludes"):
            return excluding(made, excluded)
    from structgen.tools.xml_elements import BLANKS, xml_elements
    from structgen.tools.xml_styles import STYLES

    if style not in STYLES:
        raise ConstraintError(
            f"the style {style!r:.40} of a json_schema is not supported",
            where=f"{where}.style",
            hint=f"The styles are json, {', '.join(STYLES)}.",
        )
    with at(f"{where}.json_schema"):
        made = schema_constraint(_of_arguments(schema), reading.limits, ordered=not loose, whitespace=white)
        body, rules = xml_elements(
            made,
            STYLES[style],
            any_order=loose,
            most_blanks=BLANKS if blanks is None else blanks,
            excluded=excluded,
            write=reading.body,
            shared=reading.values,
        )
        name = f"arguments in the style {style}"
        return Composition(body, name, rules) if rules else Fragment(body, name)


def _of_arguments(schema: Any) -> Any:
    """Close the schema of a call's arguments: only declared keys, unless the schema itself allows others."""
    if isinstance(schema, (str, bytes, bytearray)):
        schema = parse_schema(bytes(schema) if isinstance(schema, bytearray) else schema)
    if not isinstance(schema, dict) or "properties" not in schema or _OPENING & schema.keys():
        return schema
    return {**schema, "additionalProperties": False}


def qwen_xml_parameter(
    reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int
) -> Constraint:
    """Read a `qwen_xml_parameter`: `json_schema` in the style of Qwen's XML."""
    check_fields(form, {"type", "json_schema"}, where)
    return json_schema(reading, {**form, "style": "qwen_xml"}, ends, where, depth)


def regex(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `regex`: a text that matches the pattern and contains none of `excludes`."""
    check_fields(form, {"type", "pattern", "excludes"}, where)
    pattern = text_of(form, "pattern", where)
    excluded = texts(form, "excludes", where)
    with at(f"{where}.pattern"):
        made = regex_of(pattern)
    return made & text(excluded) if excluded else made


def grammar(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `grammar`: a text of the grammar."""
    check_fields(form, {"type", "grammar"}, where)
    source = text_of(form, "grammar", where)
    with at(f"{where}.grammar"):
        return grammar_constraint(source)


def token(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read a `token`: one token, by its number or its text."""
    return read_mark(form, where).constraint(reading.specials)


def any_text(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    """Read an `any_text`: free text up to the end, without the texts that are excluded."""
    never, most, tokens = text_options(form, where)
    made = text(tuple(dict.fromkeys((*never, *text_ends(ends)))) or None, max_chars=most)
    return made if tokens is None else limit_tokens(made, tokens)


def text_options(form: Any, where: str) -> tuple[tuple[str, ...], int | None, int | None]:
    """Return the texts that a free text excludes, its maximal characters, and its maximal tokens."""
    check_fields(form, {"type", "excludes", "max_chars", "max_tokens"}, where)
    tokens = whole(form, "max_tokens", where)
    if tokens is not None:
        with at(f"{where}.max_tokens"):
            check_token_limit(tokens, "complete")
    return texts(form, "excludes", where), whole(form, "max_chars", where), tokens


_OPENING = frozenset(
    {
        "additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "allOf", "anyOf",
        "oneOf", "not", "if", "$ref", "$dynamicRef", "dependentSchemas", "dependentRequired", "dependencies",
        "const", "enum",
    }
)  # fmt: skip
"""Keywords by which an object may have more keys than its `properties`."""
