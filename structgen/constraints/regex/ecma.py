"""The dialect of ECMA-262 (JavaScript), in which JSON Schema writes its patterns.

Why: JSON Schema specifies ECMA-262 with flag u, but real schemas escape characters that need no escape, and borrow
from Perl. A pattern that is valid with flag u has its meaning there. Others are parsed by the rules of annex B, and
a few borrowings have the meaning that their authors intended (see `features`).

Invariant: characters are code points, never halves of surrogate pairs. A pattern that `StrictEcmaParser` accepts
has the same meaning for both parsers.

Source: ECMA-262 2025, section 22.2.1 and annex B.1.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from structgen.constraints.expressions import RE, Ranges, character_class, normalise_ranges
from structgen.errors import OptionError

from .parser import END, START, Flags, Parser, negated
from .unicode import ASCII_DIGIT, ASCII_WORD, ECMA_SPACE, property_ranges

__all__ = ["EcmaParser", "StrictEcmaParser", "ecma_flags"]

_SIMPLE = {"f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_SETS = {"d": ASCII_DIGIT, "s": ECMA_SPACE, "w": ASCII_WORD}
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_CODE = re.compile(r"u(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{4}))|x([0-9A-Fa-f]{2})")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"c([A-Za-z])")
_CLASS_CONTROL = re.compile(r"c([A-Za-z0-9_])")
_PROPERTY = re.compile(r"[pP]\{([A-Za-z0-9_=]*)\}")
_SHORT_PROPERTY = re.compile(r"[pP]([CLMNPSZ])")
_NUMBER = re.compile(r"[1-9][0-9]*")
_OCTAL = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?")
_NAMED = re.compile(r"\(\?(P?)<([^<>()]*)>")
_PYTHON_REFERENCE = re.compile(r"\(\?P=([^)]*)\)")
_MODES = re.compile(r"\(\?([a-z]*)(?:(-)([a-z]*))?([:)])")
_MODE_FIELDS = {"i": "ignore_case", "m": "multi_line", "s": "dot_all"}
_CAPTURE = re.compile(r"\\.|\[(?:[^\]\\]|\\.)*\]|(\((?!\?)|\(\?P?<(?![=!]))", re.DOTALL)
_NAME_REFERENCE = re.compile(r"k<([^>]*)>")


def ecma_flags(flags: int) -> Flags:
    """Return the modes of a combination of `re` flags; ECMA-262 has only i, m and s."""
    given = re.RegexFlag(flags)
    unknown = given & ~(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE)
    if unknown:
        raise OptionError(
            f"the ECMA-262 dialect has no flag {unknown!r}",
            hint="It has re.IGNORECASE, re.MULTILINE and re.DOTALL.",
        )
    return Flags(bool(given & re.IGNORECASE), bool(given & re.MULTILINE), bool(given & re.DOTALL))


class EcmaParser(Parser):
    """Parses a pattern of ECMA-262."""

    dialect = "ecma"
    line_ends: ClassVar[Ranges] = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
    class_text = re.compile(r"\[[^\]\\]*(?:\\.[^\]\\]*)*\]", re.DOTALL)
    class_cache: ClassVar[dict[tuple[str, Flags], RE]] = {}
    has_atomic_groups = True
    has_references = True
    unset_is_empty = True

    strict: ClassVar[bool] = False
    _captures: int | None = None

    def _refuse_if_strict(self, message: str, position: int, end: int) -> None:
        """Refuse syntax that flag u forbids, and that annex B or common use allows."""
        if self.strict:
            self.fail(message, position, end, hint="ECMA-262 with flag u does not allow this.")

    # -- groups

    def check_atomic(self, position: int, end: int) -> None:
        """Refuse atomic groups and possessive quantifiers in the strict dialect."""
        self._refuse_if_strict("ECMA-262 has no atomic groups and no possessive quantifiers", position, end)

    def extension(self, position: int) -> None:
        """Parse a named group, a group with modes, or a reference in the notation of Python."""
        pattern = self.pattern
        named = _NAMED.match(pattern, position)
        if named:
            if named[1]:
                self._refuse_if_strict("ECMA-262 writes a named group (?<name>...)", position, named.end())
            if not named[2].replace("$", "_").isidentifier():
                self.fail(f"the group name {named[2]!r} is not an identifier", named.start(2), named.end(2))
            self.names[named[2]] = self.captures + 1
            self.open_group(len(named[0]), capture=True)
            return
        reference = _PYTHON_REFERENCE.match(pattern, position)
        if reference and reference[1] in self.names:
            self._refuse_if_strict("ECMA-262 writes a reference \\k<name>", position, reference.end())
            self.add_reference(self.names[reference[1]], reference.end())
            return
        modes = _MODES.match(pattern, position)
        if modes is None:
            raise self.unknown_group(position)
        self._open_modes(modes)

    def _open_modes(self, modes: re.Match[str]) -> None:
        on, minus, off, closer = modes.group(1, 2, 3, 4)
        start, stop = modes.span()
        off = off or ""
        at_start = closer == ")" and not (minus or self.groups or self.branches or self.items)
        if closer == ")":
            if not at_start or not on:
                raise self.unknown_group(start)
            self._refuse_if_strict("ECMA-262 has modes for groups only", start, stop)
            on = on.replace("u", "")
        for letter in on + off:
            if letter not in _MODE_FIELDS:
                self.fail(f"unknown mode {letter!r}", start, stop, hint="The modes are i, m and s.")
        if len(set(on + off)) != len(on + off) or (closer == ":" and not on + off):
            self.fail("a mode is missing or given twice", start, stop, hint="The modes are i, m and s.")
        flags = self.flags._replace(**{_MODE_FIELDS[letter]: True for letter in on})
        flags = flags._replace(**{_MODE_FIELDS[letter]: False for letter in off})
        if closer == ":":
            self.open_group(stop - start, flags=flags)
        else:
            self.set_flags(flags)
            self.position = stop

    # -- characters that only flag u reserves

    def literal_brace(self) -> None:
        """Parse a lone ``{`` as a character; the strict dialect requires an escape."""
        self._refuse_if_strict("a lone '{' must be escaped", self.position, self.position + 1)
        super().literal_brace()

    def add_lone_closer(self) -> None:
        """Parse a lone ``]`` or ``}`` as a character; the strict dialect requires an escape."""
        closer = self.pattern[self.position]
        self._refuse_if_strict(f"a lone {closer!r} must be escaped", self.position, self.position + 1)
        super().add_lone_closer()

    def set_in_range(self, start: int, stop: int) -> None:
        """Refuse a set at an end of a range in the strict dialect; otherwise ``-`` is a character (Annex B)."""
        if self.strict:
            super().set_in_range(start, stop)

    # -- escapes

    def add_escape(self) -> None:
        """Parse a backslash outside classes."""
        pattern, position = self.pattern, self.position
        letter = pattern[position + 1 : position + 2]
        if letter == "b" or letter == "B":
            self.add_boundary(letter == "B", self._set("w"), 2)
        elif letter in ("A", "z", "Z"):
            self._refuse_if_strict(f"ECMA-262 has no \\{letter}", position, position + 2)
            self.add_anchor(START if letter == "A" else END, 2)
        elif letter and letter in "123456789":
            self._add_number(position)
        elif letter == "k" and (named := self._name_reference(position)):
            number = self.names.get(named[1])
            if number is None:
                raise self.unsupported("back-references before their group", position, named.end())
            self.add_reference(number, named.end())
        else:
            member, after = self._escape(position, in_class=False)
            if isinstance(member, int):
                item: RE = self.character(chr(member))
            else:
                if self.flags.ignore_case and letter in "pP":
                    member = self.close_under_case(member, position)
                self.count_ranges(len(member) // 16, position)
                item = character_class(member)
            self.add(item, after - position)

    def _name_reference(self, position: int) -> re.Match[str] | None:
        r"""Match ``\k<name>`` in patterns with named groups."""
        if not self.strict and "(?<" not in self.pattern and "(?P<" not in self.pattern:
            return None
        return _NAME_REFERENCE.match(self.pattern, position + 1)

    def _add_number(self, position: int) -> None:
        number = _NUMBER.match(self.pattern, position + 1)
        digits = number[0] if number else ""
        end = position + 1 + len(digits)
        if len(digits) < 7 and int(digits or "0") <= self._count_captures():
            self.add_reference(int(digits), end)
            return
        self._refuse_if_strict(f"there is no group {digits}", position, end)
        octal = _OCTAL.match(self.pattern, position + 1)
        if octal:
            self.add(self.character(chr(int(octal[0], 8))), octal.end() - position)
        else:
            self.add(self.character(digits[0]), 2)

    def _count_captures(self) -> int:
        """Return the number of capturing groups of the whole pattern; a back-reference may precede its group."""
        if self._captures is None:
            self._captures = sum(1 for match in _CAPTURE.finditer(self.pattern) if match[1])
        return self._captures

    def class_escape(self, position: int) -> tuple[int | Ranges, int]:
        """Return what an escape inside a class stands for, and the position after it."""
        return self._escape(position, in_class=True)

    def _escape(self, position: int, in_class: bool) -> tuple[int | Ranges, int]:
        pattern = self.pattern
        letter = pattern[position + 1 : position + 2]
        if not letter:
            self.fail("a backslash ends the pattern", position, hint="Write two for the character.")
        if letter in _SYNTAX or (letter == "-" and in_class):
            return ord(letter), position + 2
        if letter in "dswDSW":
            members = self._set(letter.lower())
            return (members if letter.islower() else negated(members)), position + 2
        if letter in _SIMPLE:
            return _SIMPLE[letter], position + 2
        if letter == "b" and in_class:
            return 8, position + 2
        parser = _ESCAPE_PARSERS.get(letter)
        result = parser(self, position, in_class) if parser else None
        if result is not None:
            return result
        self._refuse_if_strict(f"\\{letter} is not an escape", position, position + 2)
        if letter == "c":  # annex B: the backslash stands for itself
            return 0x5C, position + 1
        return ord(letter), position + 2

    def _code(self, position: int, in_class: bool) -> tuple[int, int] | None:
        r"""Parse ``\xHH``, ``\uHHHH``, a pair of those, or ``\u{H...}``."""
        match = _CODE.match(self.pattern, position + 1)
        if match is None:
            return None
        braced, four, two = match.group(1, 2, 3)
        if braced and len(braced.lstrip("0")) > 6 or int(braced or "0", 16) > 0x10FFFF:
            self.fail("Unicode ends at \\u{10FFFF}", position, match.end())
        value = int(braced or four or two, 16)
        if four and 0xD800 <= value <= 0xDBFF:
            low = _LOW_SURROGATE.match(self.pattern, match.end())
            if low:
                return 0x10000 + ((value - 0xD800) << 10) + (int(low[1], 16) - 0xDC00), low.end()
        return value, match.end()

    def _control(self, position: int, in_class: bool) -> tuple[int, int] | None:
        r"""Parse ``\cX``."""
        shape = _CLASS_CONTROL if in_class and not self.strict else _CONTROL
        match = shape.match(self.pattern, position + 1)
        return (ord(match[1]) % 32, match.end()) if match else None

    def _digits(self, position: int, in_class: bool) -> tuple[int, int] | None:
        r"""Parse ``\0``; in classes, and by annex B, other octal numbers too."""
        match = _OCTAL.match(self.pattern, position + 1)
        after = self.pattern[position + 2 : position + 3]
        if match and match[0] == "0" and not (after.isascii() and after.isdigit()):
            return 0, position + 2
        if match is None:
            return None
        self._refuse_if_strict("octal escapes are not allowed", position, match.end())
        return int(match[0], 8), match.end()

    def _property(self, position: int, in_class: bool) -> tuple[Ranges, int] | None:
        r"""Parse ``\p{...}`` and ``\P{...}``; leniently ``\pL``."""
        match = _PROPERTY.match(self.pattern, position + 1)
        if match is None:
            match = _SHORT_PROPERTY.match(self.pattern, position + 1)
            if match is None:
                return None
            self._refuse_if_strict("the name of a property must be in braces", position, match.end())
        members = property_ranges(match[1])
        if members is None:
            self.fail(
                f"there is no Unicode property {match[1]!r}",
                position,
                match.end(),
                hint="Known are general categories (L, Lu, ...), Script=..., Script_Extensions=... and the "
                "binary properties of ECMA-262.",
            )
        return (negated(members) if self.pattern[position + 1] == "P" else members), match.end()

    def _set(self, letter: str) -> Ranges:
        members = _SETS[letter]
        if self.flags.ignore_case and letter == "w" and not self.flags.ascii:
            return normalise_ranges([*members, (0x17F, 0x17F), (0x212A, 0x212A)])
        return members

    handlers: ClassVar[Mapping[str, Callable[[Any], None]]] = {
        **Parser.handlers,
        "\\": add_escape,
        "]": add_lone_closer,
        "}": add_lone_closer,
    }


class StrictEcmaParser(EcmaParser):
    """Accepts only what ECMA-262 allows with flag u."""

    class_cache: ClassVar[dict[tuple[str, Flags], RE]] = {}
    strict = True
    look_repeats = False


_EscapeParser = Callable[[EcmaParser, int, bool], "tuple[int | Ranges, int] | None"]
_ESCAPE_PARSERS: dict[str, _EscapeParser] = {
    "x": EcmaParser._code,
    "u": EcmaParser._code,
    "c": EcmaParser._control,
    "p": EcmaParser._property,
    "P": EcmaParser._property,
    **dict.fromkeys("01234567", EcmaParser._digits),
}
