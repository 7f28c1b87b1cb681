"""A grammar as it is parsed for captures.

Why: captures belong to rules, and the lowering for masks merges regular rules into expressions.
Invariant: rules with captures stay rules, and so do the rules that contain them. The items of a body stay separate,
since a capture depends on which item takes how much text. The language is that of the grammar.
Cost: that of lowering the grammar once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from structgen.constraints.expressions import RE
from structgen.ir.grammar import Body, Grammar, GrammarIR, Rule

from .bodies import text
from .lowering import lower_bodies
from .regular import Regular

__all__ = ["CaptureGrammar"]


class CaptureGrammar:
    """A grammar ready to be parsed for captures: its IR, its rules, and the indices of its terminals."""

    __slots__ = ("grammar", "ir", "rules", "terminals")

    def __init__(self, grammar: Grammar) -> None:
        if grammar.lexer is not None:
            regular, bodies = None, {rule.name: rule.body for rule in grammar.rules}
        else:
            regular = Regular(grammar, opaque=_captured_rules(grammar))
            bodies = {
                rule.name: _with_regular_items(regular, rule.body)
                for rule in grammar.rules
                if regular.rule(rule.name) is None
            }
        ir, leaves = lower_bodies(grammar, bodies, regular)
        self.ir: tuple[str, GrammarIR] = ("grammar", ir)
        self.grammar = grammar
        named = {rule.name: rule for rule in grammar.rules}
        self.rules: Mapping[str, Rule] = {
            name: replace(named[name], body=body) for name, body in bodies.items()
        }
        self.terminals: Mapping[Body, int] = {leaf: number for number, leaf in enumerate(leaves)}

    def within(self, expression: RE) -> CaptureGrammar:
        """Return the grammar restricted to the texts of a regular expression."""
        grammar = object.__new__(CaptureGrammar)
        grammar.grammar, grammar.rules, grammar.terminals = self.grammar, self.rules, self.terminals
        grammar.ir = ("grammar", GrammarIR(self.ir[1], within=expression))
        return grammar


def _with_regular_items(regular: Regular, body: Body) -> Body:
    """Return the body with each regular item as one text. Items stay separate, since each is as long as possible."""
    expression = regular.body(body)
    if expression is not None:
        return text(expression)
    if body[0] in ("sequence", "choice"):
        return (body[0], tuple(_with_regular_items(regular, part) for part in body[1]))
    return ("repeat", _with_regular_items(regular, body[1]), *body[2:]) if body[0] == "repeat" else body


def _captured_rules(grammar: Grammar) -> frozenset[str]:
    """Return the start rule and the rules whose texts are reported."""
    return frozenset(
        rule.name
        for rule in grammar.rules
        if rule.name == grammar.start or rule.capture is not None or rule.ending is not None
    )
