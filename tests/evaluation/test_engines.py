"""Every engine of the protocol, on schemas that all of them enforce."""

from __future__ import annotations

import json

import pytest

from structgen.errors import OptionError
from structgen.evaluation.engines import ENGINES, Engine, accepts, check_engine, engine_version, open_engine
from structgen.vocabulary import Vocabulary

_BYTES = Vocabulary.of_bytes()
_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
_ENFORCING = [name for name in ENGINES if name != "unconstrained"]


def _opened(name: str) -> Engine:
    pytest.importorskip(ENGINES[name].module)
    return open_engine(name, _BYTES)


@pytest.mark.parametrize("name", _ENFORCING)
def test_an_engine_tells_valid_from_invalid(name: str) -> None:
    engine = _opened(name)
    program = engine.compile(json.dumps(_SCHEMA))
    verdicts = {
        text: accepts(engine.start(program), list(text.encode()), 256)
        for text in ('{"a": 1, "b": "x"}', '{"a": 1.5, "b": "x"}', '{"a": 1, "b": "z"}', '{"a": 1')
    }
    assert list(verdicts.values()) == [True, False, False, False]


@pytest.mark.parametrize("name", _ENFORCING)
def test_sessions_are_independent_and_masks_have_the_words_of_the_vocabulary(name: str) -> None:
    engine = _opened(name)
    program = engine.compile(json.dumps(_SCHEMA))
    first, second = engine.start(program), engine.start(program)
    before = second.mask().copy()
    assert first.mask().shape == (_BYTES.words,) and first.mask().dtype == "int32"
    assert first.accept(ord("{"))
    assert (second.mask() == before).all()
    assert accepts(second, list(b'{"a": 1, "b": "y"}'), 256)


# lm-format-enforcer reads an unknown type as any value.
@pytest.mark.parametrize("name", [name for name in _ENFORCING if name != "lm-format-enforcer"])
def test_an_invalid_schema_is_refused(name: str) -> None:
    engine = _opened(name)
    with pytest.raises(Exception):  # noqa: B017, PT011  (each engine has its own)
        engine.compile('{"type": "nothing like it"}')


def test_without_constraint_any_text_may_be_written() -> None:
    engine = open_engine("unconstrained", _BYTES)
    session = engine.start(engine.compile("false"))
    assert accepts(session, list(b"\xff no JSON"), 256)
    assert int(session.mask()[0]) == -1


def test_an_unknown_engine_is_reported_by_name() -> None:
    with pytest.raises(OptionError, match=r"no engine 'x'.*\n?.*structgen, llguidance, xgrammar"):
        open_engine("x", _BYTES)
    with pytest.raises(OptionError, match=r"(?s)'openai:host' has no address.*openai:http://HOST/v1#MODEL"):
        check_engine("openai:host")


def test_an_engine_that_is_not_installed_is_reported_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ENGINES, "xgrammar", ENGINES["xgrammar"]._replace(module="no_such_module"))
    with pytest.raises(OptionError, match=r"(?s)not installed.*pip install xgrammar"):
        check_engine("xgrammar")


def test_versions() -> None:
    from structgen import __version__

    assert engine_version("structgen") == engine_version("unconstrained") == __version__
