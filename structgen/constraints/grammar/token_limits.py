"""Rules whose tokens are limited: each becomes a constraint of its own, which the grammar has in its place.

Why: an Earley set cannot count tokens; a frame around the text of a rule can (`constraints/token_limits.py`).
Invariant: a rule with a limit has the texts that it has without, as far as its tokens last. Its part is a grammar with
the same lexer, which sees its text alone: lexemes end where the part does. Inside its own text a rule is not counted
again, since its outermost occurrence runs out first.
Cost: the rules that a limited rule uses are copied for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.expressions import EPSILON, TEXT, alternate, complement, concat, intersect
from structgen.constraints.token_limits import TokenLimit
from structgen.errors import GrammarUnsupported, LimitExceeded
from structgen.ir.grammar import Body, Grammar, Rule

from .regular import used_rules

__all__ = ["has_limits", "with_limits"]

_MOST_PARTS = 500
"""Limited rules, each counted for every set of limited rules that it is inside of and leads back to."""
_MOST_COPIES = 50_000
"""Rules of all parts together."""
_DEEPEST = 100
"""Limited rules inside one another."""


class RulePart(Constraint):
    """The texts of one rule of a grammar."""

    __slots__ = ("_ir", "rule")

    rule: str
    _ir: tuple[str, Any]

    def __init__(self, rule: str, ir: tuple[str, Any]) -> None:
        object.__setattr__(self, "rule", rule)
        object.__setattr__(self, "_ir", ir)

    def lower(self) -> tuple[str, Any]:
        return self._ir

    def describe(self) -> str:
        return f"`{self.rule}`"

    def __repr__(self) -> str:
        return f"<the rule {self.rule!r}>"


def has_limits(grammar: Grammar) -> bool:
    return any(rule.token_limit is not None for rule in grammar.rules)


def with_limits(grammar: Grammar, lower: Callable[[Grammar], tuple[str, Any]]) -> Grammar:
    """Return the grammar with a constraint for each rule that has a limit; `lower` makes the IR of a grammar.

    Raises:
        GrammarUnsupported: the grammar reads indentation.
        LimitExceeded: the limits stand inside one another too deeply, or in too many ways.
    """
    return _Parts(grammar, lower).whole()


class _Parts:
    def __init__(self, grammar: Grammar, lower: Callable[[Grammar], tuple[str, Any]]) -> None:
        self.grammar = grammar
        self.lower = lower
        self.rules = {rule.name: rule for rule in grammar.rules}
        self.uses = {rule.name: used_rules(rule.body) & self.rules.keys() for rule in grammar.rules}
        self.known: dict[tuple[str, frozenset[str]], Body] = {}
        self.leading: dict[str, frozenset[str]] = {}
        self.copies = 0

    def whole(self) -> Grammar:
        limited = next(rule for rule in self.grammar.rules if rule.token_limit is not None)
        if self.grammar.lexer is not None and self.grammar.lexer.indentation is not None:
            place = self.grammar.position(limited)
            raise GrammarUnsupported(
                f"max_tokens of the rule {limited.name} is not supported in a grammar that reads indentation",
                where=f"line {place.line}, column {place.column}" if place else None,
                hint="Leave it out, or leave out the indenter.",
            )
        return replace(self.grammar, rules=self._without(self.rules, frozenset(), 0))

    def _without(self, names: Any, inside: frozenset[str], depth: int) -> tuple[Rule, ...]:
        """These rules, those with a limit as constraints; what is `inside` is not counted again."""
        self.copies += len(names)
        if self.copies > _MOST_COPIES:
            raise _too_many(f"the rules with max_tokens use more than {_MOST_COPIES:,} rules")
        made = []
        for name in names:
            rule = self.rules[name]
            if rule.token_limit is not None and name not in inside:
                rule = replace(rule, body=self._part(name, inside, depth), token_limit=None)
            made.append(replace(rule, token_limit=None))
        return tuple(made)

    def _part(self, name: str, inside: frozenset[str], depth: int) -> Body:
        # Only the limits that it leads back to make a difference.
        around = (inside | {name}) & self._led_to(name) | {name}
        key = name, around
        if key not in self.known:
            if depth == _DEEPEST:
                raise LimitExceeded(
                    f"rules with max_tokens are inside one another more than {_DEEPEST} deep",
                    limit="constraint_depth",
                    hint="Limit the outer ones alone.",
                )
            if len(self.known) == _MOST_PARTS:
                raise _too_many(
                    f"rules with max_tokens stand in more than {_MOST_PARTS:,} ways in one another"
                )
            ir = self._lexeme(name)
            if ir is None:
                rules = self._without(self._reached(name, around), around, depth + 1)
                ir = self.lower(replace(self.grammar, rules=rules, start=name))
            part = RulePart(name, ir)
            self.known[key] = ("constraint", _limited(part, self.rules[name]))
        return self.known[key]

    def _lexeme(self, name: str) -> tuple[str, Any] | None:
        """The language of a rule that is one terminal, which nothing competes with in its own text.

        The core knows of a language whether it may end anywhere; then a cut text is a complete one."""
        lexer, body = self.grammar.lexer, self.rules[name].body
        may_be_empty = body[0] == "repeat" and body[2:] == (0, 1)
        if may_be_empty:
            body = body[1]
        if lexer is None or not lexer.contextual or body[0] != "terminal":
            return None
        language = next((one.language for one in lexer.terminals if one.name == body[1]), None)
        if language is None or lexer.rule != "longest":
            return None
        return ("regex", alternate([EPSILON, language]) if may_be_empty else language)

    def _reached(self, name: str, around: frozenset[str]) -> list[str]:
        """The rule and those that it uses, not through the limits of others."""
        found = {name: None}
        pending = [name]
        while pending:
            for used in sorted(self.uses[pending.pop()]):
                if used not in found:
                    found[used] = None
                    if self.rules[used].token_limit is None or used in around:
                        pending.append(used)
        return list(found)

    def _led_to(self, name: str) -> frozenset[str]:
        """The rules with a limit that its text may hold."""
        if name not in self.leading:
            found: set[str] = set()
            pending = [name]
            while pending:
                for used in self.uses[pending.pop()]:
                    if used not in found:
                        found.add(used)
                        pending.append(used)
            self.leading[name] = frozenset(one for one in found if self.rules[one].token_limit is not None)
        return self.leading[name]


def _limited(part: RulePart, rule: Rule) -> TokenLimit:
    assert rule.token_limit is not None
    most, cuts = rule.token_limit
    if cuts or rule.ending is None:
        return TokenLimit(part, most, "cut" if cuts else "complete")
    # Where the tokens are used up, the text before an ending is enough, as long as no ending has been read.
    before, end = rule.ending.before, rule.ending.text
    return TokenLimit(part, most, "complete", intersect([before, complement(concat([before, end, TEXT]))]))


def _too_many(message: str) -> LimitExceeded:
    return LimitExceeded(message, limit="counted_rules", hint="Limit fewer rules, or the outer ones alone.")
