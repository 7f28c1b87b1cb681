"""A server that is killed or stopped in the middle of its work leaves no processes or files, and can start again."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import until
from .processes import Process, running

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")

STARVED = 600
"""Seconds for work at idle priority while other tests keep the processors busy."""
ENDLESS = "start: a+\na: " + " | ".join(f'"{i}" a?' for i in range(20_000))


def test_killed_and_started_again(tmp_path: Path) -> None:
    shared = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    first = started(tmp_path, "--port", "0")
    with killed_at_the_end(first):
        found: list[tuple[int, Any]] = []
        threads = load(first, found)
        below = descendants(first.process.pid)
        assert len(below) >= 4
        first.process.send_signal(signal.SIGKILL)
        assert first.end() == -signal.SIGKILL
        until(lambda: not any(lives(pid) for pid in below))
        joined(threads)
        assert not found
    assert not left_in(tmp_path)

    port = re.search(r":(\d+)$", str(first.url))
    assert port is not None
    again = started(tmp_path, "--port", port[1], "--drain-seconds", "1")
    with killed_at_the_end(again):
        status, body = again.post(structured_outputs={"choice": ["yes", "no"]})
        assert status == 200 and body["choices"][0]["message"]["content"] in ("yes", "no")
        threads = load(again, found)
        below = descendants(again.process.pid)
        again.process.send_signal(signal.SIGTERM)
        assert again.end() == 0
        assert "Traceback" not in again.text, again.text
        until(lambda: not any(lives(pid) for pid in below))
        joined(threads)
        # Every request gets an answer.
        assert [status for status, _ in found] == [503] * 4, found
        assert all(body["error"]["code"] in ("draining", "closed") for _, body in found)
    assert not left_in(tmp_path)
    if shared:
        assert set(os.listdir("/dev/shm")) <= shared


@contextlib.contextmanager
def killed_at_the_end(server: Process) -> Iterator[None]:
    try:
        yield
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.end()


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(2 * STARVED)
        assert not thread.is_alive()


def left_in(folder: Path) -> list[str]:
    """List the files, except the folder that torch makes when it is imported."""
    return [name for name in os.listdir(folder) if not name.startswith("torchinductor_")]


def started(folder: Path, *arguments: str) -> Process:
    return Process(*arguments, "--compile-seconds", "60", STRUCTGEN_API_KEY="secret", TMPDIR=str(folder))


def load(server: Process, found: list[tuple[int, Any]]) -> list[threading.Thread]:
    """Send two long requests: the constraint of one has a matcher process, that of the other is still being probed."""
    long = {"structured_outputs": {"regex": "[a-z]{9000}"}, "max_tokens": 4000}
    threads: list[threading.Thread] = []

    def ask(**fields: Any) -> None:
        threads.append(threading.Thread(target=post, args=(server, fields, found)))
        threads[-1].start()

    ask(**long)
    ask(**long | {"structured_outputs": {"regex": "[a-y]{9000}"}})
    # Completions are searched for in matcher processes only, so this one needs a process on any machine.
    ask(
        structured_outputs={"regex": "([a-z] ){1900}"},
        max_tokens=3800,
        structgen={"close_within_budget": True},
    )
    until(lambda: found or has_matcher_process(server.process.pid), STARVED)
    # Stopped workers keep the probe running until the server ends, however fast the machine is.
    compiling = workers(server.process.pid)
    assert compiling
    for pid in compiling:
        os.kill(pid, signal.SIGSTOP)
    ask(structured_outputs={"grammar": ENDLESS})
    until(lambda: found or running(server) == 4, STARVED)
    assert not found, found
    return threads


def post(server: Process, fields: dict[str, Any], found: list[tuple[int, Any]]) -> None:
    with contextlib.suppress(OSError, ValueError):  # the server may end before or during its answer
        found.append(server.post(2 * STARVED, **fields))


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def has_matcher_process(pid: int) -> bool:
    """Return whether the process that makes matcher processes has forked one."""
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            if "matcher_worker" in Path(f"/proc/{child}/cmdline").read_text() and descendants(child):
                return True
    return False


def workers(pid: int) -> list[int]:
    """List the probe workers, each of which another process has forked."""
    found = []
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            if "serving.probe_worker" in Path(f"/proc/{child}/cmdline").read_text():
                found += descendants(child)
    return found


def lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
