"""The reader that GBNF and EBNF share: rules of strings, classes, names, groups and repetitions, without a lexer.

Why: the notations are close relatives, so one loop reads both. A subclass states how they differ (its token pattern,
its escapes, a few switches) and what only it has (special tokens, macros).
Invariant: a body means what the source says. Nothing is dropped silently: what cannot be represented is refused, with
its position.
Cost: linear in the source. One compiled pattern cuts it into tokens, equal tokens are parsed once, and positions are
computed only for errors. Groups are on an explicit stack, so nesting needs no recursion.
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
    """Limits of the size of one grammar."""

    length: int = 2_000_000
    """Characters."""
    entries: int = 500_000
    """Tokens of all rules: texts, classes, names and signs."""
    depth: int = 200
    """Groups and repetitions inside one another."""
    count: int = 1_000_000
    """The number in a repetition."""
    tags: int = 256
    """Tags and excluded texts of one `TagDispatch`, which are compared pairwise."""
    tag_length: int = 1_000
    """Characters of a tag or an excluded text."""


DEFAULT_LIMITS = NotationLimits()

BLANK = r"[ \t]*+(?:#[^\r\n]*+)?+"
WIDE_BLANK = r"[ \t\r\n]*+(?:#[^\r\n]*+[ \t\r\n]*+)*+"
"""Blanks and comments, on one line and across lines."""

_NEVER = "(?!)"
_LEAF, _NAME, _DEFINE, _OPTIONS, _REPEAT, _BAR, _OPEN, _CLOSE, _NEWLINE, _END, _STRAY = range(1, 12)
_DEFINITIONS = frozenset((_DEFINE, _OPTIONS))
_BORDERS = _DEFINITIONS | {_NEWLINE, _END}


def token_pattern(
    *, name: str, leaf: str, blank: str, options: str = _NEVER, newline: str = _NEVER, joint: str = ""
) -> re.Pattern[str]:
    """Return the pattern of the next token after blanks; the number of the last matching group is the token's type.

    `joint` matches the blanks that ``::=`` and ``|`` consume after them, newlines included.
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
    "count": "Omit the upper bound, as in {m,}, or use a smaller one.",
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
"""The names of the limits in errors."""
_SPACE = r"[ \t\r\n]*+"
_BOUNDS = re.compile(rf"\{{{_SPACE}([0-9]++){_SPACE}(?:(,){_SPACE}([0-9]++|-1)?+{_SPACE})?+\}}")
_SIMPLE_BOUNDS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_SURROGATES = range(0xD800, 0xE000)
_HEX_DIGITS = {"x": "two", "u": "four", "U": "eight"}
_RULE_FORM = "A rule is written as name ::= ..."
_NEXT_RULE = re.compile(r"[\r\n][ \t]*+([A-Za-z0-9_-]++)[ \t]*+::=")
_STRAYS = {
    "'": "Use double quotes for texts.",
    "=": _RULE_FORM,
    ":": _RULE_FORM,
    ";": "A rule does not end with a semicolon.",
    ",": "Write the items of a sequence side by side, without commas.",
    "/": "Comments begin with #. Instead of a regular expression, use classes, groups and repetitions.",
    "\ufeff": "Remove this byte order mark.",
}


def escape_patterns(hexadecimal: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of an escape and of an item of a class (a character or a range).

    `hexadecimal` matches the digits after ``\\x``.
    """
    escape = rf"\\(?:x{hexadecimal}|u[0-9A-Fa-f]{{4}}|U[0-9A-Fa-f]{{8}}|.)"
    return re.compile(escape, re.DOTALL), re.compile(rf"({escape}|[^\\])(?:-({escape}|[^\\]))?+", re.DOTALL)


class Token(NamedTuple):
    """A token of the source."""

    kind: Literal["leaf", "repeat", "open", "close", "rule", "end", "other"]
    text: str
    position: int
    end: int


_TOKEN_TYPES: dict[int, Literal["leaf", "repeat", "open", "close", "rule", "end", "other"]] = {
    _LEAF: "leaf", _NAME: "leaf", _REPEAT: "repeat", _OPEN: "open", _CLOSE: "close", _DEFINE: "rule",
    _OPTIONS: "rule", _END: "end",
}  # fmt: skip


class Reader(ABC):
    """Reads one grammar. Each notation is a subclass."""

    notation: ClassVar[str]
    tokens: ClassVar[re.Pattern[str]]
    escape: ClassVar[re.Pattern[str]]
    class_item: ClassVar[re.Pattern[str]]
    string_escapes: ClassVar[Mapping[str, int]]
    class_escapes: ClassVar[Mapping[str, int]]
    hints: ClassVar[Mapping[str, str]]
    """Hints for characters, escapes and names that have no meaning in this notation."""
    newline_ends_rule: ClassVar[bool]
    """Whether a newline ends a rule; otherwise the next ``name ::=`` does."""
    empty_alternatives: ClassVar[bool]
    repeats_twice: ClassVar[bool]
    """Whether a repetition may be repeated without a group around it."""
    minus_one: ClassVar[bool]
    """Whether ``{m,-1}``, as XGrammar prints it, means ``{m,}``."""
    newline_in_text: ClassVar[bool]
    reversed_ranges: ClassVar[bool] = False
    """Whether a reversed range contains no character; otherwise it is an error."""
    duplicates: ClassVar[str]
    """The hint for a second definition of a rule."""
    leaves: ClassVar[Mapping[str, Body]] = {}
    """Terminals with a fixed body."""
    macros: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: str, limits: NotationLimits = DEFAULT_LIMITS) -> None:
        if not isinstance(source, str):
            message = f"a grammar must be a str, not {a_kind(source)}"
            raise ConstraintError(message, hint="Read the file as UTF-8 text.")
        self.source = source
        self.limits = limits
        self._uses: dict[str, int] = {}
        """The offset of the first use of each name."""
        self._leaves = dict(self.leaves)
        self._bounds = dict(_SIMPLE_BOUNDS)

    @abstractmethod
    def special(self, raw: str, position: int) -> Body:
        """Return the body of a terminal that is neither a text nor a name."""

    def macro(self, name: str, position: int, end: int) -> tuple[Body, int]:
        """Read a call of one of `macros`; return its body and the offset after it."""
        raise LookupError(f"{name} is not a macro of this notation")

    @abstractmethod
    def empty_class(self, raw: str, position: int) -> RE:
        """Return the expression of ``[]`` or ``[^]``, or raise an error."""

    # The grammar.

    def read(self, start: str) -> Grammar:
        """Read the grammar, whose texts match the rule `start`."""
        if not isinstance(start, str):
            message = f"start must be the name of a rule (a str), not {a_kind(start)}"
            raise ConstraintError(message)
        if len(self.source) > self.limits.length:
            raise self.limit("length", f"the grammar has {len(self.source)} characters", 0)
        check_characters(self.source, self.fault)
        read = self._read_rules()
        self._check_names(read, start)
        rules = tuple(Rule(name, body, position) for name, (position, body) in read.items())
        return self.finished(Grammar(rules, start, source=self.source))

    def finished(self, grammar: Grammar) -> Grammar:
        """Return the grammar, completed with what depends on all rules."""
        return grammar

    def options(self, name: str, position: int) -> None:
        """Read the options of a rule, from the opening bracket on."""
        raise LookupError("rules have no options in this notation")

    def _read_rules(self) -> dict[str, tuple[int, Body]]:
        """Return the offset and the body of each rule."""
        source, leaves, bounds = self.source, self._leaves, self._bounds
        rules: dict[str, tuple[int, Body]] = {}
        name: str | None = None
        name_at = position = 0
        items: list[Body] = []  # of the current alternative
        alternatives: list[Body] = []  # of the current group, those already read
        groups: list[tuple[list[Body], list[Body], re.Match[str], int]] = []
        repeated = False
        height = tallest = 0  # of the last item, and of the tallest item in this group
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
                    body = self._choice(alternatives, items, match, alternatives)
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
                        rules[name] = (name_at, self._choice(alternatives, items, match))
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

    def _choice(
        self, alternatives: list[Body], items: list[Body], match: re.Match[str], before: Sized = "rule"
    ) -> Body:
        """Return the body of a group or rule that ends at `match`; `items` are its last alternative."""
        last = items[0] if len(items) == 1 else self._alternative(items, match, before)
        return bodies.choice([*alternatives, last]) if alternatives else last

    def _alternative(self, items: list[Body], match: re.Match[str], before: Sized = "rule") -> Body:
        """Return the body of no items, or of several. If there is nothing `before`, the whole group may be empty."""
        if items:
            return bodies.sequence(items)
        if before and not self.empty_alternatives:
            kind = match.lastindex or _STRAY
            following = {_BAR: "this |", _CLOSE: "this )", _END: "the end"}.get(kind, "the next rule")
            position = match.start(_NAME if kind in _DEFINITIONS else kind)
            hint = 'Write "" for the empty text.'
            raise self.fault(f"the alternative before {following} is empty", position, hint=hint)
        return bodies.EMPTY

    def _checked(self, height: int, match: re.Match[str]) -> int:
        if height > self.limits.depth:
            message = "groups and repetitions are nested too deep"
            raise self.limit("depth", message, match.start(match.lastindex or 0))
        return height

    def next_token(self, position: int) -> Token:
        """Return the next token after blanks."""
        match = self.tokens.match(self.source, position)
        assert match is not None  # the last two groups match any character and the end
        group = match.lastindex or _STRAY
        kind = _TOKEN_TYPES.get(group, "other")
        if kind == "rule":
            group = _NAME
        elif kind == "repeat" and match[_REPEAT] not in self._bounds:
            self._read_bounds(match)
        return Token(kind, match[group], match.start(group), match.end())

    # Leaves.

    def leaf(self, raw: str, position: int) -> Body:
        """Return the body of a text, a class, a name, or another terminal of the notation."""
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
        """Return the body of a reference to a rule, and record its first use."""
        self._uses.setdefault(name, position)
        return ("rule", name)

    def string(self, raw: str, position: int) -> str:
        """Return the text of a string literal with its quotes."""
        inner = raw[1:-1]
        if "\\" not in inner:
            return inner

        def replaced(match: re.Match[str]) -> str:
            start = position + 1 + match.start()
            point = self._character(match[0], start, self.string_escapes)
            if point in _SURROGATES:
                raise self._surrogate(match[0], start)
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
                    message = f"the range {_shown(match[0])} is reversed"
                    hint = "Swap its ends, or write \\- for a hyphen."
                    raise self.fault(message, place, len(match[0]), hint=hint)
            elif low in _SURROGATES:
                raise self._surrogate(match[1], place)
            ranges.append((low, high))
        normal = expressions.normalise_ranges(ranges)
        return expressions.character_class(expressions.negate_ranges(normal) if negative else normal)

    def _check_closed(self, raw: str, position: int) -> None:
        """Raise an error if a class contains the start of a rule, which means that it was not closed."""
        swallowed = _NEXT_RULE.search(raw)
        if swallowed is not None:
            line = position_at(self.source, position + swallowed.start(1)).line
            message = f"this class is not closed before the rule {_shown(swallowed[1])} in line {line}"
            hint = "Add the ] that closes it. A newline that is meant is written as \\n."
            raise self.fault(message, position, hint=hint)

    def _character(self, raw: str, position: int, escapes: Mapping[str, int]) -> int:
        """Return the code point of a character or an escape."""
        if len(raw) == 1:
            return ord(raw)
        if len(raw) == 2:
            point = escapes.get(raw[1])
            if point is None:
                raise self._no_escape(raw, position, escapes)
            return point
        digits = raw[2:].lstrip("0")
        if len(digits) > 6 or int(digits or "0", 16) > 0x10FFFF:
            hint = "The largest code point is \\U0010FFFF."
            raise self.fault("no character has this number", position, len(raw), hint=hint)
        return int(digits or "0", 16)

    def _read_bounds(self, token: re.Match[str]) -> tuple[int, int | None]:
        raw, position = token[_REPEAT], token.start(_REPEAT)
        match = _BOUNDS.fullmatch(raw)
        if match is None or (match[3] == "-1" and not self.minus_one):
            hint = "The forms are {m}, {m,} and {m,n}. Write {0,n} for at most n times."
            raise self.fault("this is not a repetition", position, len(raw), hint=hint)
        low = self._count(match[1], position + match.start(1))
        high: int | None = low
        if match[2] is not None:
            unbounded = match[3] is None or match[3] == "-1"
            high = None if unbounded else self._count(match[3], position + match.start(3))
        if high is not None and low > high:
            message = f"repetition bounds are reversed: {{{low},{high}}}"
            raise self.fault(message, position, len(raw), hint=f"Write {{{high},{low}}}.")
        self._bounds[raw] = (low, high)
        return low, high

    def _count(self, digits: str, position: int) -> int:
        # subtle: the length is checked first, since converting a million digits to a number is slow.
        short = digits.lstrip("0")
        if len(short) > 18 or int(short or "0") > self.limits.count:
            raise self.limit("count", f"the count {_shown(digits)} is too large", position)
        return int(short or "0")

    # Checks.

    def _check_new(self, name: str, position: int, rules: Mapping[str, tuple[int, Body]]) -> None:
        """Raise an error if a rule of this name may not begin here."""
        if name in rules:
            first = position_at(self.source, rules[name][0]).line
            message = f"the rule {_shown(name)} is already defined in line {first}"
            raise self.fault(message, position, len(name), hint=self.duplicates)
        if self.newline_ends_rule:
            return  # the rule follows a newline
        before = position
        while before and self.source[before - 1] in " \t":
            before -= 1
        if before and self.source[before - 1] not in "\r\n":
            message = f"the rule {_shown(name)} is not at the start of a line"
            raise self.fault(message, position, len(name), hint="Put each rule on a line of its own.")

    def _check_names(self, rules: Mapping[str, object], start: str) -> None:
        for name, position in self._uses.items():
            if name not in rules:
                hint = _nearest(name, rules) or f'Define it, or quote it if it is a text: "{_shown(name)}".'
                message = f"there is no rule {_shown(name)}"
                raise self.fault(message, position, len(name), hint=self.hints.get(name, hint))
        if start not in rules:
            hint = _nearest(start, rules) or "Define it, or pass the name of another rule as start."
            message = f"there is no rule {_shown(start)} to start from"
            raise GrammarSyntaxError(message, source=self.source, hint=hint)

    # Faults.

    def fault(self, message: str, position: int, length: int = 1, *, hint: str) -> GrammarSyntaxError:
        """Return the error for a syntax error at `position`, which spans `length` characters."""
        return GrammarSyntaxError(message, hint=hint, **self._at(position, length))

    def unsupported(self, message: str, position: int, length: int, *, hint: str) -> GrammarUnsupported:
        """Return the error for valid notation that structgen does not support."""
        return GrammarUnsupported(message, hint=hint, **self._at(position, length))

    def limit(self, name: str, message: str, position: int) -> LimitExceeded:
        """Return the error for exceeding the limit `name` of `GrammarLimits`."""
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
        """Return the error for a token where a rule must begin."""
        kind = match.lastindex or _STRAY
        position, shown = match.start(kind), match[kind]
        hint = _RULE_FORM
        if kind == _STRAY:
            hint = self.hints.get(shown) or _STRAYS.get(shown, hint)
        elif shown[0] == "<":
            hint = "Write the names of rules without angle brackets: name ::= ..."
        elif after_rule and kind != _NAME:
            hint = "A newline ended the previous rule. A rule continues on the next line only in ( ) and after |."
        return self.fault("a rule must begin here", position, len(shown), hint=hint)

    def _unfinished(self, name: str, match: re.Match[str], opened: int | None) -> GrammarSyntaxError:
        """Return the error for a rule or a source that ends too early."""
        following = match[_NAME] if match.lastindex in _DEFINITIONS else None
        end = "the end" if following is None else f"the rule {_shown(following)}"
        if opened is not None:
            return self.fault(f"this ( is not closed before {end}", opened, hint="Add the ) that closes it.")
        message = f"{end} begins before {_shown(name)} is complete"
        hint = 'Put each rule on a line of its own, and write "" for an empty alternative.'
        return self.fault(message, match.start(_NAME), len(match[_NAME]), hint=hint)

    def _stray(self, match: re.Match[str]) -> GrammarError:
        """Return the error for a character that has no meaning in a body."""
        kind = match.lastindex or _STRAY
        position, shown = match.start(kind), match[kind]
        newline = ", or an earlier one is not closed" if self.newline_in_text else ", and a newline as \\n"
        unclosed = {
            '"': ("string", f'Write a quote inside it as \\"{newline}.'),
            "[": ("class", f"Write a ] inside it as \\]{newline}."),
            "{": ("repetition", _quoted(shown)),
        }
        if shown in unclosed:
            what, hint = unclosed[shown]
            return self.fault(f"this {what} is not closed", position, hint=hint)
        if self.source.startswith("::=", position):
            return self.fault("the name of a rule is missing before this", position, 3, hint=_RULE_FORM)
        hint = self.hints.get(shown) or _STRAYS.get(shown) or _quoted(shown)
        return self.fault(f"{shown!r} has no meaning here", position, hint=hint)

    def _no_item(self, match: re.Match[str], repeated: bool) -> GrammarSyntaxError:
        shown, position = match[_REPEAT], match.start(_REPEAT)
        message, hint = f"{_shown(shown)} has nothing to repeat", _quoted(shown)
        if repeated:
            message = f"{_shown(shown)} follows another repetition"
            hint = "Put the first one into a group: (x*){2}."
        return self.fault(message, position, len(shown), hint=hint)

    def _no_escape(self, raw: str, position: int, escapes: Mapping[str, int]) -> GrammarSyntaxError:
        known = " ".join("\\" + letter for letter in escapes)
        hint = self.hints.get(raw) or f"{self.notation} has the escapes {known} \\x \\u \\U here."
        message = f"unknown escape {_shown(raw)}"
        if raw[1] in _HEX_DIGITS:
            message, hint = f"{raw} needs hexadecimal digits", f"Write {_HEX_DIGITS[raw[1]]} digits."
        return self.fault(message, position, len(raw), hint=hint)

    def _surrogate(self, raw: str, position: int) -> GrammarSyntaxError:
        message = f"{raw} is half of a surrogate pair, not a character"
        hint = "Write the character itself, or \\U and the eight digits of its code point."
        return self.fault(message, position, len(raw), hint=hint)


def _shown(text: str) -> str:
    """Return a name or a number as messages show it, shortened if long."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def _quoted(shown: str) -> str:
    return "If it is a text, quote it" + (f': "{_shown(shown)}".' if shown.isprintable() else ".")


def _nearest(name: str, names: Iterable[str]) -> str | None:
    """Return a hint at the most similar name. At most 5,000 names of up to 100 characters are compared."""
    if len(name) > 100:
        return None
    candidates = [other for _, other in zip(range(5000), names, strict=False) if len(other) <= 100]
    nearest = difflib.get_close_matches(name, candidates, 1)
    return f"Did you mean {nearest[0]}?" if nearest else None
