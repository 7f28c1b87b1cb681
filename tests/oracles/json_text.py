"""JSON text to exact values, slowly and strictly (RFC 8259, duplicate keys refused).

Why not `json.loads`: it rounds numbers to doubles, keeps the last of two equal keys, and reads NaN.
Values: None, bool, Number for every number, str (lone surrogates kept), list, dict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

Value = Any  # None | bool | Number | str | list[Value] | dict[str, Value]

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE]([+-]?[0-9]+))?")
_CHARACTERS = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"null": None, "true": True, "false": False}
_GREATEST_EXPONENT = 20_000  # a fraction with more digits takes the oracle down with it


class Number(Fraction):
    """An exact number that remembers its form: draft 4 calls 1 an integer, and 1.0 not."""

    written_as_integer: bool = False

    @classmethod
    def of(cls, text: str) -> Number:
        number = cls(text)
        number.written_as_integer = text.lstrip("-").isdigit()
        return number


class JSONTextError(ValueError):
    """The text is not JSON, or an object has two equal keys."""


def parse(text: str | bytes) -> Value:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JSONTextError(f"not UTF-8: {error}") from error
    reader = _Reader(text)
    value = reader.value()
    reader.space()
    if reader.at != len(text):
        raise JSONTextError(f"text after the value at {reader.at}")
    return value


def exact(value: object) -> Value:
    """Ordinary Python data (a schema, an instance) with its numbers made exact."""
    if value is None or isinstance(value, bool | str | Number):
        return value
    if isinstance(value, int | Decimal):
        return Number.of(str(value))
    if isinstance(value, float):
        return Number.of(repr(value))  # what was written, not the nearest double's own digits
    if isinstance(value, Mapping):
        return {str(key): exact(child) for key, child in value.items()}
    if isinstance(value, Sequence):
        return [exact(child) for child in value]
    raise TypeError(f"{type(value).__name__} is not JSON")


def identity(value: Value) -> object:
    """Equal for equal JSON values only: hashable, order of keys dropped, true apart from 1."""
    if isinstance(value, list):
        return ("array", tuple(identity(child) for child in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(child)) for key, child in value.items()))
    return (type(value).__name__, value)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, expected: str) -> JSONTextError:
        found = self.text[self.at : self.at + 10]
        return JSONTextError(f"expected {expected} at {self.at}, found {found!r}")

    def space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def take(self, symbol: str) -> bool:
        self.space()
        if not self.text.startswith(symbol, self.at):
            return False
        self.at += len(symbol)
        return True

    def value(self) -> Value:
        if self.take("{"):
            return self.object()
        if self.take("["):
            return self.array()
        if self.take('"'):
            return self.string()
        for word, constant in _WORDS.items():
            if self.take(word):
                return constant
        return self.number()

    def number(self) -> Number:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise self.fail("a value")
        if match[1] and abs(int(match[1])) > _GREATEST_EXPONENT:
            raise JSONTextError(f"the exponent at {self.at} is beyond this reader")
        self.at = match.end()
        return Number.of(match[0])

    def array(self) -> list[Value]:
        items: list[Value] = []
        if self.take("]"):
            return items
        while True:
            items.append(self.value())
            if self.take("]"):
                return items
            if not self.take(","):
                raise self.fail("',' or ']'")

    def object(self) -> dict[str, Value]:
        members: dict[str, Value] = {}
        if self.take("}"):
            return members
        while True:
            if not self.take('"'):
                raise self.fail("a key")
            key = self.string()
            if key in members:
                raise JSONTextError(f"key {key!r} twice, the second before {self.at}")
            if not self.take(":"):
                raise self.fail("':'")
            members[key] = self.value()
            if self.take("}"):
                return members
            if not self.take(","):
                raise self.fail("',' or '}'")

    def string(self) -> str:
        units: list[str] = []
        while True:
            match = _CHARACTERS.match(self.text, self.at)
            assert match is not None
            units.append(match[0])
            self.at = match.end()
            if self.text.startswith('"', self.at):
                self.at += 1
                # Two escaped halves of a pair are one character; a half alone stays itself.
                return "".join(units).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            if not self.text.startswith("\\", self.at):
                raise self.fail("a character or '\"'")
            units.append(self.escape())

    def escape(self) -> str:
        symbol = self.text[self.at + 1 : self.at + 2]
        if symbol in _ESCAPES:
            self.at += 2
            return _ESCAPES[symbol]
        digits = re.compile(r"\\u([0-9a-fA-F]{4})").match(self.text, self.at)
        if digits is None:
            raise self.fail("an escape")
        self.at = digits.end()
        return chr(int(digits[1], 16))
