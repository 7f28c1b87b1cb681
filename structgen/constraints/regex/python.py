"""The dialect of Python's module `re`, for str patterns.

Why: `sg.regex` promises that generated texts satisfy ``re.fullmatch(pattern, text)``.

Invariant: a pattern that `re` refuses is refused here, except that look-behind may have any width; classes are
those of the running interpreter.

Source: CPython 3.11, the documentation of `re` and its behaviour (property tests compare).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from structgen.constraints.expressions import RE, Ranges
from structgen.errors import OptionError

from .parser import END, START, Flags, Parser, negated
from .unicode import ASCII_DIGIT, ASCII_SPACE, ASCII_WORD, python_class

__all__ = ["PythonParser", "python_flags"]

_ASCII_SETS = {"d": ASCII_DIGIT, "s": ASCII_SPACE, "w": ASCII_WORD}
_SIMPLE = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9A-Fa-f]*")
_OCTAL = re.compile(r"[0-7]{1,3}")
_OUTER_OCTAL = re.compile(r"0[0-7]{0,2}|[0-7]{3}")
_REFERENCE = re.compile(r"[1-9][0-9]?")
_COMMENT = re.compile(r"\(\?#(?:[^)\\]|\\.)*\)", re.DOTALL)
_NAME_REFERENCE = re.compile(r"\(\?P=([^)]*)\)")
_NAME = re.compile(r"\(\?P<([^>)]*)>")
_MODES = re.compile(r"\(\?([a-zL]*)(?:(-)([a-zL]*))?([:)])")
_MODE_FIELDS = {"i": "ignore_case", "m": "multi_line", "s": "dot_all", "x": "verbose", "a": "ascii"}

_BEFORE_LAST_NEWLINE: RE = ("look", True, False, ("concat", (("repeat", ("literal", "\n"), 0, 1), END)))


def python_flags(flags: int) -> Flags:
    """Return the modes of a combination of `re` flags."""
    given = re.RegexFlag(flags)
    if given & re.LOCALE:
        raise OptionError("re.LOCALE works on bytes only", hint="Leave it out; text is always Unicode.")
    if given & re.ASCII and given & re.UNICODE:
        raise OptionError("re.ASCII and re.UNICODE exclude one another", hint="Leave one of them out.")
    return Flags(
        ignore_case=bool(given & re.IGNORECASE),
        multi_line=bool(given & re.MULTILINE),
        dot_all=bool(given & re.DOTALL),
        verbose=bool(given & re.VERBOSE),
        ascii=bool(given & re.ASCII),
    )


class PythonParser(Parser):
    """Parses a pattern of Python's `re`."""

    dialect = "python"
    line_ends = ((0x0A, 0x0A),)
    text_end = _BEFORE_LAST_NEWLINE
    class_text = re.compile(r"\[\^?+\]?+[^\]\\]*(?:\\.[^\]\\]*)*\]", re.DOTALL)
    class_cache: ClassVar[dict[tuple[str, Flags], RE]] = {}
    has_atomic_groups = True
    has_references = True

    # -- groups

    def extension(self, position: int) -> None:
        """Parse a comment, a named group, a group with modes, or a reference by name."""
        pattern = self.pattern
        if pattern.startswith("(?#", position):
            comment = _COMMENT.match(pattern, position)
            if comment is None:
                self.fail("this comment is not closed", position, hint="Add the missing ')'.")
            self.position = comment.end()
            return
        named = _NAME.match(pattern, position)
        if named:
            self._open_named(named)
            return
        modes = _MODES.match(pattern, position)
        if modes:
            self._open_modes(modes)
            return
        reference = _NAME_REFERENCE.match(pattern, position)
        if reference:
            self._name_reference(reference)
            return
        if pattern.startswith("(?<", position):
            self.fail("Python writes a named group (?P<name>...)", position, position + 3, hint="Add the P.")
        raise self.unknown_group(position)

    def _open_named(self, named: re.Match[str]) -> None:
        name = named[1]
        if not name.isidentifier():
            self.fail(f"the group name {name!r} is not an identifier", named.start(1), named.end(1))
        if name in self.names:
            self.fail(f"the group name {name!r} is used twice", *named.span(1), hint="Rename one.")
        self.names[name] = self.captures + 1
        self.open_group(len(named[0]), capture=True)

    def _name_reference(self, reference: re.Match[str]) -> None:
        number = self.names.get(reference[1])
        if number is None:
            hint = "Put the reference after its group."
            self.fail(
                f"there is no group named {reference[1]!r} before this position",
                *reference.span(1),
                hint=hint,
            )
        self._check_closed(number, *reference.span())
        self.add_reference(number, reference.end())

    def _check_closed(self, number: int, position: int, end: int) -> None:
        if any(group.capture == number for group in self.groups):
            self.fail(
                "this back-reference is inside its own group", position, end, hint="Move it after the group."
            )

    def _open_modes(self, modes: re.Match[str]) -> None:
        on, minus, off, closer = modes.group(1, 2, 3, 4)
        start, stop = modes.span()
        for letter in on + (off or ""):
            if letter == "L":
                self.fail("mode L works on bytes only", start, stop, hint="Leave it out.")
            if letter not in "aiLmsux":
                self.fail(f"unknown mode {letter!r}", start, stop, hint="The modes are a, i, m, s, u and x.")
        if not on and not off:
            self.fail("a mode is missing", start, stop, hint="The modes are a, i, m, s, u and x.")
        if "a" in on and "u" in on:
            self.fail("modes a and u exclude one another", start, stop)
        if set(off or "") & set("au"):
            self.fail("modes a and u cannot be turned off", start, stop, hint="Turn the other one on.")
        if set(on) & set(off or ""):
            self.fail("a mode is turned on and off at once", start, stop)
        flags = self.flags._replace(**{_MODE_FIELDS[letter]: True for letter in on if letter != "u"})
        flags = flags._replace(**{_MODE_FIELDS[letter]: False for letter in off or ""})
        if "u" in on:
            flags = flags._replace(ascii=False)
        if closer == ":":
            self.open_group(stop - start, flags=flags)
            return
        if minus:
            self.fail("modes are turned off for a group only", start, stop, hint="Write (?-i:...).")
        if self.groups or self.branches or self.items:
            self.fail(
                "modes for the whole pattern must be at its start",
                start,
                stop,
                hint=f"Move them to the start, or write (?{on}:...) around the part that needs them.",
            )
        self.set_flags(flags)
        self.position = stop

    # -- quantifiers

    def is_count(self, match: re.Match[str]) -> bool:
        """Return whether braces are a count: in Python's `re` all but ``{}`` are."""
        return match[0] != "{}"

    # -- escapes

    def add_escape(self) -> None:
        """Parse a backslash outside classes."""
        pattern, position = self.pattern, self.position
        letter = pattern[position + 1 : position + 2]
        if letter == "b" or letter == "B":
            self.add_boundary(letter == "B", self._set("w"), 2)
        elif letter == "A":
            self.add_anchor(START, 2)
        elif letter == "Z":
            self.add_anchor(END, 2)
        elif letter and letter in "123456789":
            self._add_reference(position)
        elif letter == "0":
            octal = _OUTER_OCTAL.match(pattern, position + 1)
            digits = octal[0] if octal else "0"
            self.add(self.character(chr(int(digits, 8))), 1 + len(digits))
        else:
            member, after = self.class_escape(position)
            self.add_member(member, after - position)

    def _add_reference(self, position: int) -> None:
        octal = _OUTER_OCTAL.match(self.pattern, position + 1)
        if octal:
            self.add(self.character(chr(self._octal(octal, position))), 4)
            return
        reference = _REFERENCE.match(self.pattern, position + 1)
        number = int(reference[0]) if reference else 0
        end = reference.end() if reference else position + 2
        if number > self.captures:
            self.fail(
                f"there is no group {number} before this position",
                position,
                end,
                hint="Write \\x followed by two hexadecimal digits for a character by its number.",
            )
        self._check_closed(number, position, end)
        self.add_reference(number, end)

    def _octal(self, octal: re.Match[str], position: int) -> int:
        value = int(octal[0], 8)
        if value > 0o377:
            self.fail(f"the octal escape \\{octal[0]} is above \\377", position, octal.end())
        return value

    def class_escape(self, position: int) -> tuple[int | Ranges, int]:
        """Return what an escape inside a class stands for, and the position after it."""
        pattern = self.pattern
        letter = pattern[position + 1 : position + 2]
        if not letter:
            self.fail("a backslash ends the pattern", position, hint="Write two for the character.")
        if letter in "dswDSW":
            members = self._set(letter.lower())
            return (members if letter.islower() else negated(members)), position + 2
        if letter in _SIMPLE:
            return ord(_SIMPLE[letter]), position + 2
        if letter in _HEX_LENGTHS:
            return self._hexadecimal(position, _HEX_LENGTHS[letter])
        if letter == "N":
            return self._named_character(position)
        octal = _OCTAL.match(pattern, position + 1)
        if octal:
            return self._octal(octal, position), octal.end()
        if letter == "b":
            return 8, position + 2
        if letter.isascii() and letter.isalnum():
            self.fail(
                f"unknown escape \\{letter}",
                position,
                position + 2,
                hint=_ESCAPE_HINTS.get(letter, f"Write {letter!r} for the character."),
            )
        return ord(letter), position + 2

    def _hexadecimal(self, position: int, length: int) -> tuple[int, int]:
        match = _HEX.match(self.pattern, position + 2, position + 2 + length)
        digits = match[0] if match else ""
        end = position + 2 + len(digits)
        if len(digits) != length:
            self.fail(f"this escape needs {length} hexadecimal digits", position, end)
        value = int(digits, 16)
        if value > 0x10FFFF:
            self.fail("Unicode ends at \\U0010FFFF", position, end)
        return value, end

    def _named_character(self, position: int) -> tuple[int, int]:
        stop = self.pattern.find("}", position)
        if self.pattern[position + 2 : position + 3] != "{" or stop < 0:
            hint = "For example \\N{BULLET}."
            self.fail("this escape needs a character's name in braces", position, position + 2, hint=hint)
        name = self.pattern[position + 3 : stop]
        try:
            return ord(unicodedata.lookup(name)), stop + 1
        except (
            KeyError,
            TypeError,
            UnicodeEncodeError,
        ):  # half of a surrogate pair is not a name, and cannot be looked up
            self.fail(f"Unicode has no character named {name!r}", position, stop + 1)

    def _set(self, letter: str) -> Ranges:
        return _ASCII_SETS[letter] if self.flags.ascii else python_class(letter)

    handlers: ClassVar[Mapping[str, Callable[[Any], None]]] = {
        **Parser.handlers,
        "\\": add_escape,
    }


_ESCAPE_HINTS = {
    "p": "Python's re has no properties; use dialect='ecma', or a class.",
    "P": "Python's re has no properties; use dialect='ecma', or a class.",
    "z": "Python writes \\Z for the end of the text.",
    "h": "Write [ \\t] for horizontal space.",
    "R": "Write (?:\\r\\n|[\\n\\r]) for a line break.",
    "k": "Python writes (?P=name) for a back-reference.",
}
