"""Masks equal single steps, token by token, for grammars with other constraints inside, around and after them."""

from __future__ import annotations

import itertools
import random

import pytest

from structgen.constraints.base import Constraint
from structgen.constraints.composition import repeat
from structgen.constraints.grammar.builders import gbnf, lark
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import EmptyConstraint, GrammarError, LimitExceeded
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed

TERMINALS = [
    "/a+/",
    "/[ab]+/",
    "/ab?/",
    '"a"',
    '"ab"',
    '"aab"',
    '"-"',
    "/a-?b/",
    "/[èé]a?/",
    "/a*b/",
    "/-[^b]*/",
]
TERMINALS += ['"b"', "/-+é/", "/a|abab/", "/[^a -]+/", "/(ab)+/"]
IGNORED = ['" "', "/ +/", '"-"', "/-+/", "/ a?/", '"é"']
TEXTS = ["b", "bc?", "a+", "-", "é", "[ab]*", "-?b", " ?a", "ab", "1", "(aa)*b?"]
PATTERNS = ["(aa)*b?.*", "[^b]*", "(?s).{0,4}", "a.*|-.*", "(..)*", "[ab]+é?", "a", "(aa)*"]
HELD = [
    json_schema({"type": "integer"}),
    json_schema({"enum": ["a", 1]}),
    json_schema({"type": "array", "items": {"type": "integer"}, "maxItems": 2}),
    regex("a+b?"),
    regex("é|-+1?"),
]


def a_grammar(draw: random.Random, *, holds: bool) -> Constraint:
    if draw.random() < 0.1:
        return gbnf(draw.choice(['root ::= ("a" | "ab" | "-"+ "b")+', 'root ::= "a"* "b"? ("-" root)?']))
    names = [f"T{i}" for i in range(draw.randint(1, 4))]
    held = {f"x{i}": draw.choice(HELD) for i in range(draw.randint(0, 2))} if holds else {}
    atoms = [*names, *(f"@{name}" for name in held), "rest"]

    def rule(name: str) -> str:
        ways = []
        for _ in range(draw.randint(1, 3)):
            parts = [
                draw.choice(atoms) + draw.choice(["", "", "?", "*", "+"]) for _ in range(draw.randint(1, 3))
            ]
            ways.append(" ".join(parts))
        return f"{name}: {' | '.join(ways)}"

    lines = [rule("start"), rule("rest"), *(f"{name}: {draw.choice(TERMINALS)}" for name in names)]
    lines += [f"%ignore {draw.choice(IGNORED)}" for _ in range(draw.randint(0, 1))]
    return lark("\n".join(lines), lexer=draw.choice(["longest", "lark"]), constraints=held or None)


def a_constraint(draw: random.Random) -> Constraint:
    kind = draw.randrange(6)
    if kind == 0:
        return a_grammar(draw, holds=True)
    if kind == 1:
        return a_grammar(draw, holds=True) + regex(draw.choice(TEXTS))
    if kind == 2:
        return regex(draw.choice(TEXTS)) + a_grammar(draw, holds=True)
    if kind == 3:
        separator = draw.choice([None, "-", "a"])
        return repeat(a_grammar(draw, holds=True), draw.randint(0, 1), 3, separator=separator)
    narrowed = a_grammar(draw, holds=False) & regex(draw.choice(PATTERNS))
    return narrowed + regex(draw.choice(TEXTS)) if kind == 4 else narrowed


def a_vocabulary(draw: random.Random) -> Vocabulary:
    letters = [bytes([byte]) for byte in 'ab-1 é"[,]0'.encode()]
    few = draw.sample(letters[:6], 3)
    tokens = set(letters) | {b"".join(some) for n in (2, 3) for some in itertools.product(few, repeat=n)}
    tokens |= {b"".join(draw.choices(letters[:8], k=draw.randint(2, 6))) for _ in range(120)}
    return Vocabulary.from_tokens([None, *sorted(tokens)], [0])


@pytest.mark.parametrize("part", range(4))
def test_random_constraints(part: int) -> None:
    compared = 0
    for seed in range(250):
        draw = random.Random(f"{part}.{seed}")
        try:
            constraint, known = a_constraint(draw), a_vocabulary(draw)
            first = Matcher(constraint, known)
            for _ in range(2):
                compared += compare(first.fork(), known, draw)
        except (EmptyConstraint, GrammarError, LimitExceeded):
            continue
    assert compared > 600


def compare(matcher: Matcher, known: Vocabulary, draw: random.Random) -> int:
    for step in range(5):
        mask = allowed(matcher.mask())
        steps = {token for token in range(1, known.size) if matcher.fork().advance(token)}
        assert mask - {0} == steps, (
            matcher.text,
            [known.token_bytes(token) for token in (mask - {0}) ^ steps],
        )
        assert (0 in mask) == matcher.is_complete()
        if not steps:
            return step
        assert matcher.advance(draw.choice(sorted(steps)))
    return 5


TWO = 'start: {}\nA: "a"\nB: "ab"'


@pytest.mark.parametrize(
    ("start", "pattern", "text", "tokens", "right"),
    [
        ("A | B", "a", "b", [b"ab"], {b"a", b"ab"}),
        ("A | B", "a|ab", "b", [b"ab", b"abb"], {b"a", b"ab", b"abb"}),
        ("A+ | B", "(aa)*", "b", [b"ab", b"aab", b"aaab"], {b"a", b"aab"}),
    ],
)
def test_what_a_pattern_has_read_of_a_lexeme_that_text_cuts_short(
    start: str, pattern: str, text: str, tokens: list[bytes], right: set[bytes]
) -> None:
    known = Vocabulary.from_tokens([None, b"a", b"b", *tokens], [0])
    matcher = Matcher((lark(TWO.format(start), lexer="longest") & regex(pattern)) + regex(text), known)
    steps = {known.token_bytes(token) for token in range(1, known.size) if matcher.fork().advance(token)}
    masked = {known.token_bytes(token) for token in allowed(matcher.mask()) - {0}}
    assert masked == steps == right
