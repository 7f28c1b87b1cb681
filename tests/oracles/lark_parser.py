"""Lark grammars, slowly: a recogniser for our reading of a grammar, and lark's own parser.

The recogniser computes the spans of lexemes that each rule may cover, as a fixed point."""

from __future__ import annotations

from functools import cache

from lark import Lark
from lark.common import LexerConf
from lark.exceptions import UnexpectedInput
from lark.lexer import BasicLexer

from structgen.ir.grammar import Body, Grammar
from tests.oracles.slow_lexer import lexemes, significant

Span = tuple[int, int]


def takes(grammar: Grammar, text: str) -> bool:
    """Return whether a text is one of the grammar."""
    assert grammar.lexer is not None
    found = lexemes(grammar.lexer, text)
    if found is None:
        return False
    return covers(grammar, [name for name, _ in significant(grammar.lexer, found)])


def covers(grammar: Grammar, kinds: list[str]) -> bool:
    """Return whether lexemes of these terminals form a text."""
    bodies = {rule.name: rule.body for rule in grammar.rules}
    known: dict[str, frozenset[Span]] = dict.fromkeys(bodies, frozenset())
    while True:
        now = {name: spans(body, kinds, known) for name, body in bodies.items()}
        if now == known:
            return (0, len(kinds)) in known[grammar.start]
        known = now


def spans(body: Body, kinds: list[str], known: dict[str, frozenset[Span]]) -> frozenset[Span]:
    kind = body[0]
    empty = frozenset((place, place) for place in range(len(kinds) + 1))
    if kind == "rule":
        return known[body[1]]
    if kind == "terminal":
        return frozenset((place, place + 1) for place, name in enumerate(kinds) if name == body[1])
    if kind == "choice":
        return frozenset[Span]().union(*(spans(part, kinds, known) for part in body[1]))
    if kind == "sequence":
        result = empty
        for part in body[1]:
            result = joined(result, spans(part, kinds, known))
        return result
    assert kind == "repeat"
    _, inner, low, high = body
    once = spans(inner, kinds, known)
    least = empty
    for _ in range(low):
        least = joined(least, once)
    result, more = least, least
    for _ in range(len(kinds) + 1 if high is None else high - low):
        more = joined(more, once)
        result |= more
    return result


def joined(left: frozenset[Span], right: frozenset[Span]) -> frozenset[Span]:
    return frozenset((a, d) for a, b in left for c, d in right if b == c)


class Basic(BasicLexer):
    """Return lark's basic lexer without its search for collisions, which is slow and fails on some patterns."""

    __future_interface__ = 2  # lark's name for a lexer that it need not wrap

    def __init__(self, conf: LexerConf) -> None:
        conf.skip_validation = True
        super().__init__(conf)


@cache
def parser(grammar: str) -> Lark:
    return Lark(grammar, parser="earley", lexer=Basic)


def parses(grammar: str, text: str) -> bool:
    try:
        parser(grammar).parse(text)
    except UnexpectedInput:
        return False
    return True
