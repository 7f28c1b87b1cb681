"""The parent's side of `worker`: one process for the engine, watched, killed at its limits, and started again.

Why: a schema that crashes an engine must cost one record and nothing else.
What: `ask` always returns the record of a question. A process is killed if it uses more time or memory than one
question may. If a process ends by itself, its signal and its error output say why.
Invariant: after `ask` a process is ready for the next question, or one will be started; none outlives its parent. Time
counts from the last sign of life. It is CPU time, or time in which the process uses none, so a busy machine causes no
time-outs. Memory counts from the question's beginning; a process that has kept half of what one question may use is
replaced before the next.
Cost: a look at the process every 50 ms while it is silent; a round trip through a pipe for each question.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from dataclasses import asdict
from time import monotonic
from typing import Any

from structgen._sandbox.line_process import LineProcess, describe_exit
from structgen._sandbox.spawn import child_environment, python_command
from structgen.errors import ModelError

from .engines import is_endpoint
from .records import Record, record_of
from .worker import Question, Role, unanswered

__all__ = ["Contained"]

_COMMAND = python_command("from structgen.evaluation.worker import main; main()")
_START_SECONDS = 600.0
_POLL_SECONDS = 0.05
_READING = 60.0
"""Seconds beyond an engine's, for a model to read a prompt, or a server to answer."""
_MOST_ANSWER = 64 << 20
_MOST_ERROR_OUTPUT = 4000
"""Bytes of a process's error output that are searched and shown."""
_MEMORY_WORDS = re.compile(
    r"bad_alloc|memory allocation of|MemoryError|Cannot allocate|out of memory", re.IGNORECASE
)


class _Died(Exception):
    """The process ended by itself; its arguments are the status and a message."""


class Contained:
    """One process of a role; used by one thread."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.starts = 0
        # subtle: Ctrl-C is for the parent; without a session of its own the schema would be blamed for it.
        self._process = LineProcess(
            _COMMAND, environment=_environment(role), own_session=True, most_bytes=_MOST_ANSWER
        )
        self._fresh = 0
        """Resident bytes when it was ready."""

    def __enter__(self) -> Contained:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def interrupt(self) -> None:
        """End what the process is doing, from any thread. The record that `ask` then returns says nothing."""
        self._process.interrupt()

    def start(self) -> None:
        """Start the process if none runs. Raises `ModelError` if it does not become ready."""
        process = self._process
        if process.is_running and process.usage().resident_bytes - self._fresh <= self._memory // 2:
            return
        process.kill()
        process.start()
        self.starts += 1
        try:
            self._send(json.dumps(asdict(self.role)))
            answer = self._line(_START_SECONDS * self._threads, None)
        except _Died as died:
            process.kill()
            raise ModelError(
                f"the process that asks {self.role.engine!r} does not start: {died.args[1]}"
            ) from None
        if "failed" in answer:
            process.kill()
            raise ModelError(answer["failed"])
        self._fresh = process.usage().resident_bytes

    def ask(self, question: Question) -> Record:
        """Return the record in any case. Raise `ModelError` if the model or the server is to blame."""
        self.start()
        try:
            sent = json.dumps(vars(question))
        except (RecursionError, ValueError) as error:
            return unanswered(question, "error", f"cannot be passed on: {type(error).__name__}")
        process = self._process
        process.clear_error_output()
        before = process.usage().resident_bytes
        try:
            self._send(sent)
            while True:
                answer = self._line(self._patience(), before)
                if "record" in answer:
                    return record_of(answer["record"])
                if "failed" in answer:
                    process.kill()
                    raise ModelError(answer["failed"])
        except _Died as died:
            process.kill()
            return unanswered(question, *died.args)

    def _patience(self) -> float:
        """Return the seconds that may pass without a sign of life."""
        longer = self.role.writes or is_endpoint(self.role.engine)
        return self.role.seconds + (_READING * self._threads if longer else 0.0)

    @property
    def _threads(self) -> int:
        """CPU time passes so many times as fast as wall time where a model reads."""
        return self.role.threads if self.role.writes else 1

    @property
    def _memory(self) -> int:
        return self.role.memory << 20

    def _send(self, line: str) -> None:
        try:
            self._process.send(line)
        except OSError:
            raise _Died(*self._death()) from None

    def _line(self, seconds: float, before: int | None) -> dict[str, Any]:
        """Return the next line. Raise `_Died` if the process ended, or has to be killed."""
        process = self._process
        begin = process.usage().cpu_seconds
        looked, idle, used = monotonic(), 0.0, begin
        while True:
            try:
                line = process.next_line(_POLL_SECONDS)
            except EOFError:
                raise _Died(*self._death()) from None
            if line is not None:
                return line
            now, usage = monotonic(), process.usage()
            if not usage.is_runnable and usage.cpu_seconds == used:
                # On a busy machine this process may look late, and the other one may have answered in between.
                idle += min(now - looked, 2 * _POLL_SECONDS)
            looked, used = now, usage.cpu_seconds
            if before is not None and usage.resident_bytes - before > self._memory:
                raise _Died("memory", f"it takes more than {self.role.memory} MiB")
            if used - begin > seconds:
                raise _Died("timeout", f"it takes more than {seconds:g} s of the processor")
            if idle > seconds:
                raise _Died("timeout", f"it waits for more than {seconds:g} s")

    def _death(self) -> tuple[str, str]:
        """Return how the process ended: status and message."""
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return "crash", "it closed its output"
        if code == -signal.SIGKILL:  # not by us: the system does that when memory runs out
            return "memory", "its process was killed, most likely as the machine's memory ran out"
        words = " ".join(self._process.error_output(_MOST_ERROR_OUTPUT).split())
        status = "memory" if _MEMORY_WORDS.search(words) else "crash"
        return status, f"its process ended with {describe_exit(code)}" + (
            f": {words[-300:]}" if words else ""
        )


def _environment(role: Role) -> dict[str, str]:
    """Engines get one thread, models as many as the role says."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(role.threads))
    quiet = {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}
    return {**child_environment(), "RAYON_NUM_THREADS": "1", **threads, **quiet}
