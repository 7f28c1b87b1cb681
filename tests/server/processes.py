"""`structgen serve` as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from .conftest import until

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Count."}]}


class Process:
    """One server process and its output."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.said: list[str] = []
        command = [sys.executable, "-m", "structgen", "serve", "--port", "0", "--name", "tiny", *arguments]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        until(lambda: self.url is not None or self.process.poll() is not None, 600)
        assert self.url is not None, self.text

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)

    @property
    def text(self) -> str:
        return "".join(self.said)

    @property
    def url(self) -> str | None:
        found = re.search(r"served at (http://[^ ]+)/v1", self.text)
        return found and found[1]

    def post(self, seconds: float = 600, **fields: Any) -> tuple[int, Any]:
        """The answer, if it is there within so many seconds."""
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions",
            json.dumps({**BODY, **fields}).encode(),
            {"Authorization": "Bearer secret"},
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def children(self) -> list[int]:
        """Processes that it started."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parts = stat.read_text().rpartition(")")[2].split()
                if int(parts[1]) == self.process.pid:
                    found.append(int(stat.parent.name))
        return found

    def end(self) -> int:
        status = self.process.wait(300)
        self._reader.join(300)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


def running(process: Process) -> int:
    with urllib.request.urlopen(f"{process.url}/health") as answer:
        found: int = json.loads(answer.read())["open"]
        return found
