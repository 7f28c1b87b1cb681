"""The oracle against the official suite and, on real schemas, against `jsonschema-rs`.

The lists of known disagreements only shrink.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import jsonschema_rs
import pytest

from tests import shared
from tests.oracles.json_text import parse
from tests.oracles.json_validator import SchemaError, Validator

DRAFTS = {"draft4": 4, "draft6": 6, "draft7": 7, "draft2019-09": 2019, "draft2020-12": 2020}

# (file, text in the description of the group, text in that of the test): why
KNOWN = {
    ("optional/content.json", "", ""): "contents of strings are annotations; the suite wants them asserted",
    ("optional/format/hostname.json", "A-label", ""): "A-labels are checked by shape, not by IDNA 2008",
    ("optional/format/idn-hostname.json", "", ""): "U-labels are checked by shape, not by IDNA 2008",
    ("optional/format/hostname.json", "host names", "consecutive hyphens (RFC1123)"): (
        "drafts 4 and 6 allow a host name that later drafts do not; one rule for all"
    ),
    ("optional/format-assertion.json", "", ""): "formats are asserted on request, not by vocabulary",
}


def known(file: str, group: str, test: str) -> tuple[str, str, str] | None:
    return next((key for key in KNOWN if file == key[0] and key[1] in group and key[2] in test), None)


def remotes(draft: str) -> dict[str, object]:
    newer = {
        "draft7": ["draft2019-09"],
        "draft2019-09": ["draft7", "draft2020-12"],
        "draft2020-12": ["draft2019-09"],
    }
    own = (draft, *newer.get(draft, []))
    return {
        uri: parse(text)
        for uri, text in shared.schema_suite().remotes.items()
        if not uri.split("/")[3].startswith(("draft", "v1")) or uri.split("/")[3] in own
    }


def disagreements(draft: str) -> Iterator[tuple[str, str, str]]:
    resources = remotes(draft)
    for file, text in shared.schema_suite().groups(draft):
        for group in parse(text):
            formats = file.startswith("optional/format/")
            validator = Validator(group["schema"], draft=DRAFTS[draft], formats=formats, resources=resources)
            for test in group["tests"]:
                if validator.accepts_value(test["data"]) != test["valid"]:
                    yield file, group["description"], test["description"]


def test_official_suite() -> None:
    found = [(draft, *case) for draft in DRAFTS for case in disagreements(draft)]
    assert [case for case in found if known(*case[1:]) is None] == []
    assert {known(*case[1:]) for case in found} == set(KNOWN), "some are no longer needed"


def test_agrees_with_jsonschema_rs_on_real_schemas() -> None:
    compared = 0
    for record in shared.maskbench(every=12):
        try:
            judge = jsonschema_rs.validator_for(record["schema"], validate_formats=True)
        except ValueError:
            continue  # not a schema for it
        validator = Validator(record["schema"], formats=True)
        for test in record["tests"]:
            ours = validator.accepts(json.dumps(test["data"]))
            assert ours == judge.is_valid(test["data"]), (record["_file"], test["description"])
            compared += 1
    assert compared > 1000


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"multipleOf": 0.1}, "0.3", True),
        ({"multipleOf": 0.01}, "19.99", True),
        ({"minimum": 9007199254740993}, "9007199254740992", False),
        ({"maximum": 1e308}, "1e309", False),
        ({"pattern": "a$"}, r'"a\n"', False),
        ({"pattern": r"^\d$"}, '"\u0665"', False),
        ({"maxLength": 1}, r'"\ud83d\ude00"', True),
        ({"const": 1}, "1.0e0", True),
        ({"const": 1}, "true", False),
        ({"uniqueItems": True}, '[1, 1.0, "1"]', False),
        ({"uniqueItems": True}, '[{"a":1,"b":2},{"b":2,"a":1}]', False),
        ({"type": "integer"}, "1.50e1", True),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, "1.0", False),
        ({}, '{"a":1,"a":1}', False),
        ({"pattern": "[^]"}, '"\\n"', True),
        ({"pattern": r"^[\W]$"}, '"a"', False),
        ({"pattern": r"^\S\u{1F600}$"}, '"a\U0001f600"', True),
    ],
)
def test_where_validators_go_wrong(schema: object, text: str, expected: bool) -> None:
    assert Validator(schema).accepts(text) == expected


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"$ref": "#/$defs/a"}, {"pattern": "("}, {"pattern": "a++"}]
)
def test_schemas_that_cannot_be_evaluated(schema: object) -> None:
    with pytest.raises(SchemaError):
        Validator(schema).accepts('"a"')
