"""Resources of AWS CloudFormation: a seeded sample of the schemas that cfn-lint ships.

They have many patterns with length bounds, arrays with `uniqueItems` and nested definitions.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from bench.corpora import pypi
from bench.schemas import Source
from bench.schemas.strings import FORMATS

NAME = "cloudformation"
_PACKAGE = "cfn-lint==1.58.0"
_COUNT = 150
_OF_CLOUDFORMATION = ("handlers", "$schema", "$id", "typeConfiguration", "resourceLink")
"""The registry's own keywords. Some refer to other documents."""


def sources() -> Iterator[Source]:
    folder = pypi(_PACKAGE) / "cfnlint" / "data" / "schemas" / "resources"
    by_type: dict[str, Any] = {}
    for path in sorted(folder.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(schema, dict) and "typeName" in schema:
            by_type.setdefault(schema["typeName"], schema)  # regions differ a little; the first will do
    for name in sorted(random.Random(0).sample(sorted(by_type), min(_COUNT, len(by_type)))):
        kept = {k: v for k, v in by_type[name].items() if k not in _OF_CLOUDFORMATION}
        draft = "http://json-schema.org/draft-07/schema#"
        yield Source(f"{_PACKAGE}/{name}", {"$schema": draft, **_without_own_formats(kept)})


def _without_own_formats(schema: Any) -> Any:
    """A schema without formats such as ``AWS::IAM::Role.Arn``, which only cfn-lint knows and engines refuse."""
    if isinstance(schema, list):
        return [_without_own_formats(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    own = isinstance(schema.get("format"), str) and schema["format"] not in FORMATS
    return {
        key: _without_own_formats(value) for key, value in schema.items() if not (own and key == "format")
    }
