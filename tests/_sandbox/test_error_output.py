"""The standard error of a child is passed on, and its end is kept."""

from __future__ import annotations

import subprocess
import sys

import pytest

from structgen._sandbox.error_output import ErrorOutput
from structgen._sandbox.spawn import end_process, python_command, start_failure, start_python
from tests.unhurried import HANG_SECONDS


def started(program: str) -> tuple[subprocess.Popen[bytes], ErrorOutput]:
    return start_python(python_command(program), stdin=subprocess.DEVNULL)


def test_it_is_passed_on_and_its_end_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    child, errors = started("import sys; sys.stderr.write('x' * 100_000 + '\\nthe reason\\n\\n')")
    assert errors.last_line(HANG_SECONDS) == "the reason"
    assert len(errors.text(0)) < 10_000
    end_process(child)
    assert capfd.readouterr().err == "x" * 100_000 + "\nthe reason\n\n"


def test_a_child_that_is_silent_has_no_last_line() -> None:
    child, errors = started("pass")
    assert errors.text(HANG_SECONDS) == "" and errors.last_line(0) == ""
    end_process(child)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise SystemExit('no such thing')", "it ended with status 1: no such thing"),
        ("raise SystemExit(3)", "it ended with status 3"),
        ("import os; os.kill(os.getpid(), 15)", "SIGTERM ended it"),
        ("import time; time.sleep(600)", "it started, but was not ready in time"),
        ("import nothing_of_this_name", "it ended with status 1: ModuleNotFoundError: No module named"),
    ],
)
def test_why_a_child_did_not_start(program: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    child, errors = started(program)
    if "sleep" in program:
        monkeypatch.setattr("structgen._sandbox.spawn._END_SECONDS", 0.01)
    else:
        child.wait(HANG_SECONDS)
    assert start_failure(TimeoutError(), child, errors).startswith(said)
    end_process(child)


def test_a_command_that_does_not_exist_leaves_nothing_open() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        start_python(["/nowhere/python"], stdin=subprocess.DEVNULL)
    assert "/nowhere/python" in start_failure(caught.value)
    assert "forbids" in start_failure(PermissionError(1, "Operation not permitted"))
    assert "no more processes" in start_failure(BlockingIOError(11, "Resource temporarily unavailable"))


@pytest.mark.skipif(sys.platform != "linux", reason="a working directory cannot be deleted elsewhere")
def test_a_child_starts_in_a_directory_that_was_deleted(tmp_path: object) -> None:
    program = (
        "import os, subprocess, sys, tempfile\n"
        "folder = tempfile.mkdtemp()\n"
        "os.chdir(folder)\n"
        "os.rmdir(folder)\n"
        "sys.path.insert(0, '')\n"
        "from structgen._sandbox.spawn import python_command, start_python\n"
        "child, errors = start_python(python_command('import structgen, json'), stdin=subprocess.DEVNULL)\n"
        "print(child.wait(), errors.text(60))\n"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.stdout.strip() == "0", child.stdout + child.stderr
