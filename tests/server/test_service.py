"""The service leaves all slow work to other threads, so that the event loop answers other requests meanwhile."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from structgen.server.settings import ServerSettings
from structgen.serving.probe import ProbeResult, probe_compile
from tests.unhurried import HANG_SECONDS

from .conftest import NAME, Running, fetched


def test_without_compilers_a_probe_does_not_block_the_event_loop(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_started, may_run = threading.Event(), threading.Event()

    def waits(*given: Any) -> ProbeResult:
        has_started.set()
        assert may_run.wait(HANG_SECONDS)
        return probe_compile(*given)

    monkeypatch.setattr("structgen.serving.probes.probe_compile", waits)
    running = Running(model, ServerSettings(model_name=NAME, compilers=0, samplers=0))
    texts: list[str] = []

    def complete() -> None:
        answer = running.client().completions.create(
            model=NAME, prompt="Say a.", max_tokens=4, extra_body={"guided_regex": "a"}
        )
        texts.append(answer.choices[0].text)

    client = threading.Thread(target=complete)
    client.start()
    try:
        assert has_started.wait(HANG_SECONDS)
        assert json.loads(fetched(f"{running.url}/health"))["status"] == "ok"
        assert client.is_alive()
    finally:
        may_run.set()
        client.join(HANG_SECONDS)
        running.stop()
    assert texts == ["a"]
