"""Processes of the serving layer that are limited by CPU time alone.

Why: in a server they run on idle processors, and one that gets no CPU time for long is ended as `busy`. On a machine
that other tests keep busy, both would change what a test observes.
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
from structgen.serving import matcher_process, matcher_processes, probe_process, probes
from structgen.serving.matcher_process import MatcherProcess

__all__ = ["HANG_SECONDS", "stopped_processes", "unhurried_processes"]

HANG_SECONDS = 600.0
"""Wall time that only a process that hangs takes."""
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
            patch.setattr(module, "wall_limit", lambda cpu_seconds: HANG_SECONDS)
        for starter in (matcher_processes, probe_process):
            patch.setattr(starter, "_START_SECONDS", HANG_SECONDS)
        patch.setattr(matcher_processes, "_FORK_SECONDS", HANG_SECONDS)
        patch.setattr(probe_process, "_RENEW_SECONDS", HANG_SECONDS)
        patch.setattr(probe_process, "run_when_idle", _same_priority)
        patch.setattr(probe_process, "lower_priority", _same_priority)
        patch.setattr(probe_process, "_COMMAND", python_command(_PROBE_WORKER))
        patch.setattr(matcher_processes, "_COMMAND", python_command(_MATCHER_WORKER))
        patch.setattr(probes, "_SPARE_SECONDS", HANG_SECONDS)
        yield


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@pytest.fixture
def stopped_processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stop each matcher process before it builds its automaton. The test continues it with SIGCONT.

    Returns:
        The process ids, in the order in which the processes were started.
    """
    pids: list[int] = []
    build = MatcherProcess.build

    def stopped(process: MatcherProcess, *arguments: Any) -> None:
        end = time.monotonic() + HANG_SECONDS
        while not _sleeps(process.pid):  # it is ready, and waits for a constraint
            assert time.monotonic() < end
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGSTOP)
        pids.append(process.pid)
        build(process, *arguments)

    monkeypatch.setattr(MatcherProcess, "build", stopped)
    return pids
