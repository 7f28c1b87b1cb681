"""Rules with a token limit (`max_tokens`): each becomes a constraint of its own inside the grammar.

Why: an Earley item set cannot count tokens, but a frame around the text of a rule can (`constraints/token_limits.py`).
Invariant: a limited rule has the texts that it has without the limit, as long as its tokens suffice. Its constraint is
a grammar with the same lexer that sees its text alone, so lexemes end where that text ends. Inside its own text a rule
is not counted again, since the outermost occurrence reaches its limit first.
Cost: the rules that a limited rule uses are copied for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.expressions import EPSILON, TEXT, alternate, complement, concat, intersect
from structgen.constraints.token_limits import TokenLimit
from structgen.errors import GrammarUnsupported, LimitExceeded
from structgen.ir.grammar import Body, Grammar, Rule

from .regular import used_rules

__all__ = ["has_limits", "with_limits"]

_MOST_CONSTRAINTS = 500
"""The most constraints: one for each limited rule and each set of enclosing limited rules that it may contain again."""
_MOST_COPIES = 50_000
"""The most rules of all constraints together."""
_DEEPEST = 100
"""The most levels of limited rules inside one another."""


class RuleConstraint(Constraint):
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
    """Return whether a rule has a token limit."""
    return any(rule.token_limit is not None for rule in grammar.rules)


def with_limits(grammar: Grammar, lower: Callable[[Grammar], tuple[str, Any]]) -> Grammar:
    """Return the grammar with a constraint in place of each rule that has a limit.

    Args:
        grammar: The grammar.
        lower: Returns the plan of a grammar.

    Raises:
        GrammarUnsupported: The grammar reads indentation.
        LimitExceeded: Limited rules are nested too deeply or in too many combinations.
    """
    return _LimitedRules(grammar, lower).whole()


class _LimitedRules:
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
            position = self.grammar.position(limited)
            raise GrammarUnsupported(
                f"max_tokens of the rule {limited.name} is not supported in a grammar that reads indentation",
                where=f"line {position.line}, column {position.column}" if position else None,
                hint="Remove the option, or pass no indenter.",
            )
        return replace(self.grammar, rules=self._with_constraints(self.rules, frozenset(), 0))

    def _with_constraints(
        self, names: Collection[str], inside: frozenset[str], depth: int
    ) -> tuple[Rule, ...]:
        """Return these rules, those with a limit as constraints, except for those that are already counted."""
        self.copies += len(names)
        if self.copies > _MOST_COPIES:
            raise _too_many(f"the rules with max_tokens use more than {_MOST_COPIES:,} rules")
        rules = []
        for name in names:
            rule = self.rules[name]
            if rule.token_limit is not None and name not in inside:
                rule = replace(rule, body=self._constraint_of(name, inside, depth), token_limit=None)
            rules.append(replace(rule, token_limit=None))
        return tuple(rules)

    def _constraint_of(self, name: str, inside: frozenset[str], depth: int) -> Body:
        # Only enclosing limited rules that the text may contain again make a difference.
        around = (inside | {name}) & self._limited_rules_in(name) | {name}
        key = name, around
        if key not in self.known:
            if depth == _DEEPEST:
                raise LimitExceeded(
                    f"rules with max_tokens are nested more than {_DEEPEST} deep",
                    limit="constraint_depth",
                    hint="Limit the outer rules only.",
                )
            if len(self.known) == _MOST_CONSTRAINTS:
                raise _too_many(
                    f"rules with max_tokens are nested in more than {_MOST_CONSTRAINTS:,} combinations"
                )
            ir = self._lexeme(name)
            if ir is None:
                rules = self._with_constraints(self._used_by(name, around), around, depth + 1)
                ir = self.lower(replace(self.grammar, rules=rules, start=name))
            part = RuleConstraint(name, ir)
            self.known[key] = ("constraint", _limited(part, self.rules[name]))
        return self.known[key]

    def _lexeme(self, name: str) -> tuple[str, Any] | None:
        """Return the language of a rule that is one terminal, if no other terminal competes in its text.

        The core knows whether a language may end anywhere. If so, a text that is cut is complete.
        """
        lexer, body = self.grammar.lexer, self.rules[name].body
        may_be_empty = body[0] == "repeat" and body[2:] == (0, 1)
        if may_be_empty:
            body = body[1]
        if lexer is None or not lexer.contextual or body[0] != "terminal":
            return None
        language = next((terminal.language for terminal in lexer.terminals if terminal.name == body[1]), None)
        if language is None or lexer.rule != "longest":
            return None
        return ("regex", alternate([EPSILON, language]) if may_be_empty else language)

    def _used_by(self, name: str, around: frozenset[str]) -> list[str]:
        """Return the rule and those that it uses, but not those used only through other limited rules."""
        found = {name: None}
        pending = [name]
        while pending:
            for used in sorted(self.uses[pending.pop()]):
                if used not in found:
                    found[used] = None
                    if self.rules[used].token_limit is None or used in around:
                        pending.append(used)
        return list(found)

    def _limited_rules_in(self, name: str) -> frozenset[str]:
        """Return the limited rules that may occur in the text of a rule."""
        if name not in self.leading:
            names: set[str] = set()
            pending = [name]
            while pending:
                for used in self.uses[pending.pop()]:
                    if used not in names:
                        names.add(used)
                        pending.append(used)
            self.leading[name] = frozenset(used for used in names if self.rules[used].token_limit is not None)
        return self.leading[name]


def _limited(part: RuleConstraint, rule: Rule) -> TokenLimit:
    assert rule.token_limit is not None
    most, cuts = rule.token_limit
    if cuts or rule.ending is None:
        return TokenLimit(part, most, "cut" if cuts else "complete")
    # When the tokens are used up, the text before the ending suffices, unless an ending has been read.
    before, end = rule.ending.before, rule.ending.text
    return TokenLimit(part, most, "complete", intersect([before, complement(concat([before, end, TEXT]))]))


def _too_many(message: str) -> LimitExceeded:
    return LimitExceeded(message, limit="counted_rules", hint="Limit fewer rules, or the outer ones only.")
