"""Texts that a JSON text must not contain, compared with a search in the text itself."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.json_schema.excluding import excluding
from structgen.errors import CombinationError

VOCABULARY = sg.Vocabulary.of_bytes()
PIECES = [*'<|>anuxb01/"\\\n\t\x0b\x11', "<|a|>", "</x>"]
TEXTS = [
    ["<|a|>"],
    ["n<"],
    ["\\<"],
    ["\\u001"],
    ["\\"],
    ["</x>", "1<"],
    ["0b<"],
    ["\n<"],
    ["\\\\<"],
    ["x\\"],
    ["11<"],
]


def fits(constraint: sg.Constraint, text: str) -> bool:
    matcher = sg.Matcher(constraint, VOCABULARY)
    return all(map(matcher.advance, text.encode())) and matcher.is_complete()


@pytest.mark.parametrize("texts", TEXTS, ids=repr)
@pytest.mark.parametrize("schema", [True, {"type": ["object", "array", "string"], "properties": {"k": {}}}])
def test_a_text_fits_where_it_holds_none_of_them(schema: Any, texts: list[str]) -> None:
    rng = random.Random(repr(texts))
    whole = sg.json_schema(schema)
    made = excluding(whole, texts)
    refused = 0
    for _ in range(150):
        piece = "".join(rng.choice([*PIECES, *texts]) for _ in range(rng.randrange(5)))
        value = rng.choice([piece, [piece], {"k": piece}, {piece: 1}, {"k": {"z": [{piece: 2}, piece]}}])
        text = json.dumps(value, ensure_ascii=False)
        expected = not any(one in text for one in texts)
        assert fits(whole, text)
        assert fits(made, text) == expected, text
        refused += not expected
    assert refused or texts == ["\n<"]  # JSON escapes line ends


@pytest.mark.parametrize("text", ["true", "1", "{", ": ", 'a"', "", "12e3", "\n"])
def test_a_text_that_may_stand_outside_strings_is_refused(text: str) -> None:
    with pytest.raises(CombinationError, match="cannot be excluded from JSON"):
        excluding(sg.json_schema(True), [text])


def test_strings_with_any_escapes_are_refused() -> None:
    with pytest.raises(CombinationError, match="escaped in any way"):
        excluding(sg.json_schema(True, escapes="all"), ["<"])


def test_nothing_excluded_is_the_schema_itself() -> None:
    whole = sg.json_schema({"type": "string"})
    assert excluding(whole, []) is whole


def test_an_explanation_names_what_is_excluded() -> None:
    made = excluding(sg.json_schema({"type": "array"}), ["<|a|>"])
    assert "<|a|>" in str(sg.Matcher(made, VOCABULARY).explain('["<|a|>"]'))
