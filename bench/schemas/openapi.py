"""OpenAPI documents that packages of npm ship: a seeded sample of their component schemas.

A component becomes a schema of its own with all components that it needs as `$defs`. What OpenAPI 3.0 writes in its own
way (`nullable`, exclusive bounds as booleans, `example`) is written as JSON Schema writes it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.corpora import npm
from bench.schemas import Source

NAME = "openapi"


class _Document(NamedTuple):
    package: str
    path: str
    most: int


_DOCUMENTS = (
    _Document("@octokit/openapi@23.0.2", "generated/api.github.com.json", 60),
    _Document("@gitbook/api@0.202.0", "spec/openapi.json", 40),
    _Document("@figma/rest-api-spec@0.43.0", "openapi/openapi.yaml", 40),
    _Document("@blockfrost/openapi@0.1.93", "openapi.yaml", 40),
    _Document("@digdir/dialogporten-schema@1.118.6", "swagger.verified.json", 30),
    _Document("@directus/specs@15.2.0", "dist/openapi.json", 20),
)
_PREFIX = "#/components/schemas/"
_LONGEST = 12_000
"""Characters of an example that is taken as an instance."""


def sources() -> Iterator[Source]:
    for document in _DOCUMENTS:
        components = _read(npm(document.package) / "package" / document.path)["components"]
        schemas = components["schemas"]
        useful = sorted(name for name, value in schemas.items() if _says_something(value))
        chosen = random.Random(document.package).sample(useful, min(document.most, len(useful)))
        for name in sorted(chosen):
            examples = _examples(components, name, schemas[name])
            yield Source(f"{document.package}/{name}", component(schemas, name), examples)


def component(schemas: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a component as a JSON Schema with what it refers to.

    Args:
        schemas: All component schemas of the document.
        name: Of the component.
    """
    needed: dict[str, Any] = {}
    stack = [name]
    while stack:
        current = stack.pop()
        if current not in needed and current in schemas:
            needed[current] = translated(schemas[current])
            stack += _references(needed[current])
    root = needed.pop(name)
    if name in {n for value in (root, *needed.values()) for n in _references(value)}:
        needed[name] = root
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**draft, **root, **({"$defs": needed} if needed else {})}


def translated(schema: Any) -> Any:
    """Return a schema object of OpenAPI 3 as a JSON Schema; references lead to ``#/$defs/NAME``."""
    if isinstance(schema, list):
        return [translated(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    names = ("enum", "required", "const", "examples", "default", "example")
    result = {key: value if key in names else translated(value) for key, value in schema.items()}
    if isinstance(reference := result.get("$ref"), str) and reference.startswith(_PREFIX):
        result["$ref"] = "#/$defs/" + reference[len(_PREFIX) :]
    if "example" in result and not isinstance(result["example"], dict | list):
        result["examples"] = [result.pop("example")]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(result.get(exclusive), bool) and result.pop(exclusive) and bound in result:
            result[exclusive] = result.pop(bound)
    if result.get("nullable") is True:
        del result["nullable"]
        return _nullable(result)
    return result


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _references(schema: Any) -> list[str]:
    names: list[str] = []
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if isinstance(reference := part.get("$ref"), str) and reference.startswith("#/$defs/"):
                names.append(reference.removeprefix("#/$defs/"))
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    return sorted(set(names))


def _examples(components: dict[str, Any], name: str, schema: Any) -> list[Any]:
    values = [schema["example"]] if "example" in schema else []
    if name in components.get("examples", {}):
        values.append(components["examples"][name].get("value"))
    return [value for value in values if value is not None and len(json.dumps(value)) <= _LONGEST]


def _says_something(schema: Any) -> bool:
    return isinstance(schema, dict) and any(
        n in schema for n in ("properties", "allOf", "oneOf", "anyOf", "items")
    )


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix == ".json":
        return json.loads(text)
    import yaml  # type: ignore[import-untyped]

    return json.loads(json.dumps(yaml.safe_load(text), default=str))
