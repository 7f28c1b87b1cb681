"""Every live state has a completion, and the search finds it, however constraints are combined.

Constraints are combined at random: sequences, unions and repetitions of patterns, schemas, special tokens and grammars
with JSON in them. After random tokens of the mask a completion exists, and appending it completes the text.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.errors import LimitExceeded
from structgen.generation.token_budget import Budget
from tests.core.small_vocabulary import allowed

EOS = 256
SPECIALS = {"<|a|>": 257, "<|b|>": 258}
TOKENS: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), None, None, None]
LONGER = [b"abc", b"12", b"; ", b'{"', b'":', b"Answer", b",1", b"null", b"}]", b" to "]
VOCABULARY = sg.Vocabulary.from_tokens([*TOKENS, *LONGER], [EOS], specials=SPECIALS)

SCHEMAS = (
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["integer", "null"]},
    {"enum": [1, 12, "a", None]},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
    {"type": "string", "pattern": "^a+$"},
    {"type": "string", "maxLength": 3},
)
GRAMMARS = (
    'start: "Answer: " %json {"type": "integer"}',
    'start: "n" (%json {"type": "number"} ",")* "end"',
    'start: %json {"type": "boolean"} | "x" start "y"',
    'start: "[" (start ("," start)*)? "]"',
    'start: "<" %json {"type": "object", "properties": {"k": {"type": "null"}}} %json {"type": "integer"}',
    "start: <|a|> /[a-z]+/ <|b|>",
    'start: <|a|> %json {"type": "number"}',
    'start: (NAME | "if") <|a|> NAME %json {"type": "integer"}\nNAME: /[a-z]+/',
    'start: a*\na: NAME "," | <|a|> NAME ";" | "x" %json {"type": "number"}\nNAME: /[a-z]+/',
    'start: "set" NAME ("to" VALUE)?\nNAME: /[a-z]+/\nVALUE: /[0-9]+/\n%ignore / +/',
    'start: A B "0123456789-123456789-123456789" <|a|> %json {"type": "null"}\nA: /a|ab/\nB: /b/',
)
LEAVES: tuple[Callable[[random.Random], Constraint], ...] = (
    lambda source: sg.regex(source.choice(["abc", "a*", "[ab]{1,3}", "x?", "[0-9]+", "(ab|a)c"])),
    lambda source: sg.choice(["yes", "no", "y"]),
    lambda source: sg.special(source.choice(list(SPECIALS))),
    lambda source: sg.json_schema(source.choice(SCHEMAS)),
    lambda source: sg.lark(source.choice(GRAMMARS)),
)


def joined(source: random.Random, depth: int) -> Constraint:
    if depth == 0 or source.random() < 0.3:
        return source.choice(LEAVES)(source)
    match source.randrange(3):
        case 0:
            return joined(source, depth - 1) + joined(source, depth - 1)
        case 1:
            return joined(source, depth - 1) | joined(source, depth - 1)
        case _:
            least = source.randrange(3)
            most = source.choice([least + 1, least + 2, None])
            return sg.repeat(joined(source, depth - 1), least, most, source.choice(["", "; ", ","]))


def completed(matcher: sg.Matcher) -> list[int]:
    """A completion, which is read again."""
    tokens = matcher.witness()
    assert tokens is not None, matcher.text
    other = matcher.fork()
    assert all(other.advance(token) for token in tokens)
    assert other.is_complete()
    return tokens


@pytest.mark.parametrize("start", range(0, 200, 40))
def test_every_live_state_can_be_completed(start: int) -> None:
    for seed in range(start, start + 40):
        source = random.Random(seed)
        matcher = sg.Matcher(joined(source, 3), VOCABULARY)
        for _ in range(source.randrange(1, 12)):
            completed(matcher)
            tokens = [token for token in allowed(matcher.mask()) if token != EOS]
            if not tokens:
                break
            assert matcher.advance(source.choice(tokens))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_json_at_the_end_of_a_grammar(schema: object) -> None:
    value = sg.json_schema(schema)
    for constraint in (sg.repeat(value, 2, 3, "; "), sg.regex("a+") + value, value + sg.regex("b?")):
        completed(sg.Matcher(constraint, VOCABULARY))


def test_special_tokens_are_part_of_a_completion() -> None:
    matcher = sg.Matcher(sg.special("<|a|>") + sg.regex("abc"), VOCABULARY)
    assert completed(matcher) == [SPECIALS["<|a|>"], VOCABULARY.size - len(LONGER)]
    assert matcher.witness_text() is None  # a special token is no bytes
    assert matcher.advance(SPECIALS["<|a|>"])
    assert matcher.witness_text() == b"abc"


class Scripted:
    """What a budget needs of a matcher that knows one completion, or none."""

    def __init__(self, known: list[int] | None) -> None:
        self.known = known

    search_failure = "it is too long"

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        fits = self.known is not None and (max_tokens is None or len(self.known) <= max_tokens)
        return self.known if fits else None


def test_a_budget_reports_why_no_completion_fits() -> None:
    with pytest.raises(LimitExceeded, match="takes 5 tokens") as too_long:
        Budget(Scripted([1] * 5), 4)
    assert too_long.value.limit == "max_tokens"
    with pytest.raises(LimitExceeded, match="no completion of the text was found: it is too long") as unknown:
        Budget(Scripted(None), 4)
    assert "Raise max_tokens" not in str(unknown.value)
