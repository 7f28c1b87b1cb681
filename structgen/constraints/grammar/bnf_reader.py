"""The reader that GBNF and EBNF share: rules of strings, classes, names, groups and repetitions, without a lexer.

Why: both notations descend from one another, so one loop reads both; a subclass says where they differ (its token
pattern, its escapes, a few switches) and what only it has (special tokens, macros).
Invariant: a body means what the source says. Nothing is dropped in silence: what cannot be represented is refused with
its place.
Cost: linear in the source: one compiled pattern cuts it into tokens, equal tokens are understood once, and the
place of a fault is computed only when there is one. Groups are kept on a list, so nesting costs no recursion.
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from structgen.constraints import expressions
from structgen.constraints.expressions import RE
from structgen.errors import (
    ConstraintError,
    GrammarError,
    GrammarSyntaxError,
    GrammarUnsupported,
    LimitExceeded,
    a_kind,
)
from structgen.ir.grammar import Body, Grammar, Rule, position_at

from . import bodies
from .characters import check_characters

__all__ = [
    "BLANK",
    "DEFAULT_LIMITS",
    "WIDE_BLANK",
    "NotationLimits",
    "Reader",
    "escape_patterns",
    "token_pattern",
]


@dataclass(frozen=True)
class NotationLimits:
    """Bounds on one grammar."""

    length: int = 2_000_000
    """Characters."""
    entries: int = 500_000
    """Texts, classes, names and signs of all rules."""
    depth: int = 200
    """Groups and repetitions inside one another."""
    count: int = 1_000_000
    """The number in a repetition."""
    tags: int = 256
    """Tags and excluded texts of one `TagDispatch`; each is compared with each."""
    tag_length: int = 1_000
    """Characters of one of them."""


DEFAULT_LIMITS = NotationLimits()

BLANK = r"[ \t]*+(?:#[^\r\n]*+)?+"
WIDE_BLANK = r"[ \t\r\n]*+(?:#[^\r\n]*+[ \t\r\n]*+)*+"
"""Blanks and comments, on one line and over several."""

_NEVER = "(?!)"
_LEAF, _NAME, _DEFINE, _OPTIONS, _REPEAT, _BAR, _OPEN, _CLOSE, _NEWLINE, _END, _STRAY = range(1, 12)
_DEFINITIONS = frozenset((_DEFINE, _OPTIONS))
_BORDERS = _DEFINITIONS | {_NEWLINE, _END}


def token_pattern(
    *, name: str, leaf: str, blank: str, options: str = _NEVER, newline: str = _NEVER, joint: str = ""
) -> re.Pattern[str]:
    """What comes next, after blanks; the number of the last group that took part is its kind.

    `joint` are the blanks that ``::=`` and ``|`` take with them, and so also the newlines after them.
    """
    return re.compile(
        rf"{blank}(?:({leaf})|({name})(?:{blank}(::=){joint}|({options}))?+|([*+?]|\{{[^{{}}]*+\}})"
        rf"|(\|){joint}|(\()|(\))|({newline})|(\Z)|(.))",
        re.DOTALL,
    )


_LIMIT_HINTS = {
    "length": "Split it into several constraints.",
    "entries": "Split it into several constraints.",
    "depth": "Name the inner groups as rules of their own.",
    "count": "Leave the upper bound out, as in {m,}, or write a smaller one.",
    "tags": "Use fewer tags and excluded texts.",
    "tag_length": "Use shorter tags and excluded texts.",
}
_LIMIT_NAMES = {
    "length": "grammar_length",
    "entries": "grammar_entries",
    "depth": "grammar_depth",
    "count": "repetition_count",
    "tags": "dispatch_tags",
    "tag_length": "dispatch_tag_length",
}
"""What errors call the limits."""
_SPACE = r"[ \t\r\n]*+"
_BOUNDS = re.compile(rf"\{{{_SPACE}([0-9]++){_SPACE}(?:(,){_SPACE}([0-9]++|-1)?+{_SPACE})?+\}}")
_SIMPLE_BOUNDS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_SURROGATES = range(0xD800, 0xE000)
_HEX_DIGITS = {"x": "two", "u": "four", "U": "eight"}
_RULE_FORM = "A rule is written as name ::= ..."
_NEXT_RULE = re.compile(r"[\r\n][ \t]*+([A-Za-z0-9_-]++)[ \t]*+::=")
_STRAYS = {
    "'": "Write texts in double quotes.",
    "=": _RULE_FORM,
    ":": _RULE_FORM,
    ";": "A rule needs no mark at its end.",
    ",": "What follows one another stands side by side, without commas.",
    "/": "Comments begin with #; what a regular expression says is written with classes, groups and repetitions.",
    "\ufeff": "It is a byte order mark: remove it.",
}


def escape_patterns(hexadecimal: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """One escape, and one item of a class: a character or a range. `hexadecimal` are the digits after ``\\x``."""
    escape = rf"\\(?:x{hexadecimal}|u[0-9A-Fa-f]{{4}}|U[0-9A-Fa-f]{{8}}|.)"
    return re.compile(escape, re.DOTALL), re.compile(rf"({escape}|[^\\])(?:-({escape}|[^\\]))?+", re.DOTALL)


class Part(NamedTuple):
    """What stands next in a source."""

    kind: Literal["leaf", "repeat", "open", "close", "rule", "end", "other"]
    text: str
    position: int
    end: int


_PART_KINDS: dict[int, Literal["leaf", "repeat", "open", "close", "rule", "end", "other"]] = {
    _LEAF: "leaf", _NAME: "leaf", _REPEAT: "repeat", _OPEN: "open", _CLOSE: "close", _DEFINE: "rule",
    _OPTIONS: "rule", _END: "end",
}  # fmt: skip


class Reader(ABC):
    """Reads one grammar; subclasses are the notations."""

    notation: ClassVar[str]
    tokens: ClassVar[re.Pattern[str]]
    escape: ClassVar[re.Pattern[str]]
    class_item: ClassVar[re.Pattern[str]]
    string_escapes: ClassVar[Mapping[str, int]]
    class_escapes: ClassVar[Mapping[str, int]]
    hints: ClassVar[Mapping[str, str]]
    """What to do about a character, an escape or a name that has no meaning here."""
    newline_ends_rule: ClassVar[bool]
    """Else the next ``name ::=`` does."""
    empty_alternatives: ClassVar[bool]
    repeats_twice: ClassVar[bool]
    """May a repetition be repeated without a group around it?"""
    minus_one: ClassVar[bool]
    """Is ``{m,-1}``, as XGrammar prints it, ``{m,}``?"""
    newline_in_text: ClassVar[bool]
    reversed_ranges: ClassVar[bool] = False
    """Has a range that ends before it begins no character? Else it is a mistake."""
    duplicates: ClassVar[str]
    """What to do about a second definition."""
    leaves: ClassVar[Mapping[str, Body]] = {}
    """Leaves of one meaning each."""
    macros: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: str, limits: NotationLimits = DEFAULT_LIMITS) -> None:
        if not isinstance(source, str):
            message = f"a grammar is a str, not {a_kind(source)}"
            raise ConstraintError(message, hint="Read its file as UTF-8 text.")
        self.source = source
        self.limits = limits
        self._uses: dict[str, int] = {}
        """Where each name is used first."""
        self._leaves = dict(self.leaves)
        self._bounds = dict(_SIMPLE_BOUNDS)

    @abstractmethod
    def special(self, raw: str, position: int) -> Body:
        """A leaf that is neither a text nor a name."""

    def macro(self, name: str, position: int, end: int) -> tuple[Body, int]:
        """A name of `macros`, and where reading goes on."""
        raise LookupError(f"{name} is no macro of this notation")

    @abstractmethod
    def empty_class(self, raw: str, position: int) -> RE:
        """``[]`` and ``[^]``."""

    # The grammar.

    def read(self, start: str) -> Grammar:
        if not isinstance(start, str):
            message = f"the start of a grammar is the name of a rule, a str, not {a_kind(start)}"
            raise ConstraintError(message)
        if len(self.source) > self.limits.length:
            raise self.limit("length", f"the grammar has {len(self.source)} characters", 0)
        check_characters(self.source, self.fault)
        read = self._read_rules()
        self._check_names(read, start)
        rules = tuple(Rule(name, body, position) for name, (position, body) in read.items())
        return self.finished(Grammar(rules, start, source=self.source))

    def finished(self, grammar: Grammar) -> Grammar:
        """The grammar with what only all rules together determine."""
        return grammar

    def options(self, name: str, position: int) -> None:
        """Reads the options of a rule, from the bracket on."""
        raise LookupError("rules have no options in this notation")

    def _read_rules(self) -> dict[str, tuple[int, Body]]:
        """The position and the body of each rule."""
        source, leaves, bounds = self.source, self._leaves, self._bounds
        rules: dict[str, tuple[int, Body]] = {}
        name: str | None = None
        name_at = position = 0
        items: list[Body] = []  # of the alternative that is open
        alternatives: list[Body] = []  # of the group that is open, those that are read
        groups: list[tuple[list[Body], list[Body], re.Match[str], int]] = []
        repeated = False
        height = tallest = 0  # of the last item, and of the tallest one in this group
        entries, most_entries = 0, self.limits.entries
        while True:
            for match in self.tokens.finditer(source, position):
                kind = match.lastindex or _STRAY
                entries += 1
                if entries > most_entries:
                    message = "the grammar has too many texts, names and signs"
                    raise self.limit("entries", message, match.start(kind))
                if name is None and kind not in _DEFINITIONS:
                    if kind == _END:
                        return rules
                    if kind != _NEWLINE:
                        raise self._no_rule(match, bool(rules))
                elif kind <= _NAME:
                    raw = match[kind]
                    leaf = leaves.get(raw)
                    height, repeated = 0, False
                    if leaf is None:
                        if raw in self.macros:
                            leaf, position = self.macro(raw, match.start(kind), match.end())
                            items.append(leaf)
                            break
                        leaf = leaves[raw] = self._leaf(raw, match.start(kind))
                    items.append(leaf)
                elif kind == _REPEAT:
                    if not items or (repeated and not self.repeats_twice):
                        raise self._no_item(match, bool(items))
                    low, high = bounds.get(match[kind]) or self._read_bounds(match)
                    items[-1] = bodies.repeat(items[-1], low, high)
                    repeated = True
                    height += 1
                    if height > tallest:
                        tallest = self._checked(height, match)
                elif kind == _BAR:
                    body = items[0] if len(items) == 1 else self._alternative(items, match)
                    alternatives.append(body)
                    items, repeated = [], False
                elif kind == _OPEN:
                    groups.append((items, alternatives, match, tallest))
                    self._checked(len(groups), match)
                    items, alternatives, tallest = [], [], 0
                elif kind == _CLOSE:
                    if not groups:
                        raise self.fault("this ) closes nothing", match.start(kind), hint=_quoted(")"))
                    body = items[0] if len(items) == 1 else self._alternative(items, match, alternatives)
                    if alternatives:
                        body = bodies.choice([*alternatives, body])
                    height, repeated = tallest + 1, False
                    items, alternatives, _, tallest = groups.pop()
                    items.append(body)
                    if height > tallest:
                        tallest = self._checked(height, match)
                elif kind == _NEWLINE and groups:
                    continue
                elif kind in _BORDERS:
                    if name is not None:
                        if groups or (kind in _DEFINITIONS and self.newline_ends_rule):
                            opened = groups[-1][2].start(_OPEN) if groups else None
                            raise self._unfinished(name, match, opened)
                        body = items[0] if len(items) == 1 else self._alternative(items, match)
                        rules[name] = (
                            name_at,
                            bodies.choice([*alternatives, body]) if alternatives else body,
                        )
                        name = None
                    if kind == _END:
                        return rules
                    if kind in _DEFINITIONS:
                        name, name_at = match[_NAME], match.start(_NAME)
                        self._check_new(name, name_at, rules)
                        if kind == _OPTIONS:
                            self.options(name, match.start(_OPTIONS))
                        items, alternatives, repeated, tallest = [], [], False, 0
                else:
                    raise self._stray(match)

    def _alternative(self, items: list[Body], match: re.Match[str], before: Sized = "rule") -> Body:
        """The body of no items, or of several; where there is nothing `before`, all of a group may be empty."""
        if items:
            return bodies.sequence(items)
        if before and not self.empty_alternatives:
            kind = match.lastindex or _STRAY
            following = {_BAR: "this |", _CLOSE: "this )", _END: "the end"}.get(kind, "the next rule")
            position = match.start(_NAME if kind in _DEFINITIONS else kind)
            hint = 'Write "" for the empty text.'
            raise self.fault(f"nothing stands before {following}", position, hint=hint)
        return bodies.EMPTY

    def _checked(self, height: int, match: re.Match[str]) -> int:
        if height > self.limits.depth:
            message = "groups and repetitions are nested too deep"
            raise self.limit("depth", message, match.start(match.lastindex or 0))
        return height

    def next_part(self, position: int) -> Part:
        """What stands next, after blanks."""
        match = self.tokens.match(self.source, position)
        assert match is not None  # its last group is any character, the one before it the end
        group = match.lastindex or _STRAY
        kind = _PART_KINDS.get(group, "other")
        if kind == "rule":
            group = _NAME
        elif kind == "repeat" and match[_REPEAT] not in self._bounds:
            self._read_bounds(match)
        return Part(kind, match[group], match.start(group), match.end())

    # Leaves.

    def leaf(self, raw: str, position: int) -> Body:
        """A text, a class, a name, or what else the notation has as a leaf."""
        return self._leaf(raw, position)

    def _leaf(self, raw: str, position: int) -> Body:
        first = raw[0]
        if first == '"':
            return bodies.text(("literal", self.string(raw, position)))
        if first == "[":
            return ("text", self._character_class(raw, position))
        if first in "(<!":
            return self.special(raw, position)
        return self.reference(raw, position)

    def reference(self, name: str, position: int) -> Body:
        self._uses.setdefault(name, position)
        return ("rule", name)

    def string(self, raw: str, position: int) -> str:
        """The text that a string, with its quotes, stands for."""
        inner = raw[1:-1]
        if "\\" not in inner:
            return inner

        def replaced(match: re.Match[str]) -> str:
            place = position + 1 + match.start()
            point = self._character(match[0], place, self.string_escapes)
            if point in _SURROGATES:
                raise self._surrogate(match[0], place)
            return chr(point)

        return self.escape.sub(replaced, inner)

    def _character_class(self, raw: str, position: int) -> RE:
        negative = raw.startswith("^", 1)
        start = 2 if negative else 1
        if len(raw) == start + 1:
            return self.empty_class(raw, position)
        self._check_closed(raw, position)
        ranges: list[tuple[int, int]] = []
        for match in self.class_item.finditer(raw, start, len(raw) - 1):
            place = position + match.start()
            low = high = self._character(match[1], place, self.class_escapes)
            if match[2] is not None:
                high = self._character(match[2], position + match.start(2), self.class_escapes)
                if low > high and self.reversed_ranges:
                    continue
                if low > high:
                    message = f"the range {_shown(match[0])} ends before it begins"
                    hint = "Turn it round, or write \\- for a hyphen itself."
                    raise self.fault(message, place, len(match[0]), hint=hint)
            elif low in _SURROGATES:
                raise self._surrogate(match[1], place)
            ranges.append((low, high))
        normal = expressions.normalise_ranges(ranges)
        return expressions.character_class(expressions.negate_ranges(normal) if negative else normal)

    def _check_closed(self, raw: str, position: int) -> None:
        """A newline is a character of a class, in GBNF; a rule that begins after it is none that is meant so."""
        swallowed = _NEXT_RULE.search(raw)
        if swallowed is not None:
            line = position_at(self.source, position + swallowed.start(1)).line
            message = f"this class is not closed before the rule {_shown(swallowed[1])} in line {line}"
            hint = "Add the ] that closes it. A newline that is meant is written as \\n."
            raise self.fault(message, position, hint=hint)

    def _character(self, raw: str, position: int, escapes: Mapping[str, int]) -> int:
        """The code point that a character or an escape stands for."""
        if len(raw) == 1:
            return ord(raw)
        if len(raw) == 2:
            point = escapes.get(raw[1])
            if point is None:
                raise self._no_escape(raw, position, escapes)
            return point
        digits = raw[2:].lstrip("0")
        if len(digits) > 6 or int(digits or "0", 16) > 0x10FFFF:
            hint = "The last character is \\U0010FFFF."
            raise self.fault("there is no character with this number", position, len(raw), hint=hint)
        return int(digits or "0", 16)

    def _read_bounds(self, token: re.Match[str]) -> tuple[int, int | None]:
        raw, position = token[_REPEAT], token.start(_REPEAT)
        match = _BOUNDS.fullmatch(raw)
        if match is None or (match[3] == "-1" and not self.minus_one):
            hint = "The forms are {m}, {m,} and {m,n}; at most n times is {0,n}."
            raise self.fault("this is not a repetition", position, len(raw), hint=hint)
        low = self._count(match[1], position + match.start(1))
        high: int | None = low
        if match[2] is not None:
            unbounded = match[3] is None or match[3] == "-1"
            high = None if unbounded else self._count(match[3], position + match.start(3))
        if high is not None and low > high:
            message = f"a repetition of at least {low} and at most {high} times is none"
            raise self.fault(message, position, len(raw), hint=f"Write {{{high},{low}}}.")
        self._bounds[raw] = (low, high)
        return low, high

    def _count(self, digits: str, position: int) -> int:
        # subtle: the length is looked at first, since reading a million digits as a number is slow.
        short = digits.lstrip("0")
        if len(short) > 18 or int(short or "0") > self.limits.count:
            raise self.limit("count", f"the count {_shown(digits)} is too large", position)
        return int(short or "0")

    # Checks.

    def _check_new(self, name: str, position: int, rules: Mapping[str, tuple[int, Body]]) -> None:
        """May a rule of this name begin here?"""
        if name in rules:
            first = position_at(self.source, rules[name][0]).line
            message = f"the rule {_shown(name)} is defined a second time, after line {first}"
            raise self.fault(message, position, len(name), hint=self.duplicates)
        if self.newline_ends_rule:
            return  # a newline is what brought us here
        before = position
        while before and self.source[before - 1] in " \t":
            before -= 1
        if before and self.source[before - 1] not in "\r\n":
            message = f"the rule {_shown(name)} does not begin its line"
            raise self.fault(message, position, len(name), hint="Put each rule on a line of its own.")

    def _check_names(self, rules: Mapping[str, object], start: str) -> None:
        for name, position in self._uses.items():
            if name not in rules:
                hint = _nearest(name, rules) or f'Define it, or quote it if it is text: "{_shown(name)}".'
                message = f"there is no rule {_shown(name)}"
                raise self.fault(message, position, len(name), hint=self.hints.get(name, hint))
        if start not in rules:
            hint = _nearest(start, rules) or "Define it, or name another rule as start."
            message = f"there is no rule {_shown(start)} to start from"
            raise GrammarSyntaxError(message, source=self.source, hint=hint)

    # Faults.

    def fault(self, message: str, position: int, length: int = 1, *, hint: str) -> GrammarSyntaxError:
        return GrammarSyntaxError(message, hint=hint, **self._at(position, length))

    def unsupported(self, message: str, position: int, length: int, *, hint: str) -> GrammarUnsupported:
        return GrammarUnsupported(message, hint=hint, **self._at(position, length))

    def limit(self, name: str, message: str, position: int) -> LimitExceeded:
        at = position_at(self.source, position)
        return LimitExceeded(
            f"{message}: the limit is {getattr(self.limits, name)}",
            limit=_LIMIT_NAMES[name],
            where=f"line {at.line}, column {at.column}",
            pattern=self.source,
            position=position,
            hint=_LIMIT_HINTS[name],
        )

    def _at(self, position: int, length: int) -> dict[str, Any]:
        at = position_at(self.source, position)
        return {"source": self.source, "line": at.line, "column": at.column, "length": length}

    def _no_rule(self, match: re.Match[str], after_rule: bool) -> GrammarError:
        """What stands where a rule has to begin."""
        kind = match.lastindex or _STRAY
        position, shown = match.start(kind), match[kind]
        hint = _RULE_FORM
        if kind == _STRAY:
            hint = self.hints.get(shown) or _STRAYS.get(shown, hint)
        elif shown[0] == "<":
            hint = "The names of rules stand without angle brackets: name ::= ..."
        elif after_rule and kind != _NAME:
            hint = "A newline ended the rule before: only in ( ) and after | does one go on."
        return self.fault("a rule has to begin here", position, len(shown), hint=hint)

    def _unfinished(self, name: str, match: re.Match[str], opened: int | None) -> GrammarSyntaxError:
        """A rule or the source ends, but something before it has not ended."""
        following = match[_NAME] if match.lastindex in _DEFINITIONS else None
        end = "the end" if following is None else f"the rule {_shown(following)}"
        if opened is not None:
            return self.fault(f"this ( is not closed before {end}", opened, hint="Add the ) that closes it.")
        message = f"{end} begins before {_shown(name)} has ended"
        hint = 'Put each rule on a line of its own, and "" where an alternative is the empty text.'
        return self.fault(message, match.start(_NAME), len(match[_NAME]), hint=hint)

    def _stray(self, match: re.Match[str]) -> GrammarError:
        """What stands in a body and has no meaning there."""
        kind = match.lastindex or _STRAY
        position, shown = match.start(kind), match[kind]
        newline = "; or one before has no end" if self.newline_in_text else ", and a newline as \\n"
        unended = {
            '"': ("string", f'A quote in it is written as \\"{newline}.'),
            "[": ("class", f"A ] in it is written as \\]{newline}."),
            "{": ("repetition", _quoted(shown)),
        }
        if shown in unended:
            what, hint = unended[shown]
            return self.fault(f"this {what} has no end", position, hint=hint)
        if self.source.startswith("::=", position):
            return self.fault("no rule's name stands before this", position, 3, hint=_RULE_FORM)
        hint = self.hints.get(shown) or _STRAYS.get(shown) or _quoted(shown)
        return self.fault(f"{shown!r} has no meaning here", position, hint=hint)

    def _no_item(self, match: re.Match[str], repeated: bool) -> GrammarSyntaxError:
        shown, position = match[_REPEAT], match.start(_REPEAT)
        message, hint = f"there is nothing that {_shown(shown)} could repeat", _quoted(shown)
        if repeated:
            message = f"{_shown(shown)} follows another repetition"
            hint = "Put that one into a group: (x*){2}."
        return self.fault(message, position, len(shown), hint=hint)

    def _no_escape(self, raw: str, position: int, escapes: Mapping[str, int]) -> GrammarSyntaxError:
        known = " ".join("\\" + letter for letter in escapes)
        hint = self.hints.get(raw) or f"{self.notation} has the escapes {known} \\x \\u \\U here."
        message = f"there is no escape {_shown(raw)}"
        if raw[1] in _HEX_DIGITS:
            message, hint = f"{raw} needs hexadecimal digits", f"Write {_HEX_DIGITS[raw[1]]} of them."
        return self.fault(message, position, len(raw), hint=hint)

    def _surrogate(self, raw: str, position: int) -> GrammarSyntaxError:
        message = f"{raw} is half of a surrogate pair, not a character"
        hint = "Write the whole character, or its number as \\U and eight digits."
        return self.fault(message, position, len(raw), hint=hint)


def _shown(text: str) -> str:
    """A name or a number in a message: not all of a long one."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def _quoted(shown: str) -> str:
    return "If it is text, quote it" + (f': "{_shown(shown)}".' if shown.isprintable() else ".")


def _nearest(name: str, names: Iterable[str]) -> str | None:
    """A hint at the name most like this one; only so many names, of ordinary length, are compared."""
    if len(name) > 100:
        return None
    candidates = [other for _, other in zip(range(5000), names, strict=False) if len(other) <= 100]
    nearest = difflib.get_close_matches(name, candidates, 1)
    return f"Did you mean {nearest[0]}?" if nearest else None
