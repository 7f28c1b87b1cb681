"""Unusual characters at every position of every notation: the constraint works, or one of our errors says why not.

Half of a surrogate pair has no UTF-8 form, so no text contains it. The others are ordinary characters that programs
often treat specially.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.errors import StructgenError
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary

ODD = {
    "half of a pair, high": "\ud83d",
    "half of a pair, low": "\udc00",
    "NUL": "\0",
    "delete": "\x7f",
    "next line": "\x85",
    "line separator": "\u2028",
    "byte order mark": "\ufeff",
    "non-character": "\uffff",
    "private use": "\ue000",
    "combining": "\u0301",
    "right to left": "\u202e",
    "dotted I": "\u0130",
    "sharp s": "\u1e9e",
    "four bytes": "\U0001f600",
    "last": "\U0010ffff",
}


def longest(source: str) -> Constraint:
    return sg.lark(source, lexer="longest")


def contextual(source: str) -> Constraint:
    return sg.lark(source, lexer="longest", contextual=True)


LARK = [
    'start: "a@b"',
    'start: "@"',
    'start: A\nA: "@" | "b"',
    'start: A\nA: "@"i "b"',
    "start: A\nA: /a@*b/",
    "start: A\nA: /[^@a]/",
    'start: A\nA: "a".."@"',
    'start: A\nA: "@".."\U0010ffff"',
    'start: "x"\n%ignore "@"',
    '_x{a}: a "b"\nstart: _x{"@"}',
    '// @\nstart: "a"',
    'start: "a" %json {"const": "@"}',
    'start: <@> "a"',
    '%import common.@\nstart: "a"',
]
BNF = [
    'root ::= "a@b"',
    "root ::= [@a]",
    "root ::= [^@]",
    "root ::= [ -@]",
    'root ::= "a" # @',
    'root ::= x@\nx@ ::= "a"',
    'root ::= ("@" | "b")* "c"',
]
PATTERNS = [
    "a@b",
    "[@]",
    "[^@]b",
    "@*c",
    "(?i:@)",
    "(?=@)a",
    "(?<=@)a",
    "a{1,2}@?",
    "[ -@]",
    r"\@",
    "(?x: @ a)",
]
SCHEMAS: list[Any] = [
    {"const": "a@"},
    {"enum": ["@", {"@": 1}, ["@"]]},
    {"pattern": "^[@]a$", "type": "string"},
    {"type": "object", "properties": {"@": {"type": "null"}}, "required": ["@"]},
    {"type": "object", "patternProperties": {"@": False}, "additionalProperties": {"type": "null"}},
    {"type": "object", "propertyNames": {"const": "@"}},
    {"$ref": "#/$defs/@", "$defs": {"@": {"type": "null"}}},
    {"type": "object", "dependentRequired": {"@": ["b@"]}, "dependentSchemas": {"@": {"maxProperties": 1}}},
    {"not": {"const": "@"}, "type": "string"},
    {"title": "@", "description": "@", "$comment": "@", "type": "null"},
    {"format": "@", "type": "string"},
    {"$anchor": "@", "type": "null"},
    {"$id": "http://a/@", "type": "null"},
]
TEMPLATES: list[tuple[str, Callable[[Any], Constraint], Any]] = [
    *[("lark", read, text) for read in (sg.lark, longest, contextual) for text in LARK],
    *[(read.__name__, read, text) for read in (sg.gbnf, sg.ebnf) for text in BNF],
    *[("regex", sg.regex, text) for text in PATTERNS],
    *[("schema", sg.json_schema, schema) for schema in SCHEMAS],
    *[("schema text", lambda s: sg.json_schema(json.dumps(s)), schema) for schema in SCHEMAS],
    ("choice", lambda text: sg.choice([text, "b"]), "a@"),
    ("text", sg.text, "@a"),
    ("repeat", lambda text: sg.repeat(sg.regex("a"), 1, 3, text), "@"),
    ("forbid", lambda text: sg.forbid(sg.regex("[a-z@]*"), text), "b@"),
]


def filled(template: Any, character: str) -> Any:
    if isinstance(template, str):
        return template.replace("@", character)
    if isinstance(template, list):
        return [filled(one, character) for one in template]
    if isinstance(template, dict):
        return {filled(key, character): filled(value, character) for key, value in template.items()}
    return template


def spellings(character: str) -> list[str]:
    code = ord(character)
    return [character, f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}", f"\\x{code & 0xFF:02x}"]


@pytest.mark.parametrize("odd", ODD)
def test_works_or_says_why_not(odd: str) -> None:
    for name, read, template in TEMPLATES:
        for spelling in spellings(ODD[odd]):
            given = filled(template, spelling)
            try:
                matcher = Matcher(read(given), byte_vocabulary())
                matcher.mask()
                completion = matcher.witness()
            except StructgenError as error:
                assert str(error) and repr(error), (name, given)
                str(error).encode()  # it can be sent to a client
                continue
            except Exception as error:
                raise AssertionError(f"{name}: {given!a} raises {type(error).__name__}: {error}") from error
            assert completion is not None, (name, given)
            for token in completion:
                matcher.advance(token)
            assert matcher.is_complete(), (name, given)
            matcher.text.decode()
