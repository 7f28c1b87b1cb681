r"""ECMA-262 patterns (flag u) run by the `regex` module, after a small translation.

What differs: \d \w \s \b are fixed sets there, `$` is the very end, `.` stops at four line ends,
`\u{...}`, `\cX`, `[^]` and `[]` exist, and `\A`, `\Z` and the like are no assertions. Escapes of
other characters are the character itself, as without flag u: real schemas use them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import regex

_SPACE = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_SETS = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACE}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_WORD = "[A-Za-z0-9_]"
_BOUNDARY = f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
_NO_BOUNDARY = f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))"


class PatternError(ValueError):
    """Not a regular expression of ECMA-262."""


@cache
def compile_pattern(pattern: str) -> Any:
    try:
        return regex.compile(_Translator(pattern).translate(), regex.V0)
    except regex.error as error:
        raise PatternError(f"{pattern!r}: {error}") from error


def search(pattern: str, text: str) -> bool:
    """Does the pattern match somewhere in the text, as `pattern` in JSON Schema means it?"""
    return compile_pattern(pattern).search(text) is not None


class _Translator:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.in_class = False

    def next(self, count: int = 1) -> str:
        taken = self.pattern[self.at : self.at + count]
        self.at += count
        return taken

    def rest(self) -> str:
        return self.pattern[self.at :]

    def translate(self) -> str:
        parts = []
        while self.at < len(self.pattern):
            parts.append(self.in_set() if self.in_class else self.outside())
        if self.in_class:
            raise PatternError(f"{self.pattern!r}: unterminated class")
        return "".join(parts)

    def outside(self) -> str:
        symbol = self.next()
        if symbol == "\\":
            return self.escape()
        if symbol == "$":
            return r"\Z"
        if symbol == ".":
            return r"[^\n\r\u2028\u2029]"
        if symbol == "[":
            return self.open_set()
        if symbol in "*+?}" and self.rest().startswith("+"):  # possessive in `regex`, an error in ECMA-262
            raise PatternError(f"{self.pattern!r}: nothing to repeat at {self.at}")
        if symbol == "(" and regex.match(r"\?(?![:=!]|<[=!]|<[A-Za-z_$])", self.rest()):
            raise PatternError(f"{self.pattern!r}: unknown group at {self.at}")
        return "[{]" if symbol == "{" and not regex.match(r"\d+(,\d*)?\}", self.rest()) else symbol

    def open_set(self) -> str:
        negative = self.rest().startswith("^")
        self.at += negative
        if self.rest().startswith("]"):
            self.at += 1
            return r"(?s:.)" if negative else r"(?!)"
        self.in_class = True
        return "[^" if negative else "["

    def in_set(self) -> str:
        symbol = self.next()
        if symbol == "]":
            self.in_class = False
            return symbol
        if symbol == "\\":
            return self.escape()
        return "\\" + symbol if symbol in "[&|~" else symbol

    def escape(self) -> str:
        symbol = self.next()
        if symbol == "":
            raise PatternError(f"{self.pattern!r}: ends in a backslash")
        if symbol.lower() in _SETS:
            return self.named_set(symbol)
        if symbol in "bB" and not self.in_class:
            return _BOUNDARY if symbol == "b" else _NO_BOUNDARY
        if symbol in "pP":
            return self.property(symbol)
        if symbol == "k" and not self.in_class:
            name = regex.match(r"<(\w+)>", self.rest())
            if name is None:
                raise PatternError(f"{self.pattern!r}: \\k without a name")
            self.at += name.end()
            return f"(?P={name[1]})"
        if symbol in "123456789" and not self.in_class:
            return f"(?:\\{symbol})" if not self.rest()[:1].isdigit() else "\\" + symbol
        return str(regex.escape(self.character(symbol), special_only=False))

    def named_set(self, symbol: str) -> str:
        members = _SETS[symbol.lower()]
        if symbol.islower():
            return members if self.in_class else f"[{members}]"
        if not self.in_class:
            return f"[^{members}]"
        return {"D": r"\x00-/:-\U0010ffff", "W": r"\x00-/:-@\[-\^`{-\U0010ffff"}.get(symbol, _not_space())

    def property(self, symbol: str) -> str:
        name = regex.match(r"\{[^}]*\}", self.rest())
        if name is None:
            raise PatternError(f"{self.pattern!r}: \\{symbol} without a property")
        self.at += name.end()
        return f"\\{symbol}{name[0]}"

    def character(self, symbol: str) -> str:
        if symbol in _CONTROLS:
            return _CONTROLS[symbol]
        if symbol == "b":
            return "\b"
        if symbol == "0":
            return "\0"
        if symbol == "c":
            letter = self.rest()[:1]
            if letter.isascii() and (
                letter.isalpha() or (self.in_class and (letter.isdigit() or letter == "_"))
            ):
                return chr(ord(self.next()) % 32)
            self.at -= 1  # annex B: a backslash, and the letter after it is read as a character of its own
            return "\\"
        for form in (r"u\{([0-9a-fA-F]+)\}", r"u([0-9a-fA-F]{4})", r"x([0-9a-fA-F]{2})"):
            code = regex.match(form, symbol + self.rest())
            if code is not None:
                self.at += code.end() - 1
                return self.joined(int(code[1], 16))
        return symbol

    def joined(self, code: int) -> str:
        """A leading surrogate takes the trailing one that follows it."""
        low = regex.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", self.rest())
        if 0xD800 <= code < 0xDC00 and low is not None:
            self.at += low.end()
            return chr(0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00)
        return chr(code)


def _not_space() -> str:
    spaces = sorted(code for code in range(0x10000) if regex.match(f"[{_SPACE}]", chr(code)))
    ranges, low = [], 0
    for code in [*spaces, 0x110000]:
        if low < code:
            ranges.append(f"\\U{low:08x}-\\U{code - 1:08x}")
        low = code + 1
    return "".join(ranges)
