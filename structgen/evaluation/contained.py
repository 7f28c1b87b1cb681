"""The parent's side of `worker`: one process, watched, killed when it takes too much, and made again.

Why: a schema that brings an engine down must cost one record and nothing else.
What: `ask` gives the record of a question, whatever happens. A process is killed where it uses more time or memory than
one question may; a death is told from its signal and its last words.
Invariant: after `ask` there is a process for the next question, or one will be started; none outlives its parent. Time
counts from the last sign of life, and is the processor's or that in which it is not used: a busy machine makes no
time-outs. Memory counts from the question's beginning; a process that has kept half of what one question may take is
replaced before the next.
Cost: a look at the process every 50 ms while it is silent; a pipe's round trip a question.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from dataclasses import asdict
from time import monotonic
from typing import IO, Any

from structgen._sandbox.processes import end_process, environment, is_ready, python_command
from structgen.errors import ModelError

from .engines import is_endpoint
from .records import Record, record_of
from .worker import Question, Role, unanswered

__all__ = ["Contained"]

_COMMAND = python_command("from structgen.evaluation.worker import main; main()")
_START_SECONDS = 600.0
_LOOK = 0.05
_READING = 60.0
"""Seconds beyond an engine's, for a model to read a prompt, or a server to answer."""
_MOST_ANSWER = 64 << 20
_MOST_KEPT = 4000
"""Bytes of a process's last words."""
_MEMORY_WORDS = re.compile(
    r"bad_alloc|memory allocation of|MemoryError|Cannot allocate|out of memory", re.IGNORECASE
)


class _Died(Exception):
    """status, message"""


class Contained:
    """One process of a role; used by one thread."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] = tempfile.TemporaryFile("ab+")  # noqa: SIM115  (closed with it)
        self._buffer = bytearray()
        self._fresh = 0
        """Resident bytes when it was ready."""

    def __enter__(self) -> Contained:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        self.kill()
        self._words.close()

    def interrupt(self) -> None:
        """Ends what it is doing, from any thread; what `ask` gives then says nothing."""
        process = self._process
        if process is not None:
            process.kill()

    def kill(self) -> None:
        """Ends the process, and waits until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            end_process(process)

    def start(self) -> None:
        """Starts the process if none runs. Raises `ModelError` where it does not get ready."""
        if (
            self._process is not None
            and self._process.poll() is None
            and self._resident() - self._fresh <= self._memory // 2
        ):
            return
        self.kill()
        self._buffer.clear()
        self._process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            bufsize=0,
            start_new_session=True,  # subtle: Ctrl-C is for the parent, or a schema would be blamed for it
            env=_environment(self.role),
        )
        self.starts += 1
        try:
            self._send(json.dumps(asdict(self.role)))
            told = self._line(_START_SECONDS * self._threads, None)
        except _Died as died:
            self.kill()
            raise ModelError(
                f"the process that asks {self.role.engine!r} does not start: {died.args[1]}"
            ) from None
        if "failed" in told:
            self.kill()
            raise ModelError(told["failed"])
        self._fresh = self._resident()

    def ask(self, question: Question) -> Record:
        """The record, whatever happens. Raises `ModelError` where the model or the server is to blame."""
        self.start()
        try:
            sent = json.dumps(vars(question))
        except (RecursionError, ValueError) as error:
            return unanswered(question, "error", f"cannot be passed on: {type(error).__name__}")
        self._words.truncate(0)
        before = self._resident()
        try:
            self._send(sent)
            while True:
                told = self._line(self._patience(), before)
                if "record" in told:
                    return record_of(told["record"])
                if "failed" in told:
                    self.kill()
                    raise ModelError(told["failed"])
        except _Died as died:
            self.kill()
            return unanswered(question, *died.args)

    def _patience(self) -> float:
        """Seconds without a sign of life."""
        longer = self.role.writes or is_endpoint(self.role.engine)
        return self.role.seconds + (_READING * self._threads if longer else 0.0)

    @property
    def _threads(self) -> int:
        """The processor's seconds run so many times as fast as the clock where a model reads."""
        return self.role.threads if self.role.writes else 1

    @property
    def _memory(self) -> int:
        return self.role.memory << 20

    def _send(self, line: str) -> None:
        process = self._process
        assert process is not None and process.stdin is not None
        view = memoryview(line.encode() + b"\n")
        try:
            while view:
                view = view[os.write(process.stdin.fileno(), view) :]
        except OSError:
            raise _Died(*self._death()) from None

    def _line(self, seconds: float, before: int | None) -> dict[str, Any]:
        """The next line. Raises `_Died` where there is none, or it has to be killed."""
        process = self._process
        assert process is not None and process.stdout is not None
        _, begin = self._busy()
        looked, idle, used = monotonic(), 0.0, begin
        while True:
            if (end := self._buffer.find(b"\n")) >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                told = json.loads(line)
                assert isinstance(told, dict)
                return told
            if is_ready(process.stdout, _LOOK):
                data = os.read(process.stdout.fileno(), 1 << 20)
                self._buffer += data
                if not data or len(self._buffer) > _MOST_ANSWER:
                    raise _Died(*self._death())
                continue
            now, (runs, spent) = monotonic(), self._busy()
            if not runs and spent == used:
                # On a busy machine this process may look late, and the other one may have answered in between.
                idle += min(now - looked, 2 * _LOOK)
            looked, used = now, spent
            if before is not None and self._resident() - before > self._memory:
                raise _Died("memory", f"it takes more than {self.role.memory} MiB")
            if used - begin > seconds:
                raise _Died("timeout", f"it takes more than {seconds:g} s of the processor")
            if idle > seconds:
                raise _Died("timeout", f"it waits for more than {seconds:g} s")

    def _death(self) -> tuple[str, str]:
        """How it died: status and message."""
        process = self._process
        assert process is not None
        try:
            code = process.wait(10)
        except subprocess.TimeoutExpired:
            return "crash", "it closed its output"
        if code == -signal.SIGKILL:  # not by us: where memory runs out, the system does that
            return "memory", "its process was killed, most likely as the machine's memory ran out"
        words = self._last_words()
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        status = "memory" if _MEMORY_WORDS.search(words) else "crash"
        return status, f"its process ended with {how}" + (f": {words[-300:]}" if words else "")

    def _last_words(self) -> str:
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - _MOST_KEPT))
        return " ".join(self._words.read(_MOST_KEPT).decode("utf-8", "replace").split())

    def _busy(self) -> tuple[bool, float]:
        """Whether the process runs or waits for the processor, and how many seconds of it it has used.

        Where the system does not say, it waits and has used none: the clock decides.
        """
        stat = self._proc("stat")
        if stat is None:
            return False, 0.0
        after_name = stat.rsplit(b")", 1)[1].split()
        used = (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
        return after_name[0] == b"R", used

    def _resident(self) -> int:
        """Bytes of memory that the process has; 0 where the system does not say."""
        statm = self._proc("statm")
        return 0 if statm is None else int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def _proc(self, name: str) -> bytes | None:
        if self._process is None:
            return None
        try:
            with open(f"/proc/{self._process.pid}/{name}", "rb") as file:
                return file.read() or None
        except OSError:
            return None


def _environment(role: Role) -> dict[str, str]:
    """Engines have one thread, models as many as said."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(role.threads))
    quiet = {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}
    return {**environment(), "RAYON_NUM_THREADS": "1", **threads, **quiet}
