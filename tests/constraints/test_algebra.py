"""`&`, `|` and `+` of constraints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.algebra import SequenceConstraint, Union
from structgen.constraints.base import IR, Constraint, Literal
from structgen.constraints.choice import choice
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import CombinationError
from tests.oracles.regex_twin import accepts
from tests.strategies.patterns import patterns, texts


def language(constraint: Constraint, samples: list[str]) -> list[bool]:
    kind, expression = constraint.lower()
    assert kind == "regex"
    return [accepts(expression, text) for text in samples]


@settings(deadline=None, max_examples=150)
@given(patterns(), patterns(), st.lists(texts, min_size=4, max_size=8))
def test_regular_operands(left: str, right: str, samples: list[str]) -> None:
    a, b = regex(left), regex(right)
    in_a, in_b = language(a, samples), language(b, samples)
    assert language(a & b, samples) == [x and y for x, y in zip(in_a, in_b, strict=True)]
    assert language(a | b, samples) == [x or y for x, y in zip(in_a, in_b, strict=True)]
    assert language(a + b, samples) == [
        any(language(a, [text[:cut]])[0] and language(b, [text[cut:]])[0] for cut in range(len(text) + 1))
        for text in samples
    ]


def test_strings_are_literals_on_either_side() -> None:
    assert language("a" + regex("b") + "c", ["abc", "ab"]) == [True, False]
    assert language("a" | regex("b"), ["a", "b", "ab"]) == [True, True, False]
    assert language("ab" & regex("a."), ["ab", "ac"]) == [True, False]
    assert language(regex("b") | "a", ["a", "b"]) == [True, True]


def test_looks_do_not_see_the_next_operand() -> None:
    assert language(regex("a(?!b)") + "b", ["ab"]) == [True]
    assert language("a" + regex(r"\bb"), ["ab"]) == [True]
    assert language(regex("(?:b(?!b))*") + "b", ["b", "bb", "bbb"]) == [True, True, False]


def test_choices_take_part() -> None:
    assert language(choice(["ab", "cd"]) & regex("[a-c]+"), ["ab", "cd"]) == [True, False]


def test_operators_are_flat() -> None:
    a, b, c, d = (regex(letter) for letter in "abcd")
    joined = (a | b) | (c | d)
    assert isinstance(joined, Union)
    assert joined.operands == (a, b, c, d)
    row = (a + b) + (c + d)
    assert isinstance(row, SequenceConstraint)
    assert row.operands == (a, b, c, d)


def test_equal_languages_of_equal_shape_are_equal() -> None:
    assert regex("a") + regex("b") == regex("ab") == Literal("ab")
    assert hash(regex("a") | "b") == hash(regex("[ab]"))
    assert regex("a") != regex("b")
    assert regex("a") != "a"
    assert len({regex("a"), regex("(?:a)"), Literal("a")}) == 1


def test_sequences_and_unions_with_schemas() -> None:
    schema = json_schema({"type": "integer"})
    kind, parts = ("<answer>" + (schema + "\n") + regex("b") + schema).lower()
    assert kind == "sequence"
    assert [part[0] for part in parts] == ["regex", "json", "regex", "json"]
    assert parts[2] == ("regex", ("literal", "\nb"))
    kind, parts = (schema | "none" | regex("a+")).lower()
    assert kind == "union"
    assert [part[0] for part in parts] == ["regex", "json"]


def test_two_schemas_join() -> None:
    schema = json_schema({"type": "integer"})
    assert (schema & json_schema({"minimum": 3})).lower()[0] == "json"
    assert (schema | json_schema({"type": "string"})).lower()[0] == "json"
    with pytest.raises(CombinationError, match="options are equal"):
        _ = schema & json_schema({"minimum": 3}, whitespace="compact")


def test_a_schema_and_a_pattern_are_refused() -> None:
    with pytest.raises(CombinationError, match="is not regular, and the product") as caught:
        _ = json_schema({"type": "integer"}) & regex("[0-9]+")
    assert "`pattern`" in str(caught.value)


def test_two_that_are_not_regular_are_refused() -> None:
    left = json_schema({"type": "integer"}) + "a"
    right = "a" + json_schema({"type": "integer"})
    with pytest.raises(CombinationError, match="undecidable"):
        _ = left & right


def test_other_operands_are_type_errors() -> None:
    with pytest.raises(TypeError):
        _ = regex("a") | 3  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = 3 + regex("a")  # type: ignore[operator]


def test_constraints_never_change() -> None:
    constraint = regex("a")
    with pytest.raises(AttributeError, match="never changes"):
        constraint.pattern = "b"
    with pytest.raises(AttributeError, match="never changes"):
        del constraint.pattern


def test_a_kind_may_join_its_own_way() -> None:
    class Own(Constraint):
        __slots__ = ()

        def lower(self) -> IR:
            return ("json", {})

        def _and(self, other: Constraint) -> Constraint | None:
            return other

        def _or(self, other: Constraint) -> Constraint | None:
            return self

    own, other = Own(), regex("a")
    assert own & other is other
    assert own | other is own


def test_they_describe_themselves() -> None:
    assert (regex("a+") | "b").describe() == "(the pattern /a+/ | the text 'b')"
    assert repr(regex("a") + "b") == "(regex('a') + Literal('b'))"
