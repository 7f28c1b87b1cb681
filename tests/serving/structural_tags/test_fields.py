"""Fields of formats: one of the wrong type, an error inside, or an unsupported form is refused with its path."""

import pytest

from structgen.errors import ConstraintError
from structgen.serving.requests import constraint_of

from .formats import TAG, X, read

WRONG = [
    ("const_string", "value", 3, "a text"),
    ("json_schema", "any_order", "yes", "true or false"),
    ("json_schema", "any_order", 1, "true or false"),
    ("json_schema", "style", 3, "a text"),
    ("json_schema", "max_whitespace_cnt", "2", "a whole number"),
    ("json_schema", "max_whitespace_cnt", True, "a whole number"),
    ("json_schema", "excludes", "x", "a list of texts"),
    ("regex", "pattern", ["x"], "a text"),
    ("regex", "excludes", 0, "a list of texts"),
    ("grammar", "grammar", None, "a text"),
    ("any_text", "excludes", "", "a list of texts"),
    ("any_text", "excludes", {"x": 1}, "a list of texts"),
    ("any_text", "max_chars", "3", "a whole number"),
    ("any_text", "max_chars", 2.0, "a whole number"),
    ("sequence", "elements", {}, "a list"),
    ("or", "elements", "x", "a list"),
    ("repeat", "min", "1", "a whole number"),
    ("repeat", "min", False, "a whole number"),
    ("repeat", "max", -2, "a whole number"),
    ("tag", "begin", 3, "a text"),
    ("tag", "end", None, "a text"),
    ("triggered_tags", "triggers", "<f", "a list of texts"),
    ("triggered_tags", "tags", TAG, "a list"),
    ("triggered_tags", "at_least_one", "yes", "true or false"),
    ("triggered_tags", "stop_after_first", None, "true or false"),
    ("triggered_tags", "stop_after_first", 1, "true or false"),
    ("triggered_tags", "excludes", 3, "a list of texts"),
    ("dispatch", "loop", "no", "true or false"),
    ("dispatch", "rules", "x", "a list"),
    ("tags_with_separator", "separator", 1, "a text"),
    ("tags_with_separator", "at_least_one", "true", "true or false"),
    ("tags_with_separator", "stop_after_first", 0, "true or false"),
]


RIGHT = {
    "const_string": X,
    "json_schema": {"type": "json_schema", "json_schema": True},
    "regex": {"type": "regex", "pattern": "x"},
    "grammar": {"type": "grammar", "grammar": 'root ::= "x"'},
    "any_text": {"type": "any_text"},
    "sequence": {"type": "sequence", "elements": [X]},
    "or": {"type": "or", "elements": [X]},
    "repeat": {"type": "repeat", "content": X},
    "tag": TAG,
    "triggered_tags": {"type": "triggered_tags", "triggers": ["<f"], "tags": [TAG]},
    "dispatch": {"type": "dispatch", "rules": [["<f>", X]]},
    "tags_with_separator": {"type": "tags_with_separator", "tags": [TAG], "separator": "x"},
}


@pytest.mark.parametrize(("kind", "key", "value", "wanted"), WRONG)
def test_a_field_of_the_wrong_type_is_refused_with_its_path(kind, key, value, wanted):
    assert read(RIGHT[kind])
    form = {"type": "sequence", "elements": [X, {"type": "optional", "content": RIGHT[kind] | {key: value}}]}
    with pytest.raises(ConstraintError) as caught:
        read(form)
    assert caught.value.where == f"format.elements[1].content.{key}"
    assert f'"{key}" is {wanted}' in str(caught.value)


@pytest.mark.parametrize(
    ("form", "where"),
    [
        ({"type": "any_text", "excludes": ["a", 3]}, "format.excludes[1]"),
        (TAG | {"end": ["a", 3]}, "format.end[1]"),
        (TAG | {"begin": {"type": "token", "token": 3.5}}, "format.begin.token"),
        (
            RIGHT["triggered_tags"] | {"tags": [TAG, TAG | {"content": {"type": "x"}}]},
            "format.tags[1].content",
        ),
        ({"type": "dispatch", "rules": [["a", X], ["b", {"type": "x"}]]}, "format.rules[1][1]"),
        ({"type": "json_schema", "json_schema": {"type": "x"}}, "format.json_schema, #/type"),
        ({"type": "json_schema", "json_schema": 3}, "format.json_schema"),
        ({"type": "json_schema", "style": "qwen_xml", "json_schema": 3}, "format.json_schema"),
        ({"type": "json_schema", "style": "qwen_xml", "json_schema": False}, "format.json_schema"),
        ({"type": "regex", "pattern": "("}, "format.pattern"),
        ({"type": "grammar", "grammar": "root ::= ("}, "format.grammar"),
    ],
    ids=repr,
)
def test_errors_inside_a_format_name_its_place(form, where):
    with pytest.raises(ConstraintError) as caught:
        read(form)
    assert str(caught.value.where).startswith(where)


def test_the_legacy_form_names_its_own_fields():
    for tag, where in (
        ({"structures": [{"begin": "<f>", "schema": {}, "end": 3}], "triggers": ["<f"]}, "structures[0].end"),
        (
            {"structures": [{"begin": "<f>", "schema": {"type": "x"}, "end": ""}], "triggers": ["<f"]},
            "structures[0].schema",
        ),
        ({"structures": [{"begin": "<f>", "schema": {}, "end": ""}], "triggers": "<f"}, "triggers"),
        ({"structures": [{"begin": "<f>", "schema": {}, "end": ""}], "triggers": ["<g"]}, "structures[0]"),
    ):
        with pytest.raises(ConstraintError) as caught:
            constraint_of("structural_tag", tag)
        assert str(caught.value.where).startswith(f"structural_tag.{where}")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"type": "all_tokens"}, "'all_tokens' of structural tags is not supported"),
        ({"type": "nothing"}, "'nothing'"),
        ({"type": ["x"]}, "not supported"),
        ("x", "a format is an object"),
        ({"type": "const_string"}, '"value" is a text'),
        ({"type": "const_string", "value": "x", "values": 1}, "'values' is not supported here"),
        ({"type": "any_text", "max_tokens": -1}, '"max_tokens"'),
        ({"type": "any_text", "max_tokens": 1.5}, '"max_tokens"'),
        ({"type": "any_text", "excludes": "x"}, "a list of texts"),
        ({"type": "token", "token": 3.5}, "a token is a number or a text"),
        ({"type": "json_schema"}, '"json_schema" is missing'),
        ({"type": "json_schema", "json_schema": True, "style": "toml"}, "the style 'toml'"),
        ({"type": "json_schema", "json_schema": True, "excludes": ["true"]}, "'true' cannot be excluded"),
        ({"type": "json_schema", "json_schema": {"type": "x"}}, "is not a type"),
        ({"type": "sequence", "elements": []}, '"elements" must not be empty'),
        ({"type": "sequence", "elements": {}}, "a list that is not empty"),
        (
            {"type": "repeat", "min": -1, "content": X},
            'format.min: "min" is a whole number of 0 or more, not -1',
        ),
        (
            {"type": "repeat", "max": 10**20, "content": X},
            'format.max: "max" is more than 2,147,483,647',
        ),
        ({"type": "tag", "begin": "a", "content": X, "end": []}, "needs an end"),
        ({"type": "triggered_tags", "triggers": ["<g"], "tags": [TAG]}, "0 triggers"),
        ({"type": "triggered_tags", "triggers": ["<", "<f"], "tags": [TAG]}, "2 triggers"),
        ({"type": "triggered_tags", "triggers": [], "tags": [TAG]}, "need a trigger"),
        ({"type": "triggered_tags", "triggers": ["<f", "<g"], "tags": [TAG]}, "no tag begins with"),
        ({"type": "dispatch", "rules": [["a"]]}, "a rule is a text and a format"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(form, message):
    with pytest.raises(ConstraintError) as caught:
        read(form)
    assert message in str(caught.value)


@pytest.mark.parametrize("tag", [{}, [], {"type": "structural_tag"}, {"structures": [1], "triggers": ["a"]}])
def test_values_that_are_not_structural_tags(tag):
    with pytest.raises(ConstraintError):
        constraint_of("structural_tag", tag)
