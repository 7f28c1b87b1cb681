"""Engines in their own processes, with limits of CPU time and memory for each record.

An engine's process reads all records of a run, as an inference server does. It is started again after a record that
ends it; that record has the status ``crash``, ``timeout`` or ``memory``.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["Engine", "measure_all", "merged_rounds"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 300.0
_WALL_FACTOR = 10
"""Wall time that a record may take, as a multiple of its CPU time: other processes may have the processors."""


class Engine:
    """One engine's process.

    Args:
        name: A key of `structgen.evaluation.engines.BENCHMARK_ENGINES`.
        folder: Of the tokenizer.
        seconds: CPU seconds a record may take.
        memory: Resident MiB that the process may have.
        command: What starts a worker, before these two arguments (default: `bench.cold.worker`).
    """

    def __init__(
        self, name: str, folder: str, seconds: float, memory: int, command: Sequence[str] | None = None
    ) -> None:
        self.name = name
        self.seconds = seconds
        self.memory = memory
        worker = [sys.executable, "-m", "bench.cold.worker"]
        self._command = [*(command or worker), name, folder]
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def measure(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the worker's reply to a record, or the limit that it met."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(record).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._reply(process, self.seconds)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            with self._process, contextlib.suppress(BrokenPipeError):  # closes its pipes and waits for it
                self._process.communicate()
            self._errors.close()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            quiet = dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **quiet, "TOKENIZERS_PARALLELISM": "false"},
            )
            self._buffer = b""
            reply = self._reply(self._process, _START_SECONDS)
            if "ready" not in reply:
                raise RuntimeError(f"{self.name} does not start: {reply['status']} {reply['error']}")
        return self._process

    def _reply(self, process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
        assert process.stdout is not None
        started, begin = _cpu_seconds(process.pid), time.monotonic()
        while b"\n" not in self._buffer:
            if select.select([process.stdout], [], [], 0.1)[0]:
                read = os.read(process.stdout.fileno(), 1 << 20)
                if not read:
                    return self._ended("crash")
                self._buffer += read
                continue
            used = _cpu_seconds(process.pid) - started
            if used > seconds or time.monotonic() - begin > _WALL_FACTOR * seconds:
                return self._ended("timeout")
            if _resident_mib(process.pid) > self.memory:
                return self._ended("memory")
        line, self._buffer = self._buffer.split(b"\n", 1)
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _ended(self, status: str) -> dict[str, Any]:
        self._errors.seek(0)
        error = self._errors.read()[-500:].decode(errors="replace")
        self.close()
        return {"status": status, "error": error}


def _cpu_seconds(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident_mib(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE / 2**20
    except OSError:
        return 0.0


def measure_all(engines: Sequence[Engine], record: dict[str, Any], turn: int) -> dict[str, dict[str, Any]]:
    """Measure a record with all engines, one after the other, and return the replies by engine.

    Args:
        engines: In the order in which they are reported.
        record: As `bench.cold.worker` reads it.
        turn: The record's number; the engine that starts turns with it, so that no engine always runs on caches of
            the processor that another one has just filled.
    """
    first = turn % len(engines)
    replies = {engine.name: engine.measure(record) for engine in (*engines[first:], *engines[:first])}
    return {engine.name: replies[engine.name] for engine in engines}


def merged_rounds(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the smaller time of each mask in two runs of the same record in different processes.

    What an engine does is the same in both; what the machine adds is not. A record that fails in one run fails.
    """
    if first["status"] != "ok" or second["status"] != "ok":
        return second if first["status"] == "ok" else first
    merged = {"status": "ok", "first": min(first["first"], second["first"])}
    for figure in ("masks", "again"):
        pairs = zip(first[figure], second[figure], strict=True)
        merged[figure] = [[min(a, b) for a, b in zip(x, y, strict=True)] for x, y in pairs]
    return merged
