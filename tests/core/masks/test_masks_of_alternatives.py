"""Masks at positions where many texts may follow, such as names of tools, allow the same tokens as single steps."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from structgen.constraints.base import Constraint
from structgen.constraints.grammar.builders import gbnf
from structgen.matcher import Matcher
from structgen.tools import tools
from structgen.vocabulary import Vocabulary

from ..small_vocabulary import allowed


def texts(rng: random.Random, count: int) -> list[str]:
    """Texts of few letters: many begin alike, some are beginnings of others, some are a letter."""
    return list(dict.fromkeys("".join(rng.choices("ab_é", k=rng.randint(1, 7))) for _ in range(count)))


def nested(rng: random.Random) -> Constraint:
    """After each text what is in brackets, which is one of the texts again; or what belongs to this text alone."""
    names = texts(rng, 60)
    after = [
        rng.choice((f'"({i}" root ")"', "root?", f'"{i % 3}"', '("." root)*')) for i in range(len(names))
    ]
    sets = " | ".join(f'"{one}"' for one in texts(rng, 10))
    calls = [f'"{name}" {then}' for name, then in zip(names, after, strict=True)]
    return gbnf("root ::= " + " | ".join([*calls, f'({sets}) "[" root "]"']))


def called(rng: random.Random) -> Constraint:
    """Tools whose names begin alike."""
    names = [one.replace("é", "1") for one in texts(rng, 40)]
    properties = {"a": {"type": "string", "maxLength": 2}, "b": {"enum": ["ab", "a_"]}}
    parameters = {"type": "object", "properties": properties}
    return tools(
        [{"name": name, "parameters": parameters} for name in dict.fromkeys(names)], tool_choice="required"
    )


def pieces(rng: random.Random) -> Vocabulary:
    """Bytes and longer tokens, which end inside of the texts, at their ends and after them."""
    whole = '<tool_call>\n{"name": "ab", "arguments": {"a": "ab", "b": "a_"}}\n</tool_call>'
    tokens = {bytes([byte]) for byte in range(256)}
    while len(tokens) < 800:
        start = rng.randrange(len(whole))
        end = rng.choice(("", "", "(1", ")", "[", "]", "1", '", "', "._", whole[start : start + 6]))
        tokens.add(
            (
                rng.choice(("", "", "(", "[", '"')) + "".join(rng.choices("ab_é", k=rng.randint(0, 5))) + end
            ).encode()
        )
    tokens.discard(b"")
    return Vocabulary.from_tokens([*sorted(tokens), None], eos_ids=[len(tokens)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("make", "begin"), [(nested, b""), (called, b'<tool_call>\n{"na')])
def test_masks_are_what_steps_allow(
    make: Callable[[random.Random], Constraint], begin: bytes, seed: int
) -> None:
    rng = random.Random(seed)
    constraint = make(rng)
    assert constraint.lower()[0] == "grammar"
    vocabulary = pieces(rng)
    number = {vocabulary.token_bytes(i): i for i in range(vocabulary.size)}
    for _ in range(4):
        matcher = Matcher(constraint, vocabulary)
        for byte in begin:
            assert matcher.advance(number[bytes([byte])])
        for _ in range(25):
            mask = allowed(matcher.mask())
            single = {i for i in range(vocabulary.size) if matcher.fork().advance(i)}
            assert mask == single, (matcher.text, mask ^ single)
            onwards = sorted(mask - set(vocabulary.eos_ids))
            if not onwards:
                break
            several = [i for i in onwards if len(vocabulary.token_bytes(i) or b"") > 2]
            assert matcher.advance(rng.choice(several if several and rng.random() < 0.7 else onwards))
