"""Captures, against a reading of small grammars that tries everything."""

from __future__ import annotations

import itertools
import random
import re
from functools import cache

import pytest

import structgen as sg
from structgen.constraints.expressions import concat, literal, repeat
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.constraints.grammar.ir import Body, Grammar, Lexer, Rule, Terminal
from structgen.errors import EmptyConstraint, GrammarUnsupported, LimitExceeded

BYTES = sg.Vocabulary.of_bytes()
PIECES = {"a": literal("a"), "b": literal("b"), "ab": literal("ab"), "a*": repeat(literal("a"), 0, None)}
"""Texts of leaves, as patterns of `re` and as expressions."""
PIECES["(ab)+b?"] = concat([repeat(literal("ab"), 1, None), repeat(literal("b"), 0, 1)])


def random_body(rnd: random.Random, leaves: list[Body], rules: list[str], depth: int) -> Body:
    kind = rnd.choice(["leaf", "rule", "sequence", "choice", "choice", "repeat"])
    if rules and kind == "rule":
        return ("rule", rnd.choice(rules))
    if depth == 0 or kind in ("leaf", "rule"):
        return rnd.choice(leaves)
    if kind == "repeat":
        low, high = rnd.choice([(0, None), (1, None), (0, 1), (2, 3), (1, 2)])
        return ("repeat", random_body(rnd, leaves, rules, depth - 1), low, high)
    return (kind, tuple(random_body(rnd, leaves, rules, depth - 1) for _ in range(rnd.randint(2, 3))))


class Twin:
    """Which parse of a text counts, by trying everything. `units` are the leaves that the text is made of, or None."""

    def __init__(self, grammar: Grammar, text: str) -> None:
        self.rules = {rule.name: rule for rule in grammar.rules}
        self.text = text
        self.is_circular = False
        self.open: set[tuple[int, int, int]] = set()
        self.best = cache(self.best)  # type: ignore[method-assign]
        self.fits = cache(self.fits)  # type: ignore[method-assign]

    def fits(self, body: Body, i: int, j: int) -> bool:
        return self.best(body, i, j) is not None

    def best(self, body: Body, i: int, j: int) -> tuple[tuple[str, int, int], ...] | None:
        """What is captured between two places; None where the body has no such text."""
        kind = body[0]
        if kind in ("text", "terminal"):
            pattern = body[1] if kind == "terminal" else next(p for p, e in PIECES.items() if e == body[1])
            return () if re.fullmatch(pattern, self.text[i:j]) else None
        key = (id(body), i, j)
        if key in self.open:
            self.is_circular = True
            return None
        self.open.add(key)
        try:
            return self.inner(body, i, j)
        finally:
            self.open.discard(key)

    def inner(self, body: Body, i: int, j: int) -> tuple[tuple[str, int, int], ...] | None:
        kind = body[0]
        if kind == "rule":
            rule = self.rules[body[1]]
            inside = self.best(rule.body, i, j)
            if inside is None:
                return None
            return ((rule.capture, i, j), *inside) if rule.capture else inside
        if kind == "choice":
            return next((found for one in body[1] if (found := self.best(one, i, j)) is not None), None)
        if kind == "sequence":
            return self.sequence(body[1], i, j)
        return self.rounds(body[1], body[2], body[3], i, j)

    def sequence(self, parts: tuple[Body, ...], i: int, j: int) -> tuple[tuple[str, int, int], ...] | None:
        if not parts:
            return () if i == j else None
        for k in range(j, i - 1, -1):
            rest = self.sequence(parts[1:], k, j)
            if rest is not None and (first := self.best(parts[0], i, k)) is not None:
                return first + rest
        return None

    def rounds(
        self, body: Body, low: int, high: int | None, i: int, j: int
    ) -> tuple[tuple[str, int, int], ...] | None:
        if i == j:
            return () if low <= 0 or self.fits(body, i, i) else None
        if high == 0:
            return None
        for k in range(j, i, -1):
            rest = self.rounds(body, low - 1, None if high is None else high - 1, k, j)
            if rest is not None and (first := self.best(body, i, k)) is not None:
                return first + rest
        return None


def read(constraint: sg.Constraint, text: str) -> sg.Matcher | None:
    matcher = sg.Matcher(constraint, BYTES)
    return matcher if all(map(matcher.advance, text.encode())) else None


def compare(grammar: Grammar, texts: list[str]) -> int:
    """How many of the texts are whole ones of the grammar."""
    try:
        constraint = GrammarConstraint(grammar, "EBNF")
        sg.Matcher(constraint, BYTES)
    except EmptyConstraint:
        return 0
    whole = 0
    for text in texts:
        twin = Twin(grammar, text)
        expected = twin.best(("rule", grammar.start), 0, len(text))
        matcher = read(constraint, text)
        if not twin.is_circular:
            assert (matcher is not None and matcher.is_complete()) == (expected is not None), (grammar, text)
        if matcher is None or not matcher.is_complete():
            if matcher is not None:
                matcher.captures()
            continue
        whole += 1
        found = matcher.captures()
        assert all(one.text == text[one.start : one.end] for one in found)
        if not twin.is_circular:
            assert [(one.name, one.start, one.end) for one in found] == list(expected or ()), (grammar, text)
    return whole


def test_scannerless_grammars() -> None:
    rnd = random.Random(5)
    texts = ["".join(letters) for n in range(6) for letters in itertools.product("ab", repeat=n)]
    leaves: list[Body] = [("text", expression) for expression in PIECES.values()]
    whole = 0
    for _ in range(150):
        names = ["start", "x", "y"]
        rules = tuple(
            Rule(name, random_body(rnd, leaves, used, 2), capture=rnd.choice([None, name, name]))
            for name, used in (("start", ["x", "y"]), ("x", rnd.choice([["y"], names])), ("y", rnd.choice([[], names])))
        )
        whole += compare(Grammar(rules, "start"), rnd.sample(texts, 24))
    assert whole > 300


@pytest.mark.parametrize("contextual", [False, True])
def test_lexed_grammars(contextual: bool) -> None:
    rnd = random.Random(6)
    texts = ["".join(letters) for n in range(6) for letters in itertools.product("ab", repeat=n)]
    leaves: list[Body] = [("terminal", "a"), ("terminal", "b")]
    lexer = Lexer("longest", (Terminal("a", literal("a")), Terminal("b", literal("b"))), contextual=contextual)
    whole = 0
    for _ in range(100):
        names = ["start", "x", "y"]
        rules = tuple(
            Rule(name, random_body(rnd, leaves, used, 2), capture=rnd.choice([None, name, name]))
            for name, used in (("start", ["x", "y"]), ("x", rnd.choice([["y"], names])), ("y", rnd.choice([[], names])))
        )
        whole += compare(Grammar(rules, "start", lexer), rnd.sample(texts, 24))
    assert whole > 60
