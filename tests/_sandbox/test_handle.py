"""Handles of processes: a signal reaches the process that is meant, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from structgen._sandbox.handle import ProcessHandle

PROGRAM = [sys.executable, "-c", "input()"]


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_a_handle_kills_its_process(monkeypatch: pytest.MonkeyPatch, has_descriptors: bool) -> None:
    if not has_descriptors:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    child = subprocess.Popen(PROGRAM, stdin=subprocess.PIPE)
    handle = ProcessHandle(child.pid, by_pid=True)
    handle.kill()
    assert child.wait() == -signal.SIGKILL
    handle.close()
    handle.close()
    assert child.stdin is not None
    child.stdin.close()


def test_a_closed_handle_sends_no_signal() -> None:
    child = subprocess.Popen(PROGRAM, stdin=subprocess.PIPE)
    handle = ProcessHandle(child.pid, by_pid=True)
    handle.close()
    handle.kill()
    child.communicate(b"\n")
    assert child.returncode == 0


@pytest.mark.parametrize("pid", [1 << 22, 1 << 40])
def test_an_unused_process_id_gets_no_signal(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    handle = ProcessHandle(pid, by_pid=True)
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    handle.kill()
    assert not killed
