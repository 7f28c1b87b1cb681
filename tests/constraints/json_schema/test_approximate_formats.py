"""Approximate formats under negation: accepted texts are valid, and no decided text is lost.

The oracle is `jsonschema_rs` with formats asserted. The texts are such that it judges them exactly by the RFCs;
half of the relevant ones lie between the narrow language of a format and its bounds.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.json_schema import json_schema
from structgen.constraints.json_schema.formats import FORMATS
from structgen.constraints.json_schema.support import Support
from structgen.errors import LimitExceeded, UnsatisfiableSchema
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

jsonschema_rs = pytest.importorskip("jsonschema_rs")

BYTES = Vocabulary.of_bytes()
# By format: certain, and valid or not but outside the narrow language and within its bounds.
TEXTS = {
    "email": (("ab@cd.ef", "plain"), ("a@xn--mnchen-3ya.de", "a@@b", "@")),
    "hostname": (("example.org", "a b"), ("xn--mnchen-3ya.de", "-a.org")),
    "regex": (("a+b", "*a"), ("((((((a))))))", "((")),
}
CERTAIN = [text for certain, _ in TEXTS.values() for text in certain]
DOUBTFUL = [text for _, doubtful in TEXTS.values() for text in doubtful]


def test_every_approximate_format_has_bounds() -> None:
    for name, format_ in FORMATS.items():
        assert (format_.bounds is not None) == (format_.support is Support.APPROXIMATE), name


@pytest.mark.parametrize("name", TEXTS)
def test_the_texts_are_what_they_are_said_to_be(name: str) -> None:
    certain, doubtful = TEXTS[name]
    holds = jsonschema_rs.validator_for({"format": name}, validate_formats=True).is_valid
    assert [holds(text) for text in certain] == [True, False]
    assert {holds(text) for text in doubtful} == {True, False}
    narrow, denied = json_schema({"format": name}), json_schema({"not": {"format": name}})
    assert [accepts(narrow, text) for text in certain] == [True, False]
    assert [accepts(denied, text) for text in certain] == [False, True]
    for text in doubtful:
        assert not accepts(narrow, text) and not accepts(denied, text)


def accepts(constraint: Any, value: Any) -> bool:
    matcher = Matcher(constraint, BYTES)
    text = json.dumps(value, ensure_ascii=False).encode()
    return all(matcher.advance(byte) for byte in text) and matcher.is_complete()


def schemas() -> st.SearchStrategy[Any]:
    leaf = st.one_of(
        st.builds(lambda name: {"format": name}, st.sampled_from(sorted(TEXTS))),
        st.sampled_from([{"type": "string"}, {"minLength": 3}, {"$ref": "#/$defs/one"}, True]),
    )

    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        pair = st.lists(inner, min_size=2, max_size=2)
        return st.one_of(
            st.builds(lambda one: {"not": one}, inner),
            st.builds(lambda two: {"oneOf": two}, pair),
            st.builds(lambda two: {"anyOf": two}, pair),
            st.builds(lambda two: {"allOf": two}, pair),
            st.builds(lambda a, two: {"if": a, "then": two[0], "else": two[1]}, inner, pair),
            st.builds(lambda one: {"properties": {"a": one}}, inner),
            st.builds(lambda two: {"properties": {"a": two[0]}, "additionalProperties": two[1]}, pair),
            st.builds(lambda two: {"patternProperties": {"^b": two[0]}, "propertyNames": two[1]}, pair),
            st.builds(lambda two: {"prefixItems": [two[0]], "items": two[1]}, pair),
            st.builds(lambda one: {"contains": one, "minContains": 0, "maxContains": 1}, inner),
            st.builds(lambda one: {"contains": one}, inner),
        )

    whole = st.recursive(leaf, around, max_leaves=5)
    return st.builds(
        lambda one, main: {"$defs": {"one": one}, "allOf": [main]},
        st.builds(
            lambda one: {"not": one}, st.builds(lambda name: {"format": name}, st.sampled_from(sorted(TEXTS)))
        ),
        whole,
    )


def values(texts: list[str]) -> st.SearchStrategy[Any]:
    text = st.sampled_from(texts)
    return st.one_of(
        text,
        st.lists(text, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", *texts[:2]]), text, max_size=2),
        st.builds(lambda one: {"a": {"a": [one]}}, text),
    )


@settings(max_examples=400, deadline=None)
@given(schemas(), st.lists(values([*CERTAIN, *DOUBTFUL]), min_size=6, max_size=6))
def test_what_is_accepted_is_valid(schema: Any, instances: list[Any]) -> None:
    try:
        constraint = json_schema(schema)
        accepted = [accepts(constraint, value) for value in instances]
    except (UnsatisfiableSchema, LimitExceeded):
        return
    holds = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
    for value, taken in zip(instances, accepted, strict=True):
        assert not taken or holds(value), value


@settings(max_examples=400, deadline=None)
@given(
    schemas(),
    st.lists(values(CERTAIN), min_size=6, max_size=6),
)
def test_what_no_format_leaves_in_doubt_is_judged_exactly(schema: Any, instances: list[Any]) -> None:
    holds = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
    expected = [holds(value) for value in instances]
    try:
        constraint = json_schema(schema)
        accepted = [accepts(constraint, value) for value in instances]
    except UnsatisfiableSchema:
        accepted = [False] * len(instances)
    except LimitExceeded:  # no verdict: products of several formats may take too long in one call
        return
    assert accepted == expected


def test_a_schema_without_denials_keeps_its_nodes() -> None:
    plain = json_schema({"properties": {"a": {"format": "email"}}, "items": {"format": "regex"}})
    assert len(plain.lower()[1]["nodes"]) == 3


def test_a_bound_of_items_that_are_not_named() -> None:
    schema = {"properties": {"a": {"allOf": [{"format": "email"}]}}, "maxContains": 1}
    assert accepts(json_schema(schema), {"a": "ab@cd.ef"}) and accepts(json_schema(schema), [1, 2])
