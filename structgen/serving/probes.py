"""Specs tried out in worker processes: each once at a time, remembered, slow ones kept from holding up the rest.

Why: one process that tries specs out one after the other would let a hostile one hold up all new ones for as long as
its time limit.
What: a spec that has taken `quick_seconds` goes on only while another process is left for the others, or nobody waits;
otherwise its process is killed and it is tried again when there is room for slow ones.
Invariant: equal specs are tried once at a time; what is kept is bounded; an error of a spec is remembered, too, so that
sending it again costs nothing. Every future is answered in the end, by `close` at the latest.
Cost: a spec that is known is a look-up; a new one a round trip to a worker.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Generic, TypeVar

from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded, OptionError, StructgenError
from structgen.vocabulary import Vocabulary

from .probe import Trial, serving_vocabulary, try_out
from .probe_process import Preempted, WorkerProcess
from .requests import DEFAULT_LIMITS, Kind, RequestLimits, spec_text
from .temporary_errors import detached, passing_status
from .wire import crash

__all__ = ["SECONDS", "CompilerStats", "Trials"]

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of the buckets of `CompilerStats.compile_seconds`; one more bucket is for what took longer."""
_PATIENCE = 60.0

logger = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")


@dataclass
class CompilerStats:
    """What was done so far; a copy, taken at one moment."""

    hits: int = 0
    misses: int = 0
    joined: int = 0
    """Requests that waited for an equal one in flight."""
    refused: int = 0
    timed_out: int = 0
    slow: int = 0
    """Specs with a slow mask, which have an engine of their own."""
    preempted: int = 0
    """Specs that were set aside, since others waited."""
    worker_starts: int = 0
    entries: int = 0
    mask_bytes: int = 0
    compile_seconds: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    """How many specs took how long, by the buckets of `SECONDS`; not cumulative."""
    compile_seconds_sum: float = 0.0


@dataclass(eq=False)
class Job(Generic[Outcome]):
    """One spec on its way."""

    kind: Kind
    spec: Any
    key: bytes
    waiting: list[Future[Outcome]]
    is_slow: bool = False
    """It holds one of the places for slow ones."""


class Trials(ABC, Generic[Outcome]):
    """Tries specs out for one vocabulary; safe to use from any thread.

    `workers`: processes; with 0, specs are tried out in the calling thread, without limits of time and memory.
    `slow_work`: see `WorkerProcess`.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: RequestLimits = DEFAULT_LIMITS,
        workers: int = 1,
        slow_work: SlowWork | None = None,
    ) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or not 0 <= workers <= 64:
            raise OptionError(f"workers is {workers!r:.40}; it is a whole number from 0 to 64")
        self.limits = limits
        self.vocabulary = serving_vocabulary(vocabulary)
        self._lock = threading.Condition()
        self._known: OrderedDict[bytes, Outcome | StructgenError] = OrderedDict()
        self._in_flight: dict[bytes, Job[Outcome]] = {}
        self._stats = CompilerStats()
        self._jobs: deque[Job[Outcome]] = deque()
        self._slow_jobs: deque[Job[Outcome]] = deque()
        self._places = max(1, workers // 2)  # the others, and while one is started anew, are for quick ones
        self._closed = False
        self._first_start: Future[None] = Future()
        self._failed_starts = 0
        self._workers = [WorkerProcess(self.vocabulary, limits, slow_work) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), name="structgen-trials", daemon=True)
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    @abstractmethod
    def _outcome(self, job: Job[Outcome], trial: Trial) -> Outcome:
        """What is kept of a spec that was tried out. Raises `StructgenError`."""

    def _check_room(self) -> bool:
        """Is there room for all that is kept?"""
        return True

    def submit(self, kind: Kind, spec: Any) -> Future[Outcome]:
        """The spec, tried out; the future fails with `StructgenError` where it is refused."""
        future: Future[Outcome] = Future()
        try:
            job = self._enter(kind, spec, future)
        except StructgenError as error:
            with self._lock:
                self._stats.refused += 1
            future.set_exception(error)
            return future
        if job is not None and not self._workers:
            self._finish(job, None)
        return future

    def result(self, kind: Kind, spec: Any) -> Outcome:
        """The same, waiting for it. Raises `StructgenError`."""
        patience = self.limits.compile_seconds * (1 + self.limits.max_pending) + _PATIENCE
        return self.submit(kind, spec).result(patience)

    def wait_until_ready(self) -> None:
        """Wait until one worker has started.

        Raises:
            LimitExceeded: No worker starts. What a worker wrote to the standard error says why.
        """
        if self._workers:
            self._first_start.result()

    @property
    def processes(self) -> tuple[WorkerProcess, ...]:
        return tuple(self._workers)

    @property
    def stats(self) -> CompilerStats:
        with self._lock:
            now = vars(self._stats) | {
                "compile_seconds": list(self._stats.compile_seconds),
                "entries": sum(not isinstance(one, StructgenError) for one in self._known.values()),
                "worker_starts": sum(worker.starts for worker in self._workers),
            }
        return CompilerStats(**now | {"mask_bytes": self._mask_bytes()})

    def _mask_bytes(self) -> int:
        return 0

    def close(self) -> None:
        """Ends the workers; what still waits fails."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            waiting = [future for job in self._in_flight.values() for future in job.waiting]
            self._in_flight.clear()
            self._jobs.clear()
            self._slow_jobs.clear()
            self._lock.notify_all()
        for worker in self._workers:
            worker.close()
        for future in waiting:
            _fail(future, LimitExceeded("the compiler was closed", limit="closed", hint="Try again later."))
        for thread in self._threads:
            thread.join(timeout=5.0)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enter(self, kind: Kind, spec: Any, future: Future[Outcome]) -> Job[Outcome] | None:
        """Answers from what is known, joins a job in flight, or makes one."""
        key = _key(kind, spec)
        with self._lock:
            if self._closed:
                raise LimitExceeded("the compiler was closed", limit="closed", hint="Try again later.")
            known = self._known.get(key, _ABSENT)
            if known is not _ABSENT:
                self._known.move_to_end(key)
                self._stats.hits += 1
                if isinstance(known, StructgenError):
                    self._stats.refused += 1
                    future.set_exception(detached(known))
                else:
                    future.set_result(known)
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
            job = self._in_flight[key] = Job(kind, spec, key, [future])
            if self._workers:
                self._jobs.append(job)
                self._lock.notify()
            return job

    def _work(self, worker: WorkerProcess) -> None:
        """A thread: hands jobs to its worker, one after the other."""
        while True:
            # subtle: before a job is taken, so that none waits for a process that is being started.
            self._start(worker)
            job = self._next()
            if job is None:
                break
            self._finish(job, worker)
        worker.kill()

    def _start(self, worker: WorkerProcess) -> None:
        """Start its process. If that fails, the job that needs it fails, too."""
        error: Exception | None = None
        try:
            worker.start()
        except (StructgenError, OSError) as failed:
            error = failed
        with self._lock:
            if self._first_start.done():
                return
            self._failed_starts += error is not None
            if error is None:
                self._first_start.set_result(None)
            elif self._failed_starts >= len(self._workers):
                self._first_start.set_exception(error)

    def _next(self) -> Job[Outcome] | None:
        with self._lock:
            while not self._closed:
                if self._jobs:
                    return self._jobs.popleft()
                if self._slow_jobs and self._places:
                    job = self._slow_jobs.popleft()
                    self._take_place(job)
                    return job
                self._lock.wait()
        return None

    def _take_place(self, job: Job[Outcome]) -> None:
        self._places -= 1
        job.is_slow = True

    def _may_go_on(self, job: Job[Outcome]) -> bool:
        """May a job that is no longer quick keep its process?"""
        with self._lock:
            if not job.is_slow and self._places:
                self._take_place(job)
            return job.is_slow or not self._jobs

    def _finish(self, job: Job[Outcome], worker: WorkerProcess | None) -> None:
        """Tries the spec out, and tells all who wait for it."""
        begin = perf_counter()
        outcome: Outcome | StructgenError
        try:
            trial = (
                try_out(job.kind, job.spec, self.vocabulary, self.limits)
                if worker is None
                else worker.ask(job.kind, job.spec, lambda: self._may_go_on(job))
            )
            outcome = self._outcome(job, trial)
        except Preempted:
            with self._lock:
                self._stats.preempted += 1
                if not self._closed:
                    self._slow_jobs.append(job)
                    self._lock.notify()
            return
        except StructgenError as error:
            outcome = error
        except Exception as error:  # whatever it is, those who wait must be told
            logger.exception("compiling a constraint failed")
            outcome = crash(error, "compiling the request's constraint")
        if worker is not None and (isinstance(outcome, StructgenError) or _is_slow(outcome)):
            worker.forget()
        self._tell(job, outcome, perf_counter() - begin)

    def _tell(self, job: Job[Outcome], outcome: Outcome | StructgenError, seconds: float) -> None:
        with self._lock:
            if job.is_slow:
                self._places += 1
                self._lock.notify()
            if self._in_flight.pop(job.key, None) is None:
                return  # closed meanwhile, and all who waited were told
            self._count(outcome, seconds)
            if not isinstance(outcome, StructgenError) or passing_status(outcome) is None:
                self._known[job.key] = detached(outcome) if isinstance(outcome, StructgenError) else outcome
                self._let_go()
            waiting = list(job.waiting)
        for future in waiting:
            if isinstance(outcome, StructgenError):
                _fail(future, outcome)
            elif future.set_running_or_notify_cancel():
                future.set_result(outcome)

    def _count(self, outcome: Outcome | StructgenError, seconds: float) -> None:
        stats = self._stats
        place = next((i for i, most in enumerate(SECONDS) if seconds <= most), len(SECONDS))
        stats.compile_seconds[place] += 1
        stats.compile_seconds_sum += seconds
        stats.refused += isinstance(outcome, StructgenError)
        stats.timed_out += getattr(outcome, "limit", "") == "compile_seconds"
        stats.slow += _is_slow(outcome)

    def _let_go(self) -> None:
        """Forgets what was used longest ago, while there is too much of it."""
        while len(self._known) > self.limits.cache_entries:
            self._known.popitem(last=False)
        # What is in use stays anyway, so a few at a time are let go.
        for _ in range(4):
            if len(self._known) < 2 or self._check_room():
                return
            self._known.popitem(last=False)


_Self = TypeVar("_Self", bound=Trials[Any])
_ABSENT: Any = object()


def _is_slow(outcome: Any) -> bool:
    """Does it share no engine with others here?"""
    return getattr(outcome, "is_slow", False) is True


def _key(kind: Kind, spec: Any) -> bytes:
    text = "" if kind == "json_object" else spec_text(spec)
    mark = "t" if isinstance(spec, (str, bytes, bytearray)) else "v"
    return hashlib.sha256(f"{kind}:{mark}:{text}".encode("utf-8", "surrogatepass")).digest()


def _fail(future: Future[Any], error: StructgenError) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
