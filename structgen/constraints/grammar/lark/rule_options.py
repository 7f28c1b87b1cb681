"""Read the options of a rule in llguidance's and XGrammar's Lark, between the name and the colon.

Why: each option has its own form, and each mistake its own message and position.
Invariant: an option is applied or refused, never ignored.
Cost: linear in the pieces.
Source: llguidance, docs/syntax.md; XGrammar, docs/defining_structures/lark_grammar.md.

    name[lazy, suffix="</end>", stop=STOP, stop_capture="end", capture="text", temperature=0.7, max_chars=200,
         max_tokens=50]: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from structgen.errors import LimitExceeded

from ..rule_option_values import capture_name_fault, temperature_of
from .source import Piece, Source

__all__ = ["MAX_CHARS", "RuleOptions", "read_options"]

MAX_CHARS = 2**31 - 1
"""The largest bound of characters or tokens."""

_COUNT = re.compile(r"\+?[0-9]+")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}

KNOWN = "capture, lazy, max_chars, max_tokens, stop, stop_capture, suffix and temperature"


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The options of a rule; `end` is the token of a stop or suffix."""

    capture: str | None = None
    stop_capture: str | None = None
    temperature: float | None = None
    max_chars: int | None = None
    max_tokens: int | None = None
    lazy: bool = False
    end: Piece | None = None
    is_stop: bool = False

    @property
    def makes_terminal(self) -> bool:
        """Whether the body of the rule becomes one terminal."""
        return self.lazy or self.end is not None or self.max_chars is not None


def read_options(source: Source, pieces: list[Piece], start: int, rule: str) -> tuple[RuleOptions, int]:
    """Read the options after the bracket at `start`; return them and the index after the closing bracket."""
    return _Reader(source, pieces, start + 1).read(rule)


class _Reader:
    def __init__(self, source: Source, pieces: list[Piece], position: int) -> None:
        self.source = source
        self.pieces = pieces
        self.position = position
        self.found = RuleOptions()
        self.seen: dict[str, Piece] = {}

    def read(self, rule: str) -> tuple[RuleOptions, int]:
        while True:
            option = self._now()
            if option.text == "]":
                break
            if option.kind != "name":
                self._fail(
                    f"{option.text!r} is not the name of an option", option, f"The options are {KNOWN}."
                )
            self.position += 1
            self._option(option, rule)
            after = self._now()
            if after.text == ",":
                self.position += 1
            elif after.text != "]":
                self._fail(
                    "a ',' or ']' is missing here", after, 'For example name[capture, suffix="</end>"]: ...'
                )
        if self.found.stop_capture is not None and not {"stop", "suffix"} & self.seen.keys():
            hint = 'For example name[suffix="</end>", stop_capture="end"]: ...'
            self._fail("stop_capture needs a stop or a suffix", self.seen["stop_capture"], hint)
        return self.found, self.position + 1

    def _now(self) -> Piece:
        """Return the next piece that is not a space."""
        while self.pieces[self.position].kind == "space":
            self.position += 1
        piece = self.pieces[self.position]
        if piece.kind == "newline":
            self.source.fail("these options are not closed", piece.offset, hint="Add the missing ']'.")
        return piece

    def _option(self, option: Piece, rule: str) -> None:
        name = option.text
        if name in self.seen:
            self._fail(f"the option {name} is given twice", option, "Remove one of them.")
        if {name, *self.seen} >= {"stop", "suffix"}:
            self._fail("a rule cannot have both a stop and a suffix", option, "Remove one of them.")
        self.seen[name] = option
        read: Callable[[Piece], dict[str, Any]] | None = (
            getattr(self, f"_{name}", None) if name in _FORMS else None
        )
        if read is None:
            hint = f"The options are {KNOWN}."
            raise self.source.unsupported(
                f"the option {name} is not supported", option.offset, len(name), hint
            )
        if name == "lazy":
            self.found = replace(self.found, lazy=True)
        elif name == "capture" and self._now().text != "=":
            self.found = replace(self.found, capture=rule)
        else:
            self.found = replace(self.found, **read(self._value(option)))

    def _value(self, option: Piece) -> Piece:
        """Return the value after '='; the pieces of a number are joined."""
        if self._now().text != "=":
            self._fail(f"{option.text} needs a value", option, f"For example {_FORMS[option.text]}.")
        self.position += 1
        first = self._now()
        if first.text in ("]", ","):
            self._fail(f"{option.text} needs a value", option, f"For example {_FORMS[option.text]}.")
        self.position += 1
        text = first.text
        if first.kind not in ("string", "regexp"):
            while (piece := self.pieces[self.position]).kind in ("name", "number") or piece.text in ".+-":
                text += piece.text
                self.position += 1
        return first._replace(text=text)

    def _lazy(self, value: Piece) -> dict[str, Any]:
        raise AssertionError  # lazy has no value

    def _capture(self, value: Piece) -> dict[str, Any]:
        return {"capture": self._capture_name(value, "capture")}

    def _stop_capture(self, value: Piece) -> dict[str, Any]:
        return {"stop_capture": self._capture_name(value, "stop_capture")}

    def _capture_name(self, value: Piece, option: str) -> str:
        if value.kind != "string" or not value.text.endswith('"'):
            self._fail(
                "the name of a capture must be a text in quotes", value, f"For example {_FORMS[option]}."
            )
        name = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value.text[1:-1])
        fault = capture_name_fault(name)
        if fault is not None:
            self._fail(f"the name of a capture {fault}", value, f"For example {_FORMS[option]}.")
        return name

    def _temperature(self, value: Piece) -> dict[str, Any]:
        temperature = temperature_of(value.text)
        if temperature is None:
            self._fail(
                "a temperature must be a number from 0 to 1,000,000",
                value,
                f"For example {_FORMS['temperature']}.",
            )
        return {"temperature": temperature}

    def _max_chars(self, value: Piece) -> dict[str, Any]:
        return self._most(value, "max_chars", "max_chars")

    def _max_tokens(self, value: Piece) -> dict[str, Any]:
        return self._most(value, "max_tokens", "part_tokens")

    def _most(self, value: Piece, option: str, limit_name: str) -> dict[str, Any]:
        if not _COUNT.fullmatch(value.text):
            self._fail(f"{option} must be a whole number, 0 or more", value, f"For example {_FORMS[option]}.")
        digits = value.text.lstrip("+0") or "0"
        if len(digits) > len(str(MAX_CHARS)) or int(digits) > MAX_CHARS:
            position = self.source.position(value.offset)
            raise LimitExceeded(
                f"{option} is larger than {MAX_CHARS}",
                limit=limit_name,
                where=f"line {position.line}, column {position.column}",
                hint="Remove it: no text is that long.",
            )
        return {option: int(digits)}

    def _suffix(self, value: Piece) -> dict[str, Any]:
        if value.text in ('""', '""i'):
            self._fail("a suffix must not be empty", value, 'For example suffix="</end>".')
        return {"end": self._ending(value, "suffix")}

    def _stop(self, value: Piece) -> dict[str, Any]:
        # In llguidance an empty stop is the end-of-sequence token; the rule's texts are those without a stop.
        empty = value.text in ('""', '""i')
        return {} if empty else {"end": self._ending(value, "stop"), "is_stop": True}

    def _ending(self, value: Piece, option: str) -> Piece:
        is_terminal = value.kind == "name" and value.text.lstrip("_")[:1].isupper()
        if value.kind not in ("string", "regexp") and not is_terminal:
            hint = f"For example {_FORMS[option]}. The name of a terminal is in upper case."
            self._fail(f"a {option} must be a text, a pattern or a terminal", value, hint)
        return value

    def _fail(self, message: str, piece: Piece, hint: str) -> None:
        self.source.fail(message, piece.offset, max(1, len(piece.text.split("\n")[0])), hint)


_FORMS = {
    "capture": 'capture="name"',
    "lazy": "lazy",
    "max_chars": "max_chars=200",
    "max_tokens": "max_tokens=200",
    "stop": 'stop="</end>"',
    "stop_capture": 'stop_capture="name"',
    "suffix": 'suffix="</end>"',
    "temperature": "temperature=0.7",
}
"""The options with their forms."""
