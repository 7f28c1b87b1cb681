"""Explanations as people read them: the place, the rule, and what could stand there."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg
from structgen.explanation import Explanation
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], [256], size=257)


def explain(constraint: Any, text: str | bytes) -> Explanation:
    if isinstance(constraint, dict):
        constraint = sg.json_schema(constraint)
    return Matcher(constraint, VOCABULARY).explain(text)


def test_the_place_is_a_character_even_where_only_its_last_byte_is_wrong() -> None:
    told = explain({"properties": {"ä": {"enum": ["é", "ö"]}}}, '{"ä": "ü"}')
    assert told.position == 7 and not told.viable
    assert str(told).splitlines() == [
        "Character 'ü' cannot stand here: inside a string at `/ä`.",
        '    {"ä": "ü"}',
        "           ^",
        "  `/ä` must be one of the listed values: `enum` at #/properties/ä",
        "  expected: 'é', 'ö'",
    ]
    told = explain(sg.choice(["日本", "日没"]), "日光")
    assert (told.position, told.expected) == (1, ("other characters",))
    assert "Character '光'" in told.reason
    assert explain(sg.regex("[ab]"), "🙂").reason.startswith("Character '🙂'")


def test_bytes_that_are_no_text() -> None:
    for data in (b"a\xff", b"a\xc3(", b"a\x80"):
        told = explain(sg.regex("a.*"), data)
        assert not told.viable and told.position == 1
    begun = explain(sg.regex("aé"), b"a\xc3")
    assert begun.viable and not begun.ok
    assert begun.expected == ("'é'",)


def test_the_whole_value_has_no_pointer() -> None:
    told = str(explain({"type": "object", "required": ["a"]}, "{}"))
    assert "the value must have the key 'a': `required` at #" in told
    assert "`/`" not in told


def test_keys_that_may_come_and_those_that_must() -> None:
    schema = {"properties": {"a": True, 'b"': True}, "required": ['b"', "c"], "additionalProperties": True}
    told = explain(schema, "{}")
    assert told.expected == ("'\"'", 'key "a"', 'key "b\\"" (required)', 'key "c" (required)')


@pytest.mark.parametrize(
    ("constraint", "text", "expected"),
    [
        (sg.choice(["a\n", "a\t"]), "ab", ("'\\t'", "'\\n'")),
        (sg.choice(["été"]), "e", ("other characters",)),
        (sg.choice(["a", "ab"]), "ac", ("'b'", "the end of the text")),
        (sg.regex("[a-z]"), "1", ("'a' to 'z'",)),
    ],
)
def test_what_could_stand_there(constraint: Any, text: str, expected: tuple[str, ...]) -> None:
    assert explain(constraint, text).expected == expected
