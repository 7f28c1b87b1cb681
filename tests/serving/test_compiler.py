"""Probe compiles of specs in worker processes: results, limits, isolation, and that no process or memory remains."""

import contextlib
import os
import pickle
import signal
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

import structgen as sg
from structgen._sandbox.polling import is_readable
from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded, OptionError, SchemaError, StructgenError
from structgen.serving import probe
from structgen.serving.checker import SpecChecker
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.limits import RequestLimits
from structgen.serving.probe_process import Preempted, ProbeProcess
from structgen.serving.probe_worker import _answer
from structgen.serving.probes import SECONDS
from structgen.serving.temporary_errors import temporary_status
from structgen.serving.wire import decode_error, unpack
from tests.unhurried import HANG_SECONDS

from .conftest import until

BYTES = sg.Vocabulary.of_bytes()
# Under the limits of a vocabulary for serving it is refused after some seconds of CPU time,
SLOW = "start: a+\na: " + " | ".join(f'"{i}" a?' for i in range(20_000))
# and without them it takes close to a minute.
UNLIMITED_BYTES = BYTES.with_limits(call_steps=1 << 40)


@pytest.fixture(scope="module")
def compiler():
    with ConstraintCompiler(BYTES, RequestLimits(compile_seconds=30.0), workers=1) as made:
        yield made


def test_a_compiled_spec_opens_matchers(compiler):
    compiled = compiler.compile("regex", "ab?")
    first, second = compiled.open(), compiled.open()
    assert first.advance(ord("a"))
    assert second.tokens == []
    assert first.is_complete()
    assert compiled.constraint.describe() == "the pattern /ab?/"


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


def test_text_and_value_are_different_specs(compiler):
    assert compiler.compile("json", "true").open().advance(ord("1"))
    assert compiler.compile("json", True).open().advance(ord("1"))


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
        # One takes the place for slow specs. The other is set aside when another spec arrives.
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


def test_a_constraint_that_takes_long_to_build_is_refused():
    limits = RequestLimits(install_seconds=1e-7)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("regex", "a")
        assert caught.value.limit == "install_seconds"


def test_limits_are_relaxed_for_specs_that_passed_a_probe():
    limits = RequestLimits(install_seconds=1e-5, compile_seconds=1.0)
    passed = limits.relaxed()
    assert (passed.install_seconds, passed.compile_seconds) == (4e-5, 4.0)
    assert passed.compile_bytes > limits.compile_bytes and passed.max_pending > limits.max_pending
    assert passed.max_bytes == limits.max_bytes and passed.slow_mask_seconds == limits.slow_mask_seconds


def test_a_spec_with_a_slow_mask_has_an_engine_of_its_own():
    limits = RequestLimits(slow_mask_seconds=1e-9)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        compiled = compiler.compile("regex", "ab")
        assert compiled.is_slow
        assert compiled.vocabulary.engine is not compiler.vocabulary.engine
        assert compiled.vocabulary.native is compiler.vocabulary.native
        assert compiler.stats.slow == 1


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
        until(lambda pid=pid: not _lives(pid))  # one that was being started sees it only then
    assert not any(one.is_alive() for one in threads if one in compiler._threads)
    with pytest.raises(LimitExceeded, match="closed"):
        compiler.compile("regex", "b")


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_killed_processes_are_replaced():
    worker = ProbeProcess(BYTES, RequestLimits())
    try:
        worker.start()
        worker._forker.kill()
        worker._forker.wait()
        assert worker.probe("regex", "a").slowest_mask >= 0
        assert worker.starts == 2
        first = worker._pid
        os.kill(first, signal.SIGKILL)  # as the system does when memory runs out; no spec is to blame
        assert is_readable(worker._output, HANG_SECONDS)  # the next process has started
        assert worker.probe("regex", "b").seconds > 0
        assert worker._pid != first
        assert not _lives(first)
    finally:
        worker.close()
        worker.kill()


@pytest.mark.parametrize(("forgettable", "is_replaced"), [(0.0, True), (60.0, False)])
def test_warm_caches_do_not_make_the_next_spec_look_quick(
    monkeypatch: pytest.MonkeyPatch, forgettable: float, is_replaced: bool
) -> None:
    """Probes of a slow spec warm the caches of their process. The next spec would look quick there."""
    monkeypatch.setattr("structgen.serving.probe_process._NEGLIGIBLE_SECONDS", forgettable)
    limits = RequestLimits(slow_mask_seconds=1e-9, quick_seconds=60.0, compile_seconds=60.0)
    enum = {"enum": [{"a": k, "b": [k]} for k in range(2_000)]}
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        worker = compiler.processes[0]
        assert compiler.compile("json", enum).is_slow
        assert worker.cpu_seconds > 0
        first = worker.worker_pid
        assert compiler.compile("regex", "ab").is_slow
        assert (worker.worker_pid != first) == is_replaced
        second = worker.worker_pid
        with pytest.raises(StructgenError):
            compiler.compile("regex", "(")
        assert compiler.compile("regex", "ac").is_slow
        assert (worker.worker_pid != second) == is_replaced


def test_a_spec_is_preempted_when_it_may_not_continue():
    worker = ProbeProcess(UNLIMITED_BYTES, RequestLimits(compile_seconds=60.0, quick_seconds=0.01))
    try:
        worker.start()
        with pytest.raises(Preempted):
            worker.probe("grammar", SLOW, lambda: False)
        first = worker._forker
        assert worker.probe("regex", "a").seconds > 0
        assert worker._forker is first and worker.starts == 2  # the next process had been prepared
    finally:
        worker.close()
        worker.kill()


@pytest.mark.parametrize("kind_and_spec", [("regex", "a"), ("choice", ["a" * 5_000_000])])
def test_a_process_that_does_not_run_is_busy(monkeypatch, kind_and_spec):
    """The process may fail to read the spec or to send its answer."""
    monkeypatch.setattr("structgen.serving.probe_process.wall_limit", lambda used: 0.5)
    monkeypatch.setattr("structgen.serving.probe_process._RENEW_SECONDS", 0.5)
    worker = ProbeProcess(BYTES, RequestLimits())
    try:
        worker.start()
        os.kill(worker.worker_pid, signal.SIGSTOP)
        with pytest.raises(LimitExceeded, match="did not get its CPU time") as caught:
            worker.probe(*kind_and_spec)
        assert caught.value.limit == "busy" and temporary_status(caught.value) == 503
        worker._wall_seconds = HANG_SECONDS
        assert worker.probe("regex", "a").seconds > 0
    finally:
        worker.close()
        worker.kill()


def test_a_process_that_dies_is_reported_as_too_large_and_not_as_too_slow():
    worker = ProbeProcess(UNLIMITED_BYTES, RequestLimits(compile_seconds=60.0, quick_seconds=0.01))

    def ends():
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.worker_pid, signal.SIGKILL)
        return True

    try:
        worker.start()
        for _ in range(12):
            with pytest.raises(LimitExceeded) as caught:
                worker.probe("grammar", SLOW, ends)
            assert caught.value.limit == "compile_bytes"
    finally:
        worker.close()
        worker.kill()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_process_that_crashes_is_an_internal_error(number):
    worker = ProbeProcess(UNLIMITED_BYTES, RequestLimits(compile_seconds=60.0, quick_seconds=0.01))

    def crashes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.worker_pid, number)
        return True

    try:
        worker.start()
        with pytest.raises(LimitExceeded, match=number.name) as caught:
            worker.probe("grammar", SLOW, crashes)
        assert caught.value.limit == "internal" and temporary_status(caught.value) == 500
        assert "MiB" not in str(caught.value)
        assert worker.probe("regex", "a").seconds > 0
    finally:
        worker.close()
        worker.kill()


@pytest.mark.parametrize(
    ("raised", "limit"),
    [
        (KeyError("x"), "internal"),
        (AssertionError(), "internal"),
        (MemoryError(), "compile_bytes"),
        (RecursionError(), "request_depth"),
        (LimitExceeded("too much", limit="regex_nodes"), "regex_nodes"),
    ],
)
def test_an_error_in_a_worker_is_reported_with_its_own_limit(monkeypatch, caplog, raised, limit):
    def raises(*_):
        raise raised

    monkeypatch.setattr("structgen.serving.probe_worker.probe_compile", raises)
    frame = pickle.dumps(("regex", "a"))
    kind, content, tail = unpack(_answer(frame, BYTES, RequestLimits()))
    error = decode_error(content)
    assert kind == "error" and not tail and isinstance(error, LimitExceeded) and error.limit == limit
    assert ("Traceback" in caplog.text) == (limit == "internal")


def test_an_unforeseen_exception_in_this_process_is_an_internal_error(monkeypatch):
    with ConstraintCompiler(BYTES, workers=0) as compiler:
        monkeypatch.setattr("structgen.serving.probes.probe_compile", lambda *_: {}["x"])
        with pytest.raises(LimitExceeded, match="KeyError") as caught:
            compiler.compile("regex", "a")
        assert caught.value.limit == "internal"
        monkeypatch.undo()
        assert compiler.compile("regex", "a").open().allowed_count()  # it is not remembered


def test_the_texts_of_a_probe_differ(monkeypatch):
    """Otherwise a spec could be slow on every text except the one that is probed."""
    seen = set()
    draw = probe._one_of
    monkeypatch.setattr(probe, "_one_of", lambda *given: (found := draw(*given), seen.add(found))[0])
    for _ in range(4):
        probe.probe_compile("regex", "[a-z]{24}", probe.serving_vocabulary(BYTES), RequestLimits())
    assert len(seen) > 20


def test_a_spec_that_takes_long_counts_as_slow_work_until_it_is_answered():
    slow_work = SlowWork()
    limits = RequestLimits(compile_seconds=0.3, quick_seconds=0.01)
    worker = ProbeProcess(UNLIMITED_BYTES, limits, slow_work)
    seen = []

    def looks():
        seen.append(bool(slow_work))
        return True

    try:
        worker.start()
        with pytest.raises(LimitExceeded, match="takes more than"):
            worker.probe("grammar", SLOW, looks)
        assert seen[0] is False and all(seen[1:]) and len(seen) > 2
        assert not slow_work
        assert worker.probe("regex", "a").seconds > 0
        assert not slow_work
    finally:
        worker.close()
        worker.kill()


@pytest.mark.parametrize("workers", [-1, True, 65, "2"])
def test_workers_are_checked(workers):
    with pytest.raises(OptionError, match="workers"):
        ConstraintCompiler(BYTES, workers=workers)


def test_a_slow_spec_on_a_machine_that_is_never_idle_gets_its_turn(monkeypatch):
    """At idle priority it gets no CPU time on a busy machine. After half of its time it is probed at a low priority."""
    starved, lowered = [], []
    ahead = 0.0

    def stop(pid):
        nonlocal ahead
        starved.append(pid)
        os.kill(pid, signal.SIGSTOP)
        ahead = 0.6 * HANG_SECONDS

    monkeypatch.setattr("structgen.serving.probe_process.monotonic", lambda: time.monotonic() + ahead)
    monkeypatch.setattr("structgen.serving.probe_process.run_when_idle", stop)
    monkeypatch.setattr("structgen.serving.probe_process.lower_priority", lambda by, pid: lowered.append(pid))
    worker = ProbeProcess(
        BYTES, RequestLimits(compile_seconds=60.0, quick_seconds=1e-4), slow_work=SlowWork()
    )
    try:
        worker.start()
        assert worker.probe("regex", "|".join(f"text {number}[a-z]*" for number in range(3_000))).seconds > 0
        assert len(starved) == 1 and len(set(lowered) - set(starved)) == 1
    finally:
        worker.close()
        worker.kill()
