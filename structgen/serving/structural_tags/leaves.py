"""Formats of structural tags that hold no other formats: texts, schemas, patterns, grammars, tokens, free text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.composition import Composition, special, text
from structgen.constraints.regex import regex as regex_of
from structgen.errors import ConstraintError
from structgen.serving.requests import grammar_constraint, schema_constraint
from structgen.serving.tag_fields import at, check_fields, flag, texts, whole
from structgen.serving.tag_fields import text as text_of

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
    check_fields(form, {"type", "value"}, where)
    return reading.written(text_of(form, "value", where))


def json_schema(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"}, where)
    if "json_schema" not in form:
        raise ConstraintError('"json_schema" is missing', where=where)
    _no_excludes(form, where)
    style = text_of(form, "style", where, "json")
    blanks = whole(form, "max_whitespace_cnt", where)
    loose = flag(form, "any_order", where)
    if style == "qwen_xml":
        for key, given in (("any_order", loose), ("max_whitespace_cnt", blanks is not None)):
            if given:
                raise ConstraintError(
                    f'"{key}" of a json_schema in the style qwen_xml is not supported',
                    where=f"{where}.{key}",
                    hint="Leave it out: parameters are written in the order in which they are declared.",
                )
        return _qwen_xml(reading, form["json_schema"], f"{where}.json_schema")
    if style != "json":
        raise ConstraintError(
            f"the style {style!r:.40} of a json_schema is not supported",
            where=f"{where}.style",
            hint="The styles are json and qwen_xml.",
        )
    # "json.dumps" has at most one blank in a row.
    white = None if blanks is None else "json.dumps" if blanks else "compact"
    with at(f"{where}.json_schema"):
        return schema_constraint(form["json_schema"], reading.limits, ordered=not loose, whitespace=white)


def _qwen_xml(reading: Reading, schema: Any, where: str) -> Constraint:
    from structgen.tools.definitions import read_tools
    from structgen.tools.xml_parameters import xml_parameters

    with at(where):
        schema_constraint(schema, reading.limits)  # says what is wrong with it
        read = json.loads(schema) if isinstance(schema, (str, bytes, bytearray)) else schema
        if read is False:
            raise ConstraintError("nothing satisfies the schema false")
        function = {"name": "call", "parameters": {"type": "object"} if read is True else read}
        (tool,) = read_tools([{"type": "function", "function": function}])
        return Composition(xml_parameters(tool)[0], "parameters as XML")


def qwen_xml_parameter(
    reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int
) -> Constraint:
    check_fields(form, {"type", "json_schema"}, where)
    return json_schema(reading, {**form, "style": "qwen_xml"}, ends, where, depth)


def regex(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "pattern", "excludes"}, where)
    _no_excludes(form, where)
    pattern = text_of(form, "pattern", where)
    with at(f"{where}.pattern"):
        return regex_of(pattern)


def grammar(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "grammar"}, where)
    source = text_of(form, "grammar", where)
    with at(f"{where}.grammar"):
        return grammar_constraint(source)


def token(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "token"}, where)
    return special(reading.token_text(form.get("token"), f"{where}.token"))


def any_text(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    never, most = text_options(form, where)
    return text(tuple(dict.fromkeys((*never, *ends))) or None, max_chars=most)


def text_options(form: Any, where: str) -> tuple[tuple[str, ...], int | None]:
    """What a free text excludes, and its most characters."""
    check_fields(form, {"type", "excludes", "max_chars", "max_tokens"}, where)
    if form.get("max_tokens") is not None:
        raise ConstraintError(
            '"max_tokens" of any_text is not supported',
            where=f"{where}.max_tokens",
            hint='Use "max_chars".',
        )
    return texts(form, "excludes", where), whole(form, "max_chars", where)


def _no_excludes(form: Mapping[str, Any], where: str) -> None:
    if texts(form, "excludes", where):
        raise ConstraintError(
            f'"excludes" of a {form["type"]} is not supported',
            where=f"{where}.excludes",
            hint="Say it in the schema or the pattern itself.",
        )
