"""Broken rules of `anyOf` and `oneOf`: the branch that a text belongs to is reported, in bounded time."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.matcher import Matcher
from tests.constraints.json_schema.explain.schema_explanations import explain


def _kinds(keyword: str, count: int, *, by_reference: bool = False) -> dict[str, Any]:
    kinds = [
        {
            "type": "object",
            "properties": {"k": {"const": i}, f"p{i}": {"type": "string"}},
            "required": ["k", f"p{i}"],
        }
        for i in range(count)
    ]
    if not by_reference:
        return {keyword: kinds}
    listed = [{"$ref": f"#/$defs/kind{i}"} for i in range(count)]
    return {keyword: listed, "$defs": {f"kind{i}": kind for i, kind in enumerate(kinds)}}


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize("by_reference", [False, True])
def test_of_a_long_union_the_matching_branch_is_reported(keyword: str, by_reference: bool) -> None:
    schema = _kinds(keyword, 150, by_reference=by_reference)
    branch = "#/$defs/kind5" if by_reference else f"#/{keyword}/5"
    explanation = explain(schema, '{"k":5,"p5":7}')
    assert [(rule.pointer, rule.keyword) for rule in explanation.rules] == [
        (f"{branch}/properties/p5", "type")
    ]
    explanation = explain(schema, '{"k":5,"p7":7}')
    assert (branch, "required", "the value must have the key 'p5'") in [
        (rule.pointer, rule.keyword, rule.message) for rule in explanation.rules
    ]


def test_a_second_fault_leaves_time_for_the_first() -> None:
    schema = {"items": _kinds("oneOf", 200)}
    explanation = explain(schema, '[{"k":5,"p5":7},{"k":6,"p6":7},{"k":7,"p7":7}]')
    assert ("#/items/oneOf/5/properties/p5", "type") in [
        (rule.pointer, rule.keyword) for rule in explanation.rules
    ]


def test_of_a_long_union_without_a_tag_the_union_is_reported() -> None:
    branches = [{"properties": {f"p{i}": {"type": "string"}}, "required": [f"p{i}"]} for i in range(80)]
    explanation = explain({"oneOf": branches}, '{"p5":7}')
    assert [(rule.pointer, rule.keyword) for rule in explanation.rules] == [("#", "oneOf")]
    # Many rules are cut in the message, not in the account.
    many = explain({"required": [f"k{i}" for i in range(30)]}, "{}")
    assert len(many.rules) == 30 and "and 18 more rules" in str(many)


def test_naming_rules_takes_few_compilations(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    answer = Matcher._goes_on

    def counted(matcher: Matcher, text: bytes, is_whole: bool, ir: Any) -> bool:
        sizes.append(sum(isinstance(node, dict) for node in ir[1]["nodes"]))
        return answer(matcher, text, is_whole, ir)

    monkeypatch.setattr(Matcher, "_goes_on", counted)
    assert explain(_kinds("oneOf", 200), '{"k":5,"p5":7}').rules
    assert sum(size > 100 for size in sizes) <= 3


def _pets(keyword: str) -> dict[str, Any]:
    kinds = {"cat": {"lives": {"type": "integer"}}, "dog": {"name": {"type": "string", "minLength": 3}}}
    return {
        keyword: [
            {
                "type": "object",
                "properties": {"type": {"const": kind}, **others},
                "required": ["type", *others],
                "additionalProperties": False,
            }
            for kind, others in kinds.items()
        ]
    }


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("text", "rule", "message"),
    [
        ('{"type":"cat","name":"Rex"}', "{}/0 additionalProperties", "{} must not have this key ('name' is"),
        ('{"type":"cat"}', "{}/0 required", "{} must have the key 'lives'"),
        ('{"type":"cat","lives":"x"}', "{}/0/properties/lives type", "`{}/lives` must be of type integer"),
        ('{"type":"dog","name":"R"}', "{}/1/properties/name minLength", "`{}/name` must have at least 3"),
        (
            '{"type":"cow"}',
            " ",
            '`{}/type` must be one of the values that identify a branch ("cat", "dog")',
        ),
        ('{"lives":3,"type":"dog"}', "{}/0/properties/type const", '`{}/type` must be that value ("cat")'),
    ],
)
def test_of_a_tagged_union_the_tagged_branch_is_reported(
    keyword: str, text: str, rule: str, message: str
) -> None:
    for schema, whole, place, pointer in (
        (_pets(keyword), text, "", "#"),
        ({"items": _pets(keyword)}, f'[{{"type":"dog","name":"Rex"}},{text}]', "/1", "#/items"),
    ):
        (found,) = explain(schema, whole).rules
        where, _, name = rule.rpartition(" ")
        assert found.pointer == (pointer + where.strip().format(f"/{keyword}") if where.strip() else pointer)
        assert found.keyword == (name or keyword)
        subject = message.replace("{} must", f"`{place}` must" if place else "the value must").format(place)
        assert found.message.startswith(subject)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_tag_that_comes_last(keyword: str) -> None:
    kinds = (("a", "integer"), ("b", "string"))
    schema = {
        keyword: [
            {"properties": {"k": {"const": tag}, "v": {"type": kind}}, "required": ["k", "v"]}
            for tag, kind in kinds
        ]
    }
    last = {rule.message for rule in explain(schema, '{"v":"x","k":"a"}').rules}
    assert last == {'`/k` must be that value ("b")', "`/v` must be of type integer"}
    assert [rule.message for rule in explain(schema, '{"k":"a","v":"x"}').rules] == [
        "`/v` must be of type integer"
    ]


def test_branches_of_other_types_are_not_meant() -> None:
    pet = {"type": "object", "properties": {"name": {"minLength": 3}}}
    schema = {"properties": {"pet": {"anyOf": [pet, {"type": "null"}, {"type": "array"}]}}}
    assert [rule.message for rule in explain(schema, '{"pet":{"name":"x"}}').rules] == [
        "`/pet/name` must have at least 3 characters"
    ]


def test_tags_by_reference_with_a_branch_that_is_no_object() -> None:
    schema = {
        "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "null"}],
        "$defs": {
            name: {"properties": {"k": {"enum": values}, "n": {"$ref": "#"}, "v": {"type": kind}}}
            for name, values, kind in (("a", ["a", 1], "string"), ("b", [True, "b"], "null"))
        },
    }
    text = '{"k":true,"n":{"k":"a","v":5}}'
    assert [(rule.pointer, rule.message) for rule in explain(schema, text).rules] == [
        ("#/$defs/a/properties/v", "`/n/v` must be of type string")
    ]
    (rule,) = explain(schema, '{"k":"c"}').rules
    assert '("a", 1, "b", true)' in rule.message
