"""Fixtures for processes that only CPU time limits, and for stopping them in the middle of their work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from structgen.serving import isolating_compiler, migrating_matcher
from tests.unhurried import HANG_SECONDS, stopped_processes, unhurried_processes

__all__ = ["quick_stays_quick", "stopped_processes", "unhurried_processes", "until"]


def until(condition: Callable[[], Any], seconds: float = HANG_SECONDS) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.002)


@pytest.fixture
def quick_stays_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep constraints that are quick on an idle machine in this process on a busy one, too."""
    monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", 30.0)
    for module in (isolating_compiler, migrating_matcher):
        monkeypatch.setattr(module, "CALL_SECONDS", 30.0)
    monkeypatch.setattr(migrating_matcher, "_SLOW_CALL_SECONDS", 30.0)
