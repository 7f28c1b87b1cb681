"""Lark's terminals as the scanners and terminals of `ir.Lexer`.

Why: what a terminal's pattern matches, which of the terminals is tried first, and which pattern finds a keyword, are
rules of lark's lexer (`lark.lexer.BasicLexer`); this module turns them into languages.

Rule "ordered" is that of lark's basic lexer. Terminals are tried by priority, longest possible text, length of the
pattern, name; the first that matches wins, with the match that `re` prefers. A text that a pattern of the same
priority takes as a whole is not tried on its own: what the pattern finds is that text's terminal if it is that text.
A terminal that several patterns find is several terminals here: ``IF``, ``IF@NAME``. What lark ignores never reaches
its rules, so neither does it here.

Rule "longest" has no model in lark. Terminals are ordered by priority, then texts before patterns, then by the longest
text, the length of the pattern and the name; a pattern without lazy quantifiers is its language, one with them is what
`re` prefers. A terminal that matches the empty text, which lark refuses, may be left out where it stands; one that
matches no other text is left out.

Invariant: exact, or refused with the terminal's place.
Cost: a few milliseconds for each pattern, remembered.
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
from structgen.constraints.regex.looks import close
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
_STEPS = 1_500_000
"""As `threads.STEPS`, for all terminals of a grammar together; a second or two."""


@dataclass
class Lexemes:
    """What rules and the lexer need to know of the terminals."""

    terminals: list[Terminal] = field(default_factory=list)
    scanners: list[RE] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    bodies: dict[str, Body] = field(default_factory=dict)
    """What stands in a rule for a terminal of lark."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """The terminals here that are one of lark's."""
    keywords: tuple[Keyword, ...] = ()
    endings: dict[str, Ending] = field(default_factory=dict)
    """Of rules with a stop or suffix."""


@dataclass
class _Kinds:
    """The terminals of one grammar, and what their patterns match."""

    loaded: Loaded
    rewritten: Rewritten
    languages: Languages = field(default_factory=Languages)
    stand_ins: dict[int, RE | None] = field(default_factory=dict)
    steps: int = 0
    """Taken to find out what `re` prefers of the patterns `asked` about so far."""
    asked: set[str] = field(default_factory=set)

    def ordered(self) -> list[TerminalDef]:
        """In the order of lark's lexer, lazy ones first."""
        for terminal in self.loaded.terminals:
            if isinstance(terminal.pattern, PatternStr):
                continue
            self._check(terminal)
            if MARK.search(terminal.pattern.value):
                widths = _width(self._marked(terminal))
                terminal.pattern._width = widths  # type: ignore[attr-defined]  # lark would take the mark for nothing
        conf = LexerConf(self.loaded.terminals, re, self.loaded.ignore, skip_validation=True)
        return sorted(BasicLexer(conf).terminals, key=lambda terminal: not self.is_lazy(terminal))

    def preferred(self, terminal: TerminalDef) -> Preference:
        """What `re` takes."""
        if isinstance(terminal.pattern, PatternStr) or MARK.search(terminal.pattern.value):
            language = self._language(terminal)
            return Preference("longest", language, language, False)
        try:
            return self._preference(terminal.pattern.to_regexp())
        except (RegexError, LimitExceeded) as error:
            raise self.refusal(terminal, error) from None

    def _preference(self, pattern: str) -> Preference:
        """Raises `RegexError` or `LimitExceeded`, also where all patterns together take too long."""
        found = preference(pattern)
        if pattern not in self.asked:
            self.asked.add(pattern)
            self.steps += found.steps
        if self.steps > _STEPS:
            raise LimitExceeded(
                "it takes too long to find out which matches re prefers of this terminal and those before it",
                limit="preference_steps",
                hint="Use smaller counts, fewer alternatives that begin alike, or fewer terminals.",
            )
        return found

    def any_match(self, terminal: TerminalDef) -> Preference:
        """The language of a pattern that has no lazy quantifiers, and what `re` takes otherwise."""
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
        if "(?" in pattern:  # of all else that is read here Python can read more
            self._check(terminal)
        if not parser.lazy and not parser.has_looks:
            return Preference("longest", language, language, False)
        found = self.preferred(terminal)
        if found.lazy:
            return found
        if found.kind != "longest" and found.conditions:
            self.refuse(terminal.name, "the order of its alternatives matters as well")
        return Preference("longest", found.matches, found.matches, False, found.conditions)

    def is_lazy(self, terminal: TerminalDef) -> bool:
        """Does a lexeme of it end where it first matches?"""
        mark = MARK.fullmatch(terminal.pattern.value)
        if mark is None:
            return False
        made = self.rewritten.stand_ins[int(mark[1])]
        if made[0] != "bounded":
            return bool(made[0] == "lazy")
        inner = self.loaded.all_terminals[made[1]]
        return self.is_lazy(inner)

    # -- languages

    def _language(self, terminal: TerminalDef) -> RE:
        if MARK.search(terminal.pattern.value):
            return self._marked(terminal)
        try:
            parser = PythonParser(terminal.pattern.to_regexp(), NO_FLAGS)
            expression = parser.parse()
            if parser.has_looks and self._preference(terminal.pattern.to_regexp()).conditions:
                self.refuse(terminal.name, "it is a part of another terminal")
            return scope(close(expression, EPSILON, parser.has_looks))
        except (RegexError, LimitExceeded) as error:
            raise self.refusal(terminal, error) from None

    def _marked(self, terminal: TerminalDef) -> RE:
        """Of a pattern with marks in it."""
        try:
            parser = _MarkedParser(terminal.pattern.to_regexp(), NO_FLAGS)
            parser.kinds = self
            expression = parser.parse()
            if parser.has_looks:
                raise RegexUnsupported(
                    "conditions do not join with &, ~, %regex and lazy",
                    pattern=terminal.pattern.value,
                    hint="Give the part that has them a terminal of its own.",
                )
            return close(expression, EPSILON, False)
        except (RegexError, LimitExceeded) as error:
            raise self.refusal(terminal, error) from None

    def stand_in(self, number: int) -> RE:
        """What a mark stands for."""
        if number in self.stand_ins:
            known = self.stand_ins[number]
            if known is None:
                raise RegexSyntaxError(
                    "the terminal is defined by itself",
                    hint="Terminals are regular: use a rule, or '*' and '+'.",
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
        """At most so many characters; a text before an ending may stop there without the ending."""
        within = intersect([language, repeat(ANY, 0, most)])
        if cut is None:
            return within
        before, whole = map(self._named, cut)
        open_yet = complement(concat([whole, TEXT]))
        return alternate([within, intersect([before, repeat(ANY, most, most), open_yet])])

    def endings(self) -> dict[str, Ending]:
        """The endings of rules that have one."""
        return {
            rule: Ending(self._named(before), self._named(end), capture, is_stop)
            for rule, (before, end, capture, is_stop) in self.rewritten.endings.items()
        }

    def _named(self, name: str) -> RE:
        terminal = self.loaded.all_terminals[name]
        self._check(terminal)
        return self._language(terminal)

    def _check(self, terminal: TerminalDef) -> None:
        """Python itself must be able to read the pattern, on its own and among others."""
        pattern = terminal.pattern.to_regexp()
        try:
            if "(?" in pattern:  # a look, or modes, which must stand first
                re.compile(pattern)
                re.compile(f"(?:{pattern})")
            else:
                re._parser.parse(pattern)
        except (re.error, OverflowError) as error:
            hint = "Patterns are those of Python's re; flags come after the last slash: /.../imsx."
            why = getattr(error, "msg", str(error))
            message = f"Python cannot read the pattern of {self._called(terminal)}: {why}"
            raise self.rewritten.source.error(message, *self._span(terminal), hint) from None

    # -- places and errors

    def offset(self, terminal: TerminalDef) -> int | None:
        """Where the terminal is defined, or first written."""
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
        piece = next(one for one in self.rewritten.source.pieces if one.offset == offset)
        return offset, len(piece.text.split("\n")[0])

    def _called(self, terminal: TerminalDef) -> str:
        """What the terminal is called in messages."""
        if terminal.name in self.rewritten.helpers or terminal.name.startswith("__"):
            return "this terminal"
        return f"the terminal {terminal.name}"

    def refusal(self, terminal: TerminalDef, error: RegexError | LimitExceeded) -> StructgenError:
        source = self.rewritten.source
        if isinstance(error, LimitExceeded):
            error.where = error.where or self._called(terminal)
            return error
        make = source.error if isinstance(error, RegexSyntaxError) else source.unsupported
        message = f"{self._called(terminal)} cannot be matched: {error.message}"
        return make(message, *self._span(terminal), error.hint)

    def refuse(self, name: str, reason: str) -> NoReturn:
        terminal = self.loaded.all_terminals[name]
        hint = "Leave the look-ahead out, and say in the rules what may follow; or use lexer='longest'."
        message = f"{self._called(terminal)} asks what follows it: {reason}"
        raise self.rewritten.source.unsupported(message, *self._span(terminal), hint)

    def refuse_empty(self, terminal: TerminalDef, hint: str) -> NoReturn:
        message = f"{self._called(terminal)} matches the empty text"
        raise self.rewritten.source.error(message, *self._span(terminal), hint)

    def scanner(self, terminal: TerminalDef, found: Preference, entries: tuple[Entry, ...]) -> Scanner:
        if found.conditions and found.kind == "other":
            self.refuse(terminal.name, "the order of its alternatives matters as well")
        matches = found.matches if found.kind != "longest" else None
        return Scanner(terminal.name, found.language, entries, found.conditions, matches, terminal.name)


class _MarkedParser(PythonParser):
    """Reads marks as what they stand for."""

    kinds: _Kinds

    def extension(self, position: int) -> None:
        mark = MARK.match(self.pattern, position)
        if mark is None:
            super().extension(position)
        else:
            self.add(self.kinds.stand_in(int(mark[1])), len(mark[0]))


After = Callable[[Iterable[str]], frozenset[str] | None]
"""The terminals that may stand behind any of these; None if anything may."""


def lexemes_ordered(loaded: Loaded, rewritten: Rewritten, after: After, contextual: bool) -> Lexemes:
    """By the rule of lark's basic lexer; of its contextual lexer, where the terminals that may come compete so."""
    kinds = _Kinds(loaded, rewritten)
    order = kinds.ordered()
    for terminal in order:
        if terminal.pattern.min_width == 0:
            kinds.refuse_empty(terminal, "Use + for *, and mark what may be left out by '?' in the rule.")
    found = {terminal.name: kinds.preferred(terminal) for terminal in order}
    texts = [terminal for terminal in order if isinstance(terminal.pattern, PatternStr)]
    embedded: set[str] = set()
    replaced: set[tuple[str, str]] = (
        set()
    )  # keywords, and patterns beside which their own scanners are not tried
    scanners = []
    for place, terminal in enumerate(order):
        is_pattern = terminal not in texts and not kinds.is_lazy(terminal)
        inner = _inside(terminal, texts, found, kinds.languages) if is_pattern else []
        for text in inner:
            if set(text.pattern.flags) <= set(terminal.pattern.flags):
                embedded.add(text.name)
                replaced.add((text.name, terminal.name))
            elif place < order.index(text) and _hides(
                found[terminal.name], found[text.name], kinds.languages
            ):
                embedded.add(text.name)
        ignored = terminal.name in loaded.ignore
        language = found[terminal.name].language
        entries = [Entry(text.name, found[text.name].language) for text in inner if not ignored]
        if contextual and not ignored:
            # subtle: a text to ignore may come everywhere, so the pattern always finds it as a keyword. Lark then
            # passes it on to the rules instead of ignoring it.
            everywhere = [found[text.name].language for text in inner if text.name in loaded.ignore]
            language = intersect([language, *map(complement, everywhere)])
        entries.append(Entry(terminal.name, language, ignored))
        scanners.append(kinds.scanner(terminal, found[terminal.name], tuple(entries)))
    if not contextual:
        scanners = [scanner for scanner in scanners if scanner.name not in embedded]
    scanners = guard_ordered(
        scanners, kinds.languages, _languages_after(after, found), contextual, kinds.refuse
    )
    result = Lexemes(scanners=[scanner.language for scanner in scanners])
    _name(result, scanners, kinds)
    if contextual:
        result.keywords = keywords_of(scanners, result.terminals, result.ignore, replaced)
    result.endings = kinds.endings()
    return result


def _inside(
    pattern: TerminalDef, texts: list[TerminalDef], found: Mapping[str, Preference], languages: Languages
) -> list[TerminalDef]:
    """The texts that a pattern of the same priority takes as a whole."""
    language = found[pattern.name].language
    same = (text for text in texts if text.priority == pattern.priority)
    return [text for text in same if languages.holds(language, text.pattern.value)]


def _hides(first: Preference, later: Preference, languages: Languages) -> bool:
    """Does the first pattern match wherever the later one does, so that it is never that one's turn?"""
    return not first.conditions and languages.includes(concat([first.language, TEXT]), later.language)


def _languages_after(after: After, found: Mapping[str, Preference]) -> Follow:
    @cache
    def texts(name: str) -> RE:
        one = found[name]
        return followed_as_allowed(one.matches, one.conditions) if one.conditions else one.matches

    def follow(names: Iterable[str]) -> list[RE] | None:
        following = after(names)
        return None if following is None else [texts(name) for name in sorted(following) if name in found]

    return follow


def _name(result: Lexemes, scanners: list[Scanner], kinds: _Kinds) -> None:
    """A terminal for each kind of lexeme of each scanner; one that lark drops is none that rules could name."""
    result.bodies = {terminal.name: ("choice", ()) for terminal in kinds.loaded.terminals}
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
            offset = kinds.offset(kinds.loaded.all_terminals[entry.name])
            lazy = kinds.is_lazy(kinds.loaded.all_terminals[entry.name])
            result.terminals.append(Terminal(name, entry.language, number, offset, lazy))
            if entry.ignored:
                result.ignore.append(name)
            else:
                result.bodies[entry.name] = choice_of([result.bodies[entry.name], ("terminal", name)])
                result.names.setdefault(entry.name, []).append(name)


def lexemes_longest(loaded: Loaded, rewritten: Rewritten, after: After, contextual: bool) -> Lexemes:
    """By length first."""
    kinds = _Kinds(loaded, rewritten)
    found: dict[str, Preference] = {}
    ranked = []
    for terminal in loaded.terminals:
        pattern, name = terminal.pattern, terminal.name
        text = _is_text(terminal)
        if not text:
            found[name] = kinds.any_match(terminal)
        widest = len(pattern.value) if text else widest_text(found[name].matches)
        ranked.append(
            ((-terminal.priority, pattern.type != "str", -widest, -len(pattern.value), name), terminal)
        )
    ranked.sort(key=itemgetter(0))
    order = [terminal for _, terminal in ranked]
    result = Lexemes()
    nothing: set[str] = set()
    """Those that match the empty text alone, as a lazy quantifier at the end of a rule does."""
    for terminal in order:
        name = terminal.name
        result.bodies[name] = ("terminal", name)
        result.names[name] = [name]
        if name not in found:
            language = literal(terminal.pattern.value)
        else:
            language = found[name].language
            if kinds.languages.holds(language, ""):
                language = intersect([language, concat([ANY, TEXT])])
                if not kinds.languages.meet(language, TEXT):
                    nothing.add(name)
                    result.bodies[name] = EMPTY
                    result.names[name] = []
                    continue
                result.bodies[name] = optional(("terminal", name))
        lazy = kinds.is_lazy(terminal)
        result.terminals.append(Terminal(name, language, 0, kinds.offset(terminal), lazy))
    result.ignore = [name for name in loaded.ignore if name not in nothing]
    order = [terminal for terminal in order if terminal.name not in nothing]
    if any(one.conditions for one in found.values()):
        found = {one.name: found.get(one.name) or kinds.any_match(one) for one in order}
        scanners = [
            kinds.scanner(
                one, replace(found[one.name], language=made.language), (Entry(one.name, made.language),)
            )
            for one, made in zip(order, result.terminals, strict=True)
        ]
        follow = _languages_after(after, found)
        wrong = guard_longest(scanners, kinds.languages, follow, contextual, kinds.refuse)
        result.terminals += [Terminal(one.name, one.language) for one in wrong]
    result.endings = kinds.endings()
    return result


def _is_text(terminal: TerminalDef) -> bool:
    """Is it one text, in the case in which it is written?"""
    return terminal.pattern.type == "str" and not terminal.pattern.flags


def widest_text(expression: RE) -> int:
    """The most characters of a text, as lark counts them for patterns."""
    return _width(expression)[1]


def _width(expression: RE) -> tuple[int, int]:
    """The fewest and the most characters of a text, as lark counts them for patterns."""
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
