"""What drafts and passes cost is measured by clocks of these tests, not by how busy the machine is."""

from __future__ import annotations

import pytest

from structgen.generation import loop
from structgen.generation import prefix_logits as ahead
from structgen.speculative import generation_drafts as run
from structgen.speculative import guarded
from tests.clocks import HandClock


@pytest.fixture(autouse=True)
def drafting_clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """Each pass takes a millisecond. Drafters take as long as they advance the clock that this fixture returns."""
    passes, drafters = HandClock(tick=0.001), HandClock()
    for module, clock in ((ahead, passes), (loop, passes), (guarded, drafters), (run, drafters)):
        monkeypatch.setattr(module, "time", clock)
    return drafters
