"""What a text says as JSON, as far as it can be read, and what is wrong with it as JSON.

Why: an explanation speaks of values, while the automaton knows only bytes: which key stands twice, what a tag says
that comes later, and that a comma before a bracket breaks JSON, not the schema.
Invariant: a fault is one whatever the schema says (RFC 8259, and escapes that spell half a character); what comes
before it is read as a JSON parser reads it. Numbers are told elsewhere: reading ends there without a fault.
Cost: linear in the text, without recursion.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["UNREAD", "Fault", "Path", "Reading", "Value", "read_text"]

Path = tuple[str | int, ...]

UNREAD: Any = object()
"""What a value says that is no scalar, or is not read to its end."""

_BLANKS = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBER_BYTES = b"-+.eE0123456789"
_DEEPEST = 1_000
"""Containers in each other; paths grow with them."""
_WORD = re.compile(rb"[A-Za-z_$\x80-\xff][-\w$.\x80-\xff]*")
_LITERALS = {b"true": True, b"false": False, b"null": None}
_SPELLED_OTHERWISE = ("true", "false", "null", "none", "nil", "undefined")
_NO_NUMBERS = ("nan", "inf", "infinity")
_ESCAPED = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_BEGUN = re.compile(rb"\\(u[0-9a-fA-F]{0,3})?")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_PAIR = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_PAIR_BEGUN = re.compile(rb"\\u[dD][89abAB]..(\\(u([dD]([c-fC-F][0-9a-fA-F]?)?)?)?)?")
_SHORT_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}


@dataclass(slots=True)
class Value:
    """A value in the text, or as much of it as is there."""

    path: Path
    start: int
    """Where it begins; of an entry of an object, where the comma or brace before its key is."""
    key_end: int = -1
    kind: str = ""
    """The byte that it begins with; empty where it has not begun."""
    scalar: Any = UNREAD
    children: list[Value] = field(default_factory=list)


@dataclass(frozen=True)
class Fault:
    """`message` is about the value at `path`."""

    offset: int
    path: Path
    message: str


@dataclass
class Reading:
    root: Value
    fault: Fault | None = None

    def repeated_key(self, path: Path, offset: int) -> str | None:
        """The key that the object at `path` has twice, if the byte at `offset` belongs to the second."""
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


def _instead_of(word: str) -> str:
    """What a value must be where this word stands."""
    if word.lower() in _NO_NUMBERS:
        return "must be another number: JSON knows no NaN and no infinity"
    if word.lower() in _SPELLED_OTHERWISE or word.startswith(("tru", "fal", "nul")):
        return "must be spelled `true`, `false` or `null` if it is a literal"
    return "must have double quotes around its text"


class _Stop(Exception):
    """Reading ends, with a fault or without."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault


def read_text(text: bytes) -> Reading:
    """As much of `text` as can be read."""
    reading = Reading(Value((), 0))
    try:
        _Reader(text).read(reading.root)
    except _Stop as stop:
        reading.fault = stop.fault
    return reading


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def read(self, root: Value) -> None:
        is_open: list[tuple[Value, bytes]] = []
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

    def _child(self, container: Value, is_open: list[tuple[Value, bytes]], comma: int) -> None:
        """An item, or an entry of an object."""
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
        child = Value((*container.path, step), comma, key_end)
        container.children.append(child)
        self._value(child, is_open)

    def _value(self, value: Value, is_open: list[tuple[Value, bytes]]) -> None:
        byte = self._next()
        value.kind = byte.decode("latin-1")
        if byte in (b"[", b"{"):
            if len(is_open) == _DEEPEST:
                raise _Stop
            self.at += 1
            is_open.append((value, b"]" if byte == b"[" else b"}"))
        elif byte == b'"':
            value.scalar = self._string(value.path)
        elif byte == b"-" or byte.isdigit():
            value.scalar = self._number(bool(is_open))
        elif byte in (b"+", b"."):
            raise _Stop  # a number that is told elsewhere
        elif byte == b"'":
            raise self._fault(value.path, "must have double quotes around its text")
        elif byte in (b"]", b"}", b",", b":"):
            raise self._fault(value.path, "must have a value")
        else:
            value.scalar = self._word(value.path)

    def _number(self, is_inside: bool) -> Any:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise _Stop
        self.at = match.end()
        after = self.text[self.at : self.at + 1]
        if (after and after in _NUMBER_BYTES) or (is_inside and not after):
            raise _Stop
        return float(match[0])

    def _word(self, path: Path) -> Any:
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise self._fault(
                path,
                "must have no comment beside it"
                if self._next() == b"/"
                else "must begin as a JSON value does",
            )
        word = match[0]
        if word in _LITERALS:
            self.at = match.end()
            return _LITERALS[word]
        if match.end() == len(self.text) and any(literal.startswith(word) for literal in _LITERALS):
            raise _Stop
        raise self._fault(path, _instead_of(word.decode("utf-8", "replace")))

    def _string(self, path: Path) -> str:
        """The string that begins here; ends after its closing quote."""
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
            if _ESCAPE_BEGUN.fullmatch(rest):
                raise _Stop
            shown = rest[:2].decode("utf-8", "replace")
            wanted = (
                "must have four hexadecimal digits after \\u"
                if shown == "\\u"
                else f'must not have the escape {shown}: JSON knows \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u'
            )
            raise self._fault(path, wanted)
        if _HALF.match(rest):
            pair = _PAIR.match(rest)
            if pair is None:
                if _PAIR_BEGUN.fullmatch(rest):
                    raise _Stop
                half = match[0].decode()
                raise self._fault(path, f"must not have {half} alone, which is half of a surrogate pair")
            self.at += len(pair[0])
        else:
            self.at = match.end()

    def _blanks(self) -> None:
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]

    def _next(self) -> bytes:
        """The byte that comes next; at the end of the text reading ends."""
        if self.at == len(self.text):
            raise _Stop
        return self.text[self.at : self.at + 1]

    def _fault(self, path: Path, message: str, offset: int | None = None) -> _Stop:
        return _Stop(Fault(self.at if offset is None else offset, path, message))
