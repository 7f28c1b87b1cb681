"""Records of data connectors: schemas of the streams that Airbyte's sources read from web services."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from bench.corpora import pypi
from bench.schemas import Source

NAME = "connectors"
_PACKAGES = (
    "airbyte-source-amazon-ads==7.2.3",
    "airbyte-source-facebook-marketing==6.1.9",
    "airbyte-source-hubspot==5.7.0",
    "airbyte-source-jira==4.0.0",
)
_MOST = 20


def sources() -> Iterator[Source]:
    for package in _PACKAGES:
        folder = pypi(package)
        paths = sorted(path for path in folder.glob("*/schemas/*.json"))
        for path in sorted(random.Random(package).sample(paths, min(_MOST, len(paths)))):
            schema = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(schema, dict) and schema.get("properties"):
                yield Source(f"{package}/{path.stem}", schema)
