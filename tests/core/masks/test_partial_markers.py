"""Masks of free text after each prefix of a marker allow the same tokens as single steps.

The core derives the tokens that may follow from those of other free text, except for tokens that continue the marker.
"""

from __future__ import annotations

import random

import pytest

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

from ..small_vocabulary import allowed

MARKERS = ("<call>", "<<b>", "aab")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def pieces(rng: random.Random) -> Vocabulary:
    """Bytes, words, and tokens that begin, go on with or pass the end of a marker."""
    tokens = {bytes([byte]) for byte in range(256)}
    while len(tokens) < 1_500:
        marker = rng.choice(MARKERS)
        start = rng.randrange(len(marker))
        part = marker[start : rng.randint(start + 1, len(marker))]
        word = "".join(rng.choices('cdefgé ,.-<>"\\', k=rng.randint(1, 5)))
        tokens.add((rng.choice(("", "", part)) + word + rng.choice(("", "", part))).encode())
        tokens.add((part + rng.choice(("", "1", "{", '{"a"', "x"))).encode())
    return Vocabulary.from_tokens([*sorted(tokens), None], eos_ids=[len(tokens)])


def constraints() -> dict[str, Constraint]:
    schema = sg.json_schema(SCHEMA)
    strings = {"type": "string", "pattern": "<call>$", "not": {"pattern": "aab"}, "maxLength": 40}
    return {
        "regular": sg.dispatch({marker: sg.regex("[0-9]x") for marker in MARKERS}),
        "grammar": sg.dispatch(dict.fromkeys(MARKERS, schema)),
        "forbidden": sg.dispatch({"<call>": schema}, forbidden=["aab", "<<b"], max_chars=30),
        "text and end": sg.text(["<call>", "aab"]) + "<call>" + schema,
        "string": sg.json_schema({"type": "array", "items": strings}),
    }


def test_states_of_plain_texts_differ_from_those_of_json() -> None:
    """Neither continues with a letter, but other tokens leave each of them."""
    vocabulary = pieces(random.Random(1))
    plain, keys = sg.regex("[ -@]*") + sg.choice([";", "é"]), {"propertyNames": {"pattern": "^[ -@]*$"}}
    Matcher(plain, vocabulary).mask()
    matcher = Matcher(sg.json_schema({"type": "object", "minProperties": 1, **keys}), vocabulary)
    for byte in b'{"':
        matcher.advance(byte_token(vocabulary, byte))
    mask = allowed(matcher.mask())
    assert mask == {i for i in range(vocabulary.size) if matcher.fork().advance(i)}


def byte_token(vocabulary: Vocabulary, byte: int) -> int:
    return next(i for i in range(vocabulary.size) if vocabulary.token_bytes(i) == bytes([byte]))


@pytest.mark.parametrize("name", list(constraints()))
def test_masks_are_what_steps_allow(name: str) -> None:
    rng = random.Random(name)
    constraint, vocabulary = constraints()[name], pieces(rng)
    number = {vocabulary.token_bytes(i): i for i in range(vocabulary.size)}
    begin = b'["' if name == "string" else b""
    for text in (b"<call", b"x<c<call", b"<<<b", b"aaaab", b"d <<ca", b"eaa<a<<"):
        matcher = Matcher(constraint, vocabulary)
        for byte in begin + text:
            mask = allowed(matcher.mask())
            single = {i for i in range(vocabulary.size) if matcher.fork().advance(i)}
            assert mask == single, (matcher.text, mask ^ single)
            if number[bytes([byte])] not in mask:
                break
            matcher.advance(number[bytes([byte])])
