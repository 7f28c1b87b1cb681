"""Custom tools of OpenAI's API: a call has one text, ``input``, which may have a grammar or a pattern of its own.

What: a model writes such a call as one of a function with the parameter ``input``: ``{"input": "SELECT 1"}``. Inside
JSON and Python strings the text is written with escapes, in one form for each text. As an XML element it is written as
it is; texts that would end the element are then impossible.
Invariant: the input is a text of the tool's grammar or pattern, and each of these texts can be written, except as an
XML element.
Source: https://platform.openai.com/docs/guides/function-calling#custom-tools
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from structgen.constraints.as_grammar.escaped_text import EscapedText
from structgen.constraints.base import Constraint
from structgen.constraints.composition import body_of, text
from structgen.constraints.grammar.builders import lark
from structgen.constraints.regex import regex
from structgen.core_calls import call_limits
from structgen.errors import ConstraintError, EmptyConstraint, LimitExceeded, StructgenError, with_kind
from structgen.ir.grammar import Body
from structgen.matcher import compile_constraint
from structgen.vocabulary import Vocabulary

from .bodies import sequence_of, text_of

__all__ = [
    "PARAMETER",
    "CustomFormat",
    "InputReader",
    "custom_arguments",
    "custom_value",
    "read_custom_format",
]

PARAMETER = "input"
"""The parameter that holds the text of a call."""
_START = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HIGH = "[dD][89abAB][0-9a-fA-F]{2}"
_PIECE = re.compile(rf'(?:[^"\\]|\\u{_HIGH}\\u[0-9a-fA-F]{{4}}|\\u(?!{_HIGH})[0-9a-fA-F]{{4}}|\\[^u])*')
"""Whole escapes: one of two UTF-16 units is read together with the other one."""
_SECONDS = 0.05
_FORM = (
    'A format is {"type": "text"} or {"type": "grammar", "grammar": {"syntax": "lark" or "regex", '
    '"definition": ...}}.'
)


@dataclass(frozen=True)
class CustomFormat:
    """What the input of a custom tool may be."""

    syntax: Literal["text", "lark", "regex"] = "text"
    definition: str = ""
    """The grammar or the pattern; empty for `text`."""

    def constraint(self) -> Constraint:
        """Return the constraint of the input.

        Lexemes of a grammar are as long as possible, and patterns have the syntax of Rust's crate `regex`, as in
        OpenAI's server.

        Raises:
            StructgenError: The grammar or the pattern is invalid.
        """
        if self.syntax == "text":
            return text()
        return (
            lark(self.definition, lexer="longest")
            if self.syntax == "lark"
            else regex(self.definition, dialect="rust")
        )

    def schema(self) -> dict[str, Any]:
        """Return the schema of the arguments as the model is shown it."""
        said = {
            "text": "",
            "lark": f"a text of this Lark grammar:\n{self.definition}",
            "regex": f"a text that matches this regular expression: {self.definition}",
        }[self.syntax]
        value = {"type": "string", **({"description": said} if said else {})}
        return {"type": "object", "properties": {PARAMETER: value}, "required": [PARAMETER]}


def read_custom_format(definition: Mapping[str, Any], where: str) -> CustomFormat:
    """Return the format of a custom tool, from the object that holds its name.

    The grammar may lie in an object of its own, as in chats, or next to the type, as in the Responses API.

    Raises:
        ConstraintError: The format is malformed. The grammar itself is not read yet.
    """
    given = definition.get("format")
    if given is None:
        return CustomFormat()
    if not isinstance(given, Mapping):
        raise ConstraintError(f"it is {with_kind(given)}, not an object", where=where, hint=_FORM)
    kind = given.get("type")
    inner = given.get("grammar", given)
    if kind == "text":
        _check_keys(given, ("type",), where)
        return CustomFormat()
    if kind != "grammar" or not isinstance(inner, Mapping):
        raise ConstraintError(f"its type is {kind!r:.60}, or it has no grammar", where=where, hint=_FORM)
    _check_keys(given, ("type", "grammar") if inner is not given else ("type", "syntax", "definition"), where)
    _check_keys(inner, ("type", "syntax", "definition"), where)
    syntax, source = inner.get("syntax"), inner.get("definition")
    if syntax not in ("lark", "regex"):
        raise ConstraintError(f"its syntax is {syntax!r:.60}", where=where, hint='It is "lark" or "regex".')
    if not isinstance(source, str) or not source.strip():
        raise ConstraintError(
            "it has no definition"
            if not source or isinstance(source, str)
            else f"its definition is {with_kind(source)}",
            where=where,
            hint=_FORM,
        )
    return CustomFormat(syntax, source)


def custom_arguments(name: str, format: CustomFormat, notation: str, *, is_compact: bool) -> Body:
    """Return the body of the arguments as JSON or as keyword arguments.

    Args:
        name: The name of the tool, for errors.
        format: What the input may be.
        notation: ``json``, ``python`` or ``keywords``.
        is_compact: Whether JSON has no white space.

    Raises:
        StructgenError: The grammar or the pattern is invalid, or has no text.
    """
    value = sequence_of((text_of('"'), _body(name, format, ()), text_of('"')))
    if notation != "json":
        return sequence_of((text_of(f"{PARAMETER}="), value))
    colon = ":" if is_compact else ": "
    return sequence_of((text_of(f'{{"{PARAMETER}"{colon}'), value, text_of("}")))


def custom_value(name: str, format: CustomFormat, never: tuple[str, ...]) -> Body:
    """Return the body of the input without quotes and escapes, which contains none of the texts `never`.

    Raises:
        StructgenError: The grammar or the pattern is invalid, or has no such text.
    """
    return _body(name, format, never)


def _body(name: str, format: CustomFormat, never: tuple[str, ...]) -> Body:
    try:
        inner = format.constraint()
        written = inner & text(list(never)) if never else EscapedText(inner)
        _check_has_text(written)
        return body_of(written)
    except StructgenError as error:
        where = f"the format of {name}"
        error.where = f"{where}, {error.where}" if error.where else where
        raise


def _check_has_text(constraint: Constraint) -> None:
    """Raise `ConstraintError` if no text satisfies the constraint. If that takes too long, it is accepted."""
    try:
        with call_limits(cpu_seconds=_SECONDS):
            compile_constraint(constraint, Vocabulary.of_bytes())
    except EmptyConstraint as empty:
        raise ConstraintError(f"the tool can never be called: {empty.message}", hint=empty.hint) from empty
    except LimitExceeded:
        return


def _check_keys(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in given:
        if key not in known:
            raise ConstraintError(f"it has the key {key!r:.60}", where=where, hint=_FORM)


class InputReader:
    """Decodes the input of one call while its arguments are written."""

    def __init__(self) -> None:
        self._left = ""
        self._has_started = False

    def more(self, piece: str) -> str:
        """Return what is new of the input.

        Args:
            piece: The next piece of the arguments, as JSON.
        """
        self._left += piece
        if not self._has_started:
            start = _START.match(self._left)
            if start is None:
                return ""
            self._has_started, self._left = True, self._left[start.end() :]
        found = _PIECE.match(self._left)
        assert found is not None
        self._left = self._left[found.end() :]
        decoded: str = json.loads(f'"{found[0]}"', strict=False)
        return decoded
