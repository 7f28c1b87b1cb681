"""The fake server as an analyser, and how to see that nothing is left of it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from structgen.monitors.language_server import LanguageServer

FAKE = Path(__file__).with_name("fake_server.py")

Fake = Callable[..., LanguageServer]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Fake]:
    """Start servers with options of `fake_server`; ``client`` holds the options of `LanguageServer`."""
    made = []

    def make(client: dict[str, Any] | None = None, **options: Any) -> LanguageServer:
        given = {"timeout": 300.0, "warm_up": 300.0, **(client or {})}
        command = [sys.executable, "-S", str(FAKE), json.dumps(options)]
        made.append(LanguageServer("fake", command, tmp_path, "other", **given))
        return made[-1]

    yield make
    for server in made:
        server.close()


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie counts, except one that another process has to reap."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return not (state[0] == "Z" and int(state[1]) != os.getpid())
    return True


def eventually(condition: Callable[[], bool], seconds: float = 300.0) -> bool:
    """Return whether a condition becomes true before long."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
