"""Turn lark's terminals into the scanners and terminals of an `ir.grammar.Lexer`.

Why: lark's lexer (`lark.lexer.BasicLexer`) defines what a pattern matches, which terminal is tried first, and which
pattern finds a keyword. This module expresses these rules as languages.

Rule "ordered" is that of lark's basic lexer. Terminals are tried by priority, longest possible text, length of the
pattern, name. The first that matches wins, with the match that `re` prefers. A text that a pattern of the same priority
matches as a whole is a keyword: it is not tried on its own, but is its own terminal if the pattern finds it. A keyword
of several patterns is several terminals here: ``IF``, ``IF@NAME``. As in lark, ignored terminals never reach the rules.

Rule "longest" does not exist in lark. Terminals are ordered by priority, then texts before patterns, then by the
longest text, the length of the pattern and the name. A pattern without lazy quantifiers is its language; with them, it
is what `re` prefers. A terminal that matches the empty text, which lark refuses, is optional in rules. One that matches
no other text is dropped.

Invariant: the result is exact, or the terminal is refused with its position.
Cost: a few milliseconds for each pattern, cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from operator import itemgetter
from typing import NoReturn

from lark.common import LexerConf
from lark.lexer import BasicLexer, PatternStr, TerminalDef
from lark.utils import get_regexp_width

from structgen.constraints.expressions import (
    ANY,
    EPSILON,
    RE,
    TEXT,
    alternate,
    complement,
    concat,
    intersect,
    literal,
    repeat,
    scope,
)
from structgen.constraints.regex.looks import remove_looks
from structgen.constraints.regex.parser import NO_FLAGS
from structgen.constraints.regex.python import PythonParser
from structgen.errors import LimitExceeded, RegexError, RegexSyntaxError, RegexUnsupported, StructgenError
from structgen.ir.grammar import Body, Ending, Keyword, Terminal

from ..bodies import EMPTY, choice_of
from .keywords import keywords_of
from .lark_loader import Loaded
from .lookahead import Entry, Follow, Scanner, followed_as_allowed, guard_longest, guard_ordered
from .pattern_program import GreedyParser
from .preferred_match import Preference, preference, shortest
from .rewritten import MARK, Rewritten
from .rule_bodies import optional
from .terminal_languages import Languages

__all__ = ["Lexemes", "lexemes_longest", "lexemes_ordered", "widest_text"]

_ENDLESS: int = get_regexp_width("a*")[1]
_MOST_STEPS = 1_500_000
"""Like `threads.STEPS`, for all terminals of a grammar together; one or two seconds."""


@dataclass
class Lexemes:
    """The terminals of a grammar, for its lexer and its rules."""

    terminals: list[Terminal] = field(default_factory=list)
    scanners: list[RE] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    bodies: dict[str, Body] = field(default_factory=dict)
    """The body in rules of each of lark's terminals."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """The terminals that each of lark's terminals became."""
    keywords: tuple[Keyword, ...] = ()
    endings: dict[str, Ending] = field(default_factory=dict)
    """The endings of rules with a stop or suffix."""


@dataclass
class _TerminalLanguages:
    """The terminals of one grammar, and the languages of their patterns."""

    loaded: Loaded
    rewritten: Rewritten
    languages: Languages = field(default_factory=Languages)
    stand_ins: dict[int, RE | None] = field(default_factory=dict)
    steps: int = 0
    """The steps taken so far to determine which matches `re` prefers."""
    counted_patterns: set[str] = field(default_factory=set)

    def ordered(self) -> list[TerminalDef]:
        """Return the terminals in the order of lark's lexer, lazy ones first."""
        for terminal in self.loaded.terminals:
            if isinstance(terminal.pattern, PatternStr):
                continue
            self._check(terminal)
            if MARK.search(terminal.pattern.value):
                widths = _width(self._marked(terminal))
                terminal.pattern._width = widths  # type: ignore[attr-defined]  # lark would take the mark for an empty pattern
        conf = LexerConf(self.loaded.terminals, re, self.loaded.ignore, skip_validation=True)
        return sorted(BasicLexer(conf).terminals, key=lambda terminal: not self.is_lazy(terminal))

    def preferred(self, terminal: TerminalDef) -> Preference:
        """Return which matches of a terminal `re` prefers."""
        if isinstance(terminal.pattern, PatternStr) or MARK.search(terminal.pattern.value):
            language = self._language(terminal)
            return Preference("longest", language, language, False)
        try:
            return self._preference(terminal.pattern.to_regexp())
        except (RegexError, LimitExceeded) as error:
            raise self.refusal(terminal, error) from None

    def _preference(self, pattern: str) -> Preference:
        """Return the preference of a pattern. Raise `LimitExceeded` if all patterns together take too long."""
        preferred = preference(pattern)
        if pattern not in self.counted_patterns:
            self.counted_patterns.add(pattern)
            self.steps += preferred.steps
        if self.steps > _MOST_STEPS:
            raise LimitExceeded(
                "determining which matches re prefers, of this terminal and those before it, takes too long",
                limit="preference_steps",
                hint="Use smaller counts, fewer alternatives that begin alike, or fewer terminals.",
            )
        return preferred

    def any_match(self, terminal: TerminalDef) -> Preference:
        """Return the language of a pattern without lazy quantifiers, and the preference of `re` for others."""
        if _is_text(terminal):
            language = literal(terminal.pattern.value)
            return Preference("longest", language, language, False)
        if isinstance(terminal.pattern, PatternStr) or MARK.search(terminal.pattern.value):
            language = self._language(terminal)
            return Preference("longest", language, language, False)
        pattern = terminal.pattern.to_regexp()
        parser = GreedyParser(pattern, NO_FLAGS)
        try:
            language = parser.parse()
        except (RegexError, LimitExceeded) as error:
            self._check(terminal)
            raise self.refusal(terminal, error) from None
        if "(?" in pattern:  # without it, Python accepts all that is accepted here
            self._check(terminal)
        if not parser.lazy and not parser.has_looks:
            return Preference("longest", language, language, False)
        preferred = self.preferred(terminal)
        if preferred.lazy:
            return preferred
        if preferred.kind != "longest" and preferred.conditions:
            self.refuse(terminal.name, "the order of its alternatives matters as well")
        return Preference("longest", preferred.matches, preferred.matches, False, preferred.conditions)

    def is_lazy(self, terminal: TerminalDef) -> bool:
        """Return whether a lexeme of the terminal ends where it first matches."""
        mark = MARK.fullmatch(terminal.pattern.value)
        if mark is None:
            return False
        stand_in = self.rewritten.stand_ins[int(mark[1])]
        if stand_in[0] != "bounded":
            return bool(stand_in[0] == "lazy")
        inner = self.loaded.all_terminals[stand_in[1]]
        return self.is_lazy(inner)

    # -- languages

    def _language(self, terminal: TerminalDef) -> RE:
        if MARK.search(terminal.pattern.value):
            return self._marked(terminal)
        try:
            parser = PythonParser(terminal.pattern.to_regexp(), NO_FLAGS)
            expression = parser.parse()
            if parser.has_looks and self._preference(terminal.pattern.to_regexp()).conditions:
                self.refuse(terminal.name, "it is part of another terminal")
            return scope(remove_looks(expression, EPSILON, parser.has_looks))
        except (RegexError, LimitExceeded) as error:
            raise self.refusal(terminal, error) from None

    def _marked(self, terminal: TerminalDef) -> RE:
        """Return the language of a pattern that contains marks."""
        try:
            parser = _MarkedParser(terminal.pattern.to_regexp(), NO_FLAGS)
            parser.languages_of = self
            expression = parser.parse()
            if parser.has_looks:
                raise RegexUnsupported(
                    "conditions cannot be combined with &, ~, %regex and lazy",
                    pattern=terminal.pattern.value,
                    hint="Move the part with conditions into a terminal of its own.",
                )
            return remove_looks(expression, EPSILON, False)
        except (RegexError, LimitExceeded) as error:
            raise self.refusal(terminal, error) from None

    def stand_in(self, number: int) -> RE:
        """Return the language that a mark stands for."""
        if number in self.stand_ins:
            known = self.stand_ins[number]
            if known is None:
                raise RegexSyntaxError(
                    "the terminal is defined by itself",
                    hint="Terminals must be regular: use a rule, or '*' and '+'.",
                )
            return known
        self.stand_ins[number] = None
        kind, content, *bound = self.rewritten.stand_ins[number]
        result: RE
        if kind == "language":
            result = content
        elif kind == "and":
            result = intersect([self._named(name) for name in content])
        elif kind == "not":
            result = complement(self._named(content))
        elif kind == "bounded":
            result = self._cut(self._named(content), *bound)
        else:
            result = shortest(self._named(content))
        self.stand_ins[number] = result
        return result

    def _cut(self, language: RE, most: int, cut: tuple[str, str] | None) -> RE:
        """Return the texts of at most `most` characters. A text before an ending may be cut there."""
        within = intersect([language, repeat(ANY, 0, most)])
        if cut is None:
            return within
        before, whole = map(self._named, cut)
        open_yet = complement(concat([whole, TEXT]))
        return alternate([within, intersect([before, repeat(ANY, most, most), open_yet])])

    def endings(self) -> dict[str, Ending]:
        """Return the endings of rules that have one."""
        return {
            rule: Ending(self._named(before), self._named(end), capture, is_stop)
            for rule, (before, end, capture, is_stop) in self.rewritten.endings.items()
        }

    def _named(self, name: str) -> RE:
        terminal = self.loaded.all_terminals[name]
        self._check(terminal)
        return self._language(terminal)

    def _check(self, terminal: TerminalDef) -> None:
        """Raise an error if Python cannot compile the pattern, on its own and inside others."""
        pattern = terminal.pattern.to_regexp()
        try:
            if "(?" in pattern:  # look-around, or flags, which must come first
                re.compile(pattern)
                re.compile(f"(?:{pattern})")
            else:
                re._parser.parse(pattern)
        except (re.error, OverflowError) as error:
            hint = "Patterns use the syntax of Python's re, with flags after the last slash: /.../imsx."
            why = getattr(error, "msg", str(error))
            message = f"Python cannot compile the pattern of {self._called(terminal)}: {why}"
            raise self.rewritten.source.error(message, *self._span(terminal), hint) from None

    # -- positions and errors

    def offset(self, terminal: TerminalDef) -> int | None:
        """Return the offset of the terminal's definition, or of its first use as a text."""
        source = self.rewritten.source
        known = self.rewritten.helpers.get(terminal.name)
        if known is None:
            known = source.definition(self.rewritten.written(terminal.name))
        if known is not None:
            return known
        return None if terminal.pattern.raw is None else source.written(terminal.pattern.raw)

    def _span(self, terminal: TerminalDef) -> tuple[int | None, int]:
        offset = self.offset(terminal)
        if offset is None:
            return None, 1
        piece = next(other for other in self.rewritten.source.pieces if other.offset == offset)
        return offset, len(piece.text.split("\n")[0])

    def _called(self, terminal: TerminalDef) -> str:
        """Return how messages refer to the terminal."""
        if terminal.name in self.rewritten.helpers or terminal.name.startswith("__"):
            return "this terminal"
        return f"the terminal {terminal.name}"

    def refusal(self, terminal: TerminalDef, error: RegexError | LimitExceeded) -> StructgenError:
        """Return the error of a pattern as an error of the grammar."""
        source = self.rewritten.source
        if isinstance(error, LimitExceeded):
            error.where = error.where or self._called(terminal)
            return error
        make = source.error if isinstance(error, RegexSyntaxError) else source.unsupported
        message = f"{self._called(terminal)} cannot be matched: {error.message}"
        return make(message, *self._span(terminal), error.hint)

    def refuse(self, name: str, reason: str) -> NoReturn:
        """Raise the error for a look-ahead that cannot be decided."""
        terminal = self.loaded.all_terminals[name]
        hint = "Remove the look-ahead and state in the rules what may follow, or use lexer='longest'."
        message = f"{self._called(terminal)} depends on the text after it: {reason}"
        raise self.rewritten.source.unsupported(message, *self._span(terminal), hint)

    def refuse_empty(self, terminal: TerminalDef, hint: str) -> NoReturn:
        """Raise the error for a terminal that matches the empty text."""
        message = f"{self._called(terminal)} matches the empty text"
        raise self.rewritten.source.error(message, *self._span(terminal), hint)

    def scanner(self, terminal: TerminalDef, preference: Preference, entries: tuple[Entry, ...]) -> Scanner:
        """Return the scanner of a terminal."""
        if preference.conditions and preference.kind == "other":
            self.refuse(terminal.name, "the order of its alternatives matters as well")
        matches = preference.matches if preference.kind != "longest" else None
        return Scanner(
            terminal.name, preference.language, entries, preference.conditions, matches, terminal.name
        )


class _MarkedParser(PythonParser):
    """Reads a pattern, and each mark as the language that it stands for."""

    languages_of: _TerminalLanguages

    def extension(self, position: int) -> None:
        mark = MARK.match(self.pattern, position)
        if mark is None:
            super().extension(position)
        else:
            self.add(self.languages_of.stand_in(int(mark[1])), len(mark[0]))


FollowingTerminals = Callable[[Iterable[str]], frozenset[str] | None]
"""Returns the terminals that may follow any of the given ones; None if any text may."""


def lexemes_ordered(
    loaded: Loaded, rewritten: Rewritten, after: FollowingTerminals, contextual: bool
) -> Lexemes:
    """Return the terminals by the rule of lark's basic lexer, or of its contextual one.

    Args:
        loaded: The grammar.
        rewritten: Its text, and the meanings of marks.
        after: Returns the terminals that may follow others.
        contextual: Whether only terminals compete that the grammar allows at the position.
    """
    languages_of = _TerminalLanguages(loaded, rewritten)
    order = languages_of.ordered()
    for terminal in order:
        if terminal.pattern.min_width == 0:
            languages_of.refuse_empty(
                terminal, "Use + instead of *, and write '?' after the terminal in the rule."
            )
    preferences = {terminal.name: languages_of.preferred(terminal) for terminal in order}
    texts = [terminal for terminal in order if isinstance(terminal.pattern, PatternStr)]
    embedded: set[str] = set()
    # Keywords, and the patterns that replace their own scanners.
    replaced: set[tuple[str, str]] = set()
    scanners = []
    for index, terminal in enumerate(order):
        is_pattern = terminal not in texts and not languages_of.is_lazy(terminal)
        inner = _keywords_in(terminal, texts, preferences, languages_of.languages) if is_pattern else []
        for text in inner:
            if set(text.pattern.flags) <= set(terminal.pattern.flags):
                embedded.add(text.name)
                replaced.add((text.name, terminal.name))
            elif index < order.index(text) and _hides(
                preferences[terminal.name], preferences[text.name], languages_of.languages
            ):
                embedded.add(text.name)
        ignored = terminal.name in loaded.ignore
        language = preferences[terminal.name].language
        entries = [Entry(text.name, preferences[text.name].language) for text in inner if not ignored]
        if contextual and not ignored:
            # subtle: ignored text may come everywhere, so the pattern always finds it as a keyword. Lark then passes
            # it on to the rules instead of ignoring it.
            everywhere = [preferences[text.name].language for text in inner if text.name in loaded.ignore]
            language = intersect([language, *map(complement, everywhere)])
        entries.append(Entry(terminal.name, language, ignored))
        scanners.append(languages_of.scanner(terminal, preferences[terminal.name], tuple(entries)))
    if not contextual:
        scanners = [scanner for scanner in scanners if scanner.name not in embedded]
    scanners = guard_ordered(
        scanners,
        languages_of.languages,
        _languages_after(after, preferences),
        contextual,
        languages_of.refuse,
    )
    result = Lexemes(scanners=[scanner.language for scanner in scanners])
    _name(result, scanners, languages_of)
    if contextual:
        result.keywords = keywords_of(scanners, result.terminals, result.ignore, replaced)
    result.endings = languages_of.endings()
    return result


def _keywords_in(
    pattern: TerminalDef,
    texts: list[TerminalDef],
    preferences: Mapping[str, Preference],
    languages: Languages,
) -> list[TerminalDef]:
    """Return the texts that a pattern of the same priority matches as a whole."""
    language = preferences[pattern.name].language
    same = (text for text in texts if text.priority == pattern.priority)
    return [text for text in same if languages.holds(language, text.pattern.value)]


def _hides(first: Preference, later: Preference, languages: Languages) -> bool:
    """Return whether the first pattern matches wherever the later one does, so that the later one is never tried."""
    return not first.conditions and languages.includes(concat([first.language, TEXT]), later.language)


def _languages_after(after: FollowingTerminals, preferences: Mapping[str, Preference]) -> Follow:
    @cache
    def texts(name: str) -> RE:
        preference = preferences[name]
        return (
            followed_as_allowed(preference.matches, preference.conditions)
            if preference.conditions
            else preference.matches
        )

    def follow(names: Iterable[str]) -> list[RE] | None:
        following = after(names)
        return (
            None if following is None else [texts(name) for name in sorted(following) if name in preferences]
        )

    return follow


def _name(result: Lexemes, scanners: list[Scanner], languages_of: _TerminalLanguages) -> None:
    """Create a terminal for each entry of each scanner. Rules cannot use those that lark drops."""
    result.bodies = {terminal.name: ("choice", ()) for terminal in languages_of.loaded.terminals}
    taken: set[str] = set()
    own = {entry.name for scanner in scanners for entry in scanner.entries if entry.name == scanner.name}
    for number, scanner in enumerate(scanners):
        for entry in scanner.entries:
            name = entry.name
            if name in taken or (name in own and name != scanner.name):
                name = f"{entry.name}@{scanner.name}"
            while name in taken:
                name += "'"
            taken.add(name)
            offset = languages_of.offset(languages_of.loaded.all_terminals[entry.name])
            lazy = languages_of.is_lazy(languages_of.loaded.all_terminals[entry.name])
            result.terminals.append(Terminal(name, entry.language, number, offset, lazy))
            if entry.ignored:
                result.ignore.append(name)
            else:
                result.bodies[entry.name] = choice_of([result.bodies[entry.name], ("terminal", name)])
                result.names.setdefault(entry.name, []).append(name)


def lexemes_longest(
    loaded: Loaded, rewritten: Rewritten, after: FollowingTerminals, contextual: bool
) -> Lexemes:
    """Return the terminals by rule "longest".

    Args:
        loaded: The grammar.
        rewritten: Its text, and the meanings of marks.
        after: Returns the terminals that may follow others.
        contextual: Whether only terminals compete that the grammar allows at the position.
    """
    languages_of = _TerminalLanguages(loaded, rewritten)
    preferences: dict[str, Preference] = {}
    ranked = []
    for terminal in loaded.terminals:
        pattern, name = terminal.pattern, terminal.name
        text = _is_text(terminal)
        if not text:
            preferences[name] = languages_of.any_match(terminal)
        widest = len(pattern.value) if text else widest_text(preferences[name].matches)
        ranked.append(
            ((-terminal.priority, pattern.type != "str", -widest, -len(pattern.value), name), terminal)
        )
    ranked.sort(key=itemgetter(0))
    order = [terminal for _, terminal in ranked]
    result = Lexemes()
    nothing: set[str] = set()
    """Terminals that match only the empty text, such as a lazy quantifier at the end of a pattern."""
    for terminal in order:
        name = terminal.name
        result.bodies[name] = ("terminal", name)
        result.names[name] = [name]
        if name not in preferences:
            language = literal(terminal.pattern.value)
        else:
            language = preferences[name].language
            if languages_of.languages.holds(language, ""):
                language = intersect([language, concat([ANY, TEXT])])
                if not languages_of.languages.meet(language, TEXT):
                    nothing.add(name)
                    result.bodies[name] = EMPTY
                    result.names[name] = []
                    continue
                result.bodies[name] = optional(("terminal", name))
        lazy = languages_of.is_lazy(terminal)
        result.terminals.append(Terminal(name, language, 0, languages_of.offset(terminal), lazy))
    result.ignore = [name for name in loaded.ignore if name not in nothing]
    order = [terminal for terminal in order if terminal.name not in nothing]
    if any(preference.conditions for preference in preferences.values()):
        preferences = {
            terminal.name: preferences.get(terminal.name) or languages_of.any_match(terminal)
            for terminal in order
        }
        scanners = [
            languages_of.scanner(
                original,
                replace(preferences[original.name], language=terminal.language),
                (Entry(original.name, terminal.language),),
            )
            for original, terminal in zip(order, result.terminals, strict=True)
        ]
        follow = _languages_after(after, preferences)
        wrong = guard_longest(scanners, languages_of.languages, follow, contextual, languages_of.refuse)
        result.terminals += [Terminal(terminal.name, terminal.language) for terminal in wrong]
    result.endings = languages_of.endings()
    return result


def _is_text(terminal: TerminalDef) -> bool:
    """Return whether a terminal is a single, case-sensitive text."""
    return terminal.pattern.type == "str" and not terminal.pattern.flags


def widest_text(expression: RE) -> int:
    """Return the most characters of a text, as lark counts them for patterns."""
    return _width(expression)[1]


def _width(expression: RE) -> tuple[int, int]:
    """Return the fewest and the most characters of a text, as lark counts them for patterns."""
    kind = expression[0]
    if kind == "literal":
        return len(expression[1]), len(expression[1])
    if kind == "literals":
        lengths = [len(text) for text in expression[1]]
        return min(lengths), max(lengths)
    if kind == "substring":
        lengths = [len(piece) for piece in expression[1]]
        return 0 if expression[2] else min(lengths), min(sum(lengths), _ENDLESS)
    if kind in ("class", "any"):
        return 1, 1
    if kind in ("look", "boundary", "empty"):
        return 0, 0
    if kind == "scope":
        return _width(expression[1])
    if kind == "repeat":
        low, high = _width(expression[1])
        most = _ENDLESS if expression[3] is None and high else high * (expression[3] or 0)
        return min(low * expression[2], _ENDLESS), min(most, _ENDLESS)
    if kind in ("concat", "alternate", "intersect"):
        widths = [_width(part) for part in expression[1]]
        lows, highs = [low for low, _ in widths], [high for _, high in widths]
        if kind == "concat":
            return min(sum(lows), _ENDLESS), min(sum(highs), _ENDLESS)
        return (min(lows), max(highs)) if kind == "alternate" else (max(lows), min(highs))
    return 0, _ENDLESS
