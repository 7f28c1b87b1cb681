"""Explanations as people read them: the place, the rule, and what could stand there."""

from __future__ import annotations

import ast
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
    explanation = explain({"properties": {"ä": {"enum": ["é", "ö"]}}}, '{"ä": "ü"}')
    assert explanation.position == 7 and not explanation.viable
    assert str(explanation).splitlines() == [
        "Character 'ü' cannot stand here: inside a string at `/ä`.",
        '    {"ä": "ü"}',
        "           ^",
        '  `/ä` must be one of the listed values ("é", "ö"): `enum` at #/properties/ä',
        "  expected: 'é', 'ö'",
    ]
    explanation = explain(sg.choice(["日本", "日没"]), "日光")
    assert (explanation.position, explanation.expected) == (1, ("other characters",))
    assert "Character '光'" in explanation.reason
    assert explain(sg.regex("[ab]"), "🙂").reason.startswith("Character '🙂'")


def test_invalid_utf_8() -> None:
    for data in (b"a\xff", b"a\xc3(", b"a\x80"):
        explanation = explain(sg.regex("a.*"), data)
        assert not explanation.viable and explanation.position == 1
    unfinished = explain(sg.regex("aé"), b"a\xc3")
    assert unfinished.viable and not unfinished.ok
    assert unfinished.expected == ("'é'",)


def test_the_whole_value_has_no_pointer() -> None:
    explanation = str(explain({"type": "object", "required": ["a"]}, "{}"))
    assert "the value must have the key 'a': `required` at #" in explanation
    assert "`/`" not in explanation


def test_keys_that_may_come_and_those_that_must() -> None:
    schema = {"properties": {"a": True, 'b"': True}, "required": ['b"', "c"], "additionalProperties": True}
    explanation = explain(schema, "{}")
    assert explanation.expected == ("'\"'", 'key "a"', 'key "b\\"" (required)', 'key "c" (required)')


@pytest.mark.parametrize(
    ("constraint", "text", "expected"),
    [
        (sg.choice(["a\n", "a\t"]), "ab", ("'\\t'", "'\\n'")),
        (sg.choice(["été"]), "e", ("other characters",)),
        (sg.choice(["a", "ab"]), "ac", ("'b'", "the end of the text")),
        (sg.regex("[a-z]"), "1", ("'a' to 'z'",)),
    ],
)
def test_expected_continuations(constraint: Any, text: str, expected: tuple[str, ...]) -> None:
    assert explain(constraint, text).expected == expected


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('{"b": 1}', {"whitespace": "indented"}, ("'\\n'", "'}'")),
        ('{\n  "b":1}', {"whitespace": "indented"}, ("' '",)),
        ("[1,2]", {"whitespace": "json.dumps"}, ("' '",)),
    ],
)
def test_required_white_space_is_reported(text: str, options: Any, expected: tuple[str, ...]) -> None:
    explanation = explain(sg.json_schema({"properties": {"a": {}, "b": {}}}, **options), text)
    assert explanation.expected == expected
    assert [rule.keyword for rule in explanation.rules] == ["whitespace"]


@pytest.mark.parametrize(
    ("text", "keyword", "message"),
    [
        ("1e500", "number", "exponents of at most 400"),
        ("12.5e3", "number", "before an exponent one digit"),
        ("0.1e2", "number", "before an exponent one digit"),
        ("007", "JSON", "no leading zeros"),
        ("-01", "JSON", "no leading zeros"),
        (".5", "JSON", "as JSON spells it"),
        ("+5", "JSON", "as JSON spells it"),
        ("1.e5", "JSON", "as JSON spells it"),
        ("- 1", "JSON", "as JSON spells it"),
        ("1\n", "white space", "before or after it"),
        (" 1", "white space", "before or after it"),
    ],
)
def test_texts_that_no_schema_accepts(text: str, keyword: str, message: str) -> None:
    for schema in ({"type": "number"}, {"type": ["number", "null"]}, {}):
        (rule,) = explain(schema, text).rules
        assert (rule.pointer, rule.keyword) == ("", keyword)
        assert message in rule.message


def test_more_white_space_than_is_read() -> None:
    for text in ("[\n\n1]", "[1,\n\n2]", '{"a":\n\n1}'):
        (rule,) = explain({}, text).rules
        assert rule.keyword == "white space" and "one line end" in rule.message


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        ({"format": "date"}, '"x', "the value must have the format date"),
        ({"pattern": "^a"}, '"x', "the value must match the pattern ^a"),
        ({"pattern": f"^{'a' * 500}"}, '"x', f"the value must match the pattern ^{'a' * 198}…"),
        ({"const": 5}, "6", "the value must be that value (5)"),
        ({"enum": ["a", 5]}, "6", 'the value must be one of the listed values ("a", 5)'),
        ({"enum": list(range(100))}, '"', "the value must be one of the listed values"),
        ({"enum": ["a", None, 5]}, "6", 'the value must be one of the listed values ("a", 5, null)'),
        ({"const": None}, "6", "the value must be that value (null)"),
        ({"maxItems": 1}, "[[],2]", "the value must have at most 1 item"),
        ({"minLength": 1}, '""', "the value must have at least 1 character"),
        ({"minLength": 2}, '""', "the value must have at least 2 characters"),
        (
            {"contains": {}, "maxContains": 1},
            "[0,0]",
            "the value must hold at most 1 item that matches `contains`",
        ),
        (
            {"properties": {"t": {"uniqueItems": True}}},
            '{"t":[1,1]}',
            "`/t` must not hold the same item twice",
        ),
        ({"not": {"type": "null"}}, "null", "the value must not be of type null"),
        ({"not": {"type": ["null", "integer"]}}, "1", "the value must not be of type null or integer"),
        ({"not": {"const": "x"}}, '"x"', 'the value must not be "x"'),
        ({"not": {"enum": ["x", "y"]}}, '"x"', 'the value must not be one of "x", "y"'),
        ({"not": {"required": ["a"]}}, '{"a":1}', "the value must not have the key 'a'"),
        (
            {"not": {"required": ["a", "b"]}},
            '{"a":1,"b":2}',
            "the value must not have all the keys 'a', 'b'",
        ),
        ({"not": {"pattern": "^a"}}, '"ab"', "the value must not match the pattern ^a"),
        (
            {"not": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "null"}}},
            "null",
            "the value must not be of type null",
        ),
        ({"not": {"type": "string", "minLength": 3}}, '"abc"', "the value must not match"),
        ({"dependentRequired": {"a": ["b", "c"]}}, '{"a":[]}', "the value must have 'b', 'c' beside 'a'"),
        (
            {"dependentSchemas": {"a/b": False}},
            '{"a/b":',
            "the value must be as one of its keys requires: 'a/b'",
        ),
    ],
)
def test_a_rule_says_what_it_requires(schema: Any, text: str, message: str) -> None:
    assert [rule.message for rule in explain(schema, text).rules] == [message]


def test_nesting_that_only_the_limit_ends() -> None:
    schema: Any = {"type": "string"}
    for _ in range(30):
        schema = {"type": "array", "items": schema, "not": {"maxItems": 0}}  # seen only when it is read
    shallow = VOCABULARY.with_limits(max_depth=10)
    for kind, text in ((schema, "[" * 10), (schema, "[" * 11), ({}, "[" * 11), ({}, '{"a":' * 11)):
        explanation = Matcher(sg.json_schema(kind), shallow).explain(text)
        (rule,) = explanation.rules
        assert rule.keyword == "max_depth" and "max_depth=10" in rule.message
    stuck = Matcher(sg.json_schema(schema), shallow).explain("[" * 10)
    assert "nothing can follow it" in stuck.reason and not stuck.expected
    # What has the wrong type as well is blamed for that.
    of_null = sg.json_schema({"prefixItems": [{"type": "null"}]})
    explanation = Matcher(of_null, VOCABULARY.with_limits(max_depth=1)).explain("[[")
    assert [rule.keyword for rule in explanation.rules] == ["type"]


LARK = """
start: NAME "(" (arg ("," arg)*)? ")" | "SELECT"i /[?!]+/
arg: NUMBER | NAME
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore / |\\n/
"""
LISP = r"""
root ::= value
value ::= number | "(" (value (" " value)*)? ")"
number ::= "-"? [0-9]+
"""


@pytest.mark.parametrize(
    ("constraint", "text", "message"),
    [
        (
            sg.lark(LARK),
            "f(1 2)",
            "Character '2' cannot stand here: inside the text.\n    f(1 2)\n        ^\n"
            "  while reading: start\n  expected: ')', ','",
        ),
        (sg.lark(LARK), "f(1,,", "  expected: NAME, NUMBER"),
        (sg.lark(LARK), "", "  expected: NAME, 'SELECT'"),
        (sg.lark(LARK), "f()", "The text satisfies the constraint."),
        (sg.lark(LARK), "f()x", "  expected: the end of the text"),
        (sg.lark(LARK), "SELECT x", "  while reading: start\n  expected: '!', '?'"),
        (sg.lark(LARK), "SELEC ", "  while reading: 'SELECT'\n  expected: 'T', 't'"),
        (
            sg.lark(LARK),
            "f(\n 1,\n  )",
            "Character ')' cannot stand here: at line 3, column 3.\n      )\n      ^",
        ),
        (sg.gbnf(LISP), "(1 x", "\n  expected: number, '('"),
        (sg.gbnf(LISP), "(-)", "  while reading: number, value\n  expected: '0', '1'"),
        (
            sg.gbnf(LISP),
            "(1",
            "inside the text.\n    (1\n      ^\n  while reading: value\n  expected: ' ', ')'",
        ),
    ],
)
def test_a_text_of_a_grammar(constraint: sg.Constraint, text: str, message: str) -> None:
    assert message in str(explain(constraint, text))


def test_what_a_grammar_expects_can_stand() -> None:
    """Characters and texts that are said to be expected go on with the text; nothing else does."""
    constraint = sg.gbnf(LISP)
    for text in ("", "(", "(1", "(1 ", "(-", "((1) ", "(1)"):
        found = explain(constraint, text)
        said = {ast.literal_eval(one) for one in found.expected if one[0] in "'\""}
        said |= set("-0123456789") if "number" in found.expected else set()
        matcher = Matcher(constraint, VOCABULARY)
        live = {chr(b) for b in range(128) if matcher.viable_bytes(text + chr(b)) > len(text)}
        # A lexeme that may end here may go on, too, which the explanation does not show.
        assert said == live - (set("0123456789") if text.endswith("1") else set()), text


# Schemas that are parts of something else.

FIND = {
    "name": "find",
    "parameters": {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "maximum": 10},
            "s": {"enum": ["a", "b"]},
            "m": {"type": "string"},
        },
        "required": ["n"],
    },
}
CALL = '<tool_call>\n{"name": "find", "arguments": '
TURN = sg.tools([{"name": "other"}, FIND])
COUNT = sg.json_schema({"type": "integer", "maximum": 3})
WITH_SCHEMA = sg.lark(
    'start: "a" %json {"type": "integer", "minimum": 3} "b" | "x" c\nc: %json {"maxLength": 2}'
)


@pytest.mark.parametrize(
    ("constraint", "text", "keyword", "message"),
    [
        (TURN, CALL + '{"n": 11}}\n</tool_call>', "maximum", "`/n` must be at most 10"),
        (TURN, CALL + '{"n": 2.5}', "type", "`/n` must be of type integer"),
        (TURN, CALL + '{"s": "a", "n": 3}}', "ordered", "the value must have its keys in the declared order"),
        (TURN, CALL + '{"n": 3, "s": "c"}}', "enum", '`/s` must be one of the listed values ("a", "b")'),
        (TURN, CALL + '{"n": 3, "n": 4}}', "duplicate key", "the value has the key 'n' already"),
        (TURN, CALL + '{"n": 3, "q": 4}}', "additionalProperties", "('q' is not declared)"),
        (TURN, CALL + "{}}", "required", "the value must have the key 'n'"),
        (TURN, CALL + "{'n': 3}}", "JSON", "the value must have its keys in double quotes"),
        (TURN, CALL + '{"n":  3}', "whitespace", "`/n` must have the white space"),
        (sg.tools([FIND], format="pythonic"), "[find(n=11)]", "maximum", "the value must be at most 10"),
        ("n = " + COUNT, "n = 34", "maximum", "the value must be at most 3"),
        (COUNT + ";" + COUNT, "1;12", "maximum", "the value must be at most 3"),
        (sg.grammar("arithmetic") | sg.json_schema({"maxItems": 1}), "[1, 2]", "maxItems", "at most 1 item"),
        (sg.dispatch({"<n>": COUNT + "</n>"}), 'a "b" <n>44</n>', "maximum", "the value must be at most 3"),
        (sg.dispatch({"<n>": COUNT + "</n>"}), "[1] <n>x", "JSON", "must have double quotes"),
        (
            sg.repeat(sg.json_schema({"required": ["a"]}), 1, 3, separator=";"),
            '{"a": 1};{}',
            "required",
            "key 'a'",
        ),
        (WITH_SCHEMA, "a2b", "minimum", "the value must be at least 3"),
        (WITH_SCHEMA, 'x"bbb"', "maxLength", "the value must have at most 2 characters"),
    ],
)
def test_a_schema_that_is_a_part(constraint: sg.Constraint, text: str, keyword: str, message: str) -> None:
    found = explain(constraint, text)
    assert not found.ok
    assert keyword in [rule.keyword for rule in found.rules], found
    assert message in str(found)


@pytest.mark.parametrize(
    ("constraint", "text"),
    [(TURN, CALL.replace("find", "cook")), (WITH_SCHEMA, "yb"), (TURN, "<tool_call>x")],
)
def test_a_schema_is_not_to_blame_for_the_text_around_it(constraint: sg.Constraint, text: str) -> None:
    found = explain(constraint, text)
    assert not found.ok and not found.rules


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (sg.regex("a+"), "aa"),
        (sg.regex("a?"), ""),
        (sg.json_schema({"type": "integer"}), "6"),
        (sg.choice(["yes", "no"]), "no"),
        (sg.lark(LARK), "f()"),
    ],
)
def test_the_reason_agrees_with_ok(constraint: sg.Constraint, text: str) -> None:
    explanation = explain(constraint, text)
    assert explanation.ok and explanation.reason == str(explanation) == "The text satisfies the constraint."
    wrong = explain(constraint, text + "\0")
    assert not wrong.ok and "satisfies" not in wrong.reason
