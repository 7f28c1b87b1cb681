"""Engines that crash, hang and eat memory, each in a real process: a record says so, and the next schema is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from structgen.errors import ModelError
from structgen.evaluation.contained import Contained
from structgen.evaluation.records import CoverageRecord
from structgen.evaluation.worker import Question, Role

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
def test_what_an_engine_does_is_one_record(
    process: Contained, title: str, status: str, said: str | None
) -> None:
    told = process.ask(_question(title))
    assert isinstance(told, CoverageRecord)
    assert (told.item, told.status) == (title, status), told.message
    assert told.message is None if said is None else said in str(told.message)
    assert told.verdicts == (
        ((True, True), (False, False)) if status == "ok" else ((True, False), (False, False))
    )
    after = process.ask(_question("after"))
    assert after.status == "ok" and after.item == "after"


def test_an_engine_that_eats_memory_is_one_record() -> None:
    # Time enough: some machines need more than half a second of the processor to hand out 200 MiB.
    with Contained(role(seconds=60.0)) as process:
        eaten = process.ask(_question("memory"))
        assert (eaten.status, eaten.message) == ("memory", "it takes more than 200 MiB")
        assert process.ask(_question("after")).status == "ok"


def test_an_interrupt_ends_what_is_asked() -> None:
    import threading

    with Contained(role(seconds=60.0)) as process:
        process.start()
        threading.Timer(1.0, process.interrupt).start()
        assert process.ask(_question("sleep")).status != "timeout"


def test_no_process_is_left() -> None:
    with Contained(role()) as process:
        process.start()
        assert process._process is not None
        number = process._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_process_that_does_not_start_says_why() -> None:
    with Contained(role(engine="nothing")) as process, pytest.raises(ModelError, match="no engine 'nothing'"):
        process.start()
    wrong = role(model="no/such/model/here")
    with Contained(wrong) as process, pytest.raises(ModelError, match="no folder 'no/such/model/here'"):
        process.start()
