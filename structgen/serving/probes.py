"""Probe specs in worker processes: equal specs once at a time, with cached results, and slow specs on few workers.

Why: if every worker could be busy with a slow spec, hostile specs would hold up all new ones until their time limits.
What: a spec is slow after `quick_seconds` of CPU time. Half of the workers, but at least one, may be reserved by slow
specs, for which clients take turns. A slow spec without a reservation continues only while no other spec waits.
Otherwise its worker is killed, and the spec is probed again when it can reserve a worker. A spec whose worker does not
start waits for one, up to `queue_seconds`. A caller that stops waiting (`stop_waiting`) still gets the outcome of a
probe that runs, unless this must make way for others. A spec whose callers have all cancelled leaves the queue; a
probe of it that runs continues, so that its outcome is known when it is sent again.
Limit: with one worker, a slow spec reserves this worker, and all others wait until its time limit at the latest.
Invariant: equal specs are probed once at a time; the cache is bounded. Errors are cached unless they are temporary
(`temporary_errors`), so sending a refused spec again costs nothing. Every future gets a result, at `close` at the
latest.
Cost: a known spec is a look-up; a new one is a round trip to a worker.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from concurrent.futures import Future
from time import monotonic, perf_counter
from typing import Any, Generic, TypeVar

from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded, OptionError, StructgenError
from structgen.vocabulary import Vocabulary

from .compiler_stats import SECONDS, CompilerStats
from .fair_queue import FairQueue
from .limits import DEFAULT_LIMITS, RequestLimits
from .probe import ProbeResult, probe_compile, serving_vocabulary
from .probe_jobs import ProbeFuture, ProbeJob
from .probe_process import Preempted, ProbeProcess
from .requests import Kind, spec_text
from .temporary_errors import WorkerUnavailable, detached, temporary_status
from .wire import crash

__all__ = ["SECONDS", "CompileProbes", "CompilerStats", "ProbeFuture", "ProbeJob"]

_SPARE_SECONDS = 60.0
_RETRY_SECONDS = 1.0
"""Pause after a worker did not start."""

logger = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")


class CompileProbes(ABC, Generic[Outcome]):
    """Probe specs for one vocabulary; the base class of compilers. Safe to use from any thread."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: RequestLimits = DEFAULT_LIMITS,
        workers: int = 1,
        slow_work: SlowWork | None = None,
        queue_seconds: float = 0.0,
    ) -> None:
        """Start the workers.

        Args:
            vocabulary: The vocabulary to compile for.
            limits: Limits on each spec and on the cache.
            workers: Worker processes. With 0, a thread of this process probes specs without limits of time and memory.
            slow_work: See `ProbeProcess`.
            queue_seconds: How long a spec may wait for a worker to start again, or for CPU time (`ProbeProcess`).
        """
        if not isinstance(workers, int) or isinstance(workers, bool) or not 0 <= workers <= 64:
            raise OptionError(f"workers is {workers!r:.40}, not a whole number from 0 to 64")
        self.limits = limits
        self.vocabulary = serving_vocabulary(vocabulary)
        self._lock = threading.Condition()
        self._known: OrderedDict[bytes, Outcome | StructgenError] = OrderedDict()
        self._in_flight: dict[bytes, ProbeJob[Outcome]] = {}
        self._stats = CompilerStats()
        self._jobs: deque[ProbeJob[Outcome]] = deque()
        self._slow_jobs: FairQueue[ProbeJob[Outcome]] = FairQueue()
        self._queue_seconds = queue_seconds
        self._closing = threading.Event()
        self._reported = ""
        """The last reason that was logged for a worker that does not start."""
        self._workers_to_reserve = max(1, workers // 2)  # the other workers are left for quick specs
        self._is_closed = False
        self._first_start: Future[None] = Future()
        self._failed_starts = 0
        self._workers = [
            ProbeProcess(self.vocabulary, limits, slow_work, queue_seconds) for _ in range(workers)
        ]
        # subtle: `submit` is called on event loops, so a thread probes specs even if there is no worker.
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), name="structgen-probes", daemon=True)
            for worker in self._workers or (None,)
        ]
        for thread in self._threads:
            thread.start()

    @abstractmethod
    def _install(self, job: ProbeJob[Outcome], probe: ProbeResult) -> Outcome:
        """Return what is kept of a spec that was probed. Raises `StructgenError`."""

    def _has_room(self) -> bool:
        """Return whether the cached outcomes fit into their memory."""
        return True

    def submit(self, kind: Kind, spec: Any, client: str = "") -> ProbeFuture[Outcome]:
        """Probe a spec, without waiting for it. The future fails with `StructgenError` if it is refused.

        Args:
            kind: The kind of the spec.
            spec: The spec.
            client: Who sent it. Clients share the time for slow specs.
        """
        future: ProbeFuture[Outcome] = ProbeFuture()
        try:
            job = self._enter(kind, spec, future, client)
        except StructgenError as error:
            with self._lock:
                self._stats.refused += 1
            future.set_exception(error)
        else:
            if job is not None:
                self._queue(job)
        future.add_done_callback(lambda _: self._on_done(future))
        return future

    def _on_done(self, future: ProbeFuture[Outcome]) -> None:
        """If a future was cancelled, remove its spec if no one waits for it any more, unless its probe runs."""
        if not future.cancelled():
            return
        with self._lock:
            job = self._in_flight.get(future.key)
            if job is None or job.is_wanted:
                return
            if job.entry is not None:
                self._slow_jobs.remove(job.entry)
            elif job in self._jobs:
                self._jobs.remove(job)
            else:
                return
            del self._in_flight[job.key]

    def stop_waiting(self, future: ProbeFuture[Outcome]) -> bool:
        """Return whether the probe of a spec runs or is done. If it must wait from now on, the future fails."""
        with self._lock:
            future.deadline = monotonic()
            return future.done() or future.started is not None

    def result(self, kind: Kind, spec: Any) -> Outcome:
        """Probe a spec and wait for the outcome. Raises `StructgenError` if it is refused."""
        future: ProbeFuture[Outcome] = ProbeFuture()
        try:
            job = self._enter(kind, spec, future, "")
        except StructgenError:
            with self._lock:
                self._stats.refused += 1
            raise
        if job is not None and not self._resolve_unprobed(job):
            self._queue(job)
        seconds = self.limits.compile_seconds * (1 + self.limits.max_pending) + _SPARE_SECONDS
        return future.result(seconds)

    def _resolve_unprobed(self, job: ProbeJob[Outcome]) -> bool:
        """Resolve a job without a probe, on the caller's thread. Return False if it needs one."""
        begin = perf_counter()
        try:
            outcome = self._install_unprobed(_note_start(job))
        except Exception:  # the probe reports it, and the job must not stay unresolved
            logger.exception("compiling a constraint without a probe failed")
            outcome = None
        if outcome is None:
            return False
        with self._lock:
            self._stats.unprobed += 1
        self._resolve(job, outcome, perf_counter() - begin)
        return True

    def _install_unprobed(self, job: ProbeJob[Outcome]) -> Outcome | None:
        """Return what is kept of a spec that needs no probe; None if it needs one."""
        return None

    def wait_until_ready(self) -> None:
        """Wait until one worker has started.

        Raises:
            WorkerUnavailable: No worker starts; its `reason` says why.
        """
        if self._workers:
            self._first_start.result()

    @property
    def processes(self) -> tuple[ProbeProcess, ...]:
        """Return the probe processes, busy or free."""
        return tuple(self._workers)

    @property
    def pending(self) -> int:
        """The number of specs in probes, or waiting for one."""
        return len(self._in_flight)

    @property
    def stats(self) -> CompilerStats:
        """Return the counters up to now. The result does not change later."""
        with self._lock:
            now = vars(self._stats) | {
                "compile_seconds": list(self._stats.compile_seconds),
                "entries": sum(not isinstance(outcome, StructgenError) for outcome in self._known.values()),
                "worker_starts": sum(worker.starts for worker in self._workers),
            }
        return CompilerStats(**now | {"mask_bytes": self._mask_bytes()})

    def _mask_bytes(self) -> int:
        return 0

    def close(self) -> None:
        """End the workers. Specs in flight fail."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            waiting = [future for job in self._in_flight.values() for future in job.waiting]
            self._in_flight.clear()
            self._jobs.clear()
            self._slow_jobs.clear()
            self._closing.set()
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

    def _enter(
        self, kind: Kind, spec: Any, future: ProbeFuture[Outcome], client: str
    ) -> ProbeJob[Outcome] | None:
        """Answer from the cache, join a job in flight, or return a new job, which is in flight from now on."""
        key = future.key = _key(kind, spec)
        deadline = monotonic() + self._queue_seconds
        if self._queue_seconds:
            future.deadline = deadline
        with self._lock:
            if self._is_closed:
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
                if running.waiting[0].started is not None:
                    future.started = monotonic()
                running.waiting.append(future)
                running.deadline = deadline
                return None
            if len(self._in_flight) >= self.limits.max_pending:
                raise LimitExceeded(
                    f"{len(self._in_flight)} constraints wait to be compiled, and more are refused",
                    limit="max_pending",
                    hint="Try again later.",
                )
            self._stats.misses += 1
            job = self._in_flight[key] = ProbeJob(kind, spec, key, [future], client, deadline)
            return job

    def _queue(self, job: ProbeJob[Outcome]) -> None:
        """Let a job wait for a worker."""
        with self._lock:
            if self._is_closed:
                return  # all futures have failed
            for future in job.waiting:
                future.started = None
            self._jobs.append(job)
            self._lock.notify()

    def _work(self, worker: ProbeProcess | None) -> None:
        """Run a thread that takes one job after the other; its worker probes them, or itself if it has none."""
        while True:
            if worker is not None:
                # subtle: before a job is taken, so that no job waits for a worker that is being started.
                self._start(worker)
            job = self._next()
            if job is None:
                break
            self._finish(job, worker)
        if worker is not None:
            worker.kill()

    def _start(self, worker: ProbeProcess) -> None:
        """Start a worker. If that fails, the next job that needs it fails, too."""
        error: Exception | None = None
        try:
            worker.start()
        except (StructgenError, OSError) as failed:
            error = failed
        if isinstance(error, WorkerUnavailable):
            self._report(error)
        with self._lock:
            if self._first_start.done():
                return
            self._failed_starts += error is not None
            if error is None:
                self._first_start.set_result(None)
            elif self._failed_starts >= len(self._workers):
                self._first_start.set_exception(error)

    def _next(self) -> ProbeJob[Outcome] | None:
        with self._lock:
            while not self._is_closed:
                if self._jobs:
                    return _note_start(self._jobs.popleft())
                if self._slow_jobs and self._workers_to_reserve:
                    job = self._slow_jobs.take()
                    job.entry = None
                    self._reserve_worker(job)
                    return _note_start(job)
                self._lock.wait()
        return None

    def _reserve_worker(self, job: ProbeJob[Outcome]) -> None:
        self._workers_to_reserve -= 1
        job.is_slow = True

    def _may_continue(self, job: ProbeJob[Outcome]) -> bool:
        """Return whether a job that is no longer quick may keep its worker."""
        with self._lock:
            if not job.is_slow and self._workers_to_reserve:
                self._reserve_worker(job)
            return job.is_slow or not self._jobs

    def _finish(self, job: ProbeJob[Outcome], worker: ProbeProcess | None) -> None:
        """Probe the spec, and resolve the futures that wait for it."""
        begin = perf_counter()
        outcome: Outcome | StructgenError
        try:
            probe = (
                probe_compile(job.kind, job.spec, self.vocabulary, self.limits)
                if worker is None
                else worker.probe(job.kind, job.spec, lambda: self._may_continue(job))
            )
            outcome = self._install(job, probe)
        except Preempted:
            self._put_aside(job)
            return
        except WorkerUnavailable as error:
            self._report(error)
            if self._retry(job):
                return
            outcome = error
        except StructgenError as error:
            outcome = error
        except Exception as error:  # any error must resolve the futures
            logger.exception("compiling a constraint failed")
            outcome = crash(error, "compiling the request's constraint")
        if worker is not None and (isinstance(outcome, StructgenError) or _is_slow(outcome)):
            worker.drop_warm_caches()
        self._resolve(job, outcome, perf_counter() - begin)

    def _put_aside(self, job: ProbeJob[Outcome]) -> None:
        """Let a job that made way for others wait until it can reserve a worker, for those who still may wait."""
        now = monotonic()
        with self._lock:
            self._stats.preempted += 1
            if self._is_closed:
                return
            late = [future for future in job.waiting if future.deadline <= now]
            job.waiting = [future for future in job.waiting if future.deadline > now]
            for future in job.waiting:
                future.started = None
            if job.is_wanted:
                job.entry = self._slow_jobs.put(job.client, 1.0, job)
                self._lock.notify()
            else:
                del self._in_flight[job.key]
        for future in late:
            _fail(
                future,
                LimitExceeded(
                    "the request's constraint waited too long to be compiled, since the machine is busy",
                    limit="busy",
                    hint="Try again later.",
                ),
            )

    def _report(self, error: WorkerUnavailable) -> None:
        """Log why a worker does not start, unless that is what was logged last."""
        if error.reason != self._reported and not self._is_closed:
            self._reported = error.reason
            logger.warning("%s", error.cause)

    def _retry(self, job: ProbeJob[Outcome]) -> bool:
        """Put a job back whose worker does not start, and pause. Return False if its time is up."""
        with self._lock:
            if self._is_closed or monotonic() >= job.deadline or not job.is_wanted:
                return False
            if job.is_slow:
                job.is_slow = False
                self._workers_to_reserve += 1
            for future in job.waiting:
                future.started = None
            self._jobs.appendleft(job)
            self._lock.notify()
        self._closing.wait(_RETRY_SECONDS)
        return True

    def _resolve(self, job: ProbeJob[Outcome], outcome: Outcome | StructgenError, seconds: float) -> None:
        with self._lock:
            if job.is_slow:
                self._workers_to_reserve += 1
                self._lock.notify()
            if self._in_flight.pop(job.key, None) is None:
                return  # closed meanwhile, and all futures have failed
            self._count(outcome, seconds)
            if not isinstance(outcome, StructgenError) or temporary_status(outcome) is None:
                self._known[job.key] = detached(outcome) if isinstance(outcome, StructgenError) else outcome
                self._evict()
            waiting = list(job.waiting)
        for future in waiting:
            if isinstance(outcome, StructgenError):
                _fail(future, outcome)
            elif future.set_running_or_notify_cancel():
                future.set_result(outcome)

    def _count(self, outcome: Outcome | StructgenError, seconds: float) -> None:
        stats = self._stats
        bucket = next((i for i, most in enumerate(SECONDS) if seconds <= most), len(SECONDS))
        stats.compile_seconds[bucket] += 1
        stats.compile_seconds_sum += seconds
        stats.refused += isinstance(outcome, StructgenError)
        stats.timed_out += getattr(outcome, "limit", "") == "compile_seconds"
        stats.slow += _is_slow(outcome)

    def _evict(self) -> None:
        """Evict the least recently used outcomes while there are too many."""
        while len(self._known) > self.limits.cache_entries:
            self._known.popitem(last=False)
        # Memory of constraints in use is not freed by eviction, so only a few are evicted at a time.
        for _ in range(4):
            if len(self._known) < 2 or self._has_room():
                return
            self._known.popitem(last=False)


_Self = TypeVar("_Self", bound=CompileProbes[Any])
_ABSENT: Any = object()


def _is_slow(outcome: Any) -> bool:
    """Return whether a constraint has an engine or a process of its own."""
    return getattr(outcome, "is_slow", False) is True


def _key(kind: Kind, spec: Any) -> bytes:
    text = "" if kind == "json_object" else spec_text(spec)
    mark = "t" if isinstance(spec, (str, bytes, bytearray)) else "v"
    return hashlib.sha256(f"{kind}:{mark}:{text}".encode("utf-8", "surrogatepass")).digest()


def _note_start(job: ProbeJob[Outcome]) -> ProbeJob[Outcome]:
    now = monotonic()
    for future in job.waiting:
        future.started = now
    return job


def _fail(future: Future[Any], error: StructgenError) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
