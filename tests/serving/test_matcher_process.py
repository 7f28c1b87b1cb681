"""Constraints in processes of their own: the same masks, bounded, and nothing left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from structgen._sandbox.priority import SlowWork
from structgen.constraints.grammar.constraint import lark
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.serving import isolating_compiler
from structgen.serving.isolating_compiler import LanedCompiler, LanedSpec
from structgen.serving.matcher_process import _COMMAND as COMMAND
from structgen.serving.matcher_process import Lane, LaneMatcher, Lanes
from structgen.serving.migrating_matcher import MovingMatcher
from structgen.serving.probe import serving_vocabulary
from structgen.serving.requests import RequestLimits, constraint_of
from structgen.serving.temporary_errors import passing_status
from structgen.vocabulary import Vocabulary
from tests.unhurried import HANG_SECONDS

from .conftest import until
from .test_compiler import SLOW

VOCABULARY = Vocabulary.from_tokens(
    [*(bytes([byte]) for byte in range(256)), b'{"', b'": ', b'", "', b"tr", b"ue", b"11", b"aa"],
    [263],
    size=264,
)
UNLIMITED = VOCABULARY.with_limits(call_steps=1 << 40)
SPECS: tuple[tuple[Any, Any], ...] = (
    (
        "json",
        {
            "type": "object",
            "properties": {"a": {"type": "boolean"}, "bcd": {"enum": [1, "x"]}},
            "required": ["a"],
        },
    ),
    ("regex", "a{2,7}(true|11)+b?"),
    ("choice", ["aaab", "aaac", "true"]),
    ("grammar", 'root ::= "(" root ")" | "a" root | "11"'),
)
# As large as people's own schemas are: its automaton takes longer to build than others wait for.
LARGE = {
    "type": "object",
    "properties": {f"key{i}": {"type": "array", "items": {"enum": [f"{i}", i, None]}} for i in range(8_000)},
    "required": ["key7"],
    "additionalProperties": False,
}

# Its states double with each letter that is read.
EXPLODING = {
    "type": "string",
    "allOf": [{"pattern": f"^(.*a.{{{i + 5}}}b|.*c.{{{i + 7}}}d)$"} for i in range(30)],
}


def read_letters(matcher: Any) -> None:
    draw = random.Random(3)
    assert matcher.advance(ord('"'))
    while True:
        assert matcher.advance(draw.choice(b"abcd"))


@pytest.fixture(scope="module")
def lanes() -> Iterator[Lanes]:
    made = Lanes(VOCABULARY, RequestLimits(max_lanes=3, step_seconds=5.0), SlowWork())
    yield made
    made.close()


def lane_matcher(lanes: Lanes, kind: Any, spec: Any) -> Any:
    matcher = lanes.lane(pickle.dumps(constraint_of(kind, spec))).matcher()
    assert matcher is not None
    return matcher


@pytest.mark.parametrize(("kind", "spec"), SPECS)
@pytest.mark.parametrize("seed", range(3))
def test_a_lane_answers_as_a_matcher_does(lanes: Lanes, kind: Any, spec: Any, seed: int) -> None:
    draw = random.Random(seed)
    near = Matcher(constraint_of(kind, spec), VOCABULARY)
    far = lane_matcher(lanes, kind, spec)
    assert far.least_tokens(20) == near.least_tokens(20)
    for _ in range(60):
        move = draw.random()
        if move < 0.15 and near.tokens:
            count = draw.randint(1, len(near.tokens))
            near.rollback(count)
            far.rollback(count)
        elif move < 0.25:
            token = draw.randrange(VOCABULARY.size)
            assert far.advance(token) == near.advance(token)
        elif move < 0.5:
            for token in near.forced():
                assert near.advance(token) and far.advance(token)
        elif allowed := list(np.flatnonzero(np.unpackbits(near.mask().view(np.uint8), bitorder="little"))):
            token = int(draw.choice(allowed))
            assert near.advance(token) and far.advance(token)
        assert far.tokens == near.tokens
        if near.is_finished:
            assert not far.mask().any() and far.must_stop
            near.rollback(1)
            far.rollback(1)
        if draw.random() < 0.7:
            assert np.array_equal(far.mask(), near.mask())
            assert far.is_complete() == near.is_complete() and far.must_stop == near.must_stop
            assert far.allowed_count() == near.allowed_count() and far.forced() == near.forced()
            assert far.forced_bytes() == near.forced_bytes() and far.witness(50) == near.witness(50)
    with pytest.raises(ValueError, match="cannot roll back"):
        far.rollback(1000)


def test_a_lane_says_at_which_temperature_a_token_is_drawn(lanes: Lanes) -> None:
    constraint = lark('start: "a" x\nx[temperature=0.5]: /[ab]/', lexer="longest")
    matcher = lanes.lane(pickle.dumps(constraint)).matcher()
    assert matcher.sets_temperature and matcher.temperature is None
    assert matcher.advance(ord("a")) and matcher.temperature == 0.5
    assert matcher.advance(ord("b")) and matcher.temperature is None


def test_matchers_of_one_lane_do_not_disturb_each_other(lanes: Lanes) -> None:
    lane = lanes.lane(pickle.dumps(constraint_of("regex", "[ab]{3}")))
    one, other = lane.matcher(), lane.matcher()
    assert one is not None and other is not None
    assert one.advance(ord("a")) and one.advance(ord("b")) and one.advance(ord("a"))
    assert one.must_stop and not other.must_stop and other.allowed_count() > 1
    del one
    gc.collect()
    assert list(lane._gone) == [0] and other.advance(ord("b"))
    assert not other.is_complete() and not lane._gone


def test_a_lane_ends_when_nobody_needs_it(lanes: Lanes) -> None:
    matcher = lane_matcher(lanes, "regex", "ab")
    pid = matcher._lane.pid
    assert matcher.forced() and lives(pid)
    del matcher
    gc.collect()
    gone(pid)


def test_there_are_only_so_many(lanes: Lanes) -> None:
    gc.collect()
    matchers = [lane_matcher(lanes, "regex", f"a{i}") for i in range(3)]
    with pytest.raises(LimitExceeded) as caught:
        lane_matcher(lanes, "regex", "b")
    assert caught.value.limit == "max_lanes"
    del matchers
    gc.collect()
    assert lane_matcher(lanes, "regex", "b").forced()


def test_what_is_refused_in_a_lane_leaves_none_open() -> None:
    lanes = Lanes(UNLIMITED, RequestLimits(max_lanes=2, compile_seconds=0.2), SlowWork())
    gc.disable()  # subtle: a cycle would keep the lane until the collector comes
    try:
        for _ in range(4):
            with pytest.raises(LimitExceeded) as caught:
                lane_matcher(lanes, "grammar", SLOW)
            assert caught.value.limit == "compile_seconds" and "to build" in str(caught.value)
            assert lanes.open_lanes == 0
    finally:
        gc.enable()
        lanes.close()


def test_lanes_that_are_closed_are_not_the_requests_fault() -> None:
    lanes = Lanes(VOCABULARY, RequestLimits(), SlowWork())
    matcher = lane_matcher(lanes, "regex", "ab")
    lanes.close()
    with pytest.raises(LimitExceeded) as caught:
        matcher.mask()
    assert caught.value.limit == "closed"


def test_a_lane_ends_when_all_have_left(lanes: Lanes) -> None:
    lane = lanes.lane(pickle.dumps(constraint_of("regex", "[ab]{3}")))
    one, other = lane.matcher(), lane.matcher()
    assert one is not None and other is not None and one.advance(ord("a"))
    one.on_disconnect()
    with pytest.raises(LimitExceeded, match="nobody waits"):
        one.mask()
    assert other.advance(ord("b")) and not lane.is_over
    other.on_disconnect()
    gone(lane.pid)
    assert lane.is_over and lane.matcher() is None


def test_who_is_collected_ends_what_is_waited_for(lanes: Lanes) -> None:
    """One who waits has left, and the other has just gone."""
    lane = lanes.lane(pickle.dumps(constraint_of("regex", "[ab]{3}")))
    waiting, other = lane.matcher(), lane.matcher()
    assert waiting is not None and other is not None
    os.kill(lane.pid, signal.SIGSTOP)
    met: list[LimitExceeded] = []

    def wait() -> None:
        with pytest.raises(LimitExceeded) as caught:
            waiting.mask()
        met.append(caught.value)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.on_disconnect()
    assert not lane.is_over
    del other
    gc.collect()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive() and met[0].limit == "left" and lane.is_over
    gone(lane.pid)


@pytest.mark.usefixtures("quick_stays_quick")
def test_who_leaves_while_a_lane_is_built_ends_it(stopped_lanes: list[int]) -> None:
    limits = RequestLimits(quick_seconds=9.0, compile_seconds=60.0, slow_mask_seconds=30.0)
    with LanedCompiler(VOCABULARY, limits, workers=1) as compiler:
        assert compiler.lanes is not None
        spec = LanedSpec("grammar", b"", pickle.dumps(constraint_of("grammar", SLOW)), compiler.lanes, None)
        quick = compiler.compile("regex", "ab")
        assert isinstance(quick, LanedSpec) and quick.quick is not None
        moving = MovingMatcher(quick.quick.open(), spec)

        def leave() -> None:
            until(lambda: stopped_lanes)
            moving.on_disconnect()

        leaving = threading.Thread(target=leave)
        leaving.start()
        with pytest.raises(LimitExceeded) as caught:
            moving.witness()
        leaving.join()
        assert caught.value.limit == "left" and compiler.lanes.open_lanes == 0
        # Others may want it still.
        assert spec._refused is None


@pytest.mark.parametrize("first", ["who had it built", "who waits"])
def test_a_lane_is_built_as_long_as_one_waits_for_it(first: str, stopped_lanes: list[int]) -> None:
    limits = RequestLimits(quick_seconds=9.0, compile_seconds=600.0)
    with LanedCompiler(VOCABULARY, limits, workers=1) as compiler:
        assert compiler.lanes is not None
        spec = LanedSpec("grammar", b"", pickle.dumps(constraint_of("grammar", SLOW)), compiler.lanes, None)
        waits, left = [True, True], []

        def wait(place: int) -> None:
            with pytest.raises(LimitExceeded) as caught:
                spec.open(lambda: waits[place])
            left.append(caught.value.limit)

        threads = [threading.Thread(target=wait, args=(place,)) for place in range(2)]
        for place, thread in enumerate(threads):
            thread.start()
            until(lambda place=place: len(spec._waiting) > place and stopped_lanes)
        if first == "who waits":
            waits[1] = False
            threads[1].join(HANG_SECONDS)
            assert not threads[1].is_alive() and threads[0].is_alive()
        else:
            waits[0] = False
            time.sleep(0.3)
            assert not left
        assert compiler.lanes.open_lanes == 1
        waits[:] = [False, False]
        for thread in threads:
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()
        assert left == ["left", "left"] and compiler.lanes.open_lanes == 0 and not spec._waiting


@pytest.mark.parametrize("_time", range(3))
def test_a_lane_that_was_built_for_one_who_has_left_serves_those_who_wait(
    _time: int, stopped_lanes: list[int]
) -> None:
    with LanedCompiler(VOCABULARY, RequestLimits(compile_seconds=60.0), workers=1) as compiler:
        assert compiler.lanes is not None
        spec = LanedSpec("json", b"", pickle.dumps(constraint_of("json", LARGE)), compiler.lanes, None)
        found: list[Any] = []
        is_wanted = True

        def have_it_built() -> None:
            with contextlib.suppress(LimitExceeded):
                spec.open(lambda: is_wanted).on_disconnect()

        builder = threading.Thread(target=have_it_built)
        builder.start()
        until(lambda: stopped_lanes)
        other = threading.Thread(target=lambda: found.append(spec.open()))
        other.start()
        until(lambda: len(spec._waiting) == 2)
        os.kill(stopped_lanes[0], signal.SIGCONT)
        is_wanted = False
        builder.join(HANG_SECONDS)
        other.join(HANG_SECONDS)
        assert compiler.lanes.starts == 1 and found[0].allowed_count() and spec._kept is None
        pid = found.pop()._lane.pid
        gc.collect()
        gone(pid)


@pytest.mark.usefixtures("quick_stays_quick")
def test_who_leaves_ends_what_is_asked_beside() -> None:
    limits = RequestLimits(step_seconds=600.0, slow_mask_seconds=30.0)
    with LanedCompiler(VOCABULARY, limits, workers=1) as compiler:
        assert compiler.lanes is not None
        spec = compiler.compile("regex", "(a|b){30}c")
        assert isinstance(spec, LanedSpec) and not spec.is_slow
        matcher, other = spec.open(), spec.beside()
        pid = other._lane.pid
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.3, lambda: (other.on_disconnect(), matcher.on_disconnect())).start()
        with pytest.raises(LimitExceeded) as caught:
            matcher.least_tokens(10)
        assert caught.value.limit in ("left", "lane_bytes") and compiler.lanes.open_lanes == 0
        gone(pid)


@pytest.mark.parametrize("text", ["ab", "ab" * 500_000])
def test_who_leaves_does_not_wait_for_a_lane_that_does_not_run(lanes: Lanes, text: str) -> None:
    """Nor until it takes a question that is larger than the buffers of its socket."""
    matcher = lane_matcher(lanes, "regex", "(ab)*")
    os.kill(matcher._lane.pid, signal.SIGSTOP)
    matcher.replay(list(text.encode()))

    def leave() -> None:
        until(lambda: lanes._slow_work)
        matcher.on_disconnect()

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(LimitExceeded, match="nobody waits"):
        matcher.mask()
    leaving.join()
    gone(matcher._lane.pid)


@pytest.mark.parametrize("text", ["ab", "a" * 1_000_000])
def test_a_lane_that_does_not_run_is_busy(monkeypatch: pytest.MonkeyPatch, lanes: Lanes, text: str) -> None:
    """Whether it is the question that it does not take, or the answer that it does not give."""
    matcher = lane_matcher(lanes, "regex", "(ab)*")
    os.kill(matcher._lane.pid, signal.SIGSTOP)
    monkeypatch.setattr("structgen.serving.matcher_process.wall_limit", lambda used: 0.5)
    matcher.replay(list(text.encode()))
    with pytest.raises(LimitExceeded, match="did not get its CPU time") as caught:
        matcher.mask()
    assert caught.value.limit == "busy" and passing_status(caught.value) == 503
    gone(matcher._lane.pid)


def test_what_a_lane_refuses_is_refused_at_once_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolating_compiler, "_INSTALL_SECONDS", 0.0)
    with LanedCompiler(VOCABULARY, RequestLimits(lane_bytes=4 << 20), workers=1) as compiler:
        found = compiler.compile("json", LARGE)
        assert isinstance(found, LanedSpec) and compiler.lanes is not None
        for _ in range(3):
            with pytest.raises(LimitExceeded) as caught:
                found.open()
            assert caught.value.limit == "lane_bytes"
        assert compiler.lanes.starts == 1


def test_what_dies_with_the_process_of_all_lanes_is_not_the_specs_fault(stopped_lanes: list[int]) -> None:
    with LanedCompiler(VOCABULARY, RequestLimits(compile_seconds=60.0), workers=1) as compiler:
        assert compiler.lanes is not None
        spec = LanedSpec("grammar", b"", pickle.dumps(constraint_of("grammar", SLOW)), compiler.lanes, None)
        until(lambda: compiler.lanes._process)
        maker = compiler.lanes._process
        assert maker is not None

        def kill() -> None:
            until(lambda: stopped_lanes)
            maker.kill()

        killing = threading.Thread(target=kill)
        killing.start()
        with pytest.raises(LimitExceeded) as caught:
            spec.open()
        killing.join()
        assert caught.value.limit == "worker" and spec._refused is None


def test_who_takes_too_long_is_ended() -> None:
    lanes = Lanes(VOCABULARY, RequestLimits(step_seconds=0.2, compile_seconds=60.0), SlowWork())
    try:
        harmless = lane_matcher(lanes, "regex", "ab")
        matcher = lane_matcher(lanes, "json", EXPLODING)
        pid = matcher._lane.pid
        with pytest.raises(LimitExceeded) as caught:
            read_letters(matcher)
        assert caught.value.limit == "step_seconds"
        gone(pid)
        with pytest.raises(LimitExceeded, match="has ended"):
            matcher.mask()
        assert harmless.forced()
    finally:
        lanes.close()


def test_a_process_that_was_killed_is_told_and_made_again() -> None:
    lanes = Lanes(VOCABULARY, RequestLimits(), SlowWork())
    try:
        matcher = lane_matcher(lanes, "regex", "ab")
        os.kill(matcher._lane.pid, 9)
        with pytest.raises(LimitExceeded, match="has ended"):
            matcher.mask()
        maker = children(os.getpid(), "matcher_worker")[0]
        os.kill(maker, 9)
        end = time.monotonic() + HANG_SECONDS
        while True:
            try:
                assert lane_matcher(lanes, "regex", "ab").forced()
                break
            except LimitExceeded as error:
                assert error.limit == "worker" and time.monotonic() < end
    finally:
        lanes.close()
    gone(maker)


def test_closing_ends_all() -> None:
    lanes = Lanes(VOCABULARY, RequestLimits(), SlowWork())
    matcher = lane_matcher(lanes, "regex", "ab")
    pid = matcher._lane.pid
    threads = [one for one in threading.enumerate() if one.name == "structgen-lanes" and one is lanes._thread]
    lanes.close()
    gone(pid)
    assert threads and not threads[0].is_alive()
    with pytest.raises(LimitExceeded):
        matcher.mask()
    with pytest.raises(LimitExceeded):
        lane_matcher(lanes, "regex", "ab")


@pytest.mark.usefixtures("quick_stays_quick")
def test_what_takes_long_to_build_is_served_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = RequestLimits(quick_seconds=5.0, slow_mask_seconds=30.0)
    with LanedCompiler(VOCABULARY, limits, workers=1) as compiler:
        quick = compiler.compile("regex", "ab")
        assert not quick.is_slow and isinstance(quick.open(), MovingMatcher)
        monkeypatch.setattr(isolating_compiler, "_INSTALL_SECONDS", 0.0)
        large = compiler.compile("json", LARGE)
        assert large.is_slow
        one, other = large.open(), large.open()
        assert isinstance(one, LaneMatcher) and isinstance(other, LaneMatcher)
        assert one._lane is other._lane
        assert one.advance(ord("{")) and one.witness() and not other.tokens
        assert compiler.lanes is not None and compiler.lanes.open_lanes == 1
        assert compiler.compile("json", LARGE) is large


@pytest.mark.usefixtures("quick_stays_quick")
def test_a_limit_in_the_middle_of_a_text_moves_it_to_a_lane() -> None:
    # Harmless for eight letters, and then in more ways than can be told apart.
    spec = 'root ::= [a-z]{8} e\ne ::= e e | [a-z] e | e [a-z] | [a-z] | ""'
    text = list(b"abcdefghabababababab")
    with LanedCompiler(
        VOCABULARY, RequestLimits(slow_mask_seconds=9.0, step_seconds=9.0), workers=1
    ) as compiler:
        compiler._quick_vocabulary = serving_vocabulary(VOCABULARY.with_limits(mask_steps=20))
        found = compiler.compile("grammar", spec)
        assert isinstance(found, LanedSpec) and not found.is_slow
        near, moving = Matcher(constraint_of("grammar", spec), VOCABULARY), found.open()
        assert isinstance(moving, MovingMatcher)
        for token in text:
            assert near.advance(token) and moving.advance(token)
            assert np.array_equal(near.mask(), moving.mask()) and moving.tokens == near.tokens
            assert near.must_stop == moving.must_stop and near.is_complete() == moving.is_complete()
        assert found.is_slow
        moving.rollback(14)
        near.rollback(14)
        assert np.array_equal(near.mask(), moving.mask()) and moving.tokens == near.tokens == text[:6]
        assert isinstance(found.open(), LaneMatcher)


@pytest.mark.usefixtures("quick_stays_quick")
def test_completions_are_not_looked_for_where_masks_of_others_would_wait() -> None:
    limits = RequestLimits(step_seconds=60.0, slow_mask_seconds=30.0)
    with LanedCompiler(VOCABULARY, limits, workers=1) as compiler:
        assert compiler.lanes is not None
        found = compiler.compile("regex", "(a|b){30}c")
        assert isinstance(found, LanedSpec) and not found.is_slow
        near = Matcher(constraint_of("regex", "(a|b){30}c"), VOCABULARY)
        matcher = found.open()
        assert matcher.least_tokens(40) == near.least_tokens(40) and compiler.lanes.starts == 0
        assert not found.needs_lane(40, closes=False) and found.needs_lane(40, closes=True)
        # Whether there is a shorter one is asked elsewhere; the matcher stays.
        assert found.needs_lane(10, closes=False)
        assert matcher.least_tokens(10) == near.least_tokens(10) == 16 and compiler.lanes.starts == 1
        assert isinstance(matcher, MovingMatcher) and not found.is_slow
        for token in b"ab":
            assert matcher.advance(token) and near.advance(token)
        assert matcher.witness(50) == near.witness(50)
        assert matcher.tokens == near.tokens and np.array_equal(matcher.mask(), near.mask())
        assert not found.is_slow and isinstance(
            found.open(), MovingMatcher
        )  # others do not need one for that
        started = compiler.lanes.starts
        assert found.open().least_tokens(10) == 16 and compiler.lanes.starts == started


@pytest.mark.usefixtures("quick_stays_quick")
def test_one_apart_has_an_engine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with LanedCompiler(VOCABULARY, RequestLimits(slow_mask_seconds=30.0), workers=1) as compiler:
        found = compiler.compile("regex", "ab*")
        assert isinstance(found, LanedSpec) and found.quick is not None
        apart = found.apart()
        assert apart is not None and apart.vocabulary.engine is not found.quick.vocabulary.engine
        assert apart.open().forced() == found.open().forced()
        monkeypatch.setattr(isolating_compiler, "_INSTALL_SECONDS", 0.0)
        large = compiler.compile("json", LARGE)
        assert isinstance(large, LanedSpec) and large.apart() is None


def test_hostile_specs_are_refused_as_before() -> None:
    with LanedCompiler(UNLIMITED, RequestLimits(compile_seconds=0.5), workers=1) as compiler:
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("grammar", SLOW)
        assert caught.value.limit == "compile_seconds"


def lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone(pid: int) -> None:
    until(lambda: not lives(pid))


def children(pid: int, name: str) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        for child in map(int, (task / "children").read_text().split()):
            if name in Path(f"/proc/{child}/cmdline").read_text():
                found.append(child)
    return found


def test_what_a_lane_is_asked_counts_as_slow_work_until_it_is_answered(stopped_lanes: list[int]) -> None:
    slow_work = SlowWork()
    lanes = Lanes(VOCABULARY, RequestLimits(step_seconds=60.0, compile_seconds=60.0), slow_work)
    try:
        pickled = pickle.dumps(constraint_of("regex", "ab"))
        opened: list[Lane] = []
        opening = threading.Thread(target=lambda: opened.append(lanes.lane(pickled)))
        assert not slow_work
        opening.start()
        until(lambda: slow_work)
        assert opening.is_alive()
        os.kill(stopped_lanes[0], signal.SIGCONT)
        opening.join(HANG_SECONDS)
        assert not slow_work
        matcher = opened[0].matcher()
        assert matcher is not None and matcher.advance(ord("a")) and not slow_work
    finally:
        lanes.close()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="this system has no such priority")
def test_a_lane_runs_when_others_leave_a_processor_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.serving.matcher_process._COMMAND", COMMAND)
    lanes = Lanes(VOCABULARY, RequestLimits(compile_seconds=60.0), SlowWork())
    try:
        pickled = pickle.dumps(constraint_of("regex", "ab"))

        def is_wanted() -> bool:
            """On a busy machine it would take long to build."""
            return all(os.sched_getscheduler(lane.pid) != os.SCHED_IDLE for lane in lanes._all())

        with pytest.raises(LimitExceeded) as caught:
            lanes.lane(pickled, is_wanted)
        assert caught.value.limit == "left"
    finally:
        lanes.close()


@pytest.fixture
def starving(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As many of the first lanes as are set get no CPU time while they build.

    Returns:
        How many these are, and then the numbers of all lanes.
    """
    found = [1]
    began = Lane.begin

    def begin(lane: Lane, *arguments: Any) -> None:
        found.append(lane.pid)
        clock = time.monotonic
        if len(found) <= 1 + found[0]:
            os.kill(lane.pid, signal.SIGSTOP)
            looks = iter([0.0])  # the first one sets the deadline
            clock = lambda: next(looks, 0.6 * HANG_SECONDS)  # noqa: E731
        monkeypatch.setattr("structgen.serving.matcher_process.monotonic", clock)
        began(lane, *arguments)

    monkeypatch.setattr(Lane, "begin", begin)
    monkeypatch.setattr("structgen.serving.matcher_process._COMMAND", COMMAND)
    return found


def test_a_lane_that_is_starved_is_built_at_a_low_priority(starving: list[int]) -> None:
    """On a machine that is never idle it would get nothing."""
    lanes = Lanes(VOCABULARY, RequestLimits(compile_seconds=60.0), SlowWork())
    try:
        matcher = lane_matcher(lanes, "regex", "ab")
        _, first, second = starving
        assert matcher._lane.pid == second and lanes.starts == 2 and lanes.open_lanes == 1
        assert os.getpriority(os.PRIO_PROCESS, second) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
        if hasattr(os, "SCHED_IDLE"):
            assert os.sched_getscheduler(second) != os.SCHED_IDLE
        assert matcher.advance(ord("a"))
        gone(first)
    finally:
        lanes.close()


def test_a_lane_that_is_starved_at_a_low_priority_too_is_busy(starving: list[int]) -> None:
    starving[0] = 2
    lanes = Lanes(VOCABULARY, RequestLimits(compile_seconds=60.0), SlowWork())
    try:
        with pytest.raises(LimitExceeded, match=f"to build within {HANG_SECONDS:g} s") as caught:
            lane_matcher(lanes, "regex", "ab")
        assert caught.value.limit == "busy" and lanes.open_lanes == 0 and lanes.starts == 2
    finally:
        lanes.close()
