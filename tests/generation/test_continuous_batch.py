"""A batch that rows join and leave draws what each row would have drawn alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

import structgen as sg
from structgen.errors import OptionError
from structgen.generation import SamplingOptions, generate_tokens
from structgen.generation import continuous_batch as running
from structgen.generation import task_threads as turns
from structgen.generation.continuous_batch import ContinuousBatch
from structgen.generation.options import row_seed
from structgen.generation.row import Row
from structgen.generation.task_threads import TaskThreads
from structgen.matcher import Matcher, open_matcher
from structgen.models.memory import DistributionModel
from structgen.models.processed import with_processors
from structgen.protocols import LanguageModel
from structgen.vocabulary import Vocabulary
from tests.clocks import HandClock
from tests.oracles.naive_matcher import NaiveMatcher, NaiveVocabulary
from tests.oracles.toy_model import ToyModel

VOCABULARY = Vocabulary.from_tokens([b"a", b"b", b"ab", b"ba", b"1", None], eos_ids=[5])


def distribution(tokens: tuple[int, ...]) -> list[float]:
    shares = [1 + (7 * len(tokens) + 3 * sum(tokens) + token * token) % 11 for token in range(6)]
    return [share / sum(shares) for share in shares]


def model() -> DistributionModel:
    return DistributionModel(VOCABULARY, distribution)


CONSTRAINTS = [sg.regex("(ab|ba){2,9}1"), sg.choice(["ab1", "ba1", "b"]), None, sg.regex("[ab]{3,20}")]


def row_of(number: int, among: LanguageModel, **changes: object) -> Row:
    constraint = CONSTRAINTS[number % len(CONSTRAINTS)]
    matcher = None if constraint is None else open_matcher(constraint, among.vocabulary)
    options = SamplingOptions(seed=number, max_tokens=12, exact_weight=number % 3 > 0).replace(**changes)
    row = Row(number, [0], matcher, options, among.vocabulary, row_seed(options.seed, 0))
    row.prepare(None)
    return row


def finish(batch: ContinuousBatch, most: int = 500) -> list[Row]:
    ended = []
    for _ in range(most):
        if batch.is_idle:
            return ended
        ended += [row for row in batch.step() if row.finish is not None]
    raise AssertionError("the batch does not end")


def test_rows_draw_what_they_draw_alone() -> None:
    among = model()
    rows = [row_of(number, among) for number in range(12)]
    batch = ContinuousBatch(among, most_rows=3)
    ended: list[Row] = []
    for row in rows:
        batch.add([row])
        ended += [one for one in batch.step() if one.finish is not None]
    ended += finish(batch)
    assert sorted(row.index for row in ended) == list(range(12))
    for number, row in enumerate(rows):
        other = row_of(number, among)
        matcher = None if other._is_free else other.matcher
        (alone,) = generate_tokens(among, [[0]], [matcher], [other.options])
        assert (row.text, row.finish, row.tokens) == (alone.text, alone.finish, alone.tokens)
        assert row.logprob == (None if alone.logprob is None else pytest.approx(alone.logprob, abs=1e-4))
    assert batch.counts.rows > batch.counts.passes  # some of them side by side
    batch.close()


def test_rows_wait_for_the_end_of_a_session_that_takes_in_no_others() -> None:
    among = with_processors(model(), lambda tokens, logits: logits)
    batch = ContinuousBatch(among, most_rows=4)
    rows = [row_of(1, among) for _ in range(3)]
    for row in rows:
        batch.add([row])
    batch.step()
    assert batch.running == 1 and batch.waiting == 2 and not batch.has_prompts
    assert finish(batch) == rows
    assert {row.text for row in rows} == {rows[0].text} and rows[0].finish == "complete"
    batch.close()


def test_each_token_has_its_most_probable_ones_after_a_step_back() -> None:
    letters = NaiveVocabulary([b"a", b"b", b"c", b"ab", b"bc", None, None], eos_ids=[5, 6], size=9)
    among: Any = ToyModel(letters, lambda tokens: [0.05, 0.5, 0.2, 0.05, 0.1, 0.05, 0.05, 0, 0])
    retries = 0
    for seed in range(20):
        matcher = NaiveMatcher([b"abc", b"bbb"], letters, optimistic=[b"bcbcb", b"cca"])
        options = SamplingOptions(temperature=1, seed=seed)
        row = Row(0, [0], matcher, options, among.vocabulary, row_seed(seed, 0))
        row.scores.top_tokens = 2
        row.prepare(None)
        batch = ContinuousBatch(among)
        batch.add([row])
        finish(batch)
        batch.close()
        assert row.finish == "complete"
        assert [len(top) for top in row.scores.top_logprobs] == [2] * len(row.tokens)
        assert all(top[0][0] == 1 for top in row.scores.top_logprobs)
        retries += row.retries
    assert retries > 0


def test_rows_of_one_prompt_share_its_reading() -> None:
    among = model()
    batch = ContinuousBatch(among, most_rows=4)
    rows = [row_of(1, among) for _ in range(3)]
    batch.add(rows)
    finish(batch)
    assert batch.counts.prompt_tokens == 1
    assert len({row.text for row in rows}) == 1
    batch.close()


def test_rows_wait_for_a_place_in_order() -> None:
    among = model()
    batch = ContinuousBatch(among, most_rows=2)
    rows = [row_of(2, among, max_tokens=3) for _ in range(5)]
    for row in rows:
        batch.add([row])
    assert batch.waiting == 5
    batch.step()
    assert batch.running <= 2
    ended = finish(batch)
    assert [id(row) for row in ended] == [id(row) for row in rows]
    batch.close()


def test_a_dropped_row_leaves_and_the_others_go_on() -> None:
    among = model()
    batch = ContinuousBatch(among, most_rows=4)
    rows = [row_of(number, among) for number in (0, 2, 3)]
    for row in rows:
        batch.add([row])
    batch.step()
    batch.step()
    batch.drop([rows[1]])
    assert {id(row) for row in finish(batch)} <= {id(rows[0]), id(rows[2])}
    assert rows[1].finish is None and {rows[0].finish, rows[2].finish} <= {"complete", "length"}
    batch.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """Measures the turns of rows: on a busy machine each of them could take longer than others wait for it."""
    made = HandClock()
    for module in (turns, running):
        monkeypatch.setattr(module, "time", made)
    return made


class Held:
    """A matcher whose masks take a second of the clock, and wait for an event."""

    def __init__(self, inner: Matcher, event: threading.Event, clock: HandClock) -> None:
        self._inner, self._event, self._clock = inner, event, clock
        self.leaves = self.waits = 0

    def mask(self) -> object:
        self.waits += 1
        self._clock.advance(1.0)
        self._event.wait()
        return self._inner.mask()

    def on_disconnect(self) -> None:
        self.leaves += 1

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_a_slow_constraint_holds_no_one_up(clock: HandClock) -> None:
    among, event = model(), threading.Event()
    batch = ContinuousBatch(among, most_rows=4, patience=0.01)
    slow = row_of(3, among)
    slow._matcher = Held(slow.matcher, event, clock)
    quick = row_of(2, among, max_tokens=30)
    watchdog = threading.Timer(120, event.set)  # a batch that waits for the mask would wait for ever
    watchdog.start()
    batch.add([slow])
    batch.add([quick])
    while quick.finish is None:
        batch.step()
    assert slow.finish is None and not event.is_set()
    assert batch.counts.detached
    event.set()
    watchdog.cancel()
    finish(batch, 5000)
    other = row_of(3, among)
    (alone,) = generate_tokens(among, [[0]], [other.matcher], [other.options])
    assert slow.text == alone.text
    batch.close()


def test_a_draw_on_a_thread_of_its_own_happens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread may end before the other draws of the round start, and it is slow no more."""
    among = model()
    rows = {number: row_of(number, among) for number in (0, 1, 3)}
    batch = ContinuousBatch(among, most_rows=4)
    started = 0

    def start(task: Callable[[], None]) -> Future[None]:
        nonlocal started
        started += 1
        done: Future[None] = Future()
        task()
        done.set_result(None)
        return done

    monkeypatch.setattr(batch._threads, "start", start)
    for row in rows.values():
        batch.add([row])
    while not batch.is_idle:
        for member in batch._members:
            member.slow_draws = 1
        batch.step()
    assert started > 3
    for number, row in rows.items():
        again = row_of(number, among)
        (alone,) = generate_tokens(among, [[0]], [again.matcher], [again.options])
        assert row.text == alone.text
    batch.close()


def test_who_hangs_up_in_a_slow_turn_holds_no_one_up(clock: HandClock) -> None:
    """Each held a thread, and with the last one all turns stood still."""
    among, event = model(), threading.Event()
    batch = ContinuousBatch(among, most_rows=2, patience=0.01)
    watchdog = threading.Timer(120, event.set)  # else a batch that stands still would do so for ever
    watchdog.start()
    quick, held = row_of(2, among, max_tokens=400), []
    batch.add([quick])
    for _ in range(12):
        row = row_of(3, among)
        row._matcher = Held(row.matcher, event, clock)
        held.append(row)
        batch.add([row])
        for _ in range(4):
            batch.step()
        batch.drop([row])
        if quick.finish is not None:
            quick = row_of(2, among, max_tokens=400)
            batch.add([quick])
    assert not event.is_set() and batch.running <= 2
    assert all(row._matcher.leaves for row in held)
    waits = [row._matcher.waits for row in held]
    assert 2 <= sum(waits) <= 4 and waits == sorted(waits, reverse=True)  # the others never had a turn
    batch.drop([quick])
    assert not batch.is_idle
    event.set()
    end = time.monotonic() + 120
    while not batch.is_idle and time.monotonic() < end:
        batch.step()
    assert batch.is_idle and not batch._dropped
    watchdog.cancel()
    last = row_of(3, among)
    batch.add([last])
    finish(batch, 5000)
    assert last.finish is not None
    batch.close()


class Watched(DistributionModel):
    """Notes how long the prompts are that it is given at once, and how wide its passes."""

    def __init__(self) -> None:
        super().__init__(VOCABULARY, distribution)
        self.parts: list[int] = []
        self.widths: list[int] = []

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        session = super().start(prompts)
        self.parts.append(len(prompts[0]))
        append = session.append

        def watched(tokens: Sequence[Sequence[int]]) -> None:
            self.widths.append(max(len(new) for new in tokens))
            append(tokens)

        session.append = watched  # type: ignore[method-assign]
        return session


@pytest.mark.parametrize("wants_scores", [False, True])
def test_a_forced_text_does_not_widen_the_passes_of_many(wants_scores: bool) -> None:
    among = Watched()
    batch = ContinuousBatch(among, most_rows=8, prompt_tokens=8)
    rows = [row_of(3, among, seed=seed, max_tokens=30) for seed in range(6)]
    constant = sg.regex("[ab]" + "1" * 60)
    options = SamplingOptions(seed=3, max_tokens=80, exact_weight=wants_scores)
    forced = Row(9, [0], open_matcher(constant, VOCABULARY), options, VOCABULARY, row_seed(3, 0))
    forced.prepare(None)
    for row in [*rows, forced]:
        batch.add([row])
    ended = []
    while any(row.finish is None for row in rows) and forced.finish is None:
        before = len(among.widths)
        ended += [row for row in batch.step() if row.finish is not None]
        if batch.running >= 6:
            assert set(among.widths[before:]) <= {1, 2}
    finish(batch)
    (alone,) = generate_tokens(among, [[0]], [open_matcher(constant, VOCABULARY)], [options])
    assert (forced.text, forced.tokens) == (alone.text, alone.tokens)
    if wants_scores:
        assert forced.logprob == pytest.approx(alone.logprob, abs=1e-4)
        assert forced.log_weight == pytest.approx(alone.log_weight, abs=1e-4)
    batch.close()


def test_a_forced_text_alone_is_read_at_once() -> None:
    among = Watched()
    batch = ContinuousBatch(among, prompt_tokens=8)
    options = SamplingOptions(seed=3, max_tokens=80)
    row = Row(
        0, [0], open_matcher(sg.regex("[ab]" + "1" * 20), VOCABULARY), options, VOCABULARY, row_seed(3, 0)
    )
    row.prepare(None)
    batch.add([row])
    finish(batch)
    assert row.finish == "complete" and max(among.widths) >= 20
    batch.close()


def test_prompts_join_one_at_a_time_where_others_wait() -> None:
    among = Watched()
    batch = ContinuousBatch(among, most_rows=8, prompt_tokens=16)
    batch.add([row_of(3, among, seed=seed) for seed in range(4)])
    batch.step()
    late = [row_of(3, among, seed=10 + number) for number in range(3)]
    for row in late:
        batch.add([row])
    before = len(among.parts)
    for read in (1, 2, 3):
        batch.step()
        assert len(among.parts) == before + read
    finish(batch)
    batch.close()


class Broken(DistributionModel):
    def start(self, prompts: object) -> object:
        raise RuntimeError("out of memory")


def test_what_the_model_raises_ends_rows_and_not_the_batch() -> None:
    broken = Broken(VOCABULARY, distribution)
    batch = ContinuousBatch(broken)
    batch.add([row_of(0, broken)])
    (row,) = finish(batch)
    assert row.finish == "failed" and "out of memory" in str(row.error)
    assert batch.is_idle
    batch.close()


def test_what_a_matcher_raises_ends_its_row_alone() -> None:
    among = model()
    batch = ContinuousBatch(among)
    faulty, fine = row_of(3, among), row_of(0, among)

    class Faulty(Held):
        def mask(self) -> object:
            raise KeyError("no")

    faulty._matcher = Faulty(faulty.matcher, threading.Event(), HandClock())
    batch.add([faulty])
    batch.add([fine])
    finish(batch)
    assert faulty.finish == "failed" and "KeyError" in str(faulty.error)
    assert fine.finish in ("complete", "length")
    batch.close()


def test_options_are_checked() -> None:
    with pytest.raises(OptionError):
        ContinuousBatch(model(), most_rows=0)
    batch = ContinuousBatch(model(), most_rows=1)
    with pytest.raises(OptionError, match="1 to 1"):
        batch.add([row_of(0, model())] * 2)


def test_turns_leave_after_what_takes_long(clock: HandClock) -> None:
    made = TaskThreads(0.02, 4)
    seen: list[int] = []
    free = threading.Event()

    def task(number: int) -> None:
        if number == 1:
            clock.advance(1.0)
            assert free.wait(120)
        seen.append(number)

    done = made.run([lambda n=n: task(n) for n in range(4)])  # type: ignore[misc]
    assert done == [True, False, True, True] and seen == [0, 2, 3]
    assert made.run([]) == []
    free.set()
    assert made.run([lambda: None]) == [True]
    made.close()


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="threads tell no CPU time here")
def test_a_task_that_only_waits_is_waited_for_longer(clock: HandClock) -> None:
    made = TaskThreads(0.2, 4)
    free = threading.Event()

    def waits() -> None:
        clock.advance(0.3)
        until = (
            clock.readings + 2
        )  # the second one is later than this, no matter who was reading the clock just now
        while clock.readings < until:
            time.sleep(0.001)

    def busy() -> None:
        clock.advance(0.3)
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            sum(range(1000))
        assert free.wait(120)

    assert made.run([waits, busy]) == [True, False]
    free.set()
    made.close()
