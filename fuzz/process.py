"""The parent's side of a fuzzing worker: send it an input, and report how it ends, even if the worker dies.

An input may crash the process, loop for ever, or take all memory; the campaign must continue.

Invariant: `meet` returns within the limits (CPU time of the worker, `_WALL_PER_CPU` times that in wall time). The
worker is then alive or will be restarted. A slow stage "second opinion" is the oracle's fault and not a finding.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path

from structgen._sandbox.line_process import LineProcess, describe_exit

__all__ = ["Limits", "Outcome", "Worker"]

_SHOWN_BYTES = 4000
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
    """A process that runs the inputs of one target."""

    def __init__(self, target: str, limits: Limits) -> None:
        self.limits = limits
        root = Path(__file__).resolve().parents[1]
        self._process = LineProcess([sys.executable, "-m", "fuzz.worker", target], folder=root)
        self._inputs = 0
        self.peak = 0

    def meet(self, text: str) -> Outcome:
        """Run one input. A worker that ends at an input is started again for the next one."""
        process = self._process
        if not process.is_started or self._inputs >= self.limits.inputs:
            self.close()
            self._start()
        self._inputs += 1
        before = process.usage().cpu_seconds
        try:
            process.send(dumps({"text": text}))
        except BrokenPipeError:
            return self._died("before it was given")
        began = time.monotonic()
        stage = "read"
        while True:
            try:
                line = process.next_line(0.05)
            except EOFError:
                line = None
            if line is not None and "stage" in line:
                stage = line["stage"]
                continue
            if line is not None and "done" in line:
                usage = process.usage()
                spent = usage.cpu_seconds - before
                done, kind = line["done"], line.get("kind", "")
                if done != "finding" and (beyond := self._beyond(spent, usage.resident_bytes, stage)):
                    done, kind = "finding", beyond
                return Outcome(done, kind, line.get("detail", ""), spent, tuple(line["features"]))
            if not process.is_running:
                return self._died(stage)
            usage = process.usage()
            spent, memory = usage.cpu_seconds - before, usage.resident_bytes
            self.peak = max(self.peak, memory)
            waited = time.monotonic() - began
            if stage == "second opinion" and max(spent, waited / _WALL_PER_CPU) > self.limits.seconds:
                self._stopped("", spent)
                return Outcome("slow judge", seconds=spent)
            if beyond := self._beyond(max(spent, waited / _WALL_PER_CPU), memory, stage):
                return self._stopped(beyond, spent)

    def _beyond(self, spent: float, memory: int, stage: str) -> str:
        """Return which limit is exceeded. A second opinion may take longer."""
        if memory > self.limits.memory:
            return f"memory past {self.limits.memory >> 20} MiB in stage {stage}"
        if spent > self.limits.seconds and stage != "second opinion":
            return f"longer than {self.limits.seconds:g} s in stage {stage}"
        return ""

    def close(self) -> None:
        """End the worker, if there is one."""
        self._process.close()

    def _start(self) -> None:
        self._inputs = 0
        process = self._process
        process.start()
        until = time.monotonic() + _START_SECONDS
        line = None
        while line is None or "ready" not in line:
            try:
                line = process.next_line(0.2)
            except EOFError:
                line = None
            if line is None and (not process.is_running or time.monotonic() > until):
                raise RuntimeError(f"the worker does not start: {process.error_output(_SHOWN_BYTES)}")

    def _died(self, stage: str) -> Outcome:
        how = describe_exit(self._process.wait())
        said = self._process.error_output(_SHOWN_BYTES)
        summary = next((line for line in said.splitlines() if line.startswith("SUMMARY")), "")
        self.close()
        return Outcome("finding", f"{how} in {stage} {summary}".strip(), said)

    def _stopped(self, kind: str, spent: float) -> Outcome:
        """Have the worker write its stack, then end it."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        said = self._process.error_output(_SHOWN_BYTES)
        self.close()
        where = _INNERMOST.search(said)  # hangs in different functions are different findings
        return Outcome("finding", kind + (f" in {where[1]}" if where else ""), said, spent)
