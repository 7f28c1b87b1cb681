"""Fixtures: matcher processes, processes that only CPU time limits, and constraints that stay quick."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from structgen._sandbox.priority import SlowWork
from structgen.serving import isolating_compiler, migrating_matcher
from structgen.serving.limits import RequestLimits
from structgen.serving.matcher_processes import MatcherProcesses
from tests.unhurried import stopped_processes, unhurried_processes

from .isolation import VOCABULARY

__all__ = ["processes", "quick_stays_quick", "stopped_processes", "unhurried_processes"]


@pytest.fixture
def quick_stays_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep constraints that are quick on an idle machine in this process on a busy one, too."""
    monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", 30.0)
    for module in (isolating_compiler, migrating_matcher):
        monkeypatch.setattr(module, "CALL_SECONDS", 30.0)
    monkeypatch.setattr(migrating_matcher, "_SLOW_CALL_SECONDS", 30.0)


@pytest.fixture(scope="module")
def processes() -> Iterator[MatcherProcesses]:
    made = MatcherProcesses(VOCABULARY, RequestLimits(max_matcher_processes=3, step_seconds=5.0), SlowWork())
    yield made
    made.close()
