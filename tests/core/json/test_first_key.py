"""The first declared key of a document with branches, which compiling resolves."""

from __future__ import annotations

import json
from typing import Any

import pytest

import structgen as sg
from structgen import _core
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

BRANCHES = 200


def tagged(index: int) -> dict[str, Any]:
    """Return an object that its name tells apart from all others."""
    return {
        "type": "object",
        "properties": {
            "name": {"const": f"name_{index}"},
            "value": {"type": ["integer", "string"][index % 2]},
        },
        "required": ["name", "value"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("ordered", [False, True])
def test_the_mask_after_the_first_key_does_little_work(ordered: bool) -> None:
    """The keys of all branches were decided by the compiler, which did more work than for the other key."""
    schema = json.dumps({"anyOf": [tagged(index) for index in range(BRANCHES)]})
    own = Vocabulary.of_bytes().with_limits(call_steps=60_000_000)  # an engine of its own
    program = own.engine.compile(sg.json_schema(schema, ordered=ordered).lower())
    matcher = _core.Matcher(program)
    for byte in b'{"name':
        assert matcher.advance(byte)
    before = _core.work_done()
    matcher.mask()
    assert _core.work_done() - before < 20 * BRANCHES


@pytest.mark.parametrize("text", ['{"name": "name_7", "value": "x"}', '{"value": "x", "name": "name_7"}'])
def test_objects_may_begin_with_another_key(text: str) -> None:
    """What was found out for the first key does not bind the text."""
    schema = json.dumps({"anyOf": [tagged(index) for index in range(BRANCHES)]})
    matcher = Matcher(sg.json_schema(schema), Vocabulary.of_bytes())
    assert matcher.accepts(list(text.encode())) == len(text)
    wrong = text.replace('"x"', "1")
    assert matcher.accepts(list(wrong.encode())) < len(wrong)
