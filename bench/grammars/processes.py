"""Workers of the grammar benchmark as their parent sees them: asked one thing at a time, within a time.

Invariant: an answer or the reason why there is none; a worker that died or was too slow is started anew when it is
asked again.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

__all__ = ["Process"]

_START_SECONDS = 300
_WALL_PER_CPU = 6
"""A machine may be busy: the wall's limit is that much longer than the processor's."""
_POLL_SECONDS = 0.2
_ERROR_BYTES = 2000


class Process:
    """A worker with one engine and one tokenizer."""

    def __init__(self, engine: str, tokenizer: str, *, core: int, seconds: float, megabytes: float) -> None:
        self._command = [sys.executable, "-m", "bench.grammars.worker", engine, tokenizer, str(core)]
        self._seconds = seconds
        self._megabytes = megabytes
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""
        self._errors: IO[bytes] | None = None

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """The answer; ``{"error": reason}`` where there is none."""
        if self._process is None:
            self._start()
            answer = self._answer(_START_SECONDS)
            if "error" in answer:
                return answer
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write((json.dumps({"do": do, **what}) + "\n").encode())
        self._process.stdin.flush()
        return self._answer(self._seconds)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _start(self) -> None:
        root = Path(__file__).resolve().parents[2]
        # The parent's import path comes too. Without it the worker may import another copy of the library.
        path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._read = b""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=root,
            env=environment,
        )

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        output = self._process.stdout
        began, cpu = time.monotonic(), self._cpu_seconds()
        while b"\n" not in self._read:
            if select.select([output], [], [], _POLL_SECONDS)[0]:
                part = os.read(output.fileno(), 1 << 20)
                if not part:
                    return self._dead()
                self._read += part
            elif self._cpu_seconds() - cpu > seconds or time.monotonic() - began > _WALL_PER_CPU * seconds:
                self.close()
                return {"error": f"took more than {seconds:g} s"}
            elif self._memory() > self._megabytes:
                self.close()
                return {"error": f"took more than {self._megabytes:g} MB"}
        line, self._read = self._read.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _dead(self) -> dict[str, Any]:
        assert self._process is not None
        status = self._process.wait()
        reason = self._last_error()
        self.close()
        ended = f"ended with {signal.Signals(-status).name if status < 0 else f'status {status}'}"
        return {"error": f"{ended}: {reason}" if reason else ended}

    def _last_error(self) -> str:
        """The last line that the worker wrote about what went wrong, such as the message of an exception."""
        if self._errors is None:
            return ""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _ERROR_BYTES))
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _cpu_seconds(self) -> float:
        fields = self._about("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0

    def _memory(self) -> float:
        """MB."""
        fields = self._about("statm").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if fields else 0.0

    def _about(self, what: str) -> str:
        assert self._process is not None
        try:
            return Path(f"/proc/{self._process.pid}/{what}").read_text()
        except OSError:
            return ""
