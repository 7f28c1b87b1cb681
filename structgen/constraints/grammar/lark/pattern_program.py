r"""Compile a pattern of Python's `re` to a program that keeps the order in which `re` tries alternatives.

Why: lark's lexers take the match that `re` prefers. Greedy and lazy quantifiers and the order of alternatives decide
it, and regular expressions as data do not keep that order. `preferred_match` runs the program.
Invariant: characters, classes and flags are those of `structgen.regex`, whose parser reads the pattern. A loop ends
after a round without text, as in `re`.
Cost: linear in the pattern with its counts expanded, at most `INSTRUCTIONS`.
Source: CPython 3.11, Modules/_sre/sre_lib.h; R. Cox, "Regular Expression Matching: the Virtual Machine Approach".

    Node = RE without "alternate" and "repeat", and
           ("choice", (Node, ...)) | ("loop", Node, lo, hi or None, lazy)
         | ("look", ahead, negative, Node) | ("boundary", negative, ranges)

    code[i] = ("char", set, next)                   read one character of sets[set]
            | ("split", (next, ...))                try these in order
            | ("enter", loop, next)                 a loop starts
            | ("again", loop, body, exit, lazy)     a round has ended; a round without text ends the loop
            | ("ahead", negative, body, next)       the text here (not) begins with a match of the body
            | ("lookbehind", index, negative, next) the text before (not) ends with a match of lookbehinds[index]
            | ("boundary", negative, set, next)
            | ("match",) | ("found",)               the end of the pattern; the end of a look-around's body
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from structgen.constraints.expressions import (
    ALL_RANGES,
    ANY,
    RE,
    Ranges,
    character_class,
    concat,
    negate_ranges,
)
from structgen.constraints.regex.parser import NO_FLAGS
from structgen.constraints.regex.python import PythonParser
from structgen.errors import LimitExceeded, RegexUnsupported

__all__ = ["INSTRUCTIONS", "GreedyParser", "Instruction", "Program", "compile_pattern"]

Node = tuple[Any, ...]
Instruction = tuple[Any, ...]

INSTRUCTIONS = 50_000
"""The most instructions of a program."""

_NOT_NEWLINE = character_class(negate_ranges(((0x0A, 0x0A),)))


class GreedyParser(PythonParser):
    """Reads a pattern, and whether it has a lazy quantifier."""

    lazy = False

    def quantify(self, low: int, high: int | None, length: int) -> None:
        """Apply a quantifier, and record whether it is lazy and repeats a variable number of times."""
        stop = self.position + length
        self.lazy |= low != high and self.pattern[stop : stop + 1] == "?"
        super().quantify(low, high, length)


class _OrderedParser(GreedyParser):
    """Reads a pattern into nodes instead of a language."""

    has_atomic_groups = False  # the program has no instruction for them
    has_references = False

    # `$` holds unless more text follows than one final newline.
    text_end: ClassVar[RE] = (
        "look",
        True,
        True,
        ("choice", (_NOT_NEWLINE, ("concat", (("literal", "\n"), ANY)))),
    )

    def quantify(self, low: int, high: int | None, length: int) -> None:
        body = self.items[-1] if self.items else None
        stop = self.position + length
        lazy = self.pattern[stop : stop + 1] == "?"
        super().quantify(low, high, length)  # raises an error for what cannot be repeated
        self.items[-1] = ("loop", body, low, high, lazy)

    def _alternatives(self) -> RE:
        body = concat(self.items)
        return ("choice", (*self.branches, body)) if self.branches else body

    def add_line_start(self) -> None:
        self.add_anchor(("look", False, True, _NOT_NEWLINE if self.flags.multi_line else ANY), 1)

    def add_line_end(self) -> None:
        self.add_anchor(("look", True, True, _NOT_NEWLINE) if self.flags.multi_line else self.text_end, 1)

    handlers: ClassVar[Mapping[str, Callable[[Any], None]]] = {
        **PythonParser.handlers,
        "^": add_line_start,
        "$": add_line_end,
    }


@dataclass(slots=True)
class Program:
    """A compiled pattern."""

    code: list[Instruction] = field(default_factory=list)
    start: int = 0
    sets: list[Ranges] = field(default_factory=list)
    lookbehinds: list[int] = field(default_factory=list)
    """The starts of the bodies of lookbehinds."""
    lazy: bool = False
    """Whether there is a lazy quantifier."""
    looks: bool = False
    """Whether there is look-around, an anchor or a word boundary."""


def compile_pattern(pattern: str) -> Program:
    """Return the program of a pattern. Flags are written in the pattern itself, as in lark."""
    parser = _OrderedParser(pattern, NO_FLAGS)
    tree = parser.parse()
    builder = _Builder(pattern)
    builder.program.start = builder.build(tree, builder.add(("match",)))
    builder.program.lazy = parser.lazy
    builder.program.looks = parser.has_looks
    return builder.program


class _Builder:
    """Writes a program from its end, so that each instruction knows its successor."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.program = Program()
        self.set_numbers: dict[Ranges, int] = {}
        self.loops = 0

    def add(self, instruction: Instruction) -> int:
        code = self.program.code
        if len(code) >= INSTRUCTIONS:
            raise LimitExceeded(
                f"the pattern, with its counts expanded, has more than {INSTRUCTIONS} steps",
                limit="pattern_steps",
                pattern=self.pattern,
                hint="Use smaller counts, or omit their upper bounds.",
            )
        code.append(instruction)
        return len(code) - 1

    def set_number(self, ranges: Ranges) -> int:
        number = self.set_numbers.setdefault(ranges, len(self.program.sets))
        if number == len(self.program.sets):
            self.program.sets.append(ranges)
        return number

    def build(self, node: Node, after: int, inside_look: bool = False) -> int:
        """Write the program of `node`, which continues at `after`; return its start."""
        kind = node[0]
        if kind == "concat":
            for part in reversed(node[1]):
                after = self.build(part, after, inside_look)
            return after
        if kind == "literal":
            for character in reversed(node[1]):
                after = self.add(("char", self.set_number(((ord(character), ord(character)),)), after))
            return after
        if kind in ("class", "any"):
            return self.add(("char", self.set_number(node[1] if kind == "class" else ALL_RANGES), after))
        if kind == "empty":
            return self.add(("split", ()))
        if kind == "choice":
            return self.add(("split", tuple(self.build(branch, after, inside_look) for branch in node[1])))
        if kind == "loop":
            return self._loop(node, after, inside_look)
        if inside_look:
            raise RegexUnsupported(
                "conditions inside look-around are not supported in a terminal",
                pattern=self.pattern,
                hint="Write the look-around without anchors, word boundaries and look-around inside it.",
            )
        if kind == "boundary":
            return self.add(("boundary", node[1], self.set_number(node[2]), after))
        _, ahead, negative, body = node
        entry = self.build(body, self.add(("found",)), True)
        if ahead:
            return self.add(("ahead", negative, entry, after))
        self.program.lookbehinds.append(entry)
        return self.add(("lookbehind", len(self.program.lookbehinds) - 1, negative, after))

    def _loop(self, node: Node, after: int, inside_look: bool) -> int:
        """Write the required rounds, expanded, and then the optional ones."""
        _, body, low, high, lazy = node
        empty = _may_be_empty(body)
        self.loops += 1
        loop = self.loops
        entry = after
        if high is None:
            entry = self.add(("split", ()))
            self._fork(entry, loop, self.build(body, entry, inside_look), after, lazy, empty)
        else:
            for _ in range(high - low):
                fork = self.add(("split", ()))
                self._fork(fork, loop, self.build(body, entry, inside_look), after, lazy, empty)
                entry = fork
        if empty and entry != after:
            entry = self.add(("enter", loop, entry))
        for _ in range(low):
            before = self.build(body, entry, inside_look)
            if before == entry:
                break  # the body is empty, so a million copies would be, too
            entry = before
        return entry

    def _fork(self, at: int, loop: int, body: int, after: int, lazy: bool, empty: bool) -> None:
        if empty:
            self.program.code[at] = ("again", loop, body, after, lazy)
        else:
            self.program.code[at] = ("split", (after, body) if lazy else (body, after))


def _may_be_empty(node: Node) -> bool:
    kind = node[0]
    if kind == "literal":
        return not node[1]
    if kind == "concat":
        return all(map(_may_be_empty, node[1]))
    if kind == "choice":
        return any(map(_may_be_empty, node[1]))
    if kind == "loop":
        return node[2] == 0 or _may_be_empty(node[1])
    return kind in ("look", "boundary")
