"""Objects with tens of thousands of keys have completions, with work linear in the keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

import structgen as sg
from structgen import _core
from structgen.errors import LimitExceeded

NULL = {"type": "null"}


def names(count: int) -> list[str]:
    return [f"k{i}" for i in range(count)]


LARGE: dict[str, Any] = {
    "any keys": lambda n: {"minProperties": n},
    "scalars": lambda n: {"minProperties": n, "additionalProperties": {"type": "integer"}},
    "objects": lambda n: {"minProperties": n, "additionalProperties": {"type": "object", "required": ["a"]}},
    "names of a pattern": lambda n: {"minProperties": n, "propertyNames": {"pattern": "^[a-z]{1,5}$"}},
    "short names": lambda n: {"minProperties": n, "propertyNames": {"maxLength": 4}},
    "a pattern": lambda n: {
        "minProperties": n,
        "patternProperties": {"^[a-z]{1,6}$": NULL},
        "additionalProperties": False,
    },
    "nested": lambda n: {"required": ["a"], "properties": {"a": {"type": "object", "minProperties": n}}},
}


def completion(schema: dict[str, Any]) -> tuple[Any, int]:
    """A completion of an object, and the work that it took."""
    matcher = sg.Matcher(sg.json_schema({"type": "object", **schema}), sg.Vocabulary.of_bytes())
    before = _core.work_done()
    text = matcher.witness_text()
    work = _core.work_done() - before
    assert text is not None
    assert matcher.viable_bytes(text) == len(text) and matcher.witness_text(text) == b""
    return json.loads(text), work


@pytest.mark.parametrize("name", LARGE)
def test_large_objects_have_completions_in_linear_work(name: str) -> None:
    """The count is above what the table of shortest texts fills, so the keys are taken one by one."""
    small, work = completion(LARGE[name](25_000))
    large, more = completion(LARGE[name](50_000))
    for value, count in ((small, 25_000), (large, 50_000)):
        assert len(value.get("a", value) if name == "nested" else value) == count
    assert more < 2.5 * work


def test_an_object_of_131070_keys_has_a_completion() -> None:
    value, _ = completion({"minProperties": 131_070, "additionalProperties": NULL})
    assert len(value) == 131_070


def test_many_required_keys_have_completions() -> None:
    value, work = completion({"required": names(20_000)})
    assert sorted(value) == sorted(names(20_000))
    assert work < 50_000_000


def test_the_limit_that_stops_a_completion_is_named() -> None:
    schema = {"type": "object", "required": names(20_000)}
    matcher = sg.Matcher(sg.json_schema(schema), sg.Vocabulary.of_bytes().with_limits(call_steps=2 * 10**6))
    with pytest.raises(LimitExceeded) as caught:
        matcher.witness_text()
    assert caught.value.limit == "call_steps"
