"""Build the constraint of a ``%json {...}`` block, with llguidance's options in its ``"x-guidance"``.

Why: grammars for llguidance state there how JSON is written. Elsewhere the key has no meaning, as JSON Schema requires.
Invariant: an option is applied or refused, with its position.
Cost: that of reading the schema.
Source: llguidance, docs/json_schema.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from structgen.constraints.base import Constraint
from structgen.constraints.json_schema import json_schema
from structgen.constraints.json_schema.whitespace import Whitespace
from structgen.errors import LimitExceeded, OptionError

from .source import Piece, Source

__all__ = ["schema_constraint"]

_OPTIONS = "x-guidance"
_WRITTEN = re.compile(" {0,8}[,:] {0,8}")
_ANY = r"[ \t\n\r]+"
"""Flexible white space in llguidance."""
_ESCAPES = frozenset('nrbtf\\"u')
"""What may follow a backslash in JSON that escapes only what it must."""


def schema_constraint(source: Source, block: Piece, options: Mapping[str, Any]) -> Constraint:
    """Return the constraint of a ``%json`` block.

    Args:
        source: The grammar.
        block: The block in it.
        options: Options as `json_schema` takes them; those in ``"x-guidance"`` override them.
    """
    text = source.text[block.content : block.offset + len(block.text)]
    if f'"{_OPTIONS}"' not in text:
        return json_schema(text, **options)
    schema = json.loads(text)
    if _OPTIONS not in schema:
        return json_schema(text, **options)
    given = _Guidance(source, block).read(schema[_OPTIONS])
    return json_schema(text, **{**options, **given})


class _Guidance:
    """Reads the options of one block."""

    def __init__(self, source: Source, block: Piece) -> None:
        self.source = source
        self.block = block

    def read(self, written: object) -> dict[str, Any]:
        if not isinstance(written, dict):
            self._fail(
                _OPTIONS, f"{_OPTIONS} must be an object", 'For example {"whitespace_flexible": false}.'
            )
        for name, value in written.items():
            check = _CHECKS.get(name)
            if check is None:
                self._fail(
                    name, f"{_OPTIONS} has no option {name!r:.60}", f"The options are {', '.join(_CHECKS)}."
                )
            if not isinstance(value, check):
                kind = "a text" if check is str else "true or false"
                self._fail(
                    name, f"the option {name} of {_OPTIONS} must be {kind}", f'For example {{"{name}": ...}}.'
                )
        for name in ("coerce_one_of", "lenient"):
            if written.get(name):
                hint = "Remove it: oneOf is exact here. Use anyOf if branches may overlap."
                self._refuse(name, f"the option {name} of {_OPTIONS} is not supported", hint)
        result: dict[str, Any] = {}
        self._whitespace(written, result)
        if "json_allow_general_unicode_escapes" in written:
            result["escapes"] = "all" if written["json_allow_general_unicode_escapes"] else "canonical"
        if "json_allowed_escapes" in written and set(written["json_allowed_escapes"]) - {"/"} != _ESCAPES:
            hint = "Remove it, or exclude the characters by a pattern of the strings."
            self._refuse("json_allowed_escapes", "json_allowed_escapes must list all escapes", hint)
        return result

    def _whitespace(self, written: Mapping[str, Any], result: dict[str, Any]) -> None:
        names = ("whitespace_flexible", "whitespace_pattern", "item_separator", "key_separator")
        if not any(name in written for name in names):
            return
        gap = written.get("whitespace_pattern") if "whitespace_pattern" in written else None
        if "whitespace_pattern" not in written and written.get("whitespace_flexible", True):
            gap = _ANY
        separators = written.get("item_separator", ","), written.get("key_separator", ":")
        if not gap and all(map(_WRITTEN.fullmatch, separators)):
            plain = [separator.strip(" ") for separator in separators] == [",", ":"]
            if plain:
                result["whitespace"] = Whitespace.written(separators=separators)
                return
        try:
            result["whitespace"] = Whitespace.matching(
                gap, item_separator=separators[0], key_separator=separators[1]
            )
        except OptionError as error:
            name = next(
                (option for option in names if error.message.startswith(option)), "whitespace_pattern"
            )
            self._fail(name, error.message, error.hint or "It must be a regular expression of white space.")
        except LimitExceeded as error:
            position = self.source.position(self.block.offset)
            error.where = f"%json at line {position.line}, column {position.column}"
            raise

    def _span(self, name: str) -> tuple[int, int]:
        shown = json.dumps(name)
        start = self.source.text.rfind(shown, self.block.content, self.block.offset + len(self.block.text))
        return (self.block.offset, len("%json")) if start < 0 else (start, len(shown))

    def _fail(self, name: str, message: str, hint: str) -> NoReturn:
        self.source.fail(message, *self._span(name), hint)

    def _refuse(self, name: str, message: str, hint: str) -> NoReturn:
        raise self.source.unsupported(message, *self._span(name), hint)


_CHECKS: Mapping[str, type] = {
    "item_separator": str,
    "key_separator": str,
    "whitespace_flexible": bool,
    "whitespace_pattern": str,
    "json_allowed_escapes": str,
    "json_allow_general_unicode_escapes": bool,
    "coerce_one_of": bool,
    "lenient": bool,
}
"""The options, and the types of their values."""
