"""White space of JSON given by patterns, compared with Python's `re` on each gap."""

from __future__ import annotations

import itertools
import random
import re

import pytest

import structgen as sg
from structgen.errors import LimitExceeded, OptionError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary.of_bytes()

KINDS: list[tuple[str | None, str, str]] = [
    (r"\s+", ",", ":"),
    (None, ",", ":"),
    (None, r"\s{0,2},\s{0,2}", r"\s{0,1}:\s{0,2}"),
    (r"[ ]{1,2}", ", ", ": "),
    (r"\s{1,2}", ",", ":"),
    (r"\n {2}|\t", " ?,\\n", "\\s:"),
    ("\\r\\n", "(,)", "  :"),
    (r" | {3}", r"( |\t),( |\n)", ":"),
]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"const": 1}, "b": {"type": "array", "items": {"const": 2}, "maxItems": 2}},
    "required": ["a"],
    "additionalProperties": False,
}
VALUES = [
    ["{", '"a"', ":", "1", "}"],
    ["{", '"a"', ":", "1", ",", '"b"', ":", "[", "]", "}"],
    ["{", '"a"', ":", "1", ",", '"b"', ":", "[", "2", ",", "2", "]", "}"],
]


def takes(constraint: sg.Constraint, text: str) -> bool:
    matcher = Matcher(constraint, VOCABULARY)
    for byte in text.encode():
        allowed = bool(matcher.mask()[byte >> 5] >> (byte & 31) & 1)
        assert matcher.advance(byte) == allowed
        if not allowed:
            return False
    return matcher.is_complete()


def fits(kind: tuple[str | None, str, str], tokens: list[str], blanks: list[str]) -> bool:
    """Is each gap what the patterns say? `blanks` stand before the tokens, from the second one on."""
    gap, item, key = kind
    optional = f"(?:{gap})?" if gap else ""
    place = 0
    while place < len(blanks):
        sign = tokens[place + 1]
        text, pattern = blanks[place], optional
        if sign in ",:":
            text += sign + blanks[place + 1]
            pattern = f"{optional}(?:{item if sign == ',' else key}){optional}"
            place += 1
        if not re.fullmatch(pattern, text, re.ASCII):
            return False
        place += 1
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_are_what_the_patterns_say(kind: tuple[str | None, str, str]) -> None:
    gap, item, key = kind
    constraint = sg.json_schema(
        SCHEMA, whitespace=sg.Whitespace.matching(gap, item_separator=item, key_separator=key)
    )
    draw = random.Random(1)
    found = 0
    for tokens in VALUES:
        least = ["\n" if one == "," and "\\n" in item else "" for one in tokens[:-1]]
        for round_ in range(150):
            blanks = [
                draw.choice(["", "", "", " ", "  ", "\n", "\t", "\r\n", "\n  ", "   "]) for _ in tokens[1:]
            ]
            if round_ < 40:  # near to what fits
                blanks = list(least)
                for sign, pattern in ((",", item), (":", key)):
                    for at, one in enumerate(tokens):
                        if one == sign:
                            text = shortest(pattern)
                            blanks[at - 1], blanks[at] = text.split(sign)
                if round_:
                    blanks[draw.randrange(len(blanks))] += draw.choice([" ", "\n", "\t", "  ", "\n  "])
            text = tokens[0] + "".join(blank + token for blank, token in zip(blanks, tokens[1:], strict=True))
            wanted = fits(kind, tokens, blanks)
            found += wanted
            assert takes(constraint, text) == wanted, text
    assert found
    assert takes(constraint, "".join(map(chr, Matcher(constraint, VOCABULARY).witness() or [])))


def shortest(pattern: str) -> str:
    """A shortest text of a separator's pattern."""
    for length in range(5):
        for letters in itertools.product(" \n\t,:", repeat=length):
            if re.fullmatch(pattern, "".join(letters)):
                return "".join(letters)
    raise AssertionError(pattern)


def test_gaps_lead_on() -> None:
    """White space that only a comma may follow is not offered where no item may follow."""
    space = sg.Whitespace.matching(None, item_separator=" ,", key_separator=" :")
    matcher = Matcher(
        sg.json_schema({"type": "array", "items": {"const": 1}, "maxItems": 2}, whitespace=space), VOCABULARY
    )
    assert all(map(matcher.advance, b"[1 ,1"))
    assert not matcher.advance(ord(" ")) and matcher.advance(ord("]")) and matcher.is_complete()


def test_a_vocabulary_without_blanks() -> None:
    vocabulary = Vocabulary.from_tokens([bytes([b]) for b in range(33, 127)] + [None], [94])
    space = sg.Whitespace.matching(None, item_separator=", ")
    matcher = Matcher(sg.json_schema({"type": "array", "items": {"const": 1}}, whitespace=space), vocabulary)
    assert all(matcher.advance(b - 33) for b in b"[1") and not matcher.advance(ord(",") - 33)
    assert matcher.advance(ord("]") - 33) and matcher.is_complete()


@pytest.mark.parametrize(
    ("gap", "item", "key", "message"),
    [
        ("(", ",", ":", "gap='\\(' is not a valid pattern"),
        (None, "-", ":", "item_separator='-' matches more than ','"),
        (None, ",", "_ ", "key_separator='_ ' matches more"),
        (None, "( ,)|(, )", ":", "depends on what precedes"),
        (None, "[^\\s\\S]", ":", "no text matches it"),
    ],
)
def test_wrong_patterns(gap: str | None, item: str, key: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        sg.Whitespace.matching(gap, item_separator=item, key_separator=key)


def test_limits() -> None:
    with pytest.raises(LimitExceeded) as error:
        sg.Whitespace.matching(r"\s{3000}")
    assert error.value.limit == "whitespace_states"


def test_shown_and_laid_out() -> None:
    space = sg.Whitespace.matching(r"\s{1,2}", item_separator=r"\s?,\s")
    assert str(space) == "Whitespace.matching('\\\\s{1,2}', item_separator='\\\\s?,\\\\s', key_separator=':')"
    assert space.lay_out('{"a":[1,2]}').replace("\n", " ").replace("\t", " ") == '{"a":[1, 2]}'
    assert not space.is_flexible and space == sg.Whitespace.matching(r"\s{1,2}", item_separator=r"\s?,\s")
