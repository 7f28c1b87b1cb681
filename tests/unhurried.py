"""Processes of the serving layer that only CPU time limits.

Why: in a server they run when others leave a processor idle, and one that gets no CPU time for long is ended as `busy`.
On a machine that other tests keep busy, both would decide what a test sees.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from structgen._sandbox.spawn import python_command
from structgen.serving import matcher_process, probe_process, probes
from structgen.serving.matcher_process import Lane

__all__ = ["HANG_SECONDS", "stopped_lanes", "unhurried_processes"]

HANG_SECONDS = 600.0
"""By the clock on the wall; only what hangs takes so long."""
_PROBE_WORKER = (
    "from structgen.serving import probe_worker as w; w.lower_priority = lambda by: None; w.main()"
)
_MATCHER_WORKER = (
    "from structgen.serving import matcher_worker as w; w.run_when_idle = lambda: None; w.main()"
)


def _same_priority(*_: object) -> None:
    """Stands in for `run_when_idle` and `lower_priority`."""


@pytest.fixture(scope="package", autouse=True)
def unhurried_processes() -> Iterator[None]:
    """Run worker processes at the priority of the test, without limits of wall time.

    A test about priorities or wall time sets them itself.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (matcher_process, probe_process):
            patch.setattr(module, "wall_limit", lambda used: HANG_SECONDS)
            patch.setattr(module, "_START_SECONDS", HANG_SECONDS)
        patch.setattr(matcher_process, "_ANSWER_SECONDS", HANG_SECONDS)
        patch.setattr(probe_process, "_RENEW_SECONDS", HANG_SECONDS)
        patch.setattr(probe_process, "run_when_idle", _same_priority)
        patch.setattr(probe_process, "lower_priority", _same_priority)
        patch.setattr(probe_process, "_COMMAND", python_command(_PROBE_WORKER))
        patch.setattr(matcher_process, "_COMMAND", python_command(_MATCHER_WORKER))
        patch.setattr(probes, "_PATIENCE", HANG_SECONDS)
        yield


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@pytest.fixture
def stopped_lanes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lanes stop before they build their automaton: it is being built until the test sends SIGCONT.

    Returns:
        The numbers of their processes, in the order in which they were opened.
    """
    pids: list[int] = []
    begin = Lane.begin

    def stopped(lane: Lane, *arguments: Any) -> None:
        end = time.monotonic() + HANG_SECONDS
        while not _sleeps(lane.pid):  # it has made itself ready, and waits for what it is to build
            assert time.monotonic() < end
            time.sleep(0.001)
        os.kill(lane.pid, signal.SIGSTOP)
        pids.append(lane.pid)
        begin(lane, *arguments)

    monkeypatch.setattr(Lane, "begin", stopped)
    return pids
