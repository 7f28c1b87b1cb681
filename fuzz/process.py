"""The parent's side of a worker: give it an input, see how it ends, whatever happens to it.

Why: an input may crash the process, loop for ever, or take all memory; the campaign has to go on.
Invariant: `meet` returns within the limits (CPU time of the worker, `_WALL_PER_CPU` times that in wall time). The
worker is then alive or restarted. A slow stage "second opinion" is the judge's fault and no finding.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

__all__ = ["Limits", "Outcome", "Worker"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SHOWN = 4000
_WALL_PER_CPU = 20
"""Wall time allowed per second of CPU time: a busy machine may starve the worker, or a process that it waits for."""
_START_SECONDS = 900.0
_INNERMOST = re.compile(r'File "[^"]*structgen[^"]*", line \d+ in (\w+)')


@dataclass(frozen=True)
class Limits:
    """seconds: CPU time of one input; memory: bytes that the worker may hold; inputs: before a fresh worker starts."""

    seconds: float = 10.0
    memory: int = 2 << 30
    inputs: int = 1_000


@dataclass(frozen=True)
class Outcome:
    """How an input ended: "fine", "refused", "slow judge", or "finding" with its kind and an account of it."""

    done: str
    kind: str = ""
    detail: str = ""
    seconds: float = 0.0
    features: tuple[str, ...] = field(default=(), repr=False)


class Worker:
    """A process that meets the inputs of one target."""

    def __init__(self, target: str, limits: Limits) -> None:
        self.limits = limits
        self._target = target
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._buffer = b""
        self._met = 0
        self.peak = 0

    def meet(self, text: str) -> Outcome:
        """Give it one input. A worker that ends at an input is started anew for the next."""
        if self._process is None or self._met >= self.limits.inputs:
            self.close()
            self._start()
        self._met += 1
        process = self._process
        assert process is not None and process.stdin is not None
        before = self._usage()[0]
        try:
            process.stdin.write(json.dumps({"text": text}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._died("before it was given")
        began = time.monotonic()
        stage = "read"
        while True:
            for line in self._lines(0.05):
                if "stage" in line:
                    stage = line["stage"]
                elif "done" in line:
                    spent, memory = self._usage()
                    spent -= before
                    done, kind = line["done"], line.get("kind", "")
                    if done != "finding" and (beyond := self._beyond(spent, memory, stage)):
                        done, kind = "finding", beyond
                    return Outcome(done, kind, line.get("detail", ""), spent, tuple(line["features"]))
            if process.poll() is not None:
                return self._died(stage)
            spent, memory = self._usage()
            spent -= before
            self.peak = max(self.peak, memory)
            waited = time.monotonic() - began
            if stage == "second opinion" and max(spent, waited / _WALL_PER_CPU) > self.limits.seconds:
                self._stopped("", spent)
                return Outcome("slow judge", seconds=spent)
            if beyond := self._beyond(max(spent, waited / _WALL_PER_CPU), memory, stage):
                return self._stopped(beyond, spent)

    def _beyond(self, spent: float, memory: int, stage: str) -> str:
        """Which limit is passed; a second opinion may take its time."""
        if memory > self.limits.memory:
            return f"memory past {self.limits.memory >> 20} MiB in stage {stage}"
        if spent > self.limits.seconds and stage != "second opinion":
            return f"longer than {self.limits.seconds:g} s in stage {stage}"
        return ""

    def close(self) -> None:
        """End the worker, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._errors is not None:
            self._errors.close()
        self._process = self._errors = None

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        self._buffer = b""
        self._met = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", self._target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=Path(__file__).resolve().parents[1],
            bufsize=0,
        )
        until = time.monotonic() + _START_SECONDS
        while not any("ready" in line for line in self._lines(0.2)):
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the worker does not start: {self._said()}")

    def _lines(self, wait: float) -> list[dict[str, Any]]:
        assert self._process is not None and self._process.stdout is not None
        if select.select([self._process.stdout], [], [], wait)[0]:
            self._buffer += os.read(self._process.stdout.fileno(), 1 << 20)
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    def _usage(self) -> tuple[float, int]:
        """CPU seconds and resident bytes of the worker."""
        assert self._process is not None
        try:
            root = Path(f"/proc/{self._process.pid}")
            fields = (root / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS, int(
                (root / "statm").read_text().split()[1]
            ) * _PAGE
        except (OSError, IndexError):
            return 0.0, 0

    def _said(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-_SHOWN:]

    def _died(self, stage: str) -> Outcome:
        assert self._process is not None
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        said = self._said()
        summary = next((line for line in said.splitlines() if line.startswith("SUMMARY")), "")
        self.close()
        return Outcome("finding", f"{how} in {stage} {summary}".strip(), said)

    def _stopped(self, kind: str, spent: float) -> Outcome:
        """Ask it where it is, then end it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        said = self._said()
        self.close()
        where = _INNERMOST.search(said)  # hangs of different places are different findings
        return Outcome("finding", kind + (f" in {where[1]}" if where else ""), said, spent)
