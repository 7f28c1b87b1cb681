"""Engines that crash, hang or exhaust memory in a real process: a record says so, and the next schema is tested."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import IO

import pytest

from structgen._sandbox import line_process
from structgen._sandbox.polling import is_readable
from structgen._sandbox.usage import ProcessUsage
from structgen.errors import ModelError
from structgen.evaluation import contained
from structgen.evaluation.contained import Contained
from structgen.evaluation.records import CoverageRecord
from structgen.evaluation.worker import Question, Role
from tests.clocks import HandClock

BAD = "tests.evaluation.bad_engines:BadEngine"


def role(**changes: object) -> Role:
    values: dict[str, object] = {
        "engine": BAD,
        "writes": False,
        "model": "bytes",
        "seed": 0,
        "max_tokens": 20,
        "temperature": 0.0,
        "seconds": 0.5,
        "memory": 200,
        "threads": 1,
        "api_key_env": None,
    }
    return Role(**values | changes)  # type: ignore[arg-type]


def _question(title: str) -> Question:
    tests = ((True, 1), (False, "x"))
    return Question("coverage", BAD, "d", "p", title, {"type": "integer", "title": title}, tests)


@pytest.fixture(scope="module")
def process() -> Iterator[Contained]:
    with Contained(role()) as process:
        yield process


@pytest.mark.parametrize(
    ("title", "status", "said"),
    [
        ("crash", "crash", "SIGSEGV"),
        ("kill", "memory", "its process was killed"),
        ("abort", "memory", "SIGABRT: memory allocation of 7 bytes failed"),
        ("spin", "timeout", "more than 0.5 s of the processor"),
        ("sleep", "timeout", "it waits for more than 0.5 s"),
        ("panic", "refused", "BaseException: a panic"),
        ("wrong", "error", "KeyError: 'lost'"),
        ("print", "ok", None),
        ("fine", "ok", None),
    ],
)
def test_every_outcome_of_an_engine_is_one_record(
    process: Contained, title: str, status: str, said: str | None
) -> None:
    report = process.ask(_question(title))
    assert isinstance(report, CoverageRecord)
    assert (report.item, report.status) == (title, status), report.message
    assert report.message is None if said is None else said in str(report.message)
    assert report.verdicts == (
        ((True, True), (False, False)) if status == "ok" else ((True, False), (False, False))
    )
    after = process.ask(_question("after"))
    assert after.status == "ok" and after.item == "after"


def test_an_engine_that_exhausts_memory_is_one_record() -> None:
    # Some machines need more than half a second of CPU time to allocate 200 MiB.
    with Contained(role(seconds=60.0)) as process:
        eaten = process.ask(_question("memory"))
        assert (eaten.status, eaten.message) == ("memory", "it takes more than 200 MiB")
        assert process.ask(_question("after")).status == "ok"


def test_an_interrupt_ends_the_running_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with Contained(role(seconds=60.0)) as process:
        sent = threading.Event()
        patience = process._patience

        def sends() -> float:
            sent.set()
            return patience()

        monkeypatch.setattr(process, "_patience", sends)
        interrupting = threading.Thread(target=lambda: sent.wait(600) and process.interrupt())
        interrupting.start()
        assert process.ask(_question("sleep")).status != "timeout"
        interrupting.join()
        assert process.starts == 1


def test_an_answer_that_is_read_late_is_not_a_timeout(
    process: Contained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine this process may stall for seconds while the other one answers."""
    clock = HandClock()
    looked = 0

    def look(pipe: IO[bytes], seconds: float) -> bool:
        nonlocal looked
        looked += 1
        if looked > 1:
            return is_readable(pipe, seconds)
        assert is_readable(pipe, 600)  # it has answered and sleeps
        clock.advance(30.0)
        return False

    process.start()
    monkeypatch.setattr(contained, "monotonic", clock.monotonic)
    monkeypatch.setattr(line_process, "is_readable", look)
    monkeypatch.setattr(process._process, "usage", ProcessUsage)  # as of one that waits
    assert process.ask(_question("fine")).status == "ok" and looked > 1


def test_no_process_is_left() -> None:
    with Contained(role()) as process:
        process.start()
        number = process._process._child.pid
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_process_that_does_not_start_says_why() -> None:
    with Contained(role(engine="nothing")) as process, pytest.raises(ModelError, match="no engine 'nothing'"):
        process.start()
    wrong = role(model="no/such/model/here")
    with Contained(wrong) as process, pytest.raises(ModelError, match="no folder 'no/such/model/here'"):
        process.start()
