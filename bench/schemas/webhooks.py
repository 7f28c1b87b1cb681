"""GitHub's webhooks: schemas of events, with the payloads that are published as examples."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from bench.corpora import npm
from bench.schemas import Source

NAME = "webhooks"
_SCHEMAS = "@octokit/webhooks-schemas@7.6.1"
_EXAMPLES = "@octokit/webhooks-examples@7.6.1"
_COUNT = 40


def sources() -> Iterator[Source]:
    document = json.loads((npm(_SCHEMAS) / "package" / "schema.json").read_text(encoding="utf-8"))
    examples = json.loads((npm(_EXAMPLES) / "package/api.github.com/index.json").read_text(encoding="utf-8"))
    payloads = {event["name"]: event["examples"] for event in examples}
    definitions = document["definitions"]
    events = sorted(name for name in definitions if "$" in name)
    for name in sorted(random.Random(0).sample(events, _COUNT)):
        event, _, action = name.partition("$")
        shipped = [p for p in payloads.get(event, []) if str(p.get("action")).replace("-", "_") == action]
        shipped.sort(key=lambda payload: len(json.dumps(payload)))
        yield Source(f"{_SCHEMAS}/{name}", _with_definitions(definitions, name), shipped[:1])


def _with_definitions(definitions: dict[str, Any], name: str) -> dict[str, Any]:
    """A definition with those that it needs."""
    needed: dict[str, Any] = {}
    stack = [definitions[name]]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            target = str(part.get("$ref", "")).removeprefix("#/definitions/")
            if target in definitions and target not in needed:
                needed[target] = definitions[target]
                stack.append(definitions[target])
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    return {**draft, **definitions[name], "definitions": dict(sorted(needed.items()))}
