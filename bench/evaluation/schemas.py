"""The bundled sample of `structgen eval`: schemas with valid and invalid instances.

    python -m bench.evaluation.schemas

This writes structgen/evaluation/data/schemas.jsonl. The schemas are written by hand in bench/data/evaluation, one file
for each part; `large_schemas` generates the largest ones. Valid instances are written by hand too, with keys in the
schema's order, because some engines fix that order. One more comes from leaving out an optional key.
Invalid instances are the valid ones with one change: a missing or added key, a value of another type, a number or text
beyond its bounds. At most four are kept, each of which breaks another keyword at the deepest position.

Invariant: jsonschema-rs and jsonschema, both with formats asserted, agree with every label. Each run writes the same
file.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import jsonschema_rs

import structgen
from bench.command import argument_parser

from .large_schemas import LARGE

__all__ = ["items", "main", "written_schemas"]

_DATA = Path(__file__).resolve().parents[1] / "data" / "evaluation"
_GENERATED = "Github_ultra"
_PARTS = (
    "Github_trivial",
    "Github_easy",
    "Github_medium",
    "Github_hard",
    _GENERATED,
    "Kubernetes",
    "Snowplow",
    "WashingtonPost",
    "Glaiveai2K",
    "JsonSchemaStore",
)
"""The parts of the sample, in the order of the file."""

_MOST_INVALID = 4
_STRANGE: tuple[Any, ...] = (
    "",
    "none of these",
    -1_000_000_007,
    1_000_000_007,
    0.125,
    True,
    None,
    [],
    {},
    [None],
)


def written_schemas(part: str) -> list[tuple[str, Any, list[Any]]]:
    """Return the schemas of a part as (name, schema, valid instances)."""
    if part == _GENERATED:
        return LARGE
    lines = (_DATA / f"{part}.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [(record["name"], record["schema"], record["instances"]) for record in records]


def items() -> Iterator[dict[str, Any]]:
    """Yield the records of the file."""
    for part in _PARTS:
        for name, schema, instances in written_schemas(part):
            validators = _TwoValidators(schema)
            for instance in instances:
                if not validators.accept(instance):
                    raise ValueError(f"{part} {name}: {validators.broken_keyword(instance)}")
            shorter = next(
                (value for whole in instances for value in _without_a_key(whole) if validators.accept(value)),
                None,
            )
            valid = [*instances, *([] if shorter is None else [shorter])]
            tests = [{"valid": True, "data": value} for value in valid]
            tests += [{"valid": False, "data": value} for value in _invalid(validators, instances)]
            if len(tests) == len(valid):
                raise ValueError(f"{part} {name}: no change makes it invalid")
            yield {"_file": f"{part}---{name}.json", "schema": schema, "tests": tests}


class _TwoValidators:
    """A fast validator, and a second one that must agree about every instance that is kept."""

    def __init__(self, schema: Any) -> None:
        validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        validator.check_schema(schema)
        self._second = validator(schema, format_checker=validator.FORMAT_CHECKER)
        self._fast = jsonschema_rs.validator_for(schema, validate_formats=True)

    def accept(self, value: Any) -> bool:
        return bool(self._fast.is_valid(value) and self._second.is_valid(value))

    def broken_keyword(self, value: Any) -> str | None:
        """Return a keyword that the value breaks, or None if it is valid."""
        error = next(self._fast.iter_errors(value), None)
        return None if error is None else str(error.schema_path[-1])

    def second_rejects(self, value: Any) -> bool:
        return not self._second.is_valid(value)


def _invalid(validators: _TwoValidators, instances: list[Any]) -> list[Any]:
    best: dict[str, tuple[int, Any]] = {}
    for whole in instances:
        for depth, changed in _changed(whole):
            keyword = validators.broken_keyword(changed)
            if (
                keyword
                and (keyword not in best or depth > best[keyword][0])
                and validators.second_rejects(changed)
            ):
                best[keyword] = (depth, changed)
    return [changed for _, changed in list(best.values())[:_MOST_INVALID]]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        yield from _paths(inner, (*path, key))


def _changed(whole: Any) -> Iterator[tuple[int, Any]]:
    for path in _paths(whole):
        here = _at(whole, path)
        new: list[Any] = [value for value in _STRANGE if type(value) is not type(here) or value != here]
        if isinstance(here, dict):
            new += [{k: v for k, v in here.items() if k != key} for key in here]
            new.append({**here, "unexpected_key": 1})
        if isinstance(here, list):
            new += [here[:-1], here + here[-1:], here * 30]
        if isinstance(here, str):
            new += [here + "!", here[:-1], here * 200]
        for value in new:
            yield len(path), _with(whole, path, value)


def _without_a_key(whole: Any) -> Iterator[Any]:
    for path in _paths(whole):
        here = _at(whole, path)
        if isinstance(here, dict):
            for key in reversed(here):
                yield _with(whole, path, {k: v for k, v in here.items() if k != key})


def _at(whole: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        whole = whole[key]
    return whole


def _with(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(whole)
    _at(changed, path[:-1])[path[-1]] = value
    return changed


def main() -> None:
    """Write the file and print its size."""
    argument_parser("bench.evaluation.schemas", __doc__).parse_args()
    folder = Path(structgen.__file__).parent / "evaluation" / "data"
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(item, ensure_ascii=False, separators=(",", ":")) + "\n" for item in items()]
    (folder / "schemas.jsonl").write_text("".join(lines), "utf-8")
    print(f"{len(lines)} schemas, {sum(map(len, lines)):,} characters")


if __name__ == "__main__":
    main()
