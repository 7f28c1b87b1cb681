"""`structgen serve` as a process: it starts, reports its address, drains, and leaves no processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from structgen.cli import main, serve
from structgen.serving import probe_process

from .conftest import until
from .processes import Process, running


@pytest.fixture
def process() -> Iterator[Process]:
    # However busy the machine is, the texts of these tests end within this time.
    started = Process("--drain-seconds", "600", STRUCTGEN_API_KEY="secret")
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.end()


def test_sigterm_lets_running_requests_end(process: Process) -> None:
    children = process.children()
    assert children, "there is no process that compiles"
    assert "with an API key" in process.text and "secret" not in process.text
    found: list[tuple[int, Any]] = []
    regex: dict[str, Any] = {"structured_outputs": {"regex": "[a-z]{300}"}, "max_tokens": 300}
    # The constraint is compiled before: a busy machine may refuse to compile one with the status 503.
    until(lambda: process.post(600, **{**regex, "seed": 1})[0] == 200, 600)
    thread = threading.Thread(target=lambda: found.append(process.post(600, **regex)))
    thread.start()
    until(lambda: running(process) == 1)
    for number in (*children, process.process.pid):  # as service managers do it
        os.kill(number, signal.SIGTERM)
    until(lambda: "draining: 1 requests" in process.text)
    assert all(Path(f"/proc/{child}").exists() for child in children)
    status, body = process.post()
    assert status == 503 and body["error"]["code"] == "draining"
    thread.join(600)
    status, body = found[0]
    assert status == 200, body
    assert re.fullmatch("[a-z]{300}", body["choices"][0]["message"]["content"])
    assert process.end() == 0
    assert "Traceback" not in process.text
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_a_second_signal_ends_at_once(process: Process) -> None:
    children = process.children()
    thread = threading.Thread(target=lambda: interrupted(process))
    thread.start()
    until(lambda: running(process) == 1)
    process.process.send_signal(signal.SIGTERM)
    until(lambda: "draining" in process.text)
    process.process.send_signal(signal.SIGTERM)
    assert process.end() == 1  # long before the time to drain has passed
    thread.join(300)
    assert not thread.is_alive()
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def interrupted(process: Process) -> None:
    with contextlib.suppress(OSError):
        process.post(structured_outputs={"regex": "[a-z]{9000}"}, max_tokens=4000)


def test_the_process_that_started_the_server_may_have_ended() -> None:
    """The reader of the server's output has ended, too."""
    command = [sys.executable, "-m", "structgen", "serve", "--port", "0", "--name", "tiny"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any("try: curl" in line for line in process.stderr)
            process.stderr.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(300) == 0
        finally:
            process.kill()


def test_a_port_in_use_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        assert main(["serve", "--port", str(door.getsockname()[1])]) == 2
    assert "cannot listen" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-rows", "0"], "--max-rows is 0; it must be a whole number above 0"),
        (["--drain-seconds", "nan"], "--drain-seconds is nan; it must be a number of 0 or more"),
        (["--drain-seconds", "inf"], "--drain-seconds is inf"),
        (["--max-matcher-processes", "0"], "--max-matcher-processes is 0"),
        (["--compile-seconds", "nan"], "--compile-seconds is nan"),
        (["--port", "99999"], "cannot listen on 127.0.0.1:99999"),
        (["--max-rows", "few"], "'few' is not a whole number"),
        (["--tool-format", "klingon"], "klingon"),
        (["--api-key", " "], "key is empty"),
        (["--request-seconds", "-1"], "--request-seconds is -1.0; it must be a number above 0"),
    ],
)
def test_bad_options_are_reported(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("value", ["", " ", ","])
def test_a_variable_without_a_key_does_not_open_the_server(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STRUCTGEN_API_KEY", value)
    assert main(["serve", "--port", "0"]) == 2
    assert "STRUCTGEN_API_KEY has no key in it" in capsys.readouterr().err


def test_a_server_that_could_compile_nothing_does_not_start(
    model: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "load_model", lambda name: model)
    monkeypatch.setattr(
        probe_process, "_COMMAND", [sys.executable, "-c", "raise SystemExit('no such thing')"]
    )
    assert main(["serve", "--port", "0"]) == 2
    printed = capfd.readouterr().err
    assert "the server cannot start: the process that compiles constraints does not start" in printed
    assert "no such thing" in printed and "structgen doctor" in printed
    assert "served at" not in printed and "Traceback" not in printed


def test_the_model_is_loaded_on_a_thread_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise OpenMP keeps the loading thread's workers asleep beside those of the serving thread."""
    seen: list[Any] = []

    def load(name: str | None) -> str:
        seen.append(threading.current_thread())
        return f"model {name}"

    monkeypatch.setattr(serve, "load_model", load)
    assert serve._on_a_thread(lambda: serve.load_model("x")) == "model x"
    assert seen[0] is not threading.main_thread() and not seen[0].is_alive()
