"""The official suite, read by the front end and judged by the meaning of the IR alone.

Groups with keywords that are not supported yet are refused, which is right; every other group must agree.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from typing import Any

import pytest

from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsupportedKeyword
from tests.constraints.json_schema.ir_twin import valid
from tests.shared import schema_suite

URIS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}

# File to reason; formats are tested in test_formats.
KNOWN = {
    "optional/content.json": "contents are not decoded",
    "optional/zeroTerminatedFloats.json": "1.0 is an integer in draft 4, too",
}


@cache
def _remotes() -> dict[str, Any]:
    return {uri: json.loads(text) for uri, text in schema_suite().remotes.items()}


def _with_dialect(schema: Any, draft: str) -> Any:
    if isinstance(schema, dict) and "$schema" not in schema:
        return {"$schema": URIS[draft], **schema}
    return schema


@pytest.mark.parametrize("draft", URIS)
def test_official_suite(draft: str) -> None:
    wrong: list[tuple[str, str, str]] = []
    agreed = 0
    for name, text in schema_suite().groups(draft):
        if name in KNOWN or name.startswith("optional/format/"):
            continue
        for group in json.loads(text, parse_float=Decimal):
            schema = _with_dialect(group["schema"], draft)
            formats = "annotate" if name == "format.json" else "assert"
            try:
                ir = json_schema(schema, registry=_remotes(), formats=formats).lower()[1]
            except UnsupportedKeyword:
                continue
            for test in group["tests"]:
                if valid(ir, test["data"]) == test["valid"]:
                    agreed += 1
                else:
                    wrong.append((name, group["description"], test["description"]))
    assert not wrong
    assert agreed > 400
