"""`check` lists every keyword with its pointer, and every problem."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.engines import SuiteEngine
from bench.suite import measure
from structgen.constraints.json_schema import KEYWORDS, Support, Whitespace, check, json_schema
from structgen.constraints.json_schema.formats import FORMATS
from structgen.constraints.json_schema.support_tables import (
    MEASURED,
    format_table,
    keyword_table,
    with_tables,
)
from structgen.errors import LimitExceeded

DRAFT7 = "http://json-schema.org/draft-07/schema#"


def statuses(schema: object, **options: object) -> dict[str, str]:
    return {finding.pointer: finding.status for finding in check(schema, **options).findings}  # type: ignore[arg-type]


def test_every_keyword_has_its_status() -> None:
    found = statuses(
        {
            "title": "t",
            "type": "object",
            "properties": {"a": {"format": "hostname"}, "b": {"uniqueItems": True}},
        }
    )
    assert found == {
        "#/title": "annotation",
        "#/type": "exact",
        "#/properties": "exact",
        "#/properties/a/format": "approximate",
        "#/properties/b/uniqueItems": "exact",
    }


def test_all_problems_are_listed() -> None:
    report = check(
        {
            "properties": {"a": 1, "b": {"$ref": "#/nowhere"}, "c": {"minimum": "x"}, "d": {"type": "any"}},
            "uniqueItems": 1,
            "required": 3,
        }
    )
    assert not report.ok
    assert report.status == "invalid"
    assert {finding.pointer for finding in report.problems} == {
        "#/properties/a",
        "#/properties/b/$ref",
        "#/properties/c/minimum",
        "#/properties/d/type",
        "#/uniqueItems",
        "#/required",
    }


def test_what_a_person_probably_did_not_mean() -> None:
    report = check({"$schema": DRAFT7, "prefixItems": [], "formt": "x", "format": "colour", "x-ok": 1})
    assert {finding.keyword for finding in report.warnings} == {"prefixItems", "formt", "format"}
    assert report.ok
    assert report.draft == "draft 7"
    assert any("not a keyword of draft 7" in finding.note for finding in report.warnings)


def test_repeated_keys_of_the_text_are_named() -> None:
    report = check('{"type": "string", "properties": {"a": {}, "a": true}}')
    assert report.status == "invalid"
    assert [(finding.pointer, "'a' occurs twice" in finding.note) for finding in report.findings] == [
        ("#/properties", True)
    ]
    assert not check('{"properties": {"a": {}, "b": {"properties": {"a": {}}}}}', closed=True).warnings


def test_siblings_of_ref_are_named_in_old_drafts() -> None:
    report = check(
        {"$schema": DRAFT7, "items": {"$ref": "#/definitions/a", "minLength": 2}, "definitions": {"a": {}}}
    )
    (warning,) = report.warnings
    assert warning.pointer == "#/items/minLength"
    assert "beside $ref" in warning.note


def test_what_is_beyond_the_engine_is_not_called_invalid() -> None:
    assert check({"pattern": r"(a*)\1"}).status == "unsupported"
    assert check({"pattern": "(a"}).status == "invalid"


def test_formats_say_what_they_leave_out() -> None:
    report = check(
        {"properties": {"a": {"format": "idn-hostname"}, "b": {"format": "regex"}, "c": {"format": "x"}}}
    )
    by_pointer = {finding.pointer: finding for finding in report.findings}
    assert by_pointer["#/properties/a/format"].note.startswith("narrower: no labels in Punycode")
    assert "back-references" in by_pointer["#/properties/b/format"].note
    assert by_pointer["#/properties/c/format"].warning
    for formats in ("annotate", "dialect"):
        (finding,) = check({"format": "ipv4"}, formats=formats).findings
        assert finding.status == "annotation"
        assert formats in finding.note


def test_unknown_dialects_are_named() -> None:
    (warning,) = check({"$schema": "https://example.com/dialect"}).warnings
    assert "unknown dialect" in warning.note


def test_options_that_narrow_the_text_are_listed() -> None:
    assert any("declared order" in choice for choice in check(True, ordered=True).choices)
    assert not any("escaped" in choice for choice in check(True, escapes="all").choices)
    assert any("digits only" in choice for choice in check(True, integers="digits").choices)
    assert any("at most 4 blanks, a line end and 64" in choice for choice in check(True).choices)
    for whitespace, shown in (
        ("compact", "(whitespace='compact')"),
        (Whitespace.indented(4), "(whitespace=Whitespace.written(4, (',', ': ')))"),
        (Whitespace.written("\t"), "(whitespace=Whitespace.written('\\t', (',', ': ')))"),
        (Whitespace.written(2), "(whitespace='indented')"),
        (Whitespace.flexible(1, 2), "at most 1 blanks, a line end and 2 blanks"),
    ):
        assert any(shown in choice for choice in check(True, whitespace=whitespace).choices)


def test_every_keyword_has_a_finding_and_every_key_is_a_string() -> None:
    for name in KEYWORDS:
        assert any(finding.keyword == name for finding in check({name: True}).findings), name
    assert check({1: 2}).status == check({"properties": {"a": {"$ref": "#", 3: 4}}}).status == "invalid"  # type: ignore[dict-item]


def test_the_report_reads_well() -> None:
    text = str(check({"type": "string", "format": "email"}))
    assert text.startswith("draft 2020-12: approximate\n")
    assert "approximate  #/format   narrower: no labels in Punycode (xn--)" in text


DOCS = Path(__file__).parents[4] / "docs"
COUNTED = json.loads((DOCS / MEASURED).read_text("utf-8"))


def test_tables_have_a_row_for_everything() -> None:
    for name in KEYWORDS:
        assert f"| `{name}` |" in keyword_table(COUNTED)
    for name in FORMATS:
        assert f"| `{name}` |" in format_table(COUNTED)


def test_the_counts_are_of_the_suite_and_ours_are_still_right() -> None:
    assert measure(SuiteEngine()) == {
        file: [counts["structgen"], counts["groups"]] for file, counts in COUNTED["files"].items()
    }


def test_declarations_are_complete() -> None:
    for name, keyword in KEYWORDS.items():
        if keyword.support in (Support.EXACT, Support.APPROXIMATE):
            assert keyword.read is not None, name
        if keyword.support is Support.APPROXIMATE:
            assert keyword.note, name
    assert all(entry.note for entry in FORMATS.values() if entry.support is Support.APPROXIMATE)


def test_the_documentation_shows_the_declarations() -> None:
    page = (DOCS / "json-schema.md").read_text("utf-8")
    command = "python -m structgen.constraints.json_schema.support_tables docs/json-schema.md"
    assert page == with_tables(page, COUNTED), f"run {command}"
    assert keyword_table(COUNTED) in page
    assert format_table(COUNTED) in page


def test_the_text_marks_warnings_and_gives_hints() -> None:
    text = str(check({"items": {"$ref": "#"}, "maxLenght": 1, "allOf": [{"$ref": "#"}]}))
    assert "\n! annotation   #/maxLenght   unknown keyword; did you mean 'maxLength'" in text
    assert "\n  exact        #/items" in text
    assert "\n               Recursion must pass through" in text


def test_contradictions_are_for_compiling_to_find() -> None:
    assert check(False).ok
    assert check({"type": "integer", "minimum": 2, "maximum": 1}).status == "exact"
    assert "no value can satisfy" in (check.__doc__ or "")


@pytest.mark.parametrize(
    ("schema", "near"),
    [
        ({"requird": ["a"]}, "'required'"),
        ({"REQUIRED": ["a"]}, "'required'"),
        ({"min_length": 1}, "'minLength'"),
        ({"ref": "#/a"}, "'$ref'"),
        ({"addtionalProperties": False}, "'additionalProperties'"),
        ({"desciption": "x"}, "'description'"),
        ({"format": "datetime"}, "'date-time'"),
        ({"format": "ip-v4"}, "'ipv4'"),
    ],
)
def test_near_names_are_suggested(schema: dict[str, object], near: str) -> None:
    (warning,) = check(schema).warnings
    assert "; did you mean " in warning.note
    assert near in warning.note


@pytest.mark.parametrize("schema", [{"zzz": 1}, {"x-requird": 1}, {"format": "colour-of-a-thing"}])
def test_nothing_is_suggested_for_what_is_like_no_name(schema: dict[str, object]) -> None:
    (finding,) = check(schema).findings
    assert "did you mean" not in finding.note


@pytest.mark.parametrize(
    ("schema", "near"),
    [
        ({"$ref": "#adress", "$defs": {"a": {"$anchor": "address"}}}, "'address'"),
        ({"$ref": "#/definitions/Foo", "$defs": {"Foo": {}}}, "'#/$defs/Foo'"),
        ({"$ref": "#/$defs/Foo", "definitions": {"Foo": {}}}, "'#/definitions/Foo'"),
        ({"$ref": "#/$defs/Fooo", "$defs": {"Foo": {}}}, "'Foo'"),
    ],
)
def test_references_that_lead_nowhere_suggest_near_ones(schema: dict[str, object], near: str) -> None:
    (problem,) = check(schema).problems
    assert problem.pointer == "#/$ref"
    assert f"did you mean {near}?" in problem.note


def test_findings_come_in_the_order_of_the_documents() -> None:
    schema = {
        "title": "t",
        "properties": {
            "b": {"type": "array", "items": {"$ref": "urn:d"}},
            "a/%41": {"anyOf": [{"minimum": 1}, {"zzz": 2}]},
        },
        "minProperties": -1,
        "x/y": 1,
    }
    report = check(schema, registry={"urn:d": {"type": "null", "not": {"minimum": "x"}}})
    assert [finding.pointer for finding in report.findings] == [
        "#/title",
        "#/properties",
        "#/properties/b/type",
        "#/properties/b/items",
        "#/properties/b/items/$ref",
        "#/properties/a~1%41/anyOf",
        "#/properties/a~1%41/anyOf/0/minimum",
        "#/properties/a~1%41/anyOf/1/zzz",
        "#/minProperties",
        "#/x~1y",
        "urn:d#/type",
        "urn:d#/not",
        "urn:d#/not/minimum",
    ]


def test_integers_are_spoken_of_where_there_are_any() -> None:
    for kind, speaks in (
        ("integer", True),
        (["null", "integer"], True),
        ("number", False),
        ("string", False),
    ):
        (finding,) = check({"type": kind}).findings
        assert bool(finding.note) is speaks


@pytest.mark.parametrize("keyword", ["minLength", "minItems", "minProperties", "minContains"])
@pytest.mark.parametrize("count", [10**30, 10**5_000, Decimal("1e2000")], ids=["30", "5000", "decimal"])
def test_a_limit_is_no_breach_of_the_specification(keyword: str, count: Any) -> None:
    with pytest.raises(LimitExceeded) as caught:
        json_schema({keyword: count})
    assert ("text" in caught.value.message) is (keyword == "minLength")
    report = check({keyword: count})
    (problem,) = report.problems
    assert (report.status, problem.status, problem.pointer) == ("limit", "limit", f"#/{keyword}")
    assert problem.note == caught.value.message


def test_hints_of_several_lines_are_moved_as_one() -> None:
    shown = str(check('{"a" 1}')).splitlines()
    place = next(i for i, line in enumerate(shown) if '{"a" 1}' in line)
    assert shown[place + 1].index("^") - shown[place].index("{") == 5
