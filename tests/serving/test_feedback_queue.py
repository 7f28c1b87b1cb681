"""Specs that need little CPU time do not wait for those that need much. All times are computed, none is measured."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pytest

from structgen.serving.feedback_queue import GROWTH, WALL_FACTOR, FeedbackQueue

QUICK, LIMIT = 0.05, 5.0
STEP = 0.01


@dataclass(eq=False)
class Spec:
    """A spec, and the CPU time that its probe needs. It is refused at the limit."""

    need: float
    client: str = ""
    level: int = 0
    spent: float = 0.0
    done: float = 0.0
    """When its probe had ended."""


def serve(arrivals: list[tuple[float, Spec]]) -> None:
    """Probe specs on one worker, which gets all of its processor."""
    queue: FeedbackQueue[Spec] = FeedbackQueue(QUICK)
    new: deque[Spec] = deque()
    coming = deque(sorted(arrivals, key=lambda one: one[0]))
    now = 0.0

    def arrive() -> None:
        while coming and coming[0][0] <= now:
            new.append(coming.popleft()[1])

    while coming or new or len(queue):
        arrive()
        if not (new or len(queue)):
            now = coming[0][0]
            continue
        spec, used = new.popleft() if new else queue.take(), 0.0
        while used < min(spec.need, LIMIT):
            if used >= QUICK:
                if spec.level or not len(queue):  # a new one goes on if no other waits
                    spec.level = max(1, spec.level)
                    goes_on = queue.may_continue(spec.level, used, used, others_wait=bool(new))
                else:
                    goes_on = False
                if not goes_on:
                    spec.level = queue.level_after(spec.level, used)
                    queue.put(spec.client, spec.level, spec)
                    break
            used += STEP
            now += STEP
            arrive()
        else:
            spec.done = now
        spec.spent += used


def test_harmless_specs_do_not_wait_for_hostile_ones() -> None:
    """In order of arrival, the harmless ones would wait for 12 times 5 s."""
    hostile = [Spec(60.0) for _ in range(12)]
    harmless = [Spec(need) for need in (0.01, 0.06, 0.08, 0.12, 0.18)]
    serve([(0.0, spec) for spec in (*hostile, *harmless)])
    turns = QUICK * (1 + GROWTH)  # what a spec may use before one that needs no more than a turn of level 1
    assert max(spec.done for spec in harmless) <= turns * (len(hostile) + len(harmless)) + 0.1
    assert min(spec.done for spec in hostile) > max(spec.done for spec in harmless)


def test_a_harmless_spec_that_comes_later_waits_for_one_turn_at_most() -> None:
    hostile = [Spec(60.0) for _ in range(12)]
    harmless = [(4.0 + number, Spec(0.1)) for number in range(40)]
    serve([*((0.0, spec) for spec in hostile), *harmless])
    for arrival, spec in harmless:
        assert spec.done - arrival < LIMIT + 0.5
    waits = sorted(spec.done - arrival for arrival, spec in harmless)
    assert waits[len(waits) // 2] < 2.0


def test_turns_in_vain_cost_at_most_four_thirds_of_what_a_spec_needs() -> None:
    specs = [Spec(need) for need in (0.02, 0.06, 0.3, 0.9, 2.5, 4.9, 60.0) for _ in range(5)]
    serve([(0.0, spec) for spec in specs])
    for spec in specs:
        assert spec.spent <= 7 / 3 * min(spec.need, LIMIT) + 6 * STEP


def test_many_short_specs_of_one_client_do_not_hold_up_a_long_one_of_another() -> None:
    flood = [(number * 0.1, Spec(0.15, "flood")) for number in range(2_000)]  # twice what a worker can do
    long = Spec(1.0, "other")
    serve([*flood, (1.0, long)])
    assert 0 < long.done < 1.0 + 12.0
    assert sum(spec.done > long.done for _, spec in flood) > 1_700


@pytest.mark.parametrize(
    ("level", "used", "seconds", "waiting", "expected"),
    [
        (1, 0.19, 0.3, 1, True),  # its turn goes on
        (1, 0.21, 0.3, None, True),  # no one waits
        (1, 0.21, 0.3, 2, True),
        (1, 0.21, 0.3, 1, False),
        (2, 0.21, 0.3, 1, True),
        (2, 0.81, 0.9, 2, False),
        (1, 0.01, 60.0, 1, True),  # a busy machine: one that used no more goes on
        (2, 0.01, 60.0, 1, False),
        (2, 0.01, 60.0, 2, True),
    ],
)
def test_which_turns_end(
    level: int, used: float, seconds: float, waiting: int | None, expected: bool
) -> None:
    queue: FeedbackQueue[str] = FeedbackQueue(QUICK)
    assert WALL_FACTOR * queue.turn_seconds(2) < 60.0
    if waiting is not None:
        queue.put("", waiting, "other")
    assert queue.may_continue(level, used, seconds) == expected


def test_one_worker_is_left_to_specs_that_had_no_turn() -> None:
    queue: FeedbackQueue[str] = FeedbackQueue(QUICK)
    assert queue.may_continue(1, 0.1, 0.1, others_wait=True)
    assert not queue.may_continue(1, 0.2, 0.2, others_wait=True)
    assert not queue.may_continue(1, 0.1, 60.0, others_wait=True)


def test_the_next_turn_is_longer_than_the_time_that_was_used() -> None:
    queue: FeedbackQueue[str] = FeedbackQueue(QUICK)
    assert queue.level_after(0, 0.06) == 1
    assert queue.level_after(0, 1.0) == 3
    assert queue.level_after(2, 0.01) == 3
    for level in range(6):
        used = queue.turn_seconds(level)
        assert queue.turn_seconds(queue.level_after(level, used)) > used


def test_a_spec_that_leaves_costs_its_client_nothing() -> None:
    queue: FeedbackQueue[str] = FeedbackQueue(QUICK)
    entry = queue.put("a", 5, "gone")
    queue.put("a", 1, "a")
    queue.put("b", 1, "b")
    assert queue.remove(entry) and not queue.remove(entry)
    assert [queue.take(), queue.take()] == ["a", "b"] and len(queue) == 0
    queue.put("a", 1, "a")
    queue.clear()
    assert len(queue) == 0
