"""Every engine behind the protocol, on schemas that all follow."""

from __future__ import annotations

import json

import pytest

from structgen.errors import OptionError
from structgen.evaluation.engines import ENGINES, accepts, open_engine
from structgen.vocabulary import Vocabulary

_BYTES = Vocabulary.of_bytes()
_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_tells_valid_from_invalid(name: str) -> None:
    pytest.importorskip(ENGINES[name][0])
    engine = open_engine(name, _BYTES)
    program = engine.compile(json.dumps(_SCHEMA))
    verdicts = {
        text: accepts(engine.start(program), list(text.encode()), 256)
        for text in ('{"a": 1, "b": "x"}', '{"a": 1.5, "b": "x"}', '{"a": 1, "b": "z"}', '{"a": 1')
    }
    assert list(verdicts.values()) == [True, False, False, False]


@pytest.mark.parametrize("name", ENGINES)
def test_a_schema_that_is_none_is_refused(name: str) -> None:
    pytest.importorskip(ENGINES[name][0])
    with pytest.raises(Exception):  # noqa: B017, PT011  (each engine has its own)
        open_engine(name, _BYTES).compile('{"type": "nothing like it"}')


def test_an_unknown_engine_is_told_by_name() -> None:
    with pytest.raises(OptionError, match=r"no engine 'x'.*\n?.*structgen, llguidance, xgrammar"):
        open_engine("x", _BYTES)
