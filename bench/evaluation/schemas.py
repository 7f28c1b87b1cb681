"""The bundled sample of `structgen eval`: schemas of `github` and `others` with valid and invalid instances.

    python -m bench.evaluation.schemas

writes structgen/evaluation/data/schemas.jsonl. Valid instances are written by hand, with keys in the schema's order
(engines that fix the order are asked what they promise); more come by leaving an optional key out. Invalid ones are
the valid ones with one thing changed: a key left out or added, a value of another kind, a number or text beyond its
bounds. Of these at most four are kept, each breaking another keyword at the deepest place.
Invariant: jsonschema-rs and jsonschema, both with formats asserted, agree with every label; the same file every time.
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

from . import github, others

__all__ = ["items", "main"]

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


def items() -> Iterator[dict[str, Any]]:
    """The lines of the file."""
    for part, written in (github.SCHEMAS | others.SCHEMAS).items():
        for name, schema, instances in written:
            told = _Told(schema)
            for instance in instances:
                if not told.valid(instance):
                    raise ValueError(f"{part} {name}: {told.broken(instance)}")
            shorter = next((one for whole in instances for one in _shorter(whole) if told.valid(one)), None)
            valid = [*instances, *([] if shorter is None else [shorter])]
            tests = [{"valid": True, "data": one} for one in valid]
            tests += [{"valid": False, "data": one} for one in _invalid(told, instances)]
            if len(tests) == len(valid):
                raise ValueError(f"{part} {name}: no change makes it invalid")
            yield {"_file": f"{part}---{name}.json", "schema": schema, "tests": tests}


class _Told:
    """The quick validator, and a second one that must agree about what is kept."""

    def __init__(self, schema: Any) -> None:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        kind.check_schema(schema)
        self._second = kind(schema, format_checker=kind.FORMAT_CHECKER)
        self._quick = jsonschema_rs.validator_for(schema, validate_formats=True)

    def valid(self, value: Any) -> bool:
        return bool(self._quick.is_valid(value) and self._second.is_valid(value))

    def broken(self, value: Any) -> str | None:
        """A keyword that the value breaks."""
        error = next(self._quick.iter_errors(value), None)
        return None if error is None else str(error.schema_path[-1])

    def agreed(self, value: Any) -> bool:
        return not self._second.is_valid(value)


def _invalid(told: _Told, instances: list[Any]) -> list[Any]:
    best: dict[str, tuple[int, Any]] = {}
    for whole in instances:
        for depth, changed in _changed(whole):
            keyword = told.broken(changed)
            if keyword and (keyword not in best or depth > best[keyword][0]) and told.agreed(changed):
                best[keyword] = (depth, changed)
    return [changed for _, changed in list(best.values())[:_MOST_INVALID]]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        yield from _places(inner, (*path, key))


def _changed(whole: Any) -> Iterator[tuple[int, Any]]:
    for path in _places(whole):
        here = _at(whole, path)
        new: list[Any] = [one for one in _STRANGE if type(one) is not type(here) or one != here]
        if isinstance(here, dict):
            new += [{k: v for k, v in here.items() if k != key} for key in here]
            new.append({**here, "unexpected_key": 1})
        if isinstance(here, list):
            new += [here[:-1], here + here[-1:], here * 30]
        if isinstance(here, str):
            new += [here + "!", here[:-1], here * 200]
        for one in new:
            yield len(path), _with(whole, path, one)


def _shorter(whole: Any) -> Iterator[Any]:
    for path in _places(whole):
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
    told = copy.deepcopy(whole)
    _at(told, path[:-1])[path[-1]] = value
    return told


def main() -> None:
    """Write the file."""
    folder = Path(structgen.__file__).parent / "evaluation" / "data"
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(item, ensure_ascii=False, separators=(",", ":")) + "\n" for item in items()]
    (folder / "schemas.jsonl").write_text("".join(lines), "utf-8")
    print(f"{len(lines)} schemas, {sum(map(len, lines)):,} characters")


if __name__ == "__main__":
    main()
