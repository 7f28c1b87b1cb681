"""The parent's side of the grammar benchmark's workers: one query at a time, with limits of time and memory.

Invariant: `ask` returns an answer, or an error with the reason. A worker that died or was too slow is started again for
the next query.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from structgen._sandbox.line_process import LineProcess, describe_exit

__all__ = ["Process"]

_START_SECONDS = 300
_WALL_PER_CPU = 6
"""Wall time allowed per second of CPU time, since the machine may be busy."""
_POLL_SECONDS = 0.2
_ERROR_BYTES = 2000


class Process:
    """A worker with one engine and one tokenizer."""

    def __init__(self, engine: str, tokenizer: str, *, core: int, seconds: float, megabytes: float) -> None:
        root = Path(__file__).resolve().parents[2]
        # The parent's import path comes too. Without it the worker may import another copy of the library.
        path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
        self._process = LineProcess(
            [sys.executable, "-m", "bench.grammars.worker", engine, tokenizer, str(core)],
            environment={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            folder=root,
        )
        self._seconds = seconds
        self._megabytes = megabytes

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """Return the answer, or ``{"error": reason}`` if the worker gave no answer."""
        if not self._process.is_started:
            self._process.start()
            answer = self._answer(_START_SECONDS)
            if "error" in answer:
                return answer
        self._process.send(json.dumps({"do": do, **what}))
        return self._answer(self._seconds)

    def close(self) -> None:
        """End the worker, if there is one."""
        self._process.close()

    def _answer(self, seconds: float) -> dict[str, Any]:
        process = self._process
        began, cpu = time.monotonic(), process.usage().cpu_seconds
        while True:
            try:
                answer = process.next_line(_POLL_SECONDS)
            except EOFError:
                return self._death()
            if answer is not None:
                return answer
            usage = process.usage()
            if usage.cpu_seconds - cpu > seconds or time.monotonic() - began > _WALL_PER_CPU * seconds:
                self.close()
                return {"error": f"took more than {seconds:g} s"}
            if usage.resident_bytes > self._megabytes * 2**20:
                self.close()
                return {"error": f"took more than {self._megabytes:g} MB"}

    def _death(self) -> dict[str, Any]:
        """Return how the worker ended, with the last line of its error output, such as an exception's message."""
        ended = f"ended with {describe_exit(self._process.wait())}"
        lines = self._process.error_output(_ERROR_BYTES).split("\n")
        reason = next((line.strip() for line in reversed(lines) if line.strip()), "")
        self.close()
        return {"error": f"{ended}: {reason}" if reason else ended}
