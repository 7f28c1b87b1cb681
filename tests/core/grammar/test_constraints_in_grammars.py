"""A grammar with constraints as terminals accepts the same texts as the grammar with their rules written out.

A constraint may start and end at every character, so the parser merges parses that it cannot distinguish. Merging must
neither lose nor add texts.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed

EOS = 0
PIECES = [
    *["-" * n + end for n in (1, 2, 3, 5, 9) for end in ("", ";", "a", "(", ")", "a--", "-a-a")],
    *["a", "b", "(", ")", ";", "ab", "a-", "(-", "((", "))", "a)", "-)-", "(a)", "aab;", "b-", "-;-"],
]
KNOWN = Vocabulary.from_tokens([None, *(piece.encode() for piece in PIECES)], [EOS])

# Each constraint, with rules that say the same; `X` is the name of the first one.
PARTS: dict[str, tuple[Callable[[], Constraint], str]] = {
    "many": (lambda: sg.regex("-+"), "X ::= [-]+"),
    "some lengths": (lambda: sg.regex("-|--|---"), 'X ::= "-" | "--" | "---"'),
    "a class": (lambda: sg.regex("[-a]+"), "X ::= [-a]+"),
    "may be empty": (lambda: sg.regex("-*"), "X ::= [-]*"),
    "words": (lambda: sg.regex("(ab?)+"), 'X ::= ("a" "b"?)+'),
    "brackets": (lambda: sg.gbnf('root ::= "-" | "--" | "(" root ")"'), 'X ::= "-" | "--" | "(" X ")"'),
    "a middle": (lambda: sg.gbnf('root ::= "-" root "-" | "a"'), 'X ::= "-" X "-" | "a"'),
    "a sequence": (
        lambda: sg.regex("-+") + sg.gbnf('root ::= "-" | "(" root ")"'),
        'X ::= [-]+ X1\nX1 ::= "-" | "(" X1 ")"',
    ),
    "a choice": (
        lambda: sg.regex("-+|ab") | sg.gbnf('root ::= "-" "a" | "(" root ")"'),
        'X ::= [-]+ | "ab" | X1\nX1 ::= "-" "a" | "(" X1 ")"',
    ),
    "repeated": (
        lambda: sg.repeat(sg.gbnf('root ::= "-" | "(" root ")"'), 1, 3),
        'X ::= X1 X1? X1?\nX1 ::= "-" | "(" X1 ")"',
    ),
    "a grammar in it": (
        lambda: sg.lark('start: @y start | "a"', constraints={"y": sg.regex("-|--")}),
        'X ::= X1 X | "a"\nX1 ::= "-" | "--"',
    ),
}


def rules(source: random.Random) -> tuple[Constraint, Constraint]:
    """A random grammar over one-character terminals, with constraints in it and with their rules."""
    names = dict(zip("xy", source.sample(sorted(PARTS), 2), strict=True))
    symbols = ['"-"', '"a"', "@x", "@y", "e", '"(" e ")"']
    ways = [" ".join(source.choices(symbols, k=source.randint(1, 3))) for _ in range(source.randint(2, 4))]
    ways = [way for way in ways if way != "e"]
    text = " | ".join(["@x", '"a"', *ways])
    here = sg.lark(
        f'start: e ";"\ne: {text}', constraints={name: PARTS[part][0]() for name, part in names.items()}
    )
    written = [PARTS[part][1].replace("X", name) for name, part in names.items()]
    body = text.replace("@", "")
    return here, sg.gbnf("\n".join([f'root ::= e ";"\ne ::= {body}', *written]))


@pytest.mark.parametrize("seed", range(150))
def test_a_constraint_accepts_the_same_texts_as_its_rules(seed: int) -> None:
    source = random.Random(seed)
    here, written = (Matcher(one, KNOWN) for one in rules(source))
    for _ in range(8):
        mask = allowed(here.mask())
        assert mask == allowed(written.mask()), here.text
        steps = {token for token in range(1, KNOWN.size) if here.accepts([token])}
        assert mask - {EOS} == steps, here.text
        assert here.is_complete() == written.is_complete()
        if not steps:
            break
        long = sorted(steps, key=lambda token: -len(PIECES[token - 1]))
        token = source.choice(long[: source.choice([4, len(long)])])
        assert here.advance(token) and written.advance(token)
    completion = here.witness_text()
    assert completion is not None
    assert written.viable_bytes(completion) == len(completion)
