"""After any fault of a server the result is None, the reason is recorded, and the next query is answered."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from structgen.monitors.language_server import LanguageServer

from .conftest import Fake, eventually

PLACE = Path("file.txt")


@pytest.mark.parametrize(
    ("word", "reason", "message"),
    [
        ("CRASH", "crash", "ended with status 3; it wrote:\nthe last words"),
        ("GARBAGE", "nonsense", "no header: 'a line that a program printed"),
        ("BODY", "nonsense", "no JSON"),
        ("LIST", "nonsense", "no object"),
        ("HUGE", "nonsense", "99999999999 bytes, more than"),
        ("CUT", "nonsense", "after 1 of 100 bytes"),
    ],
)
def test_a_broken_server_is_started_again(fake: Fake, word: str, reason: str, message: str) -> None:
    server = fake()
    assert server.completions(PLACE, f"{word} x.", len(word) + 3).result() is None
    assert server.completions(PLACE, "x.", 2).result() is not None
    assert server.health.faults == {reason: 1}
    assert message in server.health.last[0].message
    assert (server.health.restarts, server.health.failed, server.health.answered) == (1, 1, 1)


@pytest.mark.parametrize(
    ("word", "reason"), [("ERROR", "refused"), ("NUMBER", "nonsense"), ("NAMELESS", "nonsense")]
)
def test_a_bad_answer_costs_no_restart(fake: Fake, word: str, reason: str) -> None:
    server = fake()
    text = f"{word} x."
    assert server.completions(PLACE, text, len(text)).result() is None
    assert server.signatures(PLACE, text, len(text)).result() is None
    assert server.completions(PLACE, "x.", 2).result() is not None
    assert server.health.faults == {reason: 2}
    assert server.health.restarts == 0


def test_answers_without_a_request_are_recorded_and_ignored(fake: Fake) -> None:
    server = fake()
    assert server.completions(PLACE, "WRONG x.", 8).result() is not None
    assert server.health.faults == {"nonsense": 2}
    assert "request 987654 that was not made" in str(server.health)


def test_a_late_answer_is_unknown(fake: Fake) -> None:
    server = fake()
    assert server.completions(PLACE, "x.", 2).result() is not None
    server.timeout = 0.05
    assert server.completions(PLACE, "SILENT x.", 9).result() is None
    server.timeout = 300.0
    assert server.completions(PLACE, "x.y", 2).result() is not None
    assert server.health.faults == {"late": 1}
    assert "completions: no answer within 0.05 s" in str(server.health)


def test_a_server_that_hangs_is_started_again(fake: Fake) -> None:
    # The new server hangs for this long if a query reaches it before the end of the old one is recorded.
    server = fake({"warm_up": 20.0})
    assert server.completions(PLACE, "x.", 2).result() is not None
    server.timeout = 0.05

    def hangs() -> bool:
        assert server.completions(PLACE, "HANG x.", 7).result() is None
        # The end of the server is recorded a little later. A query before that would make the new one hang, too.
        return eventually(lambda: "hang" in server.health.faults, 0.3)

    assert eventually(hangs)
    server.timeout = 300.0
    assert eventually(lambda: server.completions(PLACE, "x.", 2).result() is not None), str(server.health)
    assert 1 <= server.health.restarts <= server.health.faults["hang"]


def test_a_cold_server_that_is_slow_is_left_alone(fake: Fake) -> None:
    server = fake({"timeout": 0.02, "warm_up": 0.02}, mute=True)
    for _ in range(5):
        assert server.completions(PLACE, "x.", 2).result() is None
    assert server.health.faults == {"late": 5} and server.health.restarts == 0


def test_a_query_can_be_cancelled(fake: Fake, tmp_path: Path) -> None:
    server = fake(heard=str(tmp_path / "heard"))
    assert server.completions(PLACE, "x.", 2).result() is not None
    future = server.signatures(PLACE, "SILENT ", 0)
    assert eventually((tmp_path / "heard").exists)
    assert future.cancel()
    found = server.signatures(PLACE, "x", 0).result()
    assert found is not None and '"$/cancelRequest"' in found.items[0].label
    assert server.health.cancelled == 1 and not server.health.faults


def test_the_next_query_does_not_wait_for_a_cancelled_one(fake: Fake) -> None:
    server = fake({"timeout": 600.0, "warm_up": 600.0})
    futures = [server.signatures(PLACE, "SILENT ", 0) for _ in range(3)]
    began = time.monotonic()
    assert all(future.cancel() for future in futures)
    assert server.signatures(PLACE, "x", 0).result() is not None
    assert time.monotonic() - began < 300


def test_starts_that_fail_are_tried_again(fake: Fake, tmp_path: Path) -> None:
    server = fake(fails=2, log=str(tmp_path / "log"))
    assert server.completions(PLACE, "x.", 2).result() is not None
    assert server.health.faults == {"crash": 2} and server.health.restarts == 2


def test_a_server_that_never_starts_is_given_up(fake: Fake, tmp_path: Path) -> None:
    server = fake({"restarts": 1}, fails=9, log=str(tmp_path / "log"))
    assert server.completions(PLACE, "x.", 2).result() is None
    assert server.completions(PLACE, "x.", 2).result() is None
    assert server.health.faults == {"crash": 2, "given up": 1} and server.health.failed == 2
    assert len((tmp_path / "log").read_text().split()) == 2


def test_a_server_that_keeps_crashing_is_given_up(fake: Fake) -> None:
    server = fake({"restarts": 1})
    for _ in range(3):
        assert server.completions(PLACE, "CRASH x.", 8).result() is None
    assert server.health.faults == {"crash": 2, "given up": 1}
    assert "2 x crash" not in repr(server) and "crash" in repr(server.health)


def test_a_command_that_cannot_be_run(fake: Fake, tmp_path: Path) -> None:
    with LanguageServer("none", [str(tmp_path / "missing")], tmp_path, "other", restarts=0) as server:
        assert server.completions(PLACE, "x.", 2).result() is None
        assert server.health.faults == {"start": 1, "given up": 1}


def test_much_on_standard_error_stops_nothing(fake: Fake) -> None:
    assert fake(talk=True).completions(PLACE, "x.", 2).result() is not None


def test_missing_pushes_are_late(fake: Fake) -> None:
    server = fake(push="versions")
    assert server.diagnostics(PLACE, "a").result() is not None
    server.timeout = 0.05
    assert server.diagnostics(PLACE, "QUIET").result() is None
    assert server.health.faults == {"late": 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_gets_no_result_at_once(fake: Fake) -> None:
    server = fake()
    assert server.completions(PLACE, "x.", 2).result() is not None
    child = os.fork()
    if child == 0:
        found = server.completions(PLACE, "x.", 2).result()
        server.close()
        os._exit(7 if found is None and server.health.faults == {"closed": 1} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert server.completions(PLACE, "x.", 2).result() is not None
