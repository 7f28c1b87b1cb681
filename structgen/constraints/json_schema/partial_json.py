"""Parse JSON that may be incomplete or wrong, and report the first fault.

Why: explanations are about values, while the automaton knows only bytes. They need to know which key is repeated,
what a later tag says, and that a comma before a bracket is a fault of the JSON, not a rule of the schema.

Invariant: a reported fault is one under any schema (RFC 8259, and escapes that spell half of a surrogate pair). The
text before it is parsed as a JSON parser does. Faults of numbers are reported elsewhere: parsing ends there without
a fault.

Cost: linear in the text, without recursion.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["UNKNOWN", "Fault", "PartialJson", "PartialValue", "Path", "parse_partial"]

Path = tuple[str | int, ...]

UNKNOWN: Any = object()
"""The scalar of a value that is a container, or that is not complete."""

_BLANKS = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBER_BYTES = b"-+.eE0123456789"
_MAX_DEPTH = 1_000
"""Nested containers; paths grow with them."""
_WORD = re.compile(rb"[A-Za-z_$\x80-\xff][-\w$.\x80-\xff]*")
_LITERALS = {b"true": True, b"false": False, b"null": None}
_WRONG_LITERALS = ("true", "false", "null", "none", "nil", "undefined")
_NOT_FINITE_WORDS = ("nan", "inf", "infinity")
_ESCAPED = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})')
_PARTIAL_ESCAPE = re.compile(rb"\\(u[0-9a-fA-F]{0,3})?")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE_PAIR = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_PARTIAL_PAIR = re.compile(rb"\\u[dD][89abAB]..(\\(u([dD]([c-fC-F][0-9a-fA-F]?)?)?)?)?")
_SHORT_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}


@dataclass(slots=True)
class PartialValue:
    """A value in the text, as far as the text has it."""

    path: Path
    start: int
    """Offset at which it starts; for an entry of an object, that of the comma or brace before its key."""
    key_end: int = -1
    kind: str = ""
    """Its first byte; empty if the text ends before it."""
    scalar: Any = UNKNOWN
    children: list[PartialValue] = field(default_factory=list)


@dataclass(frozen=True)
class Fault:
    """A fault of the JSON; `message` is about the value at `path`."""

    offset: int
    path: Path
    message: str


@dataclass
class PartialJson:
    """The root value, and the fault that ended parsing, if any."""

    root: PartialValue
    fault: Fault | None = None

    def repeated_key(self, path: Path, offset: int) -> str | None:
        """Return the key that the object at `path` repeats, if the byte at `offset` is in the second occurrence."""
        value = self.root
        for step in path:
            found = [child for child in value.children if child.path[-1] == step]
            if not found:
                return None
            value = found[-1]
        if value.kind != "{":
            return None
        seen: set[str | int] = set()
        for child in value.children:
            key = child.path[-1]
            if key in seen and child.start <= offset < child.key_end:
                return str(key)
            seen.add(key)
        return None


def _expected_instead_of(word: str) -> str:
    """Return what a value must be where this word stands."""
    if word.lower() in _NOT_FINITE_WORDS:
        return "must be another number: JSON has no NaN and no infinity"
    if word.lower() in _WRONG_LITERALS or word.startswith(("tru", "fal", "nul")):
        return "must be spelled `true`, `false` or `null` if it is a literal"
    return "must have double quotes around its text"


class _EndOfParsing(Exception):
    """Parsing ends, with a fault or without."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault


def parse_partial(text: bytes) -> PartialJson:
    """Parse as much of `text` as possible."""
    parsed = PartialJson(PartialValue((), 0))
    try:
        _Parser(text).parse(parsed.root)
    except _EndOfParsing as stop:
        parsed.fault = stop.fault
    return parsed


class _Parser:
    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def parse(self, root: PartialValue) -> None:
        is_open: list[tuple[PartialValue, bytes]] = []
        self._blanks()
        self._value(root, is_open)
        while is_open:
            container, end = is_open[-1]
            name = "item" if end == b"]" else "entry"
            self._blanks()
            before = self._next()
            if before == end:
                self.at += 1
                is_open.pop()
                continue
            if before in (b"]", b"}"):
                raise self._fault(container.path, f"must be closed with `{end.decode()}`")
            if before == b",":
                comma = self.at
                self.at += 1
                self._blanks()
                after = self._next()
                if not container.children or after == b",":
                    at = comma if not container.children else self.at
                    raise self._fault(container.path, f"must have an {name} before each comma", at)
                if after in (b"]", b"}"):
                    raise self._fault(container.path, f"must have no comma after its last {name}", comma)
            elif container.children:
                plural = "items" if end == b"]" else "entries"
                raise self._fault(container.path, f"must have a comma between its {plural}")
            else:
                comma = self.at
            self._child(container, is_open, comma)
        end_of_value = self.at
        self._blanks()
        if self.at < len(self.text):
            raise self._fault((), "must have nothing after its end", end_of_value)

    def _child(self, container: PartialValue, is_open: list[tuple[PartialValue, bytes]], comma: int) -> None:
        """Parse an item of an array, or an entry of an object."""
        step: str | int = len(container.children)
        key_end = -1
        if is_open[-1][1] == b"}":
            if self._next() != b'"':
                raise self._fault(container.path, "must have its keys in double quotes")
            step = self._string(container.path)
            key_end = self.at
            self._blanks()
            if self._next() != b":":
                raise self._fault(container.path, f"must have a colon after the key {step!r}")
            self.at += 1
            self._blanks()
        child = PartialValue((*container.path, step), comma, key_end)
        container.children.append(child)
        self._value(child, is_open)

    def _value(self, value: PartialValue, is_open: list[tuple[PartialValue, bytes]]) -> None:
        byte = self._next()
        value.kind = byte.decode("latin-1")
        if byte in (b"[", b"{"):
            if len(is_open) == _MAX_DEPTH:
                raise _EndOfParsing
            self.at += 1
            is_open.append((value, b"]" if byte == b"[" else b"}"))
        elif byte == b'"':
            value.scalar = self._string(value.path)
        elif byte == b"-" or byte.isdigit():
            value.scalar = self._number(bool(is_open))
        elif byte in (b"+", b"."):
            raise _EndOfParsing  # a fault of a number, which is reported elsewhere
        elif byte == b"'":
            raise self._fault(value.path, "must have double quotes around its text")
        elif byte in (b"]", b"}", b",", b":"):
            raise self._fault(value.path, "must have a value")
        else:
            value.scalar = self._word(value.path)

    def _number(self, is_inside: bool) -> object:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise _EndOfParsing
        self.at = match.end()
        after = self.text[self.at : self.at + 1]
        if (after and after in _NUMBER_BYTES) or (is_inside and not after):
            raise _EndOfParsing
        return float(match[0])

    def _word(self, path: Path) -> object:
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise self._fault(
                path,
                "must not have a comment next to it"
                if self._next() == b"/"
                else "must start like a JSON value",
            )
        word = match[0]
        if word in _LITERALS:
            self.at = match.end()
            return _LITERALS[word]
        if match.end() == len(self.text) and any(literal.startswith(word) for literal in _LITERALS):
            raise _EndOfParsing
        raise self._fault(path, _expected_instead_of(word.decode("utf-8", "replace")))

    def _string(self, path: Path) -> str:
        """Parse the string that starts here, up to its closing quote."""
        start = self.at
        self.at += 1
        while True:
            self.at = _STRING.match(self.text, self.at).end()  # type: ignore[union-attr]
            byte = self._next()
            if byte == b'"':
                self.at += 1
                raw = self.text[start : self.at].decode("utf-8", "replace")
                return str(json.loads(raw)) if "\\" in raw else raw[1:-1]
            if byte == b"\\":
                self._escape(path)
                continue
            spelled = _SHORT_ESCAPES.get(byte[0], f"\\u{byte[0]:04x}")
            raise self._fault(path, f"must spell the control character U+{byte[0]:04X} as {spelled}")

    def _escape(self, path: Path) -> None:
        match = _ESCAPED.match(self.text, self.at)
        rest = self.text[self.at : self.at + 12]
        if match is None:
            if _PARTIAL_ESCAPE.fullmatch(rest):
                raise _EndOfParsing
            shown = rest[:2].decode("utf-8", "replace")
            wanted = (
                "must have four hexadecimal digits after \\u"
                if shown == "\\u"
                else f'must not have the escape {shown}: JSON has \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u'
            )
            raise self._fault(path, wanted)
        if _SURROGATE.match(rest):
            pair = _SURROGATE_PAIR.match(rest)
            if pair is None:
                if _PARTIAL_PAIR.fullmatch(rest):
                    raise _EndOfParsing
                half = match[0].decode()
                raise self._fault(path, f"must not have {half} alone, which is half of a surrogate pair")
            self.at += len(pair[0])
        else:
            self.at = match.end()

    def _blanks(self) -> None:
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]

    def _next(self) -> bytes:
        """Return the next byte; at the end of the text parsing ends."""
        if self.at == len(self.text):
            raise _EndOfParsing
        return self.text[self.at : self.at + 1]

    def _fault(self, path: Path, message: str, offset: int | None = None) -> _EndOfParsing:
        return _EndOfParsing(Fault(self.at if offset is None else offset, path, message))
