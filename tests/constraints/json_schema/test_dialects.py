"""Dialects: meta-schemas of the registry that leave vocabularies out, or assert formats."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.constraints.json_schema import check, json_schema
from structgen.errors import OptionError, UnsupportedKeyword

DRAFT2019 = "https://json-schema.org/draft/2019-09/"
DRAFT2020 = "https://json-schema.org/draft/2020-12/"
URI = "https://example.com/dialect"


def registry(*names: str, draft: str = DRAFT2020, needed: bool = True) -> dict[str, Any]:
    vocabularies = {name if ":" in name else f"{draft}vocab/{name}": needed for name in names}
    return {URI: {"$id": URI, "$schema": f"{draft}schema", "$vocabulary": vocabularies}}


def root(schema: dict[str, Any], documents: dict[str, Any], **options: Any) -> Any:
    ir = json_schema({"$schema": URI, **schema}, registry=documents, **options).lower()[1]
    return ir["nodes"][0]


def test_keywords_of_a_vocabulary_that_is_left_out_say_nothing() -> None:
    documents = registry("core", "applicator")
    assert set(root({"minimum": 1, "not": {}, "properties": {"a": {}}}, documents)) == {
        "pointer",
        "not",
        "properties",
    }
    assert root({"properties": {"a": False}, "not": {}}, registry("core", "validation")) is True
    assert root({"minimum": 1}, registry("core", "validation"))["minimum"] == "1"
    assert root({"unevaluatedProperties": False}, registry("core", "applicator")) is True


def test_unevaluated_keywords_are_applicators_in_2019() -> None:
    assert root({"unevaluatedProperties": False}, registry("core", "applicator", draft=DRAFT2019)) is not True
    assert root({"unevaluatedProperties": False}, registry("core", draft=DRAFT2019)) is True


def test_references_belong_to_every_dialect() -> None:
    documents = registry("core") | {"urn:x": {"$schema": f"{DRAFT2020}schema", "type": "null"}}
    assert "ref" in root({"$ref": "urn:x", "minimum": 1}, documents)


@pytest.mark.parametrize("needed", [True, False])
def test_a_dialect_may_assert_formats(needed: bool) -> None:
    documents = registry("core", "format-assertion", needed=needed)
    schema = {"format": "ipv4"}
    assert "format" in root(schema, documents, formats="dialect")
    assert "format" in root(schema, documents)
    assert root(schema, documents, formats="annotate") is True
    assert root(schema, registry("core", "format-annotation"), formats="dialect") is True


def test_required_vocabularies_must_be_known() -> None:
    with pytest.raises(UnsupportedKeyword, match="urn:colours") as caught:
        root({}, registry("core", "urn:colours"))
    assert caught.value.where == "#/$schema"
    assert root({}, registry("core", "urn:colours", needed=False)) is True
    report = check({"$schema": URI}, registry=registry("core", "urn:colours"))
    assert report.status == "unsupported"


def test_the_report_says_what_a_dialect_leaves_out() -> None:
    report = check({"$schema": URI, "minimum": 1}, registry=registry("core", "applicator"))
    notes = {finding.keyword: finding for finding in report.findings}
    assert report.draft == "draft 2020-12 (without unevaluated, without validation)"
    assert notes["minimum"].status == "annotation"
    assert "not in the vocabularies of" in notes["minimum"].note
    assert not report.warnings
    assert [finding.keyword for finding in check({"$schema": URI}).warnings] == ["$schema"]


def test_a_meta_schema_without_a_dialect_of_its_own_is_of_2020() -> None:
    documents = {URI: {"$vocabulary": {f"{DRAFT2020}vocab/core": True, "urn:colours": True}}}
    report = check({"$schema": URI}, registry=documents)
    assert report.status == "unsupported"
    assert "urn:colours" in report.problems[0].note
    documents[URI]["$vocabulary"]["urn:colours"] = False
    report = check({"$schema": URI, "minimum": 1}, registry=documents)
    assert report.ok and not report.warnings
    assert "without validation" in report.draft
    assert not check({"$schema": URI}, registry={URI: {}}).warnings
    assert check({"$schema": URI}, registry={URI: True}).warnings


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([1], "registry= is a list; it must map URIs to schemas"),
        ("x", "registry= is a str"),
        ({1: {}}, "has the key 1; its keys must be URIs"),
        ({"urn:a": 3}, "has 3 for 'urn:a'"),
        ({"urn:a": "{}"}, "Parse it with json.loads"),
    ],
)
@pytest.mark.parametrize("function", [check, json_schema])
def test_what_is_no_registry(documents: Any, message: str, function: Any) -> None:
    with pytest.raises(OptionError) as caught:
        function({}, registry=documents)
    assert message in str(caught.value)


def test_unknown_options_list_the_registry() -> None:
    with pytest.raises(OptionError, match="closed and registry"):
        json_schema({}, registri={})
