"""A grammar as its texts are parsed for captures.

Why: captures are of rules. For masks, what is regular becomes one expression, in which there are no rules any more.
Invariant: rules with captures stay rules, and so do those around them; a part of a body stays a part, since each is as
long as it can be. The language is that of the grammar.
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

__all__ = ["Parsed"]


class Parsed:
    """A grammar ready to be parsed: its IR, its rules, and the numbers of its leaves."""

    __slots__ = ("grammar", "ir", "rules", "terminals")

    def __init__(self, grammar: Grammar) -> None:
        if grammar.lexer is not None:
            regular, bodies = None, {rule.name: rule.body for rule in grammar.rules}
        else:
            regular = Regular(grammar, kept=_kept(grammar))
            bodies = {
                rule.name: _apart(regular, rule.body)
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

    def within(self, expression: RE) -> Parsed:
        """The same for the texts that are in a regular language, too."""
        found = object.__new__(Parsed)
        found.grammar, found.rules, found.terminals = self.grammar, self.rules, self.terminals
        found.ir = ("grammar", GrammarIR(self.ir[1], within=expression))
        return found


def _apart(regular: Regular, body: Body) -> Body:
    """The body with each part that is regular as one text; its parts stay apart, as each is as long as it can be."""
    expression = regular.body(body)
    if expression is not None:
        return text(expression)
    if body[0] in ("sequence", "choice"):
        return (body[0], tuple(_apart(regular, part) for part in body[1]))
    return ("repeat", _apart(regular, body[1]), *body[2:]) if body[0] == "repeat" else body


def _kept(grammar: Grammar) -> frozenset[str]:
    """The start, and rules with a text that is reported."""
    return frozenset(
        rule.name
        for rule in grammar.rules
        if rule.name == grammar.start or rule.capture is not None or rule.ending is not None
    )
