"""A linter for grammars: unused rules, rules without a text, terminals that never match or compete.

Why: mistakes in a grammar are silent. `check_grammar` finds them and reports their positions.
Invariant: no finding is a guess. The core's regular expressions compare the languages, and an example is a text of
both. `GrammarReport.skipped` counts the pairs that were not compared for lack of time.
Cost: linear in the rules; the comparison of terminals is bounded by `seconds`.
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
    """One problem of a grammar; `position` is where the source defines its subject, if known."""

    kind: Literal["unused", "endless", "never", "overlap", "shadow"]
    subject: str
    message: str
    position: Position | None = None
    example: str | None = None
    """A text that another terminal matches as well."""

    @property
    def is_warning(self) -> bool:
        """Whether this is most likely a mistake. A pattern of names that also matches keywords is not."""
        return self.kind != "shadow"


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """The findings, in the order of the source."""

    rules: int
    terminals: int
    findings: tuple[Finding, ...]
    regular: tuple[str, ...]
    """Rules that are known to be regular (over terminals, if there is a lexer)."""
    skipped: int
    """Number of pairs of terminals that were not compared for lack of time."""


def check_grammar(
    constraint: GrammarConstraint, *, starts: Iterable[str] = (), seconds: float = 5.0
) -> GrammarReport:
    """Find unused rules, rules without a text, and terminals that never match or compete for a text.

    Args:
        constraint: The grammar.
        starts: Further rules that texts may start from.
        seconds: Time limit for the comparison of terminals.
    """
    grammar = constraint.grammar
    space = _core.RegexSpace()
    terminals = (
        _Terminals(grammar, grammar.lexer, space, time.monotonic() + seconds) if grammar.lexer else None
    )
    dead = terminals.dead if terminals is not None else frozenset()
    findings = [
        *(_unused_in_lark if constraint.format == "Lark" else _unused)(grammar, [grammar.start, *starts]),
        *_endless(grammar, dead, space),
        *(terminals.findings() if terminals is not None else ()),
    ]
    findings.sort(key=lambda finding: finding.position or (0, 0))
    return GrammarReport(
        rules=len(grammar.rules),
        terminals=len(grammar.lexer.terminals) if grammar.lexer else 0,
        findings=tuple(findings),
        regular=tuple(_regular(grammar)),
        skipped=terminals.skipped if terminals is not None else 0,
    )


# Rules.


def _unused(grammar: Grammar, roots: list[str]) -> Iterator[Finding]:
    uses = {
        rule.name: [part[1] for part in subbodies(rule.body) if part[0] == "rule"] for rule in grammar.rules
    }
    used = _reachable(roots, uses)
    for rule in grammar.rules:
        if rule.name not in used:
            yield Finding("unused", rule.name, f"rule `{rule.name}` is not used", grammar.position(rule))


def _reachable(roots: Iterable[str], uses: dict[str, list[str]]) -> set[str]:
    reached: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending.extend(uses.get(name, ()))
    return reached


# Lark drops unused definitions when it loads a grammar, so unused ones are searched for in the source.
_TEXTS = re.compile(r'"(?:\\.|[^"\\\n])*"i?|/(?![/*])(?:\\.|[^/\\\n])+/[imslux]*|(?://|#)[^\n]*|->\s*\w+')
_DEFINITION = re.compile(
    r"^[ \t]*(?P<more>%override[ \t]+|%extend[ \t]+)?[?!]*(?P<name>[A-Za-z_]\w*)(?:\{[^}]*\})?(?:\.-?\d+)?\s*:"
    r"|^[ \t]*%(?P<directive>\w+)(?P<rest>.*)$",
    re.MULTILINE,
)
_WORD = re.compile(r"[A-Za-z_]\w*")


def _unused_in_lark(grammar: Grammar, roots: list[str]) -> Iterator[Finding]:
    source = _TEXTS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), grammar.source)
    uses: dict[str, list[str]] = {}
    places: dict[str, Position] = {}
    indentation = grammar.lexer.indentation if grammar.lexer else None
    if indentation is not None:
        roots += [indentation.newline, *indentation.open_brackets, *indentation.close_brackets]
    definitions = list(_DEFINITION.finditer(source))
    for match, after in zip(definitions, [*definitions[1:], None], strict=True):
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
    used = _reachable(roots, uses)
    for name, place in places.items():
        if name not in used:
            what = "terminal" if name.isupper() else "rule"
            yield Finding("unused", name, f"{what} `{name}` is not used", place)


def _line_at(text: str, offset: int) -> str:
    return text[offset:].partition("\n")[0]


def _endless(grammar: Grammar, dead: frozenset[str], space: _core.RegexSpace) -> Iterator[Finding]:
    """Yield the rules without a text. Productive rules are found from the terminals up."""
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
                f"rule `{rule.name}` has no text: each alternative needs a rule or a terminal without one"
            )
            yield Finding("endless", rule.name, message, grammar.position(rule))


def _regular(grammar: Grammar) -> Iterator[str]:
    def as_text(body: Body) -> Body:
        """Return the body with each terminal as one text that stands for it."""
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
    """The terminals of one lexer, as languages of the core."""

    def __init__(self, grammar: Grammar, lexer: Lexer, space: _core.RegexSpace, until: float) -> None:
        self._grammar = grammar
        self._lexer = lexer
        self._space = space
        self._until = until
        self._languages = {terminal.name: space.compile(terminal.language) for terminal in lexer.terminals}
        self._texts = {terminal.name: text_of(terminal.language) for terminal in lexer.terminals}
        self.skipped = 0
        # With a contextual lexer, which terminals are dead depends on the position in the grammar.
        self.dead = frozenset() if lexer.contextual else frozenset(self._dead())

    def findings(self) -> Iterator[Finding]:
        for terminal in self._lexer.terminals:
            if terminal.name in self.dead:
                yield self._never(terminal)
        patterns = [
            terminal
            for terminal in self._lexer.terminals
            if terminal.name not in self.dead and not self._is_text(terminal)
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
        """Yield terminals all of whose texts the lexer gives to others, or cuts before their end."""
        space = self._space
        lazy = _core.RegexSpace.EMPTY
        for one in self._lexer.terminals:
            if one.lazy:
                lazy = space.alternate(lazy, self._languages[one.name])
        longer = space.concat(lazy, space.concat(space.compile(ANY), _core.RegexSpace.ANY_TEXT))
        # The texts that belong to another terminal, or begin with an earlier match.
        taken = space.alternate(lazy, longer)
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
        """Return texts that start with an earlier scanner's match, and those of better terminals (rule "ordered")."""
        space, lexer = self._space, self._lexer
        lazy = {terminal.scanner for terminal in lexer.terminals if terminal.lazy}
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
        """Return a shortest text of both terminals."""
        both = self._space.intersect(self._languages[first.name], self._languages[second.name])
        witness = self._space.witness(both)
        return None if witness is None else witness.decode("utf-8", "replace")

    def _overlap(self, first: Terminal, second: Terminal, example: str) -> Finding:
        if self._lexer.contextual:
            fate = f"where both are allowed, it is read as {self._name(first)}"
        else:
            fate = f"it is read as {self._name(first)}"
        message = f"terminals {self._name(first)} and {self._name(second)} both match {example!r}; {fate}"
        return Finding("overlap", second.name, message, self._grammar.position(second), example)

    def _shadowed(self, pattern: Terminal) -> Finding | None:
        """Return the finding for a pattern of names that also matches keywords, which names cannot be then."""
        language = self._languages[pattern.name]
        texts = [
            text
            for terminal in self._lexer.terminals
            if (text := self._texts[terminal.name]) is not None
            and terminal.name not in self.dead
            and self._space.alive(self._space.intersect(language, self._languages[terminal.name]))
        ]
        if not texts:
            return None
        texts = list(dict.fromkeys(texts))
        more = f" and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
        message = f"terminal `{pattern.name}` matches {', '.join(texts[:_MOST_SHOWN])}{more}, too"
        return Finding("shadow", pattern.name, message, self._grammar.position(pattern), None)
