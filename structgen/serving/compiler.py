"""Specs to compiled constraints, off the engine's thread: remembered, bounded, hostile ones kept apart.

Why: whoever serves strangers compiles what they send; one of them must not stop the others. A process of its own
(`worker`) tries each new spec out under limits of time and memory. What comes back is compiled here: in the engine that
all share if it was quick there, in one of its own, with a lock of its own, if a mask was slow, and not at all if
building its automaton alone would hold up the process.
Invariant: equal specs are compiled once at a time; what is kept is bounded by number and memory. An error of a spec is
remembered, too, so that sending it again costs nothing.
Cost: a spec that is known is a look-up; a new one a round trip to the worker and twice its compile time.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from structgen import _core
from structgen.constraints.base import Constraint
from structgen.constraints.failures import limit_exceeded
from structgen.errors import LimitExceeded, OptionError, StructgenError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

from .pool import WorkerProcess
from .requests import DEFAULT_LIMITS, Kind, RequestLimits, spec_text
from .trial import Trial, serving_vocabulary, try_out

__all__ = ["SECONDS", "Compiled", "CompilerStats", "ConstraintCompiler"]

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of the buckets of `CompilerStats.compile_seconds`; one more bucket is for what took longer."""
_MASK_BYTES = 64 << 20
"""Memory of masks in the shared engine past which compiled specs are let go, those used longest ago first."""
_PATIENCE = 60.0


@dataclass(frozen=True, eq=False)
class Compiled:
    """A constraint with its automaton, for any number of requests."""

    kind: Kind
    key: bytes
    constraint: Constraint
    vocabulary: Vocabulary
    """That of the engine that it was compiled in."""
    program: _core.Program
    is_slow: bool
    """It has an engine of its own."""

    def open(self) -> Matcher:
        """A fresh matcher."""
        return Matcher.of_program(self.constraint, self.vocabulary, self.program)


@dataclass
class CompilerStats:
    """What a compiler did so far; a copy, taken at one moment."""

    hits: int = 0
    misses: int = 0
    joined: int = 0
    """Requests that waited for an equal one in flight."""
    refused: int = 0
    timed_out: int = 0
    slow: int = 0
    worker_starts: int = 0
    entries: int = 0
    mask_bytes: int = 0
    compile_seconds: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    """How many specs took how long, by the buckets of `SECONDS`; not cumulative."""
    compile_seconds_sum: float = 0.0


@dataclass
class _Job:
    kind: Kind
    spec: Any
    key: bytes
    waiting: list[Future[Compiled]]


class ConstraintCompiler:
    """Compiles for one vocabulary; safe to use from any thread. `workers`: processes; 0: in the calling thread."""

    def __init__(
        self, vocabulary: Vocabulary, limits: RequestLimits = DEFAULT_LIMITS, workers: int = 1
    ) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or not 0 <= workers <= 64:
            raise OptionError(f"workers is {workers!r:.40}; it is a whole number from 0 to 64")
        self.limits = limits
        self.vocabulary = serving_vocabulary(vocabulary)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Compiled | StructgenError] = OrderedDict()
        self._in_flight: dict[bytes, _Job] = {}
        self._stats = CompilerStats()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._workers = [WorkerProcess(self.vocabulary, limits) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), name="structgen-compiler", daemon=True)
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, kind: Kind, spec: Any) -> Future[Compiled]:
        """The spec, compiled; the future fails with `StructgenError` where it is refused."""
        future: Future[Compiled] = Future()
        try:
            key = _key(kind, spec)
            job = self._enter(kind, spec, key, future)
        except StructgenError as error:
            with self._lock:
                self._stats.refused += 1
            future.set_exception(error)
            return future
        if job is not None:
            if self._workers:
                self._jobs.put(job)
            else:
                self._finish(job, lambda: try_out(kind, spec, self.vocabulary, self.limits))
        return future

    def compile(self, kind: Kind, spec: Any) -> Compiled:
        """The same, waiting for it. Raises `StructgenError`."""
        patience = self.limits.compile_seconds * (1 + self.limits.max_pending) + _PATIENCE
        return self.submit(kind, spec).result(patience)

    def open(self, compiled: Compiled) -> Matcher:
        """A fresh matcher of a compiled spec."""
        return compiled.open()

    def refusal(self, kind: Kind, spec: Any) -> StructgenError | None:
        """The error that this spec met before, if it did; costs a look-up."""
        known = self._known.get(_key(kind, spec))
        return known if isinstance(known, StructgenError) else None

    @property
    def stats(self) -> CompilerStats:
        with self._lock:
            now = self._stats
            entries = sum(isinstance(one, Compiled) for one in self._known.values())
            return CompilerStats(
                **{
                    **vars(now),
                    "compile_seconds": list(now.compile_seconds),
                    "entries": entries,
                    "worker_starts": sum(worker.starts for worker in self._workers),
                    "mask_bytes": self.vocabulary.engine.mask_memory,
                }
            )

    def close(self) -> None:
        """Ends the workers; what still waits fails."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            waiting = [future for job in self._in_flight.values() for future in job.waiting]
            self._in_flight.clear()
        for _ in self._threads:
            self._jobs.put(None)
        for worker in self._workers:
            worker.kill()
        for future in waiting:
            _fail(future, LimitExceeded("the compiler was closed", limit="closed"))
        for thread in self._threads:
            thread.join(timeout=5.0)
        for worker in self._workers:  # one may have been started meanwhile
            worker.kill()

    def __enter__(self) -> ConstraintCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enter(self, kind: Kind, spec: Any, key: bytes, future: Future[Compiled]) -> _Job | None:
        """Answers from what is known, joins a job in flight, or makes one."""
        with self._lock:
            if self._closed:
                raise LimitExceeded("the compiler was closed", limit="closed")
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                self._stats.hits += 1
                if isinstance(known, Compiled):
                    future.set_result(known)
                else:
                    self._stats.refused += 1
                    future.set_exception(known)
                return None
            running = self._in_flight.get(key)
            if running is not None:
                self._stats.joined += 1
                running.waiting.append(future)
                return None
            if len(self._in_flight) >= self.limits.max_pending:
                raise LimitExceeded(
                    f"{len(self._in_flight)} constraints wait to be compiled, and more are refused",
                    limit="max_pending",
                    hint="Try again later.",
                )
            self._stats.misses += 1
            job = self._in_flight[key] = _Job(kind, spec, key, [future])
            return job

    def _work(self, worker: WorkerProcess) -> None:
        """A thread: hands jobs to its worker, one after the other."""
        try:
            worker.start()
        except (StructgenError, OSError):
            pass  # told to the first job
        while (job := self._jobs.get()) is not None:
            kind, spec = job.kind, job.spec
            self._finish(job, lambda kind=kind, spec=spec: worker.ask(kind, spec))  # type: ignore[misc]
            if self._closed:
                return

    def _finish(self, job: _Job, trial: Callable[[], Trial]) -> None:
        """Tries the spec out, compiles it here, and tells all who wait for it."""
        begin = perf_counter()
        outcome: Compiled | StructgenError
        lasting = True
        try:
            outcome = self._installed(job, trial())
        except StructgenError as error:
            outcome = error
            lasting = getattr(error, "limit", "") not in ("worker", "closed")
        except Exception as error:  # whatever it is, those who wait must be told
            outcome = LimitExceeded(f"the constraint could not be compiled: {error!r:.200}", limit="compiler")
            lasting = False
        seconds = perf_counter() - begin
        with self._lock:
            if self._in_flight.get(job.key) is job:
                del self._in_flight[job.key]
            self._count(outcome, seconds)
            if lasting:
                self._known[job.key] = outcome
                self._let_go()
            waiting = list(job.waiting)
        for future in waiting:
            if isinstance(outcome, Compiled):
                if future.set_running_or_notify_cancel():
                    future.set_result(outcome)
            else:
                _fail(future, outcome)

    def _installed(self, job: _Job, trial: Trial) -> Compiled:
        limits = self.limits
        if trial.install_seconds > limits.install_seconds and self._workers:
            raise LimitExceeded(
                f"the constraint's automaton takes {trial.install_seconds * 1000:.0f} ms to build, more than "
                f"{limits.install_seconds * 1000:.0f}",
                limit="install_seconds",
                hint="Send a smaller one; whoever runs the server can raise install_seconds.",
            )
        is_slow = trial.slowest_mask > limits.slow_mask_seconds
        vocabulary = serving_vocabulary(self.vocabulary) if is_slow else self.vocabulary
        constraint = trial.constraint()
        try:
            program = vocabulary.engine.compile(constraint.lower())
        except _core.LimitError as error:
            raise limit_exceeded(error, constraint.describe()) from None
        return Compiled(job.kind, job.key, constraint, vocabulary, program, is_slow)

    def _count(self, outcome: Compiled | StructgenError, seconds: float) -> None:
        stats = self._stats
        place = next((i for i, most in enumerate(SECONDS) if seconds <= most), len(SECONDS))
        stats.compile_seconds[place] += 1
        stats.compile_seconds_sum += seconds
        if isinstance(outcome, Compiled):
            stats.slow += outcome.is_slow
        else:
            stats.refused += 1
            stats.timed_out += getattr(outcome, "limit", "") == "compile_seconds"

    def _let_go(self) -> None:
        """Forgets what was used longest ago, while there is too much of it."""
        while len(self._known) > self.limits.cache_entries:
            self._known.popitem(last=False)
        # A program in use keeps its masks anyway, so a few at a time are let go.
        for _ in range(4):
            if len(self._known) < 2 or self.vocabulary.engine.mask_memory <= _MASK_BYTES:
                return
            self._known.popitem(last=False)


def _key(kind: Kind, spec: Any) -> bytes:
    text = "" if kind == "json_object" else spec_text(spec)
    mark = "t" if isinstance(spec, (str, bytes, bytearray)) else "v"
    return hashlib.sha256(f"{kind}:{mark}:{text}".encode("utf-8", "surrogatepass")).digest()


def _fail(future: Future[Compiled], error: StructgenError) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
