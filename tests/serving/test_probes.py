"""Probes of many specs: each once at a time, cached, bounded, and none holds up the others."""

import os
import signal
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from structgen.errors import LimitExceeded, OptionError, SchemaError, StructgenError
from structgen.serving import probe_process
from structgen.serving.checker import SpecChecker
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.limits import RequestLimits
from structgen.serving.probe import probe_compile
from structgen.serving.probes import SECONDS
from structgen.serving.temporary_errors import WorkerUnavailable, temporary_status
from tests.unhurried import HANG_SECONDS

from .isolation import lives, until
from .specs import BYTES, SLOW, UNLIMITED_BYTES


@pytest.fixture(scope="module")
def compiler():
    with ConstraintCompiler(BYTES, RequestLimits(compile_seconds=30.0), workers=1) as made:
        yield made


def test_a_known_spec_is_a_hit_and_so_is_a_known_error(compiler):
    before = compiler.stats
    assert compiler.compile("choice", ["a", "b"]) is compiler.compile("choice", ["a", "b"])
    with pytest.raises(SchemaError):
        compiler.compile("json", {"type": "objct"})
    with pytest.raises(SchemaError, match="did you mean"):
        compiler.compile("json", {"type": "objct"})
    after = compiler.stats
    assert (after.hits - before.hits, after.misses - before.misses) == (2, 2)
    assert after.refused - before.refused == 2
    assert sum(after.compile_seconds) - sum(before.compile_seconds) == 2
    assert len(after.compile_seconds) == len(SECONDS) + 1


def test_equal_specs_in_flight_are_compiled_once(compiler):
    before = compiler.stats
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: compiler.compile("regex", "(joined){1,50}"), range(8)))
    assert len({id(one) for one in found}) == 1
    after = compiler.stats
    assert after.misses - before.misses == 1
    assert (after.joined - before.joined) + (after.hits - before.hits) == 7


def test_a_repeated_refusal_does_not_grow_its_traceback(compiler):
    def refused():
        spec = {"type": "objct", "title": "x" * 1000}
        with pytest.raises(SchemaError) as caught:
            compiler.compile("json", spec)
        return caught.value, len(list(traceback.walk_tb(caught.value.__traceback__)))

    first, _ = refused()
    depths = {refused()[1] for _ in range(20)}
    assert len(depths) == 1
    again, _ = refused()
    assert again is not first and str(again) == str(first) and type(again) is type(first)


def test_errors_keep_their_place_across_the_process(compiler):
    with pytest.raises(StructgenError) as caught:
        compiler.compile("regex", "a(")
    assert "at position 1" in str(caught.value)


def test_a_spec_that_takes_too_long_is_stopped_and_the_next_one_is_served():
    limits = RequestLimits(compile_seconds=0.5)
    with ConstraintCompiler(UNLIMITED_BYTES, limits, workers=1) as compiler:
        compiler.compile("regex", "a")  # the process has started
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("grammar", SLOW)
        assert caught.value.limit == "compile_seconds"
        assert compiler.compile("regex", "b").open().advance(ord("b"))
        stats = compiler.stats
        assert stats.timed_out == 1 and stats.worker_starts >= 2
        with pytest.raises(LimitExceeded):
            compiler.compile("grammar", SLOW)
        assert compiler.stats.hits == stats.hits + 1  # remembered
        assert compiler.stats.worker_starts == stats.worker_starts


def test_a_slow_spec_does_not_hold_up_others_while_another_process_is_left():
    limits = RequestLimits(compile_seconds=20.0)
    with SpecChecker(UNLIMITED_BYTES, limits, workers=2) as checker:
        for one in checker._workers:
            until(lambda one=one: one._forker is not None)
        checker.check("regex", "warm")
        slow = [checker.submit("grammar", SLOW + f' | "{i}x"') for i in range(2)]
        # One reserves a worker. The other is set aside when another spec arrives.
        until(lambda: sum(one.starts for one in checker._workers) == 2 and not checker._jobs)
        checker.check("regex", "quick")
        # If the second slow spec had started, it is preempted and its process is started again.
        assert not any(one.done() for one in slow) or checker.stats.preempted <= 2
        checker.close()
        assert all(isinstance(one.exception(HANG_SECONDS), LimitExceeded) or one.result(0) for one in slow)


def test_memory_is_bounded():
    limits = RequestLimits(compile_bytes=8 << 20, compile_seconds=20.0, max_bytes=1 << 24)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("choice", [f"{i:050d}" for i in range(90_000)])
        assert caught.value.limit == "compile_bytes"
        assert compiler.compile("regex", "a").open().advance(ord("a"))


def test_the_cache_is_bounded():
    with ConstraintCompiler(BYTES, RequestLimits(cache_entries=4), workers=0) as compiler:
        for i in range(20):
            compiler.compile("regex", f"a{i}")
        assert compiler.stats.entries == 4
        assert compiler.stats.misses == 20


def test_too_many_waiting_specs_are_refused():
    limits = RequestLimits(max_pending=1, compile_seconds=20.0)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        compiler.wait_until_ready()
        os.kill(compiler.processes[0].worker_pid, signal.SIGSTOP)
        first = compiler.submit("regex", "b")
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("regex", "a")
        assert caught.value.limit == "max_pending"
        compiler.close()
        assert isinstance(first.exception(HANG_SECONDS), LimitExceeded)


def test_closing_ends_processes_and_threads():
    compiler = ConstraintCompiler(BYTES, workers=2)
    compiler.compile("regex", "a")
    threads = [one for one in threading.enumerate() if one.name == "structgen-probes"]
    processes = [worker._forker.pid for worker in compiler._workers if worker._forker is not None]
    processes += [worker._pid for worker in compiler._workers if worker._pid]
    assert processes
    compiler.close()
    compiler.close()
    for pid in processes:
        until(lambda pid=pid: not lives(pid))  # one that was being started sees it only then
    assert not any(one.is_alive() for one in threads if one in compiler._threads)
    with pytest.raises(LimitExceeded, match="closed"):
        compiler.compile("regex", "b")


def test_an_unforeseen_exception_in_this_process_is_an_internal_error(monkeypatch):
    with ConstraintCompiler(BYTES, workers=0) as compiler:
        monkeypatch.setattr("structgen.serving.probes.probe_compile", lambda *_: {}["x"])
        with pytest.raises(LimitExceeded, match="KeyError") as caught:
            compiler.compile("regex", "a")
        assert caught.value.limit == "internal"
        monkeypatch.undo()
        assert compiler.compile("regex", "a").open().allowed_count()  # it is not remembered


@pytest.mark.parametrize("workers", [-1, True, 65, "2"])
def test_workers_are_checked(workers):
    with pytest.raises(OptionError, match="workers"):
        ConstraintCompiler(BYTES, workers=workers)


def test_without_workers_specs_are_probed_on_a_thread(monkeypatch):
    """A server submits specs on its event loop, which must not wait for a probe."""
    may_run, threads = threading.Event(), []

    def waits(*given):
        threads.append(threading.current_thread())
        assert may_run.wait(HANG_SECONDS)
        return probe_compile(*given)

    monkeypatch.setattr("structgen.serving.probes.probe_compile", waits)
    with ConstraintCompiler(BYTES, workers=0) as compiler:
        futures = [compiler.submit("regex", "a"), compiler.submit("regex", "a")]
        assert not any(future.done() for future in futures)
        may_run.set()
        first, second = (future.result(HANG_SECONDS) for future in futures)
        assert first is second and first.open().advance(ord("a"))
        assert compiler.stats.joined == 1 and threads == compiler._threads


def test_a_spec_waits_for_a_worker_that_does_not_start(monkeypatch, caplog):
    """A system may refuse processes for a moment. A spec is refused only after `queue_seconds`."""
    monkeypatch.setattr("structgen.serving.probes._RETRY_SECONDS", 0.05)
    command = probe_process._COMMAND
    with ConstraintCompiler(BYTES, RequestLimits(), workers=1, queue_seconds=HANG_SECONDS) as compiler:
        compiler.wait_until_ready()
        monkeypatch.setattr(probe_process, "_COMMAND", [sys.executable, "-c", "raise SystemExit('broken')"])
        forker = compiler.processes[0]._forker
        forker.kill()
        forker.wait()
        waiting = compiler.submit("regex", "ab")
        until(lambda: "broken" in caplog.text)
        assert not waiting.done()
        monkeypatch.setattr(probe_process, "_COMMAND", command)
        assert waiting.result(HANG_SECONDS).open().advance(ord("a"))
    assert caplog.text.count("does not start: it ended with status 1: broken") == 1, "logged once"


def test_a_spec_whose_worker_does_not_start_in_time_is_refused_for_now(monkeypatch):
    with ConstraintCompiler(BYTES, RequestLimits(), workers=1, queue_seconds=0.0) as compiler:
        compiler.wait_until_ready()
        monkeypatch.setattr(probe_process, "_COMMAND", ["/nowhere/python"])
        forker = compiler.processes[0]._forker
        forker.kill()
        forker.wait()
        with pytest.raises(WorkerUnavailable) as caught:
            compiler.compile("regex", "ab")
        assert temporary_status(caught.value) == 503 and "/nowhere/python" in caught.value.reason
        assert "/nowhere" not in str(caught.value)


def test_a_caller_that_stops_waiting_gets_the_outcome_of_a_running_probe():
    with ConstraintCompiler(BYTES, RequestLimits(compile_seconds=HANG_SECONDS / 6), workers=1) as compiler:
        compiler.wait_until_ready()
        os.kill(compiler.processes[0].worker_pid, signal.SIGSTOP)
        first, second = compiler.submit("regex", "b"), compiler.submit("regex", "c")
        until(lambda: first.started is not None)
        joined = compiler.submit("regex", "b")
        assert compiler.stop_waiting(first) and compiler.stop_waiting(joined)
        assert not compiler.stop_waiting(second)
        os.kill(compiler.processes[0].worker_pid, signal.SIGCONT)
        assert first.result(HANG_SECONDS) is joined.result(HANG_SECONDS)
        cached = compiler.submit("regex", "b")
        assert compiler.stop_waiting(cached) and cached.started is None


def test_a_probe_that_makes_way_for_others_fails_if_its_caller_no_longer_waits():
    with SpecChecker(UNLIMITED_BYTES, RequestLimits(compile_seconds=HANG_SECONDS), workers=2) as checker:
        slow = [checker.submit("grammar", SLOW + f' | "{i}x"') for i in range(2)]
        until(lambda: any(job.is_slow for job in list(checker._in_flight.values())))
        until(lambda: all(one.started is not None for one in slow))
        assert all(map(checker.stop_waiting, slow))
        checker.check("regex", "quick")
        until(lambda: any(one.done() for one in slow))
        (failed,) = (one.exception() for one in slow if one.done())
        assert isinstance(failed, LimitExceeded) and failed.limit == "busy"
        assert temporary_status(failed) == 503 and len(checker._in_flight) == 1


def test_specs_whose_callers_have_cancelled_leave_the_queue():
    limits = RequestLimits(max_pending=6, compile_seconds=HANG_SECONDS)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        compiler.compile("regex", "warm")
        until(lambda: compiler.processes[0].worker_pid)
        os.kill(compiler.processes[0].worker_pid, signal.SIGSTOP)
        running = compiler.submit("regex", "running")
        until(lambda: running.started is not None)
        gone = [compiler.submit("regex", f"gone{number}") for number in range(5)]
        joined = compiler.submit("regex", "gone0")
        with pytest.raises(LimitExceeded, match="wait to be compiled"):
            compiler.submit("regex", "more").result(HANG_SECONDS)
        for future in gone:
            assert future.cancel()
        assert compiler.pending == 2, "the one that runs, and the one that another caller waits for"
        more = [compiler.submit("regex", f"more{number}") for number in range(4)]
        assert running.cancel() and compiler.pending == 6, "a probe that runs continues"
        os.kill(compiler.processes[0].worker_pid, signal.SIGCONT)
        for future in (joined, *more):
            assert future.result(HANG_SECONDS)
        assert compiler.pending == 0 and compiler.stats.misses == 11
        assert compiler.submit("regex", "running").done(), "its outcome is known"


def test_slow_specs_whose_callers_have_cancelled_leave_the_queue():
    with SpecChecker(UNLIMITED_BYTES, RequestLimits(compile_seconds=HANG_SECONDS), workers=2) as checker:
        slow = [checker.submit("grammar", SLOW + f' | "{i}x"') for i in range(2)]
        until(lambda: any(job.is_slow for job in list(checker._in_flight.values())))
        until(lambda: all(one.started is not None for one in slow))
        for _ in range(3):  # until one of them makes way and waits among the slow ones
            checker.check("regex", f"quick{_}")
            if any(job.entry for job in list(checker._in_flight.values())):
                break
        until(lambda: len(checker._slow_jobs) == 1)
        for future in slow:
            future.cancel()
        assert len(checker._slow_jobs) == 0 and checker.pending == 1
