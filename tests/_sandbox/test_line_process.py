"""Children that exchange lines of JSON with their parent, and what is left of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from structgen._sandbox.line_process import LineProcess, describe_exit
from structgen._sandbox.spawn import child_environment, python_command

ECHO = """
import sys
for line in sys.stdin:
    print(line.strip(), flush=True)
    print("seen", line.strip(), file=sys.stderr, flush=True)
"""
WAIT = 600.0


@pytest.fixture
def started() -> Iterator[Callable[..., LineProcess]]:
    made = []

    def start(program: str, **options: Any) -> LineProcess:
        process = LineProcess(python_command(program), environment=child_environment(), **options)
        made.append(process)
        process.start()
        return process

    yield start
    for process in made:
        process.close()


def test_lines_go_and_come(started: Callable[..., LineProcess]) -> None:
    process = started(ECHO)
    process.send('{"a": 1}')
    process.send('{"b": 2}')
    assert process.next_line(WAIT) == {"a": 1}
    assert process.next_line(WAIT) == {"b": 2}
    assert process.next_line(0.0) is None
    assert process.is_started and process.is_running and process.usage().resident_bytes >= 0


def test_error_output_is_kept_and_cleared(started: Callable[..., LineProcess]) -> None:
    process = started("import sys; print('x' * 100 + 'end', file=sys.stderr)")
    assert process.wait(WAIT) == 0
    assert process.error_output(5) == "xend\n"
    process.clear_error_output()
    assert process.error_output(5) == ""


def test_the_end_of_the_output_is_reported(started: Callable[..., LineProcess]) -> None:
    process = started("import os; os.write(1, b'{}\\n{'); os._exit(3)")
    assert process.next_line(WAIT) == {}
    with pytest.raises(EOFError):
        process.next_line(WAIT)
    assert describe_exit(process.wait()) == "exit status 3"
    assert process.is_started and not process.is_running
    with pytest.raises(BrokenPipeError):
        process.send("{}")


def test_too_much_output_without_a_line_counts_as_an_end(started: Callable[..., LineProcess]) -> None:
    process = started("import os; os.write(1, b'x' * 5_000); input()", most_bytes=1_000)
    with pytest.raises(EOFError):
        process.next_line(WAIT)


def test_a_killed_process_is_gone_and_another_can_start(started: Callable[..., LineProcess]) -> None:
    process = started(ECHO)
    process.send("{}")
    assert process.next_line(WAIT) == {}
    number = process._child.pid
    process.interrupt()
    assert describe_exit(process.wait()) == signal.SIGKILL.name
    process.kill()
    assert not process.is_started
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
    process.start()
    process.send('{"again": true}')
    assert process.next_line(WAIT) == {"again": True}
