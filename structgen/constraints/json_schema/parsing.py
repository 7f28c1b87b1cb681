"""Parse the JSON text of a schema exactly: decimals as written, and errors with a position.

Why: ``multipleOf: 0.01`` must not become a double, and schemas come from strangers.

Invariant: numbers keep their value. NaN, Infinity, repeated keys and nesting beyond the interpreter's limit are
refused.

Source: RFC 8259.
"""

from __future__ import annotations

import re
import sys
from decimal import Decimal, InvalidOperation
from json import JSONDecodeError, JSONDecoder
from pathlib import PurePath
from typing import NoReturn, get_origin

from structgen.errors import LimitExceeded, SchemaInvalid, show_place
from structgen.ir.schema import JsonValue

from .unique_keys import repeated_key

__all__ = ["TEXT_LIMIT", "parse_schema"]

TEXT_LIMIT = 64 * 2**20
"""Limit on the characters of a schema's text."""

_PATH_LIKE = re.compile(r"[^\n{}\[\]\"]*(\.(json|ya?ml|schema)|[/\\][\w.-]+)")
_PASS_THE_CONTENTS = 'Pass its contents: Path("...").read_text().'
_BLANKS = " \t\n\r"


def _refuse_constant(name: str) -> NoReturn:
    raise SchemaInvalid(f"the schema's text contains {name}, which is not JSON")


_DECODER = JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant)


def parse_schema(schema: object) -> JsonValue:
    """Parse a schema that is given as text; return anything else as it is."""
    if isinstance(schema, (bytes, bytearray)):
        try:
            schema = schema.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SchemaInvalid(f"the schema's text is not UTF-8: byte {error.start} is invalid") from None
    if not isinstance(schema, str):
        _refuse_other_types(schema)
        return schema
    if len(schema) > TEXT_LIMIT:
        raise LimitExceeded(
            f"the schema's text has {len(schema):,} characters, more than {TEXT_LIMIT:,}",
            limit="schema_length",
            hint="Pass a parsed schema, or a smaller one.",
        )
    try:
        decoded = _decode(schema)
    except JSONDecodeError as error:
        raise _not_json(schema, error) from None
    except RecursionError:
        raise LimitExceeded(
            "the schema's text is nested too deeply",
            limit="schema_depth",
            hint="The limit is about a thousand levels of arrays and objects; move inner schemas to $defs.",
        ) from None
    except InvalidOperation:
        raise LimitExceeded(
            "the schema's text contains a number whose exponent is too large",
            limit="number_exponent",
            hint="Use a smaller exponent.",
        ) from None
    except ValueError:
        # The interpreter refuses integers of thousands of digits (sys.set_int_max_str_digits).
        raise LimitExceeded(
            f"the schema's text contains an integer of more than {sys.get_int_max_str_digits():,} digits",
            limit="number_digits",
            hint="Write it with fewer digits.",
        ) from None
    if (repeated := repeated_key(schema, decoded)) is not None:
        raise SchemaInvalid(
            f"the key {repeated.key!r:.200} occurs twice in one object of the schema's text",
            pointer=repeated.pointer,
            hint="Remove one: parsers differ in which of the two they use.",
        )
    return decoded


def _decode(text: str) -> JsonValue:
    # `decode` searches for white space around the text with a regular expression, which is slow.
    try:
        decoded, end = _DECODER.scan_once(text, 0)  # type: ignore[attr-defined]
    except StopIteration:
        decoded, end = None, -1
    return decoded if end >= 0 and not text[end:].strip(_BLANKS) else _DECODER.decode(text)


def _refuse_other_types(schema: object) -> None:
    """Raise for values that are often passed by mistake."""
    if isinstance(schema, PurePath):
        raise SchemaInvalid(f"{str(schema)!r} is a path, and files are not opened", hint=_PASS_THE_CONTENTS)
    if isinstance(schema, type) or get_origin(schema) is not None:
        own = hasattr(schema, "model_json_schema")
        raise SchemaInvalid(
            f"{getattr(schema, '__name__', schema)!s:.60} is a Python type, not a schema",
            hint="structgen.types.constraint_for_type(...) makes the constraint of a type, and generate, run and "
            "prompt take the type itself" + ("; its schema is model_json_schema()." if own else "."),
        )
    if isinstance(schema, (tuple, set, frozenset)):
        raise SchemaInvalid(f"a schema must be an object or a boolean, not a Python {type(schema).__name__}")


def _not_json(text: str, error: JSONDecodeError) -> SchemaInvalid:
    end = len(text.rstrip(_BLANKS))
    if not end:
        return SchemaInvalid("the schema's text is not JSON: it is empty")
    if _PATH_LIKE.fullmatch(text):
        return SchemaInvalid(
            f"the schema's text is not JSON: {text!r:.200} looks like a path, and files are not opened",
            hint=_PASS_THE_CONTENTS,
        )
    place, message = error.pos, error.msg
    if place >= end:
        # The message cannot show a position after the last line.
        place, message = end, f"{message} at the end of the text"
    line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
    return SchemaInvalid(
        f"the schema's text is not JSON: {message}, line {line}, column {column}",
        hint=show_place(text, place),
    )
