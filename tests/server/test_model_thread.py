"""The model's thread pauses for work that runs only when the processors are idle."""

from __future__ import annotations

import itertools
import time
from collections import deque
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from structgen._core import StopFlag
from structgen.constraints.regex import regex
from structgen.errors import GenerationError, LimitExceeded
from structgen.matcher import Matcher
from structgen.server import model_thread
from structgen.server.errors import failed
from structgen.server.model_thread import ModelThread, computes_here
from structgen.server.row_text import RowText
from structgen.server.service import Service
from structgen.server.settings import ServerSettings
from structgen.server.ticket import Ticket
from tests.unhurried import HANG_SECONDS

from .conftest import NAME, until


class Clock:
    """A stand-in for the module `time`: reading it takes `tick` seconds, sleeping takes none."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.tick = 0.03
        self.slept: list[float] = []
        self._looks = 0

    def perf_counter(self) -> float:
        self._looks += 1
        return self.tick * self._looks

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    faked = Clock()
    monkeypatch.setattr(model_thread, "time", faked)
    return faked


def rounds(model: Any, count: int, is_there: bool) -> None:
    """Run `count` rounds of a model thread. Each call counts as a round."""
    it = ModelThread(model, ServerSettings(model_name=NAME), has_slow_work=lambda: is_there)
    it.start()
    assert [it.call(lambda number=number: number) for number in range(count)] == list(range(count))
    it.close()


@pytest.mark.parametrize(("took", "pause"), [(0.03, 0.006), (0.3, 0.025)])
def test_it_pauses_a_fifth_of_a_round_and_25_ms_at_most(
    model: Any, clock: Clock, took: float, pause: float
) -> None:
    clock.tick = took
    rounds(model, 4, True)
    assert clock.slept == pytest.approx([pause] * 3)  # a call and a pause are never in one round


def test_it_does_not_pause_when_no_slow_work_runs(model: Any, clock: Clock) -> None:
    rounds(model, 4, False)
    assert not clock.slept


def test_it_does_not_pause_where_another_device_computes(model: Any, clock: Clock) -> None:
    elsewhere = SimpleNamespace(device=SimpleNamespace(type="cuda"), vocabulary=model.vocabulary)
    assert computes_here(model) and not computes_here(elsewhere)
    rounds(elsewhere, 4, True)
    assert not clock.slept


def test_the_compiler_reports_slow_work_to_the_model_thread(model: Any) -> None:
    service = Service(model, ServerSettings(model_name=NAME))
    try:
        assert not service.model_thread._has_slow_work()
        with service.compiler.slow_work:
            assert service.model_thread._has_slow_work()
        assert not service.model_thread._has_slow_work()
    finally:
        service.close()


def test_a_step_that_does_not_end_is_reported_as_stalled(model: Any) -> None:
    import threading

    it = ModelThread(model, ServerSettings(model_name=NAME, stall_seconds=0.05))
    assert it.stalled_seconds is None
    it.start()
    released, started = threading.Event(), threading.Event()
    waiting = threading.Thread(target=lambda: it.call(lambda: (started.set(), released.wait(HANG_SECONDS))))
    waiting.start()
    assert started.wait(HANG_SECONDS)
    time.sleep(0.1)
    seconds = it.stalled_seconds
    assert seconds is not None and seconds > 0.05
    released.set()
    waiting.join(HANG_SECONDS)
    until(lambda: it.stalled_seconds is None)
    it.close()


def test_only_passes_beside_rows_that_read_decide_how_many_tokens_the_next_one_gets(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = ModelThread(model, ServerSettings(model_name=NAME))
    it.batch._members = [object()]  # type: ignore[list-item]
    measured: list[float] = []
    monkeypatch.setattr(it, "_adapt_call_tokens", lambda *seconds: measured.append(min(seconds)))
    for changed, reads, expected in [([], True, 0), ([object()], False, 0), ([object()], True, 1)]:
        monkeypatch.setattr(it.batch, "step", lambda *, prompts, changed=changed: changed)
        call = model_thread._Call(lambda: 1, Future(), reads)
        it._round(deque(), deque(), call)
        assert call.future.result() == 1
        assert len(measured) == expected


def test_a_call_in_a_round_that_fails_ends_with_an_error(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    it = ModelThread(model, ServerSettings(model_name=NAME))

    def fails(*_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(it, "_round", fails)
    it.start()
    with pytest.raises(GenerationError, match="out of memory"):
        it.call(lambda: 1)
    it.close()


def test_rows_that_wait_for_their_masks_are_reported_as_stalled(model: Any) -> None:
    import threading

    from structgen.generation.options import SamplingOptions
    from structgen.generation.row import Row, Unconstrained

    released, started = threading.Event(), threading.Event()

    class Stuck(Unconstrained):
        def allowed_count(self) -> int:
            started.set()
            released.wait(HANG_SECONDS)
            return 1

        def mask(self) -> Any:
            import numpy as np

            return np.full(model.vocabulary.words, -1, np.int32)

    it = ModelThread(model, ServerSettings(model_name=NAME, stall_seconds=0.05))
    row = Row(0, [1, 2], Stuck(), SamplingOptions(max_tokens=1), model.vocabulary, (1,))
    row.prepare(None)
    ticket = Ticket([row], [RowText(model.vocabulary.decode)], lambda: None)
    it.start()
    it.submit(ticket)
    assert started.wait(HANG_SECONDS)
    until(lambda: it.stalled_seconds is not None)
    released.set()
    until(lambda: ticket.is_done and it.stalled_seconds is None)
    it.close()


def test_samplers_read_few_tokens_where_others_run(model: Any) -> None:
    it = ModelThread(model, ServerSettings(model_name=NAME, prompt_tokens=8))
    assert it.most_call_tokens() == 64
    it.batch._members = [object()]  # type: ignore[list-item]
    assert it.most_call_tokens() == 8
    it._adapt_call_tokens(0.25, 0.1)
    assert it.most_call_tokens() == 4
    it._adapt_call_tokens(9.0, 0.1)
    it._adapt_call_tokens(0.11, 0.1)
    assert it.most_call_tokens() == 4
    it._adapt_call_tokens(0.05, 0.1)
    it._adapt_call_tokens(0.05, 0.1)
    assert it.most_call_tokens() == 8


def test_closing_stops_the_calls_of_rows_that_run(model: Any) -> None:
    import threading

    from structgen.generation.options import SamplingOptions
    from structgen.generation.row import Row, Unconstrained

    stopped, started = threading.Event(), threading.Event()

    class Endless(Unconstrained):
        def allowed_count(self) -> int:
            started.set()
            assert stopped.wait(HANG_SECONDS)
            raise LimitExceeded("the client has disconnected", limit="disconnected")

        def on_disconnect(self) -> None:
            stopped.set()

    it = ModelThread(model, ServerSettings(model_name=NAME))
    row = Row(0, [1, 2], Endless(), SamplingOptions(max_tokens=1), model.vocabulary, (1,))
    row.prepare(None)
    ticket = Ticket([row], [RowText(model.vocabulary.decode)], lambda: None)
    it.start()
    it.submit(ticket)
    assert started.wait(HANG_SECONDS)
    it.close()
    assert stopped.is_set() and not it.is_alive and ticket.is_done
    error = ticket.rows[0].error
    assert error is not None and failed(error).code == "draining"


def test_closing_stops_the_calls_of_samplers(model: Any) -> None:
    service = Service(model, ServerSettings(model_name=NAME, compilers=0))
    stop = StopFlag()
    service._sampler_stops.add(stop)
    service.close()
    assert stop.is_set()


def test_calls_and_prompts_take_turns(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round has a sampler pass or the prefill of a prompt, never both, and both make progress."""
    import threading

    from structgen.generation.options import SamplingOptions
    from structgen.generation.row import Row

    it = ModelThread(model, ServerSettings(model_name=NAME, prompt_tokens=8))
    seen: list[tuple[bool, int]] = []
    samples, has_ended = threading.Event(), threading.Event()
    step = it.batch.step

    def recorded(*, prompts: bool = True) -> list[Row]:
        before = it.batch.counts.prompt_tokens
        went_on = step(prompts=prompts)
        seen.append((prompts, it.batch.counts.prompt_tokens - before))
        if samples.is_set():
            until(lambda: it._calls or has_ended.is_set())  # the next round has a call to choose
        return went_on

    monkeypatch.setattr(it.batch, "step", recorded)
    tickets = []
    for number, (length, drawn) in enumerate([(2, 400), (200, 1)]):
        row = Row(
            number,
            [5] * length,
            Matcher(regex("[a-z ]+"), model.vocabulary),
            SamplingOptions(max_tokens=drawn, close_within_budget=False),
            model.vocabulary,
            (number,),
        )
        row.prepare(None)
        tickets.append(Ticket([row], [RowText(model.vocabulary.decode)], lambda: None))
    it.start()
    it.submit(tickets[0])
    until(lambda: it.batch.running == 1 and not it.batch.has_prompts)

    def calling() -> None:
        while not has_ended.is_set():
            it.call(lambda: None)

    sampler = threading.Thread(target=calling)
    sampler.start()
    samples.set()
    it.submit(tickets[1])
    until(lambda: tickets[1].is_done)
    has_ended.set()
    sampler.join(HANG_SECONDS)
    it.close()
    assert not any(read for prompts, read in seen if not prompts)
    parts = [place for place, (_, read) in enumerate(seen) if read]
    assert len(parts) >= 200 // 8
    assert any(not prompts for prompts, _ in seen[parts[1] : parts[-1]])
    assert max(b - a for a, b in itertools.pairwise(parts[1:])) <= 2
