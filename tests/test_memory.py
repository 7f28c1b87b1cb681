"""Objects that tests no longer need are released; objects that they still hold keep working."""

from __future__ import annotations

import functools
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import structgen as sg
from tests import conftest, embedded, memory
from tests.core.small_vocabulary import byte_vocabulary


def test_engines_are_built_again_and_matchers_go_on() -> None:
    vocabulary = byte_vocabulary()
    matcher = sg.Matcher(sg.regex("ab+"), vocabulary)
    assert matcher.advance(2 + ord("a"))
    engine = vocabulary.engine
    memory.release()
    assert vocabulary.engine is not engine
    assert matcher.advance(2 + ord("b")) and matcher.is_complete()
    assert sg.Matcher(sg.regex("ab+"), vocabulary).advance(2 + ord("a"))


def test_programs_are_released() -> None:
    vocabulary = sg.Vocabulary.of_bytes()
    for pattern in ("(((a|ab){2,3}){4,7}|b){200}", "((a|ab){1,9}(b|bc|c){1,9}){60}"):
        matcher = sg.Matcher(sg.regex(pattern), vocabulary)
        matcher.mask()
        matcher.witness()
    held = vocabulary.engine.memory
    del matcher
    memory.release()
    assert vocabulary.engine.memory < held / 4


def test_memory_is_measured() -> None:
    assert 0 <= memory.resident() <= memory.peak()


IMPORTED = sg.Vocabulary.of_bytes()


def test_engines_of_vocabularies_that_modules_made_are_released() -> None:
    engine = IMPORTED.engine
    memory.release()
    assert IMPORTED.engine is not engine


def test_only_caches_of_the_module_itself_are_cleared() -> None:
    @functools.cache
    def own() -> object:
        return object()

    @functools.cache
    def imported() -> object:
        return object()

    module = ModuleType("a_module")
    own.__module__ = module.__name__
    module.own, module.imported = own, imported  # type: ignore[attr-defined]
    first = own(), imported()
    memory.clear_caches(module)
    assert own() is not first[0] and imported() is first[1]


@pytest.mark.parametrize("excess", [0, 1])
def test_a_run_ends_with_the_peak_of_each_worker(excess: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "_peaks", {})
    for number in (0, 1):
        gateway = SimpleNamespace(id=f"gw{number}")
        conftest.pytest_testnodedown(
            SimpleNamespace(gateway=gateway, workeroutput={"memory": [5 << 20, excess]})
        )
    session: Any = SimpleNamespace(config=SimpleNamespace())
    conftest.pytest_sessionfinish(session)
    written: list[str] = []
    conftest.pytest_terminal_summary(SimpleNamespace(stats={}, section=written.append, line=written.append))
    assert written[0] == "memory" and [line[:15] for line in written[1:]] == [
        "gw0: 5 MB at it",
        "gw1: 5 MB at it",
    ]
    assert ("above the limit" in written[-1]) == bool(excess)


def test_a_worker_reports_its_peak() -> None:
    session: Any = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
    conftest.pytest_sessionfinish(session)
    peak, excess = session.config.workeroutput["memory"]
    assert 0 <= excess <= peak <= memory.peak()


def test_tests_of_the_embedded_model_come_first(request: pytest.FixtureRequest) -> None:
    order = [embedded.place_in_order(item) for item in request.session.items]
    assert order == sorted(order) and embedded.place_in_order(request.node) == 5
