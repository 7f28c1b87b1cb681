"""The dialect of Rust's crate `regex`, with which pydantic checks the patterns of strings.

Why: a generated text must satisfy the pattern as the validator interprets it. Classes are those of Unicode, they
nest and have set operations, ``$`` is the end of the text only, and there are neither look-arounds nor
back-references.

Invariant: a text of the language matches in the crate. Negated sets leave out the characters that the running
interpreter's Unicode does not define, since a later version may put them into the set that is negated.

Source: the documentation of the crate `regex`, version 1.11, and of `regex-syntax` 0.8 (a test compares with
pydantic).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from structgen.constraints.expressions import RE, Ranges, character_class, negate_ranges, normalise_ranges
from structgen.errors import OptionError

from .casing import close_ranges
from .parser import END, START, Flags, Parser
from .unicode import ASCII_DIGIT, ASCII_SPACE, ASCII_WORD, property_ranges

__all__ = ["RustParser", "rust_flags"]

_SIMPLE = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_ASCII_SETS = {"d": ASCII_DIGIT, "s": ASCII_SPACE, "w": ASCII_WORD}
_UNICODE_SETS = {"d": ("Nd",), "s": ("White_Space",), "w": ("Alphabetic", "M", "Nd", "Pc", "Join_Control")}
_POSIX: dict[str, Ranges] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0, 0x7F),),
    "blank": ((9, 9), (0x20, 0x20)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": ASCII_DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ASCII_SPACE,
    "upper": ((0x41, 0x5A),),
    "word": ASCII_WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_CODE = re.compile(r"(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{\s*([0-9A-Fa-f]+)\s*\})")
_PROPERTY = re.compile(r"([pP])(?:\{([^{}^]*)\}|([A-Za-z]))")
_POSIX_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
_NAMED = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_.\[\]]*)>")
_MODES = re.compile(r"\(\?([a-zA-Z]*)(?:(-)([a-zA-Z]+))?([:)])")
_MODE_FIELDS = {"i": "ignore_case", "m": "multi_line", "s": "dot_all", "x": "verbose"}
_HALF_BOUNDARY = re.compile(r"\\(?:b\{(start|end|start-half|end-half)\}|([<>]))")
_BRACE = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}", re.ASCII)
_BLANK = re.compile(r"(?:\s|#[^\n]*(?:\n|$))*")


def rust_flags(flags: int) -> Flags:
    """Return the modes of a combination of `re` flags."""
    given = re.RegexFlag(flags)
    unknown = given & ~(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE)
    if unknown:
        raise OptionError(
            f"the Rust dialect has no flag {unknown!r}",
            hint="It has re.IGNORECASE, re.MULTILINE, re.DOTALL and re.VERBOSE.",
        )
    return Flags(*(bool(given & flag) for flag in (re.IGNORECASE, re.MULTILINE, re.DOTALL, re.VERBOSE)))


class RustParser(Parser):
    """Parses a pattern of Rust's crate `regex`."""

    dialect = "rust"
    line_ends = ((0x0A, 0x0A),)
    class_cache: ClassVar[dict[tuple[str, Flags], RE]] = {}
    quantifiers_repeat = True

    # -- groups

    def extension(self, position: int) -> None:
        """Parse a named group, or modes, which hold to the end of the enclosing group."""
        named = _NAMED.match(self.pattern, position)
        if named:
            self.captures += 1
            self.open_group(len(named[0]))
            return
        modes = _MODES.match(self.pattern, position)
        if modes is None:
            raise self.unknown_group(position)
        on, _, off, closer = modes.group(1, 2, 3, 4)
        start, stop = modes.span()
        flags = self.flags
        for letters, value in ((on, True), (off or "", False)):
            for letter in letters:
                if letter == "R":
                    raise self.unsupported("CRLF modes", start, stop)
                if letter not in "imsxuU":
                    self.fail(
                        f"unknown mode {letter!r}", start, stop, hint="The modes are i, m, s, x, u and U."
                    )
                if letter == "u":
                    flags = flags._replace(ascii=not value)
                elif letter != "U":  # which repetition is lazy changes no language
                    flags = flags._replace(**{_MODE_FIELDS[letter]: value})
        if closer == ":":
            self.open_group(stop - start, flags=flags)
        else:
            self.set_flags(flags)
            self.position = stop

    def open_parenthesis(self) -> None:
        """Parse ``(``; the crate has no look-around."""
        if self.pattern.startswith(("(?=", "(?!", "(?<=", "(?<!"), self.position):
            raise self.unsupported("look-arounds in the Rust dialect", self.position, self.position + 3)
        super().open_parenthesis()

    # -- quantifiers

    def add_brace(self) -> None:
        """Parse ``{``, which always starts a count; blanks are allowed inside."""
        match = _BRACE.match(self.pattern, self.position)
        if match is None:
            self.fail("this '{' does not start a count", self.position, hint="Write '\\{' for the character.")
        low, comma, high = match.group(1, 2, 3)
        first = self._count(low, match.start(1))
        last = first if not comma else self._count(high, match.start(3)) if high else None
        if last is not None and last < first:
            self.fail(
                f"repetition bounds are reversed: {match[0]}",
                *match.span(),
                hint="Write the smaller count first.",
            )
        self.quantify(first, last, match.end() - match.start())

    # -- escapes

    def add_escape(self) -> None:
        """Parse a backslash outside classes."""
        pattern, position = self.pattern, self.position
        half = _HALF_BOUNDARY.match(pattern, position)
        letter = pattern[position + 1 : position + 2]
        if half:
            self._add_half_boundary({"<": "start", ">": "end"}.get(half[2], half[1]), half.end() - position)
        elif letter in ("b", "B") and letter:
            self.add_boundary(letter == "B", self._set("w"), 2)
        elif letter in ("A", "z") and letter:
            self.add_anchor(START if letter == "A" else END, 2)
        else:
            member, after = self._escape(position)
            self.add_member(member, after - position)

    def _add_half_boundary(self, name: str, length: int) -> None:
        word = character_class(self._set("w"))
        before = ("look", False, name.startswith("start"), word)
        after = ("look", True, name.startswith("end"), word)
        if name in ("start", "start-half"):
            looks = [before] + [after] * (name == "start")
        else:
            looks = [after] + [before] * (name == "end")
        self.items += looks[:-1]
        self.add_anchor(looks[-1], length)

    def _escape(self, position: int) -> tuple[int | Ranges, int]:
        pattern = self.pattern
        letter = pattern[position + 1 : position + 2]
        if not letter:
            self.fail("a backslash ends the pattern", position, hint="Write two for the character.")
        if letter in "dswDSW":
            members = self._set(letter.lower())
            return (members if letter.islower() else self._complement(members)), position + 2
        if letter in _SIMPLE:
            return _SIMPLE[letter], position + 2
        code = _CODE.match(pattern, position + 1)
        if code:
            digits = next(group for group in code.groups() if group is not None)
            value = int(digits, 16) if len(digits.lstrip("0")) <= 6 else 0x110000
            if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
                self.fail(
                    "this number is not a character", position, code.end(), hint="Unicode ends at 10FFFF."
                )
            return value, code.end()
        named = _PROPERTY.match(pattern, position + 1)
        if named:
            return self._property(named, position)
        if letter.isascii() and not letter.isalnum() and letter not in "<>":
            return ord(letter), position + 2
        raise self.error(
            f"\\{letter} is not an escape",
            position,
            position + 2,
            hint=f"Write {letter!r} for the character.",
        )

    def _property(self, named: re.Match[str], position: int) -> tuple[Ranges, int]:
        name = named[2] if named[2] is not None else named[3]
        expression = name.replace(":", "=").replace("!=", "=")
        members = property_ranges(expression)
        if members is None:
            self.fail(
                f"the Unicode property {name!r} is unknown",
                position,
                named.end(),
                hint="General categories, scripts and the binary properties of ECMA-262 are supported.",
            )
        if self.flags.ignore_case:  # the crate adds the other cases before it negates
            members = self.close_under_case(members, position)
        negative = (named[1] == "P") != ("!=" in name)
        return (self._complement(members) if negative else members), named.end()

    def _set(self, letter: str) -> Ranges:
        if self.flags.ascii:
            return _ASCII_SETS[letter]
        return normalise_ranges(
            piece for name in _UNICODE_SETS[letter] for piece in property_ranges(name) or ()
        )

    def _complement(self, members: Ranges) -> Ranges:
        """Return the characters outside a set that the interpreter's Unicode defines."""
        return _intersection(negate_ranges(members), property_ranges("Assigned") or ())

    # -- classes

    def add_class(self) -> None:
        """Parse ``[...]``, which may contain other classes and set operations."""
        start = self.position
        members, after = self._class(start, 0)
        self.add(character_class(members), after - start)

    def _class(self, start: int, depth: int) -> tuple[Ranges, int]:
        """Return the set of the class that starts there, and the position after it."""
        if depth > self.limits.depth:
            self.fail("classes are nested too deeply", start)
        position = start + 1
        is_negated = self.pattern[position : position + 1] == "^"
        position = self._blanks(position + is_negated)
        total: Ranges | None = None
        operation = ""
        pieces: list[tuple[int, int]] = []
        has_sets = False
        while self.pattern[position : position + 1] == "-":
            pieces.append((0x2D, 0x2D))
            position = self._blanks(position + 1)
        first = not pieces
        while True:
            position = self._blanks(position)
            rest = self.pattern[position : position + 2]
            if not rest:
                self.fail("this class is not closed", start, hint="Add the missing ']'.")
            if rest[0] == "]" and not first or rest in ("&&", "--", "~~"):
                total = _combined(total, operation, self._close_under_case(normalise_ranges(pieces), start))
                pieces = []
                operation = rest
                position += 1 if rest[0] == "]" else 2
                first = False
                if rest[0] == "]":
                    break
                continue
            members, position, is_set = self._item(position, depth)
            has_sets |= is_set
            pieces.extend(members)
            first = False
        if is_negated:
            total = self._complement(total) if has_sets else negate_ranges(total)
        self.count_ranges(len(total), start)
        return total, position

    def _close_under_case(self, members: Ranges, position: int) -> Ranges:
        if not self.flags.ignore_case:
            return members
        self.count_ranges(4 * len(members), position)
        return close_ranges(members, self.dialect, self.flags.ascii)

    def _item(self, position: int, depth: int) -> tuple[Ranges, int, bool]:
        """Parse a nested or named class, an escape, a character or a range; also return whether Unicode defines it."""
        posix = _POSIX_CLASS.match(self.pattern, position)
        if posix and posix[2] in _POSIX:
            members = self._close_under_case(_POSIX[posix[2]], position)
            return (negate_ranges(members) if posix[1] else members), posix.end(), False
        if self.pattern[position] == "[":
            members, after = self._class(position, depth + 1)
            return members, after, True
        low, after = self._atom(position)
        if isinstance(low, tuple):
            return low, after, True
        following = self._blanks(after)
        if self.pattern[following : following + 1] != "-":
            return ((low, low),), after, False
        end = self._blanks(following + 1)
        if self.pattern[end : end + 1] in ("]", "-", ""):  # the hyphen is a character, or starts "--"
            return ((low, low),), after, False
        high, after = self._atom(end)
        if isinstance(high, tuple) or high < low:
            self.fail(
                f"the range {self.pattern[position:after]!r} ends before it starts, or has a set at one end",
                position,
                after,
                hint="Swap the ends, or write '\\-' for the character '-'.",
            )
        return ((low, high),), after, False

    def _atom(self, position: int) -> tuple[int | Ranges, int]:
        if self.pattern[position] == "\\":
            return self._escape(position)
        return ord(self.pattern[position]), position + 1

    def _blanks(self, position: int) -> int:
        if not self.flags.verbose:
            return position
        match = _BLANK.match(self.pattern, position)
        return position if match is None else match.end()

    handlers: ClassVar[Mapping[str, Callable[[Any], None]]] = {
        **Parser.handlers,
        "\\": add_escape,
        "[": add_class,
        "(": open_parenthesis,
        "{": add_brace,
    }


def _combined(left: Ranges | None, operation: str, right: Ranges) -> Ranges:
    if left is None:
        return right
    if operation == "&&":
        return _intersection(left, right)
    outside = negate_ranges(right)
    if operation == "--":
        return _intersection(left, outside)
    return normalise_ranges([*_intersection(left, outside), *_intersection(right, negate_ranges(left))])


def _intersection(left: Ranges, right: Ranges) -> Ranges:
    return negate_ranges(normalise_ranges([*negate_ranges(left), *negate_ranges(right)]))
