"""What is odd about a grammar, before anything is generated with it.

Why: a grammar is a program whose mistakes are silent: a rule that nothing uses, a terminal whose texts another one
takes, a rule that can never end. Each is found here and told with its place.
Invariant: a finding is a fact. Languages are compared by the core's own regular expressions, and a text that is shown
as an example is in both; what there was no time to compare is counted in `GrammarReport.skipped`.
Cost: linear in the rules; pairs of terminals within `seconds`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from structgen._core import _native as _core
from structgen.constraints.expressions import ANY, literal
from structgen.ir.grammar import Body, Grammar, Lexer, Position, Terminal, position_at, subbodies

from .constraint import GrammarConstraint
from .lowering import text_of
from .regular import Regular

__all__ = ["Finding", "GrammarReport", "check_grammar"]

_MOST_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about the grammar; `place` is where it is written, if that is known."""

    kind: Literal["unused", "endless", "never", "overlap", "shadow"]
    subject: str
    message: str
    place: Position | None = None
    example: str | None = None
    """A text that another terminal has, too."""

    @property
    def is_warning(self) -> bool:
        """Most likely a mistake; not so the keywords that a pattern of names matches, too."""
        return self.kind != "shadow"


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """What was found, in the order of the source."""

    rules: int
    terminals: int
    findings: tuple[Finding, ...]
    regular: tuple[str, ...]
    """Rules that are known to be regular (over terminals, where there is a lexer)."""
    skipped: int
    """Pairs of terminals that were not compared, for lack of time."""


def check_grammar(
    constraint: GrammarConstraint, *, starts: Iterable[str] = (), seconds: float = 5.0
) -> GrammarReport:
    """Looks for unused and endless rules, and for terminals that never match or compete for a text.

    `starts` are rules that are there for others to start at.
    """
    grammar = constraint.grammar
    space = _core.RegexSpace()
    terminals = (
        _Terminals(grammar, grammar.lexer, space, time.monotonic() + seconds) if grammar.lexer else None
    )
    dead = terminals.dead if terminals is not None else frozenset()
    found = [
        *(_unused_in_lark if constraint.format == "Lark" else _unused)(grammar, [grammar.start, *starts]),
        *_endless(grammar, dead, space),
        *(terminals.findings() if terminals is not None else ()),
    ]
    found.sort(key=lambda finding: (finding.place.line, finding.place.column) if finding.place else (0, 0))
    return GrammarReport(
        rules=len(grammar.rules),
        terminals=len(grammar.lexer.terminals) if grammar.lexer else 0,
        findings=tuple(found),
        regular=tuple(_regular(grammar)),
        skipped=terminals.skipped if terminals is not None else 0,
    )


# Rules.


def _unused(grammar: Grammar, roots: list[str]) -> Iterator[Finding]:
    uses = {
        rule.name: [part[1] for part in subbodies(rule.body) if part[0] == "rule"] for rule in grammar.rules
    }
    used = _reached(roots, uses)
    for rule in grammar.rules:
        if rule.name not in used:
            yield Finding("unused", rule.name, f"rule `{rule.name}` is not used", grammar.position(rule))


def _reached(roots: Iterable[str], uses: dict[str, list[str]]) -> set[str]:
    reached: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending.extend(uses.get(name, ()))
    return reached


# Lark leaves out what is not used when it loads a grammar, so its source is looked at.
_TEXTS = re.compile(r'"(?:\\.|[^"\\\n])*"i?|/(?![/*])(?:\\.|[^/\\\n])+/[imslux]*|(?://|#)[^\n]*|->\s*\w+')
_DEFINITION = re.compile(
    r"^[ \t]*(?P<more>%override[ \t]+|%extend[ \t]+)?[?!]*(?P<name>[A-Za-z_]\w*)(?:\{[^}]*\})?(?:\.-?\d+)?\s*:"
    r"|^[ \t]*%(?P<directive>\w+)(?P<rest>.*)$",
    re.MULTILINE,
)
_WORD = re.compile(r"[A-Za-z_]\w*")


def _unused_in_lark(grammar: Grammar, roots: list[str]) -> Iterator[Finding]:
    source = _TEXTS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), grammar.source)
    uses: dict[str, list[str]] = {}
    places: dict[str, Position] = {}
    indentation = grammar.lexer.indentation if grammar.lexer else None
    if indentation is not None:
        roots += [indentation.newline, *indentation.open_brackets, *indentation.close_brackets]
    found = list(_DEFINITION.finditer(source))
    for match, after in zip(found, [*found[1:], None], strict=True):
        end = after.start() if after is not None else len(source)
        if match["directive"]:
            words = _WORD.findall(match["rest"])
            if match["directive"] == "import" and words:
                names = words[1:] if "(" in match["rest"] else words[-1:]
                original = re.search(r"->\s*(\w+)", _line_at(grammar.source, match.start("rest")))
                for name in [original[1]] if original else names:
                    places.setdefault(name, position_at(source, match.start("directive") - 1))
            elif match["directive"] != "import":
                roots += words
            continue
        uses.setdefault(match["name"], []).extend(_WORD.findall(source, match.end(), end))
        if not match["more"]:
            places.setdefault(match["name"], position_at(source, match.start("name")))
    used = _reached(roots, uses)
    for name, place in places.items():
        if name not in used:
            what = "terminal" if name.isupper() else "rule"
            yield Finding("unused", name, f"{what} `{name}` is not used", place)


def _line_at(text: str, offset: int) -> str:
    return text[offset:].partition("\n")[0]


def _endless(grammar: Grammar, dead: frozenset[str], space: _core.RegexSpace) -> Iterator[Finding]:
    """Rules without a text: what derives a text is found from the terminals up."""
    ending: set[str] = set()

    def ends(body: Body) -> bool:
        kind = body[0]
        if kind == "rule":
            return body[1] in ending
        if kind == "terminal":
            return body[1] not in dead
        if kind == "text":
            return space.alive(space.compile(body[1]))
        if kind == "sequence":
            return all(map(ends, body[1]))
        if kind == "choice":
            return any(map(ends, body[1]))
        return body[2] == 0 or ends(body[1]) if kind == "repeat" else True

    size = -1
    while size != len(ending):
        size = len(ending)
        ending |= {rule.name for rule in grammar.rules if rule.name not in ending and ends(rule.body)}
    for rule in grammar.rules:
        if rule.name not in ending:
            message = (
                f"rule `{rule.name}` has no text: all that it can be needs a rule or a terminal without one"
            )
            yield Finding("endless", rule.name, message, grammar.position(rule))


def _regular(grammar: Grammar) -> Iterator[str]:
    def as_text(body: Body) -> Body:
        """With terminals as letters."""
        kind = body[0]
        if kind == "terminal":
            return ("text", literal(f"<{body[1]}>"))
        if kind in ("sequence", "choice"):
            return (kind, tuple(map(as_text, body[1])))
        return (kind, as_text(body[1]), *body[2:]) if kind == "repeat" else body

    rules = tuple(replace(rule, body=as_text(rule.body)) for rule in grammar.rules)
    regular = Regular(replace(grammar, rules=rules, lexer=None))
    for rule in rules:
        if regular.rule(rule.name) is not None:
            yield rule.name


# Terminals.


class _Terminals:
    """Those of one lexer, as languages of the core."""

    def __init__(self, grammar: Grammar, lexer: Lexer, space: _core.RegexSpace, until: float) -> None:
        self._grammar = grammar
        self._lexer = lexer
        self._space = space
        self._until = until
        self._languages = {one.name: space.compile(one.language) for one in lexer.terminals}
        self._texts = {one.name: text_of(one.language) for one in lexer.terminals}
        self.skipped = 0
        # A contextual lexer lets only those compete that may stand at a place: what is dead depends on it.
        self.dead = frozenset() if lexer.contextual else frozenset(self._dead())

    def findings(self) -> Iterator[Finding]:
        for terminal in self._lexer.terminals:
            if terminal.name in self.dead:
                yield self._never(terminal)
        patterns = [
            one for one in self._lexer.terminals if one.name not in self.dead and not self._is_text(one)
        ]
        for i, first in enumerate(patterns):
            for second in patterns[i + 1 :]:
                if time.monotonic() > self._until:
                    self.skipped += 1
                elif (
                    not (first.lazy and second.lazy) and (example := self._common(first, second)) is not None
                ):
                    yield self._overlap(first, second, example)
            if (shadowed := self._shadowed(first)) is not None:
                yield shadowed

    def _never(self, terminal: Terminal) -> Finding:
        message = f"terminal {self._name(terminal)} never matches: "
        for other in self._lexer.terminals:
            if other is terminal:
                break
            if (example := self._common(other, terminal)) is not None:
                message += f"others take all of its texts; {example!r} is read as {self._name(other)}"
                return Finding("never", terminal.name, message, self._grammar.position(terminal), example)
        return Finding(
            "never", terminal.name, f"{message}others end its texts early", self._grammar.position(terminal)
        )

    def _dead(self) -> Iterator[str]:
        """Terminals all of whose texts the lexer's rule gives to others, or cuts before their end."""
        space = self._space
        lazy = _core.RegexSpace.EMPTY
        for one in self._lexer.terminals:
            if one.lazy:
                lazy = space.alternate(lazy, self._languages[one.name])
        longer = space.concat(lazy, space.concat(space.compile(ANY), _core.RegexSpace.ANY_TEXT))
        taken = space.alternate(
            lazy, longer
        )  # texts that are another terminal's, or begin with an earlier match
        for terminal in self._lexer.terminals:
            language = self._languages[terminal.name]
            if terminal.lazy:
                cut = longer
            elif self._lexer.rule == "longest":
                cut = taken
                taken = space.alternate(taken, language)
            else:
                cut = space.alternate(taken, self._found_earlier(terminal))
            if not space.alive(space.intersect(language, space.complement(cut))):
                yield terminal.name

    def _found_earlier(self, terminal: Terminal) -> int:
        """Of rule "ordered": texts that an earlier scanner finds the beginning of, and those of better terminals."""
        space, lexer = self._space, self._lexer
        lazy = {one.scanner for one in lexer.terminals if one.lazy}
        before = _core.RegexSpace.EMPTY
        for number, scanner in enumerate(lexer.scanners[: terminal.scanner]):
            if number not in lazy:
                before = space.alternate(before, space.compile(scanner))
        cut = space.concat(before, _core.RegexSpace.ANY_TEXT)
        for other in lexer.terminals[: lexer.terminals.index(terminal)]:
            if other.scanner == terminal.scanner and not other.lazy:
                cut = space.alternate(cut, self._languages[other.name])
        return cut

    def _is_text(self, terminal: Terminal) -> bool:
        return self._texts[terminal.name] is not None or terminal.language[0] == "literals"

    def _name(self, terminal: Terminal) -> str:
        text = self._texts[terminal.name]
        return text if text is not None else f"`{terminal.name}`"

    def _common(self, first: Terminal, second: Terminal) -> str | None:
        """A shortest text of both."""
        both = self._space.intersect(self._languages[first.name], self._languages[second.name])
        witness = self._space.witness(both)
        return None if witness is None else witness.decode("utf-8", "replace")

    def _overlap(self, first: Terminal, second: Terminal, example: str) -> Finding:
        if self._lexer.contextual:
            fate = f"where both may stand it is {self._name(first)}"
        else:
            fate = f"it is read as {self._name(first)}"
        message = f"terminals {self._name(first)} and {self._name(second)} both match {example!r}; {fate}"
        return Finding("overlap", second.name, message, self._grammar.position(second), example)

    def _shadowed(self, pattern: Terminal) -> Finding | None:
        """Keywords and the pattern that matches them, too: what names cannot be."""
        language = self._languages[pattern.name]
        texts = [
            text
            for one in self._lexer.terminals
            if (text := self._texts[one.name]) is not None
            and one.name not in self.dead
            and self._space.alive(self._space.intersect(language, self._languages[one.name]))
        ]
        if not texts:
            return None
        texts = list(dict.fromkeys(texts))
        more = f" and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
        message = f"terminal `{pattern.name}` matches {', '.join(texts[:_MOST_SHOWN])}{more}, too"
        return Finding("shadow", pattern.name, message, self._grammar.position(pattern), None)
